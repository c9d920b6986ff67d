// How rows that came without a test part get one, and what else is done to the rows of tables and
// arrays: the options only, test, seed and scale. Used by the readers; hosted; reentrant.
#ifndef TERN_SPLIT_H
#define TERN_SPLIT_H

#include "data/readers.h"
#include "data/rows.h"

struct tern_split_options {
    const char *only;    // the group of the training rows that are kept; NULL: all
    float test;          // share of the rows that become the test part; not when they have one
    uint64_t seed;       // of the order, and so of that share
    bool standard;       // features are standardised by the training rows
    const char *scaling; // file that says how they are scaled (data/scaling_file.h); NULL: none
};

// Whether either scales the rows.
static inline bool tern_split_scales(const struct tern_split_options *options)
{
    return options->standard || options->scaling != NULL;
}

// test_file: the option that names the test part, or NULL; the share `test` is then refused.
// TERN_ERR_CONFIG
TERN_MUST_USE enum tern_result tern_split_read(struct tern_data_spec *spec, const char *test_file,
                                               struct tern_split_options *options);

// Shuffles train, moves options->test of it to *test unless there is a test part, raises both
// counts of classes to the larger one, and standardises float32 values.
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_split_rows(const struct tern_data_spec *spec,
                                               const struct tern_split_options *options,
                                               struct tern_rows *train, struct tern_rows *test);

#endif
