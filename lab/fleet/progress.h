// Collects what a fleet's clients report during a run, per version of the model: applied updates, bytes, accuracy.
// Clients add from their threads; the main thread waits for lines to print. All functions are thread-safe.
#ifndef TERN_FLEET_PROGRESS_H
#define TERN_FLEET_PROGRESS_H

#include "client.h"
#include "fleet/open_sums.h"
#include "fleet/records.h"
#include <pthread.h>

#define TERN_PROGRESS_NAMES_MAX 96

struct tern_progress_version {
    uint32_t updates;  // applied updates in this version
    uint64_t up, down; // wire bytes of the rounds of their clients
    uint64_t trunk;    // bytes of the evaluator's downloads from the version before
    double accuracy;   // NaN: not measured
    double loss;       // valid if measured
    // of a model that is not a classifier; num_examples 0: not measured
    struct tern_evaluate_result found;
    bool evaluated;
    uint64_t evaluated_ms; // monotonic
};

struct tern_progress {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct tern_progress_version *versions; // [0] is version 1
    uint32_t count;
    uint32_t capacity;
    uint32_t first;     // newest version of an earlier run
    uint32_t shown;     // newest version that is printed, or `first`
    uint32_t evaluated; // newest version that the evaluator has measured or skipped
    uint32_t running;   // clients whose threads run
    uint32_t round;     // newest round that a client has a task of
    uint32_t newest;    // newest version in a client's task
    bool over;          // a client received "finished"
    bool stopped;       // the fleet ends before the federation finishes
    struct tern_records records;
    struct tern_open_sums open_sums; // of secure rounds; has a mutex of its own
    double encode_seconds;           // total time for encoding and saving updates
    uint64_t encoded;
    uint32_t diverged;                           // diverging updates since the last applied one
    uint32_t busy;                               // clients with a task
    uint32_t dropped;                            // tasks dropped because training diverged
    char dropped_names[TERN_PROGRESS_NAMES_MAX]; // their clients: "fleet-0002, fleet-0007, ..."
    char codec[TERN_CODEC_SPEC_MAX];
    char model_hash[2 * TERN_SHA256_SIZE + 1];
    enum tern_result failure; // first failure of a client; TERN_OK: none
    char why[448];
};

void tern_progress_init(struct tern_progress *progress);
void tern_progress_clear(struct tern_progress *progress);

// Continues from an earlier run's version: the first one printed is the next. Called before any client starts.
void tern_progress_begin_after(struct tern_progress *progress, uint32_t version);

// Counts a client that starts or ends (TERN_OK), or records its failure.
void tern_progress_start(struct tern_progress *progress);
void tern_progress_end(struct tern_progress *progress, enum tern_result result, const char *why);

// Records that a client has a task of this round, based on this version.
void tern_progress_task(struct tern_progress *progress, uint32_t round, uint32_t version);

// Return whether a task of a later round, or this version, was seen; true also if the federation finished, the fleet
// stops or a client failed.
bool tern_progress_is_past(struct tern_progress *progress, uint32_t round);
bool tern_progress_has_version(struct tern_progress *progress, uint32_t version);

// Records an applied update.
void tern_progress_update(struct tern_progress *progress,
                          const struct tern_participation *participation);

// Records that a client that joined late or was away holds the newest version.
void tern_progress_arrival(struct tern_progress *progress, const struct tern_arrival *arrival);

// Adds bytes that the evaluator downloaded to reach a version.
void tern_progress_trunk(struct tern_progress *progress, uint32_t version, uint64_t bytes);

// Drops a client for the round because training or update diverged: a value is not finite, or the norm exceeds the
// limit. The fleet fails after several in a row without an applied update, when no client has a task.
void tern_progress_diverged(struct tern_progress *progress, const char *client,
                            enum tern_result result);

// Returns the number of dropped tasks, and the names of their clients.
uint32_t tern_progress_dropped(struct tern_progress *progress, char names[TERN_PROGRESS_NAMES_MAX]);

// Counts a client as busy with a task, or idle.
void tern_progress_busy(struct tern_progress *progress, bool busy);

// Adds the time for encoding and saving an update.
void tern_progress_encoded(struct tern_progress *progress, double seconds);

// Records that the evaluator measured a version, or with NaN skipped it.
void tern_progress_evaluation(struct tern_progress *progress, uint32_t version, double accuracy,
                              double loss);

// Records loss and metrics of a model that is not a classifier. Called before tern_progress_evaluation().
void tern_progress_figures(struct tern_progress *progress, uint32_t version,
                           const struct tern_evaluate_result *found);
void tern_progress_codec(struct tern_progress *progress, const char *codec);

// Records that the federation finished. NULL: the aggregator sent no model hash.
void tern_progress_finished(struct tern_progress *progress, const uint8_t *model_hash);

// Asks all clients to end at once.
void tern_progress_stop(struct tern_progress *progress);
bool tern_progress_is_stopped(struct tern_progress *progress);

// Waits up to 200 ms for the next version that is complete and not printed: evaluated, and its updates' replies have
// had time to arrive. *version: its number.
// TERN_OK
// TERN_AGAIN          none yet
// TERN_ERR_NOT_FOUND  all clients have ended and all versions are printed
// another code        a client failed; progress->why has client and reason
TERN_MUST_USE enum tern_result tern_progress_next(struct tern_progress *progress, uint32_t *version,
                                                  struct tern_progress_version *out);

#endif
