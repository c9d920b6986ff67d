#include "merge/exact_mean.h"

#include <stdlib.h>
#include <string.h>

// --- Life

void tern_exact_mean_clear(struct tern_exact_mean *mean)
{
    for (uint32_t i = 0; i < mean->group_count; i++) {
        for (unsigned bin = 0; bin < TERN_EXACT_BINS; bin++) {
            free(mean->groups[i].bins[bin]);
        }
    }
    free(mean->groups);
    free(mean->scratch);
    memset(mean, 0, sizeof *mean);
}

void tern_exact_mean_begin(struct tern_exact_mean *mean, const struct tern_model *model,
                           const struct tern_strategy_rule *rule, uint64_t memory, uint32_t first,
                           uint32_t end)
{
    tern_exact_mean_clear(mean);
    mean->model = model;
    mean->rule = *rule;
    mean->memory = memory;
    mean->first = first;
    mean->end = end;
}

// --- Taking updates in

// An update on its way into its group.
struct addition {
    struct tern_exact_mean *mean;
    struct tern_exact_group *group;
    const struct tern_reading *reading;
    float weight;
    enum tern_result result; // of what cannot return one
};

static enum tern_result find_group(struct tern_exact_mean *mean,
                                   const struct tern_contribution *contribution,
                                   struct tern_exact_group **found)
{
    const struct tern_exact_group wanted = {
        .local_steps = tern_strategy_normalises(&mean->rule) ? contribution->local_steps : 0,
        .staleness = mean->rule.strategy->age_weight != NULL ? contribution->staleness : 0};
    for (uint32_t i = 0; i < mean->group_count; i++) {
        *found = &mean->groups[i];
        if ((*found)->local_steps == wanted.local_steps &&
            (*found)->staleness == wanted.staleness) {
            return TERN_OK;
        }
    }
    struct tern_exact_group *grown =
        realloc(mean->groups, ((size_t)mean->group_count + 1) * sizeof *grown);
    if (grown == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    mean->groups = grown;
    *found = &grown[mean->group_count++];
    **found = wanted;
    return TERN_OK;
}

// The cells of a bin, made when first needed. NULL with addition->result set.
static uint64_t *cells_of(struct addition *addition, unsigned bin)
{
    struct tern_exact_mean *mean = addition->mean;
    const size_t count = mean->end - mean->first;
    const uint64_t size = (uint64_t)count * sizeof(uint64_t);
    if (bin >= TERN_EXACT_BINS) {
        addition->result = TERN_ERR_NON_FINITE;
        return NULL;
    }
    uint64_t **cells = &addition->group->bins[bin];
    if (*cells == NULL && mean->used + size > mean->memory && count > 1) {
        addition->result = TERN_ERR_NO_SPACE;
        return NULL;
    }
    if (*cells == NULL) {
        *cells = calloc(count, sizeof **cells);
        mean->used += size;
        addition->result = *cells != NULL ? addition->result : TERN_ERR_NO_MEMORY;
    }
    return *cells;
}

// Indices far apart are no pattern that hardware would foresee.
static void add_signs(void *ctx, uint32_t segment, float scale, const struct tern_indices *indices)
{
    struct addition *addition = ctx;
    const struct tern_exact_mean *mean = addition->mean;
    const struct tern_exact_term term = tern_exact_term(addition->weight * scale);
    uint64_t *cells = addition->result == TERN_OK ? cells_of(addition, term.bin) : NULL;
    if (cells == NULL) {
        return;
    }
    // Where the segment begins before the window, this wraps, and so do the indices before it.
    const size_t from = (size_t)mean->model->segments[segment].offset - mean->first;
    const size_t count = mean->end - mean->first;
    for (size_t i = 0; i < indices->count; i++) {
        size_t at = from + (size_t)(indices->of[i] / 2);
        __builtin_prefetch(&cells[at < count ? at : 0], 1);
    }
    for (size_t i = 0; i < indices->count; i++) {
        size_t at = from + (size_t)(indices->of[i] / 2);
        uint64_t negative = 0 - (uint64_t)(indices->of[i] & 1);
        if (at < count) {
            cells[at] += (term.amount ^ negative) - negative;
        }
    }
}

static enum tern_result add_values(void *ctx, uint32_t segment, uint32_t first, const float *values,
                                   uint32_t count)
{
    struct addition *addition = ctx;
    const struct tern_exact_mean *mean = addition->mean;
    const uint32_t start = mean->model->segments[segment].offset + first;
    const uint32_t skipped = start < mean->first ? mean->first - start : 0;
    for (uint32_t i = skipped; i < count && start + i < mean->end; i++) {
        const struct tern_exact_term term = tern_exact_term(addition->weight * values[i]);
        uint64_t *cells = term.bin < TERN_EXACT_BINS ? addition->group->bins[term.bin] : NULL;
        if (term.amount == 0) {
            continue;
        }
        if (cells == NULL) {
            cells = cells_of(addition, term.bin);
            TERN_TRY(addition->result);
        }
        cells[start + i - mean->first] += term.amount;
    }
    return TERN_OK;
}

// Those of which something is in the window, and that were not kept.
static bool wants(void *ctx, uint32_t segment)
{
    const struct addition *addition = ctx;
    const struct tern_exact_mean *mean = addition->mean;
    const struct tern_segment *place = &mean->model->segments[segment];
    return place->offset < mean->end && place->offset + place->count > mean->first &&
           !tern_reading_keeps(addition->reading, segment);
}

static float *scratch_of(void *ctx, uint32_t count)
{
    struct addition *addition = ctx;
    struct tern_exact_mean *mean = addition->mean;
    if (mean->scratch == NULL) {
        uint32_t most = count;
        for (uint32_t i = 0; i < mean->model->segment_count; i++) {
            most = mean->model->segments[i].count > most ? mean->model->segments[i].count : most;
        }
        mean->scratch = malloc((size_t)most * sizeof *mean->scratch);
    }
    return mean->scratch;
}

enum tern_result tern_exact_mean_add(struct tern_exact_mean *mean,
                                     const struct tern_contribution *contribution,
                                     const uint8_t *container, size_t len,
                                     const struct tern_reading *reading)
{
    struct addition addition = {
        .mean = mean, .reading = reading, .weight = (float)contribution->num_examples};
    const struct tern_container_visitor visitor = {.ctx = &addition,
                                                   .wants = wants,
                                                   .signs = add_signs,
                                                   .values = add_values,
                                                   .scratch = scratch_of};
    TERN_TRY(find_group(mean, contribution, &addition.group));
    tern_reading_each(reading, add_signs, &addition);
    TERN_TRY(tern_container_each(mean->model, container, len, &visitor, NULL));
    TERN_TRY(addition.result);
    mean->updates++;
    return TERN_OK;
}

// --- The mean

static int compare_groups(const void *a, const void *b)
{
    const struct tern_exact_group *one = a;
    const struct tern_exact_group *other = b;
    if (one->local_steps != other->local_steps) {
        return one->local_steps < other->local_steps ? -1 : 1;
    }
    return (one->staleness > other->staleness) - (one->staleness < other->staleness);
}

#define BLOCK 256 // coordinates that are taken together

// sums[0..width) += factor * what the group holds of the coordinates from `from` on, in double.
static void add_group(const struct tern_exact_mean *mean, const struct tern_exact_group *group,
                      double factor, uint32_t from, uint32_t width, double sums[BLOCK])
{
    double held[BLOCK] = {0.0};
    for (unsigned bin = 0; bin < TERN_EXACT_BINS; bin++) {
        const uint64_t *cells = group->bins[bin];
        for (uint32_t i = 0; cells != NULL && i < width; i++) {
            held[i] += tern_exact_of(bin, cells[from - mean->first + i]);
        }
    }
    for (uint32_t i = 0; i < width; i++) {
        sums[i] += factor * held[i];
    }
}

static double factor_of(const struct tern_exact_group *group,
                        const struct tern_strategy_totals *totals, bool dense)
{
    const struct tern_contribution like = {.staleness = group->staleness};
    double age = tern_strategy_age_weight(totals->rule.strategy, &like);
    return dense ? age : age * tern_strategy_steps_factor(totals, group->local_steps);
}

static void take_segment(const struct tern_exact_mean *mean,
                         const struct tern_strategy_totals *totals, uint32_t from, uint32_t end,
                         bool dense, float *acc)
{
    for (uint32_t at = from; at < end; at += BLOCK) {
        const uint32_t width = end - at < BLOCK ? end - at : BLOCK;
        double sums[BLOCK] = {0.0};
        for (uint32_t i = 0; i < mean->group_count; i++) {
            const struct tern_exact_group *group = &mean->groups[i];
            add_group(mean, group, factor_of(group, totals, dense), at, width, sums);
        }
        for (uint32_t i = 0; i < width; i++) {
            acc[at + i] = (float)(sums[i] / (double)totals->num_examples);
        }
    }
}

void tern_exact_mean_take(struct tern_exact_mean *mean, const struct tern_strategy_totals *totals,
                          float *acc)
{
    if (mean->group_count > 0) { // as they came, which the bits must not depend on
        qsort(mean->groups, mean->group_count, sizeof mean->groups[0], compare_groups);
    }
    for (uint32_t i = 0; i < mean->model->segment_count; i++) {
        const struct tern_segment *segment = &mean->model->segments[i];
        const uint32_t past = segment->offset + segment->count;
        const uint32_t from = segment->offset > mean->first ? segment->offset : mean->first;
        const uint32_t end = past < mean->end ? past : mean->end;
        take_segment(mean, totals, from, end, !tern_segment_is_coded(segment), acc);
    }
}
