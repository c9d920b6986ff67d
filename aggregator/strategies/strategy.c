#include "strategies/strategy.h"

#include <string.h>

#define EXACT_IN_DOUBLE (UINT64_C(1) << 53)

const struct tern_strategy *tern_strategy_find(const char *name)
{
    static const struct tern_strategy *const all[] = {&tern_strategy_fedavg,
                                                      &tern_strategy_fedprox};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i]->name, name) == 0) {
            return all[i];
        }
    }
    return NULL;
}

const char *tern_strategy_names(void)
{
    return "fedavg | fedprox";
}

void tern_strategy_begin(struct tern_strategy_sums *sums, const struct tern_strategy *strategy,
                         const struct tern_model *model, float server_learning_rate,
                         const struct tern_strategy_totals *totals, float *acc)
{
    memset(sums, 0, sizeof *sums);
    memset(acc, 0, model->count * sizeof acc[0]);
    sums->strategy = strategy;
    sums->model = model;
    sums->acc = acc;
    sums->server_learning_rate = server_learning_rate;
    sums->totals = *totals;
}

enum tern_result tern_strategy_count(struct tern_strategy_totals *totals,
                                     const struct tern_contribution *contribution)
{
    uint64_t n = contribution->num_examples;
    uint64_t steps = contribution->local_steps;
    if (n == 0 || steps == 0) {
        return TERN_ERR_ARGUMENT;
    }
    // n and steps are below 2^32, so their product cannot wrap; nor can the sum of two values
    // that are each checked to be at most 2^53.
    uint64_t example_steps = n * steps;
    if (example_steps > EXACT_IN_DOUBLE ||
        totals->example_steps + example_steps > EXACT_IN_DOUBLE) {
        return TERN_ERR_TOO_LARGE;
    }
    totals->num_examples += n;
    totals->example_steps += example_steps;
    totals->updates++;
    return TERN_OK;
}
