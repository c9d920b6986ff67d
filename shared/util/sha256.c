#include "util/sha256.h"

#include <string.h>

// Fractional parts of the square roots of the first 8 primes (section 5.3.3).
static const uint32_t initial_hash[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

// --- Blocks

#ifdef TERN_SHA256_DEVICE
#define compress_blocks tern_sha256_device
#else
// Fractional parts of the cube roots of the first 64 primes (FIPS 180-4, section 4.2.2).
const uint32_t tern_sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static void expand_schedule(const uint8_t block[64], uint32_t w[64])
{
    for (unsigned t = 0; t < 16; t++) {
        const uint8_t *word = block + (size_t)t * 4;
        w[t] = (uint32_t)word[0] << 24 | (uint32_t)word[1] << 16 | (uint32_t)word[2] << 8 | word[3];
    }
    for (unsigned t = 16; t < 64; t++) {
        uint32_t a = w[t - 15];
        uint32_t b = w[t - 2];
        uint32_t sigma0 = rotate_right(a, 7) ^ rotate_right(a, 18) ^ a >> 3;
        uint32_t sigma1 = rotate_right(b, 17) ^ rotate_right(b, 19) ^ b >> 10;
        w[t] = w[t - 16] + sigma0 + w[t - 7] + sigma1;
    }
}

static void compress(uint32_t h[8], const uint8_t block[64])
{
    uint32_t w[64];
    expand_schedule(block, w);
    uint32_t a = h[0], b = h[1], c = h[2], d = h[3];
    uint32_t e = h[4], f = h[5], g = h[6], last = h[7];
    for (unsigned t = 0; t < 64; t++) {
        uint32_t sum1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
        uint32_t choose = (e & f) ^ (~e & g);
        uint32_t t1 = last + sum1 + choose + tern_sha256_constants[t] + w[t];
        uint32_t sum0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
        uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
        last = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + sum0 + majority;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
    h[5] += f;
    h[6] += g;
    h[7] += last;
}

static void compress_blocks(uint32_t h[8], const uint8_t *data, size_t blocks)
{
#ifdef TERN_SHA256_X86
    if (tern_sha256_x86(h, data, blocks)) {
        return;
    }
#endif
    for (; blocks > 0; blocks--, data += 64) {
        compress(h, data);
    }
}
#endif

// --- Messages

void tern_sha256_init(struct tern_sha256 *ctx)
{
    memcpy(ctx->h, initial_hash, sizeof ctx->h);
    ctx->length = 0;
}

void tern_sha256_update(struct tern_sha256 *ctx, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    size_t held = (size_t)(ctx->length % 64);
    ctx->length += len;
    while (len > 0) {
        if (held == 0 && len >= 64) {
            size_t blocks = len / 64;
            compress_blocks(ctx->h, bytes, blocks);
            bytes += 64 * blocks;
            len -= 64 * blocks;
            continue;
        }
        size_t part = len < 64 - held ? len : 64 - held;
        memcpy(ctx->block + held, bytes, part);
        held += part;
        bytes += part;
        len -= part;
        if (held == 64) {
            compress_blocks(ctx->h, ctx->block, 1);
            held = 0;
        }
    }
}

static void put_be32(uint8_t *dst, uint32_t value)
{
    dst[0] = (uint8_t)(value >> 24);
    dst[1] = (uint8_t)(value >> 16);
    dst[2] = (uint8_t)(value >> 8);
    dst[3] = (uint8_t)value;
}

void tern_sha256_final(struct tern_sha256 *ctx, uint8_t digest[TERN_SHA256_SIZE])
{
    uint64_t bits = ctx->length * 8;
    size_t held = (size_t)(ctx->length % 64);
    ctx->block[held++] = 0x80;
    if (held > 56) {
        memset(ctx->block + held, 0, 64 - held);
        compress_blocks(ctx->h, ctx->block, 1);
        held = 0;
    }
    memset(ctx->block + held, 0, 56 - held);
    put_be32(ctx->block + 56, (uint32_t)(bits >> 32));
    put_be32(ctx->block + 60, (uint32_t)bits);
    compress_blocks(ctx->h, ctx->block, 1);
    for (size_t i = 0; i < 8; i++) {
        put_be32(digest + 4 * i, ctx->h[i]);
    }
}

void tern_sha256(const void *data, size_t len, uint8_t digest[TERN_SHA256_SIZE])
{
    struct tern_sha256 ctx;
    tern_sha256_init(&ctx);
    tern_sha256_update(&ctx, data, len);
    tern_sha256_final(&ctx, digest);
}
