#include "http/stream.h"
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

// The kernel takes no more than this ahead of the network: a reply's progress stays visible to the
// write deadline and to the meter.
#define UNSENT_MAX 131072

// TCP_LAST_ACK of <netinet/tcp.h>, which cannot be included beside <linux/tcp.h>.
#define STATE_LAST_ACK 9

static uint32_t header_bytes(int fd)
{
    struct sockaddr_storage local = {0};
    socklen_t len = sizeof local;
    bool is_v6 = getsockname(fd, (struct sockaddr *)&local, &len) == 0 &&
                 local.ss_family == AF_INET6 &&
                 !IN6_IS_ADDR_V4MAPPED(&((struct sockaddr_in6 *)&local)->sin6_addr);
    return (is_v6 ? 40u : 20u) + 20u;
}

enum tern_result tern_stream_open(struct tern_stream *stream, int fd, bool is_tcp,
                                  struct tern_tls_context *context)
{
    *stream = (struct tern_stream){.fd = fd, .header_bytes = is_tcp ? header_bytes(fd) : 0};
    if (is_tcp) {
        int on = 1;
        int unsent = UNSENT_MAX;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    }
    if (context != NULL) {
        stream->tls = tern_tls_session_new(context, fd);
        if (stream->tls == NULL) {
            tern_stream_close(stream);
            return TERN_ERR_NO_MEMORY;
        }
    }
    return TERN_OK;
}

void tern_stream_delay_acknowledgements(const struct tern_stream *stream)
{
    int off = 0;
    if (stream->header_bytes > 0) {
        (void)setsockopt(stream->fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof off);
    }
}

void tern_stream_close(struct tern_stream *stream)
{
    tern_tls_session_free(stream->tls);
    stream->tls = NULL;
    close(stream->fd);
    stream->fd = -1;
}

uint64_t tern_stream_client(const struct tern_stream *stream)
{
    return stream->tls != NULL ? tern_tls_client(stream->tls) : 0;
}

uint64_t tern_stream_ticket(const struct tern_stream *stream)
{
    return stream->tls != NULL ? tern_tls_ticket(stream->tls) : 0;
}

size_t tern_stream_peek(const struct tern_stream *stream, uint8_t *dst, size_t size)
{
    const ssize_t len = recv(stream->fd, dst, size, MSG_PEEK | MSG_DONTWAIT);
    return len > 0 ? (size_t)len : 0;
}

const char *tern_stream_certificate(const struct tern_stream *stream)
{
    return stream->tls != NULL ? tern_tls_certificate(stream->tls) : "";
}

static enum tern_stream_status status_of_errno(enum tern_stream_status later)
{
    return errno == EAGAIN || errno == EINTR ? later : TERN_STREAM_FAILED;
}

static enum tern_stream_status plain_read(struct tern_stream *stream, uint8_t *dst, size_t size,
                                          size_t *len)
{
    ssize_t received = recv(stream->fd, dst, size, 0);
    if (received < 0) {
        return status_of_errno(TERN_STREAM_WANT_READ);
    }
    *len = (size_t)received;
    stream->bytes_received += *len;
    return received == 0 ? TERN_STREAM_END : TERN_STREAM_DONE;
}

enum tern_stream_status tern_stream_read(struct tern_stream *stream, uint8_t *dst, size_t size,
                                         size_t *len)
{
    return stream->tls != NULL ? tern_tls_read(stream->tls, dst, size, len)
                               : plain_read(stream, dst, size, len);
}

static enum tern_stream_status plain_write(struct tern_stream *stream,
                                           const struct tern_stream_parts *parts, size_t *written)
{
    // sendmsg() does not write through its iovecs; their type just cannot say so.
    struct iovec vector[2] = {
        {.iov_base = (void *)(uintptr_t)parts->a, .iov_len = parts->a_len},
        {.iov_base = (void *)(uintptr_t)parts->b, .iov_len = parts->b_len},
    };
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = 2};
    ssize_t sent = sendmsg(stream->fd, &message, MSG_NOSIGNAL);
    if (sent < 0) {
        return status_of_errno(TERN_STREAM_WANT_WRITE);
    }
    *written = (size_t)sent;
    stream->bytes_sent += *written;
    return TERN_STREAM_DONE;
}

static enum tern_stream_status tls_write(struct tern_stream *stream,
                                         const struct tern_stream_parts *parts, uint8_t *scratch,
                                         size_t *written)
{
    if (parts->a_len == 0) {
        size_t len = parts->b_len < TERN_TLS_RECORD_MAX ? parts->b_len : TERN_TLS_RECORD_MAX;
        return tern_tls_write(stream->tls, parts->b, len, written);
    }
    size_t a_len = parts->a_len < TERN_TLS_RECORD_MAX ? parts->a_len : TERN_TLS_RECORD_MAX;
    size_t room = TERN_TLS_RECORD_MAX - a_len;
    size_t b_len = parts->b_len < room ? parts->b_len : room;
    memcpy(scratch, parts->a, a_len);
    if (b_len > 0) {
        memcpy(scratch + a_len, parts->b, b_len);
    }
    return tern_tls_write(stream->tls, scratch, a_len + b_len, written);
}

enum tern_stream_status tern_stream_write(struct tern_stream *stream,
                                          const struct tern_stream_parts *parts, uint8_t *scratch,
                                          size_t *written)
{
    return stream->tls != NULL ? tls_write(stream, parts, scratch, written)
                               : plain_write(stream, parts, written);
}

uint64_t tern_stream_progress(const struct tern_stream *stream)
{
    return stream->tls != NULL ? tern_tls_bytes_sent(stream->tls) : stream->bytes_sent;
}

void tern_stream_shut(struct tern_stream *stream)
{
    if (stream->tls != NULL) {
        stream->bytes_received = tern_tls_bytes_received(stream->tls);
        stream->bytes_sent = tern_tls_bytes_sent(stream->tls);
        tern_tls_session_free(stream->tls);
        stream->tls = NULL;
    }
    (void)shutdown(stream->fd, SHUT_WR); // fails only when the peer is gone already
}

void tern_stream_finish(struct tern_stream *stream)
{
    if (stream->tls != NULL) {
        tern_tls_close(stream->tls);
    }
    tern_stream_shut(stream);
}

enum tern_stream_status tern_stream_discard(struct tern_stream *stream, uint8_t *scratch,
                                            size_t *len)
{
    return plain_read(stream, scratch, TERN_TLS_RECORD_MAX, len);
}

// --- Counters

static uint64_t bytes_read(const struct tern_stream *stream)
{
    return stream->tls != NULL ? tern_tls_bytes_received(stream->tls) : stream->bytes_received;
}

// Bytes that wait in the kernel.
static uint64_t bytes_unread(const struct tern_stream *stream)
{
    int unread = 0;
    return ioctl(stream->fd, FIONREAD, &unread) == 0 && unread > 0 ? (uint64_t)unread : 0;
}

// Received bytes are what was read: tcpi_bytes_received counts a FIN as a byte.
static void read_counters(const struct tern_stream *stream, struct tern_socket_counters *counters,
                          struct tcp_info *info)
{
    socklen_t len = sizeof *info;
    memset(info, 0, sizeof *info);
    *counters = (struct tern_socket_counters){.bytes_received = bytes_read(stream),
                                              .bytes_sent = tern_stream_progress(stream)};
    if (stream->header_bytes == 0 ||
        getsockopt(stream->fd, IPPROTO_TCP, TCP_INFO, info, &len) != 0) {
        return;
    }
    uint32_t timestamps = (info->tcpi_options & TCPI_OPT_TIMESTAMPS) != 0 ? 12 : 0;
    counters->bytes_sent = info->tcpi_bytes_sent;
    counters->bytes_retransmitted = info->tcpi_bytes_retrans;
    // The SYN-ACK goes out before there is a socket that could count it.
    counters->segments_sent = info->tcpi_segs_out + 1;
    counters->segments_received = info->tcpi_segs_in;
    counters->header_bytes = stream->header_bytes + timestamps;
}

// Takes back the segments that the unread bytes must have come in.
void tern_stream_counters(const struct tern_stream *stream, struct tern_socket_counters *counters)
{
    struct tcp_info info;
    read_counters(stream, counters, &info);
    uint64_t size = info.tcpi_rcv_mss > 0 ? info.tcpi_rcv_mss : 536;
    uint64_t segments = (bytes_unread(stream) + size - 1) / size;
    if (segments < counters->segments_received) {
        counters->segments_received -= (uint32_t)segments;
    }
}

void tern_stream_final_counters(const struct tern_stream *stream,
                                struct tern_socket_counters *counters)
{
    struct tcp_info info;
    read_counters(stream, counters, &info);
    counters->bytes_received += bytes_unread(stream);
    if (stream->header_bytes != 0 && info.tcpi_state == STATE_LAST_ACK) {
        counters->segments_received++;
    }
}
