// TLS over a socket of Zephyr that does not block. Zephyr's own TLS sockets wait for a handshake without a limit, and report a
// wrong CA like a lost connection, so this file calls mbedTLS.
#include "tern_zephyr.h"

#include <errno.h>
#include <string.h>
#include <zephyr/kernel.h>
#include <zephyr/net/socket.h>
#ifndef ZVFS_O_NONBLOCK // up to Zephyr 3.6
#include <zephyr/posix/fcntl.h>
#define ZVFS_O_NONBLOCK O_NONBLOCK
#define ZVFS_F_SETFL F_SETFL
#endif
#ifdef MBEDTLS_PSA_CRYPTO_C
#include <psa/crypto.h>
#endif

// TLS takes random numbers from a function, unless mbedTLS has PSA's generator only (mbedTLS 4).
#ifdef TF_PSA_CRYPTO_VERSION_NUMBER
#define TERN_TLS_TAKES_GENERATOR 0
#else
#define TERN_TLS_TAKES_GENERATOR 1
#endif

#ifdef MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET
#define TERN_TLS_TICKET MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET
#else
#define TERN_TLS_TICKET MBEDTLS_ERR_SSL_WANT_READ
#endif

// --- Failures

const char *tern_zephyr_step_name(enum tern_zephyr_step step)
{
    static const char *const names[] = {
        [TERN_ZEPHYR_CONFIGURATION] = "configuration",
        [TERN_ZEPHYR_DNS] = "dns",
        [TERN_ZEPHYR_CONNECT] = "connect",
        [TERN_ZEPHYR_HANDSHAKE] = "handshake",
        [TERN_ZEPHYR_CERTIFICATE] = "certificate",
    };
    return names[step];
}

static enum tern_result fail(struct tern_zephyr_connection *connection, enum tern_zephyr_step step,
                             int error)
{
    static const enum tern_result results[] = {
        [TERN_ZEPHYR_CONFIGURATION] = TERN_ERR_TLS, [TERN_ZEPHYR_DNS] = TERN_ERR_NETWORK,
        [TERN_ZEPHYR_CONNECT] = TERN_ERR_NETWORK,   [TERN_ZEPHYR_HANDSHAKE] = TERN_ERR_TLS,
        [TERN_ZEPHYR_CERTIFICATE] = TERN_ERR_TLS,
    };
    connection->failed_step = step;
    connection->failed_error = error;
    return results[step];
}

// --- The socket

// Waits until the socket can do `events`. Returns false at end_ms.
static bool wait_for(int fd, short events, int64_t end_ms)
{
    const int64_t left_ms = end_ms - k_uptime_get();
    struct zsock_pollfd polled = {.fd = fd, .events = events};
    return left_ms > 0 && zsock_poll(&polled, 1, (int)left_ms) == 1;
}

static int send_to_socket(void *ctx, const unsigned char *src, size_t len)
{
    const struct tern_zephyr_connection *connection = ctx;
    const ssize_t sent = zsock_send(connection->fd, src, len, 0);
    if (sent > 0) {
        return (int)sent;
    }
    return errno == EAGAIN || errno == EWOULDBLOCK ? MBEDTLS_ERR_SSL_WANT_WRITE
                                                   : MBEDTLS_ERR_SSL_CONN_EOF;
}

static int receive_from_socket(void *ctx, unsigned char *dst, size_t size)
{
    const struct tern_zephyr_connection *connection = ctx;
    const ssize_t received = zsock_recv(connection->fd, dst, size, 0);
    if (received >= 0) {
        return received > 0 ? (int)received : MBEDTLS_ERR_SSL_CONN_EOF;
    }
    return errno == EAGAIN || errno == EWOULDBLOCK ? MBEDTLS_ERR_SSL_WANT_READ
                                                   : MBEDTLS_ERR_SSL_CONN_EOF;
}

// Returns whether mbedTLS must wait, after having waited for the socket. *error: MBEDTLS_ERR_SSL_TIMEOUT when the
// time is over.
static bool waits(const struct tern_zephyr_connection *connection, int *error, int64_t end_ms)
{
    const bool writes = *error == MBEDTLS_ERR_SSL_WANT_WRITE;
    if (!writes && *error != MBEDTLS_ERR_SSL_WANT_READ && *error != TERN_TLS_TICKET) {
        return false;
    }
    if (wait_for(connection->fd, writes ? ZSOCK_POLLOUT : ZSOCK_POLLIN, end_ms)) {
        return true;
    }
    *error = MBEDTLS_ERR_SSL_TIMEOUT;
    return false;
}

// Returns 0, or errno.
static int connect_socket(struct tern_zephyr_connection *connection,
                          const struct zsock_addrinfo *address, int64_t end_ms)
{
    connection->fd = zsock_socket(address->ai_family, SOCK_STREAM, IPPROTO_TCP);
    if (connection->fd < 0) {
        return errno;
    }
    connection->is_open = true;
    int error = 0;
    socklen_t size = sizeof error;
    if (zsock_fcntl(connection->fd, ZVFS_F_SETFL, ZVFS_O_NONBLOCK) != 0) {
        return errno;
    }
    if (zsock_connect(connection->fd, address->ai_addr, address->ai_addrlen) == 0) {
        return 0;
    }
    if (errno != EINPROGRESS) {
        return errno;
    }
    if (!wait_for(connection->fd, ZSOCK_POLLOUT, end_ms)) {
        return ETIMEDOUT;
    }
    return zsock_getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error
                                                                                      : errno;
}

static void close_stream(void *ctx)
{
    struct tern_zephyr_connection *connection = ctx;
    if (connection->is_open) {
        (void)mbedtls_ssl_close_notify(&connection->ssl); // does not wait
        (void)zsock_close(connection->fd);
        connection->is_open = false;
    }
}

// --- TLS

#if TERN_TLS_TAKES_GENERATOR
static int random_bytes(void *ctx, unsigned char *dst, size_t len)
{
    (void)ctx;
    return tern_zephyr_entropy().fill(NULL, dst, len) == TERN_OK ? 0
                                                                 : MBEDTLS_ERR_SSL_INTERNAL_ERROR;
}
#endif

// Returns 0, or an error code of mbedTLS.
static int configure(struct tern_zephyr_connection *connection)
{
    mbedtls_ssl_config *config = &connection->config;
    mbedtls_ssl_config_init(config);
    mbedtls_ssl_init(&connection->ssl);
    mbedtls_ssl_session_init(&connection->session);
    mbedtls_x509_crt_init(&connection->trusted);
#ifdef MBEDTLS_PSA_CRYPTO_C
    if (psa_crypto_init() != PSA_SUCCESS) {
        return MBEDTLS_ERR_SSL_INTERNAL_ERROR;
    }
#endif
    int error = mbedtls_x509_crt_parse(&connection->trusted, (const unsigned char *)connection->ca,
                                       connection->ca_len);
    if (error == 0) {
        error =
            mbedtls_ssl_config_defaults(config, MBEDTLS_SSL_IS_CLIENT, MBEDTLS_SSL_TRANSPORT_STREAM,
                                        MBEDTLS_SSL_PRESET_DEFAULT);
    }
    if (error == 0) {
#if TERN_TLS_TAKES_GENERATOR
        mbedtls_ssl_conf_rng(config, random_bytes, NULL);
#endif
        mbedtls_ssl_conf_authmode(config, MBEDTLS_SSL_VERIFY_REQUIRED);
        mbedtls_ssl_conf_ca_chain(config, &connection->trusted, NULL);
        error = mbedtls_ssl_setup(&connection->ssl, config);
    }
    if (error == 0) {
        mbedtls_ssl_set_bio(&connection->ssl, connection, send_to_socket, receive_from_socket,
                            NULL);
        error = mbedtls_ssl_set_hostname(&connection->ssl, connection->host);
    }
    return error;
}

static void free_tls(struct tern_zephyr_connection *connection)
{
    mbedtls_ssl_session_free(&connection->session);
    mbedtls_ssl_free(&connection->ssl);
    mbedtls_ssl_config_free(&connection->config);
    mbedtls_x509_crt_free(&connection->trusted);
    connection->is_ready = false;
    connection->has_session = false;
}

// Makes mbedTLS ready for a new connection. Returns 0, or an error code of mbedTLS.
static int prepare(struct tern_zephyr_connection *connection)
{
    int error =
        connection->is_ready ? mbedtls_ssl_session_reset(&connection->ssl) : configure(connection);
    if (error == 0 && connection->has_session) {
        error = mbedtls_ssl_set_session(&connection->ssl, &connection->session);
    }
    connection->is_ready = true;
    if (error != 0) {
        free_tls(connection);
    }
    return error;
}

static void keep_session(struct tern_zephyr_connection *connection, bool worked)
{
    mbedtls_ssl_session_free(&connection->session);
    mbedtls_ssl_session_init(&connection->session);
    connection->has_session =
        worked && mbedtls_ssl_get_session(&connection->ssl, &connection->session) == 0;
}

static enum tern_result shake_hands(struct tern_zephyr_connection *connection, int64_t end_ms)
{
    int error = 0;
    do {
        error = mbedtls_ssl_handshake(&connection->ssl);
    } while (waits(connection, &error, end_ms));
    keep_session(connection, error == 0);
    if (error == 0) {
        return TERN_OK;
    }
    const uint32_t flags = mbedtls_ssl_get_verify_result(&connection->ssl);
    if (error == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED) {
        return fail(connection, TERN_ZEPHYR_CERTIFICATE, (int)flags);
    }
    (void)fail(connection, TERN_ZEPHYR_HANDSHAKE, error);
    return error == MBEDTLS_ERR_SSL_TIMEOUT || error == MBEDTLS_ERR_SSL_CONN_EOF ? TERN_ERR_NETWORK
                                                                                 : TERN_ERR_TLS;
}

// --- The stream

static enum tern_result open_address(struct tern_zephyr_connection *connection,
                                     const struct zsock_addrinfo *address, int64_t end_ms)
{
    int error = prepare(connection);
    if (error != 0) {
        return fail(connection, TERN_ZEPHYR_CONFIGURATION, error);
    }
    error = connect_socket(connection, address, end_ms);
    const enum tern_result result =
        error == 0 ? shake_hands(connection, end_ms) : fail(connection, TERN_ZEPHYR_CONNECT, error);
    if (result != TERN_OK) {
        close_stream(connection);
    }
    return result;
}

// Tries the addresses in turn. Each may take an equal part of the time that is left.
static enum tern_result open_stream(void *ctx, uint32_t timeout_ms)
{
    struct tern_zephyr_connection *connection = ctx;
    const int64_t end_ms = k_uptime_get() + timeout_ms;
    const struct zsock_addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct zsock_addrinfo *found = NULL;
    const int error = zsock_getaddrinfo(connection->host, connection->port, &hints, &found);
    if (error != 0) {
        return fail(connection, TERN_ZEPHYR_DNS, error);
    }
    int64_t count = 0;
    for (const struct zsock_addrinfo *address = found; address != NULL;
         address = address->ai_next) {
        count++;
    }
    enum tern_result result = TERN_ERR_NETWORK;
    for (const struct zsock_addrinfo *address = found;
         address != NULL && result == TERN_ERR_NETWORK; address = address->ai_next) {
        const int64_t now_ms = k_uptime_get();
        result = open_address(connection, address, now_ms + (end_ms - now_ms) / count--);
    }
    zsock_freeaddrinfo(found);
    return result;
}

// Writes src[0..len), or reads up to len bytes into dst if src is NULL. *done: number of bytes. Returns it, or an error code of
// mbedTLS.
static int transfer(struct tern_zephyr_connection *connection, const uint8_t *src, uint8_t *dst,
                    size_t len, uint32_t timeout_ms, size_t *done)
{
    const int64_t end_ms = k_uptime_get() + timeout_ms;
    int result = MBEDTLS_ERR_SSL_CONN_EOF;
    if (connection->is_open) {
        do {
            result = src != NULL ? mbedtls_ssl_write(&connection->ssl, src, len)
                                 : mbedtls_ssl_read(&connection->ssl, dst, len);
        } while (waits(connection, &result, end_ms));
    }
    *done = result > 0 ? (size_t)result : 0;
    return result;
}

static enum tern_result send_stream(void *ctx, const uint8_t *src, size_t len, size_t *sent,
                                    uint32_t timeout_ms)
{
    return transfer(ctx, src, NULL, len, timeout_ms, sent) > 0 ? TERN_OK : TERN_ERR_NETWORK;
}

static enum tern_result receive_stream(void *ctx, uint8_t *dst, size_t size, size_t *len,
                                       uint32_t timeout_ms)
{
    const int result = transfer(ctx, NULL, dst, size, timeout_ms, len);
    return result >= 0 || result == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY ? TERN_OK : TERN_ERR_NETWORK;
}

struct tern_stream tern_zephyr_stream(struct tern_zephyr_connection *connection)
{
    return (struct tern_stream){.ctx = connection,
                                .open = open_stream,
                                .send = send_stream,
                                .receive = receive_stream,
                                .close = close_stream};
}
