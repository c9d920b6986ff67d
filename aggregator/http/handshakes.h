// Whose TLS handshakes go on now, on one loop: each costs it a millisecond or two, which all of its
// connections wait for, so an address has a bounded number of them under way. One that failed keeps
// its place for as long as it takes to refill: who throws handshakes away begins at most
// per_address of them a second. For the loop's thread alone.
#ifndef TERN_HTTP_HANDSHAKES_H
#define TERN_HTTP_HANDSHAKES_H

#include "http/http.h"

struct tern_handshakes;

// NULL when memory is short.
struct tern_handshakes *tern_handshakes_new(uint32_t per_address);
void tern_handshakes_limit(struct tern_handshakes *handshakes, uint32_t per_address); // from now on
void tern_handshakes_free(struct tern_handshakes *handshakes); // NULL is nothing

// Whether another of the address may begin, which is then under way until it is ended. False also
// when memory is short.
bool tern_handshakes_begin(struct tern_handshakes *handshakes, const struct tern_address *address,
                           uint64_t now_ms);
void tern_handshakes_end(struct tern_handshakes *handshakes, const struct tern_address *address,
                         bool failed, uint64_t now_ms);

// Forgets the addresses that have none under way and whose failures are over. Now and then.
void tern_handshakes_sweep(struct tern_handshakes *handshakes, uint64_t now_ms);

#endif
