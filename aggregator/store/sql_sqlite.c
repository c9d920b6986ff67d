// SQL by SQLite: one file, in WAL mode.
#include "store/sql_sqlite.h"
#include "store/sql_file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SETTINGS                                                                                   \
    "PRAGMA journal_mode = WAL;"                                                                   \
    "PRAGMA synchronous = FULL;"                                                                   \
    "PRAGMA foreign_keys = ON;"                                                                    \
    "PRAGMA secure_delete = FAST;" SETTINGS_OF_READING
#define SETTINGS_OF_READING                                                                        \
    "PRAGMA trusted_schema = OFF;"                                                                 \
    "PRAGMA cell_size_check = ON;"

// --- Life

static void close_connection(struct tern_sql *sql)
{
    sqlite3_close(tern_sqlite_handle(sql)); // an open transaction is rolled back
    free(sql);
}

// name: a path, or with SQLITE_OPEN_URI among the flags what SQLite takes for one. Where opening a file for
// writing fails, SQLite opens it for reading.
static struct tern_sql *connect(const char *name, int flags, char why[256])
{
    struct sqlite *made = calloc(1, sizeof *made);
    if (made == NULL) {
        snprintf(why, 256, "memory could not be had");
        return NULL;
    }
    struct tern_sql *sql = &made->base;
    sql->driver = &tern_sqlite_driver;
    if (sqlite3_open_v2(name, &made->handle, flags | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
        snprintf(why, 256, "cannot open %s: %s", name, sqlite3_errmsg(made->handle));
        tern_sql_close(sql);
        return NULL;
    }
    sqlite3_extended_result_codes(made->handle, 1);
    sqlite3_busy_timeout(made->handle, TERN_SQLITE_BUSY_TIMEOUT_MS);
    sqlite3_db_config(made->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    return sql;
}

static bool is_only_read(const struct tern_sql *sql)
{
    return sqlite3_db_readonly(tern_sqlite_handle(sql), "main") != 0;
}

// NULL also where each write would fail.
static struct tern_sql *connect_writing(const char *path, char why[256])
{
    struct tern_sql *sql = connect(path, SQLITE_OPEN_READWRITE, why);
    if (sql != NULL && is_only_read(sql)) {
        snprintf(why, 256,
                 "%s can only be read; look at its owner and permissions, and at the disk", path);
        tern_sql_close(sql);
        return NULL;
    }
    return sql;
}

// A copy made by tern_sql_backup() comes without a log; from here on it has one.
static enum tern_result take(struct tern_sql *sql)
{
    const bool writes = !is_only_read(sql);
    TERN_TRY(tern_sqlite_run(sql, writes ? SETTINGS : SETTINGS_OF_READING));
    if (writes) {
        tern_sqlite_take_disk(sql);
    }
    return tern_sqlite_number(sql, "PRAGMA data_version", NULL,
                              &((struct sqlite *)sql)->data_version);
}

static enum tern_result fill_new(struct tern_sql *sql, tern_sql_filler fill, void *ctx)
{
    char identity[128];
    snprintf(identity, sizeof identity,
             "PRAGMA page_size = %d; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA application_id = %d",
             TERN_SQLITE_PAGE_BYTES, TERN_SQL_FILE_ID);
    TERN_TRY(tern_sqlite_run(sql, identity));
    TERN_TRY(take(sql));
    TERN_TRY(tern_sql_begin(sql));
    enum tern_result result = fill(sql, ctx);
    if (result != TERN_OK) {
        tern_sql_rollback(sql);
        return result;
    }
    TERN_TRY(tern_sql_commit(sql));
    // Closing does this as well, and does not say when it fails.
    return tern_sqlite_run(sql, "PRAGMA wal_checkpoint(TRUNCATE)");
}

// Makes an empty file beside `path`, where there is none yet.
static enum tern_result make_temporary(const char *path, char temporary[PATH_MAX], char why[256])
{
    int len = snprintf(temporary, PATH_MAX, "%s.new-%ld", path, (long)getpid());
    if (len < 0 || len >= PATH_MAX) {
        snprintf(why, 256, "the path of the database is too long");
        return TERN_ERR_ARGUMENT;
    }
    if (access(path, F_OK) == 0) {
        snprintf(why, 256, "%s is there already", path);
        return TERN_ERR_CONFLICT;
    }
    return tern_sql_file_make(temporary, why);
}

static enum tern_result create(const char *path, tern_sql_filler fill, void *ctx, char why[256])
{
    char temporary[PATH_MAX];
    TERN_TRY(make_temporary(path, temporary, why));
    struct tern_sql *sql = connect_writing(temporary, why);
    enum tern_result result = TERN_ERR_IO;
    if (sql != NULL) {
        result = fill_new(sql, fill, ctx);
        snprintf(why, 256, "%s", sql->error);
        tern_sql_close(sql); // the last connection removes the log
    }
    if (result != TERN_OK) {
        tern_sql_file_remove(temporary);
        return result;
    }
    return tern_sql_file_publish(temporary, path, why);
}

static enum tern_result open_again(const char *path, struct tern_sql **out, char why[256])
{
    *out = connect_writing(path, why);
    if (*out == NULL) {
        return TERN_ERR_IO;
    }
    (void)tern_sqlite_wake(*out); // the first read reports why not
    return TERN_OK;
}

static enum tern_result open_checked(const char *path, struct tern_sql **out, char why[256])
{
    TERN_TRY(tern_sql_file_check(path, why));
    return open_again(path, out, why);
}

// --- Where nothing can be written

#define URI_PREFIX "file:"
#define URI_SUFFIX "?immutable=1"
#define URI_MAX (sizeof URI_PREFIX + 3 * PATH_MAX + sizeof URI_SUFFIX)

// SQLite then makes no files beside this one, and takes no locks.
static struct tern_sql *connect_immutable(const char *path, char why[256])
{
    char uri[URI_MAX] = URI_PREFIX;
    size_t len = strlen(uri);
    if (strlen(path) >= PATH_MAX) {
        snprintf(why, 256, "the path is too long");
        return NULL;
    }
    for (const char *next = path; *next != '\0'; next++) {
        const char *as_it_is = strchr("%?#", *next) == NULL ? "%c" : "%%%02x";
        len += (size_t)snprintf(uri + len, URI_MAX - len, as_it_is, (unsigned char)*next);
    }
    snprintf(uri + len, URI_MAX - len, URI_SUFFIX);
    return connect(uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, why);
}

// A database with a log is read through its index of the log, which a service that runs keeps up to date.
// One without a log nobody has open.
static enum tern_result connect_reading(const char *path, struct tern_sql **out, char why[256])
{
    bool has_log;
    bool has_index;
    TERN_TRY(tern_sql_file_log(path, &has_log, &has_index, why));
    if (has_log && !has_index) {
        snprintf(why, 256,
                 "%.150s has a log, which is not read where no file can be made: copy both to "
                 "where one can",
                 path);
        return TERN_ERR_IO;
    }
    *out = has_log ? connect(path, SQLITE_OPEN_READONLY, why) : connect_immutable(path, why);
    return *out == NULL ? TERN_ERR_IO : TERN_OK;
}

static enum tern_result open_reading(const char *path, struct tern_sql **out, char why[256])
{
    TERN_TRY(tern_sql_file_check(path, why));
    *out = connect(path, SQLITE_OPEN_READWRITE, why);
    if (*out == NULL) {
        return TERN_ERR_IO;
    }
    if (!is_only_read(*out) && tern_sqlite_wake(*out)) {
        return TERN_OK;
    }
    tern_sql_close(*out);
    *out = NULL;
    return connect_reading(path, out, why);
}

static const char *path_of(const struct tern_sql *sql)
{
    return sqlite3_db_filename(tern_sqlite_handle(sql), "main");
}

// Services keep each other away by a lock in the state directory, which is where the file is.
static enum tern_result hold(struct tern_sql *sql)
{
    ((struct sqlite *)sql)->holds = true;
    tern_sqlite_make_reserve(sql, true);
    return TERN_OK;
}

// Likewise who changes its schema.
static enum tern_result use(struct tern_sql *sql, enum tern_sql_use how)
{
    (void)sql;
    (void)how;
    return TERN_OK;
}

static enum tern_result version(struct tern_sql *sql, int64_t *number)
{
    return tern_sqlite_number(sql, "PRAGMA user_version", NULL, number);
}

static enum tern_result set_version(struct tern_sql *sql, int number)
{
    char pragma[64];
    snprintf(pragma, sizeof pragma, "PRAGMA user_version = %d", number);
    return tern_sqlite_run(sql, pragma);
}

static enum tern_result count_bytes(struct tern_sql *sql, uint64_t *bytes)
{
    int64_t number = 0;
    TERN_TRY(tern_sqlite_number(
        sql, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", NULL,
        &number));
    *bytes = (uint64_t)number;
    return TERN_OK;
}

static enum tern_result free_pages(struct tern_sql *sql, int64_t *pages)
{
    return tern_sqlite_number(sql, "PRAGMA freelist_count", NULL, pages);
}

static enum tern_result count_free_bytes(struct tern_sql *sql, uint64_t *bytes)
{
    int64_t pages = 0;
    TERN_TRY(free_pages(sql, &pages));
    *bytes = (uint64_t)pages * TERN_SQLITE_PAGE_BYTES;
    return TERN_OK;
}

// One transaction, unless there is one.
static enum tern_result shrink(struct tern_sql *sql, uint64_t bytes, bool *more)
{
    int64_t before = 0;
    int64_t pages = 0;
    char pragma[64];
    snprintf(pragma, sizeof pragma, "PRAGMA incremental_vacuum(%llu)",
             (unsigned long long)(bytes / TERN_SQLITE_PAGE_BYTES + 1));
    TERN_TRY(free_pages(sql, &before));
    TERN_TRY(tern_sqlite_run(sql, pragma));
    TERN_TRY(free_pages(sql, &pages));
    *more = pages > 0 && pages < before; // a file made by other means may give nothing back
    return TERN_OK;
}

static bool changed_by_others(struct tern_sql *sql)
{
    struct sqlite *lite = (struct sqlite *)sql;
    int64_t number = lite->data_version;
    // A reading that fails counts as a change: looking once more costs little, missing a revocation
    // much.
    struct tern_query query = tern_query_read(sql, "PRAGMA data_version");
    if (tern_query_row(&query)) {
        number = (int64_t)tern_query_u64(&query);
    }
    bool changed = tern_query_end(&query) != TERN_OK || number != lite->data_version;
    lite->data_version = number;
    return changed;
}

static enum tern_result backup(struct tern_sql *sql, const char *path, char why[256])
{
    char temporary[PATH_MAX];
    int64_t nothing = 0;
    TERN_TRY(make_temporary(path, temporary, why));
    enum tern_result result = tern_sqlite_number(sql, "VACUUM INTO ?", temporary, &nothing);
    if (result != TERN_OK) {
        snprintf(why, 256, "cannot make %.80s: %.150s", path, sql->error);
        unlink(temporary);
        return result;
    }
    return tern_sql_file_publish(temporary, path, why);
}

static enum tern_result settle(struct tern_sql *sql)
{
    TERN_TRY(tern_sqlite_run(sql, "PRAGMA journal_mode = DELETE"));
    return tern_sqlite_run(sql, "BEGIN EXCLUSIVE");
}

// --- Transactions

static enum tern_result run_kept(struct tern_sql *sql, const char *text)
{
    struct tern_query query = tern_query_read(sql, text);
    return tern_query_run(&query);
}

static void rollback(struct tern_sql *sql)
{
    sqlite3_exec(tern_sqlite_handle(sql), "ROLLBACK", NULL, NULL, NULL);
}

static enum tern_result begin(struct tern_sql *sql)
{
    tern_sqlite_find_room(sql);
    TERN_TRY(run_kept(sql, "BEGIN IMMEDIATE"));
    const enum tern_result result = tern_sqlite_note_pages(sql);
    if (result != TERN_OK) {
        rollback(sql);
    }
    return result;
}

static enum tern_result begin_reading(struct tern_sql *sql)
{
    return run_kept(sql, "BEGIN");
}

static enum tern_result commit(struct tern_sql *sql)
{
    TERN_TRY(tern_sqlite_check_room(sql));
    TERN_TRY(run_kept(sql, "COMMIT"));
    tern_sqlite_tend_log(sql);
    return TERN_OK;
}

static bool is_open(const struct tern_sql *sql)
{
    return !sqlite3_get_autocommit(tern_sqlite_handle(sql));
}

// --- The driver

static void write_trigger(char *text, size_t size, const char *name, const char *event,
                          const char *statement)
{
    snprintf(text, size, "CREATE TRIGGER %s AFTER %s BEGIN %s; END", name, event, statement);
}

const struct tern_sql_driver tern_sqlite_driver = {
    .dialect = {.types = {[TERN_SQL_ID] = "INTEGER PRIMARY KEY",
                          [TERN_SQL_INTEGER] = "INTEGER NOT NULL",
                          [TERN_SQL_REAL] = "REAL NOT NULL",
                          [TERN_SQL_TEXT] = "TEXT NOT NULL",
                          [TERN_SQL_BLOB] = "BLOB NOT NULL"},
                .options = {"STRICT", "STRICT, WITHOUT ROWID"},
                .trigger = write_trigger},
    .create = create,
    .open = open_checked,
    .open_reading = open_reading,
    .open_again = open_again,
    .open_hurried = open_again,
    .take = take,
    .close = close_connection,
    .path = path_of,
    .hold = hold,
    .use = use,
    .is_damaged = tern_sqlite_is_damaged,
    .version = version,
    .set_version = set_version,
    .backup = backup,
    .settle = settle,
    .check = tern_sqlite_check,
    .quick_check = tern_sqlite_quick_check,
    .stop_when = tern_sqlite_stop_when,
    .shrink = shrink,
    .bytes = count_bytes,
    .free_bytes = count_free_bytes,
    .room = tern_sqlite_room,
    .make_room = tern_sqlite_make_room,
    .run = tern_sqlite_run,
    .begin = begin,
    .begin_reading = begin_reading,
    .commit = commit,
    .rollback = rollback,
    .recover = tern_sqlite_recover,
    .is_open = is_open,
    .may_commit = is_open,
    .changed_by_others = changed_by_others,
    .prepare = tern_sqlite_prepare,
    .is_busy = tern_sqlite_is_busy,
    .reset = tern_sqlite_reset,
    .finish = tern_sqlite_finish,
    .bind_integer = tern_sqlite_bind_integer,
    .bind_real = tern_sqlite_bind_real,
    .bind_text = tern_sqlite_bind_text,
    .bind_blob = tern_sqlite_bind_blob,
    .step = tern_sqlite_step,
    .has_changed = tern_sqlite_has_changed,
    .last_id = tern_sqlite_last_id,
    .integer = tern_sqlite_integer,
    .real = tern_sqlite_real,
    .text = tern_sqlite_text_at,
    .blob = tern_sqlite_blob_at,
    .column = tern_sqlite_column_at,
    .load = tern_sqlite_load,
    .load_row = tern_sqlite_load_row,
    .load_end = tern_sqlite_load_end,
    .stream = tern_sqlite_stream,
    .piece = tern_sqlite_piece,
    .put_pieces = tern_sqlite_put_pieces,
};
