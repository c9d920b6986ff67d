// The client of a federation as an embeddable library. tern-client, gateways, tern-fleet and firmware use it. Each call of
// tern_client_step() does one bounded piece of work: a check-in, a download, a local step, an encoding, an upload, or nothing
// until the next one is due. The library blocks only inside a port, allocates no memory (the caller provides it), and reaches
// network, storage, trainer and clock through ports.h. A client belongs to one thread, except for tern_client_cancel(); clients share no state, so a program
// may run any number of them.
//
//   tern_client_init(&client, &config);
//   if (tern_client_identify(&client) == TERN_ERR_NOT_FOUND) {
//       tern_client_enroll(&client, join_code);
//   }
//   // the identity now names the model: build it, and allocate its memory
//   tern_client_restore(&client, &workspace);
//   for (;;) {
//       result = tern_client_step(&client);
//       if (result == TERN_AGAIN) sleep(tern_client_next_ms(&client));
//       else if (result != TERN_OK) break;   // report tern_result_name(result); then restore, or enrol again
//   }
//
// No local change is lost or applied twice: the aggregator applies each encoded update exactly once, or the update is still
// pending, or its values are in the error buffer. The client saves its state before it acts on it. After a power cut,
// tern_client_restore() continues from the last saved records.
#ifndef TERN_CLIENT_H
#define TERN_CLIENT_H

#include "error_feedback/error_buffer.h"
#include "ports.h"
#include "secure/masked.h"
#include "util/prng.h"
#include "wire/wire.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- Events

#define TERN_CLIENT_PROGRESS_MS 250 // shortest time between two progress events of a request

// All events: X(symbol, name in logs).
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
    X(TERN_EVENT_TICKET, "ticket")                                                                 \
    X(TERN_EVENT_SETTLED, "settled")                                                               \
    X(TERN_EVENT_UPLOADED, "uploaded")                                                             \
    X(TERN_EVENT_EVALUATED, "evaluated")                                                           \
    X(TERN_EVENT_WAITING, "waiting")                                                               \
    X(TERN_EVENT_PAUSED, "paused")                                                                 \
    X(TERN_EVENT_RESUMED, "resumed")                                                               \
    X(TERN_EVENT_FAILURE, "failure")                                                               \
    X(TERN_EVENT_BUDGET, "budget")                                                                 \
    X(TERN_EVENT_FINISHED, "finished")                                                             \
    X(TERN_EVENT_PROGRESS, "progress")

enum tern_client_event_kind {
#define TERN_CLIENT_EVENT_ENUM(symbol, name) symbol,
    TERN_CLIENT_EVENT_LIST(TERN_CLIENT_EVENT_ENUM)
#undef TERN_CLIENT_EVENT_ENUM
};

// Returns the event's name in logs, e.g. "uploaded": a static string.
const char *tern_client_event_name(enum tern_client_event_kind kind);

// An event. Pointers are valid during the call of on_event. The fields that a kind sets; all others are zero:
//   enrolled      client_id
//   started-over  result and why: a record is damaged, or belongs to another enrolment, and is ignored
//   task          round, version (of the base model), local_steps, bytes (of the downloads to fetch)
//   downloaded    round, version (of the replica, with this download applied), bytes (of the download)
//   trained       round, version, loss, num_examples, local_steps
//   encoded       round, version, sequence, bytes (of the update)
//   statistics    num_examples, bytes (of the message): the aggregator accepted the statistics of the columns
//   scaled        bytes (of the Scaling message): the columns now have the federation's scaling
//   other-columns this client's columns have other names, or another order, than those of most clients
//   ticket        epoch: the client has sealed a secret for the helper, and sends it with the next check-in
//   settled       round, sequence, counted: the model has this masked update; else its values are in the error buffer again
//   uploaded      round, sequence, bytes, and the answer. result: TERN_OK the update was applied; TERN_ERR_LATE it came too
//                 late; another error: it was rejected. Unless it was applied, its values are added to the error buffer
//                 again. duplicate: the aggregator had already accepted it. round_bytes: bytes on the wire of the round, in
//                 both directions
//   evaluated     version, loss, accuracy, num_examples, evaluation; round: of a training client that evaluates the base of
//                 its task, else 0; global: the model is the global model that a finished federation sends, not a replica
//   waiting       wait_ms, why
//   paused        why: the condition that does not allow work; wait_ms: time until the next check; round of the current
//                 task; sequence of the pending update. Emitted once, when the pause begins.
//   resumed       round and sequence as for `paused`; wait_ms: duration of the pause
//   failure       result, status (of HTTP; 0: no answer), why, wait_ms: the client tries again after this time
//   budget        wait_ms, why, bytes (that would be sent and received), budget_left (bytes)
//   finished      version, final_model_hash (NULL: unknown)
//   progress      direction, bytes (of a request's or response's body that have moved, with those of earlier attempts),
//                 bytes_total (0: unknown), round: emitted during a request, at most every TERN_CLIENT_PROGRESS_MS
struct tern_client_event {
    enum tern_client_event_kind kind;
    enum tern_result result;
    uint64_t client_id;
    uint32_t round;
    uint32_t version;
    uint32_t sequence;
    uint32_t epoch;
    uint32_t local_steps;
    uint32_t num_examples;
    uint64_t bytes;
    uint64_t bytes_total;
    uint64_t round_bytes;
    uint64_t budget_left;
    float loss;
    float accuracy;
    const struct tern_evaluate_result *evaluation; // the complete result, with all metrics
    enum tern_direction direction;
    bool duplicate;
    bool counted;
    bool global;
    int status;
    uint32_t wait_ms;
    const char *why;                 // a clause in English; NULL: none
    const uint8_t *final_model_hash; // TERN_SHA256_SIZE bytes
};

// --- Configuration

// The configuration. tern_client_init() copies the struct; strings and contexts must outlive the client.
struct tern_client_config {
    struct tern_ports ports; // all but the trainer, which tern_client_restore() sets

    const char *name;     // name that `tern-aggregator clients` shows; at most 63 bytes; NULL: ""
    const char *platform; // e.g. "linux-arm64 tern-client/0.1.0"; at most 63 bytes; NULL: ""
    bool evaluator;       // enrol as an evaluator, which evaluates every version and never trains
    // The program ends after one round, or rests after tern_client_end() and continues later. The answer to an update or an
    // evaluation brings no task, which nobody would do before the program runs again. tern_client_step() repeats what fails
    // after the usual waits, for leaves_patience_s. It returns the result of a failure whose wait would end later than that
    // after the first failure in a row, and of TERN_ERR_TLS; tern_client_next_ms() then is the time after which the program
    // should run again. Small builds ignore it.
    bool leaves;
    // A gateway, which passes a reset of the error buffer on to its devices: it gets the order with an empty buffer, too.
    bool passes_resets;
    uint8_t leaves_patience_s; // with `leaves`: how many seconds failures are repeated; 0: 10

    // Durations in milliseconds. Except for wait_ms, 0 means the default in defaults.h.

    // longest time that the aggregator may delay the answer of a check-in; 0: it answers at once
    uint32_t wait_ms;
    // a request without progress fails after this time; a check-in after wait_ms and at least 30 s more
    uint32_t timeout_ms;
    uint32_t retry_min_ms; // wait after the first failure; each further failure in a row doubles it
    uint32_t retry_max_ms; // longest wait after a failure
    uint32_t budget_wait_ms; // time until the client checks an exhausted budget again
    uint32_t look_again_ms;  // time until the client checks conditions again that do not allow work

    // After a broken connection, the client continues an update of more bytes than this where it stopped. That needs one more
    // request, for the number of received bytes. 0: 65,536, since aggregators keep no shorter partial updates.
    uint32_t resume_upload_above;
    uint32_t max_local_steps; // upper limit for the local steps of a task; 0: no limit

    // Budgets in bytes on the wire, both directions, with IP and TCP headers; at most TERN_WIRE_BUDGET_MAX; 0: no budget. The
    // client starts no request that would exceed a budget, so at most one message exceeds it.
    uint64_t budget_per_round;
    uint64_t budget_per_month; // per calendar month in UTC; needs a clock that knows the date

    // Secure rounds. With helper_key, nothing about this client's data leaves it but masked updates: tasks without a mask,
    // statistics of columns and evaluations are refused.
    // Verifies the helper's keys: TERN_P256_PUBLIC_SIZE bytes, which must outlive the client. NULL: no secure rounds.
    const uint8_t *helper_key;
    const char *helper_code; // join code of the helper, 1 to TERN_SECURE_CODE_MAX bytes
    // Fewest updates of which the helper may reveal the sum; 0: TERN_SECURE_MIN_CLIENTS.
    uint32_t secure_min_clients;
    // Least noise multiplier of the sum in thousandths; 0: sums without noise are accepted, too.
    uint32_t secure_min_noise;

    // Called for each event, in the thread that calls the client; may be NULL.
    void (*on_event)(void *ctx, const struct tern_client_event *event);
    void *ctx; // first argument of on_event and builds_model

    // Returns whether this program can build the model `spec` with this hash (TERN_SHA256_SIZE bytes). Called during
    // enrolment, before the identity is saved. NULL: only tern_client_restore() compares hashes.
    bool (*builds_model)(void *ctx, const char *spec, const uint8_t *hash);

    // Accept a model that has a manifest, whatever builds_model returns. The program then calls tern_client_manifest().
    bool takes_manifests;
};

// The model, the trainer and the memory for training. The caller owns all memory and keeps it until the last step. Sizes depend
// on the model, which the identity names.
struct tern_client_workspace {
    const struct tern_model *model; // its hash must be that of the identity
    struct tern_trainer trainer;
    struct tern_column_port columns; // the columns of the trainer's data; may stay empty
    // [model->count] the replica, including this client's own values of local tensors
    float *weights;

    // tern_error_storage_bytes() of model->coded values, aligned like float. A saved error buffer in another storage is
    // converted.
    enum tern_error_storage error_storage;
    void *error_buffer;

    // [model->count] used by codecs with momentum only. NULL: the client does not announce such codecs, and refuses their
    // tasks.
    float *velocity;

    // [2 * model->count] used by tasks with variance reduction only. NULL: the client does not announce that it can do them,
    // and refuses them.
    float *anchor;

    // Memory for the values of local tensors, as many as tern_model_local() returns. NULL: the model has no local tensors.
    float *local;

    // Holds one update or one download. tern_client_blob_bound() bytes are always enough. In a smaller blob, the client does
    // not announce codecs whose updates might not fit, and refuses downloads that do not fit.
    uint8_t *blob;
    size_t blob_size; // bytes
};

// Returns the size in bytes that holds every update and every download of `model`, with the memory to encode an update.
size_t tern_client_blob_bound(const struct tern_model *model);

// --- State

#define TERN_CLIENT_TOKEN_MAX 24 // bytes of a token with its NUL
#define TERN_CLIENT_SPEC_MAX 64  // bytes of a model spec with its NUL

// The result of enrolling: who this client is, and the federation's model.
struct tern_client_identity {
    uint64_t client_id;                    // never 0
    char token[TERN_CLIENT_TOKEN_MAX];     // authenticates requests; a secret
    char model_spec[TERN_CLIENT_SPEC_MAX]; // e.g. "softmax:64-6"
    uint64_t model_seed;                   // generates the weights of version 0
    uint8_t model_hash[TERN_SHA256_SIZE];  // of the model's tensors
    bool evaluator;                        // this client evaluates and never trains
    // bytes of the model's manifest; 0: the model has none, or its size is unknown
    uint32_t manifest;
};

enum tern_client_phase {
    TERN_PHASE_NEW = 0,    // before tern_client_restore()
    TERN_PHASE_CHECKIN,    // the next request asks for a task
    TERN_PHASE_DOWNLOAD,   // fetches the task's downloads and applies them to the replica
    TERN_PHASE_TRAIN,      // does the task's local steps
    TERN_PHASE_ENCODE,     // compresses the local change into an update
    TERN_PHASE_UPLOAD,     // sends the update until the aggregator answers
    TERN_PHASE_EVALUATE,   // evaluates the replica; evaluators only
    TERN_PHASE_STATISTICS, // sends the statistics of the columns, or fetches the federation's scaling
    TERN_PHASE_FINISHED,   // the federation has completed its rounds
    TERN_PHASE_STOPPED     // tern_client_step() has returned an error
};

// Returns the phase's name in logs, "checkin", "download" and so on: a static string.
const char *tern_client_phase_name(enum tern_client_phase phase);

// The bytes on the wire that this client has counted against its budgets.
struct tern_client_budget {
    // the counted month: year * 12 + month - 1; never decreases; 0: the date is unknown
    uint32_t month;
    uint64_t month_spent; // bytes on the wire in the counted month
    // month_spent as it was saved: bytes count before they are sent, so at least month_spent
    uint64_t month_reserved;
    uint64_t round_mean;  // mean bytes on the wire of a round; 0 before the first
    uint64_t update_mean; // mean bytes of an encoded update; 0 before the first
    uint64_t rounds;      // updates since enrolment that the aggregator has answered
    uint64_t month_ms;    // time in ms that has certainly passed since the counted month began
    uint64_t clock_ms;    // value of the monotonic clock when month_ms was last updated
};

// Bytes of the longest request body that is not an update.
#define TERN_CLIENT_REQUEST_MAX                                                                    \
    (tern_CheckinRequest_size > tern_EnrollRequest_size ? tern_CheckinRequest_size                 \
                                                        : tern_EnrollRequest_size)

// The pending update: encoded and saved, and not answered by the aggregator yet.
struct tern_client_pending {
    uint32_t round;
    uint32_t sequence;
    uint32_t len;       // bytes of the update; 0: no update is pending
    uint32_t sent;      // bytes of its request body, which may omit indices that the aggregator has
    uint32_t container; // bytes of the encoded tensors in the request body
    bool masked;        // of a secure round
};

// Whether struct tern_client has room for secure rounds. Only small builds without them omit it, so that other programs may
// use a library that was built without them.
#define TERN_CLIENT_HAS_MASKS (!TERN_SMALL || TERN_SECURE)

// The facts about the client's last masked update. The upload record has them without the scales that the model lacks.
struct tern_client_masked {
    uint32_t round; // 0: the client has made none
    uint32_t share;
    uint32_t bits;
    uint32_t scale_count;
    uint64_t places_seed;
    uint8_t key[TERN_CLIENT_HAS_MASKS ? TERN_SECRET_SIZE : 1]; // of the update's mask
    // The end of the helper's log in the update's task: number of entries and head.
    uint64_t log_count;
    uint8_t log_head[TERN_CLIENT_HAS_MASKS ? TERN_SHA256_SIZE : 1];
    float scales[TERN_CLIENT_HAS_MASKS ? TERN_MASKED_TENSORS_MAX : 1];
};

// The client's secret of one epoch, and the ticket that gives it to the helper.
struct tern_client_ticket {
    uint32_t epoch; // 0: there is none
    uint32_t size;  // bytes of `sealed`
    uint8_t secret[TERN_CLIENT_HAS_MASKS ? TERN_SECRET_SIZE : 1];
    uint8_t sealed[TERN_CLIENT_HAS_MASKS ? TERN_SECURE_TICKET_MAX : 1];
};

// Why the client ends a request before its answer.
enum tern_client_stop {
    TERN_STOP_NONE = 0,
    TERN_STOP_CANCEL,     // tern_client_cancel()
    TERN_STOP_CONDITIONS, // the conditions changed during the transfer
    TERN_STOP_BUDGET      // a budget was used up during the transfer
};

// State of the checks during a request (watch.c).
struct tern_client_watch {
    uint32_t cancelled; // set by any thread, read and cleared atomically
    enum tern_client_stop stop;
    enum tern_direction direction; // of the body that moves
    const char *why;               // of the conditions or the budget
    uint64_t done;                 // bytes of the body at the last call
    uint64_t total;
    uint64_t checked;     // value of `done` at the last check of conditions and budgets
    uint64_t reported_ms; // time of the last progress event
};

// Owned by the caller; the fields belong to the core. Use the accessors. Small fields come first, so that microcontrollers
// reach them by short instructions.
struct tern_client {
    enum tern_client_phase phase;
    bool identified;           // `identity` is valid
    bool in_flight;            // an exchange is incomplete
    bool returns;              // the next step begins at once
    uint32_t version;          // of the replica
    uint32_t failures;         // failed attempts in a row
    uint32_t failing_since_ms; // monotonic time of the first one, modulo 2^32
    uint64_t due_ms;           // monotonic time of the next step

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
    uint8_t unanswered;  // check-ins among the last `failures` that the aggregator did not handle
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

    // Secure rounds.
    bool ticket_due;                      // the next check-in sends the ticket
    struct tern_client_pending unsettled; // accepted, but its settlement is unknown; len 0: none

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
    enum tern_result stopped_by; // in TERN_PHASE_STOPPED, or why a client that leaves has given up
    struct tern_client_watch watch;
    struct tern_prng jitter;

    struct tern_client_config config;
    struct tern_client_workspace work;
    struct tern_request request;
    struct tern_response response;
    struct tern_client_identity identity;
    struct tern_client_masked masked;
    struct tern_client_ticket ticket;
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

// --- Functions. Unless a function returns another one, errors of the store are TERN_ERR_IO (it cannot be read or written),
// TERN_ERR_NO_SPACE (a record does not fit) and TERN_ERR_CORRUPT (a record is damaged).

// Prepares *client, and copies *config. Sends and reads nothing.
// TERN_ERR_ARGUMENT  a function of a port is missing, `name` or `platform` is longer than 63 bytes, or helper_key is set and this
//                    build has no secure rounds
// TERN_ERR_IO        the entropy port failed
TERN_MUST_USE enum tern_result tern_client_init(struct tern_client *client,
                                                const struct tern_client_config *config);

// Loads the identity from the store.
// TERN_ERR_NOT_FOUND  this client has never enrolled
// TERN_ERR_CORRUPT    the record of the identity is damaged: enrol again
// TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_client_identify(struct tern_client *client);

// Enrols with a join code (NUL-terminated), and saves the identity. A new identity replaces an earlier one, whose other records
// are never used again.
// TERN_AGAIN              the transport does not block: call again with the same code
// TERN_ERR_CANCELLED      tern_client_cancel() was called; the code may be used up
// TERN_ERR_UNAUTHORIZED   the code is wrong, used up or expired
// TERN_ERR_MODEL_MISMATCH this program cannot build the federation's model; nothing was saved
// TERN_ERR_ARGUMENT       the code is longer than any code
// TERN_ERR_NETWORK, TERN_ERR_TLS, TERN_ERR_BUSY, TERN_ERR_HTTP, TERN_ERR_CORRUPT (the answer is malformed)
// TERN_ERR_IO, TERN_ERR_NO_SPACE  the identity could not be saved; the code may be used up
TERN_MUST_USE enum tern_result tern_client_enroll(struct tern_client *client,
                                                  const char *join_code);

// Enrols without a request: saves an identity that `tern-aggregator provision` has printed, for example one that a factory has
// written to the device. Copies *identity. Emits the same event as tern_client_enroll(). After an error, an earlier identity
// remains valid.
// TERN_ERR_ARGUMENT       client_id is 0, the token is not 22 characters of base64url, or the model spec is empty
// TERN_ERR_MODEL_MISMATCH this program cannot build the model
// TERN_ERR_STATE          a request is in progress
// TERN_ERR_IO, TERN_ERR_NO_SPACE  the identity could not be saved
TERN_MUST_USE enum tern_result tern_client_provision(struct tern_client *client,
                                                     const struct tern_client_identity *identity);

// Reads the manifest of the identity's model into dst[0..size), and sets *len to its length in bytes. Reads the store or, if it
// has no manifest of this model, asks the aggregator (GET /v1/downloads/) and saves the answer. TERN_MANIFEST_MAX bytes hold
// every manifest. The request counts against both budgets.
// TERN_AGAIN              the transport does not block: call again with the same arguments
// TERN_ERR_STATE          there is no identity
// TERN_ERR_MODEL_MISMATCH the aggregator has no manifest of this model
// TERN_ERR_CORRUPT        the answer does not match the model's hash
// TERN_ERR_TOO_LARGE      the manifest is longer than `size`, or clearly longer than the aggregator announced at enrolment
// TERN_ERR_BUDGET         the request does not fit into a budget (the event `budget` has the sentence)
// TERN_ERR_NETWORK        the connection broke; a call with the same arguments and an unchanged dst fetches the missing bytes
// TERN_ERR_CANCELLED      tern_client_cancel() was called; continue in the same way
// TERN_ERR_TLS, TERN_ERR_BUSY, TERN_ERR_HTTP, TERN_ERR_UNAUTHORIZED
// TERN_ERR_IO, TERN_ERR_NO_SPACE  the manifest or the meter could not be saved
TERN_MUST_USE enum tern_result tern_client_manifest(struct tern_client *client, uint8_t *dst,
                                                    size_t size, size_t *len);

// Reads the manifest of the identity's model from the store only; arguments as in tern_client_manifest().
// TERN_ERR_NOT_FOUND  the store has no manifest of this model, or one that is damaged or longer than `size`
// TERN_ERR_STATE (no identity), TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_client_stored_manifest(struct tern_client *client, uint8_t *dst,
                                                           size_t size, size_t *len);

// Reads the stored Scaling message of the federation into dst[0..size), and sets *len to its length in bytes. Programs that run
// the model on new data need its means and deviations.
// TERN_ERR_NOT_FOUND  the store has none for this enrolment
// TERN_ERR_NO_SPACE   the message is longer than `size`; *len has its length
// TERN_ERR_CORRUPT, TERN_ERR_STATE (no identity), TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_client_stored_scaling(const struct tern_client *client,
                                                          uint8_t *dst, size_t size, size_t *len);

// Copies *workspace, and loads replica, error buffer, pending update and meter into it. May be called again, e.g. after
// tern_client_step() has failed. If the replica's record is damaged, the replica starts from the seed again; if that of the
// error buffer is damaged, the buffer starts a new generation of zeros. Both emit TERN_EVENT_STARTED_OVER.
// TERN_ERR_STATE           there is no identity; or the trainer's data has another scaling than the federation
// TERN_ERR_MODEL_MISMATCH  the model is not the one that this client enrolled for
// TERN_ERR_ARGUMENT        the error storage is not in this build; or `local` is NULL although the model has local tensors
// TERN_ERR_NO_SPACE        the pending update does not fit into the blob
// TERN_ERR_IO              the store cannot be read
TERN_MUST_USE enum tern_result tern_client_restore(struct tern_client *client,
                                                   const struct tern_client_workspace *workspace);

// Does the next piece of work: one request, one local step, one encoding, one evaluation.
// TERN_OK     the piece is done: call again
// TERN_AGAIN  nothing is due before tern_client_next_ms() milliseconds; also when the federation has finished
// Network errors, malformed answers and diverging training are no errors of this function: the client emits an event and tries
// again later. An error stops the client until tern_client_restore():
// TERN_ERR_UNAUTHORIZED             the aggregator does not know the token, or has revoked it; a pending update stays saved
// TERN_ERR_IO, TERN_ERR_NO_SPACE    a record could not be saved; nothing was sent after that
// TERN_ERR_MODEL_MISMATCH           the trainer was made for another model
// TERN_ERR_NOT_FOUND                an evaluator has no evaluation data
// TERN_ERR_CONFIG                   the column port refuses the federation's scaling
// TERN_ERR_STATE                    tern_client_restore() was not called, or the aggregator has lost a scaling
// TERN_ERR_CANCELLED and failures with which a client gives up (tern_client_config.leaves) do not stop it: the next call
// continues the work, and the phase is not TERN_PHASE_STOPPED.
TERN_MUST_USE enum tern_result tern_client_step(struct tern_client *client);

// Cancels the call of tern_client_step(), tern_client_enroll() or tern_client_manifest() in progress or, if there is none, the
// next one: it returns TERN_ERR_CANCELLED, once. May be called from any thread and from a signal handler, between
// tern_client_init() and the end of *client. A request ends within a second; a local step, an evaluation or an encoding is
// completed first. Nothing is lost: the next call continues the work, and resumes an interrupted body where builds have
// TERN_PARTIALS. tern_client_next_ms() returns 0 until then, but a program that sleeps must wake itself. Builds without
// TERN_WATCH ignore it.
void tern_client_cancel(struct tern_client *client);

// Returns the milliseconds until tern_client_step() has something to do; 0: now; UINT32_MAX: the federation has finished.
uint32_t tern_client_next_ms(const struct tern_client *client);

// Returns the milliseconds after which a failed tern_client_enroll() or tern_client_manifest() may succeed: retry_min_ms or, if
// that is longer, the Retry-After of its response. UINT32_MAX: only a change of the program, its settings or the federation
// helps, which `result` alone decides, also for tern_client_step().
uint32_t tern_client_again_ms(const struct tern_client *client, enum tern_result result);

// Saves the meter at once; the client itself saves it once a round.
TERN_MUST_USE enum tern_result tern_client_save_meter(struct tern_client *client);

// Ends as planned: closes the connection, counts its last bytes, and saves the meter. With `leaves`, a later step begins at
// once, whatever tern_client_next_ms() is.
TERN_MUST_USE enum tern_result tern_client_end(struct tern_client *client);

// Loads the meter and the budget counters without a workspace, for programs that only show them.
// TERN_ERR_NOT_FOUND (nothing was counted yet), TERN_ERR_CORRUPT, TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_client_load_meter(struct tern_client *client);

// --- Reading the state. Returned pointers point into *client or the workspace, and stay valid as long as these.

enum tern_client_phase tern_client_phase(const struct tern_client *client);

// Returns NULL before tern_client_identify(), tern_client_enroll() or tern_client_provision() has succeeded.
const struct tern_client_identity *tern_client_identity(const struct tern_client *client);

// Returns the bytes of the current round, or of the last one until the next one begins.
const struct tern_meter *tern_client_meter_round(const struct tern_client *client);

// Returns all bytes since enrolment.
const struct tern_meter *tern_client_meter_all(const struct tern_client *client);

// Returns the bytes since enrolment, up and down, that a newer version of this program counted for purposes that this version
// does not know. Zero unless an older version replaced a newer one.
const struct tern_bytes *tern_client_meter_other(const struct tern_client *client);

// Returns the counters of the budgets.
const struct tern_client_budget *tern_client_budget(const struct tern_client *client);

// Returns the facts about the last masked update.
const struct tern_client_masked *tern_client_masked(const struct tern_client *client);

// Returns the replica's id, TERN_SHA256_SIZE bytes.
const uint8_t *tern_client_replica(const struct tern_client *client);

// Returns the version of the global model that the replica follows.
uint32_t tern_client_version(const struct tern_client *client);

// Returns the replica's weights, in the workspace.
const float *tern_client_weights(const struct tern_client *client);

// Returns whether the weights include values of local tensors that this client has trained.
bool tern_client_is_personal(const struct tern_client *client);

// Returns the pending update; its len is 0 if there is none.
const struct tern_client_pending *tern_client_pending(const struct tern_client *client);

#ifdef __cplusplus
}
#endif

#endif
