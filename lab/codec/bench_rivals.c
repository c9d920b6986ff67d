#include "bench.h"

#include "generate.h"
#include "hosted/system.h"
#include "rivals.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct column columns[] = {
    {"data", "data", 22, TABLE_TEXT},
    {"method", "method", 24, TABLE_TEXT},
    {"bytes", "bytes", 10, 0},
    {"bits_per_value", "bits/val", 8, 4},
    {"encode_gb_per_s", "encode", 7, 2},
    {"decode_gb_per_s", "decode", 7, 2},
    {.key = NULL},
};

static const double DENSITY = 0.05;
static const char PACKED[] = "3lc:coder=packed";

// Skips specs that this build does not have.
static const char *const ternary_specs[] = {"3lc:coder=zero-run", "3lc:coder=gaps",
                                            "3lc:coder=range"};
static const char *const float_specs[] = {"float32", "3lc:coder=zero-run", "3lc:coder=range", NULL};

enum { RUNS = 3, VALUES_MAX = 1000000 };

// One kind of data, and a buffer for its compressed bytes.
struct arena {
    struct bench *bench;
    const char *data;
    const char *key; // key of the table in the JSON
    float *values;
    size_t count;
    struct workbench place;
    uint8_t *squeezed;
    size_t squeezed_size;
    uint8_t *expanded;
};

static void add_row(struct arena *arena, const char *method, size_t bytes, double encode,
                    double decode)
{
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "data", arena->data);
    cJSON_AddStringToObject(row, "method", method);
    cJSON_AddNumberToObject(row, "count", (double)arena->count);
    cJSON_AddNumberToObject(row, "bytes", (double)bytes);
    cJSON_AddNumberToObject(row, "bits_per_value", 8 * (double)bytes / (double)arena->count);
    cJSON_AddNumberToObject(row, "encode_gb_per_s", tern_float_rate(arena->count, encode));
    cJSON_AddNumberToObject(row, "decode_gb_per_s", tern_float_rate(arena->count, decode));
    tern_report_row(&arena->bench->report, arena->key, columns, row);
}

static enum tern_result add_codec(struct arena *arena, const char *spec, struct measurement *m)
{
    struct tern_codec codec;
    *m = (struct measurement){.bytes = 0};
    if (tern_codec_parse(spec, &codec, NULL) != TERN_OK) {
        return TERN_OK;
    }
    TERN_TRY(tern_measure_codec(&codec, NULL, arena->values, arena->count, &arena->bench->effort,
                                &arena->place, m));
    add_row(arena, spec, m->bytes, m->best.encode, m->best.decode);
    return TERN_OK;
}

static void keep_best(double *best, double start)
{
    double taken = tern_monotonic_seconds() - start;
    *best = *best == 0 || taken < *best ? taken : *best;
}

// Measures a general compressor on src. The time for converting float32 to src and back (`before`) is added.
static enum tern_result add_rival(struct arena *arena, const struct rival *rival,
                                  const uint8_t *src, size_t len, const struct times *before)
{
    double compress = 0;
    double expand = 0;
    size_t bytes = 0;
    for (unsigned run = 0; run < RUNS; run++) {
        double start = tern_monotonic_seconds();
        bytes = rival->compress(src, len, arena->squeezed, arena->squeezed_size);
        keep_best(&compress, start);
        start = tern_monotonic_seconds();
        size_t back = rival->expand(arena->squeezed, bytes, arena->expanded, len);
        keep_best(&expand, start);
        if (bytes == 0 || back != len || memcmp(arena->expanded, src, len) != 0) {
            return TERN_ERR_STATE;
        }
    }
    char method[48];
    (void)snprintf(method, sizeof method, before->encode > 0 ? "packed, %s" : "%s", rival->name);
    add_row(arena, method, bytes, before->encode + compress, before->decode + expand);
    return TERN_OK;
}

static enum tern_result add_rivals(struct arena *arena, const uint8_t *src, size_t len,
                                   const struct times *before)
{
    for (const struct rival *rival = rivals; rival->name != NULL; rival++) {
        TERN_TRY(add_rival(arena, rival, src, len, before));
    }
    return TERN_OK;
}

// Measures ternary values: packed bytes for the general compressors, and our own coders.
static enum tern_result compare_packed(struct arena *arena)
{
    struct measurement m;
    for (size_t i = 0; i < sizeof ternary_specs / sizeof ternary_specs[0]; i++) {
        TERN_TRY(add_codec(arena, ternary_specs[i], &m));
    }
    TERN_TRY(add_codec(arena, PACKED, &m));
    // Decodes the payload of the last encoding.
    return add_rivals(arena, arena->place.payload, m.bytes, &m.best);
}

static enum tern_result compare_floats(struct arena *arena)
{
    struct measurement m;
    const struct times nothing = {.encode = 0};
    for (size_t i = 0; float_specs[i] != NULL; i++) {
        TERN_TRY(add_codec(arena, float_specs[i], &m));
    }
    return add_rivals(arena, (const uint8_t *)arena->values, arena->count * sizeof(float),
                      &nothing);
}

static enum tern_result compare_all(struct arena *arena)
{
    struct report *report = &arena->bench->report;
    arena->key = "packed";
    tern_report_table(
        report, arena->key,
        "Against general compressors on the same packed bytes. GB/s of float32, packing "
        "included.",
        columns);
    generate_ternary(arena->values, arena->count, DENSITY);
    arena->data = "ternary, density 0.05";
    TERN_TRY(compare_packed(arena));
    generate_normal(arena->values, arena->count);
    arena->data = "normal, 3lc:s=1";
    TERN_TRY(compare_packed(arena));
    arena->key = "floats";
    tern_report_table(report, arena->key,
                      "Against general compressors, which lose nothing, on raw normal float32.",
                      columns);
    arena->data = "normal float32";
    return compare_floats(arena);
}

static bool arena_make(struct arena *arena)
{
    // A payload of few values is larger than the values.
    size_t bytes = tern_codec_bound_any(arena->count);
    arena->squeezed_size = bytes;
    for (const struct rival *rival = rivals; rival->name != NULL; rival++) {
        size_t bound = rival->bound(bytes);
        arena->squeezed_size = bound > arena->squeezed_size ? bound : arena->squeezed_size;
    }
    arena->values = malloc(arena->count * sizeof(float));
    arena->squeezed = malloc(arena->squeezed_size);
    arena->expanded = malloc(bytes);
    return arena->values != NULL && arena->squeezed != NULL && arena->expanded != NULL &&
           tern_workbench_make(&arena->place, arena->count);
}

enum tern_result bench_rivals(struct bench *bench)
{
    struct arena arena = {.bench = bench,
                          .count = bench->medium < VALUES_MAX ? bench->medium : VALUES_MAX};
    enum tern_result result = arena_make(&arena) ? compare_all(&arena) : TERN_ERR_NO_MEMORY;
    if (result == TERN_OK && bench->report.text && rivals[0].name == NULL) {
        puts("zstd and LZ4 are left out: libzstd-dev and liblz4-dev were not installed at build "
             "time.");
    }
    tern_workbench_free(&arena.place);
    free(arena.values);
    free(arena.squeezed);
    free(arena.expanded);
    return result;
}
