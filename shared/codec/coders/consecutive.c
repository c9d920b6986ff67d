// Base-3^5 bytes of neighbours: byte j holds values 5j to 5j + 4. Zero runs as in 3LC section 3.3.
// Where the scale differs along a tensor, its small stretches make longer runs than in planar form.
#include "codec/coders/ternary.h"
#include "util/bytes.h"

#include <string.h>

enum { PARTS = TERN_TERNARY_PARTS };

// --- Coder
// ---------------------------------------------------------------------------------------------

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
    enum { STEP = 64 / PARTS, MASK = (1 << PARTS) - 1 }; // bytes of a word of bits
    size_t stride = tern_ternary_stride(planes->count);
    size_t words = tern_plane_words(planes->count);
    for (size_t byte = 0; byte < stride; byte += STEP) {
        size_t here = stride - byte < STEP ? stride - byte : STEP;
        uint64_t nonzero = bits_from(planes->nonzero, words, PARTS * byte);
        uint64_t negative = bits_from(planes->negative, words, PARTS * byte);
        for (size_t i = 0; i < here; i++, nonzero >>= PARTS, negative >>= PARTS) {
            packed[byte + i] = (uint8_t)(TERN_TERNARY_ZERO + power_sum[nonzero & MASK] -
                                         2 * power_sum[negative & MASK]);
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
// -------------------------------------------------------------------------------------------

// The digits of a byte less 1, first to last, and three more bytes to make eight.
#define DIGITS_1(a, b, c, d)                                                                       \
    {a, b, c, d, -1}, {a, b, c, d, 0},                                                             \
    {                                                                                              \
        a, b, c, d, 1                                                                              \
    }
#define DIGITS_2(a, b, c) DIGITS_1(a, b, c, -1), DIGITS_1(a, b, c, 0), DIGITS_1(a, b, c, 1)
#define DIGITS_3(a, b) DIGITS_2(a, b, -1), DIGITS_2(a, b, 0), DIGITS_2(a, b, 1)
#define DIGITS_4(a) DIGITS_3(a, -1), DIGITS_3(a, 0), DIGITS_3(a, 1)

enum { ROW = 8 };

static const int8_t symbols_of[TERN_TERNARY_LIMIT][ROW] = {DIGITS_4(-1), DIGITS_4(0), DIGITS_4(1)};

// Only the last byte has digits past `count`.
static bool padding_is_zero(uint8_t last, size_t count)
{
    size_t real = (count - 1) % PARTS + 1;
    for (size_t i = real; last < TERN_TERNARY_LIMIT && i < PARTS; i++) {
        if (symbols_of[last][i] != 0) {
            return false;
        }
    }
    return true;
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

// Symbols are unpacked a few bytes at a time, for a small stack; the last row is stored whole.
enum { STEP_BYTES = 128, STEP_VALUES = PARTS * STEP_BYTES, SYMBOLS_ROOM = STEP_VALUES + ROW };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

// The symbols of the next `count` values, at most STEP_VALUES.
static void unpack(const uint8_t *packed, size_t count, int8_t symbols[SYMBOLS_ROOM])
{
    size_t len = tern_ternary_stride(count);
    for (size_t i = 0; i < len; i++) {
        memcpy(symbols + PARTS * i, symbols_of[packed[i]], ROW);
    }
}

static void set_block(const uint8_t *packed, float scale, float *values, size_t count)
{
    int8_t symbols[SYMBOLS_ROOM];
    for (size_t first = 0; first < count; first += STEP_VALUES) {
        size_t here = smaller(STEP_VALUES, count - first);
        unpack(packed + first / PARTS, here, symbols);
        for (size_t i = 0; i < here; i++) {
            values[first + i] = scale * (float)symbols[i];
        }
    }
}

// Adds -0 where q is 0, which leaves every value as it is: +0 would turn -0 into +0.
static void add_block(const uint8_t *packed, float scale, float *values, size_t count)
{
    int8_t symbols[SYMBOLS_ROOM];
    uint32_t scale_bits = tern_float_bits(scale);
    for (size_t first = 0; first < count; first += STEP_VALUES) {
        size_t here = smaller(STEP_VALUES, count - first);
        unpack(packed + first / PARTS, here, symbols);
        for (size_t i = 0; i < here; i++) {
            uint32_t nonzero = symbols[i] != 0 ? ~0u : 0u;
            uint32_t flip = symbols[i] > 0 ? 0u : TERN_SIGN_BIT;
            values[first + i] += tern_bits_float((scale_bits & nonzero) ^ flip);
        }
    }
}

// As add_block(), of run-coded bytes that are mostly runs.
static void add_runs(const uint8_t *coded, size_t len, float scale, float *values)
{
    for (size_t i = 0; i < len; values += PARTS * tern_run_length(coded[i]), i++) {
        if (coded[i] >= TERN_TERNARY_LIMIT || coded[i] == TERN_TERNARY_ZERO) {
            continue;
        }
        for (size_t k = 0; k < PARTS; k++) {
            int8_t q = symbols_of[coded[i]][k];
            if (q != 0) {
                values[k] += q > 0 ? scale : -scale;
            }
        }
    }
}

// Below one coded byte for this many bytes, walking the codes beats walking the values.
enum { SPARSE = 8 };

static void decode(const uint8_t *body, size_t len, float *dst, size_t count)
{
    float scale = tern_get_f32(body);
    const uint8_t *coded = body + TERN_TERNARY_SCALE_BYTES;
    const uint8_t *end = body + len;
    uint8_t block[TERN_TERNARY_BLOCK_ROOM];
    while (coded < end) {
        size_t expanded = 0;
        size_t used = tern_kernel_run_expand(coded, (size_t)(end - coded), block, &expanded);
        size_t here = smaller(PARTS * expanded, count);
        if (used < expanded / SPARSE) {
            memset(dst, 0, here * sizeof *dst);
            add_runs(coded, used, scale, dst);
        } else {
            set_block(block, scale, dst, here);
        }
        coded += used;
        dst += here;
        count -= here;
    }
}

// weight * (scale * q) is (weight * scale) * q, both rounded once: q only changes the sign.
static void accumulate(const uint8_t *body, size_t len, float weight, float *acc, size_t count)
{
    float scale = weight * tern_get_f32(body);
    const uint8_t *coded = body + TERN_TERNARY_SCALE_BYTES;
    const uint8_t *end = body + len;
    uint8_t block[TERN_TERNARY_BLOCK_ROOM];
    while (coded < end) {
        size_t expanded = 0;
        size_t used = tern_kernel_run_expand(coded, (size_t)(end - coded), block, &expanded);
        size_t here = smaller(PARTS * expanded, count);
        if (used < expanded / SPARSE) {
            add_runs(coded, used, scale, acc);
        } else {
            add_block(block, scale, acc, here);
        }
        coded += used;
        acc += here;
        count -= here;
    }
}

static void describe(const uint8_t *body, size_t len, size_t count, struct tern_codec_info *info)
{
    (void)count;
    const uint8_t *coded = body + TERN_TERNARY_SCALE_BYTES;
    size_t coded_len = len - TERN_TERNARY_SCALE_BYTES;
    tern_ternary_describe(body, tern_kernel_ternary_nonzero(coded, coded_len),
                          tern_kernel_run_facts(coded, coded_len).runs, info);
}

const struct tern_mode tern_ternary_consecutive_mode = {
    .byte = TERN_MODE_TERNARY_CONSECUTIVE,
    .ternary = true,
    .name = "ternary-consecutive",
    .check = check,
    .decode = decode,
    .accumulate = accumulate,
    .describe = describe,
};
