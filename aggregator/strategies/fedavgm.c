// FedAvgM (Hsu, Qi, Brown, 2019, section 4.2): momentum at the server. m <- beta m + d, and the
// model moves by m, where d is the weighted mean; m starts at zero. Plain heavy-ball momentum.
#include "strategies/sums.h"

static enum tern_result merge(struct tern_strategy_sums *sums, float *global)
{
    double beta = (double)sums->totals.rule.parameters[TERN_STRATEGY_SERVER_MOMENTUM];
    float *acc = sums->memory.acc;
    float *m = sums->memory.states[0];
    if (!tern_mean_ready(sums)) {
        return TERN_ERR_STATE;
    }
    for (uint32_t i = 0; i < sums->model->count; i++) {
        m[i] = (float)(beta * (double)m[i] + (double)acc[i]);
        acc[i] = m[i];
    }
    return tern_sums_move(sums, global);
}

const struct tern_strategy tern_strategy_fedavgm = {
    .name = "fedavgm",
    .parameters = TERN_MEAN_PARAMETERS | UINT32_C(1) << TERN_STRATEGY_SERVER_MOMENTUM,
    .server_learning_rate = 1.0F,
    .states = {{.name = "m"}},
    .accumulate = tern_mean_accumulate,
    .ready = tern_mean_ready,
    .merge = merge,
    .report = tern_sums_report,
};
