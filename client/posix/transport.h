// Implements the transport port on libcurl: one easy handle, one kept connection, TLS always verified, all bytes counted by
// the socket's own counters (TCP_INFO). Used by tern-client, gateways and tern-fleet. One transport belongs to one thread.
//
// Meter: http counts the bytes that libcurl wrote and read; tls and wire come from the kernel. A new connection up to its
// first request counts as "handshake"; late bytes on a kept connection (acknowledgements, a close) count for the previous
// exchange. The segments that close a connection follow the last possible reading, and are added as two out and one or
// two in, without payload. On a kernel that does not count bytes, tls and wire are estimates (sockets.h), and budgets
// still hold.
//
// A connection resumes the previous TLS session when the aggregator agrees (curl_tls.h). A handshake that fails with a
// session is repeated once without it.
#ifndef TERN_POSIX_TRANSPORT_H
#define TERN_POSIX_TRANSPORT_H

#include "client.h"
#include "ports.h"
#include <signal.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tern_curl;

struct tern_curl_config {
    const char *section;     // settings section for messages, e.g. "relay"; NULL = "client"
    const char *server;      // "https://host:port"
    const char *ca_file;     // PEM; NULL or "" = the system's certificates
    const char *certificate; // PEM, the client's own, and its key; NULL or "" = none
    const char *key;
    const char *tls; // version: "1.2", "1.3", or "auto" (either); NULL = "1.2"
    // keeps the TLS session when the process ends; NULL or "" = it does not
    const char *session_file;
    uint32_t connect_timeout_ms; // 0 = 20,000
    const volatile sig_atomic_t
        *abort; // the exchange ends within a second after *abort becomes nonzero; NULL = never
};

// Once per process, before the first tern_curl_open() and before threads. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_curl_global(void);

// Whether the kernel counts the bytes of connections; else the meter's tls and wire are estimates.
bool tern_curl_is_counted(void);

// Opens a transport without connecting. Copies the config's strings. why: describes the error and the correct setting.
// TERN_ERR_CONFIG     the server is not an https URL, or a file cannot be read or is missing,
//                     or tls names no version that the library has
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_curl_open(struct tern_curl **curl,
                                              const struct tern_curl_config *config, char why[512]);

// Closes the connection and frees the transport. NULL is allowed.
void tern_curl_close(struct tern_curl *curl);

struct tern_transport tern_curl_port(struct tern_curl *curl);

// When certificates expire, in Unix seconds; 0 = unknown.
struct tern_curl_expiries {
    uint64_t server_s; // the aggregator's own
    uint64_t ca_s;     // the first of its issuers to expire
    uint64_t client_s; // the client's own, read again by each call; 0 also when it has none
};

// The certificates of the last verification of the aggregator (also by an earlier process whose TLS session is kept), and
// the client's.
struct tern_curl_expiries tern_curl_certificates(const struct tern_curl *curl);

// Why the last exchange failed, in libcurl's words; "" when it did not. Valid until the next.
const char *tern_curl_why(const struct tern_curl *curl);

#define TERN_FAILURE_MAX 384 // bytes of a sentence with the terminating NUL

// Explains a failed request to people: writes the aggregator's answer to the client's last request ("it answered HTTP 429: Too many enrolments ..."), or
// the reason for having no answer. result: the request's result. Returns text. Reentrant.
const char *tern_failure_text(const struct tern_client *client, const struct tern_curl *curl,
                              enum tern_result result, char text[TERN_FAILURE_MAX]);

// Returns a transport without a network, for programs that read a state directory: every exchange returns
// TERN_ERR_NETWORK, and nothing is counted. Threads may share it.
struct tern_transport tern_offline_port(void);

#ifdef __cplusplus
}
#endif

#endif
