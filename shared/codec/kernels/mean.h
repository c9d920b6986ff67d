// Means that do not depend on the order of summation: sums of whole numbers. Pure; reentrant.
#ifndef TERN_MEAN_H
#define TERN_MEAN_H

#include <stddef.h>
#include <stdint.h>

// Mean magnitude of the values whose magnitude, as bits, is above `threshold`; at least one is.
// Magnitudes are cut to whole multiples of 2^-30 of the power of two at or below `peak`, the
// largest of them (docs/FORMAT.md, section 3.3, density). The result is finite and > 0.
// count < 2^32.
struct tern_mean {
    float magnitude;
    uint32_t taken; // values above, 1 or more
};
struct tern_mean tern_kernel_mean_above(const float *values, size_t count, uint32_t threshold,
                                        float peak);

// Of the means of the largest magnitudes, that which as the one scale of a ternary payload leaves
// least: K values that sum to S take S^2 / K off the sum of squares (Li, Zhang, Liu, Ternary Weight
// Networks, 2016, equation 5). Looked at are 16 cuts, two an octave, down to 1/256 of `peak`, the
// largest magnitude, which is not 0; in the units above. The result is finite and > 0.
float tern_kernel_best_mean(const float *values, size_t count, float peak);

#endif
