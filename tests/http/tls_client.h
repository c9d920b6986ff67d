// The TLS side of the test client: mbedTLS with a hello as lean as a device's, tickets, and counts.
#ifndef TERN_TEST_TLS_CLIENT_H
#define TERN_TEST_TLS_CLIENT_H

#include "hosted/mbedtls_versions.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tls_client_settings {
    const char *root;             // PEM file that the server is verified against
    bool tls13;                   // speaks nothing else; where mbedTLS has it
    const int *ciphersuites;      // 0-terminated; NULL = ChaCha20-Poly1305 with ECDSA alone
    mbedtls_ssl_session *session; // to resume from, and saved to on close; NULL = none
    const char *identity;         // of the pre-shared key; NULL = none
    const uint8_t *key;           // 32 bytes
    const char *certificate;      // PEM file that the server is shown if it asks; NULL = none
    const char *private_key;      // PEM file of the certificate's key
    unsigned char max_fragment;   // MBEDTLS_SSL_MAX_FRAG_LEN_*; 0 = not asked for
    int *alert;                   // set to the alert that a failing handshake ends with; or NULL
};

struct tls_client;

// Shakes hands. NULL when it fails.
struct tls_client *tls_client_open(int fd, const struct tls_client_settings *settings);
void tls_client_close(struct tls_client *client);
ssize_t tls_client_send(struct tls_client *client, const void *data, size_t len);
ssize_t tls_client_receive(struct tls_client *client, void *dst, size_t size);
const char *tls_client_ciphersuite(const struct tls_client *client);

// Return the bytes of the TCP stream so far.
uint64_t tls_client_bytes_sent(const struct tls_client *client);
uint64_t tls_client_bytes_received(const struct tls_client *client);

// Bytes of the longest record that came, without its header.
size_t tls_client_longest_record(const struct tls_client *client);

#endif
