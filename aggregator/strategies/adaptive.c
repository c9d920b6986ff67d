// Adaptive server optimisers (Reddi et al., ICLR 2021, algorithm 2), with d the weighted mean of
// the updates:
//   m <- beta1 m + (1 - beta1) d
//   v <- the rule of each strategy below
//   model <- model + server learning rate * m / (sqrt(v) + tau)
// m starts at zero and v at tau^2, the least that the paper allows; there is no bias correction, as
// in the paper. Computed in float64, stored in float32.
#include "strategies/bounds.h"
#include "strategies/strategy.h"

#include <math.h>

#define RATE 0.01F

static double cut(double value, double most)
{
    if (value > most) {
        return most;
    }
    return value < -most ? -most : value;
}

// Updates m, v and d of every coordinate. next() returns the next v from v and the square of d. m == NULL: no first
// moment, as with beta1 = 0.
static void adapt(struct tern_strategy_sums *sums, float *m, float *v,
                  double (*next)(double v, double square, double beta2))
{
    const float *parameters = sums->totals.rule.parameters;
    double beta1 = (double)parameters[TERN_STRATEGY_BETA1];
    double beta2 = (double)parameters[TERN_STRATEGY_BETA2];
    double tau = (double)parameters[TERN_STRATEGY_TAU];
    float *acc = sums->memory.acc;
    for (uint32_t i = 0; i < sums->model->count; i++) {
        double d = (double)acc[i];
        v[i] = (float)cut(next((double)v[i], d * d, beta2), TERN_SQUARE_MAX);
        if (m != NULL) {
            m[i] = (float)(beta1 * (double)m[i] + (1.0 - beta1) * d);
            d = (double)m[i];
        }
        acc[i] = (float)cut(d / (sqrt((double)v[i]) + tau), TERN_MOVE_MAX);
    }
}

// --- FedAdam: v <- beta2 v + (1 - beta2) d^2

static double adam_next(double v, double square, double beta2)
{
    return beta2 * v + (1.0 - beta2) * square;
}

static void adam_step(struct tern_strategy_sums *sums)
{
    adapt(sums, sums->memory.states[0], sums->memory.states[1], adam_next);
}

#define BOTH_MOMENTS                                                                               \
    (TERN_MEAN_PARAMETERS | TERN_PARAMETER_BIT(BETA1) | TERN_PARAMETER_BIT(BETA2) |                \
     TERN_PARAMETER_BIT(TAU))

const struct tern_strategy tern_strategy_fedadam = {
    .name = "fedadam",
    .parameters = BOTH_MOMENTS,
    .server_learning_rate = RATE,
    .states = {{.name = "m"}, {.name = "v", .starts_at_tau_squared = true}},
    .step = adam_step,
};

// --- FedYogi: v <- v - (1 - beta2) d^2 sign(v - d^2), so that v falls slowly

static double yogi_next(double v, double square, double beta2)
{
    double change = (1.0 - beta2) * square;
    if (v > square) {
        return v - change;
    }
    return v < square ? v + change : v;
}

static void yogi_step(struct tern_strategy_sums *sums)
{
    adapt(sums, sums->memory.states[0], sums->memory.states[1], yogi_next);
}

const struct tern_strategy tern_strategy_fedyogi = {
    .name = "fedyogi",
    .parameters = BOTH_MOMENTS,
    .server_learning_rate = RATE,
    .states = {{.name = "m"}, {.name = "v", .starts_at_tau_squared = true}},
    .step = yogi_step,
};

// --- FedAdagrad: v <- v + d^2, without a first moment, as in the paper's experiments

static double adagrad_next(double v, double square, double beta2)
{
    (void)beta2;
    return v + square;
}

static void adagrad_step(struct tern_strategy_sums *sums)
{
    adapt(sums, NULL, sums->memory.states[0], adagrad_next);
}

const struct tern_strategy tern_strategy_fedadagrad = {
    .name = "fedadagrad",
    .parameters = TERN_MEAN_PARAMETERS | TERN_PARAMETER_BIT(TAU),
    .server_learning_rate = RATE,
    .states = {{.name = "v", .starts_at_tau_squared = true}},
    .step = adagrad_step,
};

// --- Rounds in epochs (federation/round.c)

// QSVRG (Alistarh, Grubic, Li, Tomioka, Vojnovic, NeurIPS 2017, section 3.3). An epoch has the iterates x_1 to x_T. Its
// round k (from 0; parameter epoch_step) makes x_(k + 2) from x_(k + 1) and the mean of the updates:
//   k = 0            -rate * the full gradient at x_1 = y, which every client keeps. This is step t = 1 of the paper, in
//                    which both gradients of a minibatch are taken at y and cancel out
//   k = 1 .. T - 2   quantised, -rate * (gradient at x - gradient at y of the same minibatch + full gradient at y)
// After the last round the model is (x_1 + ... + x_T) / T, the y of the next epoch, in place of x_T. Step T of the paper
// is left out: it only makes an x that no mean contains. The state is the lag of the mean,
// (x_1 + ... + x_t) / t - x_t, so that no step needs the model itself.
static void step_epoch(struct tern_strategy_sums *sums)
{
    const float *parameters = sums->totals.rule.parameters;
    const double first =
        // Index t of the present model's iterate x_t.
        (double)parameters[TERN_STRATEGY_EPOCH_STEP] + 1.0;
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
    .step = step_epoch,
};
