// The federation: enrolled clients, the open round and its members, what each client does next, and
// which updates count. It works on the store, without HTTP or a clock: requests arrive as messages,
// times as arguments, and every refusal has its reason.
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
#include "rounds/privacy.h"
#include "rounds/rate.h"
#include "rounds/selection.h"
#include "rounds/steps.h"
#include "rounds/tags.h"
#include "rounds/waits.h"
#include "secure/ask.h"
#include "store/store.h"
#include "strategies/strategy.h"
#include "util/join_code.h"
#include "wire/wire.h"
#include <math.h>

struct tern_federation;

struct tern_training_settings {
    uint32_t batch_size;
    struct tern_rate_policy rate;
    float momentum;
    float weight_decay;
    // Clients evaluate the weights that they received, on held-out data, before they train.
    bool evaluate;
};

struct tern_federation_limits {
    uint32_t clients;      // most enrolled clients, including revoked ones
    uint32_t num_examples; // most examples that one update may claim
    double norm;           // largest norm of one update; above 0, at most TERN_UPDATE_NORM_MAX
    uint64_t history;      // bytes of committed rounds' updates to keep for replays; 0 = no limit
};

// Which clients receive the global model itself when the federation has finished. Other clients end with the replica
// that they hold. If the last version is a restored one, EVALUATORS means all clients.
enum tern_final_model {
    TERN_FINAL_MODEL_NONE,
    TERN_FINAL_MODEL_EVALUATORS,
    TERN_FINAL_MODEL_ALL,
};

// Settings of the scaling of columns, which is computed from statistics that clients send before the first round.
struct tern_statistics_settings {
    bool enabled;
    // clients whose statistics a scaling needs; 0 = as many as the first round
    uint32_t min_clients;
    uint64_t wait_ms; // time to wait for further statistics after the first statistics arrived
};

// Settings of secure rounds ([secure]).
struct tern_secure_settings {
    bool enabled;         // secure.helper is set
    uint32_t min_clients; // the helper reveals no sum of fewer updates
    uint32_t groups;      // secure.groups; 0 = one sum of all updates
    uint32_t share;       // one in so many values is sent: 1, 2 or 10
    // number of examples that gives a client the weight 1; 0 = every client has it
    uint32_t examples_max;
    // Settings of [privacy].
    uint32_t noise; // privacy.noise in thousandths; 0 = no noise
    double clip;
    uint8_t helper_key[TERN_P256_PUBLIC_SIZE];
};

// Returns the fewest updates of a secure round; 0 without secure rounds.
static inline uint32_t tern_secure_updates(const struct tern_secure_settings *settings)
{
    return !settings->enabled
               ? 0
               : settings->min_clients * (settings->groups > 0 ? settings->groups : 1);
}

// Returns the most values of an update that are not zero in rounds with noise. values: of the model.
static inline uint32_t tern_secure_places(const struct tern_secure_settings *settings,
                                          uint32_t values)
{
    const uint32_t sent = values / settings->share + (values % settings->share != 0);
    const double places = ceil(settings->clip * sent);
    return places < 1 ? 1 : places < sent ? (uint32_t)places : sent;
}

// Finer codecs for the first rounds, in which the model changes most.
struct tern_early_codecs {
    uint32_t rounds; // number of first committed rounds that use these codecs; 0 = none
    struct tern_codec up;
    struct tern_codec down; // codec of the delta to the version that the round makes
};

struct tern_federation_config {
    // Id of the client whose updates bring a gateway the upstream model; 0 = no gateway. A gateway's rounds open only
    // when tern_federation_set_model() or tern_federation_allow_round() is called.
    uint64_t upstream_client;
    uint32_t undone_round;          // of a gateway: struct tern_upstream_training
    struct tern_round_policy round; // the store's seed replaces round.seed
    uint32_t min_clients;           // trainers that must have enrolled before a round opens
    struct tern_statistics_settings statistics;
    struct tern_secure_settings secure;
    struct tern_privacy_settings privacy;
    uint64_t eligible_within_ms; // longest time since the last check-in; 0 = no limit
    enum tern_client_selection selection;
    struct tern_tag_selection tags; // tags that selected clients must have
    struct tern_training_settings train;
    struct tern_steps_settings steps;
    struct tern_error_settings error;
    struct tern_codec codec_up;
    struct tern_catchup_config downloads;
    struct tern_early_codecs early;
    enum tern_final_model final_model;
    const struct tern_strategy *strategy;
    float server_learning_rate; // above 0, at most TERN_SERVER_RATE_MAX
    float strategy_parameters
        [TERN_STRATEGY_PARAMETERS]; // the strategy ignores parameters that it does not use
    // Number of newest versions in the averaged model; 0 = no averaged model.
    uint32_t average_versions;
    uint64_t strategy_memory; // bytes for the values of all updates; 0 = TERN_MERGE_MEMORY
    // Memory for vectors of the model's size; changed by a restart only.
    struct tern_merge_room vectors;
    struct tern_federation_limits limits;
};

// Callbacks that the federation's owner provides.
struct tern_federation_ports {
    void *ctx;
    // Called after a client was enrolled, revoked, or loaded from the store. TERN_ERR_NO_MEMORY
    enum tern_result (*admit)(void *ctx, const struct tern_db_client *row);
    // Removes the clients with ids from `first` on, whose enrolment did not reach the disk.
    void (*dismiss)(void *ctx, uint64_t first);
    // Adds to *meter the client's counted traffic of the round that is not in the store yet.
    void (*metered)(void *ctx, uint64_t client, uint32_t round, struct tern_db_meter *meter);
    // Called when a merge has ended, so that the owner calls tern_federation_advance(). Any thread.
    void (*wake)(void *ctx);
    // The helper of secure rounds; exchange is NULL without one.
    struct tern_helper_port helper;
};

// Why a request is refused; result is TERN_OK when the request is accepted.
struct tern_refusal {
    enum tern_result result;
    uint32_t retry_after_s; // seconds until the client should try again; 0 = not set
    char sentence[sizeof((tern_Error){0}.sentence)];
};

// --- Creating, configuring and loading

// Creates a federation on `db`. db and ports->ctx must outlive it. why: the reason for TERN_ERR_CONFIG.
// TERN_ERR_CONFIG          a setting is outside its range
// TERN_ERR_MODEL_MISMATCH  the stored model spec no longer gives the stored model hash
// TERN_ERR_NO_MEMORY; errors of the store
TERN_MUST_USE enum tern_result tern_federation_new(const struct tern_federation_config *config,
                                                   const struct tern_federation_ports *ports,
                                                   struct tern_db *db,
                                                   struct tern_federation **federation,
                                                   char why[256]);
void tern_federation_free(struct tern_federation *federation); // NULL is allowed

// Checks the configuration for a model of `count` weights: TERN_OK, or TERN_ERR_CONFIG with why. Any thread.
TERN_MUST_USE enum tern_result
tern_federation_check_config(const struct tern_federation_config *config, uint32_t count,
                             char why[256]);
// Checks whether this federation can use the configuration: TERN_OK, or TERN_ERR_CONFIG with why. Any thread.
TERN_MUST_USE enum tern_result
tern_federation_accepts_config(const struct tern_federation *federation,
                               const struct tern_federation_config *config, char why[256]);
// Sets an accepted configuration, which applies after the next tern_federation_load(). Called outside of transactions,
// while no round is being merged.
void tern_federation_configure(struct tern_federation *federation,
                               const struct tern_federation_config *config);

// Replaces all state in memory by the store's, as a restart does. After a failure the federation may only be loaded
// again or freed. Called outside of transactions.
// TERN_ERR_UNKNOWN  the open round names a strategy or codec that this program does not have
// TERN_ERR_CORRUPT, TERN_ERR_NOT_FOUND, TERN_ERR_STATE, TERN_ERR_IO  the stored federation is damaged
TERN_MUST_USE enum tern_result tern_federation_load(struct tern_federation *federation,
                                                    uint64_t now);
// Loads the clients from the store, after another process changed them there.
TERN_MUST_USE enum tern_result tern_federation_reload_clients(struct tern_federation *federation);
// Loads the open round's deadline and quorum from the store, after another process may have ended the round early.
TERN_MUST_USE enum tern_result tern_federation_reload_round(struct tern_federation *federation);

// Shifts all stored times by `step` ms after the clock was stepped, so that an event due in a minute stays due in a
// minute. Called inside a transaction.
TERN_MUST_USE enum tern_result tern_federation_set_clock(struct tern_federation *federation,
                                                         int64_t step);

// Writes the client rows that are newer than the store's, and deletes replicas that no client needs any more.
TERN_MUST_USE enum tern_result tern_federation_flush(struct tern_federation *federation);
// Marks the client rows as stored. Called after the commit.
void tern_federation_flushed(struct tern_federation *federation);

// --- Transactions, and advancing rounds

// Resets what the federation records for one transaction. Called at the start of each transaction. worked_us: for how long
// the caller's thread has worked since the start
void tern_federation_begin_transaction(struct tern_federation *federation, uint64_t worked_us);
// Closes, extends and opens rounds as far as they are due at `now`.
TERN_MUST_USE enum tern_result tern_federation_advance(struct tern_federation *federation,
                                                       uint64_t now);
// Returns when tern_federation_advance() should run next, in Unix ms; 0 = at once.
uint64_t tern_federation_next_advance(const struct tern_federation *federation);
// Whether the open round is being merged: from the transaction that decides to close the round to the transaction that
// stores the next version. Meanwhile the federation accepts no updates and gives no tasks.
bool tern_federation_is_merging(const struct tern_federation *federation);
// Waits until the running merge, if any, has ended.
void tern_federation_wait_for_merge(struct tern_federation *federation);
// Whether a round opened or was extended, or a version was made, since tern_federation_begin_transaction(): held check-ins may be
// answered with a task.
bool tern_federation_has_progressed(const struct tern_federation *federation);
// Whether a search for a client's downloads has ended since the transaction began: check-ins that are held until their
// downloads are made may be answered with a task.
bool tern_federation_has_found_downloads(const struct tern_federation *federation);
// Publishes the committed state to other threads, and starts the merge of a round that the transaction decided to
// close. Called after the commit and before replies are sent, so that each client finds what its reply names.
void tern_federation_publish(struct tern_federation *federation);
// Returns, after a rollback, why the federation must stop in order to lose no acknowledged update; NULL = it can
// continue.
const char *tern_federation_damage(const struct tern_federation *federation);

// --- Clients

// Whether a client with this id exists and is not revoked.
bool tern_federation_has_client(struct tern_federation *federation, uint64_t client);

// Enrols a client. peer: the client's address, for the log. reply: gets the client's token, of which only a hash is
// stored.
// Refused: TERN_ERR_UNAUTHORIZED  the join code is not valid; TERN_ERR_BUSY  limits.clients is reached
TERN_MUST_USE enum tern_result tern_federation_enroll(struct tern_federation *federation,
                                                      const tern_EnrollRequest *message,
                                                      const char *peer, uint64_t now,
                                                      tern_EnrollReply *reply,
                                                      struct tern_refusal *refusal);

// Processes a check-in. parsed: the result of parsing the message; an error is sent to the client.
// Refused: the error in `parsed`, TERN_ERR_MODEL_MISMATCH, TERN_ERR_UNKNOWN
TERN_MUST_USE enum tern_result tern_federation_checkin(struct tern_federation *federation,
                                                       uint64_t client, enum tern_result parsed,
                                                       const tern_CheckinRequest *message,
                                                       uint64_t now, struct tern_refusal *refusal);

// The answer to a check-in: what the client should do now.
struct tern_checkin_answer {
    tern_CheckinReply reply;
    bool idle; // the client has nothing to do; the service may hold its check-in open
    // The client has nothing to do until the open round is merged or downloads are made for this client.
    bool soon;
    // The task's downloads were made for this client alone, so the reply may contain them.
    bool has_private_downloads;
};

TERN_MUST_USE enum tern_result tern_federation_answer_checkin(struct tern_federation *federation,
                                                              uint64_t client, uint64_t now,
                                                              struct tern_checkin_answer *next);

// Like tern_federation_answer_checkin(), for the answer to an accepted update: a client that leaves after its round
// (TERN_WIRE_LEAVES) gets no task.
TERN_MUST_USE enum tern_result tern_federation_answer_update(struct tern_federation *federation,
                                                             uint64_t client, uint64_t now,
                                                             struct tern_checkin_answer *next);
// Sets whether the service holds the client's check-in open. Such a client can start a task at once.
void tern_federation_set_waiting(struct tern_federation *federation, uint64_t client, bool waits);

// Finds a download, the round's shared indices, the scaling or the model's manifest by its SHA-256. The caller releases
// *blob.
// TERN_ERR_NOT_FOUND  no blob has this hash
// TERN_ERR_BUSY       disk, memory or file descriptors are short now; the client should try again later
TERN_MUST_USE enum tern_result tern_federation_blob(struct tern_federation *federation,
                                                    const uint8_t sha256[TERN_SHA256_SIZE],
                                                    struct tern_blob **blob,
                                                    struct tern_download_facts *facts);
// Sets *facts as tern_federation_blob() does, without reading the bytes. TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result tern_federation_find_blob(struct tern_federation *federation,
                                                         const uint8_t sha256[TERN_SHA256_SIZE],
                                                         struct tern_download_facts *facts);

// --- Statistics of columns

// Whether a federation of the model `spec` can use the configured statistics; if not, sets why. Any thread.
bool tern_federation_can_scale(const struct tern_federation_config *config, const char *spec,
                               char why[256]);

// A received message with statistics of columns.
struct tern_incoming_statistics {
    enum tern_result parsed; // result of parsing the body; an error is sent to the client
    tern_Statistics message;
    struct tern_span columns; // the part of `body` with the columns
    struct tern_span body;    // received bytes of the message, borrowed
};

// Returns the largest accepted size of statistics in bytes. Any thread.
size_t tern_federation_statistics_max(const struct tern_federation *federation);

// Stores the client's statistics, or sets *duplicate if the same statistics are stored already. Refuses statistics,
// without a change, for the reasons that PROTOCOL.md lists.
TERN_MUST_USE enum tern_result
tern_federation_receive_statistics(struct tern_federation *federation, uint64_t client,
                                   const struct tern_incoming_statistics *statistics, uint64_t now,
                                   bool *duplicate, struct tern_refusal *refusal);

// Sets `statistics` or `scaling` of the reply, as for a check-in of the client, without changing any state. Sets
// come_back_ms to 1, so that the encoded reply is not empty.
void tern_federation_scaling_status(const struct tern_federation *federation, uint64_t client,
                                    tern_CheckinReply *reply);

// --- Updates

// A received update, parsed by the thread that received it.
struct tern_incoming_update {
    uint64_t client;
    uint32_t round;
    uint32_t sequence;
    // Result of parsing the body; an error is sent to the client unless an earlier check refuses.
    enum tern_result parsed;
    tern_Update message;
    struct tern_span body; // received bytes, borrowed; or body_with_indices
    struct tern_span container;
    uint8_t sha256[TERN_SHA256_SIZE]; // SHA-256 of `body`
    double sum_square;                // sum of the squared decoded values
    uint32_t received;                // bytes of the body as received
    uint32_t payload;                 // bytes of the container
    // The body, completed by the round's shared indices; NULL = the body was complete; owned.
    uint8_t *body_with_indices;
    // The decoded container, for the merge; NULL = not decoded; owned.
    struct tern_reading *reading;
    bool container_unread; // the update cannot count, so its container was not decoded
};

// Parses and checks the body of an update whose client, round, sequence and body are set. Any thread.
void tern_federation_read_update(struct tern_federation *federation,
                                 struct tern_incoming_update *update);
// Frees what tern_federation_read_update() allocated. Any thread.
void tern_incoming_update_free(struct tern_incoming_update *update);

// Counts an update in its round, or sets *duplicate if the update is stored already. Refuses the update for the reasons
// that PROTOCOL.md lists; TERN_ERR_BUSY: nothing changed, and the client should try again. Must not be called while a
// round is being merged.
TERN_MUST_USE enum tern_result
tern_federation_receive_update(struct tern_federation *federation,
                               const struct tern_incoming_update *update, uint64_t now,
                               bool *duplicate, struct tern_refusal *refusal);

// Sets sha256 to the SHA-256 of the client's stored update for the round. TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result tern_federation_find_update(struct tern_federation *federation,
                                                           uint64_t client, uint32_t round,
                                                           uint8_t sha256[TERN_SHA256_SIZE]);

// --- Following another federation's model, as a gateway does (config.upstream_client; gateway.c)

// Returns config.upstream_client.
uint64_t tern_federation_upstream_client(const struct tern_federation *federation);

// Training parameters of the last upstream task. They also apply to a round that is open already.
struct tern_upstream_training {
    uint32_t local_steps;
    uint32_t batch_size;
    float learning_rate;
    float momentum;
    float weight_decay;
    float prox_mu;
    // time for devices to train, if shorter than round.deadline; 0 = round.deadline
    uint32_t window_ms;
    // The last round that brought a model with the upstream order to reset the error buffer: devices reset theirs if these are
    // from before. 0 = none.
    uint32_t undone_round;
};
// Writes the training parameters into config. The strategy becomes the plain mean, without bounds or scaling.
void tern_federation_config_set_training(struct tern_federation_config *config,
                                         const struct tern_upstream_training *course);
void tern_federation_set_training(struct tern_federation *federation,
                                  const struct tern_upstream_training *course);

// Sets the model to weights[0..count): opens a round whose one member is `upstream_client`, a client that never trains,
// and stores the difference as that member's update. The round closes as any other. The next version equals the weights
// except for the rounding of two sums.
// Refused: TERN_ERR_BUSY  a round is open or being merged; TERN_ERR_MODEL_MISMATCH  `count` is not the model's;
// TERN_ERR_NON_FINITE, TERN_ERR_NORM_LIMIT  the difference is too large for an accepted update
TERN_MUST_USE enum tern_result tern_federation_set_model(struct tern_federation *federation,
                                                         uint64_t follower, const float *weights,
                                                         uint32_t count, uint64_t now,
                                                         struct tern_refusal *refusal);

// Allows rounds up to this number to open. A round still opens only when there are clients for it.
void tern_federation_allow_round(struct tern_federation *federation, uint32_t round);

// Ends the federation until the next tern_federation_load(): check-ins are answered that the federation has finished.
// Returns false, and changes nothing, while a round is open.
bool tern_federation_end(struct tern_federation *federation);

// --- Facts

// Returns the number of the round that opened last.
uint32_t tern_federation_round(const struct tern_federation *federation);
// Returns the largest accepted size of an update in bytes. Any thread.
size_t tern_federation_update_max(const struct tern_federation *federation);

// Whether the round had opened by the last commit. Any thread.
bool tern_federation_has_opened(struct tern_federation *federation, uint32_t round);
// Whether, as of the last commit, the client may send an update for the round, even a late or a repeated update:
// TERN_OK, TERN_ERR_UNKNOWN_ROUND or TERN_ERR_NOT_IN_COHORT. Any thread.
TERN_MUST_USE enum tern_result tern_federation_expects_update(struct tern_federation *federation,
                                                              uint64_t client, uint32_t round);

// Counters since the process started.
struct tern_federation_counts {
    uint64_t updates_late;
    uint64_t updates_rejected;
    // Updates that norm_bound or examples_bound of round.strategy scaled down.
    uint64_t updates_scaled_down;
    uint64_t tasks_missed; // tasks that a client fetched and did not report in time
    uint64_t tasks_failed; // tasks whose training a client reported as failed
    uint64_t checkins;
    // Anomalies in clients' reports of their error buffers, by kind.
    uint64_t anomalies[TERN_ANOMALY_COUNT];
    // Directives for error buffers that were sent with new tasks.
    uint64_t directives[TERN_DIRECTIVE_COUNT];
};

struct tern_federation_facts {
    char model_spec[64];
    uint8_t model_sha256[TERN_SHA256_SIZE];
    uint32_t version;
    uint32_t values;                   // number of the model's values
    struct tern_round_machine machine; // a copy of the round machine; members is NULL
    struct tern_privacy_settings privacy;
    bool merging; // the open round's updates are being merged
    // Clients, revoked and evaluators exclude the client that stands for a gateway's upstream aggregator.
    uint32_t clients;
    uint32_t revoked;
    uint32_t evaluators;
    uint32_t unreliable; // clients on which rounds do not count
    float last_loss;
    // Consecutive cohorts of which every update was refused for its values.
    uint32_t refused_cohorts;
    // What to do about refused cohorts, or about an early end; NULL = no advice.
    const char *advice;
    uint64_t replica_bytes;           // bytes of downloads and replicas in the store
    struct tern_search_cost searches; // since the start
    struct tern_db_round committed;   // the last committed round; its number is 0: none
    struct tern_federation_counts counts;
    enum tern_wait wait;
    bool needs_help; // the wait ends only if the operator acts
    // The next two are at most a second old.
    struct tern_trainer_counts trainers;
    // Accuracy of the newest evaluated version; num_examples is 0: no version was evaluated.
    struct tern_accuracy evaluated;
};

// Fills in the facts that status pages and metrics show. Called outside of transactions.
void tern_federation_facts(struct tern_federation *federation, uint64_t now,
                           struct tern_federation_facts *facts);

// Sets the rules by which this federation waits, and the facts to which they apply. Reads every client in memory.
void tern_federation_wait_facts(const struct tern_federation *federation, uint64_t now,
                                struct tern_wait_rules *rules, struct tern_wait_facts *facts);
// tries: how often the client fetched its task; at least this number
typedef void tern_federation_on_missing(void *ctx, const struct tern_db_client *client,
                                        bool has_task, uint32_t tries);
// Calls take() for the open round's members that have no update and were not revoked.
void tern_federation_each_missing_update(const struct tern_federation *federation,
                                         tern_federation_on_missing *take, void *ctx);
// Calls take() for clients that have checked in and have sent no statistics of columns.
void tern_federation_each_missing_statistics(const struct tern_federation *federation, uint64_t now,
                                             tern_federation_on_missing *take, void *ctx);

// --- Join codes, which the command line and the admin listener make and clients present. Reentrant

// Size of a code's name with the NUL. Only a code's hash is stored; the hash's first 8 digits name the code.
#define TERN_JOIN_CODE_ID 9
void tern_join_code_id(const uint8_t hash[TERN_SHA256_SIZE], char id[TERN_JOIN_CODE_ID]);

// Makes a new join code. Sets code->hash; the caller sets the other fields.
// TERN_ERR_IO  the system has no random bytes
TERN_MUST_USE enum tern_result tern_join_code_make(struct tern_db_code *code,
                                                   char text[TERN_JOIN_CODE_TEXT]);

#endif
