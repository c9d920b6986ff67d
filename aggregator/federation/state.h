// State that the files of federation/ share: the federation's configuration, its ports and the open round. State that
// only one file uses is a pointer to a struct that this file defines. Only files of this folder include this header;
// all run on the thread that owns the store, unless a comment names another.
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
    uint32_t clients; // clients that sent at least one of the refused updates
    uint32_t draws;   // consecutive earlier draws in which every update was refused for its values
};

// Members stored since the round was last published. In a cohort of thousands, one transaction changes few.
#define UNPUBLISHED_MAX 1024

struct unpublished {
    bool any;
    uint32_t count; // changed members; above UNPUBLISHED_MAX: publish all members
    uint64_t clients[UNPUBLISHED_MAX]; // ids of the changed members
};

// Position of the open or the next round in its epoch (round.c); zeros for a strategy without epochs.
struct epoch {
    bool is_on;
    uint32_t steps;  // rounds of an epoch (T in the paper)
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
    struct tern_federation_counts counted; // counts at the start of this transaction
    uint64_t searches;    // searches for paths between replicas by earlier `catchup` objects
    uint32_t last_opened; // with config.upstream_client: the last round that may open

    struct clients *clients;        // clients.h
    struct ledger *ledger;          // ledger.c
    struct scaling *scaling;        // statistics.c
    struct shared_indices *indices; // update.c
    struct recent_facts *recent;    // federation.c

    // The five pointers above and all members below are derived from the store. tern_federation_load() zeroes and
    // reloads them, so that nothing of a rolled back transaction remains. It finds new members below by itself.
    struct tern_catchup *catchup;       // first of the derived members
    struct tern_round_machine machine;  // its array of members is owned
    struct tern_db_round row;           // the stored row of the machine's round
    struct tern_strategy_totals totals; // sums over the open round's updates
    float last_loss;
    struct tern_steps_state course; // of local steps, from the committed rounds
    struct tern_rate_state rate;    // of the learning rate, from the opened rounds
    struct epoch epoch;
    struct refused refused;
    struct unpublished unpublished;

    bool disk_is_low;    // result of the last check, so that the log reports a change once
    bool room_due;       // check the disk again before the next version; set by a load
    uint64_t disk_room;  // result of the last check: bytes by which the database can still grow
    bool checkpoint_due; // the newest version's checkpoint is begun and not complete
    bool prune_due;      // updates of pruned rounds, or older checkpoints, may remain in the store
    bool moved;          // see tern_federation_has_progressed()
    bool too_few_afford; // the log has reported that too few budgets allow a round
    uint64_t look_ms;    // when to check for silent members again; 0 = now
    uint64_t loaded_ms;  // when this state was loaded from the store
    uint64_t retry_open_ms; // when to try again to open a round; 0 = now
    bool too_few;           // no round opens: fewer than min_clients have enrolled
    bool accuracy_is_known; // no evaluation was stored since the last tern_accuracy_newest()
    char damage[256];       // see tern_federation_damage(); empty = none
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
