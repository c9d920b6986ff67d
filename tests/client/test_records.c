// Restarts: what the records bring back, and what damaged ones lead to.

#include <stdlib.h>
#include <string.h>

#include "client/harness/one_world.h"
#include "core.h"
#include "tests/cases.h"
#include "util/bytes.h"

static int set_up(void **state)
{
    (void)state;
    world_init(&world);
    return world_boot(&world) == TERN_OK ? 0 : -1;
}

#define TEST(name) CASE_WITH(name, set_up, tear_down)

TEST(restart_brings_everything_back)
{
    float weights[WORLD_VALUES];
    float buffer[WORLD_VALUES];
    for (int i = 0; i < 3; i++) {
        run_until(TERN_EVENT_UPLOADED, NULL);
    }
    const uint32_t version = tern_client_version(&world.client);
    const uint32_t generation = world.client.generation;
    const struct tern_meter meter = *tern_client_meter_all(&world.client);
    memcpy(weights, world.weights, sizeof weights);
    memcpy(buffer, world.error_buffer, sizeof buffer);
    boot();
    assert_int_equal(tern_client_version(&world.client), version);
    assert_int_equal(world.client.generation, generation);
    assert_int_equal(world.client.sequence, 3);
    assert_memory_equal(&meter, tern_client_meter_all(&world.client), sizeof meter);
    assert_memory_equal(weights, world.weights, sizeof weights);
    assert_memory_equal(buffer, world.error_buffer, sizeof buffer);
    assert_int_equal(tern_client_identity(&world.client)->client_id, 3);
    assert_int_equal(world_count_events(&world, TERN_EVENT_STARTED_OVER), 0);
    run_until(TERN_EVENT_FINISHED, NULL);
    world_check_conservation(&world);
}

TEST(restart_sends_the_same_bytes_first)
{
    uint8_t bytes[WORLD_BLOB];
    run_until(TERN_EVENT_ENCODED, NULL);
    const struct tern_client_pending pending = *tern_client_pending(&world.client);
    memcpy(bytes, tern_client_update(&world.client), pending.len);
    boot();
    assert_int_equal(tern_client_phase(&world.client), TERN_PHASE_UPLOAD);
    assert_memory_equal(&pending, tern_client_pending(&world.client), sizeof pending);
    assert_memory_equal(bytes, tern_client_update(&world.client), pending.len);
    const size_t checkins = world.server.checkins;
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world.server.checkins, checkins);
    world_check_conservation(&world);
}

// The bytes that go out are those of a store that takes records as a whole, and of an update no more
// than one segment is in the blob.
TEST(an_update_in_pieces_is_the_same)
{
    uint8_t bytes[WORLD_BLOB];
    struct tern_codec codec;
    run_until(TERN_EVENT_TRAINED, NULL);
    memset(world.blob, 0xa5, sizeof world.blob);
    run_until(TERN_EVENT_ENCODED, NULL);
    const size_t len = tern_client_pending(&world.client)->len;
    assert_int_equal(world.store.drafts, 1);
    assert_int_equal(tern_codec_parse(world.client.task.codec, &codec, NULL), TERN_OK);
    const size_t piece = tern_container_piece_bound(&codec, &world.model);
    assert_true(piece < tern_container_bound(&codec, &world.model));
    memcpy(bytes, tern_client_update(&world.client), len);
    assert_ptr_not_equal(tern_client_update(&world.client), world.blob);
    for (size_t i = 0; i < world.blob_size - piece; i++) {
        assert_int_equal(world.blob[i], 0xa5);
    }
    world_free(&world);
    world_init(&world);
    world_save_at_once(&world);
    boot();
    run_until(TERN_EVENT_ENCODED, NULL);
    assert_int_equal(world.store.drafts, 0);
    assert_ptr_equal(tern_client_update(&world.client), world.blob);
    assert_int_equal(tern_client_pending(&world.client)->len, len);
    assert_memory_equal(world.blob, bytes, len);
}

// Wherever the room ends: the client stops, and its record is as it was.
TEST(a_store_that_fills_while_an_update_is_made_loses_nothing)
{
    bool fits = false;
    for (size_t room = 1; !fits; room += 97) {
        world_free(&world);
        world_init(&world);
        boot();
        run_until(TERN_EVENT_UPLOADED, NULL);
        world.store.full_from = room;
        world_run_until(&world, TERN_EVENT_UPLOADED, NULL);
        fits = tern_client_phase(&world.client) != TERN_PHASE_STOPPED;
        world.store.full_from = 0;
        if (!fits) {
            assert_int_equal(world.client.stopped_by, TERN_ERR_NO_SPACE);
            assert_null(world.store.draft.data);
            boot();
            assert_int_equal(tern_client_pending(&world.client)->len, 0);
            world_check_conservation(&world);
        }
        run_until(TERN_EVENT_FINISHED, NULL);
        world_check_conservation(&world);
    }
}

// Its change is taken back out of the pieces.
TEST(an_update_that_is_too_dear_leaves_no_pieces)
{
    for (int at_once = 0; at_once < 2; at_once++) {
        world_free(&world);
        world_init(&world);
        if (at_once) {
            world_save_at_once(&world);
        }
        world.wire_per_exchange = 64;
        boot();
        run_until(TERN_EVENT_TRAINED, NULL);
        world.client.config.budget_per_round = 1;
        run_until(TERN_EVENT_BUDGET, NULL);
        assert_int_equal(world.store.drafts, at_once ? 0 : 1);
        assert_null(world.store.draft.data);
        assert_int_equal(tern_client_pending(&world.client)->len, 0);
        world_check_conservation(&world);
        world.client.config.budget_per_round = 0;
        run_until(TERN_EVENT_FINISHED, NULL);
        world_check_conservation(&world);
    }
}

TEST(answered_update_is_not_sent_again)
{
    run_until(TERN_EVENT_UPLOADED, NULL);
    boot();
    assert_int_equal(tern_client_pending(&world.client)->len, 0);
    assert_int_equal(tern_client_phase(&world.client), TERN_PHASE_CHECKIN);
    run_until(TERN_EVENT_FINISHED, NULL);
    assert_int_equal(world.server.puts, 8);
}

TEST(given_back_update_is_not_sent_again)
{
    float buffer[WORLD_VALUES];
    world.server.faults[1] = FAULT_LATE;
    run_until(TERN_EVENT_UPLOADED, NULL);
    memcpy(buffer, world.error_buffer, sizeof buffer);
    boot();
    assert_int_equal(tern_client_pending(&world.client)->len, 0);
    assert_memory_equal(buffer, world.error_buffer, sizeof buffer);
    world_check_conservation(&world);
}

TEST(damaged_replica_starts_from_the_seed)
{
    struct tern_client_event event;
    run_until(TERN_EVENT_UPLOADED, NULL);
    run_until(TERN_EVENT_UPLOADED, NULL);
    world_damage_record(&world, TERN_RECORD_REPLICA);
    boot();
    event = world.events[world.event_count - 1];
    assert_int_equal(event.kind, TERN_EVENT_STARTED_OVER);
    assert_int_equal(event.result, TERN_ERR_CORRUPT);
    assert_int_equal(tern_client_version(&world.client), 0);
    run_until(TERN_EVENT_FINISHED, NULL);
    world_check_replica(&world);
    world_check_conservation(&world);
}

TEST(damaged_upload_record_starts_a_new_generation)
{
    struct tern_client_event event;
    run_until(TERN_EVENT_UPLOADED, NULL);
    const uint32_t generation = world.client.generation;
    world_damage_record(&world, TERN_RECORD_UPLOAD);
    boot();
    event = world.events[world.event_count - 1];
    assert_int_equal(event.kind, TERN_EVENT_STARTED_OVER);
    assert_int_not_equal(world.client.generation, generation);
    assert_int_equal(world.client.sequence, 0);
    for (int i = 0; i < WORLD_VALUES; i++) {
        assert_true(world.error_buffer[i] == 0.0f);
    }
    // The settled record speaks of the old generation and must not hide the new one's updates.
    run_until(TERN_EVENT_ENCODED, NULL);
    boot();
    assert_true(tern_client_pending(&world.client)->len > 0);
    run_until(TERN_EVENT_FINISHED, NULL);
    assert_int_equal(world.server.accepted_count, 8);
}

TEST(damaged_settled_record_costs_one_duplicate)
{
    struct tern_client_event event;
    run_until(TERN_EVENT_UPLOADED, NULL);
    world_damage_record(&world, TERN_RECORD_SETTLED);
    boot();
    run_until(TERN_EVENT_UPLOADED, &event);
    assert_true(event.duplicate);
    run_until(TERN_EVENT_FINISHED, NULL);
    assert_int_equal(world.server.accepted_count, 8);
    world_check_conservation(&world);
}

TEST(damaged_identity_asks_to_enrol_again)
{
    run_until(TERN_EVENT_UPLOADED, NULL);
    world_damage_record(&world, TERN_RECORD_IDENTITY);
    assert_int_equal(world_boot(&world), TERN_ERR_CORRUPT);
}

TEST(damaged_meter_counts_from_zero)
{
    run_until(TERN_EVENT_UPLOADED, NULL);
    world_damage_record(&world, TERN_RECORD_METER);
    boot();
    assert_int_equal(world_count_events(&world, TERN_EVENT_STARTED_OVER), 1);
    run_until(TERN_EVENT_UPLOADED, NULL);
}

// In a meter's record: the number of purposes, then the eight counters of other purposes and of each purpose.
#define PURPOSES_AT 40
#define ENTRY (8 * 8)
#define HEAD (PURPOSES_AT + 8 + ENTRY)

static struct tern_bytes all_counted(void)
{
    struct tern_bytes sum = {0};
    for (int d = 0; d < TERN_DIRECTION_COUNT; d++) {
        const struct tern_bytes known =
            tern_meter_total(tern_client_meter_all(&world.client), (enum tern_direction)d);
        tern_bytes_add(&sum, &known);
        tern_bytes_add(&sum, &tern_client_meter_other(&world.client)[d]);
    }
    return sum;
}

// Cuts or extends the meter's record to `purposes` entries; a new entry has counted 4000 bytes.
static void write_purposes(uint32_t purposes)
{
    struct fake_record *record = &world.store.records[TERN_RECORD_METER];
    const size_t len = HEAD + (size_t)purposes * ENTRY;
    const size_t had = HEAD + (size_t)tern_get_le32(record->data + PURPOSES_AT) * ENTRY;
    assert_non_null(record->data = realloc(record->data, len));
    for (size_t at = had; at < len; at += ENTRY) {
        memset(record->data + at, 0, ENTRY);
        tern_put_le64(record->data + at + 3 * 8, 4000); // up, on the wire
    }
    tern_put_le32(record->data + PURPOSES_AT, purposes);
    record->len = len;
}

// A later build that has two purposes more wrote the record.
TEST(meter_of_more_purposes_is_kept_whole)
{
    world.config.budget_per_month = 1000000;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    const uint32_t purposes =
        tern_get_le32(world.store.records[TERN_RECORD_METER].data + PURPOSES_AT);
    write_purposes(purposes + 2);
    boot();
    const struct tern_meter meter = *tern_client_meter_all(&world.client);
    const uint64_t spent = tern_client_budget(&world.client)->month_spent;
    const uint64_t wire = all_counted().wire;
    assert_int_equal(tern_client_meter_other(&world.client)[TERN_UP].wire, 8000);
    assert_int_equal(tern_meter_total(&meter, TERN_UP).wire +
                         tern_meter_total(&meter, TERN_DOWN).wire + 8000,
                     wire);
    assert_true(spent >= wire - 8000);
    for (int i = 0; i < 3; i++) { // this build's own records keep it
        assert_int_equal(tern_client_save_meter(&world.client), TERN_OK);
        boot();
        assert_int_equal(all_counted().wire, wire);
        assert_memory_equal(&meter, tern_client_meter_all(&world.client), sizeof meter);
        assert_int_equal(tern_client_budget(&world.client)->month_spent, spent);
    }
    assert_int_equal(world_count_events(&world, TERN_EVENT_STARTED_OVER), 0);
}

// An older build that had only the first of them wrote it.
TEST(meter_of_fewer_purposes_is_read)
{
    world.config.budget_per_month = 1000000;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    const struct tern_meter before = *tern_client_meter_all(&world.client);
    assert_int_equal(tern_client_end(&world.client), TERN_OK);
    const uint64_t spent = tern_client_budget(&world.client)->month_spent;
    write_purposes(TERN_PURPOSE_CHECKIN + 1);
    boot();
    const struct tern_meter *after = tern_client_meter_all(&world.client);
    assert_true(spent > 0);
    assert_int_equal(tern_client_budget(&world.client)->month_spent, spent);
    assert_memory_equal(after->bytes[TERN_PURPOSE_CHECKIN], before.bytes[TERN_PURPOSE_CHECKIN],
                        sizeof before.bytes[0]);
    assert_int_equal(after->bytes[TERN_PURPOSE_UPLOAD][TERN_UP].wire, 0);
    assert_int_equal(world_count_events(&world, TERN_EVENT_STARTED_OVER), 0);
}

TEST(what_a_later_build_adds_is_passed_over)
{
    static const enum tern_record kept[] = {TERN_RECORD_IDENTITY, TERN_RECORD_METER};
    run_until(TERN_EVENT_UPLOADED, NULL);
    const struct tern_client_identity identity = *tern_client_identity(&world.client);
    const uint64_t wire = all_counted().wire;
    for (size_t i = 0; i < 2; i++) {
        struct fake_record *record = &world.store.records[kept[i]];
        assert_non_null(record->data = realloc(record->data, record->len + 12));
        memset(record->data + record->len, 0x5a, 12);
        record->len += 12;
    }
    boot();
    assert_memory_equal(&identity, tern_client_identity(&world.client), sizeof identity);
    assert_int_equal(all_counted().wire, wire);
    assert_int_equal(world_count_events(&world, TERN_EVENT_STARTED_OVER), 0);
}

// Every record cut short at every length is refused or unused, and never read beyond its end.
TEST(records_cut_short_are_not_believed)
{
    run_until(TERN_EVENT_UPLOADED, NULL);
    run_until(TERN_EVENT_ENCODED, NULL);
    struct fake_record *identity = &world.store.records[TERN_RECORD_IDENTITY];
    const size_t identity_len = identity->len;
    while (identity->len-- > 0) {
        assert_int_equal(world_boot(&world), TERN_ERR_CORRUPT);
    }
    identity->len = identity_len;
    for (int r = TERN_RECORD_REPLICA; r < TERN_RECORD_COUNT; r++) {
        struct fake_record *record = &world.store.records[r];
        const size_t whole = record->len;
        for (size_t len = 0; len < whole; len += len < 80 ? 1 : 61) {
            record->len = len;
            boot();
            world.event_count = 0;
        }
        record->len = whole;
    }
    boot();
    run_until(TERN_EVENT_FINISHED, NULL);
    world_check_conservation(&world);
}

TEST(records_of_a_former_enrolment_are_not_used)
{
    run_until(TERN_EVENT_UPLOADED, NULL);
    run_until(TERN_EVENT_ENCODED, NULL);
    world.client.identity.client_id = 4; // as another enrolment would name it
    world.client.identified = true;
    const struct tern_client_workspace workspace = world.client.work;
    assert_int_equal(tern_client_restore(&world.client, &workspace), TERN_OK);
    assert_int_equal(world_count_events(&world, TERN_EVENT_STARTED_OVER), 2);
    assert_int_equal(tern_client_version(&world.client), 0);
    assert_int_equal(tern_client_pending(&world.client)->len, 0);
}

static bool builds_nothing(void *ctx, const char *spec, const uint8_t *hash)
{
    (void)ctx;
    assert_string_equal(spec, "test:608");
    assert_memory_equal(hash, world.model.hash, TERN_SHA256_SIZE);
    return false;
}

TEST(model_that_cannot_be_built_is_not_enrolled_for)
{
    world.client.config.builds_model = builds_nothing;
    const struct tern_client_identity before = *tern_client_identity(&world.client);
    const size_t writes = world.store.writes;
    assert_int_equal(tern_client_enroll(&world.client, "join-me"), TERN_ERR_MODEL_MISMATCH);
    assert_int_equal(world.store.writes, writes);
    assert_null(tern_client_identity(&world.client));
    boot(); // the former identity is still there
    assert_int_equal(tern_client_identity(&world.client)->client_id, before.client_id);
    assert_string_equal(tern_client_identity(&world.client)->token, before.token);
}

static struct tern_client_identity provisioned(void)
{
    struct tern_client_identity identity = *tern_client_identity(&world.client);
    identity.client_id = 77;
    strcpy(identity.token, "AAECAwQFBgcICQoLDA0ODw");
    return identity;
}

TEST(provisioned_identity_is_saved_without_a_request)
{
    const struct tern_client_identity identity = provisioned();
    const size_t exchanges = world.exchanges;
    assert_int_equal(tern_client_provision(&world.client, &identity), TERN_OK);
    assert_int_equal(world.exchanges, exchanges);
    assert_int_equal(tern_client_phase(&world.client), TERN_PHASE_NEW);
    boot();
    assert_int_equal(tern_client_identity(&world.client)->client_id, 77);
    assert_string_equal(tern_client_identity(&world.client)->token, identity.token);
    run_until(TERN_EVENT_UPLOADED, NULL);
    world_check_conservation(&world);
}

TEST(nonsense_is_not_provisioned)
{
    struct tern_client_identity bad[5];
    for (size_t i = 0; i < 5; i++) {
        bad[i] = provisioned();
    }
    bad[0].client_id = 0;
    strcpy(bad[1].token, "too-short");
    memset(bad[2].token, 'A', sizeof bad[2].token);
    bad[3].model_spec[0] = '\0';
    memset(bad[4].model_spec, 'x', sizeof bad[4].model_spec);
    const size_t writes = world.store.writes;
    const struct tern_client_identity before = *tern_client_identity(&world.client);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(tern_client_provision(&world.client, &bad[i]), TERN_ERR_ARGUMENT);
    }
    world.client.config.builds_model = builds_nothing;
    const struct tern_client_identity good = provisioned();
    assert_int_equal(tern_client_provision(&world.client, &good), TERN_ERR_MODEL_MISMATCH);
    assert_int_equal(world.store.writes, writes);
    world.client.config.builds_model = NULL;
    world.store.full = true;
    assert_int_equal(tern_client_provision(&world.client, &good), TERN_ERR_NO_SPACE);
    assert_memory_equal(&before, tern_client_identity(&world.client), sizeof before);
}
