// What the two files of PostgreSQL's driver share. sql_postgres.c has the life of a connection and
// transactions, sql_postgres_query.c what is sent and what comes back. Only they include this.
#ifndef TERN_STORE_SQL_POSTGRES_H
#define TERN_STORE_SQL_POSTGRES_H

#include "store/sql_driver.h"
#include <libpq-fe.h>

struct statement;

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
    bool is_open;             // a transaction
    bool has_changed;         // by the last write
    uint64_t last_id;
    int64_t transaction; // the number of this one, from its first write on; else 0
    int64_t commits;     // of all writers, when this transaction began
    int64_t seen;        // of these, at the last look
    int64_t own;         // commits of this connection since then
};

static inline struct postgres *postgres_of(struct tern_sql *sql)
{
    return (struct postgres *)sql;
}

bool tern_postgres_is_lost(const struct postgres *pg);
// Makes a connection that was lost anew, where no transaction was open.
TERN_MUST_USE enum tern_result tern_postgres_be_connected(struct postgres *pg);

// Sends statements without parameters, or one that was prepared, in one trip, and takes what comes back:
// results[i] of steps[i], which the caller clears; NULL where there was none. The first that fails ends it.
struct step {
    const char *text;            // or
    struct statement *statement; // its parameters are bound
};
TERN_MUST_USE enum tern_result tern_postgres_exchange(struct postgres *pg, const struct step *steps,
                                                      PGresult **results, size_t count);
// Likewise for what is of no interest but whether it worked: any statements, with ; between them.
TERN_MUST_USE enum tern_result tern_postgres_run(struct postgres *pg, const char *text);
// The number that a statement returns, which has at most one text as its parameter; `none` where it returns no row.
TERN_MUST_USE enum tern_result tern_postgres_number(struct postgres *pg, const char *text,
                                                    const char *parameter, int64_t none,
                                                    int64_t *number);
// Asks for the number of the transaction, where that is not known yet.
TERN_MUST_USE enum tern_result tern_postgres_know_transaction(struct postgres *pg);
int64_t tern_postgres_integer(const PGresult *result, int row, int column);

// What a failure means; the sentence is kept. result: NULL where nothing came.
enum tern_result tern_postgres_failed(struct postgres *pg, const PGresult *result);
// Takes the rest of what is on its way.
void tern_postgres_settle(struct postgres *pg);

// As struct tern_sql_driver says.
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
int64_t tern_postgres_integer_at(void *handle, int at);
double tern_postgres_real_at(void *handle, int at);
const char *tern_postgres_text_at(void *handle, int at, size_t *len);
const void *tern_postgres_blob_at(void *handle, int at, size_t *len);
const char *tern_postgres_column_at(void *handle, int at);
enum tern_result tern_postgres_stream(struct tern_sql *sql, const char *table, const char *column,
                                      uint64_t id, size_t size, tern_sql_taker take, void *ctx);
enum tern_result tern_postgres_put_pieces(struct tern_sql *sql, const char *table,
                                          const char *column, uint64_t id, size_t size,
                                          tern_sql_viewer view, void *ctx);

#endif
