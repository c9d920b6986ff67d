// A model that comes with a manifest: enrolling for it, fetching and keeping the manifest, starting
// from nothing, and what becomes of tensors that are dense or frozen.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/harness/one_world.h"
#include "tensor/manifest.h"

enum { CODED = 592, DENSE = 8, FROZEN = 8 };

static uint8_t got[TERN_MANIFEST_MAX];
static size_t got_len;

static void add(struct tern_model *model, const char *name, uint32_t count, enum tern_rule rule)
{
    assert_int_equal(tern_model_add_by_rule(model, name, &count, 1, rule), TERN_OK);
}

static bool builds_nothing(const char *spec, const uint8_t *hash)
{
    (void)spec;
    (void)hash;
    return false;
}

// The federation's first version is what its aggregator has; no seed makes it.
static int set_up(void **state)
{
    (void)state;
    static struct tern_model made;
    world_init(&world);
    struct fake_download *manifest = &world.server.manifest;
    tern_model_clear(&made);
    add(&made, "frozen", FROZEN, TERN_RULE_SKIP);
    add(&made, "mean", DENSE, TERN_RULE_DENSE);
    add(&made, "weight", CODED, TERN_RULE_COMPRESS);
    static uint8_t bytes[TERN_MANIFEST_MAX];
    const size_t len = tern_manifest_encode(&made, bytes);
    assert_int_equal(tern_model_from_manifest(&world.model, bytes, len), TERN_OK);
    assert_int_equal(world.model.count, WORLD_VALUES);
    fake_server_init(&world.server, &world.model);
    memcpy(manifest->blob, bytes, len);
    manifest->len = len;
    memcpy(manifest->sha256, world.model.hash, TERN_SHA256_SIZE);
    for (int i = 0; i < WORLD_VALUES; i++) {
        world.server.weights[i] = (float)(i % 5 - 2) / 4.0F;
    }
    memset(world.server.replica_of[0], 0, TERN_SHA256_SIZE); // who holds nothing is at version 0
    const float none[WORLD_VALUES] = {0};
    fake_server_commit(&world.server, none);
    world.server.snapshots = true;
    world.config.builds_model = builds_nothing;
    world.config.takes_manifests = true;
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

static void program_without_manifests_does_not_enrol(void **state)
{
    (void)state;
    world.config.takes_manifests = false;
    assert_int_equal(world_boot(&world), TERN_ERR_MODEL_MISMATCH);
    assert_false(world.store.records[TERN_RECORD_IDENTITY].saved);
}

static void model_of_neither_kind_is_refused(void **state)
{
    (void)state;
    world.server.manifest.len = 0;
    assert_int_equal(world_boot(&world), TERN_ERR_MODEL_MISMATCH);
}

static void provisioned_identity_may_come_with_a_manifest(void **state)
{
    (void)state;
    boot();
    struct tern_client_identity identity = *tern_client_identity(&world.client);
    identity.manifest = 0;
    assert_int_equal(tern_client_provision(&world.client, &identity), TERN_ERR_MODEL_MISMATCH);
    identity.manifest = 100;
    assert_int_equal(tern_client_provision(&world.client, &identity), TERN_OK);
}

static void manifest_is_fetched_once(void **state)
{
    (void)state;
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

static void fetching_may_take_turns(void **state)
{
    (void)state;
    world.say_again = true;
    boot();
    assert_int_equal(fetch(), TERN_OK);
    check_got();
}

static void damaged_record_is_fetched_again(void **state)
{
    (void)state;
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

static void other_bytes_are_refused(void **state)
{
    (void)state;
    boot();
    world.server.manifest.blob[7] ^= 1;
    assert_int_equal(fetch(), TERN_ERR_CORRUPT);
    assert_false(world.store.records[TERN_RECORD_MODEL].saved);
    world.server.manifest.blob[7] ^= 1;
    assert_int_equal(fetch(), TERN_OK);
}

static void aggregator_without_it_is_of_another_model(void **state)
{
    (void)state;
    boot();
    world.server.manifest.len = 0;
    assert_int_equal(fetch(), TERN_ERR_MODEL_MISMATCH);
    assert_false(world.store.records[TERN_RECORD_MODEL].saved);
}

static void without_a_network_it_is_tried_again(void **state)
{
    (void)state;
    boot();
    world.down = true;
    assert_int_equal(fetch(), TERN_ERR_NETWORK);
    world.down = false;
    assert_int_equal(fetch(), TERN_OK);
    check_got();
}

// --- Training

static void first_task_comes_with_a_snapshot(void **state)
{
    (void)state;
    boot();
    run_until(TERN_EVENT_TASK, NULL);
    assert_int_equal(world.server.last_checkin.replica.size, 0);
    run_until(TERN_EVENT_TRAINED, NULL);
    world_check_replica(&world);
    assert_int_equal(tern_client_version(&world.client), 1);
    boot();
    world_check_replica(&world); // from its record
    run_until(TERN_EVENT_TASK, NULL);
    assert_int_equal(world.server.last_checkin.replica.size, TERN_SHA256_SIZE);
}

static void frozen_and_dense_values_stay_out_of_the_buffer(void **state)
{
    (void)state;
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

static void late_update_gives_back_what_is_coded(void **state)
{
    (void)state;
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

static void momentum_leaves_dense_values_alone(void **state)
{
    (void)state;
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(program_without_manifests_does_not_enrol),
        TEST(model_of_neither_kind_is_refused),
        TEST(provisioned_identity_may_come_with_a_manifest),
        TEST(manifest_is_fetched_once),
        TEST(fetching_may_take_turns),
        TEST(damaged_record_is_fetched_again),
        TEST(other_bytes_are_refused),
        TEST(aggregator_without_it_is_of_another_model),
        TEST(without_a_network_it_is_tried_again),
        TEST(first_task_comes_with_a_snapshot),
        TEST(frozen_and_dense_values_stay_out_of_the_buffer),
        TEST(late_update_gives_back_what_is_coded),
        TEST(momentum_leaves_dense_values_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
