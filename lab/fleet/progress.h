// What a fleet's clients report while they run, gathered per version of the model: updates applied,
// bytes, accuracy. Clients add from their threads; the main thread waits for lines to print. Every
// call is safe from any thread.
#ifndef TERN_FLEET_PROGRESS_H
#define TERN_FLEET_PROGRESS_H

#include "client.h"
#include "fleet/records.h"
#include <pthread.h>

#define TERN_PROGRESS_NAMES_MAX 96

struct tern_progress_version {
    uint32_t updates;  // applied, that made this version
    uint64_t up, down; // wire bytes of their clients' rounds
    uint64_t trunk;    // bytes of the downloads that brought the evaluator from the one before
    double accuracy;   // NaN: not measured
    double loss;       // where it was
    struct tern_evaluate_result
        found; // of a model that tells no classes; num_examples 0: not measured
    bool evaluated;
    uint64_t evaluated_ms; // monotonic
};

struct tern_progress {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct tern_progress_version *versions; // [0] is version 1
    uint32_t count;
    uint32_t capacity;
    uint32_t first;     // newest version that was there before
    uint32_t shown;     // newest version whose line is printed, or first
    uint32_t evaluated; // newest version that was
    uint32_t running;   // clients that have not ended
    uint32_t round;     // newest that a client was given a task of
    uint32_t newest;    // newest version that a client was told of
    bool over;          // a client was told that the federation is finished
    bool stopped;       // the fleet ends before it is
    struct tern_records records;
    double encode_seconds; // spent on encoding and saving updates
    uint64_t encoded;
    uint32_t diverged;                           // updates in a row that diverged
    uint32_t busy;                               // clients that have a task
    uint32_t dropped;                            // tasks whose training or update diverged
    char dropped_names[TERN_PROGRESS_NAMES_MAX]; // of their clients, "fleet-0002, fleet-0007, ..."
    char codec[TERN_CODEC_SPEC_MAX];
    char model_hash[2 * TERN_SHA256_SIZE + 1];
    enum tern_result failure; // TERN_OK while no client failed
    char why[448];
};

void tern_progress_init(struct tern_progress *progress);
void tern_progress_clear(struct tern_progress *progress);

// The fleet goes on from a version that an earlier run has seen: the first one shown is the next.
// Called before any client starts.
void tern_progress_begin_after(struct tern_progress *progress, uint32_t version);

// A client starts or ends (TERN_OK), or fails with a sentence.
void tern_progress_start(struct tern_progress *progress);
void tern_progress_end(struct tern_progress *progress, enum tern_result result, const char *why);

// A client was given a task of this round, to start from this version.
void tern_progress_task(struct tern_progress *progress, uint32_t round, uint32_t version);

// Whether the fleet is beyond this round, or has seen this version; both also when the federation
// is finished, the fleet stops or a client failed.
bool tern_progress_is_past(struct tern_progress *progress, uint32_t round);
bool tern_progress_has_version(struct tern_progress *progress, uint32_t version);

// An update was applied.
void tern_progress_update(struct tern_progress *progress,
                          const struct tern_participation *participation);

// A client that joined late or was away holds the newest version again.
void tern_progress_arrival(struct tern_progress *progress, const struct tern_arrival *arrival);

// The evaluator fetched so many bytes to reach a version.
void tern_progress_trunk(struct tern_progress *progress, uint32_t version, uint64_t bytes);

// A client's training or its update diverged: a loss or values that are not finite, or a norm over the
// limit. The client is dropped for the round; the fleet fails where several did in a row, no update was
// applied between, and no client is left that has a task.
void tern_progress_diverged(struct tern_progress *progress, const char *client,
                            enum tern_result result);

// How many tasks were dropped so, and the names of their clients.
uint32_t tern_progress_dropped(struct tern_progress *progress, char names[TERN_PROGRESS_NAMES_MAX]);

// A client has a task, or has none any more.
void tern_progress_busy(struct tern_progress *progress, bool busy);

// A client encoded and saved an update.
void tern_progress_encoded(struct tern_progress *progress, double seconds);

// The evaluator holds a version and has measured it, or passes it over: NaN.
void tern_progress_evaluation(struct tern_progress *progress, uint32_t version, double accuracy,
                              double loss);

// Likewise, of a model that tells no classes: its loss and metrics. Called before.
void tern_progress_figures(struct tern_progress *progress, uint32_t version,
                           const struct tern_evaluate_result *found);
void tern_progress_codec(struct tern_progress *progress, const char *codec);

// The federation is finished. NULL: the aggregator did not say with which model.
void tern_progress_finished(struct tern_progress *progress, const uint8_t *model_hash);

// Clients are to end, wherever they are; no more is expected of them.
void tern_progress_stop(struct tern_progress *progress);
bool tern_progress_is_stopped(struct tern_progress *progress);

// Waits up to 200 ms for a version that is complete and not shown yet: evaluated, and its updates'
// replies have had time to arrive. *version is its number.
// TERN_OK; TERN_AGAIN  none yet; TERN_ERR_NOT_FOUND  every client has ended and all are shown;
// another code: a client failed, progress->why says which and why
TERN_MUST_USE enum tern_result tern_progress_next(struct tern_progress *progress, uint32_t *version,
                                                  struct tern_progress_version *out);

#endif
