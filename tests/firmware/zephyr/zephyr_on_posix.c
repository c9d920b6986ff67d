// Zephyr's functions over this machine's: sockets, clock, and random numbers. The name "localhost" has two addresses, of which
// the first (IPv6) may refuse; names that end in ".invalid" have none.
#define _GNU_SOURCE
#include <zephyr/kernel.h>
#include <zephyr/net/socket.h>
#if __has_include(<zephyr/random/random.h>)
#include <zephyr/random/random.h>
#else
#include <zephyr/random/rand32.h>
#endif
#include <zephyr/sys/printk.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define DNS_EAI_NONAME (-2)

int64_t k_uptime_get(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int32_t k_msleep(int32_t ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
    return 0;
}

void printk(const char *fmt, ...)
{
    va_list values;
    va_start(values, fmt);
    vprintf(fmt, values);
    va_end(values);
}

int sys_csrand_get(void *dst, size_t len)
{
    return getrandom(dst, len, 0) == (ssize_t)len ? 0 : -EIO;
}

int zsock_socket(int family, int type, int proto)
{
    return socket(family, type | SOCK_CLOEXEC, proto);
}

int zsock_fcntl(int sock, int cmd, int flags)
{
    return fcntl(sock, cmd, flags);
}

int zsock_getsockopt(int sock, int level, int optname, void *optval, socklen_t *optlen)
{
    return getsockopt(sock, level, optname, optval, optlen);
}

int zsock_connect(int sock, const struct sockaddr *addr, socklen_t addrlen)
{
    return connect(sock, addr, addrlen);
}

int zsock_poll(struct zsock_pollfd *fds, int nfds, int timeout)
{
    struct pollfd one = {.fd = fds->fd, .events = fds->events};
    const int ready = nfds == 1 ? poll(&one, 1, timeout) : -1;
    fds->revents = one.revents;
    return ready;
}

ssize_t zsock_send(int sock, const void *buf, size_t len, int flags)
{
    return send(sock, buf, len, flags | MSG_NOSIGNAL);
}

ssize_t zsock_recv(int sock, void *buf, size_t max_len, int flags)
{
    return recv(sock, buf, max_len, flags);
}

int zsock_close(int sock)
{
    return close(sock);
}

struct found {
    struct zsock_addrinfo list[2];
    struct sockaddr_in6 first;
    struct sockaddr_in second;
};

int zsock_getaddrinfo(const char *host, const char *service, const struct zsock_addrinfo *hints,
                      struct zsock_addrinfo **res)
{
    const char *end = strrchr(host, '.');
    if ((end != NULL && strcmp(end, ".invalid") == 0) || hints->ai_family != AF_UNSPEC) {
        return DNS_EAI_NONAME;
    }
    const in_port_t port = htons((uint16_t)atoi(service));
    struct found *found = calloc(1, sizeof *found);
    found->first = (struct sockaddr_in6){
        .sin6_family = AF_INET6, .sin6_port = port, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    found->second = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    found->list[0] = (struct zsock_addrinfo){.ai_next = &found->list[1],
                                             .ai_family = AF_INET6,
                                             .ai_socktype = SOCK_STREAM,
                                             .ai_addrlen = sizeof found->first,
                                             .ai_addr = (struct sockaddr *)&found->first};
    found->list[1] = (struct zsock_addrinfo){.ai_family = AF_INET,
                                             .ai_socktype = SOCK_STREAM,
                                             .ai_addrlen = sizeof found->second,
                                             .ai_addr = (struct sockaddr *)&found->second};
    *res = found->list;
    return 0;
}

void zsock_freeaddrinfo(struct zsock_addrinfo *ai)
{
    free(ai);
}
