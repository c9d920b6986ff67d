// Sums the weighted mean of a round's updates, one by one in any order: its bits depend only on the set of updates. Called
// by the federation for accepted updates, and by the merge for stored ones. One thread at a time.
//
// An update's weight is num_examples * factor(local_steps) * age(staleness) / the sum of all num_examples
// (strategies/strategy.h); on arrival only num_examples is final. So num_examples * value, a product in double rounded to
// float32, is summed exactly (strategies/exact.h) in one group for all updates with equal local_steps and staleness. At the
// end each group is multiplied by the rest of the weight, in ascending order of the groups' keys.
//
// Memory: 8 bytes per coordinate and group while all values go into two neighbouring bins, because values within a factor
// of 65,000 of each other do; these two bins share their cells. A third bin, or the 256th update, gives each bin cells of
// its own: 8 bytes per coordinate, group and bin. A few sparse updates take less as readings: tern_exact_mean_hold() keeps
// these until sums would take less, or until the mean is taken. If the caller visits updates in the order of their groups,
// one group at a time suffices: tern_exact_mean_fold().
#ifndef TERN_EXACT_MEAN_H
#define TERN_EXACT_MEAN_H

#include "merge/reading.h"
#include "strategies/exact.h"
#include "strategies/strategy.h"
#include "util/sha256.h"
#include "wire/wire.h"

// Returns what an update claims about itself. Does not set the staleness, which an update does not contain.
static inline struct tern_contribution tern_contribution_of(const tern_Update *message)
{
    return (struct tern_contribution){.num_examples = message->num_examples,
                                      .local_steps = message->local_steps,
                                      .loss = message->loss};
}

// An accepted update, for the sums of its round.
struct tern_arrival {
    uint64_t client;
    uint32_t round; // round of the task for which the client trained
    struct tern_contribution contribution;
    struct tern_span container;   // borrowed
    struct tern_reading *reading; // of the container, or NULL; the receiver may share it
    double sum_square;            // sum of the squares of its values
};

// The key of a group: its updates have equal factor and age.
struct tern_exact_key {
    uint32_t local_steps; // 0 if the rule ignores them
    uint32_t staleness;   // 0 if the rule ignores it
};

// An update that is kept as a reading, and whose values are not in the sums yet.
struct tern_exact_held {
    struct tern_exact_held *next; // of its group
    uint64_t client;
    uint32_t round;
    double weight; // num_examples, or less if bounded
    struct tern_reading *reading;
    size_t at; // index into the reading
};

// Most updates of a group whose two bins share cells: a number of the upper bin adds less than 2^39 << 16 to a cell of 63
// bits.
#define TERN_EXACT_SHARING_MAX 255u

struct tern_exact_group {
    struct tern_exact_key key;
    uint32_t updates;   // that were added
    uint32_t used_bins; // bit i: a value was added to bin i
    bool separate;      // each used bin has its own cells
    uint64_t *bins
        [TERN_EXACT_BINS]; // cells; until `separate` only the lowest used bin has cells, for both bins
    struct tern_exact_held *held;
    uint64_t held_bytes;
    uint32_t held_bins; // bit i: a value of a held update belongs to bin i
    // Set when groups are added up:
    double factor;
    double dense_factor;
    bool only; // the group consists of one held update
};

struct tern_exact_mean {
    const struct tern_model *model;
    struct tern_strategy_rule rule;
    uint64_t memory; // bytes that sums may take
    uint64_t used;
    uint32_t first; // the mean is of the coordinates first..end
    uint32_t end;
    uint32_t updates;
    struct tern_exact_group *groups;
    uint32_t group_count;
    double *sums; // [end - first] of folded groups; NULL: none
    float *scratch;
    float *lent_scratch; // scratch of model->count values that belongs to the caller; NULL: none
};

// Returns the bytes of sums whose updates are of one group and share cells.
static inline uint64_t tern_exact_mean_bytes(uint32_t count)
{
    return (uint64_t)count * sizeof(uint64_t);
}

struct tern_exact_key tern_exact_key_of(const struct tern_strategy_rule *rule,
                                        const struct tern_contribution *contribution);
// Compares two keys like memcmp(), in the order in which groups are added up: by local steps, then staleness.
int tern_exact_key_compare(const struct tern_exact_key *one, const struct tern_exact_key *other);

// Begins a mean without updates, over the coordinates first..end. *mean: all zero, or used for an earlier round.
void tern_exact_mean_begin(struct tern_exact_mean *mean, const struct tern_model *model,
                           const struct tern_strategy_rule *rule, uint64_t memory, uint32_t first,
                           uint32_t end);
// Frees all memory; *mean is then all zero.
void tern_exact_mean_clear(struct tern_exact_mean *mean);

// Adds one update. reading: of this container, or NULL. info: the result of tern_container_inspect(), or NULL; only without a
// reading.
// TERN_ERR_NO_SPACE    its sums exceed the allowed memory, and have more than one coordinate
// TERN_ERR_NON_FINITE  num_examples * value overflows; impossible with accepted updates (strategies/bounds.h)
// TERN_ERR_NO_MEMORY, errors of tern_container_each()
// After an error the sums are useless.
TERN_MUST_USE enum tern_result tern_exact_mean_add(struct tern_exact_mean *mean,
                                                   const struct tern_contribution *contribution,
                                                   const uint8_t *container, size_t len,
                                                   const struct tern_reading *reading,
                                                   struct tern_codec_info *info);

// Holds an update by sharing its reading, which must have all its values. client, round: for tern_exact_mean_reweigh_held().
// TERN_ERR_NO_SPACE  not held; call tern_exact_mean_add(): the reading lacks values, or sums take less memory (the group's
//                    held updates were then added to them)
// TERN_ERR_NON_FINITE, TERN_ERR_NO_MEMORY  as above
TERN_MUST_USE enum tern_result tern_exact_mean_hold(struct tern_exact_mean *mean,
                                                    const struct tern_contribution *contribution,
                                                    uint64_t client, uint32_t round,
                                                    struct tern_reading *reading);

// Holds an arrived update, or adds it. Errors of both, except TERN_ERR_NO_SPACE of tern_exact_mean_hold()
TERN_MUST_USE enum tern_result tern_exact_mean_arrive(struct tern_exact_mean *mean,
                                                      const struct tern_arrival *arrival);

// Sets a held update's weight, in place of its num_examples. Returns false if the update is not held.
bool tern_exact_mean_reweigh_held(struct tern_exact_mean *mean, uint64_t client, uint32_t round,
                                  double weight);

// Changes the weight of an added update to at most its num_examples, with the same bits as if it had been added so. Its group
// must not be folded. Errors of tern_exact_mean_add()
TERN_MUST_USE enum tern_result tern_exact_mean_reweigh(struct tern_exact_mean *mean,
                                                       const struct tern_contribution *contribution,
                                                       const uint8_t *container, size_t len,
                                                       double weight);

// Adds up the groups so far, into 8 bytes for each coordinate, and frees their memory. All updates of these groups must have
// been added, and later updates must have greater keys. totals: of all updates of the round
// TERN_ERR_NO_SPACE   as above; TERN_ERR_NO_MEMORY
// On error the sums are useless.
TERN_MUST_USE enum tern_result tern_exact_mean_fold(struct tern_exact_mean *mean,
                                                    const struct tern_strategy_totals *totals);

// Sets acc[first..end) to the mean of the added updates, whose totals are `totals`. Coordinates of dense tensors are
// weighted by examples and age alone.
void tern_exact_mean_take(struct tern_exact_mean *mean, const struct tern_strategy_totals *totals,
                          float *acc);

#endif
