// Runs one peer of a ring. In each round it agrees with the other peers on the members, trains, and exchanges gradients.
// Afterwards all members have the same model (docs/RING.md). A peer saves its new state before it announces it to others.
// Hosted; one thread.
#ifndef TERN_RING_NODE_H
#define TERN_RING_NODE_H

#include "codec/codec.h"
#include "mesh/mesh.h"
#include "mesh/peers.h"
#include "node/state.h"
#include "result.h"
#include <signal.h>
#include <stdint.h>

#define TERN_RING_NODE_WHY_MAX 768

// Trains and evaluates the model; cli/training.c implements it.
struct tern_ring_learner {
    void *ctx;

    // Trains from weights[0..count) and writes the negative sum of the steps' gradients to descent[0..count). Calls
    // between(arg) after each step. round: from 1. *loss: the mean over the steps.
    // TERN_ERR_TRAINER and the errors of struct tern_trainer
    TERN_MUST_USE enum tern_result (*train)(void *ctx, uint32_t round, const float *weights,
                                            float *descent, uint32_t count,
                                            void (*between)(void *arg), void *arg, float *loss);

    // TERN_ERR_NOT_FOUND  no evaluation data
    TERN_MUST_USE enum tern_result (*evaluate)(void *ctx, const float *weights, uint32_t count,
                                               float *loss, float *accuracy);
};

struct tern_ring_node_config {
    const struct tern_ring_peers *peers; // all pointers are borrowed while the node runs
    uint32_t self;                       // this peer's index
    struct tern_ring_mesh *mesh;
    const struct tern_model *model;
    const struct tern_codec *codec;
    struct tern_ring_learner learner;
    uint8_t agreement[TERN_SHA256_SIZE]; // hash of the settings that all peers must share
    const char *terms;                   // these settings as text (node/agree.h)
    const char *state_path;
    uint64_t seed;
    uint32_t rounds;         // the run ends when the model has this version
    uint32_t evaluate_every; // rounds; 0 = never
    float learning_rate;     // > 0
    uint64_t timeout_ms;     // a peer that is silent for longer is left out
    uint64_t start_ms;
    const volatile sig_atomic_t *abort; // nonzero: end with TERN_ERR_STATE
};

struct tern_ring_outcome {
    uint32_t rounds;   // in which this peer took part
    uint32_t repeated; // exchanges that failed and were repeated
    uint32_t fetched;  // models received from other peers
    bool has_accuracy;
    float accuracy;
    uint64_t payload_sent; // bytes of blocks
};

// Runs until state->version is config->rounds, or an error, whose reason is in `why`. state: loaded or new; always equals the
// saved state.
// TERN_ERR_BUSY    too few peers
// TERN_ERR_CONFIG  the peers' settings differ
// TERN_ERR_STATE   interrupted
// TERN_ERR_TRAINER, TERN_ERR_NON_FINITE, TERN_ERR_NO_MEMORY, TERN_ERR_IO, TERN_ERR_NO_SPACE
TERN_MUST_USE enum tern_result tern_ring_node_run(const struct tern_ring_node_config *config,
                                                  struct tern_ring_state *state,
                                                  struct tern_ring_outcome *outcome,
                                                  char why[TERN_RING_NODE_WHY_MAX]);

#endif
