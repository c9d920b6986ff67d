#include "merged.h"

static enum tern_result take_mean(const struct tern_model *model,
                                  const struct tern_strategy_totals *totals, float *acc,
                                  const struct held_update *updates, size_t count)
{
    struct tern_exact_mean mean = {.model = NULL};
    enum tern_result result = TERN_OK;
    tern_exact_mean_begin(&mean, model, &totals->rule, UINT64_MAX, 0, model->count);
    for (size_t i = 0; i < count && result == TERN_OK; i++) {
        result = tern_exact_mean_add(&mean, &updates[i].contribution, updates[i].container,
                                     updates[i].len, NULL);
    }
    if (result == TERN_OK) {
        tern_exact_mean_take(&mean, totals, acc);
    }
    tern_exact_mean_clear(&mean);
    return result;
}

enum tern_result take_updates(struct tern_strategy_sums *sums, const struct tern_model *model,
                              const struct tern_strategy_totals *totals,
                              const struct tern_strategy_memory *memory,
                              const struct held_update *updates, size_t count)
{
    tern_strategy_begin(sums, model, totals, memory);
    if (totals->rule.strategy->combine == NULL) {
        TERN_TRY(take_mean(model, totals, memory->acc, updates, count));
        return tern_strategy_take_mean(sums);
    }
    while (totals->updates > 0 && !tern_strategy_ready(sums)) {
        for (size_t i = 0; i < count; i++) {
            TERN_TRY(tern_strategy_accumulate(sums, updates[i].container, updates[i].len));
        }
    }
    return TERN_OK;
}
