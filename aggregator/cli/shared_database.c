#define _GNU_SOURCE
#include "cli/shared_database.h"

#include "cli/state.h"
#include "hosted/host.h"
#include "hosted/log.h"
#include "hosted/system.h"
#include "http/tickets.h"
#include "store/nodes.h"
#include "store/store.h"
#include "util/text.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Other nodes treat a leader as failed, and replace it, after this long without a heartbeat. Waiting for the database counts
// as a heartbeat. PostgreSQL itself takes 8 to 10 s to notice that the leader's machine or network failed.
#define SILENT_MS 7000u
// Other nodes treat the leader's service as hung if its loop has not run for this long. The loop runs every second.
#define IDLE_MS 30000u

// --- Threads that wake at intervals

struct ticker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool stopping; // guarded by the lock
};

static bool start_ticker(struct ticker *ticker, void *(*run)(void *ctx), void *ctx)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&ticker->lock, NULL);
    pthread_cond_init(&ticker->woken, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&ticker->thread, NULL, run, ctx) == 0) {
        return true;
    }
    pthread_cond_destroy(&ticker->woken);
    pthread_mutex_destroy(&ticker->lock);
    return false;
}

// Returns false if the thread must stop.
static bool wait_for_tick(struct ticker *ticker, time_t seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += seconds;
    int waited = 0;
    pthread_mutex_lock(&ticker->lock);
    while (!ticker->stopping && waited == 0) {
        waited = pthread_cond_timedwait(&ticker->woken, &ticker->lock, &until);
    }
    const bool stopping = ticker->stopping;
    pthread_mutex_unlock(&ticker->lock);
    return !stopping;
}

static void stop_ticker(struct ticker *ticker)
{
    pthread_mutex_lock(&ticker->lock);
    ticker->stopping = true;
    pthread_cond_signal(&ticker->woken);
    pthread_mutex_unlock(&ticker->lock);
    pthread_join(ticker->thread, NULL);
    pthread_cond_destroy(&ticker->woken);
    pthread_mutex_destroy(&ticker->lock);
}

// --- The leader

struct tern_leader_watch {
    char database[PATH_MAX];
    uint32_t node;
    struct ticker ticker;
    atomic_bool has_run; // it has checked the leader, or tried to, since the last heartbeat

    // Used by the ticker's thread alone.
    struct tern_db *db; // NULL: not connected
    uint32_t silent; // number of the leader that had sent no heartbeat at the last check; 0: none
    uint32_t ended;  // number of the leader whose end was last logged
    bool logged_failure;     // the log says that the leader's sessions could not be ended
    bool logged_unreachable; // the log says that the database cannot be reached
};

struct standby {
    struct tern_db *db;
    const struct tern_standby_ports *ports;
    char leader[TERN_STANDBY_NAME_MAX]; // name that was last logged
    bool reported_lost;                 // the log says that the database cannot be reached
};

const char *tern_standby_name(const struct tern_db_node *node, char text[TERN_STANDBY_NAME_MAX])
{
    char number[16] = "";
    if (node->number != 0) {
        snprintf(number, sizeof number, " (%" PRIx32 ")", node->number);
    }
    snprintf(text, TERN_STANDBY_NAME_MAX, "%s%s%s%s",
             node->name[0] != '\0' ? node->name : "unnamed", number,
             node->address[0] != '\0' ? " at " : "", node->address);
    tern_utf8_show(text, strlen(text));
    return text;
}

const char *tern_standby_role(const struct tern_db_node *node)
{
    return node->leads ? "leads" : "stands by";
}

bool tern_standby_complaint(const struct tern_db_node *leader, char sentence[256])
{
    const bool is_silent = leader->silent_ms >= SILENT_MS;
    char name[TERN_STANDBY_NAME_MAX];
    char ago[TERN_TEXT];
    tern_standby_name(leader, name);
    tern_text_duration(is_silent ? leader->silent_ms : leader->idle_ms, ago);
    if (is_silent) {
        snprintf(sentence, 256, "%.150s leads, and has sent no heartbeat for %.40s", name, ago);
    } else {
        snprintf(sentence, 256, "%.150s leads, and its service has been hanging for %.40s", name,
                 ago);
    }
    return is_silent || leader->idle_ms >= IDLE_MS;
}

bool tern_standby_find_leader(struct tern_db *db, struct tern_db_node *leader)
{
    size_t count = 0;
    return tern_db_nodes(db, leader, 1, &count) == TERN_OK && count > 0 && leader->leads;
}

static bool name_leader(const struct standby *standby, char name[TERN_STANDBY_NAME_MAX])
{
    struct tern_db_node leader;
    if (tern_standby_find_leader(standby->db, &leader)) {
        tern_standby_name(&leader, name);
        return true;
    }
    snprintf(name, TERN_STANDBY_NAME_MAX, "another aggregator");
    return false;
}

static void report_leader(struct standby *standby, const char *leader)
{
    if (standby->reported_lost) {
        tern_log(TERN_LOG_INFO, "store-reached", "leader=%s", TERN_LOG_TEXT(leader));
    }
    standby->reported_lost = false;
    tern_notify("READY=1\nSTATUS=stands by: %s leads\n", leader);
    if (strcmp(leader, standby->leader) == 0) {
        return;
    }
    snprintf(standby->leader, sizeof standby->leader, "%s", leader);
    tern_log(TERN_LOG_INFO, "stands-by", "leader=%s", TERN_LOG_TEXT(leader));
    printf("%s leads; standing by\n", leader);
    fflush(stdout);
}

static void report_lost_database(struct standby *standby)
{
    tern_notify("READY=1\nSTATUS=the database cannot be reached\n");
    if (!standby->reported_lost) {
        tern_log(TERN_LOG_WARN, "store-unreachable", "detail=%s",
                 TERN_LOG_TEXT(tern_db_error(standby->db)));
    }
    standby->reported_lost = true;
}

static bool stops_within(const struct standby *standby, int seconds)
{
    const struct timespec wait = {.tv_sec = seconds};
    const int number = sigtimedwait(standby->ports->signals, NULL, &wait);
    if (number == SIGHUP && standby->ports->reload != NULL) {
        standby->ports->reload(standby->ports->ctx);
    } else if (number == SIGHUP) {
        tern_log(
            TERN_LOG_WARN, "reload-refused",
            "why=\"this aggregator stands by, and reads its settings at the start: restart it\"");
    }
    return number == SIGTERM || number == SIGINT;
}

// Sends a heartbeat, unless the watch has not run since the last one.
static void beat(const struct tern_standby_ports *ports)
{
    if (ports->watch == NULL || atomic_exchange(&ports->watch->has_run, false)) {
        ports->beat(ports->ctx);
    }
}

int tern_standby_wait(struct tern_cli *cli, struct tern_db *db,
                      const struct tern_standby_ports *ports, bool *stopped)
{
    struct standby standby = {.db = db, .ports = ports};
    char leader[TERN_STANDBY_NAME_MAX];
    // The log names the leader first, because tern_db_hold() waits for seconds.
    bool stands_by = name_leader(&standby, leader);
    if (stands_by) {
        report_leader(&standby, leader);
    }
    enum tern_result result = tern_db_hold(db);
    while (result == TERN_ERR_STATE || (result == TERN_ERR_IO && stands_by)) {
        stands_by = true;
        if (result == TERN_ERR_STATE) {
            name_leader(&standby, leader);
            report_leader(&standby, leader);
            if (ports->ends != NULL && ports->ends(ports->ctx)) {
                return TERN_EXIT_OK;
            }
        } else {
            report_lost_database(&standby);
        }
        beat(ports);
        *stopped = stops_within(&standby, result == TERN_ERR_STATE ? 0 : 1);
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

// --- The watch of the leader

#define WATCH_INTERVAL_S 1

static enum tern_result connect_watch(struct tern_leader_watch *watch)
{
    char why[256];
    enum tern_result opened = tern_db_open(watch->database, TERN_DB_HURRIED, &watch->db, why);
    if (opened != TERN_OK && !watch->logged_unreachable) {
        tern_log(TERN_LOG_WARN, "leader-not-watched", "detail=%s", TERN_LOG_TEXT(why));
    }
    watch->logged_unreachable = opened != TERN_OK;
    TERN_TRY(opened);
    const enum tern_result result = tern_db_join_node(watch->db, watch->node);
    if (result != TERN_OK) {
        tern_db_close(watch->db);
        watch->db = NULL;
    }
    return result;
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
    if (!watch->logged_failure) {
        tern_log(TERN_LOG_ERROR, "leader-not-ended", "leader=%s silent_ms=%" PRIu64 " detail=%s",
                 TERN_LOG_TEXT(tern_standby_name(leader, name)), leader->silent_ms,
                 TERN_LOG_TEXT(tern_db_error(watch->db)));
    }
    watch->logged_failure = true;
}

// Ends the sessions of a leader that was silent at two checks in a row. One silent check may come from a changed clock of
// the server.
// Ending its sessions frees the leader's lock and rolls its open transaction back, so that it can write nothing if it
// resumes.
static void end_silent_leader(struct tern_leader_watch *watch, const struct tern_db_node *leader)
{
    const bool is_silent =
        leader != NULL && leader->number != watch->node && leader->silent_ms >= SILENT_MS;
    const bool was_silent = is_silent && watch->silent == leader->number;
    bool ended = false;
    watch->silent = is_silent ? leader->number : 0;
    if (!was_silent) {
        return;
    }
    if (tern_db_end_leader(watch->db, leader->number, SILENT_MS, &ended) != TERN_OK) {
        report_not_ended(watch, leader);
    } else if (ended) {
        report_ended(watch, leader);
    }
}

static void watch_once(struct tern_leader_watch *watch)
{
    struct tern_db_node node;
    size_t count = 0;
    if (watch->db == NULL && connect_watch(watch) != TERN_OK) {
        return;
    }
    if (tern_db_nodes(watch->db, &node, 1, &count) != TERN_OK) {
        watch->silent = 0;
        return;
    }
    const struct tern_db_node *leader = count > 0 && node.leads ? &node : NULL;
    end_silent_leader(watch, leader);
}

static void *run_watch(void *arg)
{
    struct tern_leader_watch *watch = arg;
    do {
        watch_once(watch);
        atomic_store(&watch->has_run, true);
    } while (wait_for_tick(&watch->ticker, WATCH_INTERVAL_S));
    return NULL;
}

enum tern_result tern_leader_watch_start(const char *database, uint32_t node,
                                         struct tern_leader_watch **out)
{
    struct tern_leader_watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    snprintf(watch->database, sizeof watch->database, "%s", database);
    watch->node = node;
    if (!start_ticker(&watch->ticker, run_watch, watch)) {
        free(watch);
        return TERN_ERR_NO_MEMORY;
    }
    *out = watch;
    return TERN_OK;
}

void tern_leader_watch_stop(struct tern_leader_watch *watch)
{
    if (watch != NULL) {
        stop_ticker(&watch->ticker);
        tern_db_close(watch->db);
        free(watch);
    }
}

// --- Shared settings

// Sections in which every setting changes the results of rounds.
static const char *const deciding[] = {"round", "statistics", "train", "codec", "downloads"};

// Shared settings of other sections.
static const struct {
    const char *key;
    bool changes_results; // the setting changes the results of rounds
} single[] = {
    {"limits.clients", true},
    {"limits.num_examples", true},
    {"limits.norm", true},
    {"limits.body_bytes", false},
    {"limits.long_poll", false},
    {"limits.requests_per_minute", false},
    {"limits.enrollments_per_minute", false},
    {"limits.keep_versions", false},
    {"limits.disk", false},
    {"limits.history_bytes", false},
    {"tls.psk", false},
    {"tls.client_certificate", false},
};

// Returns whether a setting must be the same on all nodes. *changes_results: whether it changes the results of rounds.
static bool is_shared_setting(const char *key, bool *changes_results)
{
    for (size_t i = 0; i < sizeof deciding / sizeof deciding[0]; i++) {
        const size_t len = strlen(deciding[i]);
        if (strncmp(key, deciding[i], len) == 0 && key[len] == '.') {
            *changes_results = true;
            return true;
        }
    }
    for (size_t i = 0; i < sizeof single / sizeof single[0]; i++) {
        if (strcmp(key, single[i].key) == 0) {
            *changes_results = single[i].changes_results;
            return true;
        }
    }
    return false;
}

bool tern_shared_settings_have(const char *key)
{
    bool changes_results;
    return is_shared_setting(key, &changes_results);
}

// Returns the shared settings as lines "section.key=value", malloc'ed; NULL: no memory.
static char *write_shared_settings(const struct tern_aggregator_settings *settings)
{
    const struct tern_settings *table = &tern_aggregator_settings_table;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    for (size_t i = 0; out != NULL && i < table->count; i++) {
        const struct tern_setting *setting = &table->table[i];
        char value[TERN_SETTING_TEXT_MAX];
        char key[80];
        bool changes_results;
        snprintf(key, sizeof key, "%s.%s", setting->section, setting->key);
        if (is_shared_setting(key, &changes_results)) {
            tern_setting_format(setting, settings, value);
            fprintf(out, "%s=%s\n", key, value);
        }
    }
    if (out != NULL && fclose(out) != 0) {
        free(text);
        text = NULL;
    }
    return text;
}

// Finds a key's value in the text of shared settings. Returns false if the text lacks the key.
static bool find_value(const char *text, const char *key, char value[TERN_SETTING_TEXT_MAX])
{
    const size_t len = strlen(key);
    while (*text != '\0') {
        const size_t line = strcspn(text, "\n");
        if (line > len && strncmp(text, key, len) == 0 && text[len] == '=') {
            snprintf(value, TERN_SETTING_TEXT_MAX, "%.*s", (int)(line - len - 1), text + len + 1);
            return true;
        }
        text += line + (text[line] == '\n');
    }
    return false;
}

void tern_shared_settings_compare(const char *here, const char *there,
                                  void (*found)(void *ctx,
                                                const struct tern_setting_difference *difference),
                                  void *ctx)
{
    const struct tern_settings *table = &tern_aggregator_settings_table;
    for (size_t i = 0; i < table->count; i++) {
        struct tern_setting_difference difference;
        char key[80];
        snprintf(key, sizeof key, "%s.%s", table->table[i].section, table->table[i].key);
        difference.key = key;
        if (is_shared_setting(key, &difference.changes_results) &&
            find_value(here, key, difference.here) && find_value(there, key, difference.there) &&
            !tern_setting_text_equal(&table->table[i], difference.here, difference.there)) {
            found(ctx, &difference);
        }
    }
}

enum tern_result tern_shared_settings_load(struct tern_db *db, const struct tern_db_node *nodes,
                                           size_t count, char **texts)
{
    for (size_t i = 0; i < count; i++) {
        TERN_TRY(tern_db_may_miss(tern_db_node_settings_get(db, nodes[i].number, &texts[i])));
    }
    return TERN_OK;
}

void tern_shared_settings_free(char **texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(texts[i]);
        texts[i] = NULL;
    }
}

static enum tern_result store_settings(struct tern_db *db, uint32_t node, const char *text)
{
    TERN_TRY(tern_db_begin(db));
    return tern_db_conclude(db, tern_db_node_settings_put(db, node, text));
}

static void log_difference(void *ctx, const struct tern_setting_difference *difference)
{
    const char *node = ctx;
    tern_log(TERN_LOG_WARN, "setting-differs", "key=%s here=%s there=%s aggregator=%s",
             difference->key, TERN_LOG_TEXT(difference->here), TERN_LOG_TEXT(difference->there),
             TERN_LOG_TEXT(node));
}

static enum tern_result log_differences_to(struct tern_db *db, const struct tern_db_node *node,
                                           const char *own)
{
    char name[TERN_STANDBY_NAME_MAX];
    char *there = NULL;
    const enum tern_result result = tern_db_node_settings_get(db, node->number, &there);
    if (result == TERN_OK) {
        tern_standby_name(node, name);
        tern_shared_settings_compare(own, there, log_difference, name);
    }
    free(there);
    return tern_db_may_miss(result);
}

static enum tern_result publish(struct tern_db *db, uint32_t number, const char *own)
{
    struct tern_db_node nodes[TERN_STANDBY_NODES];
    size_t count = 0;
    TERN_TRY(store_settings(db, number, own));
    TERN_TRY(tern_db_nodes(db, nodes, TERN_STANDBY_NODES, &count));
    for (size_t i = 0; i < count; i++) {
        if (nodes[i].number != number) {
            TERN_TRY(log_differences_to(db, &nodes[i], own));
        }
    }
    return TERN_OK;
}

void tern_shared_settings_publish(const struct tern_cli *cli, uint32_t node)
{
    const struct tern_aggregator_settings *settings = tern_state_settings(cli);
    struct tern_db *db = NULL;
    char why[256] = "there is no memory";
    char *own = write_shared_settings(settings);
    enum tern_result result = own != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
    if (result == TERN_OK) {
        result = tern_db_open(settings->store_url, TERN_DB_HURRIED, &db, why);
    }
    if (result == TERN_OK) {
        result = publish(db, node, own);
        snprintf(why, sizeof why, "%s", tern_db_error(db));
    }
    if (result != TERN_OK) {
        tern_log(TERN_LOG_WARN, "settings-not-compared", "error=%s detail=%s",
                 tern_result_name(result), TERN_LOG_TEXT(why));
    }
    tern_db_close(db);
    free(own);
}

#define REFUSALS_MAX 300 // bytes of the list of differing settings

static void add_refusal(void *ctx, const struct tern_setting_difference *difference)
{
    char *list = ctx;
    const size_t len = strlen(list);
    if (difference->changes_results) {
        snprintf(list + len, REFUSALS_MAX - len, "%s%s = %.40s (there %.40s)", len > 0 ? ", " : "",
                 difference->key, difference->here, difference->there);
    }
}

static int refuse_differences(const struct tern_cli *cli, const struct tern_db_node *leader,
                              const char *there)
{
    char refusals[REFUSALS_MAX] = "";
    char name[TERN_STANDBY_NAME_MAX];
    char *own = write_shared_settings(tern_state_settings(cli));
    if (own == NULL) {
        return tern_cli_fail(cli, TERN_ERR_NO_MEMORY, "there is no memory");
    }
    tern_shared_settings_compare(own, there, add_refusal, refusals);
    free(own);
    if (refusals[0] == '\0') {
        return TERN_EXIT_OK;
    }
    return tern_cli_fail(
        cli,
        TERN_ERR_STATE, // an exit code after which systemd retries: the leader may reload its settings
        "%s leads with other settings than these: %s. Rounds would change when another "
        "aggregator leads: make the settings equal in both files, and reload the leader "
        "(systemctl reload tern-aggregator)",
        tern_standby_name(leader, name), refusals);
}

int tern_shared_settings_check(const struct tern_cli *cli, struct tern_db *db)
{
    struct tern_db_node leader;
    char *there = NULL;
    size_t count = 0;
    enum tern_result result = tern_db_nodes(db, &leader, 1, &count);
    if (result == TERN_OK && (count == 0 || !leader.leads)) {
        return TERN_EXIT_OK;
    }
    result = result == TERN_OK ? tern_db_node_settings_get(db, leader.number, &there) : result;
    if (result == TERN_ERR_NOT_FOUND) { // the leader has just started
        return TERN_EXIT_OK;
    }
    const int code = result == TERN_OK ? refuse_differences(cli, &leader, there)
                                       : tern_cli_fail(cli, result, "%s", tern_db_error(db));
    free(there);
    return code;
}

// --- Keys of session tickets

// Far below TERN_TICKET_LEAD_S, so that all nodes have a key before one of them seals with it.
#define EXCHANGE_INTERVAL_S 60

// Keys that were not changed for this long belong to a private key that is no longer in use.
#define KEEP_MS (2 * (TERN_TICKET_LIFETIME_S + TERN_TICKET_ROTATION_S) * UINT64_C(1000))

#define SEALED_SIZE (TERN_TICKET_KEYS_SIZE + TERN_TICKET_SEALED_OVERHEAD)

struct tern_shared_tickets {
    char database[1024];
    char private_key[PATH_MAX];
    struct tern_ticket_keys *keys;
    struct ticker ticker;
    bool logged_failure; // the failure of the last exchange was logged
};

// Serialized keys; secret.
struct bytes {
    uint8_t data[TERN_TICKET_KEYS_SIZE];
    size_t len;
};

// Reads the keys in the database. TERN_ERR_NOT_FOUND: there are none, or they are damaged, which is logged.
static enum tern_result read_key_row(struct tern_db *db, const struct tern_ticket_sealer *sealer,
                                     struct bytes *bytes)
{
    uint8_t sealed[SEALED_SIZE + 1];
    size_t len = 0;
    TERN_TRY(tern_db_ticket_keys_get(db, sealer->id, sealed, sizeof sealed, &len));
    if (len <= SEALED_SIZE &&
        tern_ticket_sealer_open(sealer, sealed, len, bytes->data) == TERN_OK) {
        bytes->len = len - TERN_TICKET_SEALED_OVERHEAD;
        return TERN_OK;
    }
    tern_log(
        TERN_LOG_WARN, "ticket-keys-damaged",
        "why=\"the keys of session tickets in the database are damaged: new ones replace them, and "
        "each client needs one full handshake\"");
    return TERN_ERR_NOT_FOUND;
}

static enum tern_result write_key_row(struct tern_db *db, const struct tern_ticket_sealer *sealer,
                                      const struct bytes *bytes)
{
    uint8_t sealed[SEALED_SIZE];
    const uint64_t now_ms = tern_now_ms();
    TERN_TRY(tern_ticket_sealer_seal(sealer, bytes->data, bytes->len, sealed));
    TERN_TRY(tern_db_ticket_keys_put(db, sealer->id, sealed,
                                     bytes->len + TERN_TICKET_SEALED_OVERHEAD, now_ms));
    return tern_db_ticket_keys_drop(db, now_ms > KEEP_MS ? now_ms - KEEP_MS : 0);
}

// Copies the keys of the database, or else `own`, to *found, and adds the next key if it is due. *changed: *found differs
// from the database.
static enum tern_result find_keys(struct tern_db *db, const struct tern_ticket_sealer *sealer,
                                  const struct bytes *own, struct bytes *found, bool *changed)
{
    const enum tern_result result = read_key_row(db, sealer, found);
    if (result != TERN_OK && result != TERN_ERR_NOT_FOUND) {
        return result;
    }
    if (result == TERN_ERR_NOT_FOUND) {
        *found = *own;
    }
    const size_t len = found->len;
    if (tern_ticket_keys_extend(found->data, &found->len, tern_now_ms() / 1000) != TERN_OK) {
        return TERN_ERR_CORRUPT;
    }
    *changed = result == TERN_ERR_NOT_FOUND || found->len != len;
    return TERN_OK;
}

static enum tern_result write_keys(struct tern_db *db, const struct tern_ticket_sealer *sealer,
                                   const struct bytes *own, struct bytes *found)
{
    bool changed = false;
    TERN_TRY(tern_db_begin(db)); // from here on, no other node writes
    enum tern_result result = find_keys(db, sealer, own, found, &changed);
    if (result == TERN_OK && changed) {
        result = write_key_row(db, sealer, found);
    }
    return tern_db_conclude(db, result);
}

// Reads first without a lock, because there is rarely anything to write.
static enum tern_result exchange_key_rows(struct tern_db *db,
                                          const struct tern_ticket_sealer *sealer,
                                          const struct bytes *own, struct bytes *found)
{
    bool changed = false;
    TERN_TRY(tern_db_begin_reading(db));
    const enum tern_result result = find_keys(db, sealer, own, found, &changed);
    tern_db_rollback(db);
    return result == TERN_OK && changed ? write_keys(db, sealer, own, found) : result;
}

static enum tern_result exchange_keys(const char *database, const char *private_key,
                                      struct tern_ticket_keys *keys, char why[256])
{
    struct tern_ticket_sealer sealer;
    struct tern_db *db = NULL;
    struct bytes own;
    struct bytes found;
    TERN_TRY(tern_ticket_sealer_make(private_key, &sealer, why));
    own.len = tern_ticket_keys_write(keys, own.data);
    enum tern_result result = tern_db_open(database, TERN_DB_SECOND, &db, why);
    if (result == TERN_OK) {
        result = exchange_key_rows(db, &sealer, &own, &found);
        snprintf(why, 256, "%s", tern_db_error(db));
    }
    if (result == TERN_OK) {
        result = tern_ticket_keys_replace(keys, found.data, found.len);
    }
    tern_db_close(db);
    tern_ticket_sealer_wipe(&sealer);
    explicit_bzero(&own, sizeof own);
    explicit_bzero(&found, sizeof found);
    return result;
}

static void log_not_shared(enum tern_result result, const char *why)
{
    tern_log(TERN_LOG_WARN, "ticket-keys-not-shared", "error=%s detail=%s",
             tern_result_name(result), TERN_LOG_TEXT(why));
}

void tern_shared_tickets_merge_file(const struct tern_shared_tickets_config *config)
{
    struct tern_ticket_keys *keys = NULL;
    char why[256] = "";
    if (tern_ticket_keys_open(config->file, tern_now_ms() / 1000, &keys, why) != TERN_OK) {
        return; // the server reports the failure when it starts
    }
    const enum tern_result result = exchange_keys(config->database, config->private_key, keys, why);
    if (result != TERN_OK) {
        log_not_shared(result, why);
    }
    tern_ticket_keys_close(keys);
}

static void exchange_keys_once(struct tern_shared_tickets *shared)
{
    char why[256] = "";
    const enum tern_result result =
        exchange_keys(shared->database, shared->private_key, shared->keys, why);
    if (result != TERN_OK && !shared->logged_failure) {
        log_not_shared(result, why);
    }
    shared->logged_failure = result != TERN_OK;
}

static void *run_key_exchange(void *arg)
{
    struct tern_shared_tickets *shared = arg;
    while (wait_for_tick(&shared->ticker, EXCHANGE_INTERVAL_S)) {
        exchange_keys_once(shared);
    }
    return NULL;
}

enum tern_result tern_shared_tickets_start(const struct tern_shared_tickets_config *config,
                                           struct tern_ticket_keys *keys,
                                           struct tern_shared_tickets **out)
{
    struct tern_shared_tickets *shared = calloc(1, sizeof *shared);
    if (shared == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    snprintf(shared->database, sizeof shared->database, "%s", config->database);
    snprintf(shared->private_key, sizeof shared->private_key, "%s", config->private_key);
    shared->keys = keys;
    tern_ticket_keys_share(keys);
    if (!start_ticker(&shared->ticker, run_key_exchange, shared)) {
        free(shared);
        return TERN_ERR_NO_MEMORY;
    }
    *out = shared;
    return TERN_OK;
}

void tern_shared_tickets_stop(struct tern_shared_tickets *shared)
{
    if (shared != NULL) {
        stop_ticker(&shared->ticker);
        free(shared);
    }
}
