#include "merge/update_bounds.h"

#include "hosted/growing.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// With fewer updates the median is one client's value, and no majority agrees with it.
#define LEAST 3

static bool bounds_claims(const struct tern_strategy_rule *rule)
{
    return rule->parameters[TERN_STRATEGY_EXAMPLES_BOUND] > 0.0F;
}

bool tern_update_bounds_need_norms(const struct tern_strategy_rule *rule)
{
    return rule->parameters[TERN_STRATEGY_NORM_BOUND] > 0.0F;
}

bool tern_update_bounds_matter(const struct tern_strategy_rule *rule)
{
    return bounds_claims(rule) || tern_update_bounds_need_norms(rule);
}

enum tern_result tern_update_bounds_add(struct tern_update_bounds *bounds, uint64_t client,
                                        uint32_t round,
                                        const struct tern_contribution *contribution,
                                        double sum_square)
{
    struct tern_update_bound *list = tern_grown(bounds->list, bounds->count, sizeof list[0]);
    if (list == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    bounds->list = list;
    list[bounds->count++] =
        (struct tern_update_bound){.client = client,
                                   .round = round,
                                   .contribution = *contribution,
                                   .sum_square = sum_square,
                                   .scale = 1.0,
                                   .weight = (double)contribution->num_examples};
    return TERN_OK;
}

// --- Medians

static double claim_of(const struct tern_update_bound *bound)
{
    return (double)bound->contribution.num_examples;
}

static double norm_of(const struct tern_update_bound *bound)
{
    return bound->norm;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum tern_result find_median(const struct tern_update_bounds *bounds,
                                    double (*value_of)(const struct tern_update_bound *bound),
                                    double *median)
{
    double *sorted = malloc(bounds->count * sizeof sorted[0]);
    if (sorted == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < bounds->count; i++) {
        sorted[i] = value_of(&bounds->list[i]);
    }
    qsort(sorted, bounds->count, sizeof sorted[0], compare);
    *median = sorted[(bounds->count - 1) / 2];
    free(sorted);
    return TERN_OK;
}

// --- Claims

enum tern_result tern_update_bounds_claims(struct tern_update_bounds *bounds,
                                           struct tern_strategy_totals *totals)
{
    double median = 0.0;
    if (bounds->count < LEAST || !bounds_claims(&totals->rule)) {
        return TERN_OK;
    }
    TERN_TRY(find_median(bounds, claim_of, &median));
    const double most =
        floor((double)totals->rule.parameters[TERN_STRATEGY_EXAMPLES_BOUND] * median);
    if (most >= (double)UINT32_MAX) {
        return TERN_OK;
    }
    totals->examples_max = (uint32_t)most;
    for (uint32_t i = 0; i < bounds->count; i++) {
        tern_strategy_cap_examples(totals, &bounds->list[i].contribution);
    }
    return TERN_OK;
}

// --- Norms, and the resulting weights

static enum tern_result bound_norms(struct tern_update_bounds *bounds,
                                    const struct tern_strategy_totals *totals)
{
    double median = 0.0;
    for (uint32_t i = 0; i < bounds->count; i++) {
        struct tern_update_bound *bound = &bounds->list[i];
        bound->norm = sqrt(bound->sum_square) *
                      tern_strategy_steps_factor(totals, bound->contribution.local_steps);
    }
    TERN_TRY(find_median(bounds, norm_of, &median));
    bounds->norm_max = (double)totals->rule.parameters[TERN_STRATEGY_NORM_BOUND] * median;
    for (uint32_t i = 0; i < bounds->count && bounds->norm_max > 0.0; i++) {
        struct tern_update_bound *bound = &bounds->list[i];
        bound->scale = bound->norm > bounds->norm_max ? bounds->norm_max / bound->norm : 1.0;
    }
    return TERN_OK;
}

enum tern_result tern_update_bounds_set(struct tern_update_bounds *bounds,
                                        const struct tern_strategy_totals *totals)
{
    bounds->norm_max = 0.0;
    if (bounds->count >= LEAST && tern_update_bounds_need_norms(&totals->rule)) {
        TERN_TRY(bound_norms(bounds, totals));
    }
    for (uint32_t i = 0; i < bounds->count; i++) {
        struct tern_update_bound *bound = &bounds->list[i];
        bound->weight = bound->scale * (double)tern_strategy_counted_examples(
                                           totals, bound->contribution.num_examples);
    }
    return TERN_OK;
}

bool tern_update_is_bounded(const struct tern_update_bound *bound)
{
    return bound->weight < (double)bound->contribution.num_examples;
}

void tern_update_bounds_clear(struct tern_update_bounds *bounds)
{
    free(bounds->list);
    memset(bounds, 0, sizeof *bounds);
}
