// One connection between two peers: frames over TLS over a non-blocking socket, in both directions at once. Its memory is
// bounded: at most `most_queued` bytes wait to be sent, and it reads no further while a received frame is not taken. Used by
// one thread.
#ifndef TERN_RING_CONNECTION_H
#define TERN_RING_CONNECTION_H

#include "mesh/frame.h"
#include "mesh/ring_tls.h"
#include "meter/meter.h"
#include "result.h"
#include <stdbool.h>

struct tern_ring_connection;

enum tern_ring_connection_state {
    TERN_RING_CONNECTING,
    TERN_RING_SHAKING_HANDS,
    TERN_RING_OPEN,
    TERN_RING_LOST, // tern_ring_connection_why() has the reason
};

struct tern_ring_connection_config {
    struct tern_ring_tls *tls;
    struct tern_ring_limits limits;
    size_t most_queued;
};

// Takes over the socket, which is connecting (dials) or connected. Returns NULL without memory, after closing the socket.
// config: borrowed while the connection lives.
struct tern_ring_connection *
tern_ring_connection_new(const struct tern_ring_connection_config *config, int fd, bool dials,
                         uint64_t now_ms);
void tern_ring_connection_free(struct tern_ring_connection *connection); // NULL is nothing

enum tern_ring_connection_state
tern_ring_connection_state(const struct tern_ring_connection *connection);
const char *tern_ring_connection_why(const struct tern_ring_connection *connection);

// Ends the connection as lost. why: copied.
void tern_ring_connection_lose(struct tern_ring_connection *connection, const char *why);

// Returns the name in the peer's certificate. Only on an open connection.
const char *tern_ring_connection_name(const struct tern_ring_connection *connection);

// Returns the descriptor for poll(), or -1, and sets *events.
int tern_ring_connection_wants(const struct tern_ring_connection *connection, short *events);

// Whether tern_ring_connection_go_on() has work without poll().
bool tern_ring_connection_has_more(const struct tern_ring_connection *connection);

// Sends and receives as far as possible without waiting.
void tern_ring_connection_go_on(struct tern_ring_connection *connection, uint64_t now_ms);

// Queues a frame with the body head[0..head_len), body[0..body_len), both copied; only the latter counts as payload. Returns
// false if the connection is not open, or if more than most_queued bytes wait: then the connection is lost.
bool tern_ring_connection_send(struct tern_ring_connection *connection,
                               enum tern_ring_frame_type type, uint32_t epoch, const void *head,
                               size_t head_len, const void *body, size_t body_len);
bool tern_ring_connection_is_sent(const struct tern_ring_connection *connection);

// Returns the received frame, or NULL. *body: its bytes, valid until the frame is taken.
const struct tern_ring_head *
tern_ring_connection_frame(const struct tern_ring_connection *connection, const uint8_t **body);
void tern_ring_connection_take(struct tern_ring_connection *connection);

// Returns the other end's terms (node/terms.h); "" = not received.
const char *tern_ring_connection_terms(const struct tern_ring_connection *connection);

// Whether a whole frame has arrived.
bool tern_ring_connection_has_spoken(const struct tern_ring_connection *connection);

// Return when the connection was made, when bytes last arrived, and when bytes were last sent.
uint64_t tern_ring_connection_since(const struct tern_ring_connection *connection);
uint64_t tern_ring_connection_heard(const struct tern_ring_connection *connection);
uint64_t tern_ring_connection_moved(const struct tern_ring_connection *connection);

// Announces that this end sends nothing more.
void tern_ring_connection_end(struct tern_ring_connection *connection);

// Adds up the bytes so far: payload of blocks and models, `http` for whole frames, tls and wire (meter/meter.h).
void tern_ring_connection_bytes(const struct tern_ring_connection *connection,
                                struct tern_bytes *sent, struct tern_bytes *received);

#endif
