// Prepares the rows of a table or array: shuffles them, splits off test rows, scales them, imputes missing values, selects a
// group, and moves them into a struct tern_dataset. Called by csv_table.c and npy.c. Reentrant.
#ifndef TERN_ROWS_H
#define TERN_ROWS_H

#include "data/dataset.h"
#include "data/readers.h"
#include "result.h"

struct tern_rows {
    uint8_t *bytes; // [count][features], malloc'ed like all arrays here; NULL: values are given
    float *values;  // [count][features], or NULL
    uint16_t *labels;
    float *targets;   // NULL: none
    uint32_t *groups; // NULL: none
    // [count][(features + 7) / 8] bits: 1 for a value that was missing; NULL: no value was
    uint8_t *imputed;
    uint32_t count;
    uint32_t features;
    uint32_t classes;
    double target_mean;      // mean before scaling; 0: not scaled
    double target_deviation; // deviation before scaling; 0 or 1: not scaled
};

void tern_rows_free(struct tern_rows *rows);

// Shuffles the rows. The same seed gives the same order on every machine.
void tern_rows_shuffle(struct tern_rows *rows, uint64_t seed);

// Removes the rows of all other groups, and sets rows->count. The remaining rows keep their order.
void tern_rows_keep_group(struct tern_rows *rows, uint32_t group);

// Moves the last `count` rows, which must be fewer than all, to *last. TERN_ERR_NO_MEMORY: *last is empty
TERN_MUST_USE enum tern_result tern_rows_split(struct tern_rows *rows, uint32_t count,
                                               struct tern_rows *last);

// Replaces each value of a column by (value - mean) / deviation; deviation > 0.
void tern_rows_scale(struct tern_rows *rows, uint32_t column, double mean, double deviation);

// Replaces each target by (target - mean) / deviation, and stores mean and deviation in rows. Call it at most once.
void tern_rows_scale_targets(struct tern_rows *rows, double mean, double deviation);

// Replaces each missing value (NAN) by values[column], and sets its bit in rows->imputed. values has an entry for each feature.
// TERN_ERR_NO_MEMORY: nothing is changed
TERN_MUST_USE enum tern_result tern_rows_impute(struct tern_rows *rows, const double *values);

// Writes the mean of each column's present values to means[features]; 0 for a column without values.
void tern_rows_means(const struct tern_rows *rows, double *means);

// Scales each column of values, and the targets, to mean 0 and variance 1 over the rows of train (a constant column to 0).
// Applies the same scaling to the rows of test, which may be empty. Missing values (NAN) are ignored and stay missing.
void tern_rows_standardise(struct tern_rows *train, struct tern_rows *test);

// Moves the rows into *data as examples with height x width x channels = features. Keeps data's scale and offset.
void tern_rows_move_to_dataset(struct tern_rows *rows, uint32_t height, uint32_t width,
                               uint32_t channels, struct tern_dataset *data);

// --- The options only, test, seed and scale

struct tern_split_options {
    const char *only; // only the training rows of this group are used; NULL: those of all groups
    // fraction of the rows that become test rows; unused when the data has test rows already
    float test;
    uint64_t seed;       // seed of the shuffle that selects the test rows
    bool standard;       // standardise the features by the training rows
    const char *scaling; // file with the scaling; NULL: none
};

// Returns whether an option scales the rows.
static inline bool tern_split_scales(const struct tern_split_options *options)
{
    return options->standard || options->scaling != NULL;
}

// Reads the options. test_file: the value of the option that names a file of test rows, which excludes the option `test`; NULL:
// not set.
// TERN_ERR_CONFIG
TERN_MUST_USE enum tern_result tern_split_read(struct tern_data_spec *spec, const char *test_file,
                                               struct tern_split_options *options);

// Shuffles the training rows, moves the fraction options->test of them to *test if *test is empty, sets both class counts to
// the larger one, and standardises float32 values if options->standard is set. Rows of new data (spec->part->new_rows) are
// neither shuffled nor moved.
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_split_rows(const struct tern_data_spec *spec,
                                               const struct tern_split_options *options,
                                               struct tern_rows *train, struct tern_rows *test);

// --- The scaling file that all clients of a federation share: a CSV table with the columns `column`, `mean` and `deviation`,
// a row for each feature in the table's order, then a row for the target, if any. `tern-aggregator init --data` writes the
// file.

// Replaces every value of train and test by (value - mean) / deviation. names: the features' names, each with a NUL; NULL: the
// table has no header line, and the order of the columns decides. target: the target column's name; NULL: no target. After an
// error spec->why describes the error, and some columns may already be scaled.
// TERN_ERR_CONFIG   the file does not exist
// TERN_ERR_CORRUPT  its columns differ from the table's, a mean is no number, a deviation is not positive; errors of
//                   tern_csv_next()
TERN_MUST_USE enum tern_result tern_scaling_file_apply(const struct tern_data_spec *spec,
                                                       const char *path, const char *names,
                                                       const char *target, struct tern_rows *train,
                                                       struct tern_rows *test);

#endif
