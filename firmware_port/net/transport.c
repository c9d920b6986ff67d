// An exchange is in one phase; each call takes steps until the network makes it wait.
#include "net/transport.h"
#include "http/message.h"
#include "net/link.h"
#include "net/stream.h"
#include "net/tls.h"

#include <string.h>

// Slower than this over a whole exchange is given up even while something moves, as client/posix
// does.
#define MIN_BYTES_PER_SECOND 500u

// Holds the request's head and as much of its body as fits, so that a small request is one record
// and one segment; then pieces of the response.
#define BUFFER_SIZE 512u

enum phase { PHASE_NONE, PHASE_CONNECT, PHASE_HANDSHAKE, PHASE_SEND, PHASE_RECEIVE };

static struct {
    const struct board_settings *settings;
    enum phase phase;          // NONE: no exchange is under way
    bool kept;                 // a connection is open and verified
    bool reused;               // this exchange began on it
    enum tern_purpose purpose; // of the bytes that pass now
    struct tern_meter meter;
    struct tern_http_reader reader;
    uint32_t moved;    // tern_stream_moved() when it last changed,
    uint64_t moved_ms; // and when that was
    uint64_t end_ms;   // when the exchange is given up whatever moves
    size_t buffered;   // bytes of head and body in buffer
    size_t body_from;  // where the body goes on behind them
    size_t sent;       // of buffer and the rest of the body together
    uint8_t buffer[BUFFER_SIZE];
} net;

// --- Metering

static struct tern_bytes *bytes_of(enum tern_direction direction)
{
    return &net.meter.bytes[net.purpose][direction];
}

// What passed since the last call was for the present purpose.
static void count(void)
{
    const struct tern_stream_bytes stream = tern_stream_take_bytes();
    const struct tern_link_bytes link = tern_link_take_bytes();
    bytes_of(TERN_UP)->tls += stream.sent;
    bytes_of(TERN_UP)->wire += link.sent;
    bytes_of(TERN_DOWN)->tls += stream.received;
    bytes_of(TERN_DOWN)->wire += link.received;
}

static void set_purpose(enum tern_purpose purpose)
{
    count();
    net.purpose = purpose;
}

static void collect(void *ctx, struct tern_meter *meter)
{
    (void)ctx;
    count();
    tern_meter_add(meter, &net.meter);
    net.meter = (struct tern_meter){0};
}

// --- The phases: TERN_OK goes on with the next one

static enum tern_result connect(void)
{
    switch (tern_stream_state()) {
    case TERN_STREAM_CLOSED:
        if (!tern_link_ready()) {
            return TERN_AGAIN;
        }
        return tern_stream_open(net.settings->server_address, net.settings->server_port)
                   ? TERN_AGAIN
                   : TERN_ERR_NETWORK;
    case TERN_STREAM_CONNECTING:
        return TERN_AGAIN;
    case TERN_STREAM_OPEN:
        net.phase = PHASE_HANDSHAKE;
        return tern_tls_open();
    case TERN_STREAM_ENDED:
    case TERN_STREAM_LOST:
    default:
        return TERN_ERR_NETWORK;
    }
}

// The end of a resumed handshake travels in one segment with the request: on the wire it counts as
// the request's.
static enum tern_result handshake(const struct tern_request *request)
{
    TERN_TRY(tern_tls_handshake());
    set_purpose(request->purpose);
    net.kept = true;
    net.phase = PHASE_SEND;
    return TERN_OK;
}

static enum tern_result send(const struct tern_request *request)
{
    const size_t total = net.buffered + request->body_len - net.body_from;
    if (net.sent == total) {
        net.phase = PHASE_RECEIVE;
        return TERN_OK;
    }
    const bool in_buffer = net.sent < net.buffered;
    const uint8_t *src = in_buffer ? net.buffer + net.sent
                                   : request->body + net.body_from + (net.sent - net.buffered);
    size_t written = 0;
    const enum tern_result result =
        tern_tls_write(src, (in_buffer ? net.buffered : total) - net.sent, &written);
    net.sent += written;
    bytes_of(TERN_UP)->http += written;
    if (result == TERN_ERR_NETWORK) {
        net.phase = PHASE_RECEIVE; // a server that refuses may answer before it hangs up
        return TERN_OK;
    }
    return result;
}

static enum tern_result receive(void)
{
    size_t len = 0;
    size_t used = 0;
    TERN_TRY(tern_tls_read(net.buffer, sizeof net.buffer, &len));
    bytes_of(TERN_DOWN)->http += len;
    if (len == 0) {
        net.kept = false;
        net.phase = PHASE_NONE;
        return tern_http_reader_end(&net.reader);
    }
    const enum tern_result result = tern_http_reader_feed(&net.reader, net.buffer, len, &used);
    if (result == TERN_AGAIN) {
        return TERN_OK; // more may be here already
    }
    net.phase = PHASE_NONE;
    net.kept = result == TERN_OK && net.reader.keep_alive && used == len;
    return result == TERN_ERR_CORRUPT ? TERN_ERR_NETWORK : result;
}

static enum tern_result step(const struct tern_request *request)
{
    switch (net.phase) {
    case PHASE_CONNECT:
        return connect();
    case PHASE_HANDSHAKE:
        return handshake(request);
    case PHASE_SEND:
        return send(request);
    case PHASE_RECEIVE:
        return receive();
    case PHASE_NONE:
    default:
        return TERN_ERR_STATE;
    }
}

// --- One exchange

static void watch(const struct tern_request *request, const struct tern_response *response)
{
    const uint64_t bytes = (uint64_t)request->body_len + response->body_size;
    net.moved = tern_stream_moved();
    net.moved_ms = board_monotonic_ms();
    net.end_ms = net.moved_ms + request->timeout_ms + bytes * (1000 / MIN_BYTES_PER_SECOND);
}

static bool is_stalled(const struct tern_request *request)
{
    const uint64_t now = board_monotonic_ms();
    if (net.moved != tern_stream_moved()) {
        net.moved = tern_stream_moved();
        net.moved_ms = now;
    }
    return now - net.moved_ms >= request->timeout_ms || now >= net.end_ms;
}

static enum tern_result begin(const struct tern_request *request, struct tern_response *response)
{
    size_t head_len = 0;
    tern_http_reader_start(&net.reader, response);
    TERN_TRY(tern_http_write_head(request, net.settings->server_host, net.settings->server_port,
                                  (char *)net.buffer, sizeof net.buffer, &head_len));
    const size_t room = sizeof net.buffer - head_len;
    net.body_from = request->body_len < room ? request->body_len : room;
    if (net.body_from > 0) {
        memcpy(net.buffer + head_len, request->body, net.body_from);
    }
    net.buffered = head_len + net.body_from;
    net.sent = 0;
    net.reused = net.kept && tern_stream_state() == TERN_STREAM_OPEN;
    if (!net.reused) {
        tern_stream_close();
        net.kept = false;
    }
    set_purpose(net.reused ? request->purpose : TERN_PURPOSE_HANDSHAKE);
    net.phase = net.reused ? PHASE_SEND : PHASE_CONNECT;
    watch(request, response);
    return TERN_OK;
}

static enum tern_result run(const struct tern_request *request)
{
    enum tern_result result = TERN_OK;
    while (result == TERN_OK && net.phase != PHASE_NONE) {
        result = step(request);
    }
    if (result == TERN_AGAIN && is_stalled(request)) {
        net.reused = false; // the server is silent, which is not the same as gone
        result = TERN_ERR_NETWORK;
    }
    return result;
}

static void close_connection(void *ctx)
{
    (void)ctx;
    tern_stream_close();
    net.kept = false;
    net.phase = PHASE_NONE;
}

// After an error. What lwIP would still send, for many minutes when the peer is gone, holds memory
// that the next connection needs.
static void drop_connection(void)
{
    tern_stream_abort();
    net.kept = false;
    net.phase = PHASE_NONE;
}

static enum tern_result exchange(void *ctx, const struct tern_request *request,
                                 struct tern_response *response)
{
    (void)ctx;
    tern_link_poll();
    if (net.phase == PHASE_NONE) {
        TERN_TRY(begin(request, response));
    }
    enum tern_result result = run(request);
    tern_stream_flush();
    if (result == TERN_AGAIN) {
        return result;
    }
    if (result == TERN_ERR_NETWORK && net.reused && !net.reader.begun) {
        // The server closed the kept connection before it knew of this request.
        drop_connection();
        TERN_TRY(begin(request, response));
        return TERN_AGAIN;
    }
    net.phase = PHASE_NONE;
    if (result != TERN_OK) {
        drop_connection();
    } else if (!net.kept) {
        close_connection(NULL);
    }
    return result;
}

// --- The port

enum tern_result tern_firmware_transport_start(const struct board_settings *settings)
{
    net.settings = settings;
    TERN_TRY(tern_link_start(settings));
    return tern_tls_start(settings);
}

void tern_firmware_transport_identify(uint64_t client_id, const char *token)
{
    tern_tls_identify(client_id, token);
}

void tern_firmware_transport_poll(void)
{
    tern_link_poll();
}

struct tern_transport tern_firmware_transport_port(void)
{
    return (struct tern_transport){
        .exchange = exchange, .close = close_connection, .collect = collect};
}

size_t tern_firmware_transport_peak(size_t *given)
{
    return tern_tls_peak(given);
}
