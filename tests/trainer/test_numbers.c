// Models that tell numbers or find anomalies: which data they take, what they train on, and that they learn.
#include "tests/cases.h"
#include "trainer/support.h"
#include <stdlib.h>
#include <string.h>

static enum tern_result fits(const char *spec, const struct tern_dataset *data)
{
    static struct tern_model model;
    struct tern_builtin_trainer trainer;
    assert_int_equal(tern_model_from_spec(&model, spec), TERN_OK);
    const struct tern_builtin_config config = {
        .model = &model, .train = tern_view_all(data), .max_batch = 4};
    return tern_builtin_trainer_init(&trainer, &config, NULL, 0);
}

CASE(a_loss_takes_the_data_that_it_compares_with)
{
    struct tern_dataset data = random_images(6, 3, 4, 1, 1);
    const enum tern_result good = TERN_ERR_NO_SPACE; // all but the memory was right
    assert_int_equal(fits("mlp:12-5-2", &data), good);
    assert_int_equal(fits("mlp:12-5-12,loss=reconstruction", &data), good);
    assert_int_equal(fits("mlp:12-5-1,loss=mse", &data), TERN_ERR_MODEL_MISMATCH);
    assert_int_equal(fits("linear:12-1,loss=mae", &data), TERN_ERR_MODEL_MISMATCH);
    add_targets(&data);
    assert_int_equal(fits("mlp:12-5-1,loss=mse", &data), good);
    assert_int_equal(fits("linear:12-1,loss=mae", &data), good);
    assert_int_equal(fits("mlp:12-5-2", &data), TERN_ERR_MODEL_MISMATCH);
    assert_int_equal(fits("mlp:12-5-12,loss=reconstruction", &data), TERN_ERR_MODEL_MISMATCH);
    free_images(&data);
}

CASE(nothing_is_written_past_the_bound)
{
    struct setup setup; // asan looks on
    struct tern_evaluate_result found;
    struct tern_train_result result;
    struct tern_dataset data = random_images(31, 3, 4, 1, 2);
    const struct tern_train_task task = {.local_steps = 5, .batch_size = 7, .learning_rate = 0.01f};
    setup_make(&setup, "mlp:12-5-12,loss=reconstruction", tern_view_all(&data),
               tern_view_all(&data), 4);
    const float *trained = setup_train(&setup, &task, setup.base, &result);
    assert_int_equal(setup.trainer.evaluate(setup.trainer.ctx, trained, setup.model.count, &found),
                     TERN_OK);
    setup_free(&setup);
    free_images(&data);
}

// Anomalies are no part of what is trained on: whatever they are, the result is the same.
CASE(an_autoencoder_trains_on_what_is_normal)
{
    struct tern_dataset data = random_images(40, 3, 4, 1, 3);
    uint8_t *bytes = (uint8_t *)(uintptr_t)data.bytes;
    uint32_t normal = 0;
    float kept[1024];
    const struct tern_train_task task = {
        .local_steps = 9, .batch_size = 8, .learning_rate = 0.05f, .seed = 3};
    for (uint32_t i = 0; i < data.count; i++) {
        normal += data.labels[i] == 0;
    }
    assert_in_range(normal, 5, 35);
    for (int run = 0; run < 2; run++) {
        struct setup setup;
        struct tern_train_result result;
        setup_make(&setup, "mlp:12-5-12,loss=reconstruction", tern_view_all(&data),
                   (struct tern_view){0}, 4);
        const float *trained = setup_train(&setup, &task, setup.base, &result);
        assert_int_equal(result.num_examples, normal);
        if (run == 0) {
            memcpy(kept, trained, setup.model.count * sizeof *kept);
        }
        assert_memory_equal(kept, trained, setup.model.count * sizeof *kept);
        setup_free(&setup);
        for (uint32_t i = 0; i < data.count; i++) {
            if (data.labels[i] != 0) {
                memset(bytes + (size_t)i * data.feature_count, 255, data.feature_count);
            }
        }
    }
    free_images(&data);
}

CASE(anomalies_alone_are_no_data)
{
    struct setup setup;
    struct tern_dataset data = random_images(5, 3, 4, 1, 1);
    for (uint32_t i = 0; i < data.count; i++) {
        ((uint16_t *)(uintptr_t)data.labels)[i] = 1;
    }
    const struct tern_train_task task = {.local_steps = 1, .batch_size = 8};
    setup_make(&setup, "mlp:12-5-12,loss=reconstruction", tern_view_all(&data),
               (struct tern_view){0}, 4);
    assert_int_equal(setup.trainer.begin(setup.trainer.ctx, &task, setup.base, setup.model.count),
                     TERN_ERR_NOT_FOUND);
    setup_free(&setup);
    free_images(&data);
}

// Where every anomaly is the same as a normal example, guessing is as good.
CASE(ties_are_half_right)
{
    struct setup setup;
    struct tern_evaluate_result found;
    struct tern_dataset data = random_images(40, 3, 4, 1, 1);
    uint8_t *bytes = (uint8_t *)(uintptr_t)data.bytes;
    memcpy(bytes + (size_t)20 * data.feature_count, bytes, (size_t)20 * data.feature_count);
    for (uint32_t i = 20; i < 40; i++) {
        ((uint16_t *)(uintptr_t)data.labels)[i] = 1;
    }
    setup_make(&setup, "mlp:12-5-12,loss=reconstruction", tern_view_all(&data),
               tern_view_all(&data), 7);
    assert_int_equal(
        setup.trainer.evaluate(setup.trainer.ctx, setup.base, setup.model.count, &found), TERN_OK);
    assert_string_equal(found.metrics[0].name, "auc");
    assert_true(found.metrics[0].value == 0.5f);
    setup_free(&setup);
    free_images(&data);
}

// Specs that say two things, or one thing twice, are none.
CASE(specs_name_one_loss)
{
    static struct tern_model model;
    static const char *const good[] = {"linear:3-1,loss=mse", "mlp:3-2-1,loss=mae",
                                       "cnn:6x6x1-2-3-1,loss=mse", "mlp:3-2-3,loss=reconstruction"};
    static const char *const bad[] = {
        "mlp:3-2-1,loss=cross-entropy", "mlp:3-2-2,loss=mse",    "mlp:3-2-2,loss=reconstruction",
        "mlp:3-2-1,loss=MSE",           "mlp:3-2-1,loss=",       "mlp:3-2-1,",
        "mlp:3-2-1,loss=mse,loss=mse",  "softmax:3-1,loss=mse",  "linear:3-1",
        "mlp:3-2-1,task=mse",           "linear:3-2-1,loss=mse", "mlp:3-2-1 ,loss=mse"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(tern_model_from_spec(&model, good[i]), TERN_OK);
        assert_int_not_equal(model.loss, TERN_LOSS_CROSS_ENTROPY);
        assert_int_equal(model.loss, tern_model_spec_loss(good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(tern_model_from_spec(&model, bad[i]), TERN_ERR_ARGUMENT);
    }
    assert_int_equal(tern_model_spec_loss("tensors:0123,loss=mae"), TERN_LOSS_MAE);
    assert_int_equal(tern_model_spec_inputs("cnn:6x6x1-2-3-1,loss=mse"), 36);
    assert_int_equal(tern_model_spec_columns("cnn:6x6x1-2-3-1,loss=mse"), 37);
    assert_int_equal(tern_model_spec_columns("linear:6-1,loss=mae"), 7);
    assert_int_equal(tern_model_spec_columns("mlp:6-2-6,loss=reconstruction"), 6);
    assert_int_equal(tern_model_spec_columns("softmax:6-3"), 6);
    assert_int_equal(tern_model_spec_inputs("tensors:9f0123456789abcd"), 0);
    assert_int_equal(tern_model_spec_columns("tensors:9f0123456789abcd,loss=mse"), 0);
    // What a model is of does not depend on what came before.
    assert_int_equal(tern_model_from_spec(&model, "mlp:3-2-1"), TERN_OK);
    assert_int_equal(model.loss, TERN_LOSS_CROSS_ENTROPY);
}
