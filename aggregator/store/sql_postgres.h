// What the files of PostgreSQL's driver share: sql_postgres_exchange.c, what is sent and what comes back; above it
// sql_postgres_connection.c, the life of a connection; sql_postgres_users.c, who uses the schema; sql_postgres_query.c, statements and rows; sql_postgres_load.c, rows in
// bulk; and sql_postgres.c, transactions and the driver. Only they include this.
#ifndef TERN_STORE_SQL_POSTGRES_H
#define TERN_STORE_SQL_POSTGRES_H

#include "store/sql_driver.h"
#include <libpq-fe.h>

#define PARAMETERS 64 // of one statement

// Of catalog/pg_type.dat, where they stay as they are.
#define BYTEA_OID 17
#define INT8_OID 20
#define TEXT_OID 25
#define FLOAT8_OID 701

#define BINARY 1

// Keys of advisory locks, which belong to a database that may hold several federations, in a schema each: the
// number of the table that each has (below 2^32), and more.
#define LOCK_KEY(more) more " + CAST(CAST('schema_version' AS regclass) AS BIGINT)"
#define WRITER LOCK_KEY("5000000000")
#define SERVICE LOCK_KEY("10000000000")
#define FOLLOWER LOCK_KEY("15000000000") // shared, of those that wait for SERVICE
#define WAITER                                                                                     \
    LOCK_KEY("25000000000") // shared, of all that wait for SERVICE, so that they are listed
#define USERS LOCK_KEY("20000000000") // shared by all that know the schema; alone, who changes it
// That of a node leaves room for the others below it, and is taken apart again by those who look for nodes.
#define NODE_SHIFT "8589934592"
#define NODE(number) LOCK_KEY("(" number " + 16) * " NODE_SHIFT)
// On which all that attend hear.
#define CHANNEL "'tern_' || CAST(CAST(CAST('schema_version' AS regclass) AS oid) AS TEXT)"

// What is prepared, bound, and read.
struct statement {
    char *text; // with $1, $2, ... for parameters
    int parameters;
    char name[16];       // on the server; "" = it is used once
    uint32_t generation; // of the connection that knows it
    Oid types[PARAMETERS];
    const char *values[PARAMETERS];
    int lengths[PARAMETERS];
    int formats[PARAMETERS];      // BINARY, all of them
    uint64_t numbers[PARAMETERS]; // big-endian, where values points at them
    bool begun;
    PGresult *result; // that holds the row
    int row;
    PGresult **rest; // taken in because something else was asked
    size_t rest_count;
    size_t rest_next;
    bool is_cut; // there was no memory for all of them
};

// Writes that are on their way in libpq's pipeline mode, their results not looked at yet: those of the open transaction,
// in order. Answers to so many small ones fit into the buffers between, so that neither end waits for the other to read.
#define QUEUE_MAX 256
struct queued {
    char what[40]; // the beginning of the statement
    bool changes;  // it has failed when no row was changed
};

struct postgres {
    struct tern_sql base;
    PGconn *connection;
    char *url;
    uint32_t generation;      // of the connection: statements are prepared in each anew
    uint32_t prepared;        // so many in all, for their names
    struct statement *active; // that rows may still come of; all else waits for them
    const atomic_bool *stop;  // NULL: nobody stops it
    bool lost;                // the server has said that it ends the connection
    bool holds;               // tern_sql_hold()
    bool waits;               // it has said so, by WAITER
    uint32_t node;            // tern_sql_belong(); 0 = to none
    bool attends;             // tern_sql_attend()
    bool follows;             // tern_sql_follow()
    bool may_have_missed;     // what was told while there was no connection
    bool shares;              // TERN_SQL_SHARED
    int64_t version;          // of the schema, since then
    bool is_open;             // a transaction
    bool is_apart;            // it is one of tern_sql_begin_apart()
    bool has_written;         // in it
    bool has_changed;         // by the last write that was no post
    uint64_t last_id;
    struct queued queue[QUEUE_MAX];
    size_t queued;
    bool is_checked;           // one of the queue has failed when no row was changed
    enum tern_result given_up; // what became of the queue, after which the transaction cannot go on
    int64_t commits;           // of all writers, when this transaction began
    int64_t seen;              // of these, at the last look
    int64_t own;               // commits of this connection since then
};

static inline struct postgres *postgres_of(struct tern_sql *sql)
{
    return (struct postgres *)sql;
}

// --- Exchanges

bool tern_postgres_is_lost(const struct postgres *pg);
// What a failure means; the sentence is kept. result: NULL where nothing came.
enum tern_result tern_postgres_failed(struct postgres *pg, const PGresult *result);
bool tern_postgres_worked(const PGresult *result);

int64_t tern_postgres_integer(const PGresult *result, int row, int column);
uint64_t
tern_postgres_swapped(uint64_t number); // between this machine's order of bytes and PostgreSQL's

// Takes in the rows that are on their way, for the statement that reads them; or drops them.
void tern_postgres_take_rows(struct postgres *pg);
void tern_postgres_forget(struct postgres *pg);
// The last result of the rows has come.
void tern_postgres_end_rows(struct postgres *pg);

// Sends a write and leaves its result to what comes next.
// TERN_ERR_IO  the connection failed
TERN_MUST_USE enum tern_result tern_postgres_queue(struct postgres *pg,
                                                   const struct statement *statement, bool changes);
// Waits for what is on its way. Errors: one of the queue failed, which gives the transaction up
TERN_MUST_USE enum tern_result tern_postgres_settle(struct postgres *pg);
// Sends a statement that returns rows, one by one from here on.
TERN_MUST_USE enum tern_result tern_postgres_ask(struct postgres *pg, struct statement *statement);
// Sends statements without parameters, or one that was prepared, in one trip, and takes what comes back:
// results[i] of steps[i], which the caller clears; NULL where there was none. The first that fails ends it.
struct step {
    const char *text;            // or
    struct statement *statement; // its parameters are bound
};
TERN_MUST_USE enum tern_result tern_postgres_exchange(struct postgres *pg, const struct step *steps,
                                                      PGresult **results, size_t count);
// Likewise up to three, of which only numbers are of interest: the first columns of the row that the last returns.
TERN_MUST_USE enum tern_result tern_postgres_do(struct postgres *pg, const struct step *steps,
                                                size_t count, int64_t *numbers, int columns);
// Likewise for what is of no interest but whether it worked: any statements, with ; between them.
TERN_MUST_USE enum tern_result tern_postgres_run(struct postgres *pg, const char *text);

// --- COPY's binary format (PostgreSQL's manual, "COPY", "Binary Format"): numbers are big-endian

static inline uint8_t *tern_postgres_put_number(uint8_t *at, uint64_t number, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        *at++ = (uint8_t)(number >> 8 * (bytes - 1 - i));
    }
    return at;
}

// Writes what it begins with, and returns its length.
#define TERN_POSTGRES_COPY_HEADER 19
static inline size_t tern_postgres_copy_header(uint8_t head[TERN_POSTGRES_COPY_HEADER])
{
    static const uint8_t signature[11] = "PGCOPY\n\377\r\n"; // and a NUL
    for (size_t i = 0; i < sizeof signature; i++) {
        head[i] = signature[i];
    }
    tern_postgres_put_number(head + sizeof signature, 0, 8); // no flags, no extension
    return TERN_POSTGRES_COPY_HEADER;
}

// --- Connections

// hurried: as tern_db_open_hurried() says. An error has its sentence in why.
TERN_MUST_USE enum tern_result tern_postgres_connect(const char *url, bool hurried,
                                                     struct postgres **out, char why[256]);
// Makes a connection that was lost anew, where no transaction was open.
TERN_MUST_USE enum tern_result tern_postgres_be_connected(struct postgres *pg);
// The number that a statement returns, which has at most one text as its parameter; `none` where it returns no row.
TERN_MUST_USE enum tern_result tern_postgres_number(struct postgres *pg, const char *text,
                                                    const char *parameter, int64_t none,
                                                    int64_t *number);
// As struct tern_sql_driver says.
void tern_postgres_close(struct tern_sql *sql);
enum tern_result tern_postgres_hold(struct tern_sql *sql);
enum tern_result tern_postgres_use(struct tern_sql *sql, enum tern_sql_use use);
// After the connection of one that shares it was lost.
// TERN_ERR_STATE  its schema was changed meanwhile: this program has no part in it any more
TERN_MUST_USE enum tern_result tern_postgres_use_again(struct postgres *pg);
enum tern_result tern_postgres_follow(struct tern_sql *sql, bool follows);
enum tern_result tern_postgres_belong(struct tern_sql *sql, uint32_t node);
enum tern_result tern_postgres_attend(struct tern_sql *sql, uint32_t node);
enum tern_result tern_postgres_await(struct tern_sql *sql, int wake, uint32_t ms,
                                     tern_sql_hearer hear, void *ctx);

// --- Statements, likewise

enum tern_result tern_postgres_prepare(struct tern_sql *sql, const char *text, bool kept,
                                       void **handle);
bool tern_postgres_is_busy(void *handle);
void tern_postgres_reset(struct tern_sql *sql, void *handle);
void tern_postgres_finish(struct tern_sql *sql, void *handle);
enum tern_result tern_postgres_bind_integer(struct tern_sql *sql, void *handle, int at,
                                            int64_t value);
enum tern_result tern_postgres_bind_real(struct tern_sql *sql, void *handle, int at, double value);
enum tern_result tern_postgres_bind_text(struct tern_sql *sql, void *handle, int at,
                                         const char *text, size_t len);
enum tern_result tern_postgres_bind_blob(struct tern_sql *sql, void *handle, int at,
                                         const void *data, size_t len);
enum tern_result tern_postgres_step(struct tern_sql *sql, void *handle, bool writes, bool *row);
enum tern_result tern_postgres_post(struct tern_sql *sql, void *handle, bool changes);
int64_t tern_postgres_integer_at(void *handle, int at);
double tern_postgres_real_at(void *handle, int at);
const char *tern_postgres_text_at(void *handle, int at, size_t *len);
const void *tern_postgres_blob_at(void *handle, int at, size_t *len);
const char *tern_postgres_column_at(void *handle, int at);
enum tern_result tern_postgres_load(struct tern_sql *sql, const char *table, const char *columns,
                                    int count, void **handle);
enum tern_result tern_postgres_load_row(struct tern_sql *sql, void *handle);
enum tern_result tern_postgres_load_end(struct tern_sql *sql, void *handle, bool whole);
enum tern_result tern_postgres_piece(struct tern_sql *sql, const char *table, const char *column,
                                     uint64_t id, size_t size, size_t at, size_t len, uint8_t *dst);
enum tern_result tern_postgres_stream(struct tern_sql *sql, const char *table, const char *column,
                                      uint64_t id, size_t size, tern_sql_taker take, void *ctx);
enum tern_result tern_postgres_put_pieces(struct tern_sql *sql, const char *table,
                                          const char *column, uint64_t id, size_t size,
                                          tern_sql_viewer view, void *ctx);

#endif
