// A pool of trainers that a fleet's clients share, one per concurrent training, each with memory for the largest
// shard. A client takes one when its round begins and returns it after encoding its update. So each additional client
// costs only its stored state. Safe from any thread.
#ifndef TERN_FLEET_POOL_H
#define TERN_FLEET_POOL_H

#include "fleet/pooled.h"
#include "trainer/trainer.h"
#include <pthread.h>

struct tern_pool_worker {
    struct tern_builtin_trainer trainer;
    void *arena;
    bool taken;
};

struct tern_pool {
    const struct tern_model *model;
    struct tern_pooled *pooled; // collects the tasks for pooled training; borrowed; NULL: none
    size_t arena_size;
    uint32_t count;
    struct tern_pool_worker *workers;
    pthread_mutex_t mutex;
    pthread_cond_t freed;
};

// Makes `workers` trainers for `model` (borrowed). largest_train and test: the largest views of any client.
// TERN_ERR_NO_MEMORY
// TERN_ERR_MODEL_MISMATCH  the model cannot be trained on this data
TERN_MUST_USE enum tern_result tern_pool_init(struct tern_pool *pool,
                                              const struct tern_model *model, uint32_t workers,
                                              struct tern_view largest_train,
                                              struct tern_view test);

void tern_pool_clear(struct tern_pool *pool);

// A client's access to the pool: its trainer port.
struct tern_pool_seat {
    struct tern_pool *pool;
    struct tern_view train;
    struct tern_view test;
    struct tern_pool_worker *held; // the borrowed worker; NULL while the member does not train
    struct tern_trainer port;      // calls the borrowed worker's trainer
};

// Returns the seat's trainer port. Its `begin` waits for a free trainer, which the seat holds until
// tern_pool_release().
struct tern_trainer tern_pool_port(struct tern_pool_seat *seat);

// Returns the held trainer, if any, to the pool. The trained weights are lost.
void tern_pool_release(struct tern_pool_seat *seat);

#endif
