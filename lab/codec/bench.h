// The tables of `tern-bench codec`.
#ifndef TERN_BENCH_H
#define TERN_BENCH_H

#include "cli/live_table.h"
#include "cli/measure.h"
#include "hosted/cli.h"

enum {
    BENCH_IN_CACHE = 100000
}; // values of the small runs: 400 kB, which fits into a core's cache

struct bench {
    struct report report;
    struct effort effort;
    size_t large;                         // values of the runs out of cache
    size_t medium;                        // values of the runs that compare coders
    const struct tern_parallel *parallel; // threads for encoding, or NULL
};

// Implements the verb `codec`: measures all tables and prints them, or writes JSON.
int verb_codec(struct tern_cli *cli);

// Measures all codecs on normally distributed values, out of cache and in cache.
TERN_MUST_USE enum tern_result bench_speed(struct bench *bench);

// Measures the ternary coders on independent values, and on rows of different scale.
TERN_MUST_USE enum tern_result bench_coders(struct bench *bench);

// Measures general compressors on the same bytes.
TERN_MUST_USE enum tern_result bench_rivals(struct bench *bench);

#endif
