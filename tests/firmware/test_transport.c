// The firmware's transport over a TLS connection that is played here: what it sends, when it
// connects again, and what it takes for the end. The real one is tried in QEMU.
#include "net/device_tls.h"
#include "net/link.h"
#include "net/tcp.h"
#include "net/transport.h"
#include "tests/cases.h"
#include <stdlib.h>
#include <string.h>

#define OK_EMPTY "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#define OK_HELLO "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

enum ending { STAYS, CUT, ENDS_PROPERLY };

// How one connection goes.
struct script {
    const char *answers;         // what the server sends, once it has everything
    enum ending ending;          // and does then
    enum tern_result handshakes; // what becomes of the handshake
    size_t takes;                // bytes that the server takes before it hangs up; 0: all
    size_t write_piece;          // bytes taken by one write; 0: all
    size_t read_piece;
};

static struct {
    struct script scripts[4];
    size_t opened; // connections so far
    enum tern_tcp_state state;
    uint64_t now_ms;
    uint32_t moved;
    struct tern_link_bytes link_bytes;
    struct tern_tcp_bytes stream_bytes;
    char sent[4096]; // on the newest connection
    size_t sent_len;
    size_t writes;
    size_t answered; // bytes of the answers read
    bool busy;       // every second call has to wait
    bool aborted;
} world;

// What is played in place of the parts below; only their addresses matter.
struct tern_link {
    char nothing;
};

struct tern_firmware_tls {
    char nothing;
};

static struct {
    struct tern_link link;
    struct tern_tcp tcp;
    struct tern_firmware_tls tls;
} below;

static struct tern_firmware_transport net;

static const struct tern_board_settings settings = {.server_port = 443, .server_host = "agg"};

static struct script *script(void)
{
    return &world.scripts[world.opened - 1];
}

// --- The parts below the transport

uint64_t tern_board_monotonic_ms(void)
{
    return world.now_ms;
}

enum tern_result tern_link_start(struct tern_link *link, const struct tern_board_settings *given)
{
    assert_ptr_equal(link, &below.link);
    (void)given;
    return TERN_OK;
}

void tern_link_poll(struct tern_link *link)
{
    (void)link;
}

bool tern_link_ready(const struct tern_link *link)
{
    (void)link;
    return true;
}

struct tern_link_bytes tern_link_take_bytes(struct tern_link *link)
{
    (void)link;
    const struct tern_link_bytes taken = world.link_bytes;
    world.link_bytes = (struct tern_link_bytes){0};
    return taken;
}

bool tern_tcp_open(struct tern_tcp *tcp, const uint8_t address[4], uint16_t port)
{
    assert_ptr_equal(tcp, &below.tcp);
    (void)address;
    assert_int_equal(port, 443);
    assert_int_equal(world.state, TERN_TCP_CLOSED);
    assert_true(world.opened < 4);
    world.opened++;
    world.state = TERN_TCP_CONNECTING;
    world.sent_len = 0;
    world.answered = 0;
    world.link_bytes.sent += 44;
    return true;
}

enum tern_tcp_state tern_tcp_state(const struct tern_tcp *tcp)
{
    (void)tcp;
    const enum tern_tcp_state state = world.state;
    if (state == TERN_TCP_CONNECTING) {
        world.state = TERN_TCP_OPEN; // by the next look
    }
    return state;
}

void tern_tcp_flush(struct tern_tcp *tcp)
{
    (void)tcp;
}

uint32_t tern_tcp_moved(const struct tern_tcp *tcp)
{
    (void)tcp;
    return world.moved;
}

struct tern_tcp_bytes tern_tcp_take_bytes(struct tern_tcp *tcp)
{
    (void)tcp;
    const struct tern_tcp_bytes taken = world.stream_bytes;
    world.stream_bytes = (struct tern_tcp_bytes){0};
    return taken;
}

void tern_tcp_close(struct tern_tcp *tcp)
{
    (void)tcp;
    world.state = TERN_TCP_CLOSED;
}

void tern_tcp_abort(struct tern_tcp *tcp)
{
    (void)tcp;
    world.state = TERN_TCP_CLOSED;
    world.aborted = true;
}

enum tern_result tern_firmware_tls_start(struct tern_firmware_tls *tls, struct tern_tcp *tcp,
                                         const struct tern_board_settings *given)
{
    assert_ptr_equal(tls, &below.tls);
    assert_ptr_equal(tcp, &below.tcp);
    (void)given;
    return TERN_OK;
}

void tern_firmware_tls_identify(struct tern_firmware_tls *tls, uint64_t client_id,
                                const char *token)
{
    (void)tls;
    (void)client_id;
    (void)token;
}

size_t tern_firmware_tls_peak(const struct tern_firmware_tls *tls, size_t *given)
{
    (void)tls;
    *given = 0;
    return 0;
}

enum tern_result tern_firmware_tls_open(struct tern_firmware_tls *tls)
{
    (void)tls;
    return TERN_OK;
}

enum tern_result tern_firmware_tls_handshake(struct tern_firmware_tls *tls)
{
    (void)tls;
    world.stream_bytes.sent += 200;
    world.stream_bytes.received += 700;
    return script()->handshakes;
}

static bool must_wait(void)
{
    static bool waits;
    waits = world.busy && !waits;
    return waits;
}

static size_t least(size_t left, size_t right)
{
    return left < right ? left : right;
}

enum tern_result tern_firmware_tls_write(struct tern_firmware_tls *tls, const uint8_t *src,
                                         size_t len, size_t *written)
{
    (void)tls;
    const struct script *now = script();
    *written = 0;
    if (now->takes != 0 && world.sent_len >= now->takes) {
        world.state = TERN_TCP_LOST;
        return TERN_ERR_NETWORK;
    }
    if (must_wait()) {
        return TERN_AGAIN;
    }
    *written = now->write_piece != 0 ? least(len, now->write_piece) : len;
    assert_true(world.sent_len + *written <= sizeof world.sent);
    memcpy(world.sent + world.sent_len, src, *written);
    world.sent_len += *written;
    world.stream_bytes.sent += (uint32_t)*written + 29;
    world.writes++;
    world.moved++;
    return TERN_OK;
}

enum tern_result tern_firmware_tls_read(struct tern_firmware_tls *tls, uint8_t *dst, size_t size,
                                        size_t *len)
{
    (void)tls;
    const struct script *now = script();
    const size_t left = strlen(now->answers) - world.answered;
    *len = 0;
    if (left == 0) {
        world.state = now->ending == STAYS ? world.state : TERN_TCP_ENDED;
        return now->ending == STAYS ? TERN_AGAIN : now->ending == CUT ? TERN_ERR_NETWORK : TERN_OK;
    }
    if (must_wait()) {
        return TERN_AGAIN;
    }
    *len = least(least(size, left), now->read_piece != 0 ? now->read_piece : size);
    memcpy(dst, now->answers + world.answered, *len);
    world.answered += *len;
    world.stream_bytes.received += (uint32_t)*len + 29;
    return TERN_OK;
}

// --- Exchanges

static struct tern_response response;
static uint8_t body[64];

static struct tern_request request_with(const uint8_t *bytes, size_t len)
{
    return (struct tern_request){.purpose = TERN_PURPOSE_UPLOAD,
                                 .method = "PUT",
                                 .path = "/u",
                                 .body = bytes,
                                 .body_len = len,
                                 .timeout_ms = 1000};
}

static const char hi_sent[] = "PUT /u HTTP/1.1\r\nHost: agg\r\nContent-Length: 2\r\n\r\nhi";

static enum tern_result exchange(const struct tern_request *request)
{
    const struct tern_transport port = tern_firmware_transport_port(&net);
    response = (struct tern_response){.body = body, .body_size = sizeof body};
    enum tern_result result = TERN_AGAIN;
    for (int i = 0; result == TERN_AGAIN && i < 20000; i++) {
        world.now_ms++;
        result = port.exchange(port.ctx, request, &response);
    }
    return result;
}

static enum tern_result report_hi(void)
{
    const struct tern_request request = request_with((const uint8_t *)"hi", 2);
    return exchange(&request);
}

static int set_up(void **state)
{
    (void)state;
    const struct tern_transport port = tern_firmware_transport_port(&net);
    struct tern_meter meter;
    memset(&world, 0, sizeof world);
    net.link = &below.link;
    net.tcp = &below.tcp;
    net.tls = &below.tls;
    assert_int_equal(tern_firmware_transport_start(&net, &settings), TERN_OK);
    port.close(port.ctx);
    port.collect(port.ctx, &meter);
    for (size_t i = 0; i < 4; i++) {
        world.scripts[i].answers = OK_EMPTY;
    }
    return 0;
}

static void assert_sent(const char *expected)
{
    assert_int_equal(world.sent_len, strlen(expected));
    assert_memory_equal(world.sent, expected, world.sent_len);
}

CASE_WITH(test_sends_a_small_request_as_one_record, set_up, NULL)
{
    world.scripts[0].answers = OK_HELLO;
    assert_int_equal(report_hi(), TERN_OK);
    assert_int_equal(response.status, 200);
    assert_int_equal(response.body_len, 5);
    assert_memory_equal(body, "hello", 5);
    assert_int_equal(world.writes, 1);
    assert_sent(hi_sent);
}

CASE_WITH(test_sends_all_of_a_large_one, set_up, NULL)
{
    static const size_t pieces[] = {0, 1, 7, 511, 512, 513};
    uint8_t large[2000];
    for (size_t i = 0; i < sizeof large; i++) {
        large[i] = (uint8_t)(i * 31 >> 3);
    }
    const struct tern_request request = request_with(large, sizeof large);
    const size_t head = strlen("PUT /u HTTP/1.1\r\nHost: agg\r\nContent-Length: 2000\r\n\r\n");
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        set_up(NULL);
        world.busy = i % 2 == 1;
        world.scripts[0].write_piece = pieces[i];
        world.scripts[0].read_piece = pieces[i];
        assert_int_equal(exchange(&request), TERN_OK);
        assert_int_equal(world.sent_len, head + sizeof large);
        assert_memory_equal(world.sent + head, large, sizeof large);
    }
}

CASE_WITH(test_keeps_the_connection, set_up, NULL)
{
    world.scripts[0].answers = OK_EMPTY OK_HELLO;
    world.scripts[0].read_piece = strlen(OK_EMPTY);
    assert_int_equal(report_hi(), TERN_OK);
    assert_int_equal(report_hi(), TERN_OK);
    assert_int_equal(response.body_len, 5);
    assert_int_equal(world.opened, 1);
}

CASE_WITH(test_counts_by_purpose_and_layer, set_up, NULL)
{
    const struct tern_transport port = tern_firmware_transport_port(&net);
    struct tern_meter meter = {0};
    assert_int_equal(report_hi(), TERN_OK);
    world.link_bytes = (struct tern_link_bytes){.sent = 1000, .received = 2000};
    port.collect(port.ctx, &meter);
    const struct tern_bytes *handshake = meter.bytes[TERN_PURPOSE_HANDSHAKE];
    const struct tern_bytes *upload = meter.bytes[TERN_PURPOSE_UPLOAD];
    assert_int_equal(handshake[TERN_UP].http, 0);
    assert_int_equal(handshake[TERN_UP].tls, 200);
    assert_int_equal(handshake[TERN_UP].wire, 44);
    assert_int_equal(handshake[TERN_DOWN].tls, 700);
    assert_int_equal(upload[TERN_UP].http, strlen(hi_sent));
    assert_int_equal(upload[TERN_UP].tls, strlen(hi_sent) + 29);
    assert_int_equal(upload[TERN_UP].wire, 1000);
    assert_int_equal(upload[TERN_DOWN].http, strlen(OK_EMPTY));
    assert_int_equal(upload[TERN_DOWN].wire, 2000);
    memset(&meter, 0, sizeof meter);
    port.collect(port.ctx, &meter);
    assert_int_equal(tern_meter_total(&meter, TERN_UP).wire, 0);
    assert_int_equal(tern_meter_total(&meter, TERN_DOWN).http, 0);
}

// --- Connections that end

CASE_WITH(test_closes_when_told_so, set_up, NULL)
{
    world.scripts[0].answers = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    assert_int_equal(report_hi(), TERN_OK);
    assert_int_equal(world.state, TERN_TCP_CLOSED);
    assert_int_equal(report_hi(), TERN_OK);
    assert_int_equal(world.opened, 2);
}

CASE_WITH(test_trusts_no_connection_with_bytes_left_over, set_up, NULL)
{
    world.scripts[0].answers = OK_EMPTY "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nold";
    assert_int_equal(report_hi(), TERN_OK);
    assert_int_equal(report_hi(), TERN_OK);
    assert_int_equal(response.body_len, 0);
    assert_int_equal(world.opened, 2);
}

CASE_WITH(test_takes_the_end_for_the_bodys, set_up, NULL)
{
    world.scripts[0] =
        (struct script){.answers = "HTTP/1.1 200 OK\r\n\r\nhello", .ending = ENDS_PROPERLY};
    assert_int_equal(report_hi(), TERN_OK);
    assert_int_equal(response.body_len, 5);
    set_up(NULL);
    world.scripts[0] = (struct script){.answers = "HTTP/1.1 200 OK\r\n\r\nhel", .ending = CUT};
    assert_int_equal(report_hi(), TERN_ERR_NETWORK);
}

CASE_WITH(test_connects_again_when_the_server_left_meanwhile, set_up, NULL)
{
    assert_int_equal(report_hi(), TERN_OK);
    world.state = TERN_TCP_ENDED;
    assert_int_equal(report_hi(), TERN_OK);
    assert_int_equal(world.opened, 2);
    assert_sent(hi_sent);
}

CASE_WITH(test_tries_once_more_when_a_kept_connection_turns_out_closed, set_up, NULL)
{
    world.scripts[0].ending = CUT;
    assert_int_equal(report_hi(), TERN_OK);
    world.state = TERN_TCP_OPEN;
    assert_int_equal(report_hi(), TERN_OK);
    assert_int_equal(world.opened, 2);
    assert_sent(hi_sent);
}

CASE_WITH(test_tries_only_once_more, set_up, NULL)
{
    world.scripts[0].ending = CUT;
    world.scripts[1] = (struct script){.answers = "", .ending = CUT};
    assert_int_equal(report_hi(), TERN_OK);
    assert_int_equal(report_hi(), TERN_ERR_NETWORK);
    assert_int_equal(world.opened, 2);
}

CASE_WITH(test_does_not_repeat_on_a_new_connection, set_up, NULL)
{
    world.scripts[0] = (struct script){.answers = "", .ending = CUT};
    assert_int_equal(report_hi(), TERN_ERR_NETWORK);
    assert_int_equal(world.opened, 1);
    assert_int_equal(response.status, 0);
}

CASE_WITH(test_does_not_repeat_what_was_answered_in_part, set_up, NULL)
{
    world.scripts[0] = (struct script){.answers = OK_EMPTY "HTTP/1.1 200 OK\r\n"
                                                           "Content-Length: 5\r\n\r\nhel",
                                       .ending = CUT,
                                       .read_piece = strlen(OK_EMPTY)};
    assert_int_equal(report_hi(), TERN_OK);
    assert_int_equal(report_hi(), TERN_ERR_NETWORK);
    assert_int_equal(world.opened, 1);
    assert_int_equal(response.status, 200);
    assert_int_equal(response.body_len, 3);
    assert_true(world.aborted);
    assert_int_equal(report_hi(), TERN_OK);
}

CASE_WITH(test_reads_the_answer_of_a_server_that_stops_listening, set_up, NULL)
{
    uint8_t large[2000] = {0};
    const struct tern_request request = request_with(large, sizeof large);
    world.scripts[0] =
        (struct script){.answers = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno",
                        .takes = 600,
                        .write_piece = 100};
    assert_int_equal(exchange(&request), TERN_OK);
    assert_int_equal(response.status, 413);
    assert_false(world.aborted);
    assert_int_equal(report_hi(), TERN_OK);
    assert_int_equal(world.opened, 2);
}

// --- What goes wrong

CASE_WITH(test_sends_nothing_to_a_stranger, set_up, NULL)
{
    world.scripts[0].handshakes = TERN_ERR_TLS;
    assert_int_equal(report_hi(), TERN_ERR_TLS);
    assert_int_equal(world.writes, 0);
    assert_int_equal(world.state, TERN_TCP_CLOSED);
    assert_true(world.aborted); // nothing waits for the stranger to agree to the end
    assert_int_equal(report_hi(), TERN_OK);
}

CASE_WITH(test_gives_up_when_nothing_moves, set_up, NULL)
{
    world.scripts[0].answers = "";
    world.now_ms = 5000;
    assert_int_equal(report_hi(), TERN_ERR_NETWORK);
    assert_true(world.now_ms >= 6000 && world.now_ms <= 6010);
    assert_true(world.aborted);
    assert_int_equal(report_hi(), TERN_OK);
}

CASE_WITH(test_does_not_repeat_for_a_silent_server, set_up, NULL)
{
    assert_int_equal(report_hi(), TERN_OK);
    assert_int_equal(report_hi(), TERN_ERR_NETWORK);
    assert_int_equal(world.opened, 1);
}

CASE_WITH(test_waits_while_something_moves, set_up, NULL)
{
    const struct tern_transport port = tern_firmware_transport_port(&net);
    uint8_t large[2000] = {0};
    const struct tern_request request = request_with(large, sizeof large);
    response = (struct tern_response){.body = body, .body_size = sizeof body};
    world.scripts[0].answers = "";
    uint64_t ms = 0;
    while (port.exchange(port.ctx, &request, &response) == TERN_AGAIN && ms < 100000) {
        world.moved++;
        ms += 900;
        world.now_ms += 900;
    }
    // 1 s, and the time for 2064 bytes at 500 bytes a second.
    assert_true(ms >= 5128 && ms <= 5128 + 900);
}

CASE_WITH(test_forgets_an_exchange_that_is_closed, set_up, NULL)
{
    const struct tern_transport port = tern_firmware_transport_port(&net);
    const struct tern_request request = request_with((const uint8_t *)"hi", 2);
    response = (struct tern_response){.body = body, .body_size = sizeof body};
    world.scripts[0].answers = "";
    for (int i = 0; i < 5; i++) {
        assert_int_equal(port.exchange(port.ctx, &request, &response), TERN_AGAIN);
    }
    port.close(port.ctx);
    assert_int_equal(report_hi(), TERN_OK);
    assert_int_equal(world.opened, 2);
    assert_sent(hi_sent);
}

CASE_WITH(test_takes_other_protocols_for_a_broken_connection, set_up, NULL)
{
    world.scripts[0].answers = "220 mail ESMTP\r\n";
    assert_int_equal(report_hi(), TERN_ERR_NETWORK);
    world.scripts[1].answers = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
    assert_int_equal(report_hi(), TERN_ERR_TOO_LARGE);
    assert_int_equal(world.state, TERN_TCP_CLOSED);
}
