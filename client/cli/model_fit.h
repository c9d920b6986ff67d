// Whether a built-in model takes a data set, for the verbs that train, predict or look before they do. One
// judgement, and one sentence, for all of them. Hosted; reentrant.
#ifndef TERN_CLIENT_MODEL_FIT_H
#define TERN_CLIENT_MODEL_FIT_H

#include "data/dataset.h"
#include "tensor/model.h"
#include <stdbool.h>

#define MODEL_FIT_WHY_MAX 448

// model: built from spec. false, and why names both shapes and how to turn one into the other, where the
// examples have another shape, more classes, or targets that the model does not tell.
bool tern_model_takes(const char *spec, const struct tern_model *model,
                      const struct tern_dataset *data, char why[MODEL_FIT_WHY_MAX]);

#endif
