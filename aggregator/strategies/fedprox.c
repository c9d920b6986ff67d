// FedProx (Li et al., MLSys 2020): FedAvg at the server; the clients add mu / 2 * |w - base|^2 to
// their loss, so that they do not drift far on skewed data.
#include "strategies/sums.h"

const struct tern_strategy tern_strategy_fedprox = {
    .name = "fedprox",
    .parameters = TERN_MEAN_PARAMETERS | UINT32_C(1) << TERN_STRATEGY_PROX_MU,
    .server_learning_rate = 1.0F,
    .sends_prox = true,
    .accumulate = tern_mean_accumulate,
    .ready = tern_mean_ready,
    .merge = tern_mean_merge,
    .report = tern_sums_report,
};
