// Sends the pending update until the aggregator answers. If the update was applied, the client drops it; if it was refused, the
// client adds its values to the error buffer again. Only an answer of the aggregator settles an update; the error page of a
// proxy does not.
#include "core.h"

#include <string.h>

// Returns whether the client must first ask how many bytes of the update the aggregator has, because an attempt of this or an
// earlier process was interrupted.
static bool must_query(const struct tern_client *client, size_t len)
{
    return TERN_PARTIALS && client->upload_interrupted && len > client->config.resume_upload_above;
}

static enum tern_result prepare(struct tern_client *client)
{
    char path[TERN_PATH_MAX];
    struct tern_span body;
    TERN_TRY(tern_share_body(client, &body));
    tern_path_update(client->pending.round, client->pending.sequence, path);
    if (must_query(client, body.len)) {
        TERN_TRY(tern_budget_reserve_or_wait(client, tern_budget_cost(0, 1)));
        tern_client_request(client, TERN_PURPOSE_UPLOAD, "GET", path);
        return TERN_OK;
    }
    const size_t have = TERN_PARTIALS ? client->upload_received : 0;
    TERN_TRY(tern_budget_reserve_or_wait(client, tern_budget_cost(body.len - have, 1)));
    tern_client_request(client, TERN_PURPOSE_UPLOAD, "PUT", path);
    client->request.body = body.data + have;
    client->request.body_len = body.len - have;
    client->request.range_from = have;
    return TERN_OK;
}

// Resets what the client knows about the bytes that the aggregator has. interrupted: the aggregator may have more bytes than it
// has reported; else it has none.
static void reset_progress(struct tern_client *client, bool interrupted)
{
    if (TERN_PARTIALS) {
        client->upload_interrupted = interrupted;
        client->upload_received = interrupted ? client->upload_received : 0;
    }
}

static void report_uploaded(const struct tern_client *client,
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

// Handles the next assignment if the reply has one: a task, the end, or a time to return. A client with wait_ms checks in at
// once instead of sleeping until the round's deadline, because the round may end at any moment.
static enum tern_result handle_next_assignment(struct tern_client *client,
                                               const tern_UpdateReply *reply)
{
    const bool must_wait = reply->has_next && !reply->next.has_task && !reply->next.finished;
    if (!reply->has_next || (must_wait && client->config.wait_ms > 0)) {
        return TERN_OK;
    }
    return tern_client_handle_assignment(client, &reply->next, (struct tern_span){NULL, 0});
}

static enum tern_result settle_applied(struct tern_client *client, const tern_UpdateReply *reply)
{
    const struct tern_client_pending pending = client->pending;
    TERN_TRY(tern_record_save_settled(client, pending.sequence, !pending.masked));
    if (TERN_SECURE && pending.masked) {
        client->unsettled = pending;
    }
    client->pending.len = 0;
    client->error_reported = true; // the update contains the facts about the error buffer
    client->failures = 0;
    client->phase = TERN_PHASE_CHECKIN;
    reset_progress(client, false);
    report_uploaded(client, &pending, TERN_OK, reply->status == tern_UpdateStatus_UPDATE_DUPLICATE);
    TERN_TRY(tern_budget_end_round(client));
    return handle_next_assignment(client, reply);
}

// Adds the values of the pending update to the error buffer again.
static enum tern_result give_back_values(struct tern_client *client)
{
    struct tern_error_buffer buffer = tern_client_error_buffer(client);
    tern_Update message;
    struct tern_span container;
    if (TERN_SECURE && client->pending.masked) {
        return tern_secure_give_back_pending(client);
    }
    TERN_TRY(tern_wire_decode_update(tern_client_update(client), client->pending.len, &message,
                                     &container));
    return tern_error_buffer_give_back(&buffer, client->work.model, container.data, container.len,
                                       tern_client_give_back_work(client));
}

static enum tern_result give_back(struct tern_client *client, enum tern_result reason)
{
    const struct tern_client_pending pending = client->pending;
    TERN_TRY(give_back_values(client));
    client->pending.len = 0;
    reset_progress(client, false);
    TERN_TRY(tern_record_save_upload(client));
    client->phase = TERN_PHASE_CHECKIN;
    report_uploaded(client, &pending, reason, false);
    TERN_TRY(tern_budget_end_round(client));
    if (reason == TERN_ERR_LATE) {
        client->failures = 0;
        return TERN_OK;
    }
    return tern_client_retry_later(client, reason,
                                   TERN_WHY("the update was rejected; its values are in the error "
                                            "buffer again"));
}

// Returns whether this error means that the aggregator has refused the update for good. Errors of the network or inside the
// aggregator do not.
static bool settles_update(enum tern_result refusal)
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

static enum tern_result read_reply(struct tern_client *client, tern_UpdateReply *reply)
{
    const struct tern_response *response = &client->response;
    const enum tern_result result =
        tern_wire_decode_update_reply(response->body, response->body_len, reply);
    return result == TERN_OK
               ? TERN_OK // after an error the client sends the update again; the aggregator applies it only once
               : tern_client_retry_later(client, result,
                                         TERN_WHY("the answer to the update is malformed"));
}

// Returns whether the first `len` bytes of the update have this SHA-256.
static bool has_prefix_hash(struct tern_span update, size_t len,
                            const uint8_t sha256[TERN_SHA256_SIZE])
{
    uint8_t digest[TERN_SHA256_SIZE];
    if (len > update.len) {
        return false;
    }
    tern_sha256(update.data, len, digest);
    return memcmp(digest, sha256, TERN_SHA256_SIZE) == 0;
}

// Decides how to continue an interrupted update: after the bytes that the aggregator has, or from the start if these are
// damaged or belong to another update.
static enum tern_result resume_upload(struct tern_client *client, const tern_UpdateReply *reply)
{
    struct tern_span body;
    TERN_TRY(tern_share_body(client, &body));
    const bool unfinished = reply->status == tern_UpdateStatus_UPDATE_UNFINISHED;
    const size_t len = unfinished ? reply->received : body.len;
    const bool same =
        reply->sha256.size == TERN_SHA256_SIZE && has_prefix_hash(body, len, reply->sha256.bytes);
    if (same && !unfinished) { // the aggregator has accepted the update, and its answer was lost
        tern_budget_count_payload(client, TERN_PURPOSE_UPLOAD, TERN_UP, client->pending.container);
        return settle_applied(client, reply);
    }
    const size_t had = client->upload_received;
    reset_progress(client, false);
    client->upload_received = same && len < body.len ? len : 0;
    client->failures = client->upload_received > had ? 0 : client->failures;
    return TERN_OK;
}

// Handles the response that reports how many bytes of the update the aggregator has.
static enum tern_result read_progress(struct tern_client *client, enum tern_result sent)
{
    tern_UpdateReply reply;
    const enum tern_result answer = sent == TERN_OK ? tern_client_answer_result(client) : sent;
    if (answer == TERN_ERR_UNAUTHORIZED) {
        return answer;
    }
    if (sent == TERN_OK && answer != TERN_OK && client->response.status >= 400 &&
        client->response.status < 500 && answer != TERN_ERR_BUSY) {
        reset_progress(client, false); // the aggregator has no byte of the update
        return TERN_OK;
    }
    if (answer != TERN_OK) {
        return tern_client_retry_later(client, answer,
                                       TERN_WHY("the aggregator did not answer how many bytes of "
                                                "the update it has"));
    }
    TERN_TRY(read_reply(client, &reply));
    return resume_upload(client, &reply);
}

static enum tern_result handle_answer(struct tern_client *client, enum tern_result sent)
{
    if (sent != TERN_OK) {
        reset_progress(client, true);
        return tern_client_retry_later(
            client, sent, TERN_WHY("the update got no answer; the client will send it later"));
    }
    tern_UpdateReply reply;
    const enum tern_result result = tern_client_answer_result(client);
    if (client->response.status == 416) { // the aggregator has lost the bytes that it had received
        reset_progress(client, false);
        return tern_client_retry_later(
            client, result,
            TERN_WHY("the aggregator has lost the received bytes of the "
                     "update; the client sends the update from the start"));
    }
    if (result == TERN_OK ||
        settles_update(
            result)) { // the payload counts once, even if the update was sent several times
        tern_budget_count_payload(client, TERN_PURPOSE_UPLOAD, TERN_UP, client->pending.container);
    }
    if (result == TERN_OK) {
        reset_progress(client, true); // the answer may be malformed
        TERN_TRY(read_reply(client, &reply));
        return settle_applied(client, &reply);
    }
    if (result == TERN_ERR_UNAUTHORIZED) {
        return result;
    }
    if (settles_update(result)) {
        return give_back(client, result);
    }
    reset_progress(client, true);
    return tern_client_retry_later(
        client, result,
        TERN_WHY("the aggregator could not decide on the update; the client will send it later"));
}

enum tern_result tern_phase_upload(struct tern_client *client)
{
    if (!client->in_flight) {
        TERN_TRY(prepare(client));
    }
    const enum tern_result sent = tern_client_exchange(client);
    if (sent == TERN_AGAIN) {
        return sent;
    }
    if (TERN_PARTIALS && client->request.body_len == 0) {
        return read_progress(client, sent);
    }
    return handle_answer(client, sent);
}
