#define _GNU_SOURCE // tdestroy()
// The clocks, the byte counts, and the facts for other threads. Each batch copies the facts, so that readers do not wait for
// the store, even if the store fails.
#include "service/internal.h"

#include "hosted/system.h"
#include "store/store.h"
#include <limits.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

// --- Byte counts

struct tern_metering {
    pthread_mutex_t lock;
    void *filling; // tree (search.h) of tern_db_meter, by client, round and purpose
    // Tree of the rows that tern_metering_flush() has written; for the service thread alone.
    void *flushing;
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

// Adds the row's counts to the row with the same key, or adds a copy. If memory is short, the row is lost, but
// metering->total still has its bytes.
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

static struct tern_meter metered_total(struct tern_metering *metering)
{
    pthread_mutex_lock(&metering->lock);
    struct tern_meter total = metering->total;
    pthread_mutex_unlock(&metering->lock);
    return total;
}

// A transaction takes milliseconds, or seconds if the disk is slow or a verb of the command line locks the database.
#define HANGS_MS 30000u
#define STUCK_MS 5000u
#define STUCK_FAILING_MS 250u

#define MEASURED_MS 5000u // least time between two measurements of disk use

// --- Clocks

uint64_t tern_service_now(const struct tern_service *service)
{
    uint64_t (*now_ms)(void) = service->config.now_ms;
    return now_ms != NULL ? now_ms() : tern_unix_ms();
}

uint64_t tern_service_monotonic(const struct tern_service *service)
{
    struct timespec now;
    if (service->config.monotonic_ms != NULL) {
        return service->config.monotonic_ms();
    }
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

// --- Facts

static uint64_t disk_free_bytes(const char *database)
{
    char folder[PATH_MAX];
    struct statvfs disk;
    const char *end = strrchr(database, '/');
    snprintf(folder, sizeof folder, "%.*s/", end == NULL ? 1 : (int)(end - database),
             end == NULL ? "." : database);
    return statvfs(folder, &disk) == 0 ? (uint64_t)disk.f_bavail * disk.f_frsize : 0;
}

// Measures disk use, outside of transactions. A value that cannot be measured now stays as before.
static void measure(struct tern_service *service)
{
    const uint64_t now_ms = tern_service_monotonic(service);
    struct tern_db_room room;
    uint64_t bytes = 0;
    if (service->snapshot.measured_ms != 0 &&
        now_ms - service->snapshot.measured_ms < MEASURED_MS) {
        return;
    }
    service->snapshot.measured_ms = now_ms;
    if (tern_db_bytes(service->db, &bytes) == TERN_OK) {
        service->counters.database_bytes = bytes;
        if (tern_db_room(service->db, &room) == TERN_OK && room.free != UINT64_MAX) {
            service->counters.disk_room_bytes = bytes + room.free + room.reserve;
        }
    }
    service->counters.disk_free_bytes = disk_free_bytes(tern_db_path(service->db));
}

void tern_service_snapshot_update(struct tern_service *service, bool is_stored)
{
    struct tern_service_snapshot *snapshot = &service->snapshot;
    if (is_stored) {
        measure(service);
    }
    struct tern_service_facts facts = service->counters;
    facts.federation = snapshot->facts.federation;
    if (is_stored) {
        tern_federation_facts(service->federation, tern_service_now(service), &facts.federation);
    }
    facts.held = service->held.count;
    pthread_mutex_lock(&snapshot->lock);
    snapshot->facts = facts;
    pthread_mutex_unlock(&snapshot->lock);
}

static void set_failure(struct tern_service_snapshot *snapshot, const char *why)
{
    pthread_mutex_lock(&snapshot->lock);
    snprintf(snapshot->failure, sizeof snapshot->failure, "%s", why);
    pthread_mutex_unlock(&snapshot->lock);
}

void tern_service_snapshot_stored(struct tern_service *service, enum tern_result result)
{
    struct tern_service_snapshot *snapshot = &service->snapshot;
    char failure[sizeof snapshot->failure];
    if (result != TERN_OK) {
        snprintf(failure, sizeof failure, "%s: %.200s", tern_result_name(result),
                 tern_db_error(service->db));
        set_failure(snapshot, failure);
    } else if (snapshot->failure[0] != '\0') {
        set_failure(snapshot, "");
        tern_log(TERN_LOG_INFO, "store-recovered", "failed=%llu",
                 (unsigned long long)service->counters.batches_failed);
    }
}

// Returns how long the service thread's present iteration has taken; 0 = the thread waits.
static uint64_t working_ms(const struct tern_service *service)
{
    const uint64_t began_ms = atomic_load(&service->iteration_service_ms);
    const uint64_t now_ms = tern_service_monotonic(service);
    return began_ms != 0 && now_ms > began_ms ? now_ms - began_ms : 0;
}

bool tern_service_is_stuck(struct tern_service *service)
{
    const uint64_t began_ms = atomic_load(&service->iteration_ms);
    const uint64_t now_ms = tern_monotonic_ms();
    if (began_ms == 0 || now_ms < began_ms + STUCK_FAILING_MS) {
        return false;
    }
    pthread_mutex_lock(&service->snapshot.lock);
    const bool fails = service->snapshot.failure[0] != '\0';
    pthread_mutex_unlock(&service->snapshot.lock);
    return fails || now_ms >= began_ms + STUCK_MS;
}

bool tern_service_can_store(struct tern_service *service, char why[256])
{
    struct tern_service_snapshot *snapshot = &service->snapshot;
    char failure[sizeof snapshot->failure];
    pthread_mutex_lock(&snapshot->lock);
    memcpy(failure, snapshot->failure, sizeof failure);
    pthread_mutex_unlock(&snapshot->lock);
    if (tern_service_is_halted(service)) {
        snprintf(why, 256, "halted: %.240s", service->halt_why);
        return false;
    }
    if (failure[0] != '\0') {
        snprintf(why, 256, "nothing can be stored: %.220s", failure);
        return false;
    }
    const uint64_t ms = working_ms(service);
    if (ms >= HANGS_MS) {
        snprintf(why, 256,
                 "the present transaction has taken %llu s: check whether the disk answers, and "
                 "whether the reader of the log blocks",
                 (unsigned long long)(ms / 1000));
    }
    return ms < HANGS_MS;
}

void tern_service_set_checked(struct tern_service *service, uint64_t now_ms)
{
    atomic_store(&service->checked_ms, now_ms);
}

void tern_service_set_disk_needed(struct tern_service *service, uint64_t bytes)
{
    atomic_store(&service->disk_needed_bytes, bytes);
}

void tern_service_set_upstream(struct tern_service *service,
                               const struct tern_service_upstream *upstream)
{
    pthread_mutex_lock(&service->snapshot.lock);
    service->snapshot.upstream = *upstream;
    pthread_mutex_unlock(&service->snapshot.lock);
}

void tern_service_facts(struct tern_service *service, struct tern_service_facts *facts)
{
    char why[256];
    pthread_mutex_lock(&service->snapshot.lock);
    *facts = service->snapshot.facts;
    facts->upstream = service->snapshot.upstream;
    pthread_mutex_unlock(&service->snapshot.lock);
    facts->unauthorized = atomic_load(&service->unauthorized);
    facts->rate_limited = atomic_load(&service->rate_limited);
    facts->cache_wire_up = atomic_load(&service->cache_bytes[TERN_UP]);
    facts->cache_wire_down = atomic_load(&service->cache_bytes[TERN_DOWN]);
    facts->checked_ms = atomic_load(&service->checked_ms);
    facts->disk_needed_bytes = atomic_load(&service->disk_needed_bytes);
    facts->stores = tern_service_can_store(service, why);
    facts->bytes = metered_total(service->metering);
    pthread_mutex_lock(&service->queue.lock);
    facts->queued = service->queue.count;
    pthread_mutex_unlock(&service->queue.lock);
}
