// Closing a round, in three steps. It is decided, and from then on takes no more updates. Once the
// transaction of that decision is committed, its updates are merged by a thread of their own, while
// everybody else is served. What was made is stored by one transaction, which closes the round.
//
// Nothing is written before that one: after a kill the round is open as it was, with the same updates, and
// is decided to close again.
#include "federation/internal.h"

#include "merge/gather.h"
#include "store/parts.h"
#include "store/retention.h"
#include <stdio.h>
#include <string.h>

// --- Merging

// What other nodes have summed, or is in the store since before a restart.
static void gather(struct closing *closing)
{
    const struct tern_federation_ports *ports = closing->ports;
    struct tern_gather gather;
    if (closing->merge->deferred_count == 0) {
        return;
    }
    tern_gather_begin(&gather, closing->merge, closing->reader, &closing->row);
    tern_gather_parts(&gather);
    for (uint32_t missing = tern_gather_missing(&gather);
         missing > 0 && ports->await_parts != NULL &&
         ports->await_parts(ports->ctx, closing->row.round, missing);
         missing = tern_gather_missing(&gather)) {
        tern_gather_parts(&gather);
    }
    tern_gather_rest(&gather);
}

static void merge(void *ctx)
{
    struct closing *closing = ctx;
    gather(closing);
    closing->result = tern_merge_make(closing->merge, closing->reader, &closing->row,
                                      &closing->totals, &closing->next);
}

enum tern_result tern_closing_init(struct tern_federation *federation, char why[256])
{
    struct closing *closing = &federation->closing;
    closing->merge = &federation->merge;
    closing->ports = &federation->ports;
    closing->job.work = merge;
    closing->job.ctx = closing;
    closing->job.ended = federation->ports.wake;
    closing->job.ended_ctx = federation->ports.ctx;
    return tern_db_open_again(tern_db_path(federation->db), &closing->reader, why);
}

void tern_closing_free(struct tern_federation *federation)
{
    tern_job_join(&federation->closing.job);
    tern_db_close(federation->closing.reader);
}

void tern_closing_forget(struct tern_federation *federation)
{
    tern_job_join(&federation->closing.job);
    federation->closing.step = CLOSING_NOTHING;
}

void tern_closing_decide(struct tern_federation *federation)
{
    struct closing *closing = &federation->closing;
    closing->row = federation->row;
    closing->totals = federation->totals;
    closing->step = CLOSING_DECIDED;
    closing->request = tern_log_request();
}

// Without a thread for it this is a failure of memory, which the next batch finds.
void tern_closing_begin(struct tern_federation *federation)
{
    struct closing *closing = &federation->closing;
    if (closing->step == CLOSING_DECIDED) {
        closing->step = CLOSING_MERGING;
        closing->result = TERN_ERR_NO_MEMORY;
        (void)!tern_job_begin(&closing->job);
    }
}

bool tern_federation_is_merging(const struct tern_federation *federation)
{
    return federation->closing.step != CLOSING_NOTHING;
}

bool tern_closing_is_made(const struct tern_federation *federation)
{
    const struct closing *closing = &federation->closing;
    return closing->step == CLOSING_MERGING &&
           (!closing->job.begun || tern_job_is_done(&closing->job));
}

void tern_federation_wait_for_merge(struct tern_federation *federation)
{
    tern_job_join(&federation->closing.job);
}

// --- Storing what was made

static enum tern_result store_version(struct tern_federation *federation,
                                      const struct tern_download_made *made, uint64_t now)
{
    struct tern_merge *merge = &federation->merge;
    struct tern_db *db = federation->db;
    struct tern_db_version before;
    TERN_TRY(tern_db_version_get(db, merge->version - 1, &before));
    struct tern_db_version version = {
        .version = merge->version, .round = federation->machine.round, .created_ms = now};
    memcpy(version.replica, merge->replica_id, TERN_SHA256_SIZE);
    memcpy(version.model_sha256, merge->model_sha256, TERN_SHA256_SIZE);
    TERN_TRY(tern_history_make_room(federation));
    TERN_TRY(tern_db_version_put(db, &version));
    TERN_TRY(tern_catchup_version(federation->catchup, made, before.replica, now));
    return tern_history_checkpoint(federation);
}

static void log_round(const struct tern_federation *federation,
                      const struct tern_strategy_report *report,
                      const struct tern_download_made *made)
{
    const struct tern_db_round *row = &federation->row;
    tern_log(
        TERN_LOG_INFO, "round",
        "round=%u of=%u version=%u updates=%u loss=%.4f step_norm=%.4g "
        "learning_rate=%.4g ms=%llu download_bytes=%zu",
        row->round, federation->config.round.rounds, federation->merge.version, report->updates,
        (double)report->mean_loss, (double)report->step_norm, (double)row->learning_rate,
        (unsigned long long)(row->closed_ms > row->opened_ms ? row->closed_ms - row->opened_ms : 0),
        made->len);
}

// Rounds that no longer learn cost clients bytes for nothing.
static void learn(struct tern_federation *federation, const struct tern_db_round *row)
{
    struct tern_round_machine *machine = &federation->machine;
    const struct tern_losses *losses = &machine->losses;
    const enum tern_ending before = losses->ending;
    tern_round_learnt(machine, row->base_version, tern_db_round_loss(row));
    if (losses->ending != before) {
        tern_log(TERN_LOG_WARN, "federation-ended",
                 "reason=%s round=%u loss=%.4g first_loss=%.4g lowest_loss=%.4g best_version=%u "
                 "advice=%s",
                 tern_ending_name(losses->ending), row->round, (double)tern_db_round_loss(row),
                 (double)losses->first, (double)losses->lowest, losses->lowest_version,
                 TERN_LOG_TEXT(tern_ending_advice(losses->ending)));
    }
}

static bool may_pass(enum tern_result result)
{
    return result == TERN_OK || result == TERN_ERR_IO || result == TERN_ERR_BUSY ||
           result == TERN_ERR_NO_MEMORY;
}

// What was accepted can be merged (strategies/bounds.h). If it cannot, the stored bytes are not
// what was accepted, and the federation halts rather than leave out what it has acknowledged.
static void look_for_damage(struct tern_federation *federation)
{
    struct closing *closing = &federation->closing;
    if (!may_pass(closing->result)) {
        snprintf(federation->damage, sizeof federation->damage,
                 "the stored updates of round %u cannot be merged (%s); stop the federation and "
                 "restore a backup",
                 closing->row.round, tern_result_name(closing->result));
    } else if (tern_db_damaged(closing->reader)) {
        snprintf(federation->damage, sizeof federation->damage, "%s",
                 tern_db_error(closing->reader));
    }
}

static enum tern_result store(struct tern_federation *federation,
                              const struct tern_merge_next *next, uint64_t now)
{
    struct tern_db_round *row = &federation->row;
    tern_strategy_note_few(federation);
    if (!federation->machine.buffers) { // else updates that come later count as well
        TERN_TRY(tern_reliability_round_ends(federation, now));
    }
    tern_merge_adopt(&federation->merge, next);
    federation->totals = next->totals;
    TERN_TRY(tern_db_received_bytes(federation->db, &row->received_bytes));
    TERN_TRY(store_version(federation, &next->made, now));
    tern_round_close(&federation->machine, now);
    row->state = TERN_ROUND_COMMITTED;
    row->closed_ms = now;
    row->applied = next->report.updates;
    row->mean_loss = next->report.mean_loss;
    TERN_TRY(tern_scaled_note(federation));
    TERN_TRY(tern_drift_measure(federation, &next->report));
    tern_drift_follow(federation, row);
    TERN_TRY(tern_db_round_put(federation->db, row));
    TERN_TRY(tern_db_parts_drop(federation->db, row->round));
    TERN_TRY(tern_history_decide(federation));
    federation->last_loss = next->report.mean_loss;
    learn(federation, row);
    federation->moved = true;
    tern_refusals_draw_ended(federation, true);
    log_round(federation, &next->report, &next->made);
    return TERN_OK;
}

enum tern_result tern_closing_commit(struct tern_federation *federation, uint64_t now)
{
    struct closing *closing = &federation->closing;
    if (!tern_closing_is_made(federation)) {
        return TERN_OK;
    }
    tern_job_join(&closing->job);
    closing->step = CLOSING_NOTHING;
    if (closing->result != TERN_OK) {
        look_for_damage(federation);
        return closing->result;
    }
    // The line of the round names the request that completed it, not one that came during the merge.
    const uint64_t request = tern_log_request();
    tern_log_set_request(closing->request);
    const enum tern_result result = store(federation, &closing->next, now);
    tern_log_set_request(request);
    return result;
}
