// The ports for Zephyr over stand-ins for its functions: how connections fail, clock, entropy and the store. test_components.py
// has connections that work.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "contracts/client_store_contract.h"
#include "firmware/ram_flash.h"
#include "store/flash_store.h"
#include "zephyr/tern_zephyr.h"
#define TERN_CASES_OWN_MAIN
#include "tests/cases.h"

#include <zephyr/kernel.h>
#include <zephyr/net/socket.h>
#include <zephyr/random/random.h>
#include <zephyr/storage/flash_map.h>

#define AREA 3

// No server has a certificate under it: connections here end before that.
static const char test_ca[] = "-----BEGIN CERTIFICATE-----\n"
                              "MIIBdTCCARugAwIBAgIUV79YATDOHyjdNDXQD3557Ra0DHYwCgYIKoZIzj0EAwIw\n"
                              "DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMjkwODE5NDFaGA8yMTI2MTEwNTA4MTk0\n"
                              "MVowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABGK9\n"
                              "GhA3dClT1ZNovoGV2bj5i1yC/CRyZXKHVXJ4Rf13vrtIDkam5zVByI587cCAtFwK\n"
                              "bdOTa/ziHzX0JtBf8QajUzBRMB0GA1UdDgQWBBRXxs12UcyG6w2SIa04aRXuLzc2\n"
                              "zjAfBgNVHSMEGDAWgBRXxs12UcyG6w2SIa04aRXuLzc2zjAPBgNVHRMBAf8EBTAD\n"
                              "AQH/MAoGCCqGSM49BAMCA0gAMEUCIQDUi2JyoOTI3RPJgVCNrv5LSBn/k6689tDb\n"
                              "7F2RHv0VBgIgcuTJaCHCvIT2z6/z3G5u0+AwghLr1u0Z3CDmoq4TxQU=\n"
                              "-----END CERTIFICATE-----\n";

static struct ram_flash flash;
static const struct flash_area flash_area = {.fa_id = AREA, .fa_size = RAM_FLASH_SIZE};

// --- Zephyr

int flash_area_open(uint8_t id, const struct flash_area **fa)
{
    *fa = &flash_area;
    return id == AREA ? 0 : -ENOENT;
}

static int err(enum tern_result result)
{
    return result == TERN_OK ? 0 : -EIO;
}

int flash_area_read(const struct flash_area *fa, off_t off, void *dst, size_t len)
{
    assert_ptr_equal(fa, &flash_area);
    return err(flash.port.read(flash.port.ctx, (uint32_t)off, dst, len));
}

int flash_area_write(const struct flash_area *fa, off_t off, const void *src, size_t len)
{
    assert_ptr_equal(fa, &flash_area);
    return err(flash.port.program(flash.port.ctx, (uint32_t)off, src, len));
}

int flash_area_erase(const struct flash_area *fa, off_t off, size_t len)
{
    assert_ptr_equal(fa, &flash_area);
    assert_int_equal(len, flash.port.block_size);
    return err(flash.port.erase(flash.port.ctx, (uint32_t)off));
}

// --- The stream: a socket of this machine, and the rest by Zephyr's names (zephyr/zephyr_on_posix.c)

static struct tern_zephyr_connection connection;
static struct tern_stream stream;
static char port_text[6];
static int listener;

static int set_up(void **state)
{
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    snprintf(port_text, sizeof port_text, "%d", ntohs(address.sin_port));
    connection = (struct tern_zephyr_connection){
        .host = "localhost", .port = port_text, .ca = test_ca, .ca_len = sizeof test_ca};
    stream = tern_zephyr_stream(&connection);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    stream.close(stream.ctx);
    assert_false(connection.is_open);
    mbedtls_ssl_free(&connection.ssl);
    mbedtls_ssl_config_free(&connection.config);
    mbedtls_x509_crt_free(&connection.trusted);
    return close(listener);
}

#define TEST(name) CASE_WITH(name, set_up, tear_down)

static void expect_failure(enum tern_result result, enum tern_zephyr_step step, const char *name)
{
    assert_int_equal(stream.open(stream.ctx, 300), result);
    assert_int_equal(connection.failed_step, step);
    assert_string_equal(tern_zephyr_step_name(step), name);
    assert_true(connection.failed_error != 0);
    assert_false(connection.is_open);
    uint8_t byte = 0;
    size_t len = 1;
    assert_int_equal(stream.send(stream.ctx, &byte, 1, &len, 300), TERN_ERR_NETWORK);
    assert_int_equal(stream.receive(stream.ctx, &byte, 1, &len, 300), TERN_ERR_NETWORK);
}

TEST(name_without_an_address_is_dns)
{
    connection.host = "a.invalid";
    expect_failure(TERN_ERR_NETWORK, TERN_ZEPHYR_DNS, "dns");
}

TEST(closed_port_is_connect)
{
    expect_failure(TERN_ERR_NETWORK, TERN_ZEPHYR_CONNECT, "connect");
}

TEST(silent_server_ends_the_handshake_in_time)
{
    assert_int_equal(listen(listener, 1), 0); // takes connections, and never says a word
    const int64_t start_ms = k_uptime_get();
    expect_failure(TERN_ERR_NETWORK, TERN_ZEPHYR_HANDSHAKE, "handshake");
    assert_in_range(k_uptime_get() - start_ms, 290, 20000);
}

TEST(damaged_ca_is_the_configuration)
{
    assert_int_equal(listen(listener, 1), 0);
    connection.ca = "PEM";
    connection.ca_len = sizeof "PEM";
    expect_failure(TERN_ERR_TLS, TERN_ZEPHYR_CONFIGURATION, "configuration");
}

// --- Clock and entropy

static uint64_t date(void *ctx)
{
    (void)ctx;
    return 1800000000;
}

TEST(clock_and_entropy_are_the_system_s)
{
    uint8_t bytes[2][32] = {{0}};
    const struct tern_clock clock = tern_zephyr_clock(NULL);
    const int64_t now_ms = k_uptime_get();
    assert_in_range(clock.monotonic_ms(clock.ctx), now_ms, now_ms + 20000);
    assert_int_equal(clock.unix_seconds(clock.ctx), 0);
    assert_ptr_equal(tern_zephyr_clock(date).unix_seconds, date);
    const struct tern_entropy entropy = tern_zephyr_entropy();
    assert_int_equal(entropy.fill(entropy.ctx, bytes[0], 32), TERN_OK);
    assert_int_equal(entropy.fill(entropy.ctx, bytes[1], 32), TERN_OK);
    assert_memory_not_equal(bytes[0], bytes[1], 32);
}

TEST(missing_flash_area_is_named)
{
    struct tern_flash port;
    struct tern_zephyr_area area;
    assert_int_equal(tern_zephyr_flash(&port, &area, AREA + 1, 4096, 4), TERN_ERR_NOT_FOUND);
}

// --- The store over the flash area

static struct tern_zephyr_area area_memory;
static struct tern_flash region;
static struct tern_flash_store store;

static void reopen(void)
{
    static const uint32_t sizes[TERN_RECORD_COUNT] = {200, 2000, 200000, 40, 500, 500};
    if (tern_zephyr_flash(&region, &area_memory, AREA, flash.port.block_size, 8) != TERN_OK ||
        tern_flash_store_open(&store, &region, sizes) != TERN_OK) {
        abort();
    }
}

static void open_fresh(void)
{
    ram_flash_init(&flash, 8, 0xff);
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
    const struct store_under_test on_area = {open_fresh, reopen, close_it, port_of_store};
    return test_cases_run(&cases_of_this_file, __FILE__) + run_store_contract(&on_area);
}
