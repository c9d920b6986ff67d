// The model: a new database, files that came with it, weights, versions, downloads, and replicas, which are the weights
// that clients hold and what they are made of.
#include "store/tables.h"

#include "util/bytes.h"
#include "util/crc32c.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- Files that came with the model

static enum tern_result put_file(struct tern_db *db, const char *name, const void *data, size_t len)
{
    struct tern_file_row row = {.body = {data, len}};
    snprintf(row.name, sizeof row.name, "%s", name);
    tern_sha256(data, len, row.sha256);
    return tern_table_insert(db, &tern_table_files, &row);
}

// Returns a copy of the row's bytes with a NUL after them. NULL: their hash is wrong, or there is no memory.
static uint8_t *copy_file(struct tern_query *query, const struct tern_file_row *row)
{
    uint8_t sha256[TERN_SHA256_SIZE];
    tern_sha256(row->body.data, row->body.len, sha256);
    if (memcmp(sha256, row->sha256, sizeof sha256) != 0) {
        tern_query_damaged(query, "the hash of a file that came with the model is wrong");
        return NULL;
    }
    uint8_t *copy = malloc(row->body.len + 1);
    if (copy == NULL) {
        query->result = TERN_ERR_NO_MEMORY;
        return NULL;
    }
    if (row->body.len > 0) {
        memcpy(copy, row->body.data, row->body.len);
    }
    copy[row->body.len] = '\0';
    return copy;
}

// Reads a file. *data is malloc'ed; NULL on errors. NOT_FOUND
static enum tern_result get_file(struct tern_db *db, const char *name, uint8_t **data, size_t *len)
{
    struct tern_file_row row;
    struct tern_query query =
        tern_table_select(db, &tern_table_files, "WHERE name = ?", TERN_BIND(name));
    *data = NULL;
    *len = 0;
    if (!tern_table_next(&query, &tern_table_files, &row)) {
        return tern_query_missing(&query);
    }
    *data = copy_file(&query, &row);
    *len = *data != NULL ? row.body.len : 0;
    return tern_query_end(&query);
}

enum tern_result tern_db_kept_get(struct tern_db *db, uint8_t **kept, size_t *len)
{
    return get_file(db, "kept", kept, len);
}

enum tern_result tern_db_scaling_get(struct tern_db *db, uint8_t **body, size_t *len)
{
    return get_file(db, "scaling", body, len);
}

enum tern_result tern_db_scaling_fix(struct tern_db *db, const uint8_t *body, size_t len)
{
    TERN_TRY(put_file(db, "scaling", body, len));
    return tern_query_post(tern_db_write(db, "DELETE FROM statistics", NULL));
}

static enum tern_result load_manifest(struct tern_db *db)
{
    uint8_t *metadata = NULL;
    size_t len;
    TERN_TRY(tern_db_may_miss(get_file(db, "metadata", &metadata, &len)));
    const enum tern_result result =
        tern_db_may_miss(get_file(db, "manifest", &db->manifest, &db->manifest_len));
    if (result != TERN_OK) {
        free(metadata);
        return result;
    }
    db->metadata = (char *)metadata;
    return TERN_OK;
}

enum tern_result tern_db_federation(struct tern_db *db, struct tern_db_federation *federation)
{
    *federation = (struct tern_db_federation){0};
    TERN_TRY(tern_table_get(db, &tern_table_federation, "", NULL, federation));
    if (db->manifest == NULL &&
        db->metadata == NULL) { // the files never change, so one read is enough
        TERN_TRY(load_manifest(db));
    }
    federation->manifest = db->manifest;
    federation->manifest_len = db->manifest_len;
    federation->metadata = db->metadata;
    return TERN_OK;
}

// --- Vectors of float32, in parts with a checksum each

// Vectors are stored as they lie in memory; the format is little-endian float32.
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "vectors are stored little-endian");

#define PART_VALUES (1u << 18)
#define PART_BYTES (PART_VALUES * (uint32_t)sizeof(float))

#define PARTS_AT_ONCE "4" // parts that are dropped together: 4 MiB take some 5 ms
#define PARTS_FEW 4       // parts of the longest vector that is stored, or dropped, at once

static uint32_t part_count(uint32_t count)
{
    return count / PART_VALUES + (count % PART_VALUES != 0);
}

static size_t part_bytes(uint32_t count, uint32_t part)
{
    uint32_t left = count - part * PART_VALUES;
    return (left < PART_VALUES ? left : PART_VALUES) * sizeof(float);
}

static enum tern_result put_part(struct tern_db *db, unsigned kind, const char *name,
                                 uint32_t version, const float *values, uint32_t count,
                                 uint32_t part)
{
    struct tern_part_row row = {
        .kind = (enum tern_db_vector_kind)kind, .version = version, .part = part, .count = count};
    if (part >= part_count(count)) {
        return TERN_ERR_ARGUMENT;
    }
    snprintf(row.name, sizeof row.name, "%s", name);
    row.body.data = values + (size_t)part * PART_VALUES;
    row.body.len = part_bytes(count, part);
    row.crc32c = tern_crc32c(0, row.body.data, row.body.len);
    return tern_table_put(db, &tern_table_weights, &row);
}

// TERN_ERR_ARGUMENT count is 0
static enum tern_result put_vector(struct tern_db *db, unsigned kind, const char *name,
                                   uint32_t version, const float *values, uint32_t count)
{
    if (count == 0) {
        return TERN_ERR_ARGUMENT;
    }
    for (uint32_t part = part_count(count); part-- > 0;) {
        TERN_TRY(put_part(db, kind, name, version, values, count, part));
    }
    return TERN_OK;
}

static enum tern_result fail_other_count(struct tern_db *db, uint32_t stored, uint32_t count)
{
    char sentence[80];
    snprintf(sentence, sizeof sentence, "the stored vector has %u values, not %u", stored, count);
    return tern_sql_fail(db->sql, TERN_ERR_CORRUPT, sentence);
}

// Checks a part of a vector and copies it to its offset in values.
static enum tern_result take_part(struct tern_db *db, const struct tern_part_row *row,
                                  uint32_t part, float *values, uint32_t count)
{
    if (row->count != count) {
        return fail_other_count(db, row->count, count);
    }
    if (part >= part_count(count) || row->part != part ||
        row->body.len != part_bytes(count, part) ||
        tern_crc32c(0, row->body.data, row->body.len) != row->crc32c) {
        return tern_sql_fail_damaged(db->sql, "the checksum of a stored vector is wrong");
    }
    memcpy(values + (size_t)part * PART_VALUES, row->body.data, row->body.len);
    return TERN_OK;
}

// Reads a vector. NOT_FOUND; TERN_ERR_CORRUPT the stored vector has another count. On errors the values are
// unspecified.
static enum tern_result get_vector(struct tern_db *db, unsigned kind, const char *name,
                                   uint32_t version, float *values, uint32_t count)
{
    struct tern_part_row row = {.version = 0};
    struct tern_query query = tern_table_select(
        db, &tern_table_weights, "WHERE kind = ? AND name = ? AND version = ? ORDER BY part",
        TERN_BIND(kind, name, version));
    enum tern_result taken = TERN_OK;
    uint32_t part = 0;
    for (; taken == TERN_OK && tern_table_next(&query, &tern_table_weights, &row); part++) {
        taken = take_part(db, &row, part, values, count);
    }
    TERN_TRY(tern_query_end(&query));
    TERN_TRY(taken);
    if (part == 0) {
        return TERN_ERR_NOT_FOUND;
    }
    return part == part_count(count)
               ? TERN_OK
               : tern_sql_fail_damaged(db->sql, "part of a stored vector is missing");
}

// Reads a vector that always has as many values as the model: another count is damage.
static enum tern_result get_model_vector(struct tern_db *db, unsigned kind, const char *name,
                                         uint32_t version, float *values, uint32_t count)
{
    enum tern_result result = get_vector(db, kind, name, version, values, count);
    return result != TERN_ERR_CORRUPT
               ? result
               : tern_sql_fail_damaged(db->sql, "a stored vector is not as long as the model");
}

// --- Weights of a version

enum tern_result tern_db_weights_put(struct tern_db *db, enum tern_db_weights kind,
                                     uint32_t version, const float *weights, uint32_t count)
{
    return put_vector(db, kind, "", version, weights, count);
}

enum tern_result tern_db_weights_get(struct tern_db *db, enum tern_db_weights kind,
                                     uint32_t version, float *weights, uint32_t count)
{
    return get_vector(db, kind, "", version, weights, count);
}

// --- States of strategies

enum tern_result tern_db_state_put(struct tern_db *db, const char *name, uint32_t version,
                                   const float *values, uint32_t count)
{
    return put_vector(db, TERN_VECTOR_STATE, name, version, values, count);
}

enum tern_result tern_db_state_get(struct tern_db *db, const char *name, uint32_t version,
                                   float *values, uint32_t count)
{
    return get_model_vector(db, TERN_VECTOR_STATE, name, version, values, count);
}

// --- Checkpoints

uint32_t tern_db_vector_parts(uint32_t count)
{
    return part_count(count);
}

enum tern_result tern_db_weights_put_part(struct tern_db *db, enum tern_db_weights kind,
                                          uint32_t version, const float *weights, uint32_t count,
                                          uint32_t part)
{
    return put_part(db, kind, "", version, weights, count, part);
}

enum tern_result tern_db_state_put_part(struct tern_db *db, const char *name, uint32_t version,
                                        const float *values, uint32_t count, uint32_t part)
{
    return put_part(db, TERN_VECTOR_STATE, name, version, values, count, part);
}

enum tern_result tern_db_checkpoint(struct tern_db *db, uint32_t *version)
{
    static const char text[] = "SELECT version FROM weights WHERE kind = ? AND name = ''"
                               " AND part = 0 ORDER BY version DESC LIMIT 1";
    return tern_query_get_u32(tern_db_read(db, text, TERN_BIND(TERN_WEIGHTS_GLOBAL)), version);
}

enum tern_result tern_db_checkpoint_drop_some(struct tern_db *db, bool *more)
{
    uint32_t version = 0;
    TERN_TRY(tern_db_checkpoint(db, &version));
    struct tern_query query = tern_db_write(
        db,
        "DELETE FROM weights WHERE (kind, name, version, part) IN (SELECT kind, name,"
        " version, part FROM weights WHERE kind IN (?, ?, ?) AND version <> ?"
        " LIMIT " PARTS_AT_ONCE ")",
        TERN_BIND(TERN_WEIGHTS_GLOBAL, TERN_WEIGHTS_REPLICA, TERN_VECTOR_STATE, version));
    const enum tern_result dropped = tern_query_run_one(query);
    *more = dropped == TERN_OK;
    return tern_db_may_miss(dropped);
}

// --- Weights that are kept for labels, restored rounds, and evaluators that have not reported yet

// Sets *parts to the number of stored parts: the last ones.
static enum tern_result count_pinned(struct tern_db *db, const char *name, uint32_t version,
                                     uint32_t *parts)
{
    static const char text[] =
        "SELECT count(*) FROM weights WHERE kind = ? AND name = ? AND version = ?";
    return tern_query_get_u32(tern_db_read(db, text, TERN_BIND(TERN_WEIGHTS_PINNED, name, version)),
                              parts);
}

enum tern_result tern_db_pinned_put_some(struct tern_db *db, const char *name, uint32_t version,
                                         const float *weights, uint32_t count, bool *more)
{
    const uint32_t all = part_count(count);
    uint32_t stored = 0;
    TERN_TRY(count_pinned(db, name, version, &stored));
    *more = stored + 1 < all;
    return stored < all
               ? put_part(db, TERN_WEIGHTS_PINNED, name, version, weights, count, all - 1 - stored)
               : TERN_OK;
}

enum tern_result tern_db_pinned_is_whole(struct tern_db *db, const char *name, uint32_t version,
                                         bool *whole)
{
    static const char text[] = "SELECT count(*) FROM weights WHERE kind = ? AND name = ?"
                               " AND version = ? AND part = 0";
    uint32_t first = 0;
    TERN_TRY(tern_query_get_u32(
        tern_db_read(db, text, TERN_BIND(TERN_WEIGHTS_PINNED, name, version)), &first));
    *whole = first > 0;
    return TERN_OK;
}

enum tern_result tern_db_pinned_get(struct tern_db *db, const char *name, uint32_t version,
                                    float *weights, uint32_t count)
{
    bool whole = false;
    TERN_TRY(tern_db_pinned_is_whole(db, name, version, &whole));
    return whole ? get_model_vector(db, TERN_WEIGHTS_PINNED, name, version, weights, count)
                 : TERN_ERR_NOT_FOUND;
}

#define RECENT_VERSIONS 16 // newest versions that are kept for evaluators
static_assert(TERN_DB_RECENT_VALUES <= PART_VALUES, "a version's weights are stored at once");

// The + keeps SQLite from reading all rounds, of which few are restored ones.
static_assert(TERN_ROUND_RESTORED == 2, "SQL below has 2 for RESTORED");

enum tern_result tern_db_pinned_drop_some(struct tern_db *db, bool *more)
{
    struct tern_query query = tern_db_write(
        db,
        "DELETE FROM weights WHERE (kind, name, version, part) IN (SELECT kind, name, version, part"
        " FROM weights WHERE kind = ?1"
        " AND NOT (name = '' AND version IN (SELECT version FROM labels))"
        " AND NOT (name = '' AND weights.count <= ?2"
        " AND EXISTS (SELECT 1 FROM clients WHERE evaluator = 1)"
        " AND version + ?3 > (SELECT max(version) FROM versions))"
        " AND NOT EXISTS (SELECT 1 FROM orders WHERE orders.restored = weights.version"
        " AND orders.strategy_parameters = weights.name)"
        " AND NOT EXISTS (SELECT 1 FROM rounds WHERE rounds.mode = 2"
        " AND rounds.restored = weights.version AND rounds.strategy_parameters = weights.name"
        " AND +rounds.round > (SELECT rounds_pruned FROM totals))"
        " LIMIT " PARTS_AT_ONCE ")",
        TERN_BIND(TERN_WEIGHTS_PINNED, TERN_DB_RECENT_VALUES, RECENT_VERSIONS));
    const enum tern_result dropped = tern_query_run_one(query);
    *more = dropped == TERN_OK;
    return tern_db_may_miss(dropped);
}

// --- Labels, and the operator's order to restore weights

#define LABELS &tern_table_labels
#define ORDERS &tern_table_orders

enum tern_result tern_db_label_put(struct tern_db *db, const struct tern_db_label *label)
{
    return tern_table_put(db, LABELS, label);
}

enum tern_result tern_db_label_get(struct tern_db *db, const char *name, struct tern_db_label *out)
{
    return tern_table_get(db, LABELS, "WHERE name = ?", TERN_BIND(name), out);
}

enum tern_result tern_db_label_drop(struct tern_db *db, const char *name)
{
    return tern_query_run_one(
        tern_db_write(db, "DELETE FROM labels WHERE name = ?", TERN_BIND(name)));
}

struct tern_db_rows *tern_db_labels(struct tern_db *db)
{
    return tern_table_list(db, LABELS, "ORDER BY version, name", NULL);
}

enum tern_result tern_db_order_put(struct tern_db *db, struct tern_db_order *order)
{
    order->id = 1;
    return tern_table_put(db, ORDERS, order);
}

enum tern_result tern_db_order_get(struct tern_db *db, struct tern_db_order *out)
{
    return tern_table_get(db, ORDERS, "WHERE id = 1", NULL, out);
}

enum tern_result tern_db_order_drop(struct tern_db *db)
{
    return tern_query_post(tern_db_write(db, "DELETE FROM orders", NULL));
}

// --- Vectors of replicas that are kept whole

// Sets *parts to the number of parts of a replica's weights, or of a download, that are stored: the first ones.
static enum tern_result count_parts(struct tern_db *db, unsigned kind, const char *name,
                                    uint32_t *parts)
{
    static const char text[] =
        "SELECT count(*) FROM weights WHERE kind = ? AND name = ? AND version = 0";
    return tern_query_get_u32(tern_db_read(db, text, TERN_BIND(kind, name)), parts);
}

// Stores the part behind those that are stored. *more: more parts follow
static enum tern_result put_next_part_of_replica(struct tern_db *db,
                                                 const uint8_t id[TERN_SHA256_SIZE],
                                                 const float *weights, uint32_t count, bool *more)
{
    char name[TERN_VECTOR_NAME_MAX];
    uint32_t part = 0;
    tern_hex_encode(id, TERN_SHA256_SIZE, name);
    TERN_TRY(count_parts(db, TERN_VECTOR_OF_REPLICA, name, &part));
    *more = part + 1 < part_count(count);
    return part < part_count(count)
               ? put_part(db, TERN_VECTOR_OF_REPLICA, name, 0, weights, count, part)
               : TERN_OK;
}

enum tern_result tern_db_replica_weights_put_some(struct tern_db *db,
                                                  const uint8_t id[TERN_SHA256_SIZE],
                                                  const float *weights, uint32_t count, bool *more)
{
    *more = false;
    return part_count(count) > PARTS_FEW ? put_next_part_of_replica(db, id, weights, count, more)
                                         : TERN_OK;
}

static enum tern_result put_replica_vector(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                           const float *weights, uint32_t count)
{
    bool more = true;
    while (more) {
        TERN_TRY(put_next_part_of_replica(db, id, weights, count, &more));
    }
    return TERN_OK;
}

// Leaves the parts of a long vector to tern_db_parts_drop_some().
static enum tern_result drop_replica_vector(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                            uint64_t *freed)
{
    static const char sum[] =
        "SELECT " TERN_SUM_OF("length(body)") " FROM weights WHERE kind = ? AND name = ?";
    static const char drop[] = "DELETE FROM weights WHERE kind = ? AND name = ?";
    char name[TERN_VECTOR_NAME_MAX];
    tern_hex_encode(id, TERN_SHA256_SIZE, name);
    const struct tern_sql_value *vector = TERN_BIND(TERN_VECTOR_OF_REPLICA, name);
    TERN_TRY(tern_query_get(tern_db_read(db, sum, vector), freed));
    return *freed > 0 && *freed <= (uint64_t)PARTS_FEW * PART_BYTES
               ? tern_query_post(tern_db_write(db, drop, vector))
               : TERN_OK;
}

enum tern_result tern_db_replica_weights_get(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                             float *weights, uint32_t count)
{
    char name[TERN_VECTOR_NAME_MAX];
    tern_hex_encode(id, TERN_SHA256_SIZE, name);
    return get_model_vector(db, TERN_VECTOR_OF_REPLICA, name, 0, weights, count);
}

// --- A new database

// Rows of a new database.
struct content {
    const struct tern_db_federation *federation;
    const float *weights; // weights of version 0; NULL: the seed makes them
    uint32_t count;
    const struct tern_db_maker *maker; // NULL: no row of the audit log
};

static enum tern_result insert_content(struct tern_db *db, const struct content *content)
{
    struct tern_db_federation row = *content->federation;
    TERN_TRY(tern_table_insert(db, &tern_table_federation, &row));
    if (row.manifest != NULL) {
        TERN_TRY(put_file(db, "manifest", row.manifest, row.manifest_len));
    }
    if (row.metadata != NULL) {
        TERN_TRY(put_file(db, "metadata", row.metadata, strlen(row.metadata)));
    }
    if (row.kept != NULL) {
        TERN_TRY(put_file(db, "kept", row.kept, row.kept_len));
    }
    return content->weights == NULL
               ? TERN_OK
               : tern_db_weights_put(db, TERN_WEIGHTS_INITIAL, 0, content->weights, content->count);
}

static enum tern_result audit_maker(struct tern_db *db, const struct content *content)
{
    (void)tern_db_act_as(db, content->maker->actor);
    return tern_db_audit(db, content->federation->created_ms, content->maker->action, "",
                         content->maker->after, "the federation");
}

static enum tern_result fill(struct tern_sql *sql, void *ctx)
{
    struct tern_db db = {.sql = sql};
    const struct content *content = ctx;
    TERN_TRY(tern_schema_create(sql));
    enum tern_result result = insert_content(&db, content);
    if (result == TERN_OK && content->maker != NULL) {
        result = audit_maker(&db, content);
    }
    if (result == TERN_OK) {
        result = tern_deferred_flush(&db);
    }
    tern_db_forget(&db); // the connection no longer uses its texts
    return result;
}

enum tern_result tern_db_create(const char *path, const struct tern_db_federation *federation,
                                const float *weights, uint32_t count,
                                const struct tern_db_maker *maker, char why[256])
{
    struct content content = {federation, weights, count, maker};
    return tern_sql_create(path, count, fill, &content, why);
}

// --- Versions

enum tern_result tern_db_version_put(struct tern_db *db, const struct tern_db_version *version)
{
    return tern_table_put(db, &tern_table_versions, version);
}

enum tern_result tern_db_version_get(struct tern_db *db, uint32_t version,
                                     struct tern_db_version *out)
{
    return tern_table_get(db, &tern_table_versions, "WHERE version = ?", TERN_BIND(version), out);
}

enum tern_result tern_db_version_last(struct tern_db *db, struct tern_db_version *out)
{
    return tern_table_get(db, &tern_table_versions, "ORDER BY version DESC LIMIT 1", NULL, out);
}

enum tern_result tern_db_version_of_replica(struct tern_db *db,
                                            const uint8_t replica[TERN_SHA256_SIZE],
                                            uint32_t *version)
{
    struct tern_db_version row;
    TERN_TRY(tern_table_get(db, &tern_table_versions,
                            "WHERE replica = ? ORDER BY version DESC LIMIT 1", TERN_BIND(replica),
                            &row));
    *version = row.version;
    return TERN_OK;
}

// --- Downloads

#define DOWNLOADS &tern_table_downloads

typedef enum tern_result (*viewer)(void *ctx, size_t at, size_t len, const uint8_t **data);
typedef enum tern_result (*taker)(void *ctx, const uint8_t *data, size_t len);

// A download of more than PART_BYTES has its bytes in parts, as a vector has, and its row is stored after them: parts without
// a row are of a download that is being stored, was being stored when the program ended, or was deleted.
static bool has_parts(const struct tern_db_download *download)
{
    return download->size > PART_BYTES;
}

static uint32_t bytes_of_part(uint32_t size, uint32_t part)
{
    const uint32_t left = size - part * PART_BYTES;
    return left < PART_BYTES ? left : PART_BYTES;
}

// Stores the part behind those that are stored. *more: more parts follow
static enum tern_result put_next_part(struct tern_db *db, const struct tern_db_download *download,
                                      viewer view, void *ctx, bool *more)
{
    const uint32_t values = download->size / (uint32_t)sizeof(float) + 1;
    struct tern_part_row row = {.kind = TERN_VECTOR_OF_DOWNLOAD, .count = values};
    const uint8_t *data = NULL;
    tern_hex_encode(download->sha256, TERN_SHA256_SIZE, row.name);
    TERN_TRY(count_parts(db, TERN_VECTOR_OF_DOWNLOAD, row.name, &row.part));
    const uint64_t at = (uint64_t)row.part * PART_BYTES;
    *more = at + PART_BYTES < download->size;
    if (at >= download->size) {
        return TERN_OK;
    }
    row.body.len = bytes_of_part(download->size, row.part);
    TERN_TRY(view(ctx, (size_t)at, row.body.len, &data));
    row.body.data = data;
    row.crc32c = tern_crc32c(0, data, row.body.len);
    return tern_table_put(db, &tern_table_weights, &row);
}

// The name is the hash of the bytes, so a download that is there already is the same one.
static enum tern_result put_whole(struct tern_db *db, struct tern_db_download row, viewer view,
                                  void *ctx)
{
    const uint8_t *data = NULL;
    bool added;
    TERN_TRY(view(ctx, 0, row.size, &data));
    TERN_TRY(tern_table_keep(db, DOWNLOADS, &row, &added));
    struct tern_body_row body = {row.id, {data, row.size}};
    return added ? tern_table_insert(db, &tern_table_download_bodies, &body) : TERN_OK;
}

enum tern_result tern_db_download_put_some(struct tern_db *db,
                                           const struct tern_db_download *download, viewer view,
                                           void *ctx, bool *more)
{
    struct tern_db_download row = *download;
    bool added;
    *more = false;
    if (!has_parts(download)) {
        return put_whole(db, row, view, ctx);
    }
    TERN_TRY(put_next_part(db, download, view, ctx, more));
    return *more ? TERN_OK : tern_table_keep(db, DOWNLOADS, &row, &added);
}

static enum tern_result view_memory(void *ctx, size_t at, size_t len, const uint8_t **data)
{
    (void)len;
    *data = (const uint8_t *)ctx + at;
    return TERN_OK;
}

enum tern_result tern_db_download_put(struct tern_db *db, const struct tern_db_download *download,
                                      const uint8_t *blob)
{
    bool more = true;
    while (more) {
        TERN_TRY(
            tern_db_download_put_some(db, download, view_memory, (void *)(uintptr_t)blob, &more));
    }
    return TERN_OK;
}

// NOT_FOUND  another connection has deleted the download since its row was read
static enum tern_result fail_missing(struct tern_db *db, const struct tern_db_download *download)
{
    struct tern_db_download row;
    TERN_TRY(tern_table_get(db, DOWNLOADS, "WHERE sha256 = ?", TERN_BIND(download->sha256), &row));
    return tern_sql_fail_damaged(db->sql, "part of a stored download is missing");
}

static enum tern_result take_part_of(struct tern_db *db, const struct tern_db_download *download,
                                     uint32_t part, taker take, void *ctx)
{
    char name[TERN_VECTOR_NAME_MAX];
    struct tern_part_row row;
    tern_hex_encode(download->sha256, TERN_SHA256_SIZE, name);
    struct tern_query query = tern_table_select(
        db, &tern_table_weights, "WHERE kind = ? AND name = ? AND version = 0 AND part = ?",
        TERN_BIND(TERN_VECTOR_OF_DOWNLOAD, name, part));
    enum tern_result taken = TERN_OK;
    if (!tern_table_next(&query, &tern_table_weights, &row)) {
        TERN_TRY(tern_query_end(&query));
        return fail_missing(db, download);
    }
    if (row.body.len == bytes_of_part(download->size, part)) {
        taken = take(ctx, row.body.data, row.body.len);
    } else {
        tern_query_damaged(&query, "part of a stored download has another length");
    }
    TERN_TRY(tern_query_end(&query));
    return taken;
}

static enum tern_result take_parts(struct tern_db *db, const struct tern_db_download *download,
                                   taker take, void *ctx)
{
    for (uint32_t part = 0; (uint64_t)part * PART_BYTES < download->size; part++) {
        TERN_TRY(take_part_of(db, download, part, take, ctx));
    }
    return TERN_OK;
}

struct hashed {
    taker take;
    void *ctx;
    struct tern_sha256 hash;
};

static enum tern_result hash_and_take(void *ctx, const uint8_t *data, size_t len)
{
    struct hashed *hashed = ctx;
    tern_sha256_update(&hashed->hash, data, len);
    return hashed->take(hashed->ctx, data, len);
}

enum tern_result tern_db_download_stream(struct tern_db *db,
                                         const struct tern_db_download *download, taker take,
                                         void *ctx)
{
    struct hashed hashed = {.take = take, .ctx = ctx};
    uint8_t digest[TERN_SHA256_SIZE];
    tern_sha256_init(&hashed.hash);
    TERN_TRY(has_parts(download)
                 ? take_parts(db, download, hash_and_take, &hashed)
                 : db->sql->driver->stream(db->sql, tern_table_download_bodies.name, "body",
                                           download->id, download->size, hash_and_take, &hashed));
    tern_sha256_final(&hashed.hash, digest);
    return memcmp(digest, download->sha256, sizeof digest) == 0
               ? TERN_OK
               : tern_sql_fail_damaged(db->sql, "the bytes of a download do not match its name");
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

static enum tern_result append(void *ctx, const uint8_t *data, size_t len)
{
    uint8_t **end = ctx;
    memcpy(*end, data, len);
    *end += len;
    return TERN_OK;
}

enum tern_result tern_db_download_get(struct tern_db *db, const uint8_t sha256[TERN_SHA256_SIZE],
                                      struct tern_db_download *out, uint8_t *dst, size_t dst_size)
{
    TERN_TRY(tern_table_get(db, DOWNLOADS, "WHERE sha256 = ?", TERN_BIND(sha256), out));
    if (dst == NULL) {
        return TERN_OK;
    }
    if (dst_size < out->size) {
        return TERN_ERR_NO_SPACE;
    }
    if (has_parts(out)) {
        return tern_db_download_stream(db, out, append, &dst);
    }
    struct tern_body_row row;
    struct tern_query query =
        tern_table_select(db, &tern_table_download_bodies, "WHERE id = ?", TERN_BIND(out->id));
    if (!tern_table_next(&query, &tern_table_download_bodies, &row)) {
        return tern_query_missing(&query);
    }
    copy_body(&query, &row.body, out, dst);
    return tern_query_end(&query);
}

static enum tern_result ignore(void *ctx, const uint8_t *data, size_t len)
{
    (void)ctx;
    (void)data;
    (void)len;
    return TERN_OK;
}

enum tern_result tern_downloads_check_parts(struct tern_db *db)
{
    struct tern_db_download download;
    struct tern_db_rows *rows =
        tern_table_list(db, DOWNLOADS, "WHERE size > ?", TERN_BIND(PART_BYTES));
    while (tern_db_next(rows, &download)) {
        tern_db_check_row(rows, tern_db_download_stream(db, &download, ignore, NULL));
    }
    return tern_db_end(rows);
}

static enum tern_result is_unused(struct tern_db *db, unsigned kind,
                                  const uint8_t owner[TERN_SHA256_SIZE], bool *unused)
{
    struct tern_db_download download;
    struct tern_db_replica replica;
    const enum tern_result found = kind == TERN_VECTOR_OF_DOWNLOAD
                                       ? tern_db_download_get(db, owner, &download, NULL, 0)
                                       : tern_db_replica_get(db, owner, &replica);
    *unused = found == TERN_ERR_NOT_FOUND || (kind == TERN_VECTOR_OF_REPLICA && found == TERN_OK &&
                                              replica.form != TERN_REPLICA_WHOLE);
    return tern_db_may_miss(found);
}

// Finds parts whose download has no row, or whose replica is not whole, by the name under which they are stored.
static enum tern_result find_unused_parts(struct tern_db *db, unsigned kind,
                                          char name[TERN_VECTOR_NAME_MAX], bool *found)
{
    static const char text[] =
        "SELECT name FROM weights WHERE kind = ? AND version = 0 AND part = 0";
    uint8_t owner[TERN_SHA256_SIZE];
    enum tern_result result = TERN_OK;
    struct tern_query query = tern_db_read(db, text, TERN_BIND(kind));
    *found = false;
    while (!*found && result == TERN_OK && tern_query_row(&query)) {
        tern_query_text(&query, name, TERN_VECTOR_NAME_MAX);
        if (tern_hex_decode(name, owner, sizeof owner) != TERN_OK) {
            tern_query_damaged(&query, "stored parts have no name");
        } else {
            result = is_unused(db, kind, owner, found);
        }
    }
    TERN_TRY(tern_query_end(&query));
    return result;
}

// Drops the last parts first: those that are left can be continued.
static enum tern_result drop_unused_parts(struct tern_db *db, unsigned kind, bool *more)
{
    static const char text[] =
        "DELETE FROM weights WHERE kind = ?1 AND name = ?2 AND version = 0 AND part >="
        " (SELECT count(*) FROM weights WHERE kind = ?1 AND name = ?2 AND version = 0)"
        " - " PARTS_AT_ONCE;
    char name[TERN_VECTOR_NAME_MAX];
    TERN_TRY(find_unused_parts(db, kind, name, more));
    if (!*more) {
        return TERN_OK;
    }
    return tern_query_post(tern_db_write(db, text, TERN_BIND(kind, name)));
}

enum tern_result tern_db_parts_drop_some(struct tern_db *db, uint32_t count, bool *more)
{
    TERN_TRY(drop_unused_parts(db, TERN_VECTOR_OF_DOWNLOAD, more));
    return !*more && part_count(count) > PARTS_FEW
               ? drop_unused_parts(db, TERN_VECTOR_OF_REPLICA, more)
               : TERN_OK;
}

enum tern_result tern_db_download_to(struct tern_db *db, uint32_t to_version, bool snapshot,
                                     struct tern_db_download *out)
{
    return tern_table_get(db, DOWNLOADS,
                          "WHERE to_version = ? AND snapshot = ? AND to_replica ="
                          " (SELECT replica FROM versions WHERE version = to_version)"
                          " ORDER BY id DESC LIMIT 1",
                          TERN_BIND(to_version, snapshot), out);
}

#define OPENS_NOTHING                                                                              \
    " FROM downloads WHERE snapshot = 1 AND to_version < ? AND NOT EXISTS (SELECT 1 FROM replicas" \
    " WHERE replicas.id = to_replica AND download = sha256)"

enum tern_result tern_db_snapshot_prune(struct tern_db *db, uint32_t to_version, uint64_t *freed)
{
    const struct tern_sql_value *before = TERN_BIND(to_version);
    TERN_TRY(tern_query_get(tern_db_read(db, "SELECT " TERN_SUM_OF("size") OPENS_NOTHING, before),
                            freed));
    return *freed > 0 ? tern_query_post(tern_db_write(db, "DELETE" OPENS_NOTHING, before))
                      : TERN_OK;
}

// --- Downloads between replicas

enum tern_result tern_db_delta_find(struct tern_db *db, const uint8_t from[TERN_SHA256_SIZE],
                                    uint32_t to_version, const char *codec,
                                    struct tern_db_download *out)
{
    return tern_table_get(db, DOWNLOADS,
                          "WHERE from_replica = ? AND to_version = ?"
                          " AND codec = ? AND snapshot = 0 LIMIT 1",
                          TERN_BIND(from, to_version, codec), out);
}

enum tern_result tern_db_snapshot_find(struct tern_db *db, uint32_t to_version, const char *codec,
                                       struct tern_db_download *out)
{
    return tern_table_get(db, DOWNLOADS,
                          "WHERE to_version = ? AND snapshot = 1 AND codec = ? AND EXISTS (SELECT 1"
                          " FROM replicas WHERE replicas.id = to_replica AND download = sha256)"
                          " LIMIT 1",
                          TERN_BIND(to_version, codec), out);
}

// --- Replicas

#define REPLICAS &tern_table_replicas

static enum tern_result write_for_replica(struct tern_db *db, const char *text,
                                          const uint8_t id[TERN_SHA256_SIZE])
{
    return tern_query_run_one(tern_db_write(db, text, TERN_BIND(id)));
}

enum tern_result tern_db_replica_put(struct tern_db *db, const struct tern_db_replica *replica)
{
    struct tern_db_replica row = *replica;
    enum tern_result found = tern_db_replica_get(db, replica->id, &row);
    if (found != TERN_ERR_NOT_FOUND) {
        return found;
    }
    if (replica->form == TERN_REPLICA_STEP) {
        TERN_TRY(write_for_replica(db, "UPDATE replicas SET children = children + 1 WHERE id = ?",
                                   replica->parent));
    }
    row = *replica;
    row.children = 0;
    return tern_table_insert(db, REPLICAS, &row);
}

enum tern_result tern_db_replica_get(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                     struct tern_db_replica *out)
{
    return tern_table_get(db, REPLICAS, "WHERE id = ?", TERN_BIND(id), out);
}

enum tern_result tern_db_replica_id(struct tern_db *db, const uint8_t *start, size_t len,
                                    uint8_t id[TERN_SHA256_SIZE])
{
    uint8_t least[TERN_SHA256_SIZE] = {0};
    struct tern_db_replica replica;
    struct tern_db_version version;
    memcpy(least, start, len);
    enum tern_result found = tern_table_get(db, REPLICAS, "WHERE id >= ? ORDER BY id LIMIT 1",
                                            TERN_BIND(least), &replica);
    TERN_TRY(tern_db_may_miss(found));
    if (found == TERN_OK && memcmp(replica.id, start, len) == 0) {
        memcpy(id, replica.id, TERN_SHA256_SIZE);
        return TERN_OK;
    }
    TERN_TRY(tern_table_get(db, &tern_table_versions, "WHERE replica >= ? ORDER BY replica LIMIT 1",
                            TERN_BIND(least), &version));
    if (memcmp(version.replica, start, len) != 0) {
        return TERN_ERR_NOT_FOUND;
    }
    memcpy(id, version.replica, TERN_SHA256_SIZE);
    return TERN_OK;
}

// Tables of one changed column of replicas, for tern_table_change().
static const struct tern_column use_columns[] = {
    TERN_TABLE_COLUMN(tern_db_replica, HASH, id, , KEY, , )
        TERN_TABLE_COLUMN(tern_db_replica, U64, used_ms, , SET, , )};
static const struct tern_column suspect_columns[] = {
    TERN_TABLE_COLUMN(tern_db_replica, HASH, id, , KEY, , )
        TERN_TABLE_COLUMN(tern_db_replica, BOOL, suspect, , SET, , )};
static const struct tern_table replica_uses = {"replicas", use_columns, 2};
static const struct tern_table replica_suspects = {"replicas", suspect_columns, 2};

static enum tern_result set_number(struct tern_db *db, const char *text, uint64_t number,
                                   const uint8_t id[TERN_SHA256_SIZE])
{
    return tern_query_post(tern_db_write(db, text, TERN_BIND(number, id)));
}

enum tern_result tern_db_replica_use(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                     uint64_t now_ms)
{
    struct tern_db_replica row = {.used_ms = now_ms};
    memcpy(row.id, id, sizeof row.id);
    return tern_table_change(db, &replica_uses, &row);
}

enum tern_result tern_db_replicas_set_clock(struct tern_db *db, int64_t step)
{
    return tern_query_post(tern_db_write(
        db, "UPDATE replicas SET used_ms = " TERN_NOT_BEFORE_1("used_ms + ?1"), TERN_BIND(step)));
}

enum tern_result tern_db_replica_suspect(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                         bool suspect)
{
    struct tern_db_replica row = {.suspect = suspect};
    memcpy(row.id, id, sizeof row.id);
    return tern_table_change(db, &replica_suspects, &row);
}

enum tern_result tern_db_replica_held(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                      bool *held)
{
    struct tern_query query = tern_db_read(
        db, "SELECT 1 FROM clients WHERE replica = ? AND revoked = 0 LIMIT 1", TERN_BIND(id));
    *held = tern_query_row(&query);
    return tern_query_end(&query);
}

// --- Dropping replicas

// Adds the number that `text` returns for the replica to *bytes.
static enum tern_result add_bytes(struct tern_db *db, const char *text,
                                  const uint8_t id[TERN_SHA256_SIZE], uint64_t *bytes)
{
    uint64_t more = 0;
    TERN_TRY(tern_query_get(tern_db_read(db, text, TERN_BIND(id)), &more));
    *bytes += more;
    return TERN_OK;
}

static enum tern_result leave_parent(struct tern_db *db, const struct tern_db_replica *replica)
{
    return replica->form != TERN_REPLICA_STEP
               ? TERN_OK
               : set_number(db,
                            "UPDATE replicas SET children = children - 1, suspect = ? WHERE id = ?",
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
    TERN_TRY(drop_replica_vector(db, id, freed));
    TERN_TRY(add_bytes(db, "SELECT " TERN_SUM_OF("size") " FROM downloads WHERE from_replica = ?",
                       id, freed));
    TERN_TRY(add_bytes(db, "SELECT " TERN_SUM_OF("size") " FROM downloads WHERE to_replica = ?", id,
                       freed));
    TERN_TRY(tern_db_may_miss(
        write_for_replica(db, "DELETE FROM downloads WHERE from_replica = ?", id)));
    TERN_TRY(
        tern_db_may_miss(write_for_replica(db, "DELETE FROM downloads WHERE to_replica = ?", id)));
    return write_for_replica(db, "DELETE FROM replicas WHERE id = ?", id);
}

static enum tern_result list_ids(struct tern_query query, uint8_t (*ids)[TERN_SHA256_SIZE],
                                 uint32_t max, uint32_t *count)
{
    *count = 0;
    while (*count < max && tern_query_row(&query)) {
        tern_query_hash(&query, ids[(*count)++]);
    }
    return tern_query_end(&query);
}

enum tern_result tern_db_replica_suspects(struct tern_db *db, uint8_t (*ids)[TERN_SHA256_SIZE],
                                          uint32_t max, uint32_t *count)
{
    return list_ids(
        tern_db_read(db, "SELECT id FROM replicas WHERE suspect = 1 ORDER BY version LIMIT ?",
                     TERN_BIND(max)),
        ids, max, count);
}

enum tern_result tern_db_replica_unused(struct tern_db *db, uint32_t before,
                                        uint8_t (*ids)[TERN_SHA256_SIZE], uint32_t max,
                                        uint32_t *count)
{
    return list_ids(tern_db_read(db,
                                 "SELECT id FROM replicas WHERE children = 0 AND version < ?"
                                 " ORDER BY used_ms LIMIT ?",
                                 TERN_BIND(before, max)),
                    ids, max, count);
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
    return tern_table_list(db, REPLICAS, "ORDER BY version, id", NULL);
}

// --- Replicas that are kept whole

enum tern_result tern_db_replica_weights_put(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                             const float *weights, uint32_t count)
{
    static const uint8_t none[TERN_SHA256_SIZE];
    struct tern_db_replica row;
    TERN_TRY(tern_db_replica_get(db, id, &row));
    TERN_TRY(put_replica_vector(db, id, weights, count));
    TERN_TRY(leave_parent(db, &row));
    row.form = TERN_REPLICA_WHOLE;
    memcpy(row.parent, none, sizeof none);
    memcpy(row.download, none, sizeof none);
    row.depth = 0;
    row.bytes = 0;
    return tern_table_put(db, REPLICAS, &row);
}
