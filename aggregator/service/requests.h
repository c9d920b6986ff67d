// One request, from the headers to its answer: struct request is filled when the headers have arrived, stays with the
// HTTP exchange while the body arrives, and passes through the queue to the service thread, which answers it. Listeners'
// threads put requests, the service thread takes them.
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
    REQUEST_AUTHORIZE, // a cache asks whether a client may have a download
    REQUEST_UPDATE,
    REQUEST_PROGRESS, // how much of an update has arrived
    REQUEST_STATISTICS,
    REQUEST_SCALING, // how many statistics have arrived
    REQUEST_JOB,     // from admin/
    REQUEST_METER,   // bytes that a follower has counted
};

struct download_request {
    uint8_t sha256[TERN_SHA256_SIZE];
    uint64_t from;          // first byte wanted
    uint32_t request_bytes; // of the client's request, where a cache asks
};

struct progress_request {
    uint32_t round;
    uint32_t sequence;
    bool kept; // the listener keeps a part, `unfinished`
    struct tern_http_unfinished unfinished;
};

struct job_request {
    tern_service_job job;
    tern_service_refuse refuse;
    void *ctx;
};

// The content of a request that a follower of this aggregator has received.
struct relayed_request {
    uint64_t node;
    uint64_t number;
    struct tern_http_request http; // with the texts and the body below
    char path[TERN_DB_PATH_MAX];
    char peer[TERN_DB_NAME_MAX];
    char certificate[TERN_DB_NAME_MAX];
    uint32_t tries;       // transactions that failed with it
    uint32_t over_rate_s; // refused: in how many seconds to try again; 0 = not refused
    bool claimed;         // its row is deleted in this transaction
    bool named;           // answered by the name of a download, which its node must read
    bool shared;          // the download is the same for all clients
    uint8_t sha256[TERN_SHA256_SIZE];
    uint64_t body_from;
    atomic_uint_least64_t *bytes; // of all waiting bodies, with this one
    uint8_t body[];
};

// Made on a listener's thread when the headers have arrived. The exchange owns it until the body is complete, then the
// service thread until it is answered.
struct request {
    struct request *next;
    struct tern_http_exchange *exchange; // NULL before on_request(), and for a relayed request
    uint64_t relays_as;                  // its number when it is relayed to the leader
    struct relayed_request *relayed; // owned; NULL: a listener of this aggregator has received it
    enum request_kind kind;
    uint64_t client; // 0 for enrolments and jobs
    bool
        unproven; // the token is unknown here, and another aggregator may have issued it a moment ago
    enum tern_result parsed; // result of parsing; for an update also in u.update
    union {
        tern_EnrollRequest enroll;
        tern_CheckinRequest checkin;
        struct tern_incoming update;
        struct download_request download;
        struct progress_request progress;
        struct tern_incoming_statistics statistics;
        struct job_request job;
    } u;

    // Check-in, by tern_service_monotonic(): when it arrived; until when its client waits; until when it is held.
    uint64_t came_ms;
    uint64_t hold_until_ms;
    uint64_t held_until_ms;
    bool handled;   // by this batch or an earlier one; it must be settled
    bool stored;    // update: an earlier batch has stored it
    bool answered;  // reply and tag are ready to be sent
    bool duplicate; // update: it was stored before
    struct tern_http_reply reply;
    struct tern_http_tag tag;
};

struct tern_request_list {
    struct request *first;
    struct request **end; // where the next one is linked
};

// Returns the HTTP request, whether it was relayed or not.
static inline const struct tern_http_request *tern_request_http(const struct request *request)
{
    return request->relayed != NULL ? &request->relayed->http
                                    : tern_http_exchange_request(request->exchange);
}

void tern_request_list_init(struct tern_request_list *list);
void tern_request_list_add(struct tern_request_list *list, struct request *request);

// --- The queue: bounded; many threads put, the service thread takes

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
// Whether the queue would accept a request now. Any thread.
bool tern_request_queue_has_room(struct tern_request_queue *queue);
// Sets one of the queue's flags and wakes the service thread.
void tern_request_queue_set_flag(struct tern_request_queue *queue, bool *flag);
// Takes up to `most` requests off the queue, whose lock the caller holds. NULL = none.
struct request *tern_request_queue_take(struct tern_request_queue *queue, uint32_t most,
                                        uint32_t *count);
// Waits up to `ms` for a request or a flag; the caller holds the lock.
void tern_request_queue_wait(struct tern_request_queue *queue, uint64_t ms);

// --- Answers

// Sets the reply: an Error body, with a Retry-After of a second for 429 and 503.
void tern_answer_error(struct request *request, int status, enum tern_result result);
// The same with a more exact sentence than the result's.
void tern_answer_refusal(struct request *request, int status, enum tern_result result,
                         const char *sentence);
// The same with the status that follows from the result.
void tern_answer_refused(struct request *request, const struct tern_refusal *refusal);
// Sets a reply of 200 with these bytes, copied; or, when the message could not be encoded, 503.
void tern_answer_message(struct request *request, enum tern_result encoded, const uint8_t *body,
                         size_t len);
// Sets a reply with the bytes of a shared blob from byte `from` on, and takes over the blob.
void tern_answer_blob(struct request *request, struct tern_blob *blob, uint64_t from,
                      const struct tern_download_facts *facts);
// Answers a relayed request with the name of a download, which its node sends from byte `from` on.
void tern_answer_named(struct request *request, const uint8_t sha256[TERN_SHA256_SIZE],
                       uint64_t from, const struct tern_download_facts *facts);
// Sets a reply of 204 to a cache: it may send the download to the client.
void tern_answer_authorized(struct request *request, const struct tern_download_facts *facts);
// Replaces any answer by 503.
void tern_answer_unavailable(struct request *request);
// Makes an answer of 503 close the connection, if this is one of several aggregators (`shares`): the client's next
// connection may reach another one.
void tern_answer_elsewhere(struct request *request, bool shares);
// Answers 503 because the service has halted.
void tern_answer_halted(struct request *request);
// Answers 503 because another aggregator serves the federation now.
void tern_answer_displaced(struct request *request);
// Sends the reply, unless the request was relayed, and frees the request.
void tern_answer_send(struct request *request);

#endif
