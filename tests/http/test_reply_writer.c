// Reply heads, byte by byte.
#include "http/reply.h"
#include "tests/cases.h"
#include "wire/wire.h"

#include <string.h>

static struct tern_blob *blob_of(const char *text)
{
    struct tern_blob *blob = tern_blob_new(strlen(text));
    assert_non_null(blob);
    memcpy(blob->data, text, strlen(text));
    return blob;
}

static void assert_written(struct tern_http_reply reply, struct tern_reply_shape shape,
                           const char *head, const char *body)
{
    struct tern_reply_out out;
    tern_reply_write(&reply, shape, &out);
    assert_int_equal(out.head_len, strlen(head));
    assert_memory_equal(out.head, head, strlen(head));
    assert_int_equal(out.body_len, strlen(body));
    if (out.body_len > 0) {
        assert_memory_equal(out.body, body, out.body_len);
    }
    tern_reply_clear(&out);
}

CASE(test_heads)
{
    const struct tern_reply_shape plain = {0};
    assert_written((struct tern_http_reply){.status = 200, .body = blob_of("abc")}, plain,
                   "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "abc");
    assert_written((struct tern_http_reply){.status = 404}, plain,
                   "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "");
    assert_written((struct tern_http_reply){.status = 204}, plain,
                   "HTTP/1.1 204 No Content\r\n\r\n", "");
    assert_written((struct tern_http_reply){.status = 429, .retry_after_s = 9}, plain,
                   "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\nRetry-After: 9\r\n\r\n",
                   "");
    assert_written(
        (struct tern_http_reply){
            .status = 200, .cache = "immutable", .type = "text/plain", .body = blob_of("abc")},
        (struct tern_reply_shape){.closes = true, .head_only = true},
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nCache-Control: immutable\r\n"
        "ETag: \"1\"\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n",
        "");
    assert_written(
        (struct tern_http_reply){
            .status = 204, .headers = "A: 1\r\nB: 2\r\n", .set_cookie = "a=b; Path=/"},
        plain, "HTTP/1.1 204 No Content\r\nA: 1\r\nB: 2\r\nSet-Cookie: a=b; Path=/\r\n\r\n", "");
    assert_written((struct tern_http_reply){.status = 799}, plain,
                   "HTTP/1.1 799 \r\nContent-Length: 0\r\n\r\n", "");
}

CASE(test_ranges)
{
    const struct tern_reply_shape plain = {0};
    assert_written(
        (struct tern_http_reply){.status = 200, .body = blob_of("abcde"), .body_from = 2}, plain,
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 2-4/5\r\n"
        "Content-Length: 3\r\n\r\n",
        "cde");
    assert_written(
        (struct tern_http_reply){.status = 200, .body = blob_of("abcde"), .body_from = 5}, plain,
        "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */5\r\n"
        "Content-Length: 0\r\n\r\n",
        "");
    assert_written((struct tern_http_reply){.status = 200, .body_from = 1}, plain,
                   "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */0\r\n"
                   "Content-Length: 0\r\n\r\n",
                   "");
}

CASE(test_header_too_long_for_the_head_becomes_an_error)
{
    char type[TERN_REPLY_HEAD_MAX + 10];
    memset(type, 'x', sizeof type);
    type[sizeof type - 1] = '\0';
    assert_written((struct tern_http_reply){.status = 200, .type = type, .body = blob_of("abc")},
                   (struct tern_reply_shape){0},
                   "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n", "");
}

CASE(test_refusals_name_their_reason)
{
    static const struct {
        int status;
        enum tern_result why;
        const char *name;
    } cases[] = {{400, TERN_OK, "corrupt"},
                 {401, TERN_OK, "unauthorized"},
                 {403, TERN_OK, "forbidden"},
                 {408, TERN_OK, "busy"},
                 {413, TERN_OK, "too-large"},
                 {414, TERN_OK, "too-large"},
                 {422, TERN_ERR_UNKNOWN_ROUND, "unknown-round"},
                 {431, TERN_OK, "too-large"},
                 {503, TERN_OK, "busy"},
                 {418, TERN_OK, "http"}};
    const struct tern_http_handler handler = {.on_refusal = NULL};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tern_http_reply reply =
            tern_reply_refusal(&handler, "/", cases[i].status, cases[i].why, NULL);
        tern_Error error = tern_Error_init_zero;
        assert_int_equal(reply.status, cases[i].status);
        assert_non_null(reply.body);
        assert_int_equal(tern_wire_decode_error(reply.body->data, reply.body->len, &error),
                         TERN_OK);
        assert_string_equal(error.name, cases[i].name);
        assert_true((reply.retry_after_s > 0) == (cases[i].status == 503));
        tern_blob_release(reply.body);
    }
}

CASE(test_a_handler_gives_the_sentence_of_a_refusal)
{
    const struct tern_http_handler handler = {.on_refusal = NULL};
    struct tern_http_reply reply =
        tern_reply_refusal(&handler, "/", 401, TERN_OK, "The token has expired.");
    tern_Error error = tern_Error_init_zero;
    assert_int_equal(tern_wire_decode_error(reply.body->data, reply.body->len, &error), TERN_OK);
    assert_string_equal(error.sentence, "The token has expired.");
    tern_blob_release(reply.body);
}

// What was sent leaves memory and is there again for the next reply.
CASE(test_a_file_is_sent_as_it_is)
{
    enum { LEN = 3500000, FROM = 1000001 };
    static uint8_t bytes[LEN];
    struct tern_spool spool;
    for (size_t i = 0; i < LEN; i++) {
        bytes[i] = (uint8_t)(i / 3);
    }
    assert_true(tern_spool_open(&spool, "/tmp"));
    assert_true(tern_spool_append(&spool, bytes, 17));
    assert_true(tern_spool_append(&spool, bytes + 17, LEN - 17));
    struct tern_blob *blob = tern_blob_from_spool(&spool);
    assert_non_null(blob);
    for (int i = 0; i < 2; i++) {
        struct tern_http_reply reply = {
            .status = 200, .body = tern_blob_share(blob), .body_from = FROM};
        struct tern_reply_out out;
        tern_reply_write(&reply, (struct tern_reply_shape){0}, &out);
        assert_int_equal(out.body_len, LEN - FROM);
        tern_reply_sent(&out, out.head_len);
        while (tern_reply_body_sent(&out) < out.body_len) {
            const size_t sent = tern_reply_body_sent(&out);
            const size_t len = out.body_len - sent < 300007 ? out.body_len - sent : 300007;
            assert_memory_equal(out.body + sent, bytes + FROM + sent, len);
            tern_reply_sent(&out, len);
        }
        tern_reply_clear(&out);
    }
    tern_blob_release(blob);
}

CASE(test_blob_lives_until_its_last_holder)
{
    struct tern_blob *blob = blob_of("abc");
    assert_ptr_equal(tern_blob_share(blob), blob);
    tern_blob_release(blob);
    assert_memory_equal(blob->data, "abc", 3);
    tern_blob_release(blob);
    tern_blob_release(NULL);
    assert_null(tern_blob_new(SIZE_MAX));
}
