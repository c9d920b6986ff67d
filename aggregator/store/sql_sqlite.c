// SQL by SQLite: one file, in WAL mode.
#include "store/sql.h"

#include "store/sql_file.h"
#include <limits.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUSY_TIMEOUT_MS 5000
#define STATEMENTS 160 // that are kept
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

_Static_assert(TERN_SQL_BLOB_MAX <= 1000000000u, "SQLite's own limit of one value");

const char *const tern_sql_types[TERN_SQL_TYPES] = {
    [TERN_SQL_ID] = "INTEGER PRIMARY KEY", [TERN_SQL_INTEGER] = "INTEGER NOT NULL",
    [TERN_SQL_REAL] = "REAL NOT NULL",     [TERN_SQL_TEXT] = "TEXT NOT NULL",
    [TERN_SQL_BLOB] = "BLOB NOT NULL",
};
const char *const tern_sql_options[2] = {"STRICT", "STRICT, WITHOUT ROWID"};

struct tern_sql_statement {
    const char *text; // its address is the key; NULL: used once, because the kept one was in use
    sqlite3_stmt *handle;
};

struct tern_sql {
    sqlite3 *handle;
    struct tern_sql_statement kept[STATEMENTS];
    size_t kept_count;
    bool in_transaction;
    bool doomed;  // a write of this transaction failed: it must not be committed
    bool damaged; // the file was found damaged
    bool suspect; // SQLite has said so, which it also does when the disk gives no answer
    int64_t data_version;
    char error[256];
};

// --- Failures

const char *tern_sql_error(const struct tern_sql *sql)
{
    return sql->error;
}

enum tern_result tern_sql_fail(struct tern_sql *sql, enum tern_result result, const char *sentence)
{
    snprintf(sql->error, sizeof sql->error, "%s", sentence);
    return result;
}

enum tern_result tern_sql_fail_damaged(struct tern_sql *sql, const char *where)
{
    sql->damaged = true;
    snprintf(sql->error, sizeof sql->error,
             "the database is damaged: %s; stop the service and restore a backup", where);
    return TERN_ERR_IO;
}

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
    return tern_sql_fail(sql, result, sqlite3_errmsg(sql->handle));
}

// Maps SQLite's code for what just failed.
static enum tern_result failed(struct tern_sql *sql, int code)
{
    const char *sentence = sqlite3_errmsg(sql->handle);
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        snprintf(sql->error, sizeof sql->error, "another process holds the database: %s", sentence);
        return TERN_ERR_BUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        sql->suspect = true;
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

enum tern_result tern_sql_run(struct tern_sql *sql, const char *text)
{
    int code = sqlite3_exec(sql->handle, text, NULL, NULL, NULL);
    return code == SQLITE_OK ? TERN_OK : failed(sql, code);
}

// The number that a statement which is run once returns, with at most one text as its parameter.
static enum tern_result run_for_number(struct tern_sql *sql, const char *text,
                                       const char *parameter, int64_t *number)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(sql->handle, text, -1, &statement, NULL);
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

// name: a path, or with SQLITE_OPEN_URI among the flags what SQLite takes for one. Where opening a file for
// writing fails, SQLite opens it for reading.
static struct tern_sql *connect(const char *name, int flags, char why[256])
{
    struct tern_sql *sql = calloc(1, sizeof *sql);
    if (sql == NULL) {
        snprintf(why, 256, "memory could not be had");
        return NULL;
    }
    if (sqlite3_open_v2(name, &sql->handle, flags | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
        snprintf(why, 256, "cannot open %s: %s", name, sqlite3_errmsg(sql->handle));
        tern_sql_close(sql);
        return NULL;
    }
    sqlite3_extended_result_codes(sql->handle, 1);
    sqlite3_busy_timeout(sql->handle, BUSY_TIMEOUT_MS);
    sqlite3_db_config(sql->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    return sql;
}

static bool is_only_read(const struct tern_sql *sql)
{
    return sqlite3_db_readonly(sql->handle, "main") != 0;
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

static enum tern_result
fill_new(struct tern_sql *sql, enum tern_result (*fill)(struct tern_sql *sql, void *ctx), void *ctx)
{
    char identity[128];
    snprintf(identity, sizeof identity,
             "PRAGMA page_size = %d; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA application_id = %d",
             PAGE_BYTES, TERN_SQL_FILE_ID);
    TERN_TRY(tern_sql_run(sql, identity));
    TERN_TRY(tern_sql_take(sql));
    TERN_TRY(tern_sql_begin(sql));
    enum tern_result result = fill(sql, ctx);
    if (result != TERN_OK) {
        tern_sql_rollback(sql);
        return result;
    }
    TERN_TRY(tern_sql_commit(sql));
    // Closing does this as well, and does not say when it fails.
    return tern_sql_run(sql, "PRAGMA wal_checkpoint(TRUNCATE)");
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

enum tern_result tern_sql_create(const char *path,
                                 enum tern_result (*fill)(struct tern_sql *sql, void *ctx),
                                 void *ctx, char why[256])
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

enum tern_result tern_sql_open_again(const char *path, struct tern_sql **out, char why[256])
{
    *out = connect_writing(path, why);
    return *out == NULL ? TERN_ERR_IO : TERN_OK;
}

enum tern_result tern_sql_open(const char *path, struct tern_sql **out, char why[256])
{
    TERN_TRY(tern_sql_file_check(path, why));
    return tern_sql_open_again(path, out, why);
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

enum tern_result tern_sql_open_reading(const char *path, struct tern_sql **out, char why[256])
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

// A copy made by tern_sql_backup() comes without a log; from here on it has one.
enum tern_result tern_sql_take(struct tern_sql *sql)
{
    TERN_TRY(tern_sql_run(sql, is_only_read(sql) ? SETTINGS_OF_READING : SETTINGS));
    return run_for_number(sql, "PRAGMA data_version", NULL, &sql->data_version);
}

void tern_sql_close(struct tern_sql *sql)
{
    if (sql == NULL) {
        return;
    }
    for (size_t i = 0; i < sql->kept_count; i++) {
        sqlite3_finalize(sql->kept[i].handle);
    }
    sqlite3_close(sql->handle); // an open transaction is rolled back
    free(sql);
}

const char *tern_sql_path(const struct tern_sql *sql)
{
    return sqlite3_db_filename(sql->handle, "main");
}

enum tern_result tern_sql_version(struct tern_sql *sql, int64_t *version)
{
    return run_for_number(sql, "PRAGMA user_version", NULL, version);
}

enum tern_result tern_sql_set_version(struct tern_sql *sql, int version)
{
    char pragma[64];
    snprintf(pragma, sizeof pragma, "PRAGMA user_version = %d", version);
    return tern_sql_run(sql, pragma);
}

enum tern_result tern_sql_bytes(struct tern_sql *sql, uint64_t *bytes)
{
    int64_t number = 0;
    TERN_TRY(run_for_number(
        sql, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", NULL,
        &number));
    *bytes = (uint64_t)number;
    return TERN_OK;
}

enum tern_result tern_sql_free_bytes(struct tern_sql *sql, uint64_t *bytes)
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
enum tern_result tern_sql_shrink(struct tern_sql *sql, uint64_t bytes, bool *more)
{
    int64_t before = 0;
    int64_t pages = 0;
    char pragma[64];
    snprintf(pragma, sizeof pragma, "PRAGMA incremental_vacuum(%llu)",
             (unsigned long long)(bytes / PAGE_BYTES + 1));
    TERN_TRY(free_pages(sql, &before));
    TERN_TRY(tern_sql_run(sql, pragma));
    TERN_TRY(free_pages(sql, &pages));
    *more = pages > 0 && pages < before; // a file made by other means may give nothing back
    return TERN_OK;
}

bool tern_sql_changed_by_others(struct tern_sql *sql)
{
    int64_t version = sql->data_version;
    // A reading that fails counts as a change: looking once more costs little, missing a revocation
    // much.
    struct tern_query query = tern_query_read(sql, "PRAGMA data_version");
    if (tern_query_row(&query)) {
        version = (int64_t)tern_query_u64(&query);
    }
    bool changed = tern_query_end(&query) != TERN_OK || version != sql->data_version;
    sql->data_version = version;
    return changed;
}

enum tern_result tern_sql_backup(struct tern_sql *sql, const char *path, char why[256])
{
    char temporary[PATH_MAX];
    int64_t nothing = 0;
    if (!sqlite3_get_autocommit(sql->handle)) {
        snprintf(why, 256, "a transaction is open");
        return TERN_ERR_STATE;
    }
    TERN_TRY(make_temporary(path, temporary, why));
    enum tern_result result = run_for_number(sql, "VACUUM INTO ?", temporary, &nothing);
    if (result != TERN_OK) {
        snprintf(why, 256, "cannot make %.80s: %.150s", path, sql->error);
        unlink(temporary);
        return result;
    }
    return tern_sql_file_publish(temporary, path, why);
}

enum tern_result tern_sql_settle(struct tern_sql *sql)
{
    TERN_TRY(tern_sql_run(sql, "PRAGMA journal_mode = DELETE"));
    return tern_sql_run(sql, "BEGIN EXCLUSIVE");
}

static enum tern_result check_by(struct tern_sql *sql, const char *pragma)
{
    struct tern_query query = tern_query_read(sql, pragma);
    if (!tern_query_row(&query)) {
        return tern_query_missing(&query);
    }
    char finding[160] = "";
    snprintf(finding, sizeof finding, "%s",
             (const char *)sqlite3_column_text(query.statement->handle, 0));
    if (strcmp(finding, "ok") != 0) {
        tern_query_damaged(&query, finding);
    }
    return tern_query_end(&query);
}

enum tern_result tern_sql_check(struct tern_sql *sql)
{
    return check_by(sql, "PRAGMA integrity_check(1)");
}

enum tern_result tern_sql_quick_check(struct tern_sql *sql)
{
    return check_by(sql, "PRAGMA quick_check(1)");
}

#define STEPS_BETWEEN_LOOKS 10000 // of SQLite's machine, some milliseconds

static int is_to_stop(void *stop)
{
    const atomic_bool *flag = stop;
    return atomic_load(flag) ? 1 : 0;
}

void tern_sql_stop_when(struct tern_sql *sql, const atomic_bool *stop)
{
    void *flag = NULL;
    memcpy(&flag, &stop, sizeof flag); // SQLite hands it back as it is
    sqlite3_progress_handler(sql->handle, STEPS_BETWEEN_LOOKS, is_to_stop, flag);
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
    sqlite3_file_control(sql->handle, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    sqlite3_file_control(sql->handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    const bool read = buffer != NULL && can_be_read(file, buffer) && can_be_read(log, buffer);
    free(buffer);
    return read;
}

// quick_check would not look into indexes, which may be what SQLite stumbled on.
static bool is_sound(struct tern_sql *sql)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(sql->handle, "PRAGMA integrity_check(1)", -1, &statement, NULL);
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
bool tern_sql_damaged(struct tern_sql *sql)
{
    if (sql->damaged || !sql->suspect) {
        return sql->damaged;
    }
    sql->suspect = false;
    if (is_sound(sql)) {
        tern_sql_fail(
            sql, TERN_ERR_IO,
            "the disk failed to read the database (I/O error), and can read it again; the "
            "file is sound");
    } else if (!all_can_be_read(sql)) {
        sql->suspect = true;
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

static enum tern_result begin_with(struct tern_sql *sql, const char *text)
{
    if (!sqlite3_get_autocommit(sql->handle)) {
        return tern_sql_fail(sql, TERN_ERR_STATE, "a transaction is open already");
    }
    struct tern_query query = tern_query_read(sql, text);
    return tern_query_run(&query);
}

enum tern_result tern_sql_begin(struct tern_sql *sql)
{
    TERN_TRY(begin_with(sql, "BEGIN IMMEDIATE"));
    sql->in_transaction = true;
    sql->doomed = false;
    return TERN_OK;
}

enum tern_result tern_sql_begin_reading(struct tern_sql *sql)
{
    return begin_with(sql, "BEGIN");
}

// After some failures SQLite has rolled back by itself; a commit would then report success for
// nothing, and what is written would stand alone.
bool tern_sql_may_commit(const struct tern_sql *sql)
{
    return sql->in_transaction && !sql->doomed && !sqlite3_get_autocommit(sql->handle);
}

enum tern_result tern_sql_commit(struct tern_sql *sql)
{
    if (!sql->in_transaction) {
        return tern_sql_fail(sql, TERN_ERR_STATE, "no transaction is open");
    }
    if (!tern_sql_may_commit(sql)) {
        tern_sql_rollback(sql);
        return TERN_ERR_IO;
    }
    struct tern_query query = tern_query_read(sql, "COMMIT");
    enum tern_result result = tern_query_run(&query);
    if (result != TERN_OK) {
        tern_sql_rollback(sql);
        return result;
    }
    sql->in_transaction = false;
    return TERN_OK;
}

void tern_sql_rollback(struct tern_sql *sql)
{
    if (!sqlite3_get_autocommit(sql->handle)) {
        sqlite3_exec(sql->handle, "ROLLBACK", NULL, NULL, NULL);
    }
    sql->in_transaction = false;
    sql->doomed = false;
}

// --- Statements

static int prepare(struct tern_sql *sql, const char *text, unsigned flags, sqlite3_stmt **handle)
{
    return sqlite3_prepare_v3(sql->handle, text, -1, flags, handle, NULL);
}

// The kept statement of this text, made when it is new. NULL and SQLITE_OK: it is in use (a visitor
// called the same operation again), or there is no room for another one.
static int take_kept(struct tern_sql *sql, const char *text, struct tern_sql_statement **statement)
{
    for (size_t i = 0; i < sql->kept_count; i++) {
        if (sql->kept[i].text == text) {
            *statement = sqlite3_stmt_busy(sql->kept[i].handle) ? NULL : &sql->kept[i];
            return SQLITE_OK;
        }
    }
    if (sql->kept_count == STATEMENTS) {
        return SQLITE_OK;
    }
    struct tern_sql_statement *made = &sql->kept[sql->kept_count];
    int code = prepare(sql, text, SQLITE_PREPARE_PERSISTENT, &made->handle);
    if (code == SQLITE_OK) {
        made->text = text;
        sql->kept_count++;
        *statement = made;
    }
    return code;
}

static int make_temporary_statement(struct tern_sql *sql, const char *text,
                                    struct tern_sql_statement **statement)
{
    struct tern_sql_statement *made = calloc(1, sizeof *made);
    int code = made == NULL ? SQLITE_NOMEM : prepare(sql, text, 0, &made->handle);
    if (code != SQLITE_OK) {
        free(made);
        return code;
    }
    *statement = made;
    return SQLITE_OK;
}

struct tern_query tern_query_read(struct tern_sql *sql, const char *text)
{
    struct tern_query query = {.sql = sql, .result = TERN_OK};
    int code = take_kept(sql, text, &query.statement);
    if (code == SQLITE_OK && query.statement == NULL) {
        code = make_temporary_statement(sql, text, &query.statement);
    }
    if (code != SQLITE_OK) {
        query.result = failed(sql, code);
    }
    return query;
}

struct tern_query tern_query_write(struct tern_sql *sql, const char *text)
{
    if (!sql->in_transaction) {
        return (struct tern_query){
            .sql = sql,
            .result = tern_sql_fail(sql, TERN_ERR_STATE, "a write outside a transaction")};
    }
    struct tern_query query = tern_query_read(sql, text);
    query.writes = true;
    return query;
}

// --- Parameters

static void refuse(struct tern_query *query, enum tern_result result, const char *sentence)
{
    query->result = tern_sql_fail(query->sql, result, sentence);
}

static void bound(struct tern_query *query, int code)
{
    if (code != SQLITE_OK) {
        query->result = failed(query->sql, code);
    }
}

void tern_query_bind(struct tern_query *query, uint64_t value)
{
    int at = ++query->next;
    if (query->result != TERN_OK) {
        return;
    }
    if (value > INT64_MAX) {
        refuse(query, TERN_ERR_ARGUMENT, "a number is above 2^63 - 1");
        return;
    }
    bound(query, sqlite3_bind_int64(query->statement->handle, at, (sqlite3_int64)value));
}

void tern_query_bind_bits(struct tern_query *query, uint64_t value)
{
    int at = ++query->next;
    if (query->result == TERN_OK) {
        bound(query, sqlite3_bind_int64(query->statement->handle, at, (sqlite3_int64)value));
    }
}

void tern_query_bind_real(struct tern_query *query, double value)
{
    int at = ++query->next;
    if (query->result != TERN_OK) {
        return;
    }
    if (!isfinite(value)) {
        refuse(query, TERN_ERR_NON_FINITE, "a number is not finite");
        return;
    }
    bound(query, sqlite3_bind_double(query->statement->handle, at, value));
}

void tern_query_bind_text(struct tern_query *query, const char *text, size_t size)
{
    int at = ++query->next;
    if (query->result != TERN_OK) {
        return;
    }
    size_t len = strnlen(text, size);
    if (len == size) {
        refuse(query, TERN_ERR_ARGUMENT, "a text is longer than its field");
        return;
    }
    bound(query, sqlite3_bind_text(query->statement->handle, at, text, (int)len, SQLITE_STATIC));
}

void tern_query_bind_blob(struct tern_query *query, const void *data, size_t len)
{
    int at = ++query->next;
    if (query->result != TERN_OK) {
        return;
    }
    if (len > TERN_SQL_BLOB_MAX) {
        refuse(query, TERN_ERR_TOO_LARGE, "more than 1,000,000,000 bytes in one value");
        return;
    }
    // A NULL pointer would be stored as NULL instead of as no bytes.
    const void *bytes = len == 0 ? "" : data;
    bound(query, sqlite3_bind_blob64(query->statement->handle, at, bytes, len, SQLITE_STATIC));
}

// --- Rows

bool tern_query_row(struct tern_query *query)
{
    if (query->result != TERN_OK) {
        return false;
    }
    query->next = 0;
    int code = sqlite3_step(query->statement->handle);
    if (code == SQLITE_ROW) {
        return true;
    }
    if (code != SQLITE_DONE) {
        query->result = failed(query->sql, code);
    }
    return false;
}

void tern_query_damaged(struct tern_query *query, const char *where)
{
    if (query->result != TERN_OK) {
        return;
    }
    query->result = tern_sql_fail_damaged(query->sql, where);
}

static void damaged_column(struct tern_query *query, int column)
{
    char where[128];
    snprintf(where, sizeof where, "%s holds a value that is out of range",
             sqlite3_column_name(query->statement->handle, column));
    tern_query_damaged(query, where);
}

uint64_t tern_query_number(struct tern_query *query, uint64_t most)
{
    int at = query->next++;
    if (query->result != TERN_OK) {
        return 0;
    }
    sqlite3_int64 value = sqlite3_column_int64(query->statement->handle, at);
    if (value < 0 || (uint64_t)value > most) {
        damaged_column(query, at);
        return 0;
    }
    return (uint64_t)value;
}

uint64_t tern_query_u64(struct tern_query *query)
{
    return tern_query_number(query, INT64_MAX);
}

uint64_t tern_query_bits(struct tern_query *query)
{
    int at = query->next++;
    return query->result != TERN_OK ? 0
                                    : (uint64_t)sqlite3_column_int64(query->statement->handle, at);
}

float tern_query_real(struct tern_query *query)
{
    int at = query->next++;
    if (query->result != TERN_OK) {
        return 0.0F;
    }
    float value = (float)sqlite3_column_double(query->statement->handle, at);
    if (!isfinite(value)) {
        damaged_column(query, at);
        return 0.0F;
    }
    return value;
}

void tern_query_text(struct tern_query *query, char *dst, size_t size)
{
    int at = query->next++;
    dst[0] = '\0';
    if (query->result != TERN_OK) {
        return;
    }
    const unsigned char *text = sqlite3_column_text(query->statement->handle, at);
    int len = sqlite3_column_bytes(query->statement->handle, at);
    if (text == NULL || len < 0 || (size_t)len >= size) {
        damaged_column(query, at);
        return;
    }
    memcpy(dst, text, (size_t)len);
    dst[len] = '\0';
}

const uint8_t *tern_query_blob(struct tern_query *query, size_t *len)
{
    int at = query->next++;
    *len = 0;
    if (query->result != TERN_OK) {
        return NULL;
    }
    const void *blob = sqlite3_column_blob(query->statement->handle, at);
    *len = (size_t)sqlite3_column_bytes(query->statement->handle, at);
    return blob;
}

void tern_query_hash(struct tern_query *query, uint8_t hash[TERN_SHA256_SIZE])
{
    int at = query->next;
    size_t len;
    const uint8_t *blob = tern_query_blob(query, &len);
    memset(hash, 0, TERN_SHA256_SIZE);
    if (query->result != TERN_OK) {
        return;
    }
    if (blob == NULL || len != TERN_SHA256_SIZE) {
        damaged_column(query, at);
        return;
    }
    memcpy(hash, blob, TERN_SHA256_SIZE);
}

// --- Values in pieces

#define PIECE_BYTES 262144u

typedef enum tern_result (*taker)(void *ctx, const uint8_t *data, size_t len);
typedef enum tern_result (*viewer)(void *ctx, size_t at, size_t len, const uint8_t **data);

static enum tern_result stream(struct tern_sql *sql, sqlite3_blob *blob, size_t size, taker take,
                               void *ctx)
{
    uint8_t *piece = malloc(PIECE_BYTES);
    enum tern_result result = piece == NULL ? TERN_ERR_NO_MEMORY : TERN_OK;
    for (size_t done = 0; done < size && result == TERN_OK;) {
        const size_t len = size - done < PIECE_BYTES ? size - done : PIECE_BYTES;
        const int code = sqlite3_blob_read(blob, piece, (int)len, (int)done);
        result = code == SQLITE_OK ? take(ctx, piece, len) : failed(sql, code);
        done += len;
    }
    free(piece);
    return result;
}

static enum tern_result open_value(struct tern_sql *sql, const char *table, const char *column,
                                   uint64_t id, size_t size, bool writes, sqlite3_blob **blob)
{
    const int code =
        sqlite3_blob_open(sql->handle, "main", table, column, (sqlite3_int64)id, writes, blob);
    if (code == SQLITE_ERROR) { // there is no such row
        return tern_sql_fail(sql, TERN_ERR_NOT_FOUND, sqlite3_errmsg(sql->handle));
    }
    if (code != SQLITE_OK) {
        return failed(sql, code);
    }
    return (size_t)sqlite3_blob_bytes(*blob) == size
               ? TERN_OK
               : tern_sql_fail_damaged(sql, "a value is longer or shorter than its row says");
}

enum tern_result tern_sql_stream(struct tern_sql *sql, const char *table, const char *column,
                                 uint64_t id, size_t size, taker take, void *ctx)
{
    sqlite3_blob *blob = NULL;
    enum tern_result result = open_value(sql, table, column, id, size, false, &blob);
    if (result == TERN_OK) {
        result = stream(sql, blob, size, take, ctx);
    }
    sqlite3_blob_close(blob);
    return result;
}

static enum tern_result fill(struct tern_sql *sql, sqlite3_blob *blob, size_t size, viewer view,
                             void *ctx)
{
    for (size_t done = 0; done < size;) {
        const size_t len = size - done < PIECE_BYTES ? size - done : PIECE_BYTES;
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

enum tern_result tern_sql_fill(struct tern_sql *sql, const char *table, const char *column,
                               uint64_t id, size_t size, viewer view, void *ctx)
{
    sqlite3_blob *blob = NULL;
    enum tern_result result = open_value(sql, table, column, id, size, true, &blob);
    if (result == TERN_OK) {
        result = fill(sql, blob, size, view, ctx);
    }
    sqlite3_blob_close(blob);
    sql->doomed = sql->doomed || result != TERN_OK; // the value is not what its row says
    return result;
}

// --- End

// Whether a write failed in a way that leaves the transaction without something it should hold.
static bool dooms(const struct tern_query *query)
{
    return query->writes && (query->result == TERN_ERR_IO || query->result == TERN_ERR_BUSY ||
                             query->result == TERN_ERR_NO_MEMORY);
}

enum tern_result tern_query_end(struct tern_query *query)
{
    struct tern_sql_statement *statement = query->statement;
    query->statement = NULL;
    if (dooms(query)) {
        query->sql->doomed = true;
    }
    if (statement != NULL && statement->text == NULL) {
        sqlite3_finalize(statement->handle);
        free(statement);
    } else if (statement != NULL) {
        sqlite3_reset(statement->handle);
        sqlite3_clear_bindings(statement->handle);
    }
    return query->result;
}

enum tern_result tern_query_missing(struct tern_query *query)
{
    enum tern_result result = tern_query_end(query);
    return result == TERN_OK ? TERN_ERR_NOT_FOUND : result;
}

enum tern_result tern_query_run(struct tern_query *query)
{
    while (tern_query_row(query)) {
    }
    return tern_query_end(query);
}

enum tern_result tern_query_run_one(struct tern_query *query)
{
    enum tern_result result = tern_query_run(query);
    if (result == TERN_OK && sqlite3_changes(query->sql->handle) == 0) {
        return TERN_ERR_NOT_FOUND;
    }
    return result;
}

uint64_t tern_sql_last_id(struct tern_sql *sql)
{
    return (uint64_t)sqlite3_last_insert_rowid(sql->handle);
}
