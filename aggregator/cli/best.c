#include "cli/best.h"

#include "cli/figures.h"
#include "rounds/ending.h"
#include <string.h>

#define MODELS (TERN_LAST_evaluated + 1)

// What was found of versions' replicas, and of their global models.
struct found {
    struct tern_best best[MODELS];
    uint32_t versions[MODELS]; // that have a figure
    uint32_t evaluated;        // versions that have one of either
    uint32_t last;             // of those
};

static void take(struct found *found, const struct tern_accuracy *of)
{
    struct tern_best *best = &found->best[of->model];
    const enum tern_best_by by =
        of->no_accuracy ? TERN_BEST_BY_HELD_OUT_LOSS : TERN_BEST_BY_ACCURACY;
    const double value = of->no_accuracy ? of->loss_most : of->accuracy_least;
    const bool better = of->no_accuracy ? value <= best->value : value >= best->value;
    if (of->num_examples == 0) {
        return;
    }
    if (best->by != by || better) {
        *best = (struct tern_best){by, of->version, value, of->model};
    }
    found->versions[of->model]++;
    found->evaluated += found->evaluated == 0 || found->last != of->version;
    found->last = of->version;
}

static enum tern_result read_evaluations(struct tern_db *db, struct tern_judges *judges,
                                         struct tern_votes *votes, struct found *found)
{
    struct tern_accuracy of = {.num_examples = 0};
    struct tern_db_evaluation row;
    struct tern_db_rows *rows = tern_db_evaluations_from(db, 0);
    while (tern_judges_next(judges, rows, &row)) {
        if (row.version != of.version || row.model != of.model) {
            tern_votes_decide(votes, &of);
            take(found, &of);
            of = (struct tern_accuracy){.version = row.version, .model = row.model};
        }
        tern_db_check_row(rows, tern_votes_add(votes, &of, &row));
    }
    tern_votes_decide(votes, &of);
    take(found, &of);
    return tern_db_end(rows);
}

static enum tern_result by_evaluation(struct tern_db *db, enum tern_db_evaluated wanted,
                                      struct tern_best *best)
{
    struct found found = {.evaluated = 0};
    struct tern_votes votes = {NULL, 0, 0};
    struct tern_judges judges;
    enum tern_result result = tern_judges_load(db, 0, UINT32_MAX, &judges);
    if (result == TERN_OK) {
        result = read_evaluations(db, &judges, &votes, &found);
    }
    tern_votes_free(&votes);
    tern_judges_free(&judges);
    const enum tern_db_evaluated other =
        wanted == TERN_EVALUATED_GLOBAL ? TERN_EVALUATED_REPLICA : TERN_EVALUATED_GLOBAL;
    const bool has_all = found.versions[wanted] == found.evaluated;
    *best = found.best[has_all || found.versions[wanted] > found.versions[other] ? wanted : other];
    return result;
}

static enum tern_result by_loss(struct tern_db *db, struct tern_best *best)
{
    const struct tern_ending_policy never = {0, 0};
    struct tern_losses losses = {0};
    struct tern_db_round row;
    struct tern_db_rows *rows = tern_db_rounds(db);
    while (tern_db_next(rows, &row)) {
        if (row.state == TERN_ROUND_COMMITTED) {
            tern_losses_add(&losses, &never, row.base_version, tern_db_round_loss(&row));
        }
    }
    if (losses.rounds > 0) {
        *best = (struct tern_best){.by = TERN_BEST_BY_LOSS,
                                   .version = losses.lowest_version,
                                   .value = (double)losses.lowest};
    }
    return tern_db_end(rows);
}

enum tern_result tern_best_find(struct tern_db *db, enum tern_db_evaluated wanted,
                                struct tern_best *best)
{
    memset(best, 0, sizeof *best);
    TERN_TRY(by_evaluation(db, wanted, best));
    return best->by == TERN_BEST_OF_NOTHING ? by_loss(db, best) : TERN_OK;
}
