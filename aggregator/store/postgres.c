// SQL by PostgreSQL, version 13 or newer: a schema of a database that a URL names (libpq's manual, section 34.1.1.2).
// Implements struct tern_sql_driver and struct tern_sql_nodes. In this order: results of exchanges, the life of a
// connection, statements, bulk rows, values in pieces, transactions.
//
// Connections of several processes write one after the other, as with SQLite: an advisory lock on the schema keeps them
// apart until the transaction ends. The next use of a lost connection makes a new one, unless a transaction is open,
// which then cannot be committed. After a connection is lost during a commit, PostgreSQL is asked for the outcome.
//
// Rows of a query come one by one, so that reading all bodies takes the memory of one. A connection does one thing at a
// time: what is asked while rows are on their way first takes in the rest.
//
// An error ends a whole transaction, but the store continues after a broken constraint: a write whose outcome the caller
// waits for stands behind a savepoint, which is sent with it. Posted writes are queued without one.
#include "store/sql.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define PARAMETERS 64 // parameters of one statement

// Type ids of PostgreSQL, which never change (catalog/pg_type.dat).
#define BYTEA_OID 17
#define INT8_OID 20
#define TEXT_OID 25
#define FLOAT8_OID 701
#define BYTEA_ARRAY_OID 1001
#define TEXT_ARRAY_OID 1009
#define INT8_ARRAY_OID 1016
#define FLOAT8_ARRAY_OID 1022

#define BINARY 1

// Keys of advisory locks. A database may hold several federations, each in a schema of its own. So a key is the number of the
// schema's table, below 2^32, plus a constant.
#define LOCK_KEY(more) more " + CAST(CAST('schema_version' AS regclass) AS BIGINT)"
#define WRITER LOCK_KEY("5000000000")
#define SERVICE LOCK_KEY("10000000000")
#define WAITER                                                                                     \
    LOCK_KEY(                                                                                      \
        "25000000000") // shared lock of every program that waits for SERVICE, so that tern_db_nodes() lists it
#define USERS                                                                                      \
    LOCK_KEY(                                                                                      \
        "20000000000") // shared by programs that use the schema; exclusive while a program changes it
// Taken by a program that creates the table: below all other keys, by the number of the schema.
#define CREATOR "CAST(CAST(quote_ident(current_schema()) AS regnamespace) AS BIGINT)"
// Keys of nodes are above the other keys, so that queries can compute the node from its key.
#define NODE_SHIFT "8589934592"
#define NODE(number) LOCK_KEY("(" number " + 16) * " NODE_SHIFT)
#define FIRST_NODE NODE("1")
// Lists advisory locks with their 64-bit keys, which pg_locks shows in two halves.
#define HELD                                                                                       \
    "SELECT pid, CAST(classid AS BIGINT) * 4294967296 + CAST(objid AS BIGINT) AS key FROM "        \
    "pg_locks"                                                                                     \
    " WHERE locktype = 'advisory' AND objsubid = 1 AND granted"                                    \
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
// A parameter of many rows, as PostgreSQL receives it: a header and, for each row, the length and the bytes of a value.
#define ARRAY_HEADER 20
struct array {
    uint8_t *bytes;
    size_t len;
    size_t size;
};

// A statement, its parameters and its rows.
struct statement {
    char *text; // SQL with $1, $2, ... for parameters
    int parameters;
    char name[16];       // name on the server; "" = the statement is used once
    uint32_t generation; // generation of the connection that prepared the statement
    Oid types[PARAMETERS];
    const char *values[PARAMETERS];
    int lengths[PARAMETERS];
    int formats[PARAMETERS];      // BINARY for every parameter
    uint64_t numbers[PARAMETERS]; // big-endian values, to which `values` points
    struct array *arrays;         // for each parameter; NULL: the statement writes one row
    uint32_t added;               // rows in the arrays
    bool begun;
    bool loads;       // the statement is the first member of struct load
    PGresult *result; // result that has the current row
    int row;
    PGresult **rest; // results that were read early, because the connection was needed
    size_t rest_count;
    size_t rest_next;
    bool lacks_rest; // some early results are missing, because memory was short
};

// Writes of the open transaction in libpq's pipeline, in order, whose results were not read yet. The answers to this many
// small writes fit into the buffers, so that neither end waits for the other to read.
#define QUEUE_MAX 256
struct queued {
    char what[40];    // beginning of the statement's text
    uint32_t changes; // least number of changed rows; with fewer the write fails
};

// Statements that every writing transaction runs.
enum own_statement { OWN_LOCK, OWN_COMMITS, OWN_COUNT, OWN_STATEMENTS };

struct postgres {
    struct tern_sql base;
    struct statement *own_statements[OWN_STATEMENTS]; // NULL: not made
    PGconn *connection;
    char *url;           // also base.path
    uint32_t generation; // number of this connection; a new connection has no prepared statements
    uint32_t prepared;   // number of statements prepared so far, of which names are made
    struct statement *active; // statement whose rows still arrive
    bool lost;                // the server has announced the end of the connection
    bool is_service;          // TERN_SQL_SERVED
    bool has_waiter_lock;     // this connection has the lock WAITER
    uint32_t node;            // tern_db_join_node(); 0 = none
    bool shares_schema;       // TERN_SQL_SHARED
    int64_t version;          // version of the schema when it was shared
    bool is_open;             // a transaction is open
    bool has_written;         // the open transaction has written
    struct queued queue[QUEUE_MAX];
    size_t queued;
    bool is_checked; // a queued write fails if it changes too few rows
    // the failure of a queued write, after which the transaction cannot continue
    enum tern_result given_up;
    int64_t commits;      // commits of all programs when this transaction began
    int64_t seen_commits; // commits of all programs at the last changed_by_others()
    int64_t own_commits;  // commits of this connection after `seen_commits`
};

static struct postgres *postgres_of(struct tern_sql *sql)
{
    return (struct postgres *)sql;
}

// One request of an exchange: a text without parameters, or a prepared statement with bound parameters.
struct step {
    const char *text; // request if statement is NULL
    struct statement *statement;
};

// --- Failures

static bool is_lost(const struct postgres *pg)
{
    return pg->lost || PQstatus(pg->connection) != CONNECTION_OK;
}

static enum tern_result fail_with(struct postgres *pg, enum tern_result result, const char *what,
                                  const char *sentence)
{
    char *error = pg->base.error;
    snprintf(error, sizeof pg->base.error, "%s%s%.200s", what, what[0] != '\0' ? ": " : "",
             sentence);
    for (char *at = error; *at != '\0'; at++) { // libpq's messages have line breaks
        *at = *at == '\n' ? ' ' : *at;
    }
    for (size_t len = strlen(error); len > 0 && error[len - 1] == ' '; len--) {
        error[len - 1] = '\0';
    }
    return result;
}

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

// By SQLSTATE (PostgreSQL's manual, appendix A).
static enum tern_result failed_with(struct postgres *pg, const char *state, const char *sentence)
{
    if (begins(state, "23")) {
        return fail_with(pg,
                         strcmp(state, "23505") == 0   ? TERN_ERR_CONFLICT
                         : strcmp(state, "23503") == 0 ? TERN_ERR_NOT_FOUND
                                                       : TERN_ERR_ARGUMENT,
                         "", sentence);
    }
    if (begins(state, "22")) {
        return fail_with(pg, TERN_ERR_ARGUMENT, "", sentence);
    }
    if (strcmp(state, "55P03") == 0 || strcmp(state, "40P01") == 0 || strcmp(state, "40001") == 0) {
        return fail_with(pg, TERN_ERR_BUSY, "another process holds the database", sentence);
    }
    if (strcmp(state, "53100") == 0) {
        return fail_with(pg, TERN_ERR_IO,
                         "the disk of PostgreSQL is full; nothing of this was stored", sentence);
    }
    if (begins(state, "XX00") && state[4] != '0') { // data, or an index, is corrupted
        return tern_sql_fail_damaged(&pg->base, sentence);
    }
    // The server ends the connection, which libpq notices at the next read.
    pg->lost = pg->lost || begins(state, "57P") || begins(state, "08");
    return fail_with(pg, TERN_ERR_IO, "PostgreSQL", sentence);
}

static enum tern_result failed(struct postgres *pg, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *sentence = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (state != NULL && sentence != NULL) {
        return failed_with(pg, state, sentence);
    }
    // libpq itself failed. After a failed send it may still report the connection as good.
    pg->lost = pg->lost || PQresultStatus(result) != PGRES_PIPELINE_ABORTED;
    return fail_with(pg, TERN_ERR_IO, "PostgreSQL", PQerrorMessage(pg->connection));
}

static bool worked(const PGresult *result)
{
    const ExecStatusType status = PQresultStatus(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_SINGLE_TUPLE;
}

// --- Numbers, which travel big-endian

static uint64_t big_endian(uint64_t number)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return __builtin_bswap64(number);
#else
    return number;
#endif
}

static uint8_t *put_big_endian(uint8_t *at, uint64_t number, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        *at++ = (uint8_t)(number >> 8 * (bytes - 1 - i));
    }
    return at;
}

// Returns INT64_MIN, which no column accepts, for a value that is not an integer.
static int64_t integer_of(const PGresult *result, int row, int column)
{
    const uint8_t *at = (const uint8_t *)PQgetvalue(result, row, column);
    const int len = PQgetlength(result, row, column);
    if (PQgetisnull(result, row, column)) {
        return 0;
    }
    if (len == 4) {
        return (int32_t)((uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 |
                         at[3]);
    }
    uint64_t number = 0;
    if (len != 8 || PQftype(result, column) == FLOAT8_OID) {
        return INT64_MIN;
    }
    memcpy(&number, at, sizeof number);
    return (int64_t)big_endian(number);
}

// --- Pipelines
//
// Everything is sent through libpq's pipeline, behind the writes that are queued there. A synchronisation ends it, and then
// results are read in order. An error skips everything until then, also a COMMIT. libpq sends queued bytes once it has 64
// KiB, and reads while it waits for that.

static bool enter(struct postgres *pg)
{
    return PQpipelineStatus(pg->connection) != PQ_PIPELINE_OFF ||
           PQenterPipelineMode(pg->connection) == 1;
}

// Leaves the pipeline mode, after all results were read.
static void leave(struct postgres *pg)
{
    if (!is_lost(pg)) {
        PQclear(PQgetResult(pg->connection)); // result of the synchronisation
    }
    // After a failure results are left, which the next request would take for its own.
    pg->lost = PQexitPipelineMode(pg->connection) != 1 || pg->lost;
}

// Reads the result of a statement, which NULL follows. libpq reads the first one of a pipeline in the row mode of the query
// before it: then a row comes alone, and a result without rows after it.
static PGresult *take_result(struct postgres *pg)
{
    PGresult *result = PQgetResult(pg->connection);
    for (PGresult *next; result != NULL && (next = PQgetResult(pg->connection)) != NULL;) {
        if (worked(next)) {
            PQclear(next);
        } else {
            PQclear(result);
            result = next;
        }
    }
    return result;
}

// Keeps the sentence with the failed statement, so that the failure is not attributed to a later one.
static enum tern_result doom_transaction(struct postgres *pg, const struct queued *queued,
                                         enum tern_result why)
{
    char sentence[sizeof pg->base.error];
    memcpy(sentence, pg->base.error, sizeof sentence);
    snprintf(pg->base.error, sizeof pg->base.error, "%.180s (%s)", sentence, queued->what);
    pg->given_up = why == TERN_ERR_BUSY || why == TERN_ERR_NO_MEMORY ? why : TERN_ERR_IO;
    pg->base.doomed = true;
    return pg->given_up;
}

static enum tern_result check_queued(struct postgres *pg, const struct queued *queued,
                                     PGresult *result)
{
    if (!worked(result)) {
        return doom_transaction(pg, queued, failed(pg, result));
    }
    return strtoull(PQcmdTuples(result), NULL, 10) < queued->changes
               ? doom_transaction(pg, queued,
                                  tern_sql_fail(&pg->base, TERN_ERR_NOT_FOUND,
                                                "PostgreSQL: a row to be changed is missing"))
               : TERN_OK;
}

// Reads the results of the queue, after a synchronisation was sent.
static enum tern_result take_queue(struct postgres *pg)
{
    enum tern_result result = TERN_OK;
    size_t rest = 0;
    for (size_t i = 0; i < pg->queued && result == TERN_OK; i++) {
        PGresult *next = take_result(pg);
        result = check_queued(pg, &pg->queue[i], next);
        PQclear(next);
        rest = pg->queued - i - 1;
    }
    for (; rest > 0 && !is_lost(pg); rest--) {
        PQclear(take_result(pg));
    }
    pg->queued = 0;
    pg->is_checked = false;
    return result;
}

static bool keep_rest(struct statement *statement, PGresult *result)
{
    PGresult **more =
        realloc(statement->rest, (statement->rest_count + 1) * sizeof statement->rest[0]);
    if (more == NULL) {
        PQclear(result);
        return false;
    }
    statement->rest = more;
    statement->rest[statement->rest_count++] = result;
    return true;
}

static void end_rows(struct postgres *pg)
{
    pg->active = NULL;
    leave(pg);
}

static void buffer_rows(struct postgres *pg)
{
    struct statement *active = pg->active;
    if (active == NULL) {
        return;
    }
    for (PGresult *next; (next = PQgetResult(pg->connection)) != NULL;) {
        if (active->lacks_rest) {
            PQclear(next);
        } else {
            active->lacks_rest = !keep_rest(active, next);
        }
    }
    end_rows(pg);
}

static bool send(struct postgres *pg, const struct statement *statement)
{
    return statement->name[0] != '\0'
               ? PQsendQueryPrepared(pg->connection, statement->name, statement->parameters,
                                     statement->values, statement->lengths, statement->formats,
                                     BINARY) == 1
               : PQsendQueryParams(pg->connection, statement->text, statement->parameters,
                                   statement->types, statement->values, statement->lengths,
                                   statement->formats, BINARY) == 1;
}

// Reports a failed send. The connection is in an unknown state and is not used any more.
static enum tern_result fail_to_send(struct postgres *pg)
{
    const enum tern_result result = failed(pg, NULL);
    pg->lost = true;
    pg->queued = 0;
    return result;
}

static enum tern_result settle(struct postgres *pg)
{
    buffer_rows(pg);
    if (pg->queued == 0) {
        return TERN_OK;
    }
    if (PQpipelineSync(pg->connection) != 1) {
        return fail_to_send(pg);
    }
    const enum tern_result result = take_queue(pg);
    leave(pg);
    return result;
}

static enum tern_result queue_write(struct postgres *pg, const struct statement *statement,
                                    uint32_t changes)
{
    if (pg->queued == QUEUE_MAX) {
        TERN_TRY(settle(pg));
    }
    if (!enter(pg) || !send(pg, statement)) {
        return fail_to_send(pg);
    }
    struct queued *queued = &pg->queue[pg->queued++];
    snprintf(queued->what, sizeof queued->what, "%.39s", statement->text);
    queued->changes = changes;
    pg->is_checked = pg->is_checked || changes > 0;
    pg->has_written = true;
    return TERN_OK;
}

// --- Rows that arrive

static enum tern_result ask(struct postgres *pg, struct statement *statement)
{
    buffer_rows(pg);
    if (!enter(pg) || !send(pg, statement) || PQpipelineSync(pg->connection) != 1) {
        return fail_to_send(pg);
    }
    const enum tern_result queue = take_queue(pg);
    pg->active = statement;
    if (queue != TERN_OK) {
        return queue;
    }
    return PQsetSingleRowMode(pg->connection) == 1 ? TERN_OK : failed(pg, NULL);
}

// Drops the rows of the active statement that were not read.
static void drop_rows(struct postgres *pg)
{
    for (PGresult *next; (next = PQgetResult(pg->connection)) != NULL;) {
        PQclear(next);
    }
    end_rows(pg);
}

// --- Exchanges

static bool send_all(struct postgres *pg, const struct step *steps, size_t count)
{
    bool sent = enter(pg);
    for (size_t i = 0; sent && i < count; i++) {
        sent = steps[i].statement != NULL ? send(pg, steps[i].statement)
                                          : PQsendQueryParams(pg->connection, steps[i].text, 0,
                                                              NULL, NULL, NULL, NULL, BINARY) == 1;
    }
    return sent && PQpipelineSync(pg->connection) == 1;
}

static enum tern_result exchange(struct postgres *pg, const struct step *steps, PGresult **results,
                                 size_t count)
{
    memset(results, 0, count * sizeof results[0]);
    buffer_rows(pg);
    if (!send_all(pg, steps, count)) {
        return fail_to_send(pg);
    }
    enum tern_result result = take_queue(pg);
    for (size_t i = 0; i < count && !is_lost(pg); i++) {
        results[i] = take_result(pg);
        if (result == TERN_OK && !worked(results[i])) {
            result = failed(pg, results[i]);
        }
    }
    leave(pg);
    return result == TERN_OK && is_lost(pg) ? failed(pg, NULL) : result;
}

static enum tern_result run_text(struct postgres *pg, const char *text)
{
    TERN_TRY(settle(pg));
    PGresult *result = PQexec(pg->connection, text);
    const enum tern_result run = worked(result) ? TERN_OK : failed(pg, result);
    PQclear(result);
    return run;
}

static enum tern_result read_numbers(struct postgres *pg, const struct step *steps, size_t count,
                                     int64_t *numbers, int columns)
{
    PGresult *results[3] = {NULL};
    const enum tern_result result = exchange(pg, steps, results, count);
    for (int i = 0; i < columns && result == TERN_OK; i++) {
        numbers[i] = integer_of(results[count - 1], 0, i);
    }
    for (size_t i = 0; i < count; i++) {
        PQclear(results[i]);
    }
    return result;
}

// --- Programs that use the schema

// An advisory lock of 64 bits is listed in two halves.
#define OTHERS                                                                                     \
    "SELECT string_agg(DISTINCT CASE a.application_name WHEN '' THEN 'one without a name'"         \
    " ELSE a.application_name END || coalesce(' at ' || host(a.client_addr), ''), ', ')"           \
    " FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid"                                    \
    " WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted"                              \
    " AND a.pid <> pg_backend_pid()"                                                               \
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"           \
    " AND CAST(l.classid AS BIGINT) * 4294967296 + CAST(l.objid AS BIGINT) = " USERS

// Writes the names of the programs that have the lock. Some may have ended since.
static void name_lock_holders(struct postgres *pg, char names[128])
{
    PGresult *result = PQexec(pg->connection, OTHERS);
    const bool known = worked(result) && PQntuples(result) == 1 && PQgetlength(result, 0, 0) > 0;
    snprintf(names, 128, "%s", known ? PQgetvalue(result, 0, 0) : "another program");
    PQclear(result);
}

static enum tern_result lock_schema(struct postgres *pg, const char *lock, const char *sentence)
{
    char names[128];
    char text[256];
    const enum tern_result result = run_text(pg, lock);
    if (result != TERN_ERR_BUSY) {
        return result;
    }
    name_lock_holders(pg, names);
    snprintf(text, sizeof text, sentence, names);
    return tern_sql_fail(&pg->base, TERN_ERR_STATE, text);
}

static enum tern_result share_schema(struct postgres *pg)
{
    return lock_schema(
        pg, "SELECT pg_advisory_lock_shared(" USERS ")",
        "%s is changing the database's schema for another version of Tern; try again later");
}

static enum tern_result read_version(struct postgres *pg, int64_t *version)
{
    const struct step step = {.text = "SELECT version FROM schema_version"};
    return read_numbers(pg, &step, 1, version, 1);
}

static enum tern_result use_schema(struct postgres *pg, enum tern_sql_use use)
{
    if (use == TERN_SQL_ALONE) {
        return lock_schema(pg, "SELECT pg_advisory_lock(" USERS ")",
                           "the database is of another version and open by %s: stop them first");
    }
    if (use == TERN_SQL_UNUSED) {
        pg->shares_schema = false;
        return run_text(pg, "SELECT pg_advisory_unlock_shared(" USERS ")");
    }
    if (!pg->shares_schema) {
        TERN_TRY(share_schema(pg));
    }
    pg->shares_schema = true;
    TERN_TRY(read_version(pg, &pg->version));
    // Releases an exclusive lock. Without one PostgreSQL warns, which does no harm.
    return run_text(pg, "SELECT pg_advisory_unlock(" USERS ")");
}

static enum tern_result reclaim_schema(struct postgres *pg)
{
    int64_t version = 0;
    TERN_TRY(share_schema(pg));
    TERN_TRY(read_version(pg, &version));
    pg->base.displaced = pg->base.displaced || version != pg->version;
    return version == pg->version
               ? TERN_OK
               : tern_sql_fail(&pg->base, TERN_ERR_STATE,
                               "another version of Tern has changed the database's schema "
                               "meanwhile; start this program again, in that version");
}

// --- The life of a connection

#define LEAST_VERSION 130000 // PostgreSQL 13; older versions get no fixes any more

// Settings that the store relies on, whatever the defaults of the server or the role. The server detects within ten seconds
// that a service's machine or network is gone, so that another one can serve. A transaction of a stopped process holds the
// writers' lock for a minute at most.
#define SETTINGS                                                                                   \
    "SET client_encoding = 'UTF8'; SET client_min_messages = warning; SET lock_timeout = '5s';"    \
    "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = '60s'; SET jit = off;"   \
    "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;"                          \
    "SET tcp_keepalives_idle = 4; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 2;"  \
    "SET tcp_user_timeout = 8000;"                                                                 \
    "SELECT set_config('synchronous_commit', 'on', false)"                                         \
    " WHERE current_setting('synchronous_commit') = 'off'"

static void ignore_notice(void *ctx, const PGresult *result)
{
    (void)ctx;
    (void)result;
}

static enum tern_result refuse_server(struct postgres *pg)
{
    const char *encoding = PQparameterStatus(pg->connection, "server_encoding");
    if (PQserverVersion(pg->connection) < LEAST_VERSION) {
        return tern_sql_fail(&pg->base, TERN_ERR_CONFIG,
                             "PostgreSQL is older than version 13, which Tern needs");
    }
    if (encoding == NULL || strcmp(encoding, "UTF8") != 0) {
        return tern_sql_fail(&pg->base, TERN_ERR_CONFIG,
                             "the database's encoding is not UTF8; make one by createdb -E UTF8 "
                             "-T template0");
    }
    return TERN_OK;
}

static enum tern_result refuse_unwritable(struct postgres *pg)
{
    const struct step ask = {
        .text = "SELECT CAST(CASE WHEN pg_is_in_recovery() THEN 1"
                " WHEN NOT has_table_privilege('schema_version', 'UPDATE') THEN 2 ELSE 0 END"
                " AS BIGINT)"};
    int64_t found = 0;
    TERN_TRY(read_numbers(pg, &ask, 1, &found, 1));
    return found == 0
               ? TERN_OK
               : tern_sql_fail(
                     &pg->base, TERN_ERR_CONFIG,
                     found == 1
                         ? "store.url leads to a replica of PostgreSQL, which can only be read; "
                           "it must lead to the primary server"
                         : "the role may not write the federation's tables; use the role "
                           "that owns them, or grant it the right");
}

static enum tern_result try_service_lock(struct postgres *pg, bool *taken)
{
    static const struct step ask = {.text = "SELECT CAST(CAST(pg_try_advisory_lock(" SERVICE
                                            ") AS INTEGER) AS BIGINT)"};
    int64_t number = 0;
    TERN_TRY(read_numbers(pg, &ask, 1, &number, 1));
    *taken = number == 1;
    return TERN_OK;
}

static enum tern_result list_as_waiting(struct postgres *pg, bool waits)
{
    if (pg->has_waiter_lock == waits) {
        return TERN_OK;
    }
    pg->has_waiter_lock = waits;
    return run_text(pg, waits ? "SELECT pg_advisory_lock_shared(" WAITER ")"
                              : "SELECT pg_advisory_unlock_shared(" WAITER ")");
}

// Whether the session that holds the database belongs to another node. It may also be a session of this node whose end the
// server has not noticed yet.
static enum tern_result find_other_leader(struct postgres *pg, bool *is_led)
{
    char text[1024];
    const struct step ask = {.text = text};
    int64_t number = 0;
    snprintf(text, sizeof text,
             "WITH held AS MATERIALIZED (" HELD ") SELECT count(*) FROM held l"
             " JOIN held n ON n.pid = l.pid WHERE l.key = " SERVICE " AND n.key >= " FIRST_NODE
             " AND n.key <> " NODE("%lu"),
             (unsigned long)pg->node);
    TERN_TRY(read_numbers(pg, &ask, 1, &number, 1));
    *is_led = number > 0;
    return TERN_OK;
}

// Waits as long as a write does: after a kill, the server may not have noticed that the other service is gone. A service that
// has held the database waits for its own session only: meanwhile it refuses its clients, and another one may serve them.
// It polls, because PostgreSQL cannot remove dead rows that an older, still waiting statement may see: long waits would make
// all tables and indexes slow.
#define HOLD_TRIES 20
#define HOLD_PAUSE_MS 250

static enum tern_result acquire_service_lock(struct postgres *pg)
{
    bool taken = false;
    bool is_led = false;
    TERN_TRY(refuse_unwritable(pg));
    TERN_TRY(try_service_lock(pg, &taken));
    for (int i = 1; i < HOLD_TRIES && !taken && !is_led; i++) {
        TERN_TRY(pg->is_service ? find_other_leader(pg, &is_led) : TERN_OK);
        TERN_TRY(list_as_waiting(pg, true));
        nanosleep(&(struct timespec){.tv_nsec = HOLD_PAUSE_MS * 1000000L}, NULL);
        TERN_TRY(try_service_lock(pg, &taken));
    }
    return taken
               ? list_as_waiting(pg, false)
               : tern_sql_fail(&pg->base, TERN_ERR_STATE,
                               "another aggregator serves the database, maybe on another machine");
}

// Holds the database again after the connection was lost. Writes of others meanwhile are not in the service's memory. They
// are reported once, as a failure after which the service reads everything again.
static enum tern_result reacquire_service_lock(struct postgres *pg)
{
    const struct step look = {.text = "SELECT commits FROM schema_version"};
    int64_t commits = 0;
    const enum tern_result held = acquire_service_lock(pg);
    pg->base.displaced = held == TERN_ERR_STATE;
    TERN_TRY(held);
    TERN_TRY(read_numbers(pg, &look, 1, &commits, 1));
    if (commits == pg->seen_commits + pg->own_commits) {
        return TERN_OK;
    }
    pg->seen_commits = commits;
    pg->own_commits = 0;
    return tern_sql_fail(&pg->base, TERN_ERR_IO,
                         "others wrote while there was no connection to PostgreSQL; the state is "
                         "read again");
}

static enum tern_result lock_node(struct postgres *pg)
{
    char text[256];
    snprintf(text, sizeof text, "SELECT pg_advisory_lock_shared(" NODE("%lu") ")",
             (unsigned long)pg->node);
    return run_text(pg, text);
}

// Prepares a new connection for its first use.
static enum tern_result set_up(struct postgres *pg)
{
    pg->lost = false;
    pg->has_waiter_lock = false;
    pg->active = NULL;
    pg->queued = 0;
    pg->generation++;
    if (PQstatus(pg->connection) != CONNECTION_OK) {
        return failed(pg, NULL);
    }
    TERN_TRY(refuse_server(pg));
    TERN_TRY(run_text(pg, SETTINGS));
    if (pg->shares_schema) {
        TERN_TRY(reclaim_schema(pg));
    }
    TERN_TRY(pg->node != 0 ? lock_node(pg) : TERN_OK);
    return pg->is_service ? reacquire_service_lock(pg) : TERN_OK;
}

static enum tern_result ensure_connected(struct postgres *pg)
{
    if (!is_lost(pg)) {
        return TERN_OK;
    }
    if (pg->is_open) {
        return tern_sql_fail(&pg->base, TERN_ERR_IO,
                             "the connection to PostgreSQL was lost; nothing of this was stored");
    }
    PQreset(pg->connection);
    const enum tern_result result = set_up(pg);
    pg->lost = result != TERN_OK; // a connection without its set-up is useless
    return result;
}

// Refuses a password in the URL, which everybody sees who sees the program's arguments or its settings.
static enum tern_result refuse_password(const char *url, char why[256])
{
    char *error = NULL;
    PQconninfoOption *options = PQconninfoParse(url, &error);
    enum tern_result result = TERN_OK;
    if (options == NULL) {
        snprintf(why, 256, "the URL of the database: %.200s", error != NULL ? error : "no memory");
        PQfreemem(error);
        return TERN_ERR_CONFIG;
    }
    for (const PQconninfoOption *option = options; option->keyword != NULL; option++) {
        if (strcmp(option->keyword, "password") == 0 && option->val != NULL) {
            snprintf(why, 256,
                     "the URL of the database has a password; move it to ~/.pgpass, or to a file "
                     "that the URL names by passfile=");
            result = TERN_ERR_CONFIG;
        }
    }
    PQconninfoFree(options);
    return result;
}

#define PROGRAM "tern-aggregator "
#define NAME_BYTES 64 // PostgreSQL's limit for an application's name

// Makes the connection's name, by which people and other aggregators identify this one, from the host name.
static void name_program(char name[NAME_BYTES])
{
    const size_t len = (size_t)snprintf(name, NAME_BYTES, PROGRAM);
    if (gethostname(name + len, NAME_BYTES - len) != 0) {
        name[len - 1] = '\0';
    }
    name[NAME_BYTES - 1] = '\0';
}

static PGconn *connect_to(const char *url, bool hurried)
{
    char name[NAME_BYTES];
    name_program(name);
    // The URL may override these, so it comes last. Without them a broken network blocks a request for hours; with them, no
    // longer than the server keeps the connection (SETTINGS). A service that holds the database must not give up earlier:
    // the server would still keep the lock from its next connection.
    const char *const keywords[] = {
        "fallback_application_name", "connect_timeout",  "tcp_user_timeout", "keepalives_idle",
        "keepalives_interval",       "keepalives_count", "dbname",           NULL};
    const char *const values[] = {name, "5", "8000", "4", "2", "2", url, NULL};
    const char *const of_hurried[] = {name, "3", "2000", "1", "1", "2", url, NULL};
    PGconn *connection = PQconnectdbParams(keywords, hurried ? of_hurried : values, 1);
    if (connection != NULL) {
        PQsetNoticeReceiver(connection, ignore_notice, NULL);
    }
    return connection;
}

static void finish(struct tern_sql *sql, void *handle);

static void close_connection(struct tern_sql *sql)
{
    struct postgres *pg = postgres_of(sql);
    for (size_t i = 0; i < OWN_STATEMENTS; i++) {
        if (pg->own_statements[i] != NULL) {
            finish(sql, pg->own_statements[i]);
        }
    }
    if (pg->connection != NULL && !is_lost(pg)) {
        // Releases the locks now, before the server notices the end of the connection.
        (void)!settle(pg);
        (void)!run_text(pg, "ROLLBACK; SELECT pg_advisory_unlock_all()");
    }
    PQfinish(pg->connection);
    free(pg->url);
    free(pg);
}

static enum tern_result connect_to_server(const char *url, bool hurried, struct postgres **out,
                                          char why[256])
{
    TERN_TRY(refuse_password(url, why));
    struct postgres *pg = calloc(1, sizeof *pg);
    if (pg == NULL || (pg->url = strdup(url)) == NULL ||
        (pg->connection = connect_to(url, hurried)) == NULL) {
        snprintf(why, 256, "there is not enough memory");
        if (pg != NULL) {
            free(pg->url);
        }
        free(pg);
        return TERN_ERR_NO_MEMORY;
    }
    pg->base.driver = &tern_postgres_driver;
    pg->base.path = pg->url;
    const enum tern_result result = set_up(pg);
    if (result != TERN_OK) {
        snprintf(why, 256, "%s", pg->base.error);
        close_connection(&pg->base);
        return result;
    }
    *out = pg;
    return TERN_OK;
}

static enum tern_result join(struct tern_sql *sql, uint32_t node)
{
    struct postgres *pg = postgres_of(sql);
    TERN_TRY(ensure_connected(pg));
    pg->node = node;
    return lock_node(pg);
}

// Reads the number that a statement returns. none: the number if there is no row
static enum tern_result read_number(struct postgres *pg, const char *text, int64_t none,
                                    int64_t *number)
{
    TERN_TRY(ensure_connected(pg));
    TERN_TRY(settle(pg));
    PGresult *result = PQexecParams(pg->connection, text, 0, NULL, NULL, NULL, NULL, BINARY);
    enum tern_result found = TERN_OK;
    *number = none;
    if (!worked(result)) {
        found = failed(pg, result);
    } else if (PQntuples(result) > 0 && !PQgetisnull(result, 0, 0)) {
        *number = integer_of(result, 0, 0);
    }
    PQclear(result);
    return found;
}

// --- Statements

// Copies `from` to dst with $N for each ?N and ?, and returns the number of parameters. dst: 3 * strlen(from) + 1 bytes
static int number_parameters(const char *from, char *dst)
{
    int count = 0;
    bool quoted = false;
    for (; *from != '\0'; from++) {
        quoted = quoted != (*from == '\'');
        if (*from != '?' || quoted) {
            *dst++ = *from;
            continue;
        }
        int number = count + 1;
        if (from[1] >= '1' && from[1] <= '9') {
            number = *++from - '0';
        }
        count = number > count ? number : count;
        dst += sprintf(dst, "$%d", number);
    }
    *dst = '\0';
    return count;
}

// Prepares a statement at its first use, when the types of its parameters are known.
static enum tern_result ensure_prepared(struct postgres *pg, struct statement *statement)
{
    if (statement->name[0] == '\0' || statement->generation == pg->generation) {
        return TERN_OK;
    }
    TERN_TRY(settle(pg));
    PGresult *result = PQprepare(pg->connection, statement->name, statement->text,
                                 statement->parameters, statement->types);
    const enum tern_result made = worked(result) ? TERN_OK : failed(pg, result);
    PQclear(result);
    statement->generation = made == TERN_OK ? pg->generation : 0;
    return made;
}

static void reset(struct tern_sql *sql, void *handle)
{
    struct postgres *pg = postgres_of(sql);
    struct statement *statement = handle;
    if (pg->active == statement) {
        drop_rows(pg);
    }
    PQclear(statement->result);
    for (size_t i = statement->rest_next; i < statement->rest_count; i++) {
        PQclear(statement->rest[i]);
    }
    free(statement->rest);
    statement->result = NULL;
    statement->rest = NULL;
    statement->rest_count = 0;
    statement->rest_next = 0;
    statement->lacks_rest = false;
    statement->begun = false;
    statement->added = 0;
}

static void finish(struct tern_sql *sql, void *handle)
{
    struct statement *statement = handle;
    reset(sql, statement);
    for (int i = 0; statement->arrays != NULL && i < statement->parameters; i++) {
        free(statement->arrays[i].bytes);
    }
    free(statement->arrays);
    free(statement->text);
    free(statement);
}

static enum tern_result prepare(struct tern_sql *sql, const char *text, bool kept, void **handle)
{
    struct postgres *pg = postgres_of(sql);
    struct statement *made = calloc(1, sizeof *made);
    char *numbered = malloc(3 * strlen(text) + 1);
    *handle = NULL;
    if (made == NULL || numbered == NULL) {
        free(made);
        free(numbered);
        return tern_sql_fail(sql, TERN_ERR_NO_MEMORY, "there is not enough memory");
    }
    made->text = numbered;
    made->parameters = number_parameters(text, numbered);
    if (made->parameters > PARAMETERS) {
        finish(sql, made);
        return tern_sql_fail(sql, TERN_ERR_ARGUMENT, "a statement has too many parameters");
    }
    if (kept) {
        snprintf(made->name, sizeof made->name, "s%u", ++pg->prepared);
    }
    *handle = made;
    return TERN_OK;
}

// --- Parameters

static void bind_bytes(struct statement *statement, int at, Oid type, const void *value, size_t len)
{
    if (at <= statement->parameters) {
        statement->types[at - 1] = type;
        statement->values[at - 1] = value;
        statement->lengths[at - 1] = (int)len;
        statement->formats[at - 1] = BINARY;
    }
}

static void bind_word(struct statement *statement, int at, Oid type, uint64_t word)
{
    if (at <= statement->parameters) {
        statement->numbers[at - 1] = big_endian(word);
        bind_bytes(statement, at, type, &statement->numbers[at - 1], sizeof word);
    }
}

static enum tern_result bind(struct tern_sql *sql, void *handle, int at,
                             const struct tern_sql_value *value)
{
    uint64_t word = (uint64_t)value->integer;
    (void)sql;
    switch (value->type) {
    case TERN_SQL_REAL:
        memcpy(&word, &value->real, sizeof word);
        bind_word(handle, at, FLOAT8_OID, word);
        break;
    case TERN_SQL_TEXT:
        bind_bytes(handle, at, TEXT_OID, value->bytes, value->len);
        break;
    case TERN_SQL_BLOB:
        bind_bytes(handle, at, BYTEA_OID, value->bytes, value->len);
        break;
    case TERN_SQL_ID:
    case TERN_SQL_INTEGER:
    case TERN_SQL_TYPES:
        bind_word(handle, at, INT8_OID, word);
        break;
    }
    return TERN_OK;
}

// --- Steps

// Sends the statement and reads its first result.
static enum tern_result send_query(struct postgres *pg, struct statement *statement)
{
    TERN_TRY(ensure_connected(pg));
    TERN_TRY(ensure_prepared(pg, statement));
    TERN_TRY(ask(pg, statement));
    statement->result = PQgetResult(pg->connection);
    return worked(statement->result) ? TERN_OK : failed(pg, statement->result);
}

// Outside of a transaction, repeats the query once on a new connection if the old one was lost.
static enum tern_result read_first(struct postgres *pg, struct statement *statement)
{
    TERN_TRY(ensure_connected(pg)); // without a server this takes seconds, so no retry follows
    const enum tern_result result = send_query(pg, statement);
    if (result == TERN_OK || !is_lost(pg) || pg->is_open) {
        return result;
    }
    reset(&pg->base, statement);
    statement->begun = true;
    return send_query(pg, statement);
}

#define SAVEPOINT "tern_write"

static enum tern_result rollback_to_savepoint(struct postgres *pg, enum tern_result result)
{
    char error[sizeof pg->base.error];
    memcpy(error, pg->base.error, sizeof error);
    // If this fails, the transaction can no longer be committed, which tern_sql_commit() detects.
    (void)!run_text(pg, "ROLLBACK TO SAVEPOINT " SAVEPOINT "; RELEASE SAVEPOINT " SAVEPOINT);
    memcpy(pg->base.error, error, sizeof error);
    return result;
}

static void note_written(struct postgres *pg, PGresult *result)
{
    pg->base.has_changed = strtoull(PQcmdTuples(result), NULL, 10) > 0;
    if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1) {
        pg->base.last_id = (uint64_t)integer_of(result, 0, 0);
    }
}

static enum tern_result write_now(struct postgres *pg, struct statement *statement)
{
    const struct step steps[] = {{.text = "SAVEPOINT " SAVEPOINT},
                                 {.statement = statement},
                                 {.text = "RELEASE SAVEPOINT " SAVEPOINT}};
    PGresult *results[3] = {NULL};
    TERN_TRY(ensure_connected(pg));
    TERN_TRY(ensure_prepared(pg, statement));
    pg->has_written = true;
    enum tern_result result = exchange(pg, steps, results, 3);
    if (result == TERN_OK) {
        note_written(pg, results[1]);
    } else if (worked(results[0]) && !is_lost(pg)) {
        result = rollback_to_savepoint(pg, result);
    }
    for (size_t i = 0; i < 3; i++) {
        PQclear(results[i]);
    }
    return result;
}

// Steps to the next result. statement->result is NULL if there is none.
static enum tern_result next_result(struct postgres *pg, struct statement *statement)
{
    PQclear(statement->result);
    statement->result = NULL;
    statement->row = 0;
    if (statement->rest_next < statement->rest_count) {
        statement->result = statement->rest[statement->rest_next++];
    } else if (statement->lacks_rest) {
        return tern_sql_fail(&pg->base, TERN_ERR_NO_MEMORY, "there is not enough memory");
    } else if (pg->active == statement) {
        statement->result = PQgetResult(pg->connection);
    }
    if (statement->result == NULL) {
        if (pg->active == statement) {
            end_rows(pg);
        }
        return TERN_OK;
    }
    return worked(statement->result) ? TERN_OK : failed(pg, statement->result);
}

// Steps to the next row. *row: there is one
static enum tern_result next_row(struct postgres *pg, struct statement *statement, bool *row)
{
    while (statement->result != NULL && statement->row >= PQntuples(statement->result)) {
        TERN_TRY(next_result(pg, statement));
    }
    *row = statement->result != NULL;
    return TERN_OK;
}

// Refuses a statement after the failure that ended the transaction, or once the operation must stop.
static enum tern_result may_continue(struct postgres *pg)
{
    if (pg->given_up != TERN_OK) {
        return pg->given_up;
    }
    return pg->base.stop != NULL && atomic_load(pg->base.stop)
               ? tern_sql_fail(&pg->base, TERN_ERR_IO, "the operation was stopped")
               : TERN_OK;
}

// Makes the arrays of the added rows the values of the parameters.
static void bind_arrays(struct statement *statement)
{
    for (int i = 0; i < statement->parameters; i++) {
        struct array *array = &statement->arrays[i];
        const Oid type = statement->types[i];
        uint8_t *head = put_big_endian(array->bytes, 1, 4); // number of dimensions
        head = put_big_endian(put_big_endian(head, 0, 4), type, 4);
        put_big_endian(put_big_endian(head, statement->added, 4), 1,
                       4); // index of the first element
        const Oid types = type == BYTEA_OID  ? BYTEA_ARRAY_OID
                          : type == INT8_OID ? INT8_ARRAY_OID
                          : type == TEXT_OID ? TEXT_ARRAY_OID
                                             : FLOAT8_ARRAY_OID;
        bind_bytes(statement, i + 1, types, array->bytes, array->len);
    }
}

static enum tern_result post(struct tern_sql *sql, void *handle, bool changes)
{
    struct postgres *pg = postgres_of(sql);
    struct statement *statement = handle;
    TERN_TRY(may_continue(pg));
    TERN_TRY(ensure_connected(pg));
    buffer_rows(pg);
    if (statement->added > 0) {
        bind_arrays(statement);
    }
    TERN_TRY(ensure_prepared(pg, statement));
    const uint32_t rows = statement->added > 0 ? statement->added : 1;
    return queue_write(pg, statement, changes ? rows : 0);
}

// --- Columns

static double real_of(const PGresult *result, int row, int column)
{
    double value = 0.0;
    if (PQftype(result, column) != FLOAT8_OID) {
        return (double)integer_of(result, row, column);
    }
    if (PQgetlength(result, row, column) == (int)sizeof value) {
        uint64_t bits;
        memcpy(&bits, PQgetvalue(result, row, column), sizeof bits);
        bits = big_endian(bits);
        memcpy(&value, &bits, sizeof value);
    }
    return value;
}

static void read_column(void *handle, int at, struct tern_sql_value *value)
{
    const struct statement *statement = handle;
    const PGresult *result = statement->result;
    const int row = statement->row;
    switch (value->type) {
    case TERN_SQL_REAL:
        value->real = real_of(result, row, at);
        break;
    case TERN_SQL_TEXT:
    case TERN_SQL_BLOB:
        value->len = (size_t)PQgetlength(result, row, at);
        value->bytes =
            PQgetisnull(result, row, at) || (value->type == TERN_SQL_BLOB && value->len == 0)
                ? NULL
                : PQgetvalue(result, row, at);
        break;
    case TERN_SQL_ID:
    case TERN_SQL_INTEGER:
    case TERN_SQL_TYPES:
        value->integer = integer_of(result, row, at);
        break;
    }
}

static const char *column_name(void *handle, int at)
{
    const struct statement *statement = handle;
    return PQfname(statement->result, at);
}

// --- COPY's binary format (PostgreSQL's manual, "COPY", "Binary Format"): numbers are big-endian

// Writes the header and returns its length.
#define TERN_POSTGRES_COPY_HEADER 19
static size_t copy_header(uint8_t head[TERN_POSTGRES_COPY_HEADER])
{
    static const uint8_t signature[11] = "PGCOPY\n\377\r\n"; // a NUL follows
    for (size_t i = 0; i < sizeof signature; i++) {
        head[i] = signature[i];
    }
    put_big_endian(head + sizeof signature, 0, 8); // flags and length of the extension
    return TERN_POSTGRES_COPY_HEADER;
}

// --- Rows in bulk: one COPY of a table, where each INSERT would be a trip to the server

#define GATHERED 16384 // bytes that one call passes to libpq

struct load {
    struct statement row; // parameters of the current row, as bind() leaves them
    uint8_t bytes[GATHERED];
    size_t len;
};

static enum tern_result send_bytes(struct postgres *pg, const void *bytes, size_t len)
{
    return PQputCopyData(pg->connection, bytes, (int)len) == 1 ? TERN_OK : failed(pg, NULL);
}

static enum tern_result send_gathered(struct postgres *pg, struct load *load)
{
    const size_t len = load->len;
    load->len = 0;
    return len == 0 ? TERN_OK : send_bytes(pg, load->bytes, len);
}

static enum tern_result put(struct postgres *pg, struct load *load, const void *bytes, size_t len)
{
    if (len > GATHERED - load->len) {
        TERN_TRY(send_gathered(pg, load));
    }
    if (len > GATHERED) {
        return send_bytes(pg, bytes, len);
    }
    if (len > 0) {
        memcpy(load->bytes + load->len, bytes, len);
        load->len += len;
    }
    return TERN_OK;
}

static enum tern_result put_number(struct postgres *pg, struct load *load, uint64_t number,
                                   unsigned bytes)
{
    uint8_t word[8];
    put_big_endian(word, number, bytes);
    return put(pg, load, word, bytes);
}

// Begins a COPY, which is impossible in a pipeline. From here on the connection accepts only rows.
static enum tern_result begin_copy(struct postgres *pg, const char *table, const char *columns)
{
    char text[4096];
    TERN_TRY(ensure_connected(pg));
    TERN_TRY(settle(pg));
    pg->has_written = true;
    snprintf(text, sizeof text, "COPY %s (%s) FROM STDIN (FORMAT binary)", table, columns);
    PGresult *begun = PQexec(pg->connection, text);
    const enum tern_result result =
        PQresultStatus(begun) == PGRES_COPY_IN ? TERN_OK : failed(pg, begun);
    PQclear(begun);
    return result;
}

static enum tern_result load(struct tern_sql *sql, const char *table, const char *columns,
                             int count, void **handle)
{
    struct load *load = calloc(1, sizeof *load);
    if (load == NULL) {
        return tern_sql_fail(sql, TERN_ERR_NO_MEMORY, "there is not enough memory");
    }
    enum tern_result result =
        count > PARAMETERS ? tern_sql_fail(sql, TERN_ERR_ARGUMENT, "a table has too many columns")
                           : begin_copy(postgres_of(sql), table, columns);
    if (result != TERN_OK) {
        free(load);
        return result;
    }
    load->row.parameters = count;
    load->row.loads = true;
    load->len = copy_header(load->bytes);
    *handle = load;
    return TERN_OK;
}

static enum tern_result load_row(struct postgres *pg, struct load *load)
{
    const struct statement *row = &load->row;
    TERN_TRY(put_number(pg, load, (uint64_t)row->parameters, 2));
    for (int i = 0; i < row->parameters; i++) {
        TERN_TRY(put_number(pg, load, (uint64_t)row->lengths[i], 4));
        TERN_TRY(put(pg, load, row->values[i], (size_t)row->lengths[i]));
    }
    return TERN_OK;
}

static enum tern_result send_end(struct postgres *pg, struct load *load)
{
    TERN_TRY(
        put_number(pg, load, 0xffff, 2)); // end of the rows, where a row has its number of fields
    return send_gathered(pg, load);
}

// result: result of sending the rows. Unless it is TERN_OK, PostgreSQL drops the rows.
static enum tern_result end_copy(struct postgres *pg, enum tern_result result)
{
    PQputCopyEnd(pg->connection, result == TERN_OK ? NULL : "the rows to copy could not be read");
    for (PGresult *next; (next = PQgetResult(pg->connection)) != NULL; PQclear(next)) {
        if (result == TERN_OK && !worked(next)) {
            result = failed(pg, next);
        }
    }
    return result;
}

static enum tern_result load_end(struct tern_sql *sql, void *handle, bool whole)
{
    struct postgres *pg = postgres_of(sql);
    const enum tern_result result = end_copy(pg, whole ? send_end(pg, handle) : TERN_ERR_IO);
    free(handle);
    return whole ? result : TERN_OK;
}

// Appends a value to the array of a parameter.
static bool append(struct array *array, const void *value, size_t len)
{
    const size_t start = array->len;
    const size_t end = start + 4 + len;
    if (end > array->size) {
        const size_t size = 2 * end;
        uint8_t *bytes = realloc(array->bytes, size);
        if (bytes == NULL) {
            return false;
        }
        array->bytes = bytes;
        array->size = size;
    }
    put_big_endian(array->bytes + start, len, 4);
    if (len > 0) {
        memcpy(array->bytes + start + 4, value, len);
    }
    array->len = end;
    return true;
}

static enum tern_result add_to_arrays(struct postgres *pg, struct statement *statement)
{
    bool has_memory = true;
    if (statement->arrays == NULL) {
        statement->arrays = calloc((size_t)statement->parameters, sizeof statement->arrays[0]);
        has_memory = statement->arrays != NULL;
    }
    for (int i = 0; has_memory && i < statement->parameters; i++) {
        struct array *array = &statement->arrays[i];
        array->len = statement->added == 0 ? ARRAY_HEADER : array->len;
        has_memory = append(array, statement->values[i], (size_t)statement->lengths[i]);
    }
    statement->added++;
    return has_memory ? TERN_OK
                      : tern_sql_fail(&pg->base, TERN_ERR_NO_MEMORY, "there is not enough memory");
}

// Appends the bound values to the arrays. post() checks how many rows were changed.
static enum tern_result add(struct tern_sql *sql, void *handle, bool changes)
{
    struct statement *statement = handle;
    (void)changes;
    return statement->loads ? load_row(postgres_of(sql), handle)
                            : add_to_arrays(postgres_of(sql), statement);
}

static enum tern_result step(struct tern_sql *sql, void *handle, bool writes, bool *row)
{
    struct postgres *pg = postgres_of(sql);
    struct statement *statement = handle;
    *row = false;
    TERN_TRY(may_continue(pg));
    if (writes) { // note_written() reads the id, and nobody reads rows
        return write_now(pg, statement);
    }
    if (statement->begun) {
        statement->row++;
    } else {
        statement->begun = true;
        statement->row = 0;
        TERN_TRY(read_first(pg, statement));
    }
    return next_row(pg, statement, row);
}

// --- Values in pieces

static enum tern_result check_length(struct postgres *pg, const char *table, const char *column,
                                     uint64_t id, size_t size)
{
    char text[160];
    int64_t stored = -1;
    snprintf(text, sizeof text, "SELECT length(%s) FROM %s WHERE id = %llu", column, table,
             (unsigned long long)id);
    TERN_TRY(read_number(pg, text, -1, &stored));
    if (stored < 0) {
        return tern_sql_fail(&pg->base, TERN_ERR_NOT_FOUND, "the row of a large value is missing");
    }
    return (uint64_t)stored == size
               ? TERN_OK
               : tern_sql_fail_damaged(&pg->base,
                                       "a stored value has another length than its row records");
}

static enum tern_result show_piece(struct postgres *pg, const char *table, const char *column,
                                   uint64_t id, size_t at, size_t len, tern_sql_taker take,
                                   void *ctx)
{
    char text[200];
    snprintf(text, sizeof text, "SELECT substring(%s FROM %zu FOR %zu) FROM %s WHERE id = %llu",
             column, at + 1, len, table, (unsigned long long)id);
    TERN_TRY(ensure_connected(pg));
    TERN_TRY(settle(pg));
    PGresult *result = PQexecParams(pg->connection, text, 0, NULL, NULL, NULL, NULL, BINARY);
    enum tern_result taken = TERN_OK;
    if (!worked(result)) {
        taken = failed(pg, result);
    } else if (PQntuples(result) != 1 || (size_t)PQgetlength(result, 0, 0) != len) {
        taken = tern_sql_fail(&pg->base, TERN_ERR_IO, "a large value changed while it was read");
    } else {
        taken = take(ctx, (const uint8_t *)PQgetvalue(result, 0, 0), len);
    }
    PQclear(result);
    return taken;
}

static enum tern_result copy_to(void *dst, const uint8_t *data, size_t len)
{
    memcpy(dst, data, len);
    return TERN_OK;
}

static enum tern_result read_piece(struct tern_sql *sql, const char *table, const char *column,
                                   uint64_t id, size_t size, size_t at, size_t len, uint8_t *dst)
{
    (void)size; // a shorter value fails at the last piece
    return show_piece(postgres_of(sql), table, column, id, at, len, copy_to, dst);
}

static enum tern_result stream(struct tern_sql *sql, const char *table, const char *column,
                               uint64_t id, size_t size, tern_sql_taker take, void *ctx)
{
    struct postgres *pg = postgres_of(sql);
    TERN_TRY(check_length(pg, table, column, id, size));
    for (size_t done = 0; done < size;) {
        const size_t len = size - done < TERN_SQL_PIECE_BYTES ? size - done : TERN_SQL_PIECE_BYTES;
        TERN_TRY(show_piece(pg, table, column, id, done, len, take, ctx));
        done += len;
    }
    return TERN_OK;
}

// Writes the start of a binary COPY of one row (id, value), up to the bytes of the value.
static size_t copy_head(uint8_t head[64], uint64_t id, size_t size)
{
    uint8_t *at = head;
    at = put_big_endian(at + copy_header(head), 2, 2); // number of fields
    at = put_big_endian(put_big_endian(at, 8, 4), id, 8);
    at = put_big_endian(at, size, 4);
    return (size_t)(at - head);
}

static enum tern_result copy_value(struct postgres *pg, uint64_t id, size_t size,
                                   tern_sql_viewer view, void *ctx)
{
    static const uint8_t end[2] = {0xff, 0xff};
    uint8_t head[64];
    TERN_TRY(send_bytes(pg, head, copy_head(head, id, size)));
    for (size_t done = 0; done < size;) {
        const size_t len = size - done < TERN_SQL_PIECE_BYTES ? size - done : TERN_SQL_PIECE_BYTES;
        const uint8_t *piece = NULL;
        TERN_TRY(view(ctx, done, len, &piece));
        TERN_TRY(send_bytes(pg, piece, len));
        done += len;
    }
    return send_bytes(pg, end, sizeof end);
}

// Uses COPY, which takes the value piece by piece; a parameter would need all of it in memory.
static enum tern_result put_pieces(struct tern_sql *sql, const char *table, const char *column,
                                   uint64_t id, size_t size, tern_sql_viewer view, void *ctx)
{
    struct postgres *pg = postgres_of(sql);
    char columns[80];
    TERN_TRY(may_continue(pg));
    snprintf(columns, sizeof columns, "id, %s", column);
    TERN_TRY(begin_copy(pg, table, columns));
    return end_copy(pg, copy_value(pg, id, size, view, ctx));
}

// --- Transactions

// The version of the schema; the number of commits, by which programs notice writes of others; and a random number of the
// last commit, by which its writer recognises it.
#define TABLE                                                                                      \
    "CREATE TABLE schema_version (version BIGINT NOT NULL, commits BIGINT NOT NULL,"               \
    " last_commit BIGINT NOT NULL);"                                                               \
    "INSERT INTO schema_version VALUES (0, 0, 0)"

static void end(struct postgres *pg)
{
    pg->is_open = false;
    pg->has_written = false;
    pg->given_up = TERN_OK;
}

static void rollback(struct tern_sql *sql)
{
    struct postgres *pg = postgres_of(sql);
    char error[sizeof sql->error];
    if (!pg->is_open) {
        return;
    }
    memcpy(error, sql->error, sizeof error);
    if (!is_lost(pg)) {
        (void)!settle(pg);
        (void)!run_text(pg, "ROLLBACK");
    }
    memcpy(sql->error, error, sizeof error);
    end(pg);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// A request on a connection that was lost earlier fails at once, and a new connection helps. A request during which the
// connection is lost fails after seconds, and a new connection would mostly take as long.
#define AT_ONCE_MS 1000

static enum tern_result try_begin(struct postgres *pg, const struct step *steps, size_t count,
                                  int64_t *numbers, int columns)
{
    TERN_TRY(ensure_connected(pg));
    for (size_t i = 0; i < count; i++) {
        TERN_TRY(steps[i].statement != NULL ? ensure_prepared(pg, steps[i].statement) : TERN_OK);
    }
    return read_numbers(pg, steps, count, numbers, columns);
}

static enum tern_result begin_by(struct postgres *pg, const struct step *steps, size_t count,
                                 int64_t *numbers, int columns)
{
    TERN_TRY(ensure_connected(pg));
    const int64_t began_ms = now_ms();
    enum tern_result result = try_begin(pg, steps, count, numbers, columns);
    const bool was_lost = is_lost(pg) && now_ms() - began_ms < AT_ONCE_MS;
    if (result != TERN_OK && was_lost) { // the connection was lost since its last use
        result = try_begin(pg, steps, count, numbers, columns);
    }
    pg->is_open = true;
    if (result != TERN_OK) {
        rollback(&pg->base);
    }
    return result;
}

// READ COMMITTED is enough: with the writers' lock nobody else commits.
#define BEGIN "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

static enum tern_result own_statement(struct postgres *pg, enum own_statement which,
                                      struct statement **statement)
{
    static const char *const texts[OWN_STATEMENTS] = {
        [OWN_LOCK] = "SELECT pg_advisory_xact_lock(" WRITER ")",
        [OWN_COMMITS] = "SELECT commits FROM schema_version",
        [OWN_COUNT] = "UPDATE schema_version SET commits = commits + 1, last_commit = ?"};
    if (pg->own_statements[which] == NULL) {
        void *made = NULL;
        TERN_TRY(prepare(&pg->base, texts[which], true, &made));
        pg->own_statements[which] = made;
    }
    *statement = pg->own_statements[which];
    return TERN_OK;
}

static enum tern_result begin_writing(struct postgres *pg)
{
    struct step steps[] = {{.text = BEGIN}, {.text = NULL}, {.text = NULL}};
    TERN_TRY(own_statement(pg, OWN_LOCK, &steps[1].statement));
    TERN_TRY(own_statement(pg, OWN_COMMITS, &steps[2].statement));
    return begin_by(pg, steps, 3, &pg->commits, 1);
}

static enum tern_result begin(struct tern_sql *sql, enum tern_sql_begin kind)
{
    static const struct step steps_of_reader[] = {
        {.text = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"},
        {.text = "SET LOCAL idle_in_transaction_session_timeout = 0"}};
    struct postgres *pg = postgres_of(sql);
    return kind == TERN_SQL_READ ? begin_by(pg, steps_of_reader, 2, NULL, 0) : begin_writing(pg);
}

static enum tern_sql_state state(const struct tern_sql *sql)
{
    const struct postgres *pg = (const struct postgres *)sql;
    const PGTransactionStatusType status = PQtransactionStatus(pg->connection);
    if (!pg->is_open) {
        return TERN_SQL_IDLE;
    }
    return !is_lost(pg) && (status == PQTRANS_INTRANS || status == PQTRANS_ACTIVE)
               ? TERN_SQL_OPEN
               : TERN_SQL_FAILED;
}

#define ASK_MS 5000
#define ASK_EVERY_MS 100

enum outcome { OUTCOME_NO_ANSWER, OUTCOME_COMMITTED, OUTCOME_ABORTED, OUTCOME_OVERWRITTEN };

// Finds out whether the last commit is this one, by the random number that it wrote: after a crash PostgreSQL may give the
// number of a lost transaction to another one. Takes the writers' lock, so that no server process is still committing.
static enum outcome find_commit(struct postgres *pg, int64_t commit)
{
    const struct step steps[] = {
        {.text = BEGIN},
        {.text = "SELECT pg_advisory_xact_lock(" WRITER ")"},
        {.text = "SELECT last_commit, commits FROM schema_version"},
    };
    int64_t found[2] = {0, 0};
    enum tern_result asked = ensure_connected(pg);
    if (asked == TERN_OK) {
        asked = read_numbers(pg, steps, 3, found, 2);
    }
    if (!is_lost(pg)) {
        (void)!run_text(pg, "ROLLBACK");
    }
    if (asked != TERN_OK) {
        return OUTCOME_NO_ANSWER;
    }
    if (found[0] == commit) {
        pg->seen_commits = found[1] - 1; // commit_written() counts this commit
        pg->own_commits = 0;
        return OUTCOME_COMMITTED;
    }
    return found[1] == pg->commits ? OUTCOME_ABORTED : OUTCOME_OVERWRITTEN;
}

// Asks PostgreSQL for the outcome of a commit during which the connection was lost.
static enum tern_result find_outcome(struct postgres *pg, int64_t commit)
{
    const int64_t until_ms = now_ms() + ASK_MS; // one attempt may take as long as connecting
    end(pg);
    enum outcome outcome = find_commit(pg, commit);
    while (outcome == OUTCOME_NO_ANSWER && now_ms() < until_ms) {
        nanosleep(&(struct timespec){.tv_nsec = ASK_EVERY_MS * 1000000L}, NULL);
        outcome = find_commit(pg, commit);
    }
    if (outcome == OUTCOME_COMMITTED) {
        return TERN_OK;
    }
    return tern_sql_fail(
        &pg->base, TERN_ERR_IO,
        outcome == OUTCOME_ABORTED
            ? "the connection to PostgreSQL was lost; nothing of this was stored"
            : "the connection to PostgreSQL was lost during a commit, and PostgreSQL does not say "
              "whether this was stored");
}

static enum tern_result commit_written(struct postgres *pg)
{
    struct step steps[] = {{.text = NULL}, {.text = "COMMIT"}};
    int64_t commit = 0;
    if (getrandom(&commit, sizeof commit, 0) != (ssize_t)sizeof commit) {
        return tern_sql_fail(&pg->base, TERN_ERR_IO,
                             "the system returned no random bytes for a commit");
    }
    TERN_TRY(own_statement(pg, OWN_COUNT, &steps[0].statement));
    bind_word(steps[0].statement, 1, INT8_OID, (uint64_t)commit);
    TERN_TRY(ensure_prepared(pg, steps[0].statement));
    if (pg->is_checked) { // without such a write, an error of the queue prevents the COMMIT
        TERN_TRY(settle(pg));
    }
    enum tern_result result = read_numbers(pg, steps, 2, NULL, 0);
    if (result != TERN_OK && is_lost(pg)) {
        result = find_outcome(pg, commit);
    }
    pg->own_commits += result == TERN_OK ? 1 : 0;
    return result;
}

static enum tern_result commit(struct tern_sql *sql)
{
    struct postgres *pg = postgres_of(sql);
    const enum tern_result result = pg->has_written ? commit_written(pg) : run_text(pg, "COMMIT");
    if (result == TERN_OK) {
        end(pg);
    }
    return result;
}

// A failed read counts as a change: reading once more costs little, missing a revocation much.
static bool changed_by_others(struct tern_sql *sql)
{
    struct postgres *pg = postgres_of(sql);
    int64_t commits = pg->commits;
    bool changed = false;
    if (!sql->in_transaction) {
        changed = read_number(pg, "SELECT commits FROM schema_version", 0, &commits) != TERN_OK;
    }
    changed = changed || commits != pg->seen_commits + pg->own_commits;
    pg->seen_commits = commits;
    pg->own_commits = 0;
    return changed;
}

// --- Life

static enum tern_result run(struct tern_sql *sql, const char *text)
{
    struct postgres *pg = postgres_of(sql);
    TERN_TRY(ensure_connected(pg));
    pg->has_written = pg->has_written || sql->in_transaction;
    return run_text(pg, text);
}

static enum tern_result has_schema(struct postgres *pg, bool *there)
{
    int64_t number = 0;
    TERN_TRY(read_number(
        pg,
        "SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('schema_version')"
        " AND attname IN ('version', 'commits', 'last_commit')",
        0, &number));
    *there = number == 3;
    return TERN_OK;
}

// Refuses a schema with tables of another program, whose names may collide with the federation's.
static enum tern_result refuse_others(struct postgres *pg)
{
    int64_t tables = 0;
    TERN_TRY(read_number(pg,
                         "SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm', 'f')"
                         " AND relnamespace = CAST(current_schema() AS regnamespace)",
                         0, &tables));
    return tables == 0
               ? TERN_OK
               : tern_sql_fail(&pg->base, TERN_ERR_CONFLICT,
                               "the schema holds tables of another program; use a database, or a "
                               "schema, of its own");
}

static enum tern_result fill_new(struct postgres *pg, tern_sql_filler fill, void *ctx)
{
    struct tern_sql *sql = &pg->base;
    // The keys of the other locks need the table. Without this lock a second program that creates the table waits for the first
    // and fails.
    const struct step steps[] = {{.text = BEGIN},
                                 {.text = "SELECT pg_advisory_xact_lock(" CREATOR ")"}};
    bool there = false;
    TERN_TRY(begin_by(pg, steps, 2, NULL, 0));
    TERN_TRY(has_schema(pg, &there));
    if (there) {
        return tern_sql_fail(sql, TERN_ERR_CONFLICT, "the schema has a federation already");
    }
    TERN_TRY(refuse_others(pg));
    sql->in_transaction = true;
    TERN_TRY(run(sql, TABLE));
    TERN_TRY(fill(sql, ctx));
    return tern_sql_commit(sql);
}

static enum tern_result create(const char *path, uint64_t values, tern_sql_filler fill, void *ctx,
                               char why[256])
{
    (void)values;
    struct postgres *pg = NULL;
    TERN_TRY(connect_to_server(path, false, &pg, why));
    const enum tern_result result = fill_new(pg, fill, ctx);
    snprintf(why, 256, "%.100s: %.150s", path, pg->base.error);
    tern_sql_close(&pg->base);
    return result;
}

static enum tern_result refuse_missing(struct postgres *pg, const char *path, char why[256])
{
    bool there = false;
    const enum tern_result result = has_schema(pg, &there);
    if (result != TERN_OK) {
        snprintf(why, 256, "%s", pg->base.error);
    } else if (!there) {
        snprintf(why, 256, "there is no federation in %.150s; `tern-aggregator init` makes one",
                 path);
        return TERN_ERR_NOT_FOUND;
    }
    return result;
}

static enum tern_result open_url(const char *path, unsigned flags, struct tern_sql **out,
                                 char why[256])
{
    struct postgres *pg = NULL;
    const bool is_known = (flags & (TERN_DB_SECOND | TERN_DB_HURRIED)) != 0;
    TERN_TRY(connect_to_server(path, (flags & TERN_DB_HURRIED) != 0, &pg, why));
    const enum tern_result result = is_known ? TERN_OK : refuse_missing(pg, path, why);
    if (result != TERN_OK) {
        close_connection(&pg->base);
        return result;
    }
    *out = &pg->base;
    return TERN_OK;
}

static enum tern_result count_commits(struct postgres *pg)
{
    pg->own_commits = 0;
    return read_number(pg, "SELECT commits FROM schema_version", 0, &pg->seen_commits);
}

static enum tern_result use(struct tern_sql *sql, enum tern_sql_use how)
{
    struct postgres *pg = postgres_of(sql);
    if (how == TERN_SQL_WRITTEN) {
        return count_commits(pg);
    }
    TERN_TRY(ensure_connected(pg));
    if (how != TERN_SQL_SERVED) {
        return use_schema(pg, how);
    }
    TERN_TRY(acquire_service_lock(pg));
    pg->is_service = true;
    return TERN_OK;
}

// PostgreSQL checks pages as it reads them, where its cluster has checksums, and its errors report damage.
static enum tern_result check(struct tern_sql *sql, enum tern_sql_check how)
{
    return how == TERN_SQL_CHECK_FAILURE ? TERN_OK : run(sql, "SELECT 1");
}

// --- The driver

#define OID "CAST(CAST('schema_version' AS regclass) AS BIGINT)"
// Lists sessions, and for how many ms the server has waited for a statement of each; 0 = not known.
#define SESSIONS                                                                                   \
    "SELECT pid, application_name, client_addr, backend_start,"                                    \
    " CASE WHEN state = 'active' AND coalesce(wait_event_type, '') <> 'Client' THEN 0"             \
    " ELSE CAST(greatest(0, floor(extract(epoch FROM clock_timestamp() - state_change) * 1000))"   \
    " AS BIGINT) END AS waited FROM pg_stat_activity"
// Lists the node of each session.
#define BELONG                                                                                     \
    "SELECT pid, (key - " OID ") / " NODE_SHIFT " - 16 AS node FROM held"                          \
    " WHERE key >= " FIRST_NODE " AND (key - " OID ") % " NODE_SHIFT " = 0"
#define SILENCE                                                                                    \
    "coalesce((SELECT min(s.waited) FROM belong o JOIN sessions s ON s.pid = o.pid"                \
    " WHERE o.node = b.node), 0)"
#define WHO                                                                                        \
    "WITH held AS MATERIALIZED (" HELD "), sessions AS MATERIALIZED (" SESSIONS "),"               \
    " belong AS (" BELONG "), nodes AS (SELECT l.pid, coalesce(b.node, 0) AS node,"                \
    " CASE WHEN l.key = " SERVICE " THEN 1 ELSE 0 END AS leads, " SILENCE " AS silent"             \
    " FROM held l LEFT JOIN belong b ON b.pid = l.pid"                                             \
    " WHERE l.key IN (" SERVICE ", " WAITER ")) "

#define NODES                                                                                      \
    WHO "SELECT coalesce(a.application_name, '') COLLATE \"C\","                                   \
        " coalesce(host(a.client_addr), '') COLLATE \"C\", n.leads,"                               \
        " CAST(floor(extract(epoch FROM a.backend_start) * 1000) AS BIGINT), n.node, n.silent,"    \
        " coalesce(a.waited, 0)"                                                                   \
        " FROM nodes n JOIN sessions a ON a.pid = n.pid"                                           \
        " ORDER BY n.leads DESC, a.backend_start, a.pid"

// One statement, so that the session that it ends is the one that it examined.
#define END_LEADER                                                                                 \
    WHO "SELECT CAST(coalesce(sum(CASE WHEN pg_terminate_backend(pid) THEN 1 ELSE 0 END), 0)"      \
        " AS BIGINT) FROM nodes WHERE leads = 1 AND node = ? AND silent >= ?"

#define SWEEP_SETTINGS                                                                             \
    "DELETE FROM node_settings WHERE NOT EXISTS (SELECT 1 FROM (" HELD                             \
    ") AS l WHERE l.key = " NODE("node_settings.node") ")"

static const struct tern_sql_nodes nodes = {
    .join = join, .list = NODES, .end_leader = END_LEADER, .sweep_settings = SWEEP_SETTINGS};

// Ids have no gaps, as in SQLite: there is one writer. Texts are in the order of their bytes. Bodies are compressed, or
// do not compress, and are read in pieces.
const struct tern_sql_driver tern_postgres_driver = {
    .dialect =
        {.types = {[TERN_SQL_ID] = "BIGINT PRIMARY KEY",
                   [TERN_SQL_INTEGER] = "BIGINT NOT NULL",
                   [TERN_SQL_REAL] = "DOUBLE PRECISION NOT NULL",
                   [TERN_SQL_TEXT] = "TEXT COLLATE \"C\" NOT NULL",
                   [TERN_SQL_BLOB] = "BYTEA NOT NULL"},
         .options = {"", ""},
         .large_values = "ALTER TABLE # ALTER COLUMN @ SET STORAGE EXTERNAL",
         .new_id = "(SELECT coalesce(max(id), 0) + 1 FROM #)",
         .takes_arrays = true,
         .trigger = "CREATE FUNCTION #() RETURNS trigger LANGUAGE plpgsql AS"
                    " $$BEGIN ?; RETURN NULL; END$$;"
                    "CREATE TRIGGER # AFTER @ FOR EACH ROW EXECUTE FUNCTION #()",
         .version = "SELECT version FROM schema_version",
         .set_version = "UPDATE schema_version SET version = %d",
         .bytes =
             "SELECT CAST(coalesce(sum(pg_total_relation_size(oid)), 0) AS BIGINT) FROM pg_class"
             " WHERE relkind = 'r' AND relnamespace = (SELECT relnamespace FROM pg_class"
             " WHERE oid = CAST('schema_version' AS regclass))"},
    .nodes = &nodes,
    .create = create,
    .open = open_url,
    .close = close_connection,
    .use = use,
    .check = check,
    .run = run,
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .state = state,
    .changed_by_others = changed_by_others,
    .prepare = prepare,
    .reset = reset,
    .finish = finish,
    .bind = bind,
    .step = step,
    .post = post,
    .column = read_column,
    .column_name = column_name,
    .add = add,
    .load = load,
    .load_end = load_end,
    .stream = stream,
    .piece = read_piece,
    .put_pieces = put_pieces,
};
