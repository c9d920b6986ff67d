// Runs one peer of a ring. In each round it agrees with the others on the members, trains, and exchanges its changes.
// Afterwards all members have the same model, by its hash (docs/RING.md). A peer saves its new state before it reports it to
// others. Hosted; one thread.
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
    uint8_t agreement[TERN_SHA256_SIZE]; // hash of the settings that all peers must share
    const char *terms;                   // these settings as text (node/terms.h)
    const char *state_path;
    uint64_t seed;
    uint32_t rounds;         // the last version
    uint32_t evaluate_every; // rounds; 0 = never
    float learning_rate;     // > 0
    uint64_t timeout_ms;
    uint64_t start_ms;
    const volatile sig_atomic_t *abort;
};

// The result of a run.
struct tern_ring_outcome {
    uint32_t rounds;   // with this peer
    uint32_t repeated; // failed exchanges
    uint32_t fetched;  // models received from others
    bool has_accuracy;
    float accuracy;
    uint64_t payload_sent; // bytes of blocks only
};

// Runs until state->version is config->rounds, or an error. state: loaded or new; it always equals the saved state. why: the
// reason of an error.
// TERN_ERR_BUSY    too few peers
// TERN_ERR_CONFIG  the peers' settings differ
// TERN_ERR_STATE   interrupted
// TERN_ERR_TRAINER, TERN_ERR_NON_FINITE, TERN_ERR_NO_MEMORY, TERN_ERR_IO, TERN_ERR_NO_SPACE
TERN_MUST_USE enum tern_result tern_ring_node_run(const struct tern_ring_node_config *config,
                                                  struct tern_ring_state *state,
                                                  struct tern_ring_outcome *outcome,
                                                  char why[TERN_RING_NODE_WHY_MAX]);

#endif
