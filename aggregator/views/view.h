// Every list that operators read (clients, rounds, replicas, ...) as one query to rows with named, typed columns. The
// command line prints them as a table, CSV or JSON, the admin API as JSON; both take the same options. A view's columns
// stand in one file, views/NAME.def, in their order. Knows the store, and neither HTTP nor terminals. Used from the
// thread that owns the database connection.
#ifndef TERN_VIEW_H
#define TERN_VIEW_H

#include "federation/accuracy.h"
#include "store/store.h"
#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdio.h>

// --- Columns

enum tern_view_kind {
    TERN_VIEW_NUMBER,
    TERN_VIEW_REAL, // a float
    TERN_VIEW_BOOL,
    TERN_VIEW_TEXT,
    TERN_VIEW_FIGURES, // names with a float each
    TERN_VIEW_NULL,    // of a value only: it is not known
};

// How a table for people shows a value.
enum tern_view_format {
    // Numbers of these stand on the right.
    TERN_VIEW_PLAIN,
    TERN_VIEW_BYTES,    // 12.7 KB
    TERN_VIEW_DURATION, // milliseconds as "3 m 20 s"
    TERN_VIEW_SCORE,    // 4 decimals
    TERN_VIEW_SHORT,    // 4 digits
    // All else stands on the left.
    TERN_VIEW_TIME,  // milliseconds since 1970 as date and time
    TERN_VIEW_AGO,   // milliseconds since 1970 as "3 m 20 s ago"
    TERN_VIEW_HEX,   // 8 digits
    TERN_VIEW_ID,    // the first 12 digits of a hash
    TERN_VIEW_LONG,  // text that a narrow terminal cuts
    TERN_VIEW_NOTE,  // likewise; the column is left out where no row has a text
    TERN_VIEW_STATE, // a word, coloured where it is good or bad news
};

struct tern_view_value {
    enum tern_view_kind kind;
    uint64_t number;
    float real;
    bool yes;
    const char *text; // valid until the next row
    const struct tern_figure *figures;
    uint32_t count;                      // of figures
    char hash[2 * TERN_SHA256_SIZE + 1]; // the text of a hash
};

// Where a value is in the struct of a row.
enum tern_view_source {
    TERN_VIEW_COMPUTED, // get() has it
    TERN_VIEW_U64,
    TERN_VIEW_U32,
    TERN_VIEW_FLOAT,
    TERN_VIEW_FLAG,
    TERN_VIEW_CHARS,
    TERN_VIEW_HASH, // null where it is zeros
    TERN_VIEW_WORD,
};

struct tern_view_column {
    const char *name;    // in JSON, CSV and options; NULL: the column of the database is not shown
    const char *heading; // of a table for people; NULL: the name in capitals, without _MS
    enum tern_view_kind kind;
    enum tern_view_format format;
    const char *help; // what the value is, without a full stop
    enum tern_view_source source;
    size_t offset;
    const char *(*word)(uint32_t number);
    void (*get)(const void *row, const struct tern_view_column *column,
                struct tern_view_value *value);
    uint32_t argument; // of get(), in columns that tern_view_add_column() made
};

// The last argument of a COLUMN in store/tables/*.def that a view shows.
#define SHOWN(name_, format_, help_) .name = (name_), .format = TERN_VIEW_##format_, .help = (help_)
#define TITLED(name_, heading_, format_, help_)                                                    \
    .name = (name_), .heading = (heading_), .format = TERN_VIEW_##format_, .help = (help_)

// STORED(row, member, kind, name, of, rule, constraint, shown): a COLUMN of the struct `member` of a row.
#define TERN_VIEW_STORED(row, member, kind_, name_, of_, rule, constraint, ...)                    \
    {TERN_VIEW_FROM_##kind_(of_).offset = offsetof(struct row, member.name_), __VA_ARGS__},
#define TERN_VIEW_FROM(kind_, source_) .kind = TERN_VIEW_##kind_, .source = TERN_VIEW_##source_,
#define TERN_VIEW_FROM_U64(of) TERN_VIEW_FROM(NUMBER, U64)
#define TERN_VIEW_FROM_ID(of) TERN_VIEW_FROM(NUMBER, U64)
#define TERN_VIEW_FROM_U32(of) TERN_VIEW_FROM(NUMBER, U32)
#define TERN_VIEW_FROM_BOOL(of) TERN_VIEW_FROM(BOOL, FLAG)
#define TERN_VIEW_FROM_REAL(of) TERN_VIEW_FROM(REAL, FLOAT)
#define TERN_VIEW_FROM_TEXT(of) TERN_VIEW_FROM(TEXT, CHARS)
#define TERN_VIEW_FROM_HASH(of) TERN_VIEW_FROM(TEXT, HASH)
#define TERN_VIEW_FROM_NAMED(of) TERN_VIEW_FROM(TEXT, WORD).word = (of),
#define TERN_VIEW_FROM_ENUM(of) TERN_VIEW_FROM(TEXT, WORD).word = word_of_##of,

// VALUE(kind, name, heading, format, known, value, help): computed of `row`; null unless `known`. TERN_VIEW_GETTER
// makes the function, TERN_VIEW_VALUE the column.
#define TERN_VIEW_GETTER(row_, view, kind_, name_, heading, format, known, value_, help)           \
    static void get_##view##_##name_(const void *at, const struct tern_view_column *column,        \
                                     struct tern_view_value *value)                                \
    {                                                                                              \
        const struct row_ *row = at;                                                               \
        (void)row;                                                                                 \
        (void)column;                                                                              \
        if (known) {                                                                               \
            TERN_VIEW_PUT_##kind_(value, value_);                                                  \
        }                                                                                          \
    }
#define TERN_VIEW_PUT_NUMBER(to, from) (to)->kind = TERN_VIEW_NUMBER, (to)->number = (from)
#define TERN_VIEW_PUT_REAL(to, from) (to)->kind = TERN_VIEW_REAL, (to)->real = (float)(from)
#define TERN_VIEW_PUT_BOOL(to, from) (to)->kind = TERN_VIEW_BOOL, (to)->yes = (from)
#define TERN_VIEW_PUT_TEXT(to, from) (to)->kind = TERN_VIEW_TEXT, (to)->text = (from)
#define TERN_VIEW_PUT_FIGURES(to, of)                                                              \
    (to)->kind = TERN_VIEW_FIGURES, (to)->figures = (of).metrics, (to)->count = (of).metric_count
#define TERN_VIEW_VALUE(view, kind_, name_, heading_, format_, known, value, help_)                \
    {.name = #name_,                                                                               \
     .heading = (heading_),                                                                        \
     .kind = TERN_VIEW_##kind_,                                                                    \
     .format = TERN_VIEW_##format_,                                                                \
     .help = (help_),                                                                              \
     .get = get_##view##_##name_},

// --- Views

struct tern_view_rows;

struct tern_view {
    const char *name;
    const char *
        key; // column that rows are in the order of, and that pages go by; NULL: the list has no pages
    const char *usual; // columns of a table for people
    const char
        *costly; // columns that only a query which names them gets, "score,score_of"; NULL: none
    const char *nothing; // "has not had a task yet": of a client without a row
    const struct tern_view_column *columns;
    size_t count;
    size_t row_size;
    size_t state_size; // of what rows->state has, zeros before open()
    enum tern_result (*open)(struct tern_view_rows *rows);
    // Reads the next row, all zeros before. False: there is none; close() has the reason.
    bool (*next)(struct tern_view_rows *rows, void *row);
    enum tern_result (*close)(struct tern_view_rows *rows); // also after open() failed
    // The largest key; NULL: keys have gaps, so that --last reads all rows.
    enum tern_result (*newest)(struct tern_db *db, uint64_t *key);
};

extern const struct tern_view tern_view_clients;
extern const struct tern_view tern_view_client_rounds; // of query.client
extern const struct tern_view tern_view_schedule;
extern const struct tern_view tern_view_ledger;
extern const struct tern_view tern_view_codes;
// "valid", "expired", "used up". Static string.
const char *tern_code_state(const struct tern_db_code *code, uint64_t now_ms);
extern const struct tern_view tern_view_replicas;
// "seed", "downloads", "snapshot", "float32": what a replica is kept as. Static string.
const char *tern_view_replica_form(uint32_t form);
extern const struct tern_view tern_view_held; // the replica that each client holds
extern const struct tern_view tern_view_rounds;
extern const struct tern_view tern_view_purpose_bytes;
extern const struct tern_view tern_view_client_bytes;
extern const struct tern_view tern_view_round_bytes;
extern const struct tern_view tern_view_fairness;

// --- Queries

// What options select. Strings are borrowed until the rows are closed.
struct tern_view_query {
    const char *columns; // "round,held_out_*"; NULL: every column but costly ones
    const char *where;   // "state=open,tag=site=oslo": all of them; NULL: every row
    const char *sort;    // "loss" or "-loss", descending; NULL: in the order of the key
    uint64_t last;       // only the last rows of these; 0 = all
    uint64_t after;      // only keys behind it
    uint32_t limit;      // rows that are read at the most; 0 = all
    uint64_t client;     // only its row; 0 = all
    uint64_t now_ms;
};

// Texts and numbers of rows that are being read.
struct tern_view_rows {
    const struct tern_view *view;
    struct tern_db *db;
    struct tern_view_query query;
    struct tern_view_column *columns; // those of the view, then those that its open() added
    size_t count;
    size_t *shown; // indices of columns, in the order of the query
    size_t shown_count;
    void *state; // the view's
    void *row;   // the present one
    // The rest belongs to view.c.
    uint64_t read; // rows
    struct tern_view_condition *conditions;
    size_t condition_count;
    size_t sort; // index of a column
    bool descending;
    char *kept; // rows, where they are sorted or only the last are wanted
    size_t kept_count;
    size_t kept_next;
};

#define TERN_VIEW_WHY_MAX 2048

// Opens the rows of a view, for tern_view_next(). *rows: to be closed unless this fails.
// TERN_ERR_ARGUMENT  why: which option is wrong, and which columns there are
// TERN_ERR_NO_MEMORY, errors of the store
TERN_MUST_USE enum tern_result tern_view_open(const struct tern_view *view, struct tern_db *db,
                                              const struct tern_view_query *query,
                                              struct tern_view_rows **rows,
                                              char why[TERN_VIEW_WHY_MAX]);
// Reads the next row. False: there is none; tern_view_close() has the reason.
bool tern_view_next(struct tern_view_rows *rows);
TERN_MUST_USE enum tern_result tern_view_close(struct tern_view_rows *rows);

// The value of the present row in a column.
void tern_view_value(const struct tern_view_rows *rows, const struct tern_view_column *column,
                     struct tern_view_value *value);

// --- For views

// Whether the query asks for a column whose name begins with `prefix`, by name or by a pattern.
bool tern_view_wants(const struct tern_view_rows *rows, const char *prefix);
// Adds a column behind the others; its strings belong to the view's state. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_view_add_column(struct tern_view_rows *rows,
                                                    const struct tern_view_column *column);
// Of a row of tables in the same order: steps `other` until its key, the first member, is not below `key`; whether it
// has that key.
struct tern_view_beside {
    struct tern_db_rows *rows;
    bool read; // the struct has the next row
    bool ended;
};
bool tern_view_step(struct tern_view_beside *beside, void *next, size_t key_size, uint64_t key);

// --- Renderers (render.c)

// The present row as an object; NULL: no memory.
cJSON *tern_view_object(const struct tern_view_rows *rows);
// All rows that follow: an array of objects; an object with an array for each column, a tenth of the bytes. NULL: no
// memory. For short lists; errors of reading are tern_view_close()'s.
cJSON *tern_view_array(struct tern_view_rows *rows);
cJSON *tern_view_arrays(struct tern_view_rows *rows);
// Writes all rows that follow, each as it is read: as the array of above; as CSV (RFC 4180, lines end with \n). What is
// not known is empty.
TERN_MUST_USE enum tern_result tern_view_write_json(struct tern_view_rows *rows, FILE *out);
TERN_MUST_USE enum tern_result tern_view_write_csv(struct tern_view_rows *rows, FILE *out);
// For people: as an aligned table; the next row as a line for each column.
TERN_MUST_USE enum tern_result tern_view_write_table(struct tern_view_rows *rows, FILE *out);
TERN_MUST_USE enum tern_result tern_view_write_row(struct tern_view_rows *rows, FILE *out);
// Describes the columns of a view.
void tern_view_write_help(const struct tern_view *view, FILE *out);
cJSON *tern_view_help(const struct tern_view *view);

#endif
