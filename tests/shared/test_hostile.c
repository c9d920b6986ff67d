// Damaged and random payloads: never a crash or an over-read (inputs and outputs end where their
// allocations do, for ASan), never a changed value on error, and exactly what the slow decoder
// accepts is accepted.
#include "check.h"
#include "slow_ternary.h"

#include "codec/codec.h"
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 400, PAYLOAD_MAX = 2048, ROUNDS = 300000 };

static struct tern_prng rng;

// An encoded payload of n values, mostly with runs.
static size_t make_payload(const char *spec, size_t n, uint8_t payload[PAYLOAD_MAX])
{
    struct tern_codec codec;
    float values[LARGEST];
    size_t written = 0;
    uint32_t one_in = 1 + tern_prng_below(&rng, 60);
    for (size_t i = 0; i < n; i++) {
        values[i] = tern_prng_below(&rng, one_in) == 0 ? 1.0f : 0.1f;
        values[i] = tern_prng_u32(&rng) & 1 ? values[i] : -values[i];
    }
    assert_int_equal(tern_codec_parse(spec, &codec, NULL), TERN_OK);
    assert_int_equal(tern_codec_encode(&codec, NULL, values, n, payload, PAYLOAD_MAX, &written),
                     TERN_OK);
    return written;
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
        payload[0] = (uint8_t)tern_prng_below(&rng, 0x14);
        return len;
    }
}

// Decodes and adds; returns whether the payload was accepted.
static bool check_one(const uint8_t *payload, size_t len, size_t n)
{
    uint8_t *src = malloc(len > 0 ? len : 1);
    float *dst = malloc(n * sizeof *dst);
    float *acc = malloc(n * sizeof *acc);
    memcpy(src, payload, len);
    memset(dst, 0x5a, n * sizeof *dst);
    memset(acc, 0x5a, n * sizeof *acc);
    struct tern_codec_info info;
    enum tern_result result = tern_codec_decode(src, len, dst, n);
    assert_int_equal(tern_codec_accumulate(src, len, 0.5f, acc, n), result);
    assert_int_equal(tern_codec_inspect(src, len, n, &info), result);
    float *untouched = malloc(n * sizeof *untouched);
    memset(untouched, 0x5a, n * sizeof *untouched);
    if (result != TERN_OK) {
        assert_memory_equal(dst, untouched, n * sizeof *dst);
        assert_memory_equal(acc, untouched, n * sizeof *acc);
    } else {
        size_t nonzero = 0;
        for (size_t i = 0; i < n; i++) {
            nonzero += dst[i] != 0;
        }
        assert_int_equal(info.nonzero, nonzero);
    }
    if (len > 0 && (payload[0] == 0x00 || payload[0] == 0x10 || payload[0] == 0x11)) {
        bool valid = slow_decode(src, len, untouched, n);
        assert_int_equal(result == TERN_OK, valid);
        if (valid) {
            assert_same_floats(dst, untouched, n);
        }
    }
    free(untouched);
    free(acc);
    free(dst);
    free(src);
    return result == TERN_OK;
}

static void test_damaged_payloads(void **state)
{
    (void)state;
    static const char *const specs[] = {"3lc:s=1", "3lc:s=1.5", "float16", "float32"};
    tern_prng_init(&rng, 41, TERN_PRNG_TEST, 0, 0);
    size_t accepted = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint8_t payload[PAYLOAD_MAX];
        size_t n = 1 + tern_prng_below(&rng, round % 4 == 0 ? LARGEST : 40);
        size_t len = make_payload(specs[round % 8 < 6 ? round % 2 : 2 + round % 2], n, payload);
        uint32_t times = 1 + tern_prng_below(&rng, 3);
        while (times-- > 0 && len > 1) {
            len = damage(payload, len);
        }
        accepted += check_one(payload, len, n);
    }
    // Both kinds must come up often, or this test tests little.
    assert_in_range(accepted, ROUNDS / 20, ROUNDS - ROUNDS / 20);
}

static void test_random_payloads(void **state)
{
    (void)state;
    static const uint8_t modes[] = {0x00, 0x01, 0x02, 0x10, 0x10, 0x11, 0x11, 0x12};
    tern_prng_init(&rng, 42, TERN_PRNG_TEST, 0, 0);
    for (int round = 0; round < ROUNDS; round++) {
        uint8_t payload[64];
        size_t len = tern_prng_below(&rng, sizeof payload);
        for (size_t i = 0; i < len; i++) {
            payload[i] = (uint8_t)tern_prng_u32(&rng);
        }
        payload[0] = modes[tern_prng_below(&rng, sizeof modes)];
        payload[4] &= 0x7f; // a scale that is not negative, so that the digits are looked at
        check_one(payload, len, 1 + tern_prng_below(&rng, 60));
    }
}

// Every last byte at every small size: the padding digits.
static void test_padding_of_all_small_sizes(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damaged_payloads),
        cmocka_unit_test(test_random_payloads),
        cmocka_unit_test(test_padding_of_all_small_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
