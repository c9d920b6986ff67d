// The condition port over a fake root and a clock that the test moves: what it decides, how long it
// keeps what it saw, and where a lost limit is met again.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/harness/fake_root.h"
#include "posix/conditions.h"
#include "tests/cases.h"

static struct tern_posix_conditions conditions;
static uint64_t now_ms;
static double cpu_seconds;
static const char *why;

static uint64_t monotonic_ms(void *ctx)
{
    (void)ctx;
    return now_ms;
}

static double process_cpu_seconds(void)
{
    return cpu_seconds;
}

static int set_up(void **state)
{
    (void)state;
    unsetenv("DBUS_SYSTEM_BUS_ADDRESS");
    now_ms = 5000;
    cpu_seconds = 0;
    conditions = (struct tern_posix_conditions){
        .root = fake_root_make(),
        .clock.monotonic_ms = monotonic_ms,
        .cpu_seconds = process_cpu_seconds,
    };
    fake_root_put("sys/devices/system/cpu/online", "0-1\n");
    fake_root_put("proc/loadavg", "0.10 0.20 0.30 1/99 1\n");
    fake_root_put("sys/class/thermal/thermal_zone0/temp", "40000\n");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tern_posix_conditions_close(&conditions);
    fake_root_remove();
    return 0;
}

static void ask_for(const char *when)
{
    char problem[TERN_WHEN_WHY_MAX];
    assert_int_equal(tern_when_parse(when, &conditions.when, problem), TERN_OK);
}

static bool may_work_now(struct tern_conditions *now)
{
    const struct tern_condition_port port = tern_posix_conditions_port(&conditions);
    memset(now, 0xa5, sizeof *now);
    why = NULL;
    return port.may_work(port.ctx, now, &why);
}

// Some seconds later, when nothing of what was seen is fresh.
static bool may_work(void)
{
    struct tern_conditions now;
    now_ms += 2000;
    return may_work_now(&now);
}

static void put_degrees(int degrees)
{
    char text[32];
    snprintf(text, sizeof text, "%d000\n", degrees);
    fake_root_put("sys/class/thermal/thermal_zone0/temp", text);
}

static void put_load(const char *load)
{
    char text[64];
    snprintf(text, sizeof text, "%s 0 0 1/99 1\n", load);
    fake_root_put("proc/loadavg", text);
}

static void put_battery(const char *status, const char *capacity)
{
    fake_root_put("sys/class/power_supply/BAT0/type", "Battery\n");
    fake_root_put("sys/class/power_supply/BAT0/status", status);
    fake_root_put("sys/class/power_supply/BAT0/capacity", capacity);
}

#define TEST(name) CASE_WITH(name, set_up, tear_down)

TEST(nothing_asked_always_works)
{
    struct tern_conditions now;
    fake_root_drop("sys");
    fake_root_drop("proc");
    assert_true(may_work_now(&now));
    assert_false(now.metered);
    assert_int_equal(now.power, 0);
}

TEST(check_in_is_told_what_the_probes_saw)
{
    struct tern_conditions now;
    conditions.metered = TERN_METERED_YES;
    put_battery("Discharging\n", "50\n");
    assert_true(may_work_now(&now));
    assert_true(now.metered);
    assert_int_equal(now.power, 1);
    put_battery("Charging\n", "50\n");
    conditions.metered = TERN_METERED_NO;
    now_ms += 2000;
    assert_true(may_work_now(&now));
    assert_false(now.metered);
    assert_int_equal(now.power, 2);
}

TEST(every_condition_can_forbid)
{
    ask_for("unmetered, charging, idle, temperature<70, battery>40");
    put_battery("Charging\n", "60\n");
    assert_true(may_work());
    conditions.metered = TERN_METERED_YES;
    assert_false(may_work());
    assert_string_equal(why, "unmetered is not met: the settings declare the link as metered");
    conditions.metered = TERN_METERED_NO;
    put_battery("Discharging\n", "60\n");
    assert_false(may_work());
    assert_string_equal(why, "charging is not met: BAT0 is discharging");
    put_battery("Charging\n", "40\n");
    assert_false(may_work());
    assert_string_equal(why, "battery>40 is not met: BAT0 is charged to 40 %");
    put_battery("Charging\n", "60\n");
    put_load("0.60");
    assert_false(may_work());
    assert_string_equal(why, "load<0.3 is not met: 0.60 of others on 2 processors: 0.30 per core");
    put_load("0.10");
    put_degrees(70);
    assert_false(may_work());
    assert_string_equal(why, "temperature<70 is not met: 70.0 degrees Celsius in thermal_zone0, "
                             "the hottest of 1");
    put_degrees(40);
    assert_true(may_work());
}

TEST(what_cannot_be_read_is_not_met)
{
    static const char *const each[] = {"unmetered", "charging", "idle", "temperature<70",
                                       "battery>40"};
    fake_root_drop("sys");
    fake_root_drop("proc");
    conditions.metered = TERN_METERED_ASK; // and there is no bus below this root
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) {
        ask_for(each[i]);
        assert_false(may_work());
        assert_non_null(strstr(why, " is unknown: "));
    }
    conditions.metered = TERN_METERED_NO; // the owner knows
    ask_for("unmetered");
    assert_true(may_work());
}

TEST(reading_is_kept_for_a_second)
{
    struct tern_conditions now;
    ask_for("temperature<70");
    assert_true(may_work_now(&now));
    put_degrees(90);
    now_ms += TERN_CONDITIONS_FRESH_MS - 1;
    assert_true(may_work_now(&now));
    now_ms += 1;
    assert_false(may_work_now(&now));
}

TEST(transfer_has_fresh_readings)
{
    const struct tern_condition_port port = tern_posix_conditions_port(&conditions);
    struct tern_conditions now;
    ask_for("temperature<70");
    assert_true(may_work_now(&now));
    assert_true(port.may_go_on(port.ctx, &now, &why));
    put_degrees(90);
    assert_true(may_work_now(&now));
    assert_false(port.may_go_on(port.ctx, &now, &why));
    assert_false(may_work_now(&now));
}

TEST(lost_limit_is_met_again_at_a_distance)
{
    ask_for("temperature<70");
    put_degrees(69);
    assert_true(may_work()); // never lost
    put_degrees(70);
    assert_false(may_work());
    put_degrees(66);
    assert_false(may_work());
    assert_string_equal(why,
                        "temperature<70 was not met and is met again at 65: 66.0 degrees Celsius "
                        "in thermal_zone0, the hottest of 1");
    put_degrees(65);
    assert_true(may_work());
    put_degrees(69);
    assert_true(may_work());
}

TEST(load_and_battery_have_a_distance_too)
{
    ask_for("load<0.5, battery>40");
    put_battery("Discharging\n", "41\n");
    put_load("1.00"); // on two processors
    assert_false(may_work());
    put_load("0.82");
    assert_false(may_work());
    put_load("0.80");
    assert_true(may_work());
    put_load("0.98");
    assert_true(may_work());
    put_battery("Discharging\n", "40\n");
    assert_false(may_work());
    put_battery("Charging\n", "44\n");
    assert_false(may_work());
    put_battery("Charging\n", "45\n");
    assert_true(may_work());
}

// One processor is kept busy by this process and by nothing else: the average goes to 1 as the
// kernel's does, and no part of it is other people's.
TEST(own_work_is_no_load)
{
    static const char *const average[] = {"0.15", "0.28", "0.39", "0.49", "0.57",
                                          "0.63", "0.69", "0.74", "0.78", "0.81"};
    ask_for("load<0.05");
    put_load("0.00");
    assert_true(may_work());
    for (size_t i = 0; i < sizeof average / sizeof average[0]; i++) {
        struct tern_conditions now;
        put_load(average[i]);
        now_ms += 10000;
        cpu_seconds += 10;
        assert_true(may_work_now(&now));
    }
    put_load("1.81"); // somebody else came
    cpu_seconds += 2;
    assert_false(may_work());
}

TEST(process_that_worked_before_the_first_look_is_believed)
{
    ask_for("load<0.05");
    cpu_seconds = 60; // a minute of loading data
    put_load("0.63");
    assert_true(may_work());
}

TEST(bus_that_is_not_there_is_left_alone_for_a_while)
{
    ask_for("unmetered");
    conditions.metered = TERN_METERED_ASK;
    assert_false(may_work());
    const uint64_t again = conditions.next_bus_query_ms;
    assert_int_equal(again, now_ms + TERN_CONDITIONS_BUS_AGAIN_MS);
    assert_false(may_work());
    assert_int_equal(conditions.next_bus_query_ms, again);
    now_ms = again;
    assert_false(may_work());
    assert_true(conditions.next_bus_query_ms > again);
}

TEST(owners_word_has_many_forms)
{
    enum tern_metered_word word = TERN_METERED_NO;
    assert_int_equal(tern_metered_word_parse("auto", &word), TERN_OK);
    assert_int_equal(word, TERN_METERED_ASK);
    assert_int_equal(tern_metered_word_parse("Yes", &word), TERN_OK);
    assert_int_equal(word, TERN_METERED_YES);
    assert_int_equal(tern_metered_word_parse("false", &word), TERN_OK);
    assert_int_equal(word, TERN_METERED_NO);
    assert_int_equal(tern_metered_word_parse("maybe", &word), TERN_ERR_CONFIG);
    assert_int_equal(tern_metered_word_parse("", &word), TERN_ERR_CONFIG);
}

TEST(look_reads_also_what_is_not_asked)
{
    assert_true(tern_posix_conditions_read(&conditions, &why));
    assert_true(conditions.findings[TERN_CONDITION_LOAD].reading.known);
    assert_true(conditions.findings[TERN_CONDITION_TEMPERATURE].reading.value == 40);
    assert_string_equal(conditions.findings[TERN_CONDITION_BATTERY].reading.text,
                        "the folder cannot be read");
    ask_for("battery>40");
    assert_false(tern_posix_conditions_read(&conditions, &why));
    assert_string_equal(why, "battery>40 is unknown: the folder cannot be read");
}
