// Meters the sockets of one transport by the kernel's counters. Implemented by transport.c, which calls it from the
// transport's thread; a test calls it alone.
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
    int fd;           // -1: free
    bool peer_closed; // the peer's FIN has arrived
    bool opened;      // the TLS handshake is complete
    struct tern_socket_counters last_counters;
};

struct tern_sockets {
    struct tern_socket_reading sockets[TERN_SOCKETS_MAX];
    struct tern_meter meter;
    bool counted;                             // the kernel counts bytes; else they are estimated
    uint32_t header;                          // estimated header bytes of a segment
    uint64_t plaintext[TERN_DIRECTION_COUNT]; // bytes to and from TLS on all sockets
    // bytes of plaintext[] that the meter's estimate includes
    uint64_t estimated_bytes[TERN_DIRECTION_COUNT];
};

void tern_sockets_init(struct tern_sockets *sockets);

// Adds a new socket; its counters start at zero.
void tern_sockets_add(struct tern_sockets *sockets, int fd);

// Adds the bytes on all sockets since the last reading to the meter.
void tern_sockets_read(struct tern_sockets *sockets, enum tern_purpose purpose);

// Adds the last bytes of a socket that is about to be closed, including its closing segments, and forgets the socket.
void tern_sockets_remove(struct tern_sockets *sockets, int fd, enum tern_purpose purpose);

#endif
