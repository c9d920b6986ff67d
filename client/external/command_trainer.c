#define _GNU_SOURCE // strsignal
#include "external/command_trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- The words of client.trainer_command

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Copies one word with a NUL to *to, and moves *from and *to behind it. The copy is never longer than the original.
static enum tern_result take_word(const char **from, char **to, const char **why)
{
    char quote = '\0';
    const char *at = *from;
    char *out = *to;
    for (; *at != '\0' && (quote != '\0' || !is_blank(*at)); at++) {
        if (quote == '\0' && (*at == '\'' || *at == '"')) {
            quote = *at;
        } else if (*at == quote) {
            quote = '\0';
        } else if (*at == '\\' && quote != '\'') {
            at++;
            if (*at == '\0') {
                *why = "no character follows its last backslash";
                return TERN_ERR_CONFIG;
            }
            *out++ = *at;
        } else {
            *out++ = *at;
        }
    }
    *out++ = '\0';
    *from = at;
    *to = out;
    if (quote != '\0') {
        *why = "a closing quote is missing";
        return TERN_ERR_CONFIG;
    }
    return TERN_OK;
}

enum tern_result tern_command_line_split(const char *text, struct tern_command_line *line,
                                         const char **why)
{
    char *to = line->text;
    line->count = 0;
    if (strlen(text) >= sizeof line->text) {
        *why = "it is too long";
        return TERN_ERR_TOO_LARGE;
    }
    for (;;) {
        while (is_blank(*text)) {
            text++;
        }
        if (*text == '\0') {
            break;
        }
        if (line->count == TERN_COMMAND_WORDS_MAX) {
            *why = "it has too many words";
            return TERN_ERR_TOO_LARGE;
        }
        line->words[line->count++] = to;
        TERN_TRY(take_word(&text, &to, why));
    }
    line->words[line->count] = NULL;
    if (line->count == 0 || line->words[0][0] == '\0') {
        *why = "it names no command";
        return TERN_ERR_CONFIG;
    }
    return TERN_OK;
}

#define LINE_MAX_SHOWN 160

// --- Opening

enum tern_result tern_command_trainer_open(struct tern_command_trainer *trainer,
                                           const struct tern_command_config *config,
                                           char why[TERN_EXTERNAL_WHY_MAX])
{
    const char *reason = "";
    memset(trainer, 0, sizeof *trainer);
    trainer->config = *config;
    if (tern_command_line_split(config->command, &trainer->line, &reason) != TERN_OK) {
        return tern_external_fail(why, TERN_ERR_CONFIG, "%s", reason);
    }
    if (strlen(config->folder) >= sizeof trainer->folder) {
        return tern_external_fail(why, TERN_ERR_CONFIG, "the path of its folder is too long");
    }
    memcpy(trainer->folder, config->folder, strlen(config->folder) + 1);
    trainer->weights = calloc(config->model->count, sizeof(float));
    if (trainer->weights == NULL) {
        return tern_external_fail(why, TERN_ERR_NO_MEMORY, "the model's weights need memory");
    }
    tern_work_folder_remove(trainer->folder);
    return TERN_OK;
}

// --- A run

static void end_run(struct tern_command_trainer *trainer)
{
    tern_child_stop(&trainer->child);
    tern_work_folder_remove(trainer->folder);
    trainer->work = TERN_COMMAND_IDLE;
}

// Ends a task; a persistent command keeps running after a successful task.
static void end_task(struct tern_command_trainer *trainer)
{
    if (!trainer->config.persistent) {
        tern_child_stop(&trainer->child);
    }
    tern_work_folder_remove(trainer->folder);
    trainer->work = TERN_COMMAND_IDLE;
}

// Starts the command: for one task, whose path is its last argument, or as a persistent command.
static enum tern_result launch(struct tern_command_trainer *trainer)
{
    char persistent[] = "TERN_PERSISTENT=1";
    char *const persists[] = {persistent, NULL};
    struct tern_command_line *line = &trainer->line;
    const bool talks = trainer->config.persistent;
    const struct tern_child_limits limits = {.time_ms = trainer->config.time_ms,
                                             .grace_ms = trainer->config.grace_ms};
    int error = 0;
    line->words[line->count] = talks ? NULL : trainer->paths.task;
    line->words[line->count + 1] = NULL;
    return tern_child_start(&trainer->child, line->words,
                            talks ? persists : trainer->file.environment, &limits, talks,
                            &error) == TERN_OK
               ? TERN_OK
               : tern_external_fail(trainer->why, TERN_ERR_TRAINER, "%s cannot be run: %s",
                                    line->words[0], strerror(error));
}

// Sends the task to a persistent command, and starts it again if it ended between two tasks.
static enum tern_result send_task(struct tern_command_trainer *trainer)
{
    enum tern_result sent = tern_child_send(&trainer->child, trainer->paths.task);
    if (sent == TERN_ERR_STATE) {
        TERN_TRY(launch(trainer));
        sent = tern_child_send(&trainer->child, trainer->paths.task);
    }
    return sent == TERN_OK ? TERN_OK
                           : tern_external_fail(trainer->why, TERN_ERR_TRAINER,
                                                "the command does not read its standard input");
}

// Creates the run's folder with the model's file. trained, others: as in tern_model_file_write().
static enum tern_result prepare(struct tern_command_trainer *trainer, const float *trained,
                                const float *others)
{
    if (trainer->work == TERN_COMMAND_IDLE) {
        end_task(trainer);
    } else { // abandons another task
        end_run(trainer);
    }
    trainer->why[0] = '\0';
    trainer->metrics[0] = '\0';
    TERN_TRY(tern_work_folder_make(trainer->folder, trainer->paths.folder, trainer->why));
    tern_task_paths_fill(&trainer->paths);
    return tern_model_file_write(trainer->paths.model, trainer->config.model, trained, others,
                                 trainer->why);
}

static enum tern_result start(struct tern_command_trainer *trainer, enum tern_command_work work)
{
    enum tern_result result = tern_task_file_write(&trainer->file, &trainer->paths, trainer->why);
    if (result == TERN_OK) {
        result = trainer->config.persistent ? send_task(trainer) : launch(trainer);
    }
    tern_task_file_close(&trainer->file);
    trainer->work = work;
    trainer->restarted = false;
    if (result != TERN_OK) {
        end_run(trainer);
    }
    return result;
}

// Copies the last line that is not empty, for a message; cuts it to LINE_MAX_SHOWN.
static void last_line(const char *output, char line[LINE_MAX_SHOWN])
{
    size_t end = strlen(output);
    while (end > 0 && strchr(" \t\r\n", output[end - 1]) != NULL) {
        end--;
    }
    size_t begin = end;
    while (begin > 0 && output[begin - 1] != '\n') {
        begin--;
    }
    snprintf(line, LINE_MAX_SHOWN, "%.*s", (int)(end - begin), output + begin);
    for (char *at = line; *at != '\0'; at++) {
        *at = (unsigned char)*at < 0x20 || *at == 0x7f ? '?' : *at; // control characters
    }
}

static enum tern_result explain_end(struct tern_command_trainer *trainer, enum tern_child_end end,
                                    int code)
{
    char line[LINE_MAX_SHOWN];
    char what[96] = "";
    last_line(tern_child_tail(&trainer->child), line);
    if (end == TERN_CHILD_EXITED) {
        snprintf(what, sizeof what, "the command ended with exit code %d", code);
    } else if (end == TERN_CHILD_SIGNALLED) {
        snprintf(what, sizeof what, "the command was ended by signal %d (%s)", code,
                 strsignal(code));
    } else {
        snprintf(what, sizeof what, "the command took longer than %" PRIu64 " ms and was stopped",
                 trainer->config.time_ms);
    }
    return tern_external_fail(trainer->why, TERN_ERR_TRAINER, "%s%s%s", what,
                              line[0] != '\0' ? "; its last line was: " : "", line);
}

// Explains an answer other than "done": "failed" with a reason, or an invalid one.
static enum tern_result explain_answer(struct tern_command_trainer *trainer, const char *answer)
{
    char line[LINE_MAX_SHOWN];
    const bool failed = strncmp(answer, "failed", 6) == 0;
    last_line(failed ? answer + 6 + strspn(answer + 6, " :") : answer, line);
    return failed ? tern_external_fail(trainer->why, TERN_ERR_TRAINER, "the command failed%s%s",
                                       line[0] != '\0' ? ": " : "", line)
                  : tern_external_fail(trainer->why, TERN_ERR_TRAINER,
                                       "the command answered '%s'; it must answer done or failed",
                                       line);
}

// A persistent command has ended successfully without an answer, perhaps before it received the task: starts it again, once.
static enum tern_result restart_command(struct tern_command_trainer *trainer,
                                        enum tern_child_end end, int code)
{
    if (trainer->restarted) {
        return explain_end(trainer, end, code);
    }
    trainer->restarted = true;
    const enum tern_result sent = send_task(trainer);
    return sent == TERN_OK ? TERN_AGAIN : sent;
}

// Waits up to TERN_COMMAND_WAIT_MS. TERN_OK: the command has succeeded, and its files can be read.
static enum tern_result wait_run(struct tern_command_trainer *trainer)
{
    enum tern_child_end end = TERN_CHILD_EXITED;
    int code = 0;
    const enum tern_result waited =
        tern_child_wait(&trainer->child, TERN_COMMAND_WAIT_MS, &end, &code);
    const char *answer = tern_child_answer(&trainer->child);
    if (answer != NULL) {
        return strcmp(answer, "done") == 0 ? TERN_OK : explain_answer(trainer, answer);
    }
    TERN_TRY(waited);
    if (end != TERN_CHILD_EXITED || code != 0) {
        return explain_end(trainer, end, code);
    }
    return trainer->config.persistent ? restart_command(trainer, end, code) : TERN_OK;
}

// Ends the task. A failed task also ends a persistent command.
static void finish(struct tern_command_trainer *trainer, enum tern_result done)
{
    if (done == TERN_OK) {
        end_task(trainer);
    } else {
        end_run(trainer);
    }
}

// Maps errors in the command's files to TERN_ERR_TRAINER.
static enum tern_result as_trainer_error(enum tern_result result)
{
    return result == TERN_OK || result == TERN_ERR_NO_MEMORY ? result : TERN_ERR_TRAINER;
}

// --- The port

static bool in_range(float value)
{
    return isfinite(value) && value >= 0;
}

static enum tern_result check(const struct tern_command_trainer *trainer,
                              const struct tern_train_task *task, uint32_t count)
{
    if (count != trainer->config.model->count) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    return task->local_steps > 0 && task->batch_size > 0 && in_range(task->learning_rate) &&
                   in_range(task->momentum) && in_range(task->weight_decay) &&
                   in_range(task->prox_mu)
               ? TERN_OK
               : TERN_ERR_ARGUMENT;
}

static enum tern_result begin(void *ctx, const struct tern_train_task *task, const float *base,
                              uint32_t count)
{
    struct tern_command_trainer *trainer = ctx;
    TERN_TRY(check(trainer, task, count));
    const bool ahead = task->ahead != NULL;
    tern_train_start(task, base, trainer->weights, tern_model_trained(trainer->config.model));
    enum tern_result result = prepare(trainer, trainer->weights, base);
    if (result == TERN_OK && ahead) {
        result = tern_model_file_write(trainer->paths.base, trainer->config.model, base, base,
                                       trainer->why);
    }
    if (result != TERN_OK) {
        end_run(trainer);
        return result;
    }
    tern_task_file_train(&trainer->file, task, &trainer->paths, ahead);
    trainer->local_steps = task->local_steps;
    return start(trainer, TERN_COMMAND_TRAINS);
}

static enum tern_result read_answer(struct tern_command_trainer *trainer,
                                    struct tern_train_result *result)
{
    TERN_TRY(tern_trainer_result_read(trainer->paths.result, trainer->local_steps, result,
                                      trainer->metrics, trainer->why));
    return tern_model_file_read(trainer->paths.output, trainer->config.model, trainer->weights,
                                trainer->why);
}

static enum tern_result step(void *ctx, float **weights, struct tern_train_result *result)
{
    struct tern_command_trainer *trainer = ctx;
    struct tern_train_result answer = {0};
    if (trainer->work != TERN_COMMAND_TRAINS) {
        return TERN_ERR_STATE;
    }
    enum tern_result done = wait_run(trainer);
    if (done == TERN_AGAIN) {
        return done;
    }
    if (done == TERN_OK) {
        done = as_trainer_error(read_answer(trainer, &answer));
    }
    finish(trainer, done);
    if (done == TERN_OK) {
        *weights = trainer->weights;
        *result = answer;
    }
    return done;
}

static enum tern_result begin_evaluation(struct tern_command_trainer *trainer, const float *weights)
{
    const enum tern_result result = prepare(trainer, weights, weights);
    if (result != TERN_OK) {
        end_run(trainer);
        return result;
    }
    tern_task_file_evaluate(&trainer->file, &trainer->paths);
    return start(trainer, TERN_COMMAND_EVALUATES);
}

static enum tern_result evaluate(void *ctx, const float *weights, uint32_t count,
                                 struct tern_evaluate_result *result)
{
    struct tern_command_trainer *trainer = ctx;
    struct tern_evaluate_result answer = {0};
    if (count != trainer->config.model->count) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    if (trainer->work == TERN_COMMAND_TRAINS) {
        return TERN_ERR_STATE;
    }
    if (trainer->work == TERN_COMMAND_IDLE) {
        const enum tern_result begun = begin_evaluation(trainer, weights);
        return begun == TERN_OK ? TERN_AGAIN : begun;
    }
    enum tern_result done = wait_run(trainer);
    if (done == TERN_AGAIN) {
        return done;
    }
    if (done == TERN_OK) {
        done = as_trainer_error(tern_evaluate_result_read(trainer->paths.result, &answer,
                                                          trainer->metrics, trainer->why));
    }
    finish(trainer, done);
    if (done == TERN_OK) {
        *result = answer;
    }
    return done;
}

struct tern_trainer tern_command_trainer_port(struct tern_command_trainer *trainer)
{
    return (struct tern_trainer){
        .ctx = trainer, .begin = begin, .step = step, .evaluate = evaluate};
}

void tern_command_trainer_close(struct tern_command_trainer *trainer)
{
    if (trainer->weights != NULL) {
        end_run(trainer);
    }
    free(trainer->weights);
    trainer->weights = NULL;
}
