// tern-aggregator serve and relay: run the service with its public and admin listeners, and a gateway's upstream link, until
// a signal ends them.
#include "admin/admin.h"
#include "cli/estimates.h"
#include "cli/gateway.h"
#include "cli/process.h"
#include "cli/self_check.h"
#include "cli/serve_config.h"
#include "cli/service_advice.h"
#include "cli/settings_audit.h"
#include "cli/shared_database.h"
#include "cli/starting_model.h"
#include "cli/state.h"
#include "cli/verbs.h"
#include "hosted/files.h"
#include "hosted/host.h"
#include "hosted/log.h"
#include "hosted/spool.h"
#include "hosted/system.h"
#include "secure/link/link.h"
#include "service/service.h"
#include "store/nodes.h"
#include "tensor/manifest.h"
#include "tensor/model.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// --- Exporting the settings of this process

// Returns the options that give a child process, which runs a verb, the same settings; NULL-terminated, malloc'ed. The
// texts belong to the command line. NULL: out of memory.
static const char **options_for_verbs(const struct tern_cli *cli)
{
    const char **options = calloc(2 * (size_t)cli->set_count + 5, sizeof *options);
    size_t at = 0;
    if (options == NULL) {
        return NULL;
    }
    if (cli->config != NULL) {
        options[at++] = "--config";
        options[at++] = cli->config;
    }
    for (unsigned i = 0; i < cli->set_count; i++) {
        options[at++] = "--set";
        options[at++] = cli->sets[i];
    }
    options[at++] = "--state";
    options[at] = tern_state_settings(cli)->federation_state;
    return options;
}

static cJSON *setting_json(const struct tern_setting *setting,
                           const struct tern_aggregator_settings *settings,
                           const struct tern_aggregator_settings *defaults)
{
    static const char *const changes[] = {[TERN_SETTING_RESTART] = "restart",
                                          [TERN_SETTING_LIVE] = "live",
                                          [TERN_SETTING_INIT] = "init"};
    char text[TERN_SETTING_TEXT_MAX];
    cJSON *object = cJSON_CreateObject();
    tern_json_text(object, "section", setting->section);
    tern_json_text(object, "key", setting->key);
    tern_setting_format(setting, settings, text);
    tern_json_text(object, "value", text);
    tern_setting_format(setting, defaults, text);
    tern_json_text(object, "default", text);
    tern_json_bool(object, "changed", !tern_setting_equal(setting, settings, defaults));
    tern_json_text(object, "takes_effect", changes[setting->change]);
    tern_json_text(object, "doc", setting->doc);
    return object;
}

static bool is_codec_accuracy(const struct tern_setting *setting)
{
    return strcmp(setting->section, "codec") == 0 && strcmp(setting->key, "accuracy") == 0;
}

// Returns the settings for the dashboard, as an array of objects: section, key, value, default, whether they differ, when a
// change takes effect ("restart", "live" or "init"), and documentation; codec.accuracy also has "estimates"
// (tern_spending_accuracies_json()). The caller deletes the array.
static cJSON *settings_json(struct tern_cli *cli, const struct tern_model *model)
{
    static struct tern_aggregator_settings defaults;
    const struct tern_aggregator_settings *settings = tern_state_settings(cli);
    const struct tern_settings *table = &tern_aggregator_settings_table;
    cJSON *list = cJSON_CreateArray();
    tern_settings_defaults(table, &defaults);
    for (size_t i = 0; i < table->count; i++) {
        cJSON *row = setting_json(&table->table[i], settings, &defaults);
        if (is_codec_accuracy(&table->table[i])) {
            const struct tern_spending_accuracies all = tern_spending_accuracies(cli, model);
            cJSON_AddItemToObject(row, "estimates", tern_spending_accuracies_json(&all));
        }
        cJSON_AddItemToArray(list, row);
    }
    return list;
}

// --- Serving

#define GRACE_MS 5000 // longest time that a stopping service gives requests and replies under way

#define DAY_MS 86400000u

struct serving {
    struct tern_cli *cli;
    const struct tern_aggregator_settings *settings;
    struct tern_service_config config;
    struct tern_http_limits limits; // limits of the clients' listener
    sigset_t signals;               // blocked in all threads
    bool stopped;                   // a signal arrived during the start
    int lock;                       // descriptor of the state directory's lock; -1: none
    struct tern_db *db;
    uint32_t node; // this aggregator's number (store/nodes.h); 0: the database is a file
    struct tern_db_federation federation;
    struct tern_model *model;
    uint64_t enrolled;               // at the start or the last reload
    struct tern_db_round committed;  // the last committed round then; its number is 0: none
    struct tern_relay *relay;        // NULL: not a gateway
    struct tern_helper_link *helper; // NULL: no secure rounds
    struct tern_service *service;
    struct tern_self_check *check;
    struct tern_http_server *server;
    struct tern_shared_tickets *tickets; // NULL: the database is a file
    struct tern_leader_watch *watch;     // NULL: the database is a file
    struct tern_admin *admin;
    const char **tool_options; // command-line options of the verbs that the admin listener runs
};

// --- Expiry of certificates

#define DAY_S 86400u
#define WARN_DAYS 14u

// Logs the end of a certificate. event: name of the log event. consequence: what happens after the end.
static void log_certificate_end(const char *event, const char *path, uint64_t ends_s,
                                const char *consequence)
{
    char when[TERN_TEXT];
    char expired[32];
    const uint64_t now_s = (uint64_t)time(NULL);
    tern_text_time(ends_s * 1000, when);
    if (ends_s <= now_s) {
        snprintf(expired, sizeof expired, "%s-expired", event);
        tern_log(TERN_LOG_ERROR, expired,
                 "file=%s expired=\"%s\" advice=\"%s: replace the file, then send SIGHUP\"",
                 TERN_LOG_TEXT(path), when, consequence);
        return;
    }
    const uint64_t days = (ends_s - now_s) / DAY_S;
    tern_log(days < WARN_DAYS ? TERN_LOG_WARN : TERN_LOG_INFO, event,
             "file=%s expires=\"%s\" days=%" PRIu64, TERN_LOG_TEXT(path), when, days);
}

// Logs when the certificate and the first of the clients' CAs expire: an error if they have, a warning in the last two weeks.
static void log_certificate(const struct serving *serving)
{
    struct tern_http_counters counters;
    struct tern_serve_tls_files files;
    tern_http_counters(serving->server, &counters);
    tern_serve_tls_files(serving->cli, &files);
    log_certificate_end("certificate", files.certificate, counters.certificate_ends_s,
                        "clients refuse it");
    if (files.names.client_ca != NULL) {
        log_certificate_end("client-ca", files.names.client_ca, counters.client_ca_ends_s,
                            "clients with certificates of this CA are refused");
    }
}

// --- Starting

// Ends the program as SIGTERM does.
static void end_program(void *ctx)
{
    (void)ctx;
    kill(getpid(), SIGTERM);
}

// Checks a TLS file before anything starts, and explains how to make it: a new federation has no certificate.
static int check_file(const struct serving *serving, const char *what, const char *key,
                      const char *configured, const char *name)
{
    char path[PATH_MAX];
    tern_state_file(serving->cli, configured, name, path);
    if (access(path, R_OK) == 0) {
        return TERN_EXIT_OK;
    }
    return tern_cli_fail(
        serving->cli, TERN_ERR_CONFIG,
        "the %s %s cannot be read: %s\n"
        "Set server.%s to the file, or make a certificate for this host:\n"
        "  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 \\\n"
        "    -subj /CN=localhost -addext subjectAltName=DNS:localhost \\\n"
        "    -keyout %s/" TERN_STATE_PRIVATE_KEY " -out %s/" TERN_STATE_CERTIFICATE,
        what, path, strerror(errno), key, serving->settings->federation_state,
        serving->settings->federation_state);
}

static int check_files(const struct serving *serving)
{
    const struct tern_aggregator_settings *s = serving->settings;
    TERN_CLI_TRY(check_file(serving, "certificate", "certificate", s->server_certificate,
                            TERN_STATE_CERTIFICATE));
    return check_file(serving, "private key", "private_key", s->server_private_key,
                      TERN_STATE_PRIVATE_KEY);
}

static void apply_log_settings(const struct tern_aggregator_settings *s)
{
    tern_log_set_level(tern_log_level_named(s->log_level));
    tern_log_set_format(tern_log_format_named(s->log_format));
}

static void log_advice(const char *sentence)
{
    tern_log(TERN_LOG_WARN, "settings", "advice=%s", TERN_LOG_TEXT(sentence));
}

static void log_codecs(const struct tern_federation_config *config)
{
    char up[TERN_CODEC_SPEC_MAX];
    char down[TERN_CODEC_SPEC_MAX];
    tern_codec_format(&config->codec_up, up);
    tern_codec_format(&config->downloads.codec, down);
    tern_log(TERN_LOG_INFO, "codecs", "up=%s down=%s residual=%g early_rounds=%" PRIu32, up, down,
             config->downloads.residual, config->early.rounds);
    if (config->early.rounds > 0) {
        tern_codec_format(&config->early.up, up);
        tern_codec_format(&config->early.down, down);
        tern_log(TERN_LOG_INFO, "early-codecs", "rounds=%" PRIu32 " up=%s down=%s",
                 config->early.rounds, up, down);
    }
}

static void log_disk_need(const struct serving *serving, const struct tern_model *model)
{
    struct tern_disk_need need;
    char text[TERN_DISK_NEED_MAX];
    if (tern_disk_need_measure(serving->settings, &serving->config.federation, model, serving->db,
                               &need) == TERN_OK &&
        tern_disk_need_is_short(&need, text)) {
        tern_log(TERN_LOG_WARN, "disk-small", "what=%s advice=%s", TERN_LOG_TEXT(text),
                 TERN_LOG_TEXT(TERN_DISK_NEED_ADVICE));
    }
}

static int fit_to_model(const struct serving *serving, struct tern_service_config *config,
                        struct tern_http_limits *limits)
{
    TERN_CLI_TRY(tern_serve_config_fit_model(
        serving->cli, serving->model, serving->federation.model_spec, &config->federation, limits));
    const struct tern_round_time time = tern_round_time(&config->federation, serving->model,
                                                        serving->enrolled, &serving->committed);
    tern_cli_advise(serving->settings, &config->federation, &time, log_advice);
    if (serving->relay != NULL) {
        tern_relay_configure(serving->relay, config);
    }
    return TERN_EXIT_OK;
}

// Reads the model, and fits the configuration to it.
static int read_model(struct serving *serving)
{
    const struct tern_db_federation *federation = &serving->federation;
    static struct tern_model model;
    struct tern_db_counts counts = {.clients = 0};
    enum tern_result result = tern_db_federation(serving->db, &serving->federation);
    if (result == TERN_OK) {
        result = tern_db_counts(serving->db, 0, &counts);
    }
    if (result == TERN_OK) {
        result = tern_db_may_miss(tern_db_round_committed(serving->db, &serving->committed));
    }
    serving->enrolled = counts.clients;
    if (result == TERN_OK) {
        result = tern_model_build(&model, federation->model_spec, federation->manifest,
                                  federation->manifest_len, federation->model_hash);
    }
    if (result != TERN_OK) {
        return TERN_EXIT_OK; // tern_service_start() explains the failure
    }
    serving->model = &model;
    TERN_CLI_TRY(fit_to_model(serving, &serving->config, &serving->limits));
    log_codecs(&serving->config.federation);
    log_disk_need(serving, &model);
    const struct tern_spending spending =
        tern_spending_estimate(serving->settings, &serving->config.federation, &model);
    tern_spending_log(&spending);
    return TERN_EXIT_OK;
}

// --- Reports to systemd

#define STATUS_MS 30000u // time between two reports without a watchdog

// A running service, as reported to systemd.
struct systemd {
    struct tern_service *service;
    const struct tern_http_server *server;
    uint64_t service_turns; // loop iterations of both threads at the last sign of life
    uint64_t server_turns;
};

// Returns how long the main thread may wait before report_to_systemd(), in ms; at most a day.
static uint64_t systemd_wait_ms(void)
{
    const uint64_t watchdog_ms = tern_notify_watchdog_ms();
    const uint64_t wait_ms = tern_notify_is_wanted() ? STATUS_MS : DAY_MS;
    return watchdog_ms != 0 && watchdog_ms / 3 < wait_ms ? watchdog_ms / 3 : wait_ms;
}

static void describe_rounds(const struct tern_service_facts *facts, char text[256])
{
    const struct tern_round_machine *round = &facts->federation.machine;
    if (!facts->stores) {
        snprintf(text, 256, "nothing can be stored: see the log");
    } else if (round->open) {
        snprintf(text, 256,
                 "round %" PRIu32 ": %" PRIu32 " of %" PRIu32 " updates; %" PRIu64 " clients",
                 round->round, round->reported, round->target, (uint64_t)facts->federation.clients);
    } else {
        snprintf(text, 256, "no round is open; version %" PRIu32 ", %" PRIu64 " clients",
                 facts->federation.version, (uint64_t)facts->federation.clients);
    }
}

// Returns whether the threads of the service and of its listener have run since the last call that returned true.
static bool has_run(struct systemd *systemd)
{
    const uint64_t service_turns = tern_service_iterations(systemd->service);
    const uint64_t server_turns = tern_http_sweeps(systemd->server);
    const bool lives =
        service_turns != systemd->service_turns && server_turns != systemd->server_turns;
    if (lives) {
        systemd->service_turns = service_turns;
        systemd->server_turns = server_turns;
    }
    return lives;
}

// Reports the state of the rounds to systemd, and a sign of life if the threads have run since the last report. Without signs
// of life systemd restarts the service.
static void report_to_systemd(struct systemd *systemd)
{
    struct tern_service_facts facts;
    char text[256];
    if (!tern_notify_is_wanted()) {
        return;
    }
    tern_service_facts(systemd->service, &facts);
    describe_rounds(&facts, text);
    tern_notify("STATUS=%s\n%s", text, has_run(systemd) ? "WATCHDOG=1\n" : "");
}

// --- Reloading: TLS files, and the settings that may change in a running service

static enum tern_result reread_settings(const struct tern_cli *cli,
                                        struct tern_aggregator_settings *fresh, char why[512])
{
    const struct tern_settings *table = &tern_aggregator_settings_table;
    tern_settings_defaults(table, fresh);
    if (cli->config != NULL) {
        TERN_TRY(tern_settings_load(table, fresh, cli->config, why));
    }
    for (unsigned i = 0; i < cli->set_count; i++) {
        TERN_TRY(tern_settings_set(table, fresh, cli->sets[i], why));
    }
    if (tern_cli_flag(cli, "state")) { // --state overrides the old and the new settings
        memcpy(fresh->federation_state, tern_state_settings(cli)->federation_state,
               sizeof fresh->federation_state);
    }
    return TERN_OK;
}

// Swaps the values of the settings that may change in a running service. Other threads read the other settings.
static void swap_live(struct tern_aggregator_settings *a, struct tern_aggregator_settings *b)
{
    const struct tern_settings *table = &tern_aggregator_settings_table;
    uint8_t kept[sizeof *a];
    for (size_t i = 0; i < table->count; i++) {
        const struct tern_setting *setting = &table->table[i];
        if (setting->change == TERN_SETTING_LIVE) {
            uint8_t *x = (uint8_t *)a + setting->offset;
            uint8_t *y = (uint8_t *)b + setting->offset;
            memcpy(kept, x, setting->size);
            memcpy(x, y, setting->size);
            memcpy(y, kept, setting->size);
        }
    }
}

static void log_setting(const struct tern_setting *setting,
                        const struct tern_aggregator_settings *before,
                        const struct tern_aggregator_settings *reread)
{
    static const char *const reasons[] = {
        [TERN_SETTING_LIVE] = "",
        [TERN_SETTING_RESTART] = " reason=\"needs a restart\"",
        [TERN_SETTING_INIT] = " reason=\"only init reads it\"",
    };
    const bool is_live = setting->change == TERN_SETTING_LIVE;
    char from[TERN_SETTING_TEXT_MAX];
    char to[TERN_SETTING_TEXT_MAX];
    tern_setting_format(setting, before, from);
    tern_setting_format(setting, reread, to);
    tern_log(is_live ? TERN_LOG_INFO : TERN_LOG_WARN,
             is_live ? "setting-changed" : "setting-not-taken", "key=%s.%s from=%s to=%s%s",
             setting->section, setting->key, TERN_LOG_TEXT(from), TERN_LOG_TEXT(to),
             reasons[setting->change]);
}

// Logs the differences after swap_live(): of live settings, `other` has the old values; of the rest, the new ones.
static void log_settings(const struct tern_aggregator_settings *settings,
                         const struct tern_aggregator_settings *other)
{
    const struct tern_settings *table = &tern_aggregator_settings_table;
    for (size_t i = 0; i < table->count; i++) {
        const struct tern_setting *setting = &table->table[i];
        if (!tern_setting_equal(setting, settings, other)) {
            const bool is_live = setting->change == TERN_SETTING_LIVE;
            log_setting(setting, is_live ? other : settings, is_live ? settings : other);
        }
    }
}

// Applies the new settings. Steps that can fail come first, so that a failure changes nothing.
static enum tern_result apply_settings(struct serving *serving, char why[512])
{
    static struct tern_service_config config;
    struct tern_http_limits limits;
    struct tern_service_facts facts;
    struct tern_serve_tls_files files;
    memset(&config, 0, sizeof config);
    if (serving->service != NULL) {
        tern_service_facts(serving->service, &facts);
        serving->enrolled = facts.federation.clients;
        serving->committed = facts.federation.committed;
    }
    if (tern_serve_config_read(serving->cli, &config) != TERN_EXIT_OK ||
        fit_to_model(serving, &config, &limits) != TERN_EXIT_OK) {
        return TERN_ERR_CONFIG; // cli->message has the reason
    }
    if (serving->service == NULL) { // this node stands by and has no service
        config.shares = serving->config.shares;
        serving->config = config;
        serving->limits = limits;
        apply_log_settings(serving->settings);
        return TERN_OK;
    }
    TERN_TRY(tern_service_check_config(serving->service, &config, why));
    tern_serve_tls_files(serving->cli, &files);
    TERN_TRY(tern_http_reload_files(serving->server, &files.names, why));
    tern_cli_raise_file_limit(serving->cli, facts.federation.clients);
    tern_http_set_limits(serving->server, &limits);
    tern_service_configure(serving->service, &config);
    tern_service_set_disk_needed(serving->service,
                                 tern_disk_need_bytes(serving->settings, &config.federation,
                                                      serving->model, facts.federation.clients));
    if (serving->check != NULL) {
        tern_self_check_set_interval(serving->check, serving->settings->server_check_interval);
    }
    apply_log_settings(serving->settings);
    return TERN_OK;
}

// Reads the settings and TLS files again. Applies live settings (settings.def), and logs each setting that differs. If
// anything is wrong with settings or files, logs the reason and changes nothing.
static void reload_settings(struct serving *serving)
{
    static struct tern_aggregator_settings other;
    struct tern_cli *cli = serving->cli;
    struct tern_aggregator_settings *settings = cli->program->values;
    char why[512] = "";
    enum tern_result result = reread_settings(cli, &other, why);
    if (result == TERN_OK) {
        swap_live(settings, &other);
        cli->message = why;
        cli->message_size = sizeof why;
        result = apply_settings(serving, why);
        cli->message = NULL;
        if (result != TERN_OK) {
            swap_live(settings, &other);
        }
    }
    if (result != TERN_OK) {
        tern_log(TERN_LOG_ERROR, "reload-failed", "reason=%s", TERN_LOG_TEXT(why));
        return;
    }
    log_settings(settings, &other);
    if (serving->service != NULL) {
        tern_settings_audit(cli, &other);
    }
    tern_log(TERN_LOG_INFO, "reloaded", NULL);
    if (serving->server != NULL) {
        log_certificate(serving);
    }
}

static void publish_settings(const struct serving *serving)
{
    if (serving->config.shares) {
        tern_shared_settings_publish(serving->cli, serving->node);
    }
}

static void reload(void *ctx)
{
    struct serving *serving = ctx;
    tern_notify("RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\n", tern_monotonic_ms() * 1000);
    reload_settings(serving);
    publish_settings(serving);
    if (serving->admin != NULL) {
        tern_admin_set_settings(serving->admin, settings_json(serving->cli, serving->model));
    }
    tern_notify("READY=1\n");
}

// --- Standing by

// Enters this aggregator into the node table, under a random number.
static int register_node(struct serving *serving)
{
    struct tern_service_config *config = &serving->config;
    uint32_t number = 0;
    enum tern_result result = tern_random_fill(&number, sizeof number);
    TERN_CLI_TRY(tern_cli_check(serving->cli, result, "the system provides no random bytes"));
    serving->node = number % TERN_DB_NODE_NUMBER_MAX + 1;
    result = tern_db_join_node(serving->db, serving->node);
    TERN_CLI_TRY(tern_cli_check(serving->cli, result, "%s", tern_db_error(serving->db)));
    result = tern_leader_watch_start(tern_db_path(serving->db), serving->node, &serving->watch);
    TERN_CLI_TRY(tern_cli_check(serving->cli, result, "no memory for the watch of the leader"));
    config->shares = true;
    TERN_CLI_TRY(tern_shared_settings_check(serving->cli, serving->db));
    publish_settings(serving);
    return TERN_EXIT_OK;
}

// Sets the time of the lock file, by which `probe` finds a service that hangs before it listens.
static void touch_lock(const struct serving *serving)
{
    (void)!futimens(serving->lock, NULL);
}

static void beat(void *ctx)
{
    const struct serving *serving = ctx;
    tern_notify("WATCHDOG=1\n");
    touch_lock(serving);
}

static bool is_upgraded(void *ctx)
{
    const struct serving *serving = ctx;
    return tern_db_take_upgraded(serving->db) == TERN_OK;
}

// Waits until this node may upgrade the database, because an older program may still lead, or until another node of this
// version has upgraded it.
static int stand_by_and_upgrade(struct serving *serving)
{
    const struct tern_standby_ports ports = {
        .signals = &serving->signals, .ends = is_upgraded, .beat = beat, .ctx = serving};
    TERN_CLI_TRY(tern_standby_wait(serving->cli, serving->db, &ports, &serving->stopped));
    if (serving->stopped || !tern_db_is_older(serving->db)) {
        return TERN_EXIT_OK;
    }
    TERN_CLI_TRY(tern_state_upgrade(serving->cli, serving->db));
    tern_log(TERN_LOG_INFO, "upgraded", "database=%s", TERN_LOG_TEXT(tern_db_path(serving->db)));
    return TERN_EXIT_OK;
}

// Waits until this node leads.
static int stand_by(struct serving *serving)
{
    TERN_CLI_TRY(tern_state_is_postgres(serving->cli) ? register_node(serving) : TERN_EXIT_OK);
    const struct tern_standby_ports ports = {.signals = &serving->signals,
                                             .reload = reload,
                                             .watch = serving->watch,
                                             .beat = beat,
                                             .ctx = serving};
    return tern_standby_wait(serving->cli, serving->db, &ports, &serving->stopped);
}

static int open_store(struct serving *serving)
{
    // The lock comes first, because `restore` may be replacing the database.
    if (serving->lock < 0) {
        TERN_CLI_TRY(tern_state_lock(serving->cli, &serving->lock));
    }
    touch_lock(serving);
    TERN_CLI_TRY(tern_state_open_any(serving->cli, TERN_DB_OLDER, &serving->db));
    if (tern_db_is_older(serving->db)) {
        TERN_CLI_TRY(stand_by_and_upgrade(serving));
    }
    if (serving->stopped) {
        return TERN_EXIT_OK;
    }
    TERN_CLI_TRY(read_model(serving));
    TERN_CLI_TRY(check_files(serving));
    TERN_CLI_TRY(stand_by(serving));
    if (serving->stopped) {
        return TERN_EXIT_OK;
    }
    TERN_CLI_TRY(tern_state_refuse_copied(serving->cli, serving->db, ""));
    publish_settings(serving);
    return TERN_EXIT_OK;
}

// --- Starting the service

static int open_helper(struct serving *serving)
{
    const struct tern_aggregator_settings *s = serving->settings;
    char token[PATH_MAX];
    char why[512] = "";
    if (s->secure_helper[0] == '\0') {
        return TERN_EXIT_OK;
    }
    tern_state_file(serving->cli, s->secure_token, TERN_STATE_HELPER_TOKEN, token);
    const struct tern_helper_link_config config = {
        .server = s->secure_helper, .ca = s->secure_ca, .token_file = token};
    TERN_CLI_TRY(tern_cli_check(serving->cli, tern_helper_link_open(&config, &serving->helper, why),
                                "%s", why));
    serving->config.helper = tern_helper_link_port(serving->helper);
    return TERN_EXIT_OK;
}

static int start_service(struct serving *serving)
{
    char why[256];
    TERN_CLI_TRY(open_helper(serving));
    serving->config.on_halted = end_program;
    enum tern_result result =
        tern_service_start(&serving->config, serving->db, &serving->service, why);
    return tern_cli_check(serving->cli, result, "%s", why);
}

static int start_relay(struct serving *serving)
{
    char why[512] = "";
    if (serving->relay == NULL) {
        return TERN_EXIT_OK;
    }
    const enum tern_result result = tern_relay_start(serving->relay, serving->service, serving->db,
                                                     serving->model, end_program, serving, why);
    return tern_cli_check(serving->cli, result, "%s", why);
}

static void record_check(void *ctx, uint64_t now_ms)
{
    const struct serving *serving = ctx;
    tern_service_set_checked(serving->service, now_ms);
}

static int start_self_check(struct serving *serving)
{
    char database[PATH_MAX];
    tern_state_database(serving->cli, database);
    const uint64_t made_ms = serving->federation.created_ms;
    const uint64_t checked_ms = serving->federation.checked_ms;
    const struct tern_self_check_config config = {
        .database = database,
        .interval_ms = serving->settings->server_check_interval,
        .last_ms = checked_ms > made_ms ? checked_ms : made_ms,
        .on_sound = record_check,
        .on_damaged = end_program,
        .ctx = serving,
    };
    tern_service_set_checked(serving->service, checked_ms);
    return tern_cli_check(serving->cli, tern_self_check_start(&config, &serving->check),
                          "no memory for the check of the database");
}

static int make_upload_folder(const struct serving *serving, char path[PATH_MAX])
{
    tern_state_path(serving->cli, TERN_STATE_UPLOADS, path);
    return tern_cli_check(serving->cli, tern_file_make_folders(path, 0700),
                          "the folder %s cannot be made: %s", path, strerror(errno));
}

static int share_tickets(struct serving *serving, const struct tern_shared_tickets_config *config)
{
    if (!tern_db_is_url(config->database)) {
        return TERN_EXIT_OK;
    }
    const enum tern_result result = tern_shared_tickets_start(
        config, tern_http_ticket_keys(serving->server), &serving->tickets);
    return tern_cli_check(serving->cli, result, "no memory for sharing ticket keys");
}

static int start_listener(struct serving *serving)
{
    const struct tern_aggregator_settings *s = serving->settings;
    struct tern_serve_tls_files files;
    char ticket_keys[PATH_MAX];
    char ticket_clients[PATH_MAX];
    char folder[PATH_MAX];
    char why[256];
    tern_serve_tls_files(serving->cli, &files);
    tern_state_path(serving->cli, TERN_STATE_TICKET_KEYS, ticket_keys);
    tern_state_path(serving->cli, TERN_STATE_TICKET_CLIENTS, ticket_clients);
    TERN_CLI_TRY(make_upload_folder(serving, folder));
    const struct tern_shared_tickets_config shared = {
        .database = s->store_url, .private_key = files.private_key, .file = ticket_keys};
    if (tern_db_is_url(shared.database)) {
        tern_shared_tickets_merge_file(&shared);
    }
    struct tern_http_config config = {.address = s->server_address,
                                      .port = (uint16_t)s->server_port,
                                      .threads = s->server_threads,
                                      .files = files.names,
                                      .ticket_keys = ticket_keys,
                                      .ticket_clients = ticket_clients,
                                      .proxy_from = s->server_proxy_from,
                                      .cache_from = s->server_cache_from,
                                      .spool_folder = folder,
                                      .limits = serving->limits};
    struct tern_http_handler handler = tern_service_handler(serving->service);
    enum tern_result result = tern_http_start(&config, &handler, &serving->server, why);
    TERN_CLI_TRY(tern_cli_check(serving->cli, result, "%s", why));
    return share_tickets(serving, &shared);
}

// Makes a new admin token if the file is missing. No stored data depends on the old token.
static int ensure_admin_token(struct serving *serving, char path[PATH_MAX])
{
    bool made = false;
    tern_state_path(serving->cli, TERN_STATE_ADMIN_TOKEN, path);
    enum tern_result result = tern_state_make_token(path, &made);
    TERN_CLI_TRY(tern_cli_check(serving->cli, result, "the admin token %s cannot be made: %s", path,
                                strerror(errno)));
    if (made) {
        tern_log(TERN_LOG_WARN, "admin-token-made", "file=%s reason=missing", TERN_LOG_TEXT(path));
    }
    return TERN_EXIT_OK;
}

static int start_admin(struct serving *serving)
{
    const struct tern_aggregator_settings *s = serving->settings;
    char token_file[PATH_MAX];
    char why[256];
    if (s->admin_address[0] == '\0') {
        return TERN_EXIT_OK;
    }
    TERN_CLI_TRY(ensure_admin_token(serving, token_file));
    struct tern_admin_config config = {.address = s->admin_address,
                                       .port = (uint16_t)s->admin_port,
                                       .sso = s->admin_sso,
                                       .token_file = token_file,
                                       .service = serving->service,
                                       .clients = serving->server};
    serving->tool_options = options_for_verbs(serving->cli);
    config.tool_options = serving->tool_options;
    enum tern_result result = tern_admin_start(&config, &serving->admin, why);
    if (result == TERN_OK) {
        tern_admin_set_settings(serving->admin, settings_json(serving->cli, serving->model));
    }
    return tern_cli_check(serving->cli, result, "admin: %s", why);
}

// Writes the file with the port where the disk is full, since that must not prevent the start. The file never keeps an old
// port.
static enum tern_result write_port_on_full_disk(const char *path, const char *text, size_t len)
{
    enum tern_result result = tern_file_overwrite(path, text, len);
    if (result == TERN_OK) {
        return TERN_OK;
    }
    (void)unlink(path);
    result = tern_file_write(path, text, len, 0644); // overwrites the old file in place
    if (result == TERN_ERR_NO_SPACE) {
        tern_log(TERN_LOG_WARN, "no-port-file", "file=%s port=%.*s advice=%s", TERN_LOG_TEXT(path),
                 (int)len - 1, text,
                 TERN_LOG_TEXT("the disk is full: free space and restart the service, or set a "
                               "fixed port"));
        return TERN_OK;
    }
    return result;
}

static int write_port(const struct serving *serving, const char *path, uint16_t port)
{
    char text[8];
    if (path[0] == '\0') {
        return TERN_EXIT_OK;
    }
    int len = snprintf(text, sizeof text, "%u\n", port);
    enum tern_result result = tern_file_write(path, text, (size_t)len, 0644);
    if (result == TERN_ERR_NO_SPACE) {
        result = write_port_on_full_disk(path, text, (size_t)len);
    }
    return tern_cli_check(serving->cli, result, "%s cannot be written: %s", path, strerror(errno));
}

// Writes an IPv6 address in brackets, as a URL requires.
static void print_address(const char *scheme, const char *address, uint16_t port)
{
    bool six = strchr(address, ':') != NULL;
    printf("%s://%s%s%s:%u", scheme, six ? "[" : "", address, six ? "]" : "", port);
}

// Prints the dashboard's URL. A listener on a unix socket has none: the proxy in front of the socket has the URL.
static void print_dashboard(const struct serving *serving)
{
    const struct tern_aggregator_settings *s = serving->settings;
    char token[PATH_MAX];
    if (serving->admin == NULL || strncmp(s->admin_address, "unix:", 5) == 0) {
        return;
    }
    tern_state_path(serving->cli, TERN_STATE_ADMIN_TOKEN, token);
    printf("dashboard: ");
    print_address("http", s->admin_address, tern_admin_port(serving->admin));
    printf("/ (log in with the token in %s)\n", token);
}

static void print_addresses(const struct serving *serving)
{
    const struct tern_aggregator_settings *s = serving->settings;
    const char *address = tern_http_address(serving->server);
    printf("listening on ");
    print_address("https", address, tern_http_port(serving->server));
    if (strcmp(s->server_address, "::") == 0) {
        printf("%s",
               strcmp(address, "::") == 0 ? " (IPv6 and IPv4)" : " (this machine has no IPv6)");
    }
    if (serving->admin != NULL) {
        printf(", admin on ");
        if (strncmp(s->admin_address, "unix:", 5) == 0) {
            printf("%s", s->admin_address);
        } else {
            print_address("http", s->admin_address, tern_admin_port(serving->admin));
        }
    }
    printf("\n");
    print_dashboard(serving);
    fflush(stdout);
}

static int start_all(struct serving *serving)
{
    struct tern_service_facts facts;
    const struct tern_aggregator_settings *s = serving->settings;
    TERN_CLI_TRY(tern_serve_config_read(serving->cli, &serving->config));
    apply_log_settings(serving->settings);
    tern_log_keep();
    TERN_CLI_TRY(open_store(serving));
    if (serving->stopped) {
        return TERN_EXIT_OK;
    }
    TERN_CLI_TRY(start_service(serving));
    // Reading the model failed before, and the service could read it now.
    if (serving->model == NULL) {
        return tern_cli_fail(
            serving->cli, TERN_ERR_IO,
            "the federation could not be read at first, but can be read now: start "
            "again");
    }
    tern_service_facts(serving->service, &facts);
    tern_cli_raise_file_limit(serving->cli, facts.federation.clients);
    tern_service_set_disk_needed(serving->service,
                                 tern_disk_need_bytes(s, &serving->config.federation,
                                                      serving->model, facts.federation.clients));
    TERN_CLI_TRY(start_self_check(serving));
    TERN_CLI_TRY(start_listener(serving));
    TERN_CLI_TRY(start_admin(serving));
    TERN_CLI_TRY(start_relay(serving));
    log_certificate(serving);
    tern_cli_log_exposed_secrets(serving->cli);
    TERN_CLI_TRY(write_port(serving, s->server_port_file, tern_http_port(serving->server)));
    return serving->admin == NULL
               ? TERN_EXIT_OK
               : write_port(serving, s->admin_port_file, tern_admin_port(serving->admin));
}

// --- Stopping: listeners end before the service, so that no request reaches a service that has ended

static void stop_all(struct serving *serving)
{
    if (serving->relay != NULL) {
        tern_relay_stop(serving->relay);
    }
    if (serving->service != NULL) {
        tern_service_quiesce(serving->service);
    }
    tern_helper_link_stop(serving->helper);
    tern_admin_stop(serving->admin, GRACE_MS);
    free(serving->tool_options);
    tern_shared_tickets_stop(serving->tickets);
    if (serving->server != NULL) {
        tern_http_stop(serving->server, GRACE_MS);
    }
    tern_self_check_stop(serving->check);
    if (serving->service != NULL) {
        tern_service_stop(serving->service);
    }
    tern_relay_close(serving->relay);
    tern_helper_link_close(serving->helper);
    tern_leader_watch_stop(serving->watch);
    if (serving->db != NULL) {
        tern_db_close(serving->db);
    }
    if (serving->lock >= 0) {
        close(serving->lock);
    }
}

// Blocks the signals in every thread, so that only sigtimedwait() receives them.
static sigset_t block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    return set;
}

// Waits for SIGTERM or SIGINT. Reloads settings at SIGHUP, reports to systemd, and logs the certificate once a day.
static void wait_for_stop(struct serving *serving)
{
    struct systemd systemd = {.service = serving->service, .server = serving->server};
    const uint64_t wait_ms = systemd_wait_ms();
    const struct timespec wait = {.tv_sec = (time_t)(wait_ms / 1000),
                                  .tv_nsec = (long)(wait_ms % 1000 * 1000000)};
    uint64_t logged_ms = tern_monotonic_ms();
    int number = 0;
    tern_notify("READY=1\n");
    report_to_systemd(&systemd);
    while (number != SIGTERM && number != SIGINT) {
        number = sigtimedwait(&serving->signals, NULL, &wait);
        if (number == SIGHUP) {
            reload(serving);
        }
        if (tern_monotonic_ms() - logged_ms >= DAY_MS) {
            logged_ms = tern_monotonic_ms();
            log_certificate(serving);
        }
        report_to_systemd(&systemd);
    }
    tern_notify("STOPPING=1\nSTATUS=finishes requests under way\n");
    tern_log(TERN_LOG_INFO, "stopping", "signal=%d", number);
}

// Returns the exit code after the service has ended, and prints the reason of an error.
static int exit_code_of_service(const struct serving *serving)
{
    char why[512];
    if (serving->relay != NULL && tern_relay_ended(serving->relay, why)) {
        return tern_cli_fail(serving->cli, TERN_ERR_UNAUTHORIZED, "%s", why);
    }
    if (!tern_service_halted(serving->service, why) &&
        !tern_self_check_damaged(serving->check, why)) {
        return TERN_EXIT_OK;
    }
    return tern_cli_fail(serving->cli, TERN_ERR_IO, "%s", why);
}

// Checks the settings as init and serve do, without a state directory.
static int check_settings(struct tern_cli *cli)
{
    static struct tern_starting_model start;
    static struct tern_service_config config;
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    struct tern_db_federation federation = {.seed = s->federation_seed};
    struct tern_http_limits limits;
    TERN_CLI_TRY(tern_serve_config_read(cli, &config));
    int code =
        tern_starting_model_make(cli, s->federation_model, s->tensors_rules, &start, &federation);
    if (code == TERN_EXIT_OK) {
        code = tern_serve_config_fit_model(cli, &start.model, federation.model_spec,
                                           &config.federation, &limits);
    }
    if (code == TERN_EXIT_OK) {
        const struct tern_round_time time =
            tern_round_time(&config.federation, &start.model, 0, NULL);
        tern_cli_advise(s, &config.federation, &time, tern_cli_print_advice);
    }
    tern_starting_model_free(&start);
    return code;
}

// Waits until this node leads, then starts everything.
static int start(struct serving *serving)
{
    TERN_CLI_TRY(start_all(serving));
    if (!serving->stopped) {
        tern_settings_audit(serving->cli, NULL);
        print_addresses(serving);
    }
    return TERN_EXIT_OK;
}

#define REACH_MS 30000 // longest wait for PostgreSQL, which recovers from a crash in less

// Returns whether PostgreSQL cannot be reached, and writes the reason to `why`.
static bool is_postgres_unreachable(const struct serving *serving, char why[256])
{
    struct tern_db *db = NULL;
    const enum tern_result result =
        tern_db_open(serving->settings->store_url, TERN_DB_HURRIED, &db, why);
    tern_db_close(db);
    return result == TERN_ERR_IO;
}

// After a failed start: if PostgreSQL cannot be reached, stops the parts of the service that run already, and waits until
// PostgreSQL answers. Returns false if the start failed for another reason, or if PostgreSQL does not answer for REACH_MS.
static bool wait_for_postgres(struct serving *serving)
{
    const uint64_t until_ms = tern_monotonic_ms() + REACH_MS;
    const struct timespec pause = {.tv_sec = 1};
    char why[256] = "";
    if (serving->relay != NULL || !tern_state_is_postgres(serving->cli) ||
        !is_postgres_unreachable(serving, why)) {
        return false;
    }
    tern_log(TERN_LOG_WARN, "start-waits", "seconds=%d detail=%s", REACH_MS / 1000,
             TERN_LOG_TEXT(why));
    stop_all(serving);
    *serving = (struct serving){.cli = serving->cli,
                                .settings = serving->settings,
                                .signals = serving->signals,
                                .lock = -1};
    bool is_away = true;
    while (is_away && !serving->stopped && tern_monotonic_ms() < until_ms) {
        const int number = sigtimedwait(&serving->signals, NULL, &pause);
        serving->stopped = number == SIGTERM || number == SIGINT;
        is_away = is_postgres_unreachable(serving, why);
    }
    return serving->stopped || !is_away;
}

// Runs the service until a signal ends it. relay: NULL: this is no gateway. lock: descriptor of the state directory's lock;
// -1: not locked yet. Closes relay and lock.
static int serve(struct tern_cli *cli, struct tern_relay *relay, int lock)
{
    struct serving serving = {
        .cli = cli, .settings = tern_state_settings(cli), .lock = lock, .relay = relay};
    tern_return_large_blocks();
    serving.signals = block_signals();
    int code = start(&serving);
    if (code == TERN_EXIT_FAILED && wait_for_postgres(&serving)) {
        code = serving.stopped ? TERN_EXIT_OK : start(&serving);
    }
    if (code == TERN_EXIT_OK && !serving.stopped) {
        wait_for_stop(&serving);
        code = exit_code_of_service(&serving);
    }
    stop_all(&serving);
    return code;
}

int tern_cli_serve(struct tern_cli *cli)
{
    if (tern_cli_flag(cli, "check")) {
        return check_settings(cli);
    }
    // Under `serve`, no update of a gateway would reach the upstream aggregator.
    if (tern_state_is_gateway(cli)) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "%s belongs to a gateway: run `tern-aggregator relay`",
                             tern_state_settings(cli)->federation_state);
    }
    return serve(cli, NULL, -1);
}

int tern_cli_relay(struct tern_cli *cli)
{
    struct tern_relay *relay = NULL;
    int lock = -1;
    TERN_CLI_TRY(tern_gateway_check(cli));
    if (!tern_state_is_gateway(cli)) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "%s belongs to no gateway: `tern-aggregator join CODE` makes one, "
                             "with a join code of the "
                             "upstream aggregator",
                             tern_state_settings(cli)->federation_state);
    }
    TERN_CLI_TRY(tern_gateway_check_joined(cli));
    TERN_CLI_TRY(tern_gateway_open(cli, &lock, &relay));
    return serve(cli, relay, lock);
}
