// The error buffer in each of its storages, and what codecs keep beside it.
#include "util/bytes.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "client/harness/one_world.h"
#include "tests/cases.h"

// Where what an upload record is made of stands.
#define UPDATE_LEN_AT 24
#define STORAGE_AT 32
#define ROOM_AT 40
#define HEAD 48

// Behind the head, what nobody reads, and the update.
static size_t buffer_at(const struct fake_record *record)
{
    return HEAD + tern_get_le32(record->data + ROOM_AT) +
           tern_get_le32(record->data + UPDATE_LEN_AT);
}

static int set_up(void **state)
{
    (void)state;
    world_init(&world);
    return 0;
}

// The most that 9 rounds of changes within [-1, 1], stored twice or thrice each, may be off.
static double room_of(enum tern_error_storage storage)
{
    static const double rooms[] = {0, 9 * 3 * 4 * 0x1p-8, 9 * 3 * 4 / 253.0};
    return rooms[storage];
}

#define TEST(name) CASE_WITH(name, set_up, tear_down)

TEST(every_storage_survives_faults_and_restarts)
{
    for (int s = 0; s < 3; s++) {
        world_free(&world);
        world_init(&world);
        world.error_storage = (enum tern_error_storage)s;
        world.inexact = s != 0;
        world.server.target = 9;
        world.server.faults[2] = FAULT_LOSE_REPLY;
        world.server.faults[3] = FAULT_LATE;
        world.server.faults[5] = FAULT_REJECT;
        world.server.directives[4] = tern_ErrorDirective_ERROR_DECAY;
        world.server.directives[7] = tern_ErrorDirective_ERROR_RESET;
        boot();
        for (int i = 0; i < 6; i++) {
            float before[WORLD_VALUES];
            run_until(i % 2 == 0 ? TERN_EVENT_ENCODED : TERN_EVENT_UPLOADED, NULL);
            world_check_conservation_within(&world, room_of(world.error_storage));
            memcpy(before, world.error_buffer, sizeof before);
            memset(world.error_buffer, 0, sizeof world.error_buffer);
            boot();
            assert_memory_equal(before, world.error_buffer,
                                tern_error_storage_bytes(world.error_storage, WORLD_VALUES));
        }
        run_until(TERN_EVENT_FINISHED, NULL);
        assert_int_equal(world.server.version, 9);
        world_check_conservation_within(&world, room_of(world.error_storage));
        const struct fake_record *record = &world.store.records[TERN_RECORD_UPLOAD];
        assert_int_equal(tern_get_le32(record->data + STORAGE_AT), s);
        assert_int_equal(record->len, buffer_at(record) + tern_error_storage_bytes(
                                                              world.error_storage, WORLD_VALUES));
    }
}

// What the update says of the buffer is what the next check-in says, in every storage.
TEST(the_ledger_speaks_of_what_is_stored)
{
    world.error_storage = TERN_ERROR_INT8;
    world.inexact = true;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    const tern_ErrorFacts said = world.server.last_update.error;
    boot(); // else the aggregator was told
    run_until(TERN_EVENT_TASK, NULL);
    assert_true(said.norm > 0 && world.server.last_checkin.error.norm == said.norm);
    assert_true(world.server.last_checkin.error.maximum == said.maximum);
}

TEST(a_buffer_of_another_storage_is_converted)
{
    world.inexact = true;
    world.server.target = 12;
    boot();
    for (int i = 0; i < 9; i++) { // each storage after each other, with a pending update
        static const enum tern_error_storage order[] = {
            TERN_ERROR_BFLOAT16, TERN_ERROR_FLOAT32,  TERN_ERROR_INT8,
            TERN_ERROR_FLOAT32,  TERN_ERROR_INT8,     TERN_ERROR_BFLOAT16,
            TERN_ERROR_INT8,     TERN_ERROR_BFLOAT16, TERN_ERROR_FLOAT32,
        };
        float before[WORLD_VALUES];
        float after[WORLD_VALUES];
        float rounded[WORLD_VALUES];
        float bytes[WORLD_VALUES];
        run_until(TERN_EVENT_ENCODED, NULL);
        world_buffer(&world, before);
        const struct tern_client_pending pending = *tern_client_pending(&world.client);
        world.error_storage = order[i];
        boot();
        world_buffer(&world, after);
        tern_error_storage_put(order[i], before, 0, bytes, WORLD_VALUES);
        tern_error_storage_get(order[i], bytes, 0, rounded, WORLD_VALUES);
        assert_memory_equal(after, rounded, sizeof after);
        assert_memory_equal(&pending, tern_client_pending(&world.client), sizeof pending);
    }
    assert_int_equal(world_count_events(&world, TERN_EVENT_STARTED_OVER), 0);
    run_until(TERN_EVENT_UPLOADED, NULL);
    world_check_conservation_within(&world, 1);
}

TEST(a_small_blob_converts_in_parts)
{
    float before[WORLD_VALUES];
    float after[WORLD_VALUES];
    world.server.faults[1] = FAULT_LATE; // given back: the record holds no update
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    world_buffer(&world, before);
    world.error_storage = TERN_ERROR_BFLOAT16;
    world.blob_size = 700; // two blocks of float32
    boot();
    world_buffer(&world, after);
    for (int i = 0; i < WORLD_VALUES; i++) {
        const float off = after[i] - before[i];
        const float room = (before[i] < 0 ? -before[i] : before[i]) * 0x1p-8f;
        assert_true(off <= room && -off <= room);
    }
}

TEST(unknown_storage_and_damaged_values_start_over)
{
    for (int damage = 0; damage < 5; damage++) {
        world_free(&world);
        world_init(&world);
        world.error_storage = TERN_ERROR_INT8;
        world.inexact = true;
        boot();
        run_until(TERN_EVENT_UPLOADED, NULL);
        const struct fake_record *record = &world.store.records[TERN_RECORD_UPLOAD];
        uint8_t *data = record->data;
        switch (damage) {
        case 0:
            data[STORAGE_AT] = 3;
            break;
        case 1:
            data[STORAGE_AT] = TERN_ERROR_BFLOAT16; // the record is then not as long as it says
            break;
        case 2:
            data[STORAGE_AT + 4] = 2; // neither with nor without a velocity
            break;
        case 3:
            data[ROOM_AT + 3] = 1; // the update is not there
            break;
        default:
            memcpy(data + buffer_at(record), "\0\0\x80\x7f", 4); // an infinite scale
            break;
        }
        boot();
        const struct tern_client_event *event = &world.events[world.event_count - 1];
        assert_int_equal(event->kind, TERN_EVENT_STARTED_OVER);
        assert_int_equal(event->result, TERN_ERR_CORRUPT);
        const struct tern_error_buffer buffer = {TERN_ERROR_INT8, world.error_buffer, WORLD_VALUES};
        assert_true(tern_error_buffer_facts(&buffer).maximum == 0);
    }
}

TEST(failed_encoding_leaves_every_storage_alone)
{
    for (int s = 0; s < 3; s++) {
        float before[WORLD_VALUES];
        world_free(&world);
        world_init(&world);
        world.error_storage = (enum tern_error_storage)s;
        world.inexact = true;
        boot();
        run_until(TERN_EVENT_UPLOADED, NULL);
        memcpy(before, world.error_buffer, sizeof before);
        const size_t writes = world.store.writes;
        run_until(TERN_EVENT_TRAINED, NULL);
        world.trained[5] = 2e38f * 2;
        run_until(TERN_EVENT_FAILURE, NULL);
        assert_memory_equal(before, world.error_buffer, sizeof before);
        assert_int_equal(world.store.writes, writes + 1); // the replica's
        run_until(TERN_EVENT_FINISHED, NULL);
    }
}

// --- Codecs that keep more, or nothing

TEST(every_codec_is_used_and_conserves)
{
    const struct tern_codec_entry *entry = NULL;
    for (size_t i = 0; (entry = tern_codec_entry_at(i)) != NULL; i++) {
        world_free(&world);
        world_init(&world);
        world.inexact = true;
        world.server.codec = entry->name;
        world.server.faults[3] = FAULT_LATE;
        boot();
        run_until(TERN_EVENT_FINISHED, NULL);
        assert_int_equal(world.server.version, world.server.target);
        assert_int_equal(world_count_events(&world, TERN_EVENT_FAILURE), 0);
        if (entry->feedback == TERN_FEEDBACK_ERROR) {
            world_check_conservation_within(&world, 1e-4);
        }
        if (entry->feedback == TERN_FEEDBACK_NONE) {
            const struct tern_error_buffer buffer = {TERN_ERROR_FLOAT32, world.error_buffer,
                                                     WORLD_VALUES};
            assert_true(tern_error_buffer_facts(&buffer).maximum == 0);
        }
    }
}

TEST(codecs_with_momentum_need_memory_for_it)
{
    struct tern_client_event event;
    world.no_velocity = true;
    boot();
    run_until(TERN_EVENT_TASK, NULL);
    assert_int_equal(world.server.last_checkin.codecs >> TERN_CODEC_DGC & 1, 0);
    assert_int_equal(world.server.last_checkin.codecs >> TERN_CODEC_SPARSE & 1, 1);
    world.server.codec = "dgc";
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_NO_MEMORY);
    assert_non_null(strstr(event.why, "velocity"));
}

static bool record_has_velocity(void)
{
    const struct fake_record *record = &world.store.records[TERN_RECORD_UPLOAD];
    return tern_get_le32(record->data + STORAGE_AT + 4) == 1;
}

// u = mu u + x, cleared where it was sent; v takes the rest.
TEST(momentum_is_carried_and_survives_a_restart)
{
    float velocity[WORLD_VALUES];
    world.server.codec = "dgc:p=0.01,momentum=0.5,warmup=0";
    world.inexact = true;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    size_t cleared = 0;
    for (int i = 0; i < WORLD_VALUES; i++) {
        assert_true(world.velocity[i] == world.change[i] || world.velocity[i] == 0);
        assert_true(world.velocity[i] == world.error_buffer[i]);
        cleared += world.velocity[i] != world.change[i];
    }
    assert_int_equal(cleared, 6 + 1); // 1 % of 600 and of 8
    assert_true(record_has_velocity());
    memcpy(velocity, world.velocity, sizeof velocity);
    boot(); // wipes all memory
    assert_memory_equal(velocity, world.velocity, sizeof velocity);
    run_until(TERN_EVENT_ENCODED, NULL);
    for (int i = 0; i < WORLD_VALUES; i++) {
        const float moved = 0.5f * velocity[i] + world.change[i];
        assert_true(world.velocity[i] == moved || world.velocity[i] == 0);
    }
}

TEST(momentum_ends_with_the_generation_and_with_its_codec)
{
    world.server.codec = "dgc:p=0.01,momentum=0.5,warmup=0";
    world.server.directives[2] = tern_ErrorDirective_ERROR_RESET;
    world.inexact = true;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    run_until(TERN_EVENT_UPLOADED, NULL);
    for (int i = 0; i < WORLD_VALUES; i++) { // nothing of the first round is left
        assert_true(world.velocity[i] == world.change[i] || world.velocity[i] == 0);
    }
    world.server.codec = "3lc:s=1";
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_false(record_has_velocity());
    world.server.codec = "dgc:p=0.01,momentum=0.5,warmup=0";
    run_until(TERN_EVENT_UPLOADED, NULL);
    for (int i = 0; i < WORLD_VALUES; i++) {
        assert_true(world.velocity[i] == world.change[i] || world.velocity[i] == 0);
    }
}

// A directive takes as much from the velocity as from the error buffer.
TEST(decay_reaches_the_velocity)
{
    float velocity[WORLD_VALUES];
    world.server.codec = "dgc:p=0.01,momentum=0.5,warmup=0";
    world.server.directives[2] = tern_ErrorDirective_ERROR_DECAY; // by half
    world.inexact = true;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    memcpy(velocity, world.velocity, sizeof velocity);
    run_until(TERN_EVENT_ENCODED, NULL);
    for (int i = 0; i < WORLD_VALUES; i++) {
        const float moved = 0.25f * velocity[i] + world.change[i];
        const float held = 0.5f * velocity[i] + moved; // the buffer was the velocity so far
        assert_true(world.velocity[i] == moved || world.velocity[i] == 0);
        assert_true(world.error_buffer[i] == held || world.error_buffer[i] == 0);
    }
}

// A buffer that outweighs the change is scaled down to half of its norm, one that does not is kept.
static void check_limit(float outlier)
{
    float before[WORLD_VALUES];
    world_free(&world);
    world_init(&world);
    world.server.codec = "float32"; // what is encoded is what arrives
    world.server.directives[2] = tern_ErrorDirective_ERROR_LIMIT;
    world.inexact = true;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    run_until(TERN_EVENT_TRAINED, NULL);
    world.error_buffer[7] = outlier;
    memcpy(before, world.server.applied, sizeof before);
    run_until(TERN_EVENT_UPLOADED, NULL);
    double square = 0;
    for (int i = 0; i < WORLD_VALUES; i++) {
        square += (double)world.change[i] * (double)world.change[i];
    }
    const double most = 0.5 * sqrt(square);
    const double kept = (double)outlier > most ? most : (double)outlier;
    const tern_Update *update = &world.server.last_update; // says how much was kept
    assert_true(update->has_decay == (kept < (double)outlier));
    assert_true(!update->has_decay ||
                fabs((double)update->decay * (double)outlier - kept) < 1e-4 * kept);
    for (int i = 0; i < WORLD_VALUES; i++) {
        const double sum = (double)world.change[i] + (i == 7 ? kept : 0);
        assert_true(fabs((double)world.server.applied[i] - (double)before[i] - sum) < 1e-4);
    }
}

TEST(limit_scales_down_what_outweighs_the_change)
{
    check_limit(1000);
    check_limit(0x1p-6f);
}

TEST(failed_encoding_leaves_the_velocity_alone)
{
    float before[WORLD_VALUES];
    world.server.codec = "dgc:p=0.01,momentum=0.5,warmup=0";
    world.inexact = true;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    memcpy(before, world.velocity, sizeof before);
    run_until(TERN_EVENT_TRAINED, NULL);
    world.error_buffer[7] = 3e38f; // the velocity moves, and then the sum overflows
    world.trained[7] = 3e38f;
    run_until(TERN_EVENT_FAILURE, NULL);
    assert_memory_equal(before, world.velocity, sizeof before);
}

// With momentum a kept change holds the velocity's part of it: v + u.
TEST(kept_change_counts_once_with_every_feedback)
{
    static const char *const codecs[] = {"dgc:p=0.01,momentum=0,warmup=0",
                                         "scalecom:p=0.01,beta=0.5", "density:p=0.01"};
    for (int c = 0; c < 3; c++) {
        struct tern_client_event event;
        float before[WORLD_VALUES];
        world_free(&world);
        world_init(&world);
        world.server.codec = codecs[c];
        world.inexact = true;
        world.wire_per_exchange = 64;
        boot();
        run_until(TERN_EVENT_UPLOADED, NULL);
        memcpy(before, world.error_buffer, sizeof before);
        run_until(TERN_EVENT_TRAINED, NULL);
        world.client.config.budget_per_round =
            tern_meter_total(tern_client_meter_round(&world.client), TERN_UP).wire +
            tern_meter_total(tern_client_meter_round(&world.client), TERN_DOWN).wire + 50;
        run_until(TERN_EVENT_BUDGET, &event);
        assert_int_equal(tern_client_pending(&world.client)->len, 0);
        assert_int_equal(world.client.sequence, 1);
        for (int i = 0; i < WORLD_VALUES; i++) {
            const float off = world.error_buffer[i] - (before[i] + world.change[i]);
            assert_true(off < 1e-6f && off > -1e-6f);
        }
        world.client.config.budget_per_round = 0;
        run_until(TERN_EVENT_UPLOADED, NULL);
        assert_int_equal(world.trainings, 2);
    }
}

// m' = (1 - beta) m + beta (m + x - sent).
TEST(filtered_buffer_moves_by_beta)
{
    world.server.codec = "scalecom:p=0.01,beta=0.25";
    world.inexact = true;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    size_t sent = 0;
    for (int i = 0; i < WORLD_VALUES; i++) {
        const float rest = world.change[i] - world.server.applied[i];
        assert_true(world.error_buffer[i] == 0.25f * rest);
        sent += world.server.applied[i] != 0;
    }
    assert_int_equal(sent, 6 + 1);
}

// Steps to where training has begun; base and buffer as they are then.
static void begin_training(float base[WORLD_VALUES], float buffer[WORLD_VALUES])
{
    const size_t before = world.trainings;
    while (world.trainings == before) {
        assert_int_equal(tern_client_step(&world.client), TERN_OK);
    }
    memcpy(base, world.weights, sizeof world.weights);
    world_buffer(&world, buffer);
}

// The start is a quarter of the buffer ahead, and nothing is lost or counted twice, in no storage.
TEST(step_ahead_conserves_in_every_storage)
{
    for (int s = 0; s < 3; s++) {
        float base[WORLD_VALUES];
        float buffer[WORLD_VALUES];
        world_free(&world);
        world_init(&world);
        world.error_storage = (enum tern_error_storage)s;
        world.inexact = s != 0;
        world.server.target = 9;
        for (int round = 2; round <= 9; round++) {
            world.server.directives[round] = tern_ErrorDirective_ERROR_STEP_AHEAD;
        }
        world.server.directives[5] = tern_ErrorDirective_ERROR_DECAY;
        world.server.faults[3] = FAULT_LATE;
        world.server.faults[6] = FAULT_LOSE_REPLY;
        boot();
        run_until(TERN_EVENT_UPLOADED, NULL);
        run_until(TERN_EVENT_TASK, NULL);
        assert_true(world.server.last_checkin.abilities & TERN_WIRE_STEPS_AHEAD);
        begin_training(base, buffer);
        boot(); // the power was cut: the same again
        run_until(TERN_EVENT_TASK, NULL);
        begin_training(base, buffer);
        size_t moved = 0;
        for (int i = 0; i < WORLD_VALUES; i++) {
            assert_true(world.start[i] == base[i] + 0.25f * buffer[i]);
            moved += world.start[i] != base[i];
        }
        assert_true(moved > 50);
        run_until(TERN_EVENT_ENCODED, NULL);
        world_check_conservation_within(&world, room_of(world.error_storage));
        run_until(TERN_EVENT_FINISHED, NULL);
        assert_int_equal(world.server.version, 9);
        world_check_conservation_within(&world, room_of(world.error_storage));
    }
}

static void expect_no_step_ahead(void)
{
    float base[WORLD_VALUES];
    float buffer[WORLD_VALUES];
    world.server.directives[2] = tern_ErrorDirective_ERROR_STEP_AHEAD;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    run_until(TERN_EVENT_TASK, NULL);
    begin_training(base, buffer);
    assert_memory_equal(base, world.start, sizeof base);
    run_until(TERN_EVENT_UPLOADED, NULL);
    world_check_conservation_within(&world, world.inexact ? 1e-4 : 0);
}

TEST(trainer_that_ignores_the_step_ahead_conserves)
{
    world.ignores_ahead = true;
    expect_no_step_ahead();
}

// The velocity must not take the buffer up.
TEST(momentum_makes_no_step_ahead)
{
    world.server.codec = "dgc:p=0.01,momentum=0,warmup=0"; // without momentum the sums are plain
    world.inexact = true;
    expect_no_step_ahead();
}

// Where a share of the buffer and the replica are more than a float32 holds, training starts from the replica.
TEST(start_that_overflows_is_the_replica)
{
    float base[WORLD_VALUES];
    float buffer[WORLD_VALUES];
    world.server.directives[2] = tern_ErrorDirective_ERROR_STEP_AHEAD;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    run_until(TERN_EVENT_TASK, NULL);
    world.weights[WORLD_VALUES - 1] = FLT_MAX;
    world.error_buffer[WORLD_VALUES - 1] = FLT_MAX;
    begin_training(base, buffer);
    assert_memory_equal(base, world.start, sizeof base);
}

TEST(filtered_buffer_steps_ahead)
{
    float base[WORLD_VALUES];
    float old[WORLD_VALUES];
    float applied[WORLD_VALUES];
    world.server.codec = "scalecom:p=0.01,beta=0.25";
    world.server.directives[2] = tern_ErrorDirective_ERROR_STEP_AHEAD;
    world.inexact = true;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    memcpy(applied, world.server.applied, sizeof applied);
    run_until(TERN_EVENT_TASK, NULL);
    begin_training(base, old);
    run_until(TERN_EVENT_UPLOADED, NULL);
    for (int i = 0; i < WORLD_VALUES; i++) {
        const float rest = old[i] + world.change[i] - (world.server.applied[i] - applied[i]);
        const float expected = 0.75f * old[i] + 0.25f * rest;
        assert_float_equal(world.error_buffer[i], expected, 1e-5f);
    }
}

// A change that a budget holds back after a step ahead is the buffer and the local change, once.
TEST(kept_change_after_a_step_ahead_counts_once)
{
    struct tern_client_event event;
    float before[WORLD_VALUES];
    world.server.directives[2] = tern_ErrorDirective_ERROR_STEP_AHEAD;
    world.wire_per_exchange = 64;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    memcpy(before, world.error_buffer, sizeof before);
    run_until(TERN_EVENT_TRAINED, NULL);
    world.client.config.budget_per_round =
        tern_meter_total(tern_client_meter_round(&world.client), TERN_UP).wire +
        tern_meter_total(tern_client_meter_round(&world.client), TERN_DOWN).wire + 50;
    run_until(TERN_EVENT_BUDGET, &event);
    for (int i = 0; i < WORLD_VALUES; i++) {
        assert_true(world.error_buffer[i] == before[i] + world.change[i]);
    }
    world.client.config.budget_per_round = 0;
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world.trainings, 2);
    world_check_conservation(&world);
}
