// What must hold of any coder of ternary symbols, for the tests of single coders.
#ifndef TERN_TEST_CODER_CHECKS_H
#define TERN_TEST_CODER_CHECKS_H

#include "check.h"
#include "codec/coders/ternary.h"

struct coder_under_test {
    const struct tern_ternary_coder *coder;
    const struct tern_mode *mode;
};

// Symbols in planes of their own allocation.
struct tern_planes planes_new(size_t count);
void planes_free(struct tern_planes planes);
void planes_set(struct tern_planes planes, size_t at, bool negative);

// Independent symbols of which the given share is not zero.
struct tern_planes planes_random(struct tern_prng *rng, size_t count, float density);

// Rows whose scale is log-normal with deviation 1, and the share of values above a threshold.
struct tern_planes planes_rows(struct tern_prng *rng, size_t count, size_t row, double threshold);

// Bits of the order-0 entropy of the symbols.
double planes_entropy(struct tern_planes planes);

// Encodes into an allocation of just the bound, decodes in every way, compares, and returns the
// bits that the symbols took.
double check_round_trip(struct coder_under_test test, struct tern_planes planes);

// All sizes up to 200 and some larger ones at many densities, empty and full tensors, lone values.
void check_round_trips(struct coder_under_test test);

// Stretches that a model learns and is then wrong about: all within the bound.
void check_bound(struct coder_under_test test);

// Every truncation, every other value of every byte, an added byte, and random bytes: refused, or
// exactly what the encoder writes for the symbols that were read.
void check_damage(struct coder_under_test test);

#endif
