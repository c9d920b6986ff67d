// Rounds, assignments and updates.
#include "store/store_sqlite.h"

#include <assert.h>
#include <string.h>

#define ROUND_COLUMNS                                                                              \
    "round, state, base_version, target, quorum, opened_ms, deadline_ms, closed_ms, applied,"      \
    " mean_loss, attempts, strategy, server_learning_rate, codec_up, codec_down,"                  \
    " learning_rate, strategy_parameters, median_loss, variance, local_steps"

static void read_round(struct tern_query *query, struct tern_db_round *round)
{
    round->round = tern_query_u32(query);
    round->state = (enum tern_db_round_state)tern_query_u32(query);
    round->base_version = tern_query_u32(query);
    round->target = tern_query_u32(query);
    round->quorum = tern_query_u32(query);
    round->opened_ms = tern_query_u64(query);
    round->deadline_ms = tern_query_u64(query);
    round->closed_ms = tern_query_u64(query);
    round->applied = tern_query_u32(query);
    round->mean_loss = tern_query_real(query);
    round->attempts = tern_query_u32(query);
    tern_query_text(query, round->strategy, sizeof round->strategy);
    round->server_learning_rate = tern_query_real(query);
    tern_query_text(query, round->codec_up, sizeof round->codec_up);
    tern_query_text(query, round->codec_down, sizeof round->codec_down);
    round->learning_rate = tern_query_real(query);
    tern_query_text(query, round->strategy_parameters, sizeof round->strategy_parameters);
    round->median_loss = tern_query_real(query);
    round->variance = tern_query_real(query);
    round->local_steps = tern_query_real(query);
    if (round->state > TERN_ROUND_COMMITTED) {
        tern_query_damaged(query, "rounds.state holds a value that is out of range");
    }
}

static_assert(TERN_ROUND_COMMITTED == 1, "the statement below says 1");

enum tern_result tern_db_round_put(struct tern_db *db, const struct tern_db_round *round)
{
    struct tern_query query =
        tern_query_write(db, "INSERT INTO rounds (" ROUND_COLUMNS
                             ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                             " ON CONFLICT (round) DO UPDATE SET state = excluded.state,"
                             " base_version = excluded.base_version, target = excluded.target,"
                             " quorum = excluded.quorum, opened_ms = excluded.opened_ms,"
                             " deadline_ms = excluded.deadline_ms, closed_ms = excluded.closed_ms,"
                             " applied = excluded.applied, mean_loss = excluded.mean_loss,"
                             " attempts = excluded.attempts, strategy = excluded.strategy,"
                             " server_learning_rate = excluded.server_learning_rate,"
                             " codec_up = excluded.codec_up, codec_down = excluded.codec_down,"
                             " learning_rate = excluded.learning_rate,"
                             " strategy_parameters = excluded.strategy_parameters,"
                             " median_loss = excluded.median_loss,"
                             " variance = excluded.variance, local_steps = excluded.local_steps"
                             " WHERE rounds.state <> 1 OR excluded.state = 1");
    tern_query_bind(&query, round->round);
    tern_query_bind(&query, (uint64_t)round->state);
    tern_query_bind(&query, round->base_version);
    tern_query_bind(&query, round->target);
    tern_query_bind(&query, round->quorum);
    tern_query_bind(&query, round->opened_ms);
    tern_query_bind(&query, round->deadline_ms);
    tern_query_bind(&query, round->closed_ms);
    tern_query_bind(&query, round->applied);
    tern_query_bind_real(&query, (double)round->mean_loss);
    tern_query_bind(&query, round->attempts);
    tern_query_bind_text(&query, round->strategy, sizeof round->strategy);
    tern_query_bind_real(&query, (double)round->server_learning_rate);
    tern_query_bind_text(&query, round->codec_up, sizeof round->codec_up);
    tern_query_bind_text(&query, round->codec_down, sizeof round->codec_down);
    tern_query_bind_real(&query, (double)round->learning_rate);
    tern_query_bind_text(&query, round->strategy_parameters, sizeof round->strategy_parameters);
    tern_query_bind_real(&query, (double)round->median_loss);
    tern_query_bind_real(&query, (double)round->variance);
    tern_query_bind_real(&query, (double)round->local_steps);
    enum tern_result result = tern_query_run_one(&query);
    return result == TERN_ERR_NOT_FOUND ? TERN_ERR_CONFLICT : result;
}

static enum tern_result read_one_round(struct tern_query *query, struct tern_db_round *out)
{
    if (!tern_query_row(query)) {
        return tern_query_missing(query);
    }
    read_round(query, out);
    return tern_query_end(query);
}

enum tern_result tern_db_round_get(struct tern_db *db, uint32_t round, struct tern_db_round *out)
{
    struct tern_query query =
        tern_query_read(db, "SELECT " ROUND_COLUMNS " FROM rounds WHERE round = ?");
    tern_query_bind(&query, round);
    return read_one_round(&query, out);
}

enum tern_result tern_db_round_last(struct tern_db *db, struct tern_db_round *out)
{
    struct tern_query query =
        tern_query_read(db, "SELECT " ROUND_COLUMNS " FROM rounds ORDER BY round DESC LIMIT 1");
    return read_one_round(&query, out);
}

enum tern_result tern_db_round_each(struct tern_db *db,
                                    bool (*visit)(void *ctx, const struct tern_db_round *round),
                                    void *ctx)
{
    struct tern_query query =
        tern_query_read(db, "SELECT " ROUND_COLUMNS " FROM rounds ORDER BY round");
    bool more = true;
    while (more && tern_query_row(&query)) {
        struct tern_db_round round;
        read_round(&query, &round);
        more = query.result == TERN_OK && visit(ctx, &round);
    }
    return tern_query_end(&query);
}

// --- Assignments

#define ASSIGNMENT_COLUMNS                                                                         \
    "round, client, state, local_steps, invited_ms, tasked_ms, reported_ms, base, base_version,"   \
    " codec, directive, factor"

enum tern_result tern_db_assignment_put(struct tern_db *db,
                                        const struct tern_db_assignment *assignment)
{
    struct tern_query query = tern_query_write(
        db, "INSERT INTO assignments (" ASSIGNMENT_COLUMNS
            ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (round, client) DO UPDATE"
            " SET state = excluded.state, local_steps = excluded.local_steps,"
            " invited_ms = excluded.invited_ms, tasked_ms = excluded.tasked_ms,"
            " reported_ms = excluded.reported_ms, base = excluded.base,"
            " base_version = excluded.base_version, codec = excluded.codec,"
            " directive = excluded.directive, factor = excluded.factor");
    tern_query_bind(&query, assignment->round);
    tern_query_bind(&query, assignment->client);
    tern_query_bind(&query, (uint64_t)assignment->state);
    tern_query_bind(&query, assignment->local_steps);
    tern_query_bind(&query, assignment->invited_ms);
    tern_query_bind(&query, assignment->tasked_ms);
    tern_query_bind(&query, assignment->reported_ms);
    tern_query_bind_blob(&query, assignment->base, TERN_SHA256_SIZE);
    tern_query_bind(&query, assignment->base_version);
    tern_query_bind_text(&query, assignment->codec, sizeof assignment->codec);
    tern_query_bind(&query, assignment->directive);
    tern_query_bind_real(&query, (double)assignment->factor);
    return tern_query_run(&query);
}

static void read_assignment(struct tern_query *query, struct tern_db_assignment *assignment)
{
    assignment->round = tern_query_u32(query);
    assignment->client = tern_query_u64(query);
    assignment->state = (enum tern_db_assignment_state)tern_query_u32(query);
    assignment->local_steps = tern_query_u32(query);
    assignment->invited_ms = tern_query_u64(query);
    assignment->tasked_ms = tern_query_u64(query);
    assignment->reported_ms = tern_query_u64(query);
    tern_query_hash(query, assignment->base);
    assignment->base_version = tern_query_u32(query);
    tern_query_text(query, assignment->codec, sizeof assignment->codec);
    assignment->directive = tern_query_u32(query);
    assignment->factor = tern_query_real(query);
    if (assignment->state > TERN_ASSIGNMENT_REPLACED) {
        tern_query_damaged(query, "assignments.state holds a value that is out of range");
    }
}

enum tern_result tern_db_assignment_get(struct tern_db *db, uint32_t round, uint64_t client,
                                        struct tern_db_assignment *out)
{
    struct tern_query query = tern_query_read(
        db, "SELECT " ASSIGNMENT_COLUMNS " FROM assignments WHERE round = ? AND client = ?");
    tern_query_bind(&query, round);
    tern_query_bind(&query, client);
    if (!tern_query_row(&query)) {
        return tern_query_missing(&query);
    }
    read_assignment(&query, out);
    return tern_query_end(&query);
}

enum tern_result tern_db_assignment_each(struct tern_db *db, uint32_t round,
                                         bool (*visit)(void *ctx,
                                                       const struct tern_db_assignment *assignment),
                                         void *ctx)
{
    struct tern_query query = tern_query_read(
        db, "SELECT " ASSIGNMENT_COLUMNS " FROM assignments WHERE round = ? ORDER BY client");
    tern_query_bind(&query, round);
    bool more = true;
    while (more && tern_query_row(&query)) {
        struct tern_db_assignment assignment;
        read_assignment(&query, &assignment);
        more = query.result == TERN_OK && visit(ctx, &assignment);
    }
    return tern_query_end(&query);
}

// --- Updates

static enum tern_result put_body(struct tern_db *db, uint64_t id,
                                 const struct tern_db_update *update)
{
    struct tern_query query =
        tern_query_write(db, "INSERT INTO update_bodies (id, body) VALUES (?, ?)");
    tern_query_bind(&query, id);
    tern_query_bind_blob(&query, update->body, update->body_len);
    return tern_query_run(&query);
}

enum tern_result tern_db_update_put(struct tern_db *db, const struct tern_db_update *update)
{
    if (update->body_len > TERN_DB_BLOB_MAX) {
        return TERN_ERR_TOO_LARGE;
    }
    struct tern_query query = tern_query_write(
        db, "INSERT INTO updates (round, client, sequence, sha256, size, received_ms, merged)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)");
    tern_query_bind(&query, update->round);
    tern_query_bind(&query, update->client);
    tern_query_bind(&query, update->sequence);
    tern_query_bind_blob(&query, update->sha256, TERN_SHA256_SIZE);
    tern_query_bind(&query, update->body_len);
    tern_query_bind(&query, update->received_ms);
    tern_query_bind(&query, update->merged);
    TERN_TRY(tern_query_run(&query));
    return put_body(db, (uint64_t)sqlite3_last_insert_rowid(db->handle), update);
}

static void read_update(struct tern_query *query, struct tern_db_update *update)
{
    update->round = tern_query_u32(query);
    update->client = tern_query_u64(query);
    update->sequence = tern_query_u32(query);
    tern_query_hash(query, update->sha256);
    update->body = NULL;
    update->body_len = (size_t)tern_query_u64(query);
    update->received_ms = tern_query_u64(query);
    update->merged = tern_query_u32(query);
}

enum tern_result tern_db_update_find(struct tern_db *db, uint32_t round, uint64_t client,
                                     struct tern_db_update *out)
{
    struct tern_query query =
        tern_query_read(db, "SELECT round, client, sequence, sha256, size, received_ms, merged"
                            " FROM updates WHERE round = ? AND client = ?");
    tern_query_bind(&query, round);
    tern_query_bind(&query, client);
    if (!tern_query_row(&query)) {
        return tern_query_missing(&query);
    }
    read_update(&query, out);
    return tern_query_end(&query);
}

// Takes the body of the row that query stands on and proves that it is what was received.
static void read_body(struct tern_query *query, struct tern_db_update *update)
{
    if (sqlite3_column_type(query->statement, query->next) == SQLITE_NULL) {
        return; // dropped by retention
    }
    size_t len;
    const uint8_t *body = tern_query_blob(query, &len);
    uint8_t digest[TERN_SHA256_SIZE];
    tern_sha256(body, len, digest);
    if (len != update->body_len || memcmp(digest, update->sha256, sizeof digest) != 0) {
        tern_query_damaged(query, "the stored bytes of an update differ from those received");
        return;
    }
    update->body = len == 0 ? (const uint8_t *)"" : body;
}

enum tern_result tern_db_update_each(struct tern_db *db, uint32_t round,
                                     enum tern_result (*visit)(void *ctx,
                                                               const struct tern_db_update *update),
                                     void *ctx)
{
    struct tern_query query = tern_query_read(
        db, "SELECT round, client, sequence, sha256, size, received_ms, merged, body"
            " FROM updates LEFT JOIN update_bodies USING (id)"
            " WHERE (round = ? AND merged = 0) OR (merged = ? AND merged > 0)"
            " ORDER BY client, round");
    tern_query_bind(&query, round);
    tern_query_bind(&query, round);
    enum tern_result visited = TERN_OK;
    while (visited == TERN_OK && tern_query_row(&query)) {
        struct tern_db_update update;
        read_update(&query, &update);
        read_body(&query, &update);
        visited = query.result == TERN_OK ? visit(ctx, &update) : query.result;
    }
    enum tern_result result = tern_query_end(&query);
    return result == TERN_OK ? visited : result;
}

enum tern_result tern_db_update_prune(struct tern_db *db, uint32_t before_round)
{
    struct tern_query query =
        tern_query_write(db, "DELETE FROM update_bodies WHERE id IN"
                             " (SELECT id FROM updates WHERE round < ? AND merged < ?)");
    tern_query_bind(&query, before_round);
    tern_query_bind(&query, before_round);
    return tern_query_run(&query);
}
