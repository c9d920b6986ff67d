// How many TLS handshakes one address may begin: counted, and by a listener whose peers send a ClientHello and no
// more.
#include "http/admission.h"

#include "client.h"
#include "fixture.h"
#include "tests/cases.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define LIMIT 2
#define PEERS 7

// A ClientHello of TLS 1.2 with one suite (ECDHE, ECDSA, ChaCha20-Poly1305), X25519 and P-256, and
// ECDSA with SHA-256.
static const uint8_t HELLO[] = {
    0x16, 0x03, 0x01, 0x00, 0x43, 0x01, 0x00, 0x00, 0x3f, 0x03, 0x03, 1,    2,    3,    4,
    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15,   16,   17,   18,   19,
    20,   21,   22,   23,   24,   25,   26,   27,   28,   29,   30,   31,   32,   0x00, 0x00,
    0x02, 0xcc, 0xa9, 0x01, 0x00, 0x00, 0x14, 0x00, 0x0a, 0x00, 0x06, 0x00, 0x04, 0x00, 0x1d,
    0x00, 0x17, 0x00, 0x0d, 0x00, 0x06, 0x00, 0x04, 0x04, 0x03, 0x04, 0x03,
};

static struct tern_address address_of(uint8_t number)
{
    return (struct tern_address){.bytes = {0x20, 1, number}};
}

CASE(test_an_address_has_its_share)
{
    struct tern_handshakes handshakes = {.per_address = LIMIT};
    const struct tern_address a = address_of(1);
    const struct tern_address b = address_of(2);
    assert_true(tern_handshakes_take_slot(&handshakes, &a, 1000));
    assert_true(tern_handshakes_take_slot(&handshakes, &a, 1000));
    assert_false(tern_handshakes_take_slot(&handshakes, &a, 1000));
    assert_true(tern_handshakes_take_slot(&handshakes, &b, 1000));
    tern_handshakes_free_slot(&handshakes, &a, 1000);
    assert_true(tern_handshakes_take_slot(&handshakes, &a, 1000));
    assert_false(tern_handshakes_take_slot(&handshakes, &a, 1000));
    tern_handshakes_sweep(&handshakes, UINT64_MAX);
}

// Handshakes that stall, however long they may, hold a turn for as long as it takes to refill.
CASE(test_one_that_stalls_gives_its_turn_up)
{
    struct tern_handshakes handshakes = {.per_address = LIMIT};
    const struct tern_address a = address_of(1);
    assert_true(tern_handshakes_take_slot(&handshakes, &a, 1000));
    assert_true(tern_handshakes_take_slot(&handshakes, &a, 1000));
    assert_false(tern_handshakes_take_slot(&handshakes, &a, 1000 + 1000 / LIMIT - 1));
    assert_true(tern_handshakes_take_slot(&handshakes, &a, 1000 + 1000 / LIMIT));
    assert_true(tern_handshakes_take_slot(&handshakes, &a, 60000));
    tern_handshakes_free_slot(&handshakes, &a,
                              90000); // the first of them, after all: nothing is left to free
    tern_handshakes_free_slot(&handshakes, &a, 90000);
    for (int i = 0; i < LIMIT; i++) {
        assert_true(tern_handshakes_take_slot(&handshakes, &a, 90000));
    }
    assert_false(tern_handshakes_take_slot(&handshakes, &a, 90000));
    tern_handshakes_sweep(&handshakes, UINT64_MAX);
}

CASE(test_failures_count_for_a_while)
{
    struct tern_handshakes handshakes = {.per_address = LIMIT};
    const struct tern_address a = address_of(1);
    int begun = 0;
    for (uint64_t now = 0; now < 10000; now += 10) {
        while (tern_handshakes_take_slot(&handshakes, &a, now)) {
            begun++;
        }
        tern_handshakes_sweep(&handshakes, now);
    }
    assert_in_range(begun, 10 * LIMIT, 10 * LIMIT + LIMIT);
    tern_handshakes_sweep(&handshakes, 20000);
    assert_true(tern_handshakes_take_slot(&handshakes, &a, 20000));
    assert_true(tern_handshakes_take_slot(&handshakes, &a, 20000));
    tern_handshakes_sweep(&handshakes, UINT64_MAX);
}

CASE(test_many_addresses_come_and_go)
{
    struct tern_handshakes handshakes = {.per_address = 1};
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 256; i++) {
            const struct tern_address address = address_of((uint8_t)i);
            assert_true(tern_handshakes_take_slot(&handshakes, &address, 0));
        }
        for (int i = 0; i < 256; i++) {
            const struct tern_address address = address_of((uint8_t)i);
            if (i % 2 == 1) {
                tern_handshakes_free_slot(&handshakes, &address, 0);
            }
        }
        tern_handshakes_sweep(&handshakes, 0);
        for (int i = 0; i < 256; i++) {
            const struct tern_address address = address_of((uint8_t)i);
            assert_int_equal(tern_handshakes_take_slot(&handshakes, &address, 0), i % 2 == 1);
            if (i % 2 == 1) {
                tern_handshakes_free_slot(&handshakes, &address, 0);
            }
        }
        tern_handshakes_sweep(&handshakes, UINT64_MAX);
    }
    tern_handshakes_sweep(&handshakes, UINT64_MAX);
}

// --- By a listener

static struct fixture fixture;
static _Atomic uint64_t clock_ms = 1000000;

static uint64_t read_clock(void)
{
    return clock_ms;
}

static struct client begin_one(uint16_t port)
{
    struct client client;
    assert_true(client_open(&client, port, NULL));
    assert_true(client_send(&client, HELLO, sizeof HELLO));
    return client;
}

static bool is_answered(const struct client *client, int wait_ms)
{
    struct pollfd poll_fd = {.fd = client->fd, .events = POLLIN};
    return poll(&poll_fd, 1, wait_ms) == 1;
}

// Waits until so many of them have the server's part of the handshake; never more do.
static int answered(const struct client *clients, int count, int expected)
{
    int now = -1;
    for (int tries = 0; tries < 5000 && now != expected; tries++) {
        now = 0;
        for (int i = 0; i < count; i++) {
            now += is_answered(&clients[i], 0);
        }
        assert_true(now <= expected);
        sleep_ms(1);
    }
    return now;
}

static struct tern_http_counters counters(void)
{
    struct tern_http_counters now;
    tern_http_counters(fixture.server, &now);
    return now;
}

static bool wait_failed(uint64_t expected)
{
    for (int tries = 0; tries < 5000 && counters().handshakes_failed != expected; tries++) {
        sleep_ms(1);
    }
    return counters().handshakes_failed == expected;
}

static void pass_time(uint64_t ms)
{
    clock_ms += ms;
}

static void ask_after_handshakes(void)
{
    struct client clients[2 * LIMIT];
    char root[120];
    snprintf(root, sizeof root, "%s/ca.pem", fixture.folder);
    const struct tls_client_settings settings = {.root = root};
    for (int i = 0; i < 2 * LIMIT; i++) { // those that are done leave their places at once
        assert_true(client_open(&clients[i], fixture.port, &settings));
    }
    for (int i = 0; i < 2 * LIMIT; i++) {
        assert_int_equal(client_ask(&clients[i], "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n", ""), 200);
        client_close(&clients[i]);
    }
}

CASE(test_a_listener_holds_the_others_back)
{
    struct tern_http_config config = {.threads = 1,
                                      .sweep_ms = 5,
                                      .monotonic_ms = read_clock,
                                      .limits = {.handshakes_per_address = LIMIT}};
    struct client silent;
    struct client peers[PEERS];
    fixture_start(&fixture, &config, false);
    assert_true(client_open(&silent, fixture.port, NULL)); // takes no turn
    for (int i = 0; i < PEERS; i++) {
        peers[i] = begin_one(fixture.port);
        assert_true(i >= LIMIT || is_answered(&peers[i], 5000));
    }
    assert_int_equal(answered(peers, PEERS, LIMIT), LIMIT);
    while (counters().handshakes_deferred < PEERS - LIMIT) {
        sleep_ms(1);
    }
    client_close(&peers[PEERS - 1]); // without a turn, so without a place to keep
    assert_true(wait_failed(1));
    client_close(&peers[0]);
    assert_true(wait_failed(2));
    assert_int_equal(answered(peers + 1, PEERS - 2, LIMIT - 1), LIMIT - 1);
    pass_time(1000 /
              LIMIT); // the turn of the one that failed, and spare time for one without a turn
    assert_int_equal(answered(peers + 1, PEERS - 2, LIMIT + 1), LIMIT + 1);
    assert_true(is_answered(&peers[PEERS - 2], 0)); // of turns the newest takes the first
    client_close(&peers[1]);
    assert_true(wait_failed(3));
    assert_int_equal(answered(peers + 2, PEERS - 3, LIMIT), LIMIT);
    pass_time(1000 / LIMIT);
    assert_int_equal(answered(peers + 2, PEERS - 3, PEERS - 3), PEERS - 3);
    for (int i = LIMIT; i < PEERS - 1; i++) {
        client_close(&peers[i]);
    }
    assert_true(wait_failed(PEERS));
    pass_time(1000);
    assert_int_equal(counters().handshakes_deferred, PEERS - LIMIT);
    client_close(&silent);
    ask_after_handshakes();
    assert_true(fixture_wait_idle(&fixture));
    fixture_stop(&fixture);
}

// Those that are held back begin in time that the loop has to spare, long before their address has a turn.
CASE(test_spare_time_is_used)
{
    struct tern_http_config config = {.threads = 1,
                                      .sweep_ms = 5,
                                      .monotonic_ms = read_clock,
                                      .limits = {.handshakes_per_address = 1}};
    struct client peers[3];
    fixture_start(&fixture, &config, false);
    for (int i = 0; i < 3; i++) {
        peers[i] = begin_one(fixture.port);
        assert_true(i > 0 || is_answered(&peers[0], 5000));
    }
    while (counters().handshakes_deferred < 2) {
        sleep_ms(1);
    }
    assert_int_equal(answered(peers, 3, 1), 1);
    int passed = 0;
    while (!is_answered(&peers[1], 0) || !is_answered(&peers[2], 0)) {
        sleep_ms(1);
        pass_time(1);
        assert_true(++passed < 900); // a turn is free after 1,000
    }
    for (int i = 0; i < 3; i++) {
        client_close(&peers[i]);
    }
    assert_true(fixture_wait_idle(&fixture));
    fixture_stop(&fixture);
}
