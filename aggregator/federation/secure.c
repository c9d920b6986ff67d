#include "federation/secure.h"

#include "federation/clients.h"
#include "hosted/job.h"
#include "merge/merge.h"
#include "secure/masked.h"
#include "strategies/bounds.h"
#include "util/bytes.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Quantised values are -1, 0 and 1. What rounding leaves out stays in the clients' error buffers.
#define LEVEL 1u

// Time until an unanswered request is sent again: 1 s, doubled after each failure up to 64 s.
#define RETRY_MS UINT64_C(1000)
#define RETRY_DOUBLINGS 6u

// Time between two requests for the key of the epoch while the helper answers.
#define EPOCH_MS UINT64_C(600000)

// Time until a round may open after an abandoned one: a minute, doubled after each further one up to 64 minutes, since all
// clients of an abandoned round have trained in vain.
#define REOPEN_MS UINT64_C(60000)

// Time between two requests for the end of the helper's log while members refuse it.
#define LOG_MS UINT64_C(60000)

// Most round numbers that are skipped at once, so that no client's report uses up the numbers.
#define SKIPPED_MAX 10000u

#define SEALED_MAX 192 // bytes of a sealed ticket
_Static_assert(sizeof((tern_CheckinRequest *)NULL)->ticket.bytes == SEALED_MAX, "limit");

enum request_kind { REQUEST_NONE, REQUEST_EPOCH, REQUEST_TICKET, REQUEST_SUM };

// Requests to the helper, one at a time. While a request is under way, its thread owns `outcome` and the result of its kind.
struct helper_link {
    struct tern_job job;
    struct tern_helper_party party;
    struct tern_db *reader; // the thread's connection to the store
    const struct tern_model *model;

    enum request_kind next;  // request that starts after the commit
    enum request_kind under; // request under way, or whose answer was not taken yet
    struct tern_helper_outcome outcome;

    struct tern_helper_epoch epoch;    // last answer
    struct tern_helper_epoch received; // result of REQUEST_EPOCH
    bool answers;                      // the last request for the epoch was answered
    bool silence_logged;
    uint64_t ask_ms; // when to ask for the epoch again
    uint32_t failures;

    // REQUEST_TICKET
    struct tern_db_ticket ticket;
    uint8_t sealed[SEALED_MAX];

    // REQUEST_SUM: a copy of the round's facts; then the results.
    struct tern_secure_round facts;
    float scales[TERN_MASKED_TENSORS_MAX];
    uint8_t base[TERN_SHA256_SIZE]; // id of the replica that the round trains from
    double norm_max;
    struct tern_mean_update mean;
    struct tern_helper_log log;
};

// Returns the wait after `failures` failed requests.
static uint64_t wait_after(uint64_t first_ms, uint32_t failures)
{
    const uint32_t doublings = failures < 1                 ? 0
                               : failures < RETRY_DOUBLINGS ? failures - 1
                                                            : RETRY_DOUBLINGS;
    return first_ms << doublings;
}

static bool is_enabled(const struct tern_federation *federation)
{
    return federation->config.secure.enabled && federation->helper != NULL;
}

// --- The thread that asks for the sums

struct adding {
    const struct helper_link *helper;
    struct tern_masked_shape shape;
    uint8_t *sums; // of all groups
    struct tern_secure_member *members;
    uint32_t count;
    struct tern_secure_groups groups;
};

static enum tern_result list_masked(void *ctx, const struct tern_db_update *update)
{
    struct adding *adding = ctx;
    tern_Update message;
    struct tern_span container;
    if (update->body == NULL || adding->count >= adding->helper->facts.cohort) {
        return TERN_ERR_CORRUPT;
    }
    TERN_TRY(tern_wire_decode_update(update->body, update->body_len, &message, &container));
    TERN_TRY(tern_masked_check(&adding->shape, container.data, container.len));
    adding->members[adding->count++] =
        (struct tern_secure_member){.client = update->client, .nonce = message.nonce};
    return TERN_OK;
}

// Adds an update to the sum of its group.
static enum tern_result add_masked(void *ctx, const struct tern_db_update *update)
{
    struct adding *adding = ctx;
    const uint32_t group = tern_secure_group_of(&adding->groups, update->client);
    tern_Update message;
    struct tern_span container;
    TERN_TRY(tern_wire_decode_update(update->body, update->body_len, &message, &container));
    tern_masked_add(&adding->shape, adding->sums + group * tern_masked_size(&adding->shape),
                    container.data);
    return TERN_OK;
}

static enum tern_result find_ticket_hash(struct tern_db *db, uint32_t epoch,
                                         struct tern_secure_member *member)
{
    struct tern_db_ticket row;
    struct tern_db_rows *rows = tern_db_ticket(db, member->client, epoch);
    const bool found = tern_db_next(rows, &row);
    if (found) {
        memcpy(member->ticket, row.sha256, sizeof member->ticket);
    }
    TERN_TRY(tern_db_end(rows));
    return found ? TERN_OK : TERN_ERR_NOT_FOUND;
}

// Lists the clients of the round's masked updates with the hashes of their tickets, and adds the updates of each group.
static enum tern_result add_all(struct helper_link *helper, struct adding *adding)
{
    const uint32_t round = helper->facts.round;
    TERN_TRY(tern_db_masked_each(helper->reader, round, list_masked, adding));
    tern_secure_divide(&helper->facts, adding->members, adding->count, &adding->groups);
    TERN_TRY(tern_db_masked_each(helper->reader, round, add_masked, adding));
    for (uint32_t i = 0; i < adding->count; i++) {
        TERN_TRY(
            find_ticket_hash(helper->reader, (uint32_t)helper->facts.epoch, &adding->members[i]));
    }
    return TERN_OK;
}

static void fail(struct helper_link *helper, enum tern_helper_verdict verdict, const char *name,
                 const char *sentence)
{
    struct tern_helper_outcome *outcome = &helper->outcome;
    outcome->verdict = verdict;
    snprintf(outcome->name, sizeof outcome->name, "%s", name);
    snprintf(outcome->sentence, sizeof outcome->sentence, "%s", sentence);
}

static void make_mean(struct helper_link *helper, const struct tern_masked_round *round)
{
    const enum tern_result result = tern_masked_mean_update(round, helper->norm_max, &helper->mean);
    if (result == TERN_ERR_NON_FINITE) {
        fail(helper, TERN_HELPER_WRONG, "sum-out-of-range",
             "The sum of the masks does not fit the updates, or a client sent values outside the "
             "range.");
    } else if (result == TERN_ERR_NORM_LIMIT) {
        fail(helper, TERN_HELPER_WRONG, tern_result_name(result),
             "The mean update is larger than limits.norm or the strategy allows.");
    } else if (result != TERN_OK) {
        fail(helper, TERN_HELPER_SILENT, tern_result_name(result), tern_result_sentence(result));
    }
}

static void ask_for_sum(struct helper_link *helper, struct adding *adding)
{
    const enum tern_result result = add_all(helper, adding);
    if (result != TERN_OK) {
        fail(helper, TERN_HELPER_SILENT, tern_result_name(result), tern_result_sentence(result));
        return;
    }
    struct tern_masked_round round = {.model = helper->model,
                                      .facts = &helper->facts,
                                      .base = helper->base,
                                      .members = adding->members,
                                      .count = adding->count,
                                      .groups = &adding->groups,
                                      .sums = adding->sums};
    tern_helper_ask_sum(&helper->party, &round, &helper->log, &helper->outcome);
    if (helper->outcome.verdict == TERN_HELPER_ANSWERED) {
        make_mean(helper, &round);
    }
}

static void run_sum(struct helper_link *helper)
{
    struct adding adding = {.helper = helper,
                            .shape = tern_masked_shape_of(helper->model, &helper->facts)};
    adding.sums = calloc(tern_secure_sums(&helper->facts), tern_masked_size(&adding.shape));
    adding.members = calloc(helper->facts.cohort, sizeof adding.members[0]);
    if (adding.sums != NULL && adding.members != NULL) {
        ask_for_sum(helper, &adding);
    } else {
        fail(helper, TERN_HELPER_SILENT, tern_result_name(TERN_ERR_NO_MEMORY),
             tern_result_sentence(TERN_ERR_NO_MEMORY));
    }
    free(adding.sums);
    free(adding.members);
}

static void run_request(void *ctx)
{
    struct helper_link *helper = ctx;
    const struct tern_db_ticket *ticket = &helper->ticket;
    switch (helper->under) {
    case REQUEST_EPOCH:
        tern_helper_ask_epoch(&helper->party, &helper->received, &helper->outcome);
        break;
    case REQUEST_TICKET:
        tern_helper_ask_ticket(&helper->party, ticket->client, ticket->epoch,
                               (struct tern_span){helper->sealed, ticket->sealed.len},
                               &helper->outcome);
        break;
    case REQUEST_SUM:
        run_sum(helper);
        break;
    case REQUEST_NONE:
        break;
    }
}

// --- Life

enum tern_result tern_secure_new(struct tern_federation *federation, char why[256])
{
    if (federation->ports.helper.exchange == NULL) {
        return TERN_OK;
    }
    struct helper_link *helper = calloc(1, sizeof *helper);
    if (helper == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    federation->helper = helper;
    helper->model = &federation->merge.model;
    helper->party.port = federation->ports.helper;
    memcpy(helper->party.key, federation->config.secure.helper_key, sizeof helper->party.key);
    tern_federation_id(federation->about.model_hash, federation->about.seed,
                       helper->party.federation);
    helper->job.work = run_request;
    helper->job.ctx = helper;
    helper->job.ended = federation->ports.wake;
    helper->job.ended_ctx = federation->ports.ctx;
    TERN_TRY(tern_secret_start());
    return tern_db_open(tern_db_path(federation->db), TERN_DB_SECOND, &helper->reader, why);
}

void tern_secure_free(struct tern_federation *federation)
{
    struct helper_link *helper = federation->helper;
    if (helper != NULL) {
        tern_job_join(&helper->job);
        tern_db_close(helper->reader);
        free(helper->mean.body);
        free(helper);
    }
}

static bool check_counters(const struct tern_federation_config *config,
                           const struct tern_model *model, char why[256])
{
    const uint32_t most = tern_masked_largest_cohort(model, config->secure.share);
    // Counters of rounds with noise are bounded in another way.
    if (config->secure.noise > 0 || config->round.cohort <= most) {
        return true;
    }
    snprintf(why, 256,
             "secure rounds count the values of a tensor that clients send in 32 bits: "
             "round.cohort = %u x %u values of the largest one is above 4294967295; set "
             "round.cohort to %u or less, or raise secure.share",
             config->round.cohort, tern_masked_counter_most(model, config->secure.share), most);
    return false;
}

bool tern_secure_can_train(const struct tern_federation_config *config,
                           const struct tern_model *model, char why[256])
{
    if (!config->secure.enabled) {
        return true;
    }
    if (tern_masked_supports(model)) {
        return check_counters(config, model, why);
    }
    snprintf(
        why, 256,
        "secure rounds need a model with 1 to %d compressed or fused tensors (this one has %u) "
        "and without dense or local ones: leave secure.helper empty, or choose another model",
        TERN_MASKED_TENSORS_MAX, tern_masked_tensors(model));
    return false;
}

// --- The stored round

static void put_log(const struct tern_helper_log *log, struct tern_db_secure_round *row)
{
    row->log_count = log->count;
    memcpy(row->log_head, log->head, sizeof row->log_head);
    memcpy(row->log_signature_r, log->signature, sizeof row->log_signature_r);
    memcpy(row->log_signature_s, log->signature + TERN_SHA256_SIZE, sizeof row->log_signature_s);
}

static void get_log(const struct tern_db_secure_round *row, struct tern_helper_log *log)
{
    log->count = row->log_count;
    memcpy(log->head, row->log_head, sizeof row->log_head);
    memcpy(log->signature, row->log_signature_r, sizeof row->log_signature_r);
    memcpy(log->signature + TERN_SHA256_SIZE, row->log_signature_s, sizeof row->log_signature_s);
}

// Writes the state of the open round.
static enum tern_result store_state(struct tern_federation *federation,
                                    enum tern_db_secure_state state)
{
    struct secure *secure = &federation->secure;
    const size_t size = tern_secure_round_size(&secure->facts);
    const uint32_t scales = state == TERN_SECURE_SUMMED ? secure->next_count : 0;
    struct tern_db_secure_round row = {
        .round = federation->machine.round, .state = state, .asked_ms = secure->asked_ms};
    uint8_t *facts = malloc(size + scales * sizeof(float));
    if (facts == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    tern_secure_round_encode(&secure->facts, facts);
    for (uint32_t i = 0; i < scales; i++) {
        tern_put_f32(facts + size + i * sizeof(float), secure->next_scales[i]);
    }
    row.facts = (struct tern_blob_column){facts, size + scales * sizeof(float)};
    put_log(&secure->log, &row);
    secure->state = state;
    const enum tern_result result = tern_db_secure_round_put(federation->db, &row);
    free(facts);
    return result;
}

// Returns the bytes of the next round's scales, which follow the facts of a round with a sum.
static size_t scales_size(const struct tern_federation *federation,
                          const struct tern_db_secure_round *row)
{
    const size_t size = tern_masked_tensors(&federation->merge.model) * sizeof(float);
    return row->state == TERN_SECURE_SUMMED && size < row->facts.len ? size : 0;
}

static enum tern_result load_scales(struct tern_federation *federation)
{
    struct secure *secure = &federation->secure;
    struct tern_db_secure_round row;
    struct tern_db_rows *rows = tern_db_secure_last_summed(federation->db);
    if (tern_db_next(rows, &row)) {
        const size_t size = scales_size(federation, &row);
        const uint8_t *scales = (const uint8_t *)row.facts.data + row.facts.len - size;
        secure->next_count = (uint32_t)(size / sizeof(float));
        for (uint32_t i = 0; i < secure->next_count; i++) {
            secure->next_scales[i] = tern_get_f32(scales + i * sizeof(float));
        }
        get_log(&row, &secure->log);
    }
    return tern_db_end(rows);
}

static enum tern_result load_facts(struct tern_federation *federation)
{
    struct secure *secure = &federation->secure;
    struct tern_db_secure_round row;
    struct tern_db_rows *rows = tern_db_secure_round(federation->db, federation->machine.round);
    if (tern_db_next(rows, &row)) {
        secure->is_on = true;
        secure->state = row.state;
        secure->asked_ms = row.asked_ms;
        get_log(&row, &secure->log);
        const size_t size = row.facts.len - scales_size(federation, &row);
        tern_db_check_row(rows, tern_secure_round_decode(row.facts.data, size, secure->scales,
                                                         TERN_MASKED_TENSORS_MAX, &secure->facts));
    }
    return tern_db_end(rows);
}

static enum tern_result load_tickets(struct tern_federation *federation)
{
    struct tern_db_ticket row;
    struct tern_db_rows *rows = tern_db_tickets(federation->db);
    while (tern_db_next(rows, &row)) {
        struct client *client = client_of(federation, row.client);
        if (client != NULL) { // rows of one client are in the order of their epochs
            client->ticket_epoch = row.epoch;
            client->shown_epoch = row.epoch;
            client->ticket_state = row.state;
        }
        federation->secure.has_tickets |= row.state == TERN_TICKET_WAITING;
    }
    return tern_db_end(rows);
}

enum tern_result tern_secure_load(struct tern_federation *federation)
{
    if (federation->helper != NULL) {
        // The transaction that chose the request may have been rolled back.
        federation->helper->next = REQUEST_NONE;
    }
    TERN_TRY(load_tickets(federation));
    TERN_TRY(load_scales(federation));
    TERN_TRY(federation->machine.open ? load_facts(federation) : TERN_OK);
    if (federation->secure.is_on && federation->secure.state != TERN_SECURE_TRAINING) {
        federation->machine.open = false; // no further update counts
    }
    return TERN_OK;
}

// --- Opening a round

// Returns when the next round may open, at `next` or later; UINT64_MAX: an answer of the helper decides.
static uint64_t next_opening(const struct tern_federation *federation, uint64_t next)
{
    const struct secure *secure = &federation->secure;
    const bool silent =
        federation->config.secure.enabled &&
        (!is_enabled(federation) || !federation->helper->answers || secure->log_refused);
    if (federation->machine.open) {
        return next;
    }
    return secure->is_on || silent    ? UINT64_MAX
           : next < secure->reopen_ms ? secure->reopen_ms
                                      : next;
}

bool tern_secure_allows_round(const struct tern_federation *federation, uint64_t now)
{
    return next_opening(federation, now) <= now;
}

bool tern_secure_allows_client(const struct tern_federation *federation,
                               const struct client *client)
{
    return !federation->config.secure.enabled ||
           (is_enabled(federation) && client->ticket_state == TERN_TICKET_ADMITTED &&
            client->ticket_epoch == federation->helper->epoch.epoch);
}

// Returns the seed of the values that the round sends. It differs from round to round, so that each value is sent sometimes.
static uint64_t places_seed_of(const struct tern_secure_round *facts)
{
    static const char label[] = "tern places v1";
    uint8_t text[sizeof label - 1 + TERN_SHA256_SIZE + 4];
    uint8_t hash[TERN_SHA256_SIZE];
    memcpy(text, label, sizeof label - 1);
    memcpy(text + sizeof label - 1, facts->federation, TERN_SHA256_SIZE);
    tern_put_le32(text + sizeof text - 4, facts->round);
    tern_sha256(text, sizeof text, hash);
    return tern_get_le64(hash);
}

// Sets the facts that noise depends on, and the bits that follow.
static void fill_noise(const struct tern_secure_settings *settings, const struct tern_model *model,
                       struct tern_secure_round *facts)
{
    facts->scale_count = tern_masked_tensors(model);
    facts->noise = settings->noise;
    facts->places_max = settings->noise > 0 ? tern_secure_places(settings, model->coded) : 0;
    facts->bits = tern_secure_bits(facts);
}

static void fill_facts(struct tern_federation *federation)
{
    const struct tern_federation_config *config = &federation->config;
    struct tern_secure_round *facts = &federation->secure.facts;
    struct tern_strategy_rule rule;
    const bool known = tern_rule_read(&federation->row, &rule) == TERN_OK;
    *facts = (struct tern_secure_round){
        .round = federation->machine.round,
        .local_steps = config->steps.local_steps,
        .batch_size = config->train.batch_size,
        .learning_rate = federation->row.learning_rate,
        .momentum = config->train.momentum,
        .weight_decay = config->train.weight_decay,
        .prox_mu = known ? rule.parameters[TERN_STRATEGY_PROX_MU] : 0.0F,
        .directive = (uint32_t)TERN_DIRECTIVE_KEEP,
        .level = LEVEL,
        .cohort = federation->machine.target,
        .min_clients = config->secure.min_clients,
        .groups = config->secure.groups,
        .share = config->secure.share,
        .examples_max = config->secure.examples_max,
        .epoch = federation->helper->epoch.epoch,
    };
    memcpy(facts->federation, federation->helper->party.federation, TERN_SHA256_SIZE);
    tern_masked_weights_hash(&federation->merge.model, federation->merge.replica, facts->replica);
    memcpy(facts->model_hash, federation->about.model_hash, TERN_SHA256_SIZE);
    facts->places_seed = places_seed_of(facts);
    fill_noise(&config->secure, &federation->merge.model, facts);
}

// Computes the scales of the first secure round from the weights of version 0.
static enum tern_result make_first_scales(struct tern_federation *federation)
{
    const struct tern_model *model = &federation->merge.model;
    float *weights = malloc(model->count * sizeof *weights);
    if (weights == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result = TERN_OK;
    if (tern_model_is_seeded(model)) {
        tern_model_init_weights(model, federation->about.seed, weights);
    } else {
        result =
            tern_db_weights_get(federation->db, TERN_WEIGHTS_INITIAL, 0, weights, model->count);
    }
    if (result == TERN_OK) {
        tern_masked_first_scales(model, &federation->secure.facts, weights,
                                 federation->secure.scales);
    }
    free(weights);
    return result;
}

static enum tern_result fill_scales(struct tern_federation *federation)
{
    struct secure *secure = &federation->secure;
    const uint32_t count = tern_masked_tensors(&federation->merge.model);
    if (secure->next_count == count) {
        memcpy(secure->scales, secure->next_scales, count * sizeof(float));
    } else {
        TERN_TRY(make_first_scales(federation));
    }
    secure->facts.scales = secure->scales;
    return TERN_OK;
}

enum tern_result tern_secure_plan_round(struct tern_federation *federation)
{
    struct secure *secure = &federation->secure;
    secure->is_on = is_enabled(federation);
    if (!secure->is_on) {
        return TERN_OK;
    }
    federation->row.mode = TERN_ROUND_SECURE;
    federation->row.noise = federation->config.secure.noise;
    secure->asked_ms = 0;
    secure->failures = 0;
    secure->log = federation->helper->epoch.log;
    secure->replayed_to = 0;
    fill_facts(federation);
    TERN_TRY(fill_scales(federation));
    const char *wrong = tern_secure_round_check(&secure->facts);
    if (wrong != NULL) {
        tern_log(TERN_LOG_ERROR, "secure-round-impossible", "round=%u fact=%s",
                 federation->machine.round, wrong);
        return TERN_ERR_STATE;
    }
    const struct tern_codec lossless = {.id = TERN_CODEC_FLOAT32};
    tern_codec_format(&lossless, federation->row.codec_up); // of the mean update
    return TERN_OK;
}

enum tern_result tern_secure_store_opened(struct tern_federation *federation)
{
    return federation->secure.is_on ? store_state(federation, TERN_SECURE_TRAINING) : TERN_OK;
}

// --- Closing and abandoning a round

// Settles the masked updates of the round that ends.
static enum tern_result settle(struct tern_federation *federation,
                               enum tern_db_settlement settlement)
{
    const struct tern_round_machine *machine = &federation->machine;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        struct client *client = client_of(federation, machine->members[i].client);
        if (machine->members[i].state == TERN_MEMBER_REPORTED &&
            client->row.masked_round == machine->round) {
            client->row.settlement = settlement;
            TERN_TRY(tern_clients_store(federation, client->row.id));
        }
    }
    return TERN_OK;
}

// Adds the round's loss to the members whose updates the helper is asked to release, rounded up. An abandoned round counts, too: the
// helper may have answered.
static enum tern_result count_loss(struct tern_federation *federation)
{
    const struct tern_round_machine *machine = &federation->machine;
    const double noise = (double)federation->secure.facts.noise / 1000.0;
    for (uint32_t i = 0; i < machine->member_count && noise > 0; i++) {
        struct client *client = client_of(federation, machine->members[i].client);
        if (machine->members[i].state == TERN_MEMBER_REPORTED &&
            client->row.masked_round == machine->round) {
            const double loss = (double)client->row.privacy_loss + tern_privacy_loss(noise);
            client->row.privacy_loss = nextafterf((float)loss, INFINITY);
            TERN_TRY(tern_clients_store(federation, client->row.id));
        }
    }
    return TERN_OK;
}

void tern_secure_note_abandoned(struct tern_federation *federation, uint64_t now)
{
    struct secure *secure = &federation->secure;
    secure->abandoned++;
    secure->reopen_ms = now + wait_after(REOPEN_MS, secure->abandoned);
}

static enum tern_result abandon(struct tern_federation *federation, const char *name,
                                const char *sentence, uint64_t now)
{
    struct secure *secure = &federation->secure;
    struct tern_db_round *row = &federation->row;
    snprintf(row->reason, sizeof row->reason, "%.30s: %.125s", name, sentence);
    tern_log(TERN_LOG_WARN, "round-abandoned", "round=%u updates=%u reason=%s detail=%s",
             row->round, federation->machine.reported, name, TERN_LOG_TEXT(sentence));
    row->state = TERN_ROUND_ABANDONED;
    row->closed_ms = now;
    TERN_TRY(tern_db_received_bytes(federation->db, &row->received_bytes));
    TERN_TRY(tern_db_round_put(federation->db, row));
    TERN_TRY(tern_db_masked_drop(federation->db, row->round));
    TERN_TRY(settle(federation, TERN_SETTLEMENT_GIVEN_BACK));
    TERN_TRY(store_state(federation, TERN_SECURE_ABANDONED));
    tern_merge_stop(&federation->merge);
    tern_round_abandon(&federation->machine, now);
    secure->is_on = false;
    tern_secure_note_abandoned(federation, now);
    federation->progressed = true;
    return TERN_OK;
}

// Counts the members that refused the open round.
static uint32_t count_refused(const struct tern_federation *federation)
{
    const struct tern_round_machine *machine = &federation->machine;
    uint32_t refused = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct client *client = client_of(federation, machine->members[i].client);
        refused += machine->members[i].state != TERN_MEMBER_REPORTED &&
                   client->row.failed_round == machine->round &&
                   (client->row.failure == (uint32_t)tern_TrainingFailure_FAILURE_REPLAYED ||
                    client->row.failure == (uint32_t)tern_TrainingFailure_FAILURE_HELPER_LOG);
    }
    return refused;
}

// Abandons the open round, whose number some members have used already; the first one in a row costs no wait.
static enum tern_result abandon_replayed(struct tern_federation *federation, uint32_t refused,
                                         uint64_t now)
{
    struct secure *secure = &federation->secure;
    struct tern_round_machine *machine = &federation->machine;
    const uint32_t skipped = secure->replayed_to - machine->round;
    char sentence[120];
    snprintf(sentence, sizeof sentence,
             "%u clients sent updates up to round %u, which this database lacks: an older backup.",
             refused, secure->replayed_to);
    TERN_TRY(abandon(federation, "replayed", sentence, now));
    machine->round += skipped < SKIPPED_MAX ? skipped : SKIPPED_MAX;
    secure->replayed_to = 0;
    secure->log_refused = false; // the next round shows whether it still is
    if (secure->abandoned == 1) {
        secure->reopen_ms = now;
    }
    return TERN_OK;
}

enum tern_result tern_secure_check_refused(struct tern_federation *federation, uint32_t expected,
                                           uint64_t now)
{
    struct secure *secure = &federation->secure;
    const struct tern_round_machine *machine = &federation->machine;
    if (secure->replayed_to == 0 && !secure->log_refused) {
        return TERN_OK;
    }
    const uint32_t refused = count_refused(federation);
    if (refused == 0 || (refused < machine->quorum && expected >= machine->quorum)) {
        return TERN_OK;
    }
    if (secure->replayed_to != 0) {
        return abandon_replayed(federation, refused, now);
    }
    federation->helper->ask_ms = now;
    char sentence[120];
    snprintf(sentence, sizeof sentence,
             "%u clients saw another or a longer log of the helper than %llu entries.", refused,
             (unsigned long long)secure->log.count);
    return abandon(federation, TERN_HELPER_LOG_REASON, sentence, now);
}

void tern_secure_note_refused(struct tern_federation *federation, uint64_t id, uint32_t *round,
                              tern_TrainingFailure failure)
{
    struct secure *secure = &federation->secure;
    const struct tern_round_machine *machine = &federation->machine;
    if (!secure->is_on || !machine->open || tern_round_member(machine, id) == NULL) {
        return;
    }
    if (failure == tern_TrainingFailure_FAILURE_REPLAYED && *round >= machine->round) {
        secure->replayed_to = *round > secure->replayed_to ? *round : secure->replayed_to;
        *round = machine->round;
    } else if (failure == tern_TrainingFailure_FAILURE_HELPER_LOG && *round == machine->round) {
        secure->log_refused = true;
    }
}

enum tern_result tern_secure_close_round(struct tern_federation *federation, uint64_t now)
{
    struct secure *secure = &federation->secure;
    const uint32_t updates = federation->machine.reported;
    secure->log_refused = false;
    if (updates < tern_secure_least(&secure->facts)) {
        char sentence[96];
        snprintf(sentence, sizeof sentence,
                 "%u updates came, and secure.min_clients%s asks for %" PRIu64 ".", updates,
                 secure->facts.groups > 0 ? " times secure.groups" : "",
                 tern_secure_least(&secure->facts));
        return abandon(federation, "too-few-updates", sentence, now);
    }
    secure->asked_ms = now;
    secure->retry_ms = now;
    secure->failures = 0;
    federation->machine.open = false;
    federation->progressed = true;
    tern_log(TERN_LOG_INFO, "helper-asked", "round=%u updates=%u", federation->machine.round,
             updates);
    TERN_TRY(count_loss(federation));
    return store_state(federation, TERN_SECURE_ASKED);
}

// --- The helper's answers

static void note_silence(struct helper_link *helper, uint64_t now)
{
    helper->answers = false;
    helper->failures++;
    helper->ask_ms = now + wait_after(RETRY_MS, helper->failures);
    if (!helper->silence_logged) {
        tern_log(TERN_LOG_WARN, "helper-silent", "reason=%s detail=%s", helper->outcome.name,
                 TERN_LOG_TEXT(helper->outcome.sentence));
    }
    helper->silence_logged = true;
}

// Warns if the helper's log no longer has what the last round's tasks showed, since devices then refuse the next ones.
static void check_log(const struct tern_helper_log *shown, const struct tern_helper_log *log)
{
    if (log->count < shown->count ||
        (log->count == shown->count && memcmp(log->head, shown->head, sizeof log->head) != 0)) {
        tern_log(TERN_LOG_WARN, "helper-log-changed",
                 "entries=%llu entries_before=%llu advice=\"devices refuse tasks while the log of "
                 "the helper has no more entries than they saw; ask its operator whether the "
                 "ledger was restored\"",
                 (unsigned long long)log->count, (unsigned long long)shown->count);
    }
}

static enum tern_result take_epoch(struct tern_federation *federation, uint64_t now)
{
    struct helper_link *helper = federation->helper;
    if (helper->outcome.verdict != TERN_HELPER_ANSWERED) {
        note_silence(helper, now);
        return TERN_OK;
    }
    const uint32_t before = helper->epoch.epoch;
    const uint64_t left = (uint64_t)helper->received.seconds_left * 1000 + RETRY_MS;
    check_log(&federation->secure.log, &helper->received.log);
    helper->epoch = helper->received;
    if (federation->secure.log_refused && !federation->machine.open &&
        helper->epoch.log.count > federation->secure.log.count) {
        federation->secure.log_refused = false;
        federation->secure.reopen_ms = now;
    }
    const uint64_t most = federation->secure.log_refused ? LOG_MS : EPOCH_MS;
    helper->ask_ms = now + (left < most ? left : most);
    helper->failures = 0;
    if (!helper->answers) {
        tern_log(TERN_LOG_INFO, "helper-answers", "epoch=%u", helper->epoch.epoch);
        federation->progressed = true; // held check-ins get the key
    }
    helper->answers = true;
    helper->silence_logged = false;
    // The helper has the keys of this epoch and of the one before.
    return helper->epoch.epoch != before && helper->epoch.epoch > 1
               ? tern_db_tickets_drop(federation->db, helper->epoch.epoch - 1)
               : TERN_OK;
}

static enum tern_result store_ticket(struct tern_federation *federation,
                                     const struct tern_db_ticket *ticket)
{
    struct client *client = client_of(federation, ticket->client);
    if (client != NULL && ticket->epoch >= client->ticket_epoch) {
        client->ticket_epoch = ticket->epoch;
        client->ticket_state = ticket->state;
    }
    return tern_db_ticket_put(federation->db, ticket);
}

static enum tern_result take_ticket_answer(struct tern_federation *federation, uint64_t now)
{
    struct helper_link *helper = federation->helper;
    struct tern_db_ticket *ticket = &helper->ticket;
    switch (helper->outcome.verdict) {
    case TERN_HELPER_ANSWERED:
        ticket->state = TERN_TICKET_ADMITTED;
        break;
    case TERN_HELPER_REFUSED:
        ticket->state = TERN_TICKET_REFUSED;
        snprintf(ticket->refusal, sizeof ticket->refusal, "%s", helper->outcome.name);
        tern_log(TERN_LOG_WARN, "ticket-refused", "client=%llu epoch=%u reason=%s detail=%s",
                 (unsigned long long)ticket->client, ticket->epoch, helper->outcome.name,
                 TERN_LOG_TEXT(helper->outcome.sentence));
        helper->ask_ms = now; // the epoch may be over
        break;
    case TERN_HELPER_SILENT:
    case TERN_HELPER_WRONG:
        note_silence(helper, now);
        return TERN_OK;
    }
    federation->progressed = true; // the client of a held check-in can take part now
    federation->retry_open_ms = 0;
    ticket->sealed.data = helper->sealed;
    return store_ticket(federation, ticket);
}

// Asks the helper for the tickets of the round's list again, after it refused the list because of its clients: those whose ticket it
// refuses now take no part in later rounds.
static enum tern_result ask_for_tickets_again(struct tern_federation *federation)
{
    const struct tern_round_machine *machine = &federation->machine;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct client *client = client_of(federation, machine->members[i].client);
        struct tern_db_ticket ticket;
        uint8_t sealed[SEALED_MAX];
        if (client->row.masked_round != machine->round ||
            client->ticket_state != TERN_TICKET_ADMITTED) {
            continue;
        }
        struct tern_db_rows *rows =
            tern_db_ticket(federation->db, client->row.id, client->ticket_epoch);
        const bool found = tern_db_next(rows, &ticket) && ticket.sealed.len <= sizeof sealed;
        if (found) {
            memcpy(sealed, ticket.sealed.data, ticket.sealed.len);
        }
        TERN_TRY(tern_db_end(rows));
        if (found) {
            ticket.sealed.data = sealed;
            ticket.state = TERN_TICKET_WAITING;
            federation->secure.has_tickets = true;
            TERN_TRY(store_ticket(federation, &ticket));
        }
    }
    return TERN_OK;
}

// Abandons the round whose list the helper refused.
static enum tern_result take_refusal(struct tern_federation *federation, uint64_t now)
{
    const struct tern_helper_outcome *outcome = &federation->helper->outcome;
    const bool is_of_clients =
        outcome->verdict == TERN_HELPER_REFUSED && (strcmp(outcome->name, "revoked-client") == 0 ||
                                                    strcmp(outcome->name, "unknown-ticket") == 0);
    TERN_TRY(is_of_clients ? ask_for_tickets_again(federation) : TERN_OK);
    return abandon(federation, outcome->name, outcome->sentence, now);
}

// Counts the mean update as the round's only update.
static enum tern_result count_mean(struct tern_federation *federation,
                                   const struct tern_mean_update *mean)
{
    struct tern_strategy_rule rule;
    struct tern_span container;
    tern_Update message;
    TERN_TRY(tern_wire_decode_update(mean->body, mean->len, &message, &container));
    TERN_TRY(tern_rule_read(&federation->row, &rule));
    const struct tern_contribution contribution = tern_contribution_of(&message);
    tern_strategy_totals_init(&federation->totals, &rule);
    return tern_strategy_count_update(&federation->totals, &contribution);
}

static enum tern_result take_sum(struct tern_federation *federation, uint64_t now)
{
    struct secure *secure = &federation->secure;
    struct helper_link *helper = federation->helper;
    struct tern_db_secure_sum sum = {.round = federation->machine.round,
                                     .received_ms = now,
                                     .body = {helper->mean.body, helper->mean.len}};
    TERN_TRY(tern_db_secure_sum_put(federation->db, &sum));
    TERN_TRY(tern_db_masked_drop(federation->db, sum.round));
    TERN_TRY(settle(federation, TERN_SETTLEMENT_COUNTED));
    secure->next_count = secure->facts.scale_count;
    memcpy(secure->next_scales, helper->mean.next_scales, sizeof secure->next_scales);
    helper->epoch.log = helper->log;
    secure->abandoned = 0;
    if (helper->mean.left_out > 0) {
        tern_log(TERN_LOG_WARN, "groups-left-out", "round=%u groups=%u of=%u reason=%s", sum.round,
                 helper->mean.left_out, tern_secure_sums(&secure->facts), "sum-out-of-range");
    }
    secure->log_refused = false;
    TERN_TRY(store_state(federation, TERN_SECURE_SUMMED));
    return count_mean(federation, &helper->mean);
}

static enum tern_result take_sum_answer(struct tern_federation *federation, uint64_t now)
{
    struct secure *secure = &federation->secure;
    struct helper_link *helper = federation->helper;
    const struct tern_helper_outcome *outcome = &helper->outcome;
    const bool is_current = secure->is_on && secure->state == TERN_SECURE_ASKED &&
                            helper->facts.round == federation->machine.round;
    enum tern_result result = TERN_OK;
    if (is_current && outcome->verdict == TERN_HELPER_ANSWERED) {
        result = take_sum(federation, now);
    } else if (is_current && outcome->verdict != TERN_HELPER_SILENT) {
        result = take_refusal(federation, now);
    } else if (is_current) {
        secure->failures++;
        secure->retry_ms = now + wait_after(RETRY_MS, secure->failures);
        note_silence(helper, now);
        tern_log(TERN_LOG_WARN, "helper-gives-no-sum", "round=%u failures=%u reason=%s detail=%s",
                 federation->machine.round, secure->failures, outcome->name,
                 TERN_LOG_TEXT(outcome->sentence));
    }
    free(helper->mean.body);
    helper->mean.body = NULL;
    return result;
}

static bool has_answer(const struct helper_link *helper)
{
    return helper->under != REQUEST_NONE && (!helper->job.begun || tern_job_is_done(&helper->job));
}

static enum tern_result take_answer(struct tern_federation *federation, uint64_t now)
{
    struct helper_link *helper = federation->helper;
    if (!has_answer(helper)) {
        return TERN_OK;
    }
    tern_job_join(&helper->job);
    const enum request_kind kind = helper->under;
    helper->under = REQUEST_NONE;
    switch (kind) {
    case REQUEST_EPOCH:
        return take_epoch(federation, now);
    case REQUEST_TICKET:
        return take_ticket_answer(federation, now);
    case REQUEST_SUM:
        return take_sum_answer(federation, now);
    case REQUEST_NONE:
        break;
    }
    return TERN_OK;
}

// Returns when a round whose sum the helper does not give is abandoned.
static uint64_t ask_deadline_ms(const struct tern_federation *federation)
{
    return federation->secure.asked_ms + federation->config.round.deadline_ms;
}

static bool is_asking(const struct tern_federation *federation)
{
    return federation->secure.is_on && federation->secure.state == TERN_SECURE_ASKED;
}

static enum tern_result check_ask_deadline(struct tern_federation *federation, uint64_t now)
{
    const bool waits = federation->helper != NULL && federation->helper->under == REQUEST_SUM;
    if (!is_asking(federation) || waits || now < ask_deadline_ms(federation)) {
        return TERN_OK;
    }
    return abandon(federation, "helper-silent",
                   "The helper gave no sum within round.deadline. See the log's event "
                   "helper-gives-no-sum.",
                   now);
}

// --- Requests to the helper

static void prepare_sum(struct tern_federation *federation)
{
    struct helper_link *helper = federation->helper;
    const struct secure *secure = &federation->secure;
    struct tern_strategy_rule rule;
    helper->facts = secure->facts;
    memcpy(helper->scales, secure->scales, sizeof helper->scales);
    helper->facts.scales = helper->scales;
    memcpy(helper->base, federation->merge.replica_id, sizeof helper->base);
    helper->norm_max = federation->config.limits.norm;
    if (tern_rule_read(&federation->row, &rule) == TERN_OK &&
        tern_strategy_norm_max(&rule) < helper->norm_max) {
        helper->norm_max = tern_strategy_norm_max(&rule);
    }
    helper->next = REQUEST_SUM;
}

static enum tern_result prepare_ticket(struct tern_federation *federation)
{
    struct helper_link *helper = federation->helper;
    struct tern_db_ticket row;
    struct tern_db_rows *rows = tern_db_tickets_waiting(federation->db, 1);
    federation->secure.has_tickets = false;
    if (tern_db_next(rows, &row) && row.sealed.len <= sizeof helper->sealed) {
        helper->ticket = row;
        memcpy(helper->sealed, row.sealed.data, row.sealed.len);
        helper->next = REQUEST_TICKET;
        federation->secure.has_tickets = true; // perhaps further ones
    }
    return tern_db_end(rows);
}

static enum tern_result choose_request(struct tern_federation *federation, uint64_t now)
{
    struct helper_link *helper = federation->helper;
    helper->next = REQUEST_NONE;
    if (helper->under != REQUEST_NONE) {
        return TERN_OK;
    }
    if (is_asking(federation) && now >= federation->secure.retry_ms) {
        prepare_sum(federation);
        return TERN_OK;
    }
    if (federation->config.secure.enabled && now >= helper->ask_ms) {
        helper->next = REQUEST_EPOCH;
        return TERN_OK;
    }
    return helper->answers && federation->secure.has_tickets ? prepare_ticket(federation) : TERN_OK;
}

// Gives up the round for the operator's order, unless the helper was asked for its sum: then the order waits. closing.c has
// dropped an order that cannot be executed.
static enum tern_result make_way_for_order(struct tern_federation *federation, uint64_t now)
{
    const struct tern_db_order *order = &federation->order;
    const bool trains =
        federation->secure.is_on && federation->secure.state == TERN_SECURE_TRAINING;
    return order->ready && trains ? abandon(federation, order->strategy, order->reason, now)
                                  : TERN_OK;
}

enum tern_result tern_secure_advance(struct tern_federation *federation, uint64_t now)
{
    TERN_TRY(make_way_for_order(federation, now));
    if (federation->helper != NULL) {
        TERN_TRY(take_answer(federation, now));
    }
    TERN_TRY(check_ask_deadline(federation, now));
    return federation->helper != NULL ? choose_request(federation, now) : TERN_OK;
}

void tern_secure_start_request(struct tern_federation *federation)
{
    struct helper_link *helper = federation->helper;
    if (helper == NULL || helper->next == REQUEST_NONE || helper->under != REQUEST_NONE) {
        return;
    }
    helper->under = helper->next;
    helper->next = REQUEST_NONE;
    // The outcome if no thread can start.
    fail(helper, TERN_HELPER_SILENT, tern_result_name(TERN_ERR_NO_MEMORY),
         tern_result_sentence(TERN_ERR_NO_MEMORY));
    (void)!tern_job_start(&helper->job);
}

bool tern_secure_awaits_merge(const struct tern_federation *federation)
{
    return federation->secure.is_on && federation->secure.state == TERN_SECURE_SUMMED &&
           !tern_federation_stores_weights(federation);
}

// Returns when the helper is asked next; UINT64_MAX: not before the answer to the request that is under way.
static uint64_t next_request(const struct tern_federation *federation)
{
    const struct helper_link *helper = federation->helper;
    if (helper == NULL || helper->under != REQUEST_NONE) {
        return UINT64_MAX;
    }
    const uint64_t sum = is_asking(federation) ? federation->secure.retry_ms : UINT64_MAX;
    const uint64_t epoch = federation->config.secure.enabled ? helper->ask_ms : UINT64_MAX;
    return sum < epoch ? sum : epoch;
}

uint64_t tern_secure_next_advance(const struct tern_federation *federation, uint64_t next)
{
    const struct helper_link *helper = federation->helper;
    if (tern_secure_awaits_merge(federation) || (helper != NULL && has_answer(helper))) {
        return 0;
    }
    const uint64_t asked = is_asking(federation) ? ask_deadline_ms(federation) : UINT64_MAX;
    const uint64_t request = next_request(federation);
    const uint64_t opening = next_opening(federation, next);
    const uint64_t first = asked < request ? asked : request;
    return first < opening ? first : opening;
}

void tern_secure_fill_wait_facts(const struct tern_federation *federation,
                                 struct tern_wait_facts *facts)
{
    facts->asks_helper = is_asking(federation);
    facts->helper_silent = is_enabled(federation) && !federation->helper->answers;
    if (federation->row.state == TERN_ROUND_ABANDONED) {
        tern_wait_set_abandoned(facts, federation->row.closed_ms, federation->row.reason);
    }
}

// --- Check-ins

// Whether the open round has an update of the client, whose mask follows from the stored ticket.
static bool is_in_list(const struct tern_federation *federation, const struct client *client)
{
    return federation->secure.is_on && client->row.masked_round == federation->machine.round;
}

// Stores a ticket that the client sent, unless it is stored already. A ticket that the helper has refused is passed on again,
// because the helper's operator may have given the client a code meanwhile.
static enum tern_result take_ticket(struct tern_federation *federation, struct client *client,
                                    const tern_CheckinRequest *message,
                                    struct tern_refusal *refusal)
{
    struct tern_db_ticket row = {.client = client->row.id, .epoch = message->ticket_epoch};
    struct tern_db_ticket stored;
    tern_sha256(message->ticket.bytes, message->ticket.size, row.sha256);
    row.sealed = (struct tern_blob_column){message->ticket.bytes, message->ticket.size};
    struct tern_db_rows *rows = tern_db_ticket(federation->db, row.client, row.epoch);
    const bool same =
        tern_db_next(rows, &stored) && memcmp(stored.sha256, row.sha256, sizeof row.sha256) == 0;
    TERN_TRY(tern_db_end(rows));
    if (same && stored.state != TERN_TICKET_REFUSED) {
        return TERN_OK;
    }
    if (is_in_list(federation, client) && row.epoch == federation->secure.facts.epoch) {
        tern_refusal_set(refusal, TERN_ERR_UNKNOWN,
                         "The open round has an update of this client under an earlier ticket. The "
                         "aggregator takes the new ticket after the round.");
        return TERN_OK;
    }
    if (same) {
        refusal->result = TERN_ERR_UNKNOWN;
        snprintf(refusal->sentence, sizeof refusal->sentence,
                 "The helper refuses this client's ticket (%.40s). Give the client a valid code of "
                 "the helper ([secure] code).",
                 stored.refusal);
    }
    federation->secure.has_tickets = true;
    return store_ticket(federation, &row);
}

enum tern_result tern_secure_take_checkin(struct tern_federation *federation, uint64_t id,
                                          const tern_CheckinRequest *message,
                                          struct tern_refusal *refusal)
{
    struct client *client = client_of(federation, id);
    const bool enabled = federation->config.secure.enabled;
    client->secure = message->secure;
    client->shown_epoch = message->ticket_epoch;
    client->unsettled = message->unsettled;
    if (client->row.evaluator) {
        return TERN_OK;
    }
    if (enabled != message->secure) {
        tern_refusal_set(refusal, TERN_ERR_UNKNOWN,
                         enabled
                             ? "This federation trains in secure rounds alone, and this client has "
                               "no helper. Set [secure] helper_key and code, or install a version "
                               "of Tern with secure rounds."
                             : "This client trains in secure rounds alone, and this federation has "
                               "none. Remove [secure] helper_key, or set secure.helper of the "
                               "aggregator.");
        return TERN_OK;
    }
    const bool is_current = enabled && message->ticket.size != 0 && is_enabled(federation) &&
                            message->ticket_epoch == federation->helper->epoch.epoch;
    return is_current ? take_ticket(federation, client, message, refusal) : TERN_OK;
}

// Returns the settlement of an update that the store does not have as the client's last one.
static enum tern_result find_settlement(struct tern_federation *federation, uint64_t id,
                                        uint32_t round, enum tern_db_settlement *settlement)
{
    struct tern_db_update update;
    struct tern_db_round row = {.state = TERN_ROUND_OPEN};
    enum tern_result found = tern_db_update_find(federation->db, round, id, &update);
    if (found == TERN_OK) {
        found = tern_db_round_get(federation->db, round, &row);
    }
    *settlement =
        row.state == TERN_ROUND_COMMITTED ? TERN_SETTLEMENT_COUNTED : TERN_SETTLEMENT_GIVEN_BACK;
    return tern_db_may_miss(found);
}

static enum tern_result settlement_of(struct tern_federation *federation,
                                      const struct client *client,
                                      enum tern_db_settlement *settlement)
{
    if (client->row.masked_round == client->unsettled) {
        *settlement = client->row.settlement;
        return TERN_OK;
    }
    if (federation->secure.is_on && client->unsettled == federation->machine.round) {
        *settlement = TERN_SETTLEMENT_NONE; // the update may still arrive
        return TERN_OK;
    }
    return find_settlement(federation, client->row.id, client->unsettled, settlement);
}

static void fill_helper_key(const struct helper_link *helper, tern_HelperKey *key)
{
    key->epoch = helper->epoch.epoch;
    key->public_key.size = sizeof helper->epoch.public_key;
    memcpy(key->public_key.bytes, helper->epoch.public_key, sizeof helper->epoch.public_key);
    key->signature.size = sizeof helper->epoch.signature;
    memcpy(key->signature.bytes, helper->epoch.signature, sizeof helper->epoch.signature);
}

// Whether the open round waits for the client's update under a ticket of an earlier epoch. With another ticket the client
// could not do its task.
static bool trains_in_earlier_epoch(const struct tern_federation *federation,
                                    const struct client *client)
{
    const struct tern_round_machine *machine = &federation->machine;
    const struct tern_member *member = federation->secure.is_on && machine->open
                                           ? tern_round_member(machine, client->row.id)
                                           : NULL;
    return member != NULL && member->state != TERN_MEMBER_REPORTED &&
           client->ticket_epoch == federation->secure.facts.epoch &&
           client->shown_epoch == client->ticket_epoch;
}

// Whether the client has no ticket of the epoch that the helper has admitted or will see, or has lost it.
static bool needs_ticket(const struct tern_federation *federation, const struct client *client)
{
    if (!client->secure || !is_enabled(federation) || federation->helper->epoch.epoch == 0) {
        return false;
    }
    if (client->ticket_epoch != federation->helper->epoch.epoch) {
        return !trains_in_earlier_epoch(federation, client);
    }
    return client->ticket_state == TERN_TICKET_REFUSED ||
           (client->shown_epoch != client->ticket_epoch && !is_in_list(federation, client));
}

enum tern_result tern_secure_fill_reply(struct tern_federation *federation, uint64_t id,
                                        tern_CheckinReply *reply)
{
    const struct client *client = client_of(federation, id);
    enum tern_db_settlement settlement = TERN_SETTLEMENT_NONE;
    if (client->unsettled != 0) {
        TERN_TRY(settlement_of(federation, client, &settlement));
    }
    reply->has_settled = settlement != TERN_SETTLEMENT_NONE;
    reply->settled.round = client->unsettled;
    reply->settled.counted = settlement == TERN_SETTLEMENT_COUNTED;
    reply->has_helper = needs_ticket(federation, client);
    if (reply->has_helper) {
        fill_helper_key(federation->helper, &reply->helper);
    }
    return TERN_OK;
}

// --- Tasks and updates

void tern_secure_fill_task(const struct tern_federation *federation, tern_Task *task)
{
    const struct secure *secure = &federation->secure;
    const struct tern_secure_round *facts = &secure->facts;
    if (!secure->is_on) {
        return;
    }
    task->local_steps = facts->local_steps;
    task->batch_size = facts->batch_size;
    task->learning_rate = facts->learning_rate;
    task->momentum = facts->momentum;
    task->weight_decay = facts->weight_decay;
    task->prox_mu = facts->prox_mu;
    task->evaluate = false;
    task->has_secure = true;
    task->secure = (tern_SecureRound){.bits = facts->bits,
                                      .level = facts->level,
                                      .min_clients = facts->min_clients,
                                      .groups = facts->groups,
                                      .epoch = (uint32_t)facts->epoch,
                                      .share = facts->share,
                                      .places_seed = facts->places_seed,
                                      .examples_max = facts->examples_max,
                                      .cohort = facts->cohort,
                                      .places_max = facts->places_max,
                                      .noise = facts->noise};
    task->secure.scales.size = (pb_size_t)(facts->scale_count * sizeof(float));
    for (uint32_t i = 0; i < facts->scale_count; i++) {
        tern_put_f32(task->secure.scales.bytes + i * sizeof(float), facts->scales[i]);
    }
    task->secure.log_count = secure->log.count;
    task->secure.log_head.size = TERN_SHA256_SIZE;
    memcpy(task->secure.log_head.bytes, secure->log.head, TERN_SHA256_SIZE);
    task->secure.log_signature.size = TERN_P256_SIGNATURE_SIZE;
    memcpy(task->secure.log_signature.bytes, secure->log.signature, TERN_P256_SIGNATURE_SIZE);
}

enum tern_result tern_secure_check_update(const struct tern_federation *federation,
                                          const struct tern_incoming_update *update)
{
    const struct secure *secure = &federation->secure;
    if (update->message.masked != secure->is_on) {
        return TERN_ERR_STATE;
    }
    if (!secure->is_on) {
        return TERN_OK;
    }
    if (federation->machine.reported >= secure->facts.cohort) {
        return TERN_ERR_LATE; // a further sum might not fit into the bits of a value
    }
    if (update->message.local_steps != secure->facts.local_steps) {
        return TERN_ERR_ARGUMENT;
    }
    const struct client *client = client_of(federation, update->client);
    if (client->ticket_epoch == secure->facts.epoch &&
        client->ticket_state != TERN_TICKET_ADMITTED) {
        return TERN_ERR_STATE; // the mask follows from a ticket that was replaced
    }
    const struct tern_masked_shape shape =
        tern_masked_shape_of(&federation->merge.model, &secure->facts);
    return tern_masked_check(&shape, update->container.data, update->container.len);
}

enum tern_result tern_secure_note_update(struct tern_federation *federation, uint64_t id)
{
    struct client *client = client_of(federation, id);
    client->row.masked_round = federation->machine.round;
    client->row.settlement = TERN_SETTLEMENT_NONE;
    return tern_clients_store(federation, id);
}
