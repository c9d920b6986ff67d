// FedMedian (Yin et al., ICML 2018, definition 1): each coordinate moves by the median of the
// updates, unweighted; of an even number by the mean of the middle two.
#include "strategies/per_coordinate.h"

static enum tern_result accumulate(struct tern_strategy_sums *sums,
                                   const struct tern_contribution *contribution,
                                   const uint8_t *container, size_t len)
{
    return tern_columns_accumulate(sums, contribution, container, len, 0.5);
}

const struct tern_strategy tern_strategy_fedmedian = {
    .name = "fedmedian",
    .server_learning_rate = 1.0F,
    .per_coordinate = true,
    .accumulate = accumulate,
    .ready = tern_columns_ready,
    .merge = tern_columns_merge,
    .report = tern_sums_report,
};
