// The learner of a ring's peer: trains and evaluates the model. node/ owns this interface; cli/training.c implements it.
#ifndef TERN_RING_LEARNER_H
#define TERN_RING_LEARNER_H

#include "result.h"
#include <stdint.h>

struct tern_ring_learner {
    void *ctx;

    // Trains from weights[0..count) in round `round` (from 1), and writes the negative sum of its steps' gradients to
    // descent[0..count). Calls between(arg) after each step. *loss: the mean over the steps.
    // TERN_ERR_TRAINER and the errors of struct tern_trainer
    TERN_MUST_USE enum tern_result (*train)(void *ctx, uint32_t round, const float *weights,
                                            float *descent, uint32_t count,
                                            void (*between)(void *arg), void *arg, float *loss);

    // TERN_ERR_NOT_FOUND  no evaluation data
    TERN_MUST_USE enum tern_result (*evaluate)(void *ctx, const float *weights, uint32_t count,
                                               float *loss, float *accuracy);
};

#endif
