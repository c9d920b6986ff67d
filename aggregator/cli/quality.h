// Rates the model for `status` and `export`: the newest metrics, from evaluators or else from training clients
// (train.evaluate); whether they still improve; whether the model is better than guessing; which version is the best, and
// which of a version's two models. From the main thread.
#ifndef TERN_CLI_QUALITY_H
#define TERN_CLI_QUALITY_H

#include "federation/accuracy.h"
#include "federation/best.h"
#include "store/store.h"

#include <cjson/cJSON.h>

// The class that most clients report as their worst. Among classes with equally many clients, the one with the lowest mean
// recall.
struct tern_worst_class {
    uint32_t class_number;      // from 0
    double recall;              // mean over the clients that report this class
    uint32_t clients;           // clients that report this class; 0: no client reports a class
    uint32_t reporting_clients; // clients that report any class
};

#define TERN_TREND_WINDOW 10u // versions; the trend compares the means of the last two windows

enum tern_quality_trend {
    TERN_QUALITY_UNKNOWN = 0, // too few versions were evaluated
    TERN_QUALITY_IMPROVING,
    TERN_QUALITY_FLAT, // the difference is within the usual variation between versions
};

struct tern_quality {
    struct tern_accuracy newest; // num_examples is 0: no version was evaluated
    // a later version that too few evaluators reported; reports is 0: none
    struct tern_reported_version pending;
    uint32_t clients; // training clients that reported `newest`; 0: evaluators reported it
    enum tern_quality_trend trend;
    const char *trend_metric; // static: "accuracy" or "loss"
    double gain_per_round;    // above 0 if the trend is improving
    const char *guess; // static: a guess that is as good as the model; NULL: the model is better
    double guess_accuracy; // accuracy of a guess that names a class
    struct tern_worst_class worst;
    char *worst_name; // of the worst class, malloc'ed by cJSON; NULL: classes have no names
};

// evaluated, pending: from tern_accuracy_newest(). version: the newest. The caller calls tern_quality_free() in any case.
// TERN_ERR_NO_MEMORY, TERN_ERR_IO
TERN_MUST_USE enum tern_result
tern_quality_load(struct tern_db *db, const struct tern_db_federation *federation, uint32_t version,
                  const struct tern_accuracy *evaluated,
                  const struct tern_reported_version *pending, struct tern_quality *quality);

void tern_quality_free(struct tern_quality *quality);

// Finds the best version by the first of these metrics that exists:
// 1. evaluators' metrics of versions that at least half of the evaluators reported (federation/accuracy.h): the median, or
//    the worse of the middle two;
// 2. metrics of training clients on their held-out rows, averaged with the numbers of rows as weights;
// 3. the lowest training loss of a round, for the version that the round began with.
// The best has the highest accuracy, or the lowest loss if the model has no accuracy; of equals, the newest. Evaluators'
// metrics are those of the model `wanted` if every evaluated version has one, else those of the model that more versions
// have. Returns errors of the store.
TERN_MUST_USE enum tern_result tern_best_find(struct tern_db *db, enum tern_db_evaluated wanted,
                                              struct tern_best *best);

// Like tern_best_find(), but compares the metrics of both models, and prefers the global model of equals.
TERN_MUST_USE enum tern_result tern_best_find_any(struct tern_db *db, struct tern_best *best);

// Finds evaluators' metrics of both models of one version. best[] has an element for each enum tern_db_evaluated, with
// TERN_BEST_NONE if evaluators did not report that model. Returns errors of the store.
TERN_MUST_USE enum tern_result tern_best_models(struct tern_db *db, uint32_t version,
                                                struct tern_best best[TERN_BEST_MODELS]);

// Returns whether the replica is better than the global model by more than 0.2 points of accuracy or 1 % of the loss, which
// is the usual difference between neighbouring versions. False if a metric is missing.
bool tern_best_prefers_replica(const struct tern_best best[TERN_BEST_MODELS]);

#endif
