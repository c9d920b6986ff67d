#include "hosted/input.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

void tern_why_finish(char why[TERN_INPUT_WHY_MAX])
{
    for (char *c = why; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 127) {
            *c = '?';
        }
    }
}

enum tern_result tern_input_refuse(const struct tern_input *input, enum tern_result result,
                                   const char *format, ...)
{
    int used = snprintf(input->why, TERN_INPUT_WHY_MAX, "%.120s: ", input->name);
    va_list args;
    va_start(args, format);
    vsnprintf(input->why + used, (size_t)(TERN_INPUT_WHY_MAX - used), format, args);
    va_end(args);
    tern_why_finish(input->why);
    return result;
}

enum tern_result tern_input_open(struct tern_input *input, const char *path, uint64_t limit,
                                 char *why)
{
    *input = (struct tern_input){.name = path, .limit = limit, .why = why};
    struct stat info;
    if (stat(path, &info) != 0) {
        enum tern_result result = errno == ENOENT ? TERN_ERR_NOT_FOUND : TERN_ERR_IO;
        return tern_input_refuse(input, result, "cannot be opened: %s", strerror(errno));
    }
    if (!S_ISREG(info.st_mode)) {
        return tern_input_refuse(input, TERN_ERR_NOT_FOUND, "is not a file");
    }
    gzFile file = gzopen(path, "rb");
    if (file == NULL) {
        return tern_input_refuse(input, TERN_ERR_IO, "cannot be opened: %s", strerror(errno));
    }
    gzbuffer(file, 1u << 17);
    input->file = file;
    input->most = (uint64_t)info.st_size;
    if (!gzdirect(file)) {
        input->most *= TERN_DEFLATE_MOST;
    }
    return TERN_OK;
}

void tern_input_from_memory(struct tern_input *input, const uint8_t *bytes, size_t len,
                            uint64_t limit, char *why)
{
    *input = (struct tern_input){
        .name = "(memory)", .next = bytes, .left = len, .most = len, .limit = limit, .why = why};
}

void tern_input_close(struct tern_input *input)
{
    if (input->file != NULL) {
        gzclose(input->file);
        input->file = NULL;
    }
}

enum tern_result tern_input_rewind(struct tern_input *input)
{
    if (input->read != NULL) {
        return TERN_ERR_ARGUMENT;
    }
    if (input->file != NULL && gzrewind(input->file) != 0) {
        return tern_input_refuse(input, TERN_ERR_IO, "cannot be read a second time");
    }
    if (input->file == NULL) {
        input->next -= input->offset;
        input->left += input->offset;
    }
    input->offset = 0;
    return TERN_OK;
}

static enum tern_result read_file(struct tern_input *input, void *dst, unsigned len, size_t *got)
{
    int count = gzread(input->file, dst, len);
    int code = Z_OK;
    const char *message = gzerror(input->file, &code);
    // For a truncated stream gzread() returns a count as at the end; only gzerror() reports the
    // error.
    if (count >= 0 && code == Z_OK) {
        *got = (size_t)count;
        return TERN_OK;
    }
    enum tern_result result = code == Z_ERRNO ? TERN_ERR_IO : TERN_ERR_CORRUPT;
    return tern_input_refuse(input, result, "cannot be decompressed near byte %llu: %s",
                             (unsigned long long)input->offset,
                             code == Z_ERRNO ? strerror(errno) : message);
}

static void read_memory(struct tern_input *input, void *dst, size_t len, size_t *got)
{
    *got = len < input->left ? len : (size_t)input->left;
    if (*got > 0) {
        memcpy(dst, input->next, *got);
        input->next += *got;
        input->left -= *got;
    }
}

enum tern_result tern_input_read(struct tern_input *input, void *dst, size_t len, size_t *got)
{
    *got = 0;
    while (*got < len) {
        size_t part = len - *got < (1u << 30) ? len - *got : 1u << 30;
        size_t now = 0;
        if (input->read != NULL) {
            TERN_TRY(input->read(input, (uint8_t *)dst + *got, part, &now));
        } else if (input->file != NULL) {
            TERN_TRY(read_file(input, (uint8_t *)dst + *got, (unsigned)part, &now));
        } else {
            read_memory(input, (uint8_t *)dst + *got, part, &now);
        }
        input->offset += now;
        *got += now;
        if (input->offset > input->limit) {
            return tern_input_refuse(input, TERN_ERR_TOO_LARGE,
                                     "holds more than the limit of %llu bytes",
                                     (unsigned long long)input->limit);
        }
        if (now == 0) {
            break;
        }
    }
    return TERN_OK;
}

enum tern_result tern_input_read_exact(struct tern_input *input, void *dst, size_t len,
                                       const char *what)
{
    size_t got;
    TERN_TRY(tern_input_read(input, dst, len, &got));
    if (got < len) {
        return tern_input_refuse(input, TERN_ERR_CORRUPT, "ends at byte %llu, within %s",
                                 (unsigned long long)input->offset, what);
    }
    return TERN_OK;
}

enum tern_result tern_input_expect_end(struct tern_input *input)
{
    uint8_t extra;
    size_t got;
    uint64_t end = input->offset;
    // Lifts the limit, so that an extra byte is reported as data after the end and not as an
    // exceeded limit.
    input->limit = UINT64_MAX;
    TERN_TRY(tern_input_read(input, &extra, 1, &got));
    if (got > 0) {
        return tern_input_refuse(input, TERN_ERR_CORRUPT,
                                 "goes on at byte %llu, where its header says it ends",
                                 (unsigned long long)end);
    }
    return TERN_OK;
}
