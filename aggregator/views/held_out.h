// Figures of versions that clients which train measured on their own held-out data (train.evaluate). Used by the view of
// rounds, `report fairness` and the command line. Reentrant.
#ifndef TERN_VIEW_HELD_OUT_H
#define TERN_VIEW_HELD_OUT_H

#include "rounds/spread.h"
#include "store/store.h"
#include <cjson/cJSON.h>

// If at least this many clients report a figure, no client counts for more examples than TERN_HELD_OUT_BOUND times the
// lower median of the clients' examples. One client's claim then cannot decide a mean.
#define TERN_HELD_OUT_LEAST 3
#define TERN_HELD_OUT_BOUND 16

// One figure of a version, over the clients that reported it.
struct tern_held_out {
    uint32_t version;
    char name[TERN_DB_METRIC_MAX];
    // Weights that were measured: the replica, if any client measured it.
    enum tern_db_evaluated model;
    struct tern_spread spread;
};

struct tern_held_outs {
    struct tern_held_out *list; // sorted by version, then by name
    size_t count;
};

// Loads the figures of versions first to last, without the worst classes, which have no mean (rounds/spread.h).
// TERN_ERR_NO_MEMORY, TERN_ERR_IO; nothing is allocated then.
TERN_MUST_USE enum tern_result tern_held_outs_load(struct tern_db *db, uint32_t first,
                                                   uint32_t last, struct tern_held_outs *all);
void tern_held_outs_free(struct tern_held_outs *all);

// Combines the figures of a version, weighted by examples. False: no client reported a figure.
struct tern_accuracy;
bool tern_held_outs_accuracy(const struct tern_held_outs *all, uint32_t version,
                             struct tern_accuracy *accuracy);

// Returns the `count` figures of a version; NULL: none.
const struct tern_held_out *tern_held_outs_of(const struct tern_held_outs *all, uint32_t version,
                                              size_t *count);

// Adds the figures of the version that a round trained from, each as held_out_NAME, the mean weighted by
// examples, held_out_NAME_mean, _deviation, _worst and _worst_client; held_out_clients and held_out_model.
void tern_held_outs_json(cJSON *row, const struct tern_held_outs *all, uint32_t version);

#endif
