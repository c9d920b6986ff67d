// Merges the counted updates: takes their weighted mean, or combines blocks of their values, and moves the model.
#include "strategies/strategy.h"

#include <math.h>
#include <string.h>

void tern_strategy_begin(struct tern_strategy_sums *sums, const struct tern_model *model,
                         const struct tern_strategy_totals *totals,
                         const struct tern_strategy_memory *memory)
{
    memset(sums, 0, sizeof *sums);
    sums->strategy = totals->rule.strategy;
    if (sums->strategy->combine != NULL) { // the caller has set acc for other strategies
        memset(memory->acc, 0, model->count * sizeof memory->acc[0]);
    }
    sums->model = model;
    sums->totals = *totals;
    sums->memory = *memory;
}

enum tern_result tern_strategy_take_mean(struct tern_strategy_sums *sums)
{
    if (sums->totals.updates == 0 || sums->strategy->combine != NULL) {
        return TERN_ERR_STATE;
    }
    sums->accumulated = sums->totals.updates;
    return TERN_OK;
}

// Returns the width of the next block: the number of coordinates, from sums->first on, for which memory.values has
// room.
static uint32_t width_of(const struct tern_strategy_sums *sums)
{
    size_t width = sums->memory.values_room / sums->totals.updates;
    uint32_t left = sums->model->count - sums->first;
    return width < left ? (uint32_t)width : left;
}

static enum tern_result add_to_block(struct tern_strategy_sums *sums, const uint8_t *container,
                                     size_t len)
{
    const struct tern_strategy_memory *memory = &sums->memory;
    const uint32_t width = width_of(sums);
    TERN_TRY(tern_container_decode(sums->model, container, len, memory->decoded));
    memcpy(memory->values + (size_t)sums->accumulated * width, memory->decoded + sums->first,
           width * sizeof memory->values[0]);
    return TERN_OK;
}

static void combine_block(struct tern_strategy_sums *sums)
{
    const struct tern_strategy_block block = {.values = sums->memory.values,
                                              .updates = sums->totals.updates,
                                              .first = sums->first,
                                              .width = width_of(sums),
                                              .pass = sums->pass};
    sums->strategy->combine(sums, &block);
    sums->first += block.width;
    if (sums->first == sums->model->count) {
        sums->first = 0;
        sums->pass++;
    }
}

// Combines the block, which contains every update. A block of all coordinates serves the further passes, too.
static void finish_block(struct tern_strategy_sums *sums)
{
    const bool whole = width_of(sums) == sums->model->count;
    do {
        combine_block(sums);
    } while (whole && !tern_strategy_is_complete(sums));
    sums->accumulated = 0;
}

enum tern_result tern_strategy_accumulate(struct tern_strategy_sums *sums, const uint8_t *container,
                                          size_t len)
{
    const uint32_t counted = sums->totals.updates;
    if (sums->strategy->combine == NULL || counted == 0 || tern_strategy_is_complete(sums)) {
        return TERN_ERR_STATE;
    }
    TERN_TRY(add_to_block(sums, container, len));
    sums->accumulated++;
    if (sums->accumulated == counted) {
        finish_block(sums);
    }
    return TERN_OK;
}

bool tern_strategy_is_complete(const struct tern_strategy_sums *sums)
{
    const uint32_t counted = sums->totals.updates;
    const uint32_t passes = sums->strategy->passes;
    return counted != 0 && (passes > 0 ? sums->pass == passes : sums->accumulated == counted);
}

// Moves the global model: global += server learning rate * acc.
static enum tern_result move_model(struct tern_strategy_sums *sums, float *global)
{
    const float *acc = sums->memory.acc;
    float rate = sums->totals.rule.server_learning_rate;
    double square = 0.0;
    bool finite = true;
    for (uint32_t i = 0; i < sums->model->count; i++) {
        float step = rate * acc[i];
        global[i] += step;
        finite = finite && isfinite(global[i]);
        square += (double)step * (double)step;
    }
    sums->step_square = square;
    return finite ? TERN_OK : TERN_ERR_NON_FINITE;
}

static double square_of(const float *values, uint32_t count)
{
    double square = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        square += (double)values[i] * (double)values[i];
    }
    return square;
}

enum tern_result tern_strategy_merge(struct tern_strategy_sums *sums, float *global)
{
    if (!tern_strategy_is_complete(sums)) {
        return TERN_ERR_STATE;
    }
    sums->mean_square = square_of(sums->memory.acc, sums->model->count);
    if (sums->strategy->step != NULL) {
        sums->strategy->step(sums);
    }
    return move_model(sums, global);
}

static double sum_of_losses(const struct tern_strategy_totals *totals)
{
    double sum = 0.0;
    for (unsigned bin = 0; bin < TERN_EXACT_BINS; bin++) {
        sum += tern_exact_bin_value(bin, totals->loss[bin]);
    }
    return sum;
}

void tern_strategy_fill_report(const struct tern_strategy_sums *sums,
                               struct tern_strategy_report *report)
{
    double total = (double)sums->totals.num_examples;
    report->updates = sums->totals.updates;
    report->num_examples = sums->totals.num_examples;
    report->mean_loss = (float)(sum_of_losses(&sums->totals) / total);
    report->effective_steps = (float)((double)sums->totals.example_steps / total);
    report->mean_norm = (float)sqrt(sums->mean_square);
    report->step_norm = (float)sqrt(sums->step_square);
}
