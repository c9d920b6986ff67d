// HTTP/1.1 as a small client speaks it: the request that Tern's transport port describes, written
// once; the response, read as its bytes come in, however they are cut. Knows neither sockets nor
// TLS. Pure; the caller owns all memory.
#ifndef TERN_FIRMWARE_HTTP_H
#define TERN_FIRMWARE_HTTP_H

#include "ports.h"

// Writes request line and headers (the body follows as it is) into dst.
// *len: bytes written. TERN_ERR_NO_SPACE
TERN_MUST_USE enum tern_result tern_http_write_head(const struct tern_request *request,
                                                    const char *host, char *dst, size_t size,
                                                    size_t *len);

#define TERN_HTTP_LINE_MAX                                                                         \
    256 // bytes of a status or header line without its end; longer is refused

// One response being read. Fields are private but for `keep_alive`.
struct tern_http_reader {
    struct tern_response *response;
    int state;
    bool keep_alive; // after TERN_OK: the connection may carry another request
    bool has_length;
    bool chunked;
    uint32_t header_bytes;
    uint64_t left; // of the body, or of the chunk
    size_t line_len;
    char line[TERN_HTTP_LINE_MAX];
};

// The response's body, retry_after_s and status are filled as they come.
void tern_http_reader_start(struct tern_http_reader *reader, struct tern_response *response);

// Takes src[0..len). *used: how many of them belong to this response.
// TERN_OK             the response is complete
// TERN_AGAIN          more bytes are needed
// TERN_ERR_TOO_LARGE  the body does not fit into the response's buffer; status is set
// TERN_ERR_CORRUPT    this is no HTTP/1.x response, or it breaks one of the limits
TERN_MUST_USE enum tern_result tern_http_reader_feed(struct tern_http_reader *reader,
                                                     const uint8_t *src, size_t len, size_t *used);

// The peer closed the connection. TERN_OK: which ends a body without a length; TERN_ERR_NETWORK.
TERN_MUST_USE enum tern_result tern_http_reader_end(struct tern_http_reader *reader);

#endif
