// Exact samples of the discrete Gaussian distribution: the integer x has a probability proportional to exp(-x^2 / (2 * variance)).
// Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (NeurIPS 2020), algorithms 1 to 3: integer
// arithmetic alone, so that no rounding weakens the guarantee. The helper of secure rounds adds such noise to sums. The time of a
// sample varies with it, so an observer of single samples would learn something about them. Pure; the caller owns all memory.
#ifndef TERN_SECURE_GAUSSIAN_H
#define TERN_SECURE_GAUSSIAN_H

#include "result.h"
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_GAUSSIAN_VARIANCE_MAX (UINT64_C(1) << 26)

// A running sampler. Erase it with tern_secret_erase() after use: it has random bytes that samples were or will be made from.
struct tern_gaussian {
    uint64_t variance;
    uint64_t scale; // of the discrete Laplace distribution that samples are accepted from
    enum tern_result (*fill)(void *dst, size_t size);
    uint64_t pool[64];
    uint32_t left; // unused words of the pool, at its end
};

// Starts a sampler. variance: 1 to TERN_GAUSSIAN_VARIANCE_MAX. fill: writes uniformly random bytes, and its error ends a sample.
void tern_gaussian_start(struct tern_gaussian *gaussian, uint64_t variance,
                         enum tern_result (*fill)(void *dst, size_t size));

// Draws the next sample. Errors: those of `fill`.
TERN_MUST_USE enum tern_result tern_gaussian_next(struct tern_gaussian *gaussian, int64_t *sample);

// Returns a magnitude that one of 2^27 samples exceeds with a probability below 2^-40; 0 for the variance 0.
uint64_t tern_gaussian_bound(uint64_t variance);

// Returns the largest integer whose square is at most `square`. square: below 2^62.
uint64_t tern_integer_root(uint64_t square);

#ifdef __cplusplus
}
#endif

#endif
