// What the client core needs from the world. The core declares it; client/posix implements it on
// Linux, firmware_port on microcontrollers, tests by hand. Nobody else knows libcurl, lwIP or
// files. A port is used by one client at a time, from the thread that calls tern_client_step().
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
    enum tern_purpose purpose; // what the bytes are attributed to
    const char *method;        // "GET", "POST", "PUT"
    const char *path;
    const char *token; // bearer token, NULL for none
    const uint8_t *body;
    size_t body_len;
    // GET: ask for the bytes from here on; 0 = all. PUT, only in a build with TERN_PARTIALS: so many
    // bytes are there already, and body, the rest, follows them (Content-Range).
    size_t range_from;
    uint32_t timeout_ms; // without any progress, of bytes either way
};

struct tern_response {
    int status;             // HTTP status; 0 when none arrived
    uint32_t retry_after_s; // of the Retry-After header, 0 when absent
    uint8_t *body;          // caller's buffer of body_size bytes
    size_t body_size;
    size_t body_len; // bytes received; on TERN_ERR_NETWORK what arrived before the cut
#if TERN_PARTIALS
    // Takes the body of a 2xx answer in place of `body`, piece by piece as it comes; NULL: `body`
    // does. `status` is set by then; body_len stays 0. What it returns other than TERN_OK ends the
    // exchange with that. take_size: the most bytes it takes, for the time that they may need.
    enum tern_result (*take)(void *ctx, const uint8_t *data, size_t len);
    void *take_ctx;
    size_t take_size;
#endif
};

struct tern_transport {
    void *ctx;

    // Sends the request and receives the whole response. May block while bytes move, but no longer
    // than timeout_ms without progress and a time that the bodies' sizes bound, or return
    // TERN_AGAIN to be called again with the same arguments.
    // TERN_OK             an HTTP response arrived, whatever its status
    // TERN_ERR_NETWORK    refused, cut, timed out
    // TERN_ERR_TLS        the server could not be verified
    // TERN_ERR_TOO_LARGE  the body does not fit into body_size
    TERN_MUST_USE enum tern_result (*exchange)(void *ctx, const struct tern_request *request,
                                               struct tern_response *response);

    // Closes the connection, if any; the next exchange opens a new one.
    void (*close)(void *ctx);

    // Adds the http, tls and wire bytes since the last call to meter and forgets them. Payload is
    // the core's to count.
    void (*collect)(void *ctx, struct tern_meter *meter);
};

// --- Store: a few named records, each replaced atomically

enum tern_record {
    TERN_RECORD_IDENTITY = 0, // client id, token, model
    TERN_RECORD_REPLICA = 1,  // replica id, version, weights
    TERN_RECORD_UPLOAD = 2,   // generation, sequence, error buffer, velocity, pending update
    TERN_RECORD_SETTLED = 3,  // the sequence up to which updates were answered
    TERN_RECORD_METER = 4,    // counters and budgets
#if TERN_MANIFESTS || TERN_STATISTICS || TERN_VARIANCE_REDUCTION
    TERN_RECORD_MODEL = 5, // manifest of a model that is not built in
#endif
#if TERN_STATISTICS || TERN_VARIANCE_REDUCTION
    TERN_RECORD_SCALING = 6, // what the columns are scaled by
#endif
#if TERN_VARIANCE_REDUCTION
    TERN_RECORD_ANCHOR = 7, // of the last full gradient
#endif
    TERN_RECORD_COUNT
};

struct tern_store_part {
    const void *data; // may be NULL when len is 0
    size_t len;
};

struct tern_store {
    void *ctx;

    // Replaces a record by the concatenation of parts. When it returns TERN_OK the record survives
    // a power cut; when the power is cut or it fails, the old record is still there, whole.
    // TERN_ERR_IO, TERN_ERR_NO_SPACE
    TERN_MUST_USE enum tern_result (*save)(void *ctx, enum tern_record record,
                                           const struct tern_store_part *parts, size_t part_count);

    // Reads `len` bytes at `offset` of a record. *record_len: its whole length (len 0 asks for it).
    // TERN_ERR_NOT_FOUND  never saved
    // TERN_ERR_CORRUPT    its checksum or version is wrong, or offset + len passes its end
    TERN_MUST_USE enum tern_result (*load)(void *ctx, enum tern_record record, size_t offset,
                                           void *dst, size_t len, size_t *record_len);

#if TERN_PARTIALS
    // A record in pieces, for what is not to be in memory as a whole; all NULL: save() and load() do.

    // Begins a record, of which the first `front` bytes are given at the end. One at a time; it ends
    // with finish(), drop(), the next begin() or a save() of the same record. Others may be saved
    // meanwhile. TERN_ERR_IO, TERN_ERR_NO_SPACE, as of append() and finish(); after an error it has
    // ended.
    TERN_MUST_USE enum tern_result (*begin)(void *ctx, enum tern_record record, size_t front);

    // Puts `len` bytes behind those that are there, of which the front is the first.
    TERN_MUST_USE enum tern_result (*append)(void *ctx, const void *data, size_t len);

    // Replaces the record by the front and what was appended, as save() does.
    TERN_MUST_USE enum tern_result (*finish)(void *ctx, const void *front);

    // What was begun, if anything, is let go.
    void (*drop)(void *ctx);

    // Points *data at `len` >= 1 bytes from `offset` on, of what was begun or else of a record that
    // load() found to be whole, until the next call for the record.
    // TERN_ERR_CORRUPT  they are not all there; TERN_ERR_IO, TERN_ERR_NOT_FOUND
    TERN_MUST_USE enum tern_result (*view)(void *ctx, enum tern_record record, size_t offset,
                                           size_t len, const uint8_t **data);
#endif
};

#if TERN_PARTIALS
// --- Partial download: what has come of one download, kept when the process ends

struct tern_partial {
    void *ctx; // all functions NULL: none is kept, and downloads are received into the blob

    // From now on the partial download is that of `size` bytes with this SHA-256. *have: bytes of
    // it that are there, from the first on. What is there of any other is dropped. Called again for
    // the same one it changes nothing.
    // TERN_ERR_NO_SPACE  there is no room for all of it
    // TERN_ERR_IO
    TERN_MUST_USE enum tern_result (*open)(void *ctx, const uint8_t sha256[32], size_t size,
                                           size_t *have);

    // Appends. What was appended survives the end of the process; a power cut may take the newest
    // of it, or leave something else in its place.
    // TERN_ERR_NO_SPACE, TERN_ERR_IO (nothing more can be appended before it is opened again)
    TERN_MUST_USE enum tern_result (*append)(void *ctx, const uint8_t *data, size_t len);

    // Points *data at `len` bytes from `offset` on, len >= 1, until the next call of any of these.
    // TERN_ERR_CORRUPT  they are not all there
    // TERN_ERR_IO
    TERN_MUST_USE enum tern_result (*view)(void *ctx, size_t offset, size_t len,
                                           const uint8_t **data);

    // Drops whatever is there.
    void (*drop)(void *ctx);
};
#endif

// --- Trainer

// A batch of all examples, which a full gradient is of. Tasks with variance reduction are of one local step, without
// momentum, and ask twice for the same (seed, round, client), from two bases: a trainer takes the same examples.
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

    // Step-ahead (SA-PEF, Redie et al., arXiv 2601.20738): training starts from base and a part of
    // what compression has not sent yet. For tern_train_start(), during begin() alone.
    void (*ahead)(void *ctx, float *weights); // NULL = from base as it is
    void *ahead_ctx;
};

// What a trainer's begin() does once: makes weights[0..count), its own memory, where training
// starts. FedProx pulls towards base all the same. A trainer that copies base by itself trains
// without the step ahead, and what it has trained is as right.
static inline void tern_train_start(const struct tern_train_task *task, const float *base,
                                    float *weights, uint32_t count)
{
    memcpy(weights, base, (size_t)count * sizeof *base);
    if (task->ahead != NULL) {
        task->ahead(task->ahead_ctx, weights);
    }
}

struct tern_train_result {
    uint32_t num_examples; // in the local data set: the FedAvg weight
    uint32_t local_steps;  // done
    float loss;            // mean over the steps
#if TERN_GIVEN_CHANGES
    bool
        is_change; // *weights has what is to be added to base, not the sum; of local tensors the values all the same
#endif
};

#if TERN_HELD_OUT
#define TERN_METRICS_MAX 4      // beside loss and accuracy
#define TERN_METRIC_NAME_MAX 16 // bytes with the terminating NUL

struct tern_metric {
    char name[TERN_METRIC_NAME_MAX]; // text, not empty: "f1_macro"
    float value;                     // finite
};
#endif

struct tern_evaluate_result {
    uint32_t num_examples;
    float loss;
    float accuracy; // 0 to 1
#if TERN_HELD_OUT
    bool no_accuracy; // there is none, as of a model that tells no classes; accuracy is 0
    uint32_t metric_count;
    struct tern_metric metrics[TERN_METRICS_MAX];
#endif
};

struct tern_trainer {
    void *ctx;

    // Starts local training from base[0..count) (borrowed until the next begin).
    // TERN_ERR_MODEL_MISMATCH  count is not the trainer's
    // TERN_ERR_ARGUMENT        a hyperparameter is out of range
    TERN_MUST_USE enum tern_result (*begin)(void *ctx, const struct tern_train_task *task,
                                            const float *base, uint32_t count);

    // Does one local step. TERN_AGAIN while steps are left; TERN_OK when done: *weights then points
    // at the trained weights and *result is filled. They are the trainer's memory, but the core's
    // to overwrite until the next begin: the update is made in them.
    // TERN_ERR_NON_FINITE  the loss or a weight is no longer finite: training diverged
    // TERN_ERR_TRAINER     the trainer failed
    TERN_MUST_USE enum tern_result (*step)(void *ctx, float **weights,
                                           struct tern_train_result *result);

    // Evaluates weights[0..count) on the local evaluation data. NOT_FOUND when there is none.
    // TERN_AGAIN while it takes: called again with the same arguments. A trainer that works beside
    // the client waits a little in step() and evaluate(), as the client calls again at once.
    TERN_MUST_USE enum tern_result (*evaluate)(void *ctx, const float *weights, uint32_t count,
                                               struct tern_evaluate_result *result);
};

#if TERN_STATISTICS
// --- Columns of the data, which a federation may scale by statistics that its clients share

struct tern_column_port {
    void *ctx;      // both functions NULL: there are none, and such a federation has no tasks
    uint32_t count; // numbers of an example and, where the model tells a number, its target
    uint32_t names; // tag of the columns' names (tern_column_names_tag()); 0: they have none

    // Writes mean and variance (of the population) of each column over the examples to train on, as
    // they were read: count pairs of float32, little-endian, the target's last.
    // TERN_ERR_NON_FINITE  one of these is too large for a float32
    // TERN_ERR_NOT_FOUND   there is no example
    // TERN_ERR_STATE       they have been scaled since
    // TERN_ERR_CONFIG      they are not to be scaled so: the client's step returns it
    TERN_MUST_USE enum tern_result (*measure)(void *ctx, uint8_t *columns, uint32_t *num_examples);

    // Makes (value - mean) / deviation of every value, to train and to evaluate on, in double
    // arithmetic, rounded once: columns has count such pairs, unaligned. tag: of the scaling;
    // data that has it already is left as it is.
    // TERN_ERR_STATE       the data has another scaling; it can be read again
    // TERN_ERR_CONFIG      it is not to be scaled so
    // TERN_ERR_NON_FINITE  a value would be too large for a float32; none was changed
    TERN_MUST_USE enum tern_result (*scale)(void *ctx, uint32_t tag, const uint8_t *columns);
};
#endif

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

    // Fills *now and returns whether the client may work; when it may not, *why is a sentence that
    // is valid until the next call. Asked before every request, local step and evaluation, so it
    // costs little: an implementation that has to look far keeps what it saw for a second or so.
    bool (*may_work)(void *ctx, struct tern_conditions *now, const char **why);
};

struct tern_ports {
    struct tern_transport transport;
    struct tern_store store;
    struct tern_trainer trainer;
    struct tern_clock clock;
    struct tern_entropy entropy;
    struct tern_condition_port conditions; // may stay empty
#if TERN_PARTIALS
    struct tern_partial partial; // may stay empty
#endif
};

#ifdef __cplusplus
}
#endif

#endif
