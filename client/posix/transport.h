// Implements the transport port on libcurl: one easy handle, one kept connection, TLS always verified, all bytes counted by
// the socket's own counters (TCP_INFO). Used by tern-client, gateways and tern-fleet. One transport belongs to one thread.
//
// The meter's http counts the bytes that libcurl has written and read; tls and wire come from the kernel. The bytes of a new
// connection before its first request count as "handshake", with those of the request to a proxy and its answer. Late bytes on an open connection (acknowledgements, a close) count
// for the previous exchange. The segments that close a connection follow the last possible reading; they are added as two up
// and one or two down, without payload. If the kernel does not count bytes, tls and wire are estimates (sockets.h).
//
// A connection resumes the last TLS session if the aggregator agrees (tls/curl_tls.h). If a handshake that offers a session
// fails, it is repeated once without the session.
#ifndef TERN_POSIX_TRANSPORT_H
#define TERN_POSIX_TRANSPORT_H

#include "client.h"
#include "ports.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tern_curl;

struct tern_curl_config {
    const char *section;     // section of the settings in messages, e.g. "relay"; NULL: "client"
    const char *server;      // "https://host:port"
    const char *ca_file;     // file of the trusted CAs, PEM; NULL or "": the system's certificates
    const char *certificate; // file of the client's certificate, PEM; NULL or "": none
    const char *key;         // file of the certificate's key, PEM
    const char *tls;         // version: "1.2", "1.3", or "auto" for both; NULL: "1.2"
    // HTTP proxy: NULL or "": none, whatever the environment has; "environment"; or http://[user:password@]host:port
    const char *proxy;
    // keeps the TLS session when the process ends; NULL or "" = it does not
    const char *session_file;
    uint32_t connect_timeout_ms; // longest time until a connection is open; 0: 20,000
};

// Initialises libcurl. Call it once per process, before the first tern_curl_open() and before threads start. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_curl_global(void);

// Returns whether the kernel counts the bytes of connections. If not, the meter's tls and wire are estimates.
bool tern_curl_is_counted(void);

// Opens a transport, and does not connect. Copies the strings of the config. After an error why names the setting and the
// reason.
// TERN_ERR_CONFIG     the server is not an https URL, or a file cannot be read or is missing,
//                     tls names no version that the library has, or proxy is no such URL
// TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_curl_open(struct tern_curl **curl,
                                              const struct tern_curl_config *config, char why[512]);

// Closes the connection and frees the transport. curl may be NULL.
void tern_curl_close(struct tern_curl *curl);

// Returns the transport port; *curl must outlive it.
struct tern_transport tern_curl_port(struct tern_curl *curl);

// When certificates expire, in Unix seconds; 0: unknown.
struct tern_curl_expiries {
    uint64_t server_s; // the aggregator's certificate
    uint64_t ca_s;     // the first of its issuers' certificates that expires
    uint64_t client_s; // the client's certificate; 0 also if it has none
};

// Returns when the certificates expire that the last full handshake has verified, perhaps in an earlier process whose session
// is resumed, and when that of the client expires.
struct tern_curl_expiries tern_curl_certificates(const struct tern_curl *curl);

// Returns why the last exchange has failed; "" if it has not. Valid until the next exchange.
const char *tern_curl_why(const struct tern_curl *curl);

// Returns whether a part of the last request was sent to the server, so that the server may have acted on it.
bool tern_curl_has_sent(const struct tern_curl *curl);

#define TERN_FAILURE_MAX 384 // bytes of a sentence with the terminating NUL

// Describes a failed request for people: writes the aggregator's answer to the client's last request ("the aggregator answered
// HTTP 429: Too many enrolments ..."), or why there is no answer. result: the request's result. Returns text. Reentrant.
const char *tern_failure_text(const struct tern_client *client, const struct tern_curl *curl,
                              enum tern_result result, char text[TERN_FAILURE_MAX]);

// Returns a transport without a network, for programs that read a state directory: every exchange returns
// TERN_ERR_NETWORK, and nothing is counted. Threads may share it.
struct tern_transport tern_offline_port(void);

#ifdef __cplusplus
}
#endif

#endif
