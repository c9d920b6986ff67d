#include "codec/kernels/mean.h"

#include "codec/kernels/paths.h"

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

static struct tern_units units_of(int peak_exponent)
{
    int shift = UNIT_BITS - peak_exponent;
    int first = shift > EXPONENT_BIAS ? EXPONENT_BIAS : shift;
    return (struct tern_units){.first = power_of_two(first), .second = power_of_two(shift - first)};
}

float tern_kernel_mean_above(const float *values, size_t count, uint32_t threshold, float peak)
{
    int exponent = exponent_of(peak);
    struct tern_units units = units_of(exponent);
    struct tern_sum sum = {0, 0};
    for (size_t first = 0; first < count; first += TERN_SUM_BLOCK) {
        size_t here = count - first < TERN_SUM_BLOCK ? count - first : TERN_SUM_BLOCK;
        struct tern_sum part = tern_kernel_sum_above(values + first, here, threshold, units);
        sum.units += part.units;
        sum.taken += part.taken;
    }
    // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): the caller knows of a value above
    uint64_t mean = sum.units / sum.taken;
    // 31 bits times a power of two: exact as a double, rounded by the last conversion alone.
    double unit = 1.0 / ((double)units.first * (double)units.second);
    return (float)((double)(mean > 0 ? mean : 1) * unit);
}
