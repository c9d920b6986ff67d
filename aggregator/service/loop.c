// The service thread: one transaction per batch of requests.
#include "service/internal.h"
#include "service/own_replicas.h"

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

// --- Small things

uint64_t service_now(const struct tern_service *service)
{
    if (service->config.now_ms != NULL) {
        return service->config.now_ms();
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static double monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

uint64_t monotonic_now(const struct tern_service *service)
{
    return service->config.monotonic_ms != NULL ? service->config.monotonic_ms()
                                                : (uint64_t)monotonic_ms();
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

static enum tern_result handle_job(struct tern_service *service, struct request *request,
                                   uint64_t now)
{
    struct job_request *job = &request->u.job;
    request->answered = true;
    return job->job(service, service->db, now, job->ctx, &request->reply);
}

// The last word on who may come in: the gate's table may be older than a revocation.
static bool is_admitted(struct tern_service *service, const struct request *request)
{
    if (request->kind == REQUEST_ENROLL || request->kind == REQUEST_JOB) {
        return true;
    }
    const struct client *client = client_of(service, request->client);
    return client != NULL && !client->revoked;
}

static enum tern_result handle(struct tern_service *service, struct request *request, uint64_t now)
{
    if (!is_admitted(service, request)) {
        atomic_fetch_add(&service->unauthorized, 1);
        answer_error(request, 401, TERN_ERR_UNAUTHORIZED);
        return TERN_OK;
    }
    switch (request->kind) {
    case REQUEST_ENROLL:
        return handle_enroll(service, request, now);
    case REQUEST_CHECKIN:
        return handle_checkin(service, request, now);
    case REQUEST_DOWNLOAD:
        return handle_download(service, request);
    case REQUEST_UPDATE:
        return handle_update(service, request, now);
    case REQUEST_JOB:
        break;
    }
    return handle_job(service, request, now);
}

static enum tern_result settle(struct tern_service *service, struct request *request, uint64_t now)
{
    if (request->answered) {
        return TERN_OK;
    }
    return request->kind == REQUEST_CHECKIN ? settle_checkin(service, request, now)
                                            : settle_update(service, request, now);
}

// Handles the taken requests. Each ends up in service->batch, answered, or held.
static enum tern_result handle_all(struct tern_service *service, struct request *taken,
                                   uint64_t now)
{
    enum tern_result result = TERN_OK;
    for (struct request *request = taken; request != NULL && result == TERN_OK;
         request = request->next) {
        result = handle(service, request, now);
    }
    if (result == TERN_OK) {
        result = advance_rounds(service, now);
    }
    while (taken != NULL) {
        struct request *request = taken;
        taken = taken->next;
        if (result == TERN_OK) {
            result = settle(service, request, now);
        }
        const struct client *client = client_of(service, request->client);
        if (client == NULL || client->held != request) {
            request_list_add(&service->batch, request);
        }
    }
    return result != TERN_OK ? result : settle_held(service, now);
}

// Also once after a round has moved on: by then its replies are sent, and their bytes are counted.
static bool flush_due(const struct tern_service *service)
{
    return service->quiescing || service->moved ||
           service->batch_ms >= service->flushed_ms + FLUSH_MS;
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
        result = flush_state(service);
    }
    return result == TERN_OK ? tern_db_commit(service->db) : result;
}

static void forget_dirty(struct tern_service *service)
{
    for (uint32_t i = 0; i < service->client_count; i++) {
        service->clients[i].dirty = false;
    }
}

static void take_down(struct tern_service *service, enum tern_result why)
{
    tern_log(TERN_LOG_ERROR, "batch-failed", "error=%s detail=%s", tern_result_name(why),
             TERN_LOG_TEXT(tern_db_error(service->db)));
    tern_db_rollback(service->db);
    service->counters.batches_failed++;
    if (halt_if_needed(service)) {
        return;
    }
    for (struct request *request = service->batch.first; request != NULL; request = request->next) {
        answer_unavailable(request);
    }
    // Where clients were last seen survives in memory; all else comes from the store again.
    enum tern_result loaded = load_state(service);
    if (loaded != TERN_OK) {
        tern_log(TERN_LOG_ERROR, "reload-failed", "error=%s detail=%s", tern_result_name(loaded),
                 TERN_LOG_TEXT(tern_db_error(service->db)));
        service->broken = true;
        if (halt_if_needed(service)) {
            return;
        }
    }
    // A full or failing disk does not get better by being asked at once.
    nanosleep(&(struct timespec){.tv_nsec = 50000000L}, NULL);
}

// Memory holds what is committed here, or what was loaded after a rollback; else the roster stays.
static void publish_roster(struct tern_service *service)
{
    bool due = service->roster_due || service->moved;
    if (due && !service->broken && !is_halted(service)) {
        roster_publish(&service->roster, &service->machine);
        service->roster_due = false;
    }
}

static void send_batch(struct tern_service *service)
{
    struct request *request = service->batch.first;
    request_list_init(&service->batch);
    while (request != NULL) {
        struct request *next = request->next;
        send_answer(request);
        request = next;
    }
}

static void refuse_all(struct tern_service *service, struct request *taken)
{
    for (struct request *next; taken != NULL; taken = next) {
        next = taken->next;
        answer_halted(taken);
        request_list_add(&service->batch, taken);
    }
    send_batch(service);
}

static void run_batch(struct tern_service *service, struct request *taken, uint32_t count)
{
    uint64_t now = service_now(service);
    service->batch_ms = monotonic_now(service);
    bool flush = flush_due(service);
    double started = monotonic_ms();
    service->moved = false;
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
            request_list_add(&service->batch, taken);
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
        forget_dirty(service);
    }
    if (count > 0) {
        observe(&service->counters.batch_size, (double)count);
        observe(&service->counters.commit_ms, monotonic_ms() - started);
    }
    publish_roster(service);
    send_batch(service);
}

// --- The thread

static void wait_ms(struct request_queue *queue, uint64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    pthread_cond_timedwait(&queue->wake, &queue->lock, &until);
}

// Takes up to BATCH_MAX requests off the queue, which is locked.
static struct request *take(struct request_queue *queue, uint32_t *count)
{
    struct request *first = queue->list.first;
    struct request **end = &queue->list.first;
    *count = 0;
    while (*end != NULL && *count < BATCH_MAX) {
        end = &(*end)->next;
        (*count)++;
    }
    if (first == NULL) {
        return NULL;
    }
    queue->list.first = *end;
    if (*end == NULL) {
        queue->list.end = &queue->list.first;
    }
    *end = NULL;
    queue->count -= *count;
    return first;
}

static uint64_t left_until(uint64_t due, uint64_t now, uint64_t at_most)
{
    uint64_t left = due > now ? due - now : 0;
    return left < at_most ? left : at_most;
}

// How long nothing is due.
static uint64_t idle_ms(const struct tern_service *service)
{
    if (is_halted(service)) {
        return SLEEP_MAX_MS;
    }
    uint64_t now = monotonic_now(service);
    uint64_t left = left_until(next_advance(service), service_now(service), SLEEP_MAX_MS);
    if (service->held_count > 0) {
        left = left_until(service->next_hold_ms, now, left);
    }
    return left_until(service->flushed_ms + FLUSH_MS, now, left);
}

static void *run(void *arg)
{
    struct tern_service *service = arg;
    struct request_queue *queue = &service->queue;
    pthread_mutex_lock(&queue->lock);
    while (!queue->stopping || queue->count > 0) {
        uint64_t idle = idle_ms(service);
        if (queue->count == 0 && !queue->poked && idle > 0) {
            wait_ms(queue, idle);
        }
        uint32_t count = 0;
        struct request *taken = take(queue, &count);
        service->quiescing = queue->quiesce;
        queue->poked = false;
        pthread_mutex_unlock(&queue->lock);
        if (is_halted(service)) {
            refuse_all(service, taken);
        } else {
            run_batch(service, taken, count);
        }
        pthread_mutex_lock(&queue->lock);
    }
    pthread_mutex_unlock(&queue->lock);
    service->quiescing = true;
    if (!is_halted(service)) {
        run_batch(service, NULL, 0);
    }
    return NULL;
}

// --- Life

static void queue_init(struct request_queue *queue, uint32_t max)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&queue->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&queue->lock, NULL);
    request_list_init(&queue->list);
    queue->max = max;
}

static void service_free(struct tern_service *service)
{
    tern_blob_cache_clear(&service->cache);
    places_free(&service->places);
    roster_free(&service->roster);
    psk_keys_free(&service->psk_keys);
    own_replicas_free(service->own_replicas);
    tern_merge_free(&service->merge);
    tern_gate_free(service->gate);
    tern_metering_free(service->metering);
    pthread_cond_destroy(&service->queue.wake);
    pthread_mutex_destroy(&service->queue.lock);
    free(service->machine.members);
    free(service->clients);
    free(service->eligible);
    free(service->deltas);
    free(service);
}

static enum tern_result prepare(struct tern_service *service, char why[256])
{
    const struct tern_service_limits *limits = &service->config.limits;
    service->gate = tern_gate_new(limits->requests_per_minute, limits->enrollments_per_minute);
    service->metering = tern_metering_new();
    if (service->gate == NULL || service->metering == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    TERN_TRY(tern_db_federation(service->db, &service->federation));
    TERN_TRY(tern_merge_init(&service->merge, &service->federation));
    if (!check_strategy(&service->config, service->merge.model.count, why)) {
        return TERN_ERR_CONFIG;
    }
    service->merge.memory = service->config.strategy_memory;
    service->own_replicas = own_replicas_new(service);
    if (service->own_replicas == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    service->cache.bytes_max = limits->download_cache;
    service->update_max = service->merge.buffers.blob_size;
    service->next_hold_ms = UINT64_MAX;
    service->flushed_ms = monotonic_now(service);
    request_list_init(&service->batch);
    TERN_TRY(load_state(service));
    roster_publish(&service->roster, &service->machine);
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
    places_init(&service->places);
    roster_init(&service->roster);
    psk_keys_init(&service->psk_keys);
    queue_init(&service->queue, config->limits.queue);
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
    pthread_mutex_lock(&service->queue.lock);
    service->queue.quiesce = true;
    service->queue.poked = true;
    pthread_cond_signal(&service->queue.wake);
    pthread_mutex_unlock(&service->queue.lock);
}

void tern_service_stop(struct tern_service *service)
{
    pthread_mutex_lock(&service->queue.lock);
    service->queue.stopping = true;
    service->queue.poked = true;
    pthread_cond_signal(&service->queue.wake);
    pthread_mutex_unlock(&service->queue.lock);
    pthread_join(service->thread, NULL);
    service_free(service);
}
