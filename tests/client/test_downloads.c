// Downloads: chains, snapshots, cut connections, and blobs that must not be taken.

#include <string.h>

#include "client/harness/one_world.h"
#include "tests/cases.h"

static int set_up(void **state)
{
    (void)state;
    world_init(&world);
    return world_boot(&world) == TERN_OK ? 0 : -1;
}

#define TEST(name) CASE_WITH(name, set_up, tear_down)

TEST(chain_of_deltas_is_applied_in_order)
{
    commit(5);
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world_count_events(&world, TERN_EVENT_DOWNLOADED), 5);
    assert_memory_equal(world.server.last_update.base.bytes, world.server.replica_of[5],
                        TERN_WIRE_REPLICA_BYTES);
    assert_int_equal(world.store.writes, 1 + 1 + 1 + 1 + 1); // identity, replica once, upload,
                                                             // settled, meter
    world_check_replica(&world);
}

TEST(snapshot_replaces_the_weights)
{
    commit(5);
    world.server.snapshots = true;
    run_until(TERN_EVENT_TRAINED, NULL);
    assert_int_equal(world_count_events(&world, TERN_EVENT_DOWNLOADED), 1);
    assert_int_equal(tern_client_version(&world.client), 5);
    world_check_replica(&world);
}

TEST(cut_download_goes_on_where_it_was_cut)
{
    commit(1);
    const size_t len = world.server.downloads[0].len;
    for (size_t at = 0; at < len; at += at < 64 || at + 64 > len ? 1 : 37) {
        for (int i = TERN_RECORD_REPLICA; i < TERN_RECORD_COUNT; i++) {
            world.store.records[i].saved = false;
        }
        assert_int_equal(world_boot(&world), TERN_OK);
        world.event_count = 0;
        world.cut_download_at = at;
        world.last_range = SIZE_MAX;
        run_until(TERN_EVENT_DOWNLOADED, NULL);
        assert_int_equal(world.last_range, at);
        assert_int_equal(world_count_events(&world, TERN_EVENT_FAILURE), 1);
        world_check_replica(&world);
    }
}

TEST(whole_blob_where_the_rest_was_asked_for_is_fetched_anew)
{
    commit(1);
    world.cut_download_at = 100;
    world.ignore_range = true;
    run_until(TERN_EVENT_DOWNLOADED, NULL);
    assert_int_equal(world.last_range, 0);
    world_check_replica(&world);
}

TEST(download_survives_a_busy_aggregator)
{
    commit(1);
    run_until(TERN_EVENT_TASK, NULL);
    world.down = true;
    run_until(TERN_EVENT_FAILURE, NULL);
    world.down = false;
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world.server.checkins, 1);
}

TEST(download_is_given_up_when_the_window_has_passed)
{
    commit(1);
    world.server.window_ms = 10000;
    run_until(TERN_EVENT_TASK, NULL);
    world.down = true;
    for (int i = 0; i < 8; i++) {
        run_until(TERN_EVENT_FAILURE, NULL);
    }
    world.down = false;
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_true(world.server.checkins > 1);
}

// --- Downloads that come with the task

TEST(inline_downloads_are_applied_in_order)
{
    world.server.inlines = true;
    commit(3);
    const size_t enrolled = world.exchanges;
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world.exchanges - enrolled, 2); // the check-in and the update
    assert_int_equal(world_count_events(&world, TERN_EVENT_DOWNLOADED), 3);
    assert_memory_equal(world.server.last_update.base.bytes, world.server.replica_of[3],
                        TERN_WIRE_REPLICA_BYTES);
    const struct tern_meter *round = tern_client_meter_round(&world.client);
    assert_true(round->bytes[TERN_PURPOSE_CHECKIN][TERN_DOWN].payload > 3 * 4 * WORLD_VALUES);
    assert_int_equal(round->bytes[TERN_PURPOSE_DOWNLOAD][TERN_DOWN].payload, 0);
    world_check_replica(&world);
    run_until(TERN_EVENT_FINISHED, NULL);
    world_check_conservation(&world);
}

// The aggregator repeats the task, with the downloads for what is held by then.
TEST(lost_task_comes_again_with_its_downloads)
{
    world.server.inlines = true;
    commit(2);
    world.cut_exchange_at = world.exchanges + 1;
    (void)world_run_until(&world, TERN_EVENT_TASK, NULL);
    assert_int_equal(world_boot(&world), TERN_OK);
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world.server.checkins, 2);
    world_check_replica(&world);
    world_check_conservation(&world);
}

TEST(large_downloads_keep_their_names)
{
    world.server.inlines = true;
    world.blob_size = 8 * 1024 + 512;
    assert_int_equal(world_boot(&world), TERN_OK);
    commit(4); // of 2.4 KB each
    run_until(TERN_EVENT_TASK, NULL);
    assert_int_equal(world.server.last_checkin.inline_kib, 8);
    assert_int_equal(world.client.task.downloads[0].sha256.size, TERN_SHA256_SIZE);
}

static void flip_inline(struct world *w, const struct tern_request *request,
                        struct tern_response *response)
{
    if (request->purpose == TERN_PURPOSE_CHECKIN && response->body_len > 2000) {
        response->body[response->body_len - 100] ^= 1;
        w->damage_seed++;
    }
}

static void check_refused(enum tern_result why);

TEST(damaged_inline_download_is_refused_by_the_base)
{
    world.server.inlines = true;
    commit(2);
    world.damage = flip_inline;
    check_refused(TERN_ERR_WRONG_REPLICA);
    world.damage = NULL;
    run_until(TERN_EVENT_TRAINED, NULL);
    world_check_replica(&world);
}

// --- Blobs that must not be taken

static void check_refused(enum tern_result why)
{
    struct tern_client_event event;
    float before[WORLD_VALUES];
    memcpy(before, world.weights, sizeof before);
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, why);
    assert_memory_equal(before, world.weights, sizeof before);
    assert_int_equal(tern_client_version(&world.client), 0);
    assert_memory_equal(tern_client_replica(&world.client), world.server.replica_of[0],
                        TERN_SHA256_SIZE);
    assert_int_equal(world.trainings, 0);
}

static void flip(struct world *w, const struct tern_request *request,
                 struct tern_response *response)
{
    if (request->purpose == TERN_PURPOSE_DOWNLOAD && response->body_len > 0) {
        response->body[response->body_len / 2] ^= 1;
        w->damage_seed++;
    }
}

TEST(damaged_blob_is_refused_by_its_hash)
{
    commit(1);
    world.damage = flip;
    check_refused(TERN_ERR_CORRUPT);
    world.damage = NULL;
    run_until(TERN_EVENT_DOWNLOADED, NULL);
    world_check_replica(&world);
}

static void short_blob(struct world *w, const struct tern_request *request,
                       struct tern_response *response)
{
    (void)w;
    if (request->purpose == TERN_PURPOSE_DOWNLOAD && response->body_len > 0) {
        response->body_len--;
    }
}

TEST(short_blob_is_refused)
{
    commit(1);
    world.damage = short_blob;
    check_refused(TERN_ERR_CORRUPT);
}

static tern_Download honest(void)
{
    tern_Download message = tern_Download_init_zero;
    message.version = 1;
    message.from.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(message.from.bytes, world.server.replica_of[0], TERN_WIRE_REPLICA_BYTES);
    return message;
}

static void redo(tern_Download *message, float value)
{
    const struct tern_codec codec = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0f};
    static uint8_t container[WORLD_BLOB];
    float values[WORLD_VALUES] = {value};
    size_t len = 0;
    assert_int_equal(tern_container_encode(&codec, NULL, &world.model, values, container,
                                           sizeof container, &len),
                     TERN_OK);
    fake_server_redo_download(&world.server, 0, message, (struct tern_span){container, len});
}

TEST(blob_for_another_replica_is_refused)
{
    commit(1);
    tern_Download message = honest();
    message.from.bytes[0] ^= 1;
    redo(&message, 1.0f);
    check_refused(TERN_ERR_WRONG_REPLICA);
}

TEST(blob_of_another_model_is_refused)
{
    commit(1);
    tern_Download message = {.kind = tern_DownloadKind_DOWNLOAD_SNAPSHOT, .version = 1};
    message.to.size = message.model_hash.size = TERN_SHA256_SIZE;
    memcpy(message.to.bytes, world.server.replica_of[1], TERN_SHA256_SIZE);
    memcpy(message.model_hash.bytes, world.model.hash, TERN_SHA256_SIZE);
    message.model_hash.bytes[0] ^= 1;
    redo(&message, 1.0f);
    check_refused(TERN_ERR_MODEL_MISMATCH);
}

TEST(blob_that_overflows_the_weights_is_refused)
{
    tern_Download message = honest();
    commit(1);
    world.weights[0] = 3e38f;
    redo(&message, 3e38f);
    check_refused(TERN_ERR_NON_FINITE);
}

// --- Deltas from the seed's replica

// Version 3, which the client holds, is followed by one that is made from the seed: values[i].
static void follow_from_seed(float values[WORLD_VALUES])
{
    const struct tern_codec codec = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0f};
    static uint8_t container[WORLD_BLOB];
    struct fake_server *server = &world.server;
    size_t len = 0;
    commit(3);
    run_until(TERN_EVENT_TRAINED, NULL);
    assert_int_equal(tern_client_version(&world.client), 3);
    run_until(TERN_EVENT_UPLOADED, NULL);
    const uint32_t version = server->version;
    tern_Download message = honest();
    message.version = version;
    tern_model_init_weights(&world.model, server->seed, server->weights);
    assert_int_equal(tern_container_encode(&codec, NULL, &world.model, values, container,
                                           sizeof container, &len),
                     TERN_OK);
    fake_server_redo_download(server, version - 1, &message, (struct tern_span){container, len});
    tern_replica_step(server->replica_of[0], server->downloads[version - 1].sha256,
                      server->replica_of[version]);
    memcpy(server->replica, server->replica_of[version], TERN_SHA256_SIZE);
    assert_int_equal(tern_container_accumulate(&world.model, container, len, 1.0f, server->weights),
                     TERN_OK);
}

TEST(delta_from_the_seed_is_taken_whatever_is_held)
{
    float values[WORLD_VALUES] = {0.5f, -0.25f, 3.0f};
    follow_from_seed(values);
    run_until(TERN_EVENT_TRAINED, NULL);
    assert_true(world.server.last_checkin.from_seed);
    assert_int_equal(tern_client_version(&world.client), world.server.version);
    assert_memory_equal(tern_client_replica(&world.client), world.server.replica, TERN_SHA256_SIZE);
    assert_memory_equal(world.weights, world.server.weights, sizeof world.weights);
    world_check_conservation(&world);
}

TEST(delta_from_the_seed_that_overflows_leaves_what_is_held)
{
    struct tern_client_event event;
    float values[WORLD_VALUES] = {0.5f, 3e38f};
    float before[WORLD_VALUES];
    follow_from_seed(values);
    memcpy(before, world.weights, sizeof before);
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_NON_FINITE);
    assert_memory_equal(before, world.weights, sizeof before);
    assert_int_equal(tern_client_version(&world.client), 3);
    assert_memory_equal(tern_client_replica(&world.client), world.server.replica_of[3],
                        TERN_SHA256_SIZE);
}

TEST(chain_that_misses_the_base_does_not_train)
{
    struct tern_client_event event;
    commit(1);
    tern_Download message = honest();
    message.version = 9;
    redo(&message, 0.5f);
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_WRONG_REPLICA);
    assert_int_equal(world.trainings, 0);
}

// --- Hostile answers

static void mutate(struct world *w, const struct tern_request *request,
                   struct tern_response *response)
{
    struct tern_prng rng;
    tern_prng_init(&rng, 99, TERN_PRNG_TEST, ++w->damage_seed, 0);
    if (request->purpose == TERN_PURPOSE_ENROLL || response->body_len == 0 ||
        tern_prng_below(&rng, 4) == 0) {
        return;
    }
    const uint32_t flips = 1 + tern_prng_below(&rng, 4);
    for (uint32_t i = 0; i < flips; i++) {
        response->body[tern_prng_below(&rng, (uint32_t)response->body_len)] =
            (uint8_t)tern_prng_u32(&rng);
    }
    if (tern_prng_below(&rng, 4) == 0) {
        response->body_len = tern_prng_below(&rng, (uint32_t)response->body_len);
    }
}

// Whatever the answers are, the replica stays one that really was and conservation holds.
static void live_with_mutated_answers(bool inlines)
{
    world.server.inlines = inlines;
    world.server.target = WORLD_ROUNDS - 1;
    world.server.next_in_reply = true;
    world.damage = mutate;
    for (int i = 0; i < 6000; i++) {
        const enum tern_result result = tern_client_step(&world.client);
        if (result != TERN_OK && result != TERN_AGAIN) {
            assert_int_equal(world_boot(&world), TERN_OK);
        }
        if (tern_client_phase(&world.client) == TERN_PHASE_FINISHED) {
            assert_int_equal(world_boot(&world), TERN_OK); // or so a mutated answer said
        }
        world.now_ms += tern_client_next_ms(&world.client);
    }
    world_check_replica(&world);
    world_check_conservation(&world);
    assert_true(world.server.accepted_count > 10);
}

TEST(mutated_answers_change_nothing_they_should_not)
{
    live_with_mutated_answers(false);
}

TEST(mutated_inline_downloads_change_nothing_either)
{
    live_with_mutated_answers(true);
}
