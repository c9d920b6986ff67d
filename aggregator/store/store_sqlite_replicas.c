// Replicas: which weights clients hold, what they are made of, and the downloads between them.
#include "store/store_sqlite.h"

#include "util/crc32c.h"
#include <string.h>

#define REPLICA_COLUMNS                                                                            \
    "id, parent, download, version, depth, bytes, residual, used_ms, form, trunk, children,"       \
    " suspect"

static void read_replica(struct tern_query *query, struct tern_db_replica *replica)
{
    tern_query_hash(query, replica->id);
    tern_query_hash(query, replica->parent);
    tern_query_hash(query, replica->download);
    replica->version = tern_query_u32(query);
    replica->depth = tern_query_u32(query);
    replica->bytes = tern_query_u64(query);
    replica->residual = tern_query_real(query);
    replica->used_ms = tern_query_u64(query);
    replica->form = (enum tern_db_replica_form)tern_query_u32(query);
    replica->trunk = tern_query_bool(query);
    replica->children = tern_query_u32(query);
    replica->suspect = tern_query_bool(query);
}

static enum tern_result run_on(struct tern_db *db, const char *sql,
                               const uint8_t id[TERN_SHA256_SIZE])
{
    struct tern_query query = tern_query_write(db, sql);
    tern_query_bind_blob(&query, id, TERN_SHA256_SIZE);
    return tern_query_run(&query);
}

// --- Rows

static bool is_there(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                     enum tern_result *result)
{
    struct tern_query query = tern_query_read(db, "SELECT 1 FROM replicas WHERE id = ?");
    tern_query_bind_blob(&query, id, TERN_SHA256_SIZE);
    bool there = tern_query_row(&query);
    *result = tern_query_end(&query);
    return there;
}

static enum tern_result add_child(struct tern_db *db, const uint8_t parent[TERN_SHA256_SIZE])
{
    struct tern_query query =
        tern_query_write(db, "UPDATE replicas SET children = children + 1 WHERE id = ?");
    tern_query_bind_blob(&query, parent, TERN_SHA256_SIZE);
    return tern_query_run_one(&query);
}

enum tern_result tern_db_replica_put(struct tern_db *db, const struct tern_db_replica *replica)
{
    enum tern_result result;
    bool there = is_there(db, replica->id, &result);
    if (result != TERN_OK || there) {
        return result;
    }
    if (replica->form == TERN_REPLICA_STEP) {
        TERN_TRY(add_child(db, replica->parent));
    }
    struct tern_query query = tern_query_write(db, "INSERT INTO replicas (" REPLICA_COLUMNS ")"
                                                   " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)");
    tern_query_bind_blob(&query, replica->id, TERN_SHA256_SIZE);
    tern_query_bind_blob(&query, replica->parent, TERN_SHA256_SIZE);
    tern_query_bind_blob(&query, replica->download, TERN_SHA256_SIZE);
    tern_query_bind(&query, replica->version);
    tern_query_bind(&query, replica->depth);
    tern_query_bind(&query, replica->bytes);
    tern_query_bind_real(&query, (double)replica->residual);
    tern_query_bind(&query, replica->used_ms);
    tern_query_bind(&query, (uint64_t)replica->form);
    tern_query_bind(&query, replica->trunk);
    tern_query_bind(&query, replica->suspect);
    return tern_query_run(&query);
}

enum tern_result tern_db_replica_get(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                     struct tern_db_replica *out)
{
    struct tern_query query =
        tern_query_read(db, "SELECT " REPLICA_COLUMNS " FROM replicas WHERE id = ?");
    tern_query_bind_blob(&query, id, TERN_SHA256_SIZE);
    if (!tern_query_row(&query)) {
        return tern_query_missing(&query);
    }
    read_replica(&query, out);
    return tern_query_end(&query);
}

enum tern_result tern_db_replica_use(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                     uint64_t now_ms)
{
    struct tern_query query = tern_query_write(db, "UPDATE replicas SET used_ms = ? WHERE id = ?");
    tern_query_bind(&query, now_ms);
    tern_query_bind_blob(&query, id, TERN_SHA256_SIZE);
    return tern_query_run(&query);
}

enum tern_result tern_db_replica_suspect(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                         bool suspect)
{
    struct tern_query query = tern_query_write(db, "UPDATE replicas SET suspect = ? WHERE id = ?");
    tern_query_bind(&query, suspect);
    tern_query_bind_blob(&query, id, TERN_SHA256_SIZE);
    return tern_query_run(&query);
}

enum tern_result tern_db_replica_held(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                      bool *held)
{
    struct tern_query query =
        tern_query_read(db, "SELECT 1 FROM clients WHERE replica = ? AND revoked = 0 LIMIT 1");
    tern_query_bind_blob(&query, id, TERN_SHA256_SIZE);
    *held = tern_query_row(&query);
    return tern_query_end(&query);
}

// --- Forgetting

// Bytes of the downloads at a replica's ends and of its weights.
static enum tern_result bytes_of(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                 uint64_t *bytes)
{
    struct tern_query query = tern_query_read(
        db, "SELECT (SELECT ifnull(sum(size), 0) FROM downloads WHERE from_replica = ?1)"
            " + (SELECT ifnull(sum(size), 0) FROM downloads WHERE to_replica = ?1)"
            " + (SELECT ifnull(sum(length(body)), 0) FROM replica_weights WHERE id = ?1)");
    tern_query_bind_blob(&query, id, TERN_SHA256_SIZE);
    *bytes = tern_query_row(&query) ? tern_query_u64(&query) : 0;
    return tern_query_end(&query);
}

static enum tern_result leave_parent(struct tern_db *db, const struct tern_db_replica *replica)
{
    if (replica->form != TERN_REPLICA_STEP) {
        return TERN_OK;
    }
    return run_on(db, "UPDATE replicas SET children = children - 1, suspect = 1 WHERE id = ?",
                  replica->parent);
}

enum tern_result tern_db_replica_drop(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                      uint64_t *freed)
{
    struct tern_db_replica replica;
    TERN_TRY(tern_db_replica_get(db, id, &replica));
    if (replica.children > 0) {
        return TERN_ERR_STATE;
    }
    TERN_TRY(bytes_of(db, id, freed));
    TERN_TRY(leave_parent(db, &replica));
    TERN_TRY(run_on(db, "DELETE FROM downloads WHERE from_replica = ?", id));
    TERN_TRY(run_on(db, "DELETE FROM downloads WHERE to_replica = ?", id));
    TERN_TRY(run_on(db, "DELETE FROM replica_weights WHERE id = ?", id));
    return run_on(db, "DELETE FROM replicas WHERE id = ?", id);
}

static enum tern_result list_ids(struct tern_query *query, uint8_t (*ids)[TERN_SHA256_SIZE],
                                 uint32_t max, uint32_t *count)
{
    tern_query_bind(query, max);
    *count = 0;
    while (*count < max && tern_query_row(query)) {
        tern_query_hash(query, ids[(*count)++]);
    }
    return tern_query_end(query);
}

enum tern_result tern_db_replica_suspects(struct tern_db *db, uint8_t (*ids)[TERN_SHA256_SIZE],
                                          uint32_t max, uint32_t *count)
{
    struct tern_query query =
        tern_query_read(db, "SELECT id FROM replicas WHERE suspect = 1 ORDER BY version LIMIT ?");
    return list_ids(&query, ids, max, count);
}

enum tern_result tern_db_replica_unused(struct tern_db *db, uint32_t before,
                                        uint8_t (*ids)[TERN_SHA256_SIZE], uint32_t max,
                                        uint32_t *count)
{
    struct tern_query query =
        tern_query_read(db, "SELECT id FROM replicas WHERE children = 0 AND version < ?"
                            " ORDER BY used_ms LIMIT ?");
    tern_query_bind(&query, before);
    return list_ids(&query, ids, max, count);
}

enum tern_result tern_db_replica_each(
    struct tern_db *db,
    bool (*visit)(void *ctx, const struct tern_db_replica *replica, uint64_t clients), void *ctx)
{
    struct tern_query query = tern_query_read(
        db, "SELECT " REPLICA_COLUMNS ", (SELECT count(*) FROM clients WHERE clients.replica ="
            " replicas.id AND clients.revoked = 0) FROM replicas ORDER BY version, id");
    bool more = true;
    while (more && tern_query_row(&query)) {
        struct tern_db_replica replica;
        read_replica(&query, &replica);
        uint64_t clients = tern_query_u64(&query);
        more = query.result == TERN_OK && visit(ctx, &replica, clients);
    }
    return tern_query_end(&query);
}

// --- Weights

static enum tern_result put_part(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                 uint32_t part, const float *weights, uint32_t count)
{
    const float *values = weights + (size_t)part * TERN_QUERY_PART;
    size_t len = tern_query_part_values(count, part) * sizeof *values;
    struct tern_query query = tern_query_write(
        db, "INSERT INTO replica_weights (id, part, count, crc32c, body) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (id, part) DO NOTHING");
    tern_query_bind_blob(&query, id, TERN_SHA256_SIZE);
    tern_query_bind(&query, part);
    tern_query_bind(&query, count);
    tern_query_bind(&query, tern_crc32c(0, values, len));
    tern_query_bind_blob(&query, values, len);
    return tern_query_run(&query);
}

enum tern_result tern_db_replica_weights_put(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                             const float *weights, uint32_t count)
{
    struct tern_db_replica replica;
    TERN_TRY(tern_db_replica_get(db, id, &replica));
    for (uint32_t part = 0; part < tern_query_part_count(count); part++) {
        TERN_TRY(put_part(db, id, part, weights, count));
    }
    TERN_TRY(leave_parent(db, &replica));
    struct tern_query query = tern_query_write(
        db, "UPDATE replicas SET form = 3, parent = zeroblob(32), download = zeroblob(32),"
            " depth = 0, bytes = 0 WHERE id = ?");
    tern_query_bind_blob(&query, id, TERN_SHA256_SIZE);
    return tern_query_run_one(&query);
}

static void read_part(struct tern_query *query, uint32_t part, float *weights, uint32_t count)
{
    uint32_t number = tern_query_u32(query);
    uint32_t stored = tern_query_u32(query);
    uint32_t crc = tern_query_u32(query);
    size_t len;
    const uint8_t *body = tern_query_blob(query, &len);
    if (query->result != TERN_OK) {
        return;
    }
    if (stored != count || part >= tern_query_part_count(count) || number != part ||
        len != tern_query_part_values(count, part) * sizeof *weights ||
        tern_crc32c(0, body, len) != crc) {
        tern_query_damaged(query, "the checksum of a replica's weights is wrong");
        return;
    }
    memcpy(weights + (size_t)part * TERN_QUERY_PART, body, len);
}

enum tern_result tern_db_replica_weights_get(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                             float *weights, uint32_t count)
{
    struct tern_query query =
        tern_query_read(db, "SELECT part, count, crc32c, body FROM replica_weights WHERE id = ?"
                            " ORDER BY part");
    tern_query_bind_blob(&query, id, TERN_SHA256_SIZE);
    uint32_t part = 0;
    for (; tern_query_row(&query); part++) {
        read_part(&query, part, weights, count);
    }
    TERN_TRY(tern_query_end(&query));
    if (part == 0) {
        return TERN_ERR_NOT_FOUND;
    }
    return part == tern_query_part_count(count) ? TERN_OK : TERN_ERR_CORRUPT;
}

// --- Downloads between replicas

#define EDGE_COLUMNS                                                                               \
    "sha256, snapshot, from_version, to_version, size, payload, codec, from_replica, to_replica"

static enum tern_result read_edge(struct tern_query *query, struct tern_db_download *out)
{
    if (!tern_query_row(query)) {
        return tern_query_missing(query);
    }
    tern_query_download(query, out);
    return tern_query_end(query);
}

enum tern_result tern_db_edge_find(struct tern_db *db, const uint8_t from[TERN_SHA256_SIZE],
                                   uint32_t to_version, const char *codec,
                                   struct tern_db_download *out)
{
    struct tern_query query =
        tern_query_read(db, "SELECT " EDGE_COLUMNS " FROM downloads WHERE from_replica = ?"
                            " AND to_version = ? AND codec = ? AND snapshot = 0 LIMIT 1");
    tern_query_bind_blob(&query, from, TERN_SHA256_SIZE);
    tern_query_bind(&query, to_version);
    tern_query_bind_text(&query, codec, TERN_DB_CODEC_MAX);
    return read_edge(&query, out);
}

enum tern_result tern_db_edge_list(struct tern_db *db, const uint8_t from[TERN_SHA256_SIZE],
                                   struct tern_db_download *out, uint32_t max, uint32_t *count)
{
    struct tern_query query =
        tern_query_read(db, "SELECT " EDGE_COLUMNS " FROM downloads WHERE from_replica = ?"
                            " AND snapshot = 0 ORDER BY to_version DESC LIMIT ?");
    tern_query_bind_blob(&query, from, TERN_SHA256_SIZE);
    tern_query_bind(&query, max);
    *count = 0;
    while (*count < max && tern_query_row(&query)) {
        tern_query_download(&query, &out[(*count)++]);
    }
    return tern_query_end(&query);
}

enum tern_result tern_db_snapshot_find(struct tern_db *db, uint32_t to_version, const char *codec,
                                       struct tern_db_download *out)
{
    struct tern_query query =
        tern_query_read(db, "SELECT " EDGE_COLUMNS " FROM downloads WHERE to_version = ?"
                            " AND snapshot = 1 AND codec = ? AND EXISTS (SELECT 1 FROM replicas"
                            " WHERE id = to_replica AND download = sha256) LIMIT 1");
    tern_query_bind(&query, to_version);
    tern_query_bind_text(&query, codec, TERN_DB_CODEC_MAX);
    return read_edge(&query, out);
}

enum tern_result tern_db_replica_totals(struct tern_db *db, struct tern_db_replica_totals *totals)
{
    struct tern_query query = tern_query_read(
        db, "SELECT (SELECT count(*) FROM replicas), (SELECT count(*) FROM replicas WHERE trunk),"
            " (SELECT count(*) FROM replicas WHERE form = 3),"
            " (SELECT ifnull(sum(length(body)), 0) FROM replica_weights),"
            " (SELECT count(*) FROM downloads), (SELECT ifnull(sum(size), 0) FROM downloads)");
    *totals = (struct tern_db_replica_totals){0};
    if (tern_query_row(&query)) {
        totals->replicas = tern_query_u64(&query);
        totals->trunk = tern_query_u64(&query);
        totals->whole = tern_query_u64(&query);
        totals->whole_bytes = tern_query_u64(&query);
        totals->downloads = tern_query_u64(&query);
        totals->download_bytes = tern_query_u64(&query);
    }
    return tern_query_end(&query);
}
