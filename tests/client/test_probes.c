// What the probes read below a fake root: batteries, supplies, load, heat, and garbage.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/harness/fake_root.h"
#include "posix/conditions.h"
#include "tests/cases.h"

static const char *root;

static int set_up(void **state)
{
    (void)state;
    root = fake_root_make();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fake_root_remove();
    return 0;
}

// --- Power

static void put_supply(const char *name, const char *type, const char *attribute, const char *value)
{
    char path[128];
    snprintf(path, sizeof path, "sys/class/power_supply/%s/type", name);
    fake_root_put(path, type);
    snprintf(path, sizeof path, "sys/class/power_supply/%s/%s", name, attribute);
    fake_root_put(path, value);
}

static struct tern_reading battery;

static struct tern_reading charging(void)
{
    struct tern_reading reading;
    memset(&reading, 0xa5, sizeof reading);
    memset(&battery, 0xa5, sizeof battery);
    tern_probe_power(root, &reading, &battery);
    return reading;
}

static void charging_is(bool yes, const char *said)
{
    const struct tern_reading reading = charging();
    assert_string_equal(reading.text, said);
    assert_true(reading.known);
    assert_true(reading.value == (yes ? 1 : 0));
}

static void charging_is_unknown(const char *said)
{
    const struct tern_reading reading = charging();
    assert_string_equal(reading.text, said);
    assert_false(reading.known);
    assert_true(reading.value == 0);
}

#define TEST(name) CASE_WITH(name, set_up, tear_down)

TEST(battery_without_supply_tells_by_its_status)
{
    put_supply("BAT0", "Battery\n", "status", "Discharging\n");
    charging_is(false, "BAT0 is discharging");
    put_supply("BAT0", "Battery\n", "status", "Charging\n");
    charging_is(true, "BAT0 is charging");
    put_supply("BAT0", "Battery\n", "status", "Full\n");
    charging_is(true, "BAT0 is full");
    put_supply("BAT0", "Battery\n", "status", "Not charging\n");
    charging_is_unknown("no battery reports whether it charges, no supply is listed");
    put_supply("BAT0", "Battery\n", "status", "");
    charging_is_unknown("no battery reports whether it charges, no supply is listed");
}

TEST(supply_and_battery)
{
    put_supply("BAT0", "Battery\n", "status", "Not charging\n");
    put_supply("AC", "Mains\n", "online", "1\n");
    charging_is(true, "AC is online"); // kept below its threshold on purpose
    put_supply("AC", "Mains\n", "online", "0\n");
    charging_is(false, "there is a battery and no supply is online");
    put_supply("BAT0", "Battery\n", "status", "Full\n");
    charging_is(false, "there is a battery and no supply is online"); // the plug was just pulled
    put_supply("BAT0", "Battery\n", "status", "Charging\n");
    charging_is(true, "BAT0 is charging"); // from what is not listed
    put_supply("AC", "Mains\n", "online", "1\n");
    put_supply("BAT0", "Battery\n", "status", "Discharging\n");
    charging_is(false, "BAT0 is discharging"); // a supply too weak for the work
}

TEST(two_supplies_and_two_batteries)
{
    put_supply("AC", "Mains\n", "online", "0\n");
    put_supply("usb-c", "USB\n", "online", "2\n"); // a programmable voltage
    put_supply("BAT0", "Battery\n", "status", "Not charging\n");
    put_supply("BAT1", "Battery\n", "status", "Charging\n");
    charging_is(true, "usb-c is online");
    put_supply("BAT1", "Battery\n", "status", "Discharging\n");
    charging_is(false, "BAT1 is discharging");
    put_supply("usb-c", "USB\n", "online", "0\n");
    put_supply("BAT1", "Battery\n", "status", "Unknown\n");
    charging_is(false, "there is a battery and no supply is online");
}

TEST(ups_is_a_battery)
{
    put_supply("hid-ups", "UPS\n", "status", "Discharging\n");
    charging_is(false, "hid-ups is discharging");
    put_supply("hid-ups", "UPS\n", "status", "Charging\n");
    charging_is(true, "hid-ups is charging");
}

TEST(no_battery)
{
    put_supply("AC", "Mains\n", "online", "1\n");
    charging_is(true, "AC is online");
    assert_false(battery.known);
    assert_string_equal(battery.text, "no battery is listed");
    put_supply("AC", "Mains\n", "online", "0\n");
    charging_is_unknown("no supply is online, and no battery is listed");
}

TEST(nothing_listed_is_unknown)
{
    charging_is_unknown("the folder cannot be read");
    assert_false(battery.known);
    fake_root_put("sys/class/power_supply/x", "");
    fake_root_drop("sys/class/power_supply/x");
    charging_is_unknown("no power supply is listed");
    assert_string_equal(battery.text, "no battery is listed");
    assert_non_null(strstr(battery.source, "/sys/class/power_supply"));
}

TEST(mouse_and_empty_slot_do_not_count)
{
    put_supply("hidpp_battery_0", "Battery\n", "scope", "Device\n");
    put_supply("hidpp_battery_0", "Battery\n", "status", "Discharging\n");
    put_supply("hidpp_battery_0", "Battery\n", "capacity", "3\n");
    put_supply("BAT1", "Battery\n", "present", "0\n");
    put_supply("BAT1", "Battery\n", "status", "Discharging\n");
    charging_is_unknown("no power supply is listed");
    assert_false(battery.known);
}

TEST(garbage_of_supplies_is_not_believed)
{
    static const char *const garbage[] = {
        "", "\n", "yes\n", "1x\n", "99999999999999999999\n", "\x01\xff"};
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        put_supply("AC", "Mains\n", "online", garbage[i]);
        charging_is_unknown("no power supply is listed");
    }
    fake_root_drop("sys/class/power_supply/AC/online");
    fake_root_put("sys/class/power_supply/AC/online/folder", "1");
    charging_is_unknown("no power supply is listed");
    put_supply("BAT0", "Battery\n", "status", "\xff\xfe#!garbage that does not end for long\n");
    charging_is_unknown("no battery reports whether it charges, no supply is listed");
}

TEST(emptiest_battery_counts)
{
    put_supply("BAT0", "Battery\n", "capacity", "80\n");
    put_supply("BAT1", "Battery\n", "capacity", "35\n");
    (void)charging();
    assert_true(battery.known && battery.value == 35);
    assert_string_equal(battery.text, "BAT1 is charged to 35 %");
    put_supply("BAT1", "Battery\n", "capacity", "101\n");
    (void)charging();
    assert_true(battery.known && battery.value == 80);
    put_supply("BAT0", "Battery\n", "capacity", "-1\n");
    (void)charging();
    assert_false(battery.known);
    assert_string_equal(battery.text, "no battery reports its charge");
}

// --- Load

static struct tern_reading load(double own)
{
    struct tern_reading reading;
    memset(&reading, 0xa5, sizeof reading);
    tern_probe_load(root, own, &reading);
    return reading;
}

TEST(load_is_per_processor)
{
    fake_root_put("proc/loadavg", "3.00 2.00 1.00 2/95 24882\n");
    fake_root_put("sys/devices/system/cpu/online", "0-3\n");
    assert_true(load(0).known && load(0).value == 0.75);
    assert_string_equal(load(1).text, "2.00 of others on 4 processors: 0.50 per core");
    assert_true(load(1).value == 0.5);
    assert_true(load(8).known && load(8).value == 0);
    fake_root_put("sys/devices/system/cpu/online", "0,2-3,7-8\n");
    assert_true(load(0).value == 0.6);
    fake_root_put("sys/devices/system/cpu/online", "0\n");
    assert_string_equal(load(0).text, "3.00 of others on 1 processor: 3.00 per core");
}

TEST(load_that_makes_no_sense_is_unknown)
{
    static const char *const loads[] = {"",        "\n",         "busy 1 2",    "-1.0 0 0 1/2 3\n",
                                        "nan 0 0", "1e300 0 0 ", "0.5x 0 0 1/2"};
    static const char *const cpus[] = {"",    "\n",     "all",      "3-1", "0-",
                                       "0,,", "-4--2x", "0-999999", "0;1", "99999999999999999999"};
    assert_false(load(0).known);
    assert_string_equal(load(0).text, "the load cannot be read");
    fake_root_put("sys/devices/system/cpu/online", "0-1\n");
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        fake_root_put("proc/loadavg", loads[i]);
        assert_false(load(0).known);
    }
    fake_root_put("proc/loadavg", "0.10 0.20 0.30 1/99 1\n");
    assert_true(load(0).known);
    for (size_t i = 0; i < sizeof cpus / sizeof cpus[0]; i++) {
        fake_root_put("sys/devices/system/cpu/online", cpus[i]);
        assert_false(load(0).known);
    }
    fake_root_drop("sys");
    assert_false(load(0).known);
    assert_non_null(strstr(load(0).text, "cpu/online"));
}

// --- Temperature

static struct tern_reading temperature(void)
{
    struct tern_reading reading;
    memset(&reading, 0xa5, sizeof reading);
    tern_probe_temperature(root, &reading);
    return reading;
}

TEST(hottest_zone_counts)
{
    fake_root_put("sys/class/thermal/thermal_zone0/temp", "41000\n");
    fake_root_put("sys/class/thermal/thermal_zone1/temp", "82500\n");
    fake_root_put("sys/class/thermal/thermal_zone10/temp", "-12000\n");
    fake_root_put("sys/class/thermal/cooling_device0/temp", "99000\n");
    assert_true(temperature().known && temperature().value == 82.5);
    assert_string_equal(temperature().text,
                        "82.5 degrees Celsius in thermal_zone1, the hottest of 3");
    fake_root_drop("sys/class/thermal/thermal_zone1");
    assert_true(temperature().value == 41);
    fake_root_drop("sys/class/thermal/thermal_zone0");
    assert_true(temperature().known && temperature().value == -12);
}

TEST(zones_that_cannot_be_read_are_left_out)
{
    static const char *const garbage[] = {"",          "hot\n",  "-274000\n",
                                          "4000000\n", "0x20\n", "99999999999999999999\n"};
    assert_string_equal(temperature().text, "no thermal zone is listed");
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        fake_root_put("sys/class/thermal/thermal_zone0/temp", garbage[i]);
        assert_false(temperature().known);
        assert_string_equal(temperature().text, "no thermal zone reports a temperature");
    }
    fake_root_put("sys/class/thermal/thermal_zone1/type", "no temp file\n");
    fake_root_put("sys/class/thermal/thermal_zone2/temp/folder", "1\n");
    assert_false(temperature().known);
    fake_root_put("sys/class/thermal/thermal_zone3/temp", "36600\n");
    assert_true(temperature().known && temperature().value == 36.6);
}

// --- What is no ordinary file

// Neither may keep the probe waiting or reading.
TEST(load_in_no_ordinary_file_is_unknown)
{
    char path[512];
    struct tern_reading reading = {.known = true};
    fake_root_put("proc/loadavg", "");
    snprintf(path, sizeof path, "%s/proc/loadavg", root);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    tern_probe_load(root, 0, &reading);
    assert_false(reading.known);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/zero", path), 0);
    tern_probe_load(root, 0, &reading);
    assert_false(reading.known);
}

// --- The machine itself

TEST(real_machine_has_a_load)
{
    struct tern_reading reading = {0};
    tern_probe_load("", 0, &reading);
    assert_true(reading.known && reading.value >= 0);
}
