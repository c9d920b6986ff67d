// The ports for ESP-IDF over stand-ins for its functions: what they ask of them, and what they make of
// their answers. No board and no release of ESP-IDF has run them.
#include <stdlib.h>
#include <string.h>

#include "contracts/client_store_contract.h"
#include "esp_idf/tern/tern_esp.h"
#include "firmware/ram_flash.h"
#include "store/flash_store.h"
#define TERN_CASES_OWN_MAIN
#include "tests/cases.h"

#include <esp_partition.h>
#include <esp_random.h>
#include <esp_timer.h>
#include <esp_tls.h>
#include <sys/socket.h>
#include <unistd.h>

static struct {
    int connects;    // what esp_tls_conn_new_sync() returns
    int last_error;  // of a connection that failed
    ssize_t written; // the most that one write takes
    ssize_t to_read;
    size_t alive; // connections
    size_t sent;
    int socket;
    int64_t now_us;
} idf;

static struct ram_flash flash;
static esp_partition_t partition = {.size = RAM_FLASH_SIZE, .label = "tern"};

struct esp_tls {
    char nothing;
};
static struct esp_tls the_tls;

// --- ESP-IDF

esp_tls_t *esp_tls_init(void)
{
    idf.alive++;
    return &the_tls;
}

int esp_tls_conn_new_sync(const char *hostname, int hostlen, int port, const esp_tls_cfg_t *cfg,
                          esp_tls_t *tls)
{
    assert_ptr_equal(tls, &the_tls);
    assert_int_equal(hostlen, strlen("a.example"));
    assert_memory_equal(hostname, "a.example", (size_t)hostlen);
    assert_int_equal(port, 8443);
    assert_string_equal((const char *)cfg->cacert_buf, "PEM");
    assert_int_equal(cfg->cacert_bytes, sizeof "PEM");
    assert_int_equal(cfg->timeout_ms, 7000);
    assert_false(cfg->skip_common_name);
    return idf.connects;
}

ssize_t esp_tls_conn_write(esp_tls_t *tls, const void *data, size_t datalen)
{
    (void)tls;
    (void)data;
    const ssize_t most = (ssize_t)datalen;
    const ssize_t written = idf.written < most ? idf.written : most;
    idf.sent += written > 0 ? (size_t)written : 0;
    return written;
}

ssize_t esp_tls_conn_read(esp_tls_t *tls, void *data, size_t datalen)
{
    (void)tls;
    (void)data;
    assert_true(idf.to_read <= (ssize_t)datalen);
    return idf.to_read;
}

int esp_tls_conn_destroy(esp_tls_t *tls)
{
    assert_ptr_equal(tls, &the_tls);
    idf.alive--;
    return 0;
}

esp_err_t esp_tls_get_conn_sockfd(esp_tls_t *tls, int *sockfd)
{
    (void)tls;
    *sockfd = idf.socket;
    return ESP_OK;
}

esp_err_t esp_tls_get_error_handle(esp_tls_t *tls, esp_tls_error_handle_t *error_handle)
{
    (void)tls;
    *error_handle = NULL;
    return ESP_OK;
}

esp_err_t esp_tls_get_and_clear_last_error(esp_tls_error_handle_t h, int *esp_tls_code,
                                           int *esp_tls_flags)
{
    (void)h;
    *esp_tls_code = idf.last_error;
    *esp_tls_flags = 0;
    return ESP_OK;
}

const esp_partition_t *esp_partition_find_first(esp_partition_type_t type,
                                                esp_partition_subtype_t subtype, const char *label)
{
    const bool asked = type == ESP_PARTITION_TYPE_DATA && subtype == ESP_PARTITION_SUBTYPE_ANY;
    return asked && strcmp(label, partition.label) == 0 ? &partition : NULL;
}

static esp_err_t err(enum tern_result result)
{
    return result == TERN_OK ? ESP_OK : ESP_FAIL;
}

esp_err_t esp_partition_read(const esp_partition_t *from, size_t src_offset, void *dst, size_t size)
{
    assert_ptr_equal(from, &partition);
    return err(flash.port.read(flash.port.ctx, (uint32_t)src_offset, dst, size));
}

esp_err_t esp_partition_write(const esp_partition_t *to, size_t dst_offset, const void *src,
                              size_t size)
{
    assert_ptr_equal(to, &partition);
    return err(flash.port.program(flash.port.ctx, (uint32_t)dst_offset, src, size));
}

esp_err_t esp_partition_erase_range(const esp_partition_t *of, size_t offset, size_t size)
{
    assert_ptr_equal(of, &partition);
    assert_int_equal(size, flash.port.block_size);
    return err(flash.port.erase(flash.port.ctx, (uint32_t)offset));
}

void esp_fill_random(void *buf, size_t len)
{
    memset(buf, 0x5a, len);
}

int64_t esp_timer_get_time(void)
{
    return idf.now_us;
}

// --- Tests

static struct tern_esp_connection connection;
static struct tern_stream stream;
static int peer[2];

static int set_up(void **state)
{
    (void)state;
    memset(&idf, 0, sizeof idf);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, peer), 0);
    idf.connects = 1;
    idf.written = 1000;
    idf.socket = peer[0];
    connection = (struct tern_esp_connection){
        .host = "a.example", .port = 8443, .ca = "PEM", .ca_len = sizeof "PEM"};
    stream = tern_esp_stream(&connection);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    stream.close(stream.ctx);
    assert_int_equal(idf.alive, 0);
    assert_int_equal(close(peer[0]) + close(peer[1]), 0);
    return 0;
}

#define TEST(name) CASE_WITH(name, set_up, tear_down)

TEST(bytes_pass_both_ways)
{
    static const uint8_t data[2500];
    uint8_t dst[64];
    size_t len = 0;
    assert_int_equal(stream.open(stream.ctx, 7000), TERN_OK);
    assert_int_equal(stream.send(stream.ctx, data, sizeof data, &len, 7000), TERN_OK);
    assert_int_equal(len, 1000);
    assert_int_equal(idf.sent, 1000);
    idf.to_read = 17;
    assert_int_equal(stream.receive(stream.ctx, dst, sizeof dst, &len, 7000), TERN_OK);
    assert_int_equal(len, 17);
    struct timeval limit = {0};
    socklen_t size = sizeof limit;
    assert_int_equal(getsockopt(peer[0], SOL_SOCKET, SO_RCVTIMEO, &limit, &size), 0);
    assert_int_equal(limit.tv_sec, 7);
}

TEST(ends_and_cuts_are_told_apart)
{
    uint8_t dst[64];
    size_t len = 1;
    assert_int_equal(stream.open(stream.ctx, 7000), TERN_OK);
    idf.to_read = 0;
    assert_int_equal(stream.receive(stream.ctx, dst, sizeof dst, &len, 7000), TERN_OK);
    assert_int_equal(len, 0);
    idf.to_read = -1;
    assert_int_equal(stream.receive(stream.ctx, dst, sizeof dst, &len, 7000), TERN_ERR_NETWORK);
    idf.written = -1;
    assert_int_equal(stream.send(stream.ctx, dst, sizeof dst, &len, 7000), TERN_ERR_NETWORK);
}

TEST(failed_connection_says_why_and_is_gone)
{
    idf.connects = -1;
    assert_int_equal(stream.open(stream.ctx, 7000), TERN_ERR_NETWORK);
    idf.last_error = -0x2700;
    assert_int_equal(stream.open(stream.ctx, 7000), TERN_ERR_TLS);
    assert_int_equal(idf.alive, 0);
    const uint8_t byte = 0;
    size_t sent = 0;
    assert_int_equal(stream.send(stream.ctx, &byte, 1, &sent, 7000), TERN_ERR_NETWORK);
}

TEST(clock_and_entropy_are_the_system_s)
{
    uint8_t bytes[4] = {0};
    idf.now_us = 5000999;
    const struct tern_clock clock = tern_esp_clock();
    assert_int_equal(clock.monotonic_ms(clock.ctx), 5000);
    assert_true(clock.unix_seconds(clock.ctx) > 1577836800);
    const struct tern_entropy entropy = tern_esp_entropy();
    assert_int_equal(entropy.fill(entropy.ctx, bytes, sizeof bytes), TERN_OK);
    assert_int_equal(bytes[3], 0x5a);
}

TEST(partition_is_found_by_its_label)
{
    struct tern_flash port;
    ram_flash_init(&flash, 16, 0xff);
    partition.erase_size = flash.port.block_size;
    assert_int_equal(tern_esp_flash(&port, "other"), TERN_ERR_NOT_FOUND);
    partition.encrypted = true;
    assert_int_equal(tern_esp_flash(&port, "tern"), TERN_OK);
    assert_int_equal(port.program_size, 16);
    assert_int_equal(port.size, RAM_FLASH_SIZE);
    partition.encrypted = false;
}

// --- The store over the partition

static struct tern_flash region;
static struct tern_flash_store store;

static void reopen(void)
{
    static const uint32_t sizes[TERN_RECORD_COUNT] = {200, 2000, 200000, 40, 500, 500};
    if (tern_esp_flash(&region, "tern") != TERN_OK ||
        tern_flash_store_open(&store, &region, sizes) != TERN_OK) {
        abort();
    }
}

static void open_fresh(void)
{
    ram_flash_init(&flash, 4, 0xff);
    partition.erase_size = flash.port.block_size;
    reopen();
}

static void close_it(void)
{
}

static struct tern_store port_of_store(void)
{
    return tern_flash_store_port(&store);
}

int main(void)
{
    const struct store_under_test on_partition = {open_fresh, reopen, close_it, port_of_store};
    return test_cases_run(&cases_of_this_file, __FILE__) + run_store_contract(&on_partition);
}
