// Who is let in: tokens, revocation, join codes, and how often each may ask.
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "one_harness.h"
#include "tests/cases.h"

static const char unknown_token[] = "AAAAAAAAAAAAAAAAAAAAAA";

// --- Credentials

// Every endpoint that needs a client.
static struct answer knock(unsigned endpoint, const char *token)
{
    char download[TERN_PATH_MAX];
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    uint8_t name[TERN_SHA256_SIZE] = {0};
    size_t len = encode_checkin(NULL, 0, body);
    tern_path_download(name, download);
    switch (endpoint) {
    case 0:
        return call(&harness, "POST", TERN_PATH_CHECKIN, token, body, len);
    case 1:
        return call(&harness, "GET", download, token, NULL, 0);
    default:
        return call(&harness, "PUT", TERN_PATH_UPDATES "1/1", token, body, len);
    }
}

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_every_endpoint_asks_for_credentials)
{
    char damaged[24];
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    strcpy(damaged, harness.tokens[one]);
    damaged[5] = damaged[5] == 'x' ? 'y' : 'x';
    const char *const bad[] = {NULL, "", unknown_token, damaged, "short", "!!!!!!!!!!!!!!!!!!!!!!"};
    for (unsigned endpoint = 0; endpoint < 3; endpoint++) {
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            answer_expect(knock(endpoint, bad[i]), 401);
        }
        struct answer answer = knock(endpoint, harness.tokens[one]);
        assert_int_not_equal(answer.status, 401);
        answer_free(&answer);
    }
}

static void revoke_from_outside(uint64_t id)
{
    struct tern_db *other;
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &other, why), TERN_OK);
    assert_int_equal(tern_db_begin(other), TERN_OK);
    assert_int_equal(tern_db_client_revoke(other, id), TERN_OK);
    assert_int_equal(tern_db_commit(other), TERN_OK);
    tern_db_close(other);
}

TEST(test_revocation_by_another_process_counts_at_once)
{
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    uint64_t two = enroll(&harness, false);
    for (unsigned endpoint = 0; endpoint < 3; endpoint++) {
        struct answer answer = knock(endpoint, harness.tokens[one]);
        assert_int_not_equal(answer.status, 401);
        answer_free(&answer);
    }
    revoke_from_outside(one);
    for (unsigned endpoint = 0; endpoint < 3; endpoint++) {
        struct answer answer = knock(endpoint, harness.tokens[one]);
        assert_int_equal(answer.status, 401);
        if (answer.body != NULL) {
            assert_int_equal(answer_error_name(&answer), TERN_ERR_UNAUTHORIZED);
        }
        answer_free(&answer);
        answer = knock(endpoint, harness.tokens[two]);
        assert_int_not_equal(answer.status, 401);
        answer_free(&answer);
    }
    harness_restart(&harness);
    answer_expect(knock(0, harness.tokens[one]), 401);
}

// Whichever endpoint comes first after the revocation: the listeners do not know of it yet.
TEST(test_revocation_holds_for_the_very_next_request)
{
    harness_start(&harness);
    for (unsigned endpoint = 0; endpoint < 3; endpoint++) {
        uint64_t client = enroll(&harness, false);
        revoke_from_outside(client);
        answer_expect(knock(endpoint, harness.tokens[client]), 401);
    }
}

TEST(test_revoked_client_that_is_held_is_sent_away)
{
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    size_t len = encode_checkin(NULL, 20000, body);
    struct tern_http_exchange *held =
        call_begin(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[one], body, len);
    enroll(&harness, true); // answered in order: the check-in is held by now
    revoke_from_outside(one);
    enroll(&harness, false); // any request makes the service look
    answer_expect(call_end(held), 401);
}

// A member that is revoked is replaced long before the deadline; its update that counts stays.
TEST(test_revoked_member_is_replaced_at_once)
{
    uint64_t members[2] = {0, 0};
    uint64_t outsider = 0;
    harness.config.federation.min_clients = 3;
    harness_start(&harness);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(enroll(&harness, false), id);
    }
    for (uint64_t id = 1; id <= 3; id++) {
        if (!checkin(&harness, id, NULL).has_task) {
            outsider = id;
        } else {
            members[members[0] != 0] = id;
        }
    }
    assert_int_equal(outsider + members[0] + members[1], 6);
    do_round(&harness, members[0], NULL, 0.5F);
    revoke_from_outside(members[0]); // it has reported: nobody is missing
    assert_false(checkin(&harness, outsider, NULL).has_task);
    revoke_from_outside(members[1]);
    assert_int_equal(checkin(&harness, outsider, NULL).task.round, 1);
    harness.config.federation.min_clients = 1; // of the next round
    harness_restart(&harness);
    do_round(&harness, outsider, NULL, 1.5F);
    assert_int_equal(checkin(&harness, outsider, NULL).task.base_version, 1);
}

// With nobody to take its place, the next client that enrols does.
TEST(test_revoked_member_waits_for_a_new_client)
{
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    uint64_t two = enroll(&harness, false);
    assert_true(checkin(&harness, one, NULL).has_task);
    revoke_from_outside(one);
    assert_true(checkin(&harness, two, NULL).has_task);
    uint64_t three = enroll(&harness, false);
    assert_int_equal(checkin(&harness, three, NULL).task.round, 1);
    uint64_t four = enroll(&harness, false);
    assert_false(checkin(&harness, four, NULL).has_task);
}

TEST(test_another_clients_token_is_another_client)
{
    uint8_t *body;
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    uint64_t two = enroll(&harness, false);
    tern_CheckinReply task = checkin(&harness, one, NULL);
    size_t len = encode_update(&harness, &task.task, 1.0F, 10, &body);
    // Two has no task yet, so the update that one made is not accepted from it.
    struct answer answer = put_update(&harness, two, 1, 1, body, len);
    assert_int_equal(answer.status, 422);
    assert_int_equal(answer_error_name(&answer), TERN_ERR_NOT_IN_COHORT);
    answer_free(&answer);
    answer = put_update(&harness, one, 1, 1, body, len);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.tag.client, one);
    answer_free(&answer);
    free(body);
}

static struct answer try_code(const char *code)
{
    tern_EnrollRequest request = tern_EnrollRequest_init_zero;
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = 0;
    strcpy(request.join_code, code);
    assert_int_equal(tern_wire_encode_enroll_request(&request, body, sizeof body, &len), TERN_OK);
    return call(&harness, "POST", TERN_PATH_ENROLL, NULL, body, len);
}

static void add_code(const char *text, uint32_t uses, uint64_t expires_ms)
{
    struct tern_db *other;
    char why[256];
    struct tern_db_code code = {.uses_left = uses, .expires_ms = expires_ms};
    tern_sha256(text, strlen(text), code.hash);
    assert_int_equal(tern_db_open(harness.path, 0, &other, why), TERN_OK);
    assert_int_equal(tern_db_begin(other), TERN_OK);
    assert_int_equal(tern_db_code_add(other, &code), TERN_OK);
    assert_int_equal(tern_db_commit(other), TERN_OK);
    tern_db_close(other);
}

// Unknown, used up and expired codes get one and the same answer.
TEST(test_join_codes)
{
    harness_start(&harness);
    add_code("once", 1, test_now() + 1000000);
    add_code("expired", 5, test_now() - 1);
    add_code("7k3m-9xq2-0ahp-w4t1", 4, test_now() + 1000000);
    static const char *const typed[] = {"7k3m-9xq2-0ahp-w4t1", "7K3M-9XQ2-OAHP-W4TL",
                                        "7k3m9xq2oahpw4ti", "7K3M 9XQ2 0AHP W4T1"};
    for (size_t i = 0; i < sizeof typed / sizeof *typed; i++) {
        answer_expect(try_code(typed[i]), 200);
    }
    answer_expect(try_code("once"), 200);
    const char *const bad[] = {"once", "expired", "guess"};
    struct answer first = try_code("nonsense");
    assert_int_equal(first.status, 401);
    for (size_t i = 0; i < 3; i++) {
        struct answer answer = try_code(bad[i]);
        assert_int_equal(answer.status, 401);
        assert_int_equal(answer.body->len, first.body->len);
        assert_memory_equal(answer.body->data, first.body->data, first.body->len);
        answer_free(&answer);
    }
    answer_free(&first);
}

TEST(test_enrolment_is_rate_limited_per_address)
{
    harness.config.limits.enrollments_per_minute = 6;
    harness_start(&harness);
    for (int i = 0; i < 6; i++) {
        answer_expect(try_code("guess"), 401);
    }
    struct answer answer = try_code("another guess");
    assert_int_equal(answer.status, 429);
    assert_in_range(answer.retry_after_s, 1, 60);
    answer_free(&answer);
    for (int i = 0; i < 6; i++) { // guesses use up nothing of those who have a code
        answer_expect(try_code(JOIN_CODE), 200);
    }
    answer_expect(try_code(JOIN_CODE), 429);
    add_code("used", 0, test_now() + 1000000);
    add_code("made meanwhile", 1, test_now() + 1000000);
    test_advance(11000); // six a minute is one in ten seconds
    answer_expect(try_code("guess"), 401);
    answer_expect(try_code("guess"), 429);
    for (int i = 0; i < 7; i++) { // nor does whoever sends a used code again and again
        answer = try_code("used");
        assert_int_equal(answer.status, i < 6 ? 401 : 429);
        answer_free(&answer);
    }
    answer_expect(try_code("made meanwhile"), 200);
}

TEST(test_requests_are_rate_limited_per_client)
{
    harness.config.limits.requests_per_minute = 10;
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    uint64_t two = enroll(&harness, false);
    for (int i = 0; i < 10; i++) {
        (void)checkin(&harness, one, NULL);
    }
    struct answer answer = knock(0, harness.tokens[one]);
    assert_int_equal(answer.status, 429);
    assert_in_range(answer.retry_after_s, 1, 60);
    answer_free(&answer);
    (void)checkin(&harness, two, NULL); // the others are not affected
    test_advance(60000);
    (void)checkin(&harness, one, NULL);
}
