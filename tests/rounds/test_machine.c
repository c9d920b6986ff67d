// The round machine, driven by hand through every transition.
#include "rounds/machine.h"
#include "tests/cases.h"

#include <string.h>

#define START 1000000u
#define DEADLINE 60000u

static struct tern_member members[64];
static struct tern_round_machine machine;
static uint64_t ids[64];

static struct tern_round_policy policy(void)
{
    return (struct tern_round_policy){.seed = 7,
                                      .cohort = 4,
                                      .quorum = 2,
                                      .deadline_ms = DEADLINE,
                                      .come_back_min_ms = 1000,
                                      .come_back_max_ms = 3600000};
}

static void make(const struct tern_round_policy *with)
{
    tern_round_init(&machine, with, members, 64);
}

static enum tern_result open_with(uint32_t clients, uint64_t now)
{
    for (uint32_t i = 0; i < clients; i++) {
        ids[i] = i + 1;
    }
    return tern_round_open(&machine, ids, clients, now);
}

static void make_open(void)
{
    struct tern_round_policy with = policy();
    make(&with);
    assert_int_equal(open_with(8, START), TERN_OK);
}

// The i-th member of the open round gets its task, and reports.
static void report(uint32_t i, uint64_t now)
{
    tern_round_assign_task(&machine.members[i], 5, now);
    assert_int_equal(tern_round_check_update(&machine, machine.members[i].client, machine.round),
                     TERN_OK);
    tern_round_record_report(&machine, &machine.members[i], now);
}

static uint64_t outsider(void)
{
    uint64_t id = 1;
    while (tern_round_member(&machine, id) != NULL) {
        id++;
    }
    return id;
}

CASE(test_nothing_before_the_first_round)
{
    uint64_t wait = 0;
    struct tern_round_policy with = policy();
    make(&with);
    assert_int_equal(tern_round_tick(&machine, START), TERN_ROUND_NOTHING);
    assert_int_equal(tern_round_checkin(&machine, 1, START, &wait), TERN_CHECKIN_WAIT);
    assert_in_range(wait, 1000, 3600000);
    assert_int_equal(tern_round_check_update(&machine, 1, 0), TERN_ERR_UNKNOWN_ROUND);
    assert_int_equal(tern_round_check_update(&machine, 1, 1), TERN_ERR_UNKNOWN_ROUND);
    assert_int_equal(tern_round_earliest_open_ms(&machine), 0);
    assert_int_equal(open_with(0, START), TERN_ERR_ARGUMENT);
    assert_false(machine.open);
}

CASE(test_opening)
{
    make_open();
    assert_int_equal(machine.round, 1);
    assert_int_equal(machine.member_count, 4);
    assert_int_equal(machine.target, 4);
    assert_int_equal(machine.quorum, 2);
    assert_int_equal(machine.deadline_ms, START + DEADLINE);
    assert_int_equal(tern_round_next_tick(&machine), START + DEADLINE);
    assert_int_equal(open_with(8, START), TERN_ERR_STATE);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(machine.members[i].state, TERN_MEMBER_INVITED);
    }
}

CASE(test_few_clients_shrink_the_round)
{
    struct tern_round_policy with = policy();
    with.quorum = 3;
    make(&with);
    assert_int_equal(open_with(2, START), TERN_OK);
    assert_int_equal(machine.target, 2);
    assert_int_equal(machine.quorum, 2);
    // The default quorum is half of the cohort, rounded up.
    with.quorum = 0;
    with.cohort = 5;
    make(&with);
    assert_int_equal(open_with(8, START), TERN_OK);
    assert_int_equal(machine.quorum, 3);
    // In a small federation half of the cohort would be everybody.
    make(&with);
    assert_int_equal(open_with(3, START), TERN_OK);
    assert_int_equal(machine.quorum, 2);
    // Secure rounds never need fewer than secure.min_clients.
    with.quorum_least = 3;
    make(&with);
    assert_int_equal(open_with(4, START), TERN_OK);
    assert_int_equal(machine.quorum, 3);
    tern_round_lower_target(&machine, 1);
    assert_int_equal(machine.target, 3);
    tern_round_reset_target(&machine, 4);
    assert_int_equal(machine.quorum, 3);
}

CASE(test_over_selection_invites_more_but_wants_the_target)
{
    struct tern_round_policy with = policy();
    with.over_selection = 0.5;
    make(&with);
    assert_int_equal(open_with(8, START), TERN_OK);
    assert_int_equal(machine.member_count, 6);
    assert_int_equal(machine.target, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(tern_round_tick(&machine, START + i), TERN_ROUND_NOTHING);
        report(i, START + i);
    }
    assert_int_equal(tern_round_tick(&machine, START + 10), TERN_ROUND_CLOSE);
}

CASE(test_capacity_is_a_bound)
{
    struct tern_round_policy with = policy();
    tern_round_init(&machine, &with, members, 3);
    assert_int_equal(open_with(8, START), TERN_ERR_NO_SPACE);
    assert_false(machine.open);
    assert_int_equal(machine.round, 0);
}

CASE(test_members_get_their_task_until_they_report)
{
    uint64_t wait = 0;
    make_open();
    uint64_t client = machine.members[1].client;
    assert_int_equal(tern_round_checkin(&machine, client, START, &wait), TERN_CHECKIN_TASK);
    tern_round_assign_task(tern_round_member(&machine, client), 5, START + 1);
    // Its reply may have been lost: the same task again.
    assert_int_equal(tern_round_checkin(&machine, client, START + 2, &wait), TERN_CHECKIN_TASK);
    tern_round_record_report(&machine, tern_round_member(&machine, client), START + 3);
    assert_int_equal(tern_round_checkin(&machine, client, START + 4, &wait), TERN_CHECKIN_WAIT);
    assert_int_equal(tern_round_checkin(&machine, outsider(), START, &wait), TERN_CHECKIN_WAIT);
}

CASE(test_what_an_update_is)
{
    make_open();
    uint64_t client = machine.members[0].client;
    // Invited, but it has no task that it could have trained.
    assert_int_equal(tern_round_check_update(&machine, client, 1), TERN_ERR_NOT_IN_COHORT);
    tern_round_assign_task(&machine.members[0], 5, START);
    assert_int_equal(tern_round_check_update(&machine, client, 1), TERN_OK);
    assert_int_equal(tern_round_check_update(&machine, client, 2), TERN_ERR_UNKNOWN_ROUND);
    assert_int_equal(tern_round_check_update(&machine, client, 0), TERN_ERR_UNKNOWN_ROUND);
    assert_int_equal(tern_round_check_update(&machine, outsider(), 1), TERN_ERR_NOT_IN_COHORT);
    tern_round_record_report(&machine, &machine.members[0], START);
    assert_int_equal(tern_round_check_update(&machine, client, 1), TERN_ERR_CONFLICT);
    for (uint32_t i = 1; i < 4; i++) {
        report(i, START);
    }
    tern_round_close(&machine, START + 100);
    assert_int_equal(tern_round_check_update(&machine, client, 1), TERN_ERR_LATE);
    assert_int_equal(tern_round_check_update(&machine, client, 2), TERN_ERR_UNKNOWN_ROUND);
    assert_int_equal(open_with(8, START + 200), TERN_OK);
    assert_int_equal(tern_round_check_update(&machine, client, 1), TERN_ERR_LATE);
}

CASE(test_quorum_closes_at_the_deadline)
{
    make_open();
    report(0, START);
    report(2, START);
    assert_int_equal(tern_round_tick(&machine, START + DEADLINE - 1), TERN_ROUND_NOTHING);
    assert_int_equal(tern_round_tick(&machine, START + DEADLINE), TERN_ROUND_CLOSE);
}

CASE(test_below_quorum_the_missing_are_replaced)
{
    uint64_t wait = 0;
    make_open();
    report(0, START);
    uint64_t reported = machine.members[0].client;
    uint64_t slow = machine.members[1].client;
    tern_round_assign_task(&machine.members[1], 5, START);
    uint64_t now = START + DEADLINE;
    assert_int_equal(tern_round_tick(&machine, now), TERN_ROUND_EXTEND);

    uint64_t fresh[8];
    uint32_t count = 0;
    for (uint64_t id = 1; id <= 8; id++) {
        if (tern_round_member(&machine, id) == NULL) {
            fresh[count++] = id;
        }
    }
    assert_int_equal(tern_round_extend(&machine, fresh, count, now), TERN_OK);
    assert_int_equal(machine.member_count, 7); // three missing, three fresh
    assert_int_equal(machine.attempts, 2);
    assert_int_equal(machine.deadline_ms, now + DEADLINE);
    assert_int_equal(tern_round_tick(&machine, now), TERN_ROUND_NOTHING);
    assert_int_equal(tern_round_member(&machine, reported)->state, TERN_MEMBER_REPORTED);
    assert_int_equal(tern_round_member(&machine, slow)->state, TERN_MEMBER_REPLACED);
    for (uint32_t i = 1; i < machine.member_count; i++) {
        assert_true(machine.members[i].client > machine.members[i - 1].client);
    }
    // A replaced member's update is welcome, and so is the member.
    assert_int_equal(tern_round_check_update(&machine, slow, 1), TERN_OK);
    assert_int_equal(tern_round_checkin(&machine, slow, now, &wait), TERN_CHECKIN_TASK);
    tern_round_record_report(&machine, tern_round_member(&machine, slow), now);
    assert_int_equal(tern_round_tick(&machine, now + DEADLINE), TERN_ROUND_CLOSE);
}

static bool is_gone(const void *ctx, uint64_t client)
{
    const uint64_t *gone = ctx;
    return client == gone[0] || client == gone[1];
}

// Who will never report is replaced at once; who has reported counts, whatever became of it.
CASE(test_gone_members_are_replaced_before_the_deadline)
{
    uint64_t fresh[2] = {50, 51};
    make_open();
    report(0, START);
    uint64_t gone[2] = {machine.members[0].client, machine.members[1].client};
    assert_int_equal(tern_round_count_missing(&machine, is_gone, gone), 1);
    assert_int_equal(tern_round_replace_members(&machine, is_gone, gone, fresh, 0, START + 1),
                     TERN_OK);
    assert_int_equal(machine.attempts, 1); // nobody to invite: it waits for somebody
    assert_int_equal(tern_round_replace_members(&machine, is_gone, gone, fresh, 2, START + 2),
                     TERN_OK);
    assert_int_equal(machine.member_count, 5);
    assert_int_equal(machine.attempts, 2);
    assert_int_equal(machine.deadline_ms, START + DEADLINE);
    assert_int_equal(machine.target, 4);
    assert_int_equal(machine.quorum, 2);
    assert_int_equal(tern_round_member(&machine, gone[0])->state, TERN_MEMBER_REPORTED);
    assert_int_equal(tern_round_member(&machine, gone[1])->state, TERN_MEMBER_REPLACED);
    assert_int_equal(tern_round_count_missing(&machine, is_gone, gone), 0);
    struct tern_round_machine before = machine;
    assert_int_equal(tern_round_replace_members(&machine, is_gone, gone, fresh, 2, START + 3),
                     TERN_OK);
    assert_memory_equal(&machine, &before, sizeof machine);
}

CASE(test_without_fresh_clients_the_missing_stay_invited)
{
    uint64_t wait = 0;
    uint64_t fresh[1] = {50};
    make_open();
    assert_int_equal(tern_round_extend(&machine, fresh, 1, START + DEADLINE), TERN_OK);
    uint32_t replaced = 0;
    uint32_t invited = 0;
    for (uint32_t i = 0; i < machine.member_count; i++) {
        replaced += machine.members[i].state == TERN_MEMBER_REPLACED;
        invited += machine.members[i].state == TERN_MEMBER_INVITED;
    }
    assert_int_equal(replaced, 1);
    assert_int_equal(invited, 4);
    assert_int_equal(tern_round_extend(&machine, fresh, 0, START + 2 * DEADLINE), TERN_OK);
    assert_int_equal(machine.member_count, 5);
    assert_int_equal(tern_round_checkin(&machine, machine.members[4].client, START, &wait),
                     TERN_CHECKIN_TASK);
}

CASE(test_a_round_wants_fewer_but_its_quorum)
{
    make_open();
    report(0, START);
    report(1, START);
    report(2, START);
    assert_false(tern_round_lower_target(&machine, 5)); // never more
    assert_int_equal(machine.target, 4);
    assert_int_equal(tern_round_tick(&machine, START), TERN_ROUND_NOTHING);
    assert_true(tern_round_lower_target(&machine, 3));
    assert_int_equal(tern_round_tick(&machine, START), TERN_ROUND_CLOSE);
    assert_true(tern_round_lower_target(&machine, 0));
    assert_int_equal(machine.target, machine.quorum);
    assert_false(tern_round_lower_target(&machine, 1));
}

CASE(test_extension_that_does_not_fit_changes_nothing)
{
    struct tern_round_policy with = policy();
    uint64_t fresh[2] = {50, 51};
    tern_round_init(&machine, &with, members, 5);
    assert_int_equal(open_with(8, START), TERN_OK);
    assert_int_equal(tern_round_extend(&machine, fresh, 2, START + DEADLINE), TERN_ERR_NO_SPACE);
    assert_int_equal(machine.attempts, 1);
    assert_int_equal(machine.deadline_ms, START + DEADLINE);
    assert_int_equal(machine.members[0].state, TERN_MEMBER_INVITED);
}

CASE(test_rounds_come_to_an_end)
{
    uint64_t wait = 0;
    struct tern_round_policy with = policy();
    with.rounds = 1;
    with.cohort = 1;
    make(&with);
    assert_int_equal(open_with(2, START), TERN_OK);
    report(0, START);
    tern_round_close(&machine, START + 5);
    assert_true(tern_round_finished(&machine));
    assert_int_equal(tern_round_checkin(&machine, 1, START + 6, &wait), TERN_CHECKIN_FINISHED);
    assert_int_equal(open_with(2, START + 6), TERN_ERR_STATE);
    assert_int_equal(tern_round_tick(&machine, START + DEADLINE), TERN_ROUND_NOTHING);
    assert_true(tern_round_next_tick(&machine) == UINT64_MAX);
}

CASE(test_interval_between_rounds)
{
    uint64_t wait = 0;
    struct tern_round_policy with = policy();
    with.min_interval_ms = 300000;
    make(&with);
    assert_int_equal(open_with(8, START), TERN_OK);
    tern_round_close(&machine, START + 1000);
    assert_int_equal(tern_round_earliest_open_ms(&machine), START + 300000);
    assert_int_equal(tern_round_checkin(&machine, 1, START + 2000, &wait), TERN_CHECKIN_WAIT);
    assert_in_range(wait, 298000, 298000 + 298000 / 8);
}

// An idle client comes once per round: after the round's likely end, spread out, within bounds.
CASE(test_come_back_times)
{
    uint64_t wait = 0;
    make_open();
    uint64_t first = outsider();
    // No round yet to judge by: as long as it has taken by then.
    (void)tern_round_checkin(&machine, first, START + 4000, &wait);
    assert_in_range(wait, 4000, 4500);
    (void)tern_round_checkin(&machine, first, START, &wait);
    assert_in_range(wait, policy().come_back_min_ms, policy().come_back_min_ms * 9 / 8);
    uint64_t again = 0;
    (void)tern_round_checkin(&machine, first, START, &again);
    assert_int_equal(wait, again);

    tern_round_close(&machine, START + 8000);
    assert_int_equal(open_with(8, START + 8000), TERN_OK);
    (void)tern_round_checkin(&machine, outsider(), START + 8000, &wait);
    assert_in_range(wait, 8000, 9000); // rounds take 8 s
    // Just later than usual: when it has taken twice as long, not half-way to the deadline.
    (void)tern_round_checkin(&machine, outsider(), START + 8000 + 9000, &wait);
    assert_in_range(wait, 9000, 10125);
    // Much later: half-way to the deadline.
    (void)tern_round_checkin(&machine, outsider(), START + 8000 + 20000, &wait);
    assert_in_range(wait, 20000, 22500);
    // Past the deadline: soon.
    (void)tern_round_checkin(&machine, outsider(), START + 8000 + DEADLINE, &wait);
    assert_in_range(wait, 1000, 1125);
    machine.policy.come_back_max_ms = 2000;
    (void)tern_round_checkin(&machine, outsider(), START + 8000, &wait);
    assert_in_range(wait, 1750, 2000); // spread over the eighth before the longest

    machine.policy.come_back_max_ms = 3600000;
    unsigned different = 0;
    uint64_t before = 0;
    for (uint64_t client = 100; client < 140; client++) {
        (void)tern_round_checkin(&machine, client, START + 8000, &wait);
        different += wait != before;
        before = wait;
    }
    assert_true(different > 30);
}

// --- Idle devices, over days: what looking in costs them, and that they are there when needed

#define SECOND 1000u
#define MINUTE (60 * SECOND)
#define DAY (24ull * 60 * MINUTE)
#define DAYS 30

// As the settings' defaults are.
static struct tern_round_policy idle_policy(void)
{
    struct tern_round_policy with = policy();
    with.deadline_ms = 10 * MINUTE;
    with.come_back_max_ms = DAY;
    return with;
}

static uint64_t ask(uint64_t client, uint64_t now)
{
    uint64_t wait = 0;
    while (tern_round_tick(&machine, now) == TERN_ROUND_EXTEND) {
        assert_int_equal(tern_round_extend(&machine, ids, 0, machine.deadline_ms), TERN_OK);
    }
    assert_int_equal(tern_round_checkin(&machine, client, now, &wait), TERN_CHECKIN_WAIT);
    return wait;
}

// Check-ins of each day, each held for 30 s first. None is told to stay away for longer than `share` of
// the time since START, once that is more than `least`.
static void look_in(uint64_t client, uint64_t least, double share, uint32_t of_day[DAYS])
{
    uint64_t now = START;
    memset(of_day, 0, DAYS * sizeof of_day[0]);
    while (now < START + DAYS * DAY) {
        of_day[(now - START) / DAY]++;
        now += 30 * SECOND;
        const uint64_t wait = ask(client, now);
        const double most = share * (double)(now - START);
        assert_true((double)wait <= (most > (double)least ? most : (double)least));
        assert_true(wait <= DAY);
        now += wait;
    }
}

CASE(test_waiting_for_clients_to_enrol_costs_less_and_less)
{
    struct tern_round_policy with = idle_policy();
    uint32_t of_day[DAYS];
    make(&with);
    tern_round_client_joined(&machine, START);
    look_in(1, 12 * SECOND, 0.5 * 1.125, of_day);
    assert_in_range(of_day[0], 10, 24);
    for (int day = 1; day < DAYS; day++) {
        assert_in_range(of_day[day], 0, 2);
    }
    tern_round_client_joined(&machine, START + DAYS * DAY); // more may follow soon
    assert_in_range(ask(1, START + DAYS * DAY), 10 * SECOND, 12 * SECOND);
}

// It has reported; the others never come.
CASE(test_a_round_whose_members_are_away_costs_less_and_less)
{
    struct tern_round_policy with = idle_policy();
    uint32_t of_day[DAYS];
    make(&with);
    assert_int_equal(open_with(4, START - 20 * MINUTE), TERN_OK);
    report(0, START - 19 * MINUTE);
    tern_round_close(&machine, START - 19 * MINUTE);
    assert_int_equal(open_with(4, START), TERN_OK);
    report(0, START + 1);
    look_in(machine.members[0].client, 6 * MINUTE, 0.25 * 1.125, of_day);
    assert_in_range(of_day[0], 15, 40);
    assert_in_range(of_day[1], 2, 4);
    for (int day = 3; day < DAYS; day++) {
        assert_in_range(of_day[day], 0, 2);
    }
}

// A fleet of which the half was away for three hours: what the other half sleeps on for delays the next
// rounds, each by less than the one before; soon they take minutes again.
CASE(test_rounds_take_as_long_as_ever_after_members_were_away)
{
    struct tern_round_policy with = idle_policy();
    uint64_t back[9]; // by client: when it is there next, to ask or with its update
    const uint64_t away_until = START + 180 * MINUTE;
    uint64_t opened = START;
    uint64_t took = 180 * MINUTE;
    with.cohort = with.quorum = 6;
    make(&with);
    for (uint64_t id = 1; id <= 8; id++) {
        back[id] = id <= 4 ? START : away_until;
    }
    assert_int_equal(open_with(8, START), TERN_OK);
    for (uint64_t now = START; machine.committed < 12; now += SECOND) {
        for (uint64_t id = 1; id <= 8; id++) {
            struct tern_member *member = tern_round_member(&machine, id);
            const bool works = machine.open && member != NULL && back[id] <= now &&
                               member->state != TERN_MEMBER_REPORTED;
            if (works && member->state == TERN_MEMBER_TASKED) {
                tern_round_record_report(&machine, member, now);
            } else if (works) {
                tern_round_assign_task(member, 5, now);
                back[id] = now + MINUTE;
            } else if (back[id] <= now) {
                back[id] = now + ask(id, now);
            }
        }
        if (tern_round_tick(&machine, now) == TERN_ROUND_EXTEND) {
            uint64_t fresh[8];
            uint32_t count = 0;
            for (uint64_t id = 1; id <= 8; id++) {
                fresh[count] = id;
                count += tern_round_member(&machine, id) == NULL;
            }
            assert_int_equal(tern_round_extend(&machine, fresh, count, now), TERN_OK);
        } else if (tern_round_tick(&machine, now) == TERN_ROUND_CLOSE) {
            assert_true(machine.committed == 0 || now - opened <= took / 2 + 8 * MINUTE);
            took = now - opened;
            tern_round_close(&machine, now);
            opened = now;
            assert_int_equal(open_with(8, now), TERN_OK);
        }
    }
    assert_true(took <= 5 * MINUTE);
}

CASE(test_usual_length_follows_slowly)
{
    make_open();
    tern_round_close(&machine, START + 8000);
    assert_int_equal(machine.typical_ms, 8000);
    assert_int_equal(open_with(8, START + 10000), TERN_OK);
    tern_round_close(&machine, START + 10000 + 16000);
    assert_int_equal(machine.typical_ms, 10000);
}

// What a restart does: the stored rounds and members make the same machine.
CASE(test_restored_machine_is_the_same)
{
    make_open();
    tern_round_close(&machine, START + 8000);
    assert_int_equal(open_with(8, START + 9000), TERN_OK);
    report(0, START + 9500);
    struct tern_round_machine before = machine;
    struct tern_member copies[4];
    memcpy(copies, members, sizeof copies);

    struct tern_round_policy with = policy();
    make(&with);
    tern_round_restore(&machine, 1, 4, 2, 1, START, START + DEADLINE);
    tern_round_close(&machine, START + 8000);
    tern_round_restore(&machine, 2, 4, 2, 1, START + 9000, START + 9000 + DEADLINE);
    for (uint32_t i = 4; i-- > 0;) {
        assert_int_equal(tern_round_restore_member(&machine, &copies[i]), TERN_OK);
    }
    assert_int_equal(tern_round_restore_member(&machine, &copies[0]), TERN_ERR_CONFLICT);
    assert_memory_equal(&machine, &before, sizeof machine);
    assert_memory_equal(members, copies, sizeof copies);
}

// What is left of a round stays, whichever way the time of day is set while it runs.
CASE(test_a_clock_that_is_set)
{
    static const int64_t steps[] = {86400000, -86400000, 1, -1};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const uint64_t before = START * UINT64_C(1000);
        struct tern_round_policy with = policy();
        make(&with);
        assert_int_equal(open_with(8, before), TERN_OK);
        tern_round_shift_times(&machine, steps[i]);
        const uint64_t after = (uint64_t)((int64_t)before + steps[i]);
        assert_int_equal(machine.opened_ms, after);
        assert_int_equal(machine.members[0].invited_ms, after);
        assert_int_equal(machine.members[0].tasked_ms, 0); // still never
        assert_int_equal(tern_round_tick(&machine, after + DEADLINE - 1), TERN_ROUND_NOTHING);
        assert_int_equal(tern_round_tick(&machine, after + DEADLINE), TERN_ROUND_EXTEND);
    }
}

// A round of a run whose clock was 400 days ahead ends within the time that a round may take.
CASE(test_a_clock_that_was_set_between_two_runs)
{
    const uint64_t ahead = START + UINT64_C(400) * 86400000;
    struct tern_round_policy with = policy();
    make(&with);
    tern_round_restore(&machine, 3, 4, 2, 1, ahead, ahead + DEADLINE);
    tern_round_limit_times(&machine, START);
    assert_int_equal(machine.opened_ms, START);
    assert_int_equal(tern_round_next_tick(&machine), START + DEADLINE);
    tern_round_close(&machine, START + 1);
    assert_int_equal(machine.typical_ms, 1);
    assert_true(tern_round_earliest_open_ms(&machine) <= START);
}
