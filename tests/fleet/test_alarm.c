// What a version's measurement tells of a run in vain, once, and of a sound one nothing.
#include "fleet/alarm.h"
#include "fleet/shares.h"
#include "tests/cases.h"
#include "wire/wire.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct tern_alarm of_ten_classes(void)
{
    return (struct tern_alarm){.chance = 0.1,
                               .guess = "always answering class 3",
                               .figure = "accuracy",
                               .classes = 10,
                               .planned_rounds = 100};
}

static bool rings(struct tern_alarm *alarm, uint32_t version, double accuracy, double loss,
                  char text[TERN_ALARM_MAX])
{
    const struct tern_evaluate_result found = {.num_examples = isnan(accuracy) ? 0u : 1u,
                                               .loss = (float)loss,
                                               .accuracy = (float)accuracy};
    return tern_alarm_rings(alarm, version, &found, text);
}

static void expect(struct tern_alarm *alarm, uint32_t version, double accuracy, double loss,
                   const char *words)
{
    char text[TERN_ALARM_MAX];
    assert_true(rings(alarm, version, accuracy, loss, text));
    assert_non_null(strstr(text, words));
    assert_false(rings(alarm, version, accuracy, loss, text)); // told once
}

static void expect_quiet(struct tern_alarm *alarm, uint32_t version, double accuracy, double loss)
{
    char text[TERN_ALARM_MAX];
    assert_false(rings(alarm, version, accuracy, loss, text));
}

CASE(a_sound_run_is_left_alone)
{
    struct tern_alarm alarm = of_ten_classes();
    expect_quiet(&alarm, 1, 0.1, 4.5);
    expect_quiet(&alarm, 2, NAN, NAN); // passed over
    expect_quiet(&alarm, 20, 0.82, 0.6);
    expect_quiet(&alarm, 21, 0.60, 1.1); // unlike clients
    expect_quiet(&alarm, 100, 0.85, 0.5);
}

CASE(a_loss_that_explodes_is_told)
{
    struct tern_alarm alarm = of_ten_classes();
    expect_quiet(&alarm, 1, 0.3, 22);
    expect(&alarm, 2, 0.3, 24, "10 times that of guessing");
    struct tern_alarm other = of_ten_classes();
    expect(&other, 2, 0.3, INFINITY, "no longer finite");
    struct tern_alarm third = of_ten_classes();
    expect(&third, 2, 0.3, NAN, "no longer finite");
}

CASE(a_collapse_is_told)
{
    struct tern_alarm alarm = of_ten_classes();
    expect_quiet(&alarm, 1, 0.19, 2);
    expect_quiet(&alarm, 2, 0.08, 2); // it had learnt nothing yet
    expect_quiet(&alarm, 3, 0.9, 2);
    expect(&alarm, 4, 0.44, 2, "has fallen to 0.4400 from 0.9000 (guessing has 0.1000)");
}

// Guessing is right more often than not, and an accuracy that is twice that cannot be.
CASE(an_unbalanced_task_is_measured_against_guessing)
{
    struct tern_alarm alarm = of_ten_classes();
    alarm.chance = 0.8;
    struct tern_alarm other = alarm;
    expect_quiet(&alarm, 9, 0.8, 0.5);
    expect(&alarm, 10, 0.8, 0.5, "is no better than always answering class 3 (0.8000)");
    expect_quiet(&other, 10, 0.95, 0.2);
    expect_quiet(&other, 11, 0.9, 0.3);
    expect(&other, 12, 0.7, 0.9, "has fallen to 0.7000 from 0.9500 (guessing has 0.8000)");
}

CASE(a_run_that_learns_nothing_is_reported_early_halfway_and_at_the_end)
{
    struct tern_alarm alarm = of_ten_classes();
    expect_quiet(&alarm, 9, 0.12, 2.3);
    expect(
        &alarm, 10, 0.11, 2.3,
        "after 10 of 100 rounds the accuracy, 0.1200 at best, is no better than always answering");
    expect_quiet(&alarm, 49, 0.12, 2.3);
    expect(&alarm, 50, 0.11, 2.3, "after 50 of 100 rounds");
    expect(&alarm, 100, 0.11, 2.3, "after 100 of 100 rounds");
    struct tern_alarm late = of_ten_classes();
    expect(&late, 10, 0.1, 2.3, "after 10 of");
    expect_quiet(&late, 50, 0.4, 2.3);
    expect_quiet(&late, 100, 0.4, 2.3);
}

CASE(a_run_of_few_rounds_is_reported_too)
{
    struct tern_alarm pilot = of_ten_classes();
    pilot.planned_rounds = 10;
    expect_quiet(&pilot, 4, 0.1, 2.3);
    expect(&pilot, 5, 0.1, 2.3, "after 5 of 10 rounds");
    expect_quiet(&pilot, 9, 0.1, 2.3);
    expect(&pilot, 10, 0.1, 2.3, "after 10 of 10 rounds");
    struct tern_alarm four = of_ten_classes();
    four.planned_rounds = 4;
    expect(&four, 4, 0.1, 2.3, "after 4 of 4 rounds");
    struct tern_alarm endless = of_ten_classes();
    endless.planned_rounds = 0;
    expect_quiet(&endless, 19, 0.1, 2.3);
    expect(&endless, 20, 0.1, 2.3, "after 20 rounds the");
}

CASE(guessing_takes_the_most_frequent_class)
{
    struct tern_alarm alarm;
    char worn[] = "worn", leak[] = "leak", ok[] = "ok";
    char *names[] = {worn, leak, ok};
    const uint16_t labels[] = {0, 2, 2, 1, 2};
    const struct tern_dataset test = {.class_count = 3, .count = 5, .labels = labels};
    const struct tern_name_set named = {.names = names, .count = 3};
    tern_alarm_of_classes(&alarm, &test, &named, 40);
    assert_true(fabs(alarm.chance - 0.6) < 1e-9);
    expect(&alarm, 5, 0.6, 1, "no better than always answering 'ok' (0.6000)");
    tern_alarm_of_classes(&alarm, &test, &(struct tern_name_set){0}, 40);
    expect(&alarm, 5, 0.6, 1, "no better than always answering class 2 (0.6000)");
    const struct tern_dataset none = {.class_count = 3};
    tern_alarm_of_classes(&alarm, &none, &named, 40);
    assert_true(alarm.chance == 0);
}

CASE(an_accuracy_on_one_class_says_nothing)
{
    struct tern_alarm alarm = {.chance = 1, .classes = 1, .planned_rounds = 20};
    expect(&alarm, 1, 0.9, 0.4, "have one class");
    expect_quiet(&alarm, 20, 1, 0.4);
    struct tern_alarm two = {.chance = 1, .classes = 2, .planned_rounds = 20};
    expect(&two, 20, 1, 0.1, "have one class");
}

CASE(a_model_that_tells_no_classes_is_judged_by_its_figure)
{
    char text[TERN_ALARM_MAX];
    struct tern_alarm alarm = of_ten_classes();
    struct tern_evaluate_result found = {.num_examples = 9,
                                         .loss = 1e9f, // in the target's units
                                         .no_accuracy = true,
                                         .metric_count = 1,
                                         .metrics = {{.name = "r2", .value = -0.4f}}};
    assert_false(tern_alarm_rings(&alarm, 9, &found, text));
    assert_true(tern_alarm_rings(&alarm, 10, &found, text));
    assert_non_null(
        strstr(text, "the R2, -0.4000 at best, is no better than always answering the mean"));
    struct tern_alarm other = of_ten_classes();
    found.metrics[0] = (struct tern_metric){.name = "auc", .value = 0.49f};
    assert_true(tern_alarm_rings(&other, 10, &found, text));
    assert_non_null(strstr(text, "the AUC, 0.4900 at best, is no better than a random order"));
    found.metrics[0].value = 0.9f;
    assert_false(tern_alarm_rings(&other, 50, &found, text));
    found.metric_count = 0; // a loss alone
    assert_false(tern_alarm_rings(&other, 100, &found, text));
}

// Clients may share a scaling until the first of them has a task.
CASE(unscaled_columns_are_named_once_when_training_has_begun)
{
    char text[TERN_COLUMNS_TEXT_MAX];
    static const float values[] = {2950, 1, 2940, -1};
    struct tern_shares shares = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                                 .data.train = {.count = 2, .feature_count = 2, .values = values}};
    assert_false(tern_shares_report(&shares, text));
    tern_shares_train(&shares);
    assert_true(tern_shares_report(&shares, text));
    assert_non_null(strstr(text, "warning: 1 of 2 columns is unscaled"));
    assert_non_null(strstr(text, ": set scale=standard in data.source"));
    assert_false(tern_shares_report(&shares, text));
    struct tern_shares scaled = {
        .mutex = PTHREAD_MUTEX_INITIALIZER, .data.train = shares.data.train, .scaling = 7};
    tern_shares_train(&scaled);
    assert_false(tern_shares_report(&scaled, text));
}

static void open_table(struct tern_shares *shares, const char *options)
{
    static const char path[] = "alarm.csv";
    struct tern_fleet_settings settings = {.data_partition = "iid", .data_alpha = 0.5};
    char why[512];
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("rpm,leak,same,temp\n", file);
    for (int i = 0; i < 10; i++) {
        fprintf(file, "%d,%.3f,4,%d\n", 2950 + i % 5, 0.01 * (i % 3), 20 + i);
    }
    assert_int_equal(fclose(file), 0);
    snprintf(settings.data_source, sizeof settings.data_source, "csv:%s,target=temp%s", path,
             options);
    assert_int_equal(tern_shares_open(&settings, 2, shares, why), TERN_OK);
    remove(path);
}

static double mean_of(const struct tern_dataset *data, uint32_t column)
{
    double sum = 0;
    for (uint32_t i = 0; i < data->count; i++) {
        sum += (double)data->values[i * data->feature_count + column];
    }
    return sum / data->count;
}

// Columns and target, by the training rows alone, once; a constant column is 0.
CASE(a_raw_table_is_standardised_at_the_first_task)
{
    char text[TERN_COLUMNS_TEXT_MAX];
    struct tern_shares shares;
    open_table(&shares, "");
    assert_true(mean_of(&shares.data.train, 0) > 2949);
    tern_shares_train(&shares);
    for (int i = 0; i < 2; i++, tern_shares_train(&shares)) {
        for (uint32_t c = 0; c < 3; c++) {
            assert_true(fabs(mean_of(&shares.data.train, c)) < 1e-4);
            const double size = tern_columns_size(&shares.data.train, c);
            assert_true(c == 2 ? size < 1e-6 : fabs(size - 1) < 1e-4);
        }
    }
    assert_true(fabs((double)shares.data.test.values[0]) < 4);
    assert_true(shares.data.train.target_mean > 20 && shares.data.train.target_deviation > 1);
    assert_true(shares.data.test.target_mean == shares.data.train.target_mean);
    assert_true(tern_shares_report(&shares, text));
    assert_non_null(strstr(text, "note: 4 columns were standardised by the mean and deviation of "
                                 "the 8 training rows"));
    assert_non_null(strstr(text, "scale=none in data.source switches this off"));
    assert_false(tern_shares_report(&shares, text));
    tern_shares_close(&shares);
}

CASE(a_table_that_is_scaled_or_shall_not_be_is_left_alone)
{
    char text[TERN_COLUMNS_TEXT_MAX];
    struct tern_shares shares;
    open_table(&shares, ",scale=none");
    tern_shares_train(&shares);
    assert_true(mean_of(&shares.data.train, 0) > 2949 && shares.scaling == 0);
    assert_true(tern_shares_report(&shares, text));
    assert_non_null(strstr(text, "warning: 2 of 4 columns are unscaled"));
    tern_shares_close(&shares);
    open_table(&shares, ",scale=standard");
    tern_shares_train(&shares);
    assert_int_equal(shares.scaling, 0);
    assert_false(tern_shares_report(&shares, text));
    tern_shares_close(&shares);
    // By statistics that clients share.
    uint8_t columns[4 * TERN_WIRE_COLUMN_BYTES];
    for (uint32_t c = 0; c < 4; c++) {
        tern_column_put(columns, c, (struct tern_column_pair){2000, 500});
    }
    open_table(&shares, "");
    assert_int_equal(tern_shares_scale(&shares, 9, columns), TERN_OK);
    tern_shares_train(&shares);
    assert_true(fabs(mean_of(&shares.data.train, 0) - 1.9) < 0.01);
    assert_int_equal(shares.scaling, 9);
    assert_false(tern_shares_report(&shares, text));
    tern_shares_close(&shares);
}
