// The models once more: slow, in double, one multiplication at a time, written from the description
// in tensor/model.h alone. Gradients come from differences of its loss.
#ifndef TERN_TESTS_TRAINER_REFERENCE_H
#define TERN_TESTS_TRAINER_REFERENCE_H

#include "data/dataset.h"
#include "tensor/model.h"

// The mean of the model's loss over the whole data set.
double reference_loss(const struct tern_model *model, const double *weights,
                      const struct tern_dataset *data);

#endif
