// The data set, its shares, and one built-in trainer that each client of a group uses in turn. Hosted: uses malloc;
// one thread.
#ifndef TERN_LAB_LGC_WORLD_H
#define TERN_LAB_LGC_WORLD_H

#include "data/partition.h"
#include "data/source.h"
#include "trainer/trainer.h"

struct tern_lgc_world_settings {
    const char *model; // spec of a built-in one
    const char *data;  // spec of a data set (data/source.h)
    enum tern_partition_kind partition;
    float alpha;         // of a Dirichlet partition
    uint32_t clients;    // >= 1
    uint32_t rounds;     // that the rate falls over
    uint32_t batch_size; // >= 1
    float learning_rate; // of the first round; falls with a cosine
    float rate_final;    // of the last one
    uint64_t seed;
};

struct tern_lgc_world {
    struct tern_lgc_world_settings settings;
    struct tern_model model;
    struct tern_data data;
    struct tern_partition partition;
    struct tern_builtin_trainer trainer;
    void *arena;
    size_t arena_size;
};

// why: on an error, one sentence. Errors of tern_model_from_spec(), tern_dataset_open(), tern_partition_make()
TERN_MUST_USE enum tern_result tern_lgc_world_open(const struct tern_lgc_world_settings *settings,
                                                   struct tern_lgc_world *world,
                                                   char why[TERN_DATA_WHY_MAX]);
void tern_lgc_world_close(struct tern_lgc_world *world);

// The signature of tern_lgc_trainer.train, with the world as its context: one step of SGD without momentum on a batch
// of the client's own examples, so that change = -rate * gradient.
TERN_MUST_USE enum tern_result tern_lgc_world_train(void *world, uint32_t client, uint32_t round,
                                                    const float *weights, float *change);

// Of the test examples.
TERN_MUST_USE enum tern_result tern_lgc_world_evaluate(struct tern_lgc_world *world,
                                                       const float *weights,
                                                       struct tern_evaluate_result *result);

#endif
