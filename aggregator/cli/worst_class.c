#include "cli/worst_class.h"

#include "hosted/growing.h"
#include "rounds/spread.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CLASSES_MAX 65536 // labels have 16 bits

struct report {
    uint64_t client;
    uint32_t class_number;
    double recall; // NAN: not read yet
};

struct reports {
    struct report *list; // ascending by client
    size_t count;
    size_t next; // the report whose recall is read next
};

static enum tern_result add_class(struct reports *reports, const struct tern_db_metric *row)
{
    if (!(row->value >= 0 && row->value < CLASSES_MAX)) {
        return TERN_OK;
    }
    struct report *list = tern_grown(reports->list, reports->count, sizeof list[0]);
    if (list == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    reports->list = list;
    reports->list[reports->count++] = (struct report){row->client, (uint32_t)row->value, NAN};
    return TERN_OK;
}

// Rows of one name arrive in the order of clients, and a client's class before its recall.
static enum tern_result add(struct reports *reports, const struct tern_db_metric *row)
{
    if (strcmp(row->name, TERN_METRIC_WORST_CLASS) == 0) {
        return add_class(reports, row);
    }
    if (strcmp(row->name, TERN_METRIC_WORST_RECALL) == 0) {
        while (reports->next < reports->count &&
               reports->list[reports->next].client < row->client) {
            reports->next++;
        }
        if (reports->next < reports->count && reports->list[reports->next].client == row->client) {
            reports->list[reports->next].recall = (double)row->value;
        }
    }
    return TERN_OK;
}

static int compare(const void *a, const void *b)
{
    const uint32_t one = ((const struct report *)a)->class_number;
    const uint32_t other = ((const struct report *)b)->class_number;
    return (one > other) - (one < other);
}

static void choose(const struct reports *reports, struct tern_worst_class *worst)
{
    struct tern_worst_class at = {.clients = 0};
    uint32_t of_clients = 0;
    for (size_t i = 0; i < reports->count; i++) {
        const struct report *report = &reports->list[i];
        if (isnan(report->recall)) {
            continue;
        }
        if (at.class_number != report->class_number) {
            at = (struct tern_worst_class){.class_number = report->class_number};
        }
        of_clients++;
        at.clients++;
        at.recall += (report->recall - at.recall) / at.clients;
        if (at.clients > worst->clients ||
            (at.clients == worst->clients && at.recall < worst->recall)) {
            *worst = at;
        }
    }
    worst->of_clients = of_clients;
}

static enum tern_result finish(struct tern_db_rows *rows, struct reports *reports,
                               struct tern_worst_class *worst)
{
    const enum tern_result result = tern_db_end(rows);
    *worst = (struct tern_worst_class){.clients = 0};
    if (result == TERN_OK && reports->count > 0) {
        qsort(reports->list, reports->count, sizeof reports->list[0], compare);
        choose(reports, worst);
    }
    free(reports->list);
    return result;
}

enum tern_result tern_worst_class_of_clients(struct tern_db *db, uint32_t version,
                                             struct tern_worst_class *worst)
{
    struct reports reports = {.list = NULL};
    struct tern_db_metric row;
    struct tern_db_rows *rows = tern_db_metrics_from(db, version);
    while (tern_db_next(rows, &row) && row.version == version) {
        tern_db_check_row(rows, add(&reports, &row));
    }
    return finish(rows, &reports, worst);
}

enum tern_result tern_worst_class_of_evaluators(struct tern_db *db,
                                                const struct tern_accuracy *newest,
                                                struct tern_worst_class *worst)
{
    struct reports reports = {.list = NULL};
    struct tern_db_metric row;
    struct tern_db_rows *rows = tern_db_evaluation_metrics_of(db, newest->version);
    while (tern_db_next(rows, &row)) {
        if (row.model == newest->model && row.late == newest->late) {
            tern_db_check_row(rows, add(&reports, &row));
        }
    }
    return finish(rows, &reports, worst);
}
