// Steps of SGD: that they learn, and are the same bits everywhere; momentum and clip; what is refused, which changes
// nothing. Gradients are test_gradients.c's.
#include "lab_lgc/plain_autoencoder.h"
#include "shared/check.h"
#include "tests/cases.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RING TERN_AUTOENCODER_RING_ALLREDUCE
#define SERVER TERN_AUTOENCODER_PARAMETER_SERVER

struct setup {
    struct tern_autoencoder autoencoder;
    struct tern_autoencoder_training training;
    struct random_round random;
    struct tern_autoencoder_losses losses;
    float weights[MOST_WEIGHTS];
    float velocity[MOST_WEIGHTS];
    void *workspace;
    size_t size;
};

static void make(struct setup *setup, struct tern_autoencoder_settings settings, size_t nodes,
                 size_t length)
{
    memset(setup, 0, sizeof *setup);
    assert_int_equal(tern_autoencoder_init(&setup->autoencoder, &settings), TERN_OK);
    assert_true(setup->autoencoder.count <= MOST_WEIGHTS);
    tern_autoencoder_init_weights(&setup->autoencoder, 3, setup->weights);
    make_round(&setup->random, settings.pattern, nodes, length, 1);
    setup->training = (struct tern_autoencoder_training){
        .learning_rate = 0.05f, .momentum = 0.9f, .clip = 1, .similarity = 0.5f};
    setup->size = tern_autoencoder_training_workspace(&setup->autoencoder, length, nodes);
    setup->workspace = malloc(setup->size);
    assert_non_null(setup->workspace);
    memset(setup->workspace, 0xFF, setup->size);
}

static enum tern_result step(struct setup *setup)
{
    return tern_autoencoder_train_step(&setup->autoencoder, &setup->training, &setup->random.round,
                                       setup->weights, setup->velocity, setup->workspace,
                                       setup->size, &setup->losses);
}

// A round of its own for each step, of what can be learned: smooth values, one phase and one frequency for all nodes.
static void draw_waves(struct setup *setup, uint32_t number)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 8, TERN_PRNG_TEST, number, 0);
    const float phase = 6.28f * tern_prng_float(&rng);
    const float pace = 0.05f + 0.1f * tern_prng_float(&rng);
    for (size_t k = 0; k < setup->random.round.nodes; k++) {
        for (size_t i = 0; i < setup->random.round.length; i++) {
            setup->random.value[k][i] =
                sinf(phase + pace * (float)i) + 0.1f * (tern_prng_float(&rng) - 0.5f);
            setup->random.innovation[k][i] =
                fabsf(setup->random.value[k][i]) > 0.98f ? setup->random.value[k][i] : 0;
        }
    }
    setup->random.round.common = tern_prng_below(&rng, (uint32_t)setup->random.round.nodes);
}

static float learn(struct tern_autoencoder_settings settings)
{
    static struct setup setup;
    make(&setup, settings, 3, 120);
    for (uint32_t i = 0; i < 400; i++) {
        draw_waves(&setup, i);
        assert_int_equal(step(&setup), TERN_OK);
    }
    float sum = 0; // of the errors of rounds that were not trained on yet
    for (uint32_t i = 400; i < 420; i++) {
        draw_waves(&setup, i);
        assert_int_equal(step(&setup), TERN_OK);
        sum += setup.losses.reconstruction;
    }
    free(setup.workspace);
    return sum / 20;
}

CASE(what_is_smooth_is_learned)
{
    const float ring = learn((struct tern_autoencoder_settings){RING, 8, 4, 1});
    const float shared = learn((struct tern_autoencoder_settings){SERVER, 8, 4, 1});
    const float own = learn((struct tern_autoencoder_settings){SERVER, 8, 4, 3});
    print_message("energy lost: ring %.4f, one decoder %.4f, three %.4f\n", (double)ring,
                  (double)shared, (double)own);
    assert_true(ring < 0.1f && shared < 0.1f && own < 0.1f);
}

CASE(bits_are_the_same_everywhere)
{
    static struct setup setup;
    make(&setup, (struct tern_autoencoder_settings){SERVER, 6, 4, 3}, 3, 250);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(step(&setup), TERN_OK);
    }
    assert_int_equal(checksum_of_floats(setup.weights, setup.autoencoder.count), 0xf42b236fu);
    free(setup.workspace);
    make(&setup, (struct tern_autoencoder_settings){RING, 6, 4, 1}, 4, 250);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(step(&setup), TERN_OK);
    }
    assert_int_equal(checksum_of_floats(setup.weights, setup.autoencoder.count), 0xd2014321u);
    free(setup.workspace);
}

CASE(neither_place_nor_content_of_the_workspace_matters)
{
    static struct setup setup, other;
    make(&setup, (struct tern_autoencoder_settings){SERVER, 4, 3, 3}, 3, 70);
    make(&other, (struct tern_autoencoder_settings){SERVER, 4, 3, 3}, 3, 70);
    free(other.workspace);
    char *odd = malloc(other.size + 5);
    assert_non_null(odd);
    memset(odd, 0x11, other.size + 5);
    other.workspace = odd + 5;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(step(&setup), TERN_OK);
        assert_int_equal(step(&other), TERN_OK);
        assert_same_floats(other.weights, setup.weights, setup.autoencoder.count);
    }
    free(odd);
    free(setup.workspace);
}

CASE(momentum_keeps_a_part_of_the_last_step)
{
    static struct setup setup, plain;
    make(&setup, (struct tern_autoencoder_settings){RING, 4, 3, 1}, 2, 70);
    setup.training.clip = 0;
    assert_int_equal(step(&setup), TERN_OK);
    plain = setup; // from here on without: its velocity is the gradient
    plain.training.momentum = 0;
    const float *before = setup.velocity;
    static float expected[MOST_WEIGHTS];
    assert_int_equal(step(&plain), TERN_OK);
    for (uint32_t i = 0; i < setup.autoencoder.count; i++) {
        expected[i] = 0.9f * before[i] + plain.velocity[i];
    }
    assert_int_equal(step(&setup), TERN_OK);
    assert_same_floats(setup.velocity, expected, setup.autoencoder.count);
    free(setup.workspace);
}

static double norm_of(const float *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)values[i] * (double)values[i];
    }
    return sqrt(sum);
}

CASE(a_long_gradient_is_clipped)
{
    static struct setup setup, clipped;
    make(&setup, (struct tern_autoencoder_settings){RING, 4, 3, 1}, 2, 70);
    clipped = setup;
    setup.training.clip = 0;
    assert_int_equal(step(&setup), TERN_OK);
    const size_t count = setup.autoencoder.count;
    const double norm = norm_of(setup.velocity, count);
    clipped.training.clip = (float)(norm / 4);
    assert_int_equal(step(&clipped), TERN_OK);
    assert_true(fabs(norm_of(clipped.velocity, count) - norm / 4) < 1e-6 * norm);
    for (size_t i = 0; i < count; i++) {
        assert_true(fabs((double)(setup.velocity[i] - 4 * clipped.velocity[i])) < 1e-5 * norm);
    }
    free(setup.workspace);
    make(&clipped, (struct tern_autoencoder_settings){RING, 4, 3, 1}, 2, 70);
    clipped.training.clip = (float)(norm * 2); // longer than it is: left alone
    assert_int_equal(step(&clipped), TERN_OK);
    assert_same_floats(clipped.velocity, setup.velocity, count);
    free(clipped.workspace);
}

// A node without any update is one of zeros, in either pattern.
CASE(a_node_of_zeros_is_trained_on)
{
    static struct setup setup;
    make(&setup, (struct tern_autoencoder_settings){SERVER, 4, 3, 1}, 3, 70);
    memset(setup.random.value[1], 0, sizeof setup.random.value[1]);
    memset(setup.random.innovation[1], 0, sizeof setup.random.innovation[1]);
    assert_int_equal(step(&setup), TERN_OK);
    assert_true(setup.losses.reconstruction > 0);
    free(setup.workspace);
    make(&setup, (struct tern_autoencoder_settings){RING, 4, 3, 1}, 2, 70);
    memset(setup.random.value[setup.random.round.common], 0, sizeof setup.random.value[0]);
    assert_int_equal(step(&setup), TERN_OK);
    assert_true(setup.losses.reconstruction == 0); // all are zeros in its unit
    free(setup.workspace);
}

// step() fails so, and nothing has changed.
static void expect(struct setup *setup, enum tern_result expected)
{
    static struct setup before;
    before = *setup;
    assert_int_equal(step(setup), expected);
    assert_memory_equal(setup->weights, before.weights, sizeof before.weights);
    assert_memory_equal(setup->velocity, before.velocity, sizeof before.velocity);
    assert_memory_equal(&setup->losses, &before.losses, sizeof before.losses);
}

CASE(training_outside_its_range_is_refused)
{
    static struct setup setup;
    make(&setup, (struct tern_autoencoder_settings){SERVER, 4, 3, 3}, 3, 70);
    assert_int_equal(step(&setup), TERN_OK); // a velocity to keep
    const struct tern_autoencoder_training good = setup.training;
    const float bad[] = {-0.1f, NAN, INFINITY};
    for (size_t i = 0; i < 3; i++) {
        float *members[] = {&setup.training.learning_rate, &setup.training.momentum,
                            &setup.training.clip, &setup.training.similarity};
        for (size_t k = 0; k < 4; k++) {
            *members[k] = bad[i];
            expect(&setup, TERN_ERR_ARGUMENT);
            setup.training = good;
        }
    }
    setup.training.momentum = 1;
    expect(&setup, TERN_ERR_ARGUMENT);
    setup.training = good;
    free(setup.workspace);
}

CASE(a_wrong_round_is_refused)
{
    static struct setup setup;
    make(&setup, (struct tern_autoencoder_settings){SERVER, 4, 3, 3}, 3, 70);
    struct tern_autoencoder_round *round = &setup.random.round;
    const struct tern_autoencoder_round good = *round;
    round->nodes = 2; // of three decoders
    round->common = 0;
    expect(&setup, TERN_ERR_ARGUMENT);
    *round = good;
    round->common = 3;
    expect(&setup, TERN_ERR_ARGUMENT);
    *round = good;
    round->innovations = NULL;
    expect(&setup, TERN_ERR_ARGUMENT);
    *round = good;
    round->length = 0;
    expect(&setup, TERN_ERR_ARGUMENT);
    round->length = (size_t)TERN_AUTOENCODER_MAX_LENGTH + 1;
    expect(&setup, TERN_ERR_TOO_LARGE);
    *round = good;
    setup.size--;
    expect(&setup, TERN_ERR_NO_SPACE);
    setup.size++;
    setup.random.value[2][69] = NAN;
    expect(&setup, TERN_ERR_NON_FINITE);
    setup.random.value[2][69] = 0;
    setup.random.innovation[0][0] = INFINITY;
    expect(&setup, TERN_ERR_NON_FINITE);
    setup.random.innovation[0][0] = 0;
    assert_int_equal(step(&setup), TERN_OK);
    free(setup.workspace);
    make(&setup, (struct tern_autoencoder_settings){RING, 4, 3, 1}, 3, 70);
    round->innovations = setup.random.innovations;
    expect(&setup, TERN_ERR_ARGUMENT);
    round->innovations = NULL;
    round->nodes = 0;
    expect(&setup, TERN_ERR_ARGUMENT);
    round->nodes = 3;
    setup.random.value[0][0] = -INFINITY; // not the node whose scale is all nodes'
    expect(&setup, TERN_ERR_NON_FINITE);
    free(setup.workspace);
}

CASE(a_step_that_diverges_changes_nothing)
{
    static struct setup setup;
    make(&setup, (struct tern_autoencoder_settings){RING, 4, 3, 1}, 2, 70);
    setup.training.clip = 0;
    setup.training.learning_rate = 9e29f;
    assert_int_equal(step(&setup), TERN_OK);
    expect(&setup, TERN_ERR_TRAINER); // the loss of such weights is beyond float32
    free(setup.workspace);
    make(&setup, (struct tern_autoencoder_settings){RING, 4, 3, 1}, 2, 70);
    setup.training.learning_rate = 9e29f;
    setup.velocity[7] = -3e38f; // the loss is fine, what the weight would be is not
    expect(&setup, TERN_ERR_TRAINER);
    setup.velocity[7] = 0;
    setup.training.learning_rate = 0.05f;
    setup.weights[setup.autoencoder.count - 1] =
        1e25f; // the last bias: its loss is beyond float32, no gradient is
    expect(&setup, TERN_ERR_TRAINER);
    free(setup.workspace);
}

CASE(a_workspace_grows_by_codes_alone)
{
    struct tern_autoencoder a;
    assert_int_equal(
        tern_autoencoder_init(&a, &(struct tern_autoencoder_settings){SERVER, 8, 4, 1}), TERN_OK);
    const size_t one = tern_autoencoder_training_workspace(&a, 1600, 1);
    const size_t hundred = tern_autoencoder_training_workspace(&a, 1600, 101);
    assert_true(hundred - one >= 100 * 400 * sizeof(float));
    assert_true(hundred - one <= 100 * 401 * sizeof(float) + 128);
    assert_int_equal(tern_autoencoder_training_workspace(&a, 1600, 0), 0);
    assert_int_equal(tern_autoencoder_training_workspace(&a, 0, 1), 0);
    assert_int_equal(tern_autoencoder_training_workspace(&a, 1600, SIZE_MAX / 16), 0);
}
