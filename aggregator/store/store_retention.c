// Retention: which rounds' updates go, and dropping their bodies in steps.
//
// A round that is pruned is marked so before the first of its bodies is dropped, so that one that is
// missing in any other round was lost. Updates are stored in the order in which they come and count
// in the round that is open then, so that the oldest bodies are those of the oldest rounds.
#include "store/table.h"

#define BODIES_AT_ONCE 1000

enum tern_result tern_db_received_bytes(struct tern_db *db, uint64_t *bytes)
{
    struct tern_query query = tern_query_read(db->sql, "SELECT update_bytes FROM totals");
    *bytes = tern_query_row(&query) ? tern_query_u64(&query) : 0;
    *bytes += db->pending.all.update_bytes;
    return tern_query_end(&query);
}

static enum tern_result rounds_pruned(struct tern_db *db, uint32_t *last)
{
    struct tern_query query = tern_query_read(db->sql, "SELECT rounds_pruned FROM totals");
    *last = tern_query_row(&query) ? (uint32_t)tern_query_number(&query, UINT32_MAX) : 0;
    return tern_query_end(&query);
}

enum tern_result tern_db_prune_goal(struct tern_db *db, uint64_t received, uint32_t *round)
{
    struct tern_db_round row;
    TERN_TRY(rounds_pruned(db, round));
    enum tern_result found = tern_db_round_get(db, *round, &row);
    uint64_t until = found == TERN_OK ? row.received_bytes : 0;
    while (until < received) {
        found = tern_db_round_get(db, *round + 1, &row);
        if (found != TERN_OK || row.state != TERN_ROUND_COMMITTED) {
            return tern_db_may_miss(found);
        }
        until = row.received_bytes;
        (*round)++;
    }
    return tern_db_may_miss(found);
}

// The last round that nothing is made from any more: the one that made the kept version. Without
// one, all.
static enum tern_result last_of_checkpoint(struct tern_db *db, uint32_t *last)
{
    struct tern_db_version row = {.round = UINT32_MAX};
    enum tern_result found = tern_db_weights_version(db, &row.version);
    if (found == TERN_OK) {
        found = tern_db_version_get(db, row.version, &row);
    }
    *last = row.round;
    return tern_db_may_miss(found);
}

enum tern_result tern_db_prune(struct tern_db *db, uint32_t last)
{
    uint32_t most = 0;
    TERN_TRY(last_of_checkpoint(db, &most));
    struct tern_query query =
        tern_query_write(db->sql, "UPDATE totals SET rounds_pruned = max(rounds_pruned, ?)");
    tern_query_bind(&query, last < most ? last : most);
    return tern_query_run(&query);
}

// The oldest body, if it may go. NOT_FOUND
static enum tern_result oldest(struct tern_db *db, uint64_t *id, uint64_t *len)
{
    struct tern_query query = tern_query_read(
        db->sql, "SELECT id, body_len FROM updates WHERE id = (SELECT min(id) FROM update_bodies)"
                 " AND max(round, merged) <= (SELECT rounds_pruned FROM totals)");
    if (!tern_query_row(&query)) {
        return tern_query_missing(&query);
    }
    *id = tern_query_u64(&query);
    *len = tern_query_u64(&query);
    return tern_query_end(&query);
}

static enum tern_result drop(struct tern_db *db, uint64_t id)
{
    struct tern_query query = tern_query_write(db->sql, "DELETE FROM update_bodies WHERE id = ?");
    tern_query_bind(&query, id);
    return tern_query_run(&query);
}

enum tern_result tern_db_prune_some(struct tern_db *db, uint64_t bytes, bool *more)
{
    uint64_t dropped = 0;
    *more = true;
    for (unsigned i = 0; i < BODIES_AT_ONCE && dropped < bytes; i++) {
        uint64_t id = 0;
        uint64_t len = 0;
        const enum tern_result found = oldest(db, &id, &len);
        if (found == TERN_ERR_NOT_FOUND) {
            *more = false;
            return TERN_OK;
        }
        TERN_TRY(found);
        TERN_TRY(drop(db, id));
        dropped += len;
    }
    return TERN_OK;
}

enum tern_result tern_db_shrink_some(struct tern_db *db, uint64_t bytes, bool *more)
{
    return tern_sql_shrink(db->sql, bytes, more);
}
