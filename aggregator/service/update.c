#include "service/internal.h"
#include "service/ledger.h"

#include "strategies/bounds.h"
#include <string.h>

_Static_assert(TERN_WIRE_LOCAL_STEPS_MAX <= TERN_UPDATE_LOCAL_STEPS_MAX,
               "the bounds assume fewer local steps than a task may have");

// --- Content

// Whether the update is over the limit as it would be applied: where the strategy normalises, one
// that reports fewer local steps than its task asked for is scaled up, by scale_max at most. Also
// true for NaN.
static bool over_norm(const struct tern_service *service, double sum_square, double scale)
{
    // The open round may have been begun under another configuration than today's.
    double most = tern_strategy_norm_max(&service->totals.rule);
    double limit = service->config.limits.norm < most ? service->config.limits.norm : most;
    return !(sum_square * scale * scale <= limit * limit);
}

static enum tern_result count(struct tern_strategy_totals *totals, const tern_Update *message)
{
    struct tern_contribution contribution = {.num_examples = message->num_examples,
                                             .local_steps = message->local_steps};
    return tern_strategy_count(totals, &contribution);
}

// The replica that the member's task told it to train from; one whose row does not say so shares
// the newest with all.
static const uint8_t *base_of(const struct tern_service *service, const struct tern_member *member)
{
    static const uint8_t none[TERN_SHA256_SIZE];
    bool said = memcmp(member->base, none, TERN_SHA256_SIZE) != 0;
    return said ? member->base : service->merge.replica_id;
}

bool is_of_our_model(const struct tern_service *service, const tern_Update *message)
{
    return message->model_hash.size == 0 ||
           memcmp(message->model_hash.bytes, service->federation.model_hash, TERN_SHA256_SIZE) == 0;
}

// In this order; the client is a member of the update's round. Whatever passes here can be merged:
// strategies/bounds.h has the arithmetic, the totals are exact.
enum tern_result check_update(const struct tern_service *service, const struct request *request,
                              const struct tern_member *member)
{
    const struct update_request *update = &request->u.update;
    const tern_Update *message = &update->message;
    TERN_TRY(request->parsed);
    if (!is_of_our_model(service, message)) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    if (memcmp(message->base.bytes, base_of(service, member), TERN_SHA256_SIZE) != 0) {
        return TERN_ERR_WRONG_REPLICA;
    }
    if (message->num_examples > service->config.limits.num_examples ||
        message->local_steps > member->local_steps) {
        return TERN_ERR_ARGUMENT;
    }
    double scale =
        tern_strategy_scale(&service->totals.rule, member->local_steps, message->local_steps);
    if (over_norm(service, update->sum_square, scale)) {
        return TERN_ERR_NORM_LIMIT;
    }
    struct tern_strategy_totals totals = service->totals;
    return count(&totals, message);
}

// --- Storing

static enum tern_result store_update(struct tern_service *service, const struct request *request,
                                     uint32_t merged, uint64_t now)
{
    const struct update_request *update = &request->u.update;
    struct tern_db_update row = {.round = update->round,
                                 .client = request->client,
                                 .sequence = update->sequence,
                                 .body = update->body.data,
                                 .body_len = update->body.len,
                                 .received_ms = now,
                                 .merged = merged};
    memcpy(row.sha256, update->sha256, TERN_SHA256_SIZE);
    return tern_db_update_put(service->db, &row);
}

void take_speed(struct client *client, const tern_Update *message)
{
    client->dirty = true;
    client->steps_per_second = tern_steps_speed(&client->done, client->steps_per_second,
                                                message->local_steps, message->train_ms);
}

// After its update the client is back on the replica that it trained from.
static void take_report(struct tern_service *service, const struct request *request,
                        const struct tern_member *member, uint64_t now)
{
    struct client *client = client_of(service, request->client);
    const uint8_t *base = base_of(service, member);
    bool own = base == member->base;
    take_speed(client, &request->u.update.message);
    client->last_seen_ms = now;
    client->version = own ? member->base_version : service->merge.version;
    memcpy(client->replica, base, TERN_SHA256_SIZE);
}

enum tern_result take_update(struct tern_service *service, const struct request *request,
                             const struct tern_member *member, uint32_t merged, uint64_t now)
{
    TERN_TRY(store_update(service, request, merged, now));
    TERN_TRY(ledger_update(service, request, now));
    TERN_TRY(count(&service->totals, &request->u.update.message));
    take_report(service, request, member, now);
    service->refused.accepted++;
    client_of(service, request->client)->refusals = 0;
    return TERN_OK;
}

static enum tern_result accept(struct tern_service *service, struct request *request,
                               struct tern_member *member, uint64_t now)
{
    TERN_TRY(take_update(service, request, member, 0, now));
    share_places(service, request, now);
    tern_round_reported(&service->machine, member, now);
    TERN_TRY(store_member(service, member));
    note_drift(client_of(service, request->client), &request->u.update.message,
               request->u.update.sum_square);
    spend_budget(client_of(service, request->client));
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

void refuse_update(struct tern_service *service, struct request *request, enum tern_result result)
{
    if (result == TERN_ERR_LATE) {
        service->counters.updates_late++;
    } else {
        note_refused(service, request, result);
    }
    answer_refusal(request, status_of(result), result, sentence_of(result));
    if (result != TERN_ERR_LATE) {
        ask_later(service, request);
    }
}

// The round is closed, or the client has reported: what is stored under the key decides.
static enum tern_result compare_stored(struct tern_service *service, struct request *request,
                                       uint64_t now)
{
    const struct update_request *update = &request->u.update;
    struct tern_db_update stored;
    enum tern_result found =
        tern_db_update_find(service->db, update->round, request->client, &stored);
    if (found == TERN_ERR_NOT_FOUND) {
        return handle_late(service, request, now);
    }
    TERN_TRY(found);
    bool same = memcmp(stored.sha256, update->sha256, TERN_SHA256_SIZE) == 0;
    if (!same) {
        TERN_TRY(same_without_places(service, request, &same));
    }
    if (same) {
        request->duplicate = true;
    } else {
        TERN_TRY(ledger_conflict(service, request, now));
        refuse_update(service, request, TERN_ERR_CONFLICT);
    }
    return TERN_OK;
}

enum tern_result handle_update(struct tern_service *service, struct request *request, uint64_t now)
{
    const struct update_request *update = &request->u.update;
    enum tern_result verdict = tern_round_update(&service->machine, request->client, update->round);
    if (verdict == TERN_ERR_LATE || verdict == TERN_ERR_CONFLICT) {
        return compare_stored(service, request, now);
    }
    if (verdict == TERN_OK && update->unread) {
        // It guessed what its task would be before the answer with that task was sent.
        answer_unavailable(request);
        return TERN_OK;
    }
    struct tern_member *member = tern_round_member(&service->machine, request->client);
    if (verdict == TERN_OK) {
        verdict = check_update(service, request, member);
    }
    if (verdict != TERN_OK) {
        leader_refused(service, request->client);
        refuse_update(service, request, verdict);
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
