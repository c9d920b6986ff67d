// What an external trainer is told, twice: as a JSON file and as environment variables with the
// same names and values (docs/TRAINERS.md has the table). Hosted; reentrant.
#ifndef TERN_TASK_FILE_H
#define TERN_TASK_FILE_H

#include "external/model_file.h"
#include "external/work_folder.h"
#include "ports.h"

#define TERN_TASK_INTERFACE 1 // "interface" of the task: grows when a field changes its meaning
#define TERN_TASK_FIELDS_MAX 20
#define TERN_TASK_VALUE_MAX (TERN_WORK_PATH_MAX + 64)

struct tern_task_field {
    const char *name; // in JSON; in the environment with TERN_ in front, in capitals
    bool is_text;
    char value[TERN_TASK_VALUE_MAX];
};

struct tern_task_file {
    struct tern_task_field fields[TERN_TASK_FIELDS_MAX];
    size_t count;
    char *environment[TERN_TASK_FIELDS_MAX + 2]; // NULL-terminated, after tern_task_file_write()
};

// The files of a run, all in the work folder.
struct tern_task_paths {
    char folder[TERN_WORK_PATH_MAX];
    char task[TERN_TASK_VALUE_MAX];
    char model[TERN_TASK_VALUE_MAX];
    char base[TERN_TASK_VALUE_MAX];
    char output[TERN_TASK_VALUE_MAX];
    char result[TERN_TASK_VALUE_MAX];
};

// Sets the others from folder.
void tern_task_paths_fill(struct tern_task_paths *paths);

// What a trainer draws its batches from: of the federation's seed, the round and the client, as the
// built-in trainers draw theirs; 32 bits, which every language's generator takes.
uint32_t tern_task_seed(const struct tern_train_task *task);

// Fields of a training task; has_base: paths->base is a file of its own.
void tern_task_file_train(struct tern_task_file *file, const struct tern_train_task *task,
                          const struct tern_task_paths *paths, bool has_base);

// Fields of an evaluation.
void tern_task_file_evaluate(struct tern_task_file *file, const struct tern_task_paths *paths);

// Writes paths->task, mode 0600, and makes the environment.
// TERN_ERR_IO, TERN_ERR_NO_SPACE, TERN_ERR_NO_MEMORY with `why`
TERN_MUST_USE enum tern_result tern_task_file_write(struct tern_task_file *file,
                                                    const struct tern_task_paths *paths,
                                                    char why[TERN_EXTERNAL_WHY_MAX]);

// Frees the environment.
void tern_task_file_close(struct tern_task_file *file);

#endif
