// One loop, and a peer that pipelines without end: the others are served beside it.
#include "client.h"
#include "fixture.h"
#include "tests/cases.h"

#include <string.h>
#include <sys/socket.h>

#define REQUEST "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n"
#define FLOODERS 2
#define PROBES 20
#define PATIENCE_MS 30000u

struct flood {
    struct client client;
    pthread_t writer;
    pthread_t reader;
};

static atomic_bool ends;
static _Atomic uint64_t drained;

static void *write_flood(void *argument)
{
    struct flood *flood = argument;
    char many[2000 * (sizeof REQUEST - 1)];
    for (size_t at = 0; at < sizeof many; at += sizeof REQUEST - 1) {
        memcpy(many + at, REQUEST, sizeof REQUEST - 1);
    }
    while (!ends && send(flood->client.fd, many, sizeof many, MSG_NOSIGNAL) > 0) {
    }
    return NULL;
}

static void *read_flood(void *argument)
{
    struct flood *flood = argument;
    char replies[65536];
    ssize_t len;
    while (!ends && (len = recv(flood->client.fd, replies, sizeof replies, 0)) > 0) {
        drained += (uint64_t)len;
    }
    return NULL;
}

static void begin_flood(struct flood *flood, uint16_t port)
{
    assert_true(client_open(&flood->client, port, NULL));
    assert_int_equal(pthread_create(&flood->reader, NULL, read_flood, flood), 0);
    assert_int_equal(pthread_create(&flood->writer, NULL, write_flood, flood), 0);
}

static void end_flood(struct flood *flood)
{
    shutdown(flood->client.fd, SHUT_RDWR);
    pthread_join(flood->writer, NULL);
    pthread_join(flood->reader, NULL);
    client_close(&flood->client);
}

CASE(test_a_pipelining_peer_does_not_pin_the_loop)
{
    static struct fixture fixture;
    static struct flood floods[FLOODERS];
    struct tern_http_config config = {.threads = 1};
    struct client client;
    fixture_start(&fixture, &config, true);
    assert_true(client_open(&client, fixture.port, NULL));
    assert_int_equal(client_ask(&client, REQUEST, ""), 200);
    for (size_t i = 0; i < FLOODERS; i++) {
        begin_flood(&floods[i], fixture.port);
    }
    while (drained < 1000000) { // well under way
        sleep_ms(1);
    }
    uint64_t began = now_ms();
    int answered = 0;
    while (answered < PROBES && now_ms() - began < PATIENCE_MS &&
           client_ask(&client, REQUEST, "") == 200) {
        answered++;
    }
    uint64_t took = now_ms() - began;
    ends = true;
    for (size_t i = 0; i < FLOODERS; i++) {
        end_flood(&floods[i]);
    }
    print_message("%d requests beside a flood took %u ms\n", answered, (unsigned)took);
    assert_int_equal(answered, PROBES);
    client_close(&client);
    fixture_stop(&fixture);
}
