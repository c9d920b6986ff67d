#include "codec/coders/indices.h"

#include <string.h>

static inline float value_of(tern_signed_index index, uint32_t scale_bits)
{
    return tern_bits_float(scale_bits ^ (uint32_t)(index & 1) << 31);
}

static void clear(float *dst, size_t from, size_t end)
{
    if (from < end) {
        memset(dst + from, 0, (end - from) * sizeof *dst);
    }
}

// Sets the values from `from` to the last index of a batch. Returns the index after the last.
static size_t set(const struct tern_indices *indices, uint32_t scale_bits, float *dst, size_t from)
{
    if (indices->count == 0) {
        return from;
    }
    size_t end = (size_t)(indices->of[indices->count - 1] / 2) + 1;
    clear(dst, from, end);
    for (size_t i = 0; i < indices->count; i++) {
        dst[indices->of[i] / 2] = value_of(indices->of[i], scale_bits);
    }
    return end;
}

// Prefetches, because the processor cannot predict irregular indices.
void tern_indices_add(const struct tern_indices *indices, uint32_t scale_bits, float *acc)
{
    for (size_t i = 0; i < indices->count; i++) {
        __builtin_prefetch(&acc[indices->of[i] / 2], 1);
    }
    for (size_t i = 0; i < indices->count; i++) {
        acc[indices->of[i] / 2] += value_of(indices->of[i], scale_bits);
    }
}

void tern_indices_decode(tern_indices_find *find, void *reader, uint32_t scale_bits, float *dst,
                         size_t count)
{
    struct tern_indices indices;
    size_t done = 0;
    do {
        find(reader, &indices);
        done = set(&indices, scale_bits, dst, done);
    } while (indices.count == TERN_INDICES_MAX);
    clear(dst, done, count);
}

void tern_indices_accumulate(tern_indices_find *find, void *reader, uint32_t scale_bits, float *acc)
{
    struct tern_indices indices;
    do {
        find(reader, &indices);
        tern_indices_add(&indices, scale_bits, acc);
    } while (indices.count == TERN_INDICES_MAX);
}

size_t tern_indices_count(tern_indices_find *find, void *reader)
{
    struct tern_indices indices;
    size_t found = 0;
    do {
        find(reader, &indices);
        found += indices.count;
    } while (indices.count == TERN_INDICES_MAX);
    return found;
}
