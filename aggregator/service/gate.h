// Authenticates clients by bearer tokens and pre-shared keys, recognises join codes, and limits the rates of requests.
// Listeners' threads call it before a body is read; the service thread loads it from the database. Any
// thread, except allowances, which their owner locks.
#ifndef TERN_GATE_H
#define TERN_GATE_H

#include "http/http.h"
#include "result.h"
#include "store/store.h"
#include "util/sha256.h"
#include "wire/wire.h"
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- Allowances: rates per minute

// A leaky bucket that holds one minute's requests. All zero at first.
struct tern_allowance {
    double used; // requests, as of at_ms; falls at the rate
    uint64_t at_ms;
};

// Takes one request out of the allowance. Returns 0, or the seconds after which to try again. per_minute > 0.
uint32_t tern_allowance_take(struct tern_allowance *allowance, uint32_t per_minute,
                             uint64_t now_ms);

// Addresses share this many allowances, so that a flood from many addresses does not use more memory. A random seed
// assigns them, so that nobody can choose addresses that share another one's allowance.
#define TERN_ADDRESS_SLOTS 4096

struct tern_address_allowances {
    uint8_t seed[16]; // of the hash that assigns slots
    struct tern_allowance slots[TERN_ADDRESS_SLOTS];
};

// Sets the seed of *allowances, which is all zero. TERN_ERR_IO: no random bytes are available.
TERN_MUST_USE enum tern_result
tern_address_allowances_init(struct tern_address_allowances *allowances);

// Returns the allowance of an address. code_hash: the allowance is for this join code alone; NULL = none.
struct tern_allowance *tern_allowance_of(struct tern_address_allowances *allowances,
                                         const struct tern_address *address,
                                         const uint8_t code_hash[TERN_SHA256_SIZE]);

// --- Pre-shared keys

// The keys of clients that use one, in memory, since handshakes must not wait for the database.

struct tern_psk_keys {
    pthread_rwlock_t lock;
    struct tern_db_psk *entries; // ascending by client
    size_t count;
};

void tern_psk_keys_init(struct tern_psk_keys *keys);
void tern_psk_keys_free(struct tern_psk_keys *keys);

// Replaces all keys by those in the store. On an error the keys are unchanged.
// TERN_ERR_NO_MEMORY, TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_psk_keys_load(struct tern_psk_keys *keys, struct tern_db *db);

// Whether the client has a key; a revoked client has none. key: receives TERN_PSK_SIZE bytes if so; may be NULL.
bool tern_psk_keys_find(struct tern_psk_keys *keys, uint64_t client, uint8_t *key);

// --- Tokens, join codes and rates

struct tern_db;
struct tern_gate;

// Rates are per minute; 0 = no limit. NULL when memory is short, or no random bytes are available.
struct tern_gate *tern_gate_new(uint32_t requests_per_minute, uint32_t enrollments_per_minute);
// Sets new rates.
void tern_gate_set_rates(struct tern_gate *gate, uint32_t requests_per_minute,
                         uint32_t enrollments_per_minute);
void tern_gate_free(struct tern_gate *gate);

// Adds a client, or changes whether it is revoked. name: the common name that the client's certificate must have, if it
// sends one. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_gate_set_client(struct tern_gate *gate, uint64_t client,
                                                    const uint8_t token_hash[TERN_SHA256_SIZE],
                                                    const char *name, bool revoked);

// Finds the client of an Authorization header. TERN_ERR_UNAUTHORIZED: the token is missing, malformed, unknown or revoked.
TERN_MUST_USE enum tern_result tern_gate_client(struct tern_gate *gate, const char *authorization,
                                                uint64_t *client);

// Whether the header has a well-formed token that no client has, not even a revoked one.
bool tern_gate_is_unknown_token(struct tern_gate *gate, const char *authorization);

// Whether the client exists and is not revoked.
bool tern_gate_admits(struct tern_gate *gate, uint64_t client);

// Whether the client has this name.
bool tern_gate_is_named(struct tern_gate *gate, uint64_t client, const char *name);

// Loads all join codes, including used and expired ones. On an error of tern_db_codes(), or TERN_ERR_NO_MEMORY, the codes
// are unchanged.
TERN_MUST_USE enum tern_result tern_gate_load_codes(struct tern_gate *gate, struct tern_db *db);

// Takes a request out of the client's allowance. Returns 0, or the seconds after which to try again.
uint32_t tern_gate_request(struct tern_gate *gate, uint64_t client, uint64_t now_ms);
// Takes an enrolment out of the address's allowance for this code; unknown codes share one allowance, so that guesses do
// not use up the allowance of a real code. code_hash: NULL if the request has no readable code. Returns like
// tern_gate_request().
uint32_t tern_gate_enrollment(struct tern_gate *gate, const struct tern_address *address,
                              const uint8_t code_hash[TERN_SHA256_SIZE], uint64_t now_ms);

// Removes the clients with this id and above, because their enrolment was not committed.
void tern_gate_remove_from(struct tern_gate *gate, uint64_t first);

#endif
