// The defaults of the limits, and what is limited per address.
#include "http/admission.h"
#include "tests/cases.h"
#include <arpa/inet.h>
#include <netinet/in.h>

#include <string.h>

static struct tern_address counted(int family, const char *text)
{
    struct sockaddr_storage name = {.ss_family = (sa_family_t)family};
    void *at = family == AF_INET ? (void *)&((struct sockaddr_in *)&name)->sin_addr
                                 : (void *)&((struct sockaddr_in6 *)&name)->sin6_addr;
    assert_int_equal(inet_pton(family, text, at), 1);
    return tern_address_of(&name);
}

static bool same(struct tern_address a, struct tern_address b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

CASE(test_a_subscriber_is_one_address)
{
    struct tern_address one = counted(AF_INET6, "2001:db8:1:2::1");
    assert_true(same(one, counted(AF_INET6, "2001:db8:1:2:ffff:ffff:ffff:ffff")));
    assert_false(same(one, counted(AF_INET6, "2001:db8:1:3::1")));
    assert_true(same(counted(AF_INET, "192.0.2.7"), counted(AF_INET6, "::ffff:192.0.2.7")));
    assert_false(same(counted(AF_INET, "192.0.2.7"), counted(AF_INET, "192.0.2.8")));
}

CASE(test_zero_means_the_documented_default)
{
    struct tern_http_limits limits = {.idle_ms = 7};
    tern_http_limits_fill(&limits);
    assert_int_equal(limits.connections, 10000);
    assert_int_equal(limits.connections_per_address, 256);
    assert_int_equal(limits.connections_per_client, 8);
    assert_int_equal(limits.header_bytes, 4096);
    assert_int_equal(limits.body_bytes, 16 << 20);
    assert_true(limits.body_memory == 256 << 20);
    assert_true(limits.body_disk == UINT64_C(8) << 30);
    assert_int_equal(limits.handshake_ms, 10000);
    assert_int_equal(limits.handshakes_per_address, 8);
    assert_int_equal(limits.request_ms, 60000);
    assert_int_equal(limits.min_rate, 500);
    assert_int_equal(limits.idle_ms, 7);
    assert_int_equal(limits.write_ms, 60000);
}

CASE(test_one_of_the_largest_bodies_fits)
{
    struct tern_http_limits limits = {
        .body_bytes = 1u << 30, .body_memory = 1u << 20, .body_disk = 1};
    tern_http_limits_fill(&limits);
    assert_true(limits.body_memory == 1u << 30);
    assert_true(limits.body_disk == 1u << 30);
}
