// What a client is told that asks how much of its update arrived, and what is kept for whom.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "one_harness.h"
#include "store/store.h"
#include "tests/cases.h"

static uint8_t *body;
static size_t body_len;
static uint32_t round_number;
static char path[TERN_PATH_MAX];

// Client 1 has trained, and its update is `body`.
static void begin(void)
{
    harness_start(&harness);
    enroll(&harness, false);
    enroll(&harness, false);
    const tern_CheckinReply first = checkin(&harness, 1, NULL);
    assert_true(first.has_task);
    round_number = first.task.round;
    body_len = encode_update(&harness, &first.task, 1.0F, 10, &body);
    tern_path_update(round_number, 1, path);
}

static tern_UpdateReply ask(uint64_t client, int status)
{
    tern_UpdateReply reply = tern_UpdateReply_init_zero;
    struct answer answer = call(&harness, "GET", path, harness.tokens[client], NULL, 0);
    assert_int_equal(answer.status, status);
    assert_int_equal(answer.tag.client, client);
    assert_int_equal(answer.tag.purpose, TERN_PURPOSE_UPLOAD);
    assert_int_equal(answer.tag.payload_up, 0);
    if (status == 200) {
        assert_int_equal(tern_wire_decode_update_reply(answer.body->data, answer.body->len, &reply),
                         TERN_OK);
    } else {
        assert_int_equal(answer_error_name(&answer), TERN_ERR_NOT_FOUND);
    }
    answer_free(&answer);
    return reply;
}

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_tells_what_is_kept)
{
    begin();
    harness.unfinished.len = 70000;
    memset(harness.unfinished.sha256, 0xab, TERN_SHA256_SIZE);
    const tern_UpdateReply reply = ask(1, 200);
    assert_int_equal(reply.status, tern_UpdateStatus_UPDATE_UNFINISHED);
    assert_int_equal(reply.received, 70000);
    assert_int_equal(reply.sha256.size, TERN_SHA256_SIZE);
    assert_memory_equal(reply.sha256.bytes, harness.unfinished.sha256, TERN_SHA256_SIZE);
    assert_false(reply.has_next);
    free(body);
}

TEST(test_tells_of_an_update_that_was_accepted)
{
    uint8_t digest[TERN_SHA256_SIZE];
    begin();
    (void)ask(1, 404);
    struct answer answer = put_update(&harness, 1, round_number, 1, body, body_len);
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    tern_sha256(body, body_len, digest);
    for (int i = 0; i < 2; i++) {
        const tern_UpdateReply reply = ask(1, 200);
        assert_int_equal(reply.status, tern_UpdateStatus_UPDATE_DUPLICATE);
        assert_memory_equal(reply.sha256.bytes, digest, sizeof digest);
        assert_int_equal(reply.received, 0);
        assert_true(reply.has_next);
        (void)ask(2, 404); // which is nobody else's business
        harness_restart(&harness);
    }
    free(body);
}

static struct tern_http_permit permit_of(const char *method, const char *of, uint64_t client)
{
    char authorization[64];
    struct tern_http_permit permit = {.body_limit = UINT32_MAX};
    const struct tern_http_request request = {.method = method,
                                              .path = of,
                                              .authorization = authorization,
                                              .certificate = "",
                                              .peer = "192.0.2.1"};
    snprintf(authorization, sizeof authorization, "Bearer %s", harness.tokens[client]);
    (void)harness.handler.on_headers(harness.handler.ctx, &request, 0, &permit);
    harness.handler.on_dropped(harness.handler.ctx, permit.context);
    return permit;
}

TEST(test_an_update_has_an_owner_and_nothing_else_has)
{
    begin();
    const struct tern_http_permit permit = permit_of("PUT", path, 2);
    assert_int_equal(permit.owner, 2);
    assert_true(permit.known);
    assert_int_equal(permit.tag.client, 2);
    assert_int_equal(permit.tag.round, round_number);
    assert_int_equal(permit.tag.purpose, TERN_PURPOSE_UPLOAD);
    assert_int_equal(permit_of("PUT", "/v1/updates/77/1", 1).tag.round,
                     0); // there is no such round
    assert_int_equal(permit_of("GET", path, 1).owner, 0);
    assert_int_equal(permit_of("POST", TERN_PATH_CHECKIN, 1).owner, 0);
    free(body);
}

static bool awaits(uint64_t client, const char *of)
{
    return harness.handler.expects_upload(harness.handler.ctx, client, of);
}

static void revoke(uint64_t id)
{
    struct tern_db *other;
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &other, why), TERN_OK);
    assert_int_equal(tern_db_begin(other), TERN_OK);
    assert_int_equal(tern_db_client_revoke(other, id), TERN_OK);
    assert_int_equal(tern_db_commit(other), TERN_OK);
    tern_db_close(other);
}

TEST(test_awaits_what_its_client_may_complete)
{
    begin();
    (void)checkin(&harness, 2, NULL);
    assert_true(awaits(1, path));
    assert_false(awaits(1, "/v1/updates/77/1"));
    assert_false(awaits(3, path));
    assert_false(awaits(1, TERN_PATH_CHECKIN));
    revoke(1);
    (void)checkin(&harness, 2, NULL); // the service looks at the store
    assert_false(awaits(1, path));
    assert_true(awaits(2, path));
    free(body);
}
