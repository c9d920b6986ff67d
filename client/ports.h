// The ports of the client core: transport, store, trainer, clock, entropy, conditions. client/posix implements them on Linux,
// firmware_port on microcontrollers, and tests by hand; only these use libcurl, lwIP or files. One client at a time uses a port,
// from the thread that calls tern_client_step().
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

// --- Transport: one metered HTTPS connection to the aggregator

struct tern_request {
    enum tern_purpose purpose; // the meter attributes the bytes to it
    const char *method;        // "GET", "POST", "PUT"
    const char *path;
    const char *token; // bearer token, NULL for none
    const uint8_t *body;
    size_t body_len;
    // GET: the offset of the first requested byte; 0 = all. PUT, in builds with TERN_PARTIALS: the server already has this
    // many bytes, and body is the rest (Content-Range).
    size_t range_from;
    uint32_t timeout_ms; // without any byte in either direction
};

struct tern_response {
    int status;             // HTTP status; 0 when none arrived
    uint32_t retry_after_s; // from the Retry-After header; 0 when absent
    uint8_t *body;          // caller's buffer of body_size bytes
    size_t body_size;
    size_t body_len; // received bytes; on TERN_ERR_NETWORK those before the connection broke
    // Receives the body of a 2xx answer piece by piece instead of `body`; NULL: `body` does. `status` is set before; body_len
    // stays 0. An error that it returns ends the exchange with that error. take_size: the most bytes that it accepts, which
    // determines the time limit.
    enum tern_result (*take)(void *ctx, const uint8_t *data, size_t len);
    void *take_ctx;
    size_t take_size;
};

struct tern_transport {
    void *ctx;

    // Sends the request and receives the whole response. It may block while bytes move, at most timeout_ms without progress
    // and a total time that depends on the bodies' sizes; or it returns TERN_AGAIN and is called again with the same
    // arguments.
    // TERN_OK             an HTTP response arrived, whatever its status
    // TERN_ERR_NETWORK    refused, cut, timed out
    // TERN_ERR_TLS        the server could not be verified
    // TERN_ERR_TOO_LARGE  the body does not fit into body_size
    TERN_MUST_USE enum tern_result (*exchange)(void *ctx, const struct tern_request *request,
                                               struct tern_response *response);

    // Closes the connection, if any; the next exchange opens a new one.
    void (*close)(void *ctx);

    // Adds the http, tls and wire bytes since the last call to meter, and resets them. The core counts the payload.
    void (*collect)(void *ctx, struct tern_meter *meter);
};

// --- Store: a few named records, each replaced atomically

enum tern_record {
    TERN_RECORD_IDENTITY = 0, // client id, token, model
    TERN_RECORD_REPLICA = 1,  // replica id, version, weights
    TERN_RECORD_UPLOAD = 2,   // generation, sequence, error buffer, velocity, pending update
    TERN_RECORD_SETTLED = 3,  // sequence of the last answered update
    TERN_RECORD_METER = 4,    // counters and budgets
    TERN_RECORD_MODEL = 5,    // manifest of a model that is not built in
    TERN_RECORD_SCALING = 6,  // the federation's scaling of the columns
    TERN_RECORD_ANCHOR = 7,   // base of the last full gradient
    TERN_RECORD_COUNT = TERN_VARIANCE_REDUCTION ? 8
                        : TERN_STATISTICS       ? 7
                        : TERN_MANIFESTS        ? 6
                                                : 5 // the first ones, which this build uses
};

struct tern_store_part {
    const void *data; // may be NULL when len is 0
    size_t len;
};

struct tern_store {
    void *ctx;

    // Replaces a record by the concatenation of parts. After TERN_OK the record survives a power cut; after an error or a power
    // cut during the call the old record is complete.
    // TERN_ERR_IO, TERN_ERR_NO_SPACE
    TERN_MUST_USE enum tern_result (*save)(void *ctx, enum tern_record record,
                                           const struct tern_store_part *parts, size_t part_count);

    // Reads `len` bytes at `offset` of a record. *record_len: its whole length (len 0 reads only that).
    // TERN_ERR_NOT_FOUND  never saved
    // TERN_ERR_CORRUPT    its checksum or version is wrong, or offset + len exceeds its length
    TERN_MUST_USE enum tern_result (*load)(void *ctx, enum tern_record record, size_t offset,
                                           void *dst, size_t len, size_t *record_len);

    // Writes a record in pieces, for records that do not fit into memory; all NULL: save() and load() suffice.

    // Begins a record whose first `front` bytes finish() provides. One at a time; it ends with finish(), drop(), the next
    // begin() or a save() of the same record. Other records may be saved meanwhile. An error of begin(), append() or
    // finish() (TERN_ERR_IO, TERN_ERR_NO_SPACE) also ends it.
    TERN_MUST_USE enum tern_result (*begin)(void *ctx, enum tern_record record, size_t front);

    // Appends `len` bytes; the first append follows the front.
    TERN_MUST_USE enum tern_result (*append)(void *ctx, const void *data, size_t len);

    // Replaces the record by the front and the appended bytes, like save().
    TERN_MUST_USE enum tern_result (*finish)(void *ctx, const void *front);

    // Discards a begun record, if any.
    void (*drop)(void *ctx);

    // Points *data at `len` >= 1 bytes at `offset` of the begun record, or else of a record that load() has checked, until the
    // next call for the record.
    // TERN_ERR_CORRUPT  the record is shorter; TERN_ERR_IO, TERN_ERR_NOT_FOUND
    TERN_MUST_USE enum tern_result (*view)(void *ctx, enum tern_record record, size_t offset,
                                           size_t len, const uint8_t **data);
};

// --- Partial download: the received bytes of one download, which outlive the process

struct tern_partial {
    void *ctx; // all functions NULL: downloads are received into the blob

    // Opens the partial download of `size` bytes with this SHA-256, and drops any other. *have: its received bytes from the
    // start. Opening the same download again changes nothing.
    // TERN_ERR_NO_SPACE  no space for the whole download
    // TERN_ERR_IO
    TERN_MUST_USE enum tern_result (*open)(void *ctx, const uint8_t sha256[32], size_t size,
                                           size_t *have);

    // Appends. Appended bytes survive the end of the process; a power cut may lose or damage the newest.
    // TERN_ERR_NO_SPACE, TERN_ERR_IO (open it again before appending more)
    TERN_MUST_USE enum tern_result (*append)(void *ctx, const uint8_t *data, size_t len);

    // Points *data at `len` >= 1 bytes at `offset`, until the next call of any function of this port.
    // TERN_ERR_CORRUPT  the download is shorter
    // TERN_ERR_IO
    TERN_MUST_USE enum tern_result (*view)(void *ctx, size_t offset, size_t len,
                                           const uint8_t **data);

    // Drops the partial download, if any.
    void (*drop)(void *ctx);
};

// --- Trainer

// The batch size of a full gradient: all examples. A task with variance reduction has one local step without momentum, and
// trains twice with the same (seed, round, client) from two bases; the trainer must use the same examples.
#define TERN_TRAIN_ALL UINT32_C(2147483647)

struct tern_train_task {
    uint32_t round;
    uint32_t local_steps;
    uint32_t batch_size; // TERN_TRAIN_ALL: all examples
    float learning_rate;
    float momentum;
    float weight_decay;
    float prox_mu; // FedProx (Li et al., MLSys 2020): + mu / 2 * |w - base|^2
    uint64_t seed; // batches are drawn from (seed, round, client)
    uint32_t client;

    // Step-ahead (SA-PEF, Redie et al., arXiv 2601.20738): training starts from base plus a fraction of the residual error.
    // tern_train_start() calls it, during begin() only.
    void (*ahead)(void *ctx, float *weights); // NULL = from base as it is
    void *ahead_ctx;
};

// A trainer's begin() calls it once to set its own memory weights[0..count) to the start of training. FedProx still pulls
// towards base. A trainer that copies base itself trains without the step ahead, which is valid, too.
static inline void tern_train_start(const struct tern_train_task *task, const float *base,
                                    float *weights, uint32_t count)
{
    memcpy(weights, base, (size_t)count * sizeof *base);
    if (task->ahead != NULL) {
        task->ahead(task->ahead_ctx, weights);
    }
}

struct tern_train_result {
    uint32_t num_examples; // examples of the local data set: the FedAvg weight
    uint32_t local_steps;  // completed
    float loss;            // mean over the steps
    // *weights has the change to add to base instead of the sum, except for local tensors
    bool is_change;
};

#define TERN_METRICS_MAX 4      // besides loss and accuracy
#define TERN_METRIC_NAME_MAX 16 // bytes with the terminating NUL

struct tern_metric {
    char name[TERN_METRIC_NAME_MAX]; // text, not empty: "f1_macro"
    float value;                     // finite
};

struct tern_evaluate_result {
    uint32_t num_examples;
    float loss;
    float accuracy;   // 0 to 1
    bool no_accuracy; // the model predicts no classes; accuracy is 0
    uint32_t metric_count;
    struct tern_metric metrics[TERN_METRICS_MAX];
};

struct tern_trainer {
    void *ctx;

    // Starts local training from base[0..count) (borrowed until the next begin).
    // TERN_ERR_MODEL_MISMATCH  count is not the trainer's
    // TERN_ERR_ARGUMENT        a hyperparameter is out of range
    TERN_MUST_USE enum tern_result (*begin)(void *ctx, const struct tern_train_task *task,
                                            const float *base, uint32_t count);

    // Does one local step. TERN_AGAIN while steps are left; TERN_OK after the last: *weights then points at the trained weights
    // and *result is filled. The weights are the trainer's memory, but the core overwrites them until the next begin: it makes
    // the update in them.
    // TERN_ERR_NON_FINITE  the loss or a weight is no longer finite: training diverged
    // TERN_ERR_TRAINER     the trainer failed
    TERN_MUST_USE enum tern_result (*step)(void *ctx, float **weights,
                                           struct tern_train_result *result);

    // Evaluates weights[0..count) on the local evaluation data. TERN_ERR_NOT_FOUND when there is none. TERN_AGAIN while it is
    // incomplete: called again with the same arguments. A trainer in another process waits a little in step() and evaluate(),
    // since the client calls again at once.
    TERN_MUST_USE enum tern_result (*evaluate)(void *ctx, const float *weights, uint32_t count,
                                               struct tern_evaluate_result *result);
};

// --- Columns of the data, which a federation may scale by shared statistics

struct tern_column_port {
    void *ctx;      // both functions NULL: no columns, and such a federation gives no tasks
    uint32_t count; // features of an example plus, for a model of numbers, its target
    uint32_t names; // tag of the columns' names (tern_column_names_tag()); 0: they have none

    // Writes mean and population variance of each unscaled column over the training examples: count pairs of float32,
    // little-endian, the target's last.
    // TERN_ERR_NON_FINITE  a value is too large for a float32
    // TERN_ERR_NOT_FOUND   there is no example
    // TERN_ERR_STATE       the columns were scaled before
    // TERN_ERR_CONFIG      the settings forbid this scaling: the client's step returns it
    TERN_MUST_USE enum tern_result (*measure)(void *ctx, uint8_t *columns, uint32_t *num_examples);

    // Replaces every value of training and evaluation data by (value - mean) / deviation in double arithmetic, rounded once.
    // columns: count pairs, unaligned. tag: of the scaling; data with this scaling stays unchanged.
    // TERN_ERR_STATE       the data has another scaling; it can be read again
    // TERN_ERR_CONFIG      the settings forbid this scaling
    // TERN_ERR_NON_FINITE  a value would be too large for a float32; no value was changed
    TERN_MUST_USE enum tern_result (*scale)(void *ctx, uint32_t tag, const uint8_t *columns);
};

// --- Clock, entropy, conditions

struct tern_clock {
    void *ctx;
    uint64_t (*monotonic_ms)(void *ctx);
    uint64_t (*unix_seconds)(void *ctx); // 0 while unknown; budgets per month need it
};

struct tern_entropy {
    void *ctx;
    TERN_MUST_USE enum tern_result (*fill)(void *ctx, void *dst, size_t len);
};

struct tern_conditions {
    bool metered;
    int power; // tern_Power of tern.proto
};

struct tern_condition_port {
    void *ctx; // may_work NULL: always, on a link that is not metered

    // Fills *now and returns whether the client may work; if not, *why is a sentence that is valid until the next call. Called
    // before every request, local step and evaluation, so it must be cheap: an implementation with slow sources keeps its
    // readings for about a second.
    bool (*may_work)(void *ctx, struct tern_conditions *now, const char **why);
};

struct tern_ports {
    struct tern_transport transport;
    struct tern_store store;
    struct tern_trainer trainer;
    struct tern_clock clock;
    struct tern_entropy entropy;
    struct tern_condition_port conditions; // may stay empty
    struct tern_partial partial;           // may stay empty
};

#ifdef __cplusplus
}
#endif

#endif
