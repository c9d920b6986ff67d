#include "service/metering.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// Rows in open addressing.
struct table {
    struct tern_db_meter *rows;
    bool *used;
    size_t capacity; // power of two, or 0
    size_t count;
};

struct tern_metering {
    pthread_mutex_t lock;
    struct table filling;
    struct table flushing; // service thread only, between flush and settle
    struct tern_meter total;
};

struct tern_metering *tern_metering_new(void)
{
    struct tern_metering *metering = calloc(1, sizeof *metering);
    if (metering != NULL) {
        pthread_mutex_init(&metering->lock, NULL);
    }
    return metering;
}

static void table_free(struct table *table)
{
    free(table->rows);
    free(table->used);
    memset(table, 0, sizeof *table);
}

void tern_metering_free(struct tern_metering *metering)
{
    if (metering == NULL) {
        return;
    }
    table_free(&metering->filling);
    table_free(&metering->flushing);
    pthread_mutex_destroy(&metering->lock);
    free(metering);
}

static bool same_key(const struct tern_db_meter *a, const struct tern_db_meter *b)
{
    return a->client == b->client && a->round == b->round && a->purpose == b->purpose;
}

static size_t place_of(const struct table *table, const struct tern_db_meter *row)
{
    uint64_t mixed = row->client * UINT64_C(0x9E3779B97F4A7C15) +
                     row->round * UINT64_C(0xC2B2AE3D27D4EB4F) + (uint64_t)row->purpose;
    mixed ^= mixed >> 29;
    size_t at = (size_t)mixed & (table->capacity - 1);
    while (table->used[at] && !same_key(&table->rows[at], row)) {
        at = (at + 1) & (table->capacity - 1);
    }
    return at;
}

static void add_row(struct table *table, const struct tern_db_meter *row)
{
    size_t at = place_of(table, row);
    if (!table->used[at]) {
        table->used[at] = true;
        table->rows[at] = *row;
        table->count++;
        return;
    }
    tern_bytes_add(&table->rows[at].up, &row->up);
    tern_bytes_add(&table->rows[at].down, &row->down);
    table->rows[at].exchanges += row->exchanges;
}

static bool grow(struct table *table)
{
    struct table larger = {.capacity = table->capacity == 0 ? 256 : table->capacity * 2};
    larger.rows = calloc(larger.capacity, sizeof larger.rows[0]);
    larger.used = calloc(larger.capacity, sizeof larger.used[0]);
    if (larger.rows == NULL || larger.used == NULL) {
        table_free(&larger);
        return false;
    }
    for (size_t i = 0; i < table->capacity; i++) {
        if (table->used[i]) {
            add_row(&larger, &table->rows[i]);
        }
    }
    table_free(table);
    *table = larger;
    return true;
}

static void add_growing(struct table *table, const struct tern_db_meter *row)
{
    if (table->count * 2 >= table->capacity && !grow(table)) {
        // Without memory the bytes are still in the total; their row is lost rather than the
        // service.
        return;
    }
    add_row(table, row);
}

void tern_metering_add(struct tern_metering *metering, const struct tern_db_meter *row)
{
    pthread_mutex_lock(&metering->lock);
    tern_bytes_add(&metering->total.bytes[row->purpose][TERN_UP], &row->up);
    tern_bytes_add(&metering->total.bytes[row->purpose][TERN_DOWN], &row->down);
    add_growing(&metering->filling, row);
    pthread_mutex_unlock(&metering->lock);
}

void tern_metering_of(struct tern_metering *metering, uint64_t client, uint32_t round,
                      struct tern_db_meter *meter)
{
    pthread_mutex_lock(&metering->lock);
    const struct table *table = &metering->filling;
    for (int purpose = 0; purpose < TERN_PURPOSE_COUNT && table->count > 0; purpose++) {
        const struct tern_db_meter key = {
            .client = client, .round = round, .purpose = (enum tern_purpose)purpose};
        size_t at = place_of(table, &key);
        if (table->used[at]) {
            tern_bytes_add(&meter->up, &table->rows[at].up);
            tern_bytes_add(&meter->down, &table->rows[at].down);
            meter->exchanges += table->rows[at].exchanges;
        }
    }
    pthread_mutex_unlock(&metering->lock);
}

enum tern_result tern_metering_flush(struct tern_metering *metering, struct tern_db *db)
{
    pthread_mutex_lock(&metering->lock);
    metering->flushing = metering->filling;
    memset(&metering->filling, 0, sizeof metering->filling);
    pthread_mutex_unlock(&metering->lock);

    const struct table *table = &metering->flushing;
    for (size_t i = 0; i < table->capacity; i++) {
        if (table->used[i]) {
            TERN_TRY(tern_db_meter_add(db, &table->rows[i]));
        }
    }
    return TERN_OK;
}

void tern_metering_settle(struct tern_metering *metering, bool committed)
{
    const struct table *table = &metering->flushing;
    pthread_mutex_lock(&metering->lock);
    for (size_t i = 0; i < table->capacity && !committed; i++) {
        if (table->used[i]) {
            add_growing(&metering->filling, &table->rows[i]);
        }
    }
    pthread_mutex_unlock(&metering->lock);
    table_free(&metering->flushing);
}

struct tern_meter tern_metering_total(struct tern_metering *metering)
{
    pthread_mutex_lock(&metering->lock);
    struct tern_meter total = metering->total;
    pthread_mutex_unlock(&metering->lock);
    return total;
}
