#include "strategies/per_coordinate.h"

#include <stdlib.h>
#include <string.h>

// Values are sorted as whole numbers that have the order of the floats. That order is total, so the
// result does not depend on a library's sort: -0 comes before 0.
static uint32_t key_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

static float value_of(uint32_t key)
{
    uint32_t bits = (key & 0x80000000U) != 0 ? key & 0x7FFFFFFFU : ~key;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

// Coordinates from sums->first on that the columns have room for.
static uint32_t width_of(const struct tern_strategy_sums *sums)
{
    size_t width = sums->memory.columns_room / sums->totals.updates;
    uint32_t left = sums->model->count - sums->first;
    return width < left ? (uint32_t)width : left;
}

// How many of n are left out on each side; at least one is kept, of an even number two.
static uint32_t cut_of(uint32_t n, double share)
{
    uint32_t most = (n - 1) / 2;
    // A share is a float32: a fifth of ten is 2, not 1.99999998.
    uint32_t cut = (uint32_t)((double)n * share + 1e-6);
    return cut < most ? cut : most;
}

static float middle_mean(uint32_t *column, uint32_t n, double share)
{
    uint32_t cut = cut_of(n, share);
    double sum = 0.0;
    qsort(column, n, sizeof column[0], compare);
    for (uint32_t i = cut; i < n - cut; i++) {
        sum += (double)value_of(column[i]);
    }
    return (float)(sum / (double)(n - 2 * cut));
}

// Every update of this pass is in: the range becomes part of acc, and the next pass may begin.
static void finish_range(struct tern_strategy_sums *sums, double share)
{
    uint32_t n = sums->totals.updates;
    uint32_t width = width_of(sums);
    for (uint32_t i = 0; i < width; i++) {
        uint32_t *column = sums->memory.columns + (size_t)i * n;
        sums->memory.acc[sums->first + i] = middle_mean(column, n, share);
    }
    sums->first += width;
    sums->accumulated = 0;
}

enum tern_result tern_columns_accumulate(struct tern_strategy_sums *sums,
                                         const struct tern_contribution *contribution,
                                         const uint8_t *container, size_t len, double share)
{
    const float *decoded = sums->memory.decoded;
    uint32_t n = sums->totals.updates;
    if (n == 0 || sums->first == sums->model->count) {
        return TERN_ERR_STATE;
    }
    TERN_TRY(tern_container_decode(sums->model, container, len, sums->memory.decoded));
    if (sums->first == 0) {
        sums->loss_sum += (double)contribution->num_examples * (double)contribution->loss;
    }
    uint32_t width = width_of(sums);
    for (uint32_t i = 0; i < width; i++) {
        sums->memory.columns[(size_t)i * n + sums->accumulated] = key_of(decoded[sums->first + i]);
    }
    sums->accumulated++;
    if (sums->accumulated == n) {
        finish_range(sums, share);
    }
    return TERN_OK;
}

bool tern_columns_ready(const struct tern_strategy_sums *sums)
{
    return sums->totals.updates != 0 && sums->first == sums->model->count;
}

enum tern_result tern_columns_merge(struct tern_strategy_sums *sums, float *global)
{
    return tern_columns_ready(sums) ? tern_sums_move(sums, global) : TERN_ERR_STATE;
}
