#include "cli/readiness.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

// Connects to a unix socket, or to a numeric address and port; -1 when nobody is there.
static int connect_to(const char *address, uint16_t port)
{
    const struct timeval patience = {.tv_sec = TERN_READINESS_PATIENCE_S};
    struct sockaddr_storage name = {0};
    struct sockaddr_un *local = (struct sockaddr_un *)&name;
    struct sockaddr_in *v4 = (struct sockaddr_in *)&name;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&name;
    socklen_t len = sizeof *v6;
    if (strncmp(address, "unix:", 5) == 0) {
        local->sun_family = AF_UNIX;
        snprintf(local->sun_path, sizeof local->sun_path, "%s", address + 5);
        len = sizeof *local;
    } else if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        len = sizeof *v4;
    } else if (inet_pton(AF_INET6, address, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
    } else {
        return -1;
    }
    const int fd = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(fd, (const struct sockaddr *)&name, len) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

// From the status on; "" where it does not answer. token: NULL = none. False: nobody listens there.
static bool ask(const struct tern_aggregator_settings *settings, const char *path,
                const char *token, char *answer, size_t size)
{
    char request[512];
    const int request_len =
        snprintf(request, sizeof request,
                 "GET %s HTTP/1.1\r\nHost: localhost\r\n%s%.128s%sConnection: close\r\n\r\n", path,
                 token != NULL ? "Authorization: Bearer " : "", token != NULL ? token : "",
                 token != NULL ? "\r\n" : "");
    const int fd = connect_to(settings->admin_address, (uint16_t)settings->admin_port);
    size_t len = 0;
    ssize_t got = 1;
    answer[0] = '\0';
    if (fd < 0) {
        return false;
    }
    if (send(fd, request, (size_t)request_len, MSG_NOSIGNAL) == request_len) {
        while (got > 0 && len < size - 1) {
            got = recv(fd, answer + len, size - 1 - len, 0);
            len += got > 0 ? (size_t)got : 0;
        }
    }
    answer[len] = '\0';
    close(fd);
    return true;
}

enum tern_readiness tern_readiness_ask(const struct tern_aggregator_settings *settings,
                                       char why[256])
{
    char answer[1024];
    const bool listens = ask(settings, "/readyz", NULL, answer, sizeof answer);
    const char *reason = strstr(answer, "\r\n\r\n");
    why[0] = '\0';
    if (strncmp(answer, "HTTP/1.1 503", 12) == 0 && reason != NULL) {
        snprintf(why, 256, "%.*s", (int)strcspn(reason + 4, "\n"), reason + 4);
        return TERN_READINESS_BAD;
    }
    if (strncmp(answer, "HTTP/1.1 200", 12) == 0) {
        return TERN_READINESS_GOOD;
    }
    return listens && answer[0] == '\0' ? TERN_READINESS_SILENT : TERN_READINESS_UNKNOWN;
}

cJSON *tern_readiness_waiting(const struct tern_aggregator_settings *settings, const char *token)
{
    static char answer[65536];
    const bool listens = ask(settings, "/api/v1/waiting", token, answer, sizeof answer);
    const char *body = strstr(answer, "\r\n\r\n");
    if (!listens || body == NULL || strncmp(answer, "HTTP/1.1 200", 12) != 0) {
        return NULL;
    }
    return cJSON_Parse(body + 4);
}

const char *tern_readiness_advice(const char *why)
{
    if (strncmp(why, "it follows", 10) == 0) {
        return "`tern-aggregator status` names all of them: restart the one that does not answer, "
               "or "
               "look at PostgreSQL and the way there; it goes on by itself";
    }
    return strncmp(why, "halted", 6) == 0
               ? "stop the service and restore a backup (docs/OPERATIONS.md, \"When it is broken\")"
               : "make room, or look at the disk (dmesg) and the log; it goes on by itself";
}
