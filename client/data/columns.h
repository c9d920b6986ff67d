// Computes statistics of the columns and targets of examples in memory, and scales them by a federation's shared statistics
// (struct tern_column_port of ports.h). Works on float32 values only; bytes of images are scaled by struct tern_dataset's scale
// and offset. Called by client/cli and lab/fleet. Reentrant for different data sets.
#ifndef TERN_DATA_COLUMNS_H
#define TERN_DATA_COLUMNS_H

#include "data/source.h"

// Returns whether the examples are float32 values.
bool tern_data_has_columns(const struct tern_data *data);

// Returns the number of columns: the features, and one more if the data set has targets.
uint32_t tern_data_columns(const struct tern_data *data);

// Implements tern_column_port.measure for the examples of the view, whose data set must have columns.
TERN_MUST_USE enum tern_result tern_columns_measure(const struct tern_view *view, uint8_t *columns,
                                                    uint32_t *num_examples);

// Returns the root mean square of a column's values, which is 1 for standardised columns. A column with more than
// TERN_COLUMN_LARGE dominates the other columns at usual learning rates.
#define TERN_COLUMN_LARGE 10.0
double tern_columns_size(const struct tern_dataset *data, uint32_t column);

// Returns the standard deviation of a column's values.
double tern_columns_deviation(const struct tern_dataset *data, uint32_t column);

// Finds those of the first `columns` columns whose root mean square exceeds TERN_COLUMN_LARGE; data must have float32 values.
#define TERN_COLUMNS_FOUND 5
struct tern_large_columns {
    uint32_t count;                     // number of such columns
    double largest;                     // the largest root mean square of all columns
    uint32_t first[TERN_COLUMNS_FOUND]; // indices of the first such columns
    double size[TERN_COLUMNS_FOUND];    // size[i]: root mean square of column first[i]
};
void tern_columns_large(const struct tern_dataset *data, uint32_t columns,
                        struct tern_large_columns *large);

// Describes in text the columns, and the target, that are too large for training. Returns false if there are none. remedy: the
// setting with which the text recommends to scale them.
#define TERN_COLUMNS_TEXT_MAX 320
bool tern_columns_are_unscaled(const struct tern_dataset *data, const char *remedy,
                               char text[TERN_COLUMNS_TEXT_MAX]);

// Implements tern_column_port.scale for the training and test examples of a data set that has columns, and stores the target's
// mean and deviation in both.
// TERN_ERR_MODEL_MISMATCH  `count` differs from the number of columns
TERN_MUST_USE enum tern_result tern_columns_scale(struct tern_data *data, const uint8_t *columns,
                                                  uint32_t count);

#endif
