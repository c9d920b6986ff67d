// SHA-256 (FIPS 180-4) for content addresses, the replica chain and model hashes. Not from a library, because shared/ is
// freestanding and the mbedTLS build of a board may lack it. Pure; caller-owned state; reentrant.
#ifndef TERN_UTIL_SHA256_H
#define TERN_UTIL_SHA256_H

#include <stdbool.h>
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

// Hashes data[0..len) in one call.
void tern_sha256(const void *data, size_t len, uint8_t digest[TERN_SHA256_SIZE]);

// --- For sha256.c, and for boards that implement the compression function

// The round constants, FIPS 180-4, section 4.2.2.
extern const uint32_t tern_sha256_constants[64];

// Only hosted programs test at run time whether the processor has the SHA extensions. The test that
// compares both implementations defines
// TERN_SHA256_PORTABLE to build without the extensions.
#if defined(__x86_64__) && __STDC_HOSTED__ && !defined(TERN_SHA256_PORTABLE)
#define TERN_SHA256_X86 1

// Hashes whole blocks into h; false: this processor lacks the SHA extensions, and h is unchanged.
bool tern_sha256_x86(uint32_t h[8], const uint8_t *data, size_t blocks);
#endif

// Hashes whole blocks into h. A firmware built with TERN_SHA256_DEVICE implements it with its TLS library or hardware,
// so that the image has one SHA-256.
void tern_sha256_device(uint32_t h[8], const uint8_t *data, size_t blocks);

#ifdef __cplusplus
}
#endif

#endif
