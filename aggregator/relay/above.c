// The client above: its ports, its identity, and the memory for its model.
#define _GNU_SOURCE
#include "relay/above.h"

#include "posix/failure.h"
#include "posix/offline.h"
#include "posix/system.h"
#include "tensor/manifest.h"
#include "version.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
        .on_event = tern_relay_say,
        .ctx = relay,
    };
    const enum tern_result result = tern_client_init(&relay->client, &config);
    if (result != TERN_OK) {
        snprintf(why, 512, "the client of the aggregator above cannot start: %s",
                 tern_result_sentence(result));
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
                                          .session_file = relay->session_file,
                                          .abort = &relay->abort};
    return tern_curl_open(&relay->curl, &curl, why);
}

enum tern_result tern_relay_above_open(struct tern_relay *relay, char why[512])
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

// An alert comes from an aggregator that refuses this gateway; all else is about that one's certificate.
static void explain_tls(const struct tern_relay *relay, char why[512])
{
    const char *detail = tern_curl_why(relay->curl);
    const char *ca = relay->config.ca;
    int len = snprintf(why, 512, "enrolling with %.100s failed, and the code is good still: %.250s",
                       relay->config.server, detail);
    if (strstr(detail, "relay.certificate") == NULL) {
        snprintf(why + len, 512 - (size_t)len,
                 "; relay.ca (%.80s) must be its CA's certificate, or its own, in PEM",
                 ca[0] != '\0' ? ca : "not set: the system's");
    }
}

static enum tern_result explain_enrolling(const struct tern_relay *relay, enum tern_result result,
                                          char why[512])
{
    char text[TERN_FAILURE_MAX];
    if (result == TERN_ERR_UNAUTHORIZED) {
        snprintf(
            why, 512,
            "the aggregator above does not take this code: it is wrong, used up or expired; ask "
            "for one made there by tern-aggregator enroll-code");
    } else if (result == TERN_ERR_MODEL_MISMATCH) {
        snprintf(why, 512,
                 "the model above is none that this version builds: use the tern-aggregator of the "
                 "aggregator above");
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
                 "the description of the model could not be fetched from %s: %s %s; join again to "
                 "try once more",
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
    relay->below.mean = malloc(values);
    return relay->weights != NULL && relay->error_buffer != NULL && relay->velocity != NULL &&
           relay->blob != NULL && relay->local != NULL && relay->below.mean != NULL;
}

enum tern_result tern_relay_above_restore(struct tern_relay *relay, const struct tern_model *model,
                                          char why[512])
{
    struct tern_client_workspace workspace = {.model = model,
                                              .error_storage = TERN_ERROR_FLOAT32,
                                              .trainer = tern_relay_below_port(&relay->below)};
    if (!take_memory(relay, model, &workspace)) {
        snprintf(why, 512, "there is no memory for a gateway of this model");
        return TERN_ERR_NO_MEMORY;
    }
    const enum tern_result result = tern_client_restore(&relay->client, &workspace);
    if (result == TERN_ERR_MODEL_MISMATCH) {
        snprintf(why, 512,
                 "the federation of this gateway is of another model than the aggregator above it: "
                 "%s does not belong to this state directory",
                 relay->config.folder);
    } else if (result != TERN_OK) {
        snprintf(why, 512, "the records in %s cannot be used: %s", relay->config.folder,
                 tern_result_sentence(result));
    }
    return result;
}

void tern_relay_above_close(struct tern_relay *relay)
{
    tern_curl_close(relay->curl);
    tern_partial_file_close(relay->partial);
    tern_file_store_close(relay->store);
    free(relay->weights);
    free(relay->error_buffer);
    free(relay->velocity);
    free(relay->blob);
    free(relay->local);
    free(relay->below.mean);
}

// --- Looking

enum tern_result tern_relay_look(const char *folder, struct tern_relay_facts *facts)
{
    static struct tern_relay relay; // the client is large
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
        facts->taken = relay.records.taken;
        const enum tern_result metered = tern_client_load_meter(&relay.client);
        result = metered == TERN_ERR_NOT_FOUND ? TERN_OK : metered;
        facts->meter = *tern_client_meter_all(&relay.client);
        facts->rounds = tern_client_budget(&relay.client)->rounds;
        facts->month_spent = tern_client_budget(&relay.client)->month_spent;
    }
    tern_file_store_close(relay.store);
    return result;
}
