#include "views/held_out.h"

#include "federation/accuracy.h"
#include "hosted/growing.h"
#include "views/texts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_of(const struct tern_held_out *held_out, const struct tern_db_metric *row)
{
    return held_out->version == row->version && strcmp(held_out->name, row->name) == 0;
}

// Returns the figure of the row: the last one, or a new one. NULL: no memory.
static struct tern_held_out *figure_of(struct tern_held_outs *all, const struct tern_db_metric *row)
{
    if (all->count > 0 && is_of(&all->list[all->count - 1], row)) {
        return &all->list[all->count - 1];
    }
    struct tern_held_out *list = tern_grown(all->list, all->count, sizeof list[0]);
    if (list == NULL) {
        return NULL;
    }
    all->list = list;
    struct tern_held_out *fresh = &all->list[all->count++];
    *fresh = (struct tern_held_out){.version = row->version, .model = TERN_EVALUATED_GLOBAL};
    memcpy(fresh->name, row->name, sizeof fresh->name);
    return fresh;
}

// A client's value of the last figure, not yet added to the figure's spread.
struct reported {
    uint64_t client;
    uint32_t num_examples;
    double value;
};
struct loading {
    struct tern_held_outs *all;
    struct reported *reported;
    size_t count;
    size_t room;
};

static int compare_claims(const void *a, const void *b)
{
    const uint32_t one = *(const uint32_t *)a;
    const uint32_t other = *(const uint32_t *)b;
    return (one > other) - (one < other);
}

// Sets the most examples that count for one client.
static enum tern_result bound_claims(const struct loading *loading, uint32_t *most)
{
    *most = UINT32_MAX;
    if (loading->count < TERN_HELD_OUT_LEAST) {
        return TERN_OK;
    }
    uint32_t *claims = malloc(loading->count * sizeof claims[0]);
    if (claims == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < loading->count; i++) {
        claims[i] = loading->reported[i].num_examples;
    }
    qsort(claims, loading->count, sizeof claims[0], compare_claims);
    const uint64_t bound = (uint64_t)claims[(loading->count - 1) / 2] * TERN_HELD_OUT_BOUND;
    *most = bound < UINT32_MAX ? (uint32_t)bound : UINT32_MAX;
    free(claims);
    return TERN_OK;
}

// Computes the spread of the last figure, after the values of all clients were read.
static enum tern_result add_up(struct loading *loading)
{
    uint32_t most;
    TERN_TRY(bound_claims(loading, &most));
    for (size_t i = 0; i < loading->count; i++) {
        const struct reported *reported = &loading->reported[i];
        struct tern_held_out *of = &loading->all->list[loading->all->count - 1];
        tern_spread_add(&of->spread, tern_metric_higher_is_better(of->name), reported->client,
                        reported->num_examples < most ? reported->num_examples : most,
                        reported->value);
    }
    loading->count = 0;
    return TERN_OK;
}

static enum tern_result add(struct loading *loading, const struct tern_db_metric *row)
{
    struct tern_held_outs *all = loading->all;
    if (all->count > 0 && !is_of(&all->list[all->count - 1], row)) {
        TERN_TRY(add_up(loading));
    }
    struct tern_held_out *of = figure_of(all, row);
    if (of == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    of->model = row->model == TERN_EVALUATED_REPLICA ? row->model : of->model;
    if (loading->count == loading->room) { // the list has the clients of one figure
        struct reported *reported =
            tern_grown(loading->reported, loading->room, sizeof reported[0]);
        if (reported == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
        loading->reported = reported;
        loading->room = loading->room == 0 ? 1 : 2 * loading->room;
    }
    loading->reported[loading->count++] =
        (struct reported){row->client, row->num_examples, (double)row->value};
    return TERN_OK;
}

enum tern_result tern_held_outs_load(struct tern_db *db, uint32_t first, uint32_t last,
                                     struct tern_held_outs *all)
{
    struct tern_db_metric row;
    struct loading loading = {.all = all};
    *all = (struct tern_held_outs){NULL, 0};
    struct tern_db_rows *rows = tern_db_metrics_from(db, first);
    while (tern_db_next(rows, &row) && row.version <= last) {
        if (!tern_metric_is_worst_class(row.name)) {
            tern_db_check_row(rows, add(&loading, &row));
        }
    }
    enum tern_result result = tern_db_end(rows);
    if (result == TERN_OK) {
        result = add_up(&loading);
    }
    free(loading.reported);
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
    tern_json_float(row, key, (float)spread->weighted_mean);
    snprintf(key, sizeof key, "held_out_%s_mean", of->name);
    tern_json_float(row, key, (float)spread->mean);
    snprintf(key, sizeof key, "held_out_%s_deviation", of->name);
    tern_json_float(row, key, (float)tern_spread_deviation(spread));
    snprintf(key, sizeof key, "held_out_%s_worst", of->name);
    tern_json_float(row, key, (float)spread->worst);
    snprintf(key, sizeof key, "held_out_%s_worst_client", of->name);
    tern_json_u64(row, key, spread->worst_client);
}

// Returns the index of the first figure of this version, or of the next version that has figures.
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

const struct tern_held_out *tern_held_outs_of(const struct tern_held_outs *all, uint32_t version,
                                              size_t *count)
{
    const size_t first = first_of(all, version);
    size_t end = first;
    while (end < all->count && all->list[end].version == version) {
        end++;
    }
    *count = end - first;
    return *count > 0 ? &all->list[first] : NULL;
}

static void take(struct tern_accuracy *accuracy, const struct tern_held_out *of)
{
    if (strcmp(of->name, "loss") == 0) {
        accuracy->loss = of->spread.weighted_mean;
        accuracy->num_examples = of->spread.examples;
    } else if (strcmp(of->name, "accuracy") == 0) {
        accuracy->accuracy = of->spread.weighted_mean;
        accuracy->no_accuracy = false;
    } else if (accuracy->metric_count < TERN_FIGURES_METRICS) {
        struct tern_median_metric *figure = &accuracy->metrics[accuracy->metric_count++];
        snprintf(figure->name, sizeof figure->name, "%s", of->name);
        figure->value = of->spread.weighted_mean;
        figure->num_examples = of->spread.examples;
    }
}

bool tern_held_outs_accuracy(const struct tern_held_outs *all, uint32_t version,
                             struct tern_accuracy *accuracy)
{
    size_t count;
    const struct tern_held_out *of = tern_held_outs_of(all, version, &count);
    *accuracy = (struct tern_accuracy){
        .version = version, .model = TERN_EVALUATED_GLOBAL, .no_accuracy = true};
    for (size_t i = 0; i < count; i++) {
        accuracy->model = of[i].model == TERN_EVALUATED_REPLICA ? of[i].model : accuracy->model;
        take(accuracy, &of[i]);
    }
    return accuracy->num_examples > 0;
}

void tern_held_outs_json(cJSON *row, const struct tern_held_outs *all, uint32_t version)
{
    size_t count;
    const struct tern_held_out *of = tern_held_outs_of(all, version, &count);
    const struct tern_held_out *most = of; // the figure that most clients reported
    for (size_t i = 0; i < count; i++) {
        most = of[i].spread.clients > most->spread.clients ? &of[i] : most;
        add_one(row, &of[i]);
    }
    if (most != NULL) {
        tern_json_u64(row, "held_out_clients", most->spread.clients);
        cJSON_AddStringToObject(row, "held_out_model", tern_evaluated_name(most->model));
    }
}
