// The TLS backend for a libcurl that uses mbedTLS, as in small static clients. libcurl passes the config of each connection to
// on_context() after setting everything else; CURLINFO_TLS_SSL_PTR gives the connection itself.
#define _GNU_SOURCE
#include "posix/tls/backend.h"
#include "posix/tls/flights.h"

#include <arpa/inet.h>
#include <mbedtls/x509_crt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAN_IP_ADDRESS (MBEDTLS_ASN1_CONTEXT_SPECIFIC | 7) // RFC 5280, section 4.2.1.6

const bool tern_curl_tls_backend_required = true;
const bool tern_curl_tls_backend_has_tls13 = false; // suites and sessions here are for TLS 1.2

// Only ChaCha20, whose overhead of a record is 21 bytes, that of AES-GCM 29. Most boards have no AES instructions, and the
// aggregator prefers ChaCha20. The second suite takes 2 bytes, and is for aggregators behind a proxy whose certificate has an
// RSA key.
static const int suites[] = {MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
                             MBEDTLS_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, 0};

bool tern_curl_tls_backend_matches(const char *version)
{
    return strncmp(version, "mbedTLS/" TERN_MBEDTLS_MAJOR ".", 10) == 0;
}

static mbedtls_ssl_context *connection_of(CURL *easy)
{
    const struct curl_tlssessioninfo *info = NULL;
    const CURLcode code = curl_easy_getinfo(easy, CURLINFO_TLS_SSL_PTR, &info);
    return code == CURLE_OK && info->backend == CURLSSLBACKEND_MBEDTLS ? info->internals : NULL;
}

// --- The peer's certificate

// Returns whether subjectAltName of the certificate has the host's IP address. mbedTLS 2.28 compares only names; 3.6 also
// compares addresses.
static bool names_address(const mbedtls_x509_crt *certificate, const char *host)
{
    uint8_t address[16];
    const size_t len = inet_pton(AF_INET, host, address) == 1    ? 4
                       : inet_pton(AF_INET6, host, address) == 1 ? 16
                                                                 : 0;
    const mbedtls_x509_sequence *name = &certificate->subject_alt_names;
    for (; len > 0 && name != NULL; name = name->next) {
        if (name->buf.tag == SAN_IP_ADDRESS && name->buf.len == len &&
            memcmp(name->buf.p, address, len) == 0) {
            return true;
        }
    }
    return false;
}

static struct tm date_of(const mbedtls_x509_time *time)
{
    return (struct tm){.tm_year = time->year - 1900,
                       .tm_mon = time->mon - 1,
                       .tm_mday = time->day,
                       .tm_hour = time->hour,
                       .tm_min = time->min,
                       .tm_sec = time->sec};
}

// Describes the verification errors `flags`. is_peer: they concern the aggregator's certificate; else that of an issuer.
static void explain(struct tern_curl_tls *tls, uint32_t flags, bool is_peer)
{
    static const char expired[] = "a CA of the aggregator's certificate has expired (";
    static const char early[] = "a CA of the aggregator's certificate is not valid yet (";
    if ((flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) != 0) {
        tern_curl_tls_set_foreign(tls);
    } else if ((flags & MBEDTLS_X509_BADCERT_CN_MISMATCH) != 0) {
        tern_curl_tls_explain(tls, "the aggregator's certificate does not name the host in ",
                              "server", "");
    } else if ((flags & MBEDTLS_X509_BADCERT_EXPIRED) != 0 && is_peer) {
        tern_curl_tls_explain(
            tls, "the aggregator's certificate has expired, or this machine's clock is wrong", NULL,
            "");
    } else if ((flags & MBEDTLS_X509_BADCERT_EXPIRED) != 0) {
        tern_curl_tls_explain(tls, expired, "ca", "), or this machine's clock is wrong");
    } else if ((flags & MBEDTLS_X509_BADCERT_FUTURE) != 0 && is_peer) {
        tern_curl_tls_explain(
            tls, "the aggregator's certificate is not valid yet: is this machine's clock right?",
            NULL, "");
    } else if ((flags & MBEDTLS_X509_BADCERT_FUTURE) != 0) {
        tern_curl_tls_explain(tls, early, "ca", "): is this machine's clock right?");
    } else if (is_peer) {
        tern_curl_tls_explain(
            tls, "the aggregator's certificate is too weak or not made for a server", NULL, "");
    } else {
        tern_curl_tls_explain(
            tls, "a CA of the aggregator's certificate is too weak or not made for one (", "ca",
            ")");
    }
}

// Called for each certificate of the chain. The peer's certificate is the last one, with depth 0.
static int on_certificate(void *ctx, mbedtls_x509_crt *certificate, int depth, uint32_t *flags)
{
    struct tern_curl_tls *tls = ctx;
    if (depth == 0 && names_address(certificate, tern_curl_tls_host(tls))) {
        *flags &= ~(uint32_t)MBEDTLS_X509_BADCERT_CN_MISMATCH;
    }
    const struct tm end = date_of(&certificate->valid_to);
    if (*flags != 0) {
        explain(tls, *flags, depth == 0);
        return 0;
    }
    tern_curl_tls_note_expiry(tls, depth == 0, &end);
    if (depth == 0) {
        tern_curl_tls_set_verified(tls);
    }
    return 0;
}

bool tern_curl_tls_backend_is_foreign(const struct tern_curl_tls *tls, CURL *easy)
{
    (void)easy;
    return tern_curl_tls_has_foreign(tls);
}

// --- Sessions

static void offer(struct tern_curl_tls *tls, mbedtls_ssl_context *connection)
{
    const struct tern_curl_tls_session *held = tern_curl_tls_session_to_offer(tls);
    mbedtls_ssl_session session;
    if (held == NULL) {
        return;
    }
    mbedtls_ssl_session_init(&session);
    // After an error, e.g. because another build of mbedTLS has written the session, the handshake is a full one.
    if (mbedtls_ssl_session_load(&session, held->bytes, held->len) == 0) {
        const int code = mbedtls_ssl_set_session(connection, &session);
        (void)code;
    }
    mbedtls_ssl_session_free(&session);
}

static enum tern_result serialize(const mbedtls_ssl_session *from,
                                  struct tern_curl_tls_session *session)
{
    size_t len = 0;
    (void)mbedtls_ssl_session_save(from, NULL, 0, &len);
    if (len == 0 || len > TERN_TLS_SESSION_MAX) {
        return TERN_ERR_TOO_LARGE;
    }
    uint8_t *bytes = malloc(len);
    if (bytes == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    if (mbedtls_ssl_session_save(from, bytes, len, &len) != 0) {
        free(bytes);
        return TERN_ERR_NO_MEMORY;
    }
    const struct tm end = date_of(&from->peer_cert->valid_to);
    *session = (struct tern_curl_tls_session){
        .bytes = bytes,
        .len = len,
        .expires_s = tern_curl_tls_session_expiry(from->ticket_lifetime, &end)};
    return TERN_OK;
}

// Stores the session of a full handshake, which has verified the peer. A resumed handshake verifies no certificate.
static void keep_session(struct tern_curl_tls *tls, const mbedtls_ssl_context *connection)
{
    struct tern_curl_tls_session session = {0};
    const mbedtls_ssl_session *now = connection->session;
    if (now != NULL && tern_curl_tls_is_verified(tls) && now->ticket_len > 0 &&
        now->peer_cert != NULL && serialize(now, &session) == TERN_OK) {
        tern_curl_tls_store_session(tls, &session);
    }
}

bool tern_curl_tls_backend_read_expiry(const char *file, struct tm *end)
{
    mbedtls_x509_crt chain;
    mbedtls_x509_crt_init(&chain);
    const bool is_read = mbedtls_x509_crt_parse_file(&chain, file) >= 0;
    if (is_read) {
        *end = date_of(&chain.valid_to);
    }
    mbedtls_x509_crt_free(&chain);
    return is_read;
}

// --- Setting up

// Configures a connection. It does not request smaller records (max_fragment_length): that would take 5 bytes in each hello and
// 21 bytes for each further record, while Debian's mbedTLS, built without MBEDTLS_SSL_VARIABLE_BUFFER_LENGTH, would still
// allocate two buffers of 16 KB.
static void set_config(mbedtls_ssl_config *config, struct tern_curl_tls *tls)
{
    mbedtls_ssl_conf_ciphersuites(config, suites);
    // P-256 is necessary for certificates with a P-256 key. X25519 costs 2 bytes in every ClientHello and saves 66 bytes in
    // a full handshake.
    tern_mbedtls_set_curves(config);
    tern_mbedtls_set_sha256(config);
    // This client uses no CBC suite, which encrypt-then-MAC protects, and no renegotiation.
    mbedtls_ssl_conf_encrypt_then_mac(config, MBEDTLS_SSL_ETM_DISABLED);
    mbedtls_ssl_conf_renegotiation(config, MBEDTLS_SSL_RENEGOTIATION_DISABLED);
    mbedtls_ssl_conf_session_tickets(config, MBEDTLS_SSL_SESSION_TICKETS_ENABLED);
    // Makes the handshake fail on a bad certificate. libcurl's default checks only after the handshake, and accepts weaker
    // keys and hashes.
    mbedtls_ssl_conf_authmode(config, MBEDTLS_SSL_VERIFY_REQUIRED);
    mbedtls_ssl_conf_cert_profile(config, &mbedtls_x509_crt_profile_default);
    mbedtls_ssl_conf_verify(config, on_certificate, tls);
}

static void on_received(void *ctx, const unsigned char *bytes, size_t len)
{
    tern_curl_tls_note_received(ctx, bytes, len);
}

static CURLcode on_context(CURL *easy, void *config, void *ctx)
{
    struct tern_curl_tls *tls = ctx;
    void **flights = tern_curl_tls_backend_data(tls);
    mbedtls_ssl_context *connection = connection_of(easy);
    if (*flights == NULL) {
        *flights = malloc(sizeof(struct tern_flights));
    }
    if (*flights == NULL || connection == NULL) {
        return CURLE_OUT_OF_MEMORY;
    }
    set_config(config, tls);
    offer(tls, connection);
    tern_flights_begin(*flights, connection);
    ((struct tern_flights *)*flights)->on_received = on_received;
    ((struct tern_flights *)*flights)->ctx = tls;
    return CURLE_OK;
}

enum tern_result tern_curl_tls_backend_end_handshake(struct tern_curl_tls *tls, CURL *easy)
{
    mbedtls_ssl_context *connection = connection_of(easy);
    if (connection == NULL) {
        return TERN_ERR_NETWORK;
    }
    TERN_TRY(tern_flights_end(*tern_curl_tls_backend_data(tls), connection));
    keep_session(tls, connection);
    return TERN_OK;
}

void tern_curl_tls_backend_configure(struct tern_curl_tls *tls, CURL *easy)
{
    curl_easy_setopt(easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, on_context);
    curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, tls);
}
