#include "float_file.h"

#include "codec/codec.h"
#include "hosted/files.h"
#include "util/bytes.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Puts the values of raw bytes in their place: on a little-endian machine they stay as they are.
static void to_floats(uint8_t *raw, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float value = tern_get_f32(raw + 4 * i);
        memcpy(raw + 4 * i, &value, sizeof value);
    }
}

static bool is_standard(const char *path)
{
    return strcmp(path, "-") == 0;
}

// What to open for a file that is read.
static const char *input_path(const char *path)
{
    return is_standard(path) ? "/dev/stdin" : path;
}

static void read_fail(const struct tern_cli *cli, enum tern_result result, const char *path)
{
    (void)tern_cli_fail(cli, result, "cannot read %s: %s", path,
                        result == TERN_ERR_TOO_LARGE || errno == 0 ? tern_result_sentence(result)
                                                                   : strerror(errno));
}

enum tern_result float_file_read(const struct tern_cli *cli, const char *path,
                                 struct float_file *file)
{
    uint8_t *raw = NULL;
    size_t len = 0;
    errno = 0;
    enum tern_result result =
        tern_file_read(input_path(path), 4 * TERN_CODEC_VALUES_MAX, &raw, &len);
    if (result != TERN_OK) {
        read_fail(cli, result, path);
        return result;
    }
    if (len % 4 != 0) {
        (void)tern_cli_fail(cli, TERN_ERR_CORRUPT,
                            "%s has %zu bytes, which is not a whole number of float32 values", path,
                            len);
        free(raw);
        return TERN_ERR_CORRUPT;
    }
    to_floats(raw, len / 4);
    // malloc'ed, so it is aligned for floats.
    *file = (struct float_file){.values = (float *)(void *)raw, .count = len / 4};
    return TERN_OK;
}

enum tern_result output_write(const struct tern_cli *cli, const char *path, const void *data,
                              size_t len)
{
    enum tern_result result = TERN_OK;
    if (!is_standard(path)) {
        result = tern_file_write(path, data, len, 0644);
    } else if (fwrite(data, 1, len, stdout) != len || fflush(stdout) != 0) {
        result = TERN_ERR_IO;
    }
    if (result != TERN_OK) {
        (void)tern_cli_fail(cli, result, "cannot write %s: %s",
                            is_standard(path) ? "the output" : path, strerror(errno));
    }
    return result;
}

enum tern_result float_file_write(const struct tern_cli *cli, const char *path, const float *values,
                                  size_t count)
{
    uint8_t *raw = malloc(4 * count + 1);
    if (raw == NULL) {
        (void)tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "no memory for %zu values", count);
        return TERN_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        tern_put_f32(raw + 4 * i, values[i]);
    }
    enum tern_result result = output_write(cli, path, raw, 4 * count);
    free(raw);
    return result;
}

enum tern_result payload_read(const struct tern_cli *cli, const char *path, uint8_t **payload,
                              size_t *len, size_t *count)
{
    uint64_t wanted = 0;
    if (!tern_cli_flag(cli, "count")) {
        (void)tern_cli_fail(cli, TERN_ERR_CONFIG,
                            "a payload does not say how many values it has; give --count N");
        return TERN_ERR_CONFIG;
    }
    TERN_TRY(tern_cli_number(cli, "count", 0, 0, TERN_CODEC_VALUES_MAX, &wanted));
    errno = 0;
    enum tern_result result =
        tern_file_read(input_path(path), TERN_CODEC_PAYLOAD_MAX, payload, len);
    if (result != TERN_OK) {
        read_fail(cli, result, path);
        return result;
    }
    *count = (size_t)wanted;
    return TERN_OK;
}

int payload_fail(const struct tern_cli *cli, enum tern_result result, const char *path,
                 size_t count)
{
    return tern_cli_fail(cli, result, "%s is not a payload of %zu values: %s%s", path, count,
                         tern_result_sentence(result),
                         result == TERN_ERR_CORRUPT ? " Is --count right?" : "");
}
