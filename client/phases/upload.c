// Sends the pending update until it is answered, then settles it: forgotten when it was applied,
// given back to the error buffer when it was not. Only an answer of the aggregator itself decides;
// a proxy's error page does not.
#include "core.h"

static enum tern_result prepare(struct tern_client *client)
{
    char path[TERN_PATH_MAX];
    struct tern_span body;
    TERN_TRY(tern_share_body(client, &body));
    TERN_TRY(tern_budget_ask(client, tern_budget_cost(body.len, 1)));
    tern_path_update(client->pending.round, client->pending.sequence, path);
    tern_client_request(client, TERN_PURPOSE_UPLOAD, "PUT", path);
    client->request.body = body.data;
    client->request.body_len = body.len;
    return TERN_OK;
}

static void say_uploaded(const struct tern_client *client,
                         const struct tern_client_pending *pending, enum tern_result result,
                         bool duplicate)
{
    const struct tern_client_event event = {
        .kind = TERN_EVENT_UPLOADED,
        .result = result,
        .duplicate = duplicate,
        .round = pending->round,
        .version = client->version,
        .sequence = pending->sequence,
        .bytes = pending->sent,
        .round_bytes = tern_meter_total(&client->meter_round, TERN_UP).wire +
                       tern_meter_total(&client->meter_round, TERN_DOWN).wire,
    };
    tern_client_emit(client, &event);
}

// The answer brings the next task, the end, or a time to come back. A client that may be held at a
// check-in asks to be, instead of sleeping until the round's deadline while the round may end any
// moment; what that check-in says about coming back is then followed.
static enum tern_result go_on(struct tern_client *client, const tern_UpdateReply *reply)
{
    const bool says_wait = reply->has_next && !reply->next.has_task && !reply->next.finished;
    if (!reply->has_next || (says_wait && client->config.wait_ms > 0)) {
        return TERN_OK;
    }
    return tern_client_follow(client, &reply->next, (struct tern_span){NULL, 0});
}

static enum tern_result applied(struct tern_client *client)
{
    tern_UpdateReply reply;
    const enum tern_result result =
        tern_wire_decode_update_reply(client->response.body, client->response.body_len, &reply);
    if (result != TERN_OK) { // sent again, which is harmless: the answer is then "duplicate"
        return tern_client_trouble(client, result,
                                   TERN_WHY("the answer to the update makes no sense"));
    }
    TERN_TRY(tern_record_save_settled(client));
    const struct tern_client_pending pending = client->pending;
    client->pending.len = 0;
    client->error_told = true; // the update said what it left
    client->failures = 0;
    client->phase = TERN_PHASE_CHECKIN;
    say_uploaded(client, &pending, TERN_OK, reply.status == tern_UpdateStatus_UPDATE_DUPLICATE);
    TERN_TRY(tern_budget_end_round(client));
    return go_on(client, &reply);
}

static enum tern_result give_back(struct tern_client *client, enum tern_result reason)
{
    struct tern_error_buffer buffer = tern_client_error_buffer(client);
    const struct tern_client_pending pending = client->pending;
    tern_Update message;
    struct tern_span container;
    TERN_TRY(tern_wire_decode_update(client->work.blob, pending.len, &message, &container));
    TERN_TRY(tern_error_buffer_give_back(&buffer, client->work.model, container.data, container.len,
                                         tern_client_give_back_work(client)));
    client->pending.len = 0;
    TERN_TRY(tern_record_save_upload(client));
    client->phase = TERN_PHASE_CHECKIN;
    say_uploaded(client, &pending, reason, false);
    TERN_TRY(tern_budget_end_round(client));
    if (reason == TERN_ERR_LATE) {
        client->failures = 0;
        return TERN_OK;
    }
    return tern_client_trouble(client, reason, TERN_WHY("the update was rejected and given back"));
}

// Whether a refusal says what became of the update: those that do not speak of the way to the
// aggregator or of its own trouble.
static bool decides(enum tern_result refusal)
{
    static const enum tern_result undecided[] = {
        TERN_ERR_BUSY, TERN_ERR_NETWORK, TERN_ERR_TLS,    TERN_ERR_HTTP,
        TERN_ERR_IO,   TERN_ERR_CONFIG,  TERN_ERR_BUDGET, TERN_ERR_NO_MEMORY,
    };
    for (size_t i = 0; i < sizeof undecided / sizeof undecided[0]; i++) {
        if (refusal == undecided[i]) {
            return false;
        }
    }
    return true;
}

enum tern_result tern_phase_upload(struct tern_client *client)
{
    if (!client->in_flight) {
        TERN_TRY(prepare(client));
    }
    enum tern_result result = tern_client_exchange(client);
    if (result == TERN_AGAIN) {
        return result;
    }
    if (result != TERN_OK) {
        return tern_client_trouble(client, result,
                                   TERN_WHY("the update was not answered; it is kept"));
    }
    tern_budget_count_payload(client, TERN_PURPOSE_UPLOAD, TERN_UP, client->pending.container);
    result = tern_client_answer(client);
    if (result == TERN_OK) {
        return applied(client);
    }
    if (result == TERN_ERR_UNAUTHORIZED) {
        return result;
    }
    return decides(result)
               ? give_back(client, result)
               : tern_client_trouble(client, result,
                                     TERN_WHY("the update was not settled; it is kept"));
}
