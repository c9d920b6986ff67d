// What runs on the listeners' threads: checks before a body is read, then taking a request apart,
// hashing and inspecting it, so that the service thread is left with little more than the store.
#include "service/caches.h"
#include "service/credentials.h"
#include "service/internal.h"
#include "service/parse.h"

#include <stdlib.h>
#include <string.h>

// --- Routes

struct route {
    enum request_kind kind;
    const char *method;
    enum tern_purpose purpose;
};

#define HEALTH_PATH "/healthz"
#define READY_PATH "/readyz"

static const struct route routes[] = {
    {REQUEST_ENROLL, "POST", TERN_PURPOSE_ENROLL},
    {REQUEST_CHECKIN, "POST", TERN_PURPOSE_CHECKIN},
    {REQUEST_DOWNLOAD, "GET", TERN_PURPOSE_DOWNLOAD},
    {REQUEST_AUTHORIZE, "GET", TERN_PURPOSE_DOWNLOAD},
    {REQUEST_UPDATE, "PUT", TERN_PURPOSE_UPLOAD},
    {REQUEST_PROGRESS, "GET", TERN_PURPOSE_UPLOAD},
    {REQUEST_STATISTICS, "PUT", TERN_PURPOSE_UPLOAD},
    {REQUEST_SCALING, "GET", TERN_PURPOSE_CHECKIN},
};

// Of a path that has two methods: the one that asks, or the other.
static const struct route *of_method(enum request_kind asks, enum request_kind other,
                                     const char *method)
{
    return &routes[strcmp(method, routes[asks].method) == 0 ? asks : other];
}

// The route of a path, or NULL when there is nothing there.
static const struct route *route_of(const char *path, const char *method)
{
    uint8_t sha256[TERN_SHA256_SIZE];
    uint32_t round;
    uint32_t sequence;
    if (strcmp(path, TERN_PATH_ENROLL) == 0) {
        return &routes[REQUEST_ENROLL];
    }
    if (strcmp(path, TERN_PATH_CHECKIN) == 0) {
        return &routes[REQUEST_CHECKIN];
    }
    if (strcmp(path, TERN_PATH_STATISTICS) == 0) {
        return of_method(REQUEST_SCALING, REQUEST_STATISTICS, method);
    }
    if (tern_path_parse_download(path, sha256) == TERN_OK) {
        return &routes[REQUEST_DOWNLOAD];
    }
    if (tern_cache_parse_path(path, sha256) == TERN_OK) {
        return &routes[REQUEST_AUTHORIZE];
    }
    if (tern_path_parse_update(path, &round, &sequence) == TERN_OK) {
        return of_method(REQUEST_PROGRESS, REQUEST_UPDATE, method);
    }
    return NULL;
}

// Asked by whoever watches over the service, without credentials.
static bool is_probe(const char *path)
{
    return strcmp(path, HEALTH_PATH) == 0 || strcmp(path, READY_PATH) == 0;
}

static size_t body_limit(const struct tern_service *service, const struct route *route)
{
    if (route->kind == REQUEST_UPDATE) {
        return tern_federation_update_max(service->federation);
    }
    if (route->kind == REQUEST_STATISTICS) {
        return tern_federation_statistics_max(service->federation);
    }
    return strcmp(route->method, "GET") == 0 ? 0 : TERN_WIRE_MESSAGE_MAX;
}

// Whether who asks may ask for that; *client is set to whom a token or a handshake proved. A client
// that is proven has enrolled: it cannot do so as another.
static enum tern_result check_client(struct tern_service *service, const struct route *route,
                                     const struct tern_http_request *request, uint64_t *client)
{
    enum tern_result result = TERN_OK;
    if (route->kind != REQUEST_ENROLL) {
        result = tern_request_authenticate(service, request, client);
    } else if (request->psk_client != 0) {
        result = TERN_ERR_UNAUTHORIZED;
    }
    if (result != TERN_OK) {
        *client = 0;
        atomic_fetch_add(&service->unauthorized, 1);
    }
    return result;
}

// Where another aggregator leads, a client that has enrolled just now may be one that it knows of and this one not yet.
static bool may_be_new(struct tern_service *service, const struct route *route,
                       const struct tern_http_request *request)
{
    return atomic_load(&service->follows) && route->kind != REQUEST_ENROLL &&
           request->psk_client == 0 && tern_gate_is_strange(service->gate, request->authorization);
}

// Checks who asks for what. Returns 0 or the status to refuse with; *client is set for those that
// need one, *limit to the most bytes that the body may have; *unproven: who it is is found out later.
static int check_headers(struct tern_service *service, const struct tern_http_request *request,
                         uint64_t *client, size_t *limit, bool *unproven)
{
    *client = 0;
    *limit = 0;
    *unproven = false;
    if (is_probe(request->path)) {
        return strcmp(request->method, "GET") == 0 ? 0 : 405;
    }
    const struct route *route = route_of(request->path, request->method);
    if (route == NULL) {
        return 404;
    }
    if (strcmp(request->method, route->method) != 0) {
        return 405;
    }
    if (route->kind == REQUEST_AUTHORIZE && !request->of_cache) {
        return 403;
    }
    *limit = body_limit(service, route);
    if (may_be_new(service, route, request)) {
        *unproven = true;
        *limit = *limit < TERN_WIRE_MESSAGE_MAX ? *limit : TERN_WIRE_MESSAGE_MAX;
        return 0;
    }
    if (check_client(service, route, request, client) != TERN_OK) {
        return 401;
    }
    return 0;
}

// Whether the body of an update may count, by what its path says, or why not. A short one is read all
// the same.
static enum tern_result worth_reading(struct tern_service *service,
                                      const struct tern_http_request *request, uint64_t client,
                                      uint64_t content_length)
{
    uint32_t round;
    uint32_t sequence;
    if (content_length <= TERN_WIRE_MESSAGE_MAX ||
        tern_path_parse_update(request->path, &round, &sequence) != TERN_OK) {
        return TERN_OK;
    }
    return tern_federation_expects(service->federation, client, round);
}

// What is refused here is a request like any other: it counts for the client's rate.
static int refuse_early(struct tern_service *service, const struct tern_http_request *request,
                        uint64_t client, int status)
{
    if (tern_request_over_rate(service, request, client, REQUEST_UPDATE) != 0) {
        return 429;
    }
    return status;
}

// What an update's connection brings counts for its client, and is the client's to complete, also
// when the connection breaks before its end.
static void permit_update(struct tern_service *service, const struct tern_http_request *request,
                          uint64_t client, struct tern_http_permit *permit)
{
    uint32_t round;
    uint32_t sequence;
    if (strcmp(request->method, routes[REQUEST_UPDATE].method) == 0 &&
        tern_path_parse_update(request->path, &round, &sequence) == TERN_OK) {
        permit->owner = client;
        permit->tag.client = client;
        permit->tag.purpose = TERN_PURPOSE_UPLOAD;
        tern_request_tag_round(service, round, &permit->tag);
    }
}

// What a client sends that is too large, or for nothing, is refused before its body is read.
static int on_headers(void *ctx, const struct tern_http_request *request, uint64_t content_length,
                      struct tern_http_permit *permit)
{
    uint64_t client;
    size_t limit;
    bool unproven;
    int status = check_headers(ctx, request, &client, &limit, &unproven);
    permit->known = client != 0;
    // Connections of a cache, or of the proxy that it is part of, bring requests of many clients.
    permit->client = request->of_cache ? 0 : client;
    permit->body_limit = limit < permit->body_limit ? (uint32_t)limit : permit->body_limit;
    if (unproven && content_length > permit->body_limit) {
        return 503; // a moment later it is known, or refused
    }
    if (status != 0 || client == 0) {
        return status;
    }
    if (content_length > permit->body_limit) {
        return refuse_early(ctx, request, client, 413);
    }
    const enum tern_result worth = worth_reading(ctx, request, client, content_length);
    if (worth != TERN_OK) {
        status = refuse_early(ctx, request, client, 422);
        permit->refusal = status == 422 ? worth : TERN_OK;
        return status;
    }
    permit_update(ctx, request, client, permit);
    return 0;
}

// An update that was cut is kept while its client may come back and send the rest.
static bool awaits(void *ctx, uint64_t client, const char *path)
{
    struct tern_service *service = ctx;
    uint32_t round;
    uint32_t sequence;
    return tern_gate_admits(service->gate, client) &&
           tern_path_parse_update(path, &round, &sequence) == TERN_OK &&
           tern_federation_expects(service->federation, client, round) == TERN_OK;
}

// A client that was revoked has no place of its own, though it may have a ticket.
static bool admits(void *ctx, uint64_t client)
{
    struct tern_service *service = ctx;
    return tern_gate_admits(service->gate, client);
}

// --- Requests

static void reply_now(struct tern_http_exchange *exchange, int status)
{
    struct tern_http_reply reply = {.status = status, .retry_after_s = status == 503 ? 1 : 0};
    tern_http_reply(exchange, &reply);
}

// Strangers learn that nothing can be stored, operators on their own listener also why.
static void reply_probe(struct tern_service *service, const char *path,
                        struct tern_http_exchange *exchange)
{
    char why[256];
    const bool is_good = strcmp(path, HEALTH_PATH) == 0 || tern_service_stores(service, why);
    const char *text = is_good ? "ok\n" : "nothing can be stored\n";
    struct tern_http_tag tag = {.purpose = TERN_PURPOSE_CHECKIN};
    struct tern_http_reply reply = {
        .status = is_good ? 200 : 503, .retry_after_s = is_good ? 0 : 1, .type = "text/plain"};
    reply.body = tern_blob_new(strlen(text));
    if (reply.body != NULL) {
        memcpy(reply.body->data, text, strlen(text));
    }
    tern_http_exchange_tag(exchange, &tag);
    tern_http_reply(exchange, &reply);
}

// Or refuses it, where it would wait behind too many, or for a store that does not answer.
static void queue(struct tern_service *service, struct request *request)
{
    const bool is_stuck = tern_service_is_stuck(service);
    if (is_stuck || !tern_request_queue_put(&service->queue, request)) {
        tern_answer_refusal(
            request, 503, TERN_ERR_BUSY,
            is_stuck ? "The aggregator waits for its database, which has timed out. Nothing "
                       "changed; try again later."
                     : "Too many requests wait for the aggregator. Nothing changed; try again.");
        tern_answer_elsewhere(request, is_stuck && service->config.sharing != NULL);
        tern_answer_send(request);
    }
}

static void admit(struct tern_service *service, const struct tern_http_request *http,
                  const struct route *route, uint64_t client, bool unproven,
                  struct tern_http_exchange *exchange)
{
    struct request *request = calloc(1, sizeof *request);
    if (request == NULL) {
        reply_now(exchange, 503);
        return;
    }
    request->exchange = exchange;
    request->kind = route->kind;
    request->client = client;
    request->unproven = unproven;
    request->tag.client = client;
    request->tag.purpose = route->purpose;
    request->tag.of_cache =
        route->kind == REQUEST_AUTHORIZE || (route->kind == REQUEST_DOWNLOAD && http->of_cache);
    uint32_t wait = unproven ? 0 : tern_request_over_rate(service, http, client, route->kind);
    if (wait != 0) {
        tern_answer_refusal(request, 429, TERN_ERR_BUSY,
                            client == 0 ? "Too many enrolments came from this address within a "
                                          "minute; try again later."
                                        : "Too many requests of this client came within a minute; "
                                          "try again later.");
        request->reply.retry_after_s = wait;
        tern_answer_send(request);
        return;
    }
    request->parsed = tern_request_parse(service, http, request);
    if (request->kind == REQUEST_PROGRESS) {
        request->u.progress.kept =
            tern_http_exchange_unfinished(exchange, client, &request->u.progress.unfinished);
    }
    tern_http_exchange_rest(exchange);
    queue(service, request);
}

static void refuse(struct tern_http_exchange *exchange)
{
    struct request *request = calloc(1, sizeof *request);
    if (request == NULL) {
        reply_now(exchange, 401);
        return;
    }
    request->exchange = exchange;
    request->tag.purpose = TERN_PURPOSE_CHECKIN;
    tern_answer_error(request, 401, TERN_ERR_UNAUTHORIZED);
    tern_answer_send(request);
}

static void on_request(void *ctx, struct tern_http_exchange *exchange)
{
    struct tern_service *service = ctx;
    const struct tern_http_request *http = tern_http_exchange_request(exchange);
    if (is_probe(http->path)) {
        reply_probe(service, http->path, exchange);
        return;
    }
    // Once more: a token may have been revoked while the body came in.
    uint64_t client;
    size_t limit;
    bool unproven;
    if (check_headers(service, http, &client, &limit, &unproven) != 0) {
        refuse(exchange);
        return;
    }
    admit(service, http, route_of(http->path, http->method), client, unproven, exchange);
}

// Of a cache, what it sends its client counts for that, and not what went between it and here.
static void on_metered(void *ctx, const struct tern_http_tag *tag, const struct tern_bytes *up,
                       const struct tern_bytes *down)
{
    struct tern_service *service = ctx;
    struct tern_db_meter row = {.client = tag->client,
                                .round = tag->round,
                                .purpose = tag->purpose,
                                .up = *up,
                                .down = *down,
                                .exchanges = 1};
    if (tag->of_cache) {
        atomic_fetch_add(&service->cache_bytes[TERN_UP], up->wire);
        atomic_fetch_add(&service->cache_bytes[TERN_DOWN], down->wire);
        tern_cache_model(tag, &row.up, &row.down);
    }
    if (!tag->of_cache || tag->cache_sends > 0) {
        tern_metering_add(service->metering, &row);
    }
}

static void on_answered(void *ctx, const struct tern_http_answered *answered)
{
    struct tern_service *service = ctx;
    tern_access_log_answered(&service->access, "clients", answered,
                             tern_service_monotonic(service));
}

static void on_handshake_failed(void *ctx, const char *peer, const char *why)
{
    struct tern_service *service = ctx;
    tern_access_log_handshake(&service->access, peer, why, tern_service_monotonic(service));
}

void tern_service_answered_admin(struct tern_service *service,
                                 const struct tern_http_answered *answered)
{
    tern_access_log_answered(&service->access, "admin", answered, tern_service_monotonic(service));
}

// In a handshake, on the listener's thread.
static bool find_psk(void *ctx, uint64_t client, uint8_t key[TERN_HTTP_PSK_SIZE])
{
    struct tern_service *service = ctx;
    return tern_psk_keys_find(&service->psk_keys, client, key);
}

_Static_assert(TERN_HTTP_PSK_SIZE == TERN_PSK_SIZE, "one key");

struct tern_http_handler tern_service_handler(struct tern_service *service)
{
    return (struct tern_http_handler){.ctx = service,
                                      .on_headers = on_headers,
                                      .awaits = awaits,
                                      .admits = admits,
                                      .on_request = on_request,
                                      .psk = service->config.psk ? find_psk : NULL,
                                      .on_metered = on_metered,
                                      .on_handshake_failed = on_handshake_failed,
                                      .on_answered = on_answered};
}

void tern_service_submit(struct tern_service *service, struct tern_http_exchange *exchange,
                         tern_service_job job, tern_service_refuse refusal, void *ctx)
{
    struct request *request = calloc(1, sizeof *request);
    if (request == NULL) {
        free(ctx);
        reply_now(exchange, 503);
        return;
    }
    request->exchange = exchange;
    request->kind = REQUEST_JOB;
    request->u.job = (struct job_request){job, refusal, ctx};
    queue(service, request);
}
