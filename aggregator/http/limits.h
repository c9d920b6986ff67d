// The listener's limits: their defaults, and the count of open connections in all and per address.
// Called by the server (once) and by each loop when a connection opens and closes. Thread-safe.
#ifndef TERN_HTTP_LIMITS_H
#define TERN_HTTP_LIMITS_H

#include "http/http.h"
#include <stdbool.h>

// Replaces every 0 by its documented default.
void tern_limits_fill(struct tern_http_limits *limits);

// What connections are counted by: an IPv4 address in its IPv6-mapped form, or the /64 network of
// an IPv6 address, because one subscriber is given at least that much. All zero = not counted per
// address (unix sockets).
struct tern_address {
    uint8_t bytes[16];
};

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
