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
    uint64_t expires_s; // Unix time when ticket or peer's certificate expires, whichever is first
    struct tern_curl_expiries ends;
};

// --- Implemented by the backend

// Whether this backend works with libcurl's TLS library. version: libcurl's ssl_version, e.g. "OpenSSL/3.0.17".
bool tern_curl_tls_backend_matches(const char *version);

// true: tern_curl_tls_open() fails when libcurl uses another TLS library.
extern const bool tern_curl_tls_backend_required;

// Whether client.tls may be other than 1.2.
extern const bool tern_curl_tls_backend_has_tls13;

// Sets what the library offers in its ClientHello, and that it offers tern_curl_tls_session_to_offer().
void tern_curl_tls_backend_configure(struct tern_curl_tls *tls, CURL *easy);

// Called when a handshake is complete and verified, before the request is sent.
// TERN_ERR_NETWORK  its last bytes cannot be sent
TERN_MUST_USE enum tern_result tern_curl_tls_backend_end_handshake(struct tern_curl_tls *tls,
                                                                   CURL *easy);

// Reads when the first certificate of a PEM file expires (UTC). Returns false when none can be read.
bool tern_curl_tls_backend_read_expiry(const char *file, struct tm *end);

// --- Implemented by curl_tls.c, called by the backend

// Called when a handshake begins. Returns the session to offer, borrowed until the next handshake; NULL: none.
const struct tern_curl_tls_session *tern_curl_tls_session_to_offer(struct tern_curl_tls *tls);

// Reports a session of the current connection after a full handshake, and takes over its bytes. It is kept once peer and
// name are verified.
void tern_curl_tls_store_session(struct tern_curl_tls *tls,
                                 const struct tern_curl_tls_session *session);

// Reports that this full handshake verified the peer's chain and name.
void tern_curl_tls_set_verified(struct tern_curl_tls *tls);
bool tern_curl_tls_is_verified(const struct tern_curl_tls *tls);

// Reports when a certificate of the peer's verified chain expires (UTC). is_peer: the peer's own; else an issuer's.
void tern_curl_tls_note_expiry(struct tern_curl_tls *tls, bool is_peer, const struct tm *end);

// When a new session expires. ticket_s: the ticket's lifetime in seconds; 0: unknown. certificate_end: UTC.
uint64_t tern_curl_tls_session_expiry(uint32_t ticket_s, const struct tm *certificate_end);

// A pointer for the backend's state between handshakes: NULL at first, then malloc'ed; freed with *tls.
void **tern_curl_tls_backend_data(struct tern_curl_tls *tls);

// Host of the server's URL, without brackets.
const char *tern_curl_tls_host(const struct tern_curl_tls *tls);

// Records an error of the peer's certificate when libcurl does not pass on the library's message. The message is
// `before`, the setting's name, `behind`; setting: NULL = none.
void tern_curl_tls_explain(struct tern_curl_tls *tls, const char *before, const char *setting,
                           const char *behind);

#endif
