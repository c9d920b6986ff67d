// Strategies whose rounds come in epochs (federation/round.c).
#include "strategies/mean.h"

// QSVRG (Alistarh, Grubic, Li, Tomioka, Vojnovic, NeurIPS 2017, section 3.3). An epoch has the iterates x_1 to x_T, and
// its round k (from 0, parameter epoch_step) makes x_(k + 2) of x_(k + 1) and the mean of the updates:
//   k = 0            -rate * the full gradient at x_1 = y, which every client keeps: the step t = 1 of the paper, where
//                    the differences of the minibatches' gradients are 0
//   k = 1 .. T - 2   quantised, -rate * (gradient at x - gradient at y of the same minibatch + full gradient at y)
// Behind the last one the model is not x_T but y of the next epoch, (x_1 + ... + x_T) / T; step T of the paper,
// which only makes an x that is in no mean, is left out. Kept is the lag of the mean, (x_1 + ... + x_t) / t - x_t, so that
// no step needs to know where the model is.
static void go_on(struct tern_strategy_sums *sums)
{
    const float *parameters = sums->totals.rule.parameters;
    const double first =
        (double)parameters[TERN_STRATEGY_EPOCH_STEP] + 1.0; // t of the model before
    const bool begins = !(first > 1.0);
    const bool ends = first + 1.0 >= (double)parameters[TERN_STRATEGY_EPOCH_STEPS];
    float *acc = sums->memory.acc;
    float *lag = sums->memory.states[0];
    for (uint32_t i = 0; i < sums->model->count; i++) {
        const double move = (double)acc[i];
        const double before = begins ? 0.0 : (double)lag[i];
        const double after = (before - move) * (first / (first + 1.0));
        acc[i] = (float)(ends ? move + after : move);
        lag[i] = (float)(ends ? 0.0 : after);
    }
}

const struct tern_strategy tern_strategy_qsvrg = {
    .name = "qsvrg",
    .parameters = TERN_PARAMETER_BIT(EXAMPLES_BOUND) | TERN_PARAMETER_BIT(EPOCH_STEPS) |
                  TERN_PARAMETER_BIT(EPOCH_STEP),
    .server_learning_rate = 1.0F,
    .has_epochs = true,
    .states = {{.name = "lag"}},
    .step = go_on,
};
