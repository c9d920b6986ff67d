// The service runs a federation: it turns requests into transactions of the store. The service thread owns the store and
// the federation. Listeners' threads check, parse and hash requests and put them into a bounded queue. The service thread
// handles all queued requests in one transaction and answers after the commit (group commit), so that a 2xx is always
// durable. Called by cli/serve.c, admin/, relay/ and tests.
#ifndef TERN_SERVICE_H
#define TERN_SERVICE_H

#include "federation/federation.h"
#include "http/http.h"

struct tern_service;

struct tern_service_limits {
    uint32_t requests_per_minute;    // per client; 0 = no limit
    uint32_t enrollments_per_minute; // per address and join code; 0 = no limit
    uint32_t queue;                  // requests that wait for the service thread
    uint64_t long_poll_ms;           // longest time that a check-in is held
};

enum tern_logged_requests {
    TERN_LOG_NO_REQUESTS,
    TERN_LOG_REFUSED_REQUESTS, // with a status of 400 or above
    TERN_LOG_ALL_REQUESTS,
};

// Requests that are logged. Wrong credentials are always logged: up to ten lines a minute of one address, 600 in total.
struct tern_service_logging {
    enum tern_logged_requests requests;
    uint32_t requests_per_minute; // most lines; > 0
};

struct tern_service_config {
    struct tern_federation_config federation;
    struct tern_service_limits limits;
    struct tern_service_logging logging;
    bool shares; // another aggregator can take over the database, as with PostgreSQL
    bool psk;    // accepts TLS handshakes with pre-shared keys
    struct tern_helper_port helper; // the helper of secure rounds; exchange is NULL without one
    // Unix ms, for all stored times, deadlines included; NULL = the system's clock.
    uint64_t (*now_ms)(void);
    // Monotonic ms, for all other intervals; NULL = the system's.
    uint64_t (*monotonic_ms)(void);
    // Id of the boot in which monotonic_ms counts, less than 64 bytes; NULL = the system's.
    const char *boot;
    // Called once, on the service thread, when the service has halted. It must not stop the service. NULL = ignored.
    void (*on_halted)(void *ctx);
    void *halted_ctx;
};

// Loads the state from the store and starts the service thread, which owns db until tern_service_stop(). why: the reason of
// an error, a sentence.
// TERN_ERR_MODEL_MISMATCH  the stored model spec no longer gives the stored model hash
// TERN_ERR_CONFIG          a setting is outside its range
// TERN_ERR_UNKNOWN         the open round has a strategy or codec that this program does not have
// TERN_ERR_CORRUPT, TERN_ERR_NOT_FOUND, TERN_ERR_STATE, TERN_ERR_IO  the stored state is damaged
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_service_start(const struct tern_service_config *config,
                                                  struct tern_db *db, struct tern_service **service,
                                                  char why[256]);

// Returns the handler of the public listener, which must stop before the service.
struct tern_http_handler tern_service_handler(struct tern_service *service);

// Answers all held check-ins and holds no new check-ins, so that a listener can drain. Any thread.
void tern_service_quiesce(struct tern_service *service);

// Stores all pending changes, ends the thread, and returns the ownership of db to the caller. The listeners must have
// stopped.
void tern_service_stop(struct tern_service *service);

// Whether the service has halted: its store is damaged or another aggregator has taken it over, so that it answers all
// requests with 503 and writes nothing until a restart. why: gets the reason. Any thread.
bool tern_service_halted(struct tern_service *service, char why[256]);

// Returns the number of iterations of the service thread, which grows at least every second while the thread runs. Any
// thread.
uint64_t tern_service_iterations(const struct tern_service *service);

// Whether clients' data can be stored now. False, with the reason in `why`: a transaction has failed and none with writes
// has succeeded since, the service has halted, or its thread has been in one transaction for 30 s. After a failure the
// service tries again at least once a second. Any thread; does not block.
bool tern_service_can_store(struct tern_service *service, char why[256]);

// Records when a check last found the database intact, for the facts. Any thread.
void tern_service_set_checked(struct tern_service *service, uint64_t now_ms);

// Records how much disk the federation needs by its settings, for the facts. Any thread.
void tern_service_set_disk_needed(struct tern_service *service, uint64_t bytes);

// Checks whether the service can change to this config: TERN_OK, or TERN_ERR_CONFIG with the reason in `why`. Any thread.
TERN_MUST_USE enum tern_result tern_service_check_config(const struct tern_service *service,
                                                         const struct tern_service_config *config,
                                                         char why[256]);
// Applies config->limits and logging at once, and config->federation as soon as no round is being merged. The state is
// then loaded from the store again, as by a restart; held check-ins stay. Other members are ignored. What
// config->federation points to must outlive the service. Any thread.
void tern_service_configure(struct tern_service *service, const struct tern_service_config *config);

// --- For admin/

// Logs an answered request of the admin listener, within the same limits as requests of clients. Any thread.
void tern_service_log_admin_request(struct tern_service *service,
                                    const struct tern_http_answered *answered);

// Finds the token of the admin listener with this hash, also a revoked or expired one. Compares with all tokens, so that the
// time reveals nothing. Uses changes of the store within about a second. Any thread.
bool tern_service_find_token(struct tern_service *service, const uint8_t sha256[TERN_SHA256_SIZE],
                             struct tern_db_token *token);
// Returns the Unix time in ms, for stored times. This time jumps when the clock is set. Any thread.
uint64_t tern_service_now(const struct tern_service *service);

// Runs on the service thread inside a transaction. The reply is sent after the commit; if the commit fails, the reply's
// body is released and 503 is sent. An error is an error of the store and fails the batch.
typedef enum tern_result (*tern_service_job)(struct tern_service *service, struct tern_db *db,
                                             uint64_t now_ms, void *ctx,
                                             struct tern_http_reply *reply);

// Fills the reply to a job that was refused, or whose transaction failed.
typedef void (*tern_service_refuse)(struct tern_http_reply *reply, int status,
                                    enum tern_result result, const char *sentence);

// Queues a job for an exchange. If the queue is full, the exchange is answered with 503 by `refusal`, and the job is not
// called. ctx: malloc'ed, freed after the job. Any thread.
void tern_service_submit(struct tern_service *service, struct tern_http_exchange *exchange,
                         tern_service_job job, tern_service_refuse refusal, void *ctx);

// --- For relay/

// Runs on the service thread inside a transaction, before the queued requests. An error is an error of the store and fails
// the transaction.
typedef enum tern_result (*tern_service_work)(struct tern_federation *federation, uint64_t now_ms,
                                              void *ctx);

// Runs the work on the service thread and waits for the commit. Called by one other thread at a time, while the service
// runs.
// TERN_OK        the work is committed
// TERN_ERR_BUSY  nothing has changed: the transaction failed, or the service stops; try again
// TERN_ERR_IO    nothing has changed: the service has halted
TERN_MUST_USE enum tern_result tern_service_run_work(struct tern_service *service,
                                                     tern_service_work work, void *ctx);

// Whether a gateway's upstream aggregator answers.
struct tern_service_upstream {
    bool is_known;        // the service belongs to a gateway
    uint64_t answered_ms; // last answer, in Unix ms; 0 = none since the start
    // First failed request after answered_ms, in Unix ms; 0 = the upstream aggregator answers.
    uint64_t silent_ms;
    enum tern_result error; // error of the last failed request
    int status;             // HTTP status of the last failed request; 0 = no answer
    char why[200];          // reason of the failure
};
// Records the state for the facts. Any thread.
void tern_service_set_upstream(struct tern_service *service,
                               const struct tern_service_upstream *upstream);

#define TERN_SERVICE_BUCKETS 12

// Bucket i counts values up to 2^i ms (latency) or 2^i requests (batch size); the last bucket has no upper limit.
struct tern_service_histogram {
    uint64_t buckets[TERN_SERVICE_BUCKETS];
    uint64_t count;
    double sum;
};

// Counters are since the start.
struct tern_service_facts {
    struct tern_federation_facts federation;
    uint32_t held;   // check-ins being held
    uint64_t queued; // requests that wait for the service thread
    uint64_t updates_accepted;
    uint64_t updates_duplicate;
    uint64_t enrolled;
    uint64_t downloads;     // downloads sent to clients, by this aggregator or by a cache
    uint64_t authorized;    // downloads that a cache sent to a client
    uint64_t cache_fills;   // downloads sent to caches
    uint64_t cache_wire_up; // wire bytes between caches and this aggregator
    uint64_t cache_wire_down;
    uint64_t unauthorized;
    uint64_t rate_limited;
    uint64_t batches_failed;
    uint64_t worked_us; // for which the service thread has worked
    // Longest time of one batch on the service thread, in the present minute and the minute before.
    uint64_t longest_us;
    // Measured every few seconds; 0 = unknown.
    uint64_t database_bytes;
    uint64_t disk_free_bytes;   // free bytes on the database's file system
    uint64_t disk_room_bytes;   // bytes of the database's file, log and reserve, and of free space
    uint64_t disk_needed_bytes; // estimated bytes that the federation needs by its settings
    uint64_t checked_ms; // when a check last found the database intact, in Unix ms; 0 = never
    bool stores;         // whether clients' data can be stored now
    struct tern_service_upstream upstream;
    struct tern_service_histogram batch_size;
    struct tern_service_histogram commit_ms;
    struct tern_meter bytes;
};

// Returns the facts as of the last transaction. Any thread; does not block.
void tern_service_facts(struct tern_service *service, struct tern_service_facts *facts);

// Load clients, join codes or the open round from the store, after a job has changed them. Only within a job.
TERN_MUST_USE enum tern_result tern_service_reload_clients(struct tern_service *service);
TERN_MUST_USE enum tern_result tern_service_reload_codes(struct tern_service *service);
TERN_MUST_USE enum tern_result tern_service_reload_round(struct tern_service *service);
// Returns the federation. Only within a job.
const struct tern_federation *tern_service_federation(const struct tern_service *service);

#endif
