// Kernels for AVX2.
#include "codec/kernels/paths.h"

#if TERN_KERNELS_X86
#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define TERN_INLINE TARGET static inline __attribute__((always_inline))

enum { FLOATS = 8, BYTES = 32, WORD_BITS = 64 };

#define TERN_KERNEL TARGET static
#define NAME(name) name
#include "codec/kernels/dense_loops.h"

TERN_INLINE __m256i load_bytes(const void *bytes)
{
    return _mm256_loadu_si256((const __m256i *)bytes);
}

TERN_INLINE void store_bytes(void *bytes, __m256i vector)
{
    _mm256_storeu_si256((__m256i *)bytes, vector);
}

// --- Packing

// The threshold with both signs, and the scale.
struct split {
    __m256 above, below, scale;
};

TERN_INLINE struct split split_of(float scale, uint32_t threshold)
{
    float bound = tern_bits_float(threshold);
    return (struct split){
        .above = _mm256_set1_ps(bound),
        .below = _mm256_set1_ps(-bound),
        .scale = _mm256_set1_ps(scale),
    };
}

// Quantizes 8 values, stores their residual errors and returns q. If `rare`, skips the store if all q are 0.
TERN_INLINE __m256i split_vector(float *at, const struct split *by, _Bool rare)
{
    __m256 values = _mm256_loadu_ps(at);
    __m256 above = _mm256_cmp_ps(values, by->above, _CMP_GT_OQ);
    __m256 below = _mm256_cmp_ps(values, by->below, _CMP_LT_OQ);
    __m256i q = _mm256_sub_epi32(_mm256_castps_si256(below), _mm256_castps_si256(above));
    if (rare && _mm256_testz_si256(q, q)) {
        return q;
    }
    values = _mm256_sub_ps(values, _mm256_and_ps(above, by->scale));
    // Subtracts +0 where q is 0, because adding +0 would turn -0 into +0.
    __m256 minus = _mm256_xor_ps(by->scale, _mm256_set1_ps(-0.0f));
    _mm256_storeu_ps(at, _mm256_sub_ps(values, _mm256_and_ps(below, minus)));
    return q;
}

// Quantizes 32 values to 32 bytes of q, in order.
TERN_INLINE __m256i split_values(float *at, const struct split *by, _Bool rare)
{
    __m256i q[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        q[i] = split_vector(at + i * FLOATS, by, rare);
    }
    // The pack instructions work within halves of 16 bytes; the permutation restores the order.
    __m256i words =
        _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    return _mm256_permutevar8x32_epi32(words, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// Packs 32 bytes, by Horner's rule over the five parts. Returns the number of bytes that are not zero.
TERN_INLINE size_t pack_bytes(float *at, size_t stride, const struct split *by, uint8_t *packed,
                              _Bool rare)
{
    const __m256i one = _mm256_set1_epi8(1);
    __m256i bytes = _mm256_setzero_si256();
#pragma GCC unroll 5
    for (size_t part = 0; part < TERN_TERNARY_PARTS; part++) {
        __m256i q = split_values(at + part * stride, by, rare);
        __m256i thrice = _mm256_add_epi8(_mm256_add_epi8(bytes, bytes), bytes);
        bytes = _mm256_add_epi8(thrice, _mm256_add_epi8(q, one));
    }
    store_bytes(packed, bytes);
    __m256i zero = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(TERN_TERNARY_ZERO));
    return BYTES - (size_t)_mm_popcnt_u32((unsigned)_mm256_movemask_epi8(zero));
}

enum {
    RARE = 3
}; // if fewer than so many of BYTES bytes are not zero, expect few in the next vector, too

// If few bytes are not zero, most cache lines of values need no store, and the branch that skips the store is predictable.
TERN_INLINE size_t pack_columns(float *at, size_t count, size_t stride, const struct split *by,
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

// --- Unpacking

TERN_INLINE __m256i load_some_bytes(const uint8_t *bytes, size_t len)
{
    uint8_t some[BYTES] = {0};
    memcpy(some, bytes, len);
    return load_bytes(some);
}

// See fraction_of() in ternary.c.
TERN_INLINE __m256i fractions_of(__m256i bytes)
{
    const __m256i zero = _mm256_setzero_si256();
    const __m256i thirteen = _mm256_set1_epi16(13);
    const __m256i round_up = _mm256_set1_epi16(TERN_TERNARY_LIMIT - 1);
    const __m256i inverse = _mm256_set1_epi16(270);
    __m256i low = _mm256_unpacklo_epi8(bytes, zero);
    __m256i high = _mm256_unpackhi_epi8(bytes, zero);
    low = _mm256_add_epi16(_mm256_mullo_epi16(low, thirteen), round_up);
    high = _mm256_add_epi16(_mm256_mullo_epi16(high, thirteen), round_up);
    low = _mm256_mulhi_epu16(low, inverse);
    high = _mm256_mulhi_epu16(high, inverse);
    return _mm256_add_epi8(bytes, _mm256_packus_epi16(low, high));
}

// Stores digits from 0 to 2.
TERN_INLINE void store_digits(__m256i bytes, uint8_t *at)
{
    __m256i fractions = fractions_of(bytes);
    // AVX2 compares signed bytes, so both sides are shifted by 128.
    const __m256i half = _mm256_set1_epi8((char)128);
    const __m256i first = _mm256_set1_epi8(85 - 128);
    const __m256i second = _mm256_set1_epi8(170 - 128);
#pragma GCC unroll 5
    for (size_t part = 0; part < TERN_TERNARY_PARTS; part++) {
        __m256i moved = _mm256_xor_si256(fractions, half);
        __m256i digit =
            _mm256_add_epi8(_mm256_cmpgt_epi8(moved, first), _mm256_cmpgt_epi8(moved, second));
        store_bytes(at + part * TERN_TERNARY_BLOCK_ROOM, _mm256_abs_epi8(digit));
        fractions = _mm256_add_epi8(_mm256_add_epi8(fractions, fractions), fractions);
    }
}

// Returns scale * q for each digit; `zero` for q = 0.
TERN_INLINE __m256 products_of(float scale, float zero)
{
    return _mm256_setr_ps(-scale, zero, scale, zero, -scale, zero, scale, zero);
}

TERN_INLINE __m256 values_of(const uint8_t *digits, __m256 by_digit)
{
    __m256i index = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)digits));
    return _mm256_permutevar8x32_ps(by_digit, index);
}

// Returns a mask of the first `len` of 8 floats.
TERN_INLINE __m256i some(size_t len)
{
    const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)tern_smaller(len, FLOATS)), places);
}

TERN_INLINE void set_vector(float *at, __m256 values)
{
    _mm256_store_ps(at, values);
}

TERN_INLINE void stream_vector(float *at, __m256 values)
{
    _mm256_stream_ps(at, values);
}

TERN_INLINE void add_vector(float *at, __m256 values)
{
    _mm256_store_ps(at, _mm256_add_ps(_mm256_load_ps(at), values));
}

TERN_INLINE void set_some(float *at, size_t len, __m256 values)
{
    _mm256_maskstore_ps(at, some(len), values);
}

TERN_INLINE void add_some(float *at, size_t len, __m256 values)
{
    __m256i real = some(len);
    _mm256_maskstore_ps(at, real, _mm256_add_ps(_mm256_maskload_ps(at, real), values));
}

// Returns the number of floats before the next aligned vector, at most len.
static size_t to_aligned(const float *at, size_t len)
{
    return tern_smaller(len, (0 - (uintptr_t)at / sizeof(float)) % FLOATS);
}

TERN_KERNEL void set_part(const uint8_t *digits, size_t len, float scale, float *at, _Bool stream)
{
    const __m256 by_digit = products_of(scale, 0);
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

// Adds -0 where q is 0, because adding +0 would turn -0 into +0.
TERN_KERNEL void add_part(const uint8_t *digits, size_t len, float scale, float *at, _Bool stream)
{
    (void)stream;
    const __m256 by_digit = products_of(scale, -0.0f);
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

// --- Bit planes

TERN_INLINE uint64_t top_bits(__m256i low, __m256i high)
{
    return (uint32_t)_mm256_movemask_epi8(low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(high)
                                                     << BYTES;
}

TERN_INLINE void split_word(float *at, const struct split *by, uint64_t *nonzero,
                            uint64_t *negative)
{
    __m256i low = split_values(at, by, 0);
    __m256i high = split_values(at + BYTES, by, 0);
    // A byte of q has its top bit set if q is -1, and its lowest bit if q is not 0.
    *negative = top_bits(low, high);
    *nonzero = top_bits(_mm256_slli_epi16(low, 7), _mm256_slli_epi16(high, 7));
}

// Returns lanes of all ones for the bits that are set among the lowest 8.
TERN_INLINE __m256i lanes_of(uint64_t bits)
{
    const __m256i places = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256i spread = _mm256_and_si256(_mm256_set1_epi32((int)(uint8_t)bits), places);
    return _mm256_cmpeq_epi32(spread, places);
}

// Returns the scale with the sign of q, for lanes where q is not 0.
TERN_INLINE __m256 signed_scale(uint64_t negative, __m256 scale)
{
    __m256i sign = _mm256_slli_epi32(lanes_of(negative), 31);
    return _mm256_xor_ps(scale, _mm256_castsi256_ps(sign));
}

TERN_INLINE void set_lanes(uint64_t nonzero, uint64_t negative, float scale, float *at, size_t len)
{
    __m256 products = _mm256_and_ps(_mm256_castsi256_ps(lanes_of(nonzero)),
                                    signed_scale(negative, _mm256_set1_ps(scale)));
    _mm256_maskstore_ps(at, some(len), products);
}

// Adds one word of the planes. Bits after the last value are 0, so no value past the end is read or written.
TERN_INLINE void add_word(uint64_t nonzero, uint64_t negative, float scale, float *values)
{
    const __m256 by = _mm256_set1_ps(scale);
    for (size_t i = 0; i < 64; i += FLOATS) {
        __m256i selected = lanes_of(nonzero >> i);
        __m256 sum = _mm256_add_ps(_mm256_maskload_ps(values + i, selected),
                                   signed_scale(negative >> i, by));
        _mm256_maskstore_ps(values + i, selected, sum);
    }
}

TERN_KERNEL void planes_set(struct tern_planes planes, float scale, float *values)
{
    for (size_t i = 0; i < planes.count; i += FLOATS) {
        uint64_t nonzero = planes.nonzero[i / WORD_BITS] >> i % WORD_BITS;
        uint64_t negative = planes.negative[i / WORD_BITS] >> i % WORD_BITS;
        set_lanes(nonzero, negative, scale, values + i, planes.count - i);
    }
}

TERN_KERNEL void planes_add(struct tern_planes planes, float scale, float *values)
{
    for (size_t word = 0; word < tern_plane_words(planes.count); word++) {
        if (planes.nonzero[word] != 0) {
            add_word(planes.nonzero[word], planes.negative[word], scale, values + word * WORD_BITS);
        }
    }
}

#include "codec/kernels/ternary_loops.h"

// --- Selection

TERN_INLINE __m256i magnitudes_at(const float *values)
{
    return _mm256_and_si256(load_bytes(values), _mm256_set1_epi32(INT32_MAX));
}

// Returns a bit for each of 8 lanes that is all ones.
TERN_INLINE unsigned lane_bits(__m256i lanes)
{
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(lanes));
}

TERN_INLINE __m256i all(uint32_t bits)
{
    return _mm256_set1_epi32((int)bits);
}

TERN_INLINE unsigned above_bits(__m256i magnitudes, __m256i than)
{
    return lane_bits(_mm256_cmpgt_epi32(magnitudes, than));
}

TERN_INLINE unsigned equal_bits(__m256i magnitudes, __m256i to)
{
    return lane_bits(_mm256_cmpeq_epi32(magnitudes, to));
}

TERN_KERNEL void compare(const float *values, size_t words, uint32_t bits, uint64_t *above,
                         uint64_t *equal)
{
    const __m256i with = all(bits);
    for (size_t word = 0; word < words; word++, values += WORD_BITS) {
        uint64_t is_above = 0;
        uint64_t is_equal = 0;
#pragma GCC unroll 8
        for (size_t i = 0; i < WORD_BITS; i += FLOATS) {
            __m256i magnitudes = magnitudes_at(values + i);
            is_above |= (uint64_t)above_bits(magnitudes, with) << i;
            is_equal |= (uint64_t)equal_bits(magnitudes, with) << i;
        }
        above[word] = is_above;
        equal[word] = is_equal;
    }
}

TARGET static size_t collect(const float *values, size_t count, struct tern_bracket bracket,
                             float *dst, size_t room, size_t *above)
{
    const __m256i below = all(bracket.low - 1);
    const __m256i high = all(bracket.high);
    size_t have = 0;
    size_t higher = 0;
    size_t i = 0;
    for (; count - i >= FLOATS && room - have > FLOATS; i += FLOATS) {
        __m256i magnitudes = magnitudes_at(values + i);
        unsigned too_high = above_bits(magnitudes, high);
        unsigned inside = above_bits(magnitudes, below) & ~too_high;
        higher += (size_t)_mm_popcnt_u32(too_high);
        for (; inside != 0; inside &= inside - 1) {
            uint32_t bits = tern_float_bits(values[i + _tzcnt_u32(inside)]);
            dst[have++] = tern_bits_float(bits & ~TERN_SIGN_BIT);
        }
    }
    if (room - have <= FLOATS) {
        return room;
    }
    size_t rest =
        tern_portable_collect(values + i, count - i, bracket, dst + have, room - have, above);
    *above += higher;
    return have + rest;
}

// --- Zero runs

TERN_INLINE uint64_t zeros_of(const uint8_t *bytes)
{
    const __m256i zero = _mm256_set1_epi8(TERN_TERNARY_ZERO);
    return top_bits(_mm256_cmpeq_epi8(load_bytes(bytes), zero),
                    _mm256_cmpeq_epi8(load_bytes(bytes + BYTES), zero));
}

#include "codec/kernels/zero_run_loops.h"

// A run code exceeds the largest other byte (242) by one less than its length.
TARGET static struct tern_run_facts run_facts(const uint8_t *coded, size_t len)
{
    const __m256i one = _mm256_set1_epi8((char)(TERN_TERNARY_LIMIT - 1));
    const __m256i zero = _mm256_setzero_si256();
    __m256i beyond = zero;
    size_t literals = 0;
    size_t i = 0;
    for (; len - i >= BYTES; i += BYTES) {
        __m256i extra = _mm256_subs_epu8(load_bytes(coded + i), one);
        beyond = _mm256_add_epi64(beyond, _mm256_sad_epu8(extra, zero));
        __m256i is_literal = _mm256_cmpeq_epi8(extra, zero);
        literals += (size_t)_mm_popcnt_u32((unsigned)_mm256_movemask_epi8(is_literal));
    }
    struct tern_run_facts facts = tern_portable_run_facts(coded + i, len - i);
    uint64_t sums[4];
    store_bytes(sums, beyond);
    facts.runs += i - literals;
    facts.expanded += i + (size_t)(sums[0] + sums[1] + sums[2] + sums[3]);
    return facts;
}

const struct tern_kernels tern_kernels_avx2 = {
    .name = "avx2",
    TERN_DENSE_FIELDS,
    TERN_TERNARY_FIELDS,
    .planes_set = planes_set,
    .planes_add = planes_add,
    .compare = compare,
    .finish = finish,
    .run_encode = run_encode,
    .run_facts = run_facts,
    .collect = collect,
};

#else
typedef int tern_avx2_is_empty; // ISO C forbids an empty file
#endif
