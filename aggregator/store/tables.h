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
//   BLOB   a struct tern_blob_column; at most one in a table
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
    const char *name; // a member of a member is "up.payload", in SQL up_payload
    enum tern_column_kind kind;
    enum tern_column_rule rule;
    uint32_t offset;
    uint32_t limit; // size of a TEXT; last value of an ENUM
    const char *constraint;
};

struct tern_table {
    const char *name;
    const struct tern_column *columns;
    uint32_t count;
};

// Makes a column of a table for a member of struct `type`.
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

// SQL for the sum of integers; 0 without rows. PostgreSQL's sum() of BIGINT is NUMERIC, hence the CAST.
#define TERN_SUM_OF(number) "CAST(coalesce(sum(" number "), 0) AS BIGINT)"

// SQL for the bytes of an update that stay stored after its round: masked updates are deleted, and their sum counts instead.
#define TERN_MASKED_TEXT "4294967295" // TERN_DB_MASKED
#define TERN_KEPT_BYTES "CASE merged WHEN " TERN_MASKED_TEXT " THEN 0 ELSE body_len END"

// SQL for a time that is at least 1, because 0 means never.
#define TERN_NOT_BEFORE_1(time) "CASE WHEN " time " > 1 THEN " time " ELSE 1 END"

struct tern_table_text; // a generated statement
struct tern_group;

// The implementation of store.h. tern_db_close() frees it.
struct tern_db {
    struct tern_sql *sql;
    bool is_older; // the schema is older than this program
    struct tern_table_text *texts;
    size_t text_count;
    uint8_t *manifest; // malloc'ed at the first use; NULL = not read, or there is none
    size_t manifest_len;
    char *metadata;            // as manifest
    struct tern_group *groups; // rows that wait for the commit, by how they are written (tables.c)
    struct tern_group *deferred; // list of the groups with rows
    size_t deferred_blob_bytes;  // bytes of all BLOB values that wait
    // Cached values of the database. tern_db_refresh() drops them if another program may have changed them.
    bool is_current;
    bool knows_totals;     // `dropped` and `counted` were read
    uint32_t dropped;      // the last round whose rows were dropped
    uint32_t counted;      // the last round whose assignments the sums have
    bool knows_evaluators; // `evaluators` were read
    uint64_t *evaluators;  // their ids, ascending
    size_t evaluator_count;
    uint64_t next_update;                   // id of the next update; 0 = not read
    struct tern_db_actor actor;             // who: "" = none
    const struct tern_db_rejection *hidden; // tern_db_hide_updates()
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

// Reads the next row. False: there is none, or the query failed, and tern_query_end() returns the failure.
bool tern_table_next(struct tern_query *query, const struct tern_table *table, void *row);
// Reads the only row and ends the query. NOT_FOUND
TERN_MUST_USE enum tern_result tern_table_one(struct tern_query *query,
                                              const struct tern_table *table, void *row);
// Reads the only row that `tail` names. NOT_FOUND
TERN_MUST_USE enum tern_result tern_table_get(struct tern_db *db, const struct tern_table *table,
                                              const char *tail,
                                              const struct tern_sql_value *parameters, void *row);

// Turns the query into rows for a caller of the store, which ends them by tern_db_end(). NULL: no memory.
struct tern_db_rows *tern_table_rows(struct tern_query query, const struct tern_table *table);
// Selects the rows that `tail` names, for a caller of the store.
struct tern_db_rows *tern_table_list(struct tern_db *db, const struct tern_table *table,
                                     const char *tail, const struct tern_sql_value *parameters);

// Adds a row and sets its ID, if the table has IDs. TERN_ERR_CONFLICT; NOT_FOUND a row that the new one refers to is
// missing
TERN_MUST_USE enum tern_result tern_table_insert(struct tern_db *db, const struct tern_table *table,
                                                 void *row);
// Adds a row unless a row has its key. *added: the row was added
TERN_MUST_USE enum tern_result tern_table_keep(struct tern_db *db, const struct tern_table *table,
                                               void *row, bool *added);
// Adds a row, or changes the one of its key as the columns' rules say, where `tail` ("WHERE ...") allows that.
// NOT_FOUND  a row that it refers to is missing, or `tail` did not allow it
TERN_MUST_USE enum tern_result tern_table_put_where(struct tern_db *db,
                                                    const struct tern_table *table, const void *row,
                                                    const char *tail);

// Adds a row, with its ID. This and the next three functions may delay their write until the commit.
TERN_MUST_USE enum tern_result tern_table_add(struct tern_db *db, const struct tern_table *table,
                                              const void *row);
// Adds a row, or changes the one of its key as the columns' rules say.
TERN_MUST_USE enum tern_result tern_table_put(struct tern_db *db, const struct tern_table *table,
                                              const void *row);
// Changes the row with this ID or key as the columns' rules say. The row exists and fulfils `tail` ("" or "AND ...").
TERN_MUST_USE enum tern_result tern_table_update(struct tern_db *db, const struct tern_table *table,
                                                 const void *row, const char *tail);
// Changes the row with this key as the columns' rules say, if there is one.
TERN_MUST_USE enum tern_result tern_table_change(struct tern_db *db, const struct tern_table *table,
                                                 const void *row);

// Writes the rows that wait. TERN_ERR_IO (_BUSY, _NO_MEMORY)  one of them was refused: the transaction cannot be committed
TERN_MUST_USE enum tern_result tern_deferred_flush(struct tern_db *db);
void tern_deferred_forget(struct tern_db *db); // drops the rows that wait, after a rollback
// As tern_query_read() and _write(). First write the waiting rows that the statement may depend on.
struct tern_query tern_db_read(struct tern_db *db, const char *text,
                               const struct tern_sql_value *parameters);
struct tern_query tern_db_write(struct tern_db *db, const char *text,
                                const struct tern_sql_value *parameters);
// Call before use of the cached values: drops them if another program may have changed them.
void tern_db_refresh(struct tern_db *db);

// Selects all rows in the order of their keys, which is the same in every database: for tern_table_next().
struct tern_query tern_table_scan(struct tern_db *db, const struct tern_table *table);
// Adds many rows with their IDs (tern_query_load()), until tern_query_end().
struct tern_query tern_table_load(struct tern_db *db, const struct tern_table *table);
void tern_table_load_row(struct tern_query *query, const struct tern_table *table, const void *row);
// Adds a column's value to the hash: numbers as 8 bytes little-endian, bytes of any length after their length. Returns the number of bytes.
size_t tern_table_hash(struct tern_sha256 *hash, const struct tern_column *column, const void *row);
// Bytes of a row's struct up to the end of its last column.
size_t tern_table_row_bytes(const struct tern_table *table);
// Finds the first id above `after` in a table whose rows are an id and a value, and the bytes of that value. NOT_FOUND
TERN_MUST_USE enum tern_result tern_table_next_body(struct tern_db *db,
                                                    const struct tern_table *table, uint64_t after,
                                                    uint64_t *id, size_t *size);

// Frees all memory of db except the connection, which is closed.
void tern_db_forget(struct tern_db *db);

// --- The tables (tables.c), and rows that only the store uses

// clang-format off
#define TERN_TABLES(X)                                                                            \
    X(federation) X(files) X(clients) X(psk_keys) X(ticket_keys) X(codes) X(rounds) X(assignments) X(updates)    \
    X(secure_rounds) X(secure_sums) X(tickets)                                                    \
    X(update_bodies) X(versions) X(weights) X(downloads) X(download_bodies) X(replicas) X(ledger) \
    X(schedule) X(evaluations) X(metrics) X(statistics) X(meter) X(totals) X(purpose_totals) X(round_totals) X(client_totals) \
    X(node_settings) X(tokens) X(audit) X(labels) X(orders)
// clang-format on

#define TERN_TABLE_DECLARE(name) extern const struct tern_table tern_table_##name;
TERN_TABLES(TERN_TABLE_DECLARE)

struct tern_body_row {
#define COLUMN TERN_MEMBER
#include "store/tables/bodies.def"
};

// Sums over history: one row with id 1.
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
    TERN_VECTOR_STATE = TERN_WEIGHTS_INITIAL + 1, // state of a strategy
    TERN_VECTOR_OF_REPLICA,  // weights of a replica of the form TERN_REPLICA_WHOLE
    TERN_VECTOR_OF_DOWNLOAD, // bytes of a download, whose last part may have any length
};
#define TERN_LAST_vector_kind TERN_WEIGHTS_PINNED
#define TERN_VECTOR_NAME_MAX (2 * TERN_SHA256_SIZE + 1)
struct tern_part_row {
#define COLUMN TERN_MEMBER
#include "store/tables/weights.def"
};

// Whether retention has dropped the rows of the round (store_rounds.c).
TERN_MUST_USE enum tern_result tern_retention_has_dropped(struct tern_db *db, uint32_t round,
                                                          bool *dropped);

// Compares the bytes of the downloads that are stored in parts with their names.
TERN_MUST_USE enum tern_result tern_downloads_check_parts(struct tern_db *db);

// --- The schema, and its upgrade

// All tables, each after those that it refers to.
#define TERN_SCHEMA_COUNTED(name) +1
#define TERN_SCHEMA_TABLES (0 TERN_TABLES(TERN_SCHEMA_COUNTED))
extern const struct tern_table *const tern_schema_tables[TERN_SCHEMA_TABLES];

// Makes all tables of a new database, of the newest version.
TERN_MUST_USE enum tern_result tern_schema_create(struct tern_sql *sql);
// Make a new database in two steps, for a copy: the empty tables; later indexes, triggers and the version.
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
