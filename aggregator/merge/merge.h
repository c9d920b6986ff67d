// Makes the next version from a round's updates: merges them into the global model, and encodes the download that updates
// the shared replica. Called by the commit of a round and by the replay. Threads: like the store, except tern_merge_make().
//
// The weighted mean of the updates is summed exactly, so updates can be added as they arrive, in any order. The sums in
// memory are a cache of the stored updates. Without them, as in a replay, after a restart or with too little memory, the
// stored updates are read, and give the same bits.
#ifndef TERN_MERGE_H
#define TERN_MERGE_H

#include "merge/delta.h"
#include "merge/exact_mean.h"
#include "merge/update_bounds.h"
#include "store/store.h"
#include "strategies/strategy.h"
#include "wire/wire.h"

// --- The strategy of a round, between its row in the store and strategies/

// Reads the strategy and its parameters from a round's row.
// TERN_ERR_UNKNOWN  the row has an unknown strategy or parameter, or a parameter is missing
TERN_MUST_USE enum tern_result tern_rule_read(const struct tern_db_round *row,
                                              struct tern_strategy_rule *rule);

// Sets the row's strategy, strategy_parameters and server_learning_rate, without parameters that the strategy does not use.
// Does not set the row's learning_rate.
void tern_rule_write(const struct tern_strategy_rule *rule, struct tern_db_round *row);

// --- Vectors of the model's size
//
// Vectors stay in memory while `memory` has room. Each of the others is in a mapped file without a name, whose pages the
// kernel writes out and reads back when it needs memory. Callers use both alike.

#define TERN_VECTORS_MAX 8 // most vectors in files

struct tern_vectors {
    uint32_t count;                 // values of each vector
    const char *folder;             // folder of the files; NULL: all vectors are in memory
    uint64_t memory;                // bytes that vectors in memory may take
    uint64_t used;                  // bytes that vectors in memory take
    float *files[TERN_VECTORS_MAX]; // mapped files; NULL: a free entry
};

// Returns a vector of zeros. If its file cannot be made, as on a full disk, the vector is in memory, and the log has a warning.
// NULL: no memory.
float *tern_vector_new(struct tern_vectors *vectors);
void tern_vector_free(struct tern_vectors *vectors, float *values); // NULL is allowed
// Lets the pages of a mapped file leave memory until the values are used again.
void tern_vector_drop_pages(const struct tern_vectors *vectors, float *values);

// --- The merge

// Default memory for the sums of a weighted mean, and for strategies that need the values of all updates at some
// coordinates at once. If it does not suffice, updates are decoded at the commit, and more than twice if not even the
// sums of one number of local steps fit. The bits stay the same.
#define TERN_MERGE_MEMORY (UINT64_C(256) << 20)

struct tern_merge {
    struct tern_model model;
    uint64_t seed; // seed of the federation, for codecs that draw random numbers
    uint32_t version;
    // version whose weights are in the store: loaded from there, or stored last
    uint32_t checkpoint;
    uint32_t checkpoint_parts; // of the present version's checkpoint that were stored
    uint8_t replica_id[TERN_SHA256_SIZE];
    uint8_t model_sha256[TERN_SHA256_SIZE];
    float *global;
    float *replica;
    double norm;     // Euclidean norm of the global model
    double residual; // Euclidean norm of the global model minus the replica
    float *acc;      // also the scratch of the encoder

    // The strategy's state between rounds, model->count values each; NULL = not needed so far.
    float *states[TERN_STRATEGY_STATES];
    const struct tern_strategy *state_of; // the strategy of these states; NULL = none

    // The averaged model over the last versions, model->count values; NULL = not needed so far. averaged: like the column of
    // a round's row; 0 = no averaged model.
    float *average;
    uint32_t averaged;

    struct tern_exact_mean arrived; // of the open round's updates
    bool arrives;                   // updates are added as they arrive
    // of arrived updates, late ones included; after a merge, of the round's updates
    struct tern_update_bounds bounds;
    uint32_t deferred; // number of updates in `bounds` whose values are added at the close
    bool noted;        // the bounds belong to a round that is not merged yet
    uint64_t memory;   // bytes of sums, or of the values of all updates; 0 = TERN_MERGE_MEMORY
    struct tern_download_buffers buffers;
    struct tern_vectors vectors; // owns the weights, acc, the states and the average
};

// Where vectors of the model's size are: the first `memory` bytes in memory, the others in files in `folder`.
struct tern_merge_room {
    const char *folder; // outlives the merge; NULL: all are in memory
    uint64_t memory;
};

// Builds the federation's model and allocates memory. room: NULL = everything in memory.
// TERN_ERR_MODEL_MISMATCH  the federation's spec has another hash than its model
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_merge_init(struct tern_merge *merge,
                                               const struct tern_db_federation *federation,
                                               const struct tern_merge_room *room);
void tern_merge_free(struct tern_merge *merge);

// Sets the global model and the replica to version 0, from the seed.
void tern_merge_seed(struct tern_merge *merge, uint64_t seed);

// Sets the global model and the replica to version 0, from the seed or, without a seed, from the stored weights.
// TERN_ERR_NOT_FOUND, TERN_ERR_CORRUPT, TERN_ERR_IO  the stored weights cannot be read
TERN_MUST_USE enum tern_result tern_merge_first(struct tern_merge *merge, struct tern_db *db);

// Loads the newest version, its strategy's states and the averaged model: reads the checkpoint, and merges the rounds since
// from their stored updates. NOT_FOUND: no version is stored. CORRUPT: weights differ from their version's hash, or a state
// or an update is missing.
TERN_MUST_USE enum tern_result tern_merge_load(struct tern_merge *merge, struct tern_db *db);

// Continues to make the newest version the checkpoint: stores further parts of the states, the averaged model and the
// weights, `bytes` in total or the rest. The checkpoint is complete once merge->checkpoint is the version; do not change the
// vectors before. Earlier checkpoints stay (tern_db_checkpoint_drop_some()).
TERN_MUST_USE enum tern_result tern_merge_checkpoint(struct tern_merge *merge, struct tern_db *db,
                                                     uint64_t bytes);

// Compares the stored states and averaged model with the ones in memory, bit for bit. Overwrites acc.
// TERN_ERR_CORRUPT  they differ
TERN_MUST_USE enum tern_result tern_merge_check_states(struct tern_merge *merge,
                                                       struct tern_db *db);

// Begins a round: its updates are added as they arrive, unless the strategy needs all of them at once or takes late ones.
void tern_merge_open(struct tern_merge *merge, const struct tern_strategy_rule *rule);

// Continues a round after a restart: counts the totals of its stored updates, and defers their values. Errors of
// tern_merge_count()
TERN_MUST_USE enum tern_result tern_merge_resume(struct tern_merge *merge, struct tern_db *db,
                                                 const struct tern_db_round *round,
                                                 struct tern_strategy_totals *totals);

// Adds an accepted update of the open round, with staleness 0. If memory does not suffice for its sums, all updates are added
// at the commit. The values of a large model's update that would have to be decoded are added at the close: until then they
// need no sums, and decoding them here would keep the caller's thread for long.
void tern_merge_arrive(struct tern_merge *merge, const struct tern_arrival *arrival);

// Forgets the arrived updates, because the round is merged or abandoned.
void tern_merge_stop(struct tern_merge *merge);

// Computes the totals of a round's stored updates from their claims, and replaces `bounds` by the updates' claims and norms.
// The service counts each update on arrival, and does not need this. Errors: those of tern_merge_round() that concern the row
// and updates.
TERN_MUST_USE enum tern_result tern_merge_count(struct tern_db *db,
                                                const struct tern_db_round *round,
                                                struct tern_strategy_totals *totals,
                                                struct tern_update_bounds *bounds);

// Merges the stored updates that count in `round`. The strategy, its parameters, the learning rate and the download codec
// come from the round's row; a difference that is too large for float16 is sent as float32. A new strategy begins with new
// states. made: the blob is in merge->buffers.blob.
// A restored round (TERN_ROUND_RESTORED) has no updates: its pinned weights become the global model, and the strategy's
// states and the averaged model begin anew.
// TERN_ERR_UNKNOWN     the row has an unknown strategy, parameter or codec
// TERN_ERR_STATE       the round has no update, or another number than was counted
// TERN_ERR_NOT_FOUND   an update's body was deleted (tern_db_prune()), or the pinned weights are missing
// TERN_ERR_NON_FINITE  the model would overflow; impossible with accepted updates (strategies/bounds.h)
// TERN_ERR_CORRUPT     a stored update is damaged, or the averaged model lacks versions that the row counts
// After an error the weights are unspecified: load or seed again.
TERN_MUST_USE enum tern_result tern_merge_round(struct tern_merge *merge, struct tern_db *db,
                                                const struct tern_db_round *round,
                                                struct tern_download_made *made,
                                                struct tern_strategy_report *report);

// Makes the weights in *merge, instead of the pinned ones, the version of a restored round. Errors as above
TERN_MUST_USE enum tern_result tern_merge_restore(struct tern_merge *merge,
                                                  const struct tern_db_round *round);

// Merges a round in two steps, from totals of the updates' claims. tern_merge_make() takes long; another thread may call it,
// with a tern_db of its own. Until it returns, nothing else may use the weights, states, sums or buffers; model, seed,
// version and its two hashes may be read. It merges and forgets the arrived updates.
struct tern_merge_next {
    struct tern_download_made made;
    struct tern_strategy_report report;
    struct tern_strategy_totals totals; // with bounded claims
    uint8_t model_sha256[TERN_SHA256_SIZE];
    double norm;     // as in struct tern_merge
    double residual; // as in struct tern_merge
};
TERN_MUST_USE enum tern_result tern_merge_make(struct tern_merge *merge, struct tern_db *db,
                                               const struct tern_db_round *round,
                                               const struct tern_strategy_totals *totals,
                                               struct tern_merge_next *next);
// Makes the result of tern_merge_make() the newest version.
void tern_merge_adopt(struct tern_merge *merge, const struct tern_merge_next *next);

// Computes the SHA-256 of weights as little-endian float32.
void tern_merge_hash(const float *weights, uint32_t count, uint8_t sha256[TERN_SHA256_SIZE]);

#endif
