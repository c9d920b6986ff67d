// One TCP connection over lwIP's raw API, as two ends of a pipe that never block. One thread; the
// caller owns the memory, which lwIP refers to while the connection is open.
#ifndef TERN_FIRMWARE_TCP_H
#define TERN_FIRMWARE_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tern_tcp_state {
    TERN_TCP_CLOSED, // here
    TERN_TCP_CONNECTING,
    TERN_TCP_OPEN,
    TERN_TCP_ENDED, // by the peer; what it had sent can still be read
    TERN_TCP_LOST,  // reset, refused or given up; likewise
};

// The connection's bytes without headers and retransmissions.
struct tern_tcp_bytes {
    uint32_t sent;
    uint32_t received;
};

// Fields are private; all zero at first. To open another connection, close or abort the one before.
struct tern_tcp {
    struct tcp_pcb *pcb;   // NULL: lwIP has none for us
    struct pbuf *received; // and not read yet
    enum tern_tcp_state state;
    struct tern_tcp_bytes bytes;
    uint32_t moved;
};

// Starts connecting. false: there is no memory, or no route.
bool tern_tcp_open(struct tern_tcp *tcp, const uint8_t address[4], uint16_t port);

enum tern_tcp_state tern_tcp_state(const struct tern_tcp *tcp);

// Takes what arrived; 0: nothing is here.
size_t tern_tcp_read(struct tern_tcp *tcp, uint8_t *dst, size_t size);

// Takes over (copies) up to len bytes; 0: no room now. They leave with tern_tcp_flush(), so that
// what is written together travels together.
size_t tern_tcp_write(struct tern_tcp *tcp, const uint8_t *src, size_t len);
void tern_tcp_flush(struct tern_tcp *tcp);

// Changes whenever the peer has acknowledged or sent something.
uint32_t tern_tcp_moved(const struct tern_tcp *tcp);

// The bytes since the last call.
struct tern_tcp_bytes tern_tcp_take_bytes(struct tern_tcp *tcp);

// Says goodbye; what was written before still arrives.
void tern_tcp_close(struct tern_tcp *tcp);

// Forgets the connection at once, and tells the peer so.
void tern_tcp_abort(struct tern_tcp *tcp);

#endif
