#define _GNU_SOURCE // accept4()

#include "mesh/socket.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// Looks up a name; the caller frees *found. Returns getaddrinfo()'s error.
static int look_up(const char *address, uint16_t port, int flags, struct addrinfo **found)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    return getaddrinfo(address, service, &hints, found);
}

static enum tern_result refuse(const char *address, uint16_t port, const char *reason,
                               char why[256])
{
    snprintf(why, 256, "cannot listen on %.120s port %u: %.80s", address, port, reason);
    return TERN_ERR_CONFIG;
}

enum tern_result tern_ring_listen(const char *address, uint16_t port, int *fd, char why[256])
{
    struct addrinfo *found = NULL;
    const int one = 1;
    const int error = look_up(address, port, AI_PASSIVE, &found);
    if (error != 0) {
        return refuse(address, port, gai_strerror(error), why);
    }
    const int listener = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const bool listens =
        listener >= 0 && setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(listener, found->ai_addr, found->ai_addrlen) == 0 && listen(listener, SOMAXCONN) == 0;
    const int reason = errno;
    freeaddrinfo(found);
    if (!listens) {
        if (listener >= 0) {
            close(listener);
        }
        return refuse(address, port, strerror(reason), why);
    }
    *fd = listener;
    return TERN_OK;
}

// Disables Nagle's algorithm: the steps of a ring wait for each other.
static void set_no_delay(int fd)
{
    const int one = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

int tern_ring_dial(const char *address, uint16_t port)
{
    struct addrinfo *found = NULL;
    if (look_up(address, port, 0, &found) != 0) {
        return -1;
    }
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        set_no_delay(fd);
        if (connect(fd, found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}

int tern_ring_accept(int listener)
{
    const int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        set_no_delay(fd);
    }
    return fd;
}
