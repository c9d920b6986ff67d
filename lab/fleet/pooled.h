// Trains a run's model once more as one client with all training rows: the same number of rounds and local steps at
// the same rates. The difference to the federation is the cost of unlike clients, compression and lost rounds. The
// pool adds tasks from any thread during the run; the main thread trains at its end.
#ifndef TERN_FLEET_POOLED_H
#define TERN_FLEET_POOLED_H

#include "fleet/shares.h"
#include "tensor/model.h"
#include <pthread.h>
#include <signal.h>

struct tern_pooled {
    pthread_mutex_t mutex;
    // by round, from 1: the longest task of any client; local_steps 0: no task
    struct tern_train_task *rounds;
    uint32_t count;
    uint64_t steps; // steps of tern_pooled_train()
};

// Adds a client's task, except those for full gradients. Skips the round if memory is out.
void tern_pooled_note(struct tern_pooled *pooled, const struct tern_train_task *task);

// Trains from the initial weights of `seed`, and measures on all test examples.
// TERN_ERR_NOT_FOUND  no task was added; TERN_AGAIN  interrupted; TERN_ERR_NO_MEMORY; errors of the trainer
TERN_MUST_USE enum tern_result tern_pooled_train(struct tern_pooled *pooled,
                                                 const struct tern_model *model, uint64_t seed,
                                                 const struct tern_shares *shares,
                                                 const volatile sig_atomic_t *interrupted,
                                                 struct tern_evaluate_result *found);

// Returns true and a sentence if the federation's last figure (fleet/figure.h) is far below the pooled one.
#define TERN_POOLED_TEXT_MAX 240
bool tern_pooled_is_far(double figure, const struct tern_evaluate_result *found,
                        char text[TERN_POOLED_TEXT_MAX]);

void tern_pooled_clear(struct tern_pooled *pooled);

#endif
