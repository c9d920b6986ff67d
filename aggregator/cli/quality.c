#include "cli/quality.h"

#include "admin/rows.h"
#include "hosted/growing.h"
#include "rounds/spread.h"
#include "tensor/model.h"
#include "util/text.h"
#include "views/held_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TERN_QUALITY_WINDOW 10u // versions in each of the two windows whose means are compared

// --- The worst class

// Combines the worst classes that clients or evaluators report, each its own, into one for status. From the main
// thread.

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

// Finds the worst class by the reports of the clients that train on that version.
// TERN_ERR_NO_MEMORY, TERN_ERR_IO
static enum tern_result worst_class_of_clients(struct tern_db *db, uint32_t version,
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

// Finds the worst class by the evaluators whose figures `newest` holds (tern_accuracy_newest()).
// TERN_ERR_NO_MEMORY, TERN_ERR_IO
static enum tern_result worst_class_of_evaluators(struct tern_db *db,
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

// --- Quality of the model

// The trend is flat where the windows' means differ by less than this, or by less than twice the
// standard error.
#define LEAST 0.001

#define NO_BETTER 0.01      // R2, or AUC above 0.5
#define NO_BETTER_LOSS 0.95 // of an autoencoder: predicting the means of scaled columns has loss 1

// --- Trend

// Figures of the last 2 * TERN_QUALITY_WINDOW versions, in a ring.
struct series {
    double values[2 * TERN_QUALITY_WINDOW];
    uint32_t count; // added in total, overwritten ones included
};

static void add_value(struct series *series, double value)
{
    series->values[series->count++ % (2 * TERN_QUALITY_WINDOW)] = value;
}

static void window(const struct series *series, uint32_t first, double *mean, double *variance)
{
    double sum = 0;
    double squares = 0;
    for (uint32_t i = 0; i < TERN_QUALITY_WINDOW; i++) {
        const double value = series->values[(first + i) % (2 * TERN_QUALITY_WINDOW)];
        sum += value;
        squares += value * value;
    }
    *mean = sum / TERN_QUALITY_WINDOW;
    *variance = fmax(0, squares / TERN_QUALITY_WINDOW - *mean * *mean);
}

// series: higher is better.
static void judge_trend(const struct series *series, struct tern_quality *quality)
{
    double before;
    double now;
    double spread_before;
    double spread;
    if (series->count < 2 * TERN_QUALITY_WINDOW) {
        return;
    }
    window(series, series->count, &before, &spread_before);
    window(series, series->count + TERN_QUALITY_WINDOW, &now, &spread);
    const double error = sqrt((spread + spread_before) / TERN_QUALITY_WINDOW);
    const bool improves = now - before > fmax(LEAST, 2 * error);
    quality->trend = improves ? TERN_QUALITY_IMPROVES : TERN_QUALITY_STANDS;
    quality->a_round = improves ? (now - before) / TERN_QUALITY_WINDOW : 0;
}

static double value_of(const struct tern_accuracy *accuracy)
{
    return accuracy->no_accuracy ? -accuracy->loss : accuracy->accuracy;
}

// --- Evaluators

static uint32_t first_of_trend(uint32_t version)
{
    const uint32_t most = 2 * TERN_QUALITY_WINDOW;
    return version >= most ? version + 1 - most : 0;
}

// Rows are ordered by version, then model. A version's replica and global model are two figures; the last one
// counts.
static enum tern_result add_evaluations(struct tern_db *db, uint32_t first,
                                        struct tern_judges *judges, struct tern_votes *votes,
                                        struct series *series)
{
    struct tern_db_evaluation row;
    struct tern_accuracy at = {0};
    struct tern_db_rows *rows = tern_db_evaluations_from(db, first);
    while (tern_judges_next(judges, rows, &row)) {
        if (row.version != at.version || row.model != at.model) {
            tern_votes_decide(votes, &at);
        }
        if (row.version != at.version && at.num_examples > 0) {
            add_value(series, value_of(&at));
        }
        if (row.version != at.version || row.model != at.model) {
            at = (struct tern_accuracy){.version = row.version, .model = row.model};
        }
        tern_db_check_row(rows, tern_votes_add(votes, &at, &row));
    }
    TERN_TRY(tern_db_end(rows));
    tern_votes_decide(votes, &at);
    if (at.num_examples > 0) {
        add_value(series, value_of(&at));
    }
    return TERN_OK;
}

static enum tern_result load_evaluations(struct tern_db *db, struct tern_quality *quality)
{
    struct tern_votes votes = {NULL, 0, 0};
    struct series series = {.count = 0};
    struct tern_judges judges;
    const uint32_t first = first_of_trend(quality->newest.version);
    enum tern_result result = tern_judges_load(db, first, UINT32_MAX, &judges);
    if (result == TERN_OK) {
        result = add_evaluations(db, first, &judges, &votes, &series);
    }
    tern_votes_free(&votes);
    tern_judges_free(&judges);
    TERN_TRY(result);
    judge_trend(&series, quality);
    return TERN_OK;
}

// --- Clients that train

// Returns the newest version from which a whole round began: clients may still report on the newest of
// all.
static uint32_t choose_version(const struct tern_held_outs *all, uint32_t newest)
{
    uint32_t chosen = newest;
    for (size_t i = all->count; i > 0; i--) {
        chosen = all->list[i - 1].version;
        if (chosen < newest) {
            break;
        }
    }
    return chosen;
}

static void take_held_out(const struct tern_held_outs *all, uint32_t newest,
                          struct tern_quality *quality)
{
    struct series series = {.count = 0};
    size_t count;
    const uint32_t version = choose_version(all, newest);
    for (uint32_t v = first_of_trend(version); v <= version; v++) {
        struct tern_accuracy at;
        if (tern_held_outs_accuracy(all, v, &at)) {
            add_value(&series, value_of(&at));
        }
    }
    (void)tern_held_outs_accuracy(all, version, &quality->newest);
    const struct tern_held_out *of = tern_held_outs_of(all, version, &count);
    for (size_t i = 0; i < count; i++) {
        quality->clients =
            of[i].spread.clients > quality->clients ? of[i].spread.clients : quality->clients;
    }
    judge_trend(&series, quality);
}

static enum tern_result load_held_out(struct tern_db *db, uint32_t version,
                                      struct tern_quality *quality)
{
    struct tern_held_outs all;
    const uint32_t first = first_of_trend(version);
    TERN_TRY(tern_held_outs_load(db, first > 0 ? first - 1 : 0, version, &all));
    if (all.count > 0) {
        take_held_out(&all, version, quality);
    }
    tern_held_outs_free(&all);
    return worst_class_of_clients(db, quality->newest.version, &quality->worst);
}

// --- Comparison with guessing

static const struct tern_figure *figure(const struct tern_accuracy *accuracy, const char *name)
{
    for (uint32_t i = 0; i < accuracy->metric_count; i++) {
        if (strcmp(accuracy->metrics[i].name, name) == 0) {
            return &accuracy->metrics[i];
        }
    }
    return NULL;
}

static void judge_classes(struct tern_quality *quality)
{
    const struct tern_figure *largest = figure(&quality->newest, "largest");
    if (!quality->newest.no_accuracy && largest != NULL &&
        quality->newest.accuracy <= largest->value) {
        quality->guess = "naming the largest class every time";
        quality->guess_right = largest->value;
    }
}

static void judge_guess(enum tern_loss loss, struct tern_quality *quality)
{
    const struct tern_figure *r2 = figure(&quality->newest, "r2");
    const struct tern_figure *auc = figure(&quality->newest, "auc");
    if (loss == TERN_LOSS_CROSS_ENTROPY) {
        judge_classes(quality);
    } else if (loss == TERN_LOSS_RECONSTRUCTION) {
        quality->guess = auc != NULL && auc->value <= 0.5 + NO_BETTER ? "drawing lots"
                         : quality->newest.loss >= NO_BETTER_LOSS
                             ? "the mean of every column, where columns are scaled"
                             : NULL;
    } else if (r2 != NULL && r2->value <= NO_BETTER) {
        quality->guess = "the mean of the target";
    }
}

// --- Names of classes

// Reads the name out of what init --data notes for export: "classes", the text of a JSON array.
static char *name_of_class(const char *metadata, uint32_t number)
{
    cJSON *notes = metadata != NULL ? cJSON_Parse(metadata) : NULL;
    const char *listed = cJSON_GetStringValue(cJSON_GetObjectItem(notes, "classes"));
    cJSON *names = listed != NULL ? cJSON_Parse(listed) : NULL;
    cJSON *name = cJSON_GetArrayItem(names, (int)number);
    char *text = cJSON_IsString(name) ? name->valuestring : NULL;
    if (text != NULL) {
        name->valuestring = NULL; // it outlives the array
        tern_utf8_show(text, strlen(text));
    }
    cJSON_Delete(names);
    cJSON_Delete(notes);
    return text;
}

void tern_quality_free(struct tern_quality *quality)
{
    cJSON_free(quality->worst_name);
    quality->worst_name = NULL;
}

enum tern_result tern_quality_load(struct tern_db *db, const struct tern_db_federation *federation,
                                   uint32_t version, const struct tern_accuracy *evaluated,
                                   const struct tern_judged *pending, struct tern_quality *quality)
{
    *quality = (struct tern_quality){.newest = *evaluated, .pending = *pending};
    if (evaluated->num_examples > 0) {
        TERN_TRY(worst_class_of_evaluators(db, evaluated, &quality->worst));
        TERN_TRY(load_evaluations(db, quality));
    } else if (version != UINT32_MAX) {
        TERN_TRY(load_held_out(db, version, quality));
    }
    if (quality->worst.clients > 0) {
        quality->worst_name = name_of_class(federation->metadata, quality->worst.class_number);
    }
    if (quality->newest.num_examples > 0) {
        quality->trend_of = quality->newest.no_accuracy ? "loss" : "accuracy";
        judge_guess(tern_model_spec_loss(federation->model_spec), quality);
    }
    return TERN_OK;
}

// --- Output

static void print_classes(const struct tern_quality *quality)
{
    const struct tern_figure *f1 = figure(&quality->newest, "f1_macro");
    if (quality->newest.no_accuracy || f1 == NULL) {
        return;
    }
    printf("            macro F1 %.4f", f1->value);
    const struct tern_worst_class *worst = &quality->worst;
    if (worst->clients > 0) {
        const char *name = quality->worst_name;
        printf("; worst class: %s%s%" PRIu32 " (from 0), %.4f of its examples are right",
               name != NULL ? name : "", name != NULL ? ", number " : "", worst->class_number,
               worst->recall);
    }
    if (worst->of_clients > 1) {
        printf(" at %" PRIu32 " of %" PRIu32 " %s", worst->clients, worst->of_clients,
               quality->clients > 0 ? "clients" : "evaluators");
    }
    printf("\n");
}

static void print_trend(const struct tern_quality *quality, bool finished)
{
    if (quality->trend == TERN_QUALITY_STANDS) {
        printf("            no longer improving: the last %u versions are no better than the %u "
               "before\n",
               TERN_QUALITY_WINDOW, TERN_QUALITY_WINDOW);
    } else if (quality->trend == TERN_QUALITY_IMPROVES) {
        printf("            still improving: %s by %.2g a round%s\n", quality->trend_of,
               quality->a_round, finished ? "; raise round.rounds to go on" : "");
    }
}

void tern_quality_print_pending(const struct tern_quality *quality)
{
    const struct tern_judged *pending = &quality->pending;
    if (pending->reports > 0) {
        printf("            %s of version %" PRIu32 ": %" PRIu32 " of %" PRIu32
               " evaluators reported; half have to\n",
               pending->model == TERN_EVALUATED_GLOBAL ? "global model" : "replica",
               pending->version, pending->reports, pending->expected);
    }
}

void tern_quality_print(const struct tern_quality *quality, bool finished)
{
    if (quality->newest.num_examples == 0) {
        return;
    }
    print_classes(quality);
    if (quality->newest.version == 0) {
        printf("            version 0 is the model before the first round\n");
    } else if (quality->guess != NULL) {
        printf("            WARNING: the model is no better than %s", quality->guess);
        if (quality->guess_right > 0) {
            printf(", right for %.4f", quality->guess_right);
        }
        printf("\n");
    }
    print_trend(quality, finished);
}

static void pending_json(cJSON *json, const struct tern_judged *pending)
{
    if (pending->reports == 0) {
        cJSON_AddNullToObject(json, "pending");
        return;
    }
    cJSON *object = cJSON_AddObjectToObject(json, "pending");
    tern_json_u64(object, "version", pending->version);
    tern_json_text(object, "model", tern_evaluated_name(pending->model));
    tern_json_u64(object, "evaluators", pending->reports);
    tern_json_u64(object, "evaluators_expected", pending->expected);
}

void tern_quality_json(cJSON *object, const struct tern_quality *quality)
{
    cJSON *json = cJSON_AddObjectToObject(object, "quality");
    const bool known = quality->newest.num_examples > 0;
    tern_json_text(json, "by", !known ? "" : quality->clients > 0 ? "clients" : "evaluators");
    tern_json_u64(json, "clients", quality->clients);
    tern_json_u64(json, "evaluators", quality->newest.evaluators);
    tern_json_u64(json, "evaluators_expected", quality->newest.expected);
    pending_json(json, &quality->pending);
    if (quality->trend == TERN_QUALITY_UNKNOWN) {
        cJSON_AddNullToObject(json, "improving");
    } else {
        cJSON_AddBoolToObject(json, "improving", quality->trend == TERN_QUALITY_IMPROVES);
    }
    cJSON_AddNumberToObject(json, "a_round", quality->a_round);
    if (quality->guess != NULL) {
        tern_json_text(json, "no_better_than", quality->guess);
    } else {
        cJSON_AddNullToObject(json, "no_better_than");
    }
    if (quality->worst.clients > 0) {
        tern_json_u64(json, "worst_class", quality->worst.class_number);
        tern_json_text(json, "worst_class_name",
                       quality->worst_name != NULL ? quality->worst_name : "");
        cJSON_AddNumberToObject(json, "worst_recall", quality->worst.recall);
    } else {
        cJSON_AddNullToObject(json, "worst_class");
        cJSON_AddNullToObject(json, "worst_class_name");
        cJSON_AddNullToObject(json, "worst_recall");
    }
    tern_json_u64(json, "worst_class_clients", quality->worst.clients);
}
