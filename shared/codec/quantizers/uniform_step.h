// The encoder of `uniform` seeks the coarsest step that leaves at most a given share of the squared norm.
// docs/FORMAT.md, section 3.8. Pure; reentrant.
#ifndef TERN_UNIFORM_STEP_H
#define TERN_UNIFORM_STEP_H

#include "codec/kernels/steps.h"

struct tern_uniform_step {
    struct tern_steps rule;
    float scale; // what one step decodes to
};

// Finds the step and the scale of values whose largest magnitude, `peak`, is not 0. More than `error` is left only where
// the finest step leaves more.
struct tern_uniform_step tern_uniform_step(const float *values, size_t count, float peak,
                                           double error);

#endif
