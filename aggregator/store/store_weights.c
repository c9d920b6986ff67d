// Vectors of float32, in parts with a checksum each: checkpoints, which are weights and what strategies
// carry on, and replicas that are kept whole.
#include "store/sql_table.h"

#include "util/bytes.h"
#include "util/crc32c.h"
#include <stdio.h>
#include <string.h>

// Vectors are stored as they lie in memory; the format is little-endian float32.
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "vectors are stored little-endian");

#define PART_VALUES (1u << 20)

#define PARTS_AT_ONCE "4" // of those that are dropped: 16 MiB take some 20 ms

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

// TERN_ERR_ARGUMENT  it has no values
static enum tern_result put(struct tern_db *db, unsigned kind, const char *name, uint32_t version,
                            const float *values, uint32_t count)
{
    if (count == 0) {
        return TERN_ERR_ARGUMENT;
    }
    for (uint32_t part = part_count(count); part-- > 0;) {
        TERN_TRY(put_part(db, kind, name, version, values, count, part));
    }
    return TERN_OK;
}

static enum tern_result other_count(struct tern_db *db, uint32_t stored, uint32_t count)
{
    char sentence[80];
    snprintf(sentence, sizeof sentence, "the stored vector has %u values, not %u", stored, count);
    return tern_sql_fail(db->sql, TERN_ERR_CORRUPT, sentence);
}

// Takes over the part that is due.
static enum tern_result take_part(struct tern_db *db, const struct tern_part_row *row,
                                  uint32_t part, float *values, uint32_t count)
{
    if (row->count != count) {
        return other_count(db, row->count, count);
    }
    if (part >= part_count(count) || row->part != part ||
        row->body.len != part_bytes(count, part) ||
        tern_crc32c(0, row->body.data, row->body.len) != row->crc32c) {
        return tern_sql_fail_damaged(db->sql, "the checksum of a stored vector is wrong");
    }
    memcpy(values + (size_t)part * PART_VALUES, row->body.data, row->body.len);
    return TERN_OK;
}

// NOT_FOUND; TERN_ERR_CORRUPT when count differs. On errors the values are unspecified.
static enum tern_result get(struct tern_db *db, unsigned kind, const char *name, uint32_t version,
                            float *values, uint32_t count)
{
    struct tern_part_row row = {.version = 0};
    struct tern_query query = tern_table_select(
        db, &tern_table_weights, "WHERE kind = ? AND name = ? AND version = ? ORDER BY part");
    tern_query_bind(&query, kind);
    tern_query_bind_text(&query, name, TERN_VECTOR_NAME_MAX);
    tern_query_bind(&query, version);
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

// Likewise, of vectors that are always as long as the model.
static enum tern_result get_whole(struct tern_db *db, unsigned kind, const char *name,
                                  uint32_t version, float *values, uint32_t count)
{
    enum tern_result result = get(db, kind, name, version, values, count);
    return result != TERN_ERR_CORRUPT
               ? result
               : tern_sql_fail_damaged(db->sql, "a stored vector is not as long as the model");
}

// --- Weights of a version

enum tern_result tern_db_weights_put(struct tern_db *db, enum tern_db_weights kind,
                                     uint32_t version, const float *weights, uint32_t count)
{
    return put(db, kind, "", version, weights, count);
}

enum tern_result tern_db_weights_get(struct tern_db *db, enum tern_db_weights kind,
                                     uint32_t version, float *weights, uint32_t count)
{
    return get(db, kind, "", version, weights, count);
}

// --- What strategies carry on

enum tern_result tern_db_state_put(struct tern_db *db, const char *name, uint32_t version,
                                   const float *values, uint32_t count)
{
    return put(db, TERN_VECTOR_STATE, name, version, values, count);
}

enum tern_result tern_db_state_get(struct tern_db *db, const char *name, uint32_t version,
                                   float *values, uint32_t count)
{
    return get_whole(db, TERN_VECTOR_STATE, name, version, values, count);
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
    struct tern_query query =
        tern_query_read(db->sql, "SELECT version FROM weights WHERE kind = ? AND name = ''"
                                 " AND part = 0 ORDER BY version DESC LIMIT 1");
    tern_query_bind(&query, TERN_WEIGHTS_GLOBAL);
    if (!tern_query_row(&query)) {
        return tern_query_missing(&query);
    }
    *version = (uint32_t)tern_query_number(&query, UINT32_MAX);
    return tern_query_end(&query);
}

enum tern_result tern_db_checkpoint_drop_some(struct tern_db *db, bool *more)
{
    uint32_t version = 0;
    TERN_TRY(tern_db_checkpoint(db, &version));
    struct tern_query query = tern_query_write(
        db->sql, "DELETE FROM weights WHERE (kind, name, version, part) IN (SELECT kind, name,"
                 " version, part FROM weights WHERE kind IN (?, ?, ?) AND version <> ?"
                 " LIMIT " PARTS_AT_ONCE ")");
    tern_query_bind(&query, TERN_WEIGHTS_GLOBAL);
    tern_query_bind(&query, TERN_WEIGHTS_REPLICA);
    tern_query_bind(&query, TERN_VECTOR_STATE);
    tern_query_bind(&query, version);
    const enum tern_result dropped = tern_query_run_one(&query);
    *more = dropped == TERN_OK;
    return tern_db_may_miss(dropped);
}

// --- Replicas that are kept whole: store_replicas.c has their rows

enum tern_result tern_store_vector_put(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                       const float *weights, uint32_t count)
{
    char name[TERN_VECTOR_NAME_MAX];
    tern_hex_encode(id, TERN_SHA256_SIZE, name);
    return put(db, TERN_VECTOR_OF_REPLICA, name, 0, weights, count);
}

static enum tern_result drop(struct tern_db *db, unsigned kind, const char *name)
{
    struct tern_query query =
        tern_query_write(db->sql, "DELETE FROM weights WHERE kind = ? AND name = ?");
    tern_query_bind(&query, kind);
    tern_query_bind_text(&query, name, TERN_VECTOR_NAME_MAX);
    return tern_query_post(&query);
}

enum tern_result tern_store_vector_drop(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                        uint64_t *freed)
{
    char name[TERN_VECTOR_NAME_MAX];
    tern_hex_encode(id, TERN_SHA256_SIZE, name);
    struct tern_query query = tern_query_read(
        db->sql, "SELECT " TERN_SUM_OF("length(body)") " FROM weights"
                                                       " WHERE kind = ? AND name = ?");
    tern_query_bind(&query, TERN_VECTOR_OF_REPLICA);
    tern_query_bind_text(&query, name, sizeof name);
    *freed = tern_query_row(&query) ? tern_query_u64(&query) : 0;
    TERN_TRY(tern_query_end(&query));
    return *freed == 0 ? TERN_OK : drop(db, TERN_VECTOR_OF_REPLICA, name);
}

enum tern_result tern_db_replica_weights_get(struct tern_db *db, const uint8_t id[TERN_SHA256_SIZE],
                                             float *weights, uint32_t count)
{
    char name[TERN_VECTOR_NAME_MAX];
    tern_hex_encode(id, TERN_SHA256_SIZE, name);
    return get_whole(db, TERN_VECTOR_OF_REPLICA, name, 0, weights, count);
}
