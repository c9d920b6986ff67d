// How the owner's conditions are read.
#include <string.h>

#include "posix/conditions.h"
#include "tests/cases.h"

static struct tern_when read_good(const char *text)
{
    struct tern_when when;
    char why[TERN_WHEN_WHY_MAX] = "";
    memset(&when, 0xa5, sizeof when);
    if (tern_when_parse(text, &when, why) != TERN_OK) {
        fail_msg("\"%s\": %s", text, why);
    }
    return when;
}

static void says(const char *text, const char *expected)
{
    struct tern_when when = {.required = {true}};
    const struct tern_when before = when;
    char why[TERN_WHEN_WHY_MAX] = "";
    assert_int_equal(tern_when_parse(text, &when, why), TERN_ERR_CONFIG);
    assert_string_equal(why, expected);
    assert_memory_equal(&when, &before, sizeof when);
}

CASE(nothing_asked_is_always)
{
    static const char *const empty[] = {"", "  ", "\t"};
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
        const struct tern_when when = read_good(empty[i]);
        for (int c = 0; c < TERN_CONDITION_COUNT; c++) {
            assert_false(when.required[c]);
        }
    }
}

CASE(all_in_any_order)
{
    const struct tern_when when =
        read_good(" battery > 40,temperature<70.5 , load<1.5,charging,  unmetered ");
    for (int c = 0; c < TERN_CONDITION_COUNT; c++) {
        assert_true(when.required[c]);
    }
    assert_true(when.limit[TERN_CONDITION_BATTERY] == 40);
    assert_true(when.limit[TERN_CONDITION_TEMPERATURE] == 70.5);
    assert_true(when.limit[TERN_CONDITION_LOAD] == 1.5);
}

CASE(only_what_is_asked)
{
    const struct tern_when when = read_good("temperature<-10");
    assert_true(when.required[TERN_CONDITION_TEMPERATURE]);
    assert_true(when.limit[TERN_CONDITION_TEMPERATURE] == -10);
    assert_false(when.required[TERN_CONDITION_UNMETERED] ||
                 when.required[TERN_CONDITION_CHARGING] || when.required[TERN_CONDITION_LOAD] ||
                 when.required[TERN_CONDITION_BATTERY]);
}

CASE(idle_is_a_load)
{
    const struct tern_when when = read_good("idle");
    assert_true(when.required[TERN_CONDITION_LOAD]);
    assert_true(when.limit[TERN_CONDITION_LOAD] == TERN_WHEN_IDLE_LOAD);
}

CASE(is_written_as_it_was_asked)
{
    char text[32];
    const struct tern_when when = read_good("charging,temperature<70,load<0.25,battery>40");
    tern_when_format(&when, TERN_CONDITION_CHARGING, text, sizeof text);
    assert_string_equal(text, "charging");
    tern_when_format(&when, TERN_CONDITION_TEMPERATURE, text, sizeof text);
    assert_string_equal(text, "temperature<70");
    tern_when_format(&when, TERN_CONDITION_LOAD, text, sizeof text);
    assert_string_equal(text, "load<0.25");
    tern_when_format(&when, TERN_CONDITION_BATTERY, text, sizeof text);
    assert_string_equal(text, "battery>40");
}

#define KNOWN "unmetered, charging, idle, load<N, temperature<N, battery>N"

CASE(errors_say_what_is_wrong)
{
    says("humid", "\"humid\" is no condition; known: " KNOWN);
    says("Charging", "\"Charging\" is no condition; known: " KNOWN);
    says("charging unmetered", "\"charging unmetered\" is no condition; known: " KNOWN);
    says("<70", "\"<70\" is no condition; known: " KNOWN);
    says("charging,", "a condition is missing before or after a comma; known: " KNOWN);
    says(",charging", "a condition is missing before or after a comma; known: " KNOWN);
    says("charging<3", "\"charging<3\": charging takes no limit");
    says("idle<3", "\"idle<3\": idle takes no limit, load<N does");
    says("temperature", "\"temperature\": temperature needs < and a number, e.g. temperature<70");
    says("temperature>70",
         "\"temperature>70\": temperature needs < and a number, e.g. temperature<70");
    says("temperature<=70",
         "\"temperature<=70\": temperature needs < and a number, e.g. temperature<70");
    says("temperature<", "\"temperature<\": temperature needs < and a number, e.g. temperature<70");
    says("load<nan", "\"load<nan\": load needs < and a number, e.g. load<1.5");
    says("load<1.5.2", "\"load<1.5.2\": load needs < and a number, e.g. load<1.5");
    says("battery<40", "\"battery<40\": battery needs > and a number, e.g. battery>40");
    says("battery>100", "\"battery>100\": the limit of battery must be from 0 to 95");
    says("load<0", "\"load<0\": the limit of load must be from 0.01 to 1000");
    says("temperature<999999999999999999999",
         "\"temperature<999999999999999999999\": the limit of temperature must be from -50 to 150");
    says("charging, charging", "charging is named twice");
    says("idle, load<2", "load is named twice; idle is short for load<0.3");
}

CASE(what_is_too_long_is_cut_in_the_error)
{
    says("a-condition-that-nobody-could-ever-have-thought-of-and-that-has-no-end",
         "\"a-condition-that-nobody-could-ever-have-...\" is no condition; known: " KNOWN);
}
