// Life of a database: making, opening, transactions; the federation, and files that came with its
// model.
#include "store/room.h"
#include "store/schema.h"

#include "store/sql_file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Files that came with the model

static enum tern_result put_file(struct tern_db *db, const char *name, const void *data, size_t len)
{
    struct tern_file_row row = {.body = {data, len}};
    snprintf(row.name, sizeof row.name, "%s", name);
    tern_sha256(data, len, row.sha256);
    return tern_table_insert(db, &tern_table_files, &row);
}

// A copy of the bytes that a row has, with a NUL behind them, if their hash is right.
static uint8_t *copy_file(struct tern_query *query, const struct tern_file_row *row)
{
    uint8_t sha256[TERN_SHA256_SIZE];
    tern_sha256(row->body.data, row->body.len, sha256);
    if (memcmp(sha256, row->sha256, sizeof sha256) != 0) {
        tern_query_damaged(query, "the hash of what came with the model is wrong");
        return NULL;
    }
    uint8_t *copy = malloc(row->body.len + 1);
    if (copy == NULL) {
        query->result = TERN_ERR_NO_MEMORY;
        return NULL;
    }
    if (row->body.len > 0) {
        memcpy(copy, row->body.data, row->body.len);
    }
    copy[row->body.len] = '\0';
    return copy;
}

// NOT_FOUND. *data is malloc'ed, or NULL on errors.
static enum tern_result get_file(struct tern_db *db, const char *name, uint8_t **data, size_t *len)
{
    struct tern_file_row row;
    struct tern_query query = tern_table_select(db, &tern_table_files, "WHERE name = ?");
    tern_query_bind_text(&query, name, TERN_FILE_NAME_MAX);
    *data = NULL;
    *len = 0;
    if (!tern_table_next(&query, &tern_table_files, &row)) {
        return tern_query_missing(&query);
    }
    *data = copy_file(&query, &row);
    *len = *data != NULL ? row.body.len : 0;
    return tern_query_end(&query);
}

enum tern_result tern_db_kept_get(struct tern_db *db, uint8_t **kept, size_t *len)
{
    return get_file(db, "kept", kept, len);
}

enum tern_result tern_db_scaling_get(struct tern_db *db, uint8_t **body, size_t *len)
{
    return get_file(db, "scaling", body, len);
}

enum tern_result tern_db_scaling_fix(struct tern_db *db, const uint8_t *body, size_t len)
{
    TERN_TRY(put_file(db, "scaling", body, len));
    struct tern_query query = tern_query_write(db->sql, "DELETE FROM statistics");
    return tern_query_post(&query);
}

static enum tern_result load_manifest(struct tern_db *db)
{
    uint8_t *metadata = NULL;
    size_t len;
    TERN_TRY(tern_db_may_miss(get_file(db, "metadata", &metadata, &len)));
    const enum tern_result result =
        tern_db_may_miss(get_file(db, "manifest", &db->manifest, &db->manifest_len));
    if (result != TERN_OK) {
        free(metadata);
        return result;
    }
    db->metadata = (char *)metadata;
    return TERN_OK;
}

// --- The federation

static enum tern_result read_federation(struct tern_db *db, struct tern_db_federation *federation)
{
    *federation = (struct tern_db_federation){0};
    struct tern_query query = tern_table_select(db, &tern_table_federation, "");
    return tern_table_one(&query, &tern_table_federation, federation);
}

enum tern_result tern_db_federation(struct tern_db *db, struct tern_db_federation *federation)
{
    TERN_TRY(read_federation(db, federation));
    if (db->manifest == NULL &&
        db->metadata == NULL) { // they never change, so that they are read once
        TERN_TRY(load_manifest(db));
    }
    federation->manifest = db->manifest;
    federation->manifest_len = db->manifest_len;
    federation->metadata = db->metadata;
    return TERN_OK;
}

enum tern_result tern_db_set_clock(struct tern_db *db, const struct tern_db_federation *clock)
{
    struct tern_db_federation row;
    TERN_TRY(read_federation(db, &row));
    memcpy(row.clock_boot, clock->clock_boot, sizeof row.clock_boot);
    row.clock_day_ms = clock->clock_day_ms;
    row.clock_steady_ms = clock->clock_steady_ms;
    return tern_table_put(db, &tern_table_federation, &row);
}

enum tern_result tern_db_set_copied(struct tern_db *db, const char *to, uint64_t now_ms)
{
    struct tern_db_federation row;
    TERN_TRY(read_federation(db, &row));
    snprintf(row.copied_to, sizeof row.copied_to, "%s", to);
    row.copied_ms = now_ms;
    return tern_table_put(db, &tern_table_federation, &row);
}

// A client that enrolled while the clock was ahead is seen after that whenever it comes: its time says
// nothing then.
enum tern_result tern_db_latest_ms(struct tern_db *db, uint64_t *latest_ms)
{
    *latest_ms = 0;
    struct tern_query query = tern_query_read(
        db->sql, "SELECT max(ms) FROM (SELECT coalesce(max(last_seen_ms), 0) AS ms FROM clients"
                 " WHERE last_seen_ms > created_ms + 1 UNION ALL"
                 " SELECT CASE WHEN closed_ms > opened_ms THEN closed_ms ELSE opened_ms END"
                 " FROM rounds WHERE round = (SELECT max(round) FROM rounds)) AS times");
    if (tern_query_row(&query)) {
        *latest_ms = tern_query_u64(&query);
    }
    return tern_query_end(&query);
}

// --- Making

// What a new database holds.
struct content {
    const struct tern_db_federation *federation;
    const float *weights; // of version 0; NULL: the seed makes them
    uint32_t count;
};

static enum tern_result insert_content(struct tern_db *db, const struct content *content)
{
    struct tern_db_federation row = *content->federation;
    TERN_TRY(tern_table_insert(db, &tern_table_federation, &row));
    if (row.manifest != NULL) {
        TERN_TRY(put_file(db, "manifest", row.manifest, row.manifest_len));
    }
    if (row.metadata != NULL) {
        TERN_TRY(put_file(db, "metadata", row.metadata, strlen(row.metadata)));
    }
    if (row.kept != NULL) {
        TERN_TRY(put_file(db, "kept", row.kept, row.kept_len));
    }
    return content->weights == NULL
               ? TERN_OK
               : tern_db_weights_put(db, TERN_WEIGHTS_INITIAL, 0, content->weights, content->count);
}

static enum tern_result fill(struct tern_sql *sql, void *ctx)
{
    struct tern_db db = {.sql = sql};
    TERN_TRY(tern_schema_create(sql));
    enum tern_result result = insert_content(&db, ctx);
    tern_db_forget(&db); // the connection asks for none of its texts again
    return result;
}

enum tern_result tern_db_create(const char *path, const struct tern_db_federation *federation,
                                const float *weights, uint32_t count, char why[256])
{
    struct content content = {federation, weights, count};
    return tern_sql_create(path, fill, &content, why);
}

// --- Opening

// Everything that may refuse the file comes before anything that changes it.
static enum tern_result prepare_current(struct tern_db *db)
{
    struct tern_db_federation federation;
    const enum tern_result result = read_federation(db, &federation);
    if (result == TERN_ERR_NOT_FOUND) {
        return tern_sql_fail(db->sql, TERN_ERR_IO, "it holds no federation; restore a backup");
    }
    TERN_TRY(result);
    return tern_sql_take(db->sql);
}

// One that is older is nobody's to look into before it is brought up to date.
static enum tern_result prepare_opened(struct tern_db *db, bool takes_older)
{
    TERN_TRY(tern_sql_use(db->sql, TERN_SQL_SHARED)); // its schema stays as it is from here on
    const enum tern_result result = tern_schema_current(db->sql, tern_schema_steps);
    db->is_older = result == TERN_ERR_STATE;
    if (db->is_older && takes_older) {
        return tern_sql_use(db->sql, TERN_SQL_UNUSED);
    }
    return result == TERN_OK ? prepare_current(db) : result;
}

typedef enum tern_result (*connect)(const char *path, struct tern_sql **out, char why[256]);

static enum tern_result open_by(connect open, bool takes_older, const char *path,
                                struct tern_db **out, char why[256])
{
    struct tern_db *db = calloc(1, sizeof *db);
    if (db == NULL) {
        snprintf(why, 256, "memory could not be had");
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result = open(path, &db->sql, why);
    if (result == TERN_OK) {
        result = prepare_opened(db, takes_older);
        if (result != TERN_OK) {
            tern_sql_damaged(db->sql); // says which of two things it was
            snprintf(why, 256, "%.80s: %.170s", path, tern_sql_error(db->sql));
        }
    }
    if (result != TERN_OK) {
        tern_db_close(db);
        return result;
    }
    *out = db;
    return TERN_OK;
}

enum tern_result tern_db_open(const char *path, struct tern_db **out, char why[256])
{
    return open_by(tern_sql_open, false, path, out, why);
}

enum tern_result tern_db_open_older(const char *path, struct tern_db **out, char why[256])
{
    return open_by(tern_sql_open, true, path, out, why);
}

bool tern_db_is_older(const struct tern_db *db)
{
    return db->is_older;
}

enum tern_result tern_db_take_upgraded(struct tern_db *db)
{
    if (!db->is_older) {
        return TERN_OK;
    }
    TERN_TRY(tern_schema_current(db->sql, tern_schema_steps));
    return prepare_opened(db, true);
}

enum tern_result tern_db_upgrade(struct tern_db *db)
{
    if (!db->is_older) {
        return TERN_OK;
    }
    TERN_TRY(tern_schema_migrate(db->sql, tern_schema_steps));
    db->is_older = false;
    return prepare_current(db);
}

enum tern_result tern_db_open_reading(const char *path, struct tern_db **out, char why[256])
{
    return open_by(tern_sql_open_reading, false, path, out, why);
}

enum tern_result tern_db_open_again(const char *path, struct tern_db **out, char why[256])
{
    return open_by(tern_sql_open_again, false, path, out, why);
}

enum tern_result tern_db_open_hurried(const char *path, struct tern_db **out, char why[256])
{
    return open_by(tern_sql_open_hurried, false, path, out, why);
}

void tern_db_forget(struct tern_db *db)
{
    tern_table_free_texts(db);
    free(db->evaluators.ids);
    free(db->manifest);
    free(db->metadata);
}

void tern_db_close(struct tern_db *db)
{
    if (db == NULL) {
        return;
    }
    tern_sql_close(db->sql);
    tern_db_forget(db);
    free(db);
}

// --- What the connection does by itself

bool tern_db_is_url(const char *path)
{
    return tern_sql_is_url(path);
}

enum tern_result tern_db_hold(struct tern_db *db)
{
    return tern_sql_hold(db->sql);
}

bool tern_db_is_displaced(const struct tern_db *db)
{
    return tern_sql_is_displaced(db->sql);
}

const char *tern_db_path(const struct tern_db *db)
{
    return tern_sql_path(db->sql);
}

const char *tern_db_error(const struct tern_db *db)
{
    return tern_sql_error(db->sql);
}

bool tern_db_damaged(struct tern_db *db)
{
    return tern_sql_damaged(db->sql);
}

enum tern_result tern_db_begin(struct tern_db *db)
{
    db->is_current = false;
    return tern_sql_begin(db->sql);
}

enum tern_result tern_db_begin_reading(struct tern_db *db)
{
    return tern_sql_begin_reading(db->sql);
}

enum tern_result tern_db_commit(struct tern_db *db)
{
    enum tern_result result = tern_totals_write(db);
    tern_totals_forget(db);
    if (result == TERN_OK) {
        result = tern_sql_commit(db->sql);
    } else {
        tern_sql_rollback(db->sql);
        result = TERN_ERR_IO;
    }
    db->knows_dropped = db->knows_dropped && result == TERN_OK;
    return result;
}

void tern_db_rollback(struct tern_db *db)
{
    tern_totals_forget(db);
    db->knows_dropped = false;
    tern_sql_rollback(db->sql);
}

enum tern_result tern_db_conclude(struct tern_db *db, enum tern_result result)
{
    if (result == TERN_OK) {
        return tern_db_commit(db);
    }
    tern_db_rollback(db);
    return result;
}

// A database writes the number, also when that stays as it is.
enum tern_result tern_db_touch(struct tern_db *db)
{
    int64_t version;
    TERN_TRY(tern_sql_version(db->sql, &version));
    return tern_sql_set_version(db->sql, (int)version);
}

bool tern_db_changed_by_others(struct tern_db *db)
{
    const bool changed = tern_sql_changed_by_others(db->sql);
    db->is_current = true;
    db->knows_dropped = db->knows_dropped && !changed;
    return changed;
}

enum tern_result tern_db_backup(struct tern_db *db, const char *path, char why[256])
{
    return tern_sql_backup(db->sql, path, why);
}

enum tern_result tern_db_settle(struct tern_db *db)
{
    return tern_sql_settle(db->sql);
}

enum tern_result tern_db_copy(const char *from, const char *to, char why[256])
{
    return tern_sql_file_copy(from, to, why);
}

enum tern_result tern_db_replace(const char *file, const char *path, const char *kept,
                                 char why[256])
{
    return tern_sql_file_replace(file, path, kept, why);
}

void tern_db_remove(const char *path)
{
    tern_sql_file_remove(path);
}

enum tern_result tern_db_quick_check(struct tern_db *db)
{
    return tern_sql_quick_check(db->sql);
}

enum tern_result tern_db_bytes(struct tern_db *db, uint64_t *bytes)
{
    return tern_sql_bytes(db->sql, bytes);
}

enum tern_result tern_db_free_bytes(struct tern_db *db, uint64_t *bytes)
{
    return tern_sql_free_bytes(db->sql, bytes);
}

// --- Room

#define STEP_SHARE                                                                                 \
    4 // of the free bytes: the log holds the pages of a step, and the file the new ones
#define STEP_LEAST (UINT64_C(64) << 10)

enum tern_result tern_db_room(struct tern_db *db, struct tern_db_room *room)
{
    return tern_sql_room(db->sql, room);
}

enum tern_result tern_db_step_bytes(struct tern_db *db, uint64_t most, uint64_t *bytes)
{
    struct tern_db_room room;
    TERN_TRY(tern_db_room(db, &room));
    const uint64_t share = room.free / STEP_SHARE;
    const uint64_t step = share < most ? share : most;
    *bytes = step > STEP_LEAST ? step : STEP_LEAST;
    return TERN_OK;
}

bool tern_db_make_room(struct tern_db *db)
{
    return tern_sql_make_room(db->sql);
}
