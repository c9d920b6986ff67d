// Reads one HTTP/1.x request incrementally from a stream of bytes. A connection creates a reader for each request and
// frees it afterwards, so that an idle connection has none. The reader uses no sockets and no TLS, so that a fuzzer can
// drive it. Not thread-safe; its owner is the connection's loop, later the owner of the exchange.
#ifndef TERN_HTTP_REQUEST_H
#define TERN_HTTP_REQUEST_H

#include "http/body.h"
#include "http/http.h"
#include <stdbool.h>

struct tern_request_reader;

struct tern_reader_config {
    uint32_t header_bytes; // limit of request line and headers together
    uint32_t body_bytes;
    struct tern_body_quota *quota; // NULL = that of `uploads`; both NULL = bodies without a bound
    struct tern_uploads *uploads;  // NULL = no body outlives its connection
    uint64_t id;                   // tern_http_request.id
    const char *peer; // peer's address; copied, since a request may outlive its connection
    struct tern_address address;
    bool peer_is_cache;
    uint64_t psk_client;       // tern_http_request.psk_client
    const char *certificate;   // common name of the peer's certificate; copied. NULL = none
    const char *user_header;   // tern_http_config.user_header
    const char *groups_header; // tern_http_config.groups_header

    // tern_http_handler.on_headers; called once
    int (*admit)(void *ctx, const struct tern_http_request *request, uint64_t content_length,
                 struct tern_http_permit *permit);
    void *ctx;

    void (*on_dropped)(void *ctx, void *context); // tern_http_handler.on_dropped
    void *dropped_ctx;
};

// Allocates little more than header_bytes; memory for the body is allocated as the body arrives (body.h). NULL when
// memory is short.
struct tern_request_reader *tern_reader_new(const struct tern_reader_config *config);
void tern_reader_free(struct tern_request_reader *reader); // accepts NULL

// Reads the next bytes of the stream. *used: how many belong to this request. Pass the remaining bytes again, to this
// reader (after TERN_AGAIN, or while the reader discards bytes) or to the reader of the next request.
//   TERN_OK     the request is complete
//   TERN_AGAIN  the request is incomplete
//   otherwise   the request is refused with state->status (503: bodies of other requests leave no room). If
//               state->discards, pass more bytes, which are discarded, until TERN_OK; otherwise close the connection.
// len > 0. Any bytes are safe; memory stays within the limits of the config.
TERN_MUST_USE enum tern_result tern_reader_feed(struct tern_request_reader *reader,
                                                const uint8_t *data, size_t len, size_t *used);

// The state of a request that is being read.
struct tern_reader_state {
    int status;               // HTTP status of the refusal; 0 = not refused
    enum tern_result refusal; // tern_http_permit.refusal
    const char *sentence;     // tern_http_permit.sentence
    bool discards;            // refused with a short body, which the reader discards
    bool has_head;            // the headers are complete
    bool keeps_alive;         // the connection can serve another request
    bool expects_continue; // the peer sends the body after "100 Continue"; no body byte has arrived
    uint64_t received;     // bytes of the body that arrived with this request
    uint64_t client;       // tern_http_permit.client; 0 = none
    struct tern_http_tag tag; // tern_http_permit.tag; all zero until the request is admitted
};

const struct tern_reader_state *tern_reader_state(const struct tern_request_reader *reader);

// Returns the request, which is complete after TERN_OK. The reader owns its memory.
const struct tern_http_request *tern_reader_request(const struct tern_request_reader *reader);

// Implements tern_http_exchange_context().
void *tern_reader_context(struct tern_request_reader *reader);

// Implements tern_http_exchange_unfinished().
bool tern_reader_unfinished(const struct tern_request_reader *reader, uint64_t owner,
                            struct tern_http_unfinished *unfinished);

// Implements tern_http_exchange_evict_body().
void tern_reader_evict_body(const struct tern_request_reader *reader);

#endif
