#include "strategies/adaptive.h"

#include "strategies/bounds.h"
#include <math.h>

static double cut(double value, double most)
{
    if (value > most) {
        return most;
    }
    return value < -most ? -most : value;
}

enum tern_result tern_adaptive_merge(struct tern_strategy_sums *sums, float *global, float *m,
                                     float *v, tern_second_moment next)
{
    const float *parameters = sums->totals.rule.parameters;
    double beta1 = (double)parameters[TERN_STRATEGY_BETA1];
    double beta2 = (double)parameters[TERN_STRATEGY_BETA2];
    double tau = (double)parameters[TERN_STRATEGY_TAU];
    float *acc = sums->memory.acc;
    if (!tern_mean_ready(sums)) {
        return TERN_ERR_STATE;
    }
    for (uint32_t i = 0; i < sums->model->count; i++) {
        double d = (double)acc[i];
        v[i] = (float)cut(next((double)v[i], d * d, beta2), TERN_SQUARE_MAX);
        if (m != NULL) {
            m[i] = (float)(beta1 * (double)m[i] + (1.0 - beta1) * d);
            d = (double)m[i];
        }
        acc[i] = (float)cut(d / (sqrt((double)v[i]) + tau), TERN_MOVE_MAX);
    }
    return tern_sums_move(sums, global);
}
