#include "federation/best.h"

#include "federation/accuracy.h"

static void take_best(void *ctx, const struct tern_accuracy *metrics)
{
    struct tern_best_found *found = ctx;
    struct tern_best *best = &found->best[metrics->model];
    const enum tern_best_by by =
        metrics->no_accuracy ? TERN_BEST_BY_HELD_OUT_LOSS : TERN_BEST_BY_ACCURACY;
    const double value = metrics->no_accuracy ? metrics->loss_most : metrics->accuracy_least;
    const bool better = metrics->no_accuracy ? value <= best->value : value >= best->value;
    if (metrics->num_examples == 0) {
        return;
    }
    if (best->by != by || better) {
        *best =
            (struct tern_best){by, metrics->version, value, metrics->model, .by_clients = false};
    }
    found->versions[metrics->model]++;
    found->evaluated += found->evaluated == 0 || found->last != metrics->version;
    found->last = metrics->version;
}

bool tern_best_is_ahead(const struct tern_best *one, const struct tern_best *other, double points,
                        double loss)
{
    if (one->by != other->by) {
        return one->by != TERN_BEST_NONE && other->by == TERN_BEST_NONE;
    }
    return one->by == TERN_BEST_BY_ACCURACY ? one->value > other->value + points
                                            : one->value < other->value - loss * other->value;
}

enum tern_result tern_best_by_evaluators(struct tern_db *db, uint32_t first, uint32_t last,
                                         struct tern_best_found *found)
{
    *found = (struct tern_best_found){.evaluated = 0};
    TERN_TRY(tern_accuracy_each(db, first, last, take_best, found));
    const struct tern_best *replica = &found->best[TERN_EVALUATED_REPLICA];
    const struct tern_best *global = &found->best[TERN_EVALUATED_GLOBAL];
    found->any = tern_best_is_ahead(replica, global, 0, 0) ? *replica : *global;
    return TERN_OK;
}
