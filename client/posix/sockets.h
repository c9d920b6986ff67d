// Meters the sockets of one transport by the kernel's counters. Called by transport.c from the transport's thread.
//
// Linux before 4.19 does not count bytes in TCP_INFO, and qemu's user emulation does not pass them on. There the bytes
// handed to TLS are counted, and the overhead of records, handshakes, segments and acknowledgements is estimated for a
// link without losses.
#ifndef TERN_POSIX_SOCKETS_H
#define TERN_POSIX_SOCKETS_H

#include "meter/meter.h"
#include <stdbool.h>
#include <stddef.h>

#define TERN_SOCKETS_MAX 4 // libcurl races an IPv6 against an IPv4 address

struct tern_socket_reading {
    int fd;      // -1: free
    bool ended;  // the peer's FIN has arrived
    bool opened; // the TLS handshake is complete
    struct tern_socket_counters before;
};

struct tern_sockets {
    struct tern_socket_reading sockets[TERN_SOCKETS_MAX];
    struct tern_meter meter;
    bool counted;                          // the kernel counts bytes; else they are estimated
    uint32_t header;                       // estimated header bytes of a segment
    uint64_t handed[TERN_DIRECTION_COUNT]; // bytes to and from TLS on all sockets
    // bytes of handed[] that the meter's estimate includes
    uint64_t estimated[TERN_DIRECTION_COUNT];
};

// Whether this kernel counts the bytes of its sockets.
bool tern_sockets_are_counted(void);

void tern_sockets_init(struct tern_sockets *sockets);

// Adds a new socket; its counters start at zero.
void tern_sockets_add(struct tern_sockets *sockets, int fd);

// Called when the newest connection's handshake is complete. resumed: it used an earlier session.
void tern_sockets_opened(struct tern_sockets *sockets, bool resumed);

// Counts bytes of HTTP that were handed to TLS or received from it.
void tern_sockets_count_traffic(struct tern_sockets *sockets, enum tern_purpose purpose,
                                enum tern_direction direction, size_t len);

// Meters the bytes on all sockets since the last reading.
void tern_sockets_read(struct tern_sockets *sockets, enum tern_purpose purpose);

// Delays acknowledgements of answers until the next request. Called before each request, since the kernel resets the
// option after it has sent an acknowledgement alone.
void tern_sockets_delay_acknowledgements(const struct tern_sockets *sockets);

// A number that changes when the peer of any socket has acknowledged or sent something.
uint64_t tern_sockets_moved(const struct tern_sockets *sockets);

// Meters a socket that is about to be closed for the last time, including its closing segments.
void tern_sockets_remove(struct tern_sockets *sockets, int fd, enum tern_purpose purpose);

#endif
