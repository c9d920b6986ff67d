// A peer's state between rounds: the model and this peer's residual error; saves it to a file atomically. Hosted; one thread.
#ifndef TERN_RING_STATE_H
#define TERN_RING_STATE_H

#include "exchange/exchange.h"
#include "result.h"
#include "tensor/model.h"
#include "util/sha256.h"

#define TERN_RING_STATE_WHY_MAX 320

struct tern_ring_state {
    uint32_t version; // version of the model: its number of rounds
    uint32_t count;   // values of the model
    uint32_t peers;
    float *weights; // [count]
    // [count] error buffer: the errors of this peer's encodings, added to its next values
    float *residual;
    // The last version of the model to which each peer contributed; 0 = none.
    uint32_t contributed[TERN_RING_MEMBERS_MAX];
    uint8_t hash[TERN_SHA256_SIZE]; // tern_ring_state_hash()
};

// Allocates a state of zeros. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_ring_state_new(struct tern_ring_state *state, uint32_t count,
                                                   uint32_t peers);
void tern_ring_state_free(struct tern_ring_state *state);

// Sets state->hash from version, weights and contributed. The residual is left out, because it differs from peer to peer.
void tern_ring_state_hash(struct tern_ring_state *state);

// Encode version, contributed and weights for another peer (docs/RING.md, "The bytes").
uint32_t tern_ring_model_size(uint32_t count, uint32_t peers);
void tern_ring_model_write(const struct tern_ring_state *state, uint8_t *dst);

// Decodes a model of tern_ring_model_size() bytes. The residual is unchanged. On error *state is unchanged.
// TERN_ERR_CORRUPT     its hash is not `hash`
// TERN_ERR_NON_FINITE  a weight is not finite
TERN_MUST_USE enum tern_result tern_ring_model_read(struct tern_ring_state *state,
                                                    const uint8_t *src,
                                                    const uint8_t hash[TERN_SHA256_SIZE]);

// Saves the state with the hash of the shared settings (docs/RING.md).
// TERN_ERR_IO, TERN_ERR_NO_SPACE, TERN_ERR_NOT_FOUND (no such folder), TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_ring_state_save(const struct tern_ring_state *state,
                                                    const uint8_t agreement[TERN_SHA256_SIZE],
                                                    const char *path);

// Loads the state. On error *state is unchanged, and why has the file, the problem and the remedy.
// TERN_ERR_NOT_FOUND  no file
// TERN_ERR_CORRUPT    the file is damaged
// TERN_ERR_CONFIG     it was saved with other shared settings
// TERN_ERR_IO, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_ring_state_load(struct tern_ring_state *state,
                                                    const uint8_t agreement[TERN_SHA256_SIZE],
                                                    const char *path,
                                                    char why[TERN_RING_STATE_WHY_MAX]);

#endif
