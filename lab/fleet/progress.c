#include "fleet/progress.h"
#include "hosted/system.h"
#include "util/bytes.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Milliseconds to wait after a version's evaluation: clients receive the replies to their updates shortly after the
// commit.
#define SETTLE_MS 150

// A sound run can also have a single diverging update.
#define DIVERGED_IN_A_ROW 3

void tern_progress_init(struct tern_progress *progress)
{
    memset(progress, 0, sizeof *progress);
    pthread_mutex_init(&progress->mutex, NULL);
    tern_open_sums_init(&progress->open_sums);
    pthread_cond_init(&progress->changed, NULL);
}

void tern_progress_clear(struct tern_progress *progress)
{
    free(progress->versions);
    tern_records_clear(&progress->records);
    tern_open_sums_clear(&progress->open_sums);
    pthread_cond_destroy(&progress->changed);
    pthread_mutex_destroy(&progress->mutex);
    memset(progress, 0, sizeof *progress);
}

static void lock(struct tern_progress *progress)
{
    pthread_mutex_lock(&progress->mutex);
}

static void unlock(struct tern_progress *progress)
{
    pthread_cond_signal(&progress->changed);
    pthread_mutex_unlock(&progress->mutex);
}

static void fail(struct tern_progress *progress, enum tern_result result, const char *why)
{
    if (progress->failure == TERN_OK) {
        progress->failure = result;
        snprintf(progress->why, sizeof progress->why, "%s", why);
    }
}

// Returns the entry of a version >= 1, which it creates if needed. NULL: out of memory.
static struct tern_progress_version *entry(struct tern_progress *progress, uint32_t version)
{
    if (version > progress->capacity) {
        uint32_t capacity = version + 64;
        struct tern_progress_version *grown = realloc(progress->versions, capacity * sizeof *grown);
        if (grown == NULL) {
            fail(progress, TERN_ERR_NO_MEMORY, tern_result_sentence(TERN_ERR_NO_MEMORY));
            return NULL;
        }
        memset(grown + progress->capacity, 0, (capacity - progress->capacity) * sizeof *grown);
        progress->versions = grown;
        progress->capacity = capacity;
    }
    progress->count = version > progress->count ? version : progress->count;
    return &progress->versions[version - 1];
}

void tern_progress_begin_after(struct tern_progress *progress, uint32_t version)
{
    lock(progress);
    progress->first = version;
    progress->shown = version;
    unlock(progress);
}

void tern_progress_start(struct tern_progress *progress)
{
    lock(progress);
    progress->running++;
    unlock(progress);
}

void tern_progress_end(struct tern_progress *progress, enum tern_result result, const char *why)
{
    lock(progress);
    progress->running--;
    if (result != TERN_OK) {
        fail(progress, result, why);
    }
    unlock(progress);
}

void tern_progress_task(struct tern_progress *progress, uint32_t round, uint32_t version)
{
    lock(progress);
    progress->round = round > progress->round ? round : progress->round;
    progress->newest = version > progress->newest ? version : progress->newest;
    unlock(progress);
}

static bool is_ending(const struct tern_progress *progress)
{
    return progress->over || progress->stopped || progress->failure != TERN_OK;
}

bool tern_progress_is_past(struct tern_progress *progress, uint32_t round)
{
    lock(progress);
    const bool past = progress->round > round || is_ending(progress);
    pthread_mutex_unlock(&progress->mutex);
    return past;
}

bool tern_progress_has_version(struct tern_progress *progress, uint32_t version)
{
    lock(progress);
    const bool has = progress->newest >= version || is_ending(progress);
    pthread_mutex_unlock(&progress->mutex);
    return has;
}

static void keep(struct tern_progress *progress, enum tern_result result)
{
    if (result != TERN_OK) {
        fail(progress, result, tern_result_sentence(result));
    }
}

void tern_progress_update(struct tern_progress *progress,
                          const struct tern_participation *participation)
{
    lock(progress);
    progress->diverged = 0;
    struct tern_progress_version *version = entry(progress, participation->version);
    if (version != NULL) {
        version->updates++;
        version->up += participation->up.wire;
        version->down += participation->down.wire;
    }
    keep(progress, tern_records_add(&progress->records, participation));
    unlock(progress);
}

void tern_progress_arrival(struct tern_progress *progress, const struct tern_arrival *arrival)
{
    lock(progress);
    keep(progress, tern_records_add_arrival(&progress->records, arrival));
    unlock(progress);
}

void tern_progress_trunk(struct tern_progress *progress, uint32_t version, uint64_t bytes)
{
    if (version == 0) {
        return;
    }
    lock(progress);
    struct tern_progress_version *entry_ = entry(progress, version);
    if (entry_ != NULL) {
        entry_->trunk += bytes;
    }
    unlock(progress);
}

static void note_name(char names[TERN_PROGRESS_NAMES_MAX], const char *client)
{
    const size_t used = strlen(names);
    if (strstr(names, client) != NULL) {
        return;
    }
    if (used + strlen(client) + sizeof ", , ..." < TERN_PROGRESS_NAMES_MAX) {
        snprintf(names + used, TERN_PROGRESS_NAMES_MAX - used, "%s%s", used > 0 ? ", " : "",
                 client);
    } else if (strstr(names, ", ...") == NULL) {
        snprintf(names + used, TERN_PROGRESS_NAMES_MAX - used, ", ...");
    }
}

uint32_t tern_progress_dropped(struct tern_progress *progress, char names[TERN_PROGRESS_NAMES_MAX])
{
    lock(progress);
    const uint32_t dropped = progress->dropped;
    memcpy(names, progress->dropped_names, TERN_PROGRESS_NAMES_MAX);
    pthread_mutex_unlock(&progress->mutex);
    return dropped;
}

void tern_progress_busy(struct tern_progress *progress, bool busy)
{
    lock(progress);
    progress->busy += busy ? 1 : -1U;
    unlock(progress);
}

void tern_progress_diverged(struct tern_progress *progress, const char *client,
                            enum tern_result result)
{
    char why[sizeof progress->why];
    lock(progress);
    progress->diverged++;
    progress->dropped++;
    note_name(progress->dropped_names, client);
    snprintf(why, sizeof why,
             "training diverges: %u updates in a row failed, on %s (%s). A smaller "
             "train.learning_rate usually helps, or features of one scale (scale=standard of "
             "data.source); limits.norm bounds what the aggregator takes",
             progress->diverged, progress->dropped_names, tern_result_sentence(result));
    if (progress->diverged >= DIVERGED_IN_A_ROW && progress->busy == 0) {
        fail(progress, result, why);
    }
    unlock(progress);
}

void tern_progress_encoded(struct tern_progress *progress, double seconds)
{
    lock(progress);
    progress->encode_seconds += seconds;
    progress->encoded++;
    unlock(progress);
}

void tern_progress_evaluation(struct tern_progress *progress, uint32_t version, double accuracy,
                              double loss)
{
    if (version == 0) {
        return;
    }
    lock(progress);
    struct tern_progress_version *entry_ = entry(progress, version);
    if (entry_ != NULL) {
        entry_->accuracy = accuracy;
        entry_->loss = loss;
        entry_->evaluated = true;
        entry_->evaluated_ms = tern_monotonic_ms();
        progress->evaluated = version > progress->evaluated ? version : progress->evaluated;
    }
    unlock(progress);
}

void tern_progress_figures(struct tern_progress *progress, uint32_t version,
                           const struct tern_evaluate_result *found)
{
    if (version == 0) {
        return;
    }
    lock(progress);
    struct tern_progress_version *entry_ = entry(progress, version);
    if (entry_ != NULL) {
        entry_->found = *found;
    }
    unlock(progress);
}

void tern_progress_codec(struct tern_progress *progress, const char *codec)
{
    lock(progress);
    snprintf(progress->codec, sizeof progress->codec, "%s", codec);
    unlock(progress);
}

void tern_progress_finished(struct tern_progress *progress, const uint8_t *model_hash)
{
    lock(progress);
    progress->over = true;
    if (model_hash != NULL) {
        tern_hex_encode(model_hash, TERN_SHA256_SIZE, progress->model_hash);
    }
    unlock(progress);
}

void tern_progress_stop(struct tern_progress *progress)
{
    lock(progress);
    progress->stopped = true;
    unlock(progress);
}

bool tern_progress_is_stopped(struct tern_progress *progress)
{
    lock(progress);
    const bool stopped = progress->stopped;
    pthread_mutex_unlock(&progress->mutex);
    return stopped;
}

static bool is_complete(const struct tern_progress *progress)
{
    if (progress->shown >= progress->count) {
        return false;
    }
    const struct tern_progress_version *version = &progress->versions[progress->shown];
    if (!version->evaluated) { // the evaluator skipped this version
        return progress->running == 0 && progress->shown + 1 < progress->evaluated;
    }
    return progress->running == 0 || tern_monotonic_ms() >= version->evaluated_ms + SETTLE_MS;
}

static void wait_a_moment(struct tern_progress *progress)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 200 * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    pthread_cond_timedwait(&progress->changed, &progress->mutex, &until);
}

enum tern_result tern_progress_next(struct tern_progress *progress, uint32_t *version,
                                    struct tern_progress_version *out)
{
    enum tern_result result = TERN_AGAIN;
    pthread_mutex_lock(&progress->mutex);
    if (progress->failure == TERN_OK && progress->running > 0 && !is_complete(progress)) {
        wait_a_moment(progress);
    }
    if (progress->failure != TERN_OK) {
        result = progress->failure;
    } else if (is_complete(progress)) {
        struct tern_progress_version *next = &progress->versions[progress->shown++];
        next->accuracy = next->evaluated ? next->accuracy : NAN;
        *out = *next;
        *version = progress->shown;
        result = TERN_OK;
    } else if (progress->running == 0) {
        result = TERN_ERR_NOT_FOUND;
    }
    pthread_mutex_unlock(&progress->mutex);
    return result;
}
