// Computes statistics of the columns and targets of examples in memory, and scales them by a federation's shared statistics
// (struct tern_column_port of ports.h). It covers float32 values; bytes of images have their own scale and offset. Called by
// client/cli and lab/fleet. Reentrant, except for the data set that is changed.
#ifndef TERN_DATA_COLUMNS_H
#define TERN_DATA_COLUMNS_H

#include "data/source.h"

// Whether the examples are float32 values.
bool tern_data_has_columns(const struct tern_data *data);

// The number of columns: the features, then the targets if there are any.
uint32_t tern_data_columns(const struct tern_data *data);

// Implements tern_column_port.measure for the examples of the view, whose data set must have columns.
TERN_MUST_USE enum tern_result tern_columns_measure(const struct tern_view *view, uint8_t *columns,
                                                    uint32_t *num_examples);

// Returns the root mean square of a column's values: 1 for standardised ones, less for bytes of images. A column above
// TERN_COLUMN_LARGE dominates the others at the usual learning rates.
#define TERN_COLUMN_LARGE 10.0
double tern_columns_size(const struct tern_dataset *data, uint32_t column);

// Returns the standard deviation of a column's values.
double tern_columns_deviation(const struct tern_dataset *data, uint32_t column);

// Finds which of the first `columns` columns are larger than TERN_COLUMN_LARGE; data must have values.
#define TERN_COLUMNS_FOUND 5
struct tern_large_columns {
    uint32_t count;
    double most; // the largest size of all columns
    uint32_t first[TERN_COLUMNS_FOUND];
    double size[TERN_COLUMNS_FOUND]; // size[i] of column first[i]
};
void tern_columns_large(const struct tern_dataset *data, uint32_t columns,
                        struct tern_large_columns *large);

// Describes columns and targets that are too large for training. Returns false when there are none. remedy: what to set.
#define TERN_COLUMNS_TEXT_MAX 320
bool tern_columns_are_unscaled(const struct tern_dataset *data, const char *remedy,
                               char text[TERN_COLUMNS_TEXT_MAX]);

// Implements tern_column_port.scale for both parts of a data set that has columns. Stores the target's mean and deviation in
// both parts.
// TERN_ERR_MODEL_MISMATCH  `count` differs from the number of columns
TERN_MUST_USE enum tern_result tern_columns_scale(struct tern_data *data, const uint8_t *columns,
                                                  uint32_t count);

#endif
