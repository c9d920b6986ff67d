// One peer of a ring: round after round it agrees with the others who takes part, trains, and exchanges what
// it learnt. Behind every round all that took part hold the same model, by its hash (docs/RING.md). What a
// round made is saved before anybody is told. Hosted; one thread.
#ifndef TERN_RING_NODE_H
#define TERN_RING_NODE_H

#include "codec/codec.h"
#include "mesh/mesh.h"
#include "mesh/peers.h"
#include "node/learner.h"
#include "node/state.h"
#include "result.h"
#include <signal.h>

#define TERN_RING_NODE_WHY_MAX 768

struct tern_ring_node_config {
    const struct tern_ring_peers *peers; // all borrowed while the node runs
    uint32_t self;
    struct tern_ring_mesh *mesh;
    const struct tern_model *model;
    const struct tern_codec *codec;
    struct tern_ring_learner learner;
    uint8_t agreement[TERN_SHA256_SIZE]; // what all peers must have alike
    const char *terms;                   // that in words (node/terms.h)
    const char *state_path;
    uint64_t seed;
    uint32_t rounds;         // the version at which it is over
    uint32_t evaluate_every; // rounds; 0 = never
    float learning_rate;     // > 0
    uint64_t timeout_ms;
    uint64_t start_ms;
    const volatile sig_atomic_t *abort;
};

// What came of it.
struct tern_ring_outcome {
    uint32_t rounds;   // that this peer took part in
    uint32_t repeated; // exchanges that came to nothing
    uint32_t fetched;  // models that came from others
    bool has_accuracy;
    float accuracy;
    uint64_t payload_sent; // of blocks alone
};

// Runs until state->version is config->rounds, or it cannot go on. state: what was loaded, or made; always what
// is saved.
// TERN_ERR_BUSY    too few peers; TERN_ERR_CONFIG: they differ; TERN_ERR_STATE: interrupted
// TERN_ERR_TRAINER, TERN_ERR_NON_FINITE, TERN_ERR_NO_MEMORY, TERN_ERR_IO, TERN_ERR_NO_SPACE
// *why says more.
TERN_MUST_USE enum tern_result tern_ring_node_run(const struct tern_ring_node_config *config,
                                                  struct tern_ring_state *state,
                                                  struct tern_ring_outcome *outcome,
                                                  char why[TERN_RING_NODE_WHY_MAX]);

#endif
