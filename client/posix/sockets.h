// The sockets of one transport and what the kernel counted on them. Used by transport.c alone.
//
// Linux before 4.19 does not count bytes in TCP_INFO, nor does qemu's user emulation hand them on. There
// what is handed to TLS is counted, and records, handshakes, segments and acknowledgements are added as
// they would be on a link that loses nothing.
#ifndef TERN_POSIX_SOCKETS_H
#define TERN_POSIX_SOCKETS_H

#include "meter/meter.h"
#include <stdbool.h>
#include <stddef.h>

#define TERN_SOCKETS_MAX 4 // libcurl races an IPv6 against an IPv4 address

struct tern_socket_reading {
    int fd;      // -1: free
    bool ended;  // the peer's FIN has arrived
    bool opened; // TLS has shaken hands
    struct tern_socket_counters before;
};

struct tern_sockets {
    struct tern_socket_reading sockets[TERN_SOCKETS_MAX];
    struct tern_meter meter;
    bool counted;                            // by the kernel; else estimated
    uint32_t header;                         // bytes of a segment, where they are estimated
    uint64_t handed[TERN_DIRECTION_COUNT];   // to and from TLS, on all sockets
    uint64_t reckoned[TERN_DIRECTION_COUNT]; // of these, those whose estimate the meter has
};

// Whether this kernel counts the bytes of its sockets.
bool tern_sockets_are_counted(void);

void tern_sockets_init(struct tern_sockets *sockets);

// A socket was made; its counters start at zero.
void tern_sockets_add(struct tern_sockets *sockets, int fd);

// The newest connection's handshake is over. resumed: by a session that was there.
void tern_sockets_opened(struct tern_sockets *sockets, bool resumed);

// Bytes of HTTP were handed to TLS, or came from it.
void tern_sockets_hand(struct tern_sockets *sockets, enum tern_purpose purpose,
                       enum tern_direction direction, size_t len);

// Counts what passed on all sockets since the last reading.
void tern_sockets_read(struct tern_sockets *sockets, enum tern_purpose purpose);

// Lets acknowledgements of answers wait for the next request. The kernel forgets that when one had to
// be sent alone, so it is said again before each.
void tern_sockets_delay_acknowledgements(const struct tern_sockets *sockets);

// A number that changes when the peer of any socket has acknowledged or sent something.
uint64_t tern_sockets_moved(const struct tern_sockets *sockets);

// The last reading of a socket that is about to be closed, with its closing segments.
void tern_sockets_remove(struct tern_sockets *sockets, int fd, enum tern_purpose purpose);

#endif
