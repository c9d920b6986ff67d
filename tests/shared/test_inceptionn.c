// INCEPTIONN: the paper's rules, and the bound of the variant that honours it.
#include "check.h"
#include "codec/plan.h"
#include "round_trip.h"
#include "tests/cases.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static float values[TRIP_MOST];

static void assert_payload(const uint8_t *expected, size_t len)
{
    assert_int_equal(trip.len, len);
    assert_memory_equal(trip.payload, expected, len);
}

static void name_spec(char spec[40], unsigned bound, const char *variant)
{
    snprintf(spec, 40, "inceptionn:bound=%u,variant=%s", bound, variant);
}

// --- By hand

CASE(test_bounded_by_hand)
{
    // A bound of 1/16: multiples of 1/8.
    const float input[] = {0.0625f, 0.1f, -0.1875f, 15.9f, -15.95f, 5000, 0, -0.0f, 0.3f};
    const uint8_t expected[] = {
        0x50, 4,    0x54, 0x0e,       // tags 0 1 1 1, 2 3 0 0
        1,    0x82, 127,  0x80, 0x80, // 1, -2 (a tie), 127; -128
        0,    0x40, 0x9c, 0x45,       // 5000
        1,    0,    2,                // the ninth
    };
    round_trip("inceptionn:bound=4", NULL, input, 9);
    assert_payload(expected, sizeof expected);
    assert_true(trip.decoded[2] == -0.25f && trip.decoded[4] == -16);
    assert_true(trip.decoded[3] == 15.875f && trip.decoded[5] == 5000 && trip.decoded[8] == 0.25f);
}

CASE(test_literal_by_hand)
{
    // A bound of 2^-10: 16 bits from 2^-5 on, 8 bits from 2^-10 on.
    const float input[] = {-1.5f,    0x1.fffffep-1f,  -0x1p-5f, 0x1.fffffep-6f,
                           0x1p-10f, 0x1.fffffep-11f, 0,        -0.75f};
    const uint8_t expected[] = {
        0x51, 0x6b, 0x81,       // tags 3 2 2 1, 1 0 0 2
        0,    0,    0xc0, 0xbf, // -1.5
        0xff, 0x7f,             // 1 - 2^-15
        0,    0x84,             // -2^-5
        3,    0,                // 3 / 128, 0
        0,    0xe0,             // -3/4
    };
    round_trip("inceptionn:variant=literal", NULL, input, 8);
    assert_payload(expected, sizeof expected);
    assert_true(trip.decoded[1] == 0x1.fffcp-1f && trip.decoded[2] == -0x1p-5f);
    assert_true(trip.decoded[3] == 3.0f / 128 && trip.decoded[4] == 0 && trip.decoded[7] == -0.75f);
}

// The example of the format: almost eight times the bound is lost.
CASE(test_literal_breaks_its_bound)
{
    const float input[] = {0.0077f, 1};
    round_trip("inceptionn:bound=10,variant=literal", NULL, input, 2);
    assert_true(trip.decoded[0] == 0);
    assert_true(0.0077f > 7 * 0x1p-10f);
    round_trip("inceptionn:bound=10,variant=bounded", NULL, input, 2);
    assert_true(fabsf(trip.decoded[0] - 0.0077f) <= 0x1p-10f);
}

// --- The bound

static void check_bound(unsigned bound, size_t n)
{
    char spec[40];
    name_spec(spec, bound, "bounded");
    round_trip(spec, NULL, values, n);
    for (size_t i = 0; i < n; i++) {
        double error = fabs((double)values[i] - (double)trip.decoded[i]);
        if (error > ldexp(1, -(int)bound)) {
            fail_msg("bound 2^-%u: %a is %a", bound, (double)values[i], (double)trip.decoded[i]);
        }
    }
}

CASE(test_bounded_is_never_off_by_more)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 31, TERN_PRNG_TEST, 0, 0);
    for (unsigned bound = 4; bound <= 20; bound++) {
        for (size_t n = 0; n < 40; n++) {
            for (size_t i = 0; i < n; i++) {
                values[i] = normal_float(&rng) * 0.1f;
            }
            check_bound(bound, n);
        }
        for (size_t i = 0; i < 20000; i++) {
            values[i] = any_float(&rng);
        }
        check_bound(bound, 20000);
        for (size_t i = 0; i < 20000; i++) {
            values[i] = ldexpf(normal_float(&rng), -(int)tern_prng_below(&rng, bound + 4));
        }
        check_bound(bound, 20000);
    }
}

// The sizes on both sides of 0.5, 127.5 and 32767.5 steps: 0, 8, 16 and 32 bits.
static void check_sizes(unsigned bound)
{
    static const float places[] = {0.5f, 127.5f, 32767.5f};
    static const size_t below[] = {1, 5, 6};
    static const size_t above[] = {5, 6, 8};
    char spec[40];
    name_spec(spec, bound, "bounded");
    for (size_t i = 0; i < 3; i++) {
        float edge = ldexpf(places[i], 1 - (int)bound);
        const float pair[] = {nextafterf(edge, 0), nextafterf(edge, INFINITY)};
        round_trip(spec, NULL, &pair[0], 1);
        assert_int_equal(trip.len, below[i]);
        round_trip(spec, NULL, &pair[1], 1);
        assert_int_equal(trip.len, above[i]);
    }
}

// Next to and on the ends of each size, and on ties.
CASE(test_bounded_at_its_edges)
{
    static const float places[] = {0.5f, 1,        1.5f,  2.5f,     126.5f, 127,  127.5f,
                                   128,  32766.5f, 32767, 32767.5f, 32768,  65536};
    for (unsigned bound = 4; bound <= 20; bound++) {
        size_t n = 0;
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            float edge = ldexpf(places[i], 1 - (int)bound);
            values[n++] = edge;
            values[n++] = nextafterf(edge, 0);
            values[n++] = -nextafterf(edge, INFINITY);
        }
        values[n++] = FLT_MAX;
        values[n++] = -FLT_MAX;
        values[n++] = 0x1p-149f;
        check_bound(bound, n);
        check_sizes(bound);
    }
}

// --- The paper's rules, in numbers instead of bits

static float literal_value(float value, int bound)
{
    float magnitude = fabsf(value);
    if (magnitude >= 1) {
        return value;
    }
    if (magnitude < ldexpf(1, -bound)) {
        return 0;
    }
    float step = magnitude >= ldexpf(1, -(bound / 2)) ? 0x1p-15f : 0x1p-7f;
    return copysignf(floorf(magnitude / step) * step, value);
}

CASE(test_literal_by_the_paper)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 32, TERN_PRNG_TEST, 0, 0);
    for (unsigned bound = 4; bound <= 20; bound++) {
        char spec[40];
        name_spec(spec, bound, "literal");
        for (size_t n = 0; n < 6000; n += 1 + n) {
            for (size_t i = 0; i < n; i++) {
                values[i] =
                    i % 5 == 4 ? any_float(&rng)
                               : ldexpf(normal_float(&rng), -(int)tern_prng_below(&rng, bound + 4));
            }
            round_trip(spec, NULL, values, n);
            for (size_t i = 0; i < n; i++) {
                assert_true(trip.decoded[i] == literal_value(values[i], (int)bound));
            }
        }
    }
}

CASE(test_limits)
{
    static const char *const specs[] = {"inceptionn", "inceptionn:variant=literal"};
    for (size_t i = 0; i < 2; i++) {
        const float nothing[] = {0, -0.0f, 0x1p-149f, -0x1p-126f, 0x1p-11f, -0x1p-12f};
        for (size_t n = 0; n <= 6; n++) {
            round_trip(specs[i], NULL, nothing, n);
            assert_int_equal(trip.len, 1);
        }
        for (size_t k = 0; k < 1000; k++) {
            values[k] = k % 2 ? FLT_MAX : -FLT_MAX;
        }
        for (size_t n = 1; n < 40; n++) {
            round_trip(specs[i], NULL, values, n);
            assert_same_floats(trip.decoded, values, n);
        }
        round_trip(specs[i], NULL, values, 1000);
        assert_int_equal(trip.len, (i == 0) + 1 + 125 * 2 + 4000);
    }
    // All below what 7 bits can say: nothing is left.
    const float cut[] = {0x1p-10f, -0x1p-8f};
    round_trip("inceptionn:variant=literal", NULL, cut, 2);
    assert_int_equal(trip.len, 1);
}

CASE(test_downloads_only_within_the_bound)
{
    struct tern_codec bounded = codec_of("inceptionn");
    struct tern_codec literal = codec_of("inceptionn:bound=10,variant=literal");
    assert_true(tern_codec_downloads(&bounded));
    assert_false(tern_codec_downloads(&literal));
}

// --- Payloads that are wrong

#define REFUSE(n, result, ...)                                                                     \
    do {                                                                                           \
        const uint8_t payload_[] = {__VA_ARGS__};                                                  \
        refuse_payload(payload_, sizeof payload_, (n), (result));                                  \
    } while (0)

CASE(test_wrong_payloads)
{
    REFUSE(2, TERN_OK, 0x50, 10, 0x09, 0, 5, 6, 0x80);
    REFUSE(1, TERN_ERR_CORRUPT, 0x50, 10, 0x09, 0, 5, 6, 0x80); // a tag past the end
    REFUSE(3, TERN_OK, 0x50, 10, 0x09, 0, 5, 6, 0x80);
    REFUSE(9, TERN_ERR_CORRUPT, 0x50, 10, 0x09, 0, 5, 6, 0x80); // a group is missing
    REFUSE(9, TERN_ERR_CORRUPT, 0x50, 10, 0x09, 0, 5, 6, 0x80, 0);
    REFUSE(9, TERN_OK, 0x50, 10, 0x09, 0, 5, 6, 0x80, 0, 0);
    REFUSE(2, TERN_ERR_CORRUPT, 0x50, 3, 0x09, 0, 5, 6, 0x80);
    REFUSE(2, TERN_ERR_CORRUPT, 0x50, 21, 0x09, 0, 5, 6, 0x80);
    REFUSE(2, TERN_ERR_CORRUPT, 0x50);
    REFUSE(2, TERN_ERR_CORRUPT, 0x50, 10, 0x09, 0, 5, 6);
    REFUSE(2, TERN_ERR_CORRUPT, 0x50, 10, 0x09, 0, 5, 6, 0x80, 0);
    REFUSE(1, TERN_ERR_NON_FINITE, 0x50, 10, 0x03, 0, 0, 0, 0x80, 0x7f);
    REFUSE(1, TERN_ERR_NON_FINITE, 0x51, 0x03, 0, 0, 0, 0xc0, 0xff);
    REFUSE(1, TERN_ERR_CORRUPT, 0x51, 0x03, 0, 0, 0, 0xc0, 0xff, 0);
    REFUSE(1, TERN_OK, 0x51, 0x03, 0, 0, 0, 0x80, 0x3f);
    REFUSE(1, TERN_OK, 0x51, 0x01, 0, 0x80); // -0
    REFUSE(1, TERN_ERR_CORRUPT, 0x51, 0x01);
    REFUSE(1, TERN_ERR_CORRUPT, 0x51);
}

CASE(test_damaged_payloads)
{
    static const char *const specs[] = {"inceptionn:bound=8", "inceptionn:bound=8,variant=literal"};
    struct tern_prng rng;
    tern_prng_init(&rng, 33, TERN_PRNG_TEST, 0, 0);
    for (size_t spec = 0; spec < 2; spec++) {
        size_t accepted = 0;
        for (size_t n = 1; n < 100; n++) {
            for (size_t i = 0; i < n; i++) {
                values[i] = ldexpf(normal_float(&rng), -(int)tern_prng_below(&rng, 10));
            }
            round_trip(specs[spec], NULL, values, n);
            accepted += damage_payload(n, 200);
        }
        assert_in_range(accepted, 500, 99 * 200 - 500);
    }
}
