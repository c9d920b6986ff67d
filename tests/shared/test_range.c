// The range coder: its size against the entropy of independent values, far below it where density
// varies, and damage.
#include "coder_checks.h"
#include "tests/cases.h"

#include <string.h>

static const struct coder_under_test range = {&tern_range_coder, &tern_ternary_range_mode};

CASE(test_round_trips)
{
    check_round_trips(range);
}

CASE(test_bound)
{
    check_bound(range);
}

CASE(test_damage)
{
    check_damage(range);
}

// Bytes that are not those the encoder would end with, of a tensor without values beside zero.
CASE(test_one_end_is_valid)
{
    size_t accepted = 0;
    uint8_t body[6] = {0, 0, 0x80, 0x3f};
    for (unsigned bytes = 0; bytes < 65536; bytes++) {
        body[4] = (uint8_t)(bytes >> 8);
        body[5] = (uint8_t)bytes;
        float value = 9;
        if (range.mode->check(body, sizeof body, 1) == TERN_OK) {
            range.mode->decode(body, sizeof body, &value, 1);
            assert_true(value == 0 || value == 1 || value == -1);
            accepted++;
        }
    }
    // +1 and -1 are a byte of decisions and a byte with the two bits of gap 0; a zero is gap 1.
    assert_int_equal(accepted, 3);
}

static double ratio_of(struct tern_planes planes)
{
    double ratio = check_round_trip(range, planes) / planes_entropy(planes);
    planes_free(planes);
    return ratio;
}

CASE(test_near_the_entropy)
{
    static const float densities[] = {0.7f, 0.5f, 0.2f, 0.07f, 0.03f, 0.01f, 0.003f, 0.001f};
    struct tern_prng rng;
    tern_prng_init(&rng, 56, TERN_PRNG_TEST, 0, 0);
    for (size_t d = 0; d < sizeof densities / sizeof densities[0]; d++) {
        double ratio = ratio_of(planes_random(&rng, 1000000, densities[d]));
        assert_true(ratio < (densities[d] < 0.005f ? 1.02 : 1.01));
    }
}

// Little is learned, so little is lost while learning.
CASE(test_near_the_entropy_when_small)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 57, TERN_PRNG_TEST, 0, 0);
    assert_true(ratio_of(planes_random(&rng, 100000, 0.2f)) < 1.02);
    assert_true(ratio_of(planes_random(&rng, 100000, 0.01f)) < 1.03);
    double bits = 0, entropy = 0;
    for (int i = 0; i < 100; i++) {
        struct tern_planes planes = planes_random(&rng, 512, 0.2f);
        bits += check_round_trip(range, planes);
        entropy += planes_entropy(planes);
        planes_free(planes);
    }
    assert_true(bits < 1.055 * entropy);
}

// Rows of log-normal scale, density 0.05 overall.
CASE(test_below_the_entropy_where_density_varies)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 58, TERN_PRNG_TEST, 0, 0);
    assert_true(ratio_of(planes_rows(&rng, 1000000, 128, 4.72)) < 0.69);
    assert_true(ratio_of(planes_rows(&rng, 1000000, 512, 4.72)) < 0.65);
    assert_true(ratio_of(planes_rows(&rng, 1000000, 4096, 4.72)) < 0.64);
}

// Signs that come in runs take less than a bit.
CASE(test_signs_that_agree)
{
    struct tern_planes planes = planes_new(100000);
    for (size_t i = 0; i < planes.count; i += 4) {
        planes_set(planes, i, i / 4000 % 2 != 0);
    }
    assert_true(check_round_trip(range, planes) < 0.3 * (double)planes.count / 4);
    planes_free(planes);
}

CASE(test_empty_stretches_cost_next_to_nothing)
{
    struct tern_planes planes = planes_new(5000000);
    planes_set(planes, 10, false);
    planes_set(planes, 4000000, true);
    assert_true(check_round_trip(range, planes) <= 8 * 20);
    planes_free(planes);
}
