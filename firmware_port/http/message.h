// HTTP/1.1 for a small client: writes the header of a request from the transport port, and parses a response from pieces of any
// size. Independent of sockets and TLS. Pure; the caller owns all memory.
#ifndef TERN_FIRMWARE_MESSAGE_H
#define TERN_FIRMWARE_MESSAGE_H

#include "ports.h"

// Writes request line and headers to dst; the caller sends the body after them. The headers are Host (with the port unless it
// is 443), Authorization, Content-Length if there is a body, and Range. *len: bytes written.
// TERN_ERR_NO_SPACE  dst is too small
// TERN_ERR_ARGUMENT  method, path, host or token contain a space or a control character
TERN_MUST_USE enum tern_result tern_http_write_head(const struct tern_request *request,
                                                    const char *host, uint16_t port, char *dst,
                                                    size_t size, size_t *len);

// Bytes of a line that are stored. The rest is ignored, but a response is refused if a header that the reader needs is longer.
#define TERN_HTTP_LINE_MAX 96

// Most bytes of all lines of a response, including interim responses, chunk sizes and trailers. Longer responses are refused.
#define TERN_HTTP_LINES_MAX 8192

// Reads one response. Fields are private except `keep_alive` and `begun`.
struct tern_http_reader {
    struct tern_response *response;
    bool keep_alive; // after TERN_OK: the connection may carry another request
    bool begun;      // at least one byte arrived
    uint8_t state;
    bool has_length;
    bool chunked;
    bool after_cr;
    uint16_t line_bytes; // bytes of all lines so far
    uint16_t line_len;   // bytes of the current line
    uint16_t kept;       // bytes of the current line in `line`
    size_t left;         // remaining bytes of the body or chunk
    char line[TERN_HTTP_LINE_MAX + 1];
};

// Starts a response. Its body, retry_after_s and status are set as they arrive.
void tern_http_reader_start(struct tern_http_reader *reader, struct tern_response *response);

// Parses src[0..len). *used: number of bytes that belong to this response. After an error call only tern_http_reader_start().
// TERN_OK             the response is complete; 1xx responses before it were skipped
// TERN_AGAIN          all bytes were used, and more are needed
// TERN_ERR_TOO_LARGE  the body does not fit into the response's buffer; status is set
// TERN_ERR_CORRUPT    not an HTTP/1.x response, two lengths, or longer than a limit
TERN_MUST_USE enum tern_result tern_http_reader_feed(struct tern_http_reader *reader,
                                                     const uint8_t *src, size_t len, size_t *used);

// Call it when the peer has closed the connection. TERN_OK: the response is complete, as its body has no length.
// TERN_ERR_NETWORK: it is not.
TERN_MUST_USE enum tern_result tern_http_reader_end(struct tern_http_reader *reader);

#endif
