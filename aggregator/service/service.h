// The service: turns requests into store transactions, in which the federation decides. One service
// thread owns the store and the federation; the listeners' threads check, parse and hash requests
// and put them into a bounded queue; the service thread takes whatever is queued, handles it in one
// transaction and answers after the commit (group commit), so that a 2xx is always durable.
//
// Who calls: cli/serve.c, admin/, tests.
#ifndef TERN_SERVICE_H
#define TERN_SERVICE_H

#include "federation/federation.h"
#include "http/http.h"

struct tern_service;

struct tern_service_limits {
    uint32_t requests_per_minute;    // of one client; 0 = no limit
    uint32_t enrollments_per_minute; // of one address; 0 = no limit
    uint32_t queue;                  // requests waiting for the service thread
    uint64_t long_poll_ms;           // longest time that a check-in is held
};

struct tern_service_config {
    struct tern_federation_config federation;
    struct tern_service_limits limits;
    bool psk; // clients that have a pre-shared key may shake hands with it
    // Unix milliseconds, of all times that are stored, deadlines included; NULL = the system's
    // clock.
    uint64_t (*now_ms)(void);
    // Milliseconds that never go back, of all other intervals; NULL = the system's.
    uint64_t (*monotonic_ms)(void);
    // Called once, on the service thread, when the service has halted; NULL = nobody. It must not
    // stop the service itself.
    void (*on_halted)(void *ctx);
    void *halted_ctx;
};

// Rebuilds all state from the store and starts the service thread, which owns db until
// tern_service_stop(). why: a sentence on failure.
// TERN_ERR_MODEL_MISMATCH  the stored model spec no longer gives the stored model hash
// TERN_ERR_CONFIG          a setting is outside its range
// TERN_ERR_UNKNOWN         the open round names a strategy or codec that this program does not know
// TERN_ERR_CORRUPT, TERN_ERR_NOT_FOUND, TERN_ERR_STATE, TERN_ERR_IO  what is stored is damaged
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_service_start(const struct tern_service_config *config,
                                                  struct tern_db *db, struct tern_service **service,
                                                  char why[256]);

// The handler for the public listener. Valid while the service is.
struct tern_http_handler tern_service_handler(struct tern_service *service);

// Answers every held check-in and stops holding new ones, so that a listener can drain. Any thread.
void tern_service_quiesce(struct tern_service *service);

// After the listeners have stopped: stores what is pending and ends the thread. db is the caller's
// again.
void tern_service_stop(struct tern_service *service);

// Whether the service has stopped for good because its store is damaged; why gets a sentence then.
// From there on every request is answered 503 and nothing is written: acknowledged updates stay as
// they are until the store is repaired or a backup is restored. Any thread.
bool tern_service_halted(struct tern_service *service, char why[256]);

// --- For admin/

// Runs on the service thread inside a transaction. reply->body etc. are sent after the commit; when
// that fails the body is released and 503 is sent.
// Returns other than TERN_OK only for a failure of the store, which fails the batch.
typedef enum tern_result (*tern_service_job)(struct tern_service *service, struct tern_db *db,
                                             uint64_t now_ms, void *ctx,
                                             struct tern_http_reply *reply);

// Queues a job for an exchange; the job is called once or, when the queue is full, not at all (the
// exchange is answered 503 then). ctx is freed with free() afterwards. Any thread.
void tern_service_submit(struct tern_service *service, struct tern_http_exchange *exchange,
                         tern_service_job job, void *ctx);

#define TERN_SERVICE_BUCKETS 12

// Upper bounds of the commit latency buckets are 2^i ms, of the batch size buckets 2^i requests;
// the last has no bound.
struct tern_service_histogram {
    uint64_t buckets[TERN_SERVICE_BUCKETS];
    uint64_t count;
    double sum;
};

// Counted since the start.
struct tern_service_facts {
    struct tern_federation_facts federation;
    uint32_t held; // check-ins being held
    uint64_t queued;
    uint64_t updates_accepted;
    uint64_t updates_duplicate;
    uint64_t enrolled;
    uint64_t downloads;
    uint64_t unauthorized;
    uint64_t rate_limited;
    uint64_t batches_failed;
    struct tern_service_histogram batch_size;
    struct tern_service_histogram commit_ms;
    struct tern_meter bytes;
};

// From a job only.
void tern_service_facts(struct tern_service *service, struct tern_service_facts *facts);

// After a job has changed clients in the store: takes them into the memory of the service.
TERN_MUST_USE enum tern_result tern_service_reload_clients(struct tern_service *service);

#endif
