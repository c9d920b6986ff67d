#include "cli/figures.h"
#include "hosted/growing.h"

#include <stdlib.h>
#include <string.h>

// --- Over all rounds

static void take_bytes(struct tern_round_bytes *bytes, const struct tern_db_meter *meter)
{
    bytes->up = meter->up;
    bytes->down = meter->down;
}

enum tern_result tern_figures_load(struct tern_db *db, struct tern_figures *figures)
{
    struct tern_db_counts counts;
    struct tern_db_meter all;
    struct tern_db_meter outside;
    memset(figures, 0, sizeof *figures);
    TERN_TRY(tern_accuracy_newest(db, &figures->newest, &figures->pending));
    TERN_TRY(tern_db_counts(db, 0, &counts));
    TERN_TRY(tern_db_meter_training(db, &all, &outside));
    take_bytes(&figures->all, &all);
    take_bytes(&figures->outside, &outside);
    figures->all.participants = (uint32_t)counts.participants;
    return TERN_OK;
}

double tern_figures_mean(uint64_t total, uint32_t participants)
{
    return participants == 0 ? 0.0 : (double)total / (double)participants;
}

// --- Of each round

static void decide(struct tern_votes *votes, struct tern_round_figures *figures, size_t at)
{
    if (at < figures->accuracy_count) {
        tern_votes_decide(votes, &figures->accuracies[at]);
    }
}

// Rows come by version and model.
static enum tern_result add_accuracy(struct tern_round_figures *figures, struct tern_votes *votes,
                                     const struct tern_db_evaluation *evaluation)
{
    size_t count = figures->accuracy_count;
    if (count == 0 || figures->accuracies[count - 1].version != evaluation->version ||
        figures->accuracies[count - 1].model != evaluation->model) {
        decide(votes, figures, count - 1);
        void *array = tern_grown(figures->accuracies, count, sizeof figures->accuracies[0]);
        if (array == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
        figures->accuracies = array;
        figures->accuracies[count] = (struct tern_accuracy){.version = evaluation->version};
        figures->accuracy_count = ++count;
    }
    return tern_votes_add(votes, &figures->accuracies[count - 1], evaluation);
}

// To the figure of its version and model; an evaluation has one.
static enum tern_result add_metric(struct tern_round_figures *figures, struct tern_votes *votes,
                                   size_t *at, const struct tern_db_metric *metric)
{
    const struct tern_accuracy *of = figures->accuracies;
    while (*at < figures->accuracy_count &&
           (of[*at].version < metric->version ||
            (of[*at].version == metric->version && of[*at].model < metric->model))) {
        decide(votes, figures, *at);
        (*at)++;
    }
    return *at < figures->accuracy_count
               ? tern_votes_add_metric(votes, &figures->accuracies[*at], metric)
               : TERN_OK;
}

static enum tern_result add_round(struct tern_round_figures *figures,
                                  const struct tern_db_round_total *total)
{
    void *array = tern_grown(figures->rounds, figures->round_count, sizeof figures->rounds[0]);
    if (array == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    figures->rounds = array;
    figures->rounds[figures->round_count++] =
        (struct tern_round_bytes){total->round, total->participants, total->up, total->down};
    return TERN_OK;
}

static enum tern_result load_accuracies(struct tern_db *db, struct tern_judges *judges,
                                        struct tern_round_figures *figures,
                                        struct tern_votes *votes)
{
    struct tern_db_evaluation evaluation;
    struct tern_db_metric metric;
    size_t at = 0;
    struct tern_db_rows *rows = tern_db_evaluations_from(db, 0);
    while (tern_judges_next(judges, rows, &evaluation)) {
        tern_db_check_row(rows, add_accuracy(figures, votes, &evaluation));
    }
    decide(votes, figures, figures->accuracy_count - 1);
    TERN_TRY(tern_db_end(rows));
    rows = tern_db_evaluation_metrics_from(db, 0);
    while (tern_db_next(rows, &metric)) {
        tern_db_check_row(rows, add_metric(figures, votes, &at, &metric));
    }
    decide(votes, figures, at);
    return tern_db_end(rows);
}

static enum tern_result load(struct tern_db *db, struct tern_round_figures *figures)
{
    struct tern_db_round_total total;
    struct tern_votes votes = {NULL, 0, 0};
    struct tern_judges judges;
    enum tern_result loaded = tern_judges_load(db, 0, UINT32_MAX, &judges);
    if (loaded == TERN_OK) {
        loaded = load_accuracies(db, &judges, figures, &votes);
    }
    tern_votes_free(&votes);
    tern_judges_free(&judges);
    TERN_TRY(loaded);
    struct tern_db_rows *rows = tern_db_round_totals(db);
    while (tern_db_next(rows, &total)) {
        tern_db_check_row(rows, add_round(figures, &total));
    }
    return tern_db_end(rows);
}

enum tern_result tern_round_figures_load(struct tern_db *db, struct tern_round_figures *figures)
{
    memset(figures, 0, sizeof *figures);
    enum tern_result result = load(db, figures);
    if (result != TERN_OK) {
        tern_round_figures_free(figures);
    }
    return result;
}

void tern_round_figures_free(struct tern_round_figures *figures)
{
    free(figures->accuracies);
    free(figures->rounds);
    memset(figures, 0, sizeof *figures);
}

static int compare_numbers(const void *key, const void *element)
{
    // Both structs begin with the number they are ordered by.
    uint32_t wanted = *(const uint32_t *)key;
    uint32_t here = *(const uint32_t *)element;
    return (wanted > here) - (wanted < here);
}

const struct tern_accuracy *tern_figures_accuracy(const struct tern_round_figures *figures,
                                                  uint32_t version)
{
    if (figures->accuracy_count == 0) {
        return NULL;
    }
    const struct tern_accuracy *found =
        bsearch(&version, figures->accuracies, figures->accuracy_count,
                sizeof figures->accuracies[0], compare_numbers);
    const struct tern_accuracy *last = figures->accuracies + figures->accuracy_count - 1;
    return found != NULL && found < last && found[1].version == version ? found + 1 : found;
}

const struct tern_round_bytes *tern_figures_round(const struct tern_round_figures *figures,
                                                  uint32_t round)
{
    if (figures->round_count == 0) {
        return NULL;
    }
    return bsearch(&round, figures->rounds, figures->round_count, sizeof figures->rounds[0],
                   compare_numbers);
}
