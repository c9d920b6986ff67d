// The accuracy of a version, or the metric in place of it, from its evaluators' reports: which versions have a figure, and
// what it is. The command line, the admin listener and the federation read it from the store, once per command or answer.
// Reentrant.
#ifndef TERN_FEDERATION_ACCURACY_H
#define TERN_FEDERATION_ACCURACY_H

#include "store/store.h"

// A version's replica or global model that at least one evaluator reported. Reports and evaluators of revoked clients count
// nowhere. `expected` counts the evaluators that had enrolled before the version was made and were seen within the week
// before, or since. Where there is none, as for version 0 of most federations, all evaluators are expected, and late
// reports count.
struct tern_judged {
    uint32_t version;
    enum tern_db_evaluated model;
    uint32_t reports; // 0: nothing was reported
    uint32_t expected;
    bool counts; // the version has a figure
};

struct tern_judges {
    struct tern_judged *list; // by version and model
    size_t count;
    size_t next; // of tern_judges_next()
};

// Loads the reports on versions first to last. Free them by tern_judges_free(), after an error too.
// TERN_ERR_NO_MEMORY; errors of the store
TERN_MUST_USE enum tern_result tern_judges_load(struct tern_db *db, uint32_t first, uint32_t last,
                                                struct tern_judges *judges);
void tern_judges_free(struct tern_judges *judges);

// Reads the next report that belongs to a figure: tern_db_next() without the versions that do not count.
bool tern_judges_next(struct tern_judges *judges, struct tern_db_rows *rows,
                      struct tern_db_evaluation *row);

// A figure of one version. An evaluator reports at most TERN_METRICS_MAX metrics (client/ports.h), and evaluators may
// report different ones.
#define TERN_FIGURES_METRICS 16
struct tern_figure {
    char name[TERN_DB_METRIC_MAX];
    double value;
    uint64_t num_examples;
    bool late; // from evaluators that enrolled after the version was made
};

// Figures of all evaluators of a version's replica, or of its global model. Each figure is the median of theirs; with
// an even number of votes, the mean of the middle two. Each evaluator has one vote, whatever its examples, so fewer
// than half cannot move a figure beyond the others' values. A version has figures once half of its evaluators reported
// (tern_judges_load()). Only evaluators that enrolled before the version was made
// vote; a later one cannot change the figure. Without any such evaluator, the late ones vote.
struct tern_accuracy {
    uint32_t version;
    enum tern_db_evaluated model;
    bool late;             // as in struct tern_figure
    uint32_t evaluators;   // that voted
    uint32_t expected;     // evaluators; set by tern_accuracy_newest() alone
    uint64_t num_examples; // sum over the voters, each claim bounded; set by tern_votes_decide()
    double accuracy;
    double loss;
    double accuracy_least; // the worse of the middle two votes, where their number is even
    double loss_most;      // of losses
    bool no_accuracy;      // most report that the model predicts no classes: metrics rate the model
    struct tern_figure metrics[TERN_FIGURES_METRICS];
    uint32_t metric_count;
};

// Evaluators' reports for one version and model, before the vote is counted. All zero: none.
struct tern_vote;
struct tern_votes {
    struct tern_vote *list;
    uint32_t count;
    uint32_t room;
};

// Adds the next evaluation row that counts (tern_judges_next()), in the store's order, all of one version and model.
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
void tern_votes_decide(struct tern_votes *votes, struct tern_accuracy *of);

void tern_votes_free(struct tern_votes *votes);

// Finds the figures of the newest version that counts: of its global model, or else of its replica. num_examples is 0:
// none counts. *pending: a later version that too few evaluators reported; reports is 0: none.
// Errors of the store; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_accuracy_newest(struct tern_db *db, struct tern_accuracy *out,
                                                    struct tern_judged *pending);

// The figure that a version is known by: its accuracy, or that of the model's loss: r2, or auc. *value; false:
// no evaluator reported it.
const char *tern_accuracy_name(const char *model_spec);
bool tern_accuracy_value(const struct tern_accuracy *accuracy, const char *name, double *value);

#endif
