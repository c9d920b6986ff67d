#include "service/requests.h"

#include "hosted/log.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// --- The queue

void tern_request_list_init(struct tern_request_list *list)
{
    list->first = NULL;
    list->end = &list->first;
}

void tern_request_list_add(struct tern_request_list *list, struct request *request)
{
    request->next = NULL;
    *list->end = request;
    list->end = &request->next;
}

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

struct request *tern_request_queue_take(struct tern_request_queue *queue, uint32_t most,
                                        uint32_t *count)
{
    struct request *first = queue->list.first;
    struct request **end = &queue->list.first;
    *count = 0;
    while (*end != NULL && *count < most) {
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
        // The request is handled and stored; a repeated request gets the answer.
        request->reply.status = 503;
        request->reply.retry_after_s = 1;
        return;
    }
    memcpy(blob->data, body, len);
    request->reply.status = 200;
    request->reply.body = blob;
}

static void answer_error(struct request *request, enum tern_result result, const char *sentence)
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
        answer_error(request, result, sentence);
    }
    request->reply.status = status;
    request->reply.retry_after_s = status == 429 || status == 503 ? 1 : 0;
    request->answered = true;
}

void tern_answer_refused(struct request *request, const struct tern_refusal *refusal)
{
    tern_answer_refusal(request, status_of(refusal->result), refusal->result,
                        refusal->sentence[0] != '\0' ? refusal->sentence
                                                     : tern_result_sentence(refusal->result));
    if (refusal->retry_after_s != 0) {
        request->reply.retry_after_s = refusal->retry_after_s;
    }
}

void tern_answer_error(struct request *request, int status, enum tern_result result)
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

void tern_answer_message(struct request *request, enum tern_result encoded, const uint8_t *body,
                         size_t len)
{
    if (encoded == TERN_OK) {
        answer_bytes(request, body, len);
        return;
    }
    tern_log(TERN_LOG_ERROR, "reply-not-encodable", "error=%s", tern_result_name(encoded));
    tern_answer_error(request, 503, encoded);
}

// Returns the Cache-Control of a download.
static const char *cache_control(bool shared)
{
    return shared ? "public, max-age=31536000, immutable" : "private, max-age=31536000, immutable";
}

void tern_answer_blob(struct request *request, struct tern_blob *blob, uint64_t from,
                      const struct tern_download_facts *facts)
{
    clear_reply(request);
    request->reply.status = 200;
    request->reply.body = blob;
    request->reply.body_from = from < SIZE_MAX ? (size_t)from : SIZE_MAX;
    request->reply.cache = cache_control(facts->shared);
    uint64_t left = from < blob->len ? blob->len - from : 0; // 0: the listener replies 416
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

// Sets the tag's bytes of a download from byte `from` on that a cache sends, as if this aggregator had sent it.
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
