#include "store/store_sqlite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum tern_result tern_db_fail(struct tern_db *db, int code)
{
    const char *sentence = sqlite3_errmsg(db->handle);
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        snprintf(db->error, sizeof db->error, "another process holds the database: %s", sentence);
        return TERN_ERR_BUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        db->damaged = true;
        snprintf(db->error, sizeof db->error,
                 "the database is damaged (%s); stop the service and restore a backup", sentence);
        return TERN_ERR_IO;
    case SQLITE_FULL:
        snprintf(db->error, sizeof db->error, "the disk is full; nothing of this was stored");
        return TERN_ERR_IO;
    case SQLITE_NOMEM:
        snprintf(db->error, sizeof db->error, "memory could not be had");
        return TERN_ERR_NO_MEMORY;
    default:
        snprintf(db->error, sizeof db->error, "SQLite: %s (%d)", sentence, code);
        return TERN_ERR_IO;
    }
}

enum tern_result tern_db_exec(struct tern_db *db, const char *sql)
{
    int code = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? TERN_OK : tern_db_fail(db, code);
}

static int prepare(struct tern_db *db, const char *sql, unsigned flags, sqlite3_stmt **statement)
{
    return sqlite3_prepare_v3(db->handle, sql, -1, flags, statement, NULL);
}

// The cached statement of this literal, made when it is new; NULL when it is in use (a visitor
// called the same operation again) or the cache is full.
static int from_cache(struct tern_db *db, const char *sql, sqlite3_stmt **statement)
{
    *statement = NULL;
    for (size_t i = 0; i < db->cached; i++) {
        if (db->cache[i].sql == sql) {
            *statement = sqlite3_stmt_busy(db->cache[i].statement) ? NULL : db->cache[i].statement;
            return SQLITE_OK;
        }
    }
    if (db->cached == TERN_DB_STATEMENTS) {
        return SQLITE_OK;
    }
    int code = prepare(db, sql, SQLITE_PREPARE_PERSISTENT, statement);
    if (code == SQLITE_OK) {
        db->cache[db->cached].sql = sql;
        db->cache[db->cached].statement = *statement;
        db->cached++;
    }
    return code;
}

struct tern_query tern_query_read(struct tern_db *db, const char *sql)
{
    struct tern_query query = {.db = db, .result = TERN_OK};
    int code = from_cache(db, sql, &query.statement);
    if (code == SQLITE_OK && query.statement == NULL) {
        query.temporary = true;
        code = prepare(db, sql, 0, &query.statement);
    }
    if (code != SQLITE_OK) {
        query.result = tern_db_fail(db, code);
    }
    return query;
}

struct tern_query tern_query_write(struct tern_db *db, const char *sql)
{
    if (!db->in_transaction) {
        snprintf(db->error, sizeof db->error, "a write outside a transaction");
        return (struct tern_query){.db = db, .result = TERN_ERR_STATE};
    }
    struct tern_query query = tern_query_read(db, sql);
    query.writes = true;
    return query;
}

// --- Parameters

static void refuse(struct tern_query *query, enum tern_result result, const char *sentence)
{
    query->result = result;
    snprintf(query->db->error, sizeof query->db->error, "%s", sentence);
}

static void bound(struct tern_query *query, int code)
{
    if (code != SQLITE_OK) {
        query->result = tern_db_fail(query->db, code);
    }
}

void tern_query_bind(struct tern_query *query, uint64_t value)
{
    int at = ++query->next;
    if (query->result != TERN_OK) {
        return;
    }
    if (value > INT64_MAX) {
        refuse(query, TERN_ERR_ARGUMENT, "a number is above 2^63 - 1");
        return;
    }
    bound(query, sqlite3_bind_int64(query->statement, at, (sqlite3_int64)value));
}

void tern_query_bind_real(struct tern_query *query, double value)
{
    int at = ++query->next;
    if (query->result != TERN_OK) {
        return;
    }
    if (!isfinite(value)) {
        refuse(query, TERN_ERR_NON_FINITE, "a number is not finite");
        return;
    }
    bound(query, sqlite3_bind_double(query->statement, at, value));
}

void tern_query_bind_text(struct tern_query *query, const char *text, size_t size)
{
    int at = ++query->next;
    if (query->result != TERN_OK) {
        return;
    }
    size_t len = strnlen(text, size);
    if (len == size) {
        refuse(query, TERN_ERR_ARGUMENT, "a text is longer than its field");
        return;
    }
    bound(query, sqlite3_bind_text(query->statement, at, text, (int)len, SQLITE_STATIC));
}

void tern_query_bind_blob(struct tern_query *query, const void *data, size_t len)
{
    int at = ++query->next;
    if (query->result != TERN_OK) {
        return;
    }
    if (len > TERN_DB_BLOB_MAX) {
        refuse(query, TERN_ERR_TOO_LARGE, "more than 1,000,000,000 bytes in one value");
        return;
    }
    // A NULL pointer would be stored as NULL instead of as no bytes.
    const void *bytes = len == 0 ? "" : data;
    bound(query, sqlite3_bind_blob64(query->statement, at, bytes, len, SQLITE_STATIC));
}

// --- Rows

bool tern_query_row(struct tern_query *query)
{
    if (query->result != TERN_OK) {
        return false;
    }
    query->next = 0;
    int code = sqlite3_step(query->statement);
    if (code == SQLITE_ROW) {
        return true;
    }
    if (code != SQLITE_DONE) {
        query->result = tern_db_fail(query->db, code);
    }
    return false;
}

void tern_query_damaged(struct tern_query *query, const char *where)
{
    if (query->result != TERN_OK) {
        return;
    }
    query->result = TERN_ERR_IO;
    query->db->damaged = true;
    snprintf(query->db->error, sizeof query->db->error,
             "the database is damaged: %s; stop the service and restore a backup", where);
}

static void damaged_column(struct tern_query *query, int column)
{
    char where[128];
    snprintf(where, sizeof where, "%s holds a value that is out of range",
             sqlite3_column_name(query->statement, column));
    tern_query_damaged(query, where);
}

static uint64_t integer(struct tern_query *query, uint64_t maximum)
{
    int at = query->next++;
    if (query->result != TERN_OK) {
        return 0;
    }
    sqlite3_int64 value = sqlite3_column_int64(query->statement, at);
    if (value < 0 || (uint64_t)value > maximum) {
        damaged_column(query, at);
        return 0;
    }
    return (uint64_t)value;
}

uint64_t tern_query_u64(struct tern_query *query)
{
    return integer(query, INT64_MAX);
}

uint32_t tern_query_u32(struct tern_query *query)
{
    return (uint32_t)integer(query, UINT32_MAX);
}

bool tern_query_bool(struct tern_query *query)
{
    return integer(query, 1) == 1;
}

float tern_query_real(struct tern_query *query)
{
    int at = query->next++;
    if (query->result != TERN_OK) {
        return 0.0F;
    }
    float value = (float)sqlite3_column_double(query->statement, at);
    if (!isfinite(value)) {
        damaged_column(query, at);
        return 0.0F;
    }
    return value;
}

void tern_query_text(struct tern_query *query, char *dst, size_t size)
{
    int at = query->next++;
    dst[0] = '\0';
    if (query->result != TERN_OK) {
        return;
    }
    const unsigned char *text = sqlite3_column_text(query->statement, at);
    int len = sqlite3_column_bytes(query->statement, at);
    if (text == NULL || len < 0 || (size_t)len >= size) {
        damaged_column(query, at);
        return;
    }
    memcpy(dst, text, (size_t)len);
    dst[len] = '\0';
}

const uint8_t *tern_query_blob(struct tern_query *query, size_t *len)
{
    int at = query->next++;
    *len = 0;
    if (query->result != TERN_OK) {
        return NULL;
    }
    const void *blob = sqlite3_column_blob(query->statement, at);
    *len = (size_t)sqlite3_column_bytes(query->statement, at);
    return blob;
}

void tern_query_hash(struct tern_query *query, uint8_t hash[TERN_SHA256_SIZE])
{
    int at = query->next;
    size_t len;
    const uint8_t *blob = tern_query_blob(query, &len);
    memset(hash, 0, TERN_SHA256_SIZE);
    if (query->result != TERN_OK) {
        return;
    }
    if (blob == NULL || len != TERN_SHA256_SIZE) {
        damaged_column(query, at);
        return;
    }
    memcpy(hash, blob, TERN_SHA256_SIZE);
}

// --- End

// Whether a write failed in a way that leaves the transaction without something it should hold.
static bool dooms(const struct tern_query *query)
{
    return query->writes && (query->result == TERN_ERR_IO || query->result == TERN_ERR_BUSY ||
                             query->result == TERN_ERR_NO_MEMORY);
}

enum tern_result tern_query_end(struct tern_query *query)
{
    if (dooms(query)) {
        query->db->doomed = true;
    }
    if (query->temporary) {
        sqlite3_finalize(query->statement);
    } else if (query->statement != NULL) {
        sqlite3_reset(query->statement);
        sqlite3_clear_bindings(query->statement);
    }
    query->statement = NULL;
    return query->result;
}

enum tern_result tern_query_missing(struct tern_query *query)
{
    enum tern_result result = tern_query_end(query);
    return result == TERN_OK ? TERN_ERR_NOT_FOUND : result;
}

// A broken constraint undoes its own statement only; the transaction may go on.
static enum tern_result broken_constraint(struct tern_db *db, int code)
{
    snprintf(db->error, sizeof db->error, "%s", sqlite3_errmsg(db->handle));
    switch (code) {
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_ROWID:
        return TERN_ERR_CONFLICT;
    case SQLITE_CONSTRAINT_FOREIGNKEY:
        return TERN_ERR_NOT_FOUND;
    default:
        return TERN_ERR_ARGUMENT;
    }
}

enum tern_result tern_query_run(struct tern_query *query)
{
    if (query->result != TERN_OK) {
        return tern_query_end(query);
    }
    int code = sqlite3_step(query->statement);
    if ((code & 0xff) == SQLITE_CONSTRAINT) {
        query->result = broken_constraint(query->db, code);
    } else if (code != SQLITE_DONE) {
        query->result = tern_db_fail(query->db, code);
    }
    return tern_query_end(query);
}

enum tern_result tern_query_run_one(struct tern_query *query)
{
    enum tern_result result = tern_query_run(query);
    if (result == TERN_OK && sqlite3_changes(query->db->handle) == 0) {
        return TERN_ERR_NOT_FOUND;
    }
    return result;
}
