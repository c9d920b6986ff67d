#include "tern_zephyr.h"

#include <errno.h>
#include <string.h>
#include <zephyr/kernel.h>
#include <zephyr/net/socket.h>
#include <zephyr/net/tls_credentials.h>
#include <zephyr/random/random.h>
#include <zephyr/storage/flash_map.h>

// --- The stream

static void close_stream(void *ctx)
{
    struct tern_zephyr_connection *connection = ctx;
    if (connection->is_open) {
        zsock_close(connection->fd);
        connection->is_open = false;
    }
}

// Sets the socket's timeout in both directions.
static bool set_timeout(int fd, uint32_t timeout_ms)
{
    const struct zsock_timeval time = {.tv_sec = (long)(timeout_ms / 1000),
                                       .tv_usec = (long)(timeout_ms % 1000 * 1000)};
    return zsock_setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0 &&
           zsock_setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time) == 0;
}

// Sets the socket's trusted CA and the host name to verify.
static bool prepare(const struct tern_zephyr_connection *connection)
{
    const sec_tag_t tags[] = {connection->tag};
    const int verify = TLS_PEER_VERIFY_REQUIRED;
    const int fd = connection->fd;
    return zsock_setsockopt(fd, SOL_TLS, TLS_SEC_TAG_LIST, tags, sizeof tags) == 0 &&
           zsock_setsockopt(fd, SOL_TLS, TLS_PEER_VERIFY, &verify, sizeof verify) == 0 &&
           zsock_setsockopt(fd, SOL_TLS, TLS_HOSTNAME, connection->host,
                            (socklen_t)strlen(connection->host) + 1) == 0;
}

// A failed handshake of a TLS socket sets ECONNABORTED.
static enum tern_result connect_to(struct tern_zephyr_connection *connection,
                                   const struct zsock_addrinfo *address, uint32_t timeout_ms)
{
    connection->fd = zsock_socket(address->ai_family, SOCK_STREAM, IPPROTO_TLS_1_2);
    if (connection->fd < 0) {
        return TERN_ERR_NO_MEMORY;
    }
    connection->is_open = true;
    enum tern_result result = TERN_OK;
    if (!prepare(connection)) {
        result = TERN_ERR_TLS;
    } else if (!set_timeout(connection->fd, timeout_ms)) {
        result = TERN_ERR_NETWORK;
    } else if (zsock_connect(connection->fd, address->ai_addr, address->ai_addrlen) != 0) {
        result = errno == ECONNABORTED ? TERN_ERR_TLS : TERN_ERR_NETWORK;
    }
    if (result != TERN_OK) {
        close_stream(connection);
    }
    return result;
}

static enum tern_result open_stream(void *ctx, uint32_t timeout_ms)
{
    struct tern_zephyr_connection *connection = ctx;
    const struct zsock_addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct zsock_addrinfo *address = NULL;
    if (zsock_getaddrinfo(connection->host, connection->port, &hints, &address) != 0) {
        return TERN_ERR_NETWORK;
    }
    const enum tern_result result = connect_to(connection, address, timeout_ms);
    zsock_freeaddrinfo(address);
    return result;
}

static enum tern_result send_stream(void *ctx, const uint8_t *src, size_t len, size_t *sent,
                                    uint32_t timeout_ms)
{
    struct tern_zephyr_connection *connection = ctx;
    if (!connection->is_open || !set_timeout(connection->fd, timeout_ms)) {
        return TERN_ERR_NETWORK;
    }
    const ssize_t written = zsock_send(connection->fd, src, len, 0);
    *sent = written > 0 ? (size_t)written : 0;
    return written > 0 ? TERN_OK : TERN_ERR_NETWORK;
}

static enum tern_result receive_stream(void *ctx, uint8_t *dst, size_t size, size_t *len,
                                       uint32_t timeout_ms)
{
    struct tern_zephyr_connection *connection = ctx;
    if (!connection->is_open || !set_timeout(connection->fd, timeout_ms)) {
        return TERN_ERR_NETWORK;
    }
    const ssize_t received = zsock_recv(connection->fd, dst, size, 0);
    *len = received > 0 ? (size_t)received : 0;
    return received >= 0 ? TERN_OK : TERN_ERR_NETWORK;
}

struct tern_stream tern_zephyr_stream(struct tern_zephyr_connection *connection)
{
    return (struct tern_stream){.ctx = connection,
                                .open = open_stream,
                                .send = send_stream,
                                .receive = receive_stream,
                                .close = close_stream};
}

// --- Flash

static enum tern_result result_of(int error)
{
    return error == 0 ? TERN_OK : TERN_ERR_IO;
}

static enum tern_result read_flash(void *ctx, uint32_t offset, void *dst, size_t len)
{
    const struct tern_zephyr_area *area = ctx;
    return result_of(flash_area_read(area->area, (off_t)offset, dst, len));
}

static enum tern_result program_flash(void *ctx, uint32_t offset, const void *src, size_t len)
{
    const struct tern_zephyr_area *area = ctx;
    return result_of(flash_area_write(area->area, (off_t)offset, src, len));
}

static enum tern_result erase_flash(void *ctx, uint32_t offset)
{
    const struct tern_zephyr_area *area = ctx;
    return result_of(flash_area_erase(area->area, (off_t)offset, area->block_size));
}

enum tern_result tern_zephyr_flash(struct tern_flash *flash, struct tern_zephyr_area *area,
                                   uint8_t id, uint32_t block_size, uint32_t program_size)
{
    if (flash_area_open(id, &area->area) != 0) {
        return TERN_ERR_NOT_FOUND;
    }
    area->block_size = block_size;
    *flash = (struct tern_flash){
        .ctx = area,
        .size = (uint32_t)area->area->fa_size,
        .block_size = block_size,
        .program_size = program_size,
        .read = read_flash,
        .program = program_flash,
        .erase = erase_flash,
    };
    return TERN_OK;
}

// --- Clock and entropy

static uint64_t monotonic_ms(void *ctx)
{
    (void)ctx;
    return (uint64_t)k_uptime_get();
}

static uint64_t never_known(void *ctx)
{
    (void)ctx;
    return 0;
}

struct tern_clock tern_zephyr_clock(uint64_t (*unix_seconds)(void *ctx))
{
    return (struct tern_clock){.monotonic_ms = monotonic_ms,
                               .unix_seconds = unix_seconds != NULL ? unix_seconds : never_known};
}

static enum tern_result fill(void *ctx, void *dst, size_t len)
{
    (void)ctx;
    return result_of(sys_csrand_get(dst, len));
}

struct tern_entropy tern_zephyr_entropy(void)
{
    return (struct tern_entropy){.fill = fill};
}
