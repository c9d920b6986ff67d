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
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- Allowances: rates per minute

// A leaky bucket that holds one minute's requests. All zero at first.
struct tern_allowance {
    double used; // requests, as of at_ms; falls at the rate
    uint64_t at_ms;
};

// Addresses share this many allowances, so that a flood from many addresses does not use more memory. A random seed
// assigns them, so that nobody can choose addresses that share another one's allowance.
#define TERN_ADDRESS_SLOTS 4096

struct tern_address_allowances {
    uint8_t seed[16]; // of the hash that assigns slots
    struct tern_allowance slots[TERN_ADDRESS_SLOTS];
};

// --- Pre-shared keys

// The keys of clients that use one, in memory, since handshakes must not wait for the database.

struct tern_psk_keys {
    pthread_rwlock_t lock;
    struct tern_db_psk *entries; // ascending by client
    size_t count;
};

// --- Tokens, join codes and rates

struct tern_db;
struct tern_gate;

// Rates are per minute; 0 = no limit. NULL when memory is short, or no random bytes are available.
struct tern_gate *tern_gate_new(uint32_t requests_per_minute, uint32_t enrollments_per_minute);
void tern_gate_free(struct tern_gate *gate);

// Adds a client, or changes whether it is revoked. name: the common name that the client's certificate must have, if it
// sends one. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_gate_set_client(struct tern_gate *gate, uint64_t client,
                                                    const uint8_t token_hash[TERN_SHA256_SIZE],
                                                    const char *name, bool revoked);

// Finds the client of an Authorization header. TERN_ERR_UNAUTHORIZED: the token is missing, malformed, unknown or revoked.
TERN_MUST_USE enum tern_result tern_gate_client(struct tern_gate *gate, const char *authorization,
                                                uint64_t *client);

// Takes an enrolment out of the address's allowance for this code; unknown codes share one allowance, so that guesses do
// not use up the allowance of a real code. code_hash: NULL if the request has no readable code. Returns like
// tern_gate_request().
uint32_t tern_gate_enrollment(struct tern_gate *gate, const struct tern_address *address,
                              const uint8_t code_hash[TERN_SHA256_SIZE], uint64_t now_ms);

// Removes the clients with this id and above, because their enrolment was not committed.
void tern_gate_remove_from(struct tern_gate *gate, uint64_t first);

// --- Access log

// Writes log lines about requests and handshakes within limits, so that a flood does not fill the disk, and counts the
// dropped lines.
struct tern_access_log {
    pthread_mutex_t lock;
    _Atomic uint32_t requests; // enum tern_logged_requests
    uint32_t per_minute;
    struct tern_allowance lines;
    struct tern_allowance failures;
    struct tern_address_allowances addresses; // of failures
    uint64_t lines_dropped;                   // since reported_ms
    uint64_t failures_dropped;
    uint64_t reported_ms;
};

// Logs how many lines were dropped, at most once a minute. now_ms: UINT64_MAX = at once.
void tern_access_log_report_dropped(struct tern_access_log *log, uint64_t now_ms);

#endif
