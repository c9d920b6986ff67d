#define _GNU_SOURCE
#include "external/model_file.h"
#include "hosted/files.h"
#include "hosted/safetensors.h"
#include "util/bytes.h"

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
#define CHUNK 4096 // values that are read or written at once: no model is in memory for its file

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

// Opens a file that a trainer wrote. *fd: the caller's.
static enum tern_result open_regular(const char *path, uint64_t most, int *fd, uint64_t *size,
                                     char why[TERN_EXTERNAL_WHY_MAX])
{
    const char *name = last_part(path);
    struct stat facts;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (*fd < 0 && errno == ENOENT) {
        return tern_external_fail(why, TERN_ERR_NOT_FOUND, "it wrote no %s", name);
    }
    if (*fd < 0) {
        return tern_external_fail(why, TERN_ERR_IO, "%s cannot be opened: %s", name,
                                  errno == ELOOP ? "it is a symbolic link, and none is followed"
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
                                                  last_part(path), tern_result_sentence(result));
}

// --- Writing

static FILE *create(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd >= 0 ? fdopen(fd, "w") : NULL;
}

// put: all that was to be written was.
static enum tern_result finish(FILE *file, const char *path, bool put,
                               char why[TERN_EXTERNAL_WHY_MAX])
{
    return file != NULL && fclose(file) == 0 && put
               ? TERN_OK
               : tern_external_fail(why, errno == ENOSPC ? TERN_ERR_NO_SPACE : TERN_ERR_IO,
                                    "%s cannot be written: %s", path, strerror(errno));
}

enum tern_result tern_new_file_write(const char *path, const void *bytes, size_t len,
                                     char why[TERN_EXTERNAL_WHY_MAX])
{
    FILE *file = create(path);
    return finish(file, path, file != NULL && fwrite(bytes, len, 1, file) == 1, why);
}

static bool put_values(FILE *file, const float *values, uint32_t count)
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

static bool put_tensors(FILE *file, const struct tern_model *model, const float *trained,
                        const float *others)
{
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        const struct tern_tensor *tensor = &model->tensors[i];
        const float *from = tensor->offset < tern_model_trained(model) ? trained : others;
        if (!put_values(file, from + tensor->offset, tensor->count)) {
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
    FILE *file = create(path);
    const bool put = file != NULL && fwrite(head, len, 1, file) == 1 &&
                     put_tensors(file, model, trained, others);
    free(head);
    return finish(file, path, put, why);
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

// Bytes of the file from `at` on. False: it does not have them any more, or cannot be read.
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

static enum tern_result gone(char *why)
{
    return tern_external_fail(why, TERN_ERR_IO,
                              "what it wrote cannot be read to its end, or became shorter");
}

// values: NULL where the tensor is frozen, of which only the client's are used.
static enum tern_result read_values(int fd, const struct tern_safetensors_entry *entry,
                                    float *values, char *why)
{
    uint8_t bytes[CHUNK * 4];
    float chunk[CHUNK];
    for (uint64_t done = 0; done < entry->count; done += CHUNK) {
        const uint64_t left = entry->count - done;
        const uint32_t n = left < CHUNK ? (uint32_t)left : CHUNK;
        if (!read_bytes(fd, bytes, (size_t)n * entry->width, entry->offset + done * entry->width)) {
            return gone(why);
        }
        tern_safetensors_convert(entry->kind, bytes, n, chunk);
        if (!all_finite(chunk, n)) {
            return tern_external_fail(why, TERN_ERR_NON_FINITE,
                                      "tensor '%s' holds NaN or infinity: training diverged",
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

// The file's bytes up to the data; as many as there are of a file that is shorter. malloc'ed.
static enum tern_result read_head(int fd, uint64_t size, uint8_t **head, size_t *len, char *why)
{
    uint8_t length[TERN_SAFETENSORS_LENGTH_BYTES] = {0};
    const size_t there = size < sizeof length ? (size_t)size : sizeof length;
    if (!read_bytes(fd, length, there, 0)) {
        return gone(why);
    }
    const uint64_t header = tern_get_le64(length);
    const uint64_t most = size - there < HEADER_MAX ? size - there : HEADER_MAX;
    *len = there + (size_t)(header < most ? header : most);
    *head = malloc(*len + sizeof length);
    if (*head == NULL) {
        return tern_external_fail(why, TERN_ERR_NO_MEMORY, "no memory for its header");
    }
    return read_bytes(fd, *head, *len, 0) ? TERN_OK : gone(why);
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
            (void)tern_external_fail(why, result, "what it wrote is not safetensors: %.300s",
                                     reason);
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
