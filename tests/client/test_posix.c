// The Linux ports that need no network.
#define _GNU_SOURCE
#include "posix/sockets.h"
#include "posix/system.h"
#include "posix/transport.h"
#define TERN_CASES_OWN_MAIN
#include "tests/cases.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

CASE(clock_and_entropy_work)
{
    const struct tern_clock clock = tern_posix_clock();
    const struct tern_entropy entropy = tern_posix_entropy();
    uint8_t a[40] = {0};
    uint8_t b[40] = {0};
    const uint64_t first = clock.monotonic_ms(clock.ctx);
    assert_true(clock.monotonic_ms(clock.ctx) >= first);
    assert_true(clock.unix_seconds(clock.ctx) > 1700000000u);
    assert_int_equal(entropy.fill(entropy.ctx, a, sizeof a), TERN_OK);
    assert_int_equal(entropy.fill(entropy.ctx, b, sizeof b), TERN_OK);
    assert_memory_not_equal(a, b, sizeof a);
}

CASE(only_https_is_spoken)
{
    struct tern_curl *curl = NULL;
    char why[512];
    struct tern_curl_config config = {.server = "http://localhost:1"};
    assert_int_equal(tern_curl_open(&curl, &config, why), TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "https://"));
    config.server = "https://localhost:1";
    config.ca_file = "/nonexistent/ca.pem";
    assert_int_equal(tern_curl_open(&curl, &config, why), TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "/nonexistent/ca.pem"));
}

CASE(nobody_listening_is_a_network_error)
{
    struct tern_curl *curl = NULL;
    char why[512];
    uint8_t body[16];
    const struct tern_curl_config config = {.server = "https://127.0.0.1:1/"};
    assert_int_equal(tern_curl_open(&curl, &config, why), TERN_OK);
    const struct tern_transport port = tern_curl_port(curl);
    const struct tern_request request = {.purpose = TERN_PURPOSE_CHECKIN,
                                         .method = "POST",
                                         .path = "/v1/checkin",
                                         .timeout_ms = 2000};
    struct tern_response response = {.body = body, .body_size = sizeof body, .status = 7};
    struct tern_meter meter = {0};
    assert_int_equal(port.exchange(port.ctx, &request, &response), TERN_ERR_NETWORK);
    assert_int_equal(response.status, 0);
    assert_true(strlen(tern_curl_why(curl)) > 0);
    port.collect(port.ctx, &meter);
    assert_true(meter.bytes[TERN_PURPOSE_HANDSHAKE][TERN_UP].wire > 0); // the SYN was paid for
    assert_int_equal(meter.bytes[TERN_PURPOSE_CHECKIN][TERN_UP].http, 0);
    tern_curl_close(curl);
}

// Two ends of a TCP connection over loopback.
static void connect_pair(int *near, int *far)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    *near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(*near, (struct sockaddr *)&address, len), 0);
    *far = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(*far >= 0);
    close(listener);
}

CASE(closing_segment_is_no_byte_of_the_stream)
{
    struct tern_sockets sockets;
    int near = -1;
    int far = -1;
    char bytes[100] = {0};
    tern_sockets_init(&sockets);
    connect_pair(&near, &far);
    tern_sockets_add(&sockets, near);
    assert_int_equal(send(far, bytes, sizeof bytes, 0), sizeof bytes);
    assert_int_equal(recv(near, bytes, sizeof bytes, MSG_WAITALL), sizeof bytes);
    tern_sockets_read(&sockets, TERN_PURPOSE_CHECKIN);
    const struct tern_bytes *down = &sockets.meter.bytes[TERN_PURPOSE_CHECKIN][TERN_DOWN];
    const struct tern_bytes *up = &sockets.meter.bytes[TERN_PURPOSE_CHECKIN][TERN_UP];
    const uint64_t before = down->wire;
    assert_int_equal(down->tls, sizeof bytes);
    close(far);
    assert_int_equal(recv(near, bytes, sizeof bytes, 0), 0); // the FIN is here
    tern_sockets_read(&sockets, TERN_PURPOSE_CHECKIN);
    assert_int_equal(down->tls, sizeof bytes);
    assert_int_equal(down->wire, before + 52); // one segment of headers
    tern_sockets_remove(&sockets, near, TERN_PURPOSE_CHECKIN);
    close(near);
    assert_int_equal(down->tls, sizeof bytes);
    assert_int_equal(up->tls, 0);
}

// A peer that takes the connection and never says a word.
CASE(silent_peer_is_given_up)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    char server[64];
    snprintf(server, sizeof server, "https://127.0.0.1:%d", ntohs(address.sin_port));
    struct tern_curl *curl = NULL;
    char why[512];
    uint8_t body[16];
    const struct tern_curl_config config = {.server = server};
    assert_int_equal(tern_curl_open(&curl, &config, why), TERN_OK);
    const struct tern_transport port = tern_curl_port(curl);
    const struct tern_request request = {.purpose = TERN_PURPOSE_UPLOAD,
                                         .method = "PUT",
                                         .path = "/v1/updates/1/1",
                                         .body_len = 0,
                                         .timeout_ms = 500};
    struct tern_response response = {.body = body, .body_size = sizeof body};
    const struct tern_clock clock = tern_posix_clock();
    const uint64_t start = clock.monotonic_ms(clock.ctx);
    assert_int_equal(port.exchange(port.ctx, &request, &response), TERN_ERR_NETWORK);
    assert_in_range(clock.monotonic_ms(clock.ctx) - start, 400, 30000);
    tern_curl_close(curl);
    close(listener);
}

int main(void)
{
    if (tern_curl_global() != TERN_OK) {
        return 1;
    }
    return test_cases_run(&cases_of_this_file, __FILE__);
}
