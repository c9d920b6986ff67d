// The state of the service, for the files of service/. Only the service thread uses it, except for members whose comment
// names other threads.
#ifndef TERN_SERVICE_INTERNAL_H
#define TERN_SERVICE_INTERNAL_H

#include "hosted/log.h"
#include "service/front.h"
#include "service/requests.h"
#include "service/service.h"
#include <pthread.h>
#include <stdatomic.h>

// Held check-ins: long polls of clients that wait for a task (handlers.c).
struct held {
    struct request **checkins; // [capacity] at index client - 1; NULL = none
    size_t capacity;
    uint32_t count;
    uint64_t next_ms; // earliest held_until_ms of these check-ins, in tern_service_monotonic()
    uint64_t retry;   // id of the client whose check-in the next batch tries first; 0 = no retries
};

// Tokens of the admin listener (front.c). Initialize all members with zeros, and the lock.
struct tern_admin_tokens {
    pthread_mutex_t lock;
    struct tern_db_token *tokens;
    size_t count;
};

// Simultaneous readings of both clocks.
struct tern_service_clock {
    uint64_t day_ms;    // tern_service_now()
    uint64_t steady_ms; // tern_service_monotonic()
};

// A copy of facts that other threads read without waiting for the service thread.
struct tern_service_snapshot {
    pthread_mutex_t lock;
    struct tern_service_facts facts;
    uint64_t measured_ms; // last reading of disk use, in tern_service_monotonic(); 0 = never
    char failure
        [256]; // why the last transaction failed; "" = it did not fail. Written by the service thread
    struct tern_service_upstream upstream; // state of a gateway's upstream aggregator
};

// Work that another thread gives the service thread and waits for (service.c).
enum work_step {
    WORK_NONE,
    WORK_QUEUED, // waits for a transaction
    WORK_DONE,   // done in the present transaction
    WORK_ENDED,  // the transaction was committed, or has failed
};

struct work {
    pthread_mutex_t lock; // guards all members
    pthread_cond_t ended;
    enum work_step step;
    tern_service_work work;
    void *ctx;
    enum tern_result result;
};

// The longest iterations of the service thread in the present minute and in the minute before. Initialize all members with
// zeros.
struct tern_longest {
    uint64_t minute;
    uint64_t us;
    uint64_t us_before;
};

// Adds an iteration of so many microseconds. Returns the longest one of the two minutes.
static inline uint64_t tern_longest_add(struct tern_longest *longest, uint64_t now_us, uint64_t us)
{
    const uint64_t minute = now_us / 60000000;
    if (minute != longest->minute) {
        longest->us_before = minute == longest->minute + 1 ? longest->us : 0;
        longest->us = 0;
        longest->minute = minute;
    }
    longest->us = us > longest->us ? us : longest->us;
    return longest->us > longest->us_before ? longest->us : longest->us_before;
}

struct tern_service {
    // Constant, except for `limits` and `federation`, which only the service thread uses. Any thread reads the constant
    // members.
    struct tern_service_config config;
    pthread_mutex_t next_config_lock;
    struct tern_service_config next_config; // guarded by next_config_lock; valid if config_changed
    atomic_bool config_changed;
    struct tern_db *db;
    struct tern_federation *federation;
    struct tern_gate *gate;          // any thread
    struct tern_access_log access;   // any thread
    struct tern_psk_keys psk_keys;   // any thread; empty unless config.psk
    struct tern_admin_tokens tokens; // any thread
    struct tern_metering *metering;  // any thread
    struct tern_request_queue queue; // any thread
    pthread_t thread;

    struct tern_request_list batch;   // requests of the present transaction
    struct tern_request_list waiting; // updates that wait for a merge, some of them handled
    struct held held;
    struct work work;                // any thread
    struct tern_service_clock clock; // reading to which the times in memory and in the store refer
    bool clock_is_stored;            // false: the next batch stores `clock`
    uint64_t batch_ms;               // tern_service_monotonic() when the present batch began
    uint64_t worked_us;          // for which the service thread has worked, in earlier iterations
    uint64_t iteration_us;       // when the present iteration began, in monotonic_us()
    struct tern_longest longest; // iteration of the last two minutes
    bool quiescing;              // copy of queue.quiesce
    bool broken;                 // memory differs from the store; the next batch loads the store
    char halt_why[256];          // set before `halted`, constant afterwards; "" = none
    uint64_t flushed_ms;         // last write of clients and meter, in tern_service_monotonic()

    // Counters, which the listeners' threads increase, too.
    atomic_uint_least64_t unauthorized;
    atomic_uint_least64_t rate_limited;
    // Wire bytes between caches and this aggregator, by enum tern_direction.
    atomic_uint_least64_t cache_bytes[2];
    atomic_uint_least64_t iterations; // iterations of the service thread
    // Start of the last transaction in tern_service_monotonic(); 0 = the transaction failed, and memory was not loaded
    // since.
    atomic_uint_least64_t current_ms;
    // When the service thread's present iteration began, by tern_service_monotonic() and by tern_monotonic_ms(); 0 = the
    // thread waits.
    atomic_uint_least64_t iteration_service_ms;
    atomic_uint_least64_t iteration_ms;
    atomic_uint_least64_t checked_ms; // tern_service_set_checked()
    atomic_uint_least64_t disk_needed_bytes;
    atomic_bool halted;                    // the service writes nothing until a restart
    struct tern_service_facts counters;    // only its counters are used
    struct tern_service_snapshot snapshot; // any thread
};

// --- Front (front.c): the listeners' side of the service

// Creates the gate and the access log from service->config. All other members are zero. TERN_ERR_NO_MEMORY,
// TERN_ERR_IO: the system has no random bytes
TERN_MUST_USE enum tern_result tern_front_open(struct tern_service *service);
// Loads the pre-shared keys, the admin listener's tokens and join codes of the store, including used and expired codes. On an error nothing changes.
// TERN_ERR_NO_MEMORY, errors of the store
TERN_MUST_USE enum tern_result tern_front_load(struct tern_service *service);
// Uses new limits of rates and log lines.
void tern_front_configure(struct tern_service *service, const struct tern_service_config *config);
void tern_front_close(struct tern_service *service);

// --- Byte counts (facts.c)

// Adds up byte counts in memory per client, round and purpose, until the service thread writes them to the store, so
// that a batch of requests costs a few rows. Listeners' threads add counts. Any thread.
struct tern_metering *tern_metering_new(void); // NULL when memory is short
void tern_metering_free(struct tern_metering *metering);

void tern_metering_add(struct tern_metering *metering, const struct tern_db_meter *row);

// Adds to *meter the bytes of a client in a round that are not in the store yet.
void tern_metering_pending(struct tern_metering *metering, uint64_t client, uint32_t round,
                           struct tern_db_meter *meter);

// Writes all rows inside the present transaction. Call tern_metering_end_flush() after the transaction.
TERN_MUST_USE enum tern_result tern_metering_flush(struct tern_metering *metering,
                                                   struct tern_db *db);

// Drops the flushed rows after a commit; otherwise the next flush writes these rows.
void tern_metering_end_flush(struct tern_metering *metering, bool committed);

// --- Facts for any thread (facts.c)

// Copies the counters at the end of a batch, before its answers are sent. is_stored: memory equals the store, so that the
// federation's facts are copied, too.
void tern_service_snapshot_update(struct tern_service *service, bool is_stored);
// Records the result of a transaction on service->db.
void tern_service_snapshot_stored(struct tern_service *service, enum tern_result result);
// Whether the service thread's present iteration takes so long (5 s, or 250 ms after a failed transaction) that new
// requests are refused instead of queued. Any thread.
bool tern_service_is_stuck(struct tern_service *service);

// Any thread.
static inline bool tern_service_is_halted(const struct tern_service *service)
{
    return atomic_load(&service->halted);
}

// --- Handlers (handlers.c), called inside the batch's transaction. An error is an error of the store and fails the batch.

// Handles a request of any kind. Answers the request, unless the answer depends on the rounds after the batch.
TERN_MUST_USE enum tern_result tern_service_handle(struct tern_service *service,
                                                   struct request *request, uint64_t now);
// Answers an accepted update, or answers or holds a check-in, after tern_federation_advance().
TERN_MUST_USE enum tern_result tern_service_settle(struct tern_service *service,
                                                   struct request *request, uint64_t now);
// Answers the held check-ins whose clients have a task now, or whose waiting time has ended by batch_ms. A batch tries
// a limited number of check-ins; the next batch continues at held.retry.
TERN_MUST_USE enum tern_result tern_service_settle_held(struct tern_service *service, uint64_t now);
bool tern_service_holds(const struct tern_service *service, const struct request *request);
// Reports the clients of held check-ins to the federation, after the federation was loaded again.
void tern_service_restore_held(struct tern_service *service);

// Moves all held check-ins into the failed batch, and calls `answer` for all its requests, except updates that an earlier
// batch has stored.
void tern_service_answer_failed(struct tern_service *service,
                                void (*answer)(struct request *request));

// --- Clocks (facts.c)

// Returns monotonic ms for intervals within one boot. This clock advances while the machine sleeps. Any thread.
uint64_t tern_service_monotonic(const struct tern_service *service);

#endif
