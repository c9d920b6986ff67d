// The accuracy of the global model that a finished run left in the aggregator. The clients never
// hold it: what they have is what lossy downloads made of it. Called once, from main().
#ifndef TERN_FLEET_GLOBAL_MODEL_H
#define TERN_FLEET_GLOBAL_MODEL_H

#include "fleet/settings.h"
#include "result.h"

// Reads the weights that `tern-aggregator export FILE.f32` wrote after a run, measures them on the
// test set of the settings, and puts global_accuracy and global_loss into the run's results.
// TERN_ERR_MODEL_MISMATCH  the file is not the model with which that run ended
// TERN_ERR_CORRUPT         `results` is not the JSON of a run
// TERN_ERR_NOT_FOUND, TERN_ERR_IO, TERN_ERR_NO_MEMORY, errors of tern_dataset_open()
// why: a sentence
TERN_MUST_USE enum tern_result tern_global_model_measure(const struct tern_fleet_settings *settings,
                                                         const char *results, const char *weights,
                                                         double *accuracy, char why[512]);

#endif
