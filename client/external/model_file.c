#define _GNU_SOURCE
#include "external/model_file.h"
#include "hosted/files.h"
#include "hosted/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_MAX (4u << 20)

enum tern_result tern_external_fail(char why[TERN_EXTERNAL_WHY_MAX], enum tern_result result,
                                    const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, TERN_EXTERNAL_WHY_MAX, format, arguments);
    va_end(arguments);
    return result;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

// --- Any file

enum tern_result tern_regular_file_read(const char *path, size_t most, uint8_t **data, size_t *len,
                                        char why[TERN_EXTERNAL_WHY_MAX])
{
    const char *name = last_part(path);
    struct stat facts;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) {
        return tern_external_fail(why, TERN_ERR_NOT_FOUND, "it wrote no %s", name);
    }
    if (fd < 0) {
        return tern_external_fail(why, TERN_ERR_IO, "%s cannot be opened: %s", name,
                                  errno == ELOOP ? "it is a symbolic link, and none is followed"
                                                 : strerror(errno));
    }
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        (void)close(fd);
        return tern_external_fail(why, TERN_ERR_CORRUPT, "%s is not a regular file", name);
    }
    if ((uint64_t)facts.st_size > most) {
        (void)close(fd);
        return tern_external_fail(why, TERN_ERR_TOO_LARGE,
                                  "%s has %" PRIu64 " bytes; at most %zu fit", name,
                                  (uint64_t)facts.st_size, most);
    }
    const enum tern_result result = tern_file_read_open(fd, most, data, len);
    return result == TERN_OK ? TERN_OK
                             : tern_external_fail(why, result, "%s cannot be read: %s", name,
                                                  tern_result_sentence(result));
}

// --- Writing

enum tern_result tern_new_file_write(const char *path, const void *bytes, size_t len,
                                     char why[TERN_EXTERNAL_WHY_MAX])
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    const bool put = file != NULL && fwrite(bytes, len, 1, file) == 1;
    return file != NULL && fclose(file) == 0 && put
               ? TERN_OK
               : tern_external_fail(why, errno == ENOSPC ? TERN_ERR_NO_SPACE : TERN_ERR_IO,
                                    "%s cannot be written: %s", path, strerror(errno));
}

enum tern_result tern_model_file_write(const char *path, const struct tern_model *model,
                                       const float *weights, char why[TERN_EXTERNAL_WHY_MAX])
{
    char reason[TERN_SAFETENSORS_WHY_MAX] = "";
    uint8_t *bytes = NULL;
    size_t len = 0;
    enum tern_result result = tern_safetensors_make_model(
        model, weights, NULL, NULL, TERN_SAFETENSORS_F32, &bytes, &len, reason);
    if (result != TERN_OK) {
        return tern_external_fail(why, result, "the model cannot be written for the trainer: %s",
                                  tern_result_sentence(result));
    }
    result = tern_new_file_write(path, bytes, len, why);
    free(bytes);
    return result;
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

static bool all_finite(const float *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) {
            return false;
        }
    }
    return true;
}

static bool has_shape(const struct tern_safetensors_entry *entry, const struct tern_tensor *tensor)
{
    uint32_t dims[TERN_TENSOR_MAX_DIMS];
    uint32_t dim_count = 0;
    return tern_safetensors_dims(entry, dims, TERN_TENSOR_MAX_DIMS, &dim_count) &&
           dim_count == tensor->dim_count &&
           memcmp(dims, tensor->dims, dim_count * sizeof *dims) == 0;
}

static enum tern_result read_tensor(const struct tern_safetensors_entry *entry,
                                    const struct tern_tensor *tensor, float *values, char *why)
{
    char shape[TERN_SAFETENSORS_SHAPE_MAX];
    if (entry == NULL) {
        return tern_external_fail(why, TERN_ERR_MODEL_MISMATCH,
                                  "the model's tensor '%s' is not in what it wrote", tensor->name);
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
    tern_safetensors_floats(entry, values);
    return all_finite(values, tensor->count)
               ? TERN_OK
               : tern_external_fail(why, TERN_ERR_NON_FINITE,
                                    "tensor '%s' holds NaN or infinity: training diverged",
                                    tensor->name);
}

static enum tern_result read_tensors(const struct tern_safetensors *file,
                                     const struct tern_model *model, float *weights, char *why)
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
        TERN_TRY(
            read_tensor(find_entry(file, tensor->name), tensor, weights + tensor->offset, why));
    }
    return TERN_OK;
}

static enum tern_result parse(const uint8_t *bytes, size_t len, const struct tern_model *model,
                              float *weights, char *why)
{
    char reason[TERN_SAFETENSORS_WHY_MAX] = "";
    struct tern_safetensors file;
    enum tern_result result = tern_safetensors_parse(bytes, len, &file, reason);
    if (result != TERN_OK) {
        return tern_external_fail(why, result, "what it wrote is not safetensors: %.300s", reason);
    }
    result = read_tensors(&file, model, weights, why);
    tern_safetensors_free(&file);
    return result;
}

enum tern_result tern_model_file_read(const char *path, const struct tern_model *model,
                                      float *weights, char why[TERN_EXTERNAL_WHY_MAX])
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    const size_t most = HEADER_MAX + sizeof(float) * (size_t)model->count;
    TERN_TRY(tern_regular_file_read(path, most, &bytes, &len, why));
    const enum tern_result result = parse(bytes, len, model, weights, why);
    free(bytes);
    return result;
}
