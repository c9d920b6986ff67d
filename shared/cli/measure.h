// Measures the speed of codecs: the fastest of several runs counts, since disturbances only slow a
// run down. Also creates the threads of --threads. One thread calls.
#ifndef TERN_CLI_MEASURE_H
#define TERN_CLI_MEASURE_H

#include "codec/codec.h"
#include "hosted/cli.h"
#include "hosted/parallel.h"

// Buffers to encode and decode `count` values; their pages are touched in advance, so that no
// measured run includes page faults.
struct workbench {
    size_t count;
    float *work;
    float *velocity; // allocated for the first codec that needs one
    uint8_t *payload;
    size_t payload_size;
};

// Number of runs: at least `least`, then more until `most` runs or `seconds` are reached.
struct effort {
    unsigned least;
    unsigned most;
    double seconds;
};

// Seconds of the fastest run of each step.
struct times {
    double copy; // memcpy() of the values, for comparison
    double encode;
    double decode;
    double accumulate;
};

struct measurement {
    size_t bytes;
    struct times best;
    struct tern_codec_info info;
    double lost;   // sum of squared differences between values and decoded values
    double energy; // sum of squared values
};

bool tern_workbench_make(struct workbench *bench, size_t count);
void tern_workbench_free(struct workbench *bench);

// Encodes and decodes input[0..count) repeatedly; count is at most that of the workbench.
// Afterwards the workbench has the last payload, and `work` its decoded values. parallel: NULL for
// one thread. Errors of tern_codec_encode(); TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result
tern_measure_codec(const struct tern_codec *codec, const struct tern_parallel *parallel,
                   const float *input, size_t count, const struct effort *effort,
                   struct workbench *bench, struct measurement *measurement);

// Returns the speed in GB/s for `count` float32 values in `taken` seconds.
double tern_float_rate(size_t count, double taken);

// The threads of --threads; the encoded bytes do not depend on them.
struct threads {
    unsigned count;
    struct tern_worker_pool *pool;        // NULL for one thread
    const struct tern_parallel *parallel; // NULL for one thread
};

// Reads --threads N (default 1; 0: one per processor) and creates the threads. Prints errors to
// stderr.
TERN_MUST_USE enum tern_result tern_threads_make(const struct tern_cli *cli,
                                                 struct threads *threads);

void tern_threads_free(struct threads *threads);

#endif
