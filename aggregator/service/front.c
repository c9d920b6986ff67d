// Runs on the listeners' threads: routes and checks a request before its body is read, then parses, hashes and inspects
// the body, so that the service thread does little more than the store. A follower's requests, which the leader takes from
// the database, are parsed here, too.
#include "service/internal.h"

#include "service/caches.h"
#include <stdlib.h>
#include <string.h>

// --- Parsing

void tern_request_tag_round(struct tern_service *service, uint32_t round, struct tern_http_tag *tag)
{
    tag->round = tern_federation_had_round(service->federation, round) ? round : 0;
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

// The authorisation of a cache's download has counted already.
uint32_t tern_request_over_rate(struct tern_service *service, const struct tern_http_request *http,
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
    struct tern_incoming *update = &request->u.update;
    update->client = request->client;
    update->body = (struct tern_span){http->body, http->body_len};
    tern_federation_read_update(service->federation, update);
    tern_request_tag_round(service, update->round, &request->tag);
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

enum tern_result tern_request_parse_path(const char *path, struct request *request)
{
    switch (request->kind) {
    case REQUEST_DOWNLOAD:
        return tern_path_parse_download(path, request->u.download.sha256);
    case REQUEST_AUTHORIZE:
        return tern_cache_parse_path(path, request->u.download.sha256);
    case REQUEST_UPDATE:
        return tern_path_parse_update(path, &request->u.update.round, &request->u.update.sequence);
    case REQUEST_PROGRESS:
        return tern_path_parse_update(path, &request->u.progress.round,
                                      &request->u.progress.sequence);
    case REQUEST_ENROLL:
    case REQUEST_CHECKIN:
    case REQUEST_STATISTICS:
    case REQUEST_SCALING:
    case REQUEST_JOB:
    case REQUEST_METER:
        break;
    }
    return TERN_OK;
}

enum tern_result tern_request_parse(struct tern_service *service, struct request *request)
{
    const struct tern_http_request *http = tern_request_http(request);
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
        request->u.download.request_bytes =
            tern_cache_request_bytes(http, request->u.download.sha256);
        return TERN_OK;
    case REQUEST_UPDATE:
        return parse_update(service, http, request);
    case REQUEST_PROGRESS:
        tern_request_tag_round(service, request->u.progress.round, &request->tag);
        return TERN_OK;
    case REQUEST_STATISTICS:
        return parse_statistics(http, &request->u.statistics);
    case REQUEST_SCALING:
        return TERN_OK;
    case REQUEST_JOB:
    case REQUEST_METER:
        break;
    }
    return TERN_ERR_ARGUMENT;
}

// --- Credentials

// Requires the token of a client with the certificate's name, so that a stolen certificate or token alone is useless.
static enum tern_result authenticate_by_token(struct tern_service *service,
                                              const struct tern_http_request *request,
                                              uint64_t *client)
{
    TERN_TRY(tern_gate_client(service->gate, request->authorization, client));
    if (request->certificate[0] == '\0' ||
        tern_gate_is_named(service->gate, *client, request->certificate)) {
        return TERN_OK;
    }
    tern_access_log_misnamed(&service->access, request, *client, tern_service_monotonic(service));
    return TERN_ERR_UNAUTHORIZED;
}

// A connection with a pre-shared key belongs to the client that the handshake proved. It needs no token; if a request has
// one, it must be the same client's.
static enum tern_result authenticate(struct tern_service *service,
                                     const struct tern_http_request *request, uint64_t *client)
{
    if (request->psk_client == 0) {
        return authenticate_by_token(service, request, client);
    }
    // A revoked client has no key.
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

void tern_request_prove(struct tern_service *service, struct request *request)
{
    uint64_t client = 0;
    request->unproven = authenticate(service, tern_request_http(request), &client) != TERN_OK;
    request->client = request->unproven ? 0 : client;
    request->tag.client = request->client;
    if (request->kind == REQUEST_UPDATE) {
        request->u.update.client = request->client;
    }
}

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

static const struct route *route_of(enum request_kind kind)
{
    return &routes[kind];
}

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

// Sets the kind. A path with two methods has `reads` for GET and `writes` for the others.
static bool set_kind(struct request *request, const char *method, enum request_kind reads,
                     enum request_kind writes)
{
    request->kind = strcmp(method, "GET") == 0 ? reads : writes;
    return true;
}

// Chooses the kind of request by path and method. False: there is no such path.
static bool find_kind(const struct tern_http_request *http, struct request *request)
{
    if (strcmp(http->path, TERN_PATH_ENROLL) == 0) {
        return set_kind(request, http->method, REQUEST_ENROLL, REQUEST_ENROLL);
    }
    if (strcmp(http->path, TERN_PATH_CHECKIN) == 0) {
        return set_kind(request, http->method, REQUEST_CHECKIN, REQUEST_CHECKIN);
    }
    if (strcmp(http->path, TERN_PATH_STATISTICS) == 0) {
        return set_kind(request, http->method, REQUEST_SCALING, REQUEST_STATISTICS);
    }
    if (begins_with(http->path, TERN_PATH_DOWNLOADS)) {
        return set_kind(request, http->method, REQUEST_DOWNLOAD, REQUEST_DOWNLOAD);
    }
    if (begins_with(http->path, TERN_PATH_AUTHORIZE)) {
        return set_kind(request, http->method, REQUEST_AUTHORIZE, REQUEST_AUTHORIZE);
    }
    return begins_with(http->path, TERN_PATH_UPDATES) &&
           set_kind(request, http->method, REQUEST_PROGRESS, REQUEST_UPDATE);
}

// Routes the request: sets its kind and the members that follow from its path. Returns 0 or the status to refuse with.
static int route_request(const struct tern_http_request *http, struct request *request)
{
    if (!find_kind(http, request) || tern_request_parse_path(http->path, request) != TERN_OK) {
        return 404;
    }
    if (strcmp(http->method, route_of(request->kind)->method) != 0) {
        return 405;
    }
    request->tag.purpose = route_of(request->kind)->purpose;
    request->tag.peer_is_cache = request->kind == REQUEST_AUTHORIZE ||
                                 (request->kind == REQUEST_DOWNLOAD && http->peer_is_cache);
    return request->kind == REQUEST_AUTHORIZE && !http->peer_is_cache ? 403 : 0;
}

// Paths of monitoring, which has no credentials.
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
    return strcmp(route_of(request->kind)->method, "GET") == 0 ? 0 : TERN_WIRE_MESSAGE_MAX;
}

// Authenticates the client by its token or handshake, and sets request->client. A client that the handshake proves has
// enrolled already, and cannot enrol as another.
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

// A leader writes twice a second. Another aggregator leads at the earliest when one write is missing.
#define CURRENT_MS 1000

// Whether clients may have enrolled at another aggregator since this one last read or wrote the database.
static bool may_lack_clients(const struct tern_service *service)
{
    return service->config.sharing != NULL &&
           (atomic_load(&service->follows) ||
            tern_service_monotonic(service) > atomic_load(&service->current_ms) + CURRENT_MS);
}

// Whether the client may have enrolled at the leader a moment ago, so that its token is not here yet.
static bool may_be_new(struct tern_service *service, const struct tern_http_request *http,
                       const struct request *request)
{
    return may_lack_clients(service) && request->kind != REQUEST_ENROLL && http->psk_client == 0 &&
           tern_gate_is_strange(service->gate, http->authorization);
}

// Sets the request's client, or `unproven` where the service thread finds it out. Returns 0 or the status to refuse with.
static int identify(struct tern_service *service, const struct tern_http_request *http,
                    struct request *request)
{
    request->client = 0;
    request->unproven = may_be_new(service, http, request);
    if (!request->unproven && check_client(service, http, request) != TERN_OK) {
        return 401;
    }
    request->tag.client = request->client;
    return 0;
}

// Checks by its path whether the body of an update may count. A short body is read in any case. Where several aggregators
// share the database, so is each body: another one may lead by now and have opened the round, and only a transaction
// shows that none does. A client that is refused gives its update back and trains the round again.
static enum tern_result worth_reading(struct tern_service *service, const struct request *request,
                                      uint64_t content_length)
{
    return content_length <= TERN_WIRE_MESSAGE_MAX || request->kind != REQUEST_UPDATE ||
                   service->config.sharing != NULL
               ? TERN_OK
               : tern_federation_expects(service->federation, request->client,
                                         request->u.update.round);
}

// A request that is refused here counts for the client's rate like any other.
static int refuse_early(struct tern_service *service, const struct tern_http_request *http,
                        const struct request *request, int status)
{
    if (tern_request_over_rate(service, http, request->client, REQUEST_UPDATE) != 0) {
        return 429;
    }
    return status;
}

// The bytes of an update count for its client, which may complete it, also when the connection breaks before its end.
static void permit_update(struct tern_service *service, const struct request *request,
                          struct tern_http_permit *permit)
{
    permit->owner = request->client;
    permit->tag.client = request->client;
    permit->tag.purpose = TERN_PURPOSE_UPLOAD;
    tern_request_tag_round(service, request->u.update.round, &permit->tag);
}

// Checks a routed request before its body is read. Returns 0 or the status to refuse with.
static int check_headers(struct tern_service *service, const struct tern_http_request *http,
                         uint64_t content_length, struct request *request,
                         struct tern_http_permit *permit)
{
    size_t limit = body_limit(service, request);
    int status = identify(service, http, request);
    if (request->unproven && limit > TERN_WIRE_MESSAGE_MAX) {
        limit = TERN_WIRE_MESSAGE_MAX;
    }
    permit->known = request->client != 0;
    // Connections of a cache, or of the proxy that it is part of, bring requests of many clients.
    permit->client = http->peer_is_cache ? 0 : request->client;
    permit->body_limit = limit < permit->body_limit ? (uint32_t)limit : permit->body_limit;
    if (request->unproven && content_length > permit->body_limit) {
        return 503; // a moment later the client is authenticated, or refused
    }
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

// Routes each request once, and refuses a body that is too large, or useless, before it is read. The request stays with
// the exchange until on_request() or on_dropped().
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

// Whether an interrupted update is kept: its client may still send the rest.
static bool expects_upload(void *ctx, uint64_t client, const char *path)
{
    struct tern_service *service = ctx;
    uint32_t round;
    uint32_t sequence;
    return tern_gate_admits(service->gate, client) &&
           tern_path_parse_update(path, &round, &sequence) == TERN_OK &&
           tern_federation_expects(service->federation, client, round) == TERN_OK;
}

// A revoked client has no place of its own, though it may have a ticket.
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

// Tells strangers that nothing can be stored; the operators' listener also tells why.
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

// Queues the request for the service thread. Refuses it where the queue is full, or the database does not answer.
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

static void admit(struct tern_service *service, struct request *request)
{
    const struct tern_http_request *http = tern_request_http(request);
    uint32_t wait = request->unproven
                        ? 0
                        : tern_request_over_rate(service, http, request->client, request->kind);
    if (wait != 0) {
        tern_answer_refusal(request, 429, TERN_ERR_BUSY,
                            request->client == 0
                                ? "Too many enrolments came from this address within a "
                                  "minute; try again later."
                                : "Too many requests of this client came within a minute; "
                                  "try again later.");
        request->reply.retry_after_s = wait;
        tern_answer_send(request);
        return;
    }
    request->parsed = tern_request_parse(service, request);
    if (request->kind == REQUEST_PROGRESS) {
        request->u.progress.kept = tern_http_exchange_unfinished(request->exchange, request->client,
                                                                 &request->u.progress.unfinished);
    }
    tern_http_exchange_evict_body(request->exchange);
    queue(service, request);
}

// A probe is the one request without a context.
static void on_request(void *ctx, struct tern_http_exchange *exchange)
{
    struct tern_service *service = ctx;
    const struct tern_http_request *http = tern_http_exchange_request(exchange);
    struct request *request = tern_http_exchange_context(exchange);
    if (request == NULL) {
        reply_probe(service, http->path, exchange);
        return;
    }
    request->exchange = exchange;
    // The client is identified again, since its token may have been revoked while the body arrived.
    if (identify(service, http, request) != 0) {
        request->tag = (struct tern_http_tag){.purpose = TERN_PURPOSE_CHECKIN};
        tern_answer_error(request, 401, TERN_ERR_UNAUTHORIZED);
        tern_answer_send(request);
        return;
    }
    admit(service, request);
}

// Counts what a cache sends its client, and not the bytes between the cache and this aggregator.
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
        tern_cache_model(tag, &row.up, &row.down);
    }
    if (!tag->peer_is_cache || tag->cache_sends > 0) {
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
