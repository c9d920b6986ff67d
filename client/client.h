// The Tern client as an embeddable library: it checks in, downloads, trains, encodes, uploads and waits, one bounded piece
// of work per tern_client_step(). It blocks only inside a port, allocates no memory (the caller owns all of it), and reaches
// network and storage through ports.h. Called by tern-client, gateways, tern-fleet and firmware. One client belongs to one
// thread; clients share nothing, so a program may run any number of them.
//
//   tern_client_init(&client, &config);
//   if (tern_client_identify(&client) == TERN_ERR_NOT_FOUND) {
//       tern_client_enroll(&client, join_code);
//   }
//   // the identity now names the model: build it and its memory
//   tern_client_restore(&client, &workspace);
//   for (;;) {
//       result = tern_client_step(&client);
//       if (result == TERN_AGAIN) sleep(tern_client_next_ms(&client));
//       else if (result != TERN_OK) break;   // report tern_result_name(result); restore, or enrol again
//   }
//
// Conservation: the aggregator applies every encoded change exactly once, or the change is in the pending update or the
// error buffer. The client saves state before its effect; after a power cut tern_client_restore() continues from the last
// saved record.
#ifndef TERN_CLIENT_H
#define TERN_CLIENT_H

#include "error_feedback/error_buffer.h"
#include "ports.h"
#include "util/prng.h"
#include "wire/wire.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- Events

// X(symbol, name in logs)
#define TERN_CLIENT_EVENT_LIST(X)                                                                  \
    X(TERN_EVENT_ENROLLED, "enrolled")                                                             \
    X(TERN_EVENT_STARTED_OVER, "started-over")                                                     \
    X(TERN_EVENT_TASK, "task")                                                                     \
    X(TERN_EVENT_DOWNLOADED, "downloaded")                                                         \
    X(TERN_EVENT_TRAINED, "trained")                                                               \
    X(TERN_EVENT_ENCODED, "encoded")                                                               \
    X(TERN_EVENT_STATISTICS, "statistics")                                                         \
    X(TERN_EVENT_SCALED, "scaled")                                                                 \
    X(TERN_EVENT_OTHER_COLUMNS, "other-columns")                                                   \
    X(TERN_EVENT_UPLOADED, "uploaded")                                                             \
    X(TERN_EVENT_EVALUATED, "evaluated")                                                           \
    X(TERN_EVENT_WAITING, "waiting")                                                               \
    X(TERN_EVENT_PAUSED, "paused")                                                                 \
    X(TERN_EVENT_RESUMED, "resumed")                                                               \
    X(TERN_EVENT_FAILURE, "failure")                                                               \
    X(TERN_EVENT_BUDGET, "budget")                                                                 \
    X(TERN_EVENT_FINISHED, "finished")

enum tern_client_event_kind {
#define TERN_CLIENT_EVENT_ENUM(symbol, name) symbol,
    TERN_CLIENT_EVENT_LIST(TERN_CLIENT_EVENT_ENUM)
#undef TERN_CLIENT_EVENT_ENUM
};

// Static string.
const char *tern_client_event_name(enum tern_client_event_kind kind);

// Fields that are not listed for a kind are zero.
//   enrolled      client_id
//   started-over  result, why: a record is damaged or belongs to another enrolment, and is not used
//   task          round, version (of the base), local_steps, bytes (of the downloads to fetch)
//   downloaded    round, version (now held), bytes (of the blob)
//   trained       round, version, loss, num_examples, local_steps
//   encoded       round, version, sequence, bytes (of the whole update)
//   statistics    num_examples, bytes (of the message): the aggregator accepted the columns' statistics
//   scaled        bytes (of the Scaling): the columns now have the federation's scaling
//   other-columns this client's columns have other names, or another order, than those of most clients
//   uploaded      round, sequence, bytes, result: TERN_OK applied, TERN_ERR_LATE given back, any
//                 other code: rejected for this reason and given back; duplicate: it had been
//                 accepted before; round_bytes: the round's bytes on the wire, both directions
//   evaluated     round (of a client that evaluates its base before training; else 0), version, loss, accuracy,
//                 num_examples; global: the model is the global model that a finished federation sends, not a replica
//   waiting       wait_ms, why
//   paused        why: a condition is not met; wait_ms until the next check; round of the current task; sequence of an
//                 unsent update. Emitted once a pause.
//   resumed       round, sequence as above; wait_ms: duration of the pause
//   failure       result, status (HTTP, 0 without an answer), wait_ms, why: the client tries again after wait_ms
//   budget        wait_ms, why, bytes (expected), budget_left
//   finished      version, final_model_hash
struct tern_client_event {
    enum tern_client_event_kind kind;
    enum tern_result result;
    uint64_t client_id;
    uint32_t round;
    uint32_t version;
    uint32_t sequence;
    uint32_t local_steps;
    uint32_t num_examples;
    uint64_t bytes;
    uint64_t round_bytes;
    uint64_t budget_left;
    float loss;
    float accuracy;
    // evaluated: the complete result; valid during the call
    const struct tern_evaluate_result *found;
    bool duplicate;
    bool global;
    int status;
    uint32_t wait_ms;
    const char *why;                 // a sentence; valid during the call
    const uint8_t *final_model_hash; // TERN_SHA256_SIZE bytes; valid during the call
};

// --- Configuration

struct tern_client_config {
    struct tern_ports ports; // tern_client_restore() sets the trainer

    const char *name;     // shown by `tern-aggregator clients`; at most 63 bytes; NULL = ""
    const char *platform; // e.g. "linux-arm64 tern-client/0.1.0"; at most 63 bytes; NULL = ""
    bool evaluator;       // enrol as an evaluator, which evaluates every version and never trains

    // A duration of 0 means the default of defaults.h, except in wait_ms.
    uint32_t wait_ms; // longest time that a check-in waits for a task; 0 = none
    // cancels a request after this time without progress; a check-in gets wait_ms and at least 30,000 more
    uint32_t timeout_ms;
    uint32_t retry_min_ms; // first wait after a failure; each further failure doubles it
    uint32_t retry_max_ms; // longest wait after a failure
    // A longer update resumes after a broken attempt, which needs a request for the number of received bytes;
    // 0 = 65,536 bytes: aggregators keep no shorter partial updates.
    uint32_t resume_upload_above;
    uint32_t max_local_steps; // limits the task's local steps; 0 = no limit

    // Bytes on the wire in both directions, including IP and TCP headers; 0 = no budget. The client does not start what
    // would exceed a budget, so that at most the current message exceeds it. At most TERN_WIRE_BUDGET_MAX, the limit of
    // a check-in.
    uint64_t budget_per_round;
    uint64_t budget_per_month; // calendar month, UTC; needs a clock with a date
    uint32_t budget_wait_ms;   // time until the next check of an exhausted budget

    uint32_t look_again_ms; // time until the next check of conditions that do not allow work

    void (*on_event)(void *ctx, const struct tern_client_event *event); // may be NULL
    void *ctx; // argument of on_event and builds_model

    // Whether this program builds the model `spec` with this hash (TERN_SHA256_SIZE bytes). Called during enrolment, before
    // the identity is saved; NULL = only tern_client_restore() compares.
    bool (*builds_model)(void *ctx, const char *spec, const uint8_t *hash);

    // This program accepts models with a manifest: after enrolment it calls tern_client_manifest().
    bool takes_manifests;
};

// The resources for training, available once the identity names the model. The caller owns all memory and keeps it until
// the last step.
struct tern_client_workspace {
    const struct tern_model *model; // must have the hash of the identity
    struct tern_trainer trainer;
    struct tern_column_port columns; // the trainer's data; may stay empty
    float *weights; // model->count values: the replica, including the client's own local values

    // tern_error_storage_bytes() of model->coded values, aligned like float. A record in another storage is converted.
    enum tern_error_storage error_storage;
    void *error_buffer;

    // model->count values for codecs with momentum, unused until such a codec is used. NULL: the client does not announce
    // such codecs, and refuses their tasks.
    float *velocity;

    // 2 * model->count values for tasks with variance reduction, unused until such a task. NULL: the client does not
    // announce such tasks, and refuses them.
    float *anchor;

    // Holds the model's local values (tern_model_local()) while `weights` has others; NULL when the model has none.
    float *local;

    uint8_t *blob; // one update or one download at a time
    // tern_client_blob_bound() suffices for everything. With less, the client does not announce codecs
    size_t blob_size;
    // that do not fit, and refuses larger downloads.
};

// The largest size in bytes of any update or download of `model`.
size_t tern_client_blob_bound(const struct tern_model *model);

// --- State

#define TERN_CLIENT_TOKEN_MAX 24
#define TERN_CLIENT_SPEC_MAX 64

struct tern_client_identity {
    uint64_t client_id;
    char token[TERN_CLIENT_TOKEN_MAX];
    char model_spec[TERN_CLIENT_SPEC_MAX];
    uint64_t model_seed;
    uint8_t model_hash[TERN_SHA256_SIZE];
    bool evaluator;
    // size of the model's manifest in bytes, as given at enrolment; 0: none, or unknown
    uint32_t manifest;
};

enum tern_client_phase {
    TERN_PHASE_NEW = 0, // no identity, or not restored yet
    TERN_PHASE_CHECKIN,
    TERN_PHASE_DOWNLOAD,
    TERN_PHASE_TRAIN,
    TERN_PHASE_ENCODE,
    TERN_PHASE_UPLOAD,
    TERN_PHASE_EVALUATE,
    TERN_PHASE_STATISTICS, // sending the columns' statistics, or fetching the scaling
    TERN_PHASE_FINISHED,   // the federation has completed its rounds
    TERN_PHASE_STOPPED     // tern_client_step() has returned an error
};

// Static string: "checkin", "download", ...
const char *tern_client_phase_name(enum tern_client_phase phase);

struct tern_client_budget {
    uint32_t month;       // year * 12 + month - 1, never decreases; 0 while the date is unknown
    uint64_t month_spent; // bytes on the wire in that month
    // month_spent in the store, which counts bytes before they are sent: >= month_spent
    uint64_t month_reserved;
    uint64_t round_mean;  // mean bytes on the wire of a round; 0 before the first
    uint64_t update_mean; // mean bytes of an encoded update; 0 before the first
    uint64_t rounds;      // updates since enrolment that the aggregator has answered
    uint64_t month_ms;    // time that has certainly passed since the month's account began
    uint64_t clock_ms;    // the monotonic clock when month_ms was last updated
};

// The longest request except updates.
#define TERN_CLIENT_REQUEST_MAX                                                                    \
    (tern_CheckinRequest_size > tern_EnrollRequest_size ? tern_CheckinRequest_size                 \
                                                        : tern_EnrollRequest_size)

struct tern_client_pending {
    uint32_t round;
    uint32_t sequence;
    uint32_t len;       // bytes of the whole update, in workspace.blob; 0 = none
    uint32_t sent;      // bytes of the request body
    uint32_t container; // bytes of the container in the body: the payload
};

// Owned by the caller; the fields belong to the core. Use the accessors. Small fields come first, so that microcontrollers
// reach them by short instructions.
struct tern_client {
    enum tern_client_phase phase;
    bool identified;   // `identity` is valid
    bool in_flight;    // an exchange is incomplete
    uint32_t version;  // of the replica
    uint32_t failures; // failed attempts in a row
    uint64_t due_ms;   // monotonic time of the next step

    // The replica and the download in progress.
    uint32_t download_index; // in task.downloads
    // bytes of the current download, in the blob or, with a partial port, in the store
    size_t download_received;
    size_t inline_offset;      // offset in the blob of the next download that came with the task
    bool replica_unsaved;      // downloads were applied that the replica's record lacks
    bool replica_half_updated; // the weights have a part of a download: reload the replica's record
    bool download_resumed;     // an earlier request brought a part of the download
    bool download_damaged;     // the stored part is damaged: fetch the whole download again
    bool download_refetched; // the stored part was damaged, and the whole download is fetched again
    bool final;          // the task is the download of the global model of a finished federation
    bool final_mismatch; // the received global model did not match final_hash
    size_t container_offset; // offset of the container in the partial download
    uint64_t unsaved_bytes;  // applied downloads that the replica's record lacks
    // bytes of the manifest in the caller's memory after a broken connection
    size_t manifest_received;

    // The error buffer and the pending update.
    uint32_t generation; // of the error buffer
    uint32_t sequence;   // of the newest update in this generation
    struct tern_client_pending pending;
    uint32_t failed_round; // the next check-in reports this round's failed training; 0 = none
    uint32_t unsent_round; // the error buffer has this round's change without an update; 0 = none
    float unsent_decay;    // fraction of the error buffer that the directive of unsent_round left
    tern_TrainingFailure failure; // reason of the failed training
    bool has_velocity;            // the record has this generation's velocity; else it is zero
    bool error_reported; // the aggregator has the norm and maximum of the current error buffer
    bool has_local;      // the weights and the upload record have the client's own local values
    // work.local has the client's own local values, and the weights have others
    bool local_is_stashed;
    // the aggregator may have more bytes of the update than upload_received
    bool upload_interrupted;
    size_t upload_received;       // bytes of the pending update that the aggregator reported
    const uint8_t *stored_update; // the pending update in the store; NULL: it is in the blob

    // Training.
    bool training;           // the trainer has begun and is not done
    bool has_evaluation;     // `evaluation` is valid
    bool base_evaluated;     // the evaluation of the task's base was attempted
    bool has_held_out;       // held_out is valid
    bool trained_at_anchor;  // the current task was trained at the anchor
    bool anchor_has_step;    // the record has the difference of the next version to the anchor
    uint32_t anchor_round;   // the anchor is this round's base; 0 = no anchor
    uint32_t anchor_version; // version of the anchor
    // fraction of the error buffer to add to the change; training started ahead by the rest
    float carried;
    uint32_t train_ms; // duration of the task's training
    float *trained;    // the trainer's memory: the sum t, later the residual error
    uint64_t train_started_ms;
    uint64_t task_received_ms; // when the aggregator's answer brought the task
    struct tern_span indices;  // the task's indices, in the blob until the update is encoded
    struct tern_train_result train_result;

    // Statistics of columns.
    uint32_t scaling;         // tag of the columns' scaling; 0 = none
    bool column_names_sent;   // the tag of the columns' names was sent since the start
    bool column_names_differ; // the aggregator's last answer: most clients have other names
    bool sends_statistics;    // the phase sends statistics; else it fetches the scaling

    // Conditions and budgets.
    bool paused;          // the conditions do not allow work
    bool meter_loaded;    // the store's record of the meter was loaded
    bool round_done;      // the next exchange opens the next round's account
    bool month_exhausted; // the month's budget has refused a request
    uint64_t paused_since_ms;
    uint64_t month_ms_saved; // value of budget.month_ms in the store
    struct tern_client_budget budget;
    struct tern_conditions conditions;
    enum tern_result stopped_by; // in TERN_PHASE_STOPPED
    struct tern_prng jitter;

    struct tern_client_config config;
    struct tern_client_workspace work;
    struct tern_request request;
    struct tern_response response;
    struct tern_client_identity identity;
    uint8_t replica[TERN_SHA256_SIZE];    // id of the replica
    uint8_t final_hash[TERN_SHA256_SIZE]; // SHA-256 of the global model's weights
    tern_Evaluation evaluation;           // an evaluator's, for the next check-in
    tern_Evaluation held_out;             // of the task's base, for the update
    tern_DownloadRef scaling_ref;         // the scaling to fetch
    tern_Task task;
    struct tern_meter meter_all;
    struct tern_bytes meter_other[TERN_DIRECTION_COUNT]; // purposes that only other builds have
    struct tern_meter meter_round;
    char path[TERN_PATH_MAX];
    uint8_t message[TERN_CLIENT_REQUEST_MAX]; // request body of enrolment and check-in
    uint8_t reply[TERN_WIRE_MESSAGE_MAX];     // reply body of everything but downloads
};

// --- Calls

// Prepares *client. Copies the config, and borrows its strings and contexts.
// TERN_ERR_ARGUMENT  a port or a string is missing or too long
TERN_MUST_USE enum tern_result tern_client_init(struct tern_client *client,
                                                const struct tern_client_config *config);

// Loads the identity from the store.
// TERN_ERR_NOT_FOUND  never enrolled
// TERN_ERR_CORRUPT    the identity record is damaged: enrol again
// TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_client_identify(struct tern_client *client);

// Enrols with a join code and saves the identity. It may replace an identity, whose other records are not used again.
// TERN_AGAIN              call again with the same code (a non-blocking transport)
// TERN_ERR_UNAUTHORIZED   the code is wrong, used up or expired
// TERN_ERR_MODEL_MISMATCH this program does not build the federation's model; nothing was saved
// TERN_ERR_NETWORK, TERN_ERR_TLS, TERN_ERR_BUSY, TERN_ERR_HTTP, TERN_ERR_CORRUPT (not a reply)
// TERN_ERR_IO, TERN_ERR_NO_SPACE  the identity could not be saved: the code may be used up
TERN_MUST_USE enum tern_result tern_client_enroll(struct tern_client *client,
                                                  const char *join_code);

// Saves an identity from `tern-aggregator provision`, for example one that a factory wrote into the device: enrols without
// a request. Copies *identity; checks and event are the same as in tern_client_enroll(). After an error an earlier identity
// stays.
// TERN_ERR_ARGUMENT       no client id, the token is not 22 characters of base64url, or no model
// TERN_ERR_MODEL_MISMATCH this program does not build that model
// TERN_ERR_STATE          an exchange is under way
// TERN_ERR_IO, TERN_ERR_NO_SPACE  the identity could not be saved
TERN_MUST_USE enum tern_result tern_client_provision(struct tern_client *client,
                                                     const struct tern_client_identity *identity);

// Reads the manifest of the identity's model into dst[0..size): from the store, or when the store has none of this model,
// from the aggregator (GET /v1/downloads/), and then saves it. TERN_MANIFEST_MAX bytes hold every manifest. The byte budgets
// apply, with a round's account for this request alone; the call loads the meter first if necessary, and saves it.
// TERN_AGAIN              call again with the same arguments (a non-blocking transport)
// TERN_ERR_STATE          no identity yet
// TERN_ERR_MODEL_MISMATCH the aggregator has no manifest of this model
// TERN_ERR_CORRUPT        the answer belongs to another model
// TERN_ERR_TOO_LARGE      more than `size` bytes, or clearly more than the enrolment announced
// TERN_ERR_BUDGET         it does not fit into a byte budget (TERN_EVENT_BUDGET names it)
// TERN_ERR_NETWORK        the next call with the same arguments and an unchanged dst continues after the received bytes
// TERN_ERR_TLS, TERN_ERR_BUSY, TERN_ERR_HTTP, TERN_ERR_UNAUTHORIZED
// TERN_ERR_IO, TERN_ERR_NO_SPACE  the manifest or the meter could not be saved
TERN_MUST_USE enum tern_result tern_client_manifest(struct tern_client *client, uint8_t *dst,
                                                    size_t size, size_t *len);

// Reads the manifest from the store alone.
// TERN_ERR_NOT_FOUND  the store has no manifest of this model
TERN_MUST_USE enum tern_result tern_client_stored_manifest(struct tern_client *client, uint8_t *dst,
                                                           size_t size, size_t *len);

// Reads this client's Scaling message from the store, for programs that run the model on its data.
// TERN_ERR_NOT_FOUND  there is none for this enrolment
// TERN_ERR_NO_SPACE   it has *len bytes, more than `size`
// TERN_ERR_CORRUPT, TERN_ERR_STATE (no identity), TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_client_stored_scaling(const struct tern_client *client,
                                                          uint8_t *dst, size_t size, size_t *len);

// Sets the model, trainer and memory, and loads replica, error buffer, pending update and meter. A damaged replica starts
// from the seed again, a damaged upload record starts a new generation of the error buffer from zero, and both emit
// TERN_EVENT_STARTED_OVER. May be called again after an error.
// TERN_ERR_STATE           no identity yet
// TERN_ERR_MODEL_MISMATCH  the model is not the one the client enrolled for
// TERN_ERR_ARGUMENT        the error storage is not built in
// TERN_ERR_NO_SPACE        the pending update does not fit into the blob
// TERN_ERR_IO              the store cannot be read
TERN_MUST_USE enum tern_result tern_client_restore(struct tern_client *client,
                                                   const struct tern_client_workspace *workspace);

// Does the next piece of work: one request, one local step, one save, one evaluation.
// TERN_OK     a piece of work is complete: call again
// TERN_AGAIN  nothing to do before tern_client_next_ms(); also when finished
// Network errors, invalid answers and diverging training are events, and the client tries again later. A returned error
// stops the client until tern_client_restore():
// TERN_ERR_UNAUTHORIZED             the token is unknown or revoked; a pending update is kept
// TERN_ERR_IO, TERN_ERR_NO_SPACE    a record could not be saved; nothing was sent after it
// TERN_ERR_MODEL_MISMATCH           the trainer is for another model
// TERN_ERR_NOT_FOUND                an evaluator without evaluation data
// TERN_ERR_STATE                    not restored
TERN_MUST_USE enum tern_result tern_client_step(struct tern_client *client);

// Milliseconds until tern_client_step() has something to do; 0 = now.
uint32_t tern_client_next_ms(const struct tern_client *client);

// Saves the meter now; the client itself saves it once a round. Call it before a planned end.
TERN_MUST_USE enum tern_result tern_client_save_meter(struct tern_client *client);

// Closes the connection, counts its last bytes, and saves the meter: a planned end.
TERN_MUST_USE enum tern_result tern_client_end(struct tern_client *client);

// Loads the meter and budget counters without a workspace, for programs that show them.
// TERN_ERR_NOT_FOUND (nothing was counted yet), TERN_ERR_CORRUPT, TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_client_load_meter(struct tern_client *client);

enum tern_client_phase tern_client_phase(const struct tern_client *client);

// NULL before tern_client_identify() or tern_client_enroll() has succeeded.
const struct tern_client_identity *tern_client_identity(const struct tern_client *client);

// Bytes of the current or last round, and since enrolment.
const struct tern_meter *tern_client_meter_round(const struct tern_client *client);
const struct tern_meter *tern_client_meter_all(const struct tern_client *client);

// Up and down, since enrolment: bytes of purposes that only another build of this client has. Zero unless an older version
// replaced a newer one.
const struct tern_bytes *tern_client_meter_other(const struct tern_client *client);
const struct tern_client_budget *tern_client_budget(const struct tern_client *client);

// The replica: id of TERN_SHA256_SIZE bytes, version, and its weights (workspace memory).
const uint8_t *tern_client_replica(const struct tern_client *client);
uint32_t tern_client_version(const struct tern_client *client);
const float *tern_client_weights(const struct tern_client *client);
// Whether the weights include local values that this client has trained.
bool tern_client_is_personal(const struct tern_client *client);

// The encoded update without an answer; len 0 = none.
const struct tern_client_pending *tern_client_pending(const struct tern_client *client);

#ifdef __cplusplus
}
#endif

#endif
