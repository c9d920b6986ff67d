// Prints how many requests with 10 KB bodies the listener answers per second over kept TLS
// connections, and the handshakes per second, full and with a ticket. Server and clients share the
// machine's cores, so that the figures are a lower bound. Usage: bench_listener [connections]
#include "client.h"
#include "fixture.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BODY 10000
#define SECONDS 3u

struct worker {
    pthread_t thread;
    uint64_t done;
    bool failed;
};

static struct fixture fixture;
static struct tls_client_settings settings;
static uint64_t until_ms;

static void *upload(void *argument)
{
    struct worker *worker = argument;
    struct client client;
    char request[BODY + 100] = {0};
    int head = snprintf(request, 100,
                        "PUT /client/1 HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", BODY);
    worker->failed = !client_open(&client, fixture.port, &settings);
    while (!worker->failed && now_ms() < until_ms) {
        worker->failed = !client_send(&client, request, (size_t)head + BODY);
        struct client_reply reply = client_receive(&client, false);
        worker->failed = worker->failed || reply.status != 200;
        client_reply_free(&reply);
        worker->done++;
    }
    client_close(&client);
    return NULL;
}

static double run(void *(*work)(void *), unsigned count)
{
    struct worker *workers = calloc(count, sizeof *workers);
    uint64_t total = 0;
    uint64_t begin = now_ms();
    until_ms = begin + SECONDS * 1000;
    for (unsigned i = 0; i < count; i++) {
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            abort();
        }
    }
    for (unsigned i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
        total += workers[i].done;
        if (workers[i].failed) {
            fprintf(stderr, "a client failed\n");
        }
    }
    free(workers);
    return (double)total * 1000 / (double)(now_ms() - begin);
}

static double handshakes(bool resumes)
{
    mbedtls_ssl_session session;
    mbedtls_ssl_session_init(&session);
    struct tls_client_settings own = settings;
    own.session = resumes ? &session : NULL;
    struct client client;
    uint64_t count = 0;
    uint64_t begin = now_ms();
    while (now_ms() < begin + 1000 && client_open(&client, fixture.port, &own)) {
        client_close(&client);
        count++;
    }
    mbedtls_ssl_session_free(&session);
    return (double)count * 1000 / (double)(now_ms() - begin);
}

int main(int argc, char **argv)
{
    struct tern_http_config config = {.limits = {.connections_per_address = 4000}};
    char root[96];
    unsigned connections = argc > 1 ? (unsigned)atoi(argv[1]) : 16;
    fixture_start(&fixture, &config, false);
    snprintf(root, sizeof root, "%s/ca.pem", fixture.folder);
    settings.root = root;
    printf("%u connections, %d byte bodies: %.0f requests/s\n", connections, BODY,
           run(upload, connections));
    double full = handshakes(false);
    double resumed = handshakes(true);
    printf("one client after the other: %.0f full handshakes/s, %.0f resumed\n", full, resumed);
    fixture_stop(&fixture);
    return 0;
}
