#include "codec/kernels/mean.h"

#include "codec/kernels/kernels.h"

enum {
    FRACTION_BITS = 23,
    EXPONENT_BIAS = 127,
    LEAST_NORMAL = -126,   // exponents of normal float32
    LEAST_EXPONENT = -149, // of the smallest subnormal
    UNIT_BITS = 30,        // units are 2^-30 of the peak's power of two
};

// E with 2^E <= peak < 2^(E + 1).
static int exponent_of(float peak)
{
    uint32_t bits = tern_float_bits(peak);
    if (bits >> FRACTION_BITS > 0) {
        return (int)(bits >> FRACTION_BITS) - EXPONENT_BIAS;
    }
    int exponent = LEAST_EXPONENT;
    for (; bits > 1; bits >>= 1) {
        exponent++;
    }
    return exponent;
}

// 2^exponent, of a normal float32.
static float power_of_two(int exponent)
{
    return tern_bits_float((uint32_t)(exponent + EXPONENT_BIAS) << FRACTION_BITS);
}

// value * first * second, where the two are the power of two that makes units of values. One alone
// may exceed float32. Products are exact but for results below 1, which are cut to 0.
struct units {
    float first;
    float second;
};

static struct units units_of(int peak_exponent)
{
    int shift = UNIT_BITS - peak_exponent;
    int first = shift > EXPONENT_BIAS ? EXPONENT_BIAS : shift;
    return (struct units){.first = power_of_two(first), .second = power_of_two(shift - first)};
}

struct sum {
    uint64_t units;
    uint64_t taken;
};

// A block's sums fit 32 bits when units are cut into two halves of 16 bits.
static struct sum sum_block(const float *values, size_t count, uint32_t threshold,
                            struct units units)
{
    uint32_t low = 0;
    uint32_t high = 0;
    uint32_t taken = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = tern_float_bits(values[i]) & ~TERN_SIGN_BIT;
        // Signed compares and conversions, which SSE2 has; magnitudes are below 2^31.
        uint32_t mask = (int32_t)bits > (int32_t)threshold ? ~0u : 0u;
        float scaled = tern_bits_float(bits & mask) * units.first * units.second;
        uint32_t whole = (uint32_t)(int32_t)scaled;
        low += whole & 0xffff;
        high += whole >> 16;
        taken -= mask; // + 1
    }
    return (struct sum){.units = ((uint64_t)high << 16) + low, .taken = taken};
}

float tern_kernel_mean_above(const float *values, size_t count, uint32_t threshold, float peak)
{
    enum { BLOCK = 1 << 15 };
    int exponent = exponent_of(peak);
    struct units units = units_of(exponent);
    struct sum sum = {0, 0};
    for (size_t first = 0; first < count; first += BLOCK) {
        size_t here = count - first < BLOCK ? count - first : BLOCK;
        struct sum part = sum_block(values + first, here, threshold, units);
        sum.units += part.units;
        sum.taken += part.taken;
    }
    uint64_t mean = sum.units / sum.taken;
    // 31 bits times a power of two: exact as a double, rounded by the last conversion alone.
    double unit = 1.0 / ((double)units.first * (double)units.second);
    return (float)((double)(mean > 0 ? mean : 1) * unit);
}
