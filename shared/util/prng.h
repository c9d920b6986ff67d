// Seeded random numbers. Counter-based (Philox 4x32-10, Salmon et al., SC 2011): the i-th draw of a
// stream depends on (key, i) alone, so results do not depend on order or platform. Not for secrets.
// Pure; caller-owned state; reentrant.
#ifndef TERN_PRNG_H
#define TERN_PRNG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A random stream, identified by up to four numbers, e.g. (seed, purpose, round, client).
struct tern_prng {
    uint32_t key[2];
    uint32_t counter[4]; // [0..1] purpose (top 16 bits) and block index, [2..3] a and b
    uint32_t block[4];
    unsigned used; // words of block[] already returned
};

// The purpose of a stream, the second of its four numbers, so that no two purposes share draws.
enum tern_prng_purpose {
    TERN_PRNG_INIT_WEIGHTS = 1,
    TERN_PRNG_COHORT = 2,
    TERN_PRNG_BATCHES = 3,
    TERN_PRNG_PARTITION = 4,
    TERN_PRNG_DATA = 5,
    TERN_PRNG_CODEC = 6,
    TERN_PRNG_BACKOFF = 7,
    TERN_PRNG_SELECTION = 8,
    TERN_PRNG_TAGS = 9,
    TERN_PRNG_AUTOENCODER = 10,
    TERN_PRNG_PLACES = 11,
    TERN_PRNG_FLEET = 64,
    TERN_PRNG_TEST = 99,
};

void tern_prng_init(struct tern_prng *rng, uint64_t seed, enum tern_prng_purpose purpose,
                    uint32_t a, uint32_t b);

uint32_t tern_prng_u32(struct tern_prng *rng);

// Sets the position: the next draw is draw `index` of the stream. index < 2^50.
void tern_prng_seek(struct tern_prng *rng, uint64_t index);

// Writes the next `count` draws; faster than single draws.
void tern_prng_fill(struct tern_prng *rng, uint32_t *draws, size_t count);

// Returns a uniform number in [0, bound), without modulo bias. bound >= 1.
uint32_t tern_prng_below(struct tern_prng *rng, uint32_t bound);

// Returns a uniform number in [0, 1), a multiple of 2^-24.
float tern_prng_float(struct tern_prng *rng);

#ifdef __cplusplus
}
#endif

#endif
