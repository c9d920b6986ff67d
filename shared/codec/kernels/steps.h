// Sums over magnitudes rounded to whole multiples of a step, from which an encoder finds the step
// and the scale. As the kernels of kernels.h: every version gives the same bits. Pure; reentrant.
#ifndef TERN_STEPS_H
#define TERN_STEPS_H

#include <stddef.h>
#include <stdint.h>

// The whole number of steps that a magnitude becomes: floor(magnitude / step + 0.4), quotient and
// sum rounded to float32. A magnitude below about 0.6 steps becomes 0.
static inline int tern_steps_of(float magnitude, float step)
{
    return (int)(magnitude / step + 0.4f);
}

// The index of value i of a sample of one value in each `stride`: i * stride, and a part of the
// stride that follows the golden ratio, or the sample would see some columns of a matrix only.
static inline size_t tern_sample_index(size_t i, size_t stride)
{
    uint64_t part = (uint32_t)i * (uint32_t)2654435769u;
    return i * stride + (size_t)(part * stride >> 32);
}

// Lane sums (lanes.h) over such a sample of count / stride values t, with k steps each.
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
