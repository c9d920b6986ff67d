#include "lgc/world.h"

#include "util/math.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum tern_result use_share(struct tern_lgc_world *world, uint32_t client)
{
    const struct tern_builtin_config config = {
        .model = &world->model,
        .train = tern_partition_view(&world->partition, &world->data.train, client),
        .test = tern_view_all(&world->data.test),
        .max_batch = world->settings.batch_size,
    };
    return tern_builtin_trainer_init(&world->trainer, &config, world->arena, world->arena_size);
}

static enum tern_result place_trainer(struct tern_lgc_world *world)
{
    for (uint32_t i = 0; i < world->settings.clients; i++) {
        const struct tern_builtin_config config = {
            .model = &world->model,
            .train = tern_partition_view(&world->partition, &world->data.train, i),
            .test = tern_view_all(&world->data.test),
            .max_batch = world->settings.batch_size,
        };
        const size_t bound = tern_builtin_trainer_bound(&config);
        world->arena_size = bound > world->arena_size ? bound : world->arena_size;
        if (bound == 0) {
            return TERN_ERR_MODEL_MISMATCH;
        }
    }
    // Aligned, as vectors of the trainer are relative to the start of its memory.
    world->arena_size += TERN_ARENA_ALIGNMENT - world->arena_size % TERN_ARENA_ALIGNMENT;
    world->arena = aligned_alloc(TERN_ARENA_ALIGNMENT, world->arena_size);
    return world->arena != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
}

static enum tern_result open_data(struct tern_lgc_world *world, char why[TERN_DATA_WHY_MAX])
{
    const struct tern_lgc_world_settings *settings = &world->settings;
    const struct tern_partition_config partition = {.kind = settings->partition,
                                                    .clients = settings->clients,
                                                    .min_examples = 1,
                                                    .alpha = settings->alpha,
                                                    .seed = settings->seed};
    char partition_why[TERN_PARTITION_WHY_MAX] = "";
    TERN_TRY(tern_dataset_open(settings->data, NULL, &world->data, why));
    const enum tern_result result =
        tern_partition_make(&partition, &world->data.train, &world->partition, partition_why);
    if (result != TERN_OK) {
        snprintf(why, TERN_DATA_WHY_MAX, "partition: %s", partition_why);
    }
    return result;
}

enum tern_result tern_lgc_world_open(const struct tern_lgc_world_settings *settings,
                                     struct tern_lgc_world *world, char why[TERN_DATA_WHY_MAX])
{
    *world = (struct tern_lgc_world){.settings = *settings};
    enum tern_result result = tern_model_from_spec(&world->model, settings->model);
    if (result != TERN_OK) {
        snprintf(why, TERN_DATA_WHY_MAX, "model '%s' is no built-in model", settings->model);
        return result;
    }
    result = open_data(world, why);
    if (result == TERN_OK) {
        result = place_trainer(world);
        snprintf(why, TERN_DATA_WHY_MAX, "the trainer does not take this model with these data: %s",
                 tern_result_sentence(result));
    }
    if (result != TERN_OK) {
        tern_lgc_world_close(world);
    }
    return result;
}

void tern_lgc_world_close(struct tern_lgc_world *world)
{
    tern_partition_free(&world->partition);
    tern_data_close(&world->data);
    free(world->arena);
    world->arena = NULL;
}

// A cosine from the first rate to the last, which it reaches one round after the end.
static float rate_of(const struct tern_lgc_world_settings *settings, uint32_t round)
{
    if (settings->rounds < 2) {
        return settings->learning_rate;
    }
    const float turns = 0.5f * (float)(round - 1) / (float)settings->rounds;
    return settings->rate_final +
           (settings->learning_rate - settings->rate_final) * 0.5f * (1 + tern_cos_turns(turns));
}

enum tern_result tern_lgc_world_train(void *ctx, uint32_t client, uint32_t round,
                                      const float *weights, float *change)
{
    struct tern_lgc_world *world = ctx;
    const struct tern_train_task task = {
        .round = round,
        .local_steps = 1,
        .batch_size = world->settings.batch_size,
        .learning_rate = rate_of(&world->settings, round),
        .seed = world->settings.seed,
        .client = client,
    };
    TERN_TRY(use_share(world, client));
    const struct tern_trainer port = tern_builtin_trainer_port(&world->trainer);
    struct tern_train_result done;
    float *trained = NULL;
    TERN_TRY(port.begin(port.ctx, &task, weights, world->model.count));
    TERN_TRY(port.step(port.ctx, &trained, &done));
    for (uint32_t i = 0; i < world->model.count; i++) {
        change[i] = trained[i] - weights[i];
    }
    return TERN_OK;
}

enum tern_result tern_lgc_world_evaluate(struct tern_lgc_world *world, const float *weights,
                                         struct tern_evaluate_result *result)
{
    enum tern_result told = TERN_AGAIN;
    TERN_TRY(use_share(world, 0));
    const struct tern_trainer port = tern_builtin_trainer_port(&world->trainer);
    while (told == TERN_AGAIN) {
        told = port.evaluate(port.ctx, weights, world->model.count, result);
    }
    return told;
}
