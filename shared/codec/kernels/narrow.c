#include "codec/kernels/kernels.h"

#include "util/bytes.h"
#include <stdbool.h>

// --- bfloat16

static inline float bfloat16_to_float(uint16_t high)
{
    return tern_bits_float((uint32_t)high << 16);
}

// A carry correctly increases the exponent; subnormals need no special case.
static inline uint16_t rounded(uint32_t bits)
{
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void tern_kernel_bfloat16_put(float *restrict values, size_t count, uint8_t *restrict dst)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t high = rounded(tern_float_bits(values[i]));
        tern_store_le16(dst + 2 * i, high);
        values[i] -= bfloat16_to_float(high);
    }
}

void tern_kernel_bfloat16_get(const uint8_t *restrict src, float *restrict dst, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        dst[i] = bfloat16_to_float(tern_load_le16(src + 2 * i));
    }
}

void tern_kernel_bfloat16_add(const uint8_t *restrict src, float weight, float *restrict acc,
                              size_t count)
{
    for (size_t i = 0; i < count; i++) {
        acc[i] += weight * bfloat16_to_float(tern_load_le16(src + 2 * i));
    }
}

uint16_t tern_kernel_bfloat16_peak(const uint8_t *src, size_t count)
{
    uint16_t peak = 0;
    for (size_t i = 0; i < count; i++) {
        uint16_t magnitude = tern_load_le16(src + 2 * i) & 0x7fff;
        peak = magnitude > peak ? magnitude : peak;
    }
    return peak;
}

// --- int8

// Adding this to a magnitude below 2^22 rounds it to a whole number, ties to even, which is in the low bits of the sum.
#define NO_FRACTION 0x1.8p23f

// Limits integers, because gcc does not vectorise comparisons of floats.
static inline int32_t clamped(int32_t q)
{
    q = q > 127 ? 127 : q;
    return q < -127 ? -127 : q;
}

void tern_kernel_int8_put(float *restrict values, size_t count, float scale, uint8_t *restrict dst)
{
    for (size_t i = 0; i < count; i++) {
        float sum = values[i] / scale + NO_FRACTION;
        int32_t q = clamped((int32_t)(tern_float_bits(sum) - tern_float_bits(NO_FRACTION)));
        dst[i] = (uint8_t)(int8_t)q;
        values[i] -= (float)q * scale;
    }
}

// Decodes two's complement.
static inline int32_t q_of(uint8_t byte)
{
    return (int32_t)(byte ^ 0x80u) - 0x80;
}

static inline float int8_value(uint8_t byte, float scale)
{
    return (float)q_of(byte) * scale;
}

void tern_kernel_int8_get(const uint8_t *restrict src, float scale, float *restrict dst,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        dst[i] = int8_value(src[i], scale);
    }
}

void tern_kernel_int8_add(const uint8_t *restrict src, float scale, float weight,
                          float *restrict acc, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        acc[i] += weight * int8_value(src[i], scale);
    }
}

int tern_kernel_int8_lowest(const uint8_t *src, size_t count)
{
    int32_t lowest = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t q = q_of(src[i]);
        lowest = q < lowest ? q : lowest;
    }
    return lowest;
}

// --- onebit

// Whether the value with these bits is below 0; -0 is not.
static inline bool is_negative(uint32_t bits)
{
    return bits > TERN_SIGN_BIT;
}

// Returns the magnitude, or 0 if the sign bit is not `side`.
static inline float magnitude_on_side(float value, uint32_t side)
{
    uint32_t bits = tern_float_bits(value) ^ side;
    return tern_bits_float((int32_t)bits < 0 ? 0 : bits);
}

// Returns the sum of the magnitudes with one sign. side: 0 for positive values, TERN_SIGN_BIT for negative ones.
static double sum_of_side(const float *values, size_t count, uint32_t side)
{
    double lanes[TERN_SUM_LANES] = {0};
    size_t whole = count / TERN_SUM_LANES * TERN_SUM_LANES;
    for (size_t i = 0; i < whole; i += TERN_SUM_LANES) {
        for (size_t lane = 0; lane < TERN_SUM_LANES; lane++) {
            lanes[lane] += (double)magnitude_on_side(values[i + lane], side);
        }
    }
    for (size_t lane = 0; whole + lane < count; lane++) {
        lanes[lane] += (double)magnitude_on_side(values[whole + lane], side);
    }
    return tern_sum_of_lanes(lanes);
}

static size_t count_negatives(const float *values, size_t count)
{
    size_t negatives = 0;
    for (size_t i = 0; i < count; i++) {
        negatives += is_negative(tern_float_bits(values[i]));
    }
    return negatives;
}

static float mean_of(double sum, size_t count)
{
    return count > 0 ? (float)(sum / (double)count) : 0;
}

struct tern_two_means tern_kernel_onebit_means(const float *values, size_t count)
{
    size_t negatives = count_negatives(values, count);
    double positive = sum_of_side(values, count, 0);
    double negative = sum_of_side(values, count, TERN_SIGN_BIT);
    return (struct tern_two_means){.positive = mean_of(positive, count - negatives),
                                   .negative = mean_of(negative, negatives)};
}

static inline float onebit_value(struct tern_two_means means, unsigned bit)
{
    uint32_t negative = 0u - bit;
    uint32_t a = tern_float_bits(means.positive);
    uint32_t b = tern_float_bits(means.negative) | TERN_SIGN_BIT;
    return tern_bits_float((a & ~negative) | (b & negative));
}

// Encodes up to eight values as one byte.
static inline uint8_t put_bits(float *values, size_t count, struct tern_two_means means)
{
    unsigned byte = 0;
    for (size_t i = 0; i < count; i++) {
        byte |= (unsigned)is_negative(tern_float_bits(values[i])) << i;
    }
    for (size_t i = 0; i < count; i++) {
        values[i] -= onebit_value(means, is_negative(tern_float_bits(values[i])));
    }
    return (uint8_t)byte;
}

void tern_kernel_onebit_put(float *restrict values, size_t count, struct tern_two_means means,
                            uint8_t *restrict dst)
{
    for (size_t i = 0; i < count / 8; i++) {
        dst[i] = put_bits(values + 8 * i, 8, means);
    }
    if (count % 8 != 0) {
        dst[count / 8] = put_bits(values + count / 8 * 8, count % 8, means);
    }
}

void tern_kernel_onebit_get(const uint8_t *restrict src, struct tern_two_means means,
                            float *restrict dst, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        dst[i] = onebit_value(means, (uint32_t)src[i / 8] >> i % 8 & 1);
    }
}

void tern_kernel_onebit_add(const uint8_t *restrict src, struct tern_two_means means, float weight,
                            float *restrict acc, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        acc[i] += weight * onebit_value(means, (uint32_t)src[i / 8] >> i % 8 & 1);
    }
}
