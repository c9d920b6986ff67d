// `tern-client check`: checks everything that a client needs before it sends anything.
#include "cli/client_data.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "hosted/cli.h"
#include "hosted/files.h"
#include "meter/meter.h"
#include "util/date.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// The cheapest round: a resumed handshake, a check-in and an update.
#define LEAST_ROUND (TERN_PRICE_RESUMED + 2u * TERN_PRICE_EXCHANGE)

// The requests: an enrolled client reads the state of the scaling, which changes nothing; others test the service.
#define READY_PATH "/readyz"
#define READY_ANSWER "ok\n"

// --- State directory

#define OTHER_STATE_DIR                                                                            \
    "set client.state_dir to a folder that this user may write, or run as the user that owns it"

static void report_missing_state(const char *folder, struct tern_findings *findings)
{
    char parent[PATH_MAX];
    if (tern_file_can_make_folders(folder, parent) == TERN_OK) {
        tern_findings_add(findings, TERN_HEALTH_GOOD, "state", NULL,
                          "%s does not exist yet; enrolling creates it", folder);
    } else {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "state", OTHER_STATE_DIR,
                          "%s does not exist, and enrolling cannot create it in %s: %s", folder,
                          parent, strerror(errno));
    }
}

// Reports a state directory that is missing or cannot be used.
static bool state_is_usable(const char *folder, struct tern_findings *findings)
{
    struct stat facts;
    if (stat(folder, &facts) != 0) {
        report_missing_state(folder, findings);
        return false;
    }
    if (!S_ISDIR(facts.st_mode)) {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "state", OTHER_STATE_DIR,
                          "%s is not a folder", folder);
        return false;
    }
    if (access(folder, R_OK | W_OK | X_OK) != 0) {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "state", OTHER_STATE_DIR,
                          "%s cannot be written by this user: %s", folder, strerror(errno));
        return false;
    }
    return true;
}

static void check_state(struct session *session, const struct tern_client_identity **identity,
                        struct tern_findings *findings)
{
    const char *folder = tern_client_settings.client_state_dir;
    *identity = NULL;
    if (!state_is_usable(folder, findings)) {
        return;
    }
    enum tern_result result = tern_session_open_reader(session, &tern_client_settings);
    if (result != TERN_OK) { // without a client nothing in the store can be checked
        tern_file_store_close(session->store);
        session->store = NULL;
    }
    result = result == TERN_OK ? tern_session_identify(session) : result;
    if (result == TERN_OK) {
        *identity = tern_client_identity(&session->client);
        tern_findings_add(findings, TERN_HEALTH_GOOD, "state", NULL,
                          "%s: client %" PRIu64 ", enrolled for %s", folder, (*identity)->client_id,
                          (*identity)->model_spec);
    } else {
        tern_findings_add(findings,
                          result == TERN_ERR_NOT_FOUND ? TERN_HEALTH_GOOD : TERN_HEALTH_PROBLEM,
                          "state", NULL, "%s", session->why);
    }
}

// --- The aggregator

// Whether a response with status 200 comes from an aggregator.
static bool is_ready(const struct tern_response *response)
{
    const size_t len = strlen(READY_ANSWER);
    return response->body_len == len && memcmp(response->body, READY_ANSWER, len) == 0;
}

static bool read_scaling_state(const struct tern_response *response,
                               struct check_federation *federation)
{
    tern_CheckinReply reply;
    struct tern_span none;
    if (response->body_len == 0 ||
        tern_wire_decode_checkin_reply(response->body, response->body_len, &reply, &none) !=
            TERN_OK) {
        return false;
    }
    federation->shared = reply.has_scaling ? CHECK_SCALING_MADE
                         : reply.statistics != tern_StatisticsState_STATISTICS_NONE
                             ? CHECK_SCALING_DUE
                             : CHECK_SCALING_NONE;
    federation->other_columns = reply.other_column_names;
    return true;
}

static void report_answer(const struct tern_client_identity *identity,
                          const struct tern_response *response, uint64_t bytes,
                          struct check_federation *federation, struct tern_findings *findings)
{
    const char *server = tern_client_settings.client_server;
    const int status = response->status;
    const bool busy = status == 503 || status == 429;
    if (identity != NULL && status == 200 && read_scaling_state(response, federation)) {
        tern_findings_add(
            findings, TERN_HEALTH_GOOD, "server", NULL,
            "%s: reached, its certificate is good, and it accepts this client (%" PRIu64
            " bytes on the wire)",
            server, bytes);
    } else if (identity == NULL && status == 200 && is_ready(response)) {
        tern_findings_add(findings, TERN_HEALTH_GOOD, "server", NULL,
                          "%s: reached, and its certificate is good (%" PRIu64
                          " bytes on the wire)",
                          server, bytes);
    } else if (identity != NULL && status == 401) {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "server", NULL,
                          "%s: reached, but it refuses this client, which was revoked or "
                          "enrolled with another aggregator: tern-client enroll --force CODE",
                          server);
    } else {
        tern_findings_add(findings, busy ? TERN_HEALTH_WARNING : TERN_HEALTH_PROBLEM, "server",
                          NULL, "%s: answers %d, %s", server, status,
                          busy ? "it is busy now"
                               : "which is not an answer of a Tern aggregator: check the address");
    }
}

static void report_expiry(const struct tern_curl *curl, struct tern_findings *findings)
{
    char sentence[EXPIRY_MAX];
    const bool soon = tern_expiry_describe(curl, (uint64_t)time(NULL), sentence);
    if (sentence[0] != '\0') {
        tern_findings_add(findings, soon ? TERN_HEALTH_WARNING : TERN_HEALTH_GOOD, "expiry", NULL,
                          "%s", sentence);
    }
}

static void send_request(struct tern_curl *curl, const struct tern_client_identity *identity,
                         struct check_federation *federation, struct tern_findings *findings)
{
    uint8_t body[TERN_SHA256_SIZE * 8];
    const struct tern_transport transport = tern_curl_port(curl);
    const struct tern_request request = {
        .purpose = TERN_PURPOSE_CHECKIN,
        .method = "GET",
        .path = identity != NULL ? TERN_PATH_STATISTICS : READY_PATH,
        .token = identity != NULL ? identity->token : NULL,
        .timeout_ms = (uint32_t)tern_client_settings.client_timeout};
    struct tern_response response = {.body = body, .body_size = sizeof body};
    enum tern_result result = TERN_AGAIN;
    while (result == TERN_AGAIN) {
        result = transport.exchange(transport.ctx, &request, &response);
    }
    struct tern_meter meter = {0};
    transport.collect(transport.ctx, &meter);
    if (result == TERN_OK || result == TERN_ERR_TOO_LARGE) {
        const uint64_t bytes =
            tern_meter_total(&meter, TERN_UP).wire + tern_meter_total(&meter, TERN_DOWN).wire;
        report_answer(identity, &response, bytes, federation, findings);
    } else {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "server", NULL, "%s: %s %s",
                          tern_client_settings.client_server, tern_result_sentence(result),
                          tern_curl_why(curl));
    }
    report_expiry(curl, findings);
}

static void check_server(const struct tern_client_identity *identity,
                         struct check_federation *federation, struct tern_findings *findings)
{
    const struct tern_curl_config config = {.server = tern_client_settings.client_server,
                                            .ca_file = tern_client_settings.client_ca,
                                            .certificate = tern_client_settings.client_certificate,
                                            .key = tern_client_settings.client_key,
                                            .tls = tern_client_settings.client_tls};
    struct tern_curl *curl = NULL;
    char why[512] = "libcurl cannot start";
    if (tern_client_settings.client_server[0] == '\0') {
        tern_findings_add(
            findings, TERN_HEALTH_PROBLEM, "server", NULL,
            "client.server is not set: name the aggregator with --config FILE or --set "
            "client.server=https://host:port");
    } else if (tern_curl_global() != TERN_OK || tern_curl_open(&curl, &config, why) != TERN_OK) {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "server", NULL, "%s", why);
    } else {
        send_request(curl, identity, federation, findings);
    }
    tern_curl_close(curl);
}

// --- Budget, clock and conditions

static uint32_t this_month(void)
{
    const struct tern_clock clock = tern_posix_clock();
    const struct tern_date date = tern_date_of((uint32_t)(clock.unix_seconds(clock.ctx) / 86400));
    return date.year * 12 + date.month;
}

static void check_budget(struct session *session, struct tern_findings *findings)
{
    const struct tern_client_settings *settings = &tern_client_settings;
    const struct tern_client_budget none = {0};
    const bool metered =
        session->store != NULL && tern_client_load_meter(&session->client) == TERN_OK;
    const struct tern_client_budget *spent = metered ? tern_client_budget(&session->client) : &none;
    const uint64_t month_spent = this_month() > spent->month ? 0 : spent->month_spent;
    const uint64_t usual = spent->round_mean > LEAST_ROUND ? spent->round_mean : LEAST_ROUND;
    if (settings->budget_per_round == 0 && settings->budget_per_month == 0) {
        tern_findings_add(findings, TERN_HEALTH_GOOD, "budget", NULL,
                          "no limit is set (budget.per_round, per_month)");
    } else if (settings->budget_per_round != 0 && settings->budget_per_round < usual) {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "budget", NULL,
                          "budget.per_round = %" PRIu64 " is less than the %" PRIu64
                          " bytes that a round %s: no round will start",
                          settings->budget_per_round, usual,
                          usual > LEAST_ROUND ? "took so far" : "takes without its payload");
    } else if (settings->budget_per_month != 0 &&
               settings->budget_per_month < month_spent + usual) {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "budget", NULL,
                          "budget.per_month = %" PRIu64
                          " leaves no room for a round this month: %" PRIu64
                          " bytes are spent, and a round takes %" PRIu64 " at least",
                          settings->budget_per_month, month_spent, usual);
    } else {
        tern_findings_add(findings, TERN_HEALTH_GOOD, "budget", NULL,
                          "%" PRIu64 " bytes a round, %" PRIu64 " a month (0 = no limit); %" PRIu64
                          " spent this month",
                          settings->budget_per_round, settings->budget_per_month, month_spent);
    }
}

static void check_clock(const struct session *session, struct tern_findings *findings)
{
    const struct tern_clock clock = tern_posix_clock();
    const uint64_t now = clock.unix_seconds(clock.ctx);
    const struct tern_date date = tern_date_of((uint32_t)(now / 86400));
    const uint32_t month = session->store != NULL ? tern_client_budget(&session->client)->month : 0;
    if (now == 0) {
        tern_findings_add(
            findings, TERN_HEALTH_PROBLEM, "clock", NULL,
            "it is not set, so that certificates cannot be verified and months not distinguished; "
            "set it, e.g. by NTP");
    } else if (month > date.year * 12 + date.month) {
        tern_findings_add(
            findings, TERN_HEALTH_WARNING, "clock", NULL,
            "it shows %04" PRIu32 "-%02" PRIu32 "-%02" PRIu32
            ", a month before the last one in which this client counted bytes: was it set back? "
            "Until then budget.per_month covers 31 days of running time",
            date.year, date.month + 1, date.day + 1);
    } else {
        tern_findings_add(findings, TERN_HEALTH_GOOD, "clock", NULL,
                          "%04" PRIu32 "-%02" PRIu32 "-%02" PRIu32 " (UTC)", date.year,
                          date.month + 1, date.day + 1);
    }
}

static void check_conditions(struct tern_findings *findings)
{
    static struct tern_posix_conditions conditions;
    char problem[CONDITIONS_WHY_MAX];
    const char *why = NULL;
    if (tern_conditions_from_settings(&tern_client_settings, &conditions, problem) != TERN_OK) {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "when", NULL, "%s", problem);
        return;
    }
    const bool allowed = tern_posix_conditions_read(&conditions, &why);
    tern_posix_conditions_close(&conditions);
    if (allowed) {
        tern_findings_add(findings, TERN_HEALTH_GOOD, "when", NULL, "the client may work now%s",
                          tern_client_settings.client_when[0] == '\0' ? " (client.when is empty)"
                                                                      : "");
    } else {
        tern_findings_add(findings, TERN_HEALTH_WARNING, "when", NULL,
                          "the client would wait now: %s (tern-client conditions)", why);
    }
}

// --- All together

static void check_columns(struct session *session, const struct tern_client_identity *identity,
                          struct check_federation *federation, struct tern_findings *findings)
{
    uint8_t *bytes = NULL;
    if (identity != NULL && tern_held_scaling(session, &bytes, &federation->scaling) != TERN_OK) {
        tern_findings_add(findings, TERN_HEALTH_WARNING, "scaling", NULL, "%s", session->why);
    }
    if (federation->scaling.len > 0) {
        federation->shared = CHECK_SCALING_HELD;
    }
    if (federation->other_columns) {
        tern_findings_add(findings, TERN_HEALTH_WARNING, "columns", NULL, "%s",
                          CLIENT_OTHER_COLUMNS);
    }
    tern_check_data(&tern_client_settings, federation, findings, NULL);
    free(bytes);
}

static void check_data(const struct tern_cli *cli, struct session *session,
                       const struct tern_client_identity *identity,
                       struct check_federation *federation, struct tern_findings *findings)
{
    struct external_trainer external = {0};
    char why[EXTERNAL_WHY_MAX];
    const char *enrolled = identity != NULL ? identity->model_spec : NULL;
    federation->spec = tern_cli_option(cli, "model", enrolled);
    if (tern_external_kind_of(&tern_client_settings, &external.kind, why) != TERN_OK) {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "data", NULL, "%s", why);
    } else if (external.kind != EXTERNAL_NONE && federation->shared != CHECK_SCALING_UNKNOWN &&
               federation->shared != CHECK_SCALING_NONE) {
        tern_findings_add(findings, TERN_HEALTH_PROBLEM, "data",
                          "remove client.trainer from the settings, so that the built-in trainer "
                          "trains; or ask the operator about statistics.columns",
                          "clients of this federation share statistics of their columns, which "
                          "client.trainer = %s does not have: this client will get no tasks",
                          tern_client_settings.client_trainer);
    } else if (external.kind != EXTERNAL_NONE) {
        tern_findings_add(
            findings, TERN_HEALTH_GOOD, "data", NULL,
            "client.trainer = %s reads its own data: test it with tern-client train-check",
            tern_client_settings.client_trainer);
    } else {
        check_columns(session, identity, federation, findings);
        if (federation->spec == NULL) {
            tern_findings_add(findings, TERN_HEALTH_GOOD, "model", NULL,
                              "unknown before this client is enrolled; --model SPEC checks one");
        }
    }
}

// --data: the columns of one file and its errors.
static int check_file(struct tern_cli *cli, const char *place)
{
    static struct tern_client_settings settings;
    char spec[TERN_DATA_SPEC_MAX];
    struct tern_findings findings = {.list = cli->json ? cJSON_CreateArray() : NULL};
    struct check_table table = {.columns = cli->json ? cJSON_CreateArray() : NULL};
    struct check_federation federation = {.shared = CHECK_SCALING_UNKNOWN,
                                          .spec = tern_cli_option(cli, "model", NULL)};
    settings = tern_client_settings;
    if (strncmp(settings.data_source, "csv", 3) != 0) { // drops the options of another kind of data
        snprintf(settings.data_source, sizeof settings.data_source, "csv");
    }
    tern_client_data_spec(&settings, place, spec);
    if (strlen(spec) >= sizeof settings.data_source) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "--data: the file's name is too long");
    }
    memcpy(settings.data_source, spec, strlen(spec) + 1);
    settings.data_dir[0] = '\0';
    settings.data_shard[0] = '\0';
    tern_check_data(&settings, &federation, &findings, &table);
    if (cli->json) {
        cJSON *object = cJSON_CreateObject();
        cJSON_AddItemToObject(object, "columns", table.columns);
        cJSON_AddItemToObject(object, "findings", findings.list);
        TERN_CLI_TRY(tern_json_print(cli, object));
    }
    return findings.count[TERN_HEALTH_PROBLEM] > 0 ? TERN_EXIT_FAILED : TERN_EXIT_OK;
}

int tern_verb_check(struct tern_cli *cli)
{
    static struct session session;
    const char *place = tern_cli_option(cli, "data", NULL);
    if (place != NULL) {
        return check_file(cli, place);
    }
    struct tern_findings findings = {.list = cli->json ? cJSON_CreateArray() : NULL};
    const struct tern_client_identity *identity = NULL;
    struct check_federation federation = {.shared = CHECK_SCALING_UNKNOWN};
    check_state(&session, &identity, &findings);
    if (!tern_cli_flag(cli, "offline")) {
        check_server(identity, &federation, &findings);
    }
    check_data(cli, &session, identity, &federation, &findings);
    check_conditions(&findings);
    check_budget(&session, &findings);
    check_clock(&session, &findings);
    tern_session_close(&session);
    if (cli->json && tern_json_print(cli, findings.list) != TERN_EXIT_OK) {
        return TERN_EXIT_FAILED;
    }
    return findings.count[TERN_HEALTH_PROBLEM] > 0 ? TERN_EXIT_FAILED : TERN_EXIT_OK;
}
