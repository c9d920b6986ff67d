// tern-aggregator serve and relay: settings into a service, a public listener and an admin listener, and of a gateway
// the link to the aggregator above, until a signal says stop.
#include "admin/admin.h"
#include "cli/disk_need.h"
#include "cli/gateway.h"
#include "cli/process.h"
#include "cli/reload.h"
#include "cli/self_check.h"
#include "cli/service_advice.h"
#include "cli/serving.h"
#include "cli/shared_settings.h"
#include "cli/shared_tickets.h"
#include "cli/spending.h"
#include "cli/standby.h"
#include "cli/starting_model.h"
#include "cli/state.h"
#include "cli/tls_files.h"
#include "cli/verbs.h"
#include "hosted/files.h"
#include "hosted/log.h"
#include "hosted/system.h"
#include "nodes/sharing.h"
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
#include <time.h>
#include <unistd.h>

// --- This process's settings

// Exports this process's settings: as options for a child that runs a verb, and as JSON for the dashboard. From the
// main thread.

// Returns the options by which another verb of this program finds the same federation, NULL-terminated. The
// caller frees the array; the texts belong to the command line. NULL: out of memory.
static const char **own_options(const struct tern_cli *cli)
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

static cJSON *json_of(const struct tern_setting *setting,
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

static bool is_accuracy(const struct tern_setting *setting)
{
    return strcmp(setting->section, "codec") == 0 && strcmp(setting->key, "accuracy") == 0;
}

// Returns an array of one object per setting: section, key, value, default, whether they differ, when a
// change takes effect ("restart", "live" or "init"), and documentation; codec.accuracy has "estimates", too
// (tern_spending_accuracies_json()). The caller frees the array.
static cJSON *own_settings_json(struct tern_cli *cli, const struct tern_model *model)
{
    static struct tern_aggregator_settings defaults;
    const struct tern_aggregator_settings *settings = tern_state_settings(cli);
    const struct tern_settings *table = &tern_aggregator_settings_table;
    cJSON *list = cJSON_CreateArray();
    tern_settings_defaults(table, &defaults);
    for (size_t i = 0; i < table->count; i++) {
        cJSON *row = json_of(&table->table[i], settings, &defaults);
        if (is_accuracy(&table->table[i])) {
            const struct tern_spending_accuracies all = tern_spending_accuracies(cli, model);
            cJSON_AddItemToObject(row, "estimates", tern_spending_accuracies_json(&all));
        }
        cJSON_AddItemToArray(list, row);
    }
    return list;
}

// --- Serving

// Time for requests and replies under way when the service is told to stop.
#define GRACE_MS 5000

#define DAY_MS 86400000u

struct serving {
    struct tern_cli *cli;
    const struct tern_aggregator_settings *settings;
    struct tern_cli_serving made; // of the settings
    sigset_t signals;             // blocked in all threads
    bool stopped;                 // by one of them, before it listened
    int lock;                     // -1 = not opened
    struct tern_db *db;
    struct tern_db_federation federation;
    struct tern_model *model; // of the federation
    struct tern_relay *relay; // of a gateway
    struct tern_service *service;
    struct tern_self_check *check;
    struct tern_http_server *server;
    struct tern_manager manager;
    struct tern_shared_tickets *tickets; // NULL: nobody else has this database
    struct tern_leader_watch *watch;     // likewise
    struct tern_admin *admin;
    const char **tool_options; // for the verbs that the admin listener runs
};

// --- Starting, in order

// A service that has halted ends the program as a signal would; what waits for it is below.
static void end_program(void *ctx)
{
    (void)ctx;
    kill(getpid(), SIGTERM);
}

// Told before anything is started, with what makes up for it: a new federation has no certificate.
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
        "Name the file by server.%s, or make a certificate for this host:\n"
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

static void log_advice(const char *sentence)
{
    tern_log(TERN_LOG_WARN, "settings", "advice=%s", TERN_LOG_TEXT(sentence));
}

// What "default" came to.
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

static void log_need(const struct serving *serving, const struct tern_model *model)
{
    struct tern_disk_need need;
    char text[TERN_DISK_NEED_MAX];
    if (tern_disk_need_of(serving->settings, &serving->made.service.federation, model, serving->db,
                          &need) == TERN_OK &&
        tern_disk_need_is_short(&need, text)) {
        tern_log(TERN_LOG_WARN, "disk-small", "what=%s advice=%s", TERN_LOG_TEXT(text),
                 TERN_LOG_TEXT(TERN_DISK_NEED_ADVICE));
    }
}

static int read_model(struct serving *serving)
{
    const struct tern_db_federation *federation = &serving->federation;
    static struct tern_model model;
    enum tern_result result = tern_db_federation(serving->db, &serving->federation);
    if (result == TERN_OK) {
        result = tern_model_build(&model, federation->model_spec, federation->manifest,
                                  federation->manifest_len, federation->model_hash);
    }
    if (result != TERN_OK) {
        return TERN_EXIT_OK; // starting the service says better what is wrong
    }
    serving->model = &model;
    TERN_CLI_TRY(tern_cli_fit_serving(serving->cli, &model, federation->model_spec, log_advice,
                                      &serving->made));
    if (serving->relay != NULL) {
        tern_relay_adapt(serving->relay, &serving->made.service);
    }
    log_codecs(&serving->made.service.federation);
    log_need(serving, &model);
    const struct tern_spending spending =
        tern_spending_of(serving->settings, &serving->made.service.federation, &model);
    tern_spending_log(&spending);
    return TERN_EXIT_OK;
}

// Of several aggregators on one database this one takes a number, by which others tell it from all others.
static int join_others(struct serving *serving)
{
    struct tern_service_config *config = &serving->made.service;
    uint32_t number = 0;
    enum tern_result result = tern_random_fill(&number, sizeof number);
    TERN_CLI_TRY(tern_cli_check(serving->cli, result, "there are no random bytes"));
    config->node = number % TERN_DB_NODE_NUMBER_MAX + 1;
    result = tern_db_join_node(serving->db, config->node);
    TERN_CLI_TRY(tern_cli_check(serving->cli, result, "%s", tern_db_error(serving->db)));
    result = tern_leader_watch_start(tern_db_path(serving->db), config->node, &serving->watch);
    TERN_CLI_TRY(tern_cli_check(serving->cli, result, "there is no memory to watch who leads"));
    config->sharing = &tern_nodes_sharing;
    config->is_led = tern_leader_watch_is_led;
    config->led_ctx = serving->watch;
    return tern_shared_settings_check(serving->cli, serving->db);
}

// Where nobody leads yet, and two start at once, one of them follows.
static int lead_or_follow(struct serving *serving)
{
    struct tern_service_config *config = &serving->made.service;
    const bool shares = tern_state_is_postgres(serving->cli);
    TERN_CLI_TRY(shares ? join_others(serving) : TERN_EXIT_OK);
    if (!shares || !serving->settings->store_follow) {
        const struct tern_standby_ports ports = {.signals = &serving->signals};
        return tern_standby(serving->cli, serving->db, &ports, &serving->stopped);
    }
    enum tern_result result = TERN_OK;
    config->follows = tern_standby_is_led(serving->db, config->node);
    if (!config->follows) {
        result = tern_db_hold(serving->db);
        config->follows = result == TERN_ERR_STATE;
    }
    return tern_cli_check(serving->cli, config->follows ? TERN_OK : result, "%s",
                          tern_db_error(serving->db));
}

static bool is_upgraded(void *ctx)
{
    const struct serving *serving = ctx;
    return tern_db_take_upgraded(serving->db) == TERN_OK;
}

// An older program may lead until then; and another one of this version may be the first to lead after that, which is
// followed then.
static int stand_by_and_upgrade(struct serving *serving)
{
    const struct tern_standby_ports ports = {
        .signals = &serving->signals, .ends = is_upgraded, .ctx = serving};
    TERN_CLI_TRY(tern_standby(serving->cli, serving->db, &ports, &serving->stopped));
    if (serving->stopped || !tern_db_is_older(serving->db)) {
        return TERN_EXIT_OK;
    }
    TERN_CLI_TRY(tern_state_upgrade(serving->cli, serving->db));
    tern_log(TERN_LOG_INFO, "upgraded", "database=%s", TERN_LOG_TEXT(tern_db_path(serving->db)));
    return TERN_EXIT_OK;
}

static void report_settings(const struct serving *serving)
{
    if (serving->made.service.sharing != NULL) {
        tern_shared_settings_tell(serving->cli, serving->made.service.node);
    }
}

static int open_store(struct serving *serving)
{
    // The lock first: `restore` may be putting another file in the place of the database.
    if (serving->lock < 0) {
        TERN_CLI_TRY(tern_state_lock(serving->cli, &serving->lock));
    }
    TERN_CLI_TRY(tern_state_open_older(serving->cli, &serving->db));
    if (tern_db_is_older(serving->db)) {
        TERN_CLI_TRY(stand_by_and_upgrade(serving));
    }
    if (serving->stopped) {
        return TERN_EXIT_OK;
    }
    TERN_CLI_TRY(read_model(serving));
    TERN_CLI_TRY(check_files(serving));
    TERN_CLI_TRY(lead_or_follow(serving));
    if (serving->stopped) {
        return TERN_EXIT_OK;
    }
    TERN_CLI_TRY(tern_state_refuse_copied(serving->cli, serving->db, ""));
    report_settings(serving);
    return TERN_EXIT_OK;
}

static int start_service(struct serving *serving)
{
    char why[256];
    serving->made.service.on_halted = end_program;
    enum tern_result result =
        tern_service_start(&serving->made.service, serving->db, &serving->service, why);
    return tern_cli_check(serving->cli, result, "%s", why);
}

// Of a gateway: once devices may come.
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

static void note_check(void *ctx, uint64_t now_ms)
{
    const struct serving *serving = ctx;
    tern_service_set_checked(serving->service, now_ms);
}

static int start_check(struct serving *serving)
{
    char database[PATH_MAX];
    tern_state_database(serving->cli, database);
    const uint64_t made_ms = serving->federation.created_ms;
    const uint64_t checked_ms = serving->federation.checked_ms;
    const struct tern_self_check_config config = {
        .database = database,
        .interval_ms = serving->settings->server_check_interval,
        .last_ms = checked_ms > made_ms ? checked_ms : made_ms,
        .on_sound = note_check,
        .on_damaged = end_program,
        .ctx = serving,
    };
    tern_service_set_checked(serving->service, checked_ms);
    return tern_cli_check(serving->cli, tern_self_check_start(&config, &serving->check),
                          "there is no memory for the check of the database");
}

static int make_uploads(const struct serving *serving, char path[PATH_MAX])
{
    tern_state_path(serving->cli, TERN_STATE_UPLOADS, path);
    return tern_cli_check(serving->cli, tern_file_make_folders(path, 0700),
                          "the folder %s cannot be made: %s", path, strerror(errno));
}

// Of several aggregators on one database.
static int share_tickets(struct serving *serving, const struct tern_shared_tickets_config *config)
{
    if (!tern_db_is_url(config->database)) {
        return TERN_EXIT_OK;
    }
    const enum tern_result result = tern_shared_tickets_start(
        config, tern_http_ticket_keys(serving->server), &serving->tickets);
    return tern_cli_check(serving->cli, result, "there is no memory to share ticket keys");
}

static int start_listener(struct serving *serving)
{
    const struct tern_aggregator_settings *s = serving->settings;
    struct tern_cli_tls_files files;
    char ticket_keys[PATH_MAX];
    char ticket_clients[PATH_MAX];
    char folder[PATH_MAX];
    char why[256];
    tern_cli_tls_files(serving->cli, s, &files);
    tern_state_path(serving->cli, TERN_STATE_TICKET_KEYS, ticket_keys);
    tern_state_path(serving->cli, TERN_STATE_TICKET_CLIENTS, ticket_clients);
    TERN_CLI_TRY(make_uploads(serving, folder));
    const struct tern_shared_tickets_config shared = {
        .database = s->store_url, .private_key = files.private_key, .file = ticket_keys};
    if (tern_db_is_url(shared.database)) {
        tern_shared_tickets_begin(&shared);
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
                                      .limits = serving->made.limits};
    struct tern_http_handler handler = tern_service_handler(serving->service);
    enum tern_result result = tern_http_start(&config, &handler, &serving->server, why);
    TERN_CLI_TRY(tern_cli_check(serving->cli, result, "%s", why));
    return share_tickets(serving, &shared);
}

// A lost token is made anew: it is a secret of this machine, and nothing else depends on it.
static int find_token(struct serving *serving, char path[PATH_MAX])
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
    TERN_CLI_TRY(find_token(serving, token_file));
    struct tern_admin_config config = {.address = s->admin_address,
                                       .port = (uint16_t)s->admin_port,
                                       .token_file = token_file,
                                       .service = serving->service,
                                       .clients = serving->server};
    serving->tool_options = own_options(serving->cli);
    config.tool_options = serving->tool_options;
    enum tern_result result = tern_admin_start(&config, &serving->admin, why);
    if (result == TERN_OK) {
        tern_admin_set_settings(serving->admin, own_settings_json(serving->cli, serving->model));
    }
    return tern_cli_check(serving->cli, result, "admin: %s", why);
}

// A full disk must not keep the service from starting. The port of an earlier start must not stay in the file.
static enum tern_result write_port_on_full_disk(const char *path, const char *text, size_t len)
{
    enum tern_result result = tern_file_overwrite(path, text, len);
    if (result == TERN_OK) {
        return TERN_OK;
    }
    (void)unlink(path);
    result = tern_file_write(path, text, len, 0644); // with the room of the old one
    if (result == TERN_ERR_NO_SPACE) {
        tern_log(TERN_LOG_WARN, "no-port-file", "file=%s port=%.*s advice=%s", TERN_LOG_TEXT(path),
                 (int)len - 1, text,
                 TERN_LOG_TEXT("the disk is full: make room, then start the service anew, or name "
                               "a fixed port"));
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

// An IPv6 address stands in brackets in a URL.
static void print_address(const char *scheme, const char *address, uint16_t port)
{
    bool six = strchr(address, ':') != NULL;
    printf("%s://%s%s%s:%u", scheme, six ? "[" : "", address, six ? "]" : "", port);
}

// Behind a unix socket there is no address to enter: who has a proxy there knows its own.
static void announce_dashboard(const struct serving *serving)
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

static void announce(const struct serving *serving)
{
    const struct tern_aggregator_settings *s = serving->settings;
    printf("listening on ");
    print_address("https", s->server_address, tern_http_port(serving->server));
    if (serving->admin != NULL) {
        printf(", admin on ");
        if (strncmp(s->admin_address, "unix:", 5) == 0) {
            printf("%s", s->admin_address);
        } else {
            print_address("http", s->admin_address, tern_admin_port(serving->admin));
        }
    }
    printf("\n");
    announce_dashboard(serving);
    fflush(stdout);
}

static int start_all(struct serving *serving)
{
    struct tern_service_facts facts;
    const struct tern_aggregator_settings *s = serving->settings;
    TERN_CLI_TRY(tern_cli_read_serving(serving->cli, &serving->made));
    tern_cli_take_logging(&serving->made.logging);
    tern_log_keep();
    TERN_CLI_TRY(open_store(serving));
    if (serving->stopped) {
        return TERN_EXIT_OK;
    }
    TERN_CLI_TRY(start_service(serving));
    if (serving->model == NULL) { // a failure that passed before the service was started
        return tern_cli_fail(serving->cli, TERN_ERR_IO,
                             "the federation could not be read at the start, and can be read now: "
                             "start again");
    }
    tern_service_facts(serving->service, &facts);
    tern_cli_raise_file_limit(serving->cli, facts.federation.clients);
    tern_service_set_disk_needed(serving->service,
                                 tern_disk_need_bytes(s, &serving->made.service.federation,
                                                      serving->model, facts.federation.clients));
    TERN_CLI_TRY(serving->made.service.follows ? TERN_EXIT_OK : start_check(serving));
    TERN_CLI_TRY(start_listener(serving));
    TERN_CLI_TRY(start_admin(serving));
    TERN_CLI_TRY(start_relay(serving));
    tern_cli_log_certificate(serving->cli, serving->server);
    tern_cli_log_permissions(serving->cli);
    TERN_CLI_TRY(write_port(serving, s->server_port_file, tern_http_port(serving->server)));
    return serving->admin == NULL
               ? TERN_EXIT_OK
               : write_port(serving, s->admin_port_file, tern_admin_port(serving->admin));
}

// --- Stopping, in the opposite order: no request may come to a service that is gone

static void stop_all(struct serving *serving)
{
    if (serving->relay != NULL) {
        tern_relay_stop(serving->relay);
    }
    if (serving->service != NULL) {
        tern_service_quiesce(serving->service);
    }
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
    tern_leader_watch_stop(serving->watch);
    if (serving->db != NULL) {
        tern_db_close(serving->db);
    }
    if (serving->lock >= 0) {
        close(serving->lock);
    }
}

// Blocked in every thread, so that only sigwait() below sees them.
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

static void reload(struct serving *serving)
{
    const struct tern_cli_running running = {.server = serving->server,
                                             .service = serving->service,
                                             .check = serving->check,
                                             .model = serving->model,
                                             .model_spec = serving->federation.model_spec,
                                             .relay = serving->relay,
                                             .say = log_advice};
    tern_manager_reloading();
    tern_cli_reload(serving->cli, &running);
    report_settings(serving);
    if (serving->admin != NULL) {
        tern_admin_set_settings(serving->admin, own_settings_json(serving->cli, serving->model));
    }
    tern_manager_reloaded();
}

static void reload_following(void *ctx)
{
    reload(ctx);
}

static bool lives(void *ctx)
{
    struct serving *serving = ctx;
    return tern_manager_is_alive(&serving->manager);
}

// While another one leads; then this one does.
static int follow(struct serving *serving)
{
    const struct tern_standby_ports ports = {.signals = &serving->signals,
                                             .follows = true,
                                             .reload = reload_following,
                                             .lives = lives,
                                             .ctx = serving};
    serving->manager =
        (struct tern_manager){.service = serving->service, .server = serving->server};
    enum tern_result result = tern_db_set_follower(serving->db, true);
    TERN_CLI_TRY(tern_cli_check(serving->cli, result, "%s", tern_db_error(serving->db)));
    TERN_CLI_TRY(tern_standby(serving->cli, serving->db, &ports, &serving->stopped));
    if (serving->stopped) {
        return TERN_EXIT_OK;
    }
    TERN_CLI_TRY(tern_state_refuse_copied(serving->cli, serving->db, "")); // while it waited
    (void)!tern_db_set_follower(serving->db, false); // only who looks would see it
    tern_service_promote(serving->service);
    report_settings(serving);
    printf("leading\n");
    fflush(stdout);
    return start_check(serving);
}

// The certificate is looked at once a day, so that its end comes announced.
static void wait_for_stop(struct serving *serving)
{
    serving->manager =
        (struct tern_manager){.service = serving->service, .server = serving->server};
    const uint64_t wait_ms = tern_manager_wait_ms();
    const struct timespec wait = {.tv_sec = (time_t)(wait_ms / 1000),
                                  .tv_nsec = (long)(wait_ms % 1000 * 1000000)};
    uint64_t looked_ms = tern_monotonic_ms();
    int number = 0;
    tern_manager_ready(&serving->manager);
    while (number != SIGTERM && number != SIGINT) {
        number = sigtimedwait(&serving->signals, NULL, &wait);
        if (number == SIGHUP) {
            reload(serving);
        }
        if (tern_monotonic_ms() - looked_ms >= DAY_MS) {
            looked_ms = tern_monotonic_ms();
            tern_cli_log_certificate(serving->cli, serving->server);
        }
        tern_manager_report(&serving->manager);
    }
    tern_manager_stopping();
    tern_log(TERN_LOG_INFO, "stopping", "signal=%d", number);
}

// The reason to end with an error, if there is one.
static int last_code(const struct serving *serving)
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

// What init and serve would refuse of the settings alone.
static int check_settings(struct tern_cli *cli)
{
    static struct tern_starting_model start;
    struct serving serving = {.cli = cli, .settings = tern_state_settings(cli), .lock = -1};
    struct tern_db_federation federation = {.seed = serving.settings->federation_seed};
    int code = tern_cli_read_serving(cli, &serving.made);
    code = code == TERN_EXIT_OK
               ? tern_starting_model_make(cli, serving.settings->federation_model,
                                          serving.settings->tensors_rules, &start, &federation)
               : code;
    code = code == TERN_EXIT_OK ? tern_cli_fit_serving(cli, &start.model, federation.model_spec,
                                                       tern_cli_print_advice, &serving.made)
                                : code;
    tern_starting_model_free(&start);
    return code;
}

// Starts, and follows until this one leads.
static int start(struct serving *serving)
{
    TERN_CLI_TRY(start_all(serving));
    if (serving->stopped) {
        return TERN_EXIT_OK;
    }
    announce(serving);
    return serving->made.service.follows ? follow(serving) : TERN_EXIT_OK;
}

// PostgreSQL recovers from a crash in less.
#define REACH_MS 30000

// Whether PostgreSQL cannot be reached. why: the reason.
static bool is_unreached(const struct serving *serving, char why[256])
{
    struct tern_db *db = NULL;
    const enum tern_result result =
        tern_db_open(serving->settings->store_url, TERN_DB_HURRIED, &db, why);
    tern_db_close(db);
    return result == TERN_ERR_IO;
}

// After a start that failed: where PostgreSQL cannot be reached, stops what was started and waits for it, as an aggregator
// that runs does. False: something else is wrong, or it cannot be reached for REACH_MS.
static bool outwait_crash(struct serving *serving)
{
    const uint64_t until_ms = tern_monotonic_ms() + REACH_MS;
    const struct timespec pause = {.tv_sec = 1};
    char why[256] = "";
    if (serving->relay != NULL || !tern_state_is_postgres(serving->cli) ||
        !is_unreached(serving, why)) {
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
        is_away = is_unreached(serving, why);
    }
    return serving->stopped || !is_away;
}

// lock: of the state directory, -1 = not taken yet. Closes both.
static int serve(struct tern_cli *cli, struct tern_relay *relay, int lock)
{
    struct serving serving = {
        .cli = cli, .settings = tern_state_settings(cli), .lock = lock, .relay = relay};
    serving.signals = block_signals();
    int code = start(&serving);
    if (code == TERN_EXIT_FAILED && outwait_crash(&serving)) {
        code = serving.stopped ? TERN_EXIT_OK : start(&serving);
    }
    if (code == TERN_EXIT_OK && !serving.stopped) {
        wait_for_stop(&serving);
        code = last_code(&serving);
    }
    stop_all(&serving);
    return code;
}

int tern_cli_serve(struct tern_cli *cli)
{
    if (tern_cli_flag(cli, "check")) {
        return check_settings(cli);
    }
    // Its rounds would go on without the aggregator above, and what they learn would not get there.
    if (tern_gateway_is_one(cli)) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "%s is a gateway's: run it with tern-aggregator relay",
                             tern_state_settings(cli)->federation_state);
    }
    return serve(cli, NULL, -1);
}

int tern_cli_relay(struct tern_cli *cli)
{
    struct tern_relay *relay = NULL;
    int lock = -1;
    TERN_CLI_TRY(tern_gateway_check(cli));
    if (!tern_gateway_is_one(cli)) {
        return tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "%s is no gateway's: tern-aggregator join CODE makes one, with a code of "
            "the aggregator above",
            tern_state_settings(cli)->federation_state);
    }
    TERN_CLI_TRY(tern_gateway_check_joined(cli));
    TERN_CLI_TRY(tern_gateway_open(cli, &lock, &relay));
    return serve(cli, relay, lock);
}
