#include "http/tls.h"
#include "util/bytes.h"
#include <errno.h>
#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/error.h>
#include <mbedtls/platform_util.h>
#include <mbedtls/ssl.h>
#include <mbedtls/x509_crt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

struct tern_tls_context {
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context random;
    mbedtls_x509_crt certificate;
    mbedtls_pk_context key;
    mbedtls_ssl_config config;
    struct tern_ticket_keys *ticket_keys;
    struct tern_tls_session *current; // whose handshake runs now, for the ticket callbacks
};

struct tern_tls_session {
    struct tern_tls_context *context;
    mbedtls_ssl_context ssl;
    int fd;
    bool resumed;
    uint64_t bytes_received;
    uint64_t bytes_sent;
};

// ChaCha20-Poly1305 first: no explicit nonce makes each record 8 bytes shorter than GCM's, and
// devices without AES instructions are fastest with it.
static const int CIPHERSUITES[] = {
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    MBEDTLS_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    MBEDTLS_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    MBEDTLS_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    0,
};

// The first that the client knows is used. X25519 saves 33 bytes each way.
static const mbedtls_ecp_group_id CURVES[] = {
    MBEDTLS_ECP_DP_CURVE25519,
    MBEDTLS_ECP_DP_SECP256R1,
    MBEDTLS_ECP_DP_NONE,
};

// --- Tickets ---------------------------------------------------------------------------------

// A ticket's content is what this listener needs to resume and no more: mbedTLS's own form of a
// session is twice as long, and each reconnect sends it.
#define TICKET_VERSION 1u
#define TICKET_PLAIN (1u + 1u + 1u + 2u + 8u + 48u)

static uint64_t now_s(void)
{
    return (uint64_t)time(NULL);
}

static void pack_session(const mbedtls_ssl_session *session, uint8_t plain[TICKET_PLAIN])
{
    plain[0] = TICKET_VERSION;
    plain[1] = session->mfl_code;
    plain[2] = (uint8_t)session->encrypt_then_mac;
    tern_put_le16(plain + 3, (uint16_t)session->ciphersuite);
    tern_put_le64(plain + 5, (uint64_t)session->start);
    memcpy(plain + 13, session->master, sizeof session->master);
}

static bool unpack_session(const uint8_t plain[TICKET_PLAIN], mbedtls_ssl_session *session)
{
    uint64_t start = tern_get_le64(plain + 5);
    uint64_t now = now_s();
    uint64_t age = now > start ? now - start : 0;
    if (plain[0] != TICKET_VERSION || age >= TERN_TICKET_LIFETIME_S) {
        return false;
    }
    session->mfl_code = plain[1];
    session->encrypt_then_mac = plain[2];
    session->ciphersuite = tern_get_le16(plain + 3);
    session->start = (mbedtls_time_t)start;
    memcpy(session->master, plain + 13, sizeof session->master);
    return true;
}

static int write_ticket(void *ctx, const mbedtls_ssl_session *session, unsigned char *start,
                        const unsigned char *end, size_t *len, uint32_t *lifetime)
{
    struct tern_tls_context *context = ctx;
    uint8_t plain[TICKET_PLAIN];
    if ((size_t)(end - start) < TICKET_PLAIN + TERN_TICKET_OVERHEAD) {
        return MBEDTLS_ERR_SSL_BUFFER_TOO_SMALL;
    }
    pack_session(session, plain);
    enum tern_result result = tern_ticket_seal(context->ticket_keys, plain, sizeof plain, start);
    mbedtls_platform_zeroize(plain, sizeof plain);
    *len = TICKET_PLAIN + TERN_TICKET_OVERHEAD;
    *lifetime = TERN_TICKET_LIFETIME_S;
    return result == TERN_OK ? 0 : MBEDTLS_ERR_SSL_INTERNAL_ERROR;
}

// A ticket that does not open is no error: the handshake goes on in full.
static int parse_ticket(void *ctx, mbedtls_ssl_session *session, unsigned char *ticket, size_t len)
{
    struct tern_tls_context *context = ctx;
    uint8_t plain[TICKET_PLAIN];
    if (len != TICKET_PLAIN + TERN_TICKET_OVERHEAD ||
        tern_ticket_open(context->ticket_keys, ticket, len, plain) != TERN_OK) {
        return MBEDTLS_ERR_SSL_INVALID_MAC;
    }
    bool valid = unpack_session(plain, session);
    mbedtls_platform_zeroize(plain, sizeof plain);
    if (!valid) {
        return MBEDTLS_ERR_SSL_SESSION_TICKET_EXPIRED;
    }
    context->current->resumed = true;
    return 0;
}

// --- Context ---------------------------------------------------------------------------------

static enum tern_result refuse(char why[256], const char *what, const char *path, int error)
{
    if (error == MBEDTLS_ERR_PK_FILE_IO_ERROR || error == MBEDTLS_ERR_X509_FILE_IO_ERROR) {
        snprintf(why, 256, "%s %.180s cannot be read", what, path);
    } else {
        snprintf(why, 256, "%s %.150s is not a PEM file that mbedTLS understands (error -0x%04x)",
                 what, path, (unsigned)-error);
    }
    return TERN_ERR_CONFIG;
}

static enum tern_result load_files(struct tern_tls_context *context, const char *certificate,
                                   const char *private_key, char why[256])
{
    int error = mbedtls_x509_crt_parse_file(&context->certificate, certificate);
    if (error != 0) {
        return refuse(why, "the certificate", certificate, error < 0 ? error : -error);
    }
    error = mbedtls_pk_parse_keyfile(&context->key, private_key, NULL);
    if (error != 0) {
        return refuse(why, "the private key", private_key, error);
    }
    if (mbedtls_pk_check_pair(&context->certificate.pk, &context->key) != 0) {
        snprintf(why, 256, "the private key %.100s does not belong to the certificate %.100s",
                 private_key, certificate);
        return TERN_ERR_CONFIG;
    }
    return TERN_OK;
}

static bool configure(struct tern_tls_context *context)
{
    mbedtls_ssl_config *config = &context->config;
    if (mbedtls_ctr_drbg_seed(&context->random, mbedtls_entropy_func, &context->entropy, NULL, 0) !=
            0 ||
        mbedtls_ssl_config_defaults(config, MBEDTLS_SSL_IS_SERVER, MBEDTLS_SSL_TRANSPORT_STREAM,
                                    MBEDTLS_SSL_PRESET_DEFAULT) != 0 ||
        mbedtls_ssl_conf_own_cert(config, &context->certificate, &context->key) != 0) {
        return false;
    }
    mbedtls_ssl_conf_rng(config, mbedtls_ctr_drbg_random, &context->random);
    mbedtls_ssl_conf_min_version(config, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
    mbedtls_ssl_conf_ciphersuites(config, CIPHERSUITES);
    mbedtls_ssl_conf_curves(config, CURVES);
    mbedtls_ssl_conf_authmode(config, MBEDTLS_SSL_VERIFY_NONE);
    mbedtls_ssl_conf_renegotiation(config, MBEDTLS_SSL_RENEGOTIATION_DISABLED);
    if (context->ticket_keys != NULL) {
        mbedtls_ssl_conf_session_tickets_cb(config, write_ticket, parse_ticket, context);
    }
    return true;
}

enum tern_result tern_tls_context_new(const char *certificate, const char *private_key,
                                      struct tern_ticket_keys *keys, struct tern_tls_context **out,
                                      char why[256])
{
    struct tern_tls_context *context = calloc(1, sizeof *context);
    if (context == NULL) {
        snprintf(why, 256, "memory is short");
        return TERN_ERR_NO_MEMORY;
    }
    mbedtls_entropy_init(&context->entropy);
    mbedtls_ctr_drbg_init(&context->random);
    mbedtls_x509_crt_init(&context->certificate);
    mbedtls_pk_init(&context->key);
    mbedtls_ssl_config_init(&context->config);
    context->ticket_keys = keys;
    enum tern_result result = load_files(context, certificate, private_key, why);
    if (result == TERN_OK && !configure(context)) {
        snprintf(why, 256, "TLS could not be set up: no entropy, or memory is short");
        result = TERN_ERR_CONFIG;
    }
    if (result != TERN_OK) {
        tern_tls_context_free(context);
        return result;
    }
    *out = context;
    return TERN_OK;
}

void tern_tls_context_free(struct tern_tls_context *context)
{
    if (context == NULL) {
        return;
    }
    mbedtls_ssl_config_free(&context->config);
    mbedtls_pk_free(&context->key);
    mbedtls_x509_crt_free(&context->certificate);
    mbedtls_ctr_drbg_free(&context->random);
    mbedtls_entropy_free(&context->entropy);
    free(context);
}

// --- Session ---------------------------------------------------------------------------------

static int socket_send(void *ctx, const unsigned char *src, size_t len)
{
    struct tern_tls_session *session = ctx;
    ssize_t sent = send(session->fd, src, len, MSG_NOSIGNAL);
    if (sent >= 0) {
        session->bytes_sent += (uint64_t)sent;
        return (int)sent;
    }
    bool later = errno == EAGAIN || errno == EINTR;
    return later ? MBEDTLS_ERR_SSL_WANT_WRITE : MBEDTLS_ERR_SSL_INTERNAL_ERROR;
}

static int socket_receive(void *ctx, unsigned char *dst, size_t size)
{
    struct tern_tls_session *session = ctx;
    ssize_t received = recv(session->fd, dst, size, 0);
    if (received >= 0) {
        session->bytes_received += (uint64_t)received;
        return (int)received;
    }
    bool later = errno == EAGAIN || errno == EINTR;
    return later ? MBEDTLS_ERR_SSL_WANT_READ : MBEDTLS_ERR_SSL_INTERNAL_ERROR;
}

struct tern_tls_session *tern_tls_session_new(struct tern_tls_context *context, int fd)
{
    struct tern_tls_session *session = calloc(1, sizeof *session);
    if (session == NULL) {
        return NULL;
    }
    session->context = context;
    session->fd = fd;
    mbedtls_ssl_init(&session->ssl);
    if (mbedtls_ssl_setup(&session->ssl, &context->config) != 0) {
        tern_tls_session_free(session);
        return NULL;
    }
    mbedtls_ssl_set_bio(&session->ssl, session, socket_send, socket_receive, NULL);
    return session;
}

void tern_tls_session_free(struct tern_tls_session *session)
{
    if (session != NULL) {
        mbedtls_ssl_free(&session->ssl);
        free(session);
    }
}

static enum tern_stream_status status_of(int result)
{
    switch (result) {
    case MBEDTLS_ERR_SSL_WANT_READ:
        return TERN_STREAM_WANT_READ;
    case MBEDTLS_ERR_SSL_WANT_WRITE:
        return TERN_STREAM_WANT_WRITE;
    case 0: // the TCP stream ended; HTTP lengths tell whether it was early
    case MBEDTLS_ERR_SSL_CONN_EOF:
    case MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY:
        return TERN_STREAM_END;
    default:
        return TERN_STREAM_FAILED;
    }
}

enum tern_stream_status tern_tls_handshake(struct tern_tls_session *session)
{
    session->context->current = session;
    int result = mbedtls_ssl_handshake(&session->ssl);
    session->context->current = NULL;
    return result == 0 ? TERN_STREAM_DONE : status_of(result);
}

bool tern_tls_resumed(const struct tern_tls_session *session)
{
    return session->resumed;
}

uint64_t tern_tls_bytes_received(const struct tern_tls_session *session)
{
    return session->bytes_received;
}

uint64_t tern_tls_bytes_sent(const struct tern_tls_session *session)
{
    return session->bytes_sent;
}

enum tern_stream_status tern_tls_read(struct tern_tls_session *session, uint8_t *dst, size_t size,
                                      size_t *len)
{
    int result = mbedtls_ssl_read(&session->ssl, dst, size);
    if (result <= 0) {
        return status_of(result);
    }
    *len = (size_t)result;
    return TERN_STREAM_DONE;
}

enum tern_stream_status tern_tls_write(struct tern_tls_session *session, const uint8_t *src,
                                       size_t len, size_t *written)
{
    int result = mbedtls_ssl_write(&session->ssl, src, len);
    if (result <= 0) {
        return status_of(result);
    }
    *written = (size_t)result;
    return TERN_STREAM_DONE;
}

void tern_tls_close(struct tern_tls_session *session)
{
    (void)mbedtls_ssl_close_notify(&session->ssl); // the FIN that follows says the same
}
