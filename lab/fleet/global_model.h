// The accuracy of the global model that a finished run left in the aggregator. The clients never
// hold it: what they have is what lossy downloads made of it. Called once, from main().
#ifndef TERN_FLEET_GLOBAL_MODEL_H
#define TERN_FLEET_GLOBAL_MODEL_H

#include "fleet/settings.h"
#include "result.h"

// What is said of the model in one line. A client's accuracy: tern_scores_make().
struct tern_global_model {
    double accuracy;
    double macro_f1;
    double worst_client; // accuracy; NAN where none is known
    double best_client;
};

// Reads the weights that `tern-aggregator export FILE.f32` wrote after a run, measures them on the
// test set of the settings, and puts into the run's results: global_accuracy, global_loss, macro_f1,
// class_accuracy, class_precision and class_f1 (one per class), confusion (a row per class),
// client_accuracy and client_examples (one per client). null: there is none.
// TERN_ERR_MODEL_MISMATCH  the file is not the model with which that run ended
// TERN_ERR_CORRUPT         `results` is not the JSON of a run
// TERN_ERR_NOT_FOUND, TERN_ERR_IO, TERN_ERR_NO_MEMORY, errors of tern_dataset_open()
// why: a sentence
TERN_MUST_USE enum tern_result tern_global_model_measure(const struct tern_fleet_settings *settings,
                                                         const char *results, const char *weights,
                                                         struct tern_global_model *summary,
                                                         char why[512]);

#endif
