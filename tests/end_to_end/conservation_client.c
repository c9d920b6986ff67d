// A client whose local changes can be recognised, for the test of conservation. Round r changes
// block r of the first tensor by 1, 1/2, 1/4, ... and nothing else. So, over everything that was
// applied plus what the error buffer holds, block r must be there once or not at all, and the
// number of blocks that are there must be the number of updates the client ever encoded.
//
//   conservation_client run SERVER CA DIR CODE [--helper KEY HELPER-CODE] [--settle]
//     enrols when DIR is new, then works until killed; with --settle only until the pending update,
//     if any, is answered and, if it was masked, settled. --helper: masks updates, in sums of 3 or more
//   conservation_client towards SERVER CA DIR CODE SEED EXAMPLES
//     as run, and goes a quarter of the way to weights that follow from SEED, in every round
//   conservation_client buffer DIR            prints generation, sequence, pending bytes, buffer
//   conservation_client applied DB CLIENT     prints, for each value, the sum of the client's stored
//                                             updates, and what directives took from its buffer
//   conservation_client means DB LAST         prints how many rounds of devices a gateway had up to LAST,
//                                             and for each value the sum of their means
//   conservation_client sums DB LAST          prints how many secure rounds up to LAST have a sum, and for
//                                             each value the sum of these
//   conservation_client gateway DIR           prints client, pending bytes, the last round taken; for each
//                                             value what the error buffer and a pending update have
#include "client.h"
#include "codec/container.h"
#include "posix/conditions.h"
#include "posix/file_store.h"
#include "posix/system.h"
#include "posix/transport.h"
#include "relay/internal.h"
#include "store/store.h"
#include "util/bytes.h"

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
    uint32_t round; // whose block it changes
    // Rounds share blocks: of masked updates, whose scales would vanish in a large model of few changes.
    bool wraps;
    uint32_t left;
    uint32_t examples; // of one that goes towards weights; 0: it marks rounds
    uint32_t seed;
};

static enum tern_result begin(void *ctx, const struct tern_train_task *task, const float *base,
                              uint32_t count)
{
    struct marker *marker = ctx;
    const bool marks = marker->examples == 0;
    marker->round = marker->wraps ? task->round % (count / BLOCK) : task->round;
    if (count != marker->count || (marks && (size_t)marker->round * BLOCK + BLOCK > count)) {
        return TERN_ERR_MODEL_MISMATCH;
    }
    tern_train_start(task, base, marker->weights, count);
    marker->left = STEPS;
    return TERN_OK;
}

// -1 to 1
static float aim(uint32_t seed, uint32_t i)
{
    const uint32_t mixed = (seed * 7919u + i) * 2654435761u;
    return (float)(mixed >> 8) / 8388608.0f - 1.0f;
}

static void change(struct marker *marker)
{
    if (marker->examples == 0) {
        for (uint32_t i = 0; i < BLOCK; i++) {
            marker->weights[marker->round * BLOCK + i] += 1.0f / (float)(1u << i);
        }
        return;
    }
    for (uint32_t i = 0; i < marker->count; i++) {
        marker->weights[i] += 0.25f * (aim(marker->seed, i) - marker->weights[i]);
    }
}

static enum tern_result step(void *ctx, float **weights, struct tern_train_result *result)
{
    struct marker *marker = ctx;
    sleep_ms(5);
    if (--marker->left != 0) {
        return TERN_AGAIN;
    }
    change(marker);
    *weights = marker->weights;
    *result =
        (struct tern_train_result){.num_examples = marker->examples > 0 ? marker->examples : 10,
                                   .local_steps = STEPS,
                                   .loss = 1.0f};
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

struct how {
    bool settle;
    const char *helper_key; // NULL: updates are not masked
    const char *helper_code;
};

static struct how read_how(int argc, char **argv)
{
    struct how how = {.settle = false};
    for (int i = 0; i < argc; i++) {
        how.settle |= strcmp(argv[i], "--settle") == 0;
        if (strcmp(argv[i], "--helper") == 0 && i + 2 < argc) {
            how.helper_key = argv[i + 1];
            how.helper_code = argv[i + 2];
        }
    }
    return how;
}

static void set_helper(struct tern_client_config *config, const struct how *how)
{
    static uint8_t key[TERN_P256_PUBLIC_SIZE];
    if (how->helper_key == NULL) {
        return;
    }
    if (tern_base64url_decode(how->helper_key, strlen(how->helper_key), key, sizeof key) !=
        TERN_OK) {
        fail("--helper", TERN_ERR_CONFIG);
    }
    config->helper_key = key;
    config->helper_code = how->helper_code;
    config->secure_min_clients = 3;
}

static int run(struct rig *rig, const char *server, const char *ca, const char *directory,
               const char *code, const struct how *how)
{
    struct tern_client_config config = {.name = "conservation",
                                        .wait_ms = 2000,
                                        .timeout_ms = 3000,
                                        .retry_min_ms = 20,
                                        .retry_max_ms = 200,
                                        .on_event = say};
    set_helper(&config, how);
    rig->marker.wraps = how->helper_key != NULL;
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
    while (!how->settle || tern_client_pending(&rig->client)->len != 0 ||
           rig->client.unsettled.len != 0) {
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
    if (tern_db_open(path, 0, &db, why) != TERN_OK ||
        tern_db_federation(db, &federation) != TERN_OK ||
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

// --- Reading a gateway's

struct means {
    struct tern_model model;
    float *values; // of one update
    double *round; // of one round: num_examples * value
    double *sum;
    double examples;
    bool follows; // one of its updates brought the model from above
    bool sums;    // rounds count by their sum, not by their mean
};

static enum tern_result add_to_round(void *ctx, const struct tern_db_update *update)
{
    struct means *means = ctx;
    tern_Update message;
    struct tern_span container;
    TERN_TRY(tern_wire_decode_update(update->body, update->body_len, &message, &container));
    memset(means->values, 0, means->model.count * sizeof(float));
    TERN_TRY(tern_container_accumulate(&means->model, container.data, container.len, 1.0f,
                                       means->values));
    for (uint32_t i = 0; i < means->model.count; i++) {
        means->round[i] += (double)message.num_examples * (double)means->values[i];
    }
    means->examples += (double)message.num_examples;
    means->follows |= update->client == TERN_RELAY_UPSTREAM_CLIENT;
    return TERN_OK;
}

static bool add_round(struct tern_db *db, uint32_t round, struct means *means)
{
    memset(means->round, 0, means->model.count * sizeof(double));
    means->examples = 0.0;
    means->follows = false;
    if (tern_db_update_each(db, round, add_to_round, means) != TERN_OK) {
        fail("reading updates", TERN_ERR_CORRUPT);
    }
    if (means->follows || means->examples <= 0.0) {
        return false;
    }
    for (uint32_t i = 0; i < means->model.count; i++) {
        means->sum[i] += means->round[i] / (means->sums ? 1.0 : means->examples);
    }
    return true;
}

static int print_means(const char *path, uint32_t last, bool sums)
{
    char why[256];
    struct tern_db *db = NULL;
    struct tern_db_federation federation;
    static struct means means;
    unsigned rounds = 0;
    means.sums = sums;
    if (tern_db_open(path, 0, &db, why) != TERN_OK ||
        tern_db_federation(db, &federation) != TERN_OK ||
        tern_model_from_spec(&means.model, federation.model_spec) != TERN_OK) {
        fail(why, TERN_ERR_IO);
    }
    means.values = calloc(means.model.count, sizeof(float));
    means.round = calloc(means.model.count, sizeof(double));
    means.sum = calloc(means.model.count, sizeof(double));
    for (uint32_t round = 1; round <= last; round++) {
        rounds += add_round(db, round, &means);
    }
    printf("%u\n", rounds);
    for (uint32_t i = 0; i < means.model.count; i++) {
        printf("%.17g\n", means.sum[i]);
    }
    free(means.values);
    free(means.round);
    free(means.sum);
    tern_db_close(db);
    return 0;
}

static void add_pending(struct rig *rig, float *values)
{
    const uint32_t len = tern_client_pending(&rig->client)->len;
    tern_Update message;
    struct tern_span container;
    if (len > 0 && (tern_wire_decode_update(rig->work.blob, len, &message, &container) != TERN_OK ||
                    tern_container_accumulate(&rig->model, container.data, container.len, 1.0f,
                                              values) != TERN_OK)) {
        fail("the pending update", TERN_ERR_CORRUPT);
    }
}

static int print_gateway(struct rig *rig, const char *directory)
{
    struct tern_client_config config = {.name = "conservation"};
    static struct relay_records records;
    open_ports(&config.ports, rig, "https://localhost:1", NULL, directory);
    if (tern_relay_records_open(&records, config.ports.store) != TERN_OK) {
        fail("records", TERN_ERR_CORRUPT);
    }
    records.client = &rig->client;
    config.ports.store = tern_relay_records_port(&records);
    if (tern_client_init(&rig->client, &config) != TERN_OK ||
        tern_client_identify(&rig->client) != TERN_OK) {
        fail("identify", TERN_ERR_NOT_FOUND);
    }
    take_workspace(rig);
    float *values = calloc(rig->model.count, sizeof(float));
    add_pending(rig, values);
    printf("%llu %u %u\n", (unsigned long long)rig->client.identity.client_id,
           tern_client_pending(&rig->client)->len, records.included);
    const float *buffer = rig->work.error_buffer;
    for (uint32_t i = 0; i < rig->model.count; i++) {
        printf("%.9g %.9g\n", (double)buffer[i], (double)values[i]);
    }
    free(values);
    return 0;
}

int main(int argc, char **argv)
{
    static struct rig rig;
    if (argc == 8 && strcmp(argv[1], "towards") == 0) {
        rig.marker.seed = (uint32_t)strtoul(argv[6], NULL, 10);
        rig.marker.examples = (uint32_t)strtoul(argv[7], NULL, 10);
        return run(&rig, argv[2], argv[3], argv[4], argv[5], &(struct how){.settle = false});
    }
    if (argc == 4 && (strcmp(argv[1], "means") == 0 || strcmp(argv[1], "sums") == 0)) {
        return print_means(argv[2], (uint32_t)strtoul(argv[3], NULL, 10), argv[1][0] == 's');
    }
    if (argc == 3 && strcmp(argv[1], "gateway") == 0) {
        return print_gateway(&rig, argv[2]);
    }
    if (argc >= 6 && strcmp(argv[1], "run") == 0) {
        const struct how how = read_how(argc - 6, argv + 6);
        return run(&rig, argv[2], argv[3], argv[4], argv[5], &how);
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
