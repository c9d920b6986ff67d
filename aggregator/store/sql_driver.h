// What a database does for sql.c, as a table of operations. Only sql.c and the files of the databases
// include this; what operations with the names of sql.h mean stands there.
#ifndef TERN_STORE_SQL_DRIVER_H
#define TERN_STORE_SQL_DRIVER_H

#include "store/sql.h"

typedef enum tern_result (*tern_sql_filler)(struct tern_sql *sql, void *ctx);
typedef enum tern_result (*tern_sql_taker)(void *ctx, const uint8_t *data, size_t len);
typedef void (*tern_sql_hearer)(void *ctx, const char *message);
typedef enum tern_result (*tern_sql_viewer)(void *ctx, size_t at, size_t len, const uint8_t **data);

#define TERN_SQL_PIECE_BYTES 262144u // of values in pieces, at most

struct tern_sql_driver {
    struct tern_sql_dialect dialect;

    // Life
    enum tern_result (*create)(const char *path, tern_sql_filler fill, void *ctx, char why[256]);
    enum tern_result (*open)(const char *path, struct tern_sql **out, char why[256]);
    enum tern_result (*open_reading)(const char *path, struct tern_sql **out, char why[256]);
    enum tern_result (*open_again)(const char *path, struct tern_sql **out, char why[256]);
    enum tern_result (*open_hurried)(const char *path, struct tern_sql **out, char why[256]);
    enum tern_result (*take)(struct tern_sql *sql);
    void (*close)(struct tern_sql *sql); // its statements are finished
    const char *(*path)(const struct tern_sql *sql);
    enum tern_result (*hold)(struct tern_sql *sql);
    enum tern_result (*use)(struct tern_sql *sql, enum tern_sql_use use);
    bool (*is_damaged)(struct tern_sql *sql);
    enum tern_result (*version)(struct tern_sql *sql, int64_t *version);
    enum tern_result (*set_version)(struct tern_sql *sql, int version);
    enum tern_result (*backup)(struct tern_sql *sql, const char *path, char why[256]);
    enum tern_result (*settle)(struct tern_sql *sql);
    enum tern_result (*check)(struct tern_sql *sql);
    enum tern_result (*quick_check)(struct tern_sql *sql);
    void (*stop_when)(struct tern_sql *sql, const atomic_bool *stop);
    enum tern_result (*shrink)(struct tern_sql *sql, uint64_t bytes, bool *more);
    enum tern_result (*bytes)(struct tern_sql *sql, uint64_t *bytes);
    enum tern_result (*free_bytes)(struct tern_sql *sql, uint64_t *bytes);
    enum tern_result (*room)(struct tern_sql *sql, struct tern_db_room *room); // NULL: a server
    bool (*make_room)(struct tern_sql *sql);                                   // NULL: a server
    enum tern_result (*run)(struct tern_sql *sql, const char *text);

    // Between those that have it open; NULL: a database of one machine
    enum tern_result (*follow)(struct tern_sql *sql, bool follows);
    enum tern_result (*belong)(struct tern_sql *sql, uint32_t node);
    enum tern_result (*attend)(struct tern_sql *sql, uint32_t node);
    enum tern_result (*await)(struct tern_sql *sql, int wake, uint32_t ms, tern_sql_hearer hear,
                              void *ctx);
    enum tern_result (*begin_apart)(struct tern_sql *sql, bool durable); // likewise

    // Transactions. is_open: one is; may_commit: it has not been given up by the database itself
    enum tern_result (*begin)(struct tern_sql *sql);
    enum tern_result (*begin_reading)(struct tern_sql *sql);
    enum tern_result (*commit)(struct tern_sql *sql);
    void (*rollback)(struct tern_sql *sql);
    void (*recover)(
        struct tern_sql *sql); // called after a rollback, to remove its cause; NULL: nothing to do
    bool (*is_open)(const struct tern_sql *sql);
    bool (*may_commit)(const struct tern_sql *sql);
    bool (*changed_by_others)(struct tern_sql *sql);

    // Statements. is_busy: rows of it may be left to read; kept: it will be used again
    enum tern_result (*prepare)(struct tern_sql *sql, const char *text, bool kept, void **handle);
    bool (*is_busy)(void *handle);
    void (*reset)(struct tern_sql *sql, void *handle); // its rows and parameters are forgotten
    void (*finish)(struct tern_sql *sql, void *handle);
    // Parameters are counted from 1; text and data are borrowed until reset or finish.
    enum tern_result (*bind_integer)(struct tern_sql *sql, void *handle, int at, int64_t value);
    enum tern_result (*bind_real)(struct tern_sql *sql, void *handle, int at, double value);
    enum tern_result (*bind_text)(struct tern_sql *sql, void *handle, int at, const char *text,
                                  size_t len);
    enum tern_result (*bind_blob)(struct tern_sql *sql, void *handle, int at, const void *data,
                                  size_t len);
    enum tern_result (*step)(struct tern_sql *sql, void *handle, bool writes, bool *row);
    // As step does with a write, but it may come to pass later: by the next step, a commit or whatever else looks at the
    // database. `changes`: it has failed when no row was changed. What fails later dooms the transaction. NULL: step does it
    enum tern_result (*post)(struct tern_sql *sql, void *handle, bool changes);
    bool (*has_changed)(
        struct tern_sql *sql); // whether the last write changed a row, where it was none by post
    uint64_t (*last_id)(struct tern_sql *sql);
    // Columns are counted from 0; what they point at is valid until the next step.
    int64_t (*integer)(void *handle, int at);
    double (*real)(void *handle, int at);
    const char *(*text)(void *handle, int at, size_t *len); // NULL: there is none
    const void *(*blob)(void *handle, int at, size_t *len); // likewise, or no byte in it
    const char *(*column)(void *handle, int at);

    // Rows in bulk: bind_..() fills the next one. load_end() gives the handle up; whole: all rows are there
    enum tern_result (*load)(struct tern_sql *sql, const char *table, const char *columns,
                             int count, void **handle);
    enum tern_result (*load_row)(struct tern_sql *sql, void *handle);
    enum tern_result (*load_end)(struct tern_sql *sql, void *handle, bool whole);

    // Values in pieces
    enum tern_result (*stream)(struct tern_sql *sql, const char *table, const char *column,
                               uint64_t id, size_t size, tern_sql_taker take, void *ctx);
    enum tern_result (*piece)(struct tern_sql *sql, const char *table, const char *column,
                              uint64_t id, size_t size, size_t at, size_t len, uint8_t *dst);
    enum tern_result (*put_pieces)(struct tern_sql *sql, const char *table, const char *column,
                                   uint64_t id, size_t size, tern_sql_viewer view, void *ctx);
};

extern const struct tern_sql_driver tern_sqlite_driver;
extern const struct tern_sql_driver tern_postgres_driver; // of builds with TERN_POSTGRESQL

#define TERN_SQL_STATEMENTS 160 // that are kept

struct tern_sql_statement {
    const char *text; // its address is the key; NULL: used once, because the kept one was in use
    void *handle;
};

// What a driver's own struct begins with.
struct tern_sql {
    const struct tern_sql_driver *driver;
    struct tern_sql_statement kept[TERN_SQL_STATEMENTS];
    size_t kept_count;
    bool in_transaction;
    bool doomed;    // a write of this transaction failed: it must not be committed
    bool damaged;   // the database was found damaged
    bool displaced; // another service holds what this one held
    char error[256];
};

#endif
