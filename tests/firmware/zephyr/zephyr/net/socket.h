// Stands in for Zephyr's: what tern_zephyr.c uses of it, as its documentation declares that.
#ifndef TERN_TEST_ZEPHYR_SOCKET_H
#define TERN_TEST_ZEPHYR_SOCKET_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#define IPPROTO_TLS_1_2 258
#define SOL_TLS 282
#define TLS_SEC_TAG_LIST 1
#define TLS_HOSTNAME 2
#define TLS_PEER_VERIFY 5
#define TLS_PEER_VERIFY_REQUIRED 2

struct zsock_timeval {
    long tv_sec;
    long tv_usec;
};

struct zsock_addrinfo {
    struct zsock_addrinfo *ai_next;
    int ai_family;
    int ai_socktype;
    socklen_t ai_addrlen;
    struct sockaddr *ai_addr;
};

int zsock_socket(int family, int type, int proto);
int zsock_setsockopt(int sock, int level, int optname, const void *optval, socklen_t optlen);
int zsock_connect(int sock, const struct sockaddr *addr, socklen_t addrlen);
ssize_t zsock_send(int sock, const void *buf, size_t len, int flags);
ssize_t zsock_recv(int sock, void *buf, size_t max_len, int flags);
int zsock_close(int sock);
int zsock_getaddrinfo(const char *host, const char *service, const struct zsock_addrinfo *hints,
                      struct zsock_addrinfo **res);
void zsock_freeaddrinfo(struct zsock_addrinfo *ai);

#endif
