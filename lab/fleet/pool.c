#include "fleet/pool.h"
#include <stdlib.h>
#include <string.h>

enum tern_result tern_pool_init(struct tern_pool *pool, const struct tern_model *model,
                                uint32_t workers, struct tern_view largest_train,
                                struct tern_view test)
{
    const struct tern_builtin_config config = {
        .model = model, .train = largest_train, .test = test, .max_batch = TERN_TRAINER_BATCH};
    memset(pool, 0, sizeof *pool);
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->freed, NULL);
    pool->model = model;
    pool->arena_size = tern_builtin_trainer_bound(&config);
    if (pool->arena_size == 0) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    pool->workers = calloc(workers, sizeof *pool->workers);
    if (pool->workers == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    for (pool->count = 0; pool->count < workers; pool->count++) {
        pool->workers[pool->count].arena = malloc(pool->arena_size);
        if (pool->workers[pool->count].arena == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
    }
    return TERN_OK;
}

void tern_pool_clear(struct tern_pool *pool)
{
    for (uint32_t i = 0; i < pool->count; i++) {
        free(pool->workers[i].arena);
    }
    free(pool->workers);
    pthread_cond_destroy(&pool->freed);
    pthread_mutex_destroy(&pool->mutex);
    memset(pool, 0, sizeof *pool);
}

static struct tern_pool_worker *find_free(struct tern_pool *pool)
{
    for (uint32_t i = 0; i < pool->count; i++) {
        if (!pool->workers[i].taken) {
            return &pool->workers[i];
        }
    }
    return NULL;
}

static struct tern_pool_worker *take(struct tern_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    struct tern_pool_worker *worker = find_free(pool);
    while (worker == NULL) {
        pthread_cond_wait(&pool->freed, &pool->mutex);
        worker = find_free(pool);
    }
    worker->taken = true;
    pthread_mutex_unlock(&pool->mutex);
    return worker;
}

void tern_pool_release(struct tern_pool_seat *seat)
{
    if (seat->held == NULL) {
        return;
    }
    pthread_mutex_lock(&seat->pool->mutex);
    seat->held->taken = false;
    pthread_cond_signal(&seat->pool->freed);
    pthread_mutex_unlock(&seat->pool->mutex);
    seat->held = NULL;
}

// Makes the seat hold a trainer for its data.
static enum tern_result hold(struct tern_pool_seat *seat)
{
    if (seat->held == NULL) {
        seat->held = take(seat->pool);
    }
    const struct tern_builtin_config config = {.model = seat->pool->model,
                                               .train = seat->train,
                                               .test = seat->test,
                                               .max_batch = TERN_TRAINER_BATCH};
    enum tern_result result = tern_builtin_trainer_init(&seat->held->trainer, &config,
                                                        seat->held->arena, seat->pool->arena_size);
    if (result != TERN_OK) {
        tern_pool_release(seat);
        return result;
    }
    seat->port = tern_builtin_trainer_port(&seat->held->trainer);
    return TERN_OK;
}

static enum tern_result begin(void *ctx, const struct tern_train_task *task, const float *base,
                              uint32_t count)
{
    struct tern_pool_seat *seat = ctx;
    TERN_TRY(hold(seat));
    if (seat->pool->pooled != NULL) {
        tern_pooled_note(seat->pool->pooled, task);
    }
    return seat->port.begin(seat->port.ctx, task, base, count);
}

static enum tern_result step(void *ctx, float **weights, struct tern_train_result *result)
{
    struct tern_pool_seat *seat = ctx;
    if (seat->held == NULL) {
        return TERN_ERR_STATE;
    }
    return seat->port.step(seat->port.ctx, weights, result);
}

static enum tern_result evaluate(void *ctx, const float *weights, uint32_t count,
                                 struct tern_evaluate_result *result)
{
    struct tern_pool_seat *seat = ctx;
    TERN_TRY(hold(seat));
    enum tern_result evaluated = seat->port.evaluate(seat->port.ctx, weights, count, result);
    tern_pool_release(seat);
    return evaluated;
}

struct tern_trainer tern_pool_port(struct tern_pool_seat *seat)
{
    return (struct tern_trainer){.ctx = seat, .begin = begin, .step = step, .evaluate = evaluate};
}
