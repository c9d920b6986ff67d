#include "store/sql_table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 4096

// --- Texts of statements

enum shape {
    SHAPE_SELECT,
    SHAPE_SCAN,
    SHAPE_NEXT,
    SHAPE_SUMS,
    SHAPE_INSERT, // and what else writes
    SHAPE_KEEP,
    SHAPE_PUT,
    SHAPE_UPDATE
};

// What a text follows from; literals go by their address.
struct tern_table_text {
    const struct tern_table *table;
    enum shape shape;
    const char *group;
    const char *tail;
    char *text;
};

struct writer {
    char text[TEXT_MAX];
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void add(struct writer *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(out->text + out->len, sizeof out->text - out->len, format, arguments);
    va_end(arguments);
    out->len += len > 0 ? (size_t)len : 0;
    if (out->len >= sizeof out->text) {
        out->len = sizeof out->text - 1;
    }
}

// The column's name in SQL.
static const char *name_of(const struct tern_column *column, char name[64])
{
    snprintf(name, 64, "%s", column->name);
    for (char *at = name; *at != '\0'; at++) {
        *at = *at == '.' ? '_' : *at;
    }
    return name;
}

// `format`, in which @ is the column's name and # the table's.
static void add_words(struct writer *out, const char *format, const char *column, const char *table)
{
    for (const char *at = format; *at != '\0'; at++) {
        if (*at == '@') {
            add(out, "%s", column);
        } else if (*at == '#') {
            add(out, "%s", table);
        } else {
            add(out, "%c", *at);
        }
    }
}

// `format`, in which @ is the column's name.
static void add_column(struct writer *out, const struct tern_column *column, const char *format)
{
    char name[64];
    add_words(out, format, name_of(column, name), "#");
}

// Likewise for each column that is wanted, with commas between them.
static void add_columns(struct writer *out, const struct tern_table *table,
                        bool (*wanted)(const struct tern_column *column), const char *format)
{
    const char *comma = "";
    for (uint32_t i = 0; i < table->count; i++) {
        if (wanted(&table->columns[i])) {
            add(out, "%s", comma);
            add_column(out, &table->columns[i], format);
            comma = ", ";
        }
    }
}

static bool any(const struct tern_column *column)
{
    (void)column;
    return true;
}

static bool is_id(const struct tern_column *column)
{
    return column->kind == TERN_COLUMN_ID;
}

static bool is_given(const struct tern_column *column)
{
    return !is_id(column);
}

static bool is_key(const struct tern_column *column)
{
    return column->rule == TERN_RULE_KEY;
}

static bool finds(const struct tern_column *column)
{
    return is_id(column) || is_key(column);
}

static bool is_set(const struct tern_column *column)
{
    return column->rule == TERN_RULE_SET;
}

static bool is_added_to(const struct tern_column *column)
{
    return column->rule == TERN_RULE_ADD;
}

static bool has_id(const struct tern_table *table)
{
    return is_id(&table->columns[0]);
}

static void write_select(struct writer *out, const struct tern_table *table)
{
    add(out, "SELECT ");
    add_columns(out, table, any, "@");
    add(out, " FROM %s ", table->name);
}

static void write_scan(struct writer *out, const struct tern_table *table)
{
    write_select(out, table);
    add(out, "ORDER BY ");
    add_columns(out, table, finds, "@");
}

static void write_next(struct writer *out, const struct tern_table *table)
{
    add_words(out, "SELECT id, length(@) FROM # WHERE id > ? ORDER BY id LIMIT 1",
              table->columns[1].name, table->name);
}

static void write_sums(struct writer *out, const struct tern_table *table, const char *group)
{
    add(out, "SELECT ");
    for (uint32_t i = 0; i < table->count; i++) {
        const struct tern_column *column = &table->columns[i];
        bool grouped = group != NULL && strcmp(group, column->name) == 0;
        add(out, "%s", i == 0 ? "" : ", ");
        add_column(out, column, is_added_to(column) ? TERN_SUM_OF("@") : grouped ? "@" : "0");
    }
    add(out, " ");
}

// new_id: as in the dialect.
static void write_insert(struct writer *out, const struct tern_table *table, const char *new_id)
{
    const bool asks = new_id != NULL && has_id(table);
    add(out, "INSERT INTO %s (%s", table->name, asks ? "id, " : "");
    add_columns(out, table, is_given, "@");
    add(out, ") VALUES (");
    if (asks) {
        add_words(out, new_id, "@", table->name);
        add(out, ", ");
    }
    add_columns(out, table, is_given, "?");
    add(out, ") ");
}

// The columns of a table are either set or added to.
static void write_put(struct writer *out, const struct tern_table *table)
{
    char sum[64];
    snprintf(sum, sizeof sum, "@ = %s.@ + excluded.@", table->name);
    write_insert(out, table, NULL);
    add(out, "ON CONFLICT (");
    add_columns(out, table, is_key, "@");
    add(out, ") DO UPDATE SET ");
    add_columns(out, table, is_set, "@ = excluded.@");
    add_columns(out, table, is_added_to, sum);
    add(out, " ");
}

static void write_update(struct writer *out, const struct tern_table *table)
{
    add(out, "UPDATE %s SET ", table->name);
    add_columns(out, table, is_set, "@ = ?");
    const char *word = " WHERE ";
    for (uint32_t i = 0; i < table->count; i++) {
        if (finds(&table->columns[i])) {
            add(out, "%s", word);
            add_column(out, &table->columns[i], "@ = ?");
            word = " AND ";
        }
    }
    add(out, " ");
}

// An id that the statement asks for is had of it.
static const char *returning(const struct tern_table *table, const char *new_id)
{
    return new_id != NULL && has_id(table) ? "RETURNING id " : "";
}

static void write_text(struct writer *out, const struct tern_table_text *key, const char *new_id)
{
    const struct tern_table *table = key->table;
    switch (key->shape) {
    case SHAPE_SELECT:
        write_select(out, table);
        break;
    case SHAPE_SCAN:
        write_scan(out, table);
        break;
    case SHAPE_NEXT:
        write_next(out, table);
        break;
    case SHAPE_SUMS:
        write_sums(out, table, key->group);
        break;
    case SHAPE_INSERT:
        write_insert(out, table, new_id);
        add(out, "%s", returning(table, new_id));
        break;
    case SHAPE_KEEP:
        write_insert(out, table, new_id);
        add(out, "ON CONFLICT DO NOTHING %s", returning(table, new_id));
        break;
    case SHAPE_PUT:
        write_put(out, table);
        break;
    case SHAPE_UPDATE:
        write_update(out, table);
        break;
    }
    add(out, "%s", key->tail);
}

static const char *make_text(struct tern_db *db, const struct tern_table_text *key)
{
    struct writer out = {.len = 0};
    struct tern_table_text *texts = realloc(db->texts, (db->text_count + 1) * sizeof db->texts[0]);
    if (texts == NULL) {
        return NULL;
    }
    db->texts = texts;
    texts[db->text_count] = *key;
    write_text(&out, key, tern_sql_dialect(db->sql)->new_id);
    texts[db->text_count].text = strdup(out.text);
    return texts[db->text_count].text == NULL ? NULL : texts[db->text_count++].text;
}

static const char *text_of(struct tern_db *db, const struct tern_table_text *key)
{
    for (size_t i = 0; i < db->text_count; i++) {
        const struct tern_table_text *known = &db->texts[i];
        if (known->tail == key->tail && known->table == key->table && known->shape == key->shape &&
            known->group == key->group) {
            return known->text;
        }
    }
    return make_text(db, key);
}

void tern_table_free_texts(struct tern_db *db)
{
    for (size_t i = 0; i < db->text_count; i++) {
        free(db->texts[i].text);
    }
    free(db->texts);
}

static struct tern_query query_of(struct tern_db *db, const struct tern_table *table,
                                  enum shape shape, const char *group, const char *tail)
{
    const struct tern_table_text key = {table, shape, group, tail, NULL};
    const char *text = text_of(db, &key);
    if (text == NULL) {
        return (struct tern_query){
            .sql = db->sql,
            .result = tern_sql_fail(db->sql, TERN_ERR_NO_MEMORY, "memory could not be had")};
    }
    const bool reads = shape < SHAPE_INSERT;
    return reads ? tern_query_read(db->sql, text) : tern_query_write(db->sql, text);
}

// --- Definition

static enum tern_sql_type type_of(const struct tern_column *column)
{
    switch (column->kind) {
    case TERN_COLUMN_ID:
        return TERN_SQL_ID;
    case TERN_COLUMN_REAL:
        return TERN_SQL_REAL;
    case TERN_COLUMN_TEXT:
        return TERN_SQL_TEXT;
    case TERN_COLUMN_HASH:
    case TERN_COLUMN_BLOB:
        return TERN_SQL_BLOB;
    case TERN_COLUMN_U64:
    case TERN_COLUMN_U32:
    case TERN_COLUMN_BOOL:
    case TERN_COLUMN_ENUM:
    case TERN_COLUMN_NAMED:
    case TERN_COLUMN_BITS:
    case TERN_COLUMN_SIZE:
        break;
    }
    return TERN_SQL_INTEGER;
}

// Whether all rows are small and found by their key: by several numbers, a text or a hash.
static bool is_keyed(const struct tern_table *table)
{
    uint32_t numbers = 0;
    uint32_t keys = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        const struct tern_column *column = &table->columns[i];
        if (column->kind == TERN_COLUMN_BLOB) {
            return false;
        }
        keys += is_key(column);
        numbers += is_key(column) && type_of(column) == TERN_SQL_INTEGER;
    }
    return keys > 1 || keys > numbers;
}

// What the dialect says behind the definition of a table with large values.
static enum tern_result settle_large_values(struct tern_sql *sql, const struct tern_table *table)
{
    const char *statement = tern_sql_dialect(sql)->large_values;
    for (uint32_t i = 0; statement != NULL && i < table->count; i++) {
        if (table->columns[i].kind == TERN_COLUMN_BLOB) {
            struct writer out = {.len = 0};
            add_words(&out, statement, table->columns[i].name, table->name);
            TERN_TRY(tern_sql_run(sql, out.text));
        }
    }
    return TERN_OK;
}

enum tern_result tern_table_create(struct tern_sql *sql, const struct tern_table *table)
{
    const struct tern_sql_dialect *dialect = tern_sql_dialect(sql);
    struct writer out = {.len = 0};
    add(&out, "CREATE TABLE %s (", table->name);
    for (uint32_t i = 0; i < table->count; i++) {
        const struct tern_column *column = &table->columns[i];
        add(&out, "%s", i == 0 ? "" : ", ");
        add_column(&out, column, "@ ");
        add(&out, "%s", dialect->types[type_of(column)]);
        add(&out, "%s%s", column->constraint[0] != '\0' ? " " : "", column->constraint);
    }
    if (!has_id(table)) {
        add(&out, ", PRIMARY KEY (");
        add_columns(&out, table, is_key, "@");
        add(&out, ")");
    }
    add(&out, ") %s", dialect->options[is_keyed(table)]);
    TERN_TRY(tern_sql_run(sql, out.text));
    return settle_large_values(sql, table);
}

// --- Binding and reading

static void bind_column(struct tern_query *query, const struct tern_column *column, const void *row)
{
    const void *at = (const char *)row + column->offset;
    const struct tern_blob_column *blob = at;
    switch (column->kind) {
    case TERN_COLUMN_U64:
    case TERN_COLUMN_ID:
        tern_query_bind(query, *(const uint64_t *)at);
        break;
    case TERN_COLUMN_U32:
    case TERN_COLUMN_NAMED:
        tern_query_bind(query, *(const uint32_t *)at);
        break;
    case TERN_COLUMN_ENUM:
        tern_query_bind(query, *(const unsigned *)at);
        break;
    case TERN_COLUMN_BOOL:
        tern_query_bind(query, *(const bool *)at);
        break;
    case TERN_COLUMN_REAL:
        tern_query_bind_real(query, (double)*(const float *)at);
        break;
    case TERN_COLUMN_TEXT:
        tern_query_bind_text(query, at, column->limit);
        break;
    case TERN_COLUMN_HASH:
        tern_query_bind_blob(query, at, TERN_SHA256_SIZE);
        break;
    case TERN_COLUMN_BITS:
        tern_query_bind_bits(query, *(const uint64_t *)at);
        break;
    case TERN_COLUMN_SIZE:
        tern_query_bind(query, *(const size_t *)at);
        break;
    case TERN_COLUMN_BLOB:
        tern_query_bind_blob(query, blob->data, blob->len);
        break;
    }
}

static void read_column(struct tern_query *query, const struct tern_column *column, void *row)
{
    void *at = (char *)row + column->offset;
    struct tern_blob_column *blob = at;
    switch (column->kind) {
    case TERN_COLUMN_U64:
    case TERN_COLUMN_ID:
        *(uint64_t *)at = tern_query_u64(query);
        break;
    case TERN_COLUMN_U32:
    case TERN_COLUMN_NAMED:
        *(uint32_t *)at = (uint32_t)tern_query_number(query, UINT32_MAX);
        break;
    case TERN_COLUMN_ENUM:
        *(unsigned *)at = (unsigned)tern_query_number(query, column->limit);
        break;
    case TERN_COLUMN_BOOL:
        *(bool *)at = tern_query_number(query, 1) == 1;
        break;
    case TERN_COLUMN_REAL:
        *(float *)at = tern_query_real(query);
        break;
    case TERN_COLUMN_TEXT:
        tern_query_text(query, at, column->limit);
        break;
    case TERN_COLUMN_HASH:
        tern_query_hash(query, at);
        break;
    case TERN_COLUMN_BITS:
        *(uint64_t *)at = tern_query_bits(query);
        break;
    case TERN_COLUMN_SIZE:
        *(size_t *)at = (size_t)tern_query_number(query, SIZE_MAX / 2);
        break;
    case TERN_COLUMN_BLOB:
        blob->data = tern_query_blob(query, &blob->len);
        break;
    }
}

static void bind_all(struct tern_query *query, const struct tern_table *table,
                     bool (*wanted)(const struct tern_column *column), const void *row)
{
    for (uint32_t i = 0; i < table->count; i++) {
        if (wanted(&table->columns[i])) {
            bind_column(query, &table->columns[i], row);
        }
    }
}

// --- Operations

struct tern_query tern_table_select(struct tern_db *db, const struct tern_table *table,
                                    const char *tail)
{
    return query_of(db, table, SHAPE_SELECT, NULL, tail);
}

struct tern_query tern_table_sums(struct tern_db *db, const struct tern_table *table,
                                  const char *group, const char *tail)
{
    return query_of(db, table, SHAPE_SUMS, group, tail);
}

void tern_table_read(struct tern_query *query, const struct tern_table *table, void *row)
{
    for (uint32_t i = 0; i < table->count; i++) {
        read_column(query, &table->columns[i], row);
    }
}

bool tern_table_next(struct tern_query *query, const struct tern_table *table, void *row)
{
    if (!tern_query_row(query)) {
        return false;
    }
    tern_table_read(query, table, row);
    return query->result == TERN_OK;
}

enum tern_result tern_table_one(struct tern_query *query, const struct tern_table *table, void *row)
{
    return tern_table_next(query, table, row) ? tern_query_end(query) : tern_query_missing(query);
}

enum tern_result tern_table_get(struct tern_db *db, const struct tern_table *table,
                                const char *tail, uint64_t number, void *row)
{
    struct tern_query query = tern_table_select(db, table, tail);
    tern_query_bind(&query, number);
    return tern_table_one(&query, table, row);
}

enum tern_result tern_table_find(struct tern_db *db, const struct tern_table *table,
                                 const char *tail, const uint8_t hash[TERN_SHA256_SIZE], void *row)
{
    struct tern_query query = tern_table_select(db, table, tail);
    tern_query_bind_blob(&query, hash, TERN_SHA256_SIZE);
    return tern_table_one(&query, table, row);
}

struct tern_db_rows {
    struct tern_query query;
    const struct tern_table *table;
};

struct tern_db_rows *tern_table_rows(struct tern_query query, const struct tern_table *table)
{
    struct tern_db_rows *rows = malloc(sizeof *rows);
    if (rows == NULL) {
        (void)tern_query_end(&query);
        return NULL;
    }
    *rows = (struct tern_db_rows){query, table};
    return rows;
}

bool tern_db_next(struct tern_db_rows *rows, void *row)
{
    return rows != NULL && tern_table_next(&rows->query, rows->table, row);
}

void tern_db_check_row(struct tern_db_rows *rows, enum tern_result result)
{
    rows->query.result = result;
}

enum tern_result tern_db_end(struct tern_db_rows *rows)
{
    enum tern_result result = rows != NULL ? tern_query_end(&rows->query) : TERN_ERR_NO_MEMORY;
    free(rows);
    return result;
}

static enum tern_result insert(struct tern_db *db, const struct tern_table *table, enum shape shape,
                               void *row, bool *added)
{
    struct tern_query query = query_of(db, table, shape, NULL, "");
    bind_all(&query, table, is_given, row);
    enum tern_result result = tern_query_run_one(&query);
    *added = result == TERN_OK;
    if (*added && has_id(table)) {
        *(uint64_t *)row = tern_sql_last_id(db->sql);
    }
    // Run to its end, it may have added nothing.
    return result == TERN_ERR_NOT_FOUND ? query.result : result;
}

enum tern_result tern_table_insert(struct tern_db *db, const struct tern_table *table, void *row)
{
    bool added;
    return insert(db, table, SHAPE_INSERT, row, &added);
}

enum tern_result tern_table_keep(struct tern_db *db, const struct tern_table *table, void *row,
                                 bool *added)
{
    return insert(db, table, SHAPE_KEEP, row, added);
}

enum tern_result tern_table_put_where(struct tern_db *db, const struct tern_table *table,
                                      const void *row, const char *tail)
{
    struct tern_query query = query_of(db, table, SHAPE_PUT, NULL, tail);
    bind_all(&query, table, is_given, row);
    return tern_query_run_one(&query);
}

enum tern_result tern_table_add(struct tern_db *db, const struct tern_table *table, const void *row)
{
    struct tern_query query = query_of(db, table, SHAPE_INSERT, NULL, "");
    bind_all(&query, table, is_given, row);
    return tern_query_post(&query); // it adds one, or fails
}

enum tern_result tern_table_put(struct tern_db *db, const struct tern_table *table, const void *row)
{
    struct tern_query query = query_of(db, table, SHAPE_PUT, NULL, "");
    bind_all(&query, table, is_given, row);
    return tern_query_post(&query); // likewise
}

enum tern_result tern_table_update(struct tern_db *db, const struct tern_table *table,
                                   const void *row, const char *tail)
{
    struct tern_query query = query_of(db, table, SHAPE_UPDATE, NULL, tail);
    bind_all(&query, table, is_set, row);
    bind_all(&query, table, finds, row);
    return tern_query_post_one(&query);
}

// --- All rows

bool tern_table_is_of_bodies(const struct tern_table *table)
{
    return table->count == 2 && strcmp(table->columns[0].name, "id") == 0 &&
           table->columns[1].kind == TERN_COLUMN_BLOB;
}

size_t tern_table_value_bytes(const struct tern_column *column)
{
    switch (column->kind) {
    case TERN_COLUMN_U64:
    case TERN_COLUMN_ID:
    case TERN_COLUMN_BITS:
        return sizeof(uint64_t);
    case TERN_COLUMN_U32:
    case TERN_COLUMN_NAMED:
        return sizeof(uint32_t);
    case TERN_COLUMN_ENUM:
        return sizeof(unsigned);
    case TERN_COLUMN_BOOL:
        return sizeof(bool);
    case TERN_COLUMN_REAL:
        return sizeof(float);
    case TERN_COLUMN_TEXT:
        return column->limit;
    case TERN_COLUMN_HASH:
        return TERN_SHA256_SIZE;
    case TERN_COLUMN_SIZE:
        return sizeof(size_t);
    case TERN_COLUMN_BLOB:
        return sizeof(struct tern_blob_column);
    }
    return 0;
}

size_t tern_table_row_bytes(const struct tern_table *table)
{
    size_t most = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        const struct tern_column *column = &table->columns[i];
        const size_t end = column->offset + tern_table_value_bytes(column);
        most = end > most ? end : most;
    }
    return most;
}

struct tern_query tern_table_scan(struct tern_db *db, const struct tern_table *table)
{
    return query_of(db, table, SHAPE_SCAN, NULL, "");
}

enum tern_result tern_table_next_body(struct tern_db *db, const struct tern_table *table,
                                      uint64_t after, uint64_t *id, size_t *size)
{
    struct tern_query query = query_of(db, table, SHAPE_NEXT, NULL, "");
    tern_query_bind(&query, after);
    if (!tern_query_row(&query)) {
        return tern_query_missing(&query);
    }
    *id = tern_query_u64(&query);
    *size = (size_t)tern_query_number(&query, TERN_SQL_BLOB_MAX);
    return tern_query_end(&query);
}

struct tern_query tern_table_load(struct tern_db *db, const struct tern_table *table)
{
    struct writer columns = {.len = 0};
    add_columns(&columns, table, any, "@");
    return tern_query_load(db->sql, table->name, columns.text, (int)table->count);
}

void tern_table_load_row(struct tern_query *query, const struct tern_table *table, const void *row)
{
    query->next = 0;
    bind_all(query, table, any, row);
    tern_query_add(query);
}
