// The ternary coders against themselves by the book: what each writes, that it reads nothing else,
// and that the choice of a coder changes the bytes alone.
#include "check.h"

#include "codec/codec.h"
#include "tests/cases.h"
#include "util/bytes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 30000, ROOM = 5 * LARGEST };

static const char *const coders[] = {"zero-run", "packed", "gaps", "range"};
static const uint8_t modes[] = {0x10, 0x11, 0x14, 0x15};
enum { CODERS = sizeof coders / sizeof coders[0] };

static struct tern_prng rng;
static float values[LARGEST], copy[LARGEST], decoded[LARGEST], acc[LARGEST], expected[LARGEST];
static uint8_t payload[ROOM], by_the_book[ROOM];

static int seed(void **state)
{
    (void)state;
    tern_prng_init(&rng, 12, TERN_PRNG_TEST, 0, 0);
    return 0;
}

// -1, 0 and 1, in stretches of different density, of which the first is 1 so that the scale is.
static void fill(size_t n, float density)
{
    size_t stretch = 0;
    float here = density;
    for (size_t i = 0; i < n; i++, stretch--) {
        if (stretch == 0) {
            stretch = 1 + tern_prng_below(&rng, 900);
            here = tern_prng_below(&rng, 3) == 0 ? 0 : density;
        }
        bool taken = i == 0 || tern_prng_float(&rng) < here;
        bool negative = i > 0 && (tern_prng_u32(&rng) & 1) != 0;
        values[i] = (float)taken * (negative ? -1.0f : 1.0f) + 0.0f;
    }
}

// Encodes values, which it leaves as they were, into an allocation of just the bound.
static size_t encode(const char *coder, size_t n)
{
    char spec[TERN_CODEC_SPEC_MAX];
    struct tern_codec codec;
    size_t written = 0;
    snprintf(spec, sizeof spec, "3lc:s=1,coder=%s", coder);
    assert_int_equal(tern_codec_parse(spec, &codec, NULL), TERN_OK);
    size_t bound = tern_codec_bound(&codec, n);
    assert_in_range(bound, 1, tern_codec_bound_any(n));
    uint8_t *dst = malloc(bound);
    memcpy(copy, values, n * sizeof *copy);
    assert_int_equal(tern_codec_encode(&codec, NULL, copy, n, dst, bound, &written), TERN_OK);
    assert_in_range(written, 1, bound);
    memcpy(payload, dst, written);
    free(dst);
    return written;
}

// --- By the book

static const int powers[5] = {81, 27, 9, 3, 1};

// Byte j of planar base-3^5.
static uint8_t slow_byte(size_t n, size_t j)
{
    size_t stride = (n + 4) / 5;
    int sum = 0;
    for (size_t k = 0; k < 5; k++) {
        size_t at = k * stride + j;
        sum += ((at < n ? (int)values[at] : 0) + 1) * powers[k];
    }
    return (uint8_t)sum;
}

static size_t slow_run(size_t run, uint8_t *dst)
{
    size_t len = 0;
    for (; run >= 14; run -= 14) {
        dst[len++] = 255;
    }
    if (run > 0) {
        dst[len++] = run == 1 ? 121 : (uint8_t)(241 + run);
    }
    return len;
}

static size_t slow_encode_runs(size_t n, uint8_t *dst)
{
    size_t stride = (n + 4) / 5;
    size_t len = 0;
    size_t run = 0;
    for (size_t j = 0; j < stride; j++) {
        uint8_t byte = slow_byte(n, j);
        if (byte == 121) {
            run++;
            continue;
        }
        len += slow_run(run, dst + len);
        run = 0;
        dst[len++] = byte;
    }
    return len + slow_run(run, dst + len);
}

// Reads what slow_encode_runs() writes, and other cuts of it; false unless it stands for n values.
static bool slow_decode_runs(const uint8_t *src, size_t len, float scale, float *dst, size_t n)
{
    size_t stride = (n + 4) / 5;
    size_t j = 0;
    for (size_t i = 0; i < len; i++) {
        uint8_t byte = src[i];
        size_t run = byte >= 243 ? (size_t)byte - 241 : 1;
        if (run > stride - j) {
            return false;
        }
        for (; run > 0; run--, j++) {
            for (size_t k = 0; k < 5; k++) {
                size_t at = k * stride + j;
                int q = byte >= 243 ? 0 : byte / powers[k] % 3 - 1;
                if (at >= n && q != 0) {
                    return false;
                }
                if (at < n) {
                    dst[at] = scale * (float)q;
                }
            }
        }
    }
    return j == stride;
}

// --- Writing

static void check_bytes(size_t n)
{
    size_t len = encode("zero-run", n);
    by_the_book[0] = 0x10;
    tern_put_f32(by_the_book + 1, 1);
    assert_int_equal(len, slow_encode_runs(n, by_the_book + 5) + 5);
    assert_memory_equal(payload, by_the_book, len);
}

CASE_WITH(test_bytes_are_those_of_the_book, seed, NULL)
{
    const float densities[] = {0, 0.0005f, 0.005f, 0.03f, 0.2f, 0.7f, 1};
    for (size_t d = 0; d < sizeof densities / sizeof densities[0]; d++) {
        for (size_t n = 1; n < 150; n++) {
            fill(n, densities[d]);
            check_bytes(n);
        }
        for (int round = 0; round < 8; round++) {
            size_t n = LARGEST - tern_prng_below(&rng, 29000);
            fill(n, densities[d]);
            check_bytes(n);
        }
    }
}

// --- All coders alike

static void check_reading(size_t len, size_t n)
{
    assert_int_equal(tern_codec_decode(payload, len, decoded, n), TERN_OK);
    assert_same_floats(decoded, values, n);
    size_t nonzero = 0;
    for (size_t i = 0; i < n; i++) {
        acc[i] = i % 3 == 0 ? -0.0f : (float)i;
        expected[i] = values[i] != 0 ? acc[i] + 0.3f * values[i] : acc[i];
        nonzero += values[i] != 0;
    }
    assert_int_equal(tern_codec_accumulate(payload, len, 0.3f, acc, n), TERN_OK);
    assert_same_floats(acc, expected, n);
    struct tern_codec_info info;
    assert_int_equal(tern_codec_inspect(payload, len, n, &info), TERN_OK);
    assert_int_equal(info.nonzero, nonzero);
    assert_true(info.maximum == 1 && info.sum_square == (double)nonzero);
}

// Checks every coder on the values, and that auto writes what the best of them does, the first of
// equals.
static void check_all(size_t n)
{
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < CODERS; i++) {
        size_t len = encode(coders[i], n);
        assert_int_equal(payload[0], modes[i]);
        check_reading(len, n);
        if (len < least) {
            least = len;
            memcpy(by_the_book, payload, len);
        }
    }
    size_t len = encode("auto", n);
    if (n == 1) {
        assert_int_equal(payload[0], 0x01);
        assert_int_equal(len, 5);
    } else {
        assert_int_equal(len, least);
        assert_memory_equal(payload, by_the_book, len);
    }
    check_reading(len, n);
}

CASE_WITH(test_every_coder_gives_back_the_symbols, seed, NULL)
{
    const float densities[] = {0, 0.0005f, 0.005f, 0.03f, 0.2f, 0.7f, 1};
    for (size_t d = 0; d < sizeof densities / sizeof densities[0]; d++) {
        for (size_t n = 1; n < 140; n++) {
            fill(n, densities[d]);
            check_all(n);
        }
        for (int round = 0; round < 4; round++) {
            size_t n = LARGEST - tern_prng_below(&rng, 29000);
            fill(n, densities[d]);
            check_all(n);
        }
    }
}

CASE_WITH(test_a_coder_changes_the_bytes_alone, seed, NULL)
{
    enum { N = 1000 };
    for (size_t i = 0; i < N; i++) {
        values[i] = normal_float(&rng);
    }
    encode("zero-run", N);
    memcpy(expected, copy, sizeof expected);
    for (size_t i = 0; i < CODERS; i++) {
        encode(coders[i], N);
        assert_same_floats(copy, expected, N);
    }
    encode("auto", N);
    assert_same_floats(copy, expected, N);
}

CASE_WITH(test_one_value_goes_raw_under_auto, seed, NULL)
{
    const float each[] = {0.3f, -0.3f, 0x1p-120f, -3e38f};
    static const char *const specs[] = {"3lc:s=1.1,coder=auto", "density:p=0.5",
                                        "stochastic-ternary:coder=auto"};
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
        for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) {
            struct tern_codec codec;
            size_t len = 0;
            float value = each[i];
            assert_int_equal(tern_codec_parse(specs[s], &codec, NULL), TERN_OK);
            assert_int_equal(tern_codec_encode(&codec, NULL, &value, 1, payload,
                                               tern_codec_bound(&codec, 1), &len),
                             TERN_OK);
            assert_int_equal(len, 5);
            assert_int_equal(payload[0], 0x01);
            assert_int_equal(tern_get_le32(payload + 1), bits_of(each[i]));
            assert_int_equal(bits_of(value), 0);
        }
    }
}

// So many of the first n values are sent.
static void fill_first(size_t n, size_t sent)
{
    memset(values, 0, n * sizeof *values);
    for (size_t i = 0; i < sent; i++) {
        values[i] = i % 3 == 0 ? -1.0f : 1.0f;
    }
}

CASE_WITH(test_balanced_takes_zero_runs_above_two_fifths, seed, NULL)
{
    const struct {
        size_t n;
        size_t sent;
        uint8_t mode;
    } cases[] = {{1, 1, 0x10},    {2, 1, 0x10},      {5, 2, 0x15},      {5, 3, 0x10},
                 {64, 25, 0x15},  {64, 26, 0x10},    {65, 26, 0x15},    {65, 27, 0x10},
                 {130, 1, 0x15},  {1000, 400, 0x15}, {1000, 401, 0x10}, {1000, 1000, 0x10},
                 {20000, 1, 0x15}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fill_first(cases[i].n, cases[i].sent);
        const size_t expected_len =
            encode(cases[i].mode == 0x10 ? "zero-run" : "range", cases[i].n);
        memcpy(by_the_book, payload, expected_len);
        const size_t len = encode("balanced", cases[i].n);
        assert_int_equal(payload[0], cases[i].mode);
        assert_int_equal(len, expected_len);
        assert_memory_equal(payload, by_the_book, len);
        check_reading(len, cases[i].n);
    }
}

// --- Damaged bytes

// Reads `len` bytes of payload from an allocation of just that size: as the book does.
static bool check_hostile(size_t len, size_t n)
{
    uint8_t *src = malloc(len);
    float *dst = malloc(n * sizeof *dst);
    memcpy(src, payload, len);
    memset(dst, 0x5a, n * sizeof *dst);
    memset(acc, 0x5a, n * sizeof *acc);
    bool valid = slow_decode_runs(payload + 5, len - 5, 1, expected, n);
    enum tern_result result = tern_codec_decode(src, len, dst, n);
    assert_int_equal(result, valid ? TERN_OK : TERN_ERR_CORRUPT);
    assert_same_floats(dst, valid ? expected : acc, n);
    struct tern_codec_info info;
    assert_int_equal(tern_codec_inspect(src, len, n, &info), result);
    memset(acc, 0, n * sizeof *acc);
    assert_int_equal(tern_codec_accumulate(src, len, 1, acc, n), result);
    for (size_t i = 0; i < n; i++) {
        assert_true(acc[i] == (valid ? expected[i] : 0));
    }
    free(dst);
    free(src);
    return valid;
}

CASE_WITH(test_only_what_the_book_reads_is_read, seed, NULL)
{
    const uint8_t likely[] = {121, 121, 243, 244, 255, 0, 242};
    size_t accepted = 0;
    for (int round = 0; round < 200000; round++) {
        size_t n = 1 + tern_prng_below(&rng, round % 4 == 0 ? 300 : 40);
        size_t len = 5 + tern_prng_below(&rng, 6);
        payload[0] = 0x10;
        tern_put_f32(payload + 1, 1);
        for (size_t i = 5; i < len; i++) {
            uint32_t choice = tern_prng_below(&rng, 10);
            payload[i] = choice < 7 ? likely[choice] : (uint8_t)tern_prng_u32(&rng);
        }
        accepted += check_hostile(len, n);
    }
    assert_in_range(accepted, 2000, 150000);
}

CASE_WITH(test_bad_scales, seed, NULL)
{
    const uint32_t bad[] = {0, 0x80000000u, 0xbf800000u, 0x7f800000u, 0x7fc00000u};
    for (size_t c = 0; c < CODERS; c++) {
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            memset(values, 0, 10 * sizeof *values);
            values[3] = 1;
            size_t len = encode(coders[c], 10);
            tern_put_le32(payload + 1, bad[i]);
            assert_int_equal(tern_codec_decode(payload, len, decoded, 10),
                             bad[i] == 0 ? TERN_ERR_CORRUPT : TERN_ERR_NON_FINITE);
        }
    }
}
