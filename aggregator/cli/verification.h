// Verifies a database: all rows are intact, and replaying the updates makes the recorded versions. For `verify`, and for
// `copy`, which verifies what it has written. From the main thread.
#ifndef TERN_CLI_VERIFICATION_H
#define TERN_CLI_VERIFICATION_H

#include "merge/replay.h"
#include "store/store.h"

// The results. After rounds were pruned, versions cannot be replayed, and the other updates are compared with their hashes.
struct tern_verification {
    struct tern_replay_report report;
    uint32_t pruned;   // number of the last pruned round; 0: none
    uint64_t received; // intact updates of the rounds after `pruned`
    // After a prune: versions made by `reject`, which only their recorded hashes confirm.
    uint32_t by_hash;
    uint32_t last_by_hash; // the last of these versions
};

// Shows its progress on a terminal. why: a sentence on any failure. Returns errors of tern_db_check() and
// tern_replay(), and TERN_ERR_CORRUPT if updates are missing.
TERN_MUST_USE enum tern_result tern_verify(struct tern_db *db, struct tern_verification *found,
                                           char why[256]);

#endif
