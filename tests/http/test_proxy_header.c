// The header of the PROXY protocol, byte by byte, who may send one, and a listener behind a proxy.
#include "http/proxy.h"

#include "client.h"
#include "fixture.h"
#include "tests/cases.h"
#include <arpa/inet.h>

#include <stdio.h>
#include <string.h>

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define V4_ADDRESSES "\xc0\x00\x02\x07\x7f\x00\x00\x01\x12\x34\x01\xbb"
#define V6_ADDRESS "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x09"
#define FROM_V4 SIGNATURE "\x21\x11\x00\x0c" V4_ADDRESSES
#define ASK "GET /facts HTTP/1.1\r\nHost: h\r\n\r\n"

// Bytes of a string literal without its NUL.
#define BYTES(text) (text), sizeof(text) - 1

// Feeds `data` in as small pieces as the parser asks for. Returns what it came to, and in *used how
// many bytes it took.
static enum tern_result feed(const char *data, size_t len, size_t *used,
                             char peer[INET6_ADDRSTRLEN])
{
    struct tern_proxy_header header = {0};
    struct sockaddr_storage name;
    const char *why = NULL;
    enum tern_result result = TERN_AGAIN;
    while (result == TERN_AGAIN && header.len < len) {
        const size_t wants = tern_proxy_header_wants(&header);
        const size_t left = len - header.len;
        assert_true(wants > 0);
        const size_t part = wants > 3 ? 3 : wants;
        const size_t taken = part < left ? part : left;
        memcpy(header.bytes + header.len, data + header.len, taken);
        header.len += taken;
        result = tern_proxy_header_parse(&header, &name, &why);
    }
    *used = header.len;
    peer[0] = '\0';
    if (result == TERN_OK && name.ss_family == AF_INET) {
        inet_ntop(AF_INET, &((struct sockaddr_in *)&name)->sin_addr, peer, INET6_ADDRSTRLEN);
    } else if (result == TERN_OK && name.ss_family == AF_INET6) {
        inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&name)->sin6_addr, peer, INET6_ADDRSTRLEN);
    }
    assert_true((result == TERN_ERR_CORRUPT) == (why != NULL));
    return result;
}

CASE(test_headers_name_the_peer_and_nothing_behind_them_is_taken)
{
    static const struct {
        const char *data;
        size_t len;
        const char *peer;
    } rows[] = {
        {BYTES(FROM_V4), "192.0.2.7"},
        {BYTES(SIGNATURE "\x21\x21\x00\x24" V6_ADDRESS V6_ADDRESS "\x12\x34\x01\xbb"),
         "2001:db8::9"},
        {BYTES(SIGNATURE "\x21\x11\x00\x13" V4_ADDRESSES "\x04\x00\x04more"), "192.0.2.7"}, // a TLV
        {BYTES(SIGNATURE "\x20\x00\x00\x00"), ""},                                          // LOCAL
        {BYTES(SIGNATURE "\x20\x11\x00\x0c" V4_ADDRESSES), ""},
        {BYTES(SIGNATURE "\x21\x00\x00\x00"), ""}, // unspecified
        {BYTES("PROXY TCP4 192.0.2.7 127.0.0.1 4660 443\r\n"), "192.0.2.7"},
        {BYTES("PROXY TCP6 2001:db8::9 ::1 4660 443\r\n"), "2001:db8::9"},
        {BYTES("PROXY UNKNOWN\r\n"), ""},
        {BYTES("PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n"), ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char data[700];
        char peer[INET6_ADDRSTRLEN];
        size_t used = 0;
        memcpy(data, rows[i].data, rows[i].len);
        memcpy(data + rows[i].len, "\x16\x03\x01", 3); // TLS goes on
        assert_int_equal(feed(data, rows[i].len + 3, &used, peer), TERN_OK);
        assert_int_equal(used, rows[i].len);
        assert_string_equal(peer, rows[i].peer);
        for (size_t cut = 1; cut < rows[i].len; cut++) {
            assert_int_equal(feed(data, cut, &used, peer), TERN_AGAIN);
        }
    }
}

CASE(test_what_is_no_header_is_refused)
{
    static const struct {
        const char *data;
        size_t len;
    } rows[] = {
        {BYTES("\x16\x03\x01\x00\x43\x01\x00\x00\x3f\x03\x03\x01\x02")}, // TLS
        {BYTES("GET / HTTP/1.1\r\n")},
        {BYTES("PROXX TCP4 192.0.2.7 127.0.0.1 4660 443\r\n")},
        {BYTES("\r\n\r\n\0\r\nQUIX\n\x21\x11\x00\x0c" V4_ADDRESSES)},
        {BYTES(SIGNATURE "\x11\x11\x00\x0c" V4_ADDRESSES)}, // version 1 of the binary form
        {BYTES(SIGNATURE "\x22\x11\x00\x0c" V4_ADDRESSES)}, // no such command
        {BYTES(SIGNATURE "\x21\x12\x00\x0c" V4_ADDRESSES)}, // UDP
        {BYTES(SIGNATURE "\x21\x31\x00\x0c" V4_ADDRESSES)}, // a unix socket
        {BYTES(SIGNATURE "\x21\x11\x00\x0b" V4_ADDRESSES)}, // shorter than its addresses
        {BYTES(SIGNATURE "\x21\x21\x00\x0c" V4_ADDRESSES)},
        {BYTES(SIGNATURE "\x21\x11\xff\xff" V4_ADDRESSES)}, // longer than any
        {BYTES(SIGNATURE "\x20\x00\x02\x09")},
        {BYTES("PROXY TCP4 192.0.2.7 127.0.0.1 4660 443\n")},
        {BYTES("PROXY TCP4 192.0.2.7 127.0.0.1 4660\r\n")},
        {BYTES("PROXY TCP4 192.0.2.7 127.0.0.1 4660 443 x\r\n")},
        {BYTES("PROXY TCP4 2001:db8::9 127.0.0.1 4660 443\r\n")},
        {BYTES("PROXY TCP6 192.0.2.7 ::1 4660 443\r\n")},
        {BYTES("PROXY UDP4 192.0.2.7 127.0.0.1 4660 443\r\n")},
        {BYTES("PROXY TCP4 192.0.2.7\0 127.0.0.1 4660 443\r\n")},
    };
    char peer[INET6_ADDRSTRLEN];
    size_t used = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(feed(rows[i].data, rows[i].len, &used, peer), TERN_ERR_CORRUPT);
    }
    char endless[200];
    memset(endless, 'x', sizeof endless);
    memcpy(endless, BYTES("PROXY UNKNOWN "));
    assert_int_equal(feed(endless, sizeof endless, &used, peer), TERN_ERR_CORRUPT);
    assert_int_equal(used, 107);
}

static bool has(const struct tern_networks *networks, int family, const char *text)
{
    struct sockaddr_storage name = {.ss_family = (sa_family_t)family};
    void *at = family == AF_INET ? (void *)&((struct sockaddr_in *)&name)->sin_addr
                                 : (void *)&((struct sockaddr_in6 *)&name)->sin6_addr;
    assert_int_equal(inet_pton(family, text, at), 1);
    return tern_networks_contain(networks, &name);
}

CASE(test_networks)
{
    struct tern_networks networks;
    char why[256] = "";
    assert_int_equal(
        tern_networks_parse("127.0.0.1, 10.0.0.0/8,192.0.2.128/25 fd00::/12, ::1", &networks, why),
        TERN_OK);
    assert_int_equal(networks.count, 5);
    assert_true(has(&networks, AF_INET, "127.0.0.1"));
    assert_true(has(&networks, AF_INET6, "::ffff:127.0.0.1"));
    assert_false(has(&networks, AF_INET, "127.0.0.2"));
    assert_true(has(&networks, AF_INET, "10.255.0.1"));
    assert_false(has(&networks, AF_INET, "11.0.0.1"));
    assert_true(has(&networks, AF_INET, "192.0.2.200"));
    assert_false(has(&networks, AF_INET, "192.0.2.127"));
    assert_true(has(&networks, AF_INET6, "fd0f::1"));
    assert_false(has(&networks, AF_INET6, "fd10::1"));
    assert_true(has(&networks, AF_INET6, "::1"));
    assert_int_equal(tern_networks_parse(" ", &networks, why), TERN_OK);
    assert_false(has(&networks, AF_INET, "127.0.0.1"));
    static const char *const wrong[] = {"localhost",   "10.0.0.0/33", "::1/129",    "10.0.0.0/",
                                        "10.0.0.0/8x", "10.0.0",      "1.2.3.4, no"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        why[0] = '\0';
        assert_int_equal(tern_networks_parse(wrong[i], &networks, why), TERN_ERR_CONFIG);
        assert_non_null(strstr(why, "is not an address or network"));
    }
}

// --- By a listener

static struct fixture fixture;

static uint64_t refused(void)
{
    struct tern_http_counters counters;
    tern_http_counters(fixture.server, &counters);
    return counters.connections_refused;
}

static struct client open_behind(const void *header, size_t len)
{
    struct client client;
    assert_true(client_open(&client, fixture.port, NULL));
    assert_true(client_send(&client, header, len));
    return client;
}

CASE(test_limits_are_the_peers)
{
    struct tern_http_config config = {
        .threads = 1, .proxy_from = "127.0.0.0/8", .limits = {.connections_per_address = 2}};
    fixture_start(&fixture, &config, true);
    struct client one = open_behind(BYTES(FROM_V4));
    struct client two = open_behind(BYTES(FROM_V4));
    assert_int_equal(client_ask(&one, ASK, NULL), 200);
    assert_int_equal(client_ask(&two, ASK, NULL), 200);
    struct client third = open_behind(BYTES(FROM_V4));
    assert_int_equal(client_ask(&third, ASK, NULL), 200);
    assert_true(client_sees_end(&one, 5000)); // the idlest of that peer
    assert_int_equal(client_ask(&two, ASK, NULL), 200);
    struct client other = open_behind(BYTES("PROXY TCP4 192.0.2.8 127.0.0.1 4660 443\r\n"));
    assert_int_equal(client_ask(&other, ASK, NULL), 200);
    struct client local[4]; // the proxy's own have no share
    for (size_t i = 0; i < 4; i++) {
        local[i] = open_behind(BYTES(SIGNATURE "\x20\x00\x00\x00"));
        assert_int_equal(client_ask(&local[i], ASK, NULL), 200);
        client_close(&local[i]);
    }
    assert_int_equal(refused(), 0);
    struct client none = open_behind(BYTES(ASK));
    assert_true(client_sees_end(&none, 5000));
    assert_int_equal(refused(), 1);
    client_close(&one);
    client_close(&two);
    client_close(&third);
    client_close(&other);
    client_close(&none);
    assert_true(fixture_wait_idle(&fixture));
    one = open_behind(BYTES(FROM_V4)); // the places were the peer's
    assert_int_equal(client_ask(&one, ASK, NULL), 200);
    client_close(&one);
    fixture_stop(&fixture);
}

CASE(test_tls_follows_a_header_in_pieces)
{
    char root[120];
    struct tern_http_config config = {.threads = 1, .proxy_from = "127.0.0.1"};
    fixture_start(&fixture, &config, false);
    snprintf(root, sizeof root, "%s/ca.pem", fixture.folder);
    const struct tls_client_settings settings = {.root = root};
    struct client client = open_behind(BYTES(SIGNATURE));
    sleep_ms(5); // so that it comes in two segments
    assert_true(client_send(&client, FROM_V4 + 12, sizeof FROM_V4 - 1 - 12));
    client.tls = tls_client_open(client.fd, &settings);
    assert_non_null(client.tls);
    assert_int_equal(client_ask(&client, ASK, NULL), 200);
    client_close(&client);
    assert_true(fixture_wait_idle(&fixture));
    fixture_stop(&fixture);
}

// Who is not named may not say whose its connection is.
CASE(test_others_are_not_believed)
{
    struct tern_http_config config = {.threads = 1, .proxy_from = "192.0.2.1"};
    fixture_start(&fixture, &config, true);
    struct client client = open_behind(BYTES("PROXY TCP4 192.0.2.7 127.0.0.1 4660 443\r\n"));
    struct client_reply reply = client_receive(&client, false);
    assert_int_equal(reply.status, 400);
    client_reply_free(&reply);
    client_close(&client);
    fixture_stop(&fixture);
}

#define ASK_OF_CACHE "GET /of-cache HTTP/1.1\r\nHost: h\r\n\r\n"

static void expect_of_cache(const char *header, size_t len, const char *expected)
{
    struct client client;
    assert_true(client_open(&client, fixture.port, NULL));
    assert_true(len == 0 || client_send(&client, header, len));
    for (unsigned i = 0; i < 2; i++) { // every request of the connection
        assert_int_equal(client_ask(&client, ASK_OF_CACHE, expected), 200);
    }
    client_close(&client);
    assert_true(fixture_wait_idle(&fixture));
}

// By the address of the connection, or the one that a proxy names, never by what a request says.
CASE(test_caches_are_known_by_their_address)
{
    struct tern_http_config config = {.threads = 1, .cache_from = "10.0.0.0/8, 127.0.0.1"};
    fixture_start(&fixture, &config, true);
    expect_of_cache(NULL, 0, "yes");
    fixture_stop(&fixture);
    config.cache_from = "192.0.2.7, 2001:db8::9";
    fixture_start(&fixture, &config, true);
    expect_of_cache(NULL, 0, "no");
    fixture_stop(&fixture);
    config.proxy_from = "127.0.0.1";
    fixture_start(&fixture, &config, true);
    expect_of_cache(BYTES(FROM_V4), "yes");
    expect_of_cache(BYTES("PROXY TCP4 192.0.2.8 127.0.0.1 4660 443\r\n"), "no");
    expect_of_cache(BYTES("PROXY TCP6 2001:db8::9 ::1 4660 443\r\n"), "yes");
    expect_of_cache(BYTES("PROXY TCP6 2001:db8::a ::1 4660 443\r\n"), "no");
    fixture_stop(&fixture);
    config.cache_from = "127.0.0.1"; // the proxy's own address is not that of whom it names
    fixture_start(&fixture, &config, true);
    expect_of_cache(BYTES(FROM_V4), "no");
    fixture_stop(&fixture);
    config.proxy_from = NULL;
    config.cache_from = NULL;
    fixture_start(&fixture, &config, true);
    expect_of_cache(NULL, 0, "no");
    fixture_stop(&fixture);
}
