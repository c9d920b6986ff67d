// Strategies that move the model by the weighted mean of the updates.
#include "strategies/strategy.h"

#include <math.h>

// FedNova (Wang et al., NeurIPS 2020, section 4): the weighted mean of the updates, each divided by the norm of its local
// steps, times the mean of these norms: a_eff * sum p_i d_i / |a_i|. With equal steps it equals FedAvg to the last bit. The
// paper leaves a_eff free. Here it is the mean of |a_i|, in which no client counts for more than 4 to 8 times the median,
// so that a client that claims a million steps does not multiply all changes. scale_max, which the paper does not have,
// limits how much an update is scaled up: with error feedback an update also contains what its buffer held from earlier
// rounds, which does not depend on the steps of this round.
const struct tern_strategy tern_strategy_fednova = {
    .name = "fednova",
    .parameters = TERN_MEAN_PARAMETERS & ~TERN_PARAMETER_BIT(NORMALISE),
    .server_learning_rate = 1.0F,
    .normalises = true,
};

// FedAvg (McMahan et al., AISTATS 2017): the server applies the mean of the updates, weighted by
// their examples. A client that does more local steps than another moves the model more.
const struct tern_strategy tern_strategy_fedavg = {
    .name = "fedavg",
    .parameters = TERN_MEAN_PARAMETERS,
    .server_learning_rate = 1.0F,
};

// FedProx (Li et al., MLSys 2020): FedAvg at the server; the clients add mu / 2 * |w - base|^2 to
// their loss, so that they do not drift far on skewed data.
const struct tern_strategy tern_strategy_fedprox = {
    .name = "fedprox",
    .parameters = TERN_MEAN_PARAMETERS | TERN_PARAMETER_BIT(PROX_MU),
    .server_learning_rate = 1.0F,
};

// Returns 1 / sqrt(1 + s) for an update that is s versions old. sqrt() is correctly rounded on every platform (IEEE
// 754).
static double age_weight(const struct tern_contribution *contribution)
{
    return 1.0 / sqrt(1.0 + (double)contribution->staleness);
}

// FedBuff (Nguyen et al., AISTATS 2022): buffered asynchronous aggregation. A round closes once its buffer has
// round.cohort updates, whatever rounds they were made for. An update that is s versions old weighs 1 / sqrt(1 + s),
// the paper's choice, and the weights are not scaled to a sum of 1. Updates are also weighted by examples; the paper
// has equal clients.
const struct tern_strategy tern_strategy_fedbuff = {
    .name = "fedbuff",
    .parameters = TERN_MEAN_PARAMETERS | TERN_PARAMETER_BIT(STALENESS_MAX),
    .server_learning_rate = 1.0F,
    .accepts_late_updates = true,
    .age_weight = age_weight,
};

static void add_momentum(struct tern_strategy_sums *sums)
{
    double beta = (double)sums->totals.rule.parameters[TERN_STRATEGY_SERVER_MOMENTUM];
    float *acc = sums->memory.acc;
    float *m = sums->memory.states[0];
    for (uint32_t i = 0; i < sums->model->count; i++) {
        m[i] = (float)(beta * (double)m[i] + (double)acc[i]);
        acc[i] = m[i];
    }
}

// The largest curvature at which momentum must not oscillate. The curvature is the mean change of a round divided by
// the distance to the round's optimum.
#define CURVATURE 0.6

// Returns the largest momentum that is stable at the curvature above while clients train from weights that are tau =
// lag / step rounds behind: by Routh's criterion (1 - beta) (1 / tau + 1 - beta) must exceed the curvature. The result
// is from 0.23 to 1.
static double momentum_of_lag(double step, double lag)
{
    double rate = step / lag;
    return 1.0 - 0.5 * (sqrt(rate * rate + 4.0 * CURVATURE) - rate);
}

// Limits the momentum to what is stable at the present lag. Compressed downloads leave the clients' weights behind the
// global model. Updates from such weights contain the missing change once more, and momentum would add it up.
static void damp_stale_updates(const struct tern_strategy_rule *rule, const float *global,
                               const float *replica, uint32_t count, float *const *states)
{
    const double beta = (double)rule->parameters[TERN_STRATEGY_SERVER_MOMENTUM];
    float *m = states[0];
    double lag_square = 0.0;
    double step_square = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        double lag = (double)global[i] - (double)replica[i];
        double velocity = (double)rule->server_learning_rate * (double)m[i];
        lag_square += lag * lag;
        step_square += velocity * velocity;
    }
    const double most =
        lag_square > 0.0 ? momentum_of_lag(sqrt(step_square), sqrt(lag_square)) : 1.0;
    for (uint32_t i = 0; most < beta && i < count; i++) {
        m[i] = (float)(most / beta * (double)m[i]);
    }
}

// FedAvgM (Hsu, Qi, Brown, 2019, section 4.2): momentum at the server. m <- beta m + d, and the
// model moves by m, where d is the weighted mean; m starts at zero. With lossless downloads this is
// plain heavy-ball momentum.
const struct tern_strategy tern_strategy_fedavgm = {
    .name = "fedavgm",
    .parameters = TERN_MEAN_PARAMETERS | TERN_PARAMETER_BIT(SERVER_MOMENTUM),
    .server_learning_rate = 1.0F,
    .states = {{.name = "m"}},
    .step = add_momentum,
    .damp_stale_updates = damp_stale_updates,
};
