// Tells the aggregator what this client holds and can do; takes a task or a time to come back.
#include "core.h"

#include <string.h>

// The protocol's least time between the end of a long poll and giving its answer up.
#define HELD_TIMEOUT_MIN_MS 30000

static enum tern_result may_start(struct tern_client *client)
{
    if (!tern_budget_month_has_round(client)) {
        return tern_budget_stop(client, client->budget.round_mean,
                                TERN_WHY("a round would exceed the byte budget of the month"));
    }
    return tern_budget_ask(client, tern_budget_cost(0, 1));
}

static bool budgeted(const struct tern_client *client)
{
    return client->config.budget_per_round != 0 || client->config.budget_per_month != 0;
}

// Not said when it is the protocol's own limit, which costs nothing.
static uint32_t downloads_max(void)
{
    return TERN_WIRE_DOWNLOADS_MAX < TERN_WIRE_DOWNLOADS_LIMIT ? TERN_WIRE_DOWNLOADS_MAX : 0;
}

static uint32_t coders(void)
{
    return tern_codec_coders() != TERN_CODERS_ALL ? tern_codec_coders() : 0;
}

// Where no seed makes version 0, a client begins with nothing.
static bool holds_replica(const struct tern_client *client)
{
    static const uint8_t none[TERN_SHA256_SIZE];
    return tern_model_is_seeded(client->work.model) ||
           memcmp(client->replica, none, sizeof none) != 0;
}

static tern_CheckinRequest describe(struct tern_client *client)
{
    const struct tern_conditions *conditions = &client->conditions;
    tern_CheckinRequest message;
    memset(&message, 0, sizeof message);
    message.replica.size = holds_replica(client) ? TERN_SHA256_SIZE : 0;
    memcpy(message.replica.bytes, client->replica, message.replica.size);
    message.version = client->version;
    message.wait_ms = client->config.wait_ms;
    message.codecs = tern_client_codecs(client);
    message.memory_kib = conditions->memory_kib;
    message.steps_per_second = client->steps_per_second;
    message.metered = conditions->metered;
    message.budgeted = budgeted(client);
    message.budget_left = message.budgeted ? tern_budget_left(client) : 0;
    message.power = (tern_Power)conditions->power;
    message.has_error = !client->identity.evaluator;
    message.error = tern_client_error_facts(client);
    message.has_evaluation = client->has_evaluation;
    message.evaluation = client->evaluation;
    message.model_hash.size = TERN_SHA256_SIZE;
    memcpy(message.model_hash.bytes, client->identity.model_hash, TERN_SHA256_SIZE);
    message.downloads_max = downloads_max();
    message.coders = coders();
    message.from_seed = tern_model_is_seeded(client->work.model);
    message.step_ahead = TERN_STEP_AHEAD && !client->identity.evaluator;
    return message;
}

static uint32_t checkin_timeout(const struct tern_client_config *config)
{
    const bool short_one = config->wait_ms > 0 && config->timeout_ms < HELD_TIMEOUT_MIN_MS;
    return config->wait_ms + (short_one ? HELD_TIMEOUT_MIN_MS : config->timeout_ms);
}

static enum tern_result prepare(struct tern_client *client)
{
    client->round_done = true; // a round's account opens with the check-in that brings its task
    TERN_TRY(may_start(client));
    const tern_CheckinRequest message = describe(client);
    tern_client_request(client, TERN_PURPOSE_CHECKIN, "POST", TERN_PATH_CHECKIN);
    client->request.timeout_ms = checkin_timeout(&client->config);
    client->request.body = client->message;
    return tern_wire_encode_checkin_request(&message, client->message, sizeof client->message,
                                            &client->request.body_len);
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
        result = tern_client_answer(client);
    }
    if (result == TERN_ERR_UNAUTHORIZED) {
        return result;
    }
    if (result != TERN_OK) {
        return tern_client_trouble(client, result, TERN_WHY("the check-in was not answered"));
    }
    tern_CheckinReply reply;
    result =
        tern_wire_decode_checkin_reply(client->response.body, client->response.body_len, &reply);
    if (result != TERN_OK) {
        return tern_client_trouble(client, result,
                                   TERN_WHY("the answer to the check-in makes no sense"));
    }
    client->has_evaluation = false;
    return tern_client_follow(client, &reply);
}
