// The client through whole rounds: enrolment, training, evaluation, the end.

#include <string.h>

#include "client/harness/one_world.h"
#include "tests/cases.h"

static int set_up(void **state)
{
    (void)state;
    world_init(&world);
    return 0;
}

#define TEST(name) CASE_WITH(name, set_up, tear_down)

TEST(whole_federation_keeps_both_replicas_equal)
{
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
    assert_int_equal(world_count_events(&world, TERN_EVENT_FAILURE), 0);
}

TEST(warm_round_is_one_download_and_one_upload)
{
    boot();
    world.server.next_in_reply = true;
    run_until(TERN_EVENT_UPLOADED, NULL);
    const size_t before = world.exchanges;
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world.exchanges - before, 2);
    assert_int_equal(world.server.checkins, 1);
    world_check_conservation(&world);
}

TEST(events_tell_the_round)
{
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

TEST(update_says_what_the_aggregator_needs)
{
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

TEST(does_no_more_steps_than_allowed)
{
    world.config.max_local_steps = 2;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world.server.last_update.local_steps, 2);
}

TEST(evaluator_reports_every_version_and_never_trains)
{
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

TEST(evaluator_that_was_cut_off_still_reports)
{
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

TEST(who_trains_evaluates_before_where_it_is_asked)
{
    struct tern_client_event event;
    world.server.asks = true;
    world.server.target = 2;
    boot();
    run_until(TERN_EVENT_EVALUATED, &event);
    assert_int_equal(event.round, 1);
    assert_int_equal(world.trainings, 0);
    run_until(TERN_EVENT_FINISHED, NULL);
    assert_int_equal(world.evaluations, 2); // once for each task
    const tern_Update *update = &world.server.last_update;
    assert_true(update->has_evaluation);
    assert_int_equal(update->evaluation.num_examples, 50);
    assert_true(update->evaluation.accuracy == 0.75f);
    assert_int_equal(update->evaluation.metrics_count, 1);
    assert_string_equal(update->evaluation.metrics[0].name, "f1_macro");
    assert_true(update->evaluation.metrics[0].value == 0.5f);
    assert_int_equal(world.server.evaluation_count, 0); // check-ins are an evaluator's
}

TEST(who_is_not_asked_or_holds_nothing_out_trains_as_ever)
{
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world.evaluations, 0);
    assert_false(world.server.last_update.has_evaluation);
    world.server.asks = true;
    world.evaluates_as = TERN_ERR_NOT_FOUND;
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world.evaluations, 1);
    assert_false(world.server.last_update.has_evaluation);
}

static void end_with_the_global_model(void)
{
    world.server.final_model = true;
    world.server.remainder = 0.25f;
    boot();
}

static bool holds_the_global_model(void)
{
    const float *held = tern_client_weights(&world.client);
    return held[0] == world.server.weights[0] + 0.25f &&
           memcmp(held + 1, world.server.weights + 1, sizeof world.server.weights - sizeof *held) ==
               0 &&
           memcmp(tern_client_replica(&world.client), world.server.final_replica,
                  TERN_SHA256_SIZE) == 0;
}

TEST(evaluator_ends_with_the_global_model_and_reports_it)
{
    const float change[WORLD_VALUES] = {1.0f};
    struct tern_client_event event;
    world.config.evaluator = true;
    world.server.evaluate = true;
    world.server.target = 1;
    end_with_the_global_model();
    fake_server_commit(&world.server, change);
    run_until(TERN_EVENT_EVALUATED, &event);
    assert_false(event.global);
    run_until(TERN_EVENT_EVALUATED, &event);
    assert_true(event.global);
    assert_int_equal(event.version, 1);
    run_until(TERN_EVENT_FINISHED, NULL);
    assert_int_equal(world.server.evaluation_count, 2);
    assert_true(holds_the_global_model());
}

TEST(who_trains_ends_with_the_global_model_and_keeps_it)
{
    world.server.target = 2;
    end_with_the_global_model();
    run_until(TERN_EVENT_FINISHED, NULL);
    assert_true(holds_the_global_model());
    assert_int_equal(world.trainings, 2);
    const struct tern_meter *meter = tern_client_meter_all(&world.client);
    assert_true(meter->bytes[TERN_PURPOSE_DOWNLOAD][TERN_DOWN].payload >
                sizeof(float[WORLD_VALUES]));
    const size_t checkins = world.server.checkins;
    boot(); // it is not fetched again
    run_until(TERN_EVENT_FINISHED, NULL);
    assert_true(holds_the_global_model());
    assert_int_equal(world.server.checkins, checkins + 1);
}

TEST(budget_without_room_for_the_global_model_ends_with_the_replica)
{
    world.server.target = 0;
    world.config.budget_per_round = 3000; // the model takes 2,432 bytes, a connection as many
    end_with_the_global_model();
    run_until(TERN_EVENT_FINISHED, NULL);
    assert_false(holds_the_global_model());
    assert_int_equal(world.client.version, 0);
}

TEST(final_model_of_another_hash_is_no_end)
{
    struct tern_client_event event;
    world.server.target = 1;
    world.server.final_lies = true;
    end_with_the_global_model();
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_WRONG_REPLICA);
    run_until(TERN_EVENT_FINISHED, NULL); // it is not fetched again
    assert_false(holds_the_global_model());
    const uint32_t version = tern_client_version(&world.client);
    float held[WORLD_VALUES];
    memcpy(held, tern_client_weights(&world.client), sizeof held);
    boot();
    assert_int_equal(tern_client_version(&world.client), version);
    assert_memory_equal(held, tern_client_weights(&world.client), sizeof held);
}

TEST(evaluator_refuses_to_train)
{
    struct tern_client_event event;
    world.config.evaluator = true;
    boot();
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_ARGUMENT);
    assert_int_equal(world.trainings, 0);
}

TEST(who_trains_refuses_to_evaluate)
{
    struct tern_client_event event;
    const float change[WORLD_VALUES] = {1.0f};
    world.server.evaluate = true;
    boot();
    fake_server_commit(&world.server, change);
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_ARGUMENT);
    assert_int_equal(world.server.evaluation_count, 0);
}

TEST(waits_as_long_as_it_was_told)
{
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
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_CORRUPT);
    assert_true(event.wait_ms >= 100);
}

TEST(held_check_in_is_not_given_up_early)
{
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

TEST(client_that_may_be_held_asks_to_be)
{
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

TEST(client_that_may_not_be_held_comes_back_when_told)
{
    world.server.next_in_reply = true;
    world.server.come_back_ms = 600000;
    boot();
    run_until(TERN_EVENT_ENCODED, NULL);
    world.server.no_task = true;
    run_until(TERN_EVENT_WAITING, NULL);
    assert_int_equal(world.server.checkins, 1);
    assert_in_range(tern_client_next_ms(&world.client), 600000, 660000);
}

TEST(does_not_work_when_conditions_forbid_it)
{
    struct tern_client_event event;
    boot();
    world.may_work = false;
    run_until(TERN_EVENT_PAUSED, &event);
    assert_int_equal(event.wait_ms, 30000);
    assert_int_equal(world.server.checkins, 0);
    world.may_work = true;
    run_until(TERN_EVENT_UPLOADED, NULL);
}

TEST(transport_that_does_not_block_works_alike)
{
    world.report_again = true;
    boot();
    run_until(TERN_EVENT_FINISHED, NULL);
    assert_int_equal(world.server.accepted_count, 8);
    world_check_conservation(&world);
    world_check_replica(&world);
}

TEST(small_memory_announces_only_what_fits)
{
    const struct tern_codec codec = {.id = TERN_CODEC_3LC, .sparsity = 1.0f};
    struct tern_client_event event;
    world.blob_size = TERN_WIRE_OVERHEAD + 2 * tern_container_bound(&codec, &world.model);
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    const uint32_t announced = world.server.last_checkin.codecs;
    assert_int_equal(announced, codecs_within(world.blob_size));
    assert_true((announced >> TERN_CODEC_3LC & 1) == 1 &&
                (announced >> TERN_CODEC_FLOAT32 & 1) == 0);
    run_until(TERN_EVENT_FAILURE, &event); // the float32 download is too large for it
    assert_int_equal(event.result, TERN_ERR_TOO_LARGE);
    world_check_conservation(&world);
}

TEST(blob_bound_holds_every_codec)
{
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
    assert_int_equal(world_count_events(&world, TERN_EVENT_FAILURE), 0);
}

TEST(client_that_leaves_reports_so)
{
    world.config.leaves = true;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world.server.last_checkin.abilities & TERN_WIRE_LEAVES, TERN_WIRE_LEAVES);
}

// Steps until the client gives up, sleeping through all waits. Returns how long that took in ms.
static uint64_t fail_until_it_gives_up(enum tern_result expected)
{
    const uint64_t began_ms = world.now_ms;
    enum tern_result result = TERN_AGAIN;
    for (int i = 0; i < 100 && (result == TERN_OK || result == TERN_AGAIN); i++) {
        world.now_ms += tern_client_next_ms(&world.client);
        result = tern_client_step(&world.client);
    }
    assert_int_equal(result, expected);
    return world.now_ms - began_ms;
}

TEST(client_that_leaves_repeats_what_fails_until_its_patience_ends)
{
    static const struct {
        uint8_t patience_s;
        uint64_t least_ms;
        uint64_t most_ms;
        size_t least;
        size_t most;
    } cases[] = {{0, 3000, 10000, 4, 6}, {120, 60000, 120000, 7, 9}};
    world.config.leaves = true;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        world.config.leaves_patience_s = cases[i].patience_s;
        world.down = false;
        boot();
        const size_t before = world.exchanges;
        world.down = true;
        assert_in_range(fail_until_it_gives_up(TERN_ERR_NETWORK), cases[i].least_ms,
                        cases[i].most_ms);
        assert_in_range(world.exchanges - before, cases[i].least, cases[i].most);
    }
}

TEST(client_that_leaves_continues_later)
{
    world.config.leaves = true;
    boot();
    world.down = true;
    (void)fail_until_it_gives_up(TERN_ERR_NETWORK);
    const size_t before = world.exchanges;
    assert_int_equal(tern_client_phase(&world.client), TERN_PHASE_CHECKIN);
    const uint32_t wait_ms = tern_client_next_ms(&world.client);
    assert_int_equal(tern_client_step(&world.client), TERN_AGAIN); // it has not ended yet
    assert_int_equal(world.exchanges - before, 0);
    for (int i = 0; i < 4; i++) { // further calls make one attempt each
        world.now_ms += 10000;
        assert_int_equal(tern_client_end(&world.client), TERN_OK);
        assert_int_equal(tern_client_step(&world.client), TERN_ERR_NETWORK);
    }
    assert_int_equal(world.exchanges - before, 4);
    assert_true(tern_client_next_ms(&world.client) > wait_ms);
    world.down = false;
    const uint64_t now_ms = world.now_ms;
    assert_int_equal(tern_client_end(&world.client), TERN_OK);
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_true(world.now_ms - now_ms < 1000);
}

// A row of failures ends with an answered check-in, so the first failure of the upload is the first of another row.
TEST(client_that_leaves_counts_failures_in_a_row)
{
    struct tern_client_event event;
    world.config.leaves = true;
    boot();
    world.down = true;
    for (int i = 0; i < 2; i++) {
        world.now_ms += tern_client_next_ms(&world.client);
        assert_int_equal(tern_client_step(&world.client), TERN_AGAIN);
    }
    world.down = false;
    world.now_ms += tern_client_next_ms(&world.client);
    while (tern_client_phase(&world.client) != TERN_PHASE_UPLOAD) {
        assert_int_equal(tern_client_step(&world.client), TERN_OK);
        world.now_ms += 5000; // training takes longer than the client is patient
    }
    world.down = true;
    assert_int_equal(tern_client_step(&world.client), TERN_AGAIN);
    assert_in_range(tern_client_next_ms(&world.client), 500, 1000); // the first wait
    world.down = false;
    run_until(TERN_EVENT_UPLOADED, &event);
    assert_int_equal(event.result, TERN_OK);
}

// The waits after failures of tasks grow although check-ins between them are answered.
TEST(answered_checkins_do_not_end_a_row_of_failed_tasks)
{
    struct tern_client_event event;
    world.config.leaves = true;
    world.config.leaves_patience_s = 120;
    world.train_diverges = true;
    boot();
    for (int i = 0; i < 6; i++) {
        run_until(TERN_EVENT_FAILURE, &event);
        assert_in_range(event.wait_ms, 500u << i, 1000u << i);
    }
    assert_in_range(fail_until_it_gives_up(TERN_ERR_NON_FINITE), 0, 120000);
}

TEST(client_that_leaves_does_not_sit_out_a_longer_wait)
{
    world.config.leaves = true;
    world.server.checkin_status = 422;
    for (uint32_t wait_s = 5; wait_s <= 30; wait_s += 25) {
        world.server.refused_wait_s = wait_s;
        boot();
        const enum tern_result result = tern_client_step(&world.client);
        assert_true((result == TERN_AGAIN) == (wait_s == 5) && result != TERN_OK);
        assert_int_equal(tern_client_phase(&world.client), TERN_PHASE_CHECKIN);
        assert_in_range(tern_client_next_ms(&world.client), 1000 * wait_s, 1500 * wait_s);
    }
}

// Retry-After is 30 s.
TEST(client_that_leaves_sits_out_a_busy_aggregator)
{
    world.config.leaves = true;
    world.config.leaves_patience_s = 120;
    world.server.checkin_status = 503;
    boot();
    for (int i = 0; i < 2; i++) {
        world.now_ms += tern_client_next_ms(&world.client);
        assert_int_equal(tern_client_step(&world.client), TERN_AGAIN);
        assert_in_range(tern_client_next_ms(&world.client), 30000, 45000);
    }
    world.server.checkin_status = 0;
    run_until(TERN_EVENT_UPLOADED, NULL);
}

TEST(enrolment_tells_what_failed)
{
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

TEST(another_model_is_refused)
{
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
