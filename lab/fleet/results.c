#include "fleet/results.h"

#include "fleet/figure.h"
#include "hosted/files.h"
#include "util/bytes.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Series

// The lists in a run's JSON: by round, by client, and for participations and arrivals one list per column, so that
// the JSON stays flat.

static void add_list(cJSON *json, const char *key, const double *values, uint32_t count)
{
    if (values != NULL) {
        cJSON_AddItemToObject(json, key, cJSON_CreateDoubleArray(values, (int)count));
    }
}

// Milliseconds are rounded: further digits are noise.
static double rounded(double ms)
{
    return round(ms * 1e3) / 1e3;
}

// Returns a column's value in record i.
typedef double column(const struct tern_records *records, size_t i);

#define COLUMN(name, list, value)                                                                  \
    static double name(const struct tern_records *records, size_t i)                               \
    {                                                                                              \
        return (double)(records->list[i].value);                                                   \
    }
#define MS_COLUMN(name, list, value)                                                               \
    static double name(const struct tern_records *records, size_t i)                               \
    {                                                                                              \
        return rounded(records->list[i].value);                                                    \
    }

COLUMN(record_version, participations, version)
COLUMN(record_client, participations, client)
COLUMN(record_steps, participations, local_steps)
COLUMN(record_payload_up, participations, up.payload)
COLUMN(record_payload_down, participations, down.payload)
COLUMN(record_wire_up, participations, up.wire)
COLUMN(record_wire_down, participations, down.wire)
MS_COLUMN(record_train_ms, participations, train_ms)
MS_COLUMN(record_codec_ms, participations, codec_ms)
MS_COLUMN(record_device_ms, participations, device_ms)
COLUMN(arrival_client, arrivals, client)
COLUMN(arrival_version, arrivals, version)
COLUMN(arrival_missed, arrivals, missed)
COLUMN(arrival_payload_down, arrivals, down.payload)
COLUMN(arrival_wire_down, arrivals, down.wire)
COLUMN(arrival_accuracy, arrivals, accuracy)

struct named_column {
    const char *key;
    column *value;
};

static const struct named_column record_columns[] = {
    {"record_version", record_version},
    {"record_client", record_client},
    {"record_steps", record_steps},
    {"record_payload_up", record_payload_up},
    {"record_payload_down", record_payload_down},
    {"record_wire_up", record_wire_up},
    {"record_wire_down", record_wire_down},
    {"record_train_ms", record_train_ms},
    {"record_codec_ms", record_codec_ms},
    {"record_device_ms", record_device_ms},
};

static const struct named_column arrival_columns[] = {
    {"arrival_client", arrival_client},       {"arrival_version", arrival_version},
    {"arrival_missed", arrival_missed},       {"arrival_payload_down", arrival_payload_down},
    {"arrival_wire_down", arrival_wire_down}, {"arrival_accuracy", arrival_accuracy},
};

static void add_columns(cJSON *json, const struct named_column *columns, size_t columns_count,
                        const struct tern_records *records, size_t count)
{
    for (size_t i = 0; i < columns_count && count > 0; i++) {
        cJSON *list = cJSON_AddArrayToObject(json, columns[i].key);
        for (size_t j = 0; j < count; j++) {
            cJSON_AddItemToArray(list, cJSON_CreateNumber(columns[i].value(records, j)));
        }
    }
}

// Returns a metric, or with name NULL the loss. NAN: not measured, or no such metric.
static double figure(const struct tern_evaluate_result *found, const char *name)
{
    if (name == NULL) {
        return found->num_examples > 0 ? (double)found->loss : NAN;
    }
    for (uint32_t i = 0; i < found->metric_count; i++) {
        if (strcmp(found->metrics[i].name, name) == 0) {
            return (double)found->metrics[i].value;
        }
    }
    return NAN;
}

static void add_figure(cJSON *json, const char *key, const struct tern_fleet_results *results,
                       const char *name)
{
    cJSON *list = cJSON_AddArrayToObject(json, key);
    for (uint32_t i = 0; i < results->rounds; i++) {
        const double value = figure(&results->found[i], name);
        cJSON_AddItemToArray(list, isnan(value) ? cJSON_CreateNull() : cJSON_CreateNumber(value));
    }
}

// Adds the figures of a model that is not a classifier.
static void add_figures(cJSON *json, const struct tern_fleet_results *results)
{
    const struct tern_evaluate_result *last = tern_fleet_final_figures(results);
    if (last == NULL) {
        return;
    }
    add_figure(json, "evaluated_loss", results, NULL);
    cJSON_AddNumberToObject(json, "final_evaluated_loss", (double)last->loss);
    for (uint32_t i = 0; i < last->metric_count; i++) {
        char key[TERN_METRIC_NAME_MAX + 16];
        add_figure(json, last->metrics[i].name, results, last->metrics[i].name);
        snprintf(key, sizeof key, "final_%s", last->metrics[i].name);
        cJSON_AddNumberToObject(json, key, (double)last->metrics[i].value);
    }
}

// Returns "replica_accuracy", "replica_r2" or "replica_auc".
static void add_replicas(cJSON *json, const struct tern_fleet_results *results)
{
    const struct tern_evaluate_result *last = tern_fleet_final_figures(results);
    const char *name = last != NULL ? tern_figure_name(last) : "accuracy";
    char key[TERN_METRIC_NAME_MAX + 16];
    if (name != NULL) {
        snprintf(key, sizeof key, "replica_%s", name);
        add_list(json, key, results->replica_figure, results->clients);
    }
}

// Adds round, clients, bytes and hash of the mean update of each secure round.
static void add_open_means(cJSON *json, const struct tern_fleet_results *results)
{
    if (results->open_count == 0) {
        return;
    }
    cJSON *rounds = cJSON_AddArrayToObject(json, "open_sum_round");
    cJSON *clients = cJSON_AddArrayToObject(json, "open_sum_clients");
    cJSON *sizes = cJSON_AddArrayToObject(json, "open_sum_bytes");
    cJSON *hashes = cJSON_AddArrayToObject(json, "open_sum_sha256");
    for (uint32_t i = 0; i < results->open_count; i++) {
        const struct tern_open_mean *mean = &results->open_means[i];
        char text[2 * TERN_SHA256_SIZE + 1];
        tern_hex_encode(mean->sha256, sizeof mean->sha256, text);
        cJSON_AddItemToArray(rounds, cJSON_CreateNumber(mean->round));
        cJSON_AddItemToArray(clients, cJSON_CreateNumber(mean->clients));
        cJSON_AddItemToArray(sizes, cJSON_CreateNumber((double)mean->size));
        cJSON_AddItemToArray(hashes, cJSON_CreateString(text));
    }
}

// Adds the lists that exist: accuracy and round_* (one per round; null: not measured), replica_* (one per client),
// record_* (one per applied update, by version and client), arrival_* and open_sum_* (one per secure round).
static void series_add(cJSON *json, const struct tern_fleet_results *results)
{
    const struct tern_records *records = &results->records;
    add_list(json, "accuracy", results->accuracy, results->rounds);
    add_figures(json, results);
    add_list(json, "round_wire_up", results->round_up, results->rounds);
    add_list(json, "round_wire_down", results->round_down, results->rounds);
    add_list(json, "round_trunk_down", results->round_trunk, results->rounds);
    add_replicas(json, results);
    if (results->personal_accuracy != NULL) {
        add_list(json, "personal_accuracy", results->personal_accuracy, results->clients);
    }
    add_list(json, "replica_version", results->replica_version, results->clients);
    add_columns(json, record_columns, sizeof record_columns / sizeof record_columns[0], records,
                records->participation_count);
    add_columns(json, arrival_columns, sizeof arrival_columns / sizeof arrival_columns[0], records,
                records->arrival_count);
    add_open_means(json, results);
}

// --- Results

#define FILE_BYTES_MAX (16u << 20)

void tern_fleet_results_clear(struct tern_fleet_results *results)
{
    free(results->accuracy);
    free(results->found);
    free(results->round_up);
    free(results->round_down);
    free(results->round_trunk);
    free(results->replica_figure);
    free(results->replica_version);
    free(results->personal_accuracy);
    free(results->manifest);
    free(results->scaling);
    free(results->open_means);
    tern_records_clear(&results->records);
    memset(results, 0, sizeof *results);
}

double tern_fleet_final_accuracy(const struct tern_fleet_results *results)
{
    uint32_t last = results->rounds;
    while (last > 0 && isnan(results->accuracy[last - 1])) {
        last--;
    }
    return last > 0 ? results->accuracy[last - 1] : NAN;
}

const struct tern_evaluate_result *
tern_fleet_final_figures(const struct tern_fleet_results *results)
{
    uint32_t last = results->found != NULL ? results->rounds : 0;
    while (last > 0 && results->found[last - 1].num_examples == 0) {
        last--;
    }
    return last > 0 ? &results->found[last - 1] : NULL;
}

// --- Writing

static double mean(uint64_t bytes, uint64_t participations)
{
    return participations > 0 ? (double)bytes / (double)participations : 0;
}

static void add_bytes(cJSON *json, const struct tern_bytes *up, const struct tern_bytes *down,
                      uint64_t participations)
{
    cJSON_AddNumberToObject(json, "payload_up", mean(up->payload, participations));
    cJSON_AddNumberToObject(json, "payload_down", mean(down->payload, participations));
    cJSON_AddNumberToObject(json, "http_up", mean(up->http, participations));
    cJSON_AddNumberToObject(json, "http_down", mean(down->http, participations));
    cJSON_AddNumberToObject(json, "tls_up", mean(up->tls, participations));
    cJSON_AddNumberToObject(json, "tls_down", mean(down->tls, participations));
    cJSON_AddNumberToObject(json, "wire_up", mean(up->wire, participations));
    cJSON_AddNumberToObject(json, "wire_down", mean(down->wire, participations));
}

char *tern_fleet_results_text(const struct tern_fleet_results *results)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "final_accuracy", tern_fleet_final_accuracy(results));
    series_add(json, results);
    cJSON_AddNumberToObject(json, "encode_ms", results->encode_ms);
    cJSON_AddNumberToObject(json, "rounds", results->rounds);
    cJSON_AddNumberToObject(json, "clients", results->clients);
    cJSON_AddNumberToObject(json, "cohort", results->cohort);
    cJSON_AddNumberToObject(json, "seed", (double)results->seed);
    cJSON_AddStringToObject(json, "codec", results->codec);
    cJSON_AddStringToObject(json, "model", results->model);
    if (results->manifest != NULL) {
        cJSON_AddStringToObject(json, "manifest", results->manifest);
    }
    cJSON_AddStringToObject(json, "model_hash", results->model_hash);
    if (results->scaling != NULL) {
        cJSON_AddStringToObject(json, "scaling", results->scaling);
    }
    if (results->pooled.num_examples > 0 && tern_figure_name(&results->pooled) != NULL) {
        char key[32];
        snprintf(key, sizeof key, "pooled_%s", tern_figure_name(&results->pooled));
        cJSON_AddNumberToObject(json, key, tern_figure_value(&results->pooled));
        cJSON_AddNumberToObject(json, "pooled_steps", (double)results->pooled_steps);
    }
    cJSON_AddNumberToObject(json, "seconds", results->seconds);
    cJSON_AddNumberToObject(json, "values", results->values);
    cJSON_AddNumberToObject(json, "float32_payload", (double)results->float32_payload);
    cJSON_AddNumberToObject(json, "participations", (double)results->participations);
    add_bytes(json, &results->up, &results->down, results->participations);
    char *text = cJSON_Print(json);
    cJSON_Delete(json);
    return text;
}

enum tern_result tern_fleet_results_write(const struct tern_fleet_results *results,
                                          const char *path)
{
    char *text = tern_fleet_results_text(results);
    if (text == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result = tern_file_write(path, text, strlen(text), 0644);
    cJSON_free(text);
    return result;
}

// --- Reading

// Reads a JSON number >= 0, and remembers the first missing key.
static double number(const cJSON *json, const char *key, const char **missing)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    if (!cJSON_IsNumber(item) || item->valuedouble < 0) {
        *missing = *missing == NULL ? key : *missing;
        return 0;
    }
    return item->valuedouble;
}

static void text_of(const cJSON *json, const char *key, char *dst, size_t size,
                    const char **missing)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    if (!cJSON_IsString(item) || strlen(item->valuestring) >= size) {
        *missing = *missing == NULL ? key : *missing;
        return;
    }
    strcpy(dst, item->valuestring);
}

// Returns the bytes of all participations, from their mean.
static uint64_t total(const cJSON *json, const char *key, double participations,
                      const char **missing)
{
    return (uint64_t)llround(number(json, key, missing) * participations);
}

static void read_bytes(const cJSON *json, struct tern_fleet_results *results, const char **missing)
{
    double count = number(json, "participations", missing);
    results->participations = (uint64_t)count;
    results->up = (struct tern_bytes){.payload = total(json, "payload_up", count, missing),
                                      .http = total(json, "http_up", count, missing),
                                      .tls = total(json, "tls_up", count, missing),
                                      .wire = total(json, "wire_up", count, missing)};
    results->down = (struct tern_bytes){.payload = total(json, "payload_down", count, missing),
                                        .http = total(json, "http_down", count, missing),
                                        .tls = total(json, "tls_down", count, missing),
                                        .wire = total(json, "wire_down", count, missing)};
}

static void read_accuracy(const cJSON *json, struct tern_fleet_results *results,
                          const char **missing)
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(json, "accuracy");
    uint32_t count = cJSON_IsArray(array) ? (uint32_t)cJSON_GetArraySize(array) : 0;
    results->accuracy = calloc(count > 0 ? count : 1, sizeof *results->accuracy);
    if (results->accuracy == NULL || !cJSON_IsArray(array)) {
        *missing = *missing == NULL ? "accuracy" : *missing;
        return;
    }
    const cJSON *item;
    cJSON_ArrayForEach(item, array)
    {
        results->accuracy[results->rounds++] = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    }
}

// Reads the final figures of a model that is not a classifier, as add_figures() writes them.
static void read_figures(const cJSON *json, struct tern_fleet_results *results)
{
    static const char final[] = "final_";
    const size_t skip = sizeof final - 1;
    const cJSON *loss = cJSON_GetObjectItemCaseSensitive(json, "final_evaluated_loss");
    const cJSON *item;
    if (!cJSON_IsNumber(loss) || results->rounds == 0) {
        return;
    }
    results->found = calloc(results->rounds, sizeof *results->found);
    if (results->found == NULL) {
        return; // the comparison then leaves the figures out
    }
    struct tern_evaluate_result *last = &results->found[results->rounds - 1];
    *last = (struct tern_evaluate_result){
        .num_examples = 1, .loss = (float)loss->valuedouble, .no_accuracy = true};
    cJSON_ArrayForEach(item, json)
    {
        if (cJSON_IsNumber(item) && item != loss && strncmp(item->string, final, skip) == 0 &&
            last->metric_count < TERN_METRICS_MAX) {
            struct tern_metric *metric = &last->metrics[last->metric_count++];
            snprintf(metric->name, sizeof metric->name, "%s", item->string + skip);
            metric->value = (float)item->valuedouble;
        }
    }
}

static double mean_of(const cJSON *array)
{
    double sum = 0;
    const int count = cJSON_GetArraySize(array);
    const cJSON *item;
    cJSON_ArrayForEach(item, array)
    {
        sum += item->valuedouble;
    }
    return count > 0 ? sum / count : 0;
}

static const char *read_all(const cJSON *json, struct tern_fleet_results *results)
{
    const char *missing = NULL;
    text_of(json, "codec", results->codec, sizeof results->codec, &missing);
    text_of(json, "model", results->model, sizeof results->model, &missing);
    text_of(json, "model_hash", results->model_hash, sizeof results->model_hash, &missing);
    results->seed = (uint64_t)number(json, "seed", &missing);
    results->clients = (uint32_t)number(json, "clients", &missing);
    results->cohort = (uint32_t)number(json, "cohort", &missing);
    results->seconds = number(json, "seconds", &missing);
    results->float32_payload = (uint64_t)number(json, "float32_payload", &missing);
    read_bytes(json, results, &missing);
    read_accuracy(json, results, &missing);
    read_figures(json, results);
    results->local_steps = mean_of(cJSON_GetObjectItemCaseSensitive(json, "record_steps"));
    return missing;
}

enum tern_result tern_fleet_results_read(const char *path, struct tern_fleet_results *results,
                                         char why[256])
{
    memset(results, 0, sizeof *results);
    uint8_t *text = NULL;
    size_t len = 0;
    enum tern_result result = tern_file_read(path, FILE_BYTES_MAX, &text, &len);
    if (result != TERN_OK) {
        snprintf(why, 256, "%.150s: %s", path, tern_result_sentence(result));
        return result;
    }
    cJSON *json = cJSON_ParseWithLength((const char *)text, len);
    free(text);
    const char *missing = read_all(json, results);
    cJSON_Delete(json);
    if (missing == NULL) {
        return TERN_OK;
    }
    snprintf(why, 256, "%.150s is not the JSON of a run: '%s' is missing or malformed", path,
             missing);
    tern_fleet_results_clear(results);
    return TERN_ERR_CORRUPT;
}
