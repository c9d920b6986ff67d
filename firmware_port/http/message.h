// HTTP/1.1 for a small client: writes the header of a request, and parses a response that arrives in pieces of any size. Uses
// no sockets and no TLS: its callers transfer the bytes. Pure; the caller owns all memory.
#ifndef TERN_FIRMWARE_MESSAGE_H
#define TERN_FIRMWARE_MESSAGE_H

#include "ports.h"

// Writes the request line and the headers to dst[0..size); the caller then sends the body. The headers are Host (with the port
// unless it is 443), and, where the request needs them, Authorization, Content-Length and Range. *len: bytes written.
// TERN_ERR_NO_SPACE  dst is too small
// TERN_ERR_ARGUMENT  method, path, host or token contain a space or a control character
TERN_MUST_USE enum tern_result tern_http_write_head(const struct tern_request *request,
                                                    const char *host, uint16_t port, char *dst,
                                                    size_t size, size_t *len);

// The reader stores so many bytes of a line and ignores the following ones. A response is refused if a header that the reader
// needs is longer.
#define TERN_HTTP_LINE_MAX 96

// A response is refused if all its lines, including those of interim responses, chunk sizes and trailers, have more bytes than
// this.
#define TERN_HTTP_LINES_MAX 8192

// The state of the parser for one response. All fields are private except `keep_alive` and `started`.
struct tern_http_reader {
    struct tern_response *response;
    bool keep_alive; // valid after TERN_OK: the connection may carry another request
    bool started;    // at least one byte of the response has arrived
    uint8_t state;
    bool has_length;
    bool chunked;
    bool after_cr;
    uint16_t line_bytes; // bytes of all lines so far
    uint16_t line_len;   // bytes of the current line
    uint16_t stored;     // bytes of the current line in `line`
    size_t left;         // bytes of the body or chunk that have not arrived yet
    char line[TERN_HTTP_LINE_MAX + 1];
};

// Prepares the reader for a response. `response` is borrowed; its body, retry_after_s and status are set as they arrive.
void tern_http_reader_start(struct tern_http_reader *reader, struct tern_response *response);

// Parses the received bytes src[0..len). *used: how many of them belong to this response. After an error, only
// tern_http_reader_start() may be called.
// TERN_OK             the response is complete; 1xx responses before it were skipped
// TERN_AGAIN          all bytes were used, and more are needed
// TERN_ERR_TOO_LARGE  the body does not fit into the response's buffer; status is set
// TERN_ERR_CORRUPT    the bytes are no HTTP/1.x response, give two different lengths, or exceed a limit
TERN_MUST_USE enum tern_result tern_http_reader_feed(struct tern_http_reader *reader,
                                                     const uint8_t *src, size_t len, size_t *used);

// Tells the reader that the peer has closed the connection.
// TERN_OK           the response is complete: it gave no length of its body, which therefore ends with the connection
// TERN_ERR_NETWORK  the response is incomplete
TERN_MUST_USE enum tern_result tern_http_reader_end(struct tern_http_reader *reader);

#endif
