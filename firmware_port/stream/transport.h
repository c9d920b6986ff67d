// The transport port over a stream (stream.h): HTTP/1.1 on one kept connection. It blocks as the
// stream does, so the client has a thread of its own. A stream does not tell what its packets take:
// http is counted, tls and wire are what meter/meter.h reckons with, so that budgets hold all the same.
// One thread; the caller owns the memory.
#ifndef TERN_STREAM_TRANSPORT_H
#define TERN_STREAM_TRANSPORT_H

#include "http/message.h"
#include "ports.h"
#include "stream/stream.h"

// Holds the request's head and as much of its body as fits, so that a small request is one record;
// then pieces of the response.
#define TERN_STREAM_BUFFER 512u

// The first four are the caller's to set, and borrowed; the rest is private and zero at first.
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
