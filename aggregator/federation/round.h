// Rounds from opening to commit: inviting and replacing members, extending, merging on a thread of its own, checkpoints
// and pruning. tern_federation_advance() (federation.h) drives a round; federation.c and gateway.c call the functions
// below, on the thread that owns the store, inside its transaction unless a comment says otherwise.
#ifndef TERN_FEDERATION_ROUND_H
#define TERN_FEDERATION_ROUND_H

#include "federation/state.h"

// Prepares closing rounds: opens a second connection to the store for the thread that merges.
TERN_MUST_USE enum tern_result tern_closing_new(struct tern_federation *federation, char why[256]);
void tern_closing_free(struct tern_federation *federation); // also after a failed init
// Waits for a running merge and drops its result.
void tern_closing_cancel(struct tern_federation *federation);
// Starts the merge of a round that the transaction decided to close. Called after the commit.
void tern_closing_start_merge(struct tern_federation *federation);

// Loads all rounds, and the members and updates of the last one if it is open.
TERN_MUST_USE enum tern_result tern_rounds_load(struct tern_federation *federation, uint64_t now);
// Stores the row and the members of the round that the machine has just opened.
TERN_MUST_USE enum tern_result tern_rounds_store_opened(struct tern_federation *federation,
                                                        uint64_t now);
// Whether config.upstream_client lets the next round open.
bool tern_federation_allows_next_round(const struct tern_federation *federation);

#endif
