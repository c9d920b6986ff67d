// Peers that are slow on purpose: each phase of a connection has its own deadline. The clock is the
// test's, so that what takes seconds takes none.
#define _GNU_SOURCE // TEMP_FAILURE_RETRY
#include "client.h"
#include "fixture.h"
#include "tests/cases.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct fixture fixture;
static _Atomic uint64_t clock_ms;

static uint64_t look_at_clock(void)
{
    return clock_ms;
}

static void begin(struct tern_http_limits limits, bool plain)
{
    struct tern_http_config config = {
        .limits = limits,
        .threads = 1, // whose sweeps are those that settle() counts
        .monotonic_ms = look_at_clock,
        .sweep_ms = 1,
    };
    clock_ms = 1;
    fixture_start(&fixture, &config, plain);
}

static int stop(void **state)
{
    (void)state;
    fixture_stop(&fixture);
    return 0;
}

// Until what was sent is read, and a sweep that began since has ended: the first may have been under way,
// and every two have sockets served between them.
static void settle(void)
{
    const uint64_t before = tern_http_sweeps(fixture.server);
    for (int i = 0; i < 20000 && tern_http_sweeps(fixture.server) - before < 4; i++) {
        sleep_ms(1);
    }
    assert_true(tern_http_sweeps(fixture.server) - before >= 4);
}

static void pass(uint64_t ms)
{
    settle();
    clock_ms += ms;
    settle();
}

static void expect_reply(struct client *client, int status)
{
    struct client_reply reply = client_receive(client, false);
    assert_int_equal(reply.status, status);
    assert_int_equal(reply.closes, status == 408);
    client_reply_free(&reply);
}

CASE_WITH(test_slow_request_is_told_408, NULL, stop)
{
    begin((struct tern_http_limits){.request_ms = 1500}, true);
    struct client header;
    struct client body;
    assert_true(client_open(&header, fixture.port, NULL));
    assert_true(client_open(&body, fixture.port, NULL));
    assert_true(
        client_send_text(&body, "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n"));
    settle(); // what is read with the first of the body buys time as well
    // A byte now and then must not keep either of them open.
    for (int i = 0; i < 16; i++) {
        assert_int_equal(fixture_counters(&fixture).timeouts, i < 15 ? 0 : 1);
        (void)client_send_text(&header,
                               i == 0 ? "G" : (i == 1 ? "ET / HTTP/1.1\r\nHost: h\r\nX: " : "x"));
        (void)client_send_text(&body, "x"); // buys 2 ms
        pass(100);
    }
    expect_reply(&header, 408);
    expect_reply(&body, 408);
    assert_int_equal(fixture.requests_seen, 0);
    assert_int_equal(fixture_counters(&fixture).timeouts, 2);
    client_close(&header);
    client_close(&body);
}

// A body that keeps coming has the time that its bytes need at the least rate, and no more.
CASE_WITH(test_slow_but_steady_body_arrives, NULL, stop)
{
    begin((struct tern_http_limits){.request_ms = 2000, .min_rate = 1000}, true);
    struct client steady;
    struct client stalled;
    char part[200];
    memset(part, 'x', sizeof part);
    assert_true(client_open(&steady, fixture.port, NULL));
    assert_true(client_open(&stalled, fixture.port, NULL));
    assert_true(
        client_send_text(&steady, "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 8000\r\n\r\n"));
    assert_true(client_send_text(&stalled,
                                 "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 8000\r\n\r\n"));
    settle();
    assert_true(client_send(&stalled, part, sizeof part)); // buys 200 ms
    for (int i = 0; i < 40; i++) {                         // 2,000 bytes per second for 4 s
        assert_int_equal(fixture_counters(&fixture).timeouts, i < 22 ? 0 : 1);
        assert_true(client_send(&steady, part, sizeof part));
        pass(100);
    }
    struct client_reply reply = client_receive(&steady, false);
    assert_int_equal(reply.status, 200);
    assert_int_equal(reply.body_len, 8000);
    client_reply_free(&reply);
    expect_reply(&stalled, 408);
    client_close(&steady);
    client_close(&stalled);
}

CASE_WITH(test_idle_connection_is_closed_and_a_busy_one_is_not, NULL, stop)
{
    begin((struct tern_http_limits){.idle_ms = 2500}, true);
    struct client idle;
    struct client busy;
    struct client pending;
    assert_true(client_open(&idle, fixture.port, NULL));
    assert_true(client_open(&busy, fixture.port, NULL));
    assert_true(client_open(&pending, fixture.port, NULL));
    assert_int_equal(client_ask(&idle, "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n", ""), 200);
    assert_true(client_send_text(&pending, "GET /held HTTP/1.1\r\nHost: h\r\n\r\n"));
    assert_true(fixture_wait_held(&fixture));
    for (int i = 0; i < 12; i++) {
        assert_int_equal(client_ask(&busy, "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n", ""), 200);
        assert_true(i > 8 || !client_sees_end(&idle, 0));
        pass(300);
    }
    assert_true(client_sees_end(&idle, 10000));
    fixture_release(&fixture); // a reply may take as long as the handler likes
    expect_reply(&pending, 200);
    assert_int_equal(fixture_counters(&fixture).timeouts, 0); // an idle end is no fault
    client_close(&idle);
    client_close(&busy);
    client_close(&pending);
}

CASE_WITH(test_stalled_handshake_is_cut, NULL, stop)
{
    begin((struct tern_http_limits){.handshake_ms = 1000}, false);
    struct client silent;
    struct client partial;
    assert_true(client_open(&silent, fixture.port, NULL));
    assert_true(client_open(&partial, fixture.port, NULL));
    assert_true(client_send(&partial, "\x16\x03\x01\x00\xff", 5));
    pass(999);
    assert_int_equal(fixture_counters(&fixture).connections_open, 2);
    pass(1);
    assert_true(client_sees_end(&silent, 8000));
    assert_true(client_sees_end(&partial, 8000));
    assert_int_equal(fixture_counters(&fixture).timeouts, 2);
    client_close(&silent);
    client_close(&partial);
}

// A peer that asks for much and reads nothing.
CASE_WITH(test_peer_that_does_not_read_is_cut, NULL, stop)
{
    begin((struct tern_http_limits){.write_ms = 1500}, true);
    struct client client;
    assert_true(client_open(&client, fixture.port, NULL));
    int small = 4096;
    setsockopt(client.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    for (int i = 0; i < 200; i++) {
        assert_true(client_send_text(&client, "GET /blob HTTP/1.1\r\nHost: h\r\n\r\n"));
    }
    pass(1499);
    assert_int_equal(fixture_counters(&fixture).connections_open, 1);
    for (int i = 0; i < 10 && fixture_counters(&fixture).connections_open > 0; i++) {
        pass(1500); // the kernel may have taken something late
    }
    assert_int_equal(fixture_counters(&fixture).connections_open, 0);
    assert_int_equal(fixture_counters(&fixture).timeouts, 1);
    client_close(&client);
}

// Slow but steady is not stalled, though the whole reply takes longer than the deadline.
CASE_WITH(test_slow_reader_gets_everything, NULL, stop)
{
    begin((struct tern_http_limits){.write_ms = 1500}, true);
    struct client client;
    assert_true(client_open(&client, fixture.port, NULL));
    int small = 16384;
    setsockopt(client.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    size_t size = 3000000;
    char *body = malloc(size);
    memset(body, 'x', size);
    assert_true(client_send_text(
        &client, "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3000000\r\n\r\n"));
    assert_true(client_send(&client, body, size));
    size_t received = 0;
    ssize_t len = 1;
    while (received < size && len > 0) { // 800,000 bytes per second for almost 4 s
        len = TEMP_FAILURE_RETRY(recv(client.fd, body, 60000, MSG_WAITALL));
        received += len > 0 ? (size_t)len : 0;
        pass(75);
    }
    assert_true(received >= size);
    assert_true(clock_ms > 3000);
    assert_int_equal(fixture_counters(&fixture).timeouts, 0);
    free(body);
    client_close(&client);
}

// After a refusal the server waits for the peer's end, but not for ever.
CASE_WITH(test_drain_is_bounded, NULL, stop)
{
    begin((struct tern_http_limits){.body_bytes = 1000}, true);
    struct client lingering;
    struct client flooding;
    assert_true(client_open(&lingering, fixture.port, NULL));
    assert_true(client_open(&flooding, fixture.port, NULL));
    const char *request = "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n";
    assert_true(client_send_text(&lingering, request));
    assert_true(client_send_text(&flooding, request));
    char part[65536] = {0};
    size_t sent = 0;
    while (sent < (16u << 20) && client_send(&flooding, part, sizeof part)) {
        sent += sizeof part;
    }
    assert_true(sent < (16u << 20)); // cut long before all was taken
    pass(4999);
    assert_int_equal(fixture_counters(&fixture).connections_open, 1);
    pass(1);
    assert_true(fixture_wait_idle(&fixture)); // though `lingering` never closes
    client_close(&lingering);
    client_close(&flooding);
}
