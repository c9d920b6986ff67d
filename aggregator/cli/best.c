#include "cli/best.h"

#include "cli/figures.h"
#include "rounds/ending.h"
#include <string.h>

static void take(struct tern_best *best, const struct tern_accuracy *of)
{
    const enum tern_best_by by =
        of->no_accuracy ? TERN_BEST_BY_HELD_OUT_LOSS : TERN_BEST_BY_ACCURACY;
    const double value = of->no_accuracy ? of->loss : of->accuracy;
    const bool better = of->no_accuracy ? value <= best->value : value >= best->value;
    if (of->num_examples > 0 && (best->by != by || better)) {
        *best = (struct tern_best){by, of->version, value};
    }
}

// Of a version with figures of both models the replica's is taken, which the other versions have.
static enum tern_result by_evaluation(struct tern_db *db, struct tern_best *best)
{
    struct tern_accuracy of = {0};
    struct tern_db_evaluation row;
    struct tern_db_rows *rows = tern_db_evaluations(db);
    while (tern_db_next(rows, &row)) {
        if (row.version != of.version || of.num_examples == 0) {
            take(best, &of);
            of = (struct tern_accuracy){.model = row.model};
        }
        if (row.model == of.model) {
            tern_accuracy_add(&of, &row);
        }
    }
    take(best, &of);
    return tern_db_end(rows);
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
        *best = (struct tern_best){TERN_BEST_BY_LOSS, losses.lowest_version, (double)losses.lowest};
    }
    return tern_db_end(rows);
}

enum tern_result tern_best_find(struct tern_db *db, struct tern_best *best)
{
    memset(best, 0, sizeof *best);
    TERN_TRY(by_evaluation(db, best));
    return best->by == TERN_BEST_OF_NOTHING ? by_loss(db, best) : TERN_OK;
}
