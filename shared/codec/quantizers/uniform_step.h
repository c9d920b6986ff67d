// Finds the step for the codec `uniform`: the coarsest one that leaves at most a given fraction of the squared norm unsent.
// docs/FORMAT.md, section 3.8. Pure; reentrant.
#ifndef TERN_UNIFORM_STEP_H
#define TERN_UNIFORM_STEP_H

#include "codec/kernels/steps.h"

struct tern_uniform_step {
    struct tern_steps rule;
    float scale; // decoded value of one step
};

// Returns step and scale for values whose largest magnitude, `peak`, is not 0. Leaves more than `error` only if the finest step
// does.
struct tern_uniform_step tern_uniform_step(const float *values, size_t count, float peak,
                                           double error);

#endif
