// Configures TLS for the transport, with either TLS library of libcurl: suites, trusted CAs, and the session that a later
// connection resumes for fewer bytes. Called by transport.c; an object belongs to one thread.
//
// Only a handshake that has verified the peer's certificate chain and name makes a session. The session expires with that
// certificate or with its ticket. A session file keeps it when the process ends. The file is valid only for the same server, CA
// and TLS library; a damaged, foreign or expired file counts as missing.
#ifndef TERN_POSIX_CURL_TLS_H
#define TERN_POSIX_CURL_TLS_H

#include "posix/transport.h"
#include "result.h"
#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

struct tern_curl_tls;

struct tern_curl_tls_config {
    const char *section;     // section of the settings in messages, e.g. "client"
    const char *server;      // "https://host:port"
    const char *ca_file;     // file of the trusted CAs, PEM; NULL or "": the system's certificates
    const char *certificate; // file of the client's certificate, PEM; NULL or "": none
    const char *key;         // file of its key, PEM
    const char *versions;    // version of TLS: "1.2", "1.3", or "auto" for both; NULL: "1.2"
    // file for the session, as secret as the token; NULL or "" = memory only
    const char *session_file;
};

// Opens an object, and reads the session file. After an error why names the setting and the reason.
// TERN_ERR_CONFIG     a file cannot be read, there is no CA, only one of certificate and key is set, or libcurl uses a TLS
//                     library that this build does not support
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_curl_tls_open(struct tern_curl_tls **tls,
                                                  const struct tern_curl_tls_config *config,
                                                  char why[512]);

// Frees the object. The caller first cleans up each handle that it has configured. tls may be NULL.
void tern_curl_tls_close(struct tern_curl_tls *tls);

// Returns the section of the settings in messages.
const char *tern_curl_tls_section(const struct tern_curl_tls *tls);

// Sets all options of a new handle that concern TLS.
void tern_curl_tls_configure(struct tern_curl_tls *tls, CURL *easy);

// Begins an exchange: deletes the last error, and allows the next handshake to offer the session.
void tern_curl_tls_begin(struct tern_curl_tls *tls);

// Called when a handshake is complete; stores the session of a full handshake for later connections.
// TERN_ERR_NETWORK  the end of the handshake cannot be sent
TERN_MUST_USE enum tern_result tern_curl_tls_connected(struct tern_curl_tls *tls, CURL *easy);

// Returns whether the last handshake has resumed a session: it has offered one, and received no new one.
bool tern_curl_tls_resumed(const struct tern_curl_tls *tls);

// Returns when the certificates of the last full handshake expire, which an earlier process may have made, and when the
// client's certificate expires.
struct tern_curl_expiries tern_curl_tls_expiries(const struct tern_curl_tls *tls);

// Called after a successful exchange; saves the session if it is new. If the file cannot be written, the next process needs a
// full handshake.
void tern_curl_tls_exchanged(struct tern_curl_tls *tls);

// Called after a failed handshake. Returns whether it has offered a session, which may be the reason; the next handshake of
// this exchange then offers none.
bool tern_curl_tls_try_without_session(struct tern_curl_tls *tls);

// Notes bytes that the peer has sent in a handshake, if libcurl passes them on. The first ones show whether they are TLS.
void tern_curl_tls_note_received(struct tern_curl_tls *tls, const uint8_t *bytes, size_t len);

// Returns, after a failed handshake, whether something else has certainly answered in the aggregator's place, such as a captive
// portal: without TLS, or with a certificate of another CA although an earlier handshake has verified the aggregator.
bool tern_curl_tls_is_intercepted(const struct tern_curl_tls *tls, CURL *easy);

// Describes, after a failed handshake, an answer without TLS or a certificate of another CA for tern_curl_tls_why().
void tern_curl_tls_explain_intercepted(struct tern_curl_tls *tls, CURL *easy);

// Returns whether the client has a certificate.
bool tern_curl_tls_has_certificate(const struct tern_curl_tls *tls);

// Returns what was wrong with the peer's certificate in this exchange; "" if libcurl describes that.
const char *tern_curl_tls_why(const struct tern_curl_tls *tls);

#endif
