// Whether all of a database is what was written, and its versions are what its updates make: `verify`, and `copy` of
// what it has made.
#ifndef TERN_CLI_VERIFICATION_H
#define TERN_CLI_VERIFICATION_H

#include "merge/replay.h"
#include "store/store.h"

// What was found. Once rounds were pruned, versions cannot be replayed: the updates of the others are
// compared with what was received.
struct tern_verification {
    struct tern_replay_report report;
    uint32_t pruned;   // rounds up to this one; 0 = none
    uint64_t received; // updates since, which are as received
};

// Shows its progress on a terminal. why: a sentence on any failure. Errors of tern_db_check() and
// tern_replay(); TERN_ERR_CORRUPT  updates are missing
TERN_MUST_USE enum tern_result tern_verify(struct tern_db *db, struct tern_verification *found,
                                           char why[256]);

#endif
