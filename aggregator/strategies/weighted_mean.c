// The mean of the updates, weighted by num_examples (FedAvg: McMahan et al., AISTATS 2017) and
// normalised for unequal local steps (FedNova: Wang et al., NeurIPS 2020, section 4).
//
// With p_i = n_i / N and tau_i local steps, FedNova's step is tau_eff * sum p_i * d_i / tau_i with
// tau_eff = sum p_i * tau_i. tau_i stands for the norm of a_i, which for plain SGD is the number of
// steps. With local momentum it is an approximation: the paper's factor for momentum depends on
// tau_i only weakly once tau_i is past 1 / (1 - momentum), and equal steps are exact either way.
#include "strategies/weighted_mean.h"

#include <math.h>

// p_i * tau_eff / tau_i. With equal steps example_steps / N is exactly tau, the factor exactly 1
// and the weight exactly FedAvg's: both sums are integers below 2^53.
static float weight_of(const struct tern_strategy_sums *sums,
                       const struct tern_contribution *contribution)
{
    double total = (double)sums->totals.num_examples;
    double effective_steps = (double)sums->totals.example_steps / total;
    double factor = effective_steps / (double)contribution->local_steps;
    return (float)((double)contribution->num_examples / total * factor);
}

enum tern_result tern_weighted_mean_accumulate(struct tern_strategy_sums *sums,
                                               const struct tern_contribution *contribution,
                                               const uint8_t *container, size_t len)
{
    if (sums->accumulated == sums->totals.updates) {
        return TERN_ERR_STATE;
    }
    TERN_TRY(tern_container_accumulate(sums->model, container, len, weight_of(sums, contribution),
                                       sums->acc));
    sums->loss_sum += (double)contribution->num_examples * (double)contribution->loss;
    sums->accumulated++;
    return TERN_OK;
}

bool tern_weighted_mean_ready(const struct tern_strategy_sums *sums)
{
    return sums->totals.updates != 0 && sums->accumulated == sums->totals.updates;
}

enum tern_result tern_weighted_mean_merge(struct tern_strategy_sums *sums, float *global)
{
    if (!tern_weighted_mean_ready(sums)) {
        return TERN_ERR_STATE;
    }
    double square = 0.0;
    for (uint32_t i = 0; i < sums->model->count; i++) {
        float step = sums->server_learning_rate * sums->acc[i];
        if (!isfinite(global[i] + step)) {
            return TERN_ERR_NON_FINITE;
        }
        square += (double)step * (double)step;
    }
    for (uint32_t i = 0; i < sums->model->count; i++) {
        float step = sums->server_learning_rate * sums->acc[i];
        global[i] += step;
    }
    sums->step_square = square;
    return TERN_OK;
}

void tern_weighted_mean_report(const struct tern_strategy_sums *sums,
                               struct tern_strategy_report *report)
{
    double total = (double)sums->totals.num_examples;
    report->updates = sums->accumulated;
    report->num_examples = sums->totals.num_examples;
    report->mean_loss = (float)(sums->loss_sum / total);
    report->effective_steps = (float)((double)sums->totals.example_steps / total);
    report->step_norm = (float)sqrt(sums->step_square);
}
