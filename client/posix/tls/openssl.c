// The TLS backend for a libcurl that uses OpenSSL 3, such as Debian's. Looks up the few necessary functions at run time in the
// OpenSSL that libcurl has loaded, so that building Tern needs no OpenSSL headers. If one is missing, or libcurl uses another
// TLS library, libcurl's defaults stay.
#define _GNU_SOURCE
#include "posix/tls/backend.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Few suites and curves keep the ClientHello small. All are forward secret and authenticated; ChaCha20 comes first, since most
// boards have no AES instructions.
#define SUITES                                                                                     \
    "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256:"                                 \
    "ECDHE-RSA-CHACHA20-POLY1305:ECDHE-RSA-AES128-GCM-SHA256"

#define TLS13_SUITES "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256"

// P-256 is necessary for certificates with a P-256 key. X25519 costs 2 bytes in every ClientHello and saves 66 bytes in a full
// handshake.
#define CURVES "X25519:P-256"

// Values from OpenSSL 3's headers.
#define OP_TLSEXT_PADDING (UINT64_C(1) << 4)
#define OP_IGNORE_UNEXPECTED_EOF (UINT64_C(1) << 7)
#define OP_NO_TICKET (UINT64_C(1) << 14)
#define CB_HANDSHAKE_START 0x10
#define CTRL_SET_SESS_CACHE_MODE 44
#define SESS_CACHE_CLIENT_ONLY 0x301 // calls back for new sessions and stores none itself
#define APP_DATA 0                   // index of the application's data

const bool tern_curl_tls_backend_required = false;
const bool tern_curl_tls_backend_has_tls13 = true;

typedef void info_fn(void *connection, int where, int value);
typedef int session_fn(void *connection, void *session);

// X(result, name, arguments)
#define FUNCTIONS(X)                                                                               \
    X(uint64_t, SSL_CTX_clear_options, (void *context, uint64_t options))                          \
    X(uint64_t, SSL_CTX_set_options, (void *context, uint64_t options))                            \
    X(int, SSL_CTX_set_ex_data, (void *context, int index, void *data))                            \
    X(void *, SSL_CTX_get_ex_data, (const void *context, int index))                               \
    X(void, SSL_CTX_set_info_callback, (void *context, info_fn *callback))                         \
    X(long, SSL_CTX_ctrl, (void *context, int what, long number, void *data))                      \
    X(void, SSL_CTX_sess_set_new_cb, (void *context, session_fn *callback))                        \
    X(void *, SSL_get_SSL_CTX, (const void *connection))                                           \
    X(const void *, SSL_get0_verified_chain, (const void *connection))                             \
    X(int, OPENSSL_sk_num, (const void *stack))                                                    \
    X(void *, OPENSSL_sk_value, (const void *stack, int index))                                    \
    X(int, SSL_session_reused, (const void *connection))                                           \
    X(int, SSL_set_session, (void *connection, void *session))                                     \
    X(int, SSL_SESSION_has_ticket, (const void *session))                                          \
    X(unsigned long, SSL_SESSION_get_ticket_lifetime_hint, (const void *session))                  \
    X(void *, SSL_SESSION_get0_peer, (void *session))                                              \
    X(void, SSL_SESSION_free, (void *session))                                                     \
    X(int, i2d_SSL_SESSION, (const void *session, unsigned char **out))                            \
    X(void *, d2i_SSL_SESSION, (void **session, const unsigned char **in, long len))               \
    X(const void *, X509_get0_notAfter, (const void *certificate))                                 \
    X(int, ASN1_TIME_to_tm, (const void *time, struct tm *date))                                   \
    X(void *, BIO_new_file, (const char *name, const char *mode))                                  \
    X(int, BIO_free, (void *file))                                                                 \
    X(void *, PEM_read_bio_X509, (void *file, void **into, void *password, void *ctx))             \
    X(void, X509_free, (void *certificate))

static struct {
#define X(result, name, arguments) result(*name) arguments;
    FUNCTIONS(X)
#undef X
    bool all; // every function was found
} openssl;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool load_symbol(const char *name, void *function, size_t size)
{
    void *symbol = dlsym(RTLD_DEFAULT, name);
    memcpy(function, &symbol, size);
    return symbol != NULL;
}

static void load_symbols(void)
{
    openssl.all = true;
#define X(result, name, arguments)                                                                 \
    openssl.all = load_symbol(#name, &openssl.name, sizeof openssl.name) && openssl.all;
    FUNCTIONS(X)
#undef X
}

bool tern_curl_tls_backend_matches(const char *version)
{
    return strncmp(version, "OpenSSL/3", 9) == 0;
}

// --- Sessions

// Offers the saved session when a handshake starts, before the ClientHello is written. on_context() cannot do so, because
// libcurl creates the connection after it.
static void on_info(void *connection, int where, int value)
{
    (void)value;
    if ((where & CB_HANDSHAKE_START) == 0) {
        return;
    }
    struct tern_curl_tls *tls =
        openssl.SSL_CTX_get_ex_data(openssl.SSL_get_SSL_CTX(connection), APP_DATA);
    const struct tern_curl_tls_session *held = tern_curl_tls_session_to_offer(tls);
    if (held == NULL) {
        return;
    }
    const unsigned char *bytes = held->bytes;
    void *session = openssl.d2i_SSL_SESSION(NULL, &bytes, (long)held->len);
    if (session != NULL) {
        openssl.SSL_set_session(connection, session); // after an error the handshake is a full one
        openssl.SSL_SESSION_free(session);
    }
}

static bool read_expiry(const void *certificate, struct tm *date)
{
    return certificate != NULL &&
           openssl.ASN1_TIME_to_tm(openssl.X509_get0_notAfter(certificate), date) == 1;
}

bool tern_curl_tls_backend_read_expiry(const char *file, struct tm *end)
{
    pthread_once(&once, load_symbols);
    void *in = openssl.all ? openssl.BIO_new_file(file, "r") : NULL;
    if (in == NULL) {
        return false;
    }
    void *certificate = openssl.PEM_read_bio_X509(in, NULL, NULL, NULL);
    const bool is_read = read_expiry(certificate, end);
    openssl.X509_free(certificate);
    openssl.BIO_free(in);
    return is_read;
}

// Notes when the certificates of the verified chain expire. The first one is the peer's.
static void note_expiries(struct tern_curl_tls *tls, const void *connection)
{
    const void *chain = openssl.SSL_get0_verified_chain(connection);
    const int count = chain != NULL ? openssl.OPENSSL_sk_num(chain) : 0;
    for (int i = 0; i < count; i++) {
        struct tm end;
        if (read_expiry(openssl.OPENSSL_sk_value(chain, i), &end)) {
            tern_curl_tls_note_expiry(tls, i == 0, &end);
        }
    }
}

static enum tern_result serialize(void *from, struct tern_curl_tls_session *session)
{
    struct tm end;
    const int len = openssl.i2d_SSL_SESSION(from, NULL);
    if (!read_expiry(openssl.SSL_SESSION_get0_peer(from), &end)) {
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
    *session =
        (struct tern_curl_tls_session){.bytes = bytes,
                                       .len = (size_t)len,
                                       .expires_s = tern_curl_tls_session_expiry(
                                           hint < UINT32_MAX ? (uint32_t)hint : UINT32_MAX, &end)};
    return TERN_OK;
}

// Called when a session can be resumed: in TLS 1.2 during the handshake, in 1.3 with the first bytes after it.
// tern_curl_tls_connected() decides later whether it is used, since libcurl checks the peer's name after the handshake.
static int on_session(void *connection, void *now)
{
    struct tern_curl_tls_session session = {0};
    struct tern_curl_tls *tls =
        openssl.SSL_CTX_get_ex_data(openssl.SSL_get_SSL_CTX(connection), APP_DATA);
    if (openssl.SSL_session_reused(connection) == 0 && openssl.SSL_SESSION_has_ticket(now) != 0 &&
        serialize(now, &session) == TERN_OK) {
        note_expiries(tls, connection);
        tern_curl_tls_store_session(tls, &session);
    }
    return 0; // OpenSSL keeps ownership of the session
}

// --- The peer's certificate

bool tern_curl_tls_backend_is_foreign(const struct tern_curl_tls *tls, CURL *easy)
{
    // Values from OpenSSL 3's headers: no issuer, self-signed, self-signed in the chain, no local issuer, no signature.
    static const long untrusted[] = {2, 18, 19, 20, 21};
    long error = 0;
    (void)tls;
    curl_easy_getinfo(easy, CURLINFO_SSL_VERIFYRESULT, &error);
    for (size_t i = 0; i < sizeof untrusted / sizeof untrusted[0]; i++) {
        if (error == untrusted[i]) {
            return true;
        }
    }
    return false;
}

// --- Setting up

// Enables TLS 1.2 session tickets, which libcurl disables. Accepts a TCP close without a TLS close as a normal end: OpenSSL 3
// otherwise discards the session, and bad links end so; HTTP's lengths still reveal a truncated body. Disables the padding of
// a ClientHello with a ticket to 512 bytes, a workaround for an old load balancer.
static CURLcode on_context(CURL *easy, void *context, void *tls)
{
    (void)easy;
    openssl.SSL_CTX_clear_options(context, OP_NO_TICKET | OP_TLSEXT_PADDING);
    openssl.SSL_CTX_set_options(context, OP_IGNORE_UNEXPECTED_EOF);
    openssl.SSL_CTX_set_ex_data(context, APP_DATA, tls);
    openssl.SSL_CTX_set_info_callback(context, on_info);
    openssl.SSL_CTX_ctrl(context, CTRL_SET_SESS_CACHE_MODE, SESS_CACHE_CLIENT_ONLY, NULL);
    openssl.SSL_CTX_sess_set_new_cb(context, on_session);
    return CURLE_OK;
}

// Does nothing: OpenSSL sends the messages of a flight together, and calls on_session() with its sessions.
enum tern_result tern_curl_tls_backend_end_handshake(struct tern_curl_tls *tls, CURL *easy)
{
    (void)tls;
    (void)easy;
    return TERN_OK;
}

void tern_curl_tls_backend_configure(struct tern_curl_tls *tls, CURL *easy)
{
    pthread_once(&once, load_symbols);
    curl_easy_setopt(easy, CURLOPT_SSL_CIPHER_LIST, SUITES);
    curl_easy_setopt(easy, CURLOPT_TLS13_CIPHERS, TLS13_SUITES);
    curl_easy_setopt(easy, CURLOPT_SSL_EC_CURVES, CURVES);
    if (openssl.all) {
        curl_easy_setopt(easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
        curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, on_context);
        curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, tls);
    }
}
