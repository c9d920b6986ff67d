// Updates that are refused for what they hold, what their clients are told, and the operator.
#include "harness.h"

#include "util/bytes.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "one_harness.h"
#include "tests/cases.h"
#include "watched_log.h"

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

// A refusal names the field that is at fault, with its value.
static void expect_sentence(const uint8_t *body, size_t len, const char *what)
{
    tern_Error error;
    struct answer answer = put_update(&harness, 1, 1, 1, body, len);
    assert_int_equal(answer.status, 422);
    assert_int_equal(tern_wire_decode_error(answer.body->data, answer.body->len, &error), TERN_OK);
    if (strstr(error.sentence, what) != error.sentence) {
        fail_msg("'%s' does not begin with '%s'", error.sentence, what);
    }
    answer_free(&answer);
}

static void expect_change_named(const tern_Task *task, void (*change)(tern_Update *),
                                const char *what)
{
    tern_Update update;
    struct tern_span container;
    uint8_t *body;
    uint8_t changed[8192];
    size_t len = encode_update(&harness, task, 1.0F, 10, &body);
    assert_int_equal(tern_wire_decode_update(body, len, &update, &container), TERN_OK);
    change(&update);
    assert_int_equal(tern_wire_encode_update(&update, container, changed, sizeof changed, &len),
                     TERN_OK);
    expect_sentence(changed, len, what);
    free(body);
}

// Our own encoder refuses these: they stand before the rest, as a field of the message.
static void expect_raw_named(const tern_Task *task, const uint8_t *field, size_t field_len,
                             const char *what)
{
    uint8_t changed[8192];
    uint8_t *body;
    size_t len = encode_update(&harness, task, 1.0F, 10, &body);
    memcpy(changed, field, field_len);
    memcpy(changed + field_len, body, len);
    expect_sentence(changed, field_len + len, what);
    free(body);
}

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_the_field_at_fault_is_named)
{
    harness_start(&harness);
    const tern_CheckinReply next = task_of_one();
    expect_change_named(&next.task, many_examples, "num_examples is 1000001.");
    expect_change_named(&next.task, many_steps, "local_steps exceeds the task");
    static const uint8_t two[] = {9 << 3 | 5, 0, 0, 0, 0x40};
    static const uint8_t negative[] = {9 << 3 | 5, 0, 0, 0, 0xbf};
    static const uint8_t not_a_number[] = {9 << 3 | 5, 0, 0, 0xc0, 0x7f};
    expect_raw_named(&next.task, two, sizeof two, "decay is 2.");
    expect_raw_named(&next.task, negative, sizeof negative, "decay is -0.5.");
    expect_raw_named(&next.task, not_a_number, sizeof not_a_number, "decay is nan.");
}

TEST(test_bad_updates_are_named_and_change_nothing)
{
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
    answer_expect(put_update(&harness, 1, 1, 1, body, len), 200);
    free(body);
}

static void expect_line(const char *event, uint64_t request, const char *rest)
{
    char text[128];
    snprintf(text, sizeof text, "event=%s request=%llu %s", event, (unsigned long long)request,
             rest);
    if (lines_with(text) != 1) {
        fail_msg("not one line with: %s", text);
    }
}

static void put_good_update(uint64_t client, const tern_Task *task)
{
    uint8_t *body;
    const size_t len = encode_update(&harness, task, 1.0F, 10, &body);
    answer_expect(put_update(&harness, client, task->round, 1, body, len), 200);
    free(body);
}

// What a request has caused, in rounds as well; what nobody's did has no number.
TEST(test_lines_of_the_log_name_the_request)
{
    harness_start(&harness);
    watch_log();
    tern_log_set_level(TERN_LOG_INFO);
    enroll(&harness, false);
    expect_line("enrolled", harness.request_id, "client=1 ");
    enroll(&harness, false);
    expect_line("enrolled", harness.request_id, "client=2 ");
    expect_line("round-opened", harness.request_id, "round=1 version=0 invited=2 ");
    const tern_Task one = checkin(&harness, 1, NULL).task;
    const tern_Task two = checkin(&harness, 2, NULL).task;
    answer_expect(put_update(&harness, 1, 1, 1, (const uint8_t *)"x", 1), 422);
    expect_line("update-rejected", harness.request_id, "round=1 client=1 ");
    put_good_update(1, &one);
    put_good_update(2, &two);
    expect_line("round", harness.request_id, "round=1 ");
    assert_int_equal(lines_with("event=round-opened round=2 "), 1);
    leave_log();
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

TEST(test_refused_clients_are_asked_to_wait_ever_longer)
{
    harness.config.federation.limits.norm = 26.0;
    harness_start(&harness);
    const tern_CheckinReply next = task_of_one();
    for (uint32_t wait = 1; wait <= 64; wait *= 2) {
        assert_int_equal(wait_after_refused_update(&next.task), wait);
        (void)checkin(&harness, 1, NULL); // which settles nothing
    }
    assert_int_equal(wait_after_refused_checkin(), 128);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(wait_after_refused_update(&next.task), 256);
    }
    put_good_update(1, &next.task);
    assert_int_equal(wait_after_refused_checkin(), 1);
}

TEST(test_norm_limit)
{
    uint8_t *body;
    harness.config.federation.limits.norm = 26.0; // of 650 ones: 25.5
    harness_start(&harness);
    tern_CheckinReply next = task_of_one();
    size_t len = encode_update(&harness, &next.task, 1.1F, 10, &body);
    expect_refused(body, len, 422, TERN_ERR_NORM_LIMIT);
    free(body);
    len = encode_update(&harness, &next.task, 1.0F, 10, &body);
    answer_expect(put_update(&harness, 1, 1, 1, body, len), 200);
    free(body);
}

// An update of one step of five is measured as it would be applied: twice, not five times.
TEST(test_norm_limit_of_what_is_scaled_up)
{
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
    answer_expect(put_update(&harness, 1, 1, 1, body, len), 200);
    free(body);
}

// --- What the operator is told of refusals

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

TEST(test_refusals_do_not_fill_the_log)
{
    harness.config.federation.limits.norm = 26.0;
    harness_start(&harness);
    tern_CheckinReply next = task_of_one();
    watch_log();
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(send_value(1, &next.task, 2.0F), 422);
    }
    unsigned lines = lines_with("event=update-rejected");
    unsigned last = lines_with("client=1 reason=norm-limit count=64 norm=50.99 limit=26");
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

TEST(test_a_federation_that_diverges_is_named)
{
    harness.config.federation.limits.norm = 26.0;
    harness.config.federation.round.quorum = 2;
    harness_start(&harness);
    tern_CheckinReply next = task_of_one();
    watch_log();
    diverge();
    unsigned early = lines_with("event=all-updates-refused");
    bool early_advice = facts_now().federation.advice != NULL;
    diverge();
    unsigned named = lines_with("event=all-updates-refused round=1 cohorts=2 updates=2 clients=2");
    bool advice = facts_now().federation.advice != NULL;
    for (unsigned i = 0; i < 6; i++) {
        diverge();
    }
    unsigned lines = lines_with("event=all-updates-refused");
    unsigned draws = facts_now().federation.refused_cohorts;
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
    assert_int_equal(facts_now().federation.refused_cohorts, 0);
    assert_null(facts_now().federation.advice);
}

// Nobody came: that says nothing about values.
TEST(test_a_round_that_nobody_reports_does_not_diverge)
{
    harness_start(&harness);
    (void)task_of_one();
    for (unsigned i = 0; i < 4; i++) {
        test_advance(61000);
        (void)checkin(&harness, 1, NULL);
    }
    assert_int_equal(facts_now().federation.refused_cohorts, 0);
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
TEST(test_an_update_in_another_codec_counts)
{
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
    answer_expect(put_update(&harness, 1, 1, 1, body, len), 200);
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

TEST(test_other_bytes_under_the_same_key)
{
    uint8_t *body;
    uint8_t *other;
    harness_start(&harness);
    tern_CheckinReply next = task_of_one();
    size_t len = encode_update(&harness, &next.task, 1.0F, 10, &body);
    struct answer answer = put_update(&harness, 1, 1, 1, body, len);
    answer_expect(answer, 200);
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
    answer_expect(put_update(&harness, 1, 1, 1, body, len), 200);
    store_digest(&harness, after);
    assert_memory_equal(before, after, TERN_SHA256_SIZE);
    free(body);
    free(other);
}

TEST(test_late_and_unknown_rounds)
{
    uint8_t *body;
    harness.config.federation.round.over_selection = 0.5; // three are invited for two updates
    harness.config.federation.min_clients = 3;
    harness_start_with(&harness, 3);
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

TEST(test_evaluators_do_not_train)
{
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

// Whoever lets a deadline pass is named.
TEST(test_silent_members_are_logged)
{
    harness.config.federation.round.quorum = 2;
    harness_start_with(&harness, 2);
    tern_CheckinReply reply = checkin(&harness, 1, NULL);
    assert_true(reply.has_task);
    assert_int_equal(send_value(1, &reply.task, 1.0F), 200);
    watch_log();
    test_advance(harness.config.federation.round.deadline_ms + 1);
    (void)checkin(&harness, 1, NULL);
    const unsigned named = lines_with("event=round-waits round=1 updates=1 quorum=2 silent=2\n");
    leave_log();
    assert_int_equal(named, 1);
}
