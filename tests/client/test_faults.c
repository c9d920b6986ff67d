// What a link and an aggregator may do to an update, and that nothing is lost or counted twice.

#include <string.h>

#include "client/harness/one_world.h"
#include "tests/cases.h"

static int set_up(void **state)
{
    (void)state;
    world_init(&world);
    return world_boot(&world) == TERN_OK ? 0 : -1;
}

static void finish(void)
{
    run_until(TERN_EVENT_FINISHED, NULL);
    assert_int_equal(world.server.version, world.server.target);
    world_check_conservation(&world);
    world_check_replica(&world);
}

#define TEST(name) CASE_WITH(name, set_up, tear_down)

TEST(lost_request_is_sent_again)
{
    struct tern_client_event event;
    world.server.faults[2] = FAULT_LOSE_REQUEST;
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_NETWORK);
    run_until(TERN_EVENT_UPLOADED, &event);
    assert_int_equal(event.result, TERN_OK);
    assert_false(event.duplicate);
    assert_int_equal(event.round, 2);
    finish();
    assert_int_equal(world.trainings, 8);
}

TEST(lost_reply_counts_once)
{
    struct tern_client_event event;
    world.server.faults[2] = FAULT_LOSE_REPLY;
    run_until(TERN_EVENT_FAILURE, NULL);
    run_until(TERN_EVENT_UPLOADED, &event);
    assert_int_equal(event.result, TERN_OK);
    assert_true(event.duplicate);
    assert_int_equal(world.server.puts, 3);
    finish();
    assert_int_equal(world.server.accepted_count, 8);
}

TEST(damaged_reply_counts_once)
{
    struct tern_client_event event;
    world.server.faults[1] = FAULT_BAD_REPLY;
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_CORRUPT);
    run_until(TERN_EVENT_UPLOADED, &event);
    assert_true(event.duplicate);
    finish();
}

TEST(late_update_goes_back_to_the_error_buffer)
{
    struct tern_client_event event;
    float before[WORLD_VALUES];
    world.server.faults[2] = FAULT_LATE;
    run_until(TERN_EVENT_UPLOADED, NULL);
    memcpy(before, world.error_buffer, sizeof before);
    run_until(TERN_EVENT_UPLOADED, &event);
    assert_int_equal(event.result, TERN_ERR_LATE);
    assert_int_equal(tern_client_pending(&world.client)->len, 0);
    for (int i = 0; i < WORLD_VALUES; i++) {
        assert_true(world.error_buffer[i] == before[i] + world.change[i]);
    }
    world_check_conservation(&world);
    finish();
    assert_int_equal(world.server.accepted_count, 7);
}

TEST(rejected_update_goes_back_and_the_client_waits)
{
    struct tern_client_event event;
    world.server.faults[1] = FAULT_REJECT;
    run_until(TERN_EVENT_UPLOADED, &event);
    assert_int_equal(event.result, TERN_ERR_NORM_LIMIT);
    assert_true(tern_client_next_ms(&world.client) > 0);
    world_check_conservation(&world);
    finish();
    world.server.faults[1] = FAULT_NONE;
}

// It would only be refused again: training is not for nothing.
TEST(refused_client_trains_ever_more_seldom)
{
    struct tern_client_event event;
    uint32_t least = 500;
    for (size_t i = 0; i < 6; i++, least *= 2) {
        world.server.faults[1] = FAULT_REJECT;
        run_until(TERN_EVENT_FAILURE, &event);
        assert_int_equal(event.result, TERN_ERR_NORM_LIMIT);
        assert_in_range(event.wait_ms, least, 2 * least);
        assert_int_equal(tern_client_next_ms(&world.client), event.wait_ms);
        assert_int_equal(world.trainings, i + 1);
    }
    world.server.faults[1] = FAULT_REJECT;
    world.server.refused_wait_s = 256;
    run_until(TERN_EVENT_FAILURE, &event);
    assert_in_range(event.wait_ms, 256000, 384000);
    world_check_conservation(&world);
    finish();
}

TEST(refused_check_in_is_repeated_when_it_was_said)
{
    struct tern_client_event event;
    world.server.checkin_status = 422;
    world.server.refused_wait_s = 64;
    run_until(TERN_EVENT_FAILURE, &event);
    assert_in_range(event.wait_ms, 64000, 96000);
    assert_string_equal(event.why, "Said by the test.");
    world.server.checkin_status = 0;
    finish();
}

TEST(conflict_goes_back)
{
    struct tern_client_event event;
    world.server.faults[1] = FAULT_CONFLICT;
    run_until(TERN_EVENT_UPLOADED, &event);
    assert_int_equal(event.result, TERN_ERR_CONFLICT);
    finish();
}

TEST(error_page_of_a_proxy_decides_nothing)
{
    struct tern_client_event event;
    world.server.faults[1] = FAULT_PROXY_PAGE;
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_HTTP);
    assert_int_equal(event.status, 410);
    assert_true(tern_client_pending(&world.client)->len > 0);
    run_until(TERN_EVENT_UPLOADED, &event);
    assert_int_equal(event.result, TERN_OK);
    finish();
}

TEST(busy_aggregator_is_asked_again_when_it_said)
{
    struct tern_client_event event;
    world.server.faults[1] = FAULT_BUSY;
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_BUSY);
    assert_in_range(event.wait_ms, 30000, 45000);
    run_until(TERN_EVENT_UPLOADED, &event);
    assert_int_equal(event.result, TERN_OK);
    finish();
}

TEST(revoked_client_stops_and_keeps_its_update)
{
    struct tern_client_event event;
    world.server.faults[1] = FAULT_UNAUTHORIZED;
    assert_int_equal(world_run_until(&world, TERN_EVENT_UPLOADED, NULL), TERN_ERR_UNAUTHORIZED);
    const size_t exchanges = world.exchanges;
    assert_int_equal(tern_client_step(&world.client), TERN_ERR_UNAUTHORIZED);
    assert_int_equal(world.exchanges, exchanges);
    assert_true(tern_client_pending(&world.client)->len > 0);
    assert_int_equal(world_boot(&world), TERN_OK);
    run_until(TERN_EVENT_UPLOADED, &event);
    assert_int_equal(event.result, TERN_OK);
    assert_int_equal(world.trainings, 1);
    finish();
}

TEST(revoked_client_stops_at_the_check_in)
{
    world.server.checkin_status = 401;
    assert_int_equal(world_run_until(&world, TERN_EVENT_UPLOADED, NULL), TERN_ERR_UNAUTHORIZED);
}

TEST(unreachable_aggregator_is_tried_less_and_less)
{
    struct tern_client_event event;
    uint32_t bound = 1000;
    world.down = true;
    for (int i = 0; i < 12; i++) {
        run_until(TERN_EVENT_FAILURE, &event);
        assert_int_equal(event.result, TERN_ERR_NETWORK);
        assert_true(event.wait_ms <= bound && event.wait_ms >= bound / 2);
        assert_int_equal(tern_client_next_ms(&world.client), event.wait_ms);
        bound = bound * 2 < 300000 ? bound * 2 : 300000;
    }
    world.down = false;
    finish();
}

TEST(clients_do_not_come_back_together)
{
    struct tern_client_event first;
    struct tern_client_event second;
    world.down = true;
    run_until(TERN_EVENT_FAILURE, &first);
    assert_int_equal(world_boot(&world), TERN_OK); // draws another seed
    run_until(TERN_EVENT_FAILURE, &second);
    assert_int_not_equal(first.wait_ms, second.wait_ms);
    world.down = false;
    for (int i = 0; i < 2; i++) { // nor when all were told the same time
        assert_int_equal(world_boot(&world), TERN_OK);
        world.server.faults[1] = FAULT_BUSY;
        run_until(TERN_EVENT_FAILURE, i == 0 ? &first : &second);
        assert_int_equal(second.result, i == 0 ? TERN_ERR_NETWORK : TERN_ERR_BUSY);
    }
    assert_int_not_equal(first.wait_ms, second.wait_ms);
}

TEST(nothing_is_sent_when_the_update_cannot_be_saved)
{
    run_until(TERN_EVENT_TRAINED, NULL);
    world.store.full = true;
    assert_int_equal(world_run_until(&world, TERN_EVENT_UPLOADED, NULL), TERN_ERR_NO_SPACE);
    assert_int_equal(world.server.puts, 0);
    world.store.full = false;
    assert_int_equal(world_boot(&world), TERN_OK);
    world_check_conservation(&world);
    finish();
}

TEST(diverged_training_changes_nothing)
{
    struct tern_client_event event;
    float before[WORLD_VALUES];
    run_until(TERN_EVENT_UPLOADED, NULL);
    memcpy(before, world.error_buffer, sizeof before);
    world.train_diverges = true;
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_NON_FINITE);
    assert_memory_equal(before, world.error_buffer, sizeof before);
    world.train_diverges = false;
    run_until(TERN_EVENT_TASK, NULL); // the check-in that brought it has reported the failure
    assert_int_equal(world.server.last_checkin.failed_round, event.round);
    assert_int_equal(world.server.last_checkin.failure, tern_TrainingFailure_FAILURE_NOT_FINITE);
    run_until(TERN_EVENT_WAITING, NULL); // the next one has nothing to report
    assert_int_equal(world.server.last_checkin.failed_round, 0);
    finish();
}

TEST(directive_is_applied_with_the_encode)
{
    world.server.directives[2] = tern_ErrorDirective_ERROR_DECAY;
    world.server.directives[4] = tern_ErrorDirective_ERROR_RESET;
    run_until(TERN_EVENT_UPLOADED, NULL);
    const uint32_t generation = world.client.generation;
    for (int i = 0; i < 2; i++) {
        run_until(TERN_EVENT_UPLOADED, NULL);
        world_check_conservation(&world); // the harness takes half the old buffer away once
    }
    assert_int_equal(world.client.generation, generation);
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_not_equal(world.client.generation, generation);
    assert_int_equal(world.client.sequence, 1);
    finish();
}

TEST(directive_that_was_not_saved_is_not_felt)
{
    float before[WORLD_VALUES];
    run_until(TERN_EVENT_UPLOADED, NULL);
    memcpy(before, world.error_buffer, sizeof before);
    world.server.directives[2] = tern_ErrorDirective_ERROR_RESET;
    world.server.codec = "3lc:s=1";
    run_until(TERN_EVENT_TRAINED, NULL);
    world.trained[5] = (float)(1e38 * 10); // the encode is refused: not finite
    run_until(TERN_EVENT_FAILURE, NULL);
    assert_memory_equal(before, world.error_buffer, sizeof before);
    finish();
}
