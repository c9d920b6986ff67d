#include "cli/waiting.h"

#include "admin/waiting.h"
#include "cli/gateway.h"
#include "cli/serve_config.h"
#include "cli/shared_database.h"
#include "hosted/files.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <limits.h>
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
static bool send_get(const struct tern_aggregator_settings *settings, const char *path,
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
    const bool listens = send_get(settings, "/readyz", NULL, answer, sizeof answer);
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
    const bool listens = send_get(settings, "/api/v1/waiting", token, answer, sizeof answer);
    const char *body = strstr(answer, "\r\n\r\n");
    if (!listens || body == NULL || strncmp(answer, "HTTP/1.1 200", 12) != 0) {
        return NULL;
    }
    return cJSON_Parse(body + 4);
}

const char *tern_readiness_advice(const char *why)
{
    return strncmp(why, "halted", 6) == 0
               ? "stop the service and restore a backup (docs/OPERATIONS.md, \"When it is broken\")"
               : "free space, or check the disk (dmesg) and the log; then the service continues by "
                 "itself";
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

// --- Why there is no progress

static void copy_text(const cJSON *json, const char *name, char *text, size_t size)
{
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, name));
    if (value != NULL) {
        snprintf(text, size, "%s", value);
    }
}

// Replaces the reasons in *waiting with those of the running service, which may have other settings than this command. Returns false
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
                                "tern-aggregator relay; the log has the reason of its end");
        }
        return;
    }
    if (waiting->wait == TERN_WAIT_FINISHED || waiting->wait == TERN_WAIT_ENDED) {
        return; // the federation needs no service
    }
    tern_waiting_put_before(waiting, "the service is not running (`tern-aggregator serve`)");
    if (!waiting->needs_help) {
        tern_waiting_advise(waiting,
                            "systemctl start tern-aggregator; the log has the reason why the "
                            "service ended: journalctl -u tern-aggregator");
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
        tern_waiting_advise(waiting, "try again; if the listener still does not answer, read the "
                                     "log and restart the service");
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
        .secure_updates = s->secure_helper[0] != '\0'
                              ? s->secure_min_clients * (uint32_t)atoi(s->secure_groups)
                              : 0,
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
