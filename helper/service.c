#include "helper/service.h"

#include "helper/judge.h"
#include "hosted/log.h"
#include "hosted/system.h"
#include "secure/masked.h"
#include "secure/round.h"
#include "secure/secret.h"
#include "util/bytes.h"
#include "util/join_code.h"
#include "wire/helper/messages.h"
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REFRESH_S 1          // seconds until a change by the command line is noticed
#define WAITING_MAX 64u      // requests that wait for the thread
#define TICKET_BODY_MAX 512u // bytes of a TicketRequest
#define TOKEN_BYTES 16

enum route {
    ROUTE_EPOCH,
    ROUTE_TICKETS,
    ROUTE_SUMS,
};

// A request whose token is valid.
struct waiting {
    struct tern_http_exchange *exchange;
    enum route route;
    uint32_t federation;
    struct waiting *next;
};

// A federation's token, as the listener's threads check it.
struct admitted_token {
    uint32_t federation;
    uint8_t hash[TERN_SHA256_SIZE];
};

// A federation's last answer with noise. It is never stored: whoever has it and the ledger has the noise.
struct noisy_sum {
    uint32_t federation;
    uint8_t list_hash[TERN_SHA256_SIZE];
    uint8_t *packed; // sums of all groups, malloc'ed
    size_t size;
    struct noisy_sum *next;
};

struct tern_helper {
    struct tern_helper_config config;
    struct tern_ledger *ledger; // used by the thread alone
    struct noisy_sum *noisy;    // malloc'ed; used by the thread alone
    uint8_t signing_key[TERN_LEDGER_KEY_SIZE];
    pthread_t thread;

    pthread_mutex_t lock; // guards the members below
    pthread_cond_t wake;
    bool stops;
    struct waiting *first;
    struct waiting **end;
    uint32_t count;
    struct admitted_token *tokens;
    size_t token_count;
};

// --- Codes and tokens

enum tern_result tern_helper_make_token(char text[TERN_HELPER_TOKEN_TEXT],
                                        uint8_t hash[TERN_SHA256_SIZE])
{
    uint8_t secret[TOKEN_BYTES];
    TERN_TRY(tern_random_fill(secret, sizeof secret));
    tern_base64url_encode(secret, sizeof secret, text);
    tern_sha256(text, strlen(text), hash);
    return TERN_OK;
}

enum tern_result tern_helper_make_code(char text[TERN_JOIN_CODE_TEXT],
                                       uint8_t hash[TERN_SHA256_SIZE])
{
    uint8_t secret[TERN_JOIN_CODE_BYTES];
    TERN_TRY(tern_random_fill(secret, sizeof secret));
    tern_join_code_write(secret, text);
    tern_join_code_hash(text, hash);
    return TERN_OK;
}

// --- Answers

// The status and body of one reply.
struct answer {
    int status;
    struct tern_blob *body;
};

static void answer_bytes(struct answer *answer, const uint8_t *bytes, size_t len)
{
    answer->body = tern_blob_new(len);
    answer->status = answer->body != NULL ? 200 : 503;
    if (answer->body != NULL) {
        memcpy(answer->body->data, bytes, len);
    }
}

static void answer_error(struct answer *answer, int status, const char *name, const char *sentence)
{
    tern_Error error = tern_Error_init_zero;
    uint8_t bytes[sizeof error + 16];
    size_t len = 0;
    snprintf(error.name, sizeof error.name, "%s", name);
    snprintf(error.sentence, sizeof error.sentence, "%s", sentence);
    if (tern_wire_encode_error(&error, bytes, sizeof bytes, &len) == TERN_OK) {
        answer_bytes(answer, bytes, len);
    }
    answer->status = status;
}

static void answer_malformed(struct answer *answer, enum tern_result result)
{
    answer_error(answer, 400, tern_result_name(result), tern_result_sentence(result));
}

static void answer_refused(struct answer *answer, const struct tern_ledger_federation *federation,
                           const struct tern_judgement *judgement)
{
    const char *name = tern_helper_refusal_name(judgement->refusal);
    tern_log(TERN_LOG_WARN, "refused", "federation=%s name=%s detail=%s", federation->name, name,
             TERN_LOG_TEXT(judgement->sentence));
    answer_error(answer, tern_helper_refusal_status(judgement->refusal), name, judgement->sentence);
}

static void answer_failure(const struct tern_helper *helper, struct answer *answer,
                           enum tern_result result)
{
    tern_log(TERN_LOG_ERROR, "request-failed", "error=%s detail=%s", tern_result_name(result),
             TERN_LOG_TEXT(tern_ledger_why(helper->ledger)));
    answer_error(answer, 503, tern_result_name(result),
                 "The helper could not store or compute the answer. Nothing was released; try "
                 "again later.");
}

static void send_answer(struct waiting *waiting, struct answer *answer)
{
    struct tern_http_reply reply = {.status = answer->status,
                                    .retry_after_s = answer->status == 503 ? 1 : 0,
                                    .body = answer->body};
    tern_http_reply(waiting->exchange, &reply);
    free(waiting);
}

// --- Epochs

static uint64_t now_of(const struct tern_helper *helper)
{
    return helper->config.unix_ms != NULL ? helper->config.unix_ms() : tern_unix_ms();
}

enum tern_result tern_helper_begin_epoch(struct tern_ledger *ledger,
                                         const struct tern_ledger_federation *federation,
                                         struct tern_helper_time time,
                                         struct tern_ledger_epoch *epoch)
{
    // Devices refuse an epoch below that of their ticket. Numbers that follow the time stay above it in a ledger that was
    // restored from a backup, and in a federation that was added again.
    const uint64_t by_time = time.now_ms / time.epoch_ms;
    epoch->epoch = epoch->epoch < by_time ? by_time : epoch->epoch + 1;
    epoch->begins_ms = time.now_ms;
    TERN_TRY(tern_random_fill(epoch->private_key, sizeof epoch->private_key));
    TERN_TRY(tern_x25519_public(epoch->private_key, epoch->public_key));
    return tern_ledger_add_epoch(ledger, federation, epoch);
}

// Reads the current epoch of a federation. Begins the next one if the time of the newest is over.
static enum tern_result current_epoch(struct tern_helper *helper,
                                      const struct tern_ledger_federation *federation,
                                      struct tern_ledger_epoch *epoch)
{
    const uint64_t now_ms = now_of(helper);
    const enum tern_result found = tern_ledger_newest_epoch(helper->ledger, federation->id, epoch);
    if (found == TERN_ERR_NOT_FOUND) {
        epoch->epoch = 0;
    } else if (found != TERN_OK || now_ms < epoch->begins_ms + helper->config.epoch_ms) {
        return found;
    }
    const struct tern_helper_time time = {now_ms, helper->config.epoch_ms};
    TERN_TRY(tern_helper_begin_epoch(helper->ledger, federation, time, epoch));
    tern_log(TERN_LOG_INFO, "epoch", "federation=%s epoch=%" PRIu64, federation->name,
             epoch->epoch);
    return TERN_OK;
}

static uint32_t seconds_left(const struct tern_helper *helper,
                             const struct tern_ledger_epoch *epoch)
{
    const uint64_t ends_ms = epoch->begins_ms + helper->config.epoch_ms;
    const uint64_t now_ms = now_of(helper);
    return now_ms < ends_ms ? (uint32_t)((ends_ms - now_ms) / 1000) : 0;
}

// Returns whether the federation has this identity. The first request with the federation's token sets the identity.
static enum tern_result check_identity(struct tern_helper *helper,
                                       struct tern_ledger_federation *federation,
                                       const uint8_t identity[TERN_SHA256_SIZE], bool *matches)
{
    if (!federation->has_identity) {
        TERN_TRY(tern_ledger_set_identity(helper->ledger, federation, identity, now_of(helper)));
    }
    *matches = memcmp(federation->identity, identity, TERN_SHA256_SIZE) == 0;
    return TERN_OK;
}

static struct tern_judgement refuse_federation(const struct tern_ledger_federation *federation)
{
    struct tern_judgement judgement = {.refusal = TERN_REFUSED_FEDERATION};
    snprintf(judgement.sentence, sizeof judgement.sentence,
             "The token belongs to the federation %s, which has another id than the request. Each "
             "federation needs a token of its own.",
             federation->name);
    return judgement;
}

// Reads the end of the log, and signs it for the federation.
static enum tern_result sign_log(struct tern_helper *helper,
                                 const uint8_t federation[TERN_SHA256_SIZE],
                                 struct tern_helper_log *log)
{
    uint8_t hash[TERN_SHA256_SIZE];
    TERN_TRY(tern_ledger_log_head(helper->ledger, &log->count, log->head));
    tern_helper_log_statement(federation, log, hash);
    return tern_p256_sign(helper->signing_key, hash, log->signature);
}

static enum tern_result encode_epoch(struct tern_helper *helper,
                                     const struct tern_ledger_federation *federation,
                                     const struct tern_ledger_epoch *epoch, struct answer *answer)
{
    uint8_t hash[TERN_SHA256_SIZE];
    uint8_t bytes[TERN_HELPER_MESSAGE_MAX];
    size_t len = 0;
    tern_EpochKey key = {.epoch = epoch->epoch,
                         .public_key.size = TERN_X25519_PUBLIC_SIZE,
                         .signature.size = TERN_P256_SIGNATURE_SIZE,
                         .seconds_left = seconds_left(helper, epoch),
                         .log_head.size = TERN_SHA256_SIZE,
                         .log_signature.size = TERN_P256_SIGNATURE_SIZE};
    struct tern_helper_log log;
    memcpy(key.public_key.bytes, epoch->public_key, TERN_X25519_PUBLIC_SIZE);
    tern_helper_key_statement(federation->identity, epoch->epoch, epoch->public_key, hash);
    TERN_TRY(tern_p256_sign(helper->signing_key, hash, key.signature.bytes));
    TERN_TRY(sign_log(helper, federation->identity, &log));
    key.log_count = log.count;
    memcpy(key.log_head.bytes, log.head, TERN_SHA256_SIZE);
    memcpy(key.log_signature.bytes, log.signature, TERN_P256_SIGNATURE_SIZE);
    TERN_TRY(tern_wire_encode_epoch_key(&key, bytes, sizeof bytes, &len));
    answer_bytes(answer, bytes, len);
    return TERN_OK;
}

static enum tern_result answer_epoch(struct tern_helper *helper,
                                     struct tern_ledger_federation *federation,
                                     const struct tern_http_request *http, struct answer *answer)
{
    const char *text = http->path + sizeof TERN_PATH_EPOCH - 1;
    uint8_t identity[TERN_SHA256_SIZE];
    struct tern_ledger_epoch epoch;
    bool matches = false;
    const enum tern_result parsed =
        tern_base64url_decode(text, strlen(text), identity, sizeof identity);
    if (parsed != TERN_OK) {
        answer_malformed(answer, parsed);
        return TERN_OK;
    }
    TERN_TRY(check_identity(helper, federation, identity, &matches));
    if (!matches) {
        const struct tern_judgement judgement = refuse_federation(federation);
        answer_refused(answer, federation, &judgement);
        return TERN_OK;
    }
    TERN_TRY(current_epoch(helper, federation, &epoch));
    const enum tern_result result = encode_epoch(helper, federation, &epoch, answer);
    tern_secret_erase(&epoch, sizeof epoch);
    return result;
}

// --- Tickets

// A client's ticket, the facts of the ledger about it, and the rows that its admission writes.
struct ticket_decision {
    const tern_TicketRequest *request;
    struct tern_ticket_facts facts;
    struct tern_ledger_code code;
    struct tern_ledger_ticket ticket;
};

// Opens the ticket, and finds its code.
static enum tern_result open_ticket(struct tern_helper *helper,
                                    const struct tern_ledger_federation *federation,
                                    const struct tern_ledger_epoch *epoch,
                                    struct ticket_decision *decision)
{
    const tern_TicketRequest *request = decision->request;
    const struct tern_secure_ticket context = {federation->identity, request->client,
                                               request->epoch};
    const struct tern_bytes_view sealed = {request->ticket.bytes, request->ticket.size};
    char text[TERN_SECURE_CODE_MAX + 1];
    uint8_t hash[TERN_SHA256_SIZE];
    const enum tern_result opened = tern_secure_ticket_open(&context, epoch->private_key, sealed,
                                                            decision->ticket.secret, text);
    decision->facts.readable = opened == TERN_OK;
    if (opened != TERN_OK) {
        return opened == TERN_ERR_CORRUPT ? TERN_OK : opened;
    }
    tern_join_code_hash(text, hash);
    tern_secret_erase(text, sizeof text);
    const enum tern_result found = tern_ledger_code(helper->ledger, hash, &decision->code);
    decision->facts.code_found = found == TERN_OK && decision->code.federation == federation->id &&
                                 !decision->code.cancelled;
    decision->facts.code_expired = found == TERN_OK && now_of(helper) >= decision->code.expires_ms;
    decision->facts.code_uses_left = found == TERN_OK ? decision->code.uses_left : 0;
    return found == TERN_ERR_NOT_FOUND ? TERN_OK : found;
}

static enum tern_result find_client(struct tern_helper *helper, uint32_t federation,
                                    struct ticket_decision *decision)
{
    struct tern_ledger_client client;
    struct tern_ledger_ticket known;
    enum tern_result found =
        tern_ledger_client(helper->ledger, federation, decision->ticket.client, &client);
    decision->facts.client_admitted = found == TERN_OK;
    decision->facts.client_revoked = found == TERN_OK && client.revoked;
    decision->facts.same_code =
        found == TERN_OK && decision->facts.code_found && client.code == decision->code.id;
    if (found != TERN_OK && found != TERN_ERR_NOT_FOUND) {
        return found;
    }
    found = tern_ledger_ticket(helper->ledger, federation, decision->ticket.epoch,
                               decision->ticket.client, &known);
    decision->facts.has_ticket = found == TERN_OK;
    decision->facts.same_ticket =
        found == TERN_OK && memcmp(known.hash, decision->ticket.hash, TERN_SHA256_SIZE) == 0;
    tern_secret_erase(&known, sizeof known);
    return found == TERN_ERR_NOT_FOUND ? TERN_OK : found;
}

static enum tern_result encode_ticket_reply(struct tern_helper *helper,
                                            const struct ticket_decision *decision,
                                            struct answer *answer)
{
    tern_TicketReply reply = {.sha256.size = TERN_SHA256_SIZE, .log_head.size = TERN_SHA256_SIZE};
    uint8_t bytes[TERN_HELPER_MESSAGE_MAX];
    size_t len = 0;
    uint64_t number;
    memcpy(reply.sha256.bytes, decision->ticket.hash, TERN_SHA256_SIZE);
    TERN_TRY(tern_ledger_log_head(helper->ledger, &number, reply.log_head.bytes));
    TERN_TRY(tern_wire_encode_ticket_reply(&reply, bytes, sizeof bytes, &len));
    answer_bytes(answer, bytes, len);
    return TERN_OK;
}

static enum tern_result judge_ticket(struct tern_helper *helper,
                                     const struct tern_ledger_federation *federation,
                                     struct ticket_decision *decision, struct answer *answer)
{
    const struct tern_judgement judgement = tern_judge_ticket(&decision->facts);
    if (judgement.refusal != TERN_REFUSED_NOT) {
        answer_refused(answer, federation, &judgement);
        return TERN_OK;
    }
    if (!decision->facts.same_ticket || decision->facts.client_revoked) {
        TERN_TRY(tern_ledger_admit(helper->ledger, federation, &decision->code, &decision->ticket,
                                   now_of(helper)));
        tern_log(TERN_LOG_INFO, "ticket", "federation=%s epoch=%" PRIu64 " client=%" PRIu64,
                 federation->name, decision->ticket.epoch, decision->ticket.client);
    }
    return encode_ticket_reply(helper, decision, answer);
}

static enum tern_result decide_ticket(struct tern_helper *helper,
                                      struct tern_ledger_federation *federation,
                                      struct ticket_decision *decision, struct answer *answer)
{
    struct tern_ledger_epoch epoch;
    bool matches = false;
    TERN_TRY(check_identity(helper, federation, decision->request->federation.bytes, &matches));
    if (!matches) {
        const struct tern_judgement judgement = refuse_federation(federation);
        answer_refused(answer, federation, &judgement);
        return TERN_OK;
    }
    TERN_TRY(current_epoch(helper, federation, &epoch));
    decision->facts.current_epoch = epoch.epoch;
    const enum tern_result opened = decision->facts.epoch == epoch.epoch
                                        ? open_ticket(helper, federation, &epoch, decision)
                                        : TERN_OK;
    tern_secret_erase(&epoch, sizeof epoch);
    TERN_TRY(opened);
    TERN_TRY(find_client(helper, federation->id, decision));
    return judge_ticket(helper, federation, decision, answer);
}

static enum tern_result answer_ticket(struct tern_helper *helper,
                                      struct tern_ledger_federation *federation,
                                      const struct tern_http_request *http, struct answer *answer)
{
    tern_TicketRequest request;
    const enum tern_result decoded =
        tern_wire_decode_ticket_request(http->body, http->body_len, &request);
    if (decoded != TERN_OK) {
        answer_malformed(answer, decoded);
        return TERN_OK;
    }
    struct ticket_decision decision = {
        .request = &request,
        .facts = {.client = request.client, .epoch = request.epoch},
        .ticket = {.client = request.client, .epoch = request.epoch}};
    tern_sha256(request.ticket.bytes, request.ticket.size, decision.ticket.hash);
    const enum tern_result result = decide_ticket(helper, federation, &decision, answer);
    tern_secret_erase(&decision.ticket, sizeof decision.ticket);
    return result;
}

// --- Sums

// A SumRequest, the facts of the ledger about its round and clients, and the decision. Arrays are malloc'ed.
struct sum_decision {
    struct tern_sum_request request;
    struct tern_secure_round round;
    float *scales;
    uint8_t descriptor[TERN_SHA256_SIZE];
    uint8_t list_hash[TERN_SHA256_SIZE];
    struct tern_secure_member *members;
    struct tern_known *known;
    uint8_t (*secrets)[TERN_LEDGER_KEY_SIZE]; // of each member
    struct tern_list_facts facts;
    uint64_t epoch_begins_ms; // of the current epoch
    // the sum of an answered list, if it has noise and is still there
    const struct noisy_sum *noisy;
    bool admitted; // the ledger has the answer, so the sum may be sent
};

static void free_sum(struct sum_decision *decision)
{
    if (decision->secrets != NULL) {
        tern_secret_erase(decision->secrets,
                          (size_t)decision->facts.count * sizeof decision->secrets[0]);
    }
    free(decision->secrets);
    free(decision->known);
    free(decision->members);
    free(decision->scales);
}

static enum tern_result allocate_sum(struct sum_decision *decision)
{
    const size_t count = decision->request.members.len / TERN_HELPER_MEMBER_BYTES;
    const size_t least = count > 0 ? count : 1;
    decision->facts.count = (uint32_t)count;
    decision->scales =
        malloc(decision->request.facts.len); // more than enough: a scale has four of these bytes
    decision->members = calloc(least, sizeof decision->members[0]);
    decision->known = calloc(least, sizeof decision->known[0]);
    decision->secrets = calloc(least, sizeof decision->secrets[0]);
    return decision->scales != NULL && decision->members != NULL && decision->known != NULL &&
                   decision->secrets != NULL
               ? TERN_OK
               : TERN_ERR_NO_MEMORY;
}

// Reads the request's facts and list. TERN_ERR_CORRUPT, TERN_ERR_ARGUMENT, TERN_ERR_NO_MEMORY
static enum tern_result read_request(const struct tern_http_request *http,
                                     struct sum_decision *decision)
{
    TERN_TRY(tern_wire_decode_sum_request(http->body, http->body_len, &decision->request));
    TERN_TRY(allocate_sum(decision));
    TERN_TRY(tern_secure_round_decode(
        decision->request.facts.data, decision->request.facts.len, decision->scales,
        (uint32_t)(decision->request.facts.len / sizeof(float)), &decision->round));
    tern_secure_round_hash(&decision->round, decision->descriptor);
    for (uint32_t i = 0; i < decision->facts.count; i++) {
        tern_member_get(decision->request.members.data + (size_t)i * TERN_HELPER_MEMBER_BYTES,
                        &decision->members[i]);
    }
    decision->facts.round = decision->round.round;
    decision->facts.wrong_fact = tern_secure_round_check(&decision->round);
    decision->facts.epoch = decision->round.epoch;
    decision->facts.cohort = decision->round.cohort;
    decision->facts.min_clients = decision->round.min_clients;
    decision->facts.sums = tern_secure_sums(&decision->round);
    decision->facts.list = decision->members;
    decision->facts.known = decision->known;
    return TERN_OK;
}

// Computes the list's hash. A list in another order than the judge requires gets no hash, and is refused.
static void hash_list(struct sum_decision *decision)
{
    struct tern_secure_list list;
    tern_secure_list_start(&list, decision->descriptor);
    for (uint32_t i = 0; i < decision->facts.count; i++) {
        if (tern_secure_list_add(&list, &decision->members[i]) != TERN_OK) {
            return;
        }
    }
    tern_secure_list_finish(&list, decision->list_hash);
}

static enum tern_result find_member(struct tern_helper *helper, uint32_t federation,
                                    uint64_t newest_entry, struct sum_decision *decision,
                                    uint32_t index)
{
    struct tern_known *known = &decision->known[index];
    const uint64_t id = decision->members[index].client;
    struct tern_ledger_client client;
    struct tern_ledger_ticket ticket;
    enum tern_result found = tern_ledger_client(helper->ledger, federation, id, &client);
    if (found != TERN_OK) {
        return found == TERN_ERR_NOT_FOUND ? TERN_OK : found;
    }
    known->revoked = client.revoked;
    const struct tern_admission admission = {client.admitted, newest_entry, client.admitted_ms};
    known->is_new = tern_is_newcomer(&admission, now_of(helper));
    found = tern_ledger_ticket(helper->ledger, federation, decision->round.epoch, id, &ticket);
    if (found != TERN_OK) {
        return found == TERN_ERR_NOT_FOUND ? TERN_OK : found;
    }
    known->has_ticket = true;
    memcpy(known->ticket, ticket.hash, TERN_SHA256_SIZE);
    memcpy(decision->secrets[index], ticket.secret, TERN_LEDGER_KEY_SIZE);
    tern_secret_erase(&ticket, sizeof ticket);
    return TERN_OK;
}

// Finds the sum with noise that was made for an answered list. It is gone after a restart, and after the federation's next one.
static void find_noisy_sum(const struct tern_helper *helper, uint32_t federation,
                           struct sum_decision *decision)
{
    if (decision->round.noise == 0 || !decision->facts.same_answered) {
        return;
    }
    const struct noisy_sum *noisy = helper->noisy;
    while (noisy != NULL && noisy->federation != federation) {
        noisy = noisy->next;
    }
    if (noisy != NULL && memcmp(noisy->list_hash, decision->list_hash, TERN_SHA256_SIZE) == 0) {
        decision->noisy = noisy;
    }
    decision->facts.answer_lost = decision->noisy == NULL;
}

// Finds what the ledger has for the round and its clients. newest: the federation's newest answer; count 0: none.
static enum tern_result find_facts(struct tern_helper *helper,
                                   const struct tern_ledger_federation *federation,
                                   struct sum_decision *decision, struct tern_ledger_answer *newest)
{
    struct tern_ledger_answer earlier = {0};
    enum tern_result found = tern_ledger_newest_answer(helper->ledger, federation->id, newest);
    if (found != TERN_OK && found != TERN_ERR_NOT_FOUND) {
        return found;
    }
    found = tern_ledger_answer(helper->ledger, federation->id, decision->round.round, &earlier);
    if (found != TERN_OK && found != TERN_ERR_NOT_FOUND) {
        return found;
    }
    decision->facts.answered = found == TERN_OK;
    decision->facts.same_answered =
        found == TERN_OK && earlier.values == decision->request.values &&
        memcmp(earlier.descriptor, decision->descriptor, TERN_SHA256_SIZE) == 0 &&
        memcmp(earlier.list_hash, decision->list_hash, TERN_SHA256_SIZE) == 0;
    tern_ledger_answer_free(&earlier);
    find_noisy_sum(helper, federation->id, decision);
    for (uint32_t i = 0; i < decision->facts.count; i++) {
        TERN_TRY(find_member(helper, federation->id, newest->entry, decision, i));
    }
    return TERN_OK;
}

// Compares the list with all earlier answered lists whose rounds had the same replica.
static enum tern_result judge_near_lists(struct tern_helper *helper, uint32_t federation,
                                         const struct sum_decision *decision,
                                         struct tern_judgement *judgement)
{
    struct tern_earlier_lists lists = {0};
    struct tern_ledger_answer earlier = {0};
    enum tern_result found = TERN_OK;
    if (judgement->refusal != TERN_REFUSED_NOT) {
        return TERN_OK;
    }
    do {
        found = tern_ledger_next_of_replica(helper->ledger, federation, decision->round.replica,
                                            earlier.entry, &earlier);
        if (found == TERN_OK) {
            const struct tern_earlier_list list = {earlier.round, earlier.sums, earlier.clients,
                                                   earlier.count};
            tern_earlier_lists_add(&lists, &decision->facts, &list);
            tern_ledger_answer_free(&earlier);
        }
    } while (found == TERN_OK);
    *judgement = tern_judge_near_list(&decision->facts, &lists);
    return found == TERN_ERR_NOT_FOUND ? TERN_OK : found;
}

// Finds by how few clients the list differs from an earlier answered list of the epoch; 0: there is none that differs. An aggregator
// could put other lists between two that it compares.
static enum tern_result find_change(struct tern_helper *helper, uint32_t federation,
                                    const struct sum_decision *decision, uint32_t *changed)
{
    uint64_t after = 0;
    *changed = 0;
    for (;;) {
        struct tern_ledger_answer earlier = {0};
        const enum tern_result found = tern_ledger_next_answer(
            helper->ledger, federation, decision->epoch_begins_ms, after, &earlier);
        if (found != TERN_OK) {
            return found == TERN_ERR_NOT_FOUND ? TERN_OK : found;
        }
        after = earlier.entry;
        const uint32_t differ = tern_lists_differ(decision->members, decision->facts.count,
                                                  earlier.clients, earlier.count);
        *changed = differ > 0 && (*changed == 0 || differ < *changed) ? differ : *changed;
        tern_ledger_answer_free(&earlier);
    }
}

// Stores that the list is answered, unless it is stored already.
static enum tern_result store_answer(struct tern_helper *helper,
                                     const struct tern_ledger_federation *federation,
                                     const struct sum_decision *decision)
{
    struct tern_ledger_answer answer = {.round = decision->round.round,
                                        .min_clients = decision->round.min_clients,
                                        .values = decision->request.values,
                                        .sums = decision->facts.sums,
                                        .count = decision->facts.count};
    memcpy(answer.descriptor, decision->descriptor, TERN_SHA256_SIZE);
    memcpy(answer.list_hash, decision->list_hash, TERN_SHA256_SIZE);
    memcpy(answer.replica, decision->round.replica, TERN_SHA256_SIZE);
    TERN_TRY(find_change(helper, federation->id, decision, &answer.changed));
    answer.clients = calloc(answer.count, sizeof answer.clients[0]);
    if (answer.clients == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < answer.count; i++) {
        answer.clients[i] = decision->members[i].client;
    }
    const enum tern_result result =
        tern_ledger_add_answer(helper->ledger, federation, &answer, now_of(helper));
    tern_ledger_answer_free(&answer);
    tern_log(TERN_LOG_INFO, "sum",
             "federation=%s round=%" PRIu32 " clients=%" PRIu32 " changed=%" PRIu32 " noise=%.3f",
             federation->name, answer.round, answer.count, answer.changed,
             decision->round.noise / 1000.0);
    if (answer.changed > 0 && answer.changed < answer.min_clients) {
        tern_log(TERN_LOG_WARN, "small-change",
                 "federation=%s round=%" PRIu32 " changed=%" PRIu32 " min_clients=%" PRIu32
                 " advice=\"hundreds of sums with and without a device reveal its mean update; the "
                 "aggregator should use larger cohorts or fewer rounds\"",
                 federation->name, answer.round, answer.changed, answer.min_clients);
    }
    return result;
}

static enum tern_result decide_sum(struct tern_helper *helper,
                                   struct tern_ledger_federation *federation,
                                   struct sum_decision *decision, struct answer *answer)
{
    struct tern_ledger_answer newest = {0};
    struct tern_ledger_epoch epoch;
    TERN_TRY(check_identity(helper, federation, decision->round.federation,
                            &decision->facts.federation_matches));
    TERN_TRY(current_epoch(helper, federation, &epoch));
    decision->facts.current_epoch = epoch.epoch;
    decision->epoch_begins_ms = epoch.begins_ms;
    decision->facts.min_clients_set = helper->config.min_clients;
    tern_secret_erase(&epoch, sizeof epoch);
    TERN_TRY(
        tern_ledger_oldest_epoch(helper->ledger, federation->id, &decision->facts.oldest_epoch));
    enum tern_result result = find_facts(helper, federation, decision, &newest);
    struct tern_judgement judgement = tern_judge_list(&decision->facts);
    if (result == TERN_OK && !decision->facts.same_answered) {
        result = judge_near_lists(helper, federation->id, decision, &judgement);
    }
    decision->admitted = result == TERN_OK && judgement.refusal == TERN_REFUSED_NOT;
    if (decision->admitted && !decision->facts.same_answered) {
        result = store_answer(helper, federation, decision);
    } else if (result == TERN_OK && !decision->admitted) {
        answer_refused(answer, federation, &judgement);
    }
    tern_ledger_answer_free(&newest);
    return result;
}

// Adds each member's mask to the sum of its group. sums: those of all groups, one behind the other.
static enum tern_result add_masks(const struct sum_decision *decision,
                                  const struct tern_masked_shape *shape, uint8_t *sums)
{
    const size_t size = tern_masked_size(shape);
    struct tern_secure_groups groups;
    struct tern_masked_key masked;
    uint8_t key[TERN_SECRET_SIZE];
    enum tern_result result = TERN_OK;
    tern_secure_divide(&decision->round, decision->members, decision->facts.count, &groups);
    memcpy(masked.descriptor, decision->descriptor, TERN_SHA256_SIZE);
    for (uint32_t i = 0; result == TERN_OK && i < decision->facts.count; i++) {
        const struct tern_secure_member *member = &decision->members[i];
        uint8_t *sum = sums + tern_secure_group_of(&groups, member->client) * size;
        masked.nonce = member->nonce;
        result = tern_mask_key(decision->secrets[i], &masked, key);
        result = result == TERN_OK ? tern_masked_add_mask(shape, key, sum) : result;
    }
    tern_secret_erase(key, sizeof key);
    return result;
}

static enum tern_result encode_sum(struct tern_helper *helper, const struct sum_decision *decision,
                                   struct tern_span sum, struct answer *answer)
{
    uint8_t hash[TERN_SHA256_SIZE];
    tern_SumReply reply = {.list_hash.size = TERN_SHA256_SIZE,
                           .log_head.size = TERN_SHA256_SIZE,
                           .signature.size = TERN_P256_SIGNATURE_SIZE,
                           .log_signature.size = TERN_P256_SIGNATURE_SIZE};
    struct tern_helper_log log;
    memcpy(reply.list_hash.bytes, decision->list_hash, TERN_SHA256_SIZE);
    tern_secure_sum_statement(decision->list_hash, sum.data, sum.len, hash);
    TERN_TRY(tern_p256_sign(helper->signing_key, hash, reply.signature.bytes));
    TERN_TRY(sign_log(helper, decision->round.federation, &log));
    reply.log_count = log.count;
    memcpy(reply.log_head.bytes, log.head, TERN_SHA256_SIZE);
    memcpy(reply.log_signature.bytes, log.signature, TERN_P256_SIGNATURE_SIZE);
    struct tern_blob *blob = tern_blob_new(sum.len + TERN_HELPER_MESSAGE_MAX);
    if (blob == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    const enum tern_result result =
        tern_wire_encode_sum_reply(&reply, sum, blob->data, blob->len, &blob->len);
    if (result != TERN_OK) {
        tern_blob_release(blob);
        return result;
    }
    answer->status = 200;
    answer->body = blob;
    return TERN_OK;
}

// Adds noise to a sum of masks. Its random bytes come from the system and are stored nowhere.
static enum tern_result add_noise(const struct tern_secure_round *round,
                                  const struct tern_masked_shape *shape, uint8_t *sum)
{
    const size_t size = tern_masked_size(shape);
    struct tern_gaussian gaussian;
    uint8_t *noise = malloc(size);
    if (noise == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    tern_gaussian_start(&gaussian, tern_secure_variance(round), tern_random_fill);
    const enum tern_result result = tern_masked_draw_noise(shape, &gaussian, noise);
    if (result == TERN_OK) {
        tern_masked_add(shape, sum, noise);
    }
    tern_secret_erase(&gaussian, sizeof gaussian);
    tern_secret_erase(noise, size);
    free(noise);
    return result;
}

// Keeps a sum with noise in place of the federation's last one, and owns its bytes. TERN_ERR_NO_MEMORY: the caller does.
static enum tern_result keep_noisy_sum(struct tern_helper *helper, const struct noisy_sum *made)
{
    struct noisy_sum *noisy = helper->noisy;
    while (noisy != NULL && noisy->federation != made->federation) {
        noisy = noisy->next;
    }
    if (noisy == NULL) {
        noisy = calloc(1, sizeof *noisy);
        if (noisy == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
        noisy->next = helper->noisy;
        helper->noisy = noisy;
    }
    free(noisy->packed);
    noisy->federation = made->federation;
    memcpy(noisy->list_hash, made->list_hash, TERN_SHA256_SIZE);
    noisy->packed = made->packed;
    noisy->size = made->size;
    return TERN_OK;
}

// Adds up the masks of each group of an answered list, and noise if the round has it. Without noise the sums follow from the ledger,
// so they are the same however often they are asked for.
static enum tern_result release_sum(struct tern_helper *helper, uint32_t federation,
                                    const struct sum_decision *decision, struct answer *answer)
{
    if (decision->noisy != NULL) {
        return encode_sum(helper, decision,
                          (struct tern_span){decision->noisy->packed, decision->noisy->size},
                          answer);
    }
    const struct tern_masked_shape shape = {.tensors = decision->round.scale_count,
                                            .values = decision->request.values,
                                            .bits = decision->round.bits};
    const size_t size = tern_masked_size(&shape);
    const size_t all = size * decision->facts.sums;
    uint8_t *sums = calloc(decision->facts.sums, size);
    if (sums == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result = add_masks(decision, &shape, sums);
    for (size_t at = 0; result == TERN_OK && decision->round.noise > 0 && at < all; at += size) {
        result = add_noise(&decision->round, &shape, sums + at);
    }
    if (result == TERN_OK) {
        result = encode_sum(helper, decision, (struct tern_span){sums, all}, answer);
    }
    struct noisy_sum made = {.federation = federation, .packed = sums, .size = all};
    memcpy(made.list_hash, decision->list_hash, TERN_SHA256_SIZE);
    const bool is_kept =
        result == TERN_OK && decision->round.noise > 0 && keep_noisy_sum(helper, &made) == TERN_OK;
    if (!is_kept) {
        free(sums);
    }
    return result;
}

// --- The thread

// Decides inside one transaction. sums: for ROUTE_SUMS.
static enum tern_result decide(struct tern_helper *helper, const struct waiting *waiting,
                               struct sum_decision *sums, struct answer *answer)
{
    const struct tern_http_request *http = tern_http_exchange_request(waiting->exchange);
    struct tern_ledger_federation federation;
    TERN_TRY(tern_ledger_next_federation(helper->ledger, waiting->federation - 1, &federation));
    switch (waiting->route) {
    case ROUTE_EPOCH:
        return answer_epoch(helper, &federation, http, answer);
    case ROUTE_TICKETS:
        return answer_ticket(helper, &federation, http, answer);
    case ROUTE_SUMS:
        break;
    }
    return decide_sum(helper, &federation, sums, answer);
}

// Decides, and stores the decision durably.
static enum tern_result decide_and_store(struct tern_helper *helper, const struct waiting *waiting,
                                         struct sum_decision *sums, struct answer *answer)
{
    TERN_TRY(tern_ledger_begin(helper->ledger));
    tern_log_hold();
    enum tern_result result = decide(helper, waiting, sums, answer);
    result = result == TERN_OK ? tern_ledger_commit(helper->ledger) : result;
    tern_log_release(result == TERN_OK);
    if (result != TERN_OK) {
        tern_ledger_rollback(helper->ledger);
    }
    return result;
}

static void handle(struct tern_helper *helper, struct waiting *waiting)
{
    struct answer answer = {.status = 503};
    struct sum_decision sums = {.admitted = false};
    enum tern_result parsed = TERN_OK;
    if (waiting->route == ROUTE_SUMS) {
        parsed = read_request(tern_http_exchange_request(waiting->exchange), &sums);
        hash_list(&sums);
    }
    if (parsed == TERN_ERR_CORRUPT || parsed == TERN_ERR_ARGUMENT) {
        answer_malformed(&answer, parsed);
    } else {
        enum tern_result result = parsed;
        result = result == TERN_OK ? decide_and_store(helper, waiting, &sums, &answer) : result;
        if (result == TERN_OK && sums.admitted) {
            result = release_sum(helper, waiting->federation, &sums, &answer);
        }
        if (result != TERN_OK) {
            tern_blob_release(answer.body);
            answer.body = NULL;
            answer_failure(helper, &answer, result);
        }
    }
    free_sum(&sums);
    send_answer(waiting, &answer);
}

// Copies the hashes of all tokens for the listener's threads.
static enum tern_result read_tokens(struct tern_helper *helper)
{
    struct admitted_token *tokens = NULL;
    size_t count = 0;
    struct tern_ledger_federation federation = {.id = 0};
    enum tern_result result;
    while ((result = tern_ledger_next_federation(helper->ledger, federation.id, &federation)) ==
           TERN_OK) {
        struct admitted_token *more = realloc(tokens, (count + 1) * sizeof tokens[0]);
        if (more == NULL) {
            free(tokens);
            return TERN_ERR_NO_MEMORY;
        }
        tokens = more;
        tokens[count].federation = federation.id;
        memcpy(tokens[count].hash, federation.token_hash, TERN_SHA256_SIZE);
        count++;
    }
    if (result != TERN_ERR_NOT_FOUND) {
        free(tokens);
        return result;
    }
    pthread_mutex_lock(&helper->lock);
    free(helper->tokens);
    helper->tokens = tokens;
    helper->token_count = count;
    pthread_mutex_unlock(&helper->lock);
    return TERN_OK;
}

// Reads the tokens again after the command line has changed the ledger.
static void refresh_tokens(struct tern_helper *helper, int64_t *changes)
{
    const int64_t now = tern_ledger_changes(helper->ledger);
    if (now != *changes && read_tokens(helper) == TERN_OK) {
        *changes = now;
    }
}

// Waits for a request, for REFRESH_S at most. NULL: none, or the service stops.
static struct waiting *take(struct tern_helper *helper, bool *stops)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += REFRESH_S;
    pthread_mutex_lock(&helper->lock);
    int waited = 0;
    while (helper->first == NULL && !helper->stops && waited != ETIMEDOUT) {
        waited = pthread_cond_timedwait(&helper->wake, &helper->lock, &until);
    }
    *stops = helper->stops;
    struct waiting *waiting = *stops ? NULL : helper->first;
    if (waiting != NULL) {
        helper->first = waiting->next;
        helper->end = helper->first == NULL ? &helper->first : helper->end;
        helper->count--;
    }
    pthread_mutex_unlock(&helper->lock);
    return waiting;
}

static void *run_thread(void *ctx)
{
    struct tern_helper *helper = ctx;
    int64_t changes = -1;
    bool stops = false;
    while (!stops) {
        struct waiting *waiting = take(helper, &stops);
        if (waiting != NULL) {
            handle(helper, waiting);
        }
        refresh_tokens(helper, &changes);
    }
    return NULL;
}

// --- The listener's threads

// Finds the federation of a bearer token; 0: none. All tokens are compared, so that the time reveals nothing about them.
static uint32_t federation_of(struct tern_helper *helper, const char *authorization)
{
    const char *token = tern_http_bearer(authorization);
    uint8_t hash[TERN_SHA256_SIZE];
    uint32_t federation = 0;
    if (token == NULL) {
        return 0;
    }
    tern_sha256(token, strlen(token), hash);
    pthread_mutex_lock(&helper->lock);
    for (size_t i = 0; i < helper->token_count; i++) {
        if (tern_equal_constant_time(helper->tokens[i].hash, hash, sizeof hash)) {
            federation = helper->tokens[i].federation;
        }
    }
    pthread_mutex_unlock(&helper->lock);
    return federation;
}

// Returns 0, or the status of a refusal.
static int route_of(const struct tern_http_request *http, enum route *route)
{
    const bool gets = strcmp(http->method, "GET") == 0;
    const bool posts = strcmp(http->method, "POST") == 0;
    if (strncmp(http->path, TERN_PATH_EPOCH, sizeof TERN_PATH_EPOCH - 1) == 0) {
        *route = ROUTE_EPOCH;
        return gets ? 0 : 405;
    }
    if (strcmp(http->path, TERN_PATH_TICKETS) == 0) {
        *route = ROUTE_TICKETS;
        return posts ? 0 : 405;
    }
    *route = ROUTE_SUMS;
    return strcmp(http->path, TERN_PATH_SUMS) != 0 ? 404 : posts ? 0 : 405;
}

static int on_headers(void *ctx, const struct tern_http_request *http, uint64_t content_length,
                      struct tern_http_permit *permit)
{
    struct tern_helper *helper = ctx;
    struct waiting *waiting = calloc(1, sizeof *waiting);
    (void)content_length;
    if (waiting == NULL) {
        return 503;
    }
    waiting->federation = federation_of(helper, http->authorization);
    const int status = waiting->federation == 0 ? 401 : route_of(http, &waiting->route);
    permit->known = waiting->federation != 0;
    if (status != 0) {
        permit->body_limit = 0;
        free(waiting);
        return status;
    }
    if (waiting->route != ROUTE_SUMS) {
        permit->body_limit = waiting->route == ROUTE_TICKETS ? TICKET_BODY_MAX : 0;
    }
    permit->context = waiting;
    return 0;
}

static void on_dropped(void *ctx, void *context)
{
    (void)ctx;
    free(context);
}

static void refuse_busy(struct waiting *waiting)
{
    struct answer answer = {.status = 503};
    answer_error(&answer, 503, tern_result_name(TERN_ERR_BUSY),
                 "The helper stops, or too many requests wait for it. Nothing was decided; try "
                 "again.");
    send_answer(waiting, &answer);
}

static void on_request(void *ctx, struct tern_http_exchange *exchange)
{
    struct tern_helper *helper = ctx;
    struct waiting *waiting = tern_http_exchange_context(exchange);
    waiting->exchange = exchange;
    pthread_mutex_lock(&helper->lock);
    const bool taken = !helper->stops && helper->count < WAITING_MAX;
    if (taken) {
        *helper->end = waiting;
        helper->end = &waiting->next;
        helper->count++;
        pthread_cond_signal(&helper->wake);
    }
    pthread_mutex_unlock(&helper->lock);
    if (!taken) {
        refuse_busy(waiting);
    }
}

struct tern_http_handler tern_helper_handler(struct tern_helper *helper)
{
    return (struct tern_http_handler){.ctx = helper,
                                      .on_headers = on_headers,
                                      .on_dropped = on_dropped,
                                      .on_request = on_request};
}

// --- Start and end

static void init_queue(struct tern_helper *helper)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&helper->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&helper->lock, NULL);
    helper->end = &helper->first;
}

static void free_helper(struct tern_helper *helper)
{
    while (helper->noisy != NULL) {
        struct noisy_sum *noisy = helper->noisy;
        helper->noisy = noisy->next;
        free(noisy->packed);
        free(noisy);
    }
    tern_ledger_close(helper->ledger);
    pthread_cond_destroy(&helper->wake);
    pthread_mutex_destroy(&helper->lock);
    free(helper->tokens);
    tern_secret_erase(helper->signing_key, sizeof helper->signing_key);
    free(helper);
}

// Opens the ledger, reads the signing key and the tokens, and starts the crypto library.
static enum tern_result open_helper(struct tern_helper *helper, char why[TERN_HELPER_WHY_MAX])
{
    TERN_TRY(tern_ledger_open(helper->config.ledger, &helper->ledger, why));
    enum tern_result result = tern_ledger_signing_key(helper->ledger, helper->signing_key);
    result = result == TERN_OK ? read_tokens(helper) : result;
    if (result != TERN_OK) {
        snprintf(why, TERN_HELPER_WHY_MAX, "%s", tern_ledger_why(helper->ledger));
        return result;
    }
    result = tern_secret_start();
    if (result != TERN_OK) {
        snprintf(why, TERN_HELPER_WHY_MAX, "the crypto library cannot start: %s",
                 tern_result_sentence(result));
    }
    return result;
}

enum tern_result tern_helper_start(const struct tern_helper_config *config,
                                   struct tern_helper **out, char why[TERN_HELPER_WHY_MAX])
{
    struct tern_helper *helper = calloc(1, sizeof *helper);
    if (helper == NULL) {
        snprintf(why, TERN_HELPER_WHY_MAX, "memory is short");
        return TERN_ERR_NO_MEMORY;
    }
    helper->config = *config;
    init_queue(helper);
    enum tern_result result = open_helper(helper, why);
    if (result == TERN_OK && pthread_create(&helper->thread, NULL, run_thread, helper) != 0) {
        snprintf(why, TERN_HELPER_WHY_MAX, "no thread can be started");
        result = TERN_ERR_NO_MEMORY;
    }
    if (result != TERN_OK) {
        free_helper(helper);
        return result;
    }
    *out = helper;
    return TERN_OK;
}

void tern_helper_stop(struct tern_helper *helper)
{
    pthread_mutex_lock(&helper->lock);
    helper->stops = true;
    pthread_cond_signal(&helper->wake);
    pthread_mutex_unlock(&helper->lock);
    pthread_join(helper->thread, NULL);
    while (helper->first != NULL) {
        struct waiting *waiting = helper->first;
        helper->first = waiting->next;
        refuse_busy(waiting);
    }
    free_helper(helper);
}
