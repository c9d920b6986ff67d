// Versions are shown in order, once, and only when they are complete; failures end the wait.
#include "fleet/progress.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static enum tern_result next(struct tern_progress *progress, uint32_t *version,
                             struct tern_progress_version *out)
{
    enum tern_result result = TERN_AGAIN;
    for (int i = 0; i < 10 && result == TERN_AGAIN; i++) {
        result = tern_progress_next(progress, version, out);
    }
    return result;
}

static void a_version_is_shown_with_its_updates_and_their_bytes(void **state)
{
    (void)state;
    struct tern_progress progress;
    struct tern_progress_version round;
    struct tern_meter meter = {0};
    uint32_t version = 0;
    meter.bytes[TERN_PURPOSE_UPLOAD][TERN_UP].wire = 700;
    meter.bytes[TERN_PURPOSE_CHECKIN][TERN_UP].wire = 300;
    meter.bytes[TERN_PURPOSE_DOWNLOAD][TERN_DOWN].wire = 50;
    tern_progress_init(&progress);
    tern_progress_start(&progress);
    tern_progress_update(&progress, 0, &meter);
    tern_progress_update(&progress, 0, &meter);
    tern_progress_evaluation(&progress, 1, 0.5f);
    assert_int_equal(next(&progress, &version, &round), TERN_OK);
    assert_int_equal(version, 1);
    assert_int_equal(round.updates, 2);
    assert_int_equal(round.up, 2000);
    assert_int_equal(round.down, 100);
    assert_true(round.accuracy == 0.5);
    tern_progress_end(&progress, TERN_OK, "");
    assert_int_equal(next(&progress, &version, &round), TERN_ERR_NOT_FOUND);
    tern_progress_clear(&progress);
}

static void versions_come_in_order_whatever_order_they_were_evaluated_in(void **state)
{
    (void)state;
    struct tern_progress progress;
    struct tern_progress_version round;
    uint32_t version = 0;
    tern_progress_init(&progress);
    tern_progress_start(&progress);
    tern_progress_evaluation(&progress, 200, 0.9f);
    assert_int_equal(tern_progress_next(&progress, &version, &round), TERN_AGAIN);
    for (uint32_t i = 199; i >= 1; i--) {
        tern_progress_evaluation(&progress, i, (float)i / 256);
    }
    tern_progress_end(&progress, TERN_OK, "");
    for (uint32_t i = 1; i <= 199; i++) {
        assert_int_equal(next(&progress, &version, &round), TERN_OK);
        assert_int_equal(version, i);
        assert_true(round.accuracy == (double)((float)i / 256));
    }
    tern_progress_clear(&progress);
}

static void the_seed_is_no_round(void **state)
{
    (void)state;
    struct tern_progress progress;
    struct tern_progress_version round;
    uint32_t version = 0;
    tern_progress_init(&progress);
    tern_progress_start(&progress);
    tern_progress_evaluation(&progress, 0, 0.1f);
    tern_progress_end(&progress, TERN_OK, "");
    assert_int_equal(next(&progress, &version, &round), TERN_ERR_NOT_FOUND);
    tern_progress_clear(&progress);
}

static void a_fleet_that_goes_on_shows_only_what_is_new(void **state)
{
    (void)state;
    struct tern_progress progress;
    struct tern_progress_version round;
    uint32_t version = 0;
    tern_progress_init(&progress);
    tern_progress_begin_after(&progress, 3);
    tern_progress_start(&progress);
    tern_progress_evaluation(&progress, 3, 0.25f); // what it held, evaluated once more
    tern_progress_evaluation(&progress, 4, 0.5f);
    tern_progress_end(&progress, TERN_OK, "");
    assert_int_equal(next(&progress, &version, &round), TERN_OK);
    assert_int_equal(version, 4);
    assert_true(round.accuracy == 0.5);
    assert_int_equal(next(&progress, &version, &round), TERN_ERR_NOT_FOUND);
    tern_progress_clear(&progress);
}

static void the_first_failure_ends_the_wait_and_says_why(void **state)
{
    (void)state;
    struct tern_progress progress;
    struct tern_progress_version round;
    uint32_t version = 0;
    tern_progress_init(&progress);
    tern_progress_start(&progress);
    tern_progress_start(&progress);
    tern_progress_end(&progress, TERN_ERR_UNAUTHORIZED, "fleet-0001 stopped");
    tern_progress_end(&progress, TERN_ERR_IO, "fleet-0002 stopped");
    assert_int_equal(next(&progress, &version, &round), TERN_ERR_UNAUTHORIZED);
    assert_string_equal(progress.why, "fleet-0001 stopped");
    tern_progress_clear(&progress);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_version_is_shown_with_its_updates_and_their_bytes),
        cmocka_unit_test(versions_come_in_order_whatever_order_they_were_evaluated_in),
        cmocka_unit_test(the_seed_is_no_round),
        cmocka_unit_test(a_fleet_that_goes_on_shows_only_what_is_new),
        cmocka_unit_test(the_first_failure_ends_the_wait_and_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
