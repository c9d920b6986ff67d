// Makes the next version from a round's stored updates: read back in client order, accumulated,
// merged into the global model, and encoded as the download that moves the shared replica. The
// commit of a round and the replay both call this, so that a replay gives the same bits.
// Thread rule: that of the store.
#ifndef TERN_MERGE_H
#define TERN_MERGE_H

#include "downloads/delta.h"
#include "store/store.h"
#include "strategies/strategy.h"

struct tern_merge {
    struct tern_model model;
    uint64_t seed; // the federation's: of random codecs
    uint32_t version;
    uint8_t replica_id[TERN_SHA256_SIZE];
    uint8_t model_sha256[TERN_SHA256_SIZE];
    float *global;
    float *replica;
    float *acc; // also the scratch of the encoder
    struct tern_download_buffers buffers;
};

// Builds the model of a federation and allocates.
// TERN_ERR_MODEL_MISMATCH  its spec does not give its model hash; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_merge_init(struct tern_merge *merge,
                                               const struct tern_db_federation *federation);
void tern_merge_free(struct tern_merge *merge);

// Version 0: both weight vectors from the seed.
void tern_merge_seed(struct tern_merge *merge, uint64_t seed);

// The newest stored version. NOT_FOUND when none is stored; CORRUPT when the weights do not have
// the hash of their version's row.
TERN_MUST_USE enum tern_result tern_merge_load(struct tern_merge *merge, struct tern_db *db);

// The first pass over a round's updates. The service counts each update as it comes and needs this
// only after a restart. Errors: those of tern_merge_round() that concern updates.
TERN_MUST_USE enum tern_result tern_merge_count(struct tern_db *db, uint32_t round,
                                                struct tern_strategy_totals *totals);

// Merges the stored updates of `round`. The strategy, its learning rate and the download codec come
// from the round's row; a difference that is too large for float16 goes as float32. made: the blob
// is in merge->buffers.blob. TERN_ERR_UNKNOWN     the row names a strategy or codec that is not
// known TERN_ERR_STATE       the round has no update, or not as many as were counted
// TERN_ERR_NOT_FOUND   an update's body is no longer kept (tern_db_update_prune())
// TERN_ERR_NON_FINITE  the model would overflow, which strategies/bounds.h rules out for updates
// that
//                      were accepted; TERN_ERR_CORRUPT  a stored update is damaged
// On error weights are unspecified: load or seed again.
TERN_MUST_USE enum tern_result tern_merge_round(struct tern_merge *merge, struct tern_db *db,
                                                const struct tern_db_round *round,
                                                struct tern_download_made *made,
                                                struct tern_strategy_report *report);

// The same when the round's totals are known already, which saves one of two passes.
TERN_MUST_USE enum tern_result tern_merge_counted(struct tern_merge *merge, struct tern_db *db,
                                                  const struct tern_db_round *round,
                                                  const struct tern_strategy_totals *totals,
                                                  struct tern_download_made *made,
                                                  struct tern_strategy_report *report);

// SHA-256 of weights as little-endian float32.
void tern_merge_hash(const float *weights, uint32_t count, uint8_t sha256[TERN_SHA256_SIZE]);

#endif
