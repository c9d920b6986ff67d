// Kernels for AVX-512 F, BW, VL and DQ, with run coding by VBMI2 where it is.
#include "codec/kernels/paths.h"

#if TERN_KERNELS_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,bmi,bmi2,popcnt")))
#define INLINE TARGET static inline __attribute__((always_inline))

enum { FLOATS = 16, BYTES = 64 };
typedef __m512 float_vector;
typedef __m512i int_vector;

#define KERNEL TARGET static
#define NAME(name) name
#include "codec/kernels/dense_loops.h"
#include "codec/kernels/mean_loops.h"

// --- Packing
// -------------------------------------------------------------------------------

// What a value is compared with, and what is taken from it.
struct split {
    __m512 above, below, scale;
};

INLINE struct split split_of(float scale, uint32_t threshold)
{
    float bound = tern_bits_float(threshold);
    return (struct split){
        .above = _mm512_set1_ps(bound),
        .below = _mm512_set1_ps(-bound),
        .scale = _mm512_set1_ps(scale),
    };
}

// The signs of up to 64 values: bit i for value i.
struct signs {
    uint64_t positive, negative;
};

// 16 values; stores what is left of them only where that changed a line.
INLINE void split_vector(float *at, const struct split *by, unsigned *positive, unsigned *negative,
                         _Bool rare)
{
    __m512 values = _mm512_loadu_ps(at);
    __mmask16 above = _mm512_cmp_ps_mask(values, by->above, _CMP_GT_OQ);
    __mmask16 below = _mm512_cmp_ps_mask(values, by->below, _CMP_LT_OQ);
    *positive = above;
    *negative = below;
    if (rare && (above | below) == 0) {
        return;
    }
    values = _mm512_mask_sub_ps(values, above, values, by->scale);
    values = _mm512_mask_add_ps(values, below, values, by->scale);
    _mm512_storeu_ps(at, values);
}

INLINE struct signs split_values(float *at, const struct split *by, _Bool rare)
{
    struct signs signs = {0, 0};
#pragma GCC unroll 4
    for (unsigned i = 0; i < BYTES; i += FLOATS) {
        unsigned positive;
        unsigned negative;
        split_vector(at + i, by, &positive, &negative, rare);
        signs.positive |= (uint64_t)positive << i;
        signs.negative |= (uint64_t)negative << i;
    }
    return signs;
}

// 64 bytes, by Horner over the five parts. Returns how many are not zero.
INLINE size_t pack_bytes(float *at, size_t stride, const struct split *by, uint8_t *packed,
                         _Bool rare)
{
    const __m512i one = _mm512_set1_epi8(1);
    __m512i bytes = _mm512_setzero_si512();
    uint64_t nonzero = 0;
#pragma GCC unroll 5
    for (size_t part = 0; part < TERN_TERNARY_PARTS; part++) {
        struct signs signs = split_values(at + part * stride, by, rare);
        nonzero |= signs.positive | signs.negative;
        __m512i thrice = _mm512_add_epi8(_mm512_add_epi8(bytes, bytes), bytes);
        bytes = _mm512_add_epi8(thrice, one);
        bytes = _mm512_mask_add_epi8(bytes, signs.positive, bytes, one);
        bytes = _mm512_mask_sub_epi8(bytes, signs.negative, bytes, one);
    }
    _mm512_storeu_si512(packed, bytes);
    return (size_t)_mm_popcnt_u64(nonzero);
}

enum { RARE = 4 };

// --- Unpacking
// -------------------------------------------------------------------------------

INLINE __m512i load_bytes(const uint8_t *bytes)
{
    return _mm512_loadu_si512(bytes);
}

INLINE __m512i load_some_bytes(const uint8_t *bytes, size_t len)
{
    return _mm512_maskz_loadu_epi8(_bzhi_u64(~0ull, (unsigned)len), bytes);
}

// See fraction_of() in ternary.c.
INLINE __m512i fractions_of(__m512i bytes)
{
    const __m512i zero = _mm512_setzero_si512();
    const __m512i thirteen = _mm512_set1_epi16(13);
    const __m512i round_up = _mm512_set1_epi16(TERN_TERNARY_LIMIT - 1);
    const __m512i inverse = _mm512_set1_epi16(270);
    __m512i low = _mm512_unpacklo_epi8(bytes, zero);
    __m512i high = _mm512_unpackhi_epi8(bytes, zero);
    low = _mm512_add_epi16(_mm512_mullo_epi16(low, thirteen), round_up);
    high = _mm512_add_epi16(_mm512_mullo_epi16(high, thirteen), round_up);
    low = _mm512_mulhi_epu16(low, inverse);
    high = _mm512_mulhi_epu16(high, inverse);
    return _mm512_add_epi8(bytes, _mm512_packus_epi16(low, high));
}

// Each is 0 to 2.
INLINE void store_digits(__m512i bytes, uint8_t *at)
{
    const __m512i first = _mm512_set1_epi8(85);
    const __m512i second = _mm512_set1_epi8((char)170);
    const __m512i one = _mm512_set1_epi8(1);
    __m512i fractions = fractions_of(bytes);
#pragma GCC unroll 5
    for (size_t part = 0; part < TERN_TERNARY_PARTS; part++) {
        __m512i digit = _mm512_maskz_mov_epi8(_mm512_cmpgt_epu8_mask(fractions, first), one);
        digit = _mm512_mask_add_epi8(digit, _mm512_cmpgt_epu8_mask(fractions, second), digit, one);
        _mm512_store_si512(at + part * TERN_TERNARY_BLOCK_ROOM, digit);
        fractions = _mm512_add_epi8(_mm512_add_epi8(fractions, fractions), fractions);
    }
}

// scale * q by digit.
INLINE __m512 products_of(float scale, float zero)
{
    return _mm512_setr4_ps(-scale, zero, scale, zero);
}

INLINE __m512 values_of(const uint8_t *digits, __m512 products_by_digit)
{
    __m512i index = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)digits));
    return _mm512_permutexvar_ps(index, products_by_digit);
}

// The first `len` of 16 floats.
INLINE __mmask16 some(size_t len)
{
    return (__mmask16)_bzhi_u32(0xffff, (unsigned)tern_smaller(len, FLOATS));
}

INLINE void set_vector(float *at, __m512 values)
{
    _mm512_store_ps(at, values);
}

INLINE void stream_vector(float *at, __m512 values)
{
    _mm512_stream_ps(at, values);
}

INLINE void add_vector(float *at, __m512 values)
{
    _mm512_store_ps(at, _mm512_add_ps(_mm512_load_ps(at), values));
}

INLINE void set_some(float *at, size_t len, __m512 values)
{
    _mm512_mask_storeu_ps(at, some(len), values);
}

INLINE void add_some(float *at, size_t len, __m512 values)
{
    __mmask16 real = some(len);
    _mm512_mask_storeu_ps(at, real, _mm512_add_ps(_mm512_maskz_loadu_ps(real, at), values));
}

// --- Bit planes
// -------------------------------------------------------------------------------

INLINE void split_word(float *at, const struct split *by, uint64_t *nonzero, uint64_t *negative)
{
    struct signs signs = split_values(at, by, 0);
    *nonzero = signs.positive | signs.negative;
    *negative = signs.negative;
}

INLINE void set_lanes(uint64_t nonzero, uint64_t negative, float scale, float *at, size_t len)
{
    __m512 signed_scale =
        _mm512_mask_mov_ps(_mm512_set1_ps(scale), (__mmask16)negative, _mm512_set1_ps(-scale));
    __m512 products = _mm512_maskz_mov_ps((__mmask16)nonzero, signed_scale);
    _mm512_mask_storeu_ps(at, some(len), products);
}

// One word of the planes. Bits past the end are 0, so values there are not touched.
INLINE void add_word(uint64_t nonzero, uint64_t negative, float scale, float *values)
{
    const __m512 by = _mm512_set1_ps(scale);
    for (size_t i = 0; i < 64; i += FLOATS) {
        __mmask16 plus = (__mmask16)((nonzero & ~negative) >> i);
        __mmask16 minus = (__mmask16)((nonzero & negative) >> i);
        __m512 sums = _mm512_maskz_loadu_ps(plus | minus, values + i);
        sums = _mm512_mask_add_ps(sums, plus, sums, by);
        sums = _mm512_mask_sub_ps(sums, minus, sums, by);
        _mm512_mask_storeu_ps(values + i, plus | minus, sums);
    }
}

// --- Selection
// -------------------------------------------------------------------------------

INLINE __m512i magnitudes_at(const float *values)
{
    return _mm512_and_si512(_mm512_loadu_si512(values), _mm512_set1_epi32(INT32_MAX));
}

INLINE __m512i all(uint32_t bits)
{
    return _mm512_set1_epi32((int)bits);
}

INLINE unsigned above_bits(__m512i magnitudes, __m512i than)
{
    return _mm512_cmpgt_epi32_mask(magnitudes, than);
}

INLINE unsigned equal_bits(__m512i magnitudes, __m512i to)
{
    return _mm512_cmpeq_epi32_mask(magnitudes, to);
}

// The second calls what the first defines.
#include "codec/kernels/x86_loops.h"

#include "codec/kernels/ternary_loops.h"

TARGET static size_t collect(const float *values, size_t count, struct tern_bracket bracket,
                             float *dst, size_t room, size_t *above)
{
    const __m512i low = all(bracket.low);
    const __m512i high = all(bracket.high);
    size_t have = 0;
    size_t higher = 0;
    for (size_t i = 0; i < count; i += FLOATS) {
        if (room - have <= FLOATS) {
            return room;
        }
        __mmask16 real = some(count - i);
        __m512i magnitudes =
            _mm512_and_si512(_mm512_maskz_loadu_epi32(real, values + i), all(INT32_MAX));
        __mmask16 too_high = _mm512_cmpgt_epi32_mask(magnitudes, high);
        __mmask16 inside =
            _mm512_mask_cmpge_epi32_mask((__mmask16)(real & ~too_high), magnitudes, low);
        higher += (size_t)_mm_popcnt_u32(too_high);
        if (inside != 0) {
            // To a register first: compressing into memory is slow on some processors.
            _mm512_storeu_si512(dst + have, _mm512_maskz_compress_epi32(inside, magnitudes));
            have += (size_t)_mm_popcnt_u32(inside);
        }
    }
    *above = higher;
    return have;
}

// --- Zero runs
// -------------------------------------------------------------------------------

INLINE uint64_t zeros_of(const uint8_t *bytes)
{
    return _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(bytes), _mm512_set1_epi8(TERN_TERNARY_ZERO));
}

#include "codec/kernels/zero_run_walk.h"

#define TARGET_VBMI2                                                                               \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi2,avx2,bmi,bmi2,popcnt")))

// The codes of 64 bytes at most: of each chunk its first byte, raised by how many follow it.
TARGET_VBMI2 static inline __m512i chunk_codes(__m512i bytes, struct chunks chunks)
{
    const __m512i run = _mm512_set1_epi8(TERN_TERNARY_LIMIT - TERN_TERNARY_ZERO - 1);
    __m512i places = _mm512_set_epi8(63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48,
                                     47, 46, 45, 44, 43, 42, 41, 40, 39, 38, 37, 36, 35, 34, 33, 32,
                                     31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16,
                                     15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m512i first = _mm512_maskz_compress_epi8(chunks.first, places);
    __m512i last = _mm512_maskz_compress_epi8(chunks.last, places);
    __m512i codes = _mm512_maskz_compress_epi8(chunks.first, bytes);
    __m512i more = _mm512_sub_epi8(last, first);
    __mmask64 is_run = _mm512_test_epi8_mask(more, more);
    return _mm512_mask_add_epi8(codes, is_run, codes, _mm512_add_epi8(more, run));
}

// Returns how many codes there are.
TARGET_VBMI2 static inline size_t write_codes(__m512i bytes, struct chunks chunks, uint8_t *out)
{
    size_t count = (size_t)_mm_popcnt_u64(chunks.first);
    // Masked: behind the codes are bytes that were not read yet.
    _mm512_mask_storeu_epi8(out, _bzhi_u64(~0ull, (unsigned)count), chunk_codes(bytes, chunks));
    return count;
}

TARGET_VBMI2 static size_t run_encode_vbmi2(uint8_t *bytes, size_t len)
{
    const __m512i zero = _mm512_set1_epi8(TERN_TERNARY_ZERO);
    size_t written = 0;
    size_t i = 0;
    while (len - i >= BYTES) {
        __m512i block = _mm512_loadu_si512(bytes + i);
        uint64_t zeros = _mm512_cmpeq_epi8_mask(block, zero);
        if (zeros == ~0ull) {
            size_t run = zero_blocks(bytes + i, len - i);
            written += write_full_runs(bytes + written, &run);
            i += run;
            continue;
        }
        struct chunks chunks = leave_open_chunk(find_chunks(zeros, BYTES), zeros);
        written += write_codes(block, chunks, bytes + written);
        i += chunks.used;
    }
    if (i < len) {
        __m512i block = _mm512_maskz_loadu_epi8(_bzhi_u64(~0ull, (unsigned)(len - i)), bytes + i);
        uint64_t zeros = _mm512_cmpeq_epi8_mask(block, zero);
        written += write_codes(block, find_chunks(zeros, len - i), bytes + written);
    }
    return written;
}

// What is beyond the largest byte that is not a run code counts.
TARGET static struct tern_run_facts run_facts(const uint8_t *coded, size_t len)
{
    const __m512i one = _mm512_set1_epi8((char)(TERN_TERNARY_LIMIT - 1));
    const __m512i zero = _mm512_setzero_si512();
    struct tern_run_facts facts = {0, 0};
    __m512i beyond = zero;
    for (size_t i = 0; i < len; i += BYTES) {
        __mmask64 real = _bzhi_u64(~0ull, (unsigned)tern_smaller(len - i, BYTES));
        __m512i extra = _mm512_subs_epu8(_mm512_maskz_loadu_epi8(real, coded + i), one);
        beyond = _mm512_add_epi64(beyond, _mm512_sad_epu8(extra, zero));
        facts.runs += (size_t)_mm_popcnt_u64(_mm512_test_epi8_mask(extra, extra));
    }
    facts.expanded = len + (size_t)_mm512_reduce_add_epi64(beyond);
    return facts;
}

// --- The sets
// -------------------------------------------------------------------------------

#define FIELDS                                                                                     \
    .run_facts = run_facts, .collect = collect, TERN_DENSE_FIELDS, TERN_TERNARY_FIELDS,            \
    TERN_X86_FIELDS

const struct tern_kernels tern_kernels_avx512 = {
    .name = "avx512", FIELDS, .run_encode = run_encode};

const struct tern_kernels tern_kernels_avx512_vbmi2 = {
    .name = "avx512-vbmi2", FIELDS, .run_encode = run_encode_vbmi2};

#else
typedef int tern_avx512_is_empty; // ISO C wants a declaration
#endif
