// The codecs over random shapes, densities, scales and parameters: 3LC against the book, and of all
// of them that what is fed back is what the payload does not carry.
#include "any_codec.h"
#include "check.h"
#include "slow_ternary.h"
#include "tests/cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 40000 };

static struct tern_prng rng;
static float values[LARGEST], copy[LARGEST], decoded[LARGEST], acc[LARGEST];
static uint8_t payload[5 * LARGEST], expected[5 * LARGEST];

static int seed(void **state)
{
    (void)state;
    tern_prng_init(&rng, 11, TERN_PRNG_TEST, 0, 0);
    return 0;
}

// Values of which about `density` are large, in stretches, so that runs of all lengths come up.
static void fill(size_t n, float density, float scale)
{
    size_t stretch = 0;
    float here = density;
    for (size_t i = 0; i < n; i++, stretch--) {
        if (stretch == 0) {
            stretch = 1 + tern_prng_below(&rng, 300);
            here = tern_prng_below(&rng, 3) == 0 ? 0 : density;
        }
        float value = tern_prng_float(&rng) < here ? 1 : tern_prng_float(&rng) * 0.4f;
        values[i] = (tern_prng_u32(&rng) & 1 ? value : -value) * scale;
    }
}

// Encodes `values`, which it leaves as they were; the residual is in copy.
static size_t encode(const struct tern_codec *codec, size_t n)
{
    size_t written = 0;
    memcpy(copy, values, n * sizeof *copy);
    assert_int_equal(
        tern_codec_encode(codec, NULL, copy, n, payload, tern_codec_bound(codec, n), &written),
        TERN_OK);
    return written;
}

static void check_clipped(size_t n, float sparsity, float clip)
{
    const struct tern_codec codec = {.id = TERN_CODEC_3LC, .sparsity = sparsity, .clip = clip};
    size_t written = encode(&codec, n);
    memcpy(decoded, values, n * sizeof *decoded);
    size_t len = slow_encode(decoded, n, &codec, expected);
    assert_int_equal(written, len);
    assert_memory_equal(payload, expected, len);
    assert_same_floats(copy, decoded, n);

    assert_true(slow_decode(payload, written, acc, n));
    assert_int_equal(tern_codec_decode(payload, written, decoded, n), TERN_OK);
    assert_same_floats(decoded, acc, n);

    for (size_t i = 0; i < n; i++) {
        acc[i] = copy[i] + (float)i;
        decoded[i] = decoded[i] != 0 ? acc[i] + 0.75f * decoded[i] : acc[i];
    }
    assert_int_equal(tern_codec_accumulate(payload, written, 0.75f, acc, n), TERN_OK);
    assert_same_floats(acc, decoded, n);
}

// As in the paper, and with a clip.
static void check_3lc(size_t n, float sparsity)
{
    check_clipped(n, sparsity, 0);
    check_clipped(n, sparsity, tern_prng_float(&rng) * 16);
}

CASE_WITH(test_3lc_equals_the_book_at_every_small_size, seed, NULL)
{
    for (size_t n = 0; n < 400; n++) {
        fill(n, 0.3f, 1);
        check_3lc(n, 1);
        fill(n, 0.02f, 1e-3f);
        check_3lc(n, 1.5f);
    }
}

CASE_WITH(test_3lc_equals_the_book_at_all_densities, seed, NULL)
{
    const float densities[] = {0, 0.0003f, 0.003f, 0.01f, 0.03f, 0.1f, 0.3f, 0.6f, 1};
    for (size_t d = 0; d < sizeof densities / sizeof densities[0]; d++) {
        for (int round = 0; round < 12; round++) {
            size_t n = LARGEST - tern_prng_below(&rng, round == 0 ? 1 : 30000);
            fill(n, densities[d], ldexpf(1, (int)tern_prng_below(&rng, 200) - 100));
            check_3lc(n, 1 + tern_prng_float(&rng) * 0.99f);
        }
    }
}

CASE_WITH(test_3lc_equals_the_book_on_any_floats, seed, NULL)
{
    for (int round = 0; round < 2000; round++) {
        size_t n = 1 + tern_prng_below(&rng, 60);
        uint32_t highest = 1 + tern_prng_below(&rng, 0x7e800000u); // its double is finite
        for (size_t i = 0; i < n; i++) {
            values[i] =
                float_of_bits(tern_prng_below(&rng, highest) | (tern_prng_u32(&rng) & 0x80000000u));
        }
        check_3lc(n, 1 + tern_prng_float(&rng) * 0.99f);
    }
}

CASE_WITH(test_subnormal_scales, seed, NULL)
{
    for (uint32_t peak = 1; peak < 40; peak++) {
        for (uint32_t i = 0; i <= 2 * peak; i++) {
            values[i] = float_of_bits(i <= peak ? i : (i - peak) | 0x80000000u);
        }
        for (float s = 1; s < 2; s += 0.03125f) {
            check_3lc(2 * peak + 1, s);
        }
    }
}

CASE_WITH(test_dense_codecs_give_back_the_nearest, seed, NULL)
{
    const struct tern_codec float32 = {.id = TERN_CODEC_FLOAT32, .sparsity = 1};
    const struct tern_codec float16 = {.id = TERN_CODEC_FLOAT16, .sparsity = 1};
    for (int round = 0; round < 300; round++) {
        size_t n = 1 + tern_prng_below(&rng, 100);
        for (size_t i = 0; i < n; i++) {
            values[i] = any_float(&rng);
        }
        size_t written = encode(&float32, n);
        assert_int_equal(tern_codec_decode(payload, written, decoded, n), TERN_OK);
        assert_same_floats(decoded, values, n);
        for (size_t i = 0; i < n; i++) {
            values[i] = ldexpf(tern_prng_float(&rng) * 2 - 1, (int)tern_prng_below(&rng, 45) - 30);
        }
        written = encode(&float16, n);
        assert_int_equal(tern_codec_decode(payload, written, decoded, n), TERN_OK);
        for (size_t i = 0; i < n; i++) {
            // Half a unit in the last place: 2^-11 of the value, or 2^-25 below the normal halves.
            float limit = fmaxf(fabsf(values[i]) * 0x1p-11f, 0x1p-25f);
            assert_true(fabsf(decoded[i] - values[i]) <= limit);
            assert_true(copy[i] == values[i] - decoded[i]);
        }
    }
}

// --- Every codec

static uint32_t below(void *arg, uint32_t bound)
{
    (void)arg;
    return tern_prng_below(&rng, bound);
}

static void check_fed_back(const struct tern_codec *codec, size_t n)
{
    enum tern_feedback feedback = tern_codec_entry(codec->id)->feedback;
    for (size_t i = 0; i < n; i++) {
        float rest = feedback == TERN_FEEDBACK_NONE ? 0 : values[i] - decoded[i];
        if (bits_of(copy[i]) != bits_of(rest)) {
            fail_msg("value %zu of %zu: %a is fed back, not %a", i, n, (double)copy[i],
                     (double)rest);
        }
    }
}

static void check_added(const struct tern_codec_info *info, size_t written, size_t n)
{
    size_t nonzero = 0;
    for (size_t i = 0; i < n; i++) {
        acc[i] = 1 + (float)i;
        nonzero += decoded[i] != 0;
    }
    assert_int_equal(info->nonzero, nonzero);
    assert_int_equal(tern_codec_accumulate(payload, written, -0.3f, acc, n), TERN_OK);
    for (size_t i = 0; i < n; i++) {
        float product = -0.3f * decoded[i];
        assert_true(acc[i] == 1 + (float)i + product);
    }
}

// Encodes `values` twice; the rest is in copy.
static size_t encode_twice(const struct tern_codec *codec, size_t n)
{
    static float velocity[LARGEST];
    size_t written[2] = {0, 0};
    uint8_t *payloads[] = {expected, payload};
    for (int i = 0; i < 2; i++) {
        const struct tern_encode_context context = {.seed = n, .round = 3, .velocity = velocity};
        memset(velocity, 0, sizeof velocity);
        memcpy(copy, values, n * sizeof *copy);
        memset(payloads[i], 0x5a + i, tern_codec_bound(codec, n)); // what was there is not read
        assert_int_equal(tern_codec_encode(codec, &context, copy, n, payloads[i],
                                           tern_codec_bound(codec, n), &written[i]),
                         TERN_OK);
    }
    assert_int_equal(written[0], written[1]);
    assert_memory_equal(payload, expected, written[0]);
    return written[0];
}

CASE_WITH(test_every_codec_gives_back_what_it_does_not_send, seed, NULL)
{
    const float densities[] = {0.0005f, 0.01f, 0.1f, 0.5f, 1};
    const struct any_source source = {.below = below, .arg = NULL};
    const struct tern_codec_entry *entry = NULL;
    for (size_t e = 0; (entry = tern_codec_entry_at(e)) != NULL; e++) {
        for (int round = 0; round < 60; round++) {
            char spec[ANY_CODEC_SPEC_MAX];
            struct tern_codec codec = any_codec(entry, &source, spec);
            struct tern_codec_info info;
            size_t n = 1 + tern_prng_below(&rng, round % 10 == 0 ? LARGEST : 3000);
            fill(n, densities[round % 5], ldexpf(1, (int)tern_prng_below(&rng, 30) - 24));
            size_t written = encode_twice(&codec, n);
            assert_int_equal(tern_codec_decode(payload, written, decoded, n), TERN_OK);
            assert_int_equal(tern_codec_inspect(payload, written, n, &info), TERN_OK);
            check_fed_back(&codec, n);
            check_added(&info, written, n);
        }
    }
}
