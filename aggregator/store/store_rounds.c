// Rounds, their assignments and updates, and what retention drops of old rounds.
#include "store/tables.h"

#include <assert.h>
#include <string.h>

#define TOTALS &tern_table_totals
#define SECURE_ROUNDS &tern_table_secure_rounds
#define SUMS &tern_table_secure_sums

static_assert(TERN_ROUND_OPEN == 0, "SQL of tern_db_round_put() has 0 for OPEN");
static_assert(TERN_ROUND_COMMITTED == 1, "SQL of tern_db_round_committed() has 1 for COMMITTED");
static_assert(TERN_DB_MASKED == 4294967295, "TERN_MASKED_TEXT says so");
static_assert(TERN_ASSIGNMENT_REPORTED == 2, "SQL of store_assignment() has 2 for REPORTED");

// --- Sums over history
//
// The commit of a round adds its assignments and updates to the sums, by one statement for each table: counting them one by one
// would write the sums' rows in each transaction. Rows that arrive after their round was counted are added at once.

// Statements with the number of a round that has ended and was not counted yet.
static const char *const counts_of_round[] = {
    "INSERT INTO client_totals (client, invited, reported)"
    " SELECT client, 1, CASE state WHEN 2 THEN 1 ELSE 0 END FROM assignments WHERE round = ?"
    " ON CONFLICT (client) DO UPDATE SET invited = client_totals.invited + excluded.invited,"
    " reported = client_totals.reported + excluded.reported",
    "INSERT INTO round_totals (round, trains, participants)"
    " SELECT round, 1, count(*) FROM assignments WHERE round = ? AND state = 2 GROUP BY round"
    " ON CONFLICT (round, trains) DO UPDATE SET"
    " participants = round_totals.participants + excluded.participants",
    "UPDATE totals SET counted_round = ?1, participants = participants"
    " + (SELECT count(*) FROM assignments WHERE round = ?1 AND state = 2),"
    " updates = updates + (SELECT count(*) FROM updates WHERE id > counted_update),"
    " update_bytes = update_bytes"
    " + (SELECT " TERN_SUM_OF(
        TERN_KEPT_BYTES) " FROM updates WHERE id > counted_update),"
                         " counted_update = coalesce((SELECT max(id) FROM updates "
                         "WHERE id > counted_update), counted_update)",
};

// Caches the last round whose assignments the sums have, and the last one whose rows were dropped.
static enum tern_result load_totals(struct tern_db *db)
{
    tern_db_refresh(db);
    if (db->knows_totals) {
        return TERN_OK;
    }
    struct tern_query query =
        tern_db_read(db, "SELECT counted_round, rows_pruned FROM totals", NULL);
    if (tern_query_row(&query)) {
        db->counted = (uint32_t)tern_query_number(&query, UINT32_MAX);
        db->dropped = (uint32_t)tern_query_number(&query, UINT32_MAX);
    }
    TERN_TRY(tern_query_end(&query));
    db->knows_totals = true;
    return TERN_OK;
}

static enum tern_result is_counted(struct tern_db *db, uint32_t round, bool *counted)
{
    TERN_TRY(load_totals(db));
    *counted = round <= db->counted;
    return TERN_OK;
}

static enum tern_result count_round(struct tern_db *db, uint32_t round)
{
    bool counted = false;
    TERN_TRY(is_counted(db, round, &counted));
    for (size_t i = 0; !counted && i < sizeof counts_of_round / sizeof counts_of_round[0]; i++) {
        TERN_TRY(tern_query_post(tern_db_write(db, counts_of_round[i], TERN_BIND(round))));
    }
    db->counted = counted ? db->counted : round;
    return TERN_OK;
}

// --- Rounds

enum tern_result tern_db_round_put(struct tern_db *db, const struct tern_db_round *round)
{
    TERN_TRY(round->state != TERN_ROUND_OPEN ? count_round(db, round->round) : TERN_OK);
    enum tern_result result = tern_table_put_where(
        db, &tern_table_rounds, round, "WHERE rounds.state = 0 OR excluded.state = rounds.state");
    return result == TERN_ERR_NOT_FOUND ? TERN_ERR_CONFLICT : result;
}

enum tern_result tern_db_round_get(struct tern_db *db, uint32_t round, struct tern_db_round *out)
{
    return tern_table_get(db, &tern_table_rounds, "WHERE round = ?", TERN_BIND(round), out);
}

enum tern_result tern_db_round_last(struct tern_db *db, struct tern_db_round *out)
{
    return tern_table_get(db, &tern_table_rounds, "ORDER BY round DESC LIMIT 1", NULL, out);
}

enum tern_result tern_db_round_committed(struct tern_db *db, struct tern_db_round *out)
{
    return tern_table_get(db, &tern_table_rounds, "WHERE state = 1 ORDER BY round DESC LIMIT 1",
                          NULL, out);
}

struct tern_db_rows *tern_db_rounds(struct tern_db *db)
{
    return tern_table_list(db, &tern_table_rounds, "ORDER BY round", NULL);
}

struct tern_db_rows *tern_db_rounds_after(struct tern_db *db, uint32_t after, uint32_t limit)
{
    return tern_table_list(db, &tern_table_rounds, "WHERE round > ? ORDER BY round LIMIT ?",
                           TERN_BIND(after, limit));
}

// --- Assignments

static enum tern_result count_client(struct tern_db *db, uint64_t client, uint32_t invited,
                                     uint32_t reported)
{
    const struct tern_db_client_total row = {
        .client = client, .invited = invited, .reported = reported};
    return tern_table_put(db, &tern_table_client_totals, &row);
}

static enum tern_result count_report(struct tern_db *db, uint32_t round, uint64_t client)
{
    const struct tern_db_round_total row = {.round = round, .trains = true, .participants = 1};
    bool counted = false;
    TERN_TRY(is_counted(db, round, &counted));
    if (!counted) {
        return TERN_OK;
    }
    TERN_TRY(count_client(db, client, 0, 1));
    TERN_TRY(tern_table_put(db, &tern_table_round_totals, &row));
    return tern_table_put(db, TOTALS, &(struct tern_totals_row){.id = 1, .participants = 1});
}

static enum tern_result store_assignment(struct tern_db *db, const struct tern_db_assignment *row,
                                         const enum tern_db_assignment_state *before)
{
    if (before == NULL) {
        bool counted = false;
        TERN_TRY(is_counted(db, row->round, &counted));
        TERN_TRY(tern_table_add(db, &tern_table_assignments, row));
        return counted ? count_client(db, row->client, 1, 0) : TERN_OK;
    }
    return tern_table_update(db, &tern_table_assignments, row,
                             *before == TERN_ASSIGNMENT_REPORTED ? ""
                                                                 : "AND assignments.state <> 2");
}

enum tern_result tern_db_assignment_put(struct tern_db *db,
                                        const struct tern_db_assignment *assignment,
                                        const enum tern_db_assignment_state *before)
{
    const bool reports = assignment->state == TERN_ASSIGNMENT_REPORTED;
    const bool reported = before != NULL && *before == TERN_ASSIGNMENT_REPORTED;
    if (reported && !reports) {
        return TERN_ERR_CONFLICT;
    }
    TERN_TRY(store_assignment(db, assignment, before));
    return reports && !reported ? count_report(db, assignment->round, assignment->client) : TERN_OK;
}

enum tern_result tern_db_assignment_get(struct tern_db *db, uint32_t round, uint64_t client,
                                        struct tern_db_assignment *out)
{
    return tern_table_get(db, &tern_table_assignments, "WHERE round = ? AND client = ?",
                          TERN_BIND(round, client), out);
}

struct tern_db_rows *tern_db_assignments(struct tern_db *db, uint32_t round)
{
    return tern_table_list(db, &tern_table_assignments, "WHERE round = ? ORDER BY client",
                           TERN_BIND(round));
}

// --- Updates

// Returns the id of the next update: one more than the last. No other connection adds updates within this transaction.
static enum tern_result next_update_id(struct tern_db *db, uint64_t *id)
{
    tern_db_refresh(db);
    if (db->next_update == 0) {
        TERN_TRY(
            tern_query_get(tern_db_read(db, "SELECT coalesce(max(id), 0) + 1 FROM updates", NULL),
                           &db->next_update));
    }
    *id = db->next_update++;
    return TERN_OK;
}

enum tern_result tern_db_update_put(struct tern_db *db, const struct tern_db_update *update)
{
    if (update->body_len > TERN_SQL_BLOB_MAX) {
        return TERN_ERR_TOO_LARGE;
    }
    struct tern_db_update row = *update;
    TERN_TRY(next_update_id(db, &row.id));
    const struct tern_body_row body = {row.id, {update->body, update->body_len}};
    TERN_TRY(tern_table_add(db, &tern_table_updates, &row));
    return tern_table_add(db, &tern_table_update_bodies, &body);
}

enum tern_result tern_db_update_find(struct tern_db *db, uint32_t round, uint64_t client,
                                     struct tern_db_update *out)
{
    struct tern_query query = tern_table_select(
        db, &tern_table_updates, "WHERE round = ? AND client = ?", TERN_BIND(round, client));
    out->body = NULL;
    return tern_table_one(&query, &tern_table_updates, out);
}

// Checks the body of an update against its stored hash.
static enum tern_result check_body(struct tern_db *db, const struct tern_db_update *update,
                                   const struct tern_blob_column *body)
{
    uint8_t digest[TERN_SHA256_SIZE];
    tern_sha256(body->data, body->len, digest);
    if (body->len != update->body_len || memcmp(digest, update->sha256, sizeof digest) != 0) {
        return tern_sql_fail_damaged(db->sql,
                                     "the stored bytes of an update differ from those received");
    }
    return TERN_OK;
}

struct visitor {
    enum tern_result (*visit)(void *ctx, const struct tern_db_update *update);
    void *ctx;
};

// Visits the update with its body, or with NULL if retention has dropped the body.
static enum tern_result show_update(struct tern_db *db, struct tern_db_update *update,
                                    const struct visitor *visitor)
{
    struct tern_body_row row;
    struct tern_query query =
        tern_table_select(db, &tern_table_update_bodies, "WHERE id = ?", TERN_BIND(update->id));
    update->body = NULL;
    enum tern_result visited = TERN_OK;
    if (tern_table_next(&query, &tern_table_update_bodies, &row)) {
        visited = check_body(db, update, &row.body);
        update->body = row.body.len == 0 ? (const uint8_t *)"" : row.body.data;
    }
    if (query.result == TERN_OK && visited == TERN_OK) {
        visited = visitor->visit(visitor->ctx, update);
    }
    enum tern_result result = tern_query_end(&query);
    return result == TERN_OK ? visited : result;
}

void tern_db_hide_updates(struct tern_db *db, const struct tern_db_rejection *hidden)
{
    db->hidden = hidden;
}

static bool is_hidden(const struct tern_db *db, const struct tern_db_update *update)
{
    const struct tern_db_rejection *hidden = db->hidden;
    while (hidden != NULL && (update->client != hidden->client || update->round < hidden->first ||
                              update->round > hidden->last)) {
        hidden = hidden->next;
    }
    return hidden != NULL;
}

static enum tern_result show_each(struct tern_db *db, struct tern_query *query,
                                  const struct visitor *visitor)
{
    struct tern_db_update row;
    enum tern_result visited = TERN_OK;
    while (visited == TERN_OK && tern_table_next(query, &tern_table_updates, &row)) {
        visited = is_hidden(db, &row) ? TERN_OK : show_update(db, &row, visitor);
    }
    const enum tern_result result = tern_query_end(query);
    return result == TERN_OK ? visited : result;
}

// Visits the round's sum, if it has one, as the only update that its version is made from.
static enum tern_result show_sum(struct tern_db *db, uint32_t round, const struct visitor *visitor)
{
    struct tern_db_secure_sum row;
    struct tern_query query =
        tern_table_select(db, &tern_table_secure_sums, "WHERE round = ?", TERN_BIND(round));
    enum tern_result visited = TERN_OK;
    if (tern_table_next(&query, &tern_table_secure_sums, &row)) {
        struct tern_db_update update = {.round = round,
                                        .sequence = round,
                                        .body_len = row.body.len,
                                        .received_ms = row.received_ms,
                                        .body = row.body.data};
        memcpy(update.sha256, row.sha256, sizeof update.sha256);
        visited = check_body(db, &update, &row.body);
        visited = visited == TERN_OK ? visitor->visit(visitor->ctx, &update) : visited;
    }
    const enum tern_result result = tern_query_end(&query);
    return result == TERN_OK ? visited : result;
}

enum tern_result tern_db_update_each(struct tern_db *db, uint32_t round,
                                     enum tern_result (*visit)(void *ctx,
                                                               const struct tern_db_update *update),
                                     void *ctx)
{
    const struct visitor visitor = {visit, ctx};
    struct tern_query query =
        tern_table_select(db, &tern_table_updates,
                          "WHERE (round = ? AND merged = 0) OR (merged = ? AND merged > 0)"
                          " ORDER BY client, round",
                          TERN_BIND(round, round));
    TERN_TRY(show_each(db, &query, &visitor));
    return show_sum(db, round, &visitor);
}

enum tern_result tern_db_masked_each(struct tern_db *db, uint32_t round,
                                     enum tern_result (*visit)(void *ctx,
                                                               const struct tern_db_update *update),
                                     void *ctx)
{
    const struct visitor visitor = {visit, ctx};
    struct tern_query query =
        tern_table_select(db, &tern_table_updates, "WHERE round = ? AND merged = ? ORDER BY client",
                          TERN_BIND(round, TERN_DB_MASKED));
    return show_each(db, &query, &visitor);
}

enum tern_result tern_db_masked_drop(struct tern_db *db, uint32_t round)
{
    return tern_query_post(tern_db_write(db,
                                         "DELETE FROM update_bodies WHERE id IN"
                                         " (SELECT id FROM updates WHERE round = ? AND merged = ?)",
                                         TERN_BIND(round, TERN_DB_MASKED)));
}

enum tern_result tern_db_update_show(struct tern_db *db, uint32_t round, uint64_t client,
                                     enum tern_result (*visit)(void *ctx,
                                                               const struct tern_db_update *update),
                                     void *ctx)
{
    const struct visitor visitor = {visit, ctx};
    struct tern_db_update row;
    TERN_TRY(tern_db_update_find(db, round, client, &row));
    return show_update(db, &row, &visitor);
}

// --- Secure rounds

enum tern_result tern_db_secure_round_put(struct tern_db *db,
                                          const struct tern_db_secure_round *row)
{
    return tern_table_put(db, SECURE_ROUNDS, row);
}

struct tern_db_rows *tern_db_secure_round(struct tern_db *db, uint32_t round)
{
    return tern_table_list(db, SECURE_ROUNDS, "WHERE round = ?", TERN_BIND(round));
}

struct tern_db_rows *tern_db_secure_last_summed(struct tern_db *db)
{
    return tern_table_list(db, SECURE_ROUNDS, "WHERE state = 2 ORDER BY round DESC LIMIT 1", NULL);
}

_Static_assert(TERN_SECURE_SUMMED == 2, "SQL above has 2 for SUMMED");

enum tern_result tern_db_secure_sum_put(struct tern_db *db, struct tern_db_secure_sum *sum)
{
    tern_sha256(sum->body.data, sum->body.len, sum->sha256);
    const struct tern_totals_row count = {.id = 1, .update_bytes = sum->body.len};
    TERN_TRY(tern_table_put(db, TOTALS, &count));
    return tern_table_put(db, SUMS, sum);
}

// --- Retention
//
// A round is marked as pruned before the first of its bodies is dropped, so that a body missing in any other round was
// lost. Updates are stored in the order of their arrival and count in the round that is open then, so that the oldest
// bodies are those of the oldest rounds.

#define BODIES_AT_ONCE 1000
#define ROWS_AT_ONCE "1000" // rows that one transaction drops from each table

enum tern_result tern_db_received_bytes(struct tern_db *db, uint64_t *bytes)
{
    return tern_query_get(
        tern_db_read(db,
                     "SELECT update_bytes + (SELECT " TERN_SUM_OF(
                         TERN_KEPT_BYTES) " FROM updates"
                                          " WHERE id > counted_update) FROM totals",
                     NULL),
        bytes);
}

static enum tern_result rounds_pruned(struct tern_db *db, uint32_t *last)
{
    return tern_query_get_u32(tern_db_read(db, "SELECT rounds_pruned FROM totals", NULL), last);
}

enum tern_result tern_db_prune_goal(struct tern_db *db, uint64_t received, uint32_t *round)
{
    struct tern_db_round row;
    TERN_TRY(rounds_pruned(db, round));
    enum tern_result found = tern_db_round_get(db, *round, &row);
    uint64_t until = found == TERN_OK ? row.received_bytes : 0;
    while (until < received) {
        found = tern_db_round_get(db, *round + 1, &row);
        if (found != TERN_OK || row.state == TERN_ROUND_OPEN) {
            return tern_db_may_miss(found);
        }
        until = row.received_bytes;
        (*round)++;
    }
    return tern_db_may_miss(found);
}

// Finds the last round from which no version will be made again: the round that made the checkpoint. Without a checkpoint,
// any round.
static enum tern_result last_round_of_checkpoint(struct tern_db *db, uint32_t *last)
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
    TERN_TRY(last_round_of_checkpoint(db, &most));
    return tern_query_post(tern_db_write(db,
                                         "UPDATE totals SET rounds_pruned = ?1"
                                         " WHERE rounds_pruned < ?1",
                                         TERN_BIND(last < most ? last : most)));
}

// Finds the oldest body, if its round is pruned. NOT_FOUND
static enum tern_result find_oldest_body(struct tern_db *db, uint64_t *id, uint64_t *len)
{
    struct tern_query query = tern_db_read(
        db,
        "SELECT id, body_len FROM updates WHERE id = (SELECT min(id) FROM update_bodies)"
        " AND CASE WHEN merged > round THEN merged ELSE round END"
        " <= (SELECT rounds_pruned FROM totals)",
        NULL);
    if (!tern_query_row(&query)) {
        return tern_query_missing(&query);
    }
    *id = tern_query_u64(&query);
    *len = tern_query_u64(&query);
    return tern_query_end(&query);
}

static enum tern_result drop_body(struct tern_db *db, uint64_t id)
{
    return tern_query_post(
        tern_db_write(db, "DELETE FROM update_bodies WHERE id = ?", TERN_BIND(id)));
}

static enum tern_result drop_bodies(struct tern_db *db, uint64_t bytes, bool *more)
{
    uint64_t dropped = 0;
    *more = true;
    for (unsigned i = 0; i < BODIES_AT_ONCE && dropped < bytes; i++) {
        uint64_t id = 0;
        uint64_t len = 0;
        const enum tern_result found = find_oldest_body(db, &id, &len);
        if (found == TERN_ERR_NOT_FOUND) {
            *more = false;
            return TERN_OK;
        }
        TERN_TRY(found);
        TERN_TRY(drop_body(db, id));
        dropped += len;
    }
    return TERN_OK;
}

static enum tern_result drop_sums(struct tern_db *db)
{
    return tern_query_post(tern_db_write(
        db, "DELETE FROM secure_sums WHERE round <= (SELECT rounds_pruned FROM totals)", NULL));
}

// --- Rows of pruned rounds
//
// Sums over history are stored apart. Once no update of a pruned round can come any more, only the rows of a client's last
// update are still read: they identify the update if it comes again, such as after a lost reply.

// Whether a row of `table` belongs to the round of its client's last update.
#define IS_LAST(table)                                                                             \
    "EXISTS (SELECT 1 FROM ledger WHERE ledger.client = " table ".client"                          \
    " AND ledger.round = " table ".round)"

// Statements that drop rows of one round, as many as one transaction may. An update belongs to the round in which it counts,
// metrics to the version from which the round began; those of earlier versions were dropped with earlier rounds.
static const char *const drops_of_round[] = {
    "DELETE FROM metrics WHERE (version, name, client) IN (SELECT version, name, client FROM "
    "metrics"
    " WHERE version <= (SELECT base_version FROM rounds WHERE round = ?1) LIMIT " ROWS_AT_ONCE ")",
    "DELETE FROM meter WHERE (round, client) IN (SELECT round, client FROM meter"
    " WHERE round = ?1 AND NOT " IS_LAST("meter") " LIMIT " ROWS_AT_ONCE ")",
    "DELETE FROM assignments WHERE (round, client) IN (SELECT round, client FROM assignments"
    " WHERE round = ?1 AND NOT " IS_LAST("assignments") " LIMIT " ROWS_AT_ONCE ")",
    "DELETE FROM updates WHERE id IN (SELECT id FROM updates"
    " WHERE ((round = ?1 AND merged IN (0, " TERN_MASKED_TEXT
    ")) OR (merged = ?1 AND merged > 0)) AND NOT " IS_LAST("updates") " LIMIT " ROWS_AT_ONCE ")",
};

// Finds the next round whose rows retention may drop. NOT_FOUND
static enum tern_result next_round_to_drop(struct tern_db *db, uint32_t newest, uint32_t *round)
{
    static const char text[] =
        "SELECT rows_pruned + 1 FROM totals WHERE rows_pruned < rounds_pruned"
        " AND rows_pruned < (SELECT max(round) FROM rounds) - ?";
    return tern_query_get_u32(tern_db_read(db, text, TERN_BIND(newest)), round);
}

static enum tern_result drop_rows(struct tern_db *db, uint32_t newest, bool *more)
{
    uint32_t round = 0;
    const enum tern_result next = next_round_to_drop(db, newest, &round);
    *more = next == TERN_OK;
    if (next != TERN_OK) {
        return tern_db_may_miss(next);
    }
    bool any = false;
    for (size_t i = 0; i < sizeof drops_of_round / sizeof drops_of_round[0]; i++) {
        const enum tern_result dropped =
            tern_query_run_one(tern_db_write(db, drops_of_round[i], TERN_BIND(round)));
        any = any || dropped == TERN_OK;
        TERN_TRY(tern_db_may_miss(dropped));
    }
    if (any) {
        return TERN_OK;
    }
    db->knows_totals = false;
    return tern_query_post(
        tern_db_write(db, "UPDATE totals SET rows_pruned = ?", TERN_BIND(round)));
}

enum tern_result tern_db_prune_some(struct tern_db *db, uint64_t bytes, uint32_t newest, bool *more)
{
    TERN_TRY(drop_sums(db));
    TERN_TRY(drop_bodies(db, bytes, more));
    return *more ? TERN_OK : drop_rows(db, newest, more);
}

enum tern_result tern_retention_has_dropped(struct tern_db *db, uint32_t round, bool *dropped)
{
    TERN_TRY(load_totals(db));
    *dropped = db->dropped >= round;
    return TERN_OK;
}

enum tern_result tern_db_prune_last(struct tern_db *db, uint64_t client, uint32_t round)
{
    static const char *const drops[] = {
        "DELETE FROM meter WHERE round = ? AND client = ?",
        "DELETE FROM assignments WHERE round = ? AND client = ?",
        "DELETE FROM updates WHERE round = ? AND client = ?"
        " AND (merged <= (SELECT rows_pruned FROM totals) OR merged = " TERN_MASKED_TEXT ")",
    };
    bool dropped = false;
    TERN_TRY(tern_retention_has_dropped(db, round, &dropped));
    for (size_t i = 0; dropped && i < sizeof drops / sizeof drops[0]; i++) {
        TERN_TRY(tern_query_post(tern_db_write(db, drops[i], TERN_BIND(round, client))));
    }
    return TERN_OK;
}
