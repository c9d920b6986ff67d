// State that the files of federation/ share: the federation's configuration, its ports and the open round. State that
// only one file uses is a pointer to a struct that this file defines. Only files of this folder include this header;
// all run on the thread that owns the store, unless a comment names another.
#ifndef TERN_FEDERATION_STATE_H
#define TERN_FEDERATION_STATE_H

#include "federation/federation.h"
#include "federation/incoming.h"
#include "hosted/log.h"
#include "rounds/column_names.h"
#include <string.h>

// Updates since members were last selected (update.c).
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

// A client's update in the open round.
struct drift {
    // sum of its squared values; after the merge, of the values as scaled by the mean
    double square;
    float loss;
    uint32_t num_examples;
    uint32_t local_steps;
};

struct client {
    struct tern_db_client row;
    uint8_t stored_replica[TERN_SHA256_SIZE]; // row.replica as the store has it
    bool dirty;                               // the row is newer than the store's
    bool waiting;                             // its check-in is held
    bool gone; // result of the last check of the open round's members: do not wait for this one
    struct tern_searches searches;
    struct tern_steps_smoothed done; // local steps since the start, to measure its speed
    // Indexed by enum tern_db_evaluated (replica or global model): the newest version that the client evaluated, and
    // the newest that it was asked to evaluate a second time; there is no third time.
    uint32_t evaluated[TERN_LAST_evaluated + 1];
    uint32_t asked[TERN_LAST_evaluated + 1];
    uint64_t round_bytes; // bytes that its schedule expects a round to take
    uint64_t least_bytes; // the fewest bytes that a round can take
    struct drift drift;
    struct tern_error_suspicion doubt; // about its error buffer
    uint64_t absent_ms;       // overdue since this time: rounds do not count on it; 0 = not overdue
    bool has_statistics;      // its statistics of columns are stored
    uint32_t unscaled;        // consecutive tasks that it was denied for lack of the scaling
    uint64_t metric_names;    // digest of its last set of metric names, if all were kept; 0 = none
    uint32_t metrics_dropped; // metrics dropped for too many names, since the start
    uint32_t statistics_refused; // statistics that were refused since the start
    uint32_t other_columns;    // reports of columns that differ from most clients', since the start
    uint32_t anomalies_logged; // bit i: anomaly i was logged since anomalies_logged_ms
    uint64_t anomalies_logged_ms;
    uint32_t refusals; // refused requests since its last accepted update
    uint32_t refused;  // refused updates since the start
    uint32_t failed;   // trainings that it reported as failed, since the start
    // 1 + the last cohort draw that led to an update refused for its values; 0 = none
    uint32_t refused_in;
};

struct clients {
    struct client *list; // indexed by id - 1
    uint32_t count;
    uint32_t revoked;
    uint32_t evaluators;
    uint32_t unreliable;
    uint32_t capacity;
    uint64_t *eligible;              // scratch: `capacity` ids
    struct tern_tagged_client *lots; // scratch: `capacity` entries
    bool changed;                    // a client enrolled or was revoked: members may need replacing
    struct tern_column_names column_names; // column names of the clients that are not revoked
};

// The download with the indices that the open round's leader chose. It is not stored: after a restart it is made again
// from the leader's stored update (update.c).
struct shared_indices {
    uint8_t sha256[TERN_SHA256_SIZE];
    uint32_t payload;
    bool awaited; // tasks waited for the leader's update at the last tern_indices_check_leader()
    uint32_t refused; // round whose leader's update was refused
};

// The scaling of columns, and the state of statistics before there is one (statistics.c).
struct scaling {
    uint8_t *body; // encoded Scaling message, malloc'ed; NULL: no scaling yet
    size_t len;
    uint8_t sha256[TERN_SHA256_SIZE];
    uint32_t tag;
    uint64_t first_ms; // when the first statistics arrived; 0 = none have
    bool awaited;      // the log has reported that rounds wait for more
};

// Rows of the error ledger cached in memory, because a round reads a row several times (ledger.c). Clients with the
// same id modulo LEDGER_ROWS share a slot; client = 0: an empty slot.
#define LEDGER_ROWS 1024

// Results for status pages and metrics, computed again at most once a second (federation.c).
struct recent_facts {
    struct tern_wait_facts waits;
    struct tern_accuracy evaluated; // the newest version that was evaluated
    uint64_t renewed_ms;            // 0 = never
};

enum closing_step {
    CLOSING_NOTHING, // a round is open, or none
    CLOSING_DECIDED, // this transaction decided to close the round
    CLOSING_MERGING, // the decision is committed; the merge runs or has ended
};

struct tern_federation {
    struct tern_federation_config config; // set by tern_federation_configure()
    struct tern_federation_ports ports;
    struct tern_db *db;
    struct tern_db_federation about; // read-only

    struct tern_merge merge;           // version, weights, replica; model and sizes are read-only
    struct closing *closing;           // closing.c
    struct tern_published published;   // any thread
    struct tern_reading_room readings; // any thread
    struct tern_federation_counts counts;
    struct tern_federation_counts counted; // counts at the start of this transaction
    uint64_t searches;    // searches for paths between replicas by earlier `catchup` objects
    uint32_t last_opened; // with config.upstream_client: the last round that may open

    // All members below are derived from the store. tern_federation_load() zeroes and reloads them, so that nothing of a
    // rolled back transaction remains.
    struct tern_catchup *catchup; // first of the derived members
    struct clients clients;       // its arrays are owned
    struct tern_db_ledger ledger[LEDGER_ROWS];
    struct scaling scaling; // its body is owned
    struct shared_indices indices;
    struct recent_facts recent;
    enum closing_step closing_step;
    struct tern_round_machine machine;  // its array of members is owned
    struct tern_db_round row;           // the stored row of the machine's round
    struct tern_strategy_totals totals; // sums over the open round's updates
    float last_loss;
    struct tern_steps_state course; // of local steps, from the committed rounds
    struct tern_rate_state rate;    // of the learning rate, from the opened rounds
    struct epoch epoch;
    struct refused refused;
    struct unpublished unpublished;

    bool disk_is_low;     // result of the last check, so that the log reports a change once
    bool room_due;        // check the disk again before the next version; set by a load
    uint64_t disk_room;   // result of the last check: bytes by which the database can still grow
    bool checkpoint_due;  // the newest version's checkpoint is begun and not complete
    bool prune_due;       // updates of pruned rounds, or older checkpoints, may remain in the store
    bool moved;           // see tern_federation_has_progressed()
    bool found_downloads; // see tern_federation_has_found_downloads()
    bool too_few_afford;  // the log has reported that too few budgets allow a round
    uint64_t look_ms;     // when to check for silent members again; 0 = now
    uint64_t loaded_ms;   // when this state was loaded from the store
    uint64_t retry_open_ms; // when to try again to open a round; 0 = now
    bool too_few;           // no round opens: fewer than min_clients have enrolled
    bool accuracy_is_known; // no evaluation was stored since the last tern_accuracy_newest()
    char damage[256];       // see tern_federation_damage(); empty = none
};

static inline struct client *client_of(const struct tern_federation *federation, uint64_t id)
{
    const struct clients *clients = &federation->clients;
    return id == 0 || id > clients->count ? NULL : &clients->list[id - 1];
}

// Whether a gateway's upstream aggregator lets the next round open; true without one.
static inline bool tern_federation_allows_next_round(const struct tern_federation *federation)
{
    return federation->config.upstream_client == 0 ||
           federation->machine.round < federation->last_opened;
}

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
