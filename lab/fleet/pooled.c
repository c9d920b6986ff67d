#include "fleet/pooled.h"
#include "fleet/figure.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A difference from pooled training that is larger than that between seeds.
#define FAR 0.03    // for accuracy and AUC
#define FAR_R2 0.10 // of R2

// --- Rounds

static bool make_room(struct tern_pooled *pooled, uint32_t count)
{
    if (count <= pooled->count) {
        return true;
    }
    struct tern_train_task *rounds =
        realloc(pooled->rounds, (size_t)count * 2 * sizeof *pooled->rounds);
    if (rounds == NULL) {
        return false;
    }
    memset(rounds + pooled->count, 0, ((size_t)count * 2 - pooled->count) * sizeof *rounds);
    pooled->rounds = rounds;
    pooled->count = count * 2;
    return true;
}

void tern_pooled_note(struct tern_pooled *pooled, const struct tern_train_task *task)
{
    if (task->round == 0 || task->batch_size == TERN_TRAIN_ALL) {
        return;
    }
    pthread_mutex_lock(&pooled->mutex);
    if (make_room(pooled, task->round) &&
        task->local_steps > pooled->rounds[task->round - 1].local_steps) {
        pooled->rounds[task->round - 1] = *task;
    }
    pthread_mutex_unlock(&pooled->mutex);
}

void tern_pooled_clear(struct tern_pooled *pooled)
{
    free(pooled->rounds);
    pooled->rounds = NULL;
    pooled->count = 0;
}

// --- Training

static enum tern_result train_round(const struct tern_trainer *port, struct tern_train_task task,
                                    const volatile sig_atomic_t *interrupted, float *weights,
                                    uint32_t count)
{
    struct tern_train_result done;
    float *trained = NULL;
    task.client = 1;
    task.ahead = NULL;   // one client has no error buffer
    task.prox_mu = 0.0f; // and no other clients to stay close to
    enum tern_result result = port->begin(port->ctx, &task, weights, count);
    if (result != TERN_OK) {
        return result;
    }
    do {
        result = port->step(port->ctx, &trained, &done);
    } while (result == TERN_AGAIN && !*interrupted);
    if (result == TERN_OK) {
        memcpy(weights, trained, count * sizeof *weights);
    }
    return result;
}

static enum tern_result train_all(struct tern_pooled *pooled, const struct tern_trainer *port,
                                  const volatile sig_atomic_t *interrupted, float *weights,
                                  uint32_t count)
{
    pooled->steps = 0;
    for (uint32_t r = 0; r < pooled->count; r++) {
        if (pooled->rounds[r].local_steps > 0) {
            TERN_TRY(train_round(port, pooled->rounds[r], interrupted, weights, count));
            pooled->steps += pooled->rounds[r].local_steps;
        }
    }
    return pooled->steps > 0 ? TERN_OK : TERN_ERR_NOT_FOUND;
}

enum tern_result tern_pooled_train(struct tern_pooled *pooled, const struct tern_model *model,
                                   uint64_t seed, const struct tern_shares *shares,
                                   const volatile sig_atomic_t *interrupted,
                                   struct tern_evaluate_result *found)
{
    static struct tern_builtin_trainer trainer;
    void *arena = NULL;
    float *weights = malloc(model->count * sizeof *weights);
    enum tern_result result = weights != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
    if (result == TERN_OK) {
        tern_model_init_weights(model, seed, weights);
        result = tern_trainer_alone(&trainer, model, tern_view_all(&shares->data.train),
                                    tern_view_all(&shares->data.test), &arena);
    }
    const struct tern_trainer port = tern_builtin_trainer_port(&trainer);
    if (result == TERN_OK) {
        result = train_all(pooled, &port, interrupted, weights, model->count);
    }
    if (result == TERN_OK) {
        result = port.evaluate(port.ctx, weights, model->count, found);
    }
    free(weights);
    free(arena);
    return result;
}

// --- The comparison

bool tern_pooled_is_far(double figure, const struct tern_evaluate_result *found,
                        char text[TERN_POOLED_TEXT_MAX])
{
    const char *name = tern_figure_name(found);
    const bool r2 = name != NULL && strcmp(name, "r2") == 0;
    const double pooled = tern_figure_value(found);
    if (name == NULL || !(pooled - figure > (r2 ? FAR_R2 : FAR))) {
        return false;
    }
    snprintf(text, TERN_POOLED_TEXT_MAX,
             "the %s, %.4f, is far below the %.4f of one client with all rows. Compare with "
             "codec.codec=float32, or plan more rounds. See docs/EXPERIMENTS.md#pooled-training",
             r2 ? "R2" : name, figure, pooled);
    return true;
}
