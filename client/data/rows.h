// Labelled rows while a reader makes a data set of them: shuffled, split, standardised, reduced to
// one group, and then given to a struct tern_dataset. Hosted; reentrant.
#ifndef TERN_ROWS_H
#define TERN_ROWS_H

#include "data/dataset.h"
#include "result.h"

struct tern_rows {
    uint8_t *bytes; // [count][features], malloc'ed as all of these; NULL: values are given
    float *values;  // [count][features], or NULL
    uint16_t *labels;
    float *targets;   // NULL: there are none, or labels
    uint32_t *groups; // NULL: there are none
    uint8_t *
        filled; // [count][(features + 7) / 8] bits of the values that were missing; NULL: none were
    uint32_t count;
    uint32_t features;
    uint32_t classes;
    double
        target_mean; // of the targets as they came, and their deviation: 0 and 1 while they are as
    double target_deviation; // they came (0: likewise)
};

void tern_rows_free(struct tern_rows *rows);

// Same seed, same order, everywhere.
void tern_rows_shuffle(struct tern_rows *rows, uint64_t seed);

// Keeps the rows of one group, in their order; their number is rows->count.
void tern_rows_keep_group(struct tern_rows *rows, uint32_t group);

// Moves the last `count` rows, fewer than all, to *last. TERN_ERR_NO_MEMORY: *last is empty
TERN_MUST_USE enum tern_result tern_rows_split(struct tern_rows *rows, uint32_t count,
                                               struct tern_rows *last);

// Makes (value - mean) / deviation of a column of values; deviation > 0.
void tern_rows_scale(struct tern_rows *rows, uint32_t column, double mean, double deviation);

// Likewise of the targets, once, and notes it.
void tern_rows_scale_targets(struct tern_rows *rows, double mean, double deviation);

// Gives each missing value, which is NAN in values, that of its column, and notes it in filled. values: [features].
// TERN_ERR_NO_MEMORY: nothing is changed
TERN_MUST_USE enum tern_result tern_rows_fill(struct tern_rows *rows, const double *values);

// Writes each column's mean, of the values that are there; 0 where none is. means: [features].
void tern_rows_means(const struct tern_rows *rows, double *means);

// Brings each column of values, and the targets, to mean 0 and variance 1 over the rows of train, a constant one to
// 0, and does the same to those of test, which may be empty. Missing values (NAN) count for nothing and stay.
void tern_rows_standardise(struct tern_rows *train, struct tern_rows *test);

// Moves the rows into *data, as examples of the shape height x width x channels = features; scale
// and offset stay as they are.
void tern_rows_give(struct tern_rows *rows, uint32_t height, uint32_t width, uint32_t channels,
                    struct tern_dataset *data);

#endif
