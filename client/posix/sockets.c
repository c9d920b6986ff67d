#define _GNU_SOURCE
#include "posix/sockets.h"

#include "meter/meter.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define TCP_STATE_ESTABLISHED 1
#define TCP_STATE_CLOSE_WAIT 8

// Overhead in an estimate.
#define RECORD_BYTES 29     // AES-GCM in TLS 1.2; other suites take 7 or 8 less
#define RECORD_LENGTH 16384 // largest content of a record
#define SEGMENT_LENGTH 1400 // content of a segment with a usual MTU
#define TIMESTAMP_BYTES 12

static bool read_info(int fd, struct tcp_info *info)
{
    socklen_t len = sizeof *info;
    memset(info, 0, sizeof *info);
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &len) == 0 &&
           len >= offsetof(struct tcp_info, tcpi_bytes_retrans) + sizeof info->tcpi_bytes_retrans;
}

bool tern_sockets_are_counted(void)
{
    struct tcp_info info;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool counted = fd >= 0 && read_info(fd, &info);
    if (fd >= 0) {
        close(fd);
    }
    return counted;
}

void tern_sockets_init(struct tern_sockets *sockets)
{
    memset(sockets, 0, sizeof *sockets);
    sockets->counted = tern_sockets_are_counted();
    sockets->header = 20 + 20 + TIMESTAMP_BYTES; // used before the first connection
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

// Header bytes of IP and TCP, without TCP options.
static uint32_t plain_header_bytes(int fd)
{
    int family = AF_INET;
    socklen_t len = sizeof family;
    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len);
    return (family == AF_INET6 ? 40 : 20) + 20;
}

static uint32_t header_bytes(int fd, const struct tcp_info *info)
{
    const bool timestamps = (info->tcpi_options & TCPI_OPT_TIMESTAMPS) != 0;
    return plain_header_bytes(fd) + (timestamps ? TIMESTAMP_BYTES : 0);
}

static struct tern_bytes *bytes_of(struct tern_sockets *sockets, enum tern_purpose purpose,
                                   enum tern_direction direction)
{
    return &sockets->meter.bytes[purpose][direction];
}

// The received bytes of the stream. tcpi_bytes_received counts a FIN as one byte more.
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
        sent.wire += TERN_METER_SYN_BYTES;
        received.wire += now.segments_received > 0 ? TERN_METER_SYN_BYTES : 0;
    }
    tern_bytes_add(bytes_of(sockets, purpose, TERN_UP), &sent);
    tern_bytes_add(bytes_of(sockets, purpose, TERN_DOWN), &received);
    reading->before = now;
}

// --- Estimates for kernels that do not count

// Adds a handshake and the end of its connection: half in each direction, and half of it headers.
static void estimate_opening(struct tern_sockets *sockets, enum tern_purpose purpose,
                             uint64_t price)
{
    for (int d = 0; d < TERN_DIRECTION_COUNT; d++) {
        const struct tern_bytes half = {.tls = price / 4, .wire = price / 2};
        tern_bytes_add(bytes_of(sockets, purpose, (enum tern_direction)d), &half);
    }
}

// Adds the bytes handed over since the last estimate: their records, segments, and an acknowledgement in the other
// direction for every second segment.
static void estimate(struct tern_sockets *sockets, enum tern_purpose purpose)
{
    for (int d = 0; d < TERN_DIRECTION_COUNT; d++) {
        const uint64_t len = sockets->handed[d] - sockets->estimated[d];
        if (len == 0) {
            continue;
        }
        const uint64_t tls = len + (len / RECORD_LENGTH + 1) * RECORD_BYTES;
        const uint64_t segments = tls / SEGMENT_LENGTH + 1;
        const struct tern_bytes sent = {.tls = tls, .wire = tls + segments * sockets->header};
        tern_bytes_add(bytes_of(sockets, purpose, (enum tern_direction)d), &sent);
        bytes_of(sockets, purpose, d == TERN_UP ? TERN_DOWN : TERN_UP)->wire +=
            segments / 2 * sockets->header;
        sockets->estimated[d] = sockets->handed[d];
    }
}

// Adds the estimate for a connection that failed to open: two SYNs if TCP did not connect, else a full TLS handshake.
static void estimate_failure(struct tern_sockets *sockets, int fd, enum tern_purpose purpose)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    const bool connected = getpeername(fd, (struct sockaddr *)&peer, &len) == 0;
    estimate_opening(sockets, purpose,
                     connected ? TERN_PRICE_FULL : 2 * (sockets->header + TERN_METER_SYN_BYTES));
}

// Bytes that a socket has accepted and the peer has not acknowledged.
static uint64_t unacknowledged(int fd)
{
    int bytes = 0;
    return ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? (uint64_t)bytes : 0;
}

// --- Public

void tern_sockets_opened(struct tern_sockets *sockets, bool resumed)
{
    for (int i = 0; i < TERN_SOCKETS_MAX; i++) {
        struct tern_socket_reading *reading = &sockets->sockets[i];
        if (reading->fd < 0 || reading->opened) {
            continue;
        }
        reading->opened = true;
        if (!sockets->counted) {
            sockets->header = plain_header_bytes(reading->fd) + TIMESTAMP_BYTES;
            estimate_opening(sockets, TERN_PURPOSE_HANDSHAKE,
                             resumed ? TERN_PRICE_RESUMED : TERN_PRICE_FULL);
        }
    }
}

void tern_sockets_count_traffic(struct tern_sockets *sockets, enum tern_purpose purpose,
                                enum tern_direction direction, size_t len)
{
    bytes_of(sockets, purpose, direction)->http += len;
    sockets->handed[direction] += len;
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
    uint64_t moved = sockets->counted ? 0 : sockets->handed[TERN_UP] + sockets->handed[TERN_DOWN];
    for (int i = 0; i < TERN_SOCKETS_MAX; i++) {
        struct tcp_info info;
        const int fd = sockets->sockets[i].fd;
        if (fd >= 0 && !sockets->counted) {
            moved -= unacknowledged(fd);
        } else if (fd >= 0 && read_info(fd, &info)) {
            moved += info.tcpi_bytes_acked + info.tcpi_bytes_received;
        }
    }
    return moved;
}

void tern_sockets_read(struct tern_sockets *sockets, enum tern_purpose purpose)
{
    if (!sockets->counted) {
        estimate(sockets, purpose);
        return;
    }
    for (int i = 0; i < TERN_SOCKETS_MAX; i++) {
        if (sockets->sockets[i].fd >= 0) {
            read_one(sockets, &sockets->sockets[i], purpose);
        }
    }
}

// Adds our FIN and its acknowledgement, and unless the peer's FIN has arrived, that FIN and its acknowledgement.
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
    if (sockets->counted) {
        read_one(sockets, reading, purpose);
        count_close(sockets, reading, purpose);
    } else if (!reading->opened) {
        estimate_failure(sockets, fd, purpose);
    }
    reading->fd = -1;
}
