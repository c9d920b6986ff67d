// State that the files of federation/ share: the federation's configuration, its ports, its clients and the open round.
// Only files of this folder include this header. All run on the thread that owns the store, unless a comment names
// another thread.
#ifndef TERN_FEDERATION_STATE_H
#define TERN_FEDERATION_STATE_H

#include "federation/federation.h"
#include "federation/incoming.h"
#include "hosted/log.h"
#include "rounds/column_names.h"
#include "secure/masked.h"
#include <string.h>

// Updates since members were last selected (update.c).
struct refused {
    uint32_t cohort; // number of selections since the start
    uint32_t accepted;
    uint32_t updates; // updates of the cohort that were refused for their values
    uint32_t clients; // clients that sent at least one of these refused updates
    // Consecutive earlier cohorts of which every update was refused for its values.
    uint32_t cohorts;
};

// Members stored since the round was last published. In a cohort of thousands, one transaction changes few.
#define UNPUBLISHED_MAX 1024

struct unpublished {
    bool any;
    uint32_t count; // members that changed; above UNPUBLISHED_MAX, all members are published
    uint64_t clients[UNPUBLISHED_MAX]; // ids of the members that changed
};

// Position of the open or the next round in an epoch of strategy qsvrg; zeros for a strategy without epochs.
struct epoch {
    bool is_on;
    uint32_t steps;  // T of the paper: an epoch has T - 1 rounds
    uint32_t step;   // earlier rounds of the same epoch; 0: the round computes the full gradient
    uint32_t anchor; // round that computed the full gradient; 0: the open round computes it
    float learning_rate;
};

// Facts that a client reported with its update of the open round.
struct reported_update {
    // sum of the update's squared values; the merge multiplies it by the square of the update's scale
    double square;
    float loss;
    uint32_t num_examples;
    uint32_t local_steps;
};

struct client {
    struct tern_db_client row;
    uint8_t stored_replica[TERN_SHA256_SIZE]; // the stored value of row.replica
    bool dirty;                               // row is newer than the stored row
    bool waiting;                             // the service holds the client's check-in open
    bool
        // The last check found that the open round should not wait for this member.
        needs_replacement;
    struct tern_searches searches;
    // Local steps and their time since the start, which give the client's speed.
    struct tern_steps_smoothed speed;
    // Both by enum tern_db_evaluated (replica or global model): the newest version that the client evaluated, and the
    // newest version of which it was asked twice, which is not asked a third time.
    uint32_t evaluated[TERN_LAST_evaluated + 1];
    uint32_t requested[TERN_LAST_evaluated + 1];
    uint64_t round_bytes; // bytes that the client's schedule expects a round to take
    uint64_t least_bytes; // the fewest bytes that a round can take for this client
    uint32_t schedule;    // checksum of the stored schedule without its time; 0 = not known
    struct reported_update reported;
    struct tern_error_suspicion suspicion; // suspected anomaly of the client's error buffer
    // When the check-in became overdue: rounds do not count on the client; 0 = not overdue.
    uint64_t overdue_ms;
    // The client has done its round and leaves (TERN_WIRE_LEAVES): no task before its next check-in.
    bool has_left;
    bool has_statistics; // the client's statistics of columns are stored
    // Consecutive check-ins without a task, because the client lacks the scaling.
    uint32_t denied_unscaled;
    // Digest of the last evaluation's metric names, if all were stored; 0 = none.
    uint64_t metric_names;
    // Metrics dropped since the start, because the client used too many names.
    uint32_t metrics_dropped;
    uint32_t statistics_refused; // statistics that were refused since the start
    // Check-ins since the start with columns that differ from most clients' columns.
    uint32_t other_columns;
    uint32_t anomalies_logged; // bit i: anomaly i was logged since anomalies_logged_ms
    uint64_t anomalies_logged_ms;
    uint32_t refusals; // refused requests since the client's last accepted update
    uint32_t refused;  // refused updates since the start
    uint32_t failed;   // failed trainings that the client reported since the start
    // 1 + the last cohort in which an update of the client was refused for its values; 0 = none.
    uint32_t refused_cohort;
    // Of the last check-in: the client trains in secure rounds alone, and the round of its update without settlement.
    bool secure;
    uint32_t unsettled;
    // Epoch of the ticket that the client has by its last check-in; before one, as stored.
    uint32_t shown_epoch;
    // The client's newest ticket; epoch 0 = none.
    uint32_t ticket_epoch;
    enum tern_db_ticket_state ticket_state;
};

struct clients {
    struct client *list; // indexed by id - 1
    uint32_t count;
    uint32_t revoked;
    uint32_t evaluators;
    uint32_t unreliable;
    uint32_t capacity;
    uint64_t *candidates;              // scratch: `capacity` ids
    struct tern_tagged_client *tagged; // scratch: `capacity` entries
    // A client enrolled, was revoked or lost its full gradient: members may need replacing.
    bool changed;
    struct tern_column_names column_names; // column names of the clients that are not revoked
};

// Strategy scalecom: the download with the indices that the open round's leader chose. It is not stored: after a
// restart it is made from the leader's stored update (update.c).
struct shared_indices {
    uint8_t sha256[TERN_SHA256_SIZE];
    uint32_t payload;
    // At the last tern_indices_check_leader(), tasks waited for the leader's update.
    bool awaited;
    uint32_t refused; // round whose leader's update was refused
};

// The scaling of columns, and the state of statistics before there is one (statistics.c).
struct scaling {
    uint8_t *body; // encoded Scaling message, malloc'ed; NULL: no scaling yet
    size_t len;
    uint8_t sha256[TERN_SHA256_SIZE];
    uint32_t tag;
    uint64_t first_ms; // when the first statistics arrived; 0 = none have arrived
    bool awaited;      // the log has reported that rounds wait for more statistics
};

// Rows of the error ledger cached in memory, because a round reads a row several times (ledger.c). Clients with the
// same id modulo LEDGER_ROWS share a slot; client = 0: an empty slot.
#define LEDGER_ROWS 1024

// Results for status pages and metrics, computed again at most once a second (federation.c).
struct recent_facts {
    struct tern_wait_facts waits;
    struct tern_accuracy evaluated; // accuracy of the newest evaluated version
    uint64_t renewed_ms;            // when the results were computed; 0 = never
};

// The open or closing round, if it is secure (secure.c).
struct secure {
    bool is_on; // the last round is secure and not ended
    enum tern_db_secure_state state;
    uint64_t asked_ms;
    uint64_t retry_ms; // when to ask the helper again
    uint32_t failures; // requests for the sum that the helper did not answer
    // Facts of the round; facts.scales is the member `scales`.
    struct tern_secure_round facts;
    float scales[TERN_MASKED_TENSORS_MAX];
    // Scales that follow from the last sum; 0 of them before the first sum.
    float next_scales[TERN_MASKED_TENSORS_MAX];
    uint32_t next_count;
    // End of the helper's log when the last round opened, which its tasks carry.
    struct tern_helper_log log;
    uint32_t abandoned; // consecutive abandoned rounds up to the last one
    uint64_t reopen_ms; // no round opens earlier, after an abandoned one
    bool has_tickets;   // tickets wait for the helper
    // What members of the open round refused since the start: their last masked rounds, of which this is the newest, or the
    // helper's log. 0, false: none did.
    uint32_t replayed_to;
    bool log_refused; // stays after the round was abandoned for it, until the log has grown
};

enum closing_step {
    CLOSING_NOTHING, // a round is open, or none
    CLOSING_DECIDED, // this transaction decided to close the round
    CLOSING_MERGING, // the decision is committed; the merge runs or has ended
};

struct tern_federation {
    struct tern_federation_config config; // configuration; set by tern_federation_configure()
    struct tern_federation_ports ports;
    struct tern_db *db;
    struct tern_db_federation about; // read-only

    // Version, weights and replica; the model and the buffers' sizes are read-only.
    struct tern_merge merge;
    struct closing *closing;           // closing.c
    struct helper_link *helper;        // secure.c; NULL: no secure rounds
    struct tern_published published;   // read by any thread
    struct tern_reading_room readings; // used by any thread
    struct tern_federation_counts counts;
    struct tern_federation_counts counts_before; // counts at the start of this transaction
    struct tern_search_cost earlier_searches;    // of earlier `catchup` objects
    uint64_t worked_us;                          // see tern_federation_begin_transaction()
    // worked_us and the processor time of all searches when the newest round opened, or at the start
    uint64_t opened_worked_us;
    uint64_t opened_search_ns;
    uint32_t last_allowed_round; // of a gateway: number of the last round that may open

    // All members below are derived from the store. tern_federation_load() zeroes and reloads them, so that no part of
    // a transaction that was rolled back remains.
    struct tern_catchup *catchup; // first of the members that are derived from the store
    struct clients clients;       // the federation owns its arrays
    struct tern_db_ledger ledger[LEDGER_ROWS];
    struct scaling scaling; // the federation owns its body
    struct shared_indices indices;
    struct recent_facts recent;
    enum closing_step closing_step;
    struct tern_round_machine machine;  // the federation owns its array of members
    struct tern_db_round row;           // the stored row of the open or last round
    struct tern_db_round committed;     // the last committed round; its number is 0: none
    struct tern_strategy_totals totals; // sums over the open round's updates
    float last_loss;
    struct tern_steps_state steps_state; // state of train.schedule, from the committed rounds
    // State of the learning rate's schedule, from the opened rounds.
    struct tern_rate_state rate_state;
    struct epoch epoch;
    struct secure secure;
    struct refused refused;
    struct tern_db_order order; // the operator's order, if it is ready (closing.c)
    // The last restored round, or a gateway's config.undone_round; 0 = none.
    uint32_t restored_round;
    struct unpublished unpublished;

    bool disk_is_low;    // the last check found the disk low; the log reports a change once
    bool disk_check_due; // check the disk before the next version is stored; set by a load
    uint64_t disk_free;  // at the last check: bytes by which the database can still grow
    bool checkpoint_due; // the checkpoint of the newest version is stored in part
    bool pin_due;        // the newest version's weights are to be pinned
    bool best_is_loaded; // closing.c has read the label of the best version
    bool best_check_due; // the figures of all versions are to be compared
    bool is_rated;       // evaluators reported versions from rated_first to rated_last
    uint32_t rated_first;
    uint32_t rated_last;
    bool prune_due;       // updates of pruned rounds, or older checkpoints, may remain in the store
    bool progressed;      // see tern_federation_has_progressed()
    bool found_downloads; // see tern_federation_has_found_downloads()
    bool too_few_afford_logged; // the log has reported that too few budgets allow a round
    uint64_t member_check_ms;   // when to check the open round for silent members; 0 = now
    uint64_t loaded_ms;         // when this state was loaded from the store
    uint64_t retry_open_ms;     // when to try to open a round; 0 = now
    bool too_few;               // no round opens: fewer than min_clients have enrolled
    double loss_before;         // largest privacy_loss of a client that may be selected
    bool accuracy_is_known;     // no evaluation was stored since the last tern_accuracy_newest()
    char damage[256];           // see tern_federation_damage(); empty = none
};

// Whether weights in memory are being stored, which a merge would change.
static inline bool tern_federation_stores_weights(const struct tern_federation *federation)
{
    return federation->checkpoint_due || federation->pin_due;
}

// Returns the searches since the start.
static inline struct tern_search_cost
tern_federation_searches(const struct tern_federation *federation)
{
    struct tern_search_cost all = tern_catchup_cost(federation->catchup);
    all.searches += federation->earlier_searches.searches;
    all.cpu_ns += federation->earlier_searches.cpu_ns;
    return all;
}

static inline struct client *client_of(const struct tern_federation *federation, uint64_t id)
{
    const struct clients *clients = &federation->clients;
    return id == 0 || id > clients->count ? NULL : &clients->list[id - 1];
}

// Whether a gateway's upstream aggregator lets the next round open; true without one.
static inline bool tern_federation_allows_next_round(const struct tern_federation *federation)
{
    return federation->config.upstream_client == 0 ||
           federation->machine.round < federation->last_allowed_round;
}

// Whether another round would raise the client's epsilon above privacy.epsilon_max.
static inline bool tern_federation_has_spent_privacy(const struct tern_federation *federation,
                                                     const struct client *client)
{
    return (double)client->row.privacy_loss > federation->loss_before;
}

// Whether n is 1, 2, 4, 8, ...: only these occurrences of an event are logged.
static inline bool is_power_of_two(uint32_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

// Whether the hash in a client's message is the model's hash. A message without a hash matches.
static inline bool is_of_our_model(const struct tern_federation *federation, const uint8_t *hash,
                                   size_t size)
{
    return size == 0 || memcmp(hash, federation->about.model_hash, TERN_SHA256_SIZE) == 0;
}

#endif
