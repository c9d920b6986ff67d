// The listener: HTTP/1.1 over TLS (mbedTLS), or over plain TCP on loopback or a unix socket for the admin side. Its libuv
// loops, one thread each, share the port by SO_REUSEPORT. It enforces limits and meters bytes; the service and the admin
// side handle its requests. Only aggregator/http uses libuv and an HTTP parser.
//
// Threads: tern_http_reply() and tern_http_exchange_* are safe from any thread. Callbacks run on a loop's thread, must not
// block, and must be reentrant, since several loops call them at once.
#ifndef TERN_HTTP_H
#define TERN_HTTP_H

#include "hosted/spool.h"
#include "meter/meter.h"
#include "result.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <strings.h>

// Each limit is checked before memory is allocated. 0 = the default in parentheses.
struct tern_http_limits {
    // Open connections of all loops (10000). A further connection displaces the stranger (a connection without
    // credentials, see tern_http_permit.known) whose last complete request is the oldest. The further connection is
    // refused if no stranger can be displaced.
    uint32_t connections;
    // Strangers of one address (256). A further stranger displaces the stranger of this address whose last complete
    // request is the oldest.
    uint32_t connections_per_address;
    // Connections of one authenticated client (8). A further connection displaces the client's oldest connection.
    uint32_t connections_per_client;
    uint32_t header_bytes; // request line and headers of one request (4096)
    uint32_t body_bytes;   // body of one request (16 MiB)
    // Bodies of all unanswered requests in memory (256 MiB) and in files (8 GiB). With a spool_folder, bodies above 64 KiB
    // go into files. One body of body_bytes always fits; a body that does not fit is refused with 503.
    uint64_t body_memory;
    uint64_t body_disk;
    // Interrupted uploads: incomplete bodies that are stored after their connection broke (1000).
    uint32_t unfinished;
    // How long interrupted uploads are stored (86400000), unless other bodies need the space.
    uint32_t unfinished_ms;
    // Time for the TLS handshake, and before the handshake for its first byte (10000).
    uint32_t handshake_ms;
    // Handshake slots of one address on one loop (8). A TLS handshake takes a slot; if no slot is free, the handshake
    // is deferred for at most handshake_ms. A successful handshake frees its slot at once; failed and stalled
    // handshakes free this many slots a second. Deferred handshakes also begin without a slot, in an eighth of the
    // loop's time. A client whose ticket is recognised has separate slots.
    uint32_t handshakes_per_address;
    // Time from a request's first byte to its last byte (60000), extended by min_rate.
    uint32_t request_ms;
    // Bytes of a body per second (500); a received byte extends request_ms by 1/min_rate s.
    uint32_t min_rate;
    uint32_t idle_ms;  // time between two requests (300000)
    uint32_t write_ms; // time without progress while a reply is being sent (60000)
};

// Replaces every 0 by its default, and raises body_memory and body_disk to body_bytes.
void tern_http_limits_fill(struct tern_http_limits *limits);

// The PEM files of TLS, and whether clients need certificates.
struct tern_http_files {
    const char *certificate; // certificate with its chain; NULL = TCP without TLS
    const char *private_key;
    // CAs of client certificates. If set, a client needs a certificate or a pre-shared key; the certificate's common name
    // becomes tern_http_request.certificate. NULL = no certificate is requested.
    const char *client_ca;
    // Admits clients without a certificate; a bad certificate is always refused.
    bool client_certificate_optional;
};

struct tern_http_config {
    // "0.0.0.0", "::1", "::" or "unix:/path" (admin only), which must outlive the server. "::" takes connections by IPv6 and
    // by IPv4; on a machine without IPv6 it means "0.0.0.0".
    const char *address;
    uint16_t port;    // 0 = any; see tern_http_port()
    uint32_t threads; // loops; 0 = one per core
    struct tern_http_files files;
    const char *ticket_keys; // file of the session-ticket keys (mode 0600), so that a restart
                             // does not cost every device a full handshake; NULL = no tickets
    // File that stores over a restart which client used a ticket; NULL = none.
    const char *ticket_clients;
    // Addresses and networks of proxies, such as "127.0.0.1, 10.0.0.0/8". Each connection of a proxy begins with the
    // header of the PROXY protocol (version 1 or 2), which contains the client's address. NULL = none.
    const char *proxy_from;
    // Addresses and networks of caches that answer clients for this server: tern_http_request.peer_is_cache. NULL = none.
    const char *cache_from;
    // Headers in which a proxy names its user and the user's groups: tern_http_request.user and groups. Every peer can send
    // them, so that only a listener whose peers are all trusted has them. Must outlive the server. NULL = none.
    const char *user_header;
    const char *groups_header;
    // The group of a unix socket may connect, too (mode 0660); otherwise only its owner may (0600).
    bool group_connects;
    // Folder for the files of long bodies, used by this server alone. Bodies that an earlier process left there can be
    // completed. NULL = all bodies are in memory.
    const char *spool_folder;
    struct tern_http_limits limits;
    uint64_t (*monotonic_ms)(
        void);         // clock of all deadlines, called by every loop; NULL = libuv's clock
    uint32_t sweep_ms; // how often deadlines are checked; 0 = 1000
};

// Bytes of the common name of a client's certificate, with its NUL.
#define TERN_HTTP_NAME_SIZE 64

// Bytes of a pre-shared key.
#define TERN_HTTP_PSK_SIZE 32

// The key of limits per address: an IPv4 address in its IPv6-mapped form, or the /64 network of an IPv6 address,
// because one subscriber has at least a /64 network. All zero: a unix socket, which has no limits per address.
struct tern_address {
    uint8_t bytes[16];
};

// One request and its reply. The listener owns the exchange until on_request(), then the handler until
// tern_http_reply().
struct tern_http_exchange;

struct tern_http_request {
    uint64_t id;                 // counts up from 1 in each server
    const char *method;          // "GET"; "" if the request ended before its method
    const char *path;            // without the query
    const char *query;           // the text after "?"; "" when absent
    const char *authorization;   // value of the header Authorization, "" when absent
    const char *host;            // value of the header Host; only the form of the value is checked
    const char *cookie;          // value of Cookie, "" when absent
    const char *origin;          // value of Origin, "" when absent
    const char *user;            // value of tern_http_config.user_header, NULL when absent
    const char *groups;          // value of tern_http_config.groups_header, "" when absent
    const char *peer;            // address without port, for logs
    struct tern_address address; // the peer's address, for rate limits
    bool peer_is_cache;          // the peer's address is in tern_http_config.cache_from
    uint64_t psk_client;         // the client whose pre-shared key the handshake proved; 0 = none
    const char *certificate;     // common name of the client's certificate; "" = none
    uint64_t range_from;         // N of "Range: bytes=N-"; 0 when absent
    const uint8_t *body;         // includes bytes of an interrupted upload (tern_http_permit.owner)
    size_t body_len;
};

// Returns the credentials of an Authorization header of the scheme Bearer, whose case does not matter (RFC 9110, section
// 11.1); NULL for other schemes.
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
    bool closes;            // sends "Connection: close" and closes the connection
    // Static strings; NULL = no header. cache and type have at most 200 bytes together, headers at most 250.
    // Cache-Control. The reply then has ETag "1", too, because a cached path always has the same content
    const char *cache;
    const char *type;                      // Content-Type
    const char *headers;                   // further lines, each with its CRLF
    char set_cookie[TERN_HTTP_COOKIE_MAX]; // value of Set-Cookie; "" = no header
    struct tern_blob *body;                // the listener releases this reference; NULL = empty
    // Send the body from this byte on: status 206 with Content-Range, or 416 beyond the body's end; 0 = send all of the
    // body.
    size_t body_from;
};

// Attributes the bytes of an exchange to a client, a round and a purpose. The handler sets the tag before the reply.
struct tern_http_tag {
    uint64_t client; // id; 0 = unknown
    uint32_t round;  // number of the round; 0 = none
    enum tern_purpose purpose;
    uint64_t payload_up;
    uint64_t payload_down;
    bool peer_is_cache; // the counted bytes pass between a cache and this server
    // HTTP bytes between the cache and the client, if this reply lets the cache send a download; 0 = none.
    uint32_t cache_receives;
    uint64_t cache_sends;
};

// Clears the bytes of the cache, because these bytes are counted already, or no cache sends the download.
static inline void tern_http_tag_clear_cache(struct tern_http_tag *tag)
{
    tag->cache_receives = 0;
    tag->cache_sends = 0;
}

// The handler's decision about a request whose headers have arrived.
struct tern_http_permit {
    // Longest body, in bytes; a longer body is refused with 413. Initially limits.body_bytes; on_headers may lower this
    // limit.
    uint32_t body_limit;
    // The body's owner. If the connection breaks, the received bytes of a long body are stored, for one body per owner.
    // The owner's next request to this path continues the body by "Content-Range: bytes A-B/T". 0: no bytes are stored,
    // and Content-Range is refused.
    uint64_t owner;
    // The credentials are valid, even if the request is refused for another reason. Strangers then cannot displace the
    // connection.
    bool known;
    // The client that the credentials belong to; 0 = the connection is not counted per client.
    uint64_t client;
    struct tern_http_tag tag; // attributes the request's bytes if it does not reach on_request
    // The handler's data for this request, see tern_http_exchange_context(). Only if on_headers returns 0; NULL = none.
    void *context;
    // Reason of a refusal, for the tern_Error in the reply; TERN_OK = the reason follows from the status.
    enum tern_result refusal;
    // Sentence of a refusal, a static string; NULL = it follows from `refusal` or the status.
    const char *sentence;
};

// The stored bytes of an interrupted upload.
struct tern_http_unfinished {
    uint32_t len;
    uint8_t sha256[32]; // hash of the first `len` bytes
};

// A request and its answer.
struct tern_http_answered {
    const struct tern_http_request *request; // valid during the call, except for its body
    uint64_t client;                         // client of the tag or permit; 0 = unknown
    int status;
    uint64_t received; // bytes of the body that arrived with this request
    uint64_t sends;    // bytes of the reply's body
    uint64_t ms;       // from the request's first byte to this answer
};

struct tern_http_handler {
    void *ctx;

    // Called after the headers, before any byte of the body is stored. Returns 0 to continue, or the HTTP status of the
    // refusal. content_length: length of the whole body as the peer claims; 0 = no body. NULL = always continue.
    int (*on_headers)(void *ctx, const struct tern_http_request *request, uint64_t content_length,
                      struct tern_http_permit *permit);

    // Whether the rest of an interrupted upload of `owner` to this path would still be accepted; otherwise the listener
    // drops the upload. Called periodically. NULL = always.
    bool (*expects_upload)(void *ctx, uint64_t owner, const char *path);

    // Whether the client of a session ticket is still admitted; otherwise its connection is a stranger. Called for each
    // ticket whose client is known. NULL = always.
    bool (*admits_client)(void *ctx, uint64_t client);

    // Frees the context of a request that does not reach on_request, because a limit refuses it or its connection
    // breaks. NULL = no request has a context.
    void (*on_dropped)(void *ctx, void *context);

    // A complete request has arrived. The handler must call tern_http_reply() once, now or later.
    void (*on_request)(void *ctx, struct tern_http_exchange *exchange);

    // Writes the pre-shared key of a client; the PSK identity in the handshake is the client's id in decimal digits.
    // Returns false and leaves `key` unchanged if the client has no key, or is not admitted. Called in each full
    // handshake with a pre-shared key, and for each ticket of such a handshake, so that no ticket outlives its key.
    // NULL = certificates only.
    bool (*psk)(void *ctx, uint64_t client, uint8_t key[TERN_HTTP_PSK_SIZE]);

    // Reports bytes that were counted at the socket; "up" is towards the aggregator. Every byte is reported once: with
    // its exchange, or, when the connection closes, under the connection's last tag (client 0 if the connection never
    // had a tag). Handshake bytes have TERN_PURPOSE_HANDSHAKE and follow once the client is known. NULL = not metered.
    void (*on_metered)(void *ctx, const struct tern_http_tag *tag, const struct tern_bytes *up,
                       const struct tern_bytes *down);

    // A peer's TLS handshake failed. why: the fault of the peer's certificate, a static string; "" for other causes, such
    // as another protocol, another pre-shared key, or a peer that rejects our certificate. NULL = ignored.
    void (*on_handshake_failed)(void *ctx, const char *peer, const char *why);

    // Writes the body of the listener's own refusal: what happened, and what to do. path: "/" if the request's path could
    // not be read. NULL = the body is a tern_Error.
    void (*on_refusal)(void *ctx, const char *path, enum tern_result result, const char *sentence,
                       struct tern_http_reply *reply);

    // The listener begins to send a reply or a refusal. NULL = ignored.
    void (*on_answered)(void *ctx, const struct tern_http_answered *answered);
};

struct tern_http_server;

// Starts the loops. why: the reason of an error, a sentence.
// TERN_ERR_CONFIG  a file cannot be read, the key does not belong to the certificate
// TERN_ERR_NETWORK the address cannot be bound
TERN_MUST_USE enum tern_result tern_http_start(const struct tern_http_config *config,
                                               const struct tern_http_handler *handler,
                                               struct tern_http_server **server, char why[256]);

// Replaces the PEM files that new connections use. On an error nothing changes. Requires a server that was started with
// a certificate; one call at a time.
// TERN_ERR_CONFIG  like tern_http_start()
TERN_MUST_USE enum tern_result tern_http_reload_files(struct tern_http_server *server,
                                                      const struct tern_http_files *files,
                                                      char why[256]);

// Checks whether a server can use these files.
// TERN_ERR_CONFIG  like tern_http_start()
TERN_MUST_USE enum tern_result tern_http_check_files(const struct tern_http_files *files,
                                                     char why[256]);

// Sets new limits for new connections and requests. Open connections retain their deadlines, and are not closed if they
// exceed a lower limit. One call at a time.
void tern_http_set_limits(struct tern_http_server *server, const struct tern_http_limits *limits);

// Returns the address where the server listens: that of the configuration, or "0.0.0.0" in place of "::".
const char *tern_http_address(const struct tern_http_server *server);
uint16_t tern_http_port(const struct tern_http_server *server);

// Returns the keys of session tickets, valid until tern_http_stop(). NULL: the server issues no tickets.
struct tern_ticket_keys *tern_http_ticket_keys(struct tern_http_server *server);

// Returns how often the slowest loop has checked deadlines. Grows every sweep_ms while all loops run. Any thread.
uint64_t tern_http_sweeps(const struct tern_http_server *server);

// Stops accepting, waits up to grace_ms for requests whose headers have arrived, closes all connections and joins the
// threads. No callback runs afterwards, except on_dropped. An exchange that the handler still owns stays valid until
// tern_http_reply(), which then only frees it.
void tern_http_stop(struct tern_http_server *server, uint32_t grace_ms);

// Returns the request of the exchange, valid until tern_http_reply().
const struct tern_http_request *
tern_http_exchange_request(const struct tern_http_exchange *exchange);

// Returns tern_http_permit.context, which the caller owns from now on. NULL = none.
void *tern_http_exchange_context(struct tern_http_exchange *exchange);

// Lets the kernel evict the pages of a body in a file from memory; an access reads them from the file.
void tern_http_exchange_evict_body(const struct tern_http_exchange *exchange);

// Returns the stored bytes of the owner's interrupted upload to the request's path. Stops a connection that still
// receives this upload, since its owner asks for it on a new connection. False: no such upload is stored. Call this
// function only in on_request.
bool tern_http_exchange_unfinished(const struct tern_http_exchange *exchange, uint64_t owner,
                                   struct tern_http_unfinished *unfinished);

void tern_http_exchange_tag(struct tern_http_exchange *exchange, const struct tern_http_tag *tag);

// Sends the reply and returns the exchange to the listener. A peer that has closed already is no error.
void tern_http_reply(struct tern_http_exchange *exchange, const struct tern_http_reply *reply);

// Events since the start.
#define TERN_HTTP_COUNTS(COUNT)                                                                    \
    COUNT(connections_accepted)                                                                    \
    COUNT(connections_refused)   /* by a limit */                                                  \
    COUNT(connections_displaced) /* closed for newcomers */                                        \
    COUNT(handshakes_full)                                                                         \
    COUNT(handshakes_resumed)                                                                      \
    COUNT(handshakes_failed)                                                                       \
    COUNT(client_certificates_refused) /* failed by a bad or missing client certificate */         \
    COUNT(handshakes_deferred) /* deferred until their address had a free handshake slot */        \
    COUNT(requests)                                                                                \
    COUNT(requests_refused) /* by on_headers or a limit */                                         \
    COUNT(timeouts)

// Values for /metrics.
struct tern_http_counters {
#define COUNT(name) uint64_t name;
    TERN_HTTP_COUNTS(COUNT)
#undef COUNT
    uint64_t connections_open;
    uint64_t certificate_ends_s; // expiry in Unix seconds; 0 = no TLS
    uint64_t client_ca_ends_s;   // earliest expiry of the client CAs in Unix seconds; 0 = no CA
    uint64_t body_memory;        // bytes of bodies in memory
    uint64_t body_disk;          // bytes of bodies in files
    uint64_t bodies_unfinished;  // interrupted uploads that are stored now
    // Interrupted uploads that a later request continued, since the start.
    uint64_t bodies_continued;
};
void tern_http_counters(const struct tern_http_server *server, struct tern_http_counters *counters);

#endif
