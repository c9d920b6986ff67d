// FedYogi (Reddi et al., ICLR 2021): v <- v - (1 - beta2) d^2 sign(v - d^2): v follows a fall
// slowly. See adaptive.h.
#include "strategies/adaptive.h"

static double next(double v, double square, double beta2)
{
    double change = (1.0 - beta2) * square;
    if (v > square) {
        return v - change;
    }
    return v < square ? v + change : v;
}

static enum tern_result merge(struct tern_strategy_sums *sums, float *global)
{
    float *const *states = sums->memory.states;
    return tern_adaptive_merge(sums, global, states[0], states[1], next);
}

const struct tern_strategy tern_strategy_fedyogi = {
    .name = "fedyogi",
    .parameters = TERN_MEAN_PARAMETERS | UINT32_C(1) << TERN_STRATEGY_BETA1 |
                  UINT32_C(1) << TERN_STRATEGY_BETA2 | UINT32_C(1) << TERN_STRATEGY_TAU,
    .server_learning_rate = TERN_ADAPTIVE_RATE,
    .states = {{.name = "m"}, {.name = "v", .at_tau = true}},
    .accumulate = tern_mean_accumulate,
    .ready = tern_mean_ready,
    .merge = merge,
    .report = tern_sums_report,
};
