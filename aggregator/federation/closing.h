// Closes rounds: merges the updates on a thread, stores the next version, its checkpoint and the round's figures, and
// prunes updates that replays no longer need. federation.c and round.c call these functions on the thread that owns the
// store, inside its transaction unless a comment says otherwise.
#ifndef TERN_FEDERATION_CLOSING_H
#define TERN_FEDERATION_CLOSING_H

#include "federation/state.h"

// Opens a second connection to the store for the thread that merges. why: the reason for an error.
TERN_MUST_USE enum tern_result tern_closing_new(struct tern_federation *federation, char why[256]);
void tern_closing_free(
    struct tern_federation *federation); // allowed after a failed tern_closing_new()

// Decides to close the open round. tern_federation_is_merging() is true from here on.
void tern_closing_decide(struct tern_federation *federation);
// Stores the result of a merge that has ended, which closes the round, continues checkpoints and pruning, and executes the
// operator's order to restore earlier weights.
TERN_MUST_USE enum tern_result tern_closing_advance(struct tern_federation *federation,
                                                    uint64_t now);
// Whether tern_closing_advance() has something to do now.
bool tern_closing_has_work(const struct tern_federation *federation);

// Applies the row of a committed round to the state in memory: closes the round, and advances the schedules of local
// steps and of the learning rate.
void tern_closing_apply_committed(struct tern_federation *federation,
                                  const struct tern_db_round *row);

#endif
