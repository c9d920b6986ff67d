// The sockets of one transport and what the kernel counted on them. Used by transport.c alone.
#ifndef TERN_POSIX_SOCKETS_H
#define TERN_POSIX_SOCKETS_H

#include "meter/meter.h"
#include <stdbool.h>

#define TERN_SOCKETS_MAX 4 // libcurl races an IPv6 against an IPv4 address

struct tern_socket_reading {
    int fd;     // -1: free
    bool ended; // the peer's FIN has arrived
    struct tern_socket_counters before;
};

struct tern_sockets {
    struct tern_socket_reading sockets[TERN_SOCKETS_MAX];
    struct tern_meter meter;
};

void tern_sockets_init(struct tern_sockets *sockets);

// A socket was made; its counters start at zero.
void tern_sockets_add(struct tern_sockets *sockets, int fd);

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
