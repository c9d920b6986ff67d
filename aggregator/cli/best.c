#include "cli/best.h"

#include "cli/figures.h"
#include "rounds/ending.h"
#include "views/held_out.h"
#include <string.h>

#define POINTS_AHEAD 0.002
#define LOSS_AHEAD 0.01

// What was found of versions' replicas, and of their global models.
struct found {
    struct tern_best best[TERN_BEST_MODELS];
    uint32_t versions[TERN_BEST_MODELS]; // that have a figure
    uint32_t evaluated;                  // versions that have one of either
    uint32_t last;                       // of those
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
        *best = (struct tern_best){by, of->version, value, of->model, .by_clients = false};
    }
    found->versions[of->model]++;
    found->evaluated += found->evaluated == 0 || found->last != of->version;
    found->last = of->version;
}

static enum tern_result read_evaluations(struct tern_db_rows *rows, struct tern_judges *judges,
                                         struct tern_votes *votes, struct found *found)
{
    struct tern_accuracy of = {.num_examples = 0};
    struct tern_db_evaluation row;
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

// Finds the figures of all versions from `first` to `last`, which is `first` or UINT32_MAX.
static enum tern_result find(struct tern_db *db, uint32_t first, uint32_t last, struct found *found)
{
    struct tern_votes votes = {NULL, 0, 0};
    struct tern_judges judges;
    memset(found, 0, sizeof *found);
    enum tern_result result = tern_judges_load(db, first, last, &judges);
    if (result == TERN_OK) {
        struct tern_db_rows *rows =
            first == last ? tern_db_evaluations_of(db, first) : tern_db_evaluations_from(db, first);
        result = read_evaluations(rows, &judges, &votes, found);
    }
    tern_votes_free(&votes);
    tern_judges_free(&judges);
    return result;
}

// Finds the version of which the clients that train reported the best figure on rows that they hold
// out. Each version is measured by the clients of one round.
static enum tern_result by_clients(struct tern_db *db, struct tern_best *best)
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

// points, loss: the least difference that counts, of accuracies and, relative, of losses.
static bool is_ahead(const struct tern_best *one, const struct tern_best *other, double points,
                     double loss)
{
    if (one->by != other->by) {
        return one->by != TERN_BEST_OF_NOTHING && other->by == TERN_BEST_OF_NOTHING;
    }
    return one->by == TERN_BEST_BY_ACCURACY ? one->value > other->value + points
                                            : one->value < other->value - loss * other->value;
}

// Without figures of evaluators: by those of clients, else by training losses.
static enum tern_result by_rounds(struct tern_db *db, struct tern_best *best)
{
    TERN_TRY(by_clients(db, best));
    if (best->by != TERN_BEST_OF_NOTHING) {
        return TERN_OK;
    }
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
                                   .value = (double)losses.lowest,
                                   .model = TERN_EVALUATED_GLOBAL};
    }
    return tern_db_end(rows);
}

enum tern_result tern_best_find(struct tern_db *db, enum tern_db_evaluated wanted,
                                struct tern_best *best)
{
    struct found found;
    TERN_TRY(find(db, 0, UINT32_MAX, &found));
    const enum tern_db_evaluated other =
        wanted == TERN_EVALUATED_GLOBAL ? TERN_EVALUATED_REPLICA : TERN_EVALUATED_GLOBAL;
    const bool has_all = found.versions[wanted] == found.evaluated;
    *best = found.best[has_all || found.versions[wanted] > found.versions[other] ? wanted : other];
    return best->by == TERN_BEST_OF_NOTHING ? by_rounds(db, best) : TERN_OK;
}

enum tern_result tern_best_find_any(struct tern_db *db, struct tern_best *best)
{
    struct found found;
    TERN_TRY(find(db, 0, UINT32_MAX, &found));
    const struct tern_best *replica = &found.best[TERN_EVALUATED_REPLICA];
    const struct tern_best *global = &found.best[TERN_EVALUATED_GLOBAL];
    *best = is_ahead(replica, global, 0, 0) ? *replica : *global;
    return best->by == TERN_BEST_OF_NOTHING ? by_rounds(db, best) : TERN_OK;
}

enum tern_result tern_best_models(struct tern_db *db, uint32_t version,
                                  struct tern_best best[TERN_BEST_MODELS])
{
    struct found found;
    TERN_TRY(find(db, version, version, &found));
    memcpy(best, found.best, sizeof found.best);
    return TERN_OK;
}

bool tern_best_prefers_replica(const struct tern_best best[TERN_BEST_MODELS])
{
    const struct tern_best *global = &best[TERN_EVALUATED_GLOBAL];
    return global->by != TERN_BEST_OF_NOTHING &&
           is_ahead(&best[TERN_EVALUATED_REPLICA], global, POINTS_AHEAD, LOSS_AHEAD);
}
