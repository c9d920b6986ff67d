// The service thread: one transaction per batch of requests, the stored clock, work of other threads, and halting.
#include "service/internal.h"

#include "hosted/system.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// --- Clocks

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"

// A smaller difference between the clocks is a correction by NTP; a larger difference means that the clock was set.
#define STEP_MIN_MS 1000

static struct tern_service_clock read_clock(const struct tern_service *service)
{
    return (struct tern_service_clock){tern_service_now(service), tern_service_monotonic(service)};
}

// Returns by how many ms the time of day was set between two readings; 0 = not set.
static int64_t clock_step(const struct tern_service_clock *before,
                          const struct tern_service_clock *now)
{
    const int64_t step =
        (int64_t)(now->day_ms - before->day_ms) - (int64_t)(now->steady_ms - before->steady_ms);
    return step > STEP_MIN_MS || step < -STEP_MIN_MS ? step : 0;
}

// Reads the id of the machine's boot; "" = unknown, which equals no boot.
static void read_boot(const struct tern_service *service, char *boot, size_t size)
{
    if (service->config.boot != NULL) {
        snprintf(boot, size, "%s", service->config.boot);
        return;
    }
    FILE *file = fopen(BOOT_ID_FILE, "r");
    boot[0] = '\0';
    if (file != NULL) {
        boot[fread(boot, 1, size - 1, file)] = '\0';
        boot[strcspn(boot, "\n")] = '\0';
        fclose(file);
    }
}

// Whether the machine has not been booted since the clock was stored, so that its monotonic time continues.
static bool is_same_boot(const struct tern_db_federation *stored, const char *boot,
                         uint64_t steady_ms)
{
    return boot[0] != '\0' && strcmp(stored->clock_boot, boot) == 0 &&
           stored->clock_steady_ms <= steady_ms;
}

// Loads the clock to which stored times refer, outside of transactions. *then_ms: the present time by this clock.
static enum tern_result load_clock(struct tern_service *service, uint64_t *then_ms)
{
    const struct tern_service_clock now = read_clock(service);
    struct tern_db_federation stored;
    char boot[sizeof stored.clock_boot];
    uint64_t latest_ms;
    TERN_TRY(tern_db_federation(service->db, &stored));
    TERN_TRY(tern_db_latest_ms(service->db, &latest_ms));
    read_boot(service, boot, sizeof boot);
    service->clock_is_stored = is_same_boot(&stored, boot, now.steady_ms);
    if (service->clock_is_stored) {
        service->clock.day_ms = stored.clock_day_ms;
        service->clock.steady_ms = stored.clock_steady_ms;
    } else { // the time since the last boot is unknown, but cannot be negative
        service->clock.day_ms = now.day_ms > latest_ms ? now.day_ms : latest_ms;
        service->clock.steady_ms = now.steady_ms;
    }
    *then_ms = now.day_ms - (uint64_t)clock_step(&service->clock, &now);
    return TERN_OK;
}

static enum tern_result store_clock(struct tern_service *service,
                                    const struct tern_service_clock *clock)
{
    struct tern_db_federation row = {.clock_day_ms = clock->day_ms,
                                     .clock_steady_ms = clock->steady_ms};
    read_boot(service, row.clock_boot, sizeof row.clock_boot);
    return tern_db_set_clock(service->db, &row);
}

static uint64_t monotonic_us(void)
{
    return (uint64_t)(tern_monotonic_seconds() * 1e6);
}

// Returns for how long the service thread has worked since the start, the present iteration included.
static uint64_t worked_us(const struct tern_service *service)
{
    return service->worked_us + (monotonic_us() - service->iteration_us);
}

static void measure_iteration(struct tern_service *service)
{
    const uint64_t now_us = monotonic_us();
    const uint64_t us = now_us - service->iteration_us;
    service->counters.worked_us = service->worked_us + us;
    service->counters.longest_us = tern_longest_add(&service->longest, now_us, us);
}

// --- Work of other threads

enum tern_result tern_service_run_work(struct tern_service *service, tern_service_work work,
                                       void *ctx)
{
    struct work *pending = &service->work;
    pthread_mutex_lock(&pending->lock);
    pending->work = work;
    pending->ctx = ctx;
    pending->step = WORK_QUEUED;
    pthread_mutex_unlock(&pending->lock);
    tern_request_queue_set_flag(&service->queue, &service->queue.woken);
    pthread_mutex_lock(&pending->lock);
    while (pending->step != WORK_ENDED) {
        pthread_cond_wait(&pending->ended, &pending->lock);
    }
    const enum tern_result result = pending->result;
    pending->step = WORK_NONE;
    pthread_mutex_unlock(&pending->lock);
    return result;
}

// Runs the queued work of another thread inside a transaction, and returns its result.
static enum tern_result do_work(struct tern_service *service, uint64_t now)
{
    struct work *pending = &service->work;
    pthread_mutex_lock(&pending->lock);
    const bool is_queued = pending->step == WORK_QUEUED;
    pthread_mutex_unlock(&pending->lock);
    if (!is_queued) {
        return TERN_OK;
    }
    const enum tern_result result = pending->work(service->federation, now, pending->ctx);
    pthread_mutex_lock(&pending->lock);
    pending->step = WORK_DONE;
    pthread_mutex_unlock(&pending->lock);
    return result;
}

// Wakes the thread that waits for its completed work. all: also if the work has not begun. result: TERN_OK = the work
// is committed.
static void end_work(struct tern_service *service, enum tern_result result, bool all)
{
    struct work *pending = &service->work;
    pthread_mutex_lock(&pending->lock);
    if (pending->step == WORK_DONE || (all && pending->step == WORK_QUEUED)) {
        pending->step = WORK_ENDED;
        pending->result = result;
        pthread_cond_signal(&pending->ended);
    }
    pthread_mutex_unlock(&pending->lock);
}

// --- Halting

// Clients retry a batch that failed because of the disk, memory or another writer. Retrying does not help if a file is
// damaged, or updates of the open round differ from the acknowledged ones; continuing would lose acknowledged updates. The
// service then halts: it writes nothing more and reports the halt to the operator. It also halts if another aggregator has
// taken over the database.

static void report_halt(struct tern_service *service)
{
    tern_log(TERN_LOG_ERROR, tern_db_is_displaced(service->db) ? "displaced" : "halted", "why=%s",
             TERN_LOG_TEXT(service->halt_why));
    if (service->config.on_halted != NULL) {
        service->config.on_halted(service->config.halted_ctx);
    }
}

// Sets halt_why; empty when nothing is damaged.
static void explain_halt(struct tern_service *service)
{
    const char *damage = tern_federation_damage(service->federation);
    if (damage == NULL && (tern_db_is_displaced(service->db) || tern_db_damaged(service->db))) {
        damage = tern_db_error(service->db);
    }
    snprintf(service->halt_why, sizeof service->halt_why, "%s", damage != NULL ? damage : "");
}

#define HALTED_RETRY_AFTER_S 60

// Answers 503 because the service has halted.
static void answer_halted(struct request *request)
{
    tern_answer_refusal(request, 503, TERN_ERR_IO,
                        "The aggregator has halted: its database needs repair. Nothing changed; "
                        "try again later.");
    request->reply.retry_after_s = HALTED_RETRY_AFTER_S;
}

// Answers 503 because another aggregator serves the federation now.
static void answer_displaced(struct request *request)
{
    tern_answer_refusal(request, 503, TERN_ERR_BUSY,
                        "Another aggregator serves this federation now. Nothing changed; try "
                        "again.");
}

// Returns the function that answers requests of a halted service.
static void (*halted_answer(const struct tern_service *service))(struct request *)
{
    return tern_db_is_displaced(service->db) ? answer_displaced : answer_halted;
}

// Halts after the rollback of a batch if the store or the federation is damaged: answers the batch and all held check-ins,
// reports the halt and returns true.
static bool halt_if_needed(struct tern_service *service)
{
    explain_halt(service);
    if (service->halt_why[0] == '\0') {
        return false;
    }
    tern_service_answer_failed(service, halted_answer(service));
    atomic_store(&service->halted, true);
    report_halt(service);
    return true;
}

bool tern_service_halted(struct tern_service *service, char why[256])
{
    if (!tern_service_is_halted(service)) {
        return false;
    }
    snprintf(why, 256, "%s", service->halt_why);
    return true;
}

// Most requests in one transaction: enough to share the transaction's fsync, few enough that the first request does not
// wait long for the last request.
#define BATCH_MAX 1024

// Longest time between two writes of the meter and of last_seen_ms, so that `report bytes` equals the clients' own meters
// a second after a round.
#define FLUSH_MS 500

#define SLEEP_MAX_MS 1000

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

// Whether an update must wait for the end of the merge, which decides whether the update is late, and what its client
// does next.
static bool awaits_merge(const struct tern_service *service, const struct request *request)
{
    return request->kind == REQUEST_UPDATE && !request->answered &&
           tern_federation_is_merging(service->federation);
}

static enum tern_result handle(struct tern_service *service, struct request *request, uint64_t now)
{
    if (request->handled || awaits_merge(service, request)) {
        return TERN_OK;
    }
    request->handled = true;
    return tern_service_handle(service, request, now);
}

// Prepends the updates that waited for a merge to the taken requests, once the merge is stored.
static enum tern_result end_waiting(struct tern_service *service, struct request **taken,
                                    uint64_t now)
{
    struct tern_request_list *waiting = &service->waiting;
    if (waiting->first == NULL) {
        return TERN_OK;
    }
    TERN_TRY(tern_federation_advance(service->federation, now));
    if (!tern_federation_is_merging(service->federation)) {
        *waiting->end = *taken;
        *taken = waiting->first;
        tern_request_list_init(waiting);
    }
    return TERN_OK;
}

static void put(struct tern_service *service, struct request *request, bool waits)
{
    if (waits) {
        tern_request_list_add(&service->waiting, request);
    } else if (!tern_service_holds(service, request)) {
        tern_request_list_add(&service->batch, request);
    }
}

// Sets the request's id for the following log lines. Jobs have none: ids of the admin listener count separately.
static void set_log_request(const struct request *request)
{
    const bool is_clients = request->kind != REQUEST_JOB;
    tern_log_set_request(is_clients ? tern_http_exchange_request(request->exchange)->id : 0);
}

// Handles the taken requests. Each request is then answered in service->batch, held, or in service->waiting.
static enum tern_result handle_all(struct tern_service *service, struct request *taken,
                                   uint64_t now)
{
    enum tern_result result = end_waiting(service, &taken, now);
    for (struct request *request = taken; request != NULL && result == TERN_OK;
         request = request->next) {
        set_log_request(request);
        result = handle(service, request, now);
    }
    // Log lines about rounds have the id of the newest request.
    if (result == TERN_OK) {
        result = tern_federation_advance(service->federation, now);
    }
    while (taken != NULL) {
        struct request *request = taken;
        taken = taken->next;
        // An update that was not handled because of a merge waits for the next batch, even if the merge has ended
        // since.
        const bool waits =
            result == TERN_OK && (!request->handled || awaits_merge(service, request));
        if (result == TERN_OK && !waits) {
            set_log_request(request);
            result = tern_service_settle(service, request, now);
        }
        put(service, request, waits);
    }
    tern_log_set_request(0);
    return result != TERN_OK ? result : tern_service_settle_held(service, now);
}

// Whether meter and clients must be written: every FLUSH_MS, after a round has advanced (its replies are sent and
// counted), before new settings load memory again, and at the end.
static bool flush_due(const struct tern_service *service)
{
    return service->quiescing || atomic_load(&service->config_changed) ||
           tern_federation_has_progressed(service->federation) ||
           service->batch_ms >= service->flushed_ms + FLUSH_MS;
}

static enum tern_result load_state(struct tern_service *service)
{
    uint64_t then_ms;
    TERN_TRY(load_clock(service, &then_ms));
    TERN_TRY(tern_federation_load(service->federation, then_ms));
    TERN_TRY(tern_front_load(service));
    tern_service_restore_held(service);
    return TERN_OK;
}

enum tern_result tern_service_reload_clients(struct tern_service *service)
{
    TERN_TRY(tern_front_load(service));
    return tern_federation_reload_clients(service->federation);
}

enum tern_result tern_service_reload_codes(struct tern_service *service)
{
    return tern_front_load(service);
}

enum tern_result tern_service_reload_round(struct tern_service *service)
{
    return tern_federation_reload_round(service->federation);
}

const struct tern_federation *tern_service_federation(const struct tern_service *service)
{
    return service->federation;
}

// Loads what verbs of the command line have changed in the store.
static enum tern_result load_changes(struct tern_service *service)
{
    TERN_TRY(tern_federation_reload_round(service->federation));
    return tern_service_reload_clients(service);
}

static bool clock_is_current(const struct tern_service *service,
                             const struct tern_service_clock *clock)
{
    return service->clock_is_stored && clock_step(&service->clock, clock) == 0;
}

// Rebases every in-memory timestamp after the clock was set, and stores the new clock.
static enum tern_result rebase_clock(struct tern_service *service,
                                     const struct tern_service_clock *clock)
{
    const int64_t step = clock_step(&service->clock, clock);
    if (step != 0) {
        tern_log(TERN_LOG_WARN, "clock-was-set", "seconds=%lld", (long long)(step / 1000));
        TERN_TRY(tern_federation_set_clock(service->federation, step));
        TERN_TRY(tern_federation_flush(service->federation));
    }
    return store_clock(service, clock);
}

static enum tern_result run_transaction(struct tern_service *service, struct request *taken,
                                        const struct tern_service_clock *clock, bool flush)
{
    enum tern_result result = TERN_OK;
    if (tern_db_changed_by_others(service->db)) { // checked before rebase_clock() writes the round
        result = load_changes(service);
    }
    if (result == TERN_OK && !clock_is_current(service, clock)) {
        result = rebase_clock(service, clock);
    }
    if (result == TERN_OK) {
        result = do_work(service, clock->day_ms);
    }
    enum tern_result handled = handle_all(service, taken, clock->day_ms);
    result = result != TERN_OK ? result : handled;
    if (result == TERN_OK && flush) {
        result = tern_federation_flush(service->federation);
    }
    if (result == TERN_OK && flush) {
        result = tern_metering_flush(service->metering, service->db);
    }
    // After a failure, a batch must write even if it has nothing to write, to prove that the store works again.
    if (result == TERN_OK && service->snapshot.failure[0] != '\0') {
        result = tern_db_touch(service->db);
    }
    return result == TERN_OK ? tern_db_commit(service->db) : result;
}

// Loads all state from the store, as after a restart, so that no decision of a failed transaction remains.
static void reload(struct tern_service *service)
{
    enum tern_result loaded = load_state(service);
    service->broken = loaded != TERN_OK;
    if (service->broken) {
        halt_if_needed(service);
        tern_log(TERN_LOG_ERROR, "load-failed", "error=%s detail=%s", tern_result_name(loaded),
                 TERN_LOG_TEXT(tern_db_error(service->db)));
    }
}

static void mark_stored(struct tern_service *service)
{
    struct request *request = service->waiting.first;
    for (; request != NULL; request = request->next) {
        request->stored = request->handled;
    }
}

// Adds the requests to the batch and calls `answer` for each request; NULL = without an answer.
static void add_to_batch(struct tern_service *service, struct request *taken,
                         void (*answer)(struct request *))
{
    for (struct request *next; taken != NULL; taken = next) {
        next = taken->next;
        if (answer != NULL) {
            answer(taken);
        }
        tern_request_list_add(&service->batch, taken);
    }
}

// Closes the connections of the batch's 503 replies if other aggregators may serve their clients.
static void reconnect_batch(struct tern_service *service)
{
    for (struct request *request = service->batch.first; request != NULL; request = request->next) {
        tern_answer_reconnect(request, service->config.shares);
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

// Refuses the queued requests, which have waited as long as the failed batch.
static void refuse_queued(struct tern_service *service)
{
    uint32_t count = 0;
    pthread_mutex_lock(&service->queue.lock);
    struct request *queued = tern_request_queue_take(&service->queue, UINT32_MAX, &count);
    pthread_mutex_unlock(&service->queue.lock);
    add_to_batch(service, queued, tern_answer_unavailable);
}

// Rolls back a failed batch, answers its requests and all held check-ins with 503, and loads memory again. counted: the
// counters when the batch began.
static void fail_batch(struct tern_service *service, enum tern_result why,
                       const struct tern_service_facts *counted)
{
    tern_db_rollback(service->db);
    tern_log_release(false);
    service->counters = *counted;
    service->counters.batches_failed++;
    atomic_store(&service->current_ms, 0);
    add_to_batch(service, service->waiting.first, NULL);
    tern_request_list_init(&service->waiting);
    tern_service_snapshot_stored(service, why);
    const bool halted = halt_if_needed(service);
    tern_log(TERN_LOG_ERROR, "batch-failed", "error=%s detail=%s", tern_result_name(why),
             TERN_LOG_TEXT(tern_db_error(service->db)));
    if (halted) {
        reconnect_batch(service);
        return;
    }
    tern_service_answer_failed(service, tern_answer_unavailable);
    if (tern_service_is_stuck(service)) {
        refuse_queued(service);
        service->broken = true; // loading the store would take as long, so the next batch does it
    }
    reconnect_batch(service);
    // A new iteration begins before the answers, because a client may send its next request at once.
    atomic_store(&service->iteration_ms, tern_monotonic_ms());
    send_batch(service);
    if (!service->broken) { // if broken, the next batch loads memory
        reload(service);
    }
    // An immediate retry on a full or failing disk would fail, too.
    nanosleep(&(struct timespec){.tv_nsec = 50000000L}, NULL);
}

// Publishes counters and, if memory equals the store, the federation's state to other threads.
static void publish(struct tern_service *service)
{
    const bool is_stored = !service->broken && !tern_service_is_halted(service);
    measure_iteration(service);
    tern_service_snapshot_update(service, is_stored);
    if (is_stored) {
        tern_federation_publish(service->federation);
    }
}

static void refuse_all(struct tern_service *service, struct request *taken)
{
    add_to_batch(service, taken, halted_answer(service));
    reconnect_batch(service);
    send_batch(service);
}

static void run_batch(struct tern_service *service, struct request *taken, uint32_t count)
{
    const struct tern_service_clock clock = read_clock(service);
    service->batch_ms = clock.steady_ms;
    bool flush = flush_due(service);
    const double started_s = tern_monotonic_seconds();
    const struct tern_service_facts counted = service->counters;
    tern_federation_begin_transaction(service->federation, worked_us(service));
    enum tern_result result = service->broken ? load_state(service) : TERN_OK;
    service->broken = result != TERN_OK;
    if (result == TERN_OK) {
        result = tern_db_begin(service->db);
    }
    if (result == TERN_OK) {
        tern_log_hold();
        result = run_transaction(service, taken, &clock, flush);
    } else {
        add_to_batch(service, taken, NULL);
    }
    if (result != TERN_OK) {
        fail_batch(service, result, &counted);
    } else {
        atomic_store(&service->current_ms, clock.steady_ms);
        tern_log_release(true);
        if (!clock_is_current(service, &clock)) {
            service->clock = clock;
            service->clock_is_stored = true;
        }
        mark_stored(service);
        // During a merge, the failed write may have been the new version, which this batch has not repeated.
        if (!tern_federation_is_merging(service->federation)) {
            tern_service_snapshot_stored(service, TERN_OK);
        }
    }
    if (flush) {
        tern_metering_end_flush(service->metering, result == TERN_OK);
        service->flushed_ms = service->batch_ms;
    }
    if (flush && result == TERN_OK) {
        tern_federation_flushed(service->federation);
    }
    if (count > 0) {
        observe(&service->counters.batch_size, (double)count);
        observe(&service->counters.commit_ms, (tern_monotonic_seconds() - started_s) * 1e3);
    }
    publish(service);
    send_batch(service);
    end_work(service, result == TERN_OK ? TERN_OK : TERN_ERR_BUSY, false);
}

// --- New settings

static bool is_settled(const struct tern_service *service)
{
    return !service->broken && service->waiting.first == NULL &&
           !tern_federation_is_merging(service->federation);
}

// Applies the settings; if the federation's have changed, the next batch loads memory again.
static void configure(struct tern_service *service, const struct tern_service_config *next)
{
    service->config.limits = next->limits;
    if (memcmp(&service->config.federation, &next->federation, sizeof next->federation) != 0) {
        service->config.federation = next->federation;
        tern_federation_configure(service->federation, &next->federation);
        service->broken = true;
    }
}

// Applies a new configuration, after a batch that stores everything pending.
static void apply_config(struct tern_service *service)
{
    if (!atomic_load(&service->config_changed) || !is_settled(service)) {
        return;
    }
    run_batch(service, NULL, 0);
    if (!is_settled(service) || tern_service_is_halted(service)) {
        return;
    }
    pthread_mutex_lock(&service->next_config_lock);
    configure(service, &service->next_config);
    atomic_store(&service->config_changed, false);
    pthread_mutex_unlock(&service->next_config_lock);
}

enum tern_result tern_service_check_config(const struct tern_service *service,
                                           const struct tern_service_config *config, char why[256])
{
    return tern_federation_accepts_config(service->federation, &config->federation, why);
}

void tern_service_configure(struct tern_service *service, const struct tern_service_config *config)
{
    tern_front_configure(service, config);
    tern_request_queue_set_limit(&service->queue, config->limits.queue);
    pthread_mutex_lock(&service->next_config_lock);
    service->next_config = *config;
    atomic_store(&service->config_changed, true);
    pthread_mutex_unlock(&service->next_config_lock);
    tern_request_queue_set_flag(&service->queue, &service->queue.woken);
}

// --- The thread

static uint64_t left_until(uint64_t due, uint64_t now, uint64_t at_most)
{
    uint64_t left = due > now ? due - now : 0;
    return left < at_most ? left : at_most;
}

// Returns how many ms the service thread can wait for requests.
static uint64_t idle_ms(const struct tern_service *service)
{
    if (tern_service_is_halted(service)) {
        return SLEEP_MAX_MS;
    }
    // After a failure the thread tries again with the next request, or in a second.
    if (service->broken || service->snapshot.failure[0] != '\0') {
        return left_until(service->batch_ms + SLEEP_MAX_MS, tern_service_monotonic(service),
                          SLEEP_MAX_MS);
    }
    const bool waited =
        service->waiting.first != NULL && !tern_federation_is_merging(service->federation);
    if (service->held.retry != 0 || waited) {
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

// Takes requests off the queue; if the queue is empty, waits for a request or the end of idle_ms(). False: the service
// stops, and the queue is empty.
static bool begin_iteration(struct tern_service *service, struct request **taken, uint32_t *count)
{
    struct tern_request_queue *queue = &service->queue;
    const uint64_t idle = idle_ms(service);
    pthread_mutex_lock(&queue->lock);
    if (queue->stopping && queue->count == 0) {
        pthread_mutex_unlock(&queue->lock);
        return false;
    }
    if (queue->count == 0 && !queue->woken && idle > 0) {
        tern_request_queue_wait(queue, idle);
    }
    *taken = tern_request_queue_take(queue, BATCH_MAX, count);
    service->quiescing = queue->quiesce;
    atomic_fetch_add(&service->iterations, 1);
    queue->woken = false;
    pthread_mutex_unlock(&queue->lock);
    service->iteration_us = monotonic_us();
    atomic_store(&service->iteration_service_ms, tern_service_monotonic(service));
    atomic_store(&service->iteration_ms, tern_monotonic_ms());
    return true;
}

static void end_iteration(struct tern_service *service)
{
    tern_access_log_report_dropped(&service->access, tern_service_monotonic(service));
    measure_iteration(service);
    service->worked_us = service->counters.worked_us;
    atomic_store(&service->iteration_service_ms, 0);
    atomic_store(&service->iteration_ms, 0);
}

// Stores everything pending, and completes a merge.
static void finish(struct tern_service *service)
{
    service->quiescing = true;
    service->iteration_us = monotonic_us();
    tern_access_log_report_dropped(&service->access, UINT64_MAX);
    if (!tern_service_is_halted(service)) {
        run_batch(service, NULL, 0);
    }
    while (!tern_service_is_halted(service) &&
           (tern_federation_is_merging(service->federation) || service->waiting.first != NULL)) {
        tern_federation_wait_for_merge(service->federation);
        run_batch(service, NULL, 0);
    }
    end_work(service, TERN_ERR_BUSY, true);
}

static void *run(void *arg)
{
    struct tern_service *service = arg;
    struct request *taken = NULL;
    uint32_t count = 0;
    while (begin_iteration(service, &taken, &count)) {
        if (tern_service_is_halted(service)) {
            refuse_all(service, taken);
            end_work(service, TERN_ERR_IO, true);
        } else {
            apply_config(service);
            run_batch(service, taken, count);
        }
        end_iteration(service);
    }
    finish(service);
    return NULL;
}

// --- Life

static void service_free(struct tern_service *service)
{
    tern_federation_free(service->federation);
    tern_front_close(service);
    pthread_mutex_destroy(&service->snapshot.lock);
    tern_metering_free(service->metering);
    tern_request_queue_free(&service->queue);
    pthread_mutex_destroy(&service->next_config_lock);
    pthread_cond_destroy(&service->work.ended);
    pthread_mutex_destroy(&service->work.lock);
    free(service->held.checkins);
    free(service);
}

static enum tern_result admit(void *ctx, const struct tern_db_client *row)
{
    struct tern_service *service = ctx;
    return tern_gate_set_client(service->gate, row->id, row->token_hash, row->name, row->revoked);
}

static void dismiss(void *ctx, uint64_t first)
{
    struct tern_service *service = ctx;
    tern_gate_remove_from(service->gate, first);
}

static void metered(void *ctx, uint64_t client, uint32_t round, struct tern_db_meter *meter)
{
    struct tern_service *service = ctx;
    tern_metering_pending(service->metering, client, round, meter);
}

static void wake(void *ctx)
{
    struct tern_service *service = ctx;
    tern_request_queue_set_flag(&service->queue, &service->queue.woken);
}

static enum tern_result prepare(struct tern_service *service, char why[256])
{
    const struct tern_federation_ports ports = {service, admit, dismiss,
                                                metered, wake,  service->config.helper};
    service->metering = tern_metering_new();
    if (service->metering == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    TERN_TRY(tern_federation_new(&service->config.federation, &ports, service->db,
                                 &service->federation, why));
    service->held.next_ms = UINT64_MAX;
    service->flushed_ms = tern_service_monotonic(service);
    service->iteration_us = monotonic_us();
    tern_request_list_init(&service->batch);
    tern_request_list_init(&service->waiting);
    TERN_TRY(load_state(service));
    atomic_store(&service->current_ms, tern_service_monotonic(service));
    publish(service);
    service->worked_us = service->counters.worked_us; // loading counts, too
    return TERN_OK;
}

static void explain_start(enum tern_result result, struct tern_db *db, char why[256])
{
    tern_db_damaged(db); // sets tern_db_error() to the damage, if there is any
    const char *detail = tern_result_sentence(result);
    switch ((int)result) {
    case TERN_ERR_IO:
        if (why[0] !=
            '\0') { // the error is of the merges' database connection, and `why` describes it
            return;
        }
        detail = tern_db_error(db);
        break;
    case TERN_ERR_CONFIG: // `why` has the reason
        return;
    case TERN_ERR_UNKNOWN:
        detail = "the open round has an unknown strategy, parameter or codec; start the version "
                 "of Tern that opened it, or a newer one";
        break;
    case TERN_ERR_CORRUPT:
    case TERN_ERR_NOT_FOUND:
    case TERN_ERR_STATE:
        detail = "the stored model, or updates of the open round, are damaged or missing; restore "
                 "a backup";
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
    why[0] = '\0';
    if (service == NULL) {
        snprintf(why, 256, "%s", tern_result_sentence(TERN_ERR_NO_MEMORY));
        return TERN_ERR_NO_MEMORY;
    }
    service->config = *config;
    service->db = db;
    pthread_mutex_init(&service->next_config_lock, NULL);
    pthread_mutex_init(&service->work.lock, NULL);
    pthread_cond_init(&service->work.ended, NULL);
    pthread_mutex_init(&service->snapshot.lock, NULL);
    tern_request_queue_init(&service->queue, config->limits.queue);
    enum tern_result result = tern_front_open(service);
    if (result == TERN_ERR_IO) {
        snprintf(why, 256, "the system has no random bytes");
    }
    if (result == TERN_OK) {
        result = prepare(service, why);
    }
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

uint64_t tern_service_iterations(const struct tern_service *service)
{
    return atomic_load(&service->iterations);
}

void tern_service_quiesce(struct tern_service *service)
{
    tern_request_queue_set_flag(&service->queue, &service->queue.quiesce);
}

void tern_service_stop(struct tern_service *service)
{
    tern_request_queue_set_flag(&service->queue, &service->queue.stopping);
    pthread_join(service->thread, NULL);
    service_free(service);
}
