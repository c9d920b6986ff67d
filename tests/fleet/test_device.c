// What the settings make of a client's device: the same for the same seed, within the bounds, and
// malformed lists are refused.
#include "fleet/device.h"
#include "tests/cases.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define CLIENTS 200u

static struct tern_fleet_settings settings_of(const char *join, const char *away)
{
    struct tern_fleet_settings settings = {.fleet_clients = CLIENTS,
                                           .fleet_seed = 3,
                                           .fleet_speed = 10,
                                           .fleet_speed_spread = 20,
                                           .fleet_budget = 1000,
                                           .fleet_budget_spread = 10,
                                           .fleet_absent = 0.3,
                                           .fleet_attack = "sign-flip"};
    snprintf(settings.fleet_join, sizeof settings.fleet_join, "%s", join);
    snprintf(settings.fleet_away, sizeof settings.fleet_away, "%s", away);
    return settings;
}

static struct tern_device device_of(const struct tern_fleet_settings *settings, uint32_t number)
{
    struct tern_device device;
    char why[512];
    assert_int_equal(tern_device_make(settings, number, &device, why), TERN_OK);
    return device;
}

CASE(speeds_and_budgets_are_spread_log_uniform)
{
    const struct tern_fleet_settings settings = settings_of("", "");
    uint32_t slow = 0;
    uint32_t poor = 0;
    double product = 0;
    for (uint32_t i = 1; i <= CLIENTS; i++) {
        const struct tern_device device = device_of(&settings, i);
        assert_true(device.speed >= 10 && device.speed <= 200);
        assert_true(device.budget >= 1000 && device.budget <= 10000);
        slow += device.speed < 10 * sqrt(20.0);
        poor += (double)device.budget < 1000 * sqrt(10.0);
        product += (log(device.speed / 10) / log(20.0) - 0.5) *
                   (log((double)device.budget / 1000) / log(10.0) - 0.5);
    }
    // Half of each within five standard deviations; neither follows from the other.
    assert_in_range(slow, 65, 135);
    assert_in_range(poor, 65, 135);
    assert_true(fabs(product / CLIENTS) < 0.03);
}

CASE(the_same_seed_makes_the_same_devices)
{
    struct tern_fleet_settings settings = settings_of("", "");
    const struct tern_device one = device_of(&settings, 7);
    const struct tern_device again = device_of(&settings, 7);
    assert_memory_equal(&one, &again, sizeof one);
    settings.fleet_seed = 4;
    assert_true(device_of(&settings, 7).speed != one.speed);
}

CASE(without_settings_a_device_is_the_machine_itself)
{
    struct tern_fleet_settings settings = settings_of("", "");
    settings.fleet_speed = 0;
    settings.fleet_budget = 0;
    settings.fleet_absent = 0;
    const struct tern_device device = device_of(&settings, 1);
    assert_true(device.speed == 0 && device.budget == 0 && device.joins == 0);
    for (uint32_t round = 1; round <= 100; round++) {
        assert_false(tern_device_misses(&device, round));
    }
}

CASE(the_share_of_rounds_is_missed_differently_by_each)
{
    const struct tern_fleet_settings settings = settings_of("", "");
    const struct tern_device one = device_of(&settings, 1);
    const struct tern_device two = device_of(&settings, 2);
    uint32_t missed = 0;
    uint32_t both = 0;
    for (uint32_t round = 1; round <= 1000; round++) {
        const bool misses = tern_device_misses(&one, round);
        assert_int_equal(misses, tern_device_misses(&one, round));
        missed += misses;
        both += misses && tern_device_misses(&two, round);
    }
    assert_in_range(missed, 230, 370); // 300 within five standard deviations
    assert_in_range(both, 45, 140);    // 90
}

CASE(who_is_away_or_joins_late_is_read_from_lists)
{
    struct tern_fleet_settings settings = settings_of("49:100  50:7", "7:60-69 8:1-1 7:80-81");
    settings.fleet_absent = 0;
    const struct tern_device seven = device_of(&settings, 7);
    assert_false(tern_device_misses(&seven, 59));
    assert_true(tern_device_misses(&seven, 60));
    assert_true(tern_device_is_away(&seven, 69));
    assert_false(tern_device_misses(&seven, 70));
    assert_true(tern_device_misses(&seven, 81));
    const struct tern_device eight = device_of(&settings, 8);
    assert_true(tern_device_misses(&eight, 1));
    assert_false(tern_device_misses(&eight, 2));
    assert_int_equal(device_of(&settings, 49).joins, 100);
    assert_int_equal(device_of(&settings, 50).joins, 7);
    assert_int_equal(device_of(&settings, 7).joins, 0);
}

CASE(malformed_lists_are_refused_with_a_sentence)
{
    static const char *const joins[] = {"x",      "49",     "49:",           "49:0",
                                        "0:10",   "201:10", "49:100,50:1",   "49:100x",
                                        "49:1-2", "-1:4",   "49:99999999999"};
    static const char *const aways[] = {"7:60",
                                        "7:69-60",
                                        "7:60-",
                                        "7:0-3",
                                        "201:1-2",
                                        "7:1-2-3",
                                        "7:1-1 7:2-2 7:3-3 7:4-4 7:5-5 7:6-6 7:7-7 7:8-8 7:9-9"};
    struct tern_device device;
    char why[512];
    for (size_t i = 0; i < sizeof joins / sizeof joins[0]; i++) {
        const struct tern_fleet_settings settings = settings_of(joins[i], "");
        assert_int_equal(tern_device_make(&settings, 7, &device, why), TERN_ERR_CONFIG);
        assert_non_null(strstr(why, "fleet.join"));
    }
    for (size_t i = 0; i < sizeof aways / sizeof aways[0]; i++) {
        const struct tern_fleet_settings settings = settings_of("", aways[i]);
        assert_int_equal(tern_device_make(&settings, 7, &device, why), TERN_ERR_CONFIG);
        assert_non_null(strstr(why, "fleet.away"));
    }
}
