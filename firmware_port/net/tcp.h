// One TCP connection over lwIP's raw API; no call blocks. One thread; the caller owns the memory, to which lwIP refers while
// the connection is open.
#ifndef TERN_FIRMWARE_TCP_H
#define TERN_FIRMWARE_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tern_tcp_state {
    TERN_TCP_CLOSED, // by this device
    TERN_TCP_CONNECTING,
    TERN_TCP_OPEN,
    TERN_TCP_ENDED, // by the peer; received bytes can still be read
    TERN_TCP_LOST,  // reset, refused or timed out; received bytes can still be read
};

// Bytes of the TCP stream, without headers and retransmissions.
struct tern_tcp_bytes {
    uint32_t sent;
    uint32_t received;
};

// Fields are private; all zero at first. Close or abort a connection before you open another.
struct tern_tcp {
    struct tcp_pcb *pcb;   // lwIP's connection; NULL: none
    struct pbuf *received; // received bytes that are not read yet
    enum tern_tcp_state state;
    struct tern_tcp_bytes bytes;
    uint32_t moved;
};

// Starts connecting. Returns false if there is no memory or no route.
bool tern_tcp_open(struct tern_tcp *tcp, const uint8_t address[4], uint16_t port);

enum tern_tcp_state tern_tcp_state(const struct tern_tcp *tcp);

// Reads received bytes; returns their number, 0 if there are none.
size_t tern_tcp_read(struct tern_tcp *tcp, uint8_t *dst, size_t size);

// Copies up to len bytes to be sent; returns their number, 0 if there is no room now. tern_tcp_flush() sends them, so that
// several writes can share a segment.
size_t tern_tcp_write(struct tern_tcp *tcp, const uint8_t *src, size_t len);
void tern_tcp_flush(struct tern_tcp *tcp);

// Returns a number that changes whenever the peer acknowledges or sends bytes.
uint32_t tern_tcp_moved(const struct tern_tcp *tcp);

// Returns the bytes since the last call.
struct tern_tcp_bytes tern_tcp_take_bytes(struct tern_tcp *tcp);

// Closes the connection; lwIP still delivers the written bytes.
void tern_tcp_close(struct tern_tcp *tcp);

// Resets the connection at once.
void tern_tcp_abort(struct tern_tcp *tcp);

#endif
