// What runs on the listeners' threads: checks before a body is read, then taking a request apart,
// hashing and inspecting it, so that the service thread is left with little more than the store.
#include "service/internal.h"

#include <stdlib.h>
#include <string.h>

// --- Routes

struct route {
    enum request_kind kind;
    const char *method;
    enum tern_purpose purpose;
};

#define HEALTH_PATH "/healthz"

static const struct route routes[] = {
    {REQUEST_ENROLL, "POST", TERN_PURPOSE_ENROLL},
    {REQUEST_CHECKIN, "POST", TERN_PURPOSE_CHECKIN},
    {REQUEST_DOWNLOAD, "GET", TERN_PURPOSE_DOWNLOAD},
    {REQUEST_UPDATE, "PUT", TERN_PURPOSE_UPLOAD},
};

// The route of a path, or NULL when there is nothing there.
static const struct route *route_of(const char *path)
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
    if (tern_path_parse_download(path, sha256) == TERN_OK) {
        return &routes[REQUEST_DOWNLOAD];
    }
    if (tern_path_parse_update(path, &round, &sequence) == TERN_OK) {
        return &routes[REQUEST_UPDATE];
    }
    return NULL;
}

static size_t body_limit(const struct tern_service *service, const struct route *route)
{
    if (route->kind == REQUEST_UPDATE) {
        return tern_federation_update_max(service->federation);
    }
    return route->kind == REQUEST_DOWNLOAD ? 0 : TERN_WIRE_MESSAGE_MAX;
}

// Whose request it is. On a connection with a pre-shared key it is the client's whom the handshake
// proved, and a token need not say so again; if one is there it must be the same client's.
static enum tern_result authenticate(struct tern_service *service,
                                     const struct tern_http_request *request, uint64_t *client)
{
    if (request->psk_client == 0) {
        return tern_gate_client(service->gate, request->authorization, client);
    }
    // A revoked client has no key any more.
    if (!tern_psk_keys_find(&service->psk_keys, request->psk_client, NULL)) {
        return TERN_ERR_UNAUTHORIZED;
    }
    *client = request->psk_client;
    if (request->authorization[0] == '\0') {
        return TERN_OK;
    }
    uint64_t of_token = 0;
    TERN_TRY(tern_gate_client(service->gate, request->authorization, &of_token));
    return of_token == request->psk_client ? TERN_OK : TERN_ERR_UNAUTHORIZED;
}

// Whether who asks may ask for that; *client is set to whom a token or a handshake proved. A client
// that is proven has enrolled: it cannot do so as another.
static enum tern_result check_client(struct tern_service *service, const struct route *route,
                                     const struct tern_http_request *request, uint64_t *client)
{
    enum tern_result result = TERN_OK;
    if (route->kind != REQUEST_ENROLL) {
        result = authenticate(service, request, client);
    } else if (request->psk_client != 0) {
        result = TERN_ERR_UNAUTHORIZED;
    }
    if (result != TERN_OK) {
        *client = 0;
        atomic_fetch_add(&service->unauthorized, 1);
    }
    return result;
}

// Checks who asks for what. Returns 0 or the status to refuse with; *client is set for those that
// need one, *limit to the most bytes that the body may have.
static int check_headers(struct tern_service *service, const struct tern_http_request *request,
                         uint64_t *client, size_t *limit)
{
    *client = 0;
    *limit = 0;
    if (strcmp(request->path, HEALTH_PATH) == 0) {
        return strcmp(request->method, "GET") == 0 ? 0 : 405;
    }
    const struct route *route = route_of(request->path);
    if (route == NULL) {
        return 404;
    }
    if (strcmp(request->method, route->method) != 0) {
        return 405;
    }
    if (check_client(service, route, request, client) != TERN_OK) {
        return 401;
    }
    *limit = body_limit(service, route);
    return 0;
}

// Seconds that the peer has to wait before another request, 0 = none.
static uint32_t over_rate(struct tern_service *service, const struct tern_http_request *http,
                          uint64_t client, enum request_kind kind)
{
    uint64_t now = tern_service_monotonic(service);
    uint32_t wait = kind == REQUEST_ENROLL
                        ? tern_gate_enrollment(service->gate, &http->address, now)
                        : tern_gate_request(service->gate, client, now);
    if (wait != 0) {
        atomic_fetch_add(&service->rate_limited, 1);
    }
    return wait;
}

// Whether the body of an update may count, by what its path says. A short one is read all the same:
// its answer has the name of what is wrong.
static bool is_worth_reading(struct tern_service *service, const struct tern_http_request *request,
                             uint64_t client, uint64_t content_length)
{
    uint32_t round;
    uint32_t sequence;
    return content_length <= TERN_WIRE_MESSAGE_MAX ||
           tern_path_parse_update(request->path, &round, &sequence) != TERN_OK ||
           tern_federation_expects(service->federation, client, round);
}

// What is refused here is a request like any other: it counts for the client's rate.
static int refuse_early(struct tern_service *service, const struct tern_http_request *request,
                        uint64_t client, int status, uint64_t content_length)
{
    if (over_rate(service, request, client, REQUEST_UPDATE) != 0) {
        return 429;
    }
    if (tern_gate_log(service->gate, tern_service_monotonic(service))) {
        tern_log(TERN_LOG_WARN, "refused-early", "client=%llu peer=%s path=%s bytes=%llu status=%d",
                 (unsigned long long)client, request->peer, TERN_LOG_TEXT(request->path),
                 (unsigned long long)content_length, status);
    }
    return status;
}

// What a client sends that is too large, or for nothing, is refused before its body is read.
static int on_headers(void *ctx, const struct tern_http_request *request, uint64_t content_length,
                      uint32_t *body_limit)
{
    uint64_t client;
    size_t limit;
    int status = check_headers(ctx, request, &client, &limit);
    *body_limit = limit < *body_limit ? (uint32_t)limit : *body_limit;
    if (status != 0 || client == 0) {
        return status;
    }
    if (content_length > *body_limit) {
        return refuse_early(ctx, request, client, 413, content_length);
    }
    return is_worth_reading(ctx, request, client, content_length)
               ? 0
               : refuse_early(ctx, request, client, 422, content_length);
}

// --- Taking bodies apart

static enum tern_result parse_update(struct tern_service *service,
                                     const struct tern_http_request *http, struct request *request)
{
    struct tern_incoming *update = &request->u.update;
    update->client = request->client;
    update->body = (struct tern_span){http->body, http->body_len};
    TERN_TRY(tern_path_parse_update(http->path, &update->round, &update->sequence));
    tern_federation_read_update(service->federation, update);
    // The meter has a row for each round of a client: of rounds that there are, not of any number.
    if (tern_federation_knows(service->federation, update->round)) {
        request->tag.round = update->round;
    }
    request->tag.payload_up = update->parsed == TERN_OK ? update->payload : 0;
    return update->parsed;
}

static enum tern_result parse_body(struct tern_service *service,
                                   const struct tern_http_request *http, struct request *request)
{
    switch (request->kind) {
    case REQUEST_ENROLL:
        return tern_wire_decode_enroll_request(http->body, http->body_len, &request->u.enroll);
    case REQUEST_CHECKIN:
        return tern_wire_decode_checkin_request(http->body, http->body_len, &request->u.checkin);
    case REQUEST_DOWNLOAD:
        request->u.download.from = http->range_from;
        return tern_path_parse_download(http->path, request->u.download.sha256);
    case REQUEST_UPDATE:
        return parse_update(service, http, request);
    case REQUEST_JOB:
        break;
    }
    return TERN_ERR_ARGUMENT;
}

// --- Requests

static void reply_now(struct tern_http_exchange *exchange, int status)
{
    struct tern_http_reply reply = {.status = status, .retry_after_s = status == 503 ? 1 : 0};
    tern_http_reply(exchange, &reply);
}

static void reply_healthy(struct tern_http_exchange *exchange)
{
    struct tern_http_tag tag = {.purpose = TERN_PURPOSE_CHECKIN};
    struct tern_http_reply reply = {.status = 200, .type = "text/plain"};
    reply.body = tern_blob_new(3);
    if (reply.body != NULL) {
        memcpy(reply.body->data, "ok\n", 3);
    }
    tern_http_exchange_tag(exchange, &tag);
    tern_http_reply(exchange, &reply);
}

static void admit(struct tern_service *service, const struct tern_http_request *http,
                  const struct route *route, uint64_t client, struct tern_http_exchange *exchange)
{
    struct request *request = calloc(1, sizeof *request);
    if (request == NULL) {
        reply_now(exchange, 503);
        return;
    }
    request->exchange = exchange;
    request->kind = route->kind;
    request->client = client;
    request->tag.client = client;
    request->tag.purpose = route->purpose;
    uint32_t wait = over_rate(service, http, client, route->kind);
    if (wait != 0) {
        tern_answer_error(request, 429, TERN_ERR_BUSY);
        request->reply.retry_after_s = wait;
        tern_answer_send(request);
        return;
    }
    request->parsed = parse_body(service, http, request);
    tern_http_exchange_rest(exchange);
    if (!tern_request_queue_put(&service->queue, request)) {
        tern_answer_error(request, 503, TERN_ERR_BUSY);
        tern_answer_send(request);
    }
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
    if (strcmp(http->path, HEALTH_PATH) == 0) {
        reply_healthy(exchange);
        return;
    }
    // Once more: a token may have been revoked while the body came in.
    uint64_t client;
    size_t limit;
    if (check_headers(service, http, &client, &limit) != 0) {
        refuse(exchange);
        return;
    }
    admit(service, http, route_of(http->path), client, exchange);
}

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
    tern_metering_add(service->metering, &row);
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
                                      .on_request = on_request,
                                      .psk = service->config.psk ? find_psk : NULL,
                                      .on_metered = on_metered};
}

void tern_service_submit(struct tern_service *service, struct tern_http_exchange *exchange,
                         tern_service_job job, void *ctx)
{
    struct request *request = calloc(1, sizeof *request);
    if (request == NULL) {
        free(ctx);
        reply_now(exchange, 503);
        return;
    }
    request->exchange = exchange;
    request->kind = REQUEST_JOB;
    request->u.job = (struct job_request){job, ctx};
    if (!tern_request_queue_put(&service->queue, request)) {
        tern_answer_error(request, 503, TERN_ERR_BUSY);
        tern_answer_send(request);
    }
}
