// What rounds cost an aggregator. Enrols many clients, then round by round: gives each its task,
// fetches what it names, and sends one update per client over a few kept connections, each waiting
// for its reply before the next. Every reply is sent after the transaction that holds its update is
// on disk; the clock stops at the last of them. One more client then completes the round, and its
// wait is what the commit of the round takes. Meanwhile somebody else keeps asking for a download:
// its longest wait is what the commit keeps others waiting. Processor time is the aggregator's.
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
    uint32_t sequence;
    uint8_t base[TERN_WIRE_REPLICA_BYTES]; // that it says it holds
};

struct load {
    const char *host;
    const char *port;
    const char *ca;
    const char *join_code;
    uint32_t clients; // that are timed; one more completes the round
    uint32_t connections;
    uint32_t update_bytes;
    uint32_t rounds;
    clockid_t cpu; // of the aggregator
    struct tern_codec codec;
    struct virtual_client *all;
    struct tern_model model;
    uint64_t seed;
    uint8_t replica[TERN_SHA256_SIZE]; // of the seed
    uint8_t *container;
    size_t container_len;
    pthread_barrier_t barrier;
    _Atomic uint32_t accepted;
    _Atomic uint32_t refused;
    _Atomic int failed;      // an enum tern_result
    _Atomic bool completing; // a round is being committed
    _Atomic bool ended;
    double longest_wait; // of another request meanwhile, seconds
};

struct worker {
    struct load *load;
    uint32_t index;
    struct bench_tls tls;
    struct bench_connection connection;
    uint8_t *body; // room for an update and for a reply
    size_t body_size;
};

static double read_clock(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

// --- One client's requests

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
    memcpy(client->base, worker->load->replica, sizeof client->base);
    return TERN_OK;
}

static enum tern_result fetch(struct worker *worker, const struct virtual_client *client,
                              const uint8_t sha256[TERN_SHA256_SIZE], int *status)
{
    char path[TERN_PATH_MAX];
    size_t len = worker->body_size;
    tern_path_download(sha256, path);
    return bench_exchange(&worker->connection, "GET", path, client->token, NULL, 0, status,
                          worker->body, &len);
}

// It applies none of them: what matters is what the aggregator does for it.
static enum tern_result fetch_all(struct worker *worker, const struct virtual_client *client,
                                  const tern_Task *task)
{
    for (pb_size_t i = 0; i < task->downloads_count; i++) {
        int status = 0;
        TERN_TRY(fetch(worker, client, task->downloads[i].sha256.bytes, &status));
        if (status != 200) {
            return TERN_ERR_HTTP;
        }
    }
    return TERN_OK;
}

static enum tern_result check_in(struct worker *worker, struct virtual_client *client)
{
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    tern_CheckinReply reply;
    uint8_t body[512];
    size_t len;
    size_t answer_len = worker->body_size;
    int status;
    request.replica.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(request.replica.bytes, client->base, TERN_WIRE_REPLICA_BYTES);
    request.model_hash.size = TERN_SHA256_SIZE;
    memcpy(request.model_hash.bytes, worker->load->model.hash, TERN_SHA256_SIZE);
    request.codecs = UINT32_MAX; // it decodes nothing
    request.wait_ms = 5000;
    TERN_TRY(tern_wire_encode_checkin_request(&request, body, sizeof body, &len));
    TERN_TRY(bench_exchange(&worker->connection, "POST", TERN_PATH_CHECKIN, client->token, body,
                            len, &status, worker->body, &answer_len));
    if (status != 200) {
        return TERN_ERR_HTTP;
    }
    struct tern_span inline_downloads;
    TERN_TRY(tern_wire_decode_checkin_reply(worker->body, answer_len, &reply, &inline_downloads));
    if (!reply.has_task || reply.task.kind != tern_TaskKind_TASK_TRAIN) {
        return TERN_ERR_NOT_IN_COHORT;
    }
    client->round = reply.task.round;
    client->sequence++;
    memcpy(client->base, reply.task.base.bytes, sizeof client->base);
    return inline_downloads.len > 0 ? TERN_OK : fetch_all(worker, client, &reply.task);
}

static enum tern_result upload(struct worker *worker, struct virtual_client *client)
{
    struct load *load = worker->load;
    uint8_t answer[TERN_WIRE_MESSAGE_MAX];
    char path[TERN_PATH_MAX];
    size_t len;
    size_t answer_len = sizeof answer;
    int status;
    tern_Update update = tern_Update_init_zero;
    update.base.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(update.base.bytes, client->base, TERN_WIRE_REPLICA_BYTES);
    update.model_hash.size = TERN_SHA256_SIZE;
    memcpy(update.model_hash.bytes, load->model.hash, TERN_SHA256_SIZE);
    update.num_examples = 100;
    update.local_steps = 20;
    update.has_error = true;
    update.error.generation = 1;
    update.error.sequence = client->sequence;
    struct tern_span container = {load->container, load->container_len};
    TERN_TRY(tern_wire_encode_update(&update, container, worker->body, worker->body_size, &len));
    tern_path_update(client->round, client->sequence, path);
    TERN_TRY(bench_exchange(&worker->connection, "PUT", path, client->token, worker->body, len,
                            &status, answer, &answer_len));
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

static void open_worker(struct worker *worker)
{
    struct load *load = worker->load;
    worker->body_size = load->container_len + 2 * TERN_WIRE_OVERHEAD + TERN_WIRE_MESSAGE_MAX;
    worker->body = malloc(worker->body_size);
    enum tern_result result = worker->body != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
    if (result == TERN_OK) {
        result = bench_tls_init(&worker->tls, load->host, load->port, load->ca);
    }
    if (result == TERN_OK) {
        result = bench_connect(&worker->tls, &worker->connection);
    }
    if (result != TERN_OK) {
        load->failed = (int)result;
    }
}

static void close_worker(struct worker *worker)
{
    bench_close(&worker->connection);
    bench_tls_clear(&worker->tls);
    free(worker->body);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct load *load = worker->load;
    open_worker(worker);
    run_phase(worker, enroll, 0, load->clients + 1);
    for (uint32_t round = 0; round < load->rounds; round++) {
        run_phase(worker, check_in, 0, load->clients + 1);
        run_phase(worker, upload, 0, load->clients);
        run_phase(worker, upload, load->clients, load->clients + 1);
    }
    close_worker(worker);
    return NULL;
}

// --- Somebody else, while a round is committed

// Asks for a download that is not there, which the service must look up.
static void probe(struct worker *worker)
{
    static const uint8_t nowhere[TERN_SHA256_SIZE];
    struct load *load = worker->load;
    int status = 0;
    double asked = now();
    if (fetch(worker, &load->all[load->clients], nowhere, &status) != TERN_OK || status != 404) {
        load->failed = TERN_ERR_HTTP;
    }
    double waited = now() - asked;
    load->longest_wait = waited > load->longest_wait ? waited : load->longest_wait;
}

static void *work_beside(void *argument)
{
    struct worker *worker = argument;
    struct load *load = worker->load;
    open_worker(worker);
    while (!load->ended && load->failed == TERN_OK) {
        if (load->completing) {
            probe(worker);
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000L}, NULL);
    }
    close_worker(worker);
    return NULL;
}

// --- The update: values of the density that makes a container of about the wanted size

static size_t encode_with_density(struct load *load, float density, float *values, size_t bound)
{
    struct tern_prng rng;
    size_t len = 0;
    tern_prng_init(&rng, 1, TERN_PRNG_TEST, 0, 0);
    for (uint32_t i = 0; i < load->model.count; i++) {
        float draw = tern_prng_float(&rng);
        values[i] = draw < density / 2 ? -1e-4f : draw < density ? 1e-4f : 0.0f;
    }
    if (tern_container_encode(&load->codec, NULL, &load->model, values, load->container, bound,
                              &len) != TERN_OK) {
        return 0;
    }
    return len;
}

static enum tern_result make_container(struct load *load)
{
    size_t bound = tern_container_bound(&load->codec, &load->model);
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

// --- All of it

// What a phase took, of all rounds.
struct cost {
    double seconds;
    double cpu; // of the aggregator
};

static void time_phase(struct load *load, int which, struct cost *cost)
{
    pthread_barrier_wait(&load->barrier);
    double started = now();
    double cpu = read_clock(load->cpu);
    load->completing = which == COMPLETE;
    pthread_barrier_wait(&load->barrier);
    pthread_barrier_wait(&load->barrier);
    load->completing = false;
    cost->seconds += now() - started;
    cost->cpu += read_clock(load->cpu) - cpu;
}

static void start(pthread_t *thread, void *(*body)(void *argument), struct worker *worker)
{
    if (pthread_create(thread, NULL, body, worker) != 0) {
        fprintf(stderr, "bench-load: cannot make its threads\n");
        exit(1);
    }
}

static void run(struct load *load, struct cost costs[PHASES])
{
    const uint32_t threads_count = load->connections + 1; // one for somebody else
    struct worker *workers = calloc(threads_count, sizeof *workers);
    pthread_t *threads = calloc(threads_count, sizeof *threads);
    if (workers == NULL || threads == NULL) {
        exit(1);
    }
    pthread_barrier_init(&load->barrier, NULL, load->connections + 1);
    for (uint32_t i = 0; i < threads_count; i++) {
        workers[i].load = load;
        workers[i].index = i;
        start(&threads[i], i < load->connections ? work : work_beside, &workers[i]);
    }
    time_phase(load, ENROLL, &costs[ENROLL]);
    for (uint32_t round = 0; round < load->rounds; round++) {
        for (int which = CHECK_IN; which < PHASES; which++) {
            time_phase(load, which, &costs[which]);
        }
    }
    load->ended = true;
    for (uint32_t i = 0; i < threads_count; i++) {
        pthread_join(threads[i], NULL);
    }
    free(threads);
    free(workers);
}

// The most memory that a process has had, MiB; 0 when it is not known.
static double peak_memory(int pid)
{
    char path[64];
    char line[256];
    unsigned long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        sscanf(line, "VmHWM: %lu", &kib);
    }
    if (file != NULL) {
        fclose(file);
    }
    return (double)kib / 1024.0;
}

static void report(const struct load *load, const struct cost costs[PHASES], int pid)
{
    const double updates = (double)load->clients * load->rounds;
    const double all = (double)(load->clients + 1) * load->rounds;
    const double cpu = costs[CHECK_IN].cpu + costs[UPLOAD].cpu + costs[COMPLETE].cpu;
    printf("{\"clients\": %u, \"connections\": %u, \"update_bytes\": %zu,\n"
           " \"accepted\": %u, \"refused\": %u, \"upload_seconds\": %.3f,\n"
           " \"updates_per_second\": %.0f, \"round_commit_seconds\": %.3f,\n"
           " \"enrollments_per_second\": %.0f,\n"
           " \"checkins_per_second\": %.0f,\n"
           " \"cpu_ms\": %.3f, \"commit_cpu_seconds\": %.4f, \"commit_wait_ms\": %.1f,\n"
           " \"peak_mib\": %.0f}\n",
           load->clients, load->connections, load->container_len, load->accepted - load->rounds,
           load->refused, costs[UPLOAD].seconds, updates / costs[UPLOAD].seconds,
           costs[COMPLETE].seconds / load->rounds, (load->clients + 1) / costs[ENROLL].seconds,
           all / costs[CHECK_IN].seconds, cpu / all * 1e3, costs[COMPLETE].cpu / load->rounds,
           load->longest_wait * 1e3, peak_memory(pid));
}

int main(int argc, char **argv)
{
    if (argc != 13) {
        fprintf(stderr,
                "usage: bench-load HOST PORT CA.pem JOIN_CODE MODEL SEED CLIENTS "
                "CONNECTIONS UPDATE_BYTES CODEC ROUNDS PID\n"
                "The aggregator's round.cohort and round.min_clients must be CLIENTS + 1, PID its "
                "process.\n");
        return 2;
    }
    static struct load load;
    const int pid = atoi(argv[12]);
    load.host = argv[1];
    load.port = argv[2];
    load.ca = argv[3];
    load.join_code = argv[4];
    load.clients = (uint32_t)strtoul(argv[7], NULL, 10);
    load.connections = (uint32_t)strtoul(argv[8], NULL, 10);
    load.update_bytes = (uint32_t)strtoul(argv[9], NULL, 10);
    load.rounds = (uint32_t)strtoul(argv[11], NULL, 10);
    enum tern_result result = tern_codec_parse(argv[10], &load.codec, NULL);
    if (result == TERN_OK && clock_getcpuclockid(pid, &load.cpu) != 0) {
        result = TERN_ERR_ARGUMENT;
    }
    if (result == TERN_OK) {
        result = prepare(&load, argv[5], argv[6]);
    }
    struct cost costs[PHASES] = {{0}};
    if (result == TERN_OK) {
        run(&load, costs);
        result = (enum tern_result)load.failed;
    }
    if (result != TERN_OK) {
        fprintf(stderr, "bench-load: %s\n", tern_result_sentence(result));
        return 1;
    }
    report(&load, costs, pid);
    return load.refused == 0 ? 0 : 1;
}
