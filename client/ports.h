// The ports of the client: structs of functions through which it reaches its environment. A program implements transport,
// store, trainer, clock and entropy; conditions, columns and partial downloads are optional. client/posix has implementations
// for Linux, firmware_port for microcontrollers, client/trainer and client/external for trainers. The client passes `ctx` as
// the first argument, and calls a port only from the thread that calls the client. A port may serve one client at a time.
#ifndef TERN_PORTS_H
#define TERN_PORTS_H

#include "build.h"
#include "meter/meter.h"
#include "result.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

// --- Transport: HTTPS requests to the aggregator, over one connection whose bytes are counted

struct tern_request {
    enum tern_purpose purpose; // the meter counts the bytes of this request for it
    const char *method;        // "GET", "POST", "PUT"
    const char *path;          // e.g. "/v1/checkin"
    const char *token;         // bearer token; NULL: send no Authorization header
    const uint8_t *body;       // [body_len]; may be NULL when body_len is 0
    size_t body_len;
    // GET: offset of the first requested byte (Range header); 0: request all bytes. PUT: number of bytes that the aggregator
    // already has; `body` holds the others (Content-Range header). 0 in PUTs of builds without TERN_PARTIALS.
    size_t range_from;
    uint32_t timeout_ms; // the exchange fails after this time without any byte in either direction

    // Returns whether the exchange may go on; if not, the transport breaks the connection and returns TERN_ERR_CANCELLED. A
    // transport that blocks calls it at least twice a second, also while it looks up a name or sets up TLS, and after every
    // 16 KB of a body. done: bytes of the body that have moved in this exchange; total: of all; 0: unknown. It may call
    // collect(). NULL: the exchange ends by itself.
    bool (*watch)(void *ctx, enum tern_direction direction, uint64_t done, uint64_t total);
    void *watch_ctx;
};

struct tern_response {
    int status;             // HTTP status; 0: no response arrived
    uint32_t retry_after_s; // seconds of the Retry-After header; 0: the response has none
    uint8_t *body;          // [body_size] the caller's buffer for the response's body
    size_t body_size;
    // bytes in `body`; after TERN_ERR_NETWORK and TERN_ERR_CANCELLED those that arrived before the connection broke
    size_t body_len;
    // If not NULL, the transport passes the body of a 2xx response to this function, block by block, and not to `body`;
    // body_len stays 0, and `status` is set before the first call. If the function fails, the exchange ends with its error.
    // take_size: the most bytes that the function accepts, from which the transport derives the longest duration.
    enum tern_result (*take)(void *ctx, const uint8_t *data, size_t len);
    void *take_ctx;
    size_t take_size;
};

struct tern_transport {
    void *ctx;

    // Sends the request and receives the complete response. The function may block while bytes move, up to a time that depends
    // on the sizes of the bodies; or it returns TERN_AGAIN, and is called again with the same arguments.
    // TERN_OK             an HTTP response arrived, with any status
    // TERN_ERR_NETWORK    the connection was refused or broken, or timed out
    // TERN_ERR_TLS        the aggregator's certificate could not be verified
    // TERN_ERR_TOO_LARGE  the response's body is longer than body_size
    // TERN_ERR_CANCELLED  request->watch() returned false
    TERN_MUST_USE enum tern_result (*exchange)(void *ctx, const struct tern_request *request,
                                               struct tern_response *response);

    // Closes the connection if one is open. The next exchange opens another.
    void (*close)(void *ctx);

    // Adds the bytes since the last call to *meter: http, tls and wire, by the purpose of their requests. The client itself
    // adds the payload.
    void (*collect)(void *ctx, struct tern_meter *meter);
};

// --- Store: up to nine numbered records, each replaced atomically

enum tern_record {
    TERN_RECORD_IDENTITY = 0, // client id, token, model
    TERN_RECORD_REPLICA = 1,  // replica id, version, weights
    TERN_RECORD_UPLOAD = 2,   // error buffer, velocity, pending update and their numbers
    TERN_RECORD_SETTLED = 3,  // sequence of the last update that the aggregator has answered
    TERN_RECORD_METER = 4,    // counted bytes, and the counters of budgets
    TERN_RECORD_MODEL = 5,    // manifest of a model that is not built in
    TERN_RECORD_SCALING = 6,  // the federation's scaling of the columns
    TERN_RECORD_ANCHOR = 7,   // base model of the last full gradient, for variance reduction
    TERN_RECORD_SECURE = 8,   // secret of the epoch, and the ticket with it
    TERN_RECORD_COUNT = !TERN_SMALL || TERN_SECURE ? 9
                        : TERN_VARIANCE_REDUCTION  ? 8
                        : TERN_STATISTICS          ? 7
                        : TERN_MANIFESTS           ? 6
                                         : 5 // this build uses the records below this number
};

struct tern_store_part {
    const void *data; // may be NULL when len is 0
    size_t len;       // bytes
};

struct tern_store {
    void *ctx;

    // Replaces a record by the concatenation of the parts. After TERN_OK the new record survives a power cut. After an error,
    // or a power cut during the call, the former record is still complete.
    // TERN_ERR_IO, TERN_ERR_NO_SPACE
    TERN_MUST_USE enum tern_result (*save)(void *ctx, enum tern_record record,
                                           const struct tern_store_part *parts, size_t part_count);

    // Copies `len` bytes from `offset` of a record to dst, and sets *record_len to the record's length. len may be 0.
    // TERN_ERR_NOT_FOUND  the record was never saved
    // TERN_ERR_CORRUPT    the record's checksum or version is wrong, or offset + len exceeds its length
    // TERN_ERR_IO
    TERN_MUST_USE enum tern_result (*load)(void *ctx, enum tern_record record, size_t offset,
                                           void *dst, size_t len, size_t *record_len);

    // The functions below write a record block by block, for records larger than memory. If all are NULL, the client uses
    // save() and load() only.

    // Begins a new record, whose first `front` bytes finish() will provide. Only one record is in progress at a time; finish(),
    // drop(), the next begin(), or a save() of the same record ends it, and so does an error of begin(), append() or finish():
    // TERN_ERR_IO, TERN_ERR_NO_SPACE. Other records may be saved meanwhile.
    TERN_MUST_USE enum tern_result (*begin)(void *ctx, enum tern_record record, size_t front);

    // Appends `len` bytes to the record in progress. The first ones follow the front.
    TERN_MUST_USE enum tern_result (*append)(void *ctx, const void *data, size_t len);

    // Replaces the former record by `front` and the appended bytes, atomically like save().
    TERN_MUST_USE enum tern_result (*finish)(void *ctx, const void *front);

    // Discards the record in progress, if there is one.
    void (*drop)(void *ctx);

    // Points *data to `len` >= 1 bytes at `offset` of the record in progress or, if none is, of the saved record, which load()
    // has checked before. The bytes stay valid until the next call for this record.
    // TERN_ERR_CORRUPT  the record is shorter than offset + len
    // TERN_ERR_IO, TERN_ERR_NOT_FOUND
    TERN_MUST_USE enum tern_result (*view)(void *ctx, enum tern_record record, size_t offset,
                                           size_t len, const uint8_t **data);
};

// --- Partial download: stores the received bytes of one download, so that a restarted process can continue it

struct tern_partial {
    void *ctx; // all functions NULL: the client receives downloads into its blob

    // Opens the partial download of `size` bytes with this SHA-256, and deletes that of any other download. *have: number of
    // bytes that are already stored, from the start of the download. Opening the same download again changes nothing.
    // TERN_ERR_NO_SPACE  there is no space for the complete download
    // TERN_ERR_IO
    TERN_MUST_USE enum tern_result (*open)(void *ctx, const uint8_t sha256[32], size_t size,
                                           size_t *have);

    // Appends received bytes. They survive the end of the process; a power cut may lose or damage the last ones.
    // TERN_ERR_NO_SPACE, TERN_ERR_IO: call open() again before the next append()
    TERN_MUST_USE enum tern_result (*append)(void *ctx, const uint8_t *data, size_t len);

    // Points *data to `len` >= 1 stored bytes at `offset`, which stay valid until the next call of this port.
    // TERN_ERR_CORRUPT  fewer bytes are stored
    // TERN_ERR_IO
    TERN_MUST_USE enum tern_result (*view)(void *ctx, size_t offset, size_t len,
                                           const uint8_t **data);

    // Deletes the partial download, if there is one.
    void (*drop)(void *ctx);
};

// --- Trainer

// The batch size of a full gradient: all examples. A task with variance reduction has one local step without momentum. The
// client trains it twice, from two base models with the same (seed, round, client); the trainer must use the same examples both
// times.
#define TERN_TRAIN_ALL UINT32_C(2147483647)

struct tern_train_task {
    uint32_t round;
    uint32_t local_steps;
    uint32_t batch_size; // examples of a local step; TERN_TRAIN_ALL: all examples
    float learning_rate;
    float momentum;
    float weight_decay;
    float prox_mu; // adds prox_mu / 2 * |w - base|^2 to the loss (FedProx: Li et al., MLSys 2020)
    uint64_t seed; // the batches depend on (seed, round, client)
    uint32_t client;

    // Adds a fraction of the residual error to the initial weights (step-ahead: SA-PEF, Redie et al., arXiv 2601.20738). Valid
    // during begin() only, where tern_train_start() calls it. NULL: training starts from the base model.
    void (*ahead)(void *ctx, float *weights);
    void *ahead_ctx;
};

// Sets weights[0..count), the trainer's memory, to the initial weights of the task. A trainer's begin() calls it once. A
// trainer that copies `base` instead trains without the step ahead, which is also valid. FedProx pulls towards `base` in both
// cases.
static inline void tern_train_start(const struct tern_train_task *task, const float *base,
                                    float *weights, uint32_t count)
{
    memcpy(weights, base, (size_t)count * sizeof *base);
    if (task->ahead != NULL) {
        task->ahead(task->ahead_ctx, weights);
    }
}

struct tern_train_result {
    uint32_t num_examples; // size of the local data set: the client's weight in FedAvg
    uint32_t local_steps;  // completed local steps
    float loss;            // mean loss of these steps
    // false: *weights are the trained weights. true: *weights are their difference to the base model, except in local tensors
    bool is_change;
};

#define TERN_METRICS_MAX 4      // metrics of an evaluation, besides loss and accuracy
#define TERN_METRIC_NAME_MAX 16 // bytes with the terminating NUL

struct tern_metric {
    char name[TERN_METRIC_NAME_MAX]; // text, not empty: "f1_macro"
    float value;                     // finite
};

struct tern_evaluate_result {
    uint32_t num_examples; // evaluated examples
    float loss;            // their mean loss
    float accuracy;        // fraction of correct predictions, 0 to 1
    bool no_accuracy;      // the model predicts no classes, so `accuracy` has no meaning
    uint32_t metric_count;
    struct tern_metric metrics[TERN_METRICS_MAX];
};

struct tern_trainer {
    void *ctx;

    // Starts a task with the base model base[0..count), which stays valid until the next begin().
    // TERN_ERR_MODEL_MISMATCH  the trainer's model has another number of values
    // TERN_ERR_ARGUMENT        a hyperparameter is out of range
    // TERN_ERR_NOT_FOUND       there is no training data
    TERN_MUST_USE enum tern_result (*begin)(void *ctx, const struct tern_train_task *task,
                                            const float *base, uint32_t count);

    // Does one local step. Returns TERN_AGAIN while steps remain. After the last step returns TERN_OK, sets *result, and points
    // *weights to the trained weights in the trainer's memory. The client encodes the update in that memory, so its content
    // changes before the next begin(). A trainer in another process waits briefly in step() and evaluate() before it returns
    // TERN_AGAIN, because the client calls again at once.
    // TERN_ERR_NON_FINITE  training diverged: the loss or a weight is not finite
    // TERN_ERR_TRAINER     the trainer failed
    TERN_MUST_USE enum tern_result (*step)(void *ctx, float **weights,
                                           struct tern_train_result *result);

    // Evaluates weights[0..count) on the local evaluation data, and sets *result.
    // TERN_AGAIN          the evaluation is incomplete: call again with the same arguments
    // TERN_ERR_NOT_FOUND  there is no evaluation data
    TERN_MUST_USE enum tern_result (*evaluate)(void *ctx, const float *weights, uint32_t count,
                                               struct tern_evaluate_result *result);
};

// --- Columns: in federations with statistics.columns, clients scale the columns of their data by shared statistics

struct tern_column_port {
    // both functions NULL: the data has no columns, and such federations give this client no tasks
    void *ctx;
    // columns: the features and, for a model that predicts numbers, the target as the last column
    uint32_t count;
    // hash of the columns' names (tern_column_names_tag()); 0: the columns have no names
    uint32_t names;

    // Writes mean and population variance of each unscaled column over the training examples to columns[count], as pairs of
    // float32, little-endian. Sets *num_examples to the number of training examples.
    // TERN_ERR_NON_FINITE  a mean or variance is too large for a float32
    // TERN_ERR_NOT_FOUND   there is no example
    // TERN_ERR_STATE       the columns are already scaled
    // TERN_ERR_CONFIG      the program's settings forbid this scaling; tern_client_step() returns this error
    TERN_MUST_USE enum tern_result (*measure)(void *ctx, uint8_t *columns, uint32_t *num_examples);

    // Replaces each value of the training and evaluation data by (value - mean) / deviation, computed in double and rounded
    // once. columns: [count] pairs of mean and deviation, unaligned. tag: identifies the scaling; if the data already has the
    // scaling with this tag, the function changes nothing.
    // TERN_ERR_STATE       the data has another scaling; the program must read the data again
    // TERN_ERR_CONFIG      the program's settings forbid this scaling
    // TERN_ERR_NON_FINITE  a scaled value would be too large for a float32; no value was changed
    TERN_MUST_USE enum tern_result (*scale)(void *ctx, uint32_t tag, const uint8_t *columns);
};

// --- Clock, entropy, conditions

struct tern_clock {
    void *ctx;
    uint64_t (*monotonic_ms)(void *ctx); // returns milliseconds since any start; never goes back
    uint64_t (*unix_seconds)(
        void *
            ctx); // returns seconds since 1970-01-01 UTC; 0: unknown, so that a monthly budget never renews
};

struct tern_entropy {
    void *ctx;
    // Fills dst[0..len) with unpredictable bytes. TERN_ERR_IO
    TERN_MUST_USE enum tern_result (*fill)(void *ctx, void *dst, size_t len);
};

struct tern_conditions {
    bool metered; // the link is paid by the byte
    int power;    // tern_Power of tern.proto: unknown, battery or mains
};

struct tern_condition_port {
    void *ctx; // may_work NULL: the client may always work, and its link is not metered

    // Sets *now, and returns whether the client may work. If not, points *why to a clause that gives the reason and stays valid
    // until the next call. The client calls it before each request, local step and evaluation, so it must be fast: an
    // implementation with slow sources reuses its readings for about a second.
    bool (*may_work)(void *ctx, struct tern_conditions *now, const char **why);

    // Like may_work(), but reads its sources afresh. The client calls it after every 16 KB of a transfer, which a change of the
    // conditions must end. NULL: the client calls may_work(), which then must not reuse its readings.
    bool (*may_go_on)(void *ctx, struct tern_conditions *now, const char **why);
};

struct tern_ports {
    struct tern_transport transport;
    struct tern_store store;
    struct tern_trainer trainer;
    struct tern_clock clock;
    struct tern_entropy entropy;
    struct tern_condition_port conditions; // optional: may be all zero
    struct tern_partial partial;           // optional: may be all zero
};

#ifdef __cplusplus
}
#endif

#endif
