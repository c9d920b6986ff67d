// FedAvg (McMahan et al., AISTATS 2017): the server applies the mean of the updates, weighted by
// their examples. A client that does more local steps than another moves the model more.
#include "strategies/sums.h"

const struct tern_strategy tern_strategy_fedavg = {
    .name = "fedavg",
    .parameters = TERN_MEAN_PARAMETERS,
    .server_learning_rate = 1.0F,
    .accumulate = tern_mean_accumulate,
    .ready = tern_mean_ready,
    .merge = tern_mean_merge,
    .report = tern_sums_report,
};
