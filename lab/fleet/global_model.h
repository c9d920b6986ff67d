// The accuracy of the global model that a finished run left in the aggregator, and of the averaged one.
// The clients never hold them: what they have is what lossy downloads made of the global model. Called
// once, from main().
#ifndef TERN_FLEET_GLOBAL_MODEL_H
#define TERN_FLEET_GLOBAL_MODEL_H

#include "fleet/data_names.h"
#include "fleet/settings.h"
#include "fleet/shares.h"
#include "ports.h"
#include "result.h"
#include "tensor/model.h"
#include <cjson/cJSON.h>
#include <stdbool.h>

// A client of whose own data the accuracy is known.
struct tern_client_score {
    double accuracy;                      // tern_scores_make(); NAN: of no client
    uint32_t number;                      // of the client, from 1
    char groups[TERN_CLIENT_GROUPS_TEXT]; // empty where clients are not natural groups
};

// What is said of the model in one line.
struct tern_global_model {
    struct tern_evaluate_result
        whole; // of one that tells no classes, which has nothing of what follows
    double accuracy;
    double macro_f1;
    struct tern_client_score worst;
    struct tern_client_score best;
};

// Reads the weights that `tern-aggregator export --global FILE.f32` wrote after a run, measures them on the
// test set of the settings, and puts into the run's results: global_accuracy, global_loss, macro_f1,
// class_accuracy, class_precision and class_f1 (one per class), confusion (a row per class),
// client_accuracy and client_examples (one per client), where clients are natural groups client_groups
// (a list of names per client), and where classes have names class_names. null: there is none.
// Of a model that tells no classes global_loss and its metrics, as global_r2, and where clients are natural groups
// client_loss, client_r2 and the like on the test examples of each, and client_groups.
// averaged: they are the averaged model (`export --averaged`): averaged_accuracy and averaged_loss alone.
// TERN_ERR_MODEL_MISMATCH  the file is not the model with which that run ended, or of another size
// TERN_ERR_CORRUPT         `results` is not the JSON of a run
// TERN_ERR_NOT_FOUND, TERN_ERR_IO, TERN_ERR_NO_MEMORY, errors of tern_dataset_open()
// why: a sentence
TERN_MUST_USE enum tern_result tern_global_model_measure(const struct tern_fleet_settings *settings,
                                                         const char *results, const char *weights,
                                                         bool averaged,
                                                         struct tern_global_model *summary,
                                                         char why[512]);

#endif
