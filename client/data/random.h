// Draws random numbers of several distributions from the seeded generator, with the same bits on every machine. Pure.
#ifndef TERN_DATA_RANDOM_H
#define TERN_DATA_RANDOM_H

#include "util/prng.h"

// The numbers of the random streams of TERN_PRNG_DATA. Each use has a stream of its own, so that no draws are used twice.
enum tern_data_stream {
    TERN_DATA_DIGITS_TRAIN = 0,
    TERN_DATA_DIGITS_TEST = 1,
    TERN_DATA_SPLIT = 2, // split into training and test rows
    TERN_DATA_SENSORS_MACHINE = 3,
    TERN_DATA_SENSORS_DEVICE = 4,
    TERN_DATA_SENSORS_TRAIN = 5,
    TERN_DATA_SENSORS_TEST = 6,
    TERN_DATA_AUDIO_SPEAKER = 7,
    TERN_DATA_AUDIO_TRAIN = 8,
    TERN_DATA_AUDIO_TEST = 9,
    TERN_DATA_SENSORS_FAULT = 10,
};

// Draws uniformly from low to high.
float tern_random_between(struct tern_prng *rng, float low, float high);

// Draws normally with mean 0 and variance 1 (polar method, Marsaglia and Bray 1964).
float tern_random_normal(struct tern_prng *rng);

// Returns the logarithm of a Gamma(shape, 1) draw, since for a small shape the draw itself underflows float32 (Marsaglia and
// Tsang 2000). shape > 0.
float tern_random_log_gamma(struct tern_prng *rng, float shape);

// Draws exponentially with mean 1.
float tern_random_exponential(struct tern_prng *rng);

// Draws share[0..count) ~ Dirichlet(alpha, ..., alpha), scaled so that the largest is 1. alpha > 0.
void tern_random_shares(struct tern_prng *rng, float alpha, float *share, uint32_t count);

// Draws an index below count with probabilities proportional to share[]; at least one must be above 0.
uint32_t tern_random_index(struct tern_prng *rng, const float *share, uint32_t count);

#endif
