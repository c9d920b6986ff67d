// A round closes in three steps. One transaction decides to close it; from then on no update counts. After its commit,
// a separate thread merges the updates, while requests are served. A later transaction stores the result and closes the
// round. The merge writes nothing itself: after a crash the round is open with the same updates, and closes again.
//
// At start, the newest version is computed from the last checkpoint and the updates received since.
#include "federation/round.h"

#include "federation/clients.h"
#include "federation/refusals.h"
#include "federation/statistics.h"
#include "federation/strategy.h"
#include "federation/update.h"
#include "merge/merge.h"
#include "merge/part.h"
#include "rounds/machine.h"
#include "rounds/selection.h"
#include "rounds/spread.h"
#include "store/store.h"
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Work on its own thread. The federation's thread starts it, polls for its end and joins it.
struct job {
    void (*work)(void *ctx);
    void (*ended)(void *ended_ctx); // notifies the owner, on the job's thread
    void *ctx;
    void *ended_ctx;
    pthread_t thread;
    bool begun;
    atomic_bool has_ended;
};

enum closing_step {
    CLOSING_NOTHING, // a round is open, or none
    CLOSING_DECIDED, // this transaction decided to close the round
    CLOSING_MERGING, // the decision is committed; the merge runs or has ended
};

// A round that closes. While its job runs, the job owns everything but the step.
struct closing {
    enum closing_step step;
    struct job job;
    struct tern_db *reader;                    // the job's view of the store
    struct tern_merge *merge;                  // the federation's
    const struct tern_federation_ports *ports; // the federation's
    struct tern_db_round row;
    struct tern_strategy_totals totals;
    struct tern_merge_next next;
    enum tern_result result; // of the job
    uint64_t request;        // id in the log of the request that completed the round
};

// --- Starting and joining a job

static void *run_job(void *arg)
{
    struct job *job = arg;
    job->work(job->ctx);
    atomic_store(&job->has_ended, true);
    job->ended(job->ended_ctx);
    return NULL;
}

static enum tern_result job_start(struct job *job)
{
    atomic_store(&job->has_ended, false);
    job->begun = pthread_create(&job->thread, NULL, run_job, job) == 0;
    return job->begun ? TERN_OK : TERN_ERR_NO_MEMORY;
}

static bool job_is_done(const struct job *job)
{
    return job->begun && atomic_load(&job->has_ended);
}

static void job_join(struct job *job)
{
    if (job->begun) {
        pthread_join(job->thread, NULL);
        job->begun = false;
    }
}

// --- Epochs (strategy qsvrg)

// Plans the next round as the first of an epoch.
static void begin_epoch(struct tern_federation *federation)
{
    const struct tern_federation_config *config = &federation->config;
    federation->epoch = (struct epoch){
        .is_on = config->strategy->has_epochs,
        .steps = (uint32_t)config->strategy_parameters[TERN_STRATEGY_EPOCH_STEPS],
        .learning_rate = config->train.rate.first,
    };
}

static struct epoch epoch_of(const struct tern_strategy_rule *rule, uint32_t round)
{
    const uint32_t step = (uint32_t)rule->parameters[TERN_STRATEGY_EPOCH_STEP];
    return (struct epoch){
        .is_on = rule->strategy->has_epochs,
        .steps = (uint32_t)rule->parameters[TERN_STRATEGY_EPOCH_STEPS],
        .step = step,
        .anchor = step > 0 ? round - step : 0,
        .learning_rate = rule->learning_rate,
    };
}

static void load_epoch(struct tern_federation *federation)
{
    federation->epoch = epoch_of(&federation->totals.rule, federation->row.round);
}

// Plans the next round's position in its epoch from the last round's row, so that a restart continues the epoch. The
// row stores the round's step k, counted from 0; the epoch's first round is k rounds earlier.
static void plan_epoch(struct tern_federation *federation)
{
    const struct tern_db_round *last = &federation->row;
    struct tern_strategy_rule rule;
    begin_epoch(federation);
    if (!federation->epoch.is_on || last->round == 0 || tern_rule_read(last, &rule) != TERN_OK ||
        rule.strategy != federation->config.strategy) {
        return;
    }
    struct epoch next = epoch_of(&rule, last->round);
    next.step++;
    next.anchor = last->round + 1 - next.step;
    if (next.step + 2 <= next.steps) {
        federation->epoch = next;
    }
}

// Returns the codec of the open round's updates. A full gradient is sent whole.
static const struct tern_codec *epoch_codec(const struct tern_federation *federation)
{
    static const struct tern_codec whole = {.id = TERN_CODEC_FLOAT32};
    const struct epoch *epoch = &federation->epoch;
    return epoch->is_on && epoch->step == 0 ? &whole : &federation->config.codec_up;
}

// --- The strategy of a round

static bool carries(const struct tern_strategy *strategy)
{
    return strategy != NULL && strategy->states[0].name != NULL;
}

// Writes the strategy into the opening round's row, where the learning rate is set already, and resets the totals.
// previous: the name of the last round's strategy, or "".
static void open_strategy(struct tern_federation *federation, const char *previous)
{
    struct tern_strategy_rule rule;
    tern_strategy_configured_rule(&federation->config, federation->row.learning_rate, &rule);
    if (federation->epoch.is_on) {
        rule.parameters[TERN_STRATEGY_EPOCH_STEPS] = (float)federation->epoch.steps;
        rule.parameters[TERN_STRATEGY_EPOCH_STEP] = (float)federation->epoch.step;
    }
    tern_rule_write(&rule, &federation->row);
    tern_strategy_totals_init(&federation->totals, &rule);
    tern_merge_open(&federation->merge, &rule);
    federation->machine.takes_late_updates = rule.strategy->accepts_late_updates;
    bool changed = previous[0] != '\0' && strcmp(previous, rule.strategy->name) != 0;
    if (changed) {
        bool states = carries(rule.strategy) || carries(tern_strategy_find(previous));
        tern_log(TERN_LOG_WARN, "strategy-changed", "round=%u from=%s to=%s%s",
                 federation->row.round, previous, rule.strategy->name,
                 states ? " state=starts-anew" : "");
    }
}

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

// --- History: checkpoints of the model, and updates of committed rounds for replays

// Most versions from one checkpoint to the next. A start merges that many rounds again.
#define CHECKPOINT_VERSIONS 16

// A checkpoint is also due when the updates since the last one exceed a quarter of the checkpoint's bytes (weights and
// replica), and 4 MiB: a start takes 0.3 s to merge 4 MiB of updates again. A small checkpoint does not wait for 4 MiB.
#define CHECKPOINT_SHARE 4
#define CHECKPOINT_UPDATE_BYTES (UINT64_C(4) << 20)
#define CHECKPOINT_SMALL 65536u

// Bytes of a checkpoint that one transaction writes. This takes about 40 ms, including the copy from SQLite's
// write-ahead log to the database. The next round is merged once the checkpoint is complete.
#define PIECE_BYTES (UINT64_C(8) << 20)

// Bytes that one transaction drops: 16 MiB take some 20 ms.
#define DROP_BYTES (UINT64_C(16) << 20)

// The disk is low when less than 1/LOW_SHARE of it, and less than 64 MiB, is free (tern_disk_is_low()). Then half of
// the updates kept for replays are dropped, some downloads and replicas are dropped with each version, and a checkpoint
// is stored as soon as it frees more bytes than it takes.
#define LOW_SHARE 8

// Rows of this many newest rounds are never dropped: a late update needs its task, to measure the client's speed.
#define LATE_ROUNDS 16

// Returns how many bytes of updates make a checkpoint of `whole` bytes due.
static uint64_t most_updates(uint64_t whole)
{
    const uint64_t share = whole / CHECKPOINT_SHARE;
    return whole <= CHECKPOINT_SMALL || share > CHECKPOINT_UPDATE_BYTES ? share
                                                                        : CHECKPOINT_UPDATE_BYTES;
}

static enum tern_result check_disk(struct tern_federation *federation)
{
    struct tern_db_room room;
    uint64_t empty = 0; // within the database file
    TERN_TRY(tern_db_room(federation->db, &room));
    TERN_TRY(tern_db_free_bytes(federation->db, &empty));
    const bool was_low = federation->disk_is_low;
    federation->disk_room = room.free == UINT64_MAX ? UINT64_MAX : room.free + empty;
    federation->disk_is_low = tern_disk_is_low(federation->disk_room, room.disk, LOW_SHARE);
    if (federation->disk_is_low && !was_low) {
        tern_log(TERN_LOG_WARN, "disk-low", "bytes=%" PRIu64, federation->disk_room);
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
                            federation->disk_room > whole; // both exist for a while
    *due = merge->version > merge->checkpoint &&
           (merge->version >= merge->checkpoint + CHECKPOINT_VERSIONS ||
            updates >= most_updates(whole) || gives_room);
    return TERN_OK;
}

static enum tern_result write_piece(struct tern_federation *federation)
{
    struct tern_merge *merge = &federation->merge;
    uint64_t bytes = 0;
    TERN_TRY(tern_db_step_bytes(federation->db, PIECE_BYTES, &bytes));
    TERN_TRY(tern_merge_checkpoint(merge, federation->db, bytes));
    federation->checkpoint_due = merge->checkpoint != merge->version;
    return TERN_OK;
}

// Stores the first piece of a checkpoint of the newest version, if one is due.
static enum tern_result begin_checkpoint(struct tern_federation *federation)
{
    bool due = false;
    TERN_TRY(is_due(federation, &due));
    return due ? write_piece(federation) : TERN_OK;
}

// On a low disk, drops downloads and replicas before a version is stored in the same transaction.
static enum tern_result make_room(struct tern_federation *federation)
{
    uint64_t bytes = 0;
    TERN_TRY(check_disk(federation));
    TERN_TRY(tern_db_step_bytes(federation->db, DROP_BYTES, &bytes));
    return federation->disk_is_low ? tern_catchup_free_disk(federation->catchup, bytes) : TERN_OK;
}

// Returns the bytes of all updates received before the newest version was made.
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
static enum tern_result most_kept(struct tern_federation *federation, uint64_t received,
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

// Decides, after a commit, which rounds' updates are dropped.
static enum tern_result decide_pruning(struct tern_federation *federation)
{
    uint64_t most = 0;
    uint64_t received = 0;
    uint32_t last = 0;
    federation->prune_due = true; // the command `prune` may have left rows
    TERN_TRY(received_bytes(federation, &received));
    TERN_TRY(most_kept(federation, received, &most));
    if (most == 0 || received <= most) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_prune_goal(federation->db, received - most, &last));
    if (federation->config.upstream_client != 0 && last >= federation->machine.round) {
        last =
            federation->machine.round - 1; // the upstream update needs the newest round's updates
    }
    return tern_db_prune(federation->db, last);
}

// Writes the next piece of the checkpoint.
static enum tern_result continue_checkpoint(struct tern_federation *federation)
{
    if (!federation->checkpoint_due) {
        return TERN_OK;
    }
    TERN_TRY(write_piece(federation));
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

// Makes room on a low disk before the next version is stored. Runs once after each load: at the start, and after a
// failed transaction, which a full disk may have caused.
static enum tern_result check_disk_again(struct tern_federation *federation)
{
    if (!federation->room_due || tern_federation_is_merging(federation)) {
        return TERN_OK;
    }
    federation->room_due = false;
    TERN_TRY(make_room(federation));
    if (!federation->disk_is_low) {
        return TERN_OK;
    }
    TERN_TRY(begin_checkpoint(federation));
    return federation->checkpoint_due ? TERN_OK : decide_pruning(federation);
}

// Drops updates and rows that are no longer kept, a few at a time so that no request waits long.
static enum tern_result prune_some(struct tern_federation *federation)
{
    bool more = false;
    if (!federation->prune_due || federation->checkpoint_due) {
        return TERN_OK;
    }
    TERN_TRY(check_disk_again(federation));
    if (federation->checkpoint_due) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_checkpoint_drop_some(federation->db, &more));
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
    client->drift.square *= bound->scale * bound->scale; // the mean applied the same scale
    client->drift.num_examples = examples;
    client->row.scaled_down++;
    federation->row.scaled_down++;
    federation->counts.updates_scaled_down++;
    if (is_power_of_two(client->row.scaled_down)) {
        log_bound(federation, bound, examples, client->row.scaled_down);
    }
    return tern_clients_store(federation, bound->client);
}

// Counts the updates that the merge scaled down, per client and in the round's row. Logs a client's 1st, 2nd, 4th, ...
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

// Sets the median loss of the members that reported; the lower of the middle two for an even number. Each client has
// one vote, whatever number of examples it claims. 0 when all updates were late ones of other rounds.
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
            losses[count++] = client_of(federation, member->client)->drift.loss;
        }
    }
    qsort(losses, count, sizeof losses[0], compare_floats);
    federation->row.median_loss = count > 0 ? losses[(count - 1) / 2] : 0.0F;
    free(losses);
    return TERN_OK;
}

// Sums in client order, so that the result's bits do not depend on the order of arrival. Each update is scaled by its
// local steps and weighted by its examples, as in the mean.
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
        const struct drift *drift = &client_of(federation, member->client)->drift;
        double factor = tern_strategy_steps_factor(totals, drift->local_steps);
        double share = (double)drift->num_examples / (double)totals->num_examples;
        square += share * factor * factor * drift->square;
    }
    federation->row.local_steps = report->effective_steps;
    federation->row.variance =
        tern_update_variance(square, norm_of_mean(totals->rule.strategy, report), report->updates);
}

static enum tern_result measure_drift(struct tern_federation *federation,
                                      const struct tern_strategy_report *report)
{
    measure_variance(federation, report);
    return measure_loss(federation);
}

// --- Merging

// Adds other nodes' partial sums, and updates that were stored before a restart.
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

enum tern_result tern_closing_new(struct tern_federation *federation, char why[256])
{
    struct closing *closing = calloc(1, sizeof *closing);
    if (closing == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    federation->closing = closing;
    closing->merge = &federation->merge;
    closing->ports = &federation->ports;
    closing->job.work = merge;
    closing->job.ctx = closing;
    closing->job.ended = federation->ports.wake;
    closing->job.ended_ctx = federation->ports.ctx;
    return tern_db_open(tern_db_path(federation->db), TERN_DB_SECOND, &closing->reader, why);
}

void tern_closing_free(struct tern_federation *federation)
{
    if (federation->closing != NULL) {
        job_join(&federation->closing->job);
        tern_db_close(federation->closing->reader);
        free(federation->closing);
    }
}

void tern_closing_cancel(struct tern_federation *federation)
{
    if (federation->closing != NULL) {
        job_join(&federation->closing->job);
        federation->closing->step = CLOSING_NOTHING;
    }
}

// Decides to close the open round. tern_federation_is_merging() is true from here on.
static void decide_to_close(struct tern_federation *federation)
{
    struct closing *closing = federation->closing;
    closing->row = federation->row;
    closing->totals = federation->totals;
    closing->step = CLOSING_DECIDED;
    closing->request = tern_log_request();
}

// If no thread can start, the next tern_federation_advance() reports TERN_ERR_NO_MEMORY.
void tern_closing_start_merge(struct tern_federation *federation)
{
    struct closing *closing = federation->closing;
    if (closing->step == CLOSING_DECIDED) {
        closing->step = CLOSING_MERGING;
        closing->result = TERN_ERR_NO_MEMORY;
        (void)!job_start(&closing->job);
    }
}

bool tern_federation_is_merging(const struct tern_federation *federation)
{
    return federation->closing->step != CLOSING_NOTHING;
}

// Whether a merge has succeeded or failed, and its result is not stored yet.
static bool merge_has_ended(const struct tern_federation *federation)
{
    const struct closing *closing = federation->closing;
    return closing->step == CLOSING_MERGING && (!closing->job.begun || job_is_done(&closing->job));
}

void tern_federation_wait_for_merge(struct tern_federation *federation)
{
    job_join(&federation->closing->job);
}

// --- Storing the result of a merge, which closes the round

// Advances the schedules of local steps and of the learning rate by one committed round.
static void advance_schedules(struct tern_federation *federation, const struct tern_db_round *row)
{
    tern_steps_state_add_loss(&federation->course, &federation->config.steps, row->median_loss);
    tern_rate_round_committed(&federation->rate);
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
    TERN_TRY(make_room(federation));
    TERN_TRY(tern_db_version_put(db, &version));
    TERN_TRY(tern_catchup_version(federation->catchup, made, before.replica, now));
    return begin_checkpoint(federation);
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

// Ends the federation when its rounds no longer learn, since further rounds would only cost clients bytes.
static void check_for_end(struct tern_federation *federation, const struct tern_db_round *row)
{
    struct tern_round_machine *machine = &federation->machine;
    const struct tern_losses *losses = &machine->losses;
    const enum tern_ending before = losses->ending;
    tern_round_add_loss(machine, row->base_version, tern_db_round_loss(row));
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

// Every accepted update can be merged (strategies/bounds.h). A merge that fails means that the stored bytes are
// damaged: the federation halts, because leaving out an acknowledged update would be wrong.
static void find_damage(struct tern_federation *federation)
{
    struct closing *closing = federation->closing;
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
    note_few_updates(federation);
    if (!federation->machine.takes_late_updates) { // with buffering, later updates count as well
        TERN_TRY(tern_reliability_count_unreported(federation, now));
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
    TERN_TRY(note_scaled_down(federation));
    TERN_TRY(measure_drift(federation, &next->report));
    advance_schedules(federation, row);
    TERN_TRY(tern_db_round_put(federation->db, row));
    TERN_TRY(tern_db_parts_drop(federation->db, row->round));
    TERN_TRY(decide_pruning(federation));
    federation->last_loss = next->report.mean_loss;
    check_for_end(federation, row);
    federation->moved = true;
    tern_refusals_end_cohort(federation, true);
    log_round(federation, &next->report, &next->made);
    return TERN_OK;
}

static enum tern_result commit_merge(struct tern_federation *federation, uint64_t now)
{
    struct closing *closing = federation->closing;
    if (!merge_has_ended(federation)) {
        return TERN_OK;
    }
    job_join(&closing->job);
    closing->step = CLOSING_NOTHING;
    if (closing->result != TERN_OK) {
        find_damage(federation);
        return closing->result;
    }
    // The log line of the round names the request that completed the round, not one served during the merge.
    const uint64_t request = tern_log_request();
    tern_log_set_request(closing->request);
    const enum tern_result result = store(federation, &closing->next, now);
    tern_log_set_request(request);
    return result;
}

// --- Opening

// An invited client counts as late after 1/PATIENCE_SHARE of the deadline.
#define PATIENCE_SHARE 4

static uint64_t patience_ms(const struct tern_federation *federation)
{
    return federation->config.round.deadline_ms / PATIENCE_SHARE;
}

// Time until the next try to open a round, after a try found too few clients.
#define RETRY_OPEN_MS 1000

// Returns when to check again for silent members: after the time that a newly enrolled client may take to check in.
static uint64_t next_look(const struct tern_federation *federation, uint64_t now)
{
    const uint64_t patience = patience_ms(federation);
    const uint64_t soon =
        tern_selection_first_checkin_ms(federation->config.round.come_back_min_ms);
    return now + (soon < patience ? soon : patience);
}

// Returns the divisor of the averaged model's next step. It grows from 1 to average_versions, so that the first
// averages are plain means of the versions since averaging was configured.
static uint32_t average_divisor(const struct tern_federation *federation)
{
    uint32_t most = federation->config.average_versions;
    uint32_t next = federation->merge.averaged + 1;
    return next < most ? next : most;
}

static float learning_rate_of(const struct tern_federation *federation, uint32_t decays)
{
    const struct tern_federation_config *config = &federation->config;
    return federation->epoch.is_on
               ? federation->epoch.learning_rate
               : tern_rate_for(&config->train.rate, federation->machine.committed + 1,
                               config->round.rounds, decays);
}

static void fill_codecs(const struct tern_federation *federation, struct tern_db_round *row)
{
    const struct tern_federation_config *config = &federation->config;
    const bool early = federation->machine.committed < config->early.rounds;
    const struct tern_codec *down = early ? &config->early.down : &config->downloads.codec;
    const struct tern_codec *up = early ? &config->early.up : epoch_codec(federation);
    tern_codec_format(up, row->codec_up);
    tern_codec_format(down, row->codec_down);
}

// Writes the round's codecs, learning rate and strategy into its row, so that a later change of the configuration does
// not affect the open round.
static void fill_row(struct tern_federation *federation)
{
    const struct tern_federation_config *config = &federation->config;
    const struct tern_round_machine *machine = &federation->machine;
    struct tern_db_round *row = &federation->row;
    char previous[TERN_DB_STRATEGY_MAX];
    memcpy(previous, row->strategy, sizeof previous);
    memset(row, 0, sizeof *row);
    row->round = machine->round;
    row->state = TERN_ROUND_OPEN;
    row->base_version = federation->merge.version;
    row->target = machine->target;
    row->quorum = machine->quorum;
    row->attempts = machine->attempts;
    row->opened_ms = machine->opened_ms;
    row->deadline_ms = machine->deadline_ms;
    row->averaged = average_divisor(federation);
    fill_codecs(federation, row);
    row->decays = tern_rate_decays(&config->train.rate, &federation->rate, machine->committed,
                                   machine->losses.since_lowest);
    row->learning_rate = learning_rate_of(federation, row->decays);
    tern_rate_round_opened(&federation->rate, row->decays);
    open_strategy(federation, previous);
}

// Returns how many clients to invite of `count` eligible ones. With round.fraction, the strategy's memory limits it.
static uint32_t cohort_of(const struct tern_federation *federation, uint32_t count)
{
    const struct tern_federation_config *config = &federation->config;
    uint32_t most = tern_strategy_largest_cohort(config, federation->merge.model.count);
    uint32_t cohort = tern_cohort_target(config->round.cohort, config->round.fraction, count);
    return cohort > most && most >= config->round.cohort ? most : cohort;
}

// Lists the clients to select from in clients->eligible; returns how many. Includes absent clients only if the quorum
// needs them.
static uint32_t list_for_selection(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_policy *policy = &federation->machine.policy;
    const uint32_t eligible = tern_clients_list_reliable(federation, now);
    policy->cohort = cohort_of(federation, eligible);
    const uint32_t quorum = tern_round_quorum(policy);
    const uint32_t present = tern_clients_list_responsive(federation, now);
    return present >= (quorum < eligible ? quorum : eligible)
               ? present
               : tern_clients_list_reliable(federation, now);
}

// Keeps those of clients->eligible[0..count) that are not members yet; returns how many.
static uint32_t keep_fresh(struct tern_federation *federation, uint32_t count)
{
    uint32_t fresh = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (tern_round_member(&federation->machine, federation->clients->eligible[i]) == NULL) {
            federation->clients->eligible[fresh++] = federation->clients->eligible[i];
        }
    }
    return fresh;
}

// Fills the remaining places with absent clients. The round does not wait for them.
static enum tern_result invite_absent(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    const struct tern_round_policy *policy = &machine->policy;
    const uint32_t count = tern_clients_list_reliable(federation, now);
    const uint32_t size = tern_cohort_size(policy->cohort, policy->over_selection, count);
    if (federation->config.selection != TERN_SELECTION_RANDOM ||
        tern_budgets_are_used(federation)) {
        return TERN_OK;
    }
    for (uint32_t i = 0; i < count && machine->member_count < size; i++) {
        const struct tern_member member = {.client = federation->clients->eligible[i],
                                           .invited_ms = now};
        if (tern_round_member(machine, member.client) == NULL) {
            TERN_TRY(tern_round_restore_member(machine, &member));
        }
    }
    return TERN_OK;
}

// Also invites some unreliable clients; the round does not wait for them. Their invitation is a millisecond later than
// the others', so that none of them becomes the round's leader.
static enum tern_result invite_unreliable(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    uint64_t *ids = federation->clients->eligible;
    uint32_t places = tern_unreliable_places(machine->target);
    if (federation->clients->unreliable == 0) {
        return TERN_OK;
    }
    uint32_t count = keep_fresh(federation, tern_clients_list_unreliable(federation, now));
    count = tern_clients_select(federation, count, machine->round, 1, places, 0, now);
    places = places < count ? places : count;
    tern_cohort_sample(machine->policy.seed, machine->round, 0, ids, count, places);
    for (uint32_t i = 0; i < places; i++) {
        const struct tern_member member = {.client = ids[i], .invited_ms = now + 1};
        TERN_TRY(tern_round_restore_member(machine, &member));
    }
    return TERN_OK;
}

// Sets the wanted number of updates to the number of reliable members, or to the quorum if that is more. Unreliable
// members were selected only because there were too few others.
static void want_no_unreliable(struct tern_federation *federation)
{
    struct tern_round_machine *machine = &federation->machine;
    uint32_t reliable = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct client *client = client_of(federation, machine->members[i].client);
        reliable += !tern_is_unreliable(client->row.unreported);
    }
    if (reliable < machine->member_count && !machine->takes_late_updates &&
        tern_round_lower_target(machine, reliable)) {
        tern_log(TERN_LOG_INFO, "round-wants-fewer", "round=%u wanted=%u unreliable=%u",
                 machine->round, machine->target, machine->member_count - reliable);
    }
}

// Selects the clients of the next round in clients->eligible; returns how many.
static uint32_t select_members(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_policy *policy = &federation->machine.policy;
    const uint32_t count = list_for_selection(federation, now);
    const uint32_t wanted = tern_cohort_size(policy->cohort, policy->over_selection, count);
    return tern_clients_select(federation, count, federation->machine.round + 1, 1, wanted,
                               tern_round_quorum(policy), now);
}

static void log_early_end(const struct epoch *epoch, uint32_t round)
{
    tern_log(TERN_LOG_WARN, "epoch-ended-early", "round=%u began=%u rounds=%u advice=%s", round,
             epoch->anchor, epoch->step,
             TERN_LOG_TEXT("the clients that hold its full gradient do not come"));
}

// Selects members for the current epoch. If no client is left that can continue it, a new epoch begins from the present
// model.
static uint32_t select_for_epoch(struct tern_federation *federation, uint64_t now)
{
    plan_epoch(federation);
    const uint32_t count = select_members(federation, now);
    if (count > 0 || federation->epoch.step == 0 ||
        tern_clients_list_selectable(federation, now) > 0) {
        return count;
    }
    const struct epoch before = federation->epoch;
    begin_epoch(federation);
    const uint32_t others = select_members(federation, now);
    if (others > 0) {
        log_early_end(&before, federation->machine.round + 1);
    }
    return others;
}

// Counts trainers that have checked in or have just enrolled.
static uint32_t count_trainers(const struct tern_federation *federation, uint64_t now)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < federation->clients->count; i++) {
        const struct client *client = &federation->clients->list[i];
        count += tern_clients_is_trainer(federation, client) &&
                 tern_clients_has_checked_in(federation, client, now);
    }
    return count;
}

static enum tern_result open_round(struct tern_federation *federation, uint64_t now)
{
    uint32_t count = 0;
    bool settled = false;
    federation->retry_open_ms = now + RETRY_OPEN_MS;
    federation->too_few = count_trainers(federation, now) < federation->config.min_clients;
    if (!federation->too_few) {
        TERN_TRY(tern_statistics_make_scaling(federation, now, &settled));
    }
    if (settled) {
        count = select_for_epoch(federation, now);
    }
    if (count == 0) {
        return TERN_OK;
    }
    TERN_TRY(tern_round_open(&federation->machine, federation->clients->eligible, count, now));
    want_no_unreliable(federation);
    TERN_TRY(invite_absent(federation, now));
    TERN_TRY(invite_unreliable(federation, now));
    return tern_rounds_store_opened(federation, now);
}

enum tern_result tern_rounds_store_opened(struct tern_federation *federation, uint64_t now)
{
    fill_row(federation);
    TERN_TRY(tern_db_round_put(federation->db, &federation->row));
    TERN_TRY(tern_members_store_all(federation));
    federation->look_ms = next_look(federation, now);
    federation->moved = true;
    tern_log(TERN_LOG_INFO, "round-opened", "round=%u version=%u invited=%u wanted=%u quorum=%u",
             federation->row.round, federation->row.base_version, federation->machine.member_count,
             federation->row.target, federation->row.quorum);
    return TERN_OK;
}

// --- Replacing members, and extending rounds

// Lists clients that are not members yet, in ascending order, for `need` places. Absent clients are listed only if
// there are no present ones, and unreliable clients only if there are no reliable ones.
static uint32_t list_fresh(struct tern_federation *federation, uint32_t need, uint64_t now)
{
    uint32_t fresh = keep_fresh(federation, tern_clients_list_responsive(federation, now));
    if (fresh == 0) {
        fresh = keep_fresh(federation, tern_clients_list_reliable(federation, now));
    }
    if (fresh == 0) {
        fresh = keep_fresh(federation, tern_clients_list_selectable(federation, now));
    }
    const struct tern_round_machine *machine = &federation->machine;
    uint32_t missing =
        machine->quorum > machine->reported ? machine->quorum - machine->reported : 0;
    return tern_clients_select(federation, fresh, machine->round, machine->attempts + 1, need,
                               missing, now);
}

static enum tern_result store_replacements(struct tern_federation *federation, uint64_t now)
{
    federation->look_ms = next_look(federation, now);
    federation->row.deadline_ms = federation->machine.deadline_ms;
    federation->row.attempts = federation->machine.attempts;
    federation->moved = true;
    TERN_TRY(tern_db_round_put(federation->db, &federation->row));
    return tern_members_store_all(federation);
}

// Logs the members that did not report by the deadline, as many as fit into the line.
static void log_silent(const struct tern_round_machine *machine)
{
    char ids[160] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < machine->member_count && used + 24 < sizeof ids; i++) {
        const struct tern_member *member = &machine->members[i];
        if (member->state == TERN_MEMBER_INVITED || member->state == TERN_MEMBER_TASKED) {
            used += (size_t)snprintf(ids + used, sizeof ids - used, "%s%llu", used > 0 ? "," : "",
                                     (unsigned long long)member->client);
        }
    }
    tern_log(TERN_LOG_WARN, "round-waits", "round=%u updates=%u quorum=%u silent=%s",
             machine->round, machine->reported, machine->quorum, TERN_LOG_TEXT(ids));
}

// Whether the member was invited, has not checked in since, and is late. Time before the service started does not
// count.
static bool is_silent(const struct tern_federation *federation, const struct tern_member *member,
                      uint64_t now)
{
    const struct client *client = client_of(federation, member->client);
    if (member->state != TERN_MEMBER_INVITED || client == NULL || client->waiting ||
        client->row.last_seen_ms >=
            member->invited_ms + (client->row.last_seen_ms <= client->row.created_ms)) {
        return false;
    }
    const uint64_t since =
        member->invited_ms > federation->loaded_ms ? member->invited_ms : federation->loaded_ms;
    return now >= since + patience_ms(federation) ||
           !tern_clients_has_checked_in(federation, client, now);
}

// Marks silent members as absent, so that none is selected again before its next check-in. Returns how many there are.
static uint32_t note_silent(struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    uint32_t count = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        if (is_silent(federation, &machine->members[i], now)) {
            client_of(federation, machine->members[i].client)->absent_ms = now;
            count++;
        }
    }
    return count;
}

// Turns the open round into the first of a new epoch if it has no update yet, its clients do not check in, and others
// could take part. An update for a member's earlier task is refused. Returns how many clients are selected anew.
static uint32_t begin_epoch_anew(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    struct tern_db_round *row = &federation->row;
    const struct epoch before = federation->epoch;
    if (before.step == 0 || machine->reported > 0) {
        return 0;
    }
    const uint32_t hold_it = tern_clients_list_selectable(federation, now);
    begin_epoch(federation);
    if (tern_clients_list_selectable(federation, now) <= hold_it) {
        federation->epoch = before;
        return 0;
    }
    for (uint32_t i = 0; i < machine->member_count; i++) {
        tern_round_withdraw_task(&machine->members[i]);
    }
    tern_codec_format(epoch_codec(federation), row->codec_up);
    row->learning_rate = learning_rate_of(federation, row->decays);
    open_strategy(federation, row->strategy);
    log_early_end(&before, row->round);
    machine->policy.cohort = cohort_of(federation, tern_clients_list_selectable(federation, now));
    const uint32_t members = tern_round_count_missing(machine, NULL, NULL);
    const uint32_t fresh = list_fresh(federation, members, now);
    tern_round_reset_target(machine, members + fresh);
    row->target = machine->target;
    row->quorum = machine->quorum;
    return fresh;
}

// Lowers the quorum to the updates received, at the deadline of a round that continues an epoch: no other client holds
// the full gradient, so none can replace a silent member. Returns whether the round can close so.
static bool ends_with_what_came(struct tern_federation *federation)
{
    struct tern_round_machine *machine = &federation->machine;
    if (federation->epoch.step == 0 || machine->reported == 0) {
        return false;
    }
    tern_log(TERN_LOG_WARN, "round-below-quorum", "round=%u updates=%u quorum=%u advice=%s",
             machine->round, machine->reported, machine->quorum,
             TERN_LOG_TEXT("the other clients that hold the epoch's full gradient do not come"));
    machine->quorum = machine->reported;
    federation->row.quorum = machine->quorum;
    return true;
}

static enum tern_result extend_round(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    tern_log_set_request(0); // no request caused the lines below
    note_silent(federation, now);
    TERN_TRY(tern_reliability_count_unreported(federation, now));
    uint32_t fresh = list_fresh(federation, tern_round_count_missing(machine, NULL, NULL), now);
    log_silent(machine);
    if (fresh == 0 && ends_with_what_came(federation)) {
        decide_to_close(federation);
        return tern_db_round_put(federation->db, &federation->row);
    }
    fresh = fresh > 0 ? fresh : begin_epoch_anew(federation, now);
    TERN_TRY(tern_round_extend(machine, federation->clients->eligible, fresh, now));
    TERN_TRY(store_replacements(federation, now));
    tern_refusals_end_cohort(federation, false);
    tern_log(TERN_LOG_WARN, "round-extended", "round=%u updates=%u quorum=%u invited=%u",
             machine->round, machine->reported, machine->quorum, machine->member_count);
    return TERN_OK;
}

// Whether the member gets no task because it does not have the federation's scaling of columns.
static bool does_not_scale(const struct tern_federation *federation,
                           const struct tern_member *member)
{
    return member->state == TERN_MEMBER_INVITED &&
           tern_clients_lacks_scaling(client_of(federation, member->client));
}

// Whether the member gets no task because it no longer holds the epoch's full gradient.
static bool lacks_anchor(const struct tern_federation *federation, const struct tern_member *member)
{
    return (member->state == TERN_MEMBER_INVITED || member->state == TERN_MEMBER_TASKED) &&
           !tern_epoch_allows(federation, &client_of(federation, member->client)->row);
}

// Whether to replace the member. A revoked one never reports. One that does not fetch its task, does not scale its
// columns, or has had its task for several times as long as the others took, is not expected to report.
static bool is_gone(const struct tern_federation *federation, const struct tern_pace *pace,
                    const struct tern_member *member, uint64_t now)
{
    const struct client *client = client_of(federation, member->client);
    return client->row.revoked || does_not_scale(federation, member) ||
           lacks_anchor(federation, member) ||
           (!tern_is_unreliable(client->row.unreported) &&
            (is_silent(federation, member, now) ||
             tern_reliability_has_failed(federation, member) ||
             tern_reliability_is_overdue(federation, pace, member, now)));
}

// Marks the members to replace. Returns how many of those without a report are revoked.
static uint32_t note_gone(struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    struct tern_pace pace;
    uint32_t revoked = 0;
    tern_reliability_measure_pace(federation, &pace);
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct tern_member *member = &machine->members[i];
        struct client *client = client_of(federation, member->client);
        client->gone = is_gone(federation, &pace, member, now);
        revoked += client->row.revoked &&
                   (member->state == TERN_MEMBER_INVITED || member->state == TERN_MEMBER_TASKED);
    }
    return revoked;
}

static bool was_gone(const void *ctx, uint64_t id)
{
    const struct client *client = client_of(ctx, id);
    return client != NULL && client->gone;
}

// Counts missed tasks of the members that were replaced at this check.
static enum tern_result note_missed(struct tern_federation *federation, uint32_t *missed)
{
    const struct tern_round_machine *machine = &federation->machine;
    *missed = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct tern_member *member = &machine->members[i];
        const struct client *client = client_of(federation, member->client);
        if (client->gone && member->state == TERN_MEMBER_REPLACED && member->tasked_ms != 0 &&
            !client->row.revoked) {
            TERN_TRY(tern_tries_are_used_up(member->tries) ||
                             client->row.failed_round == machine->round
                         ? TERN_OK // counted already, when it fetched the task again or failed
                         : tern_reliability_count_missed(federation, member->client));
            (*missed)++;
        }
    }
    return TERN_OK;
}

// Whether the round may end without the member's update even if no other client replaces it.
static bool is_given_up(const struct tern_federation *federation, const struct tern_member *member)
{
    return tern_reliability_is_given_up(federation, member) ||
           tern_reliability_has_failed(federation, member) || does_not_scale(federation, member) ||
           lacks_anchor(federation, member);
}

// Whether the round has the member's update, or still expects it.
static bool is_counted_on(const struct tern_federation *federation,
                          const struct tern_member *member, uint64_t now)
{
    const struct client *client = client_of(federation, member->client);
    const bool awaited =
        member->state == TERN_MEMBER_INVITED || member->state == TERN_MEMBER_TASKED;
    return member->state == TERN_MEMBER_REPORTED ||
           (awaited && !is_given_up(federation, member) &&
            !tern_is_unreliable(client->row.unreported) && !tern_clients_is_overdue(client, now));
}

// Lowers the quorum to the members that still hold the epoch's full gradient: no other client can replace the rest.
static void need_fewer(struct tern_federation *federation)
{
    struct tern_round_machine *machine = &federation->machine;
    uint32_t able = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct tern_member *member = &machine->members[i];
        able += member->state != TERN_MEMBER_REPLACED && !lacks_anchor(federation, member) &&
                (member->state == TERN_MEMBER_REPORTED ||
                 !client_of(federation, member->client)->row.revoked);
    }
    if (able > 0 && able < machine->quorum) {
        machine->quorum = able;
        federation->row.quorum = able;
    }
}

// Counts the updates that the round has or still expects.
static uint32_t count_others(const struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    uint32_t others = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        others += is_counted_on(federation, &machine->members[i], now);
    }
    return others;
}

// Lowers the quorum by the members whose training failed, if the others are at least half of the cohort: the same
// training would most likely fail again. The round still waits for clients that are away.
static void need_no_failed(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    const uint32_t members = machine->member_count;
    const uint32_t cohort = members < machine->policy.cohort ? members : machine->policy.cohort;
    const uint32_t others = count_others(federation, now);
    uint32_t failed = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        failed += tern_reliability_has_failed(federation, &machine->members[i]);
    }
    if (others < machine->quorum && others + failed >= machine->initial_quorum &&
        others >= cohort / 2 + cohort % 2) {
        tern_log(TERN_LOG_WARN, "round-needs-fewer", "round=%u quorum=%u before=%u failed=%u",
                 machine->round, others, machine->quorum, failed);
        machine->quorum = others;
        federation->row.quorum = others;
    }
}

// Ends the tasks of members whose training failed, if the other members meet the quorum.
static void drop_failed(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    need_no_failed(federation, now);
    const bool spares = count_others(federation, now) >= machine->quorum;
    for (uint32_t i = 0; i < machine->member_count && spares; i++) {
        if (tern_reliability_has_failed(federation, &machine->members[i])) {
            tern_round_drop_member(&machine->members[i]);
        }
    }
}

// Lowers the wanted number of updates to those still expected, if some members are given up and the others meet the
// quorum. A round that buffers keeps its number, since late updates of earlier rounds count as well.
static enum tern_result want_fewer(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    const uint32_t others = count_others(federation, now);
    uint32_t given_up = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        given_up += is_given_up(federation, &machine->members[i]);
    }
    if (federation->epoch.step > 0) {
        need_fewer(federation);
    }
    if (given_up == 0 || machine->takes_late_updates || !tern_round_lower_target(machine, others)) {
        return TERN_OK;
    }
    federation->row.target = machine->target;
    tern_log(TERN_LOG_WARN, "round-wants-fewer", "round=%u wanted=%u given_up=%u", machine->round,
             machine->target, given_up);
    return tern_db_round_put(federation->db, &federation->row);
}

// Invites others in place of members that are not expected to report, before the deadline. While no client can replace
// a revoked member, the next transaction checks again.
static enum tern_result replace_gone(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    uint32_t missed = 0;
    if (!machine->open || (!federation->clients->changed && now < federation->look_ms)) {
        return TERN_OK;
    }
    federation->look_ms = next_look(federation, now);
    drop_failed(federation, now);
    const uint32_t silent = note_silent(federation, now);
    const uint32_t revoked = note_gone(federation, now);
    const uint32_t count = tern_round_count_missing(machine, was_gone, federation);
    const uint32_t fresh = count > 0 ? list_fresh(federation, count, now) : 0;
    federation->clients->changed = revoked > 0 && count > fresh;
    if (fresh == 0) {
        return want_fewer(federation, now);
    }
    TERN_TRY(tern_round_replace_members(machine, was_gone, federation,
                                        federation->clients->eligible, fresh, now));
    TERN_TRY(note_missed(federation, &missed));
    TERN_TRY(store_replacements(federation, now));
    tern_log(TERN_LOG_INFO, "members-replaced", "round=%u members=%u silent=%u overdue=%u",
             machine->round, count < fresh ? count : fresh, silent, missed);
    return want_fewer(federation, now);
}

// --- Loading after a restart, and changes by the operator or of the clock

static void load_round(struct tern_federation *federation, const struct tern_db_round *row)
{
    tern_round_restore(&federation->machine, row->round, row->target, row->quorum, row->attempts,
                       row->opened_ms, row->deadline_ms);
    tern_rate_round_opened(&federation->rate, row->decays);
    if (row->state == TERN_ROUND_COMMITTED) {
        tern_round_close(&federation->machine, row->closed_ms);
        federation->last_loss = row->mean_loss;
        tern_round_add_loss(&federation->machine, row->base_version, tern_db_round_loss(row));
        advance_schedules(federation, row);
    }
    federation->row = *row;
}

// Reports an unknown strategy or codec at the start, before updates are received for nothing. TERN_ERR_UNKNOWN
static enum tern_result check_open_round(const struct tern_db_round *row)
{
    struct tern_codec codec;
    struct tern_strategy_rule rule;
    bool known = tern_rule_read(row, &rule) == TERN_OK &&
                 tern_codec_parse(row->codec_up, &codec, NULL) == TERN_OK &&
                 tern_codec_parse(row->codec_down, &codec, NULL) == TERN_OK;
    return known ? TERN_OK : TERN_ERR_UNKNOWN;
}

// Replaces the time of a client's last check-in. For a client that never checked in, the time stays before its
// enrolment.
static void set_last_seen(struct client *client, uint64_t ms)
{
    struct tern_db_client *row = &client->row;
    if (row->last_seen_ms > row->created_ms) {
        row->last_seen_ms = ms > row->created_ms ? ms : row->created_ms + 1;
    } else {
        row->last_seen_ms = ms < row->created_ms ? ms : row->created_ms;
    }
}

// Moves times in the future back to now: the clock may have been set while the machine was off.
static void bound_clock(struct tern_federation *federation, uint64_t now)
{
    struct clients *clients = federation->clients;
    tern_round_limit_times(&federation->machine, now);
    federation->row.opened_ms = federation->machine.opened_ms;
    federation->row.deadline_ms = federation->machine.deadline_ms;
    for (uint32_t i = 0; i < clients->count; i++) {
        struct client *client = &clients->list[i];
        const uint64_t seen = client->row.last_seen_ms;
        set_last_seen(client, seen < now ? seen : now);
    }
}

// Measures a stored update of the open round as if it had just arrived.
static enum tern_result remeasure(void *ctx, const struct tern_db_update *update)
{
    struct tern_federation *federation = ctx;
    struct client *client = client_of(federation, update->client);
    struct tern_codec_info info;
    struct tern_span container;
    tern_Update message;
    if (client == NULL || update->body == NULL || update->round != federation->machine.round) {
        return TERN_OK;
    }
    TERN_TRY(tern_wire_decode_update(update->body, update->body_len, &message, &container));
    TERN_TRY(
        tern_container_inspect(&federation->merge.model, container.data, container.len, &info));
    tern_clients_record_update(client, &message, info.sum_square);
    return TERN_OK;
}

static enum tern_result load_drift(struct tern_federation *federation)
{
    return federation->machine.open ? tern_db_update_each(federation->db, federation->machine.round,
                                                          remeasure, federation)
                                    : TERN_OK;
}

static enum tern_result load_open_round(struct tern_federation *federation)
{
    struct tern_round_machine *machine = &federation->machine;
    TERN_TRY(check_open_round(&federation->row));
    if (machine->policy.fraction > 0.0 && machine->target > machine->policy.cohort) {
        machine->policy.cohort = machine->target; // the cohort that the round opened with
    }
    TERN_TRY(tern_merge_resume(&federation->merge, federation->db, &federation->row,
                               &federation->totals));
    machine->takes_late_updates = federation->totals.rule.strategy->accepts_late_updates;
    load_epoch(federation);
    TERN_TRY(tern_members_load(federation));
    tern_round_add_late_updates(machine, federation->totals.updates - machine->reported);
    return TERN_OK;
}

enum tern_result tern_rounds_load(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_policy policy = federation->config.round;
    policy.seed = federation->about.seed;
    federation->prune_due = true; // a prune may have been interrupted
    federation->room_due = true;
    tern_steps_state_init(&federation->course, &federation->config.steps);
    tern_round_init(&federation->machine, &policy, federation->machine.members,
                    federation->machine.member_capacity);
    for (uint32_t i = 0; i < federation->clients->count; i++) {
        tern_round_client_joined(&federation->machine, federation->clients->list[i].row.created_ms);
    }
    struct tern_db_round row;
    struct tern_db_rows *rows = tern_db_rounds(federation->db);
    while (tern_db_next(rows, &row)) {
        load_round(federation, &row);
    }
    TERN_TRY(tern_db_end(rows));
    tern_merge_stop(&federation->merge);
    TERN_TRY(federation->machine.open ? load_open_round(federation) : TERN_OK);
    TERN_TRY(load_drift(federation));
    bound_clock(federation, now);
    // Members could not check in while the service was down.
    federation->loaded_ms = now;
    return TERN_OK;
}

// Applies a stored deadline only if it is earlier: bound_clock() may have lowered the one in memory.
enum tern_result tern_federation_reload_round(struct tern_federation *federation)
{
    struct tern_round_machine *machine = &federation->machine;
    struct tern_db_round stored;
    if (!machine->open) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_round_get(federation->db, machine->round, &stored));
    if (stored.deadline_ms >= machine->deadline_ms) {
        return TERN_OK;
    }
    machine->deadline_ms = stored.deadline_ms;
    machine->quorum = stored.quorum;
    federation->row.deadline_ms = stored.deadline_ms;
    federation->row.quorum = stored.quorum;
    tern_log(TERN_LOG_INFO, "round-ended-by-hand", "round=%u updates=%u", machine->round,
             machine->reported);
    return TERN_OK;
}

enum tern_result tern_federation_set_clock(struct tern_federation *federation, int64_t step)
{
    struct clients *clients = federation->clients;
    tern_round_shift_times(&federation->machine, step);
    federation->row.opened_ms = federation->machine.opened_ms;
    federation->row.deadline_ms = federation->machine.deadline_ms;
    federation->row.closed_ms = tern_time_shifted_ms(federation->row.closed_ms, step);
    federation->retry_open_ms = 0;
    federation->look_ms = 0;
    federation->loaded_ms = tern_time_shifted_ms(federation->loaded_ms, step);
    for (uint32_t i = 0; i < clients->count; i++) {
        struct client *client = &clients->list[i];
        set_last_seen(client, tern_time_shifted_ms(client->row.last_seen_ms, step));
        client->absent_ms = tern_time_shifted_ms(client->absent_ms, step);
        client->dirty = true;
    }
    TERN_TRY(tern_db_replicas_set_clock(federation->db, step));
    TERN_TRY(tern_statistics_set_clock(federation, step));
    if (federation->machine.round == 0) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_round_put(federation->db, &federation->row));
    return federation->machine.open ? tern_members_store_all(federation) : TERN_OK;
}

// --- Advancing

bool tern_federation_allows_next_round(const struct tern_federation *federation)
{
    return federation->config.upstream_client == 0 ||
           federation->machine.round < federation->last_opened;
}

static bool may_open(const struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    return !machine->open && !tern_round_finished(machine) &&
           tern_federation_allows_next_round(federation) &&
           tern_round_earliest_open_ms(machine) <= now;
}

static enum tern_result step(struct tern_federation *federation, uint64_t now)
{
    TERN_TRY(replace_gone(federation, now));
    switch (tern_round_tick(&federation->machine, now)) {
    case TERN_ROUND_CLOSE:
        decide_to_close(federation);
        break;
    case TERN_ROUND_EXTEND:
        return extend_round(federation, now);
    case TERN_ROUND_NOTHING:
        break;
    }
    return TERN_OK;
}

enum tern_result tern_federation_advance(struct tern_federation *federation, uint64_t now)
{
    TERN_TRY(prune_some(federation));
    TERN_TRY(continue_checkpoint(federation));
    if (!tern_federation_is_merging(federation) && !federation->checkpoint_due) {
        TERN_TRY(step(federation, now));
    }
    TERN_TRY(commit_merge(federation, now));
    if (tern_federation_is_merging(federation)) {
        return TERN_OK;
    }
    if (may_open(federation, now)) {
        TERN_TRY(open_round(federation, now));
    }
    tern_indices_check_leader(federation, now);
    return TERN_OK;
}

uint64_t tern_federation_next_advance(const struct tern_federation *federation)
{
    const struct tern_round_machine *machine = &federation->machine;
    if (federation->prune_due || federation->checkpoint_due || merge_has_ended(federation)) {
        return 0;
    }
    if (tern_federation_is_merging(federation)) {
        return UINT64_MAX;
    }
    if (!machine->open && !tern_federation_allows_next_round(federation)) {
        return UINT64_MAX; // until upstream opens a round
    }
    uint64_t next = tern_round_next_tick(machine);
    if (!machine->open && next < federation->retry_open_ms) {
        next = federation->retry_open_ms;
    }
    if (machine->open && federation->look_ms < next) {
        next = federation->look_ms;
    }
    if (tern_indices_are_awaited(federation) && tern_round_leader_deadline_ms(machine) < next) {
        next = tern_round_leader_deadline_ms(machine);
    }
    return next;
}
