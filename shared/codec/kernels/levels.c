#include "codec/kernels/kernels.h"

#include <stdbool.h>

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

// Returns a random number in [0, 1), a multiple of 2^-24.
static inline float uniform(uint32_t draw)
{
    return (float)(int32_t)(draw >> 8) * 0x1p-24f;
}

// Compares numbers that are not negative, whose bits compare as integers; gcc vectorises only integer comparisons.
static inline bool is_less(float a, float b)
{
    return (int32_t)tern_float_bits(a) < (int32_t)tern_float_bits(b);
}

float tern_kernel_levels(float *restrict values, size_t count, float scale, float levels,
                         const uint32_t *restrict draws)
{
    int32_t highest = 0; // bits of a float
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = tern_float_bits(values[i]);
        float place = tern_bits_float(bits & ~TERN_SIGN_BIT) / scale * levels;
        float below = (float)(int32_t)place;
        float level = below + (is_less(uniform(draws[i]), place - below) ? 1.0f : 0.0f);
        int32_t level_bits = (int32_t)tern_float_bits(level);
        values[i] = tern_bits_float((uint32_t)level_bits | (bits & TERN_SIGN_BIT));
        highest = level_bits > highest ? level_bits : highest;
    }
    return tern_bits_float((uint32_t)highest);
}

void tern_kernel_levels_set(const float *restrict signed_levels, size_t count, float scale,
                            float levels, float *restrict dst)
{
    for (size_t i = 0; i < count; i++) {
        dst[i] = tern_level_value(scale, signed_levels[i], levels);
    }
}

void tern_kernel_levels_add(const float *restrict signed_levels, size_t count, float scale,
                            float levels, float weight, float *restrict acc)
{
    for (size_t i = 0; i < count; i++) {
        acc[i] += weight * tern_level_value(scale, signed_levels[i], levels);
    }
}
