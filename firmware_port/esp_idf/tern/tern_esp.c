#include "tern_esp.h"

#include <esp_partition.h>
#include <esp_random.h>
#include <esp_timer.h>
#include <esp_tls.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

// An earlier time means that the clock was never set.
#define YEAR_2020 1577836800

// --- The stream

static void close_stream(void *ctx)
{
    struct tern_esp_connection *connection = ctx;
    if (connection->tls != NULL) {
        esp_tls_conn_destroy(connection->tls);
        connection->tls = NULL;
    }
}

// Returns the error of a failed connection: unreachable, or not verified.
static enum tern_result connection_error(struct esp_tls *tls)
{
    esp_tls_error_handle_t error = NULL;
    int code = 0;
    int flags = 0;
    if (esp_tls_get_error_handle(tls, &error) != ESP_OK) {
        return TERN_ERR_NETWORK;
    }
    (void)esp_tls_get_and_clear_last_error(error, &code, &flags);
    return code != 0 || flags != 0 ? TERN_ERR_TLS : TERN_ERR_NETWORK;
}

static enum tern_result open_stream(void *ctx, uint32_t timeout_ms)
{
    struct tern_esp_connection *connection = ctx;
    const esp_tls_cfg_t config = {
        .cacert_buf = (const unsigned char *)connection->ca,
        .cacert_bytes = (unsigned int)connection->ca_len,
        .timeout_ms = (int)timeout_ms,
    };
    connection->tls = esp_tls_init();
    if (connection->tls == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    if (esp_tls_conn_new_sync(connection->host, (int)strlen(connection->host), connection->port,
                              &config, connection->tls) == 1) {
        return TERN_OK;
    }
    const enum tern_result result = connection_error(connection->tls);
    close_stream(connection);
    return result;
}

// Sets the socket's timeout in both directions.
static bool set_timeout(struct tern_esp_connection *connection, uint32_t timeout_ms)
{
    const struct timeval time = {.tv_sec = (time_t)(timeout_ms / 1000),
                                 .tv_usec = (suseconds_t)(timeout_ms % 1000 * 1000)};
    int fd = -1;
    return connection->tls != NULL && esp_tls_get_conn_sockfd(connection->tls, &fd) == ESP_OK &&
           setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0 &&
           setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time) == 0;
}

static enum tern_result send_stream(void *ctx, const uint8_t *src, size_t len, size_t *sent,
                                    uint32_t timeout_ms)
{
    struct tern_esp_connection *connection = ctx;
    if (!set_timeout(connection, timeout_ms)) {
        return TERN_ERR_NETWORK;
    }
    const ssize_t written = esp_tls_conn_write(connection->tls, src, len);
    *sent = written > 0 ? (size_t)written : 0;
    return written > 0 ? TERN_OK : TERN_ERR_NETWORK;
}

static enum tern_result receive_stream(void *ctx, uint8_t *dst, size_t size, size_t *len,
                                       uint32_t timeout_ms)
{
    struct tern_esp_connection *connection = ctx;
    if (!set_timeout(connection, timeout_ms)) {
        return TERN_ERR_NETWORK;
    }
    const ssize_t received = esp_tls_conn_read(connection->tls, dst, size);
    *len = received > 0 ? (size_t)received : 0;
    return received >= 0 ? TERN_OK : TERN_ERR_NETWORK;
}

struct tern_stream tern_esp_stream(struct tern_esp_connection *connection)
{
    return (struct tern_stream){.ctx = connection,
                                .open = open_stream,
                                .send = send_stream,
                                .receive = receive_stream,
                                .close = close_stream};
}

// --- Flash

static const esp_partition_t *partition_of(void *ctx)
{
    return ctx;
}

static enum tern_result read_flash(void *ctx, uint32_t offset, void *dst, size_t len)
{
    return esp_partition_read(partition_of(ctx), offset, dst, len) == ESP_OK ? TERN_OK
                                                                             : TERN_ERR_IO;
}

static enum tern_result program_flash(void *ctx, uint32_t offset, const void *src, size_t len)
{
    return esp_partition_write(partition_of(ctx), offset, src, len) == ESP_OK ? TERN_OK
                                                                              : TERN_ERR_IO;
}

static enum tern_result erase_flash(void *ctx, uint32_t offset)
{
    const esp_partition_t *partition = partition_of(ctx);
    return esp_partition_erase_range(partition, offset, partition->erase_size) == ESP_OK
               ? TERN_OK
               : TERN_ERR_IO;
}

// Encrypted partitions are programmed in units of 16 bytes, others in words.
enum tern_result tern_esp_flash(struct tern_flash *flash, const char *label)
{
    const esp_partition_t *partition =
        esp_partition_find_first(ESP_PARTITION_TYPE_DATA, ESP_PARTITION_SUBTYPE_ANY, label);
    if (partition == NULL) {
        return TERN_ERR_NOT_FOUND;
    }
    *flash = (struct tern_flash){
        .ctx = (void *)(uintptr_t)partition,
        .size = partition->size,
        .block_size = partition->erase_size,
        .program_size = partition->encrypted ? 16 : 4,
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
    return (uint64_t)esp_timer_get_time() / 1000;
}

static uint64_t unix_seconds(void *ctx)
{
    (void)ctx;
    const time_t now = time(NULL);
    return now >= YEAR_2020 ? (uint64_t)now : 0;
}

struct tern_clock tern_esp_clock(void)
{
    return (struct tern_clock){.monotonic_ms = monotonic_ms, .unix_seconds = unix_seconds};
}

static enum tern_result fill(void *ctx, void *dst, size_t len)
{
    (void)ctx;
    esp_fill_random(dst, len);
    return TERN_OK;
}

struct tern_entropy tern_esp_entropy(void)
{
    return (struct tern_entropy){.fill = fill};
}
