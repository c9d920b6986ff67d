// The accuracy of a version, or what stands in its place, of what its evaluators found. Reentrant.
#ifndef TERN_FEDERATION_ACCURACY_H
#define TERN_FEDERATION_ACCURACY_H

#include "store/store.h"

// Of one version: what an evaluator tells are at most TERN_METRICS_MAX of client/ports.h, and not all need tell
// the same.
#define TERN_FIGURES_METRICS 16
struct tern_figure {
    char name[TERN_DB_METRIC_MAX];
    double value;
    uint64_t num_examples;
};

// All evaluators of a version's replica, or of its global model, together, weighted by their examples:
// those that had enrolled when the version was made, so that one that comes later does not change it.
// Where there was none, the first that evaluated it all the same.
struct tern_accuracy {
    uint32_t version;
    enum tern_db_evaluated model;
    uint64_t num_examples;
    double accuracy;
    double loss;
    bool no_accuracy; // the model tells no classes: metrics say how good it is
    struct tern_figure metrics[TERN_FIGURES_METRICS];
    uint32_t metric_count;
};

// Adds the next of rows that come as the store has them to the figure of their version and model.
void tern_accuracy_add(struct tern_accuracy *mean, const struct tern_db_evaluation *evaluation);

// Adds the next of the evaluators' metrics, which come in the same order, where they are of that version and
// model.
void tern_accuracy_add_metric(struct tern_accuracy *mean, const struct tern_db_metric *metric);

// Of the newest version that was evaluated: its global model, or else its replica. num_examples is 0: none was.
// Errors of the store
TERN_MUST_USE enum tern_result tern_accuracy_newest(struct tern_db *db, struct tern_accuracy *out);

// The figure that a version is known by: its accuracy, or that of the model's loss: r2, or auc. *value; false:
// nobody told it.
const char *tern_accuracy_name(const char *model_spec);
bool tern_accuracy_value(const struct tern_accuracy *accuracy, const char *name, double *value);

#endif
