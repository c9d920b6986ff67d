#include "fleet/global_model.h"
#include "data/source.h"
#include "fleet/pool.h"
#include "hosted/files.h"
#include "util/bytes.h"
#include "util/sha256.h"
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESULTS_BYTES_MAX ((size_t)256 << 20)
#define WEIGHTS_BYTES_MAX ((size_t)4 << 30)

static enum tern_result explain(char why[512], const char *what, enum tern_result result)
{
    snprintf(why, 512, "%.300s: %s", what, tern_result_sentence(result));
    return result;
}

static enum tern_result read_results(const char *path, cJSON **json, struct tern_model *model,
                                     const char **hash, char why[512])
{
    uint8_t *text = NULL;
    size_t len = 0;
    const enum tern_result result = tern_file_read(path, RESULTS_BYTES_MAX, &text, &len);
    if (result != TERN_OK) {
        return explain(why, path, result);
    }
    *json = cJSON_ParseWithLength((const char *)text, len);
    free(text);
    const char *spec = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(*json, "model"));
    *hash = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(*json, "model_hash"));
    if (spec == NULL || *hash == NULL || tern_model_from_spec(model, spec) != TERN_OK) {
        snprintf(why, 512, "%.300s is not the JSON of a run of a built-in model", path);
        return TERN_ERR_CORRUPT;
    }
    return TERN_OK;
}

static enum tern_result read_weights(const char *path, const struct tern_model *model,
                                     const char *hash, uint8_t **bytes, char why[512])
{
    uint8_t digest[TERN_SHA256_SIZE];
    char hex[2 * TERN_SHA256_SIZE + 1];
    size_t len = 0;
    const enum tern_result result = tern_file_read(path, WEIGHTS_BYTES_MAX, bytes, &len);
    if (result != TERN_OK) {
        return explain(why, path, result);
    }
    tern_sha256(*bytes, len, digest);
    tern_hex_encode(digest, sizeof digest, hex);
    // A run that stopped before the last round was not told the hash.
    const bool same = hash[0] == '\0' || strcmp(hex, hash) == 0;
    if (len != sizeof(float) * (size_t)model->count || !same) {
        snprintf(why, 512, "%.300s is not the model with which the run ended", path);
        return TERN_ERR_MODEL_MISMATCH;
    }
    return TERN_OK;
}

// bytes: little-endian float32, turned into floats in place.
static enum tern_result measure(const struct tern_fleet_settings *settings,
                                const struct tern_model *model, uint8_t *bytes,
                                struct tern_evaluate_result *found, char why[512])
{
    char spec[TERN_DATA_SPEC_MAX];
    char data_why[TERN_DATA_WHY_MAX];
    struct tern_data data;
    struct tern_pool pool = {0};
    float *weights = (float *)(void *)bytes;
    for (uint32_t i = 0; i < model->count; i++) {
        weights[i] = tern_get_f32(bytes + sizeof(float) * i);
    }
    tern_data_spec_join(settings->data_source, settings->data_dir, spec);
    enum tern_result result = tern_dataset_open(spec, NULL, &data, data_why);
    if (result != TERN_OK) {
        return explain(why, data_why, result);
    }
    const struct tern_view test = tern_view_all(&data.test);
    result = tern_pool_init(&pool, model, 1, (struct tern_view){.dataset = &data.train}, test);
    if (result == TERN_OK) {
        struct tern_pool_seat seat = {.pool = &pool, .test = test};
        const struct tern_trainer port = tern_pool_port(&seat);
        result = port.evaluate(port.ctx, weights, model->count, found);
        tern_pool_clear(&pool);
    }
    tern_data_close(&data);
    return result == TERN_OK ? TERN_OK : explain(why, "the model cannot be measured", result);
}

static enum tern_result put(cJSON *json, const char *path, const struct tern_evaluate_result *found,
                            char why[512])
{
    cJSON_DeleteItemFromObjectCaseSensitive(json, "global_accuracy");
    cJSON_DeleteItemFromObjectCaseSensitive(json, "global_loss");
    cJSON_AddNumberToObject(json, "global_accuracy", (double)found->accuracy);
    cJSON_AddNumberToObject(json, "global_loss", (double)found->loss);
    char *text = cJSON_Print(json);
    if (text == NULL) {
        return explain(why, path, TERN_ERR_NO_MEMORY);
    }
    const enum tern_result result = tern_file_write(path, text, strlen(text), 0644);
    cJSON_free(text);
    return result == TERN_OK ? TERN_OK : explain(why, path, result);
}

enum tern_result tern_global_model_measure(const struct tern_fleet_settings *settings,
                                           const char *results, const char *weights,
                                           double *accuracy, char why[512])
{
    static struct tern_model model;
    struct tern_evaluate_result found = {0};
    const char *hash = NULL;
    cJSON *json = NULL;
    uint8_t *bytes = NULL;
    enum tern_result result = read_results(results, &json, &model, &hash, why);
    if (result == TERN_OK) {
        result = read_weights(weights, &model, hash, &bytes, why);
    }
    if (result == TERN_OK) {
        result = measure(settings, &model, bytes, &found, why);
    }
    if (result == TERN_OK) {
        result = put(json, results, &found, why);
        *accuracy = (double)found.accuracy;
    }
    free(bytes);
    cJSON_Delete(json);
    return result;
}
