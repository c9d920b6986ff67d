// Where a listener listens that takes every address: by IPv6 and IPv4, and by IPv4 alone on a machine without IPv6.
#include "fixture.h"
#include "tests/cases.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool has_ipv6 = true;

int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);

int __wrap_socket(int domain, int type, int protocol)
{
    if (domain == AF_INET6 && !has_ipv6) {
        errno = EAFNOSUPPORT;
        return -1;
    }
    return __real_socket(domain, type, protocol);
}

static struct fixture fixture;

static void start(const char *address)
{
    struct tern_http_config config = {.address = address, .threads = 2};
    fixture_start(&fixture, &config, true);
}

static bool answers(const struct sockaddr *name, socklen_t len)
{
    static const char request[] = "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char reply[12] = "";
    const int fd = __real_socket(name->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    const bool whole = connect(fd, name, len) == 0 &&
                       send(fd, request, sizeof request - 1, 0) == (ssize_t)(sizeof request - 1) &&
                       recv(fd, reply, sizeof reply, MSG_WAITALL) == sizeof reply;
    close(fd);
    return whole && memcmp(reply, "HTTP/1.1 404", sizeof reply) == 0;
}

static bool answers_ipv4(void)
{
    const struct sockaddr_in name = {.sin_family = AF_INET,
                                     .sin_port = htons(fixture.port),
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return answers((const struct sockaddr *)&name, sizeof name);
}

static bool answers_ipv6(void)
{
    const struct sockaddr_in6 name = {.sin6_family = AF_INET6,
                                      .sin6_port = htons(fixture.port),
                                      .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    return answers((const struct sockaddr *)&name, sizeof name);
}

// Whether this machine has ::1, which a container may lack.
static bool machine_has_ipv6(void)
{
    const struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const int fd = __real_socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&name, sizeof name) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return has;
}

CASE(every_address_is_of_both_families)
{
    if (!machine_has_ipv6()) {
        skip();
    }
    has_ipv6 = true;
    start("::");
    assert_string_equal(tern_http_address(fixture.server), "::");
    assert_true(answers_ipv4());
    assert_true(answers_ipv6());
    fixture_stop(&fixture);
}

CASE(without_ipv6_every_address_is_of_ipv4)
{
    has_ipv6 = false;
    start("::");
    assert_string_equal(tern_http_address(fixture.server), "0.0.0.0");
    assert_true(answers_ipv4());
    fixture_stop(&fixture);
    has_ipv6 = true;
}

CASE(one_address_of_ipv6_is_of_ipv6_alone)
{
    if (!machine_has_ipv6()) {
        skip();
    }
    start("::1");
    assert_string_equal(tern_http_address(fixture.server), "::1");
    assert_true(answers_ipv6());
    assert_false(answers_ipv4());
    fixture_stop(&fixture);
}
