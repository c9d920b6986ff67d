// Authenticates clients by bearer tokens and pre-shared keys, recognises join codes, and limits the rates of requests.
// Listeners' threads call it before a body is read; the service thread loads it from the database. Any
// thread, except allowances, which their owner locks.
#ifndef TERN_SERVICE_FRONT_H
#define TERN_SERVICE_FRONT_H

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

// A leaky bucket with a capacity of one minute's requests. Initialize all members with zeros.
struct tern_allowance {
    double used; // used requests at the time at_ms; falls by the rate
    uint64_t at_ms;
};

// All addresses share this many allowances, so that a flood from many addresses does not use more memory. A hash with a
// random seed assigns the allowances, so that nobody can choose an address that shares the allowance of a given other
// address.
#define TERN_ADDRESS_SLOTS 4096

struct tern_address_allowances {
    uint8_t seed[16]; // seed of the hash that assigns slots
    struct tern_allowance slots[TERN_ADDRESS_SLOTS];
};

// --- Pre-shared keys

// The pre-shared keys of clients, in memory, since handshakes must not wait for the database.

struct tern_psk_keys {
    pthread_rwlock_t lock;
    struct tern_db_psk *entries; // sorted by client
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

// Takes an enrolment out of the address's allowance for this code; all unknown codes share one allowance, so that
// guesses do not use up the allowance of a real code. code_hash: NULL if the request has no readable code. Returns 0,
// or the seconds after which to try again.
uint32_t tern_gate_enrollment(struct tern_gate *gate, const struct tern_address *address,
                              const uint8_t code_hash[TERN_SHA256_SIZE], uint64_t now_ms);

// Removes the clients with ids from `first` on, because their enrolments were not committed.
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
    struct tern_address_allowances addresses; // for lines about wrong credentials
    uint64_t lines_dropped;                   // since reported_ms
    uint64_t failures_dropped;
    uint64_t reported_ms;
};

// Logs how many lines were dropped, at most once a minute. now_ms: UINT64_MAX = without waiting for the minute's end.
void tern_access_log_report_dropped(struct tern_access_log *log, uint64_t now_ms);

#endif
