// Decides whether a built-in model accepts a data set, and explains why not. Called by the verbs that train, predict or
// check, here and in ring/cli. Reentrant.
#ifndef TERN_CLIENT_MODEL_FIT_H
#define TERN_CLIENT_MODEL_FIT_H

#include "data/dataset.h"
#include "tensor/model.h"
#include <stdbool.h>

#define MODEL_FIT_WHY_MAX 448

// Returns whether the model, which was built from spec, accepts the data set. If not, e.g. because the examples have another
// shape, more classes, or targets that the model does not predict, why names the difference and how to convert the data.
bool tern_model_accepts(const char *spec, const struct tern_model *model,
                        const struct tern_dataset *data, char why[MODEL_FIT_WHY_MAX]);

#endif
