// FedTrimmedAvg (Yin et al., ICML 2018, definition 2): each coordinate moves by the unweighted mean
// of the updates without the largest and the smallest; `trim` is the share left out on each side,
// rounded down to whole updates.
#include "strategies/per_coordinate.h"

static enum tern_result accumulate(struct tern_strategy_sums *sums,
                                   const struct tern_contribution *contribution,
                                   const uint8_t *container, size_t len)
{
    double share = (double)sums->totals.rule.parameters[TERN_STRATEGY_TRIM];
    return tern_columns_accumulate(sums, contribution, container, len, share);
}

const struct tern_strategy tern_strategy_fedtrimmedavg = {
    .name = "fedtrimmedavg",
    .parameters = UINT32_C(1) << TERN_STRATEGY_TRIM,
    .server_learning_rate = 1.0F,
    .per_coordinate = true,
    .accumulate = accumulate,
    .ready = tern_columns_ready,
    .merge = tern_columns_merge,
    .report = tern_sums_report,
};
