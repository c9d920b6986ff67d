// Rows in bulk: by one COPY of a table, which takes them as they come. By INSERT each would be a trip to the server.
#include "store/sql_postgres.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GATHERED 16384 // bytes that are handed to libpq at once

struct load {
    struct statement row; // its parameters, as bind_..() leaves them
    uint8_t bytes[GATHERED];
    size_t len;
};

static enum tern_result send_bytes(struct postgres *pg, const void *bytes, size_t len)
{
    return PQputCopyData(pg->connection, bytes, (int)len) == 1 ? TERN_OK
                                                               : tern_postgres_failed(pg, NULL);
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
    tern_postgres_put_number(word, number, bytes);
    return put(pg, load, word, bytes);
}

// From here on the connection takes nothing but rows.
static enum tern_result begin(struct postgres *pg, const char *table, const char *columns)
{
    char text[4096];
    TERN_TRY(tern_postgres_be_connected(pg));
    TERN_TRY(tern_postgres_settle(pg));
    pg->has_written = true;
    snprintf(text, sizeof text, "COPY %s (%s) FROM STDIN (FORMAT binary)", table, columns);
    PGresult *begun = PQexec(pg->connection, text);
    const enum tern_result result =
        PQresultStatus(begun) == PGRES_COPY_IN ? TERN_OK : tern_postgres_failed(pg, begun);
    PQclear(begun);
    return result;
}

enum tern_result tern_postgres_load(struct tern_sql *sql, const char *table, const char *columns,
                                    int count, void **handle)
{
    struct load *load = calloc(1, sizeof *load);
    if (load == NULL) {
        return tern_sql_fail(sql, TERN_ERR_NO_MEMORY, "memory could not be had");
    }
    enum tern_result result =
        count > PARAMETERS ? tern_sql_fail(sql, TERN_ERR_ARGUMENT, "a table has too many columns")
                           : begin(postgres_of(sql), table, columns);
    if (result != TERN_OK) {
        free(load);
        return result;
    }
    load->row.parameters = count;
    load->len = tern_postgres_copy_header(load->bytes);
    *handle = load;
    return TERN_OK;
}

enum tern_result tern_postgres_load_row(struct tern_sql *sql, void *handle)
{
    struct postgres *pg = postgres_of(sql);
    struct load *load = handle;
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
    TERN_TRY(put_number(pg, load, 0xffff, 2)); // in place of a number of fields
    return send_gathered(pg, load);
}

enum tern_result tern_postgres_load_end(struct tern_sql *sql, void *handle, bool whole)
{
    struct postgres *pg = postgres_of(sql);
    enum tern_result result = whole ? send_end(pg, handle) : TERN_OK;
    const bool complete = whole && result == TERN_OK;
    PQputCopyEnd(pg->connection, complete ? NULL : "they could not be read");
    for (PGresult *next; (next = PQgetResult(pg->connection)) != NULL; PQclear(next)) {
        if (complete && result == TERN_OK && !tern_postgres_worked(next)) {
            result = tern_postgres_failed(pg, next);
        }
    }
    free(handle);
    return result;
}
