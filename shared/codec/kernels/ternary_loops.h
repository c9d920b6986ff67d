// The ternary kernels without the vector operations: blocks, their five parts, and values that fill no vector. Included once
// for each instruction set, which defines TERN_KERNEL (dense_loops.h) and
//   TERN_INLINE            storage class of functions that must be inlined
//   BYTES             bytes of a vector
//   struct split      scale and threshold as vectors, from split_of(scale, threshold)
//   pack_columns      packs whole vectors of columns; returns the number of columns
//   split_word        quantizes 64 values into a word of each plane
//   load_bytes        loads BYTES bytes
//   load_some_bytes   loads fewer bytes, and zeros
//   store_digits      stores the five digits of each byte, TERN_TERNARY_BLOCK_ROOM apart
//   set_part          sets values from digits, past the caches if `stream`
//   add_part          adds scale * q to values, from digits
#ifndef TERN_TERNARY_LOOPS_H
#define TERN_TERNARY_LOOPS_H

#include "codec/kernels/paths.h"

TERN_KERNEL void ternary_pack(struct tern_columns columns, float scale, uint32_t threshold,
                              uint8_t *packed)
{
    const struct split by = split_of(scale, threshold);
    size_t whole = tern_whole_columns(&columns);
    size_t done = pack_columns(columns.values + columns.first, whole,
                               tern_packed_stride(columns.count), &by, packed);
    columns.first += done;
    columns.len -= done;
    tern_portable_ternary_pack(columns, scale, threshold, packed + done);
}

// The five digits of each byte of a block, part by part.
struct digits {
    _Alignas(64) uint8_t of[TERN_TERNARY_PARTS][TERN_TERNARY_BLOCK_ROOM];
};

// Finds all digits of a block. Rounds len up to a multiple of BYTES, with zero bytes.
TERN_KERNEL void find_digits(const uint8_t *packed, size_t len, struct digits *digits)
{
    size_t i = 0;
    for (; len - i >= BYTES; i += BYTES) {
        store_digits(load_bytes(packed + i), (uint8_t *)digits + i);
    }
    if (i < len) {
        store_digits(load_some_bytes(packed + i, len - i), (uint8_t *)digits + i);
    }
}

typedef void part_kernel(const uint8_t *digits, size_t len, float scale, float *at, _Bool stream);

TERN_INLINE void each_part(const uint8_t *packed, size_t len, float scale,
                           struct tern_ternary_target target, part_kernel *kernel)
{
    struct digits digits;
    find_digits(packed, len, &digits);
    for (size_t part = 0; part < TERN_TERNARY_PARTS; part++) {
        size_t real = tern_part_length(&target, part, len);
        if (real > 0) {
            kernel(digits.of[part], real, scale, target.at + part * target.stride, target.stream);
        }
    }
}

TERN_KERNEL void ternary_set(const uint8_t *packed, size_t len, float scale,
                             struct tern_ternary_target target)
{
    each_part(packed, len, scale, target, set_part);
}

TERN_KERNEL void ternary_add(const uint8_t *packed, size_t len, float scale,
                             struct tern_ternary_target target)
{
    target.stream = 0; // adding reads the values, so they are in the caches
    each_part(packed, len, scale, target, add_part);
}

TERN_KERNEL void planes_split(float *values, float scale, uint32_t threshold,
                              struct tern_planes planes)
{
    const struct split by = split_of(scale, threshold);
    size_t whole = planes.count / 64;
    for (size_t word = 0; word < whole; word++) {
        split_word(values + word * 64, &by, &planes.nonzero[word], &planes.negative[word]);
    }
    struct tern_planes rest = {
        .nonzero = planes.nonzero + whole,
        .negative = planes.negative + whole,
        .count = planes.count % 64,
    };
    tern_portable_planes_split(values + whole * 64, scale, threshold, rest);
}

// Fields of struct tern_kernels. Hand-written vectors do not speed up counting and expanding.
#define TERN_TERNARY_FIELDS                                                                        \
    .ternary_pack = ternary_pack, .ternary_set = ternary_set, .ternary_add = ternary_add,          \
    .planes_split = planes_split, .ternary_nonzero = tern_portable_ternary_nonzero,                \
    .run_expand = tern_portable_run_expand

#endif
