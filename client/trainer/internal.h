// The internal interface between trainer.c and evaluate_numbers.c. Threads: as in trainer.h.
#ifndef TERN_TRAINER_INTERNAL_H
#define TERN_TRAINER_INTERNAL_H

#include "trainer/trainer.h"
#include "util/math.h"
#include <string.h>

// Puts examples of the view into the network's buffers, as tern_view_gather() does, with their targets.
static inline void tern_trainer_gather(struct tern_builtin_trainer *trainer,
                                       const struct tern_view *view, const uint32_t *positions,
                                       uint32_t first, uint32_t count)
{
    struct tern_network *network = &trainer->network;
    tern_view_gather(view, positions, first, count, network->features, network->labels);
    if (TERN_LOSSES && network->targets != NULL) {
        tern_view_gather_targets(view, positions, first, count, network->targets);
    }
}

// Computes the network's outputs for examples of the view, as many as fit into the buffers, from index `first` on. Returns
// their number.
static inline uint32_t tern_trainer_forward(struct tern_builtin_trainer *trainer,
                                            const float *weights, const struct tern_view *view,
                                            uint32_t first)
{
    struct tern_network *network = &trainer->network;
    const uint32_t left = view->count - first;
    const uint32_t count = left < network->chunk ? left : network->chunk;
    tern_trainer_gather(trainer, view, NULL, first, count);
    tern_network_forward(network, weights, count);
    return count;
}

// Appends a metric to the result, except for a value that is not finite, which a message cannot contain.
static inline void tern_trainer_add_metric(struct tern_evaluate_result *result, const char *name,
                                           double value)
{
    struct tern_metric *metric = &result->metrics[result->metric_count];
    if (!TERN_HELD_OUT || !tern_is_finite((float)value)) {
        return;
    }
    memset(metric, 0, sizeof *metric);
    memcpy(metric->name, name, strlen(name));
    metric->value = (float)value;
    result->metric_count++;
}

// tern_numbers_normal() returns the number of examples to train on: all, or, for an autoencoder, those of class 0.
// tern_numbers_order() writes their positions to trainer->order[].
uint32_t tern_numbers_normal(const struct tern_builtin_trainer *trainer);
void tern_numbers_order(struct tern_builtin_trainer *trainer);

// Evaluates a model of numbers; the test part must not be empty.
TERN_MUST_USE enum tern_result tern_numbers_evaluate(struct tern_builtin_trainer *trainer,
                                                     const float *weights,
                                                     struct tern_evaluate_result *result);

#endif
