#include "cli/standby.h"

#include "hosted/host.h"
#include "hosted/log.h"
#include "hosted/system.h"
#include "store/nodes.h"
#include "util/text.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Other nodes treat a leader as failed, and replace it, after this long without a heartbeat. Waiting for the database counts
// as a heartbeat. PostgreSQL itself takes 8 to 10 s to notice that the leader's machine or network failed.
#define TERN_STANDBY_SILENT_MS 7000u
// Other nodes treat a leader's service as hanging after this long without a look for work, which is due every second.
#define TERN_STANDBY_IDLE_MS 30000u

// --- What nodes publish

struct standby {
    struct tern_db *db;
    const struct tern_standby_ports *ports;
    char leader[TERN_STANDBY_NAME_MAX]; // as it was said last
    bool has_said_lost;
};

const char *tern_standby_name(const struct tern_db_node *node, char text[TERN_STANDBY_NAME_MAX])
{
    char number[16] = "";
    if (node->number != 0) {
        snprintf(number, sizeof number, " (%" PRIx32 ")", node->number);
    }
    snprintf(text, TERN_STANDBY_NAME_MAX, "%s%s%s%s",
             node->name[0] != '\0' ? node->name : "one without a name", number,
             node->address[0] != '\0' ? " at " : "", node->address);
    tern_utf8_show(text, strlen(text));
    return text;
}

const char *tern_standby_role(const struct tern_db_node *node)
{
    return node->leads ? "leads" : node->follows ? "follows" : "stands by";
}

bool tern_standby_complaint(const struct tern_db_node *leader, char sentence[256])
{
    const bool is_silent = leader->silent_ms >= TERN_STANDBY_SILENT_MS;
    char name[TERN_STANDBY_NAME_MAX];
    char ago[TERN_TEXT];
    tern_standby_name(leader, name);
    tern_text_duration(is_silent ? leader->silent_ms : leader->idle_ms, ago);
    if (is_silent) {
        snprintf(sentence, 256, "%.150s leads, and has not been heard of for %.40s", name, ago);
    } else {
        snprintf(sentence, 256, "%.150s leads, and its service has not moved for %.40s", name, ago);
    }
    return is_silent || leader->idle_ms >= TERN_STANDBY_IDLE_MS;
}

// False where nobody leads, or that cannot be found out.
static bool find_leader(struct standby *standby, char leader[TERN_STANDBY_NAME_MAX])
{
    struct tern_db_node node;
    size_t count = 0;
    snprintf(leader, TERN_STANDBY_NAME_MAX, "another aggregator");
    if (tern_db_nodes(standby->db, &node, 1, &count) != TERN_OK || count == 0 || !node.leads) {
        return false;
    }
    tern_standby_name(&node, leader);
    return true;
}

static const char *alive(const struct standby *standby)
{
    const struct tern_standby_ports *ports = standby->ports;
    return ports->lives == NULL || ports->lives(ports->ctx) ? "WATCHDOG=1\n" : "";
}

static void report_leader(struct standby *standby, const char *leader)
{
    if (standby->has_said_lost) {
        tern_log(TERN_LOG_INFO, "store-reached", "leader=%s", TERN_LOG_TEXT(leader));
    }
    standby->has_said_lost = false;
    const bool follows = standby->ports->follows;
    tern_notify("READY=1\n%sSTATUS=%s: %s leads\n", alive(standby),
                follows ? "follows" : "stands by", leader);
    if (strcmp(leader, standby->leader) == 0) {
        return;
    }
    snprintf(standby->leader, sizeof standby->leader, "%s", leader);
    tern_log(TERN_LOG_INFO, follows ? "follows" : "stands-by", "leader=%s", TERN_LOG_TEXT(leader));
    printf("%s leads; %s\n", leader, follows ? "following" : "standing by");
    fflush(stdout);
}

static void report_lost(struct standby *standby)
{
    tern_notify("READY=1\n%sSTATUS=the database cannot be reached\n", alive(standby));
    if (!standby->has_said_lost) {
        tern_log(TERN_LOG_WARN, "store-unreachable", "detail=%s",
                 TERN_LOG_TEXT(tern_db_error(standby->db)));
    }
    standby->has_said_lost = true;
}

static bool is_stopped(const struct standby *standby, int seconds)
{
    const struct timespec wait = {.tv_sec = seconds};
    const int number = sigtimedwait(standby->ports->signals, NULL, &wait);
    if (number == SIGHUP && standby->ports->reload != NULL) {
        standby->ports->reload(standby->ports->ctx);
    } else if (number == SIGHUP) { // settings are read when it starts
        tern_log(TERN_LOG_WARN, "reload-refused",
                 "why=\"it stands by; restart it for other settings\"");
    }
    return number == SIGTERM || number == SIGINT;
}

bool tern_standby_is_led(struct tern_db *db, uint32_t self)
{
    struct tern_db_node node;
    size_t count = 0;
    return tern_db_nodes(db, &node, 1, &count) == TERN_OK && count > 0 && node.leads &&
           node.number != self;
}

int tern_standby(struct tern_cli *cli, struct tern_db *db, const struct tern_standby_ports *ports,
                 bool *stopped)
{
    struct standby standby = {.db = db, .ports = ports};
    char leader[TERN_STANDBY_NAME_MAX];
    bool stands_by = find_leader(&standby, leader); // holding waits for seconds
    if (stands_by) {
        report_leader(&standby, leader);
    }
    stands_by = stands_by || ports->follows;
    enum tern_result result = tern_db_hold(db);
    while (result == TERN_ERR_STATE || (result == TERN_ERR_IO && stands_by)) {
        stands_by = true;
        if (result == TERN_ERR_STATE) {
            find_leader(&standby, leader);
            report_leader(&standby, leader);
            if (ports->ends != NULL && ports->ends(ports->ctx)) {
                return TERN_EXIT_OK;
            }
        } else {
            report_lost(&standby);
        }
        *stopped = is_stopped(&standby, result == TERN_ERR_STATE ? 0 : 1);
        if (*stopped) {
            return TERN_EXIT_OK;
        }
        result = tern_db_hold(db);
    }
    if (result == TERN_OK && stands_by) {
        tern_log(TERN_LOG_INFO, "leads", "before=%s", TERN_LOG_TEXT(standby.leader));
    }
    return tern_cli_check(cli, result, "%s", tern_db_error(db));
}

// --- A follower watches its leader

// The watch has a thread and a database connection of its own. It reports whether a leader with a recent heartbeat
// exists, and ends the database sessions of a leader that hangs, so that another node replaces it. Its connection also
// writes this follower's heartbeat.

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
    const enum tern_result result = tern_db_join_node(watch->db, watch->node);
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

static void report_ended(struct tern_leader_watch *watch, const struct tern_db_node *leader)
{
    char name[TERN_STANDBY_NAME_MAX];
    if (watch->ended != leader->number) {
        tern_log(TERN_LOG_WARN, "leader-ended", "leader=%s silent_ms=%" PRIu64,
                 TERN_LOG_TEXT(tern_standby_name(leader, name)), leader->silent_ms);
    }
    watch->ended = leader->number;
}

static void report_not_ended(struct tern_leader_watch *watch, const struct tern_db_node *leader)
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
        report_not_ended(watch, leader);
    } else if (ended) {
        report_ended(watch, leader);
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
