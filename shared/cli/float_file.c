#include "float_file.h"

#include "hosted/files.h"
#include "util/bytes.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Converts little-endian bytes to floats in place; on a little-endian machine nothing changes.
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

// Returns the path to open for reading.
static const char *input_path(const char *path)
{
    return is_standard(path) ? "/dev/stdin" : path;
}

enum tern_result tern_named_file_read(const struct tern_cli *cli, const char *path, uint64_t most,
                                      uint8_t **data, size_t *len)
{
    errno = 0;
    enum tern_result result = tern_file_read(input_path(path), (size_t)most, data, len);
    return tern_cli_refuse(cli, result, "cannot read %s: %s", path,
                           result == TERN_ERR_TOO_LARGE || errno == 0 ? tern_result_sentence(result)
                                                                      : strerror(errno));
}

enum tern_result tern_float_file_check(const struct tern_cli *cli, const char *path, size_t len)
{
    if (len % 4 != 0) {
        return tern_cli_refuse(cli, TERN_ERR_CORRUPT,
                               "%s has %zu bytes, which is not a whole number of float32 values",
                               path, len);
    }
    if (len / 4 > TERN_CODEC_VALUES_MAX) {
        return tern_cli_refuse(cli, TERN_ERR_TOO_LARGE, "%s has over %" PRIu64 " values", path,
                               TERN_CODEC_VALUES_MAX);
    }
    return TERN_OK;
}

enum tern_result tern_float_file_read(const struct tern_cli *cli, const char *path,
                                      struct float_file *file)
{
    uint8_t *raw = NULL;
    size_t len = 0;
    TERN_TRY(tern_named_file_read(cli, path, TERN_CODEC_FILE_MAX, &raw, &len));
    enum tern_result result = tern_float_file_check(cli, path, len);
    if (result != TERN_OK) {
        free(raw);
        return result;
    }
    to_floats(raw, len / 4);
    // malloc() aligns the bytes for floats.
    *file = (struct float_file){.values = (float *)(void *)raw, .count = len / 4};
    return TERN_OK;
}

enum tern_result tern_output_write(const struct tern_cli *cli, const char *path, const void *data,
                                   size_t len)
{
    enum tern_result result = TERN_OK;
    if (!is_standard(path)) {
        result = tern_file_output(path, data, len, 0644);
    } else if (fwrite(data, 1, len, stdout) != len || fflush(stdout) != 0) {
        result = TERN_ERR_IO;
    }
    return tern_cli_refuse(cli, result, "cannot write %s: %s",
                           is_standard(path) ? "the output" : path, strerror(errno));
}

void tern_output_take_back(const char *path)
{
    if (!is_standard(path)) {
        tern_file_take_back(path);
    }
}

enum tern_result tern_float_file_write(const struct tern_cli *cli, const char *path,
                                       const float *values, size_t count)
{
    uint8_t *raw = malloc(4 * count + 1);
    if (raw == NULL) {
        return tern_cli_refuse(cli, TERN_ERR_NO_MEMORY, "no memory for %zu values", count);
    }
    for (size_t i = 0; i < count; i++) {
        tern_put_f32(raw + 4 * i, values[i]);
    }
    enum tern_result result = tern_output_write(cli, path, raw, 4 * count);
    free(raw);
    return result;
}

// --- One file in two roles

// Identifies a file, or the place where a missing file would be created.
struct identity {
    bool known;
    dev_t device; // of the file, or of its folder if the file does not exist
    ino_t inode;
    char name[NAME_MAX + 1]; // of a missing file in its folder; "" for an existing file
};

// Identifies a missing file by its folder and its name.
static void identify_absent(const char *path, struct identity *identity)
{
    char folder[PATH_MAX];
    struct stat facts;
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    if (strlen(path) >= sizeof folder || strlen(name) > NAME_MAX) {
        return;
    }
    (void)snprintf(folder, sizeof folder, "%.*s.", (int)(name - path), path);
    if (stat(folder, &facts) == 0) {
        *identity = (struct identity){
            .known = true, .device = facts.st_dev, .inode = facts.st_ino, .name = ""};
        strcpy(identity->name, name);
    }
}

static void identify(const struct role *role, struct identity *identity)
{
    struct stat facts;
    bool standard = strcmp(role->path, "-") == 0;
    int found = standard ? fstat(role->written ? STDOUT_FILENO : STDIN_FILENO, &facts)
                         : stat(role->path, &facts);
    *identity = (struct identity){.known = false};
    if (found == 0 && S_ISREG(facts.st_mode)) {
        *identity = (struct identity){.known = true, .device = facts.st_dev, .inode = facts.st_ino};
    } else if (found != 0 && !standard && errno == ENOENT) {
        identify_absent(role->path, identity);
    }
}

static bool is_same(const struct role *a, const struct role *b)
{
    struct identity first;
    struct identity second;
    if (a->path == NULL || b->path == NULL || (!a->written && !b->written)) {
        return false;
    }
    identify(a, &first);
    identify(b, &second);
    return first.known && second.known && first.device == second.device &&
           first.inode == second.inode && strcmp(first.name, second.name) == 0;
}

enum tern_result tern_roles_check(const struct tern_cli *cli, const struct role *roles,
                                  size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (is_same(&roles[k], &roles[i])) {
                return tern_cli_refuse(
                    cli, TERN_ERR_CONFIG,
                    "%s %s and %s %s are the same file, which would be overwritten; "
                    "choose another name",
                    roles[k].name, roles[k].path, roles[i].name, roles[i].path);
            }
        }
    }
    return TERN_OK;
}
