// What is dropped of old rounds: the bodies of updates go, then rows of which no sum is left to be made. Thread rule and
// errors: as store.h.
#ifndef TERN_STORE_RETENTION_H
#define TERN_STORE_RETENTION_H

#include "store/store.h"

// Bytes of the bodies of all updates received so far, dropped or not.
TERN_MUST_USE enum tern_result tern_db_received_bytes(struct tern_db *db, uint64_t *bytes);
// The first round until whose commit `received` bytes had come, or the last committed one; not
// before the last that is pruned. 0 = none.
TERN_MUST_USE enum tern_result tern_db_prune_goal(struct tern_db *db, uint64_t received,
                                                  uint32_t *round);
// From here on the rounds up to `last` are pruned: they cannot be replayed any more. Those after the
// version that the global model is kept of are not, since later versions are made from it. Bodies
// are there until tern_db_prune_some() has dropped them.
TERN_MUST_USE enum tern_result tern_db_prune(struct tern_db *db, uint32_t last);
// Drops bodies of updates that count in pruned rounds, the oldest first, until they had `bytes` or
// were 1,000. When none are left: of one pruned round, unless it is among the `newest` rounds, up to
// 1,000 each of metrics, updates, assignments and rows of the meter, except those of a client whose last update in
// the error ledger was for the round. *more: there may be others.
TERN_MUST_USE enum tern_result tern_db_prune_some(struct tern_db *db, uint64_t bytes,
                                                  uint32_t newest, bool *more);
// Drops what is still kept of a client's update for `round`, if the other rows of that round were
// dropped. For when a later one of the client is accepted: it has the answer to the one before.
TERN_MUST_USE enum tern_result tern_db_prune_last(struct tern_db *db, uint64_t client,
                                                  uint32_t round);
// Gives up to `bytes` of the space that was freed in the file back to the file system. *more: there
// is more of it, and it can be given back.
TERN_MUST_USE enum tern_result tern_db_shrink_some(struct tern_db *db, uint64_t bytes, bool *more);

#endif
