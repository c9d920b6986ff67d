// What is refused, how, and that a refusal leaves the database as it was.
#include "harness.h"

#include "util/bytes.h"

#include <stdlib.h>
#include <string.h>

#include "one_harness.h"
#include "tests/cases.h"

// --- Routes and sizes

static void expect_status(const char *method, const char *path, size_t len, int status)
{
    uint8_t *body = calloc(1, len + 1);
    answer_expect(call(&harness, method, path, harness.tokens[1], body, len), status);
    free(body);
}

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_routes_and_sizes)
{
    harness_start(&harness);
    enroll(&harness, false);
    expect_status("GET", "/healthz", 0, 200);
    expect_status("GET", "/", 0, 404);
    expect_status("GET", "/v1/downloads/short", 0, 404);
    expect_status("PUT", "/v1/updates/1", 0, 404);
    expect_status("PUT", "/v1/updates/01/1", 0, 404);
    expect_status("GET", TERN_PATH_CHECKIN, 0, 405);
    expect_status("POST", "/v1/updates/1/1", 0, 405);
    expect_status("GET", "/readyz", 0, 200);
    expect_status("DELETE", "/healthz", 0, 405);
    expect_status("POST", "/readyz", 0, 405);
    expect_status("POST", TERN_PATH_CHECKIN, TERN_WIRE_MESSAGE_MAX + 1, 413);
    expect_status("POST", TERN_PATH_ENROLL, TERN_WIRE_MESSAGE_MAX + 1, 413);
    expect_status("PUT", "/v1/updates/1/1", 650 * 4 + 2000, 413);
}

// From beyond the end there is nothing, which the listener answers with 416.
static void expect_left(const char *path, uint64_t from, size_t left)
{
    harness.range_from = from;
    struct answer answer = call(&harness, "GET", path, harness.tokens[1], NULL, 0);
    harness.range_from = 0;
    assert_int_equal(answer.body_from, from < SIZE_MAX ? from : SIZE_MAX);
    assert_int_equal(answer.tag.payload_down, left);
    answer_free(&answer);
}

TEST(test_ranges)
{
    char path[TERN_PATH_MAX];
    harness_start_with(&harness, 2);
    do_round(&harness, 1, NULL, 1.0F);
    tern_UpdateReply reply = do_round(&harness, 2, NULL, 1.0F);
    tern_path_download(reply.next.task.downloads[0].sha256.bytes, path);
    const uint32_t size = reply.next.task.downloads[0].size;
    expect_left(path, size - 1, 1);
    expect_left(path, size, 0);
    expect_left(path, (uint64_t)1 << 32, 0);
    expect_left(path, UINT64_MAX, 0);
    for (int i = 0; i < 2; i++) {
        struct answer answer = call(&harness, "GET", path, harness.tokens[1], NULL, 0);
        assert_int_equal(answer.status, 200);
        assert_int_equal(answer.tag.purpose, TERN_PURPOSE_DOWNLOAD);
        assert_in_range(answer.tag.payload_down, 650 * 4, 650 * 4 + 20);
        answer_free(&answer);
        harness_restart(&harness); // from the store as well as from memory
    }
}

// --- Check-ins and clients

static void expect_codec_missing(uint32_t known, const char *what)
{
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    tern_Error error;
    request.codecs = known;
    struct answer answer = put_checkin(&harness, 1, &request);
    assert_int_equal(answer.status, 422);
    assert_int_equal(answer_error_name(&answer), TERN_ERR_UNKNOWN);
    assert_int_equal(tern_wire_decode_error(answer.body->data, answer.body->len, &error), TERN_OK);
    assert_non_null(strstr(error.sentence, what));
    answer_free(&answer);
}

// As `tern-aggregator provision` beside the service; returns the client's id.
static uint64_t provision(void)
{
    struct tern_db *other;
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &other, why), TERN_OK);
    assert_int_equal(tern_db_begin(other), TERN_OK);
    struct tern_db_client row = {.name = "provisioned"};
    uint8_t token[TERN_WIRE_TOKEN_BYTES] = {1, 2, 3};
    tern_sha256(token, sizeof token, row.token_hash);
    assert_int_equal(tern_db_client_add(other, &row), TERN_OK);
    assert_int_equal(tern_db_commit(other), TERN_OK);
    tern_db_close(other);
    tern_base64url_encode(token, sizeof token, harness.tokens[row.id]);
    return row.id;
}

// `tern-aggregator provision` may know of another limit than the service.
TEST(test_clients_beyond_the_limit_do_not_stop_the_service)
{
    harness.config.federation.limits.clients = 1;
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    uint64_t two = provision();
    checkin(&harness, one, NULL);
    checkin(&harness, two, NULL);
    harness_restart(&harness);
    checkin(&harness, two, NULL);
}

// A round of two would wait for it until its deadline.
TEST(test_provisioned_clients_count_once_they_have_come)
{
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    uint64_t two = provision();
    harness_restart(&harness);
    assert_false(checkin(&harness, one, NULL).has_task);
    test_advance(2000);
    assert_false(checkin(&harness, one, NULL).has_task);
    checkin(&harness, two, NULL);
    harness_restart(&harness);
    assert_true(checkin(&harness, one, NULL).has_task);
    assert_true(checkin(&harness, two, NULL).has_task);
}

// The sentence names the one that is missing, and not those that the client knows.
TEST(test_client_is_told_which_codec_it_lacks)
{
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    enum { up = 1u << TERN_CODEC_FLOAT32, down = 1u << TERN_CODEC_3LC };
    harness.config.federation.downloads.codec.id = TERN_CODEC_3LC;
    harness_start(&harness);
    enroll(&harness, false);
    expect_codec_missing(up, "downloads are encoded with 3lc,");
    expect_codec_missing(down, "updates are encoded with float32,");
    static const uint32_t enough[] = {up | down, 0}; // 0: all
    for (size_t i = 0; i < sizeof enough / sizeof enough[0]; i++) {
        request.codecs = enough[i];
        answer_expect(put_checkin(&harness, 1, &request), 200);
    }
}

TEST(test_checkins_that_cannot_be_served)
{
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    harness_start(&harness);
    enroll(&harness, false);
    request.codecs = 7;
    request.model_hash.size = TERN_SHA256_SIZE;
    struct answer answer = put_checkin(&harness, 1, &request);
    assert_int_equal(answer.status, 422);
    assert_int_equal(answer_error_name(&answer), TERN_ERR_MODEL_MISMATCH);
    answer_free(&answer);
    expect_status("POST", TERN_PATH_CHECKIN, 20, 422);
    expect_status("POST", TERN_PATH_ENROLL, 20, 422);
}
