// The indices of ternary values that are not zero, as coders of gaps find them: in batches, so that
// finding them and writing to them each run at their own pace. Who calls: gaps.c, range.c. Pure;
// reentrant.
#ifndef TERN_INDICES_H
#define TERN_INDICES_H

#include "codec/codec.h"
#include "codec/kernels/kernels.h"

// Finds the next indices of a coder's reader: fewer than TERN_INDICES_MAX only where no more follow.
typedef void tern_indices_find(void *reader, struct tern_indices *indices);

// Sets `count` values, zero but for the indices that are found.
void tern_indices_decode(tern_indices_find *find, void *reader, uint32_t scale_bits, float *dst,
                         size_t count);

// acc[index] += scale or -scale.
void tern_indices_add(const struct tern_indices *indices, uint32_t scale_bits, float *acc);

// The same at all indices that are found.
void tern_indices_accumulate(tern_indices_find *find, void *reader, uint32_t scale_bits,
                             float *acc);

// A tern_take_signs for who only looks whether a payload is well-formed.
static inline void tern_indices_skip(void *ctx, float scale, const struct tern_indices *indices)
{
    (void)ctx;
    (void)scale;
    (void)indices;
}

// How many indices are found.
size_t tern_indices_count(tern_indices_find *find, void *reader);

#endif
