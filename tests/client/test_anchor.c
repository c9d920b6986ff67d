// Tasks with variance reduction that a client cannot do, and what it says of its anchor; what it does with one that it
// can is tested against the aggregator (tests/service/test_epochs.c).

#include <string.h>

#include "client/harness/one_world.h"
#include "tests/cases.h"

static int set_up(void **state)
{
    (void)state;
    world_init(&world);
    world.server.codec = "float32";
    world.server.local_steps = 1;
    return 0;
}

// Before anything is fetched for it.
static void expect_refused(enum tern_result result)
{
    struct tern_client_event trouble;
    const size_t before = world.trainings;
    const size_t tasks = world_count_events(&world, TERN_EVENT_TASK);
    run_until(TERN_EVENT_FAILURE, &trouble);
    assert_int_equal(trouble.result, result);
    assert_int_equal(world.trainings, before);
    assert_int_equal(world_count_events(&world, TERN_EVENT_TASK), tasks);
}

#define TEST(name) CASE_WITH(name, set_up, tear_down)

TEST(without_memory_there_is_no_such_task)
{
    world.no_anchor = true;
    world.server.gradient = tern_Gradient_GRADIENT_FULL;
    boot();
    expect_refused(TERN_ERR_NO_MEMORY);
    assert_int_equal(world.server.last_checkin.abilities & TERN_WIRE_REDUCES, 0);
}

TEST(another_anchor_is_not_built_on)
{
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL); // round 1, not of a full gradient
    world.server.gradient = tern_Gradient_GRADIENT_REDUCED;
    expect_refused(TERN_ERR_WRONG_REPLICA);
    assert_int_equal(world.server.last_checkin.abilities & TERN_WIRE_REDUCES, TERN_WIRE_REDUCES);
    assert_int_equal(world.server.last_checkin.anchor, 0);
}

// The same change is made at both, as the trainer's is drawn, so that the step of the anchor alone is left.
TEST(an_anchor_is_told_of_and_built_on)
{
    world.inexact = true;
    world.server.gradient = tern_Gradient_GRADIENT_FULL;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    world.server.gradient = tern_Gradient_GRADIENT_REDUCED;
    run_until(TERN_EVENT_TASK, NULL);
    assert_int_equal(world.server.last_checkin.anchor, 1);
    assert_false(world.server.last_checkin.anchor_step);
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world.trainings, 3);
    assert_true(world.store.records[TERN_RECORD_ANCHOR].saved);
    run_until(TERN_EVENT_FAILURE, NULL); // round 3 says anchor 2
    assert_int_equal(world.server.last_checkin.anchor, 1);
    assert_true(world.server.last_checkin.anchor_step);
}

// Who was away when the model went on from the anchor has no use for it.
TEST(an_anchor_that_was_left_is_not_told_of)
{
    static const float other[WORLD_VALUES] = {0.5f};
    world.server.gradient = tern_Gradient_GRADIENT_FULL;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    fake_server_commit(&world.server, other);
    world.server.gradient = tern_Gradient_GRADIENT_BATCH;
    run_until(TERN_EVENT_UPLOADED, NULL);
    run_until(TERN_EVENT_TASK, NULL);
    assert_int_equal(world.server.last_checkin.version, 2);
    assert_int_equal(world.server.last_checkin.anchor, 0);
}

TEST(a_damaged_anchor_is_none)
{
    world.server.gradient = tern_Gradient_GRADIENT_FULL;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    world_damage_record(&world, TERN_RECORD_ANCHOR);
    boot();
    run_until(TERN_EVENT_TASK, NULL);
    assert_int_equal(world.server.last_checkin.anchor, 0);
}
