// Kernels in plain C, which gcc -O3 vectorises. Included once for each instruction set, with
//   TERN_KERNEL storage class and target attribute of functions
//   NAME(name)  name of a function
#ifndef TERN_DENSE_LOOPS_H
#define TERN_DENSE_LOOPS_H

#include "codec/kernels/paths.h"
#include "util/bytes.h"

// Magnitudes compare as signed integers, too, which SSE2 supports.
static inline int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static inline int32_t magnitude_of(uint32_t bits)
{
    return (int32_t)(bits & ~TERN_SIGN_BIT);
}

// Independent maxima, so that comparisons do not wait for each other.
enum { LANES = 64 };

static uint32_t peak_of_lanes(const int32_t lanes[LANES])
{
    int32_t peak = 0;
    for (size_t lane = 0; lane < LANES; lane++) {
        peak = larger(peak, lanes[lane]);
    }
    return (uint32_t)peak;
}

TERN_KERNEL uint32_t NAME(peak)(const float *values, size_t count)
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

TERN_KERNEL uint32_t NAME(peak_bytes)(const uint8_t *src, size_t count)
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

TERN_KERNEL void NAME(float32_put)(const float *restrict values, size_t count,
                                   uint8_t *restrict dst)
{
    for (size_t i = 0; i < count; i++) {
        tern_store_le32(dst + 4 * i, tern_float_bits(values[i]));
    }
}

TERN_KERNEL void NAME(float32_get)(const uint8_t *restrict src, float *restrict dst, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        dst[i] = tern_bits_float(tern_load_le32(src + 4 * i));
    }
}

TERN_KERNEL void NAME(float32_add)(const uint8_t *restrict src, float weight, float *restrict acc,
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

// Adding 0.5 to a magnitude below 2^-14 rounds it to a multiple of 2^-24, which is in the low bits of the sum: the subnormal
// half.
static inline uint32_t subnormal_half(uint32_t magnitude)
{
    return tern_float_bits(tern_bits_float(magnitude) + 0.5f) - tern_float_bits(0.5f);
}

// Rounds 13 bits away, ties to even. A carry correctly increases the exponent.
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
    // A mask selects the result, so that the compiler does not make a branch.
    uint32_t small = (int32_t)magnitude < HALF_SMALLEST_NORMAL ? ~0u : 0u;
    uint32_t half = (subnormal_half(magnitude) & small) | (normal_half(magnitude) & ~small);
    return (uint16_t)(half | bits >> 31 << 15);
}

// The bits of a half, shifted to the place of a float32's exponent and fraction, are the value / 2^112, also for subnormals. The
// product is exact.
static inline float float_of(uint16_t half)
{
    float magnitude = tern_bits_float((uint32_t)(half & 0x7fff) << HALF_FRACTION_SHIFT) * 0x1p112f;
    return tern_bits_float(tern_float_bits(magnitude) | (uint32_t)(half >> 15) << 31);
}

TERN_KERNEL void NAME(float16_put)(float *restrict values, size_t count, uint8_t *restrict dst)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t half = half_of(values[i]);
        tern_store_le16(dst + 2 * i, half);
        values[i] -= float_of(half);
    }
}

TERN_KERNEL void NAME(float16_get)(const uint8_t *restrict src, float *restrict dst, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        dst[i] = float_of(tern_load_le16(src + 2 * i));
    }
}

TERN_KERNEL void NAME(float16_add)(const uint8_t *restrict src, float weight, float *restrict acc,
                                   size_t count)
{
    for (size_t i = 0; i < count; i++) {
        acc[i] += weight * float_of(tern_load_le16(src + 2 * i));
    }
}

TERN_KERNEL uint16_t NAME(float16_peak)(const uint8_t *src, size_t count)
{
    int32_t peak = 0;
    for (size_t i = 0; i < count; i++) {
        peak = larger(peak, tern_load_le16(src + 2 * i) & 0x7fff);
    }
    return (uint16_t)peak;
}

TERN_KERNEL struct tern_sum NAME(sum_above)(const float *values, size_t count, uint32_t threshold,
                                            struct tern_units units)
{
    // Sums of 16-bit halves fit 32 bits for TERN_SUM_BLOCK values.
    uint32_t low = 0;
    uint32_t high = 0;
    uint32_t taken = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = tern_float_bits(values[i]) & ~TERN_SIGN_BIT;
        // SSE2 has only signed comparisons and conversions; magnitudes are below 2^31.
        uint32_t mask = (int32_t)bits > (int32_t)threshold ? ~0u : 0u;
        float scaled = tern_bits_float(bits & mask) * units.first * units.second;
        uint32_t whole = (uint32_t)(int32_t)scaled;
        low += whole & 0xffff;
        high += whole >> 16;
        taken -= mask; // adds 1 if the mask is set
    }
    return (struct tern_sum){.units = ((uint64_t)high << 16) + low, .taken = taken};
}

TERN_KERNEL struct tern_step_sums NAME(step_sums)(const float *values, size_t count,
                                                  struct tern_units units, uint32_t rate)
{
    struct tern_step_sums sums = {0, 0, 0};
    for (size_t i = 0; i < count; i++) {
        float magnitude = tern_bits_float(tern_float_bits(values[i]) & ~TERN_SIGN_BIT);
        // SSE2 has only signed conversions.
        uint32_t whole = (uint32_t)(int32_t)(magnitude * units.first * units.second);
        uint32_t steps = tern_steps_of(whole, rate);
        sums.total += (uint64_t)whole * whole >> TERN_STEP_TOTAL_SHIFT;
        sums.product += (uint64_t)whole * steps;
        sums.square += (uint64_t)steps * steps;
    }
    return sums;
}

TERN_KERNEL void NAME(step_split)(float *values, size_t count, struct tern_step_split split,
                                  int16_t *steps)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = tern_float_bits(values[i]);
        float magnitude = tern_bits_float(bits & ~TERN_SIGN_BIT);
        uint32_t whole = (uint32_t)(int32_t)(magnitude * split.units.first * split.units.second);
        int32_t unsigned_steps = (int32_t)tern_steps_of(whole, split.rate);
        int32_t sign = -(int32_t)(bits >> 31);
        int32_t signed_steps = (unsigned_steps ^ sign) - sign;
        steps[i] = (int16_t)signed_steps;
        values[i] -=
            (float)signed_steps * split.scale; // 0 steps subtract +0, which changes no value
    }
}

TERN_KERNEL void NAME(steps_add)(const int16_t *steps, size_t count, float scale, float weight,
                                 float *acc)
{
    for (size_t i = 0; i < count; i++) {
        float sum = acc[i] + weight * ((float)steps[i] * scale);
        // A mask selects the result, because gcc makes a branch of other forms.
        uint32_t kept = steps[i] != 0 ? 0 : ~0u;
        acc[i] = tern_bits_float((tern_float_bits(acc[i]) & kept) | (tern_float_bits(sum) & ~kept));
    }
}

TERN_KERNEL struct tern_step_facts NAME(steps_facts)(const int16_t *steps, size_t count)
{
    struct tern_step_facts facts = {0, 0, 0};
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = (uint32_t)(steps[i] < 0 ? -steps[i] : steps[i]);
        facts.nonzero += magnitude > 0;
        facts.square += magnitude * magnitude;
        facts.most = magnitude > facts.most ? magnitude : facts.most;
    }
    return facts;
}

// Fields of struct tern_kernels.
#define TERN_DENSE_FIELDS                                                                          \
    .peak = NAME(peak), .peak_bytes = NAME(peak_bytes), .float32_put = NAME(float32_put),          \
    .float32_get = NAME(float32_get), .float32_add = NAME(float32_add),                            \
    .float16_put = NAME(float16_put), .float16_get = NAME(float16_get),                            \
    .float16_add = NAME(float16_add), .float16_peak = NAME(float16_peak),                          \
    .sum_above = NAME(sum_above), .step_sums = NAME(step_sums), .step_split = NAME(step_split),    \
    .steps_add = NAME(steps_add), .steps_facts = NAME(steps_facts)

#endif
