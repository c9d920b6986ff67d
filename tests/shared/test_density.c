// The density quantizer: which values are taken, by what scale, and what is left.
#include "check.h"
#include "round_trip.h"

#include "codec/kernels/kernels.h"
#include "tests/cases.h"
#include "util/bytes.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 5000 };

static struct tern_prng rng;
static float values[LARGEST], magnitudes[LARGEST];

static int seed(void **state)
{
    (void)state;
    tern_prng_init(&rng, 13, TERN_PRNG_TEST, 0, 0);
    return 0;
}

static int descending(const void *a, const void *b)
{
    float x = *(const float *)a;
    float y = *(const float *)b;
    return (x < y) - (x > y);
}

// k of FORMAT.md, in whole numbers.
static size_t wanted(uint32_t millionths, size_t n)
{
    uint64_t product = (uint64_t)millionths * n;
    return (size_t)(product / 1000000 + (product % 1000000 != 0));
}

// The mean of FORMAT.md, with the C library's powers of two.
static float slow_mean(const float *sorted, size_t taken)
{
    int exponent = 0;
    frexpf(sorted[0], &exponent);
    exponent--; // frexp() gives a fraction below 1
    uint64_t sum = 0;
    for (size_t i = 0; i < taken; i++) {
        sum += (uint64_t)floor(ldexp((double)sorted[i], 30 - exponent));
    }
    uint64_t mean = sum / taken;
    return (float)ldexp((double)(mean > 0 ? mean : 1), exponent - 30);
}

// Encodes values at a density of millionths, and checks each against the definition.
static void check_density(uint32_t millionths, size_t n, const char *coder)
{
    char spec[TERN_CODEC_SPEC_MAX];
    snprintf(spec, sizeof spec, "density:p=%u.%06u,coder=%s", millionths / 1000000,
             millionths % 1000000, coder);
    round_trip(spec, NULL, values, n);
    for (size_t i = 0; i < n; i++) {
        magnitudes[i] = fabsf(values[i]);
    }
    qsort(magnitudes, n, sizeof *magnitudes, descending);
    float least = magnitudes[wanted(millionths, n) - 1];
    size_t taken = 0;
    while (taken < n && magnitudes[taken] >= least && magnitudes[taken] > 0) {
        taken++;
    }
    assert_int_equal(trip.info.nonzero, taken);
    if (taken == 0) {
        assert_int_equal(trip.len, 1);
        return;
    }
    float scale = slow_mean(magnitudes, taken);
    for (size_t i = 0; i < n; i++) {
        bool here = fabsf(values[i]) >= least && values[i] != 0;
        float expected[] = {here ? copysignf(scale, values[i]) : 0};
        if (trip.payload[0] == 0x01) {
            expected[0] = values[i]; // one value goes raw
        }
        assert_same_floats(&trip.decoded[i], expected, 1);
    }
}

static void fill_normal(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        values[i] = normal_float(&rng);
    }
}

CASE_WITH(test_any_density_and_size, seed, NULL)
{
    static const char *const coders[] = {"auto", "zero-run", "packed", "gaps", "range"};
    const uint32_t millionths[] = {1, 1000, 50000, 333333, 500000, 999999, 1000000};
    for (size_t m = 0; m < sizeof millionths / sizeof millionths[0]; m++) {
        for (size_t n = 1; n <= 130; n++) {
            fill_normal(n);
            check_density(millionths[m], n, coders[n % 5]);
        }
        fill_normal(LARGEST);
        check_density(millionths[m], LARGEST, "auto");
    }
}

// 0.05 is not a float32: computed with one, the share of 20, 40... values would be one too large.
CASE_WITH(test_the_share_is_exact, seed, NULL)
{
    for (size_t n = 20; n <= LARGEST; n += 20) {
        for (size_t i = 0; i < n; i++) {
            values[i] = (float)(1 + i);
        }
        round_trip("density:p=0.05,coder=zero-run", NULL, values, n);
        assert_int_equal(trip.info.nonzero, n / 20);
        round_trip("density:p=0.050001,coder=zero-run", NULL, values, n);
        assert_int_equal(trip.info.nonzero, n / 20 + 1);
    }
}

CASE_WITH(test_ties_are_all_taken, seed, NULL)
{
    for (size_t n = 1; n <= 200; n++) {
        for (size_t i = 0; i < n; i++) {
            values[i] = (float)(int)tern_prng_below(&rng, 7) - 3;
        }
        check_density(1 + tern_prng_below(&rng, 1000000), n, "zero-run");
    }
    for (size_t i = 0; i < 100; i++) {
        values[i] = i % 2 ? 0.7f : -0.7f;
    }
    round_trip("density:p=0.01", NULL, values, 100);
    assert_int_equal(trip.info.nonzero, 100);
    assert_true(trip.info.scale == 0.7f);
}

CASE_WITH(test_zeros_are_never_taken, seed, NULL)
{
    for (size_t i = 0; i < 100; i++) {
        values[i] = i % 2 ? 0.0f : -0.0f;
    }
    check_density(1000000, 100, "auto");
    assert_same_floats(trip.rest, values, 100);
    values[37] = -0x1p-149f;
    check_density(1000000, 100, "auto");
    assert_int_equal(trip.info.nonzero, 1);
    assert_true(trip.info.scale == 0x1p-149f);
}

CASE_WITH(test_one_outlier, seed, NULL)
{
    const float outliers[] = {1e4f, 1e9f, FLT_MAX, -FLT_MAX};
    for (size_t i = 0; i < sizeof outliers / sizeof outliers[0]; i++) {
        fill_normal(1000);
        values[500] = outliers[i];
        check_density(50000, 1000, "auto");
        assert_int_equal(trip.info.nonzero, 50);
        assert_true(trip.rest[500] != 0);
    }
}

CASE_WITH(test_any_floats, seed, NULL)
{
    for (int round = 0; round < 2000; round++) {
        size_t n = 1 + tern_prng_below(&rng, 60);
        uint32_t highest = 1 + tern_prng_below(&rng, 0x7f7fffffu);
        if (round % 4 == 0) {
            highest = 1 + tern_prng_below(&rng, 0x00800010u); // mostly subnormal
        }
        for (size_t i = 0; i < n; i++) {
            values[i] =
                float_of_bits(tern_prng_below(&rng, highest) | (tern_prng_u32(&rng) & 0x80000000u));
        }
        check_density(1 + tern_prng_below(&rng, 1000000), n, "auto");
    }
}

// The mean is the same whatever the order: it is a sum of whole numbers.
CASE_WITH(test_order_does_not_matter, seed, NULL)
{
    for (int round = 0; round < 50; round++) {
        fill_normal(LARGEST);
        float peak = 0;
        for (size_t i = 0; i < LARGEST; i++) {
            peak = fmaxf(peak, fabsf(values[i]));
        }
        float mean = tern_kernel_mean_above(values, LARGEST, 0x3f800000u, peak).magnitude;
        qsort(values, LARGEST, sizeof *values, descending);
        assert_true(tern_kernel_mean_above(values, LARGEST, 0x3f800000u, peak).magnitude == mean);
    }
}

// Squares that the last encoding left.
static double squares_left(size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)trip.rest[i] * (double)trip.rest[i];
    }
    return sum;
}

// Least squares that plus or minus one scale can leave of `values`, whichever are taken; *all: of all.
static double least_squares(size_t n, double *all)
{
    double sum = 0;
    double most = 0;
    *all = 0;
    for (size_t i = 0; i < n; i++) {
        magnitudes[i] = fabsf(values[i]);
    }
    qsort(magnitudes, n, sizeof *magnitudes, descending);
    for (size_t i = 0; i < n; i++) {
        *all += (double)magnitudes[i] * (double)magnitudes[i];
        sum += (double)magnitudes[i];
        most = fmax(most, sum * sum / (double)(i + 1));
    }
    return *all - most;
}

// From a normal distribution to one of which few values are nearly all, the fit leaves about the
// least that can be left, at a share of its own.
CASE_WITH(test_a_fit_leaves_the_least, seed, NULL)
{
    for (int power = 1; power <= 7; power += 2) {
        fill_normal(LARGEST);
        for (size_t i = 0; i < LARGEST; i++) {
            values[i] = powf(values[i], (float)power);
        }
        double all = 0;
        const double least = least_squares(LARGEST, &all);
        round_trip("density:p=1,fit=yes,coder=range", NULL, values, LARGEST);
        assert_true(squares_left(LARGEST) < least + 0.01 * all);
        const uint64_t fitted = trip.info.nonzero;
        assert_true(power == 1 ? fitted > LARGEST / 2 : fitted < LARGEST / 4);
        round_trip("density:p=0.5,coder=range", NULL, values, LARGEST);
        assert_true(power == 1 || squares_left(LARGEST) > least + 0.04 * all);
        // p stays the most that is sent.
        round_trip("density:p=0.001,fit=yes,coder=range", NULL, values, LARGEST);
        assert_int_equal(trip.info.nonzero, LARGEST / 1000);
    }
}

enum { SAMPLE = 4096 }; // of select.c

// Values of the kinds that a sample sees well or badly.
static float value_of_kind(int kind, size_t i, size_t n)
{
    switch (kind) {
    case 0:
        return normal_float(&rng);
    case 1:
        return (float)i; // ascending
    case 2:
        return (float)(n - i); // descending
    case 3:
        return i % 8 == 0 ? 1.0f : 2.0f; // few different ones, in step with the sample
    case 4:
        return i * 50 < n ? normal_float(&rng) : 0; // zeros for the most part
    case 5:
        return any_float(&rng);
    case 6: // the sample is of large ones only
        return tern_prng_float(&rng) + (i % (n / SAMPLE) == 0 ? 8 : 1);
    case 7: // or of small ones
        return tern_prng_float(&rng) + (i % (n / SAMPLE) == 0 ? 1 : 8);
    default:
        return 1; // all equal
    }
}

// The sample is a short cut: it changes nothing, whatever the room for it.
CASE_WITH(test_a_sample_changes_nothing, seed, NULL)
{
    enum { MANY = 150000, KINDS = 9 };
    float *many = malloc(MANY * sizeof *many);
    float *scratch = malloc(MANY * sizeof *scratch);
    for (int round = 0; round < 8 * KINDS; round++) {
        size_t n = round < KINDS ? MANY : 16000 + tern_prng_below(&rng, MANY - 16000);
        for (size_t i = 0; i < n; i++) {
            many[i] = value_of_kind(round % KINDS, i, n);
        }
        size_t k = 1 + tern_prng_below(&rng, (uint32_t)(round % 2 ? n : n / 20));
        size_t room = round % 3 == 0 ? tern_prng_below(&rng, (uint32_t)n) : n / 20;
        struct tern_selection plain = tern_kernel_select(many, n, k);
        size_t len = sizeof *scratch * room;
        uint8_t *exact = (uint8_t *)(scratch + MANY) - len; // ends where the allocation does
        size_t skip = len > 0 ? (size_t)round % 4 : 0;      // and begins anywhere
        struct tern_selection sampled = tern_kernel_select_in(many, n, k, exact + skip, len - skip);
        assert_int_equal(sampled.bits, plain.bits);
        assert_int_equal(sampled.ties, plain.ties);
        assert_int_equal(sampled.selected, plain.selected);
    }
    free(scratch);
    free(many);
}

CASE_WITH(test_specs, seed, NULL)
{
    static const struct {
        const char *spec;
        const char *canonical;
    } good[] = {
        {"density", "density:p=0.05"},
        {"density:p=1", "density:p=1"},
        {"density:p=0.000001", "density:p=0.000001"},
        {"density:coder=gaps", "density:p=0.05,coder=gaps"},
        {"density:coder=auto,p=0.010", "density:p=0.01"},
        {"3lc:coder=packed", "3lc:s=1,coder=packed"},
        {"3lc:s=1.5,coder=zero-run", "3lc:s=1.5"},
    };
    struct tern_codec codec;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char spec[TERN_CODEC_SPEC_MAX];
        codec = codec_of(good[i].spec);
        tern_codec_format(&codec, spec);
        assert_string_equal(spec, good[i].canonical);
    }
    static const char *const bad[] = {"density:p=0", "density:p=1.000001", "density:p=0.0000001",
                                      "density:s=1", "density:coder=elias"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(tern_codec_parse(bad[i], &codec, NULL), TERN_ERR_ARGUMENT);
    }
}
