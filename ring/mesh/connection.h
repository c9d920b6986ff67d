// One connection between two peers: frames over TLS over a non-blocking socket, each way at once. Its
// memory is bounded: what waits to be sent by `most_queued`, what arrives by one frame that nobody has
// taken yet, behind which nothing more is read. Used by one thread.
#ifndef TERN_RING_CONNECTION_H
#define TERN_RING_CONNECTION_H

#include "mesh/frame.h"
#include "mesh/tls.h"
#include "meter/meter.h"
#include "result.h"
#include <stdbool.h>

struct tern_ring_connection;

enum tern_ring_connection_state {
    TERN_RING_CONNECTING,
    TERN_RING_SHAKING_HANDS,
    TERN_RING_OPEN,
    TERN_RING_LOST, // tern_ring_connection_why() says why
};

struct tern_ring_connection_config {
    struct tern_ring_tls *tls;
    struct tern_ring_limits limits;
    size_t most_queued;
};

// Takes the socket over: connecting where it dials, connected where it answers. NULL when memory is short;
// then the socket is closed. config is borrowed while the connection lives.
struct tern_ring_connection *
tern_ring_connection_new(const struct tern_ring_connection_config *config, int fd, bool dials,
                         uint64_t now_ms);
void tern_ring_connection_free(struct tern_ring_connection *connection); // NULL is nothing

enum tern_ring_connection_state
tern_ring_connection_state(const struct tern_ring_connection *connection);
const char *tern_ring_connection_why(const struct tern_ring_connection *connection);

// Gives it up, for that reason, a text that is copied.
void tern_ring_connection_lose(struct tern_ring_connection *connection, const char *why);

// The name in the peer's certificate; once it is open.
const char *tern_ring_connection_name(const struct tern_ring_connection *connection);

// What poll() is to wait for; events may be 0.
int tern_ring_connection_wants(const struct tern_ring_connection *connection, short *events);

// Whether there is something to do without waiting.
bool tern_ring_connection_has_more(const struct tern_ring_connection *connection);

// Goes on as far as it can without waiting.
void tern_ring_connection_go_on(struct tern_ring_connection *connection, uint64_t now_ms);

// Queues a frame whose body is head[0..head_len) and body[0..body_len), which are copied. The latter counts
// as payload. False: it is not open, or too much waits already, for which it is lost then.
bool tern_ring_connection_send(struct tern_ring_connection *connection,
                               enum tern_ring_frame_type type, uint32_t epoch, const void *head,
                               size_t head_len, const void *body, size_t body_len);
bool tern_ring_connection_is_sent(const struct tern_ring_connection *connection);

// The frame that has arrived, or NULL. *body: its bytes, until it is taken.
const struct tern_ring_head *
tern_ring_connection_frame(const struct tern_ring_connection *connection, const uint8_t **body);
void tern_ring_connection_take(struct tern_ring_connection *connection);

// What the other end has said of how it is set, with a NUL behind it; "": nothing.
const char *tern_ring_connection_terms(const struct tern_ring_connection *connection);

// Whether a whole frame has come.
bool tern_ring_connection_has_spoken(const struct tern_ring_connection *connection);

// When it was made, when bytes last came, and when some last went.
uint64_t tern_ring_connection_since(const struct tern_ring_connection *connection);
uint64_t tern_ring_connection_heard(const struct tern_ring_connection *connection);
uint64_t tern_ring_connection_moved(const struct tern_ring_connection *connection);

// Says that nothing more will be sent.
void tern_ring_connection_end(struct tern_ring_connection *connection);

// What has passed: payload of blocks and models, `http` for whole frames, tls, and wire as
// meter/meter.h has them.
void tern_ring_connection_bytes(const struct tern_ring_connection *connection,
                                struct tern_bytes *sent, struct tern_bytes *received);

#endif
