// Attackers among a fleet's clients, to measure how well strategies resist them. An attacker differs from other
// clients only in its trainer: it falsifies the trained weights, or trains honestly on false labels. The settings
// determine which clients attack and what each sends. One thread per attacker; the other functions are reentrant.
#ifndef TERN_FLEET_ATTACK_H
#define TERN_FLEET_ATTACK_H

#include "fleet/settings.h"
#include "ports.h"
#include "result.h"
#include <stdbool.h>

#define TERN_ATTACK_NAMES "sign-flip, scaled, random, label-flip"

enum tern_attack {
    TERN_ATTACK_NONE = 0,
    TERN_ATTACK_SIGN_FLIP, // sends its trained change, negated
    TERN_ATTACK_SCALED,    // sends its trained change, negated, times fleet.attack_scale
    TERN_ATTACK_RANDOM, // sends uniform noise with fleet.attack_scale times the norm of its trained change
    TERN_ATTACK_LABEL_FLIP, // trains on label c - 1 - label of c classes (Fang et al., USENIX Security 2020)
};

// Returns the attack of client `number`, counted from 1. The share fleet.attackers of the clients, rounded, attacks:
// at equal distances from a random first one.
// TERN_ERR_CONFIG  fleet.attack is unknown; why: a sentence
TERN_MUST_USE enum tern_result tern_attack_of(const struct tern_fleet_settings *settings,
                                              uint32_t number, enum tern_attack *attack,
                                              char why[512]);

// Returns the number of attackers.
uint32_t tern_attack_count(const struct tern_fleet_settings *settings);

// Zeroed except for the first members.
struct tern_attacker {
    enum tern_attack kind;
    double scale;
    uint64_t seed;               // seed of the noise; number and round choose the stream
    uint32_t number;             // the client's number, from 1
    struct tern_trainer trainer; // the honest one; borrowed

    const float *base; // start of the current training; borrowed from the client
    uint32_t count;
    uint32_t round;
};

// Returns the attacker's trainer, which borrows the attacker. It trains honestly and then replaces the trained
// weights, so that their change from the base is the false one. Without a falsified change this is the honest trainer
// itself.
struct tern_trainer tern_attack_port(struct tern_attacker *attacker);

#endif
