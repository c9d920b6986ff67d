// The listener's limits: their defaults, and what limits per address count by.
#ifndef TERN_HTTP_LIMITS_H
#define TERN_HTTP_LIMITS_H

#include "http/http.h"
#include <arpa/inet.h>
#include <sys/socket.h>

// Replaces every 0 by its documented default, and raises body_memory and body_disk to body_bytes.
void tern_limits_fill(struct tern_http_limits *limits);

// What a peer's connections are counted by. Any other family than IPv4 and IPv6 gives zero.
struct tern_address tern_address_of(const struct sockaddr_storage *name);

// The address as people write it, without the port; "unix" of any other family.
void tern_address_text(const struct sockaddr_storage *name, char text[INET6_ADDRSTRLEN]);

#endif
