#define _GNU_SOURCE // mkdtemp, asprintf
#include "external/trainer_files.h"
#include "codec/kernels/kernels.h"
#include "hosted/files.h"
#include "hosted/safetensors.h"
#include "hosted/terminal.h"
#include "util/bytes.h"
#include "util/prng.h"
#include "util/text.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// --- The work folder

#define PASSES_MAX 1000000 // each pass removes one level; no real folder is nested so deeply

// --- Removing

// The removal of a folder of any depth. Nested folders are moved to its top level, with numbers as names, before they are
// emptied. So neither the length of a path nor the number of open files limits the depth.
struct removal {
    int top;
    dev_t device;
    unsigned name;
};

// Makes a folder writable, so that its content can be removed; some caches contain read-only folders. Returns false if it is no
// folder. Sets *device to the folder's file system.
static bool make_writable(int at, const char *name, dev_t *device)
{
    struct stat facts;
    if (fstatat(at, name, &facts, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(facts.st_mode)) {
        return false;
    }
    if ((facts.st_mode & S_IRWXU) != S_IRWXU) {
        (void)fchmodat(at, name, S_IRWXU, 0);
    }
    *device = facts.st_dev;
    return true;
}

static DIR *open_folder(int at, const char *name)
{
    const int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (folder == NULL && fd >= 0) {
        (void)close(fd);
    }
    return folder;
}

static const char *next_name(DIR *folder)
{
    const struct dirent *entry = readdir(folder);
    while (entry != NULL && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)) {
        entry = readdir(folder);
    }
    return entry != NULL ? entry->d_name : NULL;
}

// Moves a folder to the top level, with the next number that is free or belongs to an empty folder.
static bool move_to_top(struct removal *removal, int at, const char *name)
{
    char number[16];
    do {
        snprintf(number, sizeof number, "%u", removal->name++);
        if (renameat(at, name, removal->top, number) == 0) {
            return true;
        }
    } while (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR);
    return false;
}

static bool remove_entry(int at, const char *name)
{
    return unlinkat(at, name, 0) == 0 || unlinkat(at, name, AT_REMOVEDIR) == 0;
}

// Empties a folder of the top level. Returns whether anything was removed.
static bool empty_folder(struct removal *removal, const char *name)
{
    dev_t device;
    DIR *folder = NULL;
    bool went = false;
    const char *entry;
    if (!make_writable(removal->top, name, &device) || device != removal->device ||
        (folder = open_folder(removal->top, name)) == NULL) {
        return false;
    }
    while ((entry = next_name(folder)) != NULL) {
        const bool gone =
            remove_entry(dirfd(folder), entry) || (make_writable(dirfd(folder), entry, &device) &&
                                                   move_to_top(removal, dirfd(folder), entry));
        went = went || gone;
    }
    (void)closedir(folder);
    return went;
}

static bool empty_top(struct removal *removal, DIR *top)
{
    bool went = false;
    const char *entry;
    rewinddir(top);
    while ((entry = next_name(top)) != NULL) {
        const bool gone = remove_entry(removal->top, entry) || empty_folder(removal, entry);
        went = went || gone;
    }
    return went;
}

void tern_work_folder_remove(const char *path)
{
    struct removal removal = {.top = -1};
    if (unlink(path) == 0 || !make_writable(AT_FDCWD, path, &removal.device)) {
        return; // `path` was a file, which unlink() has removed, or does not exist
    }
    DIR *top = open_folder(AT_FDCWD, path);
    if (top == NULL) {
        return;
    }
    removal.top = dirfd(top);
    for (int i = 0; i < PASSES_MAX && empty_top(&removal, top); i++) {
    }
    (void)closedir(top);
    (void)rmdir(path);
}

// --- Making

// Creates the folder `path`, and in it a folder for this run, so that files of other runs do not interfere.
static bool make_folders(const char *path, char *run, char *absolute)
{
    struct stat facts;
    if (mkdir(path, 0700) != 0 &&
        (errno != EEXIST || lstat(path, &facts) != 0 || !S_ISDIR(facts.st_mode))) {
        return false;
    }
    return chmod(path, 0700) == 0 && mkdtemp(run) != NULL && chmod(run, 0700) == 0 &&
           realpath(run, absolute) != NULL;
}

static void fill_paths(struct tern_task_paths *paths)
{
    const char *folder = paths->folder;
    snprintf(paths->task, sizeof paths->task, "%s/task.json", folder);
    snprintf(paths->model, sizeof paths->model, "%s/model.safetensors", folder);
    snprintf(paths->base, sizeof paths->base, "%s/base.safetensors", folder);
    snprintf(paths->output, sizeof paths->output, "%s/trained.safetensors", folder);
    snprintf(paths->result, sizeof paths->result, "%s/result.json", folder);
}

enum tern_result tern_work_folder_make(const char *path, struct tern_task_paths *paths,
                                       char why[TERN_EXTERNAL_WHY_MAX])
{
    char run[PATH_MAX];
    char resolved[PATH_MAX];
    tern_work_folder_remove(path);
    const int len = snprintf(run, sizeof run, "%s/run-XXXXXX", path);
    if (len >= 0 && (size_t)len < sizeof run && !make_folders(path, run, resolved)) {
        const int error = errno;
        return tern_external_fail(why, error == ENOSPC ? TERN_ERR_NO_SPACE : TERN_ERR_IO,
                                  "the trainer's folder %s cannot be created: %s%s", path,
                                  strerror(error),
                                  access(path, F_OK) == 0 ? "; remove the file of that name" : "");
    }
    if (len < 0 || (size_t)len >= sizeof run || strlen(resolved) >= TERN_WORK_PATH_MAX) {
        tern_work_folder_remove(path);
        return tern_external_fail(why, TERN_ERR_TOO_LARGE,
                                  "the path of the trainer's folder %s is too long", path);
    }
    memcpy(paths->folder, resolved, strlen(resolved) + 1);
    fill_paths(paths);
    return TERN_OK;
}

// --- The task

// --- Fields

// Adds a field as the text NAME=VALUE of its environment variable. name: the key in JSON.
static void add(struct tern_task_file *file, const char *name, bool is_text, const char *format,
                ...) __attribute__((format(printf, 4, 5)));

static void add(struct tern_task_file *file, const char *name, bool is_text, const char *format,
                ...)
{
    struct tern_task_field *field = &file->fields[file->count++];
    size_t len = (size_t)snprintf(field->variable, sizeof field->variable, "TERN_%s=", name);
    va_list arguments;
    for (char *at = field->variable; *at != '='; at++) {
        *at = (char)toupper((unsigned char)*at);
    }
    field->name = name;
    field->is_text = is_text;
    field->value = field->variable + len;
    va_start(arguments, format);
    vsnprintf(field->value, sizeof field->variable - len, format, arguments);
    va_end(arguments);
}

static void add_integer(struct tern_task_file *file, const char *name, uint32_t value)
{
    add(file, name, false, "%" PRIu32, value);
}

static void add_float(struct tern_task_file *file, const char *name, float value)
{
    char text[TERN_FLOAT_TEXT];
    add(file, name, false, "%s", tern_float_text(value, text));
}

static void add_head(struct tern_task_file *file, const char *kind,
                     const struct tern_task_paths *paths)
{
    file->count = 0;
    add_integer(file, "interface", TERN_TASK_INTERFACE);
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

static void add_training(struct tern_task_file *file, const struct tern_train_task *task,
                         const struct tern_task_paths *paths, bool has_base)
{
    add(file, "output", true, "%s", paths->output);
    add(file, "base", true, "%s", has_base ? paths->base : paths->model);
    add_integer(file, "round", task->round);
    add_integer(file, "client", task->client);
    add_integer(file, "local_steps", task->local_steps);
    add_integer(file, "batch_size", task->batch_size);
    add_float(file, "learning_rate", task->learning_rate);
    add_float(file, "momentum", task->momentum);
    add_float(file, "weight_decay", task->weight_decay);
    add_float(file, "prox_mu", task->prox_mu);
    add_integer(file, "seed", tern_task_seed(task));
}

// --- Writing the task

static char *task_to_json(const struct tern_task_file *file)
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

// Adds the path of the task's file, which only the environment has, and lists all variables.
static void make_environment(struct tern_task_file *file, const struct tern_task_paths *paths)
{
    add(file, "task", true, "%s", paths->task);
    for (size_t i = 0; i < file->count; i++) {
        file->environment[i] = file->fields[i].variable;
    }
    file->environment[file->count] = NULL;
}

enum tern_result tern_task_file_write(struct tern_task_file *file,
                                      const struct tern_train_task *task,
                                      const struct tern_task_paths *paths, bool has_base,
                                      char why[TERN_EXTERNAL_WHY_MAX])
{
    add_head(file, task != NULL ? "train" : "evaluate", paths);
    if (task != NULL) {
        add_training(file, task, paths, has_base);
    }
    char *text = task_to_json(file);
    make_environment(file, paths);
    if (text == NULL) {
        return tern_external_fail(why, TERN_ERR_NO_MEMORY, "no memory for the trainer's task");
    }
    const size_t len = strlen(text);
    text[len] = '\n'; // replaces the NUL, so that the last line is complete
    const enum tern_result result = tern_new_file_write(paths->task, text, len + 1, why);
    cJSON_free(text);
    return result;
}

// --- The result

#define RESULT_MAX 65536
#define METRIC_NAME_MAX 65

// --- Valid ranges

static enum tern_result check_examples(uint32_t num_examples, char *why)
{
    if (num_examples == 0 || num_examples > TERN_TRAINER_EXAMPLES_MAX) {
        return tern_external_fail(why, TERN_ERR_CORRUPT,
                                  "its num_examples is %" PRIu32
                                  "; it must be from 1 to %d: a client without data cannot train",
                                  num_examples, TERN_TRAINER_EXAMPLES_MAX);
    }
    return TERN_OK;
}

static enum tern_result check_loss(float loss, char *why)
{
    return isfinite(loss) ? TERN_OK
                          : tern_external_fail(why, TERN_ERR_CORRUPT,
                                               "its loss is NaN or infinite: training diverged");
}

enum tern_result tern_train_result_check(const struct tern_train_result *result,
                                         uint32_t local_steps, char why[TERN_EXTERNAL_WHY_MAX])
{
    TERN_TRY(check_examples(result->num_examples, why));
    TERN_TRY(check_loss(result->loss, why));
    if (result->local_steps == 0 || result->local_steps > local_steps) {
        return tern_external_fail(why, TERN_ERR_CORRUPT,
                                  "its local_steps is %" PRIu32 "; the task requires %" PRIu32,
                                  result->local_steps, local_steps);
    }
    return TERN_OK;
}

enum tern_result tern_evaluate_result_check(const struct tern_evaluate_result *result,
                                            char why[TERN_EXTERNAL_WHY_MAX])
{
    TERN_TRY(check_examples(result->num_examples, why));
    TERN_TRY(check_loss(result->loss, why));
    return result->accuracy >= 0 && result->accuracy <= 1
               ? TERN_OK
               : tern_external_fail(why, TERN_ERR_CORRUPT, "its accuracy is %g; it must be 0 to 1",
                                    (double)result->accuracy);
}

// --- JSON

static enum tern_result read_number(const cJSON *root, const char *key, double *value, char *why)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, key);
    if (!cJSON_IsNumber(item)) {
        return tern_external_fail(why, TERN_ERR_CORRUPT, "result.json has no number \"%s\"", key);
    }
    *value = item->valuedouble;
    return TERN_OK;
}

static enum tern_result read_whole_number(const cJSON *root, const char *key, uint32_t *value,
                                          char *why)
{
    double number = 0;
    TERN_TRY(read_number(root, key, &number, why));
    if (!(number >= 0 && number <= UINT32_MAX) || number != floor(number)) {
        return tern_external_fail(why, TERN_ERR_CORRUPT,
                                  "its %s is %g; it must be a whole number below 2^32", key,
                                  number);
    }
    *value = (uint32_t)number;
    return TERN_OK;
}

// Copies the name of a metric, cut to the buffer's size. If the name is not printable UTF-8, replaces all bytes outside ASCII
// by '?'.
static void copy_metric_name(const char *from, char name[METRIC_NAME_MAX])
{
    snprintf(name, METRIC_NAME_MAX, "%s", from);
    const bool text = tern_utf8_is_text(name, strlen(name));
    for (char *at = name; *at != '\0'; at++) {
        const unsigned char byte = (unsigned char)*at;
        if (!text && (byte < 0x20 || byte >= 0x7f)) {
            *at = '?';
        }
    }
}

static enum tern_result read_metrics(const cJSON *root, char metrics[TERN_TRAINER_METRICS_MAX],
                                     char *why)
{
    const cJSON *object = cJSON_GetObjectItemCaseSensitive(root, "metrics");
    const cJSON *item = NULL;
    size_t len = 0;
    metrics[0] = '\0';
    if (object != NULL && !cJSON_IsObject(object)) {
        return tern_external_fail(why, TERN_ERR_CORRUPT, "its metrics are not a JSON object");
    }
    cJSON_ArrayForEach(item, object)
    {
        char text[160];
        char name[METRIC_NAME_MAX];
        copy_metric_name(item->string, name);
        const int size =
            snprintf(text, sizeof text, "%s%s=%.9g", len > 0 ? " " : "", name, item->valuedouble);
        if (!cJSON_IsNumber(item)) {
            return tern_external_fail(why, TERN_ERR_CORRUPT, "its metric \"%s\" is not a number",
                                      name);
        }
        if (size > 0 && len + (size_t)size < TERN_TRAINER_METRICS_MAX) {
            memcpy(metrics + len, text, (size_t)size + 1);
            len += (size_t)size;
        }
    }
    return TERN_OK;
}

static enum tern_result parse_result(const char *path, cJSON **root, char *why)
{
    uint8_t *text = NULL;
    size_t len = 0;
    TERN_TRY(tern_regular_file_read(path, RESULT_MAX, &text, &len, why));
    const char *end = (const char *)text;
    *root = cJSON_ParseWithLengthOpts((const char *)text, len, &end, 0);
    const size_t read = (size_t)(end - (const char *)text);
    const bool whole =
        cJSON_IsObject(*root) && strspn((const char *)text + read, " \t\r\n") == len - read;
    free(text);
    if (whole) {
        return TERN_OK;
    }
    const bool object = cJSON_IsObject(*root);
    cJSON_Delete(*root);
    return tern_external_fail(why, TERN_ERR_CORRUPT,
                              object ? "result.json has text after its JSON object"
                                     : "result.json is not a JSON object (JSON has no NaN)");
}

static enum tern_result read_train_fields(const cJSON *root, uint32_t local_steps,
                                          struct tern_train_result *result, char *why)
{
    double loss = 0;
    TERN_TRY(read_whole_number(root, "num_examples", &result->num_examples, why));
    TERN_TRY(read_number(root, "loss", &loss, why));
    result->loss = (float)loss;
    result->local_steps = local_steps;
    if (cJSON_GetObjectItemCaseSensitive(root, "local_steps") != NULL) {
        TERN_TRY(read_whole_number(root, "local_steps", &result->local_steps, why));
    }
    return tern_train_result_check(result, local_steps, why);
}

static enum tern_result read_evaluate_fields(const cJSON *root, struct tern_evaluate_result *result,
                                             char *why)
{
    double loss = 0;
    double accuracy = 0;
    TERN_TRY(read_whole_number(root, "num_examples", &result->num_examples, why));
    TERN_TRY(read_number(root, "loss", &loss, why));
    result->no_accuracy = cJSON_GetObjectItemCaseSensitive(root, "accuracy") == NULL;
    if (!result->no_accuracy) {
        TERN_TRY(read_number(root, "accuracy", &accuracy, why));
    }
    result->loss = (float)loss;
    result->accuracy = (float)accuracy;
    return tern_evaluate_result_check(result, why);
}

// Copies the first TERN_METRICS_MAX metrics with short names to the result, except loss and accuracy, for which it has fields.
static void copy_metrics(const cJSON *root, struct tern_evaluate_result *result)
{
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(root, "metrics"))
    {
        const size_t len = strlen(item->string);
        const bool fits = len > 0 && len < TERN_METRIC_NAME_MAX &&
                          tern_utf8_is_text(item->string, len) &&
                          isfinite((float)item->valuedouble);
        if (fits && strcmp(item->string, "loss") != 0 && strcmp(item->string, "accuracy") != 0 &&
            result->metric_count < TERN_METRICS_MAX) {
            struct tern_metric *metric = &result->metrics[result->metric_count++];
            memcpy(metric->name, item->string, len + 1);
            metric->value = (float)item->valuedouble;
        }
    }
}

enum tern_result tern_trainer_result_read(const char *path, uint32_t local_steps,
                                          struct tern_train_result *result,
                                          char metrics[TERN_TRAINER_METRICS_MAX],
                                          char why[TERN_EXTERNAL_WHY_MAX])
{
    cJSON *root = NULL;
    TERN_TRY(parse_result(path, &root, why));
    enum tern_result done = read_train_fields(root, local_steps, result, why);
    done = done == TERN_OK ? read_metrics(root, metrics, why) : done;
    cJSON_Delete(root);
    return done;
}

enum tern_result tern_evaluate_result_read(const char *path, struct tern_evaluate_result *result,
                                           char metrics[TERN_TRAINER_METRICS_MAX],
                                           char why[TERN_EXTERNAL_WHY_MAX])
{
    cJSON *root = NULL;
    TERN_TRY(parse_result(path, &root, why));
    enum tern_result done = read_evaluate_fields(root, result, why);
    done = done == TERN_OK ? read_metrics(root, metrics, why) : done;
    if (done == TERN_OK) {
        copy_metrics(root, result);
    }
    cJSON_Delete(root);
    return done;
}

// --- The model

#define HEADER_MAX (4u << 20)
#define CHUNK 4096 // values that are read or written at once

enum tern_result tern_external_fail(char why[TERN_EXTERNAL_WHY_MAX], enum tern_result result,
                                    const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, TERN_EXTERNAL_WHY_MAX, format, arguments);
    va_end(arguments);
    return result;
}

static const char *file_name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

// --- Any file

// Opens a regular file of at most `most` bytes that a trainer has written. The caller closes *fd.
static enum tern_result open_regular(const char *path, uint64_t most, int *fd, uint64_t *size,
                                     char why[TERN_EXTERNAL_WHY_MAX])
{
    const char *name = file_name_of(path);
    struct stat facts;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (*fd < 0 && errno == ENOENT) {
        return tern_external_fail(why, TERN_ERR_NOT_FOUND, "the trainer wrote no %s", name);
    }
    if (*fd < 0) {
        return tern_external_fail(why, TERN_ERR_IO, "%s cannot be opened: %s", name,
                                  errno == ELOOP ? "it is a symbolic link; write a regular file"
                                                 : strerror(errno));
    }
    if (fstat(*fd, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        (void)close(*fd);
        return tern_external_fail(why, TERN_ERR_CORRUPT, "%s is not a regular file", name);
    }
    *size = (uint64_t)facts.st_size;
    if (*size > most) {
        (void)close(*fd);
        return tern_external_fail(why, TERN_ERR_TOO_LARGE,
                                  "%s has %" PRIu64 " bytes; at most %" PRIu64 " fit", name, *size,
                                  most);
    }
    return TERN_OK;
}

enum tern_result tern_regular_file_read(const char *path, size_t most, uint8_t **data, size_t *len,
                                        char why[TERN_EXTERNAL_WHY_MAX])
{
    int fd = -1;
    uint64_t size = 0;
    TERN_TRY(open_regular(path, most, &fd, &size, why));
    const enum tern_result result = tern_file_read_open(fd, most, data, len);
    return result == TERN_OK ? TERN_OK
                             : tern_external_fail(why, result, "%s cannot be read: %s",
                                                  file_name_of(path), tern_result_sentence(result));
}

// --- Writing

static FILE *create_file(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd >= 0 ? fdopen(fd, "w") : NULL;
}

// Closes the file. written: all writes have succeeded. Returns an error unless closing succeeds, too.
static enum tern_result finish_file(FILE *file, const char *path, bool written,
                                    char why[TERN_EXTERNAL_WHY_MAX])
{
    return file != NULL && fclose(file) == 0 && written
               ? TERN_OK
               : tern_external_fail(why, errno == ENOSPC ? TERN_ERR_NO_SPACE : TERN_ERR_IO,
                                    "%s cannot be written: %s", path, strerror(errno));
}

enum tern_result tern_new_file_write(const char *path, const void *bytes, size_t len,
                                     char why[TERN_EXTERNAL_WHY_MAX])
{
    FILE *file = create_file(path);
    return finish_file(file, path, file != NULL && fwrite(bytes, len, 1, file) == 1, why);
}

static bool write_values(FILE *file, const float *values, uint32_t count)
{
    uint8_t bytes[CHUNK * 4] = {0};
    for (uint32_t done = 0; done < count; done += CHUNK) {
        const uint32_t n = count - done < CHUNK ? count - done : CHUNK;
        for (uint32_t i = 0; i < n; i++) {
            tern_put_f32(bytes + 4 * (size_t)i, values[done + i]);
        }
        if (fwrite(bytes, 4, n, file) != n) {
            return false;
        }
    }
    return true;
}

static bool write_tensors(FILE *file, const struct tern_model *model, const float *trained,
                          const float *others)
{
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        const struct tern_tensor *tensor = &model->tensors[i];
        const float *from = tensor->offset < tern_model_trained(model) ? trained : others;
        if (!write_values(file, from + tensor->offset, tensor->count)) {
            return false;
        }
    }
    return true;
}

enum tern_result tern_model_file_write(const char *path, const struct tern_model *model,
                                       const float *trained, const float *others,
                                       char why[TERN_EXTERNAL_WHY_MAX])
{
    char reason[TERN_SAFETENSORS_WHY_MAX] = "";
    uint8_t *head = NULL;
    size_t len = 0;
    enum tern_result result = tern_safetensors_make_model_head(model, &head, &len, reason);
    if (result != TERN_OK) {
        return tern_external_fail(why, result, "the model cannot be written for the trainer: %s",
                                  tern_result_sentence(result));
    }
    FILE *file = create_file(path);
    const bool written = file != NULL && fwrite(head, len, 1, file) == 1 &&
                         write_tensors(file, model, trained, others);
    free(head);
    return finish_file(file, path, written, why);
}

// --- Reading

static const struct tern_tensor *find_tensor(const struct tern_model *model, const char *name)
{
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        if (strcmp(model->tensors[i].name, name) == 0) {
            return &model->tensors[i];
        }
    }
    return NULL;
}

static const struct tern_safetensors_entry *find_entry(const struct tern_safetensors *file,
                                                       const char *name)
{
    for (size_t i = 0; i < file->count; i++) {
        if (strcmp(file->entries[i].name, name) == 0) {
            return &file->entries[i];
        }
    }
    return NULL;
}

static bool has_shape(const struct tern_safetensors_entry *entry, const struct tern_tensor *tensor)
{
    uint32_t dims[TERN_TENSOR_MAX_DIMS];
    uint32_t dim_count = 0;
    return tern_safetensors_dims(entry, dims, TERN_TENSOR_MAX_DIMS, &dim_count) &&
           dim_count == tensor->dim_count &&
           memcmp(dims, tensor->dims, dim_count * sizeof *dims) == 0;
}

// Reads `len` bytes at offset `at`. Returns false if the file is shorter or cannot be read.
static bool read_bytes(int fd, uint8_t *bytes, size_t len, uint64_t at)
{
    size_t done = 0;
    while (done < len) {
        const ssize_t got = pread(fd, bytes + done, len - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        done += (size_t)got;
    }
    return true;
}

static enum tern_result fail_reading(char *why)
{
    return tern_external_fail(why, TERN_ERR_IO,
                              "its file cannot be read to the end, or became shorter meanwhile");
}

// Reads a tensor's values and checks that they are finite. values: receives them; NULL: only check.
static enum tern_result read_values(int fd, const struct tern_safetensors_entry *entry,
                                    float *values, char *why)
{
    uint8_t bytes[CHUNK * 4];
    float chunk[CHUNK];
    for (uint64_t done = 0; done < entry->count; done += CHUNK) {
        const uint64_t left = entry->count - done;
        const uint32_t n = left < CHUNK ? (uint32_t)left : CHUNK;
        if (!read_bytes(fd, bytes, (size_t)n * entry->width, entry->offset + done * entry->width)) {
            return fail_reading(why);
        }
        tern_safetensors_convert(entry->kind, bytes, n, chunk);
        if (tern_kernel_peak(chunk, (uint32_t)n) >= TERN_INFINITY_BITS) {
            return tern_external_fail(why, TERN_ERR_NON_FINITE,
                                      "tensor '%s' contains NaN or infinity: training diverged",
                                      entry->name);
        }
        if (values != NULL) {
            memcpy(values + done, chunk, n * sizeof *chunk);
        }
    }
    return TERN_OK;
}

static enum tern_result read_tensor(int fd, const struct tern_safetensors_entry *entry,
                                    const struct tern_tensor *tensor, float *values, char *why)
{
    char shape[TERN_SAFETENSORS_SHAPE_MAX];
    if (entry == NULL) {
        return tern_external_fail(why, TERN_ERR_MODEL_MISMATCH,
                                  "its file lacks the model's tensor '%s'", tensor->name);
    }
    if (!has_shape(entry, tensor)) {
        return tern_external_fail(
            why, TERN_ERR_MODEL_MISMATCH, "tensor '%s' has the shape %.100s; the model's is %s",
            tensor->name, entry->shape, tern_safetensors_shape(tensor, shape));
    }
    if (entry->kind == TERN_SAFETENSORS_OTHER) {
        return tern_external_fail(why, TERN_ERR_MODEL_MISMATCH,
                                  "tensor '%s' is %.20s; write F32 (F16 and BF16 are read, too)",
                                  tensor->name, entry->dtype);
    }
    return read_values(fd, entry, values, why);
}

static enum tern_result read_tensors(int fd, const struct tern_safetensors *file,
                                     const struct tern_model *model, float *trained, char *why)
{
    for (size_t i = 0; i < file->count; i++) {
        if (find_tensor(model, file->entries[i].name) == NULL) {
            return tern_external_fail(why, TERN_ERR_MODEL_MISMATCH,
                                      "tensor '%.100s' is not one of the model's",
                                      file->entries[i].name);
        }
    }
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        const struct tern_tensor *tensor = &model->tensors[i];
        float *values =
            tensor->offset < tern_model_trained(model) ? trained + tensor->offset : NULL;
        TERN_TRY(read_tensor(fd, find_entry(file, tensor->name), tensor, values, why));
    }
    return TERN_OK;
}

// Reads the header of a safetensors file, at most HEADER_MAX bytes and what the file has, into malloc'ed *head.
static enum tern_result read_head(int fd, uint64_t size, uint8_t **head, size_t *len, char *why)
{
    uint8_t length[TERN_SAFETENSORS_LENGTH_BYTES] = {0};
    const size_t first = size < sizeof length ? (size_t)size : sizeof length;
    if (!read_bytes(fd, length, first, 0)) {
        return fail_reading(why);
    }
    const uint64_t header = tern_get_le64(length);
    const uint64_t most = size - first < HEADER_MAX ? size - first : HEADER_MAX;
    *len = first + (size_t)(header < most ? header : most);
    *head = malloc(*len + sizeof length);
    if (*head == NULL) {
        return tern_external_fail(why, TERN_ERR_NO_MEMORY, "no memory for the file's header");
    }
    return read_bytes(fd, *head, *len, 0) ? TERN_OK : fail_reading(why);
}

static enum tern_result parse(int fd, uint64_t size, const struct tern_model *model, float *trained,
                              char *why)
{
    char reason[TERN_SAFETENSORS_WHY_MAX] = "";
    struct tern_safetensors file;
    uint8_t *head = NULL;
    size_t len = 0;
    enum tern_result result = read_head(fd, size, &head, &len, why);
    if (result == TERN_OK) {
        result = tern_safetensors_parse_head(head, len, size, &file, reason);
        if (result != TERN_OK) {
            (void)tern_external_fail(why, result, "its file is not safetensors: %.300s", reason);
        }
    }
    free(head);
    TERN_TRY(result);
    result = read_tensors(fd, &file, model, trained, why);
    tern_safetensors_free(&file);
    return result;
}

enum tern_result tern_model_file_read(const char *path, const struct tern_model *model,
                                      float *trained, char why[TERN_EXTERNAL_WHY_MAX])
{
    int fd = -1;
    uint64_t size = 0;
    const uint64_t most = HEADER_MAX + sizeof(float) * (uint64_t)model->count;
    TERN_TRY(open_regular(path, most, &fd, &size, why));
    const enum tern_result result = parse(fd, size, model, trained, why);
    (void)close(fd);
    return result;
}
