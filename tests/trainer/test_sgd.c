#include "tests/cases.h"
#include "trainer/support.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FEATURES 2
#define CLASSES 2
#define VALUES (CLASSES * FEATURES + CLASSES)

static const float table[3][FEATURES] = {{1.0f, 0.5f}, {-0.5f, 2.0f}, {0.25f, -1.0f}};
static const uint16_t table_labels[3] = {0, 1, 1};
static const struct tern_dataset table_data = {.count = 3,
                                               .feature_count = FEATURES,
                                               .class_count = CLASSES,
                                               .height = 1,
                                               .width = FEATURES,
                                               .channels = 1,
                                               .values = &table[0][0],
                                               .labels = table_labels};

// The mean gradient of softmax regression by hand; w = {W[0][0..1], W[1][0..1], b[0..1]}.
static void hand_gradient(const double w[VALUES], double g[VALUES])
{
    memset(g, 0, VALUES * sizeof *g);
    for (int i = 0; i < 3; i++) {
        double x = (double)table[i][0];
        double y = (double)table[i][1];
        double z = (w[2] - w[0]) * x + (w[3] - w[1]) * y + w[5] - w[4];
        double second = 1 / (1 + exp(-z)); // probability of class 1
        double off = (second - (double)table_labels[i]) / 3;
        g[2] += off * x;
        g[3] += off * y;
        g[5] += off;
        g[0] -= off * x;
        g[1] -= off * y;
        g[4] -= off;
    }
}

static void hand_train(const struct tern_train_task *task, const float *base, double w[VALUES])
{
    double v[VALUES] = {0};
    double g[VALUES];
    for (int i = 0; i < VALUES; i++) {
        w[i] = (double)base[i];
    }
    for (uint32_t s = 0; s < task->local_steps; s++) {
        hand_gradient(w, g);
        for (int i = 0; i < VALUES; i++) {
            g[i] += (double)task->weight_decay * w[i];
            g[i] += (double)task->prox_mu * (w[i] - (double)base[i]);
            v[i] = (double)task->momentum * v[i] + g[i];
            w[i] -= (double)task->learning_rate * v[i];
        }
    }
}

static void check_by_hand(struct tern_train_task task)
{
    struct setup setup;
    setup_make(&setup, "softmax:2-2", tern_view_all(&table_data), tern_view_all(&table_data), 2);
    double expected[VALUES];
    struct tern_train_result result;
    task.local_steps = 4;
    task.batch_size = 3;
    task.learning_rate = 0.3f;
    const float *trained = setup_train(&setup, &task, setup.base, &result);
    hand_train(&task, setup.base, expected);
    for (int i = 0; i < VALUES; i++) {
        assert_float_equal(trained[i], (float)expected[i], 2e-6f);
    }
    assert_int_equal(result.num_examples, 3);
    assert_int_equal(result.local_steps, 4);
    setup_free(&setup);
}

CASE(plain_sgd_is_as_by_hand)
{
    check_by_hand((struct tern_train_task){0});
}

CASE(momentum_is_as_by_hand)
{
    check_by_hand((struct tern_train_task){.momentum = 0.9f});
}

CASE(weight_decay_is_as_by_hand)
{
    check_by_hand((struct tern_train_task){.weight_decay = 0.2f});
}

CASE(prox_is_as_by_hand)
{
    check_by_hand((struct tern_train_task){.prox_mu = 0.7f});
    check_by_hand(
        (struct tern_train_task){.prox_mu = 0.7f, .momentum = 0.5f, .weight_decay = 0.1f});
}

CASE(momentum_is_zero_at_the_start_of_a_round)
{
    struct setup setup;
    setup_make(&setup, "softmax:2-2", tern_view_all(&table_data), tern_view_all(&table_data), 3);
    struct tern_train_task task = {
        .local_steps = 3, .batch_size = 3, .learning_rate = 0.1f, .momentum = 0.9f};
    struct tern_train_result result;
    float first[VALUES];
    memcpy(first, setup_train(&setup, &task, setup.base, &result), sizeof first);
    const float *second = setup_train(&setup, &task, setup.base, &result);
    assert_memory_equal(first, second, sizeof first);
    setup_free(&setup);
}

// One example per feature, so the columns of W that moved tell which examples were drawn.
#define EXAMPLES 10

static float one_hot[EXAMPLES][EXAMPLES];
static const uint16_t zero_labels[EXAMPLES];

static struct tern_dataset one_hot_data(void)
{
    for (int i = 0; i < EXAMPLES; i++) {
        one_hot[i][i] = 1.0f;
    }
    return (struct tern_dataset){.count = EXAMPLES,
                                 .feature_count = EXAMPLES,
                                 .class_count = 2,
                                 .height = 1,
                                 .width = EXAMPLES,
                                 .channels = 1,
                                 .values = &one_hot[0][0],
                                 .labels = zero_labels};
}

// A bit for each example that `steps` steps drew.
static unsigned drawn(struct setup *setup, uint32_t steps, uint32_t round, uint32_t client)
{
    struct tern_train_task task = {.local_steps = steps,
                                   .batch_size = 3,
                                   .learning_rate = 0.1f,
                                   .round = round,
                                   .client = client,
                                   .seed = 5};
    struct tern_train_result result;
    const float *trained = setup_train(setup, &task, setup->base, &result);
    unsigned moved = 0;
    for (unsigned i = 0; i < EXAMPLES; i++) {
        moved |= (trained[i] != setup->base[i] ? 1u : 0u) << i;
    }
    return moved;
}

CASE(an_epoch_draws_no_example_twice)
{
    struct tern_dataset data = one_hot_data();
    struct setup setup;
    setup_make(&setup, "softmax:10-2", tern_view_all(&data), tern_view_all(&data), 3);
    bool rounds_differ = false;
    bool clients_differ = false;
    for (uint32_t round = 1; round < 20; round++) {
        unsigned one = drawn(&setup, 1, round, 1);
        assert_int_equal(__builtin_popcount(one), 3);
        assert_int_equal(__builtin_popcount(drawn(&setup, 2, round, 1)), 6);
        assert_int_equal(__builtin_popcount(drawn(&setup, 3, round, 1)), 9);
        assert_int_equal(one, drawn(&setup, 1, round, 1));
        rounds_differ = rounds_differ || one != drawn(&setup, 1, round + 1, 1);
        clients_differ = clients_differ || one != drawn(&setup, 1, round, 2);
    }
    assert_true(rounds_differ && clients_differ);
    // A later epoch draws what the first left out.
    assert_int_equal(drawn(&setup, 60, 1, 1), (1u << EXAMPLES) - 1);
    setup_free(&setup);
}

CASE(only_the_examples_of_the_view_are_drawn)
{
    struct tern_dataset data = one_hot_data();
    const uint32_t shard[] = {1, 4, 5, 9};
    struct tern_view view = {&data, shard, 4};
    struct setup setup;
    setup_make(&setup, "softmax:10-2", view, tern_view_all(&data), 3);
    assert_int_equal(drawn(&setup, 30, 1, 1), 1u << 1 | 1u << 4 | 1u << 5 | 1u << 9);
    setup_free(&setup);
}

// max_batch is about memory: the bits of the result do not know it.
static void check_parts(const char *spec, uint32_t channels)
{
    struct tern_dataset data = random_images(50, 9, 8, channels, 4);
    const uint32_t parts[] = {1, 7, 20, 64};
    struct tern_train_task task = {.local_steps = 5,
                                   .batch_size = 20,
                                   .learning_rate = 0.05f,
                                   .momentum = 0.9f,
                                   .prox_mu = 0.01f};
    float *first = NULL;
    for (size_t i = 0; i < 4; i++) {
        struct setup setup;
        struct tern_train_result result;
        struct tern_evaluate_result score;
        setup_make(&setup, spec, tern_view_all(&data), tern_view_all(&data), parts[i]);
        size_t size = setup.model.count * sizeof(float);
        const float *trained = setup_train(&setup, &task, setup.base, &result);
        first = first == NULL ? calloc(1, size + 2 * sizeof(float)) : first;
        assert_non_null(first);
        assert_int_equal(
            setup.trainer.evaluate(setup.trainer.ctx, trained, setup.model.count, &score), TERN_OK);
        if (i == 0) {
            memcpy(first, trained, size);
            first[setup.model.count] = result.loss;
            first[setup.model.count + 1] = score.loss;
        }
        assert_memory_equal(trained, first, size);
        assert_true(first[setup.model.count] == result.loss);
        assert_true(first[setup.model.count + 1] == score.loss);
        setup_free(&setup);
    }
    free(first);
    free_images(&data);
}

CASE(memory_for_a_batch_does_not_change_the_result)
{
    check_parts("softmax:72-4", 1);
    check_parts("mlp:72-13-4", 1);
    check_parts("cnn:9x8x3-5-8-4", 3);
}

CASE(evaluation_between_steps_changes_nothing)
{
    struct tern_dataset data = random_images(40, 8, 8, 1, 3);
    struct setup setup;
    setup_make(&setup, "cnn:8x8x1-4-4-3", tern_view_all(&data), tern_view_all(&data), 8);
    const struct tern_trainer *trainer = &setup.trainer;
    struct tern_train_task task = {.local_steps = 6, .batch_size = 8, .learning_rate = 0.1f};
    struct tern_train_result result;
    struct tern_evaluate_result score;
    size_t size = setup.model.count * sizeof(float);
    float *expected = malloc(size);
    assert_non_null(expected);
    memcpy(expected, setup_train(&setup, &task, setup.base, &result), size);
    float *weights = NULL;
    uint32_t count = setup.model.count;
    assert_int_equal(trainer->begin(trainer->ctx, &task, setup.base, count), TERN_OK);
    enum tern_result done = TERN_AGAIN;
    for (int steps = 1; done == TERN_AGAIN; steps++) {
        assert_int_equal(trainer->evaluate(trainer->ctx, setup.base, count, &score), TERN_OK);
        done = trainer->step(trainer->ctx, &weights, &result);
        assert_int_equal(done, steps < 6 ? TERN_AGAIN : TERN_OK);
    }
    assert_memory_equal(weights, expected, size);
    free(expected);
    setup_free(&setup);
    free_images(&data);
}

CASE(evaluation_counts_right_answers_and_mean_loss)
{
    struct setup setup;
    setup_make(&setup, "softmax:2-2", tern_view_all(&table_data), tern_view_all(&table_data), 2);
    // Logits {x, 0}: right for examples 0 (x = 1 -> 0) and 1 (x = -0.5 -> 1), wrong for 2.
    const float weights[VALUES] = {1.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    struct tern_evaluate_result score;
    assert_int_equal(setup.trainer.evaluate(setup.trainer.ctx, weights, VALUES, &score), TERN_OK);
    double loss = (log(1 + exp(-1.0)) + log(1 + exp(-0.5)) + log(1 + exp(0.25))) / 3;
    assert_int_equal(score.num_examples, 3);
    assert_float_equal(score.accuracy, 2.0f / 3.0f, 1e-6f);
    assert_float_equal(score.loss, (float)loss, 1e-6f);
    setup_free(&setup);
}

CASE(a_diverging_loss_is_an_error)
{
    struct setup setup;
    setup_make(&setup, "mlp:2-4-2", tern_view_all(&table_data), tern_view_all(&table_data), 3);
    const struct tern_trainer *trainer = &setup.trainer;
    struct tern_train_task task = {
        .local_steps = 1000, .batch_size = 3, .learning_rate = 1e25f, .weight_decay = 1.0f};
    struct tern_train_result result;
    float *weights = NULL;
    uint32_t count = setup.model.count;
    assert_int_equal(trainer->begin(trainer->ctx, &task, setup.base, count), TERN_OK);
    enum tern_result done = TERN_AGAIN;
    while (done == TERN_AGAIN) {
        done = trainer->step(trainer->ctx, &weights, &result);
    }
    assert_int_equal(done, TERN_ERR_NON_FINITE);
    assert_int_equal(trainer->step(trainer->ctx, &weights, &result), TERN_ERR_STATE);
    // A NaN in the weights must not vanish in a relu.
    setup.base[1] = NAN;
    task.learning_rate = 0.1f;
    assert_int_equal(trainer->begin(trainer->ctx, &task, setup.base, count), TERN_OK);
    assert_int_equal(trainer->step(trainer->ctx, &weights, &result), TERN_ERR_NON_FINITE);
    setup_free(&setup);
}

CASE(wrong_tasks_are_refused)
{
    struct setup setup;
    setup_make(&setup, "softmax:2-2", tern_view_all(&table_data), (struct tern_view){0}, 3);
    const struct tern_trainer *trainer = &setup.trainer;
    const struct tern_train_task good = {.local_steps = 1, .batch_size = 1, .learning_rate = 0.1f};
    struct tern_train_task bad[7];
    for (size_t i = 0; i < 7; i++) {
        bad[i] = good;
    }
    bad[0].local_steps = 0;
    bad[1].batch_size = 0;
    bad[2].learning_rate = -1.0f;
    bad[3].learning_rate = NAN;
    bad[4].momentum = 1.0f;
    bad[5].weight_decay = INFINITY;
    bad[6].prox_mu = -0.1f;
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(trainer->begin(trainer->ctx, &bad[i], setup.base, VALUES),
                         TERN_ERR_ARGUMENT);
    }
    assert_int_equal(trainer->begin(trainer->ctx, &good, setup.base, VALUES - 1),
                     TERN_ERR_MODEL_MISMATCH);
    struct tern_evaluate_result score;
    assert_int_equal(trainer->evaluate(trainer->ctx, setup.base, VALUES, &score),
                     TERN_ERR_NOT_FOUND);
    setup_free(&setup);
    setup_make(&setup, "softmax:2-2", (struct tern_view){0}, tern_view_all(&table_data), 3);
    assert_int_equal(setup.trainer.begin(setup.trainer.ctx, &good, setup.base, VALUES),
                     TERN_ERR_NOT_FOUND);
    setup_free(&setup);
}

static enum tern_result init_result(const char *spec, const struct tern_dataset *data,
                                    uint32_t max_batch, size_t arena_size)
{
    struct tern_model model = {0};
    static uint8_t arena[1 << 16];
    struct tern_builtin_trainer trainer;
    assert_int_equal(tern_model_from_spec(&model, spec), TERN_OK);
    struct tern_builtin_config config = {
        .model = &model, .train = tern_view_all(data), .max_batch = max_batch};
    return tern_builtin_trainer_init(&trainer, &config, arena, arena_size);
}

CASE(models_that_do_not_fit_the_data_are_refused)
{
    struct tern_dataset image = random_images(4, 8, 8, 1, 3);
    const size_t room = 1 << 16;
    assert_int_equal(init_result("softmax:64-3", &image, 2, room), TERN_OK);
    assert_int_equal(init_result("softmax:64-2", &image, 2, room), TERN_ERR_MODEL_MISMATCH);
    assert_int_equal(init_result("softmax:63-3", &image, 2, room), TERN_ERR_MODEL_MISMATCH);
    assert_int_equal(init_result("cnn:8x8x1-2-2-3", &image, 2, room), TERN_OK);
    assert_int_equal(init_result("cnn:8x8x2-2-2-3", &image, 2, room), TERN_ERR_MODEL_MISMATCH);
    assert_int_equal(init_result("cnn:4x16x1-2-2-3", &image, 2, room), TERN_OK);
    assert_int_equal(init_result("cnn:16x8x1-2-2-3", &image, 2, room), TERN_ERR_MODEL_MISMATCH);
    assert_int_equal(init_result("softmax:64-3", &image, 0, room), TERN_ERR_ARGUMENT);
    assert_int_equal(init_result("softmax:64-3", &image, 2, 100), TERN_ERR_NO_SPACE);
    free_images(&image);
}

// As a caller meets it that takes its memory by a bound of 0.
CASE(what_is_wrong_with_a_config_is_said_without_an_arena)
{
    struct tern_dataset image = random_images(4, 8, 8, 1, 3);
    struct tern_model model = {0};
    struct tern_builtin_trainer trainer;
    struct tern_builtin_config config = {.model = &model, .max_batch = 2};
    assert_int_equal(tern_model_from_spec(&model, "softmax:64-3"), TERN_OK);
    assert_int_equal(tern_builtin_trainer_bound(&config), 0);
    assert_int_equal(tern_builtin_trainer_init(&trainer, &config, NULL, 0), TERN_ERR_ARGUMENT);
    config.test = tern_view_all(&image);
    assert_int_equal(tern_builtin_trainer_init(&trainer, &config, NULL, 0), TERN_ERR_NO_SPACE);
    config.max_batch = 0;
    assert_int_equal(tern_builtin_trainer_init(&trainer, &config, NULL, 0), TERN_ERR_ARGUMENT);
    config.max_batch = 2;
    assert_int_equal(tern_model_from_spec(&model, "softmax:63-3"), TERN_OK);
    assert_int_equal(tern_builtin_trainer_init(&trainer, &config, NULL, 0),
                     TERN_ERR_MODEL_MISMATCH);
    free_images(&image);
}

// ASan sees a write past the bound; without it, this sees one that reaches the guard.
CASE(nothing_is_written_past_the_bound)
{
    struct tern_dataset data = random_images(30, 10, 7, 2, 5);
    struct tern_model model = {0};
    assert_int_equal(tern_model_from_spec(&model, "cnn:10x7x2-6-3-5"), TERN_OK);
    struct tern_builtin_config config = {.model = &model,
                                         .train = tern_view_all(&data),
                                         .test = tern_view_all(&data),
                                         .max_batch = 9};
    size_t bound = tern_builtin_trainer_bound(&config);
    uint8_t *arena = malloc(bound + 65);
    float *base = calloc(model.count, sizeof *base);
    assert_true(arena != NULL && base != NULL);
    for (size_t shift = 0; shift < 64; shift += 21) {
        struct tern_builtin_trainer state_of;
        memset(arena, 0x5A, bound + 65);
        assert_int_equal(tern_builtin_trainer_init(&state_of, &config, arena + shift, bound),
                         TERN_OK);
        struct tern_trainer trainer = tern_builtin_trainer_port(&state_of);
        struct tern_train_task task = {.local_steps = 1, .batch_size = 30, .learning_rate = 0.1f};
        struct tern_train_result result;
        float *weights;
        assert_int_equal(trainer.begin(trainer.ctx, &task, base, model.count), TERN_OK);
        assert_int_equal(trainer.step(trainer.ctx, &weights, &result), TERN_OK);
        for (size_t i = shift + bound; i < bound + 65; i++) {
            assert_int_equal(arena[i], 0x5A);
        }
    }
    free(base);
    free(arena);
    free_images(&data);
}

// This digest was computed once; every machine, compiler and vector width must give it.
CASE(bits_are_the_same_everywhere)
{
    struct tern_dataset data = random_images(64, 12, 12, 1, 10);
    struct setup setup;
    setup_make(&setup, "cnn:12x12x1-8-16-10", tern_view_all(&data), tern_view_all(&data), 16);
    struct tern_train_task task = {
        .local_steps = 30, .batch_size = 16, .learning_rate = 0.05f, .momentum = 0.9f};
    struct tern_train_result result;
    const float *trained = setup_train(&setup, &task, setup.base, &result);
    uint32_t digest = 0;
    for (uint32_t i = 0; i < setup.model.count; i++) {
        uint32_t bits;
        memcpy(&bits, &trained[i], sizeof bits);
        digest = digest * 31 + bits;
    }
    assert_int_equal(digest, 0x219ee3a4u);
    setup_free(&setup);
    free_images(&data);
}
