// Clients that shake hands by a pre-shared key: who they are to the service, what the handshake
// costs, and that neither tickets nor wrong keys make one client another. And what a device with
// small TLS buffers is sent.
#include "client.h"
#include "fixture.h"
#include "tests/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALERT_HANDSHAKE_FAILURE 40
#define ALERT_BAD_RECORD_MAC 20

static const int PSK_SUITES[] = {MBEDTLS_TLS_ECDHE_PSK_WITH_CHACHA20_POLY1305_SHA256, 0};
static const int CERTIFICATE_SUITES[] = {MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, 0};

static struct fixture fixture;
static struct tern_http_config config;
static uint8_t key_of_7[TERN_HTTP_PSK_SIZE];
static uint8_t other_key[TERN_HTTP_PSK_SIZE];

static void give_key(unsigned client, const uint8_t *key)
{
    pthread_mutex_lock(&fixture.lock);
    fixture.has_psk[client] = key != NULL;
    if (key != NULL) {
        memcpy(fixture.psk[client], key, TERN_HTTP_PSK_SIZE);
    }
    pthread_mutex_unlock(&fixture.lock);
}

static void offer_psk(bool offers)
{
    fixture.offers_psk = offers;
    fixture_restart(&fixture, &config);
}

static int start(void **state)
{
    (void)state;
    fixture_start(&fixture, &config, false);
    memset(key_of_7, 7, sizeof key_of_7);
    memset(other_key, 8, sizeof other_key);
    offer_psk(true);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    fixture_stop(&fixture);
    return 0;
}

static int only_7_has_a_key(void **state)
{
    (void)state;
    for (unsigned client = 0; client < PSK_CLIENTS; client++) {
        give_key(client, client == 7 ? key_of_7 : NULL);
    }
    return 0;
}

static struct tls_client_settings settings_of(const char *identity, const uint8_t *key,
                                              mbedtls_ssl_session *session)
{
    return (struct tls_client_settings){.root = fixture.root,
                                        .ciphersuites = PSK_SUITES,
                                        .session = session,
                                        .identity = identity,
                                        .key = key};
}

static void assert_is(struct client *client, const char *who)
{
    assert_int_equal(client_ask(client, "GET /who HTTP/1.1\r\nHost: h\r\n\r\n", who), 200);
}

static uint64_t bytes_of(const struct client *client)
{
    return tls_client_bytes_sent(client->tls) + tls_client_bytes_received(client->tls);
}

// Keeps the session of one connection of client 7, or of one by certificate when key is NULL.
static void keep_session(mbedtls_ssl_session *session, const uint8_t *key)
{
    struct tls_client_settings settings = settings_of("7", key, session);
    struct client client;
    if (key == NULL) {
        settings.identity = NULL;
        settings.ciphersuites = CERTIFICATE_SUITES;
    }
    mbedtls_ssl_session_init(session);
    assert_true(client_open(&client, fixture.port, &settings));
    assert_is(&client, key != NULL ? "7" : "0");
    client_close(&client);
}

// --- Who it is

#define TEST(name) CASE_WITH(name, only_7_has_a_key, NULL)

TEST(test_the_handshake_names_the_client)
{
    struct client client;
    struct tls_client_settings settings = settings_of("7", key_of_7, NULL);
    assert_true(client_open(&client, fixture.port, &settings));
    assert_string_equal(tls_client_ciphersuite(client.tls),
                        "TLS-ECDHE-PSK-WITH-CHACHA20-POLY1305-SHA256");
    assert_is(&client, "7");
    assert_is(&client, "7");
    client_close(&client);
    settings = (struct tls_client_settings){.root = fixture.root};
    assert_true(client_open(&client, fixture.port, &settings));
    assert_is(&client, "0");
    client_close(&client);
}

// To whoever tries, an id that has no key is one whose key was wrong.
TEST(test_wrong_keys_and_unknown_identities_fail_alike)
{
    static const char *const identities[] = {"7",
                                             "8",
                                             "07",
                                             "7 ",
                                             "seven",
                                             "-7",
                                             "7x",
                                             "0",
                                             "+7",
                                             "070",
                                             "4294967303",            // 7 + 2^32
                                             "18446744073709551623"}; // 7 + 2^64
    uint64_t failed = fixture_counters(&fixture).handshakes_failed;
    size_t count = sizeof identities / sizeof identities[0];
    for (size_t i = 0; i < count; i++) {
        int alert = 0;
        // Client 7 uses a wrong key, and every other identity uses the key of client 7.
        struct tls_client_settings settings =
            settings_of(identities[i], i == 0 ? other_key : key_of_7, NULL);
        struct client client;
        settings.alert = &alert;
        assert_false(client_open(&client, fixture.port, &settings));
        assert_int_equal(alert, ALERT_BAD_RECORD_MAC);
    }
    assert_true(fixture_wait_idle(&fixture));
    assert_int_equal(fixture_counters(&fixture).handshakes_failed - failed, count);
}

TEST(test_who_can_verify_the_certificate_does)
{
    static const int both[] = {MBEDTLS_TLS_ECDHE_PSK_WITH_CHACHA20_POLY1305_SHA256,
                               MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, 0};
    struct tls_client_settings settings = settings_of("7", key_of_7, NULL);
    struct client client;
    settings.ciphersuites = both;
    assert_true(client_open(&client, fixture.port, &settings));
    assert_is(&client, "0");
    client_close(&client);
}

TEST(test_without_the_setting_there_is_no_such_suite)
{
    mbedtls_ssl_session session;
    int alert = 0;
    struct client client;
    keep_session(&session, key_of_7);
    offer_psk(false);
    struct tls_client_settings settings = settings_of("7", key_of_7, NULL);
    settings.alert = &alert;
    assert_false(client_open(&client, fixture.port, &settings));
    assert_int_equal(alert, ALERT_HANDSHAKE_FAILURE);
    settings.session = &session; // nor does an old ticket help
    assert_false(client_open(&client, fixture.port, &settings));
    offer_psk(true);
    mbedtls_ssl_session_free(&session);
}

// --- Tickets

TEST(test_a_ticket_says_whose_it_is)
{
    mbedtls_ssl_session session;
    keep_session(&session, key_of_7);
    struct tls_client_settings settings = settings_of("7", key_of_7, &session);
    for (int restart = 0; restart < 2; restart++) {
        uint64_t resumed = fixture_counters(&fixture).handshakes_resumed;
        struct client client;
        for (int i = 0; i < 5; i++) {
            assert_true(client_open(&client, fixture.port, &settings));
            assert_is(&client, "7");
            client_close(&client);
        }
        assert_int_equal(fixture_counters(&fixture).handshakes_resumed - resumed, 5);
        offer_psk(true);
    }
    mbedtls_ssl_session_free(&session);
}

TEST(test_no_ticket_outlives_its_key)
{
    mbedtls_ssl_session session;
    struct client client;
    keep_session(&session, key_of_7);
    struct tls_client_settings settings = settings_of("7", key_of_7, &session);
    give_key(7, NULL);
    assert_false(client_open(&client, fixture.port, &settings));
    // The id belongs to another device now.
    give_key(7, other_key);
    assert_false(client_open(&client, fixture.port, &settings));
    settings.key = other_key;
    uint64_t resumed = fixture_counters(&fixture).handshakes_resumed;
    assert_true(client_open(&client, fixture.port, &settings));
    assert_is(&client, "7");
    client_close(&client);
    assert_int_equal(fixture_counters(&fixture).handshakes_resumed, resumed);
    mbedtls_ssl_session_free(&session);
}

// A client may claim that its session was of the other suite, and mbedTLS resumes it. It is let go
// before it is asked anything.
static void resume_under(int suite, const uint8_t *key)
{
    mbedtls_ssl_session session;
    struct client client;
    keep_session(&session, key);
    int suites[] = {suite, 0};
    struct tls_client_settings settings = settings_of("7", key_of_7, &session);
    settings.ciphersuites = suites;
    session.ciphersuite = suite;
    uint64_t failed = fixture_counters(&fixture).handshakes_failed;
    uint32_t asked = fixture.requests_seen;
    if (client_open(&client, fixture.port, &settings)) {
        (void)client_send_text(&client, "GET /who HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_true(client_sees_end(&client, 8000));
        client_close(&client);
    }
    assert_true(fixture_wait_idle(&fixture));
    assert_int_equal(fixture_counters(&fixture).handshakes_failed - failed, 1);
    assert_int_equal(fixture.requests_seen, asked);
    mbedtls_ssl_session_free(&session);
}

TEST(test_a_ticket_is_not_taken_under_the_other_kind_of_suite)
{
    resume_under(PSK_SUITES[0], NULL);
    resume_under(CERTIFICATE_SUITES[0], key_of_7);
}

// --- Bytes

static void measure(const char *name, struct tls_client_settings settings, uint64_t *full,
                    uint64_t *resumed)
{
    mbedtls_ssl_session session;
    struct client client;
    mbedtls_ssl_session_init(&session);
    settings.session = &session;
    assert_true(client_open(&client, fixture.port, &settings));
    *full = bytes_of(&client);
    assert_int_equal(client_ask(&client, "GET /who HTTP/1.1\r\nHost: h\r\n\r\n", NULL), 200);
    client_close(&client);
    assert_true(client_open(&client, fixture.port, &settings));
    *resumed = bytes_of(&client);
    uint64_t before = *resumed;
    assert_int_equal(client_ask(&client, "GET /who HTTP/1.1\r\nHost: h\r\n\r\n", NULL), 200);
    uint64_t request = bytes_of(&client) - before;
    client_close(&client);
    print_message("%-6s full handshake %4u bytes, resumed %4u, a request %u\n", name,
                  (unsigned)*full, (unsigned)*resumed, (unsigned)request);
    mbedtls_ssl_session_free(&session);
}

TEST(test_handshake_costs)
{
    uint64_t full[2];
    uint64_t resumed[2];
    measure("ECDSA", (struct tls_client_settings){.root = fixture.root}, &full[0], &resumed[0]);
    measure("PSK", settings_of("7", key_of_7, NULL), &full[1], &resumed[1]);
    assert_true(full[1] + 400 < full[0]); // no certificate, no signature
    assert_in_range(resumed[1], 200, resumed[0] + 12);
}

// The only place is that of a client which has said nothing since its handshake.
TEST(test_a_client_keeps_its_place)
{
    struct tern_http_config small = config;
    struct tls_client_settings proven = settings_of("7", key_of_7, NULL);
    struct tls_client_settings anyone = {.root = fixture.root, .ciphersuites = CERTIFICATE_SUITES};
    struct client client;
    struct client newcomer;
    small.threads = 1;
    small.limits.connections = 1;
    fixture_restart(&fixture, &small);
    assert_true(client_open(&client, fixture.port, &proven));
    assert_false(client_open(&newcomer, fixture.port, &anyone));
    assert_is(&client, "7");
    client_close(&client);
    fixture_restart(&fixture, &config);
}

// --- Small buffers

static void fetch_blob(struct client *client)
{
    assert_true(client_send_text(client, "GET /blob HTTP/1.1\r\nHost: h\r\n\r\n"));
    struct client_reply reply = client_receive(client, false);
    assert_int_equal(reply.body_len, BLOB_SIZE);
    assert_memory_equal(reply.body, fixture.blob->data, BLOB_SIZE);
    client_reply_free(&reply);
}

// max_fragment_length (RFC 6066) holds for what is sent, on a resumed connection too.
TEST(test_records_are_as_short_as_asked_for)
{
    static const unsigned char codes[] = {
        MBEDTLS_SSL_MAX_FRAG_LEN_512, MBEDTLS_SSL_MAX_FRAG_LEN_1024, MBEDTLS_SSL_MAX_FRAG_LEN_2048};
    const size_t tag = 16;
    for (size_t i = 0; i < 6; i++) {
        mbedtls_ssl_session session;
        mbedtls_ssl_session_init(&session);
        struct tls_client_settings settings = settings_of("7", key_of_7, &session);
        settings.ciphersuites = i < 3 ? PSK_SUITES : CERTIFICATE_SUITES;
        settings.max_fragment = codes[i % 3];
        for (int resumed = 0; resumed < 2; resumed++) {
            struct client client;
            assert_true(client_open(&client, fixture.port, &settings));
            size_t most = (size_t)512 << i % 3;
            // One certificate of P-256 has some 400 bytes. Longer chains are not cut up.
            assert_true(tls_client_longest_record(client.tls) <= most);
            fetch_blob(&client);
            assert_in_range(tls_client_longest_record(client.tls), most, most + tag);
            client_close(&client);
        }
        mbedtls_ssl_session_free(&session);
    }
}

CASES_SHARE(start, stop)
