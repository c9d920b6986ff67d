#include "data/columns.h"

#include "hosted/csv_text.h"
#include "util/math.h"
#include "wire/wire.h"
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool tern_data_has_columns(const struct tern_data *data)
{
    return data->train.values != NULL || data->test.values != NULL;
}

static uint32_t columns_of(const struct tern_dataset *part)
{
    return part->feature_count + (part->targets != NULL);
}

uint32_t tern_data_columns(const struct tern_data *data)
{
    return columns_of(data->train.values != NULL ? &data->train : &data->test);
}

// --- Statistics

static double value_of(const struct tern_dataset *part, uint32_t example, uint32_t column)
{
    return column < part->feature_count
               ? (double)part->values[(size_t)example * part->feature_count + column]
               : (double)part->targets[example];
}

// Returns whether the value was missing, and its column's mean replaces it.
static bool is_imputed(const struct tern_dataset *part, uint32_t example, uint32_t column)
{
    const size_t width = ((size_t)part->feature_count + 7) / 8;
    return part->imputed != NULL && column < part->feature_count &&
           (part->imputed[example * width + column / 8] >> column % 8 & 1) != 0;
}

static uint32_t example_of(const struct tern_view *view, uint32_t position)
{
    return view->indices != NULL ? view->indices[position] : position;
}

static bool is_present(const struct tern_view *view, uint32_t position, uint32_t column)
{
    return !is_imputed(view->dataset, example_of(view, position), column);
}

static double value_in(const struct tern_view *view, uint32_t position, uint32_t column)
{
    return value_of(view->dataset, example_of(view, position), column);
}

static enum tern_result measure_column(const struct tern_view *view, uint32_t column,
                                       struct tern_column_pair *pair)
{
    double mean = 0.0;
    double variance = 0.0;
    uint32_t present = 0;
    for (uint32_t i = 0; i < view->count; i++) {
        if (is_present(view, i, column)) {
            mean += value_in(view, i, column);
            present++;
        }
    }
    // A column whose values were all missing contributes the value that replaces them, without variance.
    mean = present > 0 ? mean / (double)present : value_in(view, 0, column);
    for (uint32_t i = 0; i < view->count; i++) {
        const double off = is_present(view, i, column) ? value_in(view, i, column) - mean : 0.0;
        variance += off * off;
    }
    variance /= present > 0 ? (double)present : 1.0;
    if (!(variance <= (double)FLT_MAX)) {
        return TERN_ERR_NON_FINITE;
    }
    *pair = (struct tern_column_pair){(float)mean, (float)variance};
    return TERN_OK;
}

enum tern_result tern_columns_measure(const struct tern_view *view, uint8_t *columns,
                                      uint32_t *num_examples)
{
    if (view->count == 0 || view->dataset->values == NULL) {
        return TERN_ERR_NOT_FOUND;
    }
    for (uint32_t c = 0; c < columns_of(view->dataset); c++) {
        struct tern_column_pair pair;
        TERN_TRY(measure_column(view, c, &pair));
        tern_column_put(columns, c, pair);
    }
    *num_examples = view->count;
    return TERN_OK;
}

double tern_columns_size(const struct tern_dataset *data, uint32_t column)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < data->count; i++) {
        const double value = value_of(data, i, column);
        sum += value * value;
    }
    return data->count > 0 ? tern_sqrt(sum / (double)data->count) : 0.0;
}

double tern_columns_deviation(const struct tern_dataset *data, uint32_t column)
{
    double mean = 0.0;
    double squares = 0.0;
    for (uint32_t i = 0; i < data->count; i++) {
        const double off = value_of(data, i, column) - mean;
        mean += off / (double)(i + 1);
        squares += off * (value_of(data, i, column) - mean);
    }
    return data->count > 0 ? tern_sqrt(squares / (double)data->count) : 0.0;
}

void tern_columns_large(const struct tern_dataset *data, uint32_t columns,
                        struct tern_large_columns *large)
{
    memset(large, 0, sizeof *large);
    for (uint32_t c = 0; c < columns; c++) {
        const double size = tern_columns_size(data, c);
        large->largest = size > large->largest ? size : large->largest;
        if (size > TERN_COLUMN_LARGE && large->count++ < TERN_COLUMNS_FOUND) {
            large->first[large->count - 1] = c;
            large->size[large->count - 1] = size;
        }
    }
}

bool tern_columns_are_unscaled(const struct tern_dataset *data, const char *remedy,
                               char text[TERN_COLUMNS_TEXT_MAX])
{
    const uint32_t columns = data->values != NULL ? columns_of(data) : 0;
    struct tern_large_columns large;
    tern_columns_large(data, columns, &large);
    snprintf(text, TERN_COLUMNS_TEXT_MAX,
             "%" PRIu32 " of %" PRIu32 " column%s %s unscaled, by up to %.4g (root mean square; "
             "training expects about 1), so that training learns little or nothing: set %s",
             large.count, columns, tern_plural(columns), large.count == 1 ? "is" : "are",
             large.largest, remedy);
    return large.count > 0;
}

// --- Scaling

static double scaled(double value, struct tern_column_pair pair)
{
    return (value - (double)pair.mean) / (double)pair.spread;
}

static enum tern_result check_scaling(const struct tern_dataset *part, struct tern_span columns)
{
    for (uint32_t c = 0; part->values != NULL && c < columns_of(part); c++) {
        const struct tern_column_pair pair = tern_column_get(columns, c);
        for (uint32_t i = 0; i < part->count; i++) {
            const double value = scaled(value_of(part, i, c), pair);
            if (!(value >= -(double)FLT_MAX && value <= (double)FLT_MAX)) {
                return TERN_ERR_NON_FINITE;
            }
        }
    }
    return TERN_OK;
}

// Scales the values first[0], first[step], ..., `count` in number. The data set's pointers to them are const, but the readers
// allocated the values.
static void scale_column(const float *first, size_t step, uint32_t count,
                         struct tern_column_pair pair)
{
    float *values;
    memcpy(&values, &first, sizeof values);
    for (uint32_t i = 0; i < count; i++) {
        values[i * step] = (float)scaled((double)values[i * step], pair);
    }
}

// Sets values that were missing to the mean of all clients, which is 0 after scaling.
static void impute_column(const struct tern_dataset *part, uint32_t column)
{
    float *values;
    memcpy(&values, &part->values, sizeof values);
    for (uint32_t i = 0; part->imputed != NULL && i < part->count; i++) {
        if (is_imputed(part, i, column)) {
            values[(size_t)i * part->feature_count + column] = 0.0f;
        }
    }
}

// Scales the targets, and combines the scaling with that of the reader in target_mean and target_deviation.
static void scale_targets(struct tern_dataset *part, struct tern_column_pair pair)
{
    scale_column(part->targets, 1, part->count, pair);
    part->target_mean += pair.mean * part->target_deviation;
    part->target_deviation *= pair.spread;
}

static void scale_examples(struct tern_dataset *part, struct tern_span columns)
{
    const uint32_t features = part->feature_count;
    for (uint32_t c = 0; part->values != NULL && c < features; c++) {
        scale_column(part->values + c, features, part->count, tern_column_get(columns, c));
        impute_column(part, c);
    }
    if (part->values != NULL && part->targets != NULL) {
        scale_targets(part, tern_column_get(columns, features));
    }
}

enum tern_result tern_columns_scale(struct tern_data *data, const uint8_t *columns, uint32_t count)
{
    const struct tern_span span = {columns, 0};
    if (count != tern_data_columns(data)) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    TERN_TRY(check_scaling(&data->train, span));
    TERN_TRY(check_scaling(&data->test, span));
    scale_examples(&data->train, span);
    scale_examples(&data->test, span);
    return TERN_OK;
}
