// Times codecs on values: the best of several runs counts, since whatever disturbs a run only makes
// it slower. For hosted programs; one thread.
#ifndef TERN_MEASURE_H
#define TERN_MEASURE_H

#include "codec/codec.h"

// Room to encode and decode `count` values, all pages touched, so that no run pays for its first
// use.
struct workbench {
    size_t count;
    float *work;
    float *velocity; // made by the first codec that needs one
    uint8_t *payload;
    size_t payload_size;
};

// How often a codec is run: at least `least` times, then until `most` runs or `seconds` have
// passed.
struct effort {
    unsigned least;
    unsigned most;
    double seconds;
};

// Of the fastest run of each step, in seconds.
struct times {
    double copy; // memcpy of the values, in the same runs
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

double tern_monotonic_seconds(void);

bool tern_workbench_make(struct workbench *bench, size_t count);
void tern_workbench_free(struct workbench *bench);

// Encodes input[0..count) again and again; count is at most the workbench's. The last payload is
// left in the workbench, and its values in work. parallel: NULL is one thread.
// Errors of tern_codec_encode(); TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result
tern_measure_codec(const struct tern_codec *codec, const struct tern_parallel *parallel,
                   const float *input, size_t count, const struct effort *effort,
                   struct workbench *bench, struct measurement *measurement);

// GB/s of `count` float32 values in `taken` seconds.
double tern_float_rate(size_t count, double taken);

#endif
