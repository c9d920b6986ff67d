// Limits the weight of each update in a round. Two bounds apply, both multiples of the round's median: one on the
// claimed examples (examples_bound of round.strategy), one on the norm (norm_bound). One client moves the model at most
// as far as both allow, whatever it sends. The result does not depend on the order of the updates. Called by the merge,
// and by a gateway for the round of its devices. Thread rule: one thread at a time.
#ifndef TERN_UPDATE_BOUNDS_H
#define TERN_UPDATE_BOUNDS_H

#include "strategies/strategy.h"

struct tern_update_bound {
    uint64_t client;
    uint32_t round; // the round of the update's task
    struct tern_contribution contribution;
    double sum_square; // sum of the squares of its values; -1: not read yet
    bool deferred; // its values are read from the store and added to the sums when the round closes
    // Filled in by tern_update_bounds_set():
    double norm;   // Euclidean, times the factor for local steps; 0 where the rule has no bound
    double scale;  // factor of norm_bound; at most 1
    double weight; // bounded examples times the scale
};

// The updates of a round and their bounds. All members are zero before the first update.
struct tern_update_bounds {
    struct tern_update_bound *list;
    uint32_t count;
    double norm_max; // the largest norm that was not scaled down; 0: not set
};

// Whether the rule has any bound, or one that needs norms.
bool tern_update_bounds_matter(const struct tern_strategy_rule *rule);
bool tern_update_bounds_need_norms(const struct tern_strategy_rule *rule);

// Adds an update. sum_square: of its values; -1: not read yet.
// TERN_ERR_NO_MEMORY  the list is as it was
TERN_MUST_USE enum tern_result tern_update_bounds_add(struct tern_update_bounds *bounds,
                                                      uint64_t client, uint32_t round,
                                                      const struct tern_contribution *contribution,
                                                      double sum_square);

// Call after all updates are added. Limits the examples of each update to examples_bound times the median claim (lower
// median). Each update has one vote, so fewer than half cannot raise the bound above the others' claims. Two updates or
// fewer have no median. Sets totals->examples_max and recounts the totals, which must be of these updates, counted as
// claimed.
// TERN_ERR_NO_MEMORY  the totals are as they were
TERN_MUST_USE enum tern_result tern_update_bounds_claims(struct tern_update_bounds *bounds,
                                                         struct tern_strategy_totals *totals);

// Sets the weight of each update. Call after tern_update_bounds_claims(), with all norms where the rule needs them. The
// bound on norms is norm_bound times the median norm (lower median); a median of 0 bounds nothing.
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_update_bounds_set(struct tern_update_bounds *bounds,
                                                      const struct tern_strategy_totals *totals);

// Whether the update's weight is less than the number of examples that it claims.
bool tern_update_is_bounded(const struct tern_update_bound *bound);

void tern_update_bounds_clear(struct tern_update_bounds *bounds);

#endif
