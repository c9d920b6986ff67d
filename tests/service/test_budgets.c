// Byte budgets through the service: the codecs and the rounds that clients are given for what they
// may spend.
#include <string.h>

#include "scheduled.h"
#include "tests/cases.h"

static const tern_CheckinRequest rich = {.budgeted = true, .budget_left = 100000000};

// As the listener would have counted its last round.
static void meter(uint64_t client, uint32_t round, uint64_t update, uint64_t other)
{
    struct tern_db_meter row = {.client = client,
                                .round = round,
                                .purpose = TERN_PURPOSE_UPLOAD,
                                .up = {update, update, update, update},
                                .down = {0, 0, 0, other},
                                .exchanges = 1};
    struct tern_db *db = peek();
    assert_int_equal(tern_db_begin(db), TERN_OK);
    assert_int_equal(tern_db_meter_add(db, &row), TERN_OK);
    assert_int_equal(tern_db_commit(db), TERN_OK);
    tern_db_close(db);
}

static uint32_t update_bytes_of(uint64_t client)
{
    struct tern_db_ledger row;
    struct tern_db *db = peek();
    assert_int_equal(tern_db_ledger_get(db, client, &row), TERN_OK);
    tern_db_close(db);
    return row.update_bytes;
}

// As the listener counts it, before the store is written.
static void count(uint64_t client, uint32_t round, uint64_t update, uint64_t other)
{
    const struct tern_http_tag tag = {
        .client = client, .round = round, .purpose = TERN_PURPOSE_UPLOAD};
    const struct tern_bytes up = {update, update, update, update};
    const struct tern_bytes down = {0, 0, 0, other};
    harness.handler.on_metered(harness.handler.ctx, &tag, &up, &down);
}

static void start_budgets(void)
{
    set_policy("budget");
    set_codec("density:p=0.2,coder=range");
    harness.config.federation.round.rounds = 101;
    harness_start(&harness);
}

// The first client's next task is decided at its check-in, the second's with the answer to its
// update.
static void play_first_round(uint64_t one, uint64_t two)
{
    checkin_as(one, &rich);
    checkin(&harness, two, NULL);
    uint64_t clients[] = {one, two};
    for (int i = 0; i < 2; i++) {
        tern_Task task = i == 0 ? checkin_as(one, &rich).task : task_of(two);
        assert_string_equal(task.codec, "density:p=0.2,coder=range");
        assert_int_equal(report(clients[i], &task, &(struct report){0.1F, 1.0F, 10, 0, 100}), 200);
    }
}

// Returns the bytes of the first one's update.
static uint64_t start_with_one_round(uint64_t *one, uint64_t *two)
{
    start_budgets();
    *one = enroll(&harness, false);
    *two = enroll(&harness, false);
    play_first_round(*one, *two);
    return update_bytes_of(*one);
}

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_a_budget_lowers_the_density)
{
    uint64_t poor;
    uint64_t none;
    uint64_t update = start_with_one_round(&poor, &none);
    meter(poor, 1, update, 1000);
    // For each of 100 rounds, in each of which it takes part, 1000 B and a quarter of an update.
    tern_CheckinRequest request = {.budgeted = true, .budget_left = 100000 + 25 * update};
    tern_Task task = checkin_as(poor, &request).task;
    assert_string_equal(task.codec, "density:p=0.02,coder=range");
    assert_in_range(task.local_steps, 20, 30); // the update is the smaller part of a round
    struct tern_db_schedule row = schedule_of(poor);
    assert_string_equal(row.policy, "budget");
    assert_string_equal(row.codec, task.codec);
    assert_non_null(strstr(row.reason, "KB left, 1.0"));
    assert_in_range(row.bytes, 1000 + update / 8, 1000 + update / 4);
    assert_in_range(row.least_bytes, 1001, 1000 + update / 8);
    // Another has none, and a device that knows no density keeps the round's codec.
    assert_string_equal(checkin(&harness, none, NULL).task.codec, "density:p=0.2,coder=range");
    assert_string_equal(schedule_of(none).reason, "budget: none");
    // What it said outlasts the process, like the rest of what is known of it.
    harness_restart(&harness);
    assert_true(client_row(poor).budgeted);
    assert_int_equal(client_row(poor).budget_left, request.budget_left);
    assert_string_equal(task_of(poor).codec, "density:p=0.02,coder=range");
}

// Its next task comes sooner than the store has what its last round took.
TEST(test_bytes_count_before_they_are_written)
{
    uint64_t poor;
    uint64_t none;
    uint64_t update = start_with_one_round(&poor, &none);
    meter(poor, 1, 0, 400);
    count(poor, 1, update, 2600);
    tern_CheckinRequest request = {.budgeted = true, .budget_left = 300000 + 25 * update};
    assert_string_equal(checkin_as(poor, &request).task.codec, "density:p=0.02,coder=range");
    struct tern_db_schedule row = schedule_of(poor);
    assert_in_range(row.bytes, 3000 + update / 8, 3000 + update / 4);
}

// A trainer is selected in a share of 101 rounds, and its budget is spread over that share only.
static void expect_share(double over_selection, const char *allowance)
{
    enum { CLIENTS = 4 };
    uint64_t clients[CLIENTS];
    uint32_t tasks = 0;
    harness.config.federation.round.cohort = 2;
    harness.config.federation.round.over_selection = over_selection;
    harness.config.federation.min_clients = CLIENTS;
    start_budgets();
    enroll(&harness, true); // an evaluator trains in no round
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = enroll(&harness, false);
    }
    for (int i = 0; i < 2 * CLIENTS; i++) { // the last check-in of the first turn opens the round
        const tern_CheckinRequest request = {.budgeted = true, .budget_left = 1000000};
        if (checkin_as(clients[i % CLIENTS], &request).has_task) {
            assert_non_null(strstr(schedule_of(clients[i % CLIENTS]).reason, allowance));
            tasks++;
        }
    }
    assert_true(tasks >= 2);
}

TEST(test_a_budget_is_spread_over_the_rounds_a_client_takes_part_in)
{
    expect_share(0.0, "1.00 MB left, 19.80 KB a round,"); // 101 x 2 of 4
}

TEST(test_who_is_invited_to_spare_takes_part_as_well)
{
    expect_share(0.5, "1.00 MB left, 13.20 KB a round,"); // 101 x 3 of 4
}

// The rounds of those who have no bytes left fall to the others, whose bytes are then spread over
// more; after a restart as well.
TEST(test_others_make_up_for_who_is_spent)
{
    enum { CLIENTS = 4 };
    const tern_CheckinRequest has = {.budgeted = true, .budget_left = 1000000};
    const tern_CheckinRequest spent = {.budgeted = true, .budget_left = 1};
    uint64_t clients[CLIENTS];
    tern_CheckinReply first[CLIENTS];
    harness.config.federation.round.cohort = 2;
    harness.config.federation.min_clients = CLIENTS;
    start_budgets();
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = enroll(&harness, false);
        checkin_as(clients[i], &has);
    }
    for (int i = 0; i < CLIENTS; i++) {
        first[i] = checkin_as(clients[i], &has);
        if (first[i].has_task) {
            checkin_as(clients[i], &spent);
        }
    }
    for (int i = 0; i < CLIENTS; i++) {
        if (first[i].has_task) {
            assert_int_equal(
                report(clients[i], &first[i].task, &(struct report){0.1F, 1.0F, 10, 0, 100}), 200);
        }
    }
    harness_restart(&harness);
    for (int i = 0; i < CLIENTS; i++) {
        if (!first[i].has_task) {
            tern_CheckinReply reply = checkin_as(clients[i], &has);
            assert_true(reply.has_task);
            assert_int_equal(reply.task.round, 2);
            assert_non_null(strstr(schedule_of(clients[i]).reason,
                                   "1.00 MB left, 10.00 KB a round,")); // all 100
        }
    }
}

// A budget of each round is reported as large again; one of the month shrinks, also in rounds whose
// tasks came with the answers to updates and needed no check-in.
TEST(test_budgets_of_rounds_and_of_months)
{
    start_budgets();
    uint64_t monthly = enroll(&harness, false);
    uint64_t each = enroll(&harness, false);
    tern_CheckinRequest request = {.budgeted = true, .budget_left = 500000};
    checkin_as(monthly, &request);
    checkin_as(each, &request);
    for (uint32_t round = 1; round <= 3; round++) {
        tern_Task task = checkin_as(each, &request).task; // as much as before
        assert_int_equal(task.round, round);
        assert_int_equal(report(each, &task, &(struct report){0.1F, 1.0F, 10, 0, 100}), 200);
        tern_CheckinReply now = checkin_as(
            monthly, &(tern_CheckinRequest){.budgeted = true, .budget_left = 500000 - round});
        assert_int_equal(report(monthly, &now.task, &(struct report){0.1F, 1.0F, 10, 0, 100}), 200);
    }
    checkin_as(each, &request);
    assert_non_null(strstr(schedule_of(each).reason, "500.00 KB left, 500.00 KB a round"));
    // Its next task came with the last answer: less than it said, by a round.
    struct tern_db_schedule row = schedule_of(monthly);
    assert_true(row.bytes > 0);
    assert_null(strstr(row.reason, "500.00 KB left"));
    harness_restart(&harness);
    assert_int_equal(client_row(monthly).budget_left, 499997);
    assert_int_equal(client_row(monthly).budget_spent, row.bytes);
    assert_false(client_row(monthly).budget_renewed);
    assert_true(client_row(each).budget_renewed);
}

// At a month's turn a month's budget is large again, like one of each round, which it is not.
TEST(test_a_months_turn_is_not_taken_for_a_budget_of_each_round)
{
    start_budgets();
    uint64_t monthly = enroll(&harness, false);
    uint64_t each = enroll(&harness, false);
    tern_CheckinRequest request = {.budgeted = true, .budget_left = 500000};
    tern_CheckinRequest shrinking = request;
    checkin_as(monthly, &request);
    checkin_as(each, &request);
    for (uint32_t round = 1; round <= 2; round++) {
        tern_Task task = checkin_as(each, &request).task;
        assert_int_equal(report(each, &task, &(struct report){0.1F, 1.0F, 10, 0, 100}), 200);
        task = checkin_as(monthly, &shrinking).task;
        assert_int_equal(report(monthly, &task, &(struct report){0.1F, 1.0F, 10, 0, 100}), 200);
        shrinking.budget_left -= 10000;
    }
    assert_true(client_row(monthly).budget_spent > 0);
    test_advance(UINT64_C(20) * 86400000); // from the middle of a month
    tern_Task turned = checkin_as(monthly, &request).task;
    assert_int_equal(report(monthly, &turned, &(struct report){0.1F, 1.0F, 10, 0, 100}), 200);
    tern_Task task = checkin_as(each, &request).task;
    assert_int_equal(report(each, &task, &(struct report){0.1F, 1.0F, 10, 0, 100}), 200);
    harness_restart(&harness);
    assert_false(client_row(monthly).budget_renewed);
    assert_true(client_row(each).budget_renewed);
}

TEST(test_codecs_that_a_client_lacks_are_not_asked_for)
{
    set_policy("budget");
    set_codec("3lc:s=1,coder=zero-run");
    harness_start(&harness);
    uint64_t small = enroll(&harness, false);
    uint64_t large = enroll(&harness, false);
    tern_CheckinRequest request = {.budgeted = true,
                                   .budget_left = 5000,
                                   .codecs = 1u << TERN_CODEC_FLOAT32 | 1u << TERN_CODEC_3LC};
    checkin_as(small, &request);
    request.codecs = 0;
    tern_Task task = checkin_as(large, &request).task;
    assert_string_equal(task.codec, "density:p=0.002,coder=zero-run");
    request.codecs = 1u << TERN_CODEC_FLOAT32 | 1u << TERN_CODEC_3LC;
    assert_string_equal(checkin_as(small, &request).task.codec, "3lc:s=1");
}

TEST(test_who_has_no_bytes_left_is_not_invited)
{
    harness.config.federation.round.cohort = 1;
    harness.config.federation.selection = TERN_SELECTION_BUDGET;
    harness_start(&harness);
    uint64_t one = enroll(&harness, false);
    uint64_t two = enroll(&harness, false);
    checkin_as(one, &rich);
    checkin_as(two, &rich);
    uint32_t tasks[3] = {0};
    for (uint32_t round = 1; round <= 12; round++) {
        // Once it has been measured, one can afford not a single round more.
        tern_CheckinRequest poor = {.budgeted = true, .budget_left = tasks[one] > 1 ? 500 : 50000};
        tern_CheckinReply reply = checkin_as(one, &poor);
        uint64_t client = reply.has_task ? one : two;
        reply = reply.has_task ? reply : checkin_as(two, &rich);
        assert_true(reply.has_task);
        assert_int_equal(report(client, &reply.task, &(struct report){0.1F, 1.0F, 10, 0, 100}),
                         200);
        meter(client, reply.task.round, 1000, 1000);
        tasks[client]++;
    }
    assert_true(tasks[one] >= 1 && tasks[one] <= 3);
    assert_int_equal(tasks[one] + tasks[two], 12);
}

// Two are needed, and one of them has no bytes left, which is known once its round was measured.
TEST(test_no_round_below_the_quorum)
{
    const tern_CheckinRequest none = {.budgeted = true, .budget_left = 0};
    harness.config.federation.round.cohort = 2;
    harness.config.federation.round.quorum = 2;
    harness.config.federation.selection = TERN_SELECTION_BUDGET;
    harness_start(&harness);
    const uint64_t one = enroll(&harness, false);
    const uint64_t two = enroll(&harness, false);
    checkin_as(one, &rich);
    checkin_as(two, &rich);
    for (int i = 0; i < 4; i++) {
        const uint64_t client = i % 2 == 0 ? one : two;
        tern_CheckinReply reply = checkin_as(client, &rich);
        assert_true(reply.has_task);
        if (i == 3) {
            checkin_as(one, &none);
        }
        assert_int_equal(report(client, &reply.task, &(struct report){0.1F, 1.0F, 10, 0, 100}),
                         200);
        meter(client, reply.task.round, 1000, 1000);
    }
    for (int turn = 0; turn < 5; turn++) {
        test_advance(60001);
        assert_false(checkin_as(one, &none).has_task);
        assert_false(checkin_as(two, &rich).has_task);
    }
    bool task = false;
    for (int turn = 0; turn < 5 && !task; turn++) {
        test_advance(60001);
        task = checkin_as(one, &rich).has_task || checkin_as(two, &rich).has_task;
    }
    assert_true(task);
}

// --- Availability

TEST(test_availability_prefers_mains_power)
{
    enum { CLIENTS = 20 };
    uint64_t clients[CLIENTS];
    uint32_t tasks[2] = {0};
    harness.config.federation.round.cohort = 2;
    harness.config.federation.selection = TERN_SELECTION_AVAILABILITY;
    harness_start(&harness);
    tern_CheckinRequest facts[2] = {{.power = tern_Power_POWER_MAINS},
                                    {.power = tern_Power_POWER_BATTERY, .metered = true}};
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = enroll(&harness, false);
    }
    for (int round = 0; round < 60; round++) {
        int done = 0;
        for (int i = 0; i < CLIENTS && done < 2; i++) {
            tern_CheckinReply reply = checkin_as(clients[i], &facts[i % 2]);
            if (reply.has_task) {
                done++;
                tasks[i % 2]++;
                report(clients[i], &reply.task, &(struct report){0.1F, 1.0F, 10, 0, 100});
            }
        }
        for (int i = 0; i < CLIENTS; i++) { // so that all are as recent
            checkin_as(clients[i], &facts[i % 2]);
        }
    }
    assert_true(tasks[0] > 2 * tasks[1]); // four times as likely
    assert_true(tasks[1] > 6);
}
