// One peer's connections with all other peers of its ring. The mesh listens, dials the peers before it in the list,
// identifies peers by their certificates, and reconnects after a loss. Used by one thread. Bytes are sent and received only
// during tern_ring_mesh_poll().
#ifndef TERN_RING_MESH_H
#define TERN_RING_MESH_H

#include "mesh/frame.h"
#include "mesh/peers.h"
#include "mesh/ring_tls.h"
#include "meter/meter.h"
#include "result.h"
#include <stdbool.h>

#define TERN_RING_MESH_WHY_MAX 256

struct tern_ring_mesh;

struct tern_ring_mesh_config {
    const struct tern_ring_peers *peers; // peers and tls are borrowed while the mesh lives
    uint32_t self;                       // this peer's index
    struct tern_ring_tls *tls;
    struct tern_ring_limits limits;
    const char *listen; // address; "" = this peer's address in the list
    // this peer's settings, sent first on each connection; 1 to TERN_RING_TERMS_MAX bytes
    const char *terms;
    uint64_t handshake_ms; // time limit for connecting and the TLS handshake
};

// Starts listening. TERN_ERR_CONFIG: cannot listen there; why has the reason. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_ring_mesh_open(const struct tern_ring_mesh_config *config,
                                                   struct tern_ring_mesh **mesh,
                                                   char why[TERN_RING_MESH_WHY_MAX]);
void tern_ring_mesh_close(struct tern_ring_mesh *mesh); // ignores NULL

// Sends the queued bytes and a close notification to all peers, and waits at most `wait_ms` until they close, too.
void tern_ring_mesh_shut_down(struct tern_ring_mesh *mesh, uint64_t wait_ms);

// Waits at most `wait_ms` for traffic; dials, accepts, sends and receives.
void tern_ring_mesh_poll(struct tern_ring_mesh *mesh, uint64_t wait_ms);

// Returns the serial number of the open connection with a peer, a new one for each connection; 0 = no connection.
uint32_t tern_ring_mesh_serial(const struct tern_ring_mesh *mesh, uint32_t peer);

// Whether any connection is still in its handshake.
bool tern_ring_mesh_in_handshake(const struct tern_ring_mesh *mesh);

// Queues a frame with the body head[0..head_len), body[0..body_len), both copied; only the latter counts as payload. Returns
// false if the peer is not connected, or if too many bytes wait to be sent; then the connection is lost.
bool tern_ring_mesh_send(struct tern_ring_mesh *mesh, uint32_t peer, enum tern_ring_frame_type type,
                         uint32_t epoch, const void *head, size_t head_len, const void *body,
                         size_t body_len);
bool tern_ring_mesh_is_sent(const struct tern_ring_mesh *mesh, uint32_t peer);

// Returns the received frame, or NULL. *body: its bytes, valid until tern_ring_mesh_discard(), which lets the next arrive.
const struct tern_ring_head *tern_ring_mesh_received(const struct tern_ring_mesh *mesh,
                                                     uint32_t peer, const uint8_t **body);
void tern_ring_mesh_discard(struct tern_ring_mesh *mesh, uint32_t peer);

// Return when bytes last arrived from a peer, and when bytes were last sent to it; 0 = no connection.
uint64_t tern_ring_mesh_last_received_ms(const struct tern_ring_mesh *mesh, uint32_t peer);
uint64_t tern_ring_mesh_last_sent_ms(const struct tern_ring_mesh *mesh, uint32_t peer);

// Closes the connection with a peer, and logs why.
void tern_ring_mesh_drop(struct tern_ring_mesh *mesh, uint32_t peer, const char *why);

// Returns a connected peer's settings as text (node/agree.h); "" = not received.
const char *tern_ring_mesh_terms(const struct tern_ring_mesh *mesh, uint32_t peer);

// Returns why the last connection with a peer was lost or could not be made; "" = no failure.
const char *tern_ring_mesh_failure(const struct tern_ring_mesh *mesh, uint32_t peer);

// Adds up the bytes on all connections with a peer, including handshakes.
void tern_ring_mesh_bytes(const struct tern_ring_mesh *mesh, uint32_t peer, struct tern_bytes *sent,
                          struct tern_bytes *received);

#endif
