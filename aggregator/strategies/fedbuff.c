// FedBuff (Nguyen et al., AISTATS 2022): buffered asynchronous aggregation. The round closes when
// the buffer of round.cohort updates is full, whichever rounds they were made for; one that is s
// versions old weighs 1 / sqrt(1 + s) (the paper's choice), and the weights are not scaled up to
// make up for it. Weighted by examples besides, where the paper has equal clients.
#include "strategies/sums.h"

#include <math.h>

static enum tern_result accumulate(struct tern_strategy_sums *sums,
                                   const struct tern_contribution *contribution,
                                   const uint8_t *container, size_t len)
{
    // sqrt() is correctly rounded everywhere (IEEE 754).
    double weight = 1.0 / sqrt(1.0 + (double)contribution->staleness);
    return tern_sums_add(sums, contribution, container, len, weight);
}

const struct tern_strategy tern_strategy_fedbuff = {
    .name = "fedbuff",
    .parameters = TERN_MEAN_PARAMETERS | UINT32_C(1) << TERN_STRATEGY_STALENESS_MAX,
    .server_learning_rate = 1.0F,
    .takes_late = true,
    .accumulate = accumulate,
    .ready = tern_mean_ready,
    .merge = tern_mean_merge,
    .report = tern_sums_report,
};
