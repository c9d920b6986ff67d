// Clients that are recognised by the ticket which their ClientHello offers: what is read of a hello, and that a known
// device comes in where strangers of its address have taken all places and all turns.
#include "client.h"
#include "fixture.h"
#include "http/tickets.h"
#include "tests/cases.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ANONYMOUS "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n"
#define WRONG_TOKEN "GET /echo HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer bad\r\n\r\n"
#define WITH_TOKEN "GET /echo HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer good\r\n\r\n"

// --- What a hello offers

// A hello of three extensions: an unknown one, session_ticket with "abc", pre_shared_key with "de" and "f".
static const uint8_t OFFERS[] = {
    22, 3,  1,    0,    81,  1,   0,   0,  77,  3,   3,                      // headers
    1,  2,  3,    4,    5,   6,   7,   8,  9,   10,  11, 12, 13, 14, 15, 16, // random
    17, 18, 19,   20,   21,  22,  23,  24, 25,  26,  27, 28, 29, 30, 31, 32, //
    1,  9,                                                                   // session id
    0,  2,  0xcc, 0xa9,                                                      // suites
    1,  0,                                                                   // compression
    0,  33,                                                                  // extensions
    0,  10, 0,    1,    0,                                                   //
    0,  35, 0,    3,    'a', 'b', 'c',                                       //
    0,  41, 0,    17,   0,   15,  0,   2,  'd', 'e', 0,  0,  0,  0,  0,  1,  'f', 0, 0, 0, 0, //
};

static size_t offered(const uint8_t *bytes, size_t len,
                      struct tern_offered_ticket tickets[TERN_OFFERED_TICKETS])
{
    return tern_client_hello_tickets(bytes, len, tickets);
}

CASE(test_all_tickets_are_found)
{
    struct tern_offered_ticket tickets[TERN_OFFERED_TICKETS];
    assert_int_equal(offered(OFFERS, sizeof OFFERS, tickets), 3);
    static const char *const expected[] = {"abc", "de", "f"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(tickets[i].len, strlen(expected[i]));
        assert_memory_equal(tickets[i].bytes, expected[i], tickets[i].len);
    }
}

// Whatever byte is damaged, and wherever the hello ends, nothing outside of it is read; a sanitizer would see it.
CASE(test_damaged_hellos_offer_nothing_outside)
{
    struct tern_offered_ticket tickets[TERN_OFFERED_TICKETS];
    for (size_t len = 0; len < sizeof OFFERS; len++) {
        uint8_t *part = malloc(len + 1);
        memcpy(part, OFFERS, len);
        assert_int_equal(offered(part, len, tickets), 0);
        free(part);
    }
    for (size_t at = 0; at < sizeof OFFERS; at++) {
        for (unsigned value = 0; value < 256; value++) {
            uint8_t *damaged = malloc(sizeof OFFERS);
            memcpy(damaged, OFFERS, sizeof OFFERS);
            damaged[at] = (uint8_t)value;
            const size_t count = offered(damaged, sizeof OFFERS, tickets);
            assert_in_range(count, 0, TERN_OFFERED_TICKETS);
            for (size_t i = 0; i < count; i++) {
                assert_true(tickets[i].bytes >= damaged &&
                            tickets[i].bytes + tickets[i].len <= damaged + sizeof OFFERS);
            }
            free(damaged);
        }
    }
}

CASE(test_the_last_use_counts)
{
    struct tern_known_tickets *known = tern_known_tickets_new();
    assert_int_equal(tern_known_tickets_offered(known, OFFERS, sizeof OFFERS), 0);
    tern_known_tickets_record(known, tern_ticket_tag((const uint8_t *)"f", 1), 5);
    assert_int_equal(tern_known_tickets_offered(known, OFFERS, sizeof OFFERS), 5);
    const uint64_t tag = tern_ticket_tag((const uint8_t *)"abc", 3);
    tern_known_tickets_record(known, tag, 6);
    tern_known_tickets_record(known, tag, 7);
    assert_int_equal(tern_known_tickets_offered(known, OFFERS, sizeof OFFERS), 7);
    for (uint64_t i = 1; i <= 3; i++) { // in its set there is room for three others
        tern_known_tickets_record(known, tag + (i << 32), 8);
    }
    assert_int_equal(tern_known_tickets_offered(known, OFFERS, sizeof OFFERS), 7);
    tern_known_tickets_record(known, tag, 7);
    for (uint64_t i = 4; i <= 6; i++) {
        tern_known_tickets_record(known, tag + (i << 32), 8);
    }
    assert_int_equal(tern_known_tickets_offered(known, OFFERS, sizeof OFFERS), 7);
    tern_known_tickets_record(known, tag + (UINT64_C(7) << 32), 8);
    assert_int_equal(tern_known_tickets_offered(known, OFFERS, sizeof OFFERS), 5); // by "f"
    tern_known_tickets_free(known);
}

// What an orderly stop keeps: tickets that can still be valid, in the order of their last use.
CASE(test_a_file_keeps_the_table)
{
    char path[] = "/tmp/tern-known-XXXXXX";
    const uint64_t now_s = (uint64_t)time(NULL);
    const uint64_t tag = tern_ticket_tag((const uint8_t *)"abc", 3);
    struct tern_known_tickets *known = tern_known_tickets_new();
    close(mkstemp(path));
    for (uint64_t i = 0; i < 4; i++) { // a full set
        tern_known_tickets_record(known, tag + (i << 32), 10 + i);
    }
    tern_known_tickets_record(known, tag + 1, 0); // of a refused client
    assert_int_equal(tern_known_tickets_save(known, path, now_s), TERN_OK);
    tern_known_tickets_free(known);
    known = tern_known_tickets_new();
    tern_known_tickets_load(known, path, now_s);
    assert_int_equal(access(path, F_OK), -1); // so that a crash leaves none
    assert_int_equal(tern_known_tickets_save(known, path, now_s), TERN_OK);
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(tern_known_tickets_client(known, tag + (i << 32)), 10 + i);
    }
    tern_known_tickets_record(known, tag + (UINT64_C(4) << 32), 14);
    assert_int_equal(tern_known_tickets_client(known, tag), 0); // it was the first that was noted
    tern_known_tickets_free(known);
    known = tern_known_tickets_new();
    tern_known_tickets_load(known, path, now_s + 4 * 86400);
    assert_int_equal(tern_known_tickets_client(known, tag), 0);
    struct tern_known_tickets *whole = tern_known_tickets_new();
    tern_known_tickets_record(whole, tag + (UINT64_C(3) << 32), 13);
    assert_int_equal(tern_known_tickets_save(whole, path, now_s), TERN_OK);
    tern_known_tickets_free(whole);
    assert_int_equal(truncate(path, 8 + 15), 0);
    tern_known_tickets_load(known, path, now_s);
    assert_int_equal(tern_known_tickets_client(known, tag + (UINT64_C(3) << 32)), 0);
    assert_int_equal(tern_known_tickets_save(known, path, now_s), TERN_OK);
    assert_int_equal(access(path, F_OK), -1); // nothing to keep
    tern_known_tickets_load(known, path, now_s);
    tern_known_tickets_free(known);
}

// --- By a listener

static struct fixture fixture;

static uint64_t stopped_clock(void)
{
    return 1000000;
}

// Turns of handshakes are never free again by time.
static void begin(struct tern_http_limits limits)
{
    struct tern_http_config config = {
        .limits = limits, .threads = 1, .monotonic_ms = stopped_clock, .sweep_ms = 5};
    fixture_start(&fixture, &config, false);
}

static struct tls_client_settings settings_of(mbedtls_ssl_session *session)
{
    return (struct tls_client_settings){.root = fixture.root, .session = session};
}

static void visit(mbedtls_ssl_session *session, const char *text)
{
    const struct tls_client_settings settings = settings_of(session);
    struct client client;
    mbedtls_ssl_session_init(session);
    assert_true(client_open(&client, fixture.port, &settings));
    assert_int_equal(client_ask(&client, text, NULL), 200);
    client_close(&client);
    assert_true(fixture_wait_idle(&fixture));
}

// A connection that never sends a byte, as the listener has it.
static struct client open_silent(void)
{
    struct client client;
    const uint64_t before = fixture_counters(&fixture).connections_accepted;
    assert_true(client_open(&client, fixture.port, NULL));
    while (fixture_counters(&fixture).connections_accepted == before) {
        sleep_ms(1);
    }
    return client;
}

CASE(test_a_known_device_keeps_its_place_from_the_hello_on)
{
    mbedtls_ssl_session known;
    mbedtls_ssl_session strangers;
    begin((struct tern_http_limits){.connections_per_address = 1});
    visit(&known, WITH_TOKEN);
    visit(&strangers, ANONYMOUS);
    struct client device;
    struct client stranger;
    const struct tls_client_settings of_device = settings_of(&known);
    const struct tls_client_settings of_stranger = settings_of(&strangers);
    assert_true(client_open(&stranger, fixture.port, &of_stranger));
    assert_int_equal(client_ask(&stranger, ANONYMOUS, NULL), 200);
    assert_true(client_open(&device, fixture.port, &of_device));
    while (fixture_counters(&fixture).handshakes_resumed < 2) {
        sleep_ms(1);
    }
    struct client silent[3];
    for (size_t i = 0; i < 3; i++) {
        silent[i] = open_silent();
    }
    assert_true(client_sees_end(&stranger, 5000));
    assert_int_equal(client_ask(&device, WITH_TOKEN, NULL), 200);
    for (size_t i = 0; i < 3; i++) {
        client_close(&silent[i]);
    }
    client_close(&device);
    client_close(&stranger);
    mbedtls_ssl_session_free(&known);
    mbedtls_ssl_session_free(&strangers);
    fixture_stop(&fixture);
}

// The first flight of a handshake, and no more.
static struct client open_stalled(void)
{
    static const uint8_t HELLO[] = {
        0x16, 0x03, 0x01, 0x00, 0x43, 0x01, 0x00, 0x00, 0x3f, 0x03, 0x03, 1,    2,    3,    4,
        5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15,   16,   17,   18,   19,
        20,   21,   22,   23,   24,   25,   26,   27,   28,   29,   30,   31,   32,   0x00, 0x00,
        0x02, 0xcc, 0xa9, 0x01, 0x00, 0x00, 0x14, 0x00, 0x0a, 0x00, 0x06, 0x00, 0x04, 0x00, 0x1d,
        0x00, 0x17, 0x00, 0x0d, 0x00, 0x06, 0x00, 0x04, 0x04, 0x03, 0x04, 0x03,
    };
    struct client client;
    assert_true(client_open(&client, fixture.port, NULL));
    assert_true(client_send(&client, HELLO, sizeof HELLO));
    return client;
}

CASE(test_a_known_device_has_turns_of_its_own)
{
    mbedtls_ssl_session known;
    begin((struct tern_http_limits){.handshakes_per_address = 2});
    visit(&known, WITH_TOKEN);
    struct client stalled[4];
    for (size_t i = 0; i < 4; i++) {
        stalled[i] = open_stalled();
    }
    while (fixture_counters(&fixture).handshakes_deferred < 2) {
        sleep_ms(1);
    }
    const struct tls_client_settings settings = settings_of(&known);
    struct client device;
    assert_true(client_open(&device, fixture.port, &settings));
    assert_int_equal(client_ask(&device, WITH_TOKEN, NULL), 200);
    assert_int_equal(fixture_counters(&fixture).handshakes_deferred, 2);
    for (size_t i = 0; i < 4; i++) {
        client_close(&stalled[i]);
    }
    client_close(&device);
    mbedtls_ssl_session_free(&known);
    fixture_stop(&fixture);
}

// A hello of TLS 1.2 with the ticket of the session, as anyone can send who has seen it.
static struct client open_replay(const mbedtls_ssl_session *session)
{
    static const uint8_t HEAD[] = {22, 3,  1,  0,  0,  1,  0,  0,    0,    3,  3,  1,  2,
                                   3,  4,  5,  6,  7,  8,  9,  10,   11,   12, 13, 14, 15,
                                   16, 17, 18, 19, 20, 21, 22, 23,   24,   25, 26, 27, 28,
                                   29, 30, 31, 32, 0,  0,  2,  0xcc, 0xa9, 1,  0};
    uint8_t hello[1000];
    const size_t ticket = session->ticket_len;
    size_t len = sizeof HEAD + 2;
    memcpy(hello, HEAD, sizeof HEAD);
    hello[len++] = 0;
    hello[len++] = 35;
    hello[len++] = (uint8_t)(ticket >> 8);
    hello[len++] = (uint8_t)ticket;
    memcpy(hello + len, session->ticket, ticket);
    len += ticket;
    hello[sizeof HEAD] = (uint8_t)((ticket + 4) >> 8);
    hello[sizeof HEAD + 1] = (uint8_t)(ticket + 4);
    hello[3] = (uint8_t)((len - 5) >> 8);
    hello[4] = (uint8_t)(len - 5);
    hello[7] = (uint8_t)((len - 9) >> 8);
    hello[8] = (uint8_t)(len - 9);
    struct client client;
    assert_true(client_open(&client, fixture.port, NULL));
    assert_true(client_send(&client, hello, len));
    return client;
}

// Opens a connection that resumes the session, and returns when its handshake is over.
static struct client open_resumed(mbedtls_ssl_session *session)
{
    const struct tls_client_settings settings = settings_of(session);
    struct client client;
    const uint64_t before = fixture_counters(&fixture).handshakes_resumed;
    assert_true(client_open(&client, fixture.port, &settings));
    while (fixture_counters(&fixture).handshakes_resumed == before) {
        sleep_ms(1);
    }
    return client;
}

CASE(test_a_finished_resumption_is_not_displaced_by_replays)
{
    mbedtls_ssl_session known;
    struct client replays[3];
    begin((struct tern_http_limits){.connections = 3, .connections_per_client = 1});
    visit(&known, WITH_TOKEN);
    struct client device = open_resumed(&known);
    for (size_t i = 0; i < 3; i++) {
        const uint64_t before = fixture_counters(&fixture).connections_accepted;
        replays[i] = open_replay(&known);
        while (fixture_counters(&fixture).connections_accepted == before) {
            sleep_ms(1);
        }
    }
    assert_true(client_sees_end(&replays[0], 5000)); // for the third
    assert_int_equal(client_ask(&device, WITH_TOKEN, NULL), 200);
    for (size_t i = 0; i < 3; i++) {
        client_close(&replays[i]);
    }
    client_close(&device);
    mbedtls_ssl_session_free(&known);
    fixture_stop(&fixture);
}

CASE(test_a_refused_client_is_a_stranger_again)
{
    mbedtls_ssl_session known;
    begin((struct tern_http_limits){.connections_per_address = 1});
    visit(&known, WITH_TOKEN);
    struct client refused = open_resumed(&known);
    assert_int_equal(client_ask(&refused, WRONG_TOKEN, NULL), 401);
    client_close(&refused);
    assert_true(fixture_wait_idle(&fixture));
    struct client stranger = open_resumed(&known);
    struct client silent = open_silent();
    assert_true(client_sees_end(&stranger, 5000));
    client_close(&stranger);
    client_close(&silent);
    mbedtls_ssl_session_free(&known);
    fixture_stop(&fixture);
}

// It needs no request for that: one that never sends its token would keep its places.
CASE(test_a_revoked_client_is_a_stranger_again)
{
    mbedtls_ssl_session known;
    begin((struct tern_http_limits){.connections_per_address = 1});
    visit(&known, WITH_TOKEN);
    fixture.revoked = 7; // whose token that is
    struct client device = open_resumed(&known);
    struct client silent = open_silent();
    assert_true(client_sees_end(&device, 5000));
    client_close(&device);
    client_close(&silent);
    mbedtls_ssl_session_free(&known);
    fixture_stop(&fixture);
    fixture.revoked = 0;
}

CASE(test_a_restart_keeps_known_tickets)
{
    mbedtls_ssl_session known;
    struct tern_http_config config = {.limits = {.connections_per_address = 1}, .threads = 1};
    fixture_start(&fixture, &config, false);
    visit(&known, WITH_TOKEN);
    fixture_restart(&fixture, &config);
    struct client device = open_resumed(&known);
    struct client silent = open_silent();
    struct client another = open_silent();
    assert_true(client_sees_end(&silent, 5000));
    assert_int_equal(client_ask(&device, WITH_TOKEN, NULL), 200);
    client_close(&device);
    client_close(&silent);
    client_close(&another);
    mbedtls_ssl_session_free(&known);
    fixture_stop(&fixture);
}
