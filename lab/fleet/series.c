#include "fleet/series.h"
#include "fleet/figure.h"
#include <math.h>
#include <string.h>

static void add_list(cJSON *json, const char *key, const double *values, uint32_t count)
{
    if (values != NULL) {
        cJSON_AddItemToObject(json, key, cJSON_CreateDoubleArray(values, (int)count));
    }
}

// Of milliseconds, more digits would only be noise.
static double rounded(double ms)
{
    return round(ms * 1e3) / 1e3;
}

// A column's value of record i.
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

// NAN: the version was not measured, or did not have it. name: NULL is the loss.
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

// Adds the figures of a model without classes.
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

// "replica_accuracy", "replica_r2" or "replica_auc".
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

void tern_fleet_series_add(cJSON *json, const struct tern_fleet_results *results)
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
}
