// The compression function of SHA-256 where sha256.c does not have to bring it. Reentrant.
#ifndef TERN_SHA256_BLOCKS_H
#define TERN_SHA256_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

// FIPS 180-4, section 4.2.2.
extern const uint32_t tern_sha256_constants[64];

// A board's compiler knows its processor; only hosted programs have to ask at run time.
// TERN_SHA256_PORTABLE  leaves it out, for the test that compares the two.
#if defined(__x86_64__) && __STDC_HOSTED__ && !defined(TERN_SHA256_PORTABLE)
#define TERN_SHA256_X86 1

// Hashes whole blocks into h when this processor has the SHA extensions, else returns false.
_Bool tern_sha256_x86(uint32_t h[8], const uint8_t *data, size_t blocks);
#endif

// Hashes whole blocks into h. Programs built with TERN_SHA256_DEVICE bring it, of their TLS library
// or in hardware, instead of having a second one.
void tern_sha256_device(uint32_t h[8], const uint8_t *data, size_t blocks);

#endif
