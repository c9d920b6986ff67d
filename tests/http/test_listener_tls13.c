// The listener and clients that speak TLS 1.3 alone: bytes, tickets over restarts, tickets of
// either version shown to the other. Built where mbedTLS has TLS 1.3.
#include "client.h"
#include "fixture.h"
#include "tests/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char REQUEST[] = "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello";
static const char REPLY[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

// A record's header and tag, and the byte that tells its content.
#define RECORD_BYTES (5u + 16u + 1u)

static struct fixture fixture;
static struct tern_http_config config;

static int start(void **state)
{
    (void)state;
    fixture_start(&fixture, &config, false);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    fixture_stop(&fixture);
    return 0;
}

// Bytes of a connection with one request in it, without that request and its reply: what comes
// before and after them, the ticket included.
static uint64_t connect_once(mbedtls_ssl_session *session, bool tls13)
{
    const struct tls_client_settings settings = {
        .root = fixture.root, .tls13 = tls13, .session = session};
    struct client client;
    assert_true(client_open(&client, fixture.port, &settings));
    assert_int_equal(client_ask(&client, REQUEST, "hello"), 200);
    const uint64_t bytes =
        tls_client_bytes_sent(client.tls) + tls_client_bytes_received(client.tls);
    const bool is_tls13 = strncmp(tls_client_ciphersuite(client.tls), "TLS1-3-", 7) == 0;
    assert_int_equal(is_tls13, tls13);
    client_close(&client);
    return bytes - strlen(REQUEST) - strlen(REPLY) - 2 * (RECORD_BYTES - (tls13 ? 0 : 1));
}

CASE_WITH(test_handshake_costs, start, stop)
{
    for (int tls13 = 0; tls13 < 2; tls13++) {
        mbedtls_ssl_session session;
        mbedtls_ssl_session_init(&session);
        const uint64_t full = connect_once(&session, tls13 != 0);
        const uint64_t resumed = connect_once(&session, tls13 != 0);
        const uint64_t again = connect_once(&session, tls13 != 0);
        print_message("TLS 1.%d: full handshake %u bytes, resumed %u\n", 2 + tls13, (unsigned)full,
                      (unsigned)resumed);
        assert_in_range(full, 500, 1500);
        assert_in_range(resumed, 200, 700);
        assert_int_equal(again, resumed); // no ticket is sent that is not needed
        mbedtls_ssl_session_free(&session);
    }
}

CASE_WITH(test_tickets_work_on_every_loop_and_after_a_restart, start, stop)
{
    mbedtls_ssl_session session;
    mbedtls_ssl_session_init(&session);
    connect_once(&session, true);
    for (int restart = 0; restart < 2; restart++) {
        const struct tern_http_counters before = fixture_counters(&fixture);
        for (int i = 0; i < 20; i++) {
            connect_once(&session, true);
        }
        const struct tern_http_counters after = fixture_counters(&fixture);
        assert_int_equal(after.handshakes_resumed - before.handshakes_resumed, 20);
        assert_int_equal(after.handshakes_full, before.handshakes_full);
        if (restart == 0) {
            fixture_restart(&fixture, &config);
        }
    }
    mbedtls_ssl_session_free(&session);
}

CASE_WITH(test_ticket_under_lost_keys_falls_back_to_a_full_handshake, start, stop)
{
    mbedtls_ssl_session session;
    mbedtls_ssl_session_init(&session);
    connect_once(&session, true);
    assert_int_equal(unlink(fixture.tickets), 0);
    fixture_restart(&fixture, &config);
    connect_once(&session, true);
    assert_int_equal(fixture_counters(&fixture).handshakes_full, 1);
    assert_int_equal(fixture_counters(&fixture).handshakes_resumed, 0);
    connect_once(&session, true); // with the ticket given instead
    assert_int_equal(fixture_counters(&fixture).handshakes_resumed, 1);
    mbedtls_ssl_session_free(&session);
}

// Asks for the certificate's name that the listener has of the client. False: the handshake fails.
static bool ask_name(const struct tls_client_settings *settings, const char *expected)
{
    struct client client;
    const bool opened = client_open(&client, fixture.port, settings);
    if (opened) {
        assert_int_equal(
            client_ask(&client, "GET /certificate HTTP/1.1\r\nHost: h\r\n\r\n", expected), 200);
        client_close(&client);
    }
    return opened;
}

// A ticket is in the clear in the ClientHello, so that anyone can show it. One whose age is wrong is refused before
// its binder is verified, and a full handshake follows.
CASE_WITH(test_a_strangers_ticket_gives_no_name, start, stop)
{
    mbedtls_ssl_session session;
    int alert = 0;
    config.files.client_ca = fixture.root;
    config.files.client_certificate_optional = true;
    fixture_restart(&fixture, &config);
    mbedtls_ssl_session_init(&session);
    struct tls_client_settings settings = {.root = fixture.root,
                                           .tls13 = true,
                                           .session = &session,
                                           .certificate = fixture.certificate,
                                           .private_key = fixture.private_key};
    assert_true(ask_name(&settings, "localhost"));
    assert_true(ask_name(&settings, "localhost"));
    assert_int_equal(fixture_counters(&fixture).handshakes_resumed, 1);
    settings.certificate = NULL;
    settings.alert = &alert;
    session.resumption_key[0] ^= 1;
    assert_false(ask_name(&settings, NULL));
    assert_int_equal(alert, MBEDTLS_SSL_ALERT_MSG_DECRYPT_ERROR);
    session.ticket_age_add += 3600000;
    assert_true(ask_name(&settings, ""));
    assert_int_equal(fixture_counters(&fixture).handshakes_resumed, 1);
    assert_int_equal(fixture_counters(&fixture).handshakes_full, 2);
    assert_true(ask_name(&settings, "")); // with a ticket of its own
    assert_int_equal(fixture_counters(&fixture).handshakes_resumed, 2);
    mbedtls_ssl_session_free(&session);
    config.files.client_ca = NULL;
}

static int shell(const char *format, const char *argument)
{
    char command[600];
    snprintf(command, sizeof command, format, fixture.folder, (unsigned)fixture.port, argument);
    return system(command);
}

CASE_WITH(test_other_clients_are_understood, start, stop)
{
    assert_int_equal(shell("cd %s && curl -sSf --tlsv1.3 --cacert ca.pem --data-binary @ca.pem "
                           "https://localhost:%u/echo %s > out && cmp out ca.pem",
                           ""),
                     0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(shell("cd %s && printf 'GET /blob HTTP/1.1\\r\\nConnection: "
                               "close\\r\\n\\r\\n' |"
                               " openssl s_client -connect localhost:%u -CAfile ca.pem -tls1_3 "
                               "-verify_return_error -ign_eof %s > out 2>&1",
                               i == 0 ? "-sess_out session" : "-sess_in session"),
                         0);
        assert_int_equal(shell("cd %s && test %u -gt 0 && grep -aq '^%s, TLSv1.3' out",
                               i == 0 ? "New" : "Reused"),
                         0);
    }
}
