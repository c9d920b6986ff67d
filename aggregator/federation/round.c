// A round closes in three steps. Once the decision to close is made, no more updates count. After the commit of that
// transaction, a thread of its own merges the updates, while requests are served. One later transaction stores the result
// and closes the round. Nothing is written before it: after a kill the round is open with the same updates, and is decided
// to close again.
//
// A start makes the newest version from the last checkpoint and the updates since.
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
    CLOSING_DECIDED, // in the present transaction
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
    uint64_t request;        // the request in the log when the round was decided to close
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

// The next round begins an epoch.
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

// Plans the next round from the last one's row: of round k of an epoch, counted from 0, the first one is k rounds before,
// so a row defines its place by its epoch_step alone, after a restart too.
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

// Writes the strategy into the row of the opening round, which has its learning rate, and resets the totals.
// previous: the name of the last round's strategy, or "".
static void open_strategy(struct tern_federation *federation, const char *previous)
{
    struct tern_strategy_rule rule;
    tern_strategy_rule_of(&federation->config, federation->row.learning_rate, &rule);
    if (federation->epoch.is_on) {
        rule.parameters[TERN_STRATEGY_EPOCH_STEPS] = (float)federation->epoch.steps;
        rule.parameters[TERN_STRATEGY_EPOCH_STEP] = (float)federation->epoch.step;
    }
    tern_rule_write(&rule, &federation->row);
    tern_strategy_count_none(&federation->totals, &rule);
    tern_merge_open(&federation->merge, &rule);
    federation->machine.buffers = rule.strategy->takes_late;
    bool changed = previous[0] != '\0' && strcmp(previous, rule.strategy->name) != 0;
    if (changed) {
        bool states = carries(rule.strategy) || carries(tern_strategy_find(previous));
        tern_log(TERN_LOG_WARN, "strategy-changed", "round=%u from=%s to=%s%s",
                 federation->row.round, previous, rule.strategy->name,
                 states ? " state=starts-anew" : "");
    }
}

// Warns when the round closes with fewer updates than its strategy needs: there are no more clients, or the operator
// ended it.
static void note_few_updates(const struct tern_federation *federation)
{
    const struct tern_strategy_totals *totals = &federation->totals;
    const struct tern_strategy *strategy = totals->rule.strategy;
    if (!tern_strategy_suffices(&totals->rule, totals->updates)) {
        tern_log(TERN_LOG_WARN, "too-few-for-strategy",
                 "round=%u strategy=%s updates=%u needed=%u attackers=%g", federation->row.round,
                 strategy->name, totals->updates,
                 strategy->least_updates(&totals->rule, totals->updates),
                 (double)totals->rule.parameters[TERN_STRATEGY_ATTACKERS]);
    }
}

// --- History: checkpoints of the model, and updates of committed rounds for replays

// Versions from one checkpoint to the next, at most: a start merges that many rounds again.
#define CHECKPOINT_VERSIONS 16

// A checkpoint is due, too, when the updates since the last one have this part of the weights' and the replica's bytes,
// since merging again would take long: 4 MiB of updates take 0.3 s. Where each round has about as many bytes, checkpoints
// are still most of what is written. A small checkpoint does not wait for 4 MiB.
#define CHECKPOINT_SHARE 4
#define CHECKPOINT_UPDATE_BYTES (UINT64_C(4) << 20)
#define CHECKPOINT_SMALL 65536u

// Bytes of a checkpoint that one transaction writes: some 40 ms with the move from SQLite's log to its place. The next
// round is merged once the checkpoint is whole.
#define PIECE_BYTES (UINT64_C(8) << 20)

// Bytes that one transaction drops: 16 MiB take some 20 ms.
#define DROP_BYTES (UINT64_C(16) << 20)

// On a disk that is low by this share (tern_disk_is_low()), the service drops half of the updates that are kept for
// replays, drops some downloads and replicas with each version, and stores the model as soon as that frees more than it
// takes.
#define LOW_SHARE 8

// The rows of this many newest rounds always stay: for a late update they hold its task, and so how fast its client is.
#define LATE_ROUNDS 16

// Returns the bytes of updates after which a checkpoint of `whole` bytes is due.
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
                            federation->disk_room > whole; // until the last one is dropped
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

// Begins to store a new version as the checkpoint, if one is due.
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

// Limits the bytes of kept updates, given the bytes received until now; 0 = no limit.
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
    federation->prune_due = true; // rows that the verb prune left may remain
    TERN_TRY(received_bytes(federation, &received));
    TERN_TRY(most_kept(federation, received, &most));
    if (most == 0 || received <= most) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_prune_goal(federation->db, received - most, &last));
    if (federation->config.follower != 0 && last >= federation->machine.round) {
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

// Returns how many newest rounds can still count late updates. Reads the newest round's row: when no round is open, the
// totals may have no strategy.
static uint32_t late_rounds(const struct tern_federation *federation)
{
    struct tern_strategy_rule rule;
    const bool late =
        tern_rule_read(&federation->row, &rule) == TERN_OK && rule.strategy->takes_late;
    const uint32_t counts = late ? (uint32_t)rule.parameters[TERN_STRATEGY_STALENESS_MAX] + 1 : 0;
    return counts > LATE_ROUNDS ? counts : LATE_ROUNDS;
}

// Runs once after a start, and after a failed transaction, which may have failed for a full disk: the next version may
// have no room before something is dropped.
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

// Drops some updates and rows, as many as delay no request for long.
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
        tern_strategy_examples(&federation->totals, bound->contribution.num_examples);
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

// Counts the updates that the merge scaled down, per client and in federation->row. Logs a client's 1st, 2nd, 4th, ...
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

// --- How far the updates of a round are apart, and their loss

// Returns the norm of the mean of the round's updates, before the strategy's own step (momentum, say).
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

// Sets the median loss of the members that reported; of an even number, the lower of the middle two. Each client has
// one vote, whatever number of examples it claims. 0 when every update was a late one of another round.
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

// Sums in client order, so that the bits do not depend on the order of arrival. Each update counts as the mean takes it:
// scaled for its local steps, weighted by its examples.
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
        tern_round_variance(square, norm_of_mean(totals->rule.strategy, report), report->updates);
}

static enum tern_result measure_drift(struct tern_federation *federation,
                                      const struct tern_strategy_report *report)
{
    measure_variance(federation, report);
    return measure_loss(federation);
}

// --- Merging

// Adds the parts that other nodes have summed, and updates stored before a restart.
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

enum tern_result tern_federation_merge_init(struct tern_federation *federation, char why[256])
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

void tern_federation_merge_free(struct tern_federation *federation)
{
    if (federation->closing != NULL) {
        job_join(&federation->closing->job);
        tern_db_close(federation->closing->reader);
        free(federation->closing);
    }
}

void tern_federation_merge_cancel(struct tern_federation *federation)
{
    if (federation->closing != NULL) {
        job_join(&federation->closing->job);
        federation->closing->step = CLOSING_NOTHING;
    }
}

// The open round has its updates: tern_federation_is_merging() holds from here on.
static void decide_to_close(struct tern_federation *federation)
{
    struct closing *closing = federation->closing;
    closing->row = federation->row;
    closing->totals = federation->totals;
    closing->step = CLOSING_DECIDED;
    closing->request = tern_log_request();
}

// If no thread can start, the next tern_federation_advance() reports TERN_ERR_NO_MEMORY.
void tern_federation_merge_start(struct tern_federation *federation)
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

// Whether a merge has ended, well or with a failure, and waits to be stored.
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

// Advances what schedules derive from committed rounds.
static void advance_schedules(struct tern_federation *federation, const struct tern_db_round *row)
{
    tern_steps_course_add(&federation->course, &federation->config.steps, row->median_loss);
    tern_rate_committed(&federation->rate);
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

// Ends the federation when its rounds no longer learn: they would cost clients bytes for nothing.
static void check_for_end(struct tern_federation *federation, const struct tern_db_round *row)
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

// An accepted update can always be merged (strategies/bounds.h). If one cannot, the stored bytes are not what was
// accepted, and the federation halts rather than leave out an acknowledged update.
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
    if (!federation->machine.buffers) { // else updates that come later count as well
        TERN_TRY(tern_reliability_round_ended(federation, now));
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
    tern_refusals_draw_ended(federation, true);
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
    // The line of the round names the request that completed it, not one that came during the merge.
    const uint64_t request = tern_log_request();
    tern_log_set_request(closing->request);
    const enum tern_result result = store(federation, &closing->next, now);
    tern_log_set_request(request);
    return result;
}

// --- Opening

// An invited client may be late by this part of the deadline.
#define PATIENCE_SHARE 4 // the deadline divided by this

static uint64_t patience_ms(const struct tern_federation *federation)
{
    return federation->config.round.deadline_ms / PATIENCE_SHARE;
}

// With nobody eligible, or too few clients, only time or a new client helps.
#define RETRY_OPEN_MS 1000

// Returns when to check next for silent members: as often as a newly enrolled client may take to come.
static uint64_t next_look(const struct tern_federation *federation, uint64_t now)
{
    const uint64_t patience = patience_ms(federation);
    const uint64_t soon = tern_selection_newcomer_ms(federation->config.round.come_back_min_ms);
    return now + (soon < patience ? soon : patience);
}

// The averaged model begins as the mean of the versions since it was configured.
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

// Writes what the round trains and merges with into its row: a later change of the configuration does not affect it.
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
    tern_rate_opened(&federation->rate, row->decays);
    open_strategy(federation, previous);
}

// Returns how many clients to invite where `count` are eligible: with round.fraction at most what the strategy can merge.
static uint32_t cohort_of(const struct tern_federation *federation, uint32_t count)
{
    const struct tern_federation_config *config = &federation->config;
    uint32_t most = tern_strategy_cohort_max(config, federation->merge.model.count);
    uint32_t cohort = tern_cohort_target(config->round.cohort, config->round.fraction, count);
    return cohort > most && most >= config->round.cohort ? most : cohort;
}

// Lists the clients to select from in clients->eligible. Absent clients are among them only where the quorum could not be
// met without.
static uint32_t list_for_selection(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_policy *policy = &federation->machine.policy;
    const uint32_t eligible = tern_clients_list_eligible(federation, now);
    policy->cohort = cohort_of(federation, eligible);
    const uint32_t quorum = tern_round_quorum(policy);
    const uint32_t present = tern_clients_list_present(federation, now);
    return present >= (quorum < eligible ? quorum : eligible)
               ? present
               : tern_clients_list_eligible(federation, now);
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
    const uint32_t count = tern_clients_list_eligible(federation, now);
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

// Invites some unreliable clients as well; the round does not wait for them. A later time of invitation keeps them from leading the
// round.
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

// Waits for as many updates as the new round has reliable members, and at least for the quorum. Unreliable members were
// selected only of necessity: each counts as late until it reports.
static void want_no_unreliable(struct tern_federation *federation)
{
    struct tern_round_machine *machine = &federation->machine;
    uint32_t reliable = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        const struct client *client = client_of(federation, machine->members[i].client);
        reliable += !tern_is_unreliable(client->row.unreported);
    }
    if (reliable < machine->member_count && !machine->buffers &&
        tern_round_want(machine, reliable)) {
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

// Selects for the current epoch. If no client is left that can continue it, the next one begins from the model as it is.
static uint32_t select_for_epoch(struct tern_federation *federation, uint64_t now)
{
    plan_epoch(federation);
    const uint32_t count = select_members(federation, now);
    if (count > 0 || federation->epoch.step == 0 ||
        tern_clients_list_drawable(federation, now) > 0) {
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
                 tern_clients_has_come(federation, client, now);
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
        TERN_TRY(tern_statistics_settle(federation, now, &settled));
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
    return tern_federation_store_opened(federation, now);
}

enum tern_result tern_federation_store_opened(struct tern_federation *federation, uint64_t now)
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

// --- Replacing members, and extending

// Lists clients that are not members yet, ascending, for `need` places: present ones before absent ones, and unreliable
// ones only where there are no others.
static uint32_t list_fresh(struct tern_federation *federation, uint32_t need, uint64_t now)
{
    uint32_t fresh = keep_fresh(federation, tern_clients_list_present(federation, now));
    if (fresh == 0) {
        fresh = keep_fresh(federation, tern_clients_list_eligible(federation, now));
    }
    if (fresh == 0) {
        fresh = keep_fresh(federation, tern_clients_list_drawable(federation, now));
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

// Logs the members that the round has waited for until its deadline, as many as fit.
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

// Whether the member was invited, has not come since, and is late. Time before the service started does not count.
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
           !tern_clients_has_come(federation, client, now);
}

// Marks silent members as absent, so that none is selected again before it has come. Returns how many there are.
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

// Begins a new epoch in the open round, instead of continuing one whose clients do not come, where others could take part. The
// round has no update yet; what a member still sends for its earlier task is refused. Returns how many are selected anew.
static uint32_t begin_epoch_anew(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    struct tern_db_round *row = &federation->row;
    const struct epoch before = federation->epoch;
    if (before.step == 0 || machine->reported > 0) {
        return 0;
    }
    const uint32_t hold_it = tern_clients_list_drawable(federation, now);
    begin_epoch(federation);
    if (tern_clients_list_drawable(federation, now) <= hold_it) {
        federation->epoch = before;
        return 0;
    }
    for (uint32_t i = 0; i < machine->member_count; i++) {
        tern_round_untasked(&machine->members[i]);
    }
    tern_codec_format(epoch_codec(federation), row->codec_up);
    row->learning_rate = learning_rate_of(federation, row->decays);
    open_strategy(federation, row->strategy);
    log_early_end(&before, row->round);
    machine->policy.cohort = cohort_of(federation, tern_clients_list_drawable(federation, now));
    const uint32_t members = tern_round_gone(machine, NULL, NULL);
    const uint32_t fresh = list_fresh(federation, members, now);
    tern_round_want_anew(machine, members + fresh);
    row->target = machine->target;
    row->quorum = machine->quorum;
    return fresh;
}

// At the deadline of a round that continues an epoch, no other client can replace a silent one: the round is committed
// with the updates that it has.
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
    tern_log_set_request(0); // a deadline passes by itself
    note_silent(federation, now);
    TERN_TRY(tern_reliability_round_ended(federation, now));
    uint32_t fresh = list_fresh(federation, tern_round_gone(machine, NULL, NULL), now);
    log_silent(machine);
    if (fresh == 0 && ends_with_what_came(federation)) {
        decide_to_close(federation);
        return tern_db_round_put(federation->db, &federation->row);
    }
    fresh = fresh > 0 ? fresh : begin_epoch_anew(federation, now);
    TERN_TRY(tern_round_extend(machine, federation->clients->eligible, fresh, now));
    TERN_TRY(store_replacements(federation, now));
    tern_refusals_draw_ended(federation, false);
    tern_log(TERN_LOG_WARN, "round-extended", "round=%u updates=%u quorum=%u invited=%u",
             machine->round, machine->reported, machine->quorum, machine->member_count);
    return TERN_OK;
}

// A client without the federation's scaling of columns gets no task.
static bool does_not_scale(const struct tern_federation *federation,
                           const struct tern_member *member)
{
    return member->state == TERN_MEMBER_INVITED &&
           tern_clients_lacks_scaling(client_of(federation, member->client));
}

// A client that no longer holds what the round builds on gets no task either.
static bool lacks_anchor(const struct tern_federation *federation, const struct tern_member *member)
{
    return (member->state == TERN_MEMBER_INVITED || member->state == TERN_MEMBER_TASKED) &&
           !tern_epoch_admits(federation, &client_of(federation, member->client)->row);
}

// A revoked member never reports. A member that does not come for its task, does not scale its columns, or has had its
// task for several times as long as the others took, most likely will not.
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

// Marks the members that are gone. Returns how many awaited ones are revoked.
static uint32_t note_gone(struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    struct tern_pace pace;
    uint32_t revoked = 0;
    tern_reliability_pace(federation, &pace);
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
            TERN_TRY(tern_tries_are_over(member->tries) ||
                             client->row.failed_round == machine->round
                         ? TERN_OK // counted when it fetched the task again or failed
                         : tern_reliability_missed(federation, member->client));
            (*missed)++;
        }
    }
    return TERN_OK;
}

// Whether the round may end without the member's update, though nobody takes its place.
static bool is_given_up(const struct tern_federation *federation, const struct tern_member *member)
{
    return tern_reliability_is_given_up(federation, member) ||
           tern_reliability_has_failed(federation, member) || does_not_scale(federation, member) ||
           lacks_anchor(federation, member);
}

// Whether the round still counts on the member's update, or has it.
static bool is_counted_on(const struct tern_federation *federation,
                          const struct tern_member *member, uint64_t now)
{
    const struct client *client = client_of(federation, member->client);
    const bool awaited =
        member->state == TERN_MEMBER_INVITED || member->state == TERN_MEMBER_TASKED;
    return member->state == TERN_MEMBER_REPORTED ||
           (awaited && !is_given_up(federation, member) &&
            !tern_is_unreliable(client->row.unreported) && !tern_clients_is_absent(client, now));
}

// Where members lost what the round builds on and nobody can replace them, lowers the quorum to the others.
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

// Counts the updates that the round has or still counts on.
static uint32_t count_others(const struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    uint32_t others = 0;
    for (uint32_t i = 0; i < machine->member_count; i++) {
        others += is_counted_on(federation, &machine->members[i], now);
    }
    return others;
}

// Lowers the quorum by the members whose training failed, where the others are half of the cohort: only luck or a new
// setting would make the failed ones report. The round still waits for clients that are away.
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
    if (others < machine->quorum && others + failed >= machine->quorum_first &&
        others >= cohort / 2 + cohort % 2) {
        tern_log(TERN_LOG_WARN, "round-needs-fewer", "round=%u quorum=%u before=%u failed=%u",
                 machine->round, others, machine->quorum, failed);
        machine->quorum = others;
        federation->row.quorum = others;
    }
}

// Ends the tasks of members whose training failed, where the round can do without them.
static void drop_failed(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_machine *machine = &federation->machine;
    need_no_failed(federation, now);
    const bool spares = count_others(federation, now) >= machine->quorum;
    for (uint32_t i = 0; i < machine->member_count && spares; i++) {
        if (tern_reliability_has_failed(federation, &machine->members[i])) {
            tern_round_drop(&machine->members[i]);
        }
    }
}

// A round that gives members up waits for the others alone, where they meet its quorum. A round that buffers has updates
// of earlier rounds' members, too.
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
    if (given_up == 0 || machine->buffers || !tern_round_want(machine, others)) {
        return TERN_OK;
    }
    federation->row.target = machine->target;
    tern_log(TERN_LOG_WARN, "round-wants-fewer", "round=%u wanted=%u given_up=%u", machine->round,
             machine->target, given_up);
    return tern_db_round_put(federation->db, &federation->row);
}

// Invites others in place of members that are gone, without waiting for the deadline. While nobody can replace a revoked
// one, the next batch checks again.
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
    const uint32_t count = tern_round_gone(machine, was_gone, federation);
    const uint32_t fresh = count > 0 ? list_fresh(federation, count, now) : 0;
    federation->clients->changed = revoked > 0 && count > fresh;
    if (fresh == 0) {
        return want_fewer(federation, now);
    }
    TERN_TRY(tern_round_replace(machine, was_gone, federation, federation->clients->eligible, fresh,
                                now));
    TERN_TRY(note_missed(federation, &missed));
    TERN_TRY(store_replacements(federation, now));
    tern_log(TERN_LOG_INFO, "members-replaced", "round=%u members=%u silent=%u overdue=%u",
             machine->round, count < fresh ? count : fresh, silent, missed);
    return want_fewer(federation, now);
}

// --- After a restart, or a change by hand

static void load_round(struct tern_federation *federation, const struct tern_db_round *row)
{
    tern_round_restore(&federation->machine, row->round, row->target, row->quorum, row->attempts,
                       row->opened_ms, row->deadline_ms);
    tern_rate_opened(&federation->rate, row->decays);
    if (row->state == TERN_ROUND_COMMITTED) {
        tern_round_close(&federation->machine, row->closed_ms);
        federation->last_loss = row->mean_loss;
        tern_round_learnt(&federation->machine, row->base_version, tern_db_round_loss(row));
        advance_schedules(federation, row);
    }
    federation->row = *row;
}

// Finds an unknown strategy or codec at the start rather than at the commit. TERN_ERR_UNKNOWN
static enum tern_result check_open_round(const struct tern_db_round *row)
{
    struct tern_codec codec;
    struct tern_strategy_rule rule;
    bool known = tern_rule_read(row, &rule) == TERN_OK &&
                 tern_codec_parse(row->codec_up, &codec, NULL) == TERN_OK &&
                 tern_codec_parse(row->codec_down, &codec, NULL) == TERN_OK;
    return known ? TERN_OK : TERN_ERR_UNKNOWN;
}

// Replaces the time of a client's last check-in. A client that never came stays one.
static void set_last_seen(struct client *client, uint64_t ms)
{
    struct tern_db_client *row = &client->row;
    if (row->last_seen_ms > row->created_ms) {
        row->last_seen_ms = ms > row->created_ms ? ms : row->created_ms + 1;
    } else {
        row->last_seen_ms = ms < row->created_ms ? ms : row->created_ms;
    }
}

// Moves times that lie in the future back to now: the clock may have been set while the machine was off.
static void bound_clock(struct tern_federation *federation, uint64_t now)
{
    struct clients *clients = federation->clients;
    tern_round_bound_clock(&federation->machine, now);
    federation->row.opened_ms = federation->machine.opened_ms;
    federation->row.deadline_ms = federation->machine.deadline_ms;
    for (uint32_t i = 0; i < clients->count; i++) {
        struct client *client = &clients->list[i];
        const uint64_t seen = client->row.last_seen_ms;
        set_last_seen(client, seen < now ? seen : now);
    }
}

// Measures a stored update as if it had just arrived. Its values are read later (tern_merge_resume()), where a node's part
// may cover them.
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
    tern_drift_add(client, &message, info.sum_square);
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
        machine->policy.cohort = machine->target; // the share that it began with
    }
    TERN_TRY(tern_merge_resume(&federation->merge, federation->db, &federation->row,
                               &federation->totals));
    machine->buffers = federation->totals.rule.strategy->takes_late;
    load_epoch(federation);
    TERN_TRY(tern_members_load(federation));
    tern_round_buffered(machine, federation->totals.updates - machine->reported);
    return TERN_OK;
}

enum tern_result tern_federation_restore_rounds(struct tern_federation *federation, uint64_t now)
{
    struct tern_round_policy policy = federation->config.round;
    policy.seed = federation->about.seed;
    federation->prune_due = true; // a prune may have been interrupted
    federation->room_due = true;
    tern_steps_course_init(&federation->course, &federation->config.steps);
    tern_round_init(&federation->machine, &policy, federation->machine.members,
                    federation->machine.member_capacity);
    for (uint32_t i = 0; i < federation->clients->count; i++) {
        tern_round_joined(&federation->machine, federation->clients->list[i].row.created_ms);
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
    // Members cannot have come while the service was down.
    federation->loaded_ms = now;
    return TERN_OK;
}

// Takes an earlier deadline only: the one in memory may have been bounded since it was stored.
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
    tern_round_set_clock(&federation->machine, step);
    federation->row.opened_ms = federation->machine.opened_ms;
    federation->row.deadline_ms = federation->machine.deadline_ms;
    federation->row.closed_ms = tern_round_moved_ms(federation->row.closed_ms, step);
    federation->retry_open_ms = 0;
    federation->look_ms = 0;
    federation->loaded_ms = tern_round_moved_ms(federation->loaded_ms, step);
    for (uint32_t i = 0; i < clients->count; i++) {
        struct client *client = &clients->list[i];
        set_last_seen(client, tern_round_moved_ms(client->row.last_seen_ms, step));
        client->absent_ms = tern_round_moved_ms(client->absent_ms, step);
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

bool tern_federation_may_open(const struct tern_federation *federation)
{
    return federation->config.follower == 0 || federation->machine.round < federation->last_opened;
}

static bool may_open(const struct tern_federation *federation, uint64_t now)
{
    const struct tern_round_machine *machine = &federation->machine;
    return !machine->open && !tern_round_finished(machine) &&
           tern_federation_may_open(federation) && tern_round_may_open_ms(machine) <= now;
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
    tern_share_watch(federation, now);
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
    if (!machine->open && !tern_federation_may_open(federation)) {
        return UINT64_MAX; // until upstream opens a round
    }
    uint64_t next = tern_round_next_tick(machine);
    if (!machine->open && next < federation->retry_open_ms) {
        next = federation->retry_open_ms;
    }
    if (machine->open && federation->look_ms < next) {
        next = federation->look_ms;
    }
    if (tern_share_is_awaited(federation) && tern_round_leader_until_ms(machine) < next) {
        next = tern_round_leader_until_ms(machine);
    }
    return next;
}
