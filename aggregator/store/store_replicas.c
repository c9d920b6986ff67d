// Replicas: which weights clients hold, and what they are made of.
#include "store/sql_table.h"

#include <string.h>

#define REPLICAS &tern_table_replicas

static enum tern_result run_on(struct tern_db *db, const char *text,
                               const uint8_t id[TERN_SHA256_SIZE])
{
    struct tern_query query = tern_query_write(db->sql, text);
    tern_query_bind_blob(&query, id, TERN_SHA256_SIZE);
    return tern_query_run_one(&query);
}

// --- Rows

enum tern_result tern_db_replica_put(struct tern_db *db, const struct tern_db_replica *replica)
{
    struct tern_db_replica row = *replica;
    enum tern_result found = tern_db_replica_get(db, replica->id, &row);
    if (found != TERN_ERR_NOT_FOUND) {
        return found;
    }
    if (replica->form == TERN_REPLICA_STEP) {
        TERN_TRY(run_on(db, "UPDATE replicas SET children = children + 1 WHERE id = ?",
                        replica->parent));
    }
    row = *replica;
    row.children = 0;
    return tern_table_insert(db, REPLICAS, &row);
}

enum tern_result tern_db_replica_get(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                     struct tern_db_replica *out)
{
    return tern_table_find(db, REPLICAS, "WHERE id = ?", id, out);
}

enum tern_result tern_db_replica_id(struct tern_db *db, const uint8_t *start, size_t len,
                                    uint8_t id[TERN_SHA256_SIZE])
{
    uint8_t least[TERN_SHA256_SIZE] = {0};
    struct tern_db_replica replica;
    struct tern_db_version version;
    memcpy(least, start, len);
    enum tern_result found =
        tern_table_find(db, REPLICAS, "WHERE id >= ? ORDER BY id LIMIT 1", least, &replica);
    TERN_TRY(tern_db_may_miss(found));
    if (found == TERN_OK && memcmp(replica.id, start, len) == 0) {
        memcpy(id, replica.id, TERN_SHA256_SIZE);
        return TERN_OK;
    }
    TERN_TRY(tern_table_find(db, &tern_table_versions,
                             "WHERE replica >= ? ORDER BY replica LIMIT 1", least, &version));
    if (memcmp(version.replica, start, len) != 0) {
        return TERN_ERR_NOT_FOUND;
    }
    memcpy(id, version.replica, TERN_SHA256_SIZE);
    return TERN_OK;
}

static enum tern_result change(struct tern_db *db, const char *text, uint64_t number,
                               const uint8_t id[TERN_SHA256_SIZE])
{
    struct tern_query query = tern_query_write(db->sql, text);
    tern_query_bind(&query, number);
    tern_query_bind_blob(&query, id, TERN_SHA256_SIZE);
    return tern_query_post(&query);
}

enum tern_result tern_db_replica_use(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                     uint64_t now_ms)
{
    return change(db, "UPDATE replicas SET used_ms = ? WHERE id = ?", now_ms, id);
}

enum tern_result tern_db_replicas_set_clock(struct tern_db *db, int64_t step)
{
    struct tern_query query = tern_query_write(
        db->sql, "UPDATE replicas SET used_ms = " TERN_NOT_BEFORE_1("used_ms + ?1"));
    tern_query_bind_bits(&query, (uint64_t)step);
    return tern_query_post(&query);
}

enum tern_result tern_db_replica_suspect(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                         bool suspect)
{
    // Every client of a round leaves the same replica: only the first one writes.
    return change(db, "UPDATE replicas SET suspect = ?1 WHERE id = ?2 AND suspect <> ?1", suspect,
                  id);
}

enum tern_result tern_db_replica_held(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                      bool *held)
{
    struct tern_query query =
        tern_query_read(db->sql, "SELECT 1 FROM clients WHERE replica = ? AND revoked = 0 LIMIT 1");
    tern_query_bind_blob(&query, id, TERN_SHA256_SIZE);
    *held = tern_query_row(&query);
    return tern_query_end(&query);
}

// --- Forgetting

// Adds what `text` sums up of the replica to *bytes.
static enum tern_result add_bytes(struct tern_db *db, const char *text,
                                  const uint8_t id[TERN_SHA256_SIZE], uint64_t *bytes)
{
    struct tern_query query = tern_query_read(db->sql, text);
    tern_query_bind_blob(&query, id, TERN_SHA256_SIZE);
    *bytes += tern_query_row(&query) ? tern_query_u64(&query) : 0;
    return tern_query_end(&query);
}

static enum tern_result leave_parent(struct tern_db *db, const struct tern_db_replica *replica)
{
    return replica->form != TERN_REPLICA_STEP
               ? TERN_OK
               : change(db, "UPDATE replicas SET children = children - 1, suspect = ? WHERE id = ?",
                        1, replica->parent);
}

enum tern_result tern_db_replica_drop(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                      uint64_t *freed)
{
    struct tern_db_replica replica;
    TERN_TRY(tern_db_replica_get(db, id, &replica));
    if (replica.children > 0) {
        return TERN_ERR_STATE;
    }
    TERN_TRY(leave_parent(db, &replica));
    TERN_TRY(tern_store_vector_drop(db, id, freed));
    TERN_TRY(add_bytes(db, "SELECT " TERN_SUM_OF("size") " FROM downloads WHERE from_replica = ?",
                       id, freed));
    TERN_TRY(add_bytes(db, "SELECT " TERN_SUM_OF("size") " FROM downloads WHERE to_replica = ?", id,
                       freed));
    TERN_TRY(tern_db_may_miss(run_on(db, "DELETE FROM downloads WHERE from_replica = ?", id)));
    TERN_TRY(tern_db_may_miss(run_on(db, "DELETE FROM downloads WHERE to_replica = ?", id)));
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
    struct tern_query query = tern_query_read(
        db->sql, "SELECT id FROM replicas WHERE suspect = 1 ORDER BY version LIMIT ?");
    return list_ids(&query, ids, max, count);
}

enum tern_result tern_db_replica_unused(struct tern_db *db, uint32_t before,
                                        uint8_t (*ids)[TERN_SHA256_SIZE], uint32_t max,
                                        uint32_t *count)
{
    struct tern_query query =
        tern_query_read(db->sql, "SELECT id FROM replicas WHERE children = 0 AND version < ?"
                                 " ORDER BY used_ms LIMIT ?");
    tern_query_bind(&query, before);
    return list_ids(&query, ids, max, count);
}

enum tern_result tern_db_replica_holders(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                         uint64_t *clients)
{
    *clients = 0;
    return add_bytes(db, "SELECT count(*) FROM clients WHERE replica = ? AND revoked = 0", id,
                     clients);
}

struct tern_db_rows *tern_db_replicas(struct tern_db *db)
{
    return tern_table_rows(tern_table_select(db, REPLICAS, "ORDER BY version, id"), REPLICAS);
}

// --- Kept whole

enum tern_result tern_db_replica_weights_put(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                             const float *weights, uint32_t count)
{
    static const uint8_t none[TERN_SHA256_SIZE];
    struct tern_db_replica row;
    TERN_TRY(tern_db_replica_get(db, id, &row));
    TERN_TRY(tern_store_vector_put(db, id, weights, count));
    TERN_TRY(leave_parent(db, &row));
    row.form = TERN_REPLICA_WHOLE;
    memcpy(row.parent, none, sizeof none);
    memcpy(row.download, none, sizeof none);
    row.depth = 0;
    row.bytes = 0;
    return tern_table_put(db, REPLICAS, &row);
}
