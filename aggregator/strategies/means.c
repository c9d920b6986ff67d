// Strategies that move the model by the weighted mean of the updates.
#include "strategies/mean.h"

#include <math.h>

// FedNova (Wang et al., NeurIPS 2020, section 4): the weighted mean of the updates, each divided by
// how far its client's local steps carry, times the mean of that: a_eff * sum p_i d_i / |a_i|. With
// equal steps it is FedAvg to the last bit. The paper leaves a_eff free; here it is the mean of
// |a_i|, in which no client counts for more than 4 to 8 times the middle one: a client that claims
// a million steps must not multiply everybody's change. Nor is any update scaled up by more than
// scale_max, which the paper does not have: its d_i are sums of as many gradients as |a_i| counts,
// but of an update with error feedback that is only so for what its round added. What the buffer
// held from earlier ones does not shrink with the steps, and without the bound a client of few
// would multiply it.
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

// sqrt() is correctly rounded everywhere (IEEE 754).
static double age_weight(const struct tern_contribution *contribution)
{
    return 1.0 / sqrt(1.0 + (double)contribution->staleness);
}

// FedBuff (Nguyen et al., AISTATS 2022): buffered asynchronous aggregation. The round closes when
// the buffer of round.cohort updates is full, whichever rounds they were made for; one that is s
// versions old weighs 1 / sqrt(1 + s) (the paper's choice), and the weights are not scaled up to
// make up for it. Weighted by examples besides, where the paper has equal clients.
const struct tern_strategy tern_strategy_fedbuff = {
    .name = "fedbuff",
    .parameters = TERN_MEAN_PARAMETERS | TERN_PARAMETER_BIT(STALENESS_MAX),
    .server_learning_rate = 1.0F,
    .takes_late = true,
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

// The curvature (of the mean change of a round over the distance to its optimum) up to which momentum
// shall not swing.
#define CURVATURE 0.6

// The most momentum that bears that curvature while clients train from weights that are tau = owed / step
// rounds behind: by Routh's criterion (1 - beta) (1 / tau + 1 - beta) must be larger. 0.23 to 1.
static double momentum_of_lag(double step, double owed)
{
    double rate = step / owed;
    return 1.0 - 0.5 * (sqrt(rate * rate + 4.0 * CURVATURE) - rate);
}

// Compressed downloads leave clients behind. Updates made from there ask once more for the way that
// is still owed, and the velocity would add it up: it goes on with no more than the lag bears.
static void damp_stale_updates(const struct tern_strategy_rule *rule, const float *global,
                               const float *replica, uint32_t count, float *const *states)
{
    const double beta = (double)rule->parameters[TERN_STRATEGY_SERVER_MOMENTUM];
    float *m = states[0];
    double owed = 0.0;
    double step = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        double lag = (double)global[i] - (double)replica[i];
        double velocity = (double)rule->server_learning_rate * (double)m[i];
        owed += lag * lag;
        step += velocity * velocity;
    }
    const double most = owed > 0.0 ? momentum_of_lag(sqrt(step), sqrt(owed)) : 1.0;
    for (uint32_t i = 0; most < beta && i < count; i++) {
        m[i] = (float)(most / beta * (double)m[i]);
    }
}

// FedAvgM (Hsu, Qi, Brown, 2019, section 4.2): momentum at the server. m <- beta m + d, and the
// model moves by m, where d is the weighted mean; m starts at zero. Plain heavy-ball momentum while
// downloads lose nothing.
const struct tern_strategy tern_strategy_fedavgm = {
    .name = "fedavgm",
    .parameters = TERN_MEAN_PARAMETERS | TERN_PARAMETER_BIT(SERVER_MOMENTUM),
    .server_learning_rate = 1.0F,
    .states = {{.name = "m"}},
    .step = add_momentum,
    .damp_stale_updates = damp_stale_updates,
};
