// HTTP/1.1 as a small client speaks it: the request that Tern's transport port describes, written
// once; the response, read as its bytes come in, however they are cut. Knows neither sockets nor
// TLS. Pure; the caller owns all memory.
#ifndef TERN_FIRMWARE_MESSAGE_H
#define TERN_FIRMWARE_MESSAGE_H

#include "ports.h"

// Writes request line and headers (the body follows as it is) into dst. Only the headers that
// PROTOCOL.md names: Host (with the port, unless that is 443), Authorization, Content-Length with a
// body, Range. *len: bytes written.
// TERN_ERR_NO_SPACE  dst is too small
// TERN_ERR_ARGUMENT  method, path, host or token hold a space or a control character
TERN_MUST_USE enum tern_result tern_http_write_head(const struct tern_request *request,
                                                    const char *host, uint16_t port, char *dst,
                                                    size_t size, size_t *len);

// Bytes that are kept of a line. The rest is skipped, but a header that counts here is refused when
// it is longer.
#define TERN_HTTP_LINE_MAX 96

// Bytes of all lines of a response together: heads of interim answers, chunk sizes and trailers
// too. What has more is refused.
#define TERN_HTTP_LINES_MAX 8192

// One response being read. Fields are private but for `keep_alive` and `begun`.
struct tern_http_reader {
    struct tern_response *response;
    bool keep_alive; // after TERN_OK: the connection may carry another request
    bool begun;      // at least one byte came
    uint8_t state;
    bool has_length;
    bool chunked;
    bool after_cr;
    uint16_t line_bytes; // in all lines so far
    uint16_t line_len;   // of the present one
    uint16_t kept;       // bytes of it in `line`
    size_t left;         // of the body, or of the chunk
    char line[TERN_HTTP_LINE_MAX + 1];
};

// The response's body, retry_after_s and status are filled as they come.
void tern_http_reader_start(struct tern_http_reader *reader, struct tern_response *response);

// Takes src[0..len). *used: how many of them belong to this response. After an error only
// tern_http_reader_start() may follow.
// TERN_OK             the response is complete; 1xx ones before it were skipped
// TERN_AGAIN          more bytes are needed; all were used
// TERN_ERR_TOO_LARGE  the body does not fit into the response's buffer; status is set
// TERN_ERR_CORRUPT    this is no HTTP/1.x response, its length is said twice or in two ways, or it
//                     breaks a limit
TERN_MUST_USE enum tern_result tern_http_reader_feed(struct tern_http_reader *reader,
                                                     const uint8_t *src, size_t len, size_t *used);

// The peer closed the connection. TERN_OK: which ends a body without a length; TERN_ERR_NETWORK.
TERN_MUST_USE enum tern_result tern_http_reader_end(struct tern_http_reader *reader);

#endif
