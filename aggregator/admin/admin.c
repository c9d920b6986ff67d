#include "admin/admin.h"

#include "admin/internal.h"
#include "hosted/files.h"
#include "util/bytes.h"
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BODY_MAX 4096
#define TOKEN_MIN 16
#define TOKEN_MAX 200
#define REVOKE_PREFIX "/api/v1/clients/"
#define REVOKE_SUFFIX "/revoke"

// Of one list: clients' updates wait while the service thread makes it.
#define LIST_LIMIT 1000

#define CODE_USES_DEFAULT 1
#define CODE_USES_MAX 1000000
#define CODE_EXPIRES_S_DEFAULT 86400
#define CODE_EXPIRES_S_MAX 31536000

struct tern_admin {
    struct tern_admin_config config;
    uint8_t token_sha256[TERN_SHA256_SIZE];
    struct tern_http_server *server;
};

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

static void reply_healthy(const struct tern_admin *admin, struct tern_http_reply *reply)
{
    (void)admin;
    set_text(reply, 200, "text/plain", "ok\n");
}

static void reply_ready(const struct tern_admin *admin, struct tern_http_reply *reply)
{
    char why[256];
    char text[sizeof why + 1];
    if (tern_service_stores(admin->config.service, why)) {
        set_text(reply, 200, "text/plain", "ok\n");
        return;
    }
    snprintf(text, sizeof text, "%s\n", why);
    set_text(reply, 503, "text/plain", text);
}

static void reply_page(const struct tern_admin *admin, struct tern_http_reply *reply)
{
    (void)admin;
    set_text(reply, 200, "text/html; charset=utf-8", tern_admin_page);
}

static void reply_metrics(const struct tern_admin *admin, struct tern_http_reply *reply)
{
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

// --- Routes

struct route {
    const char *path; // NULL: a client's revoke path
    const char *method;
    bool open;            // no token needed
    tern_service_job job; // or:
    void (*reply)(const struct tern_admin *admin, struct tern_http_reply *reply);
};

static const struct route routes[] = {
    {"/healthz", "GET", true, NULL, reply_healthy},
    {"/readyz", "GET", true, NULL, reply_ready},
    {"/", "GET", true, NULL, reply_page},
    {"/metrics", "GET", false, NULL, reply_metrics},
    {"/api/v1/status", "GET", false, tern_admin_status, NULL},
    {"/api/v1/clients", "GET", false, tern_admin_clients, NULL},
    {"/api/v1/rounds", "GET", false, tern_admin_rounds, NULL},
    {"/api/v1/enroll-codes", "POST", false, tern_admin_enroll_code, NULL},
    {NULL, "POST", false, tern_admin_revoke, NULL},
};

// The id in /api/v1/clients/{id}/revoke; 0 when the path is not of this form.
static uint64_t revoked_client(const char *path)
{
    size_t prefix = strlen(REVOKE_PREFIX);
    uint64_t id = 0;
    if (strncmp(path, REVOKE_PREFIX, prefix) != 0) {
        return 0;
    }
    const char *end = tern_get_decimal(path + prefix, &id);
    return id <= UINT32_MAX && strcmp(end, REVOKE_SUFFIX) == 0 ? id : 0;
}

static const struct route *route_of(const char *path)
{
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        bool is_it =
            routes[i].path != NULL ? strcmp(routes[i].path, path) == 0 : revoked_client(path) != 0;
        if (is_it) {
            return &routes[i];
        }
    }
    return NULL;
}

// Hashes first, so that the comparison takes the same time for every length and content.
static bool is_admin(const struct tern_admin *admin, const char *authorization)
{
    const char *token = tern_http_bearer(authorization);
    if (token == NULL) {
        return false;
    }
    uint8_t sha256[TERN_SHA256_SIZE];
    tern_sha256(token, strlen(token), sha256);
    return tern_equal_constant_time(sha256, admin->token_sha256, TERN_SHA256_SIZE);
}

// A page of a stranger that a browser of this machine shows could give its own name this machine's
// address (DNS rebinding). Only names of this machine are answered, whatever port a tunnel has given
// them. Behind a path there is no such name.
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
    const struct route *route = route_of(request->path);
    (void)content_length;
    permit->known = is_admin(ctx, request->authorization);
    if (!is_own_host(ctx, request->host)) {
        return 421;
    }
    if (route == NULL) {
        return 404;
    }
    if (strcmp(request->method, route->method) != 0) {
        return 405;
    }
    if (!route->open && !permit->known) {
        return 401;
    }
    permit->body_limit = strcmp(route->method, "POST") == 0 ? BODY_MAX : 0;
    return 0;
}

// --- Requests

// A whole number of the object between 1 and most; `fallback` when it is absent.
static bool take_number(const cJSON *json, const char *name, double fallback, double most,
                        double *value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, name);
    *value = item == NULL ? fallback : cJSON_GetNumberValue(item);
    return *value >= 1.0 && *value <= most;
}

// Reads the body of POST /enroll-codes; an empty one takes the defaults.
static bool parse_code(const struct tern_http_request *request, struct admin_job *job)
{
    cJSON *json = request->body_len == 0
                      ? cJSON_CreateObject()
                      : cJSON_ParseWithLength((const char *)request->body, request->body_len);
    double uses = 0;
    double expires_s = 0;
    const cJSON *label = cJSON_GetObjectItemCaseSensitive(json, "label");
    const char *text = label == NULL ? "" : cJSON_GetStringValue(label);
    const cJSON *tags = cJSON_GetObjectItemCaseSensitive(json, "tags");
    const char *tags_text = tags == NULL ? "" : cJSON_GetStringValue(tags);
    char why[TERN_TAG_WHY_MAX];
    bool good =
        cJSON_IsObject(json) && tags_text != NULL &&
        tern_tags_parse(tags_text, job->tags, why) == TERN_OK && text != NULL &&
        strlen(text) < sizeof job->label &&
        take_number(json, "uses", CODE_USES_DEFAULT, CODE_USES_MAX, &uses) &&
        take_number(json, "expires_s", CODE_EXPIRES_S_DEFAULT, CODE_EXPIRES_S_MAX, &expires_s);
    if (good) {
        job->uses = (uint32_t)uses;
        job->expires_ms = (uint64_t)expires_s * 1000;
        memcpy(job->label, text, strlen(text) + 1);
    }
    cJSON_Delete(json);
    return good;
}

// Reads "name=NUMBER" off the query and moves it on; false when it is not that, or out of range.
static bool take_parameter(const char **query, const char *name, uint64_t least, uint64_t most,
                           uint32_t *value)
{
    size_t len = strlen(name);
    uint64_t number = 0;
    if (strncmp(*query, name, len) != 0 || (*query)[len] != '=') {
        return false;
    }
    const char *digits = *query + len + 1;
    const char *at = tern_get_decimal(digits, &number);
    if (at == digits || number < least || number > most || (*at != '\0' && *at != '&')) {
        return false;
    }
    *value = (uint32_t)number;
    *query = *at == '&' ? at + 1 : at;
    return true;
}

// Reads "limit=N&after=N", both optional, in any order.
static bool parse_list(const char *query, struct admin_job *job)
{
    job->limit = LIST_LIMIT;
    while (*query != '\0') {
        if (!take_parameter(&query, "limit", 1, LIST_LIMIT, &job->limit) &&
            !take_parameter(&query, "after", 0, UINT32_MAX - LIST_LIMIT, &job->after)) {
            return false;
        }
    }
    return true;
}

// What is wrong with a request of a job, as a sentence; NULL when nothing is.
static const char *parse(const struct route *route, const struct tern_http_request *request,
                         struct admin_job *job)
{
    job->client = revoked_client(request->path);
    if (route->job == tern_admin_enroll_code && !parse_code(request, job)) {
        return "Send {\"uses\": 1..1000000, \"expires_s\": 1..31536000, \"label\": text, "
               "\"tags\": \"site=a,line=3\"}.";
    }
    bool lists = route->job == tern_admin_clients || route->job == tern_admin_rounds;
    if (lists && !parse_list(request->query, job)) {
        return "A list takes ?limit=1..1000 and &after= the last id or round that is known.";
    }
    return NULL;
}

static void submit(struct tern_admin *admin, const struct route *route,
                   const struct tern_http_request *request, struct tern_http_exchange *exchange)
{
    struct tern_http_reply reply = {.status = 503, .retry_after_s = 1};
    struct admin_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        tern_http_reply(exchange, &reply);
        return;
    }
    const char *wrong = parse(route, request, job);
    if (wrong != NULL) {
        free(job);
        tern_admin_reply_error(&reply, 422, TERN_ERR_ARGUMENT, wrong);
        tern_http_reply(exchange, &reply);
        return;
    }
    tern_service_submit(admin->config.service, exchange, route->job, job);
}

static void on_request(void *ctx, struct tern_http_exchange *exchange)
{
    struct tern_admin *admin = ctx;
    const struct tern_http_request *request = tern_http_exchange_request(exchange);
    const struct route *route = route_of(request->path);
    if (route->job != NULL) {
        submit(admin, route, request, exchange);
        return;
    }
    struct tern_http_reply reply;
    route->reply(admin, &reply);
    tern_http_reply(exchange, &reply);
}

// The admin side's bytes never cross the metered link.
static void on_metered(void *ctx, const struct tern_http_tag *tag, const struct tern_bytes *up,
                       const struct tern_bytes *down)
{
    (void)ctx;
    (void)tag;
    (void)up;
    (void)down;
}

static void on_answered(void *ctx, const struct tern_http_answered *answered)
{
    const struct tern_admin *admin = ctx;
    tern_service_answered_admin(admin->config.service, answered);
}

// --- Life

// No header carries a token with other characters.
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

// Plain text is for this machine only.
static bool is_local(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0 ||
           strncmp(address, "unix:", 5) == 0;
}

static enum tern_result start(struct tern_admin *admin, char why[256])
{
    struct tern_http_config config = {.address = admin->config.address,
                                      .port = admin->config.port,
                                      .threads = 1,
                                      .limits = {.connections = 64, .body_bytes = BODY_MAX}};
    struct tern_http_handler handler = {
        .ctx = admin,
        .on_headers = on_headers,
        .on_request = on_request,
        .on_metered = on_metered,
        .on_answered = on_answered,
    };
    if (!is_local(admin->config.address)) {
        snprintf(why, 256, "admin.address %s is not loopback (127.0.0.1, ::1) or unix:/path",
                 admin->config.address);
        return TERN_ERR_CONFIG;
    }
    TERN_TRY(read_token(admin, why));
    return tern_http_start(&config, &handler, &admin->server, why);
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
    enum tern_result result = start(admin, why);
    if (result != TERN_OK) {
        free(admin);
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
        tern_http_stop(admin->server, grace_ms);
        free(admin);
    }
}
