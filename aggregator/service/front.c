// Runs on the listeners' threads: routes and checks a request before its body is read, then parses and hashes the body, so
// that the service thread only has to run the transaction.
#include "service/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- HTTP caches between clients and the aggregator
//
// A cache asks the aggregator for each download whether the client may have it (docs/PROTOCOL.md, "Downloads from a cache").

#define TERN_PATH_AUTHORIZE "/v1/authorize/"

// Reads the hash of the download that a cache asks for. TERN_ERR_NOT_FOUND: the path is another one.
static enum tern_result parse_authorize(const char *path, uint8_t sha256[TERN_SHA256_SIZE])
{
    const size_t len = sizeof TERN_PATH_AUTHORIZE - 1;
    char download[TERN_PATH_MAX];
    if (strncmp(path, TERN_PATH_AUTHORIZE, len) != 0) {
        return TERN_ERR_NOT_FOUND;
    }
    const int whole = snprintf(download, sizeof download, TERN_PATH_DOWNLOADS "%s", path + len);
    return whole < (int)sizeof download ? tern_path_parse_download(download, sha256)
                                        : TERN_ERR_NOT_FOUND;
}

// Returns the HTTP bytes of the client's request to the cache. http: the request of the cache.
static uint32_t request_bytes(const struct tern_http_request *http,
                              const uint8_t sha256[TERN_SHA256_SIZE])
{
    char path[TERN_PATH_MAX];
    char range[48] = "";
    tern_path_download(sha256, path);
    if (http->range_from > 0) {
        snprintf(range, sizeof range, "Range: bytes=%" PRIu64 "-\r\n", http->range_from);
    }
    return (uint32_t)snprintf(NULL, 0, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: %s\r\n%s\r\n",
                              path, http->host, http->authorization, range);
}

// The model of shared/meter/meter.h: records of TLS 1.2, headers of IP and TCP with time stamps, and segments for links of
// 1,500 bytes. Every second segment has an acknowledgement.
#define RECORD_BYTES 16384u
#define RECORD_COST 29u
#define SEGMENT_BYTES 1400u
#define SEGMENT_COST 52u

static uint64_t parts(uint64_t bytes, uint32_t size)
{
    return (bytes + size - 1) / size;
}

static uint64_t encrypt(struct tern_bytes *bytes)
{
    bytes->tls = bytes->http + parts(bytes->http, RECORD_BYTES) * RECORD_COST;
    const uint64_t segments = parts(bytes->tls, SEGMENT_BYTES);
    bytes->wire = bytes->tls + segments * SEGMENT_COST;
    return segments;
}

// Estimates the bytes of the exchange between client and cache in all layers.
static void estimate_cached(const struct tern_http_tag *tag, struct tern_bytes *up,
                            struct tern_bytes *down)
{
    *up = (struct tern_bytes){.http = tag->cache_receives};
    *down = (struct tern_bytes){.payload = tag->payload_down, .http = tag->cache_sends};
    (void)encrypt(up);
    up->wire += parts(encrypt(down), 2) * SEGMENT_COST;
}

// --- Parsing

// Sets the tag's round; 0 if the round does not exist, since each round of a client has a row in the meter.
static void tag_round(struct tern_service *service, uint32_t round, struct tern_http_tag *tag)
{
    tag->round = tern_federation_has_opened(service->federation, round) ? round : 0;
}

static uint32_t enrollment_over_rate(struct tern_service *service,
                                     const struct tern_http_request *http, uint64_t now_ms)
{
    tern_EnrollRequest message;
    uint8_t code_hash[TERN_SHA256_SIZE];
    const bool is_read =
        tern_wire_decode_enroll_request(http->body, http->body_len, &message) == TERN_OK;
    if (is_read) {
        tern_join_code_hash(message.join_code, code_hash);
    }
    return tern_gate_enrollment(service->gate, &http->address, is_read ? code_hash : NULL, now_ms);
}

// Counts a request against the rate limits. Returns 0, or the seconds after which the peer may try again. A cache's download
// does not count, since its authorisation has counted already.
static uint32_t over_rate(struct tern_service *service, const struct tern_http_request *http,
                          uint64_t client, enum request_kind kind)
{
    if (kind == REQUEST_DOWNLOAD && http->peer_is_cache) {
        return 0;
    }
    uint64_t now = tern_service_monotonic(service);
    uint32_t wait = kind == REQUEST_ENROLL ? enrollment_over_rate(service, http, now)
                                           : tern_gate_request(service->gate, client, now);
    if (wait != 0) {
        atomic_fetch_add(&service->rate_limited, 1);
    }
    return wait;
}

static enum tern_result parse_update(struct tern_service *service,
                                     const struct tern_http_request *http, struct request *request)
{
    struct tern_incoming_update *update = &request->u.update;
    update->client = request->client;
    update->body = (struct tern_span){http->body, http->body_len};
    tern_federation_read_update(service->federation, update);
    tag_round(service, update->round, &request->tag);
    request->tag.payload_up = update->parsed == TERN_OK ? update->payload : 0;
    return update->parsed;
}

static enum tern_result parse_statistics(const struct tern_http_request *http,
                                         struct tern_incoming_statistics *statistics)
{
    statistics->body = (struct tern_span){http->body, http->body_len};
    statistics->parsed = tern_wire_decode_statistics(http->body, http->body_len,
                                                     &statistics->message, &statistics->columns);
    return statistics->parsed;
}

// Parses the path into request->u, by the request's kind. An error: the path is malformed.
static enum tern_result parse_path(const char *path, struct request *request)
{
    switch ((int)request->kind) {
    case REQUEST_DOWNLOAD:
        return tern_path_parse_download(path, request->u.download.sha256);
    case REQUEST_AUTHORIZE:
        return parse_authorize(path, request->u.download.sha256);
    case REQUEST_UPDATE:
        return tern_path_parse_update(path, &request->u.update.round, &request->u.update.sequence);
    case REQUEST_PROGRESS:
        return tern_path_parse_update(path, &request->u.progress.round,
                                      &request->u.progress.sequence);
    default: // the path has no parameters
        return TERN_OK;
    }
}

// Parses the body into request->u and sets the tag, after parse_path(). After an error the service thread sends the refusal,
// when it handles the request.
static enum tern_result parse(struct tern_service *service, struct request *request)
{
    const struct tern_http_request *http = tern_http_exchange_request(request->exchange);
    switch (request->kind) {
    case REQUEST_ENROLL:
        return tern_wire_decode_enroll_request(http->body, http->body_len, &request->u.enroll);
    case REQUEST_CHECKIN:
        return tern_wire_decode_checkin_request(http->body, http->body_len, &request->u.checkin);
    case REQUEST_DOWNLOAD:
        request->u.download.from = http->range_from;
        return TERN_OK;
    case REQUEST_AUTHORIZE:
        request->u.download.from = http->range_from;
        request->u.download.request_bytes = request_bytes(http, request->u.download.sha256);
        return TERN_OK;
    case REQUEST_UPDATE:
        return parse_update(service, http, request);
    case REQUEST_PROGRESS:
        tag_round(service, request->u.progress.round, &request->tag);
        return TERN_OK;
    case REQUEST_STATISTICS:
        return parse_statistics(http, &request->u.statistics);
    case REQUEST_SCALING:
        return TERN_OK;
    case REQUEST_JOB:
        break;
    }
    return TERN_ERR_ARGUMENT;
}

// --- Credentials

// A certificate must have the name of the token's client, so that a stolen certificate or token alone is useless.
static enum tern_result authenticate_by_token(struct tern_service *service,
                                              const struct tern_http_request *request,
                                              uint64_t *client)
{
    TERN_TRY(tern_gate_client(service->gate, request->authorization, client));
    if (request->certificate[0] == '\0' ||
        tern_gate_is_named(service->gate, *client, request->certificate)) {
        return TERN_OK;
    }
    tern_access_log_other_certificate(&service->access, request, *client,
                                      tern_service_monotonic(service));
    return TERN_ERR_UNAUTHORIZED;
}

// A connection with a pre-shared key belongs to the client whose key the handshake proved. It needs no token; a token that
// is sent anyway must belong to the same client.
static enum tern_result authenticate(struct tern_service *service,
                                     const struct tern_http_request *request, uint64_t *client)
{
    if (request->psk_client == 0) {
        return authenticate_by_token(service, request, client);
    }
    // The client may have been revoked since the handshake; then it has no key.
    if (!tern_psk_keys_find(&service->psk_keys, request->psk_client, NULL)) {
        return TERN_ERR_UNAUTHORIZED;
    }
    *client = request->psk_client;
    if (request->authorization[0] == '\0') {
        return TERN_OK;
    }
    uint64_t token_client = 0;
    TERN_TRY(tern_gate_client(service->gate, request->authorization, &token_client));
    return token_client == request->psk_client ? TERN_OK : TERN_ERR_UNAUTHORIZED;
}

struct route {
    enum request_kind kind;
    const char *method;
    const char *path;
    bool has_more; // the path continues with parameters
    enum tern_purpose purpose;
};

#define HEALTH_PATH "/healthz"
#define READY_PATH "/readyz"

static const struct route routes[] = {
    {REQUEST_ENROLL, "POST", TERN_PATH_ENROLL, false, TERN_PURPOSE_ENROLL},
    {REQUEST_CHECKIN, "POST", TERN_PATH_CHECKIN, false, TERN_PURPOSE_CHECKIN},
    {REQUEST_DOWNLOAD, "GET", TERN_PATH_DOWNLOADS, true, TERN_PURPOSE_DOWNLOAD},
    {REQUEST_AUTHORIZE, "GET", TERN_PATH_AUTHORIZE, true, TERN_PURPOSE_DOWNLOAD},
    {REQUEST_UPDATE, "PUT", TERN_PATH_UPDATES, true, TERN_PURPOSE_UPLOAD},
    {REQUEST_PROGRESS, "GET", TERN_PATH_UPDATES, true, TERN_PURPOSE_UPLOAD},
    {REQUEST_STATISTICS, "PUT", TERN_PATH_STATISTICS, false, TERN_PURPOSE_UPLOAD},
    {REQUEST_SCALING, "GET", TERN_PATH_STATISTICS, false, TERN_PURPOSE_CHECKIN},
};

// Returns the route of the path, the one with this method if there are two. NULL: the path does not exist.
static const struct route *find_route(const struct tern_http_request *http)
{
    const struct route *found = NULL;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        const struct route *route = &routes[i];
        const size_t len = strlen(route->path) + !route->has_more;
        if (strncmp(http->path, route->path, len) == 0 &&
            (found == NULL || strcmp(http->method, route->method) == 0)) {
            found = route;
        }
    }
    return found;
}

// Routes the request: sets its kind and the members that follow from its path. Returns 0 or the status of a refusal.
static int route_request(const struct tern_http_request *http, struct request *request)
{
    const struct route *route = find_route(http);
    if (route == NULL) {
        return 404;
    }
    request->kind = route->kind;
    if (parse_path(http->path, request) != TERN_OK) {
        return 404;
    }
    if (strcmp(http->method, route->method) != 0) {
        return 405;
    }
    request->tag.purpose = route->purpose;
    request->tag.peer_is_cache = request->kind == REQUEST_AUTHORIZE ||
                                 (request->kind == REQUEST_DOWNLOAD && http->peer_is_cache);
    return request->kind == REQUEST_AUTHORIZE && !http->peer_is_cache ? 403 : 0;
}

// Whether the path is one for monitoring, which needs no credentials.
static bool is_probe(const char *path)
{
    return strcmp(path, HEALTH_PATH) == 0 || strcmp(path, READY_PATH) == 0;
}

static size_t body_limit(const struct tern_service *service, const struct request *request)
{
    if (request->kind == REQUEST_UPDATE) {
        return tern_federation_update_max(service->federation);
    }
    if (request->kind == REQUEST_STATISTICS) {
        return tern_federation_statistics_max(service->federation);
    }
    return request->kind == REQUEST_ENROLL || request->kind == REQUEST_CHECKIN
               ? TERN_WIRE_MESSAGE_MAX
               : 0;
}

// Authenticates the client by its token or handshake, and sets request->client. A client with a pre-shared key is enrolled
// already, and cannot enrol again.
static enum tern_result check_client(struct tern_service *service,
                                     const struct tern_http_request *http, struct request *request)
{
    enum tern_result result = TERN_OK;
    if (request->kind != REQUEST_ENROLL) {
        result = authenticate(service, http, &request->client);
    } else if (http->psk_client != 0) {
        result = TERN_ERR_UNAUTHORIZED;
    }
    if (result != TERN_OK) {
        request->client = 0;
        atomic_fetch_add(&service->unauthorized, 1);
    }
    return result;
}

// A leader writes twice a second. After this time without a write, another aggregator may have become the leader.
#define CURRENT_MS 1000

// Whether the client may have enrolled while another aggregator led, so that its token is not loaded here yet.
static bool may_be_new(struct tern_service *service, const struct tern_http_request *http)
{
    return service->config.shares &&
           tern_service_monotonic(service) > atomic_load(&service->current_ms) + CURRENT_MS &&
           http->psk_client == 0 && tern_gate_is_unknown_token(service->gate, http->authorization);
}

// Sets the request's client. Returns 0 or the status of a refusal.
static int identify(struct tern_service *service, const struct tern_http_request *http,
                    struct request *request)
{
    request->client = 0;
    if (request->kind != REQUEST_ENROLL && may_be_new(service, http)) {
        return 503;
    }
    if (check_client(service, http, request) != TERN_OK) {
        return 401;
    }
    request->tag.client = request->client;
    return 0;
}

// Checks by the path whether a long update may count. If another aggregator can take over the database, every body is read:
// only a transaction shows whether that has happened and the new leader has opened the round, and a client whose update is
// refused must train again.
static enum tern_result worth_reading(struct tern_service *service, const struct request *request,
                                      uint64_t content_length)
{
    return content_length <= TERN_WIRE_MESSAGE_MAX || request->kind != REQUEST_UPDATE ||
                   service->config.shares
               ? TERN_OK
               : tern_federation_expects_update(service->federation, request->client,
                                                request->u.update.round);
}

// Counts a request that is refused before its body against the client's rate. Returns the status.
static int refuse_early(struct tern_service *service, const struct tern_http_request *http,
                        const struct request *request, int status)
{
    if (over_rate(service, http, request->client, REQUEST_UPDATE) != 0) {
        return 429;
    }
    return status;
}

// Meters the bytes of an update for its client, and lets the client complete it after a broken connection.
static void permit_update(struct tern_service *service, const struct request *request,
                          struct tern_http_permit *permit)
{
    permit->owner = request->client;
    permit->tag.client = request->client;
    permit->tag.purpose = TERN_PURPOSE_UPLOAD;
    tag_round(service, request->u.update.round, &permit->tag);
}

// Checks a routed request before its body is read. Returns 0 or the status of a refusal.
static int check_headers(struct tern_service *service, const struct tern_http_request *http,
                         uint64_t content_length, struct request *request,
                         struct tern_http_permit *permit)
{
    const size_t limit = body_limit(service, request);
    int status = identify(service, http, request);
    permit->known = request->client != 0;
    // A connection of a cache has requests of many clients.
    permit->client = http->peer_is_cache ? 0 : request->client;
    permit->body_limit = limit < permit->body_limit ? (uint32_t)limit : permit->body_limit;
    if (status != 0 || request->client == 0) {
        return status;
    }
    if (content_length > permit->body_limit) {
        return refuse_early(service, http, request, 413);
    }
    const enum tern_result worth = worth_reading(service, request, content_length);
    if (worth != TERN_OK) {
        status = refuse_early(service, http, request, 422);
        permit->refusal = status == 422 ? worth : TERN_OK;
        return status;
    }
    if (request->kind == REQUEST_UPDATE) {
        permit_update(service, request, permit);
    }
    return 0;
}

// Routes the request, and refuses a body that is too large or useless before it is read.
static int on_headers(void *ctx, const struct tern_http_request *http, uint64_t content_length,
                      struct tern_http_permit *permit)
{
    if (is_probe(http->path)) {
        permit->body_limit = 0;
        return strcmp(http->method, "GET") == 0 ? 0 : 405;
    }
    struct request *request = calloc(1, sizeof *request);
    if (request == NULL) {
        return 503;
    }
    int status = route_request(http, request);
    if (status != 0) {
        permit->body_limit = 0;
    } else {
        status = check_headers(ctx, http, content_length, request, permit);
    }
    if (status != 0) {
        free(request);
        return status;
    }
    permit->context = request;
    return 0;
}

static void on_dropped(void *ctx, void *context)
{
    (void)ctx;
    free(context);
}

// Whether the client may still send the rest of an interrupted update.
static bool expects_upload(void *ctx, uint64_t client, const char *path)
{
    struct tern_service *service = ctx;
    uint32_t round;
    uint32_t sequence;
    return tern_gate_admits(service->gate, client) &&
           tern_path_parse_update(path, &round, &sequence) == TERN_OK &&
           tern_federation_expects_update(service->federation, client, round) == TERN_OK;
}

// A revoked client may still have a ticket, but no connections of its own.
static bool admits_client(void *ctx, uint64_t client)
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

// Answers a probe without the reason of a failure, which only the admin listener reports.
static void reply_probe(struct tern_service *service, const char *path,
                        struct tern_http_exchange *exchange)
{
    char why[256];
    const bool is_good = strcmp(path, HEALTH_PATH) == 0 || tern_service_can_store(service, why);
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

// Queues the request for the service thread. Refuses it if the queue is full, or the database does not answer.
static void queue(struct tern_service *service, struct request *request)
{
    const bool is_stuck = tern_service_is_stuck(service);
    if (is_stuck || !tern_request_queue_put(&service->queue, request)) {
        tern_answer_refusal(
            request, 503, TERN_ERR_BUSY,
            is_stuck
                ? "The aggregator's database does not answer. Nothing changed; try again later."
                : "Too many requests wait for the aggregator. Nothing changed; try again.");
        tern_answer_reconnect(request, is_stuck && service->config.shares);
        tern_answer_send(request);
    }
}

static void admit(struct tern_service *service, struct request *request)
{
    const struct tern_http_request *http = tern_http_exchange_request(request->exchange);
    const uint32_t wait = over_rate(service, http, request->client, request->kind);
    if (wait != 0) {
        tern_answer_refusal(request, 429, TERN_ERR_BUSY,
                            request->client == 0
                                ? "This address has sent too many enrolments within a minute; try "
                                  "again later."
                                : "This client has sent too many requests within a minute; try "
                                  "again later.");
        request->reply.retry_after_s = wait;
        tern_answer_send(request);
        return;
    }
    request->parsed = parse(service, request);
    if (request->kind == REQUEST_PROGRESS) {
        request->u.progress.kept = tern_http_exchange_unfinished(request->exchange, request->client,
                                                                 &request->u.progress.unfinished);
    }
    tern_http_exchange_evict_body(request->exchange);
    queue(service, request);
}

static void on_request(void *ctx, struct tern_http_exchange *exchange)
{
    struct tern_service *service = ctx;
    const struct tern_http_request *http = tern_http_exchange_request(exchange);
    struct request *request = tern_http_exchange_context(exchange);
    if (request == NULL) { // a probe
        reply_probe(service, http->path, exchange);
        return;
    }
    request->exchange = exchange;
    // Again, since the client may have been revoked while the body arrived.
    const int status = identify(service, http, request);
    if (status != 0) {
        request->tag = (struct tern_http_tag){.purpose = TERN_PURPOSE_CHECKIN};
        tern_answer_error(request, status, status == 401 ? TERN_ERR_UNAUTHORIZED : TERN_ERR_BUSY);
        tern_answer_send(request);
        return;
    }
    admit(service, request);
}

// Meters the bytes between a client and this aggregator, or between the client and a cache (estimated). Bytes between the
// cache and this aggregator count separately.
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
    if (tag->peer_is_cache) {
        atomic_fetch_add(&service->cache_bytes[TERN_UP], up->wire);
        atomic_fetch_add(&service->cache_bytes[TERN_DOWN], down->wire);
        estimate_cached(tag, &row.up, &row.down);
    }
    if (!tag->peer_is_cache || tag->cache_sends > 0) {
        tern_metering_add(service->metering, &row);
    }
}

static void on_answered(void *ctx, const struct tern_http_answered *answered)
{
    struct tern_service *service = ctx;
    tern_access_log_request(&service->access, "clients", answered, tern_service_monotonic(service));
}

static void on_handshake_failed(void *ctx, const char *peer, const char *why)
{
    struct tern_service *service = ctx;
    tern_access_log_handshake(&service->access, peer, why, tern_service_monotonic(service));
}

void tern_service_log_admin_request(struct tern_service *service,
                                    const struct tern_http_answered *answered)
{
    tern_access_log_request(&service->access, "admin", answered, tern_service_monotonic(service));
}

// Called on the listener's thread during a handshake.
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
                                      .on_dropped = on_dropped,
                                      .expects_upload = expects_upload,
                                      .admits_client = admits_client,
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
