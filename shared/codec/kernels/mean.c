#include "codec/kernels/kernels.h"

#include "codec/kernels/paths.h"

enum {
    UNIT_BITS = 30,     // units are 2^-30 of the peak's power of two
    CUT_STEP = 1 << 22, // from one threshold to the next, in bits of a float: half an octave
    CUTS = 16,
};

struct tern_mean tern_kernel_mean_above(const float *values, size_t count, uint32_t threshold,
                                        float peak)
{
    int exponent = tern_exponent_of(peak);
    struct tern_units units = tern_units_of(exponent, UNIT_BITS);
    struct tern_sum sum = {0, 0};
    for (size_t first = 0; first < count; first += TERN_SUM_BLOCK) {
        size_t here = count - first < TERN_SUM_BLOCK ? count - first : TERN_SUM_BLOCK;
        struct tern_sum part = tern_kernel_sum_above(values + first, here, threshold, units);
        sum.units += part.units;
        sum.taken += part.taken;
    }
    // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): at least one value is above the threshold
    uint64_t mean = sum.units / sum.taken;
    // The product has 31 significant bits, so it is exact as a double; only the conversion to float rounds.
    double unit = tern_double_power(exponent - UNIT_BITS);
    return (struct tern_mean){.magnitude = (float)((double)(mean > 0 ? mean : 1) * unit),
                              .taken = (uint32_t)sum.taken};
}

float tern_kernel_best_mean(const float *values, size_t count, float peak)
{
    float best = 0;
    uint32_t most = 0; // bits of a positive float, which compare as integers
    uint32_t cut = tern_float_bits(peak);
    for (unsigned i = 0; i < CUTS; i++) {
        cut = cut > CUT_STEP ? cut - CUT_STEP : 0;
        struct tern_mean mean = tern_kernel_mean_above(values, count, cut, peak);
        float share = mean.magnitude / peak; // relative, so that its square does not overflow
        uint32_t off = tern_float_bits(share * share * (float)mean.taken);
        if (off > most) {
            most = off;
            best = mean.magnitude;
        }
    }
    return best;
}
