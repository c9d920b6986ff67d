// A trainer library for models with mostly frozen tensors. It moves each trained value towards a target by the
// gradient of the mean of (w - target)² / 2, and checks that frozen values have not changed. Its options name a file
// with the sum of all its changes as float64, for the check that updates and error buffer conserve them.
#define _POSIX_C_SOURCE 200809L
#include "trainer/tern_trainer_abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Period of the repeated values, the same as in lab/bench/large_model_links.py.
#define PATTERN 1048576u

#define PART 4096u // values read from the file at a time

static struct trainer {
    uint64_t count;
    uint64_t trained;
    char *file; // file with the sum of all changes
    const float *base;
    float *weights;
    struct tern_trainer_task task;
    uint32_t done;
} trainer;

static float target_of(uint64_t i, uint32_t client)
{
    const uint32_t mixed = (uint32_t)(i * 2654435761u) ^ client * 40503u;
    return (float)(mixed >> 16) / 65536.0F - 0.5F;
}

static int fail(char *why, size_t why_size, const char *text)
{
    snprintf(why, why_size, "%s", text);
    return TERN_TRAINER_FAILED;
}

static int open_trainer(const struct tern_trainer_model *model, const char *options, void **state,
                        char *why, size_t why_size)
{
    trainer.count = model->count;
    trainer.trained = model->trained;
    trainer.file = strdup(options);
    *state = &trainer;
    return trainer.file != NULL ? TERN_TRAINER_DONE : fail(why, why_size, "out of memory");
}

static int begin(void *state, const struct tern_trainer_task *task, const float *base,
                 float *weights, char *why, size_t why_size)
{
    (void)state;
    for (uint64_t i = trainer.trained + PATTERN; i < trainer.count; i++) {
        if (base[i] != base[i - PATTERN]) {
            return fail(why, why_size, "the value of a frozen tensor has changed");
        }
    }
    trainer.base = base;
    trainer.weights = weights;
    trainer.task = *task;
    trainer.done = 0;
    return TERN_TRAINER_DONE;
}

// Adds `n` changes to the sums in the file; values beyond its end count as 0.
static int add_part(FILE *file, uint64_t first, size_t n)
{
    double sum[PART] = {0};
    const long at = (long)(first * sizeof *sum);
    if (fseek(file, at, SEEK_SET) != 0 || (fread(sum, sizeof *sum, n, file) != n && !feof(file))) {
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        sum[i] += (double)(trainer.weights[first + i] - trainer.base[first + i]);
    }
    return fseek(file, at, SEEK_SET) == 0 && fwrite(sum, sizeof *sum, n, file) == n;
}

// The sum is on disk before the client encodes the change. It is not kept in memory, which would count as the
// client's.
static int keep_sum(char *why, size_t why_size)
{
    FILE *file = fopen(trainer.file, "r+b");
    file = file != NULL ? file : fopen(trainer.file, "w+b");
    int put = file != NULL;
    for (uint64_t i = 0; put && i < trainer.trained; i += PART) {
        const uint64_t left = trainer.trained - i;
        put = add_part(file, i, left < PART ? (size_t)left : PART);
    }
    return file != NULL && fclose(file) == 0 && put
               ? TERN_TRAINER_DONE
               : fail(why, why_size, "the file of summed changes could not be written");
}

static int step(void *state, struct tern_trainer_train_result *result, char *why, size_t why_size)
{
    double loss = 0;
    (void)state;
    for (uint64_t i = 0; i < trainer.trained; i++) {
        const float off = trainer.weights[i] - target_of(i, trainer.task.client);
        loss += (double)off * (double)off / 2;
        trainer.weights[i] -= trainer.task.learning_rate * off;
    }
    if (++trainer.done < trainer.task.local_steps) {
        return TERN_TRAINER_MORE;
    }
    *result = (struct tern_trainer_train_result){.size = result->size,
                                                 .num_examples = 100,
                                                 .local_steps = trainer.done,
                                                 .loss = (float)(loss / (double)trainer.trained)};
    return keep_sum(why, why_size);
}

static int evaluate(void *state, const float *weights, struct tern_trainer_evaluate_result *result,
                    char *why, size_t why_size)
{
    (void)state;
    (void)weights;
    (void)result;
    (void)why;
    (void)why_size;
    return TERN_TRAINER_NO_DATA;
}

static void close_trainer(void *state)
{
    (void)state;
    free(trainer.file);
}

const struct tern_trainer_library *tern_trainer_entry(uint32_t client_version)
{
    static const struct tern_trainer_library library = {
        .size = sizeof library,
        .abi_version = TERN_TRAINER_ABI_VERSION,
        .name = "towards a target",
        .open = open_trainer,
        .begin = begin,
        .step = step,
        .evaluate = evaluate,
        .close = close_trainer,
    };
    return client_version == TERN_TRAINER_ABI_VERSION ? &library : NULL;
}
