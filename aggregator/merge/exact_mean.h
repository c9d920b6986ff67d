// The weighted mean of a round's updates, taken in one by one in any order: the bits of the mean
// depend only on which updates there are. Who calls: the federation as updates are accepted, the
// merge over stored ones. Thread rule: one thread at a time.
//
// An update's weight is num_examples * factor(local_steps) * age(staleness) / the sum of all
// num_examples (strategies/strategy.h), of which only num_examples is known when it comes. So
// num_examples * value, rounded to float32 once, is summed exactly (strategies/exact.h), in one
// group for all updates that share the rest, and the rest is multiplied at the end.
//
// Memory: 8 bytes for each coordinate, of each group and bin that is used. Values that are within a
// factor of 65,000 of each other need one bin or two.
#ifndef TERN_EXACT_MEAN_H
#define TERN_EXACT_MEAN_H

#include "merge/reading.h"
#include "strategies/exact.h"
#include "strategies/strategy.h"

// Updates of equal factor and age.
struct tern_exact_group {
    uint32_t local_steps; // 0: the rule does not look at them
    uint32_t staleness;   // likewise
    uint64_t *bins[TERN_EXACT_BINS];
};

struct tern_exact_mean {
    const struct tern_model *model;
    struct tern_strategy_rule rule;
    uint64_t memory; // bytes that sums may take
    uint64_t used;
    uint32_t first; // coordinates it sums: first..end
    uint32_t end;
    uint32_t updates;
    struct tern_exact_group *groups;
    uint32_t group_count;
    float *scratch;
};

// Begins with no update, over the coordinates first..end; of another round as well. A mean that is
// all zero holds nothing.
void tern_exact_mean_begin(struct tern_exact_mean *mean, const struct tern_model *model,
                           const struct tern_strategy_rule *rule, uint64_t memory, uint32_t first,
                           uint32_t end);
// Gives back all memory; it holds nothing then.
void tern_exact_mean_clear(struct tern_exact_mean *mean);

// Takes one update in. reading: of this container, or NULL.
// TERN_ERR_NO_SPACE    its sums would be beyond the memory allowed, and of more than one coordinate
// TERN_ERR_NON_FINITE  num_examples * value overflows, which strategies/bounds.h rules out
// TERN_ERR_NO_MEMORY, errors of tern_container_each()
// On error the sums are of no use any more.
TERN_MUST_USE enum tern_result tern_exact_mean_add(struct tern_exact_mean *mean,
                                                   const struct tern_contribution *contribution,
                                                   const uint8_t *container, size_t len,
                                                   const struct tern_reading *reading);

// Sets acc[first..end): the mean of the updates that were taken in, which are those of the totals.
// Coordinates of dense tensors count by examples and age alone.
void tern_exact_mean_take(struct tern_exact_mean *mean, const struct tern_strategy_totals *totals,
                          float *acc);

#endif
