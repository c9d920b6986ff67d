// The share that tern_fit_share() computes, compared with what the codec density leaves with it.
#include "downloads/fit.h"

#include "codec/container.h"
#include "tests/cases.h"
#include "util/prng.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST 64

static struct tern_model model;
static float *difference;
static float *left_over;
static uint8_t *container;
static struct tern_prng rng;

static int setup(void **state)
{
    (void)state;
    memset(&model, 0, sizeof model);
    assert_int_equal(tern_model_from_spec(&model, "mlp:64-128-100-10"), TERN_OK);
    assert_true(model.segment_count > 2);
    difference = malloc(model.count * sizeof(float));
    left_over = malloc(model.count * sizeof(float));
    container = malloc(8 * (size_t)model.count);
    tern_prng_init(&rng, 3, TERN_PRNG_TEST, 0, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(difference);
    free(left_over);
    free(container);
    return 0;
}

// Values whose magnitudes are (1 - u)^-tail - 1 for u uniform: the larger the tail, the fewer values have most of the norm.
// Each segment has another unit.
static void draw(double tail)
{
    for (uint32_t i = 0; i < model.segment_count; i++) {
        const struct tern_segment *segment = &model.segments[i];
        const double unit = pow(3.0, (double)i);
        for (uint32_t j = 0; j < segment->count; j++) {
            const double u = (double)tern_prng_float(&rng);
            const double magnitude = unit * (pow(1.0 - 0.999 * u, -tail) - 1.0);
            difference[segment->offset + j] =
                (float)(tern_prng_float(&rng) < 0.5F ? magnitude : -magnitude);
        }
    }
}

static double squares(const float *values)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < model.count; i++) {
        sum += (double)values[i] * (double)values[i];
    }
    return sum;
}

// The squared norm that the codec leaves with this share.
static double left_by(double share)
{
    char spec[TERN_CODEC_SPEC_MAX];
    struct tern_codec codec;
    size_t len = 0;
    snprintf(spec, sizeof spec, "density:p=%.6f,least=%d,coder=range", share, LEAST);
    assert_int_equal(tern_codec_parse(spec, &codec, NULL), TERN_OK);
    memcpy(left_over, difference, model.count * sizeof(float));
    assert_int_equal(tern_container_encode(&codec, NULL, &model, left_over, container,
                                           8 * (size_t)model.count, &len),
                     TERN_OK);
    return squares(left_over);
}

// The least that any share leaves: beyond some share a mean is the poorer for the small values in it.
static double least_left(void)
{
    double least = squares(difference);
    for (double share = 1.0; share > 0.01; share /= 1.02) {
        const double left = left_by(share);
        least = left < least ? left : least;
    }
    return least;
}

// The share leaves no more than was asked for, but for half a percent, and 1.1 times less of it would leave more.
static void expect_just_enough(double part)
{
    const double left = part * squares(difference);
    struct tern_fit fit;
    assert_int_equal(tern_fit_share(&model, difference, left, LEAST, &fit), TERN_OK);
    const double share = (double)fit.share / 1e6;
    assert_true(share > 0.0);
    assert_true(left_by(share) <= 1.005 * left);
    assert_true(share <= 0.0005 || left_by(share / 1.1) > left);
}

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_a_share_leaves_just_what_is_asked_for)
{
    static const double tails[] = {0.2, 0.35, 0.5, 0.8};
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        draw(tails[i]);
        const double least = 1.01 * least_left() / squares(difference);
        for (double part = 0.95; part > least; part -= 0.05) {
            expect_just_enough(part);
        }
    }
}

TEST(test_what_no_share_leaves_has_none)
{
    struct tern_fit fit;
    draw(0.35);
    const double least = least_left();
    assert_int_equal(tern_fit_share(&model, difference, 0.98 * least, LEAST, &fit), TERN_OK);
    assert_int_equal(fit.share, 0);
    assert_true(left_by((double)fit.best / 1e6) < 1.01 * least);
    assert_int_equal(tern_fit_share(&model, difference, 0.0, LEAST, &fit), TERN_OK);
    assert_int_equal(fit.share, 0);
    // A difference of zeros has no residual, whatever is sent.
    memset(difference, 0, model.count * sizeof(float));
    assert_int_equal(tern_fit_share(&model, difference, 0.0, LEAST, &fit), TERN_OK);
    assert_true(fit.share > 0);
}
