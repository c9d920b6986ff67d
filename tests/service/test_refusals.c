// What is refused, how, and that a refusal leaves the database as it was.
#include "harness.h"

#include "hosted/log.h"
#include "util/bytes.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// cmocka wants the headers above first.
#include <cmocka.h>

static struct harness harness;

static int setup(void **state)
{
    (void)state;
    harness_make(&harness);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_free(&harness);
    return 0;
}

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

static void test_every_endpoint_asks_for_credentials(void **state)
{
    (void)state;
    char damaged[24];
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    strcpy(damaged, harness.tokens[one]);
    damaged[5] = damaged[5] == 'x' ? 'y' : 'x';
    const char *const bad[] = {NULL, "", unknown_token, damaged, "short", "!!!!!!!!!!!!!!!!!!!!!!"};
    for (unsigned endpoint = 0; endpoint < 3; endpoint++) {
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            struct answer answer = knock(endpoint, bad[i]);
            assert_int_equal(answer.status, 401);
            answer_free(&answer);
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
    assert_int_equal(tern_db_open(harness.path, &other, why), TERN_OK);
    assert_int_equal(tern_db_begin(other), TERN_OK);
    assert_int_equal(tern_db_client_revoke(other, id), TERN_OK);
    assert_int_equal(tern_db_commit(other), TERN_OK);
    tern_db_close(other);
}

static void test_revocation_by_another_process_counts_at_once(void **state)
{
    (void)state;
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
    struct answer answer = knock(0, harness.tokens[one]);
    assert_int_equal(answer.status, 401);
    answer_free(&answer);
}

// Whichever endpoint comes first after the revocation: the listeners do not know of it yet.
static void test_revocation_holds_for_the_very_next_request(void **state)
{
    (void)state;
    harness_start(&harness);
    for (unsigned endpoint = 0; endpoint < 3; endpoint++) {
        uint64_t client = enroll(&harness, false);
        revoke_from_outside(client);
        struct answer answer = knock(endpoint, harness.tokens[client]);
        assert_int_equal(answer.status, 401);
        answer_free(&answer);
    }
}

static void test_revoked_client_that_is_held_is_sent_away(void **state)
{
    (void)state;
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    size_t len = encode_checkin(NULL, 20000, body);
    struct tern_http_exchange *held =
        call_begin(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[one], body, len);
    enroll(&harness, true); // answered in order: the check-in is held by now
    revoke_from_outside(one);
    enroll(&harness, false); // any request makes the service look
    struct answer answer = call_end(held);
    assert_int_equal(answer.status, 401);
    answer_free(&answer);
}

// A member that is revoked is replaced long before the deadline; its update that counts stays.
static void test_revoked_member_is_replaced_at_once(void **state)
{
    (void)state;
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
static void test_revoked_member_waits_for_a_new_client(void **state)
{
    (void)state;
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

static void test_another_clients_token_is_another_client(void **state)
{
    (void)state;
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
    assert_int_equal(tern_db_open(harness.path, &other, why), TERN_OK);
    assert_int_equal(tern_db_begin(other), TERN_OK);
    assert_int_equal(tern_db_code_add(other, &code), TERN_OK);
    assert_int_equal(tern_db_commit(other), TERN_OK);
    tern_db_close(other);
}

// Unknown, used up and expired codes get one and the same answer.
static void test_join_codes(void **state)
{
    (void)state;
    harness_start(&harness);
    add_code("once", 1, test_now() + 1000000);
    add_code("expired", 5, test_now() - 1);
    struct answer answer = try_code("once");
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    const char *const bad[] = {"once", "expired", "guess"};
    struct answer first = try_code("nonsense");
    assert_int_equal(first.status, 401);
    for (size_t i = 0; i < 3; i++) {
        answer = try_code(bad[i]);
        assert_int_equal(answer.status, 401);
        assert_int_equal(answer.body->len, first.body->len);
        assert_memory_equal(answer.body->data, first.body->data, first.body->len);
        answer_free(&answer);
    }
    answer_free(&first);
}

static void test_enrolment_is_rate_limited_per_address(void **state)
{
    (void)state;
    harness.config.limits.enrollments_per_minute = 6;
    harness_start(&harness);
    for (int i = 0; i < 6; i++) {
        struct answer answer = try_code("guess");
        assert_int_equal(answer.status, 401);
        answer_free(&answer);
    }
    struct answer answer = try_code(JOIN_CODE);
    assert_int_equal(answer.status, 429);
    assert_in_range(answer.retry_after_s, 1, 60);
    answer_free(&answer);
    test_advance(11000); // six a minute is one in ten seconds
    answer = try_code(JOIN_CODE);
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
}

static void test_requests_are_rate_limited_per_client(void **state)
{
    (void)state;
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

// --- Routes and sizes

static void expect_status(const char *method, const char *path, size_t len, int status)
{
    uint8_t *body = calloc(1, len + 1);
    struct answer answer = call(&harness, method, path, harness.tokens[1], body, len);
    assert_int_equal(answer.status, status);
    answer_free(&answer);
    free(body);
}

static void test_routes_and_sizes(void **state)
{
    (void)state;
    harness_start(&harness);
    enroll(&harness, false);
    expect_status("GET", "/healthz", 0, 200);
    expect_status("GET", "/", 0, 404);
    expect_status("GET", "/v1/downloads/short", 0, 404);
    expect_status("PUT", "/v1/updates/1", 0, 404);
    expect_status("PUT", "/v1/updates/01/1", 0, 404);
    expect_status("GET", TERN_PATH_CHECKIN, 0, 405);
    expect_status("POST", "/v1/updates/1/1", 0, 405);
    expect_status("DELETE", "/healthz", 0, 405);
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

static void test_ranges(void **state)
{
    (void)state;
    char path[TERN_PATH_MAX];
    harness_start(&harness);
    enroll(&harness, false);
    enroll(&harness, false);
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

// --- Updates

static tern_CheckinReply task_of_one(void)
{
    enroll(&harness, false);
    enroll(&harness, false);
    return checkin(&harness, 1, NULL);
}

static void expect_refused(const uint8_t *body, size_t len, int status, enum tern_result name)
{
    uint8_t before[TERN_SHA256_SIZE];
    uint8_t after[TERN_SHA256_SIZE];
    store_digest(&harness, before);
    struct answer answer = put_update(&harness, 1, 1, 1, body, len);
    assert_int_equal(answer.status, status);
    assert_int_equal(answer_error_name(&answer), name);
    answer_free(&answer);
    store_digest(&harness, after);
    assert_memory_equal(before, after, TERN_SHA256_SIZE);
}

static void expect_change_refused(const tern_Task *task, void (*change)(tern_Update *),
                                  enum tern_result name)
{
    tern_Update update;
    struct tern_span container;
    uint8_t *body;
    uint8_t *changed = malloc(8192);
    size_t len = encode_update(&harness, task, 1.0F, 10, &body);
    assert_int_equal(tern_wire_decode_update(body, len, &update, &container), TERN_OK);
    change(&update);
    assert_int_equal(tern_wire_encode_update(&update, container, changed, 8192, &len), TERN_OK);
    expect_refused(changed, len, 422, name);
    free(changed);
    free(body);
}

static void other_base(tern_Update *update)
{
    update->base.bytes[0] ^= 1;
}

static void other_model(tern_Update *update)
{
    update->model_hash.size = TERN_SHA256_SIZE;
    memset(update->model_hash.bytes, 7, TERN_SHA256_SIZE);
}

static void many_examples(tern_Update *update)
{
    update->num_examples = 1000001;
}

static void many_steps(tern_Update *update)
{
    update->local_steps = 6;
}

static void test_bad_updates_are_named_and_change_nothing(void **state)
{
    (void)state;
    uint8_t *body;
    harness_start(&harness);
    tern_CheckinReply next = task_of_one();
    expect_change_refused(&next.task, other_base, TERN_ERR_WRONG_REPLICA);
    expect_change_refused(&next.task, other_model, TERN_ERR_MODEL_MISMATCH);
    expect_change_refused(&next.task, many_examples, TERN_ERR_ARGUMENT);
    expect_change_refused(&next.task, many_steps, TERN_ERR_ARGUMENT);

    size_t len = encode_update(&harness, &next.task, 1.0F, 1000000, &body);
    expect_refused(body, 0, 422, TERN_ERR_CORRUPT);
    expect_refused(body, len - 1, 422, TERN_ERR_CORRUPT);
    tern_put_f32(body + len - 4, NAN); // the last value of the container
    expect_refused(body, len, 422, TERN_ERR_NON_FINITE);
    tern_put_f32(body + len - 4, 3e38F);
    expect_refused(body, len, 422, TERN_ERR_NORM_LIMIT);
    // After all that the right one is accepted, at the limits of both numbers.
    tern_put_f32(body + len - 4, 1.0F);
    struct answer answer = put_update(&harness, 1, 1, 1, body, len);
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    free(body);
}

static uint32_t wait_after_refused_update(const tern_Task *task)
{
    uint8_t *body;
    size_t len = encode_update(&harness, task, 2.0F, 10, &body);
    struct answer answer = put_update(&harness, 1, task->round, 1, body, len);
    assert_int_equal(answer.status, 422);
    uint32_t wait = answer.retry_after_s;
    answer_free(&answer);
    free(body);
    return wait;
}

static uint32_t wait_after_refused_checkin(void)
{
    struct answer answer =
        call(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[1], (const uint8_t *)"\xff", 1);
    assert_int_equal(answer.status, 422);
    uint32_t wait = answer.retry_after_s;
    answer_free(&answer);
    return wait;
}

static void test_refused_clients_are_asked_to_wait_ever_longer(void **state)
{
    (void)state;
    harness.config.federation.limits.norm = 26.0;
    harness_start(&harness);
    tern_CheckinReply next = task_of_one();
    for (uint32_t wait = 1; wait <= 64; wait *= 2) {
        assert_int_equal(wait_after_refused_update(&next.task), wait);
        next = checkin(&harness, 1, NULL); // the same task, which settles nothing
    }
    assert_int_equal(wait_after_refused_checkin(), 128);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(wait_after_refused_update(&next.task), 256);
    }
    do_round(&harness, 1, NULL, 1.0F);
    assert_int_equal(wait_after_refused_checkin(), 1);
}

static void test_norm_limit(void **state)
{
    (void)state;
    uint8_t *body;
    harness.config.federation.limits.norm = 26.0; // of 650 ones: 25.5
    harness_start(&harness);
    tern_CheckinReply next = task_of_one();
    size_t len = encode_update(&harness, &next.task, 1.1F, 10, &body);
    expect_refused(body, len, 422, TERN_ERR_NORM_LIMIT);
    free(body);
    len = encode_update(&harness, &next.task, 1.0F, 10, &body);
    struct answer answer = put_update(&harness, 1, 1, 1, body, len);
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    free(body);
}

// An update of one step of five is measured as it would be applied: twice, not five times.
static void test_norm_limit_of_what_is_scaled_up(void **state)
{
    (void)state;
    uint8_t *body;
    harness.config.federation.limits.norm = 52.0; // of 650 twos: 51
    harness.config.federation.strategy = &tern_strategy_fednova;
    harness.config.federation.strategy_parameters[TERN_STRATEGY_SCALE_MAX] = 2.0F;
    harness_start(&harness);
    tern_Task task = task_of_one().task;
    task.local_steps = 1; // of 5
    size_t len = encode_update(&harness, &task, 1.1F, 10, &body);
    expect_refused(body, len, 422, TERN_ERR_NORM_LIMIT);
    free(body);
    len = encode_update(&harness, &task, 1.0F, 10, &body);
    struct answer answer = put_update(&harness, 1, 1, 1, body, len);
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    free(body);
}

// --- What the operator is told of refusals

static FILE *log_file;
static int log_saved;

static void watch_log(void)
{
    log_file = tmpfile();
    assert_non_null(log_file);
    fflush(stderr);
    log_saved = dup(STDERR_FILENO);
    assert_true(dup2(fileno(log_file), STDERR_FILENO) >= 0);
    tern_log_set_level(TERN_LOG_WARN);
}

// Lines since then that have this in them.
static unsigned lines_with(const char *text)
{
    char line[1024];
    unsigned count = 0;
    fflush(stderr);
    rewind(log_file);
    while (fgets(line, sizeof line, log_file) != NULL) {
        count += strstr(line, text) != NULL;
    }
    return count;
}

static void leave_log(void)
{
    tern_log_set_level(TERN_LOG_ERROR);
    dup2(log_saved, STDERR_FILENO);
    close(log_saved);
    fclose(log_file);
}

static struct tern_service_facts facts_now(void)
{
    struct tern_service_facts facts;
    tern_service_facts(harness.service, &facts);
    return facts;
}

static int send_value(uint64_t client, const tern_Task *task, float value)
{
    uint8_t *body;
    size_t len = encode_update(&harness, task, value, 10, &body);
    struct answer answer = put_update(&harness, client, task->round, 1, body, len);
    int status = answer.status;
    answer_free(&answer);
    free(body);
    return status;
}

static void test_refusals_do_not_fill_the_log(void **state)
{
    (void)state;
    harness.config.federation.limits.norm = 26.0;
    harness_start(&harness);
    tern_CheckinReply next = task_of_one();
    watch_log();
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(send_value(1, &next.task, 2.0F), 422);
    }
    unsigned lines = lines_with("event=update-rejected");
    unsigned last = lines_with("client=1 reason=norm-limit count=64");
    // Another client's first is told of.
    tern_CheckinReply other = checkin(&harness, 2, NULL);
    assert_int_equal(send_value(2, &other.task, 2.0F), 422);
    unsigned others = lines_with("client=2 reason=norm-limit count=1");
    leave_log();
    assert_int_equal(lines, 7);
    assert_int_equal(last, 1);
    assert_int_equal(others, 1);
    assert_int_equal(facts_now().federation.counts.updates_rejected, 101);
}

// Both members' updates are refused, and the round's deadline passes.
static void diverge(void)
{
    for (uint64_t id = 1; id <= 2; id++) {
        tern_CheckinReply next = checkin(&harness, id, NULL);
        assert_int_equal(send_value(id, &next.task, 2.0F), 422);
    }
    test_advance(61000);
    (void)checkin(&harness, 1, NULL);
}

static void test_a_federation_that_diverges_is_named(void **state)
{
    (void)state;
    harness.config.federation.limits.norm = 26.0;
    harness.config.federation.round.quorum = 2;
    harness_start(&harness);
    tern_CheckinReply next = task_of_one();
    watch_log();
    diverge();
    unsigned early = lines_with("event=all-updates-refused");
    bool early_advice = facts_now().federation.advice != NULL;
    diverge();
    unsigned named = lines_with("event=all-updates-refused round=1 draws=2 updates=2 clients=2");
    bool advice = facts_now().federation.advice != NULL;
    for (unsigned i = 0; i < 6; i++) {
        diverge();
    }
    unsigned lines = lines_with("event=all-updates-refused");
    unsigned draws = facts_now().federation.refused_draws;
    // One that is sound ends it, whatever the others send.
    assert_int_equal(send_value(1, &next.task, 0.5F), 200);
    test_advance(61000);
    (void)checkin(&harness, 2, NULL);
    leave_log();
    assert_int_equal(early, 0);
    assert_false(early_advice);
    assert_int_equal(named, 1);
    assert_true(advice);
    assert_int_equal(lines, 3); // at 2, 4 and 8
    assert_int_equal(draws, 8);
    assert_int_equal(facts_now().federation.refused_draws, 0);
    assert_null(facts_now().federation.advice);
}

// Nobody came: that says nothing about values.
static void test_a_round_that_nobody_reports_does_not_diverge(void **state)
{
    (void)state;
    harness_start(&harness);
    (void)task_of_one();
    for (unsigned i = 0; i < 4; i++) {
        test_advance(61000);
        (void)checkin(&harness, 1, NULL);
    }
    assert_int_equal(facts_now().federation.refused_draws, 0);
}

// --- Updates under a key that is taken

// Its answer when client 1 sends it for round 1 under that sequence number; a 200 says duplicate.
static int put_as(uint32_t sequence, const uint8_t *body, size_t len)
{
    tern_UpdateReply reply;
    struct answer answer = put_update(&harness, 1, 1, sequence, body, len);
    const int status = answer.status;
    if (status == 200) {
        assert_int_equal(tern_wire_decode_update_reply(answer.body->data, answer.body->len, &reply),
                         TERN_OK);
        assert_int_equal(reply.status, tern_UpdateStatus_UPDATE_DUPLICATE);
    }
    answer_free(&answer);
    return status;
}

// What a task asks for and what an update is read by are two things.
static void test_an_update_in_another_codec_counts(void **state)
{
    (void)state;
    uint8_t *body;
    uint8_t replica[TERN_SHA256_SIZE];
    float *seed = malloc(harness.model.count * sizeof *seed);
    float *weights = malloc(harness.model.count * sizeof *weights);
    harness_start(&harness);
    tern_Task task = task_of_one().task;
    assert_string_equal(task.codec, "float32");
    strcpy(task.codec, "3lc:s=1");
    size_t len = encode_update(&harness, &task, 1.0F, 10, &body);
    assert_in_range(len, 1, harness.model.count);
    struct answer answer = put_update(&harness, 1, 1, 1, body, len);
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    tern_UpdateReply reply = do_round(&harness, 2, NULL, 1.0F);
    seed_replica(&harness, replica, seed);
    memcpy(weights, seed, harness.model.count * sizeof *weights);
    apply_downloads(&harness, &reply.next.task, weights, replica, harness.tokens[2]);
    for (uint32_t i = 0; i < harness.model.count; i++) {
        assert_true(fabsf(weights[i] - seed[i] - 1.0F) < 1e-6F);
    }
    free(body);
    free(seed);
    free(weights);
}

static void test_other_bytes_under_the_same_key(void **state)
{
    (void)state;
    uint8_t *body;
    uint8_t *other;
    harness_start(&harness);
    tern_CheckinReply next = task_of_one();
    size_t len = encode_update(&harness, &next.task, 1.0F, 10, &body);
    struct answer answer = put_update(&harness, 1, 1, 1, body, len);
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    size_t other_len = encode_update(&harness, &next.task, 2.0F, 10, &other);
    expect_refused(other, other_len, 409, TERN_ERR_CONFLICT);
    assert_int_equal(put_as(2, other, other_len), 409); // the number is not part of the key
    assert_int_equal(put_as(2, body, len), 200);
    do_round(&harness, 2, NULL, 1.0F);
    (void)checkin(&harness, 1, NULL); // takes its next task, so that the reply below need not
    // The round is committed by now.
    expect_refused(other, other_len, 409, TERN_ERR_CONFLICT);
    uint8_t before[TERN_SHA256_SIZE];
    uint8_t after[TERN_SHA256_SIZE];
    store_digest(&harness, before);
    answer = put_update(&harness, 1, 1, 1, body, len);
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    store_digest(&harness, after);
    assert_memory_equal(before, after, TERN_SHA256_SIZE);
    free(body);
    free(other);
}

static void test_late_and_unknown_rounds(void **state)
{
    (void)state;
    uint8_t *body;
    harness.config.federation.round.over_selection = 0.5; // three are invited for two updates
    harness.config.federation.min_clients = 3;
    harness_start(&harness);
    for (int i = 0; i < 3; i++) {
        enroll(&harness, false);
    }
    tern_CheckinReply next = checkin(&harness, 1, NULL);
    size_t len = encode_update(&harness, &next.task, 1.0F, 10, &body);
    do_round(&harness, 2, NULL, 1.0F);
    do_round(&harness, 3, NULL, 1.0F);
    expect_refused(body, len, 410, TERN_ERR_LATE);
    struct answer answer = put_update(&harness, 1, 9, 1, body, len);
    assert_int_equal(answer.status, 422);
    assert_int_equal(answer_error_name(&answer), TERN_ERR_UNKNOWN_ROUND);
    answer_free(&answer);
    free(body);
}

static void test_evaluators_do_not_train(void **state)
{
    (void)state;
    uint8_t *body;
    harness_start(&harness);
    tern_CheckinReply next = task_of_one();
    uint64_t evaluator = enroll(&harness, true);
    size_t len = encode_update(&harness, &next.task, 1.0F, 10, &body);
    struct answer answer = put_update(&harness, evaluator, 1, 1, body, len);
    assert_int_equal(answer.status, 422);
    assert_int_equal(answer_error_name(&answer), TERN_ERR_NOT_IN_COHORT);
    answer_free(&answer);
    free(body);
}

static struct answer checkin_as(uint64_t client, const tern_CheckinRequest *request)
{
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = 0;
    assert_int_equal(tern_wire_encode_checkin_request(request, body, sizeof body, &len), TERN_OK);
    return call(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[client], body, len);
}

static void expect_codec_missing(uint32_t known, const char *what)
{
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    tern_Error error;
    request.codecs = known;
    struct answer answer = checkin_as(1, &request);
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
    assert_int_equal(tern_db_open(harness.path, &other, why), TERN_OK);
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
static void test_clients_beyond_the_limit_do_not_stop_the_service(void **state)
{
    (void)state;
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
static void test_provisioned_clients_count_once_they_have_come(void **state)
{
    (void)state;
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
static void test_client_is_told_which_codec_it_lacks(void **state)
{
    (void)state;
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
        struct answer answer = checkin_as(1, &request);
        assert_int_equal(answer.status, 200);
        answer_free(&answer);
    }
}

static void test_checkins_that_cannot_be_served(void **state)
{
    (void)state;
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    harness_start(&harness);
    enroll(&harness, false);
    request.codecs = 7;
    request.model_hash.size = TERN_SHA256_SIZE;
    struct answer answer = checkin_as(1, &request);
    assert_int_equal(answer.status, 422);
    assert_int_equal(answer_error_name(&answer), TERN_ERR_MODEL_MISMATCH);
    answer_free(&answer);
    expect_status("POST", TERN_PATH_CHECKIN, 20, 422);
    expect_status("POST", TERN_PATH_ENROLL, 20, 422);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_every_endpoint_asks_for_credentials),
        TEST(test_revocation_by_another_process_counts_at_once),
        TEST(test_revocation_holds_for_the_very_next_request),
        TEST(test_revoked_client_that_is_held_is_sent_away),
        TEST(test_revoked_member_is_replaced_at_once),
        TEST(test_revoked_member_waits_for_a_new_client),
        TEST(test_another_clients_token_is_another_client),
        TEST(test_join_codes),
        TEST(test_enrolment_is_rate_limited_per_address),
        TEST(test_requests_are_rate_limited_per_client),
        TEST(test_routes_and_sizes),
        TEST(test_ranges),
        TEST(test_bad_updates_are_named_and_change_nothing),
        TEST(test_refused_clients_are_asked_to_wait_ever_longer),
        TEST(test_norm_limit),
        TEST(test_norm_limit_of_what_is_scaled_up),
        TEST(test_refusals_do_not_fill_the_log),
        TEST(test_a_federation_that_diverges_is_named),
        TEST(test_a_round_that_nobody_reports_does_not_diverge),
        TEST(test_an_update_in_another_codec_counts),
        TEST(test_other_bytes_under_the_same_key),
        TEST(test_late_and_unknown_rounds),
        TEST(test_evaluators_do_not_train),
        TEST(test_client_is_told_which_codec_it_lacks),
        TEST(test_clients_beyond_the_limit_do_not_stop_the_service),
        TEST(test_provisioned_clients_count_once_they_have_come),
        TEST(test_checkins_that_cannot_be_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
