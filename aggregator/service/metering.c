#define _GNU_SOURCE // tdestroy()
#include "service/metering.h"

#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

struct tern_metering {
    pthread_mutex_t lock;
    void *filling;  // tree (search.h) of tern_db_meter, by client, round and purpose
    void *flushing; // tree between flush and end_flush, for the flushing thread alone
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

void tern_metering_free(struct tern_metering *metering)
{
    if (metering == NULL) {
        return;
    }
    tdestroy(metering->filling, free);
    tdestroy(metering->flushing, free);
    pthread_mutex_destroy(&metering->lock);
    free(metering);
}

static int in_order(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare(const void *one, const void *other)
{
    const struct tern_db_meter *a = one;
    const struct tern_db_meter *b = other;
    int order = in_order(a->round, b->round);
    order = order != 0 ? order : in_order(a->client, b->client);
    return order != 0 ? order : in_order(a->purpose, b->purpose);
}

static void add_up(struct tern_db_meter *sum, const struct tern_db_meter *row)
{
    tern_bytes_add(&sum->up, &row->up);
    tern_bytes_add(&sum->down, &row->down);
    sum->exchanges += row->exchanges;
}

// If memory is short, the row is lost; the total still has its bytes.
static void add_row(void **rows, const struct tern_db_meter *row)
{
    struct tern_db_meter **found = tfind(row, rows, compare);
    if (found != NULL) {
        add_up(*found, row);
        return;
    }
    struct tern_db_meter *copy = malloc(sizeof *copy);
    if (copy == NULL) {
        return;
    }
    *copy = *row;
    if (tsearch(copy, rows, compare) == NULL) {
        free(copy);
    }
}

void tern_metering_add(struct tern_metering *metering, const struct tern_db_meter *row)
{
    pthread_mutex_lock(&metering->lock);
    tern_bytes_add(&metering->total.bytes[row->purpose][TERN_UP], &row->up);
    tern_bytes_add(&metering->total.bytes[row->purpose][TERN_DOWN], &row->down);
    add_row(&metering->filling, row);
    pthread_mutex_unlock(&metering->lock);
}

void tern_metering_pending(struct tern_metering *metering, uint64_t client, uint32_t round,
                           struct tern_db_meter *meter)
{
    pthread_mutex_lock(&metering->lock);
    for (int purpose = 0; purpose < TERN_PURPOSE_COUNT; purpose++) {
        const struct tern_db_meter key = {
            .client = client, .round = round, .purpose = (enum tern_purpose)purpose};
        struct tern_db_meter **found = tfind(&key, &metering->filling, compare);
        if (found != NULL) {
            add_up(meter, *found);
        }
    }
    pthread_mutex_unlock(&metering->lock);
}

struct writing {
    struct tern_db *db;
    enum tern_result result;
};

static void write_row(const void *node, VISIT visit, void *ctx)
{
    struct writing *writing = ctx;
    const struct tern_db_meter *const *row = node;
    // twalk_r() visits an inner node three times.
    if ((visit == postorder || visit == leaf) && writing->result == TERN_OK) {
        writing->result = tern_db_meter_add(writing->db, *row);
    }
}

enum tern_result tern_metering_flush(struct tern_metering *metering, struct tern_db *db)
{
    struct writing writing = {db, TERN_OK};
    pthread_mutex_lock(&metering->lock);
    metering->flushing = metering->filling;
    metering->filling = NULL;
    pthread_mutex_unlock(&metering->lock);
    twalk_r(metering->flushing, write_row, &writing);
    return writing.result;
}

static void add_again(const void *node, VISIT visit, void *ctx)
{
    struct tern_metering *metering = ctx;
    const struct tern_db_meter *const *row = node;
    if (visit == postorder || visit == leaf) {
        add_row(&metering->filling, *row);
    }
}

void tern_metering_end_flush(struct tern_metering *metering, bool committed)
{
    pthread_mutex_lock(&metering->lock);
    if (!committed) {
        twalk_r(metering->flushing, add_again, metering);
    }
    pthread_mutex_unlock(&metering->lock);
    tdestroy(metering->flushing, free);
    metering->flushing = NULL;
}

struct tern_meter tern_metering_total(struct tern_metering *metering)
{
    pthread_mutex_lock(&metering->lock);
    struct tern_meter total = metering->total;
    pthread_mutex_unlock(&metering->lock);
    return total;
}
