// What the files of service/ share. Not for anybody else. Unless a member says otherwise, only the
// service thread touches it.
#ifndef TERN_SERVICE_INTERNAL_H
#define TERN_SERVICE_INTERNAL_H

#include "downloads/plan.h"
#include "hosted/log.h"
#include "merge/merge.h"
#include "rounds/error_watch.h"
#include "service/abilities.h"
#include "service/blob_cache.h"
#include "service/gate.h"
#include "service/metering.h"
#include "service/places.h"
#include "service/psk_keys.h"
#include "service/roster.h"
#include "service/service.h"
#include "wire/wire.h"
#include <pthread.h>
#include <stdatomic.h>

// --- Requests

enum request_kind {
    REQUEST_ENROLL,
    REQUEST_CHECKIN,
    REQUEST_DOWNLOAD,
    REQUEST_UPDATE,
    REQUEST_JOB, // from admin/
};

// An update as the listener's thread took it apart.
struct update_request {
    uint32_t round;
    uint32_t sequence;
    tern_Update message;
    struct tern_span body; // of the exchange, or joined
    struct tern_span container;
    uint8_t sha256[TERN_SHA256_SIZE]; // of the body
    double sum_square;                // of the decoded values
    uint32_t received;                // bytes of the body as it came
    uint32_t payload;                 // bytes of its container
    uint8_t *joined;                  // the body with its places put back, or NULL; owned
    bool unread;                      // it could not count, so its container was not looked at
};

struct download_request {
    uint8_t sha256[TERN_SHA256_SIZE];
    uint64_t from; // first byte wanted
};

struct job_request {
    tern_service_job job;
    void *ctx;
};

// Made on a listener's thread, then owned by the service thread until it is answered.
struct request {
    struct request *next;
    struct tern_http_exchange *exchange;
    enum request_kind kind;
    uint64_t client;         // 0 for enrolments and jobs
    enum tern_result parsed; // of the body: an error is answered 422 unless something goes before
    union {
        tern_EnrollRequest enroll;
        tern_CheckinRequest checkin;
        struct update_request update;
        struct download_request download;
        struct job_request job;
    } u;

    uint64_t hold_until_ms; // check-in: answered then at the latest; of monotonic_now()
    bool answered;          // reply and tag are ready to be sent
    bool accepted;          // update: answered 200 once the rounds have moved on
    bool duplicate;         // update: likewise
    struct tern_http_reply reply;
    struct tern_http_tag tag;
};

struct request_list {
    struct request *first;
    struct request **end; // where the next one is linked
};

void request_list_init(struct request_list *list);
void request_list_add(struct request_list *list, struct request *request);

// Bounded; many threads put, the service thread takes all at once.
struct request_queue {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct request_list list;
    uint32_t count;
    uint32_t max;
    bool stopping;
    bool quiesce; // hold no check-in any more
    bool poked;   // something besides a request needs the service thread
};

// --- State

// Of a client's update in the open round.
struct drift {
    double square; // sum of its squared values
    float loss;
    uint32_t num_examples;
    uint32_t local_steps;
};

// What the service remembers of a client; the rest stands in the store.
struct client {
    bool evaluator;
    bool revoked;
    bool dirty; // last_seen_ms and what follows differ from the store
    uint64_t last_seen_ms;
    struct abilities able;
    float steps_per_second;
    struct tern_steps_done done;       // from which that is measured; since the start only
    uint8_t replica[TERN_SHA256_SIZE]; // that it holds; zeros = none
    uint32_t version;
    uint32_t evaluated;   // newest version it has reported an evaluation of
    uint32_t asked;       // version it was asked to evaluate again, so that this happens once
    struct request *held; // its check-in that waits for a task

    // Conditions as last reported.
    bool metered;
    bool budgeted;
    uint64_t budget_left;
    uint64_t budget_spent; // about, in rounds since it said so
    bool budget_renewed;   // it did not shrink over its last round within a month
    uint32_t power;        // tern_Power
    // Of its schedule: bytes that its round is expected to take, and at the least.
    uint64_t round_bytes;
    uint64_t least_bytes;
    struct drift drift;
    struct tern_error_doubt doubt; // about its error buffer
    uint32_t refusals;             // of its requests, since its last accepted update
    uint32_t refused;              // of its updates, since the start
    uint32_t refused_in;           // the draw in which one was last for its values, + 1; 0 = none
    // Searches for its way to that version (own_replicas.c).
    uint32_t searched_version;
    uint32_t searches;
};

// Updates since members were last drawn (refusals.c).
struct refused {
    uint32_t draw;
    uint32_t accepted;
    uint32_t updates; // refused for their values
    uint32_t clients; // that sent those
    uint32_t draws;   // before, in a row, without an update but such
};

// Commits after which a snapshot of the trunk is forgotten (advance.c), and some to be sure.
#define TRUNK_SNAPSHOT_COMMITS 6

// The delta that makes a version.
struct delta {
    uint8_t sha256[TERN_SHA256_SIZE];
    uint32_t size; // 0 = not kept
    bool codec_known;
    struct tern_codec codec; // that it was made with
};

struct tern_service {
    struct tern_service_config config; // read-only after start
    struct tern_db *db;
    struct tern_db_federation federation; // read-only after start
    struct tern_gate *gate;               // any thread
    struct psk_keys psk_keys;             // any thread; empty unless config.psk
    struct tern_metering *metering;       // any thread
    struct request_queue queue;           // any thread
    size_t update_max;                    // bytes of an update body; read-only
    pthread_t thread;

    struct tern_merge merge;            // version, weights, replica; model is read-only after start
    struct tern_round_machine machine;  // members is ours
    struct tern_db_round row;           // of the machine's round
    struct tern_strategy_totals totals; // of the open round's updates
    float last_loss;
    struct tern_steps_course course; // of the committed rounds
    struct refused refused;
    bool too_few_afford; // a round that too few budgets allow was told of

    struct client *clients; // by id - 1
    uint32_t client_count;
    uint32_t client_capacity;
    uint64_t *eligible; // scratch of client_capacity ids

    struct delta *deltas; // by version - 1, up to the present one
    uint32_t delta_capacity;
    struct tern_db_download snapshot; // of the present version; size 0 = not made
    struct own_replicas *own_replicas;
    uint32_t snapshots; // commits that may still find one of the trunk's to be forgotten
    bool collect_due;   // a version was made since replicas were last collected
    struct tern_blob_cache cache;
    struct places places;
    struct roster roster;

    struct request_list batch; // requests of the present transaction
    uint32_t held_count;
    uint64_t batch_ms;      // monotonic_now() when the present batch began
    uint64_t next_hold_ms;  // no held check-in's time is up before; of monotonic_now()
    bool moved;             // a round opened or was extended, or a version was made: ask the held
    bool quiescing;         // copy of queue.quiesce
    bool roster_due;        // the machine differs from what the roster was given
    bool clients_changed;   // one enrolled or was revoked: members may need replacing
    bool broken;            // memory could not be built from the store: try again
    char halt_why[256];     // set before `halted`, constant after it; empty = none
    uint64_t retry_open_ms; // nobody was eligible: look again then
    uint64_t flushed_ms;    // clients and meter were last written; of monotonic_now()

    // Counters; the listeners' threads count too.
    atomic_uint_least64_t unauthorized;
    atomic_uint_least64_t rate_limited;
    atomic_bool halted;                 // nothing is written any more (halt.c)
    struct tern_service_facts counters; // only its counters are used
};

// --- Answers (answer.c)

// Sets the reply: an Error body, with a Retry-After of a second for 429 and 503.
void answer_error(struct request *request, int status, enum tern_result result);
// The sentence of the result is replaced by a more exact one.
void answer_refusal(struct request *request, int status, enum tern_result result,
                    const char *sentence);
// Sets a reply of 200 with these bytes, copied.
void answer_bytes(struct request *request, const uint8_t *body, size_t len);
// Sets a reply with the bytes of a shared blob, taken over, from that one on.
void answer_blob(struct request *request, struct tern_blob *blob, uint64_t from, uint32_t payload);
// The status for a result that refuses a request's content.
int status_of(enum tern_result result);
// Replaces whatever was answered by 503.
void answer_unavailable(struct request *request);
// Sends the reply and frees the request.
void send_answer(struct request *request);

// --- Stopping for good (halt.c)

// After the rollback of a batch: when the store is damaged or halt_why is set, answers the batch
// and all held check-ins, tells the operator and returns true.
bool halt_if_needed(struct tern_service *service);
bool is_halted(const struct tern_service *service);
// Sets the reply of every request from then on.
void answer_halted(struct request *request);

// --- Clients and versions in memory (load.c)

struct client *client_of(struct tern_service *service, uint64_t id); // NULL: no such client
TERN_MUST_USE enum tern_result remember_client(struct tern_service *service,
                                               const struct tern_db_client *row);
TERN_MUST_USE enum tern_result remember_delta(struct tern_service *service, uint32_t version,
                                              const struct tern_db_download *download);
// Rebuilds everything that the store holds.
TERN_MUST_USE enum tern_result load_state(struct tern_service *service);
TERN_MUST_USE enum tern_result load_clients(struct tern_service *service);
// Writes what memory knows of a client; on an error that is not newer than the store any more.
TERN_MUST_USE enum tern_result store_client(struct tern_service *service, uint64_t id);
// Writes what is dirty, and the meter.
TERN_MUST_USE enum tern_result flush_state(struct tern_service *service);

// --- Handlers: called inside the batch's transaction; they return other than TERN_OK only when the
// store fails, which fails the batch.

TERN_MUST_USE enum tern_result handle_enroll(struct tern_service *service, struct request *request,
                                             uint64_t now);
TERN_MUST_USE enum tern_result handle_checkin(struct tern_service *service, struct request *request,
                                              uint64_t now);
TERN_MUST_USE enum tern_result handle_download(struct tern_service *service,
                                               struct request *request);
TERN_MUST_USE enum tern_result handle_update(struct tern_service *service, struct request *request,
                                             uint64_t now);

// After the rounds have moved on: answers a check-in or holds it; answers an accepted update.
TERN_MUST_USE enum tern_result settle_checkin(struct tern_service *service, struct request *request,
                                              uint64_t now);
TERN_MUST_USE enum tern_result settle_update(struct tern_service *service, struct request *request,
                                             uint64_t now);
// Answers those held check-ins that have something to do now, or whose time is up by batch_ms.
TERN_MUST_USE enum tern_result settle_held(struct tern_service *service, uint64_t now);

// --- Updates (update.c)

// Whether the content may count as the member's, in the open round.
TERN_MUST_USE enum tern_result check_update(const struct tern_service *service,
                                            const struct request *request,
                                            const struct tern_member *member);
// Stores a checked update and counts it in the open round. merged: that round, when the update was
// made for another one; else 0.
TERN_MUST_USE enum tern_result take_update(struct tern_service *service,
                                           const struct request *request,
                                           const struct tern_member *member, uint32_t merged,
                                           uint64_t now);
bool is_of_our_model(const struct tern_service *service, const tern_Update *message);
// How fast the client trained for an update.
void take_speed(struct client *client, const tern_Update *message);
// Answers and counts a refusal.
void refuse_update(struct tern_service *service, struct request *request, enum tern_result result);
// An update whose round has closed and that is not stored (late.c).
TERN_MUST_USE enum tern_result handle_late(struct tern_service *service, struct request *request,
                                           uint64_t now);

// --- Refused requests (refusals.c)

// Tells a client whose check-in or update was refused when to ask again.
void ask_later(struct tern_service *service, struct request *request);

// Counts a refusal, and logs a client's first one and then each time that it has twice as many.
void note_refused(struct tern_service *service, const struct request *request,
                  enum tern_result result);
// Members are drawn anew: the round was committed, or is extended. Logs that every update was
// refused for its values, after draws enough in a row and then at twice as many.
void draw_ended(struct tern_service *service, bool committed);
// What the operator should do about those, or NULL.
const char *refusals_advice(const struct tern_service *service);

// --- The strategy (strategy.c)

// Whether the configured strategy can merge what the limits let in, for a model of `count` values.
bool check_strategy(const struct tern_service_config *config, uint32_t count, char why[256]);
// The largest cohort of which the strategy merges updates of `count` values with its memory.
uint32_t strategy_cohort_max(const struct tern_service_config *config, uint32_t count);
// Writes it into the row of the round that opens, which has its learning rate, and begins to count.
// previous: the name of the last round's strategy, or "".
void open_strategy(struct tern_service *service, const char *previous);

// --- Tasks (task.c)

// What a client should do now. *idle: nothing, so that a check-in may be held.
TERN_MUST_USE enum tern_result next_for_client(struct tern_service *service, uint64_t id,
                                               uint64_t now, tern_CheckinReply *reply, bool *idle);
// Bytes of the container of a download that is in the cache or the store.
TERN_MUST_USE enum tern_result blob_of(struct tern_service *service,
                                       const uint8_t sha256[TERN_SHA256_SIZE],
                                       struct tern_blob **blob, uint32_t *payload);

// --- Catching up (catch_up.c)

// The version that a client's replica is on the trunk, and what it takes.
TERN_MUST_USE enum tern_result position_of(struct tern_service *service,
                                           const struct client *client,
                                           struct tern_plan_client *held);
// Whether no downloads that it could take lead a client to the present version.
TERN_MUST_USE enum tern_result is_stranded(struct tern_service *service,
                                           const struct client *client, bool *stranded);
// Bytes of the delta to the version after the one that is held; 0 when it cannot be had or read.
uint32_t next_delta(const struct tern_service *service, const struct client *client,
                    const struct tern_plan_client *held);
void add_download(tern_Task *task, const uint8_t sha256[TERN_SHA256_SIZE], uint32_t size);
void set_base(tern_Task *task, const uint8_t replica[TERN_SHA256_SIZE], uint32_t version);
// Adds the downloads along the trunk to the newest version, the task's base.
// TERN_ERR_STATE  the client is stranded
TERN_MUST_USE enum tern_result add_trunk_way(struct tern_service *service,
                                             const struct client *client,
                                             const struct tern_plan_client *held, tern_Task *task);
// Adds a member's downloads and settles its base, which is stored with the member: here when it
// has its task already. A repeated task looks again at what the client holds by now. *found: else
// there is no way that the client may have, and nothing was added.
TERN_MUST_USE enum tern_result catch_up_member(struct tern_service *service, uint64_t id,
                                               struct tern_member *member, uint64_t now,
                                               tern_Task *task, bool *found);

// --- How much a member trains (assign.c)

// Decides the member's local steps and codec the first time it gets its task, and stores both with
// the reason; a repeated task is the same.
TERN_MUST_USE enum tern_result assign_steps(struct tern_service *service,
                                            struct tern_member *member, struct client *client,
                                            uint64_t now);
// Whether policy or selection look at the clients' byte budgets.
bool minds_budgets(const struct tern_service *service);
// Rounds that are yet to come before budgets are renewed, and the share of them that a client takes
// part in whose bytes allow it: from what all who may be drawn have left, and from their measured
// rounds. All of that is stored; but a round that is open over a restart, and was opened by
// round.fraction, counts as wanting no more updates than it invited clients.
struct to_go {
    double rounds;
    double share;
};
struct to_go rounds_to_come(const struct tern_service *service, uint64_t now);
struct tern_budget budget_of(const struct client *client, const struct to_go *to_go);
// What the stored decisions say of each client's bytes.
TERN_MUST_USE enum tern_result load_schedule(struct tern_service *service);

// A check-in tells the client's conditions, before it counts as seen then; it was told that its
// update is accepted.
void take_conditions(struct client *client, const tern_CheckinRequest *message, uint64_t now);
void spend_budget(struct client *client);

// A round was committed, now or before the restart: the policies go on from it.
void follow_round(struct tern_service *service, const struct tern_db_round *row);
// How far the open round's updates are apart: one was accepted; all are merged, which fills
// local_steps, median_loss and variance of service->row; after a restart.
void note_drift(struct client *client, const tern_Update *message, double sum_square);
TERN_MUST_USE enum tern_result measure_drift(struct tern_service *service,
                                             const struct tern_strategy_report *report);
TERN_MUST_USE enum tern_result load_drift(struct tern_service *service);

// --- Who may be drawn for a round (choose.c)

uint32_t enrolled_trainers(const struct tern_service *service);
bool may_train(const struct tern_service *service, const struct client *client, uint64_t now);
// Fills service->eligible, ascending.
uint32_t list_eligible(struct tern_service *service, uint64_t now);
// Leaves those of service->eligible[0..count) there, ascending, whom the configured selection lets
// into this draw; returns how many. wanted: by the round; it needs `updates` of them.
uint32_t choose_eligible(struct tern_service *service, uint32_t count, uint32_t round,
                         uint32_t attempt, uint32_t wanted, uint32_t updates, uint64_t now);

// --- Places that a round's leader chose (share.c)

// Whether this client's task waits for the leader's update.
bool waits_for_leader(struct tern_service *service, uint64_t id, uint64_t now);
// Looks whether the leader is still awaited; once it is not, those who were held are asked again.
void watch_leader(struct tern_service *service, uint64_t now);
// An update was accepted, or refused: before its member counts as reported.
void share_places(struct tern_service *service, const struct request *request, uint64_t now);
void leader_refused(struct tern_service *service, uint64_t id);
// The places of the open round, once it was loaded from the store.
TERN_MUST_USE enum tern_result load_places(struct tern_service *service);
// Names them in a task of the open round.
void add_places(struct tern_service *service, uint64_t id, tern_Task *task);
// Puts the places back into an update that came without. Any thread.
// TERN_ERR_STATE  its round shares no places; TERN_ERR_CORRUPT, TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result join_places(struct tern_service *service,
                                           struct update_request *update);
// Whether an update that could not be joined any more is the one that is stored.
TERN_MUST_USE enum tern_result same_without_places(struct tern_service *service,
                                                   const struct request *request, bool *same);

// --- Rounds (advance.c)

// Closes, extends and opens rounds until there is nothing to do at this time.
TERN_MUST_USE enum tern_result advance_rounds(struct tern_service *service, uint64_t now);
TERN_MUST_USE enum tern_result store_member(struct tern_service *service,
                                            const struct tern_member *member);
uint64_t next_advance(const struct tern_service *service); // when to call it again

// --- Threads

// The time of day, for what is stored: it may be set back or forth.
uint64_t service_now(const struct tern_service *service);
// For intervals within one run of the program. Any thread.
uint64_t monotonic_now(const struct tern_service *service);

// front.c: false when the queue is full or stopping.
bool queue_put(struct request_queue *queue, struct request *request);

#endif
