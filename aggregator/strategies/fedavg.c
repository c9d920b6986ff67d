// FedAvg (McMahan et al., AISTATS 2017): the server applies the weighted mean of the updates.
#include "strategies/weighted_mean.h"

const struct tern_strategy tern_strategy_fedavg = {
    .name = "fedavg",
    .sends_prox = false,
    .accumulate = tern_weighted_mean_accumulate,
    .ready = tern_weighted_mean_ready,
    .merge = tern_weighted_mean_merge,
    .report = tern_weighted_mean_report,
};
