// What the files of SQLite's driver share: sql_sqlite_calls.c, what a call of SQLite's came to; above it
// sql_sqlite_query.c, statements, rows and values in pieces; sql_sqlite_damage.c, whether the file is sound;
// sql_sqlite_disk.c, its use of the disk; and sql_sqlite.c, its life, transactions and the driver. Only they include this.
#ifndef TERN_STORE_SQL_SQLITE_H
#define TERN_STORE_SQL_SQLITE_H

#include "store/room.h"
#include "store/sql_driver.h"
#include <sqlite3.h>

#define TERN_SQLITE_PAGE_BYTES 8192
#define TERN_SQLITE_BUSY_TIMEOUT_MS 5000

struct sqlite {
    struct tern_sql base;
    sqlite3 *handle;
    bool
        suspect; // SQLite has said that it is damaged, which it also does when the disk gives no answer
    int64_t data_version;
    uint64_t
        log_frames; // pages in the log since it was begun anew, as of this connection's last commit
    uint64_t grown; // bytes by which writing the log back extends the file, as of the same commit
    uint64_t pages; // of the database when the transaction began
    bool holds;     // a service holds the database, and makes the reserve
    bool full;      // something failed because the disk is full
};

static inline sqlite3 *tern_sqlite_handle(const struct tern_sql *sql)
{
    return ((const struct sqlite *)sql)->handle;
}

// --- Calls

// Maps SQLite's code for what just failed; the error has its sentence.
TERN_MUST_USE enum tern_result tern_sqlite_failed(struct tern_sql *sql, int code);
TERN_MUST_USE enum tern_result tern_sqlite_run(struct tern_sql *sql, const char *text);
// The number that a statement which is run once returns, with at most one text as its parameter.
TERN_MUST_USE enum tern_result tern_sqlite_number(struct tern_sql *sql, const char *text,
                                                  const char *parameter, int64_t *number);

// --- Use of the disk

// Whether the disk lacks room for a transaction of a few rows.
bool tern_sqlite_lacks_room(const struct tern_sql *sql);
enum tern_result tern_sqlite_room(struct tern_sql *sql, struct tern_db_room *room);
// Call once on a connection that writes.
void tern_sqlite_take_disk(struct tern_sql *sql);
// Makes the reserve file where the disk has plenty of room. at_once: even with little room, as large as fits.
void tern_sqlite_make_reserve(const struct tern_sql *sql, bool at_once);
// At the beginning of a transaction: notes the length of the file.
TERN_MUST_USE enum tern_result tern_sqlite_note_pages(struct tern_sql *sql);
// Before a commit: checks that the growth of the file can be written back on a full disk.
// TERN_ERR_IO  the growth does not fit
TERN_MUST_USE enum tern_result tern_sqlite_check_room(struct tern_sql *sql);
// After a commit: writes the log back once it has its share of the free bytes, or once the file must grow by half of
// the reserve. Truncates a log that is far larger.
void tern_sqlite_tend_log(struct tern_sql *sql);
// After a rollback because of a full disk: writes the log back and truncates it, with the reserve if necessary.
void tern_sqlite_recover(struct tern_sql *sql);
// As tern_db_make_room().
bool tern_sqlite_make_room(struct tern_sql *sql);
// After opening: removes the reserve where SQLite has no room for its index of the log. False: there still is no room.
bool tern_sqlite_wake(struct tern_sql *sql);
// Before a transaction of a verb: removes the reserve where a few rows have no room.
void tern_sqlite_find_room(struct tern_sql *sql);

// --- Whether it is sound, as struct tern_sql_driver says

enum tern_result tern_sqlite_check(struct tern_sql *sql);
enum tern_result tern_sqlite_quick_check(struct tern_sql *sql);
void tern_sqlite_stop_when(struct tern_sql *sql, const atomic_bool *stop);
bool tern_sqlite_is_damaged(struct tern_sql *sql);

// --- Statements, likewise

enum tern_result tern_sqlite_prepare(struct tern_sql *sql, const char *text, bool kept,
                                     void **handle);
bool tern_sqlite_is_busy(void *handle);
void tern_sqlite_reset(struct tern_sql *sql, void *handle);
void tern_sqlite_finish(struct tern_sql *sql, void *handle);
enum tern_result tern_sqlite_bind_integer(struct tern_sql *sql, void *handle, int at,
                                          int64_t value);
enum tern_result tern_sqlite_bind_real(struct tern_sql *sql, void *handle, int at, double value);
enum tern_result tern_sqlite_bind_text(struct tern_sql *sql, void *handle, int at, const char *text,
                                       size_t len);
enum tern_result tern_sqlite_bind_blob(struct tern_sql *sql, void *handle, int at, const void *data,
                                       size_t len);
enum tern_result tern_sqlite_step(struct tern_sql *sql, void *handle, bool writes, bool *row);
bool tern_sqlite_has_changed(struct tern_sql *sql);
uint64_t tern_sqlite_last_id(struct tern_sql *sql);
int64_t tern_sqlite_integer(void *handle, int at);
double tern_sqlite_real(void *handle, int at);
const char *tern_sqlite_text_at(void *handle, int at, size_t *len);
const void *tern_sqlite_blob_at(void *handle, int at, size_t *len);
const char *tern_sqlite_column_at(void *handle, int at);
enum tern_result tern_sqlite_load(struct tern_sql *sql, const char *table, const char *columns,
                                  int count, void **handle);
enum tern_result tern_sqlite_load_row(struct tern_sql *sql, void *handle);
enum tern_result tern_sqlite_load_end(struct tern_sql *sql, void *handle, bool whole);
enum tern_result tern_sqlite_stream(struct tern_sql *sql, const char *table, const char *column,
                                    uint64_t id, size_t size, tern_sql_taker take_piece, void *ctx);
enum tern_result tern_sqlite_piece(struct tern_sql *sql, const char *table, const char *column,
                                   uint64_t id, size_t size, size_t at, size_t len, uint8_t *dst);
enum tern_result tern_sqlite_put_pieces(struct tern_sql *sql, const char *table, const char *column,
                                        uint64_t id, size_t size, tern_sql_viewer view, void *ctx);

#endif
