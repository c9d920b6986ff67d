// Divides the values of a model under LGC (Abrahamyan et al., section VI-A), and picks a round's values: of each
// tensor the share `density` of largest magnitude, at indices that the round's leader chooses for all.
//   exact    every value in every round: fused segments (biases, a small first layer) and dense tensors
//   plain    picked, and sent as float32: the last tensor
//   learned  picked, and sent by the autoencoder: the tensors between
// Pure; the caller owns all memory.
#ifndef TERN_LAB_LGC_PLAN_H
#define TERN_LAB_LGC_PLAN_H

#include "result.h"
#include "tensor/model.h"

enum tern_lgc_role { TERN_LGC_EXACT, TERN_LGC_PLAIN, TERN_LGC_LEARNED };

struct tern_lgc_part {
    enum tern_lgc_role role;
    uint32_t offset; // index of the part's first value in the model
    uint32_t count;
    uint32_t first; // index of its first exact or picked value
    uint32_t picks; // values picked per round; exact: count
};

// Picked values are one vector: all plain ones, then all learned ones.
struct tern_lgc_plan {
    struct tern_lgc_part parts[TERN_MODEL_MAX_TENSORS]; // in the order of the model's segments
    uint32_t part_count;
    uint32_t count;   // values of the model
    uint32_t exact;   // number of exact values
    uint32_t plain;   // picked in a round
    uint32_t learned; // picked in a round
    uint32_t largest; // values of the largest part
};

static inline uint32_t tern_lgc_picks(const struct tern_lgc_plan *plan)
{
    return plan->plain + plan->learned;
}

// density: above 0, at most 1.
// TERN_ERR_ARGUMENT  density is out of range, or no tensor is left for the autoencoder: a model needs two that are
//                    large enough not to be fused (TERN_FUSE_BELOW)
TERN_MUST_USE enum tern_result tern_lgc_plan_make(const struct tern_model *model, float density,
                                                  struct tern_lgc_plan *plan);

// Returns the words of scratch that tern_lgc_pick() needs; also enough for one bit per learned value.
size_t tern_lgc_pick_words(const struct tern_lgc_plan *plan);

// Picks the largest of values[count], which are finite: at[picks], ascending within each part. Of equal magnitudes it
// picks the first ones; if too few values are nonzero, it adds the first zeros.
void tern_lgc_pick(const struct tern_lgc_plan *plan, const float *values, uint64_t *words,
                   uint32_t *at);

// Copy the exact values between values[count] and the dense exact[plan->exact].
void tern_lgc_exact_of(const struct tern_lgc_plan *plan, const float *values, float *exact);
void tern_lgc_exact_to(const struct tern_lgc_plan *plan, const float *exact, float *values);

#endif
