#include "cli/quality.h"

#include "admin/rows.h"
#include "hosted/growing.h"
#include "rounds/ending.h"
#include "rounds/spread.h"
#include "tensor/model.h"
#include "util/text.h"
#include "views/held_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- The worst class

#define CLASSES_MAX 65536 // labels have 16 bits

struct report {
    uint64_t client;
    uint32_t class_number;
    double recall; // NAN: not read yet
};

struct reports {
    struct report *list; // ascending by client
    size_t count;
    size_t next; // index of the report whose recall is read next
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

// Rows are ordered by metric name, then by client. All worst classes arrive before the recalls.
static enum tern_result add_metric(struct reports *reports, const struct tern_db_metric *row)
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

static int by_class(const void *a, const void *b)
{
    const uint32_t one = ((const struct report *)a)->class_number;
    const uint32_t other = ((const struct report *)b)->class_number;
    return (one > other) - (one < other);
}

static void choose_worst(const struct reports *reports, struct tern_worst_class *worst)
{
    struct tern_worst_class at = {.clients = 0};
    uint32_t reporting_clients = 0;
    for (size_t i = 0; i < reports->count; i++) {
        const struct report *report = &reports->list[i];
        if (isnan(report->recall)) {
            continue;
        }
        if (at.class_number != report->class_number) {
            at = (struct tern_worst_class){.class_number = report->class_number};
        }
        reporting_clients++;
        at.clients++;
        at.recall += (report->recall - at.recall) / at.clients;
        if (at.clients > worst->clients ||
            (at.clients == worst->clients && at.recall < worst->recall)) {
            *worst = at;
        }
    }
    worst->reporting_clients = reporting_clients;
}

static enum tern_result finish_reports(struct tern_db_rows *rows, struct reports *reports,
                                       struct tern_worst_class *worst)
{
    const enum tern_result result = tern_db_end(rows);
    *worst = (struct tern_worst_class){.clients = 0};
    if (result == TERN_OK && reports->count > 0) {
        qsort(reports->list, reports->count, sizeof reports->list[0], by_class);
        choose_worst(reports, worst);
    }
    free(reports->list);
    return result;
}

// Finds the worst class that training clients report for a version.
// TERN_ERR_NO_MEMORY, TERN_ERR_IO
static enum tern_result worst_class_of_clients(struct tern_db *db, uint32_t version,
                                               struct tern_worst_class *worst)
{
    struct reports reports = {.list = NULL};
    struct tern_db_metric row;
    struct tern_db_rows *rows = tern_db_metrics_from(db, version);
    while (tern_db_next(rows, &row) && row.version == version) {
        tern_db_check_row(rows, add_metric(&reports, &row));
    }
    return finish_reports(rows, &reports, worst);
}

// Finds the worst class that the evaluators behind `newest` report.
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
            tern_db_check_row(rows, add_metric(&reports, &row));
        }
    }
    return finish_reports(rows, &reports, worst);
}

// --- Trend

// The trend is flat if the windows' means differ by less than this, or by less than twice the standard error.
#define LEAST_GAIN 0.001

// Ring buffer of the metrics of the last 2 * TERN_TREND_WINDOW versions.
struct series {
    double values[2 * TERN_TREND_WINDOW];
    uint32_t count; // values added, including overwritten ones
};

static void add_value(struct series *series, double value)
{
    series->values[series->count++ % (2 * TERN_TREND_WINDOW)] = value;
}

// Computes the mean and variance of the window that begins with value number `first`.
static void window_statistics(const struct series *series, uint32_t first, double *mean,
                              double *variance)
{
    double sum = 0;
    double squares = 0;
    for (uint32_t i = 0; i < TERN_TREND_WINDOW; i++) {
        const double value = series->values[(first + i) % (2 * TERN_TREND_WINDOW)];
        sum += value;
        squares += value * value;
    }
    *mean = sum / TERN_TREND_WINDOW;
    *variance = fmax(0, squares / TERN_TREND_WINDOW - *mean * *mean);
}

// Sets quality->trend. Values are such that higher is better.
static void judge_trend(const struct series *series, struct tern_quality *quality)
{
    double before;
    double now;
    double spread_before;
    double spread;
    if (series->count < 2 * TERN_TREND_WINDOW) {
        return;
    }
    window_statistics(series, series->count, &before, &spread_before);
    window_statistics(series, series->count + TERN_TREND_WINDOW, &now, &spread);
    const double error = sqrt((spread + spread_before) / TERN_TREND_WINDOW);
    const bool improves = now - before > fmax(LEAST_GAIN, 2 * error);
    quality->trend = improves ? TERN_QUALITY_IMPROVING : TERN_QUALITY_FLAT;
    quality->gain_per_round = improves ? (now - before) / TERN_TREND_WINDOW : 0;
}

static double value_of(const struct tern_accuracy *accuracy)
{
    return accuracy->no_accuracy ? -accuracy->loss : accuracy->accuracy;
}

// --- Evaluators

// Returns the first version of the two windows that end with `version`.
static uint32_t first_trend_version(uint32_t version)
{
    const uint32_t most = 2 * TERN_TREND_WINDOW;
    return version >= most ? version + 1 - most : 0;
}

struct evaluated {
    struct series series;
    struct tern_accuracy last; // metrics of the version that enters the series next
};

static void add_last_version(struct evaluated *evaluated)
{
    if (evaluated->last.num_examples > 0) {
        add_value(&evaluated->series, value_of(&evaluated->last));
    }
}

// Adds one value per version to the series. Where both models of a version were evaluated, the later one counts.
static void take_for_trend(void *ctx, const struct tern_accuracy *metrics)
{
    struct evaluated *evaluated = ctx;
    if (metrics->version != evaluated->last.version) {
        add_last_version(evaluated);
    }
    evaluated->last = *metrics;
}

static enum tern_result load_evaluations(struct tern_db *db, struct tern_quality *quality)
{
    struct evaluated evaluated = {.series = {.count = 0}};
    TERN_TRY(tern_accuracy_each(db, first_trend_version(quality->newest.version), UINT32_MAX,
                                take_for_trend, &evaluated));
    add_last_version(&evaluated);
    judge_trend(&evaluated.series, quality);
    return TERN_OK;
}

// --- Training clients

// Returns the newest version before `newest` that was reported, or else the newest reported one: clients may still be
// reporting `newest`.
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
    for (uint32_t v = first_trend_version(version); v <= version; v++) {
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
    const uint32_t first = first_trend_version(version);
    TERN_TRY(tern_held_outs_load(db, first > 0 ? first - 1 : 0, version, &all));
    if (all.count > 0) {
        take_held_out(&all, version, quality);
    }
    tern_held_outs_free(&all);
    return worst_class_of_clients(db, quality->newest.version, &quality->worst);
}

// --- Comparison with guessing

// A model that is not better than these is no better than guessing.
#define LEAST_SCORE 0.01           // R2, or AUC above 0.5
#define MOST_AUTOENCODER_LOSS 0.95 // predicting the mean of each scaled column has loss 1

static void judge_classes(struct tern_quality *quality)
{
    double largest;
    if (!quality->newest.no_accuracy &&
        tern_accuracy_value(&quality->newest, "largest", &largest) &&
        quality->newest.accuracy <= largest) {
        quality->guess = "naming the largest class every time";
        quality->guess_accuracy = largest;
    }
}

static void judge_guess(enum tern_loss loss, struct tern_quality *quality)
{
    double score;
    if (loss == TERN_LOSS_CROSS_ENTROPY) {
        judge_classes(quality);
    } else if (loss == TERN_LOSS_RECONSTRUCTION) {
        const bool random =
            tern_accuracy_value(&quality->newest, "auc", &score) && score <= 0.5 + LEAST_SCORE;
        quality->guess = random ? "random guessing"
                         : quality->newest.loss >= MOST_AUTOENCODER_LOSS
                             ? "predicting the mean of every scaled column"
                             : NULL;
    } else if (tern_accuracy_value(&quality->newest, "r2", &score) && score <= LEAST_SCORE) {
        quality->guess = "predicting the mean of the target";
    }
}

// --- Names of classes

// Returns the name of a class, malloc'ed by cJSON, or NULL. metadata: notes of `init --data`; its member "classes" is the
// text of a JSON array.
static char *name_of_class(const char *metadata, uint32_t number)
{
    cJSON *notes = metadata != NULL ? cJSON_Parse(metadata) : NULL;
    const char *listed = cJSON_GetStringValue(cJSON_GetObjectItem(notes, "classes"));
    cJSON *names = listed != NULL ? cJSON_Parse(listed) : NULL;
    cJSON *name = cJSON_GetArrayItem(names, (int)number);
    char *text = cJSON_IsString(name) ? name->valuestring : NULL;
    if (text != NULL) {
        name->valuestring = NULL; // so that cJSON_Delete() does not free it
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
                                   const struct tern_reported_version *pending,
                                   struct tern_quality *quality)
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
        quality->trend_metric = quality->newest.no_accuracy ? "loss" : "accuracy";
        judge_guess(tern_model_spec_loss(federation->model_spec), quality);
    }
    return TERN_OK;
}

// --- The best version

// Least differences by which export prefers the replica.
#define POINTS_AHEAD 0.002
#define LOSS_AHEAD 0.01 // share of the global model's loss

// Finds the version with the best metric on the held-out rows of training clients. Only the clients of one round measure a
// version.
static enum tern_result best_by_clients(struct tern_db *db, struct tern_best *best)
{
    struct tern_held_outs all;
    TERN_TRY(tern_held_outs_load(db, 0, UINT32_MAX, &all));
    for (size_t i = 0; i < all.count; i++) {
        struct tern_accuracy of;
        if ((i > 0 && all.list[i].version == all.list[i - 1].version) ||
            !tern_held_outs_accuracy(&all, all.list[i].version, &of)) {
            continue;
        }
        const enum tern_best_by by =
            of.no_accuracy ? TERN_BEST_BY_HELD_OUT_LOSS : TERN_BEST_BY_ACCURACY;
        const double value = of.no_accuracy ? of.loss : of.accuracy;
        const bool better = of.no_accuracy ? value <= best->value : value >= best->value;
        if (best->by != by || better) {
            *best = (struct tern_best){by, of.version, value, of.model, .by_clients = true};
        }
    }
    tern_held_outs_free(&all);
    return TERN_OK;
}

// Finds the best version without evaluators: by the metrics of training clients, else by training losses.
static enum tern_result best_without_evaluators(struct tern_db *db, struct tern_best *best)
{
    TERN_TRY(best_by_clients(db, best));
    if (best->by != TERN_BEST_NONE) {
        return TERN_OK;
    }
    const struct tern_ending_policy never = {0, 0};
    struct tern_losses losses = {0};
    struct tern_db_round row;
    struct tern_db_rows *rows = tern_db_rounds(db);
    while (tern_db_next(rows, &row)) {
        if (row.state == TERN_ROUND_COMMITTED && row.noise == 0 &&
            row.mode != TERN_ROUND_RESTORED) {
            tern_losses_add(&losses, &never, row.base_version, tern_db_round_loss(&row));
        }
    }
    if (losses.rounds > 0) {
        *best = (struct tern_best){.by = TERN_BEST_BY_TRAINING_LOSS,
                                   .version = losses.lowest_version,
                                   .value = (double)losses.lowest,
                                   .model = TERN_EVALUATED_GLOBAL};
    }
    return tern_db_end(rows);
}

enum tern_result tern_best_find(struct tern_db *db, enum tern_db_evaluated wanted,
                                struct tern_best *best)
{
    struct tern_best_found found;
    TERN_TRY(tern_best_by_evaluators(db, 0, UINT32_MAX, &found));
    const enum tern_db_evaluated other =
        wanted == TERN_EVALUATED_GLOBAL ? TERN_EVALUATED_REPLICA : TERN_EVALUATED_GLOBAL;
    const bool has_all = found.versions[wanted] == found.evaluated;
    *best = found.best[has_all || found.versions[wanted] > found.versions[other] ? wanted : other];
    return best->by == TERN_BEST_NONE ? best_without_evaluators(db, best) : TERN_OK;
}

enum tern_result tern_best_find_any(struct tern_db *db, struct tern_best *best)
{
    struct tern_best_found found;
    TERN_TRY(tern_best_by_evaluators(db, 0, UINT32_MAX, &found));
    *best = found.any;
    return best->by == TERN_BEST_NONE ? best_without_evaluators(db, best) : TERN_OK;
}

enum tern_result tern_best_models(struct tern_db *db, uint32_t version,
                                  struct tern_best best[TERN_BEST_MODELS])
{
    struct tern_best_found found;
    TERN_TRY(tern_best_by_evaluators(db, version, version, &found));
    memcpy(best, found.best, sizeof found.best);
    return TERN_OK;
}

bool tern_best_prefers_replica(const struct tern_best best[TERN_BEST_MODELS])
{
    const struct tern_best *global = &best[TERN_EVALUATED_GLOBAL];
    return global->by != TERN_BEST_NONE &&
           tern_best_is_ahead(&best[TERN_EVALUATED_REPLICA], global, POINTS_AHEAD, LOSS_AHEAD);
}
