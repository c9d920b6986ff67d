// Versions are shown in order, once, and only when they are complete; failures end the wait.
#include "fleet/progress.h"
#include "tests/cases.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

// What a test waits for, and what was shown to it last.
static struct tern_progress progress;
static struct tern_progress_version shown;
static uint32_t version;

static int begin(void **state)
{
    (void)state;
    version = 0;
    tern_progress_init(&progress);
    tern_progress_start(&progress);
    return 0;
}

static int end(void **state)
{
    (void)state;
    tern_progress_clear(&progress);
    return 0;
}

static enum tern_result next(void)
{
    enum tern_result result = TERN_AGAIN;
    for (int i = 0; i < 10 && result == TERN_AGAIN; i++) {
        result = tern_progress_next(&progress, &version, &shown);
    }
    return result;
}

// accuracy: NAN where it has none.
static void expect_version(uint32_t number, double accuracy)
{
    assert_int_equal(next(), TERN_OK);
    assert_int_equal(version, number);
    assert_true(isnan(accuracy) ? isnan(shown.accuracy) : shown.accuracy == accuracy);
}

static void expect_the_end(void)
{
    tern_progress_end(&progress, TERN_OK, "");
    assert_int_equal(next(), TERN_ERR_NOT_FOUND);
}

#define TEST(name) CASE_WITH(name, begin, end)

TEST(a_version_is_shown_with_its_updates_and_their_bytes)
{
    const struct tern_participation first = {
        .version = 1, .client = 9, .up = {.wire = 1000}, .down = {.wire = 50}};
    const struct tern_participation second = {
        .version = 1, .client = 2, .up = {.wire = 1000}, .down = {.wire = 50}};
    tern_progress_update(&progress, &first);
    tern_progress_update(&progress, &second);
    tern_progress_evaluation(&progress, 1, 0.5, 1);
    expect_version(1, 0.5);
    assert_int_equal(shown.updates, 2);
    assert_int_equal(shown.up, 2000);
    assert_int_equal(shown.down, 100);
    expect_the_end();
    assert_int_equal(progress.records.participation_count, 2);
}

TEST(records_come_in_order_whatever_order_the_replies_came_in)
{
    struct tern_records records = {0};
    for (uint32_t i = 0; i < 1000; i++) {
        const struct tern_participation participation = {.version = 1 + i * 7 % 50,
                                                         .client = i * 13 % 20};
        const struct tern_arrival arrival = {.version = 1000 - i, .client = i};
        assert_int_equal(tern_records_add(&records, &participation), TERN_OK);
        assert_int_equal(tern_records_add_arrival(&records, &arrival), TERN_OK);
    }
    tern_records_sort(&records);
    assert_int_equal(records.participation_count, 1000);
    for (uint32_t i = 1; i < 1000; i++) {
        const struct tern_participation *pair = &records.participations[i - 1];
        assert_true(pair[0].version < pair[1].version ||
                    (pair[0].version == pair[1].version && pair[0].client <= pair[1].client));
        assert_true(records.arrivals[i - 1].version < records.arrivals[i].version);
    }
    tern_records_clear(&records);
    tern_records_sort(&records); // of nothing
}

TEST(who_waits_for_a_round_or_a_version_is_told_of_it_or_of_the_end)
{
    tern_progress_task(&progress, 5, 4);
    tern_progress_task(&progress, 3, 2); // a late one says nothing new
    assert_true(tern_progress_is_past(&progress, 4));
    assert_false(tern_progress_is_past(&progress, 5));
    assert_true(tern_progress_has_version(&progress, 4));
    assert_false(tern_progress_has_version(&progress, 5));
    tern_progress_finished(&progress, NULL);
    assert_true(tern_progress_is_past(&progress, 5));
    assert_true(tern_progress_has_version(&progress, 1000));
    (void)end(state);
    (void)begin(state);
    tern_progress_end(&progress, TERN_ERR_IO, "fleet-0001 stopped");
    assert_true(tern_progress_is_past(&progress, 5));
}

TEST(versions_come_in_order_whatever_order_they_were_evaluated_in)
{
    tern_progress_evaluation(&progress, 200, 0.9, 1);
    assert_int_equal(tern_progress_next(&progress, &version, &shown), TERN_AGAIN);
    for (uint32_t i = 199; i >= 1; i--) {
        tern_progress_evaluation(&progress, i, (double)i / 256, 1);
    }
    tern_progress_end(&progress, TERN_OK, "");
    for (uint32_t i = 1; i <= 199; i++) {
        expect_version(i, (double)i / 256);
    }
}

TEST(the_seed_is_no_round)
{
    tern_progress_evaluation(&progress, 0, 0.1, 1);
    expect_the_end();
}

TEST(a_fleet_that_goes_on_shows_only_what_is_new)
{
    tern_progress_begin_after(&progress, 3);
    tern_progress_evaluation(&progress, 3, 0.25, 1); // what it held, evaluated once more
    tern_progress_evaluation(&progress, 4, 0.5, 1);
    tern_progress_end(&progress, TERN_OK, "");
    expect_version(4, 0.5);
    assert_int_equal(next(), TERN_ERR_NOT_FOUND);
}

// As one may be that comes back from the global model of an earlier end.
TEST(a_version_that_the_evaluator_was_led_past_has_no_accuracy)
{
    tern_progress_evaluation(&progress, 2, 0.5, 1);
    assert_int_equal(tern_progress_next(&progress, &version, &shown), TERN_AGAIN);
    tern_progress_end(&progress, TERN_OK, "");
    expect_version(1, NAN);
    expect_version(2, 0.5);
    assert_int_equal(next(), TERN_ERR_NOT_FOUND);
}

TEST(the_first_failure_ends_the_wait_and_says_why)
{
    tern_progress_start(&progress);
    tern_progress_end(&progress, TERN_ERR_UNAUTHORIZED, "fleet-0001 stopped");
    tern_progress_end(&progress, TERN_ERR_IO, "fleet-0002 stopped");
    assert_int_equal(next(), TERN_ERR_UNAUTHORIZED);
    assert_string_equal(progress.why, "fleet-0001 stopped");
}

TEST(a_run_that_diverges_fails_and_says_so)
{
    const struct tern_participation applied = {.version = 1, .client = 1};
    tern_progress_diverged(&progress, "fleet-0001", TERN_ERR_NORM_LIMIT);
    tern_progress_diverged(&progress, "fleet-0001", TERN_ERR_NORM_LIMIT);
    tern_progress_update(&progress, &applied); // and so the two before were not the whole fleet
    tern_progress_diverged(&progress, "fleet-0001", TERN_ERR_TRAINER);
    tern_progress_diverged(&progress, "fleet-0003", TERN_ERR_NON_FINITE);
    tern_progress_busy(&progress, true);
    tern_progress_diverged(&progress, "fleet-0002", TERN_ERR_NON_FINITE);
    assert_int_equal(progress.failure, TERN_OK); // another may report
    tern_progress_busy(&progress, false);
    tern_progress_diverged(&progress, "fleet-0002", TERN_ERR_NORM_LIMIT);
    assert_int_equal(next(), TERN_ERR_NORM_LIMIT);
    assert_non_null(strstr(progress.why, "training diverges: 4 updates in a row"));
    assert_non_null(strstr(progress.why, "on fleet-0001, fleet-0003, fleet-0002 ("));
}

TEST(those_that_diverge_are_named_once_and_a_few)
{
    char names[TERN_PROGRESS_NAMES_MAX];
    char name[16];
    tern_progress_busy(&progress, true);
    for (unsigned i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "fleet-%04u", i / 2);
        tern_progress_diverged(&progress, name, TERN_ERR_NON_FINITE);
    }
    assert_int_equal(tern_progress_dropped(&progress, names), 200);
    assert_string_equal(names, "fleet-0000, fleet-0001, fleet-0002, fleet-0003, fleet-0004, "
                               "fleet-0005, fleet-0006, ...");
}
