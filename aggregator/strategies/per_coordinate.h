// Strategies that look at each coordinate over all updates (Yin et al., ICML 2018): up to a share
// of hostile or broken clients cannot pull a coordinate away. All updates weigh the same, whatever
// they claim of their examples and steps. Pure; only strategies/ includes this.
//
// memory.columns takes a range of coordinates of all updates at once; with less room than model *
// updates the updates are visited again for the next range, which does not change the bits.
#ifndef TERN_PER_COORDINATE_H
#define TERN_PER_COORDINATE_H

#include "strategies/sums.h"

// The verbs of struct tern_strategy.
// share: of the updates, left out on each side of the sorted values. The mean of what is left is
// taken; from 0.5 on that is the median.
enum tern_result tern_columns_accumulate(struct tern_strategy_sums *sums,
                                         const struct tern_contribution *contribution,
                                         const uint8_t *container, size_t len, double share);
bool tern_columns_ready(const struct tern_strategy_sums *sums);
enum tern_result tern_columns_merge(struct tern_strategy_sums *sums, float *global);

#endif
