// The simulated device of a client: its speed, its monthly bytes, the rounds it misses, when it joins, whether it
// attacks. Settings, client number and fleet.seed determine all of it, so that two runs have the same devices. Pure;
// reentrant.
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
    uint32_t number; // the client's number, from 1
    uint64_t seed;
    double speed;    // local steps per second of its virtual time; 0: real speed
    uint64_t budget; // wire bytes per month; 0: no limit
    double absent;   // probability of missing a round
    enum tern_attack attack;
    uint32_t joins; // enrols once this version exists; 0: enrols at the start
    struct tern_device_away away[TERN_DEVICE_AWAY_MAX];
    uint32_t away_count;
};

// Draws speed and budget, log-uniform between the setting and the setting times its spread. Reads fleet.join,
// fleet.away and fleet.attack.
// TERN_ERR_CONFIG  one of these is malformed, or names an unknown client or attack; why: a sentence
TERN_MUST_USE enum tern_result tern_device_make(const struct tern_fleet_settings *settings,
                                                uint32_t number, struct tern_device *device,
                                                char why[512]);

// Returns whether the client misses this round: it is away, or the draw of (seed, number, round) is below `absent`.
bool tern_device_misses(const struct tern_device *device, uint32_t round);

// Returns whether fleet.away contains this client and round.
bool tern_device_is_away(const struct tern_device *device, uint32_t round);

#endif
