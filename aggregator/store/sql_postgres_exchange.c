// What goes to PostgreSQL and what comes back, in trips: what a failure means, numbers, and rows that are on their way.
#include "store/sql_postgres.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Failures

bool tern_postgres_is_lost(const struct postgres *pg)
{
    return pg->lost || PQstatus(pg->connection) != CONNECTION_OK;
}

static enum tern_result fail_with(struct postgres *pg, enum tern_result result, const char *what,
                                  const char *sentence)
{
    char *error = pg->base.error;
    snprintf(error, sizeof pg->base.error, "%s%s%.200s", what, what[0] != '\0' ? ": " : "",
             sentence);
    for (char *at = error; *at != '\0'; at++) { // libpq's have lines
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

enum tern_result tern_postgres_failed(struct postgres *pg, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *sentence = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (state != NULL && sentence != NULL) {
        return failed_with(pg, state, sentence);
    }
    // libpq itself says so. Where it could not send, it may take the connection for a good one.
    pg->lost = pg->lost || PQresultStatus(result) != PGRES_PIPELINE_ABORTED;
    return fail_with(pg, TERN_ERR_IO, "PostgreSQL", PQerrorMessage(pg->connection));
}

bool tern_postgres_worked(const PGresult *result)
{
    const ExecStatusType status = PQresultStatus(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_SINGLE_TUPLE;
}

// --- Numbers, which travel big-endian

uint64_t tern_postgres_swapped(uint64_t number)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return __builtin_bswap64(number);
#else
    return number;
#endif
}

// A number of another type than an integer's is below all that the store knows.
int64_t tern_postgres_integer(const PGresult *result, int row, int column)
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
    return (int64_t)tern_postgres_swapped(number);
}

// --- Pipelines
//
// Whatever is sent goes into libpq's pipeline, behind the writes that are queued there; a synchronisation ends it, at
// which results are taken in the order in which they were asked for. An error skips what follows until then, a
// COMMIT, too. libpq sends what is queued once it has 64 KiB of it, and reads while it waits to do so.

static bool enter(struct postgres *pg)
{
    return PQpipelineStatus(pg->connection) != PQ_PIPELINE_OFF ||
           PQenterPipelineMode(pg->connection) == 1;
}

// Behind all results.
static void leave(struct postgres *pg)
{
    if (!tern_postgres_is_lost(pg)) {
        PQclear(PQgetResult(pg->connection)); // that it is synchronous
    }
    // Else results are left, which would be taken for those of what is asked next.
    pg->lost = PQexitPipelineMode(pg->connection) != 1 || pg->lost;
}

// The result of a statement; behind it comes NULL. libpq leaves the first one of a pipeline in the mode of the
// query before it: a row then comes by itself, and a result without rows behind it.
static PGresult *take_result(struct postgres *pg)
{
    PGresult *result = PQgetResult(pg->connection);
    for (PGresult *next; result != NULL && (next = PQgetResult(pg->connection)) != NULL;) {
        if (tern_postgres_worked(next)) {
            PQclear(next);
        } else {
            PQclear(result);
            result = next;
        }
    }
    return result;
}

// What a later statement tells must not be taken for an answer to that one.
static enum tern_result give_up(struct postgres *pg, const struct queued *queued,
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
    if (!tern_postgres_worked(result)) {
        return give_up(pg, queued, tern_postgres_failed(pg, result));
    }
    return queued->changes && strtoull(PQcmdTuples(result), NULL, 10) == 0
               ? give_up(pg, queued,
                         tern_sql_fail(&pg->base, TERN_ERR_NOT_FOUND,
                                       "PostgreSQL: a row to be changed is missing"))
               : TERN_OK;
}

// A synchronisation was sent.
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
    for (; rest > 0 && !tern_postgres_is_lost(pg); rest--) {
        PQclear(take_result(pg));
    }
    pg->queued = 0;
    pg->is_checked = false;
    return result;
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

// What could not be sent leaves the connection, or memory, in no state to go on in.
static enum tern_result fail_to_send(struct postgres *pg)
{
    const enum tern_result result = tern_postgres_failed(pg, NULL);
    pg->lost = true;
    pg->queued = 0;
    return result;
}

enum tern_result tern_postgres_queue(struct postgres *pg, const struct statement *statement,
                                     bool changes)
{
    if (pg->queued == QUEUE_MAX) {
        TERN_TRY(tern_postgres_settle(pg));
    }
    if (!enter(pg) || !send(pg, statement)) {
        return fail_to_send(pg);
    }
    struct queued *queued = &pg->queue[pg->queued++];
    snprintf(queued->what, sizeof queued->what, "%.39s", statement->text);
    queued->changes = changes;
    pg->is_checked = pg->is_checked || changes;
    pg->has_written = true;
    return TERN_OK;
}

enum tern_result tern_postgres_settle(struct postgres *pg)
{
    tern_postgres_take_rows(pg);
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

// --- Rows on their way

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

enum tern_result tern_postgres_ask(struct postgres *pg, struct statement *statement)
{
    tern_postgres_take_rows(pg);
    if (!enter(pg) || !send(pg, statement) || PQpipelineSync(pg->connection) != 1) {
        return fail_to_send(pg);
    }
    const enum tern_result queue = take_queue(pg);
    pg->active = statement;
    if (queue != TERN_OK) {
        return queue;
    }
    return PQsetSingleRowMode(pg->connection) == 1 ? TERN_OK : tern_postgres_failed(pg, NULL);
}

void tern_postgres_end_rows(struct postgres *pg)
{
    pg->active = NULL;
    leave(pg);
}

void tern_postgres_take_rows(struct postgres *pg)
{
    struct statement *active = pg->active;
    if (active == NULL) {
        return;
    }
    for (PGresult *next; (next = PQgetResult(pg->connection)) != NULL;) {
        if (active->is_cut) {
            PQclear(next);
        } else {
            active->is_cut = !keep_rest(active, next);
        }
    }
    tern_postgres_end_rows(pg);
}

// The rows that are left are of no interest.
void tern_postgres_forget(struct postgres *pg)
{
    for (PGresult *next; (next = PQgetResult(pg->connection)) != NULL;) {
        PQclear(next);
    }
    tern_postgres_end_rows(pg);
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

enum tern_result tern_postgres_exchange(struct postgres *pg, const struct step *steps,
                                        PGresult **results, size_t count)
{
    memset(results, 0, count * sizeof results[0]);
    tern_postgres_take_rows(pg);
    if (!send_all(pg, steps, count)) {
        return fail_to_send(pg);
    }
    enum tern_result result = take_queue(pg);
    for (size_t i = 0; i < count && !tern_postgres_is_lost(pg); i++) {
        results[i] = take_result(pg);
        if (result == TERN_OK && !tern_postgres_worked(results[i])) {
            result = tern_postgres_failed(pg, results[i]);
        }
    }
    leave(pg);
    return result == TERN_OK && tern_postgres_is_lost(pg) ? tern_postgres_failed(pg, NULL) : result;
}

enum tern_result tern_postgres_run(struct postgres *pg, const char *text)
{
    TERN_TRY(tern_postgres_settle(pg));
    PGresult *result = PQexec(pg->connection, text);
    const enum tern_result run =
        tern_postgres_worked(result) ? TERN_OK : tern_postgres_failed(pg, result);
    PQclear(result);
    return run;
}

enum tern_result tern_postgres_do(struct postgres *pg, const struct step *steps, size_t count,
                                  int64_t *numbers, int columns)
{
    PGresult *results[3] = {NULL};
    const enum tern_result result = tern_postgres_exchange(pg, steps, results, count);
    for (int i = 0; i < columns && result == TERN_OK; i++) {
        numbers[i] = tern_postgres_integer(results[count - 1], 0, i);
    }
    for (size_t i = 0; i < count; i++) {
        PQclear(results[i]);
    }
    return result;
}
