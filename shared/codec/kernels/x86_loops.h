// What the kernels of AVX2 and AVX-512 share beside ternary_loops.h. Included once for each, with
// its macros, and after these:
//   FLOATS, BYTES  of a vector
//   float_vector   a vector of floats
//   int_vector     a vector of 32-bit integers
//   RARE           bytes of BYTES: if fewer are not zero, few of the next will be
//   pack_bytes     packs BYTES columns, of which few are selected if `rare`; returns how many were
//   products_of    scale * q by digit, with what stands for 0
//   values_of      looks up the digits of a vector
//   set_vector     stores an aligned vector
//   stream_vector  does that past the caches
//   add_vector     adds to an aligned vector
//   set_some       stores the first floats of a vector, at most all
//   add_some       adds to them
//   set_lanes      sets values from the lowest bits of planes, at most a vector
//   add_word       adds what a word of the planes stands for
//   all            a vector of an integer
//   magnitudes_at  bits of magnitudes, as a vector
//   above_bits     a bit for each lane that is above the other one
//   equal_bits     a bit for each lane that is equal to it
#ifndef TERN_X86_LOOPS_H
#define TERN_X86_LOOPS_H

#include "codec/kernels/paths.h"

enum { WORD_BITS = 64 };

// Where few bytes are not zero, most lines of the values need no store, and the branch that finds
// them is foreseen. The last vector of bytes tells.
INLINE size_t pack_columns(float *at, size_t count, size_t stride, const struct split *by,
                           uint8_t *packed)
{
    _Bool rare = 0;
    size_t i = 0;
    for (; count - i >= BYTES; i += BYTES) {
        size_t nonzero = rare ? pack_bytes(at + i, stride, by, packed + i, 1)
                              : pack_bytes(at + i, stride, by, packed + i, 0);
        rare = nonzero < RARE;
    }
    return i;
}

// Floats before the next aligned vector, at most len.
static size_t to_aligned(const float *at, size_t len)
{
    return tern_smaller(len, (0 - (uintptr_t)at / sizeof(float)) % FLOATS);
}

KERNEL void set_part(const uint8_t *digits, size_t len, float scale, float *at, _Bool stream)
{
    const float_vector by_digit = products_of(scale, 0);
    size_t i = to_aligned(at, len);
    set_some(at, i, values_of(digits, by_digit));
    for (; stream && len - i >= FLOATS; i += FLOATS) {
        stream_vector(at + i, values_of(digits + i, by_digit));
    }
    for (; len - i >= FLOATS; i += FLOATS) {
        set_vector(at + i, values_of(digits + i, by_digit));
    }
    set_some(at + i, len - i, values_of(digits + i, by_digit));
}

// Adds -0 where q is 0, which leaves every value as it is: +0 would turn -0 into +0.
KERNEL void add_part(const uint8_t *digits, size_t len, float scale, float *at, _Bool stream)
{
    (void)stream;
    const float_vector by_digit = products_of(scale, -0.0f);
    size_t i = to_aligned(at, len);
    add_some(at, i, values_of(digits, by_digit));
    for (; len - i >= FLOATS; i += FLOATS) {
        add_vector(at + i, values_of(digits + i, by_digit));
    }
    add_some(at + i, len - i, values_of(digits + i, by_digit));
}

static void finish(void)
{
    _mm_sfence();
}

KERNEL void planes_set(struct tern_planes planes, float scale, float *values)
{
    for (size_t i = 0; i < planes.count; i += FLOATS) {
        uint64_t nonzero = planes.nonzero[i / WORD_BITS] >> i % WORD_BITS;
        uint64_t negative = planes.negative[i / WORD_BITS] >> i % WORD_BITS;
        set_lanes(nonzero, negative, scale, values + i, planes.count - i);
    }
}

KERNEL void planes_add(struct tern_planes planes, float scale, float *values)
{
    for (size_t word = 0; word < tern_plane_words(planes.count); word++) {
        if (planes.nonzero[word] != 0) {
            add_word(planes.nonzero[word], planes.negative[word], scale, values + word * WORD_BITS);
        }
    }
}

KERNEL void compare(const float *values, size_t words, uint32_t bits, uint64_t *above,
                    uint64_t *equal)
{
    const int_vector with = all(bits);
    for (size_t word = 0; word < words; word++, values += WORD_BITS) {
        uint64_t is_above = 0;
        uint64_t is_equal = 0;
#pragma GCC unroll 8
        for (size_t i = 0; i < WORD_BITS; i += FLOATS) {
            int_vector magnitudes = magnitudes_at(values + i);
            is_above |= (uint64_t)above_bits(magnitudes, with) << i;
            is_equal |= (uint64_t)equal_bits(magnitudes, with) << i;
        }
        above[word] = is_above;
        equal[word] = is_equal;
    }
}

// Of struct tern_kernels.
#define TERN_X86_FIELDS                                                                            \
    .sum_above = sum_above, .planes_set = planes_set, .planes_add = planes_add,                    \
    .compare = compare, .finish = finish

#endif
