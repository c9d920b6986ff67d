// Configures mbedTLS as a TLS 1.2 client with the least flash and RAM. Two macros select how the aggregator is verified; an
// image may have both:
//   TERN_TLS_ECDSA  by a certificate of a pinned CA on P-256: ECDHE-ECDSA-AES128-GCM-SHA256
//   TERN_TLS_PSK    by a key that client and aggregator share: ECDHE-PSK-CHACHA20-POLY1305-SHA256
#ifndef TERN_MBEDTLS_CONFIG_H
#define TERN_MBEDTLS_CONFIG_H

#if !defined(TERN_TLS_ECDSA) && !defined(TERN_TLS_PSK)
#error "define TERN_TLS_ECDSA or TERN_TLS_PSK"
#endif

// --- The platform: memory from a static arena, time from the board, no C library

#define MBEDTLS_HAVE_ASM
#define MBEDTLS_PLATFORM_C
#define MBEDTLS_PLATFORM_MEMORY
#define MBEDTLS_PLATFORM_NO_STD_FUNCTIONS
#define MBEDTLS_MEMORY_BUFFER_ALLOC_C
#define MBEDTLS_MEMORY_ALIGN_MULTIPLE 8
#define MBEDTLS_HAVE_TIME
#include <stdint.h>
#include <time.h> // time_t, which mbedTLS mentions even if its time type is another
#define MBEDTLS_PLATFORM_TIME_TYPE_MACRO int64_t
#define MBEDTLS_PLATFORM_TIME_MACRO tern_firmware_tls_time
int64_t tern_firmware_tls_time(int64_t *seconds);
#define MBEDTLS_PLATFORM_EXIT_MACRO tern_firmware_tls_exit
void tern_firmware_tls_exit(int code);

// --- TLS

#define MBEDTLS_SSL_TLS_C
#define MBEDTLS_SSL_CLI_C
#define MBEDTLS_SSL_PROTO_TLS1_2
#define MBEDTLS_SSL_SESSION_TICKETS
#define MBEDTLS_SSL_MAX_FRAGMENT_LENGTH

// A handshake message must fit into one record. The largest is the server's Certificate: with an intermediate CA on P-256 it
// takes some 1200 bytes. The client asks the server for records of at most the smaller of the two sizes.
#ifndef MBEDTLS_SSL_IN_CONTENT_LEN
#define MBEDTLS_SSL_IN_CONTENT_LEN 2048
#endif
#ifndef MBEDTLS_SSL_OUT_CONTENT_LEN
#define MBEDTLS_SSL_OUT_CONTENT_LEN 1024
#endif

// --- Key exchange. The extended master secret is not needed, because there are no client certificates and no renegotiation.

#define MBEDTLS_MD_C
#define MBEDTLS_SHA256_C
#define MBEDTLS_SHA256_SMALLER
#define MBEDTLS_HMAC_DRBG_C
#define MBEDTLS_CIPHER_C
#define MBEDTLS_BIGNUM_C
#define MBEDTLS_ECP_C
#define MBEDTLS_ECDH_C
#define MBEDTLS_ECP_WINDOW_SIZE 3
#define MBEDTLS_ECP_FIXED_POINT_OPTIM 0
#define MBEDTLS_MPI_WINDOW_SIZE 1
#define MBEDTLS_MPI_MAX_SIZE 48
#define MBEDTLS_PSK_MAX_LEN 32

// TLS passes a random generator for blinding where scalars are secret. Other operations verify signatures, without secrets.
#define MBEDTLS_ECP_NO_INTERNAL_RNG

#ifdef TERN_TLS_ECDSA
#define TERN_TLS_SUITE_ECDSA MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
#define MBEDTLS_KEY_EXCHANGE_ECDHE_ECDSA_ENABLED
#define MBEDTLS_ECP_DP_SECP256R1_ENABLED
#define MBEDTLS_ECP_NIST_OPTIM
#define MBEDTLS_ECDSA_C
#define MBEDTLS_AES_C
#define MBEDTLS_AES_ROM_TABLES
#define MBEDTLS_AES_FEWER_TABLES
#define MBEDTLS_GCM_C
#define MBEDTLS_ASN1_PARSE_C
#define MBEDTLS_ASN1_WRITE_C
#define MBEDTLS_OID_C
#define MBEDTLS_PK_C
#define MBEDTLS_PK_PARSE_C
#define MBEDTLS_X509_USE_C
#define MBEDTLS_X509_CRT_PARSE_C
#define MBEDTLS_X509_MAX_INTERMEDIATE_CA 2
#define MBEDTLS_X509_CHECK_KEY_USAGE
#define MBEDTLS_X509_CHECK_EXTENDED_KEY_USAGE
#define MBEDTLS_SSL_SERVER_NAME_INDICATION
#define MBEDTLS_HAVE_TIME_DATE
#define MBEDTLS_PLATFORM_GMTIME_R_ALT
#endif

// Secure rounds: the functions of PSA that shared/secure/secret.c calls, for tickets by X25519, HKDF and ChaCha20-Poly1305, the
// helper's signature on P-256, and masks by ChaCha20. Random bytes are the board's.
#if defined(TERN_SECURE) && TERN_SECURE
#define MBEDTLS_PSA_CRYPTO_C
#define MBEDTLS_PSA_CRYPTO_EXTERNAL_RNG
#define MBEDTLS_HKDF_C
#define MBEDTLS_ECP_DP_CURVE25519_ENABLED
#ifndef TERN_TLS_PSK
#define MBEDTLS_CHACHA20_C
#define MBEDTLS_POLY1305_C
#define MBEDTLS_CHACHAPOLY_C
#endif
#ifndef TERN_TLS_ECDSA
#define MBEDTLS_ECP_DP_SECP256R1_ENABLED
#define MBEDTLS_ECP_NIST_OPTIM
#define MBEDTLS_ECDSA_C
#define MBEDTLS_ASN1_PARSE_C
#define MBEDTLS_ASN1_WRITE_C
#endif
#endif

// X25519 takes fewer bytes, less time and less code than P-256, which only certificates need.
#ifdef TERN_TLS_PSK
#define TERN_TLS_SUITE_PSK MBEDTLS_TLS_ECDHE_PSK_WITH_CHACHA20_POLY1305_SHA256
#define MBEDTLS_KEY_EXCHANGE_ECDHE_PSK_ENABLED
#if !defined(TERN_TLS_ECDSA) && !defined(MBEDTLS_ECP_DP_CURVE25519_ENABLED)
#define MBEDTLS_ECP_DP_CURVE25519_ENABLED
#endif
#define MBEDTLS_CHACHA20_C
#define MBEDTLS_POLY1305_C
#define MBEDTLS_CHACHAPOLY_C
#endif

#if defined(TERN_TLS_ECDSA) && defined(TERN_TLS_PSK)
#define MBEDTLS_SSL_CIPHERSUITES TERN_TLS_SUITE_ECDSA, TERN_TLS_SUITE_PSK
#elif defined(TERN_TLS_ECDSA)
#define MBEDTLS_SSL_CIPHERSUITES TERN_TLS_SUITE_ECDSA
#else
#define MBEDTLS_SSL_CIPHERSUITES TERN_TLS_SUITE_PSK
#endif

#include "mbedtls/check_config.h"

#endif
