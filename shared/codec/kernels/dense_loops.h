// The loops over dense values, in plain C that gcc -O3 turns into SIMD: no branch that depends on a
// value, one output per input. Included once for each instruction set, with
//   KERNEL      what comes before a function: its storage class, and the target attribute
//   NAME(name)  what the function is called
#ifndef TERN_DENSE_LOOPS_H
#define TERN_DENSE_LOOPS_H

#include "codec/kernels/kernels.h"
#include "util/words.h"

// Signed: without a sign bit it is the same order, and SSE2 can compare it.
static inline int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static inline int32_t magnitude_of(uint32_t bits)
{
    return (int32_t)(bits & ~TERN_SIGN_BIT);
}

// Independent maxima, so that one comparison need not wait for the last.
enum { LANES = 64 };

static uint32_t peak_of_lanes(const int32_t lanes[LANES])
{
    int32_t peak = 0;
    for (size_t lane = 0; lane < LANES; lane++) {
        peak = larger(peak, lanes[lane]);
    }
    return (uint32_t)peak;
}

KERNEL uint32_t NAME(peak)(const float *values, size_t count)
{
    int32_t lanes[LANES] = {0};
    size_t i = 0;
    for (; count - i >= LANES; i += LANES) {
        for (size_t lane = 0; lane < LANES; lane++) {
            lanes[lane] = larger(lanes[lane], magnitude_of(tern_float_bits(values[i + lane])));
        }
    }
    for (; i < count; i++) {
        lanes[0] = larger(lanes[0], magnitude_of(tern_float_bits(values[i])));
    }
    return peak_of_lanes(lanes);
}

KERNEL uint32_t NAME(peak_bytes)(const uint8_t *src, size_t count)
{
    int32_t lanes[LANES] = {0};
    size_t i = 0;
    for (; count - i >= LANES; i += LANES) {
        for (size_t lane = 0; lane < LANES; lane++) {
            lanes[lane] = larger(lanes[lane], magnitude_of(tern_load_le32(src + 4 * (i + lane))));
        }
    }
    for (; i < count; i++) {
        lanes[0] = larger(lanes[0], magnitude_of(tern_load_le32(src + 4 * i)));
    }
    return peak_of_lanes(lanes);
}

KERNEL void NAME(float32_put)(const float *restrict values, size_t count, uint8_t *restrict dst)
{
    for (size_t i = 0; i < count; i++) {
        tern_store_le32(dst + 4 * i, tern_float_bits(values[i]));
    }
}

KERNEL void NAME(float32_get)(const uint8_t *restrict src, float *restrict dst, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        dst[i] = tern_bits_float(tern_load_le32(src + 4 * i));
    }
}

KERNEL void NAME(float32_add)(const uint8_t *restrict src, float weight, float *restrict acc,
                              size_t count)
{
    for (size_t i = 0; i < count; i++) {
        acc[i] += weight * tern_bits_float(tern_load_le32(src + 4 * i));
    }
}

enum {
    HALF_FRACTION_SHIFT = 13,               // float32 has 13 more fraction bits than a half
    HALF_SMALLEST_NORMAL = (127 - 14) << 23 // bits of 2^-14
};

// Adding 0.5 to a magnitude below 2^-14 leaves its multiple of 2^-24, rounded to even by the FPU,
// in the low bits of the sum: that is the subnormal half.
static inline uint32_t subnormal_half(uint32_t magnitude)
{
    return tern_float_bits(tern_bits_float(magnitude) + 0.5f) - tern_float_bits(0.5f);
}

// Rounds away 13 bits, ties to even; a carry moves into the exponent, as it should.
static inline uint32_t normal_half(uint32_t magnitude)
{
    uint32_t odd = magnitude >> HALF_FRACTION_SHIFT & 1;
    uint32_t rounded = magnitude + (1u << (HALF_FRACTION_SHIFT - 1)) - 1 + odd;
    return (rounded >> HALF_FRACTION_SHIFT) - ((127 - 15) << 10);
}

static inline uint16_t half_of(float value)
{
    uint32_t bits = tern_float_bits(value);
    uint32_t magnitude = bits & ~TERN_SIGN_BIT;
    // Chosen by a mask: the compiler must not put the float sum behind a branch.
    uint32_t small = (int32_t)magnitude < HALF_SMALLEST_NORMAL ? ~0u : 0u;
    uint32_t half = (subnormal_half(magnitude) & small) | (normal_half(magnitude) & ~small);
    return (uint16_t)(half | bits >> 31 << 15);
}

// The fraction and exponent of a half, moved into those of a float32, are its value / 2^112, also
// when it is subnormal. The product is exact.
static inline float float_of(uint16_t half)
{
    float magnitude = tern_bits_float((uint32_t)(half & 0x7fff) << HALF_FRACTION_SHIFT) * 0x1p112f;
    return tern_bits_float(tern_float_bits(magnitude) | (uint32_t)(half >> 15) << 31);
}

KERNEL void NAME(float16_put)(float *restrict values, size_t count, uint8_t *restrict dst)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t half = half_of(values[i]);
        tern_store_le16(dst + 2 * i, half);
        values[i] -= float_of(half);
    }
}

KERNEL void NAME(float16_get)(const uint8_t *restrict src, float *restrict dst, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        dst[i] = float_of(tern_load_le16(src + 2 * i));
    }
}

KERNEL void NAME(float16_add)(const uint8_t *restrict src, float weight, float *restrict acc,
                              size_t count)
{
    for (size_t i = 0; i < count; i++) {
        acc[i] += weight * float_of(tern_load_le16(src + 2 * i));
    }
}

KERNEL uint16_t NAME(float16_peak)(const uint8_t *src, size_t count)
{
    int32_t peak = 0;
    for (size_t i = 0; i < count; i++) {
        peak = larger(peak, tern_load_le16(src + 2 * i) & 0x7fff);
    }
    return (uint16_t)peak;
}

// Of struct tern_kernels.
#define TERN_DENSE_FIELDS                                                                          \
    .peak = NAME(peak), .peak_bytes = NAME(peak_bytes), .float32_put = NAME(float32_put),          \
    .float32_get = NAME(float32_get), .float32_add = NAME(float32_add),                            \
    .float16_put = NAME(float16_put), .float16_get = NAME(float16_get),                            \
    .float16_add = NAME(float16_add), .float16_peak = NAME(float16_peak)

#endif
