#include "service/allowance.h"

#include "hosted/random.h"
#include "util/bytes.h"

uint32_t tern_allowance_take(struct tern_allowance *allowance, uint32_t per_minute, uint64_t now_ms)
{
    double rate = (double)per_minute / 60000.0; // per ms
    if (now_ms > allowance->at_ms) {
        double drained = (double)(now_ms - allowance->at_ms) * rate;
        allowance->used = allowance->used > drained ? allowance->used - drained : 0.0;
        allowance->at_ms = now_ms;
    }
    double over = allowance->used + 1.0 - (double)per_minute;
    if (over > 0.0) {
        return (uint32_t)(over / rate / 1000.0) + 1;
    }
    allowance->used += 1.0;
    return 0;
}

enum tern_result tern_address_allowances_init(struct tern_address_allowances *allowances)
{
    return tern_random_fill(allowances->seed, sizeof allowances->seed);
}

struct tern_allowance *tern_allowance_of(struct tern_address_allowances *allowances,
                                         const struct tern_address *address,
                                         const uint8_t code_hash[TERN_SHA256_SIZE])
{
    struct tern_sha256 sha;
    uint8_t hash[TERN_SHA256_SIZE];
    tern_sha256_init(&sha);
    tern_sha256_update(&sha, allowances->seed, sizeof allowances->seed);
    tern_sha256_update(&sha, address->bytes, sizeof address->bytes);
    if (code_hash != NULL) {
        tern_sha256_update(&sha, code_hash, TERN_SHA256_SIZE);
    }
    tern_sha256_final(&sha, hash);
    return &allowances->slots[tern_get_le32(hash) % TERN_ADDRESS_SLOTS];
}
