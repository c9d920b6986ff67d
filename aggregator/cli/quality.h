// Rates the model for status: newest figures, by evaluators or else by training clients (train.evaluate); whether
// they still improve; whether they exceed guessing. From the main thread.
#ifndef TERN_CLI_QUALITY_H
#define TERN_CLI_QUALITY_H

#include "federation/accuracy.h"
#include "store/store.h"
#include <cjson/cJSON.h>

// The class that most clients report as their worst; of several with as many clients, the one with the lowest
// recall. Each client has one vote.
struct tern_worst_class {
    uint32_t class_number; // from 0
    double recall;         // mean over the clients that report this class
    uint32_t clients;      // that report this class; 0: no client reports any
    uint32_t of_clients;   // that report any class
};

enum tern_quality_trend {
    TERN_QUALITY_UNKNOWN = 0, // fewer than two windows of versions were evaluated
    TERN_QUALITY_IMPROVES,
    TERN_QUALITY_STANDS, // the difference is within the usual variation between versions
};

struct tern_quality {
    struct tern_accuracy newest; // num_examples is 0: no evaluation
    struct tern_judged pending;  // a later version that too few evaluators reported; or none
    uint32_t clients;            // training clients that reported; 0: evaluators reported
    enum tern_quality_trend trend;
    const char *trend_of; // static: "accuracy" or "loss"
    double a_round;       // improvement per round, above 0
    const char *guess;  // static: the guess that is as good as the model; NULL: the model is better
    double guess_right; // the share of examples that the guess gets right, where it names a class
    struct tern_worst_class worst;
    char *worst_name; // malloc'ed by cJSON; NULL: the federation knows no names of classes
};

// evaluated and pending: from tern_accuracy_newest(). version: the newest. *quality is to be freed in any case.
// TERN_ERR_NO_MEMORY, TERN_ERR_IO
TERN_MUST_USE enum tern_result
tern_quality_load(struct tern_db *db, const struct tern_db_federation *federation, uint32_t version,
                  const struct tern_accuracy *evaluated, const struct tern_judged *pending,
                  struct tern_quality *quality);

void tern_quality_free(struct tern_quality *quality);

// Prints how many evaluators reported the version that has no figure yet, if any.
void tern_quality_print_pending(const struct tern_quality *quality);
// Prints the lines after the figures. finished: no round will follow.
void tern_quality_print(const struct tern_quality *quality, bool finished);
void tern_quality_json(cJSON *object, const struct tern_quality *quality);

#endif
