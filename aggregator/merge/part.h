// A part of a round's sum: what one node adds up of the updates that it checked, so that the aggregator that closes
// the round need not read and decode these again. Sums are exact (merge/exact_mean.h), so the model has the same bits
// with parts or without. A part is a shortcut, no truth: stored updates are, from which replays make every version.
// Who calls: a node that takes requests beside the aggregator that leads. Thread rule: one thread at a time, with a
// tern_db of its own.
//
// How it goes: where tern_part_suits() the open round's rule, tern_part_begin() once the round is open;
// tern_part_add() for each update once it is stored and accepted, not before, as a part that covers another one is
// of no use; when the leader asks for parts of that round, tern_part_deliver() (merge/part_delivery.h). The leader
// counts updates that a node is to cover by tern_merge_defer(), and takes what was delivered by merge/gather.h.
#ifndef TERN_PART_H
#define TERN_PART_H

#include "merge/arrival.h"
#include "merge/exact_mean.h"
#include "store/store.h"

// What all parts of a round have in common with the round itself. The weights that clients train from do not go
// into sums; they tell a federation from its copy that went on by itself.
struct tern_part_round {
    uint32_t round;
    uint32_t base_version;
    uint8_t base[TERN_SHA256_SIZE]; // replica of that version
    struct tern_strategy_rule rule;
};

// Of an open round, from its row and that of its version.
// TERN_ERR_UNKNOWN  the row names a strategy or a parameter that is not known; TERN_ERR_NOT_FOUND, the store's
TERN_MUST_USE enum tern_result tern_part_round_of(struct tern_db *db,
                                                  const struct tern_db_round *row,
                                                  struct tern_part_round *round);

// Whether rounds of the rule take parts: those that are merged by the weighted mean of their own updates. Factors
// that only the close determines are compatible with parts: a sum per number of local steps is scaled at the close,
// and updates beyond a bound on norms or claims are taken out of the sums again. Medians, trimmed means and Krum
// see the values of all updates, and a buffered round (fedbuff) takes updates whose age the leader alone tells.
bool tern_part_suits(const struct tern_strategy_rule *rule);

// An update that a part covers.
struct tern_part_update {
    uint64_t client;
    uint32_t num_examples;
    uint32_t local_steps;
    double sum_square;                // of its values
    uint8_t sha256[TERN_SHA256_SIZE]; // of its stored body
};

// All zero: a part of no round, which takes nothing.
struct tern_part {
    struct tern_part_round round;
    struct tern_exact_mean mean;
    struct tern_part_update *updates; // malloc'ed, as they came
    uint32_t count;
    uint32_t room;
    uint64_t replaced; // bytes of the bodies of these
};

// Begins with no update; whatever the part was is forgotten.
// model: outlives it. memory: bytes that its sums may take, strategy.memory in a service; 8 for each value of the
// model are the least that is of use.
// TERN_ERR_STATE  the rule does not suit; the part takes nothing then
TERN_MUST_USE enum tern_result tern_part_begin(struct tern_part *part,
                                               const struct tern_model *model,
                                               const struct tern_part_round *round,
                                               uint64_t memory);
// Gives back all memory; it is a part of no round then.
void tern_part_clear(struct tern_part *part);

// Adds an accepted update, of staleness 0, by the same arithmetic as the leader would. body_len: bytes of its stored
// body. The reading may be shared.
// TERN_ERR_STATE        it is of another round, or the part is one of no round
// TERN_ERR_NO_SPACE     its sums would be beyond the memory; TERN_ERR_NO_MEMORY; errors of tern_exact_mean_add()
// After other errors than TERN_ERR_STATE the part is cleared: the leader reads what it covered from the store.
TERN_MUST_USE enum tern_result tern_part_add(struct tern_part *part,
                                             const struct tern_arrival *arrival, size_t body_len);

#endif
