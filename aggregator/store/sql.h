// SQL as the store uses it: a connection, its transactions, prepared statements that are kept, and
// values that are bound and read in order with every range checked. sql.c has what databases have in
// common; behind it stand sql_sqlite.c and sql_postgres.c, which implement sql_driver.h and are the only
// files that know their database. Only store/ includes this. Thread rule: as store.h.
//
// Statements are written with ? or ?N for parameters, in the SQL that SQLite and PostgreSQL share. Where
// they share none, struct tern_sql_dialect has the words of each.
#ifndef TERN_STORE_SQL_H
#define TERN_STORE_SQL_H

#include "result.h"
#include "store/room.h"
#include "util/sha256.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tern_sql;           // a connection
struct tern_sql_statement; // prepared

// --- Life

// A path is that of SQLite's file, or the URL of a database of PostgreSQL: postgresql://...
bool tern_sql_is_url(const char *path);

// Makes a new database at `path` that holds what fill() writes, within a transaction; it appears
// whole or not at all. Errors of fill(); TERN_ERR_CONFLICT  there is something at `path` already
// TERN_ERR_CONFIG  a URL that this build has no driver for, or that holds a password
TERN_MUST_USE enum tern_result
tern_sql_create(const char *path, enum tern_result (*fill)(struct tern_sql *sql, void *ctx),
                void *ctx, char why[256]);

// Opens a database and changes nothing of it. TERN_ERR_NOT_FOUND; TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_sql_open(const char *path, struct tern_sql **out,
                                             char why[256]);
// Likewise a database that is only read, also one on a read-only file system or without permission to
// write. Where it has no log, and no file can be made beside it, nobody may write it meanwhile.
// TERN_ERR_IO  also: it has a log without the index, and no file can be made
TERN_MUST_USE enum tern_result tern_sql_open_reading(const char *path, struct tern_sql **out,
                                                     char why[256]);
// Another connection of a process that has the database open. Nothing of it but SQLite may open the file
// meanwhile: closing that would drop SQLite's locks, and the next verb that ends would take the log away.
// TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_sql_open_again(const char *path, struct tern_sql **out,
                                                   char why[256]);
// Likewise, as tern_db_open_hurried() says.
TERN_MUST_USE enum tern_result tern_sql_open_hurried(const char *path, struct tern_sql **out,
                                                     char why[256]);
// From here on it is written to, durably, where it can be: once the caller knows what it has opened.
TERN_MUST_USE enum tern_result tern_sql_take(struct tern_sql *sql);
void tern_sql_close(struct tern_sql *sql); // rolls back; NULL is nothing
const char *tern_sql_path(const struct tern_sql *sql);

// The sentence of the last failure, and setting it: returns `result`.
const char *tern_sql_error(const struct tern_sql *sql);
enum tern_result tern_sql_fail(struct tern_sql *sql, enum tern_result result, const char *sentence);
// Likewise for what damage has done to the database: TERN_ERR_IO, and tern_sql_damaged() is true.
enum tern_result tern_sql_fail_damaged(struct tern_sql *sql, const char *where);
// Outside of transactions: it may read all of the database to find out.
bool tern_sql_damaged(struct tern_sql *sql);
// As tern_db_is_displaced() says.
bool tern_sql_is_displaced(const struct tern_sql *sql);

// The number of the schema, which is the program's to set; 0 in a new database.
TERN_MUST_USE enum tern_result tern_sql_version(struct tern_sql *sql, int64_t *version);
TERN_MUST_USE enum tern_result tern_sql_set_version(struct tern_sql *sql, int version);

// How this program uses the database: beside others that know its schema, or alone, to change that. Waits for others
// that are in the way for some seconds. Nothing for a file, beside which there is a lock.
// TERN_ERR_STATE  they still are; the sentence names them
enum tern_sql_use { TERN_SQL_UNUSED, TERN_SQL_SHARED, TERN_SQL_ALONE };
TERN_MUST_USE enum tern_result tern_sql_use(struct tern_sql *sql, enum tern_sql_use use);

// As tern_db_hold(), _begin(), _begin_reading(), _commit(), _rollback(), _changed_by_others(), _backup(),
// _settle(), _stop_when() and, but for what is hashed, _check() of store.h say.
TERN_MUST_USE enum tern_result tern_sql_hold(struct tern_sql *sql);
TERN_MUST_USE enum tern_result tern_sql_begin(struct tern_sql *sql);
TERN_MUST_USE enum tern_result tern_sql_begin_reading(struct tern_sql *sql);
// As tern_db_begin_apart(), _follow(), _belong(), _attend() and _await() of nodes.h say.
TERN_MUST_USE enum tern_result tern_sql_begin_apart(struct tern_sql *sql, bool durable);
TERN_MUST_USE enum tern_result tern_sql_follow(struct tern_sql *sql, bool follows);
TERN_MUST_USE enum tern_result tern_sql_belong(struct tern_sql *sql, uint32_t node);
TERN_MUST_USE enum tern_result tern_sql_attend(struct tern_sql *sql, uint32_t node);
TERN_MUST_USE enum tern_result tern_sql_await(struct tern_sql *sql, int wake, uint32_t ms,
                                              void (*hear)(void *ctx, const char *message),
                                              void *ctx);
TERN_MUST_USE enum tern_result tern_sql_commit(struct tern_sql *sql);
void tern_sql_rollback(struct tern_sql *sql);
// Whether a transaction is open, and none of its writes failed in a way that dooms it.
bool tern_sql_may_commit(const struct tern_sql *sql);
bool tern_sql_changed_by_others(struct tern_sql *sql);
TERN_MUST_USE enum tern_result tern_sql_backup(struct tern_sql *sql, const char *path,
                                               char why[256]);
TERN_MUST_USE enum tern_result tern_sql_settle(struct tern_sql *sql);
TERN_MUST_USE enum tern_result tern_sql_check(struct tern_sql *sql);
TERN_MUST_USE enum tern_result tern_sql_quick_check(struct tern_sql *sql);
void tern_sql_stop_when(struct tern_sql *sql, const atomic_bool *stop);

// Gives up to `bytes` of space that is free in the database back. *more: there is more of it,
// and it can be given back.
TERN_MUST_USE enum tern_result tern_sql_shrink(struct tern_sql *sql, uint64_t bytes, bool *more);

// Bytes that the database takes.
TERN_MUST_USE enum tern_result tern_sql_bytes(struct tern_sql *sql, uint64_t *bytes);

TERN_MUST_USE enum tern_result tern_sql_free_bytes(struct tern_sql *sql, uint64_t *bytes);

// As tern_db_room() and tern_db_make_room() in room.h.
TERN_MUST_USE enum tern_result tern_sql_room(struct tern_sql *sql, struct tern_db_room *room);
bool tern_sql_make_room(struct tern_sql *sql);

// Runs statements without parameters and rows, which are not kept.
TERN_MUST_USE enum tern_result tern_sql_run(struct tern_sql *sql, const char *text);

// --- Types

enum tern_sql_type {
    TERN_SQL_ID, // a number that the database gives to a new row; its primary key
    TERN_SQL_INTEGER,
    TERN_SQL_REAL,
    TERN_SQL_TEXT,
    TERN_SQL_BLOB,
    TERN_SQL_TYPES,
};

// What databases write in their own words.
struct tern_sql_dialect {
    const char *types[TERN_SQL_TYPES];
    // What ends the definition of a table. [1]: small rows that are always found by their primary key
    const char *options[2];
    // A statement that follows it for each column of large values, in which # is the table and @ the column;
    // NULL: none
    const char *large_values;
    // The TERN_SQL_ID of a new row, as an expression in which # is the table; NULL: the database gives it
    // without being asked
    const char *new_id;
    // Writes the definition of a trigger of that name: after an event ("INSERT ON rounds") the statement runs.
    void (*trigger)(char *text, size_t size, const char *name, const char *event,
                    const char *statement);
    // Who serves the database and who waits for that, the first one first: name, address or "", whether it
    // leads, whether it follows, since when it is connected, in Unix ms, its number, or 0, and for how many ms it has
    // been silent and has not worked; NULL: a database of one machine
    const char *nodes;
    // Ends the session of the node ?1 where that leads and has been silent for ?2 ms: how many were ended; NULL likewise
    const char *end_leader;
    // Writes, which tell all that attend a text, and which drop the answers and the settings of nodes that are not there;
    // NULL likewise
    const char *tell;
    const char *sweep;
    const char *sweep_settings;
};
const struct tern_sql_dialect *tern_sql_dialect(const struct tern_sql *sql);

#define TERN_SQL_BLOB_MAX 1000000000u // bytes of one value

// --- Queries

// One use of a statement. Binding and reading go from left to right. The first failure sticks in
// `result`; all later calls then do nothing, so that only tern_query_end() needs to be looked at.
struct tern_query {
    struct tern_sql *sql;
    struct tern_sql_statement *statement;
    int next; // parameter or column
    bool writes;
    bool loads; // tern_query_load()
    enum tern_result result;
};

// text: lives as long as the connection; its address is what the kept statement is found by. A
// write outside a transaction is TERN_ERR_STATE.
struct tern_query tern_query_read(struct tern_sql *sql, const char *text);
struct tern_query tern_query_write(struct tern_sql *sql, const char *text);

// TERN_ERR_ARGUMENT  above 2^63 - 1; no NUL within size; TERN_ERR_NON_FINITE; TERN_ERR_TOO_LARGE
// The bytes of a text or blob are borrowed until tern_query_end().
void tern_query_bind(struct tern_query *query, uint64_t value);
void tern_query_bind_bits(struct tern_query *query, uint64_t value); // all 64 of them count
void tern_query_bind_real(struct tern_query *query, double value);
void tern_query_bind_text(struct tern_query *query, const char *text, size_t size);
void tern_query_bind_blob(struct tern_query *query, const void *data, size_t len);

// Adds many rows to a table, as fast as the database takes them: binds all columns that are named ("a, b"), in
// their order, and adds a row, as often as there are rows; tern_query_end() then says whether all were added. Nothing
// else is asked of the connection meanwhile, and on an error the transaction cannot be committed. A write outside a
// transaction is TERN_ERR_STATE.
struct tern_query tern_query_load(struct tern_sql *sql, const char *table, const char *columns,
                                  int count);
void tern_query_add(struct tern_query *query);

// Steps. True when there is a row to read.
bool tern_query_row(struct tern_query *query);

// A value that does not fit is TERN_ERR_IO: the database is damaged.
uint64_t tern_query_number(struct tern_query *query, uint64_t most); // most < 2^63
uint64_t tern_query_u64(struct tern_query *query);
uint64_t tern_query_bits(struct tern_query *query);
float tern_query_real(struct tern_query *query);
void tern_query_text(struct tern_query *query, char *dst, size_t size);
void tern_query_hash(struct tern_query *query, uint8_t hash[TERN_SHA256_SIZE]);
// Valid until the next step. NULL: there is none, or no byte in it.
const uint8_t *tern_query_blob(struct tern_query *query, size_t *len);

// Reads the bytes of one value piece by piece: `column` of the row with that TERN_SQL_ID, `size`
// bytes long. NOT_FOUND; TERN_ERR_IO  it has another length; the result of take, if not TERN_OK
TERN_MUST_USE enum tern_result
tern_sql_stream(struct tern_sql *sql, const char *table, const char *column, uint64_t id,
                size_t size, enum tern_result (*take)(void *ctx, const uint8_t *data, size_t len),
                void *ctx);

// Reads the `len` bytes from `at` on of such a value to dst. Errors likewise
TERN_MUST_USE enum tern_result tern_sql_piece(struct tern_sql *sql, const char *table,
                                              const char *column, uint64_t id, size_t size,
                                              size_t at, size_t len, uint8_t *dst);

// Adds a row of an `id` and a value of `size` bytes in `column`, which is written piece by piece: view points
// *data at `len` of them from `at` on, valid until its next call. On an error, among them that of view, the
// transaction cannot be committed.
TERN_MUST_USE enum tern_result tern_sql_put_pieces(
    struct tern_sql *sql, const char *table, const char *column, uint64_t id, size_t size,
    enum tern_result (*view)(void *ctx, size_t at, size_t len, const uint8_t **data), void *ctx);

// Records that the database is damaged, with words that say where.
void tern_query_damaged(struct tern_query *query, const char *where);

// Gives the statement back and returns the result. A broken constraint was TERN_ERR_CONFLICT (the
// key is taken), TERN_ERR_NOT_FOUND (what it refers to is missing) or TERN_ERR_ARGUMENT (others).
enum tern_result tern_query_end(struct tern_query *query);
// Likewise, after a look-up without a row: TERN_ERR_NOT_FOUND when nothing failed.
enum tern_result tern_query_missing(struct tern_query *query);
// Runs a statement without rows to its end.
enum tern_result tern_query_run(struct tern_query *query);
// Likewise a write whose outcome nobody waits for, because the caller knows that it works: a database to which each
// statement is a trip may say TERN_OK before it has done it, and does several in one trip. What fails nevertheless ends
// the transaction, which then cannot be committed: it is the result of this call, or TERN_ERR_IO (_BUSY, _NO_MEMORY) of
// every statement from then on and, at the latest, of the commit, with a sentence that names the write. What comes
// later in the transaction sees what it has written.
enum tern_result tern_query_post(struct tern_query *query);
// Likewise, and it has failed, by TERN_ERR_NOT_FOUND where it is known at once, when no row was changed.
enum tern_result tern_query_post_one(struct tern_query *query);
// Likewise, and TERN_ERR_NOT_FOUND when no row was changed.
enum tern_result tern_query_run_one(struct tern_query *query);
// The TERN_SQL_ID of the row that was added last.
uint64_t tern_sql_last_id(struct tern_sql *sql);

#endif
