// The time of day is set while a service runs and while it does not: what was to happen in a minute does.
#include "harness.h"
#include "service/internal.h"

#include <string.h>
#include <time.h>

#include "scheduled.h"
#include "tests/cases.h"

#define MINUTE UINT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

// --- While it runs

#define TEST(name) CASE_WITH(name, setup, teardown)

// An iteration counts in its minute and in the next.
CASE(test_longest_iteration)
{
    const uint64_t minute = 60000000;
    struct tern_longest longest = {.us = 0};
    assert_int_equal(tern_longest_add(&longest, 5 * minute, 30), 30);
    assert_int_equal(tern_longest_add(&longest, 5 * minute + 1, 20), 30);
    assert_int_equal(tern_longest_add(&longest, 6 * minute, 10), 30);
    assert_int_equal(tern_longest_add(&longest, 7 * minute, 5), 10);
    assert_int_equal(tern_longest_add(&longest, 7 * minute + 1, 40), 40);
    assert_int_equal(tern_longest_add(&longest, 9 * minute, 1), 1);
}

// When the time of day is set back, what waits for an interval does not wait for longer.
TEST(test_intervals_go_on)
{
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    struct tern_db_client row;
    struct tern_db *reader;
    char why[256];
    harness.config.limits.requests_per_minute = 2;
    harness_start(&harness);
    assert_int_equal(tern_db_open(harness.path, 0, &reader, why), TERN_OK);
    uint64_t one = enroll(&harness, false);
    test_advance(2 * 7200000);
    size_t len = encode_checkin(NULL, 20000, body);
    struct tern_http_exchange *held =
        call_begin(&harness, "POST", TERN_PATH_CHECKIN, harness.tokens[one], body, len);
    enroll(&harness, true); // answered in order: the check-in is held by now
    assert_false(call_is_done(held));
    test_set_back(7200000);
    test_advance(20001);
    struct answer answer = call_end(held); // its time is up
    answer_expect(answer, 200);
    (void)checkin(&harness, one, NULL);
    test_advance(60000);
    (void)checkin(&harness, one, NULL); // its allowance is back
    (void)checkin(&harness, one, NULL);
    test_advance(2000);
    enroll(&harness, true); // with whatever is due
    assert_int_equal(tern_db_client_get(reader, one, &row), TERN_OK);
    assert_int_equal(row.last_seen_ms + 2000, test_now());
    tern_db_close(reader);
}

// It is known that somebody came, however far back the clock is set.
TEST(test_who_came_stays_known)
{
    struct tern_db *reader;
    struct tern_db_client row;
    char why[256];
    harness_start(&harness);
    assert_int_equal(tern_db_open(harness.path, 0, &reader, why), TERN_OK);
    const uint64_t one = enroll(&harness, false);
    const uint64_t other = enroll(&harness, false);
    (void)checkin(&harness, one, NULL);
    test_set_back(7200000);
    (void)checkin(&harness, one, NULL); // with a step of the clock
    for (int restarts = 0; restarts < 2; restarts++) {
        (void)checkin(&harness, one, NULL);
        assert_int_equal(tern_db_client_get(reader, one, &row), TERN_OK);
        assert_true(row.last_seen_ms > row.created_ms);
        assert_int_equal(tern_db_client_get(reader, other, &row), TERN_OK);
        assert_true(row.last_seen_ms <= row.created_ms);
        harness_restart(&harness);
    }
    tern_db_close(reader);
}

// --- While it does not

static const char *const boots[] = {"0b1d", "0b1e"};

// Rounds of an hour, of one update at least; client 1 has reported in the first of them, 2 has its task.
static void open_round(void)
{
    struct tern_round_policy *round = &harness.config.federation.round;
    harness.config.boot = boots[0];
    round->deadline_ms = HOUR;
    round->quorum = 1;
    harness_start_with(&harness, 2);
    (void)do_round(&harness, 1, NULL, 0.5F);
    (void)task_of(2);
}

static bool is_committed(uint32_t round)
{
    struct tern_db_round row = {.state = TERN_ROUND_OPEN};
    struct tern_db *db = peek();
    const enum tern_result result = tern_db_round_get(db, round, &row);
    tern_db_close(db);
    assert_true(result == TERN_OK || result == TERN_ERR_NOT_FOUND);
    return row.state == TERN_ROUND_COMMITTED;
}

// Whatever is due is begun with the first of its requests; merging takes its time.
static bool gets_committed(uint32_t round)
{
    for (int i = 0; i < 10000 && !is_committed(round); i++) {
        (void)checkin(&harness, 1, NULL);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return is_committed(round);
}

static bool stays_open(uint32_t round)
{
    (void)checkin(&harness, 1, NULL);
    harness_restart(&harness); // a stop waits for what is merged
    return !is_committed(round);
}

static void start_with_clock(int64_t step)
{
    harness_stop(&harness);
    if (step < 0) {
        test_set_back((uint64_t)-step);
    } else {
        test_set_forth((uint64_t)step);
    }
    harness_start(&harness);
}

// The machine ran on, so that it knows how much time has passed.
TEST(test_a_deadline_stays_while_the_machine_runs)
{
    const int64_t steps[] = {400 * (int64_t)DAY, -400 * (int64_t)DAY, -(int64_t)DAY, (int64_t)DAY};
    open_round();
    test_advance(10 * MINUTE);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        start_with_clock(steps[i]);
        assert_true(stays_open(1));
        test_advance(10 * MINUTE);
        assert_true(stays_open(1));
    }
    const struct tern_db_round row = round_of(1);
    assert_int_equal(row.deadline_ms - row.opened_ms, HOUR);
    test_advance(9 * MINUTE + 59000);
    assert_true(stays_open(1));
    test_advance(1000);
    assert_true(gets_committed(1));
}

// What passed while nothing was served has passed, as ever.
TEST(test_time_passes_while_nothing_is_served)
{
    open_round();
    harness_stop(&harness);
    test_set_back(DAY);
    test_advance(HOUR);
    harness_start(&harness);
    assert_true(gets_committed(1));
}

TEST(test_the_next_round_opens_when_it_was_to)
{
    const int64_t steps[] = {400 * (int64_t)DAY, -400 * (int64_t)DAY, -(int64_t)DAY};
    harness.config.federation.round.min_interval_ms = 2 * HOUR;
    open_round();
    (void)do_round(&harness, 2, NULL, 0.5F);
    assert_true(gets_committed(1));
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        start_with_clock(steps[i]);
        assert_false(checkin(&harness, 1, NULL).has_task);
        test_advance(30 * MINUTE);
    }
    assert_false(checkin(&harness, 1, NULL).has_task);
    test_advance(30 * MINUTE);
    enroll(&harness, true); // with whatever is due
    assert_true(checkin(&harness, 1, NULL).has_task);
}

// Who came lately is still invited without coming first.
TEST(test_clients_stay_eligible)
{
    harness.config.federation.eligible_within_ms = HOUR;
    open_round();
    test_advance(MINUTE);
    start_with_clock(400 * (int64_t)DAY);
    enroll(&harness, true);
    struct tern_db_client row = client_row(2);
    assert_true(row.last_seen_ms <= test_now() && row.last_seen_ms + HOUR >= test_now());
    (void)do_round(&harness, 2, NULL, 0.5F);
    assert_true(gets_committed(1));
    assert_true(checkin(&harness, 2, NULL).has_task);
}

// A machine that was off knows only that time did not go back; it finds that out once.
TEST(test_a_clock_that_is_back_after_a_boot)
{
    harness.config.federation.round.min_interval_ms = 2 * HOUR;
    open_round();
    (void)do_round(&harness, 2, NULL, 0.5F);
    assert_true(gets_committed(1));
    test_advance(HOUR);
    (void)checkin(&harness, 1,
                  NULL); // when it was last seen is known to be an hour after the opening
    harness.config.boot = boots[1];
    for (int restarts = 0; restarts < 3; restarts++) {
        start_with_clock(restarts == 0 ? -(int64_t)DAY : 0);
        assert_false(checkin(&harness, 1, NULL).has_task);
        test_advance(20 * MINUTE - (restarts == 2 ? 1000 : 0));
    }
    assert_false(checkin(&harness, 1, NULL).has_task);
    test_advance(1000);
    enroll(&harness, true); // with whatever is due
    assert_true(checkin(&harness, 1, NULL).has_task);
}

// A clock that is ahead after a boot cannot be told from a machine that was off for long. Once it is
// corrected, by whatever boot, nothing lies in the future.
TEST(test_a_clock_that_is_ahead_after_a_boot)
{
    open_round();
    harness.config.boot = boots[1];
    start_with_clock(400 * (int64_t)DAY);
    assert_true(gets_committed(1));
    (void)do_round(&harness, 1, NULL, 0.5F);
    (void)task_of(2);
    harness.config.boot = boots[0];
    start_with_clock(-400 * (int64_t)DAY);
    assert_true(stays_open(2));
    assert_true(round_of(2).deadline_ms <= test_now() + HOUR);
    test_advance(HOUR);
    assert_true(gets_committed(2));
    harness.config.boot = boots[1];
    harness_restart(&harness);
    assert_true(checkin(&harness, 1, NULL).has_task);
    assert_true(round_of(3).deadline_ms <= test_now() + HOUR);
}
