#include "cli/waiting.h"

#include "admin/waiting.h"
#include "cli/gateway.h"
#include "cli/serve_config.h"
#include "cli/shared_database.h"
#include "hosted/files.h"
#include "rounds/reliability.h"
#include "wire/wire.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

// --- Questions to a running service

// Connects to a unix socket, or to a numeric address and port. Returns -1 if nothing listens there.
static int connect_to(const char *address, uint16_t port)
{
    const struct timeval patience = {.tv_sec = TERN_READINESS_PATIENCE_S};
    struct sockaddr_storage name = {0};
    struct sockaddr_un *local = (struct sockaddr_un *)&name;
    struct sockaddr_in *v4 = (struct sockaddr_in *)&name;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&name;
    socklen_t len = sizeof *v6;
    if (strncmp(address, "unix:", 5) == 0) {
        local->sun_family = AF_UNIX;
        snprintf(local->sun_path, sizeof local->sun_path, "%s", address + 5);
        len = sizeof *local;
    } else if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        len = sizeof *v4;
    } else if (inet_pton(AF_INET6, address, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
    } else {
        return -1;
    }
    const int fd = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(fd, (const struct sockaddr *)&name, len) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

// Sends a GET request. answer: the response from its status line on; "": none arrived. token: NULL: none. Returns false if
// nothing listens there.
static bool ask(const struct tern_aggregator_settings *settings, const char *path,
                const char *token, char *answer, size_t size)
{
    char request[512];
    const int request_len =
        snprintf(request, sizeof request,
                 "GET %s HTTP/1.1\r\nHost: localhost\r\n%s%.128s%sConnection: close\r\n\r\n", path,
                 token != NULL ? "Authorization: Bearer " : "", token != NULL ? token : "",
                 token != NULL ? "\r\n" : "");
    const int fd = connect_to(settings->admin_address, (uint16_t)settings->admin_port);
    size_t len = 0;
    ssize_t got = 1;
    answer[0] = '\0';
    if (fd < 0) {
        return false;
    }
    if (send(fd, request, (size_t)request_len, MSG_NOSIGNAL) == request_len) {
        while (got > 0 && len < size - 1) {
            got = recv(fd, answer + len, size - 1 - len, 0);
            len += got > 0 ? (size_t)got : 0;
        }
    }
    answer[len] = '\0';
    close(fd);
    return true;
}

enum tern_readiness tern_readiness_ask(const struct tern_aggregator_settings *settings,
                                       char why[256])
{
    char answer[1024];
    const bool listens = ask(settings, "/readyz", NULL, answer, sizeof answer);
    const char *reason = strstr(answer, "\r\n\r\n");
    why[0] = '\0';
    if (strncmp(answer, "HTTP/1.1 503", 12) == 0 && reason != NULL) {
        snprintf(why, 256, "%.*s", (int)strcspn(reason + 4, "\n"), reason + 4);
        return TERN_READINESS_BAD;
    }
    if (strncmp(answer, "HTTP/1.1 200", 12) == 0) {
        return TERN_READINESS_GOOD;
    }
    return listens && answer[0] == '\0' ? TERN_READINESS_SILENT : TERN_READINESS_UNKNOWN;
}

// Returns the answer of /api/v1/waiting, which the caller deletes; NULL: none, e.g. because another federation's service
// listens.
static cJSON *ask_waiting(const struct tern_aggregator_settings *settings, const char *token)
{
    static char answer[65536];
    const bool listens = ask(settings, "/api/v1/waiting", token, answer, sizeof answer);
    const char *body = strstr(answer, "\r\n\r\n");
    if (!listens || body == NULL || strncmp(answer, "HTTP/1.1 200", 12) != 0) {
        return NULL;
    }
    return cJSON_Parse(body + 4);
}

const char *tern_readiness_advice(const char *why)
{
    if (strncmp(why, "it follows", 10) == 0) {
        return "`tern-aggregator status` lists all aggregators: restart the one that does not "
               "answer, or check PostgreSQL and the network; then it continues by itself";
    }
    return strncmp(why, "halted", 6) == 0
               ? "stop the service and restore a backup (docs/OPERATIONS.md, \"When it is broken\")"
               : "free space, or check the disk (dmesg) and the log; then it continues by itself";
}

// --- Clients that take tasks and do not report them

#define LEAST_SHARE 0.02 // of unreported tasks, for advice
#define STEP 0.05        // between advised values

// Returns the over-selection s that compensates for unreported tasks: of 1 + s selected clients, (1 + s) * (1 - share)
// report.
static double compensate(double share)
{
    return ceil(share / (1.0 - share) / STEP) * STEP;
}

static enum tern_result load_failing(struct tern_db *db, struct tern_unreported *unreported)
{
    struct tern_db_client client;
    uint32_t named = 0;
    TERN_TRY(tern_db_count_failing(db, &unreported->failing));
    struct tern_db_rows *rows = tern_db_failing(db, TERN_FAILING_NAMED);
    while (tern_db_next(rows, &client)) {
        struct tern_failing *failing = &unreported->named[named++];
        *failing = (struct tern_failing){
            .id = client.id, .round = client.failed_round, .failure = client.failure};
        memcpy(failing->name, client.name, sizeof failing->name);
    }
    return tern_db_end(rows);
}

enum tern_result tern_unreported_load(const struct tern_cli *cli, struct tern_db *db,
                                      const struct tern_db_counts *counts,
                                      struct tern_unreported *unreported)
{
    const double set = tern_state_settings(cli)->round_over_selection;
    const double bound = (double)TERN_UNRELIABLE;
    struct tern_db_unreported reliable;
    struct tern_db_unreported unreliable;
    TERN_TRY(tern_db_unreported(db, 0.0, bound, &reliable));
    TERN_TRY(tern_db_unreported(db, bound, 2.0, &unreliable));
    const uint64_t others = counts->clients_revoked + counts->evaluators + unreliable.clients;
    const uint64_t trainers = counts->clients > others ? counts->clients - others : 0;
    *unreported = (struct tern_unreported){.unreliable = unreliable.clients};
    if (trainers > 0) {
        unreported->share = reliable.sum / (double)trainers;
    }
    if (unreported->share >= LEAST_SHARE && set < unreported->share / (1.0 - unreported->share)) {
        unreported->over_selection = compensate(unreported->share);
    }
    return load_failing(db, unreported);
}

static const char *reason_of(uint32_t failure)
{
    switch (failure) {
    case tern_TrainingFailure_FAILURE_NOT_FINITE:
        return "its loss or a value of its update was not finite, or the update's norm was above "
               "limits.norm: scale its columns (tern-client check names them); or lower "
               "train.learning_rate or train.local_steps; or raise limits.norm, if updates of this "
               "size are sound (docs/OPERATIONS.md, \"Rounds\")";
    case tern_TrainingFailure_FAILURE_NO_DATA:
        return "it has no row to train on (tern-client check counts them)";
    default:
        return "its trainer failed: `tern-client status` on the device shows why";
    }
}

static void print_failing(const struct tern_unreported *unreported)
{
    char name[TERN_TEXT];
    uint32_t named = 0;
    while (named < TERN_FAILING_NAMED && unreported->named[named].id != 0) {
        const struct tern_failing *failing = &unreported->named[named++];
        printf("            training failed at client %" PRIu64 " (%s) in round %" PRIu32 ", %s\n",
               failing->id, tern_text_name(failing->name, name), failing->round,
               reason_of(failing->failure));
    }
    if (unreported->failing > named) {
        printf("            and at %" PRIu64
               " more (`tern-aggregator clients --json`: failed_round)\n",
               unreported->failing - named);
    }
}

void tern_unreported_print(const struct tern_unreported *unreported)
{
    if (unreported->unreliable > 0) {
        printf("            %" PRIu64
               " take%s tasks but do%s not report them, so that rounds do not count "
               "on them (`tern-aggregator clients` lists them as unreliable)\n",
               unreported->unreliable, unreported->unreliable == 1 ? "s" : "",
               unreported->unreliable == 1 ? "es" : "");
    }
    if (unreported->over_selection > 0.0) {
        printf("            %.0f %% of the other clients' tasks are not reported: with "
               "round.over_selection = %.2g, rounds need not wait for these\n",
               100.0 * unreported->share, unreported->over_selection);
    }
    print_failing(unreported);
}

void tern_unreported_json(cJSON *object, const struct tern_unreported *unreported)
{
    tern_json_u64(object, "clients_unreliable", unreported->unreliable);
    cJSON_AddNumberToObject(object, "tasks_unreported", unreported->share);
    cJSON_AddNumberToObject(object, "advised_over_selection", unreported->over_selection);
    tern_json_u64(object, "clients_failing", unreported->failing);
    cJSON *list = cJSON_AddArrayToObject(object, "training_failed");
    for (uint32_t i = 0; i < TERN_FAILING_NAMED && unreported->named[i].id != 0; i++) {
        cJSON *failing = cJSON_CreateObject();
        tern_json_u64(failing, "client", unreported->named[i].id);
        tern_json_u64(failing, "round", unreported->named[i].round);
        cJSON_AddStringToObject(failing, "why", reason_of(unreported->named[i].failure));
        cJSON_AddItemToArray(list, failing);
    }
}

// --- Clients whose tables have other columns

// The model identifies a column by its position, so a client with another order of columns trains on the wrong columns.

enum tern_result tern_other_columns_load(struct tern_db *db, struct tern_other_columns *columns)
{
    struct tern_db_client client;
    *columns = (struct tern_other_columns){.named = 0};
    TERN_TRY(tern_db_column_names(db, &columns->names));
    if (columns->names.others == 0) {
        return TERN_OK;
    }
    struct tern_db_rows *rows =
        tern_db_clients_of_other_columns(db, columns->names.usual, TERN_OTHER_COLUMNS_NAMED);
    while (tern_db_next(rows, &client) && columns->named < TERN_OTHER_COLUMNS_NAMED) {
        columns->clients[columns->named].id = client.id;
        memcpy(columns->clients[columns->named].name, client.name, sizeof client.name);
        columns->named++;
    }
    return tern_db_end(rows);
}

bool tern_other_columns_describe(const struct tern_other_columns *columns,
                                 char text[TERN_OTHER_COLUMNS_TEXT])
{
    char name[TERN_TEXT];
    size_t len = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < columns->named; i++) {
        len +=
            (size_t)snprintf(text + len, TERN_OTHER_COLUMNS_TEXT - len, "%sclient %" PRIu64 " (%s)",
                             i == 0 ? "" : ", ", columns->clients[i].id,
                             tern_text_name(columns->clients[i].name, name));
    }
    if (columns->names.others > columns->named) {
        len += (size_t)snprintf(text + len, TERN_OTHER_COLUMNS_TEXT - len, " and %" PRIu64 " more",
                                columns->names.others - columns->named);
    }
    snprintf(text + len, TERN_OTHER_COLUMNS_TEXT - len,
             ": other column names, or another order of columns, than %" PRIu64
             " client%s; the model identifies columns by their position",
             columns->names.clients, columns->names.clients == 1 ? "" : "s");
    return columns->named > 0;
}

void tern_other_columns_json(cJSON *object, const struct tern_other_columns *columns)
{
    cJSON *list = cJSON_AddArrayToObject(object, "other_column_names");
    for (uint32_t i = 0; i < columns->named; i++) {
        cJSON_AddItemToArray(list, cJSON_CreateNumber((double)columns->clients[i].id));
    }
}

// --- Why there is no progress

#define SHOWN 5 // most clients listed

static uint32_t shown_of(const struct tern_waiting *waiting)
{
    return waiting->shown < SHOWN ? waiting->shown : SHOWN;
}

static void copy_text(const cJSON *json, const char *name, char *text, size_t size)
{
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, name));
    if (value != NULL) {
        snprintf(text, size, "%s", value);
    }
}

// Replaces the reasons with those of the running service, which may have other settings than this command. Returns false
// if it does not answer.
static bool ask_service(const struct tern_cli *cli, struct tern_waiting *waiting)
{
    char path[PATH_MAX];
    char token[TERN_TEXT] = "";
    uint8_t *data = NULL;
    size_t len = 0;
    tern_state_path(cli, TERN_STATE_ADMIN_TOKEN, path);
    if (tern_file_read_regular(path, sizeof token - 1, &data, &len) != TERN_OK) {
        return false;
    }
    memcpy(token, data, len);
    free(data);
    token[strcspn(token, " \r\n")] = '\0';
    cJSON *answer = ask_waiting(tern_state_settings(cli), token);
    const bool answered = answer != NULL;
    if (answered) {
        copy_text(answer, "now", waiting->sentence, sizeof waiting->sentence);
        copy_text(answer, "advice", waiting->advice, sizeof waiting->advice);
        waiting->needs_help = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(answer, "needs_help"));
        cJSON_Delete(answer);
    }
    return answered;
}

static void report_not_running(const struct tern_cli *cli, struct tern_waiting *waiting)
{
    if (tern_state_is_gateway(cli)) {
        tern_waiting_put_before(waiting, "the gateway is not running (`tern-aggregator relay`)");
        if (!waiting->needs_help) {
            tern_waiting_advise(waiting,
                                "tern-aggregator relay; its log has the reason of its end");
        }
        return;
    }
    if (waiting->wait == TERN_WAIT_FINISHED || waiting->wait == TERN_WAIT_ENDED) {
        return; // the federation needs no service
    }
    tern_waiting_put_before(waiting, "the service is not running (`tern-aggregator serve`)");
    if (!waiting->needs_help) {
        tern_waiting_advise(waiting,
                            "systemctl start tern-aggregator; its log has the reason of its "
                            "end: journalctl -u tern-aggregator");
    }
}

static void add_service_state(const struct tern_cli *cli, struct tern_db *db,
                              struct tern_waiting *waiting)
{
    char why[256];
    struct tern_service_upstream upstream;
    struct tern_db_node leader;
    if (!tern_state_is_served(cli)) {
        if (!tern_standby_find_leader(db, &leader)) { // else a service runs on another machine
            report_not_running(cli, waiting);
        }
        return;
    }
    switch (tern_readiness_ask(tern_state_settings(cli), why)) {
    case TERN_READINESS_BAD:
        tern_waiting_put_before(waiting, why);
        tern_waiting_advise(waiting, "%s", tern_readiness_advice(why));
        waiting->needs_help = true;
        break;
    case TERN_READINESS_SILENT:
        tern_waiting_put_before(
            waiting, "the service runs, but its listener at admin.address does not answer");
        tern_waiting_advise(waiting,
                            "try again; if it still does not answer, read its log and restart it");
        waiting->needs_help = true;
        break;
    case TERN_READINESS_GOOD:
    case TERN_READINESS_UNKNOWN:
        if (!ask_service(cli, waiting)) {
            tern_gateway_upstream(cli, &upstream);
            tern_waiting_add_upstream(&upstream, tern_now_ms(), waiting);
        }
        break;
    }
}

static struct tern_wait_rules rules_of(const struct tern_aggregator_settings *s)
{
    struct tern_wait_rules rules = {
        .rounds = s->round_rounds,
        .min_clients = s->round_min_clients,
        .cohort = s->round_cohort,
        .quorum = s->round_quorum,
        .eligible_within_ms = s->round_eligible_within,
        .come_back_min_ms = s->round_come_back_min,
        .interval_ms = tern_serve_config_interval_ms(s),
        .interval_is_auto = s->round_min_interval == TERN_AUTO_MS,
        .fits_budgets = strstr(s->train_schedule, "budget") != NULL ||
                        strcmp(s->round_selection, "budget-aware") == 0,
        .ending = {s->round_divergence_rounds, s->round_patience},
        .statistics_are_enabled = strcmp(s->statistics_columns, "clients") == 0,
        .statistics_min_clients = s->statistics_min_clients,
        .statistics_wait_ms = s->statistics_wait,
    };
    char why[TERN_TAG_WHY_MAX];
    (void)!tern_tag_selection_parse(s->round_selection, &rules.tags, why);
    return rules;
}

enum tern_result tern_cli_waiting_load(const struct tern_cli *cli, struct tern_db *db,
                                       const struct tern_status *status, uint64_t now_ms,
                                       struct tern_waiting *waiting)
{
    struct tern_wait_rules rules = rules_of(tern_state_settings(cli));
    rules.upstream_client = tern_state_is_gateway(cli) ? TERN_RELAY_UPSTREAM_CLIENT : 0;
    TERN_TRY(tern_waiting_load(db, &rules, status, now_ms, waiting));
    add_service_state(cli, db, waiting);
    return TERN_OK;
}

void tern_cli_waiting_print(const struct tern_waiting *waiting, uint64_t now_ms)
{
    printf("Now         %s\n", waiting->sentence);
    if (waiting->advice[0] != '\0') {
        printf("            %s\n", waiting->advice);
    }
    for (uint32_t i = 0; i < shown_of(waiting); i++) {
        const struct tern_db_client *client = &waiting->members[i].client;
        char name[TERN_TEXT];
        char seen[TERN_TEXT];
        const bool spent = client->budgeted && client->budget_left <= client->budget_spent;
        printf("            client %" PRIu64 " (%s), last seen %s%s", client->id,
               tern_text_name(client->name, name),
               tern_text_ago(client->last_seen_ms, now_ms, seen),
               spent ? ", its byte budget is spent" : "");
        if (waiting->members[i].tries > 1) {
            printf(", fetched its task %" PRIu32 " times or more", waiting->members[i].tries);
        }
        putchar('\n');
    }
    if (waiting->missing > shown_of(waiting)) {
        printf("            and %" PRIu32 " more\n", waiting->missing - shown_of(waiting));
    }
}

void tern_cli_waiting_json(cJSON *object, const struct tern_waiting *waiting)
{
    cJSON_AddStringToObject(object, "now", waiting->sentence);
    cJSON_AddStringToObject(object, "advice", waiting->advice);
    tern_json_u64(object, "waits_for", waiting->missing);
    cJSON *ids = cJSON_AddArrayToObject(object, "silent_longest");
    for (uint32_t i = 0; i < shown_of(waiting); i++) {
        cJSON_AddItemToArray(ids, cJSON_CreateNumber((double)waiting->members[i].client.id));
    }
}
