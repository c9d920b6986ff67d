#include "service/internal.h"

#include "strategies/bounds.h"
#include <string.h>

_Static_assert(TERN_WIRE_LOCAL_STEPS_MAX <= TERN_UPDATE_LOCAL_STEPS_MAX,
               "the bounds assume fewer local steps than a task may have");

// --- Content

// Whether the update is over the limit as it would be applied: one that reports fewer local steps
// than its task asked for is scaled up by as much (strategies/weighted_mean.c). Also true for NaN.
static bool over_norm(const struct tern_service *service, double sum_square, double scale)
{
    double limit = service->config.limits.norm;
    return !(sum_square * scale * scale <= limit * limit);
}

static enum tern_result count(struct tern_strategy_totals *totals, const tern_Update *message)
{
    struct tern_contribution contribution = {.num_examples = message->num_examples,
                                             .local_steps = message->local_steps};
    return tern_strategy_count(totals, &contribution);
}

// Whether the content may count, in this order; the round is the open one and the client in it.
// Whatever passes here can be merged: strategies/bounds.h has the arithmetic, the totals are exact.
static enum tern_result check_content(const struct tern_service *service,
                                      const struct request *request,
                                      const struct tern_member *member)
{
    const struct update_request *update = &request->u.update;
    const tern_Update *message = &update->message;
    TERN_TRY(request->parsed);
    if (message->model_hash.size != 0 &&
        memcmp(message->model_hash.bytes, service->federation.model_hash, TERN_SHA256_SIZE) != 0) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    if (memcmp(message->base.bytes, service->merge.replica_id, TERN_SHA256_SIZE) != 0) {
        return TERN_ERR_WRONG_REPLICA;
    }
    if (message->num_examples > service->config.limits.num_examples ||
        message->local_steps > member->local_steps) {
        return TERN_ERR_ARGUMENT;
    }
    double scale = (double)member->local_steps / (double)message->local_steps;
    if (over_norm(service, update->sum_square, scale)) {
        return TERN_ERR_NORM_LIMIT;
    }
    struct tern_strategy_totals totals = service->totals;
    return count(&totals, message);
}

// --- Storing

static enum tern_result store_update(struct tern_service *service, const struct request *request,
                                     uint64_t now)
{
    const struct update_request *update = &request->u.update;
    struct tern_db_update row = {.round = update->round,
                                 .client = request->client,
                                 .sequence = update->sequence,
                                 .body = update->body.data,
                                 .body_len = update->body.len,
                                 .received_ms = now};
    memcpy(row.sha256, update->sha256, TERN_SHA256_SIZE);
    return tern_db_update_put(service->db, &row);
}

static enum tern_result store_ledger(struct tern_service *service, const struct request *request)
{
    const struct update_request *update = &request->u.update;
    const tern_Update *message = &update->message;
    struct tern_db_ledger row = {.client = request->client,
                                 .generation = message->error.generation,
                                 .sequence = message->error.sequence,
                                 .norm = message->error.norm,
                                 .maximum = message->error.maximum,
                                 .round = update->round,
                                 .loss = message->loss,
                                 .update_bytes = update->received};
    return tern_db_ledger_put(service->db, &row);
}

// After its update the client is back on the replica that it trained from.
static void take_report(struct client *client, const tern_Update *message,
                        const struct tern_merge *merge, uint64_t now)
{
    client->dirty = true;
    client->last_seen_ms = now;
    client->steps_per_second = tern_steps_speed(&client->done, client->steps_per_second,
                                                message->local_steps, message->train_ms);
    client->version = merge->version;
    memcpy(client->replica, merge->replica_id, TERN_SHA256_SIZE);
}

static enum tern_result accept(struct tern_service *service, struct request *request,
                               struct tern_member *member, uint64_t now)
{
    TERN_TRY(store_update(service, request, now));
    TERN_TRY(store_ledger(service, request));
    TERN_TRY(count(&service->totals, &request->u.update.message));
    share_places(service, request, now);
    tern_round_reported(&service->machine, member, now);
    TERN_TRY(store_member(service, member));
    take_report(client_of(service, request->client), &request->u.update.message, &service->merge,
                now);
    request->accepted = true;
    return TERN_OK;
}

// --- Which answer

static const char *sentence_of(enum tern_result result)
{
    if (result == TERN_ERR_ARGUMENT) {
        return "num_examples or local_steps is 0, or more than the task or the aggregator's limits "
               "allow.";
    }
    if (result == TERN_ERR_STATE) {
        return "The update has no places of its own, and its round shares none.";
    }
    return tern_result_sentence(result);
}

static void refuse(struct tern_service *service, struct request *request, enum tern_result result)
{
    if (result == TERN_ERR_LATE) {
        service->counters.updates_late++;
    } else {
        service->counters.updates_rejected++;
        tern_log(TERN_LOG_WARN, "update-rejected", "round=%u client=%llu reason=%s",
                 request->u.update.round, (unsigned long long)request->client,
                 tern_result_name(result));
    }
    answer_refusal(request, status_of(result), result, sentence_of(result));
}

// The round is closed, or the client has reported: what is stored under the key decides.
static enum tern_result compare_stored(struct tern_service *service, struct request *request,
                                       enum tern_result otherwise)
{
    const struct update_request *update = &request->u.update;
    struct tern_db_update stored;
    enum tern_result found =
        tern_db_update_find(service->db, update->round, request->client, &stored);
    if (found == TERN_ERR_NOT_FOUND) {
        refuse(service, request, otherwise);
        return TERN_OK;
    }
    TERN_TRY(found);
    bool same = memcmp(stored.sha256, update->sha256, TERN_SHA256_SIZE) == 0;
    if (!same) {
        TERN_TRY(same_without_places(service, request, &same));
    }
    if (same) {
        request->duplicate = true;
    } else {
        refuse(service, request, TERN_ERR_CONFLICT);
    }
    return TERN_OK;
}

enum tern_result handle_update(struct tern_service *service, struct request *request, uint64_t now)
{
    const struct update_request *update = &request->u.update;
    enum tern_result verdict = tern_round_update(&service->machine, request->client, update->round);
    if (verdict == TERN_ERR_LATE || verdict == TERN_ERR_CONFLICT) {
        return compare_stored(service, request, TERN_ERR_LATE);
    }
    if (verdict == TERN_OK && update->unread) {
        // It guessed what its task would be before the answer with that task was sent.
        answer_unavailable(request);
        return TERN_OK;
    }
    struct tern_member *member = tern_round_member(&service->machine, request->client);
    if (verdict == TERN_OK) {
        verdict = check_content(service, request, member);
    }
    if (verdict != TERN_OK) {
        leader_refused(service, request->client);
        refuse(service, request, verdict);
        return TERN_OK;
    }
    return accept(service, request, member, now);
}

enum tern_result settle_update(struct tern_service *service, struct request *request, uint64_t now)
{
    tern_UpdateReply reply = tern_UpdateReply_init_zero;
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = 0;
    bool idle = false;
    if (!request->accepted && !request->duplicate) {
        return TERN_OK;
    }
    reply.status =
        request->accepted ? tern_UpdateStatus_UPDATE_ACCEPTED : tern_UpdateStatus_UPDATE_DUPLICATE;
    reply.has_next = true;
    TERN_TRY(next_for_client(service, request->client, now, &reply.next, &idle));
    enum tern_result result = tern_wire_encode_update_reply(&reply, body, sizeof body, &len);
    if (result != TERN_OK) {
        tern_log(TERN_LOG_ERROR, "reply-not-encodable", "error=%s", tern_result_name(result));
        answer_error(request, 503, result);
        return TERN_OK;
    }
    if (request->accepted) {
        service->counters.updates_accepted++;
    } else {
        service->counters.updates_duplicate++;
    }
    answer_bytes(request, body, len);
    return TERN_OK;
}
