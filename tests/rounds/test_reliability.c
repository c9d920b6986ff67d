// The record of a client's tasks, and when another is asked in its place.
#include "rounds/reliability.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
// cmocka wants the headers above first.
#include <cmocka.h>

#define SECOND UINT64_C(1000)
#define MINUTE (60 * SECOND)
#define OPENED (1000 * MINUTE)
#define MEMBERS 10

// --- The record

static float missed_times(float unreported, int times)
{
    return times == 0 ? unreported : missed_times(tern_unreported_missed(unreported), times - 1);
}

static float reported_times(float unreported, int times)
{
    return times == 0 ? unreported
                      : reported_times(tern_unreported_reported(unreported), times - 1);
}

static void test_two_in_a_row_are_too_many(void **state)
{
    (void)state;
    assert_false(tern_is_unreliable(0.0F));
    assert_false(tern_is_unreliable(missed_times(0.0F, 1)));
    assert_true(tern_is_unreliable(missed_times(0.0F, 2)));
    assert_true(missed_times(0.0F, 1000) <= 1.0F);
}

static void test_reports_make_up_for_it(void **state)
{
    (void)state;
    assert_false(tern_is_unreliable(reported_times(missed_times(0.0F, 2), 1)));
    assert_true(tern_is_unreliable(reported_times(1.0F, 3)));
    assert_false(tern_is_unreliable(reported_times(1.0F, 4)));
    assert_true(reported_times(1.0F, 30) == 0.0F);
    assert_true(tern_unreported_reported(0.0F) == 0.0F);
}

static void test_every_third_try_is_one_too_many(void **state)
{
    (void)state;
    static const uint32_t failed[] = {4, 7, 10, 3001};
    static const uint32_t fine[] = {0, 1, 2, 3, 5, 6, 8, 3000, 3002};
    for (size_t i = 0; i < sizeof failed / sizeof failed[0]; i++) {
        assert_true(tern_tries_failed(failed[i]));
    }
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        assert_false(tern_tries_failed(fine[i]));
        assert_int_equal(tern_tries_are_over(fine[i]), fine[i] > 3);
    }
}

// Whoever reports every second task, so that it never misses two in a row, holds every second round.
static void test_every_second_is_too_few(void **state)
{
    (void)state;
    float record = 0.0F;
    for (int i = 0; i < 20; i++) {
        record = tern_unreported_reported(tern_unreported_missed(record));
    }
    assert_true(tern_is_unreliable(record));
    record = 0.0F;
    for (int i = 0; i < 20; i++) {
        assert_false(tern_is_unreliable(record)); // one in five
        record = reported_times(tern_unreported_missed(record), 4);
    }
}

static void test_places(void **state)
{
    (void)state;
    assert_int_equal(tern_unreliable_places(1), 1);
    assert_int_equal(tern_unreliable_places(8), 1);
    assert_int_equal(tern_unreliable_places(9), 2);
    assert_int_equal(tern_unreliable_places(UINT32_MAX), UINT32_MAX / 8 + 1);
}

// --- The pace of a round of ten, whose deadline is ten minutes away

static struct tern_member members[MEMBERS];
static uint64_t scratch[MEMBERS];

// `reported` members, each `after_ms` longer than the one before.
static struct tern_pace pace_of(uint32_t reported, uint64_t after_ms)
{
    const struct tern_round_policy policy = {.deadline_ms = 10 * MINUTE};
    struct tern_round_machine machine;
    struct tern_pace pace;
    tern_round_init(&machine, &policy, members, MEMBERS);
    machine.open = true;
    machine.opened_ms = OPENED;
    machine.deadline_ms = OPENED + 10 * MINUTE;
    machine.quorum = 5;
    memset(members, 0, sizeof members);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        const bool has = i >= MEMBERS - reported; // the last come first
        members[i] = (struct tern_member){.client = i + 1, .tasked_ms = OPENED};
        members[i].state = has ? TERN_MEMBER_REPORTED : TERN_MEMBER_TASKED;
        members[i].reported_ms = has ? OPENED + (MEMBERS - i) * after_ms : 0;
    }
    machine.member_count = MEMBERS;
    tern_pace_of(&machine, 30 * SECOND, scratch, &pace);
    return pace;
}

static void test_others_are_asked_after_four_times_the_median(void **state)
{
    (void)state;
    const struct tern_pace pace = pace_of(5, 10 * SECOND);
    assert_true(pace.known);
    assert_int_equal(pace.median_ms, 30 * SECOND);
    assert_int_equal(tern_overdue_ms(&pace, OPENED, 0), OPENED + 2 * MINUTE);
    assert_int_equal(tern_overdue_ms(&pace, OPENED + 7, 20 * SECOND), OPENED + 7 + 2 * MINUTE);
    assert_int_equal(tern_overdue_ms(&pace, OPENED, MINUTE), OPENED + 4 * MINUTE); // its own
}

static void test_patience_is_bounded(void **state)
{
    (void)state;
    const struct tern_pace fast = pace_of(5, 1);
    assert_int_equal(tern_overdue_ms(&fast, OPENED, 0), OPENED + 30 * SECOND);
    const struct tern_pace slow = pace_of(5, MINUTE);
    assert_int_equal(tern_overdue_ms(&slow, OPENED, 0), OPENED + 10 * MINUTE);
    assert_int_equal(tern_overdue_ms(&fast, OPENED, UINT64_MAX), OPENED + 10 * MINUTE);
    struct tern_pace brief = fast;
    brief.window_ms = 20 * SECOND; // less than the least
    assert_int_equal(tern_overdue_ms(&brief, OPENED, 0), OPENED + 20 * SECOND);
}

static void test_few_reports_say_nothing(void **state)
{
    (void)state;
    for (uint32_t reported = 0; reported < 2; reported++) {
        const struct tern_pace pace = pace_of(reported, SECOND);
        assert_false(pace.known);
        assert_int_equal(tern_overdue_ms(&pace, OPENED, 0), OPENED + 10 * MINUTE);
    }
    assert_true(pace_of(2, SECOND).known);
}

// --- What counts as a miss

static void test_a_task_is_missed_once(void **state)
{
    (void)state;
    struct tern_pace pace = pace_of(0, 0);
    const uint64_t end = OPENED + 10 * MINUTE;
    assert_true(tern_has_missed(&pace, OPENED, 0, end));
    assert_true(tern_has_missed(&pace, OPENED + 5 * MINUTE, 0, end));
    assert_false(tern_has_missed(&pace, OPENED + 5 * MINUTE + 1, 0, end)); // it had too little time
    pace.window_from_ms = end;                                             // extended
    assert_false(tern_has_missed(&pace, OPENED, 0, end + 10 * MINUTE));
    assert_false(tern_has_missed(&pace, OPENED + 5 * MINUTE, 0, end + 10 * MINUTE));
    assert_true(tern_has_missed(&pace, OPENED + 5 * MINUTE + 1, 0, end + 10 * MINUTE));
}

// Of a round that closes long before its deadline only those who took several times as long as the others.
static void test_who_is_a_little_slower_has_not_missed(void **state)
{
    (void)state;
    const struct tern_pace pace = pace_of(9, 10 * SECOND);
    assert_int_equal(pace.median_ms, 50 * SECOND);
    assert_false(tern_has_missed(&pace, OPENED, 0, OPENED + 3 * MINUTE));
    assert_true(tern_has_missed(&pace, OPENED, 0, OPENED + 200 * SECOND));
    assert_false(tern_has_missed(&pace, OPENED, MINUTE, OPENED + 200 * SECOND));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_in_a_row_are_too_many),
        cmocka_unit_test(test_reports_make_up_for_it),
        cmocka_unit_test(test_every_third_try_is_one_too_many),
        cmocka_unit_test(test_every_second_is_too_few),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_others_are_asked_after_four_times_the_median),
        cmocka_unit_test(test_patience_is_bounded),
        cmocka_unit_test(test_few_reports_say_nothing),
        cmocka_unit_test(test_a_task_is_missed_once),
        cmocka_unit_test(test_who_is_a_little_slower_has_not_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
