// The weighted mean of a round's updates, taken in one by one in any order: the bits of the mean
// depend only on which updates there are. Who calls: the federation as updates are accepted, the
// merge over stored ones. Thread rule: one thread at a time.
//
// An update's weight is num_examples * factor(local_steps) * age(staleness) / the sum of all
// num_examples (strategies/strategy.h), of which only num_examples is known when it comes. So
// num_examples * value, a product in double rounded to float32, is summed exactly
// (strategies/exact.h), in one group for all updates that share the rest, and the rest is multiplied
// at the end, group after group in ascending order of their keys.
//
// Memory: 8 bytes for each coordinate, of each group and bin that is used. Values that are within a
// factor of 65,000 of each other need one bin or two. Readings of sparse updates take less as long as
// there are few, and no more where each is a group of its own: tern_exact_mean_hold() keeps these until
// sums would take less, or else until the mean is taken. Where updates can be visited in the order of their groups, one
// group at a time and 8 bytes for each coordinate are enough: tern_exact_mean_fold().
#ifndef TERN_EXACT_MEAN_H
#define TERN_EXACT_MEAN_H

#include "merge/reading.h"
#include "strategies/exact.h"
#include "strategies/strategy.h"
#include "util/sha256.h"
#include "wire/wire.h"

// What an update reports of itself. Its staleness is not set: the update does not have it.
static inline struct tern_contribution tern_contribution_of(const tern_Update *message)
{
    return (struct tern_contribution){.num_examples = message->num_examples,
                                      .local_steps = message->local_steps,
                                      .loss = message->loss};
}

// An accepted update, as the sums of its round take it.
struct tern_arrival {
    uint64_t client;
    uint32_t round; // that it was made for
    struct tern_contribution contribution;
    struct tern_span container;       // borrowed
    struct tern_reading *reading;     // of the container, or NULL; who takes it may share it
    double sum_square;                // of its values
    uint8_t sha256[TERN_SHA256_SIZE]; // of its body, as it is stored
};

// What the updates of a group share: those of equal factor and age.
struct tern_exact_key {
    uint32_t local_steps; // 0: the rule does not look at them
    uint32_t staleness;   // likewise
};

// An update that is yet to be added up.
struct tern_exact_held {
    struct tern_exact_held *next; // of its group
    uint64_t client;
    uint32_t round;
    double weight; // num_examples, or less where bounded
    struct tern_reading *reading;
    size_t at; // of the reading
};

struct tern_exact_group {
    struct tern_exact_key key;
    uint64_t *bins[TERN_EXACT_BINS];
    struct tern_exact_held *held;
    uint64_t held_bytes;
    uint32_t held_bins; // bit i: what is held would go into bin i, among others
    // Filled in where groups are added up:
    double factor;
    double dense_factor;
    bool only; // it is one update, which is held
};

struct tern_exact_mean {
    const struct tern_model *model;
    struct tern_strategy_rule rule;
    uint64_t memory; // bytes that sums may take
    uint64_t used;
    uint64_t held;  // of these: by readings
    uint32_t first; // coordinates it sums: first..end
    uint32_t end;
    uint32_t updates;
    struct tern_exact_group *groups;
    uint32_t group_count;
    double *sums; // of the groups that were folded, end - first; NULL: none was
    float *scratch;
};

struct tern_exact_key tern_exact_key_of(const struct tern_strategy_rule *rule,
                                        const struct tern_contribution *contribution);
// Below, equal to or above 0, in the order in which groups are added up: by local steps, then age.
int tern_exact_key_compare(const struct tern_exact_key *one, const struct tern_exact_key *other);

// Begins with no update, over the coordinates first..end; of another round as well. A mean that is
// all zero holds nothing.
void tern_exact_mean_begin(struct tern_exact_mean *mean, const struct tern_model *model,
                           const struct tern_strategy_rule *rule, uint64_t memory, uint32_t first,
                           uint32_t end);
// Gives back all memory; it holds nothing then.
void tern_exact_mean_clear(struct tern_exact_mean *mean);

// Takes one update in. reading: of this container, or NULL. info: what tern_container_inspect() tells
// of it, or NULL; of an update that comes without a reading only.
// TERN_ERR_NO_SPACE    its sums would be beyond the memory allowed, and of more than one coordinate
// TERN_ERR_NON_FINITE  num_examples * value overflows, which strategies/bounds.h rules out
// TERN_ERR_NO_MEMORY, errors of tern_container_each()
// On error the sums are of no use any more.
TERN_MUST_USE enum tern_result tern_exact_mean_add(struct tern_exact_mean *mean,
                                                   const struct tern_contribution *contribution,
                                                   const uint8_t *container, size_t len,
                                                   const struct tern_reading *reading,
                                                   struct tern_codec_info *info);

// Takes in an update of which all is in the reading, by sharing that; whose it is, is for
// tern_exact_mean_reweigh_held().
// TERN_ERR_NO_SPACE  something is not in the reading, or sums take less memory, to which what was held of
//                    its group was added: it was not taken in, and tern_exact_mean_add() is what is left
// TERN_ERR_NON_FINITE, TERN_ERR_NO_MEMORY  as above
TERN_MUST_USE enum tern_result tern_exact_mean_hold(struct tern_exact_mean *mean,
                                                    const struct tern_contribution *contribution,
                                                    uint64_t client, uint32_t round,
                                                    struct tern_reading *reading);

// Holds an update that arrived, or adds it. Errors of both but TERN_ERR_NO_SPACE of the former
TERN_MUST_USE enum tern_result tern_exact_mean_arrive(struct tern_exact_mean *mean,
                                                      const struct tern_arrival *arrival);

// Counts a held update with this weight in place of its num_examples. False: the update is not held.
bool tern_exact_mean_reweigh_held(struct tern_exact_mean *mean, uint64_t client, uint32_t round,
                                  double weight);

// Counts an added update, whose group was not folded, with this weight (at most its num_examples), exactly as if
// it had been added with the weight. Errors of tern_exact_mean_add()
TERN_MUST_USE enum tern_result tern_exact_mean_reweigh(struct tern_exact_mean *mean,
                                                       const struct tern_contribution *contribution,
                                                       const uint8_t *container, size_t len,
                                                       double weight);

// Takes in all that the part has, which is then as it was when it began: as if its updates had come to this
// mean, by whatever thread or process made the part (strategies/exact.h). Totals are joined by
// tern_strategy_count_part().
// TERN_ERR_STATE      it is of another model, rule or other coordinates, or groups of one were folded
// TERN_ERR_TOO_LARGE  both together have more than TERN_EXACT_TERMS_MAX updates
// Neither has changed then.
// TERN_ERR_NO_SPACE   what both have is beyond the memory allowed; TERN_ERR_NO_MEMORY
// Neither is of use any more then.
TERN_MUST_USE enum tern_result tern_exact_mean_join(struct tern_exact_mean *mean,
                                                    struct tern_exact_mean *part);

// All updates of the groups so far are in, and those to come have greater keys: adds these groups up,
// in 8 bytes for each coordinate, and gives their memory back. totals: of all updates.
// TERN_ERR_NO_SPACE   as above; TERN_ERR_NO_MEMORY
// On error the sums are of no use any more.
TERN_MUST_USE enum tern_result tern_exact_mean_fold(struct tern_exact_mean *mean,
                                                    const struct tern_strategy_totals *totals);

// --- Cells of the sums, for merge/part.h

#define TERN_EXACT_BLOCK 256 // coordinates that are shown together, at most

// Bit i: the group may have something in bin i.
uint32_t tern_exact_group_bins(const struct tern_exact_group *group);

// Sets mean->groups in their order.
void tern_exact_mean_sort(struct tern_exact_mean *mean);

// Whole numbers of one group and bin, for `count` coordinates in a row. cells: NULL = all are 0; borrowed
typedef enum tern_result tern_exact_show(void *ctx, const struct tern_exact_group *group,
                                         unsigned bin, const uint64_t *cells, uint32_t count);
// Shows all sums: the coordinates in the order of the model, some in a row; of these group after group in their order,
// and of each the bins that tern_exact_group_bins() names, ascending. None was folded. Stops early when show is not
// TERN_OK and returns what it returned. Leaves the mean as it is.
TERN_MUST_USE enum tern_result tern_exact_mean_show(struct tern_exact_mean *mean,
                                                    tern_exact_show *show, void *ctx);

// An empty group with cells for these bins.
// TERN_ERR_NO_SPACE  they would be beyond the memory allowed; TERN_ERR_NO_MEMORY
// On error the sums are of no use any more.
TERN_MUST_USE enum tern_result tern_exact_mean_make_group(struct tern_exact_mean *mean,
                                                          struct tern_exact_key key, uint32_t bins);

// As tern_exact_show, of cells that are to be set.
typedef enum tern_result tern_exact_fill(void *ctx, const struct tern_exact_group *group,
                                         unsigned bin, uint64_t *cells, uint32_t count);
// Lets all cells be set, in the order in which they are shown, of a mean whose groups were made in their order and
// that has nothing else. Who fills it sets mean->updates. Stops early as above.
TERN_MUST_USE enum tern_result tern_exact_mean_fill(struct tern_exact_mean *mean,
                                                    tern_exact_fill *fill, void *ctx);

// Sets acc[first..end): the mean of the updates that were taken in, which are those of the totals.
// Coordinates of dense tensors count by examples and age alone.
void tern_exact_mean_take(struct tern_exact_mean *mean, const struct tern_strategy_totals *totals,
                          float *acc);

#endif
