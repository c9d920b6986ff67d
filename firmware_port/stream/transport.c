#include "stream/transport.h"
#include "meter/meter.h"

#include <string.h>

// An exchange fails if its average speed is below this, as in client/posix.
#define MIN_BYTES_PER_SECOND 500u

#define RECORD_BYTES 29u // overhead of a TLS 1.2 record with AES-GCM
#define RECORD_LENGTH 16384u

// --- Metering

static struct tern_bytes *bytes_of(struct tern_stream_transport *transport,
                                   enum tern_purpose purpose, enum tern_direction direction)
{
    return &transport->meter.bytes[purpose][direction];
}

// Counts a handshake: half of its price in each direction. Half of that is TLS's bytes, and the other half TCP/IP headers.
static void count_opening(struct tern_stream_transport *transport)
{
    for (int d = 0; d < TERN_DIRECTION_COUNT; d++) {
        const struct tern_bytes half = {.tls = TERN_PRICE_FULL / 4, .wire = TERN_PRICE_FULL / 2};
        tern_bytes_add(bytes_of(transport, TERN_PURPOSE_HANDSHAKE, (enum tern_direction)d), &half);
    }
}

// Counts a request or a response with `http` bytes including its header: half of the price of an exchange.
static void count_half(struct tern_stream_transport *transport, enum tern_purpose purpose,
                       enum tern_direction direction, uint64_t http, uint64_t body)
{
    const uint64_t tls = http + (http / RECORD_LENGTH + 1) * RECORD_BYTES;
    const uint64_t wire = tern_price(TERN_PRICE_KEPT, 1, 2 * body) / 2;
    const struct tern_bytes half = {.http = http, .tls = tls, .wire = wire > tls ? wire : tls};
    tern_bytes_add(bytes_of(transport, purpose, direction), &half);
}

static void collect(void *ctx, struct tern_meter *meter)
{
    struct tern_stream_transport *transport = ctx;
    tern_meter_add(meter, &transport->meter);
    transport->meter = (struct tern_meter){0};
}

// --- One exchange

static void close_connection(void *ctx)
{
    struct tern_stream_transport *transport = ctx;
    transport->stream.close(transport->stream.ctx);
    transport->is_open = false;
}

static enum tern_result open_connection(struct tern_stream_transport *transport,
                                        const struct tern_request *request)
{
    count_opening(transport);
    TERN_TRY(transport->stream.open(transport->stream.ctx, request->timeout_ms));
    transport->is_open = true;
    return TERN_OK;
}

static enum tern_result send_all(const struct tern_stream *stream, const uint8_t *src, size_t len,
                                 uint32_t timeout_ms)
{
    size_t part = 0;
    for (size_t sent = 0; sent < len; sent += part) {
        TERN_TRY(stream->send(stream->ctx, src + sent, len - sent, &part, timeout_ms));
    }
    return TERN_OK;
}

static enum tern_result send(struct tern_stream_transport *transport,
                             const struct tern_request *request)
{
    const struct tern_stream *stream = &transport->stream;
    size_t head = 0;
    TERN_TRY(tern_http_write_head(request, transport->host, transport->port,
                                  (char *)transport->buffer, sizeof transport->buffer, &head));
    const size_t room = sizeof transport->buffer - head;
    const size_t first = request->body_len < room ? request->body_len : room;
    if (first > 0) {
        memcpy(transport->buffer + head, request->body, first);
    }
    count_half(transport, request->purpose, TERN_UP, head + request->body_len, request->body_len);
    TERN_TRY(send_all(stream, transport->buffer, head + first, request->timeout_ms));
    if (first == request->body_len) {
        return TERN_OK;
    }
    return send_all(stream, request->body + first, request->body_len - first, request->timeout_ms);
}

// Reads until the response is complete. *received: number of bytes.
static enum tern_result read_response(struct tern_stream_transport *transport,
                                      const struct tern_request *request, uint64_t end_ms,
                                      size_t *received)
{
    const struct tern_stream *stream = &transport->stream;
    const struct tern_clock *clock = &transport->clock;
    enum tern_result result = TERN_AGAIN;
    while (result == TERN_AGAIN) {
        size_t len = 0;
        size_t used = 0;
        TERN_TRY(stream->receive(stream->ctx, transport->buffer, sizeof transport->buffer, &len,
                                 request->timeout_ms));
        if (len == 0) {
            transport->reader.keep_alive = false;
            return tern_http_reader_end(&transport->reader);
        }
        *received += len;
        result = tern_http_reader_feed(&transport->reader, transport->buffer, len, &used);
        if (result == TERN_OK && used < len) {
            transport->reader.keep_alive = false; // the server sent bytes after the response
        }
        if (result == TERN_AGAIN && clock->monotonic_ms(clock->ctx) >= end_ms) {
            return TERN_ERR_NETWORK;
        }
    }
    return result == TERN_ERR_CORRUPT ? TERN_ERR_NETWORK : result;
}

static enum tern_result receive(struct tern_stream_transport *transport,
                                const struct tern_request *request, struct tern_response *response)
{
    const struct tern_clock *clock = &transport->clock;
    const uint64_t bytes = (uint64_t)request->body_len + response->body_size;
    const uint64_t end_ms = clock->monotonic_ms(clock->ctx) + request->timeout_ms +
                            bytes * (1000 / MIN_BYTES_PER_SECOND);
    size_t received = 0;
    const enum tern_result result = read_response(transport, request, end_ms, &received);
    count_half(transport, request->purpose, TERN_DOWN, received, response->body_len);
    return result;
}

// Sends the request and reads the response. Reads also if the request was cut off, because the server may have refused it.
static enum tern_result try_once(struct tern_stream_transport *transport,
                                 const struct tern_request *request, struct tern_response *response)
{
    tern_http_reader_start(&transport->reader, response);
    if (!transport->is_open) {
        TERN_TRY(open_connection(transport, request));
    }
    const enum tern_result sent = send(transport, request);
    if (sent != TERN_OK && sent != TERN_ERR_NETWORK) {
        return sent;
    }
    return receive(transport, request, response);
}

static enum tern_result exchange(void *ctx, const struct tern_request *request,
                                 struct tern_response *response)
{
    struct tern_stream_transport *transport = ctx;
    const bool reused = transport->is_open;
    enum tern_result result = try_once(transport, request, response);
    if (result == TERN_ERR_NETWORK && reused && !transport->reader.started) {
        // The server has closed the kept connection before it received this request: repeats the request on a new one.
        close_connection(transport);
        result = try_once(transport, request, response);
    }
    if (result != TERN_OK || !transport->reader.keep_alive) {
        close_connection(transport);
    }
    return result;
}

struct tern_transport tern_stream_transport_port(struct tern_stream_transport *transport)
{
    return (struct tern_transport){
        .ctx = transport, .exchange = exchange, .close = close_connection, .collect = collect};
}
