// Applies batches of indices of ternary values that are not 0, which gaps.c and range.c decode. Pure; reentrant.
#ifndef TERN_INDICES_H
#define TERN_INDICES_H

#include "codec/codec.h"
#include "codec/kernels/kernels.h"

// Decodes the next batch of a coder's reader; fewer than TERN_INDICES_MAX indices only at the end.
typedef void tern_indices_find(void *reader, struct tern_indices *indices);

// Sets `count` values: scale or -scale at the indices, else 0.
void tern_indices_decode(tern_indices_find *find, void *reader, uint32_t scale_bits, float *dst,
                         size_t count);

// Adds scale or -scale at the indices of one batch.
void tern_indices_add(const struct tern_indices *indices, uint32_t scale_bits, float *acc);

// Adds scale or -scale at all indices.
void tern_indices_accumulate(tern_indices_find *find, void *reader, uint32_t scale_bits,
                             float *acc);

// A tern_take_signs that ignores the values, for checks.
static inline void tern_indices_skip(void *ctx, float scale, const struct tern_indices *indices)
{
    (void)ctx;
    (void)scale;
    (void)indices;
}

// Returns the number of indices.
size_t tern_indices_count(tern_indices_find *find, void *reader);

#endif
