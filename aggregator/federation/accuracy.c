#include "federation/accuracy.h"

#include "rounds/spread.h"
#include "tensor/model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Votes have the first four figures first, then the metrics in their order.
enum { ACCURACY, LOSS, NO_ACCURACY, EXAMPLES, METRICS };

// A claim of examples adds at most this many times the middle claim to the sum.
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

// Sorts late votes last.
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

static struct tern_figure *figure_of(struct tern_accuracy *of, const char *name)
{
    for (uint32_t i = 0; i < of->metric_count; i++) {
        if (strcmp(of->metrics[i].name, name) == 0) {
            return &of->metrics[i];
        }
    }
    if (of->metric_count == TERN_FIGURES_METRICS) {
        return NULL;
    }
    struct tern_figure *figure = &of->metrics[of->metric_count++];
    *figure = (struct tern_figure){.value = 0};
    snprintf(figure->name, sizeof figure->name, "%s", name);
    return figure;
}

enum tern_result tern_votes_add_metric(struct tern_votes *votes, struct tern_accuracy *of,
                                       const struct tern_db_metric *metric)
{
    if (metric->version != of->version || metric->model != of->model ||
        tern_metric_is_of_worst_class(metric->name)) {
        return TERN_OK;
    }
    struct tern_figure *figure = figure_of(of, metric->name);
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

// list: the votes on one figure, sorted by value.
static void set(struct tern_accuracy *of, const struct tern_vote *list, uint32_t count)
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
        of->no_accuracy = median > 0.5; // a tie counts as having accuracy
        break;
    default:
        of->metrics[figure - METRICS].value = median;
    }
}

void tern_votes_decide(struct tern_votes *votes, struct tern_accuracy *of)
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
        set(of, list + first, end - first);
    }
    votes->count = 0;
}

void tern_votes_free(struct tern_votes *votes)
{
    free(votes->list);
    memset(votes, 0, sizeof *votes);
}

// --- The newest version

static enum tern_result add_newest(struct tern_db *db, const struct tern_judged *newest,
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
                                      struct tern_judged *pending)
{
    struct tern_judged newest;
    struct tern_votes votes = {NULL, 0, 0};
    memset(out, 0, sizeof *out);
    TERN_TRY(tern_judges_newest(db, &newest, pending));
    if (newest.reports == 0) {
        return TERN_OK;
    }
    const enum tern_result result = add_newest(db, &newest, &votes, out);
    out->expected = newest.expected;
    tern_votes_decide(&votes, out);
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
