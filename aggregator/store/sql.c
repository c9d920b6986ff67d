// What SQL on any database has in common: the sentence of the last failure, whether a transaction may be committed, statements that are kept, and the range of every value.
#include "store/sql_driver.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(TERN_SQL_BLOB_MAX <= 1000000000u, "SQLite's limit of one value, and PostgreSQL's");

const struct tern_sql_dialect *tern_sql_dialect(const struct tern_sql *sql)
{
    return &sql->driver->dialect;
}

// --- Failures

const char *tern_sql_error(const struct tern_sql *sql)
{
    return sql->error;
}

enum tern_result tern_sql_fail(struct tern_sql *sql, enum tern_result result, const char *sentence)
{
    snprintf(sql->error, sizeof sql->error, "%s", sentence);
    return result;
}

enum tern_result tern_sql_fail_damaged(struct tern_sql *sql, const char *where)
{
    sql->damaged = true;
    snprintf(sql->error, sizeof sql->error,
             "the database is damaged: %s; stop the service and restore a backup", where);
    return TERN_ERR_IO;
}

bool tern_sql_damaged(struct tern_sql *sql)
{
    return sql->damaged || sql->driver->is_damaged(sql);
}

bool tern_sql_is_displaced(const struct tern_sql *sql)
{
    return sql->displaced;
}

// --- Life

void tern_sql_close(struct tern_sql *sql)
{
    if (sql == NULL) {
        return;
    }
    for (size_t i = 0; i < sql->kept_count; i++) {
        sql->driver->finish(sql, sql->kept[i].handle);
    }
    sql->driver->close(sql);
}

enum tern_result tern_sql_take(struct tern_sql *sql)
{
    return sql->driver->take(sql);
}

const char *tern_sql_path(const struct tern_sql *sql)
{
    return sql->driver->path(sql);
}

enum tern_result tern_sql_hold(struct tern_sql *sql)
{
    return sql->driver->hold(sql);
}

enum tern_result tern_sql_use(struct tern_sql *sql, enum tern_sql_use use)
{
    return sql->driver->use(sql, use);
}

enum tern_result tern_sql_version(struct tern_sql *sql, int64_t *version)
{
    return sql->driver->version(sql, version);
}

enum tern_result tern_sql_set_version(struct tern_sql *sql, int version)
{
    return sql->driver->set_version(sql, version);
}

enum tern_result tern_sql_backup(struct tern_sql *sql, const char *path, char why[256])
{
    if (sql->driver->is_open(sql)) {
        snprintf(why, 256, "a transaction is open");
        return TERN_ERR_STATE;
    }
    return sql->driver->backup(sql, path, why);
}

enum tern_result tern_sql_settle(struct tern_sql *sql)
{
    return sql->driver->settle(sql);
}

enum tern_result tern_sql_check(struct tern_sql *sql)
{
    return sql->driver->check(sql);
}

enum tern_result tern_sql_quick_check(struct tern_sql *sql)
{
    return sql->driver->quick_check(sql);
}

void tern_sql_stop_when(struct tern_sql *sql, const atomic_bool *stop)
{
    sql->driver->stop_when(sql, stop);
}

enum tern_result tern_sql_shrink(struct tern_sql *sql, uint64_t bytes, bool *more)
{
    return sql->driver->shrink(sql, bytes, more);
}

enum tern_result tern_sql_bytes(struct tern_sql *sql, uint64_t *bytes)
{
    return sql->driver->bytes(sql, bytes);
}

enum tern_result tern_sql_free_bytes(struct tern_sql *sql, uint64_t *bytes)
{
    return sql->driver->free_bytes(sql, bytes);
}

enum tern_result tern_sql_room(struct tern_sql *sql, struct tern_db_room *room)
{
    *room = (struct tern_db_room){.disk = UINT64_MAX, .free = UINT64_MAX};
    return sql->driver->room != NULL ? sql->driver->room(sql, room) : TERN_OK;
}

bool tern_sql_make_room(struct tern_sql *sql)
{
    return sql->driver->make_room != NULL && sql->driver->make_room(sql);
}

enum tern_result tern_sql_run(struct tern_sql *sql, const char *text)
{
    return sql->driver->run(sql, text);
}

// --- Transactions

static enum tern_result refuse_within(struct tern_sql *sql)
{
    return sql->driver->is_open(sql)
               ? tern_sql_fail(sql, TERN_ERR_STATE, "a transaction is open already")
               : TERN_OK;
}

enum tern_result tern_sql_begin(struct tern_sql *sql)
{
    TERN_TRY(refuse_within(sql));
    TERN_TRY(sql->driver->begin(sql));
    sql->in_transaction = true;
    sql->doomed = false;
    return TERN_OK;
}

static enum tern_result refuse_file(struct tern_sql *sql)
{
    return tern_sql_fail(sql, TERN_ERR_STATE, "nobody else serves a database in a file");
}

enum tern_result tern_sql_begin_apart(struct tern_sql *sql, bool durable)
{
    TERN_TRY(sql->driver->begin_apart != NULL ? refuse_within(sql) : refuse_file(sql));
    TERN_TRY(sql->driver->begin_apart(sql, durable));
    sql->in_transaction = true;
    sql->doomed = false;
    return TERN_OK;
}

enum tern_result tern_sql_follow(struct tern_sql *sql, bool follows)
{
    return sql->driver->follow != NULL ? sql->driver->follow(sql, follows) : refuse_file(sql);
}

enum tern_result tern_sql_belong(struct tern_sql *sql, uint32_t node)
{
    return sql->driver->belong != NULL ? sql->driver->belong(sql, node) : refuse_file(sql);
}

enum tern_result tern_sql_attend(struct tern_sql *sql, uint32_t node)
{
    return sql->driver->attend != NULL ? sql->driver->attend(sql, node) : refuse_file(sql);
}

enum tern_result tern_sql_await(struct tern_sql *sql, int wake, uint32_t ms,
                                void (*hear)(void *ctx, const char *message), void *ctx)
{
    return sql->driver->await != NULL ? sql->driver->await(sql, wake, ms, hear, ctx)
                                      : refuse_file(sql);
}

enum tern_result tern_sql_begin_reading(struct tern_sql *sql)
{
    TERN_TRY(refuse_within(sql));
    return sql->driver->begin_reading(sql);
}

// After some failures a database has rolled back by itself; a commit would then report success for
// nothing, and what is written would stand alone.
bool tern_sql_may_commit(const struct tern_sql *sql)
{
    return sql->in_transaction && !sql->doomed && sql->driver->may_commit(sql);
}

enum tern_result tern_sql_commit(struct tern_sql *sql)
{
    if (!sql->in_transaction) {
        return tern_sql_fail(sql, TERN_ERR_STATE, "no transaction is open");
    }
    if (!tern_sql_may_commit(sql)) {
        tern_sql_rollback(sql);
        return TERN_ERR_IO;
    }
    const enum tern_result result = sql->driver->commit(sql);
    if (result != TERN_OK) {
        tern_sql_rollback(sql);
        return result;
    }
    sql->in_transaction = false;
    return TERN_OK;
}

void tern_sql_rollback(struct tern_sql *sql)
{
    if (sql->driver->is_open(sql)) {
        sql->driver->rollback(sql);
    }
    if (sql->driver->recover != NULL) { // SQLite may already have rolled back
        sql->driver->recover(sql);
    }
    sql->in_transaction = false;
    sql->doomed = false;
}

bool tern_sql_changed_by_others(struct tern_sql *sql)
{
    return sql->driver->changed_by_others(sql);
}

// --- Statements

// The kept statement of this text, made when it is new. NULL: it is in use (a visitor called the same
// operation again), or there is no room for another one.
static enum tern_result take_kept(struct tern_sql *sql, const char *text,
                                  struct tern_sql_statement **statement)
{
    *statement = NULL;
    for (size_t i = 0; i < sql->kept_count; i++) {
        if (sql->kept[i].text == text) {
            *statement = sql->driver->is_busy(sql->kept[i].handle) ? NULL : &sql->kept[i];
            return TERN_OK;
        }
    }
    if (sql->kept_count == TERN_SQL_STATEMENTS) {
        return TERN_OK;
    }
    struct tern_sql_statement *made = &sql->kept[sql->kept_count];
    TERN_TRY(sql->driver->prepare(sql, text, true, &made->handle));
    made->text = text;
    sql->kept_count++;
    *statement = made;
    return TERN_OK;
}

static enum tern_result make_temporary_statement(struct tern_sql *sql, const char *text,
                                                 struct tern_sql_statement **statement)
{
    struct tern_sql_statement *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return tern_sql_fail(sql, TERN_ERR_NO_MEMORY, "memory could not be had");
    }
    const enum tern_result result = sql->driver->prepare(sql, text, false, &made->handle);
    if (result != TERN_OK) {
        free(made);
        return result;
    }
    *statement = made;
    return TERN_OK;
}

struct tern_query tern_query_read(struct tern_sql *sql, const char *text)
{
    struct tern_query query = {.sql = sql};
    query.result = take_kept(sql, text, &query.statement);
    if (query.result == TERN_OK && query.statement == NULL) {
        query.result = make_temporary_statement(sql, text, &query.statement);
    }
    return query;
}

struct tern_query tern_query_write(struct tern_sql *sql, const char *text)
{
    if (!sql->in_transaction) {
        return (struct tern_query){
            .sql = sql,
            .result = tern_sql_fail(sql, TERN_ERR_STATE, "a write outside a transaction")};
    }
    struct tern_query query = tern_query_read(sql, text);
    query.writes = true;
    return query;
}

// --- Rows in bulk

struct tern_query tern_query_load(struct tern_sql *sql, const char *table, const char *columns,
                                  int count)
{
    struct tern_query query = {.sql = sql, .writes = true, .loads = true};
    struct tern_sql_statement *made = calloc(1, sizeof *made);
    if (made == NULL) {
        query.result = tern_sql_fail(sql, TERN_ERR_NO_MEMORY, "memory could not be had");
    } else if (!sql->in_transaction) {
        query.result = tern_sql_fail(sql, TERN_ERR_STATE, "a write outside a transaction");
    } else {
        query.result = sql->driver->load(sql, table, columns, count, &made->handle);
    }
    if (query.result != TERN_OK) {
        free(made);
        return query;
    }
    query.statement = made;
    return query;
}

void tern_query_add(struct tern_query *query)
{
    query->next = 0;
    if (query->result == TERN_OK) {
        query->result = query->sql->driver->load_row(query->sql, query->statement->handle);
    }
}

static enum tern_result end_load(struct tern_query *query)
{
    struct tern_sql *sql = query->sql;
    if (query->statement != NULL) {
        const bool whole = query->result == TERN_OK;
        const enum tern_result ended = sql->driver->load_end(sql, query->statement->handle, whole);
        query->result = whole ? ended : query->result;
        free(query->statement);
        query->statement = NULL;
    }
    sql->doomed = sql->doomed || query->result != TERN_OK;
    return query->result;
}

// --- Parameters

static void refuse(struct tern_query *query, enum tern_result result, const char *sentence)
{
    query->result = tern_sql_fail(query->sql, result, sentence);
}

void tern_query_bind(struct tern_query *query, uint64_t value)
{
    if (query->result == TERN_OK && value > INT64_MAX) {
        refuse(query, TERN_ERR_ARGUMENT, "a number is above 2^63 - 1");
    }
    tern_query_bind_bits(query, value);
}

void tern_query_bind_bits(struct tern_query *query, uint64_t value)
{
    int at = ++query->next;
    if (query->result == TERN_OK) {
        query->result = query->sql->driver->bind_integer(query->sql, query->statement->handle, at,
                                                         (int64_t)value);
    }
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
    query->result = query->sql->driver->bind_real(query->sql, query->statement->handle, at, value);
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
    query->result =
        query->sql->driver->bind_text(query->sql, query->statement->handle, at, text, len);
}

void tern_query_bind_blob(struct tern_query *query, const void *data, size_t len)
{
    int at = ++query->next;
    if (query->result != TERN_OK) {
        return;
    }
    if (len > TERN_SQL_BLOB_MAX) {
        refuse(query, TERN_ERR_TOO_LARGE, "more than 1,000,000,000 bytes in one value");
        return;
    }
    // A NULL pointer would be stored as NULL instead of as no bytes.
    const void *bytes = len == 0 ? "" : data;
    query->result =
        query->sql->driver->bind_blob(query->sql, query->statement->handle, at, bytes, len);
}

// --- Rows

bool tern_query_row(struct tern_query *query)
{
    bool row = false;
    if (query->result != TERN_OK) {
        return false;
    }
    query->next = 0;
    query->result =
        query->sql->driver->step(query->sql, query->statement->handle, query->writes, &row);
    return row;
}

void tern_query_damaged(struct tern_query *query, const char *where)
{
    if (query->result != TERN_OK) {
        return;
    }
    query->result = tern_sql_fail_damaged(query->sql, where);
}

static void damaged_column(struct tern_query *query, int column)
{
    char where[128];
    snprintf(where, sizeof where, "%s holds a value that is out of range",
             query->sql->driver->column(query->statement->handle, column));
    tern_query_damaged(query, where);
}

uint64_t tern_query_number(struct tern_query *query, uint64_t most)
{
    int at = query->next++;
    if (query->result != TERN_OK) {
        return 0;
    }
    const int64_t value = query->sql->driver->integer(query->statement->handle, at);
    if (value < 0 || (uint64_t)value > most) {
        damaged_column(query, at);
        return 0;
    }
    return (uint64_t)value;
}

uint64_t tern_query_u64(struct tern_query *query)
{
    return tern_query_number(query, INT64_MAX);
}

uint64_t tern_query_bits(struct tern_query *query)
{
    int at = query->next++;
    return query->result != TERN_OK
               ? 0
               : (uint64_t)query->sql->driver->integer(query->statement->handle, at);
}

float tern_query_real(struct tern_query *query)
{
    int at = query->next++;
    if (query->result != TERN_OK) {
        return 0.0F;
    }
    float value = (float)query->sql->driver->real(query->statement->handle, at);
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
    size_t len = 0;
    const char *text = query->sql->driver->text(query->statement->handle, at, &len);
    if (text == NULL || len >= size) {
        damaged_column(query, at);
        return;
    }
    memcpy(dst, text, len);
    dst[len] = '\0';
}

const uint8_t *tern_query_blob(struct tern_query *query, size_t *len)
{
    int at = query->next++;
    *len = 0;
    return query->result != TERN_OK ? NULL
                                    : query->sql->driver->blob(query->statement->handle, at, len);
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

// --- Values in pieces

enum tern_result tern_sql_stream(struct tern_sql *sql, const char *table, const char *column,
                                 uint64_t id, size_t size, tern_sql_taker take, void *ctx)
{
    return sql->driver->stream(sql, table, column, id, size, take, ctx);
}

enum tern_result tern_sql_piece(struct tern_sql *sql, const char *table, const char *column,
                                uint64_t id, size_t size, size_t at, size_t len, uint8_t *dst)
{
    return sql->driver->piece(sql, table, column, id, size, at, len, dst);
}

enum tern_result tern_sql_put_pieces(struct tern_sql *sql, const char *table, const char *column,
                                     uint64_t id, size_t size, tern_sql_viewer view, void *ctx)
{
    if (!sql->in_transaction) {
        return tern_sql_fail(sql, TERN_ERR_STATE, "a write outside a transaction");
    }
    const enum tern_result result =
        sql->driver->put_pieces(sql, table, column, id, size, view, ctx);
    sql->doomed = sql->doomed || result != TERN_OK; // the value is not what its row says
    return result;
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
    struct tern_sql_statement *statement = query->statement;
    if (query->loads) {
        return end_load(query);
    }
    query->statement = NULL;
    if (dooms(query)) {
        query->sql->doomed = true;
    }
    if (statement != NULL && statement->text == NULL) {
        query->sql->driver->finish(query->sql, statement->handle);
        free(statement);
    } else if (statement != NULL) {
        query->sql->driver->reset(query->sql, statement->handle);
    }
    return query->result;
}

enum tern_result tern_query_missing(struct tern_query *query)
{
    enum tern_result result = tern_query_end(query);
    return result == TERN_OK ? TERN_ERR_NOT_FOUND : result;
}

enum tern_result tern_query_run(struct tern_query *query)
{
    while (tern_query_row(query)) {
    }
    return tern_query_end(query);
}

enum tern_result tern_query_run_one(struct tern_query *query)
{
    enum tern_result result = tern_query_run(query);
    if (result == TERN_OK && !query->sql->driver->has_changed(query->sql)) {
        return TERN_ERR_NOT_FOUND;
    }
    return result;
}

static enum tern_result post_now(struct tern_query *query, bool changes)
{
    while (tern_query_row(query)) {
    }
    const bool nothing =
        changes && query->result == TERN_OK && !query->sql->driver->has_changed(query->sql);
    return nothing ? tern_sql_fail(query->sql, TERN_ERR_NOT_FOUND, "a row to be changed is missing")
                   : query->result;
}

// A parameter that was refused is no write yet.
static enum tern_result post(struct tern_query *query, bool changes)
{
    struct tern_sql *sql = query->sql;
    if (query->result == TERN_OK) {
        query->result = sql->driver->post != NULL
                            ? sql->driver->post(sql, query->statement->handle, changes)
                            : post_now(query, changes);
        sql->doomed = sql->doomed || query->result != TERN_OK;
    }
    return tern_query_end(query);
}

enum tern_result tern_query_post(struct tern_query *query)
{
    return post(query, false);
}

enum tern_result tern_query_post_one(struct tern_query *query)
{
    return post(query, true);
}

uint64_t tern_sql_last_id(struct tern_sql *sql)
{
    return sql->driver->last_id(sql);
}
