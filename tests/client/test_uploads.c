// Updates whose sending was cut: they go on where they stopped, in this process or in the next, and
// count once.

#include <string.h>

#include "client/harness/one_world.h"
#include "tests/cases.h"

static struct fake_server *const server = &world.server;

// The world's updates are short, so every length is one that is worth asking for.
static int set_up(void **state)
{
    (void)state;
    world_init(&world);
    world.config.resume_upload_above = 1;
    server->codec = "float32";
    server->target = WORLD_ROUNDS;
    return world_boot(&world) == TERN_OK ? 0 : -1;
}

static void cut_at(size_t at)
{
    server->cut_upload_at = at;
    run_until(TERN_EVENT_FAILURE, NULL);
    assert_int_equal(server->unfinished.len, at);
}

// Until it was accepted, with nothing sent twice but what was cut off in between.
static void settle(struct tern_client_event *event)
{
    run_until(TERN_EVENT_UPLOADED, event);
    assert_int_equal(event->result, TERN_OK);
    world_check_conservation(&world);
}

#define TEST(name) CASE_WITH(name, set_up, tear_down)

TEST(cut_anywhere_it_sends_the_rest)
{
    struct tern_client_event event;
    for (size_t at = 1; at < 2400; at += at < 20 ? 1 : 61) {
        server->upload_bytes = 0;
        server->asked = 0;
        cut_at(at);
        settle(&event);
        assert_false(event.duplicate);
        assert_int_equal(server->asked, 1);
        assert_int_equal(server->upload_bytes, event.bytes);
    }
}

TEST(killed_it_asks_and_sends_the_rest)
{
    struct tern_client_event event;
    cut_at(100);
    boot();
    settle(&event);
    assert_int_equal(server->asked, 1);
    assert_int_equal(server->upload_bytes, event.bytes);
}

TEST(cut_again_and_again_it_waits_no_longer)
{
    struct tern_client_event event;
    run_until(TERN_EVENT_ENCODED, NULL);
    for (size_t at = 50; at <= 400; at += 50) {
        server->cut_upload_at = 50;
        run_until(TERN_EVENT_FAILURE, &event);
        assert_int_equal(server->unfinished.len, at);
        assert_true(event.wait_ms <= 2000);
    }
    settle(&event);
    assert_int_equal(server->asked, 8);
    assert_int_equal(server->upload_bytes, event.bytes);
}

TEST(what_is_damaged_is_sent_anew)
{
    struct tern_client_event event;
    cut_at(100);
    server->unfinished.data[99] ^= 1;
    settle(&event);
    assert_int_equal(server->upload_bytes, 100 + event.bytes);
}

TEST(more_than_there_is_of_it_is_no_part_of_it)
{
    struct tern_client_event event;
    cut_at(100);
    server->unfinished.len = WORLD_BLOB;
    settle(&event);
    assert_int_equal(server->upload_bytes, 100 + event.bytes);
}

TEST(what_is_gone_is_sent_anew)
{
    struct tern_client_event event;
    cut_at(100);
    server->unfinished.len = 0;
    settle(&event);
    assert_int_equal(server->asked, 1);
    assert_int_equal(server->upload_bytes, 100 + event.bytes);
}

// The aggregator made room for others between the question and the rest.
static void drop_unfinished(struct world *in, const struct tern_request *request,
                            struct tern_response *response)
{
    (void)response;
    if (request->purpose == TERN_PURPOSE_UPLOAD && request->body_len == 0) {
        in->server.unfinished.len = 0;
    }
}

TEST(what_goes_in_between_is_sent_anew)
{
    struct tern_client_event event;
    cut_at(100);
    world.damage = drop_unfinished;
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.status, 416);
    settle(&event);
    assert_int_equal(server->upload_bytes, 100 + event.bytes);
}

TEST(a_lost_answer_is_asked_for_without_the_update)
{
    struct tern_client_event event;
    server->faults[1] = FAULT_LOSE_REPLY;
    run_until(TERN_EVENT_FAILURE, NULL);
    settle(&event);
    assert_true(event.duplicate);
    assert_int_equal(server->puts, 1);
    assert_int_equal(server->upload_bytes, event.bytes);
}

TEST(another_update_under_its_key_is_a_conflict)
{
    struct tern_client_event event;
    server->faults[1] = FAULT_LOSE_REPLY;
    run_until(TERN_EVENT_FAILURE, NULL);
    server->accepted[0].sha256[0] ^= 1;
    run_until(TERN_EVENT_UPLOADED, &event);
    assert_int_equal(event.result, TERN_ERR_CONFLICT);
    assert_int_equal(server->puts, 2);
}

TEST(an_aggregator_that_keeps_nothing_gets_all_of_it)
{
    struct tern_client_event event;
    cut_at(100);
    server->asked_status = 405;
    settle(&event);
    assert_int_equal(server->upload_bytes, 100 + event.bytes);
}

TEST(a_busy_aggregator_is_asked_again)
{
    struct tern_client_event event;
    cut_at(100);
    server->asked_status = 503;
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_BUSY);
    server->asked_status = 0;
    settle(&event);
    assert_int_equal(server->upload_bytes, event.bytes);
}

// Bytes that were sent twice cost twice; the update is one payload.
TEST(an_update_is_one_payload_however_often_it_is_sent)
{
    struct tern_client_event event;
    const struct tern_meter *all = tern_client_meter_all(&world.client);
    settle(&event);
    const uint64_t payload = all->bytes[TERN_PURPOSE_UPLOAD][TERN_UP].payload;
    assert_true(payload > 0);
    server->faults[2] = FAULT_BUSY;
    run_until(TERN_EVENT_FAILURE, NULL);
    settle(&event);
    assert_int_equal(server->puts, 3);
    assert_int_equal(all->bytes[TERN_PURPOSE_UPLOAD][TERN_UP].payload, 2 * payload);
}

TEST(a_link_that_is_down_while_it_asks_loses_nothing)
{
    struct tern_client_event event;
    cut_at(100);
    world.down = true;
    run_until(TERN_EVENT_FAILURE, NULL);
    world.down = false;
    settle(&event);
    assert_int_equal(server->upload_bytes, event.bytes);
}

TEST(a_transport_that_does_not_block_is_no_different)
{
    struct tern_client_event event;
    world.report_again = true;
    cut_at(100);
    settle(&event);
    assert_int_equal(server->upload_bytes, event.bytes);
}

// No request more for what costs less than one.
TEST(a_short_update_is_never_asked_for)
{
    struct tern_client_event event;
    world.config.resume_upload_above = 0;
    boot();
    server->faults[1] = FAULT_LOSE_REQUEST;
    run_until(TERN_EVENT_FAILURE, NULL);
    boot();
    settle(&event);
    assert_int_equal(server->asked, 0);
}
