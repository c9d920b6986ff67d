// Sends the handshake messages of mbedTLS together. mbedTLS writes each message separately, which would take a segment with 52
// bytes of headers for each. This module collects them until mbedTLS waits for the peer, so a flight of three messages is one
// segment. Called by mbedtls.c during the handshake, from the connection's thread.
#ifndef TERN_POSIX_TLS_FLIGHTS_H
#define TERN_POSIX_TLS_FLIGHTS_H

#include "hosted/mbedtls_versions.h"
#include "result.h"

#define TERN_FLIGHT_MAX                                                                            \
    1024 // bytes; the longest flight, a ClientHello with a ticket, has about half as many

struct tern_flights {
    mbedtls_ssl_send_t *send;
    mbedtls_ssl_recv_t *recv;
    void *socket;
    size_t len; // unsent bytes
    // Called with bytes that the peer has sent; NULL: not called. tern_flights_begin() sets NULL.
    void (*on_received)(void *ctx, const unsigned char *bytes, size_t len);
    void *ctx;
    unsigned char gathered[TERN_FLIGHT_MAX];
};

// Installs itself between mbedTLS and libcurl's socket functions before the handshake. The caller keeps *flights in place
// until tern_flights_end() or the end of the connection.
void tern_flights_begin(struct tern_flights *flights, mbedtls_ssl_context *connection);

// Called when the handshake is complete: sends the unsent bytes and uninstalls itself.
// TERN_ERR_NETWORK  the socket refuses them; the caller closes the connection
TERN_MUST_USE enum tern_result tern_flights_end(struct tern_flights *flights,
                                                mbedtls_ssl_context *connection);

#endif
