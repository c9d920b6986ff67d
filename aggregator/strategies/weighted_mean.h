// The arithmetic that FedAvg and FedProx share at the server. Pure; only strategies/ includes this.
#ifndef TERN_WEIGHTED_MEAN_H
#define TERN_WEIGHTED_MEAN_H

#include "strategies/strategy.h"

// The verbs of struct tern_strategy.
enum tern_result tern_weighted_mean_accumulate(struct tern_strategy_sums *sums,
                                               const struct tern_contribution *contribution,
                                               const uint8_t *container, size_t len);
bool tern_weighted_mean_ready(const struct tern_strategy_sums *sums);
enum tern_result tern_weighted_mean_merge(struct tern_strategy_sums *sums, float *global);
void tern_weighted_mean_report(const struct tern_strategy_sums *sums,
                               struct tern_strategy_report *report);

#endif
