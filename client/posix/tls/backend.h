// What differs between the TLS libraries that libcurl may be built with. One of openssl.c and
// mbedtls.c is compiled, as CMake's TERN_CURL_TLS says; tls.c is the only other file that knows.
#ifndef TERN_POSIX_TLS_BACKEND_H
#define TERN_POSIX_TLS_BACKEND_H

#include "posix/tls.h"
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define TERN_TLS_SESSION_MAX 16384 // the peer's certificate makes the most of it

// A session in its library's own serialized form.
struct tern_curl_tls_session {
    uint8_t *bytes; // malloc'ed; NULL: none
    size_t len;
    uint64_t expires_s; // Unix time: of the ticket or of the peer's certificate, the earlier
    struct tern_curl_ends ends;
};

// --- Given by the backend

// Is libcurl's TLS library the one that this backend speaks to? version: libcurl's ssl_version,
// e.g. "OpenSSL/3.0.17".
bool tern_curl_tls_backend_matches(const char *version);

// true: libcurl must work with this backend's library, since nothing would hold without.
extern const bool tern_curl_tls_backend_required;

// Whether client.tls may be other than 1.2.
extern const bool tern_curl_tls_backend_has_tls13;

// Sets what the library offers in its ClientHello, and that it offers tern_curl_tls_offered().
void tern_curl_tls_backend_configure(struct tern_curl_tls *tls, CURL *easy);

// A handshake is over, peer and name are verified, and nothing of a request was sent yet.
// TERN_ERR_NETWORK  its last bytes cannot be sent
TERN_MUST_USE enum tern_result tern_curl_tls_backend_end_handshake(struct tern_curl_tls *tls,
                                                                   CURL *easy);

// Reads when the first certificate of a PEM file expires (UTC). false: there is none that can be read.
bool tern_curl_tls_backend_read_end(const char *file, struct tm *end);

// --- Given by tls.c to the backend

// A handshake begins: the session to offer in it, NULL: none. Borrowed until the next handshake.
const struct tern_curl_tls_session *tern_curl_tls_offered(struct tern_curl_tls *tls);

// There is a session of the present connection, whose handshake was a full one; takes its bytes
// over. It is kept once peer and name are known to be verified.
void tern_curl_tls_got(struct tern_curl_tls *tls, const struct tern_curl_tls_session *session);

// The peer's chain and name were found good in this handshake, as in no resumed one.
void tern_curl_tls_verified(struct tern_curl_tls *tls);
bool tern_curl_tls_is_verified(const struct tern_curl_tls *tls);

// In this handshake a certificate that expires then (UTC) is one of the chain that the peer is verified by.
// is_peer: its own; else an issuer's.
void tern_curl_tls_note_end(struct tern_curl_tls *tls, bool is_peer, const struct tm *end);

// When a session of now ends whose ticket is good for so many seconds (0: the peer did not say) and
// whose certificate expires then (UTC).
uint64_t tern_curl_tls_expiry(uint32_t ticket_s, const struct tm *certificate_end);

// For what a backend keeps between handshakes: NULL at first, then malloc'ed and freed with *tls.
void **tern_curl_tls_backend_data(struct tern_curl_tls *tls);

// Host of the server's URL, without brackets.
const char *tern_curl_tls_host(const struct tern_curl_tls *tls);

// What is wrong with the peer's certificate, for a library whose words libcurl does not pass on.
// In words: `before`, the setting's name, `behind`; setting: NULL = none.
void tern_curl_tls_explain(struct tern_curl_tls *tls, const char *before, const char *setting,
                           const char *behind);

#endif
