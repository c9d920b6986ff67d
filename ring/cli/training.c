#include "cli/ring.h"

#include "cli/client_data.h"
#include "cli/model_fit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum tern_result open_data(struct tern_ring_training *training, char *why)
{
    static struct tern_client_settings client;
#define COPY(section, key, ...)                                                                    \
    memcpy(&client.section##_##key, &training->settings->section##_##key,                          \
           sizeof client.section##_##key);
#define PATH COPY
#define TEXT COPY
#define FILLED COPY
#define ENUM COPY
#define REAL COPY
#define U64 COPY
#include "cli/data_settings.def"
#include "hosted/setting_rows_end.def"
    return tern_client_data_open(&client, true, &training->data, why);
}

enum tern_result tern_ring_training_open(struct tern_ring_training *training,
                                         const struct tern_ring_settings *settings,
                                         const struct tern_model *model, uint32_t peer,
                                         char why[TERN_RING_TRAINING_WHY_MAX])
{
    memset(training, 0, sizeof *training);
    training->settings = settings;
    training->peer = peer;
    TERN_TRY(open_data(training, why));
    char unfit[MODEL_FIT_WHY_MAX];
    if (!tern_model_accepts(settings->ring_model, model, &training->data.train, unfit)) {
        snprintf(why, TERN_RING_TRAINING_WHY_MAX, "%s", unfit);
        tern_ring_training_close(training);
        return TERN_ERR_CONFIG;
    }
    const struct tern_builtin_config config = {
        .model = model,
        .train = tern_view_all(&training->data.train),
        .test = tern_view_all(&training->data.test),
        .max_batch = settings->ring_batch_size,
    };
    const size_t size = tern_builtin_trainer_bound(&config);
    training->arena = malloc(size > 0 ? size : 1);
    if (training->arena == NULL) {
        snprintf(why, TERN_RING_TRAINING_WHY_MAX, "training needs %zu bytes of memory", size);
        tern_ring_training_close(training);
        return TERN_ERR_NO_MEMORY;
    }
    const enum tern_result result =
        tern_builtin_trainer_init(&training->trainer, &config, training->arena, size);
    if (result != TERN_OK) {
        snprintf(why, TERN_RING_TRAINING_WHY_MAX, "the model \"%s\" cannot be trained: %s",
                 settings->ring_model, tern_result_sentence(result));
        tern_ring_training_close(training);
    }
    return result;
}

void tern_ring_training_close(struct tern_ring_training *training)
{
    tern_data_close(&training->data);
    free(training->arena);
    training->arena = NULL;
}

static enum tern_result train(void *ctx, uint32_t round, const float *weights, float *descent,
                              uint32_t count, void (*between)(void *arg), void *arg, float *loss)
{
    struct tern_ring_training *training = ctx;
    const struct tern_ring_settings *settings = training->settings;
    const struct tern_trainer trainer = tern_builtin_trainer_port(&training->trainer);
    const struct tern_train_task task = {
        .round = round,
        .local_steps = settings->ring_local_steps,
        .batch_size = settings->ring_batch_size,
        .learning_rate = (float)settings->ring_learning_rate,
        .momentum = (float)settings->ring_momentum,
        .weight_decay = (float)settings->ring_weight_decay,
        .seed = settings->ring_seed,
        .client = training->peer,
    };
    struct tern_train_result trained;
    float *after = NULL;
    TERN_TRY(trainer.begin(trainer.ctx, &task, weights, count));
    enum tern_result result = TERN_AGAIN;
    while (result == TERN_AGAIN) {
        result = trainer.step(trainer.ctx, &after, &trained);
        between(arg);
    }
    TERN_TRY(result);
    for (uint32_t i = 0; i < count; i++) {
        descent[i] = (after[i] - weights[i]) / task.learning_rate;
    }
    *loss = trained.loss;
    return TERN_OK;
}

static enum tern_result evaluate(void *ctx, const float *weights, uint32_t count, float *loss,
                                 float *accuracy)
{
    struct tern_ring_training *training = ctx;
    const struct tern_trainer trainer = tern_builtin_trainer_port(&training->trainer);
    struct tern_evaluate_result found;
    enum tern_result result = TERN_AGAIN;
    while (result == TERN_AGAIN) {
        result = trainer.evaluate(trainer.ctx, weights, count, &found);
    }
    TERN_TRY(result);
    *loss = found.loss;
    *accuracy = found.accuracy;
    return TERN_OK;
}

struct tern_ring_learner tern_ring_training_learner(struct tern_ring_training *training)
{
    return (struct tern_ring_learner){.ctx = training, .train = train, .evaluate = evaluate};
}
