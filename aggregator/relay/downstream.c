// The trainer of the client above: a round below. What it does next follows from what the database below says, at
// every step anew, so that a start in the midst of anything goes on:
//
//   a round of devices is open                             it is waited for
//   the last round was of devices, and is not taken        its mean is what this task has learnt
//   the last round brought the base of this task           a round of devices may open
//   otherwise                                              a round brings that base
//
// So a round below that was begun for a task above which has passed meanwhile is not lost: the next task gets its mean,
// as late as it is.
#include "relay/internal.h"

#include "hosted/log.h"
#include "merge/merge.h"
#include "merge/stored_mean.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_MS 20 // how often what the service says is looked at

// Of the time that the aggregator above gives for the task, what devices may take.
#define WINDOW_SHARE 0.75

// --- What was last said of training

#define COURSE_FILE "course"
#define COURSE 0x32435247u // "GRC2"

struct course_file {
    uint32_t round; // below, that brings the base
    uint8_t base[TERN_SHA256_SIZE];
    struct tern_federation_course course;
};

static enum tern_result read_course(const char *folder, struct course_file *file)
{
    return tern_relay_file_read(folder, COURSE_FILE, COURSE, file, sizeof *file);
}

enum tern_result tern_relay_course(const char *folder, struct tern_federation_course *course)
{
    struct course_file file;
    TERN_TRY(read_course(folder, &file));
    *course = file.course;
    return TERN_OK;
}

static struct tern_federation_course course_of(const struct relay_below *below)
{
    const struct tern_train_task *task = &below->task;
    return (struct tern_federation_course){
        .local_steps = task->local_steps,
        .batch_size = task->batch_size,
        .learning_rate = task->learning_rate,
        .momentum = task->momentum,
        .weight_decay = task->weight_decay,
        .prox_mu = task->prox_mu,
        .window_ms = (uint32_t)(WINDOW_SHARE * (double)below->client->task.window_ms),
    };
}

static enum tern_result write_course(const struct relay_below *below, uint32_t round)
{
    struct course_file file;
    memset(&file, 0, sizeof file); // also what lies between its members
    file.round = round;
    memcpy(file.base, below->base_sha256, TERN_SHA256_SIZE);
    file.course = course_of(below);
    return tern_relay_file_write(below->folder, COURSE_FILE, COURSE, &file, sizeof file);
}

// --- What the rounds below are

// Whether a round was the follower's: then it has an update of its.
static enum tern_result is_followers(struct tern_db *db, uint32_t round, bool *follows)
{
    struct tern_db_update update;
    const enum tern_result found = tern_db_update_find(db, round, TERN_RELAY_FOLLOWER, &update);
    *follows = found == TERN_OK;
    return tern_db_may_miss(found);
}

enum tern_result tern_relay_newest(struct tern_db *db, uint32_t *round)
{
    struct tern_db_round row;
    const enum tern_result found = tern_db_round_last(db, &row);
    *round = found != TERN_OK ? 0 : row.state == TERN_ROUND_COMMITTED ? row.round : row.round - 1;
    return tern_db_may_miss(found);
}

static enum tern_result look(struct relay_below *below, uint32_t round, bool *follows)
{
    if (below->known != round) {
        TERN_TRY(is_followers(below->db, round, &below->known_follows));
        below->known = round;
    }
    *follows = below->known_follows;
    return TERN_OK;
}

// --- What is done there

struct order {
    const struct relay_below *below;
    struct tern_federation_course course;
    uint32_t round; // that may open
    struct tern_refusal refusal;
};

static enum tern_result follow(struct tern_federation *federation, uint64_t now_ms, void *ctx)
{
    struct order *order = ctx;
    const struct relay_below *below = order->below;
    tern_federation_set_course(federation, &order->course);
    return tern_federation_set_model(federation, TERN_RELAY_FOLLOWER, below->base,
                                     below->model->count, now_ms, &order->refusal);
}

static enum tern_result let_open(struct tern_federation *federation, uint64_t now_ms, void *ctx)
{
    struct order *order = ctx;
    (void)now_ms;
    tern_federation_set_course(federation, &order->course);
    tern_federation_let_open(federation, order->round);
    return TERN_OK;
}

static enum tern_result end(struct tern_federation *federation, uint64_t now_ms, void *ctx)
{
    bool *ended = ctx;
    (void)now_ms;
    *ended = tern_federation_end(federation);
    return TERN_OK;
}

enum tern_result tern_relay_end_downstream(struct relay_below *below)
{
    bool ended = false;
    TERN_TRY(tern_service_run_work(below->service, end, &ended));
    return ended ? TERN_OK : TERN_ERR_BUSY;
}

static enum tern_result wait_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
    return TERN_AGAIN;
}

// What may pass is waited for.
static enum tern_result done(enum tern_result result)
{
    return result == TERN_OK || result == TERN_ERR_BUSY ? wait_a_little() : result;
}

static enum tern_result bring_base(struct relay_below *below, uint32_t round)
{
    struct order order = {.below = below, .course = course_of(below)};
    TERN_TRY(write_course(below, round));
    const enum tern_result result = tern_service_run_work(below->service, follow, &order);
    if (result == TERN_OK && order.refusal.result != TERN_OK &&
        order.refusal.result != TERN_ERR_BUSY) {
        tern_log(TERN_LOG_ERROR, "model-not-followed", "error=%s",
                 tern_result_name(order.refusal.result));
        return order.refusal.result;
    }
    return done(result);
}

static enum tern_result open_next(struct relay_below *below, uint32_t round)
{
    struct order order = {.below = below, .course = course_of(below), .round = round};
    if (below->told == round) {
        return wait_a_little(); // for devices
    }
    const enum tern_result result = tern_service_run_work(below->service, let_open, &order);
    if (result == TERN_OK) {
        tern_log(TERN_LOG_INFO, "gateway-round", "round_above=%u round=%u", below->task.round,
                 round);
        below->told = round;
    }
    return done(result);
}

// --- What a round of devices has learnt

static uint32_t mean_steps(const struct tern_strategy_totals *totals, uint32_t most)
{
    const double mean = (double)totals->example_steps / (double)totals->num_examples;
    const double steps = floor(mean + 0.5);
    return steps < 1.0 ? 1 : steps > (double)most ? most : (uint32_t)steps;
}

static enum tern_result take_mean(struct relay_below *below, uint32_t round,
                                  struct tern_train_result *result)
{
    struct tern_db_round row;
    struct tern_strategy_totals totals;
    struct tern_update_bounds bounds = {0};
    TERN_TRY(tern_db_round_get(below->db, round, &row));
    enum tern_result made = tern_merge_count(below->db, &row, &totals, &bounds);
    if (made == TERN_OK) {
        made = tern_update_bounds_claims(&bounds, &totals);
    }
    if (made == TERN_OK) {
        made = tern_stored_mean(below->model, below->db, &row, &totals, TERN_MERGE_MEMORY, &bounds,
                                below->mean);
    }
    tern_update_bounds_clear(&bounds);
    TERN_TRY(made);
    result->num_examples =
        totals.num_examples < UINT32_MAX ? (uint32_t)totals.num_examples : UINT32_MAX;
    result->local_steps = mean_steps(&totals, below->task.local_steps);
    result->loss = row.mean_loss;
    result->is_change = true;
    return TERN_OK;
}

// --- The port

static enum tern_result begin(void *ctx, const struct tern_train_task *task, const float *base,
                              uint32_t count)
{
    struct relay_below *below = ctx;
    if (count != below->model->count) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    below->task = *task;
    below->base = base;
    below->told = 0;
    tern_merge_hash(base, count, below->base_sha256);
    return TERN_OK;
}

// Whether that round brought the base of this task.
static bool has_base(const struct relay_below *below, uint32_t round)
{
    struct course_file file;
    return read_course(below->folder, &file) == TERN_OK && file.round == round &&
           memcmp(file.base, below->base_sha256, TERN_SHA256_SIZE) == 0;
}

static enum tern_result step(void *ctx, float **weights, struct tern_train_result *result)
{
    struct relay_below *below = ctx;
    struct tern_service_facts facts;
    tern_service_facts(below->service, &facts);
    const uint32_t last = facts.federation.machine.round;
    bool follows = true; // before the first round
    if (facts.federation.machine.open || facts.federation.merging) {
        return wait_a_little();
    }
    if (last > 0) {
        TERN_TRY(look(below, last, &follows));
    }
    if (!follows && last > below->records->taken) {
        TERN_TRY(take_mean(below, last, result));
        below->records->taking = last;
        *weights = below->mean;
        return TERN_OK;
    }
    return last > 0 && follows && has_base(below, last) ? open_next(below, last + 1)
                                                        : bring_base(below, last + 1);
}

static enum tern_result evaluate(void *ctx, const float *weights, uint32_t count,
                                 struct tern_evaluate_result *result)
{
    (void)ctx;
    (void)weights;
    (void)count;
    (void)result;
    return TERN_ERR_NOT_FOUND;
}

struct tern_trainer tern_relay_downstream_port(struct relay_below *below)
{
    return (struct tern_trainer){.ctx = below, .begin = begin, .step = step, .evaluate = evaluate};
}
