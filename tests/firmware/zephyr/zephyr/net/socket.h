// Stands in for Zephyr's: what the port uses of it, as its documentation declares that. Constants are this machine's.
#ifndef TERN_TEST_ZEPHYR_SOCKET_H
#define TERN_TEST_ZEPHYR_SOCKET_H

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#define ZSOCK_POLLIN POLLIN
#define ZSOCK_POLLOUT POLLOUT
#define ZVFS_O_NONBLOCK O_NONBLOCK
#define ZVFS_F_SETFL F_SETFL

struct zsock_pollfd {
    int fd;
    short events;
    short revents;
};

struct zsock_addrinfo {
    struct zsock_addrinfo *ai_next;
    int ai_flags;
    int ai_family;
    int ai_socktype;
    int ai_protocol;
    int ai_eflags;
    socklen_t ai_addrlen;
    struct sockaddr *ai_addr;
    char *ai_canonname;
};

int zsock_socket(int family, int type, int proto);
int zsock_fcntl(int sock, int cmd, int flags);
int zsock_getsockopt(int sock, int level, int optname, void *optval, socklen_t *optlen);
int zsock_connect(int sock, const struct sockaddr *addr, socklen_t addrlen);
int zsock_poll(struct zsock_pollfd *fds, int nfds, int timeout);
ssize_t zsock_send(int sock, const void *buf, size_t len, int flags);
ssize_t zsock_recv(int sock, void *buf, size_t max_len, int flags);
int zsock_close(int sock);
int zsock_getaddrinfo(const char *host, const char *service, const struct zsock_addrinfo *hints,
                      struct zsock_addrinfo **res);
void zsock_freeaddrinfo(struct zsock_addrinfo *ai);

#endif
