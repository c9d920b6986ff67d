// SQL as the store uses it: one connection to a database, its transactions, prepared statements that are kept for reuse,
// and values that are bound and read in order with every range checked. sql.c has what all databases share. sqlite.c
// and postgres.c implement struct tern_sql_driver, and each is the only user of its library. Only store/ includes this.
// Thread rule: as store.h.
//
// Statements have ? or ?N for parameters and use the SQL that SQLite and PostgreSQL share. struct tern_sql_dialect has
// the words of each where they differ.
#ifndef TERN_STORE_SQL_H
#define TERN_STORE_SQL_H

#include "result.h"
#include "store/store.h"
#include "util/sha256.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct tern_sql; // a connection

// --- Types

enum tern_sql_type {
    TERN_SQL_ID, // the primary key, an integer that the database assigns to a new row
    TERN_SQL_INTEGER,
    TERN_SQL_REAL,
    TERN_SQL_TEXT,
    TERN_SQL_BLOB,
    TERN_SQL_TYPES,
};

#define TERN_SQL_BLOB_MAX 1000000000u // bytes of one value
#define TERN_SQL_PIECE_BYTES 262144u  // bytes that are read or written at once of a large value

// A parameter of a statement, or a column of a row. bytes and len belong to a text or blob.
struct tern_sql_value {
    enum tern_sql_type type; // never TERN_SQL_ID
    bool overflows;          // the parameter is too large for its column, which binding refuses
    int64_t integer;
    double real;
    const void *bytes; // NULL: the column is NULL
    size_t len;
};

static inline struct tern_sql_value tern_sql_number(uint64_t number)
{
    return (struct tern_sql_value){
        .type = TERN_SQL_INTEGER, .overflows = number > INT64_MAX, .integer = (int64_t)number};
}
static inline struct tern_sql_value tern_sql_bits(int64_t bits)
{
    return (struct tern_sql_value){.type = TERN_SQL_INTEGER, .integer = bits};
}
static inline struct tern_sql_value tern_sql_real(double real)
{
    return (struct tern_sql_value){.type = TERN_SQL_REAL, .real = real};
}
// size: bytes of the array; a text without a NUL within the array overflows
static inline struct tern_sql_value tern_sql_field(const char *text, size_t size)
{
    const size_t len = strnlen(text, size);
    return (struct tern_sql_value){
        .type = TERN_SQL_TEXT, .overflows = len == size, .bytes = text, .len = len};
}
static inline struct tern_sql_value tern_sql_text(const char *text)
{
    return (struct tern_sql_value){.type = TERN_SQL_TEXT, .bytes = text, .len = strlen(text)};
}
// Takes "" for no bytes: the database would store a NULL pointer as NULL.
static inline struct tern_sql_value tern_sql_blob(const void *data, size_t len)
{
    return (struct tern_sql_value){.type = TERN_SQL_BLOB,
                                   .overflows = len > TERN_SQL_BLOB_MAX,
                                   .bytes = len == 0 ? "" : data,
                                   .len = len};
}
static inline struct tern_sql_value tern_sql_hash(const uint8_t *hash)
{
    return tern_sql_blob(hash, TERN_SHA256_SIZE);
}

// A list of one to four parameters, each bound by its C type: an int64_t, of which all 64 bits count, a double, a text, a
// hash (uint8_t *) or an unsigned number. TERN_SQL_TYPES ends the list.
#define TERN_SQL_VALUE(value)                                                                      \
    _Generic((value),                                                                              \
        int64_t: tern_sql_bits,                                                                    \
        double: tern_sql_real,                                                                     \
        char *: tern_sql_text,                                                                     \
        const char *: tern_sql_text,                                                               \
        uint8_t *: tern_sql_hash,                                                                  \
        const uint8_t *: tern_sql_hash,                                                            \
        default: tern_sql_number)(value)
#define TERN_SQL_VALUES_1(a) TERN_SQL_VALUE(a)
#define TERN_SQL_VALUES_2(a, b) TERN_SQL_VALUE(a), TERN_SQL_VALUE(b)
#define TERN_SQL_VALUES_3(a, b, c) TERN_SQL_VALUES_2(a, b), TERN_SQL_VALUE(c)
#define TERN_SQL_VALUES_4(a, b, c, d) TERN_SQL_VALUES_3(a, b, c), TERN_SQL_VALUE(d)
#define TERN_SQL_VALUES_OF(a, b, c, d, list, ...) list
// clang-format off
#define TERN_BIND(...)                                                                             \
    (const struct tern_sql_value[]){                                                               \
        TERN_SQL_VALUES_OF(__VA_ARGS__, TERN_SQL_VALUES_4, TERN_SQL_VALUES_3, TERN_SQL_VALUES_2,   \
                           TERN_SQL_VALUES_1, )(__VA_ARGS__),                                      \
        {.type = TERN_SQL_TYPES}}
// clang-format on

typedef enum tern_result (*tern_sql_filler)(struct tern_sql *sql, void *ctx);
typedef enum tern_result (*tern_sql_taker)(void *ctx, const uint8_t *data, size_t len);
typedef enum tern_result (*tern_sql_viewer)(void *ctx, size_t at, size_t len, const uint8_t **data);

// --- What a database implements

// The SQL in which the databases differ.
struct tern_sql_dialect {
    const char *types[TERN_SQL_TYPES];
    // Text at the end of CREATE TABLE. [1]: for tables of small rows that queries find by their primary key
    const char *options[2];
    // Statement after CREATE TABLE for each column of large values: # is the table, @ the column. NULL: none
    const char *large_values;
    // Expression for the TERN_SQL_ID of a new row of the table #. NULL: the database sets the id without it
    const char *new_id;
    // Whether a write of many rows takes one array for each column (unnest); otherwise each row is one execution
    bool takes_arrays;
    // Statement that creates the trigger #, which runs the statement ? after the event @ ("INSERT ON rounds")
    const char *trigger;
    // Statements that read and write (%d) the version of the schema, which is 0 in a new database
    const char *version;
    const char *set_version;
    // Queries for the bytes of the database, and for its unused bytes. NULL: the number is 0
    const char *bytes;
    const char *free_bytes;
};

// How a program uses a database.
enum tern_sql_use {
    TERN_SQL_UNUSED, // does not use the schema, which another program may change
    TERN_SQL_SHARED, // uses the schema beside other programs, and nobody changes it
    TERN_SQL_ALONE,  // changes the schema while no other program uses it
    TERN_SQL_WRITTEN, // writes durably, unless the database is read-only; after the schema was checked
    TERN_SQL_SERVED, // serves clients: tern_db_hold()
};

enum tern_sql_check {
    TERN_SQL_CHECK_PAGES,
    TERN_SQL_CHECK_ALL,     // pages and indexes
    TERN_SQL_CHECK_FAILURE, // sets `damaged` if an earlier failure came from damage; returns TERN_OK
};

enum tern_sql_begin {
    TERN_SQL_WRITE,
    TERN_SQL_READ,
};

enum tern_sql_state {
    TERN_SQL_IDLE,   // no transaction
    TERN_SQL_OPEN,   // a transaction that can be committed
    TERN_SQL_FAILED, // a transaction that the database has rolled back
};

// Operations that only a database in a file has.
struct tern_sql_disk {
    // As tern_db_backup(), _settle(), _shrink_some(), _room() and _make_room() of store.h, outside of transactions
    enum tern_result (*backup)(struct tern_sql *sql, const char *path, char why[256]);
    enum tern_result (*settle)(struct tern_sql *sql);
    enum tern_result (*shrink)(struct tern_sql *sql, uint64_t bytes, bool *more);
    enum tern_result (*room)(struct tern_sql *sql, struct tern_db_room *room);
    bool (*make_room)(struct tern_sql *sql);
};

// Operations that only a server has: leader election between the aggregators of one database.
struct tern_sql_nodes {
    // As tern_db_join_node() of nodes.h
    enum tern_result (*join)(struct tern_sql *sql, uint32_t node);
    // Lists the nodes, the leader first: name, address or "", whether it leads, Unix ms of its connection, its number or
    // 0, and for how many ms it was silent and its leading connection idle
    const char *list;
    // Ends the session of the leader ?1 if it was silent for ?2 ms: returns how many were ended
    const char *end_leader;
    // Deletes the settings of nodes without a connection
    const char *sweep_settings;
};

// An operation without a comment does what tern_sql_NAME() below does, or tern_db_NAME() of store.h.
struct tern_sql_driver {
    struct tern_sql_dialect dialect;
    const struct tern_sql_disk *disk;   // NULL: a server
    const struct tern_sql_nodes *nodes; // NULL: a file

    enum tern_result (*create)(const char *path, uint64_t values, tern_sql_filler fill, void *ctx,
                               char why[256]);
    enum tern_result (*open)(const char *path, unsigned flags, struct tern_sql **out,
                             char why[256]);
    void (*close)(struct tern_sql *sql); // its statements are finished
    // Waits some seconds until no other program prevents this use.
    // TERN_ERR_STATE  another program still prevents it; the sentence names that program
    enum tern_result (*use)(struct tern_sql *sql, enum tern_sql_use use);
    enum tern_result (*check)(struct tern_sql *sql, enum tern_sql_check check);
    // Runs statements without parameters and rows.
    enum tern_result (*run)(struct tern_sql *sql, const char *text);

    // Transactions
    enum tern_result (*begin)(struct tern_sql *sql, enum tern_sql_begin kind);
    enum tern_result (*commit)(struct tern_sql *sql);
    void (*rollback)(
        struct tern_sql *sql); // also without a transaction: removes what a failure left
    enum tern_sql_state (*state)(const struct tern_sql *sql);
    bool (*changed_by_others)(struct tern_sql *sql);

    // Statements. kept: the statement will be used again
    enum tern_result (*prepare)(struct tern_sql *sql, const char *text, bool kept, void **handle);
    void (*reset)(struct tern_sql *sql, void *handle); // drops its rows and parameters
    void (*finish)(struct tern_sql *sql, void *handle);
    // Parameters count from 1. Texts and blobs are borrowed until reset or finish.
    enum tern_result (*bind)(struct tern_sql *sql, void *handle, int at,
                             const struct tern_sql_value *value);
    // A write sets has_changed and last_id of struct tern_sql.
    enum tern_result (*step)(struct tern_sql *sql, void *handle, bool writes, bool *row);
    // Like step for a write, but the database may do it later: at the next step or commit, or before anything else reads the
    // database. changes: it fails when fewer rows were changed than were added, or none. A later failure dooms the transaction. NULL: step
    enum tern_result (*post)(struct tern_sql *sql, void *handle, bool changes);
    // Reads column `at`, counted from 0, as value->type. Its bytes are valid until the next step.
    void (*column)(void *handle, int at, struct tern_sql_value *value);
    const char *(*column_name)(void *handle, int at);

    // Adds the bound values as a row to a write of many rows, or to a load. changes: as in post
    enum tern_result (*add)(struct tern_sql *sql, void *handle, bool changes);
    // Begins and ends a load: between, bind and add pass the rows. load_end frees the handle; whole: it keeps the rows
    enum tern_result (*load)(struct tern_sql *sql, const char *table, const char *columns,
                             int count, void **handle);
    enum tern_result (*load_end)(struct tern_sql *sql, void *handle, bool whole);

    // Passes a value of `size` bytes, `column` of the row `id`, to take in pieces.
    // NOT_FOUND; TERN_ERR_IO  the value has another length; the result of take, if not TERN_OK
    enum tern_result (*stream)(struct tern_sql *sql, const char *table, const char *column,
                               uint64_t id, size_t size, tern_sql_taker take, void *ctx);
    // Copies `len` bytes of a value, from the offset `at` on, to dst. Errors of stream
    enum tern_result (*piece)(struct tern_sql *sql, const char *table, const char *column,
                              uint64_t id, size_t size, size_t at, size_t len, uint8_t *dst);
    enum tern_result (*put_pieces)(struct tern_sql *sql, const char *table, const char *column,
                                   uint64_t id, size_t size, tern_sql_viewer view, void *ctx);
};

extern const struct tern_sql_driver tern_sqlite_driver;
extern const struct tern_sql_driver tern_postgres_driver; // only in builds with TERN_POSTGRESQL

#define TERN_SQL_STATEMENTS 160 // kept statements

struct tern_sql_statement {
    const char *text; // its address is the key; NULL: the statement is used once and not kept
    void *handle;
    bool in_use;
};

// A connection. The struct of each driver begins with it.
struct tern_sql {
    const struct tern_sql_driver *driver;
    const char *path; // a file, or a URL
    struct tern_sql_statement kept[TERN_SQL_STATEMENTS];
    size_t kept_count;
    const atomic_bool *stop; // tern_db_stop_when(); NULL: nobody stops it
    uint64_t last_id;        // TERN_SQL_ID of the row that the last INSERT added
    bool has_changed;        // the last write, unless it was posted, changed a row
    bool in_transaction;     // a transaction that writes is open
    bool doomed;             // a write of this transaction failed: it must not be committed
    bool damaged;            // a check, or a query, found damage
    bool displaced;          // another service holds the database: tern_db_is_displaced()
    char error[256];         // the sentence of the last failure
};

// --- Life

// Makes a new database at `path` that has the rows of fill(), in one transaction. It appears complete or not at all. values: size
// of the model, by which a file gets its page size
// Errors of fill(); TERN_ERR_CONFLICT  there is something at `path` already
// TERN_ERR_CONFIG  a URL that this build has no driver for, or that holds a password
TERN_MUST_USE enum tern_result tern_sql_create(const char *path, uint64_t values,
                                               tern_sql_filler fill, void *ctx, char why[256]);
// Opens a database and changes nothing of it. flags: enum tern_db_open without TERN_DB_OLDER.
// TERN_ERR_NOT_FOUND; TERN_ERR_CONFIG  as above
// TERN_ERR_IO  also: the database has a log without an index, and no file can be made beside it
TERN_MUST_USE enum tern_result tern_sql_open(const char *path, unsigned flags,
                                             struct tern_sql **out, char why[256]);
void tern_sql_close(struct tern_sql *sql); // rolls back; NULL is nothing

// Sets the sentence of the last failure and returns `result`.
enum tern_result tern_sql_fail(struct tern_sql *sql, enum tern_result result, const char *sentence);
// Reports damage of the database: returns TERN_ERR_IO, and tern_sql_damaged() is true from here on.
enum tern_result tern_sql_fail_damaged(struct tern_sql *sql, const char *where);
// Whether a failure came from damage. Outside of transactions: it may read the whole database to find out.
bool tern_sql_damaged(struct tern_sql *sql);

TERN_MUST_USE enum tern_result tern_sql_version(struct tern_sql *sql, int64_t *version);
TERN_MUST_USE enum tern_result tern_sql_set_version(struct tern_sql *sql, int version);
TERN_MUST_USE enum tern_result tern_sql_use(struct tern_sql *sql, enum tern_sql_use use);

// As tern_db_begin() and _begin_reading() of store.h.
TERN_MUST_USE enum tern_result tern_sql_begin(struct tern_sql *sql, enum tern_sql_begin kind);
TERN_MUST_USE enum tern_result tern_sql_commit(struct tern_sql *sql);
void tern_sql_rollback(struct tern_sql *sql);

// --- Queries

// One use of a statement. Parameters are bound and columns read from left to right. The first failure stays in `result`,
// and all later calls then do nothing, so that only the result of tern_query_end() needs a check.
struct tern_query {
    struct tern_sql *sql;
    struct tern_sql_statement *statement;
    int next; // index of the next parameter or column
    bool writes;
    bool loads; // tern_query_load()
    bool adds;  // tern_query_add() was called
    enum tern_result result;
};

// text: lives as long as the connection, which finds the kept statement by its address. parameters: TERN_BIND(), whose bytes
// are borrowed until tern_query_end(), or NULL. A write outside a transaction is TERN_ERR_STATE.
struct tern_query tern_query_read(struct tern_sql *sql, const char *text,
                                  const struct tern_sql_value *parameters);
struct tern_query tern_query_write(struct tern_sql *sql, const char *text,
                                   const struct tern_sql_value *parameters);
// Checks the range of a parameter, and binds the next one.
// TERN_ERR_ARGUMENT  a number or a text overflows; TERN_ERR_TOO_LARGE  a blob does; TERN_ERR_NON_FINITE
TERN_MUST_USE enum tern_result tern_sql_check_value(struct tern_sql *sql,
                                                    const struct tern_sql_value *value);
void tern_query_bind(struct tern_query *query, struct tern_sql_value value);

// Adds the bound parameters as one row of a write of many rows, which tern_query_post() ends. changes: the write fails unless
// it changes a row for each added one.
void tern_query_add(struct tern_query *query, bool changes);

// Adds many rows to a table, as fast as the database takes them. For each row, bind all columns that are named ("a, b"),
// in their order, and call tern_query_add(); tern_query_end() returns whether all rows were added. The connection takes
// nothing else meanwhile, and on an error the transaction cannot be committed. A write outside a transaction is
// TERN_ERR_STATE.
struct tern_query tern_query_load(struct tern_sql *sql, const char *table, const char *columns,
                                  int count);

// Steps to the next row. False: there is none, or the query has failed.
bool tern_query_row(struct tern_query *query);

// A value that does not fit is TERN_ERR_IO: the database is damaged.
uint64_t tern_query_number(struct tern_query *query, uint64_t most); // most < 2^63
uint64_t tern_query_u64(struct tern_query *query);
uint64_t tern_query_bits(struct tern_query *query);
float tern_query_real(struct tern_query *query);
void tern_query_text(struct tern_query *query, char *dst, size_t size);
void tern_query_hash(struct tern_query *query, uint8_t hash[TERN_SHA256_SIZE]);
// Reads a blob, which is valid until the next step. NULL: the column is NULL or has no bytes.
const uint8_t *tern_query_blob(struct tern_query *query, size_t *len);

// Records that the database is damaged. where: text that names the damaged rows
void tern_query_damaged(struct tern_query *query, const char *where);

// Releases the statement and returns the result. A broken constraint is TERN_ERR_CONFLICT (the key is taken),
// TERN_ERR_NOT_FOUND (what it refers to is missing) or TERN_ERR_ARGUMENT (others).
enum tern_result tern_query_end(struct tern_query *query);
// Ends a query that returned no row: TERN_ERR_NOT_FOUND unless the query failed.
enum tern_result tern_query_missing(struct tern_query *query);
// Reads the number that a query returns, and ends the query. Without a row *number does not change: TERN_ERR_NOT_FOUND.
TERN_MUST_USE enum tern_result tern_query_get(struct tern_query query, uint64_t *number);
TERN_MUST_USE enum tern_result tern_query_get_u32(struct tern_query query, uint32_t *number);
// Runs a statement without rows to its end.
TERN_MUST_USE enum tern_result tern_query_run(struct tern_query query);
// Runs a write to its end. TERN_ERR_NOT_FOUND when it changed no row.
TERN_MUST_USE enum tern_result tern_query_run_one(struct tern_query query);
// Runs a write whose outcome the caller does not wait for. A server may answer TERN_OK before it has done the write, and
// does several in one trip. A write that fails nevertheless ends the transaction, which then cannot be committed: this
// call returns the failure, or every later statement and at the latest the commit returns TERN_ERR_IO (_BUSY,
// _NO_MEMORY) with a sentence that names the write. Later statements of the transaction see what was written.
TERN_MUST_USE enum tern_result tern_query_post(struct tern_query query);
// As tern_query_post(), and the write also fails when it changes no row.
TERN_MUST_USE enum tern_result tern_query_post_one(struct tern_query query);

// Adds a row of an `id` and a value of `size` bytes in `column`, which is written piece by piece: view points
// *data at `len` of them from `at` on, valid until its next call. On an error, among them that of view, the
// transaction cannot be committed.
TERN_MUST_USE enum tern_result tern_sql_put_pieces(struct tern_sql *sql, const char *table,
                                                   const char *column, uint64_t id, size_t size,
                                                   tern_sql_viewer view, void *ctx);

#endif
