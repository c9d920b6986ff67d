// What one step does to the weights is compared with differences of a slow reference's loss.
#include "tests/cases.h"
#include "trainer/reference.h"
#include "trainer/support.h"
#include <math.h>
#include <stdlib.h>

static void check_on(const char *spec, struct tern_dataset data)
{
    data.offset = -0.4f;
    struct setup setup;
    setup_make(&setup, spec, tern_view_all(&data), tern_view_all(&data), 4);
    struct tern_train_task task = {.local_steps = 1, .batch_size = 100, .learning_rate = 1.0f};
    struct tern_train_result result;
    uint32_t count = setup.model.count;
    double *weights = malloc(count * sizeof *weights);
    assert_non_null(weights);
    // Biases away from zero, so that they count too.
    for (uint32_t i = 0; i < count; i++) {
        setup.base[i] += 0.01f * (float)(i % 7);
        weights[i] = (double)setup.base[i];
    }
    const float *trained = setup_train(&setup, &task, setup.base, &result);
    assert_float_equal(result.loss, (float)reference_loss(&setup.model, weights, &data), 1e-5f);
    const double h = 1e-5;
    for (uint32_t i = 0; i < count; i++) {
        double kept = weights[i];
        weights[i] = kept + h;
        double above = reference_loss(&setup.model, weights, &data);
        weights[i] = kept - h;
        double below = reference_loss(&setup.model, weights, &data);
        weights[i] = kept;
        double expected = (above - below) / (2 * h);
        double actual = (double)setup.base[i] - (double)trained[i];
        if (fabs(actual - expected) > 2e-6 + 1e-4 * fabs(expected)) {
            fail_msg("%s, value %u: gradient %.8f, not %.8f", spec, i, actual, expected);
        }
    }
    free(weights);
    setup_free(&setup);
    free_images(&data);
}

static void check(const char *spec, uint32_t height, uint32_t width, uint32_t channels,
                  uint32_t classes)
{
    check_on(spec, random_images(6, height, width, channels, classes));
}

static void check_targets(const char *spec, uint32_t height, uint32_t width, uint32_t channels)
{
    struct tern_dataset data = random_images(6, height, width, channels, 1);
    add_targets(&data);
    check_on(spec, data);
}

CASE(gradients_of_numbers_are_those_of_the_loss)
{
    check_targets("linear:12-1,loss=mse", 3, 4, 1);
    check_targets("mlp:20-11-1,loss=mse", 4, 5, 1);
    check_targets("mlp:20-9-7-1,loss=mae", 4, 5, 1);
    check_targets("cnn:8x8x1-8-4-1,loss=mse", 8, 8, 1);
    check_targets("cnn:6x5x2-3-9-1,loss=mae", 6, 5, 2);
}

CASE(gradients_of_a_reconstruction_are_those_of_the_loss)
{
    check("mlp:12-5-12,loss=reconstruction", 3, 4, 1, 1);
    check("mlp:20-9-4-9-20,loss=reconstruction", 4, 5, 1, 1);
    check("linear:12-12,loss=reconstruction", 3, 4, 1, 1);
    check("cnn:6x5x2-3-9-60,loss=reconstruction", 6, 5, 2, 1);
}

CASE(softmax_gradients_are_those_of_the_loss)
{
    check("softmax:12-5", 3, 4, 1, 5);
}

CASE(mlp_gradients_are_those_of_the_loss)
{
    check("mlp:20-11-3", 4, 5, 1, 3);
    check("mlp:20-9-17-6-4", 4, 5, 1, 4);
}

CASE(cnn_gradients_are_those_of_the_loss)
{
    check("cnn:8x8x1-8-4-3", 8, 8, 1, 3);
    check("cnn:6x5x2-3-9-4", 6, 5, 2, 4);     // an odd width
    check("cnn:7x11x3-4-2-10", 7, 11, 3, 10); // odd sides before either pooling
}
