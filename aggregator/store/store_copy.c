// Copies the whole state of a federation into a new database: table by table, by the definitions of the tables, in the order
// of their keys. The written rows are read again and compared before the copy appears.
//
// Indexes and triggers are made after the rows: that is faster, and triggers would count rows that are already counted.
#include "store/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Bytes of a BLOB that are read at once. Each read by SQLite walks through the BLOB's pages from the start.
#define WINDOW_BYTES (4u << 20)

struct copying {
    struct tern_db *from;
    struct tern_db to;
    const struct tern_db_copying *how;
    uint8_t *window;
    struct tern_db_copied_table made[TERN_SCHEMA_TABLES];
};

// Whether the table's rows are an id and a value of any length, which is read and written in pieces.
static bool has_bodies(const struct tern_table *table)
{
    return table->count == 2 && strcmp(table->columns[0].name, "id") == 0 &&
           table->columns[1].kind == TERN_COLUMN_BLOB;
}

// --- Hashes

struct digest {
    struct tern_sha256 hash;
    uint64_t rows;
    uint64_t bytes; // bytes of all values
};

static struct digest begin_digest(void)
{
    struct digest digest = {.rows = 0};
    tern_sha256_init(&digest.hash);
    return digest;
}

static void hash_number(struct digest *digest, uint64_t number)
{
    tern_sha256_update(&digest->hash, &number, sizeof number);
    digest->bytes += sizeof number;
}

static void hash_row(struct digest *digest, const struct tern_table *table, const void *row)
{
    for (uint32_t i = 0; i < table->count; i++) {
        digest->bytes += tern_table_hash(&digest->hash, &table->columns[i], row);
    }
    digest->rows++;
}

static void end_digest(struct digest *digest, const struct tern_table *table,
                       struct tern_db_copied_table *made)
{
    *made = (struct tern_db_copied_table){table->name, digest->rows, digest->bytes, {0}};
    tern_sha256_final(&digest->hash, made->sha256);
}

static void report_progress(const struct copying *copying, const char *doing,
                            const struct tern_table *table, const struct digest *digest)
{
    if (copying->how->progress != NULL) {
        copying->how->progress(copying->how->ctx, doing, table->name, digest->rows);
    }
}

// --- Failures

// Sets the sentence of the new database, which is the one that the caller reports.
static enum tern_result fail_reading(struct copying *copying, enum tern_result result)
{
    char sentence[256];
    snprintf(sentence, sizeof sentence, "the database to copy cannot be read: %.200s",
             copying->from->sql->error);
    return tern_sql_fail(copying->to.sql, result, sentence);
}

// --- Rows that are read whole

static enum tern_result copy_each(struct copying *copying, const struct tern_table *table,
                                  void *row, struct digest *digest)
{
    struct tern_query source = tern_table_scan(copying->from, table);
    struct tern_query made = tern_table_load(&copying->to, table);
    while (made.result == TERN_OK && tern_table_next(&source, table, row)) {
        hash_row(digest, table, row);
        tern_table_load_row(&made, table, row);
        report_progress(copying, "copying", table, digest);
    }
    const enum tern_result read = tern_query_end(&source);
    TERN_TRY(tern_query_end(&made));
    return read == TERN_OK ? TERN_OK : fail_reading(copying, read);
}

static enum tern_result hash_each(struct copying *copying, const struct tern_table *table,
                                  void *row, struct digest *digest)
{
    struct tern_query query = tern_table_scan(&copying->to, table);
    while (tern_table_next(&query, table, row)) {
        hash_row(digest, table, row);
        report_progress(copying, "comparing", table, digest);
    }
    return tern_query_end(&query);
}

typedef enum tern_result (*visit)(struct copying *copying, const struct tern_table *table,
                                  void *row, struct digest *digest);

static enum tern_result run_on_rows(struct copying *copying, const struct tern_table *table,
                                    visit each, struct digest *digest)
{
    void *row = calloc(1, tern_table_row_bytes(table));
    if (row == NULL) {
        return tern_sql_fail(copying->to.sql, TERN_ERR_NO_MEMORY, "there is not enough memory");
    }
    const enum tern_result result = each(copying, table, row, digest);
    free(row);
    return result;
}

// --- Values that are read in pieces

struct body {
    struct copying *copying;
    const struct tern_table *table;
    uint64_t id;
    size_t size;
    size_t at; // offset of the window's bytes in the body
    size_t len;
    struct digest *digest;
};

static void begin_body(const struct body *body)
{
    hash_number(body->digest, body->id);
    hash_number(body->digest, body->size); // as tern_table_hash() hashes a BLOB
    body->digest->bytes += body->size;
    body->digest->rows++;
}

static enum tern_result hash_piece(void *ctx, const uint8_t *data, size_t len)
{
    const struct body *body = ctx;
    tern_sha256_update(&body->digest->hash, data, len);
    return TERN_OK;
}

// Pieces are requested in ascending order.
static enum tern_result move_window(struct body *body, size_t at)
{
    struct copying *copying = body->copying;
    const struct tern_table *table = body->table;
    const size_t left = body->size - at;
    body->at = at;
    body->len = left < WINDOW_BYTES ? left : WINDOW_BYTES;
    const enum tern_result result =
        copying->from->sql->driver->piece(copying->from->sql, table->name, table->columns[1].name,
                                          body->id, body->size, at, body->len, copying->window);
    return result == TERN_OK ? hash_piece(body, copying->window, body->len)
                             : fail_reading(copying, result);
}

static enum tern_result view(void *ctx, size_t at, size_t len, const uint8_t **data)
{
    struct body *body = ctx;
    if (at + len > body->at + body->len) {
        TERN_TRY(move_window(body, at));
    }
    *data = body->copying->window + (at - body->at);
    return TERN_OK;
}

static enum tern_result copy_body(struct body *body)
{
    return tern_sql_put_pieces(body->copying->to.sql, body->table->name,
                               body->table->columns[1].name, body->id, body->size, view, body);
}

static enum tern_result hash_body(struct body *body)
{
    return body->copying->to.sql->driver->stream(body->copying->to.sql, body->table->name,
                                                 body->table->columns[1].name, body->id, body->size,
                                                 hash_piece, body);
}

static enum tern_result copy_bodies(struct copying *copying, const struct tern_table *table,
                                    struct digest *digest)
{
    struct body body = {.copying = copying, .table = table, .digest = digest};
    for (;;) {
        const enum tern_result found =
            tern_table_next_body(copying->from, table, body.id, &body.id, &body.size);
        if (found != TERN_OK) {
            return found == TERN_ERR_NOT_FOUND ? TERN_OK : fail_reading(copying, found);
        }
        body.at = 0;
        body.len = 0;
        begin_body(&body);
        TERN_TRY(copy_body(&body));
        report_progress(copying, "copying", table, digest);
    }
}

static enum tern_result hash_bodies(struct copying *copying, const struct tern_table *table,
                                    struct digest *digest)
{
    struct body body = {.copying = copying, .table = table, .digest = digest};
    enum tern_result found;
    while ((found = tern_table_next_body(&copying->to, table, body.id, &body.id, &body.size)) ==
           TERN_OK) {
        begin_body(&body);
        TERN_TRY(hash_body(&body));
        report_progress(copying, "comparing", table, digest);
    }
    return tern_db_may_miss(found);
}

// --- Tables

static enum tern_result copy_table(struct copying *copying, const struct tern_table *table,
                                   struct tern_db_copied_table *made)
{
    struct digest digest = begin_digest();
    TERN_TRY(has_bodies(table) ? copy_bodies(copying, table, &digest)
                               : run_on_rows(copying, table, copy_each, &digest));
    end_digest(&digest, table, made);
    return TERN_OK;
}

static enum tern_result compare_table(struct copying *copying, const struct tern_table *table,
                                      const struct tern_db_copied_table *made)
{
    struct digest digest = begin_digest();
    struct tern_db_copied_table found;
    char sentence[160];
    TERN_TRY(has_bodies(table) ? hash_bodies(copying, table, &digest)
                               : run_on_rows(copying, table, hash_each, &digest));
    end_digest(&digest, table, &found);
    if (found.rows == made->rows && memcmp(found.sha256, made->sha256, TERN_SHA256_SIZE) == 0) {
        return TERN_OK;
    }
    snprintf(sentence, sizeof sentence,
             "the %llu rows of %s that were written are not the %llu that were read",
             (unsigned long long)found.rows, table->name, (unsigned long long)made->rows);
    return tern_sql_fail(copying->to.sql, TERN_ERR_CORRUPT, sentence);
}

// Refuses the copy if another program wrote meanwhile: a copy is made from a snapshot and would lack that write, such
// as a revocation.
static enum tern_result refuse_changed(struct copying *copying)
{
    tern_db_rollback(copying->from);
    return tern_db_changed_by_others(copying->from)
               ? tern_sql_fail(copying->to.sql, TERN_ERR_STATE,
                               "another program wrote to the source database meanwhile; try again")
               : TERN_OK;
}

static enum tern_result check(struct copying *copying)
{
    char why[256] = "";
    if (copying->how->check == NULL) {
        return TERN_OK;
    }
    const enum tern_result result = copying->how->check(copying->how->ctx, &copying->to, why);
    return result == TERN_OK ? TERN_OK : tern_sql_fail(copying->to.sql, result, why);
}

static enum tern_result copy_all(struct copying *copying)
{
    TERN_TRY(tern_schema_create_tables(copying->to.sql));
    for (size_t i = 0; i < TERN_SCHEMA_TABLES; i++) {
        TERN_TRY(copy_table(copying, tern_schema_tables[i], &copying->made[i]));
    }
    TERN_TRY(tern_schema_complete(copying->to.sql));
    for (size_t i = 0; i < TERN_SCHEMA_TABLES; i++) {
        TERN_TRY(compare_table(copying, tern_schema_tables[i], &copying->made[i]));
    }
    TERN_TRY(check(copying));
    return refuse_changed(copying);
}

static enum tern_result fill(struct tern_sql *sql, void *ctx)
{
    struct copying *copying = ctx;
    copying->to = (struct tern_db){.sql = sql};
    const enum tern_result result = copy_all(copying);
    tern_db_forget(&copying->to); // the connection does not use the generated statements any more
    return result;
}

enum tern_result tern_db_copy_state(struct tern_db *from, const char *path,
                                    const struct tern_db_copying *how, char why[256])
{
    struct copying *copying = calloc(1, sizeof *copying);
    uint8_t *window = malloc(WINDOW_BYTES);
    enum tern_result result = TERN_ERR_NO_MEMORY;
    snprintf(why, 256, "there is not enough memory");
    if (copying != NULL && window != NULL) {
        *copying = (struct copying){.from = from, .how = how, .window = window};
        (void)tern_db_changed_by_others(
            from); // starts the count: the copy has all writes before this call
        result = tern_db_begin_reading(from);
        snprintf(why, 256, "%s", tern_db_error(from));
    }
    uint64_t values = 0;
    if (result == TERN_OK) {
        result = tern_query_get(
            tern_db_read(from, "SELECT coalesce(max(count), 0) FROM weights", NULL), &values);
        snprintf(why, 256, "%s", tern_db_error(from));
    }
    if (result == TERN_OK) {
        result = tern_sql_create(path, values, fill, copying, why);
        tern_db_rollback(from);
    }
    for (size_t i = 0; result == TERN_OK && how->made != NULL && i < TERN_SCHEMA_TABLES; i++) {
        how->made(how->ctx, &copying->made[i]);
    }
    free(window);
    free(copying);
    return result;
}
