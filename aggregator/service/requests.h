// One request, from the headers to the answer. A listener's thread makes struct request when the headers have arrived.
// The struct belongs to the HTTP exchange while the body arrives, then passes through the queue to the service thread,
// which answers the request.
#ifndef TERN_SERVICE_REQUESTS_H
#define TERN_SERVICE_REQUESTS_H

#include "federation/federation.h"
#include "http/http.h"
#include "service/service.h"
#include <pthread.h>
#include <stdatomic.h>

enum request_kind {
    REQUEST_ENROLL,
    REQUEST_CHECKIN,
    REQUEST_DOWNLOAD,
    REQUEST_AUTHORIZE, // a cache asks whether a client may have a download
    REQUEST_UPDATE,
    REQUEST_PROGRESS, // a client asks how much of its update has arrived
    REQUEST_STATISTICS,
    REQUEST_SCALING, // a client asks for the scaling, or whether its statistics are needed
    REQUEST_JOB,     // work from admin/ for the service thread
};

struct download_request {
    uint8_t sha256[TERN_SHA256_SIZE];
    uint64_t from;          // first byte that the client asks for
    uint32_t request_bytes; // REQUEST_AUTHORIZE: size of the client's request to the cache
};

struct progress_request {
    uint32_t round;
    uint32_t sequence;
    bool interrupted; // the listener stores an interrupted upload of the update
    struct tern_http_unfinished unfinished;
};

struct job_request {
    tern_service_job job;
    tern_service_refuse refuse;
    void *ctx;
};

// The exchange owns the struct until the body is complete, then the service thread until the answer.
struct request {
    struct request *next;
    struct tern_http_exchange *exchange; // NULL before on_request()
    enum request_kind kind;
    uint64_t client;         // 0 for enrolments and jobs
    enum tern_result parsed; // result of parsing the body; for an update also in u.update
    union {
        tern_EnrollRequest enroll;
        tern_CheckinRequest checkin;
        struct tern_incoming_update update;
        struct download_request download;
        struct progress_request progress;
        struct tern_incoming_statistics statistics;
        struct job_request job;
    } u;

    // Times of a check-in, in tern_service_monotonic().
    uint64_t arrived_ms;
    uint64_t wait_until_ms; // when the client's wait_ms ends
    uint64_t held_until_ms; // when the check-in is answered even without a task
    // A search makes this client's downloads; the check-in is tried again when a search has ended.
    bool awaits_downloads;
    bool handled;   // tern_service_handle() has handled the request
    bool stored;    // update: an earlier batch has stored it
    bool answered;  // reply and tag are ready to be sent
    bool duplicate; // update: an earlier request has stored the same update
    struct tern_http_reply reply;
    struct tern_http_tag tag;
};

struct tern_request_list {
    struct request *first;
    struct request **end; // the last `next`, or &first
};

static inline void tern_request_list_init(struct tern_request_list *list)
{
    list->first = NULL;
    list->end = &list->first;
}

static inline void tern_request_list_add(struct tern_request_list *list, struct request *request)
{
    request->next = NULL;
    *list->end = request;
    list->end = &request->next;
}

// --- The queue: bounded; any thread puts, the service thread takes

struct tern_request_queue {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct tern_request_list list;
    uint32_t count;
    uint32_t max;
    bool stopping;
    bool quiesce; // the service answers held check-ins and holds no new check-ins
    bool woken;   // the service thread must run, even without a request
};

void tern_request_queue_init(struct tern_request_queue *queue, uint32_t max);
void tern_request_queue_set_limit(struct tern_request_queue *queue, uint32_t max);
void tern_request_queue_free(struct tern_request_queue *queue);
// False when the queue is full or stopping.
bool tern_request_queue_put(struct tern_request_queue *queue, struct request *request);
// Sets one of the queue's flags and wakes the service thread.
void tern_request_queue_set_flag(struct tern_request_queue *queue, bool *flag);
// Removes and returns up to `limit` requests, linked by `next`. *count: their number. NULL = none. The caller has
// queue->lock.
struct request *tern_request_queue_take(struct tern_request_queue *queue, uint32_t limit,
                                        uint32_t *count);
// Waits up to `ms` for a request or a flag. The caller has queue->lock.
void tern_request_queue_wait(struct tern_request_queue *queue, uint64_t ms);

// --- Answers

// Sets the reply to an Error with this sentence, and Retry-After: 1 for 429 and 503.
void tern_answer_refusal(struct request *request, int status, enum tern_result result,
                         const char *sentence);
// Sets the reply to 204: the cache may send the download to the client.
void tern_answer_authorized(struct request *request, const struct tern_download_facts *facts);
// Replaces any answer by 503.
void tern_answer_unavailable(struct request *request);
// Makes a reply of 503 close the connection if another aggregator can take over the database (`shares`), because the client's
// next connection may reach the new leader.
void tern_answer_reconnect(struct request *request, bool shares);
// Sends the reply and frees the request.
void tern_answer_send(struct request *request);

#endif
