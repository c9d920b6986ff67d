// Every list that operators read (clients, rounds, replicas, ...) is a view: one query that returns rows with named, typed
// columns. The command line prints them as a table, CSV or JSON, the admin API as JSON; both take the same options.
// views/NAME.def lists the columns of a view in their order. Used from the thread that owns the database connection.
#ifndef TERN_VIEW_H
#define TERN_VIEW_H

#include "federation/accuracy.h"
#include "rounds/spread.h"
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
    TERN_VIEW_FIGURES, // names, each with a float
    TERN_VIEW_NULL,    // an unknown value; no column has this kind
};

// How a table for people shows a value.
enum tern_view_format {
    // Numbers of these formats are aligned right.
    TERN_VIEW_PLAIN,
    TERN_VIEW_BYTES,    // 12.7 KB
    TERN_VIEW_DURATION, // milliseconds as "3 m 20 s"
    TERN_VIEW_SCORE,    // 4 decimals
    TERN_VIEW_SHARE,    // 4 decimals; per cent on the dashboard
    TERN_VIEW_SHORT,    // 4 digits
    // All other values are aligned left.
    TERN_VIEW_TIME,  // milliseconds since 1970 as date and time
    TERN_VIEW_AGO,   // milliseconds since 1970 as "3 m 20 s ago"
    TERN_VIEW_HEX,   // 8 digits
    TERN_VIEW_ID,    // the first 12 digits of a hash
    TERN_VIEW_LONG,  // text that a narrow terminal cuts
    TERN_VIEW_NOTE,  // like LONG, but a column without any text is left out
    TERN_VIEW_STATE, // a word, in colour if the state is good or bad
};

struct tern_view_value {
    enum tern_view_kind kind;
    uint64_t number;
    float real;
    bool yes;
    const char *text; // valid until the next row
    const struct tern_median_metric *figures;
    uint32_t count;                      // number of figures
    char hash[2 * TERN_SHA256_SIZE + 1]; // a hash in hexadecimal digits, for `text`
};

// How a value is read from the struct of a row.
enum tern_view_source {
    TERN_VIEW_COMPUTED, // by tern_view_column.get()
    TERN_VIEW_U64,
    TERN_VIEW_U32,
    TERN_VIEW_FLOAT,
    TERN_VIEW_FLAG,
    TERN_VIEW_CHARS,
    TERN_VIEW_HASH, // a hash of zeros means null
    TERN_VIEW_WORD,
};

struct tern_view_column {
    // Name in JSON, CSV and options; NULL: a column of the database that no list shows.
    const char *name;
    const char *heading; // heading in a table for people; NULL: the name in capitals, without _MS
    enum tern_view_kind kind;
    enum tern_view_format format;
    bool listed; // the dashboard's table shows the column, even if tern_view.usual lacks its name
    const char *help; // describes the value, without a full stop
    enum tern_view_source source;
    size_t offset;
    const char *(*word)(uint32_t number);
    void (*get)(const void *row, const struct tern_view_column *column,
                struct tern_view_value *value);
    uint32_t argument; // for get(), in columns of tern_view_add_column()
};

// The last argument of a COLUMN in store/tables/*.def that a view shows.
#define SHOWN(name_, format_, help_) .name = (name_), .format = TERN_VIEW_##format_, .help = (help_)
#define TITLED(name_, heading_, format_, help_)                                                    \
    .name = (name_), .heading = (heading_), .format = TERN_VIEW_##format_, .help = (help_)

// A format of a column that the dashboard's table shows: PAGE(BYTES).
#define TERN_VIEW_PAGE(format_) TERN_VIEW_##format_, .listed = true

// STORED(row, member, kind, name, of, rule, constraint, shown): a COLUMN of store/tables/*.def, in the struct `member` of a row.
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

// VALUE(kind, name, heading, format, known, value, help): a value computed from `row`; null unless `known`.
// TERN_VIEW_GETTER makes the function, TERN_VIEW_VALUE the column.
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
    const char *key;     // column that orders the rows and by which pages are read; NULL: no pages
    const char *usual;   // columns of a table for people, in a terminal and on the dashboard
    const char *costly;  // columns that a query must name: "score,score_of"; NULL: none
    const char *nothing; // "has not had a task yet": reported for a client without a row
    const struct tern_view_column *columns;
    size_t count;
    size_t row_size;
    size_t state_size; // bytes of rows->state, zeros before open()
    enum tern_result (*open)(struct tern_view_rows *rows);
    // Reads the next row into `row`, which is all zero. False: there is no further row, or rows->result is set.
    bool (*next)(struct tern_view_rows *rows, void *row);
    void (*close)(struct tern_view_rows
                      *rows); // frees the state, also after open() failed; NULL: nothing to free
    // Reads the largest key; NULL: keys have gaps, so that --last reads all rows.
    enum tern_result (*newest)(struct tern_db *db, uint64_t *key);
};

#define TERN_VIEW_COLUMNS(list) .columns = (list), .count = sizeof(list) / sizeof((list)[0])

extern const struct tern_view tern_view_clients;
extern const struct tern_view tern_view_client_rounds; // rounds that selected query.client
extern const struct tern_view tern_view_schedule;
extern const struct tern_view tern_view_ledger;
extern const struct tern_view tern_view_codes;
// Returns "valid", "expired" or "used up". Static string.
const char *tern_code_state(const struct tern_db_code *code, uint64_t now_ms);
extern const struct tern_view tern_view_audit;
extern const struct tern_view tern_view_tokens;
// Returns "valid", "expired" or "revoked". Static string.
const char *tern_token_state(const struct tern_db_token *token, uint64_t now_ms);
extern const struct tern_view tern_view_replicas;
// Returns the form in which a replica is stored: "seed", "downloads", "snapshot" or "float32". Static string.
const char *tern_view_replica_form(uint32_t form);
extern const struct tern_view tern_view_held; // the replica that each client holds
extern const struct tern_view tern_view_rounds;
extern const struct tern_view tern_view_purpose_bytes;
extern const struct tern_view tern_view_client_bytes;
extern const struct tern_view tern_view_round_bytes;
extern const struct tern_view tern_view_fairness;

// Describes how evenly rounds use the clients that train.
struct tern_held_outs; // views/held_out.h
struct tern_fairness_summary {
    uint32_t rounds;
    uint32_t clients;
    struct tern_fairness invited;
    struct tern_fairness reported;
    const struct tern_held_outs *held_outs;
};
// Returns the summary of rows of tern_view_fairness, until they are closed.
const struct tern_fairness_summary *tern_view_fairness_summary(const struct tern_view_rows *rows);

// --- Queries

// The selection of rows and columns by options. Strings are borrowed until the rows are closed.
struct tern_view_query {
    const char *columns; // "round,held_out_*"; NULL: every column but costly ones
    const char *where; // "state=open,tag=site=oslo": rows that fit all conditions; NULL: every row
    const char *sort;  // "loss" or "-loss", descending; NULL: in the order of the key
    uint64_t last;     // number of rows at the end of these; 0 = all
    uint64_t after;    // only rows with a key above this one
    uint32_t limit;    // most rows to read; 0 = all
    uint64_t client;   // only rows of this client; 0 = all
    uint64_t now_ms;
};

// Rows that are being read.
struct tern_view_rows {
    const struct tern_view *view;
    struct tern_db *db;
    struct tern_view_query query;
    struct tern_view_column *columns; // columns of the view, then columns that its open() added
    size_t count;
    size_t *shown; // indices of columns, in the order of the query
    size_t shown_count;
    void *state;                   // tern_view.state_size bytes for the view
    void *row;                     // the present row
    struct tern_db_rows *lists[4]; // lists of the store that tern_view_read() has added
    enum tern_result result;       // error of tern_view.next()
    // The rest belongs to view.c.
    size_t list_count;
    uint64_t read; // number of rows read so far
    struct tern_view_condition *conditions;
    size_t condition_count;
    size_t sort; // index of the column to sort by
    bool descending;
    char *kept; // rows in memory, if the query sorts rows or wants only the last ones
    size_t kept_count;
    size_t kept_next;
};

#define TERN_VIEW_WHY_MAX 2048

// Opens the rows of a view, for tern_view_next(). Close *rows unless this fails.
// TERN_ERR_ARGUMENT  why: the wrong option, and the columns of the view
// TERN_ERR_NO_MEMORY, errors of the store
TERN_MUST_USE enum tern_result tern_view_open(const struct tern_view *view, struct tern_db *db,
                                              const struct tern_view_query *query,
                                              struct tern_view_rows **rows,
                                              char why[TERN_VIEW_WHY_MAX]);
// Reads the next row. False: there is none, or tern_view_close() returns the failure.
bool tern_view_next(struct tern_view_rows *rows);
TERN_MUST_USE enum tern_result tern_view_close(struct tern_view_rows *rows);

// Reads the value of a row in a column.
void tern_view_value(const void *row, const struct tern_view_column *column,
                     struct tern_view_value *value);

// --- For views

// Adds a list to rows->lists, which tern_view_close() ends, and returns it. NULL: reported by tern_view_close().
struct tern_db_rows *tern_view_read(struct tern_view_rows *rows, struct tern_db_rows *list);
// Whether the query asks for a column whose name begins with `prefix`, by name or by a pattern.
bool tern_view_wants(const struct tern_view_rows *rows, const char *prefix);
// Adds a column after all other columns. Its strings belong to the view's state. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_view_add_column(struct tern_view_rows *rows,
                                                    const struct tern_view_column *column);
// Reads a second table in the order of its keys: steps until the key, the first member of *next, is at least `key`.
// Returns whether both keys are equal.
struct tern_view_beside {
    struct tern_db_rows *rows;
    bool read; // *next has a row
    bool ended;
};
bool tern_view_step(struct tern_view_beside *beside, void *next, size_t key_size, uint64_t key);

// --- Renderers (render.c)

// Returns the present row as an object; NULL: no memory.
cJSON *tern_view_object(const struct tern_view_rows *rows);
// Reads all further rows: as an array of objects; as an object with an array for each column, in a tenth of the bytes. NULL:
// no memory. For short lists; tern_view_close() returns failures of reading.
cJSON *tern_view_array(struct tern_view_rows *rows);
cJSON *tern_view_arrays(struct tern_view_rows *rows);
// Writes all further rows, each as it is read: as an array of objects; as CSV (RFC 4180, lines end with \n), in which unknown
// values are empty.
TERN_MUST_USE enum tern_result tern_view_write_json(struct tern_view_rows *rows, FILE *out);
TERN_MUST_USE enum tern_result tern_view_write_csv(struct tern_view_rows *rows, FILE *out);
// For people: writes all further rows as an aligned table; the present row as a line for each column.
TERN_MUST_USE enum tern_result tern_view_write_table(struct tern_view_rows *rows, FILE *out);
TERN_MUST_USE enum tern_result tern_view_write_row(struct tern_view_rows *rows, FILE *out);
// Describes the columns of a view, as text and for the API.
void tern_view_write_help(const struct tern_view *view, FILE *out);
cJSON *tern_view_help(const struct tern_view *view);

#endif
