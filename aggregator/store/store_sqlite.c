// Life of a database and its transactions.
#include "store/store_sqlite.h"

#include "store/migrations.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUSY_TIMEOUT_MS 5000

// Pages of the log after which SQLite moves them into the file: 64 MiB of 8 KiB pages. Each move
// costs two more syncs, so under load it must not come with every few commits.
#define SETTINGS                                                                                   \
    "PRAGMA synchronous = FULL;"                                                                   \
    "PRAGMA foreign_keys = ON;"                                                                    \
    "PRAGMA trusted_schema = OFF;"                                                                 \
    "PRAGMA cell_size_check = ON;"                                                                 \
    "PRAGMA wal_autocheckpoint = 8192;"                                                            \
    "PRAGMA journal_size_limit = 67108864;"

static struct tern_db *connection_new(const char *path, char why[256])
{
    struct tern_db *db = calloc(1, sizeof *db);
    if (db == NULL) {
        snprintf(why, 256, "memory could not be had");
        return NULL;
    }
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(path, &db->handle, flags, NULL) != SQLITE_OK) {
        snprintf(why, 256, "cannot open %s: %s", path, sqlite3_errmsg(db->handle));
        tern_db_close(db);
        return NULL;
    }
    sqlite3_extended_result_codes(db->handle, 1);
    sqlite3_busy_timeout(db->handle, BUSY_TIMEOUT_MS);
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    return db;
}

static enum tern_result pragma_value(struct tern_db *db, const char *sql, int64_t *value)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
    }
    if (code == SQLITE_ROW) {
        *value = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    return code == SQLITE_ROW ? TERN_OK : tern_db_fail(db, code);
}

static enum tern_result apply_step(struct tern_db *db, const char *sql, int version)
{
    char pragma[64];
    snprintf(pragma, sizeof pragma, "PRAGMA user_version = %d", version);
    TERN_TRY(tern_db_exec(db, sql));
    return tern_db_exec(db, pragma);
}

static enum tern_result apply_steps(struct tern_db *db, const char *const *steps, int count)
{
    int64_t version = 0; // read inside the transaction: another process may have been first
    TERN_TRY(pragma_value(db, "PRAGMA user_version", &version));
    for (int i = (int)version; i < count; i++) {
        TERN_TRY(apply_step(db, steps[i], i + 1));
    }
    return TERN_OK;
}

static enum tern_result known_version(struct tern_db *db, int count, int64_t *version)
{
    TERN_TRY(pragma_value(db, "PRAGMA user_version", version));
    if (*version >= 0 && *version <= count) {
        return TERN_OK;
    }
    snprintf(db->error, sizeof db->error,
             "the database has version %lld, this program knows up to %d; install a newer Tern",
             (long long)*version, count);
    return TERN_ERR_UNKNOWN;
}

enum tern_result tern_db_migrate(struct tern_db *db, const char *const *steps, int count)
{
    int64_t version = 0;
    TERN_TRY(known_version(db, count, &version));
    if (version == count) {
        return TERN_OK;
    }
    TERN_TRY(tern_db_begin(db));
    enum tern_result result = apply_steps(db, steps, count);
    if (result != TERN_OK) {
        tern_db_rollback(db);
        return result;
    }
    return tern_db_commit(db);
}

static enum tern_result insert_federation(struct tern_db *db,
                                          const struct tern_db_federation *federation)
{
    struct tern_query query =
        tern_query_write(db, "INSERT INTO federation (model_spec, seed, model_hash, created_ms, id)"
                             " VALUES (?, ?, ?, ?, 1)");
    tern_query_bind_text(&query, federation->model_spec, sizeof federation->model_spec);
    query.next++; // all 64 bits of the seed count, which SQLite keeps as a signed number
    if (query.result == TERN_OK) {
        sqlite3_bind_int64(query.statement, query.next, (sqlite3_int64)federation->seed);
    }
    tern_query_bind_blob(&query, federation->model_hash, TERN_SHA256_SIZE);
    tern_query_bind(&query, federation->created_ms);
    return tern_query_run(&query);
}

// What a new file holds.
struct content {
    const struct tern_db_federation *federation;
    const float *weights; // of version 0; NULL: the seed makes them
    uint32_t count;
};

static enum tern_result insert_content(struct tern_db *db, const struct content *content)
{
    TERN_TRY(insert_federation(db, content->federation));
    if (content->federation->manifest != NULL) {
        TERN_TRY(tern_db_manifest_put(db, content->federation));
    }
    if (content->federation->kept != NULL) {
        TERN_TRY(tern_db_kept_put(db, content->federation));
    }
    return content->weights == NULL
               ? TERN_OK
               : tern_db_weights_put(db, TERN_WEIGHTS_INITIAL, 0, content->weights, content->count);
}

static enum tern_result fill_new(struct tern_db *db, const struct content *content)
{
    char identity[128];
    snprintf(identity, sizeof identity, "PRAGMA page_size = 8192; PRAGMA application_id = %d",
             TERN_DB_APPLICATION_ID);
    TERN_TRY(tern_db_exec(db, identity));
    TERN_TRY(tern_db_exec(db, "PRAGMA journal_mode = WAL;" SETTINGS));
    TERN_TRY(tern_db_migrate(db, tern_db_migrations, tern_db_migration_count));
    TERN_TRY(tern_db_begin(db));
    enum tern_result result = insert_content(db, content);
    if (result != TERN_OK) {
        tern_db_rollback(db);
        return result;
    }
    return tern_db_commit(db);
}

static enum tern_result temporary_name(const char *path, char name[PATH_MAX], char why[256])
{
    int len = snprintf(name, PATH_MAX, "%s.new-%ld", path, (long)getpid());
    if (len < 0 || len >= PATH_MAX) {
        snprintf(why, 256, "the path of the database is too long");
        return TERN_ERR_ARGUMENT;
    }
    return TERN_OK;
}

static enum tern_result create(const char *path, const struct content *content, char why[256])
{
    char temporary[PATH_MAX];
    TERN_TRY(temporary_name(path, temporary, why));
    if (access(path, F_OK) == 0) {
        snprintf(why, 256, "%s is there already", path);
        return TERN_ERR_CONFLICT;
    }
    TERN_TRY(tern_db_file_make(temporary, why));
    struct tern_db *db = connection_new(temporary, why);
    enum tern_result result = TERN_ERR_IO;
    if (db != NULL) {
        result = fill_new(db, content);
        snprintf(why, 256, "%s", db->error);
        tern_db_close(db); // the last connection moves the log into the file and removes it
    }
    if (result != TERN_OK) {
        unlink(temporary);
        return result;
    }
    return tern_db_file_publish(temporary, path, why);
}

enum tern_result tern_db_create(const char *path, const struct tern_db_federation *federation,
                                char why[256])
{
    const struct content content = {.federation = federation};
    return create(path, &content, why);
}

enum tern_result tern_db_create_with_weights(const char *path,
                                             const struct tern_db_federation *federation,
                                             const float *weights, uint32_t count, char why[256])
{
    const struct content content = {federation, weights, count};
    return create(path, &content, why);
}

// Of a file of any version: one that is older has no manifest.
static enum tern_result read_federation(struct tern_db *db, struct tern_db_federation *federation)
{
    struct tern_query query = tern_query_read(
        db, "SELECT model_spec, seed, model_hash, created_ms FROM federation WHERE id = 1");
    if (!tern_query_row(&query)) {
        return tern_query_missing(&query);
    }
    *federation = (struct tern_db_federation){0};
    tern_query_text(&query, federation->model_spec, sizeof federation->model_spec);
    federation->seed = (uint64_t)sqlite3_column_int64(query.statement, query.next++);
    tern_query_hash(&query, federation->model_hash);
    federation->created_ms = tern_query_u64(&query);
    return tern_query_end(&query);
}

// Everything that may refuse the file comes before anything that changes it.
static enum tern_result prepare_opened(struct tern_db *db)
{
    int64_t version = 0;
    TERN_TRY(known_version(db, tern_db_migration_count, &version));
    struct tern_db_federation federation;
    enum tern_result result = read_federation(db, &federation);
    if (result == TERN_ERR_NOT_FOUND) {
        snprintf(db->error, sizeof db->error, "it holds no federation; restore a backup");
        return TERN_ERR_IO;
    }
    TERN_TRY(result);
    // A copy made by tern_db_backup() comes without a log; from here on it has one.
    TERN_TRY(tern_db_exec(db, "PRAGMA journal_mode = WAL;" SETTINGS));
    TERN_TRY(tern_db_migrate(db, tern_db_migrations, tern_db_migration_count));
    return pragma_value(db, "PRAGMA data_version", &db->data_version);
}

enum tern_result tern_db_open(const char *path, struct tern_db **out, char why[256])
{
    TERN_TRY(tern_db_file_check(path, why));
    struct tern_db *db = connection_new(path, why);
    if (db == NULL) {
        return TERN_ERR_IO;
    }
    enum tern_result result = prepare_opened(db);
    if (result != TERN_OK) {
        snprintf(why, 256, "%.120s: %.130s", path, db->error);
        tern_db_close(db);
        return result;
    }
    *out = db;
    return TERN_OK;
}

void tern_db_close(struct tern_db *db)
{
    if (db == NULL) {
        return;
    }
    for (size_t i = 0; i < db->cached; i++) {
        sqlite3_finalize(db->cache[i].statement);
    }
    sqlite3_close(db->handle); // an open transaction is rolled back
    free(db->manifest);
    free(db->metadata);
    free(db);
}

const char *tern_db_error(const struct tern_db *db)
{
    return db->error;
}

bool tern_db_damaged(const struct tern_db *db)
{
    return db->damaged;
}

enum tern_result tern_db_federation(struct tern_db *db, struct tern_db_federation *federation)
{
    TERN_TRY(read_federation(db, federation));
    return tern_db_manifest_get(db, federation);
}

static enum tern_result begin_with(struct tern_db *db, const char *sql)
{
    if (!sqlite3_get_autocommit(db->handle)) {
        snprintf(db->error, sizeof db->error, "a transaction is open already");
        return TERN_ERR_STATE;
    }
    struct tern_query query = tern_query_read(db, sql);
    return tern_query_run(&query);
}

enum tern_result tern_db_begin(struct tern_db *db)
{
    TERN_TRY(begin_with(db, "BEGIN IMMEDIATE"));
    db->in_transaction = true;
    db->doomed = false;
    return TERN_OK;
}

enum tern_result tern_db_begin_reading(struct tern_db *db)
{
    return begin_with(db, "BEGIN");
}

enum tern_result tern_db_commit(struct tern_db *db)
{
    if (!db->in_transaction) {
        snprintf(db->error, sizeof db->error, "no transaction is open");
        return TERN_ERR_STATE;
    }
    // After some failures SQLite has rolled back by itself; a commit would then report success for
    // nothing.
    if (db->doomed || sqlite3_get_autocommit(db->handle)) {
        tern_db_rollback(db);
        return TERN_ERR_IO;
    }
    struct tern_query query = tern_query_read(db, "COMMIT");
    enum tern_result result = tern_query_run(&query);
    if (result != TERN_OK) {
        tern_db_rollback(db);
        return result;
    }
    db->in_transaction = false;
    return TERN_OK;
}

void tern_db_rollback(struct tern_db *db)
{
    if (!sqlite3_get_autocommit(db->handle)) {
        sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    }
    db->in_transaction = false;
    db->doomed = false;
}

bool tern_db_changed_by_others(struct tern_db *db)
{
    int64_t version = db->data_version;
    // A reading that fails counts as a change: looking once more costs little, missing a revocation
    // much.
    enum tern_result result = pragma_value(db, "PRAGMA data_version", &version);
    bool changed = result != TERN_OK || version != db->data_version;
    db->data_version = version;
    return changed;
}

static enum tern_result vacuum_into(struct tern_db *db, const char *path)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db->handle, "VACUUM INTO ?", -1, &statement, NULL);
    if (code == SQLITE_OK) {
        sqlite3_bind_text(statement, 1, path, -1, SQLITE_STATIC);
        code = sqlite3_step(statement);
    }
    sqlite3_finalize(statement);
    return code == SQLITE_DONE ? TERN_OK : tern_db_fail(db, code);
}

enum tern_result tern_db_backup(struct tern_db *db, const char *path, char why[256])
{
    char temporary[PATH_MAX];
    TERN_TRY(temporary_name(path, temporary, why));
    if (!sqlite3_get_autocommit(db->handle)) {
        snprintf(why, 256, "a transaction is open");
        return TERN_ERR_STATE;
    }
    if (access(path, F_OK) == 0) {
        snprintf(why, 256, "%s is there already", path);
        return TERN_ERR_CONFLICT;
    }
    TERN_TRY(tern_db_file_make(temporary, why));
    enum tern_result result = vacuum_into(db, temporary);
    if (result != TERN_OK) {
        snprintf(why, 256, "%s", db->error);
        unlink(temporary);
        return result;
    }
    return tern_db_file_publish(temporary, path, why);
}

enum tern_result tern_db_check(struct tern_db *db)
{
    struct tern_query query = tern_query_read(db, "PRAGMA integrity_check(1)");
    if (!tern_query_row(&query)) {
        return tern_query_missing(&query);
    }
    char finding[160] = "";
    snprintf(finding, sizeof finding, "%s", (const char *)sqlite3_column_text(query.statement, 0));
    if (strcmp(finding, "ok") != 0) {
        tern_query_damaged(&query, finding);
    }
    return tern_query_end(&query);
}
