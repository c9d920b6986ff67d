// Versions and downloads.
#include "store/sql_table.h"

#include <string.h>

enum tern_result tern_db_version_put(struct tern_db *db, const struct tern_db_version *version)
{
    return tern_table_put(db, &tern_table_versions, version);
}

enum tern_result tern_db_version_get(struct tern_db *db, uint32_t version,
                                     struct tern_db_version *out)
{
    return tern_table_get(db, &tern_table_versions, "WHERE version = ?", version, out);
}

enum tern_result tern_db_version_last(struct tern_db *db, struct tern_db_version *out)
{
    struct tern_query query =
        tern_table_select(db, &tern_table_versions, "ORDER BY version DESC LIMIT 1");
    return tern_table_one(&query, &tern_table_versions, out);
}

enum tern_result tern_db_version_of_replica(struct tern_db *db,
                                            const uint8_t replica[TERN_SHA256_SIZE],
                                            uint32_t *version)
{
    struct tern_db_version row;
    TERN_TRY(tern_table_find(db, &tern_table_versions,
                             "WHERE replica = ? ORDER BY version DESC LIMIT 1", replica, &row));
    *version = row.version;
    return TERN_OK;
}

// --- Downloads

#define DOWNLOADS &tern_table_downloads

// The name is the hash of the bytes, so a download that is there already is the same one.
enum tern_result tern_db_download_put(struct tern_db *db, const struct tern_db_download *download,
                                      const uint8_t *blob)
{
    struct tern_db_download row = *download;
    bool added;
    TERN_TRY(tern_table_keep(db, DOWNLOADS, &row, &added));
    struct tern_body_row body = {row.id, {blob, row.size}};
    return added ? tern_table_insert(db, &tern_table_download_bodies, &body) : TERN_OK;
}

enum tern_result tern_db_download_put_pieces(
    struct tern_db *db, const struct tern_db_download *download,
    enum tern_result (*view)(void *ctx, size_t at, size_t len, const uint8_t **data), void *ctx)
{
    struct tern_db_download row = *download;
    bool added;
    TERN_TRY(tern_table_keep(db, DOWNLOADS, &row, &added));
    if (!added) {
        return TERN_OK;
    }
    return tern_sql_put_pieces(db->sql, tern_table_download_bodies.name, "body", row.id, row.size,
                               view, ctx);
}

static void copy_body(struct tern_query *query, const struct tern_blob_column *body,
                      const struct tern_db_download *download, uint8_t *dst)
{
    uint8_t digest[TERN_SHA256_SIZE];
    tern_sha256(body->data, body->len, digest);
    if (body->len != download->size || memcmp(digest, download->sha256, sizeof digest) != 0) {
        tern_query_damaged(query, "the bytes of a download do not match its name");
    } else if (body->len > 0) {
        memcpy(dst, body->data, body->len);
    }
}

enum tern_result tern_db_download_get(struct tern_db *db, const uint8_t sha256[TERN_SHA256_SIZE],
                                      struct tern_db_download *out, uint8_t *dst, size_t dst_size)
{
    TERN_TRY(tern_table_find(db, DOWNLOADS, "WHERE sha256 = ?", sha256, out));
    if (dst == NULL) {
        return TERN_OK;
    }
    if (dst_size < out->size) {
        return TERN_ERR_NO_SPACE;
    }
    struct tern_body_row row;
    struct tern_query query = tern_table_select(db, &tern_table_download_bodies, "WHERE id = ?");
    tern_query_bind(&query, out->id);
    if (!tern_table_next(&query, &tern_table_download_bodies, &row)) {
        return tern_query_missing(&query);
    }
    copy_body(&query, &row.body, out, dst);
    return tern_query_end(&query);
}

struct hashed {
    enum tern_result (*take)(void *ctx, const uint8_t *data, size_t len);
    void *ctx;
    struct tern_sha256 hash;
};

static enum tern_result hash_and_take(void *ctx, const uint8_t *data, size_t len)
{
    struct hashed *hashed = ctx;
    tern_sha256_update(&hashed->hash, data, len);
    return hashed->take(hashed->ctx, data, len);
}

enum tern_result
tern_db_download_stream(struct tern_db *db, const struct tern_db_download *download,
                        enum tern_result (*take)(void *ctx, const uint8_t *data, size_t len),
                        void *ctx)
{
    struct hashed hashed = {.take = take, .ctx = ctx};
    uint8_t digest[TERN_SHA256_SIZE];
    tern_sha256_init(&hashed.hash);
    TERN_TRY(tern_sql_stream(db->sql, tern_table_download_bodies.name, "body", download->id,
                             download->size, hash_and_take, &hashed));
    tern_sha256_final(&hashed.hash, digest);
    return memcmp(digest, download->sha256, sizeof digest) == 0
               ? TERN_OK
               : tern_sql_fail_damaged(db->sql, "the bytes of a download do not match its name");
}

enum tern_result tern_db_download_to(struct tern_db *db, uint32_t to_version, bool snapshot,
                                     struct tern_db_download *out)
{
    struct tern_query query =
        tern_table_select(db, DOWNLOADS,
                          "WHERE to_version = ? AND snapshot = ? AND to_replica ="
                          " (SELECT replica FROM versions WHERE version = to_version)"
                          " ORDER BY id DESC LIMIT 1");
    tern_query_bind(&query, to_version);
    tern_query_bind(&query, snapshot);
    return tern_table_one(&query, DOWNLOADS, out);
}

#define OPENS_NOTHING                                                                              \
    " FROM downloads WHERE snapshot = 1 AND to_version < ? AND NOT EXISTS (SELECT 1 FROM replicas" \
    " WHERE replicas.id = to_replica AND download = sha256)"

enum tern_result tern_db_snapshot_prune(struct tern_db *db, uint32_t to_version, uint64_t *freed)
{
    struct tern_query query = tern_query_read(db->sql, "SELECT " TERN_SUM_OF("size") OPENS_NOTHING);
    tern_query_bind(&query, to_version);
    *freed = tern_query_row(&query) ? tern_query_u64(&query) : 0;
    TERN_TRY(tern_query_end(&query));
    if (*freed == 0) {
        return TERN_OK;
    }
    query = tern_query_write(db->sql, "DELETE" OPENS_NOTHING);
    tern_query_bind(&query, to_version);
    return tern_query_post(&query);
}

// --- Between replicas

enum tern_result tern_db_edge_find(struct tern_db *db, const uint8_t from[TERN_SHA256_SIZE],
                                   uint32_t to_version, const char *codec,
                                   struct tern_db_download *out)
{
    struct tern_query query = tern_table_select(db, DOWNLOADS,
                                                "WHERE from_replica = ? AND to_version = ?"
                                                " AND codec = ? AND snapshot = 0 LIMIT 1");
    tern_query_bind_blob(&query, from, TERN_SHA256_SIZE);
    tern_query_bind(&query, to_version);
    tern_query_bind_text(&query, codec, TERN_DB_CODEC_MAX);
    return tern_table_one(&query, DOWNLOADS, out);
}

enum tern_result tern_db_snapshot_find(struct tern_db *db, uint32_t to_version, const char *codec,
                                       struct tern_db_download *out)
{
    struct tern_query query =
        tern_table_select(db, DOWNLOADS,
                          "WHERE to_version = ? AND snapshot = 1 AND codec = ? AND EXISTS (SELECT 1"
                          " FROM replicas WHERE replicas.id = to_replica AND download = sha256)"
                          " LIMIT 1");
    tern_query_bind(&query, to_version);
    tern_query_bind_text(&query, codec, TERN_DB_CODEC_MAX);
    return tern_table_one(&query, DOWNLOADS, out);
}
