// Draws that are not uniform, from the seeded generator, with the same bits everywhere. Pure.
#ifndef TERN_DATA_RANDOM_H
#define TERN_DATA_RANDOM_H

#include "util/prng.h"

// Third number of the name of a stream of TERN_PRNG_DATA, so that no two uses share draws.
enum tern_data_stream {
    TERN_DATA_DIGITS_TRAIN = 0,
    TERN_DATA_DIGITS_TEST = 1,
    TERN_DATA_SPLIT = 2, // of a table into training and test rows
    TERN_DATA_SENSORS_MACHINE = 3,
    TERN_DATA_SENSORS_DEVICE = 4,
    TERN_DATA_SENSORS_TRAIN = 5,
    TERN_DATA_SENSORS_TEST = 6,
    TERN_DATA_AUDIO_SPEAKER = 7,
    TERN_DATA_AUDIO_TRAIN = 8,
    TERN_DATA_AUDIO_TEST = 9,
    TERN_DATA_SENSORS_FAULT = 10,
};

// Uniform from low to high.
float tern_random_between(struct tern_prng *rng, float low, float high);

// Normal with mean 0 and variance 1 (the polar method of Marsaglia and Bray 1964).
float tern_random_normal(struct tern_prng *rng);

// The logarithm of a Gamma(shape, 1) draw, which for a small shape is itself below float32's
// smallest (Marsaglia and Tsang 2000). shape > 0.
float tern_random_log_gamma(struct tern_prng *rng, float shape);

// Exponential with mean 1.
float tern_random_exponential(struct tern_prng *rng);

// share[0..count) ~ Dirichlet(alpha, ..., alpha), the largest scaled to 1. alpha > 0.
void tern_random_shares(struct tern_prng *rng, float alpha, float *share, uint32_t count);

// An index below count, with probabilities in proportion to share[], of which one is above 0.
uint32_t tern_random_index(struct tern_prng *rng, const float *share, uint32_t count);

#endif
