// The transport over a stream that is played here: what it sends, when it connects again, what it takes
// for the end, and what it counts.
#include <string.h>

#include "stream/transport.h"
#include "tests/cases.h"

#define MOST_SENT 400 // by one call
#define OK_HELLO "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
#define REQUEST "PUT /v1/x HTTP/1.1\r\nHost: a.example:8443\r\nContent-Length: 3\r\n\r\nabc"

static struct {
    const char *answers; // of the newest connection
    size_t answered;
    size_t piece;       // bytes of one read; 0: all
    bool answers_again; // the next connection has the same
    enum tern_result opens;
    enum tern_result sends;
    size_t opened;
    size_t closed;
    char sent[2048];
    size_t sent_len;
    uint64_t now_ms;
    uint64_t ms_per_read;
} played;

static struct tern_stream_transport transport;
static struct tern_transport port;
static uint8_t body[64];
static struct tern_response response;

static enum tern_result open_played(void *ctx, uint32_t timeout_ms)
{
    (void)ctx;
    assert_int_equal(timeout_ms, 7000);
    played.opened++;
    played.answered = played.answers_again ? 0 : played.answered;
    return played.opens;
}

static enum tern_result send_played(void *ctx, const uint8_t *src, size_t len, size_t *sent,
                                    uint32_t timeout_ms)
{
    (void)ctx;
    (void)timeout_ms;
    len = len > MOST_SENT ? MOST_SENT : len;
    assert_true(played.sent_len + len < sizeof played.sent);
    memcpy(played.sent + played.sent_len, src, len);
    played.sent_len += len;
    *sent = len;
    return played.sends;
}

static enum tern_result receive_played(void *ctx, uint8_t *dst, size_t size, size_t *len,
                                       uint32_t timeout_ms)
{
    (void)ctx;
    (void)timeout_ms;
    const size_t left = strlen(played.answers) - played.answered;
    size_t part = left < size ? left : size;
    part = played.piece != 0 && part > played.piece ? played.piece : part;
    memcpy(dst, played.answers + played.answered, part);
    played.answered += part;
    played.now_ms += played.ms_per_read;
    *len = part;
    return TERN_OK;
}

static void close_played(void *ctx)
{
    (void)ctx;
    played.closed++;
}

static uint64_t now(void *ctx)
{
    (void)ctx;
    return played.now_ms;
}

static int set_up(void **state)
{
    (void)state;
    memset(&played, 0, sizeof played);
    played.answers = OK_HELLO;
    transport = (struct tern_stream_transport){
        .stream = {.open = open_played,
                   .send = send_played,
                   .receive = receive_played,
                   .close = close_played},
        .clock = {.monotonic_ms = now},
        .host = "a.example",
        .port = 8443,
    };
    port = tern_stream_transport_port(&transport);
    return 0;
}

static enum tern_result put(void)
{
    const struct tern_request request = {
        .purpose = TERN_PURPOSE_UPLOAD,
        .method = "PUT",
        .path = "/v1/x",
        .body = (const uint8_t *)"abc",
        .body_len = 3,
        .timeout_ms = 7000,
    };
    response = (struct tern_response){.body = body, .body_size = sizeof body};
    return port.exchange(port.ctx, &request, &response);
}

#define TEST(name) CASE_WITH(name, set_up, NULL)

TEST(request_and_answer_pass_in_any_pieces)
{
    for (size_t piece = 0; piece < 50; piece += 7) {
        set_up(NULL);
        played.piece = piece;
        assert_int_equal(put(), TERN_OK);
        assert_int_equal(played.sent_len, strlen(REQUEST));
        assert_memory_equal(played.sent, REQUEST, strlen(REQUEST));
        assert_int_equal(response.status, 200);
        assert_int_equal(response.body_len, 5);
        assert_memory_equal(body, "hello", 5);
    }
}

TEST(long_body_follows_what_fits_beside_the_head)
{
    static uint8_t large[1500];
    memset(large, 'x', sizeof large);
    const struct tern_request request = {.purpose = TERN_PURPOSE_UPLOAD,
                                         .method = "PUT",
                                         .path = "/v1/x",
                                         .body = large,
                                         .body_len = sizeof large,
                                         .timeout_ms = 7000};
    response = (struct tern_response){.body = body, .body_size = sizeof body};
    assert_int_equal(port.exchange(port.ctx, &request, &response), TERN_OK);
    const char *start = strstr(played.sent, "\r\n\r\n");
    assert_non_null(start);
    assert_int_equal(played.sent + played.sent_len - (start + 4), sizeof large);
    assert_memory_equal(start + 4, large, sizeof large);
}

TEST(connection_is_kept)
{
    played.answers = OK_HELLO OK_HELLO;
    played.piece = strlen(OK_HELLO);
    assert_int_equal(put(), TERN_OK);
    assert_int_equal(put(), TERN_OK);
    assert_int_equal(played.opened, 1);
    assert_int_equal(played.closed, 0);
    port.close(port.ctx);
    assert_int_equal(played.closed, 1);
}

// The second request finds that the server has hung up, and a new connection answers it.
TEST(kept_connection_that_ended_is_opened_again)
{
    assert_int_equal(put(), TERN_OK);
    played.answers_again = true;
    assert_int_equal(put(), TERN_OK);
    assert_int_equal(played.opened, 2);
}

TEST(request_on_a_new_connection_is_sent_once)
{
    played.answers = "";
    assert_int_equal(put(), TERN_ERR_NETWORK);
    assert_int_equal(played.opened, 1);
    assert_int_equal(played.closed, 1);
}

TEST(answer_that_is_cut_is_not_asked_for_again)
{
    played.answers = OK_HELLO "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe";
    played.piece = strlen(OK_HELLO);
    assert_int_equal(put(), TERN_OK);
    assert_int_equal(put(), TERN_ERR_NETWORK);
    assert_int_equal(played.opened, 1);
    assert_int_equal(response.body_len, 2);
}

TEST(refusal_is_read_though_the_body_did_not_pass)
{
    played.sends = TERN_ERR_NETWORK;
    played.answers = "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    assert_int_equal(put(), TERN_OK);
    assert_int_equal(response.status, 413);
    assert_int_equal(played.closed, 1);
}

TEST(server_that_cannot_be_verified_is_told_by_name)
{
    played.opens = TERN_ERR_TLS;
    assert_int_equal(put(), TERN_ERR_TLS);
    assert_int_equal(played.sent_len, 0);
}

TEST(answer_that_trickles_is_given_up)
{
    played.piece = 1;
    played.ms_per_read = 1000;
    assert_int_equal(put(), TERN_ERR_NETWORK);
    assert_true(played.now_ms < 9000);
}

TEST(bytes_are_counted_and_layers_only_add)
{
    assert_int_equal(put(), TERN_OK);
    struct tern_meter meter = {0};
    port.collect(port.ctx, &meter);
    const struct tern_bytes *up = &meter.bytes[TERN_PURPOSE_UPLOAD][TERN_UP];
    const struct tern_bytes *down = &meter.bytes[TERN_PURPOSE_UPLOAD][TERN_DOWN];
    assert_int_equal(up->http, strlen(REQUEST));
    assert_int_equal(down->http, strlen(OK_HELLO));
    assert_true(up->tls > up->http && up->wire >= up->tls);
    assert_true(down->tls > down->http && down->wire >= down->tls);
    assert_true(meter.bytes[TERN_PURPOSE_HANDSHAKE][TERN_UP].wire > 0);
    port.collect(port.ctx, &meter);
    assert_int_equal(up->http, strlen(REQUEST)); // nothing is counted twice
}
