// The TCP sockets of a ring, none of which ever waits. From one thread; names of hosts are looked up by the
// operating system, which may take its time.
#ifndef TERN_RING_SOCKET_H
#define TERN_RING_SOCKET_H

#include "result.h"
#include <stdint.h>

// TERN_ERR_CONFIG  nobody can listen there; *why says why
TERN_MUST_USE enum tern_result tern_ring_listen(const char *address, uint16_t port, int *fd,
                                                char why[256]);

// A socket that connects, or -1.
int tern_ring_dial(const char *address, uint16_t port);

// The next connection that waits, or -1.
int tern_ring_accept(int listener);

#endif
