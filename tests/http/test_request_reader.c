// The request reader without sockets: every way to cut the same bytes gives the same request.
#include "http/request.h"
#include "tests/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct judge {
    int answer;
    uint32_t limit; // 0 = the reader's own
    uint64_t owner;
    int asked;
    uint64_t content_length;
    void *context; // that the permit gets
    int dropped;
};

static int admit(void *ctx, const struct tern_http_request *request, uint64_t content_length,
                 struct tern_http_permit *permit)
{
    struct judge *judge = ctx;
    assert_null(request->body);
    assert_int_equal(permit->body_limit, 100);
    permit->body_limit = judge->limit != 0 ? judge->limit : permit->body_limit;
    permit->owner = judge->owner;
    permit->context = judge->answer == 0 ? judge->context : NULL;
    judge->asked++;
    judge->content_length = content_length;
    return judge->answer;
}

static void on_dropped(void *ctx, void *context)
{
    struct judge *judge = ctx;
    assert_ptr_equal(context, judge->context);
    judge->dropped++;
}

static struct tern_request_reader *reader_of(struct judge *judge)
{
    const struct tern_reader_config config = {.header_bytes = 200,
                                              .body_bytes = 100,
                                              .peer = "peer",
                                              .admit = admit,
                                              .ctx = judge,
                                              .on_dropped = on_dropped,
                                              .dropped_ctx = judge};
    struct tern_request_reader *reader = tern_reader_new(&config);
    assert_non_null(reader);
    return reader;
}

// Feeds len bytes in pieces of `piece`; stops at the first answer that is not TERN_AGAIN.
static enum tern_result feed(struct tern_request_reader *reader, const char *data, size_t len,
                             size_t piece, size_t *taken)
{
    enum tern_result result = TERN_AGAIN;
    *taken = 0;
    while (result == TERN_AGAIN && *taken < len) {
        size_t part = len - *taken < piece ? len - *taken : piece;
        size_t used = 0;
        result = tern_reader_feed(reader, (const uint8_t *)data + *taken, part, &used);
        assert_true(used <= part);
        *taken += used;
    }
    return result;
}

CASE(test_every_split_gives_the_same_request)
{
    static const char text[] =
        "\r\nPUT /v1/updates/3/4?q HTTP/1.1\r\nHost: h\r\nauthorization:\tBearer token \r\n"
        "Cookie: a=b; c=d\r\nOrigin: http://h\r\nRange: "
        "bytes=5-\r\nX-Long-Name-That-Is-None-Of-Ours: 1\r\n"
        "Content-Length: 7\r\n\r\nabcdefgGET ";
    size_t whole = strlen(text) - 4;
    for (size_t piece = 1; piece <= sizeof text; piece++) {
        struct judge judge = {0};
        struct tern_request_reader *reader = reader_of(&judge);
        size_t taken = 0;
        assert_int_equal(feed(reader, text, strlen(text), piece, &taken), TERN_OK);
        assert_int_equal(taken, whole); // what is behind is the next request's
        const struct tern_http_request *request = tern_reader_request(reader);
        assert_string_equal(request->method, "PUT");
        assert_string_equal(request->path, "/v1/updates/3/4");
        assert_string_equal(request->query, "q");
        assert_string_equal(request->authorization, "Bearer token");
        assert_string_equal(request->host, "h");
        assert_string_equal(request->cookie, "a=b; c=d");
        assert_string_equal(request->origin, "http://h");
        assert_string_equal(request->peer, "peer");
        assert_int_equal(request->range_from, 5);
        assert_int_equal(request->body_len, 7);
        assert_memory_equal(request->body, "abcdefg", 7);
        assert_int_equal(judge.asked, 1);
        assert_true(judge.content_length == 7);
        assert_true(tern_reader_state(reader)->keeps_alive);
        tern_reader_free(reader);
    }
}

static int status_of(const char *text, struct judge *judge, bool *reusable)
{
    struct tern_request_reader *reader = reader_of(judge);
    size_t taken = 0;
    enum tern_result result = feed(reader, text, strlen(text), 7, &taken);
    int status = result == TERN_OK ? 200 : tern_reader_state(reader)->status;
    *reusable = tern_reader_state(reader)->discards;
    assert_int_not_equal(result, TERN_AGAIN);
    tern_reader_free(reader);
    return status;
}

#define RANGED(value)                                                                              \
    "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\nContent-Range: " value "\r\n\r\n123456789"

CASE(test_statuses)
{
    static const struct {
        const char *text;
        int status;
        bool reusable;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", 200, false},
        {"GET / HTTP/1.1\r\nHost: h\r\nExpect: x\r\n\r\n", 417, true},
        {"GET / HTTP/1.1\r\nHost: h\r\nExpect: x\r\nBad Name: x\r\n\r\n", 400, false},
        {"GET / HTTP/0.9\r\n\r\n", 505, false},
        {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 101\r\n\r\n", 413, true},
        {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 999999\r\n\r\n", 413, false},
        {"PUT / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 101\r\n\r\n", 413,
         false},
        {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n", 400, false},
        {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400,
         false},
        {"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", 411, false},
        {"PUT / HTTP/1.1\r\nHost: h\r\ntransfer-encoding: identity\r\n\r\n", 411, false},
        {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding:\r\n\r\nx", 400,
         false},
        {"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\nContent-Length: 1\r\n\r\nx",
         400, false},
        {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: "
         "chunked\r\n\r\n0\r\n\r\n",
         400, false},
        {"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: "
         "5\r\n\r\n0\r\n\r\n",
         400, false},
        {"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
         "chunked\r\n\r\n",
         411, false},
        {"PUT / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", 411, false},
        {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1, 1\r\n\r\nx", 400, false},
        {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 0x1\r\n\r\nx", 400, false},
        {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1 1\r\n\r\nx", 400, false},
        {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length : 1\r\n\r\nx", 400, false},
        {"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400, false},
        {"GET /  HTTP/1.1\r\nHost: h\r\n\r\n", 400, false},
        {"GET / HTTP/1.1 \r\nHost: h\r\n\r\n", 400, false},
        {" GET / HTTP/1.1\r\nHost: h\r\n\r\n", 400, false},
        {"\r\n GET / HTTP/1.1\r\nHost: h\r\n\r\n", 400, false},
        {"GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n", 400, false},
        {"GET /\tHTTP/1.1\r\nHost: h\r\n\r\n", 400, false},
        {"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n", 400, false},
        {"GET /a\rb HTTP/1.1\r\nHost: h\r\n\r\n", 400, false},
        {"GET /a# HTTP/1.1\r\nHost: h\r\n\r\n", 400, false},
        {"GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n", 400, false},
        {"GET /a?b#c HTTP/1.1\r\nHost: h\r\n\r\n", 400, false},
        {"GET /\xc3\xa4 HTTP/1.1\r\nHost: h\r\n\r\n", 400, false},
        {"GET a HTTP/1.1\r\nHost: h\r\n\r\n", 400, false},
        {"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", 400, false},
        {"GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n", 400, false},
        {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\n", 400, false},
        {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\nx", 400, false},
        {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400,
         false},
        {"GET / HTTP/1.1\r\n\r\n", 400, false},
        {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, false},
        {"GET / HTTP/1.1\r\nHost:\r\n\r\n", 400, false},
        {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, false},
        {"GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n", 400, false},
        {"GET / HTTP/1.1\r\nHost: h\r\n\tX: a\r\n\r\n", 400, false},
        {"GET / HTTP/1.1\nHost: h\r\n\r\n", 400, false},
        {"GET / HTTP/1.1\r\nHost: h\n\r\n", 400, false},
        {"GET / HTTP/1.1\r\nHost: h\r\n\n", 400, false},
        {"GET / HTTP/1.1\r\nHost: h\r\n\rX", 400, false},
        {"GET / HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n", 400, false},
        {"GET / HTTP/1.1\r\nHost: h\r\nX: a\x1b[2J\r\n\r\n", 400, false},
        {"\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400, false},
        {"G\x01T / HTTP/1.1\r\nHost: h\r\n\r\n", 400, false},
        {"GET /\x01 HTTP/1.1\r\nHost: h\r\n\r\n", 400, false},
        {"\x16\x03\x01\x02", 400, false},
        {RANGED("bytes 1-9/10"), 400, false}, // nobody's body
        {RANGED("bytes 0-8/9"), 400, false},
        {RANGED(""), 400, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct judge judge = {0};
        bool reusable = false;
        assert_int_equal(status_of(cases[i].text, &judge, &reusable), cases[i].status);
        assert_int_equal(reusable, cases[i].reusable);
    }
}

CASE(test_admission_is_asked_before_the_body)
{
    struct judge judge = {.answer = 429};
    bool reusable = false;
    assert_int_equal(
        status_of("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n", &judge, &reusable),
        429);
    assert_true(judge.content_length == 9);
    assert_true(reusable);
    assert_int_equal(status_of("GET / HTTP/1.1\r\nHost: h\r\n\r\n", &judge, &reusable), 429);
    assert_true(judge.content_length == 0);
}

CASE(test_admission_sets_the_body_limit)
{
    static const struct {
        const char *text;
        uint32_t limit;
        int status;
    } cases[] = {
        {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n123456789", 9, 200},
        {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n", 8, 413},
        {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 101\r\n\r\n", 200,
         413}, // lowered, never raised
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct judge judge = {.limit = cases[i].limit};
        bool reusable = false;
        assert_int_equal(status_of(cases[i].text, &judge, &reusable), cases[i].status);
    }
}

CASE(test_rest_of_a_refused_request_is_dropped)
{
    static const char text[] = "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n123456789GET";
    struct judge judge = {.answer = 403};
    struct tern_request_reader *reader = reader_of(&judge);
    size_t taken = 0;
    size_t rest = 0;
    assert_int_equal(feed(reader, text, strlen(text), 99, &taken), TERN_ERR_HTTP);
    assert_int_equal(feed(reader, text + taken, strlen(text) - taken, 3, &rest), TERN_OK);
    assert_string_equal(text + taken + rest, "GET");
    assert_null(tern_reader_request(reader)->body);
    tern_reader_free(reader);
}

// A request that is handed over outlives its connection, which had the address.
CASE(test_request_keeps_its_own_copy_of_the_peer)
{
    char peer[] = "2001:db8:1234:5678:9abc:def0:1234:5678";
    const struct tern_reader_config config = {.header_bytes = 200, .body_bytes = 100, .peer = peer};
    struct tern_request_reader *reader = tern_reader_new(&config);
    assert_non_null(reader);
    memset(peer, 'x', sizeof peer - 1);
    assert_string_equal(tern_reader_request(reader)->peer,
                        "2001:db8:1234:5678:9abc:def0:1234:5678");
    tern_reader_free(reader);
}

// One way alone says where the rest of a body begins and that it is all of it.
CASE(test_content_range_has_one_form)
{
    static const struct {
        const char *text;
        int status;
    } cases[] = {
        {RANGED("bytes 0-8/9"), 200}, // all of it
        {RANGED("bytes 1-9/10"), 416},
        {RANGED(" bytes 91-99/100 "), 416},
        {RANGED("bytes 92-100/101"), 413},
        {RANGED("bytes 4294967290-4294967298/4294967299"), 413},
        {RANGED("bytes 1-8/9"), 400},
        {RANGED("bytes 1-9/11"), 400},
        {RANGED("bytes 1-9/9"), 400},
        {RANGED("bytes 9-1/10"), 400},
        {RANGED("bytes 1-9/*"), 400},
        {RANGED("bytes */10"), 400},
        {RANGED("bytes 1-9"), 400},
        {RANGED("bytes 1-/10"), 400},
        {RANGED("bytes -9/10"), 400},
        {RANGED("bytes  1-9/10"), 400},
        {RANGED("bytes 1 -9/10"), 400},
        {RANGED("bytes 1-9/10x"), 400},
        {RANGED("bytes +1-9/10"), 400},
        {RANGED("bytes=1-9/10"), 400},
        {RANGED("Bytes 1-9/10"), 400},
        {RANGED("lines 1-9/10"), 400},
        {RANGED("bytes 0-18446744073709551615/0"), 400},
        {RANGED("bytes 0-18446744073709551615/18446744073709551616"), 400},
        {RANGED("bytes 00000000000000000000000000000001-9/10"), 400},
        {RANGED("bytes 1-9/10\r\nContent-Range: bytes 1-9/10"), 400},
        {"PUT / HTTP/1.1\r\nHost: h\r\nContent-Range: bytes 1-9/10\r\n\r\n", 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct judge judge = {.owner = 5};
        bool reusable = false;
        assert_int_equal(status_of(cases[i].text, &judge, &reusable), cases[i].status);
    }
}

CASE(test_head_limit_is_exact)
{
    for (size_t len = 190; len < 210; len++) {
        char text[256];
        memset(text, 'a', sizeof text);
        memcpy(text, "GET / HTTP/1.1\r\nHost: h\r\nX: ", 28);
        memcpy(text + len - 4, "\r\n\r\n", 4);
        struct judge judge = {0};
        struct tern_request_reader *reader = reader_of(&judge);
        size_t taken = 0;
        enum tern_result result = feed(reader, text, len, len, &taken);
        assert_int_equal(result, len <= 200 ? TERN_OK : TERN_ERR_TOO_LARGE);
        assert_int_equal(tern_reader_state(reader)->status, len <= 200 ? 0 : 431);
        tern_reader_free(reader);
    }
}

CASE(test_only_open_ranges_are_taken)
{
    static const struct {
        const char *value;
        uint64_t from;
    } cases[] = {
        {"bytes=0-", 0},
        {"bytes=77-", 77},
        {"BYTES=77-", 77},
        {"bytes=1-2", 0},
        {"bytes=-5", 0},
        {"bytes=", 0},
        {"bytes=7", 0},
        {"bytes=7-,9-", 0},
        {"bytes= 7-", 0},
        {"lines=7-", 0},
        {"bytes=18446744073709551616-", UINT64_MAX}, // beyond the end of anything
        {"", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200];
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: h\r\nRange: %s\r\n\r\n",
                 cases[i].value);
        struct judge judge = {0};
        struct tern_request_reader *reader = reader_of(&judge);
        size_t taken = 0;
        assert_int_equal(feed(reader, text, strlen(text), 5, &taken), TERN_OK);
        assert_true(tern_reader_request(reader)->range_from == cases[i].from);
        tern_reader_free(reader);
    }
}

static struct tern_request_reader *reader_within(struct tern_body_quota *quota)
{
    const struct tern_reader_config config = {
        .header_bytes = 200, .body_bytes = 10000, .quota = quota, .peer = "peer"};
    struct tern_request_reader *reader = tern_reader_new(&config);
    assert_non_null(reader);
    return reader;
}

// Feeds a request of a body of `len` bytes.
static enum tern_result feed_body(struct tern_request_reader *reader, size_t len)
{
    char text[10200];
    size_t taken = 0;
    size_t head = (size_t)snprintf(text, sizeof text,
                                   "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n", len);
    memset(text + head, 'x', len);
    return feed(reader, text, head + len, 1000, &taken);
}

CASE(test_bodies_share_a_memory)
{
    struct tern_body_quota *quota = tern_body_quota_new(NULL, 10000, 0);
    assert_non_null(quota);
    struct tern_request_reader *first = reader_within(quota);
    assert_int_equal(feed_body(first, 6000), TERN_OK);
    assert_true(quota->memory_taken == 6000);
    struct tern_request_reader *second = reader_within(quota);
    assert_int_equal(feed_body(second, 6000), TERN_ERR_BUSY);
    assert_int_equal(tern_reader_state(second)->status, 503);
    tern_reader_free(second);
    assert_true(quota->memory_taken == 6000);
    struct tern_request_reader *brief = reader_within(quota);
    assert_int_equal(feed_body(brief, 4096), TERN_OK); // is heard all the same
    tern_reader_free(brief);
    tern_reader_free(first);
    assert_true(quota->memory_taken == 0);
    struct tern_request_reader *largest = reader_within(quota);
    assert_int_equal(feed_body(largest, 10000), TERN_OK);
    tern_body_quota_release(quota);
    assert_true(quota->memory_taken == 10000); // it lives as long as the reader
    tern_reader_free(largest);
}

// The handler owns the context of a request that it has taken; the reader drops any other.
CASE(test_a_context_that_nobody_took_is_dropped)
{
    static const char *const untaken[] = {
        "PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\n\r\nabcdefg", // complete
        "PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\n\r\nabc",     // cut
        "PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 70\r\n\r\n",       // over the permit's limit
    };
    size_t taken = 0;
    for (size_t i = 0; i < sizeof untaken / sizeof untaken[0]; i++) {
        struct judge judge = {.limit = 50, .context = &taken};
        struct tern_request_reader *reader = reader_of(&judge);
        (void)feed(reader, untaken[i], strlen(untaken[i]), 1000, &taken);
        assert_int_equal(judge.dropped, 0);
        tern_reader_free(reader);
        assert_int_equal(judge.dropped, 1);
    }
    struct judge judge = {.context = &taken};
    struct tern_request_reader *reader = reader_of(&judge);
    assert_int_equal(feed(reader, untaken[0], strlen(untaken[0]), 1000, &taken), TERN_OK);
    assert_ptr_equal(tern_reader_context(reader), &taken);
    assert_null(tern_reader_context(reader));
    tern_reader_free(reader);
    assert_int_equal(judge.dropped, 0);
}
