#include "payload_file.h"

#include "codec/codec.h"
#include "float_file.h"
#include "util/bytes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tern_payload_file_free(struct payload_file *file)
{
    tern_tensor_set_free(&file->set);
    free(file->payloads);
    free(file->bytes);
    *file = (struct payload_file){.bytes = NULL};
}

static enum tern_result no_memory(const struct tern_cli *cli, size_t count)
{
    return tern_cli_refuse(cli, TERN_ERR_NO_MEMORY, "no memory for %zu values", count);
}

// Describes one tensor without a name; --count gives its number of values.
static enum tern_result counted_set(const struct tern_cli *cli, struct tensor_set *set)
{
    uint64_t count = 0;
    if (!tern_cli_flag(cli, "count")) {
        return tern_cli_refuse(cli, TERN_ERR_CONFIG,
                               "a payload does not say how many values it has; give --count N, or "
                               "--like FILE with the file that was encoded");
    }
    TERN_TRY(tern_cli_number(cli, "count", 0, 0, TERN_CODEC_VALUES_MAX, &count));
    set->count = (size_t)count;
    set->values = malloc(set->count * sizeof(float) + 1);
    set->tensors = calloc(1, sizeof *set->tensors);
    if (set->values == NULL || set->tensors == NULL) {
        return no_memory(cli, set->count);
    }
    set->tensor_count = 1;
    set->tensors[0].count = set->count;
    set->tensors[0].name = strdup("");
    return set->tensors[0].name != NULL ? TERN_OK : no_memory(cli, set->count);
}

static enum tern_result read_set(const struct tern_cli *cli, struct tensor_set *set)
{
    const char *like = tern_cli_option(cli, "like", NULL);
    const char *only = tern_cli_option(cli, "tensor", NULL);
    if (like == NULL && only == NULL) {
        return counted_set(cli, set);
    }
    if (like == NULL || tern_cli_flag(cli, "count")) {
        return tern_cli_refuse(cli, TERN_ERR_CONFIG,
                               like == NULL
                                   ? "--tensor needs --like FILE, the file with that tensor"
                                   : "give --count or --like, not both");
    }
    return tern_tensor_set_read(cli, like, only, set);
}

static enum tern_result fail(const struct tern_cli *cli, enum tern_result result, const char *path,
                             const struct tensor *tensor)
{
    const char *hint =
        tern_cli_flag(cli, "count") ? " Is --count right?" : " Is --like the encoded file?";
    return tern_cli_refuse(cli, result, "%s is not a payload of %zu values%s%s: %s%s", path,
                           tensor->count, tensor->name[0] != '\0' ? " at tensor " : "",
                           tensor->name, tern_result_sentence(result),
                           result == TERN_ERR_CORRUPT ? hint : "");
}

// Splits a container into payloads by their length fields.
static enum tern_result split(const struct tern_cli *cli, const char *path,
                              struct payload_file *file)
{
    size_t at = 0;
    for (size_t i = 0; i < file->set.tensor_count; i++) {
        uint64_t len = 0;
        size_t length_bytes = tern_get_varint(file->bytes + at, file->len - at, &len);
        // The untrusted length is compared with the rest before it is used.
        if (length_bytes == 0 || len > file->len - at - length_bytes) {
            return fail(cli, TERN_ERR_CORRUPT, path, &file->set.tensors[i]);
        }
        at += length_bytes;
        file->payloads[i] = (struct payload){.data = file->bytes + at, .len = (size_t)len};
        at += (size_t)len;
    }
    if (at != file->len) {
        return tern_cli_refuse(cli, TERN_ERR_CORRUPT, "%s has %zu bytes behind its last tensor",
                               path, file->len - at);
    }
    return TERN_OK;
}

static enum tern_result decode_all(const struct tern_cli *cli, const char *path,
                                   struct payload_file *file)
{
    for (size_t i = 0; i < file->set.tensor_count; i++) {
        const struct tensor *tensor = &file->set.tensors[i];
        const struct payload *payload = &file->payloads[i];
        enum tern_result result = tern_codec_decode(
            payload->data, payload->len, file->set.values + tensor->offset, tensor->count);
        if (result != TERN_OK) {
            return fail(cli, result, path, tensor);
        }
    }
    return TERN_OK;
}

static enum tern_result read_all(const struct tern_cli *cli, const char *path,
                                 struct payload_file *file)
{
    TERN_TRY(read_set(cli, &file->set));
    TERN_TRY(tern_named_file_read(cli, path, TERN_CODEC_FILE_MAX, &file->bytes, &file->len));
    file->payloads = calloc(file->set.tensor_count, sizeof *file->payloads);
    if (file->payloads == NULL) {
        return no_memory(cli, file->set.count);
    }
    if (file->set.named && !tern_cli_flag(cli, "tensor")) {
        TERN_TRY(split(cli, path, file));
    } else {
        file->payloads[0] = (struct payload){.data = file->bytes, .len = file->len};
    }
    return decode_all(cli, path, file);
}

enum tern_result tern_payload_file_read(const struct tern_cli *cli, const char *path,
                                        struct payload_file *file)
{
    *file = (struct payload_file){.bytes = NULL};
    enum tern_result result = read_all(cli, path, file);
    if (result != TERN_OK) {
        tern_payload_file_free(file);
    }
    return result;
}
