// The functions of libmbedcrypto that aggregator/http/libcrypto.c replaces: known answers of the RFCs, through the
// functions of mbedTLS that call them, and evidence that libcrypto computed the answers.
#include "hosted/mbedtls_versions.h"
#include "http/tls_stream.h"
#include "tests/cases.h"

#include <mbedtls/chachapoly.h>
#include <mbedtls/cipher.h>
#include <mbedtls/ecdh.h>
#include <mbedtls/ecdsa.h>
#include <stdio.h>
#include <string.h>

static void bytes_of(const char *hex, uint8_t *bytes)
{
    for (size_t i = 0; hex[2 * i] != '\0'; i++) {
        unsigned byte = 0;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        bytes[i] = (uint8_t)byte;
    }
}

// Counts its calls; libcrypto has a generator of its own.
static int count_random(void *ctx, unsigned char *dst, size_t size)
{
    unsigned *calls = ctx;
    memset(dst, (int)(0x41 + ++*calls), size);
    return 0;
}

// --- ChaCha20-Poly1305: RFC 8439, section 2.8.2

static const char PLAIN[] =
    "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the "
    "future, sunscreen would be it.";
#define PLAIN_LEN (sizeof PLAIN - 1)

static const char SEALED[] = "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea"
                             "45e8ca9671282fafb69da92728b1a71de0a"
                             "9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad67"
                             "5945585808b4831d7bc3ff4def08e4b7a9d"
                             "e576d26586cec64b61161ae10b594f09e26a7e902ecbd0600691";

struct record {
    uint8_t key[32];
    uint8_t nonce[12];
    uint8_t aad[12];
    uint8_t bytes[PLAIN_LEN + 16];
};

static void prepare(struct record *record, mbedtls_cipher_context_t *cipher,
                    mbedtls_operation_t operation)
{
    bytes_of("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f", record->key);
    bytes_of("070000004041424344454647", record->nonce);
    bytes_of("50515253c0c1c2c3c4c5c6c7", record->aad);
    bytes_of(SEALED, record->bytes);
    mbedtls_cipher_init(cipher);
    assert_int_equal(mbedtls_cipher_setup(
                         cipher, mbedtls_cipher_info_from_type(MBEDTLS_CIPHER_CHACHA20_POLY1305)),
                     0);
    assert_int_equal(mbedtls_cipher_setkey(cipher, record->key, 256, operation), 0);
}

static int open_record(const struct record *record, mbedtls_cipher_context_t *cipher,
                       uint8_t plain[PLAIN_LEN])
{
    size_t len = 0;
    const int error = mbedtls_cipher_auth_decrypt_ext(
        cipher, record->nonce, sizeof record->nonce, record->aad, sizeof record->aad, record->bytes,
        sizeof record->bytes, plain, PLAIN_LEN, &len, 16);
    assert_true(error != 0 || len == PLAIN_LEN);
    return error;
}

CASE(test_record_is_sealed_as_in_the_rfc)
{
    struct record record;
    mbedtls_cipher_context_t cipher;
    uint8_t sealed[PLAIN_LEN + 16];
    prepare(&record, &cipher, MBEDTLS_ENCRYPT);
    for (int again = 0; again < 2; again++) { // a connection seals many records under one key
        size_t len = 0;
        assert_int_equal(mbedtls_cipher_auth_encrypt_ext(&cipher, record.nonce, sizeof record.nonce,
                                                         record.aad, sizeof record.aad,
                                                         (const uint8_t *)PLAIN, PLAIN_LEN, sealed,
                                                         sizeof sealed, &len, 16),
                         0);
        assert_int_equal(len, sizeof sealed);
        assert_memory_equal(sealed, record.bytes, sizeof sealed);
    }
    mbedtls_cipher_free(&cipher);
}

CASE(test_forged_record_is_refused_and_leaves_no_plain_text)
{
    struct record record;
    mbedtls_cipher_context_t cipher;
    uint8_t plain[PLAIN_LEN];
    static const uint8_t zeros[PLAIN_LEN];
    prepare(&record, &cipher, MBEDTLS_DECRYPT);
    assert_int_equal(open_record(&record, &cipher, plain), 0);
    assert_memory_equal(plain, PLAIN, PLAIN_LEN);
    for (size_t at = 0; at < sizeof record.bytes; at += 10) {
        record.bytes[at] ^= 1;
        assert_int_not_equal(open_record(&record, &cipher, plain), 0);
        assert_memory_equal(plain, zeros, PLAIN_LEN);
        record.bytes[at] ^= 1;
    }
    record.aad[0] ^= 1;
    assert_int_not_equal(open_record(&record, &cipher, plain), 0);
    record.aad[0] ^= 1;
    assert_int_equal(open_record(&record, &cipher, plain), 0);
    mbedtls_cipher_free(&cipher);
}

// mbedTLS's own context contains the key; the replaced context contains a pointer.
CASE(test_libcrypto_seals_the_records)
{
    struct record record;
    mbedtls_cipher_context_t cipher;
    prepare(&record, &cipher, MBEDTLS_ENCRYPT);
    const uint8_t *context = cipher.cipher_ctx;
    for (size_t at = 0; at + 32 <= sizeof(mbedtls_chachapoly_context); at++) {
        assert_memory_not_equal(context + at, record.key, 32);
    }
    mbedtls_cipher_free(&cipher);
}

// --- Key exchange

// Makes both ends' key pairs. Returns how often mbedTLS's generator was called for the shared secrets to be equal.
static unsigned agree(mbedtls_ecp_group_id curve)
{
    unsigned calls = 0;
    mbedtls_ecp_group group;
    mbedtls_ecp_point public[2];
    mbedtls_mpi private[2];
    mbedtls_mpi shared[2];
    mbedtls_ecp_group_init(&group);
    assert_int_equal(mbedtls_ecp_group_load(&group, curve), 0);
    for (int i = 0; i < 2; i++) {
        mbedtls_ecp_point_init(&public[i]);
        mbedtls_mpi_init(&private[i]);
        mbedtls_mpi_init(&shared[i]);
        assert_int_equal(
            mbedtls_ecdh_gen_public(&group, &private[i], &public[i], count_random, &calls), 0);
        assert_int_equal(mbedtls_ecp_check_privkey(&group, &private[i]), 0);
        assert_int_equal(mbedtls_ecp_check_pubkey(&group, &public[i]), 0);
    }
    assert_int_not_equal(mbedtls_mpi_cmp_mpi(&private[0], &private[1]), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mbedtls_ecdh_compute_shared(&group, &shared[i], &public[1 - i],
                                                     &private[i], count_random, &calls),
                         0);
    }
    assert_int_equal(mbedtls_mpi_cmp_mpi(&shared[0], &shared[1]), 0);
    for (int i = 0; i < 2; i++) {
        mbedtls_ecp_point_free(&public[i]);
        mbedtls_mpi_free(&private[i]);
        mbedtls_mpi_free(&shared[i]);
    }
    mbedtls_ecp_group_free(&group);
    return calls;
}

CASE(test_libcrypto_agrees_on_x25519_and_mbedtls_on_other_curves)
{
    assert_int_equal(agree(MBEDTLS_ECP_DP_CURVE25519), 0);
    assert_true(agree(MBEDTLS_ECP_DP_SECP256R1) > 0);
}

// Returns an error of mbedtls_ecdh_compute_shared(), for keys in the byte order of RFC 7748.
static int share(const char *private_hex, const char *public_hex, uint8_t secret[32])
{
    uint8_t bytes[32];
    unsigned calls = 0;
    mbedtls_ecp_group group;
    mbedtls_ecp_point public;
    mbedtls_mpi private;
    mbedtls_mpi shared;
    mbedtls_ecp_group_init(&group);
    mbedtls_ecp_point_init(&public);
    mbedtls_mpi_init(&private);
    mbedtls_mpi_init(&shared);
    assert_int_equal(mbedtls_ecp_group_load(&group, MBEDTLS_ECP_DP_CURVE25519), 0);
    bytes_of(private_hex, bytes);
    bytes[0] &= 0xf8;
    bytes[31] = (uint8_t)((bytes[31] & 0x7f) | 0x40);
    assert_int_equal(mbedtls_mpi_read_binary_le(&private, bytes, sizeof bytes), 0);
    bytes_of(public_hex, bytes);
    assert_int_equal(mbedtls_mpi_read_binary_le(&public.X, bytes, sizeof bytes), 0);
    assert_int_equal(mbedtls_mpi_lset(&public.Z, 1), 0);
    const int error =
        mbedtls_ecdh_compute_shared(&group, &shared, &public, &private, count_random, &calls);
    assert_int_equal(mbedtls_mpi_write_binary_le(&shared, secret, 32), 0);
    mbedtls_mpi_free(&shared);
    mbedtls_mpi_free(&private);
    mbedtls_ecp_point_free(&public);
    mbedtls_ecp_group_free(&group);
    return error;
}

// RFC 7748, section 6.1. A public key of low order would give the secret 0, which anyone knows.
CASE(test_x25519_as_in_the_rfc)
{
    static const char alice[] = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a";
    static const char bob[] = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f";
    static const char low[] = "0000000000000000000000000000000000000000000000000000000000000000";
    uint8_t expected[32];
    uint8_t secret[32];
    bytes_of("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742", expected);
    assert_int_equal(share(alice, bob, secret), 0);
    assert_memory_equal(secret, expected, sizeof secret);
    assert_int_not_equal(share(alice, low, secret), 0);
}

// --- The program

CASE(test_program_names_both_libraries)
{
    assert_non_null(strstr(tern_tls_libraries, MBEDTLS_VERSION_STRING));
    assert_non_null(strstr(tern_tls_libraries, "OpenSSL 3"));
}

// --- Signatures

// Signs a hash twice and lets mbedTLS verify both. Returns whether the signatures are equal: mbedTLS derives the nonce
// from the key and the hash (RFC 6979), libcrypto draws it.
static bool signs_equally(mbedtls_ecp_group_id curve, size_t hash_len)
{
    uint8_t hash[48];
    uint8_t signature[2][MBEDTLS_ECDSA_MAX_LEN];
    size_t len[2] = {0, 0};
    unsigned calls = 0;
    mbedtls_ecdsa_context key;
    memset(hash, 0x5a, sizeof hash);
    mbedtls_ecdsa_init(&key);
    assert_int_equal(mbedtls_ecdsa_genkey(&key, curve, count_random, &calls), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mbedtls_ecdsa_write_signature(&key, MBEDTLS_MD_SHA256, hash, hash_len,
                                                       signature[i],
#if MBEDTLS_VERSION_MAJOR >= 3
                                                       sizeof signature[i],
#endif
                                                       &len[i], count_random, &calls),
                         0);
        assert_int_equal(mbedtls_ecdsa_read_signature(&key, hash, hash_len, signature[i], len[i]),
                         0);
    }
    mbedtls_ecdsa_free(&key);
    return len[0] == len[1] && memcmp(signature[0], signature[1], len[0]) == 0;
}

CASE(test_libcrypto_signs_with_p256_and_mbedtls_with_other_curves)
{
    assert_false(signs_equally(MBEDTLS_ECP_DP_SECP256R1, 32));
    assert_false(signs_equally(MBEDTLS_ECP_DP_SECP256R1, 48)); // a longer hash is cut
    assert_true(signs_equally(MBEDTLS_ECP_DP_SECP384R1, 48));
}
