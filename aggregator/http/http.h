// The listener: HTTP/1.1 over TLS (mbedTLS) or, for the admin side, over plain TCP on loopback or a
// unix socket; libuv loops, one thread each, sharing the port by SO_REUSEPORT. It knows limits and
// metering, not rounds. Only aggregator/http knows libuv, HTTP and mbedTLS.
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
    // Open at once, all loops together (10000). Beyond them a newcomer takes the place of that
    // connection which has never shown who it is (tern_http_permit.known) and has been without a
    // whole request the longest; it is refused where there is none.
    uint32_t connections;
    // Open connections of one address that have shown no credentials (256). The next one displaces the one with the
    // longest time since its last whole request.
    uint32_t connections_per_address;
    // Of one client (8), once it has shown who it is: the next takes the place of its oldest.
    uint32_t connections_per_client;
    uint32_t header_bytes; // of one request (4096)
    uint32_t body_bytes;   // of one request (16 MiB)
    // Of all requests together, until they are answered: in memory (256 MiB), and in files (8 GiB),
    // where bodies above 64 KiB are if there is a spool_folder. One of body_bytes always fits; what
    // does not is refused by 503.
    uint64_t body_memory;
    uint64_t body_disk;
    uint32_t unfinished;    // bodies that are kept after their connection broke (1000),
    uint32_t unfinished_ms; // for so long (86400000) while others do not need their room
    uint32_t handshake_ms;  // for the TLS handshake, and before it for its first byte (10000)
    // TLS handshakes that one address begins at once on one loop (8); others wait for a turn, for handshake_ms at
    // most. A successful handshake passes its turn to the next; failed and stalled ones free as many turns each
    // second. Those that wait also begin without a turn, in an eighth of the loop's time. A client whose ticket is
    // recognised has turns of its own.
    uint32_t handshakes_per_address;
    uint32_t request_ms; // from its first byte to its last (60000), and on top
    uint32_t min_rate;   // of its body in bytes per second: what came extends it (500)
    uint32_t idle_ms;    // between requests (300000)
    uint32_t write_ms;   // without progress while a reply is being sent (60000)
};

// The PEM files of TLS, and what clients are asked for.
struct tern_http_files {
    const char *certificate; // with the chain; NULL = plain TCP
    const char *private_key;
    // CAs of clients' certificates: a client shows one, of that common name which requests then have, or
    // shakes hands with a pre-shared key. NULL = clients are asked for none.
    const char *client_ca;
    bool
        client_certificate_optional; // one that shows none comes in, too; one that is not good never does
};

struct tern_http_config {
    const char *address; // "0.0.0.0", "::1", or "unix:/path" (admin only)
    uint16_t port;       // 0 = any; tern_http_port() tells
    uint32_t threads;    // loops; 0 = one per core
    struct tern_http_files files;
    const char
        *ticket_keys; // file the session-ticket keys are kept in (mode 0600), so that a restart
                      // does not cost every device a full handshake; NULL = no tickets
    const char *
        ticket_clients; // file that keeps whose tickets are known from an orderly stop on; NULL = none
    // Addresses and networks of proxies, as "127.0.0.1, 10.0.0.0/8": what comes from there begins with
    // the header of the PROXY protocol (1 or 2), and is the peer's whom that names. NULL = none.
    const char *proxy_from;
    // Likewise, of caches that answer clients in our place: tern_http_request.of_cache. NULL = none.
    const char *cache_from;
    // For the files of long bodies, the server's alone: it goes on with those that an earlier one did
    // not finish. NULL = all are in memory.
    const char *spool_folder;
    struct tern_http_limits limits;
    uint64_t (*monotonic_ms)(void); // the clock of the limits; NULL = the machine's. From any loop
    uint32_t sweep_ms;              // how often they are looked at; 0 = 1000
};

// Bytes of the common name of a client's certificate, with its NUL.
#define TERN_HTTP_NAME_SIZE 64

// Bytes of a pre-shared key.
#define TERN_HTTP_PSK_SIZE 32

// What limits per address count by: an IPv4 address in its IPv6-mapped form, or the /64 network of
// an IPv6 address, because one subscriber is given at least that much. All zero: a unix socket,
// whose peers are not counted.
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
    const char *query;           // what stands behind "?", "" when absent
    const char *authorization;   // value of the header, "" when absent
    const char *host;            // likewise; its form is checked, not whose it is
    const char *cookie;          // likewise, of Cookie
    const char *origin;          // likewise, of Origin
    const char *peer;            // address without port, for logs
    struct tern_address address; // of the peer, for rate limits
    bool of_cache;               // the peer is one of cache_from
    uint64_t psk_client;         // whom the handshake proved by a pre-shared key; 0 = nobody
    const char *certificate; // common name of the certificate that the client has shown; "" = none
    uint64_t range_from;     // of "Range: bytes=N-"; 0 when absent
    const uint8_t *body;     // with what came of it before (tern_http_permit.owner)
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
    bool closes;            // say "Connection: close", and close it then
    const char *cache;      // value of Cache-Control, static string, NULL = no header. With it goes
                            // ETag "1": cached replies are content-addressed, so that no path ever
                            // has a second version to tell from the first
    const char *type;       // value of Content-Type, static string, NULL = no header. It and cache
                            // have at most 200 bytes together
    const char *headers; // further lines, each with its CRLF, static string of at most 250 bytes;
                         // NULL = none
    char set_cookie[TERN_HTTP_COOKIE_MAX]; // value of Set-Cookie; "" = no header
    struct tern_blob *body;                // taken over (released by the listener); NULL = empty
    size_t body_from; // send body from here on; > 0 makes status 206 with Content-Range, or
                      // 416 when nothing is left
};

// Who and what the bytes of an exchange are counted for. Set before the reply.
struct tern_http_tag {
    uint64_t client; // 0 = nobody known
    uint32_t round;  // 0 = none
    enum tern_purpose purpose;
    uint64_t payload_up;
    uint64_t payload_down;
    bool of_cache; // the bytes that are counted are between a cache and here, not its client's
    // HTTP bytes between that cache and the client, once this reply has told it to send a download; 0 = none.
    uint32_t cache_receives;
    uint64_t cache_sends;
};

// No cache is told to send something by the tag's reply, or what it sends has been counted.
static inline void tern_http_tag_clear_cache(struct tern_http_tag *tag)
{
    tag->cache_receives = 0;
    tag->cache_sends = 0;
}

// What the handler says of a request once it knows the headers.
struct tern_http_permit {
    // Is limits.body_bytes and may be lowered: no more of the request's body is kept, and a longer
    // one is refused by 413.
    uint32_t body_limit;
    // Whose body it is. Where the connection breaks, what came of a long one is kept, at most one
    // for each owner, and "Content-Range: bytes A-B/T" of the owner's next request to this path
    // goes on at A. 0: nothing is kept, and such a header is refused.
    uint64_t owner;
    // Its credentials were looked at and are right, also where it is refused afterwards: the
    // connection keeps its place when all are taken, as one does whose handshake proved a pre-shared
    // key. A path or a method that is not known is refused before they are looked at.
    bool known;
    uint64_t client;          // whose credentials they are; 0 = nobody's who is counted
    struct tern_http_tag tag; // what its bytes count for if it is never handed over
    enum tern_result refusal; // of a refused one, what its Error says; OK: what the status says
};

// What is kept of a body whose connection broke.
struct tern_http_unfinished {
    uint32_t len;
    uint8_t sha256[32]; // of these bytes
};

// A request, and what it is answered.
struct tern_http_answered {
    const struct tern_http_request *request; // for this call; its body may be gone
    uint64_t client;                         // of its tag, or permit; 0 = nobody known
    int status;                              // that goes out
    uint64_t received;                       // bytes of its body that came with it
    uint64_t sends;                          // bytes of the reply's body
    uint64_t ms;                             // since its first byte
};

struct tern_http_handler {
    void *ctx;

    // After the headers, before any byte of the body is kept. Returns 0 to go on, or the HTTP
    // status to refuse with. content_length is what the peer claims, with what it sent of the body
    // before: 0 when there is no body. NULL = go on always.
    int (*on_headers)(void *ctx, const struct tern_http_request *request, uint64_t content_length,
                      struct tern_http_permit *permit);

    // Whether a body of `owner` that is kept for this path may still be completed; asked now and
    // then. NULL = it may.
    bool (*awaits)(void *ctx, uint64_t owner, const char *path);

    // Whether a client that a session ticket names may still come in: else its connection is a stranger's. Asked
    // on the listener's thread for each ticket that is known. NULL = it may.
    bool (*admits)(void *ctx, uint64_t client);

    // A whole request arrived. The handler must call tern_http_reply() once, now or later.
    void (*on_request)(void *ctx, struct tern_http_exchange *exchange);

    // The pre-shared key of a client, whose id in decimal digits is the identity in its handshake:
    // writes it and returns true, or returns false, leaving key as it is, when the client has none
    // or may not come in. Asked in each full handshake and for each ticket of such a client, so
    // that no ticket outlives its key. NULL = certificates only.
    bool (*psk)(void *ctx, uint64_t client, uint8_t key[TERN_HTTP_PSK_SIZE]);

    // Bytes were counted at the socket for `tag`. The tls and wire bytes of a handshake come with
    // purpose TERN_PURPOSE_HANDSHAKE once the connection's client is known. "up" is to the
    // aggregator. Every byte is reported once: with the exchange whose reply it ends with, or, when
    // the connection closes, for its last tag (client 0 when it never had one). NULL = not metered.
    void (*on_metered)(void *ctx, const struct tern_http_tag *tag, const struct tern_bytes *up,
                       const struct tern_bytes *down);

    // A peer did not come through the TLS handshake: it speaks something else, does not trust the
    // certificate, or has another pre-shared key. why: what is wrong with its own certificate, a static
    // string, "" where that is not the reason. NULL = nobody asks.
    void (*on_handshake_failed)(void *ctx, const char *peer, const char *why);

    // Gives a refusal of the listener's own its body: what went wrong, and what to do. path: of the request, "/"
    // where it could not be read. NULL = the body is a tern_Error.
    void (*on_refusal)(void *ctx, const char *path, enum tern_result result, const char *sentence,
                       struct tern_http_reply *reply);

    // A reply begins to go out, the handler's own or one of the listener's. NULL = nobody asks.
    void (*on_answered)(void *ctx, const struct tern_http_answered *answered);
};

struct tern_http_server;

// Starts the loops. *why is a sentence on failure.
// TERN_ERR_CONFIG  a file cannot be read, the key does not belong to the certificate
// TERN_ERR_NETWORK the address cannot be bound
TERN_MUST_USE enum tern_result tern_http_start(const struct tern_http_config *config,
                                               const struct tern_http_handler *handler,
                                               struct tern_http_server **server, char why[256]);

// Takes these files, and what they ask of clients, for connections from now on; those that are open keep
// theirs. On an error nothing changes. For a server that has a certificate; one call at a time.
// TERN_ERR_CONFIG as above
TERN_MUST_USE enum tern_result tern_http_renew(struct tern_http_server *server,
                                               const struct tern_http_files *files, char why[256]);

// Whether a server can serve with these files.
// TERN_ERR_CONFIG as above
TERN_MUST_USE enum tern_result tern_http_check_files(const struct tern_http_files *files,
                                                     char why[256]);

// Takes these limits for what begins from now on: connections and requests under way keep their deadlines,
// and what is over a lower limit already is not ended. One call at a time.
void tern_http_limit(struct tern_http_server *server, const struct tern_http_limits *limits);

uint16_t tern_http_port(const struct tern_http_server *server);

// The server's, as long as it runs; NULL: it gives no tickets.
struct tern_ticket_keys *tern_http_ticket_keys(struct tern_http_server *server);

// Grows every sweep_ms while every loop goes on: by the one that has gone least far. Any thread.
uint64_t tern_http_turns(const struct tern_http_server *server);

// Stops accepting, lets requests whose headers have come, and their replies, finish for at most
// grace_ms, closes all, joins the threads. No callback runs after it. An exchange that the handler still holds stays valid until
// its tern_http_reply(), which then only releases it.
void tern_http_stop(struct tern_http_server *server, uint32_t grace_ms);

// Valid until tern_http_reply().
const struct tern_http_request *
tern_http_exchange_request(const struct tern_http_exchange *exchange);

// The body is not read for a while: what of it lies in a file may leave memory until it is read again.
void tern_http_exchange_rest(const struct tern_http_exchange *exchange);

// What is kept of the body that `owner` was sending to the request's path. A connection on which it
// still comes in gets no further: who asks has given it up. False: nothing. Only in on_request.
bool tern_http_exchange_unfinished(const struct tern_http_exchange *exchange, uint64_t owner,
                                   struct tern_http_unfinished *unfinished);

void tern_http_exchange_tag(struct tern_http_exchange *exchange, const struct tern_http_tag *tag);

// Sends the reply and gives the exchange back. The peer may be gone already; that is not an error.
void tern_http_reply(struct tern_http_exchange *exchange, const struct tern_http_reply *reply);

// Counters for /metrics, since start.
struct tern_http_counters {
    uint64_t connections_open;
    uint64_t certificate_ends_s; // Unix seconds; 0 = in the clear
    uint64_t client_ca_ends_s;   // the first of them; 0 = there is none
    uint64_t connections_accepted;
    uint64_t connections_refused;   // over a limit
    uint64_t connections_displaced; // of strangers, or a client's oldest, for newcomers
    uint64_t handshakes_full;
    uint64_t handshakes_resumed;
    uint64_t handshakes_failed;
    uint64_t client_certificates_refused; // of those, and missing ones
    uint64_t handshakes_held_back;        // until others of their address were done
    uint64_t requests;
    uint64_t requests_refused; // by on_headers or a limit
    uint64_t timeouts;
    uint64_t body_memory; // that bodies take now
    uint64_t body_disk;
    uint64_t bodies_unfinished; // kept now
    uint64_t bodies_continued;
};
void tern_http_counters(const struct tern_http_server *server, struct tern_http_counters *counters);

#endif
