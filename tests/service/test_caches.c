// Caches that send downloads to clients: who may ask for whom, and what is counted.
#include "harness.h"

#include "service/requests.h"
#include <stdio.h>
#include <string.h>

#include "one_harness.h"
#include "tests/cases.h"

static const bool cache = true;
static uint64_t client;
static uint32_t size;
static char download[TERN_PATH_MAX];
static char question[TERN_PATH_MAX];

static void name(const uint8_t sha256[TERN_SHA256_SIZE])
{
    const size_t prefix = strlen(TERN_PATH_DOWNLOADS);
    tern_path_download(sha256, download);
    snprintf(question, sizeof question, "/v1/authorize/%s", download + prefix);
}

// A round, after which there is a download, and a client that has no part in it.
static void start(void)
{
    harness.config.federation.round.cohort = 1;
    harness.config.federation.min_clients = 1;
    harness_start(&harness);
    const uint64_t busy = enroll(&harness, false);
    const tern_UpdateReply reply = do_round(&harness, busy, NULL, 0.5F);
    assert_true(reply.next.task.downloads_count > 0);
    client = enroll(&harness, false);
    size = reply.next.task.downloads[0].size;
    name(reply.next.task.downloads[0].sha256.bytes);
}

static struct answer ask_as(bool peer_is_cache, const char *path, const char *token)
{
    harness.peer_is_cache = peer_is_cache;
    struct answer answer = call(&harness, "GET", path, token, NULL, 0);
    harness.peer_is_cache = false;
    return answer;
}

static void expect_status(int status, bool peer_is_cache, const char *path, const char *token)
{
    struct answer answer = ask_as(peer_is_cache, path, token);
    assert_int_equal(answer.status, status);
    assert_null(answer.cache);
    assert_int_equal(answer.tag.cache_sends, 0);
    assert_int_equal(answer.tag.payload_down, 0);
    answer_free(&answer);
}

#define TEST(test) CASE_WITH(test, setup, teardown)

TEST(test_only_caches_may_ask)
{
    start();
    expect_status(403, !cache, question, harness.tokens[client]);
    expect_status(403, !cache, question, NULL);
    answer_expect(ask_as(cache, question, harness.tokens[client]), 204);
}

TEST(test_a_cache_sends_to_whom_the_aggregator_would)
{
    static const uint8_t unknown[TERN_SHA256_SIZE] = {1};
    start();
    const char *token = harness.tokens[client];
    struct answer answer = ask_as(cache, question, token);
    assert_int_equal(answer.status, 204);
    assert_null(answer.body);
    assert_null(answer.cache);
    answer_free(&answer);
    expect_status(401, cache, question, NULL);
    expect_status(401, cache, question, "AAAAAAAAAAAAAAAAAAAAAA");
    expect_status(405, cache, TERN_PATH_CHECKIN, token);
    answer_expect(call(&harness, "PUT", question, token, NULL, 0), 405);
    struct tern_db *other = harness_look(&harness);
    assert_int_equal(tern_db_begin(other), TERN_OK);
    assert_int_equal(tern_db_client_revoke(other, client), TERN_OK);
    assert_int_equal(tern_db_commit(other), TERN_OK);
    tern_db_close(other);
    expect_status(401, cache, question, token);
    expect_status(401, cache, download, token);
    name(unknown);
    expect_status(404, cache, question, harness.tokens[1]);
    expect_status(401, cache, question, token);
}

TEST(test_names_have_one_form)
{
    char path[2 * TERN_PATH_MAX];
    start();
    static const char *const forms[] = {
        "%s/", "%s=", "%sA", "/%s", "%.56s", "%s ", "%sAAAAAAAAAAAAAAAAAAAAAAAAAA"};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(path, sizeof path, forms[i], question);
#pragma GCC diagnostic pop
        expect_status(404, cache, path, harness.tokens[client]);
    }
    // Two bits of the last character stand for nothing: only one of the four that say the same is taken.
    snprintf(path, sizeof path, "%s", question);
    path[strlen(path) - 1]++;
    expect_status(404, cache, path, harness.tokens[client]);
}

static void expect_counted(uint64_t from, uint64_t sends, uint64_t receives, uint64_t payload)
{
    harness.range_from = from;
    struct answer answer = ask_as(cache, question, harness.tokens[client]);
    harness.range_from = 0;
    assert_int_equal(answer.status, 204);
    assert_true(answer.tag.peer_is_cache);
    assert_int_equal(answer.tag.client, client);
    assert_int_equal(answer.tag.purpose, TERN_PURPOSE_DOWNLOAD);
    assert_int_equal(answer.tag.cache_sends, sends);
    assert_int_equal(answer.tag.cache_receives, receives);
    assert_int_equal(answer.tag.payload_down, payload);
    answer_free(&answer);
}

// The heads are those of docs/PROTOCOL.md.
TEST(test_the_client_is_counted_for_what_the_cache_sends)
{
    char head[512];
    start();
    const size_t request = strlen("GET ") + strlen(download) + strlen(" HTTP/1.1\r\n") +
                           strlen("Host: localhost\r\n") + 46 + strlen("\r\n");
    struct answer direct = ask_as(!cache, download, harness.tokens[client]);
    assert_false(direct.tag.peer_is_cache);
    assert_int_equal(direct.body->len, size);
    const uint64_t payload = direct.tag.payload_down;
    answer_free(&direct);
    static const char rest[] =
        "Cache-Control: public, max-age=31536000, immutable\r\nETag: \"1\"\r\n\r\n";
    int len =
        snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %u\r\n%s", size, rest);
    expect_counted(0, (uint64_t)len + size, request, payload);
    len = snprintf(head, sizeof head,
                   "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 100-%u/%u\r\n"
                   "Content-Length: %u\r\n%s",
                   size - 1, size, size - 100, rest);
    expect_counted(100, (uint64_t)len + size - 100, request + strlen("Range: bytes=100-\r\n"),
                   payload < size - 100 ? payload : size - 100);
    for (uint64_t past = size; past < size + 2; past++) {
        len = snprintf(head, sizeof head,
                       "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */%u\r\n"
                       "Content-Length: 0\r\n%s",
                       size, rest);
        char range[64];
        const int range_len = snprintf(range, sizeof range, "Range: bytes=%u-\r\n", (unsigned)past);
        expect_counted(past, (uint64_t)len, request + (size_t)range_len, 0);
    }
}

// In the store, by client and purpose; what went between cache and aggregator is apart.
TEST(test_the_meter_has_the_client_and_not_the_cache)
{
    struct tern_http_tag tag = {.client = 2,
                                .purpose = TERN_PURPOSE_DOWNLOAD,
                                .payload_down = 19000,
                                .peer_is_cache = true,
                                .cache_receives = 100,
                                .cache_sends = 20000};
    const struct tern_bytes hop_up = {.http = 5, .tls = 6, .wire = 7};
    const struct tern_bytes hop_down = {.payload = 1, .http = 50, .tls = 60, .wire = 70};
    struct tern_service_facts facts;
    start();
    tern_service_facts(harness.service, &facts);
    const struct tern_bytes none = facts.bytes.bytes[TERN_PURPOSE_DOWNLOAD][TERN_DOWN];
    harness.handler.on_metered(harness.handler.ctx, &tag, &hop_up, &hop_down);
    tern_service_facts(harness.service, &facts);
    const struct tern_bytes *up = &facts.bytes.bytes[TERN_PURPOSE_DOWNLOAD][TERN_UP];
    const struct tern_bytes *down = &facts.bytes.bytes[TERN_PURPOSE_DOWNLOAD][TERN_DOWN];
    assert_int_equal(down->payload - none.payload, 19000);
    assert_int_equal(down->http, 20000);
    assert_int_equal(down->tls, 20000 + 2 * 29);
    assert_int_equal(down->wire, 20000 + 2 * 29 + 15 * 52);
    assert_int_equal(up->http, 100);
    assert_int_equal(up->tls, 129);
    assert_int_equal(up->wire, 129 + 52 + 8 * 52);
    assert_int_equal(facts.cache_wire_up, 7);
    assert_int_equal(facts.cache_wire_down, 70);
    // What a cache fetched counts for nobody.
    tag.cache_sends = 0;
    tag.cache_receives = 0;
    harness.handler.on_metered(harness.handler.ctx, &tag, &hop_up, &hop_down);
    tern_service_facts(harness.service, &facts);
    assert_int_equal(facts.bytes.bytes[TERN_PURPOSE_DOWNLOAD][TERN_DOWN].http, 20000);
    assert_int_equal(facts.cache_wire_down, 140);
    harness_stop(&harness);
    struct tern_db_meter meter;
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &harness.db, why), TERN_OK);
    assert_int_equal(tern_db_meter_of(harness.db, 2, 0, &meter), TERN_OK);
    assert_int_equal(meter.exchanges, 1);
    assert_int_equal(meter.down.payload, 19000);
}

// The answer of a batch that failed replaces what was to be told, and then the cache sends nothing.
TEST(test_who_is_not_told_sends_nothing)
{
    const struct tern_download_facts facts = {.size = 5000, .payload = 4900, .shared = true};
    struct request request = {.kind = REQUEST_AUTHORIZE, .u.download.request_bytes = 100};
    tern_answer_authorized(&request, &facts);
    assert_int_equal(request.reply.status, 204);
    assert_true(request.tag.cache_sends > 5000);
    assert_int_equal(request.tag.cache_receives, 100);
    tern_answer_unavailable(&request);
    assert_int_equal(request.reply.status, 503);
    assert_int_equal(request.tag.cache_sends, 0);
    assert_int_equal(request.tag.cache_receives, 0);
    assert_int_equal(request.tag.payload_down, 0);
    tern_blob_release(request.reply.body);
}

// A question is a request of the client's; that the cache fetches the download for it is not another.
TEST(test_questions_are_limited_and_fetching_is_not)
{
    harness.config.limits.requests_per_minute = 10;
    start();
    const char *token = harness.tokens[client];
    for (unsigned i = 0; i < 10; i++) {
        struct answer answer = ask_as(cache, question, token);
        answer_expect(answer, 204);
        answer = ask_as(cache, download, token);
        assert_int_equal(answer.status, 200);
        assert_true(answer.tag.peer_is_cache);
        assert_int_equal(answer.tag.cache_sends, 0);
        answer_free(&answer);
    }
    struct answer answer = ask_as(cache, question, token);
    assert_int_equal(answer.status, 429);
    assert_true(answer.retry_after_s > 0);
    assert_int_equal(answer.tag.cache_sends, 0);
    answer_free(&answer);
    expect_status(429, !cache, download, token);
    struct tern_service_facts facts;
    tern_service_facts(harness.service, &facts);
    assert_int_equal(facts.authorized, 10);
    assert_int_equal(facts.downloads, 10);
    assert_int_equal(facts.cache_fills, 10);
}

// The connection of a cache is everybody's: it is no client's share that it takes.
TEST(test_connections_of_caches_are_no_clients)
{
    start();
    char authorization[64];
    snprintf(authorization, sizeof authorization, "Bearer %s", harness.tokens[client]);
    struct tern_http_request http = {.method = "GET",
                                     .path = question,
                                     .authorization = authorization,
                                     .host = "localhost",
                                     .certificate = "",
                                     .peer = "192.0.2.1",
                                     .peer_is_cache = true};
    struct tern_http_permit permit = {.body_limit = 100};
    assert_int_equal(harness.handler.on_headers(harness.handler.ctx, &http, 0, &permit), 0);
    harness.handler.on_dropped(harness.handler.ctx, permit.context);
    assert_true(permit.known);
    assert_int_equal(permit.client, 0);
    http.path = download;
    http.peer_is_cache = false;
    assert_int_equal(harness.handler.on_headers(harness.handler.ctx, &http, 0, &permit), 0);
    harness.handler.on_dropped(harness.handler.ctx, permit.context);
    assert_int_equal(permit.client, client);
}
