// tern-aggregator serve: settings into a service, a public listener and an admin listener, until a
// signal says stop.
#include "cli/verbs.h"

#include "admin/admin.h"
#include "cli/body_limit.h"
#include "cli/permissions.h"
#include "cli/reload.h"
#include "cli/service_advice.h"
#include "cli/service_config.h"
#include "cli/starting_model.h"
#include "cli/state.h"
#include "hosted/files.h"
#include "hosted/log.h"
#include "service/service.h"
#include "tensor/manifest.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

// Time for replies under way when the service is told to stop.
#define GRACE_MS 3000

struct serving {
    struct tern_cli *cli;
    const struct tern_aggregator_settings *settings;
    struct tern_service_config config;
    uint32_t body_bytes; // of a request
    int lock;            // -1 = not opened
    struct tern_db *db;
    struct tern_service *service;
    struct tern_http_server *server;
    struct tern_admin *admin;
};

// --- Starting, in order

// A service that has halted ends the program as a signal would; what waits for it is below.
static void end_program(void *ctx)
{
    (void)ctx;
    kill(getpid(), SIGTERM);
}

// A verb that looks whether a service runs holds the lock for a moment.
static bool take_lock(int fd)
{
    const struct timespec moment = {.tv_nsec = 20000000L};
    for (int i = 0; i < 5 && flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK) {
            return false;
        }
        nanosleep(&moment, NULL);
    }
    return flock(fd, LOCK_EX | LOCK_NB) == 0;
}

// Two services on one database would each go on from its own view of the round. The lock ends with
// the process, however it ends; the file stays.
static int lock_state(struct serving *serving)
{
    char path[PATH_MAX];
    tern_state_path(serving->cli, TERN_STATE_LOCK, path);
    serving->lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (serving->lock >= 0 && take_lock(serving->lock)) {
        return TERN_EXIT_OK;
    }
    if (serving->lock >= 0 && errno == EWOULDBLOCK) {
        return tern_cli_fail(serving->cli, TERN_ERR_STATE,
                             "%s is served by another process; stop that one first, or give this "
                             "one a state directory of its own (federation.state)",
                             serving->settings->federation_state);
    }
    return tern_cli_fail(serving->cli, TERN_ERR_IO, "%s cannot be locked: %s", path,
                         strerror(errno));
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

// What the settings say of this model.
static int fit_to_model(struct serving *serving, const struct tern_model *model, const char *spec,
                        tern_cli_say say)
{
    struct tern_federation_config *config = &serving->config.federation;
    TERN_CLI_TRY(tern_cli_fill_for_model(serving->cli, serving->settings, model->count, config));
    TERN_CLI_TRY(
        tern_cli_body_limit(serving->cli, &config->codec_up, model, spec, &serving->body_bytes));
    tern_cli_advise(serving->settings, config, say);
    return TERN_EXIT_OK;
}

// What "default" came to.
static void log_codecs(const struct tern_federation_config *config)
{
    char up[TERN_CODEC_SPEC_MAX];
    char down[TERN_CODEC_SPEC_MAX];
    tern_codec_format(&config->codec_up, up);
    tern_codec_format(&config->downloads.codec, down);
    tern_log(TERN_LOG_INFO, "codecs", "up=%s down=%s residual=%g", up, down,
             config->downloads.residual);
}

static int read_model(struct serving *serving)
{
    struct tern_db_federation federation;
    static struct tern_model model;
    enum tern_result result = tern_db_federation(serving->db, &federation);
    if (result == TERN_OK) {
        result = tern_model_build(&model, federation.model_spec, federation.manifest,
                                  federation.manifest_len, federation.model_hash);
    }
    if (result != TERN_OK) {
        return TERN_EXIT_OK; // starting the service says better what is wrong
    }
    TERN_CLI_TRY(fit_to_model(serving, &model, federation.model_spec, log_advice));
    log_codecs(&serving->config.federation);
    return TERN_EXIT_OK;
}

static int open_store(struct serving *serving)
{
    char why[256];
    TERN_CLI_TRY(tern_state_open(serving->cli, &serving->db));
    TERN_CLI_TRY(lock_state(serving));
    TERN_CLI_TRY(read_model(serving));
    TERN_CLI_TRY(check_files(serving));
    serving->config.on_halted = end_program;
    enum tern_result result =
        tern_service_start(&serving->config, serving->db, &serving->service, why);
    return tern_cli_check(serving->cli, result, "%s", why);
}

static struct tern_http_limits http_limits(const struct serving *serving)
{
    const struct tern_aggregator_settings *s = serving->settings;
    return (struct tern_http_limits){
        .connections = s->limits_connections,
        .connections_per_address = s->limits_connections_per_address,
        .header_bytes = s->limits_header_bytes,
        .body_bytes = serving->body_bytes,
        .body_memory = s->limits_body_memory,
        .body_disk = s->limits_body_disk,
        .handshake_ms = (uint32_t)s->limits_handshake,
        .request_ms = (uint32_t)s->limits_request,
        .min_rate = s->limits_min_rate,
        .idle_ms = (uint32_t)s->limits_idle,
        .write_ms = (uint32_t)s->limits_write,
    };
}

static int start_listener(struct serving *serving)
{
    const struct tern_aggregator_settings *s = serving->settings;
    char certificate[PATH_MAX];
    char private_key[PATH_MAX];
    char ticket_keys[PATH_MAX];
    char folder[PATH_MAX];
    char why[256];
    tern_state_file(serving->cli, s->server_certificate, TERN_STATE_CERTIFICATE, certificate);
    tern_state_file(serving->cli, s->server_private_key, TERN_STATE_PRIVATE_KEY, private_key);
    tern_state_path(serving->cli, TERN_STATE_TICKET_KEYS, ticket_keys);
    tern_state_path(serving->cli, "", folder);
    struct tern_http_config config = {.address = s->server_address,
                                      .port = (uint16_t)s->server_port,
                                      .threads = s->server_threads,
                                      .certificate = certificate,
                                      .private_key = private_key,
                                      .ticket_keys = ticket_keys,
                                      .spool_folder = folder,
                                      .limits = http_limits(serving)};
    struct tern_http_handler handler = tern_service_handler(serving->service);
    enum tern_result result = tern_http_start(&config, &handler, &serving->server, why);
    return tern_cli_check(serving->cli, result, "%s", why);
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
    enum tern_result result = tern_admin_start(&config, &serving->admin, why);
    return tern_cli_check(serving->cli, result, "admin: %s", why);
}

static int write_port(const struct serving *serving, const char *path, uint16_t port)
{
    char text[8];
    if (path[0] == '\0') {
        return TERN_EXIT_OK;
    }
    int len = snprintf(text, sizeof text, "%u\n", port);
    enum tern_result result = tern_file_write(path, text, (size_t)len, 0644);
    return tern_cli_check(serving->cli, result, "%s cannot be written", path);
}

// An IPv6 address stands in brackets in a URL.
static void print_address(const char *scheme, const char *address, uint16_t port)
{
    bool six = strchr(address, ':') != NULL;
    printf("%s://%s%s%s:%u", scheme, six ? "[" : "", address, six ? "]" : "", port);
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
    fflush(stdout);
}

static int start_all(struct serving *serving)
{
    const struct tern_aggregator_settings *s = serving->settings;
    TERN_CLI_TRY(tern_cli_fill_service(serving->cli, s, &serving->config));
    TERN_CLI_TRY(tern_cli_set_log_level(serving->cli));
    TERN_CLI_TRY(open_store(serving));
    TERN_CLI_TRY(start_listener(serving));
    TERN_CLI_TRY(start_admin(serving));
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
    if (serving->service != NULL) {
        tern_service_quiesce(serving->service);
    }
    tern_admin_stop(serving->admin, GRACE_MS);
    if (serving->server != NULL) {
        tern_http_stop(serving->server, GRACE_MS);
    }
    if (serving->service != NULL) {
        tern_service_stop(serving->service);
    }
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

// The certificate is looked at once a day, so that its end comes announced.
static void wait_for_stop(struct serving *serving, const sigset_t *set)
{
    const struct timespec day = {.tv_sec = 86400};
    int number = 0;
    while (number != SIGTERM && number != SIGINT) {
        number = sigtimedwait(set, NULL, &day);
        if (number == SIGHUP) {
            tern_cli_reload(serving->cli, serving->server);
        } else if (number < 0 && errno == EAGAIN) {
            tern_cli_log_certificate(serving->cli, serving->server);
        }
    }
    tern_log(TERN_LOG_INFO, "stopping", "signal=%d", number);
}

// The reason to end with an error, if there is one.
static int last_code(const struct serving *serving)
{
    char why[256];
    if (!tern_service_halted(serving->service, why)) {
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
    int code = tern_cli_fill_service(cli, serving.settings, &serving.config);
    code = code == TERN_EXIT_OK
               ? tern_starting_model_make(cli, serving.settings->federation_model,
                                          serving.settings->tensors_rules, &start, &federation)
               : code;
    code = code == TERN_EXIT_OK
               ? fit_to_model(&serving, &start.model, federation.model_spec, tern_cli_print_advice)
               : code;
    tern_starting_model_free(&start);
    return code;
}

int tern_cli_serve(struct tern_cli *cli)
{
    if (tern_cli_flag(cli, "check")) {
        return check_settings(cli);
    }
    struct serving serving = {.cli = cli, .settings = tern_state_settings(cli), .lock = -1};
    sigset_t signals = block_signals();
    int code = start_all(&serving);
    if (code == TERN_EXIT_OK) {
        announce(&serving);
        wait_for_stop(&serving, &signals);
        code = last_code(&serving);
    }
    stop_all(&serving);
    return code;
}
