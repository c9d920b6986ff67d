// A client that is cancelled, or whose conditions change, at any moment of a request or between two pieces of work: the call
// returns by name, and the federation ends with the same bits.

#include <string.h>

#include "client/harness/one_world.h"
#include "tests/cases.h"

#define MOMENTS_MIN 100
#define SCALE 200 // bodies seem so many times longer, so that conditions are checked within them

static float undisturbed[WORLD_VALUES];

static int set_up(void **state)
{
    (void)state;
    world_init(&world);
    return 0;
}

static void start_over(void)
{
    world_free(&world);
    world_init(&world);
}

// Runs to the end, and returns how often a call returned TERN_ERR_CANCELLED.
static size_t finish(void)
{
    size_t cancelled = 0;
    enum tern_result result = TERN_OK;
    while ((result = world_run_until(&world, TERN_EVENT_FINISHED, NULL)) == TERN_ERR_CANCELLED) {
        cancelled++;
    }
    assert_true(result == TERN_OK || result == TERN_AGAIN);
    assert_int_equal(tern_client_phase(&world.client), TERN_PHASE_FINISHED);
    world_check_conservation(&world);
    return cancelled;
}

// Returns how many moments of its requests an undisturbed client has.
static size_t run_undisturbed(void)
{
    boot();
    assert_int_equal(finish(), 0);
    memcpy(undisturbed, world.server.weights, sizeof undisturbed);
    return world.watches;
}

#define TEST(name) CASE_WITH(name, set_up, tear_down)

TEST(cancel_at_any_moment_of_a_request_changes_no_bit)
{
    const size_t moments = run_undisturbed();
    assert_true(moments >= MOMENTS_MIN);
    for (int keeps = 0; keeps < 2; keeps++) {
        for (size_t k = 1; k <= moments; k++) {
            start_over();
            world.config.resume_upload_above = 1;
            if (keeps == 1) {
                world_keep_partials(&world);
            }
            boot();
            world.cancel_at = world.watches + k;
            const size_t cancelled = finish();
            // An enrolment has its own moments, so the last ones may lie behind the end.
            assert_int_equal(cancelled, world.watches >= world.cancel_at ? 1 : 0);
            assert_memory_equal(world.server.weights, undisturbed, sizeof undisturbed);
            assert_int_equal(world_count_events(&world, TERN_EVENT_FAILURE), 0);
        }
    }
}

TEST(cancel_before_any_piece_of_work_changes_no_bit)
{
    (void)run_undisturbed();
    for (int k = 0; k < 40; k++) {
        start_over();
        boot();
        for (int i = 0; i < k; i++) {
            const enum tern_result result = tern_client_step(&world.client);
            assert_true(result == TERN_OK || result == TERN_AGAIN);
        }
        tern_client_cancel(&world.client);
        tern_client_cancel(&world.client);
        assert_int_equal(tern_client_next_ms(&world.client), 0);
        assert_int_equal(tern_client_step(&world.client), TERN_ERR_CANCELLED);
        assert_int_equal(finish(), 0);
        assert_memory_equal(world.server.weights, undisturbed, sizeof undisturbed);
    }
}

TEST(cancel_ends_a_request_of_a_transport_that_does_not_block)
{
    (void)run_undisturbed();
    for (int k = 0; k < 40; k++) {
        start_over();
        world.report_again = true;
        boot();
        for (int i = 0; i < k && !world.client.in_flight; i++) {
            const enum tern_result result = tern_client_step(&world.client);
            assert_true(result == TERN_OK || result == TERN_AGAIN);
            world.now_ms += world.client.in_flight ? 0 : 1000;
        }
        const bool in_flight = world.client.in_flight;
        tern_client_cancel(&world.client);
        assert_int_equal(tern_client_step(&world.client), TERN_ERR_CANCELLED);
        assert_false(world.client.in_flight);
        world.again_said = world.again_said && !in_flight;
        assert_int_equal(finish(), 0);
        assert_memory_equal(world.server.weights, undisturbed, sizeof undisturbed);
    }
}

TEST(update_that_was_cut_is_resumed_not_repeated)
{
    world.config.resume_upload_above = 1;
    world.server.codec = "float32";
    boot();
    run_until(TERN_EVENT_ENCODED, NULL);
    const size_t len = world.client.pending.len;
    assert_true(len > 2 * WORLD_PIECE);
    const size_t before = world.server.upload_bytes;
    world.cancel_at = world.watches + 2; // a piece has moved
    assert_int_equal(world_run_until(&world, TERN_EVENT_UPLOADED, NULL), TERN_ERR_CANCELLED);
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world.server.upload_bytes - before, len);
    (void)finish();
}

TEST(cancel_is_kept_while_a_refusal_arrives)
{
    for (size_t k = 1; k <= 2;
         k++) { // before and after the status 404 of the query how much has arrived
        start_over();
        world.config.resume_upload_above = 1;
        world.server.codec = "float32";
        boot();
        run_until(TERN_EVENT_ENCODED, NULL);
        world.cancel_at = world.watches + 1; // no byte has moved
        assert_int_equal(world_run_until(&world, TERN_EVENT_UPLOADED, NULL), TERN_ERR_CANCELLED);
        world.cancel_at = world.watches + k;
        assert_int_equal(world_run_until(&world, TERN_EVENT_UPLOADED, NULL), TERN_ERR_CANCELLED);
        (void)finish();
    }
}

TEST(conditions_that_change_in_a_transfer_end_it_by_name)
{
    const size_t moments = run_undisturbed();
    size_t ended = 0;
    for (size_t k = 1; k <= moments; k++) {
        start_over();
        world.config.resume_upload_above = 1;
        world.watch_scale = SCALE;
        boot();
        world.forbid_at = world.watches + k;
        struct tern_client_event event;
        const enum tern_result result = world_run_until(&world, TERN_EVENT_PAUSED, &event);
        if (result != TERN_OK && result != TERN_AGAIN) {
            fail_msg("%s", tern_result_name(result));
        }
        if (world.watches >= world.forbid_at) {
            assert_string_equal(event.why, "the test says no");
            ended += world.watches == world.forbid_at;
        }
        world.may_work = true;
        assert_int_equal(finish(), 0);
        assert_memory_equal(world.server.weights, undisturbed, sizeof undisturbed);
        assert_int_equal(world_count_events(&world, TERN_EVENT_FAILURE), 0);
    }
    assert_true(ended > 10);
}

TEST(budget_that_is_used_up_in_a_transfer_ends_it_by_name)
{
    struct tern_client_event event;
    world.watch_scale = SCALE;
    world.config.budget_per_round = 8192;
    boot();
    run_until(TERN_EVENT_ENCODED, NULL);
    world.uncollected.bytes[TERN_PURPOSE_UPLOAD][TERN_UP].wire = 8192; // sent again by the kernel
    run_until(TERN_EVENT_BUDGET, &event);
    assert_string_equal(event.why, "the byte budget was used up during the transfer");
    assert_int_equal(event.budget_left, 0);
    assert_true(world.server.unfinished.len > 0);
    (void)finish();
}

TEST(progress_counts_the_bytes_of_bodies)
{
    struct tern_client_event event;
    world.watch_scale = SCALE;
    boot();
    run_until(TERN_EVENT_ENCODED, NULL);
    const size_t len = world.client.pending.len;
    run_until(TERN_EVENT_PROGRESS, &event);
    assert_int_equal(event.direction, TERN_UP);
    assert_int_equal(event.bytes_total, len * SCALE);
    assert_true(event.bytes > 0 && event.bytes <= event.bytes_total);
    run_until(TERN_EVENT_UPLOADED, NULL);
    // The clock of this world stands still during a request.
    assert_true(world_count_events(&world, TERN_EVENT_PROGRESS) <= 2 * world.exchanges);
}
