#include "codec/kernels/levels.h"

#include "codec/kernels/kernels.h"
#include "codec/kernels/lanes.h"

double tern_kernel_sum_square(const float *values, size_t count)
{
    double lanes[TERN_SUM_LANES] = {0};
    size_t i = 0;
    for (; count - i >= TERN_SUM_LANES; i += TERN_SUM_LANES) {
        for (size_t lane = 0; lane < TERN_SUM_LANES; lane++) {
            double value = (double)values[i + lane];
            lanes[lane] += value * value;
        }
    }
    for (size_t lane = 0; i + lane < count; lane++) {
        double value = (double)values[i + lane];
        lanes[lane] += value * value;
    }
    return tern_sum_of_lanes(lanes);
}

// [0, 1), on a grid of 2^-24.
static inline float uniform(uint32_t draw)
{
    return (float)(int32_t)(draw >> 8) * 0x1p-24f;
}

float tern_kernel_levels(float *restrict values, size_t count, float scale, float levels,
                         const uint32_t *restrict draws)
{
    float highest = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = tern_float_bits(values[i]);
        float place = tern_bits_float(bits & ~TERN_SIGN_BIT) / scale * levels;
        float below = (float)(int32_t)place;
        float level = below + (uniform(draws[i]) < place - below ? 1.0f : 0.0f);
        values[i] = tern_bits_float(tern_float_bits(level) | (bits & TERN_SIGN_BIT));
        highest = level > highest ? level : highest;
    }
    return highest;
}
