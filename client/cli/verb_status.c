// `tern-client status` and `tern-client meter`: show the state directory.
#include "cli/session.h"
#include "cli/verbs.h"
#include "hosted/cli.h"
#include "posix/transport.h"
#include "util/bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// --- status

static void add_expiry(cJSON *root, const struct tern_curl *curl)
{
    const struct tern_curl_expiries ends = tern_curl_certificates(curl);
    const struct {
        const char *name;
        uint64_t end_s;
    } all[] = {{"certificate_expires_s", ends.server_s},
               {"ca_expires_s", ends.ca_s},
               {"client_certificate_expires_s", ends.client_s}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i].end_s != 0) {
            cJSON_AddNumberToObject(root, all[i].name, (double)all[i].end_s);
        }
    }
}

static void add_training_failure(cJSON *root, const char *state_dir)
{
    struct training_failure failure;
    if (tern_training_failure_read(state_dir, &failure)) {
        cJSON *object = cJSON_AddObjectToObject(root, "training_failed");
        cJSON_AddNumberToObject(object, "round", failure.round);
        cJSON_AddNumberToObject(object, "time_s", (double)failure.time_s);
        cJSON_AddStringToObject(object, "result", tern_result_name(failure.result));
        cJSON_AddStringToObject(object, "why", failure.why);
    }
}

// Adds the end of the helper's log that the task of the last masked update had.
static void add_helper_log(cJSON *root, const struct tern_client_masked *masked)
{
    char head[TERN_BASE64URL_LENGTH(TERN_SHA256_SIZE) + 1];
    if (TERN_SECURE && masked->round != 0) {
        tern_base64url_encode(masked->log_head, TERN_SHA256_SIZE, head);
        cJSON_AddNumberToObject(root, "log_count", (double)masked->log_count);
        cJSON_AddStringToObject(root, "log_head", head);
    }
}

static int status_json(const struct tern_cli *cli, const struct session *session)
{
    const struct tern_client_identity *identity = tern_client_identity(&session->client);
    const struct tern_client_pending *pending = tern_client_pending(&session->client);
    char replica[2 * TERN_SHA256_SIZE + 1];
    cJSON *root = cJSON_CreateObject();
    tern_hex_encode(tern_client_replica(&session->client), TERN_SHA256_SIZE, replica);
    cJSON_AddNumberToObject(root, "client", (double)identity->client_id);
    cJSON_AddStringToObject(root, "server", session->settings->client_server);
    cJSON_AddStringToObject(root, "model", identity->model_spec);
    cJSON_AddBoolToObject(root, "evaluator", identity->evaluator);
    cJSON_AddNumberToObject(root, "version", tern_client_version(&session->client));
    cJSON_AddStringToObject(root, "holds", tern_stored_model_kind(session));
    cJSON_AddStringToObject(root, "replica", replica);
    cJSON_AddNumberToObject(root, "updates_answered",
                            (double)tern_client_budget(&session->client)->rounds);
    if (session->curl != NULL) {
        add_expiry(root, session->curl);
    }
    cJSON_AddBoolToObject(root, "secure", session->settings->secure_helper_key[0] != '\0');
    add_helper_log(root, tern_client_masked(&session->client));
    cJSON_AddBoolToObject(root, "meter_estimated", !tern_curl_is_counted());
    if (pending->len > 0) {
        cJSON *update = cJSON_AddObjectToObject(root, "pending");
        cJSON_AddNumberToObject(update, "round", pending->round);
        cJSON_AddNumberToObject(update, "sequence", pending->sequence);
        cJSON_AddNumberToObject(update, "bytes", pending->len);
    }
    add_training_failure(root, session->settings->client_state_dir);
    return tern_json_print(cli, root);
}

static void print_expiry(const struct tern_curl *curl)
{
    char sentence[EXPIRY_MAX];
    tern_expiry_describe(curl, (uint64_t)time(NULL), sentence);
    if (sentence[0] != '\0') {
        printf("link      %s\n", sentence);
    }
}

static void print_training_failure(const char *state_dir)
{
    struct training_failure failure;
    struct tm utc;
    if (!tern_training_failure_read(state_dir, &failure)) {
        return;
    }
    const time_t when = (time_t)failure.time_s;
    char text[32] = "";
    if (gmtime_r(&when, &utc) != NULL) {
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%SZ", &utc);
    }
    printf("training  failed in round %" PRIu32 ", %s, and has not worked since: %s\n",
           failure.round, text, failure.why);
}

static void print_secure(const struct tern_client_settings *settings)
{
    if (settings->secure_helper_key[0] == '\0') {
        printf("updates   the aggregator sees each update of this client (secure.helper_key is not "
               "set)\n");
    } else {
        printf("updates   masked; the helper reveals sums of at least %" PRIu32 " clients%s\n",
               settings->secure_min_clients,
               settings->secure_min_clients < TERN_SECURE_MIN_CLIENTS
                   ? ", which is weak: secure.min_clients is below 50"
                   : "");
    }
}

static void print_helper_log(const struct tern_client_masked *masked)
{
    char head[TERN_BASE64URL_LENGTH(TERN_SHA256_SIZE) + 1];
    if (TERN_SECURE && masked->round != 0) {
        tern_base64url_encode(masked->log_head, TERN_SHA256_SIZE, head);
        printf("helper    %" PRIu64 " log entries, head %.*s, in round %" PRIu32 "\n",
               masked->log_count, TERN_HELPER_LOG_SHORT, head, masked->round);
    }
}

static const char *describe_model(const struct session *session)
{
    if (tern_client_is_personal(&session->client)) {
        return "personal: with local tensors of its own";
    }
    return tern_stored_model_is_global(session) ? "the global model" : "a replica of it";
}

static int status_text(const struct session *session)
{
    const struct tern_client_identity *identity = tern_client_identity(&session->client);
    const struct tern_client_pending *pending = tern_client_pending(&session->client);
    printf("client    %" PRIu64 "%s\n", identity->client_id,
           identity->evaluator ? " (evaluator)" : "");
    printf("server    %s\n", session->settings->client_server);
    printf("model     %s\n", identity->model_spec);
    printf("version   %" PRIu32 " (%s)\n", tern_client_version(&session->client),
           describe_model(session));
    printf("rounds    %" PRIu64 "\n", tern_client_budget(&session->client)->rounds);
    if (pending->len > 0) {
        printf("pending   %" PRIu32 " bytes for round %" PRIu32 ", not answered yet\n",
               pending->len, pending->round);
    } else {
        printf("pending   nothing\n");
    }
    print_secure(session->settings);
    print_helper_log(tern_client_masked(&session->client));
    print_training_failure(session->settings->client_state_dir);
    if (session->curl != NULL) {
        print_expiry(session->curl);
    }
    if (!tern_curl_is_counted()) {
        printf("meter     estimated: this kernel does not count the bytes of connections\n");
    }
    return TERN_EXIT_OK;
}

int tern_verb_status(struct tern_cli *cli)
{
    static struct session session;
    enum tern_result result = tern_session_open_reader(&session, &tern_client_settings);
    if (result == TERN_OK) {
        result = tern_session_identify(&session);
    }
    if (result == TERN_OK) {
        result = tern_session_restore(&session);
    }
    int code = TERN_EXIT_OK;
    if (result != TERN_OK) {
        code = tern_cli_fail(cli, result, "%s", session.why);
    } else {
        const bool linked = tern_session_open_transport(&session);
        (void)linked; // without a transport, the output omits the dates of certificates
        code = cli->json ? status_json(cli, &session) : status_text(&session);
    }
    tern_session_close(&session);
    return code;
}

// --- meter

static const char *const direction_names[] = {"up", "down"};

// Returns the bytes of all purposes, including those that only a newer version knows.
static struct tern_bytes total_of(const struct session *session, enum tern_direction direction)
{
    struct tern_bytes total = tern_meter_total(tern_client_meter_all(&session->client), direction);
    tern_bytes_add(&total, &tern_client_meter_other(&session->client)[direction]);
    return total;
}

static void add_bytes(cJSON *object, const struct tern_bytes *bytes)
{
    cJSON_AddNumberToObject(object, "payload", (double)bytes->payload);
    cJSON_AddNumberToObject(object, "http", (double)bytes->http);
    cJSON_AddNumberToObject(object, "tls", (double)bytes->tls);
    cJSON_AddNumberToObject(object, "wire", (double)bytes->wire);
}

static void add_month(cJSON *root, const struct tern_client_budget *budget,
                      const struct tern_client_settings *settings)
{
    char month[16];
    snprintf(month, sizeof month, "%04" PRIu32 "-%02" PRIu32, budget->month / 12,
             budget->month % 12 + 1);
    cJSON *object = cJSON_AddObjectToObject(root, "month");
    cJSON_AddStringToObject(object, "month", month);
    cJSON_AddNumberToObject(object, "wire", (double)budget->month_spent);
    cJSON_AddNumberToObject(object, "budget", (double)settings->budget_per_month);
    cJSON_AddNumberToObject(root, "rounds", (double)budget->rounds);
    cJSON_AddNumberToObject(root, "wire_per_round", (double)budget->round_mean);
    cJSON_AddNumberToObject(root, "budget_per_round", (double)settings->budget_per_round);
}

static int meter_json(const struct tern_cli *cli, const struct session *session)
{
    const struct tern_meter *meter = tern_client_meter_all(&session->client);
    const struct tern_bytes *other = tern_client_meter_other(&session->client);
    cJSON *root = cJSON_CreateObject();
    for (int d = 0; d < TERN_DIRECTION_COUNT; d++) {
        cJSON *direction = cJSON_AddObjectToObject(root, direction_names[d]);
        for (int p = 0; p < TERN_PURPOSE_COUNT; p++) {
            cJSON *purpose =
                cJSON_AddObjectToObject(direction, tern_purpose_name((enum tern_purpose)p));
            add_bytes(purpose, &meter->bytes[p][d]);
        }
        const struct tern_bytes total = total_of(session, (enum tern_direction)d);
        add_bytes(cJSON_AddObjectToObject(direction, "other"), &other[d]);
        add_bytes(cJSON_AddObjectToObject(direction, "total"), &total);
    }
    add_month(root, tern_client_budget(&session->client), session->settings);
    return tern_json_print(cli, root);
}

static void print_row(const char *purpose, const char *direction, const struct tern_bytes *bytes)
{
    printf("%-10s %-4s %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n", purpose,
           direction, bytes->payload, bytes->http, bytes->tls, bytes->wire);
}

static void print_budget(const char *what, uint64_t spent, uint64_t budget)
{
    if (budget == 0) {
        printf("%-22s %12" PRIu64 " bytes on the wire, no budget\n", what, spent);
    } else {
        printf("%-22s %12" PRIu64 " of %" PRIu64 " bytes on the wire\n", what, spent, budget);
    }
}

static int meter_text(const struct session *session)
{
    const struct tern_meter *meter = tern_client_meter_all(&session->client);
    const struct tern_bytes *other = tern_client_meter_other(&session->client);
    const struct tern_client_budget *budget = tern_client_budget(&session->client);
    printf("%-10s %-4s %12s %12s %12s %12s\n", "purpose", "", "payload", "http", "tls", "wire");
    for (int p = 0; p < TERN_PURPOSE_COUNT; p++) {
        const char *name = tern_purpose_name((enum tern_purpose)p);
        print_row(name, "up", &meter->bytes[p][TERN_UP]);
        print_row(name, "down", &meter->bytes[p][TERN_DOWN]);
    }
    if (other[TERN_UP].wire + other[TERN_DOWN].wire > 0) {
        print_row("other", "up", &other[TERN_UP]);
        print_row("other", "down", &other[TERN_DOWN]);
    }
    const struct tern_bytes up = total_of(session, TERN_UP);
    const struct tern_bytes down = total_of(session, TERN_DOWN);
    print_row("total", "up", &up);
    print_row("total", "down", &down);
    printf("\n");
    print_budget("this month", budget->month_spent, session->settings->budget_per_month);
    print_budget("mean of a round", budget->round_mean, session->settings->budget_per_round);
    printf("%-22s %12" PRIu64 "\n", "rounds", budget->rounds);
    return TERN_EXIT_OK;
}

int tern_verb_meter(struct tern_cli *cli)
{
    static struct session session;
    enum tern_result result = tern_session_open_reader(&session, &tern_client_settings);
    int code = TERN_EXIT_OK;
    if (result != TERN_OK) {
        code = tern_cli_fail(cli, result, "%s", session.why);
    } else {
        result = tern_client_load_meter(&session.client);
        if (result == TERN_ERR_NOT_FOUND) {
            code = tern_cli_fail(cli, result, "%s has no meter yet: the client has sent nothing",
                                 tern_client_settings.client_state_dir);
        } else if (result != TERN_OK) {
            code =
                tern_cli_fail(cli, result, "the meter in %s cannot be read: %s",
                              tern_client_settings.client_state_dir, tern_result_sentence(result));
        } else {
            code = cli->json ? meter_json(cli, &session) : meter_text(&session);
        }
    }
    tern_session_close(&session);
    return code;
}
