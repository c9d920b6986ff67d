// State that a strategy carries from round to round.
#include "store/store_sqlite.h"

#include "util/crc32c.h"
#include <stdio.h>
#include <string.h>

// Stored as it lies in memory; the format is little-endian float32.
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "states are stored little-endian");

// Values of a part: 4 MiB.
#define PART_VALUES (1u << 20)

static uint32_t values_from(uint32_t count, uint32_t first)
{
    uint32_t left = count - first;
    return left < PART_VALUES ? left : PART_VALUES;
}

static enum tern_result put_part(struct tern_db *db, const char *name, uint32_t version,
                                 const float *values, uint32_t count, uint32_t first)
{
    size_t len = values_from(count, first) * sizeof values[0];
    struct tern_query query = tern_query_write(
        db, "INSERT INTO strategy_state (name, part, version, count, crc32c, body)"
            " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (name, part) DO UPDATE SET"
            " version = excluded.version, count = excluded.count, crc32c = excluded.crc32c,"
            " body = excluded.body");
    tern_query_bind_text(&query, name, strlen(name) + 1);
    tern_query_bind(&query, first / PART_VALUES);
    tern_query_bind(&query, version);
    tern_query_bind(&query, count);
    tern_query_bind(&query, tern_crc32c(0, values + first, len));
    tern_query_bind_blob(&query, values + first, len);
    return tern_query_run(&query);
}

enum tern_result tern_db_state_put(struct tern_db *db, const char *name, uint32_t version,
                                   const float *values, uint32_t count)
{
    if (count == 0) {
        return TERN_ERR_ARGUMENT;
    }
    for (uint32_t first = 0; first < count; first += values_from(count, first)) {
        TERN_TRY(put_part(db, name, version, values, count, first));
    }
    return TERN_OK;
}

enum tern_result tern_db_state_keep(struct tern_db *db, uint32_t version)
{
    struct tern_query query = tern_query_write(db, "DELETE FROM strategy_state WHERE version <> ?");
    tern_query_bind(&query, version);
    return tern_query_run(&query);
}

// Reads the part that query stands on, which is to be the one from `first` on.
static void read_part(struct tern_query *query, float *values, uint32_t count, uint32_t first)
{
    uint32_t part = tern_query_u32(query);
    uint32_t stored = tern_query_u32(query);
    uint32_t crc = tern_query_u32(query);
    size_t len;
    const uint8_t *body = tern_query_blob(query, &len);
    if (query->result != TERN_OK) {
        return;
    }
    if (stored != count || first == count || part != first / PART_VALUES ||
        len != values_from(count, first) * sizeof values[0] || tern_crc32c(0, body, len) != crc) {
        tern_query_damaged(query, "the state of the strategy is not what was stored");
        return;
    }
    memcpy(values + first, body, len);
}

enum tern_result tern_db_state_get(struct tern_db *db, const char *name, uint32_t version,
                                   float *values, uint32_t count)
{
    struct tern_query query =
        tern_query_read(db, "SELECT part, count, crc32c, body FROM strategy_state"
                            " WHERE name = ? AND version = ? ORDER BY part");
    tern_query_bind_text(&query, name, strlen(name) + 1);
    tern_query_bind(&query, version);
    uint32_t first = 0;
    while (tern_query_row(&query)) {
        read_part(&query, values, count, first);
        first += first < count ? values_from(count, first) : 0;
    }
    if (first == 0) {
        return tern_query_missing(&query);
    }
    TERN_TRY(tern_query_end(&query));
    if (first != count) {
        db->damaged = true;
        snprintf(db->error, sizeof db->error,
                 "the database is damaged: part of the strategy's state is missing; restore a "
                 "backup");
        return TERN_ERR_IO;
    }
    return TERN_OK;
}
