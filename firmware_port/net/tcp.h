// A TCP connection over lwIP's raw API; no call blocks. One thread. The caller owns the memory of struct tern_tcp, to which
// lwIP refers while the connection is open.
#ifndef TERN_FIRMWARE_TCP_H
#define TERN_FIRMWARE_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tern_tcp_state {
    TERN_TCP_CLOSED, // not opened yet, or closed by this device
    TERN_TCP_CONNECTING,
    TERN_TCP_OPEN,
    TERN_TCP_ENDED, // closed by the peer; received bytes can still be read
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
    uint32_t moved; // the result of tern_tcp_moved()
};

// Starts connecting. Returns false if there is no memory or no route.
bool tern_tcp_open(struct tern_tcp *tcp, const uint8_t address[4], uint16_t port);

enum tern_tcp_state tern_tcp_state(const struct tern_tcp *tcp);

// Copies received bytes to dst[0..size). Returns their number; 0 if there are none.
size_t tern_tcp_read(struct tern_tcp *tcp, uint8_t *dst, size_t size);

// Copies up to len bytes of src to the send buffer. Returns their number; 0 if the buffer is full.
size_t tern_tcp_write(struct tern_tcp *tcp, const uint8_t *src, size_t len);

// Sends the bytes in the send buffer. Call it after several writes, so that their bytes share segments.
void tern_tcp_flush(struct tern_tcp *tcp);

// Returns a number that changes whenever the peer acknowledges or sends bytes.
uint32_t tern_tcp_moved(const struct tern_tcp *tcp);

// Returns the bytes sent and received since the previous call.
struct tern_tcp_bytes tern_tcp_take_bytes(struct tern_tcp *tcp);

// Closes the connection. lwIP still sends the bytes that were written before.
void tern_tcp_close(struct tern_tcp *tcp);

// Resets the connection; unsent bytes are lost.
void tern_tcp_abort(struct tern_tcp *tcp);

#endif
