// Replaces functions of libmbedcrypto with OpenSSL's libcrypto: ChaCha20-Poly1305, which is plain C in mbedTLS, X25519,
// and ECDSA signatures. mbedTLS still runs the protocol, so that handshakes, tickets and bytes stay the same. mbedTLS
// selects replacements at its own compile time (MBEDTLS_CHACHAPOLY_ALT); a distribution's library has none. Therefore this
// file defines functions of the same names: the dynamic linker binds libmbedcrypto's own calls to the program's
// definitions. Where the linker does not do so, mbedTLS uses its own functions. Each context belongs to one thread.
#include "hosted/mbedtls_versions.h"
#include "http/tls_stream.h"

#include <mbedtls/chachapoly.h>
#include <mbedtls/ecdh.h>
#include <mbedtls/ecdsa.h>
#include <mbedtls/platform_util.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <string.h>

typedef int random_fn(void *ctx, unsigned char *dst, size_t size);

const char tern_tls_libraries[] = MBEDTLS_VERSION_STRING_FULL ", " OPENSSL_VERSION_TEXT;

// --- ChaCha20-Poly1305 (RFC 8439)

// TLS uses only the functions below. The functions that work in pieces (mbedtls_chachapoly_starts() and others) stay
// mbedTLS's and must not be used with a context of this file.

#define CHACHA_KEY 32u
#define CHACHA_NONCE 12u
#define CHACHA_TAG 16u

_Static_assert(sizeof(mbedtls_chachapoly_context) >= sizeof(EVP_CIPHER_CTX *),
               "the context of mbedTLS stores a pointer to the context of libcrypto");

static EVP_CIPHER_CTX *cipher_of(const mbedtls_chachapoly_context *context)
{
    EVP_CIPHER_CTX *cipher = NULL;
    memcpy(&cipher, context, sizeof cipher);
    return cipher;
}

void mbedtls_chachapoly_init(mbedtls_chachapoly_context *context)
{
    memset(context, 0, sizeof *context);
}

void mbedtls_chachapoly_free(mbedtls_chachapoly_context *context)
{
    if (context != NULL) {
        EVP_CIPHER_CTX_free(cipher_of(context));
        memset(context, 0, sizeof *context);
    }
}

int mbedtls_chachapoly_setkey(mbedtls_chachapoly_context *context,
                              const unsigned char key[CHACHA_KEY])
{
    EVP_CIPHER_CTX *cipher = cipher_of(context);
    cipher = cipher != NULL ? cipher : EVP_CIPHER_CTX_new();
    memcpy(context, &cipher, sizeof cipher);
    const bool done = cipher != NULL &&
                      EVP_CipherInit_ex(cipher, EVP_chacha20_poly1305(), NULL, key, NULL, 1) == 1;
    return done ? 0 : MBEDTLS_ERR_CHACHAPOLY_BAD_STATE;
}

// Starts a record and adds its additional data. Returns false if libcrypto fails or len exceeds libcrypto's int.
static bool begin_record(EVP_CIPHER_CTX *cipher, bool encrypts, const unsigned char *nonce,
                         const unsigned char *aad, size_t aad_len, size_t len)
{
    int done = 0;
    return cipher != NULL && len <= INT32_MAX && aad_len <= INT32_MAX &&
           EVP_CipherInit_ex(cipher, NULL, NULL, NULL, nonce, encrypts ? 1 : 0) == 1 &&
           EVP_CipherUpdate(cipher, NULL, &done, aad, (int)aad_len) == 1;
}

int mbedtls_chachapoly_encrypt_and_tag(mbedtls_chachapoly_context *context, size_t len,
                                       const unsigned char nonce[CHACHA_NONCE],
                                       const unsigned char *aad, size_t aad_len,
                                       const unsigned char *src, unsigned char *dst,
                                       unsigned char tag[CHACHA_TAG])
{
    EVP_CIPHER_CTX *cipher = cipher_of(context);
    int done = 0;
    const bool is_encrypted =
        begin_record(cipher, true, nonce, aad, aad_len, len) &&
        EVP_CipherUpdate(cipher, dst, &done, src, (int)len) == 1 &&
        EVP_CipherFinal_ex(cipher, dst + done, &done) == 1 &&
        EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_GET_TAG, CHACHA_TAG, tag) == 1;
    return is_encrypted ? 0 : MBEDTLS_ERR_CHACHAPOLY_BAD_STATE;
}

// Returns MBEDTLS_ERR_CHACHAPOLY_AUTH_FAILED for every failure, and then clears dst, like mbedTLS.
int mbedtls_chachapoly_auth_decrypt(mbedtls_chachapoly_context *context, size_t len,
                                    const unsigned char nonce[CHACHA_NONCE],
                                    const unsigned char *aad, size_t aad_len,
                                    const unsigned char tag[CHACHA_TAG], const unsigned char *src,
                                    unsigned char *dst)
{
    EVP_CIPHER_CTX *cipher = cipher_of(context);
    unsigned char expected[CHACHA_TAG];
    int done = 0;
    memcpy(expected, tag, sizeof expected);
    if (begin_record(cipher, false, nonce, aad, aad_len, len) &&
        EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_SET_TAG, CHACHA_TAG, expected) == 1 &&
        EVP_CipherUpdate(cipher, dst, &done, src, (int)len) == 1 &&
        EVP_CipherFinal_ex(cipher, dst + done, &done) == 1) {
        return 0;
    }
    mbedtls_platform_zeroize(dst, len);
    return MBEDTLS_ERR_CHACHAPOLY_AUTH_FAILED;
}

// --- X25519 (RFC 7748)

#define X25519_SIZE 32u

// Makes a key pair. Other curves than X25519 are left to mbedTLS.
int mbedtls_ecdh_gen_public(mbedtls_ecp_group *group, mbedtls_mpi *private_key,
                            mbedtls_ecp_point *public_key, random_fn *random, void *random_ctx)
{
    if (group->id != MBEDTLS_ECP_DP_CURVE25519) {
        return mbedtls_ecp_gen_keypair(group, private_key, public_key, random, random_ctx);
    }
    uint8_t secret[X25519_SIZE];
    uint8_t public[X25519_SIZE];
    size_t secret_len = sizeof secret;
    size_t public_len = sizeof public;
    EVP_PKEY *pair = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
    int error = pair != NULL && EVP_PKEY_get_raw_private_key(pair, secret, &secret_len) == 1 &&
                        EVP_PKEY_get_raw_public_key(pair, public, &public_len) == 1
                    ? 0
                    : MBEDTLS_ERR_ECP_RANDOM_FAILED;
    EVP_PKEY_free(pair);
    // mbedTLS stores the scalar as clamped (RFC 7748, section 5).
    secret[0] &= 0xf8;
    secret[X25519_SIZE - 1] = (uint8_t)((secret[X25519_SIZE - 1] & 0x7f) | 0x40);
    error = error != 0 ? error : mbedtls_mpi_read_binary_le(private_key, secret, sizeof secret);
    error = error != 0 ? error : mbedtls_mpi_read_binary_le(&public_key->X, public, sizeof public);
    error = error != 0 ? error : mbedtls_mpi_lset(&public_key->Z, 1);
    mbedtls_platform_zeroize(secret, sizeof secret);
    return error;
}

// Derives the secret that both ends share. Returns false for a peer's key of low order.
static bool derive(const uint8_t secret[X25519_SIZE], const uint8_t peer[X25519_SIZE],
                   uint8_t shared[X25519_SIZE])
{
    size_t len = X25519_SIZE;
    EVP_PKEY *ours = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, secret, X25519_SIZE);
    EVP_PKEY *theirs = EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, NULL, peer, X25519_SIZE);
    EVP_PKEY_CTX *context = ours != NULL ? EVP_PKEY_CTX_new(ours, NULL) : NULL;
    const bool done = context != NULL && theirs != NULL && EVP_PKEY_derive_init(context) == 1 &&
                      EVP_PKEY_derive_set_peer(context, theirs) == 1 &&
                      EVP_PKEY_derive(context, shared, &len) == 1;
    EVP_PKEY_CTX_free(context);
    EVP_PKEY_free(theirs);
    EVP_PKEY_free(ours);
    return done;
}

// Multiplies as mbedtls_ecdh_compute_shared() of mbedTLS does.
static int multiply(mbedtls_ecp_group *group, mbedtls_mpi *shared,
                    const mbedtls_ecp_point *public_key, const mbedtls_mpi *private_key,
                    random_fn *random, void *random_ctx)
{
    mbedtls_ecp_point product;
    mbedtls_ecp_point_init(&product);
    int error = mbedtls_ecp_mul(group, &product, private_key, public_key, random, random_ctx);
    error = error == 0 && mbedtls_ecp_is_zero(&product) ? MBEDTLS_ERR_ECP_BAD_INPUT_DATA : error;
    error = error != 0 ? error : mbedtls_mpi_copy(shared, &product.X);
    mbedtls_ecp_point_free(&product);
    return error;
}

int mbedtls_ecdh_compute_shared(mbedtls_ecp_group *group, mbedtls_mpi *shared,
                                const mbedtls_ecp_point *public_key, const mbedtls_mpi *private_key,
                                random_fn *random, void *random_ctx)
{
    if (group->id != MBEDTLS_ECP_DP_CURVE25519) {
        return multiply(group, shared, public_key, private_key, random, random_ctx);
    }
    uint8_t secret[X25519_SIZE];
    uint8_t peer[X25519_SIZE];
    uint8_t result[X25519_SIZE];
    int error = mbedtls_mpi_write_binary_le(private_key, secret, sizeof secret);
    error = error != 0 ? error : mbedtls_mpi_write_binary_le(&public_key->X, peer, sizeof peer);
    error = error == 0 && !derive(secret, peer, result) ? MBEDTLS_ERR_ECP_INVALID_KEY : error;
    error = error != 0 ? error : mbedtls_mpi_read_binary_le(shared, result, sizeof result);
    mbedtls_platform_zeroize(secret, sizeof secret);
    mbedtls_platform_zeroize(result, sizeof result);
    return error;
}

// --- ECDSA signatures on P-256

#define P256_SIZE 32u
#define P256_SIGNATURE_MAX 72u // in DER

// Returns NULL if libcrypto fails.
static EVP_PKEY *signing_key(const mbedtls_ecdsa_context *context)
{
    uint8_t secret[P256_SIZE];
    EVP_PKEY *key = NULL;
    if (mbedtls_mpi_write_binary(&context->d, secret, sizeof secret) != 0) {
        return NULL;
    }
    BIGNUM *number = BN_bin2bn(secret, sizeof secret, NULL);
    mbedtls_platform_zeroize(secret, sizeof secret);
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    EVP_PKEY_CTX *maker = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
    OSSL_PARAM *parameters = NULL;
    if (number != NULL && build != NULL && maker != NULL &&
        OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, "P-256", 0) == 1 &&
        OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_PRIV_KEY, number) == 1 &&
        (parameters = OSSL_PARAM_BLD_to_param(build)) != NULL &&
        EVP_PKEY_fromdata_init(maker) == 1) {
        (void)EVP_PKEY_fromdata(maker, &key, EVP_PKEY_KEYPAIR, parameters);
    }
    OSSL_PARAM_free(parameters);
    OSSL_PARAM_BLD_free(build);
    EVP_PKEY_CTX_free(maker);
    BN_clear_free(number);
    return key;
}

static bool sign(const mbedtls_ecdsa_context *context, const unsigned char *hash, size_t hash_len,
                 unsigned char signature[P256_SIGNATURE_MAX], size_t *len)
{
    EVP_PKEY *key = signing_key(context);
    EVP_PKEY_CTX *signer = key != NULL ? EVP_PKEY_CTX_new(key, NULL) : NULL;
    *len = P256_SIGNATURE_MAX;
    const bool done = signer != NULL && EVP_PKEY_sign_init(signer) == 1 &&
                      EVP_PKEY_sign(signer, signature, len, hash, hash_len) == 1;
    EVP_PKEY_CTX_free(signer);
    EVP_PKEY_free(key);
    return done;
}

#if MBEDTLS_VERSION_MAJOR >= 3
#define SIZE_PARAMETER size_t size,
#define SIZE_ARGUMENT size,
#else
#define SIZE_PARAMETER
#define SIZE_ARGUMENT
#endif

// Signs a hash. Keys of other curves than P-256 are left to mbedTLS, whose restartable function does the same.
int mbedtls_ecdsa_write_signature(mbedtls_ecdsa_context *context, mbedtls_md_type_t hash_type,
                                  const unsigned char *hash, size_t hash_len,
                                  unsigned char *signature, SIZE_PARAMETER size_t *len,
                                  random_fn *random, void *random_ctx)
{
    if (context->grp.id != MBEDTLS_ECP_DP_SECP256R1) {
        return mbedtls_ecdsa_write_signature_restartable(context, hash_type, hash, hash_len,
                                                         signature, SIZE_ARGUMENT len, random,
                                                         random_ctx, NULL);
    }
#if MBEDTLS_VERSION_MAJOR >= 3
    if (size < P256_SIGNATURE_MAX) {
        return MBEDTLS_ERR_ECP_BUFFER_TOO_SMALL;
    }
#endif
    return sign(context, hash, hash_len, signature, len) ? 0 : MBEDTLS_ERR_ECP_ALLOC_FAILED;
}
