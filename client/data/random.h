// Draws that are not uniform, from the seeded generator, with the same bits everywhere. Pure.
#ifndef TERN_DATA_RANDOM_H
#define TERN_DATA_RANDOM_H

#include "util/prng.h"

// Normal with mean 0 and variance 1 (the polar method of Marsaglia and Bray 1964).
float tern_random_normal(struct tern_prng *rng);

// The logarithm of a Gamma(shape, 1) draw, which for a small shape is itself below float32's
// smallest (Marsaglia and Tsang 2000). shape > 0.
float tern_random_log_gamma(struct tern_prng *rng, float shape);

#endif
