// The rows of a table or array while a reader prepares them: shuffling, splitting off a test part, scaling, filling missing
// values, selecting a group, and moving them into a struct tern_dataset. Called by csv_table.c and npy.c. Reentrant.
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
    uint8_t *imputed; // [count][(features + 7) / 8] bits: the value was missing; NULL: none was
    uint32_t count;
    uint32_t features;
    uint32_t classes;
    double target_mean;      // mean before scaling; 0: not scaled
    double target_deviation; // deviation before scaling; 0 or 1: not scaled
};

void tern_rows_free(struct tern_rows *rows);

// The same seed gives the same order on every machine.
void tern_rows_shuffle(struct tern_rows *rows, uint64_t seed);

// Keeps the rows of one group in their order, and sets rows->count.
void tern_rows_keep_group(struct tern_rows *rows, uint32_t group);

// Moves the last `count` rows, fewer than all, to *last. TERN_ERR_NO_MEMORY: *last is empty
TERN_MUST_USE enum tern_result tern_rows_split(struct tern_rows *rows, uint32_t count,
                                               struct tern_rows *last);

// Makes (value - mean) / deviation of a column of values; deviation > 0.
void tern_rows_scale(struct tern_rows *rows, uint32_t column, double mean, double deviation);

// Scales the targets, at most once, and stores mean and deviation.
void tern_rows_scale_targets(struct tern_rows *rows, double mean, double deviation);

// Replaces each missing value (NAN) by its column's entry of values [features], and marks it in rows->imputed.
// TERN_ERR_NO_MEMORY: nothing is changed
TERN_MUST_USE enum tern_result tern_rows_fill(struct tern_rows *rows, const double *values);

// Writes each column's mean over its present values, or 0 without any, to means[features].
void tern_rows_means(const struct tern_rows *rows, double *means);

// Scales each column of values, and the targets, to mean 0 and variance 1 over the rows of train (a constant column to 0),
// and test, which may be empty, in the same way. Ignores and keeps missing values (NAN).
void tern_rows_standardise(struct tern_rows *train, struct tern_rows *test);

// Moves the rows into *data as examples with height x width x channels = features. Keeps data's scale and offset.
void tern_rows_move_to_dataset(struct tern_rows *rows, uint32_t height, uint32_t width,
                               uint32_t channels, struct tern_dataset *data);

// --- The options only, test, seed and scale

struct tern_split_options {
    const char *only;    // keep only this group's training rows; NULL: all
    float test;          // fraction of the rows for the test part; unused when the data has one
    uint64_t seed;       // seed of the shuffle that selects the test part
    bool standard;       // standardise the features by the training rows
    const char *scaling; // file with the scaling; NULL: none
};

// Whether an option scales the rows.
static inline bool tern_split_scales(const struct tern_split_options *options)
{
    return options->standard || options->scaling != NULL;
}

// Reads the options. test_file: the option that names the test part, which excludes `test`; or NULL.
// TERN_ERR_CONFIG
TERN_MUST_USE enum tern_result tern_split_read(struct tern_data_spec *spec, const char *test_file,
                                               struct tern_split_options *options);

// Shuffles train, moves the fraction options->test to *test unless there is a test part, sets both class counts to the
// larger one, and standardises float32 values if requested.
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_split_rows(const struct tern_data_spec *spec,
                                               const struct tern_split_options *options,
                                               struct tern_rows *train, struct tern_rows *test);

// --- The scaling file that all clients of a federation share: a CSV table with the columns `column`, `mean` and `deviation`,
// a row for each feature in the table's order, then one for the target, if any. `tern-aggregator init --data` writes it.

// Replaces every value of train and test by (value - mean) / deviation. names: the features' names, each with a NUL; NULL
// without a header line: the order decides. target: the target column's name; NULL: none. After an error spec->why describes
// it, and a part of the rows may be scaled.
// TERN_ERR_CONFIG   the file does not exist
// TERN_ERR_CORRUPT  its columns differ from the table's, a mean is no number, a deviation is not positive; errors of
//                   tern_csv_next()
TERN_MUST_USE enum tern_result tern_scaling_file_apply(const struct tern_data_spec *spec,
                                                       const char *path, const char *names,
                                                       const char *target, struct tern_rows *train,
                                                       struct tern_rows *test);

#endif
