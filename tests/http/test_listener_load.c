// Many connections and many threads: what an idle connection costs, and that nothing is mixed up.
#include "client.h"
#include "fixture.h"
#include "sanitized.h"
#include "tests/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define IDLE_CONNECTIONS (SANITIZED ? 100 : 300)
#define IDLE_BYTES_MAX 60000u

static struct fixture fixture;

static int start(void **state)
{
    struct tern_http_config config = {.limits = {.connections_per_address = 4000}};
    struct rlimit files = {.rlim_cur = 8192, .rlim_max = 8192};
    (void)state;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    fixture_start(&fixture, &config, false);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    fixture_stop(&fixture);
    return 0;
}

static size_t resident_bytes(void)
{
    char line[256];
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    assert_int_equal(sscanf(line, "%*u %lu", &pages), 1);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

// The clients live in a process of their own, so that this one's memory is the server's alone. Each
// has made a request with a body, as a device between two rounds has.
static pid_t fork_idle_clients(int count, int ready, int done)
{
    pid_t child = fork();
    if (child != 0) {
        return child;
    }
    mbedtls_ssl_session session;
    mbedtls_ssl_session_init(&session);
    struct tls_client_settings settings = {.root = fixture.root, .session = &session};
    struct client *clients = calloc((size_t)count, sizeof *clients);
    char request[9000];
    memset(request, 'x', sizeof request);
    int head =
        snprintf(request, 100, "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 8000\r\n\r\n");
    request[head] = 'x';
    for (int i = 0; i < count; i++) {
        bool opened = client_open(&clients[i], fixture.port, &settings) &&
                      client_send(&clients[i], request, (size_t)head + 8000);
        struct client_reply reply = {0};
        if (opened) {
            reply = client_receive(&clients[i], false);
            client_reply_free(&reply);
        }
        if (reply.status != 200) {
            _exit(1);
        }
    }
    char byte = 1;
    _exit(write(ready, &byte, 1) == 1 && read(done, &byte, 1) == 1 ? 0 : 1);
}

CASE(test_idle_connections_are_small)
{
    int ready[2];
    int done[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(done), 0);
    // The first ones warm the allocator up.
    struct tls_client_settings settings = {.root = fixture.root};
    struct client warm;
    assert_true(client_open(&warm, fixture.port, &settings));
    client_close(&warm);
    size_t before = resident_bytes();
    pid_t child = fork_idle_clients(IDLE_CONNECTIONS, ready[1], done[0]);
    assert_true(child > 0);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    size_t each = (resident_bytes() - before) / IDLE_CONNECTIONS;
    struct tern_http_counters counters;
    tern_http_counters(fixture.server, &counters);
    print_message("an idle connection takes %zu bytes\n", each);
    assert_int_equal(counters.connections_open, IDLE_CONNECTIONS);
    if (!SANITIZED) { // a sanitizer's own memory is not the server's
        assert_in_range(each, 1000, IDLE_BYTES_MAX);
    }
    assert_int_equal(write(done[1], &byte, 1), 1);
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(fixture_wait_idle(&fixture));
    close(ready[0]);
    close(done[0]);
    close(done[1]);
}

#define THREADS 8
#define REQUESTS 400

struct worker {
    pthread_t thread;
    unsigned number;
    unsigned right;
};

// Bodies of changing size, each unlike any other, so that a mixed-up reply is seen.
static bool exchange_one(struct client *client, unsigned worker, unsigned number)
{
    static const char *const paths[] = {"/echo", "/thread"};
    char request[6000];
    size_t len = 1 + (worker * 977 + number * 131) % 5000;
    int head = snprintf(request, 200, "PUT %s HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n",
                        paths[worker == 0 && number % 4 == 0], len);
    char *body = request + head;
    for (size_t i = 0; i < len; i++) {
        body[i] = (char)(worker * 31 + number * 7 + i);
    }
    if (!client_send(client, request, (size_t)head + len)) {
        return false;
    }
    struct client_reply reply = client_receive(client, false);
    bool right = reply.status == 200 && reply.body_len == len && memcmp(reply.body, body, len) == 0;
    client_reply_free(&reply);
    return right;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    mbedtls_ssl_session session;
    mbedtls_ssl_session_init(&session);
    struct tls_client_settings settings = {.root = fixture.root, .session = &session};
    struct client client = {.fd = -1};
    for (unsigned i = 0; i < REQUESTS; i++) {
        if (i % 50 == 0) {
            client_close(&client);
            if (!client_open(&client, fixture.port, &settings)) {
                break;
            }
        }
        worker->right += exchange_one(&client, worker->number, i);
    }
    client_close(&client);
    mbedtls_ssl_session_free(&session);
    return NULL;
}

// "/thread" holds one exchange at a time, so only the first worker asks for it.
CASE(test_requests_from_many_threads)
{
    struct worker workers[THREADS] = {0};
    uint32_t before = fixture.requests_seen;
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].number = i;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].right, REQUESTS);
    }
    assert_int_equal(fixture.requests_seen - before, THREADS * REQUESTS);
    assert_true(fixture_wait_idle(&fixture));
}

CASES_SHARE(start, stop)
