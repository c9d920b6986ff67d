// SQL by SQLite: one file, in WAL mode.
#include "store/sql_driver.h"
#include "store/sql_file.h"

#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUSY_TIMEOUT_MS 5000
#define PAGE_BYTES 8192

// Pages of the log after which SQLite moves them into the file: 64 MiB of 8 KiB pages. Each move
// costs two more syncs, so under load it must not come with every few commits.
#define SETTINGS                                                                                   \
    "PRAGMA journal_mode = WAL;"                                                                   \
    "PRAGMA synchronous = FULL;"                                                                   \
    "PRAGMA foreign_keys = ON;"                                                                    \
    "PRAGMA secure_delete = FAST;"                                                                 \
    "PRAGMA wal_autocheckpoint = 8192;"                                                            \
    "PRAGMA journal_size_limit = 67108864;" SETTINGS_OF_READING
#define SETTINGS_OF_READING                                                                        \
    "PRAGMA trusted_schema = OFF;"                                                                 \
    "PRAGMA cell_size_check = ON;"

struct sqlite {
    struct tern_sql base;
    sqlite3 *handle;
    bool
        suspect; // SQLite has said that it is damaged, which it also does when the disk gives no answer
    int64_t data_version;
};

static sqlite3 *handle_of(const struct tern_sql *sql)
{
    return ((const struct sqlite *)sql)->handle;
}

// --- Failures

// A broken constraint undoes its own statement only; the transaction may go on.
static enum tern_result broken_constraint(struct tern_sql *sql, int code)
{
    enum tern_result result = TERN_ERR_ARGUMENT;
    if (code == SQLITE_CONSTRAINT_UNIQUE || code == SQLITE_CONSTRAINT_PRIMARYKEY ||
        code == SQLITE_CONSTRAINT_ROWID) {
        result = TERN_ERR_CONFLICT;
    } else if (code == SQLITE_CONSTRAINT_FOREIGNKEY) {
        result = TERN_ERR_NOT_FOUND;
    }
    return tern_sql_fail(sql, result, sqlite3_errmsg(handle_of(sql)));
}

// Maps SQLite's code for what just failed.
static enum tern_result failed(struct tern_sql *sql, int code)
{
    const char *sentence = sqlite3_errmsg(handle_of(sql));
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        snprintf(sql->error, sizeof sql->error, "another process holds the database: %s", sentence);
        return TERN_ERR_BUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        ((struct sqlite *)sql)->suspect = true;
        snprintf(sql->error, sizeof sql->error,
                 "the disk did not give the database as it was stored, or the file is damaged: %s",
                 sentence);
        return TERN_ERR_IO;
    case SQLITE_CONSTRAINT:
        return broken_constraint(sql, code);
    case SQLITE_FULL:
        return tern_sql_fail(sql, TERN_ERR_IO, "the disk is full; nothing of this was stored");
    case SQLITE_NOMEM:
        return tern_sql_fail(sql, TERN_ERR_NO_MEMORY, "memory could not be had");
    default:
        snprintf(sql->error, sizeof sql->error, "SQLite: %s (%d)", sentence, code);
        return TERN_ERR_IO;
    }
}

static enum tern_result run(struct tern_sql *sql, const char *text)
{
    int code = sqlite3_exec(handle_of(sql), text, NULL, NULL, NULL);
    return code == SQLITE_OK ? TERN_OK : failed(sql, code);
}

// The number that a statement which is run once returns, with at most one text as its parameter.
static enum tern_result run_for_number(struct tern_sql *sql, const char *text,
                                       const char *parameter, int64_t *number)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(handle_of(sql), text, -1, &statement, NULL);
    if (code == SQLITE_OK && parameter != NULL) {
        code = sqlite3_bind_text(statement, 1, parameter, -1, SQLITE_STATIC);
    }
    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
    }
    if (code == SQLITE_ROW) {
        *number = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    return code == SQLITE_ROW || code == SQLITE_DONE ? TERN_OK : failed(sql, code);
}

// --- Life

static void close_connection(struct tern_sql *sql)
{
    sqlite3_close(handle_of(sql)); // an open transaction is rolled back
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
    sqlite3_busy_timeout(made->handle, BUSY_TIMEOUT_MS);
    sqlite3_db_config(made->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    return sql;
}

static bool is_only_read(const struct tern_sql *sql)
{
    return sqlite3_db_readonly(handle_of(sql), "main") != 0;
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
    TERN_TRY(run(sql, is_only_read(sql) ? SETTINGS_OF_READING : SETTINGS));
    return run_for_number(sql, "PRAGMA data_version", NULL, &((struct sqlite *)sql)->data_version);
}

static enum tern_result fill_new(struct tern_sql *sql, tern_sql_filler fill, void *ctx)
{
    char identity[128];
    snprintf(identity, sizeof identity,
             "PRAGMA page_size = %d; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA application_id = %d",
             PAGE_BYTES, TERN_SQL_FILE_ID);
    TERN_TRY(run(sql, identity));
    TERN_TRY(take(sql));
    TERN_TRY(tern_sql_begin(sql));
    enum tern_result result = fill(sql, ctx);
    if (result != TERN_OK) {
        tern_sql_rollback(sql);
        return result;
    }
    TERN_TRY(tern_sql_commit(sql));
    // Closing does this as well, and does not say when it fails.
    return run(sql, "PRAGMA wal_checkpoint(TRUNCATE)");
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
    return *out == NULL ? TERN_ERR_IO : TERN_OK;
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
    if (*out == NULL || !is_only_read(*out)) {
        return *out == NULL ? TERN_ERR_IO : TERN_OK;
    }
    tern_sql_close(*out);
    *out = NULL;
    return connect_reading(path, out, why);
}

static const char *path_of(const struct tern_sql *sql)
{
    return sqlite3_db_filename(handle_of(sql), "main");
}

// Services keep each other away by a lock in the state directory, which is where the file is.
static enum tern_result hold(struct tern_sql *sql)
{
    (void)sql;
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
    return run_for_number(sql, "PRAGMA user_version", NULL, number);
}

static enum tern_result set_version(struct tern_sql *sql, int number)
{
    char pragma[64];
    snprintf(pragma, sizeof pragma, "PRAGMA user_version = %d", number);
    return run(sql, pragma);
}

static enum tern_result count_bytes(struct tern_sql *sql, uint64_t *bytes)
{
    int64_t number = 0;
    TERN_TRY(run_for_number(
        sql, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", NULL,
        &number));
    *bytes = (uint64_t)number;
    return TERN_OK;
}

static enum tern_result count_free_bytes(struct tern_sql *sql, uint64_t *bytes)
{
    int64_t number = 0;
    TERN_TRY(run_for_number(
        sql, "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size", NULL,
        &number));
    *bytes = (uint64_t)number;
    return TERN_OK;
}

static enum tern_result free_pages(struct tern_sql *sql, int64_t *pages)
{
    return run_for_number(sql, "PRAGMA freelist_count", NULL, pages);
}

// One transaction, unless there is one.
static enum tern_result shrink(struct tern_sql *sql, uint64_t bytes, bool *more)
{
    int64_t before = 0;
    int64_t pages = 0;
    char pragma[64];
    snprintf(pragma, sizeof pragma, "PRAGMA incremental_vacuum(%llu)",
             (unsigned long long)(bytes / PAGE_BYTES + 1));
    TERN_TRY(free_pages(sql, &before));
    TERN_TRY(run(sql, pragma));
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
    enum tern_result result = run_for_number(sql, "VACUUM INTO ?", temporary, &nothing);
    if (result != TERN_OK) {
        snprintf(why, 256, "cannot make %.80s: %.150s", path, sql->error);
        unlink(temporary);
        return result;
    }
    return tern_sql_file_publish(temporary, path, why);
}

static enum tern_result settle(struct tern_sql *sql)
{
    TERN_TRY(run(sql, "PRAGMA journal_mode = DELETE"));
    return run(sql, "BEGIN EXCLUSIVE");
}

static enum tern_result check_by(struct tern_sql *sql, const char *pragma)
{
    struct tern_query query = tern_query_read(sql, pragma);
    if (!tern_query_row(&query)) {
        return tern_query_missing(&query);
    }
    char finding[160] = "";
    snprintf(finding, sizeof finding, "%s",
             (const char *)sqlite3_column_text((sqlite3_stmt *)query.statement->handle, 0));
    if (strcmp(finding, "ok") != 0) {
        tern_query_damaged(&query, finding);
    }
    return tern_query_end(&query);
}

static enum tern_result check(struct tern_sql *sql)
{
    return check_by(sql, "PRAGMA integrity_check(1)");
}

static enum tern_result quick_check(struct tern_sql *sql)
{
    return check_by(sql, "PRAGMA quick_check(1)");
}

#define STEPS_BETWEEN_LOOKS 10000 // of SQLite's machine, some milliseconds

static int is_to_stop(void *stop)
{
    const atomic_bool *flag = stop;
    return atomic_load(flag) ? 1 : 0;
}

static void stop_when(struct tern_sql *sql, const atomic_bool *stop)
{
    void *flag = NULL;
    memcpy(&flag, &stop, sizeof flag); // SQLite hands it back as it is
    sqlite3_progress_handler(handle_of(sql), STEPS_BETWEEN_LOOKS, is_to_stop, flag);
}

// --- Damage, or a disk that does not answer

#define LOOK_BYTES 65536

// Reads all of a file of the connection by its own handle: to open it once more, and close that, would
// drop SQLite's locks on it.
static bool can_be_read(sqlite3_file *file, uint8_t *buffer)
{
    sqlite3_int64 size = 0;
    if (file == NULL || file->pMethods == NULL) { // there is no log yet
        return true;
    }
    if (file->pMethods->xFileSize(file, &size) != SQLITE_OK) {
        return false;
    }
    for (sqlite3_int64 at = 0; at < size; at += LOOK_BYTES) {
        const int len = size - at < LOOK_BYTES ? (int)(size - at) : LOOK_BYTES;
        if (file->pMethods->xRead(file, buffer, len, at) != SQLITE_OK) {
            return false;
        }
    }
    return true;
}

static bool all_can_be_read(struct tern_sql *sql)
{
    sqlite3_file *file = NULL;
    sqlite3_file *log = NULL;
    uint8_t *buffer = malloc(LOOK_BYTES);
    sqlite3_file_control(handle_of(sql), "main", SQLITE_FCNTL_FILE_POINTER, &file);
    sqlite3_file_control(handle_of(sql), "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    const bool read = buffer != NULL && can_be_read(file, buffer) && can_be_read(log, buffer);
    free(buffer);
    return read;
}

// quick_check would not look into indexes, which may be what SQLite stumbled on.
static bool is_sound(struct tern_sql *sql)
{
    sqlite3_stmt *statement = NULL;
    int code =
        sqlite3_prepare_v2(handle_of(sql), "PRAGMA integrity_check(1)", -1, &statement, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
    }
    const bool sound =
        code == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(statement, 0), "ok") == 0;
    sqlite3_finalize(statement);
    return sound;
}

// SQLite answers SQLITE_CORRUPT to a read that fails by EIO, too. Damage is what is found although every
// byte can be read.
static bool is_damaged(struct tern_sql *sql)
{
    struct sqlite *lite = (struct sqlite *)sql;
    if (!lite->suspect) {
        return false;
    }
    lite->suspect = false;
    if (is_sound(sql)) {
        tern_sql_fail(
            sql, TERN_ERR_IO,
            "the disk failed to read the database (I/O error), and can read it again; the "
            "file is sound");
    } else if (!all_can_be_read(sql)) {
        lite->suspect = true;
        tern_sql_fail(
            sql, TERN_ERR_IO,
            "the disk cannot read the database (I/O error): nothing is lost, and work goes "
            "on once it can; see the kernel's log (dmesg)");
    } else if (!is_sound(sql)) {
        (void)tern_sql_fail_damaged(sql, "SQLite's check of it fails");
    }
    return sql->damaged;
}

// --- Transactions

static enum tern_result run_kept(struct tern_sql *sql, const char *text)
{
    struct tern_query query = tern_query_read(sql, text);
    return tern_query_run(&query);
}

static enum tern_result begin(struct tern_sql *sql)
{
    return run_kept(sql, "BEGIN IMMEDIATE");
}

static enum tern_result begin_reading(struct tern_sql *sql)
{
    return run_kept(sql, "BEGIN");
}

static enum tern_result commit(struct tern_sql *sql)
{
    return run_kept(sql, "COMMIT");
}

static void rollback(struct tern_sql *sql)
{
    sqlite3_exec(handle_of(sql), "ROLLBACK", NULL, NULL, NULL);
}

static bool is_open(const struct tern_sql *sql)
{
    return !sqlite3_get_autocommit(handle_of(sql));
}

// --- Statements

static enum tern_result checked(struct tern_sql *sql, int code)
{
    return code == SQLITE_OK ? TERN_OK : failed(sql, code);
}

static enum tern_result prepare(struct tern_sql *sql, const char *text, bool kept, void **handle)
{
    const unsigned flags = kept ? SQLITE_PREPARE_PERSISTENT : 0;
    sqlite3_stmt *statement = NULL;
    const int code = sqlite3_prepare_v3(handle_of(sql), text, -1, flags, &statement, NULL);
    *handle = statement;
    return checked(sql, code);
}

static bool is_busy(void *handle)
{
    return sqlite3_stmt_busy(handle);
}

static void reset(struct tern_sql *sql, void *handle)
{
    (void)sql;
    sqlite3_reset(handle);
    sqlite3_clear_bindings(handle);
}

static void finish(struct tern_sql *sql, void *handle)
{
    (void)sql;
    sqlite3_finalize(handle);
}

static enum tern_result bind_integer(struct tern_sql *sql, void *handle, int at, int64_t value)
{
    return checked(sql, sqlite3_bind_int64(handle, at, value));
}

static enum tern_result bind_real(struct tern_sql *sql, void *handle, int at, double value)
{
    return checked(sql, sqlite3_bind_double(handle, at, value));
}

static enum tern_result bind_text(struct tern_sql *sql, void *handle, int at, const char *text,
                                  size_t len)
{
    return checked(sql, sqlite3_bind_text(handle, at, text, (int)len, SQLITE_STATIC));
}

static enum tern_result bind_blob(struct tern_sql *sql, void *handle, int at, const void *data,
                                  size_t len)
{
    return checked(sql, sqlite3_bind_blob64(handle, at, data, len, SQLITE_STATIC));
}

static enum tern_result step(struct tern_sql *sql, void *handle, bool writes, bool *row)
{
    const int code = sqlite3_step(handle);
    (void)writes;
    *row = code == SQLITE_ROW;
    return *row || code == SQLITE_DONE ? TERN_OK : failed(sql, code);
}

static bool has_changed(struct tern_sql *sql)
{
    return sqlite3_changes(handle_of(sql)) != 0;
}

static uint64_t last_id(struct tern_sql *sql)
{
    return (uint64_t)sqlite3_last_insert_rowid(handle_of(sql));
}

static int64_t integer(void *handle, int at)
{
    return sqlite3_column_int64(handle, at);
}

static double real(void *handle, int at)
{
    return sqlite3_column_double(handle, at);
}

static const char *text_at(void *handle, int at, size_t *len)
{
    const unsigned char *text = sqlite3_column_text(handle, at);
    *len = (size_t)sqlite3_column_bytes(handle, at);
    return (const char *)text;
}

static const void *blob_at(void *handle, int at, size_t *len)
{
    const void *blob = sqlite3_column_blob(handle, at);
    *len = (size_t)sqlite3_column_bytes(handle, at);
    return blob;
}

static const char *column_at(void *handle, int at)
{
    return sqlite3_column_name(handle, at);
}

// --- Rows in bulk

#define LOAD_MAX 4096 // of the statement

static enum tern_result load(struct tern_sql *sql, const char *table, const char *columns,
                             int count, void **handle)
{
    char text[LOAD_MAX];
    int len = snprintf(text, sizeof text, "INSERT INTO %s (%s) VALUES (", table, columns);
    for (int i = 0; i < count && len < LOAD_MAX; i++) {
        len += snprintf(text + len, sizeof text - (size_t)len, i + 1 < count ? "?, " : "?)");
    }
    return prepare(sql, text, true, handle);
}

static enum tern_result load_row(struct tern_sql *sql, void *handle)
{
    bool row;
    TERN_TRY(step(sql, handle, true, &row));
    reset(sql, handle);
    return TERN_OK;
}

static enum tern_result load_end(struct tern_sql *sql, void *handle, bool whole)
{
    (void)whole;
    finish(sql, handle);
    return TERN_OK;
}

// --- Values in pieces

static enum tern_result take_pieces(struct tern_sql *sql, sqlite3_blob *blob, size_t size,
                                    tern_sql_taker take_piece, void *ctx)
{
    uint8_t *piece = malloc(TERN_SQL_PIECE_BYTES);
    enum tern_result result = piece == NULL ? TERN_ERR_NO_MEMORY : TERN_OK;
    for (size_t done = 0; done < size && result == TERN_OK;) {
        const size_t len = size - done < TERN_SQL_PIECE_BYTES ? size - done : TERN_SQL_PIECE_BYTES;
        const int code = sqlite3_blob_read(blob, piece, (int)len, (int)done);
        result = code == SQLITE_OK ? take_piece(ctx, piece, len) : failed(sql, code);
        done += len;
    }
    free(piece);
    return result;
}

static enum tern_result open_value(struct tern_sql *sql, const char *table, const char *column,
                                   uint64_t id, size_t size, bool writes, sqlite3_blob **blob)
{
    const int code =
        sqlite3_blob_open(handle_of(sql), "main", table, column, (sqlite3_int64)id, writes, blob);
    if (code == SQLITE_ERROR) { // there is no such row
        return tern_sql_fail(sql, TERN_ERR_NOT_FOUND, sqlite3_errmsg(handle_of(sql)));
    }
    if (code != SQLITE_OK) {
        return failed(sql, code);
    }
    return (size_t)sqlite3_blob_bytes(*blob) == size
               ? TERN_OK
               : tern_sql_fail_damaged(sql, "a value is longer or shorter than its row says");
}

static enum tern_result stream(struct tern_sql *sql, const char *table, const char *column,
                               uint64_t id, size_t size, tern_sql_taker take_piece, void *ctx)
{
    sqlite3_blob *blob = NULL;
    enum tern_result result = open_value(sql, table, column, id, size, false, &blob);
    if (result == TERN_OK) {
        result = take_pieces(sql, blob, size, take_piece, ctx);
    }
    sqlite3_blob_close(blob);
    return result;
}

static enum tern_result piece(struct tern_sql *sql, const char *table, const char *column,
                              uint64_t id, size_t size, size_t at, size_t len, uint8_t *dst)
{
    sqlite3_blob *blob = NULL;
    enum tern_result result = open_value(sql, table, column, id, size, false, &blob);
    if (result == TERN_OK) {
        result = checked(sql, sqlite3_blob_read(blob, dst, (int)len, (int)at));
    }
    sqlite3_blob_close(blob);
    return result;
}

static enum tern_result fill(struct tern_sql *sql, sqlite3_blob *blob, size_t size,
                             tern_sql_viewer view, void *ctx)
{
    for (size_t done = 0; done < size;) {
        const size_t len = size - done < TERN_SQL_PIECE_BYTES ? size - done : TERN_SQL_PIECE_BYTES;
        const uint8_t *piece = NULL;
        TERN_TRY(view(ctx, done, len, &piece));
        const int code = sqlite3_blob_write(blob, piece, (int)len, (int)done);
        if (code != SQLITE_OK) {
            return failed(sql, code);
        }
        done += len;
    }
    return TERN_OK;
}

// A row of so many zeros, which are then written over.
static enum tern_result add_zeros(struct tern_sql *sql, const char *table, const char *column,
                                  uint64_t id, size_t size)
{
    char text[160];
    sqlite3_stmt *statement = NULL;
    snprintf(text, sizeof text, "INSERT INTO %s (id, %s) VALUES (?, zeroblob(?))", table, column);
    int code = sqlite3_prepare_v2(handle_of(sql), text, -1, &statement, NULL);
    if (code == SQLITE_OK) {
        sqlite3_bind_int64(statement, 1, (sqlite3_int64)id);
        sqlite3_bind_int64(statement, 2, (sqlite3_int64)size);
        code = sqlite3_step(statement);
    }
    const enum tern_result result = code == SQLITE_DONE ? TERN_OK : failed(sql, code);
    sqlite3_finalize(statement);
    return result;
}

static enum tern_result put_pieces(struct tern_sql *sql, const char *table, const char *column,
                                   uint64_t id, size_t size, tern_sql_viewer view, void *ctx)
{
    sqlite3_blob *blob = NULL;
    TERN_TRY(add_zeros(sql, table, column, id, size));
    enum tern_result result = open_value(sql, table, column, id, size, true, &blob);
    if (result == TERN_OK) {
        result = fill(sql, blob, size, view, ctx);
    }
    sqlite3_blob_close(blob);
    return result;
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
    .take = take,
    .close = close_connection,
    .path = path_of,
    .hold = hold,
    .use = use,
    .is_damaged = is_damaged,
    .version = version,
    .set_version = set_version,
    .backup = backup,
    .settle = settle,
    .check = check,
    .quick_check = quick_check,
    .stop_when = stop_when,
    .shrink = shrink,
    .bytes = count_bytes,
    .free_bytes = count_free_bytes,
    .run = run,
    .begin = begin,
    .begin_reading = begin_reading,
    .commit = commit,
    .rollback = rollback,
    .is_open = is_open,
    .may_commit = is_open,
    .changed_by_others = changed_by_others,
    .prepare = prepare,
    .is_busy = is_busy,
    .reset = reset,
    .finish = finish,
    .bind_integer = bind_integer,
    .bind_real = bind_real,
    .bind_text = bind_text,
    .bind_blob = bind_blob,
    .step = step,
    .has_changed = has_changed,
    .last_id = last_id,
    .integer = integer,
    .real = real,
    .text = text_at,
    .blob = blob_at,
    .column = column_at,
    .load = load,
    .load_row = load_row,
    .load_end = load_end,
    .stream = stream,
    .piece = piece,
    .put_pieces = put_pieces,
};
