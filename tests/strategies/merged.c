#include "merged.h"

#include "merge/update_bounds.h"

// Each is its list's client.
static enum tern_result add_all(struct tern_exact_mean *mean, struct tern_update_bounds *bounds,
                                const struct held_update *updates, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct held_update *update = &updates[i];
        struct tern_codec_info info;
        TERN_TRY(tern_exact_mean_add(mean, &update->contribution, update->container, update->len,
                                     NULL, &info));
        TERN_TRY(tern_update_bounds_add(bounds, i, 0, &update->contribution, info.sum_square));
    }
    return TERN_OK;
}

static enum tern_result bound_all(struct tern_exact_mean *mean, struct tern_strategy_totals *totals,
                                  struct tern_update_bounds *bounds,
                                  const struct held_update *updates)
{
    TERN_TRY(tern_update_bounds_claims(bounds, totals));
    TERN_TRY(tern_update_bounds_set(bounds, totals));
    for (uint32_t i = 0; i < bounds->count; i++) {
        const struct held_update *update = &updates[i];
        if (tern_update_is_bounded(&bounds->list[i])) {
            TERN_TRY(tern_exact_mean_reweigh(mean, &update->contribution, update->container,
                                             update->len, bounds->list[i].weight));
        }
    }
    return TERN_OK;
}

static enum tern_result take_mean(const struct tern_model *model,
                                  struct tern_strategy_totals *totals, float *acc,
                                  const struct held_update *updates, size_t count)
{
    struct tern_exact_mean mean = {.model = NULL};
    struct tern_update_bounds bounds = {.count = 0};
    tern_exact_mean_begin(&mean, model, &totals->rule, UINT64_MAX, 0, model->count);
    enum tern_result result = add_all(&mean, &bounds, updates, count);
    if (result == TERN_OK) {
        result = bound_all(&mean, totals, &bounds, updates);
    }
    if (result == TERN_OK) {
        tern_exact_mean_take(&mean, totals, acc);
    }
    tern_update_bounds_clear(&bounds);
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
        TERN_TRY(take_mean(model, &sums->totals, memory->acc, updates, count));
        return tern_strategy_take_mean(sums);
    }
    while (totals->updates > 0 && !tern_strategy_is_complete(sums)) {
        for (size_t i = 0; i < count; i++) {
            TERN_TRY(tern_strategy_accumulate(sums, updates[i].container, updates[i].len));
        }
    }
    return TERN_OK;
}
