// The ports for Zephyr over stand-ins for its functions: what they ask of them, and what they make of
// their answers. No board and no release of Zephyr has run them.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "contracts/client_store_contract.h"
#include "firmware/ram_flash.h"
#include "store/flash_store.h"
#include "zephyr/tern_zephyr.h"
#define TERN_CASES_OWN_MAIN
#include "tests/cases.h"

#include <zephyr/kernel.h>
#include <zephyr/net/socket.h>
#include <zephyr/net/tls_credentials.h>
#include <zephyr/random/random.h>
#include <zephyr/storage/flash_map.h>

#define AREA 3
#define SOCKET 12
#define TAG 42

static struct {
    int connect_error; // errno; 0: it connects
    ssize_t takes;     // the most that one send takes
    ssize_t to_read;
    size_t alive; // sockets
    size_t sent;
    bool trusts_tag;
    bool verifies;
    bool checks_name;
    long limit_s;
} zephyr;

static struct ram_flash flash;
static const struct flash_area flash_area = {.fa_id = AREA, .fa_size = RAM_FLASH_SIZE};

// --- Zephyr

int zsock_socket(int family, int type, int proto)
{
    assert_int_equal(family, AF_INET);
    assert_int_equal(type, SOCK_STREAM);
    assert_int_equal(proto, IPPROTO_TLS_1_2);
    zephyr.alive++;
    return SOCKET;
}

static void set_tls(int optname, const void *optval, socklen_t optlen)
{
    int number = 0;
    if (optname != TLS_HOSTNAME) {
        assert_int_equal(optlen, sizeof number);
        memcpy(&number, optval, sizeof number);
    }
    zephyr.trusts_tag |= optname == TLS_SEC_TAG_LIST && number == TAG;
    zephyr.verifies |= optname == TLS_PEER_VERIFY && number == TLS_PEER_VERIFY_REQUIRED;
    zephyr.checks_name |= optname == TLS_HOSTNAME && strcmp(optval, "a.example") == 0;
}

int zsock_setsockopt(int sock, int level, int optname, const void *optval, socklen_t optlen)
{
    assert_int_equal(sock, SOCKET);
    if (level == SOL_TLS) {
        set_tls(optname, optval, optlen);
        return 0;
    }
    const struct zsock_timeval *limit = optval;
    assert_int_equal(optlen, sizeof *limit);
    zephyr.limit_s = limit->tv_sec;
    return 0;
}

int zsock_connect(int sock, const struct sockaddr *addr, socklen_t addrlen)
{
    (void)addr;
    (void)addrlen;
    assert_int_equal(sock, SOCKET);
    assert_true(zephyr.trusts_tag && zephyr.verifies && zephyr.checks_name);
    errno = zephyr.connect_error;
    return zephyr.connect_error == 0 ? 0 : -1;
}

ssize_t zsock_send(int sock, const void *buf, size_t len, int flags)
{
    (void)sock;
    (void)buf;
    (void)flags;
    const ssize_t taken = zephyr.takes < (ssize_t)len ? zephyr.takes : (ssize_t)len;
    zephyr.sent += taken > 0 ? (size_t)taken : 0;
    return taken;
}

ssize_t zsock_recv(int sock, void *buf, size_t max_len, int flags)
{
    (void)sock;
    (void)buf;
    (void)flags;
    assert_true(zephyr.to_read <= (ssize_t)max_len);
    return zephyr.to_read;
}

int zsock_close(int sock)
{
    assert_int_equal(sock, SOCKET);
    zephyr.alive--;
    return 0;
}

int zsock_getaddrinfo(const char *host, const char *service, const struct zsock_addrinfo *hints,
                      struct zsock_addrinfo **res)
{
    static struct zsock_addrinfo found = {.ai_family = AF_INET};
    (void)hints;
    assert_string_equal(service, "8443");
    *res = &found;
    return strcmp(host, "a.example") == 0 ? 0 : -2;
}

void zsock_freeaddrinfo(struct zsock_addrinfo *ai)
{
    assert_non_null(ai);
}

int64_t k_uptime_get(void)
{
    return 5000;
}

int sys_csrand_get(void *dst, size_t len)
{
    memset(dst, 0x5a, len);
    return len > 16 ? -EIO : 0;
}

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

// --- Tests

static struct tern_zephyr_connection connection;
static struct tern_stream stream;

static int set_up(void **state)
{
    (void)state;
    memset(&zephyr, 0, sizeof zephyr);
    zephyr.takes = 1000;
    connection = (struct tern_zephyr_connection){.host = "a.example", .port = "8443", .tag = TAG};
    stream = tern_zephyr_stream(&connection);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    stream.close(stream.ctx);
    assert_int_equal(zephyr.alive, 0);
    return 0;
}

#define TEST(name) CASE_WITH(name, set_up, tear_down)

TEST(bytes_pass_both_ways)
{
    static const uint8_t data[2500];
    uint8_t dst[64];
    size_t len = 0;
    assert_int_equal(stream.open(stream.ctx, 7000), TERN_OK);
    assert_int_equal(zephyr.limit_s, 7);
    assert_int_equal(stream.send(stream.ctx, data, sizeof data, &len, 9000), TERN_OK);
    assert_int_equal(len, 1000);
    assert_int_equal(zephyr.limit_s, 9);
    assert_int_equal(zephyr.sent, 1000);
    zephyr.to_read = 17;
    assert_int_equal(stream.receive(stream.ctx, dst, sizeof dst, &len, 7000), TERN_OK);
    assert_int_equal(len, 17);
}

TEST(ends_and_cuts_are_told_apart)
{
    uint8_t dst[64];
    size_t len = 1;
    assert_int_equal(stream.open(stream.ctx, 7000), TERN_OK);
    zephyr.to_read = 0;
    assert_int_equal(stream.receive(stream.ctx, dst, sizeof dst, &len, 7000), TERN_OK);
    assert_int_equal(len, 0);
    zephyr.to_read = -1;
    assert_int_equal(stream.receive(stream.ctx, dst, sizeof dst, &len, 7000), TERN_ERR_NETWORK);
    zephyr.takes = -1;
    assert_int_equal(stream.send(stream.ctx, dst, sizeof dst, &len, 7000), TERN_ERR_NETWORK);
}

TEST(failed_connection_says_why_and_is_gone)
{
    zephyr.connect_error = ETIMEDOUT;
    assert_int_equal(stream.open(stream.ctx, 7000), TERN_ERR_NETWORK);
    zephyr.connect_error = ECONNABORTED;
    assert_int_equal(stream.open(stream.ctx, 7000), TERN_ERR_TLS);
    assert_int_equal(zephyr.alive, 0);
    const uint8_t byte = 0;
    size_t sent = 0;
    assert_int_equal(stream.send(stream.ctx, &byte, 1, &sent, 7000), TERN_ERR_NETWORK);
    connection.host = "unknown.example";
    assert_int_equal(stream.open(stream.ctx, 7000), TERN_ERR_NETWORK);
}

static uint64_t date(void *ctx)
{
    (void)ctx;
    return 1800000000;
}

TEST(clock_and_entropy_are_the_system_s)
{
    uint8_t bytes[32] = {0};
    const struct tern_clock clock = tern_zephyr_clock(NULL);
    assert_int_equal(clock.monotonic_ms(clock.ctx), 5000);
    assert_int_equal(clock.unix_seconds(clock.ctx), 0);
    assert_ptr_equal(tern_zephyr_clock(date).unix_seconds, date);
    const struct tern_entropy entropy = tern_zephyr_entropy();
    assert_int_equal(entropy.fill(entropy.ctx, bytes, 16), TERN_OK);
    assert_int_equal(bytes[15], 0x5a);
    assert_int_equal(entropy.fill(entropy.ctx, bytes, 32), TERN_ERR_IO);
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
