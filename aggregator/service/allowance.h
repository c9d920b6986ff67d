// Rates per minute: what is taken drains away evenly, and no more than a minute's worth is given at
// once. Not thread-safe; whoever has one locks.
#ifndef TERN_ALLOWANCE_H
#define TERN_ALLOWANCE_H

#include "http/http.h"
#include "result.h"
#include "util/sha256.h"
#include <stdint.h>

// All zero at first.
struct tern_allowance {
    double used; // drains at the rate
    uint64_t at_ms;
};

// Takes one. Returns 0, or in how many seconds to try again. per_minute > 0.
uint32_t tern_allowance_take(struct tern_allowance *allowance, uint32_t per_minute,
                             uint64_t now_ms);

// Addresses share this many allowances, so that a flood from many addresses cannot grow memory.
// Two that fall on the same one are limited together; which ones do, nobody can know beforehand.
#define TERN_ADDRESS_SLOTS 4096

struct tern_address_allowances {
    uint8_t seed[16]; // of the slots
    struct tern_allowance slots[TERN_ADDRESS_SLOTS];
};

// *allowances is all zero. TERN_ERR_IO: there are no random bytes
TERN_MUST_USE enum tern_result
tern_address_allowances_init(struct tern_address_allowances *allowances);

// code_hash: NULL, or the join code that the allowance is for.
struct tern_allowance *tern_allowance_of(struct tern_address_allowances *allowances,
                                         const struct tern_address *address,
                                         const uint8_t code_hash[TERN_SHA256_SIZE]);

#endif
