// Base-3^5 bytes of neighbours: byte j holds values 5j to 5j + 4. Zero runs as in 3LC section 3.3.
// Where the scale differs along a tensor, its small stretches make longer runs than in planar form.
#include "codec/coders/ternary.h"
#include "util/bytes.h"

#include <stdbool.h>
#include <string.h>

enum {
    PARTS = TERN_TERNARY_PARTS,
    FIVE_BITS = (1 << PARTS) - 1, // the values of a byte in a plane
    STEP = 64 / PARTS,            // bytes of a word of bits
};

// --- Coder

// What five bits add to a byte: 3^(4-k) for each bit k.
#define BITS_1(n) (n), (n) + 81
#define BITS_2(n) BITS_1(n), BITS_1((n) + 27)
#define BITS_3(n) BITS_2(n), BITS_2((n) + 9)
#define BITS_4(n) BITS_3(n), BITS_3((n) + 3)
#define BITS_5(n) BITS_4(n), BITS_4((n) + 1)

static const uint8_t power_sum[1 << PARTS] = {BITS_5(0)};

// 64 bits of a plane from bit `at` on; bits past the last word are 0.
static uint64_t bits_from(const uint64_t *plane, size_t words, size_t at)
{
    size_t word = at / 64;
    uint64_t bits = plane[word] >> at % 64;
    if (at % 64 != 0 && word + 1 < words) {
        bits |= plane[word + 1] << (64 - at % 64);
    }
    return bits;
}

// Bits past count are 0, so padding comes out as zeros.
static void pack(const struct tern_planes *planes, uint8_t *packed)
{
    size_t stride = tern_ternary_stride(planes->count);
    size_t words = tern_plane_words(planes->count);
    for (size_t byte = 0; byte < stride; byte += STEP) {
        size_t here = stride - byte < STEP ? stride - byte : STEP;
        uint64_t nonzero = bits_from(planes->nonzero, words, PARTS * byte);
        uint64_t negative = bits_from(planes->negative, words, PARTS * byte);
        for (size_t i = 0; i < here; i++, nonzero >>= PARTS, negative >>= PARTS) {
            packed[byte + i] = (uint8_t)(TERN_TERNARY_ZERO + power_sum[nonzero & FIVE_BITS] -
                                         2 * power_sum[negative & FIVE_BITS]);
        }
    }
}

static size_t encode(const struct tern_planes *planes, uint8_t *dst)
{
    pack(planes, dst);
    return tern_kernel_run_encode(dst, tern_ternary_stride(planes->count));
}

const struct tern_ternary_coder tern_consecutive_coder = {
    .mode = TERN_MODE_TERNARY_CONSECUTIVE,
    .bound = tern_ternary_stride,
    .encode = encode,
};

// --- Reading

// The symbols of a byte as bits of the two planes, those of `negative` PARTS bits up. Each macro
// adds the digit before the last one's.
#define DIGITS_1(n) (n) + (0x21 << 4), (n), (n) + (0x01 << 4)
#define DIGITS_2(n) DIGITS_1((n) + (0x21 << 3)), DIGITS_1(n), DIGITS_1((n) + (0x01 << 3))
#define DIGITS_3(n) DIGITS_2((n) + (0x21 << 2)), DIGITS_2(n), DIGITS_2((n) + (0x01 << 2))
#define DIGITS_4(n) DIGITS_3((n) + (0x21 << 1)), DIGITS_3(n), DIGITS_3((n) + (0x01 << 1))
#define DIGITS_5(n) DIGITS_4((n) + 0x21), DIGITS_4(n), DIGITS_4((n) + 0x01)

static const uint16_t bits_of[TERN_TERNARY_LIMIT] = {DIGITS_5(0)};

// Only the last byte has digits past `count`.
static bool padding_is_zero(uint8_t last, size_t count)
{
    size_t real = (count - 1) % PARTS + 1;
    return last >= TERN_TERNARY_LIMIT || (bits_of[last] & FIVE_BITS) >> real == 0;
}

static enum tern_result check(const uint8_t *body, size_t len, size_t count)
{
    TERN_TRY(tern_ternary_check_scale(body, len));
    const uint8_t *coded = body + TERN_TERNARY_SCALE_BYTES;
    size_t coded_len = len - TERN_TERNARY_SCALE_BYTES;
    size_t stride = tern_ternary_stride(count);
    // No coded byte stands for less than one, so the sum below cannot be large for its input.
    if (coded_len > stride || tern_kernel_run_facts(coded, coded_len).expanded != stride) {
        return TERN_ERR_CORRUPT;
    }
    bool padded = coded_len > 0 && !padding_is_zero(coded[coded_len - 1], count);
    return padded ? TERN_ERR_CORRUPT : TERN_OK;
}

// Planes of a block.
enum { BLOCK_WORDS = (PARTS * TERN_TERNARY_BLOCK_ROOM + 63) / 64 };
struct block_planes {
    uint64_t nonzero[BLOCK_WORDS];
    uint64_t negative[BLOCK_WORDS];
};

// Sets bits of a plane that are 0 so far, from bit `at` on. Those that are set are before its end.
static inline void put_bits(uint64_t *plane, size_t at, uint64_t bits)
{
    plane[at / 64] |= bits << at % 64;
    if (at % 64 > 0 && bits >> (64 - at % 64) != 0) {
        plane[at / 64 + 1] |= bits >> (64 - at % 64);
    }
}

static struct tern_planes unpack(const uint8_t *packed, size_t count, struct block_planes *planes)
{
    size_t len = tern_ternary_stride(count);
    memset(planes, 0, sizeof *planes);
    for (size_t byte = 0; byte < len; byte += STEP) {
        size_t here = len - byte < STEP ? len - byte : STEP;
        uint64_t nonzero = 0;
        uint64_t negative = 0;
        for (size_t i = 0; i < here; i++) {
            uint64_t bits = bits_of[packed[byte + i]];
            nonzero |= (bits & FIVE_BITS) << PARTS * i;
            negative |= (bits >> PARTS) << PARTS * i;
        }
        put_bits(planes->nonzero, PARTS * byte, nonzero);
        put_bits(planes->negative, PARTS * byte, negative);
    }
    return (struct tern_planes){
        .nonzero = planes->nonzero, .negative = planes->negative, .count = count};
}

// Adds to values, of run-coded bytes that are mostly runs.
static void add_runs(const uint8_t *coded, size_t len, float scale, float *values)
{
    for (size_t i = 0; i < len; values += PARTS * tern_run_length(coded[i]), i++) {
        unsigned bits = coded[i] < TERN_TERNARY_LIMIT ? bits_of[coded[i]] : 0;
        unsigned negative = bits >> PARTS;
        for (unsigned nonzero = bits & FIVE_BITS; nonzero != 0; nonzero &= nonzero - 1) {
            size_t k = (size_t)__builtin_ctz(nonzero);
            values[k] += (negative >> k & 1) != 0 ? -scale : scale;
        }
    }
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

// Below one coded byte for this many bytes, walking the codes beats walking the values.
enum { SPARSE = 8 };

// Sets `count` values, or adds to them.
static void walk(const uint8_t *body, size_t len, float scale, float *values, size_t count,
                 bool set)
{
    const uint8_t *coded = body + TERN_TERNARY_SCALE_BYTES;
    const uint8_t *end = body + len;
    uint8_t block[TERN_TERNARY_BLOCK_ROOM];
    struct block_planes planes;
    while (coded < end) {
        size_t expanded = 0;
        size_t used = tern_kernel_run_expand(coded, (size_t)(end - coded), block, &expanded);
        size_t here = smaller(PARTS * expanded, count);
        bool sparse = used < expanded / SPARSE;
        if (sparse && set) {
            memset(values, 0, here * sizeof *values);
        }
        if (sparse) {
            add_runs(coded, used, scale, values);
        } else if (set) {
            tern_kernel_planes_set(unpack(block, here, &planes), scale, values);
        } else {
            tern_kernel_planes_add(unpack(block, here, &planes), scale, values);
        }
        coded += used;
        values += here;
        count -= here;
    }
}

static void decode(const uint8_t *body, size_t len, float *dst, size_t count)
{
    walk(body, len, tern_get_f32(body), dst, count, true);
}

// weight * (scale * q) is (weight * scale) * q, both rounded once: q only changes the sign.
static void accumulate(const uint8_t *body, size_t len, float weight, float *acc, size_t count)
{
    walk(body, len, weight * tern_get_f32(body), acc, count, false);
}

const struct tern_mode tern_ternary_consecutive_mode = {
    .byte = TERN_MODE_TERNARY_CONSECUTIVE,
    .ternary = true,
    .name = "ternary-consecutive",
    .check = check,
    .decode = decode,
    .accumulate = accumulate,
    .describe = tern_ternary_describe_runs,
};
