// A response is understood alike however its bytes are cut, and one that two readers could
// understand differently is refused by all of them.
#include "http/message.h"
#include "tests/cases.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BODY_SIZE 64u

struct outcome {
    enum tern_result result;
    size_t used;
    bool keep_alive;
    struct tern_response response;
    uint8_t body[BODY_SIZE];
};

// Reads text in pieces: [0, first), [first, second), [second, end).
static struct outcome read_cut(const char *text, size_t first, size_t second)
{
    struct outcome outcome = {.result = TERN_AGAIN};
    outcome.response.body = malloc(BODY_SIZE); // so that AddressSanitizer watches its end
    outcome.response.body_size = BODY_SIZE;
    struct tern_http_reader reader;
    tern_http_reader_start(&reader, &outcome.response);
    const size_t ends[] = {first, second, strlen(text)};
    for (size_t i = 0; i < 3 && outcome.result == TERN_AGAIN; i++) {
        size_t used = 0;
        const size_t len = ends[i] - outcome.used;
        uint8_t *piece = malloc(len > 0 ? len : 1);
        memcpy(piece, text + outcome.used, len);
        outcome.result = tern_http_reader_feed(&reader, piece, len, &used);
        free(piece);
        assert_true(used <= len);
        assert_true(used == len || outcome.result != TERN_AGAIN);
        outcome.used += used;
    }
    if (outcome.result == TERN_AGAIN) {
        outcome.result = tern_http_reader_end(&reader);
    }
    outcome.keep_alive = reader.keep_alive;
    memcpy(outcome.body, outcome.response.body, outcome.response.body_len);
    free(outcome.response.body);
    outcome.response.body = NULL;
    return outcome;
}

static struct outcome read_whole(const char *text)
{
    return read_cut(text, strlen(text), strlen(text));
}

static void assert_same(const struct outcome *left, const struct outcome *right)
{
    assert_int_equal(left->result, right->result);
    assert_int_equal(left->response.status, right->response.status);
    assert_int_equal(left->response.retry_after_s, right->response.retry_after_s);
    if (left->result == TERN_OK) {
        assert_int_equal(left->used, right->used);
        assert_int_equal(left->keep_alive, right->keep_alive);
        assert_int_equal(left->response.body_len, right->response.body_len);
        assert_memory_equal(left->body, right->body, left->response.body_len);
    }
}

static void assert_cut_anywhere(const char *text)
{
    const struct outcome whole = read_whole(text);
    const size_t len = strlen(text);
    for (size_t first = 0; first <= len; first++) {
        for (size_t second = first; second <= len; second += 1 + (len - second) / 7) {
            const struct outcome cut = read_cut(text, first, second);
            assert_same(&whole, &cut);
        }
    }
}

static void assert_reads(const char *text, int status, const char *body, bool keep_alive)
{
    const struct outcome outcome = read_whole(text);
    assert_int_equal(outcome.result, TERN_OK);
    assert_int_equal(outcome.response.status, status);
    assert_int_equal(outcome.response.body_len, strlen(body));
    assert_memory_equal(outcome.body, body, strlen(body));
    assert_int_equal(outcome.keep_alive, keep_alive);
    assert_cut_anywhere(text);
}

static void assert_fails(enum tern_result expected, const char *text)
{
    const struct outcome outcome = read_whole(text);
    if (outcome.result != expected) {
        fail_msg("%s instead of %s for: %s", tern_result_name(outcome.result),
                 tern_result_name(expected), text);
    }
    assert_cut_anywhere(text);
}

// --- Responses that mean something

CASE(test_reads_a_body_of_known_length)
{
    assert_reads("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", true);
    assert_reads("HTTP/1.1 200 OK\r\ncontent-LENGTH:5  \r\nETag: \"1\"\r\n\r\nhello", 200, "hello",
                 true);
    assert_reads("HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n", 409, "", true);
    assert_reads("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 3-4/5\r\n"
                 "Content-Length: 2\r\n\r\nlo",
                 206, "lo", true);
    assert_reads("HTTP/1.1 200\nContent-Length: 1\n\n!", 200, "!", true);
}

CASE(test_knows_who_closes)
{
    assert_reads("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", 200, "hi",
                 false);
    assert_reads("HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nhi", 200,
                 "hi", false);
    assert_reads("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, "hi", false);
    assert_reads("HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, "until the end", false);
}

CASE(test_reads_chunks)
{
    assert_reads("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                 "5\r\nhello\r\n7;note=\"x\"\r\n, world\r\n0\r\n\r\n",
                 200, "hello, world", true);
    assert_reads("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
                 "0a\r\n0123456789\r\n0\r\nTrailer: yes\r\n\r\n",
                 200, "0123456789", true);
}

CASE(test_knows_answers_without_a_body)
{
    assert_reads("HTTP/1.1 204 No Content\r\n\r\n", 204, "", true);
    assert_reads("HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n", 304, "", true);
    assert_reads("HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", 304, "", true);
}

CASE(test_skips_interim_answers)
{
    assert_reads("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nConnection: close\r\n"
                 "Content-Length: 9\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
                 200, "hi", true);
}

static uint32_t retry_after(const char *value)
{
    char text[128];
    snprintf(text, sizeof text, "HTTP/1.1 503 Busy\r\nRetry-After: %s\r\nContent-Length: 0\r\n\r\n",
             value);
    assert_cut_anywhere(text);
    return read_whole(text).response.retry_after_s;
}

CASE(test_reads_when_to_come_back)
{
    assert_int_equal(retry_after("5"), 5);
    assert_int_equal(retry_after("4294967295"), UINT32_MAX);
    assert_int_equal(retry_after("99999999999999999999999"), UINT32_MAX);
    assert_int_equal(retry_after("Fri, 31 Dec 1999 23:59:59 GMT"), 0);
    assert_int_equal(retry_after("5 minutes"), 0);
}

CASE(test_leaves_what_comes_behind)
{
    const struct outcome outcome =
        read_whole("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n\r\n");
    assert_int_equal(outcome.result, TERN_OK);
    assert_int_equal(outcome.used, strlen("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"));
}

CASE(test_skips_long_headers_of_others)
{
    char text[600];
    snprintf(text, sizeof text,
             "HTTP/1.1 200 OK\r\nSet-Cookie: %0200d\r\n%0200d: x\r\nContent-Length: 2\r\n\r\nhi", 1,
             2);
    const struct outcome outcome = read_whole(text);
    assert_int_equal(outcome.result, TERN_OK);
    assert_int_equal(outcome.response.body_len, 2);
}

// --- Responses that are refused

CASE(test_refuses_two_lengths)
{
    assert_fails(TERN_ERR_CORRUPT,
                 "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi!");
    assert_fails(TERN_ERR_CORRUPT,
                 "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi");
    assert_fails(TERN_ERR_CORRUPT, "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nhi");
    assert_fails(TERN_ERR_CORRUPT, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
                                   "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n");
    assert_fails(TERN_ERR_CORRUPT, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
                                   "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
}

CASE(test_refuses_malformed_lengths)
{
    static const char *const lengths[] = {"", "-1", "+1", "0x2", "2 2", "two"};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char text[96];
        snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\nhi", lengths[i]);
        assert_fails(TERN_ERR_CORRUPT, text);
    }
    assert_fails(TERN_ERR_CORRUPT,
                 "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n");
}

CASE(test_refuses_malformed_chunks)
{
    static const char *const bodies[] = {"\r\n",         "-1\r\n", "0x1\r\n!", "2\r\nhi!\r\n",
                                         "2\r\nhi0\r\n", "g\r\n",  "1 2\r\n!"};
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        char text[96];
        snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s",
                 bodies[i]);
        assert_fails(TERN_ERR_CORRUPT, text);
    }
}

CASE(test_refuses_what_is_no_response)
{
    static const char *const heads[] = {
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 600 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "HTTP/1.1 200OK\r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\n\r\n",
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 200 OK\r\n: none\r\n\r\n",
        "HTTP/1.1 200 OK\r\nNo colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n Content-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\rContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: \x01\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        assert_fails(TERN_ERR_CORRUPT, heads[i]);
    }
}

CASE(test_refuses_long_headers_that_count)
{
    char text[400];
    snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: %0200d\r\n\r\nhi", 2);
    assert_fails(TERN_ERR_CORRUPT, text);
}

// Each is small, and there is no end of them.
static void assert_bounded(const char *begin, const char *again)
{
    struct tern_response response = {0};
    struct tern_http_reader reader;
    size_t used = 0;
    tern_http_reader_start(&reader, &response);
    assert_int_equal(tern_http_reader_feed(&reader, (const uint8_t *)begin, strlen(begin), &used),
                     TERN_AGAIN);
    size_t total = used;
    enum tern_result result = TERN_AGAIN;
    while (result == TERN_AGAIN && total <= 2 * TERN_HTTP_LINES_MAX) {
        result = tern_http_reader_feed(&reader, (const uint8_t *)again, strlen(again), &used);
        total += used;
    }
    assert_int_equal(result, TERN_ERR_CORRUPT);
    assert_true(total <= TERN_HTTP_LINES_MAX + 1);
}

CASE(test_ends_endless_lines)
{
    assert_bounded("HTTP/1.1 200 ", "x");
    assert_bounded("HTTP/1.1 200 OK\r\n", "A: b\r\n");
    assert_bounded("", "HTTP/1.1 100 Continue\r\n\r\n");
    assert_bounded("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "A: b\r\n");
}

CASE(test_refuses_bodies_that_do_not_fit)
{
    assert_fails(TERN_ERR_TOO_LARGE, "HTTP/1.1 200 OK\r\nContent-Length: 65\r\n\r\n");
    assert_fails(TERN_ERR_TOO_LARGE,
                 "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999999\r\n\r\n");
    assert_fails(TERN_ERR_TOO_LARGE,
                 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n");
    char text[200];
    snprintf(text, sizeof text, "HTTP/1.1 500 Oops\r\n\r\n%065d", 1);
    const struct outcome outcome = read_whole(text);
    assert_int_equal(outcome.result, TERN_ERR_TOO_LARGE);
    assert_int_equal(outcome.response.status, 500);
    snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n%064d", 1);
    assert_int_equal(read_whole(text).result, TERN_OK);
}

CASE(test_notices_a_cut)
{
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    for (size_t len = 0; len < sizeof text - 1; len++) {
        char part[sizeof text];
        memcpy(part, text, len);
        part[len] = '\0';
        const struct outcome outcome = read_whole(part);
        assert_int_equal(outcome.result, TERN_ERR_NETWORK);
        assert_int_equal(outcome.response.body_len, len > 38 ? len - 38 : 0);
    }
}

// --- Requests

static void assert_head(const struct tern_request *request, uint16_t port, const char *expected)
{
    char head[256];
    size_t len = 0;
    assert_int_equal(tern_http_write_head(request, "agg.example", port, head, sizeof head, &len),
                     TERN_OK);
    assert_int_equal(len, strlen(expected));
    assert_memory_equal(head, expected, len);
    for (size_t size = 0; size < strlen(expected); size++) {
        char *small = malloc(size > 0 ? size : 1);
        assert_int_equal(tern_http_write_head(request, "agg.example", port, small, size, &len),
                         TERN_ERR_NO_SPACE);
        free(small);
    }
}

CASE(test_writes_the_least_head)
{
    const uint8_t body[10] = {0};
    assert_head(&(struct tern_request){.method = "GET", .path = "/healthz"}, 443,
                "GET /healthz HTTP/1.1\r\nHost: agg.example\r\n\r\n");
    assert_head(&(struct tern_request){.method = "PUT",
                                       .path = "/v1/updates/7/9",
                                       .token = "abc",
                                       .body = body,
                                       .body_len = sizeof body},
                8443,
                "PUT /v1/updates/7/9 HTTP/1.1\r\nHost: agg.example:8443\r\n"
                "Authorization: Bearer abc\r\nContent-Length: 10\r\n\r\n");
    assert_head(&(struct tern_request){.method = "GET", .path = "/v1/x", .range_from = 1234567890},
                443, "GET /v1/x HTTP/1.1\r\nHost: agg.example\r\nRange: bytes=1234567890-\r\n\r\n");
    assert_head(&(struct tern_request){.method = "PUT",
                                       .path = "/v1/updates/7/9",
                                       .range_from = 70000,
                                       .body = body,
                                       .body_len = sizeof body},
                443,
                "PUT /v1/updates/7/9 HTTP/1.1\r\nHost: agg.example\r\nContent-Length: 10\r\n"
                "Content-Range: bytes 70000-70009/70010\r\n\r\n");
}

static void assert_unwritable(const char *path, const char *token, const char *host)
{
    char head[256];
    size_t len = 0;
    const struct tern_request request = {.method = "GET", .path = path, .token = token};
    assert_int_equal(tern_http_write_head(&request, host, 443, head, sizeof head, &len),
                     TERN_ERR_ARGUMENT);
}

CASE(test_lets_nobody_write_headers)
{
    assert_unwritable("/a b", NULL, "host");
    assert_unwritable("/a\r\nX: y", NULL, "host");
    assert_unwritable("/", "abc\nX: y", "host");
    assert_unwritable("/", "abc", "host\r\nX: y");
    assert_unwritable("/", "abc\x7f", "host");
}
