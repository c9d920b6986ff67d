// Computes the accuracy of a version, or the metric that replaces it, from its evaluators' reports in the store. A
// version has figures (accuracy, loss, metrics) once enough evaluators reported it. Called by the command line, the
// admin listener and the federation. Reentrant.
#ifndef TERN_FEDERATION_ACCURACY_H
#define TERN_FEDERATION_ACCURACY_H

#include "store/store.h"

// A version's replica or global model that at least one evaluator reported. Revoked evaluators and their reports do not
// count. `expected` is the number of evaluators that had enrolled before the version was made and were last seen at
// most a week before it. If there are none, as for version 0 of most federations, all evaluators are expected, and late
// reports count.
struct tern_reported_version {
    uint32_t version;
    enum tern_db_evaluated model;
    uint32_t reports; // evaluators that reported; 0 = none
    uint32_t expected;
    bool has_quorum; // at least half of the expected evaluators reported
};

struct tern_reported_versions {
    struct tern_reported_version *list; // sorted by version and model
    size_t count;
    size_t next; // index at which tern_reported_versions_next() continues
};

// Loads the reports on versions first to last. Free them by tern_reported_versions_free(), after an error too.
// TERN_ERR_NO_MEMORY; errors of the store
TERN_MUST_USE enum tern_result tern_reported_versions_load(struct tern_db *db, uint32_t first,
                                                           uint32_t last,
                                                           struct tern_reported_versions *judges);
void tern_reported_versions_free(struct tern_reported_versions *judges);

// Like tern_db_next(), but skips reports on versions that have no figure.
bool tern_reported_versions_next(struct tern_reported_versions *judges, struct tern_db_rows *rows,
                                 struct tern_db_evaluation *row);

// A figure of one version. An evaluator reports at most TERN_METRICS_MAX metrics (client/ports.h), and evaluators may
// report different ones.
#define TERN_FIGURES_METRICS 16
struct tern_median_metric {
    char name[TERN_DB_METRIC_MAX];
    double value;
    uint64_t num_examples;
    bool late; // from evaluators that enrolled after the version was made
};

// Figures of a version's replica, or of its global model. Each figure is the median of the evaluators' values; for an
// even number, the mean of the middle two. Each evaluator has one vote, whatever its number of examples, so fewer than
// half cannot move a figure beyond the others' values. A version has figures once half of its evaluators reported
// (tern_reported_versions_load()). Only evaluators that enrolled before the version was made vote; if there are none, the late
// ones do.
struct tern_accuracy {
    uint32_t version;
    enum tern_db_evaluated model;
    bool late;           // as in struct tern_median_metric
    uint32_t evaluators; // evaluators that voted
    uint32_t expected;   // expected evaluators; set by tern_accuracy_newest() only
    // Sum over the evaluators that voted; each claim counts for at most 16 times the median.
    uint64_t num_examples;
    double accuracy;
    double loss;
    double accuracy_least; // for an even number of votes, the lower of the middle two
    double loss_most;      // for an even number of votes, the higher of the middle two losses
    bool no_accuracy;      // most report that the model predicts no classes: metrics rate the model
    struct tern_median_metric metrics[TERN_FIGURES_METRICS];
    uint32_t metric_count;
};

// Votes of evaluators on one version and model, until tern_votes_take_medians(). All zeros: no votes.
struct tern_vote;
struct tern_votes {
    struct tern_vote *list;
    uint32_t count;
    uint32_t room;
};

// Adds the next evaluation row that counts (tern_reported_versions_next()), in the store's order, all of one version and model.
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_votes_add(struct tern_votes *votes, struct tern_accuracy *of,
                                              const struct tern_db_evaluation *evaluation);

// Adds the next evaluator's metric, in the same order, if its version and model are those of `of`.
// Leaves out worst classes, whose numbers have no median (rounds/spread.h).
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_votes_add_metric(struct tern_votes *votes,
                                                     struct tern_accuracy *of,
                                                     const struct tern_db_metric *metric);

// Sets the figures of `of` to the result of the votes, and clears the votes.
void tern_votes_take_medians(struct tern_votes *votes, struct tern_accuracy *of);

void tern_votes_free(struct tern_votes *votes);

// Finds the figures of the newest version that has any: of its global model, or else of its replica. num_examples is 0
// if no version has. *pending: a later version that too few evaluators reported so far; reports is 0 if there is none.
// Errors of the store; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_accuracy_newest(struct tern_db *db, struct tern_accuracy *out,
                                                    struct tern_reported_version *pending);

// Returns the name of the main figure of a model: "accuracy", or the metric of its loss: "r2" or "auc".
const char *tern_accuracy_name(const char *model_spec);
// Gets the figure of this name; false: no evaluator reported it.
bool tern_accuracy_value(const struct tern_accuracy *accuracy, const char *name, double *value);

#endif
