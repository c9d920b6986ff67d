#include "merge/update_norms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Of fewer, the middle one is no more than one of them.
#define LEAST 3

bool tern_update_norms_matter(const struct tern_strategy_rule *rule)
{
    return rule->parameters[TERN_STRATEGY_NORM_BOUND] > 0.0F;
}

enum tern_result tern_update_norms_add(struct tern_update_norms *norms,
                                       const struct tern_update_norm *norm)
{
    if (norms->count == norms->room) {
        const uint32_t room = norms->room == 0 ? 16 : 2 * norms->room;
        struct tern_update_norm *list = realloc(norms->list, room * sizeof list[0]);
        if (list == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
        norms->list = list;
        norms->room = room;
    }
    norms->list[norms->count] = *norm;
    norms->list[norms->count++].scale = 1.0;
    return TERN_OK;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum tern_result find_median(const struct tern_update_norms *norms, double *median)
{
    double *sorted = malloc(norms->count * sizeof sorted[0]);
    if (sorted == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < norms->count; i++) {
        sorted[i] = norms->list[i].norm;
    }
    qsort(sorted, norms->count, sizeof sorted[0], compare);
    *median = sorted[(norms->count - 1) / 2];
    free(sorted);
    return TERN_OK;
}

enum tern_result tern_update_norms_bound(struct tern_update_norms *norms,
                                         const struct tern_strategy_totals *totals)
{
    double median = 0.0;
    norms->bound = 0.0;
    if (norms->count < LEAST) {
        return TERN_OK;
    }
    for (uint32_t i = 0; i < norms->count; i++) {
        struct tern_update_norm *norm = &norms->list[i];
        norm->norm = sqrt(norm->sum_square) * tern_strategy_steps_factor(totals, norm->local_steps);
        norm->scale = 1.0;
    }
    TERN_TRY(find_median(norms, &median));
    norms->bound = (double)totals->rule.parameters[TERN_STRATEGY_NORM_BOUND] * median;
    for (uint32_t i = 0; i < norms->count && norms->bound > 0.0; i++) {
        struct tern_update_norm *norm = &norms->list[i];
        norm->scale = norm->norm > norms->bound ? norms->bound / norm->norm : 1.0;
    }
    return TERN_OK;
}

void tern_update_norms_clear(struct tern_update_norms *norms)
{
    free(norms->list);
    memset(norms, 0, sizeof *norms);
}
