// The table of settings: its defaults are valid, and the example file is what it prints.
#include "cli/settings.h"
#include "tests/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_all(FILE *file)
{
    size_t size = 1 << 16;
    char *text = calloc(1, size);
    assert_non_null(text);
    assert_true(fread(text, 1, size - 1, file) > 0);
    return text;
}

// configs/aggregator.example.ini is made by: tern-aggregator --settings
CASE(test_example_file_is_the_table)
{
    FILE *printed = tmpfile();
    FILE *kept = fopen(EXAMPLE_INI, "r");
    assert_non_null(printed);
    assert_non_null(kept);
    static struct tern_aggregator_settings usual;
    tern_settings_defaults(&tern_aggregator_settings_table, &usual);
    tern_settings_print_example(&tern_aggregator_settings_table, &usual, printed);
    rewind(printed);
    char *expected = read_all(printed);
    char *actual = read_all(kept);
    assert_string_equal(actual, expected);
    free(expected);
    free(actual);
    fclose(printed);
    fclose(kept);
}

CASE(test_buffers_follow_from_two_limits)
{
    static struct tern_aggregator_settings settings;
    char why[512];
    tern_settings_defaults(&tern_aggregator_settings_table, &settings);
    assert_int_equal(
        tern_settings_set(&tern_aggregator_settings_table, &settings, "limits.memory=64Mi", why),
        TERN_OK);
    const struct tern_derived_limits derived = tern_derived_limits(&settings);
    assert_true(derived.model_memory == 32 << 20 && derived.body_memory == 8 << 20);
    assert_true(derived.strategy_memory == 8 << 20 && derived.download_cache == 2 << 20);
    assert_true(derived.replica_cache == 1 << 20);
    assert_true(derived.body_disk == UINT64_C(8) << 30 && derived.replica_bytes == UINT64_C(4)
                                                                                       << 30);
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    tern_settings_print_example(&tern_aggregator_settings_table, &settings, out);
    fclose(out);
    assert_non_null(strstr(text, "#     32MiB = limits.memory / 2: vectors of the model's size"));
    assert_non_null(strstr(text, "#   8192MiB = limits.disk / 2: bodies above 64KiB"));
    free(text);
}

CASE(test_example_file_gives_the_defaults)
{
    struct tern_aggregator_settings defaults;
    struct tern_aggregator_settings loaded;
    char why[512] = "";
    memset(&defaults, 0, sizeof defaults);
    tern_settings_defaults(&tern_aggregator_settings_table, &defaults);
    memset(&loaded, 0, sizeof loaded);
    tern_settings_defaults(&tern_aggregator_settings_table, &loaded);
    if (tern_settings_load(&tern_aggregator_settings_table, &loaded, EXAMPLE_INI, why) != TERN_OK) {
        fail_msg("%s", why);
    }
    assert_memory_equal(&loaded, &defaults, sizeof defaults);
    assert_int_equal(defaults.round_cohort, 10);
    assert_int_equal(defaults.round_deadline, 600000);
    assert_int_equal(defaults.limits_clients, 1000000);
}

CASE(test_overrides_of_other_programs_are_refused)
{
    struct tern_aggregator_settings values;
    char why[512];
    tern_settings_defaults(&tern_aggregator_settings_table, &values);
    static const char *const foreign[] = {"client.server=x", "data.source=x", "budget.month=1",
                                          "fleet.clients=3", "experiment.name=x"};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        assert_int_equal(
            tern_settings_set(&tern_aggregator_settings_table, &values, foreign[i], why),
            TERN_ERR_CONFIG);
        assert_non_null(strstr(why, "is read by "));
    }
    assert_int_equal(
        tern_settings_set(&tern_aggregator_settings_table, &values, "round.cohorts=3", why),
        TERN_ERR_CONFIG);
}
