#include "admin/held_out.h"

#include "admin/rows.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_of(const struct tern_held_out *held_out, const struct tern_db_metric *row)
{
    return held_out->version == row->version && strcmp(held_out->name, row->name) == 0;
}

// The figure that the row is of: the last one, or a new one.
static struct tern_held_out *place(struct tern_held_outs *all, const struct tern_db_metric *row)
{
    if (all->count > 0 && is_of(&all->list[all->count - 1], row)) {
        return &all->list[all->count - 1];
    }
    if ((all->count & (all->count - 1)) == 0) { // a power of two: the list is full
        const size_t room = all->count == 0 ? 1 : 2 * all->count;
        struct tern_held_out *list = realloc(all->list, room * sizeof list[0]);
        if (list == NULL) {
            return NULL;
        }
        all->list = list;
    }
    struct tern_held_out *fresh = &all->list[all->count++];
    *fresh = (struct tern_held_out){.version = row->version, .model = TERN_EVALUATED_GLOBAL};
    memcpy(fresh->name, row->name, sizeof fresh->name);
    return fresh;
}

static enum tern_result add(struct tern_held_outs *all, const struct tern_db_metric *row)
{
    struct tern_held_out *of = place(all, row);
    if (of == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    of->model = row->model == TERN_EVALUATED_REPLICA ? row->model : of->model;
    tern_spread_add(&of->spread, tern_metric_is_gain(row->name), row->client, row->num_examples,
                    (double)row->value);
    return TERN_OK;
}

enum tern_result tern_held_outs_load(struct tern_db *db, uint32_t first, uint32_t last,
                                     struct tern_held_outs *all)
{
    struct tern_db_metric row;
    *all = (struct tern_held_outs){NULL, 0};
    struct tern_db_rows *rows = tern_db_metrics_from(db, first);
    while (tern_db_next(rows, &row) && row.version <= last) {
        tern_db_check_row(rows, add(all, &row));
    }
    const enum tern_result result = tern_db_end(rows);
    if (result != TERN_OK) {
        tern_held_outs_free(all);
    }
    return result;
}

void tern_held_outs_free(struct tern_held_outs *all)
{
    free(all->list);
    *all = (struct tern_held_outs){NULL, 0};
}

static void add_one(cJSON *row, const struct tern_held_out *of)
{
    const struct tern_spread *spread = &of->spread;
    char key[64];
    snprintf(key, sizeof key, "held_out_%s", of->name);
    tern_json_float(row, key, (float)spread->weighted);
    snprintf(key, sizeof key, "held_out_%s_mean", of->name);
    tern_json_float(row, key, (float)spread->mean);
    snprintf(key, sizeof key, "held_out_%s_deviation", of->name);
    tern_json_float(row, key, (float)tern_spread_deviation(spread));
    snprintf(key, sizeof key, "held_out_%s_worst", of->name);
    tern_json_float(row, key, (float)spread->worst);
    snprintf(key, sizeof key, "held_out_%s_worst_client", of->name);
    tern_json_u64(row, key, spread->worst_client);
}

// The first of the version's, in order of versions; all->count: behind the last.
static size_t first_of(const struct tern_held_outs *all, uint32_t version)
{
    size_t first = 0;
    for (size_t end = all->count; first < end;) {
        const size_t middle = first + (end - first) / 2;
        if (all->list[middle].version < version) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return first;
}

void tern_held_outs_json(cJSON *row, const struct tern_held_outs *all, uint32_t version)
{
    const struct tern_held_out *last = NULL;
    for (size_t i = first_of(all, version); i < all->count && all->list[i].version == version;
         i++) {
        last = &all->list[i];
        add_one(row, last);
    }
    if (last != NULL) {
        tern_json_u64(row, "held_out_clients", last->spread.clients);
        cJSON_AddStringToObject(row, "held_out_model", tern_evaluated_name(last->model));
    }
}

static void add_object(cJSON *metrics, const struct tern_held_out *of)
{
    const struct tern_spread *spread = &of->spread;
    cJSON *metric = cJSON_AddObjectToObject(metrics, of->name);
    tern_json_float(metric, "weighted", (float)spread->weighted);
    tern_json_float(metric, "mean", (float)spread->mean);
    tern_json_float(metric, "deviation", (float)tern_spread_deviation(spread));
    tern_json_float(metric, "worst", (float)spread->worst);
    tern_json_u64(metric, "worst_client", spread->worst_client);
}

cJSON *tern_held_outs_object(const struct tern_held_outs *all, uint32_t version)
{
    cJSON *object = cJSON_CreateObject();
    cJSON *metrics = cJSON_CreateObject();
    const struct tern_held_out *most = NULL; // of the clients, that which most of them told
    for (size_t i = first_of(all, version); i < all->count && all->list[i].version == version;
         i++) {
        const struct tern_held_out *of = &all->list[i];
        most = most == NULL || of->spread.clients > most->spread.clients ? of : most;
        add_object(metrics, of);
    }
    tern_json_u64(object, "version", version);
    if (most != NULL) {
        cJSON_AddStringToObject(object, "model", tern_evaluated_name(most->model));
    } else {
        cJSON_AddNullToObject(object, "model");
    }
    tern_json_u64(object, "clients", most != NULL ? most->spread.clients : 0);
    cJSON_AddItemToObject(object, "metrics", metrics);
    return object;
}
