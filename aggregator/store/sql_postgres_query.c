// What is sent to PostgreSQL and what comes back: statements with parameters and rows, both binary.
//
// Rows of a query come one by one, so that one that reads all bodies takes the memory of one of them. A
// connection does one thing at a time: what is asked while rows are on their way first takes in the rest.
//
// An error gives up all of a transaction, where the store goes on after a broken constraint: a write whose outcome
// somebody waits for stands behind a savepoint, sent along with it. Writes that nobody waits for (tern_query_post())
// are queued, without one.
#include "store/sql_postgres.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Statements

// Writes `from` with $N for each ?N and ?, and counts them. dst: twice as long, and 1
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

enum tern_result tern_postgres_prepare(struct tern_sql *sql, const char *text, bool kept,
                                       void **handle)
{
    struct postgres *pg = postgres_of(sql);
    struct statement *made = calloc(1, sizeof *made);
    char *numbered = malloc(3 * strlen(text) + 1);
    *handle = NULL;
    if (made == NULL || numbered == NULL) {
        free(made);
        free(numbered);
        return tern_sql_fail(sql, TERN_ERR_NO_MEMORY, "memory could not be had");
    }
    made->text = numbered;
    made->parameters = number_parameters(text, numbered);
    if (made->parameters > PARAMETERS) {
        tern_postgres_finish(sql, made);
        return tern_sql_fail(sql, TERN_ERR_ARGUMENT, "a statement has too many parameters");
    }
    if (kept) {
        snprintf(made->name, sizeof made->name, "s%u", ++pg->prepared);
    }
    *handle = made;
    return TERN_OK;
}

// The server learns it at its first use, when the types of its parameters are known.
static enum tern_result introduce(struct postgres *pg, struct statement *statement)
{
    if (statement->name[0] == '\0' || statement->generation == pg->generation) {
        return TERN_OK;
    }
    TERN_TRY(tern_postgres_settle(pg));
    PGresult *result = PQprepare(pg->connection, statement->name, statement->text,
                                 statement->parameters, statement->types);
    const enum tern_result made =
        tern_postgres_worked(result) ? TERN_OK : tern_postgres_failed(pg, result);
    PQclear(result);
    statement->generation = made == TERN_OK ? pg->generation : 0;
    return made;
}

bool tern_postgres_is_busy(void *handle)
{
    const struct statement *statement = handle;
    return statement->begun;
}

void tern_postgres_reset(struct tern_sql *sql, void *handle)
{
    struct postgres *pg = postgres_of(sql);
    struct statement *statement = handle;
    if (pg->active == statement) {
        tern_postgres_forget(pg);
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
    statement->is_cut = false;
    statement->begun = false;
}

void tern_postgres_finish(struct tern_sql *sql, void *handle)
{
    struct statement *statement = handle;
    tern_postgres_reset(sql, statement);
    free(statement->text);
    free(statement);
}

// --- Parameters

static struct statement *bind(void *handle, int at, Oid type, const void *value, size_t len)
{
    struct statement *statement = handle;
    if (at <= statement->parameters) {
        statement->types[at - 1] = type;
        statement->values[at - 1] = value;
        statement->lengths[at - 1] = (int)len;
        statement->formats[at - 1] = BINARY;
    }
    return statement;
}

static enum tern_result bind_word(void *handle, int at, Oid type, uint64_t word)
{
    struct statement *statement = handle;
    if (at <= statement->parameters) {
        statement->numbers[at - 1] = tern_postgres_swapped(word);
        bind(handle, at, type, &statement->numbers[at - 1], sizeof word);
    }
    return TERN_OK;
}

enum tern_result tern_postgres_bind_integer(struct tern_sql *sql, void *handle, int at,
                                            int64_t value)
{
    (void)sql;
    return bind_word(handle, at, INT8_OID, (uint64_t)value);
}

enum tern_result tern_postgres_bind_real(struct tern_sql *sql, void *handle, int at, double value)
{
    uint64_t bits;
    (void)sql;
    memcpy(&bits, &value, sizeof bits);
    return bind_word(handle, at, FLOAT8_OID, bits);
}

enum tern_result tern_postgres_bind_text(struct tern_sql *sql, void *handle, int at,
                                         const char *text, size_t len)
{
    (void)sql;
    bind(handle, at, TEXT_OID, text, len);
    return TERN_OK;
}

enum tern_result tern_postgres_bind_blob(struct tern_sql *sql, void *handle, int at,
                                         const void *data, size_t len)
{
    (void)sql;
    bind(handle, at, BYTEA_OID, data, len);
    return TERN_OK;
}

// --- Steps

// Sends it and takes its first row, or that there is none.
static enum tern_result begin_reading(struct postgres *pg, struct statement *statement)
{
    TERN_TRY(tern_postgres_be_connected(pg));
    TERN_TRY(introduce(pg, statement));
    TERN_TRY(tern_postgres_ask(pg, statement));
    statement->result = PQgetResult(pg->connection);
    return tern_postgres_worked(statement->result) ? TERN_OK
                                                   : tern_postgres_failed(pg, statement->result);
}

// Outside of a transaction, what finds the connection lost is asked once more on a new one.
static enum tern_result read_first(struct postgres *pg, struct statement *statement)
{
    TERN_TRY(tern_postgres_be_connected(pg)); // where there is no server, that takes seconds: once
    const enum tern_result result = begin_reading(pg, statement);
    if (result == TERN_OK || !tern_postgres_is_lost(pg) || pg->is_open) {
        return result;
    }
    tern_postgres_reset(&pg->base, statement);
    statement->begun = true;
    return begin_reading(pg, statement);
}

#define SAVEPOINT "tern_write"

static enum tern_result take_back(struct postgres *pg, enum tern_result result)
{
    char error[sizeof pg->base.error];
    memcpy(error, pg->base.error, sizeof error);
    // Where this fails, the transaction can no longer be committed, which may_commit() finds.
    (void)!tern_postgres_run(pg,
                             "ROLLBACK TO SAVEPOINT " SAVEPOINT "; RELEASE SAVEPOINT " SAVEPOINT);
    memcpy(pg->base.error, error, sizeof error);
    return result;
}

static void note_written(struct postgres *pg, PGresult *result)
{
    pg->has_changed = strtoull(PQcmdTuples(result), NULL, 10) > 0;
    if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1) {
        pg->last_id = (uint64_t)tern_postgres_integer(result, 0, 0);
    }
}

static enum tern_result write_now(struct postgres *pg, struct statement *statement)
{
    const struct step steps[] = {{.text = "SAVEPOINT " SAVEPOINT},
                                 {.statement = statement},
                                 {.text = "RELEASE SAVEPOINT " SAVEPOINT}};
    PGresult *results[3] = {NULL};
    TERN_TRY(tern_postgres_be_connected(pg));
    TERN_TRY(introduce(pg, statement));
    pg->has_written = true;
    enum tern_result result = tern_postgres_exchange(pg, steps, results, 3);
    if (result == TERN_OK) {
        note_written(pg, results[1]);
    } else if (tern_postgres_worked(results[0]) && !tern_postgres_is_lost(pg)) {
        result = take_back(pg, result);
    }
    for (size_t i = 0; i < 3; i++) {
        PQclear(results[i]);
    }
    return result;
}

// Goes on to the result that comes next. NULL: there is none.
static enum tern_result next_result(struct postgres *pg, struct statement *statement)
{
    PQclear(statement->result);
    statement->result = NULL;
    statement->row = 0;
    if (statement->rest_next < statement->rest_count) {
        statement->result = statement->rest[statement->rest_next++];
    } else if (statement->is_cut) {
        return tern_sql_fail(&pg->base, TERN_ERR_NO_MEMORY, "memory could not be had");
    } else if (pg->active == statement) {
        statement->result = PQgetResult(pg->connection);
    }
    if (statement->result == NULL) {
        if (pg->active == statement) {
            tern_postgres_end_rows(pg);
        }
        return TERN_OK;
    }
    return tern_postgres_worked(statement->result) ? TERN_OK
                                                   : tern_postgres_failed(pg, statement->result);
}

// The result that ends the rows has none, and is followed by nothing.
static enum tern_result read_next(struct postgres *pg, struct statement *statement, bool *row)
{
    while (statement->result != NULL && statement->row >= PQntuples(statement->result)) {
        TERN_TRY(next_result(pg, statement));
    }
    *row = statement->result != NULL;
    return TERN_OK;
}

// Of a transaction that was given up the sentence stays which says why.
static enum tern_result may_go_on(struct postgres *pg)
{
    if (pg->given_up != TERN_OK) {
        return pg->given_up;
    }
    return pg->stop != NULL && atomic_load(pg->stop)
               ? tern_sql_fail(&pg->base, TERN_ERR_IO, "it was told to stop")
               : TERN_OK;
}

enum tern_result tern_postgres_post(struct tern_sql *sql, void *handle, bool changes)
{
    struct postgres *pg = postgres_of(sql);
    TERN_TRY(may_go_on(pg));
    TERN_TRY(tern_postgres_be_connected(pg));
    tern_postgres_take_rows(pg);
    TERN_TRY(introduce(pg, handle));
    return tern_postgres_queue(pg, handle, changes);
}

enum tern_result tern_postgres_step(struct tern_sql *sql, void *handle, bool writes, bool *row)
{
    struct postgres *pg = postgres_of(sql);
    struct statement *statement = handle;
    *row = false;
    TERN_TRY(may_go_on(pg));
    if (writes) { // its rows, of which note_written() has the number, are for nobody
        return write_now(pg, statement);
    }
    if (statement->begun) {
        statement->row++;
    } else {
        statement->begun = true;
        statement->row = 0;
        TERN_TRY(read_first(pg, statement));
    }
    return read_next(pg, statement, row);
}

// --- Columns

int64_t tern_postgres_integer_at(void *handle, int at)
{
    const struct statement *statement = handle;
    return tern_postgres_integer(statement->result, statement->row, at);
}

double tern_postgres_real_at(void *handle, int at)
{
    const struct statement *statement = handle;
    double value = 0.0;
    if (PQftype(statement->result, at) != FLOAT8_OID) {
        return (double)tern_postgres_integer_at(handle, at);
    }
    if (PQgetlength(statement->result, statement->row, at) == (int)sizeof value) {
        uint64_t bits;
        memcpy(&bits, PQgetvalue(statement->result, statement->row, at), sizeof bits);
        bits = tern_postgres_swapped(bits);
        memcpy(&value, &bits, sizeof value);
    }
    return value;
}

const char *tern_postgres_text_at(void *handle, int at, size_t *len)
{
    const struct statement *statement = handle;
    *len = (size_t)PQgetlength(statement->result, statement->row, at);
    return PQgetisnull(statement->result, statement->row, at)
               ? NULL
               : PQgetvalue(statement->result, statement->row, at);
}

const void *tern_postgres_blob_at(void *handle, int at, size_t *len)
{
    const void *blob = tern_postgres_text_at(handle, at, len);
    return *len > 0 ? blob : NULL;
}

const char *tern_postgres_column_at(void *handle, int at)
{
    const struct statement *statement = handle;
    return PQfname(statement->result, at);
}

// --- Values in pieces

static enum tern_result check_length(struct postgres *pg, const char *table, const char *column,
                                     uint64_t id, size_t size)
{
    char text[160];
    int64_t stored = -1;
    snprintf(text, sizeof text, "SELECT length(%s) FROM %s WHERE id = %llu", column, table,
             (unsigned long long)id);
    TERN_TRY(tern_postgres_number(pg, text, NULL, -1, &stored));
    if (stored < 0) {
        return tern_sql_fail(&pg->base, TERN_ERR_NOT_FOUND, "there is no such row");
    }
    return (uint64_t)stored == size
               ? TERN_OK
               : tern_sql_fail_damaged(&pg->base, "a value is longer or shorter than its row says");
}

static enum tern_result take_piece(struct postgres *pg, const char *table, const char *column,
                                   uint64_t id, size_t at, size_t len, tern_sql_taker take,
                                   void *ctx)
{
    char text[200];
    snprintf(text, sizeof text, "SELECT substring(%s FROM %zu FOR %zu) FROM %s WHERE id = %llu",
             column, at + 1, len, table, (unsigned long long)id);
    TERN_TRY(tern_postgres_be_connected(pg));
    TERN_TRY(tern_postgres_settle(pg));
    PGresult *result = PQexecParams(pg->connection, text, 0, NULL, NULL, NULL, NULL, BINARY);
    enum tern_result taken = TERN_OK;
    if (!tern_postgres_worked(result)) {
        taken = tern_postgres_failed(pg, result);
    } else if (PQntuples(result) != 1 || (size_t)PQgetlength(result, 0, 0) != len) {
        taken = tern_sql_fail(&pg->base, TERN_ERR_IO, "a value changed while it was read");
    } else {
        taken = take(ctx, (const uint8_t *)PQgetvalue(result, 0, 0), len);
    }
    PQclear(result);
    return taken;
}

static enum tern_result take_to(void *dst, const uint8_t *data, size_t len)
{
    memcpy(dst, data, len);
    return TERN_OK;
}

enum tern_result tern_postgres_piece(struct tern_sql *sql, const char *table, const char *column,
                                     uint64_t id, size_t size, size_t at, size_t len, uint8_t *dst)
{
    (void)size; // one that is shorter is found by its last piece
    return take_piece(postgres_of(sql), table, column, id, at, len, take_to, dst);
}

enum tern_result tern_postgres_stream(struct tern_sql *sql, const char *table, const char *column,
                                      uint64_t id, size_t size, tern_sql_taker take, void *ctx)
{
    struct postgres *pg = postgres_of(sql);
    TERN_TRY(check_length(pg, table, column, id, size));
    for (size_t done = 0; done < size;) {
        const size_t len = size - done < TERN_SQL_PIECE_BYTES ? size - done : TERN_SQL_PIECE_BYTES;
        TERN_TRY(take_piece(pg, table, column, id, done, len, take, ctx));
        done += len;
    }
    return TERN_OK;
}

// What stands in a binary COPY before the bytes of the one row's second field.
static size_t copy_head(uint8_t head[64], uint64_t id, size_t size)
{
    uint8_t *at = head;
    at = tern_postgres_put_number(at + tern_postgres_copy_header(head), 2, 2); // fields
    at = tern_postgres_put_number(tern_postgres_put_number(at, 8, 4), id, 8);
    at = tern_postgres_put_number(at, size, 4);
    return (size_t)(at - head);
}

static enum tern_result copy_bytes(struct postgres *pg, const void *bytes, size_t len)
{
    return PQputCopyData(pg->connection, bytes, (int)len) == 1 ? TERN_OK
                                                               : tern_postgres_failed(pg, NULL);
}

static enum tern_result copy_value(struct postgres *pg, uint64_t id, size_t size,
                                   tern_sql_viewer view, void *ctx)
{
    static const uint8_t end[2] = {0xff, 0xff};
    uint8_t head[64];
    TERN_TRY(copy_bytes(pg, head, copy_head(head, id, size)));
    for (size_t done = 0; done < size;) {
        const size_t len = size - done < TERN_SQL_PIECE_BYTES ? size - done : TERN_SQL_PIECE_BYTES;
        const uint8_t *piece = NULL;
        TERN_TRY(view(ctx, done, len, &piece));
        TERN_TRY(copy_bytes(pg, piece, len));
        done += len;
    }
    return copy_bytes(pg, end, sizeof end);
}

// A COPY takes the value as it comes, where a parameter would need all of it in memory.
enum tern_result tern_postgres_put_pieces(struct tern_sql *sql, const char *table,
                                          const char *column, uint64_t id, size_t size,
                                          tern_sql_viewer view, void *ctx)
{
    struct postgres *pg = postgres_of(sql);
    char text[160];
    TERN_TRY(may_go_on(pg));
    TERN_TRY(tern_postgres_be_connected(pg));
    TERN_TRY(tern_postgres_settle(pg)); // libpq copies in no pipeline
    pg->has_written = true;
    snprintf(text, sizeof text, "COPY %s (id, %s) FROM STDIN (FORMAT binary)", table, column);
    PGresult *begun = PQexec(pg->connection, text);
    enum tern_result result =
        PQresultStatus(begun) == PGRES_COPY_IN ? TERN_OK : tern_postgres_failed(pg, begun);
    PQclear(begun);
    TERN_TRY(result);
    result = copy_value(pg, id, size, view, ctx);
    PQputCopyEnd(pg->connection, result == TERN_OK ? NULL : "it could not be read");
    for (PGresult *next; (next = PQgetResult(pg->connection)) != NULL; PQclear(next)) {
        if (result == TERN_OK && !tern_postgres_worked(next)) {
            result = tern_postgres_failed(pg, next);
        }
    }
    return result;
}
