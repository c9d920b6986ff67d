#include "helper/ledger.h"

#include "util/bytes.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUSY_TIMEOUT_MS 5000
#define APPLICATION_ID 0x54726e48 // SQLite's application_id: "TrnH"
#define SCHEMA_VERSION 1

struct tern_ledger {
    sqlite3 *handle;
    char why[200]; // message of the last failure
    bool erases;   // the transaction erases secrets
};

// The triggers protect against faulty statements. An operator can remove them, but a changed log then has other heads.
static const char schema[] =
    "CREATE TABLE helper(signing_key BLOB NOT NULL);"
    "CREATE TABLE federations(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,"
    " token_hash BLOB NOT NULL UNIQUE, identity BLOB);"
    "CREATE TABLE epochs(federation INTEGER NOT NULL, epoch INTEGER NOT NULL,"
    " begins_ms INTEGER NOT NULL, private_key BLOB NOT NULL, public_key BLOB NOT NULL,"
    " PRIMARY KEY(federation, epoch)) WITHOUT ROWID;"
    "CREATE TABLE codes(id INTEGER PRIMARY KEY, federation INTEGER NOT NULL,"
    " hash BLOB NOT NULL UNIQUE, uses_left INTEGER NOT NULL, expires_ms INTEGER NOT NULL,"
    " cancelled INTEGER NOT NULL, label TEXT NOT NULL);"
    "CREATE TABLE clients(federation INTEGER NOT NULL, client INTEGER NOT NULL,"
    " code INTEGER NOT NULL, admitted INTEGER NOT NULL, revoked INTEGER NOT NULL,"
    " PRIMARY KEY(federation, client)) WITHOUT ROWID;"
    "CREATE TABLE tickets(federation INTEGER NOT NULL, epoch INTEGER NOT NULL,"
    " client INTEGER NOT NULL, hash BLOB NOT NULL, secret BLOB NOT NULL,"
    " PRIMARY KEY(federation, epoch, client)) WITHOUT ROWID;"
    "CREATE TABLE answers(federation INTEGER NOT NULL, round INTEGER NOT NULL,"
    " entry INTEGER NOT NULL, descriptor BLOB NOT NULL, list_hash BLOB NOT NULL,"
    " replica BLOB NOT NULL, min_clients INTEGER NOT NULL, changed INTEGER NOT NULL,"
    " value_count INTEGER NOT NULL, sum_count INTEGER NOT NULL, clients BLOB NOT NULL,"
    " PRIMARY KEY(federation, round));"
    "CREATE TABLE released(federation INTEGER NOT NULL, round INTEGER NOT NULL,"
    " PRIMARY KEY(federation, round)) WITHOUT ROWID;"
    "CREATE INDEX answers_of_replica ON answers(federation, replica, entry);"
    "CREATE INDEX answers_in_order ON answers(federation, entry);"
    "CREATE TABLE log(number INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, fact TEXT NOT NULL,"
    " head BLOB NOT NULL);"
    "CREATE TRIGGER log_kept BEFORE DELETE ON log BEGIN"
    " SELECT RAISE(ABORT, 'entries of the log are never deleted'); END;"
    "CREATE TRIGGER log_unchanged BEFORE UPDATE ON log BEGIN"
    " SELECT RAISE(ABORT, 'entries of the log are never changed'); END;"
    "CREATE TRIGGER answers_kept BEFORE DELETE ON answers BEGIN"
    " SELECT RAISE(ABORT, 'answers are never deleted'); END;"
    "CREATE TRIGGER answers_unchanged BEFORE UPDATE ON answers BEGIN"
    " SELECT RAISE(ABORT, 'answers are never changed'); END;";

// --- Statements

// A parameter of a statement.
struct value {
    enum { NUMBER, BLOB, TEXT } type;
    int64_t number;
    const void *bytes;
    size_t len;
};

#define NUMBER_OF(value_) ((struct value){.type = NUMBER, .number = (int64_t)(value_)})
#define BLOB_OF(bytes_, len_) ((struct value){.type = BLOB, .bytes = (bytes_), .len = (len_)})
#define HASH_OF(hash_) BLOB_OF(hash_, TERN_SHA256_SIZE)
#define KEY_OF(key_) BLOB_OF(key_, TERN_LEDGER_KEY_SIZE)
#define TEXT_OF(text_) ((struct value){.type = TEXT, .bytes = (text_), .len = strlen(text_)})
#define VALUES(...)                                                                                \
    (const struct value[]){__VA_ARGS__},                                                           \
        sizeof((const struct value[]){__VA_ARGS__}) / sizeof(struct value)
#define NO_VALUES NULL, 0

static enum tern_result fail(struct tern_ledger *ledger)
{
    const int code = sqlite3_errcode(ledger->handle);
    snprintf(ledger->why, sizeof ledger->why, "%s", sqlite3_errmsg(ledger->handle));
    return code == SQLITE_BUSY         ? TERN_ERR_BUSY
           : code == SQLITE_NOMEM      ? TERN_ERR_NO_MEMORY
           : code == SQLITE_CONSTRAINT ? TERN_ERR_CONFLICT
                                       : TERN_ERR_IO;
}

static int bind(sqlite3_stmt *statement, int place, const struct value *value)
{
    switch (value->type) {
    case NUMBER:
        return sqlite3_bind_int64(statement, place, value->number);
    case BLOB:
        return sqlite3_bind_blob64(statement, place, value->bytes, value->len, SQLITE_STATIC);
    case TEXT:
        break;
    }
    return sqlite3_bind_text64(statement, place, value->bytes, value->len, SQLITE_STATIC,
                               SQLITE_UTF8);
}

// Prepares a statement and runs it to its first row. *statement: finalised unless the result is TERN_OK.
// TERN_ERR_NOT_FOUND  the statement has no row
static enum tern_result query(struct tern_ledger *ledger, sqlite3_stmt **statement, const char *sql,
                              const struct value *values, size_t count)
{
    int code = sqlite3_prepare_v2(ledger->handle, sql, -1, statement, NULL);
    for (size_t i = 0; code == SQLITE_OK && i < count; i++) {
        code = bind(*statement, (int)i + 1, &values[i]);
    }
    code = code == SQLITE_OK ? sqlite3_step(*statement) : code;
    if (code == SQLITE_ROW) {
        return TERN_OK;
    }
    const enum tern_result result = code == SQLITE_DONE ? TERN_ERR_NOT_FOUND : fail(ledger);
    sqlite3_finalize(*statement);
    return result;
}

// Runs a statement without rows.
static enum tern_result run(struct tern_ledger *ledger, const char *sql, const struct value *values,
                            size_t count)
{
    sqlite3_stmt *statement;
    const enum tern_result result = query(ledger, &statement, sql, values, count);
    if (result == TERN_OK) {
        sqlite3_finalize(statement);
    }
    return result == TERN_ERR_NOT_FOUND ? TERN_OK : result;
}

// Reads the one number of a query; `fallback` without a row or for NULL.
static enum tern_result read_number(struct tern_ledger *ledger, int64_t *number, int64_t fallback,
                                    const char *sql, const struct value *values, size_t count)
{
    sqlite3_stmt *statement;
    const enum tern_result result = query(ledger, &statement, sql, values, count);
    *number = fallback;
    if (result != TERN_OK) {
        return result == TERN_ERR_NOT_FOUND ? TERN_OK : result;
    }
    if (sqlite3_column_type(statement, 0) != SQLITE_NULL) {
        *number = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    return TERN_OK;
}

// Copies a column of `len` bytes. False: the column has another length, so the file is damaged.
static bool read_bytes(sqlite3_stmt *statement, int column, void *dst, size_t len)
{
    const void *bytes = sqlite3_column_blob(statement, column);
    if (bytes == NULL || (size_t)sqlite3_column_bytes(statement, column) != len) {
        return false;
    }
    memcpy(dst, bytes, len);
    return true;
}

static bool read_text(sqlite3_stmt *statement, int column, char *dst, size_t size)
{
    const unsigned char *text = sqlite3_column_text(statement, column);
    const size_t len = (size_t)sqlite3_column_bytes(statement, column);
    if (text == NULL || len >= size) {
        return false;
    }
    memcpy(dst, text, len);
    dst[len] = '\0';
    return true;
}

// Finalises a query after its row was read. is_valid: all columns had the right length.
static enum tern_result conclude(struct tern_ledger *ledger, sqlite3_stmt *statement, bool is_valid)
{
    sqlite3_finalize(statement);
    if (!is_valid) {
        snprintf(ledger->why, sizeof ledger->why,
                 "a row of the ledger has a value of the wrong length; restore a backup");
        return TERN_ERR_IO;
    }
    return TERN_OK;
}

// --- The file

static enum tern_result run_script(struct tern_ledger *ledger, const char *sql)
{
    return sqlite3_exec(ledger->handle, sql, NULL, NULL, NULL) == SQLITE_OK ? TERN_OK
                                                                            : fail(ledger);
}

// In WAL mode with synchronous = FULL, a commit returns after fsync(). secure_delete overwrites erased keys.
static enum tern_result configure(struct tern_ledger *ledger)
{
    sqlite3_busy_timeout(ledger->handle, BUSY_TIMEOUT_MS);
    return run_script(ledger, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                              "PRAGMA secure_delete = ON; PRAGMA trusted_schema = OFF");
}

static enum tern_result check_version(struct tern_ledger *ledger)
{
    int64_t application = 0;
    int64_t version = 0;
    TERN_TRY(read_number(ledger, &application, 0, "PRAGMA application_id", NO_VALUES));
    TERN_TRY(read_number(ledger, &version, 0, "PRAGMA user_version", NO_VALUES));
    if (application != APPLICATION_ID || version != SCHEMA_VERSION) {
        snprintf(ledger->why, sizeof ledger->why,
                 "this is no ledger of this version of tern-helper; the file was not changed");
        return TERN_ERR_IO;
    }
    return TERN_OK;
}

static enum tern_result open_file(const char *path, struct tern_ledger **out,
                                  char why[TERN_LEDGER_WHY_MAX])
{
    struct tern_ledger *ledger = calloc(1, sizeof *ledger);
    if (ledger == NULL) {
        snprintf(why, TERN_LEDGER_WHY_MAX, "memory is short");
        return TERN_ERR_NO_MEMORY;
    }
    if (sqlite3_open_v2(path, &ledger->handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK) {
        snprintf(why, TERN_LEDGER_WHY_MAX, "%s: %s", path, sqlite3_errmsg(ledger->handle));
        tern_ledger_close(ledger);
        return TERN_ERR_IO;
    }
    *out = ledger;
    return TERN_OK;
}

static enum tern_result fill_new(struct tern_ledger *ledger,
                                 const uint8_t signing_key[TERN_LEDGER_KEY_SIZE], uint64_t now_ms);

enum tern_result tern_ledger_create(const char *path,
                                    const uint8_t signing_key[TERN_LEDGER_KEY_SIZE],
                                    uint64_t now_ms, char why[TERN_LEDGER_WHY_MAX])
{
    struct tern_ledger *ledger = NULL;
    const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) {
        const bool exists = errno == EEXIST;
        snprintf(why, TERN_LEDGER_WHY_MAX, "%s: %s", path, strerror(errno));
        return exists ? TERN_ERR_CONFLICT : TERN_ERR_IO;
    }
    close(file);
    TERN_TRY(open_file(path, &ledger, why));
    const enum tern_result result = fill_new(ledger, signing_key, now_ms);
    if (result != TERN_OK) {
        snprintf(why, TERN_LEDGER_WHY_MAX, "%.300s: %s", path, ledger->why);
    }
    tern_ledger_close(ledger);
    if (result != TERN_OK) {
        unlink(path);
    }
    return result;
}

enum tern_result tern_ledger_open(const char *path, struct tern_ledger **out,
                                  char why[TERN_LEDGER_WHY_MAX])
{
    struct tern_ledger *ledger = NULL;
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        snprintf(why, TERN_LEDGER_WHY_MAX, "there is no %s; `tern-helper init` makes it", path);
        return TERN_ERR_NOT_FOUND;
    }
    TERN_TRY(open_file(path, &ledger, why));
    enum tern_result result = check_version(ledger);
    result = result == TERN_OK ? configure(ledger) : result;
    if (result != TERN_OK) {
        snprintf(why, TERN_LEDGER_WHY_MAX, "%.300s: %s", path, ledger->why);
        tern_ledger_close(ledger);
        return result;
    }
    *out = ledger;
    return TERN_OK;
}

void tern_ledger_close(struct tern_ledger *ledger)
{
    if (ledger != NULL) {
        sqlite3_close(ledger->handle);
        free(ledger);
    }
}

const char *tern_ledger_why(const struct tern_ledger *ledger)
{
    return ledger->why;
}

enum tern_result tern_ledger_begin(struct tern_ledger *ledger)
{
    return run_script(ledger, "BEGIN IMMEDIATE");
}

// After secrets were erased, copies of their pages are still in the log of SQLite, which a checkpoint empties. If another
// program reads the ledger, the log is emptied at the next erasure or at the end of the program.
enum tern_result tern_ledger_commit(struct tern_ledger *ledger)
{
    TERN_TRY(run_script(ledger, "COMMIT"));
    if (ledger->erases) {
        ledger->erases = false;
        sqlite3_exec(ledger->handle, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL);
    }
    return TERN_OK;
}

void tern_ledger_rollback(struct tern_ledger *ledger)
{
    if (sqlite3_get_autocommit(ledger->handle) == 0) {
        sqlite3_exec(ledger->handle, "ROLLBACK", NULL, NULL, NULL);
    }
}

int64_t tern_ledger_changes(struct tern_ledger *ledger)
{
    int64_t version = 0;
    return read_number(ledger, &version, 0, "PRAGMA data_version", NO_VALUES) == TERN_OK ? version
                                                                                         : -1;
}

enum tern_result tern_ledger_signing_key(struct tern_ledger *ledger,
                                         uint8_t signing_key[TERN_LEDGER_KEY_SIZE])
{
    sqlite3_stmt *statement;
    TERN_TRY(query(ledger, &statement, "SELECT signing_key FROM helper", NO_VALUES));
    return conclude(ledger, statement, read_bytes(statement, 0, signing_key, TERN_LEDGER_KEY_SIZE));
}

// --- The log

void tern_ledger_chain(const uint8_t before[TERN_SHA256_SIZE],
                       const struct tern_ledger_entry *entry, uint8_t head[TERN_SHA256_SIZE])
{
    static const char prefix[] = "tern helper log v1";
    uint8_t numbers[16];
    struct tern_sha256 hash;
    tern_put_le64(numbers, entry->number);
    tern_put_le64(numbers + 8, entry->at_ms);
    tern_sha256_init(&hash);
    tern_sha256_update(&hash, prefix, sizeof prefix - 1);
    tern_sha256_update(&hash, before, TERN_SHA256_SIZE);
    tern_sha256_update(&hash, numbers, sizeof numbers);
    tern_sha256_update(&hash, entry->fact, strlen(entry->fact));
    tern_sha256_final(&hash, head);
}

enum tern_result tern_ledger_log_head(struct tern_ledger *ledger, uint64_t *number,
                                      uint8_t head[TERN_SHA256_SIZE])
{
    sqlite3_stmt *statement;
    const enum tern_result result = query(
        ledger, &statement, "SELECT number, head FROM log ORDER BY number DESC LIMIT 1", NO_VALUES);
    *number = 0;
    memset(head, 0, TERN_SHA256_SIZE);
    if (result != TERN_OK) {
        return result == TERN_ERR_NOT_FOUND ? TERN_OK : result;
    }
    *number = (uint64_t)sqlite3_column_int64(statement, 0);
    return conclude(ledger, statement, read_bytes(statement, 1, head, TERN_SHA256_SIZE));
}

// Adds an entry. *number: its number, unless NULL.
__attribute__((format(printf, 4, 5))) static enum tern_result
add_entry(struct tern_ledger *ledger, uint64_t now_ms, uint64_t *number, const char *format, ...)
{
    struct tern_ledger_entry entry = {.at_ms = now_ms};
    uint8_t before[TERN_SHA256_SIZE];
    va_list values;
    va_start(values, format);
    vsnprintf(entry.fact, sizeof entry.fact, format, values);
    va_end(values);
    TERN_TRY(tern_ledger_log_head(ledger, &entry.number, before));
    entry.number++;
    tern_ledger_chain(before, &entry, entry.head);
    if (number != NULL) {
        *number = entry.number;
    }
    return run(ledger, "INSERT INTO log VALUES(?, ?, ?, ?)",
               VALUES(NUMBER_OF(entry.number), NUMBER_OF(entry.at_ms), TEXT_OF(entry.fact),
                      HASH_OF(entry.head)));
}

enum tern_result tern_ledger_next_entry(struct tern_ledger *ledger, uint64_t after,
                                        struct tern_ledger_entry *entry)
{
    sqlite3_stmt *statement;
    TERN_TRY(query(ledger, &statement,
                   "SELECT number, at_ms, fact, head FROM log WHERE number > ?"
                   " ORDER BY number LIMIT 1",
                   VALUES(NUMBER_OF(after))));
    entry->number = (uint64_t)sqlite3_column_int64(statement, 0);
    entry->at_ms = (uint64_t)sqlite3_column_int64(statement, 1);
    return conclude(ledger, statement,
                    read_text(statement, 2, entry->fact, sizeof entry->fact) &&
                        read_bytes(statement, 3, entry->head, TERN_SHA256_SIZE));
}

// Bytes of a hash in base64url, with the NUL.
#define HASH_TEXT (TERN_BASE64URL_LENGTH(TERN_SHA256_SIZE) + 1)

static const char *hash_text(const uint8_t hash[TERN_SHA256_SIZE], char text[HASH_TEXT])
{
    tern_base64url_encode(hash, TERN_SHA256_SIZE, text);
    return text;
}

// --- A new ledger

static enum tern_result fill_new(struct tern_ledger *ledger,
                                 const uint8_t signing_key[TERN_LEDGER_KEY_SIZE], uint64_t now_ms)
{
    char sql[80];
    snprintf(sql, sizeof sql, "PRAGMA application_id = %d; PRAGMA user_version = %d",
             APPLICATION_ID, SCHEMA_VERSION);
    TERN_TRY(configure(ledger));
    TERN_TRY(tern_ledger_begin(ledger));
    TERN_TRY(run_script(ledger, schema));
    TERN_TRY(run_script(ledger, sql));
    TERN_TRY(run(ledger, "INSERT INTO helper VALUES(?)", VALUES(KEY_OF(signing_key))));
    TERN_TRY(add_entry(ledger, now_ms, NULL, "init"));
    return tern_ledger_commit(ledger);
}

// --- Federations

#define FEDERATION_COLUMNS "SELECT id, name, token_hash, identity FROM federations "

static enum tern_result read_federation(struct tern_ledger *ledger, sqlite3_stmt *statement,
                                        struct tern_ledger_federation *federation)
{
    memset(federation, 0, sizeof *federation);
    federation->id = (uint32_t)sqlite3_column_int64(statement, 0);
    federation->has_identity = sqlite3_column_type(statement, 3) != SQLITE_NULL;
    return conclude(ledger, statement,
                    read_text(statement, 1, federation->name, sizeof federation->name) &&
                        read_bytes(statement, 2, federation->token_hash, TERN_SHA256_SIZE) &&
                        (!federation->has_identity ||
                         read_bytes(statement, 3, federation->identity, TERN_SHA256_SIZE)));
}

enum tern_result tern_ledger_add_federation(struct tern_ledger *ledger,
                                            struct tern_ledger_federation *federation,
                                            uint64_t now_ms)
{
    TERN_TRY(run(ledger, "INSERT INTO federations(name, token_hash) VALUES(?, ?)",
                 VALUES(TEXT_OF(federation->name), HASH_OF(federation->token_hash))));
    federation->id = (uint32_t)sqlite3_last_insert_rowid(ledger->handle);
    return add_entry(ledger, now_ms, NULL, "federation name=%s", federation->name);
}

enum tern_result tern_ledger_set_token(struct tern_ledger *ledger,
                                       const struct tern_ledger_federation *federation,
                                       const uint8_t token_hash[TERN_SHA256_SIZE], uint64_t now_ms)
{
    TERN_TRY(run(ledger, "UPDATE federations SET token_hash = ? WHERE id = ?",
                 VALUES(HASH_OF(token_hash), NUMBER_OF(federation->id))));
    return add_entry(ledger, now_ms, NULL, "token federation=%s", federation->name);
}

enum tern_result tern_ledger_set_identity(struct tern_ledger *ledger,
                                          struct tern_ledger_federation *federation,
                                          const uint8_t identity[TERN_SHA256_SIZE], uint64_t now_ms)
{
    char text[HASH_TEXT];
    TERN_TRY(run(ledger, "UPDATE federations SET identity = ? WHERE id = ? AND identity IS NULL",
                 VALUES(HASH_OF(identity), NUMBER_OF(federation->id))));
    federation->has_identity = true;
    memcpy(federation->identity, identity, TERN_SHA256_SIZE);
    return add_entry(ledger, now_ms, NULL, "identity federation=%s id=%s", federation->name,
                     hash_text(identity, text));
}

enum tern_result tern_ledger_next_federation(struct tern_ledger *ledger, uint32_t after,
                                             struct tern_ledger_federation *federation)
{
    sqlite3_stmt *statement;
    TERN_TRY(query(ledger, &statement, FEDERATION_COLUMNS "WHERE id > ? ORDER BY id LIMIT 1",
                   VALUES(NUMBER_OF(after))));
    return read_federation(ledger, statement, federation);
}

enum tern_result tern_ledger_federation_named(struct tern_ledger *ledger, const char *name,
                                              struct tern_ledger_federation *federation)
{
    sqlite3_stmt *statement;
    TERN_TRY(query(ledger, &statement, FEDERATION_COLUMNS "WHERE name = ?", VALUES(TEXT_OF(name))));
    return read_federation(ledger, statement, federation);
}

// --- Epochs

enum tern_result tern_ledger_newest_epoch(struct tern_ledger *ledger, uint32_t federation,
                                          struct tern_ledger_epoch *epoch)
{
    sqlite3_stmt *statement;
    TERN_TRY(query(ledger, &statement,
                   "SELECT epoch, begins_ms, private_key, public_key FROM epochs"
                   " WHERE federation = ? ORDER BY epoch DESC LIMIT 1",
                   VALUES(NUMBER_OF(federation))));
    epoch->epoch = (uint64_t)sqlite3_column_int64(statement, 0);
    epoch->begins_ms = (uint64_t)sqlite3_column_int64(statement, 1);
    return conclude(ledger, statement,
                    read_bytes(statement, 2, epoch->private_key, TERN_LEDGER_KEY_SIZE) &&
                        read_bytes(statement, 3, epoch->public_key, TERN_LEDGER_KEY_SIZE));
}

enum tern_result tern_ledger_oldest_epoch(struct tern_ledger *ledger, uint32_t federation,
                                          uint64_t *epoch)
{
    int64_t number;
    TERN_TRY(read_number(ledger, &number, 0, "SELECT min(epoch) FROM epochs WHERE federation = ?",
                         VALUES(NUMBER_OF(federation))));
    *epoch = (uint64_t)number;
    return number != 0 ? TERN_OK : TERN_ERR_NOT_FOUND;
}

// Keeps the epoch before the new one, too: a round may be open when the epoch changes.
enum tern_result tern_ledger_add_epoch(struct tern_ledger *ledger,
                                       const struct tern_ledger_federation *federation,
                                       const struct tern_ledger_epoch *epoch)
{
    char text[HASH_TEXT];
    int64_t before = 0;
    TERN_TRY(read_number(ledger, &before, 0, "SELECT max(epoch) FROM epochs WHERE federation = ?",
                         VALUES(NUMBER_OF(federation->id))));
    TERN_TRY(
        run(ledger, "INSERT INTO epochs VALUES(?, ?, ?, ?, ?)",
            VALUES(NUMBER_OF(federation->id), NUMBER_OF(epoch->epoch), NUMBER_OF(epoch->begins_ms),
                   KEY_OF(epoch->private_key), KEY_OF(epoch->public_key))));
    ledger->erases = true;
    TERN_TRY(run(ledger, "DELETE FROM epochs WHERE federation = ? AND epoch < ?",
                 VALUES(NUMBER_OF(federation->id), NUMBER_OF(before))));
    TERN_TRY(run(ledger, "DELETE FROM tickets WHERE federation = ? AND epoch < ?",
                 VALUES(NUMBER_OF(federation->id), NUMBER_OF(before))));
    return add_entry(ledger, epoch->begins_ms, NULL, "epoch federation=%s epoch=%" PRIu64 " key=%s",
                     federation->name, epoch->epoch, hash_text(epoch->public_key, text));
}

// --- Join codes

#define CODE_COLUMNS                                                                               \
    "SELECT id, federation, hash, uses_left, expires_ms, cancelled, label FROM codes "

static enum tern_result read_code(struct tern_ledger *ledger, sqlite3_stmt *statement,
                                  struct tern_ledger_code *code)
{
    code->id = (uint32_t)sqlite3_column_int64(statement, 0);
    code->federation = (uint32_t)sqlite3_column_int64(statement, 1);
    code->uses_left = (uint32_t)sqlite3_column_int64(statement, 3);
    code->expires_ms = (uint64_t)sqlite3_column_int64(statement, 4);
    code->cancelled = sqlite3_column_int64(statement, 5) != 0;
    return conclude(ledger, statement,
                    read_bytes(statement, 2, code->hash, TERN_SHA256_SIZE) &&
                        read_text(statement, 6, code->label, sizeof code->label));
}

enum tern_result tern_ledger_add_code(struct tern_ledger *ledger,
                                      const struct tern_ledger_federation *federation,
                                      struct tern_ledger_code *code, uint64_t now_ms)
{
    TERN_TRY(run(ledger,
                 "INSERT INTO codes(federation, hash, uses_left, expires_ms, cancelled, label)"
                 " VALUES(?, ?, ?, ?, 0, ?)",
                 VALUES(NUMBER_OF(federation->id), HASH_OF(code->hash), NUMBER_OF(code->uses_left),
                        NUMBER_OF(code->expires_ms), TEXT_OF(code->label))));
    code->id = (uint32_t)sqlite3_last_insert_rowid(ledger->handle);
    code->federation = federation->id;
    return add_entry(ledger, now_ms, NULL, "code federation=%s code=%" PRIu32 " uses=%" PRIu32,
                     federation->name, code->id, code->uses_left);
}

enum tern_result tern_ledger_code(struct tern_ledger *ledger, const uint8_t hash[TERN_SHA256_SIZE],
                                  struct tern_ledger_code *code)
{
    sqlite3_stmt *statement;
    TERN_TRY(query(ledger, &statement, CODE_COLUMNS "WHERE hash = ?", VALUES(HASH_OF(hash))));
    return read_code(ledger, statement, code);
}

enum tern_result tern_ledger_next_code(struct tern_ledger *ledger, uint32_t federation,
                                       uint32_t after, struct tern_ledger_code *code)
{
    sqlite3_stmt *statement;
    TERN_TRY(query(ledger, &statement,
                   CODE_COLUMNS "WHERE federation = ? AND id > ? ORDER BY id LIMIT 1",
                   VALUES(NUMBER_OF(federation), NUMBER_OF(after))));
    return read_code(ledger, statement, code);
}

enum tern_result tern_ledger_cancel_code(struct tern_ledger *ledger,
                                         const struct tern_ledger_federation *federation,
                                         uint32_t code, uint64_t now_ms, uint32_t *clients)
{
    TERN_TRY(run(ledger, "UPDATE codes SET cancelled = 1 WHERE federation = ? AND id = ?",
                 VALUES(NUMBER_OF(federation->id), NUMBER_OF(code))));
    if (sqlite3_changes(ledger->handle) == 0) {
        return TERN_ERR_NOT_FOUND;
    }
    TERN_TRY(run(ledger,
                 "UPDATE clients SET revoked = 1 WHERE federation = ? AND code = ? AND revoked = 0",
                 VALUES(NUMBER_OF(federation->id), NUMBER_OF(code))));
    *clients = (uint32_t)sqlite3_changes(ledger->handle);
    return add_entry(ledger, now_ms, NULL, "cancel federation=%s code=%" PRIu32 " revoked=%" PRIu32,
                     federation->name, code, *clients);
}

// --- Clients and tickets

enum tern_result tern_ledger_client(struct tern_ledger *ledger, uint32_t federation,
                                    uint64_t client, struct tern_ledger_client *out)
{
    sqlite3_stmt *statement;
    TERN_TRY(query(ledger, &statement,
                   "SELECT code, admitted, revoked, at_ms FROM clients"
                   " JOIN log ON number = admitted WHERE federation = ? AND client = ?",
                   VALUES(NUMBER_OF(federation), NUMBER_OF(client))));
    out->client = client;
    out->code = (uint32_t)sqlite3_column_int64(statement, 0);
    out->admitted = (uint64_t)sqlite3_column_int64(statement, 1);
    out->revoked = sqlite3_column_int64(statement, 2) != 0;
    out->admitted_ms = (uint64_t)sqlite3_column_int64(statement, 3);
    return conclude(ledger, statement, true);
}

enum tern_result tern_ledger_ticket(struct tern_ledger *ledger, uint32_t federation, uint64_t epoch,
                                    uint64_t client, struct tern_ledger_ticket *ticket)
{
    sqlite3_stmt *statement;
    TERN_TRY(query(ledger, &statement,
                   "SELECT hash, secret FROM tickets"
                   " WHERE federation = ? AND epoch = ? AND client = ?",
                   VALUES(NUMBER_OF(federation), NUMBER_OF(epoch), NUMBER_OF(client))));
    ticket->client = client;
    ticket->epoch = epoch;
    return conclude(ledger, statement,
                    read_bytes(statement, 0, ticket->hash, TERN_SHA256_SIZE) &&
                        read_bytes(statement, 1, ticket->secret, TERN_LEDGER_KEY_SIZE));
}

// Stores the client and takes a use of the code, unless the client was admitted by this code before.
static enum tern_result admit_client(struct tern_ledger *ledger, uint32_t federation,
                                     const struct tern_ledger_code *code, uint64_t client,
                                     uint64_t entry)
{
    struct tern_ledger_client known;
    const enum tern_result found = tern_ledger_client(ledger, federation, client, &known);
    if (found == TERN_OK && !known.revoked && known.code == code->id) {
        return TERN_OK;
    }
    if (found != TERN_OK && found != TERN_ERR_NOT_FOUND) {
        return found;
    }
    TERN_TRY(run(
        ledger, "INSERT OR REPLACE INTO clients VALUES(?, ?, ?, ?, 0)",
        VALUES(NUMBER_OF(federation), NUMBER_OF(client), NUMBER_OF(code->id), NUMBER_OF(entry))));
    return run(ledger, "UPDATE codes SET uses_left = uses_left - 1 WHERE id = ? AND uses_left > 0",
               VALUES(NUMBER_OF(code->id)));
}

enum tern_result tern_ledger_admit(struct tern_ledger *ledger,
                                   const struct tern_ledger_federation *federation,
                                   const struct tern_ledger_code *code,
                                   const struct tern_ledger_ticket *ticket, uint64_t now_ms)
{
    char text[HASH_TEXT];
    uint64_t entry;
    TERN_TRY(add_entry(
        ledger, now_ms, &entry,
        "ticket federation=%s epoch=%" PRIu64 " client=%" PRIu64 " code=%" PRIu32 " sha256=%s",
        federation->name, ticket->epoch, ticket->client, code->id, hash_text(ticket->hash, text)));
    TERN_TRY(admit_client(ledger, federation->id, code, ticket->client, entry));
    return run(ledger, "INSERT OR REPLACE INTO tickets VALUES(?, ?, ?, ?, ?)",
               VALUES(NUMBER_OF(federation->id), NUMBER_OF(ticket->epoch),
                      NUMBER_OF(ticket->client), HASH_OF(ticket->hash), KEY_OF(ticket->secret)));
}

enum tern_result tern_ledger_revoke(struct tern_ledger *ledger,
                                    const struct tern_ledger_federation *federation,
                                    uint64_t client, uint64_t now_ms)
{
    TERN_TRY(run(ledger, "UPDATE clients SET revoked = 1 WHERE federation = ? AND client = ?",
                 VALUES(NUMBER_OF(federation->id), NUMBER_OF(client))));
    if (sqlite3_changes(ledger->handle) == 0) {
        return TERN_ERR_NOT_FOUND;
    }
    return add_entry(ledger, now_ms, NULL, "revoke federation=%s client=%" PRIu64, federation->name,
                     client);
}

// --- Answered lists

#define ANSWER_COLUMNS                                                                             \
    "SELECT round, entry, descriptor, list_hash, replica, min_clients, changed, value_count, "     \
    "sum_count, clients"                                                                           \
    " FROM answers WHERE federation = ? "
#define CLIENT_BYTES 8 // bytes of a client's id in a stored list

void tern_ledger_answer_free(struct tern_ledger_answer *answer)
{
    free(answer->clients);
    answer->clients = NULL;
}

static bool read_clients(sqlite3_stmt *statement, int column, struct tern_ledger_answer *answer)
{
    const uint8_t *bytes = sqlite3_column_blob(statement, column);
    const size_t len = (size_t)sqlite3_column_bytes(statement, column);
    if (bytes == NULL || len % CLIENT_BYTES != 0) {
        return false;
    }
    answer->count = (uint32_t)(len / CLIENT_BYTES);
    answer->clients = malloc(len);
    for (uint32_t i = 0; answer->clients != NULL && i < answer->count; i++) {
        answer->clients[i] = tern_get_le64(bytes + (size_t)i * CLIENT_BYTES);
    }
    return answer->clients != NULL;
}

static enum tern_result read_answer(struct tern_ledger *ledger, sqlite3_stmt *statement,
                                    struct tern_ledger_answer *answer)
{
    memset(answer, 0, sizeof *answer);
    answer->round = (uint32_t)sqlite3_column_int64(statement, 0);
    answer->entry = (uint64_t)sqlite3_column_int64(statement, 1);
    answer->min_clients = (uint32_t)sqlite3_column_int64(statement, 5);
    answer->changed = (uint32_t)sqlite3_column_int64(statement, 6);
    answer->values = (uint32_t)sqlite3_column_int64(statement, 7);
    answer->sums = (uint32_t)sqlite3_column_int64(statement, 8);
    return conclude(ledger, statement,
                    read_bytes(statement, 2, answer->descriptor, TERN_SHA256_SIZE) &&
                        read_bytes(statement, 3, answer->list_hash, TERN_SHA256_SIZE) &&
                        read_bytes(statement, 4, answer->replica, TERN_SHA256_SIZE) &&
                        read_clients(statement, 9, answer));
}

enum tern_result tern_ledger_answer(struct tern_ledger *ledger, uint32_t federation, uint32_t round,
                                    struct tern_ledger_answer *answer)
{
    sqlite3_stmt *statement;
    TERN_TRY(query(ledger, &statement, ANSWER_COLUMNS "AND round = ?",
                   VALUES(NUMBER_OF(federation), NUMBER_OF(round))));
    return read_answer(ledger, statement, answer);
}

enum tern_result tern_ledger_newest_answer(struct tern_ledger *ledger, uint32_t federation,
                                           struct tern_ledger_answer *answer)
{
    sqlite3_stmt *statement;
    TERN_TRY(query(ledger, &statement, ANSWER_COLUMNS "ORDER BY entry DESC LIMIT 1",
                   VALUES(NUMBER_OF(federation))));
    return read_answer(ledger, statement, answer);
}

enum tern_result tern_ledger_next_answer(struct tern_ledger *ledger, uint32_t federation,
                                         uint64_t since_ms, uint64_t after,
                                         struct tern_ledger_answer *answer)
{
    sqlite3_stmt *statement;
    TERN_TRY(query(ledger, &statement,
                   ANSWER_COLUMNS "AND entry > ? AND (SELECT at_ms FROM log WHERE number = entry)"
                                  " >= ? ORDER BY entry LIMIT 1",
                   VALUES(NUMBER_OF(federation), NUMBER_OF(after), NUMBER_OF(since_ms))));
    return read_answer(ledger, statement, answer);
}

enum tern_result tern_ledger_next_of_replica(struct tern_ledger *ledger, uint32_t federation,
                                             const uint8_t replica[TERN_SHA256_SIZE],
                                             uint64_t after, struct tern_ledger_answer *answer)
{
    sqlite3_stmt *statement;
    TERN_TRY(query(ledger, &statement,
                   ANSWER_COLUMNS "AND replica = ? AND entry > ? AND NOT EXISTS (SELECT 1 FROM"
                                  " released WHERE released.federation = answers.federation"
                                  " AND released.round = answers.round) ORDER BY entry LIMIT 1",
                   VALUES(NUMBER_OF(federation), HASH_OF(replica), NUMBER_OF(after))));
    return read_answer(ledger, statement, answer);
}

enum tern_result tern_ledger_release(struct tern_ledger *ledger,
                                     const struct tern_ledger_federation *federation,
                                     uint32_t round, uint64_t now_ms)
{
    struct tern_ledger_answer answer = {.round = 0};
    TERN_TRY(tern_ledger_answer(ledger, federation->id, round, &answer));
    tern_ledger_answer_free(&answer);
    TERN_TRY(add_entry(ledger, now_ms, NULL, "release federation=%s round=%" PRIu32,
                       federation->name, round));
    return run(ledger, "INSERT OR IGNORE INTO released VALUES(?, ?)",
               VALUES(NUMBER_OF(federation->id), NUMBER_OF(round)));
}

static enum tern_result insert_answer(struct tern_ledger *ledger, uint32_t federation,
                                      const struct tern_ledger_answer *answer)
{
    const size_t len = (size_t)answer->count * CLIENT_BYTES;
    uint8_t *bytes = malloc(len);
    if (bytes == NULL) {
        snprintf(ledger->why, sizeof ledger->why, "memory is short");
        return TERN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < answer->count; i++) {
        tern_put_le64(bytes + (size_t)i * CLIENT_BYTES, answer->clients[i]);
    }
    const enum tern_result result = run(
        ledger, "INSERT INTO answers VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        VALUES(NUMBER_OF(federation), NUMBER_OF(answer->round), NUMBER_OF(answer->entry),
               HASH_OF(answer->descriptor), HASH_OF(answer->list_hash), HASH_OF(answer->replica),
               NUMBER_OF(answer->min_clients), NUMBER_OF(answer->changed),
               NUMBER_OF(answer->values), NUMBER_OF(answer->sums), BLOB_OF(bytes, len)));
    free(bytes);
    return result;
}

enum tern_result tern_ledger_add_answer(struct tern_ledger *ledger,
                                        const struct tern_ledger_federation *federation,
                                        struct tern_ledger_answer *answer, uint64_t now_ms)
{
    char descriptor[HASH_TEXT];
    char list[HASH_TEXT];
    TERN_TRY(add_entry(ledger, now_ms, &answer->entry,
                       "sum federation=%s round=%" PRIu32 " clients=%" PRIu32 " changed=%" PRIu32
                       " descriptor=%s list=%s",
                       federation->name, answer->round, answer->count, answer->changed,
                       hash_text(answer->descriptor, descriptor),
                       hash_text(answer->list_hash, list)));
    return insert_answer(ledger, federation->id, answer);
}

// --- Figures

enum tern_result tern_ledger_figures(struct tern_ledger *ledger, uint32_t federation,
                                     struct tern_ledger_figures *figures)
{
    static const struct {
        const char *sql;
        size_t offset;
    } counts[] = {
        {"SELECT count(*) FROM clients WHERE federation = ? AND revoked = 0",
         offsetof(struct tern_ledger_figures, clients)},
        {"SELECT count(*) FROM clients WHERE federation = ? AND revoked = 1",
         offsetof(struct tern_ledger_figures, revoked)},
        {"SELECT count(*) FROM tickets WHERE federation = ?1 AND"
         " epoch = (SELECT max(epoch) FROM epochs WHERE federation = ?1)",
         offsetof(struct tern_ledger_figures, tickets)},
        {"SELECT count(*) FROM answers WHERE federation = ?",
         offsetof(struct tern_ledger_figures, answers)},
        {"SELECT round FROM answers WHERE federation = ? ORDER BY entry DESC LIMIT 1",
         offsetof(struct tern_ledger_figures, last_round)},
        {"SELECT count(*) FROM answers WHERE federation = ? AND changed > 0 AND"
         " changed < min_clients",
         offsetof(struct tern_ledger_figures, small_changes)},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        int64_t number;
        TERN_TRY(read_number(ledger, &number, 0, counts[i].sql, VALUES(NUMBER_OF(federation))));
        *(uint32_t *)(void *)((char *)figures + counts[i].offset) = (uint32_t)number;
    }
    return TERN_OK;
}
