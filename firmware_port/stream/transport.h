// The transport port over a blocking TLS stream: HTTP/1.1 on one kept connection. The client needs its own thread. The meter
// counts the bytes of HTTP and estimates those of TLS and the wire by meter/meter.h, because a stream does not count packets.
// One thread; the caller owns the memory.
#ifndef TERN_STREAM_TRANSPORT_H
#define TERN_STREAM_TRANSPORT_H

#include "http/message.h"
#include "ports.h"

// A TLS connection to the aggregator, as an operating system for microcontrollers has it: calls block, at most for timeout_ms.
// esp_idf/ and zephyr/ implement it.
struct tern_stream {
    void *ctx;

    // Connects to the aggregator and verifies it. No call takes longer than timeout_ms.
    // TERN_ERR_NETWORK    the aggregator cannot be reached
    // TERN_ERR_TLS        the aggregator is not verified
    // TERN_ERR_NO_MEMORY
    TERN_MUST_USE enum tern_result (*open)(void *ctx, uint32_t timeout_ms);

    // Sends some of src. *sent: number of bytes, at least one unless there is an error.
    // TERN_ERR_NETWORK  the connection is lost
    TERN_MUST_USE enum tern_result (*send)(void *ctx, const uint8_t *src, size_t len, size_t *sent,
                                           uint32_t timeout_ms);

    // Waits for bytes. *len: number of received bytes; 0 with TERN_OK: the peer has closed the connection.
    // TERN_ERR_NETWORK  the connection was cut, or no bytes arrived in time
    TERN_MUST_USE enum tern_result (*receive)(void *ctx, uint8_t *dst, size_t size, size_t *len,
                                              uint32_t timeout_ms);

    void (*close)(void *ctx); // does nothing if no connection is open
};

// Bytes of the request's header and the beginning of its body, so that a small request is one TLS record; then of the response.
#define TERN_STREAM_BUFFER 512u

// The caller sets the first four fields, which are borrowed; the others are private and zero at first.
struct tern_stream_transport {
    struct tern_stream stream;
    struct tern_clock clock;
    const char *host; // of the aggregator, for the Host header
    uint16_t port;
    bool is_open;
    struct tern_meter meter;
    struct tern_http_reader reader;
    uint8_t buffer[TERN_STREAM_BUFFER];
};

struct tern_transport tern_stream_transport_port(struct tern_stream_transport *transport);

#endif
