// Codecs in the firmware whose cost on a microcontroller is measured.
#ifndef TERN_BENCH_BUILD_H
#define TERN_BENCH_BUILD_H

#define TERN_CODECS(X)                                                                             \
    X(float32, FLOAT32, 0) X(3lc, 3LC, 2) X(density, DENSITY, 5) X(uniform, UNIFORM, 13)
#define TERN_CODERS(X) X(zero_run, ZERO_RUN) X(gaps, GAPS) X(range, RANGE)
#define TERN_SMALL 1
#define TERN_CONVOLUTIONS 0

#endif
