// The database as a whole: opening, transactions, the row of the federation, room on the disk, the check, and sums over
// history, which transactions gather and their commits write.
#include "store/tables.h"

#include "util/crc32c.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- The federation

// Reads the federation's row, without the files that came with the model. NOT_FOUND
static enum tern_result read_federation(struct tern_db *db, struct tern_db_federation *federation)
{
    *federation = (struct tern_db_federation){0};
    return tern_table_get(db, &tern_table_federation, "", NULL, federation);
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

enum tern_result tern_db_set_restored(struct tern_db *db, uint64_t now_ms)
{
    struct tern_db_federation row;
    TERN_TRY(read_federation(db, &row));
    row.restored_ms = now_ms;
    return tern_table_put(db, &tern_table_federation, &row);
}

// Leaves out clients whose last request is not later than their enrolment, which may have been while the clock was ahead.
enum tern_result tern_db_latest_ms(struct tern_db *db, uint64_t *latest_ms)
{
    static const char text[] =
        "SELECT max(ms) FROM (SELECT coalesce(max(last_seen_ms), 0) AS ms FROM clients"
        " WHERE last_seen_ms > created_ms + 1 UNION ALL"
        " SELECT CASE WHEN closed_ms > opened_ms THEN closed_ms ELSE opened_ms END"
        " FROM rounds WHERE round = (SELECT max(round) FROM rounds)) AS times";
    *latest_ms = 0;
    return tern_db_may_miss(tern_query_get(tern_db_read(db, text, NULL), latest_ms));
}

enum tern_result tern_db_set_checked(struct tern_db *db, uint64_t now_ms)
{
    struct tern_db_federation row;
    TERN_TRY(read_federation(db, &row));
    row.checked_ms = now_ms;
    return tern_table_put(db, &tern_table_federation, &row);
}

// --- Opening

// Checks that there is a federation before the first write.
static enum tern_result prepare_current(struct tern_db *db)
{
    struct tern_db_federation federation;
    const enum tern_result result = read_federation(db, &federation);
    if (result == TERN_ERR_NOT_FOUND) {
        return tern_sql_fail(db->sql, TERN_ERR_IO,
                             "the database has no federation; restore a backup");
    }
    TERN_TRY(result);
    return tern_sql_use(db->sql, TERN_SQL_WRITTEN);
}

// Reads no table of a database with an older schema, which needs an upgrade first.
static enum tern_result prepare_opened(struct tern_db *db, bool takes_older)
{
    TERN_TRY(tern_sql_use(db->sql, TERN_SQL_SHARED)); // nobody changes the schema from here on
    const enum tern_result result = tern_schema_current(db->sql, tern_schema_steps);
    db->is_older = result == TERN_ERR_STATE;
    if (db->is_older && takes_older) {
        return tern_sql_use(db->sql, TERN_SQL_UNUSED);
    }
    return result == TERN_OK ? prepare_current(db) : result;
}

enum tern_result tern_db_open(const char *path, unsigned flags, struct tern_db **out, char why[256])
{
    struct tern_db *db = calloc(1, sizeof *db);
    if (db == NULL) {
        snprintf(why, 256, "there is not enough memory");
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result = tern_sql_open(path, flags, &db->sql, why);
    if (result == TERN_OK) {
        result = prepare_opened(db, (flags & TERN_DB_OLDER) != 0);
        if (result != TERN_OK) {
            tern_sql_damaged(db->sql); // sets the sentence if the database is damaged
            snprintf(why, 256, "%.80s: %.170s", path, db->sql->error);
        }
    }
    if (result != TERN_OK) {
        tern_db_close(db);
        return result;
    }
    *out = db;
    return TERN_OK;
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

void tern_db_close(struct tern_db *db)
{
    if (db == NULL) {
        return;
    }
    tern_sql_close(db->sql);
    tern_db_forget(db);
    free(db);
}

// --- Operations of the connection

static void forget_cached(struct tern_db *db)
{
    db->knows_totals = false;
    db->knows_evaluators = false;
    db->next_update = 0;
}

void tern_db_refresh(struct tern_db *db)
{
    if (!db->is_current) {
        forget_cached(db);
    }
    db->is_current = true;
}

enum tern_result tern_db_hold(struct tern_db *db)
{
    return tern_sql_use(db->sql, TERN_SQL_SERVED);
}

bool tern_db_is_displaced(const struct tern_db *db)
{
    return db->sql->displaced;
}

const char *tern_db_path(const struct tern_db *db)
{
    return db->sql->path;
}

const char *tern_db_error(const struct tern_db *db)
{
    return db->sql->error;
}

bool tern_db_damaged(struct tern_db *db)
{
    return tern_sql_damaged(db->sql);
}

enum tern_result tern_db_begin(struct tern_db *db)
{
    db->is_current = false;
    return tern_sql_begin(db->sql, TERN_SQL_WRITE);
}

enum tern_result tern_db_begin_reading(struct tern_db *db)
{
    return tern_sql_begin(db->sql, TERN_SQL_READ);
}

enum tern_result tern_db_commit(struct tern_db *db)
{
    if (tern_deferred_flush(db) != TERN_OK) {
        tern_db_rollback(db);
        return TERN_ERR_IO;
    }
    const enum tern_result result = tern_sql_commit(db->sql);
    if (result != TERN_OK) {
        tern_db_rollback(db);
    }
    return result;
}

void tern_db_rollback(struct tern_db *db)
{
    tern_deferred_forget(db);
    db->is_current = false;
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

// Writes the version of the schema unchanged: a database writes an unchanged value, too.
enum tern_result tern_db_touch(struct tern_db *db)
{
    int64_t version;
    TERN_TRY(tern_sql_version(db->sql, &version));
    return tern_sql_set_version(db->sql, (int)version);
}

bool tern_db_changed_by_others(struct tern_db *db)
{
    const bool changed = db->sql->driver->changed_by_others(db->sql);
    if (changed) {
        forget_cached(db);
    }
    db->is_current = true;
    return changed;
}

enum tern_result tern_db_backup(struct tern_db *db, const char *path, char why[256])
{
    if (db->sql->driver->state(db->sql) != TERN_SQL_IDLE) {
        snprintf(why, 256, "a transaction is open, within which no backup can be made");
        return TERN_ERR_STATE;
    }
    if (db->sql->driver->disk == NULL) {
        snprintf(why, 256,
                 "the database is in PostgreSQL (store.url): pg_dump makes copies of it "
                 "(docs/OPERATIONS.md, \"PostgreSQL\")");
        return TERN_ERR_STATE;
    }
    return db->sql->driver->disk->backup(db->sql, path, why);
}

enum tern_result tern_db_settle(struct tern_db *db)
{
    const struct tern_sql_disk *disk = db->sql->driver->disk;
    return disk != NULL
               ? disk->settle(db->sql)
               : tern_sql_fail(db->sql, TERN_ERR_STATE,
                               "the database is in PostgreSQL, which manages its files itself");
}

void tern_db_stop_when(struct tern_db *db, const atomic_bool *stop)
{
    db->sql->stop = stop;
}

static enum tern_result count_bytes(struct tern_db *db, const char *text, uint64_t *bytes)
{
    *bytes = 0;
    return text != NULL ? tern_query_get(tern_query_read(db->sql, text, NULL), bytes) : TERN_OK;
}

enum tern_result tern_db_bytes(struct tern_db *db, uint64_t *bytes)
{
    return count_bytes(db, db->sql->driver->dialect.bytes, bytes);
}

enum tern_result tern_db_free_bytes(struct tern_db *db, uint64_t *bytes)
{
    return count_bytes(db, db->sql->driver->dialect.free_bytes, bytes);
}

// --- Room

#define STEP_SHARE                                                                                 \
    4 // a step writes at most one in so many of the free bytes: its pages take room in the log and in the file
#define STEP_LEAST (UINT64_C(64) << 10)

enum tern_result tern_db_room(struct tern_db *db, struct tern_db_room *room)
{
    const struct tern_sql_disk *disk = db->sql->driver->disk;
    *room = (struct tern_db_room){.disk = UINT64_MAX, .free = UINT64_MAX};
    return disk != NULL ? disk->room(db->sql, room) : TERN_OK;
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
    const struct tern_sql_disk *disk = db->sql->driver->disk;
    return disk != NULL && disk->make_room(db->sql);
}

// Does nothing with PostgreSQL, whose vacuum frees space.
enum tern_result tern_db_shrink_some(struct tern_db *db, uint64_t bytes, bool *more)
{
    const struct tern_sql_disk *disk = db->sql->driver->disk;
    *more = false;
    return disk != NULL ? disk->shrink(db->sql, bytes, more) : TERN_OK;
}

// --- Check
//
// SQLite checks pages and indexes, but returns whatever a page of values holds. So values that have a hash or a checksum are
// compared with it.

// sql: returns rows of a hash and the bytes that it belongs to. problem: the sentence if they differ.
static enum tern_result check_hashes(struct tern_db *db, const char *sql, const char *problem)
{
    struct tern_query query = tern_db_read(db, sql, NULL);
    while (tern_query_row(&query)) {
        uint8_t stored[TERN_SHA256_SIZE];
        uint8_t digest[TERN_SHA256_SIZE];
        size_t len = 0;
        tern_query_hash(&query, stored);
        const uint8_t *body = tern_query_blob(&query, &len);
        tern_sha256(body, len, digest);
        if (memcmp(digest, stored, sizeof digest) != 0) {
            tern_query_damaged(&query, problem);
        }
    }
    return tern_query_end(&query);
}

static enum tern_result check_vectors(struct tern_db *db)
{
    struct tern_query query = tern_db_read(db, "SELECT crc32c, body FROM weights", NULL);
    while (tern_query_row(&query)) {
        const uint64_t stored = tern_query_number(&query, UINT32_MAX);
        size_t len = 0;
        const uint8_t *body = tern_query_blob(&query, &len);
        if (tern_crc32c(0, body, len) != stored) {
            tern_query_damaged(&query, "the checksum of a stored vector is wrong");
        }
    }
    return tern_query_end(&query);
}

enum tern_result tern_db_check(struct tern_db *db)
{
    TERN_TRY(db->sql->driver->check(db->sql, TERN_SQL_CHECK_ALL));
    TERN_TRY(check_vectors(db));
    TERN_TRY(check_hashes(db, "SELECT sha256, body FROM updates JOIN update_bodies USING (id)",
                          "the stored bytes of an update differ from those received"));
    TERN_TRY(check_hashes(db, "SELECT sha256, body FROM downloads JOIN download_bodies USING (id)",
                          "the bytes of a download do not match its name"));
    TERN_TRY(tern_downloads_check_parts(db));
    TERN_TRY(check_hashes(db, "SELECT sha256, body FROM secure_sums",
                          "the stored sum of a secure round differs from the one that was made"));
    TERN_TRY(check_hashes(db, "SELECT sha256, body FROM statistics",
                          "the stored statistics of a client differ from those received"));
    return check_hashes(db, "SELECT sha256, body FROM files",
                        "the hash of a file that came with the model, or of its scaling, is wrong");
}

enum tern_result tern_db_quick_check(struct tern_db *db)
{
    return db->sql->driver->check(db->sql, TERN_SQL_CHECK_PAGES);
}
