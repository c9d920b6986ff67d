// What the tests of shared/ have in common: cmocka with its headers, float comparison by bits, and
// seeded random inputs.
#ifndef TERN_TEST_CHECK_H
#define TERN_TEST_CHECK_H

#include "tests/asserts.h"
#include "util/prng.h"

static inline uint32_t bits_of(float value)
{
    union {
        float value;
        uint32_t bits;
    } word = {.value = value};
    return word.bits;
}

static inline float float_of_bits(uint32_t bits)
{
    union {
        uint32_t bits;
        float value;
    } word = {.bits = bits};
    return word.value;
}

// Equal bit by bit, so that -0 is not +0.
#define assert_same_floats(a, b, count)                                                            \
    do {                                                                                           \
        for (size_t same_i_ = 0; same_i_ < (count); same_i_++) {                                   \
            if (bits_of((a)[same_i_]) != bits_of((b)[same_i_])) {                                  \
                fail_msg("value %zu of %zu is %a, not %a", same_i_, (size_t)(count),               \
                         (double)(a)[same_i_], (double)(b)[same_i_]);                              \
            }                                                                                      \
        }                                                                                          \
    } while (0)

// Any finite float32: all exponents are equally likely.
static inline float any_float(struct tern_prng *rng)
{
    uint32_t bits = tern_prng_u32(rng);
    return float_of_bits((bits & 0x7f800000u) == 0x7f800000u ? bits ^ 0x40000000u : bits);
}

// A sum of uniform draws: roughly normal, deviation 1.
static inline float normal_float(struct tern_prng *rng)
{
    float sum = 0;
    for (int i = 0; i < 12; i++) {
        sum += tern_prng_float(rng) - 0.5f;
    }
    return sum;
}

#endif
