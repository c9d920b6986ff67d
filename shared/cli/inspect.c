#include "verbs.h"

#include "codec/codec.h"
#include "float_file.h"
#include "histogram.h"
#include "hosted/cli.h"
#include "hosted/safetensors.h"
#include "live_table.h"
#include "payload_file.h"
#include "tensor_set.h"
#include <math.h>
#include <stdlib.h>

// --- Safetensors files

static const struct column tensor_columns[] = {
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

// Adds a row to the table. Values that cannot be read as float32 have no statistics.
static cJSON *describe(const struct tern_safetensors_entry *entry)
{
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "tensor", entry->name);
    cJSON_AddStringToObject(row, "dtype", entry->dtype);
    cJSON_AddStringToObject(row, "shape", entry->shape);
    cJSON_AddNumberToObject(row, "count", (double)entry->count);
    cJSON_AddNumberToObject(row, "bytes", (double)entry->data_len);
    if (entry->kind != TERN_SAFETENSORS_OTHER) {
        float *values = malloc((size_t)entry->data_len * 2 + 1); // float16 doubles in size
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
    tern_report_table(&report, "tensors", "Tensors in the order of the file:", tensor_columns);
    for (size_t i = 0; i < file->count; i++) {
        tern_report_row(&report, "tensors", tensor_columns, describe(&file->entries[i]));
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

static int inspect_tensors(const struct tern_cli *cli, const char *path)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    enum tern_result result = tern_named_file_read(cli, path, TERN_CODEC_FILE_MAX, &bytes, &len);
    TERN_CLI_TRY((int)tern_cli_exit_code(result));
    int code = list_bytes(cli, path, bytes, len);
    free(bytes);
    return code;
}

// --- The verb

// Facts about a payload to print.
struct facts {
    struct tern_codec_info info;
    struct histogram histogram;
    const char *tensor; // "" if the file has no names
    size_t bytes;
    size_t count;
    double density;
    double bits_per_value;
    double entropy; // bits per value; NaN: too many different values
};

// Returns the facts of a valid payload.
static enum tern_result gather(const struct payload_file *file, size_t index, struct facts *facts)
{
    const struct tensor *tensor = &file->set.tensors[index];
    const struct payload *payload = &file->payloads[index];
    const float *values = file->set.values + tensor->offset;
    double whole = tensor->count > 0 ? (double)tensor->count : 1;
    TERN_TRY(tern_codec_inspect(payload->data, payload->len, tensor->count, &facts->info));
    tern_histogram_fill(&facts->histogram, values, tensor->count);
    facts->tensor = tensor->name;
    facts->bytes = payload->len;
    facts->count = tensor->count;
    facts->density = (double)facts->info.nonzero / whole;
    facts->bits_per_value = 8 * (double)payload->len / whole;
    facts->entropy = tern_values_entropy(values, tensor->count);
    return TERN_OK;
}

static cJSON *facts_json(const struct facts *facts)
{
    cJSON *json = cJSON_CreateObject();
    if (facts->tensor[0] != '\0') {
        cJSON_AddStringToObject(json, "tensor", facts->tensor);
    }
    cJSON_AddStringToObject(json, "mode", facts->info.mode);
    cJSON_AddNumberToObject(json, "bytes", (double)facts->bytes);
    cJSON_AddNumberToObject(json, "count", (double)facts->count);
    cJSON_AddNumberToObject(json, "scale", (double)facts->info.scale);
    cJSON_AddNumberToObject(json, "maximum", (double)facts->info.maximum);
    cJSON_AddNumberToObject(json, "norm", sqrt(facts->info.sum_square));
    cJSON_AddNumberToObject(json, "nonzero", (double)facts->info.nonzero);
    cJSON_AddNumberToObject(json, "density", facts->density);
    cJSON_AddNumberToObject(json, "bits_per_value", facts->bits_per_value);
    if (isnan(facts->entropy)) {
        cJSON_AddNullToObject(json, "entropy_bits_per_value");
    } else {
        cJSON_AddNumberToObject(json, "entropy_bits_per_value", facts->entropy);
    }
    cJSON_AddNumberToObject(json, "runs", (double)facts->info.runs);
    tern_histogram_to_json(&facts->histogram, json);
    return json;
}

static void print_facts(const struct facts *facts)
{
    const struct tern_codec_info *info = &facts->info;
    printf("mode            %s\n", info->mode);
    printf("bytes           %zu (float32: %zu)\n", facts->bytes, 4 * facts->count);
    printf("values          %zu\n", facts->count);
    if (info->scale > 0) {
        printf("scale           %.9g\n", (double)info->scale);
    }
    printf("largest         %.9g\n", (double)info->maximum);
    printf("norm            %.6g\n", sqrt(info->sum_square));
    printf("density         %.4f (%zu values are not zero)\n", facts->density, info->nonzero);
    printf("bits per value  %.3f", facts->bits_per_value);
    if (facts->entropy > 0) {
        printf(" (order-0 entropy %.3f, %.2f times)", facts->entropy,
               facts->bits_per_value / facts->entropy);
    }
    putchar('\n');
    if (info->runs > 0) {
        printf("run codes       %zu\n", info->runs);
    }
    tern_histogram_print_runs(&facts->histogram);
    if (!info->ternary) {
        tern_histogram_print_magnitudes(&facts->histogram);
    }
}

// --- One payload, or all of a container

static int inspect_one(const struct tern_cli *cli, const struct payload_file *file)
{
    struct facts facts;
    enum tern_result result = gather(file, 0, &facts);
    if (result == TERN_OK && cli->json) {
        cJSON *json = facts_json(&facts);
        tern_print_json(json);
        cJSON_Delete(json);
    } else if (result == TERN_OK) {
        print_facts(&facts);
    }
    return (int)tern_cli_exit_code(result);
}

static const struct column columns[] = {
    {"tensor", "tensor", 32, TABLE_TEXT},
    {"mode", "mode", 20, TABLE_TEXT},
    {"count", "values", 10, 0},
    {"bytes", "bytes", 10, 0},
    {"density", "density", 8, 4},
    {"bits_per_value", "bits/val", 8, 3},
    {"entropy_bits_per_value", "entropy", 8, 3},
    {.key = NULL},
};

static int inspect_all(const struct tern_cli *cli, const struct payload_file *file)
{
    struct report report = {.json = cJSON_CreateObject(), .text = !cli->json};
    double whole = file->set.count > 0 ? (double)file->set.count : 1;
    double bits = 8 * (double)file->len / whole;
    enum tern_result result = TERN_OK;
    cJSON_AddNumberToObject(report.json, "bytes", (double)file->len);
    cJSON_AddNumberToObject(report.json, "count", (double)file->set.count);
    cJSON_AddNumberToObject(report.json, "bits_per_value", bits);
    tern_report_table(&report, "tensors", "A container of these payloads:", columns);
    for (size_t i = 0; i < file->set.tensor_count && result == TERN_OK; i++) {
        struct facts facts;
        result = gather(file, i, &facts);
        if (result == TERN_OK) {
            tern_report_row(&report, "tensors", columns, facts_json(&facts));
        }
    }
    if (cli->json) {
        tern_print_json(report.json);
    } else {
        printf("\nbytes           %zu (float32: %zu)\n", file->len, 4 * file->set.count);
        printf("values          %zu\nbits per value  %.3f\n", file->set.count, bits);
    }
    cJSON_Delete(report.json);
    return (int)tern_cli_exit_code(result);
}

int tern_verb_inspect(struct tern_cli *cli)
{
    if (!tern_cli_flag(cli, "count") && !tern_cli_flag(cli, "like")) {
        return inspect_tensors(cli, cli->arguments[0]);
    }
    struct payload_file file;
    enum tern_result result = tern_payload_file_read(cli, cli->arguments[0], &file);
    TERN_CLI_TRY((int)tern_cli_exit_code(result));
    bool container = file.set.named && !tern_cli_flag(cli, "tensor");
    int code = container ? inspect_all(cli, &file) : inspect_one(cli, &file);
    tern_payload_file_free(&file);
    return code;
}
