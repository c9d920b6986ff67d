// Byte budgets per round and per month, counted on the wire, both ways.

#include <string.h>

#include "client/harness/one_world.h"
#include "tests/cases.h"

#define NOVEMBER 1700000000u // 2023-11-14
#define DECEMBER 1701388800u // 2023-12-01 00:00:00
#define HUGE_BUDGET (1u << 30)

static int set_up(void **state)
{
    (void)state;
    world_init(&world);
    world.wire_per_exchange = 500;
    world.server.target = WORLD_ROUNDS - 1;
    return 0;
}

static uint64_t wire(const struct tern_meter *meter)
{
    return tern_meter_total(meter, TERN_UP).wire + tern_meter_total(meter, TERN_DOWN).wire;
}

#define TEST(name) CASE_WITH(name, set_up, tear_down)

TEST(meter_counts_every_layer_and_purpose)
{
    struct tern_client_event uploaded;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    run_until(TERN_EVENT_UPLOADED, &uploaded);
    const struct tern_meter *round = tern_client_meter_round(&world.client);
    const struct tern_meter *all = tern_client_meter_all(&world.client);
    assert_true(round->bytes[TERN_PURPOSE_UPLOAD][TERN_UP].payload > 20);
    assert_true(round->bytes[TERN_PURPOSE_UPLOAD][TERN_UP].payload < uploaded.bytes);
    assert_true(round->bytes[TERN_PURPOSE_DOWNLOAD][TERN_DOWN].payload > 4 * WORLD_VALUES);
    assert_true(round->bytes[TERN_PURPOSE_CHECKIN][TERN_UP].wire > 250);
    assert_int_equal(uploaded.round_bytes, wire(round));
    assert_int_equal(all->bytes[TERN_PURPOSE_UPLOAD][TERN_UP].wire / 2 > uploaded.bytes, 1);
    assert_true(wire(all) > wire(round));
    assert_int_equal(tern_client_budget(&world.client)->rounds, 2);
    assert_int_equal(tern_client_budget(&world.client)->month_spent, wire(all));
}

TEST(round_that_is_too_dear_is_not_begun)
{
    struct tern_client_event event;
    const float change[WORLD_VALUES] = {0.5f};
    boot();
    fake_server_commit(&world.server, change);
    world.client.config.budget_per_round = 4000; // the download alone has 2.4 KB
    run_until(TERN_EVENT_BUDGET, &event);
    assert_true(event.bytes > 4000);
    assert_non_null(event.why);
    assert_int_equal(event.wait_ms, 3600000);
    assert_int_equal(world_count_events(&world, TERN_EVENT_DOWNLOADED), 0);
    assert_int_equal(world.server.last_checkin.budget_left, 4000);
    assert_true(world.server.last_checkin.budgeted);
}

TEST(round_within_its_budget_is_done)
{
    world.config.budget_per_round = 16000;
    boot();
    for (int i = 0; i < 5; i++) {
        struct tern_client_event event;
        run_until(TERN_EVENT_UPLOADED, &event);
        assert_true(event.round_bytes <= 16000);
    }
    assert_int_equal(world_count_events(&world, TERN_EVENT_BUDGET), 0);
}

// The bound of a range-coded update is 28 bits a value; a client must not wait for as much.
TEST(first_update_is_not_expected_to_be_the_largest)
{
    world.server.codec = "3lc:s=1,coder=range";
    world.config.budget_per_round = 4500;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world_count_events(&world, TERN_EVENT_BUDGET), 0);
}

TEST(first_update_of_a_low_density_is_expected_to_be_small)
{
    world.server.codec = "density:p=0.01,coder=range";
    world.config.budget_per_round = 4200;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world_count_events(&world, TERN_EVENT_BUDGET), 0);
}

// Its bound is 2.5 bytes a value.
TEST(first_update_of_uniform_is_expected_to_suit_its_error)
{
    world.server.codec = "uniform:error=0.1";
    world.config.budget_per_round = 4500;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    assert_int_equal(world_count_events(&world, TERN_EVENT_BUDGET), 0);
}

TEST(first_update_of_a_small_error_is_expected_to_be_large)
{
    struct tern_client_event event;
    world.server.codec = "uniform:error=0.0001";
    world.config.budget_per_round = 4500;
    boot();
    run_until(TERN_EVENT_BUDGET, &event);
    assert_true(event.bytes > 4500);
}

TEST(month_is_never_exceeded)
{
    struct tern_client_event event;
    world.config.budget_per_month = 60000;
    boot();
    run_until(TERN_EVENT_BUDGET, &event);
    const uint64_t spent = wire(tern_client_meter_all(&world.client));
    assert_true(spent <= 60000);
    assert_true(spent > 30000); // and most of it is used
    const size_t exchanges = world.exchanges;
    for (int i = 0; i < 50; i++) {
        run_until(TERN_EVENT_BUDGET, &event);
    }
    assert_int_equal(world.exchanges, exchanges); // an hour's wait costs no byte
    world.unix_seconds = DECEMBER - 1;
    run_until(TERN_EVENT_BUDGET, &event);
    world.unix_seconds = DECEMBER;
    run_until(TERN_EVENT_UPLOADED, NULL);
    world_check_conservation(&world);
}

TEST(clock_that_goes_back_frees_nothing)
{
    struct tern_client_event event;
    world.config.budget_per_month = 40000;
    boot();
    run_until(TERN_EVENT_BUDGET, NULL);
    const size_t exchanges = world.exchanges;
    world.unix_seconds = NOVEMBER - 60 * 86400;
    run_until(TERN_EVENT_BUDGET, &event);
    world.unix_seconds = 0;
    run_until(TERN_EVENT_BUDGET, &event);
    assert_int_equal(world.exchanges, exchanges);
}

#define DAY_S 86400u
#define BUDGET 40000u

static void run_for_days(uint32_t days)
{
    const uint64_t end_ms = world.now_ms + (uint64_t)days * DAY_S * 1000;
    while (world.now_ms < end_ms) {
        assert_true(tern_client_step(&world.client) <= TERN_AGAIN);
        const uint64_t next_ms = world.now_ms + tern_client_next_ms(&world.client);
        world.now_ms = next_ms < end_ms ? next_ms : end_ms;
    }
}

static size_t exchanges_of_days(uint32_t days)
{
    const size_t before = world.exchanges;
    run_for_days(days);
    return world.exchanges - before;
}

// It is not without a budget until the date that it once took for the present.
TEST(clock_that_ran_ahead_stops_a_client_for_a_month_at_most)
{
    world.config.budget_per_month = BUDGET;
    boot();
    run_until(TERN_EVENT_BUDGET, NULL);
    world.unix_seconds = NOVEMBER + 3000u * DAY_S; // some eight years
    run_until(TERN_EVENT_UPLOADED, NULL);
    run_until(TERN_EVENT_BUDGET, NULL);
    world.unix_seconds = NOVEMBER + DAY_S;
    assert_int_equal(exchanges_of_days(30), 0);
    for (int month = 0; month < 3; month++) {
        const uint64_t before = wire(tern_client_meter_all(&world.client));
        assert_true(exchanges_of_days(2) > 0);
        assert_true(wire(tern_client_meter_all(&world.client)) - before <= BUDGET);
        assert_int_equal(exchanges_of_days(29), 0);
    }
    world_check_conservation(&world);
}

// Nor is a device whose power is cut every other day, and whose monotonic clock then begins anew.
TEST(time_before_a_power_cut_counts)
{
    uint32_t days = 0;
    world.config.budget_per_month = BUDGET;
    boot();
    run_until(TERN_EVENT_BUDGET, NULL);
    world.unix_seconds = 0; // not known any more
    const size_t before = world.exchanges;
    while (world.exchanges == before && days < 100) {
        world.now_ms = 0;
        boot();
        run_for_days(2);
        days += 2;
    }
    assert_in_range(days, 31, 64); // of two days, less than one is lost
}

// The machine has run for longer than the client.
TEST(meter_of_a_build_that_counted_no_time_is_read)
{
    struct fake_record *meter = &world.store.records[TERN_RECORD_METER];
    world.config.budget_per_month = BUDGET;
    world.now_ms = UINT64_C(400) * DAY_S * 1000;
    boot();
    run_until(TERN_EVENT_BUDGET, NULL);
    assert_int_equal(tern_client_save_meter(&world.client), TERN_OK);
    meter->len -= 16;
    world.unix_seconds = NOVEMBER - 60 * DAY_S;
    boot();
    run_for_days(1); // of what had been counted ahead and was given back
    assert_int_equal(exchanges_of_days(29), 0);
    assert_true(exchanges_of_days(2) > 0);
}

// What the clock says on a day of the three years, sometimes nothing.
static uint64_t wrong_date(struct tern_prng *draw, uint32_t day)
{
    const uint32_t way = tern_prng_u32(draw) % 8;
    const uint32_t behind = way < 4 ? 0 : tern_prng_u32(draw) % (way == 4 ? 1200 : 40);
    return way == 0 ? 0 : DECEMBER + (uint64_t)DAY_S * day - (uint64_t)DAY_S * behind;
}

// In three years a device spends no more than the budgets of their months, whatever it does to a clock that
// is never ahead.
TEST(setting_the_clock_back_spends_no_month_twice)
{
    struct tern_prng draw;
    tern_prng_init(&draw, 7, TERN_PRNG_BACKOFF, 0, 0);
    world.config.budget_per_month = BUDGET;
    world.server.no_task = true;
    world.server.come_back_ms = 3600000;
    world.unix_seconds = DECEMBER;
    boot();
    for (uint32_t day = 0; day < 3 * 365; day++) {
        world.unix_seconds = day % 5 == 0 ? wrong_date(&draw, day) : world.unix_seconds;
        if (tern_prng_u32(&draw) % 8 == 0) {
            assert_int_equal(tern_client_save_meter(&world.client), TERN_OK);
            world.now_ms = tern_prng_u32(&draw) % 2 == 0 ? 0 : world.now_ms;
            boot();
        }
        run_for_days(1);
    }
    const uint64_t all = wire(tern_client_meter_all(&world.client));
    assert_true(all <= UINT64_C(36) * BUDGET);
    assert_true(all > UINT64_C(20) * BUDGET);
}

// Power cuts do not make bytes free: what all lives of the client spent together stays below.
TEST(power_cuts_do_not_refill_the_month)
{
    uint64_t lost = 0;
    world.config.budget_per_month = 150000;
    world.server.no_task = true; // check-ins alone save no meter at the end of a round
    world.server.come_back_ms = 1000;
    for (int life = 0; life < 400; life++) {
        boot();
        const uint64_t before = wire(tern_client_meter_all(&world.client));
        for (int i = 0; i < 3 + life % 11; i++) {
            assert_true(tern_client_step(&world.client) <= TERN_AGAIN);
            world.now_ms += tern_client_next_ms(&world.client);
        }
        lost += wire(tern_client_meter_all(&world.client)) - before;
    }
    assert_true(lost <= 150000);
    assert_true(lost > 10000);
}

TEST(clean_end_gives_back_what_was_counted_ahead)
{
    world.config.budget_per_month = HUGE_BUDGET;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    run_until(TERN_EVENT_TASK, NULL);
    const uint64_t spent = tern_client_budget(&world.client)->month_spent;
    assert_true(tern_client_budget(&world.client)->month_reserved > spent);
    assert_int_equal(tern_client_save_meter(&world.client), TERN_OK);
    boot();
    assert_int_equal(tern_client_budget(&world.client)->month_spent, spent);
}

TEST(planned_end_counts_the_closing)
{
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    const uint64_t before = wire(tern_client_meter_all(&world.client));
    world.wire_per_close = 179;
    assert_int_equal(tern_client_end(&world.client), TERN_OK);
    boot();
    assert_int_equal(wire(tern_client_meter_all(&world.client)), before + 179);
}

// Trains for the second round and is not allowed to send what came of it.
static void keep_a_change(float before[WORLD_VALUES])
{
    struct tern_client_event event;
    boot();
    run_until(TERN_EVENT_UPLOADED, NULL);
    memcpy(before, world.error_buffer, WORLD_VALUES * sizeof(float));
    run_until(TERN_EVENT_TRAINED, NULL);
    world.client.config.budget_per_round = wire(tern_client_meter_round(&world.client)) + 100;
    run_until(TERN_EVENT_BUDGET, &event);
    assert_int_equal(tern_client_pending(&world.client)->len, 0);
    assert_int_equal(world.trainings, 2);
    world_check_conservation(&world);
}

TEST(change_that_may_not_be_sent_stays_in_the_error_buffer)
{
    float before[WORLD_VALUES];
    keep_a_change(before);
    for (int i = 0; i < WORLD_VALUES; i++) {
        assert_true(world.error_buffer[i] == before[i] + world.change[i]);
        before[i] = world.error_buffer[i];
    }
    boot(); // the power is cut while it waits
    assert_memory_equal(before, world.error_buffer, sizeof before);
    assert_int_equal(tern_client_phase(&world.client), TERN_PHASE_CHECKIN);
    run_until(TERN_EVENT_UPLOADED, NULL);
    world_check_conservation(&world);
    assert_int_equal(world.server.accepted_count, 2);
}

TEST(kept_change_is_sent_once_when_the_budget_allows)
{
    struct tern_client_event event;
    float before[WORLD_VALUES];
    world.server.directives[2] = tern_ErrorDirective_ERROR_RESET;
    keep_a_change(before);
    const uint32_t generation = world.client.generation;
    world.client.config.budget_per_round = HUGE_BUDGET;
    run_until(TERN_EVENT_UPLOADED, &event);
    assert_int_equal(event.result, TERN_OK);
    assert_int_equal(event.round, 2);
    assert_int_equal(world.trainings, 2);
    assert_int_equal(world.server.last_update.num_examples, 100);
    assert_int_equal(world.server.last_update.error.generation, generation);
    assert_true(world.server.last_update.has_decay); // of the reset, which was done then
    assert_true(world.server.last_update.decay == 0);
    world_check_conservation(&world);
    run_until(TERN_EVENT_UPLOADED, NULL); // the next round trains again
    assert_int_equal(world.trainings, 3);
    world_check_conservation(&world);
}

TEST(pending_update_waits_for_the_budget)
{
    struct tern_client_event event;
    boot();
    run_until(TERN_EVENT_ENCODED, NULL);
    world.client.config.budget_per_month = 100;
    run_until(TERN_EVENT_BUDGET, &event);
    assert_int_equal(world.server.puts, 0);
    assert_true(tern_client_pending(&world.client)->len > 0);
    world.client.config.budget_per_month = HUGE_BUDGET;
    run_until(TERN_EVENT_UPLOADED, &event);
    assert_int_equal(event.result, TERN_OK);
    world_check_conservation(&world);
}
