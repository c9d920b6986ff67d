#define _GNU_SOURCE
#include "posix/sockets.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define TCP_STATE_ESTABLISHED 1
#define TCP_STATE_CLOSE_WAIT 8

// MSS, window scale and "SACK permitted" stand in the two SYN segments only.
#define SYN_EXTRA_BYTES 8

void tern_sockets_init(struct tern_sockets *sockets)
{
    memset(sockets, 0, sizeof *sockets);
    for (int i = 0; i < TERN_SOCKETS_MAX; i++) {
        sockets->sockets[i].fd = -1;
    }
}

static struct tern_socket_reading *find(struct tern_sockets *sockets, int fd)
{
    for (int i = 0; i < TERN_SOCKETS_MAX; i++) {
        if (sockets->sockets[i].fd == fd) {
            return &sockets->sockets[i];
        }
    }
    return NULL;
}

void tern_sockets_add(struct tern_sockets *sockets, int fd)
{
    struct tern_socket_reading *reading = find(sockets, -1);
    if (reading != NULL) {
        *reading = (struct tern_socket_reading){.fd = fd};
    }
}

static bool read_info(int fd, struct tcp_info *info)
{
    socklen_t len = sizeof *info;
    memset(info, 0, sizeof *info);
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &len) == 0;
}

static uint32_t header_bytes(int fd, const struct tcp_info *info)
{
    int family = AF_INET;
    socklen_t len = sizeof family;
    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len);
    const uint32_t ip = family == AF_INET6 ? 40 : 20;
    const uint32_t options = (info->tcpi_options & TCPI_OPT_TIMESTAMPS) != 0 ? 12 : 0;
    return ip + 20 + options;
}

static struct tern_bytes *bytes_of(struct tern_sockets *sockets, enum tern_purpose purpose,
                                   enum tern_direction direction)
{
    return &sockets->meter.bytes[purpose][direction];
}

// The stream's bytes that arrived. tcpi_bytes_received counts a FIN as one more.
static uint64_t bytes_received(struct tern_socket_reading *reading, const struct tcp_info *info)
{
    reading->ended = reading->ended || info->tcpi_state == TCP_STATE_CLOSE_WAIT;
    return info->tcpi_bytes_received - (reading->ended ? 1 : 0);
}

static void read_one(struct tern_sockets *sockets, struct tern_socket_reading *reading,
                     enum tern_purpose purpose)
{
    struct tcp_info info;
    if (!read_info(reading->fd, &info)) {
        return;
    }
    const bool first = reading->before.segments_sent == 0;
    const struct tern_socket_counters now = {
        .bytes_sent = info.tcpi_bytes_sent,
        .bytes_received = bytes_received(reading, &info),
        .bytes_retransmitted = info.tcpi_bytes_retrans,
        .segments_sent = info.tcpi_segs_out,
        .segments_received = info.tcpi_segs_in,
        .header_bytes = header_bytes(reading->fd, &info),
    };
    struct tern_bytes sent = {0};
    struct tern_bytes received = {0};
    tern_socket_delta(&reading->before, &now, &sent, &received);
    if (first && now.segments_sent > 0) {
        sent.wire += SYN_EXTRA_BYTES;
        received.wire += now.segments_received > 0 ? SYN_EXTRA_BYTES : 0;
    }
    tern_bytes_add(bytes_of(sockets, purpose, TERN_UP), &sent);
    tern_bytes_add(bytes_of(sockets, purpose, TERN_DOWN), &received);
    reading->before = now;
}

void tern_sockets_delay_acknowledgements(const struct tern_sockets *sockets)
{
    for (int i = 0; i < TERN_SOCKETS_MAX; i++) {
        const int fd = sockets->sockets[i].fd;
        const int off = 0;
        if (fd >= 0) {
            setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof off);
        }
    }
}

uint64_t tern_sockets_moved(const struct tern_sockets *sockets)
{
    uint64_t moved = 0;
    for (int i = 0; i < TERN_SOCKETS_MAX; i++) {
        struct tcp_info info;
        if (sockets->sockets[i].fd >= 0 && read_info(sockets->sockets[i].fd, &info)) {
            moved += info.tcpi_bytes_acked + info.tcpi_bytes_received;
        }
    }
    return moved;
}

void tern_sockets_read(struct tern_sockets *sockets, enum tern_purpose purpose)
{
    for (int i = 0; i < TERN_SOCKETS_MAX; i++) {
        if (sockets->sockets[i].fd >= 0) {
            read_one(sockets, &sockets->sockets[i], purpose);
        }
    }
}

// Our FIN and its acknowledgement; and, unless the peer's FIN came before, that and ours for it.
static void count_close(struct tern_sockets *sockets, const struct tern_socket_reading *reading,
                        enum tern_purpose purpose)
{
    struct tcp_info info;
    if (!read_info(reading->fd, &info)) {
        return;
    }
    const uint64_t header = reading->before.header_bytes;
    if (info.tcpi_state == TCP_STATE_ESTABLISHED) {
        bytes_of(sockets, purpose, TERN_UP)->wire += 2 * header;
        bytes_of(sockets, purpose, TERN_DOWN)->wire += 2 * header;
    } else if (info.tcpi_state == TCP_STATE_CLOSE_WAIT) {
        bytes_of(sockets, purpose, TERN_UP)->wire += header;
        bytes_of(sockets, purpose, TERN_DOWN)->wire += header;
    }
}

void tern_sockets_remove(struct tern_sockets *sockets, int fd, enum tern_purpose purpose)
{
    struct tern_socket_reading *reading = fd >= 0 ? find(sockets, fd) : NULL;
    if (reading == NULL) {
        return;
    }
    read_one(sockets, reading, purpose);
    count_close(sockets, reading, purpose);
    reading->fd = -1;
}
