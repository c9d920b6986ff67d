// Sums over magnitudes that are rounded to whole multiples of a step. The encoder of `uniform` finds
// step and scale from them. The results have the same bits on every machine. Pure; reentrant.
#ifndef TERN_STEPS_H
#define TERN_STEPS_H

#include <stddef.h>
#include <stdint.h>

// Rounds a magnitude to steps: floor(magnitude / step + 0.4), quotient and sum rounded to float32.
// A magnitude below about 0.6 steps becomes 0.
static inline int tern_steps_of(float magnitude, float step)
{
    return (int)(magnitude / step + 0.4f);
}

// Lane sums (lanes.h) over a sample of count / stride values t, with k steps each.
struct tern_step_sums {
    double product; // of |t| k
    double square;  // of k^2, exact below 2^53
};

// stride < 2^32; step > 0, and no magnitude becomes more than 2^24 steps.
struct tern_step_sums tern_kernel_step_sums(const float *values, size_t count, size_t stride,
                                            float step);

// The lane sum of the squares of such a sample.
double tern_kernel_square_sum(const float *values, size_t count, size_t stride);

#endif
