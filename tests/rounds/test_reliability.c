// The record of a client's tasks, and when another is asked in its place.
#include "rounds/reliability.h"
#include "tests/cases.h"

#include <string.h>

#define SECOND UINT64_C(1000)
#define MINUTE (60 * SECOND)
#define OPENED (1000 * MINUTE)
#define MEMBERS 10

// --- The record

static float missed_times(float unreported, int times)
{
    return times == 0 ? unreported
                      : missed_times(tern_unreported_after_miss(unreported), times - 1);
}

static float reported_times(float unreported, int times)
{
    return times == 0 ? unreported
                      : reported_times(tern_unreported_after_report(unreported), times - 1);
}

CASE(test_two_in_a_row_are_too_many)
{
    assert_false(tern_is_unreliable(0.0F));
    assert_false(tern_is_unreliable(missed_times(0.0F, 1)));
    assert_true(tern_is_unreliable(missed_times(0.0F, 2)));
    assert_true(missed_times(0.0F, 1000) <= 1.0F);
}

CASE(test_reports_make_up_for_it)
{
    assert_false(tern_is_unreliable(reported_times(missed_times(0.0F, 2), 1)));
    assert_true(tern_is_unreliable(reported_times(1.0F, 3)));
    assert_false(tern_is_unreliable(reported_times(1.0F, 4)));
    assert_true(reported_times(1.0F, 30) == 0.0F);
    assert_true(tern_unreported_after_report(0.0F) == 0.0F);
}

CASE(test_every_third_try_is_one_too_many)
{
    static const uint32_t failed[] = {4, 7, 10, 3001};
    static const uint32_t fine[] = {0, 1, 2, 3, 5, 6, 8, 3000, 3002};
    for (size_t i = 0; i < sizeof failed / sizeof failed[0]; i++) {
        assert_true(tern_tries_count_as_missed(failed[i]));
    }
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        assert_false(tern_tries_count_as_missed(fine[i]));
        assert_int_equal(tern_tries_are_used_up(fine[i]), fine[i] > 3);
    }
}

// Whoever reports every second task, so that it never misses two in a row, holds every second round.
CASE(test_every_second_is_too_few)
{
    float record = 0.0F;
    for (int i = 0; i < 20; i++) {
        record = tern_unreported_after_report(tern_unreported_after_miss(record));
    }
    assert_true(tern_is_unreliable(record));
    record = 0.0F;
    for (int i = 0; i < 20; i++) {
        assert_false(tern_is_unreliable(record)); // one in five
        record = reported_times(tern_unreported_after_miss(record), 4);
    }
}

CASE(test_places)
{
    assert_int_equal(tern_unreliable_invitations(1), 1);
    assert_int_equal(tern_unreliable_invitations(8), 1);
    assert_int_equal(tern_unreliable_invitations(9), 2);
    assert_int_equal(tern_unreliable_invitations(UINT32_MAX), UINT32_MAX / 8 + 1);
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
    tern_pace_measure(&machine, 30 * SECOND, scratch, &pace);
    return pace;
}

CASE(test_others_are_asked_after_four_times_the_median)
{
    const struct tern_pace pace = pace_of(5, 10 * SECOND);
    assert_true(pace.known);
    assert_int_equal(pace.median_ms, 30 * SECOND);
    assert_int_equal(tern_member_overdue_ms(&pace, OPENED, 0), OPENED + 2 * MINUTE);
    assert_int_equal(tern_member_overdue_ms(&pace, OPENED + 7, 20 * SECOND),
                     OPENED + 7 + 2 * MINUTE);
    assert_int_equal(tern_member_overdue_ms(&pace, OPENED, MINUTE), OPENED + 4 * MINUTE); // its own
}

CASE(test_patience_is_bounded)
{
    const struct tern_pace fast = pace_of(5, 1);
    assert_int_equal(tern_member_overdue_ms(&fast, OPENED, 0), OPENED + 30 * SECOND);
    const struct tern_pace slow = pace_of(5, MINUTE);
    assert_int_equal(tern_member_overdue_ms(&slow, OPENED, 0), OPENED + 10 * MINUTE);
    assert_int_equal(tern_member_overdue_ms(&fast, OPENED, UINT64_MAX), OPENED + 10 * MINUTE);
    struct tern_pace brief = fast;
    brief.window_ms = 20 * SECOND; // less than the least
    assert_int_equal(tern_member_overdue_ms(&brief, OPENED, 0), OPENED + 20 * SECOND);
}

CASE(test_few_reports_say_nothing)
{
    for (uint32_t reported = 0; reported < 2; reported++) {
        const struct tern_pace pace = pace_of(reported, SECOND);
        assert_false(pace.known);
        assert_int_equal(tern_member_overdue_ms(&pace, OPENED, 0), OPENED + 10 * MINUTE);
    }
    assert_true(pace_of(2, SECOND).known);
}

// --- What counts as a miss

CASE(test_a_task_is_missed_once)
{
    struct tern_pace pace = pace_of(0, 0);
    const uint64_t end = OPENED + 10 * MINUTE;
    assert_true(tern_member_has_missed(&pace, OPENED, 0, end));
    assert_true(tern_member_has_missed(&pace, OPENED + 5 * MINUTE, 0, end));
    assert_false(
        tern_member_has_missed(&pace, OPENED + 5 * MINUTE + 1, 0, end)); // it had too little time
    pace.window_from_ms = end;                                           // extended
    assert_false(tern_member_has_missed(&pace, OPENED, 0, end + 10 * MINUTE));
    assert_false(tern_member_has_missed(&pace, OPENED + 5 * MINUTE, 0, end + 10 * MINUTE));
    assert_true(tern_member_has_missed(&pace, OPENED + 5 * MINUTE + 1, 0, end + 10 * MINUTE));
}

// If a round closes long before its deadline, only clients that took several times as long as the others missed it.
CASE(test_who_is_a_little_slower_has_not_missed)
{
    const struct tern_pace pace = pace_of(9, 10 * SECOND);
    assert_int_equal(pace.median_ms, 50 * SECOND);
    assert_false(tern_member_has_missed(&pace, OPENED, 0, OPENED + 3 * MINUTE));
    assert_true(tern_member_has_missed(&pace, OPENED, 0, OPENED + 200 * SECOND));
    assert_false(tern_member_has_missed(&pace, OPENED, MINUTE, OPENED + 200 * SECOND));
}
