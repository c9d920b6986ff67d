// uniform: what is left is within the bound, whatever the values; the scale; the ends of the range;
// how far the coder's bytes can go.
#include "check.h"
#include "round_trip.h"

#include "codec/coders/range_bits.h"
#include "codec/kernels/kernels.h"
#include "codec/kernels/steps.h"
#include "codec/modes.h"
#include "codec/plan.h"
#include "codec/quantizers/uniform_lane.h"
#include "tests/cases.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float values[TRIP_MOST];

static double sum_of(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)a[i] * (double)b[i];
    }
    return sum;
}

// Share of the squared norm that is left by the best scale of the last trip.
static double left_of(size_t n)
{
    double product = sum_of(values, trip.decoded, n);
    return 1 -
           product * product / sum_of(trip.decoded, trip.decoded, n) / sum_of(values, values, n);
}

static double trip_with(double error, size_t n)
{
    char spec[TERN_CODEC_SPEC_MAX];
    snprintf(spec, sizeof spec, "uniform:error=%.6f", error);
    round_trip(spec, NULL, values, n);
    return left_of(n);
}

// --- Distributions

static float normal(struct tern_prng *rng, size_t i)
{
    (void)i;
    return normal_float(rng);
}

static float heavy(struct tern_prng *rng, size_t i)
{
    (void)i;
    float value = normal_float(rng);
    return value * value * value;
}

// Few that are not zero, all of them in one column of a matrix.
static float column(struct tern_prng *rng, size_t i)
{
    return i % 784 == 391 ? normal_float(rng) : 0;
}

static float flat(struct tern_prng *rng, size_t i)
{
    return (tern_prng_float(rng) < 0.5F ? 1.0F : -1.0F) * (float)(i % 3);
}

// Rows whose scales differ by orders of magnitude.
static float rows(struct tern_prng *rng, size_t i)
{
    return normal_float(rng) * exp2f(-(float)(i / 500 % 13));
}

typedef float distribution(struct tern_prng *rng, size_t i);
static distribution *const distributions[] = {normal, heavy, column, flat, rows};
enum { DISTRIBUTIONS = sizeof distributions / sizeof distributions[0] };

CASE(test_what_is_left_is_within_the_bound)
{
    static const double errors[] = {0.0005, 0.01, 0.1, 0.3, 0.9};
    static const size_t counts[] = {1, 2, 7, 100, 2047, 2048, 5000, 69999};
    struct tern_prng rng;
    tern_prng_init(&rng, 5, TERN_PRNG_TEST, 0, 0);
    for (size_t d = 0; d < DISTRIBUTIONS; d++) {
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            for (size_t i = 0; i < counts[c]; i++) {
                values[i] = distributions[d](&rng, i);
            }
            if (sum_of(values, values, counts[c]) == 0) {
                continue;
            }
            for (size_t e = 0; e < sizeof errors / sizeof errors[0]; e++) {
                // The scale is a float32, whose rounding the share does not depend on, and what is
                // decoded is rounded to float32.
                double left = trip_with(errors[e], counts[c]);
                bool finest = trip.info.maximum > 255.5F * trip.info.scale;
                assert_true(finest || left <= errors[e] + 1e-6);
                // Not finer than need be, where values are many and smooth.
                bool smooth = distributions[d] == normal && counts[c] >= 5000;
                assert_true(!smooth || left >= 0.99 * errors[e]);
            }
        }
    }
}

// What is sent has the values' own share of them, until more than a third is left.
CASE(test_scale)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 6, TERN_PRNG_TEST, 0, 0);
    enum { N = 20000 };
    for (size_t i = 0; i < N; i++) {
        values[i] = normal_float(&rng);
    }
    double total = sum_of(values, values, N);
    (void)trip_with(0.1, N);
    assert_true(fabs(sum_of(values, trip.decoded, N) / total - 1) < 1e-6);
    (void)trip_with(0.3, N);
    assert_true(fabs(sum_of(values, trip.decoded, N) / total - 1) < 1e-6);
    double left = trip_with(0.6, N);
    assert_true(fabs(sum_of(values, trip.decoded, N) / total - 1.5 * (1 - left)) < 1e-6);
    for (unsigned percent = 10; percent <= 90; percent += 10) {
        (void)trip_with(percent / 100.0, N);
        assert_true(sum_of(trip.rest, trip.rest, N) < total);
    }
}

// --- Lanes

// From 16384 values on a payload is two lanes, each with an end of its own.
CASE(test_lanes)
{
    static const size_t counts[] = {16383, 16384, 16385, 16384 + 59, 16384 + 60, 16384 + 121};
    struct tern_prng rng;
    tern_prng_init(&rng, 10, TERN_PRNG_TEST, 0, 0);
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        for (size_t i = 0; i < counts[c]; i++) {
            values[i] = heavy(&rng, i);
        }
        (void)trip_with(0.05, counts[c]);
        damage_payload(counts[c], 3);
        for (size_t len = 0; len < 12; len++) {
            refuse_payload(trip.payload, len, counts[c], TERN_ERR_CORRUPT);
        }
        refuse_payload(trip.payload, trip.len - 1, counts[c], TERN_ERR_CORRUPT);
    }
}

// The encoder adds the decoded values to a replica with the same bits as a decoder, in payloads of one lane and of two.
CASE(test_encoder_adds_as_a_decoder_does)
{
    static const size_t counts[] = {1, 61, 16385};
    static float encoded[16385];
    static float decoded[16385];
    static uint8_t payload[50000];
    struct tern_prng rng;
    tern_prng_init(&rng, 11, TERN_PRNG_TEST, 0, 0);
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        const struct tern_encode_context context = {.replica = encoded};
        const struct tern_codec codec = {.id = TERN_CODEC_UNIFORM, .error = 0.03F};
        size_t len = 0;
        for (size_t i = 0; i < counts[c]; i++) {
            values[i] = heavy(&rng, i);
            encoded[i] = decoded[i] = normal_float(&rng);
        }
        assert_int_equal(
            tern_codec_encode(&codec, &context, values, counts[c], payload, sizeof payload, &len),
            TERN_OK);
        assert_int_equal(tern_payload_add(payload, len, 1.0F, decoded, counts[c]), TERN_OK);
        assert_memory_equal(encoded, decoded, counts[c] * sizeof encoded[0]);
    }
}

// --- Planes and single values

enum { LANE_MOST = 5000 };

// Reads a lane both ways: they agree on whether it is whole, and on its values. Returns whether it is whole.
static bool read_both_ways(const uint8_t *src, size_t len, size_t count)
{
    static float sums[2][LANE_MOST];
    struct tern_codec_info infos[2];
    bool whole[2];
    uint8_t *exact = malloc(len > 0 ? len : 1); // ASan detects reads past the end
    memcpy(exact, src, len);
    memset(sums, 0, sizeof sums);
    memset(infos, 0, sizeof infos);
    const struct tern_uniform_lane lane = {exact, len, 0, count};
    for (unsigned i = 0; i < 2; i++) {
        infos[i].scale = 0.25F;
        const struct tern_uniform_sink sink = {0.25F, 0.5F, sums[i], &infos[i]};
        whole[i] = i == 0 ? tern_uniform_read_planes(&lane, 1, &sink)
                          : tern_uniform_read_values(&lane, 1, &sink);
    }
    free(exact);
    assert_int_equal(whole[0], whole[1]);
    assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
    assert_memory_equal(&infos[0], &infos[1], sizeof infos[0]);
    return whole[0];
}

static void code_both_ways(const float *from, size_t count, double error)
{
    static float rest[2][LANE_MOST];
    static uint8_t bytes[2][3 * LANE_MOST + 64];
    float peak = 0;
    for (size_t i = 0; i < count; i++) {
        peak = fabsf(from[i]) > peak ? fabsf(from[i]) : peak;
        rest[0][i] = rest[1][i] = from[i];
    }
    if (peak == 0) {
        return;
    }
    const struct tern_uniform_step step = tern_uniform_step(from, count, peak, error);
    const size_t len =
        (size_t)(tern_uniform_write_planes(rest[0], NULL, count, &step, bytes[0]) - bytes[0]);
    assert_int_equal(tern_uniform_write_values(rest[1], count, &step, bytes[1]) - bytes[1], len);
    assert_memory_equal(bytes[0], bytes[1], len);
    assert_same_floats(rest[0], rest[1], count);
    assert_true(read_both_ways(bytes[0], len, count));
    for (size_t at = 0; at < len; at += 1 + len / 16) {
        bytes[0][at] ^= (uint8_t)(1u << at % 8);
        (void)read_both_ways(bytes[0], len, count);
        (void)read_both_ways(bytes[0], at, count);
        bytes[0][at] = bytes[1][at];
    }
}

// Small devices code the same bytes value by value.
CASE(test_values_are_coded_as_planes_are)
{
    static const double errors[] = {0.0001, 0.02, 0.5};
    static const size_t counts[] = {1, 3, 59, 60, 61, 121, LANE_MOST};
    struct tern_prng rng;
    tern_prng_init(&rng, 12, TERN_PRNG_TEST, 0, 0);
    for (size_t d = 0; d < DISTRIBUTIONS; d++) {
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            for (size_t i = 0; i < counts[c]; i++) {
                values[i] = distributions[d](&rng, i);
            }
            for (size_t e = 0; e < sizeof errors / sizeof errors[0]; e++) {
                code_both_ways(values, counts[c], errors[e]);
            }
        }
    }
}

// --- Ends of the range

CASE(test_one_value)
{
    static const float some[] = {1, -3.5F, 1e-38F, 0x1p-149F, 0x1p-140F, 1e34F};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        values[0] = some[i];
        trip_with(0.1, 1);
        assert_true(trip.decoded[0] == some[i] && trip.rest[0] == 0);
        assert_int_equal(trip.len, 6);
    }
}

CASE(test_equal_magnitudes)
{
    for (size_t i = 0; i < 3000; i++) {
        values[i] = i % 2 == 0 ? 0.25F : -0.25F;
    }
    trip_with(0.1, 3000);
    for (size_t i = 0; i < 3000; i++) {
        assert_true(trip.rest[i] == 0);
    }
    assert_true(trip.len < 100);
}

CASE(test_one_peak_among_zeros)
{
    memset(values, 0, sizeof values);
    values[40001] = -8;
    trip_with(0.1, TRIP_MOST);
    assert_int_equal(trip.info.nonzero, 1);
    assert_true(trip.decoded[40001] == -8);
    assert_true(trip.len < TRIP_MOST / 500); // 0.0113 bits a value at least
}

// All whose largest magnitude is a subnormal: nothing is divided by zero, and all is sent.
CASE(test_subnormals)
{
    for (unsigned most = 1; most < 1200; most += most < 20 ? 1 : 37) {
        for (size_t i = 0; i < 64; i++) {
            values[i] = (float)(most * (i + 1) / 64) * (i % 2 == 0 ? 0x1p-149F : -0x1p-149F);
        }
        assert_true(trip_with(0.0001, 64) < 0.4);
        assert_true(trip.info.nonzero > 0);
    }
}

// The largest magnitude would be 382 steps of the least float, more than the encoder makes.
CASE(test_no_value_has_more_than_256_steps)
{
    for (size_t i = 0; i < 64; i++) {
        values[i] = 0x1p-149F;
    }
    values[7] = 382 * 0x1p-149F;
    (void)trip_with(0.0001, 64);
    assert_true(trip.info.maximum <= 256 * trip.info.scale);
}

// One value of far more than 255 times most others, which hold more than the bound allows.
CASE(test_more_than_the_finest_step_reaches)
{
    enum { N = 60000 };
    for (size_t i = 0; i < N; i++) {
        values[i] = i % 2 == 0 ? 1 : -1;
    }
    values[5] = 500;
    double left = trip_with(0.001, N);
    assert_true(left > 0.19 && left < 0.2);
    assert_true(trip.info.nonzero == 1);
    assert_true(trip.info.maximum < 750.1F); // 1.5 times, not the whole norm
}

CASE(test_peaks_that_overflow)
{
    float fits = 0x1.fffffep118F;
    values[0] = fits;
    values[1] = -1;
    trip_with(0.1, 2);
    values[1] = 0x1p119F;
    refuse_values("uniform", values, 2, TERN_ERR_NON_FINITE);
    values[1] = FLT_MAX;
    refuse_values("uniform", values, 2, TERN_ERR_NON_FINITE);
    values[1] = NAN;
    refuse_values("uniform", values, 2, TERN_ERR_NON_FINITE);
}

CASE(test_zeros_are_mode_zero)
{
    memset(values, 0, sizeof values);
    round_trip("uniform", NULL, values, 5000);
    assert_int_equal(trip.len, 1);
    assert_int_equal(trip.payload[0], TERN_MODE_ZERO);
}

CASE(test_damage)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 7, TERN_PRNG_TEST, 0, 0);
    for (size_t n = 1; n < 4000; n = 3 * n + 1) {
        for (size_t i = 0; i < n; i++) {
            values[i] = heavy(&rng, i);
        }
        trip_with(0.05, n);
        damage_payload(n, 300);
        for (size_t len = 0; len < trip.len; len++) {
            refuse_payload(trip.payload, len, n, TERN_ERR_CORRUPT);
        }
    }
}

// Zeros past the end would stand for any number of values; reading stops long before.
CASE(test_short_bytes_for_many_values)
{
    static const uint8_t payload[] = {TERN_MODE_UNIFORM, 0, 0, 128, 63, 7};
    refuse_payload(payload, sizeof payload, TRIP_MOST, TERN_ERR_CORRUPT);
    struct tern_codec_info info;
    assert_int_equal(tern_codec_inspect(payload, sizeof payload, SIZE_MAX / 8, &info),
                     TERN_ERR_CORRUPT);
}

// --- How many bits a decision may take

enum { STATES = TERN_RANGE_ONE, RATE = 5 };

static unsigned after(unsigned zero, unsigned bit)
{
    return zero - (zero >> RATE) + (TERN_RANGE_LEAST >> RATE) +
           (bit == 0 ? (TERN_RANGE_ONE - 2 * TERN_RANGE_LEAST) >> RATE : 0);
}

// The most that any sequence of decisions takes beyond `mean` bits each, from each state on: one
// decision more. Returns by how much that rose.
static double one_more(double *beyond, double mean)
{
    static double next[STATES];
    double rose = 0;
    for (unsigned p = TERN_RANGE_LEAST; p <= STATES - TERN_RANGE_LEAST; p++) {
        double most = 0;
        for (unsigned bit = 0; bit < 2; bit++) {
            double share = (double)(bit == 0 ? p : STATES - p) / STATES;
            double takes = -log2(share) - mean + beyond[after(p, bit)];
            most = takes > most ? takes : most;
        }
        next[p] = most;
        rose = most - beyond[p] > rose ? most - beyond[p] : rose;
    }
    memcpy(beyond, next, sizeof next);
    return rose;
}

// What the encoder's bound rests on.
CASE(test_no_sequence_takes_more_than_the_bound)
{
    static double beyond[STATES];
    memset(beyond, 0, sizeof beyond);
    while (one_more(beyond, 15.0 / 11) > 1e-9) {
    }
    // 29 contexts begin at 1/2, and 32 at 42000.
    double bits = 29 * beyond[STATES / 2] + 32 * beyond[42000];
    assert_true(bits > 4 && bits < 6);
}

// --- One pass for what is checked, added and described

CASE(test_one_pass_does_as_three)
{
    enum { N = 5000 };
    static float sums[N];
    static float once[N];
    struct tern_prng rng;
    tern_prng_init(&rng, 9, TERN_PRNG_TEST, 0, 0);
    for (size_t i = 0; i < N; i++) {
        values[i] = normal_float(&rng);
        sums[i] = once[i] = normal_float(&rng);
    }
    (void)trip_with(0.05, N);
    assert_int_equal(tern_codec_accumulate(trip.payload, trip.len, 0.3F, sums, N), TERN_OK);
    assert_int_equal(tern_payload_add(trip.payload, trip.len, 0.3F, once, N), TERN_OK);
    assert_memory_equal(once, sums, sizeof sums);
    const struct tern_mode *mode = tern_mode_of(TERN_MODE_UNIFORM);
    struct tern_codec_info described = {.mode = mode->name};
    struct tern_codec_info found = described;
    mode->describe(trip.payload + 1, trip.len - 1, N, &described);
    assert_int_equal(tern_mode_decode(mode, trip.payload + 1, trip.len - 1, once, N, &found),
                     TERN_OK);
    assert_memory_equal(once, trip.decoded, sizeof once);
    assert_true(described.nonzero > 0 && found.nonzero == described.nonzero);
    assert_true(found.scale == described.scale && found.maximum == described.maximum &&
                found.sum_square == described.sum_square);
    for (size_t len = 0; len < trip.len; len++) {
        assert_int_equal(tern_payload_add(trip.payload, len, 0.3F, once, N),
                         tern_codec_accumulate(trip.payload, len, 0.3F, once, N));
    }
}

// --- What a plan reckons with

// Updates take three quarters of what normally distributed values do.
CASE(test_bits_of_normal_values)
{
    static const double errors[] = {0.0001, 0.002, 0.04, 0.1, 0.25, 0.7, 0.9};
    struct tern_prng rng;
    tern_prng_init(&rng, 8, TERN_PRNG_TEST, 0, 0);
    enum { N = 60000 };
    for (size_t i = 0; i < N; i++) {
        values[i] = normal_float(&rng);
    }
    for (size_t e = 0; e < sizeof errors / sizeof errors[0]; e++) {
        char spec[TERN_CODEC_SPEC_MAX];
        snprintf(spec, sizeof spec, "uniform:error=%.6f", errors[e]);
        struct tern_codec codec = codec_of(spec);
        trip_with(errors[e], N);
        double bits = 8.0 * (double)trip.len / N;
        assert_true(fabs(tern_codec_bits(&codec) / 0.75 - bits) < 0.015 + 0.03 * bits);
    }
}
