// Finds which version of a federation is the best, and which of a version's two models, for export.
#ifndef TERN_CLI_BEST_H
#define TERN_CLI_BEST_H

#include "store/store.h"

enum tern_best_by {
    TERN_BEST_OF_NOTHING,
    TERN_BEST_BY_ACCURACY,
    TERN_BEST_BY_HELD_OUT_LOSS, // where the model tells no classes
    TERN_BEST_BY_LOSS
};

struct tern_best {
    enum tern_best_by by;
    uint32_t version;
    double value;                 // of that
    enum tern_db_evaluated model; // whose figure it is, where evaluators told it
};

// Only versions that at least half of their evaluators reported (federation/accuracy.h).
// The version of the highest accuracy, the median of its evaluators, of an even number the worse of the middle two, the
// newest of those alike; of a model that tells no classes, that of the lowest loss on the evaluators'
// data; where none has reported, that which the round of the lowest training loss
// began with.
//
// By figures of the weights that are wanted, where there is one of each version that was evaluated; else of those
// that more versions have a figure of: one model's are not compared with the other's. Errors of the store
TERN_MUST_USE enum tern_result tern_best_find(struct tern_db *db, enum tern_db_evaluated wanted,
                                              struct tern_best *best);

// Finds the best version whichever of its models it is, the global one of two figures that are equal. Training losses
// are of neither: *best names the global model then. Errors of the store
TERN_MUST_USE enum tern_result tern_best_find_any(struct tern_db *db, struct tern_best *best);

// Finds the figures of both models of one version, by enum tern_db_evaluated. TERN_BEST_OF_NOTHING: evaluators have not
// reported that model. Errors of the store
#define TERN_BEST_MODELS (TERN_LAST_evaluated + 1)
TERN_MUST_USE enum tern_result tern_best_models(struct tern_db *db, uint32_t version,
                                                struct tern_best best[TERN_BEST_MODELS]);

// Returns whether the replica is better than the global model by more than evaluations of neighbouring versions
// differ by: 0.2 points of accuracy, or 1 % of the loss. false: a figure is missing.
bool tern_best_prefers_replica(const struct tern_best best[TERN_BEST_MODELS]);

#endif
