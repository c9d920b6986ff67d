// The service thread: one transaction per batch of requests.
#include "service/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Requests taken into one transaction: enough to pay for its fsync, few enough that the first need
// not wait long for the last.
#define BATCH_MAX 1024

// Where clients were last seen, and the meter, are written this often at least.
#define FLUSH_MS 1000

#define SLEEP_MAX_MS 1000

// Of the machine, whatever clock the service was given: how long work takes.
static double monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void observe(struct tern_service_histogram *histogram, double value)
{
    unsigned i = 0;
    while (i < TERN_SERVICE_BUCKETS - 1 && value > (double)(1u << i)) {
        i++;
    }
    histogram->buckets[i]++;
    histogram->count++;
    histogram->sum += value;
}

// --- A batch

static enum tern_result settle(struct tern_service *service, struct request *request, uint64_t now)
{
    if (request->answered) {
        return TERN_OK;
    }
    return request->kind == REQUEST_CHECKIN ? tern_service_settle_checkin(service, request, now)
                                            : tern_service_settle_update(service, request, now);
}

// Handles the taken requests. Each ends up in service->batch, answered, or held.
static enum tern_result handle_all(struct tern_service *service, struct request *taken,
                                   uint64_t now)
{
    enum tern_result result = TERN_OK;
    for (struct request *request = taken; request != NULL && result == TERN_OK;
         request = request->next) {
        result = tern_service_handle(service, request, now);
    }
    if (result == TERN_OK) {
        result = tern_federation_advance(service->federation, now);
    }
    while (taken != NULL) {
        struct request *request = taken;
        taken = taken->next;
        if (result == TERN_OK) {
            result = settle(service, request, now);
        }
        if (!tern_service_holds(service, request)) {
            tern_request_list_add(&service->batch, request);
        }
    }
    return result != TERN_OK ? result : tern_service_settle_held(service, now);
}

// Also once after a round has moved on: by then its replies are sent, and their bytes are counted.
static bool flush_due(const struct tern_service *service)
{
    return service->quiescing || tern_federation_moved(service->federation) ||
           service->batch_ms >= service->flushed_ms + FLUSH_MS;
}

static enum tern_result load_state(struct tern_service *service)
{
    if (service->config.psk) {
        TERN_TRY(tern_psk_keys_load(&service->psk_keys, service->db));
    }
    return tern_federation_load(service->federation, tern_service_now(service));
}

enum tern_result tern_service_reload_clients(struct tern_service *service)
{
    if (service->config.psk) {
        TERN_TRY(tern_psk_keys_load(&service->psk_keys, service->db));
    }
    return tern_federation_reload_clients(service->federation);
}

static enum tern_result run_transaction(struct tern_service *service, struct request *taken,
                                        uint64_t now, bool flush)
{
    enum tern_result result = TERN_OK;
    if (tern_db_changed_by_others(service->db)) {
        result = tern_service_reload_clients(service);
    }
    enum tern_result handled = handle_all(service, taken, now);
    result = result != TERN_OK ? result : handled;
    if (result == TERN_OK && flush) {
        result = tern_federation_flush(service->federation);
    }
    if (result == TERN_OK && flush) {
        result = tern_metering_flush(service->metering, service->db);
    }
    return result == TERN_OK ? tern_db_commit(service->db) : result;
}

static void take_down(struct tern_service *service, enum tern_result why)
{
    tern_log(TERN_LOG_ERROR, "batch-failed", "error=%s detail=%s", tern_result_name(why),
             TERN_LOG_TEXT(tern_db_error(service->db)));
    tern_db_rollback(service->db);
    service->counters.batches_failed++;
    if (tern_service_halt_if_needed(service)) {
        return;
    }
    for (struct request *request = service->batch.first; request != NULL; request = request->next) {
        tern_answer_unavailable(request);
    }
    // Where clients were last seen survives in memory; all else comes from the store again.
    enum tern_result loaded = load_state(service);
    if (loaded != TERN_OK) {
        tern_log(TERN_LOG_ERROR, "reload-failed", "error=%s detail=%s", tern_result_name(loaded),
                 TERN_LOG_TEXT(tern_db_error(service->db)));
        service->broken = true;
        if (tern_service_halt_if_needed(service)) {
            return;
        }
    }
    // A full or failing disk does not get better by being asked at once.
    nanosleep(&(struct timespec){.tv_nsec = 50000000L}, NULL);
}

// Memory holds what is committed here, or what was loaded after a rollback; else the roster stays.
static void publish(struct tern_service *service)
{
    if (!service->broken && !tern_service_is_halted(service)) {
        tern_federation_publish(service->federation);
    }
}

static void send_batch(struct tern_service *service)
{
    struct request *request = service->batch.first;
    tern_request_list_init(&service->batch);
    while (request != NULL) {
        struct request *next = request->next;
        tern_answer_send(request);
        request = next;
    }
}

static void refuse_all(struct tern_service *service, struct request *taken)
{
    for (struct request *next; taken != NULL; taken = next) {
        next = taken->next;
        tern_answer_halted(taken);
        tern_request_list_add(&service->batch, taken);
    }
    send_batch(service);
}

static void run_batch(struct tern_service *service, struct request *taken, uint32_t count)
{
    uint64_t now = tern_service_now(service);
    service->batch_ms = tern_service_monotonic(service);
    bool flush = flush_due(service);
    double started = monotonic_ms();
    tern_federation_begin(service->federation);
    enum tern_result result = service->broken ? load_state(service) : TERN_OK;
    service->broken = result != TERN_OK;
    if (result == TERN_OK) {
        result = tern_db_begin(service->db);
    }
    if (result == TERN_OK) {
        result = run_transaction(service, taken, now, flush);
    } else {
        for (struct request *next; taken != NULL; taken = next) {
            next = taken->next;
            tern_request_list_add(&service->batch, taken);
        }
    }
    if (result != TERN_OK) {
        take_down(service, result);
    }
    if (flush) {
        tern_metering_settle(service->metering, result == TERN_OK);
        service->flushed_ms = service->batch_ms;
    }
    if (flush && result == TERN_OK) {
        tern_federation_flushed(service->federation);
    }
    if (count > 0) {
        observe(&service->counters.batch_size, (double)count);
        observe(&service->counters.commit_ms, monotonic_ms() - started);
    }
    publish(service);
    send_batch(service);
}

// --- The thread

static uint64_t left_until(uint64_t due, uint64_t now, uint64_t at_most)
{
    uint64_t left = due > now ? due - now : 0;
    return left < at_most ? left : at_most;
}

// How long nothing is due.
static uint64_t idle_ms(const struct tern_service *service)
{
    if (tern_service_is_halted(service)) {
        return SLEEP_MAX_MS;
    }
    if (service->held.asking != 0) {
        return 0;
    }
    uint64_t now = tern_service_monotonic(service);
    uint64_t left = left_until(tern_federation_next_advance(service->federation),
                               tern_service_now(service), SLEEP_MAX_MS);
    if (service->held.count > 0) {
        left = left_until(service->held.next_ms, now, left);
    }
    return left_until(service->flushed_ms + FLUSH_MS, now, left);
}

static void *run(void *arg)
{
    struct tern_service *service = arg;
    struct tern_request_queue *queue = &service->queue;
    pthread_mutex_lock(&queue->lock);
    while (!queue->stopping || queue->count > 0) {
        uint64_t idle = idle_ms(service);
        if (queue->count == 0 && !queue->poked && idle > 0) {
            tern_request_queue_wait(queue, idle);
        }
        uint32_t count = 0;
        struct request *taken = tern_request_queue_take(queue, BATCH_MAX, &count);
        service->quiescing = queue->quiesce;
        queue->poked = false;
        pthread_mutex_unlock(&queue->lock);
        if (tern_service_is_halted(service)) {
            refuse_all(service, taken);
        } else {
            run_batch(service, taken, count);
        }
        pthread_mutex_lock(&queue->lock);
    }
    pthread_mutex_unlock(&queue->lock);
    service->quiescing = true;
    if (!tern_service_is_halted(service)) {
        run_batch(service, NULL, 0);
    }
    return NULL;
}

// --- Life

static void service_free(struct tern_service *service)
{
    tern_federation_free(service->federation);
    tern_psk_keys_free(&service->psk_keys);
    tern_gate_free(service->gate);
    tern_metering_free(service->metering);
    tern_request_queue_free(&service->queue);
    free(service->held.of);
    free(service);
}

static enum tern_result admit(void *ctx, const struct tern_db_client *row)
{
    struct tern_service *service = ctx;
    return tern_gate_put(service->gate, row->id, row->token_hash, row->revoked);
}

static void dismiss(void *ctx, uint64_t first)
{
    struct tern_service *service = ctx;
    tern_gate_forget(service->gate, first);
}

static void metered(void *ctx, uint64_t client, uint32_t round, struct tern_db_meter *meter)
{
    struct tern_service *service = ctx;
    tern_metering_of(service->metering, client, round, meter);
}

static enum tern_result prepare(struct tern_service *service, char why[256])
{
    const struct tern_service_limits *limits = &service->config.limits;
    const struct tern_federation_ports ports = {service, admit, dismiss, metered};
    service->gate = tern_gate_new(limits->requests_per_minute, limits->enrollments_per_minute);
    service->metering = tern_metering_new();
    if (service->gate == NULL || service->metering == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    TERN_TRY(tern_federation_new(&service->config.federation, &ports, service->db,
                                 &service->federation, why));
    service->held.next_ms = UINT64_MAX;
    service->flushed_ms = tern_service_monotonic(service);
    tern_request_list_init(&service->batch);
    TERN_TRY(load_state(service));
    tern_federation_publish(service->federation);
    return TERN_OK;
}

static void explain_start(enum tern_result result, const struct tern_db *db, char why[256])
{
    const char *detail = tern_result_sentence(result);
    switch ((int)result) {
    case TERN_ERR_IO:
        detail = tern_db_error(db);
        break;
    case TERN_ERR_CONFIG: // it was explained already
        return;
    case TERN_ERR_UNKNOWN:
        detail = "its open round names a strategy, parameter or codec that is not known; start "
                 "the version of Tern that opened it, or a newer one";
        break;
    case TERN_ERR_CORRUPT:
    case TERN_ERR_NOT_FOUND:
    case TERN_ERR_STATE:
        detail = "the stored model, or the updates of its open round, are damaged or missing; "
                 "restore a backup";
        break;
    default:
        break;
    }
    snprintf(why, 256, "the state cannot be loaded: %s", detail);
}

enum tern_result tern_service_start(const struct tern_service_config *config, struct tern_db *db,
                                    struct tern_service **out, char why[256])
{
    struct tern_service *service = calloc(1, sizeof *service);
    if (service == NULL) {
        snprintf(why, 256, "%s", tern_result_sentence(TERN_ERR_NO_MEMORY));
        return TERN_ERR_NO_MEMORY;
    }
    service->config = *config;
    service->db = db;
    tern_psk_keys_init(&service->psk_keys);
    tern_request_queue_init(&service->queue, config->limits.queue);
    enum tern_result result = prepare(service, why);
    if (result == TERN_OK && pthread_create(&service->thread, NULL, run, service) != 0) {
        result = TERN_ERR_NO_MEMORY;
    }
    if (result != TERN_OK) {
        explain_start(result, db, why);
        service_free(service);
        return result;
    }
    *out = service;
    return TERN_OK;
}

void tern_service_quiesce(struct tern_service *service)
{
    tern_request_queue_tell(&service->queue, &service->queue.quiesce);
}

void tern_service_stop(struct tern_service *service)
{
    tern_request_queue_tell(&service->queue, &service->queue.stopping);
    pthread_join(service->thread, NULL);
    service_free(service);
}
