// Requests on their way from the listeners' threads to the service thread, and their answers.
#ifndef TERN_SERVICE_REQUESTS_H
#define TERN_SERVICE_REQUESTS_H

#include "federation/federation.h"
#include "http/http.h"
#include "service/service.h"
#include "store/nodes.h"
#include <pthread.h>
#include <stdatomic.h>

enum request_kind {
    REQUEST_ENROLL,
    REQUEST_CHECKIN,
    REQUEST_DOWNLOAD,
    REQUEST_AUTHORIZE, // of a cache, for a download of a client's
    REQUEST_UPDATE,
    REQUEST_PROGRESS, // what there is of an update
    REQUEST_STATISTICS,
    REQUEST_SCALING, // how far the statistics are
    REQUEST_JOB,     // from admin/
    REQUEST_METER,   // bytes that a node which follows has counted
};

struct download_request {
    uint8_t sha256[TERN_SHA256_SIZE];
    uint64_t from;          // first byte wanted
    uint32_t request_bytes; // of the client's request, where a cache asks
};

struct progress_request {
    uint32_t round;
    uint32_t sequence;
    bool kept; // some of it, `unfinished`
    struct tern_http_unfinished unfinished;
};

struct job_request {
    tern_service_job job;
    tern_service_refuse refuse;
    void *ctx;
};

// What a request has that another aggregator has received, which follows this one.
struct relayed_request {
    uint64_t node;
    uint64_t number;
    struct tern_http_request http; // its texts and body are those below
    char path[TERN_DB_PATH_MAX];
    char peer[TERN_DB_NAME_MAX];
    char certificate[TERN_DB_NAME_MAX];
    uint32_t tries;       // transactions that failed with it
    uint32_t over_rate_s; // it is refused, and may come again then; 0 = it is not
    bool claimed;         // its row is gone in this transaction
    bool named;           // it is answered by the download of that name, which its node has to read
    bool shared;          // that is the same for all
    uint8_t sha256[TERN_SHA256_SIZE];
    uint64_t body_from;
    atomic_uint_least64_t *bytes; // of all bodies that wait, this one among them
    uint8_t body[];
};

// Made on a listener's thread, then owned by the service thread until it is answered.
struct request {
    struct request *next;
    struct tern_http_exchange *exchange; // NULL: relayed has it
    uint64_t relays_as;                  // its number, where it is handed to who leads
    struct relayed_request *relayed;     // owned; NULL: it came to a listener of this aggregator
    enum request_kind kind;
    uint64_t client; // 0 for enrolments and jobs
    bool unproven;   // of an aggregator that follows: its token may be one that was given just now
    enum tern_result parsed; // of the body, but an update's, which says so itself
    union {
        tern_EnrollRequest enroll;
        tern_CheckinRequest checkin;
        struct tern_incoming update;
        struct download_request download;
        struct progress_request progress;
        struct tern_incoming_statistics statistics;
        struct job_request job;
    } u;

    // Check-in, of tern_service_monotonic(): when it came, when it may be told that there is nothing to do,
    // and when it is, if it is held.
    uint64_t came_ms;
    uint64_t hold_until_ms;
    uint64_t held_until_ms;
    bool handled;   // an earlier batch or this one has: it is to be settled
    bool stored;    // update: it counts, by an earlier batch
    bool answered;  // reply and tag are ready to be sent
    bool duplicate; // update: it was stored before
    struct tern_http_reply reply;
    struct tern_http_tag tag;
};

struct tern_request_list {
    struct request *first;
    struct request **end; // where the next one is linked
};

// What it is about, from wherever it came.
static inline const struct tern_http_request *tern_request_http(const struct request *request)
{
    return request->relayed != NULL ? &request->relayed->http
                                    : tern_http_exchange_request(request->exchange);
}

void tern_request_list_init(struct tern_request_list *list);
void tern_request_list_add(struct tern_request_list *list, struct request *request);

// --- The queue (requests.c): bounded; many threads put, the service thread takes

struct tern_request_queue {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct tern_request_list list;
    uint32_t count;
    uint32_t max;
    bool stopping;
    bool quiesce; // hold no check-in any more
    bool poked;   // something besides a request needs the service thread
};

void tern_request_queue_init(struct tern_request_queue *queue, uint32_t max);
void tern_request_queue_limit(struct tern_request_queue *queue, uint32_t max); // from now on
void tern_request_queue_free(struct tern_request_queue *queue);
// False when the queue is full or stopping.
bool tern_request_queue_put(struct tern_request_queue *queue, struct request *request);
// Whether it would be taken now. Any thread.
bool tern_request_queue_has_room(struct tern_request_queue *queue);
// Sets one of the queue's flags and wakes the service thread.
void tern_request_queue_tell(struct tern_request_queue *queue, bool *flag);
// Of a locked queue: takes up to `most` requests off it; waits until there is something to do.
struct request *tern_request_queue_take(struct tern_request_queue *queue, uint32_t most,
                                        uint32_t *count);
void tern_request_queue_wait(struct tern_request_queue *queue, uint64_t ms);

// --- Answers (answer.c)

// Sets the reply: an Error body, with a Retry-After of a second for 429 and 503.
void tern_answer_error(struct request *request, int status, enum tern_result result);
// The sentence of the result is replaced by a more exact one.
void tern_answer_refusal(struct request *request, int status, enum tern_result result,
                         const char *sentence);
// The status follows from the result.
void tern_answer_refused(struct request *request, const struct tern_refusal *refusal);
// Sets a reply of 200 with these bytes, copied; or, when the message could not be encoded, 503.
void tern_answer_message(struct request *request, enum tern_result encoded, const uint8_t *body,
                         size_t len);
// Sets a reply with the bytes of a shared blob, taken over, from that one on.
void tern_answer_blob(struct request *request, struct tern_blob *blob, uint64_t from,
                      const struct tern_download_facts *facts);
// Of a relayed request: its node sends the download of that name, from that byte on.
void tern_answer_named(struct request *request, const uint8_t sha256[TERN_SHA256_SIZE],
                       uint64_t from, const struct tern_download_facts *facts);
// Sets a reply of 204 to a cache, which may send that download to the client.
void tern_answer_authorized(struct request *request, const struct tern_download_facts *facts);
// Replaces whatever was answered by 503.
void tern_answer_unavailable(struct request *request);
// Of an answer of 503 by one of several aggregators: the client comes anew, as a proxy or its resolver leads it, maybe to
// another one. shares: it is one of several
void tern_answer_elsewhere(struct request *request, bool shares);
// The same for all requests once the service has halted.
void tern_answer_halted(struct request *request);
// Another one has taken over: soon, at the same address or another.
void tern_answer_displaced(struct request *request);
// Sends the reply, unless it was relayed, and frees the request.
void tern_answer_send(struct request *request);

#endif
