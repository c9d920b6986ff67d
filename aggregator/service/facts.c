// The clocks, and the facts that any thread can read: a copy that each batch renews, so that readers never wait for the
// store, in particular when it fails.
#include "service/internal.h"
#include "store/store.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

// Transactions take milliseconds, and seconds where a disk is slow or a verb holds the database.
#define HANGS_MS 30000u
#define STUCK_MS 5000u
#define STUCK_FAILING_MS 250u

#define MEASURED_MS 5000u

// --- Clocks

static uint64_t read_ms(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t tern_service_now(const struct tern_service *service)
{
    uint64_t (*now_ms)(void) = service->config.now_ms;
    return now_ms != NULL ? now_ms() : read_ms(CLOCK_REALTIME);
}

uint64_t tern_service_machine_ms(void)
{
    return read_ms(CLOCK_MONOTONIC);
}

uint64_t tern_service_monotonic(const struct tern_service *service)
{
    uint64_t (*monotonic_ms)(void) = service->config.monotonic_ms;
    return monotonic_ms != NULL ? monotonic_ms() : read_ms(CLOCK_BOOTTIME);
}

// --- Facts

void tern_service_view_init(struct tern_service_view *view)
{
    pthread_mutex_init(&view->lock, NULL);
}

void tern_service_view_free(struct tern_service_view *view)
{
    pthread_mutex_destroy(&view->lock);
}

static uint64_t disk_free_bytes(const char *database)
{
    char folder[PATH_MAX];
    struct statvfs disk;
    const char *end = strrchr(database, '/');
    snprintf(folder, sizeof folder, "%.*s/", end == NULL ? 1 : (int)(end - database),
             end == NULL ? "." : database);
    return statvfs(folder, &disk) == 0 ? (uint64_t)disk.f_bavail * disk.f_frsize : 0;
}

// Outside of transactions. What cannot be measured now is what it was.
static void measure(struct tern_service *service)
{
    const uint64_t now_ms = tern_service_monotonic(service);
    struct tern_db_room room;
    uint64_t bytes = 0;
    if (service->view.measured_ms != 0 && now_ms - service->view.measured_ms < MEASURED_MS) {
        return;
    }
    service->view.measured_ms = now_ms;
    if (tern_db_bytes(service->db, &bytes) == TERN_OK) {
        service->counters.database_bytes = bytes;
        if (tern_db_room(service->db, &room) == TERN_OK && room.free != UINT64_MAX) {
            service->counters.disk_room_bytes = bytes + room.free + room.reserve;
        }
    }
    service->counters.disk_free_bytes = disk_free_bytes(tern_db_path(service->db));
}

void tern_service_view_update(struct tern_service *service, bool is_stored)
{
    struct tern_service_view *view = &service->view;
    if (is_stored) {
        measure(service);
    }
    struct tern_service_facts facts = service->counters;
    facts.federation = view->facts.federation;
    if (is_stored) {
        tern_federation_facts(service->federation, tern_service_now(service), &facts.federation);
    }
    facts.held = service->held.count;
    pthread_mutex_lock(&view->lock);
    view->facts = facts;
    pthread_mutex_unlock(&view->lock);
}

static void set_failure(struct tern_service_view *view, const char *why)
{
    pthread_mutex_lock(&view->lock);
    snprintf(view->failure, sizeof view->failure, "%s", why);
    pthread_mutex_unlock(&view->lock);
}

void tern_service_view_stored(struct tern_service *service)
{
    if (service->view.failure[0] != '\0') {
        set_failure(&service->view, "");
        tern_log(TERN_LOG_INFO, "stores-again", "failed=%llu",
                 (unsigned long long)service->counters.batches_failed);
    }
}

void tern_service_view_failed(struct tern_service *service, const struct tern_db *db,
                              enum tern_result why)
{
    char failure[sizeof service->view.failure];
    snprintf(failure, sizeof failure, "%s: %.200s", tern_result_name(why), tern_db_error(db));
    set_failure(&service->view, failure);
}

// For how long the service thread has been at one turn, 0 if it waits for work.
static uint64_t at_work_ms(const struct tern_service *service)
{
    const uint64_t began_ms = atomic_load(&service->working_ms);
    const uint64_t now_ms = tern_service_monotonic(service);
    return began_ms != 0 && now_ms > began_ms ? now_ms - began_ms : 0;
}

bool tern_service_is_stuck(struct tern_service *service)
{
    const uint64_t began_ms = atomic_load(&service->turn_ms);
    const uint64_t now_ms = tern_service_machine_ms();
    if (began_ms == 0 || now_ms < began_ms + STUCK_FAILING_MS) {
        return false;
    }
    pthread_mutex_lock(&service->view.lock);
    const bool fails = service->view.failure[0] != '\0';
    pthread_mutex_unlock(&service->view.lock);
    return fails || now_ms >= began_ms + STUCK_MS;
}

static bool follows_nobody(const struct tern_service *service, char why[256])
{
    const struct tern_service_config *config = &service->config;
    return atomic_load(&service->follows) && config->is_led != NULL &&
           !config->is_led(config->led_ctx, why);
}

bool tern_service_stores(struct tern_service *service, char why[256])
{
    struct tern_service_view *view = &service->view;
    char failure[sizeof view->failure];
    pthread_mutex_lock(&view->lock);
    memcpy(failure, view->failure, sizeof failure);
    pthread_mutex_unlock(&view->lock);
    if (tern_service_is_halted(service)) {
        snprintf(why, 256, "halted: %.240s", service->halt_why);
        return false;
    }
    if (failure[0] != '\0') {
        snprintf(why, 256, "nothing can be stored: %.220s", failure);
        return false;
    }
    if (follows_nobody(service, failure)) {
        snprintf(why, 256, "it follows, but %.220s", failure);
        return false;
    }
    const uint64_t ms = at_work_ms(service);
    if (ms >= HANGS_MS) {
        snprintf(why, 256,
                 "the service has been at one transaction for %llu s: does the disk answer, or who "
                 "reads "
                 "the log?",
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

void tern_service_set_above(struct tern_service *service, const struct tern_service_above *above)
{
    pthread_mutex_lock(&service->view.lock);
    service->view.above = *above;
    pthread_mutex_unlock(&service->view.lock);
}

void tern_service_facts(struct tern_service *service, struct tern_service_facts *facts)
{
    char why[256];
    pthread_mutex_lock(&service->view.lock);
    *facts = service->view.facts;
    facts->above = service->view.above;
    pthread_mutex_unlock(&service->view.lock);
    facts->unauthorized = atomic_load(&service->unauthorized);
    facts->rate_limited = atomic_load(&service->rate_limited);
    facts->cache_wire_up = atomic_load(&service->cache_bytes[TERN_UP]);
    facts->cache_wire_down = atomic_load(&service->cache_bytes[TERN_DOWN]);
    facts->checked_ms = atomic_load(&service->checked_ms);
    facts->disk_needed_bytes = atomic_load(&service->disk_needed_bytes);
    facts->stores = tern_service_stores(service, why);
    facts->follows = atomic_load(&service->follows);
    facts->relayed = (uint32_t)atomic_load(&service->relayed);
    facts->bytes = tern_metering_total(service->metering);
    pthread_mutex_lock(&service->queue.lock);
    facts->queued = service->queue.count;
    pthread_mutex_unlock(&service->queue.lock);
}
