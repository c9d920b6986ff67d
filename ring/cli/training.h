// Implements a peer's learner (node/learner.h) by a built-in model on the data in the settings' section [data]. Hosted; one
// thread.
#ifndef TERN_RING_TRAINING_H
#define TERN_RING_TRAINING_H

#include "cli/ring_settings.h"
#include "data/source.h"
#include "node/learner.h"
#include "result.h"
#include "tensor/model.h"
#include "trainer/trainer.h"

#define TERN_RING_TRAINING_WHY_MAX 512

struct tern_ring_training {
    const struct tern_ring_settings *settings;
    uint32_t peer;
    struct tern_data data;
    struct tern_builtin_trainer trainer;
    void *arena;
};

// Opens the data. settings: borrowed until the close. peer: seeds the batches.
// TERN_ERR_CONFIG  the data, or the model for this data, is wrong; why has the reason
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_ring_training_open(struct tern_ring_training *training,
                                                       const struct tern_ring_settings *settings,
                                                       const struct tern_model *model,
                                                       uint32_t peer,
                                                       char why[TERN_RING_TRAINING_WHY_MAX]);
void tern_ring_training_close(struct tern_ring_training *training);

struct tern_ring_learner tern_ring_training_learner(struct tern_ring_training *training);

#endif
