// Inside of the SQLite store: the connection, its cache of prepared statements, and a small way to
// bind and read columns in order with every range checked. Only store_sqlite*.c include this.
// Thread rule: as store.h.
#ifndef TERN_STORE_SQLITE_H
#define TERN_STORE_SQLITE_H

#include "store/store.h"
#include <sqlite3.h>

#define TERN_DB_APPLICATION_ID 0x5465726e // "Tern"
#define TERN_DB_STATEMENTS 160
#define TERN_DB_BLOB_MAX 1000000000u // SQLite's own limit of one value

struct tern_db {
    sqlite3 *handle;
    struct {
        const char *sql; // the literal's address is the key
        sqlite3_stmt *statement;
    } cache[TERN_DB_STATEMENTS];
    size_t cached;
    bool in_transaction;
    bool doomed;  // a write of this transaction failed: it must not be committed
    bool damaged; // the file was found damaged
    int64_t data_version;
    uint8_t *manifest; // malloc'ed once it was asked for; NULL = not yet, or there is none
    size_t manifest_len;
    char *metadata; // likewise
    char error[256];
};

// One use of a statement. Binding and reading go from left to right. The first failure sticks in
// `result`; all later calls then do nothing, so that only tern_query_end() needs to be looked at.
struct tern_query {
    struct tern_db *db;
    sqlite3_stmt *statement;
    int next;       // parameter or column
    bool temporary; // not from the cache, which was in use
    bool writes;
    enum tern_result result;
};

// sql is a string that lives as long as db. A write outside a transaction is TERN_ERR_STATE.
struct tern_query tern_query_read(struct tern_db *db, const char *sql);
struct tern_query tern_query_write(struct tern_db *db, const char *sql);

// TERN_ERR_ARGUMENT  above 2^63 - 1; no NUL within size; TERN_ERR_NON_FINITE; TERN_ERR_TOO_LARGE
// The bytes of a text or blob are borrowed until tern_query_end().
void tern_query_bind(struct tern_query *query, uint64_t value);
void tern_query_bind_real(struct tern_query *query, double value);
void tern_query_bind_text(struct tern_query *query, const char *text, size_t size);
void tern_query_bind_blob(struct tern_query *query, const void *data, size_t len);

// Steps. True when there is a row to read.
bool tern_query_row(struct tern_query *query);

// A value that does not fit is TERN_ERR_IO: the file is damaged.
uint64_t tern_query_u64(struct tern_query *query);
uint32_t tern_query_u32(struct tern_query *query);
bool tern_query_bool(struct tern_query *query);
float tern_query_real(struct tern_query *query);
void tern_query_text(struct tern_query *query, char *dst, size_t size);
void tern_query_hash(struct tern_query *query, uint8_t hash[TERN_SHA256_SIZE]);
const uint8_t *tern_query_blob(struct tern_query *query, size_t *len); // valid until the next step

// A row of downloads: DOWNLOAD_COLUMNS of store_sqlite_model.c, in that order.
void tern_query_download(struct tern_query *query, struct tern_db_download *download);

// Weights are stored in parts of 4 MiB, which keeps a model of any size far from SQLite's limit of
// one value: how many parts `count` values take, and how many of them part `part` holds.
#define TERN_QUERY_PART (1u << 20)
uint32_t tern_query_part_count(uint32_t count);
uint32_t tern_query_part_values(uint32_t count, uint32_t part);

// Records that the file is damaged, with a sentence that says where.
void tern_query_damaged(struct tern_query *query, const char *where);

// Gives the statement back and returns the result.
enum tern_result tern_query_end(struct tern_query *query);
// Likewise, after a look-up without a row: TERN_ERR_NOT_FOUND when nothing failed.
enum tern_result tern_query_missing(struct tern_query *query);
// Runs a statement without rows to its end. Broken constraints are TERN_ERR_CONFLICT (the key is
// taken), TERN_ERR_NOT_FOUND (what it refers to is missing) and TERN_ERR_ARGUMENT (others).
enum tern_result tern_query_run(struct tern_query *query);
// Likewise, and TERN_ERR_NOT_FOUND when no row was changed.
enum tern_result tern_query_run_one(struct tern_query *query);

// Runs SQL that returns no rows, outside the cache.
enum tern_result tern_db_exec(struct tern_db *db, const char *sql);

// Sets db->error from SQLite's last error and maps `code` to a result.
enum tern_result tern_db_fail(struct tern_db *db, int code);

// Brings the open file from its version to `count` by steps[version..count), in one transaction.
// TERN_ERR_UNKNOWN  the file is newer than that
enum tern_result tern_db_migrate(struct tern_db *db, const char *const *steps, int count);

// The manifest of a model and the tensors kept beside it (store_sqlite_manifest.c).

enum tern_result tern_db_manifest_put(struct tern_db *db,
                                      const struct tern_db_federation *federation);
TERN_MUST_USE enum tern_result tern_db_kept_put(struct tern_db *db,
                                                const struct tern_db_federation *federation);
// Fills manifest and metadata, of memory that db keeps. TERN_OK also when there is none.
// TERN_ERR_NO_MEMORY
enum tern_result tern_db_manifest_get(struct tern_db *db, struct tern_db_federation *federation);

// Files (store_sqlite_file.c).

// Looks at the first bytes of a file without SQLite, so that a foreign file is never touched.
// TERN_ERR_NOT_FOUND, TERN_ERR_IO
enum tern_result tern_db_file_check(const char *path, char why[256]);
// Makes an empty file, mode 0600. TERN_ERR_CONFLICT  it is there already.
enum tern_result tern_db_file_make(const char *path, char why[256]);
// Makes `temporary`, complete and closed, appear as `path` at once and durably.
// TERN_ERR_CONFLICT  `path` is there already. `temporary` is gone either way.
enum tern_result tern_db_file_publish(const char *temporary, const char *path, char why[256]);

#endif
