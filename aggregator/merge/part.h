// Parts of a round's sum. A node sums the updates that it has checked, so that the aggregator that closes the round need
// not read and decode them again. Sums are exact (merge/exact_mean.h): the model has the same bits with parts or
// without. A part is a shortcut; replays make every version from the stored updates.
//
// Only rounds of a plain mean (tern_strategy_is_plain_mean()) have parts. The close scales a sum for each number of local
// steps, and takes updates beyond a bound on norms or claims out of the sums again. Medians, trimmed means and Krum need the
// values of all updates. A buffered round (fedbuff) takes updates whose staleness only the leader has.
//
// A follower calls tern_part_begin() once such a round is open, tern_part_add() for each update after it was stored and
// accepted, and tern_part_deliver() when the leader asks for parts of the round. The leader counts the updates of other
// nodes by tern_merge_defer() and takes the delivered parts by tern_gather_parts().
// Thread rule: one thread at a time, with a tern_db of its own.
#ifndef TERN_PART_H
#define TERN_PART_H

#include "merge/merge.h"

// What all parts of a round share with the round. Sums do not depend on the base weights; their id distinguishes a
// federation from a copy of it that continued by itself.
struct tern_part_round {
    uint32_t round;
    uint32_t base_version;
    uint8_t base[TERN_SHA256_SIZE]; // replica of that version
    struct tern_strategy_rule rule;
};

// Describes an open round from its row and the row of its version.
// TERN_ERR_UNKNOWN  the row names a strategy or a parameter that is not known; TERN_ERR_NOT_FOUND, the store's
TERN_MUST_USE enum tern_result tern_part_round_of(struct tern_db *db,
                                                  const struct tern_db_round *row,
                                                  struct tern_part_round *round);

// An update that a part covers.
struct tern_part_update {
    uint64_t client;
    uint32_t num_examples;
    uint32_t local_steps;
    double sum_square;                // sum of the squares of its values
    uint8_t sha256[TERN_SHA256_SIZE]; // of its stored body
};

// All zero: a part of no round, which takes no update.
struct tern_part {
    struct tern_part_round round;
    struct tern_exact_mean mean;
    struct tern_part_update *updates; // malloc'ed, in the order of their arrival
    uint32_t count;
    uint64_t replaced; // bytes of the bodies of these updates
};

// Begins without updates and drops what the part had.
// model: outlives it. memory: bytes that its sums may take, the strategy's memory in a service; 8 for each value of the
// model are the least that is of use.
// TERN_ERR_STATE  the rule takes no plain mean; the part takes nothing then
TERN_MUST_USE enum tern_result tern_part_begin(struct tern_part *part,
                                               const struct tern_model *model,
                                               const struct tern_part_round *round,
                                               uint64_t memory);
// Frees all memory; the part is a part of no round then.
void tern_part_clear(struct tern_part *part);

// Adds an accepted update, of staleness 0, by the same arithmetic as the leader would. body_len: bytes of its stored
// body. The reading may be shared.
// TERN_ERR_STATE        it is of another round, or the part is one of no round
// TERN_ERR_NO_SPACE     its sums would be beyond the memory; TERN_ERR_NO_MEMORY; errors of tern_exact_mean_add()
// After other errors than TERN_ERR_STATE the part is cleared: the leader reads what it covered from the store.
TERN_MUST_USE enum tern_result tern_part_add(struct tern_part *part,
                                             const struct tern_arrival *arrival, size_t body_len);

// --- A part as bytes
//
// Little-endian bytes, in which a part passes through the store from a node to the leader. Both are of one release, as
// are all aggregators of one database. The reader trusts none of the bytes.
//
//   8 bytes     "ternpart"
//   u32         version of this form, 1
//   u32 u32     round, base version
//   32 32 bytes hash of the model, replica of the base version
//   24 bytes    strategy, with zeros behind the name
//   f32 f32     the server's learning rate, the clients'
//   u32 f32 ... number of parameters, each parameter
//   u32 u32     numbers of updates and of groups
//   updates     u64 client, u32 num_examples, u32 local_steps, f64 sum_square, 32 bytes SHA-256; ascending by client
//   groups      u32 local_steps (0: the rule does not use them), u32 bins (bit i: bin i); ascending
//   cells       in the order of tern_exact_mean_show(): a byte w, 0 to 8, then of each coordinate 2 x, or -2 x - 1 of a
//               negative x, in w bytes
//   32 bytes    SHA-256 of everything before

// Why a part is not used. X(symbol, text in the log)
#define TERN_PART_FAULTS(X)                                                                        \
    X(NONE, "none")                                                                                \
    X(CUT, "it ends too early")                                                                    \
    X(LONG, "bytes follow its end")                                                                \
    X(FORM, "it is not a part, or another release made it")                                        \
    X(ROUND, "it belongs to another round")                                                        \
    X(MODEL, "it belongs to another model")                                                        \
    X(BASE, "it belongs to another base version")                                                  \
    X(STRATEGY, "it belongs to another strategy, or to other parameters")                          \
    X(UPDATES, "its list of updates is damaged, or longer than the round's")                       \
    X(GROUPS, "its groups do not match the local steps of its updates")                            \
    X(SUMS, "its sums are larger than its updates can make them")                                  \
    X(HASH, "its hash does not match its bytes")                                                   \
    X(OTHER_UPDATE, "it covers an update that differs from the accepted one")                      \
    X(TWICE, "it covers an update that is in the sums already")                                    \
    X(MEMORY, "its sums exceed the strategy's memory")

#define TERN_PART_FAULT_ID(symbol, text) TERN_PART_##symbol,
enum tern_part_fault { TERN_PART_FAULTS(TERN_PART_FAULT_ID) };

// Passes the bytes to take() in a few pieces and returns its result. Sorts part->updates by client.
// TERN_ERR_CONFLICT  an update was added twice
TERN_MUST_USE enum tern_result
tern_part_write(struct tern_part *part,
                enum tern_result (*take)(void *ctx, const uint8_t *data, size_t len), void *ctx);

// Supplies bytes: next() points *data at the next `len` bytes, borrowed until its next call. 0: no more
struct tern_part_source {
    void *ctx;
    enum tern_result (*next)(void *ctx, const uint8_t **data, size_t *len);
};

// Makes a part of untrusted bytes. round: the round it must be for. memory: bytes for its sums. most: updates that it
// may cover. *fault: why the part is refused, which clears it. The caller compares its updates with the accepted ones.
// A fault of the part is TERN_OK. TERN_ERR_NO_MEMORY, errors of source->next
TERN_MUST_USE enum tern_result tern_part_read(struct tern_part *part,
                                              const struct tern_model *model,
                                              const struct tern_part_round *round, uint64_t memory,
                                              uint32_t most, const struct tern_part_source *source,
                                              enum tern_part_fault *fault);

// --- Delivery to the store

// Stores the part for its round, as tern_part_store() does, where that saves bytes. *delivered: false where nothing was
// stored, because the part covers no update or has more bytes than the bodies that it replaces (docs/DESIGN.md, "Parts
// of a round"). Errors of tern_part_store()
TERN_MUST_USE enum tern_result tern_part_deliver(struct tern_part *part, struct tern_db *db,
                                                 const char *node, bool *delivered);

// Stores the part in pieces of TERN_DB_PIECE_BYTES, each in a transaction of its own, so that other writers wait for one
// piece only. The last piece makes it visible, in place of the node's earlier part of the round. The part stays
// unchanged and can be delivered again. node: fewer than TERN_DB_NODE_MAX bytes.
// TERN_ERR_STATE     it covers nothing
// TERN_ERR_CONFLICT  the round is not open any more, or an update was added twice
// TERN_ERR_NO_MEMORY, the store's
TERN_MUST_USE enum tern_result tern_part_store(struct tern_part *part, struct tern_db *db,
                                               const char *node);

// --- The close of a round
//
// Takes the parts that nodes delivered and adds the updates that no part covers from the store. Each part is checked
// against the round and its accepted updates before it is used. The log names a part that fails, and its updates are
// read from the store. Any other failure, such as of memory, leaves the sums to tern_merge_make(), which reads the
// stored updates. Called by the federation, on the thread that merges, with that thread's tern_db.

#define TERN_GATHER_NODES 64 // at most so many parts of a round

// One close.
struct tern_gather {
    struct tern_merge *merge;
    struct tern_db *db;
    struct tern_part_round round;
    char seen[TERN_GATHER_NODES][TERN_DB_NODE_MAX]; // nodes whose part was read
    uint32_t seen_count;
};

// row: the round that the merge has open, over its present version.
void tern_gather_begin(struct tern_gather *gather, struct tern_merge *merge, struct tern_db *db,
                       const struct tern_db_round *row);
// Deferred updates (tern_merge_defer()) that are not in the sums yet. Also 0 once all is left to tern_merge_make().
uint32_t tern_gather_missing(const struct tern_gather *gather);
// Takes the parts delivered since the last call, one of each node.
void tern_gather_parts(struct tern_gather *gather);
// Adds the missing updates from the store.
void tern_gather_rest(struct tern_gather *gather);

#endif
