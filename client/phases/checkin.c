// The check-in: reports this client's state and abilities to the aggregator, which answers with a task or a time to return.
#include "core.h"

#include <string.h>

// The protocol's minimum time that a client waits for an answer after wait_ms have passed.
#define HELD_TIMEOUT_MIN_MS 30000

// Receives the answer into the blob if it is larger than client->reply, because the answer may include the task's downloads.
static void receive_into_blob(struct tern_client *client)
{
    if (client->work.blob_size > client->response.body_size) {
        client->response.body = client->work.blob;
        client->response.body_size = client->work.blob_size;
    }
}

// Returns the size in bytes of the largest answer that this client accepts.
static uint32_t reply_size_max(struct tern_client *client)
{
    const uint32_t budget = tern_budget_inline_bytes(client);
    const size_t memory = client->work.blob_size;
    return budget < memory ? budget : (uint32_t)memory;
}

static enum tern_result reserve_round(struct tern_client *client, uint32_t room)
{
    if (!tern_budget_month_has_round(client)) {
        return tern_budget_wait(client, client->budget.round_mean,
                                TERN_WHY("a round would exceed the byte budget of the month"));
    }
    return tern_budget_reserve_or_wait(client, tern_budget_cost(room, 1));
}

static bool has_budget(const struct tern_client *client)
{
    return client->config.budget_per_round != 0 || client->config.budget_per_month != 0;
}

// Returns the most downloads of a task that this build accepts; 0, which the message omits, for the protocol's limit.
static uint32_t downloads_max(void)
{
    return TERN_WIRE_DOWNLOADS_MAX < TERN_WIRE_DOWNLOADS_LIMIT ? TERN_WIRE_DOWNLOADS_MAX : 0;
}

// Returns the coders of this build, one bit each; 0, which the message omits, for all coders.
static uint32_t coder_mask(void)
{
    return tern_codec_coders() != TERN_CODERS_ALL ? tern_codec_coders() : 0;
}

// Returns whether the client has a replica. Before its first download it has one only if a seed generates version 0.
static bool holds_replica(const struct tern_client *client)
{
    static const uint8_t none[TERN_SHA256_SIZE];
    return tern_model_is_seeded(client->work.model) ||
           memcmp(client->replica, none, sizeof none) != 0;
}

static uint32_t abilities(const struct tern_client *client)
{
    const uint32_t leaves = !TERN_SMALL && client->config.leaves ? TERN_WIRE_LEAVES : 0;
    uint32_t bits = TERN_WIRE_STEPS_AHEAD;
    bits |= TERN_VARIANCE_REDUCTION && client->work.anchor != NULL ? TERN_WIRE_REDUCES : 0;
    bits |= !TERN_SMALL && client->config.passes_resets ? TERN_WIRE_PASSES_RESETS : 0;
    return leaves | (client->identity.evaluator ? 0 : bits);
}

static tern_CheckinRequest make_checkin_request(struct tern_client *client, uint32_t room)
{
    const struct tern_conditions *conditions = &client->conditions;
    tern_CheckinRequest message;
    memset(&message, 0, sizeof message);
    message.replica.size = holds_replica(client) ? TERN_WIRE_REPLICA_BYTES : 0;
    memcpy(message.replica.bytes, client->replica, message.replica.size);
    message.version = client->version;
    message.wait_ms = client->config.wait_ms;
    message.codecs = tern_client_codecs(client);
    message.inline_kib = room / 1024;
    message.metered = conditions->metered;
    message.budgeted = has_budget(client);
    message.budget_left = message.budgeted ? tern_budget_left(client) : 0;
    message.power = (tern_Power)conditions->power;
    message.has_error = !client->identity.evaluator && !client->error_reported;
    message.error = tern_client_error_facts(client);
    message.has_evaluation = client->has_evaluation;
    message.evaluation = client->evaluation;
    message.failed_round = client->failed_round;
    message.failure = client->failure;
    if (TERN_MANIFESTS &&
        message.replica.size == 0) { // otherwise the replica's id implies the model
        message.model_hash.size = TERN_SHA256_SIZE;
        memcpy(message.model_hash.bytes, client->identity.model_hash, TERN_SHA256_SIZE);
    }
    message.downloads_max = downloads_max();
    message.coders = coder_mask();
    message.from_seed = tern_model_is_seeded(client->work.model);
    message.abilities = abilities(client);
    if (TERN_VARIANCE_REDUCTION && tern_anchor_is_usable(client)) {
        message.anchor = client->anchor_round;
        message.anchor_step = client->anchor_has_step;
    }
    if (TERN_SECURE && tern_secure_is_on(client)) {
        tern_secure_fill_checkin(client, &message);
    }
    if (TERN_STATISTICS) {
        message.scaling = client->scaling;
        message.column_names = client->column_names_sent ? 0 : client->work.columns.names;
    }
    return message;
}

static uint32_t checkin_timeout(const struct tern_client_config *config)
{
    const bool short_one = config->wait_ms > 0 && config->timeout_ms < HELD_TIMEOUT_MIN_MS;
    return config->wait_ms + (short_one ? HELD_TIMEOUT_MIN_MS : config->timeout_ms);
}

static enum tern_result prepare(struct tern_client *client)
{
    if (TERN_VARIANCE_REDUCTION) {
        TERN_TRY(tern_anchor_update_step(client));
    }
    client->round_done = true; // a round's bytes count from the check-in that brings its task
    const uint32_t room = reply_size_max(client);
    TERN_TRY(reserve_round(client, room));
    const tern_CheckinRequest message = make_checkin_request(client, room);
    tern_client_request(client, TERN_PURPOSE_CHECKIN, "POST", TERN_PATH_CHECKIN);
    client->request.timeout_ms = checkin_timeout(&client->config);
    client->request.body = client->message;
    receive_into_blob(client);
    return tern_wire_encode_checkin_request(&message, client->message, sizeof client->message,
                                            &client->request.body_len);
}

// Retries later, with the reason that the aggregator gave for its refusal, if there is one.
static enum tern_result report_no_answer(struct tern_client *client, enum tern_result result)
{
    tern_Error error;
    const bool refused = TERN_FOR_PEOPLE && client->response.status >= 400 &&
                         tern_wire_decode_error(client->response.body, client->response.body_len,
                                                &error) == TERN_OK &&
                         error.sentence[0] != '\0';
    if (!refused) {
        return tern_client_retry_later(
            client, result,
            client->response.status >= 400
                ? TERN_WHY("the aggregator answered the check-in with an error")
                : TERN_WHY("the check-in got no answer"));
    }
    // The event outlives this call.
    enum { ROOM = sizeof client->message, SIZE = sizeof error.sentence };
    _Static_assert(!TERN_FOR_PEOPLE || ROOM >= SIZE, "the sentence fits");
    memcpy(client->message, error.sentence, ROOM < SIZE ? ROOM : SIZE);
    return tern_client_retry_later(client, result, (const char *)client->message);
}

// Notes that the aggregator did not handle a check-in. Refusals are failures of the client until an update is accepted.
static void count_unanswered(struct tern_client *client, enum tern_result result)
{
    const bool unhandled =
        result == TERN_ERR_NETWORK || result == TERN_ERR_BUSY || client->response.status >= 500;
    if (unhandled && client->unanswered < UINT8_MAX) {
        client->unanswered++;
    }
}

// Ends the row of check-ins that the aggregator did not handle. The failures of earlier tasks remain.
static void end_unanswered(struct tern_client *client)
{
    client->failures -=
        client->unanswered < client->failures ? client->unanswered : client->failures;
    client->unanswered = 0;
}

enum tern_result tern_phase_checkin(struct tern_client *client)
{
    if (!client->in_flight) {
        TERN_TRY(prepare(client));
    }
    enum tern_result result = tern_client_exchange(client);
    if (result == TERN_AGAIN) {
        return result;
    }
    if (result == TERN_OK) {
        result = tern_client_answer_result(client);
    }
    if (result == TERN_ERR_UNAUTHORIZED) {
        return result;
    }
    if (result != TERN_OK) {
        if (!TERN_SMALL) {
            count_unanswered(client, result);
        }
        return report_no_answer(client, result);
    }
    if (!TERN_SMALL) {
        end_unanswered(client);
    }
    tern_CheckinReply reply;
    struct tern_span downloads;
    result = tern_wire_decode_checkin_reply(client->response.body, client->response.body_len,
                                            &reply, &downloads);
    if (result != TERN_OK) {
        return tern_client_retry_later(client, result,
                                       TERN_WHY("the answer to the check-in is malformed"));
    }
    client->has_evaluation = false;
    client->failed_round = 0;
    client->failure = tern_TrainingFailure_FAILURE_TRAINER;
    client->column_names_sent = true;
    return tern_client_handle_assignment(client, &reply, downloads);
}
