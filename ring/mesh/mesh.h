// The connections of one peer with all others of its ring: listens, dials those before it in the list,
// knows by their certificates who comes, and dials anew what was lost. Used by one thread, which calls
// tern_ring_mesh_poll() whenever it waits; nothing moves in between.
#ifndef TERN_RING_MESH_H
#define TERN_RING_MESH_H

#include "mesh/frame.h"
#include "mesh/peers.h"
#include "mesh/tls.h"
#include "meter/meter.h"
#include "result.h"
#include <stdbool.h>

#define TERN_RING_MESH_WHY_MAX 256

struct tern_ring_mesh;

struct tern_ring_mesh_config {
    const struct tern_ring_peers *peers; // borrowed while the mesh lives, as is tls
    uint32_t self;
    struct tern_ring_tls *tls;
    struct tern_ring_limits limits;
    const char *listen; // address; "" = that of the own line of peers
    const char *
        terms; // how this peer is set, which each connection begins with; 1 to TERN_RING_TERMS_MAX bytes
    uint64_t handshake_ms; // the most that a connection may take until it is open
};

// TERN_ERR_CONFIG  *why: nobody can listen there; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_ring_mesh_open(const struct tern_ring_mesh_config *config,
                                                   struct tern_ring_mesh **mesh,
                                                   char why[TERN_RING_MESH_WHY_MAX]);
void tern_ring_mesh_close(struct tern_ring_mesh *mesh); // NULL is nothing

// Says to all that nothing more comes, and waits until they have said so as well, for `wait_ms` at the
// most: what was sent last is not lost.
void tern_ring_mesh_end(struct tern_ring_mesh *mesh, uint64_t wait_ms);

// Waits until something moved, for `wait_ms` at the most, and does what can be done.
void tern_ring_mesh_poll(struct tern_ring_mesh *mesh, uint64_t wait_ms);

// Whether there is an open connection with a peer.
bool tern_ring_mesh_has(const struct tern_ring_mesh *mesh, uint32_t peer);

// A number that is another one for each connection with a peer; 0: there is none.
uint32_t tern_ring_mesh_serial(const struct tern_ring_mesh *mesh, uint32_t peer);

// Whether somebody stands at the door whose handshake is not over.
bool tern_ring_mesh_has_visitors(const struct tern_ring_mesh *mesh);

// As the functions of connection.h, for a peer; without a connection false and NULL.
bool tern_ring_mesh_send(struct tern_ring_mesh *mesh, uint32_t peer, enum tern_ring_frame_type type,
                         uint32_t epoch, const void *head, size_t head_len, const void *body,
                         size_t body_len);
bool tern_ring_mesh_is_sent(const struct tern_ring_mesh *mesh, uint32_t peer);
const struct tern_ring_head *tern_ring_mesh_frame(const struct tern_ring_mesh *mesh, uint32_t peer,
                                                  const uint8_t **body);
void tern_ring_mesh_take(struct tern_ring_mesh *mesh, uint32_t peer);

// When bytes last came from a peer, and when some were last taken by it.
uint64_t tern_ring_mesh_heard(const struct tern_ring_mesh *mesh, uint32_t peer);
uint64_t tern_ring_mesh_moved(const struct tern_ring_mesh *mesh, uint32_t peer);

// Gives the connection with a peer up and says so in the log.
void tern_ring_mesh_drop(struct tern_ring_mesh *mesh, uint32_t peer, const char *why);

// How a peer that is connected is set, as it says; "" = it said nothing.
const char *tern_ring_mesh_terms(const struct tern_ring_mesh *mesh, uint32_t peer);

// Why the last connection with a peer was lost, or none came about; "" = there was no trouble.
const char *tern_ring_mesh_why(const struct tern_ring_mesh *mesh, uint32_t peer);

// What has passed between this peer and another on all their connections, handshakes included.
void tern_ring_mesh_bytes(const struct tern_ring_mesh *mesh, uint32_t peer, struct tern_bytes *sent,
                          struct tern_bytes *received);

#endif
