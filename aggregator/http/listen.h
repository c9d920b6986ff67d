// Makes the listening sockets: one per loop on the same port, or one on a unix path. Called once by
// tern_http_start().
#ifndef TERN_HTTP_LISTEN_H
#define TERN_HTTP_LISTEN_H

#include "result.h"
#include <stdbool.h>
#include <stdint.h>

// The path of "unix:/path", or NULL when the address is none.
const char *tern_listen_unix_path(const char *address);

// Binds `count` sockets (one for a unix path) and listens. *port is the one bound, 0 for unix.
// TERN_ERR_CONFIG   the address cannot be understood
// TERN_ERR_NETWORK  it cannot be bound, or another process already listens there
TERN_MUST_USE enum tern_result tern_listen_open(const char *address, uint16_t port, int *fds,
                                                uint32_t count, uint16_t *bound, char why[256]);

#endif
