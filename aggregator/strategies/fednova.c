// FedNova (Wang et al., NeurIPS 2020, section 4): the weighted mean of the updates, each divided by
// how far its client's local steps carry, times the mean of that: a_eff * sum p_i d_i / |a_i|. With
// equal steps it is FedAvg to the last bit. The paper leaves a_eff free; here it is the mean of
// |a_i|, in which no client counts for more than 4 to 8 times the middle one: a client that claims
// a million steps must not multiply everybody's change. Nor is any update scaled up by more than
// scale_max, which the paper does not have: its d_i are sums of as many gradients as |a_i| counts,
// but of an update with error feedback that is only so for what its round added. What the buffer
// held from earlier ones does not shrink with the steps, and without the bound a client of few
// would multiply it.
#include "strategies/sums.h"

const struct tern_strategy tern_strategy_fednova = {
    .name = "fednova",
    .parameters = TERN_MEAN_PARAMETERS & ~(UINT32_C(1) << TERN_STRATEGY_NORMALISE),
    .server_learning_rate = 1.0F,
    .normalises = true,
    .accumulate = tern_mean_accumulate,
    .ready = tern_mean_ready,
    .merge = tern_mean_merge,
    .report = tern_sums_report,
};
