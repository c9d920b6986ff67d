// Retention: which rounds' updates go, and dropping their bodies in steps, then their rows.
//
// A round that is pruned is marked so before the first of its bodies is dropped, so that one that is
// missing in any other round was lost. Updates are stored in the order in which they come and count
// in the round that is open then, so that the oldest bodies are those of the oldest rounds.
#include "store/retention.h"
#include "store/sql_table.h"

#define BODIES_AT_ONCE 1000
#define ROWS_AT_ONCE "1000" // of each table

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
    enum tern_result found = tern_db_checkpoint(db, &row.version);
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
    struct tern_query query = tern_query_write(db->sql, "UPDATE totals SET rounds_pruned = ?1"
                                                        " WHERE rounds_pruned < ?1");
    tern_query_bind(&query, last < most ? last : most);
    return tern_query_post(&query);
}

// The oldest body, if it may go. NOT_FOUND
static enum tern_result oldest(struct tern_db *db, uint64_t *id, uint64_t *len)
{
    struct tern_query query = tern_query_read(
        db->sql, "SELECT id, body_len FROM updates WHERE id = (SELECT min(id) FROM update_bodies)"
                 " AND CASE WHEN merged > round THEN merged ELSE round END"
                 " <= (SELECT rounds_pruned FROM totals)");
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
    return tern_query_post(&query);
}

static enum tern_result drop_bodies(struct tern_db *db, uint64_t bytes, bool *more)
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

// --- Rows
//
// Sums over history are kept apart, so that once no update of a pruned round is to come any more nobody
// reads its rows but those of a client's last update: it may come again, as after a lost reply, and is
// known by its row.

// Whether a row of `table` is of the round that its client's last update was for.
#define IS_LAST(table)                                                                             \
    "EXISTS (SELECT 1 FROM ledger WHERE ledger.client = " table ".client"                          \
    " AND ledger.round = " table ".round)"

// Of one round, as many as one transaction drops. An update goes with the round that it counts in.
// Metrics belong to the version from which the round began; metrics of earlier versions were dropped with earlier
// rounds.
static const char *const drops_of_round[] = {
    "DELETE FROM metrics WHERE (version, name, client) IN (SELECT version, name, client FROM "
    "metrics"
    " WHERE version <= (SELECT base_version FROM rounds WHERE round = ?1) LIMIT " ROWS_AT_ONCE ")",
    "DELETE FROM meter WHERE (round, client, purpose) IN (SELECT round, client, purpose FROM meter"
    " WHERE round = ?1 AND NOT " IS_LAST("meter") " LIMIT " ROWS_AT_ONCE ")",
    "DELETE FROM assignments WHERE (round, client) IN (SELECT round, client FROM assignments"
    " WHERE round = ?1 AND NOT " IS_LAST("assignments") " LIMIT " ROWS_AT_ONCE ")",
    "DELETE FROM updates WHERE id IN (SELECT id FROM updates"
    " WHERE ((round = ?1 AND merged = 0) OR (merged = ?1 AND merged > 0)) AND NOT " IS_LAST(
        "updates") " LIMIT " ROWS_AT_ONCE ")",
};

// The next round whose rows are to be dropped. NOT_FOUND
static enum tern_result next_of_rows(struct tern_db *db, uint32_t newest, uint32_t *round)
{
    struct tern_query query =
        tern_query_read(db->sql, "SELECT rows_pruned + 1 FROM totals WHERE rows_pruned <"
                                 " rounds_pruned AND rows_pruned <"
                                 " (SELECT max(round) FROM rounds) - ?");
    tern_query_bind(&query, newest);
    if (!tern_query_row(&query)) {
        return tern_query_missing(&query);
    }
    *round = (uint32_t)tern_query_number(&query, UINT32_MAX);
    return tern_query_end(&query);
}

static enum tern_result drop_rows(struct tern_db *db, uint32_t newest, bool *more)
{
    uint32_t round = 0;
    const enum tern_result next = next_of_rows(db, newest, &round);
    *more = next == TERN_OK;
    if (next != TERN_OK) {
        return tern_db_may_miss(next);
    }
    bool any = false;
    for (size_t i = 0; i < sizeof drops_of_round / sizeof drops_of_round[0]; i++) {
        struct tern_query query = tern_query_write(db->sql, drops_of_round[i]);
        tern_query_bind(&query, round);
        const enum tern_result dropped = tern_query_run_one(&query);
        any = any || dropped == TERN_OK;
        TERN_TRY(tern_db_may_miss(dropped));
    }
    if (any) {
        return TERN_OK;
    }
    struct tern_query query = tern_query_write(db->sql, "UPDATE totals SET rows_pruned = ?");
    tern_query_bind(&query, round);
    db->knows_dropped = false;
    return tern_query_post(&query);
}

enum tern_result tern_db_prune_some(struct tern_db *db, uint64_t bytes, uint32_t newest, bool *more)
{
    TERN_TRY(drop_bodies(db, bytes, more));
    return *more ? TERN_OK : drop_rows(db, newest, more);
}

enum tern_result tern_retention_has_dropped(struct tern_db *db, uint32_t round, bool *dropped)
{
    if (!db->knows_dropped || !db->is_current) {
        struct tern_query query = tern_query_read(db->sql, "SELECT rows_pruned FROM totals");
        db->dropped = tern_query_row(&query) ? (uint32_t)tern_query_number(&query, UINT32_MAX) : 0;
        TERN_TRY(tern_query_end(&query));
        db->knows_dropped = true;
        db->is_current = true;
    }
    *dropped = db->dropped >= round;
    return TERN_OK;
}

enum tern_result tern_db_prune_last(struct tern_db *db, uint64_t client, uint32_t round)
{
    static const char *const drops[] = {
        "DELETE FROM meter WHERE round = ? AND client = ?",
        "DELETE FROM assignments WHERE round = ? AND client = ?",
        "DELETE FROM updates WHERE round = ? AND client = ?"
        " AND merged <= (SELECT rows_pruned FROM totals)",
    };
    bool dropped = false;
    TERN_TRY(tern_retention_has_dropped(db, round, &dropped));
    for (size_t i = 0; dropped && i < sizeof drops / sizeof drops[0]; i++) {
        struct tern_query query = tern_query_write(db->sql, drops[i]);
        tern_query_bind(&query, round);
        tern_query_bind(&query, client);
        TERN_TRY(tern_query_post(&query));
    }
    return TERN_OK;
}

enum tern_result tern_db_shrink_some(struct tern_db *db, uint64_t bytes, bool *more)
{
    return tern_sql_shrink(db->sql, bytes, more);
}
