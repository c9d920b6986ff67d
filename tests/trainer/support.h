// A model, its data and a trainer in memory of its own, for tests.
#ifndef TERN_TESTS_TRAINER_SUPPORT_H
#define TERN_TESTS_TRAINER_SUPPORT_H

#include "trainer/trainer.h"

struct setup {
    struct tern_model model;
    struct tern_builtin_trainer state;
    struct tern_trainer trainer; // the port
    float *base;                 // initial weights
    void *arena;
};

// Builds everything from a model spec; fails the test when it cannot.
void setup_make(struct setup *setup, const char *spec, struct tern_view train,
                struct tern_view test, uint32_t max_batch);
void setup_free(struct setup *setup);

// Trains from `base` to the end and returns the trained weights.
const float *setup_train(struct setup *setup, const struct tern_train_task *task, const float *base,
                         struct tern_train_result *result);

// Random images with random labels; bytes and labels are malloc'ed.
struct tern_dataset random_images(uint32_t count, uint32_t height, uint32_t width,
                                  uint32_t channels, uint32_t classes);
#if TERN_LOSSES
// Gives them random targets from -2 to 2 in the place of labels.
void add_targets(struct tern_dataset *data);
#endif
void free_images(struct tern_dataset *data);

#endif
