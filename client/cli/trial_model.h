// The model that a trainer is tried on: a built-in one, or that of a safetensors file, as a
// federation that was started from it would have it.
#ifndef TERN_CLIENT_TRIAL_MODEL_H
#define TERN_CLIENT_TRIAL_MODEL_H

#include "cli/external.h"

// name: a spec, whose weights `seed` makes, or the name of a file that ends with .safetensors.
// *weights: malloc'ed, the caller's, [model->count].
// TERN_ERR_CONFIG (no such model), TERN_ERR_NO_MEMORY, and those of the file; with `why`
TERN_MUST_USE enum tern_result tern_trial_model_make(const char *name, uint64_t seed,
                                                     struct tern_model *model, float **weights,
                                                     char why[EXTERNAL_WHY_MAX]);

#endif
