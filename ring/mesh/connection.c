#include "mesh/connection.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_SIZE 16384u // a whole record

struct queue {
    uint8_t *bytes;
    size_t size;
    size_t start;
    size_t len;
    size_t tried; // length of a write that must be repeated
};

struct arriving {
    uint8_t head_bytes[TERN_RING_HEAD_SIZE];
    size_t head_have;
    struct tern_ring_head head; // valid once its bytes have arrived
    uint8_t *body;
    size_t body_have;
    bool is_whole;
};

struct tern_ring_connection {
    const struct tern_ring_connection_config *config;
    struct tern_ring_tls_session *tls;
    enum tern_ring_connection_state state;
    int fd;
    bool wants_write; // the handshake waits for writing
    bool has_spoken;
    uint64_t since_ms;
    uint64_t heard_ms;
    uint64_t moved_ms;
    struct queue out;
    struct arriving in;
    struct tern_bytes sent;
    struct tern_bytes received;
    char *terms; // NULL: not received
    char name[TERN_RING_NAME_SIZE];
    char why[TERN_RING_TLS_WHY_MAX];
};

struct tern_ring_connection *
tern_ring_connection_new(const struct tern_ring_connection_config *config, int fd, bool dials,
                         uint64_t now_ms)
{
    struct tern_ring_connection *connection = calloc(1, sizeof *connection);
    struct tern_ring_tls_session *tls = tern_ring_tls_open(config->tls, fd, dials);
    if (connection == NULL || tls == NULL) {
        tern_ring_tls_close(tls);
        free(connection);
        close(fd);
        return NULL;
    }
    *connection = (struct tern_ring_connection){
        .config = config,
        .tls = tls,
        .state = dials ? TERN_RING_CONNECTING : TERN_RING_SHAKING_HANDS,
        .fd = fd,
        .since_ms = now_ms,
        .heard_ms = now_ms,
        .moved_ms = now_ms,
    };
    return connection;
}

void tern_ring_connection_free(struct tern_ring_connection *connection)
{
    if (connection != NULL) {
        tern_ring_tls_close(connection->tls);
        close(connection->fd);
        free(connection->out.bytes);
        free(connection->in.body);
        free(connection->terms);
        free(connection);
    }
}

enum tern_ring_connection_state
tern_ring_connection_state(const struct tern_ring_connection *connection)
{
    return connection->state;
}

const char *tern_ring_connection_why(const struct tern_ring_connection *connection)
{
    return connection->why;
}

void tern_ring_connection_lose(struct tern_ring_connection *connection, const char *why)
{
    if (connection->state != TERN_RING_LOST) {
        connection->state = TERN_RING_LOST;
        snprintf(connection->why, sizeof connection->why, "%s", why);
    }
}

const char *tern_ring_connection_name(const struct tern_ring_connection *connection)
{
    return connection->name;
}

const char *tern_ring_connection_terms(const struct tern_ring_connection *connection)
{
    return connection->terms != NULL ? connection->terms : "";
}

bool tern_ring_connection_has_spoken(const struct tern_ring_connection *connection)
{
    return connection->has_spoken;
}

uint64_t tern_ring_connection_since(const struct tern_ring_connection *connection)
{
    return connection->since_ms;
}

uint64_t tern_ring_connection_heard(const struct tern_ring_connection *connection)
{
    return connection->heard_ms;
}

uint64_t tern_ring_connection_moved(const struct tern_ring_connection *connection)
{
    return connection->moved_ms;
}

int tern_ring_connection_wants(const struct tern_ring_connection *connection, short *events)
{
    *events = 0;
    switch (connection->state) {
    case TERN_RING_CONNECTING:
        *events = POLLOUT;
        break;
    case TERN_RING_SHAKING_HANDS:
        *events = connection->wants_write ? POLLOUT : POLLIN;
        break;
    case TERN_RING_OPEN:
        *events = (short)((connection->in.is_whole ? 0 : POLLIN) |
                          (connection->out.len > 0 ? POLLOUT : 0));
        break;
    case TERN_RING_LOST:
        break;
    }
    // Without events poll() would report a closed socket again and again.
    return *events != 0 ? connection->fd : -1;
}

bool tern_ring_connection_has_more(const struct tern_ring_connection *connection)
{
    return connection->state == TERN_RING_OPEN && !connection->in.is_whole &&
           tern_ring_tls_has_more(connection->tls);
}

// --- Opening

static void finish_connecting(struct tern_ring_connection *connection)
{
    int error = 0;
    socklen_t len = sizeof error;
    struct pollfd ready = {.fd = connection->fd, .events = POLLOUT};
    if (poll(&ready, 1, 0) <= 0) {
        return;
    }
    if (getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 || error != 0) {
        tern_ring_connection_lose(connection, strerror(error != 0 ? error : errno));
        return;
    }
    connection->state = TERN_RING_SHAKING_HANDS;
}

static void shake_hands(struct tern_ring_connection *connection)
{
    char why[TERN_RING_TLS_WHY_MAX];
    switch (tern_ring_tls_handshake(connection->tls)) {
    case TERN_RING_IO_DONE:
        tern_ring_tls_peer_name(connection->tls, connection->name);
        connection->state = TERN_RING_OPEN;
        break;
    case TERN_RING_IO_WANT_READ:
        connection->wants_write = false;
        break;
    case TERN_RING_IO_WANT_WRITE:
        connection->wants_write = true;
        break;
    case TERN_RING_IO_END:
    case TERN_RING_IO_FAILED:
        tern_ring_tls_explain(connection->tls, why);
        tern_ring_connection_lose(connection, why);
        break;
    }
}

// --- Sending

static bool make_room(struct queue *queue, size_t len)
{
    if (queue->start > 0) {
        memmove(queue->bytes, queue->bytes + queue->start, queue->len);
        queue->start = 0;
    }
    if (queue->size - queue->len >= len) {
        return true;
    }
    uint8_t *bytes = realloc(queue->bytes, queue->len + len);
    if (bytes == NULL) {
        return false;
    }
    queue->bytes = bytes;
    queue->size = queue->len + len;
    return true;
}

static void append(struct queue *queue, const void *src, size_t len)
{
    if (len > 0) {
        memcpy(queue->bytes + queue->start + queue->len, src, len);
        queue->len += len;
    }
}

bool tern_ring_connection_send(struct tern_ring_connection *connection,
                               enum tern_ring_frame_type type, uint32_t epoch, const void *head,
                               size_t head_len, const void *body, size_t body_len)
{
    const size_t len = TERN_RING_HEAD_SIZE + head_len + body_len;
    uint8_t frame[TERN_RING_HEAD_SIZE];
    if (connection->state != TERN_RING_OPEN) {
        return false;
    }
    if (connection->out.len + len > connection->config->most_queued ||
        !make_room(&connection->out, len)) {
        tern_ring_connection_lose(connection, "it takes nothing of what is sent to it");
        return false;
    }
    tern_ring_head_write(&(struct tern_ring_head){type, epoch, (uint32_t)(head_len + body_len)},
                         frame);
    append(&connection->out, frame, sizeof frame);
    append(&connection->out, head, head_len);
    append(&connection->out, body, body_len);
    connection->sent.http += len;
    connection->sent.payload += body_len;
    return true;
}

bool tern_ring_connection_is_sent(const struct tern_ring_connection *connection)
{
    return connection->out.len == 0;
}

static void fail(struct tern_ring_connection *connection, enum tern_ring_io io)
{
    char why[TERN_RING_TLS_WHY_MAX] = "the connection was cut";
    if (io == TERN_RING_IO_END) {
        snprintf(why, sizeof why, "it has closed the connection");
    } else if (!connection->has_spoken) {
        tern_ring_tls_explain(connection->tls, why);
    }
    tern_ring_connection_lose(connection, why);
}

static void write_queued(struct tern_ring_connection *connection, uint64_t now_ms)
{
    struct queue *queue = &connection->out;
    while (queue->len > 0) {
        const size_t len = queue->tried > 0 ? queue->tried : queue->len;
        size_t written = 0;
        const enum tern_ring_io io =
            tern_ring_tls_write(connection->tls, queue->bytes + queue->start, len, &written);
        if (io != TERN_RING_IO_DONE) {
            queue->tried = len;
            if (io == TERN_RING_IO_END || io == TERN_RING_IO_FAILED) {
                fail(connection, io);
            }
            return;
        }
        queue->tried = 0;
        queue->start += written;
        queue->len -= written;
        connection->moved_ms = now_ms;
    }
    queue->start = 0;
}

// --- Receiving

static bool begin_body(struct tern_ring_connection *connection)
{
    struct arriving *in = &connection->in;
    const char *why = "";
    if (tern_ring_head_read(in->head_bytes, &connection->config->limits, &in->head, &why) !=
        TERN_OK) {
        char sentence[TERN_RING_TLS_WHY_MAX];
        snprintf(sentence, sizeof sentence, "it sent %s", why);
        tern_ring_connection_lose(connection, sentence);
        return false;
    }
    free(in->body);
    in->body_have = 0;
    in->body = malloc((size_t)in->head.len + 1);
    if (in->body == NULL) {
        tern_ring_connection_lose(connection, "memory is short for what it sent");
        return false;
    }
    return true;
}

static void count_received(struct tern_ring_connection *connection)
{
    const struct tern_ring_head *head = &connection->in.head;
    connection->received.http += TERN_RING_HEAD_SIZE + head->len;
    if (head->type == TERN_RING_BLOCK) {
        connection->received.payload += head->len - TERN_RING_BLOCK_HEAD_SIZE;
    } else if (head->type == TERN_RING_MODEL) {
        connection->received.payload += head->len;
    }
}

// Stores received terms apart from frames.
static bool keep_terms(struct tern_ring_connection *connection)
{
    struct arriving *in = &connection->in;
    if (connection->terms != NULL) {
        tern_ring_connection_lose(connection, "it said twice how it is set");
        return false;
    }
    in->body[in->head.len] = '\0';
    connection->terms = (char *)in->body;
    memset(in, 0, sizeof *in);
    return true;
}

// Returns where the next bytes go. *room: how many.
static uint8_t *place(struct arriving *in, size_t *room)
{
    if (in->head_have < TERN_RING_HEAD_SIZE) {
        *room = TERN_RING_HEAD_SIZE - in->head_have;
        return in->head_bytes + in->head_have;
    }
    *room = in->head.len - in->body_have;
    return in->body + in->body_have;
}

static bool take_bytes(struct tern_ring_connection *connection, size_t len)
{
    struct arriving *in = &connection->in;
    if (in->head_have < TERN_RING_HEAD_SIZE) {
        in->head_have += len;
        if (in->head_have < TERN_RING_HEAD_SIZE) {
            return true;
        }
        if (!begin_body(connection)) {
            return false;
        }
    } else {
        in->body_have += len;
    }
    in->is_whole = in->body_have == in->head.len;
    if (in->is_whole) {
        connection->has_spoken = true;
        count_received(connection);
        return in->head.type != TERN_RING_TERMS || keep_terms(connection);
    }
    return true;
}

static void read_frame(struct tern_ring_connection *connection, uint64_t now_ms)
{
    while (!connection->in.is_whole) {
        size_t room = 0;
        size_t len = 0;
        uint8_t *dst = place(&connection->in, &room);
        const enum tern_ring_io io =
            tern_ring_tls_read(connection->tls, dst, room < READ_SIZE ? room : READ_SIZE, &len);
        if (io != TERN_RING_IO_DONE) {
            if (io == TERN_RING_IO_END || io == TERN_RING_IO_FAILED) {
                fail(connection, io);
            }
            return;
        }
        connection->heard_ms = now_ms;
        if (!take_bytes(connection, len)) {
            return;
        }
    }
}

const struct tern_ring_head *
tern_ring_connection_frame(const struct tern_ring_connection *connection, const uint8_t **body)
{
    if (!connection->in.is_whole) {
        return NULL;
    }
    *body = connection->in.body;
    return &connection->in.head;
}

void tern_ring_connection_take(struct tern_ring_connection *connection)
{
    struct arriving *in = &connection->in;
    free(in->body);
    memset(in, 0, sizeof *in);
}

void tern_ring_connection_go_on(struct tern_ring_connection *connection, uint64_t now_ms)
{
    if (connection->state == TERN_RING_CONNECTING) {
        finish_connecting(connection);
    }
    if (connection->state == TERN_RING_SHAKING_HANDS) {
        shake_hands(connection);
        connection->heard_ms = now_ms;
    }
    if (connection->state == TERN_RING_OPEN) {
        write_queued(connection, now_ms);
    }
    if (connection->state == TERN_RING_OPEN) {
        read_frame(connection, now_ms);
    }
}

void tern_ring_connection_end(struct tern_ring_connection *connection)
{
    if (connection->state == TERN_RING_OPEN) {
        tern_ring_tls_close_notify(connection->tls);
        (void)shutdown(connection->fd, SHUT_WR);
    }
}

// --- Metering

static uint32_t header_bytes(int fd, const struct tcp_info *info)
{
    struct sockaddr_storage name;
    socklen_t len = sizeof name;
    const bool ipv6 =
        getsockname(fd, (struct sockaddr *)&name, &len) == 0 && name.ss_family == AF_INET6;
    const uint32_t timestamps = (info->tcpi_options & TCPI_OPT_TIMESTAMPS) != 0 ? 12 : 0;
    return (ipv6 ? 40u : 20u) + 20u + timestamps;
}

void tern_ring_connection_bytes(const struct tern_ring_connection *connection,
                                struct tern_bytes *sent, struct tern_bytes *received)
{
    static const struct tern_socket_counters none;
    struct tern_socket_counters now = {.bytes_sent = tern_ring_tls_sent(connection->tls),
                                       .bytes_received = tern_ring_tls_received(connection->tls)};
    struct tcp_info info;
    socklen_t len = sizeof info;
    memset(&info, 0, sizeof info);
    if (getsockopt(connection->fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0) {
        now.bytes_sent += info.tcpi_bytes_retrans;
        now.bytes_retransmitted = info.tcpi_bytes_retrans;
        now.segments_sent = info.tcpi_segs_out;
        now.segments_received = info.tcpi_segs_in;
        now.header_bytes = header_bytes(connection->fd, &info);
    }
    tern_socket_delta(&none, &now, sent, received);
    sent->payload = connection->sent.payload;
    sent->http = connection->sent.http;
    received->payload = connection->received.payload;
    received->http = connection->received.http;
}
