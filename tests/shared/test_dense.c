// bfloat16, int8 and onebit.
#include "check.h"
#include "round_trip.h"
#include "tests/cases.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const char *const specs[] = {"bfloat16", "int8", "onebit"};
enum { SPECS = sizeof specs / sizeof specs[0] };

static float values[TRIP_MOST];

static void assert_payload(const uint8_t *expected, size_t len)
{
    assert_int_equal(trip.len, len);
    assert_memory_equal(trip.payload, expected, len);
}

// --- By hand

CASE(test_bfloat16_by_hand)
{
    // 1 + 2^-8 lies between 1 and 1 + 2^-7, 1 + 3 * 2^-8 between 1 + 2^-7 and 1 + 2^-6.
    const float input[] = {1, 1.00390625f, 1.01171875f, -1.00390637f, -0.0f, 0x1p-149f};
    const uint8_t expected[] = {0x03, 0x80, 0x3f, 0x80, 0x3f, 0x82, 0x3f,
                                0x81, 0xbf, 0,    0x80, 0,    0};
    round_trip("bfloat16", NULL, input, 6);
    assert_payload(expected, sizeof expected);
    assert_true(trip.rest[1] == 0x1p-8f && trip.rest[2] == -0x1p-8f && trip.rest[5] == 0x1p-149f);
}

CASE(test_bfloat16_limits)
{
    const float largest[] = {0x1.fep127f, -0x1.fep127f, 0x1.fefffep127f};
    round_trip("bfloat16", NULL, largest, 3);
    assert_true(trip.decoded[2] == 0x1.fep127f);
    const float above[] = {1, -0x1.ffp127f};
    refuse_values("bfloat16", above, 2, TERN_ERR_NON_FINITE);
    const float most[] = {FLT_MAX};
    refuse_values("bfloat16", most, 1, TERN_ERR_NON_FINITE);
    const float zero[] = {0x1p-134f, -0x1p-134f, -0.0f};
    round_trip("bfloat16", NULL, zero, 3);
    assert_int_equal(trip.len, 1);
    const float smallest[] = {-0x1.0002p-134f};
    round_trip("bfloat16", NULL, smallest, 1);
    assert_true(trip.decoded[0] == -0x1p-133f);
}

CASE(test_int8_by_hand)
{
    // M = 254, so scale = 2: ties at odd whole numbers.
    const float input[] = {254, -254, 1, 3, -5, 4.9f, -0.0f};
    const uint8_t expected[] = {0x04, 0, 0, 0, 0x40, 127, 0x81, 0, 2, 0xfe, 2, 0};
    round_trip("int8", NULL, input, 7);
    assert_payload(expected, sizeof expected);
    assert_true(trip.rest[3] == -1 && trip.rest[4] == -1 && trip.rest[2] == 1);
    assert_true(trip.info.scale == 2);
}

CASE(test_int8_limits)
{
    const float zero[] = {63 * 0x1p-149f, -0x1p-149f, 0};
    round_trip("int8", NULL, zero, 3);
    assert_int_equal(trip.len, 1);
    // The scale is one smallest subnormal, though 190 of them are to be said: 127 is the most.
    const float coarse[] = {190 * 0x1p-149f, -190 * 0x1p-149f, 64 * 0x1p-149f};
    round_trip("int8", NULL, coarse, 3);
    assert_true(trip.decoded[0] == 127 * 0x1p-149f && trip.decoded[1] == -127 * 0x1p-149f);
    assert_true(trip.decoded[2] == coarse[2]);
    const float large[] = {0x1.fcp127f, -0x1p127f};
    round_trip("int8", NULL, large, 2);
    assert_true(trip.decoded[0] == 0x1.fcp127f);
}

// 127 * (M / 127) is infinite for the largest float32, and not for those below it.
CASE(test_int8_refuses_what_would_decode_to_infinity)
{
    unsigned refused = 0;
    for (uint32_t bits = bits_of(FLT_MAX) - 64; bits <= bits_of(FLT_MAX); bits++) {
        const float input[] = {1, -float_of_bits(bits)};
        volatile float scale = float_of_bits(bits) / 127;
        if (isfinite(127 * scale)) {
            round_trip("int8", NULL, input, 2);
        } else {
            refuse_values("int8", input, 2, TERN_ERR_NON_FINITE);
            refused++;
        }
    }
    assert_int_equal(refused, 1);
}

CASE(test_onebit_by_hand)
{
    const float input[] = {1, -4, 0, -2, -0.0f, 5, -3, 0, 9};
    // Means of 1, 0, -0, 5, 0, 9 and of 4, 2, 3.
    const uint8_t expected[] = {0x20, 0, 0, 0x20, 0x40, 0, 0, 0x40, 0x40, 0x4a, 0};
    round_trip("onebit", NULL, input, 9);
    assert_payload(expected, sizeof expected);
    assert_true(trip.info.scale == 3 && trip.rest[8] == 6.5f && trip.rest[1] == -1);
}

CASE(test_onebit_with_an_empty_side)
{
    const float negative[] = {-1, -2, -3};
    round_trip("onebit", NULL, negative, 3);
    assert_true(trip.decoded[0] == -2 && trip.decoded[2] == -2);
    const float positive[] = {0, 0, 3};
    round_trip("onebit", NULL, positive, 3);
    assert_true(trip.decoded[0] == 1 && trip.decoded[2] == 1);
    // The mean of one smallest subnormal and two zeros is nearest to zero.
    const float vanishing[] = {0x1p-149f, 0, 0};
    round_trip("onebit", NULL, vanishing, 3);
    assert_int_equal(trip.len, 1);
}

// The mean of values that are all the largest float32 is that, not infinity.
CASE(test_onebit_of_the_largest)
{
    for (size_t i = 0; i < TRIP_MOST; i++) {
        values[i] = i % 3 ? FLT_MAX : -FLT_MAX;
    }
    round_trip("onebit", NULL, values, TRIP_MOST);
    assert_same_floats(trip.decoded, values, TRIP_MOST);
}

// Lane sums as the format writes them, from plain loops over the lanes.
static double lane_sum(const float *from, size_t n, float sign)
{
    double lanes[8] = {0};
    for (size_t lane = 0; lane < 8; lane++) {
        for (size_t i = lane; i < n; i += 8) {
            float magnitude = sign * from[i] > 0 ? sign * from[i] : 0;
            lanes[lane] += (double)magnitude;
        }
    }
    return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
           ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

CASE(test_onebit_sums_in_the_written_order)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 5, TERN_PRNG_TEST, 0, 0);
    for (size_t n = 1; n < 3000; n += 1 + n / 4) {
        size_t negatives = 0;
        for (size_t i = 0; i < n; i++) {
            values[i] = ldexpf(normal_float(&rng), (int)tern_prng_below(&rng, 60));
            negatives += values[i] < 0;
        }
        size_t positives = n - negatives;
        round_trip("onebit", NULL, values, n);
        float a = positives > 0 ? (float)(lane_sum(values, n, 1) / (double)positives) : 0;
        float b = negatives > 0 ? (float)(lane_sum(values, n, -1) / (double)negatives) : 0;
        for (size_t i = 0; i < n; i++) {
            assert_true(trip.decoded[i] == (values[i] < 0 ? -b : a));
        }
    }
}

// --- All three

CASE(test_any_values_and_sizes)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 6, TERN_PRNG_TEST, 0, 0);
    for (size_t spec = 0; spec < SPECS; spec++) {
        for (size_t n = 0; n < 300; n++) {
            int shift = (int)tern_prng_below(&rng, 270) - 148;
            for (size_t i = 0; i < n; i++) {
                values[i] = ldexpf(normal_float(&rng), shift);
            }
            round_trip(specs[spec], NULL, values, n);
            memset(values, 0, n * sizeof *values);
            round_trip(specs[spec], NULL, values, n);
            assert_int_equal(trip.len, 1);
        }
        for (size_t n = 1; n < 2000; n += n) {
            for (size_t i = 0; i < n; i++) {
                values[i] = any_float(&rng) * 0.4f; // finite in every codec
            }
            round_trip(specs[spec], NULL, values, n);
        }
    }
}

CASE(test_errors_are_those_of_the_nearest)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 7, TERN_PRNG_TEST, 0, 0);
    enum { N = 10000 };
    for (size_t i = 0; i < N; i++) {
        values[i] = normal_float(&rng);
    }
    round_trip("bfloat16", NULL, values, N);
    for (size_t i = 0; i < N; i++) {
        assert_true(fabsf(trip.rest[i]) <= 0x1p-8f * fabsf(values[i]));
    }
    round_trip("int8", NULL, values, N);
    assert_int_equal(trip.len, 5 + N);
    for (size_t i = 0; i < N; i++) {
        assert_true(fabsf(trip.rest[i]) <= 0.500001f * trip.info.scale);
    }
    round_trip("onebit", NULL, values, N);
    assert_int_equal(trip.len, 9 + N / 8);
    double sum = 0;
    for (size_t i = 0; i < N; i++) {
        sum += (double)trip.rest[i];
    }
    assert_true(fabs(sum) < 0.01); // the means leave no error on average
}

// What is fed back is sent in the end: sums of inputs and of what was decoded stay together.
CASE(test_feedback_telescopes)
{
    enum { N = 500, ROUNDS = 200 };
    for (size_t spec = 0; spec < SPECS; spec++) {
        struct tern_prng rng;
        static double sent[N], given[N];
        tern_prng_init(&rng, 8, TERN_PRNG_TEST, 0, 0);
        memset(sent, 0, sizeof sent);
        memset(given, 0, sizeof given);
        memset(trip.rest, 0, sizeof trip.rest);
        for (int round = 0; round < ROUNDS; round++) {
            for (size_t i = 0; i < N; i++) {
                float input = normal_float(&rng) + (i % 7 == 0 ? 0.5f : 0);
                given[i] += (double)input;
                values[i] = trip.rest[i] + input;
            }
            round_trip(specs[spec], NULL, values, N);
            for (size_t i = 0; i < N; i++) {
                sent[i] += (double)trip.decoded[i];
            }
        }
        for (size_t i = 0; i < N; i++) {
            assert_true(fabs(given[i] - sent[i] - (double)trip.rest[i]) < 1e-3);
        }
    }
}

// --- Payloads that are wrong

#define REFUSE(n, result, ...)                                                                     \
    do {                                                                                           \
        const uint8_t payload_[] = {__VA_ARGS__};                                                  \
        refuse_payload(payload_, sizeof payload_, (n), (result));                                  \
    } while (0)

CASE(test_wrong_payloads)
{
    REFUSE(1, TERN_ERR_CORRUPT, 0x03, 0);
    REFUSE(1, TERN_ERR_CORRUPT, 0x03, 0, 0, 0);
    REFUSE(2, TERN_ERR_NON_FINITE, 0x03, 0, 0, 0x80, 0x7f);
    REFUSE(2, TERN_ERR_NON_FINITE, 0x03, 0xff, 0xff, 0, 0);
    REFUSE(1, TERN_OK, 0x03, 0x7f, 0xff);

    REFUSE(1, TERN_ERR_CORRUPT, 0x04, 0, 0, 0x80);
    REFUSE(1, TERN_ERR_CORRUPT, 0x04, 0, 0, 0x80, 0x3f);
    REFUSE(1, TERN_ERR_CORRUPT, 0x04, 0, 0, 0x80, 0x3f, 1, 1);
    REFUSE(1, TERN_ERR_CORRUPT, 0x04, 0, 0, 0x80, 0x3f, 0x80);
    REFUSE(1, TERN_ERR_CORRUPT, 0x04, 0, 0, 0, 0, 1);
    REFUSE(1, TERN_ERR_NON_FINITE, 0x04, 0, 0, 0x80, 0x7f, 1);
    REFUSE(1, TERN_ERR_NON_FINITE, 0x04, 0, 0, 0x80, 0xbf, 1);
    REFUSE(1, TERN_ERR_NON_FINITE, 0x04, 0, 0, 0, 0x7f, 1); // 127 * 2^127
    REFUSE(1, TERN_OK, 0x04, 0, 0, 0x80, 0x3f, 0x81);

    REFUSE(9, TERN_ERR_CORRUPT, 0x20, 0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x3f, 0xff);
    REFUSE(9, TERN_ERR_CORRUPT, 0x20, 0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x3f, 0xff, 2);
    REFUSE(9, TERN_ERR_CORRUPT, 0x20, 0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x3f, 0xff, 1, 0);
    REFUSE(9, TERN_ERR_NON_FINITE, 0x20, 0, 0, 0x80, 0x7f, 0, 0, 0x80, 0x3f, 0xff, 1);
    REFUSE(9, TERN_ERR_NON_FINITE, 0x20, 0, 0, 0x80, 0x3f, 0, 0, 0x80, 0xbf, 0xff, 1);
    REFUSE(9, TERN_OK, 0x20, 0, 0, 0x80, 0x3f, 0, 0, 0, 0, 0xff, 1);
    REFUSE(9, TERN_ERR_CORRUPT, 0x20, 0, 0, 0x80);
}

CASE(test_damaged_payloads)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 9, TERN_PRNG_TEST, 0, 0);
    for (size_t spec = 0; spec < SPECS; spec++) {
        size_t accepted = 0;
        for (size_t n = 1; n < 70; n++) {
            for (size_t i = 0; i < n; i++) {
                values[i] = normal_float(&rng);
            }
            round_trip(specs[spec], NULL, values, n);
            accepted += damage_payload(n, 200);
        }
        assert_in_range(accepted, 500, 69 * 200 - 500);
    }
}
