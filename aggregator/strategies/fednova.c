// FedNova (Wang et al., NeurIPS 2020, section 4): the weighted mean of the updates, each divided by
// how far its client's local steps carry, times the mean of that: a_eff * sum p_i d_i / |a_i|. With
// equal steps it is FedAvg to the last bit.
#include "strategies/sums.h"

const struct tern_strategy tern_strategy_fednova = {
    .name = "fednova",
    .parameters = UINT32_C(1) << TERN_STRATEGY_LOCAL_MOMENTUM,
    .server_learning_rate = 1.0F,
    .normalises = true,
    .accumulate = tern_mean_accumulate,
    .ready = tern_mean_ready,
    .merge = tern_mean_merge,
    .report = tern_sums_report,
};
