// The client through whole rounds: enrolment, training, evaluation, the end.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/harness/one_world.h"

static int set_up(void **state)
{
    (void)state;
    world_init(&world);
    return 0;
}

static void whole_federation_keeps_both_replicas_equal(void **state)
{
    (void)state;
    struct tern_client_event end;
    uint8_t hash[TERN_SHA256_SIZE];
    boot();
    run_until(TERN_EVENT_FINISHED, &end);
    assert_int_equal(world.server.version, 8);
    assert_int_equal(world.server.accepted_count, 8);
    world_check_replica(&world);
    world_check_conservation(&world);
    tern_sha256(world.server.weights, sizeof world.server.weights, hash);
    assert_int_equal(end.kind, TERN_EVENT_FINISHED);
    assert_int_equal(tern_client_phase(&world.client), TERN_PHASE_FINISHED);
    assert_int_equal(tern_client_step(&world.client), TERN_AGAIN);
    assert_int_equal(tern_client_next_ms(&world.client), UINT32_MAX);
    assert_int_equal(world_count_events(&world, TERN_EVENT_TROUBLE), 0);
}

static void warm_round_is_one_download_and_one_upload(void **state)
{
    (void)state;
    boot();
    world.server.next_in_reply = true;
    run_until(TERN_EVENT_UPLOADED, NULL);
    const size_t before = world.exchanges;
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world.exchanges - before, 2);
    assert_int_equal(world.server.checkins, 1);
    world_check_conservation(&world);
}

static void events_tell_the_round(void **state)
{
    (void)state;
    static const enum tern_client_event_kind order[] = {
        TERN_EVENT_ENROLLED, TERN_EVENT_TASK,     TERN_EVENT_TRAINED,    TERN_EVENT_ENCODED,
        TERN_EVENT_UPLOADED, TERN_EVENT_TASK,     TERN_EVENT_DOWNLOADED, TERN_EVENT_TRAINED,
        TERN_EVENT_ENCODED,  TERN_EVENT_UPLOADED,
    };
    const size_t count = sizeof order / sizeof order[0];
    struct tern_client_event uploaded;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    run_until(TERN_EVENT_UPLOADED, &uploaded);
    assert_int_equal(world.event_count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(world.events[i].kind, order[i]);
    }
    assert_int_equal(world.events[0].client_id, 3);
    assert_int_equal(uploaded.round, 2);
    assert_int_equal(uploaded.sequence, 2);
    assert_int_equal(uploaded.result, TERN_OK);
    assert_true(uploaded.bytes > 50);
    assert_string_equal(tern_client_event_name(uploaded.kind), "uploaded");
}

// Codecs of the table whose largest update, made and given back, fits into `size` bytes.
static uint32_t codecs_within(size_t size)
{
    uint32_t mask = 0;
    const struct tern_codec_entry *entry = NULL;
    for (size_t i = 0; (entry = tern_codec_entry_at(i)) != NULL; i++) {
        struct tern_codec codec;
        assert_int_equal(tern_codec_parse(entry->name, &codec, NULL), TERN_OK);
        const size_t bound = TERN_WIRE_OVERHEAD + 2 * tern_container_bound(&codec, &world.model);
        mask |= bound <= size ? 1u << entry->id : 0;
    }
    return mask;
}

static void update_says_what_the_aggregator_needs(void **state)
{
    (void)state;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    const tern_Update *update = &world.server.last_update;
    assert_memory_equal(update->base.bytes, world.server.replica_of[0], TERN_WIRE_REPLICA_BYTES);
    assert_int_equal(update->model_hash.size, 0); // the base says it
    assert_int_equal(update->num_examples, 100);
    assert_int_equal(update->local_steps, 3);
    assert_int_equal(update->train_ms, 30);
    assert_int_equal(update->error.sequence, 1);
    assert_true(update->error.norm > 0.0f);
    assert_int_equal(world.train_task.seed, 11);
    assert_int_equal(world.train_task.client, 3);
    run_until(TERN_EVENT_TASK, NULL);
    const tern_CheckinRequest *checkin = &world.server.last_checkin;
    assert_false(checkin->has_error); // the update said it
    assert_int_equal(checkin->model_hash.size, 0);
    assert_true(checkin->metered);
    assert_int_equal(checkin->inline_kib, sizeof world.blob / 1024);
    assert_int_equal(checkin->codecs, codecs_within(SIZE_MAX));
    const tern_ErrorFacts told = update->error;
    assert_int_equal(world_boot(&world), TERN_OK); // what is in the store may be older than that
    run_until(TERN_EVENT_TASK, NULL);
    assert_true(checkin->has_error);
    assert_int_equal(checkin->error.generation, told.generation);
    assert_true(checkin->error.norm == told.norm);
}

static void does_no_more_steps_than_allowed(void **state)
{
    (void)state;
    world.config.max_local_steps = 2;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world.server.last_update.local_steps, 2);
}

static void evaluator_reports_every_version_and_never_trains(void **state)
{
    (void)state;
    const float change[WORLD_VALUES] = {1.0f};
    world.config.evaluator = true;
    world.server.evaluate = true;
    world.server.target = 3;
    boot();
    for (int i = 0; i < 3; i++) {
        fake_server_commit(&world.server, change);
    }
    run_until(TERN_EVENT_FINISHED, NULL);
    assert_int_equal(world.server.evaluation_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(world.server.evaluations[i].version, i + 1);
        assert_true(world.server.evaluations[i].accuracy == 0.75f);
    }
    assert_int_equal(world.trainings, 0);
    world_check_replica(&world);
}

static void evaluator_that_was_cut_off_still_reports(void **state)
{
    (void)state;
    const float change[WORLD_VALUES] = {1.0f};
    world.config.evaluator = true;
    world.server.evaluate = true;
    world.server.target = 2;
    boot();
    fake_server_commit(&world.server, change);
    run_until(TERN_EVENT_EVALUATED, NULL);
    boot(); // the report was not sent yet
    fake_server_commit(&world.server, change);
    run_until(TERN_EVENT_FINISHED, NULL);
    assert_int_equal(world.server.evaluation_count, 2);
    assert_int_equal(world.server.evaluations[0].version, 1);
}

static void evaluator_refuses_to_train(void **state)
{
    (void)state;
    struct tern_client_event event;
    world.config.evaluator = true;
    boot();
    run_until(TERN_EVENT_TROUBLE, &event);
    assert_int_equal(event.result, TERN_ERR_ARGUMENT);
    assert_int_equal(world.trainings, 0);
}

static void who_trains_refuses_to_evaluate(void **state)
{
    (void)state;
    struct tern_client_event event;
    const float change[WORLD_VALUES] = {1.0f};
    world.server.evaluate = true;
    boot();
    fake_server_commit(&world.server, change);
    run_until(TERN_EVENT_TROUBLE, &event);
    assert_int_equal(event.result, TERN_ERR_ARGUMENT);
    assert_int_equal(world.server.evaluation_count, 0);
}

static void waits_as_long_as_it_was_told(void **state)
{
    (void)state;
    struct tern_client_event event;
    world.server.no_task = true;
    world.server.come_back_ms = 5000;
    boot();
    run_until(TERN_EVENT_WAITING, &event);
    assert_in_range(event.wait_ms, 5000, 5500); // never earlier, and not all at once
    assert_int_equal(tern_client_next_ms(&world.client), event.wait_ms);
    world.now_ms += event.wait_ms - 1;
    assert_int_equal(tern_client_step(&world.client), TERN_AGAIN);
    assert_int_equal(world.server.checkins, 1);
    world.now_ms += 1;
    assert_int_equal(tern_client_step(&world.client), TERN_AGAIN);
    assert_int_equal(world.server.checkins, 2);
    world.server.come_back_ms = 0; // says nothing, as an empty body does: must not make it spin
    world.now_ms += 5500;
    run_until(TERN_EVENT_TROUBLE, &event);
    assert_int_equal(event.result, TERN_ERR_CORRUPT);
    assert_true(event.wait_ms >= 100);
}

static void held_check_in_is_not_given_up_early(void **state)
{
    (void)state;
    world.server.no_task = true;
    world.server.come_back_ms = 1000;
    world.config.timeout_ms = 1000;
    world.config.wait_ms = 5000;
    boot();
    run_until(TERN_EVENT_WAITING, NULL);
    assert_int_equal(world.last_timeout_ms, 35000);
    world.config.wait_ms = 0; // nothing is held: the owner's limit counts
    boot();
    run_until(TERN_EVENT_WAITING, NULL);
    assert_int_equal(world.last_timeout_ms, 1000);
}

static void client_that_may_be_held_asks_to_be(void **state)
{
    (void)state;
    world.server.next_in_reply = true;
    world.server.come_back_ms = 600000;
    world.config.wait_ms = 30000;
    boot();
    run_until(TERN_EVENT_ENCODED, NULL);
    world.server.no_task = true;
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(tern_client_next_ms(&world.client), 0);
    run_until(TERN_EVENT_WAITING, NULL);
    assert_int_equal(world.server.checkins, 2);
    assert_int_equal(world.server.last_checkin.wait_ms, 30000);
    assert_in_range(tern_client_next_ms(&world.client), 600000, 660000);
}

static void client_that_may_not_be_held_comes_back_when_told(void **state)
{
    (void)state;
    world.server.next_in_reply = true;
    world.server.come_back_ms = 600000;
    boot();
    run_until(TERN_EVENT_ENCODED, NULL);
    world.server.no_task = true;
    run_until(TERN_EVENT_WAITING, NULL);
    assert_int_equal(world.server.checkins, 1);
    assert_in_range(tern_client_next_ms(&world.client), 600000, 660000);
}

static void does_not_work_when_conditions_forbid_it(void **state)
{
    (void)state;
    struct tern_client_event event;
    boot();
    world.may_work = false;
    run_until(TERN_EVENT_PAUSED, &event);
    assert_int_equal(event.wait_ms, 30000);
    assert_int_equal(world.server.checkins, 0);
    world.may_work = true;
    run_until(TERN_EVENT_UPLOADED, NULL);
}

static void transport_that_does_not_block_works_alike(void **state)
{
    (void)state;
    world.say_again = true;
    boot();
    run_until(TERN_EVENT_FINISHED, NULL);
    assert_int_equal(world.server.accepted_count, 8);
    world_check_conservation(&world);
    world_check_replica(&world);
}

static void small_memory_announces_only_what_fits(void **state)
{
    (void)state;
    const struct tern_codec codec = {.id = TERN_CODEC_3LC, .sparsity = 1.0f};
    struct tern_client_event event;
    world.blob_size = TERN_WIRE_OVERHEAD + 2 * tern_container_bound(&codec, &world.model);
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    const uint32_t announced = world.server.last_checkin.codecs;
    assert_int_equal(announced, codecs_within(world.blob_size));
    assert_true((announced >> TERN_CODEC_3LC & 1) == 1 &&
                (announced >> TERN_CODEC_FLOAT32 & 1) == 0);
    run_until(TERN_EVENT_TROUBLE, &event); // the float32 download is too large for it
    assert_int_equal(event.result, TERN_ERR_TOO_LARGE);
    world_check_conservation(&world);
}

static void blob_bound_holds_every_codec(void **state)
{
    (void)state;
    const struct tern_codec_entry *entry = NULL;
    world.blob_size = tern_client_blob_bound(&world.model);
    assert_true(world.blob_size <= sizeof world.blob);
    boot();
    world.server.target = WORLD_ROUNDS;
    world.inexact = true;
    size_t codecs = 0;
    for (; (entry = tern_codec_entry_at(codecs)) != NULL; codecs++) {
        world.server.codec = entry->name;
        run_until(TERN_EVENT_UPLOADED, NULL);
    }
    assert_int_equal(world.server.accepted_count, codecs);
    assert_int_equal(world_count_events(&world, TERN_EVENT_TROUBLE), 0);
}

static void enrolment_tells_what_failed(void **state)
{
    (void)state;
    assert_int_equal(tern_client_init(&world.client, &world.config), TERN_OK);
    assert_null(tern_client_identity(&world.client));
    assert_int_equal(tern_client_step(&world.client), TERN_ERR_STATE);
    assert_int_equal(tern_client_enroll(&world.client, "wrong"), TERN_ERR_UNAUTHORIZED);
    world.down = true;
    assert_int_equal(tern_client_enroll(&world.client, "join-me"), TERN_ERR_NETWORK);
    world.down = false;
    world.store.full = true;
    assert_int_equal(tern_client_enroll(&world.client, "join-me"), TERN_ERR_NO_SPACE);
    assert_null(tern_client_identity(&world.client));
    world.store.full = false;
    assert_int_equal(tern_client_enroll(&world.client, "join-me"), TERN_OK);
    assert_int_equal(tern_client_identity(&world.client)->client_id, 3);
}

static void another_model_is_refused(void **state)
{
    (void)state;
    const uint32_t dims[] = {5};
    static struct tern_model other;
    boot();
    memset(&other, 0, sizeof other);
    assert_int_equal(tern_model_add(&other, "x", dims, 1, 0.0f), TERN_OK);
    assert_int_equal(tern_model_layout(&other), TERN_OK);
    struct tern_client_workspace workspace = world.client.work;
    workspace.model = &other;
    assert_int_equal(tern_client_restore(&world.client, &workspace), TERN_ERR_MODEL_MISMATCH);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(whole_federation_keeps_both_replicas_equal),
        TEST(warm_round_is_one_download_and_one_upload),
        TEST(events_tell_the_round),
        TEST(update_says_what_the_aggregator_needs),
        TEST(does_no_more_steps_than_allowed),
        TEST(evaluator_reports_every_version_and_never_trains),
        TEST(evaluator_that_was_cut_off_still_reports),
        TEST(evaluator_refuses_to_train),
        TEST(who_trains_refuses_to_evaluate),
        TEST(waits_as_long_as_it_was_told),
        TEST(held_check_in_is_not_given_up_early),
        TEST(client_that_may_be_held_asks_to_be),
        TEST(client_that_may_not_be_held_comes_back_when_told),
        TEST(does_not_work_when_conditions_forbid_it),
        TEST(transport_that_does_not_block_works_alike),
        TEST(small_memory_announces_only_what_fits),
        TEST(blob_bound_holds_every_codec),
        TEST(enrolment_tells_what_failed),
        TEST(another_model_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
