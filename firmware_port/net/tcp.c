#include "net/tcp.h"

#include <lwip/tcp.h>
#include <string.h>

// --- Callbacks of lwIP

static err_t on_connected(void *ctx, struct tcp_pcb *pcb, err_t error)
{
    struct tern_tcp *tcp = ctx;
    (void)pcb;
    (void)error;
    tcp->state = TERN_TCP_OPEN;
    tcp->moved++;
    return ERR_OK;
}

static err_t on_received(void *ctx, struct tcp_pcb *pcb, struct pbuf *packet, err_t error)
{
    struct tern_tcp *tcp = ctx;
    (void)pcb;
    (void)error;
    if (packet == NULL) {
        tcp->state = TERN_TCP_ENDED;
        return ERR_OK;
    }
    tcp->bytes.received += packet->tot_len;
    tcp->moved += packet->tot_len;
    if (tcp->received == NULL) {
        tcp->received = packet;
    } else {
        pbuf_cat(tcp->received, packet);
    }
    return ERR_OK;
}

static err_t on_acknowledged(void *ctx, struct tcp_pcb *pcb, uint16_t len)
{
    struct tern_tcp *tcp = ctx;
    (void)pcb;
    tcp->moved += len;
    return ERR_OK;
}

// lwIP has freed the connection already.
static void on_lost(void *ctx, err_t error)
{
    struct tern_tcp *tcp = ctx;
    (void)error;
    tcp->pcb = NULL;
    tcp->state = TERN_TCP_LOST;
}

// --- The pipe

bool tern_tcp_open(struct tern_tcp *tcp, const uint8_t address[4], uint16_t port)
{
    ip_addr_t server;
    memcpy(&server.addr, address, sizeof server.addr);
    tcp->pcb = tcp_new();
    if (tcp->pcb == NULL) {
        return false;
    }
    tcp_arg(tcp->pcb, tcp);
    tcp_recv(tcp->pcb, on_received);
    tcp_sent(tcp->pcb, on_acknowledged);
    tcp_err(tcp->pcb, on_lost);
    tcp_nagle_disable(tcp->pcb);
    tcp->state = TERN_TCP_CONNECTING;
    if (tcp_connect(tcp->pcb, &server, port, on_connected) != ERR_OK) {
        tern_tcp_abort(tcp);
        return false;
    }
    return true;
}

enum tern_tcp_state tern_tcp_state(const struct tern_tcp *tcp)
{
    return tcp->state;
}

size_t tern_tcp_read(struct tern_tcp *tcp, uint8_t *dst, size_t size)
{
    if (tcp->received == NULL) {
        return 0;
    }
    const uint16_t most = size < UINT16_MAX ? (uint16_t)size : UINT16_MAX;
    const uint16_t len = pbuf_copy_partial(tcp->received, dst, most, 0);
    tcp->received = pbuf_free_header(tcp->received, len);
    if (tcp->pcb != NULL) {
        tcp_recved(tcp->pcb, len);
    }
    return len;
}

size_t tern_tcp_write(struct tern_tcp *tcp, const uint8_t *src, size_t len)
{
    if (tcp->pcb == NULL || tcp->state != TERN_TCP_OPEN) {
        return 0;
    }
    const size_t room = tcp_sndbuf(tcp->pcb);
    const uint16_t part = (uint16_t)(len < room ? len : room);
    if (part == 0 || tcp_write(tcp->pcb, src, part, TCP_WRITE_FLAG_COPY) != ERR_OK) {
        return 0;
    }
    tcp->bytes.sent += part;
    return part;
}

void tern_tcp_flush(struct tern_tcp *tcp)
{
    if (tcp->pcb != NULL) {
        (void)tcp_output(tcp->pcb); // lwIP's timers repeat what fails
    }
}

uint32_t tern_tcp_moved(const struct tern_tcp *tcp)
{
    return tcp->moved;
}

struct tern_tcp_bytes tern_tcp_take_bytes(struct tern_tcp *tcp)
{
    const struct tern_tcp_bytes taken = tcp->bytes;
    tcp->bytes = (struct tern_tcp_bytes){0};
    return taken;
}

// --- The end

// Discards unread bytes, because lwIP resets a connection that is closed with unread bytes.
static void drop_received(struct tern_tcp *tcp)
{
    if (tcp->received == NULL) {
        return;
    }
    if (tcp->pcb != NULL) {
        tcp_recved(tcp->pcb, tcp->received->tot_len);
    }
    pbuf_free(tcp->received);
    tcp->received = NULL;
}

// Removes the callbacks, because lwIP may still use its connection after this one is closed.
static struct tcp_pcb *detach(struct tern_tcp *tcp)
{
    struct tcp_pcb *pcb = tcp->pcb;
    drop_received(tcp);
    tcp->pcb = NULL;
    tcp->state = TERN_TCP_CLOSED;
    if (pcb != NULL) {
        tcp_recv(pcb, NULL);
        tcp_sent(pcb, NULL);
        tcp_err(pcb, NULL);
        // The lowest priority lets lwIP drop this connection for the next one if the peer never answers the close.
        tcp_setprio(pcb, TCP_PRIO_MIN);
    }
    return pcb;
}

void tern_tcp_close(struct tern_tcp *tcp)
{
    struct tcp_pcb *pcb = detach(tcp);
    if (pcb != NULL && tcp_close(pcb) != ERR_OK) {
        tcp_abort(pcb);
    }
}

void tern_tcp_abort(struct tern_tcp *tcp)
{
    struct tcp_pcb *pcb = detach(tcp);
    if (pcb != NULL) {
        tcp_abort(pcb);
    }
}
