// Who leads a round of scalecom.
#include "rounds/machine.h"
#include "tests/cases.h"

#define MEMBERS 8

static struct tern_round_machine machine;
static struct tern_member members[MEMBERS];
static uint64_t now = 1000;

static void open(uint32_t count)
{
    uint64_t eligible[MEMBERS];
    for (uint32_t i = 0; i < count; i++) {
        eligible[i] = 10 + i;
    }
    assert_int_equal(tern_round_open(&machine, eligible, count, now), TERN_OK);
}

static int setup(void **state)
{
    (void)state;
    const struct tern_round_policy policy = {
        .cohort = 3, .deadline_ms = 8000, .come_back_min_ms = 100, .come_back_max_ms = 5000};
    tern_round_init(&machine, &policy, members, MEMBERS);
    return 0;
}

CASE_WITH(test_members_lead_in_turn, setup, NULL)
{
    assert_int_equal(tern_round_leader(&machine), 0);
    for (uint32_t round = 1; round <= 7; round++) {
        open(3);
        assert_int_equal(tern_round_leader(&machine), 10 + round % 3);
        tern_round_close(&machine, now);
        assert_int_equal(tern_round_leader(&machine), 0);
    }
}

CASE_WITH(test_later_members_change_nothing, setup, NULL)
{
    open(3);
    uint64_t leader = tern_round_leader(&machine);
    for (uint64_t client = 1; client < 30; client += 14) {
        const struct tern_member later = {.client = client, .invited_ms = now + 1};
        assert_int_equal(tern_round_restore_member(&machine, &later), TERN_OK);
        assert_int_equal(tern_round_leader(&machine), leader);
    }
}

CASE_WITH(test_the_others_wait_for_a_quarter_of_the_window, setup, NULL)
{
    open(3);
    assert_int_equal(tern_round_leader_deadline_ms(&machine), now + 2000);
    assert_int_equal(tern_round_leader_wait_ms(&machine, now), 250);
    // Not past the end of the wait, and never at once.
    assert_int_equal(tern_round_leader_wait_ms(&machine, now + 1900), 100);
    assert_int_equal(tern_round_leader_wait_ms(&machine, now + 1990), 10);
    assert_int_equal(tern_round_leader_wait_ms(&machine, now + 3000), 1);
}
