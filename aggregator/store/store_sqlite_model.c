// Weights, versions and downloads.
#include "store/store_sqlite.h"

#include "util/crc32c.h"
#include <stdio.h>
#include <string.h>

// Weights are stored as they lie in memory; the format is little-endian float32.
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "weights are stored little-endian");

uint32_t tern_query_part_count(uint32_t count)
{
    return count / TERN_QUERY_PART + (count % TERN_QUERY_PART != 0);
}

uint32_t tern_query_part_values(uint32_t count, uint32_t part)
{
    uint32_t left = count - part * TERN_QUERY_PART;
    return left < TERN_QUERY_PART ? left : TERN_QUERY_PART;
}

static enum tern_result drop_parts(struct tern_db *db, enum tern_db_weights kind, uint32_t from)
{
    struct tern_query query =
        tern_query_write(db, "DELETE FROM weights WHERE kind = ? AND part >= ?");
    tern_query_bind(&query, (uint64_t)kind);
    tern_query_bind(&query, from);
    return tern_query_run(&query);
}

static enum tern_result put_part(struct tern_db *db, enum tern_db_weights kind, uint32_t part,
                                 uint32_t version, const float *weights, uint32_t count)
{
    const float *values = weights + (size_t)part * TERN_QUERY_PART;
    size_t len = tern_query_part_values(count, part) * sizeof *values;
    struct tern_query query = tern_query_write(
        db, "INSERT INTO weights (kind, part, version, count, crc32c, body)"
            " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (kind, part) DO UPDATE SET"
            " version = excluded.version, count = excluded.count, crc32c = excluded.crc32c,"
            " body = excluded.body");
    tern_query_bind(&query, (uint64_t)kind);
    tern_query_bind(&query, part);
    tern_query_bind(&query, version);
    tern_query_bind(&query, count);
    tern_query_bind(&query, tern_crc32c(0, values, len));
    tern_query_bind_blob(&query, values, len);
    return tern_query_run(&query);
}

enum tern_result tern_db_weights_put(struct tern_db *db, enum tern_db_weights kind,
                                     uint32_t version, const float *weights, uint32_t count)
{
    if (count == 0) {
        return TERN_ERR_ARGUMENT;
    }
    TERN_TRY(drop_parts(db, kind, tern_query_part_count(count)));
    for (uint32_t part = 0; part < tern_query_part_count(count); part++) {
        TERN_TRY(put_part(db, kind, part, version, weights, count));
    }
    return TERN_OK;
}

// Reads the part that query stands on. *stored: values in all parts, as the row says.
static void read_part(struct tern_query *query, uint32_t part, uint32_t *version, uint32_t *stored,
                      float *weights, uint32_t count)
{
    uint32_t number = tern_query_u32(query);
    *version = tern_query_u32(query);
    *stored = tern_query_u32(query);
    uint32_t crc = tern_query_u32(query);
    size_t len;
    const uint8_t *body = tern_query_blob(query, &len);
    if (query->result != TERN_OK || *stored != count) {
        return;
    }
    if (part >= tern_query_part_count(count) || number != part ||
        len != tern_query_part_values(count, part) * sizeof *weights ||
        tern_crc32c(0, body, len) != crc) {
        tern_query_damaged(query, "the checksum of the weights is wrong");
        return;
    }
    memcpy(weights + (size_t)part * TERN_QUERY_PART, body, len);
}

enum tern_result tern_db_weights_get(struct tern_db *db, enum tern_db_weights kind,
                                     uint32_t *version, float *weights, uint32_t count)
{
    struct tern_query query =
        tern_query_read(db, "SELECT part, version, count, crc32c, body FROM weights"
                            " WHERE kind = ? ORDER BY part");
    tern_query_bind(&query, (uint64_t)kind);
    uint32_t stored = count;
    uint32_t part = 0;
    for (; stored == count && tern_query_row(&query); part++) {
        read_part(&query, part, version, &stored, weights, count);
    }
    TERN_TRY(tern_query_end(&query));
    if (part == 0) {
        return TERN_ERR_NOT_FOUND;
    }
    if (stored != count) {
        snprintf(db->error, sizeof db->error, "the stored model has %u values, not %u", stored,
                 count);
        return TERN_ERR_CORRUPT;
    }
    if (part != tern_query_part_count(count)) {
        db->damaged = true;
        snprintf(db->error, sizeof db->error,
                 "the database is damaged: weights are missing; restore a backup");
        return TERN_ERR_IO;
    }
    return TERN_OK;
}

// --- Versions

#define VERSION_COLUMNS "version, round, replica, model_sha256, created_ms"

static void read_version(struct tern_query *query, struct tern_db_version *version)
{
    version->version = tern_query_u32(query);
    version->round = tern_query_u32(query);
    tern_query_hash(query, version->replica);
    tern_query_hash(query, version->model_sha256);
    version->created_ms = tern_query_u64(query);
}

enum tern_result tern_db_version_put(struct tern_db *db, const struct tern_db_version *version)
{
    struct tern_query query =
        tern_query_write(db, "INSERT INTO versions (" VERSION_COLUMNS ") VALUES (?, ?, ?, ?, ?)"
                             " ON CONFLICT (version) DO UPDATE SET round = excluded.round,"
                             " replica = excluded.replica, model_sha256 = excluded.model_sha256,"
                             " created_ms = excluded.created_ms");
    tern_query_bind(&query, version->version);
    tern_query_bind(&query, version->round);
    tern_query_bind_blob(&query, version->replica, TERN_SHA256_SIZE);
    tern_query_bind_blob(&query, version->model_sha256, TERN_SHA256_SIZE);
    tern_query_bind(&query, version->created_ms);
    return tern_query_run(&query);
}

static enum tern_result read_one_version(struct tern_query *query, struct tern_db_version *out)
{
    if (!tern_query_row(query)) {
        return tern_query_missing(query);
    }
    read_version(query, out);
    return tern_query_end(query);
}

enum tern_result tern_db_version_get(struct tern_db *db, uint32_t version,
                                     struct tern_db_version *out)
{
    struct tern_query query =
        tern_query_read(db, "SELECT " VERSION_COLUMNS " FROM versions WHERE version = ?");
    tern_query_bind(&query, version);
    return read_one_version(&query, out);
}

enum tern_result tern_db_version_last(struct tern_db *db, struct tern_db_version *out)
{
    struct tern_query query = tern_query_read(db, "SELECT " VERSION_COLUMNS
                                                  " FROM versions ORDER BY version DESC LIMIT 1");
    return read_one_version(&query, out);
}

enum tern_result tern_db_version_of_replica(struct tern_db *db,
                                            const uint8_t replica[TERN_SHA256_SIZE],
                                            uint32_t *version)
{
    struct tern_query query = tern_query_read(db, "SELECT version FROM versions WHERE replica = ?"
                                                  " ORDER BY version DESC LIMIT 1");
    tern_query_bind_blob(&query, replica, TERN_SHA256_SIZE);
    if (!tern_query_row(&query)) {
        return tern_query_missing(&query);
    }
    *version = tern_query_u32(&query);
    return tern_query_end(&query);
}

enum tern_result
tern_db_version_each(struct tern_db *db,
                     bool (*visit)(void *ctx, const struct tern_db_version *version), void *ctx)
{
    struct tern_query query =
        tern_query_read(db, "SELECT " VERSION_COLUMNS " FROM versions ORDER BY version");
    bool more = true;
    while (more && tern_query_row(&query)) {
        struct tern_db_version version;
        read_version(&query, &version);
        more = query.result == TERN_OK && visit(ctx, &version);
    }
    return tern_query_end(&query);
}

// --- Downloads

#define DOWNLOAD_COLUMNS                                                                           \
    "sha256, snapshot, from_version, to_version, size, payload, codec, from_replica, to_replica"

enum tern_result tern_db_download_put(struct tern_db *db, const struct tern_db_download *download,
                                      const uint8_t *blob)
{
    // The name is the hash of the bytes, so a download that is there already is the same one.
    struct tern_query query =
        tern_query_write(db, "INSERT INTO downloads (" DOWNLOAD_COLUMNS ", body)"
                             " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                             " ON CONFLICT (sha256) DO NOTHING");
    tern_query_bind_blob(&query, download->sha256, TERN_SHA256_SIZE);
    tern_query_bind(&query, download->snapshot);
    tern_query_bind(&query, download->from_version);
    tern_query_bind(&query, download->to_version);
    tern_query_bind(&query, download->size);
    tern_query_bind(&query, download->payload);
    tern_query_bind_text(&query, download->codec, sizeof download->codec);
    tern_query_bind_blob(&query, download->from_replica, TERN_SHA256_SIZE);
    tern_query_bind_blob(&query, download->to_replica, TERN_SHA256_SIZE);
    tern_query_bind_blob(&query, blob, download->size);
    return tern_query_run(&query);
}

void tern_query_download(struct tern_query *query, struct tern_db_download *download)
{
    tern_query_hash(query, download->sha256);
    download->snapshot = tern_query_bool(query);
    download->from_version = tern_query_u32(query);
    download->to_version = tern_query_u32(query);
    download->size = tern_query_u32(query);
    download->payload = tern_query_u32(query);
    tern_query_text(query, download->codec, sizeof download->codec);
    tern_query_hash(query, download->from_replica);
    tern_query_hash(query, download->to_replica);
}

static enum tern_result read_one_download(struct tern_query *query, struct tern_db_download *out)
{
    if (!tern_query_row(query)) {
        return tern_query_missing(query);
    }
    tern_query_download(query, out);
    return tern_query_end(query);
}

static enum tern_result describe_download(struct tern_db *db,
                                          const uint8_t sha256[TERN_SHA256_SIZE],
                                          struct tern_db_download *out)
{
    struct tern_query query =
        tern_query_read(db, "SELECT " DOWNLOAD_COLUMNS " FROM downloads WHERE sha256 = ?");
    tern_query_bind_blob(&query, sha256, TERN_SHA256_SIZE);
    return read_one_download(&query, out);
}

static void read_blob(struct tern_query *query, const struct tern_db_download *download,
                      uint8_t *dst)
{
    size_t len;
    const uint8_t *blob = tern_query_blob(query, &len);
    if (query->result != TERN_OK) {
        return;
    }
    uint8_t digest[TERN_SHA256_SIZE];
    tern_sha256(blob, len, digest);
    if (len != download->size || memcmp(digest, download->sha256, sizeof digest) != 0) {
        tern_query_damaged(query, "the bytes of a download do not match its name");
        return;
    }
    memcpy(dst, blob, len);
}

enum tern_result tern_db_download_get(struct tern_db *db, const uint8_t sha256[TERN_SHA256_SIZE],
                                      struct tern_db_download *out, uint8_t *dst, size_t dst_size)
{
    TERN_TRY(describe_download(db, sha256, out));
    if (dst == NULL) {
        return TERN_OK;
    }
    if (dst_size < out->size) {
        return TERN_ERR_NO_SPACE;
    }
    struct tern_query query = tern_query_read(db, "SELECT body FROM downloads WHERE sha256 = ?");
    tern_query_bind_blob(&query, sha256, TERN_SHA256_SIZE);
    if (!tern_query_row(&query)) {
        return tern_query_missing(&query);
    }
    read_blob(&query, out, dst);
    return tern_query_end(&query);
}

enum tern_result tern_db_download_to(struct tern_db *db, uint32_t to_version, bool snapshot,
                                     struct tern_db_download *out)
{
    struct tern_query query =
        tern_query_read(db, "SELECT " DOWNLOAD_COLUMNS " FROM downloads"
                            " WHERE to_version = ? AND snapshot = ? AND to_replica ="
                            " (SELECT replica FROM versions WHERE version = to_version)"
                            " ORDER BY id DESC LIMIT 1");
    tern_query_bind(&query, to_version);
    tern_query_bind(&query, snapshot);
    return read_one_download(&query, out);
}

static enum tern_result prune_where(struct tern_db *db, const char *count, const char *drop,
                                    uint32_t to_version, uint64_t *freed)
{
    struct tern_query query = tern_query_read(db, count);
    tern_query_bind(&query, to_version);
    *freed = tern_query_row(&query) ? tern_query_u64(&query) : 0;
    TERN_TRY(tern_query_end(&query));
    if (*freed == 0) {
        return TERN_OK;
    }
    query = tern_query_write(db, drop);
    tern_query_bind(&query, to_version);
    return tern_query_run(&query);
}

#define OPENS_NOTHING                                                                              \
    " FROM downloads WHERE snapshot = 1 AND to_version < ? AND NOT EXISTS (SELECT 1 FROM replicas" \
    " WHERE id = to_replica AND download = sha256)"

enum tern_result tern_db_snapshot_prune(struct tern_db *db, uint32_t to_version, uint64_t *freed)
{
    return prune_where(db, "SELECT ifnull(sum(size), 0)" OPENS_NOTHING, "DELETE" OPENS_NOTHING,
                       to_version, freed);
}
