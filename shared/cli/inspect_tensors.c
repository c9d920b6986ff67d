#include "inspect_tensors.h"

#include "float_file.h"
#include "hosted/safetensors.h"
#include "live_table.h"
#include "tensor_set.h"
#include <math.h>
#include <stdlib.h>

static const struct column columns[] = {
    {"tensor", "tensor", 32, TABLE_TEXT},
    {"dtype", "dtype", 5, TABLE_TEXT},
    {"shape", "shape", 16, TABLE_TEXT},
    {"count", "values", 10, 0},
    {"nonzero", "not zero", 10, 0},
    {"non_finite", "NaN, Inf", 8, 0},
    {"maximum", "largest", 12, 6},
    {"norm", "norm", 12, 6},
    {.key = NULL},
};

static void add_statistics(cJSON *row, const float *values, size_t count)
{
    size_t nonzero = 0;
    size_t non_finite = 0;
    double maximum = 0;
    double sum_square = 0;
    for (size_t i = 0; i < count; i++) {
        double magnitude = fabs((double)values[i]);
        nonzero += values[i] != 0;
        if (!isfinite(magnitude)) {
            non_finite++;
            continue;
        }
        maximum = magnitude > maximum ? magnitude : maximum;
        sum_square += magnitude * magnitude;
    }
    cJSON_AddNumberToObject(row, "nonzero", (double)nonzero);
    cJSON_AddNumberToObject(row, "non_finite", (double)non_finite);
    cJSON_AddNumberToObject(row, "maximum", maximum);
    cJSON_AddNumberToObject(row, "norm", sqrt(sum_square));
}

// A row of the table; values that cannot be read as float32 have no statistics.
static cJSON *describe(const struct tern_safetensors_entry *entry)
{
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "tensor", entry->name);
    cJSON_AddStringToObject(row, "dtype", entry->dtype);
    cJSON_AddStringToObject(row, "shape", entry->shape);
    cJSON_AddNumberToObject(row, "count", (double)entry->count);
    cJSON_AddNumberToObject(row, "bytes", (double)entry->data_len);
    if (entry->kind != TERN_SAFETENSORS_OTHER) {
        float *values = malloc((size_t)entry->data_len * 2 + 1); // float16 doubles
        if (values != NULL) {
            tern_safetensors_floats(entry, values);
            add_statistics(row, values, (size_t)entry->count);
        }
        free(values);
    }
    return row;
}

static void list(const struct tern_cli *cli, const struct tern_safetensors *file)
{
    struct report report = {.json = cJSON_CreateObject(), .text = !cli->json};
    tern_report_table(&report, "tensors", "Tensors in the order of the file:", columns);
    for (size_t i = 0; i < file->count; i++) {
        tern_report_row(&report, "tensors", columns, describe(&file->entries[i]));
    }
    if (cli->json) {
        tern_print_json(report.json);
    }
    cJSON_Delete(report.json);
}

static int list_bytes(const struct tern_cli *cli, const char *path, const uint8_t *bytes,
                      size_t len)
{
    struct tern_safetensors file;
    char why[TERN_SAFETENSORS_WHY_MAX];
    if (!tern_tensor_file_is_named(path, bytes, len)) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "a payload does not say how many values it has; give --count N, or "
                             "--like FILE with the file that was encoded");
    }
    enum tern_result result = tern_safetensors_parse(bytes, len, &file, why);
    if (result != TERN_OK) {
        return tern_cli_fail(cli, result, "%s: %s", path, why);
    }
    list(cli, &file);
    tern_safetensors_free(&file);
    return TERN_EXIT_OK;
}

int tern_inspect_tensors(const struct tern_cli *cli, const char *path)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    enum tern_result result = tern_named_file_read(cli, path, TERN_CODEC_FILE_MAX, &bytes, &len);
    TERN_CLI_TRY((int)tern_cli_exit_code(result));
    int code = list_bytes(cli, path, bytes, len);
    free(bytes);
    return code;
}
