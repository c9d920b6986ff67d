// Updates that arrive after their round has closed. Under a strategy that buffers (FedBuff) they
// count in the open round; else they are given back, as `late`. What was answered `late` once stays
// so: the client has put it back into its error buffer, and the same bytes, come again over some
// detour, must not count as well.
#include "federation/internal.h"

#include "federation/ledger.h"
#include "merge/strategy_rule.h"
#include <string.h>

static enum tern_result takes_late(const struct tern_db_round *row, uint32_t *staleness_max)
{
    struct tern_strategy_rule rule;
    TERN_TRY(tern_rule_read(row, &rule));
    *staleness_max = (uint32_t)rule.parameters[TERN_STRATEGY_STALENESS_MAX];
    return rule.strategy->takes_late ? TERN_OK : TERN_ERR_LATE;
}

// Whether the update may count in the open round.
// TERN_ERR_LATE  it may not
static enum tern_result check_late(const struct tern_federation *federation,
                                   const struct tern_incoming *update,
                                   const struct tern_db_round *own,
                                   const struct tern_db_assignment *assignment)
{
    uint32_t most = 0;
    if (!federation->machine.open) {
        return TERN_ERR_LATE;
    }
    TERN_TRY(takes_late(&federation->row, &most));
    bool fresh = federation->row.base_version >= own->base_version &&
                 federation->row.base_version - own->base_version <= most;
    // Without a task there is nothing it could have trained; a time of reporting is that of `late`.
    bool given_back = assignment->reported_ms != 0;
    // Indices are kept while their round is open.
    bool whole = !update->message.shared_indices;
    return fresh && whole && !given_back && assignment->local_steps != 0 ? TERN_OK : TERN_ERR_LATE;
}

static enum tern_result count_late(struct tern_federation *federation,
                                   const struct tern_incoming *update,
                                   struct tern_db_assignment *assignment,
                                   const struct tern_member *member, uint64_t now)
{
    const enum tern_db_assignment_state before = assignment->state;
    TERN_TRY(tern_update_take(federation, update, member, federation->machine.round, now));
    assignment->state = TERN_ASSIGNMENT_REPORTED;
    assignment->reported_ms = now;
    assignment->decay = tern_ledger_decay(&update->message);
    TERN_TRY(tern_db_assignment_put(federation->db, assignment, &before));
    tern_round_buffered(&federation->machine, 1);
    federation->unpublished.any = true;
    return TERN_OK;
}

// Whether its client had that task, and did some of it. Without the indices of its round, which are
// gone, there is nothing else to say against it.
static bool did_task(const struct tern_federation *federation, const struct tern_incoming *update,
                     const struct tern_db_assignment *assignment)
{
    const tern_Update *message = &update->message;
    const bool whole = update->parsed == TERN_OK;
    const bool shared = update->parsed == TERN_ERR_STATE && message->shared_indices;
    return (whole || shared) &&
           is_of_our_model(federation, message->model_hash.bytes, message->model_hash.size) &&
           message->local_steps > 0 && message->local_steps <= assignment->local_steps;
}

// Whether a round that counts on its client would have had it by its deadline.
static bool was_in_time(const struct tern_federation *federation,
                        const struct tern_db_assignment *assignment, uint64_t now)
{
    return now <= assignment->tasked_ms + federation->config.round.deadline_ms;
}

// Remembers that it was given back, and what its client had left of its error buffer. A device that is always late is too slow for what it is asked,
// which is known from here alone.
static enum tern_result give_back(struct tern_federation *federation,
                                  const struct tern_incoming *update,
                                  struct tern_db_assignment *assignment, enum tern_result why,
                                  uint64_t now, struct tern_refusal *refusal)
{
    tern_refusals_refuse(federation, update, why, refusal);
    if (assignment->reported_ms != 0) {
        return TERN_OK;
    }
    if (did_task(federation, update, assignment)) {
        assignment->decay = tern_ledger_decay(&update->message);
        if (why == TERN_ERR_LATE) {
            tern_update_speed(client_of(federation, update->client), &update->message);
        }
        if (why == TERN_ERR_LATE && was_in_time(federation, assignment, now)) {
            TERN_TRY(
                tern_reliability_reported(federation, update->client, assignment->tasked_ms, now));
        }
    }
    assignment->reported_ms = now;
    return tern_db_assignment_put(federation->db, assignment, &assignment->state);
}

enum tern_result tern_update_late(struct tern_federation *federation,
                                  const struct tern_incoming *update, uint64_t now,
                                  struct tern_refusal *refusal)
{
    struct tern_db_assignment assignment;
    struct tern_db_round own;
    struct tern_member member;
    uint32_t most = 0;
    enum tern_result found =
        tern_db_assignment_get(federation->db, update->round, update->client, &assignment);
    if (found == TERN_OK) {
        found = tern_db_round_get(federation->db, update->round, &own);
    }
    if (found != TERN_OK && found != TERN_ERR_NOT_FOUND) {
        return found;
    }
    const bool buffers = found == TERN_OK && takes_late(&own, &most) == TERN_OK;
    if (found != TERN_OK || (!buffers && !did_task(federation, update, &assignment))) {
        tern_refusals_refuse(federation, update, TERN_ERR_LATE, refusal);
        return TERN_OK;
    }
    if (!buffers) {
        return give_back(federation, update, &assignment, TERN_ERR_LATE, now, refusal);
    }
    enum tern_result verdict = check_late(federation, update, &own, &assignment);
    if (verdict == TERN_OK && update->unread) {
        tern_refuse(refusal, TERN_ERR_BUSY,
                    NULL); // when it was read, no round was open that would take it
        return TERN_OK;
    }
    if (verdict == TERN_OK) {
        TERN_TRY(tern_update_member(federation, &own, &assignment, &member));
        verdict = tern_update_check(federation, update, &member);
    }
    return verdict == TERN_OK ? count_late(federation, update, &assignment, &member, now)
                              : give_back(federation, update, &assignment, verdict, now, refusal);
}
