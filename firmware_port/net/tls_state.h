// Defines struct tern_firmware_tls for its owner; the fields are private to device_tls.c.
#ifndef TERN_FIRMWARE_TLS_STATE_H
#define TERN_FIRMWARE_TLS_STATE_H

#include "net/device_tls.h"

#include <mbedtls/hmac_drbg.h>
#include <mbedtls/ssl.h>
#include <mbedtls/x509_crt.h>

// A full handshake takes 8.9 KB with a certificate, 6.8 KB with a key (tern_firmware_tls_peak()). The rest is for certificates
// with intermediate CAs or many names.
#ifndef TERN_TLS_ARENA
#define TERN_TLS_ARENA (12u * 1024u)
#endif

struct tern_firmware_tls {
    mbedtls_ssl_config config;
    mbedtls_ssl_context ssl;
    mbedtls_hmac_drbg_context random;
#ifdef TERN_TLS_ECDSA
    mbedtls_x509_crt ca;
#endif
    mbedtls_ssl_session session; // session of the last handshake, for resumption
    bool has_session;
    _Alignas(MBEDTLS_MEMORY_ALIGN_MULTIPLE) uint8_t arena[TERN_TLS_ARENA];
};

#endif
