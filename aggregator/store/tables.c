// The tables of the database, the statements that follow from their columns, and the schema with its versions.
#include "store/tables.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 4096

// Hashes take the bytes of numbers in memory.
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "hashes of rows are of little-endian numbers");

// --- Texts of statements

enum shape {
    SHAPE_SELECT,
    SHAPE_SCAN,
    SHAPE_NEXT,
    SHAPE_SUMS,
    SHAPE_INSERT, // this shape and the following ones write
    SHAPE_KEEP,
    SHAPE_PUT,
    SHAPE_ADD_ROWS, // this shape and the following ones write many rows
    SHAPE_PUT_ROWS,
    SHAPE_UPDATE_ROWS
};

// A generated SQL statement (text) and its key, the other fields. group and tail are literals, compared by address.
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

// Writes the column's name in SQL to `name` and returns it.
static const char *sql_name_of(const struct tern_column *column, char name[64])
{
    snprintf(name, 64, "%s", column->name);
    for (char *at = name; *at != '\0'; at++) {
        *at = *at == '.' ? '_' : *at;
    }
    return name;
}

// Writes `format` with `hash` for #, `at` for @ and `mark` for ?.
static void add_words(struct writer *out, const char *format, const char *hash, const char *at,
                      const char *mark)
{
    for (; *format != '\0'; format++) {
        if (*format == '@') {
            add(out, "%s", at);
        } else if (*format == '#') {
            add(out, "%s", hash);
        } else if (*format == '?') {
            add(out, "%s", mark);
        } else {
            add(out, "%c", *format);
        }
    }
}

// Writes `format` with the column's name for @.
static void add_column(struct writer *out, const struct tern_column *column, const char *format)
{
    char name[64];
    add_words(out, format, "#", sql_name_of(column, name), "?");
}

// Writes `format` for each wanted column, with commas between them.
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

static bool is_id_or_key(const struct tern_column *column)
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
    add_columns(out, table, is_id_or_key, "@");
}

static void write_next_body(struct writer *out, const struct tern_table *table)
{
    add_words(out, "SELECT id, length(@) FROM # WHERE id > ? ORDER BY id LIMIT 1", table->name,
              table->columns[1].name, "?");
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

// new_id: of struct tern_sql_dialect.
static void write_insert(struct writer *out, const struct tern_table *table, const char *new_id)
{
    const bool asks = new_id != NULL && has_id(table);
    add(out, "INSERT INTO %s (%s", table->name, asks ? "id, " : "");
    add_columns(out, table, is_given, "@");
    add(out, ") VALUES (");
    if (asks) {
        add_words(out, new_id, table->name, "@", "?");
        add(out, ", ");
    }
    add_columns(out, table, is_given, "?");
    add(out, ") ");
}

static void write_insert_rows(struct writer *out, const struct tern_table *table, bool takes_arrays)
{
    add(out, "INSERT INTO %s (", table->name);
    add_columns(out, table, any, "@");
    add(out, takes_arrays ? ") SELECT * FROM unnest(" : ") VALUES (");
    add_columns(out, table, any, "?");
    add(out, ") ");
}

// Writes the end of a put. A table has SET columns or ADD columns, never both.
static void write_on_conflict(struct writer *out, const struct tern_table *table)
{
    char sum[64];
    snprintf(sum, sizeof sum, "@ = %s.@ + excluded.@", table->name);
    add(out, "ON CONFLICT (");
    add_columns(out, table, is_key, "@");
    add(out, ") DO UPDATE SET ");
    add_columns(out, table, is_set, "@ = excluded.@");
    add_columns(out, table, is_added_to, sum);
    add(out, " ");
}

static void write_update_rows(struct writer *out, const struct tern_table *table, bool takes_arrays)
{
    const char *word = " WHERE ";
    char same[80];
    snprintf(same, sizeof same, "%s.@ = %s", table->name, takes_arrays ? "given.@" : "?");
    add(out, "UPDATE %s SET ", table->name);
    add_columns(out, table, is_set, takes_arrays ? "@ = given.@" : "@ = ?");
    if (takes_arrays) {
        add(out, " FROM unnest(");
        add_columns(out, table, is_set, "?");
        add(out, ", ");
        add_columns(out, table, is_id_or_key, "?");
        add(out, ") AS given (");
        add_columns(out, table, is_set, "@");
        add(out, ", ");
        add_columns(out, table, is_id_or_key, "@");
        add(out, ")");
    }
    for (uint32_t i = 0; i < table->count; i++) {
        if (is_id_or_key(&table->columns[i])) {
            add(out, "%s", word);
            add_column(out, &table->columns[i], same);
            word = " AND ";
        }
    }
    add(out, " ");
}

// Returns the end of an INSERT that computes the new id and must return it.
static const char *returning(const struct tern_table *table, const char *new_id)
{
    return new_id != NULL && has_id(table) ? "RETURNING id " : "";
}

static void write_text(struct writer *out, const struct tern_table_text *key,
                       const struct tern_sql_dialect *dialect)
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
        write_next_body(out, table);
        break;
    case SHAPE_SUMS:
        write_sums(out, table, key->group);
        break;
    case SHAPE_INSERT:
        write_insert(out, table, dialect->new_id);
        add(out, "%s", returning(table, dialect->new_id));
        break;
    case SHAPE_KEEP:
        write_insert(out, table, dialect->new_id);
        add(out, "ON CONFLICT DO NOTHING %s", returning(table, dialect->new_id));
        break;
    case SHAPE_PUT:
        write_insert(out, table, NULL);
        write_on_conflict(out, table);
        break;
    case SHAPE_ADD_ROWS:
        write_insert_rows(out, table, dialect->takes_arrays);
        break;
    case SHAPE_PUT_ROWS:
        write_insert_rows(out, table, dialect->takes_arrays);
        write_on_conflict(out, table);
        break;
    case SHAPE_UPDATE_ROWS:
        write_update_rows(out, table, dialect->takes_arrays);
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
    write_text(&out, key, &db->sql->driver->dialect);
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

static struct tern_query query_of(struct tern_db *db, const struct tern_table *table,
                                  enum shape shape, const char *group, const char *tail,
                                  const struct tern_sql_value *parameters)
{
    const struct tern_table_text key = {table, shape, group, tail, NULL};
    const char *text = text_of(db, &key);
    if (text == NULL) {
        return (struct tern_query){
            .sql = db->sql,
            .result = tern_sql_fail(db->sql, TERN_ERR_NO_MEMORY, "there is not enough memory")};
    }
    if (shape >= SHAPE_ADD_ROWS) { // writes waiting rows itself
        return tern_query_write(db->sql, text, parameters);
    }
    return shape < SHAPE_INSERT ? tern_db_read(db, text, parameters)
                                : tern_db_write(db, text, parameters);
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

// Whether all rows are small and are found by a key of several numbers, a text or a hash.
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

// Runs the dialect's statement for each column of large values.
static enum tern_result alter_large_values(struct tern_sql *sql, const struct tern_table *table)
{
    const char *statement = sql->driver->dialect.large_values;
    for (uint32_t i = 0; statement != NULL && i < table->count; i++) {
        if (table->columns[i].kind == TERN_COLUMN_BLOB) {
            struct writer out = {.len = 0};
            add_words(&out, statement, table->name, table->columns[i].name, "?");
            TERN_TRY(sql->driver->run(sql, out.text));
        }
    }
    return TERN_OK;
}

static enum tern_result create_table(struct tern_sql *sql, const struct tern_table *table)
{
    const struct tern_sql_dialect *dialect = &sql->driver->dialect;
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
    TERN_TRY(sql->driver->run(sql, out.text));
    return alter_large_values(sql, table);
}

// --- Binding and reading

static struct tern_sql_value value_of(const struct tern_column *column, const void *row)
{
    const void *at = (const char *)row + column->offset;
    const struct tern_blob_column *blob = at;
    switch (column->kind) {
    case TERN_COLUMN_U64:
    case TERN_COLUMN_ID:
        return tern_sql_number(*(const uint64_t *)at);
    case TERN_COLUMN_U32:
    case TERN_COLUMN_NAMED:
        return tern_sql_number(*(const uint32_t *)at);
    case TERN_COLUMN_ENUM:
        return tern_sql_number(*(const unsigned *)at);
    case TERN_COLUMN_BOOL:
        return tern_sql_number(*(const bool *)at);
    case TERN_COLUMN_SIZE:
        return tern_sql_number(*(const size_t *)at);
    case TERN_COLUMN_BITS:
        return tern_sql_bits(*(const int64_t *)at);
    case TERN_COLUMN_REAL:
        return tern_sql_real((double)*(const float *)at);
    case TERN_COLUMN_TEXT:
        return tern_sql_field(at, column->limit);
    case TERN_COLUMN_HASH:
        return tern_sql_hash(at);
    case TERN_COLUMN_BLOB:
        break;
    }
    return tern_sql_blob(blob->data, blob->len);
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
            tern_query_bind(query, value_of(&table->columns[i], row));
        }
    }
}

// Bytes of a column's member.
static size_t value_bytes(const struct tern_column *column)
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

static size_t hash_number(struct tern_sha256 *hash, uint64_t number)
{
    tern_sha256_update(hash, &number, sizeof number);
    return sizeof number;
}

static size_t hash_bytes(struct tern_sha256 *hash, const void *bytes, size_t len)
{
    const size_t before = hash_number(hash, len);
    tern_sha256_update(hash, bytes, len);
    return before + len;
}

size_t tern_table_hash(struct tern_sha256 *hash, const struct tern_column *column, const void *row)
{
    const void *at = (const char *)row + column->offset;
    const struct tern_blob_column *blob = at;
    uint64_t number = 0;
    if (column->kind == TERN_COLUMN_TEXT) {
        return hash_bytes(hash, at, strlen(at));
    }
    if (column->kind == TERN_COLUMN_HASH) {
        return hash_bytes(hash, at, TERN_SHA256_SIZE);
    }
    if (column->kind == TERN_COLUMN_BLOB) {
        return hash_bytes(hash, blob->data, blob->len);
    }
    memcpy(&number, at, value_bytes(column));
    return hash_number(hash, number);
}

size_t tern_table_row_bytes(const struct tern_table *table)
{
    size_t most = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        const struct tern_column *column = &table->columns[i];
        const size_t end = column->offset + value_bytes(column);
        most = end > most ? end : most;
    }
    return (most + 7) / 8 * 8; // so that each row of an array is aligned
}

// --- Operations

struct tern_query tern_table_select(struct tern_db *db, const struct tern_table *table,
                                    const char *tail, const struct tern_sql_value *parameters)
{
    return query_of(db, table, SHAPE_SELECT, NULL, tail, parameters);
}

struct tern_query tern_table_sums(struct tern_db *db, const struct tern_table *table,
                                  const char *group, const char *tail,
                                  const struct tern_sql_value *parameters)
{
    return query_of(db, table, SHAPE_SUMS, group, tail, parameters);
}

static void read_row(struct tern_query *query, const struct tern_table *table, void *row)
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
    read_row(query, table, row);
    return query->result == TERN_OK;
}

enum tern_result tern_table_one(struct tern_query *query, const struct tern_table *table, void *row)
{
    return tern_table_next(query, table, row) ? tern_query_end(query) : tern_query_missing(query);
}

enum tern_result tern_table_get(struct tern_db *db, const struct tern_table *table,
                                const char *tail, const struct tern_sql_value *parameters,
                                void *row)
{
    struct tern_query query = tern_table_select(db, table, tail, parameters);
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

struct tern_db_rows *tern_table_list(struct tern_db *db, const struct tern_table *table,
                                     const char *tail, const struct tern_sql_value *parameters)
{
    return tern_table_rows(tern_table_select(db, table, tail, parameters), table);
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
    struct tern_query query = query_of(db, table, shape, NULL, "", NULL);
    bind_all(&query, table, is_given, row);
    TERN_TRY(tern_query_run(query));
    *added = db->sql->has_changed;
    if (*added && has_id(table)) {
        *(uint64_t *)row = db->sql->last_id;
    }
    return TERN_OK;
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
    struct tern_query query = query_of(db, table, SHAPE_PUT, NULL, tail, NULL);
    bind_all(&query, table, is_given, row);
    return tern_query_run_one(query);
}

// --- Rows that wait
//
// A write whose outcome no caller needs stays in memory until the commit, or until a statement that may depend on it. Then one
// statement writes all rows of a group, which are alike in table, shape and tail. Rows with the same key become one.

#define GROUP_ROWS 256
#define DEFERRED_BLOB 16384       // bytes of the largest BLOB that waits
#define DEFERRED_BLOBS (1u << 20) // bytes of all values that wait

// How a group's rows are written.
struct write {
    const struct tern_table *table;
    enum shape shape;
    const char *tail;
    bool must_exist; // an UPDATE fails if there is no such row
};

struct tern_group {
    struct write write;
    const struct tern_column *blob; // column of kind BLOB; NULL: the table has none
    struct tern_group *next;
    struct tern_group *next_deferred; // next group with rows, in the order of their first rows
    uint32_t count;
    uint32_t keys[GROUP_ROWS]; // hashes of the rows' keys
    size_t row_bytes;
    uint8_t *rows;
};

static void *row_of(const struct tern_group *group, uint32_t i)
{
    return group->rows + i * group->row_bytes;
}

static struct tern_blob_column *blob_of(const struct tern_group *group, void *row)
{
    return (void *)((char *)row + group->blob->offset);
}

static void empty_group(struct tern_group *group)
{
    for (uint32_t i = 0; group->blob != NULL && i < group->count; i++) {
        free((void *)(uintptr_t)blob_of(group, row_of(group, i))->data);
    }
    group->count = 0;
}

void tern_deferred_forget(struct tern_db *db)
{
    for (; db->deferred != NULL; db->deferred = db->deferred->next_deferred) {
        empty_group(db->deferred);
    }
    db->deferred_blob_bytes = 0;
}

static void free_groups(struct tern_db *db)
{
    tern_deferred_forget(db);
    for (struct tern_group *group = db->groups; group != NULL; group = db->groups) {
        db->groups = group->next;
        free(group->rows);
        free(group);
    }
}

void tern_db_forget(struct tern_db *db)
{
    free_groups(db);
    for (size_t i = 0; i < db->text_count; i++) {
        free(db->texts[i].text);
    }
    free(db->texts);
    free(db->evaluators);
    free(db->manifest);
    free(db->metadata);
}

static void bind_row(struct tern_query *query, const struct write *write, const void *row)
{
    if (write->shape == SHAPE_UPDATE_ROWS) {
        bind_all(query, write->table, is_set, row);
        bind_all(query, write->table, is_id_or_key, row);
    } else {
        bind_all(query, write->table, any, row);
    }
}

static enum tern_result write_rows(struct tern_db *db, const struct tern_group *group,
                                   const uint8_t *rows, uint32_t count)
{
    const struct write *write = &group->write;
    struct tern_query query = query_of(db, write->table, write->shape, NULL, write->tail, NULL);
    for (uint32_t i = 0; i < count; i++) {
        bind_row(&query, write, rows + i * group->row_bytes);
        tern_query_add(&query, write->must_exist);
    }
    return write->must_exist ? tern_query_post_one(query) : tern_query_post(query);
}

// Reports a failure of waiting rows as TERN_ERR_IO, since NOT_FOUND or CONFLICT would seem to be about the statement
// that made them be written.
static enum tern_result fail_deferred(struct tern_db *db, const struct tern_group *group,
                                      enum tern_result result)
{
    char sentence[sizeof db->sql->error];
    memcpy(sentence, db->sql->error, sizeof sentence);
    snprintf(db->sql->error, sizeof sentence, "%.200s (rows of %s)", sentence,
             group->write.table->name);
    db->sql->doomed = true;
    tern_deferred_forget(db);
    return result == TERN_ERR_BUSY || result == TERN_ERR_NO_MEMORY ? result : TERN_ERR_IO;
}

static enum tern_result flush_until(struct tern_db *db, const struct tern_group *last)
{
    while (db->deferred != NULL) {
        struct tern_group *group = db->deferred;
        const enum tern_result result = write_rows(db, group, group->rows, group->count);
        if (result != TERN_OK) {
            return fail_deferred(db, group, result);
        }
        empty_group(group);
        db->deferred = group->next_deferred;
        if (group == last) {
            return TERN_OK;
        }
    }
    db->deferred_blob_bytes = 0;
    return TERN_OK;
}

enum tern_result tern_deferred_flush(struct tern_db *db)
{
    return flush_until(db, NULL);
}

// Writes only the groups whose tables the text names, and groups before them, to which they may refer.
struct tern_query tern_db_read(struct tern_db *db, const char *text,
                               const struct tern_sql_value *parameters)
{
    const struct tern_group *last = NULL;
    for (const struct tern_group *group = db->deferred; group != NULL;
         group = group->next_deferred) {
        last = strstr(text, group->write.table->name) != NULL ? group : last;
    }
    const enum tern_result flushed = last != NULL ? flush_until(db, last) : TERN_OK;
    return flushed == TERN_OK ? tern_query_read(db->sql, text, parameters)
                              : (struct tern_query){.sql = db->sql, .result = flushed};
}

struct tern_query tern_db_write(struct tern_db *db, const char *text,
                                const struct tern_sql_value *parameters)
{
    const enum tern_result flushed = tern_deferred_flush(db);
    return flushed == TERN_OK ? tern_query_write(db->sql, text, parameters)
                              : (struct tern_query){.sql = db->sql, .result = flushed};
}

static const struct tern_column *blob_column(const struct tern_table *table)
{
    for (uint32_t i = 0; i < table->count; i++) {
        if (table->columns[i].kind == TERN_COLUMN_BLOB) {
            return &table->columns[i];
        }
    }
    return NULL;
}

static struct tern_group *make_group(struct tern_db *db, const struct write *write)
{
    struct tern_group *group = calloc(1, sizeof *group);
    const size_t row_bytes = tern_table_row_bytes(write->table);
    uint8_t *rows = malloc(GROUP_ROWS * row_bytes);
    if (group == NULL || rows == NULL) {
        free(group);
        free(rows);
        return NULL;
    }
    *group = (struct tern_group){.write = *write,
                                 .blob = blob_column(write->table),
                                 .next = db->groups,
                                 .row_bytes = row_bytes,
                                 .rows = rows};
    db->groups = group;
    return group;
}

static struct tern_group *group_of(struct tern_db *db, const struct write *write)
{
    for (struct tern_group *group = db->groups; group != NULL; group = group->next) {
        const struct write *other = &group->write;
        if (other->table == write->table && other->shape == write->shape &&
            other->tail == write->tail && other->must_exist == write->must_exist) {
            return group;
        }
    }
    return make_group(db, write);
}

// Two groups of one table never wait at the same time, so that writes to a row keep their order.
static enum tern_result flush_others(struct tern_db *db, const struct tern_group *one)
{
    for (const struct tern_group *group = db->deferred; group != NULL;
         group = group->next_deferred) {
        if (group != one && strcmp(group->write.table->name, one->write.table->name) == 0) {
            return tern_deferred_flush(db);
        }
    }
    return TERN_OK;
}

static uint32_t hash_of_key(const struct tern_table *table, const void *row)
{
    uint32_t hash = 2166136261u; // FNV-1a
    for (uint32_t i = 0; i < table->count; i++) {
        if (is_id_or_key(&table->columns[i])) {
            const struct tern_sql_value value = value_of(&table->columns[i], row);
            const uint8_t *bytes = value.bytes != NULL ? value.bytes : (const void *)&value.integer;
            const size_t len = value.bytes != NULL ? value.len : sizeof value.integer;
            for (size_t at = 0; at < len; at++) {
                hash = (hash ^ bytes[at]) * 16777619u;
            }
        }
    }
    return hash;
}

static bool is_same_key(const struct tern_table *table, const void *one, const void *other)
{
    bool same = true;
    for (uint32_t i = 0; i < table->count; i++) {
        if (is_id_or_key(&table->columns[i])) {
            const struct tern_sql_value a = value_of(&table->columns[i], one);
            const struct tern_sql_value b = value_of(&table->columns[i], other);
            same = same && a.integer == b.integer && a.len == b.len &&
                   (a.len == 0 || memcmp(a.bytes, b.bytes, a.len) == 0);
        }
    }
    return same;
}

// Finds the waiting row with the same key. NULL: there is none, or rows are only added
static void *find_row(const struct tern_group *group, uint32_t key, const void *row)
{
    const struct write *write = &group->write;
    for (uint32_t i = 0; write->shape != SHAPE_ADD_ROWS && i < group->count; i++) {
        if (group->keys[i] == key && is_same_key(write->table, row_of(group, i), row)) {
            return row_of(group, i);
        }
    }
    return NULL;
}

static void add_member(const struct tern_column *column, void *into, const void *row)
{
    if (column->kind == TERN_COLUMN_U64) {
        *(uint64_t *)into += *(const uint64_t *)row;
    } else {
        *(uint32_t *)into += *(const uint32_t *)row;
    }
}

static void merge_row(const struct tern_group *group, void *into, const void *row)
{
    const struct tern_table *table = group->write.table;
    if (group->blob != NULL) {
        free((void *)(uintptr_t)blob_of(group, into)->data);
    }
    for (uint32_t i = 0; i < table->count; i++) {
        const struct tern_column *column = &table->columns[i];
        char *member = (char *)into + column->offset;
        const char *given = (const char *)row + column->offset;
        if (is_added_to(column)) {
            add_member(column, member, given);
        } else {
            memcpy(member, given, value_bytes(column));
        }
    }
}

static enum tern_result check_row(struct tern_db *db, const struct tern_table *table,
                                  const void *row)
{
    for (uint32_t i = 0; i < table->count; i++) {
        const struct tern_sql_value value = value_of(&table->columns[i], row);
        TERN_TRY(tern_sql_check_value(db->sql, &value));
    }
    return db->sql->in_transaction
               ? TERN_OK
               : tern_sql_fail(db->sql, TERN_ERR_STATE, "a write needs an open transaction");
}

static void append_group(struct tern_db *db, struct tern_group *group)
{
    struct tern_group **end = &db->deferred;
    while (*end != NULL) {
        end = &(*end)->next_deferred;
    }
    group->next_deferred = NULL;
    *end = group;
}

// Adds the row to the group, or to the waiting row of its key, and returns the group's row, whose BLOB is still the
// caller's. NULL: waiting rows could not be written
static void *keep_row(struct tern_db *db, struct tern_group *group, const void *row,
                      enum tern_result *result)
{
    const uint32_t key = hash_of_key(group->write.table, row);
    void *kept = find_row(group, key, row);
    if (kept != NULL) {
        merge_row(group, kept, row);
        return kept;
    }
    if (group->count == GROUP_ROWS || db->deferred_blob_bytes > DEFERRED_BLOBS) {
        *result = tern_deferred_flush(db);
    }
    if (*result != TERN_OK) {
        return NULL;
    }
    if (group->count == 0) {
        append_group(db, group);
    }
    group->keys[group->count] = key;
    kept = row_of(group, group->count++);
    memcpy(kept, row, group->row_bytes);
    return kept;
}

// Replaces the caller's bytes of a BLOB by a copy.
static enum tern_result copy_blob(struct tern_db *db, struct tern_blob_column *blob)
{
    void *copy = malloc(blob->len + 1);
    if (copy == NULL) {
        blob->data = NULL;
        blob->len = 0;
        db->sql->doomed = true; // the waiting row has lost its bytes
        return tern_sql_fail(db->sql, TERN_ERR_NO_MEMORY, "there is not enough memory");
    }
    if (blob->len > 0) {
        memcpy(copy, blob->data, blob->len);
    }
    blob->data = copy;
    db->deferred_blob_bytes += blob->len;
    return TERN_OK;
}

static enum tern_result defer_write(struct tern_db *db, const struct write *write, const void *row)
{
    if (db->sql->in_transaction && db->sql->doomed) {
        return TERN_ERR_IO; // tern_db_error() still names the write that failed
    }
    TERN_TRY(check_row(db, write->table, row));
    struct tern_group *group = group_of(db, write);
    enum tern_result result = TERN_OK;
    if (group == NULL) {
        return tern_sql_fail(db->sql, TERN_ERR_NO_MEMORY, "there is not enough memory");
    }
    TERN_TRY(flush_others(db, group));
    if (group->blob != NULL && blob_of(group, (void *)(uintptr_t)row)->len > DEFERRED_BLOB) {
        TERN_TRY(tern_deferred_flush(db));
        return write_rows(db, group, row, 1);
    }
    void *kept = keep_row(db, group, row, &result);
    return result == TERN_OK && group->blob != NULL ? copy_blob(db, blob_of(group, kept)) : result;
}

enum tern_result tern_table_add(struct tern_db *db, const struct tern_table *table, const void *row)
{
    return defer_write(db, &(struct write){table, SHAPE_ADD_ROWS, "", false}, row);
}

enum tern_result tern_table_put(struct tern_db *db, const struct tern_table *table, const void *row)
{
    return defer_write(db, &(struct write){table, SHAPE_PUT_ROWS, "", false}, row);
}

enum tern_result tern_table_update(struct tern_db *db, const struct tern_table *table,
                                   const void *row, const char *tail)
{
    return defer_write(db, &(struct write){table, SHAPE_UPDATE_ROWS, tail, true}, row);
}

enum tern_result tern_table_change(struct tern_db *db, const struct tern_table *table,
                                   const void *row)
{
    return defer_write(db, &(struct write){table, SHAPE_UPDATE_ROWS, "", false}, row);
}

// --- Reading and writing whole tables

struct tern_query tern_table_scan(struct tern_db *db, const struct tern_table *table)
{
    return query_of(db, table, SHAPE_SCAN, NULL, "", NULL);
}

enum tern_result tern_table_next_body(struct tern_db *db, const struct tern_table *table,
                                      uint64_t after, uint64_t *id, size_t *size)
{
    struct tern_query query = query_of(db, table, SHAPE_NEXT, NULL, "", TERN_BIND(after));
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
    tern_query_add(query, false);
}

// --- The tables

static const struct tern_column federation_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_federation, __VA_ARGS__)
#include "store/tables/federation.def"
};
static const struct tern_column files_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_file_row, __VA_ARGS__)
#include "store/tables/files.def"
};
static const struct tern_column clients_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_client, __VA_ARGS__)
#include "store/tables/clients.def"
};
static const struct tern_column psk_keys_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_psk, __VA_ARGS__)
#include "store/tables/psk_keys.def"
};
static const struct tern_column ticket_keys_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_ticket_keys, __VA_ARGS__)
#include "store/tables/ticket_keys.def"
};
static const struct tern_column codes_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_code, __VA_ARGS__)
#include "store/tables/codes.def"
};
static const struct tern_column rounds_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_round, __VA_ARGS__)
#include "store/tables/rounds.def"
};
static const struct tern_column assignments_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_assignment, __VA_ARGS__)
#include "store/tables/assignments.def"
};
static const struct tern_column updates_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_update, __VA_ARGS__)
#include "store/tables/updates.def"
};
static const struct tern_column secure_rounds_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_secure_round, __VA_ARGS__)
#include "store/tables/secure_rounds.def"
};
static const struct tern_column secure_sums_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_secure_sum, __VA_ARGS__)
#include "store/tables/secure_sums.def"
};
static const struct tern_column tickets_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_ticket, __VA_ARGS__)
#include "store/tables/tickets.def"
};
static const struct tern_column update_bodies_columns[] = {
#define BODIES_OF updates
#define COLUMN(...) TERN_TABLE_COLUMN(tern_body_row, __VA_ARGS__)
#include "store/tables/bodies.def"
};
static const struct tern_column versions_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_version, __VA_ARGS__)
#include "store/tables/versions.def"
};
static const struct tern_column weights_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_part_row, __VA_ARGS__)
#include "store/tables/weights.def"
};
static const struct tern_column downloads_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_download, __VA_ARGS__)
#include "store/tables/downloads.def"
};
static const struct tern_column download_bodies_columns[] = {
#define BODIES_OF downloads
#define COLUMN(...) TERN_TABLE_COLUMN(tern_body_row, __VA_ARGS__)
#include "store/tables/bodies.def"
};
static const struct tern_column replicas_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_replica, __VA_ARGS__)
#include "store/tables/replicas.def"
};
static const struct tern_column ledger_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_ledger, __VA_ARGS__)
#include "store/tables/ledger.def"
};
static const struct tern_column schedule_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_schedule, __VA_ARGS__)
#include "store/tables/schedule.def"
};
static const struct tern_column evaluations_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_evaluation, __VA_ARGS__)
#include "store/tables/evaluations.def"
};
static const struct tern_column metrics_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_metric, __VA_ARGS__)
#include "store/tables/metrics.def"
};
static const struct tern_column statistics_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_statistics, __VA_ARGS__)
#include "store/tables/statistics.def"
};
static const struct tern_column meter_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_meter, __VA_ARGS__)
#include "store/tables/meter.def"
};
static const struct tern_column totals_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_totals_row, __VA_ARGS__)
#include "store/tables/totals.def"
};
static const struct tern_column purpose_totals_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_purpose_total_row, __VA_ARGS__)
#include "store/tables/purpose_totals.def"
};
static const struct tern_column round_totals_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_round_total, __VA_ARGS__)
#include "store/tables/round_totals.def"
};
static const struct tern_column client_totals_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_client_total, __VA_ARGS__)
#include "store/tables/client_totals.def"
};

static const struct tern_column node_settings_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_node_settings, __VA_ARGS__)
#include "store/tables/node_settings.def"
};
static const struct tern_column tokens_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_token, __VA_ARGS__)
#include "store/tables/tokens.def"
};
static const struct tern_column audit_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_audit, __VA_ARGS__)
#include "store/tables/audit.def"
};
static const struct tern_column labels_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_label, __VA_ARGS__)
#include "store/tables/labels.def"
};
static const struct tern_column orders_columns[] = {
#define COLUMN(...) TERN_TABLE_COLUMN(tern_db_order, __VA_ARGS__)
#include "store/tables/orders.def"
};

#define TABLE(name)                                                                                \
    const struct tern_table tern_table_##name = {                                                  \
        #name, name##_columns, sizeof name##_columns / sizeof name##_columns[0]};
TERN_TABLES(TABLE)

#define LISTED(name) &tern_table_##name,
const struct tern_table *const tern_schema_tables[TERN_SCHEMA_TABLES] = {TERN_TABLES(LISTED)};

static const char indexes[] =
    "CREATE INDEX clients_by_code ON clients (code);"
    "CREATE INDEX clients_by_replica ON clients (replica);"
    "CREATE INDEX clients_revoked ON clients (id) WHERE revoked = 1;"
    "CREATE INDEX clients_evaluating ON clients (id) WHERE evaluator = 1;"
    "CREATE INDEX clients_unreporting ON clients (unreported) WHERE unreported > 0;"
    "CREATE INDEX clients_failing ON clients (failed_round) WHERE failed_round > 0;"
    "CREATE INDEX metrics_by_client ON metrics (client, version);"
    "CREATE INDEX rounds_open ON rounds (round) WHERE state = 0;"
    "CREATE INDEX rounds_restored ON rounds (restored) WHERE mode = 2;"
    "CREATE UNIQUE INDEX updates_by_round ON updates (round, client);"
    "CREATE INDEX updates_by_merged ON updates (merged) WHERE merged > 0;"
    "CREATE INDEX versions_by_replica ON versions (replica);"
    "CREATE INDEX downloads_by_end ON downloads (to_version, snapshot);"
    "CREATE INDEX downloads_snapshots ON downloads (to_version) WHERE snapshot = 1;"
    "CREATE INDEX downloads_by_start ON downloads (from_replica, to_version);"
    "CREATE INDEX downloads_by_replica ON downloads (to_replica);"
    "CREATE INDEX replicas_by_use ON replicas (used_ms) WHERE children = 0;"
    "CREATE INDEX replicas_suspect ON replicas (version) WHERE suspect = 1;";

// Sums over history are kept up to date as rows are written, so that nobody counts rows that only become more. Triggers do
// that for rows that change a few times in a round. The commit of a round adds its updates (store_rounds.c), because
// a statement with a trigger costs three times as much: SQLite copies each page that it changes. A round's states are those
// of store.h.
static_assert(TERN_ROUND_COMMITTED == 1 && TERN_ROUND_RESTORED == 2,
              "SQL of the triggers and indexes has 1 for COMMITTED and 2 for RESTORED");
#define IS_COMMITTED(row) "CASE " row ".state WHEN 1 THEN 1 ELSE 0 END"
static const struct {
    const char *name;
    const char *event;
    const char *statement;
} triggers[] = {
    {"totals_of_new_rounds", "INSERT ON rounds",
     "UPDATE totals SET rounds_committed = rounds_committed + " IS_COMMITTED(
         "NEW") ","
                " updates_applied = updates_applied + NEW.applied,"
                " updates_scaled_down = updates_scaled_down + NEW.scaled_down"},
    {"totals_of_rounds", "UPDATE ON rounds",
     "UPDATE totals SET rounds_committed = rounds_committed + " IS_COMMITTED(
         "NEW") " - " IS_COMMITTED("OLD") ","
                                          " updates_applied = updates_applied + NEW.applied - "
                                          "OLD.applied,"
                                          " updates_scaled_down = updates_scaled_down + "
                                          "NEW.scaled_down - OLD.scaled_down"},
    {"totals_of_new_downloads", "INSERT ON downloads",
     "UPDATE totals SET downloads = downloads + 1"},
    {"totals_of_dropped_downloads", "DELETE ON downloads",
     "UPDATE totals SET downloads = downloads - 1"},
};

static enum tern_result create_triggers(struct tern_sql *sql)
{
    for (size_t i = 0; i < sizeof triggers / sizeof triggers[0]; i++) {
        struct writer out = {.len = 0};
        add_words(&out, sql->driver->dialect.trigger, triggers[i].name, triggers[i].event,
                  triggers[i].statement);
        TERN_TRY(sql->driver->run(sql, out.text));
    }
    return TERN_OK;
}

const char *const tern_schema_steps[] = {NULL};

// Returns the version of the schema after the last step.
static int newest(const char *const *steps)
{
    int version = 1;
    while (steps[version - 1] != NULL) {
        version++;
    }
    return version;
}

enum tern_result tern_schema_create(struct tern_sql *sql)
{
    TERN_TRY(tern_schema_create_tables(sql));
    TERN_TRY(sql->driver->run(sql, "INSERT INTO totals DEFAULT VALUES"));
    return tern_schema_complete(sql);
}

enum tern_result tern_schema_create_tables(struct tern_sql *sql)
{
    for (size_t i = 0; i < TERN_SCHEMA_TABLES; i++) {
        TERN_TRY(create_table(sql, tern_schema_tables[i]));
    }
    return TERN_OK;
}

enum tern_result tern_schema_complete(struct tern_sql *sql)
{
    TERN_TRY(sql->driver->run(sql, indexes));
    TERN_TRY(create_triggers(sql));
    return tern_sql_set_version(sql, newest(tern_schema_steps));
}

static enum tern_result check_known(struct tern_sql *sql, const char *const *steps)
{
    int64_t version = 0;
    TERN_TRY(tern_sql_version(sql, &version));
    if (version >= 1 && version <= newest(steps)) {
        return TERN_OK;
    }
    char sentence[160];
    snprintf(sentence, sizeof sentence,
             "the database has version %lld, this program supports 1 to %d; install a newer Tern",
             (long long)version, newest(steps));
    return tern_sql_fail(sql, TERN_ERR_UNKNOWN, sentence);
}

enum tern_result tern_schema_current(struct tern_sql *sql, const char *const *steps)
{
    int64_t version = 0;
    char sentence[200];
    TERN_TRY(check_known(sql, steps));
    TERN_TRY(tern_sql_version(sql, &version));
    if (version == newest(steps)) {
        return TERN_OK;
    }
    snprintf(sentence, sizeof sentence,
             "the database has version %lld, this program needs %d: `tern-aggregator serve` "
             "brings it up to date at its start, once no older program has it open",
             (long long)version, newest(steps));
    return tern_sql_fail(sql, TERN_ERR_STATE, sentence);
}

static enum tern_result apply_each(struct tern_sql *sql, const char *const *steps)
{
    int64_t version = 0; // read inside the transaction: another process may have been first
    TERN_TRY(tern_sql_version(sql, &version));
    for (int i = (int)version; i < newest(steps); i++) {
        TERN_TRY(sql->driver->run(sql, steps[i - 1]));
        TERN_TRY(tern_sql_set_version(sql, i + 1));
    }
    return TERN_OK;
}

static enum tern_result apply(struct tern_sql *sql, const char *const *steps)
{
    TERN_TRY(tern_sql_begin(sql, TERN_SQL_WRITE));
    const enum tern_result result = apply_each(sql, steps);
    if (result != TERN_OK) {
        tern_sql_rollback(sql);
        return result;
    }
    return tern_sql_commit(sql);
}

enum tern_result tern_schema_migrate(struct tern_sql *sql, const char *const *steps)
{
    int64_t version = 0;
    TERN_TRY(check_known(sql, steps));
    TERN_TRY(tern_sql_version(sql, &version));
    if (version == newest(steps)) { // another program has upgraded it
        return tern_sql_use(sql, TERN_SQL_SHARED);
    }
    TERN_TRY(tern_sql_use(sql, TERN_SQL_ALONE));
    TERN_TRY(apply(
        sql, steps)); // after a failure the caller closes the database, which ends TERN_SQL_ALONE
    return tern_sql_use(sql, TERN_SQL_SHARED);
}
