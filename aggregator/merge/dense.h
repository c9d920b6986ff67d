// Dense tensors are statistics, not parameters: whatever a strategy makes of the others, these move
// by the mean of the updates, weighted by their examples and their age, with only the
// strategy's bounds on norms and examples applied. Under a strategy of medians they move by medians, so that one
// client's claims cannot move them at will. Who calls: the merge, before and after its strategy. Pure; reentrant.
#ifndef TERN_DENSE_H
#define TERN_DENSE_H

#include "result.h"
#include "tensor/model.h"

// What the dense values were before a round; nothing for a model that has none.
struct tern_dense {
    const struct tern_model *model;
    uint32_t first;
    uint32_t count;
    float *before;
    float *moves; // what they move by
};

// Remembers them. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_dense_keep(struct tern_dense *dense,
                                               const struct tern_model *model, const float *global);

// Remembers what was found for them in acc, the mean or what else, before the strategy's step.
void tern_dense_note(struct tern_dense *dense, const float *acc);

// Replaces what the strategy made of them: global[i] = before + what was found, without the
// server's learning rate.
// TERN_ERR_NON_FINITE  a value would overflow
TERN_MUST_USE enum tern_result tern_dense_take(const struct tern_dense *dense, float *global);

void tern_dense_free(struct tern_dense *dense);

#endif
