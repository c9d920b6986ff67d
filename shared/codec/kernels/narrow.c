#include "codec/kernels/narrow.h"

#include "codec/kernels/kernels.h"
#include "codec/kernels/lanes.h"

// --- bfloat16
// ------------------------------------------------------------------------------------

static inline uint16_t load_le16(const uint8_t *src)
{
    uint16_t word;
    __builtin_memcpy(&word, src, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap16(word);
#endif
    return word;
}

static inline void store_le16(uint8_t *dst, uint16_t word)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap16(word);
#endif
    __builtin_memcpy(dst, &word, sizeof word);
}

static inline float wide(uint16_t high)
{
    return tern_bits_float((uint32_t)high << 16);
}

// A carry moves into the exponent, as it should; subnormals are no special case.
static inline uint16_t rounded(uint32_t bits)
{
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void tern_kernel_bfloat16_put(float *restrict values, size_t count, uint8_t *restrict dst)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t high = rounded(tern_float_bits(values[i]));
        store_le16(dst + 2 * i, high);
        values[i] -= wide(high);
    }
}

void tern_kernel_bfloat16_get(const uint8_t *restrict src, float *restrict dst, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        dst[i] = wide(load_le16(src + 2 * i));
    }
}

void tern_kernel_bfloat16_add(const uint8_t *restrict src, float weight, float *restrict acc,
                              size_t count)
{
    for (size_t i = 0; i < count; i++) {
        acc[i] += weight * wide(load_le16(src + 2 * i));
    }
}

uint16_t tern_kernel_bfloat16_peak(const uint8_t *src, size_t count)
{
    uint16_t peak = 0;
    for (size_t i = 0; i < count; i++) {
        uint16_t magnitude = load_le16(src + 2 * i) & 0x7fff;
        peak = magnitude > peak ? magnitude : peak;
    }
    return peak;
}

// --- int8
// ----------------------------------------------------------------------------------------

// Adding this to a magnitude below 2^22 leaves no bits for a fraction: the sum is rounded to a
// whole number, ties to even, and taking it away again is exact.
#define NO_FRACTION 0x1.8p23f

static inline float clamped(float x)
{
    x = x > 127 ? 127 : x;
    return x < -127 ? -127 : x;
}

void tern_kernel_int8_put(float *restrict values, size_t count, float scale, uint8_t *restrict dst)
{
    for (size_t i = 0; i < count; i++) {
        float q = (clamped(values[i] / scale) + NO_FRACTION) - NO_FRACTION;
        dst[i] = (uint8_t)(int8_t)(int32_t)q;
        values[i] -= q * scale;
    }
}

static inline float int8_value(uint8_t byte, float scale)
{
    return (float)(int8_t)byte * scale;
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
    int8_t lowest = 0;
    for (size_t i = 0; i < count; i++) {
        int8_t q = (int8_t)src[i];
        lowest = q < lowest ? q : lowest;
    }
    return lowest;
}

// --- onebit
// --------------------------------------------------------------------------------------

// Sums of the two sides, of magnitudes, and how many values the negative one has.
struct sides {
    double positive[TERN_SUM_LANES];
    double negative[TERN_SUM_LANES];
    uint32_t negatives[TERN_SUM_LANES];
};

// -0 adds +0 to the positive side.
static inline void add_to_side(struct sides *sides, size_t lane, float value)
{
    sides->positive[lane] += (double)(value < 0 ? 0.0f : value);
    sides->negative[lane] -= (double)(value < 0 ? value : 0.0f);
    sides->negatives[lane] += value < 0;
}

static float mean_of(const double lanes[TERN_SUM_LANES], size_t count)
{
    return count > 0 ? (float)(tern_sum_of_lanes(lanes) / (double)count) : 0;
}

struct tern_two_means tern_kernel_onebit_means(const float *values, size_t count)
{
    struct sides sides = {.positive = {0}};
    size_t i = 0;
    for (; count - i >= TERN_SUM_LANES; i += TERN_SUM_LANES) {
        for (size_t lane = 0; lane < TERN_SUM_LANES; lane++) {
            add_to_side(&sides, lane, values[i + lane]);
        }
    }
    for (size_t lane = 0; i + lane < count; lane++) {
        add_to_side(&sides, lane, values[i + lane]);
    }
    size_t negatives = 0;
    for (size_t lane = 0; lane < TERN_SUM_LANES; lane++) {
        negatives += sides.negatives[lane];
    }
    return (struct tern_two_means){.positive = mean_of(sides.positive, count - negatives),
                                   .negative = mean_of(sides.negative, negatives)};
}

static inline float onebit_value(struct tern_two_means means, unsigned bit)
{
    uint32_t negative = 0u - bit;
    uint32_t a = tern_float_bits(means.positive);
    uint32_t b = tern_float_bits(means.negative) | TERN_SIGN_BIT;
    return tern_bits_float((a & ~negative) | (b & negative));
}

// Up to eight values.
static inline uint8_t put_bits(float *values, size_t count, struct tern_two_means means)
{
    unsigned byte = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned bit = values[i] < 0;
        byte |= bit << i;
        values[i] -= onebit_value(means, bit);
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
