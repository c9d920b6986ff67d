// Configures TLS of the client's transport for either TLS library of libcurl: suites, trusted CAs, and the one session
// that makes the next connection cheap. Called by transport.c; one object belongs to one thread.
//
// A session comes only from a handshake that verified the peer's chain and name, and ends when that certificate or the
// ticket expires. A session_file keeps it beyond the process; the file is bound to the server, the CA and the TLS library,
// and a damaged, foreign or expired file counts as missing.
#ifndef TERN_POSIX_CURL_TLS_H
#define TERN_POSIX_CURL_TLS_H

#include "posix/transport.h"
#include "result.h"
#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

struct tern_curl_tls;

struct tern_curl_tls_config {
    const char *section;     // settings section for messages
    const char *server;      // "https://host:port"
    const char *ca_file;     // PEM; NULL or "" = the system's certificates
    const char *certificate; // PEM, the client's own; NULL or "" = none
    const char *key;         // PEM, the certificate's key
    const char *versions;    // "1.2", "1.3" or "auto", both; NULL = 1.2
    // file for the session, as secret as the token; NULL or "" = memory only
    const char *session_file;
};

// why: describes the error and the correct setting.
// TERN_ERR_CONFIG     a file cannot be read, there is no CA, certificate or key is missing, or libcurl uses another TLS
//                     library
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_curl_tls_open(struct tern_curl_tls **tls,
                                                  const struct tern_curl_tls_config *config,
                                                  char why[512]);

// The caller cleans up every configured handle first. NULL is allowed.
void tern_curl_tls_close(struct tern_curl_tls *tls);

// The settings section for messages.
const char *tern_curl_tls_section(const struct tern_curl_tls *tls);

// Sets every option of a new handle that concerns TLS.
void tern_curl_tls_configure(struct tern_curl_tls *tls, CURL *easy);

// Begins an exchange: clears the last error, and offers the session again.
void tern_curl_tls_begin(struct tern_curl_tls *tls);

// Called when a handshake is complete: keeps the session of a full handshake.
// TERN_ERR_NETWORK  the end of the handshake cannot be sent
TERN_MUST_USE enum tern_result tern_curl_tls_connected(struct tern_curl_tls *tls, CURL *easy);

// Whether the newest handshake resumed a session: one was offered, and no new one arrived.
bool tern_curl_tls_resumed(const struct tern_curl_tls *tls);

// When the certificates of the last full handshake expire (also of an earlier process whose session is kept), and the
// client's certificate in its file.
struct tern_curl_expiries tern_curl_tls_expiries(const struct tern_curl_tls *tls);

// Called after a successful exchange: saves the session if it is new. Ignores a file that cannot be written: the next
// process then needs a full handshake.
void tern_curl_tls_exchanged(struct tern_curl_tls *tls);

// Called after a failed handshake. Returns true when a session was offered, which may be the reason; the next handshake
// of this exchange offers none.
bool tern_curl_tls_try_without_session(struct tern_curl_tls *tls);

// Whether the client has a certificate to show.
bool tern_curl_tls_has_certificate(const struct tern_curl_tls *tls);

// Describes the error of the peer's certificate in this exchange; "" when libcurl describes it.
const char *tern_curl_tls_why(const struct tern_curl_tls *tls);

#endif
