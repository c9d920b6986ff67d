// A part of a round's sum as bytes, little-endian, for the way through the store from the node that made it to the
// aggregator that closes the round. Both are of one release, as all who serve one database are. Who calls: part.c
// writes, gather.c reads, and trusts nothing of it. Thread rule: one thread at a time.
//
//   8 bytes     "ternpart"
//   u32         version of this form, 1
//   u32 u32     round, base version
//   32 32 bytes hash of the model, replica of the base version
//   24 bytes    strategy, with zeros behind the name
//   f32 f32     the server's learning rate, the clients'
//   u32 f32 ... how many parameters, each
//   u32 u32     how many updates, groups
//   updates     u64 client, u32 num_examples, u32 local_steps, f64 sum_square, 32 bytes SHA-256; ascending by client
//   groups      u32 local_steps (0: the rule does not look at them), u32 bins (bit i: bin i); ascending
//   cells       in the order of tern_exact_mean_show(): a byte w, 0 to 8, then of each coordinate 2 x, or -2 x - 1 of a
//               negative x, in w bytes
//   32 bytes    SHA-256 of all before
#ifndef TERN_PART_FORM_H
#define TERN_PART_FORM_H

#include "merge/part.h"

// Why a part is not used. X(symbol, what the log says)
#define TERN_PART_FAULTS(X)                                                                        \
    X(NONE, "none")                                                                                \
    X(CUT, "it ends too early")                                                                    \
    X(LONG, "something follows its end")                                                           \
    X(FORM, "it is no part, or of another release")                                                \
    X(ROUND, "it is of another round")                                                             \
    X(MODEL, "it is of another model")                                                             \
    X(BASE, "it is of another base version")                                                       \
    X(STRATEGY, "it is of another strategy, or of other parameters")                               \
    X(UPDATES, "its list of updates is damaged, or longer than the round's")                       \
    X(GROUPS, "its sums are not of the local steps of its updates")                                \
    X(SUMS, "its sums are larger than its updates can make them")                                  \
    X(HASH, "its bytes do not have its hash")                                                      \
    X(OTHER_UPDATE, "it covers an update that was not accepted as it has it")                      \
    X(TWICE, "it covers an update that is in the sums already")                                    \
    X(MEMORY, "its sums find no room in strategy.memory")

#define TERN_PART_FAULT_ID(symbol, text) TERN_PART_##symbol,
enum tern_part_fault { TERN_PART_FAULTS(TERN_PART_FAULT_ID) };

// Static string.
const char *tern_part_fault_text(enum tern_part_fault fault);

// Shows the bytes in a few pieces; returns what take returned. Sorts part->updates by client.
// TERN_ERR_CONFLICT  an update was added twice
TERN_MUST_USE enum tern_result
tern_part_write(struct tern_part *part,
                enum tern_result (*take)(void *ctx, const uint8_t *data, size_t len), void *ctx);

// Where bytes come from: points *data at the next `len` of them, borrowed until the next call; 0: there are no more.
struct tern_part_source {
    void *ctx;
    enum tern_result (*next)(void *ctx, const uint8_t **data, size_t *len);
};

// Makes a part of untrusted bytes. round: that it must be of. memory: bytes for its sums; most: updates that it may
// cover. *fault: why there is none, and the part is cleared; its updates are not compared with any others.
// Only what is no fault of the part is an error: TERN_ERR_NO_MEMORY, errors of source->next
TERN_MUST_USE enum tern_result tern_part_read(struct tern_part *part,
                                              const struct tern_model *model,
                                              const struct tern_part_round *round, uint64_t memory,
                                              uint32_t most, const struct tern_part_source *source,
                                              enum tern_part_fault *fault);

#endif
