// Merges the updates of a round that a test holds in memory, as the commit of a stored round does.
#ifndef TERN_TEST_MERGED_H
#define TERN_TEST_MERGED_H

#include "merge/exact_mean.h"
#include <stddef.h>

// One update: what it says, and its container.
struct held_update {
    struct tern_contribution contribution;
    const uint8_t *container;
    size_t len;
};

// Fills memory->acc with what the strategy makes of the counted updates, ready to be merged.
TERN_MUST_USE enum tern_result take_updates(struct tern_strategy_sums *sums,
                                            const struct tern_model *model,
                                            const struct tern_strategy_totals *totals,
                                            const struct tern_strategy_memory *memory,
                                            const struct held_update *updates, size_t count);

#endif
