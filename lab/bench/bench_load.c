// How many durable updates per second an aggregator accepts. Enrols many clients, gives each its
// task, then sends one update of about 10 KB per client over a few kept connections, each waiting
// for its reply before the next. Every reply is sent after the transaction that holds its update is
// on disk; the clock stops at the last of them. One more client then completes the round, and its
// wait is what the commit of the round takes.
#include "codec/container.h"
#include "https.h"
#include "tensor/model.h"
#include "util/prng.h"
#include "wire/wire.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct virtual_client {
    char token[24];
    uint32_t round; // of its task, 0 = none
};

struct load {
    const char *host;
    const char *port;
    const char *ca;
    const char *join_code;
    uint32_t clients; // that are timed; one more completes the round
    uint32_t connections;
    uint32_t update_bytes;
    struct virtual_client *all;
    struct tern_model model;
    uint64_t seed;
    uint8_t replica[TERN_SHA256_SIZE];
    uint8_t *container;
    size_t container_len;
    pthread_barrier_t barrier;
    _Atomic uint32_t accepted;
    _Atomic uint32_t refused;
    _Atomic int failed; // an enum tern_result
};

struct worker {
    struct load *load;
    uint32_t index;
    struct bench_tls tls;
    struct bench_connection connection;
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

// --- One client's three requests

static enum tern_result enroll(struct worker *worker, struct virtual_client *client)
{
    tern_EnrollRequest request = tern_EnrollRequest_init_zero;
    tern_EnrollReply reply;
    uint8_t body[256];
    uint8_t answer[TERN_WIRE_MESSAGE_MAX];
    size_t len;
    size_t answer_len = sizeof answer;
    int status;
    snprintf(request.join_code, sizeof request.join_code, "%s", worker->load->join_code);
    TERN_TRY(tern_wire_encode_enroll_request(&request, body, sizeof body, &len));
    TERN_TRY(bench_exchange(&worker->connection, "POST", TERN_PATH_ENROLL, NULL, body, len, &status,
                            answer, &answer_len));
    if (status != 200) {
        return TERN_ERR_UNAUTHORIZED;
    }
    TERN_TRY(tern_wire_decode_enroll_reply(answer, answer_len, &reply));
    snprintf(client->token, sizeof client->token, "%s", reply.token);
    return TERN_OK;
}

static enum tern_result check_in(struct worker *worker, struct virtual_client *client)
{
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    tern_CheckinReply reply;
    uint8_t body[512];
    uint8_t answer[TERN_WIRE_MESSAGE_MAX];
    size_t len;
    size_t answer_len = sizeof answer;
    int status;
    request.replica.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(request.replica.bytes, worker->load->replica, TERN_WIRE_REPLICA_BYTES);
    request.model_hash.size = TERN_SHA256_SIZE;
    memcpy(request.model_hash.bytes, worker->load->model.hash, TERN_SHA256_SIZE);
    request.codecs = UINT32_MAX; // it decodes nothing
    request.wait_ms = 5000;
    TERN_TRY(tern_wire_encode_checkin_request(&request, body, sizeof body, &len));
    TERN_TRY(bench_exchange(&worker->connection, "POST", TERN_PATH_CHECKIN, client->token, body,
                            len, &status, answer, &answer_len));
    if (status != 200) {
        return TERN_ERR_HTTP;
    }
    struct tern_span downloads;
    TERN_TRY(tern_wire_decode_checkin_reply(answer, answer_len, &reply, &downloads));
    client->round = reply.has_task ? reply.task.round : 0;
    return client->round > 0 ? TERN_OK : TERN_ERR_NOT_IN_COHORT;
}

static enum tern_result upload(struct worker *worker, struct virtual_client *client)
{
    struct load *load = worker->load;
    static _Thread_local uint8_t body[BENCH_MESSAGE_MAX];
    uint8_t answer[TERN_WIRE_MESSAGE_MAX];
    char path[TERN_PATH_MAX];
    size_t len;
    size_t answer_len = sizeof answer;
    int status;
    tern_Update update = tern_Update_init_zero;
    update.base.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(update.base.bytes, load->replica, TERN_WIRE_REPLICA_BYTES);
    update.model_hash.size = TERN_SHA256_SIZE;
    memcpy(update.model_hash.bytes, load->model.hash, TERN_SHA256_SIZE);
    update.num_examples = 100;
    update.local_steps = 20;
    update.has_error = true;
    update.error.generation = 1;
    update.error.sequence = 1;
    struct tern_span container = {load->container, load->container_len};
    TERN_TRY(tern_wire_encode_update(&update, container, body, sizeof body, &len));
    tern_path_update(client->round, 1, path);
    TERN_TRY(bench_exchange(&worker->connection, "PUT", path, client->token, body, len, &status,
                            answer, &answer_len));
    if (status == 200) {
        load->accepted++;
    } else if (load->refused++ == 0) {
        tern_Error error = tern_Error_init_zero;
        if (tern_wire_decode_error(answer, answer_len, &error) == TERN_OK) {
            fprintf(stderr, "bench-load: HTTP %d: %s\n", status, error.name);
        }
    }
    return TERN_OK;
}

// --- Phases, each done by every worker for its share of the clients

typedef enum tern_result (*phase)(struct worker *worker, struct virtual_client *client);

enum { ENROLL, CHECK_IN, UPLOAD, COMPLETE, PHASES };

// Clients [first, end), shared among the workers.
static void run_phase(struct worker *worker, phase each, uint32_t first, uint32_t end)
{
    struct load *load = worker->load;
    pthread_barrier_wait(&load->barrier); // all are ready
    pthread_barrier_wait(&load->barrier); // the clock was read
    for (uint32_t i = first + worker->index; i < end && load->failed == TERN_OK;
         i += load->connections) {
        enum tern_result result = each(worker, &load->all[i]);
        if (result != TERN_OK) {
            load->failed = (int)result;
        }
    }
    pthread_barrier_wait(&load->barrier);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct load *load = worker->load;
    enum tern_result result = bench_tls_init(&worker->tls, load->host, load->port, load->ca);
    if (result == TERN_OK) {
        result = bench_connect(&worker->tls, &worker->connection);
    }
    if (result != TERN_OK) {
        load->failed = (int)result;
    }
    run_phase(worker, enroll, 0, load->clients + 1);
    run_phase(worker, check_in, 0, load->clients + 1);
    run_phase(worker, upload, 0, load->clients);
    run_phase(worker, upload, load->clients, load->clients + 1);
    bench_close(&worker->connection);
    bench_tls_clear(&worker->tls);
    return NULL;
}

// --- The update: ternary values of the density that makes a container of about the wanted size

static size_t encode_with_density(struct load *load, float density, float *values, size_t bound)
{
    const struct tern_codec codec = {.id = TERN_CODEC_3LC, .sparsity = 1.0f};
    struct tern_prng rng;
    size_t len = 0;
    tern_prng_init(&rng, 1, TERN_PRNG_TEST, 0, 0);
    for (uint32_t i = 0; i < load->model.count; i++) {
        float draw = tern_prng_float(&rng);
        values[i] = draw < density / 2 ? -1e-4f : draw < density ? 1e-4f : 0.0f;
    }
    if (tern_container_encode(&codec, NULL, &load->model, values, load->container, bound, &len) !=
        TERN_OK) {
        return 0;
    }
    return len;
}

static enum tern_result make_container(struct load *load)
{
    const struct tern_codec codec = {.id = TERN_CODEC_3LC, .sparsity = 1.0f};
    size_t bound = tern_container_bound(&codec, &load->model);
    float *values = malloc(load->model.count * sizeof *values);
    load->container = malloc(bound);
    if (values == NULL || load->container == NULL) {
        free(values);
        return TERN_ERR_NO_MEMORY;
    }
    float low = 0;
    float high = 1;
    for (int i = 0; i < 12; i++) {
        float middle = (low + high) / 2;
        load->container_len = encode_with_density(load, middle, values, bound);
        *(load->container_len > load->update_bytes ? &high : &low) = middle;
    }
    free(values);
    return load->container_len > 0 ? TERN_OK : TERN_ERR_ARGUMENT;
}

static enum tern_result prepare(struct load *load, const char *model, const char *seed)
{
    load->seed = strtoull(seed, NULL, 10);
    TERN_TRY(tern_model_from_spec(&load->model, model));
    tern_replica_from_seed(load->model.hash, load->seed, load->replica);
    load->all = calloc((size_t)load->clients + 1, sizeof *load->all);
    if (load->all == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    return make_container(load);
}

// Runs the phases; seconds[i] is how long phase i took.
static void run(struct load *load, double seconds[PHASES])
{
    struct worker *workers = calloc(load->connections, sizeof *workers);
    pthread_t *threads = calloc(load->connections, sizeof *threads);
    pthread_barrier_init(&load->barrier, NULL, load->connections + 1);
    for (uint32_t i = 0; i < load->connections; i++) {
        workers[i].load = load;
        workers[i].index = i;
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0) {
            fprintf(stderr, "bench-load: cannot make %u threads\n", load->connections);
            exit(1);
        }
    }
    for (int i = 0; i < PHASES; i++) {
        pthread_barrier_wait(&load->barrier);
        double started = now();
        pthread_barrier_wait(&load->barrier);
        pthread_barrier_wait(&load->barrier);
        seconds[i] = now() - started;
    }
    for (uint32_t i = 0; i < load->connections; i++) {
        pthread_join(threads[i], NULL);
    }
    free(threads);
    free(workers);
}

static void report(const struct load *load, const double seconds[PHASES])
{
    printf("{\"clients\": %u, \"connections\": %u, \"update_bytes\": %zu,\n"
           " \"accepted\": %u, \"refused\": %u, \"upload_seconds\": %.3f,\n"
           " \"updates_per_second\": %.0f, \"round_commit_seconds\": %.3f,\n"
           " \"enrollments_per_second\": %.0f,\n"
           " \"checkins_per_second\": %.0f}\n",
           load->clients, load->connections, load->container_len, load->accepted - 1, load->refused,
           seconds[UPLOAD], load->clients / seconds[UPLOAD], seconds[COMPLETE],
           (load->clients + 1) / seconds[ENROLL], (load->clients + 1) / seconds[CHECK_IN]);
}

int main(int argc, char **argv)
{
    if (argc != 10) {
        fprintf(stderr,
                "usage: bench-load HOST PORT CA.pem JOIN_CODE MODEL SEED CLIENTS "
                "CONNECTIONS UPDATE_BYTES\n"
                "The aggregator's round.cohort and round.min_clients must be CLIENTS + 1.\n");
        return 2;
    }
    static struct load load;
    load.host = argv[1];
    load.port = argv[2];
    load.ca = argv[3];
    load.join_code = argv[4];
    load.clients = (uint32_t)strtoul(argv[7], NULL, 10);
    load.connections = (uint32_t)strtoul(argv[8], NULL, 10);
    load.update_bytes = (uint32_t)strtoul(argv[9], NULL, 10);
    enum tern_result result = prepare(&load, argv[5], argv[6]);
    double seconds[PHASES] = {0};
    if (result == TERN_OK) {
        run(&load, seconds);
        result = (enum tern_result)load.failed;
    }
    if (result != TERN_OK) {
        fprintf(stderr, "bench-load: %s\n", tern_result_sentence(result));
        return 1;
    }
    report(&load, seconds);
    return load.refused == 0 ? 0 : 1;
}
