// Trains a run's model once more as one client that has all training rows would: as many rounds and local steps, at the same
// rates. The difference to the federation is what its clients' differences, compression and lost rounds cost. Called by the
// pool from any thread while the run lasts, and by the main thread at its end.
#ifndef TERN_FLEET_POOLED_H
#define TERN_FLEET_POOLED_H

#include "fleet/shares.h"
#include "tensor/model.h"
#include <pthread.h>
#include <signal.h>

struct tern_pooled {
    pthread_mutex_t mutex;
    struct tern_train_task
        *rounds; // by round from 1, the most steps that a client was asked for; local_steps 0: none
    uint32_t count;
    uint64_t steps; // that tern_pooled_train() took
};

// Adds a client's task. Leaves out full gradients. Without memory the round is left out.
void tern_pooled_note(struct tern_pooled *pooled, const struct tern_train_task *task);

// Trains from the weights of `seed`, and measures on all test examples.
// TERN_ERR_NOT_FOUND  no task was added; TERN_AGAIN  interrupted; TERN_ERR_NO_MEMORY; errors of the trainer
TERN_MUST_USE enum tern_result tern_pooled_train(struct tern_pooled *pooled,
                                                 const struct tern_model *model, uint64_t seed,
                                                 const struct tern_shares *shares,
                                                 const volatile sig_atomic_t *interrupted,
                                                 struct tern_evaluate_result *found);

// Whether a federation's last figure (fleet/figure.h) is far below the pooled one, and the sentence.
#define TERN_POOLED_TEXT_MAX 240
bool tern_pooled_is_far(double figure, const struct tern_evaluate_result *found,
                        char text[TERN_POOLED_TEXT_MAX]);

void tern_pooled_clear(struct tern_pooled *pooled);

#endif
