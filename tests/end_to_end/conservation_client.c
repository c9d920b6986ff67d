// A client whose local changes can be recognised, for the test of conservation. Round r changes
// block r of the first tensor by 1, 1/2, 1/4, ... and nothing else. So, over everything that was
// applied plus what the error buffer holds, block r must be there once or not at all, and the
// number of blocks that are there must be the number of updates the client ever encoded.
//
//   conservation_client run SERVER CA DIR CODE [--settle]
//     enrols when DIR is new, then works until killed; with --settle only until the pending update,
//     if any, is answered
//   conservation_client buffer DIR            prints generation, sequence, pending bytes, buffer
//   conservation_client applied DB CLIENT     prints, for each value, the sum of the client's stored
//                                             updates, and what directives took from its buffer
#include "client.h"
#include "codec/container.h"
#include "posix/conditions.h"
#include "posix/file_store.h"
#include "posix/system.h"
#include "posix/transport.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BLOCK 8
#define STEPS 2

static void fail(const char *what, enum tern_result result)
{
    fprintf(stderr, "conservation_client: %s: %s\n", what, tern_result_name(result));
    exit(1);
}

static void sleep_ms(uint32_t ms)
{
    struct timespec time = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

// --- Trainer

struct marker {
    float *weights;
    uint32_t count;
    uint32_t round;
    uint32_t left;
};

static enum tern_result begin(void *ctx, const struct tern_train_task *task, const float *base,
                              uint32_t count)
{
    struct marker *marker = ctx;
    if (count != marker->count || (size_t)task->round * BLOCK + BLOCK > count) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    tern_train_start(task, base, marker->weights, count);
    marker->round = task->round;
    marker->left = STEPS;
    return TERN_OK;
}

static enum tern_result step(void *ctx, float **weights, struct tern_train_result *result)
{
    struct marker *marker = ctx;
    sleep_ms(5);
    if (--marker->left != 0) {
        return TERN_AGAIN;
    }
    for (uint32_t i = 0; i < BLOCK; i++) {
        marker->weights[marker->round * BLOCK + i] += 1.0f / (float)(1u << i);
    }
    *weights = marker->weights;
    *result = (struct tern_train_result){.num_examples = 10, .local_steps = STEPS, .loss = 1.0f};
    return TERN_OK;
}

static enum tern_result evaluate(void *ctx, const float *weights, uint32_t count,
                                 struct tern_evaluate_result *result)
{
    (void)ctx, (void)weights, (void)count, (void)result;
    return TERN_ERR_NOT_FOUND;
}

// --- Running

static void say(void *ctx, const struct tern_client_event *event)
{
    (void)ctx;
    printf("%s round %u sequence %u %s%s %s\n", tern_client_event_name(event->kind), event->round,
           event->sequence, tern_result_name(event->result), event->duplicate ? " duplicate" : "",
           event->why != NULL ? event->why : "");
    fflush(stdout);
}

struct rig {
    struct tern_client client;
    struct tern_model model;
    struct marker marker;
    struct tern_client_workspace work;
    struct tern_posix_conditions conditions;
};

static void open_ports(struct tern_ports *ports, struct rig *rig, const char *server,
                       const char *ca, const char *directory)
{
    char why[512];
    struct tern_curl *curl = NULL;
    struct tern_file_store *store = NULL;
    const struct tern_curl_config config = {.server = server, .ca_file = ca};
    if (tern_curl_global() != TERN_OK || tern_curl_open(&curl, &config, why) != TERN_OK ||
        tern_file_store_open(&store, directory, why) != TERN_OK) {
        fail(why, TERN_ERR_IO);
    }
    ports->transport = tern_curl_port(curl);
    ports->store = tern_file_store_port(store);
    ports->clock = tern_posix_clock();
    ports->entropy = tern_posix_entropy();
    ports->conditions = tern_posix_conditions_port(&rig->conditions);
}

static void take_workspace(struct rig *rig)
{
    const struct tern_client_identity *identity = tern_client_identity(&rig->client);
    if (tern_model_from_spec(&rig->model, identity->model_spec) != TERN_OK) {
        fail("model", TERN_ERR_MODEL_MISMATCH);
    }
    rig->marker.count = rig->model.count;
    rig->marker.weights = calloc(rig->model.count, sizeof(float));
    rig->work.model = &rig->model;
    rig->work.trainer = (struct tern_trainer){
        .ctx = &rig->marker, .begin = begin, .step = step, .evaluate = evaluate};
    rig->work.weights = calloc(rig->model.count, sizeof(float));
    rig->work.error_buffer = calloc(rig->model.count, sizeof(float));
    rig->work.blob_size = tern_client_blob_bound(&rig->model);
    rig->work.blob = malloc(rig->work.blob_size);
    enum tern_result result = tern_client_restore(&rig->client, &rig->work);
    if (result != TERN_OK) {
        fail("restore", result);
    }
}

static int run(struct rig *rig, const char *server, const char *ca, const char *directory,
               const char *code, bool settle)
{
    struct tern_client_config config = {.name = "conservation",
                                        .wait_ms = 2000,
                                        .timeout_ms = 3000,
                                        .retry_min_ms = 20,
                                        .retry_max_ms = 200,
                                        .on_event = say};
    open_ports(&config.ports, rig, server, ca, directory);
    enum tern_result result = tern_client_init(&rig->client, &config);
    if (result != TERN_OK) {
        fail("init", result);
    }
    if (tern_client_identify(&rig->client) != TERN_OK) {
        result = tern_client_enroll(&rig->client, code);
        if (result != TERN_OK) {
            fail("enroll", result);
        }
    }
    take_workspace(rig);
    while (!settle || tern_client_pending(&rig->client)->len != 0) {
        result = tern_client_step(&rig->client);
        if (result == TERN_AGAIN && tern_client_phase(&rig->client) == TERN_PHASE_FINISHED) {
            return 0;
        }
        if (result == TERN_AGAIN) {
            sleep_ms(tern_client_next_ms(&rig->client));
        } else if (result != TERN_OK) {
            fail("step", result);
        }
    }
    return 0;
}

// --- Reading the books

static int print_buffer(struct rig *rig, const char *directory)
{
    struct tern_client_config config = {.name = "conservation"};
    open_ports(&config.ports, rig, "https://localhost:1", NULL, directory);
    if (tern_client_init(&rig->client, &config) != TERN_OK ||
        tern_client_identify(&rig->client) != TERN_OK) {
        fail("identify", TERN_ERR_NOT_FOUND);
    }
    take_workspace(rig);
    printf("%llu %u %u\n", (unsigned long long)rig->client.identity.client_id, rig->client.sequence,
           tern_client_pending(&rig->client)->len);
    const float *buffer = rig->work.error_buffer;
    for (uint32_t i = 0; i < rig->model.count; i++) {
        printf("%.9g\n", (double)buffer[i]);
    }
    return 0;
}

struct applied {
    uint64_t client;
    struct tern_model model;
    float *sum;
    float *buffer;  // as it follows from what is stored
    float *dropped; // what directives took from it
    unsigned updates;
};

static enum tern_result add_update(void *ctx, const struct tern_db_update *update)
{
    struct applied *applied = ctx;
    if (update->client != applied->client) {
        return TERN_OK;
    }
    tern_Update message;
    struct tern_span container;
    TERN_TRY(tern_wire_decode_update(update->body, update->body_len, &message, &container));
    applied->updates++;
    TERN_TRY(tern_container_accumulate(&applied->model, container.data, container.len, -1.0f,
                                       applied->buffer));
    return tern_container_accumulate(&applied->model, container.data, container.len, 1.0f,
                                     applied->sum);
}

// What the directive of a round took from the client's buffer, and its change. Whether the update was
// applied or given back does not matter: given back, it is in the buffer again.
static enum tern_result follow_task(struct tern_db *db, uint32_t round, struct applied *applied)
{
    struct tern_db_assignment row;
    const enum tern_result found = tern_db_assignment_get(db, round, applied->client, &row);
    if (found == TERN_ERR_NOT_FOUND || (found == TERN_OK && row.reported_ms == 0)) {
        return TERN_OK;
    }
    TERN_TRY(found);
    for (uint32_t i = 0; i < applied->model.count; i++) {
        const float left = row.decay * applied->buffer[i];
        applied->dropped[i] += applied->buffer[i] - left;
        applied->buffer[i] = left;
    }
    for (uint32_t i = 0; i < BLOCK; i++) {
        applied->buffer[round * BLOCK + i] += 1.0f / (float)(1u << i);
    }
    return TERN_OK;
}

// The updates are those that count in the round, which late ones did not train in: then nothing may
// have been dropped in between.
static enum tern_result follow_round(struct tern_db *db, uint32_t round, struct applied *applied)
{
    TERN_TRY(follow_task(db, round, applied));
    return tern_db_update_each(db, round, add_update, applied);
}

static int print_applied(const char *path, uint64_t client)
{
    char why[256];
    struct tern_db *db = NULL;
    struct tern_db_federation federation;
    struct tern_db_round last;
    static struct applied applied;
    applied.client = client;
    if (tern_db_open(path, &db, why) != TERN_OK || tern_db_federation(db, &federation) != TERN_OK ||
        tern_model_from_spec(&applied.model, federation.model_spec) != TERN_OK ||
        tern_db_round_last(db, &last) != TERN_OK) {
        fail(why, TERN_ERR_IO);
    }
    applied.sum = calloc(applied.model.count, sizeof(float));
    applied.buffer = calloc(applied.model.count, sizeof(float));
    applied.dropped = calloc(applied.model.count, sizeof(float));
    for (uint32_t round = 1; round <= last.round; round++) {
        enum tern_result result = follow_round(db, round, &applied);
        if (result != TERN_OK) {
            fail("reading updates", result);
        }
    }
    printf("%llu %u 0\n", (unsigned long long)client, applied.updates);
    for (uint32_t i = 0; i < applied.model.count; i++) {
        printf("%.9g %.9g\n", (double)applied.sum[i], (double)applied.dropped[i]);
    }
    free(applied.sum);
    free(applied.buffer);
    free(applied.dropped);
    tern_db_close(db);
    return 0;
}

int main(int argc, char **argv)
{
    static struct rig rig;
    if (argc >= 6 && strcmp(argv[1], "run") == 0) {
        return run(&rig, argv[2], argv[3], argv[4], argv[5],
                   argc > 6 && strcmp(argv[6], "--settle") == 0);
    }
    if (argc == 3 && strcmp(argv[1], "buffer") == 0) {
        return print_buffer(&rig, argv[2]);
    }
    if (argc == 4 && strcmp(argv[1], "applied") == 0) {
        return print_applied(argv[2], strtoull(argv[3], NULL, 10));
    }
    fprintf(stderr, "usage: see the head of conservation_client.c\n");
    return 2;
}
