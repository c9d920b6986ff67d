// Which version of a federation is the best, for export --best.
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

#endif
