#include "data/rows.h"
#include "data/random.h"
#include "util/sqrt.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void tern_rows_free(struct tern_rows *rows)
{
    free(rows->bytes);
    free(rows->values);
    free(rows->labels);
    free(rows->targets);
    free(rows->groups);
    free(rows->filled);
    memset(rows, 0, sizeof *rows);
}

static void swap_bytes(uint8_t *x, uint8_t *y, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const uint8_t kept = x[i];
        x[i] = y[i];
        y[i] = kept;
    }
}

// The array's element `size` bytes wide and its row's number; NULL stays NULL.
static uint8_t *at(void *array, size_t size, uint32_t row)
{
    return array != NULL ? (uint8_t *)array + size * row : NULL;
}

static void swap_in(void *array, size_t size, uint32_t a, uint32_t b)
{
    if (array != NULL) {
        swap_bytes(at(array, size, a), at(array, size, b), size);
    }
}

void tern_rows_shuffle(struct tern_rows *rows, uint64_t seed)
{
    struct tern_prng rng;
    tern_prng_init(&rng, seed, TERN_PRNG_DATA, TERN_DATA_SPLIT, 0);
    for (uint32_t i = rows->count; i > 1; i--) {
        const uint32_t j = tern_prng_below(&rng, i);
        swap_in(rows->bytes, rows->features, i - 1, j);
        swap_in(rows->values, rows->features * sizeof *rows->values, i - 1, j);
        swap_in(rows->labels, sizeof *rows->labels, i - 1, j);
        swap_in(rows->targets, sizeof *rows->targets, i - 1, j);
        swap_in(rows->groups, sizeof *rows->groups, i - 1, j);
    }
}

static void move_in(void *array, size_t size, uint32_t from, uint32_t to)
{
    if (array != NULL) {
        memmove(at(array, size, to), at(array, size, from), size);
    }
}

void tern_rows_keep_group(struct tern_rows *rows, uint32_t group)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < rows->count; i++) {
        if (rows->groups[i] == group) {
            move_in(rows->bytes, rows->features, i, kept);
            move_in(rows->values, rows->features * sizeof *rows->values, i, kept);
            move_in(rows->labels, sizeof *rows->labels, i, kept);
            move_in(rows->targets, sizeof *rows->targets, i, kept);
            rows->groups[kept++] = group;
        }
    }
    rows->count = kept;
}

// A copy of the elements from row `first` on; true when there is memory, or nothing to copy.
static bool copy_last(void **copy, void *array, size_t size, uint32_t first, uint32_t count)
{
    if (array == NULL) {
        return true;
    }
    *copy = malloc(size * count);
    if (*copy == NULL) {
        return false;
    }
    memcpy(*copy, at(array, size, first), size * count);
    return true;
}

enum tern_result tern_rows_split(struct tern_rows *rows, uint32_t count, struct tern_rows *last)
{
    *last = (struct tern_rows){.features = rows->features, .classes = rows->classes};
    if (count == 0) {
        return TERN_OK;
    }
    const uint32_t first = rows->count - count;
    void *copies[5] = {NULL, NULL, NULL, NULL, NULL};
    const bool copied =
        copy_last(&copies[0], rows->bytes, rows->features, first, count) &&
        copy_last(&copies[1], rows->values, rows->features * sizeof *rows->values, first, count) &&
        copy_last(&copies[2], rows->labels, sizeof *rows->labels, first, count) &&
        copy_last(&copies[3], rows->groups, sizeof *rows->groups, first, count) &&
        copy_last(&copies[4], rows->targets, sizeof *rows->targets, first, count);
    last->bytes = copies[0];
    last->values = copies[1];
    last->labels = copies[2];
    last->groups = copies[3];
    last->targets = copies[4];
    if (!copied) {
        tern_rows_free(last);
        return TERN_ERR_NO_MEMORY;
    }
    last->count = count;
    rows->count = first;
    return TERN_OK;
}

void tern_rows_scale(struct tern_rows *rows, uint32_t column, double mean, double deviation)
{
    float *values = rows->values + column;
    for (uint32_t i = 0; i < rows->count; i++, values += rows->features) {
        *values = (float)(((double)*values - mean) / deviation);
    }
}

void tern_rows_scale_targets(struct tern_rows *rows, double mean, double deviation)
{
    for (uint32_t i = 0; i < rows->count; i++) {
        rows->targets[i] = (float)(((double)rows->targets[i] - mean) / deviation);
    }
    rows->target_mean = mean;
    rows->target_deviation = deviation;
}

struct statistics {
    double mean;
    double deviation; // 1 of a constant
};

// Takes every step-th value and skips missing ones.
static struct statistics measure(const float *values, size_t step, uint32_t count)
{
    double mean = 0.0;
    double variance = 0.0;
    uint32_t there = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!isnan(values[i * step])) {
            mean += (double)values[i * step];
            there++;
        }
    }
    mean = there > 0 ? mean / (double)there : 0.0;
    for (uint32_t i = 0; i < count; i++) {
        if (!isnan(values[i * step])) {
            const double off = (double)values[i * step] - mean;
            variance += off * off;
        }
    }
    const double deviation = there > 0 ? tern_sqrt(variance / (double)there) : 0.0;
    return (struct statistics){mean, deviation > 0.0 ? deviation : 1.0};
}

void tern_rows_means(const struct tern_rows *rows, double *means)
{
    for (uint32_t c = 0; c < rows->features; c++) {
        means[c] = measure(rows->values + c, rows->features, rows->count).mean;
    }
}

enum tern_result tern_rows_fill(struct tern_rows *rows, const double *values)
{
    const size_t width = ((size_t)rows->features + 7) / 8;
    if (rows->count == 0) {
        return TERN_OK;
    }
    uint8_t *filled = calloc(rows->count, width);
    if (filled == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < rows->count; i++) {
        float *row = rows->values + (size_t)i * rows->features;
        for (uint32_t c = 0; c < rows->features; c++) {
            if (isnan(row[c])) {
                row[c] = (float)values[c];
                filled[i * width + c / 8] |= (uint8_t)(1u << c % 8);
            }
        }
    }
    rows->filled = filled;
    return TERN_OK;
}

void tern_rows_standardise(struct tern_rows *train, struct tern_rows *test)
{
    for (uint32_t c = 0; train->values != NULL && c < train->features; c++) {
        const struct statistics found = measure(train->values + c, train->features, train->count);
        tern_rows_scale(train, c, found.mean, found.deviation);
        tern_rows_scale(test, c, found.mean, found.deviation);
    }
    if (train->targets != NULL) {
        const struct statistics found = measure(train->targets, 1, train->count);
        tern_rows_scale_targets(train, found.mean, found.deviation);
        tern_rows_scale_targets(test, found.mean, found.deviation);
    }
}

void tern_rows_give(struct tern_rows *rows, uint32_t height, uint32_t width, uint32_t channels,
                    struct tern_dataset *data)
{
    data->count = rows->count;
    data->feature_count = rows->features;
    data->class_count = rows->classes;
    data->height = height;
    data->width = width;
    data->channels = channels;
    data->bytes = rows->bytes;
    data->values = rows->values;
    data->labels = rows->labels;
    data->groups = rows->groups;
    data->filled = rows->filled;
    data->targets = rows->targets;
    data->target_mean = (float)rows->target_mean;
    data->target_deviation = rows->target_deviation > 0 ? (float)rows->target_deviation : 1.0f;
    memset(rows, 0, sizeof *rows);
}
