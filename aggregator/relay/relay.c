// Starts and stops a gateway, and runs the thread that steps its upstream client.
#define _GNU_SOURCE
#include "relay/internal.h"

#include "hosted/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// --- Opening

enum tern_result tern_relay_open(const struct tern_relay_config *config, struct tern_relay **out,
                                 char why[512])
{
    struct tern_relay *relay = calloc(1, sizeof *relay);
    if (relay == NULL) {
        snprintf(why, 512, "there is no memory for a gateway");
        return TERN_ERR_NO_MEMORY;
    }
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    relay->config = *config;
    pthread_mutex_init(&relay->lock, NULL);
    pthread_cond_init(&relay->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    const enum tern_result result = tern_relay_upstream_open(relay, why);
    if (result != TERN_OK) {
        tern_relay_close(relay);
        return result;
    }
    *out = relay;
    return TERN_OK;
}

void tern_relay_close(struct tern_relay *relay)
{
    if (relay == NULL) {
        return;
    }
    tern_relay_stop(relay);
    tern_db_close(relay->down.db);
    tern_relay_upstream_close(relay);
    pthread_cond_destroy(&relay->wake);
    pthread_mutex_destroy(&relay->lock);
    free(relay);
}

void tern_relay_configure(const struct tern_relay *relay, struct tern_service_config *config)
{
    struct tern_federation_config *federation = &config->federation;
    struct tern_upstream_training course = {
        .local_steps = federation->steps.local_steps,
        .batch_size = federation->train.batch_size,
        .learning_rate = federation->train.rate.first,
        .momentum = federation->train.momentum,
        .weight_decay = federation->train.weight_decay,
    };
    (void)!tern_relay_read_training(relay->config.folder,
                                    &course); // without a course no round is open
    federation->upstream_client = TERN_RELAY_UPSTREAM_CLIENT;
    federation->statistics.enabled = false;
    federation->final_model = TERN_FINAL_MODEL_NONE; // a gateway's model is no result
    federation->round.rounds = 0;
    federation->round.min_interval_ms = 0;
    federation->round.ending = (struct tern_ending_policy){0};
    tern_federation_config_set_training(federation, &course);
}

// --- The thread

static bool is_stopping(struct tern_relay *relay)
{
    pthread_mutex_lock(&relay->lock);
    const bool stopping = relay->stopping;
    pthread_mutex_unlock(&relay->lock);
    return stopping;
}

static void sleep_ms(struct tern_relay *relay, uint32_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const uint64_t ns = (uint64_t)until.tv_nsec + (uint64_t)(ms % 1000) * 1000000u;
    until.tv_sec += (time_t)(ms / 1000 + ns / 1000000000u);
    until.tv_nsec = (long)(ns % 1000000000u);
    pthread_mutex_lock(&relay->lock);
    while (!relay->stopping && pthread_cond_timedwait(&relay->wake, &relay->lock, &until) == 0) {
    }
    pthread_mutex_unlock(&relay->lock);
}

static void explain(const struct tern_relay *relay, enum tern_result result, char why[512])
{
    if (result == TERN_ERR_UNAUTHORIZED) {
        snprintf(why, 512,
                 "the aggregator at relay.server does not accept this gateway: it was revoked, or "
                 "relay.server is another aggregator. Updates of the devices are kept in %s. To "
                 "make a new gateway, run tern-aggregator join with another state directory",
                 relay->config.folder);
    } else {
        snprintf(why, 512, "the upstream client stopped: %s", tern_result_sentence(result));
    }
}

static void give_up(struct tern_relay *relay, enum tern_result result)
{
    char why[sizeof relay->why];
    explain(relay, result, why);
    tern_log(TERN_LOG_ERROR, "gateway-stopped", "error=%s why=%s", tern_result_name(result),
             TERN_LOG_TEXT(why));
    pthread_mutex_lock(&relay->lock);
    relay->ended = true;
    memcpy(relay->why, why, sizeof why);
    pthread_mutex_unlock(&relay->lock);
    relay->on_stopped(relay->ended_ctx);
}

static void *run(void *arg)
{
    struct tern_relay *relay = arg;
    struct tern_client *client = &relay->client;
    enum tern_result result = TERN_OK;
    bool ended = false; // downstream
    while (!is_stopping(relay) && (result == TERN_OK || result == TERN_AGAIN)) {
        result = tern_client_step(client);
        if (tern_client_phase(client) == TERN_PHASE_FINISHED && !ended) {
            ended = tern_relay_end_downstream(&relay->down) == TERN_OK;
        }
        if (result == TERN_AGAIN) {
            const bool over = tern_client_phase(client) == TERN_PHASE_FINISHED;
            sleep_ms(relay, over ? 1000 : tern_client_next_ms(client));
        }
    }
    if (result != TERN_OK && result != TERN_AGAIN) {
        give_up(relay, result);
    }
    if (tern_client_end(client) != TERN_OK) {
        tern_log(TERN_LOG_WARN, "meter-not-saved", NULL);
    }
    return NULL;
}

// A damaged record does not show which rounds are in it. All rounds so far then count as taken, because none may count twice.
static enum tern_result open_records(struct tern_relay *relay)
{
    struct relay_records *records = &relay->records;
    uint32_t newest = 0;
    TERN_TRY(tern_relay_newest_round(relay->down.db, &newest));
    const enum tern_result result =
        tern_relay_records_open(records, tern_file_store_port(relay->store));
    if (result != TERN_ERR_CORRUPT) {
        return result == TERN_OK ? tern_relay_records_limit(records, newest) : result;
    }
    records->taken = newest;
    tern_log(
        TERN_LOG_WARN, "gateway-record-damaged",
        "folder=%s taken=%u advice=\"updates of devices that were not sent upstream are lost\"",
        TERN_LOG_TEXT(relay->config.folder), records->taken);
    return TERN_OK;
}

static enum tern_result prepare(struct tern_relay *relay, struct tern_db *db, char why[512])
{
    enum tern_result result = tern_client_identify(&relay->client);
    if (result != TERN_OK) {
        snprintf(why, 512,
                 "%s holds no identity that can be read: tern-aggregator join CODE makes one",
                 relay->config.folder);
        return result;
    }
    char detail[256] = "";
    result = tern_db_open(tern_db_path(db), TERN_DB_SECOND, &relay->down.db, detail);
    if (result == TERN_OK) {
        result = open_records(relay);
    }
    if (result != TERN_OK) {
        snprintf(why, 512, "the records of the gateway cannot be read: %s",
                 detail[0] != '\0' ? detail : tern_result_sentence(result));
        return result;
    }
    return tern_relay_upstream_restore(relay, relay->down.model, why);
}

enum tern_result tern_relay_start(struct tern_relay *relay, struct tern_service *service,
                                  struct tern_db *db, const struct tern_model *model,
                                  void (*on_stopped)(void *ctx), void *ctx, char why[512])
{
    relay->on_stopped = on_stopped;
    relay->ended_ctx = ctx;
    relay->down.service = service;
    relay->down.model = model;
    relay->down.records = &relay->records;
    relay->down.folder = relay->config.folder;
    relay->down.client = &relay->client;
    TERN_TRY(prepare(relay, db, why));
    tern_relay_restore_link(relay);
    if (pthread_create(&relay->thread, NULL, run, relay) != 0) {
        snprintf(why, 512,
                 "the gateway's thread cannot be started: memory or threads are exhausted");
        return TERN_ERR_NO_MEMORY;
    }
    relay->running = true;
    return TERN_OK;
}

void tern_relay_stop(struct tern_relay *relay)
{
    if (!relay->running) {
        return;
    }
    pthread_mutex_lock(&relay->lock);
    relay->stopping = true;
    relay->abort = 1;
    pthread_cond_broadcast(&relay->wake);
    pthread_mutex_unlock(&relay->lock);
    pthread_join(relay->thread, NULL);
    relay->running = false;
}

bool tern_relay_ended(struct tern_relay *relay, char why[512])
{
    pthread_mutex_lock(&relay->lock);
    const bool ended = relay->ended;
    memcpy(why, relay->why, sizeof relay->why);
    pthread_mutex_unlock(&relay->lock);
    return ended;
}
