// What the listener reports for a client against what that client's own socket counted.
#include "client.h"
#include "fixture.h"
#include "tests/cases.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define HEADER_BYTES 52u // IPv4, TCP, timestamps

static struct fixture fixture;

static void begin(bool plain)
{
    struct tern_http_config config = {0};
    fixture_start(&fixture, &config, plain);
}

#define SYN_OPTIONS 8u // MSS, window scale and "SACK permitted"

static struct tcp_info counted_by(const struct client *client)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    assert_int_equal(getsockopt(client->fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
    return info;
}

static void assert_near(uint64_t value, uint64_t expected, uint64_t tolerance, const char *what)
{
    uint64_t difference = value > expected ? value - expected : expected - value;
    if (difference > tolerance) {
        fail_msg("%s: %llu, not %llu", what, (unsigned long long)value,
                 (unsigned long long)expected);
    }
}

static const char SMALL[] =
    "PUT /client/7 HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n0123456789";
static const char SMALL_REPLY[] = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";

// Ends as a device does: it closes, the server follows.
static struct tcp_info finish(struct client *client)
{
    shutdown(client->fd, SHUT_WR);
    assert_true(client_sees_end(client, 8000));
    struct tcp_info info = counted_by(client);
    info.tcpi_bytes_received--; // Linux counts the FIN
    client_close(client);
    assert_true(fixture_wait_idle(&fixture));
    return info;
}

static void assert_totals(const struct tcp_info *info)
{
    struct tern_meter meter = fixture_metered(&fixture, 7);
    struct tern_bytes up = tern_meter_total(&meter, TERN_UP);
    struct tern_bytes down = tern_meter_total(&meter, TERN_DOWN);
    assert_int_equal(up.tls, info->tcpi_bytes_sent - info->tcpi_bytes_retrans);
    assert_int_equal(down.tls, info->tcpi_bytes_received);
    // What a sender repeats, only the sender sees. A segment more or less: the ends see the last
    // acknowledgements at different times.
    uint64_t sent = info->tcpi_bytes_sent + info->tcpi_segs_out * HEADER_BYTES + SYN_OPTIONS;
    uint64_t received = info->tcpi_bytes_received + info->tcpi_segs_in * HEADER_BYTES + SYN_OPTIONS;
    print_message("wire up %llu (client %llu), down %llu (client %llu)\n",
                  (unsigned long long)up.wire, (unsigned long long)sent,
                  (unsigned long long)down.wire, (unsigned long long)received);
    assert_near(up.wire, sent, 2 * HEADER_BYTES + info->tcpi_bytes_retrans, "wire up");
    assert_near(down.wire, received, 2 * HEADER_BYTES + info->tcpi_bytes_retrans, "wire down");
    // Once per connection, as the client counts them.
    assert_int_equal((down.wire - down.tls) % HEADER_BYTES, SYN_OPTIONS);
    assert_int_equal((up.wire - up.tls) % HEADER_BYTES, SYN_OPTIONS);
}

CASE(test_totals_in_the_clear)
{
    begin(true);
    struct client client;
    assert_true(client_open(&client, fixture.port, NULL));
    for (int i = 0; i < 20; i++) {
        assert_int_equal(client_ask(&client, SMALL, "x"), 200);
    }
    struct tcp_info info = finish(&client);
    assert_totals(&info);
    struct tern_meter meter = fixture_metered(&fixture, 7);
    struct tern_bytes up = meter.bytes[TERN_PURPOSE_UPLOAD][TERN_UP];
    struct tern_bytes down = meter.bytes[TERN_PURPOSE_UPLOAD][TERN_DOWN];
    assert_int_equal(up.payload, 200);
    assert_int_equal(down.payload, 20);
    assert_int_equal(up.http, 20 * strlen(SMALL));
    assert_int_equal(down.http, 20 * strlen(SMALL_REPLY));
    assert_int_equal(up.tls, up.http); // in the clear
    assert_int_equal(down.tls, down.http);
    fixture_stop(&fixture);
}

// Once for each reply, and neither for the handshake nor for the end; all of the connection is the cache's.
CASE(test_what_a_cache_sends_is_told_once)
{
    begin(true);
    struct client client;
    assert_true(client_open(&client, fixture.port, NULL));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(client_ask(&client, "GET /told HTTP/1.1\r\nHost: h\r\n\r\n", "x"), 200);
    }
    struct tcp_info info = finish(&client);
    assert_totals(&info);
    assert_int_equal(fixture.cache_sends, 3000);
    assert_int_equal(fixture.cache_receives, 300);
    assert_int_equal(fixture.not_of_cache, 0);
    struct tern_meter meter = fixture_metered(&fixture, 7);
    assert_true(meter.bytes[TERN_PURPOSE_HANDSHAKE][TERN_DOWN].wire > 0);
    assert_int_equal(meter.bytes[TERN_PURPOSE_DOWNLOAD][TERN_DOWN].payload, 2700);
    fixture_stop(&fixture);
}

CASE(test_totals_over_tls_with_handshake)
{
    begin(false);
    struct tls_client_settings settings = {.root = fixture.root};
    struct client client;
    assert_true(client_open(&client, fixture.port, &settings));
    uint64_t sent = tls_client_bytes_sent(client.tls);
    uint64_t received = tls_client_bytes_received(client.tls);
    assert_int_equal(client_ask(&client, "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n", ""),
                     200); // untagged
    for (int i = 0; i < 10; i++) {
        assert_int_equal(client_ask(&client, SMALL, "x"), 200);
    }
    uint64_t all_sent = tls_client_bytes_sent(client.tls);
    (void)finish(&client);
    struct tern_meter meter = fixture_metered(&fixture, 7);
    assert_int_equal(meter.bytes[TERN_PURPOSE_HANDSHAKE][TERN_UP].tls, sent);
    assert_int_equal(meter.bytes[TERN_PURPOSE_HANDSHAKE][TERN_DOWN].tls, received);
    assert_int_equal(meter.bytes[TERN_PURPOSE_HANDSHAKE][TERN_UP].http, 0);
    // Each of ten uploads is one record each way.
    assert_int_equal(meter.bytes[TERN_PURPOSE_UPLOAD][TERN_UP].tls, 10 * (strlen(SMALL) + 21));
    assert_int_equal(meter.bytes[TERN_PURPOSE_UPLOAD][TERN_DOWN].tls,
                     10 * (strlen(SMALL_REPLY) + 21));
    struct tern_meter nobody = fixture_metered(&fixture, 0);
    struct tern_bytes untagged = tern_meter_total(&nobody, TERN_UP);
    assert_int_equal(untagged.http, strlen("GET /echo HTTP/1.1\r\nHost: h\r\n\r\n"));
    assert_int_equal(untagged.tls + tern_meter_total(&meter, TERN_UP).tls, all_sent);
    fixture_stop(&fixture);
}

// A resumed client sends its request right behind the handshake: the request's bytes must not be
// taken for the handshake's.
CASE(test_resumed_handshake_is_told_from_the_request_behind_it)
{
    begin(false);
    mbedtls_ssl_session session;
    mbedtls_ssl_session_init(&session);
    struct tls_client_settings settings = {.root = fixture.root, .session = &session};
    struct client client;
    assert_true(client_open(&client, fixture.port, &settings));
    client_close(&client);
    assert_true(fixture_wait_idle(&fixture));
    char request[9000];
    memset(request, 'x', sizeof request);
    memcpy(request, "PUT /client/7 HTTP/1.1\r\nHost: h\r\nContent-Length: 8000\r\n\r\n", 57);
    for (int i = 0; i < 10; i++) {
        struct tern_meter before = fixture_metered(&fixture, 7);
        assert_true(client_open(&client, fixture.port, &settings));
        uint64_t sent = tls_client_bytes_sent(client.tls);
        assert_true(client_send(&client, request, 57 + 8000));
        struct client_reply reply = client_receive(&client, false);
        assert_int_equal(reply.status, 200);
        client_reply_free(&reply);
        client_close(&client);
        assert_true(fixture_wait_idle(&fixture));
        struct tern_meter after = fixture_metered(&fixture, 7);
        assert_int_equal(after.bytes[TERN_PURPOSE_HANDSHAKE][TERN_UP].tls -
                             before.bytes[TERN_PURPOSE_HANDSHAKE][TERN_UP].tls,
                         sent);
    }
    mbedtls_ssl_session_free(&session);
    fixture_stop(&fixture);
}

CASE(test_large_transfers_are_whole)
{
    begin(true);
    struct client client;
    assert_true(client_open(&client, fixture.port, NULL));
    size_t size = 3000000;
    char *request = malloc(size + 100);
    int head = snprintf(request, 100,
                        "PUT /client/7 HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n", size);
    memset(request + head, 'x', size);
    for (int i = 0; i < 3; i++) {
        assert_true(client_send(&client, request, (size_t)head + size));
        struct client_reply reply = client_receive(&client, false);
        assert_int_equal(reply.status, 200);
        client_reply_free(&reply);
    }
    free(request);
    struct tcp_info info = finish(&client);
    assert_totals(&info);
    struct tern_meter meter = fixture_metered(&fixture, 7);
    assert_int_equal(meter.bytes[TERN_PURPOSE_UPLOAD][TERN_UP].payload, 3 * size);
    fixture_stop(&fixture);
}

// What is left when a client vanishes inside a request still counts for it.
CASE(test_bytes_of_a_cut_request_count_for_the_last_client)
{
    begin(true);
    struct client client;
    assert_true(client_open(&client, fixture.port, NULL));
    assert_int_equal(client_ask(&client, SMALL, "x"), 200);
    assert_true(client_send(&client, SMALL, 30));
    struct tcp_info info = finish(&client);
    assert_totals(&info);
    struct tern_meter meter = fixture_metered(&fixture, 7);
    assert_int_equal(tern_meter_total(&meter, TERN_UP).http, strlen(SMALL) + 30);
    assert_int_equal(tern_meter_total(&meter, TERN_UP).payload, 10);
    fixture_stop(&fixture);
}

CASE(test_stranger_counts_for_nobody)
{
    begin(true);
    struct client client;
    assert_true(client_open(&client, fixture.port, NULL));
    assert_int_equal(client_ask(&client,
                                "GET /x HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer bad\r\n\r\n",
                                NULL),
                     401);
    struct tcp_info info = finish(&client);
    struct tern_meter meter = fixture_metered(&fixture, 0);
    assert_int_equal(tern_meter_total(&meter, TERN_UP).tls, info.tcpi_bytes_sent);
    assert_int_equal(tern_meter_total(&meter, TERN_DOWN).tls, info.tcpi_bytes_received);
    fixture_stop(&fixture);
}
