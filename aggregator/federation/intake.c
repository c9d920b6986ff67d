// What is common to updates of the open round and late ones: what may count, and how it is counted.
#include "federation/internal.h"
#include "federation/ledger.h"
#include "strategies/bounds.h"
#include <string.h>

_Static_assert(TERN_WIRE_LOCAL_STEPS_MAX <= TERN_UPDATE_LOCAL_STEPS_MAX,
               "the bounds assume fewer local steps than a task may have");

// --- Content

// Whether the update is over the limit as it would be applied: where the strategy normalises, one
// that reports fewer local steps than its task asked for is scaled up, by scale_max at most. Also
// true for NaN.
static bool over_norm(const struct tern_federation *federation, double sum_square, double scale)
{
    // The open round may have been begun under another configuration than today's.
    double most = tern_strategy_norm_max(&federation->totals.rule);
    double limit = federation->config.limits.norm < most ? federation->config.limits.norm : most;
    return !(sum_square * scale * scale <= limit * limit);
}

// The replica that the member's task told it to train from; one whose row does not say so shares
// the newest with all.
static const uint8_t *base_of(const struct tern_federation *federation,
                              const struct tern_member *member)
{
    static const uint8_t none[TERN_SHA256_SIZE];
    bool said = memcmp(member->base, none, TERN_SHA256_SIZE) != 0;
    return said ? member->base : federation->merge.replica_id;
}

enum tern_result tern_update_member(struct tern_federation *federation,
                                    const struct tern_db_round *own,
                                    const struct tern_db_assignment *row,
                                    struct tern_member *member)
{
    static const uint8_t none[TERN_SHA256_SIZE];
    struct tern_db_version version;
    *member = (struct tern_member){.client = row->client,
                                   .local_steps = row->local_steps,
                                   .tasked_ms = row->tasked_ms,
                                   .base_version = row->base_version};
    memcpy(member->base, row->base, TERN_SHA256_SIZE);
    if (memcmp(row->base, none, TERN_SHA256_SIZE) == 0) { // of the replica that all shared
        TERN_TRY(tern_db_version_get(federation->db, own->base_version, &version));
        memcpy(member->base, version.replica, TERN_SHA256_SIZE);
        member->base_version = own->base_version;
    }
    return TERN_OK;
}

// In this order; the client is a member of the update's round. Whatever passes here can be merged:
// strategies/bounds.h has the arithmetic, the totals are exact.
enum tern_result tern_update_check(const struct tern_federation *federation,
                                   const struct tern_incoming *update,
                                   const struct tern_member *member)
{
    const tern_Update *message = &update->message;
    TERN_TRY(update->parsed);
    if (!is_of_our_model(federation, message->model_hash.bytes, message->model_hash.size)) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    if (memcmp(message->base.bytes, base_of(federation, member), TERN_WIRE_REPLICA_BYTES) != 0) {
        return TERN_ERR_WRONG_REPLICA;
    }
    const uint32_t most = federation->config.limits.num_examples;
    if (message->num_examples > most ||
        (message->has_evaluation && message->evaluation.num_examples > most) ||
        message->local_steps > member->local_steps) {
        return TERN_ERR_ARGUMENT;
    }
    double scale =
        tern_strategy_scale(&federation->totals.rule, member->local_steps, message->local_steps);
    if (over_norm(federation, update->sum_square, scale)) {
        return TERN_ERR_NORM_LIMIT;
    }
    const struct tern_contribution contribution = tern_contribution_of(message);
    struct tern_strategy_totals totals = federation->totals;
    return tern_strategy_count(&totals, &contribution);
}

// --- Storing

static enum tern_result store_update(struct tern_federation *federation,
                                     const struct tern_incoming *update, uint32_t merged,
                                     uint64_t now)
{
    struct tern_db_update row = {.round = update->round,
                                 .client = update->client,
                                 .sequence = update->sequence,
                                 .body = update->body.data,
                                 .body_len = update->body.len,
                                 .received_ms = now,
                                 .merged = merged};
    memcpy(row.sha256, update->sha256, TERN_SHA256_SIZE);
    return tern_db_update_put(federation->db, &row);
}

void tern_update_speed(struct client *client, const tern_Update *message)
{
    client->dirty = true;
    client->row.steps_per_second = tern_steps_speed(&client->done, client->row.steps_per_second,
                                                    message->local_steps, message->train_ms);
}

// After its update the client is back on the replica that it trained from.
static void take_report(struct tern_federation *federation, const struct tern_incoming *update,
                        const struct tern_member *member, uint64_t now)
{
    struct client *client = client_of(federation, update->client);
    const uint8_t *base = base_of(federation, member);
    bool own = base == member->base;
    tern_update_speed(client, &update->message);
    tern_clients_seen(client, now);
    client->row.version = own ? member->base_version : federation->merge.version;
    memcpy(client->row.replica, base, TERN_SHA256_SIZE);
}

enum tern_result tern_update_take(struct tern_federation *federation,
                                  const struct tern_incoming *update,
                                  const struct tern_member *member, uint32_t merged, uint64_t now)
{
    const struct tern_contribution contribution = tern_contribution_of(&update->message);
    TERN_TRY(store_update(federation, update, merged, now));
    TERN_TRY(tern_ledger_update(federation, update, now));
    TERN_TRY(tern_strategy_count(&federation->totals, &contribution));
    struct tern_arrival arrival = {.client = update->client,
                                   .round = update->round,
                                   .contribution = contribution,
                                   .container = update->container,
                                   .reading = update->reading,
                                   .sum_square = update->sum_square};
    memcpy(arrival.sha256, update->sha256, TERN_SHA256_SIZE);
    if (update->deferred) {
        tern_merge_defer(&federation->merge, &arrival);
    } else {
        tern_merge_arrive(&federation->merge, &arrival);
    }
    take_report(federation, update, member, now);
    federation->refused.accepted++;
    client_of(federation, update->client)->refusals = 0;
    return tern_reliability_reported(federation, update->client, member->tasked_ms, now);
}

static enum tern_result go_back_to_base(struct tern_federation *federation, uint64_t id,
                                        uint32_t round)
{
    struct client *client = client_of(federation, id);
    struct tern_db_assignment assignment;
    struct tern_db_round own;
    struct tern_member member;
    TERN_TRY(tern_db_assignment_get(federation->db, round, id, &assignment));
    TERN_TRY(tern_db_round_get(federation->db, round, &own));
    TERN_TRY(tern_update_member(federation, &own, &assignment, &member));
    // A check-in that is held, or came since, says more.
    if (!client->waiting && member.base_version >= client->row.version) {
        client->row.version = member.base_version;
        memcpy(client->row.replica, member.base, TERN_SHA256_SIZE);
        client->dirty = true;
    }
    return TERN_OK;
}

enum tern_result tern_update_again(struct tern_federation *federation, uint64_t client,
                                   uint32_t round)
{
    return tern_db_may_miss(go_back_to_base(federation, client, round));
}
