#define _GNU_SOURCE
#include "cli/self_check.h"

#include "cli/state.h"
#include "hosted/log.h"
#include "hosted/system.h"
#include "store/store.h"
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define NICENESS 10      // requests have priority over the check
#define RETRY_MS 3600000 // time until the next check, after one that could not be completed

struct tern_self_check {
    char database[PATH_MAX];
    struct tern_self_check_config config;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    atomic_bool stopping;
    uint64_t interval_ms; // `lock` guards this field, `damaged` and `why`
    bool damaged;
    char why[256];
};

// --- One check

static enum tern_result check_database(struct tern_db *db)
{
    TERN_TRY(tern_db_begin_reading(db));
    const enum tern_result result = tern_db_check(db);
    tern_db_rollback(db);
    return result;
}

static enum tern_result record_check(struct tern_db *db, uint64_t now_ms)
{
    TERN_TRY(tern_db_begin(db));
    return tern_db_conclude(db, tern_db_set_checked(db, now_ms));
}

static void report_damage(struct tern_self_check *check, const char *why)
{
    tern_log(TERN_LOG_ERROR, "database-damaged", "why=%s", TERN_LOG_TEXT(why));
    pthread_mutex_lock(&check->lock);
    check->damaged = true;
    snprintf(check->why, sizeof check->why, "%s", why);
    pthread_mutex_unlock(&check->lock);
}

static enum tern_result check_and_record(struct tern_self_check *check, struct tern_db *db)
{
    const uint64_t begun_ms = tern_now_ms();
    tern_db_stop_when(db, &check->stopping);
    const enum tern_result result = check_database(db);
    const uint64_t now_ms = tern_now_ms();
    if (atomic_load(&check->stopping)) {
        return TERN_OK;
    }
    if (result == TERN_OK) {
        tern_log(TERN_LOG_INFO, "database-checked", "ms=%" PRIu64, now_ms - begun_ms);
        check->config.on_sound(check->config.ctx, now_ms);
        return record_check(db, now_ms);
    }
    if (tern_db_damaged(db)) {
        report_damage(check, tern_db_error(db));
    }
    return result;
}

// Returns the most milliseconds until the next check.
static uint64_t check_once(struct tern_self_check *check)
{
    struct tern_db *db = NULL;
    char why[256] = "";
    enum tern_result result = tern_db_open(check->database, TERN_DB_SECOND, &db, why);
    if (result == TERN_OK) {
        result = check_and_record(check, db);
        snprintf(why, sizeof why, "%s", tern_db_error(db));
    }
    tern_db_close(db);
    if (result == TERN_OK) {
        return UINT64_MAX;
    }
    tern_log(TERN_LOG_WARN, "database-not-checked", "error=%s detail=%s", tern_result_name(result),
             TERN_LOG_TEXT(why));
    return RETRY_MS;
}

// --- The thread

// Sleeps for `ms`, or until another thread signals `woken`. The caller has locked check->lock.
static void sleep_for(struct tern_self_check *check, uint64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += (time_t)(ms / 1000) + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&check->woken, &check->lock, &until);
}

// Waits for the rest of the interval, of which elapsed_ms have already passed. An interval above most_ms counts as most_ms.
// Without an interval, waits until one is set.
static void wait_for_next(struct tern_self_check *check, uint64_t elapsed_ms, uint64_t most_ms)
{
    const uint64_t begun_ms = tern_monotonic_ms();
    pthread_mutex_lock(&check->lock);
    while (!atomic_load(&check->stopping)) {
        const uint64_t interval_ms = check->interval_ms < most_ms ? check->interval_ms : most_ms;
        const uint64_t passed_ms = elapsed_ms + (tern_monotonic_ms() - begun_ms);
        if (check->interval_ms == 0) {
            pthread_cond_wait(&check->woken, &check->lock);
        } else if (passed_ms < interval_ms) {
            sleep_for(check, interval_ms - passed_ms);
        } else {
            break;
        }
    }
    pthread_mutex_unlock(&check->lock);
}

// Returns the milliseconds since the last check; 0 if the clock was set back.
static uint64_t elapsed_at_start(const struct tern_self_check_config *config)
{
    const uint64_t now_ms = tern_now_ms();
    return now_ms > config->last_ms ? now_ms - config->last_ms : 0;
}

static void *run_checks(void *arg)
{
    struct tern_self_check *check = arg;
    char why[256];
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICENESS);
    wait_for_next(check, elapsed_at_start(&check->config), UINT64_MAX);
    while (!atomic_load(&check->stopping)) {
        const uint64_t most_ms = check_once(check);
        if (tern_self_check_damaged(check, why)) {
            check->config.on_damaged(check->config.ctx);
            return NULL;
        }
        wait_for_next(check, 0, most_ms);
    }
    return NULL;
}

// --- Start and stop

static void free_check(struct tern_self_check *check)
{
    pthread_cond_destroy(&check->woken);
    pthread_mutex_destroy(&check->lock);
    free(check);
}

enum tern_result tern_self_check_start(const struct tern_self_check_config *config,
                                       struct tern_self_check **out)
{
    pthread_condattr_t monotonic;
    struct tern_self_check *check = calloc(1, sizeof *check);
    if (check == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    check->config = *config;
    check->interval_ms = config->interval_ms;
    snprintf(check->database, sizeof check->database, "%s", config->database);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&check->lock, NULL);
    pthread_cond_init(&check->woken, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&check->thread, NULL, run_checks, check) != 0) {
        free_check(check);
        return TERN_ERR_NO_MEMORY;
    }
    *out = check;
    return TERN_OK;
}

void tern_self_check_set_interval(struct tern_self_check *check, uint64_t interval_ms)
{
    pthread_mutex_lock(&check->lock);
    check->interval_ms = interval_ms;
    pthread_cond_signal(&check->woken);
    pthread_mutex_unlock(&check->lock);
}

bool tern_self_check_damaged(struct tern_self_check *check, char why[256])
{
    if (check == NULL) {
        return false;
    }
    pthread_mutex_lock(&check->lock);
    const bool damaged = check->damaged;
    snprintf(why, 256, "%s", check->why);
    pthread_mutex_unlock(&check->lock);
    return damaged;
}

void tern_self_check_stop(struct tern_self_check *check)
{
    if (check == NULL) {
        return;
    }
    pthread_mutex_lock(&check->lock);
    atomic_store(&check->stopping, true);
    pthread_cond_signal(&check->woken);
    pthread_mutex_unlock(&check->lock);
    pthread_join(check->thread, NULL);
    free_check(check);
}
