// How large the updates of a round are beside each other, as the weighted mean takes them, and by how
// much those are scaled down that are far larger than the others (strategy.norm_bound): one update
// then moves the model no further than so many times the middle one, whoever sent it. What comes of it
// does not depend on the order of the updates. Who calls: the merge. Thread rule: one thread at a time.
#ifndef TERN_UPDATE_NORMS_H
#define TERN_UPDATE_NORMS_H

#include "strategies/strategy.h"

struct tern_update_norm {
    uint64_t client;
    uint32_t round; // that it was made for
    uint32_t local_steps;
    double sum_square; // of its values
    // Filled in by tern_update_norms_bound():
    double norm;  // Euclidean, times the factor for its local steps
    double scale; // 1, or below: what it is multiplied by
};

// All zero: of no update.
struct tern_update_norms {
    struct tern_update_norm *list;
    uint32_t count;
    uint32_t room;
    double bound; // the largest norm that was not scaled down; 0: none was set
};

// Whether the rule bounds norms at all.
bool tern_update_norms_matter(const struct tern_strategy_rule *rule);

// TERN_ERR_NO_MEMORY  the list is as it was
TERN_MUST_USE enum tern_result tern_update_norms_add(struct tern_update_norms *norms,
                                                     const struct tern_update_norm *norm);

// Once all are there: the bound is norm_bound times the median norm, of an even number the lower of
// the middle two, and each scale is the bound over the norm where that is larger. Each update has one
// vote, so that fewer than half of them cannot raise the bound above the others. Two updates or fewer
// have no middle, and where it is 0 nothing is bounded. totals: of these updates.
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_update_norms_bound(struct tern_update_norms *norms,
                                                       const struct tern_strategy_totals *totals);

void tern_update_norms_clear(struct tern_update_norms *norms);

#endif
