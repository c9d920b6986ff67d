#include "trainer/support.h"
#include "tests/asserts.h"
#include <stdlib.h>
#include <string.h>

void setup_make(struct setup *setup, const char *spec, struct tern_view train,
                struct tern_view test, uint32_t max_batch)
{
    memset(setup, 0, sizeof *setup);
    assert_int_equal(tern_model_from_spec(&setup->model, spec), TERN_OK);
    struct tern_builtin_config config = {
        .model = &setup->model, .train = train, .test = test, .max_batch = max_batch};
    size_t size = tern_builtin_trainer_bound(&config);
    assert_true(size > 0);
    setup->arena = malloc(size);
    assert_non_null(setup->arena);
    // Whatever the arena holds must not matter.
    memset(setup->arena, 0xFF, size);
    assert_int_equal(tern_builtin_trainer_init(&setup->state, &config, setup->arena, size),
                     TERN_OK);
    setup->trainer = tern_builtin_trainer_port(&setup->state);
    setup->base = malloc(setup->model.count * sizeof *setup->base);
    assert_non_null(setup->base);
    tern_model_init_weights(&setup->model, 7, setup->base);
}

void setup_free(struct setup *setup)
{
    free(setup->arena);
    free(setup->base);
}

const float *setup_train(struct setup *setup, const struct tern_train_task *task, const float *base,
                         struct tern_train_result *result)
{
    const struct tern_trainer *trainer = &setup->trainer;
    float *weights = NULL;
    assert_int_equal(trainer->begin(trainer->ctx, task, base, setup->model.count), TERN_OK);
    for (uint32_t i = 1; i < task->local_steps; i++) {
        assert_int_equal(trainer->step(trainer->ctx, &weights, result), TERN_AGAIN);
    }
    assert_int_equal(trainer->step(trainer->ctx, &weights, result), TERN_OK);
    return weights;
}

struct tern_dataset random_images(uint32_t count, uint32_t height, uint32_t width,
                                  uint32_t channels, uint32_t classes)
{
    uint32_t features = height * width * channels;
    uint8_t *bytes = malloc((size_t)count * features);
    uint16_t *labels = malloc(count * sizeof *labels);
    assert_true(bytes != NULL && labels != NULL);
    struct tern_prng rng;
    tern_prng_init(&rng, 3, TERN_PRNG_TEST, count, features);
    for (size_t i = 0; i < (size_t)count * features; i++) {
        bytes[i] = (uint8_t)tern_prng_below(&rng, 256);
    }
    for (uint32_t i = 0; i < count; i++) {
        labels[i] = (uint16_t)tern_prng_below(&rng, classes);
    }
    return (struct tern_dataset){.count = count,
                                 .feature_count = features,
                                 .class_count = classes,
                                 .height = height,
                                 .width = width,
                                 .channels = channels,
                                 .bytes = bytes,
                                 .labels = labels,
                                 .scale = 1.0f / 255.0f};
}

#if TERN_LOSSES
void add_targets(struct tern_dataset *data)
{
    float *targets = malloc(data->count * sizeof *targets);
    assert_non_null(targets);
    struct tern_prng rng;
    tern_prng_init(&rng, 4, TERN_PRNG_TEST, data->count, data->feature_count);
    for (uint32_t i = 0; i < data->count; i++) {
        targets[i] = 4.0f * tern_prng_float(&rng) - 2.0f;
        ((uint16_t *)(uintptr_t)data->labels)[i] = 0;
    }
    data->targets = targets;
    data->target_deviation = 1.0f;
    data->class_count = 1;
}
#endif

void free_images(struct tern_dataset *data)
{
    free((void *)(uintptr_t)data->bytes);
    free((void *)(uintptr_t)data->labels);
    free((void *)(uintptr_t)tern_dataset_targets(data));
}
