// Describes tables as data. tables/*.def describes each table once, a line per column. Made from it are the struct (store.h),
// the columns that operators see (views/view.h), and, here, CREATE TABLE, the usual statements, and the code that binds and
// reads rows. Only store/ includes this header. Thread rule: as store.h.
//
// Each line is COLUMN(kind, name, of, rule, constraint, shown):
// kind: what the struct's member is.
//   U64 U32 BOOL REAL TEXT HASH ENUM  as named
//   NAMED  a U32 that stands for a word
//   ID     a number that the database assigns; the struct's first member
//   BITS   a U64 of which all 64 bits count
//   SIZE   a size_t
//   BLOB   a struct tern_blob_column
// of: for TEXT, the size with the NUL; for ENUM, the name after enum tern_db_, whose last value is TERN_LAST_<of>; for
//   NAMED, the function that returns the word.
// rule: how the column changes.
//   KEY    part of the primary key
//   ONCE   never changes
//   SET    tern_table_put() and _update() change it
//   ADD    tern_table_put() adds to it
// constraint: SQL in addition to that of the kind.
// shown: SHOWN(name, format, help), the column of lists for operators (views/view.h); nothing: it is not shown.
#ifndef TERN_STORE_TABLES_H
#define TERN_STORE_TABLES_H

#include "store/nodes.h"
#include "store/sql.h"

enum tern_column_kind {
    TERN_COLUMN_U64,
    TERN_COLUMN_U32,
    TERN_COLUMN_BOOL,
    TERN_COLUMN_REAL,
    TERN_COLUMN_TEXT,
    TERN_COLUMN_HASH,
    TERN_COLUMN_ENUM,
    TERN_COLUMN_NAMED,
    TERN_COLUMN_ID,
    TERN_COLUMN_BITS,
    TERN_COLUMN_SIZE,
    TERN_COLUMN_BLOB,
};

enum tern_column_rule { TERN_RULE_KEY, TERN_RULE_ONCE, TERN_RULE_SET, TERN_RULE_ADD };

struct tern_column {
    const char *name; // of a member of a member: "up.payload", in SQL up_payload
    enum tern_column_kind kind;
    enum tern_column_rule rule;
    uint32_t offset;
    uint32_t limit; // for TEXT, the size; for ENUM, the last value
    const char *constraint;
};

struct tern_table {
    const char *name;
    const struct tern_column *columns;
    uint32_t count;
};

// One column of a list, for the members of struct `type`.
#define TERN_TABLE_COLUMN(type, kind, name, of, rule, constraint, shown)                           \
    {#name,                                                                                        \
     TERN_COLUMN_##kind,                                                                           \
     TERN_RULE_##rule,                                                                             \
     offsetof(struct type, name),                                                                  \
     (uint32_t)TERN_LIMIT_##kind(of),                                                              \
     "" #constraint},
#define TERN_LIMIT_U64(of) 0
#define TERN_LIMIT_U32(of) 0
#define TERN_LIMIT_BOOL(of) 0
#define TERN_LIMIT_REAL(of) 0
#define TERN_LIMIT_TEXT(of) of
#define TERN_LIMIT_HASH(of) 0
#define TERN_LIMIT_ENUM(of) TERN_LAST_##of
#define TERN_LIMIT_NAMED(of) 0
#define TERN_LIMIT_ID(of) 0
#define TERN_LIMIT_BITS(of) 0
#define TERN_LIMIT_SIZE(of) 0
#define TERN_LIMIT_BLOB(of) 0

// A sum of integers as a BIGINT, which some databases do not return by themselves; 0 without rows.
#define TERN_SUM_OF(number) "CAST(coalesce(sum(" number "), 0) AS BIGINT)"

// A time, but at least 1.
#define TERN_NOT_BEFORE_1(time) "CASE WHEN " time " > 1 THEN " time " ELSE 1 END"

struct tern_table_text; // the text of a statement, made once
struct tern_group;

// The implementation of store.h. tern_db_close() frees it.
struct tern_db {
    struct tern_sql *sql;
    bool is_older; // the schema is older than this program
    struct tern_table_text *texts;
    size_t text_count;
    uint8_t *manifest; // malloc'ed at the first use; NULL = not yet, or there is none
    size_t manifest_len;
    char *metadata;             // the same
    struct tern_group *groups;  // tables.c: rows that wait for the commit
    struct tern_group *waiting; // the groups that have rows
    size_t waiting_blobs;       // bytes of their values
    // What was read of the database and is still so, after tern_db_refresh(). Nobody else writes within a transaction.
    bool is_current;
    bool knows_dropped;    // `dropped` was read
    uint32_t dropped;      // the last round whose rows were dropped
    bool knows_evaluators; // `evaluators` were read
    uint64_t *evaluators;  // their ids, ascending
    size_t evaluator_count;
    uint64_t next_update; // id of the next update; 0 = not read
};

// Selects all columns of the rows that `tail` names: "WHERE id = ? ORDER BY ...". tail: a literal, because it is kept as
// long as db. parameters: TERN_BIND(), or NULL
struct tern_query tern_table_select(struct tern_db *db, const struct tern_table *table,
                                    const char *tail, const struct tern_sql_value *parameters);
// Selects sums of the ADD columns over the rows that `tail` names: "FROM meter WHERE ...". Of the other columns only `group`
// has its value (NULL: none); the rest are zeros.
struct tern_query tern_table_sums(struct tern_db *db, const struct tern_table *table,
                                  const char *group, const char *tail,
                                  const struct tern_sql_value *parameters);

// Steps to the next row and reads it. False: there is none, or it cannot be read; tern_query_end() then returns the failure.
bool tern_table_next(struct tern_query *query, const struct tern_table *table, void *row);
// Reads the only row and ends the query. NOT_FOUND
TERN_MUST_USE enum tern_result tern_table_one(struct tern_query *query,
                                              const struct tern_table *table, void *row);
// Selects and reads one row. NOT_FOUND
TERN_MUST_USE enum tern_result tern_table_get(struct tern_db *db, const struct tern_table *table,
                                              const char *tail,
                                              const struct tern_sql_value *parameters, void *row);

// Turns the query into rows for a caller of the store, which ends them by tern_db_end(). NULL: no memory.
struct tern_db_rows *tern_table_rows(struct tern_query query, const struct tern_table *table);
// Selects the rows for a caller of the store.
struct tern_db_rows *tern_table_list(struct tern_db *db, const struct tern_table *table,
                                     const char *tail, const struct tern_sql_value *parameters);

// Adds a row; its ID is set, if it has one. TERN_ERR_CONFLICT; NOT_FOUND  a row that it refers to is missing
TERN_MUST_USE enum tern_result tern_table_insert(struct tern_db *db, const struct tern_table *table,
                                                 void *row);
// Adds a row unless its key exists. *added: the key did not exist.
TERN_MUST_USE enum tern_result tern_table_keep(struct tern_db *db, const struct tern_table *table,
                                               void *row, bool *added);
// Adds a row, or changes the one of its key as the columns' rules say, where `tail` ("WHERE ...") allows that.
// NOT_FOUND  a row that it refers to is missing, or `tail` did not allow it
TERN_MUST_USE enum tern_result tern_table_put_where(struct tern_db *db,
                                                    const struct tern_table *table, const void *row,
                                                    const char *tail);

// The next four let their write wait, at the latest until the commit. Adds a row, with its ID.
TERN_MUST_USE enum tern_result tern_table_add(struct tern_db *db, const struct tern_table *table,
                                              const void *row);
// Adds a row, or changes the one of its key as the columns' rules say.
TERN_MUST_USE enum tern_result tern_table_put(struct tern_db *db, const struct tern_table *table,
                                              const void *row);
// Changes the row of this ID or key as the columns' rules say. It exists, and `tail` ("" or "AND ...") allows the change.
TERN_MUST_USE enum tern_result tern_table_update(struct tern_db *db, const struct tern_table *table,
                                                 const void *row, const char *tail);
// The same; the row may be missing.
TERN_MUST_USE enum tern_result tern_table_change(struct tern_db *db, const struct tern_table *table,
                                                 const void *row);

// Writes the rows that wait. TERN_ERR_IO (_BUSY, _NO_MEMORY)  one of them was refused: the transaction cannot be committed
TERN_MUST_USE enum tern_result tern_waiting_flush(struct tern_db *db);
void tern_waiting_forget(struct tern_db *db); // after a rollback
void tern_waiting_free(struct tern_db *db);
// tern_query_read() and _write(), after rows that wait were written, if the statement may depend on them.
struct tern_query tern_db_read(struct tern_db *db, const char *text,
                               const struct tern_sql_value *parameters);
struct tern_query tern_db_write(struct tern_db *db, const char *text,
                                const struct tern_sql_value *parameters);
// Forgets what others may have changed since it was read: call it before the members of struct tern_db that were read.
void tern_db_refresh(struct tern_db *db);

// Selects all rows in the order of their keys, which is the same in every database: for tern_table_next().
struct tern_query tern_table_scan(struct tern_db *db, const struct tern_table *table);
// Adds many rows with their IDs (tern_query_load()), until tern_query_end().
struct tern_query tern_table_load(struct tern_db *db, const struct tern_table *table);
void tern_table_load_row(struct tern_query *query, const struct tern_table *table, const void *row);
// Bytes of a row's struct up to the end of its last column; bytes of one column's member.
size_t tern_table_row_bytes(const struct tern_table *table);
size_t tern_table_value_bytes(const struct tern_column *column);
// Finds the first id above `after` in a table whose rows are an id and a value, and the bytes of that value. NOT_FOUND
TERN_MUST_USE enum tern_result tern_table_next_body(struct tern_db *db,
                                                    const struct tern_table *table, uint64_t after,
                                                    uint64_t *id, size_t *size);

// Frees db->texts, after the connection was closed.
void tern_table_free_texts(struct tern_db *db);
// Frees everything in db except the connection.
void tern_db_forget(struct tern_db *db);

// --- The tables (tables.c), and rows that only the store uses

// clang-format off
#define TERN_TABLES(X)                                                                            \
    X(federation) X(files) X(clients) X(psk_keys) X(ticket_keys) X(codes) X(rounds) X(assignments) X(updates)    \
    X(update_bodies) X(versions) X(weights) X(downloads) X(download_bodies) X(replicas) X(ledger) \
    X(schedule) X(evaluations) X(metrics) X(statistics) X(meter) X(totals) X(purpose_totals) X(round_totals) X(client_totals) \
    X(node_settings)
// clang-format on

#define TERN_TABLE_DECLARE(name) extern const struct tern_table tern_table_##name;
TERN_TABLES(TERN_TABLE_DECLARE)

struct tern_body_row {
#define COLUMN TERN_MEMBER
#include "store/tables/bodies.def"
};

// Numbers over all of history, one row with id 1.
struct tern_totals_row {
#define COLUMN TERN_MEMBER
#include "store/tables/totals.def"
};

// Sums of one purpose: of clients that train or of others, within rounds or outside.
struct tern_purpose_total_row {
    bool trains;
    bool outside;
    enum tern_purpose purpose;
    struct tern_bytes up;
    struct tern_bytes down;
    uint64_t exchanges;
};

#define TERN_FILE_NAME_MAX 16
struct tern_file_row {
#define COLUMN TERN_MEMBER
#include "store/tables/files.def"
};

// Kinds of vectors, after those of enum tern_db_weights.
enum tern_db_vector_kind {
    TERN_VECTOR_STATE = TERN_WEIGHTS_INITIAL + 1, // a state of a strategy
    TERN_VECTOR_OF_REPLICA,                       // weights of a replica that is kept whole
};
#define TERN_LAST_vector_kind TERN_VECTOR_OF_REPLICA
#define TERN_VECTOR_NAME_MAX (2 * TERN_SHA256_SIZE + 1)
struct tern_part_row {
#define COLUMN TERN_MEMBER
#include "store/tables/weights.def"
};

// Whether the rows of that round were dropped for good (store_rounds.c).
TERN_MUST_USE enum tern_result tern_retention_has_dropped(struct tern_db *db, uint32_t round,
                                                          bool *dropped);

// Reads the row of the federation without its files. NOT_FOUND
TERN_MUST_USE enum tern_result tern_store_read_federation(struct tern_db *db,
                                                          struct tern_db_federation *federation);

// --- The schema, and its upgrade

// All tables, each after those that it refers to.
#define TERN_SCHEMA_COUNTED(name) +1
#define TERN_SCHEMA_TABLES (0 TERN_TABLES(TERN_SCHEMA_COUNTED))
extern const struct tern_table *const tern_schema_tables[TERN_SCHEMA_TABLES];

// Makes all tables of a new database, of the newest version.
TERN_MUST_USE enum tern_result tern_schema_create(struct tern_sql *sql);
// The same in two steps, for a copy: the empty tables; and, once they have their rows, indexes, triggers and the version.
TERN_MUST_USE enum tern_result tern_schema_create_tables(struct tern_sql *sql);
TERN_MUST_USE enum tern_result tern_schema_complete(struct tern_sql *sql);

// The SQL that upgrades each released version: [0] makes version 2 from version 1; NULL ends the list. Append only: once a
// version is released, the tables of tables.c may change only together with a step here.
extern const char *const tern_schema_steps[];

// Checks that the schema is the newest.
// TERN_ERR_STATE  it is older; TERN_ERR_UNKNOWN  it is newer than this program
TERN_MUST_USE enum tern_result tern_schema_current(struct tern_sql *sql, const char *const *steps);
// Brings the database up to date, all steps in one transaction, while nobody else has it open. The caller holds it.
// TERN_ERR_STATE  other programs, which the sentence names, have it open
TERN_MUST_USE enum tern_result tern_schema_migrate(struct tern_sql *sql, const char *const *steps);

#endif
