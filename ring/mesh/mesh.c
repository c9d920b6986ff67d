#include "mesh/mesh.h"

#include "hosted/clock.h"
#include "hosted/log.h"
#include "mesh/connection.h"
#include "mesh/socket.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DOORS 16u    // accepted connections whose peer is not known yet
#define DIAL_MS 300u // between two attempts
#define SPARE_QUEUE 65536u
#define REFUSED_MS 30000u // before the same refusal is logged again

struct slot {
    struct tern_ring_connection *connection;
    uint32_t serial;
    uint64_t dial_at_ms;
    struct tern_bytes sent; // on closed connections
    struct tern_bytes received;
    char why[TERN_RING_MESH_WHY_MAX];
};

struct tern_ring_mesh {
    const struct tern_ring_peers *peers;
    uint32_t self;
    uint64_t handshake_ms;
    const char *terms;
    struct tern_ring_connection_config connections;
    int listener;
    bool ends; // peers are expected to close
    uint32_t last_serial;
    char refused[TERN_RING_NAME_SIZE + TERN_RING_TLS_WHY_MAX +
                 2]; // the last refused peer and reason
    uint64_t refused_ms;
    struct slot slots[TERN_RING_MEMBERS_MAX];
    struct tern_ring_connection *doors[DOORS];
};

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
                        // The rest of an abandoned exchange, and the next one.
                        .most_queued = 2 * (block + model) + SPARE_QUEUE},
    };
    const char *address = config->listen[0] != '\0' ? config->listen : own->address;
    const enum tern_result result = tern_ring_listen(address, own->port, &mesh->listener, why);
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
        tern_ring_connection_free(mesh->slots[i].connection);
    }
    for (uint32_t i = 0; i < DOORS; i++) {
        tern_ring_connection_free(mesh->doors[i]);
    }
    close(mesh->listener);
    free(mesh);
}

static bool is_in_state(const struct tern_ring_connection *connection,
                        enum tern_ring_connection_state state)
{
    return connection != NULL && tern_ring_connection_state(connection) == state;
}

static struct tern_ring_connection *open_one(const struct tern_ring_mesh *mesh, uint32_t peer)
{
    struct tern_ring_connection *connection = mesh->slots[peer].connection;
    return is_in_state(connection, TERN_RING_OPEN) ? connection : NULL;
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

// Frees a slot's connection; its bytes stay counted.
static void forget(struct slot *slot)
{
    struct tern_bytes sent;
    struct tern_bytes received;
    tern_ring_connection_bytes(slot->connection, &sent, &received);
    tern_bytes_add(&slot->sent, &sent);
    tern_bytes_add(&slot->received, &received);
    tern_ring_connection_free(slot->connection);
    slot->connection = NULL;
    slot->serial = 0;
}

static void clear_lost(struct tern_ring_mesh *mesh, uint32_t peer, uint64_t now_ms)
{
    struct slot *slot = &mesh->slots[peer];
    const char *why = tern_ring_connection_why(slot->connection);
    const bool was_open = slot->serial != 0 && tern_ring_connection_has_spoken(slot->connection);
    // An absent peer is dialled again and again; log it once.
    if (!mesh->ends && (was_open || strcmp(slot->why, why) != 0)) {
        log_peer(mesh, was_open ? TERN_LOG_WARN : TERN_LOG_INFO,
                 was_open ? "peer-lost" : "peer-not-reached", peer, why);
    }
    snprintf(slot->why, sizeof slot->why, "%s", why);
    forget(slot);
    slot->dial_at_ms = now_ms + DIAL_MS;
}

void tern_ring_mesh_drop(struct tern_ring_mesh *mesh, uint32_t peer, const char *why)
{
    struct tern_ring_connection *connection = mesh->slots[peer].connection;
    if (connection != NULL) {
        tern_ring_connection_lose(connection, why);
        clear_lost(mesh, peer, tern_monotonic_ms());
    }
}

// --- Opening

static void opened(struct tern_ring_mesh *mesh, uint32_t peer)
{
    mesh->slots[peer].serial = ++mesh->last_serial;
    log_peer(mesh, TERN_LOG_DEBUG, "peer-connected", peer, "");
    (void)tern_ring_connection_send(mesh->slots[peer].connection, TERN_RING_TERMS, 0, mesh->terms,
                                    strlen(mesh->terms), NULL, 0);
}

static void dial(struct tern_ring_mesh *mesh, uint32_t peer, uint64_t now_ms)
{
    const struct tern_ring_peer *who = &mesh->peers->peers[peer];
    struct slot *slot = &mesh->slots[peer];
    const int fd = tern_ring_dial(who->address, who->port);
    slot->dial_at_ms = now_ms + DIAL_MS;
    if (fd >= 0) {
        slot->connection = tern_ring_connection_new(&mesh->connections, fd, true, now_ms);
    }
}

static void answer(struct tern_ring_mesh *mesh, uint64_t now_ms)
{
    for (uint32_t i = 0; i < DOORS; i++) {
        if (mesh->doors[i] != NULL) {
            continue;
        }
        const int fd = tern_ring_accept(mesh->listener);
        if (fd < 0) {
            return;
        }
        mesh->doors[i] = tern_ring_connection_new(&mesh->connections, fd, false, now_ms);
    }
}

// Logs a refusal, at most every REFUSED_MS for the same peer and reason, since a refused peer dials again and again.
static void refuse_visitor(struct tern_ring_mesh *mesh, const char *name, const char *why)
{
    const uint64_t now_ms = tern_monotonic_ms();
    char said[sizeof mesh->refused];
    snprintf(said, sizeof said, "%s: %s", name, why);
    if (strcmp(said, mesh->refused) == 0 && now_ms - mesh->refused_ms < REFUSED_MS) {
        return;
    }
    mesh->refused_ms = now_ms;
    memcpy(mesh->refused, said, sizeof said);
    tern_log(TERN_LOG_WARN, "peer-refused", "name=%s why=%s", TERN_LOG_TEXT(name),
             TERN_LOG_TEXT(why));
}

// Assigns an accepted connection to the peer that its certificate names. A peer that connects again has lost its old
// connection.
static void let_in(struct tern_ring_mesh *mesh, uint32_t door, uint64_t now_ms)
{
    struct tern_ring_connection *visitor = mesh->doors[door];
    const char *name = tern_ring_connection_name(visitor);
    const uint32_t peer = tern_ring_peer_named(mesh->peers, name);
    mesh->doors[door] = NULL;
    if (peer <= mesh->self || peer >= mesh->peers->count) {
        refuse_visitor(
            mesh, name,
            peer < mesh->peers->count
                ? "this peer dials it, and not it this peer: are the lists of peers alike?"
                : "its certificate names no peer of the list");
        tern_ring_connection_free(visitor);
        return;
    }
    if (mesh->slots[peer].connection != NULL) {
        tern_ring_connection_lose(mesh->slots[peer].connection, "it has come anew");
        clear_lost(mesh, peer, now_ms);
    }
    mesh->slots[peer].connection = visitor;
    opened(mesh, peer);
}

static void check_dialled(struct tern_ring_mesh *mesh, uint32_t peer)
{
    struct tern_ring_connection *connection = mesh->slots[peer].connection;
    const char *name = tern_ring_connection_name(connection);
    char why[TERN_RING_MESH_WHY_MAX];
    if (strcmp(name, mesh->peers->peers[peer].name) == 0) {
        opened(mesh, peer);
        return;
    }
    snprintf(why, sizeof why, "its certificate is %s's", name[0] != '\0' ? name : "nobody");
    tern_ring_connection_lose(connection, why);
}

// --- Traffic

static bool is_overdue(const struct tern_ring_mesh *mesh,
                       const struct tern_ring_connection *connection, uint64_t now_ms)
{
    return !is_in_state(connection, TERN_RING_OPEN) &&
           now_ms - tern_ring_connection_since(connection) > mesh->handshake_ms;
}

static void go_on_with_peer(struct tern_ring_mesh *mesh, uint32_t peer, uint64_t now_ms)
{
    struct slot *slot = &mesh->slots[peer];
    if (slot->connection == NULL) {
        if (peer < mesh->self && now_ms >= slot->dial_at_ms) {
            dial(mesh, peer, now_ms);
        }
        return;
    }
    tern_ring_connection_go_on(slot->connection, now_ms);
    if (slot->serial == 0 && is_in_state(slot->connection, TERN_RING_OPEN)) {
        check_dialled(mesh, peer);
    }
    if (tern_ring_connection_has_spoken(slot->connection)) {
        slot->why[0] = '\0';
    }
    if (is_overdue(mesh, slot->connection, now_ms)) {
        tern_ring_connection_lose(slot->connection, "it does not finish the handshake");
    }
    if (is_in_state(slot->connection, TERN_RING_LOST)) {
        clear_lost(mesh, peer, now_ms);
    }
}

static void go_on_with_visitor(struct tern_ring_mesh *mesh, uint32_t door, uint64_t now_ms)
{
    struct tern_ring_connection *visitor = mesh->doors[door];
    if (visitor == NULL) {
        return;
    }
    tern_ring_connection_go_on(visitor, now_ms);
    if (is_overdue(mesh, visitor, now_ms)) {
        tern_ring_connection_lose(visitor, "it does not finish the handshake");
    }
    if (is_in_state(visitor, TERN_RING_OPEN)) {
        let_in(mesh, door, now_ms);
    } else if (is_in_state(visitor, TERN_RING_LOST)) {
        refuse_visitor(mesh, "", tern_ring_connection_why(visitor));
        tern_ring_connection_free(visitor);
        mesh->doors[door] = NULL;
    }
}

static void wait_for(const struct tern_ring_connection *connection, struct pollfd *entry,
                     int *wait_ms)
{
    entry->fd = -1;
    if (connection != NULL) {
        entry->fd = tern_ring_connection_wants(connection, &entry->events);
        *wait_ms = tern_ring_connection_has_more(connection) ? 0 : *wait_ms;
    }
}

void tern_ring_mesh_poll(struct tern_ring_mesh *mesh, uint64_t wait_ms)
{
    struct pollfd entries[TERN_RING_MEMBERS_MAX + DOORS + 1];
    int wait = wait_ms < DIAL_MS ? (int)wait_ms : (int)DIAL_MS;
    nfds_t count = 0;
    memset(entries, 0, sizeof entries);
    for (uint32_t i = 0; i < mesh->peers->count; i++) {
        wait_for(mesh->slots[i].connection, &entries[count++], &wait);
    }
    bool has_room = false;
    for (uint32_t i = 0; i < DOORS; i++) {
        has_room |= mesh->doors[i] == NULL;
        wait_for(mesh->doors[i], &entries[count++], &wait);
    }
    entries[count++] = (struct pollfd){.fd = has_room ? mesh->listener : -1, .events = POLLIN};
    (void)poll(entries, count, wait);
    const uint64_t now_ms = tern_monotonic_ms();
    answer(mesh, now_ms);
    for (uint32_t i = 0; i < DOORS; i++) {
        go_on_with_visitor(mesh, i, now_ms);
    }
    for (uint32_t i = 0; i < mesh->peers->count; i++) {
        if (i != mesh->self) {
            go_on_with_peer(mesh, i, now_ms);
        }
    }
}

// Whether the other end has not closed its connection yet. Discards the frames that still arrive.
static bool is_ending(struct tern_ring_mesh *mesh, uint32_t peer)
{
    const uint8_t *body = NULL;
    if (tern_ring_mesh_frame(mesh, peer, &body) != NULL) {
        tern_ring_mesh_take(mesh, peer);
    }
    return open_one(mesh, peer) != NULL;
}

void tern_ring_mesh_end(struct tern_ring_mesh *mesh, uint64_t wait_ms)
{
    const uint64_t until_ms = tern_monotonic_ms() + wait_ms;
    bool said[TERN_RING_MEMBERS_MAX] = {false};
    bool waits = true;
    mesh->ends = true;
    while (waits && tern_monotonic_ms() < until_ms) {
        waits = false;
        for (uint32_t i = 0; i < mesh->peers->count; i++) {
            mesh->slots[i].dial_at_ms = UINT64_MAX;
            struct tern_ring_connection *connection = open_one(mesh, i);
            if (connection == NULL) {
                continue;
            }
            if (!said[i] && tern_ring_connection_is_sent(connection)) {
                tern_ring_connection_end(connection);
                said[i] = true;
            }
            waits |= is_ending(mesh, i);
        }
        tern_ring_mesh_poll(mesh, waits ? 50 : 0);
    }
}

// --- Queries

bool tern_ring_mesh_has(const struct tern_ring_mesh *mesh, uint32_t peer)
{
    return tern_ring_mesh_serial(mesh, peer) != 0;
}

uint32_t tern_ring_mesh_serial(const struct tern_ring_mesh *mesh, uint32_t peer)
{
    return open_one(mesh, peer) != NULL ? mesh->slots[peer].serial : 0;
}

bool tern_ring_mesh_has_visitors(const struct tern_ring_mesh *mesh)
{
    bool visitors = false;
    for (uint32_t i = 0; i < DOORS; i++) {
        visitors |= mesh->doors[i] != NULL;
    }
    for (uint32_t i = 0; i < mesh->peers->count; i++) {
        visitors |= is_in_state(mesh->slots[i].connection, TERN_RING_SHAKING_HANDS);
    }
    return visitors;
}

bool tern_ring_mesh_send(struct tern_ring_mesh *mesh, uint32_t peer, enum tern_ring_frame_type type,
                         uint32_t epoch, const void *head, size_t head_len, const void *body,
                         size_t body_len)
{
    struct tern_ring_connection *connection = open_one(mesh, peer);
    return connection != NULL &&
           tern_ring_connection_send(connection, type, epoch, head, head_len, body, body_len);
}

bool tern_ring_mesh_is_sent(const struct tern_ring_mesh *mesh, uint32_t peer)
{
    const struct tern_ring_connection *connection = open_one(mesh, peer);
    return connection != NULL && tern_ring_connection_is_sent(connection);
}

const struct tern_ring_head *tern_ring_mesh_frame(const struct tern_ring_mesh *mesh, uint32_t peer,
                                                  const uint8_t **body)
{
    const struct tern_ring_connection *connection = open_one(mesh, peer);
    return connection != NULL ? tern_ring_connection_frame(connection, body) : NULL;
}

void tern_ring_mesh_take(struct tern_ring_mesh *mesh, uint32_t peer)
{
    struct tern_ring_connection *connection = open_one(mesh, peer);
    if (connection != NULL) {
        tern_ring_connection_take(connection);
    }
}

uint64_t tern_ring_mesh_heard(const struct tern_ring_mesh *mesh, uint32_t peer)
{
    const struct tern_ring_connection *connection = open_one(mesh, peer);
    return connection != NULL ? tern_ring_connection_heard(connection) : 0;
}

uint64_t tern_ring_mesh_moved(const struct tern_ring_mesh *mesh, uint32_t peer)
{
    const struct tern_ring_connection *connection = open_one(mesh, peer);
    return connection != NULL ? tern_ring_connection_moved(connection) : 0;
}

const char *tern_ring_mesh_terms(const struct tern_ring_mesh *mesh, uint32_t peer)
{
    const struct tern_ring_connection *connection = open_one(mesh, peer);
    return connection != NULL ? tern_ring_connection_terms(connection) : "";
}

const char *tern_ring_mesh_why(const struct tern_ring_mesh *mesh, uint32_t peer)
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
        tern_ring_connection_bytes(slot->connection, sent, received);
    }
    tern_bytes_add(sent, &slot->sent);
    tern_bytes_add(received, &slot->received);
}
