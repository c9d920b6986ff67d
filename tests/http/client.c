#define _GNU_SOURCE // memmem, strcasestr
#include "client.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static bool connect_to(struct client *client, const struct sockaddr *name, socklen_t len)
{
    struct timeval limit = {.tv_sec = 30};
    memset(client, 0, sizeof *client);
    client->fd = socket(name->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->fd < 0 || connect(client->fd, name, len) != 0) {
        client_close(client);
        return false;
    }
    setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return true;
}

bool client_open(struct client *client, uint16_t port, const struct tls_client_settings *settings)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port)};
    int on = 1;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!connect_to(client, (struct sockaddr *)&name, sizeof name)) {
        return false;
    }
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (settings == NULL) {
        return true;
    }
    client->tls = tls_client_open(client->fd, settings);
    if (client->tls == NULL) {
        client_close(client);
    }
    return client->tls != NULL;
}

bool client_open_unix(struct client *client, const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    return connect_to(client, (struct sockaddr *)&name, sizeof name);
}

void client_close(struct client *client)
{
    if (client->tls != NULL) {
        tls_client_close(client->tls);
        client->tls = NULL;
    }
    if (client->fd >= 0) {
        close(client->fd);
        client->fd = -1;
    }
}

bool client_send(struct client *client, const void *data, size_t len)
{
    const uint8_t *at = data;
    while (len > 0) {
        ssize_t sent = client->tls != NULL
                           ? tls_client_send(client->tls, at, len)
                           : TEMP_FAILURE_RETRY(send(client->fd, at, len, MSG_NOSIGNAL));
        if (sent <= 0) {
            return false;
        }
        at += sent;
        len -= (size_t)sent;
    }
    return true;
}

bool client_send_text(struct client *client, const char *text)
{
    return client_send(client, text, strlen(text));
}

static bool receive_more(struct client *client)
{
    uint8_t *at = client->buffer + client->buffered;
    size_t room = sizeof client->buffer - client->buffered;
    ssize_t len = client->tls != NULL ? tls_client_receive(client->tls, at, room)
                                      : TEMP_FAILURE_RETRY(recv(client->fd, at, room, 0));
    if (len <= 0) {
        return false;
    }
    client->buffered += (size_t)len;
    return true;
}

static void take(struct client *client, void *dst, size_t len)
{
    memcpy(dst, client->buffer, len);
    client->buffered -= len;
    memmove(client->buffer, client->buffer + len, client->buffered);
}

static bool receive_head(struct client *client, struct client_reply *reply)
{
    const uint8_t *end = NULL;
    while ((end = memmem(client->buffer, client->buffered, "\r\n\r\n", 4)) == NULL) {
        if (!receive_more(client)) {
            return false;
        }
    }
    size_t len = (size_t)(end - client->buffer) + 4;
    if (len >= sizeof reply->head) {
        return false;
    }
    take(client, reply->head, len);
    reply->head[len] = '\0';
    return true;
}

static bool receive_body(struct client *client, struct client_reply *reply)
{
    const char *field = strcasestr(reply->head, "\r\nContent-Length: ");
    reply->body_len = field != NULL ? strtoul(field + 18, NULL, 10) : 0;
    reply->body = malloc(reply->body_len + 1);
    size_t have = 0;
    while (have < reply->body_len) {
        if (client->buffered == 0 && !receive_more(client)) {
            return false;
        }
        size_t part = reply->body_len - have;
        part = part < client->buffered ? part : client->buffered;
        take(client, reply->body + have, part);
        have += part;
    }
    reply->body[have] = '\0';
    return true;
}

struct client_reply client_receive(struct client *client, bool head_only)
{
    struct client_reply reply = {0};
    if (!receive_head(client, &reply)) {
        return reply;
    }
    int status = atoi(reply.head + strlen("HTTP/1.1 "));
    reply.closes = strcasestr(reply.head, "\r\nConnection: close") != NULL;
    if (head_only || status < 200 || receive_body(client, &reply)) {
        reply.status = status;
    }
    return reply;
}

void client_reply_free(struct client_reply *reply)
{
    free(reply->body);
    reply->body = NULL;
}

int client_ask(struct client *client, const char *text, const char *expect)
{
    if (!client_send_text(client, text)) {
        return 0;
    }
    struct client_reply reply = client_receive(client, false);
    bool matches =
        expect == NULL || (reply.body != NULL && strcmp((char *)reply.body, expect) == 0);
    if (!matches) {
        fprintf(stderr, "reply %d: %s, not %s\n", reply.status, (char *)reply.body, expect);
    }
    client_reply_free(&reply);
    return matches ? reply.status : -1;
}

bool client_sees_end(struct client *client, unsigned limit_ms)
{
    struct pollfd poll_fd = {.fd = client->fd, .events = POLLIN};
    while (poll(&poll_fd, 1, (int)limit_ms) > 0) {
        uint8_t rest[4096];
        ssize_t len = TEMP_FAILURE_RETRY(recv(client->fd, rest, sizeof rest, 0));
        if (len <= 0) {
            return len == 0 || errno == ECONNRESET;
        }
    }
    return false;
}
