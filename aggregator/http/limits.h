// The listener's limits: their defaults, and the count of open connections in all and per address.
// Called by the server (once) and by each loop when a connection opens and closes. Thread-safe.
#ifndef TERN_HTTP_LIMITS_H
#define TERN_HTTP_LIMITS_H

#include "http/http.h"
#include <stdbool.h>
#include <sys/socket.h>

// Replaces every 0 by its documented default, and raises body_memory and body_disk to body_bytes.
void tern_limits_fill(struct tern_http_limits *limits);

// What a peer's connections are counted by. Any other family than IPv4 and IPv6 gives zero.
struct tern_address tern_address_of(const struct sockaddr_storage *name);

struct tern_admission;

// NULL when memory is short.
struct tern_admission *tern_admission_new(uint32_t connections, uint32_t per_address);
void tern_admission_free(struct tern_admission *admission);

// True when one more connection from the address is within both limits; it is counted then, until
// tern_admission_leave().
bool tern_admission_enter(struct tern_admission *admission, const struct tern_address *address);
void tern_admission_leave(struct tern_admission *admission, const struct tern_address *address);

uint32_t tern_admission_open(struct tern_admission *admission);

#endif
