// Reads one HTTP/1.x request from a stream of bytes, incrementally. A connection makes a reader for each request and
// frees it afterwards, so that an idle connection holds none. The reader has no sockets and no TLS, so that a fuzzer can
// drive it. Not thread-safe; it has one owner at a time, the connection's loop or the holder of the exchange.
#ifndef TERN_HTTP_REQUEST_H
#define TERN_HTTP_REQUEST_H

#include "http/body.h"
#include "http/http.h"
#include <stdbool.h>

struct tern_request_reader;

struct tern_reader_config {
    uint32_t header_bytes; // limit of request line and headers together
    uint32_t body_bytes;
    struct tern_body_room *room;  // NULL = unbounded
    struct tern_uploads *uploads; // in that room; NULL = no body outlives its connection
    uint64_t id;                  // of the request
    const char *peer;             // copied: a request may outlive its connection
    struct tern_address address;
    bool of_cache;
    uint64_t psk_client;     // of the connection
    const char *certificate; // common name of the peer's certificate; copied. NULL = none

    // Called once, when the headers are complete and before any byte of the body is kept. Returns 0
    // or the status to refuse with. content_length and permit as in struct tern_http_handler.
    int (*admit)(void *ctx, const struct tern_http_request *request, uint64_t content_length,
                 struct tern_http_permit *permit);
    void *ctx;

    // Frees the permit's context when nobody has taken it (struct tern_http_handler).
    void (*on_dropped)(void *ctx, void *context);
    void *dropped_ctx;
};

// Allocates little more than header_bytes; the body grows as it arrives (body.h). NULL when memory is short.
struct tern_request_reader *tern_reader_new(const struct tern_reader_config *config);
void tern_reader_free(struct tern_request_reader *reader); // accepts NULL

// Reads the next bytes of the stream. *used of them belong to this request; pass the others again, to this reader
// (after TERN_AGAIN, or while it discards) or to the next request's.
//   TERN_OK     the request is complete
//   TERN_AGAIN  the request is incomplete
//   otherwise   the request is refused with state->status; 503 where the bodies of others leave no room. If
//               state->discards, pass more bytes, which are dropped until TERN_OK; else close.
// len > 0. Any bytes are safe; memory stays within the limits of the config.
TERN_MUST_USE enum tern_result tern_reader_feed(struct tern_request_reader *reader,
                                                const uint8_t *data, size_t len, size_t *used);

// What is known of a request so far.
struct tern_reader_state {
    int status;               // that refuses the request; 0 = not refused
    enum tern_result refusal; // the reason that `admit` gave for it; TERN_OK: the status is enough
    bool discards;            // a refused request has so few bytes left that reading is cheap
    bool has_head;            // the headers are complete
    bool keeps_alive;         // the peer accepts another request on this connection
    uint64_t received;        // bytes of the body that came with this request
    uint64_t client;          // of the credentials, once admitted or refused; 0 = none
    struct tern_http_tag tag; // for which its bytes are metered; all zero until it is admitted
};

const struct tern_reader_state *tern_reader_state(const struct tern_request_reader *reader);

// True when the peer waits for "100 Continue" before it sends the body.
bool tern_reader_expects_continue(const struct tern_request_reader *reader);

// Returns the request, which is complete after TERN_OK. The reader owns its memory.
const struct tern_http_request *tern_reader_request(const struct tern_request_reader *reader);

// Implements tern_http_exchange_context().
void *tern_reader_context(struct tern_request_reader *reader);

// Implements tern_http_exchange_unfinished().
bool tern_reader_unfinished(const struct tern_request_reader *reader, uint64_t owner,
                            struct tern_http_unfinished *unfinished);

// Lets the body leave memory for a while (tern_body_rest()).
void tern_reader_rest(const struct tern_request_reader *reader);

#endif
