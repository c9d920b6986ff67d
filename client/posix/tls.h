// TLS of the client's transport, whichever library libcurl was built with: what is offered, which
// CA is trusted, and the one session that makes a later connection cheap. Used by transport.c
// alone. One of these belongs to one thread.
//
// A session comes only from a handshake in which the peer's chain and name were verified, and is
// dropped when that certificate expires or the ticket does. With a session_file it outlives the
// process; the file is bound to the server, the CA and the TLS library, and one that is damaged,
// foreign or too old counts as missing.
#ifndef TERN_POSIX_TLS_H
#define TERN_POSIX_TLS_H

#include "posix/transport.h"
#include "result.h"
#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

struct tern_curl_tls;

struct tern_curl_tls_config {
    const char *section;      // of the settings that sentences name
    const char *server;       // "https://host:port"
    const char *ca_file;      // PEM; NULL or "" = the system's certificates
    const char *certificate;  // PEM, the client's own; NULL or "" = none
    const char *key;          // PEM, of that
    const char *versions;     // "1.2", "1.3" or "auto", both; NULL = 1.2
    const char *session_file; // as secret as the client's token; NULL or "" = kept in memory only
};

// why: says what is wrong and what to write instead.
// TERN_ERR_CONFIG     a file cannot be read, there is no CA, a certificate without key or the other way
//                     round, or libcurl is of another library
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_curl_tls_open(struct tern_curl_tls **tls,
                                                  const struct tern_curl_tls_config *config,
                                                  char why[512]);

// NULL is allowed. Before that, every handle it was given is cleaned up.
void tern_curl_tls_close(struct tern_curl_tls *tls);

// Of the settings that sentences name.
const char *tern_curl_tls_section(const struct tern_curl_tls *tls);

// Sets every option of a new handle that concerns TLS.
void tern_curl_tls_configure(struct tern_curl_tls *tls, CURL *easy);

// An exchange begins: forgets what was said about the last, and offers the session again.
void tern_curl_tls_begin(struct tern_curl_tls *tls);

// A handshake is over and its connection may be used: takes the session of a full one.
// TERN_ERR_NETWORK  the end of the handshake cannot be sent
TERN_MUST_USE enum tern_result tern_curl_tls_connected(struct tern_curl_tls *tls, CURL *easy);

// Whether the newest handshake resumed a session, as far as this end can tell: one was offered, and no new
// one came.
bool tern_curl_tls_resumed(const struct tern_curl_tls *tls);

// Of the last full handshake, also one of an earlier process whose session is kept, and of the client's
// certificate as its file is now.
struct tern_curl_ends tern_curl_tls_ends(const struct tern_curl_tls *tls);

// An exchange went through: saves the session if it is new. A file that cannot be written is no
// error, the next process then pays a full handshake.
void tern_curl_tls_exchanged(struct tern_curl_tls *tls);

// A handshake failed. true: a session was offered and may be the reason; the next handshake of this
// exchange does without.
bool tern_curl_tls_try_without_session(struct tern_curl_tls *tls);

// Whether the client has a certificate to show.
bool tern_curl_tls_shows(const struct tern_curl_tls *tls);

// What was wrong with the peer's certificate in this exchange; "" when libcurl says it itself.
const char *tern_curl_tls_why(const struct tern_curl_tls *tls);

#endif
