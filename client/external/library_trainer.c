#include "external/library_trainer.h"
#include "external/trainer_files.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef TERN_LIBRARY_TRAINERS
#include <dlfcn.h>

#define SYMBOL "tern_trainer_entry"

typedef const struct tern_trainer_library *(*entry_function)(uint32_t client_version);

// --- Loading

static enum tern_result load(struct tern_library_trainer *trainer, const char *path, char *why)
{
    entry_function entry = NULL;
    trainer->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (trainer->handle == NULL) {
        return tern_external_fail(why, TERN_ERR_CONFIG, "the library cannot be loaded: %s",
                                  dlerror());
    }
    void *symbol = dlsym(trainer->handle, SYMBOL);
    if (symbol == NULL) {
        return tern_external_fail(why, TERN_ERR_CONFIG,
                                  "%s exports no function " SYMBOL "(): it is no trainer", path);
    }
    memcpy(&entry, &symbol, sizeof entry); // C has no cast from an object to a function pointer
    trainer->library = entry(TERN_TRAINER_ABI_VERSION);
    if (trainer->library == NULL) {
        return tern_external_fail(why, TERN_ERR_CONFIG,
                                  "%s does not work with version %d of the trainer interface", path,
                                  TERN_TRAINER_ABI_VERSION);
    }
    return TERN_OK;
}

static enum tern_result check_library(const struct tern_trainer_library *library, char *why)
{
    if (library->abi_version != TERN_TRAINER_ABI_VERSION) {
        return tern_external_fail(why, TERN_ERR_CONFIG,
                                  "it has version %" PRIu32
                                  " of the trainer interface; this client has %d",
                                  library->abi_version, TERN_TRAINER_ABI_VERSION);
    }
    if (library->size < sizeof *library) {
        return tern_external_fail(why, TERN_ERR_CONFIG,
                                  "the library's struct tern_trainer_library has %" PRIu32
                                  " bytes; version %d has %zu",
                                  library->size, TERN_TRAINER_ABI_VERSION, sizeof *library);
    }
    if (library->open == NULL || library->begin == NULL || library->step == NULL ||
        library->evaluate == NULL || library->close == NULL) {
        return tern_external_fail(why, TERN_ERR_CONFIG, "a function of the library is NULL");
    }
    return TERN_OK;
}

static void unload(struct tern_library_trainer *trainer)
{
    if (trainer->handle != NULL) {
        (void)dlclose(trainer->handle);
    }
}

#else

static enum tern_result load(struct tern_library_trainer *trainer, const char *path, char *why)
{
    (void)trainer;
    return tern_external_fail(why, TERN_ERR_CONFIG,
                              "%s cannot be loaded: this tern-client is linked statically, and "
                              "such a program loads no libraries; use client.trainer = command, or "
                              "a client that is not static",
                              path);
}

static enum tern_result check_library(const struct tern_trainer_library *library, char *why)
{
    (void)library;
    (void)why;
    return TERN_OK;
}

static void unload(struct tern_library_trainer *trainer)
{
    (void)trainer;
}

#endif

// --- Opening

static enum tern_result describe_layout(struct tern_library_trainer *trainer,
                                        const struct tern_library_config *config, char *why)
{
    const struct tern_model *model = config->model;
    trainer->tensors = calloc(model->tensor_count, sizeof *trainer->tensors);
    trainer->weights = calloc(model->count, sizeof(float));
    if (trainer->tensors == NULL || trainer->weights == NULL) {
        return tern_external_fail(why, TERN_ERR_NO_MEMORY, "the model's weights need memory");
    }
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        const struct tern_tensor *tensor = &model->tensors[i];
        trainer->tensors[i] = (struct tern_trainer_tensor){
            .size = sizeof *trainer->tensors,
            .dim_count = tensor->dim_count,
            .name = tensor->name,
            .dims = tensor->dims,
            .offset = tensor->offset,
            .count = tensor->count,
        };
    }
    trainer->model = (struct tern_trainer_model){
        .size = sizeof trainer->model,
        .tensor_count = model->tensor_count,
        .tensors = trainer->tensors,
        .count = model->count,
        .spec = config->spec,
        .trained = tern_model_trained(model),
    };
    return TERN_OK;
}

// Terminates the library's reason with a NUL, and replaces an empty reason by `otherwise`.
static void terminate_sentence(char why[TERN_EXTERNAL_WHY_MAX], const char *otherwise)
{
    why[TERN_EXTERNAL_WHY_MAX - 1] = '\0';
    if (why[0] == '\0') {
        (void)tern_external_fail(why, TERN_ERR_TRAINER, "%s", otherwise);
    }
}

static enum tern_result open_library(struct tern_library_trainer *trainer,
                                     const struct tern_library_config *config, char *why)
{
    TERN_TRY(load(trainer, config->path, why));
    TERN_TRY(check_library(trainer->library, why));
    TERN_TRY(describe_layout(trainer, config, why));
    why[0] = '\0';
    if (trainer->library->open(&trainer->model, config->options, &trainer->state, why,
                               TERN_EXTERNAL_WHY_MAX) != TERN_TRAINER_DONE) {
        terminate_sentence(why, "the library's open() failed without a reason");
        return TERN_ERR_TRAINER;
    }
    trainer->opened = true;
    return TERN_OK;
}

enum tern_result tern_library_trainer_open(struct tern_library_trainer *trainer,
                                           const struct tern_library_config *config,
                                           char why[TERN_EXTERNAL_WHY_MAX])
{
    memset(trainer, 0, sizeof *trainer);
    const enum tern_result result = open_library(trainer, config, why);
    if (result != TERN_OK) {
        tern_library_trainer_close(trainer);
    }
    return result;
}

// --- The port

static enum tern_result describe_failure(struct tern_library_trainer *trainer, int answer,
                                         const char *what)
{
    trainer->trains = false;
    if (answer == TERN_TRAINER_NO_DATA) {
        terminate_sentence(trainer->why, "the library has no examples");
        return TERN_ERR_NOT_FOUND;
    }
    if (answer != TERN_TRAINER_FAILED) {
        return tern_external_fail(trainer->why, TERN_ERR_TRAINER,
                                  "the library's %s returned %d, which has no meaning", what,
                                  answer);
    }
    terminate_sentence(trainer->why, "the library failed without a reason");
    return TERN_ERR_TRAINER;
}

static enum tern_result begin(void *ctx, const struct tern_train_task *task, const float *base,
                              uint32_t count)
{
    struct tern_library_trainer *trainer = ctx;
    trainer->trains = false;
    trainer->why[0] = '\0';
    if (count != trainer->model.count) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    if (task->local_steps == 0 || task->batch_size == 0) {
        return TERN_ERR_ARGUMENT;
    }
    const struct tern_trainer_task given = {
        .size = sizeof given,
        .round = task->round,
        .local_steps = task->local_steps,
        .batch_size = task->batch_size,
        .learning_rate = task->learning_rate,
        .momentum = task->momentum,
        .weight_decay = task->weight_decay,
        .prox_mu = task->prox_mu,
        .seed = tern_task_seed(task),
        .client = task->client,
    };
    tern_train_start(task, base, trainer->weights, (uint32_t)trainer->model.trained);
    const int answer = trainer->library->begin(trainer->state, &given, base, trainer->weights,
                                               trainer->why, sizeof trainer->why);
    trainer->local_steps = task->local_steps;
    trainer->trains = answer == TERN_TRAINER_DONE;
    return trainer->trains ? TERN_OK : describe_failure(trainer, answer, "begin()");
}

static enum tern_result check_answer(struct tern_library_trainer *trainer,
                                     const struct tern_train_result *answer)
{
    if (tern_train_result_check(answer, trainer->local_steps, trainer->why) != TERN_OK) {
        return TERN_ERR_TRAINER;
    }
    for (uint64_t i = 0; i < trainer->model.trained; i++) {
        if (!isfinite(trainer->weights[i])) {
            return tern_external_fail(trainer->why, TERN_ERR_TRAINER,
                                      "the weights contain NaN or infinity: training diverged");
        }
    }
    return TERN_OK;
}

static enum tern_result step(void *ctx, float **weights, struct tern_train_result *result)
{
    struct tern_library_trainer *trainer = ctx;
    struct tern_trainer_train_result found = {.size = sizeof found};
    if (!trainer->trains) {
        return TERN_ERR_STATE;
    }
    const int answer =
        trainer->library->step(trainer->state, &found, trainer->why, sizeof trainer->why);
    if (answer == TERN_TRAINER_MORE) {
        return TERN_AGAIN;
    }
    if (answer != TERN_TRAINER_DONE) {
        return describe_failure(trainer, answer, "step()");
    }
    trainer->trains = false;
    const struct tern_train_result answered = {
        .num_examples = found.num_examples, .local_steps = found.local_steps, .loss = found.loss};
    TERN_TRY(check_answer(trainer, &answered));
    *weights = trainer->weights;
    *result = answered;
    return TERN_OK;
}

static enum tern_result evaluate(void *ctx, const float *weights, uint32_t count,
                                 struct tern_evaluate_result *result)
{
    struct tern_library_trainer *trainer = ctx;
    struct tern_trainer_evaluate_result found = {.size = sizeof found};
    if (count != trainer->model.count) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    trainer->why[0] = '\0';
    const int answer = trainer->library->evaluate(trainer->state, weights, &found, trainer->why,
                                                  sizeof trainer->why);
    if (answer == TERN_TRAINER_MORE) {
        return TERN_AGAIN;
    }
    if (answer != TERN_TRAINER_DONE) {
        return describe_failure(trainer, answer, "evaluate()");
    }
    const struct tern_evaluate_result answered = {
        .num_examples = found.num_examples, .loss = found.loss, .accuracy = found.accuracy};
    if (tern_evaluate_result_check(&answered, trainer->why) != TERN_OK) {
        return TERN_ERR_TRAINER;
    }
    *result = answered;
    return TERN_OK;
}

struct tern_trainer tern_library_trainer_port(struct tern_library_trainer *trainer)
{
    return (struct tern_trainer){
        .ctx = trainer, .begin = begin, .step = step, .evaluate = evaluate};
}

void tern_library_trainer_close(struct tern_library_trainer *trainer)
{
    if (trainer->opened) {
        trainer->library->close(trainer->state);
    }
    unload(trainer);
    free(trainer->tensors);
    free(trainer->weights);
    *trainer = (struct tern_library_trainer){0};
}
