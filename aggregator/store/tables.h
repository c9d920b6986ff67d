// Tables as data: of each table that holds rows of a struct, tables/*.def lists the columns once,
// and from that list are made the struct (store.h), columns of lists (views/view.h), and here the
// definition of the table, the texts of the usual statements, binding and reading. Only store/
// includes this. Thread rule: as store.h.
//
// A line of such a list is COLUMN(kind, name, of, rule, constraint, shown):
// kind: what the struct's member is.
//   U64 U32 BOOL REAL TEXT HASH ENUM  as they are called
//   NAMED  a U32 that stands for a word
//   ID     a number that the database gives; the struct's first member
//   BITS   a U64 of which all 64 bits count
//   SIZE   a size_t
//   BLOB   a struct tern_blob_column
// of: of a TEXT its bytes with the NUL; of an ENUM what follows enum tern_db_, whose last value
//   is TERN_LAST_<of>; of a NAMED the function that says the word.
// rule: what may become of the column.
//   KEY    part of the primary key
//   ONCE   never changes
//   SET    tern_table_put() and _update() change it
//   ADD    tern_table_put() adds to it
// constraint: SQL beyond what the kind says.
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
    uint32_t limit; // of a TEXT: its bytes; of an ENUM: its last value
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

// A sum of whole numbers, which some databases give another type otherwise; none is 0.
#define TERN_SUM_OF(number) "CAST(coalesce(sum(" number "), 0) AS BIGINT)"

// A time, and 1 in place of one before that.
#define TERN_NOT_BEFORE_1(time) "CASE WHEN " time " > 1 THEN " time " ELSE 1 END"

struct tern_table_text; // of a statement, made once

struct tern_totals_row {
#define COLUMN TERN_MEMBER
#include "store/tables/totals.def"
};

// Of a purpose, among clients that train or others, in rounds or outside.
struct tern_purpose_total_row {
    bool trains;
    bool outside;
    enum tern_purpose purpose;
    struct tern_bytes up;
    struct tern_bytes down;
    uint64_t exchanges;
};

// What a transaction adds to sums over history, written by its commit (store.c): one row of what
// many clients had in common, one of each client.
#define TERN_CLIENTS_PENDING 256
struct tern_pending_totals {
    struct tern_totals_row all;
    struct tern_purpose_total_row purposes[2][2][TERN_PURPOSE_COUNT]; // [trains][outside]
    struct tern_db_round_total round;                                 // the last that came
    struct tern_db_client_total clients[TERN_CLIENTS_PENDING];        // at its id modulo that
    bool any;                                                         // else all of it is zeros
};

// Ids of clients that evaluate, ascending.
struct tern_evaluators {
    uint64_t *ids;
    size_t count;
    size_t room;
    bool known; // in this transaction
};

// What is behind store.h. Whoever makes one for a connection frees it by tern_db_close().
struct tern_db {
    struct tern_sql *sql;
    bool is_older; // the schema, than this program's
    struct tern_table_text *texts;
    size_t text_count;
    uint8_t *manifest; // malloc'ed once it was asked for; NULL = not yet, or there is none
    size_t manifest_len;
    char *metadata; // likewise
    struct tern_pending_totals pending;
    struct tern_evaluators evaluators;
    bool is_current;    // what is known is that of this transaction, in which nobody else writes
    bool knows_dropped; // what follows
    uint32_t dropped;   // the last round whose rows were dropped
};

// All columns of the rows that `tail` selects: "WHERE id = ? ORDER BY ...". tail: lives as long as
// db, as the literals do.
struct tern_query tern_table_select(struct tern_db *db, const struct tern_table *table,
                                    const char *tail);
// Likewise: sums of the columns that are added to, which are had of the table that `tail` names:
// "FROM meter WHERE ..."; of the key, the column `group` (NULL: none) and zeros in place of the
// others.
struct tern_query tern_table_sums(struct tern_db *db, const struct tern_table *table,
                                  const char *group, const char *tail);

// Steps to the next row and reads it. False: there is none, or it cannot be read; or
// tern_query_end() was not TERN_OK.
bool tern_table_next(struct tern_query *query, const struct tern_table *table, void *row);
// Reads the one row and ends the query. NOT_FOUND
TERN_MUST_USE enum tern_result tern_table_one(struct tern_query *query,
                                              const struct tern_table *table, void *row);
// Both together, where the only parameter of `tail` is a number, or a hash. NOT_FOUND
TERN_MUST_USE enum tern_result tern_table_get(struct tern_db *db, const struct tern_table *table,
                                              const char *tail, uint64_t number, void *row);
TERN_MUST_USE enum tern_result tern_table_find(struct tern_db *db, const struct tern_table *table,
                                               const char *tail,
                                               const uint8_t hash[TERN_SHA256_SIZE], void *row);

// What a caller of the store reads with tern_db_next() and ends. NULL: there is no memory for it.
struct tern_db_rows *tern_table_rows(struct tern_query query, const struct tern_table *table);

// Adds a row; its ID is set, if it has one. TERN_ERR_CONFLICT; NOT_FOUND  what it refers to
TERN_MUST_USE enum tern_result tern_table_insert(struct tern_db *db, const struct tern_table *table,
                                                 void *row);
// Likewise, where one of this key may be there already and then stays. *added: it was not.
TERN_MUST_USE enum tern_result tern_table_keep(struct tern_db *db, const struct tern_table *table,
                                               void *row, bool *added);
// Adds a row, or changes the one of its key as the columns' rules say, where `tail` ("WHERE ...") allows that.
// NOT_FOUND  what it refers to, or `tail` did not allow it
TERN_MUST_USE enum tern_result tern_table_put_where(struct tern_db *db,
                                                    const struct tern_table *table, const void *row,
                                                    const char *tail);

// As tern_query_post_one() does it: adds a row, whose ID is not told;
TERN_MUST_USE enum tern_result tern_table_add(struct tern_db *db, const struct tern_table *table,
                                              const void *row);
// adds a row, or changes the one of its key as the columns' rules say;
TERN_MUST_USE enum tern_result tern_table_put(struct tern_db *db, const struct tern_table *table,
                                              const void *row);
// changes the row of this ID, or key, as the columns' rules say, where `tail` ("" or "AND ...") allows that.
TERN_MUST_USE enum tern_result tern_table_update(struct tern_db *db, const struct tern_table *table,
                                                 const void *row, const char *tail);

// All rows in the order of their keys, which is the same in every database: for tern_table_next().
struct tern_query tern_table_scan(struct tern_db *db, const struct tern_table *table);
// Adds many rows, their IDs as they are, for tern_query_end(): tern_query_load().
struct tern_query tern_table_load(struct tern_db *db, const struct tern_table *table);
void tern_table_load_row(struct tern_query *query, const struct tern_table *table, const void *row);
// Bytes of the struct's members that the columns name, and of one of them.
size_t tern_table_row_bytes(const struct tern_table *table);
size_t tern_table_value_bytes(const struct tern_column *column);
// Whether its rows are an id and a value of any length, which is read and written in pieces; and the first row of
// such a table behind `after`. NOT_FOUND
bool tern_table_is_of_bodies(const struct tern_table *table);
TERN_MUST_USE enum tern_result tern_table_next_body(struct tern_db *db,
                                                    const struct tern_table *table, uint64_t after,
                                                    uint64_t *id, size_t *size);

// Frees what db->texts has; the connection is closed.
void tern_table_free_texts(struct tern_db *db);
// Likewise all that db has beside the connection.
void tern_db_forget(struct tern_db *db);

// --- The tables (tables.c), and rows that only the store knows

// clang-format off
#define TERN_TABLES(X)                                                                            \
    X(federation) X(files) X(clients) X(psk_keys) X(ticket_keys) X(codes) X(rounds) X(assignments) X(updates)    \
    X(update_bodies) X(parts) X(versions) X(weights) X(downloads) X(download_bodies) X(replicas) X(ledger) \
    X(schedule) X(evaluations) X(metrics) X(statistics) X(meter) X(totals) X(purpose_totals) X(round_totals) X(client_totals) \
    X(relayed) X(answers) X(node_settings)
// clang-format on

#define TERN_TABLE_DECLARE(name) extern const struct tern_table tern_table_##name;
TERN_TABLES(TERN_TABLE_DECLARE)

struct tern_body_row {
#define COLUMN TERN_MEMBER
#include "store/tables/bodies.def"
};

#define TERN_FILE_NAME_MAX 16
struct tern_file_row {
#define COLUMN TERN_MEMBER
#include "store/tables/files.def"
};

// What a vector is: enum tern_db_weights goes on here.
enum tern_db_vector_kind {
    TERN_VECTOR_STATE = TERN_WEIGHTS_INITIAL + 1, // that a strategy carries on
    TERN_VECTOR_OF_REPLICA,                       // kept whole
};
#define TERN_LAST_vector_kind TERN_VECTOR_OF_REPLICA
#define TERN_VECTOR_NAME_MAX (2 * TERN_SHA256_SIZE + 1)
struct tern_part_row {
#define COLUMN TERN_MEMBER
#include "store/tables/weights.def"
};

// What follows is counted by the commit. A client was asked by a round; its update for one was accepted; the
// exchange is of a row that was added to the meter.
TERN_MUST_USE enum tern_result tern_totals_count_invitation(struct tern_db *db, uint64_t client);
TERN_MUST_USE enum tern_result tern_totals_count_report(struct tern_db *db, uint32_t round,
                                                        uint64_t client);
void tern_totals_count_update(struct tern_db *db, size_t body_len);
TERN_MUST_USE enum tern_result tern_totals_count_meter(struct tern_db *db,
                                                       const struct tern_db_meter *meter);
// Writes what was counted; the commit does so.
TERN_MUST_USE enum tern_result tern_totals_write(struct tern_db *db);
void tern_totals_forget(struct tern_db *db);

// Whether the rows of that round were dropped for good (store_rounds.c).
TERN_MUST_USE enum tern_result tern_retention_has_dropped(struct tern_db *db, uint32_t round,
                                                          bool *dropped);

// Reads the row of the federation without its files. NOT_FOUND
TERN_MUST_USE enum tern_result tern_store_read_federation(struct tern_db *db,
                                                          struct tern_db_federation *federation);

// --- The schema, and how one of an older version is brought up to date

// In the order in which they refer to each other.
#define TERN_SCHEMA_COUNTED(name) +1
#define TERN_SCHEMA_TABLES (0 TERN_TABLES(TERN_SCHEMA_COUNTED))
extern const struct tern_table *const tern_schema_tables[TERN_SCHEMA_TABLES];

// Makes all tables of a new database, of the newest version.
TERN_MUST_USE enum tern_result tern_schema_create(struct tern_sql *sql);
// The same in two steps: the tables, without a row; and, once they have those of another database, what follows from
// rows, and the version.
TERN_MUST_USE enum tern_result tern_schema_create_tables(struct tern_sql *sql);
TERN_MUST_USE enum tern_result tern_schema_complete(struct tern_sql *sql);

// What each version that was released takes to become the next one, as SQL: [0] makes version 2 of
// version 1; NULL ends the list. Append only: once a version is released, the tables of tables.c
// may change only together with a step here.
extern const char *const tern_schema_steps[];

// TERN_ERR_STATE  it is older than that: somebody has to bring it up to date; TERN_ERR_UNKNOWN  as above
TERN_MUST_USE enum tern_result tern_schema_current(struct tern_sql *sql, const char *const *steps);
// Brings the database up to date, all steps in one transaction, while nobody else has it open. The caller holds it.
// TERN_ERR_STATE  others have it open, who are named
TERN_MUST_USE enum tern_result tern_schema_migrate(struct tern_sql *sql, const char *const *steps);

#endif
