#include "verbs.h"

#include "codec/codec.h"
#include "util/prng.h"
#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SMALL = 100000, LARGE = 64000000, LARGEST = 1 << 28 };

static const char *const specs[] = {"float32", "float16", "3lc:s=1", "3lc:s=1.75"};

enum { SPEC_COUNT = sizeof specs / sizeof specs[0] };

// Buffers of one size: the values to encode, a copy that is encoded, decoded and added to, and the
// payload.
struct arena {
    size_t count;
    float *input;
    float *work;
    uint8_t *payload;
    size_t payload_size;
};

// Seconds of the fastest run of each step.
struct times {
    double copy, encode, decode, accumulate;
};

struct row {
    const char *spec;
    size_t count;
    size_t bytes;
    double density;
    struct times best;
};

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// Normally distributed values, two at a time (Box and Muller 1958).
static void fill_normal(float *values, size_t count)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 1, TERN_PRNG_TEST, 0, 0);
    for (size_t i = 0; i < count; i += 2) {
        float radius = sqrtf(-2 * logf(1 - tern_prng_float(&rng)));
        float angle = 6.2831853f * tern_prng_float(&rng);
        values[i] = radius * cosf(angle);
        if (i + 1 < count) {
            values[i + 1] = radius * sinf(angle);
        }
    }
}

static bool arena_make(struct arena *arena, size_t count)
{
    arena->count = count;
    arena->payload_size = tern_codec_bound_any(count);
    arena->input = malloc(count * sizeof(float));
    arena->work = malloc(count * sizeof(float));
    arena->payload = malloc(arena->payload_size);
    if (arena->input == NULL || arena->work == NULL || arena->payload == NULL) {
        return false;
    }
    // Touches every page, so that no run pays for its first use.
    memset(arena->payload, 0xff, arena->payload_size);
    fill_normal(arena->input, count);
    memcpy(arena->work, arena->input, count * sizeof(float));
    return true;
}

static void arena_free(struct arena *arena)
{
    free(arena->input);
    free(arena->work);
    free(arena->payload);
}

static void keep_best(double *best, double start)
{
    double taken = seconds() - start;
    *best = taken < *best ? taken : *best;
}

static enum tern_result run_once(const struct tern_codec *codec, const struct arena *arena,
                                 struct row *row)
{
    double start = seconds();
    memcpy(arena->work, arena->input, arena->count * sizeof(float));
    keep_best(&row->best.copy, start);
    start = seconds();
    TERN_TRY(tern_codec_encode(codec, NULL, arena->work, arena->count, arena->payload,
                               arena->payload_size, &row->bytes));
    keep_best(&row->best.encode, start);
    start = seconds();
    TERN_TRY(tern_codec_decode(arena->payload, row->bytes, arena->work, arena->count));
    keep_best(&row->best.decode, start);
    start = seconds();
    TERN_TRY(tern_codec_accumulate(arena->payload, row->bytes, 0.5f, arena->work, arena->count));
    keep_best(&row->best.accumulate, start);
    return TERN_OK;
}

static enum tern_result measure(const char *spec, const struct arena *arena, struct row *row)
{
    struct tern_codec codec;
    struct tern_codec_info info;
    TERN_TRY(tern_codec_parse(spec, &codec, NULL));
    *row = (struct row){.spec = spec, .count = arena->count, .best = {1e9, 1e9, 1e9, 1e9}};
    size_t runs = 5 + 5000000 / arena->count;
    for (size_t i = 0; i < runs; i++) {
        TERN_TRY(run_once(&codec, arena, row));
    }
    TERN_TRY(tern_codec_inspect(arena->payload, row->bytes, arena->count, &info));
    row->density = (double)info.nonzero / (double)arena->count;
    return TERN_OK;
}

// GB/s of float32.
static double rate(const struct row *row, double taken)
{
    return 4e-9 * (double)row->count / taken;
}

static void print_row(const struct row *row)
{
    const double steps[] = {row->best.encode, row->best.decode, row->best.accumulate};
    printf("%-10s %9zu %7.4f %7.3f %7.1f", row->spec, row->count, row->density,
           8 * (double)row->bytes / (double)row->count, rate(row, row->best.copy));
    for (size_t i = 0; i < 3; i++) {
        printf(" %7.1f %5.2f", rate(row, steps[i]), row->best.copy / steps[i]);
    }
    putchar('\n');
    fflush(stdout);
}

static void add_row(cJSON *list, const struct row *row)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "codec", row->spec);
    cJSON_AddNumberToObject(json, "count", (double)row->count);
    cJSON_AddNumberToObject(json, "density", row->density);
    cJSON_AddNumberToObject(json, "bits_per_value", 8 * (double)row->bytes / (double)row->count);
    cJSON_AddNumberToObject(json, "memcpy_gb_per_s", rate(row, row->best.copy));
    cJSON_AddNumberToObject(json, "encode_gb_per_s", rate(row, row->best.encode));
    cJSON_AddNumberToObject(json, "decode_gb_per_s", rate(row, row->best.decode));
    cJSON_AddNumberToObject(json, "accumulate_gb_per_s", rate(row, row->best.accumulate));
    cJSON_AddItemToArray(list, json);
}

// Measures every codec at one size; rows go to `list`, or to stdout when there is none.
static enum tern_result measure_all(size_t count, cJSON *list)
{
    struct arena arena;
    enum tern_result result = arena_make(&arena, count) ? TERN_OK : TERN_ERR_NO_MEMORY;
    for (size_t i = 0; i < SPEC_COUNT && result == TERN_OK; i++) {
        struct row row;
        result = measure(specs[i], &arena, &row);
        if (result == TERN_OK && list != NULL) {
            add_row(list, &row);
        } else if (result == TERN_OK) {
            print_row(&row);
        }
    }
    arena_free(&arena);
    return result;
}

static void print_json(const cJSON *list)
{
    char *text = cJSON_Print(list);
    puts(text != NULL ? text : "[]");
    cJSON_free(text);
}

int verb_bench(struct tern_cli *cli)
{
    uint64_t large = 0;
    enum tern_result result = tern_cli_number(cli, "count", LARGE, 1, LARGEST, &large);
    if (result != TERN_OK) {
        return (int)tern_cli_exit_code(result);
    }
    cJSON *list = cli->json ? cJSON_CreateArray() : NULL;
    if (list == NULL) {
        puts("GB/s of float32, and times memcpy of the same values in the same run");
        puts("codec         values density bits/val memcpy  encode  ratio decode ratio"
             "  accum. ratio");
    }
    result = measure_all(SMALL, list);
    if (result == TERN_OK && large != SMALL) {
        result = measure_all((size_t)large, list);
    }
    if (result == TERN_OK && list != NULL) {
        print_json(list);
    }
    cJSON_Delete(list);
    if (result == TERN_ERR_NO_MEMORY) {
        return tern_cli_fail(cli, result, "no memory for %llu values; give a smaller --count",
                             (unsigned long long)large);
    }
    return result == TERN_OK ? TERN_EXIT_OK
                             : tern_cli_fail(cli, result, "%s", tern_result_sentence(result));
}
