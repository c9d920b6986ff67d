// A long body whose connection is cut: what came is kept, also when the server is another, the rest
// completes it, and each byte is counted once for whoever sent it.
#include "client.h"
#include "fixture.h"
#include "tests/cases.h"
#include "util/bytes.h"
#include "util/sha256.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOTAL 300000u
#define PART 150000u

static char folder[] = "/tmp/tern-listener-XXXXXX";
static struct fixture fixture;
static uint8_t bytes[TOTAL];
static _Atomic uint64_t clock_ms;

static uint64_t look_at_clock(void)
{
    return clock_ms;
}

static void begin_with(struct tern_http_limits limits)
{
    struct tern_http_config config = {
        .limits = limits, .spool_folder = folder, .monotonic_ms = look_at_clock, .sweep_ms = 1};
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    }
    clock_ms = 1;
    fixture_start(&fixture, &config, true);
}

static void begin(void)
{
    begin_with((struct tern_http_limits){0});
}

// The server ends, and what it kept.
static void end(void)
{
    fixture_stop(&fixture);
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] != '.') {
            assert_int_equal(unlinkat(dirfd(dir), entry->d_name, 0), 0);
        }
    }
    closedir(dir);
}

static void wait_kept(uint64_t count)
{
    for (int i = 0; i < 5000 && fixture_counters(&fixture).bodies_unfinished != count; i++) {
        sleep_ms(1);
    }
    assert_int_equal(fixture_counters(&fixture).bodies_unfinished, count);
}

// Sends the bytes from `from` to `to` of client N's body. Returns the bytes of HTTP that takes.
static size_t send_part(struct client *client, unsigned owner, size_t from, size_t to)
{
    char head[200];
    char range[80] = "";
    if (from > 0) {
        snprintf(range, sizeof range, "Content-Range: bytes %zu-%u/%u\r\n", from, TOTAL - 1, TOTAL);
    }
    const int len = snprintf(head, sizeof head,
                             "PUT /upload/%u HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n%s\r\n",
                             owner, TOTAL - from, range);
    assert_true(client_send(client, head, (size_t)len));
    assert_true(client_send(client, bytes + from, to - from));
    return (size_t)len + to - from;
}

static struct client open_client(void)
{
    struct client client;
    assert_true(client_open(&client, fixture.port, NULL));
    return client;
}

// The connection ends after so many bytes of the body.
static size_t cut_at(unsigned owner, size_t from, size_t to)
{
    const uint64_t accepted = fixture_counters(&fixture).connections_accepted;
    struct client client = open_client();
    const size_t sent = send_part(&client, owner, from, to);
    client_close(&client);
    for (int i = 0; i < 5000 && fixture_counters(&fixture).connections_accepted == accepted; i++) {
        sleep_ms(1); // the server is idle, too, before it accepts
    }
    assert_true(fixture_wait_idle(&fixture));
    return sent;
}

static int ask(struct client *client, unsigned owner, size_t expect)
{
    char text[100];
    char answer[100];
    uint8_t digest[TERN_SHA256_SIZE];
    tern_sha256(bytes, expect, digest);
    const int len = snprintf(answer, sizeof answer, "%zu ", expect);
    tern_hex_encode(digest, sizeof digest, answer + len);
    snprintf(text, sizeof text, "GET /upload/%u HTTP/1.1\r\nHost: h\r\n\r\n", owner);
    return client_ask(client, text, expect > 0 ? answer : NULL);
}

static int status_of(struct client *client)
{
    struct client_reply reply = client_receive(client, false);
    const int status = reply.status;
    client_reply_free(&reply);
    return status;
}

CASE(test_the_rest_completes_it)
{
    begin();
    size_t sent = cut_at(7, 0, PART);
    sent += cut_at(7, PART, PART + 70001);
    struct client client = open_client();
    assert_int_equal(ask(&client, 7, PART + 70001), 200);
    sent += send_part(&client, 7, PART + 70001, TOTAL);
    assert_int_equal(status_of(&client), 200);
    assert_int_equal(fixture.body_bytes_seen, TOTAL);
    assert_int_equal(ask(&client, 7, 0), 404);
    client_close(&client);
    assert_true(fixture_wait_idle(&fixture));
    // What the cut connections brought is the client's, too, and counted once.
    struct tern_meter meter = fixture_metered(&fixture, 7);
    const struct tern_bytes up = meter.bytes[TERN_PURPOSE_UPLOAD][TERN_UP];
    assert_int_equal(up.payload, TOTAL);
    assert_int_equal(up.http, sent);
    assert_int_equal(up.tls, sent);
    assert_int_equal(fixture_counters(&fixture).bodies_continued, 2);
    assert_true(fixture_counters(&fixture).body_disk == 0);
    end();
}

// What the kernel of a router forgot, the aggregator still takes for a connection.
CASE(test_a_connection_that_hangs_is_no_obstacle)
{
    begin();
    struct client hanging = open_client();
    send_part(&hanging, 7, 0, PART);
    struct client client = open_client();
    for (int i = 0; i < 5000 && fixture_counters(&fixture).body_disk < PART; i++) {
        sleep_ms(1);
    }
    assert_int_equal(ask(&client, 7, PART), 200);
    send_part(&client, 7, PART, TOTAL);
    assert_int_equal(status_of(&client), 200);
    assert_true(client_send(&hanging, bytes + PART, 10));
    assert_int_equal(status_of(&hanging), 503);
    client_close(&hanging);
    client_close(&client);
    end();
}

// One client, 100 connections on each of which the most of a body came, and then nothing.
CASE(test_one_client_cannot_take_the_room_of_others)
{
    begin_with((struct tern_http_limits){.body_bytes = TOTAL, .body_disk = PART + TOTAL});
    static struct client stalled[100];
    for (uint32_t i = 0; i < 100; i++) {
        stalled[i] = open_client();
        send_part(&stalled[i], 7, 0, PART);
        assert_true(fixture_wait_count(&fixture.headers_seen, i + 1));
    }
    struct client honest = open_client();
    send_part(&honest, 8, 0, TOTAL);
    assert_int_equal(status_of(&honest), 200);
    assert_true(fixture_counters(&fixture).body_disk <= PART);
    assert_int_equal(fixture_counters(&fixture).connections_open, 101);
    assert_true(client_send(&stalled[0], bytes + PART, 10));
    assert_int_equal(status_of(&stalled[0]), 503);
    for (int i = 0; i < 100; i++) {
        client_close(&stalled[i]);
    }
    client_close(&honest);
    end();
}

CASE(test_nobody_goes_on_with_anothers)
{
    begin();
    cut_at(7, 0, PART);
    struct client client = open_client();
    assert_int_equal(ask(&client, 8, 0), 404);
    send_part(&client, 8, PART, PART);
    assert_int_equal(status_of(&client), 416);
    client_close(&client);
    cut_at(8, 0, PART + 5);
    wait_kept(2);
    client = open_client();
    assert_int_equal(ask(&client, 7, PART), 200);
    assert_int_equal(ask(&client, 8, PART + 5), 200);
    send_part(&client, 7, PART - 1, PART - 1);
    assert_int_equal(status_of(&client), 416);
    client_close(&client);
    end();
}

CASE(test_what_is_not_completed_goes)
{
    begin();
    cut_at(6, 0, PART);
    cut_at(7, 0, PART);
    wait_kept(2);
    fixture.disowned = 6;
    wait_kept(1);
    clock_ms += 86400000u;
    wait_kept(0);
    for (int i = 0; i < 5000 && fixture_counters(&fixture).body_disk > 0;
         i++) { // freed after it is off the list
        sleep_ms(1);
    }
    assert_true(fixture_counters(&fixture).body_disk == 0);
    end();
}

CASE(test_another_server_goes_on)
{
    begin();
    cut_at(7, 0, PART);
    wait_kept(1);
    fixture_stop(&fixture);
    begin();
    assert_int_equal(fixture_counters(&fixture).bodies_unfinished, 1);
    assert_true(fixture_counters(&fixture).body_disk == PART);
    struct client client = open_client();
    assert_int_equal(ask(&client, 7, PART), 200);
    send_part(&client, 7, PART, TOTAL);
    assert_int_equal(status_of(&client), 200);
    assert_int_equal(fixture.body_bytes_seen, TOTAL);
    client_close(&client);
    fixture_stop(&fixture);
    begin();
    assert_int_equal(fixture_counters(&fixture).bodies_unfinished, 0);
    end();
}

CASE(test_a_folder_that_cannot_be_read_is_named)
{
    const struct tern_http_config config = {.address = "127.0.0.1", .spool_folder = "/nowhere"};
    const struct tern_http_handler handler = {0};
    struct tern_http_server *server;
    char why[256];
    assert_int_equal(tern_http_start(&config, &handler, &server, why), TERN_ERR_IO);
    assert_non_null(strstr(why, "/nowhere: No such file"));
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

CASES_SHARE(make_folder, remove_folder)
