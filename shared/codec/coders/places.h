// The places of ternary values that are not zero, as coders of gaps find them: in batches, so that
// finding them and writing to them each run at their own pace. Who calls: gaps.c, range.c. Pure;
// reentrant.
#ifndef TERN_PLACES_H
#define TERN_PLACES_H

#include "codec/kernels/kernels.h"

#define TERN_PLACES_MAX (TERN_SMALL ? 16 : 128)

// 2 * index, + 1 if negative.
#if TERN_SMALL
typedef uint32_t tern_place;
#else
typedef uint64_t tern_place;
#endif

struct tern_places {
    size_t count;
    tern_place of[TERN_PLACES_MAX]; // ascending
};

// Finds the next places of a coder's reader: fewer than TERN_PLACES_MAX only where no more follow.
typedef void tern_places_find(void *reader, struct tern_places *places);

// Sets `count` values, zero but for the places that are found.
void tern_places_decode(tern_places_find *find, void *reader, uint32_t scale_bits, float *dst,
                        size_t count);

// acc[index] += scale or -scale at the places that are found.
void tern_places_accumulate(tern_places_find *find, void *reader, uint32_t scale_bits, float *acc);

// How many places are found.
size_t tern_places_count(tern_places_find *find, void *reader);

#endif
