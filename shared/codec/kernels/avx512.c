// Kernels for AVX-512 F, BW, VL and DQ, with run coding by VBMI2 where it is.
#include "codec/kernels/paths.h"

#if TERN_KERNELS_X86
#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,bmi,bmi2,popcnt")))
#define INLINE TARGET static inline __attribute__((always_inline))

enum { FLOATS = 16, BYTES = 64 };

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

// 64 bytes, by Horner over the five parts. Returns which are not zero.
INLINE __mmask64 pack_bytes(float *at, size_t stride, const struct split *by, uint8_t *packed,
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
    return nonzero;
}

// Where few bytes are not zero, most lines of the values need no store, and the branch that finds
// them is foreseen. The last 64 bytes tell.
enum { RARE = 4 };

TARGET static void ternary_pack(struct tern_columns columns, float scale, uint32_t threshold,
                                uint8_t *packed)
{
    const struct split by = split_of(scale, threshold);
    size_t stride = tern_packed_stride(columns.count);
    float *at = columns.values + columns.first;
    size_t whole = tern_whole_columns(&columns);
    _Bool rare = 0;
    size_t i = 0;
    for (; whole - i >= BYTES; i += BYTES) {
        uint64_t nonzero = rare ? pack_bytes(at + i, stride, &by, packed + i, 1)
                                : pack_bytes(at + i, stride, &by, packed + i, 0);
        rare = _mm_popcnt_u64(nonzero) < RARE;
    }
    columns.first += i;
    columns.len -= i;
    tern_portable_ternary_pack(columns, scale, threshold, packed + i);
}

// --- Unpacking
// -------------------------------------------------------------------------------

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

// The five digits of each byte of a block, part by part, each 0 to 2.
struct digits {
    _Alignas(BYTES) uint8_t of[TERN_TERNARY_PARTS][TERN_TERNARY_BLOCK_ROOM];
};

// Also of the bytes up to the next multiple of 64.
TARGET static void find_digits(const uint8_t *packed, size_t len, struct digits *digits)
{
    const __m512i first = _mm512_set1_epi8(85);
    const __m512i second = _mm512_set1_epi8((char)170);
    const __m512i one = _mm512_set1_epi8(1);
    for (size_t i = 0; i < len; i += BYTES) {
        __mmask64 real = _bzhi_u64(~0ull, (unsigned)tern_smaller(len - i, BYTES));
        __m512i fractions = fractions_of(_mm512_maskz_loadu_epi8(real, packed + i));
#pragma GCC unroll 5
        for (size_t part = 0; part < TERN_TERNARY_PARTS; part++) {
            __m512i digit = _mm512_maskz_mov_epi8(_mm512_cmpgt_epu8_mask(fractions, first), one);
            digit =
                _mm512_mask_add_epi8(digit, _mm512_cmpgt_epu8_mask(fractions, second), digit, one);
            _mm512_store_si512(digits->of[part] + i, digit);
            fractions = _mm512_add_epi8(_mm512_add_epi8(fractions, fractions), fractions);
        }
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

// Floats before the next line of the caches, at most len.
static size_t to_next_line(const float *at, size_t len)
{
    return tern_smaller(len, (0 - (uintptr_t)at / sizeof(float)) % FLOATS);
}

INLINE void set_some(const uint8_t *digits, size_t len, __m512 by_digit, float *at)
{
    _mm512_mask_storeu_ps(at, (__mmask16)_bzhi_u32(0xffff, (unsigned)len),
                          values_of(digits, by_digit));
}

TARGET static void set_part(const uint8_t *digits, size_t len, __m512 by_digit, float *at,
                            _Bool stream)
{
    size_t i = to_next_line(at, len);
    set_some(digits, i, by_digit, at);
    for (; stream && len - i >= FLOATS; i += FLOATS) {
        _mm512_stream_ps(at + i, values_of(digits + i, by_digit));
    }
    for (; len - i >= FLOATS; i += FLOATS) {
        _mm512_store_ps(at + i, values_of(digits + i, by_digit));
    }
    set_some(digits + i, len - i, by_digit, at + i);
}

INLINE void add_some(const uint8_t *digits, size_t len, __m512 by_digit, float *at)
{
    __mmask16 real = (__mmask16)_bzhi_u32(0xffff, (unsigned)len);
    __m512 sum = _mm512_add_ps(_mm512_maskz_loadu_ps(real, at), values_of(digits, by_digit));
    _mm512_mask_storeu_ps(at, real, sum);
}

TARGET static void add_part(const uint8_t *digits, size_t len, __m512 by_digit, float *at)
{
    size_t i = to_next_line(at, len);
    add_some(digits, i, by_digit, at);
    for (; len - i >= FLOATS; i += FLOATS) {
        __m512 sum = _mm512_add_ps(_mm512_load_ps(at + i), values_of(digits + i, by_digit));
        _mm512_store_ps(at + i, sum);
    }
    add_some(digits + i, len - i, by_digit, at + i);
}

TARGET static void ternary_set(const uint8_t *packed, size_t len, float scale,
                               struct tern_ternary_target target)
{
    struct digits digits;
    find_digits(packed, len, &digits);
    __m512 by_digit = products_of(scale, 0);
    for (size_t part = 0; part < TERN_TERNARY_PARTS; part++) {
        size_t real = tern_part_length(&target, part, len);
        if (real > 0) {
            set_part(digits.of[part], real, by_digit, target.at + part * target.stride,
                     target.stream);
        }
    }
}

// Adds -0 where q is 0, which leaves every value as it is: +0 would turn -0 into +0.
TARGET static void ternary_add(const uint8_t *packed, size_t len, float scale,
                               struct tern_ternary_target target)
{
    struct digits digits;
    find_digits(packed, len, &digits);
    __m512 by_digit = products_of(scale, -0.0f);
    for (size_t part = 0; part < TERN_TERNARY_PARTS; part++) {
        size_t real = tern_part_length(&target, part, len);
        if (real > 0) {
            add_part(digits.of[part], real, by_digit, target.at + part * target.stride);
        }
    }
}

static void finish(void)
{
    _mm_sfence();
}

// --- Bit planes
// -------------------------------------------------------------------------------

INLINE __mmask16 some(size_t len)
{
    return (__mmask16)_bzhi_u32(0xffff, (unsigned)tern_smaller(len, FLOATS));
}

TARGET static void planes_split(float *values, float scale, uint32_t threshold,
                                struct tern_planes planes)
{
    const struct split by = split_of(scale, threshold);
    size_t whole = planes.count / BYTES;
    for (size_t word = 0; word < whole; word++) {
        struct signs signs = split_values(values + word * BYTES, &by, 0);
        planes.nonzero[word] = signs.positive | signs.negative;
        planes.negative[word] = signs.negative;
    }
    struct tern_planes rest = {
        .nonzero = planes.nonzero + whole,
        .negative = planes.negative + whole,
        .count = planes.count % BYTES,
    };
    tern_portable_planes_split(values + whole * BYTES, scale, threshold, rest);
}

// The 16 bits of a plane from value `at` on, which is a multiple of 16.
INLINE __mmask16 plane_bits(const uint64_t *plane, size_t at)
{
    return (__mmask16)(plane[at / BYTES] >> at % BYTES);
}

TARGET static void planes_set(struct tern_planes planes, float scale, float *values)
{
    const __m512 plus = _mm512_set1_ps(scale);
    const __m512 minus = _mm512_set1_ps(-scale);
    for (size_t i = 0; i < planes.count; i += FLOATS) {
        __mmask16 negative = plane_bits(planes.negative, i);
        __m512 products = _mm512_maskz_mov_ps(plane_bits(planes.nonzero, i),
                                              _mm512_mask_mov_ps(plus, negative, minus));
        _mm512_mask_storeu_ps(values + i, some(planes.count - i), products);
    }
}

// One word of the planes. Bits past the end are 0, so values there are not touched.
INLINE void add_word(uint64_t nonzero, uint64_t negative, __m512 scale, float *values)
{
    for (size_t i = 0; i < BYTES; i += FLOATS) {
        __mmask16 plus = (__mmask16)((nonzero & ~negative) >> i);
        __mmask16 minus = (__mmask16)((nonzero & negative) >> i);
        __m512 sums = _mm512_maskz_loadu_ps(plus | minus, values + i);
        sums = _mm512_mask_add_ps(sums, plus, sums, scale);
        sums = _mm512_mask_sub_ps(sums, minus, sums, scale);
        _mm512_mask_storeu_ps(values + i, plus | minus, sums);
    }
}

TARGET static void planes_add(struct tern_planes planes, float scale, float *values)
{
    const __m512 by = _mm512_set1_ps(scale);
    for (size_t word = 0; word < tern_plane_words(planes.count); word++) {
        if (planes.nonzero[word] != 0) {
            add_word(planes.nonzero[word], planes.negative[word], by, values + word * BYTES);
        }
    }
}

// --- Selection
// -------------------------------------------------------------------------------

INLINE __m512i magnitudes_at(const float *values)
{
    return _mm512_and_si512(_mm512_loadu_si512(values), _mm512_set1_epi32(INT32_MAX));
}

TARGET static void compare(const float *values, size_t words, uint32_t bits, uint64_t *above,
                           uint64_t *equal)
{
    const __m512i with = _mm512_set1_epi32((int)bits);
    for (size_t word = 0; word < words; word++, values += BYTES) {
        uint64_t is_above = 0;
        uint64_t is_equal = 0;
#pragma GCC unroll 4
        for (size_t i = 0; i < BYTES; i += FLOATS) {
            __m512i magnitudes = magnitudes_at(values + i);
            is_above |= (uint64_t)_mm512_cmpgt_epi32_mask(magnitudes, with) << i;
            is_equal |= (uint64_t)_mm512_cmpeq_epi32_mask(magnitudes, with) << i;
        }
        above[word] = is_above;
        equal[word] = is_equal;
    }
}

TARGET static size_t collect(const float *values, size_t count, struct tern_bracket bracket,
                             float *dst, size_t room, size_t *above)
{
    const __m512i low = _mm512_set1_epi32((int)bracket.low);
    const __m512i high = _mm512_set1_epi32((int)bracket.high);
    size_t have = 0;
    size_t higher = 0;
    for (size_t i = 0; i < count; i += FLOATS) {
        if (room - have <= FLOATS) {
            return room;
        }
        __mmask16 real = some(count - i);
        __m512i magnitudes = _mm512_and_si512(_mm512_maskz_loadu_epi32(real, values + i),
                                              _mm512_set1_epi32(INT32_MAX));
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
    .peak = peak, .peak_bytes = peak_bytes, .float32_put = float32_put,                            \
    .float32_get = float32_get, .float32_add = float32_add, .float16_put = float16_put,            \
    .float16_get = float16_get, .float16_add = float16_add, .float16_peak = float16_peak,          \
    .ternary_pack = ternary_pack, .ternary_set = ternary_set, .ternary_add = ternary_add,          \
    .ternary_nonzero = tern_portable_ternary_nonzero, .planes_split = planes_split,                \
    .planes_set = planes_set, .planes_add = planes_add, .run_facts = run_facts,                    \
    .run_expand = tern_portable_run_expand, .compare = compare, .collect = collect,                \
    .sum_above = sum_above, .finish = finish

const struct tern_kernels tern_kernels_avx512 = {
    .name = "avx512", FIELDS, .run_encode = run_encode};

const struct tern_kernels tern_kernels_avx512_vbmi2 = {
    .name = "avx512-vbmi2", FIELDS, .run_encode = run_encode_vbmi2};

#else
typedef int tern_avx512_is_empty; // ISO C wants a declaration
#endif
