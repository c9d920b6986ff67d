#include "http/listen.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 1024

static enum tern_result refuse(enum tern_result result, const char *address, uint16_t port,
                               const char *reason, char why[256])
{
    snprintf(why, 256, "cannot listen on %.120s port %u: %s", address, port, reason);
    return result;
}

const char *tern_listen_unix_path(const char *address)
{
    return strncmp(address, "unix:", 5) == 0 ? address + 5 : NULL;
}

// --- Unix

// A socket that a killed process left behind would refuse every later bind. One that answers
// belongs to a process that lives.
static bool is_stale(const struct sockaddr_un *name)
{
    struct stat status;
    if (lstat(name->sun_path, &status) != 0 || !S_ISSOCK(status.st_mode)) {
        return false;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    bool answers = connect(fd, (const struct sockaddr *)name, sizeof *name) == 0;
    bool stale = !answers && errno == ECONNREFUSED;
    close(fd);
    return stale;
}

static enum tern_result open_unix(const char *path, int *fd, char why[256])
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (strlen(path) == 0 || strlen(path) >= sizeof name.sun_path) {
        snprintf(why, 256, "the unix socket path must have 1 to %zu bytes",
                 sizeof name.sun_path - 1);
        return TERN_ERR_CONFIG;
    }
    memcpy(name.sun_path, path, strlen(path) + 1);
    if (is_stale(&name)) {
        (void)unlink(path); // bind() will say so if it is still there
    }
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    // The mode of the unbound socket becomes the file's: there is no moment at which others may
    // connect.
    if (*fd < 0 || fchmod(*fd, 0600) != 0 ||
        bind(*fd, (const struct sockaddr *)&name, sizeof name) != 0 || listen(*fd, BACKLOG) != 0) {
        snprintf(why, 256, "cannot listen on unix:%.110s: %s", path, strerror(errno));
        return TERN_ERR_NETWORK;
    }
    return TERN_OK;
}

// --- TCP

static int bind_socket(const struct addrinfo *name, bool shares)
{
    int fd = socket(name->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;
    if (fd < 0) {
        return -1;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        (shares && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0) ||
        bind(fd, name->ai_addr, name->ai_addrlen) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

// SO_REUSEPORT would let a second aggregator of the same user take half of the devices in silence.
// A listener that does not share finds it.
static bool is_taken(const struct addrinfo *name)
{
    int fd = bind_socket(name, false);
    bool taken = fd < 0 || listen(fd, 1) != 0;
    if (fd >= 0) {
        close(fd);
    }
    return taken;
}

static void set_port(struct addrinfo *name, uint16_t port)
{
    if (name->ai_family == AF_INET6) {
        ((struct sockaddr_in6 *)name->ai_addr)->sin6_port = htons(port);
    } else {
        ((struct sockaddr_in *)name->ai_addr)->sin_port = htons(port);
    }
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage name = {0};
    socklen_t len = sizeof name;
    if (getsockname(fd, (struct sockaddr *)&name, &len) != 0) {
        return 0;
    }
    return ntohs(name.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&name)->sin6_port
                                            : ((struct sockaddr_in *)&name)->sin_port);
}

static bool open_tcp(struct addrinfo *name, int *fds, uint32_t count, uint16_t *bound)
{
    for (uint32_t i = 0; i < count; i++) {
        fds[i] = bind_socket(name, count > 1);
        if (fds[i] < 0 || listen(fds[i], BACKLOG) != 0) {
            return false;
        }
        *bound = port_of(fds[i]);
        set_port(name, *bound);
    }
    return true;
}

static void close_all(int *fds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
            fds[i] = -1;
        }
    }
}

enum tern_result tern_listen_open(const char *address, uint16_t port, int *fds, uint32_t count,
                                  uint16_t *bound, char why[256])
{
    for (uint32_t i = 0; i < count; i++) {
        fds[i] = -1;
    }
    *bound = 0;
    if (tern_listen_unix_path(address) != NULL) {
        enum tern_result result = open_unix(tern_listen_unix_path(address), fds, why);
        if (result != TERN_OK) {
            close_all(fds, 1);
        }
        return result;
    }
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *name = NULL;
    int error = getaddrinfo(address, service, &hints, &name);
    if (error != 0) {
        return refuse(TERN_ERR_CONFIG, address, port, gai_strerror(error), why);
    }
    bool opened = !(port != 0 && is_taken(name)) && open_tcp(name, fds, count, bound);
    int reason = errno;
    freeaddrinfo(name);
    if (!opened) {
        close_all(fds, count);
        return refuse(TERN_ERR_NETWORK, address, port, strerror(reason), why);
    }
    return TERN_OK;
}
