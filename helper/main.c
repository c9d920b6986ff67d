// tern-helper: adds the masks of secure rounds for aggregators of other operators. Its command line.
#include "helper/ledger.h"
#include "helper/service.h"
#include "hosted/cli.h"
#include "hosted/files.h"
#include "hosted/host.h"
#include "hosted/log.h"
#include "hosted/settings.h"
#include "hosted/system.h"
#include "hosted/terminal.h"
#include "secure/round.h"
#include "secure/secret.h"
#include "util/bytes.h"
#include "util/join_code.h"
#include "util/text.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct tern_helper_settings {
#include "hosted/setting_fields.def"

#include "helper/settings.def"

#include "hosted/setting_rows_end.def"
} settings;

#define TERN_SETTINGS_STRUCT struct tern_helper_settings
#include "hosted/setting_rows.h"

static const struct tern_setting setting_rows[] = {
#include "helper/settings.def"
};

static const struct tern_settings settings_table =
    TERN_SETTINGS("tern-helper", setting_rows, tern_settings_sections);

#define LEDGER_FILE "helper.db"
#define CERTIFICATE_FILE "server.crt"
#define PRIVATE_KEY_FILE "server.key"
#define TICKET_KEYS_FILE "ticket.keys"
#define DAY_MS UINT64_C(86400000)

static void state_path(const char *configured, const char *name, char path[PATH_MAX])
{
    if (configured[0] != '\0') {
        snprintf(path, PATH_MAX, "%s", configured);
    } else {
        snprintf(path, PATH_MAX, "%s/%s", settings.helper_state_dir, name);
    }
}

// --- The ledger

// Opens the ledger in the state directory. Prints an error and returns an exit code.
static int open_ledger(struct tern_cli *cli, struct tern_ledger **ledger)
{
    char path[PATH_MAX];
    char why[TERN_LEDGER_WHY_MAX];
    state_path("", LEDGER_FILE, path);
    return tern_cli_check(cli, tern_ledger_open(path, ledger, why), "%s", why);
}

static int report(struct tern_cli *cli, const struct tern_ledger *ledger, enum tern_result result)
{
    return tern_cli_check(cli, result, "the ledger %s/" LEDGER_FILE " failed: %s",
                          settings.helper_state_dir, tern_ledger_why(ledger));
}

// Ends a transaction, closes the ledger and reports a failure.
static int conclude(struct tern_cli *cli, struct tern_ledger *ledger, enum tern_result result)
{
    if (result == TERN_OK) {
        result = tern_ledger_commit(ledger);
    }
    if (result != TERN_OK) {
        tern_ledger_rollback(ledger);
    }
    const int code = report(cli, ledger, result);
    tern_ledger_close(ledger);
    return code;
}

static int find_federation(struct tern_cli *cli, struct tern_ledger *ledger, const char *name,
                           struct tern_ledger_federation *federation)
{
    const enum tern_result result = tern_ledger_federation_named(ledger, name, federation);
    if (result == TERN_ERR_NOT_FOUND) {
        return tern_cli_fail(cli, result,
                             "there is no federation '%s'; `tern-helper status` lists them", name);
    }
    return report(cli, ledger, result);
}

// Opens the ledger, begins a transaction and finds the federation of the first argument.
static int begin_with_federation(struct tern_cli *cli, struct tern_ledger **ledger,
                                 struct tern_ledger_federation *federation)
{
    TERN_CLI_TRY(open_ledger(cli, ledger));
    int code = report(cli, *ledger, tern_ledger_begin(*ledger));
    code =
        code == TERN_EXIT_OK ? find_federation(cli, *ledger, cli->arguments[0], federation) : code;
    if (code != TERN_EXIT_OK) {
        tern_ledger_rollback(*ledger);
        tern_ledger_close(*ledger);
    }
    return code;
}

// --- init

#define PUBLIC_TEXT (TERN_BASE64URL_LENGTH(TERN_P256_PUBLIC_SIZE) + 1)

// Draws a private key that is below the group's order, as all but one of 2^32 are.
static enum tern_result draw_signing_key(uint8_t private_key[TERN_SECRET_SIZE],
                                         char public_text[PUBLIC_TEXT])
{
    uint8_t public_key[TERN_P256_PUBLIC_SIZE];
    enum tern_result result = tern_secret_start();
    for (bool drawn = false; result == TERN_OK && !drawn;) {
        TERN_TRY(tern_random_fill(private_key, TERN_SECRET_SIZE));
        result = tern_p256_public(private_key, public_key);
        drawn = result == TERN_OK;
        result = result == TERN_ERR_ARGUMENT ? TERN_OK : result;
    }
    TERN_TRY(result);
    tern_base64url_encode(public_key, sizeof public_key, public_text);
    return TERN_OK;
}

static int print_made(struct tern_cli *cli, const char *public_text)
{
    if (cli->json) {
        cJSON *made = cJSON_CreateObject();
        cJSON_AddStringToObject(made, "state_dir", settings.helper_state_dir);
        cJSON_AddStringToObject(made, "public_key", public_text);
        return tern_json_print(cli, made);
    }
    printf(
        "Made %s with a new signing key. Its public key, for the devices and the aggregator:\n\n"
        "  %s\n\n"
        "Set secure.helper_key to it in client.ini of each device and in aggregator.ini. Devices\n"
        "must get it from you, not from the aggregator. Next steps:\n"
        "  tern-helper federation add NAME    a token for the aggregator (secure.token)\n"
        "  tern-helper code NAME              a join code for a device (secure.code)\n"
        "  tern-helper serve                  with server.crt and server.key in %s\n",
        settings.helper_state_dir, public_text, settings.helper_state_dir);
    return TERN_EXIT_OK;
}

static int verb_init(struct tern_cli *cli)
{
    char path[PATH_MAX];
    char why[TERN_LEDGER_WHY_MAX];
    char public_text[PUBLIC_TEXT];
    uint8_t key[TERN_SECRET_SIZE];
    enum tern_result result = tern_file_make_folders(settings.helper_state_dir, 0700);
    TERN_CLI_TRY(tern_cli_check(cli, result, "the directory %s cannot be made: %s",
                                settings.helper_state_dir, strerror(errno)));
    TERN_CLI_TRY(tern_cli_check(cli, draw_signing_key(key, public_text), "no key can be made"));
    state_path("", LEDGER_FILE, path);
    result = tern_ledger_create(path, key, tern_unix_ms(), why);
    tern_secret_erase(key, sizeof key);
    if (result == TERN_ERR_CONFLICT) {
        return tern_cli_fail(cli, TERN_ERR_STATE,
                             "%s exists already, and has a signing key that devices rely on; init "
                             "never changes it",
                             path);
    }
    TERN_CLI_TRY(tern_cli_check(cli, result, "%s", why));
    return print_made(cli, public_text);
}

// --- serve

struct serving {
    struct tern_helper *helper;
    struct tern_http_server *server;
    struct tern_http_files files;
    char certificate[PATH_MAX];
    char private_key[PATH_MAX];
    char ticket_keys[PATH_MAX];
};

#define GRACE_MS 5000 // longest time that a stopping helper gives requests and replies under way

static int check_file(struct tern_cli *cli, const char *what, const char *key, const char *path)
{
    if (access(path, R_OK) == 0) {
        return TERN_EXIT_OK;
    }
    return tern_cli_fail(
        cli, TERN_ERR_CONFIG,
        "the %s %s cannot be read: %s\n"
        "Set helper.%s to the file, or make a certificate for this host:\n"
        "  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 \\\n"
        "    -subj /CN=localhost -addext subjectAltName=DNS:localhost \\\n"
        "    -keyout %s/" PRIVATE_KEY_FILE " -out %s/" CERTIFICATE_FILE,
        what, path, strerror(errno), key, settings.helper_state_dir, settings.helper_state_dir);
}

static int start_listener(struct tern_cli *cli, struct serving *serving)
{
    char why[256];
    state_path(settings.helper_certificate, CERTIFICATE_FILE, serving->certificate);
    state_path(settings.helper_private_key, PRIVATE_KEY_FILE, serving->private_key);
    state_path("", TICKET_KEYS_FILE, serving->ticket_keys);
    TERN_CLI_TRY(check_file(cli, "certificate", "certificate", serving->certificate));
    TERN_CLI_TRY(check_file(cli, "private key", "private_key", serving->private_key));
    serving->files.certificate = serving->certificate;
    serving->files.private_key = serving->private_key;
    const struct tern_http_config config = {
        .address = settings.helper_address,
        .port = (uint16_t)settings.helper_port,
        .threads = 1, // more would wait for the one thread of the service
        .files = serving->files,
        .ticket_keys = serving->ticket_keys};
    const struct tern_http_handler handler = tern_helper_handler(serving->helper);
    return tern_cli_check(cli, tern_http_start(&config, &handler, &serving->server, why), "%s",
                          why);
}

static int write_port_file(struct tern_cli *cli, uint16_t port)
{
    char text[16];
    const int len = snprintf(text, sizeof text, "%u\n", (unsigned)port);
    if (settings.helper_port_file[0] == '\0') {
        return TERN_EXIT_OK;
    }
    const enum tern_result result =
        tern_file_write(settings.helper_port_file, text, (size_t)len, 0644);
    return tern_cli_check(cli, result, "helper.port_file: %s cannot be written: %s",
                          settings.helper_port_file, strerror(errno));
}

static int start_serving(struct tern_cli *cli, struct serving *serving)
{
    char path[PATH_MAX];
    char why[TERN_HELPER_WHY_MAX];
    state_path("", LEDGER_FILE, path);
    const struct tern_helper_config config = {.ledger = path,
                                              .min_clients = settings.helper_min_clients,
                                              .epoch_ms = settings.helper_epoch};
    TERN_CLI_TRY(tern_cli_check(cli, tern_helper_start(&config, &serving->helper, why), "%s", why));
    TERN_CLI_TRY(start_listener(cli, serving));
    const uint16_t port = tern_http_port(serving->server);
    TERN_CLI_TRY(write_port_file(cli, port));
    if (settings.helper_min_clients < TERN_SECURE_MIN_CLIENTS) {
        tern_log(TERN_LOG_WARN, "weak-min-clients",
                 "min_clients=%" PRIu32 " advice=\"a sum of fewer than %d devices protects each of "
                 "them little; raise helper.min_clients outside of tests\"",
                 settings.helper_min_clients, TERN_SECURE_MIN_CLIENTS);
    }
    tern_log(TERN_LOG_INFO, "listening", "address=%s port=%u min_clients=%" PRIu32,
             TERN_LOG_TEXT(tern_http_address(serving->server)), (unsigned)port,
             settings.helper_min_clients);
    tern_notify("READY=1\n");
    return TERN_EXIT_OK;
}

static void reload(struct serving *serving)
{
    char why[256] = "";
    const enum tern_result result = tern_http_reload_files(serving->server, &serving->files, why);
    tern_log(result == TERN_OK ? TERN_LOG_INFO : TERN_LOG_ERROR,
             result == TERN_OK ? "certificate-reloaded" : "certificate-unchanged", "detail=%s",
             TERN_LOG_TEXT(why));
}

// Waits for SIGTERM or SIGINT; SIGHUP reads the certificate again. signals: blocked in all threads.
static void wait_for_end(struct serving *serving, const sigset_t *signals)
{
    int number = 0;
    while (number != SIGTERM && number != SIGINT) {
        number = sigwaitinfo(signals, NULL);
        if (number == SIGHUP) {
            reload(serving);
        }
    }
    tern_log(TERN_LOG_INFO, "stopping", "signal=%s", number == SIGTERM ? "SIGTERM" : "SIGINT");
}

static int verb_serve(struct tern_cli *cli)
{
    struct serving serving = {.helper = NULL};
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    tern_log_set_level(tern_log_level_named(settings.helper_log));
    tern_log_set_format(tern_log_format_named(settings.helper_log_format));
    const int code = start_serving(cli, &serving);
    if (code == TERN_EXIT_OK) {
        wait_for_end(&serving, &signals);
    }
    tern_notify("STOPPING=1\n");
    if (serving.server != NULL) {
        tern_http_stop(serving.server, GRACE_MS);
    }
    if (serving.helper != NULL) {
        tern_helper_stop(serving.helper);
    }
    return code;
}

// --- federation

// Names are parts of log lines and file names: letters, digits, hyphens and underscores.
static bool is_name(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    const size_t len = strlen(name);
    return len > 0 && len < TERN_FEDERATION_NAME_MAX && strspn(name, allowed) == len;
}

// Adds the federation, or replaces the token of the one that exists.
static enum tern_result store_token(struct tern_ledger *ledger, bool adds, const char *name,
                                    const uint8_t hash[TERN_SHA256_SIZE])
{
    struct tern_ledger_federation federation = {.id = 0};
    TERN_TRY(tern_ledger_begin(ledger));
    const enum tern_result found = tern_ledger_federation_named(ledger, name, &federation);
    if (!adds) {
        return found == TERN_OK ? tern_ledger_set_token(ledger, &federation, hash, tern_unix_ms())
                                : found;
    }
    if (found != TERN_ERR_NOT_FOUND) {
        return found == TERN_OK ? TERN_ERR_CONFLICT : found;
    }
    snprintf(federation.name, sizeof federation.name, "%s", name);
    memcpy(federation.token_hash, hash, TERN_SHA256_SIZE);
    return tern_ledger_add_federation(ledger, &federation, tern_unix_ms());
}

static int print_token(struct tern_cli *cli, const char *name, const char *token)
{
    if (cli->json) {
        cJSON *made = cJSON_CreateObject();
        cJSON_AddStringToObject(made, "federation", name);
        cJSON_AddStringToObject(made, "token", token);
        return tern_json_print(cli, made);
    }
    printf("%s\n", token);
    fprintf(
        stderr,
        "The token of federation %s, for the file secure.token of its aggregator. It is not shown "
        "again;\n`tern-helper federation token %s` replaces it.\n",
        name, name);
    return TERN_EXIT_OK;
}

static int refuse_name(struct tern_cli *cli, enum tern_result result, const char *name)
{
    return result == TERN_ERR_CONFLICT
               ? tern_cli_fail(cli, TERN_ERR_STATE,
                               "federation %s exists already; `tern-helper federation token %s` "
                               "replaces its token",
                               name, name)
               : tern_cli_fail(cli, result,
                               "there is no federation %s; `tern-helper federation add %s` adds it",
                               name, name);
}

static int verb_federation(struct tern_cli *cli)
{
    const bool adds = strcmp(cli->arguments[0], "add") == 0;
    const char *name = cli->arguments[1];
    char token[TERN_HELPER_TOKEN_TEXT];
    uint8_t hash[TERN_SHA256_SIZE];
    struct tern_ledger *ledger = NULL;
    if (!adds && strcmp(cli->arguments[0], "token") != 0) {
        return tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "'%s' is not known; write federation add NAME or federation token NAME",
            cli->arguments[0]);
    }
    if (!is_name(name)) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "a federation's name has 1 to %d letters, digits, hyphens and "
                             "underscores",
                             TERN_FEDERATION_NAME_MAX - 1);
    }
    TERN_CLI_TRY(open_ledger(cli, &ledger));
    enum tern_result result = tern_helper_make_token(token, hash);
    result = result == TERN_OK ? store_token(ledger, adds, name, hash) : result;
    if (result == TERN_ERR_CONFLICT || result == TERN_ERR_NOT_FOUND) {
        tern_ledger_rollback(ledger);
        tern_ledger_close(ledger);
        return refuse_name(cli, result, name);
    }
    TERN_CLI_TRY(conclude(cli, ledger, result));
    return print_token(cli, name, token);
}

// --- renew

// Begins two epochs, after which the ledger has no key and no secret of the epochs before.
static enum tern_result renew(struct tern_ledger *ledger,
                              const struct tern_ledger_federation *federation, uint64_t *number)
{
    struct tern_ledger_epoch epoch = {.epoch = 0};
    const enum tern_result found = tern_ledger_newest_epoch(ledger, federation->id, &epoch);
    if (found != TERN_OK && found != TERN_ERR_NOT_FOUND) {
        return found;
    }
    TERN_TRY(tern_secret_start());
    const struct tern_helper_time time = {tern_unix_ms(), settings.helper_epoch};
    TERN_TRY(tern_helper_begin_epoch(ledger, federation, time, &epoch));
    TERN_TRY(tern_helper_begin_epoch(ledger, federation, time, &epoch));
    *number = epoch.epoch;
    tern_secret_erase(&epoch, sizeof epoch);
    return TERN_OK;
}

static int verb_renew(struct tern_cli *cli)
{
    struct tern_ledger *ledger = NULL;
    struct tern_ledger_federation federation;
    uint64_t epoch = 0;
    TERN_CLI_TRY(begin_with_federation(cli, &ledger, &federation));
    const enum tern_result result = renew(ledger, &federation, &epoch);
    TERN_CLI_TRY(conclude(cli, ledger, result));
    if (cli->json) {
        cJSON *made = cJSON_CreateObject();
        cJSON_AddStringToObject(made, "federation", federation.name);
        cJSON_AddNumberToObject(made, "epoch", (double)epoch);
        return tern_json_print(cli, made);
    }
    printf("Federation %s is in epoch %" PRIu64
           ". All earlier keys and secrets are erased; the open "
           "round\nis abandoned, and devices seal new tickets with their codes.\n",
           federation.name, epoch);
    return TERN_EXIT_OK;
}

// --- code

#define TIME_TEXT 32

static const char *time_text(uint64_t unix_ms, char text[TIME_TEXT])
{
    const time_t seconds = (time_t)(unix_ms / 1000);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    strftime(text, TIME_TEXT, "%Y-%m-%d %H:%M:%S UTC", &parts);
    return text;
}

static int take_code_options(struct tern_cli *cli, struct tern_ledger_code *code)
{
    const char *label = tern_cli_option(cli, "label", "");
    uint64_t uses;
    uint64_t expires;
    if (strlen(label) >= sizeof code->label || !tern_utf8_is_text(label, strlen(label))) {
        return tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "--label must be text of at most %zu bytes, without control characters",
            sizeof code->label - 1);
    }
    if (tern_cli_number(cli, "uses", 1, 1, 1000000, &uses) != TERN_OK ||
        tern_cli_duration(cli, "expires", 7 * DAY_MS, 1000, 3650 * DAY_MS, &expires) != TERN_OK) {
        return TERN_EXIT_USAGE;
    }
    memcpy(code->label, label, strlen(label) + 1);
    code->uses_left = (uint32_t)uses;
    code->expires_ms = tern_unix_ms() + expires;
    return TERN_EXIT_OK;
}

static int print_code(struct tern_cli *cli, const struct tern_ledger_federation *federation,
                      const struct tern_ledger_code *code, const char *text)
{
    char until[TIME_TEXT];
    if (cli->json) {
        cJSON *made = cJSON_CreateObject();
        cJSON_AddStringToObject(made, "federation", federation->name);
        cJSON_AddStringToObject(made, "code", text);
        cJSON_AddNumberToObject(made, "id", code->id);
        cJSON_AddNumberToObject(made, "uses", code->uses_left);
        cJSON_AddNumberToObject(made, "expires_ms", (double)code->expires_ms);
        return tern_json_print(cli, made);
    }
    printf("%s\n", text);
    fprintf(stderr,
            "Code %" PRIu32 " of federation %s admits %" PRIu32
            " device%s until %s. Set secure.code "
            "to it\non the device. It is not shown again, and the aggregator must not have it.\n",
            code->id, federation->name, code->uses_left, code->uses_left == 1 ? "" : "s",
            time_text(code->expires_ms, until));
    return TERN_EXIT_OK;
}

static int verb_code(struct tern_cli *cli)
{
    char text[TERN_JOIN_CODE_TEXT];
    struct tern_ledger *ledger = NULL;
    struct tern_ledger_federation federation;
    struct tern_ledger_code code = {.id = 0};
    TERN_CLI_TRY(take_code_options(cli, &code));
    TERN_CLI_TRY(begin_with_federation(cli, &ledger, &federation));
    enum tern_result result = tern_helper_make_code(text, code.hash);
    if (result == TERN_OK) {
        result = tern_ledger_add_code(ledger, &federation, &code, tern_unix_ms());
    }
    TERN_CLI_TRY(conclude(cli, ledger, result));
    return print_code(cli, &federation, &code, text);
}

// --- revoke

static int report_revoked(struct tern_cli *cli, const char *what, uint64_t id, uint32_t clients)
{
    if (cli->json) {
        cJSON *object = cJSON_CreateObject();
        cJSON_AddNumberToObject(object, what, (double)id);
        cJSON_AddNumberToObject(object, "revoked", clients);
        return tern_json_print(cli, object);
    }
    printf("%s%" PRIu32
           " client%s revoked: no further sum has %s masks. To admit a device again, give "
           "it a new code.\n",
           strcmp(what, "code") == 0 ? "The code is cancelled. " : "", clients,
           clients == 1 ? " is" : "s are", clients == 1 ? "its" : "their");
    return TERN_EXIT_OK;
}

// Reads which client or code the command line names.
static int read_revoked(struct tern_cli *cli, bool *is_code, uint64_t *id)
{
    const char *text = cli->argument_count > 1 ? cli->arguments[1] : "";
    *is_code = tern_cli_flag(cli, "code");
    if (*is_code == (cli->argument_count > 1)) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "revoke takes FEDERATION CLIENT, or FEDERATION --code ID");
    }
    if (*is_code) {
        return tern_cli_number(cli, "code", 0, 1, UINT32_MAX, id) == TERN_OK ? TERN_EXIT_OK
                                                                             : TERN_EXIT_USAGE;
    }
    if (*tern_get_decimal(text, id) != '\0' || *id == 0 || *id > INT64_MAX) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "'%s' is not the id of a client; `tern-helper log` lists them", text);
    }
    return TERN_EXIT_OK;
}

static int verb_revoke(struct tern_cli *cli)
{
    bool is_code = false;
    uint64_t id = 0;
    uint32_t clients = 1;
    struct tern_ledger *ledger = NULL;
    struct tern_ledger_federation federation;
    TERN_CLI_TRY(read_revoked(cli, &is_code, &id));
    TERN_CLI_TRY(begin_with_federation(cli, &ledger, &federation));
    const enum tern_result result =
        is_code
            ? tern_ledger_cancel_code(ledger, &federation, (uint32_t)id, tern_unix_ms(), &clients)
            : tern_ledger_revoke(ledger, &federation, id, tern_unix_ms());
    if (result == TERN_ERR_NOT_FOUND) {
        tern_ledger_rollback(ledger);
        tern_ledger_close(ledger);
        return tern_cli_fail(cli, result,
                             "federation %s has no %s %" PRIu64 "; `tern-helper log` lists them",
                             federation.name, is_code ? "code" : "client", id);
    }
    TERN_CLI_TRY(conclude(cli, ledger, result));
    return report_revoked(cli, is_code ? "code" : "client", id, clients);
}

// --- release

static int verb_release(struct tern_cli *cli)
{
    uint64_t round = 0;
    struct tern_ledger *ledger = NULL;
    struct tern_ledger_federation federation;
    if (*tern_get_decimal(cli->arguments[1], &round) != '\0' || round == 0 || round > UINT32_MAX) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "'%s' is not the number of a round",
                             cli->arguments[1]);
    }
    TERN_CLI_TRY(begin_with_federation(cli, &ledger, &federation));
    const enum tern_result result =
        tern_ledger_release(ledger, &federation, (uint32_t)round, tern_unix_ms());
    if (result == TERN_ERR_NOT_FOUND) {
        tern_ledger_rollback(ledger);
        tern_ledger_close(ledger);
        return tern_cli_fail(cli, result,
                             "round %" PRIu64 " of federation %s was not answered; `tern-helper "
                             "log` lists the answered ones",
                             round, federation.name);
    }
    TERN_CLI_TRY(conclude(cli, ledger, result));
    if (cli->json) {
        cJSON *object = cJSON_CreateObject();
        cJSON_AddStringToObject(object, "federation", federation.name);
        cJSON_AddNumberToObject(object, "round", (double)round);
        return tern_json_print(cli, object);
    }
    printf("Later lists of federation %s are no longer compared with that of round %" PRIu64 ".\n",
           federation.name, round);
    return TERN_EXIT_OK;
}

// --- status

#define HEAD_TEXT (TERN_BASE64URL_LENGTH(TERN_SHA256_SIZE) + 1)

// One federation's row of status.
struct status_row {
    struct tern_ledger_federation federation;
    struct tern_ledger_epoch epoch; // newest epoch; number 0: no epoch has begun
    struct tern_ledger_figures figures;
    uint32_t codes; // join codes that can admit devices
};

static enum tern_result count_codes(struct tern_ledger *ledger, struct status_row *row)
{
    struct tern_ledger_code code = {.id = 0};
    enum tern_result result;
    while ((result = tern_ledger_next_code(ledger, row->federation.id, code.id, &code)) ==
           TERN_OK) {
        row->codes += !code.cancelled && code.uses_left > 0 && code.expires_ms > tern_unix_ms();
    }
    return result == TERN_ERR_NOT_FOUND ? TERN_OK : result;
}

static enum tern_result read_row(struct tern_ledger *ledger, struct status_row *row)
{
    const enum tern_result found =
        tern_ledger_newest_epoch(ledger, row->federation.id, &row->epoch);
    tern_secret_erase(row->epoch.private_key, sizeof row->epoch.private_key);
    if (found != TERN_OK && found != TERN_ERR_NOT_FOUND) {
        return found;
    }
    TERN_TRY(count_codes(ledger, row));
    return tern_ledger_figures(ledger, row->federation.id, &row->figures);
}

static void add_row_json(cJSON *list, const struct status_row *row)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", row->federation.name);
    cJSON_AddNumberToObject(object, "epoch", (double)row->epoch.epoch);
    cJSON_AddNumberToObject(object, "clients", row->figures.clients);
    cJSON_AddNumberToObject(object, "revoked", row->figures.revoked);
    cJSON_AddNumberToObject(object, "tickets", row->figures.tickets);
    cJSON_AddNumberToObject(object, "codes", row->codes);
    cJSON_AddNumberToObject(object, "rounds", row->figures.answers);
    cJSON_AddNumberToObject(object, "last_round", row->figures.last_round);
    cJSON_AddNumberToObject(object, "small_changes", row->figures.small_changes);
    cJSON_AddItemToArray(list, object);
}

static void add_row_text(struct tern_text_table *table, const struct status_row *row)
{
    tern_text_cell(table, "%s", row->federation.name);
    tern_text_cell(table, "%" PRIu64, row->epoch.epoch);
    tern_text_cell(table, "%" PRIu32, row->figures.clients);
    tern_text_cell(table, "%" PRIu32, row->figures.tickets);
    tern_text_cell(table, "%" PRIu32, row->codes);
    tern_text_cell(table, "%" PRIu32, row->figures.answers);
    tern_text_cell(table, "%" PRIu32, row->figures.last_round);
    tern_text_cell(table, "%" PRIu32, row->figures.small_changes);
}

static enum tern_result read_rows(struct tern_ledger *ledger, cJSON *list,
                                  struct tern_text_table *table)
{
    struct status_row row = {.codes = 0};
    enum tern_result result;
    while ((result = tern_ledger_next_federation(ledger, row.federation.id, &row.federation)) ==
           TERN_OK) {
        row = (struct status_row){.federation = row.federation};
        TERN_TRY(read_row(ledger, &row));
        if (list != NULL) {
            add_row_json(list, &row);
        } else {
            add_row_text(table, &row);
        }
    }
    return result == TERN_ERR_NOT_FOUND ? TERN_OK : result;
}

static enum tern_result read_public_key(struct tern_ledger *ledger, char text[PUBLIC_TEXT])
{
    uint8_t private_key[TERN_SECRET_SIZE];
    uint8_t public_key[TERN_P256_PUBLIC_SIZE];
    TERN_TRY(tern_ledger_signing_key(ledger, private_key));
    TERN_TRY(tern_secret_start());
    const enum tern_result result = tern_p256_public(private_key, public_key);
    tern_secret_erase(private_key, sizeof private_key);
    tern_base64url_encode(public_key, sizeof public_key, text);
    return result;
}

// The facts about the whole ledger.
struct status {
    char public_key[PUBLIC_TEXT];
    uint64_t log_count;
    char log_head[HEAD_TEXT];
};

static enum tern_result read_status(struct tern_ledger *ledger, struct status *status)
{
    uint8_t head[TERN_SHA256_SIZE];
    TERN_TRY(read_public_key(ledger, status->public_key));
    TERN_TRY(tern_ledger_log_head(ledger, &status->log_count, head));
    tern_base64url_encode(head, sizeof head, status->log_head);
    return TERN_OK;
}

static int print_status_json(struct tern_cli *cli, struct tern_ledger *ledger,
                             const struct status *status)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "public_key", status->public_key);
    cJSON_AddNumberToObject(root, "log_count", (double)status->log_count);
    cJSON_AddStringToObject(root, "log_head", status->log_head);
    cJSON_AddNumberToObject(root, "min_clients", settings.helper_min_clients);
    cJSON_AddBoolToObject(root, "weak", settings.helper_min_clients < TERN_SECURE_MIN_CLIENTS);
    const enum tern_result result =
        read_rows(ledger, cJSON_AddArrayToObject(root, "federations"), NULL);
    if (result != TERN_OK) {
        cJSON_Delete(root);
        return report(cli, ledger, result);
    }
    return tern_json_print(cli, root);
}

static int print_status(struct tern_cli *cli, struct tern_ledger *ledger,
                        const struct status *status)
{
    static const struct tern_text_column columns[] = {
        {"FEDERATION", TERN_TEXT_WORD}, {"EPOCH", TERN_TEXT_NUMBER},
        {"CLIENTS", TERN_TEXT_NUMBER},  {"TICKETS", TERN_TEXT_NUMBER},
        {"CODES", TERN_TEXT_NUMBER},    {"ROUNDS", TERN_TEXT_NUMBER},
        {"LAST", TERN_TEXT_NUMBER},     {"SMALL CHANGES", TERN_TEXT_NUMBER}};
    struct tern_text_table table = TERN_TEXT_TABLE(columns);
    enum tern_result result = read_rows(ledger, NULL, &table);
    printf("public key   %s\nlog          %" PRIu64 " entries, head %.*s\nmin clients  %" PRIu32
           "%s\n\n",
           status->public_key, status->log_count, TERN_HELPER_LOG_SHORT, status->log_head,
           settings.helper_min_clients,
           settings.helper_min_clients < TERN_SECURE_MIN_CLIENTS
               ? " (weak: a sum of few devices protects each of them little)"
               : "");
    result = result == TERN_OK ? tern_text_table_print(&table, stdout) : result;
    tern_text_table_free(&table);
    return report(cli, ledger, result);
}

static int verb_status(struct tern_cli *cli)
{
    struct tern_ledger *ledger = NULL;
    struct status status;
    TERN_CLI_TRY(open_ledger(cli, &ledger));
    int code = report(cli, ledger, read_status(ledger, &status));
    if (code == TERN_EXIT_OK) {
        code = cli->json ? print_status_json(cli, ledger, &status)
                         : print_status(cli, ledger, &status);
    }
    tern_ledger_close(ledger);
    return code;
}

// --- log

static void print_entry_json(cJSON *list, const struct tern_ledger_entry *entry, const char *head)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "number", (double)entry->number);
    cJSON_AddNumberToObject(object, "at_ms", (double)entry->at_ms);
    cJSON_AddStringToObject(object, "fact", entry->fact);
    cJSON_AddStringToObject(object, "head", head);
    cJSON_AddItemToArray(list, object);
}

// Prints the entries, or adds them to the list, and checks the chain of their heads. *broken: the first entry that does not
// follow from the entry before; 0: none.
static enum tern_result print_entries(struct tern_ledger *ledger, cJSON *list, uint64_t *broken)
{
    struct tern_ledger_entry entry = {.number = 0};
    uint8_t expected[TERN_SHA256_SIZE] = {0};
    char head[HEAD_TEXT];
    char when[TIME_TEXT];
    enum tern_result result;
    while ((result = tern_ledger_next_entry(ledger, entry.number, &entry)) == TERN_OK) {
        tern_ledger_chain(expected, &entry, expected);
        if (*broken == 0 && memcmp(expected, entry.head, sizeof expected) != 0) {
            *broken = entry.number;
        }
        tern_base64url_encode(entry.head, sizeof entry.head, head);
        if (list != NULL) {
            print_entry_json(list, &entry, head);
        } else {
            printf("%" PRIu64 "  %s  %s  head=%s\n", entry.number, time_text(entry.at_ms, when),
                   entry.fact, head);
        }
    }
    return result == TERN_ERR_NOT_FOUND ? TERN_OK : result;
}

static int verb_log(struct tern_cli *cli)
{
    struct tern_ledger *ledger = NULL;
    uint64_t broken = 0;
    TERN_CLI_TRY(open_ledger(cli, &ledger));
    cJSON *list = cli->json ? cJSON_CreateArray() : NULL;
    int code = report(cli, ledger, print_entries(ledger, list, &broken));
    if (list != NULL && code == TERN_EXIT_OK) {
        code = tern_json_print(cli, list);
    } else {
        cJSON_Delete(list);
    }
    tern_ledger_close(ledger);
    if (code == TERN_EXIT_OK && broken != 0) {
        code =
            tern_cli_fail(cli, TERN_ERR_CORRUPT,
                          "entry %" PRIu64 " does not follow from the entries before it: the log "
                          "was changed or is damaged; restore a backup",
                          broken);
    }
    return code;
}

// --- The command line

static const struct tern_cli_option code_options[] = {
    {"uses", "N", "how many devices the code admits (1)"},
    {"expires", "TIME", "how long the code admits devices: 30m, 24h, 7d (7d)"},
    {"label", "TEXT", "a note that the ledger keeps with the code"},
    {0},
};
static const struct tern_cli_option revoke_options[] = {
    {"code", "ID", "cancel this join code, and revoke every device that it admitted"},
    {0},
};

static const struct tern_cli_verb verbs[] = {
    {"init", "make the state directory with a new signing key", "",
     "Makes the ledger with the key that signs this helper's answers, and prints its public key.\n"
     "Devices get that key from you (secure.helper_key of client.ini), because an aggregator\n"
     "could replace it by its own. Never changes a ledger that exists.\n"
     "\n"
     "  tern-helper init --set helper.state_dir=/var/lib/tern-helper\n",
     NULL, 0, 0, verb_init},
    {"serve", "answer aggregators until SIGTERM or SIGINT", "",
     "Answers over HTTPS: keys of epochs, tickets of devices, and sums of masks. You may kill it\n"
     "at any time: each decision is on the disk before its answer is sent, and after a restart\n"
     "the same request gets the same answer. SIGHUP reads the certificate again.\n"
     "\n"
     "  tern-helper serve --config helper.ini\n",
     NULL, 0, 0, verb_serve},
    {"federation", "add a federation, or replace its token", "add|token NAME",
     "Prints the token by which the federation's aggregator authenticates (the file secure.token\n"
     "of aggregator.ini). The first request with a token binds the name to the id of that "
     "federation.\n"
     "A running helper accepts the token within a second. `token` makes a new one, and the old\n"
     "token is refused from then on.\n"
     "\n"
     "  tern-helper federation add pumps\n"
     "  tern-helper federation token pumps\n",
     NULL, 2, 2, verb_federation},
    {"code", "make a join code for devices of a federation", "FEDERATION",
     "Prints a code that admits devices to this helper (secure.code of client.ini). The device\n"
     "seals the code, so that the aggregator never has it and cannot invent devices. Send codes\n"
     "to the owners of the devices, not to the aggregator's operator.\n"
     "\n"
     "  tern-helper code pumps\n"
     "  tern-helper code pumps --uses 60 --expires 30d --label \"site north\"\n",
     code_options, 1, 1, verb_code},
    {"revoke", "refuse a device, or all devices of a join code", "FEDERATION [CLIENT]",
     "Lists with a revoked device are refused from now on. CLIENT is the id of the device at the\n"
     "aggregator, which `tern-helper log` shows. A device that lost its state needs this, too,\n"
     "and a new code.\n"
     "\n"
     "  tern-helper revoke pumps 17\n"
     "  tern-helper revoke pumps --code 3\n",
     revoke_options, 1, 2, verb_revoke},
    {"renew", "erase all secrets of a federation, and begin a new epoch", "FEDERATION",
     "For a restored backup, which may have forgotten a round that was answered, or a ledger that\n"
     "somebody may have copied. Devices seal new secrets to the new key by themselves, with the\n"
     "codes that they have. The round that is open is abandoned.\n"
     "\n"
     "  tern-helper renew pumps\n",
     NULL, 1, 1, verb_renew},
    {"release", "stop comparing lists with that of an answered round", "FEDERATION ROUND",
     "For a round that the helper answered and the aggregator abandoned, because the answer was\n"
     "lost. The next rounds train from the same model, so their lists are refused as near-list\n"
     "while nearly the same devices take part. An aggregator that has both sums learns what the\n"
     "devices sent that are in one list only: release a round only if you believe that its sum\n"
     "was lost. The log keeps a record.\n"
     "\n"
     "  tern-helper release pumps 31\n",
     NULL, 2, 2, verb_release},
    {"status", "show federations, devices and answered rounds", "",
     "One row for each federation: its epoch, admitted clients, their tickets in this epoch, "
     "codes\n"
     "that can admit more, answered rounds, the last of them, and how many had a list that\n"
     "differs from an earlier list of its epoch by fewer clients than a sum must have (small\n"
     "changes: many of them can reveal single devices).\n"
     "\n"
     "  tern-helper status --json\n",
     NULL, 0, 0, verb_status},
    {"log", "print the log and check its chain", "",
     "Prints every entry: keys, codes, tickets, sums and revocations. Each entry's head is a hash\n"
     "over the entry and the head before it, so no entry can be changed without a trace. Exit\n"
     "code 1: an entry was changed.\n"
     "\n"
     "  tern-helper log --json\n",
     NULL, 0, 0, verb_log},
    {0},
};

int main(int argc, char **argv)
{
    static const struct tern_cli_program program = {
        .name = "tern-helper",
        .summary =
            "adds the masks of secure rounds, so that no aggregator sees one device's update",
        .help =
            "In secure rounds, devices mask their updates, and the aggregator only gets the sum "
            "of\n"
            "the masks, from this program. It never receives an update. Run it on a machine of an\n"
            "operator who does not share data with the aggregator's: together the two can unmask.\n"
            "\n"
            "  tern-helper --settings > helper.ini          every setting, documented\n"
            "  tern-helper init --config helper.ini\n"
            "  tern-helper federation add pumps --config helper.ini\n"
            "  tern-helper code pumps --uses 60 --config helper.ini\n"
            "  tern-helper serve --config helper.ini\n",
        .verbs = verbs,
        .settings = &settings_table,
        .values = &settings,
        .default_config = "/etc/tern/helper.ini",
    };
    return tern_cli_main(&program, argc, argv);
}
