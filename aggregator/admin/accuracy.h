// The accuracy of a version, of what its evaluators found. Reentrant.
#ifndef TERN_ADMIN_ACCURACY_H
#define TERN_ADMIN_ACCURACY_H

#include "store/store.h"

// All evaluators of a version's replica, or of its global model, together, weighted by their examples:
// those that had enrolled when the version was made, so that one that comes later does not change it.
// Where there was none, the first that evaluated it all the same.
struct tern_accuracy {
    uint32_t version;
    enum tern_db_evaluated model;
    uint64_t num_examples;
    double accuracy;
    double loss;
};

// Adds the next of rows that come as the store has them to the figure of their version and model.
void tern_accuracy_add(struct tern_accuracy *mean, const struct tern_db_evaluation *evaluation);

#endif
