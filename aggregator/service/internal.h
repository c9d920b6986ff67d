// What the files of service/ share. Not for anybody else. Unless a member says otherwise, only the
// service thread touches it.
#ifndef TERN_SERVICE_INTERNAL_H
#define TERN_SERVICE_INTERNAL_H

#include "hosted/log.h"
#include "service/access_log.h"
#include "service/gate.h"
#include "service/metering.h"
#include "service/psk_keys.h"
#include "service/requests.h"
#include "service/service.h"
#include <pthread.h>
#include <stdatomic.h>

// Check-ins that wait for a task (checkin.c).
struct held {
    struct request **of; // by client - 1; NULL = none
    size_t capacity;
    uint32_t count;
    uint64_t next_ms; // no held check-in's time is up before; of tern_service_monotonic()
    uint64_t asking;  // clients from here on are to be asked again; 0 = none
};

// Both clocks at one time.
struct tern_service_clock {
    uint64_t day_ms;    // tern_service_now()
    uint64_t steady_ms; // tern_service_monotonic()
};

// What other threads see of the service without waiting for it.
struct tern_service_view {
    pthread_mutex_t lock;
    struct tern_service_facts facts;
    uint64_t
        measured_ms;   // bytes of database and disk, last; of tern_service_monotonic(); 0 = never
    char failure[256]; // why nothing is stored; empty: it is. Written by the service thread
    struct tern_service_above above; // of a gateway
};

// Work of another thread, which waits for it (work.c).
enum work_step {
    WORK_NONE,
    WORK_ASKED, // waits for a transaction
    WORK_DONE,  // in the present one
    WORK_ENDED, // that is committed, or failed
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
    // Read-only after start, but its limits and federation, which only the service thread touches.
    struct tern_service_config config;
    pthread_mutex_t fresh_lock;
    struct tern_service_config fresh; // under it: to be gone by, where fresh_is_due
    atomic_bool fresh_is_due;
    struct tern_db *db;
    struct tern_federation *federation;
    struct tern_gate *gate;          // any thread
    struct tern_access_log access;   // any thread
    struct tern_psk_keys psk_keys;   // any thread; empty unless config.psk
    struct tern_metering *metering;  // any thread
    struct tern_request_queue queue; // any thread
    pthread_t thread;
    struct tern_follower *follower; // NULL: it has led from the start
    struct tern_taker *taker;       // while it leads a database that others serve, too; else NULL
    atomic_bool follows;            // another one leads
    atomic_uint_least32_t relayed;  // requests that wait for its answer
    uint64_t taker_due_ms;          // when it is tried to start one again

    struct tern_request_list batch;   // requests of the present transaction
    struct tern_request_list waiting; // updates that wait for a merge: handled, or not yet
    struct held held;
    struct work work;                // any thread
    bool has_enrolled;               // clients that the others on the database have to know of
    bool has_changed_clients;        // likewise, all of them
    struct tern_service_clock clock; // what memory's times go by, as those that are stored
    bool clock_is_stored;            // as it is here; else the next batch does
    uint64_t batch_ms;               // tern_service_monotonic() when the present batch began
    bool quiescing;                  // copy of queue.quiesce
    bool broken;                     // memory is to be built from the store; also after that failed
    char halt_why[256];              // set before `halted`, constant after it; empty = none
    uint64_t flushed_ms; // clients and meter were last written; of tern_service_monotonic()

    // Counters; the listeners' threads count too.
    atomic_uint_least64_t unauthorized;
    atomic_uint_least64_t rate_limited;
    atomic_uint_least64_t cache_bytes[2]; // on the wire, by enum tern_direction
    atomic_uint_least64_t turns;          // of the service thread
    atomic_uint_least64_t working_ms; // tern_service_monotonic() when its turn began; 0 = it waits
    atomic_uint_least64_t turn_ms;    // likewise, of tern_service_machine_ms()
    atomic_uint_least64_t checked_ms; // tern_service_set_checked()
    atomic_uint_least64_t disk_needed_bytes;
    atomic_bool halted;                 // nothing is written any more (halt.c)
    struct tern_service_facts counters; // only its counters are used
    struct tern_service_view view;      // any thread
};

// --- What any thread may see (facts.c)

void tern_service_view_init(struct tern_service_view *view);
void tern_service_view_free(struct tern_service_view *view);
// At the end of a batch, before its answers are sent: takes the counters and, unless memory is not what
// is stored, what the federation says.
void tern_service_view_update(struct tern_service *service, bool is_stored);
// A transaction that wrote was committed; or one failed, and was rolled back.
void tern_service_view_stored(struct tern_service *service);
// Of service->db, or of another connection.
void tern_service_view_failed(struct tern_service *service, const struct tern_db *db,
                              enum tern_result why);
// Whether the service thread has been at one turn for so long that what comes now had better come again, than wait:
// seconds, or less than one where the turn before has failed. Any thread.
bool tern_service_is_stuck(struct tern_service *service);

// --- Work of another thread (work.c)

void tern_service_work_init(struct work *work);
void tern_service_work_free(struct work *work);
bool tern_service_has_work(struct tern_service *service);
// Inside of a transaction; its result.
TERN_MUST_USE enum tern_result tern_service_do_work(struct tern_service *service, uint64_t now);
// That is committed (TERN_OK), or failed: who waits for what was done in it goes on. all: also who waits for what
// was not.
void tern_service_end_work(struct tern_service *service, enum tern_result result, bool all);

// --- Stopping for good (halt.c)

// After the rollback of a batch: when the store or the federation is damaged, answers the batch
// and all held check-ins, tells the operator and returns true.
bool tern_service_halt_if_needed(struct tern_service *service);
bool tern_service_is_halted(const struct tern_service *service);
// Answers a request of a service that has halted, on its thread.
void tern_service_answer_halted(const struct tern_service *service, struct request *request);

// --- Handlers (handlers.c): called inside the batch's transaction; they return other than TERN_OK
// only when the store fails, which fails the batch.

TERN_MUST_USE enum tern_result tern_service_handle(struct tern_service *service,
                                                   struct request *request, uint64_t now);
// After the rounds have moved on: answers an accepted update.
TERN_MUST_USE enum tern_result tern_service_settle_update(struct tern_service *service,
                                                          struct request *request, uint64_t now);

// An update that was cut: how much of it is here.
void tern_service_say_unfinished(struct request *request);

// A batch failed: answers all that is in it so, but for updates that an earlier one has stored.
void tern_service_answer_failed(struct tern_service *service,
                                void (*answer)(struct request *request));

// --- Check-ins (checkin.c, inline_downloads.c)

// After the rounds have moved on: answers a check-in or holds it.
TERN_MUST_USE enum tern_result tern_service_settle_checkin(struct tern_service *service,
                                                           struct request *request, uint64_t now);
// Answers those held check-ins that have something to do now, or whose time is up by batch_ms. Of
// many that may have something to do, some: held.asking says that more are to be asked.
TERN_MUST_USE enum tern_result tern_service_settle_held(struct tern_service *service, uint64_t now);
// Answers it with what the client should do next.
TERN_MUST_USE enum tern_result tern_service_answer_checkin(struct tern_service *service,
                                                           struct request *request,
                                                           const struct tern_next *next);
bool tern_service_holds(const struct tern_service *service, const struct request *request);
// The federation was loaded again, and does not know who waits.
void tern_service_tell_held(struct tern_service *service);
// Puts all of them into the batch, not answered yet.
void tern_service_let_all_go(struct tern_service *service);

// --- Clocks (clock.c)

// The time of day, for what is stored: it may be set back or forth.
uint64_t tern_service_now(const struct tern_service *service);
// For intervals within one run of the program. It goes on while the machine sleeps. Any thread.
uint64_t tern_service_monotonic(const struct tern_service *service);
// Of the machine, whatever clock the service was given: how long work takes.
uint64_t tern_service_machine_ms(void);

struct tern_service_clock tern_service_read_clock(const struct tern_service *service);
// By how many ms the time of day was set between two readings; 0 = it was not.
int64_t tern_service_clock_step(const struct tern_service_clock *before,
                                const struct tern_service_clock *now);

// Outside of transactions: the clock that stored times go by. then_ms: what it says now.
TERN_MUST_USE enum tern_result tern_service_load_clock(struct tern_service *service,
                                                       uint64_t *then_ms);
TERN_MUST_USE enum tern_result tern_service_store_clock(struct tern_service *service,
                                                        const struct tern_service_clock *clock);

#endif
