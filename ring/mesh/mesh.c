#define _GNU_SOURCE // accept4()

#include "mesh/mesh.h"

#include "hosted/log.h"
#include "hosted/system.h"
#include <errno.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_SIZE 16384u // bytes: a TLS record

struct queue {
    uint8_t *bytes;
    size_t size;
    size_t start;
    size_t len;
    size_t retry_len; // TLS must repeat a blocked write with this length; 0 = none
};

struct incoming_frame {
    uint8_t head_bytes[TERN_RING_HEAD_SIZE];
    size_t head_len;
    struct tern_ring_head head; // valid when head_len is TERN_RING_HEAD_SIZE
    uint8_t *body;
    size_t body_len;
    bool is_complete;
};

enum connection_state {
    CONNECTING,
    IN_HANDSHAKE,
    OPEN,
    LOST, // `why` has the reason
};

struct connection_config {
    struct tern_ring_tls *tls;
    struct tern_ring_limits limits;
    size_t most_queued; // bytes that may wait to be sent
};

// Frames over TLS over a non-blocking socket, in both directions at once. A connection reads no further while a received
// frame is not discarded, so its memory is bounded.
struct connection {
    const struct connection_config *config;
    struct tern_ring_tls_session *tls;
    enum connection_state state;
    int fd;
    bool wants_write; // the handshake waits for writing
    bool has_received_frame;
    uint64_t since_ms;
    uint64_t heard_ms;
    uint64_t moved_ms;
    struct queue out;
    struct incoming_frame in;
    struct tern_bytes sent;
    struct tern_bytes received;
    char *terms; // NULL: not received
    char name[TERN_RING_NAME_SIZE];
    char why[TERN_RING_TLS_WHY_MAX];
};

#define PENDING_MAX 16u    // accepted connections in their handshake
#define DIAL_MS 300u       // between two attempts to reach a peer
#define SPARE_QUEUE 65536u // bytes for small frames
#define REFUSED_MS 30000u  // minimum time between two equal lines of the log

struct slot {
    struct connection *connection;
    uint32_t serial;
    uint64_t dial_at_ms;
    struct tern_bytes sent; // on this peer's closed connections
    struct tern_bytes received;
    char why[TERN_RING_MESH_WHY_MAX];
};

struct tern_ring_mesh {
    const struct tern_ring_peers *peers;
    uint32_t self;
    uint64_t handshake_ms;
    const char *terms;
    struct connection_config connections;
    int listener;
    bool ends; // shutting down: lost connections are not logged
    uint32_t last_serial;
    char refused[TERN_RING_NAME_SIZE + TERN_RING_TLS_WHY_MAX +
                 2]; // the last refused peer and reason
    uint64_t refused_ms;
    struct slot slots[TERN_RING_MEMBERS_MAX];
    struct connection *pending[PENDING_MAX];
};

// --- Sockets

// Resolves a host name, which may block; the caller frees *found. Returns getaddrinfo()'s error.
static int look_up(const char *address, uint16_t port, int flags, struct addrinfo **found)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    return getaddrinfo(address, service, &hints, found);
}

static enum tern_result refuse_listener(const char *address, uint16_t port, const char *reason,
                                        char why[256])
{
    snprintf(why, 256, "cannot listen on %.120s port %u: %.80s", address, port, reason);
    return TERN_ERR_CONFIG;
}

static enum tern_result open_listener(const char *address, uint16_t port, int *fd, char why[256])
{
    struct addrinfo *found = NULL;
    const int one = 1;
    const int error = look_up(address, port, AI_PASSIVE, &found);
    if (error != 0) {
        return refuse_listener(address, port, gai_strerror(error), why);
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
        return refuse_listener(address, port, strerror(reason), why);
    }
    *fd = listener;
    return TERN_OK;
}

// Disables Nagle's algorithm, because a peer cannot start a step before the previous step's block arrives.
static void set_no_delay(int fd)
{
    const int one = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static int open_socket(const char *address, uint16_t port)
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

static int accept_socket(int listener)
{
    const int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        set_no_delay(fd);
    }
    return fd;
}

// --- One connection

static struct connection *new_connection(const struct connection_config *config, int fd, bool dials,
                                         uint64_t now_ms)
{
    struct connection *connection = calloc(1, sizeof *connection);
    struct tern_ring_tls_session *tls = tern_ring_tls_open(config->tls, fd, dials);
    if (connection == NULL || tls == NULL) {
        tern_ring_tls_close(tls);
        free(connection);
        close(fd);
        return NULL;
    }
    *connection = (struct connection){
        .config = config,
        .tls = tls,
        .state = dials ? CONNECTING : IN_HANDSHAKE,
        .fd = fd,
        .since_ms = now_ms,
        .heard_ms = now_ms,
        .moved_ms = now_ms,
    };
    return connection;
}

static void free_connection(struct connection *connection)
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

static void lose(struct connection *connection, const char *why)
{
    if (connection->state != LOST) {
        connection->state = LOST;
        snprintf(connection->why, sizeof connection->why, "%s", why);
    }
}

static int poll_events(const struct connection *connection, short *events)
{
    *events = 0;
    switch (connection->state) {
    case CONNECTING:
        *events = POLLOUT;
        break;
    case IN_HANDSHAKE:
        *events = connection->wants_write ? POLLOUT : POLLIN;
        break;
    case OPEN:
        *events = (short)((connection->in.is_complete ? 0 : POLLIN) |
                          (connection->out.len > 0 ? POLLOUT : 0));
        break;
    case LOST:
        break;
    }
    // poll() would report a closed socket without end if it waited for no events.
    return *events != 0 ? connection->fd : -1;
}

static bool has_buffered_input(const struct connection *connection)
{
    return connection->state == OPEN && !connection->in.is_complete &&
           tern_ring_tls_has_more(connection->tls);
}

// --- Opening

static void finish_connecting(struct connection *connection)
{
    int error = 0;
    socklen_t len = sizeof error;
    struct pollfd ready = {.fd = connection->fd, .events = POLLOUT};
    if (poll(&ready, 1, 0) <= 0) {
        return;
    }
    if (getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 || error != 0) {
        lose(connection, strerror(error != 0 ? error : errno));
        return;
    }
    connection->state = IN_HANDSHAKE;
}

static void do_handshake(struct connection *connection)
{
    char why[TERN_RING_TLS_WHY_MAX];
    switch (tern_ring_tls_handshake(connection->tls)) {
    case TERN_RING_IO_DONE:
        tern_ring_tls_peer_name(connection->tls, connection->name);
        connection->state = OPEN;
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
        lose(connection, why);
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

static bool queue_frame(struct connection *connection, enum tern_ring_frame_type type,
                        uint32_t epoch, const void *head, size_t head_len, const void *body,
                        size_t body_len)
{
    const size_t len = TERN_RING_HEAD_SIZE + head_len + body_len;
    uint8_t frame[TERN_RING_HEAD_SIZE];
    if (connection->state != OPEN) {
        return false;
    }
    if (connection->out.len + len > connection->config->most_queued ||
        !make_room(&connection->out, len)) {
        lose(connection, "the peer does not read: too many bytes wait to be sent");
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

static void lose_after_io(struct connection *connection, enum tern_ring_io io)
{
    char why[TERN_RING_TLS_WHY_MAX] = "the connection was cut";
    if (io == TERN_RING_IO_END) {
        snprintf(why, sizeof why, "the peer closed the connection");
    } else if (!connection->has_received_frame) {
        tern_ring_tls_explain(connection->tls, why);
    }
    lose(connection, why);
}

static void write_queued(struct connection *connection, uint64_t now_ms)
{
    struct queue *queue = &connection->out;
    while (queue->len > 0) {
        const size_t len = queue->retry_len > 0 ? queue->retry_len : queue->len;
        size_t written = 0;
        const enum tern_ring_io io =
            tern_ring_tls_write(connection->tls, queue->bytes + queue->start, len, &written);
        if (io != TERN_RING_IO_DONE) {
            queue->retry_len = len;
            if (io == TERN_RING_IO_END || io == TERN_RING_IO_FAILED) {
                lose_after_io(connection, io);
            }
            return;
        }
        queue->retry_len = 0;
        queue->start += written;
        queue->len -= written;
        connection->moved_ms = now_ms;
    }
    queue->start = 0;
}

// --- Receiving

static bool read_head(struct connection *connection)
{
    struct incoming_frame *in = &connection->in;
    const char *why = "";
    if (tern_ring_head_read(in->head_bytes, &connection->config->limits, &in->head, &why) !=
        TERN_OK) {
        char sentence[TERN_RING_TLS_WHY_MAX];
        snprintf(sentence, sizeof sentence, "the peer sent %s", why);
        lose(connection, sentence);
        return false;
    }
    free(in->body);
    in->body_len = 0;
    in->body = malloc((size_t)in->head.len + 1);
    if (in->body == NULL) {
        lose(connection, "out of memory for a frame that it sent");
        return false;
    }
    return true;
}

static void count_received(struct connection *connection)
{
    const struct tern_ring_head *head = &connection->in.head;
    connection->received.http += TERN_RING_HEAD_SIZE + head->len;
    if (head->type == TERN_RING_BLOCK) {
        connection->received.payload += head->len - TERN_RING_BLOCK_HEAD_SIZE;
    } else if (head->type == TERN_RING_MODEL) {
        connection->received.payload += head->len;
    }
}

// Moves a received TERN_RING_TERMS frame to connection->terms.
static bool store_terms(struct connection *connection)
{
    struct incoming_frame *in = &connection->in;
    if (connection->terms != NULL) {
        lose(connection, "the peer sent its settings twice");
        return false;
    }
    in->body[in->head.len] = '\0';
    connection->terms = (char *)in->body;
    memset(in, 0, sizeof *in);
    return true;
}

// Returns the destination of the next bytes. *room: the number of missing bytes.
static uint8_t *next_bytes(struct incoming_frame *in, size_t *room)
{
    if (in->head_len < TERN_RING_HEAD_SIZE) {
        *room = TERN_RING_HEAD_SIZE - in->head_len;
        return in->head_bytes + in->head_len;
    }
    *room = in->head.len - in->body_len;
    return in->body + in->body_len;
}

static bool count_bytes(struct connection *connection, size_t len)
{
    struct incoming_frame *in = &connection->in;
    if (in->head_len < TERN_RING_HEAD_SIZE) {
        in->head_len += len;
        if (in->head_len < TERN_RING_HEAD_SIZE) {
            return true;
        }
        if (!read_head(connection)) {
            return false;
        }
    } else {
        in->body_len += len;
    }
    in->is_complete = in->body_len == in->head.len;
    if (in->is_complete) {
        connection->has_received_frame = true;
        count_received(connection);
        return in->head.type != TERN_RING_TERMS || store_terms(connection);
    }
    return true;
}

static void read_frame(struct connection *connection, uint64_t now_ms)
{
    while (!connection->in.is_complete) {
        size_t room = 0;
        size_t len = 0;
        uint8_t *dst = next_bytes(&connection->in, &room);
        const enum tern_ring_io io =
            tern_ring_tls_read(connection->tls, dst, room < READ_SIZE ? room : READ_SIZE, &len);
        if (io != TERN_RING_IO_DONE) {
            if (io == TERN_RING_IO_END || io == TERN_RING_IO_FAILED) {
                lose_after_io(connection, io);
            }
            return;
        }
        connection->heard_ms = now_ms;
        if (!count_bytes(connection, len)) {
            return;
        }
    }
}

static const struct tern_ring_head *received_frame(const struct connection *connection,
                                                   const uint8_t **body)
{
    if (!connection->in.is_complete) {
        return NULL;
    }
    *body = connection->in.body;
    return &connection->in.head;
}

static void discard_frame(struct connection *connection)
{
    struct incoming_frame *in = &connection->in;
    free(in->body);
    memset(in, 0, sizeof *in);
}

static void advance(struct connection *connection, uint64_t now_ms)
{
    if (connection->state == CONNECTING) {
        finish_connecting(connection);
    }
    if (connection->state == IN_HANDSHAKE) {
        do_handshake(connection);
        connection->heard_ms = now_ms;
    }
    if (connection->state == OPEN) {
        write_queued(connection, now_ms);
    }
    if (connection->state == OPEN) {
        read_frame(connection, now_ms);
    }
}

static void announce_end(struct connection *connection)
{
    if (connection->state == OPEN) {
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

static void measure_bytes(const struct connection *connection, struct tern_bytes *sent,
                          struct tern_bytes *received)
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

// --- The mesh

enum tern_result tern_ring_mesh_open(const struct tern_ring_mesh_config *config,
                                     struct tern_ring_mesh **out, char why[TERN_RING_MESH_WHY_MAX])
{
    const struct tern_ring_peer *own = &config->peers->peers[config->self];
    struct tern_ring_mesh *mesh = calloc(1, sizeof *mesh);
    if (mesh == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    const size_t block = config->limits.block;
    const size_t model = config->limits.model;
    *mesh = (struct tern_ring_mesh){
        .peers = config->peers,
        .self = config->self,
        .handshake_ms = config->handshake_ms,
        .terms = config->terms,
        .connections = {.tls = config->tls,
                        .limits = config->limits,
                        // An abandoned exchange's bytes may still wait when the next one starts.
                        .most_queued = 2 * (block + model) + SPARE_QUEUE},
    };
    const char *address = config->listen[0] != '\0' ? config->listen : own->address;
    const enum tern_result result = open_listener(address, own->port, &mesh->listener, why);
    if (result != TERN_OK) {
        free(mesh);
        return result;
    }
    *out = mesh;
    return TERN_OK;
}

void tern_ring_mesh_close(struct tern_ring_mesh *mesh)
{
    if (mesh == NULL) {
        return;
    }
    for (uint32_t i = 0; i < mesh->peers->count; i++) {
        free_connection(mesh->slots[i].connection);
    }
    for (uint32_t i = 0; i < PENDING_MAX; i++) {
        free_connection(mesh->pending[i]);
    }
    close(mesh->listener);
    free(mesh);
}

static bool is_in_state(const struct connection *connection, enum connection_state state)
{
    return connection != NULL && connection->state == state;
}

static struct connection *open_connection(const struct tern_ring_mesh *mesh, uint32_t peer)
{
    struct connection *connection = mesh->slots[peer].connection;
    return is_in_state(connection, OPEN) ? connection : NULL;
}

static void log_peer(const struct tern_ring_mesh *mesh, enum tern_log_level level,
                     const char *event, uint32_t peer, const char *why)
{
    char text[TERN_RING_PEER_TEXT_MAX];
    const char *who = tern_ring_peer_text(&mesh->peers->peers[peer], text);
    if (why[0] == '\0') {
        tern_log(level, event, "peer=%s", TERN_LOG_TEXT(who));
    } else {
        tern_log(level, event, "peer=%s why=%s", TERN_LOG_TEXT(who), TERN_LOG_TEXT(why));
    }
}

// --- Lost connections

// Closes a peer's connection, and adds its bytes to the peer's totals.
static void free_slot(struct slot *slot)
{
    struct tern_bytes sent;
    struct tern_bytes received;
    measure_bytes(slot->connection, &sent, &received);
    tern_bytes_add(&slot->sent, &sent);
    tern_bytes_add(&slot->received, &received);
    free_connection(slot->connection);
    slot->connection = NULL;
    slot->serial = 0;
}

static void clear_lost(struct tern_ring_mesh *mesh, uint32_t peer, uint64_t now_ms)
{
    struct slot *slot = &mesh->slots[peer];
    const char *why = slot->connection->why;
    const bool was_open = slot->serial != 0 && slot->connection->has_received_frame;
    // An absent peer is dialled every DIAL_MS; log it once.
    if (!mesh->ends && (was_open || strcmp(slot->why, why) != 0)) {
        log_peer(mesh, was_open ? TERN_LOG_WARN : TERN_LOG_INFO,
                 was_open ? "peer-lost" : "peer-not-reached", peer, why);
    }
    snprintf(slot->why, sizeof slot->why, "%s", why);
    free_slot(slot);
    slot->dial_at_ms = now_ms + DIAL_MS;
}

void tern_ring_mesh_drop(struct tern_ring_mesh *mesh, uint32_t peer, const char *why)
{
    struct connection *connection = mesh->slots[peer].connection;
    if (connection != NULL) {
        lose(connection, why);
        clear_lost(mesh, peer, tern_monotonic_ms());
    }
}

// --- Opening

static void set_opened(struct tern_ring_mesh *mesh, uint32_t peer)
{
    mesh->slots[peer].serial = ++mesh->last_serial;
    log_peer(mesh, TERN_LOG_DEBUG, "peer-connected", peer, "");
    (void)queue_frame(mesh->slots[peer].connection, TERN_RING_TERMS, 0, mesh->terms,
                      strlen(mesh->terms), NULL, 0);
}

static void dial(struct tern_ring_mesh *mesh, uint32_t peer, uint64_t now_ms)
{
    const struct tern_ring_peer *who = &mesh->peers->peers[peer];
    struct slot *slot = &mesh->slots[peer];
    const int fd = open_socket(who->address, who->port);
    slot->dial_at_ms = now_ms + DIAL_MS;
    if (fd >= 0) {
        slot->connection = new_connection(&mesh->connections, fd, true, now_ms);
    }
}

static void accept_pending(struct tern_ring_mesh *mesh, uint64_t now_ms)
{
    for (uint32_t i = 0; i < PENDING_MAX; i++) {
        if (mesh->pending[i] != NULL) {
            continue;
        }
        const int fd = accept_socket(mesh->listener);
        if (fd < 0) {
            return;
        }
        mesh->pending[i] = new_connection(&mesh->connections, fd, false, now_ms);
    }
}

// Logs a refused connection. Repeats the same line at most every REFUSED_MS, because a refused peer keeps dialling.
static void log_refusal(struct tern_ring_mesh *mesh, const char *name, const char *why)
{
    const uint64_t now_ms = tern_monotonic_ms();
    char refused[sizeof mesh->refused];
    snprintf(refused, sizeof refused, "%s: %s", name, why);
    if (strcmp(refused, mesh->refused) == 0 && now_ms - mesh->refused_ms < REFUSED_MS) {
        return;
    }
    mesh->refused_ms = now_ms;
    memcpy(mesh->refused, refused, sizeof refused);
    tern_log(TERN_LOG_WARN, "peer-refused", "name=%s why=%s", TERN_LOG_TEXT(name),
             TERN_LOG_TEXT(why));
}

// Assigns an accepted connection to the peer that its certificate names. If the peer already has a connection, the new one
// replaces it: the peer has lost the old one.
static void assign_pending(struct tern_ring_mesh *mesh, uint32_t index, uint64_t now_ms)
{
    struct connection *connection = mesh->pending[index];
    const char *name = connection->name;
    const uint32_t peer = tern_ring_find_peer(mesh->peers, name);
    mesh->pending[index] = NULL;
    if (peer <= mesh->self || peer >= mesh->peers->count) {
        log_refusal(mesh, name,
                    peer < mesh->peers->count
                        ? "the peer dialled this peer instead of waiting to be "
                          "dialled; use the same ring.peers on both"
                        : "the peer's certificate names no peer in ring.peers");
        free_connection(connection);
        return;
    }
    if (mesh->slots[peer].connection != NULL) {
        lose(mesh->slots[peer].connection, "the peer has connected again");
        clear_lost(mesh, peer, now_ms);
    }
    mesh->slots[peer].connection = connection;
    set_opened(mesh, peer);
}

static void check_dialled(struct tern_ring_mesh *mesh, uint32_t peer)
{
    struct connection *connection = mesh->slots[peer].connection;
    const char *name = connection->name;
    char why[TERN_RING_MESH_WHY_MAX];
    if (strcmp(name, mesh->peers->peers[peer].name) == 0) {
        set_opened(mesh, peer);
        return;
    }
    snprintf(why, sizeof why, "the peer's certificate names %s",
             name[0] != '\0' ? name : "no peer");
    lose(connection, why);
}

// --- Traffic

static bool is_overdue(const struct tern_ring_mesh *mesh, const struct connection *connection,
                       uint64_t now_ms)
{
    return !is_in_state(connection, OPEN) && now_ms - connection->since_ms > mesh->handshake_ms;
}

static void advance_peer(struct tern_ring_mesh *mesh, uint32_t peer, uint64_t now_ms)
{
    struct slot *slot = &mesh->slots[peer];
    if (slot->connection == NULL) {
        if (peer < mesh->self && now_ms >= slot->dial_at_ms) {
            dial(mesh, peer, now_ms);
        }
        return;
    }
    advance(slot->connection, now_ms);
    if (slot->serial == 0 && is_in_state(slot->connection, OPEN)) {
        check_dialled(mesh, peer);
    }
    if (slot->connection->has_received_frame) {
        slot->why[0] = '\0';
    }
    if (is_overdue(mesh, slot->connection, now_ms)) {
        lose(slot->connection, "the peer does not finish the handshake");
    }
    if (is_in_state(slot->connection, LOST)) {
        clear_lost(mesh, peer, now_ms);
    }
}

static void advance_pending(struct tern_ring_mesh *mesh, uint32_t index, uint64_t now_ms)
{
    struct connection *connection = mesh->pending[index];
    if (connection == NULL) {
        return;
    }
    advance(connection, now_ms);
    if (is_overdue(mesh, connection, now_ms)) {
        lose(connection, "the peer does not finish the handshake");
    }
    if (is_in_state(connection, OPEN)) {
        assign_pending(mesh, index, now_ms);
    } else if (is_in_state(connection, LOST)) {
        log_refusal(mesh, "", connection->why);
        free_connection(connection);
        mesh->pending[index] = NULL;
    }
}

static void add_poll_entry(const struct connection *connection, struct pollfd *entry, int *wait_ms)
{
    entry->fd = -1;
    if (connection != NULL) {
        entry->fd = poll_events(connection, &entry->events);
        *wait_ms = has_buffered_input(connection) ? 0 : *wait_ms;
    }
}

void tern_ring_mesh_poll(struct tern_ring_mesh *mesh, uint64_t wait_ms)
{
    struct pollfd entries[TERN_RING_MEMBERS_MAX + PENDING_MAX + 1];
    int wait = wait_ms < DIAL_MS ? (int)wait_ms : (int)DIAL_MS;
    nfds_t count = 0;
    memset(entries, 0, sizeof entries);
    for (uint32_t i = 0; i < mesh->peers->count; i++) {
        add_poll_entry(mesh->slots[i].connection, &entries[count++], &wait);
    }
    bool has_room = false;
    for (uint32_t i = 0; i < PENDING_MAX; i++) {
        has_room |= mesh->pending[i] == NULL;
        add_poll_entry(mesh->pending[i], &entries[count++], &wait);
    }
    entries[count++] = (struct pollfd){.fd = has_room ? mesh->listener : -1, .events = POLLIN};
    (void)poll(entries, count, wait);
    const uint64_t now_ms = tern_monotonic_ms();
    accept_pending(mesh, now_ms);
    for (uint32_t i = 0; i < PENDING_MAX; i++) {
        advance_pending(mesh, i, now_ms);
    }
    for (uint32_t i = 0; i < mesh->peers->count; i++) {
        if (i != mesh->self) {
            advance_peer(mesh, i, now_ms);
        }
    }
}

// Discards a frame that still arrived; returns whether the peer's connection is still open.
static bool is_open_after_discard(struct tern_ring_mesh *mesh, uint32_t peer)
{
    const uint8_t *body = NULL;
    if (tern_ring_mesh_received(mesh, peer, &body) != NULL) {
        tern_ring_mesh_discard(mesh, peer);
    }
    return open_connection(mesh, peer) != NULL;
}

void tern_ring_mesh_shut_down(struct tern_ring_mesh *mesh, uint64_t wait_ms)
{
    const uint64_t until_ms = tern_monotonic_ms() + wait_ms;
    bool has_announced[TERN_RING_MEMBERS_MAX] = {false};
    bool waits = true;
    mesh->ends = true;
    while (waits && tern_monotonic_ms() < until_ms) {
        waits = false;
        for (uint32_t i = 0; i < mesh->peers->count; i++) {
            mesh->slots[i].dial_at_ms = UINT64_MAX;
            struct connection *connection = open_connection(mesh, i);
            if (connection == NULL) {
                continue;
            }
            if (!has_announced[i] && connection->out.len == 0) {
                announce_end(connection);
                has_announced[i] = true;
            }
            waits |= is_open_after_discard(mesh, i);
        }
        tern_ring_mesh_poll(mesh, waits ? 50 : 0);
    }
}

// --- Queries

uint32_t tern_ring_mesh_serial(const struct tern_ring_mesh *mesh, uint32_t peer)
{
    return open_connection(mesh, peer) != NULL ? mesh->slots[peer].serial : 0;
}

bool tern_ring_mesh_in_handshake(const struct tern_ring_mesh *mesh)
{
    bool visitors = false;
    for (uint32_t i = 0; i < PENDING_MAX; i++) {
        visitors |= mesh->pending[i] != NULL;
    }
    for (uint32_t i = 0; i < mesh->peers->count; i++) {
        visitors |= is_in_state(mesh->slots[i].connection, IN_HANDSHAKE);
    }
    return visitors;
}

bool tern_ring_mesh_send(struct tern_ring_mesh *mesh, uint32_t peer, enum tern_ring_frame_type type,
                         uint32_t epoch, const void *head, size_t head_len, const void *body,
                         size_t body_len)
{
    struct connection *connection = open_connection(mesh, peer);
    return connection != NULL &&
           queue_frame(connection, type, epoch, head, head_len, body, body_len);
}

bool tern_ring_mesh_is_sent(const struct tern_ring_mesh *mesh, uint32_t peer)
{
    const struct connection *connection = open_connection(mesh, peer);
    return connection != NULL && connection->out.len == 0;
}

const struct tern_ring_head *tern_ring_mesh_received(const struct tern_ring_mesh *mesh,
                                                     uint32_t peer, const uint8_t **body)
{
    const struct connection *connection = open_connection(mesh, peer);
    return connection != NULL ? received_frame(connection, body) : NULL;
}

void tern_ring_mesh_discard(struct tern_ring_mesh *mesh, uint32_t peer)
{
    struct connection *connection = open_connection(mesh, peer);
    if (connection != NULL) {
        discard_frame(connection);
    }
}

uint64_t tern_ring_mesh_last_received_ms(const struct tern_ring_mesh *mesh, uint32_t peer)
{
    const struct connection *connection = open_connection(mesh, peer);
    return connection != NULL ? connection->heard_ms : 0;
}

uint64_t tern_ring_mesh_last_sent_ms(const struct tern_ring_mesh *mesh, uint32_t peer)
{
    const struct connection *connection = open_connection(mesh, peer);
    return connection != NULL ? connection->moved_ms : 0;
}

const char *tern_ring_mesh_terms(const struct tern_ring_mesh *mesh, uint32_t peer)
{
    const struct connection *connection = open_connection(mesh, peer);
    return connection != NULL && connection->terms != NULL ? connection->terms : "";
}

const char *tern_ring_mesh_failure(const struct tern_ring_mesh *mesh, uint32_t peer)
{
    return mesh->slots[peer].why;
}

void tern_ring_mesh_bytes(const struct tern_ring_mesh *mesh, uint32_t peer, struct tern_bytes *sent,
                          struct tern_bytes *received)
{
    const struct slot *slot = &mesh->slots[peer];
    *sent = (struct tern_bytes){0};
    *received = (struct tern_bytes){0};
    if (slot->connection != NULL) {
        measure_bytes(slot->connection, sent, received);
    }
    tern_bytes_add(sent, &slot->sent);
    tern_bytes_add(received, &slot->received);
}
