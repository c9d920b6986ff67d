// A client of a federation that scales columns by shared statistics: what it tells, what it takes and keeps, and
// what it does with what it cannot use.

#include <string.h>

#include "client/harness/one_world.h"
#include "tests/cases.h"

enum { COLUMNS = 4, EXAMPLES = 300 };

// The data, as a program would hold it.
static struct {
    uint32_t tag;
    uint8_t columns[COLUMNS * TERN_WIRE_COLUMN_BYTES];
    size_t scaled;
    size_t measured;
    enum tern_result measures_as;
} data;

static enum tern_result measure(void *ctx, uint8_t *columns, uint32_t *num_examples)
{
    (void)ctx;
    data.measured++;
    for (uint32_t i = 0; i < COLUMNS; i++) {
        tern_column_put(columns, i, (struct tern_column_pair){(float)i, 0.5F});
    }
    *num_examples = EXAMPLES;
    return data.measures_as;
}

static enum tern_result scale(void *ctx, uint32_t tag, const uint8_t *columns)
{
    (void)ctx;
    if (data.tag != 0) {
        return data.tag == tag ? TERN_OK : TERN_ERR_STATE;
    }
    data.tag = tag;
    data.scaled++;
    memcpy(data.columns, columns, sizeof data.columns);
    return TERN_OK;
}

static int set_up(void **state)
{
    (void)state;
    world_init(&world);
    memset(&data, 0, sizeof data);
    world.columns = (struct tern_column_port){.count = COLUMNS, .measure = measure, .scale = scale};
    return 0;
}

// As a process that is started anew reads its data again.
static void reboot(void)
{
    data.tag = 0;
    boot();
}

static void offer_scaling(uint32_t count, float deviation)
{
    struct fake_download *scaling = &world.server.scaling;
    const tern_Scaling message = {.clients = 3, .num_examples = 1000};
    uint8_t columns[8 * TERN_WIRE_COLUMN_BYTES];
    for (uint32_t i = 0; i < count; i++) {
        tern_column_put(columns, i, (struct tern_column_pair){(float)i, deviation});
    }
    const struct tern_span span = {columns, (size_t)count * TERN_WIRE_COLUMN_BYTES};
    assert_int_equal(tern_wire_encode_scaling(&message, span, scaling->blob, sizeof scaling->blob,
                                              &scaling->len),
                     TERN_OK);
    tern_sha256(scaling->blob, scaling->len, scaling->sha256);
    world.server.statistics = tern_StatisticsState_STATISTICS_NONE;
}

// --- Telling

#define TEST(name) CASE_WITH(name, set_up, tear_down)

TEST(statistics_are_told_once)
{
    struct tern_client_event event;
    tern_Statistics message;
    struct tern_span columns;
    world.server.statistics = tern_StatisticsState_STATISTICS_WANTED;
    boot();
    run_until(TERN_EVENT_STATISTICS, &event);
    assert_int_equal(event.num_examples, EXAMPLES);
    assert_int_equal(event.bytes, world.server.told_len);
    assert_int_equal(world.server.told_len, 3 + 2 + COLUMNS * TERN_WIRE_COLUMN_BYTES);
    assert_int_equal(
        tern_wire_decode_statistics(world.server.told, world.server.told_len, &message, &columns),
        TERN_OK);
    assert_int_equal(message.num_examples, EXAMPLES);
    assert_int_equal(columns.len, COLUMNS * TERN_WIRE_COLUMN_BYTES);
    assert_true(tern_column_get(columns, 3).mean == 3.0F);
    run_until(TERN_EVENT_WAITING, &event);
    assert_non_null(strstr(event.why, "other clients have sent the statistics"));
    assert_int_equal(world.server.told_times, 1);
    assert_int_equal(world.server.last_checkin.scaling, 0);
}

TEST(lost_request_is_sent_again)
{
    world.server.statistics = tern_StatisticsState_STATISTICS_WANTED;
    world.server.told_status = 503;
    boot();
    run_until(TERN_EVENT_FAILURE, NULL);
    world.server.told_status = 0;
    run_until(TERN_EVENT_STATISTICS, NULL);
    assert_int_equal(world.server.told_times, 2);
}

TEST(refusal_is_named)
{
    struct tern_client_event event;
    world.server.statistics = tern_StatisticsState_STATISTICS_WANTED;
    world.server.told_status = 422;
    boot();
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_MODEL_MISMATCH);
    assert_non_null(strstr(event.why, "did not accept"));
}

TEST(data_that_cannot_be_told_is_named)
{
    struct tern_client_event event;
    world.server.statistics = tern_StatisticsState_STATISTICS_WANTED;
    data.measures_as = TERN_ERR_NON_FINITE;
    boot();
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_NON_FINITE);
    assert_int_equal(world.server.told_times, 0);
    world.columns = (struct tern_column_port){0}; // images
    boot();
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_CONFIG);
    assert_non_null(strstr(event.why, "statistics.columns"));
    assert_int_equal(world.server.told_times, 0);
}

// The program decides: nothing that the network brings would change it.
TEST(data_that_is_not_to_be_scaled_ends_it)
{
    world.server.statistics = tern_StatisticsState_STATISTICS_WANTED;
    data.measures_as = TERN_ERR_CONFIG;
    boot();
    enum tern_result result = TERN_OK;
    for (int i = 0; i < 10 && (result == TERN_OK || result == TERN_AGAIN); i++) {
        result = tern_client_step(&world.client);
    }
    assert_int_equal(result, TERN_ERR_CONFIG);
    assert_int_equal(world.server.told_times, 0);
}

TEST(small_memory_is_named)
{
    struct tern_client_event event;
    world.server.statistics = tern_StatisticsState_STATISTICS_WANTED;
    world.columns.count = WORLD_BLOB / TERN_WIRE_COLUMN_BYTES;
    boot();
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_NO_SPACE);
    assert_int_equal(data.measured, 0);
}

// --- Taking

TEST(scaling_comes_before_the_first_task)
{
    struct tern_client_event event;
    offer_scaling(COLUMNS, 2.0F);
    boot();
    run_until(TERN_EVENT_SCALED, &event);
    assert_int_equal(event.bytes, world.server.scaling.len);
    assert_int_equal(data.scaled, 1);
    const struct tern_span columns = {data.columns, sizeof data.columns};
    assert_true(tern_column_get(columns, 2).mean == 2.0F);
    assert_true(tern_column_get(columns, 2).spread == 2.0F);
    assert_true(world.store.records[TERN_RECORD_SCALING].saved);
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world.server.last_checkin.scaling,
                     tern_scaling_tag(world.server.scaling.sha256));
    world_check_conservation(&world);
}

TEST(restart_does_not_fetch_it_again)
{
    offer_scaling(COLUMNS, 2.0F);
    boot();
    run_until(TERN_EVENT_SCALED, NULL);
    run_until(TERN_EVENT_UPLOADED, NULL);
    reboot();
    assert_int_equal(data.scaled, 2); // of data that was read anew
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world_count_events(&world, TERN_EVENT_SCALED), 1);
    boot(); // the client alone, over data that has it
    assert_int_equal(data.scaled, 2);
    run_until(TERN_EVENT_UPLOADED, NULL);
}

TEST(damaged_record_is_fetched_again)
{
    offer_scaling(COLUMNS, 2.0F);
    boot();
    run_until(TERN_EVENT_SCALED, NULL);
    world_damage_record(&world, TERN_RECORD_SCALING);
    reboot();
    assert_int_equal(data.scaled, 1);
    run_until(TERN_EVENT_SCALED, NULL);
    assert_int_equal(data.scaled, 2);
}

TEST(power_cut_before_it_is_saved_changes_nothing)
{
    offer_scaling(COLUMNS, 2.0F);
    boot();
    world.store.cut_at = world.store.writes + 1;
    assert_int_not_equal(world_run_until(&world, TERN_EVENT_SCALED, NULL), TERN_OK);
    assert_true(world.power_off);
    assert_int_equal(data.scaled, 0);
    world.store.cut_at = 0;
    reboot();
    run_until(TERN_EVENT_SCALED, NULL);
    assert_int_equal(data.scaled, 1);
}

TEST(scaling_of_other_columns_is_refused)
{
    struct tern_client_event event;
    const uint32_t others[] = {COLUMNS - 1, COLUMNS + 1};
    for (size_t i = 0; i < 2; i++) {
        offer_scaling(others[i], 2.0F);
        boot();
        run_until(TERN_EVENT_FAILURE, &event);
        assert_int_equal(event.result, TERN_ERR_MODEL_MISMATCH);
        assert_int_equal(data.scaled, 0);
        assert_false(world.store.records[TERN_RECORD_SCALING].saved);
    }
}

TEST(another_blob_than_named_is_refused)
{
    struct tern_client_event event;
    offer_scaling(COLUMNS, 2.0F);
    world.server.scaling.blob[world.server.scaling.len - 1] ^= 1;
    boot();
    run_until(TERN_EVENT_FAILURE, &event);
    assert_int_equal(event.result, TERN_ERR_CORRUPT);
    assert_int_equal(data.scaled, 0);
}

TEST(another_scaling_needs_a_restart)
{
    offer_scaling(COLUMNS, 2.0F);
    boot();
    run_until(TERN_EVENT_SCALED, NULL);
    offer_scaling(COLUMNS, 3.0F);
    assert_int_equal(world_run_until(&world, TERN_EVENT_SCALED, NULL), TERN_ERR_STATE);
    assert_int_equal(data.scaled, 1);
    reboot();
    const struct tern_span columns = {data.columns, sizeof data.columns};
    assert_true(tern_column_get(columns, 0).spread == 3.0F);
    run_until(TERN_EVENT_UPLOADED, NULL);
}

TEST(statistics_of_scaled_columns_are_not_told)
{
    offer_scaling(COLUMNS, 2.0F);
    boot();
    run_until(TERN_EVENT_SCALED, NULL);
    world.server.scaling.len = 0; // the aggregator's disk was replaced
    world.server.statistics = tern_StatisticsState_STATISTICS_WANTED;
    assert_int_equal(world_run_until(&world, TERN_EVENT_STATISTICS, NULL), TERN_ERR_STATE);
    assert_int_equal(world.server.told_times, 0);
    reboot();
    run_until(TERN_EVENT_STATISTICS, NULL);
    assert_int_equal(data.scaled, 1);
}

// The tag costs 6 bytes, so that one check-in after each start has it.
TEST(names_of_columns_are_told_once_a_start)
{
    world.columns.names = 0x01020304;
    boot();
    for (int start = 0; start < 2; start++) {
        run_until(TERN_EVENT_TASK, NULL);
        assert_int_equal(world.server.last_checkin.column_names, 0x01020304);
        run_until(TERN_EVENT_UPLOADED, NULL);
        run_until(TERN_EVENT_TASK, NULL);
        assert_int_equal(world.server.last_checkin.column_names, 0);
        reboot();
    }
}

TEST(other_names_are_reported_once)
{
    world.columns.names = 5;
    world.server.other_column_names = true;
    boot();
    run_until(TERN_EVENT_OTHER_COLUMNS, NULL);
    run_until(TERN_EVENT_FINISHED, NULL);
    assert_int_equal(world_count_events(&world, TERN_EVENT_OTHER_COLUMNS), 1);
}

TEST(programs_can_read_what_is_kept)
{
    uint8_t bytes[128];
    size_t len = 0;
    offer_scaling(COLUMNS, 2.0F);
    boot();
    assert_int_equal(tern_client_stored_scaling(&world.client, bytes, sizeof bytes, &len),
                     TERN_ERR_NOT_FOUND);
    run_until(TERN_EVENT_SCALED, NULL);
    assert_int_equal(tern_client_stored_scaling(&world.client, bytes, 10, &len), TERN_ERR_NO_SPACE);
    assert_int_equal(len, world.server.scaling.len);
    assert_int_equal(tern_client_stored_scaling(&world.client, bytes, sizeof bytes, &len), TERN_OK);
    assert_memory_equal(bytes, world.server.scaling.blob, len);
}
