// Downloads that go on where a process that was killed has left them.

#include <string.h>

#include "client/harness/one_world.h"
#include "tests/cases.h"

static int set_up(void **state)
{
    (void)state;
    world_init(&world);
    world_keep_partials(&world);
    return world_boot(&world) == TERN_OK ? 0 : -1;
}

// The client is killed when `at` bytes of the next download have come, and started again.
static void kill_at(size_t at)
{
    world.cut_download_at = at;
    run_until(TERN_EVENT_FAILURE, NULL);
    assert_int_equal(world.partial.have, at);
    boot();
}

#define TEST(name) CASE_WITH(name, set_up, tear_down)

TEST(killed_anywhere_it_asks_for_the_rest)
{
    commit(1);
    const size_t len = world.server.downloads[0].len;
    for (size_t at = 0; at < len; at += at < 64 || at + 64 > len ? 1 : 37) {
        for (int i = TERN_RECORD_REPLICA; i < TERN_RECORD_COUNT; i++) {
            world.store.records[i].saved = false;
        }
        boot();
        world.partial.opened = 0;
        kill_at(at);
        run_until(TERN_EVENT_DOWNLOADED, NULL);
        assert_int_equal(world.last_range, at);
        assert_int_equal(world.partial.opened, 1);
        world_check_replica(&world);
        run_until(TERN_EVENT_TRAINED, NULL);
        assert_false(world.partial.there);
    }
}

TEST(killed_after_the_last_byte_it_asks_for_nothing)
{
    commit(1);
    kill_at(100);
    struct fake_partial *partial = &world.partial;
    const struct fake_download *download = &world.server.downloads[0];
    memcpy(partial->data, download->blob, download->len);
    partial->have = download->len;
    world.last_range = SIZE_MAX;
    run_until(TERN_EVENT_DOWNLOADED, NULL);
    assert_int_equal(world.last_range, SIZE_MAX);
    world_check_replica(&world);
}

TEST(what_was_damaged_is_fetched_anew_once)
{
    struct tern_client_event event;
    commit(1);
    kill_at(500);
    world.partial.data[3] ^= 1;
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_CORRUPT);
    assert_int_equal(event.status, 0);
    assert_non_null(strstr(event.why, "damaged"));
    assert_false(world.partial.there);
    run_until(TERN_EVENT_DOWNLOADED, NULL);
    assert_int_equal(world.last_range, 0);
    assert_int_equal(world.server.checkins, 2); // the second after the kill
    world_check_replica(&world);
}

// The aggregator has it wrong: that is no reason to fetch it for ever.
TEST(wrong_download_is_refused_after_the_second_time)
{
    struct tern_client_event event;
    commit(1);
    world.server.downloads[0].blob[1000] ^= 1;
    kill_at(500);
    run_until(TERN_EVENT_FAILURE, &event);
    assert_non_null(strstr(event.why, "damaged"));
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_CORRUPT);
    assert_non_null(strstr(event.why, "refused"));
    assert_false(world.partial.there);
    assert_int_equal(tern_client_phase(&world.client), TERN_PHASE_CHECKIN);
}

TEST(what_another_version_leaves_is_dropped)
{
    world.server.snapshots = true;
    commit(1);
    kill_at(700);
    commit(1);
    run_until(TERN_EVENT_DOWNLOADED, NULL);
    assert_int_equal(world.last_range, 0);
    assert_int_equal(world.partial.opened, 2);
    assert_int_equal(tern_client_version(&world.client), 2);
    world_check_replica(&world);
}

TEST(what_nobody_asks_for_any_more_is_dropped)
{
    commit(1);
    kill_at(700);
    world.server.target = 1; // all rounds are done
    run_until(TERN_EVENT_FINISHED, NULL);
    assert_false(world.partial.there);
}

TEST(whole_download_where_the_rest_was_asked_for_is_taken)
{
    commit(1);
    kill_at(100);
    world.ignore_range = true;
    world.event_count = 0;
    run_until(TERN_EVENT_DOWNLOADED, NULL);
    assert_int_equal(world.last_range, 100);
    assert_int_equal(world_count_events(&world, TERN_EVENT_FAILURE), 0);
    world_check_replica(&world);
}

TEST(longer_download_than_the_task_says_is_refused)
{
    struct tern_client_event event;
    commit(1);
    run_until(TERN_EVENT_TASK, NULL);
    world.client.task.downloads[0].size -= 1;
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_CORRUPT);
    assert_false(world.partial.there);
}

TEST(full_disk_is_named_before_a_byte_is_asked_for)
{
    struct tern_client_event event;
    commit(1);
    world.partial.full = true;
    run_until(TERN_EVENT_TASK, NULL);
    const size_t asked = world.exchanges;
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_NO_SPACE);
    assert_int_equal(world.exchanges, asked);
    world.partial.full = false;
    run_until(TERN_EVENT_DOWNLOADED, NULL);
    world_check_replica(&world);
}

// A disk that stays full must not hold the client in a round that is over.
TEST(full_disk_gives_the_task_up_with_its_window)
{
    struct tern_client_event event = {0};
    commit(1);
    world.server.window_ms = 10000;
    world.partial.full = true;
    run_until(TERN_EVENT_TASK, NULL);
    for (int i = 0; i < 8 && tern_client_phase(&world.client) != TERN_PHASE_CHECKIN; i++) {
        run_until(TERN_EVENT_FAILURE, &event);
        assert_int_equal(event.result, TERN_ERR_NO_SPACE);
    }
    assert_int_equal(tern_client_phase(&world.client), TERN_PHASE_CHECKIN);
    assert_non_null(strstr(event.why, "window"));
}

// A budget has to last for what is still to come, not for what is there.
TEST(what_was_kept_is_not_asked_of_the_budget_again)
{
    world.server.codec = "density:p=0.01,coder=range";
    commit(1);
    kill_at(2000);
    world.config.budget_per_round = 5000; // 4,200 for a round without a download, 2.4 KB with it
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world.last_range, 2000);
    assert_int_equal(world_count_events(&world, TERN_EVENT_BUDGET), 0);
}

// The next download takes the place of the one before, which must be in the replica's record by then.
TEST(many_bytes_of_downloads_are_not_left_to_a_kill)
{
    world.server.target = 50;
    commit(40); // of 2.4 KB each
    run_until(TERN_EVENT_TASK, NULL);
    const size_t writes = world.store.writes;
    size_t received = 0;
    for (int i = 0; i < 38; i++) {
        run_until(TERN_EVENT_DOWNLOADED, NULL);
        received += world.server.downloads[i].len;
    }
    assert_int_equal(world.store.writes, writes + 1);
    boot();
    size_t held = 0;
    for (uint32_t v = 0; v < tern_client_version(&world.client); v++) {
        held += world.server.downloads[v].len;
    }
    assert_true(held <= received && received - held <= 65536);
    run_until(TERN_EVENT_TRAINED, NULL);
    world_check_replica(&world);
}

TEST(indices_are_received_likewise)
{
    float values[WORLD_VALUES];
    for (int i = 0; i < WORLD_VALUES; i++) {
        values[i] = (float)(i % 17 - 8) / 8.0f;
    }
    world.server.codec = "scalecom:p=0.1";
    fake_server_lead(&world.server, values);
    kill_at(20);
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_true(world.server.strips);
    assert_false(world.partial.there);
}
