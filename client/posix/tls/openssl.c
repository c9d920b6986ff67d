// libcurl with OpenSSL 3, Debian's. libcurl has loaded OpenSSL, and its headers are not needed to
// build Tern for a few functions: they are looked up at run time, and what is not there is not
// used. With any other TLS library than OpenSSL 3 libcurl keeps its own ways.
#define _GNU_SOURCE
#include "posix/tls/backend.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Few suites and curves keep the ClientHello small. All are forward secret and authenticated;
// ChaCha20 is first because boards without AES instructions are the rule.
#define SUITES                                                                                     \
    "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256:"                                 \
    "ECDHE-RSA-CHACHA20-POLY1305:ECDHE-RSA-AES128-GCM-SHA256"

// P-256 is needed for certificates with such a key. Naming X25519 besides costs 2 bytes in every
// ClientHello and saves 66 in a full handshake.
#define CURVES "X25519:P-256"

// Of OpenSSL 3's headers.
#define OP_TLSEXT_PADDING (UINT64_C(1) << 4)
#define OP_IGNORE_UNEXPECTED_EOF (UINT64_C(1) << 7)
#define OP_NO_TICKET (UINT64_C(1) << 14)
#define CB_HANDSHAKE_START 0x10
#define APP_DATA 0 // the index that is the application's own

const bool tern_tls_backend_required = false;

typedef void info_fn(void *connection, int where, int value);

// X(result, name, arguments)
#define FUNCTIONS(X)                                                                               \
    X(uint64_t, SSL_CTX_clear_options, (void *context, uint64_t options))                          \
    X(uint64_t, SSL_CTX_set_options, (void *context, uint64_t options))                            \
    X(int, SSL_CTX_set_ex_data, (void *context, int index, void *data))                            \
    X(void *, SSL_CTX_get_ex_data, (const void *context, int index))                               \
    X(void, SSL_CTX_set_info_callback, (void *context, info_fn *callback))                         \
    X(void *, SSL_get_SSL_CTX, (const void *connection))                                           \
    X(int, SSL_session_reused, (const void *connection))                                           \
    X(void *, SSL_get_session, (const void *connection))                                           \
    X(int, SSL_set_session, (void *connection, void *session))                                     \
    X(int, SSL_SESSION_has_ticket, (const void *session))                                          \
    X(unsigned long, SSL_SESSION_get_ticket_lifetime_hint, (const void *session))                  \
    X(void *, SSL_SESSION_get0_peer, (void *session))                                              \
    X(void, SSL_SESSION_free, (void *session))                                                     \
    X(int, i2d_SSL_SESSION, (const void *session, unsigned char **out))                            \
    X(void *, d2i_SSL_SESSION, (void **session, const unsigned char **in, long len))               \
    X(const void *, X509_get0_notAfter, (const void *certificate))                                 \
    X(int, ASN1_TIME_to_tm, (const void *time, struct tm *date))

static struct {
#define X(result, name, arguments) result(*name) arguments;
    FUNCTIONS(X)
#undef X
    bool all; // were found
} openssl;

static bool look_up(const char *name, void *function, size_t size)
{
    void *symbol = dlsym(RTLD_DEFAULT, name);
    memcpy(function, &symbol, size);
    return symbol != NULL;
}

static void look_all_up(void)
{
    openssl.all = true;
#define X(result, name, arguments)                                                                 \
    openssl.all = look_up(#name, &openssl.name, sizeof openssl.name) && openssl.all;
    FUNCTIONS(X)
#undef X
}

bool tern_tls_backend_matches(const char *version)
{
    return strncmp(version, "OpenSSL/3", 9) == 0;
}

// --- Sessions

// libcurl makes the connection after it has handed out the context; the first that one hears of it
// is that its handshake starts, before the ClientHello is written.
static void on_info(void *connection, int where, int value)
{
    (void)value;
    if ((where & CB_HANDSHAKE_START) == 0) {
        return;
    }
    struct tern_tls *tls =
        openssl.SSL_CTX_get_ex_data(openssl.SSL_get_SSL_CTX(connection), APP_DATA);
    const struct tern_tls_session *held = tern_tls_offered(tls);
    if (held == NULL) {
        return;
    }
    const unsigned char *bytes = held->bytes;
    void *session = openssl.d2i_SSL_SESSION(NULL, &bytes, (long)held->len);
    if (session != NULL) {
        openssl.SSL_set_session(connection, session); // if it cannot, the handshake is a full one
        openssl.SSL_SESSION_free(session);
    }
}

static bool read_end(void *session, struct tm *date)
{
    const void *certificate = openssl.SSL_SESSION_get0_peer(session);
    return certificate != NULL &&
           openssl.ASN1_TIME_to_tm(openssl.X509_get0_notAfter(certificate), date) == 1;
}

static enum tern_result serialize(void *from, struct tern_tls_session *session)
{
    struct tm end;
    const int len = openssl.i2d_SSL_SESSION(from, NULL);
    if (!read_end(from, &end)) {
        return TERN_ERR_NOT_FOUND;
    }
    if (len <= 0 || len > TERN_TLS_SESSION_MAX) {
        return TERN_ERR_TOO_LARGE;
    }
    uint8_t *bytes = malloc((size_t)len);
    if (bytes == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    unsigned char *out = bytes;
    openssl.i2d_SSL_SESSION(from, &out);
    const unsigned long hint = openssl.SSL_SESSION_get_ticket_lifetime_hint(from);
    *session = (struct tern_tls_session){
        .bytes = bytes,
        .len = (size_t)len,
        .expires_s = tern_tls_expiry(hint < UINT32_MAX ? (uint32_t)hint : UINT32_MAX, &end)};
    return TERN_OK;
}

enum tern_result tern_tls_backend_take(const struct tern_tls *tls, CURL *easy,
                                       struct tern_tls_session *session)
{
    (void)tls;
    const struct curl_tlssessioninfo *info = NULL;
    if (!openssl.all || curl_easy_getinfo(easy, CURLINFO_TLS_SSL_PTR, &info) != CURLE_OK ||
        info->backend != CURLSSLBACKEND_OPENSSL || info->internals == NULL ||
        openssl.SSL_session_reused(info->internals) != 0) {
        return TERN_ERR_NOT_FOUND;
    }
    void *now = openssl.SSL_get_session(info->internals);
    return now != NULL && openssl.SSL_SESSION_has_ticket(now) != 0 ? serialize(now, session)
                                                                   : TERN_ERR_NOT_FOUND;
}

// --- Setting up

// libcurl switches TLS 1.2 session tickets off, and OpenSSL 3 throws a session away when its
// connection ends by a bare TCP close, as it does on bad links. Tickets are switched on, and such
// an end is taken for an ordinary one: HTTP says how long its bodies are, so a cut is still
// noticed. A ticket makes the ClientHello long enough for OpenSSL to pad it to 512 bytes for the
// sake of one old load balancer; that is switched off too.
static CURLcode on_context(CURL *easy, void *context, void *tls)
{
    (void)easy;
    openssl.SSL_CTX_clear_options(context, OP_NO_TICKET | OP_TLSEXT_PADDING);
    openssl.SSL_CTX_set_options(context, OP_IGNORE_UNEXPECTED_EOF);
    openssl.SSL_CTX_set_ex_data(context, APP_DATA, tls);
    openssl.SSL_CTX_set_info_callback(context, on_info);
    return CURLE_OK;
}

// OpenSSL gathers the messages of a flight itself.
enum tern_result tern_tls_backend_end_handshake(struct tern_tls *tls, CURL *easy)
{
    (void)tls;
    (void)easy;
    return TERN_OK;
}

void tern_tls_backend_configure(struct tern_tls *tls, CURL *easy)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look_all_up);
    curl_easy_setopt(easy, CURLOPT_SSL_CIPHER_LIST, SUITES);
    curl_easy_setopt(easy, CURLOPT_SSL_EC_CURVES, CURVES);
    if (openssl.all) {
        curl_easy_setopt(easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
        curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, on_context);
        curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, tls);
    }
}
