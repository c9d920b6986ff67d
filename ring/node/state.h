// What a peer of a ring holds from round to round, and the file that it is kept in. The file is replaced at
// once, before anybody is told of what is new in it. Hosted; one thread.
#ifndef TERN_RING_STATE_H
#define TERN_RING_STATE_H

#include "exchange/blocks.h"
#include "result.h"
#include "tensor/model.h"
#include "util/sha256.h"

#define TERN_RING_STATE_WHY_MAX 320

struct tern_ring_state {
    uint32_t version; // of the model: rounds that it has taken
    uint32_t count;   // values
    uint32_t peers;
    float *weights; // [count]
    float *
        residual; // [count] what this peer's encodings have left out, to be added to its next values
    // Of each peer the version that its values went into last; 0 = none.
    uint32_t contributed[TERN_RING_MEMBERS_MAX];
    uint8_t hash[TERN_SHA256_SIZE]; // tern_ring_state_hash()
};

// Zeros, of so many values and peers. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_ring_state_new(struct tern_ring_state *state, uint32_t count,
                                                   uint32_t peers);
void tern_ring_state_free(struct tern_ring_state *state);

// The model's hash, which stands for version, weights and contributed: who has the same has the same bits.
// The residual, each peer's own, is no part of it. Sets state->hash.
void tern_ring_state_hash(struct tern_ring_state *state);

// The model as one peer sends it to another (docs/RING.md, "The bytes"): version, contributed, weights.
uint32_t tern_ring_model_size(uint32_t count, uint32_t peers);
void tern_ring_model_write(const struct tern_ring_state *state, uint8_t *dst);

// Reads one of tern_ring_model_size() bytes whose hash is `hash`. The residual stays.
// TERN_ERR_CORRUPT     it is another; *state is then unchanged
// TERN_ERR_NON_FINITE  likewise: a weight is no finite number
TERN_MUST_USE enum tern_result tern_ring_model_read(struct tern_ring_state *state,
                                                    const uint8_t *src,
                                                    const uint8_t hash[TERN_SHA256_SIZE]);

// agreement: what the file must have been saved under (docs/RING.md).
// TERN_ERR_IO, TERN_ERR_NO_SPACE, TERN_ERR_NOT_FOUND (no such folder), TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_ring_state_save(const struct tern_ring_state *state,
                                                    const uint8_t agreement[TERN_SHA256_SIZE],
                                                    const char *path);

// TERN_ERR_NOT_FOUND  there is no file; *state is unchanged, as on any error
// TERN_ERR_CORRUPT    damaged; TERN_ERR_CONFIG  saved under another agreement; TERN_ERR_IO,
// TERN_ERR_NO_MEMORY; `why` names the file and says what to do
TERN_MUST_USE enum tern_result tern_ring_state_load(struct tern_ring_state *state,
                                                    const uint8_t agreement[TERN_SHA256_SIZE],
                                                    const char *path,
                                                    char why[TERN_RING_STATE_WHY_MAX]);

#endif
