// One TCP connection over lwIP's raw API, as two ends of a pipe that never block. One thread;
// static state: opening another connection needs the first one closed.
#ifndef TERN_FIRMWARE_STREAM_H
#define TERN_FIRMWARE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tern_stream_state {
    TERN_STREAM_CLOSED, // here
    TERN_STREAM_CONNECTING,
    TERN_STREAM_OPEN,
    TERN_STREAM_ENDED, // by the peer; what it had sent can still be read
    TERN_STREAM_LOST,  // reset, refused or given up; likewise
};

// The stream's bytes without headers and retransmissions.
struct tern_stream_bytes {
    uint32_t sent;
    uint32_t received;
};

// Starts connecting. false: there is no memory, or no route.
bool tern_stream_open(const uint8_t address[4], uint16_t port);

enum tern_stream_state tern_stream_state(void);

// Takes what arrived; 0: nothing is here.
size_t tern_stream_read(uint8_t *dst, size_t size);

// Takes over (copies) up to len bytes; 0: no room now. They leave with tern_stream_flush(), so that
// what is written together travels together.
size_t tern_stream_write(const uint8_t *src, size_t len);
void tern_stream_flush(void);

// Changes whenever the peer has acknowledged or sent something.
uint32_t tern_stream_moved(void);

// The bytes since the last call.
struct tern_stream_bytes tern_stream_take_bytes(void);

// Says goodbye; what was written before still arrives.
void tern_stream_close(void);

// Forgets the connection at once, and tells the peer so.
void tern_stream_abort(void);

#endif
