// The places of ternary values that are not zero, as coders of gaps find them: in batches, so that
// finding them and writing to them each run at their own pace. Who calls: gaps.c, range.c. Pure;
// reentrant.
#ifndef TERN_PLACES_H
#define TERN_PLACES_H

#include "codec/kernels/kernels.h"

#define TERN_PLACES_MAX 128

struct tern_places {
    size_t count;
    uint64_t of[TERN_PLACES_MAX]; // 2 * index, + 1 if negative; ascending
};

static inline float tern_place_value(uint64_t place, uint32_t scale_bits)
{
    return tern_bits_float(scale_bits ^ (uint32_t)(place & 1) << 31);
}

// Sets the values from `from` to the last place, zero but for the places. Returns where it ended.
size_t tern_places_set(const struct tern_places *places, uint32_t scale_bits, float *dst,
                       size_t from);

// Sets the values from `from` to `end` to +0.
void tern_places_clear(float *dst, size_t from, size_t end);

// acc[index] += scale or -scale at the places.
void tern_places_add(const struct tern_places *places, uint32_t scale_bits, float *acc);

#endif
