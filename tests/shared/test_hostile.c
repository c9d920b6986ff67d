// Damaged and random payloads of every mode: never a crash or an over-read (inputs and outputs end
// where their allocations do, for ASan), never a changed value on error, time that goes with the
// bytes and values, and of ternary digits exactly what the slow decoder accepts.
#include "any_codec.h"
#include "check.h"
#include "slow_ternary.h"

#include "codec/modes.h"
#include "tests/cases.h"
#include "util/bytes.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LARGEST = 400, PAYLOAD_MAX = 4 * LARGEST + LARGEST / 4 + 64, ROUNDS = 60000 };

static struct tern_prng rng;

static int seed(void **state)
{
    (void)state;
    tern_prng_init(&rng, 41, TERN_PRNG_TEST, 0, 0);
    return 0;
}

static uint32_t below(void *arg, uint32_t bound)
{
    (void)arg;
    return tern_prng_below(&rng, bound);
}

static const struct any_source source = {.below = below, .arg = NULL};

// --- Payloads

// An encoded payload of n values, mostly with runs.
static size_t make_payload(const struct tern_codec *codec, size_t n, uint8_t payload[PAYLOAD_MAX])
{
    float values[LARGEST];
    float velocity[LARGEST] = {0};
    size_t written = 0;
    uint32_t one_in = 1 + tern_prng_below(&rng, 60);
    float small = tern_prng_below(&rng, 2) ? 0.1f : 0;
    for (size_t i = 0; i < n; i++) {
        values[i] = tern_prng_below(&rng, one_in) == 0 ? 1.0f : small;
        values[i] = tern_prng_u32(&rng) & 1 ? values[i] : -values[i];
    }
    struct tern_encode_context context = {.velocity = velocity, .seed = 3};
    assert_int_equal(tern_codec_encode(codec, &context, values, n, payload, PAYLOAD_MAX, &written),
                     TERN_OK);
    return written;
}

static const uint8_t modes[] = {0x00, 0x01, 0x02, 0x03, 0x04, 0x10, 0x11, 0x14, 0x15, 0x20,
                                0x30, 0x31, 0x32, 0x33, 0x40, 0x41, 0x50, 0x51, 0x77};

static uint8_t any_mode(void)
{
    return modes[tern_prng_below(&rng, sizeof modes)];
}

static size_t damage(uint8_t *payload, size_t len)
{
    size_t at = tern_prng_below(&rng, (uint32_t)len);
    switch (tern_prng_below(&rng, 7)) {
    case 0: // a flipped bit
        payload[at] ^= (uint8_t)(1u << tern_prng_below(&rng, 8));
        return len;
    case 1: // another byte, often a run
        payload[at] = (uint8_t)(tern_prng_below(&rng, 2) ? 240 + tern_prng_below(&rng, 16)
                                                         : tern_prng_u32(&rng));
        return len;
    case 2: // cut
        return at;
    case 3: // a byte too many
        payload[len] = (uint8_t)tern_prng_u32(&rng);
        return len + 1;
    case 4: // a byte lost inside
        memmove(payload + at, payload + at + 1, len - at - 1);
        return len - 1;
    case 5: // two bytes exchanged
    {
        size_t other = tern_prng_below(&rng, (uint32_t)len);
        uint8_t byte = payload[at];
        payload[at] = payload[other];
        payload[other] = byte;
        return len;
    }
    default: // another mode
        payload[0] = any_mode();
        return len;
    }
}

// --- What must hold of any bytes

static void check_slow(const uint8_t *src, size_t len, const float *decoded, size_t n,
                       bool accepted)
{
    float *slow = malloc(n * sizeof *slow + 1);
    bool valid = slow_decode(src, len, slow, n);
    assert_int_equal(accepted, valid);
    if (valid) {
        assert_same_floats(decoded, slow, n);
    }
    free(slow);
}

static size_t nonzero_of(const float *values, size_t n)
{
    size_t nonzero = 0;
    for (size_t i = 0; i < n; i++) {
        nonzero += values[i] != 0;
    }
    return nonzero;
}

// Decodes and adds; returns whether the payload was accepted.
static bool check_one(const uint8_t *payload, size_t len, size_t n)
{
    uint8_t *src = malloc(len > 0 ? len : 1);
    float *dst = malloc(n * sizeof *dst + 1);
    float *acc = malloc(n * sizeof *acc + 1);
    float *untouched = malloc(n * sizeof *untouched + 1);
    memcpy(src, payload, len);
    memset(dst, 0x5a, n * sizeof *dst);
    memset(acc, 0x5a, n * sizeof *acc);
    memset(untouched, 0x5a, n * sizeof *untouched);
    struct tern_codec_info info;
    enum tern_result result = tern_codec_decode(src, len, dst, n);
    assert_int_equal(tern_codec_accumulate(src, len, 0.5f, acc, n), result);
    assert_int_equal(tern_codec_inspect(src, len, n, &info), result);
    if (result != TERN_OK) {
        assert_memory_equal(dst, untouched, n * sizeof *dst);
        assert_memory_equal(acc, untouched, n * sizeof *acc);
    } else {
        assert_int_equal(info.nonzero, nonzero_of(dst, n));
    }
    if (len > 0 && slow_reads(src[0])) {
        check_slow(src, len, dst, n, result == TERN_OK);
    }
    free(untouched);
    free(acc);
    free(dst);
    free(src);
    return result == TERN_OK;
}

// --- Damage

static const struct tern_codec_entry *any_entry(void)
{
    static uint32_t entries;
    while (tern_codec_entry_at(entries) != NULL) {
        entries++;
    }
    return tern_codec_entry_at(tern_prng_below(&rng, entries));
}

CASE_WITH(test_damaged_payloads, seed, NULL)
{
    size_t accepted = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint8_t payload[PAYLOAD_MAX + 3];
        char spec[ANY_CODEC_SPEC_MAX];
        struct tern_codec codec = any_codec(any_entry(), &source, spec);
        size_t n = 1 + tern_prng_below(&rng, round % 4 == 0 ? LARGEST : 40);
        size_t len = make_payload(&codec, n, payload);
        uint32_t times = 1 + tern_prng_below(&rng, 3);
        while (times-- > 0 && len > 1) {
            len = damage(payload, len);
        }
        accepted += check_one(payload, len, n);
    }
    // Both kinds must come up often, or this test tests little.
    assert_in_range(accepted, ROUNDS / 20, ROUNDS - ROUNDS / 20);
}

static void change_every_byte(uint8_t *payload, size_t len, size_t n)
{
    for (size_t at = 0; at < len; at++) {
        uint8_t byte = payload[at];
        for (unsigned other = 0; other < 256; other++) {
            payload[at] = (uint8_t)other;
            check_one(payload, len, n);
        }
        payload[at] = byte;
    }
}

CASE_WITH(test_every_truncation_and_byte, seed, NULL)
{
    const struct tern_codec_entry *entry = NULL;
    for (size_t i = 0; (entry = tern_codec_entry_at(i)) != NULL; i++) {
        for (int round = 0; round < 12; round++) {
            uint8_t payload[PAYLOAD_MAX];
            char spec[ANY_CODEC_SPEC_MAX];
            struct tern_codec codec = any_codec(entry, &source, spec);
            size_t n = 1 + tern_prng_below(&rng, 12);
            size_t len = make_payload(&codec, n, payload);
            assert_true(check_one(payload, len, n));
            for (size_t cut = 0; cut < len; cut++) {
                assert_false(check_one(payload, cut, n));
            }
            payload[len] = 0;
            assert_false(check_one(payload, len + 1, n));
            change_every_byte(payload, len, n);
        }
    }
}

CASE_WITH(test_random_payloads, seed, NULL)
{
    for (int round = 0; round < 3 * ROUNDS; round++) {
        uint8_t payload[64];
        size_t len = tern_prng_below(&rng, sizeof payload);
        for (size_t i = 0; i < len; i++) {
            payload[i] = (uint8_t)tern_prng_u32(&rng);
        }
        payload[0] = any_mode();
        payload[4] &= 0x7f; // a scale that is not negative, so that the digits are looked at
        check_one(payload, len, tern_prng_below(&rng, 60));
    }
}

// Every last byte at every small size: the padding digits.
CASE_WITH(test_padding_of_all_small_sizes, seed, NULL)
{
    for (size_t n = 1; n <= 30; n++) {
        for (unsigned byte = 0; byte < 256; byte++) {
            for (uint8_t mode = 0x10; mode <= 0x11; mode++) {
                uint8_t payload[16] = {mode, 0, 0, 0x80, 0x3f};
                size_t stride = (n + 4) / 5;
                memset(payload + 5, 121, stride);
                for (size_t at = 0; at < stride; at++) {
                    payload[5 + at] = (uint8_t)byte;
                    check_one(payload, 5 + stride, n);
                    payload[5 + at] = 121;
                }
            }
        }
    }
}

// --- Time

enum { SHORT = 1 << 15, FACTOR = 8, LONG = SHORT * FACTOR };

// Seconds of processor that checking takes at best.
static double seconds_for(const uint8_t *payload, size_t len, size_t n)
{
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        struct tern_codec_info info;
        clock_t start = clock();
        enum tern_result result = tern_codec_inspect(payload, len, n, &info);
        double took = (double)(clock() - start) / CLOCKS_PER_SEC;
        assert_true(result != TERN_ERR_IO);
        best = took < best ? took : best;
    }
    return best;
}

static void fill_hostile(uint8_t *payload, uint8_t mode, int kind)
{
    static const uint8_t head[] = {0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x3f};
    for (size_t i = 0; i < LONG; i++) {
        payload[i] = kind == 0   ? 0
                     : kind == 1 ? 0xff
                     : kind == 2 ? 0x5a
                                 : (uint8_t)rng.block[i % 4];
        if (kind == 3 && i % 4 == 3) {
            tern_prng_u32(&rng);
        }
    }
    payload[0] = mode;
    memcpy(payload + 1, head, sizeof head);
}

// Eight times the bytes and values take about eight times the time, in whatever a mode reads first.
CASE_WITH(test_time_is_linear, seed, NULL)
{
    uint8_t *payload = malloc(LONG);
    for (size_t m = 0; m < sizeof modes; m++) {
        for (int kind = 0; kind < 4; kind++) {
            fill_hostile(payload, modes[m], kind);
            double small = seconds_for(payload, SHORT, 4 * SHORT);
            double large = seconds_for(payload, LONG, 4 * LONG);
            if (large > 4 * FACTOR * small + 0.02) {
                fail_msg("mode %02x, kind %d: %g s, and %g s for %d times as much", modes[m], kind,
                         small, large, FACTOR);
            }
        }
    }
    free(payload);
}

// --- Time of short payloads for many values

enum { MANY = 1 << 28, SHORT_BODY = 40, SHORT_MAX = 64, SHORT_ROUNDS = 2000 };

// Where little is left to read, decoders that take what follows for zeros ran on for seconds for
// each payload; the others take some microseconds. 5 s for all tens of thousands of them is far
// from both, on a slow machine and under sanitizers too.
#define SHORT_SECONDS 5.0

static size_t put_number(uint8_t *dst)
{
    return tern_put_varint(dst, 1 + (tern_prng_u32(&rng) % MANY >> tern_prng_below(&rng, 28)));
}

// A head that the mode accepts, for what is behind it is to be read. Returns its length.
static size_t put_head(uint8_t *dst, uint8_t mode)
{
    static const uint8_t one[] = {0, 0, 0x80, 0x3f};
    static const uint8_t qsgd[] = {7, 0, 0, 0, 0x80, 0x3f};
    dst[0] = mode;
    switch (mode) {
    case TERN_MODE_SPARSE_GAPS:
    case TERN_MODE_SPARSE_INDICES: {
        size_t len = 1 + put_number(dst + 1);
        dst[len] = (uint8_t)tern_prng_below(&rng, 32);
        return len + 1;
    }
    case TERN_MODE_QSGD_DENSE:
    case TERN_MODE_QSGD_ELIAS:
        memcpy(dst + 1, qsgd, sizeof qsgd);
        return 1 + sizeof qsgd + put_number(dst + 1 + sizeof qsgd);
    case TERN_MODE_INCEPTIONN_BOUNDED:
        dst[1] = 10;
        return 2;
    default:
        memcpy(dst + 1, one, sizeof one);
        return 1 + sizeof one;
    }
}

// Random bytes, or the same one again and again.
static size_t put_body(uint8_t *dst)
{
    static const uint8_t same[] = {0, 0xff, 0x80, 0x01};
    size_t len = tern_prng_below(&rng, SHORT_BODY);
    unsigned kind = tern_prng_below(&rng, 2 * sizeof same);
    for (size_t i = 0; i < len; i++) {
        dst[i] = kind < sizeof same ? same[kind] : (uint8_t)tern_prng_u32(&rng);
    }
    return len;
}

CASE_WITH(test_short_payloads_take_little_time, seed, NULL)
{
    clock_t start = clock();
    for (size_t m = 0; m < sizeof modes; m++) {
        for (int round = 0; round < SHORT_ROUNDS; round++) {
            uint8_t payload[SHORT_MAX];
            struct tern_codec_info info;
            size_t len = put_head(payload, modes[m]);
            len += put_body(payload + len);
            enum tern_result result = tern_codec_inspect(payload, len, MANY, &info);
            assert_true(result != TERN_ERR_IO);
            if ((double)(clock() - start) / CLOCKS_PER_SEC > SHORT_SECONDS) {
                fail_msg("mode %02x, payload %d of %zu bytes: more than %g s in all", modes[m],
                         round, len, SHORT_SECONDS);
            }
        }
    }
}
