// FedProx (Li et al., MLSys 2020): FedAvg at the server; the clients add mu / 2 * |w - base|^2 to
// their loss, so that they do not drift far on skewed data.
#include "strategies/weighted_mean.h"

const struct tern_strategy tern_strategy_fedprox = {
    .name = "fedprox",
    .sends_prox = true,
    .accumulate = tern_weighted_mean_accumulate,
    .ready = tern_weighted_mean_ready,
    .merge = tern_weighted_mean_merge,
    .report = tern_weighted_mean_report,
};
