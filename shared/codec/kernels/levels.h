// Inner loops of the codecs that round magnitudes to a few levels at random. As those of kernels.h:
// no branch that depends on a value, and every version gives the same bits. Pure; reentrant.
#ifndef TERN_LEVELS_H
#define TERN_LEVELS_H

#include <stddef.h>
#include <stdint.h>

// The lane sum (lanes.h) of the squares.
double tern_kernel_sum_square(const float *values, size_t count);

// Replaces each value by its level: the two whole numbers around |value| / scale * levels, the
// larger one where a draw of [0, 1) is below the fraction; with the sign of the value. levels is
// whole and at most 2^22; no magnitude is above scale > 0. Returns the highest level.
float tern_kernel_levels(float *values, size_t count, float scale, float levels,
                         const uint32_t *draws);

// What a level stands for. At most scale, so never infinite.
static inline float tern_level_value(float scale, float level, float levels)
{
    return scale * (level / levels);
}

// value = what a level with its sign stands for, and value += weight * that.
void tern_kernel_levels_set(const float *signed_levels, size_t count, float scale, float levels,
                            float *dst);
void tern_kernel_levels_add(const float *signed_levels, size_t count, float scale, float levels,
                            float weight, float *acc);

#endif
