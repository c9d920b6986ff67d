// Replays a federation from its seed and the stored updates, and compares every resulting version with the recorded one.
// Called by `tern-aggregator verify`, by `reject`, and by tests. Only reads the store. Thread rule: that of the store.
#ifndef TERN_REPLAY_H
#define TERN_REPLAY_H

#include "merge/merge.h"
#include "result.h"
#include "store/store.h"

struct tern_replay_report {
    uint32_t rounds;                        // rounds that were replayed and found equal
    uint64_t updates;                       // updates in these rounds
    uint32_t rejections;                    // restored rounds whose weights `reject` made, replayed
    uint32_t differs;                       // first version that differs, 0 = none
    uint8_t model_sha256[TERN_SHA256_SIZE]; // of the last version replayed
};

// Writes a rejection as a restored round's strategy_parameters have it: "client=7,rounds=3..9".
void tern_rejection_format(const struct tern_db_rejection *rejection,
                           char text[TERN_DB_PARAMETERS_MAX]);

// Replays the committed rounds before the round `until` into *merge without the rejected updates (a list). A round without
// other updates leaves the model as it is; *empty counts such rounds. Earlier rollbacks and rejections stay: a round that
// restored weights with rejected updates restores them as they are without. Rounds whose versions were undone are not
// replayed. *failed: the round that cannot be replayed.
// TERN_ERR_NOT_FOUND  the round's updates were pruned; and errors as of tern_replay()
TERN_MUST_USE enum tern_result tern_replay_without(struct tern_db *db, struct tern_merge *merge,
                                                   const struct tern_db_rejection *rejection,
                                                   uint32_t until, uint32_t *empty,
                                                   uint32_t *failed);

// Also replays each rejection again, and compares the result with the weights that the service restored.
// progress: called after each version, or NULL. why: a sentence on any failure.
// TERN_ERR_CORRUPT         a version differs (report->differs), or a stored update is damaged
// TERN_ERR_MODEL_MISMATCH  the stored model spec no longer gives the stored model hash
// TERN_ERR_UNKNOWN         a round names a strategy or codec that this program does not know
// TERN_ERR_NOT_FOUND       the updates of a round are no longer kept
// TERN_ERR_NO_MEMORY, TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_replay(struct tern_db *db,
                                           void (*progress)(void *ctx, uint32_t version), void *ctx,
                                           struct tern_replay_report *report, char why[256]);

#endif
