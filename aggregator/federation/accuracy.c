#include "federation/accuracy.h"

#include "rounds/spread.h"
#include "tensor/model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Which versions have a figure

// Number of versions in the first search for the newest version that has a figure; each further search doubles it.
#define WINDOW 32u

// An evaluator is expected to report a version if it was last seen later than this long before the version was made.
#define SEEN_WITHIN_MS (7 * 24 * 3600 * 1000ull)

struct times {
    uint64_t *list; // ascending
    uint32_t count;
    uint32_t room;
};

// The times at which evaluators enrolled, and the times at which evaluators were last seen. Index i of the two lists
// need not be the same evaluator.
struct evaluators {
    struct times created_ms;
    struct times last_seen_ms;
};

static void free_evaluators(struct evaluators *evaluators)
{
    free(evaluators->created_ms.list);
    free(evaluators->last_seen_ms.list);
}

static enum tern_result add_time(struct times *times, uint64_t ms)
{
    if (times->count == times->room) {
        const uint32_t room = 2 * times->room + 16;
        uint64_t *list = realloc(times->list, room * sizeof list[0]);
        if (list == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
        times->list = list;
        times->room = room;
    }
    times->list[times->count++] = ms;
    return TERN_OK;
}

static enum tern_result add_evaluator(struct evaluators *evaluators,
                                      const struct tern_db_evaluator *row)
{
    TERN_TRY(add_time(&evaluators->created_ms, row->created_ms));
    return add_time(&evaluators->last_seen_ms, row->last_seen_ms);
}

static int in_order(const void *one, const void *other)
{
    const uint64_t a = *(const uint64_t *)one;
    const uint64_t b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

static void sort(struct times *times)
{
    if (times->count > 0) {
        qsort(times->list, times->count, sizeof times->list[0], in_order);
    }
}

static enum tern_result load_evaluators(struct tern_db *db, struct evaluators *evaluators)
{
    struct tern_db_evaluator row;
    struct tern_db_rows *rows = tern_db_evaluators(db);
    while (tern_db_next(rows, &row)) {
        tern_db_check_row(rows, add_evaluator(evaluators, &row));
    }
    TERN_TRY(tern_db_end(rows));
    sort(&evaluators->created_ms);
    sort(&evaluators->last_seen_ms);
    return TERN_OK;
}

// Returns how many of the sorted times are before `end`.
static uint32_t count_before(const struct times *times, uint64_t end)
{
    uint32_t low = 0;
    uint32_t high = times->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (times->list[middle] < end) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// Decides whether enough evaluators reported a version. `gone` evaluators were last seen too long before the version
// was made. They are among those that had enrolled `by_then`, so the difference is the number of expected evaluators.
static struct tern_reported_version make_reported_version(const struct evaluators *evaluators,
                                                          const struct tern_db_reports *row)
{
    const uint64_t week_ms = SEEN_WITHIN_MS;
    const uint64_t since_ms = row->created_ms > week_ms ? row->created_ms - week_ms : 0;
    const uint32_t gone = count_before(&evaluators->last_seen_ms, since_ms);
    const uint32_t by_then = count_before(&evaluators->created_ms, row->created_ms + 1);
    const bool late = by_then <= gone;
    struct tern_reported_version reported = {.version = row->version,
                                             .model = row->model,
                                             .reports = late ? row->reports : row->in_time,
                                             .expected = late ? evaluators->created_ms.count - gone
                                                              : by_then - gone};
    reported.has_quorum =
        reported.reports > 0 && 2 * (uint64_t)reported.reports >= reported.expected;
    // An evaluator that was not expected may report as well; without this line a screen would show "3 of 2".
    reported.expected = reported.expected > reported.reports ? reported.expected : reported.reports;
    return reported;
}

static enum tern_result add_version(struct tern_reported_versions *versions,
                                    const struct tern_reported_version *reported)
{
    const size_t count = versions->count;
    if ((count & (count - 1)) == 0) {
        struct tern_reported_version *list =
            realloc(versions->list, (count == 0 ? 1 : 2 * count) * sizeof list[0]);
        if (list == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
        versions->list = list;
    }
    versions->list[versions->count++] = *reported;
    return TERN_OK;
}

static enum tern_result load_reports(struct tern_db *db, const struct evaluators *evaluators,
                                     uint32_t first, uint32_t last,
                                     struct tern_reported_versions *versions)
{
    struct tern_db_reports row;
    struct tern_db_rows *rows = tern_db_reports(db, first, last);
    while (tern_db_next(rows, &row)) {
        const struct tern_reported_version reported = make_reported_version(evaluators, &row);
        tern_db_check_row(rows, add_version(versions, &reported));
    }
    return tern_db_end(rows);
}

enum tern_result tern_reported_versions_load(struct tern_db *db, uint32_t first, uint32_t last,
                                             struct tern_reported_versions *versions)
{
    struct evaluators evaluators = {.created_ms = {.count = 0}};
    *versions = (struct tern_reported_versions){.count = 0};
    enum tern_result result = load_evaluators(db, &evaluators);
    if (result == TERN_OK) {
        result = load_reports(db, &evaluators, first, last, versions);
    }
    free_evaluators(&evaluators);
    return result;
}

void tern_reported_versions_free(struct tern_reported_versions *versions)
{
    free(versions->list);
    memset(versions, 0, sizeof *versions);
}

static bool is_before(const struct tern_reported_version *reported,
                      const struct tern_db_evaluation *row)
{
    return reported->version < row->version ||
           (reported->version == row->version && reported->model < row->model);
}

// Skips evaluations of a version that is newer than the loaded reports.
bool tern_reported_versions_next(struct tern_reported_versions *versions, struct tern_db_rows *rows,
                                 struct tern_db_evaluation *row)
{
    while (tern_db_next(rows, row)) {
        while (versions->next < versions->count &&
               is_before(&versions->list[versions->next], row)) {
            versions->next++;
        }
        const struct tern_reported_version *at =
            versions->next < versions->count ? &versions->list[versions->next] : NULL;
        if (at != NULL && at->has_quorum && at->version == row->version &&
            at->model == row->model) {
            return true;
        }
    }
    return false;
}

// Searches the versions from the newest to the oldest. Returns whether enough evaluators reported one of them.
static bool find_newest(const struct tern_reported_versions *versions,
                        struct tern_reported_version *newest, struct tern_reported_version *pending)
{
    for (size_t i = versions->count; i > 0; i--) {
        const struct tern_reported_version *at = &versions->list[i - 1];
        if (at->has_quorum) {
            *newest = *at;
            return true;
        }
        if (pending->reports == 0) {
            *pending = *at;
        }
    }
    return false;
}

static enum tern_result search_newest(struct tern_db *db, const struct evaluators *evaluators,
                                      uint32_t last, struct tern_reported_version *newest,
                                      struct tern_reported_version *pending)
{
    uint32_t window = WINDOW;
    bool more = true;
    while (more) {
        const uint32_t first = last >= window ? last - window + 1 : 0;
        struct tern_reported_versions versions = {.count = 0};
        const enum tern_result result = load_reports(db, evaluators, first, last, &versions);
        more = result == TERN_OK && !find_newest(&versions, newest, pending) && first > 0;
        tern_reported_versions_free(&versions);
        TERN_TRY(result);
        last = more ? first - 1 : 0;
        window *= 2;
    }
    return TERN_OK;
}

static enum tern_result find_newest_reported(struct tern_db *db,
                                             struct tern_reported_version *newest,
                                             struct tern_reported_version *pending)
{
    uint32_t last = 0;
    struct evaluators evaluators = {.created_ms = {.count = 0}};
    *newest = (struct tern_reported_version){.reports = 0};
    *pending = (struct tern_reported_version){.reports = 0};
    const enum tern_result found = tern_db_evaluated_last(db, &last);
    if (found != TERN_OK) {
        return tern_db_may_miss(found);
    }
    enum tern_result result = load_evaluators(db, &evaluators);
    if (result == TERN_OK) {
        result = search_newest(db, &evaluators, last, newest, pending);
    }
    free_evaluators(&evaluators);
    return result;
}

// Values of tern_vote.figure: accuracy, loss, no_accuracy and number of examples, or METRICS + the metric's index.
enum { ACCURACY, LOSS, NO_ACCURACY, EXAMPLES, METRICS };

// A sum of examples counts at most this many times the median number for each evaluator.
#define EXAMPLES_BOUND 16.0

struct tern_vote {
    uint32_t figure;
    double value;
};

// --- Voting

static enum tern_result vote(struct tern_votes *votes, uint32_t figure, double value)
{
    if (votes->count == votes->room) {
        const uint32_t room = votes->room == 0 ? 16 : 2 * votes->room;
        struct tern_vote *list = realloc(votes->list, room * sizeof list[0]);
        if (list == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
        votes->list = list;
        votes->room = room;
    }
    votes->list[votes->count++] = (struct tern_vote){figure, value};
    return TERN_OK;
}

// Ignores an evaluation by an evaluator that enrolled after the version was made, if other evaluators reported the
// version. The store returns the others first.
enum tern_result tern_votes_add(struct tern_votes *votes, struct tern_accuracy *of,
                                const struct tern_db_evaluation *evaluation)
{
    if (evaluation->late && of->evaluators > 0 && !of->late) {
        return TERN_OK;
    }
    of->version = evaluation->version;
    of->model = evaluation->model;
    of->late = evaluation->late;
    of->evaluators++;
    TERN_TRY(vote(votes, EXAMPLES, (double)evaluation->num_examples));
    TERN_TRY(vote(votes, NO_ACCURACY, evaluation->no_accuracy ? 1.0 : 0.0));
    TERN_TRY(vote(votes, LOSS, (double)evaluation->loss));
    return evaluation->no_accuracy ? TERN_OK : vote(votes, ACCURACY, (double)evaluation->accuracy);
}

static struct tern_median_metric *figure_of(struct tern_accuracy *of, const char *name)
{
    for (uint32_t i = 0; i < of->metric_count; i++) {
        if (strcmp(of->metrics[i].name, name) == 0) {
            return &of->metrics[i];
        }
    }
    if (of->metric_count == TERN_FIGURES_METRICS) {
        return NULL;
    }
    struct tern_median_metric *figure = &of->metrics[of->metric_count++];
    *figure = (struct tern_median_metric){.value = 0};
    snprintf(figure->name, sizeof figure->name, "%s", name);
    return figure;
}

enum tern_result tern_votes_add_metric(struct tern_votes *votes, struct tern_accuracy *of,
                                       const struct tern_db_metric *metric)
{
    if (metric->version != of->version || metric->model != of->model ||
        tern_metric_is_worst_class(metric->name)) {
        return TERN_OK;
    }
    struct tern_median_metric *figure = figure_of(of, metric->name);
    if (figure == NULL || (metric->late && figure->num_examples > 0 && !figure->late)) {
        return TERN_OK;
    }
    figure->late = metric->late;
    figure->num_examples += metric->num_examples;
    return vote(votes, METRICS + (uint32_t)(figure - of->metrics), (double)metric->value);
}

// --- Counting

static int compare(const void *a, const void *b)
{
    const struct tern_vote *one = a;
    const struct tern_vote *other = b;
    if (one->figure != other->figure) {
        return one->figure < other->figure ? -1 : 1;
    }
    return (one->value > other->value) - (one->value < other->value);
}

static double sum_examples(const struct tern_vote *list, uint32_t count, double median)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        const double most = EXAMPLES_BOUND * median;
        sum += list[i].value < most ? list[i].value : most;
    }
    return sum;
}

// Sets one figure to the median of its votes. list: the votes on this figure, sorted by value.
static void set_figure(struct tern_accuracy *of, const struct tern_vote *list, uint32_t count)
{
    const uint32_t figure = list[0].figure;
    const double low = list[(count - 1) / 2].value;
    const double high = list[count / 2].value;
    const double median = low + (high - low) / 2;
    switch (figure) {
    case ACCURACY:
        of->accuracy = median;
        of->accuracy_least = low;
        break;
    case LOSS:
        of->loss = median;
        of->loss_most = high;
        break;
    case EXAMPLES:
        of->num_examples = (uint64_t)sum_examples(list, count, median);
        break;
    case NO_ACCURACY:
        of->no_accuracy = median > 0.5; // a tie counts as votes for an accuracy
        break;
    default:
        of->metrics[figure - METRICS].value = median;
    }
}

void tern_votes_take_medians(struct tern_votes *votes, struct tern_accuracy *of)
{
    uint32_t end = 0;
    if (votes->count > 0) {
        qsort(votes->list, votes->count, sizeof votes->list[0], compare);
    }
    for (uint32_t first = 0; first < votes->count; first = end) {
        const struct tern_vote *list = votes->list;
        while (end < votes->count && list[end].figure == list[first].figure) {
            end++;
        }
        set_figure(of, list + first, end - first);
    }
    votes->count = 0;
}

void tern_votes_free(struct tern_votes *votes)
{
    free(votes->list);
    memset(votes, 0, sizeof *votes);
}

// --- All versions, and the newest

static enum tern_result read_evaluations(struct tern_db_rows *rows,
                                         struct tern_reported_versions *versions,
                                         struct tern_votes *votes, tern_take_accuracy take,
                                         void *ctx)
{
    struct tern_accuracy at = {.num_examples = 0};
    struct tern_db_evaluation row;
    while (tern_reported_versions_next(versions, rows, &row)) {
        if (row.version != at.version || row.model != at.model) {
            tern_votes_take_medians(votes, &at);
            take(ctx, &at);
            at = (struct tern_accuracy){.version = row.version, .model = row.model};
        }
        tern_db_check_row(rows, tern_votes_add(votes, &at, &row));
    }
    tern_votes_take_medians(votes, &at);
    take(ctx, &at);
    return tern_db_end(rows);
}

enum tern_result tern_accuracy_each(struct tern_db *db, uint32_t first, uint32_t last,
                                    tern_take_accuracy take, void *ctx)
{
    struct tern_votes votes = {NULL, 0, 0};
    struct tern_reported_versions versions;
    enum tern_result result = tern_reported_versions_load(db, first, last, &versions);
    if (result == TERN_OK) {
        struct tern_db_rows *rows =
            first == last ? tern_db_evaluations_of(db, first) : tern_db_evaluations_from(db, first);
        result = read_evaluations(rows, &versions, &votes, take, ctx);
    }
    tern_votes_free(&votes);
    tern_reported_versions_free(&versions);
    return result;
}

static enum tern_result add_newest(struct tern_db *db, const struct tern_reported_version *newest,
                                   struct tern_votes *votes, struct tern_accuracy *out)
{
    struct tern_db_evaluation evaluation;
    struct tern_db_metric metric;
    struct tern_db_rows *rows = tern_db_evaluations_of(db, newest->version);
    while (tern_db_next(rows, &evaluation)) {
        if (evaluation.model == newest->model) {
            tern_db_check_row(rows, tern_votes_add(votes, out, &evaluation));
        }
    }
    TERN_TRY(tern_db_end(rows));
    rows = tern_db_evaluation_metrics_of(db, newest->version);
    while (tern_db_next(rows, &metric)) {
        tern_db_check_row(rows, tern_votes_add_metric(votes, out, &metric));
    }
    return tern_db_end(rows);
}

enum tern_result tern_accuracy_newest(struct tern_db *db, struct tern_accuracy *out,
                                      struct tern_reported_version *pending)
{
    struct tern_reported_version newest;
    struct tern_votes votes = {NULL, 0, 0};
    memset(out, 0, sizeof *out);
    TERN_TRY(find_newest_reported(db, &newest, pending));
    if (newest.reports == 0) {
        return TERN_OK;
    }
    const enum tern_result result = add_newest(db, &newest, &votes, out);
    out->expected = newest.expected;
    tern_votes_take_medians(&votes, out);
    tern_votes_free(&votes);
    return result;
}

const char *tern_accuracy_name(const char *model_spec)
{
    static const char *const names[TERN_LOSS_COUNT] = {"accuracy", "r2", "r2", "auc"};
    return names[tern_model_spec_loss(model_spec)];
}

bool tern_accuracy_value(const struct tern_accuracy *accuracy, const char *name, double *value)
{
    *value = accuracy->accuracy;
    for (uint32_t i = 0; i < accuracy->metric_count; i++) {
        if (strcmp(accuracy->metrics[i].name, name) == 0) {
            *value = accuracy->metrics[i].value;
            return true;
        }
    }
    return !accuracy->no_accuracy && strcmp(name, "accuracy") == 0;
}
