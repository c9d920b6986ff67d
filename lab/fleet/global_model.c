#include "fleet/global_model.h"

#include "data/columns.h"
#include "fleet/scores.h"
#include "fleet/shares.h"
#include "hosted/files.h"
#include "tensor/manifest.h"
#include "trainer/trainer.h"
#include "util/bytes.h"
#include "util/sha256.h"
#include "wire/wire.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tern_client_figures {
    // [clients]; num_examples 0: no test example is from the client's groups
    struct tern_evaluate_result *of;
    uint32_t clients; // 0: the partition is not natural
};

// --- Clients' figures

// Measures a model that is not a classifier on each client's own data: the test examples of its groups. Pure except
// for the heap; not reentrant.

static void client_figures_clear(struct tern_client_figures *figures)
{
    free(figures->of);
    memset(figures, 0, sizeof *figures);
}

static enum tern_result evaluate(const struct tern_shares *shares, uint32_t client,
                                 const struct tern_model *model, const float *weights,
                                 const struct tern_view *test, struct tern_evaluate_result *found)
{
    static struct tern_builtin_trainer trainer;
    void *arena = NULL;
    enum tern_result result =
        tern_trainer_alone(&trainer, model, tern_shares_of(shares, client), *test, &arena);
    if (result == TERN_OK) {
        const struct tern_trainer port = tern_builtin_trainer_port(&trainer);
        result = port.evaluate(port.ctx, weights, model->count, found);
    }
    free(arena);
    return result;
}

// owners: the client of each group; indices: room for all test examples.
static enum tern_result make(const struct tern_shares *shares, const struct tern_model *model,
                             const float *weights, const uint32_t *owners, uint32_t *indices,
                             struct tern_client_figures *figures)
{
    const struct tern_dataset *test = &shares->data.test;
    for (uint32_t c = 0; c < figures->clients; c++) {
        struct tern_view own = {.dataset = test, .indices = indices};
        for (uint32_t i = 0; i < test->count; i++) {
            if (owners[test->groups[i]] == c) {
                indices[own.count++] = i;
            }
        }
        if (own.count > 0) {
            TERN_TRY(evaluate(shares, c, model, weights, &own, &figures->of[c]));
        }
    }
    return TERN_OK;
}

// TERN_ERR_NO_MEMORY; errors of the built-in trainer
static enum tern_result client_figures_make(const struct tern_shares *shares,
                                            const struct tern_model *model, const float *weights,
                                            struct tern_client_figures *figures)
{
    const struct tern_dataset *test = &shares->data.test;
    *figures = (struct tern_client_figures){.clients = 0};
    if (shares->kind != TERN_PARTITION_NATURAL || test->groups == NULL) {
        return TERN_OK;
    }
    uint32_t *owners = calloc(shares->data.train.group_count, sizeof *owners);
    uint32_t *indices = calloc(test->count, sizeof *indices);
    figures->clients = shares->partition.client_count;
    figures->of = calloc(figures->clients, sizeof *figures->of);
    enum tern_result result =
        owners != NULL && indices != NULL && figures->of != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
    if (result == TERN_OK) {
        tern_shares_owners(shares, owners);
        result = make(shares, model, weights, owners, indices, figures);
    }
    free(owners);
    free(indices);
    if (result != TERN_OK) {
        client_figures_clear(figures);
    }
    return result;
}

static cJSON *json_of(const struct tern_evaluate_result *of, const char *name)
{
    if (of->num_examples > 0 && name == NULL) {
        return cJSON_CreateNumber((double)of->loss);
    }
    for (uint32_t i = 0; of->num_examples > 0 && i < of->metric_count; i++) {
        if (strcmp(of->metrics[i].name, name) == 0) {
            return cJSON_CreateNumber((double)of->metrics[i].value);
        }
    }
    return cJSON_CreateNull();
}

// Returns a list with one number per client, null if unknown: a metric, or with name NULL the loss. The caller
// deletes it.
static cJSON *client_figures_json(const struct tern_client_figures *figures, const char *name)
{
    cJSON *list = cJSON_CreateArray();
    for (uint32_t c = 0; c < figures->clients; c++) {
        cJSON_AddItemToArray(list, json_of(&figures->of[c], name));
    }
    return list;
}

// --- The global model

#define RESULTS_BYTES_MAX ((size_t)256 << 20)
#define WEIGHTS_BYTES_MAX ((size_t)4 << 30)

static enum tern_result explain(char why[512], const char *what, enum tern_result result)
{
    snprintf(why, 512, "%.300s: %s", what, tern_result_sentence(result));
    return result;
}

// manifest: hex; NULL: the spec gives the tensors' rules.
static enum tern_result build(struct tern_model *model, const char *spec, const char *manifest)
{
    if (manifest == NULL) {
        return tern_model_from_spec(model, spec);
    }
    const size_t len = strlen(manifest) / 2;
    uint8_t *bytes = malloc(len + 1);
    if (bytes == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result = tern_hex_decode(manifest, bytes, len);
    if (result == TERN_OK) {
        result = tern_model_from_manifest(model, bytes, len);
    }
    free(bytes);
    return result;
}

static enum tern_result read_results(const char *path, cJSON **json, struct tern_model *model,
                                     const char **hash, uint32_t *clients, char why[512])
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
    const double count = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(*json, "clients"));
    *clients = count >= 1.0 && count <= 1e6 ? (uint32_t)count : 0;
    const char *manifest =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(*json, "manifest"));
    if (spec == NULL || *hash == NULL || *clients == 0 || build(model, spec, manifest) != TERN_OK) {
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
    // Without a last round the run has no final hash, and an averaged model has another hash.
    const bool same = hash[0] == '\0' || strcmp(hex, hash) == 0;
    if (len != sizeof(float) * (size_t)model->count || !same) {
        snprintf(why, 512, "%.300s is not the model with which the run ended", path);
        return TERN_ERR_MODEL_MISMATCH;
    }
    return TERN_OK;
}

struct measured {
    struct tern_evaluate_result whole;
    struct tern_scores scores;
    struct tern_client_figures figures; // figures of each client, if the model is not a classifier
    cJSON *groups;  // group names of each client; NULL: the partition is not natural
    cJSON *classes; // class names; empty: labels are numbers
};

// Measures the loss, and the answer to each example.
static enum tern_result ask(struct tern_builtin_trainer *trainer, const struct tern_model *model,
                            const float *weights, const struct tern_shares *shares,
                            struct measured *measured)
{
    const uint32_t count = model->count;
    const struct tern_trainer port = tern_builtin_trainer_port(trainer);
    TERN_TRY(port.evaluate(port.ctx, weights, count, &measured->whole));
    if (measured->whole.no_accuracy) {
        return client_figures_make(shares, model, weights, &measured->figures);
    }
    uint16_t *answers = malloc(shares->data.test.count * sizeof *answers);
    if (answers == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result = tern_builtin_trainer_answer(trainer, weights, count, answers);
    if (result == TERN_OK) {
        result = tern_scores_make(shares, answers, &measured->scores);
    }
    free(answers);
    return result;
}

static enum tern_result measure_on(const struct tern_shares *shares, const struct tern_model *model,
                                   const float *weights, struct measured *measured)
{
    static struct tern_builtin_trainer trainer;
    void *arena = NULL;
    enum tern_result result =
        tern_trainer_alone(&trainer, model, (struct tern_view){.dataset = &shares->data.train},
                           tern_view_all(&shares->data.test), &arena);
    if (result == TERN_OK) {
        result = ask(&trainer, model, weights, shares, measured);
    }
    free(arena);
    return result;
}

// Scales the columns as the run did. hex: the run's scaling; NULL: none.
static enum tern_result scale(struct tern_shares *shares, const char *hex, char why[512])
{
    const size_t len = (size_t)tern_data_columns(&shares->data) * TERN_WIRE_COLUMN_BYTES;
    uint8_t *columns = hex != NULL ? malloc(len) : NULL;
    if (hex == NULL) {
        return TERN_OK;
    }
    enum tern_result result = columns != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
    if (result == TERN_OK) {
        result = tern_hex_decode(hex, columns, len);
    }
    if (result == TERN_OK) {
        result = tern_shares_scale(shares, 1, columns);
    }
    free(columns);
    return result == TERN_OK ? TERN_OK
                             : explain(why,
                                       "the run's scaling does not fit the columns of this data: "
                                       "use the data of the run",
                                       result);
}

// Reads little-endian float32 and converts them in place.
static enum tern_result measure(const struct tern_fleet_settings *settings, const cJSON *json,
                                uint32_t clients, const struct tern_model *model, uint8_t *bytes,
                                struct measured *measured, char why[512])
{
    const char *scaling = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "scaling"));
    struct tern_shares shares;
    float *weights = (float *)(void *)bytes;
    for (uint32_t i = 0; i < model->count; i++) {
        weights[i] = tern_get_f32(bytes + sizeof(float) * i);
    }
    TERN_TRY(tern_shares_open(settings, clients, &shares, why));
    const enum tern_result scaled = scale(&shares, scaling, why);
    if (scaled != TERN_OK) {
        tern_shares_close(&shares);
        return scaled;
    }
    measured->classes = tern_class_names(&shares.data);
    enum tern_result result = measured->classes != NULL
                                  ? measure_on(&shares, model, weights, measured)
                                  : TERN_ERR_NO_MEMORY;
    if (result == TERN_OK && shares.kind == TERN_PARTITION_NATURAL) {
        measured->groups = tern_client_groups(&shares);
        result = measured->groups != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
    }
    tern_shares_close(&shares);
    return result == TERN_OK ? TERN_OK : explain(why, "the model cannot be measured", result);
}

static void replace(cJSON *json, const char *key, cJSON *item)
{
    cJSON_DeleteItemFromObjectCaseSensitive(json, key);
    cJSON_AddItemToObject(json, key, item);
}

// Returns a matrix of integers as a list of rows.
static cJSON *confusion_of(const struct tern_scores *scores)
{
    cJSON *rows = cJSON_CreateArray();
    for (uint32_t k = 0; k < scores->classes; k++) {
        cJSON *row = cJSON_CreateArray();
        for (uint32_t j = 0; j < scores->classes; j++) {
            const double count = scores->confusion[(size_t)k * scores->classes + j];
            cJSON_AddItemToArray(row, cJSON_CreateNumber(count));
        }
        cJSON_AddItemToArray(rows, row);
    }
    return rows;
}

static void put_global(cJSON *json, struct measured *measured)
{
    const struct tern_scores *scores = &measured->scores;
    const int classes = (int)scores->classes;
    const int clients = (int)scores->clients;
    replace(json, "global_accuracy", cJSON_CreateNumber((double)measured->whole.accuracy));
    replace(json, "global_loss", cJSON_CreateNumber((double)measured->whole.loss));
    replace(json, "macro_f1", cJSON_CreateNumber(scores->macro_f1));
    replace(json, "class_accuracy", cJSON_CreateDoubleArray(scores->class_accuracy, classes));
    replace(json, "class_precision", cJSON_CreateDoubleArray(scores->class_precision, classes));
    replace(json, "class_f1", cJSON_CreateDoubleArray(scores->class_f1, classes));
    replace(json, "confusion", confusion_of(scores));
    replace(json, "client_accuracy", cJSON_CreateDoubleArray(scores->client_accuracy, clients));
    replace(json, "client_examples", cJSON_CreateDoubleArray(scores->client_examples, clients));
    if (measured->groups != NULL) {
        replace(json, "client_groups", measured->groups);
        measured->groups = NULL;
    }
    if (cJSON_GetArraySize(measured->classes) > 0) {
        replace(json, "class_names", measured->classes);
        measured->classes = NULL;
    }
}

static void put_averaged(cJSON *json, struct measured *measured)
{
    replace(json, "averaged_accuracy", cJSON_CreateNumber((double)measured->whole.accuracy));
    replace(json, "averaged_loss", cJSON_CreateNumber((double)measured->whole.loss));
    replace(json, "averaged_macro_f1", cJSON_CreateNumber(measured->scores.macro_f1));
}

// Adds "global_loss", "global_r2" and so on, for a model that is not a classifier.
static void put_figures(cJSON *json, const struct measured *measured, bool averaged)
{
    const char *of = averaged ? "averaged" : "global";
    char key[TERN_METRIC_NAME_MAX + 16];
    snprintf(key, sizeof key, "%s_loss", of);
    replace(json, key, cJSON_CreateNumber((double)measured->whole.loss));
    for (uint32_t i = 0; i < measured->whole.metric_count; i++) {
        const struct tern_metric *metric = &measured->whole.metrics[i];
        snprintf(key, sizeof key, "%s_%s", of, metric->name);
        replace(json, key, cJSON_CreateNumber((double)metric->value));
    }
}

// Adds "client_loss", "client_r2" and so on, each a list over the clients.
static void put_client_figures(cJSON *json, struct measured *measured)
{
    char key[TERN_METRIC_NAME_MAX + 16];
    if (measured->figures.clients == 0) {
        return;
    }
    replace(json, "client_loss", client_figures_json(&measured->figures, NULL));
    for (uint32_t i = 0; i < measured->whole.metric_count; i++) {
        const char *name = measured->whole.metrics[i].name;
        snprintf(key, sizeof key, "client_%s", name);
        replace(json, key, client_figures_json(&measured->figures, name));
    }
    if (measured->groups != NULL) {
        replace(json, "client_groups", measured->groups);
        measured->groups = NULL;
    }
}

static enum tern_result write_results(const cJSON *json, const char *path, char why[512])
{
    char *text = cJSON_Print(json);
    if (text == NULL) {
        return explain(why, path, TERN_ERR_NO_MEMORY);
    }
    const enum tern_result result = tern_file_write(path, text, strlen(text), 0644);
    cJSON_free(text);
    return result == TERN_OK ? TERN_OK : explain(why, path, result);
}

static struct tern_client_score score_of(const struct measured *measured, uint32_t client)
{
    struct tern_client_score score = {.accuracy = measured->scores.client_accuracy[client],
                                      .number = client + 1};
    if (measured->groups != NULL) {
        tern_client_groups_show(measured->groups, client, score.groups);
    }
    return score;
}

// NAN marks an unknown client; comparisons with it are false.
static void summarise(const struct measured *measured, struct tern_global_model *summary)
{
    const struct tern_scores *scores = &measured->scores;
    uint32_t worst = 0;
    uint32_t best = 0;
    for (uint32_t c = 1; c < scores->clients; c++) {
        const double accuracy = scores->client_accuracy[c];
        worst = !(accuracy >= scores->client_accuracy[worst]) && !isnan(accuracy) ? c : worst;
        best = !(accuracy <= scores->client_accuracy[best]) && !isnan(accuracy) ? c : best;
    }
    *summary = (struct tern_global_model){.accuracy = (double)measured->whole.accuracy,
                                          .macro_f1 = scores->macro_f1,
                                          .worst = score_of(measured, worst),
                                          .best = score_of(measured, best)};
}

enum tern_result tern_global_model_measure(const struct tern_fleet_settings *settings,
                                           const char *results, const char *weights, bool averaged,
                                           struct tern_global_model *summary, char why[512])
{
    static struct tern_model model;
    struct measured measured = {0};
    const char *hash = NULL;
    uint32_t clients = 0;
    cJSON *json = NULL;
    uint8_t *bytes = NULL;
    enum tern_result result = read_results(results, &json, &model, &hash, &clients, why);
    if (result == TERN_OK) {
        result = read_weights(weights, &model, averaged ? "" : hash, &bytes, why);
    }
    if (result == TERN_OK) {
        result = measure(settings, json, clients, &model, bytes, &measured, why);
    }
    if (result == TERN_OK && measured.whole.no_accuracy) {
        *summary = (struct tern_global_model){.whole = measured.whole};
        put_figures(json, &measured, averaged);
        if (!averaged) {
            put_client_figures(json, &measured);
        }
        result = write_results(json, results, why);
    } else if (result == TERN_OK) {
        summarise(&measured, summary);
        (averaged ? put_averaged : put_global)(json, &measured);
        result = write_results(json, results, why);
    }
    tern_scores_clear(&measured.scores);
    client_figures_clear(&measured.figures);
    cJSON_Delete(measured.groups);
    cJSON_Delete(measured.classes);
    free(bytes);
    cJSON_Delete(json);
    return result;
}
