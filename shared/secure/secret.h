// The cryptography of secure rounds, all of it calls of the PSA Crypto API (mbedTLS 2.28, 3.6 and 4): X25519, HPKE base mode,
// HKDF, ChaCha20 and ECDSA on P-256. Random bytes are arguments. Functions may be called from several threads; a keystream
// belongs to one.
//
// Results of every function beside those listed: TERN_ERR_NO_MEMORY, or TERN_ERR_STATE if the crypto library lacks the
// algorithm or reports another failure.
#ifndef TERN_SECURE_SECRET_H
#define TERN_SECURE_SECRET_H

#include "result.h"
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_SECRET_SIZE                                                                           \
    32 // bytes of every secret: private keys, shared secrets, keys of a keystream
#define TERN_X25519_PUBLIC_SIZE 32  // bytes
#define TERN_P256_PUBLIC_SIZE 65    // bytes: an uncompressed point, 0x04 || x || y
#define TERN_P256_SIGNATURE_SIZE 64 // bytes: r || s, big-endian
#define TERN_HPKE_OVERHEAD                                                                         \
    (32 + 16) // bytes of a sealed message beside its plain text: ephemeral key and tag
#define TERN_KEYSTREAM_BLOCK 64 // bytes
#define TERN_KEYSTREAM_NONCE 12 // bytes

// A range of bytes that is read only.
struct tern_bytes_view {
    const void *data;
    size_t size;
};

// Initialises the crypto library. Call it before every other function; further calls do nothing.
TERN_MUST_USE enum tern_result tern_secret_start(void);

// Overwrites a secret with zeros. The compiler does not remove the writes.
void tern_secret_erase(void *secret, size_t size);

// --- X25519 (RFC 7748)

// Writes the public key of a private one, which may be any 32 random bytes.
TERN_MUST_USE enum tern_result tern_x25519_public(const uint8_t private_key[TERN_SECRET_SIZE],
                                                  uint8_t public_key[TERN_X25519_PUBLIC_SIZE]);

// Writes the shared secret of a private key and another party's public key.
// TERN_ERR_CORRUPT  the shared secret is zero, because the public key has a small order
TERN_MUST_USE enum tern_result tern_x25519_agree(const uint8_t private_key[TERN_SECRET_SIZE],
                                                 const uint8_t public_key[TERN_X25519_PUBLIC_SIZE],
                                                 uint8_t shared[TERN_SECRET_SIZE]);

// --- HKDF-SHA256 (RFC 5869)

// Derives `size` bytes, at most 255 * 32. An empty salt stands for 32 zero bytes.
TERN_MUST_USE enum tern_result tern_hkdf(struct tern_bytes_view salt, struct tern_bytes_view secret,
                                         struct tern_bytes_view info, uint8_t *dst, size_t size);

// --- HPKE (RFC 9180), base mode: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20-Poly1305; one message per key

// Seals a message to the owner of a public key. ephemeral: 32 random bytes that no other message uses. sealed: plain.size +
// TERN_HPKE_OVERHEAD bytes.
TERN_MUST_USE enum tern_result tern_hpke_seal(const uint8_t public_key[TERN_X25519_PUBLIC_SIZE],
                                              const uint8_t ephemeral[TERN_SECRET_SIZE],
                                              struct tern_bytes_view info,
                                              struct tern_bytes_view aad,
                                              struct tern_bytes_view plain, uint8_t *sealed);

// Opens a sealed message into sealed.size - TERN_HPKE_OVERHEAD bytes at `plain`.
// TERN_ERR_CORRUPT  the message was sealed to another key or with other info or aad, or was changed
TERN_MUST_USE enum tern_result tern_hpke_open(const uint8_t private_key[TERN_SECRET_SIZE],
                                              struct tern_bytes_view info,
                                              struct tern_bytes_view aad,
                                              struct tern_bytes_view sealed, uint8_t *plain);

// --- ECDSA on P-256 with SHA-256 (FIPS 186-4)

// Writes the public key of a private one.
// TERN_ERR_ARGUMENT  the private key is 0 or not below the group's order: draw other random bytes
TERN_MUST_USE enum tern_result tern_p256_public(const uint8_t private_key[TERN_SECRET_SIZE],
                                                uint8_t public_key[TERN_P256_PUBLIC_SIZE]);

// Signs a SHA-256 hash. The signature is deterministic (RFC 6979).
TERN_MUST_USE enum tern_result tern_p256_sign(const uint8_t private_key[TERN_SECRET_SIZE],
                                              const uint8_t hash[32],
                                              uint8_t signature[TERN_P256_SIGNATURE_SIZE]);

// TERN_ERR_UNAUTHORIZED  the signature is not one of this key for this hash
TERN_MUST_USE enum tern_result tern_p256_verify(const uint8_t public_key[TERN_P256_PUBLIC_SIZE],
                                                const uint8_t hash[32],
                                                const uint8_t signature[TERN_P256_SIGNATURE_SIZE]);

// --- ChaCha20 (RFC 8439) as a source of secret bytes; the block counter starts at 0

// A running keystream. After tern_keystream_open() succeeds, call tern_keystream_close() once.
struct tern_keystream {
    uint64_t operation[48]; // psa_cipher_operation_t, which only secret.c declares
    uint32_t key;           // the key's id in the crypto library
};

// Starts the keystream of a key and a nonce, which together must never mask two different messages. nonce: NULL stands for 12
// zero bytes.
TERN_MUST_USE enum tern_result tern_keystream_open(struct tern_keystream *stream,
                                                   const uint8_t key[TERN_SECRET_SIZE],
                                                   const uint8_t nonce[TERN_KEYSTREAM_NONCE]);

// Writes the next `blocks` * TERN_KEYSTREAM_BLOCK bytes of the keystream.
TERN_MUST_USE enum tern_result tern_keystream_next(struct tern_keystream *stream, uint8_t *dst,
                                                   size_t blocks);

void tern_keystream_close(struct tern_keystream *stream);

#ifdef __cplusplus
}
#endif

#endif
