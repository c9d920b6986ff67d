// The tables of `tern-bench codec`, each in a file of its own.
#ifndef TERN_BENCH_H
#define TERN_BENCH_H

#include "cli/live_table.h"
#include "cli/measure.h"
#include "hosted/cli.h"

enum { BENCH_IN_CACHE = 100000 }; // values of the small runs: 400 kB fit into a core's cache

struct bench {
    struct report report;
    struct effort effort;
    size_t large;                         // values of the runs out of cache
    size_t medium;                        // values of the runs that compare coders
    const struct tern_parallel *parallel; // of encoding, or NULL
};

// The verb: all tables, printed or as JSON.
int verb_codec(struct tern_cli *cli);

// Codecs on normally distributed values, out of cache and in cache.
TERN_MUST_USE enum tern_result bench_speed(struct bench *bench);

// Ternary coders on independent values, and on rows of different scale.
TERN_MUST_USE enum tern_result bench_coders(struct bench *bench);

// General compressors on the same bytes.
TERN_MUST_USE enum tern_result bench_rivals(struct bench *bench);

#endif
