#include "mesh/ring_tls.h"

#include "hosted/files.h"
#include "hosted/mbedtls_versions.h"
#include "util/text.h"
#include <errno.h>
#include <mbedtls/error.h>
#include <mbedtls/oid.h>
#include <mbedtls/x509_crt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PEM_MAX ((size_t)1 << 20)

enum { DIALS, ANSWERS, ROLES };

struct tern_ring_tls {
    struct tern_mbedtls_random random;
    mbedtls_x509_crt ca;
    mbedtls_x509_crt certificate;
    mbedtls_pk_context key;
    mbedtls_ssl_config config[ROLES];
    char own_name[TERN_RING_NAME_SIZE];
};

struct tern_ring_tls_session {
    mbedtls_ssl_context ssl;
    int fd;
    int error; // mbedTLS error of the last failure
    bool cut;  // the connection ended without a TLS close notification
    uint64_t received;
    uint64_t sent;
};

static const int suites[] = {
    TERN_MBEDTLS_TLS13_SUITES // before those of TLS 1.2
        MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    MBEDTLS_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    MBEDTLS_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    0,
};

// --- Names

static bool is_common_name(const mbedtls_x509_name *part)
{
    return part->oid.len == sizeof MBEDTLS_OID_AT_CN - 1 &&
           memcmp(part->oid.p, MBEDTLS_OID_AT_CN, part->oid.len) == 0;
}

static void read_name(const mbedtls_x509_crt *certificate, char name[TERN_RING_NAME_SIZE])
{
    const mbedtls_x509_buf *found = NULL;
    unsigned names = 0;
    name[0] = '\0';
    if (certificate == NULL) {
        return;
    }
    for (const mbedtls_x509_name *part = &certificate->subject; part != NULL; part = part->next) {
        if (is_common_name(part)) {
            found = &part->val;
            names++;
        }
    }
    if (names == 1 && found->len > 0 && found->len < TERN_RING_NAME_SIZE &&
        tern_utf8_is_text((const char *)found->p, found->len)) {
        memcpy(name, found->p, found->len);
        name[found->len] = '\0';
    }
}

// --- Certificate, key and CA

static enum tern_result refuse(char why[TERN_RING_TLS_WHY_MAX], const char *setting,
                               const char *path, const char *reason)
{
    snprintf(why, TERN_RING_TLS_WHY_MAX, "%s: %.120s %.100s", setting, path, reason);
    return TERN_ERR_CONFIG;
}

// Reads a PEM file; the caller frees *pem. *size includes the terminating NUL, which mbedTLS needs.
static enum tern_result read_pem(const char *setting, const char *path, uint8_t **pem, size_t *size,
                                 char *why)
{
    if (path[0] == '\0') {
        return refuse(why, setting, "is not set;", "name a PEM file (docs/RING.md)");
    }
    if (tern_file_read_regular(path, PEM_MAX, pem, size) != TERN_OK) {
        return refuse(why, setting, path, "cannot be read");
    }
    *size += 1;
    return TERN_OK;
}

static enum tern_result read_certificate(const char *setting, const char *path,
                                         mbedtls_x509_crt *certificate, char *why)
{
    uint8_t *pem = NULL;
    size_t size = 0;
    TERN_TRY(read_pem(setting, path, &pem, &size, why));
    const int error = mbedtls_x509_crt_parse(certificate, pem, size);
    free(pem);
    return error == 0 ? TERN_OK : refuse(why, setting, path, "is not a certificate in PEM");
}

static enum tern_result read_key(struct tern_ring_tls *tls, const char *path, char *why)
{
    uint8_t *pem = NULL;
    size_t size = 0;
    TERN_TRY(read_pem("ring.key", path, &pem, &size, why));
    const int error = tern_mbedtls_parse_key(&tls->key, pem, size, &tls->random);
    free(pem);
    if (error != 0) {
        return refuse(why, "ring.key", path, "is not a PEM key without a password");
    }
    if (tern_mbedtls_check_pair(&tls->certificate.pk, &tls->key, &tls->random) != 0) {
        return refuse(why, "ring.key", path, "does not belong to ring.certificate");
    }
    return tern_mbedtls_keep_multiples(&tls->key) == 0
               ? TERN_OK
               : refuse(why, "ring.key", path, "cannot be used");
}

static bool configure(struct tern_ring_tls *tls, int role)
{
    mbedtls_ssl_config *config = &tls->config[role];
    const int end = role == DIALS ? MBEDTLS_SSL_IS_CLIENT : MBEDTLS_SSL_IS_SERVER;
    if (mbedtls_ssl_config_defaults(config, end, MBEDTLS_SSL_TRANSPORT_STREAM,
                                    MBEDTLS_SSL_PRESET_DEFAULT) != 0 ||
        mbedtls_ssl_conf_own_cert(config, &tls->certificate, &tls->key) != 0) {
        return false;
    }
    tern_mbedtls_set_random(config, &tls->random);
    tern_mbedtls_set_versions(config, true, true);
    mbedtls_ssl_conf_ciphersuites(config, suites);
    tern_mbedtls_set_curves(config);
    mbedtls_ssl_conf_authmode(config, MBEDTLS_SSL_VERIFY_REQUIRED);
    mbedtls_ssl_conf_ca_chain(config, &tls->ca, NULL);
    mbedtls_ssl_conf_renegotiation(config, MBEDTLS_SSL_RENEGOTIATION_DISABLED);
    mbedtls_ssl_conf_session_tickets(config, MBEDTLS_SSL_SESSION_TICKETS_DISABLED);
    return true;
}

static enum tern_result set_up(struct tern_ring_tls *tls, const char *ca, const char *certificate,
                               const char *key, char *why)
{
    if (!tern_mbedtls_random_start(&tls->random)) {
        return refuse(why, "TLS", "cannot start:", "no entropy");
    }
    TERN_TRY(read_certificate("ring.ca", ca, &tls->ca, why));
    TERN_TRY(read_certificate("ring.certificate", certificate, &tls->certificate, why));
    TERN_TRY(read_key(tls, key, why));
    read_name(&tls->certificate, tls->own_name);
    return configure(tls, DIALS) && configure(tls, ANSWERS)
               ? TERN_OK
               : refuse(why, "TLS", "cannot start:", "out of memory");
}

enum tern_result tern_ring_tls_new(const char *ca, const char *certificate, const char *key,
                                   struct tern_ring_tls **out, char why[TERN_RING_TLS_WHY_MAX])
{
    struct tern_ring_tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    tern_mbedtls_random_init(&tls->random);
    mbedtls_x509_crt_init(&tls->ca);
    mbedtls_x509_crt_init(&tls->certificate);
    mbedtls_pk_init(&tls->key);
    mbedtls_ssl_config_init(&tls->config[DIALS]);
    mbedtls_ssl_config_init(&tls->config[ANSWERS]);
    const enum tern_result result = set_up(tls, ca, certificate, key, why);
    if (result != TERN_OK) {
        tern_ring_tls_free(tls);
        return result;
    }
    *out = tls;
    return TERN_OK;
}

void tern_ring_tls_free(struct tern_ring_tls *tls)
{
    if (tls == NULL) {
        return;
    }
    mbedtls_ssl_config_free(&tls->config[DIALS]);
    mbedtls_ssl_config_free(&tls->config[ANSWERS]);
    mbedtls_pk_free(&tls->key);
    mbedtls_x509_crt_free(&tls->certificate);
    mbedtls_x509_crt_free(&tls->ca);
    tern_mbedtls_random_free(&tls->random);
    free(tls);
}

const char *tern_ring_tls_own_name(const struct tern_ring_tls *tls)
{
    return tls->own_name;
}

// --- Sessions

static int socket_send(void *ctx, const unsigned char *src, size_t len)
{
    struct tern_ring_tls_session *session = ctx;
    const ssize_t sent = send(session->fd, src, len, MSG_NOSIGNAL);
    if (sent >= 0) {
        session->sent += (uint64_t)sent;
        return (int)sent;
    }
    const bool later = errno == EAGAIN || errno == EINTR;
    session->cut = !later;
    return later ? MBEDTLS_ERR_SSL_WANT_WRITE : MBEDTLS_ERR_SSL_INTERNAL_ERROR;
}

static int socket_receive(void *ctx, unsigned char *dst, size_t size)
{
    struct tern_ring_tls_session *session = ctx;
    const ssize_t received = recv(session->fd, dst, size, 0);
    if (received >= 0) {
        session->received += (uint64_t)received;
        return (int)received;
    }
    const bool later = errno == EAGAIN || errno == EINTR;
    session->cut = !later;
    return later ? MBEDTLS_ERR_SSL_WANT_READ : MBEDTLS_ERR_SSL_INTERNAL_ERROR;
}

struct tern_ring_tls_session *tern_ring_tls_open(struct tern_ring_tls *tls, int fd, bool dials)
{
    struct tern_ring_tls_session *session = calloc(1, sizeof *session);
    if (session == NULL) {
        return NULL;
    }
    session->fd = fd;
    mbedtls_ssl_init(&session->ssl);
    // No host name: the mesh compares the certificate's common name instead.
    if (mbedtls_ssl_setup(&session->ssl, &tls->config[dials ? DIALS : ANSWERS]) != 0 ||
        mbedtls_ssl_set_hostname(&session->ssl, NULL) != 0) {
        tern_ring_tls_close(session);
        return NULL;
    }
    mbedtls_ssl_set_bio(&session->ssl, session, socket_send, socket_receive, NULL);
    return session;
}

void tern_ring_tls_close(struct tern_ring_tls_session *session)
{
    if (session != NULL) {
        mbedtls_ssl_free(&session->ssl);
        free(session);
    }
}

static enum tern_ring_io io_of(int result)
{
    switch (result) {
    case MBEDTLS_ERR_SSL_WANT_READ:
        return TERN_RING_IO_WANT_READ;
    case MBEDTLS_ERR_SSL_WANT_WRITE:
        return TERN_RING_IO_WANT_WRITE;
    case 0:
    case MBEDTLS_ERR_SSL_CONN_EOF:
    case MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY:
        return TERN_RING_IO_END;
    default:
        return TERN_RING_IO_FAILED;
    }
}

enum tern_ring_io tern_ring_tls_handshake(struct tern_ring_tls_session *session)
{
    const int result = mbedtls_ssl_handshake(&session->ssl);
    if (result == 0) {
        return TERN_RING_IO_DONE;
    }
    session->error = result;
    return io_of(result);
}

void tern_ring_tls_peer_name(const struct tern_ring_tls_session *session,
                             char name[TERN_RING_NAME_SIZE])
{
    read_name(mbedtls_ssl_get_peer_cert(&session->ssl), name);
}

void tern_ring_tls_explain(const struct tern_ring_tls_session *session,
                           char why[TERN_RING_TLS_WHY_MAX])
{
    const uint32_t flags = mbedtls_ssl_get_verify_result(&session->ssl);
    char text[128] = "";
    if (flags != 0 && flags != UINT32_MAX) {
        mbedtls_x509_crt_verify_info(text, sizeof text, "", flags);
        text[strcspn(text, "\n")] = '\0';
        snprintf(why, TERN_RING_TLS_WHY_MAX, "the peer's certificate is refused: %s",
                 (flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) != 0
                     ? "the CA in ring.ca has not signed it"
                     : text);
    } else if (session->error == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE) {
        snprintf(
            why, TERN_RING_TLS_WHY_MAX,
            "the peer refused the handshake, probably because of this peer's certificate; compare "
            "ring.ca of both peers, and read its log");
    } else if (session->cut) {
        snprintf(why, TERN_RING_TLS_WHY_MAX,
                 "the peer cut the connection in the handshake, probably because of this peer's "
                 "certificate; compare ring.ca of both peers, and read its log");
    } else if (io_of(session->error) == TERN_RING_IO_END) {
        snprintf(why, TERN_RING_TLS_WHY_MAX, "the peer has closed the connection");
    } else {
        mbedtls_strerror(session->error, text, sizeof text);
        snprintf(why, TERN_RING_TLS_WHY_MAX, "TLS failed: %s", text);
    }
}

enum tern_ring_io tern_ring_tls_read(struct tern_ring_tls_session *session, uint8_t *dst,
                                     size_t size, size_t *len)
{
    const int result = mbedtls_ssl_read(&session->ssl, dst, size);
    if (result <= 0) {
        session->error = result;
        return io_of(result);
    }
    *len = (size_t)result;
    return TERN_RING_IO_DONE;
}

enum tern_ring_io tern_ring_tls_write(struct tern_ring_tls_session *session, const uint8_t *src,
                                      size_t len, size_t *written)
{
    const int result = mbedtls_ssl_write(&session->ssl, src, len);
    if (result <= 0) {
        session->error = result;
        return io_of(result);
    }
    *written = (size_t)result;
    return TERN_RING_IO_DONE;
}

bool tern_ring_tls_has_more(const struct tern_ring_tls_session *session)
{
    return mbedtls_ssl_check_pending(&session->ssl) != 0;
}

void tern_ring_tls_close_notify(struct tern_ring_tls_session *session)
{
    (void)mbedtls_ssl_close_notify(&session->ssl); // on failure the TCP FIN suffices
}

uint64_t tern_ring_tls_received(const struct tern_ring_tls_session *session)
{
    return session->received;
}

uint64_t tern_ring_tls_sent(const struct tern_ring_tls_session *session)
{
    return session->sent;
}
