// Implements the transport port (ports.h) over a blocking TLS stream, such as that of an operating system for microcontrollers:
// HTTP/1.1 on one persistent connection. Since calls block, the client needs a thread of its own. The meter counts the bytes of
// HTTP, and estimates those of TLS and of the wire by meter/meter.h, because a stream does not count packets. One thread; the
// caller owns the memory.
#ifndef TERN_STREAM_TRANSPORT_H
#define TERN_STREAM_TRANSPORT_H

#include "http/message.h"
#include "ports.h"

// A TLS connection to the aggregator. A call blocks for at most timeout_ms milliseconds. esp_idf/ and zephyr/ implement it.
struct tern_stream {
    void *ctx; // passed to each function

    // Connects to the aggregator and verifies its certificate or key.
    // TERN_ERR_NETWORK    the aggregator cannot be reached
    // TERN_ERR_TLS        the aggregator is not verified
    // TERN_ERR_NO_MEMORY
    TERN_MUST_USE enum tern_result (*open)(void *ctx, uint32_t timeout_ms);

    // Sends the first bytes of src[0..len). *sent: their number, at least 1 if the result is TERN_OK.
    // TERN_ERR_NETWORK  the connection is lost
    TERN_MUST_USE enum tern_result (*send)(void *ctx, const uint8_t *src, size_t len, size_t *sent,
                                           uint32_t timeout_ms);

    // Waits for bytes and copies them to dst[0..size). *len: their number; 0 with TERN_OK: the peer has closed the connection.
    // TERN_ERR_NETWORK  the connection was cut, or no bytes arrived in time
    TERN_MUST_USE enum tern_result (*receive)(void *ctx, uint8_t *dst, size_t size, size_t *len,
                                              uint32_t timeout_ms);

    // Closes the connection. Does nothing if none is open.
    void (*close)(void *ctx);
};

// Size of the buffer that first takes the header of the request and the beginning of its body, so that a small request is one
// TLS record, and afterwards received bytes of the response.
#define TERN_STREAM_BUFFER 512u

// The caller sets the first four fields, which are borrowed; the others are private and zero at first.
struct tern_stream_transport {
    struct tern_stream stream;
    struct tern_clock clock;
    const char *host; // host name of the aggregator, for the Host header
    uint16_t port;    // TCP port of the aggregator, for the Host header
    bool is_open;
    struct tern_meter meter;
    struct tern_http_reader reader;
    uint8_t buffer[TERN_STREAM_BUFFER];
};

// Returns the port for struct tern_ports.
struct tern_transport tern_stream_transport_port(struct tern_stream_transport *transport);

#endif
