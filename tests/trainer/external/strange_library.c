// A trainer as a shared object that is wrong in the way that it is compiled for (WRONG_...), or
// does what its options say. It adds 1 to every weight a step.
#include "trainer/tern_trainer_abi.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct {
    char mode[32];
    uint64_t count;
    float *weights;
    const float *base;
    uint32_t left;
    uint32_t steps;
    int evaluations;
} trainer;

static int open_trainer(const struct tern_trainer_model *model, const char *options, void **state,
                        char *why, size_t why_size)
{
    snprintf(trainer.mode, sizeof trainer.mode, "%s", options);
    trainer.count = model->count;
    *state = &trainer;
    if (strcmp(options, "refuse") == 0) {
        snprintf(why, why_size, "I refuse");
        return TERN_TRAINER_FAILED;
    }
    const struct tern_trainer_tensor *first = model->tensors;
    if (first->size != sizeof *first || model->tensor_count != 2 || first->dim_count != 2 ||
        strcmp(first->name, "fc1.weight") != 0 || strcmp(model->spec, "softmax:5-3") != 0) {
        snprintf(why, why_size, "the model is not what it is");
        return TERN_TRAINER_FAILED;
    }
    return TERN_TRAINER_DONE;
}

static int begin(void *state, const struct tern_trainer_task *task, const float *base,
                 float *weights, char *why, size_t why_size)
{
    (void)state;
    trainer.base = base;
    trainer.weights = weights;
    trainer.left = trainer.steps = task->local_steps;
    if (strcmp(trainer.mode, "no data") == 0) {
        return TERN_TRAINER_NO_DATA;
    }
    if (strcmp(trainer.mode, "say nothing") == 0) {
        return TERN_TRAINER_FAILED;
    }
    if (strcmp(trainer.mode, "talk") == 0) {
        memset(why, 'x', why_size); // and no NUL
        return TERN_TRAINER_FAILED;
    }
    return TERN_TRAINER_DONE;
}

static int step(void *state, struct tern_trainer_train_result *result, char *why, size_t why_size)
{
    (void)state;
    for (uint64_t i = 0; i < trainer.count; i++) {
        trainer.weights[i] += 1;
    }
    if (--trainer.left > 0) {
        return TERN_TRAINER_MORE;
    }
    *result = (struct tern_trainer_train_result){
        .size = result->size, .num_examples = 7, .local_steps = trainer.steps, .loss = 0.5f};
    if (strcmp(trainer.mode, "nan weight") == 0) {
        trainer.weights[trainer.count - 1] = NAN;
    } else if (strcmp(trainer.mode, "nan loss") == 0) {
        result->loss = NAN;
    } else if (strcmp(trainer.mode, "no examples") == 0) {
        result->num_examples = 0;
    } else if (strcmp(trainer.mode, "many steps") == 0) {
        result->local_steps++;
    } else if (strcmp(trainer.mode, "strange") == 0) {
        return 77;
    } else if (strcmp(trainer.mode, "fail") == 0) {
        snprintf(why, why_size, "it went wrong");
        return TERN_TRAINER_FAILED;
    }
    return TERN_TRAINER_DONE;
}

static int evaluate(void *state, const float *weights, struct tern_trainer_evaluate_result *result,
                    char *why, size_t why_size)
{
    (void)state;
    (void)weights;
    (void)why;
    (void)why_size;
    if (strcmp(trainer.mode, "no data") == 0) {
        return TERN_TRAINER_NO_DATA;
    }
    *result = (struct tern_trainer_evaluate_result){
        .size = result->size,
        .num_examples = 9,
        .loss = 0.5f,
        .accuracy = strcmp(trainer.mode, "too good") == 0 ? 1.5f : 0.75f};
    return ++trainer.evaluations % 3 != 0 ? TERN_TRAINER_MORE : TERN_TRAINER_DONE;
}

static void close_trainer(void *state)
{
    (void)state;
}

#ifdef WRONG_NAME
#define ENTRY my_trainer
const struct tern_trainer_library *my_trainer(uint32_t client_version);
#else
#define ENTRY tern_trainer_entry
#endif

const struct tern_trainer_library *ENTRY(uint32_t client_version)
{
    static const struct tern_trainer_library library = {
        .size = sizeof(struct tern_trainer_library),
        .abi_version = TERN_TRAINER_ABI_VERSION,
        .name = "strange",
        .open = open_trainer,
        .begin = begin,
#ifndef WRONG_NULL
        .step = step,
#endif
        .evaluate = evaluate,
        .close = close_trainer,
    };
    static struct tern_trainer_library given;
    given = library;
    (void)step;
#ifdef WRONG_VERSION
    given.abi_version = TERN_TRAINER_ABI_VERSION + 1;
#endif
#ifdef WRONG_SIZE
    given.size = offsetof(struct tern_trainer_library, close);
#endif
#ifdef WRONG_CLIENT
    return NULL;
#endif
    return client_version == TERN_TRAINER_ABI_VERSION ? &given : NULL;
}
