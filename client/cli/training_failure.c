#include "cli/training_failure.h"

#include "hosted/files.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FILE_NAME "training-failure"
#define FILE_MAX 4096

// --- In words

static void describe_builtin(const struct tern_builtin_trainer *trainer, enum tern_result result,
                             char why[TRAINING_WHY_MAX])
{
    const uint32_t steps = trainer->task.local_steps;
    const uint32_t done = trainer->steps_done;
    if (result == TERN_ERR_NON_FINITE && done < steps) {
        snprintf(why, TRAINING_WHY_MAX,
                 "the loss of local step %" PRIu32 " of %" PRIu32 " is not finite", done + 1,
                 steps);
    } else if (result == TERN_ERR_NON_FINITE) {
        snprintf(why, TRAINING_WHY_MAX,
                 "after the last of %" PRIu32 " local steps a weight is not finite", steps);
    } else if (result == TERN_ERR_NOT_FOUND) {
        snprintf(why, TRAINING_WHY_MAX, "none of the %" PRIu32 " training rows can be used%s",
                 trainer->train.count,
                 trainer->train.count > 0 ? ": none has the label of the first class, which is the "
                                            "normal one"
                                          : "");
    } else if (result == TERN_ERR_ARGUMENT) {
        snprintf(why, TRAINING_WHY_MAX,
                 "a setting of the task (steps, batch size, learning rate, momentum, weight decay, "
                 "prox_mu) is out of range");
    } else {
        snprintf(why, TRAINING_WHY_MAX, "%s", tern_result_sentence(result));
    }
}

const char *tern_training_failure_hint(const struct watched_trainer *watched)
{
    const enum tern_result result = watched->failure.result;
    if (watched->external != NULL) {
        return "tern-client train-check tries the trainer by itself (docs/TRAINERS.md)";
    }
    return result == TERN_ERR_NON_FINITE
               ? "columns or targets are not scaled (tern-client check names them), or "
                 "train.learning_rate is too high"
           : result == TERN_ERR_NOT_FOUND ? "tern-client check counts the rows of data.source"
                                          : "";
}

// --- The wrapper

static enum tern_result record(struct watched_trainer *watched, enum tern_result result)
{
    struct training_failure *failure = &watched->failure;
    if (result == TERN_OK || result == TERN_AGAIN) {
        return result;
    }
    watched->failed = true;
    failure->result = result;
    failure->time_s = (uint64_t)time(NULL);
    if (watched->builtin != NULL) {
        describe_builtin(watched->builtin, result, failure->why);
    } else {
        const char *why = tern_external_why(watched->external);
        snprintf(failure->why, sizeof failure->why, "%s",
                 why[0] != '\0' ? why : tern_result_sentence(result));
    }
    return result;
}

static enum tern_result begin(void *ctx, const struct tern_train_task *task, const float *base,
                              uint32_t count)
{
    struct watched_trainer *watched = ctx;
    watched->failure.round = task->round;
    if (watched->on_first != NULL) {
        watched->on_first(watched->ctx);
        watched->on_first = NULL;
    }
    return record(watched, watched->inner.begin(watched->inner.ctx, task, base, count));
}

static enum tern_result step(void *ctx, float **weights, struct tern_train_result *result)
{
    struct watched_trainer *watched = ctx;
    return record(watched, watched->inner.step(watched->inner.ctx, weights, result));
}

static enum tern_result evaluate(void *ctx, const float *weights, uint32_t count,
                                 struct tern_evaluate_result *result)
{
    const struct watched_trainer *watched = ctx;
    return watched->inner.evaluate(watched->inner.ctx, weights, count, result);
}

struct tern_trainer tern_watched_trainer_port(struct watched_trainer *watched)
{
    return (struct tern_trainer){
        .ctx = watched, .begin = begin, .step = step, .evaluate = evaluate};
}

// --- The saved failure

static const char *path_of(const char *state_dir, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/" FILE_NAME, state_dir);
    return path;
}

void tern_training_failure_save(const char *state_dir, const struct watched_trainer *watched)
{
    const struct training_failure *failure = &watched->failure;
    const char *hint = tern_training_failure_hint(watched);
    char path[PATH_MAX];
    char text[FILE_MAX];
    const int len = snprintf(text, sizeof text, "%" PRIu64 " %" PRIu32 " %d %s%s%s\n",
                             failure->time_s, failure->round, (int)failure->result, failure->why,
                             hint[0] != '\0' ? ": " : "", hint);
    (void)!tern_file_write(path_of(state_dir, path), text, (size_t)len, 0600);
}

void tern_training_failure_clear(const char *state_dir)
{
    char path[PATH_MAX];
    (void)unlink(path_of(state_dir, path));
}

bool tern_training_failure_read(const char *state_dir, struct training_failure *failure)
{
    char path[PATH_MAX];
    uint8_t *text = NULL;
    size_t len = 0;
    int result = 0;
    int at = 0;
    if (tern_file_read_regular(path_of(state_dir, path), FILE_MAX, &text, &len) != TERN_OK) {
        return false;
    }
    const bool read = sscanf((const char *)text, "%" SCNu64 " %" SCNu32 " %d %n", &failure->time_s,
                             &failure->round, &result, &at) == 3;
    if (read) {
        failure->result = (enum tern_result)result;
        snprintf(failure->why, sizeof failure->why, "%.*s",
                 (int)strcspn((const char *)text + at, "\n"), (const char *)text + at);
    }
    free(text);
    return read;
}
