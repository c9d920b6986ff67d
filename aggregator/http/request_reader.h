// Bytes to one HTTP/1.x request, incrementally. One reader reads one request and is then freed, so
// an idle connection holds none. It knows neither sockets nor TLS, so that a fuzzer can drive it.
// Not thread-safe; one owner at a time.
#ifndef TERN_HTTP_REQUEST_READER_H
#define TERN_HTTP_REQUEST_READER_H

#include "http/body.h"
#include "http/http.h"
#include <stdbool.h>

struct tern_request_reader;
struct tern_uploads;

struct tern_reader_config {
    uint32_t header_bytes; // request line and headers together
    uint32_t body_bytes;
    struct tern_body_room *room;  // NULL = without a bound
    struct tern_uploads *uploads; // NULL = no body outlives its connection; else of that room
    uint64_t id;                  // of the request
    const char *peer;             // copied: a request may outlive its connection
    struct tern_address address;
    bool of_cache;
    uint64_t psk_client;     // of the connection
    const char *certificate; // likewise; copied. NULL = none

    // Asked once, when the headers are complete and before any byte of the body is kept. Returns 0
    // or the status to refuse with. content_length and permit as in struct tern_http_handler.
    int (*admit)(void *ctx, const struct tern_http_request *request, uint64_t content_length,
                 struct tern_http_permit *permit);
    void *ctx;
};

// NULL when memory is short. Takes header_bytes and a little; the body grows as it arrives (body.h).
struct tern_request_reader *tern_reader_new(const struct tern_reader_config *config);
void tern_reader_free(struct tern_request_reader *reader);

// Takes the next bytes of the stream. *used of them belong to this request; give the others again,
// to this reader (TERN_AGAIN, or refused and reusable) or to the next request's.
//   TERN_OK     the whole request is here
//   TERN_AGAIN  it goes on
//   otherwise   refused: tern_reader_status() is the HTTP status, 503 where the bodies of others
//               leave no room for this one. When tern_reader_reusable(), feed
//               on: the rest of the request is dropped until TERN_OK; else close.
// len > 0. Any bytes are safe; memory stays within the limits of the config.
TERN_MUST_USE enum tern_result tern_reader_feed(struct tern_request_reader *reader,
                                                const uint8_t *data, size_t len, size_t *used);

int tern_reader_status(const struct tern_request_reader *reader);

// What was said of it by who admits requests; OK: the status says enough.
enum tern_result tern_reader_refusal(const struct tern_request_reader *reader);

// True when a refused request's remaining bytes are known to be few, so that reading past them is
// cheaper for the peer than a new connection.
bool tern_reader_reusable(const struct tern_request_reader *reader);

// True when the peer waits for "100 Continue" before it sends the body.
bool tern_reader_waits(const struct tern_request_reader *reader);

// True when the peer accepts another request on this connection.
bool tern_reader_keeps_alive(const struct tern_request_reader *reader);

// Complete after TERN_OK; its memory is the reader's.
const struct tern_http_request *tern_reader_request(const struct tern_request_reader *reader);

// True once the headers are complete and the body may come.
bool tern_reader_has_head(const struct tern_request_reader *reader);

// Bytes of the body that came with this request.
uint64_t tern_reader_received(const struct tern_request_reader *reader);

// What its bytes count for, all zero until it is admitted.
const struct tern_http_tag *tern_reader_tag(const struct tern_request_reader *reader);

// Whose credentials it has; 0 until it is admitted or refused, and where nobody's are known.
uint64_t tern_reader_client(const struct tern_request_reader *reader);

// tern_http_exchange_unfinished()
bool tern_reader_unfinished(const struct tern_request_reader *reader, uint64_t owner,
                            struct tern_http_unfinished *unfinished);

// Its body need not be in memory for now (tern_body_rest()).
void tern_reader_rest(const struct tern_request_reader *reader);

#endif
