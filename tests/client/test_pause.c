// Conditions that are lost in the middle of a round: the client stops before the next piece of
// work, says so once, and goes on with the same round as if nothing had been.

#include <string.h>

#include "client/harness/one_world.h"
#include "core.h"
#include "tests/cases.h"

#define STEPS 5
#define PAUSE_MS 95000 // looked at again after 30, 60 and 90 seconds, then allowed after 120
#define PIECES_MAX 64

static struct world undisturbed;

static int set_up(void **state)
{
    (void)state;
    world_init(&world);
    world.server.local_steps = STEPS;
    return 0;
}

// The next piece of work of a client that has to wait for none.
static void step(void)
{
    const enum tern_result result = tern_client_step(&world.client);
    assert_true(result == TERN_OK || result == TERN_AGAIN);
}

static void begin_training(void)
{
    boot();
    run_until(TERN_EVENT_TASK, NULL);
    while (!world.client.training) {
        step();
    }
}

static void pass(uint64_t ms)
{
    for (const uint64_t end = world.now_ms + ms; world.now_ms < end; world.now_ms += 1000) {
        step();
    }
}

static void train_undisturbed(void)
{
    begin_training();
    run_until(TERN_EVENT_ENCODED, NULL);
    undisturbed = world;
    memcpy(undisturbed.blob, tern_client_update(&world.client), world.client.pending.len);
    world_free(&world);
    world_init(&world);
    world.server.local_steps = STEPS;
}

#define TEST(name) CASE_WITH(name, set_up, tear_down)

// For every k: the conditions are lost after k of the steps.
TEST(pause_at_any_step_leaves_the_update_as_it_is)
{
    for (uint32_t k = 0; k < STEPS; k++) {
        train_undisturbed();
        begin_training();
        while (world.steps_left > STEPS - k) {
            step();
        }
        world.may_work = false;
        pass(PAUSE_MS);
        assert_int_equal(world.steps_left, STEPS - k);
        assert_int_equal(world_count_events(&world, TERN_EVENT_PAUSED), 1);
        world.may_work = true;
        run_until(TERN_EVENT_ENCODED, NULL);
        assert_int_equal(world.trainings, 1);
        assert_int_equal(world_count_events(&world, TERN_EVENT_RESUMED), 1);
        assert_int_equal(world.client.pending.len, undisturbed.client.pending.len);
        // All of it: what it took to train is told as well, and does not count the pause.
        assert_memory_equal(tern_client_update(&world.client), undisturbed.blob,
                            world.client.pending.len);
        run_until(TERN_EVENT_UPLOADED, NULL);
        assert_int_equal(world.server.last_update.train_ms, STEPS * 10);
        world_check_conservation(&world);
        world_free(&world);
        world_init(&world);
        world.server.local_steps = STEPS;
    }
}

// For every piece of work of two rounds: not allowed before it, the client does nothing at all, and
// ends with what an undisturbed one ends with.
TEST(pause_before_any_piece_of_work_changes_nothing)
{
    boot();
    run_until(TERN_EVENT_FINISHED, NULL);
    float weights[WORLD_VALUES];
    memcpy(weights, world.server.weights, sizeof weights);
    for (int k = 0; k < PIECES_MAX; k++) {
        world_free(&world);
        world_init(&world);
        world.server.local_steps = STEPS;
        boot();
        for (int i = 0; i < k; i++) {
            step();
        }
        const size_t exchanges = world.exchanges;
        const size_t writes = world.store.writes;
        const uint32_t steps_left = world.steps_left;
        world.may_work = false;
        pass(PAUSE_MS);
        assert_int_equal(world.exchanges, exchanges);
        assert_int_equal(world.store.writes, writes);
        assert_int_equal(world.steps_left, steps_left);
        world.may_work = true;
        run_until(TERN_EVENT_FINISHED, NULL);
        assert_memory_equal(world.server.weights, weights, sizeof weights);
        assert_int_equal(world_count_events(&world, TERN_EVENT_FAILURE), 0);
        world_check_conservation(&world);
    }
}

TEST(says_why_and_for_how_long_once)
{
    struct tern_client_event event;
    world.config.look_again_ms = 5000;
    begin_training();
    world.may_work = false;
    run_until(TERN_EVENT_PAUSED, &event);
    assert_int_equal(event.round, 1);
    assert_int_equal(event.sequence, 0);
    assert_int_equal(event.wait_ms, 5000);
    assert_string_equal(event.why, "the test says no");
    assert_int_equal(tern_client_next_ms(&world.client), 5000);
    pass(62000);
    world.may_work = true;
    run_until(TERN_EVENT_RESUMED, &event);
    assert_int_equal(event.round, 1);
    assert_int_equal(event.wait_ms, 65000); // the look after the 62nd second is the one at 65
    assert_int_equal(world_count_events(&world, TERN_EVENT_PAUSED), 1);
    assert_int_equal(world_count_events(&world, TERN_EVENT_WAITING), 0);
    assert_string_equal(tern_client_event_name(TERN_EVENT_PAUSED), "paused");
    assert_string_equal(tern_client_event_name(TERN_EVENT_RESUMED), "resumed");
}

TEST(finished_update_waits_and_survives_a_power_cut)
{
    struct tern_client_event event;
    boot();
    run_until(TERN_EVENT_ENCODED, NULL);
    world.may_work = false;
    run_until(TERN_EVENT_PAUSED, &event);
    assert_int_equal(event.round, 1);
    assert_int_equal(event.sequence, 1);
    assert_int_equal(world.server.accepted_count, 0);
    boot(); // the power was cut
    run_until(TERN_EVENT_PAUSED, &event);
    assert_int_equal(event.round, 1);
    assert_int_equal(event.sequence, 1);
    world.may_work = true;
    run_until(TERN_EVENT_UPLOADED, &event);
    assert_int_equal(event.result, TERN_OK);
    assert_int_equal(world.trainings, 1);
    world_check_conservation(&world);
}

TEST(round_that_closed_meanwhile_gets_its_update_back)
{
    const float change[WORLD_VALUES] = {1.0f};
    struct tern_client_event event;
    begin_training();
    world.may_work = false;
    pass(PAUSE_MS);
    fake_server_commit(&world.server, change);
    world.may_work = true;
    run_until(TERN_EVENT_UPLOADED, &event);
    assert_int_equal(event.result, TERN_ERR_LATE);
    world_check_conservation(&world);
    run_until(TERN_EVENT_UPLOADED, &event);
    assert_int_equal(event.result, TERN_OK);
    world_check_conservation(&world);
}

TEST(request_under_way_is_not_broken_off)
{
    world.report_again = true;
    boot();
    run_until(TERN_EVENT_ENCODED, NULL);
    step();
    assert_true(world.client.in_flight);
    world.may_work = false;
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world_count_events(&world, TERN_EVENT_PAUSED), 0);
    run_until(TERN_EVENT_PAUSED, NULL);
}

TEST(check_in_tells_what_was_just_seen)
{
    boot();
    run_until(TERN_EVENT_TASK, NULL);
    assert_true(world.server.last_checkin.metered);
    assert_int_equal(world.server.last_checkin.power, tern_Power_POWER_BATTERY);
}

TEST(long_pause_gives_the_connection_up)
{
    struct tern_meter counted = {0};
    world.wire_per_close = 40;
    begin_training();
    world.may_work = false;
    pass(540000);
    counted = world.uncollected;
    assert_int_equal(counted.bytes[TERN_PURPOSE_CHECKIN][TERN_UP].wire, 0);
    pass(90000);
    counted = world.uncollected;
    assert_true(counted.bytes[TERN_PURPOSE_CHECKIN][TERN_UP].wire > 0);
}

// An embedder that has no conditions leaves their port empty.
TEST(client_without_conditions_always_works)
{
    world.config.ports.conditions = (struct tern_condition_port){0};
    world.may_work = false;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world_count_events(&world, TERN_EVENT_PAUSED), 0);
    assert_false(world.server.last_checkin.metered);
}
