// What a version's measurement tells of a run in vain, once, and of a sound one nothing.
#include "fleet/alarm.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct tern_alarm of_ten_classes(void)
{
    return (struct tern_alarm){.chance = 0.1, .classes = 10, .planned_rounds = 100};
}

static void expect(struct tern_alarm *alarm, uint32_t version, double accuracy, double loss,
                   const char *words)
{
    char text[TERN_ALARM_MAX];
    assert_true(tern_alarm_rings(alarm, version, accuracy, loss, text));
    assert_non_null(strstr(text, words));
    assert_false(tern_alarm_rings(alarm, version, accuracy, loss, text)); // told once
}

static void expect_quiet(struct tern_alarm *alarm, uint32_t version, double accuracy, double loss)
{
    char text[TERN_ALARM_MAX];
    assert_false(tern_alarm_rings(alarm, version, accuracy, loss, text));
}

static void a_sound_run_is_left_alone(void **state)
{
    (void)state;
    struct tern_alarm alarm = of_ten_classes();
    expect_quiet(&alarm, 1, 0.1, 4.5);
    expect_quiet(&alarm, 2, NAN, NAN); // passed over
    expect_quiet(&alarm, 20, 0.82, 0.6);
    expect_quiet(&alarm, 21, 0.60, 1.1); // unlike clients
    expect_quiet(&alarm, 100, 0.85, 0.5);
}

static void a_loss_that_explodes_is_told(void **state)
{
    (void)state;
    struct tern_alarm alarm = of_ten_classes();
    expect_quiet(&alarm, 1, 0.3, 22);
    expect(&alarm, 2, 0.3, 24, "10 times that of guessing");
    struct tern_alarm other = of_ten_classes();
    expect(&other, 2, 0.3, INFINITY, "no longer finite");
    struct tern_alarm third = of_ten_classes();
    expect(&third, 2, 0.3, NAN, "no longer finite");
}

static void a_collapse_is_told(void **state)
{
    (void)state;
    struct tern_alarm alarm = of_ten_classes();
    expect_quiet(&alarm, 1, 0.19, 2);
    expect_quiet(&alarm, 2, 0.08, 2); // it had learnt nothing yet
    expect_quiet(&alarm, 3, 0.9, 2);
    expect(&alarm, 4, 0.44, 2, "has fallen to 0.4400 from 0.9000 (guessing has 0.1000)");
}

// Guessing is right more often than not, and an accuracy that is twice that cannot be.
static void an_unbalanced_task_is_measured_against_guessing(void **state)
{
    (void)state;
    struct tern_alarm alarm = {.chance = 0.8, .classes = 2, .planned_rounds = 20};
    expect_quiet(&alarm, 9, 0.8, 0.5);
    expect(&alarm, 10, 0.8, 0.5, "is that of guessing (0.8000)");
    struct tern_alarm other = {.chance = 0.8, .classes = 2, .planned_rounds = 20};
    expect_quiet(&other, 10, 0.95, 0.2);
    expect_quiet(&other, 11, 0.9, 0.3);
    expect(&other, 12, 0.7, 0.9, "has fallen to 0.7000 from 0.9500 (guessing has 0.8000)");
}

static void a_run_that_learns_nothing_is_told_halfway(void **state)
{
    (void)state;
    struct tern_alarm alarm = of_ten_classes();
    expect_quiet(&alarm, 49, 0.12, 2.3);
    expect(&alarm, 50, 0.11, 2.3, "after 50 of 100 rounds");
    struct tern_alarm endless = of_ten_classes();
    endless.planned_rounds = 0;
    expect_quiet(&endless, 1000, 0.1, 2.3);
    struct tern_alarm brief = of_ten_classes();
    brief.planned_rounds = 19;
    expect_quiet(&brief, 19, 0.1, 2.3);
}

static void guessing_takes_the_most_frequent_class(void **state)
{
    (void)state;
    const uint16_t labels[] = {0, 2, 2, 1, 2};
    const struct tern_dataset test = {.class_count = 3, .count = 5, .labels = labels};
    assert_true(fabs(tern_alarm_chance(&test) - 0.6) < 1e-9);
    const struct tern_dataset none = {.class_count = 3};
    assert_true(tern_alarm_chance(&none) == 0);
}

static void an_accuracy_on_one_class_says_nothing(void **state)
{
    (void)state;
    struct tern_alarm alarm = {.chance = 1, .classes = 1, .planned_rounds = 20};
    expect(&alarm, 1, 0.9, 0.4, "of one class");
    expect_quiet(&alarm, 20, 1, 0.4);
    struct tern_alarm two = {.chance = 1, .classes = 2, .planned_rounds = 20};
    expect(&two, 20, 1, 0.1, "of one class");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_run_is_left_alone),
        cmocka_unit_test(a_loss_that_explodes_is_told),
        cmocka_unit_test(a_collapse_is_told),
        cmocka_unit_test(an_accuracy_on_one_class_says_nothing),
        cmocka_unit_test(an_unbalanced_task_is_measured_against_guessing),
        cmocka_unit_test(a_run_that_learns_nothing_is_told_halfway),
        cmocka_unit_test(guessing_takes_the_most_frequent_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
