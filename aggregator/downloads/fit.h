// Computes which share of a difference's values a ternary download must send, so that what it leaves is within a bound.
// Called by search.c for each download that it makes. Pure; reentrant.
#ifndef TERN_DOWNLOADS_FIT_H
#define TERN_DOWNLOADS_FIT_H

#include "result.h"
#include "tensor/model.h"

// Shares of the values, in millionths.
struct tern_fit {
    uint32_t share; // smallest share that leaves at most `left`; 0: no share does
    uint32_t best;  // share that leaves the least
};

// Computes, within some percent, the smallest p with which the codec density:p leaves at most the squared norm `left` of
// difference[model->count], in the segments that codecs encode. Sent values become plus or minus their mean magnitude, so
// beyond some share a larger share leaves more. least: fewest values sent of each segment, as in the codec's spec.
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_fit_share(const struct tern_model *model,
                                              const float *difference, double left, uint32_t least,
                                              struct tern_fit *fit);

#endif
