#include "util/prng.h"

enum { ROUNDS = 10, WORDS = 4 };

// Computes one block of Philox 4x32-10, with the paper's constants.
static void philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

void tern_prng_init(struct tern_prng *rng, uint64_t seed, enum tern_prng_purpose purpose,
                    uint32_t a, uint32_t b)
{
    *rng = (struct tern_prng){
        .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
        .counter = {0, (uint32_t)purpose << 16, a, b},
        .used = WORDS,
    };
}

uint32_t tern_prng_u32(struct tern_prng *rng)
{
    if (rng->used == WORDS) {
        philox(rng->key, rng->counter, rng->block);
        rng->used = 0;
        rng->counter[0]++;
        rng->counter[1] += rng->counter[0] == 0;
    }
    return rng->block[rng->used++];
}

void tern_prng_seek(struct tern_prng *rng, uint64_t index)
{
    uint64_t block = index / WORDS;
    rng->counter[0] = (uint32_t)block;
    rng->counter[1] = (rng->counter[1] & 0xffff0000u) | (uint32_t)(block >> 32);
    rng->used = WORDS;
    for (uint64_t skip = index % WORDS; skip > 0; skip--) {
        tern_prng_u32(rng);
    }
}

enum { LANES = 32 };

// Computes the next LANES blocks in parallel, one in each lane. With fewer lanes, gcc unrolls the
// loops instead of vectorising them.
static void philox_lanes(struct tern_prng *rng, uint32_t out[LANES * WORDS])
{
    uint32_t k0 = rng->key[0], k1 = rng->key[1];
    uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
    for (unsigned lane = 0; lane < LANES; lane++) {
        c0[lane] = rng->counter[0];
        c1[lane] = rng->counter[1];
        c2[lane] = rng->counter[2];
        c3[lane] = rng->counter[3];
        rng->counter[0]++;
        rng->counter[1] += rng->counter[0] == 0;
    }
    for (int i = 0; i < ROUNDS; i++) {
        for (unsigned lane = 0; lane < LANES; lane++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c0[lane];
            uint64_t p1 = (uint64_t)0xCD9E8D57u * c2[lane];
            c0[lane] = (uint32_t)(p1 >> 32) ^ c1[lane] ^ k0;
            c1[lane] = (uint32_t)p1;
            c2[lane] = (uint32_t)(p0 >> 32) ^ c3[lane] ^ k1;
            c3[lane] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (unsigned lane = 0; lane < LANES; lane++) {
        out[WORDS * lane] = c0[lane];
        out[WORDS * lane + 1] = c1[lane];
        out[WORDS * lane + 2] = c2[lane];
        out[WORDS * lane + 3] = c3[lane];
    }
}

void tern_prng_fill(struct tern_prng *rng, uint32_t *draws, size_t count)
{
    size_t i = 0;
    while (i < count && rng->used < WORDS) {
        draws[i++] = tern_prng_u32(rng);
    }
    for (; count - i >= LANES * WORDS; i += LANES * WORDS) {
        philox_lanes(rng, draws + i);
    }
    while (i < count) {
        draws[i++] = tern_prng_u32(rng);
    }
}

uint32_t tern_prng_below(struct tern_prng *rng, uint32_t bound)
{
    // Lemire 2019: returns the high word of draw * bound, and draws again where a value would be
    // too frequent.
    uint32_t favoured = (0u - bound) % bound;
    uint64_t product;
    do {
        product = (uint64_t)tern_prng_u32(rng) * bound;
    } while ((uint32_t)product < favoured);
    return (uint32_t)(product >> 32);
}

float tern_prng_float(struct tern_prng *rng)
{
    return (float)(tern_prng_u32(rng) >> 8) * 0x1p-24f;
}
