#define _GNU_SOURCE // asprintf
#include "external/task_file.h"
#include "hosted/float_text.h"
#include "util/prng.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tern_task_paths_fill(struct tern_task_paths *paths)
{
    const char *folder = paths->folder;
    snprintf(paths->task, sizeof paths->task, "%s/task.json", folder);
    snprintf(paths->model, sizeof paths->model, "%s/model.safetensors", folder);
    snprintf(paths->base, sizeof paths->base, "%s/base.safetensors", folder);
    snprintf(paths->output, sizeof paths->output, "%s/trained.safetensors", folder);
    snprintf(paths->result, sizeof paths->result, "%s/result.json", folder);
}

// --- Fields

static void add(struct tern_task_file *file, const char *name, bool is_text, const char *format,
                ...) __attribute__((format(printf, 4, 5)));

static void add(struct tern_task_file *file, const char *name, bool is_text, const char *format,
                ...)
{
    struct tern_task_field *field = &file->fields[file->count++];
    va_list arguments;
    field->name = name;
    field->is_text = is_text;
    va_start(arguments, format);
    vsnprintf(field->value, sizeof field->value, format, arguments);
    va_end(arguments);
}

static void add_whole(struct tern_task_file *file, const char *name, uint32_t value)
{
    add(file, name, false, "%" PRIu32, value);
}

static void add_real(struct tern_task_file *file, const char *name, float value)
{
    char text[TERN_FLOAT_TEXT];
    add(file, name, false, "%s", tern_float_text(value, text));
}

static void add_head(struct tern_task_file *file, const char *kind,
                     const struct tern_task_paths *paths)
{
    file->count = 0;
    add_whole(file, "interface", TERN_TASK_INTERFACE);
    add(file, "kind", true, "%s", kind);
    add(file, "model", true, "%s", paths->model);
    add(file, "result", true, "%s", paths->result);
}

uint32_t tern_task_seed(const struct tern_train_task *task)
{
    struct tern_prng rng;
    tern_prng_init(&rng, task->seed, TERN_PRNG_BATCHES, task->round, task->client);
    return tern_prng_u32(&rng);
}

void tern_task_file_train(struct tern_task_file *file, const struct tern_train_task *task,
                          const struct tern_task_paths *paths, bool has_base)
{
    add_head(file, "train", paths);
    add(file, "output", true, "%s", paths->output);
    add(file, "base", true, "%s", has_base ? paths->base : paths->model);
    add_whole(file, "round", task->round);
    add_whole(file, "client", task->client);
    add_whole(file, "local_steps", task->local_steps);
    add_whole(file, "batch_size", task->batch_size);
    add_real(file, "learning_rate", task->learning_rate);
    add_real(file, "momentum", task->momentum);
    add_real(file, "weight_decay", task->weight_decay);
    add_real(file, "prox_mu", task->prox_mu);
    add_whole(file, "seed", tern_task_seed(task));
}

void tern_task_file_evaluate(struct tern_task_file *file, const struct tern_task_paths *paths)
{
    add_head(file, "evaluate", paths);
}

// --- Out

static char *as_json(const struct tern_task_file *file)
{
    cJSON *root = cJSON_CreateObject();
    for (size_t i = 0; i < file->count; i++) {
        const struct tern_task_field *field = &file->fields[i];
        if (field->is_text) {
            cJSON_AddStringToObject(root, field->name, field->value);
        } else {
            cJSON_AddRawToObject(root, field->name, field->value);
        }
    }
    char *text = cJSON_Print(root);
    cJSON_Delete(root);
    return text;
}

static bool make_variable(struct tern_task_file *file, const char *name, const char *value,
                          size_t index)
{
    if (asprintf(&file->environment[index], "TERN_%s=%s", name, value) < 0) {
        file->environment[index] = NULL;
        return false;
    }
    for (char *at = file->environment[index]; *at != '='; at++) {
        *at = (char)toupper((unsigned char)*at);
    }
    return true;
}

static bool make_environment(struct tern_task_file *file, const struct tern_task_paths *paths)
{
    memset(file->environment, 0, sizeof file->environment);
    for (size_t i = 0; i < file->count; i++) {
        if (!make_variable(file, file->fields[i].name, file->fields[i].value, i)) {
            return false;
        }
    }
    return make_variable(file, "task", paths->task, file->count);
}

enum tern_result tern_task_file_write(struct tern_task_file *file,
                                      const struct tern_task_paths *paths,
                                      char why[TERN_EXTERNAL_WHY_MAX])
{
    char *text = make_environment(file, paths) ? as_json(file) : NULL;
    if (text == NULL) {
        return tern_external_fail(why, TERN_ERR_NO_MEMORY, "no memory for the trainer's task");
    }
    const size_t len = strlen(text);
    text[len] = '\n'; // in the place of its NUL: what reads lines gets the last one, too
    const enum tern_result result = tern_new_file_write(paths->task, text, len + 1, why);
    cJSON_free(text);
    return result;
}

void tern_task_file_close(struct tern_task_file *file)
{
    for (size_t i = 0; i < TERN_TASK_FIELDS_MAX + 2; i++) {
        free(file->environment[i]);
        file->environment[i] = NULL;
    }
}
