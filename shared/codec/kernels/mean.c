#include "codec/kernels/mean.h"

#include "codec/kernels/paths.h"

enum {
    EXPONENT_BIAS = 127,
    DOUBLE_BIAS = 1023,
    UNIT_BITS = 30,     // units are 2^-30 of the peak's power of two
    CUT_STEP = 1 << 22, // of bits, from one cut to the next: half an octave
    CUTS = 16,
};

// E with 2^E <= peak < 2^(E + 1). Every float32 that is not 0 is normal as a float64.
static int exponent_of(float peak)
{
    return (int)(tern_double_bits((double)peak) >> 52) - DOUBLE_BIAS;
}

// 2^exponent, of a normal float32.
static float power_of_two(int exponent)
{
    return tern_bits_float((uint32_t)(exponent + EXPONENT_BIAS) << 23);
}

static struct tern_units units_of(int peak_exponent)
{
    int shift = UNIT_BITS - peak_exponent;
    int first = shift > EXPONENT_BIAS ? EXPONENT_BIAS : shift;
    return (struct tern_units){.first = power_of_two(first), .second = power_of_two(shift - first)};
}

struct tern_mean tern_kernel_mean_above(const float *values, size_t count, uint32_t threshold,
                                        float peak)
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
    double unit = tern_bits_double((uint64_t)(exponent - UNIT_BITS + DOUBLE_BIAS) << 52);
    return (struct tern_mean){.magnitude = (float)((double)(mean > 0 ? mean : 1) * unit),
                              .taken = (uint32_t)sum.taken};
}

float tern_kernel_best_mean(const float *values, size_t count, float peak)
{
    float best = 0;
    uint32_t most = 0; // as bits, which positive numbers compare by
    uint32_t cut = tern_float_bits(peak);
    for (unsigned i = 0; i < CUTS; i++) {
        cut = cut > CUT_STEP ? cut - CUT_STEP : 0;
        struct tern_mean mean = tern_kernel_mean_above(values, count, cut, peak);
        float share = mean.magnitude / peak; // whose square is in float32's range
        uint32_t off = tern_float_bits(share * share * (float)mean.taken);
        if (off > most) {
            most = off;
            best = mean.magnitude;
        }
    }
    return best;
}
