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
    double value;                 // the figure of `by`
    enum tern_db_evaluated model; // the model that was measured; global for training losses
    bool by_clients;              // clients that train measured it, not evaluators
};

// Finds the best version, by the first kind of figure that exists:
// 1. evaluators' figures, of versions that at least half of them reported (federation/accuracy.h): the
//    median, of an even number the worse of the middle two;
// 2. figures of the clients that train, on rows that they hold out, weighted by rows;
// 3. the version that the round of the lowest training loss began with.
// Highest accuracy, or lowest loss where the model has no accuracy; the newest of equal ones. Evaluators'
// figures are those of the wanted weights where each evaluated version has one, else those of the model
// that more versions have. Errors of the store
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
