// FedBuff (Nguyen et al., AISTATS 2022): buffered asynchronous aggregation. The round closes when
// the buffer of round.cohort updates is full, whichever rounds they were made for; one that is s
// versions old weighs 1 / sqrt(1 + s) (the paper's choice), and the weights are not scaled up to
// make up for it. Weighted by examples besides, where the paper has equal clients.
#include "strategies/sums.h"

#include <math.h>

// sqrt() is correctly rounded everywhere (IEEE 754).
static double age_weight(const struct tern_contribution *contribution)
{
    return 1.0 / sqrt(1.0 + (double)contribution->staleness);
}

const struct tern_strategy tern_strategy_fedbuff = {
    .name = "fedbuff",
    .parameters = TERN_MEAN_PARAMETERS | UINT32_C(1) << TERN_STRATEGY_STALENESS_MAX,
    .server_learning_rate = 1.0F,
    .takes_late = true,
    .age_weight = age_weight,
    .accumulate = tern_mean_accumulate,
    .ready = tern_mean_ready,
    .merge = tern_mean_merge,
    .report = tern_sums_report,
};
