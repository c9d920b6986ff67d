// The part of SQL that both databases share: which database a path names, the sentence of the last failure, whether a
// transaction may be committed, statements that are kept, and the range of every value.
#include "store/sql.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(TERN_SQL_BLOB_MAX <= 1000000000u, "SQLite's limit of one value, and PostgreSQL's");

// --- Failures

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
    if (!sql->damaged) {
        (void)!sql->driver->check(sql, TERN_SQL_CHECK_FAILURE);
    }
    return sql->damaged;
}

// --- Life

bool tern_db_is_url(const char *path)
{
    return strncmp(path, "postgresql://", 13) == 0 || strncmp(path, "postgres://", 11) == 0;
}

static enum tern_result driver_of(const char *path, const struct tern_sql_driver **driver,
                                  char why[256])
{
    *driver = &tern_sqlite_driver;
    if (!tern_db_is_url(path)) {
        return TERN_OK;
    }
#ifdef TERN_POSTGRESQL
    (void)why;
    *driver = &tern_postgres_driver;
    return TERN_OK;
#else
    snprintf(why, 256,
             "this build has no PostgreSQL; build it where libpq-dev is installed, or name a file");
    return TERN_ERR_CONFIG;
#endif
}

enum tern_result tern_sql_create(const char *path, uint64_t values, tern_sql_filler fill, void *ctx,
                                 char why[256])
{
    const struct tern_sql_driver *driver;
    TERN_TRY(driver_of(path, &driver, why));
    return driver->create(path, values, fill, ctx, why);
}

enum tern_result tern_sql_open(const char *path, unsigned flags, struct tern_sql **out,
                               char why[256])
{
    const struct tern_sql_driver *driver;
    TERN_TRY(driver_of(path, &driver, why));
    return driver->open(path, flags, out, why);
}

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

enum tern_result tern_sql_version(struct tern_sql *sql, int64_t *version)
{
    uint64_t found = 0;
    TERN_TRY(tern_query_get(tern_query_read(sql, sql->driver->dialect.version, NULL), &found));
    *version = (int64_t)found;
    return TERN_OK;
}

// Replaces %d of the dialect.
enum tern_result tern_sql_set_version(struct tern_sql *sql, int version)
{
    char text[80];
    const char *words = sql->driver->dialect.set_version;
    const int before = (int)(strchr(words, '%') - words);
    snprintf(text, sizeof text, "%.*s%d", before, words, version);
    return sql->driver->run(sql, text);
}

enum tern_result tern_sql_use(struct tern_sql *sql, enum tern_sql_use use)
{
    return sql->driver->use(sql, use);
}

// --- Transactions

enum tern_result tern_sql_begin(struct tern_sql *sql, enum tern_sql_begin kind)
{
    if (sql->driver->state(sql) != TERN_SQL_IDLE) {
        return tern_sql_fail(sql, TERN_ERR_STATE, "a transaction is open already");
    }
    TERN_TRY(sql->driver->begin(sql, kind));
    if (kind != TERN_SQL_READ) {
        sql->in_transaction = true;
        sql->doomed = false;
    }
    return TERN_OK;
}

// Whether a transaction that writes is open, and none of its writes failed in a way that dooms it. After some failures a
// database has rolled back by itself. A commit would then succeed without the earlier writes of the transaction.
static bool may_commit(const struct tern_sql *sql)
{
    return sql->in_transaction && !sql->doomed && sql->driver->state(sql) == TERN_SQL_OPEN;
}

enum tern_result tern_sql_commit(struct tern_sql *sql)
{
    if (!sql->in_transaction) {
        return tern_sql_fail(sql, TERN_ERR_STATE, "no transaction is open");
    }
    if (!may_commit(sql)) {
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
    sql->driver->rollback(sql);
    sql->in_transaction = false;
    sql->doomed = false;
}

// --- Statements

// Finds the kept statement of this text, or prepares it. *statement is NULL if it is in use, because a visitor called the
// same operation, or if there is no room for another one.
static enum tern_result take_kept(struct tern_sql *sql, const char *text,
                                  struct tern_sql_statement **statement)
{
    *statement = NULL;
    for (size_t i = 0; i < sql->kept_count; i++) {
        if (sql->kept[i].text == text) {
            *statement = sql->kept[i].in_use ? NULL : &sql->kept[i];
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
        return tern_sql_fail(sql, TERN_ERR_NO_MEMORY, "there is not enough memory");
    }
    const enum tern_result result = sql->driver->prepare(sql, text, false, &made->handle);
    if (result != TERN_OK) {
        free(made);
        return result;
    }
    *statement = made;
    return TERN_OK;
}

struct tern_query tern_query_read(struct tern_sql *sql, const char *text,
                                  const struct tern_sql_value *parameters)
{
    struct tern_query query = {.sql = sql};
    query.result = take_kept(sql, text, &query.statement);
    if (query.result == TERN_OK && query.statement == NULL) {
        query.result = make_temporary_statement(sql, text, &query.statement);
    }
    if (query.result == TERN_OK) {
        query.statement->in_use = true;
    }
    for (; parameters != NULL && parameters->type != TERN_SQL_TYPES; parameters++) {
        tern_query_bind(&query, *parameters);
    }
    return query;
}

struct tern_query tern_query_write(struct tern_sql *sql, const char *text,
                                   const struct tern_sql_value *parameters)
{
    if (!sql->in_transaction) {
        return (struct tern_query){
            .sql = sql,
            .result = tern_sql_fail(sql, TERN_ERR_STATE, "a write needs an open transaction")};
    }
    struct tern_query query = tern_query_read(sql, text, parameters);
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
        query.result = tern_sql_fail(sql, TERN_ERR_NO_MEMORY, "there is not enough memory");
    } else if (!sql->in_transaction) {
        query.result = tern_sql_fail(sql, TERN_ERR_STATE, "a write needs an open transaction");
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

void tern_query_add(struct tern_query *query, bool changes)
{
    query->next = 0;
    query->adds = true;
    if (query->result == TERN_OK) {
        query->result = query->sql->driver->add(query->sql, query->statement->handle, changes);
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

enum tern_result tern_sql_check_value(struct tern_sql *sql, const struct tern_sql_value *value)
{
    if (value->type == TERN_SQL_REAL && !isfinite(value->real)) {
        return tern_sql_fail(sql, TERN_ERR_NON_FINITE, "a number is not finite");
    }
    if (!value->overflows) {
        return TERN_OK;
    }
    switch (value->type) {
    case TERN_SQL_TEXT:
        return tern_sql_fail(sql, TERN_ERR_ARGUMENT, "a text is longer than its field");
    case TERN_SQL_BLOB:
        return tern_sql_fail(sql, TERN_ERR_TOO_LARGE, "more than 1,000,000,000 bytes in one value");
    case TERN_SQL_ID:
    case TERN_SQL_INTEGER:
    case TERN_SQL_REAL:
    case TERN_SQL_TYPES:
        break;
    }
    return tern_sql_fail(sql, TERN_ERR_ARGUMENT, "a number is above 2^63 - 1");
}

void tern_query_bind(struct tern_query *query, struct tern_sql_value value)
{
    struct tern_sql *sql = query->sql;
    const int at = ++query->next;
    if (query->result == TERN_OK) {
        query->result = tern_sql_check_value(sql, &value);
    }
    if (query->result == TERN_OK) {
        query->result = sql->driver->bind(sql, query->statement->handle, at, &value);
    }
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
             query->sql->driver->column_name(query->statement->handle, column));
    tern_query_damaged(query, where);
}

// Reads the next column. Zeros: the query has failed
static struct tern_sql_value read_value(struct tern_query *query, enum tern_sql_type type)
{
    struct tern_sql_value value = {.type = type};
    const int at = query->next++;
    if (query->result == TERN_OK) {
        query->sql->driver->column(query->statement->handle, at, &value);
    }
    return value;
}

uint64_t tern_query_number(struct tern_query *query, uint64_t most)
{
    const int64_t value = read_value(query, TERN_SQL_INTEGER).integer;
    if (value < 0 || (uint64_t)value > most) {
        damaged_column(query, query->next - 1);
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
    return (uint64_t)read_value(query, TERN_SQL_INTEGER).integer;
}

float tern_query_real(struct tern_query *query)
{
    const float value = (float)read_value(query, TERN_SQL_REAL).real;
    if (!isfinite(value)) {
        damaged_column(query, query->next - 1);
        return 0.0F;
    }
    return value;
}

void tern_query_text(struct tern_query *query, char *dst, size_t size)
{
    const struct tern_sql_value value = read_value(query, TERN_SQL_TEXT);
    dst[0] = '\0';
    if (query->result != TERN_OK) {
        return;
    }
    if (value.bytes == NULL || value.len >= size || memchr(value.bytes, 0, value.len) != NULL) {
        damaged_column(query, query->next - 1);
        return;
    }
    memcpy(dst, value.bytes, value.len);
    dst[value.len] = '\0';
}

const uint8_t *tern_query_blob(struct tern_query *query, size_t *len)
{
    const struct tern_sql_value value = read_value(query, TERN_SQL_BLOB);
    *len = value.len;
    return value.bytes;
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

enum tern_result tern_sql_put_pieces(struct tern_sql *sql, const char *table, const char *column,
                                     uint64_t id, size_t size, tern_sql_viewer view, void *ctx)
{
    if (!sql->in_transaction) {
        return tern_sql_fail(sql, TERN_ERR_STATE, "a write needs an open transaction");
    }
    const enum tern_result result =
        sql->driver->put_pieces(sql, table, column, id, size, view, ctx);
    sql->doomed = sql->doomed || result != TERN_OK; // the row has a size that its value lacks
    return result;
}

// --- End

// Whether a write failed in a way that leaves the transaction without something it should hold.
static bool dooms_transaction(const struct tern_query *query)
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
    if (dooms_transaction(query)) {
        query->sql->doomed = true;
    }
    if (statement != NULL && statement->text == NULL) {
        query->sql->driver->finish(query->sql, statement->handle);
        free(statement);
    } else if (statement != NULL) {
        query->sql->driver->reset(query->sql, statement->handle);
        statement->in_use = false;
    }
    return query->result;
}

enum tern_result tern_query_missing(struct tern_query *query)
{
    enum tern_result result = tern_query_end(query);
    return result == TERN_OK ? TERN_ERR_NOT_FOUND : result;
}

// most: < 2^63
static enum tern_result get_number(struct tern_query *query, uint64_t most, uint64_t *number)
{
    if (!tern_query_row(query)) {
        return tern_query_missing(query);
    }
    *number = tern_query_number(query, most);
    return tern_query_end(query);
}

enum tern_result tern_query_get(struct tern_query query, uint64_t *number)
{
    return get_number(&query, INT64_MAX, number);
}

enum tern_result tern_query_get_u32(struct tern_query query, uint32_t *number)
{
    uint64_t found = 0;
    TERN_TRY(get_number(&query, UINT32_MAX, &found));
    *number = (uint32_t)found;
    return TERN_OK;
}

enum tern_result tern_query_run(struct tern_query query)
{
    while (tern_query_row(&query)) {
    }
    return tern_query_end(&query);
}

enum tern_result tern_query_run_one(struct tern_query query)
{
    const enum tern_result result = tern_query_run(query);
    return result == TERN_OK && !query.sql->has_changed ? TERN_ERR_NOT_FOUND : result;
}

static enum tern_result post_now(struct tern_query *query, bool changes)
{
    if (query->adds) { // each row was written when it was added
        return TERN_OK;
    }
    while (tern_query_row(query)) {
    }
    const bool nothing = changes && query->result == TERN_OK && !query->sql->has_changed;
    return nothing ? tern_sql_fail(query->sql, TERN_ERR_NOT_FOUND, "a row to be changed is missing")
                   : query->result;
}

// A refused parameter is not a failed write, and does not doom the transaction.
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

enum tern_result tern_query_post(struct tern_query query)
{
    return post(&query, false);
}

enum tern_result tern_query_post_one(struct tern_query query)
{
    return post(&query, true);
}
