// Measures the latency of requests from many clients. Enrols all clients, keeps a connection open for some of them,
// and lets these check in and send updates in a loop. In a closed loop each worker sends its next request after the
// last reply. In an open loop requests are due at random times (Poisson) that replies do not influence, and the wait
// for a free worker counts (coordinated omission, Tene). A client that loses its connection resumes its TLS session.
//
//   bench-crowd HOST PORT CA.pem JOIN_CODE [NAME=NUMBER]...
//
// Prints "connected" once all clients are connected, and JSON at the end or on SIGINT.
#include "load_clients.h"
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define MODEL "softmax:64-10"
#define CODEC "3lc:s=1"
#define RECONNECT_S 0.2
#define LOOK_S 0.1 // seconds between checks for the end

enum { ENROLL, CHECK_IN, UPLOAD, KINDS };
static const char *const kinds[KINDS] = {"enroll", "checkin", "update"};

struct options {
    uint32_t enrolled;
    uint32_t connected; // number of enrolled clients with a connection
    uint32_t workers;
    uint32_t ms;      // longest duration
    uint32_t updates; // number of updates after which the measurement ends; 0: no limit
    uint32_t rate;    // requests a second in an open loop; 0: closed loop
    uint32_t bytes;   // size of an update
    uint32_t wait; // ms that the aggregator may hold a check-in without a task; occupies a worker
};

// Milliseconds.
struct latencies {
    float *of;
    size_t count;
    size_t room;
};

struct member {
    struct load_client client;
    struct bench_connection connection;
    mbedtls_ssl_session session;
    double again; // time of the next attempt to connect
};

struct crowd {
    const char *host;
    const char *port;
    const char *ca;
    struct options options;
    struct load_work work;
    struct member *members;
    pthread_barrier_t barrier;
    double started;
    _Atomic uint32_t updates;
    _Atomic uint32_t late; // updates that arrived after their round (410)
    _Atomic uint32_t shed; // replies with status 429 or 503
    _Atomic uint32_t shed_with_retry_after;
    _Atomic uint32_t refused; // replies with another error status
    _Atomic uint32_t disconnected;
    _Atomic uint32_t reconnected;
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

struct worker {
    struct crowd *crowd;
    uint32_t index;
    struct bench_tls tls;
    struct load_line line;
    struct latencies latencies[KINDS];
    unsigned random;
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void sleep_until(double due)
{
    const double left = due - now();
    if (left > 0) {
        nanosleep(&(struct timespec){(time_t)left, (long)((left - floor(left)) * 1e9)}, NULL);
    }
}

static void fail(const char *what, enum tern_result result)
{
    fprintf(stderr, "bench-crowd: %s: %s\n", what, tern_result_sentence(result));
    exit(1);
}

static void note(struct latencies *latencies, double seconds)
{
    if (latencies->count == latencies->room) {
        latencies->room = latencies->room * 2 + 1024;
        latencies->of = realloc(latencies->of, latencies->room * sizeof *latencies->of);
        if (latencies->of == NULL) {
            fail("latencies", TERN_ERR_NO_MEMORY);
        }
    }
    latencies->of[latencies->count++] = (float)(seconds * 1e3);
}

// --- Connections

static bool open_first(struct worker *worker, struct member *member)
{
    return bench_connect(&worker->tls, &member->connection) == TERN_OK &&
           mbedtls_ssl_get_session(&member->connection.ssl, &member->session) == 0;
}

// Closes a lost connection, and prints the reason of the first loss.
static void lose(struct worker *worker, struct member *member, enum tern_result why)
{
    bench_close(&member->connection);
    if (worker->crowd->disconnected++ == 0) {
        fprintf(stderr, "bench-crowd: a connection failed and is not retried: %s\n",
                tern_result_sentence(why));
    }
    member->again = now() + RECONNECT_S;
}

static bool is_connected(struct worker *worker, struct member *member)
{
    if (member->connection.open) {
        return true;
    }
    if (now() < member->again) {
        return false;
    }
    if (bench_resume(&worker->tls, &member->connection, &member->session) != TERN_OK) {
        member->again = now() + RECONNECT_S;
        return false;
    }
    worker->crowd->reconnected++;
    return true;
}

// --- Requests

static void count_refusal(struct worker *worker, struct load_client *client)
{
    struct crowd *crowd = worker->crowd;
    const int status = worker->line.status;
    if (status == 429 || status == 503) {
        crowd->shed++;
        crowd->shed_with_retry_after += worker->line.connection->retry_after;
        return;
    }
    client->round = 0;
    if (status == 410) {
        crowd->late++;
    } else if (crowd->refused++ == 0) {
        fprintf(stderr, "bench-crowd: HTTP %d: %s\n", status, worker->line.error);
    }
}

static void ask(struct worker *worker, struct member *member, double due)
{
    struct crowd *crowd = worker->crowd;
    struct load_client *client = &member->client;
    const int kind = client->round != 0 ? UPLOAD : CHECK_IN;
    worker->line.connection = &member->connection;
    const enum tern_result result =
        kind == UPLOAD ? load_upload(&crowd->work, &worker->line, client)
                       : load_check_in(&crowd->work, &worker->line, client, crowd->options.wait);
    if (result == TERN_OK || result == TERN_ERR_NOT_IN_COHORT) {
        note(&worker->latencies[kind], now() - due);
        crowd->updates += kind == UPLOAD;
        client->round = kind == UPLOAD ? 0 : client->round;
    } else if (result == TERN_ERR_HTTP) {
        count_refusal(worker, client);
    } else {
        lose(worker, member, result);
    }
}

static bool is_over(const struct crowd *crowd)
{
    const struct options *options = &crowd->options;
    return interrupted || now() >= crowd->started + options->ms * 1e-3 ||
           (options->updates != 0 && crowd->updates >= options->updates);
}

// Waits until a time, or until the measurement ends.
static void wait_until(const struct crowd *crowd, double due)
{
    while (now() < due && !is_over(crowd)) {
        sleep_until(fmin(due, now() + LOOK_S));
    }
}

// Draws the seconds to this worker's next request.
static double gap(struct worker *worker)
{
    const struct options *options = &worker->crowd->options;
    const double drawn = (rand_r(&worker->random) + 1.0) / (RAND_MAX + 1.0);
    return -log(drawn) * options->workers / options->rate;
}

static void run(struct worker *worker)
{
    struct crowd *crowd = worker->crowd;
    const struct options *options = &crowd->options;
    double due = crowd->started;
    for (uint32_t i = worker->index; !is_over(crowd); i += options->workers) {
        struct member *member = &crowd->members[i % options->connected];
        if (options->rate > 0) {
            due += gap(worker);
            wait_until(crowd, due);
        }
        if (is_connected(worker, member)) {
            ask(worker, member, options->rate > 0 ? due : now());
        } else {
            sleep_until(now() + 1e-3);
        }
    }
}

// --- Enrolment

// Returns whether the request was shed (503), after a pause.
static bool was_shed(const struct worker *worker, enum tern_result result)
{
    const bool shed = result == TERN_ERR_HTTP && worker->line.status == 503;
    sleep_until(now() + (shed ? RECONNECT_S : 0));
    return shed;
}

static void enroll(struct worker *worker, struct member *through, struct load_client *client)
{
    worker->line.connection = &through->connection;
    const double asked = now();
    enum tern_result result;
    do {
        result = load_enroll(&worker->crowd->work, &worker->line, client);
    } while (was_shed(worker, result));
    if (result != TERN_OK) {
        fail(worker->line.error[0] != '\0' ? worker->line.error : "enrolling", result);
    }
    note(&worker->latencies[ENROLL], now() - asked);
}

// Connects and enrols a client, and checks in at once: requests with a valid token have priority over enrolments.
static void join(struct worker *worker, struct member *member)
{
    if (!open_first(worker, member)) {
        fail("connecting", TERN_ERR_NETWORK);
    }
    enroll(worker, member, &member->client);
    enum tern_result result;
    do {
        result = load_check_in(&worker->crowd->work, &worker->line, &member->client, 0);
    } while (was_shed(worker, result));
    if (result != TERN_OK && result != TERN_ERR_NOT_IN_COHORT) {
        fail("the first check-in", result);
    }
}

// Clients that stay unconnected enrol before the others, through another client's connection: once all are connected,
// no round waits for them.
static void enroll_all(struct worker *worker)
{
    const struct options *options = &worker->crowd->options;
    struct member *members = worker->crowd->members;
    struct load_client other;
    join(worker, &members[worker->index]);
    for (uint32_t i = options->connected + worker->index; i < options->enrolled;
         i += options->workers) {
        enroll(worker, &members[worker->index], &other);
    }
    for (uint32_t i = worker->index + options->workers; i < options->connected;
         i += options->workers) {
        join(worker, &members[i]);
    }
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct crowd *crowd = worker->crowd;
    worker->line.body_size = load_body_size(&crowd->work);
    worker->line.body = malloc(worker->line.body_size);
    if (worker->line.body == NULL ||
        bench_tls_init(&worker->tls, crowd->host, crowd->port, crowd->ca) != TERN_OK) {
        fail("TLS", TERN_ERR_TLS);
    }
    enroll_all(worker);
    pthread_barrier_wait(&crowd->barrier);
    pthread_barrier_wait(&crowd->barrier); // the main thread has read the clock
    run(worker);
    return NULL;
}

// --- After

static int by_size(const void *left, const void *right)
{
    const float a = *(const float *)left;
    const float b = *(const float *)right;
    return (a > b) - (a < b);
}

static void print_latencies(const struct worker *workers, uint32_t count, int kind)
{
    static const struct {
        const char *name;
        double share;
    } shares[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1}};
    struct latencies all = {0};
    for (uint32_t i = 0; i < count; i++) {
        const struct latencies *of = &workers[i].latencies[kind];
        for (size_t k = 0; k < of->count; k++) {
            note(&all, (double)of->of[k] * 1e-3);
        }
    }
    printf(" \"%s_count\": %zu", kinds[kind], all.count);
    if (all.count > 0) {
        qsort(all.of, all.count, sizeof *all.of, by_size);
    }
    for (size_t i = 0; i < sizeof shares / sizeof shares[0] && all.count > 0; i++) {
        const size_t at = (size_t)(shares[i].share * (double)(all.count - 1));
        printf(", \"%s_%s_ms\": %.3f", kinds[kind], shares[i].name, (double)all.of[at]);
    }
    printf(",\n");
    free(all.of);
}

static void report(const struct crowd *crowd, const struct worker *workers)
{
    const struct options *options = &crowd->options;
    const double seconds = now() - crowd->started;
    size_t requests = 0;
    printf("{");
    for (int kind = 0; kind < KINDS; kind++) {
        print_latencies(workers, options->workers, kind);
        for (uint32_t i = 0; i < options->workers && kind != ENROLL; i++) {
            requests += workers[i].latencies[kind].count;
        }
    }
    printf(
        " \"enrolled\": %u, \"connected\": %u, \"seconds\": %.2f, \"requests_per_second\": %.0f,\n"
        " \"updates\": %u, \"late\": %u, \"shed\": %u, \"shed_with_retry_after\": %u,\n"
        " \"refused\": %u, \"disconnected\": %u, \"reconnected\": %u}\n",
        options->enrolled, options->connected, seconds, (double)requests / seconds, crowd->updates,
        crowd->late, crowd->shed, crowd->shed_with_retry_after, crowd->refused, crowd->disconnected,
        crowd->reconnected);
}

// --- Options

static void set_option(struct options *options, const char *text)
{
    const struct {
        const char *name;
        uint32_t *number;
    } known[] = {{"enrolled", &options->enrolled}, {"connected", &options->connected},
                 {"workers", &options->workers},   {"ms", &options->ms},
                 {"updates", &options->updates},   {"rate", &options->rate},
                 {"bytes", &options->bytes},       {"wait", &options->wait}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const size_t len = strlen(known[i].name);
        if (strncmp(text, known[i].name, len) == 0 && text[len] == '=') {
            *known[i].number = (uint32_t)strtoul(text + len + 1, NULL, 10);
            return;
        }
    }
    fprintf(stderr, "bench-crowd: there is no %s\n", text);
    exit(2);
}

static void raise_file_limit(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

static void run_all(struct crowd *crowd)
{
    struct worker *workers = calloc(crowd->options.workers, sizeof *workers);
    pthread_t *threads = calloc(crowd->options.workers, sizeof *threads);
    if (workers == NULL || threads == NULL) {
        fail("workers", TERN_ERR_NO_MEMORY);
    }
    pthread_barrier_init(&crowd->barrier, NULL, crowd->options.workers + 1);
    for (uint32_t i = 0; i < crowd->options.workers; i++) {
        workers[i].crowd = crowd;
        workers[i].index = i;
        workers[i].random = i + 1;
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0) {
            fail("threads", TERN_ERR_NO_MEMORY);
        }
    }
    pthread_barrier_wait(&crowd->barrier);
    puts("connected");
    fflush(stdout);
    crowd->started = now();
    pthread_barrier_wait(&crowd->barrier);
    for (uint32_t i = 0; i < crowd->options.workers; i++) {
        pthread_join(threads[i], NULL);
    }
    report(crowd, workers); // connections close when the process ends
}

int main(int argc, char **argv)
{
    static struct crowd crowd = {
        .options = {.enrolled = 100, .connected = 50, .workers = 16, .ms = 5000, .bytes = 200}};
    struct options *options = &crowd.options;
    if (argc < 5) {
        fprintf(stderr,
                "usage: bench-crowd HOST PORT CA.pem JOIN_CODE [enrolled|connected|workers|ms|"
                "updates|rate|bytes=NUMBER]...\n"
                "The aggregator's model must be " MODEL " with seed 1, its codec " CODEC ".\n");
        return 2;
    }
    crowd.host = argv[1];
    crowd.port = argv[2];
    crowd.ca = argv[3];
    crowd.work.join_code = argv[4];
    for (int i = 5; i < argc; i++) {
        set_option(options, argv[i]);
    }
    if (options->workers == 0 || options->workers > options->connected ||
        options->connected % options->workers != 0 || options->connected > options->enrolled) {
        fprintf(stderr, "bench-crowd: connected must be a multiple of workers, and at most as many "
                        "as are enrolled\n");
        return 2;
    }
    raise_file_limit();
    signal(SIGINT, on_interrupt);
    crowd.members = calloc(options->connected, sizeof *crowd.members);
    if (crowd.members == NULL) {
        fail("members", TERN_ERR_NO_MEMORY);
    }
    for (uint32_t i = 0; i < options->connected; i++) {
        mbedtls_ssl_session_init(&crowd.members[i].session);
    }
    const enum tern_result result = load_work_make(&crowd.work, MODEL, 1, CODEC, options->bytes);
    if (result != TERN_OK) {
        fail("the update", result);
    }
    run_all(&crowd);
    return 0;
}
