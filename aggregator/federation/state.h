// What the rooms of federation/ share: the federation's configuration, its ports and the open round. State of one room
// alone lies behind a pointer to a struct that this room defines. Only files of this folder include this header; all
// run on the thread that owns the store, unless a comment names another.
#ifndef TERN_FEDERATION_STATE_H
#define TERN_FEDERATION_STATE_H

#include "federation/federation.h"
#include "federation/published.h"
#include "hosted/log.h"
#include <string.h>

// Updates since members were last selected (refusals.c).
struct refused {
    uint32_t draw;
    uint32_t accepted;
    uint32_t updates; // refused for their values
    uint32_t clients; // that sent at least one of these
    uint32_t draws;   // consecutive earlier draws in which every update was refused for its values
};

// Members stored since the round was last published. In a cohort of thousands, one transaction changes few.
#define UNPUBLISHED_MAX 1024

struct unpublished {
    bool any;
    uint32_t count;                    // of members; above UNPUBLISHED_MAX: publish them all
    uint64_t clients[UNPUBLISHED_MAX]; // their ids
};

// Place of the open or the next round in its epoch (round.c); zeros for a strategy without epochs.
struct epoch {
    bool is_on;
    uint32_t steps;  // T
    uint32_t step;   // earlier rounds of this epoch; 0: this round computes the full gradient
    uint32_t anchor; // round that computed the full gradient; 0: this one
    float learning_rate;
};

struct tern_federation {
    struct tern_federation_config config; // set by tern_federation_configure()
    struct tern_federation_ports ports;
    struct tern_db *db;
    struct tern_db_federation about; // read-only

    struct tern_merge merge;           // version, weights, replica; model and sizes are read-only
    struct closing *closing;           // round.c
    struct tern_published published;   // any thread
    struct tern_reading_room readings; // any thread
    struct tern_federation_counts counts;
    struct tern_federation_counts counted; // counts when the present transaction began
    uint64_t searches;    // for paths between replicas, by catchups that were freed since
    uint32_t last_opened; // with config.follower: the last round that may open

    struct clients *clients;        // clients.h
    struct ledger *ledger;          // ledger.c
    struct scaling *scaling;        // statistics.c
    struct shared_indices *indices; // update.c
    struct recent_facts *recent;    // federation.c

    // Everything from here on is derived from the store, as are the five above. tern_federation_load() forgets and loads it, so that a rolled
    // back transaction leaves nothing behind. New members below need no care, new members above do.
    struct tern_catchup *catchup;       // first of the derived members
    struct tern_round_machine machine;  // we own its members
    struct tern_db_round row;           // of the machine's round
    struct tern_strategy_totals totals; // of the open round's updates
    float last_loss;
    struct tern_steps_course course; // of the committed rounds
    struct tern_rate_course rate;    // of the opened rounds
    struct epoch epoch;
    struct refused refused;
    struct unpublished unpublished;

    bool disk_is_low;       // result of the last check, so that the log reports a change once
    bool room_due;          // after a load: on a low disk, drop rows before the next version
    uint64_t disk_room;     // result of the last check: bytes by which the database can still grow
    bool checkpoint_due;    // for the newest version; a part of it may be stored
    bool prune_due;         // bodies of pruned rounds, or older checkpoints, may be left
    bool moved;             // see tern_federation_moved()
    bool too_few_afford;    // the log has reported that too few budgets allow a round
    uint64_t look_ms;       // when to check for silent members again; 0 = now
    uint64_t loaded_ms;     // when this was loaded from the store
    uint64_t retry_open_ms; // no client was eligible: when to try again; 0 = now
    bool too_few;           // no round opens: fewer than min_clients have enrolled
    bool accuracy_is_known; // no evaluation was stored since the last tern_accuracy_newest()
    char damage[256];       // empty = none
};

// Limits log lines of one kind to the 1st, 2nd, 4th, 8th, ...
static inline bool is_power_of_two(uint32_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

// Whether the hash that a client names is the model's; an absent hash matches.
static inline bool is_of_our_model(const struct tern_federation *federation, const uint8_t *hash,
                                   size_t size)
{
    return size == 0 || memcmp(hash, federation->about.model_hash, TERN_SHA256_SIZE) == 0;
}

#endif
