// Kernels for microcontrollers, most of them without an FPU: they compare and add up magnitudes as integers, and add floats only
// if that changes them. The code is short, and has no blocks on the stack.
#include "codec/kernels/paths.h"
#include "util/bytes.h"

static inline uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

uint32_t tern_scalar_peak(const float *values, size_t count)
{
    uint32_t peak = 0;
    for (size_t i = 0; i < count; i++) {
        peak = larger(peak, tern_float_bits(values[i]) & ~TERN_SIGN_BIT);
    }
    return peak;
}

uint32_t tern_scalar_peak_bytes(const uint8_t *src, size_t count)
{
    uint32_t peak = 0;
    for (size_t i = 0; i < count; i++) {
        peak = larger(peak, tern_load_le32(src + 4 * i) & ~TERN_SIGN_BIT);
    }
    return peak;
}

void tern_scalar_float32_add(const uint8_t *src, float weight, float *acc, size_t count)
{
    const bool whole = tern_float_bits(weight) == tern_float_bits(1.0f);
    for (size_t i = 0; i < count; i++) {
        float value = tern_bits_float(tern_load_le32(src + 4 * i));
        acc[i] += whole ? value : weight * value;
    }
}

// --- Ternary

// Quantizes one value: subtracts scale * q from it and returns q + 1.
static inline uint32_t split(float *value, uint32_t scale_bits, uint32_t threshold)
{
    uint32_t bits = tern_float_bits(*value);
    uint32_t sign = bits & TERN_SIGN_BIT;
    if ((bits ^ sign) <= threshold) {
        return 1;
    }
    *value -= tern_bits_float(scale_bits | sign);
    return sign != 0 ? 0 : 2;
}

void tern_scalar_ternary_pack(struct tern_columns columns, float scale, uint32_t threshold,
                              uint8_t *packed)
{
    const uint32_t scale_bits = tern_float_bits(scale);
    const size_t stride = tern_packed_stride(columns.count);
    for (size_t i = 0; i < columns.len; i++) {
        size_t at = columns.first + i;
        uint32_t byte = 0;
        for (size_t part = 0; part < TERN_TERNARY_PARTS; part++, at += stride) {
            bool real = at < columns.count;
            byte = 3 * byte + (real ? split(&columns.values[at], scale_bits, threshold) : 1);
        }
        packed[i] = (uint8_t)byte;
    }
}

// The lowest digit of a byte belongs to the last part.
void tern_scalar_ternary_set(const uint8_t *packed, size_t len, float scale,
                             struct tern_ternary_target target)
{
    const size_t room = (size_t)(target.end - target.at);
    const float of_digit[] = {-scale, 0, scale};
    for (size_t i = 0; i < len; i++) {
        uint32_t byte = packed[i];
        for (size_t part = TERN_TERNARY_PARTS; part-- > 0; byte /= 3) {
            size_t at = part * target.stride + i;
            if (at < room) {
                target.at[at] = of_digit[byte % 3];
            }
        }
    }
}

void tern_scalar_ternary_add(const uint8_t *packed, size_t len, float scale,
                             struct tern_ternary_target target)
{
    const size_t room = (size_t)(target.end - target.at);
    for (size_t i = 0; i < len; i++) {
        uint32_t byte = packed[i];
        size_t parts = byte != TERN_TERNARY_ZERO ? TERN_TERNARY_PARTS : 0;
        for (size_t part = parts; part-- > 0; byte /= 3) {
            size_t at = part * target.stride + i;
            if (byte % 3 != 1 && at < room) {
                target.at[at] += byte % 3 == 0 ? -scale : scale;
            }
        }
    }
}

void tern_scalar_planes_split(float *values, float scale, uint32_t threshold,
                              struct tern_planes planes)
{
    const uint32_t scale_bits = tern_float_bits(scale);
    __builtin_memset(planes.nonzero, 0, tern_plane_words(planes.count) * sizeof(uint64_t));
    __builtin_memset(planes.negative, 0, tern_plane_words(planes.count) * sizeof(uint64_t));
    for (size_t i = 0; i < planes.count; i++) {
        uint32_t digit = split(&values[i], scale_bits, threshold);
        if (digit != 1) {
            planes.nonzero[i / 64] |= 1ull << i % 64;
            planes.negative[i / 64] |= (uint64_t)(digit == 0) << i % 64;
        }
    }
}

// --- Sums

enum { FRACTION_BITS = 23 };

// Returns the exponent of a power of two.
static inline int exponent_of(float power)
{
    return (int)(tern_float_bits(power) >> FRACTION_BITS) - TERN_FLOAT_BIAS;
}

// Returns the shift that converts a value's fraction to units, without the value's own exponent.
static inline int shift_of(struct tern_units units)
{
    return exponent_of(units.first) + exponent_of(units.second) - TERN_FLOAT_BIAS - FRACTION_BITS;
}

// Returns the whole units of a magnitude: its significand, shifted by its exponent and `shift`.
static inline uint32_t whole_units(uint32_t bits, int shift)
{
    uint32_t normal = bits >> FRACTION_BITS > 0;
    uint32_t fraction = (bits & ((1u << FRACTION_BITS) - 1)) | normal << FRACTION_BITS;
    int up = (int)(bits >> FRACTION_BITS) + (normal ? 0 : 1) + shift;
    return up >= 0 ? fraction << up : up > -32 ? fraction >> -up : 0;
}

struct tern_sum tern_scalar_sum_above(const float *values, size_t count, uint32_t threshold,
                                      struct tern_units units)
{
    const int shift = shift_of(units);
    struct tern_sum sum = {0, 0};
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = tern_float_bits(values[i]) & ~TERN_SIGN_BIT;
        if (bits > threshold) {
            sum.units += whole_units(bits, shift);
            sum.taken++;
        }
    }
    return sum;
}

struct tern_step_sums tern_scalar_step_sums(const float *values, size_t count,
                                            struct tern_units units, uint32_t rate)
{
    const int shift = shift_of(units);
    struct tern_step_sums sums = {0, 0, 0};
    for (size_t i = 0; i < count; i++) {
        uint32_t whole = whole_units(tern_float_bits(values[i]) & ~TERN_SIGN_BIT, shift);
        uint32_t steps = tern_steps_of(whole, rate);
        sums.total += (uint64_t)whole * whole >> TERN_STEP_TOTAL_SHIFT;
        sums.product += (uint64_t)whole * steps;
        sums.square += steps * steps;
    }
    return sums;
}

void tern_scalar_step_split(float *values, size_t count, struct tern_step_split split,
                            int16_t *steps)
{
    const int shift = shift_of(split.units);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = tern_float_bits(values[i]);
        int sent = (int)tern_steps_of(whole_units(bits & ~TERN_SIGN_BIT, shift), split.rate);
        sent = (bits & TERN_SIGN_BIT) != 0 ? -sent : sent;
        steps[i] = (int16_t)sent;
        if (sent != 0) {
            values[i] -= (float)sent * split.scale;
        }
    }
}
