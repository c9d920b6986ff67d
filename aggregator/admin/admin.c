#include "admin/admin.h"

#include "admin/internal.h"
#include "admin/waiting.h"
#include "hosted/files.h"
#include "hosted/log.h"
#include "hosted/system.h"
#include "util/bytes.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TOKEN_MIN 16
#define TOKEN_MAX 200

// Browsers send longer headers than devices, such as every cookie of this host.
#define HEADER_BYTES 16384

// Most rows of one reply, since clients' updates wait while the service thread reads them.
#define LIST_LIMIT 1000

// --- Answers that need no job

static void set_text(struct tern_http_reply *reply, int status, const char *type, const char *text)
{
    const size_t len = strlen(text);
    *reply = (struct tern_http_reply){.status = status,
                                      .retry_after_s = status == 503 ? 1 : 0,
                                      .type = type,
                                      .body = tern_blob_new(len)};
    if (reply->body != NULL) {
        memcpy(reply->body->data, text, len);
    }
}

static void reply_healthy(struct tern_admin *admin, const struct tern_http_request *request,
                          struct tern_http_reply *reply)
{
    (void)admin;
    (void)request;
    set_text(reply, 200, "text/plain", "ok\n");
}

static void reply_ready(struct tern_admin *admin, const struct tern_http_request *request,
                        struct tern_http_reply *reply)
{
    (void)request;
    char why[256];
    char silent[TERN_UPSTREAM_MAX];
    char text[TERN_UPSTREAM_MAX + 16];
    struct tern_service_facts facts;
    if (!tern_service_can_store(admin->config.service, why)) {
        snprintf(text, sizeof text, "%s\n", why);
        set_text(reply, 503, "text/plain", text);
        return;
    }
    // A gateway stores devices' updates even if the upstream aggregator does not answer.
    tern_service_facts(admin->config.service, &facts);
    if (facts.upstream.silent_ms == 0) {
        set_text(reply, 200, "text/plain", "ok\n");
        return;
    }
    snprintf(text, sizeof text, "ok, but %s\n",
             tern_upstream_sentence(&facts.upstream, tern_unix_ms(), silent));
    set_text(reply, 200, "text/plain", text);
}

static void reply_metrics(struct tern_admin *admin, const struct tern_http_request *request,
                          struct tern_http_reply *reply)
{
    (void)request;
    struct tern_service_facts facts;
    struct tern_http_counters counters = {0};
    tern_service_facts(admin->config.service, &facts);
    if (admin->config.clients != NULL) {
        tern_http_counters(admin->config.clients, &counters);
    }
    struct tern_blob *text = tern_admin_metrics(&facts, &counters);
    *reply = text != NULL ? (struct tern_http_reply){.status = 200,
                                                     .type = "text/plain; version=0.0.4",
                                                     .body = text}
                          : (struct tern_http_reply){.status = 503, .retry_after_s = 1};
}

static void reply_settings(struct tern_admin *admin, const struct tern_http_request *request,
                           struct tern_http_reply *reply)
{
    (void)request;
    pthread_mutex_lock(&admin->settings_lock);
    cJSON *settings =
        admin->settings != NULL ? cJSON_Duplicate(admin->settings, true) : cJSON_CreateArray();
    pthread_mutex_unlock(&admin->settings_lock);
    (void)tern_admin_reply_json(reply, 200, settings);
}

static void reply_views(struct tern_admin *admin, const struct tern_http_request *request,
                        struct tern_http_reply *reply)
{
    static const struct tern_view *const views[] = {
        &tern_view_clients,  &tern_view_client_rounds, &tern_view_held,   &tern_view_rounds,
        &tern_view_replicas, &tern_view_schedule,      &tern_view_ledger, &tern_view_codes};
    cJSON *object = cJSON_CreateObject();
    (void)admin;
    (void)request;
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++) {
        cJSON_AddItemToObject(object, views[i]->name, tern_view_help(views[i]));
    }
    (void)tern_admin_reply_json(reply, 200, object);
}

static void reply_log(struct tern_admin *admin, const struct tern_http_request *request,
                      struct tern_http_reply *reply)
{
    static char lines[TERN_LOG_RECENT_MAX]; // the admin listener has one thread
    cJSON *object = cJSON_CreateObject();
    cJSON *list = cJSON_AddArrayToObject(object, "lines");
    (void)admin;
    (void)request;
    tern_log_recent(lines);
    for (char *line = lines; *line != '\0';) {
        const size_t len = strcspn(line, "\n");
        char *next = line + len + (line[len] != '\0');
        line[len] = '\0';
        cJSON_AddItemToArray(list, cJSON_CreateString(line));
        line = next;
    }
    (void)tern_admin_reply_json(reply, 200, object);
}

// --- Answers from a child process

static void answer_doctor(struct tern_admin *admin, struct tern_http_exchange *exchange)
{
    tern_tools_run(&admin->tools, TERN_TOOL_DOCTOR, exchange);
}

static void answer_model(struct tern_admin *admin, struct tern_http_exchange *exchange)
{
    tern_tools_run(&admin->tools, TERN_TOOL_EXPORT, exchange);
}

// --- Routes

struct route {
    const char *path; // "{}": a number or an id
    const char *method;
    bool open; // needs no credentials
    // The request's handler, one of `job`, `reply` (at once) and `answer` (later).
    tern_service_job job;
    const struct tern_view *view; // of a list; NULL = none
    bool arrays;                  // the list as an array for each column
    void (*reply)(struct tern_admin *admin, const struct tern_http_request *request,
                  struct tern_http_reply *reply);
    void (*answer)(struct tern_admin *admin, struct tern_http_exchange *exchange);
};

// The routes of a list: as an object for each row, and as an array for each column.
#define LIST(name, of)                                                                             \
    {"/api/v1/" name, "GET", false, .job = tern_admin_list, .view = &(of)},                        \
    {                                                                                              \
        "/api/v1/" name "/columns", "GET", false, .job = tern_admin_list, .view = &(of),           \
                                                  .arrays = true                                   \
    }

static const struct route routes[] = {
    {"/healthz", "GET", true, .reply = reply_healthy},
    {"/readyz", "GET", true, .reply = reply_ready},
    {"/metrics", "GET", false, .reply = reply_metrics},
    {"/api/v1/session", "POST", true, .reply = tern_admin_login},
    {"/api/v1/session", "DELETE", false, .reply = tern_admin_logout},
    {"/api/v1/settings", "GET", false, .reply = reply_settings},
    {"/api/v1/log", "GET", false, .reply = reply_log},
    {"/api/v1/doctor", "GET", false, .answer = answer_doctor},
    {"/api/v1/model", "GET", false, .answer = answer_model},
    {"/api/v1/status", "GET", false, .job = tern_admin_status},
    {"/api/v1/waiting", "GET", false, .job = tern_admin_waiting},
    {"/api/v1/views", "GET", false, .reply = reply_views},
    LIST("clients", tern_view_clients),
    LIST("clients/replicas", tern_view_held),
    LIST("rounds", tern_view_rounds),
    LIST("replicas", tern_view_replicas),
    LIST("schedule", tern_view_schedule),
    LIST("ledger", tern_view_ledger),
    LIST("enroll-codes", tern_view_codes),
    {"/api/v1/clients/{}", "GET", false, .job = tern_admin_client},
    {"/api/v1/clients/{}/rounds", "GET", false, .job = tern_admin_client_rounds,
     .view = &tern_view_client_rounds},
    {"/api/v1/clients/{}/revoke", "POST", false, .job = tern_admin_revoke},
    {"/api/v1/rounds/{}/close", "POST", false, .job = tern_admin_close_round},
    {"/api/v1/enroll-codes", "POST", false, .job = tern_admin_enroll_code},
    {"/api/v1/enroll-codes/{}/cancel", "POST", false, .job = tern_admin_cancel_code},
};

static const struct route page_route = {"/", "GET", true, .reply = tern_admin_page};

#define ARGUMENT_MAX 16

// Whether the path has this form. argument: the part of the path at "{}".
static bool fits(const char *path, const char *form, char argument[ARGUMENT_MAX])
{
    const char *gap = strstr(form, "{}");
    argument[0] = '\0';
    if (gap == NULL) {
        return strcmp(path, form) == 0;
    }
    const size_t before = (size_t)(gap - form);
    if (strncmp(path, form, before) != 0) {
        return false;
    }
    const size_t len = strcspn(path + before, "/");
    if (len == 0 || len >= ARGUMENT_MAX || strcmp(path + before + len, gap + 2) != 0) {
        return false;
    }
    memcpy(argument, path + before, len);
    argument[len] = '\0';
    return true;
}

// NULL: no route has this path and method. *known: a route has this path.
static const struct route *route_of(const struct tern_http_request *request, bool *known,
                                    char argument[ARGUMENT_MAX])
{
    *known = tern_admin_has_page(request->path);
    if (*known) {
        return strcmp(request->method, "GET") == 0 ? &page_route : NULL;
    }
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (fits(request->path, routes[i].path, argument)) {
            *known = true;
            if (strcmp(request->method, routes[i].method) == 0) {
                return &routes[i];
            }
        }
    }
    return NULL;
}

// Whether Host names this machine, with any port, since a tunnel may change it. Otherwise a foreign page could reach this
// listener through a browser here, by a name that resolves to this machine (DNS rebinding). A unix socket has no name.
static bool is_own_host(const struct tern_admin *admin, const char *host)
{
    const char *end = host[0] == '[' ? strchr(host, ']') : strchr(host, ':');
    const size_t len = end == NULL ? strlen(host) : (size_t)(end - host) + (host[0] == '[');
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    if (strncmp(admin->config.address, "unix:", 5) == 0) {
        return true;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i]) == len && strncasecmp(names[i], host, len) == 0) {
            return true;
        }
    }
    return strlen(admin->config.address) == len && strncmp(admin->config.address, host, len) == 0;
}

static int on_headers(void *ctx, const struct tern_http_request *request, uint64_t content_length,
                      struct tern_http_permit *permit)
{
    struct tern_admin *admin = ctx;
    char argument[ARGUMENT_MAX];
    bool known = false;
    const struct route *route = route_of(request, &known, argument);
    const bool changes = strcmp(request->method, "GET") != 0;
    (void)content_length;
    if (!is_own_host(admin, request->host)) {
        return 421;
    }
    const int refused = tern_admin_admit(admin, request, changes);
    permit->known = refused == 0;
    if (route == NULL) {
        return known ? 405 : 404;
    }
    if (!route->open && refused != 0) {
        return refused;
    }
    permit->body_limit = strcmp(route->method, "POST") == 0 ? TERN_ADMIN_BODY_MAX : 0;
    return 0;
}

// --- Requests

// Returns the value of the parameter if it has this name; NULL = it has another name.
static const char *value_of(const char *parameter, const char *name)
{
    const size_t len = strlen(name);
    return strncmp(parameter, name, len) == 0 && parameter[len] == '=' ? parameter + len + 1 : NULL;
}

// Reads a number up to the end of the parameter. False: it is no number, or out of range.
static bool take_number(const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
    const char *end = tern_get_decimal(text, value);
    return end != text && (*end == '\0' || *end == '&') && *value >= least && *value <= most;
}

static int hex_digit(char c)
{
    const char *const digits = "0123456789abcdef";
    const char *at = strchr(digits, tolower((unsigned char)c));
    return c == '\0' || at == NULL ? -1 : (int)(at - digits);
}

// Decodes a parameter's value (%41, +). False: it is too long or malformed.
static bool take_text(const char *text, char *value, size_t size, const char **wanted)
{
    size_t len = 0;
    for (; *text != '\0' && *text != '&'; text++) {
        char c = *text == '+' ? ' ' : *text;
        if (*text == '%') {
            const int high = hex_digit(text[1]);
            const int low = high < 0 ? -1 : hex_digit(text[2]);
            if (low < 0) {
                return false;
            }
            c = (char)(16 * high + low);
            text += 2;
        }
        if (c == '\0' || len + 1 == size) {
            return false;
        }
        value[len++] = c;
    }
    value[len] = '\0';
    *wanted = value;
    return true;
}

static bool take_parameter(const char *parameter, struct admin_job *job)
{
    const char *value;
    uint64_t number = 0;
    if ((value = value_of(parameter, "limit")) != NULL) {
        const bool good = take_number(value, 1, LIST_LIMIT, &number);
        job->query.limit = (uint32_t)number;
        return good;
    }
    if ((value = value_of(parameter, "after")) != NULL) {
        return take_number(value, 0, UINT32_MAX - LIST_LIMIT, &job->query.after);
    }
    if ((value = value_of(parameter, "last")) != NULL) {
        return take_number(value, 1, LIST_LIMIT, &job->query.last);
    }
    if ((value = value_of(parameter, "columns")) != NULL) {
        return take_text(value, job->columns, sizeof job->columns, &job->query.columns);
    }
    if ((value = value_of(parameter, "where")) != NULL) {
        return take_text(value, job->where, sizeof job->where, &job->query.where);
    }
    if ((value = value_of(parameter, "sort")) != NULL) {
        return take_text(value, job->sort, sizeof job->sort, &job->query.sort);
    }
    return false;
}

// Reads the options of a list, each optional, in any order. Without a limit, a list whose rows have no key is complete.
static bool parse_list(const char *query, struct admin_job *job)
{
    job->query.limit = job->view->key != NULL ? LIST_LIMIT : 0;
    while (*query != '\0') {
        if (!take_parameter(query, job)) {
            return false;
        }
        query += strcspn(query, "&");
        query += *query == '&';
    }
    return true;
}

// Parses the argument of a path as a number (decimal, no leading zeros; otherwise 0) and as the id of a join code.
static void take_argument(const char *argument, struct admin_job *job)
{
    const char *end = tern_get_decimal(argument, &job->number);
    if (*end != '\0' || argument[0] == '0' || job->number > UINT32_MAX) {
        job->number = 0;
    }
    if (strlen(argument) < sizeof job->code) {
        memcpy(job->code, argument, strlen(argument) + 1);
    }
}

// Parses the arguments of a job. False: `why` has the fault.
static bool parse(const struct route *route, const struct tern_http_request *request,
                  const char *argument, struct admin_job *job, char why[TERN_ADMIN_WHY_MAX])
{
    take_argument(argument, job);
    if (route->job == tern_admin_enroll_code) {
        return tern_admin_read_code(request, job, why);
    }
    job->view = route->view;
    job->arrays = route->arrays;
    if (job->view != NULL && !parse_list(request->query, job)) {
        snprintf(why, TERN_ADMIN_WHY_MAX,
                 "A list has the options ?limit=1..1000, &after= the last id or round of the "
                 "previous page, &last=1..1000, &columns=A,B, &where=COLUMN=VALUE and "
                 "&sort=COLUMN or -COLUMN.");
        return false;
    }
    return true;
}

static void submit(struct tern_admin *admin, const struct route *route, const char *argument,
                   struct tern_http_exchange *exchange)
{
    const struct tern_http_request *request = tern_http_exchange_request(exchange);
    struct tern_http_reply reply;
    struct admin_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        tern_admin_reply_error(&reply, 503, TERN_ERR_NO_MEMORY, "Out of memory; try again later.");
        tern_http_reply(exchange, &reply);
        return;
    }
    char why[TERN_ADMIN_WHY_MAX];
    if (!parse(route, request, argument, job, why)) {
        free(job);
        tern_admin_reply_error(&reply, 422, TERN_ERR_ARGUMENT, why);
        tern_http_reply(exchange, &reply);
        return;
    }
    tern_service_submit(admin->config.service, exchange, route->job, tern_admin_reply_error, job);
}

static void on_request(void *ctx, struct tern_http_exchange *exchange)
{
    struct tern_admin *admin = ctx;
    const struct tern_http_request *request = tern_http_exchange_request(exchange);
    char argument[ARGUMENT_MAX];
    bool known = false;
    const struct route *route = route_of(request, &known, argument);
    if (route->job != NULL) {
        submit(admin, route, argument, exchange);
        return;
    }
    if (route->answer != NULL) {
        route->answer(admin, exchange);
        return;
    }
    struct tern_http_reply reply;
    route->reply(admin, request, &reply);
    tern_http_reply(exchange, &reply);
}

// Ignores the bytes, which never cross the metered link.
static void on_metered(void *ctx, const struct tern_http_tag *tag, const struct tern_bytes *up,
                       const struct tern_bytes *down)
{
    (void)ctx;
    (void)tag;
    (void)up;
    (void)down;
}

// Writes refusals of the API as JSON, all others as text.
static void on_refusal(void *ctx, const char *path, enum tern_result result, const char *sentence,
                       struct tern_http_reply *reply)
{
    const uint32_t retry_after_s = reply->retry_after_s;
    char line[256];
    (void)ctx;
    if (strncmp(path, "/api/", 5) == 0) {
        tern_admin_reply_error(reply, reply->status, result, sentence);
    } else {
        snprintf(line, sizeof line, "%s\n", sentence);
        set_text(reply, reply->status, "text/plain", line);
    }
    reply->retry_after_s = retry_after_s;
}

static void on_answered(void *ctx, const struct tern_http_answered *answered)
{
    const struct tern_admin *admin = ctx;
    tern_service_log_admin_request(admin->config.service, answered);
}

// --- Life

// Whether the token has only characters that a header can carry.
static bool is_token(const uint8_t *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~') {
            return false;
        }
    }
    return len >= TOKEN_MIN;
}

static enum tern_result read_token(struct tern_admin *admin, char why[256])
{
    const char *path = admin->config.token_file;
    uint8_t *data = NULL;
    size_t len = 0;
    enum tern_result result = tern_file_read(path, TOKEN_MAX, &data, &len);
    if (result != TERN_OK && result != TERN_ERR_TOO_LARGE) {
        snprintf(why, 256, "the admin token %s cannot be read: %s", path, strerror(errno));
        return TERN_ERR_CONFIG;
    }
    while (len > 0 && (data[len - 1] == '\n' || data[len - 1] == '\r' || data[len - 1] == ' ')) {
        len--;
    }
    if (!is_token(data, len)) {
        free(data);
        snprintf(why, 256,
                 "the admin token %s is not one line of %d to %d characters without spaces; "
                 "delete it, and serve makes a new one",
                 path, TOKEN_MIN, TOKEN_MAX);
        return TERN_ERR_CONFIG;
    }
    tern_sha256(data, len, admin->token_sha256);
    free(data);
    return TERN_OK;
}

bool tern_admin_may_listen_on(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0 ||
           strncmp(address, "unix:", 5) == 0;
}

static enum tern_result start(struct tern_admin *admin, char why[256])
{
    struct tern_http_config config = {.address = admin->config.address,
                                      .port = admin->config.port,
                                      .threads = 1,
                                      .limits = {.connections = 64,
                                                 .header_bytes = HEADER_BYTES,
                                                 .body_bytes = TERN_ADMIN_BODY_MAX}};
    struct tern_http_handler handler = {
        .ctx = admin,
        .on_headers = on_headers,
        .on_request = on_request,
        .on_metered = on_metered,
        .on_refusal = on_refusal,
        .on_answered = on_answered,
    };
    if (!tern_admin_may_listen_on(admin->config.address)) {
        snprintf(why, 256, "admin.address %s is not loopback (127.0.0.1, ::1) or unix:/path",
                 admin->config.address);
        return TERN_ERR_CONFIG;
    }
    TERN_TRY(read_token(admin, why));
    TERN_TRY(tern_tools_start(&admin->tools, admin->config.tool_options));
    if (tern_admin_name_cookie(admin) != TERN_OK) {
        snprintf(why, 256, "cannot read random bytes: %s", strerror(errno));
        return TERN_ERR_IO;
    }
    return tern_http_start(&config, &handler, &admin->server, why);
}

static void free_admin(struct tern_admin *admin)
{
    tern_tools_stop(&admin->tools);
    cJSON_Delete(admin->settings);
    pthread_mutex_destroy(&admin->settings_lock);
    free(admin);
}

void tern_admin_set_settings(struct tern_admin *admin, cJSON *settings)
{
    pthread_mutex_lock(&admin->settings_lock);
    cJSON *before = admin->settings;
    admin->settings = settings;
    pthread_mutex_unlock(&admin->settings_lock);
    cJSON_Delete(before);
}

enum tern_result tern_admin_start(const struct tern_admin_config *config, struct tern_admin **out,
                                  char why[256])
{
    struct tern_admin *admin = calloc(1, sizeof *admin);
    if (admin == NULL) {
        snprintf(why, 256, "%s", tern_result_sentence(TERN_ERR_NO_MEMORY));
        return TERN_ERR_NO_MEMORY;
    }
    admin->config = *config;
    pthread_mutex_init(&admin->settings_lock, NULL);
    enum tern_result result = start(admin, why);
    if (result != TERN_OK) {
        free_admin(admin);
        return result;
    }
    *out = admin;
    return TERN_OK;
}

uint16_t tern_admin_port(const struct tern_admin *admin)
{
    return tern_http_port(admin->server);
}

void tern_admin_stop(struct tern_admin *admin, uint32_t grace_ms)
{
    if (admin != NULL) {
        tern_tools_cancel(&admin->tools);
        tern_http_stop(admin->server, grace_ms);
        free_admin(admin);
    }
}
