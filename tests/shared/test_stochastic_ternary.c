// stochastic-ternary: each value is drawn by its own place in the stream, and right on average.
#include "check.h"
#include "codec/plan.h"
#include "round_trip.h"
#include "tests/cases.h"

#include <math.h>
#include <string.h>

enum { LARGEST = 20000 };

static struct tern_prng rng;
static float values[LARGEST];

static int seed(void **state)
{
    (void)state;
    tern_prng_init(&rng, 14, TERN_PRNG_TEST, 0, 0);
    for (size_t i = 0; i < LARGEST; i++) {
        values[i] = normal_float(&rng);
    }
    return 0;
}

// As FORMAT.md has it: draw i of the segment decides on value i.
CASE_WITH(test_each_value_has_its_draw, seed, NULL)
{
    const struct tern_encode_context context = {
        .seed = 0x123456789abcdefu, .round = 7, .client = 9, .segment = 3};
    for (size_t n = 1; n < 300; n++) {
        round_trip("stochastic-ternary:coder=packed", &context, values, n);
        float peak = 0;
        for (size_t i = 0; i < n; i++) {
            peak = fmaxf(peak, fabsf(values[i]));
        }
        struct tern_prng draws;
        tern_prng_init(&draws, context.seed, TERN_PRNG_CODEC, 7, 9);
        draws.counter[1] += 3; // segment * 2^32 blocks
        for (size_t i = 0; i < n; i++) {
            bool taken = tern_prng_float(&draws) * peak < fabsf(values[i]);
            float expected[] = {taken ? copysignf(peak, values[i]) : 0};
            assert_same_floats(&trip.decoded[i], expected, 1);
        }
    }
}

// The probability of a value of u * M is that of draws below u, not of u itself.
CASE_WITH(test_a_draw_as_large_as_its_value_does_not_take_it, seed, NULL)
{
    enum { N = 500 };
    struct tern_prng draws;
    tern_prng_init(&draws, 21, TERN_PRNG_CODEC, 0, 0);
    for (size_t i = 0; i < N; i++) {
        values[i] = tern_prng_float(&draws);
    }
    values[0] = -1;
    round_trip("stochastic-ternary", &(struct tern_encode_context){.seed = 21}, values, N);
    assert_int_equal(trip.info.nonzero, 1);
    assert_true(trip.decoded[0] == -1);
    for (size_t i = 1; i < N; i++) {
        values[i] = float_of_bits(bits_of(values[i]) + 1);
    }
    round_trip("stochastic-ternary", &(struct tern_encode_context){.seed = 21}, values, N);
    assert_int_equal(trip.info.nonzero, N);
}

CASE_WITH(test_nothing_is_fed_back, seed, NULL)
{
    float some[] = {1, -0.5f, 0.25f, -0.0f, 0};
    const float zeros[5] = {0};
    round_trip("stochastic-ternary", NULL, some, 5);
    assert_same_floats(trip.rest, zeros, 5);
    for (size_t i = 0; i < 5; i++) {
        some[i] = -0.0f;
    }
    round_trip("stochastic-ternary", NULL, some, 5);
    assert_int_equal(trip.len, 1);
    assert_same_floats(trip.rest, zeros, 5);
}

CASE_WITH(test_another_name_draws_otherwise, seed, NULL)
{
    const struct tern_encode_context contexts[] = {
        {.seed = 1},
        {.seed = 2},
        {.seed = 1, .round = 1},
        {.seed = 1, .client = 1},
        {.seed = 1, .segment = 1},
    };
    enum { CONTEXTS = sizeof contexts / sizeof contexts[0], N = 200 };
    static float decoded[CONTEXTS][N];
    for (size_t c = 0; c < CONTEXTS; c++) {
        round_trip("stochastic-ternary", &contexts[c], values, N);
        memcpy(decoded[c], trip.decoded, sizeof decoded[c]);
        round_trip("stochastic-ternary:coder=auto", &contexts[c], values, N);
        assert_same_floats(trip.decoded, decoded[c], N);
        for (size_t other = 0; other < c; other++) {
            assert_true(memcmp(decoded[c], decoded[other], sizeof decoded[c]) != 0);
        }
    }
}

// The mean over many clients nears the value: within five standard errors, m/2 at most each.
CASE_WITH(test_right_on_average, seed, NULL)
{
    enum { N = 50, CLIENTS = 4000 };
    double sum[N] = {0};
    float peak = 0;
    for (uint32_t client = 0; client < CLIENTS; client++) {
        const struct tern_encode_context context = {.seed = 5, .client = client};
        round_trip("stochastic-ternary", &context, values, N);
        peak = trip.info.scale;
        for (size_t i = 0; i < N; i++) {
            sum[i] += (double)trip.decoded[i];
        }
    }
    double slack = 5 * (double)peak / 2 / sqrt(CLIENTS);
    for (size_t i = 0; i < N; i++) {
        assert_true(fabs(sum[i] / CLIENTS - (double)values[i]) <= slack);
    }
}

CASE_WITH(test_any_floats, seed, NULL)
{
    for (int round = 0; round < 1000; round++) {
        size_t n = 1 + tern_prng_below(&rng, 60);
        uint32_t highest = 1 + tern_prng_below(&rng, round % 4 == 0 ? 40 : 0x7f7fffffu);
        for (size_t i = 0; i < n; i++) {
            values[i] =
                float_of_bits(tern_prng_below(&rng, highest) | (tern_prng_u32(&rng) & 0x80000000u));
        }
        const struct tern_encode_context context = {.seed = (uint64_t)round};
        round_trip("stochastic-ternary", &context, values, n);
        for (size_t i = 0; i < n; i++) {
            assert_true(trip.decoded[i] == 0 || trip.decoded[i] * values[i] >= 0);
        }
    }
}

CASE_WITH(test_not_for_downloads, seed, NULL)
{
    struct tern_codec codec = codec_of("stochastic-ternary");
    assert_false(tern_codec_downloads(&codec));
    assert_true(tern_codec_entry(codec.id)->random);
    assert_int_equal(tern_codec_entry(codec.id)->feedback, TERN_FEEDBACK_NONE);
}
