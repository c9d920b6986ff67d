// The versions so far. Of the model whole weights are stored now and then, as a checkpoint; a start
// makes the newest version from it and the updates since. Of the updates of committed rounds, those of
// the newest stay, as far as their bytes are allowed, for replays. The others are dropped a few at a
// time, in transactions that have other things to do.
#include "federation/internal.h"

// Versions from one checkpoint to the next, at most: a start merges so many rounds again.
#define CHECKPOINT_VERSIONS 16
// A checkpoint is due, too, when the updates since the last have this part of its bytes: it is then
// little beside what is written anyway, and merging again would take long.
#define CHECKPOINT_SHARE 8

// Dropping 16 MiB takes some 20 ms.
#define DROP_BYTES (UINT64_C(16) << 20)

static enum tern_result is_due(struct tern_federation *federation, bool *due)
{
    const struct tern_merge *merge = &federation->merge;
    const uint64_t whole = (uint64_t)merge->model.count * 2 * sizeof(float);
    struct tern_db_version version;
    struct tern_db_round round = {.received_bytes = 0};
    TERN_TRY(tern_db_version_get(federation->db, merge->checkpoint, &version));
    TERN_TRY(tern_db_may_miss(tern_db_round_get(federation->db, version.round, &round)));
    *due = merge->version >= merge->checkpoint + CHECKPOINT_VERSIONS ||
           federation->row.received_bytes - round.received_bytes >= whole / CHECKPOINT_SHARE;
    return TERN_OK;
}

enum tern_result tern_history_checkpoint(struct tern_federation *federation)
{
    bool due = false;
    TERN_TRY(is_due(federation, &due));
    return due ? tern_merge_checkpoint(&federation->merge, federation->db) : TERN_OK;
}

enum tern_result tern_history_decide(struct tern_federation *federation)
{
    const uint64_t received = federation->row.received_bytes;
    const uint64_t most = federation->config.limits.history;
    uint32_t last = 0;
    if (most == 0 || received <= most) {
        return TERN_OK;
    }
    federation->prune_due = true;
    TERN_TRY(tern_db_prune_goal(federation->db, received - most, &last));
    return tern_db_prune(federation->db, last);
}

enum tern_result tern_history_drop(struct tern_federation *federation)
{
    return federation->prune_due
               ? tern_db_prune_some(federation->db, DROP_BYTES, &federation->prune_due)
               : TERN_OK;
}
