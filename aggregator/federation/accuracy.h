// Computes the accuracy of a version, or the metric that replaces it, from the evaluations in the store. A version has
// an accuracy, a loss and metrics once at least half of its evaluators reported. Called by the command line, the admin
// listener and the federation. Reentrant.
#ifndef TERN_FEDERATION_ACCURACY_H
#define TERN_FEDERATION_ACCURACY_H

#include "store/store.h"

// Reports on a version's replica or global model. Revoked evaluators and their reports do not count. `expected` is the
// number of evaluators that had enrolled before the version was made and were last seen at most a week before it. If
// there are none, as for version 0 of most federations, all evaluators are expected, and late reports count.
struct tern_reported_version {
    uint32_t version;
    enum tern_db_evaluated model;
    uint32_t reports; // number of evaluators that reported
    uint32_t expected;
    bool has_quorum; // at least half of the expected evaluators reported
};

struct tern_reported_versions {
    struct tern_reported_version *list; // sorted by version and model
    size_t count;
    size_t next; // index in `list` at which tern_reported_versions_next() continues
};

// Loads the numbers of reports on versions `first` to `last`. Free *versions by tern_reported_versions_free(), after an
// error, too.
// TERN_ERR_NO_MEMORY; errors of the store
TERN_MUST_USE enum tern_result tern_reported_versions_load(struct tern_db *db, uint32_t first,
                                                           uint32_t last,
                                                           struct tern_reported_versions *versions);
void tern_reported_versions_free(struct tern_reported_versions *versions);

// Reads the next evaluation row as tern_db_next() does, but skips versions without enough reports.
bool tern_reported_versions_next(struct tern_reported_versions *versions, struct tern_db_rows *rows,
                                 struct tern_db_evaluation *row);

// The median of a metric of one version. An evaluator reports at most TERN_METRICS_MAX metrics (client/ports.h), and
// evaluators may report different metrics.
#define TERN_FIGURES_METRICS 16
struct tern_median_metric {
    char name[TERN_DB_METRIC_MAX];
    double value;
    uint64_t num_examples;
    bool late; // all reports are from evaluators that enrolled after the version was made
};

// Medians over the evaluators' reports on a version's replica, or on its global model; for an even number of
// evaluators, the mean of the middle two. Each evaluator has one vote, whatever its number of examples, so fewer than
// half of the evaluators cannot move a median beyond the others' values. Only evaluators that enrolled before the
// version was made vote; if there are none, late evaluators do.
struct tern_accuracy {
    uint32_t version;
    enum tern_db_evaluated model;
    bool late;           // all votes are of evaluators that enrolled after the version was made
    uint32_t evaluators; // evaluators that voted
    uint32_t expected;   // evaluators that should report; set by tern_accuracy_newest() only
    // Sum over the evaluators that voted; each claim counts for at most 16 times the median.
    uint64_t num_examples;
    double accuracy;
    double loss;
    double accuracy_least; // for an even number of votes, the lower of the middle two
    double loss_most;      // for an even number of votes, the higher of the middle two losses
    // Most evaluators report that the model predicts no classes: metrics rate the model.
    bool no_accuracy;
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

// Adds an evaluation of the same version and model. Call it for the rows of tern_reported_versions_next(), in the
// store's order. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_votes_add(struct tern_votes *votes, struct tern_accuracy *of,
                                              const struct tern_db_evaluation *evaluation);

// Adds a metric of an evaluator, in the store's order, if the version and model are those of `of`. Leaves out worst
// classes, whose numbers have no median (rounds/spread.h). TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_votes_add_metric(struct tern_votes *votes,
                                                     struct tern_accuracy *of,
                                                     const struct tern_db_metric *metric);

// Sets the accuracy, loss and metrics of `of` to the medians of the votes, and clears the votes.
void tern_votes_take_medians(struct tern_votes *votes, struct tern_accuracy *of);

void tern_votes_free(struct tern_votes *votes);

// Passes the metrics of both models of all versions from `first` to `last`, which is `first` or UINT32_MAX. num_examples
// is 0 where too few evaluators reported. Errors of the store; TERN_ERR_NO_MEMORY
typedef void (*tern_take_accuracy)(void *ctx, const struct tern_accuracy *metrics);
TERN_MUST_USE enum tern_result tern_accuracy_each(struct tern_db *db, uint32_t first, uint32_t last,
                                                  tern_take_accuracy take, void *ctx);

// Computes the accuracy of the newest version with enough reports: of its global model, or else of its replica.
// out->num_examples is 0 if no version has enough. *pending: a later version that too few evaluators have reported;
// reports is 0 if there is none.
// Errors of the store; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_accuracy_newest(struct tern_db *db, struct tern_accuracy *out,
                                                    struct tern_reported_version *pending);

// Returns the name of the figure that rates the model best: "accuracy", or by the model's loss "r2" or "auc".
const char *tern_accuracy_name(const char *model_spec);
// Sets *value to the accuracy or the metric of this name. Returns false if no evaluator reported it.
bool tern_accuracy_value(const struct tern_accuracy *accuracy, const char *name, double *value);

#endif
