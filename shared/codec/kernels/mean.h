// Means that do not depend on the order of summation: sums of whole numbers. Pure; reentrant.
#ifndef TERN_MEAN_H
#define TERN_MEAN_H

#include <stddef.h>
#include <stdint.h>

// Mean magnitude of the values whose magnitude, as bits, is above `threshold`; at least one is.
// Magnitudes are cut to whole multiples of 2^-30 of the power of two at or below `peak`, the
// largest of them (docs/FORMAT.md, section 3.3, density). The result is finite and > 0.
// count < 2^33.
float tern_kernel_mean_above(const float *values, size_t count, uint32_t threshold, float peak);

#endif
