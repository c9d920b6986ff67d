// A round closes in three steps. One transaction decides to close it; from then on no update counts. After its commit,
// a separate thread merges the updates, while requests are served. A later transaction stores the result and closes the
// round. The merge writes nothing itself: after a crash the round is open with the same updates, and closes again.
//
// At start, the newest version is computed from the last checkpoint and the updates received since.
#include "federation/closing.h"

#include "federation/best.h"
#include "federation/clients.h"
#include "federation/secure.h"
#include "federation/update.h"
#include "hosted/job.h"
#include "merge/merge.h"
#include "rounds/spread.h"
#include "store/store.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The round that is being closed. While the merge's thread runs, the thread owns everything here but the job.
struct closing {
    struct tern_job job;
    struct tern_db *reader;   // the thread's connection to the store
    struct tern_merge *merge; // &federation->merge
    struct tern_db_round row;
    struct tern_strategy_totals totals;
    struct tern_merge_next next;
    enum tern_result result; // of tern_merge_make()
    uint64_t request;        // id in the log of the request that completed the round
};

// --- History: checkpoints of the model, and updates of committed rounds for replays

// Most versions from one checkpoint to the next. A start merges that many rounds again.
#define CHECKPOINT_VERSIONS 16

// A checkpoint is also due when the updates since the last checkpoint exceed a quarter of the checkpoint's bytes
// (weights and replica), and 4 MiB: a start takes 0.3 s to merge 4 MiB of updates. A small checkpoint does not wait for
// 4 MiB of updates.
#define CHECKPOINT_SHARE 4
#define CHECKPOINT_UPDATE_BYTES (UINT64_C(4) << 20)
#define CHECKPOINT_SMALL 65536u

// Bytes of a checkpoint that one call of tern_closing_advance() writes; a transaction calls it up to twice. Writing 1 MiB takes
// about 5 ms, including the copy from SQLite's write-ahead log to the database. The next round is merged once the checkpoint
// is complete.
#define CHECKPOINT_STEP_BYTES (UINT64_C(1) << 20)

// Bytes of updates, downloads and replicas that one transaction drops: 16 MiB take some 20 ms.
#define DROP_BYTES (UINT64_C(16) << 20)

// The disk is low when less than 1/LOW_SHARE of the disk, and less than 64 MiB, is free (tern_disk_is_low()). Then half
// of the updates kept for replays are dropped, some downloads and replicas are dropped with each version, and a
// checkpoint is stored as soon as it frees more bytes than it takes.
#define LOW_SHARE 8

// Rows of the newest LATE_ROUNDS rounds are never dropped: a late update needs the row of its task, which gives the
// client's speed.
#define LATE_ROUNDS 16

// Returns how many bytes of updates make a checkpoint of `whole` bytes due.
static uint64_t updates_until_checkpoint(uint64_t whole)
{
    const uint64_t share = whole / CHECKPOINT_SHARE;
    return whole <= CHECKPOINT_SMALL || share > CHECKPOINT_UPDATE_BYTES ? share
                                                                        : CHECKPOINT_UPDATE_BYTES;
}

static enum tern_result check_disk(struct tern_federation *federation)
{
    struct tern_db_room room;
    uint64_t empty = 0; // free bytes within the database file
    TERN_TRY(tern_db_room(federation->db, &room));
    TERN_TRY(tern_db_free_bytes(federation->db, &empty));
    const bool was_low = federation->disk_is_low;
    federation->disk_free = room.free == UINT64_MAX ? UINT64_MAX : room.free + empty;
    federation->disk_is_low = tern_disk_is_low(federation->disk_free, room.disk, LOW_SHARE);
    if (federation->disk_is_low && !was_low) {
        tern_log(TERN_LOG_WARN, "disk-low", "bytes=%" PRIu64, federation->disk_free);
    }
    return TERN_OK;
}

static enum tern_result is_due(struct tern_federation *federation, bool *due)
{
    const struct tern_merge *merge = &federation->merge;
    const uint64_t whole = (uint64_t)merge->model.count * 2 * sizeof(float);
    struct tern_db_version version;
    struct tern_db_round round = {.received_bytes = 0};
    uint64_t received = 0;
    TERN_TRY(tern_db_version_get(federation->db, merge->checkpoint, &version));
    TERN_TRY(tern_db_may_miss(tern_db_round_get(federation->db, version.round, &round)));
    TERN_TRY(tern_db_received_bytes(federation->db, &received));
    const uint64_t updates = received - round.received_bytes;
    const bool gives_room = federation->disk_is_low && federation->config.limits.history > 0 &&
                            updates >= whole &&
                            // The old and the new checkpoint exist together for some time.
                            federation->disk_free > whole;
    *due = merge->version > merge->checkpoint &&
           (merge->version >= merge->checkpoint + CHECKPOINT_VERSIONS ||
            updates >= updates_until_checkpoint(whole) || gives_room);
    return TERN_OK;
}

static enum tern_result write_checkpoint_part(struct tern_federation *federation)
{
    struct tern_merge *merge = &federation->merge;
    uint64_t bytes = 0;
    TERN_TRY(tern_db_step_bytes(federation->db, CHECKPOINT_STEP_BYTES, &bytes));
    TERN_TRY(tern_merge_checkpoint(merge, federation->db, bytes));
    federation->checkpoint_due = merge->checkpoint != merge->version;
    return TERN_OK;
}

// Stores the first part of a checkpoint of the newest version, if a checkpoint is due.
static enum tern_result begin_checkpoint(struct tern_federation *federation)
{
    bool due = false;
    TERN_TRY(is_due(federation, &due));
    return due ? write_checkpoint_part(federation) : TERN_OK;
}

// On a low disk, drops downloads and replicas before a version is stored in the same transaction.
static enum tern_result free_disk_if_low(struct tern_federation *federation)
{
    uint64_t bytes = 0;
    TERN_TRY(check_disk(federation));
    TERN_TRY(tern_db_step_bytes(federation->db, DROP_BYTES, &bytes));
    return federation->disk_is_low ? tern_catchup_free_disk(federation->catchup, bytes) : TERN_OK;
}

// Sets *received to the bytes of all updates received before the newest version was made.
static enum tern_result received_bytes(struct tern_federation *federation, uint64_t *received)
{
    struct tern_db_version version;
    struct tern_db_round round = {.received_bytes = 0};
    TERN_TRY(tern_db_version_get(federation->db, federation->merge.version, &version));
    TERN_TRY(tern_db_may_miss(tern_db_round_get(federation->db, version.round, &round)));
    *received = round.received_bytes;
    return TERN_OK;
}

// Sets *most to the bytes of updates to keep (0 = no limit). received: bytes of all updates so far.
static enum tern_result history_limit(struct tern_federation *federation, uint64_t received,
                                      uint64_t *most)
{
    struct tern_db_round pruned = {.received_bytes = 0};
    uint32_t last = 0;
    *most = federation->config.limits.history;
    TERN_TRY(check_disk(federation));
    if (*most == 0 || !federation->disk_is_low) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_prune_goal(federation->db, 0, &last));
    TERN_TRY(tern_db_may_miss(tern_db_round_get(federation->db, last, &pruned)));
    const uint64_t half = (received - pruned.received_bytes) / 2;
    if (half < *most && half > 0) {
        *most = half;
    }
    return TERN_OK;
}

// Decides, after a round was committed, which rounds' updates are dropped.
static enum tern_result decide_pruning(struct tern_federation *federation)
{
    uint64_t most = 0;
    uint64_t received = 0;
    uint32_t last = 0;
    federation->prune_due = true; // the command `prune` may have left rows to drop
    TERN_TRY(received_bytes(federation, &received));
    TERN_TRY(history_limit(federation, received, &most));
    if (most == 0 || received <= most) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_prune_goal(federation->db, received - most, &last));
    if (federation->config.upstream_client != 0 && last >= federation->machine.round) {
        last =
            // A gateway's upstream update needs the newest round's updates.
            federation->machine.round - 1;
    }
    return tern_db_prune(federation->db, last);
}

// Writes the next part of a checkpoint that is stored in part.
static enum tern_result continue_checkpoint(struct tern_federation *federation)
{
    if (!federation->checkpoint_due) {
        return TERN_OK;
    }
    TERN_TRY(write_checkpoint_part(federation));
    return federation->checkpoint_due ? TERN_OK : decide_pruning(federation);
}

// Returns for how many newest rounds late updates can arrive. Takes the strategy from the newest round's row, because
// the totals may have none while no round is open.
static uint32_t late_rounds(const struct tern_federation *federation)
{
    struct tern_strategy_rule rule;
    const bool late =
        tern_rule_read(&federation->row, &rule) == TERN_OK && rule.strategy->accepts_late_updates;
    const uint32_t counts = late ? (uint32_t)rule.parameters[TERN_STRATEGY_STALENESS_MAX] + 1 : 0;
    return counts > LATE_ROUNDS ? counts : LATE_ROUNDS;
}

// Frees disk space before the next version is stored, if the disk is low. Runs once after each load: at the start, and
// after a failed transaction, which a full disk may have caused.
static enum tern_result check_disk_after_load(struct tern_federation *federation)
{
    if (!federation->disk_check_due || tern_federation_is_merging(federation)) {
        return TERN_OK;
    }
    federation->disk_check_due = false;
    TERN_TRY(free_disk_if_low(federation));
    if (!federation->disk_is_low) {
        return TERN_OK;
    }
    TERN_TRY(begin_checkpoint(federation));
    return federation->checkpoint_due ? TERN_OK : decide_pruning(federation);
}

// Drops a few of the updates and rows beyond limits.history, so that no request waits long.
static enum tern_result prune_some(struct tern_federation *federation)
{
    bool more = false;
    if (!federation->prune_due || federation->checkpoint_due) {
        return TERN_OK;
    }
    TERN_TRY(check_disk_after_load(federation));
    if (federation->checkpoint_due) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_checkpoint_drop_some(federation->db, &more));
    if (!more) {
        TERN_TRY(tern_db_pinned_drop_some(federation->db, &more));
    }
    if (!more) {
        TERN_TRY(tern_catchup_drop_some(federation->catchup, &more));
    }
    if (more) {
        return TERN_OK;
    }
    uint64_t bytes = 0;
    TERN_TRY(tern_db_step_bytes(federation->db, DROP_BYTES, &bytes));
    return tern_db_prune_some(federation->db, bytes, late_rounds(federation),
                              &federation->prune_due);
}

// --- Updates that were scaled down in the merge

static void log_bound(const struct tern_federation *federation,
                      const struct tern_update_bound *bound, uint32_t examples, uint32_t count)
{
    const struct tern_merge *merge = &federation->merge;
    const uint32_t claimed = bound->contribution.num_examples;
    const uint32_t round = federation->row.round;
    if (examples < claimed) {
        tern_log(TERN_LOG_WARN, "examples-bounded",
                 "round=%u client=%llu claims=%u counts=%u count=%u", round,
                 (unsigned long long)bound->client, claimed, examples, count);
    }
    if (bound->scale < 1.0) {
        tern_log(TERN_LOG_WARN, "update-scaled-down",
                 "round=%u client=%llu norm=%.4g bound=%.4g count=%u", round,
                 (unsigned long long)bound->client, bound->norm, merge->bounds.norm_max, count);
    }
}

static enum tern_result note_scaled(struct tern_federation *federation,
                                    const struct tern_update_bound *bound)
{
    struct client *client = client_of(federation, bound->client);
    if (client == NULL) {
        return TERN_ERR_CORRUPT;
    }
    const uint32_t examples =
        tern_strategy_counted_examples(&federation->totals, bound->contribution.num_examples);
    // The weighted mean scaled the update as well.
    client->reported.square *= bound->scale * bound->scale;
    client->reported.num_examples = examples;
    client->row.scaled_down++;
    federation->row.scaled_down++;
    federation->counts.updates_scaled_down++;
    if (is_power_of_two(client->row.scaled_down)) {
        log_bound(federation, bound, examples, client->row.scaled_down);
    }
    return tern_clients_store(federation, bound->client);
}

// Counts the updates that the merge scaled down, for each client and in the round's row. Logs a client's 1st, 2nd, 4th,
// 8th, ... such update.
static enum tern_result note_scaled_down(struct tern_federation *federation)
{
    const struct tern_update_bounds *bounds = &federation->merge.bounds;
    for (uint32_t i = 0; i < bounds->count; i++) {
        if (tern_update_is_bounded(&bounds->list[i])) {
            TERN_TRY(note_scaled(federation, &bounds->list[i]));
        }
    }
    return TERN_OK;
}

// --- Drift (how much a round's updates differ from each other), and their loss

// Returns the norm of the mean update before the strategy's own step (such as momentum); NaN if the strategy takes no
// plain mean.
static double norm_of_mean(const struct tern_strategy *strategy,
                           const struct tern_strategy_report *report)
{
    return tern_strategy_is_plain_mean(strategy) ? (double)report->mean_norm : (double)NAN;
}

static int compare_floats(const void *a, const void *b)
{
    const float *one = a;
    const float *other = b;
    return (*one > *other) - (*one < *other);
}

// Sets the round's median loss over the members that reported, for an even number the lower of the middle two. Each
// client has one vote, whatever number of examples it claims. 0 if all updates of the round were made for earlier
// rounds.
static enum tern_result measure_loss(struct tern_federation *federation)
{
    const struct tern_round_machine *machine = &federation->machine;
    uint32_t count = 0;
    float *losses = malloc(((size_t)machine->member_count + 1) * sizeof losses[0]);
    if (losses == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct tern_member *member = &machine->members[i];
        if (member->state == TERN_MEMBER_REPORTED) {
            losses[count++] = client_of(federation, member->client)->reported.loss;
        }
    }
    qsort(losses, count, sizeof losses[0], compare_floats);
    federation->row.median_loss = count > 0 ? losses[(count - 1) / 2] : 0.0F;
    free(losses);
    return TERN_OK;
}

// Sets the variance of the round's updates. Sums in the order of client ids, so that the bits do not depend on the
// order of arrival. Each update is scaled by its local steps and weighted by its examples, as in the weighted mean.
static void measure_variance(struct tern_federation *federation,
                             const struct tern_strategy_report *report)
{
    const struct tern_round_machine *machine = &federation->machine;
    const struct tern_strategy_totals *totals = &federation->totals;
    double square = 0.0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct tern_member *member = &machine->members[i];
        if (member->state != TERN_MEMBER_REPORTED) {
            continue;
        }
        const struct reported_update *update = &client_of(federation, member->client)->reported;
        double factor = tern_strategy_steps_factor(totals, update->local_steps);
        double share = (double)update->num_examples / (double)totals->num_examples;
        square += share * factor * factor * update->square;
    }
    federation->row.local_steps = report->effective_steps;
    federation->row.variance =
        tern_update_variance(square, norm_of_mean(totals->rule.strategy, report), report->updates);
}

// Measures what a round's updates show together. The masked updates of a secure round show only their mean loss.
static enum tern_result measure_drift(struct tern_federation *federation,
                                      const struct tern_strategy_report *report)
{
    if (federation->secure.is_on) {
        federation->row.local_steps = report->effective_steps;
        federation->row.median_loss = report->mean_loss;
        return TERN_OK;
    }
    measure_variance(federation, report);
    return measure_loss(federation);
}

// --- Merging

static void run_merge(void *ctx)
{
    struct closing *closing = ctx;
    closing->result = tern_merge_make(closing->merge, closing->reader, &closing->row,
                                      &closing->totals, &closing->next);
}

enum tern_result tern_closing_new(struct tern_federation *federation, char why[256])
{
    struct closing *closing = calloc(1, sizeof *closing);
    if (closing == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    federation->closing = closing;
    closing->merge = &federation->merge;
    closing->job.work = run_merge;
    closing->job.ctx = closing;
    closing->job.ended = federation->ports.wake;
    closing->job.ended_ctx = federation->ports.ctx;
    return tern_db_open(tern_db_path(federation->db), TERN_DB_SECOND, &closing->reader, why);
}

void tern_closing_free(struct tern_federation *federation)
{
    if (federation->closing != NULL) {
        tern_federation_wait_for_merge(federation);
        tern_db_close(federation->closing->reader);
        free(federation->closing);
    }
}

void tern_closing_decide(struct tern_federation *federation)
{
    struct closing *closing = federation->closing;
    closing->row = federation->row;
    closing->totals = federation->totals;
    federation->closing_step = CLOSING_DECIDED;
    closing->request = tern_log_request();
}

// Waits for the end of a search for downloads, which uses the merge's memory. If no thread can start, the next
// tern_federation_advance() reports TERN_ERR_NO_MEMORY.
static void start_merge(struct tern_federation *federation)
{
    struct closing *closing = federation->closing;
    if (federation->closing_step == CLOSING_DECIDED &&
        !tern_catchup_is_searching(federation->catchup)) {
        federation->closing_step = CLOSING_MERGING;
        closing->result = TERN_ERR_NO_MEMORY;
        (void)!tern_job_start(&closing->job);
    }
}

// Whether a merge has succeeded or failed, and its result is not in the store yet.
static bool merge_has_ended(const struct tern_federation *federation)
{
    const struct closing *closing = federation->closing;
    return federation->closing_step == CLOSING_MERGING &&
           (!closing->job.begun || tern_job_is_done(&closing->job));
}

bool tern_federation_is_merging(const struct tern_federation *federation)
{
    return federation->closing_step != CLOSING_NOTHING;
}

void tern_federation_wait_for_merge(struct tern_federation *federation)
{
    tern_catchup_wait(federation->catchup);
    tern_job_join(&federation->closing->job);
}

void tern_federation_publish(struct tern_federation *federation)
{
    tern_published_round(federation);
    tern_secure_start_request(federation);
    start_merge(federation);
}

// --- Keeping the version that evaluators rate best
//
// The best version has the label TERN_LABEL_BEST, and its weights are pinned. Evaluators report a version while it is the
// newest one, or later. The weights of a reported newest version are in memory, and are pinned before the next merge changes
// them. Small models' weights are pinned with each version, and stay for some versions (tern_db_pinned_drop_some()). A late
// report on a large model comes too late, which the log has: a copy of every version would cost more than all else that is
// stored.

// A gateway's versions come from upstream, and are rated there.
static bool keeps_versions(const struct tern_federation *federation)
{
    return federation->clients.evaluators > 0 && federation->config.upstream_client == 0;
}

// Whether the version comes before the labelled one in the order of tern_best_by_evaluators().
static bool is_better(const struct tern_best *one, const struct tern_best *labelled)
{
    if (tern_best_is_ahead(one, labelled, 0, 0) || tern_best_is_ahead(labelled, one, 0, 0)) {
        return tern_best_is_ahead(one, labelled, 0, 0);
    }
    return one->model != labelled->model ? one->model == TERN_EVALUATED_GLOBAL
                                         : one->version > labelled->version;
}

// Whether the version's weights are in memory, or pinned.
static enum tern_result can_keep(const struct tern_federation *federation, uint32_t version,
                                 bool *can)
{
    *can = version == federation->merge.version && !tern_federation_is_merging(federation) &&
           !federation->disk_is_low;
    return *can ? TERN_OK : tern_db_pinned_is_whole(federation->db, "", version, can);
}

static enum tern_result get_label(struct tern_federation *federation, struct tern_db_label *label)
{
    *label = (struct tern_db_label){.version = UINT32_MAX, .name = TERN_LABEL_BEST};
    return tern_db_may_miss(tern_db_label_get(federation->db, TERN_LABEL_BEST, label));
}

// Labels the version before its weights are stored, so that nothing drops them. The label's last version loses its weights.
static enum tern_result label_best(struct tern_federation *federation, const struct tern_best *best,
                                   struct tern_db_label *label, uint64_t now)
{
    bool can = false;
    TERN_TRY(can_keep(federation, best->version, &can));
    if (!can) {
        tern_log(TERN_LOG_WARN, "best-not-kept", "version=%u advice=%s", best->version,
                 TERN_LOG_TEXT("evaluators reported it after the next version was made, or the "
                               "disk is low: it can be exported only while its updates are kept"));
        return TERN_OK;
    }
    label->version = best->version;
    label->created_ms = now;
    federation->prune_due = true;
    federation->pin_due = federation->pin_due || best->version == federation->merge.version;
    tern_log(TERN_LOG_INFO, "best-version", "version=%u model=%s %s=%.4f", best->version,
             tern_evaluated_name(best->model),
             best->by == TERN_BEST_BY_ACCURACY ? "accuracy" : "loss", best->value);
    return tern_db_label_put(federation->db, label);
}

#define RATED_LATE                                                                                 \
    16 // newest versions that are compared one by one, as many as tern_db_pinned_drop_some() leaves

// Labels the best version from `first` to `last` if it is better than the labelled one.
static enum tern_result check_some(struct tern_federation *federation, uint32_t first,
                                   uint32_t last, uint64_t now)
{
    const uint32_t newest = federation->merge.version;
    struct tern_db_label label;
    struct tern_best_found found;
    struct tern_best_found labelled;
    first = first + RATED_LATE > newest || newest < RATED_LATE ? first : newest - RATED_LATE + 1;
    for (uint32_t version = first; version <= last && version <= newest; version++) {
        TERN_TRY(get_label(federation, &label));
        TERN_TRY(tern_best_by_evaluators(federation->db, version, version, &found));
        TERN_TRY(tern_best_by_evaluators(federation->db, label.version, label.version, &labelled));
        if (found.any.by != TERN_BEST_NONE && is_better(&found.any, &labelled.any)) {
            TERN_TRY(label_best(federation, &found.any, &label, now));
        }
    }
    return TERN_OK;
}

// Compares all versions. If the best one's weights are gone, the best of the newest ones counts.
static enum tern_result check_all(struct tern_federation *federation, uint64_t now)
{
    struct tern_db_label label;
    struct tern_best_found found;
    federation->best_check_due = false;
    TERN_TRY(get_label(federation, &label));
    TERN_TRY(tern_best_by_evaluators(federation->db, 0, UINT32_MAX, &found));
    if (found.any.by == TERN_BEST_NONE || found.any.version == label.version) {
        return TERN_OK;
    }
    TERN_TRY(label_best(federation, &found.any, &label, now));
    return found.any.version == label.version
               ? TERN_OK
               : check_some(federation, 0, federation->merge.version, now);
}

// Compares the versions that evaluators reported. Another report on the labelled one may make it worse than any other; the
// weights of versions before the newest ones are gone.
static enum tern_result check_rated(struct tern_federation *federation, uint64_t now)
{
    const uint32_t first = federation->rated_first;
    const uint32_t last = federation->rated_last;
    struct tern_db_label label;
    federation->is_rated = false;
    TERN_TRY(get_label(federation, &label));
    return first <= label.version && label.version <= last
               ? check_some(federation, 0, federation->merge.version, now)
               : check_some(federation, first, last, now);
}

static bool is_pinned_with_each_version(const struct tern_federation *federation)
{
    return keeps_versions(federation) && !federation->disk_is_low &&
           federation->merge.model.count <= TERN_DB_RECENT_VALUES;
}

// Continues after a load: the newest version's weights may be stored in part.
static enum tern_result load_best(struct tern_federation *federation)
{
    struct tern_db_label label;
    bool whole = false;
    federation->best_is_loaded = true;
    federation->best_check_due = true;
    TERN_TRY(get_label(federation, &label));
    TERN_TRY(tern_db_pinned_is_whole(federation->db, "", federation->merge.version, &whole));
    federation->pin_due = !whole && (label.version == federation->merge.version ||
                                     is_pinned_with_each_version(federation));
    return TERN_OK;
}

// Stores the next 1 MiB of the newest version's weights.
static enum tern_result pin_some(struct tern_federation *federation)
{
    const struct tern_merge *merge = &federation->merge;
    return tern_db_pinned_put_some(federation->db, "", merge->version, merge->global,
                                   merge->model.count, &federation->pin_due);
}

// Labels the best version, and stores a part of its weights. A merge changes the weights in memory, and a checkpoint is
// stored first.
static enum tern_result keep_best(struct tern_federation *federation, uint64_t now)
{
    if (!keeps_versions(federation) || tern_federation_is_merging(federation) ||
        federation->checkpoint_due) {
        return TERN_OK;
    }
    TERN_TRY(federation->best_is_loaded ? TERN_OK : load_best(federation));
    TERN_TRY(federation->is_rated ? check_rated(federation, now) : TERN_OK);
    if (federation->pin_due) {
        return pin_some(federation);
    }
    return federation->best_check_due ? check_all(federation, now) : TERN_OK;
}

// --- Storing the result of a merge, which closes the round

// Warns when the round closes with fewer updates than its strategy needs, because no more clients are left or the
// operator ended the round.
static void note_few_updates(const struct tern_federation *federation)
{
    const struct tern_strategy_totals *totals = &federation->totals;
    const struct tern_strategy *strategy = totals->rule.strategy;
    if (!tern_strategy_has_enough_updates(&totals->rule, totals->updates)) {
        tern_log(TERN_LOG_WARN, "too-few-for-strategy",
                 "round=%u strategy=%s updates=%u needed=%u attackers=%g", federation->row.round,
                 strategy->name, totals->updates,
                 strategy->least_updates(&totals->rule, totals->updates),
                 (double)totals->rule.parameters[TERN_STRATEGY_ATTACKERS]);
    }
}

void tern_closing_apply_committed(struct tern_federation *federation,
                                  const struct tern_db_round *row)
{
    const uint64_t typical_ms = federation->machine.typical_ms;
    tern_round_close(&federation->machine, row->closed_ms);
    federation->committed = *row;
    if (row->mode ==
        TERN_ROUND_RESTORED) { // no client trained; earlier losses are of other weights
        federation->machine.typical_ms = typical_ms;
        federation->machine.losses = (struct tern_losses){.rounds = 0};
        return;
    }
    federation->last_loss = row->mean_loss;
    if (row->noise == 0) { // with noise the round has no loss
        tern_round_add_loss(&federation->machine, row->base_version, tern_db_round_loss(row));
        tern_steps_state_add_loss(&federation->steps_state, &federation->config.steps,
                                  row->median_loss);
    }
    tern_rate_round_committed(&federation->rate_state);
}

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
    TERN_TRY(free_disk_if_low(federation));
    TERN_TRY(tern_db_version_put(db, &version));
    TERN_TRY(tern_catchup_version(federation->catchup, made, before.replica, now));
    TERN_TRY(is_pinned_with_each_version(federation) ? pin_some(federation) : TERN_OK);
    return begin_checkpoint(federation);
}

static void log_round(const struct tern_federation *federation,
                      const struct tern_strategy_report *report,
                      const struct tern_download_made *made)
{
    const struct tern_db_round *row = &federation->row;
    char loss[24] = "none";
    if (row->noise == 0 && row->mode != TERN_ROUND_RESTORED) {
        snprintf(loss, sizeof loss, "%.4f", (double)report->mean_loss);
    }
    tern_log(
        TERN_LOG_INFO, "round",
        "round=%u of=%u version=%u updates=%u loss=%s step_norm=%.4g "
        "learning_rate=%.4g ms=%llu download_bytes=%zu%s",
        row->round, federation->config.round.rounds, federation->merge.version, row->applied, loss,
        (double)report->step_norm, (double)row->learning_rate,
        (unsigned long long)(row->closed_ms > row->opened_ms ? row->closed_ms - row->opened_ms : 0),
        made->len,
        federation->secure.is_on           ? " mode=secure"
        : row->mode == TERN_ROUND_RESTORED ? " mode=restored"
                                           : "");
}

// Logs that the losses of the rounds up to this one have ended the federation.
static void log_ending(const struct tern_losses *losses, const struct tern_db_round *row)
{
    tern_log(TERN_LOG_WARN, "federation-ended",
             "reason=%s round=%u loss=%.4g first_loss=%.4g lowest_loss=%.4g best_version=%u "
             "advice=%s",
             tern_ending_name(losses->ending), row->round, (double)tern_db_round_loss(row),
             (double)losses->first, (double)losses->lowest, losses->lowest_version,
             TERN_LOG_TEXT(tern_ending_advice(losses->ending)));
}

static bool is_temporary(enum tern_result result)
{
    return result == TERN_OK || result == TERN_ERR_IO || result == TERN_ERR_BUSY ||
           result == TERN_ERR_NO_MEMORY;
}

// Sets the federation's damage after a failed merge. Every accepted update can be merged (strategies/bounds.h), so a
// failure means that stored bytes are damaged: the federation halts, because leaving out an acknowledged update would
// be wrong.
static void report_damage(struct tern_federation *federation)
{
    struct closing *closing = federation->closing;
    if (!is_temporary(closing->result)) {
        snprintf(federation->damage, sizeof federation->damage,
                 "the stored updates of round %u cannot be merged (%s); stop the federation and "
                 "restore a backup",
                 closing->row.round, tern_result_name(closing->result));
    } else if (tern_db_damaged(closing->reader)) {
        snprintf(federation->damage, sizeof federation->damage, "%s",
                 tern_db_error(closing->reader));
    }
}

// Stores the next version and closes the round.
static enum tern_result store_result(struct tern_federation *federation,
                                     const struct tern_merge_next *next, uint64_t now)
{
    struct tern_db_round *row = &federation->row;
    const struct tern_losses *losses = &federation->machine.losses;
    const enum tern_ending ending_before = losses->ending;
    const bool restores = row->mode == TERN_ROUND_RESTORED;
    if (!restores) {
        note_few_updates(federation);
    }
    if (!federation->machine.takes_late_updates) {
        TERN_TRY(tern_reliability_count_unreported(federation, now));
    }
    tern_merge_adopt(&federation->merge, next);
    federation->totals = next->totals;
    TERN_TRY(tern_db_received_bytes(federation->db, &row->received_bytes));
    TERN_TRY(store_version(federation, &next->made, now));
    row->state = TERN_ROUND_COMMITTED;
    row->closed_ms = now;
    row->applied = federation->secure.is_on ? federation->machine.reported : next->report.updates;
    row->mean_loss = next->report.mean_loss;
    row->service_us = federation->worked_us - federation->opened_worked_us;
    row->search_us =
        (tern_federation_searches(federation).cpu_ns - federation->opened_search_ns) / 1000;
    if (!restores) {
        TERN_TRY(note_scaled_down(federation));
        TERN_TRY(measure_drift(federation, &next->report));
    }
    TERN_TRY(tern_db_round_put(federation->db, row));
    TERN_TRY(decide_pruning(federation));
    tern_closing_apply_committed(federation, row);
    if (losses->ending != ending_before) {
        log_ending(losses, row);
    }
    federation->progressed = true;
    tern_refusals_end_cohort(federation, true);
    log_round(federation, &next->report, &next->made);
    federation->secure.is_on = false;
    return TERN_OK;
}

static enum tern_result commit_merge(struct tern_federation *federation, uint64_t now)
{
    struct closing *closing = federation->closing;
    if (!merge_has_ended(federation)) {
        return TERN_OK;
    }
    tern_federation_wait_for_merge(federation);
    federation->closing_step = CLOSING_NOTHING;
    if (closing->result != TERN_OK) {
        report_damage(federation);
        return closing->result;
    }
    // The round's log line names the request that completed the round, not a request that was served during the merge.
    const uint64_t request = tern_log_request();
    tern_log_set_request(closing->request);
    const enum tern_result result = store_result(federation, &closing->next, now);
    tern_log_set_request(request);
    return result;
}

// --- Restored versions
//
// An order of the operator (`rollback`, `reject`) makes pinned weights the next version, by a round without clients
// (TERN_ROUND_RESTORED), which is merged, stored and replayed as any other.

// Codec of the delta to a restored version. A lossy one would bring clients back over many rounds, while they train from
// weights near the rejected version. Each client gets fewer bytes where a plan of its own is near enough.
#define RESTORED_CODEC "float16"

// Gives up the open round. Its clients put their updates back and reset their buffers with the next task.
static enum tern_result abandon_round(struct tern_federation *federation, uint64_t now)
{
    const struct tern_db_order *order = &federation->order;
    struct tern_db_round *row = &federation->row;
    char sentence[TERN_DB_REASON_MAX];
    snprintf(sentence, sizeof sentence, "%s: %.120s", order->strategy, order->reason);
    tern_log(TERN_LOG_WARN, "round-abandoned", "round=%u updates=%u reason=%s detail=%s",
             row->round, federation->machine.reported, order->strategy,
             TERN_LOG_TEXT(order->reason));
    memcpy(row->reason, sentence, sizeof row->reason);
    row->state = TERN_ROUND_ABANDONED;
    row->closed_ms = now;
    TERN_TRY(tern_db_received_bytes(federation->db, &row->received_bytes));
    TERN_TRY(tern_db_round_put(federation->db, row));
    tern_merge_stop(&federation->merge);
    tern_round_abandon(&federation->machine, now);
    return TERN_OK;
}

static void fill_restored_row(struct tern_federation *federation, uint64_t now)
{
    const struct tern_db_order *order = &federation->order;
    struct tern_db_round row = {.round = federation->machine.round,
                                .state = TERN_ROUND_OPEN,
                                .mode = TERN_ROUND_RESTORED,
                                .restored = order->restored,
                                .base_version = federation->merge.version,
                                .attempts = 1,
                                .opened_ms = now,
                                .deadline_ms = now,
                                // unchanged, so that schedules of the learning rate continue
                                .learning_rate = federation->row.learning_rate,
                                .decays = federation->row.decays};
    memcpy(row.strategy, order->strategy, sizeof row.strategy);
    memcpy(row.strategy_parameters, order->strategy_parameters, sizeof row.strategy_parameters);
    memcpy(row.reason, order->reason, sizeof row.reason);
    strcpy(row.codec_up, RESTORED_CODEC);
    strcpy(row.codec_down, RESTORED_CODEC);
    federation->row = row;
}

// Adds to the audit log that the service executed the order, or why it did not (refusal; NULL: executed). The verb's own row
// records that the order was given.
static enum tern_result audit_order(struct tern_federation *federation, const char *refusal,
                                    uint64_t now)
{
    static const struct tern_db_actor service = {.who = "service", .role = TERN_ROLE_NONE};
    const struct tern_db_order *order = &federation->order;
    const struct tern_db_actor other = tern_db_act_as(federation->db, &service);
    char subject[TERN_DB_SUBJECT_MAX];
    char before[32];
    char after[64];
    enum tern_result result;
    snprintf(subject, sizeof subject, "model, why: %.120s", order->reason);
    snprintf(before, sizeof before, "version %u", federation->merge.version);
    snprintf(after, sizeof after, "restored in round %u", federation->machine.round);
    result = refusal == NULL
                 ? tern_db_audit(federation->db, now, order->strategy, before, after, "%s", subject)
                 : tern_db_audit_refusal(federation->db, now, order->strategy, subject, refusal);
    (void)tern_db_act_as(federation->db, &other);
    return result;
}

// Opens the restored round and drops the order, so that a restart continues with the round.
static enum tern_result open_restored(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    tern_round_restore(machine, machine->round + 1, 0, 0, 1, now, now);
    fill_restored_row(federation, now);
    federation->restored_round = machine->round;
    federation->opened_worked_us = federation->worked_us;
    federation->opened_search_ns = tern_federation_searches(federation).cpu_ns;
    federation->progressed = true;
    TERN_TRY(tern_db_round_put(federation->db, &federation->row));
    TERN_TRY(tern_db_order_drop(federation->db));
    TERN_TRY(audit_order(federation, NULL, now));
    tern_log(TERN_LOG_WARN, "round-restores", "round=%u by=%s version=%u restored=%u reason=%s",
             machine->round, federation->order.strategy, federation->merge.version,
             federation->order.restored, TERN_LOG_TEXT(federation->order.reason));
    federation->order.ready = false;
    return TERN_OK;
}

static enum tern_result refuse_order(struct tern_federation *federation, uint64_t now)
{
    tern_log(TERN_LOG_WARN, "order-outdated", "by=%s ordered_for=%u version=%u advice=%s",
             federation->order.strategy, federation->order.base_version, federation->merge.version,
             TERN_LOG_TEXT("a round was merged meanwhile: give the order again"));
    federation->order.ready = false;
    federation->prune_due = true; // its pinned weights are not needed
    TERN_TRY(audit_order(federation, "order-outdated", now));
    return tern_db_order_drop(federation->db);
}

// Drops the ready order if its weights are missing, or if it was made for another newest version, as each model without what a
// client sent is.
static enum tern_result check_order(struct tern_federation *federation, uint64_t now)
{
    const struct tern_db_order *order = &federation->order;
    const bool is_derived = order->strategy_parameters[0] != '\0';
    bool valid = false;
    struct tern_db_order stored;
    if (tern_db_order_get(federation->db, &stored) == TERN_ERR_NOT_FOUND) { // cancelled
        federation->order.ready = false;
        return TERN_OK;
    }
    TERN_TRY(tern_db_pinned_is_whole(federation->db, order->strategy_parameters, order->restored,
                                     &valid));
    valid = valid && (!is_derived || order->base_version == federation->merge.version);
    return valid ? TERN_OK : refuse_order(federation, now);
}

static enum tern_result execute_order(struct tern_federation *federation, uint64_t now)
{
    TERN_TRY(federation->machine.open ? abandon_round(federation, now) : TERN_OK);
    TERN_TRY(open_restored(federation, now));
    tern_closing_decide(federation);
    return TERN_OK;
}

// Executes the order unless a merge or a checkpoint is under way, and continues a restored round after a restart.
static enum tern_result restore_advance(struct tern_federation *federation, uint64_t now)
{
    if (tern_federation_is_merging(federation)) {
        return TERN_OK;
    }
    TERN_TRY(federation->order.ready ? check_order(federation, now) : TERN_OK);
    if (tern_federation_stores_weights(federation)) {
        return TERN_OK;
    }
    if (federation->machine.open && federation->row.mode == TERN_ROUND_RESTORED) {
        tern_closing_decide(federation);
        return TERN_OK;
    }
    // A secure round is given up, or ends, first (secure.c).
    return federation->order.ready && !federation->secure.is_on ? execute_order(federation, now)
                                                                : TERN_OK;
}

// --- Advancing

// Stores the downloads that a search has found.
static enum tern_result store_found_downloads(struct tern_federation *federation, uint64_t now)
{
    const enum tern_result result =
        tern_catchup_store_found(federation->catchup, now, &federation->found_downloads);
    const char *damage = result != TERN_OK ? tern_catchup_damage(federation->catchup) : NULL;
    if (damage != NULL) {
        snprintf(federation->damage, sizeof federation->damage, "%s", damage);
    }
    return result;
}

enum tern_result tern_closing_advance(struct tern_federation *federation, uint64_t now)
{
    TERN_TRY(store_found_downloads(federation, now));
    TERN_TRY(prune_some(federation));
    TERN_TRY(continue_checkpoint(federation));
    TERN_TRY(keep_best(federation, now));
    TERN_TRY(commit_merge(federation, now));
    return restore_advance(federation, now);
}

bool tern_closing_has_work(const struct tern_federation *federation)
{
    return federation->prune_due || tern_federation_stores_weights(federation) ||
           merge_has_ended(federation) || tern_catchup_has_found(federation->catchup) ||
           (federation->order.ready && !federation->machine.open && !federation->secure.is_on);
}
