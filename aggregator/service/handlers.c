// The queue of requests, their answers, and the handler of each kind of request. Handlers run inside the batch's transaction,
// on the service thread. Check-ins are answered after tern_federation_advance(), or held until there is something to do.
#include "service/internal.h"

#include "hosted/log.h"
#include "meter/meter.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// --- The queue

void tern_request_queue_init(struct tern_request_queue *queue, uint32_t max)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&queue->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&queue->lock, NULL);
    tern_request_list_init(&queue->list);
    queue->max = max;
}

void tern_request_queue_set_limit(struct tern_request_queue *queue, uint32_t max)
{
    pthread_mutex_lock(&queue->lock);
    queue->max = max;
    pthread_mutex_unlock(&queue->lock);
}

void tern_request_queue_free(struct tern_request_queue *queue)
{
    pthread_cond_destroy(&queue->wake);
    pthread_mutex_destroy(&queue->lock);
}

bool tern_request_queue_put(struct tern_request_queue *queue, struct request *request)
{
    pthread_mutex_lock(&queue->lock);
    bool taken = !queue->stopping && queue->count < queue->max;
    if (taken) {
        tern_request_list_add(&queue->list, request);
        queue->count++;
        pthread_cond_signal(&queue->wake);
    }
    pthread_mutex_unlock(&queue->lock);
    return taken;
}

void tern_request_queue_set_flag(struct tern_request_queue *queue, bool *flag)
{
    pthread_mutex_lock(&queue->lock);
    *flag = true;
    queue->woken = true;
    pthread_cond_signal(&queue->wake);
    pthread_mutex_unlock(&queue->lock);
}

struct request *tern_request_queue_take(struct tern_request_queue *queue, uint32_t limit,
                                        uint32_t *count)
{
    struct request *first = queue->list.first;
    struct request **end = &queue->list.first;
    *count = 0;
    while (*end != NULL && *count < limit) {
        end = &(*end)->next;
        (*count)++;
    }
    if (first == NULL) {
        return NULL;
    }
    queue->list.first = *end;
    if (*end == NULL) {
        queue->list.end = &queue->list.first;
    }
    *end = NULL;
    queue->count -= *count;
    return first;
}

void tern_request_queue_wait(struct tern_request_queue *queue, uint64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    pthread_cond_timedwait(&queue->wake, &queue->lock, &until);
}

// --- Answers

// Returns the status for a result that refuses a request.
static int status_of(enum tern_result result)
{
    switch ((int)result) {
    case TERN_ERR_UNAUTHORIZED:
        return 401;
    case TERN_ERR_NOT_FOUND:
        return 404;
    case TERN_ERR_CONFLICT:
        return 409;
    case TERN_ERR_LATE:
        return 410;
    case TERN_ERR_TOO_LARGE:
        return 413;
    case TERN_ERR_BUSY:
    case TERN_ERR_IO:
    case TERN_ERR_NO_MEMORY:
        return 503;
    default:
        return 422;
    }
}

static void clear_reply(struct request *request)
{
    tern_blob_release(request->reply.body);
    memset(&request->reply, 0, sizeof request->reply);
    request->tag.payload_down = 0;
    tern_http_tag_clear_cache(&request->tag);
}

static void answer_bytes(struct request *request, const uint8_t *body, size_t len)
{
    clear_reply(request);
    struct tern_blob *blob = tern_blob_new(len);
    request->answered = true;
    if (blob == NULL) {
        // The request is stored; the client gets the answer when it repeats the request.
        request->reply.status = 503;
        request->reply.retry_after_s = 1;
        return;
    }
    memcpy(blob->data, body, len);
    request->reply.status = 200;
    request->reply.body = blob;
}

static void put_error(struct request *request, enum tern_result result, const char *sentence)
{
    tern_Error error = tern_Error_init_zero;
    uint8_t body[sizeof error + 16];
    size_t len = 0;
    strncpy(error.name, tern_result_name(result), sizeof error.name - 1);
    strncpy(error.sentence, sentence, sizeof error.sentence - 1);
    if (tern_wire_encode_error(&error, body, sizeof body, &len) == TERN_OK) {
        answer_bytes(request, body, len);
    }
}

void tern_answer_refusal(struct request *request, int status, enum tern_result result,
                         const char *sentence)
{
    clear_reply(request);
    if (request->kind == REQUEST_JOB) {
        request->u.job.refuse(&request->reply, status, result, sentence);
    } else {
        put_error(request, result, sentence);
    }
    request->reply.status = status;
    request->reply.retry_after_s = status == 429 || status == 503 ? 1 : 0;
    request->answered = true;
}

static void answer_refused(struct request *request, const struct tern_refusal *refusal)
{
    tern_answer_refusal(request, status_of(refusal->result), refusal->result,
                        refusal->sentence[0] != '\0' ? refusal->sentence
                                                     : tern_result_sentence(refusal->result));
    if (refusal->retry_after_s != 0) {
        request->reply.retry_after_s = refusal->retry_after_s;
    }
}

static void answer_error(struct request *request, int status, enum tern_result result)
{
    tern_answer_refusal(request, status, result, tern_result_sentence(result));
}

void tern_answer_unavailable(struct request *request)
{
    tern_answer_refusal(request, 503, TERN_ERR_BUSY,
                        "The aggregator could not store the request. Nothing changed; try again.");
}

void tern_answer_reconnect(struct request *request, bool shares)
{
    request->reply.closes = shares && request->reply.status == 503;
}

static void answer_message(struct request *request, enum tern_result encoded, const uint8_t *body,
                           size_t len)
{
    if (encoded == TERN_OK) {
        answer_bytes(request, body, len);
        return;
    }
    tern_log(TERN_LOG_ERROR, "reply-not-encodable", "error=%s", tern_result_name(encoded));
    answer_error(request, 503, encoded);
}

// Returns the Cache-Control of a download.
static const char *cache_control(bool shared)
{
    return shared ? "public, max-age=31536000, immutable" : "private, max-age=31536000, immutable";
}

static void answer_blob(struct request *request, struct tern_blob *blob, uint64_t from,
                        const struct tern_download_facts *facts)
{
    clear_reply(request);
    request->reply.status = 200;
    request->reply.body = blob;
    request->reply.body_from = from < SIZE_MAX ? (size_t)from : SIZE_MAX;
    request->reply.cache = cache_control(facts->shared);
    uint64_t left =
        from < blob->len ? blob->len - from : 0; // 0: the listener replies with status 416
    request->tag.payload_down = left < facts->payload ? left : facts->payload;
    request->answered = true;
}

// Returns the length of the head that the listener would write (http/reply.c).
static uint64_t head_bytes(const struct tern_download_facts *facts, uint64_t from, uint64_t left)
{
    char range[96] = "";
    const char *status = "200 OK";
    if (left == 0) {
        status = "416 Range Not Satisfiable";
        snprintf(range, sizeof range, "Content-Range: bytes */%" PRIu32 "\r\n", facts->size);
    } else if (from > 0) {
        status = "206 Partial Content";
        snprintf(range, sizeof range,
                 "Content-Range: bytes %" PRIu64 "-%" PRIu32 "/%" PRIu32 "\r\n", from,
                 facts->size - 1, facts->size);
    }
    return (uint64_t)snprintf(NULL, 0,
                              "HTTP/1.1 %s\r\n%sContent-Length: %" PRIu64
                              "\r\nCache-Control: %s\r\nETag: \"1\"\r\n\r\n",
                              status, range, left, cache_control(facts->shared));
}

// Sets the tag's bytes as if this aggregator had sent the download from byte `from` on, which a cache sends.
static void tag_cached(const struct tern_download_facts *facts, uint64_t from,
                       uint32_t request_bytes, struct tern_http_tag *tag)
{
    const uint64_t left = from < facts->size ? facts->size - from : 0;
    tag->payload_down = left < facts->payload ? left : facts->payload;
    tag->cache_sends = head_bytes(facts, from, left) + left;
    tag->cache_receives = request_bytes;
}

void tern_answer_authorized(struct request *request, const struct tern_download_facts *facts)
{
    const struct download_request *wanted = &request->u.download;
    clear_reply(request);
    request->reply.status = 204;
    tag_cached(facts, wanted->from, wanted->request_bytes, &request->tag);
    request->answered = true;
}

void tern_answer_send(struct request *request)
{
    if (request->kind == REQUEST_UPDATE) {
        tern_incoming_update_free(&request->u.update);
    }
    if (request->kind == REQUEST_JOB) {
        free(request->u.job.ctx);
    } else {
        tern_http_exchange_tag(request->exchange, &request->tag);
    }
    tern_http_reply(request->exchange, &request->reply);
    free(request);
}

// --- Answers of each kind

static enum tern_result answer_update(struct request *request, const tern_UpdateReply *reply)
{
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = 0;
    const enum tern_result encoded = tern_wire_encode_update_reply(reply, body, sizeof body, &len);
    answer_message(request, encoded, body, len);
    return encoded;
}

static enum tern_result answer_plain(struct request *request, const tern_CheckinReply *reply)
{
    const struct tern_span none = {0};
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = 0;
    enum tern_result encoded = tern_wire_encode_checkin_reply(reply, none, body, sizeof body, &len);
    answer_message(request, encoded, body, len);
    return TERN_OK;
}

static size_t downloads_size(const tern_Task *task)
{
    size_t size = 0;
    for (pb_size_t i = 0; i < task->downloads_count; i++) {
        size += task->downloads[i].size;
    }
    return size;
}

// Whether the download is a delta, which can be sent inline. A client cannot detect an incomplete inline snapshot.
static bool is_delta(const struct tern_blob *blob)
{
    tern_Download message;
    struct tern_span container;
    return tern_wire_decode_download(blob->data, blob->len, &message, &container) == TERN_OK &&
           message.kind == tern_DownloadKind_DOWNLOAD_DELTA;
}

// Concatenates the task's downloads. dst: has space for all downloads.
// TERN_ERR_NOT_FOUND  a download no longer exists, or is a snapshot
// TERN_ERR_BUSY       a download cannot be read now
static enum tern_result gather(struct tern_service *service, const tern_Task *task, uint8_t *dst,
                               uint32_t *payload)
{
    for (pb_size_t i = 0; i < task->downloads_count; i++) {
        const tern_DownloadRef *ref = &task->downloads[i];
        struct tern_blob *blob = NULL;
        struct tern_download_facts facts;
        TERN_TRY(tern_federation_blob(service->federation, ref->sha256.bytes, &blob, &facts));
        const bool fits = blob->len == ref->size && is_delta(blob);
        if (fits) {
            memcpy(dst, blob->data, blob->len);
        }
        tern_blob_release(blob);
        TERN_TRY(fits ? TERN_OK : TERN_ERR_NOT_FOUND);
        dst += ref->size;
        *payload += facts.payload;
    }
    return TERN_OK;
}

// Returns the reply without the hashes of its downloads, because the reply contains the downloads.
static tern_CheckinReply without_hashes(const tern_CheckinReply *reply)
{
    tern_CheckinReply copy = *reply;
    for (pb_size_t i = 0; i < copy.task.downloads_count; i++) {
        copy.task.downloads[i].sha256.size = 0;
    }
    return copy;
}

// Answers a check-in with a reply that contains the downloads. memory: space for the downloads, then for the complete
// answer, `limit` bytes each. TERN_ERR_NOT_FOUND, TERN_ERR_NO_SPACE, TERN_ERR_BUSY  the downloads cannot be sent inline
static enum tern_result try_inline(struct tern_service *service, struct request *request,
                                   const tern_CheckinReply *reply, uint8_t *memory, size_t limit)
{
    const struct tern_span downloads = {memory, downloads_size(&reply->task)};
    uint32_t payload = 0;
    size_t len = 0;
    TERN_TRY(downloads.len <= limit ? TERN_OK : TERN_ERR_NO_SPACE);
    TERN_TRY(gather(service, &reply->task, memory, &payload));
    const tern_CheckinReply message = without_hashes(reply);
    TERN_TRY(tern_wire_encode_checkin_reply(&message, downloads, memory + limit, limit, &len));
    answer_message(request, TERN_OK, memory + limit, len);
    request->tag.payload_down = payload;
    service->counters.downloads += message.task.downloads_count;
    return TERN_OK;
}

static bool may_inline(const struct tern_checkin_answer *next)
{
    const size_t size = next->reply.has_task ? downloads_size(&next->reply.task) : 0;
    return size > 0 && (next->has_private_downloads || size <= TERN_PRICE_EXCHANGE);
}

// Answers a check-in with the client's next step. The task contains the client's own downloads, which saves an exchange.
// Shared downloads are sent by hash, so that caches can keep them, unless they are smaller than a request for them.
static enum tern_result answer_checkin(struct tern_service *service, struct request *request,
                                       const struct tern_checkin_answer *next)
{
    const uint64_t asked = (uint64_t)request->u.checkin.inline_kib * 1024;
    const size_t limit = asked < TERN_PRICE_INLINE_MAX ? (size_t)asked : TERN_PRICE_INLINE_MAX;
    if (limit == 0 || !may_inline(next)) {
        return answer_plain(request, &next->reply);
    }
    uint8_t *memory = malloc(2 * limit);
    if (memory == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    enum tern_result result = try_inline(service, request, &next->reply, memory, limit);
    free(memory);
    return result == TERN_ERR_NOT_FOUND || result == TERN_ERR_NO_SPACE || result == TERN_ERR_BUSY
               ? answer_plain(request, &next->reply)
               : result;
}

// --- Check-ins that wait

// Most held check-ins that one batch tries again after a change of the federation.
#define HELD_MAX 256

// During a merge, or a search for downloads, every check-in is held for at least this time, since a second check-in
// would cost the client an exchange.
#define MERGE_WAIT_MS 1000

static bool grow_held(struct held *held, uint64_t client)
{
    if (client <= held->capacity) {
        return true;
    }
    size_t capacity = held->capacity == 0 ? 64 : held->capacity;
    while (capacity < client) {
        if (capacity > SIZE_MAX / sizeof(struct request *) / 2) {
            return false;
        }
        capacity *= 2;
    }
    struct request **of = realloc(held->checkins, capacity * sizeof of[0]);
    if (of == NULL) {
        return false;
    }
    memset(of + held->capacity, 0, (capacity - held->capacity) * sizeof of[0]);
    held->checkins = of;
    held->capacity = capacity;
    return true;
}

static struct request *held_of(const struct tern_service *service, uint64_t client)
{
    const struct held *held = &service->held;
    return client == 0 || client > held->capacity ? NULL : held->checkins[client - 1];
}

bool tern_service_holds(const struct tern_service *service, const struct request *request)
{
    return held_of(service, request->client) == request;
}

static void hold(struct tern_service *service, struct request *request)
{
    struct held *held = &service->held;
    held->checkins[request->client - 1] = request;
    held->count++;
    tern_federation_set_waiting(service->federation, request->client, true);
    if (request->held_until_ms < held->next_ms) {
        held->next_ms = request->held_until_ms;
    }
}

static void release_held(struct tern_service *service, struct request *request)
{
    service->held.checkins[request->client - 1] = NULL;
    service->held.count--;
    tern_federation_set_waiting(service->federation, request->client, false);
    tern_request_list_add(&service->batch, request);
}

void tern_service_restore_held(struct tern_service *service)
{
    for (uint64_t client = 1; client <= service->held.capacity; client++) {
        if (held_of(service, client) != NULL) {
            tern_federation_set_waiting(service->federation, client, true);
        }
    }
}

// Moves all held check-ins into the batch, unanswered.
static void release_all_held(struct tern_service *service)
{
    for (uint64_t client = 1; client <= service->held.capacity; client++) {
        struct request *request = held_of(service, client);
        if (request != NULL) {
            release_held(service, request);
        }
    }
}

static uint64_t held_until(const struct request *request, const struct tern_checkin_answer *next)
{
    const uint64_t merged = request->arrived_ms + MERGE_WAIT_MS;
    return next->soon && merged > request->wait_until_ms ? merged : request->wait_until_ms;
}

// Answers a check-in if the client has a task or its waiting time has ended. *held: the check-in was not answered.
static enum tern_result try_answer(struct tern_service *service, struct request *request,
                                   uint64_t now, bool *held)
{
    struct tern_checkin_answer next;
    *held = false;
    if (!tern_federation_has_client(service->federation, request->client)) {
        answer_error(request, 401, TERN_ERR_UNAUTHORIZED);
        return TERN_OK;
    }
    TERN_TRY(tern_federation_answer_checkin(service->federation, request->client, now, &next));
    request->held_until_ms = held_until(request, &next);
    request->awaits_downloads = next.soon;
    if (next.idle && service->batch_ms < request->held_until_ms && !service->quiescing) {
        *held = true;
        return TERN_OK;
    }
    request->tag.round = tern_federation_round(service->federation);
    return answer_checkin(service, request, &next);
}

static enum tern_result settle_checkin(struct tern_service *service, struct request *request,
                                       uint64_t now)
{
    struct request *older = held_of(service, request->client);
    bool held = false;
    // A client waits for one check-in at a time, so the client has given up the older check-in.
    if (older != NULL) {
        tern_answer_refusal(older, 409, TERN_ERR_CONFLICT,
                            "A newer check-in of this client has replaced this one.");
        release_held(service, older);
    }
    if (!grow_held(&service->held, request->client)) {
        return TERN_ERR_NO_MEMORY;
    }
    TERN_TRY(try_answer(service, request, now, &held));
    if (held) {
        hold(service, request);
    }
    return TERN_OK;
}

static enum tern_result ask_again(struct tern_service *service, struct request *request,
                                  uint64_t now, bool *held)
{
    TERN_TRY(try_answer(service, request, now, held));
    if (!*held) {
        release_held(service, request);
    } else if (request->held_until_ms < service->held.next_ms) {
        service->held.next_ms =
            request
                ->held_until_ms; // from now on only the client's waiting time counts, because the merge has ended
    }
    return TERN_OK;
}

static enum tern_result settle_due(struct tern_service *service, uint64_t now)
{
    struct held *waiting = &service->held;
    const bool found = tern_federation_has_found_downloads(service->federation);
    uint64_t next_ms = UINT64_MAX;
    for (uint64_t client = 1; client <= waiting->capacity; client++) {
        struct request *request = held_of(service, client);
        bool held = request != NULL;
        if (held &&
            (service->batch_ms >= request->held_until_ms || (found && request->awaits_downloads))) {
            TERN_TRY(ask_again(service, request, now, &held));
        }
        if (held && request->held_until_ms < next_ms) {
            next_ms = request->held_until_ms;
        }
    }
    waiting->next_ms = next_ms;
    return TERN_OK;
}

// Tries a bounded number of held check-ins again, since giving 20,000 clients their tasks at once would delay all other
// requests by seconds.
static enum tern_result settle_some(struct tern_service *service, uint64_t now)
{
    struct held *waiting = &service->held;
    uint32_t left = service->quiescing ? UINT32_MAX : HELD_MAX;
    enum tern_result result = TERN_OK;
    uint64_t client = waiting->retry;
    for (; client <= waiting->capacity && left > 0 && result == TERN_OK; client++) {
        struct request *request = held_of(service, client);
        bool held = true;
        if (request != NULL) {
            result = ask_again(service, request, now, &held);
            left--;
        }
    }
    waiting->retry = client <= waiting->capacity ? client : 0;
    return result;
}

enum tern_result tern_service_settle_held(struct tern_service *service, uint64_t now)
{
    struct held *waiting = &service->held;
    if (tern_federation_has_progressed(service->federation) || service->quiescing) {
        waiting->retry = 1;
    }
    if (waiting->count == 0) {
        waiting->retry = 0;
    }
    TERN_TRY(waiting->retry != 0 ? settle_some(service, now) : TERN_OK);
    bool due = waiting->count > 0 && (service->batch_ms >= waiting->next_ms ||
                                      tern_federation_has_found_downloads(service->federation));
    return due ? settle_due(service, now) : TERN_OK;
}

// --- Handlers

// Gives a client with a certificate the certificate's name.
static void set_name(tern_EnrollRequest *message, const char *certificate)
{
    _Static_assert(sizeof message->name >= TERN_HTTP_NAME_SIZE, "every common name fits");
    if (certificate[0] != '\0') {
        memset(message->name, 0, sizeof message->name);
        memcpy(message->name, certificate, strlen(certificate));
    }
}

static enum tern_result handle_enroll(struct tern_service *service, struct request *request,
                                      uint64_t now)
{
    struct tern_refusal refusal = {.result = request->parsed};
    tern_EnrollReply reply;
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = 0;
    if (refusal.result == TERN_OK) {
        const struct tern_http_request *http = tern_http_exchange_request(request->exchange);
        set_name(&request->u.enroll, http->certificate);
        TERN_TRY(tern_federation_enroll(service->federation, &request->u.enroll, http->peer, now,
                                        &reply, &refusal));
    }
    if (refusal.result == TERN_ERR_UNAUTHORIZED) {
        atomic_fetch_add(&service->unauthorized, 1);
    }
    if (refusal.result != TERN_OK) {
        answer_refused(request, &refusal);
        return TERN_OK;
    }
    service->counters.enrolled++;
    request->tag.client = reply.client_id;
    enum tern_result encoded = tern_wire_encode_enroll_reply(&reply, body, sizeof body, &len);
    answer_message(request, encoded, body, len);
    return TERN_OK;
}

static enum tern_result handle_checkin(struct tern_service *service, struct request *request,
                                       uint64_t now)
{
    const tern_CheckinRequest *message = &request->u.checkin;
    struct tern_refusal refusal = {.result = TERN_OK};
    TERN_TRY(tern_federation_checkin(service->federation, request->client, request->parsed, message,
                                     now, &refusal));
    if (refusal.result != TERN_OK) {
        answer_refused(request, &refusal);
    }
    uint64_t limit = service->config.limits.long_poll_ms;
    request->arrived_ms = service->batch_ms;
    request->wait_until_ms =
        service->batch_ms + (message->wait_ms < limit ? message->wait_ms : limit);
    return TERN_OK;
}

static enum tern_result handle_download(struct tern_service *service, struct request *request)
{
    const struct download_request *wanted = &request->u.download;
    struct tern_blob *blob = NULL;
    struct tern_download_facts facts;
    enum tern_result found = request->parsed;
    if (found == TERN_OK) {
        found = tern_federation_blob(service->federation, wanted->sha256, &blob, &facts);
        if (found != TERN_OK && found != TERN_ERR_NOT_FOUND && found != TERN_ERR_BUSY) {
            return found;
        }
    }
    if (found != TERN_OK) {
        answer_refused(request, &(struct tern_refusal){.result = found});
        return TERN_OK;
    }
    *(request->tag.peer_is_cache ? &service->counters.cache_fills : &service->counters.downloads) +=
        1;
    request->tag.round = tern_federation_round(service->federation);
    answer_blob(request, blob, wanted->from, &facts);
    return TERN_OK;
}

static enum tern_result handle_authorize(struct tern_service *service, struct request *request)
{
    struct tern_download_facts facts;
    enum tern_result found = request->parsed;
    if (found == TERN_OK) {
        found = tern_federation_find_blob(service->federation, request->u.download.sha256, &facts);
        TERN_TRY(tern_db_may_miss(found));
    }
    if (found != TERN_OK) {
        answer_refused(request, &(struct tern_refusal){.result = found});
        return TERN_OK;
    }
    service->counters.downloads++;
    service->counters.authorized++;
    request->tag.round = tern_federation_round(service->federation);
    tern_answer_authorized(request, &facts);
    return TERN_OK;
}

static enum tern_result handle_update(struct tern_service *service, struct request *request,
                                      uint64_t now)
{
    struct tern_refusal refusal = {.result = TERN_OK};
    TERN_TRY(tern_federation_receive_update(service->federation, &request->u.update, now,
                                            &request->duplicate, &refusal));
    tern_http_exchange_evict_body(
        request->exchange); // saves memory, because a batch can have many long bodies
    if (refusal.result == TERN_ERR_BUSY) {
        tern_answer_unavailable(request);
    } else if (refusal.result != TERN_OK) {
        answer_refused(request, &refusal);
    }
    return TERN_OK;
}

// Answers a stored update. next: the client's next step; NULL = the client must check in.
static void answer_counted(struct tern_service *service, struct request *request,
                           const struct tern_checkin_answer *next)
{
    tern_UpdateReply reply = tern_UpdateReply_init_zero;
    reply.status =
        request->duplicate ? tern_UpdateStatus_UPDATE_DUPLICATE : tern_UpdateStatus_UPDATE_ACCEPTED;
    reply.has_next = next != NULL;
    if (next != NULL) {
        reply.next = next->reply;
    }
    if (answer_update(request, &reply) == TERN_OK) {
        *(request->duplicate ? &service->counters.updates_duplicate
                             : &service->counters.updates_accepted) += 1;
    }
}

static enum tern_result settle_update(struct tern_service *service, struct request *request,
                                      uint64_t now)
{
    struct tern_checkin_answer next;
    TERN_TRY(tern_federation_answer_update(service->federation, request->client, now, &next));
    answer_counted(service, request, &next);
    return TERN_OK;
}

enum tern_result tern_service_settle(struct tern_service *service, struct request *request,
                                     uint64_t now)
{
    if (request->answered) {
        return TERN_OK;
    }
    return request->kind == REQUEST_CHECKIN ? settle_checkin(service, request, now)
                                            : settle_update(service, request, now);
}

void tern_service_answer_failed(struct tern_service *service,
                                void (*answer)(struct request *request))
{
    release_all_held(service);
    for (struct request *request = service->batch.first; request != NULL; request = request->next) {
        if (request->stored) {
            answer_counted(service, request, NULL);
        } else {
            answer(request);
        }
    }
}

// Answers a question about an interrupted update with length and hash of the stored bytes.
static void answer_unfinished(struct request *request)
{
    const struct tern_http_unfinished *unfinished = &request->u.progress.unfinished;
    tern_UpdateReply reply = tern_UpdateReply_init_zero;
    reply.status = tern_UpdateStatus_UPDATE_UNFINISHED;
    reply.received = unfinished->len;
    reply.sha256.size = TERN_SHA256_SIZE;
    memcpy(reply.sha256.bytes, unfinished->sha256, TERN_SHA256_SIZE);
    (void)answer_update(request, &reply);
}

// Answers a client that did not receive the answer to its accepted update, with the answer to a duplicate.
static enum tern_result answer_accepted(struct tern_service *service, struct request *request,
                                        const uint8_t sha256[TERN_SHA256_SIZE], uint64_t now)
{
    tern_UpdateReply reply = tern_UpdateReply_init_zero;
    struct tern_checkin_answer next;
    TERN_TRY(tern_federation_answer_update(service->federation, request->client, now, &next));
    reply.status = tern_UpdateStatus_UPDATE_DUPLICATE;
    reply.has_next = true;
    reply.next = next.reply;
    reply.sha256.size = TERN_SHA256_SIZE;
    memcpy(reply.sha256.bytes, sha256, TERN_SHA256_SIZE);
    (void)answer_update(request, &reply);
    return TERN_OK;
}

static enum tern_result handle_progress(struct tern_service *service, struct request *request,
                                        uint64_t now)
{
    const struct progress_request *progress = &request->u.progress;
    uint8_t sha256[TERN_SHA256_SIZE];
    if (progress->interrupted) {
        answer_unfinished(request);
        return TERN_OK;
    }
    const enum tern_result found =
        tern_federation_find_update(service->federation, request->client, progress->round, sha256);
    if (found == TERN_ERR_NOT_FOUND) {
        answer_error(request, 404, found);
        return TERN_OK;
    }
    TERN_TRY(found);
    return answer_accepted(service, request, sha256, now);
}

// Stores statistics. The client then checks in, and that check-in waits for the other clients' statistics.
static enum tern_result handle_statistics(struct tern_service *service, struct request *request,
                                          uint64_t now)
{
    struct tern_refusal refusal = {.result = TERN_OK};
    tern_UpdateReply reply = tern_UpdateReply_init_zero;
    bool duplicate = false;
    TERN_TRY(tern_federation_receive_statistics(service->federation, request->client,
                                                &request->u.statistics, now, &duplicate, &refusal));
    if (refusal.result != TERN_OK) {
        answer_refused(request, &refusal);
        return TERN_OK;
    }
    reply.status =
        duplicate ? tern_UpdateStatus_UPDATE_DUPLICATE : tern_UpdateStatus_UPDATE_ACCEPTED;
    (void)answer_update(request, &reply);
    return TERN_OK;
}

static enum tern_result handle_scaling(struct tern_service *service, struct request *request)
{
    tern_CheckinReply reply = tern_CheckinReply_init_zero;
    tern_federation_scaling_status(service->federation, request->client, &reply);
    return answer_plain(request, &reply);
}

static enum tern_result handle_job(struct tern_service *service, struct request *request,
                                   uint64_t now)
{
    struct job_request *job = &request->u.job;
    request->answered = true;
    return job->job(service, service->db, now, job->ctx, &request->reply);
}

// Whether the federation admits the client. The gate has admitted the request, but the client may have been revoked
// since.
static bool is_admitted(struct tern_service *service, const struct request *request)
{
    return request->kind == REQUEST_ENROLL || request->kind == REQUEST_JOB ||
           tern_federation_has_client(service->federation, request->client);
}

enum tern_result tern_service_handle(struct tern_service *service, struct request *request,
                                     uint64_t now)
{
    if (!is_admitted(service, request)) {
        atomic_fetch_add(&service->unauthorized, 1);
        answer_error(request, 401, TERN_ERR_UNAUTHORIZED);
        return TERN_OK;
    }
    switch (request->kind) {
    case REQUEST_ENROLL:
        return handle_enroll(service, request, now);
    case REQUEST_CHECKIN:
        return handle_checkin(service, request, now);
    case REQUEST_DOWNLOAD:
        return handle_download(service, request);
    case REQUEST_AUTHORIZE:
        return handle_authorize(service, request);
    case REQUEST_UPDATE:
        return handle_update(service, request, now);
    case REQUEST_PROGRESS:
        return handle_progress(service, request, now);
    case REQUEST_STATISTICS:
        return handle_statistics(service, request, now);
    case REQUEST_SCALING:
        return handle_scaling(service, request);
    case REQUEST_JOB:
        break;
    }
    return handle_job(service, request, now);
}
