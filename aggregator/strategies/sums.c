#include "strategies/sums.h"

#include <math.h>

enum tern_result tern_mean_accumulate(struct tern_strategy_sums *sums,
                                      const struct tern_contribution *contribution,
                                      const uint8_t *container, size_t len)
{
    const struct tern_strategy_totals *totals = &sums->totals;
    if (sums->accumulated == totals->updates) {
        return TERN_ERR_STATE;
    }
    double share = (double)contribution->num_examples / (double)totals->num_examples;
    double factor = tern_strategy_steps_factor(totals, contribution->local_steps);
    double age = tern_strategy_age_weight(sums->strategy, contribution);
    float weight = (float)(share * factor * age);
    TERN_TRY(tern_container_accumulate(sums->model, container, len, weight, sums->memory.acc));
    sums->loss_sum += (double)contribution->num_examples * (double)contribution->loss;
    sums->accumulated++;
    return TERN_OK;
}

enum tern_result tern_sums_move(struct tern_strategy_sums *sums, float *global)
{
    const float *acc = sums->memory.acc;
    float rate = sums->totals.rule.server_learning_rate;
    double square = 0.0;
    for (uint32_t i = 0; i < sums->model->count; i++) {
        float step = rate * acc[i];
        if (!isfinite(global[i] + step)) {
            return TERN_ERR_NON_FINITE;
        }
        square += (double)step * (double)step;
    }
    for (uint32_t i = 0; i < sums->model->count; i++) {
        float step = rate * acc[i];
        global[i] += step;
    }
    sums->step_square = square;
    return TERN_OK;
}

bool tern_mean_ready(const struct tern_strategy_sums *sums)
{
    return sums->totals.updates != 0 && sums->accumulated == sums->totals.updates;
}

enum tern_result tern_mean_merge(struct tern_strategy_sums *sums, float *global)
{
    return tern_mean_ready(sums) ? tern_sums_move(sums, global) : TERN_ERR_STATE;
}

void tern_sums_report(const struct tern_strategy_sums *sums, struct tern_strategy_report *report)
{
    double total = (double)sums->totals.num_examples;
    report->updates = sums->totals.updates;
    report->num_examples = sums->totals.num_examples;
    report->mean_loss = (float)(sums->loss_sum / total);
    report->effective_steps = (float)((double)sums->totals.example_steps / total);
    report->step_norm = (float)sqrt(sums->step_square);
}
