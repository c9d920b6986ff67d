// Computes the weighted mean of a round's stored updates: those that could not be summed on arrival, after a restart, and
// in a replay. Called by merge.c and gateways. Thread rule: that of the store.
#ifndef TERN_STORED_MEAN_H
#define TERN_STORED_MEAN_H

#include "merge/exact_mean.h"
#include "merge/update_bounds.h"
#include "store/store.h"
#include "wire/wire.h"

// Decodes a stored update, but not its staleness. The container is borrowed from the update.
// TERN_ERR_NOT_FOUND  its body is no longer kept; TERN_ERR_CORRUPT
TERN_MUST_USE enum tern_result tern_stored_read(const struct tern_db_update *update,
                                                struct tern_contribution *contribution,
                                                struct tern_span *container);

// Sets the bounded weights of updates that the mean already contains. Errors of
// tern_stored_read() and tern_exact_mean_reweigh()
TERN_MUST_USE enum tern_result tern_stored_reweigh(struct tern_exact_mean *mean, struct tern_db *db,
                                                   const struct tern_db_round *round,
                                                   const struct tern_update_bounds *bounds);

// Sets acc[0..model->count) to the mean of the updates that count in the round. If the sums of all groups fit into `memory`
// bytes, the updates are read once. Otherwise they are read in the order of their groups, with the sums of one group at a
// time: all coordinates at once if these and 8 bytes for each coordinate fit, else window after window. The bits are the
// same.
// totals: with bounded claims (tern_update_bounds_claims()). bounds: replaced by the bounds of these updates where the
// rule has any.
// TERN_ERR_STATE  the number of updates differs from the counted one; errors of tern_stored_read() and of
// tern_exact_mean_add() but TERN_ERR_NO_SPACE
TERN_MUST_USE enum tern_result tern_stored_mean(const struct tern_model *model, struct tern_db *db,
                                                const struct tern_db_round *round,
                                                const struct tern_strategy_totals *totals,
                                                uint64_t memory, struct tern_update_bounds *bounds,
                                                float *acc);

#endif
