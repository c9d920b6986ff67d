#include "http/ticket_sealer.h"
#include "hosted/mbedtls_versions.h"
#include "hosted/random.h"
#include "http/certificate.h"
#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/gcm.h>
#include <mbedtls/md.h>
#include <mbedtls/pk.h>
#include <mbedtls/platform_util.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define NONCE_SIZE 12u
#define TAG_SIZE 16u
#define DER_SIZE 6144u // of RSA's 8192 bits: 4700

// The private key in DER, at the end of the bytes; its length, or an error of mbedTLS.
static int write_der(const struct tern_pem *pem, uint8_t der[DER_SIZE])
{
    mbedtls_pk_context key;
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context random;
    mbedtls_pk_init(&key);
    mbedtls_entropy_init(&entropy);
    mbedtls_ctr_drbg_init(&random);
    int result = tern_mbedtls_start()
                     ? mbedtls_ctr_drbg_seed(&random, mbedtls_entropy_func, &entropy, NULL, 0)
                     : MBEDTLS_ERR_CTR_DRBG_ENTROPY_SOURCE_FAILED;
    if (result == 0) {
        result = tern_mbedtls_parse_key(&key, pem->bytes, pem->size, &random);
    }
    if (result == 0) {
        result = mbedtls_pk_write_key_der(&key, der, DER_SIZE);
    }
    mbedtls_ctr_drbg_free(&random);
    mbedtls_entropy_free(&entropy);
    mbedtls_pk_free(&key);
    return result;
}

static bool derive(const uint8_t *der, size_t len, const char *use, uint8_t out[TERN_SHA256_SIZE])
{
    return mbedtls_md_hmac(mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), der, len,
                           (const unsigned char *)use, strlen(use), out) == 0;
}

enum tern_result tern_ticket_sealer_make(const char *private_key, struct tern_ticket_sealer *sealer,
                                         char why[256])
{
    struct tern_pem pem;
    uint8_t der[DER_SIZE];
    TERN_TRY(tern_pem_read(private_key, "the private key", &pem, why));
    const int len = write_der(&pem, der);
    tern_pem_free(&pem);
    const uint8_t *begin = der + DER_SIZE - (len > 0 ? len : 0);
    const bool made = len > 0 && derive(begin, (size_t)len, "tern ticket keys: id", sealer->id) &&
                      derive(begin, (size_t)len, "tern ticket keys: key", sealer->key);
    mbedtls_platform_zeroize(der, sizeof der);
    if (!made) {
        snprintf(
            why, 256,
            "the private key %.150s is not a PEM file that mbedTLS understands (error -0x%04x)",
            private_key, (unsigned)-len);
        return TERN_ERR_CONFIG;
    }
    return TERN_OK;
}

void tern_ticket_sealer_wipe(struct tern_ticket_sealer *sealer)
{
    mbedtls_platform_zeroize(sealer, sizeof *sealer);
}

// Sealed: nonce | ciphertext | tag; the id is authenticated too.
enum tern_result tern_ticket_sealer_seal(const struct tern_ticket_sealer *sealer,
                                         const uint8_t *plain, size_t len, uint8_t *sealed)
{
    uint8_t *text = sealed + NONCE_SIZE;
    mbedtls_gcm_context gcm;
    mbedtls_gcm_init(&gcm);
    const bool done =
        tern_random_fill(sealed, NONCE_SIZE) == TERN_OK &&
        mbedtls_gcm_setkey(&gcm, MBEDTLS_CIPHER_ID_AES, sealer->key, sizeof sealer->key * 8) == 0 &&
        mbedtls_gcm_crypt_and_tag(&gcm, MBEDTLS_GCM_ENCRYPT, len, sealed, NONCE_SIZE, sealer->id,
                                  sizeof sealer->id, plain, text, TAG_SIZE, text + len) == 0;
    mbedtls_gcm_free(&gcm);
    return done ? TERN_OK : TERN_ERR_TLS;
}

enum tern_result tern_ticket_sealer_open(const struct tern_ticket_sealer *sealer,
                                         const uint8_t *sealed, size_t len, uint8_t *plain)
{
    if (len < TERN_TICKET_SEALED_OVERHEAD) {
        return TERN_ERR_CORRUPT;
    }
    const size_t plain_len = len - TERN_TICKET_SEALED_OVERHEAD;
    const uint8_t *text = sealed + NONCE_SIZE;
    mbedtls_gcm_context gcm;
    mbedtls_gcm_init(&gcm);
    const bool done =
        mbedtls_gcm_setkey(&gcm, MBEDTLS_CIPHER_ID_AES, sealer->key, sizeof sealer->key * 8) == 0 &&
        mbedtls_gcm_auth_decrypt(&gcm, plain_len, sealed, NONCE_SIZE, sealer->id, sizeof sealer->id,
                                 text + plain_len, TAG_SIZE, text, plain) == 0;
    mbedtls_gcm_free(&gcm);
    return done ? TERN_OK : TERN_ERR_CORRUPT;
}
