// Each call of the port advances the exchange through its phases until it must wait for the network.
#include "net/transport.h"

#include <string.h>

// An exchange fails if its average speed is below this, as in client/posix.
#define MIN_BYTES_PER_SECOND 500u

// --- Metering

static struct tern_bytes *bytes_of(struct tern_firmware_transport *net,
                                   enum tern_direction direction)
{
    return &net->meter.bytes[net->purpose][direction];
}

// Counts the bytes since the last call for the current purpose.
static void count(struct tern_firmware_transport *net)
{
    const struct tern_tcp_bytes tcp = tern_tcp_take_bytes(net->tcp);
    const struct tern_link_bytes link = tern_link_take_bytes(net->link);
    bytes_of(net, TERN_UP)->tls += tcp.sent;
    bytes_of(net, TERN_UP)->wire += link.sent;
    bytes_of(net, TERN_DOWN)->tls += tcp.received;
    bytes_of(net, TERN_DOWN)->wire += link.received;
}

static void set_purpose(struct tern_firmware_transport *net, enum tern_purpose purpose)
{
    count(net);
    net->purpose = purpose;
}

static void collect(void *ctx, struct tern_meter *meter)
{
    struct tern_firmware_transport *net = ctx;
    count(net);
    tern_meter_add(meter, &net->meter);
    net->meter = (struct tern_meter){0};
}

// --- The phases; TERN_OK continues with the next one

static enum tern_result connect(struct tern_firmware_transport *net)
{
    switch (tern_tcp_state(net->tcp)) {
    case TERN_TCP_CLOSED:
        if (!tern_link_ready(net->link)) {
            return TERN_AGAIN;
        }
        return tern_tcp_open(net->tcp, net->settings->server_address, net->settings->server_port)
                   ? TERN_AGAIN
                   : TERN_ERR_NETWORK;
    case TERN_TCP_CONNECTING:
        return TERN_AGAIN;
    case TERN_TCP_OPEN:
        net->phase = TERN_EXCHANGE_HANDSHAKE;
        return tern_firmware_tls_open(net->tls);
    case TERN_TCP_ENDED:
    case TERN_TCP_LOST:
    default:
        return TERN_ERR_NETWORK;
    }
}

// The end of a resumed handshake shares a segment with the request, so its bytes on the wire count as the request's.
static enum tern_result handshake(struct tern_firmware_transport *net,
                                  const struct tern_request *request)
{
    TERN_TRY(tern_firmware_tls_handshake(net->tls));
    set_purpose(net, request->purpose);
    net->connected = true;
    net->phase = TERN_EXCHANGE_SEND;
    return TERN_OK;
}

static enum tern_result send(struct tern_firmware_transport *net,
                             const struct tern_request *request)
{
    const size_t total = net->buffered + request->body_len - net->body_from;
    if (net->sent == total) {
        net->phase = TERN_EXCHANGE_RECEIVE;
        return TERN_OK;
    }
    const bool in_buffer = net->sent < net->buffered;
    const uint8_t *src = in_buffer ? net->buffer + net->sent
                                   : request->body + net->body_from + (net->sent - net->buffered);
    size_t written = 0;
    const enum tern_result result = tern_firmware_tls_write(
        net->tls, src, (in_buffer ? net->buffered : total) - net->sent, &written);
    net->sent += written;
    bytes_of(net, TERN_UP)->http += written;
    if (result == TERN_ERR_NETWORK) {
        net->phase =
            TERN_EXCHANGE_RECEIVE; // a server may answer a refused request before it closes
        return TERN_OK;
    }
    return result;
}

static enum tern_result receive(struct tern_firmware_transport *net)
{
    size_t len = 0;
    size_t used = 0;
    TERN_TRY(tern_firmware_tls_read(net->tls, net->buffer, sizeof net->buffer, &len));
    bytes_of(net, TERN_DOWN)->http += len;
    if (len == 0) {
        net->connected = false;
        net->phase = TERN_EXCHANGE_NONE;
        return tern_http_reader_end(&net->reader);
    }
    const enum tern_result result = tern_http_reader_feed(&net->reader, net->buffer, len, &used);
    if (result == TERN_AGAIN) {
        return TERN_OK; // more bytes may have arrived already
    }
    net->phase = TERN_EXCHANGE_NONE;
    net->connected = result == TERN_OK && net->reader.keep_alive && used == len;
    return result == TERN_ERR_CORRUPT ? TERN_ERR_NETWORK : result;
}

static enum tern_result step(struct tern_firmware_transport *net,
                             const struct tern_request *request)
{
    switch (net->phase) {
    case TERN_EXCHANGE_CONNECT:
        return connect(net);
    case TERN_EXCHANGE_HANDSHAKE:
        return handshake(net, request);
    case TERN_EXCHANGE_SEND:
        return send(net, request);
    case TERN_EXCHANGE_RECEIVE:
        return receive(net);
    case TERN_EXCHANGE_NONE:
    default:
        return TERN_ERR_STATE;
    }
}

// --- One exchange

static void watch(struct tern_firmware_transport *net, const struct tern_request *request,
                  const struct tern_response *response)
{
    const uint64_t bytes = (uint64_t)request->body_len + response->body_size;
    net->moved = tern_tcp_moved(net->tcp);
    net->moved_ms = tern_board_monotonic_ms();
    net->end_ms = net->moved_ms + request->timeout_ms + bytes * (1000 / MIN_BYTES_PER_SECOND);
}

static bool is_stalled(struct tern_firmware_transport *net, const struct tern_request *request)
{
    const uint64_t now = tern_board_monotonic_ms();
    if (net->moved != tern_tcp_moved(net->tcp)) {
        net->moved = tern_tcp_moved(net->tcp);
        net->moved_ms = now;
    }
    return now - net->moved_ms >= request->timeout_ms || now >= net->end_ms;
}

static enum tern_result begin(struct tern_firmware_transport *net,
                              const struct tern_request *request, struct tern_response *response)
{
    size_t head_len = 0;
    tern_http_reader_start(&net->reader, response);
    TERN_TRY(tern_http_write_head(request, net->settings->server_host, net->settings->server_port,
                                  (char *)net->buffer, sizeof net->buffer, &head_len));
    const size_t room = sizeof net->buffer - head_len;
    net->body_from = request->body_len < room ? request->body_len : room;
    if (net->body_from > 0) {
        memcpy(net->buffer + head_len, request->body, net->body_from);
    }
    net->buffered = head_len + net->body_from;
    net->sent = 0;
    net->reused = net->connected && tern_tcp_state(net->tcp) == TERN_TCP_OPEN;
    if (!net->reused) {
        tern_tcp_close(net->tcp);
        net->connected = false;
    }
    set_purpose(net, net->reused ? request->purpose : TERN_PURPOSE_HANDSHAKE);
    net->phase = net->reused ? TERN_EXCHANGE_SEND : TERN_EXCHANGE_CONNECT;
    watch(net, request, response);
    return TERN_OK;
}

static enum tern_result run(struct tern_firmware_transport *net, const struct tern_request *request)
{
    enum tern_result result = TERN_OK;
    while (result == TERN_OK && net->phase != TERN_EXCHANGE_NONE) {
        result = step(net, request);
    }
    if (result == TERN_AGAIN && is_stalled(net, request)) {
        net->reused = false; // a timeout is no reason to repeat the request on a new connection
        result = TERN_ERR_NETWORK;
    }
    return result;
}

static void close_connection(void *ctx)
{
    struct tern_firmware_transport *net = ctx;
    tern_tcp_close(net->tcp);
    net->connected = false;
    net->phase = TERN_EXCHANGE_NONE;
}

// Resets the connection after an error, because lwIP would keep unsent bytes for many minutes in memory that the next
// connection needs.
static void drop_connection(struct tern_firmware_transport *net)
{
    tern_tcp_abort(net->tcp);
    net->connected = false;
    net->phase = TERN_EXCHANGE_NONE;
}

static enum tern_result exchange(void *ctx, const struct tern_request *request,
                                 struct tern_response *response)
{
    struct tern_firmware_transport *net = ctx;
    tern_link_poll(net->link);
    if (net->phase == TERN_EXCHANGE_NONE) {
        TERN_TRY(begin(net, request, response));
    }
    enum tern_result result = run(net, request);
    tern_tcp_flush(net->tcp);
    if (result == TERN_AGAIN) {
        return result;
    }
    if (result == TERN_ERR_NETWORK && net->reused && !net->reader.started) {
        // The server has closed the kept connection before it received this request: repeats the request on a new one.
        drop_connection(net);
        TERN_TRY(begin(net, request, response));
        return TERN_AGAIN;
    }
    net->phase = TERN_EXCHANGE_NONE;
    if (result != TERN_OK) {
        drop_connection(net);
    } else if (!net->connected) {
        close_connection(net);
    }
    return result;
}

// --- The port

enum tern_result tern_firmware_transport_start(struct tern_firmware_transport *net,
                                               const struct tern_board_settings *settings)
{
    net->settings = settings;
    TERN_TRY(tern_link_start(net->link, settings));
    return tern_firmware_tls_start(net->tls, net->tcp, settings);
}

void tern_firmware_transport_identify(struct tern_firmware_transport *net, uint64_t client_id,
                                      const char *token)
{
    tern_firmware_tls_identify(net->tls, client_id, token);
}

void tern_firmware_transport_poll(struct tern_firmware_transport *net)
{
    tern_link_poll(net->link);
}

struct tern_transport tern_firmware_transport_port(struct tern_firmware_transport *net)
{
    return (struct tern_transport){
        .ctx = net, .exchange = exchange, .close = close_connection, .collect = collect};
}

size_t tern_firmware_transport_peak(const struct tern_firmware_transport *net, size_t *given)
{
    return tern_firmware_tls_peak(net->tls, given);
}
