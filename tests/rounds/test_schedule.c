// Measured speeds and learning rates.
#include "rounds/rate.h"
#include "rounds/speed.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
// cmocka wants the headers above first.
#include <cmocka.h>

static void test_names(void **state)
{
    (void)state;
    enum tern_rate_schedule schedule = TERN_RATE_CONSTANT;
    assert_int_equal(tern_rate_schedule_from_name("cosine", &schedule), TERN_OK);
    assert_int_equal(schedule, TERN_RATE_COSINE);
    assert_int_equal(tern_rate_schedule_from_name("constant", &schedule), TERN_OK);
    assert_int_equal(schedule, TERN_RATE_CONSTANT);
    assert_int_equal(tern_rate_schedule_from_name("linear", &schedule), TERN_ERR_UNKNOWN);
}

static void test_speed_is_smoothed(void **state)
{
    (void)state;
    struct tern_steps_done done = {0};
    float speed = tern_steps_speed(&done, 0.0F, 100, 1000);
    assert_true(speed == 100.0F);
    struct tern_steps_done restarted = {0};
    float before = speed;
    speed = tern_steps_speed(&done, speed, 100, 2000); // one busy round
    assert_true(speed > 75.0F && speed < 80.0F);
    assert_true(tern_steps_speed(&restarted, before, 100, 2000) == speed);
    for (int i = 0; i < 20; i++) {
        speed = tern_steps_speed(&done, speed, 10, 1000);
    }
    assert_true(speed < 10.2F);
    struct tern_steps_done same = done;
    assert_true(tern_steps_speed(&done, 7.0F, 0, 1000) == 7.0F);
    assert_memory_equal(&done, &same, sizeof done);
}

// Trainings too short for a millisecond clock: known at once, told apart by the longer ones.
static void test_speed_of_short_trainings(void **state)
{
    (void)state;
    struct tern_steps_done done = {0};
    float speed = tern_steps_speed(&done, 0.0F, 20, 0);
    assert_true(speed == 40000.0F);
    // It was a coarse clock: 500 steps take 250 ms, and one such round outweighs the short one.
    speed = tern_steps_speed(&done, speed, 500, 250);
    assert_true(speed > 2000.0F && speed < 2500.0F);
    // Two steps a millisecond: rounds of one step are reported as 0 or 1 ms.
    memset(&done, 0, sizeof done);
    for (uint32_t i = 0; i < 40; i++) {
        speed = tern_steps_speed(&done, speed, 1, i % 2);
    }
    assert_true(speed > 1000.0F && speed < 2500.0F);
}

// A client may claim any speed; its first report settles what it is.
static void test_claimed_speeds(void **state)
{
    (void)state;
    const float claims[] = {NAN, INFINITY, -1.0F, 1e-38F, 1e-44F, 3e38F};
    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++) {
        struct tern_steps_done done = {0};
        float speed = tern_steps_speed(&done, claims[i], 100, 1000);
        assert_true(speed >= 100.0F && speed < 400.0F);
    }
    struct tern_steps_done done = {0};
    float speed = tern_steps_speed(&done, 0.0F, UINT32_MAX, 0);
    assert_true(isfinite(speed) && speed > 0.0F);
    assert_true(tern_steps_speed(&done, speed, 1, UINT32_MAX) > 0.0F);
}

static void test_rates(void **state)
{
    (void)state;
    assert_true(tern_rate_for(TERN_RATE_CONSTANT, 0.05F, 0.0F, 50, 100) == 0.05F);
    assert_true(tern_rate_for(TERN_RATE_COSINE, 0.05F, 0.0F, 7, 0) == 0.05F); // no end
    assert_true(tern_rate_for(TERN_RATE_COSINE, 0.05F, 0.0F, 1, 100) == 0.05F);
    assert_true(tern_rate_for(TERN_RATE_COSINE, 0.05F, 0.001F, 100, 100) == 0.001F);
    assert_true(tern_rate_for(TERN_RATE_COSINE, 0.05F, 0.001F, 200, 100) == 0.001F);
    float before = 1.0F;
    for (uint32_t round = 1; round <= 101; round++) {
        float rate = tern_rate_for(TERN_RATE_COSINE, 0.05F, 0.01F, round, 101);
        double t = (double)(round - 1) / 100.0;
        double expected = 0.01 + 0.04 * 0.5 * (1.0 + cos(3.14159265358979323846 * t));
        assert_true(fabs((double)rate - expected) < 1e-8);
        assert_true(rate < before);
        before = rate;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_speed_is_smoothed),
        cmocka_unit_test(test_speed_of_short_trainings),
        cmocka_unit_test(test_claimed_speeds),
        cmocka_unit_test(test_rates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
