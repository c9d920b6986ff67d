#include "round_trip.h"

#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct trip trip;

static uint8_t buffer[5 * TRIP_MOST + 128];
static float acc[TRIP_MOST];

enum { GUARD = 0xa5 };

struct tern_codec codec_of(const char *spec)
{
    struct tern_codec codec = {.id = 0};
    assert_int_equal(tern_codec_parse(spec, &codec, NULL), TERN_OK);
    return codec;
}

static void check_feedback(enum tern_feedback feedback, const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float expected = feedback == TERN_FEEDBACK_NONE ? 0 : values[i] - trip.decoded[i];
        // Mode zero leaves values as they are, also -0.
        bool kept = feedback != TERN_FEEDBACK_NONE && trip.payload[0] == 0;
        expected = kept ? values[i] : expected;
        if (bits_of(trip.rest[i]) != bits_of(expected)) {
            fail_msg("of value %zu = %a, decoded as %a, rests %a", i, (double)values[i],
                     (double)trip.decoded[i], (double)trip.rest[i]);
        }
    }
}

static void check_accumulate(size_t n, float weight)
{
    for (size_t i = 0; i < n; i++) {
        acc[i] = (float)i - 3.25f;
    }
    assert_int_equal(tern_codec_accumulate(trip.payload, trip.len, weight, acc, n), TERN_OK);
    for (size_t i = 0; i < n; i++) {
        volatile float product = weight * trip.decoded[i];
        float expected = ((float)i - 3.25f) + product;
        assert_int_equal(bits_of(acc[i]), bits_of(expected));
    }
}

static void check_info(size_t n)
{
    size_t nonzero = 0;
    float maximum = 0;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        nonzero += trip.decoded[i] != 0;
        maximum = fmaxf(maximum, fabsf(trip.decoded[i]));
        sum += (double)trip.decoded[i] * (double)trip.decoded[i];
    }
    assert_int_equal(tern_codec_inspect(trip.payload, trip.len, n, &trip.info), TERN_OK);
    assert_int_equal(trip.info.nonzero, nonzero);
    assert_true(trip.info.maximum == maximum);
    // A codec may sum multiples of its scale before they are rounded to float32.
    assert_true(fabs(trip.info.sum_square - sum) <= 2e-7 * sum);
    assert_int_equal(trip.payload[0] == 0, nonzero == 0);
}

void round_trip(const char *spec, const struct tern_encode_context *context, const float *values,
                size_t n)
{
    struct tern_codec codec = codec_of(spec);
    size_t bound = tern_codec_bound(&codec, n);
    assert_true(n <= TRIP_MOST && bound <= tern_codec_bound_any(n));
    trip.payload = buffer;
    memset(buffer, GUARD, bound + 1);
    if (n > 0) {
        memcpy(trip.rest, values, n * sizeof *values);
    }
    assert_int_equal(tern_codec_encode(&codec, context, trip.rest, n, buffer, bound, &trip.len),
                     TERN_OK);
    assert_true(trip.len <= bound && buffer[bound] == GUARD);
    assert_int_equal(tern_codec_decode(buffer, trip.len, trip.decoded, n), TERN_OK);
    check_feedback(tern_codec_entry(codec.id)->feedback, values, n);
    check_accumulate(n, 0.7f);
    check_accumulate(n, -1);
    check_info(n);
}

void refuse_values(const char *spec, const float *values, size_t n, enum tern_result expected)
{
    struct tern_codec codec = codec_of(spec);
    size_t written = 99;
    assert_true(n <= TRIP_MOST);
    memcpy(trip.rest, values, n * sizeof *values);
    assert_int_equal(tern_codec_encode(&codec, NULL, trip.rest, n, buffer, sizeof buffer, &written),
                     expected);
    assert_same_floats(trip.rest, values, n);
    assert_int_equal(written, 99);
}

// Reads a payload in all three ways from a buffer that ends where it does, into values that end
// where they do; returns what all of them say.
static enum tern_result read_payload(const uint8_t *payload, size_t len, size_t n)
{
    uint8_t *src = malloc(len > 0 ? len : 1);
    float *decoded = malloc((n > 0 ? n : 1) * sizeof *decoded);
    float *sums = malloc((n > 0 ? n : 1) * sizeof *sums);
    struct tern_codec_info info;
    memcpy(src, payload, len);
    for (size_t i = 0; i < n; i++) {
        decoded[i] = sums[i] = 0.375f;
    }
    enum tern_result result = tern_codec_decode(src, len, decoded, n);
    assert_int_equal(tern_codec_accumulate(src, len, 1, sums, n), result);
    assert_int_equal(tern_codec_inspect(src, len, n, &info), result);
    size_t nonzero = 0;
    for (size_t i = 0; i < n; i++) {
        float expected = result == TERN_OK ? 0.375f + decoded[i] : 0.375f;
        assert_int_equal(bits_of(sums[i]), bits_of(expected));
        assert_true(result == TERN_OK ? isfinite(decoded[i]) : decoded[i] == 0.375f);
        nonzero += decoded[i] != 0;
    }
    assert_true(result != TERN_OK || info.nonzero == nonzero);
    free(sums);
    free(decoded);
    free(src);
    return result;
}

void refuse_payload(const uint8_t *payload, size_t len, size_t n, enum tern_result expected)
{
    assert_int_equal(read_payload(payload, len, n), expected);
}

// One change of a payload; returns its new length.
static size_t damage(struct tern_prng *rng, uint8_t *payload, size_t len)
{
    size_t at = tern_prng_below(rng, (uint32_t)len);
    switch (tern_prng_below(rng, 5)) {
    case 0:
        payload[at] ^= (uint8_t)(1u << tern_prng_below(rng, 8));
        return len;
    case 1:
        payload[at] = (uint8_t)tern_prng_u32(rng);
        return len;
    case 2:
        return at;
    case 3:
        payload[len] = (uint8_t)tern_prng_below(rng, 3);
        return len + 1;
    default:
        memmove(payload + at, payload + at + 1, len - at - 1);
        return len - 1;
    }
}

size_t damage_payload(size_t n, unsigned times)
{
    struct tern_prng rng;
    tern_prng_init(&rng, trip.len, TERN_PRNG_TEST, (uint32_t)n, 0);
    uint8_t *copy = malloc(trip.len + 4);
    size_t accepted = 0;
    for (unsigned i = 0; i < times; i++) {
        size_t len = trip.len;
        memcpy(copy, trip.payload, len);
        for (uint32_t left = 1 + tern_prng_below(&rng, 3); left > 0 && len > 0; left--) {
            len = damage(&rng, copy, len);
        }
        accepted += read_payload(copy, len, n) == TERN_OK;
    }
    free(copy);
    return accepted;
}
