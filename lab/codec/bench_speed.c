#include "bench.h"

#include "generate.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct column columns[] = {
    {"codec", "codec", 34, TABLE_TEXT},
    {"count", "values", 9, 0},
    {"density", "density", 7, 4},
    {"bits_per_value", "bits/val", 8, 3},
    {"encode_gb_per_s", "encode", 7, 2},
    {"encode_ratio", "ratio", 5, 2},
    {"decode_gb_per_s", "decode", 7, 2},
    {"decode_ratio", "ratio", 5, 2},
    {"accumulate_gb_per_s", "accum.", 7, 2},
    {"accumulate_ratio", "ratio", 5, 2},
    {.key = NULL},
};

// Rows in addition to one per codec of the table. Specs that this build does not have are skipped.
static const char *const strengths[] = {"3lc:s=1", "3lc:s=1.5", "3lc:s=1.75"};

struct run {
    struct bench *bench;
    const float *input;
    size_t count;
    struct workbench place;
    double reference; // GB/s of memcpy out of cache; 0: each row has its own
};

static cJSON *make_row(const struct run *run, const char *spec, const struct measurement *m)
{
    double copy = tern_float_rate(run->count, m->best.copy);
    double reference = run->reference > 0 ? run->reference : copy;
    double encode = tern_float_rate(run->count, m->best.encode);
    double decode = tern_float_rate(run->count, m->best.decode);
    double accumulate = tern_float_rate(run->count, m->best.accumulate);
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "codec", spec);
    cJSON_AddNumberToObject(row, "count", (double)run->count);
    cJSON_AddNumberToObject(row, "density", (double)m->info.nonzero / (double)run->count);
    cJSON_AddNumberToObject(row, "bits_per_value", 8 * (double)m->bytes / (double)run->count);
    cJSON_AddNumberToObject(row, "memcpy_gb_per_s", copy);
    cJSON_AddNumberToObject(row, "encode_gb_per_s", encode);
    cJSON_AddNumberToObject(row, "encode_ratio", encode / reference);
    cJSON_AddNumberToObject(row, "decode_gb_per_s", decode);
    cJSON_AddNumberToObject(row, "decode_ratio", decode / reference);
    cJSON_AddNumberToObject(row, "accumulate_gb_per_s", accumulate);
    cJSON_AddNumberToObject(row, "accumulate_ratio", accumulate / reference);
    return row;
}

static enum tern_result add_codec(struct run *run, const char *text)
{
    struct tern_codec codec;
    struct measurement m;
    char spec[TERN_CODEC_SPEC_MAX];
    if (tern_codec_parse(text, &codec, NULL) != TERN_OK) {
        return TERN_OK;
    }
    TERN_TRY(tern_measure_codec(&codec, run->bench->parallel, run->input, run->count,
                                &run->bench->effort, &run->place, &m));
    tern_codec_format(&codec, spec);
    tern_report_row(&run->bench->report, "speed", columns, make_row(run, spec, &m));
    return TERN_OK;
}

static bool is_strength(const char *name)
{
    return strncmp(strengths[0], name, strlen(name)) == 0;
}

static enum tern_result add_codecs(struct run *run)
{
    for (size_t i = 0; i < sizeof strengths / sizeof strengths[0]; i++) {
        TERN_TRY(add_codec(run, strengths[i]));
    }
    const struct tern_codec_entry *entry = NULL;
    for (size_t i = 0; (entry = tern_codec_entry_at(i)) != NULL; i++) {
        if (!is_strength(entry->name)) {
            TERN_TRY(add_codec(run, entry->name));
        }
    }
    return TERN_OK;
}

static enum tern_result run_count(struct bench *bench, const float *input, size_t count,
                                  double reference)
{
    struct run run = {.bench = bench, .input = input, .count = count, .reference = reference};
    if (!tern_workbench_make(&run.place, count)) {
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result = add_codecs(&run);
    tern_workbench_free(&run.place);
    return result;
}

// Returns the fastest memcpy of all rows of the large run.
static double best_copy(const struct bench *bench)
{
    double best = 0;
    const cJSON *row = NULL;
    cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(bench->report.json, "speed"))
    {
        double rate = cJSON_GetObjectItemCaseSensitive(row, "memcpy_gb_per_s")->valuedouble;
        best = rate > best ? rate : best;
    }
    return best;
}

static enum tern_result run_both(struct bench *bench, const float *input)
{
    TERN_TRY(run_count(bench, input, bench->large, 0));
    double reference = best_copy(bench);
    cJSON_AddNumberToObject(bench->report.json, "memcpy_gb_per_s", reference);
    size_t small = bench->large < BENCH_IN_CACHE ? bench->large : BENCH_IN_CACHE;
    TERN_TRY(run_count(bench, input, small, reference));
    if (bench->report.text) {
        printf("memcpy of %zu values: %.2f GB/s\n", bench->large, reference);
    }
    return TERN_OK;
}

enum tern_result bench_speed(struct bench *bench)
{
    float *input = malloc(bench->large * sizeof(float));
    if (input == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    generate_normal(input, bench->large);
    tern_report_table(
        &bench->report, "speed",
        "Normally distributed values, out of cache and in cache. GB/s of float32; ratio: "
        "to memcpy\nof the values out of cache.",
        columns);
    enum tern_result result = run_both(bench, input);
    free(input);
    return result;
}
