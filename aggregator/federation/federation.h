// The federation: enrolled clients, the open round and its members, what each client does next, and
// which updates count. It works on the store, without HTTP or a clock: requests arrive as messages,
// times as arguments, and every refusal carries its reason.
//
// service/ calls it on the thread that owns the store, inside its transaction. A result other
// than TERN_OK means that the store or memory failed; the transaction is rolled back then, and
// tern_federation_load() rebuilds memory from the store. Only tern_federation_read_update() may
// be called by any thread. The updates of a round that closes are merged by a thread of its own.
#ifndef TERN_FEDERATION_H
#define TERN_FEDERATION_H

#include "downloads/catchup.h"
#include "federation/accuracy.h"
#include "rounds/error_policy.h"
#include "rounds/error_watch.h"
#include "rounds/machine.h"
#include "rounds/rate.h"
#include "rounds/selection.h"
#include "rounds/steps.h"
#include "rounds/tags.h"
#include "rounds/waits.h"
#include "store/store.h"
#include "strategies/strategy.h"
#include "wire/wire.h"

struct tern_federation;

struct tern_federation_train {
    uint32_t batch_size;
    struct tern_rate_policy rate;
    float momentum;
    float weight_decay;
    bool evaluate; // clients do, before they train
};

struct tern_federation_limits {
    uint32_t clients;      // enrolled, revoked ones included
    uint32_t num_examples; // that one update may claim
    double norm;           // of one update; above 0, at most TERN_UPDATE_NORM_MAX
    uint64_t history;      // bytes of committed rounds' updates that are kept; 0 = no limit
};

// Which clients receive the global model itself when the federation has finished. Others end with the
// replica that they hold.
enum tern_final_model {
    TERN_FINAL_MODEL_NONE,
    TERN_FINAL_MODEL_EVALUATORS,
    TERN_FINAL_MODEL_ALL,
};

// How the federation comes to scale columns by statistics that its clients share.
struct tern_federation_statistics {
    bool wanted;
    uint32_t min_clients; // whose statistics a scaling takes; 0 = as many as rounds begin with
    uint64_t wait_ms;     // for other clients' statistics, from the first ones on
};

// Finer codecs of the first rounds, whose changes are the largest.
struct tern_early_codecs {
    uint32_t rounds; // committed rounds that they are for; 0 = none
    struct tern_codec up;
    struct tern_codec down; // of the delta that makes the round's version
};

struct tern_federation_config {
    // A gateway's client whose updates bring the upstream model. Rounds open as tern_federation_set_model() and
    // tern_federation_let_open() order, and never by themselves. 0 = no gateway.
    uint64_t follower;
    struct tern_round_policy round; // seed is taken from the store
    uint32_t min_clients;           // enrolled before the first round opens
    struct tern_federation_statistics statistics;
    uint64_t eligible_within_ms; // 0 = every enrolled client
    enum tern_client_selection selection;
    struct tern_tags_wanted tags; // of them
    struct tern_federation_train train;
    struct tern_steps_settings steps;
    struct tern_error_settings error;
    struct tern_codec codec_up;
    struct tern_catchup_config downloads;
    struct tern_early_codecs early;
    enum tern_final_model final_model;
    const struct tern_strategy *strategy;
    float server_learning_rate; // above 0, at most TERN_SERVER_RATE_MAX
    float strategy_parameters
        [TERN_STRATEGY_PARAMETERS]; // those with keys that it uses, in their ranges
    uint32_t average_versions;      // that the averaged model reaches back; 0 = there is none
    uint64_t strategy_memory;       // bytes for the values of all updates; 0 = TERN_MERGE_MEMORY
    struct tern_merge_room vectors; // of the model's size; a restart takes another
    struct tern_federation_limits limits;
};

// Services that the federation's owner provides.
struct tern_federation_ports {
    void *ctx;
    // A client was enrolled, revoked, or loaded from the store. TERN_ERR_NO_MEMORY
    enum tern_result (*admit)(void *ctx, const struct tern_db_client *row);
    // Clients from that id on are not there: their enrolment did not reach the disk.
    void (*dismiss)(void *ctx, uint64_t first);
    // Adds what was counted of a client in a round and is not in the store yet.
    void (*metered)(void *ctx, uint64_t client, uint32_t round, struct tern_db_meter *meter);
    // A merge has ended: tern_federation_advance() has something to do. Any thread.
    void (*wake)(void *ctx);
    // A round is being merged and `missing` of its updates, which were deferred, are in no part that was delivered: asks
    // the nodes that sum for their parts of it, the first time, and waits until one may have come, or not at all.
    // False: enough time went by, a second or so altogether, and the leader reads what is missing from the store. On
    // the merge's thread, so that it must not use what belongs to the service's. NULL: no other node sums.
    bool (*await_parts)(void *ctx, uint32_t round, uint32_t missing);
};

// Why a request is refused. TERN_OK: it is not.
struct tern_refusal {
    enum tern_result result;
    uint32_t retry_after_s; // when to ask again; 0 = not set
    char sentence[sizeof((tern_Error){0}.sentence)];
};

// --- Life

// db, and ports->ctx, outlive it. why: a sentence for TERN_ERR_CONFIG.
// TERN_ERR_CONFIG          a setting is outside its range
// TERN_ERR_MODEL_MISMATCH  the stored model spec no longer gives the stored model hash
// TERN_ERR_NO_MEMORY, or the store's
TERN_MUST_USE enum tern_result tern_federation_new(const struct tern_federation_config *config,
                                                   const struct tern_federation_ports *ports,
                                                   struct tern_db *db,
                                                   struct tern_federation **federation,
                                                   char why[256]);
void tern_federation_free(struct tern_federation *federation); // NULL is allowed

// Whether a federation whose model has `count` weights can: TERN_OK, or TERN_ERR_CONFIG with why. Any thread.
TERN_MUST_USE enum tern_result tern_federation_suits(const struct tern_federation_config *config,
                                                     uint32_t count, char why[256]);
// Whether a federation can go by this: TERN_OK, or TERN_ERR_CONFIG with why. Any thread.
TERN_MUST_USE enum tern_result tern_federation_accepts(const struct tern_federation *federation,
                                                       const struct tern_federation_config *config,
                                                       char why[256]);
// Goes by an accepted one once it is loaded again. While nothing is merged, outside of transactions.
void tern_federation_configure(struct tern_federation *federation,
                               const struct tern_federation_config *config);

// Everything from the store, as a restart has it: whatever else was known is forgotten. After a failure
// it may only be loaded again, or freed. Outside of transactions.
// TERN_ERR_UNKNOWN  the open round names a strategy or codec that is not known here
// TERN_ERR_CORRUPT, TERN_ERR_NOT_FOUND, TERN_ERR_STATE, TERN_ERR_IO  what is stored is damaged
TERN_MUST_USE enum tern_result tern_federation_load(struct tern_federation *federation,
                                                    uint64_t now);
// After others have changed clients in the store.
TERN_MUST_USE enum tern_result tern_federation_reload_clients(struct tern_federation *federation);
// After others may have ended the open round's time, with the quorum that it needs then.
TERN_MUST_USE enum tern_result tern_federation_reload_round(struct tern_federation *federation);

// The time of day was set forth by step ms, or back: rounds and clients move with it, so that what was to
// happen in a minute still does. Inside of a transaction.
TERN_MUST_USE enum tern_result tern_federation_set_clock(struct tern_federation *federation,
                                                         int64_t step);

// Writes what clients last said; once that is committed, tern_federation_flushed().
TERN_MUST_USE enum tern_result tern_federation_flush(struct tern_federation *federation);
void tern_federation_flushed(struct tern_federation *federation);

// --- A transaction's course

void tern_federation_begin(struct tern_federation *federation);
// Closes, extends and opens rounds until there is nothing to do at this time.
TERN_MUST_USE enum tern_result tern_federation_advance(struct tern_federation *federation,
                                                       uint64_t now);
uint64_t tern_federation_next_advance(const struct tern_federation *federation); // when, again
// The open round takes no more updates, and has no more tasks: it is being merged, from the transaction
// that decided so to the one that stores the next version. What depends on that version may be asked
// again then; the rest is answered as ever.
bool tern_federation_is_merging(const struct tern_federation *federation);
// Waits until there is something to store, or nothing is being merged.
void tern_federation_wait_for_merge(struct tern_federation *federation);
// Whether a round opened or was extended, or a version was made, since tern_federation_begin():
// clients that wait for a task may have one.
bool tern_federation_moved(const struct tern_federation *federation);
// After the commit, before its answers are sent, so that every client finds what its answer names. What the
// transaction has decided to merge, is merged from here on.
void tern_federation_publish(struct tern_federation *federation);
// After a rollback: why going on would lose what was acknowledged, or NULL.
const char *tern_federation_damage(const struct tern_federation *federation);

// --- Clients

// Whether there is such a client, and it was not revoked.
bool tern_federation_admits(struct tern_federation *federation, uint64_t client);

// peer: the address that it comes from, for operators. reply: filled, with the token that is not kept.
// Refused: TERN_ERR_UNAUTHORIZED  the join code; TERN_ERR_BUSY  there are enough clients
TERN_MUST_USE enum tern_result tern_federation_enroll(struct tern_federation *federation,
                                                      const tern_EnrollRequest *message,
                                                      const char *peer, uint64_t now,
                                                      tern_EnrollReply *reply,
                                                      struct tern_refusal *refusal);

// Takes a check-in. parsed: of the message; an error is sent to the client.
// Refused: that error, TERN_ERR_MODEL_MISMATCH, TERN_ERR_UNKNOWN
TERN_MUST_USE enum tern_result tern_federation_checkin(struct tern_federation *federation,
                                                       uint64_t client, enum tern_result parsed,
                                                       const tern_CheckinRequest *message,
                                                       uint64_t now, struct tern_refusal *refusal);

// What a client should do now.
struct tern_next {
    tern_CheckinReply reply;
    bool idle;          // nothing; the check-in may be held
    bool merging;       // nothing before the open round is merged, which is soon
    bool own_downloads; // the task's downloads were made for this client: they may be sent inline
};

TERN_MUST_USE enum tern_result tern_federation_next(struct tern_federation *federation,
                                                    uint64_t client, uint64_t now,
                                                    struct tern_next *next);
// Sets whether the client's check-in is held: such a client can start at once.
void tern_federation_wait(struct tern_federation *federation, uint64_t client, bool waits);

// A download, the round's shared indices, the scaling or the model's manifest by its name, one reference more.
// TERN_ERR_NOT_FOUND  there is none
// TERN_ERR_BUSY       there is too little disk, memory or descriptors to send it from; later
TERN_MUST_USE enum tern_result tern_federation_blob(struct tern_federation *federation,
                                                    const uint8_t sha256[TERN_SHA256_SIZE],
                                                    struct tern_blob **blob,
                                                    struct tern_download_facts *facts);
// The same without its bytes. TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result tern_federation_find_blob(struct tern_federation *federation,
                                                         const uint8_t sha256[TERN_SHA256_SIZE],
                                                         struct tern_download_facts *facts);

// The same, but only for downloads in the store, where another aggregator can read them. TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result
tern_federation_find_stored_blob(struct tern_federation *federation,
                                 const uint8_t sha256[TERN_SHA256_SIZE],
                                 struct tern_download_facts *facts);

// --- Statistics of columns

// Whether a federation of this model can use the configured statistics, or why not. Any thread.
bool tern_federation_can_scale(const struct tern_federation_config *config, const char *spec,
                               char why[256]);

// Statistics as received.
struct tern_incoming_statistics {
    enum tern_result parsed; // an error is sent to the client
    tern_Statistics message;
    struct tern_span columns; // of body
    struct tern_span body;    // as received, borrowed
};

// Bytes of the longest accepted statistics; any thread.
size_t tern_federation_statistics_max(const struct tern_federation *federation);

// Stores statistics, or finds that they are stored already (*duplicate). Refused, and nothing is changed: what
// PROTOCOL.md names for statistics.
TERN_MUST_USE enum tern_result
tern_federation_statistics(struct tern_federation *federation, uint64_t client,
                           const struct tern_incoming_statistics *statistics, uint64_t now,
                           bool *duplicate, struct tern_refusal *refusal);

// Fills in `statistics` or `scaling` of a reply, as a check-in of the client would; `come_back_ms` is above 0 and no time.
// Changes nothing.
void tern_federation_scaling_status(const struct tern_federation *federation, uint64_t client,
                                    tern_CheckinReply *reply);

// --- Updates

// An update, parsed by the thread that received it.
struct tern_incoming {
    uint64_t client;
    uint32_t round;
    uint32_t sequence;
    enum tern_result parsed; // of the body: an error is sent unless another one precedes it
    tern_Update message;
    struct tern_span body; // as received, borrowed; or joined
    struct tern_span container;
    uint8_t sha256[TERN_SHA256_SIZE]; // of the body
    double sum_square;                // of the decoded values
    uint32_t received;                // bytes of the body as it came
    uint32_t payload;                 // bytes of its container
    uint8_t *joined;                  // the body with its indices put back, or NULL; owned
    struct tern_reading *reading;     // decoded values kept from its container, or NULL; owned
    bool unread;                      // it could not count, so its container was not read
    // A node that checked it has its values in its part (merge/part.h), or will have.
    bool deferred;
};

// Reads the body of an update whose client, round, sequence and body are set. Any thread.
void tern_federation_read_update(struct tern_federation *federation, struct tern_incoming *update);
// Reads the values of an update that another aggregator has checked, so that the counting thread need not and no limit
// depends on that aggregator's report. Any thread.
void tern_federation_read_values(struct tern_federation *federation, struct tern_incoming *update);
// Frees what the functions above allocated. Any thread.
void tern_incoming_clear(struct tern_incoming *update);

// Counts an update in its round, or finds that it is stored already (*duplicate). Refused: everything that
// PROTOCOL.md names for an update; TERN_ERR_BUSY  nothing changed, try again. Not while a round is being
// merged.
TERN_MUST_USE enum tern_result tern_federation_update(struct tern_federation *federation,
                                                      const struct tern_incoming *update,
                                                      uint64_t now, bool *duplicate,
                                                      struct tern_refusal *refusal);

// The SHA-256 of the client's update that is stored for that round. TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result tern_federation_stored(struct tern_federation *federation,
                                                      uint64_t client, uint32_t round,
                                                      uint8_t sha256[TERN_SHA256_SIZE]);

// --- Following another federation's model, as a gateway does (config.follower; gateway.c)

// config.follower.
uint64_t tern_federation_follower(const struct tern_federation *federation);

// How clients train, in an open round too: as the upstream task says.
struct tern_federation_course {
    uint32_t local_steps;
    uint32_t batch_size;
    float learning_rate;
    float momentum;
    float weight_decay;
    float prox_mu;
    uint32_t
        window_ms; // devices have no longer than this, nor than round.deadline; 0 = the latter alone
};
// Writes the course into config; the strategy becomes the plain mean, without bounds or scaling.
void tern_federation_take_course(struct tern_federation_config *config,
                                 const struct tern_federation_course *course);
void tern_federation_set_course(struct tern_federation *federation,
                                const struct tern_federation_course *course);

// Sets the model to weights[0..count): opens a round whose one member is `follower`, a client that never trains, and
// stores its update, the difference. That round closes as any other, and makes a version that equals these weights but
// for the rounding of two sums. Refused: TERN_ERR_BUSY  a round is open, or being merged;
// TERN_ERR_MODEL_MISMATCH  count; TERN_ERR_NON_FINITE, TERN_ERR_NORM_LIMIT  the weights cannot be reached
TERN_MUST_USE enum tern_result tern_federation_set_model(struct tern_federation *federation,
                                                         uint64_t follower, const float *weights,
                                                         uint32_t count, uint64_t now,
                                                         struct tern_refusal *refusal);

// Lets the round of that number open, once there are clients for it.
void tern_federation_let_open(struct tern_federation *federation, uint32_t round);

// Ends the federation until memory is loaded again: clients receive that it has finished. False: a round is open, and
// nothing changed.
bool tern_federation_end(struct tern_federation *federation);

// The model, for nodes that sum parts of a round. Any thread; lives as long as the federation.
const struct tern_model *tern_federation_model(const struct tern_federation *federation);

// --- Facts

uint32_t tern_federation_round(const struct tern_federation *federation);    // the last that opened
size_t tern_federation_update_max(const struct tern_federation *federation); // bytes; any thread

// By the last commit, on any thread: whether a round of that number was ever opened, and whether the
// client may send an update for it, be it late or once more: OK, UNKNOWN_ROUND or NOT_IN_COHORT.
bool tern_federation_had_round(struct tern_federation *federation, uint32_t round);
TERN_MUST_USE enum tern_result tern_federation_expects(struct tern_federation *federation,
                                                       uint64_t client, uint32_t round);

// Since the start.
struct tern_federation_counts {
    uint64_t updates_late;
    uint64_t updates_rejected;
    uint64_t updates_scaled_down; // norm_bound and examples_bound of round.strategy
    uint64_t tasks_missed;        // that a client took and did not report in time
    uint64_t tasks_failed;        // whose training a client reported as failed
    uint64_t checkins;
    uint64_t anomalies[TERN_ANOMALY_COUNT];    // of error buffers
    uint64_t directives[TERN_DIRECTIVE_COUNT]; // given with new tasks
};

struct tern_federation_facts {
    char model_spec[64];
    uint8_t model_sha256[TERN_SHA256_SIZE];
    uint32_t version;
    uint32_t values;                   // of the model
    struct tern_round_machine machine; // without its members
    bool merging;                      // its round's updates are being merged
    uint32_t clients;                  // like the next three without a gateway's follower
    uint32_t revoked;
    uint32_t evaluators;
    uint32_t unreliable; // rounds do not count on them
    float last_loss;
    uint32_t refused_draws; // consecutive draws in which every update was refused for its values
    const char *advice;     // about such draws, once there are enough, or about an end; else NULL
    uint64_t replica_bytes; // of downloads and replicas in the store
    uint64_t replica_searches; // since the start, for downloads to replicas of clients' own
    struct tern_federation_counts counts;
    enum tern_wait wait;
    bool needs_help; // that wait does not end by itself
    // Not older than a second.
    struct tern_trainers trainers;
    struct tern_accuracy evaluated; // of the newest version that was; num_examples is 0: none was
};

// Outside of transactions.
void tern_federation_facts(struct tern_federation *federation, uint64_t now,
                           struct tern_federation_facts *facts);

// The rules and facts that decide what the federation waits for. facts: reads each client in memory.
void tern_federation_wait_rules(const struct tern_federation_config *config,
                                struct tern_wait_rules *rules);
void tern_federation_waits(const struct tern_federation *federation, uint64_t now,
                           struct tern_wait_rules *rules, struct tern_wait_facts *facts);
// tries: how often it came for its task, at least
typedef void tern_federation_take_missing(void *ctx, const struct tern_db_client *client,
                                          bool has_task, uint32_t tries);
// Calls take() for the open round's members that have no update and were not revoked.
void tern_federation_missing(const struct tern_federation *federation,
                             tern_federation_take_missing *take, void *ctx);
// Calls take() for clients that have come and have sent no statistics of columns.
void tern_federation_missing_statistics(const struct tern_federation *federation, uint64_t now,
                                        tern_federation_take_missing *take, void *ctx);

// --- Join codes: made by the command line and the admin listener, brought by clients. Reentrant

// What names a code that is kept as a hash only: the hash's first digits, and the NUL.
#define TERN_JOIN_CODE_ID 9
void tern_join_code_id(const uint8_t hash[TERN_SHA256_SIZE], char id[TERN_JOIN_CODE_ID]);

#define TERN_JOIN_CODE_TEXT 20 // "7k3m-9xq2-0ahp-w4tz" and the NUL

// Makes a new code: 80 random bits in letters and digits that people do not mistake for each other.
// code->hash is set; the other fields are the caller's.
// TERN_ERR_IO  the system has no random bytes
TERN_MUST_USE enum tern_result tern_join_code_make(struct tern_db_code *code,
                                                   char text[TERN_JOIN_CODE_TEXT]);

// The hash that a code is stored under, as people type it: in capitals, with O for 0 and I or L for
// 1 (Crockford's base32), its groups apart by hyphens, blanks or nothing.
void tern_join_code_hash(const char *text, uint8_t hash[TERN_SHA256_SIZE]);

#endif
