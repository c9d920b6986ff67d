// The trainer of the upstream client: a downstream round. Each step derives what to do from the downstream database, so that
// a restart at any moment continues:
//
//   a round of devices is open                              wait for it
//   the last round was of devices, and is not taken         its mean is the result of this task, unless the task resets the
//                                                           error buffer and the round had another base
//   the last round brought the base of this task            a round of devices may open
//   otherwise                                               a round brings that base
//
// So a downstream round for an upstream task that is over is not lost: the next task gets its mean.
#include "relay/internal.h"

#include "hosted/log.h"
#include "merge/merge.h"
#include "merge/stored_mean.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POLL_MS 20 // interval between two reads of the service's facts

// Fraction of the upstream task's time that devices may take.
#define WINDOW_SHARE 0.75

// --- Training parameters of the last upstream task

#define TRAINING_FILE "course"
#define TRAINING 0x33435247u // "GRC3"

struct training_file {
    uint32_t round; // number of the downstream round that sets the model to the base
    uint8_t base[TERN_SHA256_SIZE];
    struct tern_upstream_training training;
};

static enum tern_result read_training(const char *folder, struct training_file *file)
{
    return tern_relay_file_read(folder, TRAINING_FILE, TRAINING, file, sizeof *file);
}

enum tern_result tern_relay_read_training(const char *folder,
                                          struct tern_upstream_training *training)
{
    struct training_file file;
    TERN_TRY(read_training(folder, &file));
    *training = file.training;
    return TERN_OK;
}

static struct tern_upstream_training training_of(const struct relay_downstream *down)
{
    const struct tern_train_task *task = &down->task;
    return (struct tern_upstream_training){
        .local_steps = task->local_steps,
        .batch_size = task->batch_size,
        .learning_rate = task->learning_rate,
        .momentum = task->momentum,
        .weight_decay = task->weight_decay,
        .prox_mu = task->prox_mu,
        .window_ms = (uint32_t)(WINDOW_SHARE * (double)down->client->task.window_ms),
        .undone_round = down->undone_round,
    };
}

static enum tern_result write_training(const struct relay_downstream *down, uint32_t round)
{
    struct training_file file;
    memset(&file, 0, sizeof file); // zeroes the padding, too
    file.round = round;
    memcpy(file.base, down->base_sha256, TERN_SHA256_SIZE);
    file.training = training_of(down);
    return tern_relay_file_write(down->folder, TRAINING_FILE, TRAINING, &file, sizeof file);
}

// --- Downstream rounds

// Sets *is_upstream if the round brought the upstream model: the round then has an update of the upstream client.
static enum tern_result find_upstream_update(struct tern_db *db, uint32_t round, bool *is_upstream)
{
    struct tern_db_update update;
    const enum tern_result found =
        tern_db_update_find(db, round, TERN_RELAY_UPSTREAM_CLIENT, &update);
    *is_upstream = found == TERN_OK;
    return tern_db_may_miss(found);
}

enum tern_result tern_relay_newest_round(struct tern_db *db, uint32_t *round)
{
    struct tern_db_round row;
    const enum tern_result found = tern_db_round_last(db, &row);
    *round = found != TERN_OK ? 0 : row.state == TERN_ROUND_COMMITTED ? row.round : row.round - 1;
    return tern_db_may_miss(found);
}

static enum tern_result examine_round(struct relay_downstream *down, uint32_t round,
                                      bool *is_upstream)
{
    if (down->examined != round) {
        TERN_TRY(find_upstream_update(down->db, round, &down->examined_is_upstream));
        down->examined = round;
    }
    *is_upstream = down->examined_is_upstream;
    return TERN_OK;
}

// --- Orders to the service

struct service_order {
    const struct relay_downstream *down;
    struct tern_upstream_training training;
    uint32_t round; // number of the round that may open
    struct tern_refusal refusal;
};

static enum tern_result set_model(struct tern_federation *federation, uint64_t now_ms, void *ctx)
{
    struct service_order *order = ctx;
    const struct relay_downstream *down = order->down;
    tern_federation_set_training(federation, &order->training);
    return tern_federation_set_model(federation, TERN_RELAY_UPSTREAM_CLIENT, down->base,
                                     down->model->count, now_ms, &order->refusal);
}

static enum tern_result allow_round(struct tern_federation *federation, uint64_t now_ms, void *ctx)
{
    struct service_order *order = ctx;
    (void)now_ms;
    tern_federation_set_training(federation, &order->training);
    tern_federation_allow_round(federation, order->round);
    return TERN_OK;
}

static enum tern_result end_federation(struct tern_federation *federation, uint64_t now_ms,
                                       void *ctx)
{
    bool *ended = ctx;
    (void)now_ms;
    *ended = tern_federation_end(federation);
    return TERN_OK;
}

enum tern_result tern_relay_end_downstream(struct relay_downstream *down)
{
    bool ended = false;
    TERN_TRY(tern_service_run_work(down->service, end_federation, &ended));
    return ended ? TERN_OK : TERN_ERR_BUSY;
}

static enum tern_result wait_for_poll(void)
{
    nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
    return TERN_AGAIN;
}

// Waits after success and after temporary failures; returns other failures.
static enum tern_result wait_after(enum tern_result result)
{
    return result == TERN_OK || result == TERN_ERR_BUSY ? wait_for_poll() : result;
}

// Whether the upstream aggregator orders a reset of the error buffer, as after a rollback. Devices' buffers, and a mean that was
// not sent yet, hold changes of the same undone versions.
static bool is_reset(const struct relay_downstream *down)
{
    return down->client->task.error_directive == tern_ErrorDirective_ERROR_RESET;
}

// dropped: number of the devices' round whose mean is not sent; 0: none
static enum tern_result set_base(struct relay_downstream *down, uint32_t round, uint32_t dropped)
{
    if (is_reset(down) && down->undone_round != round) {
        down->undone_round = round;
        tern_log(TERN_LOG_WARN, "upstream-resets",
                 "upstream_round=%u round=%u dropped=%u why=\"devices reset error buffers from "
                 "before\"",
                 down->task.round, round, dropped);
    }
    struct service_order order = {.down = down, .training = training_of(down)};
    TERN_TRY(write_training(down, round));
    const enum tern_result result = tern_service_run_work(down->service, set_model, &order);
    if (result == TERN_OK && order.refusal.result != TERN_OK &&
        order.refusal.result != TERN_ERR_BUSY) {
        tern_log(TERN_LOG_ERROR, "model-not-followed", "error=%s",
                 tern_result_name(order.refusal.result));
        return order.refusal.result;
    }
    return wait_after(result);
}

static enum tern_result allow_next_round(struct relay_downstream *down, uint32_t round)
{
    struct service_order order = {.down = down, .training = training_of(down), .round = round};
    if (down->allowed_round == round) {
        return wait_for_poll(); // devices are training
    }
    const enum tern_result result = tern_service_run_work(down->service, allow_round, &order);
    if (result == TERN_OK) {
        tern_log(TERN_LOG_INFO, "gateway-round", "upstream_round=%u round=%u", down->task.round,
                 round);
        down->allowed_round = round;
    }
    return wait_after(result);
}

// --- The result of a round of devices

static uint32_t mean_steps(const struct tern_strategy_totals *totals, uint32_t most)
{
    const double mean = (double)totals->example_steps / (double)totals->num_examples;
    const double steps = floor(mean + 0.5);
    return steps < 1.0 ? 1 : steps > (double)most ? most : (uint32_t)steps;
}

static enum tern_result take_mean(struct relay_downstream *down, uint32_t round,
                                  struct tern_train_result *result)
{
    struct tern_db_round row;
    struct tern_strategy_totals totals;
    struct tern_update_bounds bounds = {0};
    TERN_TRY(tern_db_round_get(down->db, round, &row));
    enum tern_result made = tern_merge_count(down->db, &row, &totals, &bounds);
    if (made == TERN_OK) {
        made = tern_update_bounds_claims(&bounds, &totals);
    }
    if (made == TERN_OK) {
        made = tern_stored_mean(down->model, down->db, &row, &totals, TERN_MERGE_MEMORY, &bounds,
                                down->mean);
    }
    tern_update_bounds_clear(&bounds);
    TERN_TRY(made);
    result->num_examples =
        totals.num_examples < UINT32_MAX ? (uint32_t)totals.num_examples : UINT32_MAX;
    result->local_steps = mean_steps(&totals, down->task.local_steps);
    result->loss = row.mean_loss;
    result->is_change = true;
    return TERN_OK;
}

// --- The trainer port

static enum tern_result begin(void *ctx, const struct tern_train_task *task, const float *base,
                              uint32_t count)
{
    struct relay_downstream *down = ctx;
    if (count != down->model->count) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    down->task = *task;
    down->base = base;
    down->allowed_round = 0;
    tern_merge_hash(base, count, down->base_sha256);
    return TERN_OK;
}

// Whether the downstream round set the model to the base of the upstream task.
static bool has_base(const struct relay_downstream *down, uint32_t round)
{
    struct training_file file;
    return read_training(down->folder, &file) == TERN_OK && file.round == round &&
           memcmp(file.base, down->base_sha256, TERN_SHA256_SIZE) == 0;
}

static enum tern_result step(void *ctx, float **weights, struct tern_train_result *result)
{
    struct relay_downstream *down = ctx;
    struct tern_service_facts facts;
    tern_service_facts(down->service, &facts);
    const uint32_t last = facts.federation.machine.round;
    bool is_upstream = true; // true before the first round
    if (facts.federation.machine.open || facts.federation.merging) {
        return wait_for_poll();
    }
    if (last > 0) {
        TERN_TRY(examine_round(down, last, &is_upstream));
    }
    const bool is_new = !is_upstream && last > down->records->included;
    const bool is_undone = is_new && is_reset(down) && !has_base(down, last - 1);
    if (is_new && !is_undone) {
        TERN_TRY(take_mean(down, last, result));
        down->records->pending_included = last;
        *weights = down->mean;
        return TERN_OK;
    }
    return last > 0 && is_upstream && has_base(down, last)
               ? allow_next_round(down, last + 1)
               : set_base(down, last + 1, is_undone ? last : 0);
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

struct tern_trainer tern_relay_downstream_port(struct relay_downstream *down)
{
    return (struct tern_trainer){.ctx = down, .begin = begin, .step = step, .evaluate = evaluate};
}
