// Measures a round's bytes beyond its bodies: a real client talks to a real aggregator, and each exchange is metered
// at the socket. Overhead = bytes of the TCP stream in both directions, less the bodies of request and reply. The
// trainer only changes every weight a little.
#include "client.h"
#include "fleet/memory_store.h"
#include "meter/meter.h"
#include "posix/conditions.h"
#include "posix/system.h"
#include "posix/transport.h"
#include "tensor/model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 12         // updates to send
#define RECONNECT_AFTER 8 // number of updates after which the connection is closed once

// Totals of one purpose over exchanges on an open connection.
struct purpose_total {
    uint64_t exchanges;
    uint64_t wire;
    uint64_t tls;
    uint64_t http;
    uint64_t bodies;
};

// Bytes of one handshake, both directions.
struct handshake {
    uint64_t tls;
    uint64_t wire;
};

// A transport that meters each exchange and forwards it to the real transport.
struct metered {
    struct tern_transport inner;
    struct tern_meter pending; // not yet collected by the client
    struct purpose_total warm[TERN_PURPOSE_COUNT];
    struct handshake handshakes[8]; // in chronological order
    uint32_t handshake_count;
};

static void count(struct metered *metered, const struct tern_meter *delta,
                  enum tern_purpose purpose, size_t bodies)
{
    const struct tern_bytes *handshake = delta->bytes[TERN_PURPOSE_HANDSHAKE];
    uint64_t handshake_tls = handshake[TERN_UP].tls + handshake[TERN_DOWN].tls;
    if (handshake_tls > 0 && metered->handshake_count < 8) {
        metered->handshakes[metered->handshake_count++] = (struct handshake){
            .tls = handshake_tls,
            .wire = handshake[TERN_UP].wire + handshake[TERN_DOWN].wire,
        };
    }
    if (handshake_tls == 0) {
        struct purpose_total *total = &metered->warm[purpose];
        const struct tern_bytes *bytes = delta->bytes[purpose];
        total->exchanges++;
        total->wire += bytes[TERN_UP].wire + bytes[TERN_DOWN].wire;
        total->tls += bytes[TERN_UP].tls + bytes[TERN_DOWN].tls;
        total->http += bytes[TERN_UP].http + bytes[TERN_DOWN].http;
        total->bodies += bodies;
    }
}

static enum tern_result exchange(void *ctx, const struct tern_request *request,
                                 struct tern_response *response)
{
    struct metered *metered = ctx;
    struct tern_meter delta = {0};
    enum tern_result result = metered->inner.exchange(metered->inner.ctx, request, response);
    if (result != TERN_AGAIN) {
        metered->inner.collect(metered->inner.ctx, &delta);
        tern_meter_add(&metered->pending, &delta);
    }
    if (result == TERN_OK) {
        count(metered, &delta, request->purpose, request->body_len + response->body_len);
    }
    return result;
}

static void close_connection(void *ctx)
{
    struct metered *metered = ctx;
    metered->inner.close(metered->inner.ctx);
}

static void collect(void *ctx, struct tern_meter *meter)
{
    struct metered *metered = ctx;
    metered->inner.collect(metered->inner.ctx, &metered->pending);
    tern_meter_add(meter, &metered->pending);
    memset(&metered->pending, 0, sizeof metered->pending);
}

// --- A trainer that learns nothing: weights + a seeded pattern

struct pattern {
    float *weights;
    uint32_t count;
};

static enum tern_result begin(void *ctx, const struct tern_train_task *task, const float *base,
                              uint32_t values)
{
    struct pattern *pattern = ctx;
    struct tern_prng rng;
    tern_prng_init(&rng, task->seed, TERN_PRNG_TEST, task->round, 0);
    for (uint32_t i = 0; i < values; i++) {
        float a = tern_prng_float(&rng) - 0.5f;
        pattern->weights[i] = base[i] + 0.01f * a * a * a; // cubed, so that most changes are small
    }
    return TERN_OK;
}

static enum tern_result step(void *ctx, float **weights, struct tern_train_result *result)
{
    const struct pattern *pattern = ctx;
    *weights = pattern->weights;
    *result = (struct tern_train_result){.num_examples = 100, .local_steps = 20, .loss = 1};
    return TERN_OK;
}

static enum tern_result evaluate(void *ctx, const float *weights, uint32_t values,
                                 struct tern_evaluate_result *result)
{
    (void)ctx;
    (void)weights;
    (void)values;
    (void)result;
    return TERN_ERR_NOT_FOUND;
}

// --- The run

static uint32_t uploads;

static void on_event(void *ctx, const struct tern_client_event *event)
{
    (void)ctx;
    if (event->kind == TERN_EVENT_UPLOADED) {
        uploads++;
    } else if (event->kind == TERN_EVENT_FAILURE) {
        fprintf(stderr, "bench-protocol: %s\n", event->why);
    }
}

static enum tern_result run(struct tern_client *client, struct metered *metered)
{
    bool reconnected = false;
    while (uploads < ROUNDS && tern_client_phase(client) != TERN_PHASE_FINISHED) {
        enum tern_result result = tern_client_step(client);
        if (result == TERN_AGAIN) {
            const struct timespec moment = {.tv_nsec = 5 * 1000000};
            nanosleep(&moment, NULL);
        } else if (result != TERN_OK) {
            return result;
        }
        if (uploads == RECONNECT_AFTER && !reconnected) {
            reconnected = true;
            metered->inner.close(metered->inner.ctx);
        }
    }
    return TERN_OK;
}

static enum tern_result prepare(struct tern_client *client, struct tern_model *model,
                                struct pattern *pattern, const char *join_code)
{
    enum tern_result result;
    do {
        result = tern_client_enroll(client, join_code);
    } while (result == TERN_AGAIN);
    TERN_TRY(result);
    TERN_TRY(tern_model_from_spec(model, tern_client_identity(client)->model_spec));
    pattern->count = model->count;
    pattern->weights = calloc(model->count, sizeof(float));
    struct tern_client_workspace workspace = {
        .model = model,
        .trainer = {.ctx = pattern, .begin = begin, .step = step, .evaluate = evaluate},
        .weights = calloc(model->count, sizeof(float)),
        .error_buffer = calloc(model->coded, sizeof(float)),
        .blob = malloc(tern_client_blob_bound(model)),
        .blob_size = tern_client_blob_bound(model)};
    if (pattern->weights == NULL || workspace.weights == NULL || workspace.error_buffer == NULL ||
        workspace.blob == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    return tern_client_restore(client, &workspace); // freed when the process ends
}

static double per_exchange(uint64_t bytes, const struct purpose_total *total)
{
    return total->exchanges > 0 ? (double)bytes / (double)total->exchanges : 0;
}

// Returns the mean bytes per exchange beyond the bodies.
static double overhead(uint64_t bytes, const struct purpose_total *total)
{
    return per_exchange(bytes - total->bodies, total);
}

static void report(const struct metered *metered)
{
    static const enum tern_purpose purposes[] = {TERN_PURPOSE_CHECKIN, TERN_PURPOSE_DOWNLOAD,
                                                 TERN_PURPOSE_UPLOAD};
    double tls = 0;
    double wire = 0;
    printf("{");
    for (int i = 0; i < 3; i++) {
        const char *name = tern_purpose_name(purposes[i]);
        const struct purpose_total *total = &metered->warm[purposes[i]];
        tls += overhead(total->tls, total);
        wire += overhead(total->wire, total);
        printf("\"%s_overhead\": %.0f, \"%s_http_headers\": %.0f, \"%s_body\": %.0f,\n ", name,
               overhead(total->tls, total), name, overhead(total->http, total), name,
               per_exchange(total->bodies, total));
        printf("\"%s_wire\": %.0f, \"%s_wire_modelled\": %llu,\n ", name,
               per_exchange(total->wire, total), name,
               (unsigned long long)tern_price(TERN_PRICE_KEPT, 1,
                                              (uint64_t)per_exchange(total->bodies, total)));
    }
    printf("\"warm_round_overhead\": %.0f, \"warm_round_wire_overhead\": %.0f", tls, wire);
    static const char *const names[] = {"full", "ticket"};
    static const unsigned modelled[] = {TERN_PRICE_FULL, TERN_PRICE_RESUMED};
    for (uint32_t i = 0; i < 2 && i < metered->handshake_count; i++) {
        printf(",\n \"%s_handshake\": %llu, \"%s_handshake_wire\": %llu, "
               "\"%s_handshake_wire_modelled\": %u",
               names[i], (unsigned long long)metered->handshakes[i].tls, names[i],
               (unsigned long long)metered->handshakes[i].wire, names[i], modelled[i]);
    }
    printf("}\n");
}

int main(int argc, char **argv)
{
    static struct tern_client client;
    static struct tern_model model;
    static struct metered metered;
    static struct tern_memory_store memory;
    static struct tern_posix_conditions conditions;
    static struct pattern pattern;
    struct tern_curl *curl = NULL;
    char why[512] = "";
    if (argc != 4) {
        fprintf(stderr, "usage: bench-protocol https://HOST:PORT CA.pem JOIN_CODE\n");
        return 2;
    }
    const struct tern_curl_config transport = {.server = argv[1], .ca_file = argv[2]};
    enum tern_result result = tern_curl_global();
    if (result == TERN_OK) {
        result = tern_curl_open(&curl, &transport, why);
    }
    if (result == TERN_OK) {
        metered.inner = tern_curl_port(curl);
        struct tern_client_config config = {
            .ports = {.transport = {&metered, exchange, close_connection, collect},
                      .store = tern_memory_store_port(&memory),
                      .clock = tern_posix_clock(),
                      .entropy = tern_posix_entropy(),
                      .conditions = tern_posix_conditions_port(&conditions)},
            .name = "bench",
            .wait_ms = 1000,
            .on_event = on_event};
        result = tern_client_init(&client, &config);
    }
    if (result == TERN_OK) {
        result = prepare(&client, &model, &pattern, argv[3]);
    }
    if (result == TERN_OK) {
        result = run(&client, &metered);
    }
    if (result != TERN_OK) {
        fprintf(stderr, "bench-protocol: %s %s\n", tern_result_sentence(result), why);
        return 1;
    }
    report(&metered);
    tern_curl_close(curl);
    return 0;
}
