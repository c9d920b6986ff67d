// Opens the non-blocking TCP sockets of a ring. Used from one thread. Only the lookup of a host name may block.
#ifndef TERN_RING_SOCKET_H
#define TERN_RING_SOCKET_H

#include "result.h"
#include <stdint.h>

// TERN_ERR_CONFIG  cannot listen there; why has the reason
TERN_MUST_USE enum tern_result tern_ring_listen(const char *address, uint16_t port, int *fd,
                                                char why[256]);

// Returns a connecting socket, or -1.
int tern_ring_dial(const char *address, uint16_t port);

// Returns the next waiting connection, or -1.
int tern_ring_accept(int listener);

#endif
