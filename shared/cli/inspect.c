#include "verbs.h"

#include "codec/codec.h"
#include "float_file.h"
#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>

// What is printed of a payload.
struct facts {
    struct tern_codec_info info;
    size_t bytes;
    size_t count;
    double density;
    double bits_per_value;
    double entropy; // bits per value of independent ternary symbols; NaN for dense modes
};

// Bits that a symbol of `part` in `whole` adds to the mean.
static double symbol_entropy(double part, double whole)
{
    return part > 0 ? -part / whole * log2(part / whole) : 0;
}

// Order-0 entropy of the ternary symbols of decoded values.
static double ternary_entropy(const float *values, size_t count)
{
    double plus = 0;
    double minus = 0;
    for (size_t i = 0; i < count; i++) {
        plus += values[i] > 0;
        minus += values[i] < 0;
    }
    double whole = (double)count;
    return symbol_entropy(plus, whole) + symbol_entropy(minus, whole) +
           symbol_entropy(whole - plus - minus, whole);
}

static enum tern_result gather(const uint8_t *payload, size_t len, size_t count,
                               struct facts *facts)
{
    TERN_TRY(tern_codec_inspect(payload, len, count, &facts->info));
    float *values = malloc(count * sizeof *values + 1);
    if (values == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result = tern_codec_decode(payload, len, values, count);
    bool ternary = facts->info.ternary;
    double whole = count > 0 ? (double)count : 1;
    facts->bytes = len;
    facts->count = count;
    facts->density = (double)facts->info.nonzero / whole;
    facts->bits_per_value = 8 * (double)len / whole;
    facts->entropy = (double)NAN;
    if (result == TERN_OK && ternary) {
        facts->entropy = count > 0 ? ternary_entropy(values, count) : 0;
    }
    free(values);
    return result;
}

static void print_json(const struct facts *facts)
{
    cJSON *json = cJSON_CreateObject();
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
    char *text = cJSON_Print(json);
    puts(text != NULL ? text : "{}");
    cJSON_free(text);
    cJSON_Delete(json);
}

static void print_text(const struct facts *facts)
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
    printf("\nzero runs       %zu\n", info->runs);
}

int verb_inspect(struct tern_cli *cli)
{
    uint8_t *payload = NULL;
    size_t len = 0;
    size_t count = 0;
    struct facts facts;
    enum tern_result result = payload_read(cli, cli->arguments[0], &payload, &len, &count);
    if (result != TERN_OK) {
        return (int)tern_cli_exit_code(result);
    }
    result = gather(payload, len, count, &facts);
    free(payload);
    if (result == TERN_ERR_NO_MEMORY) {
        return tern_cli_fail(cli, result, "no memory for %zu values", count);
    }
    if (result != TERN_OK) {
        return payload_fail(cli, result, cli->arguments[0], count);
    }
    if (cli->json) {
        print_json(&facts);
    } else {
        print_text(&facts);
    }
    return TERN_EXIT_OK;
}
