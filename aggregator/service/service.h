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
    uint32_t enrollments_per_minute; // of one address with one code; 0 = no limit
    uint32_t queue;                  // requests waiting for the service thread
    uint64_t long_poll_ms;           // longest time that a check-in is held
};

enum tern_logged_requests {
    TERN_LOG_NO_REQUESTS,
    TERN_LOG_REFUSED_REQUESTS, // by a status of 400 or above
    TERN_LOG_ALL_REQUESTS,
};

// Lines of the log that requests have. Wrong credentials have one besides, up to ten a minute of one
// address and 600 of all.
struct tern_service_logging {
    enum tern_logged_requests requests;
    uint32_t requests_per_minute; // of lines; > 0
};

// How a service shares its database with others, which nodes/ does: what follow.h and take.h say there.
struct tern_follower;
struct tern_taker;
struct request;
struct tern_service_sharing {
    enum tern_result (*follow)(struct tern_service *service, struct tern_follower **out,
                               char why[256]);
    void (*turn)(struct tern_follower *follower, struct request *taken);
    uint64_t (*idle_ms)(const struct tern_follower *follower);
    void (*expire)(struct tern_follower *follower);
    void (*stop_following)(struct tern_follower *follower);
    enum tern_result (*take)(struct tern_service *service, struct tern_taker **out, char why[256]);
    enum tern_result (*store_answers)(struct tern_service *service);
    void (*give_back)(struct tern_service *service);
    bool (*await_parts)(struct tern_taker *taker, uint32_t round);
    void (*stop_taking)(struct tern_taker *taker);
};

struct tern_service_config {
    struct tern_federation_config federation;
    struct tern_service_limits limits;
    struct tern_service_logging logging;
    // Another aggregator leads the database by now: this one hands its requests to that.
    bool follows;
    // Of a database that several may serve, so that others may follow this one, once it leads; NULL: it is alone
    const struct tern_service_sharing *sharing;
    uint32_t node; // the number of this one among them (store/nodes.h)
    // While it follows: whether another one leads, and is heard of. Else why is a sentence. Any thread, and it never waits;
    // NULL: nobody is asked.
    bool (*is_led)(void *ctx, char why[256]);
    void *led_ctx;
    bool psk; // clients that have a pre-shared key may shake hands with it
    // Unix milliseconds, of all times that are stored, deadlines included; NULL = the system's
    // clock.
    uint64_t (*now_ms)(void);
    // Milliseconds that never go back, of all other intervals; NULL = the system's.
    uint64_t (*monotonic_ms)(void);
    // Names the run of the machine in which monotonic_ms goes on, below 64 bytes; NULL = the system's.
    const char *boot;
    // Called once, on the service thread, when the service has halted; NULL = nobody. It must not
    // stop the service itself.
    void (*on_halted)(void *ctx);
    void *halted_ctx;
};

// Rebuilds all state from the store and starts the service thread, which owns db until
// tern_service_stop(); while it follows, db stays the caller's until tern_service_lead(). why: a sentence on failure.
// TERN_ERR_MODEL_MISMATCH  the stored model spec no longer gives the stored model hash
// TERN_ERR_CONFIG          a setting is outside its range
// TERN_ERR_UNKNOWN         the open round names a strategy or codec that this program does not know
// TERN_ERR_CORRUPT, TERN_ERR_NOT_FOUND, TERN_ERR_STATE, TERN_ERR_IO  what is stored is damaged
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_service_start(const struct tern_service_config *config,
                                                  struct tern_db *db, struct tern_service **service,
                                                  char why[256]);

// Promotes this follower to leader on its database, after tern_db_hold() has returned TERN_OK. Any thread; returns before
// the promotion is complete.
void tern_service_lead(struct tern_service *service);

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

// Grows at least every second while the service thread goes on. Any thread.
uint64_t tern_service_turns(const struct tern_service *service);

// Whether what clients send can be stored: false from a transaction that failed on until one that
// wrote is committed, once the service has halted, while its thread has been at one transaction for half
// a minute, and while it follows and nobody leads it. While a transaction has failed the service tries at least once a second. why gets a sentence then. Any thread; never waits for the store.
bool tern_service_stores(struct tern_service *service, char why[256]);

// When a check last found nothing wrong with the database, for the facts. Any thread.
void tern_service_set_checked(struct tern_service *service, uint64_t now_ms);

// Bytes of disk that the federation needs by its settings, for the facts. Any thread.
void tern_service_set_disk_needed(struct tern_service *service, uint64_t bytes);

// Whether the service can go by another config: TERN_OK, or TERN_ERR_CONFIG with why. Any thread.
TERN_MUST_USE enum tern_result tern_service_accepts(const struct tern_service *service,
                                                    const struct tern_service_config *config,
                                                    char why[256]);
// Goes by its limits and logging from now on, and by its federation once no round is being merged, as a
// restart would: memory comes from the store again, and held check-ins stay. The rest is as it was at
// the start. What config->federation points to outlives the service. Any thread.
void tern_service_configure(struct tern_service *service, const struct tern_service_config *config);

// --- For admin/

// Another listener's request was answered: it has its line in the log as those of clients have. Any
// thread.
void tern_service_answered_admin(struct tern_service *service,
                                 const struct tern_http_answered *answered);

// Runs on the service thread inside a transaction. reply->body etc. are sent after the commit; when
// that fails the body is released and 503 is sent.
// Returns other than TERN_OK only for a failure of the store, which fails the batch.
typedef enum tern_result (*tern_service_job)(struct tern_service *service, struct tern_db *db,
                                             uint64_t now_ms, void *ctx,
                                             struct tern_http_reply *reply);

// Makes a refusal of a job that could not be done, or whose work was not stored.
typedef void (*tern_service_refuse)(struct tern_http_reply *reply, int status,
                                    enum tern_result result, const char *sentence);

// Queues a job for an exchange; the job is called once or, when the queue is full, not at all (the
// exchange is answered 503 then, as `refusal` does). ctx is freed with free() afterwards. Any thread.
void tern_service_submit(struct tern_service *service, struct tern_http_exchange *exchange,
                         tern_service_job job, tern_service_refuse refusal, void *ctx);

// --- For relay/

// What is done on the service thread, inside a transaction, before the requests that came meanwhile. Returns other
// than TERN_OK only for a failure of the store, which fails the transaction.
typedef enum tern_result (*tern_service_work)(struct tern_federation *federation, uint64_t now_ms,
                                              void *ctx);

// Does it, and waits until what it wrote is committed. By one other thread at a time, while the service runs.
// TERN_OK        it is committed
// TERN_ERR_BUSY  nothing is changed: the transaction failed, or the service stops; try again
// TERN_ERR_IO    likewise, for good: the service has halted
TERN_MUST_USE enum tern_result tern_service_do(struct tern_service *service, tern_service_work work,
                                               void *ctx);

// Of a gateway: whether the aggregator above answers.
struct tern_service_above {
    bool is_known;          // it is a gateway's service
    uint64_t answered_ms;   // when it last did; Unix milliseconds, 0 = not since the start
    uint64_t silent_ms;     // since when it does not; 0 = it does
    enum tern_result error; // of the last request, while it does not
    int status;             // of HTTP; 0 = there was no answer
    char why[200];          // in words
};
// For the facts. Any thread.
void tern_service_set_above(struct tern_service *service, const struct tern_service_above *above);

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
    bool follows;     // another aggregator leads: what is said of rounds and clients is of nothing
    uint32_t relayed; // requests that wait for its answer
    uint64_t updates_accepted;
    uint64_t updates_duplicate;
    uint64_t enrolled;
    uint64_t downloads;     // sent, or left to a cache
    uint64_t authorized;    // of those, left to a cache
    uint64_t cache_fills;   // downloads that caches fetched
    uint64_t cache_wire_up; // wire bytes between caches and here for both
    uint64_t cache_wire_down;
    uint64_t unauthorized;
    uint64_t rate_limited;
    uint64_t batches_failed;
    // Of a few seconds ago; 0 = not known.
    uint64_t database_bytes;
    uint64_t disk_free_bytes; // where the database is
    uint64_t
        disk_room_bytes; // that the database has or may take: its file, log and reserve, and what is free
    uint64_t disk_needed_bytes; // tern_service_set_disk_needed()
    uint64_t checked_ms;        // the database was last found sound; Unix milliseconds, 0 = never
    bool stores;                // tern_service_stores()
    struct tern_service_above above;
    struct tern_service_histogram batch_size;
    struct tern_service_histogram commit_ms;
    struct tern_meter bytes;
};

// Of rounds and clients, as of the last transaction. Any thread; never waits for the store.
void tern_service_facts(struct tern_service *service, struct tern_service_facts *facts);

// After a job has changed clients in the store: takes them into the memory of the service.
TERN_MUST_USE enum tern_result tern_service_reload_clients(struct tern_service *service);
// After a job has added a join code: enrolments with it have the allowance of those who have a code.
TERN_MUST_USE enum tern_result tern_service_reload_codes(struct tern_service *service);
// After a job has ended the open round's time.
TERN_MUST_USE enum tern_result tern_service_reload_round(struct tern_service *service);
// What it knows in memory. Only within a job.
const struct tern_federation *tern_service_federation(const struct tern_service *service);

#endif
