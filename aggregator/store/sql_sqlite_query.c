// Statements of SQLite, their rows, and values in pieces.
#include "store/sql_sqlite.h"

#include <stdio.h>
#include <stdlib.h>

// --- Statements

static enum tern_result checked(struct tern_sql *sql, int code)
{
    return code == SQLITE_OK ? TERN_OK : tern_sqlite_failed(sql, code);
}

enum tern_result tern_sqlite_prepare(struct tern_sql *sql, const char *text, bool kept,
                                     void **handle)
{
    const unsigned flags = kept ? SQLITE_PREPARE_PERSISTENT : 0;
    sqlite3_stmt *statement = NULL;
    const int code = sqlite3_prepare_v3(tern_sqlite_handle(sql), text, -1, flags, &statement, NULL);
    *handle = statement;
    return checked(sql, code);
}

bool tern_sqlite_is_busy(void *handle)
{
    return sqlite3_stmt_busy(handle);
}

void tern_sqlite_reset(struct tern_sql *sql, void *handle)
{
    (void)sql;
    sqlite3_reset(handle);
    sqlite3_clear_bindings(handle);
}

void tern_sqlite_finish(struct tern_sql *sql, void *handle)
{
    (void)sql;
    sqlite3_finalize(handle);
}

enum tern_result tern_sqlite_bind_integer(struct tern_sql *sql, void *handle, int at, int64_t value)
{
    return checked(sql, sqlite3_bind_int64(handle, at, value));
}

enum tern_result tern_sqlite_bind_real(struct tern_sql *sql, void *handle, int at, double value)
{
    return checked(sql, sqlite3_bind_double(handle, at, value));
}

enum tern_result tern_sqlite_bind_text(struct tern_sql *sql, void *handle, int at, const char *text,
                                       size_t len)
{
    return checked(sql, sqlite3_bind_text(handle, at, text, (int)len, SQLITE_STATIC));
}

enum tern_result tern_sqlite_bind_blob(struct tern_sql *sql, void *handle, int at, const void *data,
                                       size_t len)
{
    return checked(sql, sqlite3_bind_blob64(handle, at, data, len, SQLITE_STATIC));
}

enum tern_result tern_sqlite_step(struct tern_sql *sql, void *handle, bool writes, bool *row)
{
    const int code = sqlite3_step(handle);
    (void)writes;
    *row = code == SQLITE_ROW;
    return *row || code == SQLITE_DONE ? TERN_OK : tern_sqlite_failed(sql, code);
}

bool tern_sqlite_has_changed(struct tern_sql *sql)
{
    return sqlite3_changes(tern_sqlite_handle(sql)) != 0;
}

uint64_t tern_sqlite_last_id(struct tern_sql *sql)
{
    return (uint64_t)sqlite3_last_insert_rowid(tern_sqlite_handle(sql));
}

int64_t tern_sqlite_integer(void *handle, int at)
{
    return sqlite3_column_int64(handle, at);
}

double tern_sqlite_real(void *handle, int at)
{
    return sqlite3_column_double(handle, at);
}

const char *tern_sqlite_text_at(void *handle, int at, size_t *len)
{
    const unsigned char *text = sqlite3_column_text(handle, at);
    *len = (size_t)sqlite3_column_bytes(handle, at);
    return (const char *)text;
}

const void *tern_sqlite_blob_at(void *handle, int at, size_t *len)
{
    const void *blob = sqlite3_column_blob(handle, at);
    *len = (size_t)sqlite3_column_bytes(handle, at);
    return blob;
}

const char *tern_sqlite_column_at(void *handle, int at)
{
    return sqlite3_column_name(handle, at);
}

// --- Rows in bulk

#define LOAD_MAX 4096 // of the statement

enum tern_result tern_sqlite_load(struct tern_sql *sql, const char *table, const char *columns,
                                  int count, void **handle)
{
    char text[LOAD_MAX];
    int len = snprintf(text, sizeof text, "INSERT INTO %s (%s) VALUES (", table, columns);
    for (int i = 0; i < count && len < LOAD_MAX; i++) {
        len += snprintf(text + len, sizeof text - (size_t)len, i + 1 < count ? "?, " : "?)");
    }
    return tern_sqlite_prepare(sql, text, true, handle);
}

enum tern_result tern_sqlite_load_row(struct tern_sql *sql, void *handle)
{
    bool row;
    TERN_TRY(tern_sqlite_step(sql, handle, true, &row));
    tern_sqlite_reset(sql, handle);
    return TERN_OK;
}

enum tern_result tern_sqlite_load_end(struct tern_sql *sql, void *handle, bool whole)
{
    (void)whole;
    tern_sqlite_finish(sql, handle);
    return TERN_OK;
}

// --- Values in pieces

static enum tern_result take_pieces(struct tern_sql *sql, sqlite3_blob *blob, size_t size,
                                    tern_sql_taker take_piece, void *ctx)
{
    uint8_t *piece = malloc(TERN_SQL_PIECE_BYTES);
    enum tern_result result = piece == NULL ? TERN_ERR_NO_MEMORY : TERN_OK;
    for (size_t done = 0; done < size && result == TERN_OK;) {
        const size_t len = size - done < TERN_SQL_PIECE_BYTES ? size - done : TERN_SQL_PIECE_BYTES;
        const int code = sqlite3_blob_read(blob, piece, (int)len, (int)done);
        result = code == SQLITE_OK ? take_piece(ctx, piece, len) : tern_sqlite_failed(sql, code);
        done += len;
    }
    free(piece);
    return result;
}

static enum tern_result open_value(struct tern_sql *sql, const char *table, const char *column,
                                   uint64_t id, size_t size, bool writes, sqlite3_blob **blob)
{
    const int code = sqlite3_blob_open(tern_sqlite_handle(sql), "main", table, column,
                                       (sqlite3_int64)id, writes, blob);
    if (code == SQLITE_ERROR) { // there is no such row
        return tern_sql_fail(sql, TERN_ERR_NOT_FOUND, sqlite3_errmsg(tern_sqlite_handle(sql)));
    }
    if (code != SQLITE_OK) {
        return tern_sqlite_failed(sql, code);
    }
    return (size_t)sqlite3_blob_bytes(*blob) == size
               ? TERN_OK
               : tern_sql_fail_damaged(sql, "a value is longer or shorter than its row says");
}

enum tern_result tern_sqlite_stream(struct tern_sql *sql, const char *table, const char *column,
                                    uint64_t id, size_t size, tern_sql_taker take_piece, void *ctx)
{
    sqlite3_blob *blob = NULL;
    enum tern_result result = open_value(sql, table, column, id, size, false, &blob);
    if (result == TERN_OK) {
        result = take_pieces(sql, blob, size, take_piece, ctx);
    }
    sqlite3_blob_close(blob);
    return result;
}

enum tern_result tern_sqlite_piece(struct tern_sql *sql, const char *table, const char *column,
                                   uint64_t id, size_t size, size_t at, size_t len, uint8_t *dst)
{
    sqlite3_blob *blob = NULL;
    enum tern_result result = open_value(sql, table, column, id, size, false, &blob);
    if (result == TERN_OK) {
        result = checked(sql, sqlite3_blob_read(blob, dst, (int)len, (int)at));
    }
    sqlite3_blob_close(blob);
    return result;
}

static enum tern_result fill(struct tern_sql *sql, sqlite3_blob *blob, size_t size,
                             tern_sql_viewer view, void *ctx)
{
    for (size_t done = 0; done < size;) {
        const size_t len = size - done < TERN_SQL_PIECE_BYTES ? size - done : TERN_SQL_PIECE_BYTES;
        const uint8_t *piece = NULL;
        TERN_TRY(view(ctx, done, len, &piece));
        const int code = sqlite3_blob_write(blob, piece, (int)len, (int)done);
        if (code != SQLITE_OK) {
            return tern_sqlite_failed(sql, code);
        }
        done += len;
    }
    return TERN_OK;
}

// A row of so many zeros, which are then written over.
static enum tern_result add_zeros(struct tern_sql *sql, const char *table, const char *column,
                                  uint64_t id, size_t size)
{
    char text[160];
    sqlite3_stmt *statement = NULL;
    snprintf(text, sizeof text, "INSERT INTO %s (id, %s) VALUES (?, zeroblob(?))", table, column);
    int code = sqlite3_prepare_v2(tern_sqlite_handle(sql), text, -1, &statement, NULL);
    if (code == SQLITE_OK) {
        sqlite3_bind_int64(statement, 1, (sqlite3_int64)id);
        sqlite3_bind_int64(statement, 2, (sqlite3_int64)size);
        code = sqlite3_step(statement);
    }
    const enum tern_result result = code == SQLITE_DONE ? TERN_OK : tern_sqlite_failed(sql, code);
    sqlite3_finalize(statement);
    return result;
}

enum tern_result tern_sqlite_put_pieces(struct tern_sql *sql, const char *table, const char *column,
                                        uint64_t id, size_t size, tern_sql_viewer view, void *ctx)
{
    sqlite3_blob *blob = NULL;
    TERN_TRY(add_zeros(sql, table, column, id, size));
    enum tern_result result = open_value(sql, table, column, id, size, true, &blob);
    if (result == TERN_OK) {
        result = fill(sql, blob, size, view, ctx);
    }
    sqlite3_blob_close(blob);
    return result;
}
