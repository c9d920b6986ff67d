// The inner loop of mean.c, in plain C for the vectoriser. Included once for each instruction set;
// for KERNEL and NAME see dense_loops.h.
#ifndef TERN_MEAN_LOOPS_H
#define TERN_MEAN_LOOPS_H

#include "codec/kernels/paths.h"

KERNEL struct tern_sum NAME(sum_above)(const float *values, size_t count, uint32_t threshold,
                                       struct tern_units units)
{
    // The sums fit 32 bits when units are cut into two halves of 16 bits.
    uint32_t low = 0;
    uint32_t high = 0;
    uint32_t taken = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = tern_float_bits(values[i]) & ~TERN_SIGN_BIT;
        // Signed compares and conversions, which SSE2 has; magnitudes are below 2^31.
        uint32_t mask = (int32_t)bits > (int32_t)threshold ? ~0u : 0u;
        float scaled = tern_bits_float(bits & mask) * units.first * units.second;
        uint32_t whole = (uint32_t)(int32_t)scaled;
        low += whole & 0xffff;
        high += whole >> 16;
        taken -= mask; // + 1
    }
    return (struct tern_sum){.units = ((uint64_t)high << 16) + low, .taken = taken};
}

#endif
