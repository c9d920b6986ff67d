#include "hosted/export_file.h"

#include "hosted/csv_columns.h"
#include "hosted/files.h"
#include "util/bytes.h"
#include "util/sha256.h"
#include "util/text.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int read_format(struct tern_cli *cli, struct tern_export_file *file)
{
    const char *path = cli->arguments[0];
    const char *name = tern_cli_option(cli, "format", NULL);
    const char *dtype = tern_cli_option(cli, "dtype", NULL);
    if (name == NULL && tern_ends_with(path, ".f32")) {
        name = "f32";
    } else if (name == NULL && tern_ends_with(path, ".safetensors")) {
        name = "safetensors";
    }
    if (name == NULL) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "the name '%s' does not show the format; end it in .f32 or"
                             " .safetensors, or give --format",
                             path);
    }
    if (strcmp(name, "f32") != 0 && strcmp(name, "safetensors") != 0) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "--format '%s' is unknown; allowed: f32, safetensors", name);
    }
    *file = (struct tern_export_file){name[0] == 's', TERN_SAFETENSORS_F32};
    if (dtype != NULL && !file->safetensors) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "--dtype is only for --format safetensors");
    }
    return dtype == NULL || tern_safetensors_kind_from_name(dtype, &file->kind)
               ? TERN_EXIT_OK
               : tern_cli_fail(cli, TERN_ERR_CONFIG,
                               "--dtype '%s' is unknown; allowed: F32, F16, BF16", dtype);
}

// Refuses a target that is not a regular file: the file is written by renaming, which would replace
// a device or link itself.
static int check_target(struct tern_cli *cli)
{
    const char *file = cli->arguments[0];
    struct stat there;
    if (strcmp(file, "-") == 0 || lstat(file, &there) != 0 || S_ISREG(there.st_mode)) {
        return TERN_EXIT_OK;
    }
    return tern_cli_fail(cli, TERN_ERR_IO,
                         "%s is %s, not a regular file; name a new or a regular file, or write"
                         " to standard output with `-`",
                         file,
                         S_ISLNK(there.st_mode)   ? "a symbolic link"
                         : S_ISDIR(there.st_mode) ? "a directory"
                                                  : "a device, pipe or socket");
}

int tern_export_file_check(struct tern_cli *cli, struct tern_export_file *file)
{
    TERN_CLI_TRY(read_format(cli, file));
    return check_target(cli);
}

static enum tern_result make_f32(const float *weights, uint32_t count, uint8_t **data, size_t *len)
{
    uint8_t *out = malloc((size_t)count * 4);
    if (out == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        tern_put_f32(out + (size_t)i * 4, weights[i]);
    }
    *data = out;
    *len = (size_t)count * 4;
    return TERN_OK;
}

enum tern_result tern_export_file_make(const struct tern_export_file *file,
                                       const struct tern_model *model, const float *weights,
                                       const struct tern_safetensors *kept, const cJSON *notes,
                                       uint8_t **data, size_t *len,
                                       char why[TERN_SAFETENSORS_WHY_MAX])
{
    if (file->safetensors) {
        return tern_safetensors_make_model(model, weights, kept, notes, file->kind, data, len, why);
    }
    snprintf(why, TERN_SAFETENSORS_WHY_MAX, "no memory for %" PRIu32 " values", model->count);
    return make_f32(weights, model->count, data, len);
}

int tern_export_file_write(struct tern_cli *cli, const uint8_t *data, size_t len)
{
    const char *file = cli->arguments[0];
    if (strcmp(file, "-") == 0) {
        return fwrite(data, 1, len, stdout) == len
                   ? TERN_EXIT_OK
                   : tern_cli_fail(cli, TERN_ERR_IO, "cannot write: %s", strerror(errno));
    }
    enum tern_result result = tern_file_write(file, data, len, 0644);
    return tern_cli_check(cli, result, "cannot write %s: %s", file, strerror(errno));
}

// --- Metadata and reports

static void set_note(cJSON *notes, const char *key, const char *text)
{
    cJSON_DeleteItemFromObjectCaseSensitive(notes, key);
    cJSON_AddStringToObject(notes, key, text);
}

// Lists the tensors of which each client trains its own values; the file has the values of version
// 0 or of one client.
static void note_local(cJSON *notes, const struct tern_model *model)
{
    static char text[TERN_MODEL_MAX_TENSORS * (TERN_TENSOR_NAME_MAX + 2)];
    size_t used = 0;
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        const struct tern_tensor *tensor = &model->tensors[i];
        if (tensor->rule == TERN_RULE_LOCAL) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? ", " : "",
                                     tensor->name);
        }
    }
    cJSON_DeleteItemFromObjectCaseSensitive(notes, "local");
    if (used > 0) {
        set_note(notes, "local", text);
    }
}

static float mean_of(struct tern_column_pair pair)
{
    return pair.mean;
}

static float deviation_of(struct tern_column_pair pair)
{
    return pair.spread;
}

// Writes the numbers with 9 significant digits, which restore the same float32, separated by
// spaces.
static void note_numbers(cJSON *notes, const char *key, struct tern_span scaling,
                         float (*of)(struct tern_column_pair pair))
{
    enum { NUMBER_MAX = 24 };
    const uint32_t count = (uint32_t)(scaling.len / TERN_WIRE_COLUMN_BYTES);
    char *text = malloc((size_t)count * NUMBER_MAX + 1);
    size_t used = 0;
    for (uint32_t i = 0; text != NULL && i < count; i++) {
        const struct tern_column_pair pair = tern_column_get(scaling, i);
        used +=
            (size_t)snprintf(text + used, NUMBER_MAX, "%s%.9g", i > 0 ? " " : "", (double)of(pair));
    }
    if (text != NULL) {
        set_note(notes, key, text);
    }
    free(text);
}

// Writes the scaling of the inputs and of the target under separate keys. The target is the last
// column.
static void note_scaling(cJSON *notes, const struct tern_export_model *model)
{
    const size_t len = (size_t)tern_model_spec_inputs(model->spec) * TERN_WIRE_COLUMN_BYTES;
    const size_t used = len < model->scaling.len ? len : model->scaling.len;
    const struct tern_span inputs = {model->scaling.data, used};
    const struct tern_span target = {model->scaling.data + used, model->scaling.len - used};
    note_numbers(notes, "scaling_mean", inputs, mean_of);
    note_numbers(notes, "scaling_deviation", inputs, deviation_of);
    if (target.len > 0) {
        note_numbers(notes, "target_mean", target, mean_of);
        note_numbers(notes, "target_deviation", target, deviation_of);
    }
}

void tern_export_notes(cJSON *notes, const struct tern_export_model *model)
{
    char text[2 * TERN_SHA256_SIZE + 1];
    set_note(notes, "weights", model->held);
    set_note(notes, "model", model->spec);
    tern_hex_encode(model->hash, TERN_SHA256_SIZE, text);
    set_note(notes, "model_hash", text);
    snprintf(text, sizeof text, "%" PRIu32, model->version);
    set_note(notes, "version", text);
    note_local(notes, model->layout);
    if (model->scaling.len > 0) {
        note_scaling(notes, model);
    }
}

static void note_doubles(cJSON *notes, const char *key, const double *values, uint32_t count)
{
    enum { NUMBER_MAX = 24 };
    char *text = malloc((size_t)count * NUMBER_MAX + 1);
    size_t used = 0;
    for (uint32_t i = 0; text != NULL && i < count; i++) {
        used += (size_t)snprintf(text + used, NUMBER_MAX, "%s%.9g", i > 0 ? " " : "", values[i]);
    }
    if (text != NULL) {
        set_note(notes, key, text);
    }
    free(text);
}

// Adds names as the text of a JSON array, since a name may contain any byte. Takes ownership of *names.
static void note_names(cJSON *notes, const char *key, cJSON *names)
{
    char *text = cJSON_PrintUnformatted(names);
    if (text != NULL && cJSON_GetArraySize(names) > 0) {
        set_note(notes, key, text);
    }
    cJSON_free(text);
    cJSON_Delete(names);
}

void tern_export_note_inputs(cJSON *notes, const struct tern_export_inputs *inputs)
{
    cJSON *columns = cJSON_CreateArray();
    cJSON *classes = cJSON_CreateArray();
    const char *rest = inputs->classes;
    char name[TERN_CSV_NAME_MAX];
    for (uint32_t i = 0; inputs->columns != NULL && i < inputs->count; i++) {
        cJSON_AddItemToArray(columns, cJSON_CreateString(inputs->columns[i]));
    }
    while (tern_csv_list_next(&rest, name)) {
        cJSON_AddItemToArray(classes, cJSON_CreateString(name));
    }
    note_names(notes, "columns", columns);
    note_names(notes, "classes", classes);
    if (inputs->mean != NULL) {
        note_doubles(notes, "scaling_mean", inputs->mean, inputs->count);
        note_doubles(notes, "scaling_deviation", inputs->deviation, inputs->count);
    }
    if (inputs->target != NULL) {
        set_note(notes, "target", inputs->target);
    }
    if (inputs->target_deviation > 0) {
        note_doubles(notes, "target_mean", &inputs->target_mean, 1);
        note_doubles(notes, "target_deviation", &inputs->target_deviation, 1);
    }
}

void tern_export_report_inputs(const struct tern_cli *cli, const struct tern_export_file *file,
                               const cJSON *notes)
{
    const bool scaling = cJSON_HasObjectItem(notes, "scaling_mean");
    const bool classes = cJSON_HasObjectItem(notes, "classes");
    if (cli->json || strcmp(cli->arguments[0], "-") == 0) {
        return;
    }
    const char *what = scaling && classes ? "the scaling of its columns and its classes"
                       : scaling          ? "the scaling of its columns"
                       : classes          ? "its classes"
                                          : NULL;
    if (!file->safetensors) {
        printf("The file has the values alone%s%s%s.\n",
               what != NULL ? ": a .safetensors file has " : "", what != NULL ? what : "",
               what != NULL ? ", too" : "");
    } else if (what != NULL) {
        printf("The file's metadata have %s.\n", what);
    } else {
        printf("The file's metadata have no scaling of columns and no names of classes: none is "
               "known here.\n");
    }
}

cJSON *tern_export_file_report(const struct tern_cli *cli, const char *held, uint32_t version,
                               const uint8_t *data, size_t len)
{
    const char *file = cli->arguments[0];
    uint8_t sha256[TERN_SHA256_SIZE];
    char hex[2 * TERN_SHA256_SIZE + 1];
    if (strcmp(file, "-") == 0) {
        return NULL;
    }
    tern_sha256(data, len, sha256);
    tern_hex_encode(sha256, sizeof sha256, hex);
    if (!cli->json) {
        printf("Wrote the %s%s of version %" PRIu32 " to %s (%zu bytes, SHA-256 %s).\n", held,
               strcmp(held, "replica") == 0 ? "" : " model", version, file, len, hex);
        return NULL;
    }
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "file", file);
    cJSON_AddStringToObject(object, "weights", held);
    cJSON_AddNumberToObject(object, "version", version);
    cJSON_AddNumberToObject(object, "bytes", (double)len);
    cJSON_AddStringToObject(object, "sha256", hex);
    return object;
}
