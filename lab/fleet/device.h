// What the device of one of the fleet's clients is like: how fast, how much it may send in a month,
// which rounds it misses, when it joins, whether it attacks. All of it follows from the settings, the client's number
// and fleet.seed, so that two runs have the same devices. Pure; reentrant.
#ifndef TERN_FLEET_DEVICE_H
#define TERN_FLEET_DEVICE_H

#include "fleet/attack.h"
#include "fleet/settings.h"
#include "result.h"
#include <stdbool.h>

#define TERN_DEVICE_AWAY_MAX 8u

struct tern_device_away {
    uint32_t first, last; // rounds
};

struct tern_device {
    uint32_t number; // of the client, from 1
    uint64_t seed;
    double speed;    // local steps per second of its own time; 0 = as fast as it really is
    uint64_t budget; // wire bytes per month; 0 = none
    double absent;   // share of rounds that it misses
    enum tern_attack attack;
    uint32_t joins; // stays unseen until there is this version; 0 = is there from the start
    struct tern_device_away away[TERN_DEVICE_AWAY_MAX];
    uint32_t away_count;
};

// Draws speed and budget, log-uniform between the setting and the setting times its spread, and
// reads fleet.join, fleet.away and fleet.attack.
// TERN_ERR_CONFIG  one of these is malformed or names a client or an attack that there is not; why: a
//                  sentence
TERN_MUST_USE enum tern_result tern_device_make(const struct tern_fleet_settings *settings,
                                                uint32_t number, struct tern_device *device,
                                                char why[512]);

// Whether it misses this round: it is away, or the draw of (seed, number, round) is below absent.
bool tern_device_misses(const struct tern_device *device, uint32_t round);

// Whether `round` is within one of its absences that fleet.away names.
bool tern_device_is_away(const struct tern_device *device, uint32_t round);

#endif
