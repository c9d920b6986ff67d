// What strategies share: the weighted mean of the updates, and moving the global model. Pure; only
// strategies/ includes this.
#ifndef TERN_STRATEGY_SUMS_H
#define TERN_STRATEGY_SUMS_H

#include "strategies/strategy.h"

// Parameters of every strategy that takes a weighted mean.
#define TERN_MEAN_PARAMETERS                                                                       \
    (UINT32_C(1) << TERN_STRATEGY_NORMALISE | UINT32_C(1) << TERN_STRATEGY_LOCAL_MOMENTUM |        \
     UINT32_C(1) << TERN_STRATEGY_SCALE_MAX)

// global += server learning rate * acc. TERN_ERR_NON_FINITE; global is then unchanged.
enum tern_result tern_sums_move(struct tern_strategy_sums *sums, float *global);

// The verbs of struct tern_strategy for a weighted mean that moves the model as it is:
// acc += num_examples / all examples * steps factor * age weight * decoded.
enum tern_result tern_mean_accumulate(struct tern_strategy_sums *sums,
                                      const struct tern_contribution *contribution,
                                      const uint8_t *container, size_t len);
bool tern_mean_ready(const struct tern_strategy_sums *sums);
enum tern_result tern_mean_merge(struct tern_strategy_sums *sums, float *global);
void tern_sums_report(const struct tern_strategy_sums *sums, struct tern_strategy_report *report);

#endif
