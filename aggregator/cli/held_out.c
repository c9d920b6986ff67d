#include "cli/held_out.h"

#include "cli/state.h"
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

enum tern_result tern_held_outs_load(struct tern_db *db, struct tern_held_outs *all)
{
    struct tern_db_metric row;
    *all = (struct tern_held_outs){NULL, 0};
    struct tern_db_rows *rows = tern_db_metrics(db);
    while (tern_db_next(rows, &row)) {
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

void tern_held_outs_json(cJSON *row, const struct tern_held_outs *all, uint32_t version)
{
    const struct tern_held_out *last = NULL;
    size_t first = 0;
    for (size_t end = all->count; first < end;) { // they are in order of versions
        const size_t middle = first + (end - first) / 2;
        if (all->list[middle].version < version) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    for (size_t i = first; i < all->count && all->list[i].version == version; i++) {
        last = &all->list[i];
        add_one(row, last);
    }
    if (last != NULL) {
        tern_json_u64(row, "held_out_clients", last->spread.clients);
        cJSON_AddStringToObject(row, "held_out_model", tern_evaluated_name(last->model));
    }
}
