// The internal interface between trainer.c and evaluate_numbers.c. Threads: as in trainer.h.
#ifndef TERN_TRAINER_INTERNAL_H
#define TERN_TRAINER_INTERNAL_H

#include "trainer/trainer.h"

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

// Counts the examples to train on, all except an autoencoder's anomalies, and writes their positions to order[].
uint32_t tern_numbers_normal(const struct tern_builtin_trainer *trainer);
void tern_numbers_order(struct tern_builtin_trainer *trainer);

// Evaluates a model of numbers; the test part must not be empty.
TERN_MUST_USE enum tern_result tern_numbers_evaluate(struct tern_builtin_trainer *trainer,
                                                     const float *weights,
                                                     struct tern_evaluate_result *result);

#endif
