// mbedTLS as a TLS 1.2 client and nothing else, for the least flash and RAM. Two macros choose how
// the aggregator is verified; an image may have both:
//   TERN_TLS_ECDSA  its certificate, by a pinned CA on P-256: ECDHE-ECDSA-AES128-GCM-SHA256
//   TERN_TLS_PSK    a key of client and aggregator alone: ECDHE-PSK-CHACHA20-POLY1305-SHA256
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
#include <time.h> // time_t, which mbedTLS names here and there whatever its time type is
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

// A handshake message must fit into one record, and the largest is the server's Certificate: leaf
// and intermediate CA on P-256 take some 1200 bytes. Records of bodies are kept to the smaller of
// the two, which the client asks the server for.
#ifndef MBEDTLS_SSL_IN_CONTENT_LEN
#define MBEDTLS_SSL_IN_CONTENT_LEN 2048
#endif
#ifndef MBEDTLS_SSL_OUT_CONTENT_LEN
#define MBEDTLS_SSL_OUT_CONTENT_LEN 1024
#endif

// --- What the key exchanges need. Neither client certificates nor renegotiation exist here, which
// are what an extended master secret protects.

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

// Points and scalars that need it are blinded with the generator that TLS passes in; the rest is
// the checking of signatures, where nothing is secret.
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

// X25519 is shorter on the wire, faster and smaller than P-256, which certificates need.
#ifdef TERN_TLS_PSK
#define TERN_TLS_SUITE_PSK MBEDTLS_TLS_ECDHE_PSK_WITH_CHACHA20_POLY1305_SHA256
#define MBEDTLS_KEY_EXCHANGE_ECDHE_PSK_ENABLED
#ifndef TERN_TLS_ECDSA
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
