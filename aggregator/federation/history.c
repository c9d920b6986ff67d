// Retention: of the updates of committed rounds, those of the newest stay, as far as their bytes are
// allowed. The others are dropped a few at a time, in transactions that have other things to do.
#include "federation/internal.h"

// Dropping 16 MiB takes some 20 ms.
#define DROP_BYTES (UINT64_C(16) << 20)

enum tern_result tern_history_decide(struct tern_federation *federation, uint64_t received)
{
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
