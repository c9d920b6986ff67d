#include "net/stream.h"

#include <lwip/tcp.h>
#include <string.h>

static struct {
    struct tcp_pcb *pcb;   // NULL: lwIP has none for us
    struct pbuf *received; // and not read yet
    enum tern_stream_state state;
    struct tern_stream_bytes bytes;
    uint32_t moved;
} stream;

// --- What lwIP calls

static err_t on_connected(void *ctx, struct tcp_pcb *pcb, err_t error)
{
    (void)ctx;
    (void)pcb;
    (void)error;
    stream.state = TERN_STREAM_OPEN;
    stream.moved++;
    return ERR_OK;
}

static err_t on_received(void *ctx, struct tcp_pcb *pcb, struct pbuf *packet, err_t error)
{
    (void)ctx;
    (void)pcb;
    (void)error;
    if (packet == NULL) {
        stream.state = TERN_STREAM_ENDED;
        return ERR_OK;
    }
    stream.bytes.received += packet->tot_len;
    stream.moved += packet->tot_len;
    if (stream.received == NULL) {
        stream.received = packet;
    } else {
        pbuf_cat(stream.received, packet);
    }
    return ERR_OK;
}

static err_t on_acknowledged(void *ctx, struct tcp_pcb *pcb, uint16_t len)
{
    (void)ctx;
    (void)pcb;
    stream.moved += len;
    return ERR_OK;
}

// lwIP has freed the connection already.
static void on_lost(void *ctx, err_t error)
{
    (void)ctx;
    (void)error;
    stream.pcb = NULL;
    stream.state = TERN_STREAM_LOST;
}

// --- The pipe

bool tern_stream_open(const uint8_t address[4], uint16_t port)
{
    ip_addr_t server;
    memcpy(&server.addr, address, sizeof server.addr);
    stream.pcb = tcp_new();
    if (stream.pcb == NULL) {
        return false;
    }
    tcp_recv(stream.pcb, on_received);
    tcp_sent(stream.pcb, on_acknowledged);
    tcp_err(stream.pcb, on_lost);
    tcp_nagle_disable(stream.pcb);
    stream.state = TERN_STREAM_CONNECTING;
    if (tcp_connect(stream.pcb, &server, port, on_connected) != ERR_OK) {
        tern_stream_abort();
        return false;
    }
    return true;
}

enum tern_stream_state tern_stream_state(void)
{
    return stream.state;
}

size_t tern_stream_read(uint8_t *dst, size_t size)
{
    if (stream.received == NULL) {
        return 0;
    }
    const uint16_t most = size < UINT16_MAX ? (uint16_t)size : UINT16_MAX;
    const uint16_t len = pbuf_copy_partial(stream.received, dst, most, 0);
    stream.received = pbuf_free_header(stream.received, len);
    if (stream.pcb != NULL) {
        tcp_recved(stream.pcb, len);
    }
    return len;
}

size_t tern_stream_write(const uint8_t *src, size_t len)
{
    if (stream.pcb == NULL || stream.state != TERN_STREAM_OPEN) {
        return 0;
    }
    const size_t room = tcp_sndbuf(stream.pcb);
    const uint16_t part = (uint16_t)(len < room ? len : room);
    if (part == 0 || tcp_write(stream.pcb, src, part, TCP_WRITE_FLAG_COPY) != ERR_OK) {
        return 0;
    }
    stream.bytes.sent += part;
    return part;
}

void tern_stream_flush(void)
{
    if (stream.pcb != NULL) {
        (void)tcp_output(stream.pcb); // what fails now is tried again by lwIP's timers
    }
}

uint32_t tern_stream_moved(void)
{
    return stream.moved;
}

struct tern_stream_bytes tern_stream_take_bytes(void)
{
    const struct tern_stream_bytes taken = stream.bytes;
    stream.bytes = (struct tern_stream_bytes){0};
    return taken;
}

// --- The end

// lwIP resets a connection that is closed before everything was read.
static void drop_received(void)
{
    if (stream.received == NULL) {
        return;
    }
    if (stream.pcb != NULL) {
        tcp_recved(stream.pcb, stream.received->tot_len);
    }
    pbuf_free(stream.received);
    stream.received = NULL;
}

// Whoever is called back from now on is not this stream's.
static struct tcp_pcb *let_go(void)
{
    struct tcp_pcb *pcb = stream.pcb;
    drop_received();
    stream.pcb = NULL;
    stream.state = TERN_STREAM_CLOSED;
    if (pcb != NULL) {
        tcp_recv(pcb, NULL);
        tcp_sent(pcb, NULL);
        tcp_err(pcb, NULL);
        // A peer that never answers the end must not keep the next connection from its place.
        tcp_setprio(pcb, TCP_PRIO_MIN);
    }
    return pcb;
}

void tern_stream_close(void)
{
    struct tcp_pcb *pcb = let_go();
    if (pcb != NULL && tcp_close(pcb) != ERR_OK) {
        tcp_abort(pcb);
    }
}

void tern_stream_abort(void)
{
    struct tcp_pcb *pcb = let_go();
    if (pcb != NULL) {
        tcp_abort(pcb);
    }
}
