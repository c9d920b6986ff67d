// What the files of service/ share. Not for anybody else. Unless a member says otherwise, only the
// service thread touches it.
#ifndef TERN_SERVICE_INTERNAL_H
#define TERN_SERVICE_INTERNAL_H

#include "hosted/log.h"
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

struct tern_service {
    struct tern_service_config config; // read-only after start
    struct tern_db *db;
    struct tern_federation *federation;
    struct tern_gate *gate;          // any thread
    struct tern_psk_keys psk_keys;   // any thread; empty unless config.psk
    struct tern_metering *metering;  // any thread
    struct tern_request_queue queue; // any thread
    pthread_t thread;

    struct tern_request_list batch; // requests of the present transaction
    struct held held;
    uint64_t batch_ms;   // tern_service_monotonic() when the present batch began
    bool quiescing;      // copy of queue.quiesce
    bool broken;         // memory could not be built from the store: try again
    char halt_why[256];  // set before `halted`, constant after it; empty = none
    uint64_t flushed_ms; // clients and meter were last written; of tern_service_monotonic()

    // Counters; the listeners' threads count too.
    atomic_uint_least64_t unauthorized;
    atomic_uint_least64_t rate_limited;
    atomic_bool halted;                 // nothing is written any more (halt.c)
    struct tern_service_facts counters; // only its counters are used
};

// --- Stopping for good (halt.c)

// After the rollback of a batch: when the store or the federation is damaged, answers the batch
// and all held check-ins, tells the operator and returns true.
bool tern_service_halt_if_needed(struct tern_service *service);
bool tern_service_is_halted(const struct tern_service *service);

// --- Handlers (handlers.c): called inside the batch's transaction; they return other than TERN_OK
// only when the store fails, which fails the batch.

TERN_MUST_USE enum tern_result tern_service_handle(struct tern_service *service,
                                                   struct request *request, uint64_t now);
// After the rounds have moved on: answers an accepted update.
TERN_MUST_USE enum tern_result tern_service_settle_update(struct tern_service *service,
                                                          struct request *request, uint64_t now);

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
// Puts all of them into the batch, not answered yet.
void tern_service_let_all_go(struct tern_service *service);

// --- Clocks (clock.c)

// The time of day, for what is stored: it may be set back or forth.
uint64_t tern_service_now(const struct tern_service *service);
// For intervals within one run of the program. Any thread.
uint64_t tern_service_monotonic(const struct tern_service *service);

#endif
