// A model that comes with a manifest: enrolling for it, fetching and keeping the manifest, starting
// from nothing, and what becomes of tensors that are dense or frozen.

#include <string.h>

#include "client/harness/one_world.h"
#include "tensor/manifest.h"
#include "tests/cases.h"

enum { CODED = 592, DENSE = 8, FROZEN = 8 };

static uint8_t got[TERN_MANIFEST_MAX];
static size_t got_len;

static void add(struct tern_model *model, const char *name, uint32_t count, enum tern_rule rule)
{
    assert_int_equal(tern_model_add_by_rule(model, name, &count, 1, rule), TERN_OK);
}

// The federation's first version is what its aggregator has; no seed makes it.
static int set_up(void **state)
{
    (void)state;
    static struct tern_model made;
    world_init(&world);
    tern_model_clear(&made);
    add(&made, "frozen", FROZEN, TERN_RULE_SKIP);
    add(&made, "mean", DENSE, TERN_RULE_DENSE);
    add(&made, "weight", CODED, TERN_RULE_COMPRESS);
    world_bring_model(&world, &made);
    return 0;
}

static enum tern_result fetch(void)
{
    enum tern_result result = TERN_AGAIN;
    while (result == TERN_AGAIN) {
        result = tern_client_manifest(&world.client, got, sizeof got, &got_len);
    }
    return result;
}

static void check_got(void)
{
    assert_int_equal(got_len, world.server.manifest.len);
    assert_memory_equal(got, world.server.manifest.blob, got_len);
}

// --- Enrolling and fetching

#define TEST(name) CASE_WITH(name, set_up, tear_down)

TEST(program_without_manifests_does_not_enrol)
{
    world.config.takes_manifests = false;
    assert_int_equal(world_boot(&world), TERN_ERR_MODEL_MISMATCH);
    assert_false(world.store.records[TERN_RECORD_IDENTITY].saved);
}

TEST(model_of_neither_kind_is_refused)
{
    world.server.manifest.len = 0;
    assert_int_equal(world_boot(&world), TERN_ERR_MODEL_MISMATCH);
}

TEST(provisioned_identity_may_come_with_a_manifest)
{
    boot();
    struct tern_client_identity identity = *tern_client_identity(&world.client);
    identity.manifest = 0;
    assert_int_equal(tern_client_provision(&world.client, &identity), TERN_ERR_MODEL_MISMATCH);
    identity.manifest = 100;
    assert_int_equal(tern_client_provision(&world.client, &identity), TERN_OK);
}

TEST(manifest_is_fetched_once)
{
    boot();
    assert_int_equal(tern_client_stored_manifest(&world.client, got, sizeof got, &got_len),
                     TERN_ERR_NOT_FOUND);
    const size_t before = world.exchanges;
    assert_int_equal(fetch(), TERN_OK);
    check_got();
    assert_int_equal(world.exchanges, before + 1);
    memset(got, 0, sizeof got);
    boot(); // the power was away
    assert_int_equal(fetch(), TERN_OK);
    check_got();
    assert_int_equal(tern_client_stored_manifest(&world.client, got, sizeof got, &got_len),
                     TERN_OK);
    assert_int_equal(world.exchanges, before + 1);
}

TEST(fetching_may_take_turns)
{
    world.report_again = true;
    boot();
    assert_int_equal(fetch(), TERN_OK);
    check_got();
}

TEST(damaged_record_is_fetched_again)
{
    boot();
    assert_int_equal(fetch(), TERN_OK);
    world.store.records[TERN_RECORD_MODEL].data[5] ^= 1; // a checksum that still fits
    const size_t before = world.exchanges;
    assert_int_equal(fetch(), TERN_OK);
    check_got();
    assert_int_equal(world.exchanges, before + 1);
    world.store.records[TERN_RECORD_MODEL].damaged = true;
    assert_int_equal(fetch(), TERN_OK);
    assert_int_equal(world.exchanges, before + 2);
}

TEST(other_bytes_are_refused)
{
    boot();
    world.server.manifest.blob[7] ^= 1;
    assert_int_equal(fetch(), TERN_ERR_CORRUPT);
    assert_false(world.store.records[TERN_RECORD_MODEL].saved);
    world.server.manifest.blob[7] ^= 1;
    assert_int_equal(fetch(), TERN_OK);
}

TEST(aggregator_without_it_is_of_another_model)
{
    boot();
    world.server.manifest.len = 0;
    assert_int_equal(fetch(), TERN_ERR_MODEL_MISMATCH);
    assert_false(world.store.records[TERN_RECORD_MODEL].saved);
}

TEST(without_a_network_it_is_tried_again)
{
    boot();
    world.down = true;
    assert_int_equal(fetch(), TERN_ERR_NETWORK);
    world.down = false;
    assert_int_equal(fetch(), TERN_OK);
    check_got();
}

// --- What fetching costs

static uint64_t wire_spent(void)
{
    const struct tern_meter *meter = tern_client_meter_all(&world.client);
    return tern_meter_total(meter, TERN_UP).wire + tern_meter_total(meter, TERN_DOWN).wire;
}

// A process that has enrolled before and holds no manifest yet, so that it cannot restore.
static void start_again(void)
{
    assert_int_equal(tern_client_init(&world.client, &world.config), TERN_OK);
    assert_int_equal(tern_client_identify(&world.client), TERN_OK);
}

// What a fetch is expected to cost, as a client says that has no room for it.
static uint64_t expected_cost(void)
{
    world.config.budget_per_month = 1;
    start_again();
    assert_int_equal(fetch(), TERN_ERR_BUDGET);
    const struct tern_client_event *event = &world.events[world.event_count - 1];
    assert_int_equal(event->kind, TERN_EVENT_BUDGET);
    assert_int_equal(event->budget_left, 1);
    assert_non_null(strstr(event->why, "month"));
    world.config.budget_per_month = 0;
    return event->bytes;
}

TEST(fetching_is_within_the_budget_of_the_month)
{
    boot();
    const size_t before = world.exchanges;
    const uint64_t cost = expected_cost();
    assert_true(cost > world.server.manifest.len);
    world.config.budget_per_month = cost - 1;
    start_again();
    assert_int_equal(fetch(), TERN_ERR_BUDGET);
    assert_int_equal(world.exchanges, before);
    world.config.budget_per_month = cost;
    start_again();
    assert_int_equal(fetch(), TERN_OK);
    check_got();
}

TEST(fetching_is_within_the_budget_of_a_round)
{
    world.wire_per_exchange = 2000;
    boot();
    const size_t before = world.exchanges;
    const uint64_t cost = expected_cost();
    world.config.budget_per_round = cost - 1;
    start_again();
    assert_int_equal(fetch(), TERN_ERR_BUDGET);
    assert_int_equal(world.exchanges, before);
    world.config.budget_per_round = cost;
    start_again();
    for (int i = 0; i < 3; i++) { // what failed before does not count against the next try
        world.cut_download_at = 0;
        assert_int_equal(fetch(), TERN_ERR_NETWORK);
    }
    assert_int_equal(fetch(), TERN_OK);
}

TEST(what_fetching_cost_is_in_the_store)
{
    world.wire_per_exchange = 500;
    world.config.budget_per_month = 1 << 20;
    boot();
    const uint64_t enrolled = wire_spent();
    assert_int_equal(tern_client_save_meter(&world.client), TERN_OK);
    start_again();
    world.cut_download_at = 5;
    assert_int_equal(fetch(), TERN_ERR_NETWORK);
    start_again();
    assert_int_equal(fetch(), TERN_OK);
    const uint64_t spent = wire_spent();
    assert_true(spent > enrolled + 2 * world.wire_per_exchange + world.server.manifest.len);
    boot();
    assert_int_equal(wire_spent(), spent);
    assert_int_equal(tern_client_budget(&world.client)->month_spent, spent);
}

// Before a byte is sent, the store counts it.
TEST(power_cut_while_fetching_frees_nothing)
{
    world.wire_per_exchange = 500;
    world.config.budget_per_month = 1 << 20;
    boot();
    assert_int_equal(tern_client_save_meter(&world.client), TERN_OK);
    start_again();
    const uint64_t before = tern_client_budget(&world.client)->month_spent;
    world.cut_exchange_at = world.exchanges + 1;
    assert_int_equal(fetch(), TERN_ERR_IO);
    world.cut_exchange_at = 0;
    boot();
    assert_true(tern_client_budget(&world.client)->month_spent >=
                before + world.wire_per_exchange + world.server.manifest.len);
}

TEST(cut_fetch_goes_on_where_it_was)
{
    boot();
    world.store.records[TERN_RECORD_MODEL].damaged = true; // not looked at again in between
    const size_t len = world.server.manifest.len;
    const size_t cuts[] = {1, 6, len - 8};
    size_t have = 0;
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        world.cut_download_at = cuts[i];
        assert_int_equal(fetch(), TERN_ERR_NETWORK);
        assert_int_equal(world.last_range, have);
        have += cuts[i];
    }
    assert_int_equal(len - have, 1);
    assert_int_equal(fetch(), TERN_OK);
    assert_int_equal(world.last_range, have);
    check_got();
}

TEST(refusal_is_understood_where_a_byte_is_missing)
{
    boot();
    const size_t len = world.server.manifest.len;
    world.cut_download_at = len - 1;
    assert_int_equal(fetch(), TERN_ERR_NETWORK);
    world.server.manifest.len = 0;
    assert_int_equal(fetch(), TERN_ERR_MODEL_MISMATCH);
    world.server.manifest.len = len;
    assert_int_equal(fetch(), TERN_OK);
    check_got();
}

TEST(ignored_range_is_fetched_whole)
{
    boot();
    world.cut_download_at = 7;
    world.ignore_range = true;
    assert_int_equal(fetch(), TERN_ERR_NETWORK);
    assert_int_equal(fetch(), TERN_ERR_HTTP);
    assert_int_equal(fetch(), TERN_OK);
    check_got();
}

TEST(ignored_range_does_not_count_as_too_large)
{
    boot();
    const size_t room = world.server.manifest.len;
    world.cut_download_at = 7;
    world.ignore_range = true;
    const enum tern_result results[] = {TERN_ERR_NETWORK, TERN_ERR_HTTP, TERN_OK};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tern_client_manifest(&world.client, got, room, &got_len), results[i]);
    }
    check_got();
}

TEST(bytes_of_a_former_enrolment_are_not_continued)
{
    boot();
    world.cut_download_at = 7;
    assert_int_equal(fetch(), TERN_ERR_NETWORK);
    assert_int_equal(tern_client_enroll(&world.client, "join-me"), TERN_OK);
    assert_int_equal(fetch(), TERN_OK);
    assert_int_equal(world.last_range, 0);
    check_got();
}

TEST(size_of_the_manifest_outlasts_a_restart)
{
    struct fake_record *identity = &world.store.records[TERN_RECORD_IDENTITY];
    boot();
    start_again();
    assert_int_equal(tern_client_identity(&world.client)->manifest, world.server.manifest.len);
    const uint64_t cost = expected_cost();
    memset(identity->data + 4, 0, 4); // nobody said: all that has room is expected
    assert_true(expected_cost() > cost + sizeof got - WORLD_BLOB);
    assert_int_equal(tern_client_identity(&world.client)->manifest, 0);
    start_again();
    assert_int_equal(fetch(), TERN_OK);
}

TEST(more_than_was_said_is_refused)
{
    boot();
    struct tern_client_identity identity = *tern_client_identity(&world.client);
    identity.manifest = 8;
    assert_int_equal(tern_client_provision(&world.client, &identity), TERN_OK);
    struct fake_download *manifest = &world.server.manifest;
    memset(manifest->blob + manifest->len, 0, sizeof manifest->blob - manifest->len);
    manifest->len = 4096;
    assert_int_equal(fetch(), TERN_ERR_TOO_LARGE);
    assert_false(world.store.records[TERN_RECORD_MODEL].saved);
}

// --- Training

TEST(first_task_comes_with_a_snapshot)
{
    boot();
    run_until(TERN_EVENT_TASK, NULL);
    assert_int_equal(world.server.last_checkin.replica.size, 0);
    run_until(TERN_EVENT_TRAINED, NULL);
    world_check_replica(&world);
    assert_int_equal(tern_client_version(&world.client), 1);
    boot();
    world_check_replica(&world); // from its record
    run_until(TERN_EVENT_TASK, NULL);
    assert_int_equal(world.server.last_checkin.replica.size, TERN_WIRE_REPLICA_BYTES);
}

TEST(frozen_and_dense_values_stay_out_of_the_buffer)
{
    struct tern_client_event event;
    float buffer[WORLD_VALUES];
    boot();
    world.server.codec = "3lc:s=1.75";
    run_until(TERN_EVENT_UPLOADED, &event);
    assert_int_equal(event.result, TERN_OK);
    world_buffer(&world, buffer);
    float left = 0;
    int moved = 0;
    for (int i = 0; i < CODED; i++) {
        left += buffer[i] * buffer[i];
    }
    assert_true(left > 0);
    for (int i = CODED; i < WORLD_VALUES; i++) {
        const float sent = i < CODED + DENSE ? world.change[i] : 0.0F;
        assert_true(buffer[i] == 0.0F && world.server.applied[i] == sent);
        moved += i >= CODED + DENSE && world.change[i] != 0.0F;
    }
    assert_true(moved > 0); // the trainer did change what is frozen
}

TEST(late_update_gives_back_what_is_coded)
{
    struct tern_client_event event;
    float buffer[WORLD_VALUES];
    boot();
    world.server.codec = "3lc:s=1";
    world.server.faults[2] = FAULT_LATE;
    run_until(TERN_EVENT_UPLOADED, &event);
    assert_int_equal(event.result, TERN_ERR_LATE);
    world_buffer(&world, buffer);
    for (int i = 0; i < WORLD_VALUES; i++) {
        assert_true(buffer[i] == (i < CODED ? world.change[i] : 0.0F));
    }
}

// --- Local tensors: of the frozen model's 8 values, 8 dense ones and 592 others, the last 100

enum { LOCAL = 100, FIRST_LOCAL = WORLD_VALUES - LOCAL - FROZEN };

static int set_up_local(void **state)
{
    (void)state;
    static struct tern_model made;
    world_init(&world);
    tern_model_clear(&made);
    add(&made, "frozen", FROZEN, TERN_RULE_SKIP);
    add(&made, "head", LOCAL, TERN_RULE_LOCAL);
    add(&made, "mean", DENSE, TERN_RULE_DENSE);
    add(&made, "weight", CODED - LOCAL, TERN_RULE_COMPRESS);
    world_bring_model(&world, &made);
    return 0;
}

#define LOCAL_TEST(name) CASE_WITH(name, set_up_local, tear_down)

LOCAL_TEST(local_values_are_kept_and_never_sent)
{
    struct tern_client_event event;
    float expected[LOCAL];
    uint32_t first = 0;
    assert_int_equal(tern_model_local(&world.model, &first), LOCAL);
    assert_int_equal(first, FIRST_LOCAL);
    assert_int_equal(tern_model_trained(&world.model), WORLD_VALUES - FROZEN);
    boot();
    assert_false(tern_client_is_personal(&world.client));
    memcpy(expected, world.server.weights + FIRST_LOCAL, sizeof expected);
    for (int round = 0; round < 4; round++) {
        world.server.codec = round == 2 ? "float32" : "3lc:s=1.75";
        run_until(TERN_EVENT_UPLOADED, &event);
        assert_int_equal(event.result, TERN_OK);
        for (int i = 0; i < LOCAL; i++) {
            expected[i] += world.change[FIRST_LOCAL + i];
            assert_true(world.weights[FIRST_LOCAL + i] == expected[i]);
            assert_true(world.server.applied[FIRST_LOCAL + i] == 0.0F);
        }
        // The next training begins where this one ended, also after the power was away.
        boot();
        assert_true(tern_client_is_personal(&world.client));
        assert_memory_equal(world.weights + FIRST_LOCAL, expected, sizeof expected);
    }
}

// A snapshot has those of version 0.
LOCAL_TEST(snapshots_leave_local_values_alone)
{
    struct tern_client_event event;
    float expected[LOCAL];
    boot();
    run_until(TERN_EVENT_UPLOADED, &event);
    memcpy(expected, world.weights + FIRST_LOCAL, sizeof expected);
    assert_memory_not_equal(expected, world.server.weights + FIRST_LOCAL, sizeof expected);
    world.server.snapshots = true;
    run_until(TERN_EVENT_DOWNLOADED, &event);
    assert_memory_equal(world.weights + FIRST_LOCAL, expected, sizeof expected);
    run_until(TERN_EVENT_TRAINED, &event);
    world_check_replica(&world);
    assert_memory_equal(world.start + FIRST_LOCAL, expected, sizeof expected);
}

// What an update was answered changes nothing of them; what was not saved does not count.
LOCAL_TEST(late_updates_keep_local_values)
{
    struct tern_client_event event;
    float expected[LOCAL];
    boot();
    world.server.faults[2] = FAULT_LATE;
    run_until(TERN_EVENT_UPLOADED, &event);
    assert_int_equal(event.result, TERN_ERR_LATE);
    for (int i = 0; i < LOCAL; i++) {
        expected[i] = world.server.weights[FIRST_LOCAL + i] + world.change[FIRST_LOCAL + i];
    }
    assert_memory_equal(world.weights + FIRST_LOCAL, expected, sizeof expected);
    run_until(TERN_EVENT_TRAINED, &event);
    boot(); // before it was encoded
    assert_memory_equal(world.weights + FIRST_LOCAL, expected, sizeof expected);
    world.train_diverges = true;
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_NON_FINITE);
    assert_memory_equal(world.weights + FIRST_LOCAL, expected, sizeof expected);
}

LOCAL_TEST(without_room_for_local_values_it_does_not_start)
{
    boot();
    struct tern_client_workspace workspace = world.client.work;
    workspace.local = NULL;
    assert_int_equal(tern_client_restore(&world.client, &workspace), TERN_ERR_ARGUMENT);
}

TEST(momentum_leaves_dense_values_alone)
{
    struct tern_client_event event;
    boot();
    world.inexact = true;
    world.server.codec = "dgc:p=0.1,momentum=0.5";
    float sum[WORLD_VALUES] = {0};
    for (int round = 0; round < 3; round++) {
        run_until(TERN_EVENT_UPLOADED, &event);
        assert_int_equal(event.result, TERN_OK);
        for (int i = CODED; i < WORLD_VALUES; i++) {
            sum[i] += i < CODED + DENSE ? world.change[i] : 0.0F;
            assert_true(world.velocity[i] == 0.0F && world.server.applied[i] == sum[i]);
        }
    }
}
