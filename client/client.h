// The Tern client as an embeddable library: it checks in, downloads, trains, encodes, uploads and
// waits, one bounded piece of work per tern_client_step(). It blocks nowhere but in a port, takes
// no memory (the caller owns all of it) and knows neither curl nor files: see ports.h. One client
// belongs to one thread; clients share nothing, so a program may run any number of them.
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
//       else if (result != TERN_OK) break;   // said by name; restore, or enrol again
//   }
//
// Conservation: every change that was encoded is applied by the aggregator exactly once, or is in
// the pending update, or in the error buffer. State is saved before its effect; after a power cut
// tern_client_restore() continues from the last record saved.
#ifndef TERN_CLIENT_H
#define TERN_CLIENT_H

#include "error_feedback/error_buffer.h"
#include "ports.h"
#include "util/prng.h"
#include "wire/wire.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- What the caller is told

#if TERN_STATISTICS
#define TERN_CLIENT_STATISTICS_EVENTS(X)                                                           \
    X(TERN_EVENT_STATISTICS, "statistics")                                                         \
    X(TERN_EVENT_SCALED, "scaled")                                                                 \
    X(TERN_EVENT_OTHER_COLUMNS, "other-columns")
#else
#define TERN_CLIENT_STATISTICS_EVENTS(X)
#endif

// X(symbol, name in logs)
#define TERN_CLIENT_EVENT_LIST(X)                                                                  \
    X(TERN_EVENT_ENROLLED, "enrolled")                                                             \
    X(TERN_EVENT_STARTED_OVER, "started-over")                                                     \
    X(TERN_EVENT_TASK, "task")                                                                     \
    X(TERN_EVENT_DOWNLOADED, "downloaded")                                                         \
    X(TERN_EVENT_TRAINED, "trained")                                                               \
    X(TERN_EVENT_ENCODED, "encoded")                                                               \
    TERN_CLIENT_STATISTICS_EVENTS(X)                                                               \
    X(TERN_EVENT_UPLOADED, "uploaded")                                                             \
    X(TERN_EVENT_EVALUATED, "evaluated")                                                           \
    X(TERN_EVENT_WAITING, "waiting")                                                               \
    X(TERN_EVENT_PAUSED, "paused")                                                                 \
    X(TERN_EVENT_RESUMED, "resumed")                                                               \
    X(TERN_EVENT_TROUBLE, "trouble")                                                               \
    X(TERN_EVENT_BUDGET, "budget")                                                                 \
    X(TERN_EVENT_FINISHED, "finished")

enum tern_client_event_kind {
#define TERN_CLIENT_EVENT_ENUM(symbol, name) symbol,
    TERN_CLIENT_EVENT_LIST(TERN_CLIENT_EVENT_ENUM)
#undef TERN_CLIENT_EVENT_ENUM
};

// Static string.
const char *tern_client_event_name(enum tern_client_event_kind kind);

// Fields that a kind does not name below are zero.
//   enrolled      client_id
//   started-over  result, why: a record was damaged or of another enrolment and is not used
//   task          round, version (of the base), local_steps, bytes (of the downloads to fetch)
//   downloaded    round, version (now held), bytes (of the blob)
//   trained       round, version, loss, num_examples, local_steps
//   encoded       round, version, sequence, bytes (of the whole update)
//   statistics    num_examples, bytes (of the message): those of the columns were taken
//   scaled        bytes (of the Scaling): the columns have the federation's scaling from now on
//   other-columns this client's columns have other names, or another order, than those of most clients
//   uploaded      round, sequence, bytes, result: TERN_OK applied, TERN_ERR_LATE given back, any
//                 other code: rejected for this reason and given back; duplicate: it had been
//                 accepted before; round_bytes: what the round cost on the wire, both directions
//   evaluated     round (of a client that trains, before it does; else 0), version, loss, accuracy, num_examples; global: of the global model itself, which came
//                 with the end, and not of the replica that this client holds by compressed downloads
//   waiting       wait_ms, why
//   paused        why: a condition is not met; wait_ms until it is looked at again; round, when one
//                 is in hand; sequence, when its update is saved and waits. Said once a pause.
//   resumed       round, sequence as above; wait_ms: how long the pause was
//   trouble       result, status (HTTP, 0 when none arrived), wait_ms, why: tried again after it
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
#if TERN_HELD_OUT
    const struct tern_evaluate_result *found; // of evaluated: all of it; valid during the call
#endif
    bool duplicate;
    bool global;
    int status;
    uint32_t wait_ms;
    const char *why;                 // a sentence; valid during the call
    const uint8_t *final_model_hash; // TERN_SHA256_SIZE bytes; valid during the call
};

// --- Configuration

struct tern_client_config {
    struct tern_ports ports; // the trainer may stay empty: tern_client_restore() takes it

    const char *name;     // shown by `tern-aggregator clients`; at most 63 bytes; NULL = ""
    const char *platform; // e.g. "linux-arm64 tern-client/0.1.0"; at most 63 bytes; NULL = ""
    bool evaluator;       // enrol as one that evaluates every version and never trains

    uint32_t wait_ms; // let a check-in be held this long for a task; 0 = not at all
    uint32_t
        timeout_ms; // of one request without progress; 0 = as in defaults.h. A check-in that may be
                    // held has wait_ms more, and at least 30,000 beyond it.
    uint32_t retry_min_ms; // first wait after a failure, doubled by each more; 0 likewise
    uint32_t retry_max_ms; // longest wait after a failure; 0 likewise
#if TERN_PARTIALS
    // A longer update goes on where an attempt to send it broke off, which takes a request that asks
    // how much arrived; 0 = 65,536 bytes, less than which aggregators do not keep.
    uint32_t resume_upload_above;
#endif
    uint32_t max_local_steps; // does at most so many, whatever the task asks; 0 = no limit

    // Bytes on the wire, both directions, IP and TCP headers included; 0 = no budget. What would
    // exceed one is not started, so that at most the message in flight goes over it. At most
    // TERN_WIRE_BUDGET_MAX, above which check-ins cannot be encoded.
    uint64_t budget_per_round;
    uint64_t budget_per_month; // calendar month, UTC; needs a clock that knows the date
    uint32_t budget_wait_ms;   // looks again after this; 0 as in defaults.h

    uint32_t look_again_ms; // while the conditions do not allow work; 0 likewise

    void (*on_event)(void *ctx, const struct tern_client_event *event); // NULL = nobody listens
    void *ctx; // of on_event and builds_model

    // Whether this program builds the model `spec` with this hash (TERN_SHA256_SIZE bytes). Asked
    // while enrolling, before the identity is saved; NULL = only tern_client_restore() compares.
    bool (*builds_model)(void *ctx, const char *spec, const uint8_t *hash);

    // This program also takes models that come with a manifest: once it is enrolled it calls
    // tern_client_manifest().
    bool takes_manifests;
};

// What training needs, known once the identity names the model. All memory is the caller's and is
// used until the client is no longer stepped.
struct tern_client_workspace {
    const struct tern_model *model; // its hash must be the identity's
    struct tern_trainer trainer;
#if TERN_STATISTICS
    struct tern_column_port columns; // of the trainer's data; may stay empty
#endif
    float *weights; // model->count values: the replica, and in it the client's own local values

    // tern_error_storage_bytes() of model->coded values, aligned as float. A record saved in
    // another storage is converted.
    enum tern_error_storage error_storage;
    void *error_buffer;

    float *velocity; // model->count values, for codecs with momentum; not touched before one is
                     // used. NULL: such codecs are not announced, and a task with one is refused.

#if TERN_VARIANCE_REDUCTION
    float *
        anchor; // 2 * model->count values, for tasks with variance reduction; not touched before one comes.
                // NULL: such tasks are not announced, and refused.
#endif

#if TERN_MANIFESTS
    float *
        local; // room for the model's local values (tern_model_local()), while others stand in `weights`;
               // NULL where it has none
#endif

    uint8_t *blob;    // one update or one download at a time
    size_t blob_size; // tern_client_blob_bound() holds everything. With less, codecs that do not
                      // fit are not announced and larger downloads are refused.
};

// The most bytes of any update or download of `model`.
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
    uint32_t manifest; // bytes that the model's manifest was said to have when it was enrolled, 0:
                       // the spec gives the model, or nobody said
};

enum tern_client_phase {
    TERN_PHASE_NEW = 0, // no identity, or not restored yet
    TERN_PHASE_CHECKIN,
    TERN_PHASE_DOWNLOAD,
    TERN_PHASE_TRAIN,
    TERN_PHASE_ENCODE,
    TERN_PHASE_UPLOAD,
    TERN_PHASE_EVALUATE,
#if TERN_STATISTICS
    TERN_PHASE_STATISTICS, // telling those of the columns, or fetching the scaling
#endif
    TERN_PHASE_FINISHED, // the federation has done its rounds
    TERN_PHASE_STOPPED   // after an error that tern_client_step() returned
};

// Static string: "checkin", "download", ...
const char *tern_client_phase_name(enum tern_client_phase phase);

struct tern_client_budget {
    uint32_t month; // year * 12 + month - 1, never goes back; 0 while the date was never known
    uint64_t month_spent;   // bytes on the wire in it
    uint64_t month_counted; // saved as spent before the bytes are sent: >= month_spent
    uint64_t round_mean;    // of the rounds done, bytes on the wire; 0 before the first
    uint64_t update_mean;   // of the updates encoded, bytes; 0 before the first
    uint64_t rounds;        // updates answered, ever
    uint64_t month_ms;      // that have passed for certain since the month began to be counted
    uint64_t clock_ms;      // what the monotonic clock said when that was looked at last
};

// The longest request but updates.
#define TERN_CLIENT_REQUEST_MAX                                                                    \
    (tern_CheckinRequest_size > tern_EnrollRequest_size ? tern_CheckinRequest_size                 \
                                                        : tern_EnrollRequest_size)

struct tern_client_pending {
    uint32_t round;
    uint32_t sequence;
    uint32_t len;  // bytes of the whole update, in workspace.blob; 0 = none
    uint32_t sent; // bytes of it as it goes out, and of its container there: the payload
    uint32_t container;
};

// Caller-owned; the fields are the core's. Use the accessors.
struct tern_client {
    struct tern_client_config config;
    struct tern_client_workspace work;
    struct tern_client_identity identity;
    bool identified;
    enum tern_client_phase phase;
    enum tern_result stopped_by;

    // The replica held.
    uint8_t replica[TERN_SHA256_SIZE];
    uint32_t version;
    bool replica_unsaved;

    // The error buffer's name and the update in flight.
    uint32_t generation;
    uint32_t sequence;
    bool has_velocity;     // the velocity is of this generation, and in its record; else it is zero
    bool error_told;       // the aggregator was, of the error buffer as it is
    uint32_t failed_round; // whose training failed, for the next check-in to report; 0 = none
    tern_TrainingFailure failure; // why
    uint32_t kept_round; // its change is in the error buffer without an update; 0 = of no round
    float kept_decay;    // what that round's directive left of the error buffer
    struct tern_client_pending pending;
#if TERN_PARTIALS
    const uint8_t *stored_update; // the pending update where the store shows it; NULL: in the blob
#endif
#if TERN_MANIFESTS
    bool has_local;   // local values of its own stand in the weights, and in the upload record
    bool local_aside; // but are in work.local now
#endif

    // The task in hand.
    tern_Task task;
    uint64_t task_taken_ms;
    uint32_t download_index;
    size_t download_have;     // bytes of the current download already in the blob
    size_t inline_at;         // where it begins there: behind others, if it came with the task
    struct tern_span indices; // of the task, in the blob until the update is encoded
#if TERN_PARTIALS
    bool download_resumed;  // part of it came before the last request for it
    bool download_damaged;  // what was kept of it is, and nobody was told yet
    bool download_anew;     // what was kept of it was damaged, and all of it is fetched again
    size_t container_at;    // where its container begins in the partial download
    bool replica_torn;      // a download was added in part; only the replica's record is whole
    uint64_t unsaved_bytes; // of downloads that were applied, and are not in the replica's record
    bool upload_cut;        // the aggregator may have more of the update than upload_have
    size_t upload_have;     // bytes of the pending update that it was found to have
#endif
#if TERN_VARIANCE_REDUCTION
    uint32_t anchor_round;   // whose base it is; 0 = none is held
    uint32_t anchor_version; // of that
    bool anchor_has_step;    // the record has how far the next version is from it
    bool at_anchor_done;     // the task in hand was trained at it
#endif
    bool training;
    float carried; // share of the error buffer in the sum: training started ahead by the rest
    uint64_t train_started_ms;
    uint32_t train_ms;
    float *trained; // the trainer's memory: the sum t, then what the update does not carry
    struct tern_train_result train_result;
    bool has_evaluation;
    tern_Evaluation evaluation;
#if TERN_HELD_OUT
    bool asked;        // the task's base was evaluated, as far as it could be
    bool has_held_out; // what that came to is known
    tern_Evaluation held_out;
#endif

#if TERN_STATISTICS
    uint32_t scaling;             // tag of the columns' scaling; 0 = they are as they were read
    bool names_told;              // the tag of the columns' names, since the client was started
    bool names_differ;            // from those of most clients, as the aggregator answered last
    bool tells;                   // the phase is to tell statistics, not to fetch the scaling
    tern_DownloadRef scaling_ref; // to be fetched
#endif
#if TERN_FINAL_MODEL
    bool final;                           // the task in hand is the last download
    bool final_refused;                   // it was another than was named
    uint8_t final_hash[TERN_SHA256_SIZE]; // of the global model's weights
#endif
#if TERN_MANIFESTS
    bool meter_loaded;    // what the store has is counted on from
    size_t manifest_have; // bytes of the manifest that a cut connection left in the caller's memory
#endif

    // The request in flight.
    bool in_flight;
    struct tern_request request;
    struct tern_response response;
    char path[TERN_PATH_MAX];
    uint8_t message[TERN_CLIENT_REQUEST_MAX]; // request body of enrolment and check-in
    uint8_t reply[TERN_WIRE_MESSAGE_MAX];     // reply body of everything but downloads

    // What the conditions are, and whether they make the client wait.
    struct tern_conditions conditions;
    bool paused;
    uint64_t paused_since_ms;

    // When to go on.
    uint64_t due_ms; // monotonic
    uint32_t failures;
    struct tern_prng jitter;

    // What it cost.
    struct tern_meter meter_all;
    struct tern_bytes meter_other[TERN_DIRECTION_COUNT]; // by builds with more purposes than this
    struct tern_meter meter_round;
    bool round_done;         // the next exchange starts a new round's account
    bool month_closed;       // something did not fit into the month's budget any more
    uint64_t month_ms_saved; // of budget.month_ms, in the store
    struct tern_client_budget budget;
};

// --- Calls

// Prepares *client. The config is copied; the strings and contexts in it are borrowed.
// TERN_ERR_ARGUMENT  a port or a string is missing or too long
TERN_MUST_USE enum tern_result tern_client_init(struct tern_client *client,
                                                const struct tern_client_config *config);

// Loads who the client is from the store.
// TERN_ERR_NOT_FOUND  never enrolled
// TERN_ERR_CORRUPT    the identity record is damaged: enrol again
// TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_client_identify(struct tern_client *client);

// Enrols with a join code and saves the identity. Also replaces an identity: what other records
// hold belongs to the former one and is not used again.
// TERN_AGAIN              call again with the same code (a transport that does not block)
// TERN_ERR_UNAUTHORIZED   the code is wrong, used up or expired
// TERN_ERR_MODEL_MISMATCH this program does not build the federation's model; nothing was saved
// TERN_ERR_NETWORK, TERN_ERR_TLS, TERN_ERR_BUSY, TERN_ERR_HTTP, TERN_ERR_CORRUPT (not a reply)
// TERN_ERR_IO, TERN_ERR_NO_SPACE  the identity could not be saved: the code may be used up
TERN_MUST_USE enum tern_result tern_client_enroll(struct tern_client *client,
                                                  const char *join_code);

// Saves an identity that `tern-aggregator provision` made, say one that a factory wrote into the
// device: enrolling without a request. *identity is copied; the same checks and the same event as
// after tern_client_enroll(). On an error the former identity, if any, stays.
// TERN_ERR_ARGUMENT       no client id, the token is not 22 characters of base64url, or no model
// TERN_ERR_MODEL_MISMATCH this program does not build that model
// TERN_ERR_STATE          an exchange is under way
// TERN_ERR_IO, TERN_ERR_NO_SPACE  the identity could not be saved
TERN_MUST_USE enum tern_result tern_client_provision(struct tern_client *client,
                                                     const struct tern_client_identity *identity);

#if TERN_MANIFESTS
// Gets the manifest of the model that the identity names into dst[0..size): from the store, or when
// it is not there, or not of this model, from the aggregator (GET /v1/downloads/), which is then
// saved. TERN_MANIFEST_MAX bytes hold every one. It is within the byte budgets, as an account of
// its own in that of a round; the meter is loaded before, unless that was done, and saved after.
// TERN_AGAIN              call again with the same arguments (a transport that does not block)
// TERN_ERR_STATE          no identity yet
// TERN_ERR_MODEL_MISMATCH the aggregator has no manifest of this model
// TERN_ERR_CORRUPT        what it sent is not of this model; TERN_ERR_TOO_LARGE  more than `size`,
//                         or clearly more than it was said to have
// TERN_ERR_BUDGET         it does not fit into a byte budget (TERN_EVENT_BUDGET says which)
// TERN_ERR_NETWORK        with the same arguments and dst as it is, the next call goes on from what
//                         has come
// TERN_ERR_TLS, TERN_ERR_BUSY, TERN_ERR_HTTP, TERN_ERR_UNAUTHORIZED
// TERN_ERR_IO, TERN_ERR_NO_SPACE  it, or the meter, could not be saved
TERN_MUST_USE enum tern_result tern_client_manifest(struct tern_client *client, uint8_t *dst,
                                                    size_t size, size_t *len);

// The same from the store alone.
// TERN_ERR_NOT_FOUND  it is not there, or not of this model
TERN_MUST_USE enum tern_result tern_client_stored_manifest(struct tern_client *client, uint8_t *dst,
                                                           size_t size, size_t *len);
#endif

#if TERN_STATISTICS
// The Scaling message that this client was given, from the store: for programs that show its data to the
// model.
// TERN_ERR_NOT_FOUND  there is none, or of a former enrolment
// TERN_ERR_NO_SPACE   it has more than `size` bytes: *len
// TERN_ERR_CORRUPT, TERN_ERR_STATE (no identity), TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_client_stored_scaling(const struct tern_client *client,
                                                          uint8_t *dst, size_t size, size_t *len);
#endif

// Takes the model, trainer and memory, and loads replica, error buffer, pending update and meter.
// A damaged replica starts from the seed again; a damaged upload record starts a new generation of
// the error buffer from zero (TERN_EVENT_STARTED_OVER says so). May be called again after an error.
// TERN_ERR_STATE           no identity yet
// TERN_ERR_MODEL_MISMATCH  the model is not the one the client enrolled for
// TERN_ERR_ARGUMENT        the error storage is not built in
// TERN_ERR_NO_SPACE        the pending update does not fit into the blob
// TERN_ERR_IO              the store cannot be read
TERN_MUST_USE enum tern_result tern_client_restore(struct tern_client *client,
                                                   const struct tern_client_workspace *workspace);

// Does the next piece of work: one request, one local step, one save, one evaluation.
// TERN_OK     something was done: call again
// TERN_AGAIN  nothing to do before tern_client_next_ms(); also when finished
// Failures of the network, answers that make no sense and training that diverges are events, tried
// again later, and never returned. What is returned stops the client until tern_client_restore():
// TERN_ERR_UNAUTHORIZED             the token is unknown or revoked; a pending update is kept
// TERN_ERR_IO, TERN_ERR_NO_SPACE    a record could not be saved; nothing was sent after it
// TERN_ERR_MODEL_MISMATCH           the trainer is for another model
// TERN_ERR_NOT_FOUND                an evaluator without evaluation data
// TERN_ERR_STATE                    not restored
TERN_MUST_USE enum tern_result tern_client_step(struct tern_client *client);

// Milliseconds until tern_client_step() has something to do; 0 = now.
uint32_t tern_client_next_ms(const struct tern_client *client);

// Saves the meter now (it is otherwise saved once a round). Call before a planned end.
TERN_MUST_USE enum tern_result tern_client_save_meter(struct tern_client *client);

// Closes the connection, counts what closing it costs, and saves the meter: a planned end.
TERN_MUST_USE enum tern_result tern_client_end(struct tern_client *client);

// Loads the meter and budget counters without a workspace, for programs that only show them.
// TERN_ERR_NOT_FOUND (nothing was counted yet), TERN_ERR_CORRUPT, TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_client_load_meter(struct tern_client *client);

enum tern_client_phase tern_client_phase(const struct tern_client *client);

// NULL before tern_client_identify() or tern_client_enroll() worked.
const struct tern_client_identity *tern_client_identity(const struct tern_client *client);

// Bytes of the round in hand or just done, and of all time.
const struct tern_meter *tern_client_meter_round(const struct tern_client *client);
const struct tern_meter *tern_client_meter_all(const struct tern_client *client);

// Up and down, of all time: what another build of this client counted for purposes that this one
// does not have. Zero, but after a step back to an older version.
const struct tern_bytes *tern_client_meter_other(const struct tern_client *client);
const struct tern_client_budget *tern_client_budget(const struct tern_client *client);

// The replica: id of TERN_SHA256_SIZE bytes, version, and its weights (workspace memory).
const uint8_t *tern_client_replica(const struct tern_client *client);
uint32_t tern_client_version(const struct tern_client *client);
const float *tern_client_weights(const struct tern_client *client);
// Whether these have local values of the client's own: it has trained some.
bool tern_client_is_personal(const struct tern_client *client);

// The update that was encoded and not answered yet; len 0 = none.
const struct tern_client_pending *tern_client_pending(const struct tern_client *client);

#ifdef __cplusplus
}
#endif

#endif
