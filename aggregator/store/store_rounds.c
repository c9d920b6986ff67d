// Rounds, assignments and updates.
#include "store/sql_table.h"

#include <assert.h>
#include <string.h>

static_assert(TERN_ROUND_COMMITTED == 1, "the statement below says 1");
static_assert(TERN_ASSIGNMENT_REPORTED == 2, "and that of assignments 2");

enum tern_result tern_db_round_put(struct tern_db *db, const struct tern_db_round *round)
{
    enum tern_result result = tern_table_put_where(db, &tern_table_rounds, round,
                                                   "WHERE rounds.state <> 1 OR excluded.state = 1");
    return result == TERN_ERR_NOT_FOUND ? TERN_ERR_CONFLICT : result;
}

enum tern_result tern_db_round_get(struct tern_db *db, uint32_t round, struct tern_db_round *out)
{
    return tern_table_get(db, &tern_table_rounds, "WHERE round = ?", round, out);
}

enum tern_result tern_db_round_last(struct tern_db *db, struct tern_db_round *out)
{
    struct tern_query query =
        tern_table_select(db, &tern_table_rounds, "ORDER BY round DESC LIMIT 1");
    return tern_table_one(&query, &tern_table_rounds, out);
}

struct tern_db_rows *tern_db_rounds(struct tern_db *db)
{
    return tern_table_rows(tern_table_select(db, &tern_table_rounds, "ORDER BY round"),
                           &tern_table_rounds);
}

struct tern_db_rows *tern_db_rounds_after(struct tern_db *db, uint32_t after, uint32_t limit)
{
    struct tern_query query =
        tern_table_select(db, &tern_table_rounds, "WHERE round > ? ORDER BY round LIMIT ?");
    tern_query_bind(&query, after);
    tern_query_bind(&query, limit);
    return tern_table_rows(query, &tern_table_rounds);
}

// --- Assignments

static enum tern_result store_assignment(struct tern_db *db, const struct tern_db_assignment *row,
                                         const enum tern_db_assignment_state *before)
{
    if (before == NULL) {
        TERN_TRY(tern_table_add(db, &tern_table_assignments, row));
        return tern_totals_count_invitation(db, row->client);
    }
    return tern_table_update(db, &tern_table_assignments, row,
                             *before == TERN_ASSIGNMENT_REPORTED ? "" : "AND state <> 2");
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
    return reports && !reported
               ? tern_totals_count_report(db, assignment->round, assignment->client)
               : TERN_OK;
}

enum tern_result tern_db_assignment_get(struct tern_db *db, uint32_t round, uint64_t client,
                                        struct tern_db_assignment *out)
{
    struct tern_query query =
        tern_table_select(db, &tern_table_assignments, "WHERE round = ? AND client = ?");
    tern_query_bind(&query, round);
    tern_query_bind(&query, client);
    return tern_table_one(&query, &tern_table_assignments, out);
}

struct tern_db_rows *tern_db_assignments(struct tern_db *db, uint32_t round)
{
    struct tern_query query =
        tern_table_select(db, &tern_table_assignments, "WHERE round = ? ORDER BY client");
    tern_query_bind(&query, round);
    return tern_table_rows(query, &tern_table_assignments);
}

// --- Updates

enum tern_result tern_db_update_put(struct tern_db *db, const struct tern_db_update *update)
{
    if (update->body_len > TERN_SQL_BLOB_MAX) {
        return TERN_ERR_TOO_LARGE;
    }
    TERN_TRY(tern_table_add(db, &tern_table_updates, update));
    struct tern_query query = tern_query_write(
        db->sql, "INSERT INTO update_bodies (id, body) VALUES ((SELECT max(id) FROM updates), ?)");
    tern_query_bind_blob(&query, update->body, update->body_len);
    TERN_TRY(tern_query_post(&query));
    tern_totals_count_update(db, update->body_len);
    return TERN_OK;
}

enum tern_result tern_db_update_find(struct tern_db *db, uint32_t round, uint64_t client,
                                     struct tern_db_update *out)
{
    struct tern_query query =
        tern_table_select(db, &tern_table_updates, "WHERE round = ? AND client = ?");
    tern_query_bind(&query, round);
    tern_query_bind(&query, client);
    out->body = NULL;
    return tern_table_one(&query, &tern_table_updates, out);
}

// Proves that a body is what was received.
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

// Shows the update with its body, or without one that retention has dropped.
static enum tern_result show(struct tern_db *db, struct tern_db_update *update,
                             const struct visitor *visitor)
{
    struct tern_body_row row;
    struct tern_query query = tern_table_select(db, &tern_table_update_bodies, "WHERE id = ?");
    tern_query_bind(&query, update->id);
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

enum tern_result tern_db_update_each(struct tern_db *db, uint32_t round,
                                     enum tern_result (*visit)(void *ctx,
                                                               const struct tern_db_update *update),
                                     void *ctx)
{
    const struct visitor visitor = {visit, ctx};
    struct tern_db_update row;
    struct tern_query query =
        tern_table_select(db, &tern_table_updates,
                          "WHERE (round = ? AND merged = 0) OR (merged = ? AND merged > 0)"
                          " ORDER BY client, round");
    tern_query_bind(&query, round);
    tern_query_bind(&query, round);
    enum tern_result visited = TERN_OK;
    while (visited == TERN_OK && tern_table_next(&query, &tern_table_updates, &row)) {
        visited = show(db, &row, &visitor);
    }
    enum tern_result result = tern_query_end(&query);
    return result == TERN_OK ? visited : result;
}

enum tern_result tern_db_update_show(struct tern_db *db, uint32_t round, uint64_t client,
                                     enum tern_result (*visit)(void *ctx,
                                                               const struct tern_db_update *update),
                                     void *ctx)
{
    const struct visitor visitor = {visit, ctx};
    struct tern_db_update row;
    TERN_TRY(tern_db_update_find(db, round, client, &row));
    return show(db, &row, &visitor);
}
