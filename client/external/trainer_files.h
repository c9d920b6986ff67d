// The files that the client exchanges with a trainer program: the work folder, the model as safetensors, the task and the
// result as JSON. What a trainer wrote is checked as untrusted bytes. Called by command_trainer.c and library_trainer.c.
// Reentrant; a folder belongs to one thread.
#ifndef TERN_TRAINER_FILES_H
#define TERN_TRAINER_FILES_H

#include "ports.h"
#include "result.h"
#include "tensor/model.h"

#define TERN_EXTERNAL_WHY_MAX 384 // bytes of a sentence with the terminating NUL

// Reads a regular file of at most `most` bytes; refuses devices and pipes. *data: malloc'ed content, followed by a NUL. After
// an error why has the file's name and the reason.
// TERN_ERR_NOT_FOUND, TERN_ERR_TOO_LARGE, TERN_ERR_CORRUPT (not a regular file), TERN_ERR_IO,
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_regular_file_read(const char *path, size_t most, uint8_t **data,
                                                      size_t *len, char why[TERN_EXTERNAL_WHY_MAX]);

// Creates a new file with mode 0600. TERN_ERR_IO, TERN_ERR_NO_SPACE
TERN_MUST_USE enum tern_result tern_new_file_write(const char *path, const void *bytes, size_t len,
                                                   char why[TERN_EXTERNAL_WHY_MAX]);

// Creates a new safetensors file with the tensors of the model, as F32, and writes it block by block. trained:
// [tern_model_trained()] values of the tensors that training changes. others: [model->count] all values, from which the frozen
// tensors are taken.
// TERN_ERR_IO, TERN_ERR_NO_SPACE, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_model_file_write(const char *path,
                                                     const struct tern_model *model,
                                                     const float *trained, const float *others,
                                                     char why[TERN_EXTERNAL_WHY_MAX]);

// Reads the tensors of the model from a safetensors file block by block. The file may have them in any order, as F32, F16 or
// BF16. trained: receives [tern_model_trained()] values, undefined after an error. Frozen tensors are checked only.
// TERN_ERR_CORRUPT         not safetensors
// TERN_ERR_MODEL_MISMATCH  a tensor is missing, is not the model's, or has another shape or type
// TERN_ERR_NON_FINITE      a value is NaN or infinite
// and the errors of tern_regular_file_read()
TERN_MUST_USE enum tern_result tern_model_file_read(const char *path,
                                                    const struct tern_model *model, float *trained,
                                                    char why[TERN_EXTERNAL_WHY_MAX]);

// Writes a reason to `why`, formatted like printf(), and returns `result`.
enum tern_result tern_external_fail(char why[TERN_EXTERNAL_WHY_MAX], enum tern_result result,
                                    const char *format, ...) __attribute__((format(printf, 3, 4)));

// --- The work folder of one run, mode 0700

#define TERN_WORK_PATH_MAX 960 // bytes of the folder's path; files in it have at most 64 more

#define TERN_TASK_VALUE_MAX (TERN_WORK_PATH_MAX + 64)

// The absolute paths of a work folder and its files.
struct tern_task_paths {
    char folder[TERN_WORK_PATH_MAX];
    char task[TERN_TASK_VALUE_MAX];
    char model[TERN_TASK_VALUE_MAX];
    char base[TERN_TASK_VALUE_MAX];
    char output[TERN_TASK_VALUE_MAX];
    char result[TERN_TASK_VALUE_MAX];
};

// Removes `path` and its content as far as possible (a symbolic link is removed, not followed), creates it again, and creates a
// folder with a new name in it. So a trainer that has survived a crash of the client does not write into that folder. paths:
// the absolute paths of the new folder and its files.
// TERN_ERR_IO, TERN_ERR_NO_SPACE, TERN_ERR_TOO_LARGE (the path is too long); with `why`
TERN_MUST_USE enum tern_result tern_work_folder_make(const char *path,
                                                     struct tern_task_paths *paths,
                                                     char why[TERN_EXTERNAL_WHY_MAX]);

// Removes `path` and its content to any depth, as far as possible, on this file system alone. A missing path is no error.
void tern_work_folder_remove(const char *path);

// --- The task, as a JSON file and as environment variables with the same names and values (docs/TRAINERS.md)

#define TERN_TASK_INTERFACE                                                                        \
    1 // field "interface" of the task; increases when a field changes its meaning
#define TERN_TASK_FIELDS_MAX 20

struct tern_task_field {
    const char *name; // key in JSON
    bool is_text;
    char *value;                             // in `variable`
    char variable[TERN_TASK_VALUE_MAX + 32]; // "TERN_KEY=value", the key in capitals
};

struct tern_task_file {
    struct tern_task_field fields[TERN_TASK_FIELDS_MAX];
    size_t count;
    char *environment[TERN_TASK_FIELDS_MAX + 1]; // NULL-terminated, after tern_task_file_write()
};

// Returns the seed of a trainer's batches. It depends on the federation's seed, the round and the client like the batches of
// the built-in trainer. It has 32 bits, since the random generators of all languages accept such seeds.
uint32_t tern_task_seed(const struct tern_train_task *task);

// Fills the fields, writes them to the file paths->task with mode 0600, and fills file->environment. task: the training task;
// NULL: an evaluation. has_base: the base model has a file of its own, paths->base; else its file is paths->model.
// TERN_ERR_IO, TERN_ERR_NO_SPACE, TERN_ERR_NO_MEMORY with `why`
TERN_MUST_USE enum tern_result tern_task_file_write(struct tern_task_file *file,
                                                    const struct tern_train_task *task,
                                                    const struct tern_task_paths *paths,
                                                    bool has_base, char why[TERN_EXTERNAL_WHY_MAX]);

// --- The result, a small JSON file from the trainer, whose numbers are untrusted and checked against their ranges

#define TERN_TRAINER_METRICS_MAX 512 // bytes of the metrics as text, with the terminating NUL
#define TERN_TRAINER_EXAMPLES_MAX 1000000000 // a larger num_examples is a mistake

// Reads the result of training. num_examples and loss are required; local_steps (1 to the requested number) and metrics (an
// object of numbers) are optional. metrics: receives them as "name=1.5 other=2", as many as fit; "" for none.
// TERN_ERR_CORRUPT with `why`, and those of tern_regular_file_read()
TERN_MUST_USE enum tern_result tern_trainer_result_read(const char *path, uint32_t local_steps,
                                                        struct tern_train_result *result,
                                                        char metrics[TERN_TRAINER_METRICS_MAX],
                                                        char why[TERN_EXTERNAL_WHY_MAX]);

// Reads the result of an evaluation. num_examples and loss are required; accuracy (0 to 1) and metrics are optional. Metrics
// with short names are also added to *result, whose metric_count must be 0 before.
TERN_MUST_USE enum tern_result tern_evaluate_result_read(const char *path,
                                                         struct tern_evaluate_result *result,
                                                         char metrics[TERN_TRAINER_METRICS_MAX],
                                                         char why[TERN_EXTERNAL_WHY_MAX]);

// Check that the numbers of a result are in their ranges. TERN_ERR_CORRUPT with `why`
TERN_MUST_USE enum tern_result tern_train_result_check(const struct tern_train_result *result,
                                                       uint32_t local_steps,
                                                       char why[TERN_EXTERNAL_WHY_MAX]);
TERN_MUST_USE enum tern_result tern_evaluate_result_check(const struct tern_evaluate_result *result,
                                                          char why[TERN_EXTERNAL_WHY_MAX]);

#endif
