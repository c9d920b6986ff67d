// Makes the next version from a round's updates: merged into the global model, and encoded as the
// download that moves the shared replica. The commit of a round and the replay both call this.
//
// The weighted mean of the updates is summed exactly, so it may be taken as they arrive, and in
// whatever order: what is summed in memory is a cache of what is stored. Where it is not there, as
// in a replay, after a restart or because it would take too much memory, the stored updates are read
// back, and give the same bits.
// Thread rule: that of the store, but for tern_merge_make().
#ifndef TERN_MERGE_H
#define TERN_MERGE_H

#include "merge/delta.h"
#include "merge/exact_mean.h"
#include "merge/update_bounds.h"
#include "store/store.h"
#include "strategies/strategy.h"
#include "wire/wire.h"

// --- The strategy of a round, between its row in the store and strategies/

// What the round merges by.
// TERN_ERR_UNKNOWN  the row names a strategy or a parameter that is not known, or one is missing
TERN_MUST_USE enum tern_result tern_rule_read(const struct tern_db_round *row,
                                              struct tern_strategy_rule *rule);

// Sets the row's strategy, strategy_parameters and server_learning_rate; parameters that the
// strategy does not use are left out. rule->learning_rate is the row's own, which is not touched.
void tern_rule_write(const struct tern_strategy_rule *rule, struct tern_db_round *row);

// --- Vectors of the model's size
//
// Vectors stay in memory while `memory` has room. Each of the others is in a mapped file without a name, whose pages the
// kernel writes out and reads back when it needs memory. Callers use both alike.

#define TERN_VECTORS_MAX 8 // that are in files at once

struct tern_vectors {
    uint32_t count;                 // values of each
    const char *folder;             // of the files; NULL: all are in memory
    uint64_t memory;                // bytes for those in memory
    uint64_t used;                  // of these
    float *files[TERN_VECTORS_MAX]; // where the others are mapped; NULL: a free place
};

// Zeros. In memory as well where a file cannot be made, as on a full disk, which the log says. NULL:
// there is no memory.
float *tern_vector_new(struct tern_vectors *vectors);
void tern_vector_free(struct tern_vectors *vectors, float *values); // NULL is allowed
// The values are not used for a while: what is in a file may leave memory.
void tern_vector_rest(const struct tern_vectors *vectors, float *values);

// --- The merge

// Memory for the sums of a weighted mean, and for strategies that need the values of all updates of
// some coordinates at once. With less than all need, the updates are decoded at the commit, and more
// than twice where not even one number of local steps has room; the bits stay the same.
#define TERN_MERGE_MEMORY (UINT64_C(256) << 20)

// An update of the open round whose values are left to its close.
struct tern_deferred {
    uint64_t client;
    uint32_t num_examples;
    uint32_t local_steps;
    double sum_square;                // of its values; -1 = they were not read since the start
    uint8_t sha256[TERN_SHA256_SIZE]; // of its stored body
    uint32_t at;                      // index in the merge's bounds
    bool is_in;                       // they are in the sums by now
};

struct tern_merge {
    struct tern_model model;
    uint64_t seed; // the federation's: of random codecs
    uint32_t version;
    uint32_t
        checkpoint; // version whose weights are in the store: loaded from there, or stored last
    uint32_t checkpoint_parts; // of the present version's checkpoint that were stored
    uint8_t replica_id[TERN_SHA256_SIZE];
    uint8_t model_sha256[TERN_SHA256_SIZE];
    float *global;
    float *replica;
    float *acc; // also the scratch of the encoder

    // What the strategy carries from round to round, model->count values each; NULL = not needed
    // so far.
    float *states[TERN_STRATEGY_STATES];
    const struct tern_strategy *state_of; // whose they are; NULL = nobody's

    // The averaged model: of the last version and those before it, model->count values; NULL = not
    // needed so far. averaged: see the column of a round's row; 0 = there is none.
    float *average;
    uint32_t averaged;

    struct tern_exact_mean arrived; // of the open round's updates
    bool arrives;                   // those are taken in as they arrive
    struct tern_deferred *deferred; // of those: whose values are not in yet; malloc'ed
    uint32_t deferred_count;
    uint32_t deferred_room;
    struct tern_update_bounds
        bounds; // of arrived updates, late ones included; after a merge, of the round's updates
    bool noted; // the bounds belong to a round that is not merged yet
    uint64_t memory; // bytes of sums, or for the values of all updates; 0 = TERN_MERGE_MEMORY
    struct tern_download_buffers buffers;
    struct tern_vectors vectors; // whose the weights, acc, the states and the average are
};

// Where vectors of the model's size are: `memory` bytes of them in memory, the others in files of `folder`.
struct tern_merge_room {
    const char *folder; // outlives the merge; NULL: all are in memory
    uint64_t memory;
};

// Builds the model of a federation and allocates. room: NULL = all is in memory.
// TERN_ERR_MODEL_MISMATCH  its spec does not give its model hash; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_merge_init(struct tern_merge *merge,
                                               const struct tern_db_federation *federation,
                                               const struct tern_merge_room *room);
void tern_merge_free(struct tern_merge *merge);

// Version 0 of a seeded federation: both weight vectors from the seed.
void tern_merge_seed(struct tern_merge *merge, uint64_t seed);

// Version 0 of any federation: from its seed, or when it is not seeded from the weights that are
// stored. TERN_ERR_NOT_FOUND, TERN_ERR_CORRUPT, TERN_ERR_IO  those cannot be read
TERN_MUST_USE enum tern_result tern_merge_first(struct tern_merge *merge, struct tern_db *db);

// The newest version, what its strategy carries on, and the averaged model: the checkpoint, and the
// rounds since, merged again from their stored updates. NOT_FOUND when no version is stored; CORRUPT
// when weights do not have the hash of their version's row, or a state or an update is missing.
TERN_MUST_USE enum tern_result tern_merge_load(struct tern_merge *merge, struct tern_db *db);

// Goes on with making the present version the checkpoint: stores more of the states, the averaged
// model and the weights, a few parts that have `bytes` together, or the rest. It is whole once
// merge->checkpoint is the version; until then nobody changes them. Those before stay
// (tern_db_checkpoint_drop_some()).
TERN_MUST_USE enum tern_result tern_merge_checkpoint(struct tern_merge *merge, struct tern_db *db,
                                                     uint64_t bytes);

// Whether the stored states and averaged model are, bit for bit, those that were made here. Overwrites
// acc.
// TERN_ERR_CORRUPT  they are not
TERN_MUST_USE enum tern_result tern_merge_check_states(struct tern_merge *merge,
                                                       struct tern_db *db);

// A round opens: from now on its updates are taken in as they arrive, unless the strategy wants to see them all at
// once, or takes late ones.
void tern_merge_open(struct tern_merge *merge, const struct tern_strategy_rule *rule);

// It goes on after a restart: the totals of its stored updates are counted, and their values are deferred. Errors of
// tern_merge_count()
TERN_MUST_USE enum tern_result tern_merge_resume(struct tern_merge *merge, struct tern_db *db,
                                                 const struct tern_db_round *round,
                                                 struct tern_strategy_totals *totals);

// An update of the open round was accepted, and counts with staleness 0. Where its sums find no room, all is left to
// the commit.
void tern_merge_arrive(struct tern_merge *merge, const struct tern_arrival *arrival);

// Likewise, of one that another node has in its part or will have (merge/part.h), or that is in the store since
// before a restart: its values are left to the close. container and reading may be empty; sum_square is not used.
void tern_merge_defer(struct tern_merge *merge, const struct tern_arrival *arrival);

// The round is merged, or what arrived is to be forgotten.
void tern_merge_stop(struct tern_merge *merge);

// Computes the totals of a round's stored updates from their claims, and replaces `bounds` by the values to bound. The
// service counts each update on arrival. Errors: those of tern_merge_round() that concern the row and updates.
TERN_MUST_USE enum tern_result tern_merge_count(struct tern_db *db,
                                                const struct tern_db_round *round,
                                                struct tern_strategy_totals *totals,
                                                struct tern_update_bounds *bounds);

// Merges the stored updates that count in `round`. The strategy, its parameters and learning rate
// and the download codec come from the round's row; a difference that is too large for float16 goes
// as float32. A strategy other than the last one starts its states anew. The averaged model takes in
// the new version as the row says. made: the blob is in merge->buffers.blob.
// TERN_ERR_UNKNOWN     the row names a strategy, parameter or codec that is not known
// TERN_ERR_STATE       the round has no update, or not as many as were counted
// TERN_ERR_NOT_FOUND   an update's body is no longer kept (tern_db_prune())
// TERN_ERR_NON_FINITE  the model would overflow, which strategies/bounds.h rules out for updates
//                      that were accepted
// TERN_ERR_CORRUPT     a stored update is damaged, or the row averages versions that are not there
// On error weights are unspecified: load or seed again.
TERN_MUST_USE enum tern_result tern_merge_round(struct tern_merge *merge, struct tern_db *db,
                                                const struct tern_db_round *round,
                                                struct tern_download_made *made,
                                                struct tern_strategy_report *report);

// Merges a round in two steps, from totals that count updates as claimed. The first takes long and may be done
// by another thread, with a tern_db of its own: until it has ended nobody else uses the weights, what
// goes with them, or the buffers; of the model, the seed, the version and its two hashes it only reads.
// What arrived is merged then, and forgotten.
struct tern_merge_next {
    struct tern_download_made made;
    struct tern_strategy_report report;
    struct tern_strategy_totals totals; // with bounded claims
    uint8_t model_sha256[TERN_SHA256_SIZE];
};
TERN_MUST_USE enum tern_result tern_merge_make(struct tern_merge *merge, struct tern_db *db,
                                               const struct tern_db_round *round,
                                               const struct tern_strategy_totals *totals,
                                               struct tern_merge_next *next);
// Then this is the version.
void tern_merge_adopt(struct tern_merge *merge, const struct tern_merge_next *next);

// SHA-256 of weights as little-endian float32.
void tern_merge_hash(const float *weights, uint32_t count, uint8_t sha256[TERN_SHA256_SIZE]);

#endif
