// How many TLS handshakes an address may begin, on one loop. Each costs the loop a millisecond or two, which all of
// its connections wait for. An address begins `per_address` of them at once; each frees its turn when it succeeds, and
// otherwise, failed or stalled, by time: per_address turns a second. For the loop's thread alone.
#ifndef TERN_HTTP_HANDSHAKES_H
#define TERN_HTTP_HANDSHAKES_H

#include "http/http.h"

struct tern_handshakes;

// NULL when memory is short.
struct tern_handshakes *tern_handshakes_new(uint32_t per_address);
void tern_handshakes_limit(struct tern_handshakes *handshakes, uint32_t per_address); // from now on
void tern_handshakes_free(struct tern_handshakes *handshakes); // NULL is nothing

// Whether another of the address may begin, which takes a turn. False also when memory is short.
bool tern_handshakes_begin(struct tern_handshakes *handshakes, const struct tern_address *address,
                           uint64_t now_ms);
// One that has begun has succeeded: its turn is free at once.
void tern_handshakes_succeed(struct tern_handshakes *handshakes, const struct tern_address *address,
                             uint64_t now_ms);

// Forgets the addresses whose turns are all free. Now and then.
void tern_handshakes_sweep(struct tern_handshakes *handshakes, uint64_t now_ms);

#endif
