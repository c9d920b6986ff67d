// How good the model is, for status: the newest figures, by evaluators or else by the clients that train
// (train.evaluate), whether they still improve, and whether they are no better than guessing. From the main thread.
#ifndef TERN_CLI_QUALITY_H
#define TERN_CLI_QUALITY_H

#include "federation/accuracy.h"
#include "store/store.h"
#include <cjson/cJSON.h>

#define TERN_QUALITY_WINDOW 10u // versions whose mean is compared with that of as many before

enum tern_quality_trend {
    TERN_QUALITY_UNKNOWN = 0, // fewer than two windows of versions were evaluated
    TERN_QUALITY_IMPROVES,
    TERN_QUALITY_STANDS, // the difference is within what versions differ by anyway
};

struct tern_quality {
    struct tern_accuracy newest; // num_examples is 0: nobody evaluated
    uint32_t clients;            // that train and reported it; 0: evaluators did
    enum tern_quality_trend trend;
    const char *trend_of; // static: "accuracy" or "loss"
    double a_round;       // what it improves by, above 0
    const char *
        guess; // static: what a guess would be that is as good as the model; NULL: the model is better
    double guess_right; // the share of examples that it gets right, where it names a class
    bool has_worst_class;
    uint32_t worst_class;
    double worst_recall;
    uint64_t worst_client; // that reported it; 0: an evaluator
};

// evaluated: of evaluators, as tern_accuracy_newest() has it. version: the newest.
// TERN_ERR_NO_MEMORY, TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_quality_load(struct tern_db *db, const char *model_spec,
                                                 uint32_t version,
                                                 const struct tern_accuracy *evaluated,
                                                 struct tern_quality *quality);

// Lines behind the figures themselves. finished: no round will follow.
void tern_quality_print(const struct tern_quality *quality, bool finished);
void tern_quality_json(cJSON *object, const struct tern_quality *quality);

#endif
