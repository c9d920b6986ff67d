#include "tensor_set.h"

#include "float_file.h"
#include "hosted/safetensors.h"
#include "util/bytes.h"
#include "util/text.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tern_tensor_file_is_named(const char *path, const uint8_t *bytes, size_t len)
{
    return tern_ends_with(path, ".safetensors") ||
           (!tern_ends_with(path, ".f32") && tern_safetensors_looks_like(bytes, len));
}

void tern_tensor_set_free(struct tensor_set *set)
{
    for (size_t i = 0; i < set->tensor_count; i++) {
        free(set->tensors[i].name);
        free(set->tensors[i].shape);
    }
    free(set->tensors);
    free(set->values);
    *set = (struct tensor_set){.tensors = NULL};
}

// Appends a tensor; the array has room for it.
static bool add_tensor(struct tensor_set *set, const char *name, const char *shape, size_t count)
{
    struct tensor *tensor = &set->tensors[set->tensor_count++];
    *tensor = (struct tensor){
        .name = strdup(name), .shape = strdup(shape), .count = count, .offset = set->count};
    set->count += count;
    return tensor->name != NULL && tensor->shape != NULL;
}

// --- Safetensors

enum { NAMED = 4 }; // most tensor names in a message

// Lists names as "a, b, c, ... (12 in all)".
static void list_names(const struct tern_safetensors *file, bool readable, char text[1024])
{
    size_t at = 0;
    size_t found = 0;
    text[0] = '\0';
    for (size_t i = 0; i < file->count; i++) {
        const struct tern_safetensors_entry *entry = &file->entries[i];
        if ((entry->kind != TERN_SAFETENSORS_OTHER) != readable || found++ >= NAMED) {
            continue;
        }
        int len = snprintf(text + at, 1024 - at, "%s%.200s (%.8s)", found > 1 ? ", " : "",
                           entry->name, entry->dtype);
        at += len > 0 ? (size_t)len : 0;
    }
    if (found > NAMED) {
        (void)snprintf(text + at, 1024 - at, ", ... (%zu in all)", found);
    }
}

static bool is_wanted(const struct tern_safetensors_entry *entry, const char *only)
{
    return only != NULL ? strcmp(entry->name, only) == 0 : entry->kind != TERN_SAFETENSORS_OTHER;
}

// Reports why no tensor was chosen: no name matches, or no dtype can be read.
static enum tern_result check_choice(const struct tern_cli *cli, const char *path,
                                     const struct tern_safetensors *file, const char *only)
{
    char names[1024];
    uint64_t values = 0;
    const struct tern_safetensors_entry *chosen = NULL;
    for (size_t i = 0; i < file->count; i++) {
        const struct tern_safetensors_entry *entry = &file->entries[i];
        bool wanted = is_wanted(entry, only);
        chosen = wanted ? entry : chosen;
        if (wanted && entry->count > TERN_CODEC_VALUES_MAX - values) {
            return tern_cli_refuse(cli, TERN_ERR_TOO_LARGE,
                                   "%s: the tensors up to '%s' have more than %" PRIu64 " values; "
                                   "choose one tensor with --tensor",
                                   path, entry->name, TERN_CODEC_VALUES_MAX);
        }
        values += wanted ? entry->count : 0;
    }
    if (chosen == NULL && only != NULL) {
        list_names(file, true, names);
        return tern_cli_refuse(cli, TERN_ERR_NOT_FOUND, "%s has no tensor '%s'; it has %s", path,
                               only, names[0] != '\0' ? names : "none that can be encoded");
    }
    if (chosen == NULL || chosen->kind == TERN_SAFETENSORS_OTHER) {
        return tern_cli_refuse(cli, TERN_ERR_ARGUMENT,
                               "%s: %s%s%s; convert to F32, F16 or BF16 first", path,
                               chosen == NULL ? "no tensor is F32, F16 or BF16" : chosen->name,
                               chosen == NULL ? "" : " is ", chosen == NULL ? "" : chosen->dtype);
    }
    return TERN_OK;
}

static enum tern_result take_tensors(const struct tern_safetensors *file, const char *only,
                                     struct tensor_set *set)
{
    set->tensors = calloc(file->count, sizeof *set->tensors);
    size_t values = 0;
    for (size_t i = 0; i < file->count; i++) {
        values += is_wanted(&file->entries[i], only) ? (size_t)file->entries[i].count : 0;
    }
    set->values = malloc(values * sizeof(float) + 1);
    if (set->tensors == NULL || set->values == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < file->count; i++) {
        const struct tern_safetensors_entry *entry = &file->entries[i];
        if (!is_wanted(entry, only)) {
            continue;
        }
        tern_safetensors_floats(entry, set->values + set->count);
        if (!add_tensor(set, entry->name, entry->shape, (size_t)entry->count)) {
            return TERN_ERR_NO_MEMORY;
        }
    }
    return TERN_OK;
}

static void report_skipped(const struct tern_cli *cli, const char *path,
                           const struct tern_safetensors *file)
{
    char names[1024];
    list_names(file, false, names);
    if (names[0] != '\0') {
        fprintf(stderr, "%s: %s: skipped tensors that are not F32, F16 or BF16: %s\n",
                cli->program->name, path, names);
    }
}

static enum tern_result from_safetensors(const struct tern_cli *cli, const char *path,
                                         const char *only, const struct tern_safetensors *file,
                                         struct tensor_set *set)
{
    TERN_TRY(check_choice(cli, path, file, only));
    if (only == NULL) {
        report_skipped(cli, path, file);
    }
    set->named = true;
    enum tern_result result = take_tensors(file, only, set);
    return tern_cli_refuse(cli, result, "no memory for the values of %s", path);
}

static enum tern_result read_named(const struct tern_cli *cli, const char *path, const char *only,
                                   const uint8_t *bytes, size_t len, struct tensor_set *set)
{
    struct tern_safetensors file;
    char why[TERN_SAFETENSORS_WHY_MAX];
    enum tern_result result = tern_safetensors_parse(bytes, len, &file, why);
    TERN_TRY(tern_cli_refuse(cli, result, "%s: %s", path, why));
    result = from_safetensors(cli, path, only, &file, set);
    tern_safetensors_free(&file);
    return result;
}

// --- Raw float32

static enum tern_result read_raw(const struct tern_cli *cli, const char *path, const char *only,
                                 const uint8_t *bytes, size_t len, struct tensor_set *set)
{
    if (only != NULL) {
        return tern_cli_refuse(cli, TERN_ERR_CONFIG,
                               "--tensor needs a safetensors file, and %s is none", path);
    }
    TERN_TRY(tern_float_file_check(cli, path, len));
    char shape[32];
    (void)snprintf(shape, sizeof shape, "[%zu]", len / 4);
    set->tensors = calloc(1, sizeof *set->tensors);
    set->values = malloc(len + 1);
    if (set->tensors == NULL || set->values == NULL || !add_tensor(set, "", shape, len / 4)) {
        return tern_cli_refuse(cli, TERN_ERR_NO_MEMORY, "no memory for the values of %s", path);
    }
    for (size_t i = 0; i < len / 4; i++) {
        set->values[i] = tern_get_f32(bytes + 4 * i);
    }
    return TERN_OK;
}

enum tern_result tern_tensor_set_read(const struct tern_cli *cli, const char *path,
                                      const char *only, struct tensor_set *set)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    *set = (struct tensor_set){.tensors = NULL};
    TERN_TRY(tern_named_file_read(cli, path, TERN_CODEC_FILE_MAX, &bytes, &len));
    bool named = tern_tensor_file_is_named(path, bytes, len);
    enum tern_result result = named ? read_named(cli, path, only, bytes, len, set)
                                    : read_raw(cli, path, only, bytes, len, set);
    free(bytes);
    if (result != TERN_OK) {
        tern_tensor_set_free(set);
    }
    return result;
}

// --- Writing

static enum tern_result write_named(const struct tern_cli *cli, const char *path,
                                    const struct tensor_set *set)
{
    char why[TERN_SAFETENSORS_WHY_MAX] = "";
    uint8_t *bytes = NULL;
    size_t len = 0;
    struct tern_safetensors_tensor *tensors = calloc(set->tensor_count + 1, sizeof *tensors);
    enum tern_result result = TERN_ERR_NO_MEMORY;
    for (size_t i = 0; tensors != NULL && i < set->tensor_count; i++) {
        const struct tensor *tensor = &set->tensors[i];
        tensors[i] = (struct tern_safetensors_tensor){.name = tensor->name,
                                                      .shape = tensor->shape,
                                                      .values = set->values + tensor->offset,
                                                      .count = tensor->count};
    }
    if (tensors != NULL) {
        result = tern_safetensors_make(tensors, set->tensor_count, NULL, TERN_SAFETENSORS_F32,
                                       &bytes, &len, why);
    }
    free(tensors);
    TERN_TRY(tern_cli_refuse(cli, result, "no memory for %zu values", set->count));
    result = tern_output_write(cli, path, bytes, len);
    free(bytes);
    return result;
}

enum tern_result tern_tensor_set_write(const struct tern_cli *cli, const char *path,
                                       const struct tensor_set *set)
{
    if (!tern_ends_with(path, ".safetensors")) {
        return tern_float_file_write(cli, path, set->values, set->count);
    }
    if (!set->named) {
        return tern_cli_refuse(
            cli, TERN_ERR_CONFIG,
            "%s: a safetensors file names its tensors, and these values have no "
            "name; give --like FILE with the safetensors file that was encoded, or "
            "choose a name that ends in .f32",
            path);
    }
    return write_named(cli, path, set);
}

// --- Errors

bool tern_tensor_set_is_finite(const struct tensor_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        if (!isfinite(set->values[i])) {
            return false;
        }
    }
    return true;
}

int tern_tensor_set_fail(const struct tern_cli *cli, const struct tensor_set *set, const char *spec)
{
    for (size_t i = 0; i < set->tensor_count; i++) {
        const struct tensor *tensor = &set->tensors[i];
        const float *values = set->values + tensor->offset;
        for (size_t k = 0; k < tensor->count; k++) {
            if (!isfinite(values[k])) {
                return tern_cli_fail(cli, TERN_ERR_NON_FINITE,
                                     "%s%svalue %zu is %g, which cannot be encoded", tensor->name,
                                     set->named ? ": " : "", k, (double)values[k]);
            }
        }
    }
    return tern_cli_fail(cli, TERN_ERR_NON_FINITE, "the values are too large for %s", spec);
}
