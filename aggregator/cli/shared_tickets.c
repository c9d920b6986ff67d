#define _GNU_SOURCE
#include "cli/shared_tickets.h"

#include "cli/state.h"
#include "hosted/log.h"
#include "http/tickets.h"
#include "store/store.h"
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Less than TERN_TICKET_LEAD_S by far, so that all have a key before one of them seals with it.
#define INTERVAL_S 60

// Keys that nobody has changed for so long are of a private key that is not in use any more.
#define KEEP_MS (2 * (TERN_TICKET_LIFETIME_S + TERN_TICKET_ROTATION_S) * UINT64_C(1000))

#define SEALED_SIZE (TERN_TICKET_KEYS_SIZE + TERN_TICKET_SEALED_OVERHEAD)

struct tern_shared_tickets {
    char database[1024];
    char private_key[PATH_MAX];
    struct tern_ticket_keys *keys;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool stopping; // under the lock
    bool has_said; // that they could not be had
};

// The keys as bytes, a secret.
struct bytes {
    uint8_t data[TERN_TICKET_KEYS_SIZE];
    size_t len;
};

// --- One exchange

// What the database has, or NOT_FOUND: nothing, or nothing that can be opened, which is said.
static enum tern_result read_row(struct tern_db *db, const struct tern_ticket_sealer *sealer,
                                 struct bytes *bytes)
{
    uint8_t sealed[SEALED_SIZE + 1];
    size_t len = 0;
    TERN_TRY(tern_db_ticket_keys_get(db, sealer->id, sealed, sizeof sealed, &len));
    if (len <= SEALED_SIZE &&
        tern_ticket_sealer_open(sealer, sealed, len, bytes->data) == TERN_OK) {
        bytes->len = len - TERN_TICKET_SEALED_OVERHEAD;
        return TERN_OK;
    }
    tern_log(TERN_LOG_WARN, "ticket-keys-damaged",
             "why=\"the keys of session tickets in the database are damaged: new ones take their "
             "place, and clients "
             "pay a full handshake once\"");
    return TERN_ERR_NOT_FOUND;
}

static enum tern_result write_row(struct tern_db *db, const struct tern_ticket_sealer *sealer,
                                  const struct bytes *bytes)
{
    uint8_t sealed[SEALED_SIZE];
    const uint64_t now_ms = tern_now_ms();
    TERN_TRY(tern_ticket_sealer_seal(sealer, bytes->data, bytes->len, sealed));
    TERN_TRY(tern_db_ticket_keys_put(db, sealer->id, sealed,
                                     bytes->len + TERN_TICKET_SEALED_OVERHEAD, now_ms));
    return tern_db_ticket_keys_drop(db, now_ms > KEEP_MS ? now_ms - KEEP_MS : 0);
}

// The keys of all, and the next one where it is due; own: what they are where nobody has any. *changed: they are not
// those of the database.
static enum tern_result find_keys(struct tern_db *db, const struct tern_ticket_sealer *sealer,
                                  const struct bytes *own, struct bytes *found, bool *changed)
{
    const enum tern_result result = read_row(db, sealer, found);
    if (result != TERN_OK && result != TERN_ERR_NOT_FOUND) {
        return result;
    }
    if (result == TERN_ERR_NOT_FOUND) {
        *found = *own;
    }
    const size_t len = found->len;
    if (tern_ticket_keys_extend(found->data, &found->len, tern_now_ms() / 1000) != TERN_OK) {
        return TERN_ERR_CORRUPT;
    }
    *changed = result == TERN_ERR_NOT_FOUND || found->len != len;
    return TERN_OK;
}

static enum tern_result write_keys(struct tern_db *db, const struct tern_ticket_sealer *sealer,
                                   const struct bytes *own, struct bytes *found)
{
    bool changed = false;
    TERN_TRY(tern_db_begin(db)); // nobody else writes from here on
    enum tern_result result = find_keys(db, sealer, own, found, &changed);
    if (result == TERN_OK && changed) {
        result = write_row(db, sealer, found);
    }
    return tern_db_conclude(db, result);
}

// Most often there is nothing to write.
static enum tern_result exchange(struct tern_db *db, const struct tern_ticket_sealer *sealer,
                                 const struct bytes *own, struct bytes *found)
{
    bool changed = false;
    TERN_TRY(tern_db_begin_reading(db));
    const enum tern_result result = find_keys(db, sealer, own, found, &changed);
    tern_db_rollback(db);
    return result == TERN_OK && changed ? write_keys(db, sealer, own, found) : result;
}

static enum tern_result exchange_keys(const char *database, const char *private_key,
                                      struct tern_ticket_keys *keys, char why[256])
{
    struct tern_ticket_sealer sealer;
    struct tern_db *db = NULL;
    struct bytes own;
    struct bytes found;
    TERN_TRY(tern_ticket_sealer_make(private_key, &sealer, why));
    own.len = tern_ticket_keys_write(keys, own.data);
    enum tern_result result = tern_db_open(database, TERN_DB_SECOND, &db, why);
    if (result == TERN_OK) {
        result = exchange(db, &sealer, &own, &found);
        snprintf(why, 256, "%s", tern_db_error(db));
    }
    if (result == TERN_OK) {
        result = tern_ticket_keys_replace(keys, found.data, found.len);
    }
    tern_db_close(db);
    tern_ticket_sealer_wipe(&sealer);
    explicit_bzero(&own, sizeof own);
    explicit_bzero(&found, sizeof found);
    return result;
}

static void say(enum tern_result result, const char *why)
{
    tern_log(TERN_LOG_WARN, "ticket-keys-not-shared", "error=%s detail=%s",
             tern_result_name(result), TERN_LOG_TEXT(why));
}

void tern_shared_tickets_begin(const struct tern_shared_tickets_config *config)
{
    struct tern_ticket_keys *keys = NULL;
    char why[256] = "";
    if (tern_ticket_keys_open(config->file, tern_now_ms() / 1000, &keys, why) != TERN_OK) {
        return; // the server says so
    }
    const enum tern_result result = exchange_keys(config->database, config->private_key, keys, why);
    if (result != TERN_OK) {
        say(result, why);
    }
    tern_ticket_keys_close(keys);
}

// --- The thread

static void look(struct tern_shared_tickets *shared)
{
    char why[256] = "";
    const enum tern_result result =
        exchange_keys(shared->database, shared->private_key, shared->keys, why);
    if (result != TERN_OK && !shared->has_said) {
        say(result, why);
    }
    shared->has_said = result != TERN_OK;
}

// False: it is to stop.
static bool wait_for_next(struct tern_shared_tickets *shared)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += INTERVAL_S;
    int waited = 0;
    pthread_mutex_lock(&shared->lock);
    while (!shared->stopping && waited == 0) {
        waited = pthread_cond_timedwait(&shared->woken, &shared->lock, &until);
    }
    const bool goes_on = !shared->stopping;
    pthread_mutex_unlock(&shared->lock);
    return goes_on;
}

static void *run(void *arg)
{
    struct tern_shared_tickets *shared = arg;
    while (wait_for_next(shared)) {
        look(shared);
    }
    return NULL;
}

static void free_shared(struct tern_shared_tickets *shared)
{
    pthread_cond_destroy(&shared->woken);
    pthread_mutex_destroy(&shared->lock);
    free(shared);
}

enum tern_result tern_shared_tickets_start(const struct tern_shared_tickets_config *config,
                                           struct tern_ticket_keys *keys,
                                           struct tern_shared_tickets **out)
{
    pthread_condattr_t monotonic;
    struct tern_shared_tickets *shared = calloc(1, sizeof *shared);
    if (shared == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    snprintf(shared->database, sizeof shared->database, "%s", config->database);
    snprintf(shared->private_key, sizeof shared->private_key, "%s", config->private_key);
    shared->keys = keys;
    tern_ticket_keys_share(keys);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&shared->lock, NULL);
    pthread_cond_init(&shared->woken, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&shared->thread, NULL, run, shared) != 0) {
        free_shared(shared);
        return TERN_ERR_NO_MEMORY;
    }
    *out = shared;
    return TERN_OK;
}

void tern_shared_tickets_stop(struct tern_shared_tickets *shared)
{
    if (shared == NULL) {
        return;
    }
    pthread_mutex_lock(&shared->lock);
    shared->stopping = true;
    pthread_cond_signal(&shared->woken);
    pthread_mutex_unlock(&shared->lock);
    pthread_join(shared->thread, NULL);
    free_shared(shared);
}
