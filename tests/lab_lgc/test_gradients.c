// Losses and what one step does to the weights are compared with those of a plain autoencoder in double: the
// gradient with differences of its losses, for every weight of every layer.
#include "lab_lgc/plain_autoencoder.h"
#include "shared/check.h"
#include "tests/cases.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static float weights[MOST_WEIGHTS], start[MOST_WEIGHTS], velocity[MOST_WEIGHTS];
static double exact[MOST_WEIGHTS];
static struct random_round made;

static double loss_of(const struct tern_autoencoder *autoencoder, float similarity)
{
    const struct plain_losses losses = plain_losses(autoencoder, exact, &made.round);
    return losses.reconstruction + (double)similarity * losses.similarity;
}

static void check(struct tern_autoencoder_settings settings, size_t nodes, size_t length,
                  float similarity)
{
    struct tern_autoencoder autoencoder;
    assert_int_equal(tern_autoencoder_init(&autoencoder, &settings), TERN_OK);
    assert_true(autoencoder.count <= MOST_WEIGHTS);
    make_round(&made, settings.pattern, nodes, length, (uint32_t)length);
    make_weights(&autoencoder, 5, start);
    memcpy(weights, start, sizeof start);
    memset(velocity, 0, sizeof velocity);
    const size_t size = tern_autoencoder_training_workspace(&autoencoder, length, nodes);
    void *workspace = malloc(size);
    assert_non_null(workspace);
    struct tern_autoencoder_losses losses;
    const struct tern_autoencoder_training training = {.learning_rate = 1,
                                                       .similarity = similarity};
    assert_int_equal(tern_autoencoder_train_step(&autoencoder, &training, &made.round, weights,
                                                 velocity, workspace, size, &losses),
                     TERN_OK);
    free(workspace);
    for (uint32_t i = 0; i < autoencoder.count; i++) {
        exact[i] = (double)start[i];
    }
    const struct plain_losses plain = plain_losses(&autoencoder, exact, &made.round);
    assert_true(fabs((double)losses.reconstruction - plain.reconstruction) <
                1e-5 * plain.reconstruction);
    assert_true(fabs((double)losses.similarity - plain.similarity) <= 1e-5 * plain.similarity);
    const double h = 1e-6;
    double largest = 0;
    for (uint32_t i = 0; i < autoencoder.count; i++) {
        exact[i] = (double)start[i] + h;
        const double above = loss_of(&autoencoder, similarity);
        exact[i] = (double)start[i] - h;
        const double below = loss_of(&autoencoder, similarity);
        exact[i] = (double)start[i];
        const double expected = (above - below) / (2 * h);
        const double actual = (double)velocity[i];
        largest = fabs(expected) > largest ? fabs(expected) : largest;
        if (fabs(actual - expected) > 2e-6 + 1e-4 * fabs(expected)) {
            fail_msg("width %u, %zu nodes, %zu values, weight %u of %u: gradient %.8f, not %.8f",
                     settings.width, nodes, length, i, autoencoder.count, actual, expected);
        }
        assert_true(bits_of(weights[i]) == bits_of(start[i] - velocity[i]));
    }
    assert_true(largest > 1e-2); // there was something to compare
}

CASE(a_ring_s_gradients_are_those_of_the_loss)
{
    const enum tern_autoencoder_pattern ring = TERN_AUTOENCODER_RING_ALLREDUCE;
    check((struct tern_autoencoder_settings){ring, 4, 3, 1}, 3, 37, 0);
    check((struct tern_autoencoder_settings){ring, 2, 1, 1}, 1, 16, 0);
    check((struct tern_autoencoder_settings){ring, 6, 4, 1}, 2, 64, 0.5f);
}

CASE(a_parameter_server_s_gradients_are_those_of_the_losses)
{
    const enum tern_autoencoder_pattern server = TERN_AUTOENCODER_PARAMETER_SERVER;
    check((struct tern_autoencoder_settings){server, 4, 3, 1}, 3, 37, 0.5f);
    check((struct tern_autoencoder_settings){server, 2, 4, 3}, 3, 21, 0.5f);
    check((struct tern_autoencoder_settings){server, 4, 2, 1}, 4, 1, 2.0f);
    check((struct tern_autoencoder_settings){server, 2, 2, 1}, 1, 48, 0.5f);
    check((struct tern_autoencoder_settings){server, 4, 2, 2}, 2, 32, 0);
}
