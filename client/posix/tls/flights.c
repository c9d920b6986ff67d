#include "posix/tls/flights.h"

#include <string.h>

// Sends the collected bytes. Returns 0, or an error of mbedTLS; unsent bytes stay in the buffer.
static int flush(struct tern_flights *flights)
{
    while (flights->len > 0) {
        const int sent = flights->send(flights->socket, flights->gathered, flights->len);
        if (sent <= 0) {
            return sent < 0 ? sent : MBEDTLS_ERR_SSL_CONN_EOF;
        }
        flights->len -= (size_t)sent;
        memmove(flights->gathered, flights->gathered + sent, flights->len);
    }
    return 0;
}

static int on_send(void *ctx, const unsigned char *data, size_t len)
{
    struct tern_flights *flights = ctx;
    if (len > sizeof flights->gathered - flights->len) {
        const int result = flush(flights);
        if (result != 0) {
            return result;
        }
    }
    if (len > sizeof flights->gathered) {
        return flights->send(flights->socket, data, len);
    }
    memcpy(flights->gathered + flights->len, data, len);
    flights->len += len;
    return (int)len;
}

// Sends the collected bytes before it receives. If sending returns WANT_WRITE, libcurl waits until the socket is writable.
static int on_receive(void *ctx, unsigned char *data, size_t size)
{
    struct tern_flights *flights = ctx;
    int result = flush(flights);
    if (result != 0) {
        return result;
    }
    result = flights->recv(flights->socket, data, size);
    if (result > 0 && flights->on_received != NULL) {
        flights->on_received(flights->ctx, data, (size_t)result);
    }
    return result;
}

void tern_flights_begin(struct tern_flights *flights, mbedtls_ssl_context *connection)
{
    flights->send = connection->f_send;
    flights->recv = connection->f_recv;
    flights->socket = connection->p_bio;
    flights->len = 0;
    flights->on_received = NULL;
    mbedtls_ssl_set_bio(connection, flights, on_send, on_receive, NULL);
}

enum tern_result tern_flights_end(struct tern_flights *flights, mbedtls_ssl_context *connection)
{
    const int result = flush(flights);
    mbedtls_ssl_set_bio(connection, flights->socket, flights->send, flights->recv, NULL);
    return result == 0 ? TERN_OK : TERN_ERR_NETWORK;
}
