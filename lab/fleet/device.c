#include "fleet/device.h"
#include "util/prng.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Indices of the draws in a client's stream 0; streams from 1 on belong to the rounds.
enum { DRAW_SPEED, DRAW_BUDGET };

static double draw(const struct tern_device *device, uint32_t stream, uint32_t index)
{
    struct tern_prng rng;
    tern_prng_init(&rng, device->seed, TERN_PRNG_FLEET, device->number, stream);
    tern_prng_seek(&rng, index);
    return (double)tern_prng_float(&rng);
}

static double log_uniform(double least, double spread, double share)
{
    return least * pow(spread, share);
}

// --- Lists such as "49:100 50:100" and "7:60-69"

struct entry {
    uint32_t number, first, last; // last = first without a range
};

static bool read_number(const char **at, uint32_t *value)
{
    char *end = NULL;
    if (!isdigit((unsigned char)**at)) {
        return false;
    }
    const unsigned long long parsed = strtoull(*at, &end, 10);
    *at = end;
    *value = (uint32_t)parsed;
    return parsed > 0 && parsed <= UINT32_MAX;
}

static bool skip(const char **at, char wanted)
{
    const bool there = **at == wanted;
    *at += there;
    return there;
}

static bool read_entry(const char **at, bool range, uint32_t clients, struct entry *entry)
{
    if (!read_number(at, &entry->number) || entry->number > clients || !skip(at, ':') ||
        !read_number(at, &entry->first)) {
        return false;
    }
    entry->last = entry->first;
    if (range && (!skip(at, '-') || !read_number(at, &entry->last))) {
        return false;
    }
    return entry->last >= entry->first && (**at == ' ' || **at == '\0');
}

static bool take_entry(struct tern_device *device, bool range, const struct entry *entry)
{
    if (entry->number != device->number) {
        return true;
    }
    if (!range) {
        device->joins = entry->first;
        return true;
    }
    if (device->away_count == TERN_DEVICE_AWAY_MAX) {
        return false;
    }
    device->away[device->away_count++] = (struct tern_device_away){entry->first, entry->last};
    return true;
}

static bool read_list(const char *text, bool range, uint32_t clients, struct tern_device *device)
{
    const char *at = text;
    struct entry entry;
    for (;;) {
        while (skip(&at, ' ')) {
        }
        if (*at == '\0') {
            return true;
        }
        if (!read_entry(&at, range, clients, &entry) || !take_entry(device, range, &entry)) {
            return false;
        }
    }
}

// --- Devices

enum tern_result tern_device_make(const struct tern_fleet_settings *settings, uint32_t number,
                                  struct tern_device *device, char why[512])
{
    *device = (struct tern_device){
        .number = number, .seed = settings->fleet_seed, .absent = settings->fleet_absent};
    if (settings->fleet_speed > 0) {
        device->speed = log_uniform(settings->fleet_speed, settings->fleet_speed_spread,
                                    draw(device, 0, DRAW_SPEED));
    }
    if (settings->fleet_budget > 0) {
        device->budget =
            (uint64_t)log_uniform((double)settings->fleet_budget, settings->fleet_budget_spread,
                                  draw(device, 0, DRAW_BUDGET));
    }
    if (!read_list(settings->fleet_join, false, settings->fleet_clients, device)) {
        snprintf(why, 512,
                 "fleet.join '%.100s' is not a list such as 49:100 50:100 (clients 1 to %u)",
                 settings->fleet_join, settings->fleet_clients);
        return TERN_ERR_CONFIG;
    }
    if (!read_list(settings->fleet_away, true, settings->fleet_clients, device)) {
        snprintf(
            why, 512,
            "fleet.away '%.100s' is not a list such as 7:60-69 8:60-69 (clients 1 to %u, at most "
            "%u absences each)",
            settings->fleet_away, settings->fleet_clients, TERN_DEVICE_AWAY_MAX);
        return TERN_ERR_CONFIG;
    }
    return tern_attack_of(settings, number, &device->attack, why);
}

bool tern_device_is_away(const struct tern_device *device, uint32_t round)
{
    for (uint32_t i = 0; i < device->away_count; i++) {
        if (round >= device->away[i].first && round <= device->away[i].last) {
            return true;
        }
    }
    return false;
}

bool tern_device_misses(const struct tern_device *device, uint32_t round)
{
    return tern_device_is_away(device, round) ||
           (device->absent > 0 && draw(device, round, 0) < device->absent);
}
