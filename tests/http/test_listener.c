// The listener in the clear: what HTTP must do, whatever the bytes come in.
#include "client.h"
#include "fixture.h"
#include "tests/cases.h"
#include "wire/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static struct fixture fixture;

static int start(void **state)
{
    struct tern_http_config config = {
        .limits = {.body_bytes = 50000, .header_bytes = 1024, .connections_per_address = 20}};
    (void)state;
    fixture_start(&fixture, &config, true);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    fixture_stop(&fixture);
    return 0;
}

static struct client connected(void)
{
    struct client client;
    assert_true(client_open(&client, fixture.port, NULL));
    return client;
}

// The body of a refusal names its reason.
static void assert_error(const struct client_reply *reply, int status, const char *name)
{
    tern_Error error = tern_Error_init_zero;
    assert_int_equal(reply->status, status);
    assert_int_equal(tern_wire_decode_error(reply->body, reply->body_len, &error), TERN_OK);
    assert_string_equal(error.name, name);
    assert_true(strlen(error.sentence) > 10);
}

static void assert_refused(const char *request, int status, const char *name, bool closes)
{
    struct client client = connected();
    assert_true(client_send_text(&client, request));
    struct client_reply reply = client_receive(&client, false);
    assert_error(&reply, status, name);
    assert_int_equal(reply.closes, closes);
    client_reply_free(&reply);
    if (closes) {
        assert_true(client_sees_end(&client, 8000));
    } else {
        assert_int_equal(client_ask(&client, "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n", ""), 200);
    }
    client_close(&client);
}

CASE(test_one_connection_serves_many_requests)
{
    struct client client = connected();
    for (int i = 0; i < 50; i++) {
        assert_int_equal(
            client_ask(&client, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
                       "hello"),
            200);
    }
    assert_int_equal(client_ask(&client, "GET /nowhere HTTP/1.1\r\nHost: h\r\n\r\n", ""), 404);
    client_close(&client);
}

CASE(test_handler_sees_the_request)
{
    struct client client = connected();
    assert_int_equal(client_ask(&client,
                                "PATCH /facts?x=1 HTTP/1.1\r\nHost: a\r\nAUTHORIZATION:  Bearer "
                                "abc \r\nRange: bytes=17-\r\n\r\n",
                                "PATCH /facts Bearer abc 17"),
                     200);
    assert_int_equal(
        client_ask(&client, "OPTIONS /facts HTTP/1.1\r\nHost: h\r\n\r\n", "OPTIONS /facts  0"),
        200);
    client_close(&client);
}

CASE(test_reply_head_is_minimal)
{
    struct client client = connected();
    assert_true(
        client_send_text(&client, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nok"));
    struct client_reply reply = client_receive(&client, false);
    assert_string_equal(reply.head, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
    client_reply_free(&reply);
    client_close(&client);
}

CASE(test_head_has_no_body)
{
    struct client client = connected();
    assert_true(client_send_text(&client, "HEAD /blob HTTP/1.1\r\nHost: h\r\n\r\n"));
    struct client_reply reply = client_receive(&client, true);
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.head, "Content-Length: 100000\r\n"));
    assert_int_equal(client_ask(&client, "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n", ""), 200);
    client_close(&client);
}

CASE(test_close_is_honoured)
{
    static const char *const requests[] = {
        "GET /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
        "GET /echo HTTP/1.0\r\nHost: h\r\n\r\n",
    };
    for (size_t i = 0; i < 2; i++) {
        struct client client = connected();
        assert_true(client_send_text(&client, requests[i]));
        struct client_reply reply = client_receive(&client, false);
        assert_int_equal(reply.status, 200);
        assert_true(reply.closes);
        assert_true(client_sees_end(&client, 8000));
        client_reply_free(&reply);
        client_close(&client);
    }
}

CASE(test_pipelined_requests_are_answered_in_order)
{
    char requests[8192] = "";
    for (int i = 0; i < 100; i++) {
        char request[80];
        snprintf(request, sizeof request,
                 "PUT %s HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n%03d",
                 i % 3 == 0 ? "/thread" : "/echo", i);
        strcat(requests, request);
    }
    struct client client = connected();
    assert_true(client_send_text(&client, requests));
    for (int i = 0; i < 100; i++) {
        char expected[16];
        snprintf(expected, sizeof expected, "%03d", i);
        struct client_reply reply = client_receive(&client, false);
        assert_int_equal(reply.status, 200);
        assert_string_equal((char *)reply.body, expected);
        client_reply_free(&reply);
    }
    client_close(&client);
}

CASE(test_bytes_may_come_one_by_one)
{
    static const char *const request = "\r\nPOST /facts HTTP/1.1\r\nHost: h\r\nAuthorization: "
                                       "Bearer x\r\nContent-Length: 3\r\n\r\n"
                                       "abc";
    struct client client = connected();
    for (const char *at = request; *at != '\0'; at++) {
        assert_true(client_send(&client, at, 1));
        sleep_ms(1);
    }
    struct client_reply reply = client_receive(&client, false);
    assert_string_equal((char *)reply.body, "POST /facts Bearer x 0");
    client_reply_free(&reply);
    client_close(&client);
}

// The promise behind conservation: what was cut was never seen.
CASE(test_cut_at_every_byte_is_never_a_request)
{
    static const char *const requests[] = {
        "PUT /echo HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer x\r\nContent-Length: "
        "12\r\n\r\nhello, world",
        "PUT /echo HTTP/1.1\r\nHost: h\r\n\r\n",
    };
    for (size_t r = 0; r < 2; r++) {
        uint32_t before = fixture.requests_seen;
        for (size_t cut = 0; cut < strlen(requests[r]); cut++) {
            struct client client = connected();
            assert_true(client_send(&client, requests[r], cut));
            shutdown(client.fd, SHUT_WR);
            assert_true(client_sees_end(&client, 8000));
            client_close(&client);
        }
        assert_int_equal(fixture.requests_seen, before);
        struct client client = connected();
        assert_int_equal(client_ask(&client, requests[r], NULL), 200);
        client_close(&client);
    }
}

CASE(test_malformed_requests_are_refused)
{
    assert_refused("NONSENSE\r\n\r\n", 400, "corrupt", true);
    assert_refused("GET /echo HTTP/1.1\r\nHost: h\r\nBad Header: x\r\n\r\n", 400, "corrupt", true);
    assert_refused(
        "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", 400,
        "corrupt", true);
    assert_refused(
        "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        400, "corrupt", true);
    assert_refused("PUT /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                   411, "http", true);
    assert_refused("GET /echo HTTP/1.1\r\n\r\n", 400, "corrupt", true);
    assert_refused("GET /echo HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", 400, "corrupt", true);
    assert_refused("GET /echo HTTP/1.1\nHost: h\n\n", 400, "corrupt", true);
    assert_refused("GET /echo HTTP/2.0\r\n\r\n", 505, "http", true);
    assert_refused("GET /x HTTP/1.1\r\nHost: h\r\nAuthorization: a\r\nAuthorization: b\r\n\r\n",
                   400, "corrupt", true);
    assert_refused("GET http://host:1/facts HTTP/1.1\r\nHost: h\r\n\r\n", 400, "corrupt", true);
    assert_refused("GET /%66acts HTTP/1.1\r\nHost: h\r\n\r\n", 400, "corrupt", true);
    assert_refused("CONNECT a:1 HTTP/1.1\r\nHost: h\r\n\r\n", 405, "http", true);
}

CASE(test_oversized_headers_are_refused)
{
    char request[4096];
    uint32_t before = fixture.headers_seen;
    memset(request, 'a', sizeof request);
    request[sizeof request - 1] = '\0';
    memcpy(request, "GET /echo HTTP/1.1\r\nHost: h\r\nX: ", 32);
    assert_refused(request, 431, "too-large", true);
    memset(request, 'a', sizeof request - 1);
    memcpy(request, "GET /", 5);
    assert_refused(request, 414, "too-large", true);
    assert_int_equal(fixture.headers_seen, before);
}

CASE(test_oversized_body_is_refused_before_it_is_sent)
{
    assert_refused("PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 50001\r\n\r\n", 413,
                   "too-large", true);
    assert_refused("PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999\r\n\r\n",
                   413, "too-large", true);
}

// A peer that is still sending when the refusal comes must be able to read it.
CASE(test_refusal_reaches_a_peer_that_keeps_sending)
{
    struct client client = connected();
    assert_true(client_send_text(
        &client, "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 500000\r\n\r\n"));
    char part[10000] = {0};
    for (int i = 0; i < 50; i++) {
        assert_true(client_send(&client, part, sizeof part));
    }
    struct client_reply reply = client_receive(&client, false);
    assert_error(&reply, 413, "too-large");
    client_reply_free(&reply);
    client_close(&client);
}

CASE(test_unauthorized_is_refused_before_the_body)
{
    uint32_t before = fixture.requests_seen;
    assert_refused("PUT /echo HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer bad\r\nContent-Length: "
                   "40000\r\n\r\n",
                   401, "unauthorized", true);
    assert_refused("GET /echo HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer bad\r\n\r\n", 401,
                   "unauthorized", false);
    assert_int_equal(fixture.requests_seen, before + 1); // the one that came after, unrefused
}

// A short body behind a refusal is skipped, so that the device keeps its connection.
CASE(test_connection_outlives_a_refused_short_body)
{
    struct client client = connected();
    assert_true(client_send_text(&client,
                                 "PUT /echo HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer bad\r\n"
                                 "Content-Length: 10\r\n\r\n"));
    struct client_reply reply = client_receive(&client, false);
    assert_error(&reply, 401, "unauthorized");
    assert_false(reply.closes);
    client_reply_free(&reply);
    assert_int_equal(
        client_ask(&client, "0123456789GET /facts HTTP/1.1\r\nHost: h\r\n\r\n", "GET /facts  0"),
        200);
    client_close(&client);
}

CASE(test_expect_is_answered)
{
    struct client client = connected();
    assert_true(client_send_text(
        &client,
        "PUT /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"));
    struct client_reply reply = client_receive(&client, false);
    assert_int_equal(reply.status, 100);
    assert_int_equal(client_ask(&client, "hi", "hi"), 200);
    // No interim answer when the body comes along.
    assert_int_equal(
        client_ask(&client,
                   "PUT /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: "
                   "2\r\n\r\nhi",
                   "hi"),
        200);
    assert_int_equal(
        client_ask(&client, "GET /echo HTTP/1.1\r\nHost: h\r\nExpect: magic\r\n\r\n", NULL), 417);
    client_close(&client);
    assert_refused(
        "PUT /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 50001\r\n\r\n",
        413, "too-large", true);
}

CASE(test_ranges)
{
    struct client client = connected();
    assert_true(
        client_send_text(&client, "GET /blob HTTP/1.1\r\nHost: h\r\nRange: bytes=99000-\r\n\r\n"));
    struct client_reply reply = client_receive(&client, false);
    assert_int_equal(reply.status, 206);
    assert_non_null(strstr(reply.head, "Content-Range: bytes 99000-99999/100000\r\n"));
    assert_non_null(strstr(reply.head, "ETag: \"1\"\r\n"));
    assert_int_equal(reply.body_len, 1000);
    assert_memory_equal(reply.body, fixture.blob->data + 99000, 1000);
    client_reply_free(&reply);
    assert_true(
        client_send_text(&client, "GET /blob HTTP/1.1\r\nHost: h\r\nRange: bytes=100000-\r\n\r\n"));
    reply = client_receive(&client, false);
    assert_int_equal(reply.status, 416);
    assert_non_null(strstr(reply.head, "Content-Range: bytes */100000\r\n"));
    assert_int_equal(reply.body_len, 0);
    client_reply_free(&reply);
    assert_true(client_send_text(&client, "GET /blob HTTP/1.1\r\nHost: h\r\n\r\n"));
    reply = client_receive(&client, false);
    assert_int_equal(reply.status, 200);
    assert_int_equal(reply.body_len, BLOB_SIZE);
    assert_memory_equal(reply.body, fixture.blob->data, BLOB_SIZE);
    client_reply_free(&reply);
    client_close(&client);
}

CASE(test_reply_may_come_from_any_thread)
{
    struct client client = connected();
    for (int i = 0; i < 200; i++) {
        assert_int_equal(
            client_ask(&client, "POST /thread HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi",
                       "hi"),
            200);
    }
    client_close(&client);
}

// What a peer sends ahead waits in the kernel, not in the server.
CASE(test_nothing_is_read_while_a_reply_is_pending)
{
    struct client client = connected();
    char part[65536];
    size_t sent = 0;
    memset(part, 'x', sizeof part);
    assert_true(client_send_text(&client, "GET /held HTTP/1.1\r\nHost: h\r\n\r\n"));
    assert_true(fixture_wait_held(&fixture));
    for (int idle = 0; idle < 20 && sent < (64u << 20);) {
        ssize_t len = send(client.fd, part, sizeof part, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += len > 0 ? (size_t)len : 0;
        idle = len > 0 ? 0 : idle + 1;
        sleep_ms(len > 0 ? 0 : 10);
    }
    assert_true(sent < (64u << 20));
    fixture_release(&fixture);
    struct client_reply reply = client_receive(&client, false);
    assert_string_equal((char *)reply.body, "late");
    client_reply_free(&reply);
    reply = client_receive(&client, false);
    assert_int_equal(reply.status, 400); // the noise behind it
    client_reply_free(&reply);
    client_close(&client);
}

// A peer in the clear may close its half and still read.
CASE(test_half_closed_peer_gets_its_late_reply)
{
    struct client client = connected();
    assert_true(client_send_text(&client, "GET /held HTTP/1.1\r\nHost: h\r\n\r\n"));
    shutdown(client.fd, SHUT_WR);
    assert_true(fixture_wait_held(&fixture));
    sleep_ms(50);
    fixture_release(&fixture);
    struct client_reply reply = client_receive(&client, false);
    assert_string_equal((char *)reply.body, "late");
    client_reply_free(&reply);
    client_close(&client);
}

CASE(test_late_reply_to_a_gone_peer_is_dropped)
{
    struct client client = connected();
    assert_true(client_send_text(&client, "GET /held HTTP/1.1\r\nHost: h\r\n\r\n"));
    assert_true(fixture_wait_held(&fixture));
    client_close(&client);
    sleep_ms(50);
    fixture_release(&fixture);
    assert_true(fixture_wait_idle(&fixture));
}

CASE(test_connections_per_address_are_limited)
{
    struct client clients[25];
    int served = 0;
    assert_true(fixture_wait_idle(&fixture));
    struct tern_http_counters before;
    tern_http_counters(fixture.server, &before);
    for (int i = 0; i < 25; i++) {
        clients[i] = connected();
    }
    // All have come before the first one leaves.
    struct tern_http_counters counters = {0};
    while (counters.connections_displaced < before.connections_displaced + 5) {
        tern_http_counters(fixture.server, &counters);
        sleep_ms(5);
    }
    for (int i = 0; i < 25; i++) {
        served += client_ask(&clients[i], "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n", NULL) == 200;
        client_close(&clients[i]);
    }
    assert_int_equal(served, 20);
    assert_true(fixture_wait_idle(&fixture));
    struct client client = connected();
    assert_int_equal(client_ask(&client, "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n", ""), 200);
    client_close(&client);
}

CASE(test_port_is_not_shared_with_another_server)
{
    struct tern_http_config config = {.address = "127.0.0.1", .port = fixture.port, .threads = 2};
    struct tern_http_handler handler = {0};
    struct tern_http_server *server = NULL;
    char why[256] = "";
    assert_int_equal(tern_http_start(&config, &handler, &server, why), TERN_ERR_NETWORK);
    assert_non_null(strstr(why, "in use"));
}

CASE(test_bad_configuration_is_explained)
{
    struct tern_http_handler handler = {0};
    struct tern_http_server *server = NULL;
    char why[256] = "";
    struct tern_http_config config = {.address = "no such host.invalid"};
    assert_int_equal(tern_http_start(&config, &handler, &server, why), TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "no such host.invalid"));
    config = (struct tern_http_config){
        .address = "127.0.0.1",
        .files = {.certificate = "/no/such.pem", .private_key = "/no/such.key"}};
    assert_int_equal(tern_http_start(&config, &handler, &server, why), TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "/no/such.pem"));
    config.files.private_key = NULL;
    assert_int_equal(tern_http_start(&config, &handler, &server, why), TERN_ERR_CONFIG);
}

CASE(test_unix_socket)
{
    struct fixture local;
    char path[80];
    char address[96];
    snprintf(path, sizeof path, "/tmp/tern-http-%d.sock", (int)getpid());
    snprintf(address, sizeof address, "unix:%s", path);
    for (int run = 0; run < 2; run++) {
        struct tern_http_config config = {.address = address};
        fixture_start(&local, &config, true);
        struct stat status;
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_mode & 0777, 0600);
        struct client client;
        assert_true(client_open_unix(&client, path));
        assert_int_equal(
            client_ask(&client, "GET /facts HTTP/1.1\r\nHost: h\r\n\r\n", "GET /facts  0"), 200);
        // A second server must not steal the path from one that lives.
        struct tern_http_server *other = NULL;
        struct tern_http_handler handler = {0};
        char why[256];
        assert_int_equal(tern_http_start(&config, &handler, &other, why), TERN_ERR_NETWORK);
        client_close(&client);
        fixture_stop(&local);
        assert_int_not_equal(stat(path, &status), 0);
        // What a killed process leaves behind is replaced on the second run.
        char command[160];
        snprintf(command, sizeof command,
                 "/usr/bin/python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('%s')\"",
                 path);
        assert_int_equal(run == 0 ? system(command) : 0, 0);
    }
}

CASE(test_stop_lets_a_pending_reply_finish)
{
    struct fixture local;
    struct tern_http_config config = {0};
    fixture_start(&local, &config, true);
    struct client client;
    struct client idle;
    assert_true(client_open(&idle, local.port, NULL));
    assert_int_equal(client_ask(&idle, "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n", ""), 200);
    assert_true(client_open(&client, local.port, NULL));
    assert_true(client_send_text(&client,
                                 "PUT /thread HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"));
    sleep_ms(100);
    fixture_stop(&local);
    struct client_reply reply = client_receive(&client, false);
    assert_int_equal(reply.status, 200);
    client_reply_free(&reply);
    assert_true(client_sees_end(&client, 8000));
    assert_true(client_sees_end(&idle, 8000));
    client_close(&client);
    client_close(&idle);
}

CASE(test_stop_does_not_wait_for_a_silent_handler)
{
    struct fixture local;
    struct tern_http_config config = {0};
    fixture_start(&local, &config, true);
    struct client client;
    assert_true(client_open(&client, local.port, NULL));
    assert_true(client_send_text(&client, "GET /held HTTP/1.1\r\nHost: h\r\n\r\n"));
    assert_true(fixture_wait_held(&local));
    uint64_t before = now_ms();
    fixture_stop(&local); // replies to the held exchange after the server is gone
    assert_in_range(now_ms() - before, 900, 30000);
    assert_true(client_sees_end(&client, 8000));
    client_close(&client);
}

CASES_SHARE(start, stop)
