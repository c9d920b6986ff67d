#include "service/internal.h"
#include "service/ledger.h"

#include <stdio.h>
#include <string.h>

// --- What the client tells

static struct abilities abilities_of(const tern_CheckinRequest *message)
{
    return (struct abilities){.codecs = message->codecs,
                              .coders = message->coders,
                              .downloads_max = message->downloads_max,
                              .from_seed = message->from_seed,
                              .step_ahead = message->step_ahead};
}

// What a client is able to is stored at once: the reply to an update, whatever happens between,
// must not bring more than that. All else may wait for the next writing of what is dirty.
static enum tern_result take_facts(struct tern_service *service, uint64_t id,
                                   const tern_CheckinRequest *message, uint64_t now)
{
    struct client *client = client_of(service, id);
    const struct abilities able = abilities_of(message);
    bool news = !abilities_equal(&client->able, &able);
    client->dirty = true;
    take_conditions(client, message, now);
    client->last_seen_ms = now;
    client->able = able;
    client->version = message->version;
    memset(client->replica, 0, TERN_SHA256_SIZE);
    memcpy(client->replica, message->replica.bytes, message->replica.size);
    return news ? store_client(service, id) : TERN_OK;
}

static enum tern_result take_evaluation(struct tern_service *service, uint64_t id,
                                        const tern_Evaluation *evaluation)
{
    struct client *client = client_of(service, id);
    // Only an evaluator's figure is the federation's accuracy; anybody may send one.
    if (!client->evaluator || evaluation->version > service->merge.version) {
        return TERN_OK;
    }
    struct tern_db_evaluation row = {.version = evaluation->version,
                                     .client = id,
                                     .num_examples = evaluation->num_examples,
                                     .loss = evaluation->loss,
                                     .accuracy = evaluation->accuracy};
    TERN_TRY(tern_db_evaluation_put(service->db, &row));
    if (evaluation->version > client->evaluated) {
        client->evaluated = evaluation->version;
        tern_log(TERN_LOG_INFO, "evaluation",
                 "version=%u client=%llu accuracy=%.4f loss=%.4f examples=%u", row.version,
                 (unsigned long long)id, (double)row.accuracy, (double)row.loss, row.num_examples);
    }
    return TERN_OK;
}

// The codec that a client would need and does not know, or NULL.
static const struct tern_codec *missing_codec(const struct tern_service *service,
                                              const tern_CheckinRequest *message)
{
    const struct tern_codec *up = &service->config.codec_up;
    const struct tern_codec *down = &service->config.codec_down;
    const struct abilities able = abilities_of(message);
    if (!abilities_encode(&able, up)) {
        return up;
    }
    return abilities_decode(&able, down) ? NULL : down;
}

// Why this check-in cannot be served, or TERN_OK.
static enum tern_result refusal(const struct tern_service *service, const struct request *request)
{
    const tern_CheckinRequest *message = &request->u.checkin;
    TERN_TRY(request->parsed);
    if (message->model_hash.size != 0 &&
        memcmp(message->model_hash.bytes, service->federation.model_hash, TERN_SHA256_SIZE) != 0) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    return TERN_OK;
}

static void refuse_codec(const struct tern_service *service, struct request *request,
                         const struct tern_codec *codec)
{
    char sentence[TERN_CODEC_SENTENCE_MAX];
    char spec[TERN_CODEC_SPEC_MAX];
    tern_codec_format(codec, spec);
    const struct abilities able = abilities_of(&request->u.checkin);
    bool lacks_coder = abilities_know(&able, codec->id);
    snprintf(sentence, sizeof sentence,
             "This federation's %s are encoded with %s, which this client does not know; it needs "
             "a version of Tern that does.",
             codec == &service->config.codec_up ? "updates" : "downloads",
             lacks_coder ? spec : tern_codec_entry(codec->id)->name);
    answer_refusal(request, 422, TERN_ERR_UNKNOWN, sentence);
}

// Such a client would come back for ever and never get a task.
static enum tern_result refuse_stranded(struct tern_service *service, struct request *request)
{
    bool stranded = false;
    if (tern_round_finished(&service->machine)) {
        return TERN_OK;
    }
    TERN_TRY(is_stranded(service, client_of(service, request->client), &stranded));
    if (stranded) {
        answer_refusal(request, 422, TERN_ERR_UNKNOWN,
                       "No deltas that this client can take lead from its replica to the present "
                       "one, and it takes no snapshots (float32).");
    }
    return TERN_OK;
}

static enum tern_result take_checkin(struct tern_service *service, struct request *request,
                                     uint64_t now)
{
    const tern_CheckinRequest *message = &request->u.checkin;
    struct client *client = client_of(service, request->client);
    enum tern_result refused = refusal(service, request);
    if (refused != TERN_OK) {
        answer_error(request, status_of(refused), refused);
        return TERN_OK;
    }
    const struct tern_codec *missing = missing_codec(service, message);
    if (missing != NULL) {
        refuse_codec(service, request, missing);
        return TERN_OK;
    }
    service->counters.checkins++;
    TERN_TRY(take_facts(service, request->client, message, now));
    if (message->has_error && !client->evaluator) {
        TERN_TRY(ledger_checkin(service, request->client, &message->error, now));
    }
    if (message->has_evaluation) {
        TERN_TRY(take_evaluation(service, request->client, &message->evaluation));
    }
    TERN_TRY(refuse_stranded(service, request));
    uint64_t limit = service->config.limits.long_poll_ms;
    request->hold_until_ms =
        service->batch_ms + (message->wait_ms < limit ? message->wait_ms : limit);
    return TERN_OK;
}

enum tern_result handle_checkin(struct tern_service *service, struct request *request, uint64_t now)
{
    TERN_TRY(take_checkin(service, request, now));
    if (request->answered) { // it was refused
        ask_later(service, request);
    }
    return TERN_OK;
}

// --- Answers

static void answer_next(struct tern_service *service, struct request *request,
                        const tern_CheckinReply *reply)
{
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = 0;
    enum tern_result result = tern_wire_encode_checkin_reply(reply, body, sizeof body, &len);
    if (result != TERN_OK) {
        tern_log(TERN_LOG_ERROR, "reply-not-encodable", "error=%s", tern_result_name(result));
        answer_error(request, 503, result);
        return;
    }
    request->tag.round = service->machine.round;
    answer_bytes(request, body, len);
}

static void hold(struct tern_service *service, struct request *request)
{
    struct client *client = client_of(service, request->client);
    client->held = request;
    service->held_count++;
    if (request->hold_until_ms < service->next_hold_ms) {
        service->next_hold_ms = request->hold_until_ms;
    }
}

static struct request *let_go(struct tern_service *service, struct client *client)
{
    struct request *request = client->held;
    client->held = NULL;
    service->held_count--;
    return request;
}

// Answers a check-in that has something to do or may not wait; *idle when it may be held.
static enum tern_result try_answer(struct tern_service *service, struct request *request,
                                   uint64_t now, bool *held)
{
    tern_CheckinReply reply;
    bool idle = false;
    *held = false;
    if (client_of(service, request->client)->revoked) {
        answer_error(request, 401, TERN_ERR_UNAUTHORIZED);
        return TERN_OK;
    }
    TERN_TRY(next_for_client(service, request->client, now, &reply, &idle));
    if (idle && service->batch_ms < request->hold_until_ms && !service->quiescing) {
        *held = true;
        return TERN_OK;
    }
    answer_next(service, request, &reply);
    return TERN_OK;
}

enum tern_result settle_checkin(struct tern_service *service, struct request *request, uint64_t now)
{
    struct client *client = client_of(service, request->client);
    bool held = false;
    // A client asks once at a time; an older question is one whose connection it has given up.
    if (client->held != NULL) {
        struct request *older = let_go(service, client);
        older->hold_until_ms = 0;
        answer_refusal(older, 409, TERN_ERR_CONFLICT, "A newer check-in has taken its place.");
        request_list_add(&service->batch, older);
    }
    TERN_TRY(try_answer(service, request, now, &held));
    if (held) {
        hold(service, request);
    }
    return TERN_OK;
}

static enum tern_result settle_one_held(struct tern_service *service, struct client *client,
                                        uint64_t now)
{
    bool held = false;
    TERN_TRY(try_answer(service, client->held, now, &held));
    if (!held) {
        request_list_add(&service->batch, let_go(service, client));
    }
    return TERN_OK;
}

enum tern_result settle_held(struct tern_service *service, uint64_t now)
{
    bool all = service->moved || service->quiescing;
    if (service->held_count == 0 || (!all && service->batch_ms < service->next_hold_ms)) {
        return TERN_OK;
    }
    service->next_hold_ms = UINT64_MAX;
    for (uint32_t i = 0; i < service->client_count; i++) {
        struct client *client = &service->clients[i];
        if (client->held != NULL && (all || service->batch_ms >= client->held->hold_until_ms)) {
            TERN_TRY(settle_one_held(service, client, now));
        }
        if (client->held != NULL && client->held->hold_until_ms < service->next_hold_ms) {
            service->next_hold_ms = client->held->hold_until_ms;
        }
    }
    return TERN_OK;
}
