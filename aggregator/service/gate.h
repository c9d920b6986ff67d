// Who may come in: the table of bearer tokens and the request rates. The listeners' threads ask it
// before a body is read; the service thread fills it. Safe from any thread.
#ifndef TERN_GATE_H
#define TERN_GATE_H

#include "http/http.h"
#include "result.h"
#include "util/sha256.h"
#include <stdbool.h>
#include <stdint.h>

struct tern_db;
struct tern_gate;

// Rates are per minute; 0 = no limit. NULL when memory or random bytes
// cannot be had.
struct tern_gate *tern_gate_new(uint32_t requests_per_minute, uint32_t enrollments_per_minute);
// From now on. Any thread.
void tern_gate_limit(struct tern_gate *gate, uint32_t requests_per_minute,
                     uint32_t enrollments_per_minute);
void tern_gate_free(struct tern_gate *gate);

// Adds a client, or changes whether it is revoked. name: as its certificate has it, if it shows one; its
// hash is kept. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_gate_put(struct tern_gate *gate, uint64_t client,
                                             const uint8_t token_hash[TERN_SHA256_SIZE],
                                             const char *name, bool revoked);

// Finds the client of an Authorization header. Whatever is wrong (missing, malformed, unknown,
// revoked), the answer is TERN_ERR_UNAUTHORIZED and nothing tells which.
TERN_MUST_USE enum tern_result tern_gate_client(struct tern_gate *gate, const char *authorization,
                                                uint64_t *client);

// Whether it is a well-formed token of nobody, revoked clients included.
bool tern_gate_is_strange(struct tern_gate *gate, const char *authorization);

// Whether there is such a client, and it was not revoked.
bool tern_gate_admits(struct tern_gate *gate, uint64_t client);

// Whether the client has this name.
bool tern_gate_is_named(struct tern_gate *gate, uint64_t client, const char *name);

// Reads which join codes there are, used and expired ones included. An error of tern_db_codes(), or
// TERN_ERR_NO_MEMORY: the codes from before stay.
TERN_MUST_USE enum tern_result tern_gate_load_codes(struct tern_gate *gate, struct tern_db *db);

// Takes one request of a client, or one enrolment of an address, out of its allowance.
// Returns 0, or in how many seconds to try again.
uint32_t tern_gate_request(struct tern_gate *gate, uint64_t client, uint64_t now_ms);
// code_hash: NULL if the request has no readable code. An address has an allowance for each code of this federation,
// and one for unknown codes. So whoever tries codes, or has a used one, uses up no other code's.
uint32_t tern_gate_enrollment(struct tern_gate *gate, const struct tern_address *address,
                              const uint8_t code_hash[TERN_SHA256_SIZE], uint64_t now_ms);

// Shuts out the clients from that id on: their enrolment did not reach the disk.
void tern_gate_forget(struct tern_gate *gate, uint64_t first);

#endif
