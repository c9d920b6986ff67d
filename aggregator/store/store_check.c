// Whether what is stored is what was written: pages and indexes by SQLite's check, and what has a hash or
// a checksum of its own by that, because a page that SQLite only passes on can be anything.
#include "store/sql_table.h"

#include "util/crc32c.h"
#include <string.h>

// Rows of a hash and the bytes that it is of.
static enum tern_result check_hashes(struct tern_db *db, const char *sql, const char *finding)
{
    struct tern_query query = tern_query_read(db->sql, sql);
    while (tern_query_row(&query)) {
        uint8_t stored[TERN_SHA256_SIZE];
        uint8_t digest[TERN_SHA256_SIZE];
        size_t len = 0;
        tern_query_hash(&query, stored);
        const uint8_t *body = tern_query_blob(&query, &len);
        tern_sha256(body, len, digest);
        if (memcmp(digest, stored, sizeof digest) != 0) {
            tern_query_damaged(&query, finding);
        }
    }
    return tern_query_end(&query);
}

static enum tern_result check_vectors(struct tern_db *db)
{
    struct tern_query query = tern_query_read(db->sql, "SELECT crc32c, body FROM weights");
    while (tern_query_row(&query)) {
        const uint64_t stored = tern_query_number(&query, UINT32_MAX);
        size_t len = 0;
        const uint8_t *body = tern_query_blob(&query, &len);
        if (tern_crc32c(0, body, len) != stored) {
            tern_query_damaged(&query, "the checksum of a stored vector is wrong");
        }
    }
    return tern_query_end(&query);
}

enum tern_result tern_db_check(struct tern_db *db)
{
    TERN_TRY(tern_sql_check(db->sql));
    TERN_TRY(check_vectors(db));
    TERN_TRY(check_hashes(db, "SELECT sha256, body FROM updates JOIN update_bodies USING (id)",
                          "the stored bytes of an update differ from those received"));
    TERN_TRY(check_hashes(db, "SELECT sha256, body FROM downloads JOIN download_bodies USING (id)",
                          "the bytes of a download do not match its name"));
    TERN_TRY(check_hashes(db, "SELECT sha256, body FROM statistics",
                          "the stored statistics of a client differ from those received"));
    return check_hashes(db, "SELECT sha256, body FROM files",
                        "the hash of what came with the model, or of its scaling, is wrong");
}

enum tern_result tern_db_set_checked(struct tern_db *db, uint64_t now_ms)
{
    struct tern_db_federation row;
    TERN_TRY(tern_db_federation(db, &row));
    row.checked_ms = now_ms;
    return tern_table_put(db, &tern_table_federation, &row);
}

void tern_db_stop_when(struct tern_db *db, const atomic_bool *stop)
{
    tern_sql_stop_when(db->sql, stop);
}
