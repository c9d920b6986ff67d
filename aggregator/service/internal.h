// The state of the service, for the files of service/, and of nodes/, which relays requests between aggregators. Only the
// service thread uses it, unless a member's comment tells otherwise.
#ifndef TERN_SERVICE_INTERNAL_H
#define TERN_SERVICE_INTERNAL_H

#include "hosted/log.h"
#include "service/access_log.h"
#include "service/gate.h"
#include "service/metering.h"
#include "service/requests.h"
#include "service/service.h"
#include <pthread.h>
#include <stdatomic.h>

// Check-ins that wait for a task (handlers.c).
struct held {
    struct request **of; // by client - 1; NULL = none
    size_t capacity;
    uint32_t count;
    uint64_t next_ms; // when the first held check-in must be answered; of tern_service_monotonic()
    uint64_t asking;  // the first client whose check-in is tried again; 0 = none
};

// Both clocks at one time.
struct tern_service_clock {
    uint64_t day_ms;    // tern_service_now()
    uint64_t steady_ms; // tern_service_monotonic()
};

// What other threads can read without waiting for the service thread.
struct tern_service_view {
    pthread_mutex_t lock;
    struct tern_service_facts facts;
    uint64_t
        measured_ms;   // bytes of database and disk, last; of tern_service_monotonic(); 0 = never
    char failure[256]; // why nothing is stored; empty: it is. Written by the service thread
    struct tern_service_above above; // of a gateway
};

// Work that another thread gives the service thread and waits for (service.c).
enum work_step {
    WORK_NONE,
    WORK_ASKED, // waits for a transaction
    WORK_DONE,  // in the present one
    WORK_ENDED, // the transaction is committed, or failed
};

struct work {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    enum work_step step; // under the lock, as all of this
    tern_service_work work;
    void *ctx;
    enum tern_result result;
};

struct tern_service {
    // Constant after start, but its limits and federation, which only the service thread uses.
    struct tern_service_config config;
    pthread_mutex_t fresh_lock;
    struct tern_service_config
        fresh; // under fresh_lock: the next configuration, where fresh_is_due
    atomic_bool fresh_is_due;
    struct tern_db *db;
    struct tern_federation *federation;
    struct tern_gate *gate;          // any thread
    struct tern_access_log access;   // any thread
    struct tern_psk_keys psk_keys;   // any thread; empty unless config.psk
    struct tern_metering *metering;  // any thread
    struct tern_request_queue queue; // any thread
    pthread_t thread;
    struct tern_follower *follower; // NULL: this aggregator has led from the start
    struct tern_taker *taker;       // while it leads a database that others serve, too; else NULL
    atomic_bool follows;            // another aggregator leads
    atomic_uint_least32_t relayed;  // requests that wait for the leader's answer
    uint64_t taker_due_ms;          // when to try again to start the taker

    struct tern_request_list batch;   // requests of the present transaction
    struct tern_request_list waiting; // updates that wait for a merge: handled, or not yet
    struct held held;
    struct work work;                // any thread
    bool has_enrolled;               // other aggregators on the database must load the new clients
    bool has_changed_clients;        // other aggregators on the database must load all clients
    struct tern_service_clock clock; // the base of times in memory and in the store
    bool clock_is_stored;            // else the next batch stores it
    uint64_t batch_ms;               // tern_service_monotonic() when the present batch began
    bool quiescing;                  // copy of queue.quiesce
    bool broken;                     // memory must be loaded from the store again
    char halt_why[256];              // set before `halted`, constant after it; empty = none
    uint64_t flushed_ms; // clients and meter were last written; of tern_service_monotonic()

    // Counters; the listeners' threads count too.
    atomic_uint_least64_t unauthorized;
    atomic_uint_least64_t rate_limited;
    atomic_uint_least64_t cache_bytes[2]; // on the wire, by enum tern_direction
    atomic_uint_least64_t turns;          // of the service thread
    // tern_service_monotonic() when the last transaction began; 0 = it failed, and nothing was loaded since.
    atomic_uint_least64_t current_ms;
    atomic_uint_least64_t working_ms; // tern_service_monotonic() when its turn began; 0 = it waits
    atomic_uint_least64_t turn_ms;    // the same by tern_service_machine_ms()
    atomic_uint_least64_t checked_ms; // tern_service_set_checked()
    atomic_uint_least64_t disk_needed_bytes;
    atomic_bool halted;                 // nothing is written any more
    struct tern_service_facts counters; // only its counters are used
    struct tern_service_view view;      // any thread
};

// --- Facts for any thread (facts.c)

void tern_service_view_init(struct tern_service_view *view);
void tern_service_view_free(struct tern_service_view *view);
// Copies the counters at the end of a batch, before its answers are sent. is_stored: memory equals the store, so copies
// the federation's facts, too.
void tern_service_view_update(struct tern_service *service, bool is_stored);
// Records that a transaction that wrote was committed.
void tern_service_view_stored(struct tern_service *service);
// Records that a transaction failed, on service->db or on another connection.
void tern_service_view_failed(struct tern_service *service, const struct tern_db *db,
                              enum tern_result why);
// Whether the present turn of the service thread has taken so long that new requests should be sent again instead of
// waiting: seconds, or less than one after a failed turn. Any thread.
bool tern_service_is_stuck(struct tern_service *service);

// Any thread.
static inline bool tern_service_is_halted(const struct tern_service *service)
{
    return atomic_load(&service->halted);
}

// --- Requests as they arrive (front.c): on a listener's thread, or the one that takes the requests of other aggregators
// from the database

// Sets the tag's round if there is such a round, else 0: the meter has a row for each round of a client.
void tern_request_tag_round(struct tern_service *service, uint32_t round,
                            struct tern_http_tag *tag);

// Returns the seconds that the peer has to wait before another request; 0 = none.
uint32_t tern_request_over_rate(struct tern_service *service, const struct tern_http_request *http,
                                uint64_t client, enum request_kind kind);

// Parses the path into request->u, by the request's kind. An error: the path is no such one.
TERN_MUST_USE enum tern_result tern_request_parse_path(const char *path, struct request *request);

// Parses the body into request->u and sets the tag, after tern_request_parse_path(). The service thread answers an
// error when it handles the request.
TERN_MUST_USE enum tern_result tern_request_parse(struct tern_service *service,
                                                  struct request *request);

// Authenticates a client whose token was unknown when the headers arrived, with what is loaded now. Sets request->client,
// and leaves `unproven` where the token is still unknown.
void tern_request_prove(struct tern_service *service, struct request *request);

// --- Handlers (handlers.c): called inside the batch's transaction. They fail only when the store fails, which fails
// the batch.

// Handles a request of any kind, and answers it unless it must be settled.
TERN_MUST_USE enum tern_result tern_service_handle(struct tern_service *service,
                                                   struct request *request, uint64_t now);
// Answers an accepted update, or answers or holds a check-in, after the rounds have moved on.
TERN_MUST_USE enum tern_result tern_service_settle(struct tern_service *service,
                                                   struct request *request, uint64_t now);
// Answers the held check-ins that have something to do now, or whose time has ended by batch_ms. A batch answers a
// bounded number of them; held.asking is where the next batch continues.
TERN_MUST_USE enum tern_result tern_service_settle_held(struct tern_service *service, uint64_t now);
bool tern_service_holds(const struct tern_service *service, const struct request *request);
// Tells a federation that was loaded again which clients wait.
void tern_service_restore_held(struct tern_service *service);
// Moves all held check-ins into the batch, unanswered.
void tern_service_release_held(struct tern_service *service);

// Answers an update that was interrupted with how much of it has arrived.
void tern_answer_unfinished(struct request *request);
// Answers all requests of a failed batch with `answer`, except updates that an earlier batch has stored.
void tern_service_answer_failed(struct tern_service *service,
                                void (*answer)(struct request *request));

// --- Clocks (facts.c)

// Returns the time of day, for what is stored; it may be set back or forth.
uint64_t tern_service_now(const struct tern_service *service);
// Returns a time for intervals within one run of the program. It advances while the machine sleeps. Any thread.
uint64_t tern_service_monotonic(const struct tern_service *service);
// Returns the machine's monotonic time, whatever clock the service was given: for how long work takes.
uint64_t tern_service_machine_ms(void);

#endif
