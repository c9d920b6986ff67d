// SHA-256 (FIPS 180-4) for content addresses, the replica chain and model
// hashes. Own code because shared/ is freestanding and the mbedTLS build of a
// board may lack it. Pure; caller-owned state; reentrant.
#ifndef TERN_SHA256_H
#define TERN_SHA256_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_SHA256_SIZE 32

struct tern_sha256 {
    uint32_t h[8];
    uint64_t length; // bytes hashed so far
    uint8_t block[64];
};

void tern_sha256_init(struct tern_sha256 *ctx);
void tern_sha256_update(struct tern_sha256 *ctx, const void *data, size_t len);
void tern_sha256_final(struct tern_sha256 *ctx, uint8_t digest[TERN_SHA256_SIZE]);

// The three calls above in one.
void tern_sha256(const void *data, size_t len, uint8_t digest[TERN_SHA256_SIZE]);

#ifdef __cplusplus
}
#endif

#endif
