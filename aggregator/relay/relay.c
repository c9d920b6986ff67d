// The gateway as a client of the upstream aggregator: its ports, identity, memory and log events, and the thread that steps
// it. While upstream does not answer, a file in the folder has the time and the reason, for `status` and for the service's
// operators.
#define _GNU_SOURCE
#include "relay/internal.h"

#include "hosted/log.h"
#include "hosted/system.h"
#include "posix/system.h"
#include "posix/transport.h"
#include "tensor/manifest.h"
#include "util/text.h"
#include "version.h"
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// --- Whether upstream answers

#define LINK_FILE "silent"
#define LINK 0x314c5247u // "GRL1"

struct link_file {
    uint64_t silent_ms;
    uint32_t error;
    int32_t status;
    char why[sizeof((struct tern_service_upstream *)NULL)->why];
};

void tern_relay_read_link(const char *folder, struct tern_service_upstream *upstream)
{
    struct link_file file;
    *upstream = (struct tern_service_upstream){.is_known = true};
    if (tern_relay_file_read(folder, LINK_FILE, LINK, &file, sizeof file) == TERN_OK) {
        upstream->silent_ms = file.silent_ms;
        upstream->error = (enum tern_result)file.error;
        upstream->status = file.status;
        memcpy(upstream->why, file.why, sizeof upstream->why);
    }
}

// Stores the upstream failure for `status`. Without the file, `status` only lacks this line.
static void store_link(const struct tern_relay *relay)
{
    const struct tern_service_upstream *upstream = &relay->upstream;
    struct link_file file;
    memset(&file, 0, sizeof file); // zeroes the bytes after the NUL, too
    file.error = (uint32_t)upstream->error;
    file.status = upstream->status;
    file.silent_ms = upstream->silent_ms;
    snprintf(file.why, sizeof file.why, "%s", upstream->why);
    (void)!tern_relay_file_write(relay->config.folder, LINK_FILE, LINK, &file, sizeof file);
}

static void restore_link(struct tern_relay *relay)
{
    tern_relay_read_link(relay->config.folder, &relay->upstream);
    tern_service_set_upstream(relay->down.service, &relay->upstream);
}

static void remove_link_file(const struct tern_relay *relay)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", relay->config.folder, LINK_FILE);
    (void)unlink(path);
}

static void link_answered(struct tern_relay *relay)
{
    struct tern_service_upstream *upstream = &relay->upstream;
    const uint64_t silent_ms = upstream->silent_ms;
    if (relay->down.service == NULL) {
        return; // the gateway only enrols, and has no service
    }
    *upstream = (struct tern_service_upstream){.is_known = true, .answered_ms = tern_unix_ms()};
    tern_service_set_upstream(relay->down.service, upstream);
    if (silent_ms != 0) {
        remove_link_file(relay);
        tern_log(TERN_LOG_INFO, "upstream-answers", "server=%s after_s=%" PRIu64,
                 TERN_LOG_TEXT(relay->config.server),
                 upstream->answered_ms > silent_ms ? (upstream->answered_ms - silent_ms) / 1000
                                                   : 0);
    }
}

static uint64_t link_failed(struct tern_relay *relay, const struct tern_client_event *event)
{
    struct tern_service_upstream *upstream = &relay->upstream;
    const bool answered = event->result != TERN_ERR_NETWORK && event->result != TERN_ERR_TLS;
    const char *detail = tern_curl_why(relay->curl);
    const struct tern_service_upstream before = *upstream;
    const uint64_t now = tern_unix_ms();
    if (relay->down.service == NULL) {
        return 0;
    }
    upstream->silent_ms = before.silent_ms != 0 ? before.silent_ms : now;
    upstream->error = event->result;
    upstream->status = answered ? event->status : 0;
    snprintf(upstream->why, sizeof upstream->why, "%s",
             !answered && detail[0] != '\0' ? detail
             : event->why != NULL           ? event->why
                                            : tern_result_sentence(event->result));
    tern_utf8_show(upstream->why, strlen(upstream->why));
    if (before.silent_ms == 0 || before.error != upstream->error ||
        before.status != upstream->status || strcmp(before.why, upstream->why) != 0) {
        store_link(relay);
    }
    tern_service_set_upstream(relay->down.service, upstream);
    return now > upstream->silent_ms ? (now - upstream->silent_ms) / 1000 : 0;
}

// --- Events of the client, in the log of the gateway

static void log_upload(const struct tern_client_event *event)
{
    if (event->result == TERN_OK) {
        tern_log(TERN_LOG_INFO, "upstream-accepted",
                 "round=%u sequence=%u bytes=%" PRIu64 " round_bytes=%" PRIu64 " answer=%s",
                 event->round, event->sequence, event->bytes, event->round_bytes,
                 event->duplicate ? "duplicate" : "accepted");
        return;
    }
    tern_log(TERN_LOG_WARN, "upstream-returned",
             "round=%u sequence=%u result=%s advice=\"the update is in the gateway's error buffer, "
             "and is sent with a later one\"",
             event->round, event->sequence, tern_result_name(event->result));
}

// Logs at once that upstream does not answer or only returns errors, and what happens to the devices' updates.
static void log_silence(struct tern_relay *relay, const struct tern_client_event *event)
{
    const bool unreachable = event->result == TERN_ERR_NETWORK || event->result == TERN_ERR_TLS;
    const uint64_t for_s = link_failed(relay, event);
    tern_log(
        TERN_LOG_WARN, unreachable ? "upstream-unreachable" : "upstream-failed",
        "server=%s result=%s status=%d for_s=%" PRIu64 " wait_ms=%u why=%s detail=%s advice=%s",
        TERN_LOG_TEXT(relay->config.server), tern_result_name(event->result), event->status, for_s,
        event->wait_ms, TERN_LOG_TEXT(event->why), TERN_LOG_TEXT(tern_curl_why(relay->curl)),
        TERN_LOG_TEXT(
            "updates of devices are stored, and sent once upstream answers; until then no "
            "new round opens on this gateway"));
}

static void log_failure(struct tern_relay *relay, const struct tern_client_event *event)
{
    switch ((int)event->result) {
    case TERN_ERR_NETWORK:
    case TERN_ERR_TLS:
    case TERN_ERR_BUSY:
    case TERN_ERR_HTTP:
        log_silence(relay, event);
        break;
    default:
        tern_log(TERN_LOG_WARN, "upstream-failed",
                 "server=%s result=%s status=%d wait_ms=%u why=%s",
                 TERN_LOG_TEXT(relay->config.server), tern_result_name(event->result),
                 event->status, event->wait_ms, TERN_LOG_TEXT(event->why));
        break;
    }
}

// Whether the event shows that upstream has answered.
static bool is_answer(const struct tern_client_event *event)
{
    switch ((int)event->kind) {
    case TERN_EVENT_ENROLLED:
    case TERN_EVENT_TASK:
    case TERN_EVENT_DOWNLOADED:
    case TERN_EVENT_UPLOADED:
    case TERN_EVENT_WAITING:
    case TERN_EVENT_FINISHED:
        return true;
    default:
        return false;
    }
}

static void log_event(void *ctx, const struct tern_client_event *event)
{
    struct tern_relay *relay = ctx;
    if (is_answer(event)) {
        link_answered(relay);
    }
    switch (event->kind) {
    case TERN_EVENT_ENROLLED:
        tern_log(TERN_LOG_DEBUG, "upstream-enrolled", "client=%" PRIu64, event->client_id);
        break;
    case TERN_EVENT_STARTED_OVER:
        tern_log(TERN_LOG_WARN, "upstream-started-over", "result=%s why=%s",
                 tern_result_name(event->result), TERN_LOG_TEXT(event->why));
        break;
    case TERN_EVENT_TASK:
        tern_log(TERN_LOG_INFO, "upstream-task",
                 "round=%u version=%u local_steps=%u download=%" PRIu64, event->round,
                 event->version, event->local_steps, event->bytes);
        break;
    case TERN_EVENT_TRAINED:
        tern_log(TERN_LOG_INFO, "upstream-trained", "round=%u examples=%u loss=%.4f", event->round,
                 event->num_examples, (double)event->loss);
        break;
    case TERN_EVENT_ENCODED:
        tern_log(TERN_LOG_DEBUG, "upstream-encoded", "round=%u sequence=%u bytes=%" PRIu64,
                 event->round, event->sequence, event->bytes);
        break;
    case TERN_EVENT_UPLOADED:
        log_upload(event);
        break;
    case TERN_EVENT_FAILURE:
        log_failure(relay, event);
        break;
    case TERN_EVENT_BUDGET:
        tern_log(TERN_LOG_WARN, "upstream-budget",
                 "wait_ms=%u bytes=%" PRIu64 " left=%" PRIu64 " why=%s", event->wait_ms,
                 event->bytes, event->budget_left, TERN_LOG_TEXT(event->why));
        break;
    case TERN_EVENT_FINISHED:
        tern_log(TERN_LOG_INFO, "upstream-finished", "version=%u", event->version);
        break;
    case TERN_EVENT_WAITING:
        tern_log(TERN_LOG_DEBUG, "upstream-waits", "wait_ms=%u why=%s", event->wait_ms,
                 TERN_LOG_TEXT(event->why));
        break;
    case TERN_EVENT_DOWNLOADED:
    case TERN_EVENT_EVALUATED:
    case TERN_EVENT_PAUSED:
    case TERN_EVENT_RESUMED:
    case TERN_EVENT_TICKET:
    case TERN_EVENT_SETTLED:
    case TERN_EVENT_STATISTICS:
    case TERN_EVENT_SCALED:
    case TERN_EVENT_OTHER_COLUMNS:
    case TERN_EVENT_PROGRESS:
        break; // a gateway has no data of its own, and no conditions
    }
}

// --- Opening

static const char *name_of(struct tern_relay *relay)
{
    if (relay->config.name[0] != '\0') {
        return relay->config.name;
    }
    tern_device_name("", relay->config.folder, relay->device);
    return relay->device;
}

static bool builds_spec(void *ctx, const char *spec, const uint8_t *hash)
{
    static struct tern_model model;
    (void)ctx;
    return tern_model_build(&model, spec, NULL, 0, hash) == TERN_OK;
}

static enum tern_result init_client(struct tern_relay *relay, char why[512])
{
    const struct tern_client_config config = {
        .ports =
            {
                .transport = tern_curl_port(relay->curl),
                .store = tern_relay_records_port(&relay->records),
                .clock = tern_posix_clock(),
                .entropy = tern_posix_entropy(),
                .partial = tern_partial_file_port(relay->partial),
            },
        .name = name_of(relay),
        .platform = "gateway tern-aggregator/" TERN_VERSION,
        .wait_ms = relay->config.wait_ms,
        .budget_per_month = relay->config.budget_per_month,
        .builds_model = builds_spec,
        .takes_manifests = true,
        .passes_resets = true,
        .on_event = log_event,
        .ctx = relay,
    };
    const enum tern_result result = tern_client_init(&relay->client, &config);
    if (result != TERN_OK) {
        snprintf(why, 512, "the upstream client cannot start: %s", tern_result_sentence(result));
    }
    return result;
}

static enum tern_result open_link(struct tern_relay *relay, char why[512])
{
    const struct tern_relay_config *config = &relay->config;
    snprintf(relay->session_file, sizeof relay->session_file, "%s/tls-session", config->folder);
    const struct tern_curl_config curl = {.section = "relay",
                                          .server = config->server,
                                          .ca_file = config->ca,
                                          .certificate = config->certificate,
                                          .key = config->key,
                                          .tls = config->tls,
                                          .proxy = config->proxy,
                                          .session_file = relay->session_file};
    return tern_curl_open(&relay->curl, &curl, why);
}

static enum tern_result upstream_open(struct tern_relay *relay, char why[512])
{
    const char *folder = relay->config.folder;
    const enum tern_result result = tern_file_store_open(&relay->store, folder, why);
    if (result != TERN_OK) {
        return result == TERN_ERR_CONFLICT ? TERN_ERR_STATE : result;
    }
    if (tern_curl_global() != TERN_OK) {
        snprintf(why, 512, "libcurl cannot start");
        return TERN_ERR_NO_MEMORY;
    }
    TERN_TRY(tern_partial_file_open(&relay->partial, folder, why));
    TERN_TRY(open_link(relay, why));
    relay->records.client = &relay->client;
    relay->records.files = tern_file_store_port(relay->store);
    return init_client(relay, why);
}

// --- Enrolling

// Explains a TLS failure. A TLS alert comes from an aggregator that refuses this gateway's certificate. Other failures
// concern the aggregator's certificate.
static void explain_tls(const struct tern_relay *relay, char why[512])
{
    const char *detail = tern_curl_why(relay->curl);
    const char *ca = relay->config.ca;
    int len =
        snprintf(why, 512, "enrolling with %.100s failed, and the code is still valid: %.250s",
                 relay->config.server, detail);
    if (strstr(detail, "relay.certificate") == NULL) {
        snprintf(why + len, 512 - (size_t)len,
                 "; relay.ca (%.80s) must name a PEM file with the certificate of that aggregator "
                 "or its CA",
                 ca[0] != '\0' ? ca : "not set: the system's");
    }
}

static enum tern_result explain_enrolling(const struct tern_relay *relay, enum tern_result result,
                                          char why[512])
{
    char text[TERN_FAILURE_MAX];
    if (result == TERN_ERR_UNAUTHORIZED) {
        snprintf(why, 512,
                 "the upstream aggregator refuses this code: it is wrong, used up or expired; ask "
                 "for one made there by tern-aggregator enroll-code");
    } else if (result == TERN_ERR_MODEL_MISMATCH) {
        snprintf(why, 512,
                 "this version cannot build the upstream model: use the version of the upstream "
                 "aggregator");
    } else if (result == TERN_ERR_TLS) {
        explain_tls(relay, why);
    } else {
        snprintf(why, 512, "enrolling with %.120s failed: %s", relay->config.server,
                 tern_failure_text(&relay->client, relay->curl, result, text));
    }
    return result;
}

static enum tern_result fetch_manifest(struct tern_relay *relay, struct tern_relay_model *model,
                                       char why[512])
{
    enum tern_result result = TERN_AGAIN;
    model->manifest = malloc(TERN_MANIFEST_MAX);
    if (model->manifest == NULL) {
        snprintf(why, 512, "there is no memory for the description of the model");
        return TERN_ERR_NO_MEMORY;
    }
    while (result == TERN_AGAIN) {
        result = tern_client_manifest(&relay->client, model->manifest, TERN_MANIFEST_MAX,
                                      &model->manifest_len);
    }
    if (result != TERN_OK) {
        free(model->manifest);
        model->manifest = NULL;
        snprintf(why, 512,
                 "the description of the model could not be fetched from %s: %s %s; run "
                 "tern-aggregator join again",
                 relay->config.server, tern_result_sentence(result), tern_curl_why(relay->curl));
    }
    return result;
}

enum tern_result tern_relay_enroll(struct tern_relay *relay, const char *code,
                                   struct tern_relay_model *model, char why[512])
{
    struct tern_client *client = &relay->client;
    memset(model, 0, sizeof *model);
    enum tern_result result = tern_client_identify(client);
    if (result == TERN_ERR_NOT_FOUND) {
        do {
            result = tern_client_enroll(client, code);
        } while (result == TERN_AGAIN);
        if (result != TERN_OK) {
            return explain_enrolling(relay, result, why);
        }
        if (tern_client_end(client) != TERN_OK) {
            snprintf(why, 512, "the meter in %s could not be saved", relay->config.folder);
            return TERN_ERR_IO;
        }
    } else if (result != TERN_OK) {
        snprintf(why, 512, "the identity in %s cannot be read: %s", relay->config.folder,
                 tern_result_sentence(result));
        return result;
    }
    const struct tern_client_identity *identity = tern_client_identity(client);
    snprintf(model->spec, sizeof model->spec, "%s", identity->model_spec);
    model->seed = identity->model_seed;
    memcpy(model->hash, identity->model_hash, TERN_SHA256_SIZE);
    return identity->manifest > 0 ? fetch_manifest(relay, model, why) : TERN_OK;
}

// --- Memory

static bool take_memory(struct tern_relay *relay, const struct tern_model *model,
                        struct tern_client_workspace *workspace)
{
    const size_t values = (size_t)model->count * sizeof(float);
    const size_t buffer = tern_error_storage_bytes(workspace->error_storage, model->coded);
    uint32_t first = 0;
    const uint32_t local = tern_model_local(model, &first);
    workspace->blob_size = tern_client_blob_bound(model);
    workspace->weights = relay->weights = malloc(values);
    workspace->error_buffer = relay->error_buffer = malloc(buffer);
    workspace->velocity = relay->velocity = malloc(values);
    workspace->blob = relay->blob = malloc(workspace->blob_size);
    workspace->local = relay->local = malloc((local > 0 ? local : 1) * sizeof(float));
    relay->down.mean = malloc(values);
    return relay->weights != NULL && relay->error_buffer != NULL && relay->velocity != NULL &&
           relay->blob != NULL && relay->local != NULL && relay->down.mean != NULL;
}

static enum tern_result upstream_restore(struct tern_relay *relay, const struct tern_model *model,
                                         char why[512])
{
    struct tern_client_workspace workspace = {.model = model,
                                              .error_storage = TERN_ERROR_FLOAT32,
                                              .trainer = tern_relay_downstream_port(&relay->down)};
    if (!take_memory(relay, model, &workspace)) {
        snprintf(why, 512, "there is no memory for a gateway of this model");
        return TERN_ERR_NO_MEMORY;
    }
    const enum tern_result result = tern_client_restore(&relay->client, &workspace);
    if (result == TERN_ERR_MODEL_MISMATCH) {
        snprintf(why, 512,
                 "the federation of this gateway has another model than the upstream aggregator: "
                 "%s does not belong to this state directory",
                 relay->config.folder);
    } else if (result != TERN_OK) {
        snprintf(why, 512, "the records in %s cannot be used: %s", relay->config.folder,
                 tern_result_sentence(result));
    }
    return result;
}

static void upstream_close(struct tern_relay *relay)
{
    tern_curl_close(relay->curl);
    tern_partial_file_close(relay->partial);
    tern_file_store_close(relay->store);
    free(relay->weights);
    free(relay->error_buffer);
    free(relay->velocity);
    free(relay->blob);
    free(relay->local);
    free(relay->down.mean);
}

// --- The gateway

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
    const enum tern_result result = upstream_open(relay, why);
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
    upstream_close(relay);
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
                                    &course); // without stored parameters no round is open
    federation->upstream_client = TERN_RELAY_UPSTREAM_CLIENT;
    federation->statistics.enabled = false;
    // The upstream federation has the final model.
    federation->final_model = TERN_FINAL_MODEL_NONE;
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

static void explain_stop(const struct tern_relay *relay, enum tern_result result, char why[512])
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
    explain_stop(relay, result, why);
    tern_log(TERN_LOG_ERROR, "gateway-stopped", "error=%s why=%s", tern_result_name(result),
             TERN_LOG_TEXT(why));
    pthread_mutex_lock(&relay->lock);
    relay->ended = true;
    memcpy(relay->why, why, sizeof why);
    pthread_mutex_unlock(&relay->lock);
    relay->on_stopped(relay->ended_ctx);
}

static void *run_thread(void *arg)
{
    struct tern_relay *relay = arg;
    struct tern_client *client = &relay->client;
    enum tern_result result = TERN_OK;
    bool ended = false; // the downstream federation has ended
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
    if (result != TERN_OK && result != TERN_AGAIN && result != TERN_ERR_CANCELLED) {
        give_up(relay, result);
    }
    if (tern_client_end(client) != TERN_OK) {
        tern_log(TERN_LOG_WARN, "meter-not-saved", NULL);
    }
    return NULL;
}

// Opens the client's records. A damaged record does not show which rounds it includes. All rounds so far then count as
// included, because no round may count twice.
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
    records->included = newest;
    tern_log(
        TERN_LOG_WARN, "gateway-record-damaged",
        "folder=%s taken=%u advice=\"updates of devices that were not sent upstream are lost\"",
        TERN_LOG_TEXT(relay->config.folder), records->included);
    return TERN_OK;
}

static enum tern_result prepare(struct tern_relay *relay, struct tern_db *db, char why[512])
{
    enum tern_result result = tern_client_identify(&relay->client);
    if (result != TERN_OK) {
        snprintf(why, 512,
                 "%s contains no readable identity of a gateway; run tern-aggregator join CODE",
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
    return upstream_restore(relay, relay->down.model, why);
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
    struct tern_upstream_training training = {.undone_round = 0};
    (void)!tern_relay_read_training(relay->config.folder,
                                    &training); // missing before the first task
    relay->down.undone_round = training.undone_round;
    restore_link(relay);
    if (pthread_create(&relay->thread, NULL, run_thread, relay) != 0) {
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
    tern_client_cancel(&relay->client); // ends a transfer that is in progress
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

// --- Facts

enum tern_result tern_relay_read_facts(const char *folder, struct tern_relay_facts *facts)
{
    static struct tern_relay relay; // static, because the client is too large for the stack
    char why[512];
    memset(&relay, 0, sizeof relay);
    memset(facts, 0, sizeof *facts);
    if (access(folder, F_OK) != 0) {
        return TERN_ERR_NOT_FOUND;
    }
    relay.config = (struct tern_relay_config){.folder = folder, .server = "", .name = "gateway"};
    TERN_TRY(tern_file_store_open_reader(&relay.store, folder, why));
    relay.records.client = &relay.client;
    enum tern_result result =
        tern_relay_records_open(&relay.records, tern_file_store_port(relay.store));
    struct tern_client_config config = {
        .ports = {.transport = tern_offline_port(),
                  .store = tern_relay_records_port(&relay.records),
                  .clock = tern_posix_clock(),
                  .entropy = tern_posix_entropy()},
    };
    if (result == TERN_OK || result == TERN_ERR_CORRUPT) {
        result = tern_client_init(&relay.client, &config);
    }
    if (result == TERN_OK) {
        result = tern_client_identify(&relay.client);
    }
    if (result == TERN_OK) {
        facts->client = tern_client_identity(&relay.client)->client_id;
        facts->included = relay.records.included;
        const enum tern_result metered = tern_client_load_meter(&relay.client);
        result = metered == TERN_ERR_NOT_FOUND ? TERN_OK : metered;
        facts->meter = *tern_client_meter_all(&relay.client);
        facts->rounds = tern_client_budget(&relay.client)->rounds;
        facts->month_spent = tern_client_budget(&relay.client)->month_spent;
    }
    tern_file_store_close(relay.store);
    return result;
}
