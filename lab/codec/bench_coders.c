#include "bench.h"

#include "cli/histogram.h"
#include "generate.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct column columns[] = {
    {"coder", "coder", 12, TABLE_TEXT},
    {"density", "density", 7, 3},
    {"bits_per_value", "bits/val", 8, 4},
    {"entropy_bits_per_value", "entropy", 8, 4},
    {"entropy_ratio", "ratio", 6, 3},
    {"encode_gb_per_s", "encode", 7, 2},
    {"decode_gb_per_s", "decode", 7, 2},
    {"accumulate_gb_per_s", "accum.", 7, 2},
    {.key = NULL},
};

// The quantizer keeps values of -1, 0 and 1, so that the measurement covers the coder and one pass over the values.
static const char QUANTIZER[] = "3lc";
static const char CODER_KEY[] = "coder";

static const double densities[] = {0.2, 0.07, 0.03, 0.02, 0.01};

enum { ROW_WIDTH = 784 };
static const float ROW_SIGMA = 1;
static const double ROW_DENSITY = 0.05;

static cJSON *make_row(const char *coder, size_t count, double entropy, const struct measurement *m)
{
    double bits = 8 * (double)m->bytes / (double)count;
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "coder", coder);
    cJSON_AddNumberToObject(row, "count", (double)count);
    cJSON_AddNumberToObject(row, "density", (double)m->info.nonzero / (double)count);
    cJSON_AddNumberToObject(row, "bits_per_value", bits);
    cJSON_AddNumberToObject(row, "entropy_bits_per_value", entropy);
    if (entropy > 0) {
        cJSON_AddNumberToObject(row, "entropy_ratio", bits / entropy);
    }
    cJSON_AddNumberToObject(row, "encode_gb_per_s", tern_float_rate(count, m->best.encode));
    cJSON_AddNumberToObject(row, "decode_gb_per_s", tern_float_rate(count, m->best.decode));
    cJSON_AddNumberToObject(row, "accumulate_gb_per_s", tern_float_rate(count, m->best.accumulate));
    return row;
}

static const struct tern_spec_parameter *find_coders(void)
{
    const struct tern_codec_entry *entry = NULL;
    for (size_t i = 0; (entry = tern_codec_entry_at(i)) != NULL; i++) {
        for (size_t k = 0; strcmp(entry->name, QUANTIZER) == 0 && entry->parameters[k].key != NULL;
             k++) {
            if (strcmp(entry->parameters[k].key, CODER_KEY) == 0) {
                return &entry->parameters[k];
            }
        }
    }
    return NULL;
}

// Adds a row for each coder to the table, measured on generated values.
static enum tern_result add_coders(struct bench *bench, const char *key, const float *values,
                                   struct workbench *place)
{
    const struct tern_spec_parameter *coders = find_coders();
    double entropy = tern_values_entropy(values, bench->medium);
    for (size_t i = 0; coders != NULL && coders->choices[i] != NULL; i++) {
        char spec[2 * TERN_CODEC_SPEC_MAX];
        struct tern_codec codec;
        struct measurement m;
        (void)snprintf(spec, sizeof spec, "%s:%s=%s", QUANTIZER, CODER_KEY, coders->choices[i]);
        if (tern_codec_parse(spec, &codec, NULL) != TERN_OK) {
            continue;
        }
        TERN_TRY(
            tern_measure_codec(&codec, NULL, values, bench->medium, &bench->effort, place, &m));
        tern_report_row(&bench->report, key, columns,
                        make_row(coders->choices[i], bench->medium, entropy, &m));
    }
    return TERN_OK;
}

static enum tern_result independent(struct bench *bench, float *values, struct workbench *place)
{
    tern_report_table(
        &bench->report, "coders",
        "Ternary coders on independent values; ratio: to the order-0 entropy. GB/s of "
        "float32.",
        columns);
    for (size_t i = 0; i < sizeof densities / sizeof densities[0]; i++) {
        generate_ternary(values, bench->medium, densities[i]);
        TERN_TRY(add_coders(bench, "coders", values, place));
    }
    return TERN_OK;
}

static enum tern_result rows(struct bench *bench, float *values, struct workbench *place)
{
    tern_report_table(&bench->report, "rows",
                      "Ternary coders on rows of 784 values with log-normal scales (sigma 1).",
                      columns);
    if (!generate_rows(values, bench->medium, ROW_WIDTH, ROW_SIGMA, ROW_DENSITY)) {
        return TERN_ERR_NO_MEMORY;
    }
    return add_coders(bench, "rows", values, place);
}

enum tern_result bench_coders(struct bench *bench)
{
    struct workbench place;
    float *values = malloc(bench->medium * sizeof(float));
    if (values == NULL || !tern_workbench_make(&place, bench->medium)) {
        free(values);
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result = independent(bench, values, &place);
    if (result == TERN_OK) {
        result = rows(bench, values, &place);
    }
    tern_workbench_free(&place);
    free(values);
    return result;
}
