// Finds the version that evaluators rate best. Called by the command line, and by closing.c, which keeps its weights
// whatever is pruned. Threads: like the store.
#ifndef TERN_FEDERATION_BEST_H
#define TERN_FEDERATION_BEST_H

#include "store/store.h"

// The metric by which a version is the best.
enum tern_best_by {
    TERN_BEST_NONE,
    TERN_BEST_BY_ACCURACY,
    TERN_BEST_BY_HELD_OUT_LOSS, // of models without classes
    TERN_BEST_BY_TRAINING_LOSS
};

struct tern_best {
    enum tern_best_by by;
    uint32_t version;
    double value;                 // value of the metric that `by` names
    enum tern_db_evaluated model; // model that was measured; for training losses the global one
    bool by_clients;              // training clients measured the model, not evaluators
};

// The best metrics of replicas and of global models, by enum tern_db_evaluated.
#define TERN_BEST_MODELS (TERN_LAST_evaluated + 1)
struct tern_best_found {
    struct tern_best best[TERN_BEST_MODELS]; // TERN_BEST_NONE: evaluators did not report that model
    struct tern_best any;                    // the better one; of equals, that of the global model
    uint32_t versions[TERN_BEST_MODELS];     // versions with a metric of this model
    uint32_t evaluated;                      // versions with a metric of either model
    uint32_t last;                           // newest version with a metric of either model
};

// Finds the best versions from `first` to `last`, which is `first` or UINT32_MAX, by evaluators' metrics; of equals, the
// newest. Errors of the store; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_best_by_evaluators(struct tern_db *db, uint32_t first,
                                                       uint32_t last,
                                                       struct tern_best_found *found);

// Returns whether `one` is better than `other` by more than `points` of accuracy, or by more than the share `loss` of the
// other's loss.
bool tern_best_is_ahead(const struct tern_best *one, const struct tern_best *other, double points,
                        double loss);

#endif
