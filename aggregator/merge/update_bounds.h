// How much each update of a round counts for beside the others. Two bounds hold it, both multiples of the round's median:
// one on the examples that it claims (strategy.examples_bound), one on its norm (strategy.norm_bound). One client then
// moves the model no further than both allow, whatever it sends. The result does not depend on the order of the updates.
// Who calls: the merge, and a gateway for the round of its devices. Thread rule: one thread at a time.
#ifndef TERN_UPDATE_BOUNDS_H
#define TERN_UPDATE_BOUNDS_H

#include "strategies/strategy.h"

struct tern_update_bound {
    uint64_t client;
    uint32_t round; // that it was made for
    struct tern_contribution contribution;
    double sum_square; // of its values; -1: they were not read yet
    // Filled in by tern_update_bounds_set():
    double norm;   // Euclidean, times the factor for its local steps; 0 where the rule bounds none
    double scale;  // 1, or below: what norm_bound multiplies it by
    double weight; // that it counts with: its examples, bounded, times the scale
};

// All zero: of no update.
struct tern_update_bounds {
    struct tern_update_bound *list;
    uint32_t count;
    uint32_t room;
    double norm_max; // the largest norm that was not scaled down; 0: none was set
};

// Whether the rule bounds anything; norms.
bool tern_update_bounds_matter(const struct tern_strategy_rule *rule);
bool tern_update_bounds_need_norms(const struct tern_strategy_rule *rule);

// TERN_ERR_NO_MEMORY  the list is as it was
TERN_MUST_USE enum tern_result tern_update_bounds_add(struct tern_update_bounds *bounds,
                                                      const struct tern_update_bound *bound);

// Once all are there: no update counts for more examples than examples_bound times the median claim, of an even number
// the lower of the middle two. Each update has one vote, so that fewer than half of them cannot raise the bound above
// the others' claims. Two updates or fewer have no middle. Sets totals->examples_max, and counts the totals anew, which
// are of these updates and were counted as claimed.
// TERN_ERR_NO_MEMORY  the totals are as they were
TERN_MUST_USE enum tern_result tern_update_bounds_claims(struct tern_update_bounds *bounds,
                                                         struct tern_strategy_totals *totals);

// After that, and once all norms are there where the rule needs them: sets what each update counts for. The bound on norms
// is norm_bound times the median norm, found in the same way; where that is 0 nothing is bounded.
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_update_bounds_set(struct tern_update_bounds *bounds,
                                                      const struct tern_strategy_totals *totals);

// Whether it counts for less than it claims.
bool tern_update_is_bounded(const struct tern_update_bound *bound);

void tern_update_bounds_clear(struct tern_update_bounds *bounds);

#endif
