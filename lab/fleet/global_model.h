// Measures the global model, or the averaged model, that a finished run left in the aggregator. Clients never hold
// it: lossy downloads give them replicas. main() calls it once.
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

// A client and its accuracy on its own data.
struct tern_client_score {
    double accuracy;                      // by tern_scores_make(); NAN: there is no such client
    uint32_t number;                      // the client's number, from 1
    char groups[TERN_CLIENT_GROUPS_TEXT]; // empty: the partition is not natural
};

// Figures for the one-line report.
struct tern_global_model {
    // result of a model that is not a classifier; then the members below are unused
    struct tern_evaluate_result whole;
    double accuracy;
    double macro_f1;
    struct tern_client_score worst;
    struct tern_client_score best;
};

// Measures the weights of `tern-aggregator export --global FILE.f32` on the settings' test set, and adds to the run's
// results: global_accuracy, global_loss, macro_f1, class_accuracy, class_precision and class_f1 (one per class),
// confusion (a row per class), client_accuracy and client_examples (one per client); class_names if classes have
// names; client_groups (a list of names per client) if the partition is natural. null: unknown.
// A model that is not a classifier has global_loss and its metrics, as global_r2; with a natural partition also
// client_loss, client_r2 and so on, on the test examples of each client, and client_groups.
// averaged: the weights are the averaged model (`export --averaged`); adds only averaged_accuracy and averaged_loss.
// TERN_ERR_MODEL_MISMATCH  the file is not the final model of that run, or has another size
// TERN_ERR_CORRUPT         `results` is not the JSON of a run
// TERN_ERR_NOT_FOUND, TERN_ERR_IO, TERN_ERR_NO_MEMORY, errors of tern_dataset_open(). why: a sentence
TERN_MUST_USE enum tern_result tern_global_model_measure(const struct tern_fleet_settings *settings,
                                                         const char *results, const char *weights,
                                                         bool averaged,
                                                         struct tern_global_model *summary,
                                                         char why[512]);

#endif
