// Measures what rounds cost an aggregator. Enrols many clients, all or a share of which take part in a round. In each
// round all clients check in; members of the cohort get a task, fetch their downloads and send one update each, over a few
// connections, each waiting for a reply before the next request. A check-in without a task is timed alone, and its
// processor time subtracted. A reply follows the transaction with its update, so the clock stops when all updates are on disk. One more
// client then completes the round: its wait is the time of the commit. Another thread requests downloads during the
// commit and while the aggregator writes afterwards: its longest wait is the delay that a commit causes. Processor
// time is the aggregator's.
#include "load_clients.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Bytes of the model per second of waiting after a commit, enough to write a checkpoint of several vectors.
#define WRITTEN_PER_SECOND 20e6

#define LOCAL_STEPS 20 // local steps that each task asks for

struct load {
    const char *host;
    const char *port;
    const char *ca;
    uint32_t clients;  // timed members of each round's cohort; one more completes the round
    uint32_t enrolled; // enrolled clients, from which each round draws its cohort
    uint32_t connections;
    uint32_t rounds;
    int pid;       // of the aggregator
    clockid_t cpu; // processor time of the aggregator
    struct load_work work;
    struct load_client *all;
    struct load_client **members; // clients with a task of the current round
    struct load_client **idle;    // clients without a task
    uint32_t member_count;
    uint32_t idle_count;
    pthread_barrier_t barrier;
    _Atomic uint32_t check_ins; // number of check-ins, with and without a task
    uint32_t idle_check_ins;    // check-ins during the phase IDLE
    _Atomic uint32_t accepted;
    _Atomic uint32_t refused;
    _Atomic int failed;      // first failure, an enum tern_result
    _Atomic bool completing; // a round is being committed
    _Atomic bool ended;
    int phase;           // set between barriers
    double longest_wait; // seconds that the slowest request during a commit took
};

struct worker {
    struct load *load;
    uint32_t index;
    struct bench_tls tls;
    struct bench_connection connection;
    struct load_line line;
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

// --- A phase's request for one client

static enum tern_result enroll(struct worker *worker, struct load_client *client)
{
    return load_enroll(&worker->load->work, &worker->line, client);
}

static enum tern_result check_in(struct worker *worker, struct load_client *client)
{
    if (client->round != 0) {
        return TERN_OK; // it has its task
    }
    worker->load->check_ins++;
    const uint32_t wait_ms = worker->load->enrolled > worker->load->clients + 1 ? 0 : 5000;
    const enum tern_result result =
        load_check_in(&worker->load->work, &worker->line, client, wait_ms);
    return result == TERN_ERR_NOT_IN_COHORT && wait_ms == 0 ? TERN_OK : result;
}

static enum tern_result upload(struct worker *worker, struct load_client *client)
{
    struct load *load = worker->load;
    struct load_line *line = &worker->line;
    const enum tern_result result = load_upload(&load->work, line, client);
    load->accepted += result == TERN_OK;
    if (result != TERN_ERR_HTTP) {
        return result;
    }
    if (load->refused++ == 0) {
        fprintf(stderr, "bench-load: HTTP %d: %s\n", line->status, line->error);
    }
    return TERN_OK;
}

// --- Phases, divided among the workers

typedef enum tern_result (*phase)(struct worker *worker, struct load_client *client);

enum { ENROLL, CHECK_IN, IDLE, UPLOAD, COMPLETE, PHASES };

static const phase requests[PHASES] = {enroll, check_in, check_in, upload, upload};

// Returns the clients of a phase.
static struct load_client **clients_of(const struct load *load, int which, uint32_t *count)
{
    switch (which) {
    case UPLOAD:
        *count = load->member_count - 1;
        return load->members;
    case COMPLETE:
        *count = 1;
        return load->members + load->member_count - 1;
    default: // all clients; in IDLE those without a task
        *count = load->idle_count;
        return load->idle;
    }
}

// Runs a phase for this worker's part of the clients.
static void run_phase(struct worker *worker)
{
    struct load *load = worker->load;
    uint32_t count = 0;
    struct load_client **clients = clients_of(load, load->phase, &count);
    for (uint32_t i = worker->index; i < count && load->failed == TERN_OK; i += load->connections) {
        enum tern_result result = requests[load->phase](worker, clients[i]);
        if (result != TERN_OK) {
            load->failed = (int)result;
        }
    }
}

static void open_worker(struct worker *worker)
{
    struct load *load = worker->load;
    worker->line.connection = &worker->connection;
    worker->line.body_size = load_body_size(&load->work);
    worker->line.body = malloc(worker->line.body_size);
    enum tern_result result = worker->line.body != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
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
    free(worker->line.body);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct load *load = worker->load;
    open_worker(worker);
    for (;;) {
        pthread_barrier_wait(&load->barrier); // all workers are ready
        pthread_barrier_wait(&load->barrier); // the main thread has read the clock
        if (load->ended) {
            break;
        }
        run_phase(worker);
        pthread_barrier_wait(&load->barrier);
    }
    close_worker(worker);
    return NULL;
}

// --- Requests during a commit

// Requests a missing download, for which the service must query its store.
static void probe(struct worker *worker)
{
    static const uint8_t nowhere[TERN_SHA256_SIZE];
    struct load *load = worker->load;
    double asked = now();
    if (load_fetch(&worker->line, &load->all[0], nowhere) != TERN_ERR_HTTP ||
        worker->line.status != 404) {
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

// --- The measurement

// Time of a phase, summed over all rounds.
struct cost {
    double seconds;
    double cpu;     // processor time of the aggregator
    double written; // bytes that the aggregator wrote to disk
};

static void sleep_seconds(double seconds)
{
    const time_t whole = (time_t)seconds;
    nanosleep(&(struct timespec){whole, (long)((seconds - (double)whole) * 1e9)}, NULL);
}

// Returns the number after `name` in a file of /proc; 0: there is none.
static double read_number(int pid, const char *file_name, const char *name)
{
    char path[64];
    char line[256];
    double number = 0.0;
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file_name);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0) {
            number = strtod(line + strlen(name), NULL);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return number;
}

static double written_bytes(const struct load *load)
{
    return read_number(load->pid, "io", "write_bytes:");
}

static void time_phase(struct load *load, int which, struct cost *cost)
{
    load->phase = which;
    pthread_barrier_wait(&load->barrier);
    double started = now();
    double cpu = read_clock(load->cpu);
    const double written = written_bytes(load);
    load->completing = which == COMPLETE;
    pthread_barrier_wait(&load->barrier);
    pthread_barrier_wait(&load->barrier);
    cost->seconds += now() - started;
    cost->cpu += read_clock(load->cpu) - cpu;
    cost->written += written_bytes(load) - written;
    if (which == COMPLETE) {
        sleep_seconds((double)load->work.model.count * sizeof(float) / WRITTEN_PER_SECOND);
    }
    load->completing = false;
}

// Divides the clients into members of the cohort and the others.
static void find_members(struct load *load)
{
    load->member_count = 0;
    load->idle_count = 0;
    for (uint32_t i = 0; i < load->enrolled; i++) {
        struct load_client *client = &load->all[i];
        if (client->round != 0) {
            load->members[load->member_count++] = client;
        } else {
            load->idle[load->idle_count++] = client;
        }
    }
}

#define CHECK_IN_TIMES 100 // passes over the clients until the whole cohort has its tasks

static void run_round(struct load *load, struct cost costs[PHASES])
{
    for (uint32_t i = 0; i < load->enrolled; i++) {
        load->all[i].round = 0;
    }
    find_members(load);
    for (int i = 0;
         i < CHECK_IN_TIMES && load->member_count <= load->clients && load->failed == TERN_OK;
         i++) {
        time_phase(load, CHECK_IN, &costs[CHECK_IN]);
        find_members(load);
    }
    if (load->failed == TERN_OK && load->member_count <= load->clients) {
        load->failed = TERN_ERR_NOT_IN_COHORT;
    }
    if (load->failed != TERN_OK) {
        return;
    }
    const uint32_t before = load->check_ins;
    time_phase(load, IDLE, &costs[IDLE]);
    load->idle_check_ins += load->check_ins - before;
    time_phase(load, UPLOAD, &costs[UPLOAD]);
    time_phase(load, COMPLETE, &costs[COMPLETE]);
}

static void start(pthread_t *thread, void *(*body)(void *argument), struct worker *worker)
{
    if (pthread_create(thread, NULL, body, worker) != 0) {
        fprintf(stderr, "bench-load: the threads could not be started\n");
        exit(1);
    }
}

static void run(struct load *load, struct cost costs[PHASES])
{
    const uint32_t threads_count = load->connections + 1; // one for requests during commits
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
    find_members(load);
    time_phase(load, ENROLL, &costs[ENROLL]);
    for (uint32_t round = 0; round < load->rounds && load->failed == TERN_OK; round++) {
        run_round(load, costs);
    }
    load->ended = true;
    pthread_barrier_wait(&load->barrier);
    pthread_barrier_wait(&load->barrier);
    for (uint32_t i = 0; i < threads_count; i++) {
        pthread_join(threads[i], NULL);
    }
    free(threads);
    free(workers);
}

static void report(const struct load *load, const struct cost costs[PHASES])
{
    const double updates = (double)load->clients * load->rounds;
    const double all = (double)(load->clients + 1) * load->rounds;
    const double check_ins = (double)load->check_ins - (double)load->idle_check_ins;
    // of check-ins without a task, in the phase CHECK_IN
    const double idle_cpu =
        load->idle_check_ins > 0 ? costs[IDLE].cpu / load->idle_check_ins * (check_ins - all) : 0.0;
    const double cpu = costs[CHECK_IN].cpu - idle_cpu + costs[UPLOAD].cpu + costs[COMPLETE].cpu;
    printf("{\"clients\": %u, \"enrolled\": %u, \"connections\": %u, \"update_bytes\": %zu,\n"
           " \"accepted\": %u, \"refused\": %u, \"upload_seconds\": %.3f,\n"
           " \"updates_per_second\": %.0f, \"round_commit_seconds\": %.3f,\n"
           " \"enrollments_per_second\": %.0f,\n"
           " \"checkins_per_second\": %.0f,\n"
           " \"cpu_ms\": %.3f, \"commit_cpu_seconds\": %.4f, \"commit_wait_ms\": %.1f,\n"
           " \"written_per_byte\": %.2f, \"peak_mib\": %.0f}\n",
           load->clients, load->enrolled, load->connections, load->work.container_len,
           load->accepted - load->rounds, load->refused, costs[UPLOAD].seconds,
           updates / costs[UPLOAD].seconds, costs[COMPLETE].seconds / load->rounds,
           load->enrolled / costs[ENROLL].seconds, check_ins / costs[CHECK_IN].seconds,
           cpu / all * 1e3, costs[COMPLETE].cpu / load->rounds, load->longest_wait * 1e3,
           (costs[CHECK_IN].written + costs[UPLOAD].written + costs[COMPLETE].written) / all /
               (double)load->work.container_len,
           read_number(load->pid, "status", "VmHWM:") / 1024.0);
}

int main(int argc, char **argv)
{
    const unsigned long steps = argc == 15 ? strtoul(argv[13], NULL, 10) : 0;
    const unsigned long enrolled = argc == 15 ? strtoul(argv[14], NULL, 10) : 0;
    if (steps < 1 || steps > LOCAL_STEPS || enrolled <= strtoul(argv[7], NULL, 10)) {
        fprintf(
            stderr,
            "usage: bench-load HOST PORT CA.pem JOIN_CODE MODEL SEED CLIENTS "
            "CONNECTIONS UPDATE_BYTES CODEC ROUNDS PID STEPS ENROLLED\n"
            "The aggregator's round.cohort must be CLIENTS + 1, round.min_clients ENROLLED, PID "
            "its "
            "process, train.local_steps %d. Clients do so many, or one less and so on: STEPS (1 to "
            "%d) different numbers.\n",
            LOCAL_STEPS, LOCAL_STEPS);
        return 2;
    }
    static struct load load;
    load.pid = atoi(argv[12]);
    load.host = argv[1];
    load.port = argv[2];
    load.ca = argv[3];
    load.work.join_code = argv[4];
    load.clients = (uint32_t)strtoul(argv[7], NULL, 10);
    load.connections = (uint32_t)strtoul(argv[8], NULL, 10);
    load.rounds = (uint32_t)strtoul(argv[11], NULL, 10);
    load.enrolled = (uint32_t)enrolled;
    enum tern_result result = load_work_make(&load.work, argv[5], strtoull(argv[6], NULL, 10),
                                             argv[10], (uint32_t)strtoul(argv[9], NULL, 10));
    load.all = calloc(load.enrolled, sizeof *load.all);
    load.members = calloc(load.enrolled, sizeof *load.members);
    load.idle = calloc(load.enrolled, sizeof *load.idle);
    if (load.all == NULL || load.members == NULL || load.idle == NULL) {
        exit(1);
    }
    if (result == TERN_OK && clock_getcpuclockid(load.pid, &load.cpu) != 0) {
        result = TERN_ERR_ARGUMENT;
    }
    struct cost costs[PHASES] = {{0}};
    for (uint32_t i = 0; result == TERN_OK && i < load.enrolled; i++) {
        load.all[i].fewer_steps = i % (uint32_t)steps;
    }
    if (result == TERN_OK) {
        run(&load, costs);
        result = (enum tern_result)load.failed;
    }
    if (result != TERN_OK) {
        fprintf(stderr, "bench-load: %s\n", tern_result_sentence(result));
        return 1;
    }
    report(&load, costs);
    return load.refused == 0 ? 0 : 1;
}
