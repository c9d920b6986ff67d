// The interface between curl_tls.c and the TLS library of libcurl. CMake's TERN_CURL_TLS selects the implementation,
// openssl.c or mbedtls.c.
#ifndef TERN_POSIX_TLS_BACKEND_H
#define TERN_POSIX_TLS_BACKEND_H

#include "posix/tls/curl_tls.h"
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define TERN_TLS_SESSION_MAX 16384 // mostly the peer's certificate

// A session in its library's own serialized form.
struct tern_curl_tls_session {
    uint8_t *bytes; // malloc'ed; NULL: none
    size_t len;
    // Unix time when the ticket or the peer's certificate expires, whichever is first
    uint64_t expires_s;
    // expiry of the certificates of the handshake that made the session
    struct tern_curl_expiries ends;
};

// --- Implemented by the backend

// Whether this backend works with libcurl's TLS library. version: libcurl's ssl_version, e.g. "OpenSSL/3.0.17".
bool tern_curl_tls_backend_matches(const char *version);

// True: tern_curl_tls_open() fails if libcurl uses another TLS library. False: libcurl's defaults apply in that case.
extern const bool tern_curl_tls_backend_required;

// Whether the setting client.tls may have another value than 1.2.
extern const bool tern_curl_tls_backend_has_tls13;

// Sets suites and curves of the ClientHello, and makes each handshake offer the session of tern_curl_tls_session_to_offer().
void tern_curl_tls_backend_configure(struct tern_curl_tls *tls, CURL *easy);

// Called when a handshake is complete and verified, before the request is sent.
// TERN_ERR_NETWORK  the last bytes of the handshake cannot be sent
TERN_MUST_USE enum tern_result tern_curl_tls_backend_end_handshake(struct tern_curl_tls *tls,
                                                                   CURL *easy);

// Returns, after a failed handshake, whether a CA that this client does not trust has issued the peer's certificate.
bool tern_curl_tls_backend_is_foreign(const struct tern_curl_tls *tls, CURL *easy);

// Reads when the first certificate of a PEM file expires (UTC). Returns false when none can be read.
bool tern_curl_tls_backend_read_expiry(const char *file, struct tm *end);

// --- Implemented by curl_tls.c, called by the backend

// Called when a handshake begins. Returns the session to offer, borrowed until the next handshake; NULL: none.
const struct tern_curl_tls_session *tern_curl_tls_session_to_offer(struct tern_curl_tls *tls);

// Passes on a session that a full handshake has made, with the ownership of its bytes. It is used for later connections if the
// peer's certificate and name were verified.
void tern_curl_tls_store_session(struct tern_curl_tls *tls,
                                 const struct tern_curl_tls_session *session);

// Notes that a CA that this client does not trust has issued the peer's certificate.
void tern_curl_tls_set_foreign(struct tern_curl_tls *tls);

// Returns whether the current handshake has called tern_curl_tls_set_foreign().
bool tern_curl_tls_has_foreign(const struct tern_curl_tls *tls);

// Notes that the current full handshake has verified the peer's certificate chain and name.
void tern_curl_tls_set_verified(struct tern_curl_tls *tls);

// Returns whether the current handshake has called tern_curl_tls_set_verified().
bool tern_curl_tls_is_verified(const struct tern_curl_tls *tls);

// Notes when a certificate of the peer's verified chain expires, in UTC. is_peer: it is the peer's certificate; else that of an
// issuer.
void tern_curl_tls_note_expiry(struct tern_curl_tls *tls, bool is_peer, const struct tm *end);

// Returns the Unix time when a new session expires. ticket_s: lifetime of its ticket in seconds; 0: unknown. certificate_end:
// expiry of the peer's certificate in UTC.
uint64_t tern_curl_tls_session_expiry(uint32_t ticket_s, const struct tm *certificate_end);

// Returns a pointer to the backend's state, which the backend allocates with malloc(). The state is NULL at first, and freed
// with *tls.
void **tern_curl_tls_backend_data(struct tern_curl_tls *tls);

// Returns the host of the server's URL, without the brackets of an IPv6 address.
const char *tern_curl_tls_host(const struct tern_curl_tls *tls);

// Stores a message about the peer's certificate, since libcurl does not pass on the one of the TLS library. The message
// consists of `before`, the name of the setting with its section, and `behind`. setting: e.g. "ca"; NULL: none.
void tern_curl_tls_explain(struct tern_curl_tls *tls, const char *before, const char *setting,
                           const char *behind);

#endif
