// Limits the TLS handshakes that an address begins on one loop. Each takes the loop a millisecond or two, which delays
// all its connections. An address begins `per_address` handshakes at once. A successful one frees its turn at once;
// failed and stalled ones free per_address turns a second. For the loop's thread alone.
#ifndef TERN_HTTP_HANDSHAKES_H
#define TERN_HTTP_HANDSHAKES_H

#include "http/http.h"

struct tern_handshakes;

// NULL when memory is short.
struct tern_handshakes *tern_handshakes_new(uint32_t per_address);
void tern_handshakes_limit(struct tern_handshakes *handshakes, uint32_t per_address); // from now on
void tern_handshakes_free(struct tern_handshakes *handshakes); // NULL is nothing

// Takes a turn of the address. False: no turn is free, or out of memory.
bool tern_handshakes_begin(struct tern_handshakes *handshakes, const struct tern_address *address,
                           uint64_t now_ms);
// A handshake has succeeded: frees its turn at once.
void tern_handshakes_succeed(struct tern_handshakes *handshakes, const struct tern_address *address,
                             uint64_t now_ms);

// Drops the addresses whose turns are all free. Call it now and then.
void tern_handshakes_sweep(struct tern_handshakes *handshakes, uint64_t now_ms);

#endif
