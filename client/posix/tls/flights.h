// Sends what mbedTLS says in a handshake flight by flight. mbedTLS hands each message to the socket
// by itself, and each becomes a segment with 52 bytes of headers; gathered until it waits for the
// peer, a flight of three messages is one segment. Between mbedTLS and the functions that libcurl
// gave it, during the handshake only. Belongs to the connection's thread.
#ifndef TERN_POSIX_TLS_FLIGHTS_H
#define TERN_POSIX_TLS_FLIGHTS_H

#include "hosted/mbedtls_versions.h"
#include "result.h"

#define TERN_FLIGHT_MAX 1024 // the longest, a ClientHello with a ticket, is half of that

struct tern_flights {
    mbedtls_ssl_send_t *send;
    mbedtls_ssl_recv_t *recv;
    void *socket;
    size_t len; // gathered and not sent yet
    unsigned char gathered[TERN_FLIGHT_MAX];
};

// Steps between, before the handshake begins. *flights stays where it is until tern_flights_end()
// or the end of the connection.
void tern_flights_begin(struct tern_flights *flights, mbedtls_ssl_context *connection);

// The handshake is over: sends what is left and steps back.
// TERN_ERR_NETWORK  the socket does not take it; the connection must be given up
TERN_MUST_USE enum tern_result tern_flights_end(struct tern_flights *flights,
                                                mbedtls_ssl_context *connection);

#endif
