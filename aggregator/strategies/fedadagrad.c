// FedAdagrad (Reddi et al., ICLR 2021): v <- v + d^2, without a first moment (beta1 = 0, as in the
// paper's experiments). See adaptive.h.
#include "strategies/adaptive.h"

static double next(double v, double square, double beta2)
{
    (void)beta2;
    return v + square;
}

static enum tern_result merge(struct tern_strategy_sums *sums, float *global)
{
    return tern_adaptive_merge(sums, global, NULL, sums->memory.states[0], next);
}

const struct tern_strategy tern_strategy_fedadagrad = {
    .name = "fedadagrad",
    .parameters = TERN_MEAN_PARAMETERS | UINT32_C(1) << TERN_STRATEGY_TAU,
    .server_learning_rate = TERN_ADAPTIVE_RATE,
    .states = {{.name = "v", .at_tau = true}},
    .accumulate = tern_mean_accumulate,
    .ready = tern_mean_ready,
    .merge = merge,
    .report = tern_sums_report,
};
