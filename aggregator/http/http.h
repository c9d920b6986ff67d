// The listener: HTTP/1.1 over TLS (mbedTLS), or over plain TCP on loopback or a unix socket for the admin side. Its libuv
// loops, one thread each, share the port by SO_REUSEPORT. It enforces limits and meters bytes; the service and the admin
// side handle its requests. Only aggregator/http uses libuv, an HTTP parser and mbedTLS.
//
// Threads: tern_http_reply() and tern_http_exchange_* are safe from any thread; the callbacks run
// on a loop's thread, must not block, and must be reentrant (one loop per core).
#ifndef TERN_HTTP_H
#define TERN_HTTP_H

#include "hosted/blob.h"
#include "meter/meter.h"
#include "result.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <strings.h>

// Each limit is checked before the memory it bounds is taken. 0 = the default in parentheses.
struct tern_http_limits {
    // Open connections of all loops (10000). The next one displaces the connection without credentials
    // (tern_http_permit.known) that has the longest time since its last whole request; it is refused where there is none.
    uint32_t connections;
    // Open connections of one address that have shown no credentials (256). The next one displaces the one with the
    // longest time since its last whole request.
    uint32_t connections_per_address;
    // Connections of one authenticated client (8); the next one displaces its oldest.
    uint32_t connections_per_client;
    uint32_t header_bytes; // of one request (4096)
    uint32_t body_bytes;   // of one request (16 MiB)
    // Bodies of all unanswered requests: in memory (256 MiB), and in files (8 GiB), where bodies above 64 KiB are if there
    // is a spool_folder. One body of body_bytes always fits; a body that does not fit is refused with 503.
    uint64_t body_memory;
    uint64_t body_disk;
    uint32_t unfinished;    // bodies that are kept after their connection broke (1000)
    uint32_t unfinished_ms; // how long they are kept (86400000), if others do not need their room
    uint32_t handshake_ms;  // for the TLS handshake, and before it for its first byte (10000)
    // TLS handshakes that one address begins at once on one loop (8); others wait for a turn, for handshake_ms at
    // most. A successful handshake passes its turn to the next; failed and stalled ones free as many turns each
    // second. Those that wait also begin without a turn, in an eighth of the loop's time. A client whose ticket is
    // recognised has turns of its own.
    uint32_t handshakes_per_address;
    uint32_t request_ms; // from a request's first byte to its last (60000), extended by min_rate
    uint32_t min_rate;   // of a body in bytes per second: bytes that arrive extend request_ms (500)
    uint32_t idle_ms;    // between requests (300000)
    uint32_t write_ms;   // without progress while a reply is being sent (60000)
};

// The PEM files of TLS, and what they require of clients.
struct tern_http_files {
    const char *certificate; // with the chain; NULL = plain TCP
    const char *private_key;
    // CAs of clients' certificates: a client shows a certificate, whose common name its requests then have, or uses a
    // pre-shared key. NULL = no certificate is requested.
    const char *client_ca;
    bool
        client_certificate_optional; // admits clients without a certificate; a bad one is always refused
};

struct tern_http_config {
    const char *address; // "0.0.0.0", "::1", or "unix:/path" (admin only)
    uint16_t port;       // 0 = any; see tern_http_port()
    uint32_t threads;    // loops; 0 = one per core
    struct tern_http_files files;
    const char *ticket_keys; // file of the session-ticket keys (mode 0600), so that a restart
                             // does not cost every device a full handshake; NULL = no tickets
    const char
        *ticket_clients; // file that keeps the clients of known tickets over a restart; NULL = none
    // Addresses and networks of proxies, such as "127.0.0.1, 10.0.0.0/8": their connections begin with the header of the
    // PROXY protocol (1 or 2), which names the peer. NULL = none.
    const char *proxy_from;
    // Addresses and networks of caches that answer clients for this server: tern_http_request.of_cache. NULL = none.
    const char *cache_from;
    // Folder for the files of long bodies, for this server only; it continues the bodies that an earlier process left.
    // NULL = all bodies are in memory.
    const char *spool_folder;
    struct tern_http_limits limits;
    uint64_t (*monotonic_ms)(void); // the clock of the limits; NULL = the machine's. From any loop
    uint32_t sweep_ms;              // how often deadlines are checked; 0 = 1000
};

// Bytes of the common name of a client's certificate, with its NUL.
#define TERN_HTTP_NAME_SIZE 64

// Bytes of a pre-shared key.
#define TERN_HTTP_PSK_SIZE 32

// The key of limits per address: an IPv4 address in its IPv6-mapped form, or the /64 network of an IPv6 address, because
// one subscriber gets at least that much. All zero: a unix socket, whose peers are not counted.
struct tern_address {
    uint8_t bytes[16];
};

// One request and the reply it waits for. Owned by the listener until on_request, then by the
// handler until tern_http_reply().
struct tern_http_exchange;

struct tern_http_request {
    uint64_t id;                 // counts up from 1 in each server
    const char *method;          // "GET"; "" where the request ended before it
    const char *path;            // without the query
    const char *query;           // the text behind "?", "" when absent
    const char *authorization;   // value of the header Authorization, "" when absent
    const char *host;            // value of Host; only its form is checked
    const char *cookie;          // value of Cookie, "" when absent
    const char *origin;          // value of Origin, "" when absent
    const char *peer;            // address without port, for logs
    struct tern_address address; // of the peer, for rate limits
    bool of_cache;               // the peer is one of cache_from
    uint64_t psk_client;     // the client that the handshake proved by a pre-shared key; 0 = none
    const char *certificate; // common name of the certificate that the client has shown; "" = none
    uint64_t range_from;     // N of "Range: bytes=N-"; 0 when absent
    const uint8_t *body;     // with the bytes of earlier requests (tern_http_permit.owner)
    size_t body_len;
};

// The credentials of an Authorization header whose scheme is Bearer, in letters of either case (RFC
// 9110, section 11.1); NULL for any other.
static inline const char *tern_http_bearer(const char *authorization)
{
    static const char scheme[] = "Bearer ";
    const size_t len = sizeof scheme - 1;
    return strncasecmp(authorization, scheme, len) == 0 ? authorization + len : NULL;
}

// Bytes of the Set-Cookie of a reply, with its NUL.
#define TERN_HTTP_COOKIE_MAX 128

struct tern_http_reply {
    int status;
    uint32_t retry_after_s; // 0 = no header
    bool closes;            // send "Connection: close", and close the connection
    const char *cache;   // value of Cache-Control, static string, NULL = no header. The reply then
                         // has ETag "1", too: cached replies are content-addressed, so that a path
                         // has only one version
    const char *type;    // value of Content-Type, static string, NULL = no header. It and cache
                         // have at most 200 bytes together
    const char *headers; // further lines, each with its CRLF, static string of at most 250 bytes;
                         // NULL = none
    char set_cookie[TERN_HTTP_COOKIE_MAX]; // value of Set-Cookie; "" = no header
    struct tern_blob *body;                // taken over (released by the listener); NULL = empty
    size_t body_from; // send body from here on; > 0 makes status 206 with Content-Range, or
                      // 416 when nothing is left
};

// What the bytes of an exchange are counted for. Set before the reply.
struct tern_http_tag {
    uint64_t client; // 0 = unknown
    uint32_t round;  // 0 = none
    enum tern_purpose purpose;
    uint64_t payload_up;
    uint64_t payload_down;
    bool of_cache; // the counted bytes pass between a cache and this server
    // HTTP bytes between the cache and the client, when this reply lets the cache send a download; 0 = none.
    uint32_t cache_receives;
    uint64_t cache_sends;
};

// Clears the bytes of the cache, when the reply lets no cache send a download, or they have been counted.
static inline void tern_http_tag_clear_cache(struct tern_http_tag *tag)
{
    tag->cache_receives = 0;
    tag->cache_sends = 0;
}

// The handler's decision about a request whose headers have arrived.
struct tern_http_permit {
    // Is limits.body_bytes, and may be lowered: a longer body is refused with 413, and no more of it is kept.
    uint32_t body_limit;
    // The body's owner. When the connection breaks, the bytes of a long body are kept, at most one body for each owner,
    // and "Content-Range: bytes A-B/T" of the owner's next request to this path continues it at A. 0: nothing is kept,
    // and such a header is refused.
    uint64_t owner;
    // The credentials are right, also where the request is refused for another reason: strangers do not displace the
    // connection, as with a pre-shared key. A request with an unknown path or method is refused before its credentials
    // are checked.
    bool known;
    uint64_t client;          // the client of these credentials; 0 = not counted per client
    struct tern_http_tag tag; // what its bytes count for if it does not reach on_request
    // The handler's own data for this request, for tern_http_exchange_context(). Only with a return of 0; NULL = none.
    void *context;
    enum tern_result
        refusal; // the reason of a refusal, for its Error; OK: the status is reason enough
};

// The kept bytes of a body whose connection broke.
struct tern_http_unfinished {
    uint32_t len;
    uint8_t sha256[32]; // of these bytes
};

// A request and its answer.
struct tern_http_answered {
    const struct tern_http_request *request; // valid during the call; its body may be freed
    uint64_t client;                         // of its tag, or permit; 0 = unknown
    int status;                              // of the answer
    uint64_t received;                       // bytes of the body that came with this request
    uint64_t sends;                          // bytes of the reply's body
    uint64_t ms;                             // since its first byte
};

struct tern_http_handler {
    void *ctx;

    // Called after the headers, before any byte of the body is kept. Returns 0 to continue, or the HTTP status to refuse
    // with. content_length: of the whole body, as the peer claims; 0 when there is no body. NULL = always continue.
    int (*on_headers)(void *ctx, const struct tern_http_request *request, uint64_t content_length,
                      struct tern_http_permit *permit);

    // Whether a kept body of `owner` for this path may still be completed; called periodically. NULL = it may.
    bool (*awaits)(void *ctx, uint64_t owner, const char *path);

    // Whether the client of a session ticket is still admitted; else its connection is a stranger's. Called on the
    // listener's thread for each known ticket. NULL = it is.
    bool (*admits)(void *ctx, uint64_t client);

    // Frees the context of a request that does not reach on_request, because a limit refuses it or its connection
    // breaks. NULL = no request has a context.
    void (*on_dropped)(void *ctx, void *context);

    // A whole request arrived. The handler must call tern_http_reply() once, now or later.
    void (*on_request)(void *ctx, struct tern_http_exchange *exchange);

    // Writes the pre-shared key of a client, whose id in decimal digits is the identity in its handshake. False, with an
    // unchanged key: the client has none, or is not admitted. Called in each full handshake and for each ticket of such
    // a client, so that no ticket outlives its key. NULL = certificates only.
    bool (*psk)(void *ctx, uint64_t client, uint8_t key[TERN_HTTP_PSK_SIZE]);

    // Bytes were counted at the socket for `tag`. The tls and wire bytes of a handshake come with
    // purpose TERN_PURPOSE_HANDSHAKE once the connection's client is known. "up" is to the
    // aggregator. Every byte is reported once: with the exchange whose reply it ends with, or, when
    // the connection closes, for its last tag (client 0 when it never had one). NULL = not metered.
    void (*on_metered)(void *ctx, const struct tern_http_tag *tag, const struct tern_bytes *up,
                       const struct tern_bytes *down);

    // A peer's TLS handshake failed: it uses another protocol, does not trust the certificate, or has another pre-shared
    // key. why: what is wrong with its own certificate, a static string; "" where that is not the reason. NULL = ignored.
    void (*on_handshake_failed)(void *ctx, const char *peer, const char *why);

    // Writes the body of the listener's own refusal: what happened, and what to do. path: of the request, "/"
    // where it could not be read. NULL = the body is a tern_Error.
    void (*on_refusal)(void *ctx, const char *path, enum tern_result result, const char *sentence,
                       struct tern_http_reply *reply);

    // A reply begins to be sent, the handler's or the listener's own. NULL = ignored.
    void (*on_answered)(void *ctx, const struct tern_http_answered *answered);
};

struct tern_http_server;

// Starts the loops. *why is a sentence on failure.
// TERN_ERR_CONFIG  a file cannot be read, the key does not belong to the certificate
// TERN_ERR_NETWORK the address cannot be bound
TERN_MUST_USE enum tern_result tern_http_start(const struct tern_http_config *config,
                                               const struct tern_http_handler *handler,
                                               struct tern_http_server **server, char why[256]);

// Uses these files, and what they require of clients, for connections from now on; open connections keep theirs. On an
// error nothing changes. For a server that has a certificate; one call at a time.
// TERN_ERR_CONFIG  like tern_http_start()
TERN_MUST_USE enum tern_result tern_http_renew(struct tern_http_server *server,
                                               const struct tern_http_files *files, char why[256]);

// Checks whether a server can use these files.
// TERN_ERR_CONFIG  like tern_http_start()
TERN_MUST_USE enum tern_result tern_http_check_files(const struct tern_http_files *files,
                                                     char why[256]);

// Sets new limits for what begins from now on: open connections and requests keep their deadlines, and are not ended
// when they exceed a lower limit. One call at a time.
void tern_http_limit(struct tern_http_server *server, const struct tern_http_limits *limits);

uint16_t tern_http_port(const struct tern_http_server *server);

// Returns the server's keys, valid as long as it runs; NULL: it issues no tickets.
struct tern_ticket_keys *tern_http_ticket_keys(struct tern_http_server *server);

// Returns the number of sweeps of the slowest loop, which grows every sweep_ms while all loops run. Any thread.
uint64_t tern_http_turns(const struct tern_http_server *server);

// Stops accepting, lets requests whose headers have arrived, and their replies, complete for at most grace_ms, closes
// all connections and joins the threads. No callback runs after it, except on_dropped. An exchange that the handler still
// has stays valid until its tern_http_reply(), which then only frees it.
void tern_http_stop(struct tern_http_server *server, uint32_t grace_ms);

// Valid until tern_http_reply().
const struct tern_http_request *
tern_http_exchange_request(const struct tern_http_exchange *exchange);

// Returns the context that on_headers has set, which the caller owns from now on. NULL = none.
void *tern_http_exchange_context(struct tern_http_exchange *exchange);

// Lets the part of the body that is in a file leave memory until it is read again.
void tern_http_exchange_rest(const struct tern_http_exchange *exchange);

// Returns the kept bytes of the body that `owner` was sending to the request's path. Ends the upload on a connection
// that still sends it: its owner has given that up. False: nothing is kept. Call it only in on_request.
bool tern_http_exchange_unfinished(const struct tern_http_exchange *exchange, uint64_t owner,
                                   struct tern_http_unfinished *unfinished);

void tern_http_exchange_tag(struct tern_http_exchange *exchange, const struct tern_http_tag *tag);

// Sends the reply and gives the exchange back. It is no error if the peer has closed already.
void tern_http_reply(struct tern_http_exchange *exchange, const struct tern_http_reply *reply);

// Counters for /metrics, since start.
struct tern_http_counters {
    uint64_t connections_open;
    uint64_t certificate_ends_s; // Unix seconds; 0 = no TLS
    uint64_t client_ca_ends_s;   // the earliest of the CAs' ends; 0 = no CA
    uint64_t connections_accepted;
    uint64_t connections_refused;   // because of a limit
    uint64_t connections_displaced; // strangers, or a client's oldest, for newcomers
    uint64_t handshakes_full;
    uint64_t handshakes_resumed;
    uint64_t handshakes_failed;
    uint64_t client_certificates_refused; // failed because of the client's certificate, or its lack
    uint64_t handshakes_held_back;        // deferred until others of their address had completed
    uint64_t requests;
    uint64_t requests_refused; // by on_headers or a limit
    uint64_t timeouts;
    uint64_t body_memory; // bytes of bodies now
    uint64_t body_disk;
    uint64_t bodies_unfinished; // kept now
    uint64_t bodies_continued;
};
void tern_http_counters(const struct tern_http_server *server, struct tern_http_counters *counters);

#endif
