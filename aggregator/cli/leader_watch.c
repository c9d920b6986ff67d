#include "cli/leader_watch.h"

#include "cli/standby.h"
#include "hosted/clock.h"
#include "hosted/log.h"
#include "store/nodes.h"
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_MS 1000
// A database that has not answered a look for so long cannot be reached.
#define CUT_OFF_MS 3000

struct tern_leader_watch {
    char database[PATH_MAX];
    uint32_t node;
    struct tern_db *db; // of the thread, as all down to lock; NULL: there is no connection yet
    uint32_t silent;   // the number of the one that led, and was silent, at the last look; 0 = none
    uint32_t ended;    // that was told so last
    bool has_failed;   // to end it, and that was said
    bool is_unreached; // the database, which was said

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool stopping;     // under the lock, as what follows
    uint64_t heard_ms; // of tern_monotonic_ms(): the database answered
    bool is_led;
    char complaint[256]; // of the one that leads; "" = none
};

// --- One look

static enum tern_result connect(struct tern_leader_watch *watch)
{
    char why[256];
    enum tern_result opened = tern_db_open(watch->database, TERN_DB_HURRIED, &watch->db, why);
    if (opened != TERN_OK && !watch->is_unreached) {
        tern_log(TERN_LOG_WARN, "leader-not-watched", "detail=%s", TERN_LOG_TEXT(why));
    }
    watch->is_unreached = opened != TERN_OK;
    TERN_TRY(opened);
    const enum tern_result result = tern_db_belong(watch->db, watch->node);
    if (result != TERN_OK) {
        tern_db_close(watch->db);
        watch->db = NULL;
    }
    return result;
}

static void note(struct tern_leader_watch *watch, const struct tern_db_node *leader)
{
    pthread_mutex_lock(&watch->lock);
    watch->heard_ms = tern_monotonic_ms();
    watch->is_led = leader != NULL;
    if (leader == NULL || !tern_standby_complaint(leader, watch->complaint)) {
        watch->complaint[0] = '\0';
    }
    pthread_mutex_unlock(&watch->lock);
}

static void say_ended(struct tern_leader_watch *watch, const struct tern_db_node *leader)
{
    char name[TERN_STANDBY_NAME_MAX];
    if (watch->ended != leader->number) {
        tern_log(TERN_LOG_WARN, "leader-ended", "leader=%s silent_ms=%" PRIu64,
                 TERN_LOG_TEXT(tern_standby_name(leader, name)), leader->silent_ms);
    }
    watch->ended = leader->number;
}

static void say_not_ended(struct tern_leader_watch *watch, const struct tern_db_node *leader)
{
    char name[TERN_STANDBY_NAME_MAX];
    if (!watch->has_failed) {
        tern_log(TERN_LOG_ERROR, "leader-not-ended", "leader=%s silent_ms=%" PRIu64 " detail=%s",
                 TERN_LOG_TEXT(tern_standby_name(leader, name)), leader->silent_ms,
                 TERN_LOG_TEXT(tern_db_error(watch->db)));
    }
    watch->has_failed = true;
}

// Silent at two looks: at one, the clock of the server may have been set. The lock goes to the next one with the session,
// and the transaction that was open is undone, so that one which goes on after all has no part in anything any more.
static void replace(struct tern_leader_watch *watch, const struct tern_db_node *leader)
{
    const bool is_silent = leader != NULL && leader->number != watch->node &&
                           leader->silent_ms >= TERN_STANDBY_SILENT_MS;
    const bool was_silent = is_silent && watch->silent == leader->number;
    bool ended = false;
    watch->silent = is_silent ? leader->number : 0;
    if (!was_silent) {
        return;
    }
    if (tern_db_end_leader(watch->db, leader->number, TERN_STANDBY_SILENT_MS, &ended) != TERN_OK) {
        say_not_ended(watch, leader);
    } else if (ended) {
        say_ended(watch, leader);
    }
}

static void look(struct tern_leader_watch *watch)
{
    struct tern_db_node node;
    size_t count = 0;
    if (watch->db == NULL && connect(watch) != TERN_OK) {
        return;
    }
    if (tern_db_nodes(watch->db, &node, 1, &count) != TERN_OK) {
        watch->silent = 0;
        return;
    }
    const struct tern_db_node *leader = count > 0 && node.leads ? &node : NULL;
    note(watch, leader);
    replace(watch, leader);
}

// --- The thread

// False: it is to stop.
static bool wait_for_next(struct tern_leader_watch *watch)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LOOK_MS / 1000;
    int waited = 0;
    pthread_mutex_lock(&watch->lock);
    while (!watch->stopping && waited == 0) {
        waited = pthread_cond_timedwait(&watch->woken, &watch->lock, &until);
    }
    const bool goes_on = !watch->stopping;
    pthread_mutex_unlock(&watch->lock);
    return goes_on;
}

static void *run(void *arg)
{
    struct tern_leader_watch *watch = arg;
    do {
        look(watch);
    } while (wait_for_next(watch));
    return NULL;
}

bool tern_leader_watch_is_led(void *watch, char why[256])
{
    struct tern_leader_watch *of = watch;
    char ago[TERN_TEXT];
    pthread_mutex_lock(&of->lock);
    const uint64_t silent_ms = tern_monotonic_ms() - of->heard_ms;
    const bool is_cut_off = silent_ms >= CUT_OFF_MS;
    const bool is_led = !is_cut_off && of->is_led && of->complaint[0] == '\0';
    if (is_cut_off) {
        snprintf(why, 256, "the database has not answered for %s",
                 tern_text_duration(silent_ms, ago));
    } else if (!of->is_led) {
        snprintf(why, 256, "no aggregator leads");
    } else {
        snprintf(why, 256, "%s", of->complaint);
    }
    pthread_mutex_unlock(&of->lock);
    return is_led;
}

// --- Life

static void free_watch(struct tern_leader_watch *watch)
{
    tern_db_close(watch->db);
    pthread_cond_destroy(&watch->woken);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}

enum tern_result tern_leader_watch_start(const char *database, uint32_t node,
                                         struct tern_leader_watch **out)
{
    pthread_condattr_t monotonic;
    struct tern_leader_watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    snprintf(watch->database, sizeof watch->database, "%s", database);
    watch->node = node;
    watch->heard_ms = tern_monotonic_ms();
    watch->is_led = true; // until it has looked
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&watch->lock, NULL);
    pthread_cond_init(&watch->woken, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&watch->thread, NULL, run, watch) != 0) {
        free_watch(watch);
        return TERN_ERR_NO_MEMORY;
    }
    *out = watch;
    return TERN_OK;
}

void tern_leader_watch_stop(struct tern_leader_watch *watch)
{
    if (watch == NULL) {
        return;
    }
    pthread_mutex_lock(&watch->lock);
    watch->stopping = true;
    pthread_cond_signal(&watch->woken);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    free_watch(watch);
}
