#include "data/columns.h"

#include "wire/wire.h"
#include <float.h>
#include <string.h>

bool tern_data_has_columns(const struct tern_data *data)
{
    return data->train.values != NULL || data->test.values != NULL;
}

// --- Statistics

static double value_of(const struct tern_view *view, uint32_t example, uint32_t column)
{
    const struct tern_dataset *data = view->dataset;
    const uint32_t index = view->indices != NULL ? view->indices[example] : example;
    return (double)data->values[(size_t)index * data->feature_count + column];
}

static enum tern_result measure_column(const struct tern_view *view, uint32_t column,
                                       struct tern_column_pair *pair)
{
    double mean = 0.0;
    double variance = 0.0;
    for (uint32_t i = 0; i < view->count; i++) {
        mean += value_of(view, i, column);
    }
    mean /= (double)view->count;
    for (uint32_t i = 0; i < view->count; i++) {
        const double off = value_of(view, i, column) - mean;
        variance += off * off;
    }
    variance /= (double)view->count;
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
    for (uint32_t c = 0; c < view->dataset->feature_count; c++) {
        struct tern_column_pair pair;
        TERN_TRY(measure_column(view, c, &pair));
        tern_column_put(columns, c, pair);
    }
    *num_examples = view->count;
    return TERN_OK;
}

// --- Scaling

static double scaled(float value, struct tern_column_pair pair)
{
    return ((double)value - (double)pair.mean) / (double)pair.spread;
}

static enum tern_result check_part(const struct tern_dataset *part, struct tern_span columns)
{
    for (uint32_t c = 0; c < part->feature_count; c++) {
        const struct tern_column_pair pair = tern_column_get(columns, c);
        for (uint32_t i = 0; i < part->count; i++) {
            const double value = scaled(part->values[(size_t)i * part->feature_count + c], pair);
            if (!(value >= -(double)FLT_MAX && value <= (double)FLT_MAX)) {
                return TERN_ERR_NON_FINITE;
            }
        }
    }
    return TERN_OK;
}

// The readers take memory for values, of which others see them as constant.
static void scale_part(const struct tern_dataset *part, struct tern_span columns)
{
    float *values;
    memcpy(&values, &part->values, sizeof values);
    for (uint32_t c = 0; c < part->feature_count; c++) {
        const struct tern_column_pair pair = tern_column_get(columns, c);
        for (uint32_t i = 0; i < part->count; i++) {
            float *value = values + (size_t)i * part->feature_count + c;
            *value = (float)scaled(*value, pair);
        }
    }
}

enum tern_result tern_columns_scale(struct tern_data *data, const uint8_t *columns)
{
    const struct tern_span span = {columns, 0};
    TERN_TRY(check_part(&data->train, span));
    TERN_TRY(check_part(&data->test, span));
    scale_part(&data->train, span);
    scale_part(&data->test, span);
    return TERN_OK;
}
