// Discrete Gaussian samples: their moments and frequencies against the exact probabilities, and what the sampler does without
// random bytes.
#include "secure/gaussian.h"
#include "tests/cases.h"
#include "util/prng.h"
#include <math.h>
#include <string.h>

static struct tern_prng draws;
static uint32_t fills_left;

static enum tern_result fill(void *dst, size_t size)
{
    uint8_t *bytes = dst;
    if (fills_left == 0) {
        return TERN_ERR_IO;
    }
    fills_left--;
    for (size_t i = 0; i < size; i += 4) {
        const uint32_t word = tern_prng_u32(&draws);
        memcpy(bytes + i, &word, 4);
    }
    return TERN_OK;
}

static void start_at(struct tern_gaussian *gaussian, uint64_t variance)
{
    tern_prng_init(&draws, 33, TERN_PRNG_TEST, (uint32_t)variance, 0);
    fills_left = UINT32_MAX;
    tern_gaussian_start(gaussian, variance, fill);
}

CASE(moments_are_those_of_the_distribution)
{
    static const uint64_t variances[] = {1, 2, 9, 1000, 1234567, TERN_GAUSSIAN_VARIANCE_MAX};
    const uint32_t count = 100000;
    for (size_t i = 0; i < sizeof variances / sizeof variances[0]; i++) {
        struct tern_gaussian gaussian;
        const double variance = (double)variances[i];
        double sum = 0;
        double square = 0;
        double fourth = 0;
        start_at(&gaussian, variances[i]);
        for (uint32_t k = 0; k < count; k++) {
            int64_t sample = 0;
            assert_int_equal(tern_gaussian_next(&gaussian, &sample), TERN_OK);
            const double x = (double)sample;
            sum += x;
            square += x * x;
            fourth += x * x * x * x;
        }
        // From a variance of 1 on, that of the discrete distribution differs by less than 1e-6. Limits: 4.5 standard errors.
        assert_true(fabs(sum / count) < 4.5 * sqrt(variance / count));
        assert_true(fabs(square / count / variance - 1) < 4.5 * sqrt(2.0 / count));
        assert_true(fabs(fourth / count / (3 * variance * variance) - 1) <
                    4.5 * sqrt(96.0 / 9 / count));
    }
}

// Pearson's statistic of the values -9 to 9 and of all beyond, for a small variance, where rounding a continuous sample would show.
CASE(frequencies_are_the_exact_probabilities)
{
    enum { LIMIT = 9, BINS = 2 * LIMIT + 2 };
    static const uint64_t variances[] = {1, 2, 3, 12};
    const uint32_t count = 300000;
    for (size_t i = 0; i < sizeof variances / sizeof variances[0]; i++) {
        struct tern_gaussian gaussian;
        uint32_t found[BINS] = {0};
        double whole = 0;
        double beyond = 1;
        double statistic = 0;
        unsigned freedom = 0;
        start_at(&gaussian, variances[i]);
        for (uint32_t k = 0; k < count; k++) {
            int64_t sample = 0;
            assert_int_equal(tern_gaussian_next(&gaussian, &sample), TERN_OK);
            found[sample < -LIMIT || sample > LIMIT ? BINS - 1 : sample + LIMIT]++;
        }
        for (int x = -200; x <= 200; x++) {
            whole += exp(-(double)x * x / (2.0 * (double)variances[i]));
        }
        for (int bin = 0; bin < BINS; bin++) {
            const double x = bin - LIMIT;
            const double probability =
                bin == BINS - 1 ? beyond : exp(-x * x / (2.0 * (double)variances[i])) / whole;
            beyond -= probability;
            if (probability * count > 5) {
                const double expected = probability * count;
                statistic += (found[bin] - expected) * (found[bin] - expected) / expected;
                freedom++;
            } else {
                assert_true(found[bin] < 30);
            }
        }
        assert_true(freedom >= 9);
        assert_true(statistic < freedom + 4.5 * sqrt(2.0 * freedom));
    }
}

CASE(neighbouring_samples_are_not_correlated)
{
    struct tern_gaussian gaussian;
    const uint32_t count = 100000;
    double before = 0;
    double product = 0;
    start_at(&gaussian, 100);
    for (uint32_t k = 0; k < count; k++) {
        int64_t sample = 0;
        assert_int_equal(tern_gaussian_next(&gaussian, &sample), TERN_OK);
        product += before * (double)sample;
        before = (double)sample;
    }
    assert_true(fabs(product / count / 100) < 4.5 / sqrt(count));
}

CASE(samples_stay_within_the_bound)
{
    struct tern_gaussian gaussian;
    const int64_t bound = (int64_t)tern_gaussian_bound(400);
    assert_int_equal(bound, 195); // 9.75 standard deviations of 20
    assert_int_equal(tern_gaussian_bound(0), 0);
    start_at(&gaussian, 400);
    for (uint32_t k = 0; k < 100000; k++) {
        int64_t sample = 0;
        assert_int_equal(tern_gaussian_next(&gaussian, &sample), TERN_OK);
        assert_true(sample <= bound && sample >= -bound);
    }
}

CASE(without_random_bytes_there_is_no_sample)
{
    struct tern_gaussian gaussian;
    int64_t sample = 77;
    start_at(&gaussian, 50);
    fills_left = 1;
    enum tern_result result = TERN_OK;
    for (uint32_t k = 0; k < 64 && result == TERN_OK; k++) { // a sample takes two words or more
        sample = 77;
        result = tern_gaussian_next(&gaussian, &sample);
    }
    assert_int_equal(result, TERN_ERR_IO);
    assert_int_equal(sample, 77);
}

CASE(integer_roots_are_exact)
{
    for (uint64_t root = 1; root < (UINT64_C(1) << 31); root = root * 3 + 1) {
        assert_int_equal(tern_integer_root(root * root), root);
        assert_int_equal(tern_integer_root(root * root - 1), root - 1);
        assert_int_equal(tern_integer_root(root * root + 2 * root), root);
    }
    assert_int_equal(tern_integer_root(0), 0);
}
