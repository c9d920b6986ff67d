// The service thread: one transaction per batch of requests. It also has the clocks, the work that other threads give it,
// and the end of a service whose store is damaged.
#include "service/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// --- Clocks

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"

// A smaller step is a clock that is kept in time, not one that was set.
#define STEP_MIN_MS 1000

static struct tern_service_clock read_clock(const struct tern_service *service)
{
    return (struct tern_service_clock){tern_service_now(service), tern_service_monotonic(service)};
}

// Returns by how many ms the time of day was set between two readings; 0 = it was not set.
static int64_t clock_step(const struct tern_service_clock *before,
                          const struct tern_service_clock *now)
{
    const int64_t step =
        (int64_t)(now->day_ms - before->day_ms) - (int64_t)(now->steady_ms - before->steady_ms);
    return step > STEP_MIN_MS || step < -STEP_MIN_MS ? step : 0;
}

// Reads the id of the machine's boot; empty where there is none, which equals no other.
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

// Whether monotonic time has continued since the clock was stored.
static bool is_same_boot(const struct tern_db_federation *stored, const char *boot,
                         uint64_t steady_ms)
{
    return boot[0] != '\0' && strcmp(stored->clock_boot, boot) == 0 &&
           stored->clock_steady_ms <= steady_ms;
}

// Loads the clock that stored times use, outside of transactions. then_ms: its time now.
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
    } else { // only that time cannot have gone back
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

// --- Work of other threads

static void init_work(struct work *work)
{
    pthread_mutex_init(&work->lock, NULL);
    pthread_cond_init(&work->ended, NULL);
}

static void free_work(struct work *work)
{
    pthread_cond_destroy(&work->ended);
    pthread_mutex_destroy(&work->lock);
}

enum tern_result tern_service_do(struct tern_service *service, tern_service_work work, void *ctx)
{
    struct work *place = &service->work;
    pthread_mutex_lock(&place->lock);
    place->work = work;
    place->ctx = ctx;
    place->step = WORK_ASKED;
    pthread_mutex_unlock(&place->lock);
    tern_request_queue_set_flag(&service->queue, &service->queue.poked);
    pthread_mutex_lock(&place->lock);
    while (place->step != WORK_ENDED) {
        pthread_cond_wait(&place->ended, &place->lock);
    }
    const enum tern_result result = place->result;
    place->step = WORK_NONE;
    pthread_mutex_unlock(&place->lock);
    return result;
}

static bool has_work(struct tern_service *service)
{
    pthread_mutex_lock(&service->work.lock);
    const bool has = service->work.step == WORK_ASKED;
    pthread_mutex_unlock(&service->work.lock);
    return has;
}

// Does the work of another thread, inside of a transaction, and returns its result.
static enum tern_result do_work(struct tern_service *service, uint64_t now)
{
    struct work *place = &service->work;
    if (!has_work(service)) {
        return TERN_OK;
    }
    const enum tern_result result = place->work(service->federation, now, place->ctx);
    pthread_mutex_lock(&place->lock);
    place->step = WORK_DONE;
    pthread_mutex_unlock(&place->lock);
    return result;
}

// Wakes the callers that wait for completed work; `all` wakes every caller. result: TERN_OK = the work is committed.
static void end_work(struct tern_service *service, enum tern_result result, bool all)
{
    struct work *place = &service->work;
    pthread_mutex_lock(&place->lock);
    if (place->step == WORK_DONE || (all && place->step == WORK_ASKED)) {
        place->step = WORK_ENDED;
        place->result = result;
        pthread_cond_signal(&place->ended);
    }
    pthread_mutex_unlock(&place->lock);
}

// --- Stopping for good

// A batch that fails because of the disk, of memory or of another writer is tried again by its senders. A damaged file,
// or updates of the open round that differ from what was acknowledged, does not get better by trying, and to continue
// without them would drop what clients were told is counted. So nothing is written any more, and the operator is told.
// The same happens when another aggregator serves the database now.

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

static void (*answer_of(const struct tern_service *service))(struct request *)
{
    return tern_db_is_displaced(service->db) ? tern_answer_displaced : tern_answer_halted;
}

// Answers a request of a service that has halted.
static void answer_halted(const struct tern_service *service, struct request *request)
{
    answer_of(service)(request);
}

// After the rollback of a batch: if the store or the federation is damaged, answers the batch and all held check-ins,
// notifies the operator and returns true.
static bool halt_if_needed(struct tern_service *service)
{
    explain_halt(service);
    if (service->halt_why[0] == '\0') {
        return false;
    }
    tern_service_release_held(service);
    tern_service_answer_failed(service, answer_of(service));
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

// Requests taken into one transaction: enough to pay for its fsync, few enough that the first need
// not wait long for the last.
#define BATCH_MAX 1024

// Maximum time between writes of the meter and of the times clients were last seen: a second after a
// round `report bytes` equals the clients' own meters.
#define FLUSH_MS 500

#define SLEEP_MAX_MS 1000

// Returns the machine's monotonic time, whatever clock the service was given: for how long work takes.
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

// Whether an update must wait until the open round is merged. Only then is known whether it is late, and what its client
// should do next.
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

// Puts the updates that waited for a merge before the taken requests, once the merge is stored.
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

// Lines of the log name it until the next one. Jobs are of the other listener, which counts by itself.
static void name_in_log(const struct request *request)
{
    const bool is_clients = request->kind != REQUEST_JOB;
    tern_log_set_request(is_clients ? tern_request_http(request)->id : 0);
}

// Handles the taken requests. Each ends up in service->batch, answered, or held, or waiting.
static enum tern_result handle_all(struct tern_service *service, struct request *taken,
                                   uint64_t now)
{
    enum tern_result result = end_waiting(service, &taken, now);
    for (struct request *request = taken; request != NULL && result == TERN_OK;
         request = request->next) {
        name_in_log(request);
        result = handle(service, request, now);
    }
    // What becomes of rounds now is put down to the newest of them.
    if (result == TERN_OK) {
        result = tern_federation_advance(service->federation, now);
    }
    while (taken != NULL) {
        struct request *request = taken;
        taken = taken->next;
        // A merge may have ended since: what it kept from being handled is handled by the next batch.
        const bool waits =
            result == TERN_OK && (!request->handled || awaits_merge(service, request));
        if (result == TERN_OK && !waits) {
            name_in_log(request);
            result = tern_service_settle(service, request, now);
        }
        put(service, request, waits);
    }
    tern_log_set_request(0);
    return result != TERN_OK ? result : tern_service_settle_held(service, now);
}

// Also once after a round has moved on: by then its replies are sent, and their bytes are counted. And
// before memory is loaded for other settings.
static bool flush_due(const struct tern_service *service)
{
    return service->quiescing || atomic_load(&service->fresh_is_due) ||
           tern_federation_moved(service->federation) ||
           service->batch_ms >= service->flushed_ms + FLUSH_MS;
}

static enum tern_result load_state(struct tern_service *service)
{
    if (service->config.psk) {
        TERN_TRY(tern_psk_keys_load(&service->psk_keys, service->db));
    }
    uint64_t then_ms;
    TERN_TRY(load_clock(service, &then_ms));
    TERN_TRY(tern_federation_load(service->federation, then_ms));
    TERN_TRY(tern_gate_load_codes(service->gate, service->db));
    tern_service_restore_held(service);
    return TERN_OK;
}

enum tern_result tern_service_reload_clients(struct tern_service *service)
{
    service->has_changed_clients = true;
    if (service->config.psk) {
        TERN_TRY(tern_psk_keys_load(&service->psk_keys, service->db));
    }
    return tern_federation_reload_clients(service->federation);
}

enum tern_result tern_service_reload_codes(struct tern_service *service)
{
    service->has_changed_clients = true; // those that follow read the codes with the clients
    return tern_gate_load_codes(service->gate, service->db);
}

enum tern_result tern_service_reload_round(struct tern_service *service)
{
    return tern_federation_reload_round(service->federation);
}

const struct tern_federation *tern_service_federation(const struct tern_service *service)
{
    return service->federation;
}

// What verbs of the command line do beside the service.
static enum tern_result take_changes(struct tern_service *service)
{
    TERN_TRY(tern_federation_reload_round(service->federation));
    TERN_TRY(tern_service_reload_codes(service));
    return tern_service_reload_clients(service);
}

static bool clock_is_followed(const struct tern_service *service,
                              const struct tern_service_clock *clock)
{
    return service->clock_is_stored && clock_step(&service->clock, clock) == 0;
}

// With all times that memory has, so that none of them goes by another clock than the one that is stored.
static enum tern_result follow_clock(struct tern_service *service,
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
    // First of all: to follow the clock, memory's round is stored.
    enum tern_result result = TERN_OK;
    if (tern_db_changed_by_others(service->db)) {
        result = take_changes(service);
    }
    if (result == TERN_OK && !clock_is_followed(service, clock)) {
        result = follow_clock(service, clock);
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
    if (result == TERN_OK) {
        result = service->taker != NULL ? service->config.sharing->store_answers(service) : TERN_OK;
    }
    // A batch may have nothing to write, and the failure of one before is not over by that.
    if (result == TERN_OK && service->view.failure[0] != '\0') {
        result = tern_db_touch(service->db);
    }
    return result == TERN_OK ? tern_db_commit(service->db) : result;
}

// All of memory comes from the store again, as after a restart: then nothing that was decided in the
// transaction outlives it.
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

static void note_stored(struct tern_service *service)
{
    struct request *request = service->waiting.first;
    for (; request != NULL; request = request->next) {
        request->stored = request->handled;
    }
}

static void let_waiting_go(struct tern_service *service)
{
    struct request *request = service->waiting.first;
    tern_request_list_init(&service->waiting);
    while (request != NULL) {
        struct request *next = request->next;
        tern_request_list_add(&service->batch, request);
        request = next;
    }
}

// What went wrong here may go well with another one.
static void lead_elsewhere(struct tern_service *service)
{
    for (struct request *request = service->batch.first; request != NULL; request = request->next) {
        tern_answer_elsewhere(request, service->config.sharing != NULL);
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

// What came while the store did not answer has waited as long as the batch.
static void answer_queued(struct tern_service *service)
{
    uint32_t count = 0;
    pthread_mutex_lock(&service->queue.lock);
    struct request *queued = tern_request_queue_take(&service->queue, UINT32_MAX, &count);
    pthread_mutex_unlock(&service->queue.lock);
    for (struct request *next; queued != NULL; queued = next) {
        next = queued->next;
        tern_answer_unavailable(queued);
        tern_request_list_add(&service->batch, queued);
    }
}

// counted: the counters when the batch began. Clients whose check-ins are held come again, and say
// anew what they hold.
static void take_down(struct tern_service *service, enum tern_result why,
                      const struct tern_service_facts *counted)
{
    tern_db_rollback(service->db);
    tern_log_release(false);
    service->counters = *counted;
    service->counters.batches_failed++;
    atomic_store(&service->current_ms, 0);
    let_waiting_go(service);
    tern_service_view_failed(service, service->db, why);
    const bool halted = halt_if_needed(service);
    tern_log(TERN_LOG_ERROR, "batch-failed", "error=%s detail=%s", tern_result_name(why),
             TERN_LOG_TEXT(tern_db_error(service->db)));
    if (halted) {
        lead_elsewhere(service);
        return;
    }
    tern_service_release_held(service);
    tern_service_answer_failed(service, tern_answer_unavailable);
    if (tern_service_is_stuck(service)) {
        answer_queued(service);
        service->broken = true; // to load takes as long: the next batch does
    }
    if (service->taker != NULL) {
        service->config.sharing->give_back(service);
    }
    lead_elsewhere(service);
    // Before the answers: whoever gets one may send the next request at once.
    atomic_store(&service->turn_ms, tern_service_machine_ms());
    send_batch(service);
    if (!service->broken) { // else it was that which has failed
        reload(service);
    }
    // A full or failing disk does not get better by being asked at once.
    nanosleep(&(struct timespec){.tv_nsec = 50000000L}, NULL);
}

// Memory holds what is committed here, or what was loaded after a rollback; else the roster stays.
static void publish(struct tern_service *service)
{
    const bool is_stored = !service->broken && !tern_service_is_halted(service);
    tern_service_view_update(service, is_stored);
    if (is_stored) {
        tern_federation_publish(service->federation);
    }
}

static void refuse_all(struct tern_service *service, struct request *taken)
{
    for (struct request *next; taken != NULL; taken = next) {
        next = taken->next;
        answer_halted(service, taken);
        tern_request_list_add(&service->batch, taken);
    }
    lead_elsewhere(service);
    send_batch(service);
}

static void run_batch(struct tern_service *service, struct request *taken, uint32_t count)
{
    const struct tern_service_clock clock = read_clock(service);
    service->batch_ms = clock.steady_ms;
    bool flush = flush_due(service);
    double started = monotonic_ms();
    const struct tern_service_facts counted = service->counters;
    tern_federation_begin(service->federation);
    enum tern_result result = service->broken ? load_state(service) : TERN_OK;
    service->broken = result != TERN_OK;
    if (result == TERN_OK) {
        result = tern_db_begin(service->db);
    }
    if (result == TERN_OK) {
        tern_log_hold();
        result = run_transaction(service, taken, &clock, flush);
    } else {
        for (struct request *next; taken != NULL; taken = next) {
            next = taken->next;
            tern_request_list_add(&service->batch, taken);
        }
    }
    if (result != TERN_OK) {
        take_down(service, result, &counted);
    } else {
        atomic_store(&service->current_ms, clock.steady_ms);
        tern_log_release(true);
        if (!clock_is_followed(service, &clock)) {
            service->clock = clock;
            service->clock_is_stored = true;
        }
        note_stored(service);
        // What could not be stored may have been a version, and the next one is not made yet.
        if (!tern_federation_is_merging(service->federation)) {
            tern_service_view_stored(service);
        }
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
    end_work(service, result == TERN_OK ? TERN_OK : TERN_ERR_BUSY, false);
}

// --- Other settings

static bool is_settled(const struct tern_service *service)
{
    return !service->broken && service->waiting.first == NULL &&
           !tern_federation_is_merging(service->federation);
}

// The next batch loads memory, by what is configured here.
static void configure(struct tern_service *service, const struct tern_service_config *fresh)
{
    service->config.limits = fresh->limits;
    if (memcmp(&service->config.federation, &fresh->federation, sizeof fresh->federation) != 0) {
        service->config.federation = fresh->federation;
        tern_federation_configure(service->federation, &fresh->federation);
        service->broken = true;
    }
}

// What memory has and the store has not is stored before.
static void take_fresh(struct tern_service *service)
{
    if (!atomic_load(&service->fresh_is_due) || !is_settled(service)) {
        return;
    }
    run_batch(service, NULL, 0);
    if (!is_settled(service) || tern_service_is_halted(service)) {
        return;
    }
    pthread_mutex_lock(&service->fresh_lock);
    configure(service, &service->fresh);
    atomic_store(&service->fresh_is_due, false);
    pthread_mutex_unlock(&service->fresh_lock);
}

enum tern_result tern_service_accepts(const struct tern_service *service,
                                      const struct tern_service_config *config, char why[256])
{
    return tern_federation_accepts(service->federation, &config->federation, why);
}

void tern_service_configure(struct tern_service *service, const struct tern_service_config *config)
{
    const struct tern_service_limits *limits = &config->limits;
    tern_access_log_set(&service->access, &config->logging);
    tern_gate_limit(service->gate, limits->requests_per_minute, limits->enrollments_per_minute);
    tern_request_queue_limit(&service->queue, limits->queue);
    pthread_mutex_lock(&service->fresh_lock);
    service->fresh = *config;
    atomic_store(&service->fresh_is_due, true);
    pthread_mutex_unlock(&service->fresh_lock);
    tern_request_queue_set_flag(&service->queue, &service->queue.poked);
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
    // What is overdue is tried again with the next request, or in a second.
    if (service->broken || service->view.failure[0] != '\0') {
        return left_until(service->batch_ms + SLEEP_MAX_MS, tern_service_monotonic(service),
                          SLEEP_MAX_MS);
    }
    const bool waited =
        service->waiting.first != NULL && !tern_federation_is_merging(service->federation);
    if (service->held.asking != 0 || waited) {
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

// Without it, those that follow wait for their answers, and then refuse what they have.
static void serve_others(struct tern_service *service)
{
    char why[256] = "";
    const uint64_t now_ms = tern_service_monotonic(service);
    if (service->follower != NULL) {
        service->config.sharing->expire(service->follower);
    }
    if (service->config.sharing == NULL || service->taker != NULL ||
        now_ms < service->taker_due_ms || tern_federation_is_merging(service->federation)) {
        return;
    }
    service->taker_due_ms = now_ms + SLEEP_MAX_MS;
    if (service->config.sharing->take(service, &service->taker, why) != TERN_OK) {
        tern_log(TERN_LOG_ERROR, "take-failed", "detail=%s", TERN_LOG_TEXT(why));
    }
}

// One pass of the service thread.
struct turn {
    struct request *taken;
    uint32_t count;
};

// Takes what there is off the queue, and waits for up to idle_ms where there is nothing to do. False: the service has
// stopped, and nothing is left.
static bool begin_turn(struct tern_service *service, uint64_t idle, struct turn *turn)
{
    struct tern_request_queue *queue = &service->queue;
    pthread_mutex_lock(&queue->lock);
    if (queue->stopping && queue->count == 0) {
        pthread_mutex_unlock(&queue->lock);
        return false;
    }
    if (queue->count == 0 && !queue->poked && idle > 0) {
        tern_request_queue_wait(queue, idle);
    }
    turn->taken = tern_request_queue_take(queue, BATCH_MAX, &turn->count);
    service->quiescing = queue->quiesce;
    atomic_fetch_add(&service->turns, 1);
    queue->poked = false;
    pthread_mutex_unlock(&queue->lock);
    atomic_store(&service->working_ms, tern_service_monotonic(service));
    atomic_store(&service->turn_ms, tern_service_machine_ms());
    return true;
}

static void end_turn(struct tern_service *service)
{
    tern_access_log_tell(&service->access, tern_service_monotonic(service));
    atomic_store(&service->working_ms, 0);
    atomic_store(&service->turn_ms, 0);
}

// Until it leads, or has stopped.
static void follow(struct tern_service *service)
{
    const struct tern_service_sharing *sharing = service->config.sharing;
    struct turn turn;
    while (atomic_load(&service->follows) &&
           begin_turn(service, sharing->idle_ms(service->follower), &turn)) {
        sharing->turn(service->follower, turn.taken);
        end_turn(service);
    }
}

static void end_following(struct tern_service *service)
{
    service->quiescing = true;
    service->config.sharing->turn(service->follower, NULL);
    tern_access_log_tell(&service->access, UINT64_MAX);
}

// Until it has stopped.
static void lead(struct tern_service *service)
{
    struct turn turn;
    while (begin_turn(service, idle_ms(service), &turn)) {
        serve_others(service);
        if (tern_service_is_halted(service)) {
            refuse_all(service, turn.taken);
            end_work(service, TERN_ERR_IO, true);
        } else {
            take_fresh(service);
            run_batch(service, turn.taken, turn.count);
        }
        end_turn(service);
    }
}

// What is decided by then is stored, and no merge is left half done.
static void end_leading(struct tern_service *service)
{
    service->quiescing = true;
    tern_access_log_tell(&service->access, UINT64_MAX);
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
    if (atomic_load(&service->follows)) {
        follow(service);
        if (atomic_load(&service->follows)) { // it has stopped
            end_following(service);
            return NULL;
        }
        service->broken = true; // memory is made of what the store has
    }
    lead(service);
    end_leading(service);
    return NULL;
}

// --- Life

static void service_free(struct tern_service *service)
{
    if (service->taker != NULL) {
        tern_federation_wait_for_merge(service->federation); // which may wait for parts by it
        service->config.sharing->stop_taking(service->taker);
    }
    if (service->follower != NULL) {
        service->config.sharing->stop_following(service->follower);
    }
    tern_federation_free(service->federation);
    tern_psk_keys_free(&service->psk_keys);
    tern_service_view_free(&service->view);
    tern_access_log_free(&service->access);
    tern_gate_free(service->gate);
    tern_metering_free(service->metering);
    tern_request_queue_free(&service->queue);
    pthread_mutex_destroy(&service->fresh_lock);
    free_work(&service->work);
    free(service->held.of);
    free(service);
}

static enum tern_result admit(void *ctx, const struct tern_db_client *row)
{
    struct tern_service *service = ctx;
    return tern_gate_put(service->gate, row->id, row->token_hash, row->name, row->revoked);
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

static void wake(void *ctx)
{
    struct tern_service *service = ctx;
    tern_request_queue_set_flag(&service->queue, &service->queue.poked);
}

// On the thread that merges; the taker is there from before it began, until after it has ended.
static bool await_parts(void *ctx, uint32_t round, uint32_t missing)
{
    struct tern_service *service = ctx;
    (void)missing;
    return service->taker != NULL && service->config.sharing->await_parts(service->taker, round);
}

static enum tern_result prepare(struct tern_service *service, char why[256])
{
    const struct tern_service_limits *limits = &service->config.limits;
    const struct tern_federation_ports ports = {service, admit, dismiss,
                                                metered, wake,  await_parts};
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
    tern_request_list_init(&service->waiting);
    if (service->config.follows) {
        return service->config.sharing->follow(service, &service->follower, why);
    }
    TERN_TRY(load_state(service));
    atomic_store(&service->current_ms, tern_service_monotonic(service));
    service->has_changed_clients = true; // others may have an older state
    publish(service);
    return TERN_OK;
}

static void explain_start(enum tern_result result, struct tern_db *db, char why[256])
{
    tern_db_damaged(db); // finds out which of two things it was
    const char *detail = tern_result_sentence(result);
    switch ((int)result) {
    case TERN_ERR_IO:
        if (why[0] != '\0') { // it was the merges' own connection
            return;
        }
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
    why[0] = '\0';
    if (service == NULL) {
        snprintf(why, 256, "%s", tern_result_sentence(TERN_ERR_NO_MEMORY));
        return TERN_ERR_NO_MEMORY;
    }
    service->config = *config;
    service->db = db;
    atomic_store(&service->follows, config->follows);
    if (tern_access_log_init(&service->access, &config->logging) != TERN_OK) {
        free(service);
        snprintf(why, 256, "there are no random bytes");
        return TERN_ERR_IO;
    }
    pthread_mutex_init(&service->fresh_lock, NULL);
    init_work(&service->work);
    tern_psk_keys_init(&service->psk_keys);
    tern_service_view_init(&service->view);
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

uint64_t tern_service_turns(const struct tern_service *service)
{
    return atomic_load(&service->turns);
}

void tern_service_lead(struct tern_service *service)
{
    atomic_store(&service->follows, false);
    tern_request_queue_set_flag(&service->queue, &service->queue.poked);
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
