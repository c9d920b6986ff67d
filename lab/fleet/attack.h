// Clients of a fleet that attack: what strategies hold against that is measured with them. An attacker is a
// client like any other but for its trainer, which hands over something else than what it trained; or
// it trains honestly on labels that are wrong. Which clients attack, and what each sends, follows from
// the settings. One thread per attacker; the rest is reentrant.
#ifndef TERN_FLEET_ATTACK_H
#define TERN_FLEET_ATTACK_H

#include "fleet/settings.h"
#include "ports.h"
#include "result.h"
#include <stdbool.h>

#define TERN_ATTACK_NAMES "sign-flip, scaled, random, label-flip"

enum tern_attack {
    TERN_ATTACK_NONE = 0,
    TERN_ATTACK_SIGN_FLIP, // the change that it trained, negated
    TERN_ATTACK_SCALED,    // the same times fleet.attack_scale
    TERN_ATTACK_RANDOM,    // uniform noise, fleet.attack_scale times the norm of its change
    TERN_ATTACK_LABEL_FLIP, // of c classes, trains on c - 1 - label (Fang et al., USENIX Security 2020)
};

// Of client `number`, from 1: fleet.attackers of the clients, rounded to the nearest number of them,
// attack, at equal distances from a drawn one on.
// TERN_ERR_CONFIG  fleet.attack is not known; why: a sentence
TERN_MUST_USE enum tern_result tern_attack_of(const struct tern_fleet_settings *settings,
                                              uint32_t number, enum tern_attack *attack,
                                              char why[512]);

// How many clients attack.
uint32_t tern_attack_count(const struct tern_fleet_settings *settings);

// Zeroed but for the first members.
struct tern_attacker {
    enum tern_attack kind;
    double scale;
    uint64_t seed;               // of the noise, with number and round
    uint32_t number;             // of the client
    struct tern_trainer trainer; // the honest one; borrowed

    const float *base; // of the training in hand, borrowed from the client
    uint32_t count;
    uint32_t round;
};

// The trainer of an attacker, borrowed by it: it trains as the honest one does, and then turns the
// trained weights into those whose change from the base is what the attacker sends. A client that does
// not falsify its change has the honest trainer itself.
struct tern_trainer tern_attack_port(struct tern_attacker *attacker);

#endif
