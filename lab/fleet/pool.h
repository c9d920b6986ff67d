// The trainers of a fleet: as many as may train at once, shared by all clients, each with memory
// for the largest shard. A client takes one when its round begins and gives it back once its update
// is encoded, so that a fleet's memory grows by clients only with what a client must keep. Safe
// from any thread.
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
    struct tern_pooled *pooled; // that tasks are added to (borrowed); NULL: none
    size_t arena_size;
    uint32_t count;
    struct tern_pool_worker *workers;
    pthread_mutex_t mutex;
    pthread_cond_t freed;
};

// Makes `workers` trainers for `model` (borrowed). largest_train and test are the largest views
// that clients will bring.
// TERN_ERR_NO_MEMORY; TERN_ERR_MODEL_MISMATCH  the model cannot be trained on this data
TERN_MUST_USE enum tern_result tern_pool_init(struct tern_pool *pool,
                                              const struct tern_model *model, uint32_t workers,
                                              struct tern_view largest_train,
                                              struct tern_view test);

void tern_pool_clear(struct tern_pool *pool);

// One client's seat at the pool: the trainer port it is given.
struct tern_pool_seat {
    struct tern_pool *pool;
    struct tern_view train;
    struct tern_view test;
    struct tern_pool_worker *held; // NULL while it does not train
    struct tern_trainer port;      // of the held trainer
};

// begin waits for a free trainer, which the seat then holds until tern_pool_release().
struct tern_trainer tern_pool_port(struct tern_pool_seat *seat);

// Gives the held trainer, if any, back; the trained weights are gone with it.
void tern_pool_release(struct tern_pool_seat *seat);

#endif
