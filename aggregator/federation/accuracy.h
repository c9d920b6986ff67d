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
    bool late; // of evaluators that enrolled after the version was made
};

// All evaluators of a version's replica, or of its global model, together. Each figure is the median of theirs, of an even
// number the mean of the middle two. Each evaluator has one vote, whatever it claims of its examples, so that fewer than
// half of them cannot move a figure beyond the others'. Only those vote that had enrolled when the version was made, so
// that one that comes later does not change it; where there was none, those that evaluated it all the same.
struct tern_accuracy {
    uint32_t version;
    enum tern_db_evaluated model;
    bool late;             // as of a figure
    uint64_t num_examples; // of all
    double accuracy;
    double loss;
    bool no_accuracy; // most say that the model tells no classes: metrics say how good it is
    struct tern_figure metrics[TERN_FIGURES_METRICS];
    uint32_t metric_count;
};

// What evaluators found of one version and model, before it is counted. All zero: nothing.
struct tern_vote;
struct tern_votes {
    struct tern_vote *list;
    uint32_t count;
    uint32_t room;
};

// Notes the next of rows that come as the store has them, all of one version and model, and adds its examples to `of`.
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_votes_add(struct tern_votes *votes, struct tern_accuracy *of,
                                              const struct tern_db_evaluation *evaluation);

// Notes the next of the evaluators' metrics, which come in the same order, where it is of the version and model of `of`.
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_votes_add_metric(struct tern_votes *votes,
                                                     struct tern_accuracy *of,
                                                     const struct tern_db_metric *metric);

// Sets the figures of `of` that were voted on, and begins with none.
void tern_votes_decide(struct tern_votes *votes, struct tern_accuracy *of);

void tern_votes_free(struct tern_votes *votes);

// Of the newest version that was evaluated: its global model, or else its replica. num_examples is 0: none was.
// Errors of the store
TERN_MUST_USE enum tern_result tern_accuracy_newest(struct tern_db *db, struct tern_accuracy *out);

// The figure that a version is known by: its accuracy, or that of the model's loss: r2, or auc. *value; false:
// nobody told it.
const char *tern_accuracy_name(const char *model_spec);
bool tern_accuracy_value(const struct tern_accuracy *accuracy, const char *name, double *value);

#endif
