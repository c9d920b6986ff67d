// Clients: their rows in memory, which of them may be selected for a round, and each one's record of reporting, bytes
// and updates. Every other room of the folder calls it, on the thread that owns the store, inside its transaction.
// A result other than TERN_OK means that the store or memory failed.
#ifndef TERN_FEDERATION_CLIENTS_H
#define TERN_FEDERATION_CLIENTS_H

#include "federation/state.h"
#include "rounds/column_names.h"
#include "rounds/reliability.h"
#include "rounds/selection.h"
#include "rounds/steps.h"

// A client's update in the open round.
struct drift {
    double square; // sum of its squared values; after the merge, as the mean scaled it
    float loss;
    uint32_t num_examples;
    uint32_t local_steps;
};

struct client {
    struct tern_db_client row;
    uint8_t stored_replica[TERN_SHA256_SIZE]; // in the store's row
    bool dirty;                               // the row is newer than the store's
    bool waiting;                             // its check-in is held
    bool gone; // as a member, at the last check: the round need not wait for it
    struct tern_searches searches;
    struct tern_steps_done done; // since the start; its speed is measured from these
    // By enum tern_db_evaluated (its replica, the global model): the newest version that it has evaluated, and the newest
    // that it was asked to evaluate again, so that this happens once.
    uint32_t evaluated[TERN_LAST_evaluated + 1];
    uint32_t asked[TERN_LAST_evaluated + 1];
    uint64_t round_bytes; // of its schedule: bytes that its round is expected to take
    uint64_t least_bytes; // the fewest that it can take
    struct drift drift;
    struct tern_error_doubt doubt; // about its error buffer
    uint64_t absent_ms;       // overdue since; rounds do not count on it until it comes; 0 = never
    bool has_statistics;      // its statistics of columns are stored
    uint32_t unscaled;        // consecutive tasks that it was denied for lack of the scaling
    uint64_t metric_names;    // digest of the last set of names, if all were kept; 0 = none
    uint32_t metrics_dropped; // since the start, beyond the limit of names
    uint32_t statistics_refused; // since the start
    uint32_t other_columns;    // since the start: reports of columns that differ from most clients'
    uint32_t anomalies_logged; // bit i: anomaly i was logged since anomalies_logged_ms
    uint64_t anomalies_logged_ms;
    uint32_t refusals; // refused requests since its last accepted update
    uint32_t refused;  // refused updates since the start
    uint32_t failed;   // trainings that it reported as failed, since the start
    uint32_t
        refused_in; // 1 + number of the last cohort draw in which its update was refused for its values; 0 = none
};

struct clients {
    struct client *list; // by id - 1
    uint32_t count;
    uint32_t revoked;
    uint32_t evaluators;
    uint32_t unreliable;
    uint32_t capacity;
    uint64_t *eligible;         // scratch: `capacity` ids
    struct tern_tags_lot *lots; // scratch: `capacity` entries
    bool changed;               // one enrolled or was revoked: members may need replacing
    struct tern_column_names column_names; // of clients that are not revoked
};

static inline struct client *client_of(const struct tern_federation *federation, uint64_t id)
{
    const struct clients *clients = federation->clients;
    return id == 0 || id > clients->count ? NULL : &clients->list[id - 1];
}

// --- In memory and in the store

// Empties *clients; NULL: allocates it, and free() frees an empty one. Only allocating can fail. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_clients_reset(struct clients **clients);
// Adds or updates a client from its row in the store.
TERN_MUST_USE enum tern_result tern_clients_remember(struct tern_federation *federation,
                                                     const struct tern_db_client *row);
TERN_MUST_USE enum tern_result tern_clients_load(struct tern_federation *federation);
// Loads what clients have evaluated, and what their last schedules took. After tern_clients_load().
TERN_MUST_USE enum tern_result tern_clients_load_records(struct tern_federation *federation);
// Writes a client's row. After an error the row no longer counts as newer than the store's.
TERN_MUST_USE enum tern_result tern_clients_store(struct tern_federation *federation, uint64_t id);

// --- Which clients may be selected

// Whether a client can ever be selected: not an evaluator, not revoked, with the configured tags.
bool tern_clients_is_trainer(const struct tern_federation *federation, const struct client *client);
// Whether the client has checked in since it enrolled, or enrolled just now.
static inline bool tern_clients_has_come(const struct tern_federation *federation,
                                         const struct client *client, uint64_t now)
{
    return tern_selection_came(client->row.created_ms, client->row.last_seen_ms,
                               federation->config.round.come_back_min_ms, now);
}
// Whether the client's next check-in is overdue.
static inline bool tern_clients_is_absent(const struct client *client, uint64_t now)
{
    return client->absent_ms != 0 && client->absent_ms <= now && !client->waiting;
}
// Whether its table has other columns, or in another order, than most clients' tables.
bool tern_clients_has_other_columns(const struct tern_federation *federation,
                                    const struct client *client);
// Rounds proceed without a client that was denied a task this often for lack of the scaling of columns.
#define UNSCALED_TIMES 4
static inline bool tern_clients_lacks_scaling(const struct client *client)
{
    return client->unscaled >= UNSCALED_TIMES;
}
// Records that the client checked in or sent an update.
void tern_clients_mark_seen(struct client *client, uint64_t now);
// Each lists client ids in clients->eligible, ascending, and returns their number: all that may be selected; those that
// rounds count on (all where too few are reliable); those among them that are not absent; unreliable ones that are not
// absent.
uint32_t tern_clients_list_drawable(struct tern_federation *federation, uint64_t now);
uint32_t tern_clients_list_eligible(struct tern_federation *federation, uint64_t now);
uint32_t tern_clients_list_present(struct tern_federation *federation, uint64_t now);
uint32_t tern_clients_list_unreliable(struct tern_federation *federation, uint64_t now);
// Keeps those of clients->eligible[0..count), ascending, that the configured selection admits to this draw; returns how
// many. wanted: clients that the round invites; updates: how many of them it needs.
uint32_t tern_clients_select(struct tern_federation *federation, uint32_t count, uint32_t round,
                             uint32_t attempt, uint32_t wanted, uint32_t updates, uint64_t now);

// --- Epochs

// Whether the client can ever take part; and in the open or planned round.
bool tern_epoch_supports(const struct tern_federation *federation,
                         const struct tern_db_client *client);
bool tern_epoch_admits(const struct tern_federation *federation,
                       const struct tern_db_client *client);
// Stores which full gradient the client holds.
TERN_MUST_USE enum tern_result tern_epoch_set_held(struct tern_federation *federation, uint64_t id,
                                                   uint32_t anchor, bool step);

// --- Members of the open round

TERN_MUST_USE enum tern_result tern_members_store(struct tern_federation *federation,
                                                  struct tern_member *member);
TERN_MUST_USE enum tern_result tern_members_store_all(struct tern_federation *federation);
TERN_MUST_USE enum tern_result tern_members_load(struct tern_federation *federation);

// --- Reliability

// Measures how fast the open round's members report. Overwrites clients->eligible.
void tern_reliability_pace(struct tern_federation *federation, struct tern_pace *pace);
// Whether to invite another client in place of a reliable member: it has had its task for too long, or its tries are used
// up.
bool tern_reliability_is_overdue(const struct tern_federation *federation,
                                 const struct tern_pace *pace, const struct tern_member *member,
                                 uint64_t now);
// Counts a task that the client did not report in time.
TERN_MUST_USE enum tern_result tern_reliability_missed(struct tern_federation *federation,
                                                       uint64_t client);
// Counts a report; tasked_ms: when the client was given the task.
TERN_MUST_USE enum tern_result tern_reliability_reported(struct tern_federation *federation,
                                                         uint64_t client, uint64_t tasked_ms,
                                                         uint64_t now);
// Takes a client's report that its training of `round` failed, and drops it from the open round.
TERN_MUST_USE enum tern_result tern_reliability_training_failed(struct tern_federation *federation,
                                                                uint64_t client, uint32_t round,
                                                                tern_TrainingFailure failure);
// Drops a client whose update of `round` was refused for its values.
TERN_MUST_USE enum tern_result tern_reliability_drop_member(struct tern_federation *federation,
                                                            uint64_t client, uint32_t round,
                                                            tern_TrainingFailure failure);
// Whether the member's training of the open round failed.
bool tern_reliability_has_failed(const struct tern_federation *federation,
                                 const struct tern_member *member);
// Counts that the member is given its task again. Too many tries count as a missed task.
TERN_MUST_USE enum tern_result tern_reliability_count_try(struct tern_federation *federation,
                                                          struct tern_member *member);
// Whether the member has used up its tries and the round can end without it.
bool tern_reliability_is_given_up(const struct tern_federation *federation,
                                  const struct tern_member *member);
// Counts the members that should have reported before the round was extended or closed.
TERN_MUST_USE enum tern_result tern_reliability_round_ended(struct tern_federation *federation,
                                                            uint64_t now);

// --- Byte budgets

// Whether the schedule or the selection uses the clients' byte budgets.
bool tern_budgets_are_used(const struct tern_federation *federation);
// The client's budget for one round: what is left, over the rounds until budgets are renewed. It depends on stored values
// alone; a round that was opened by round.fraction and is open over a restart counts as wanting as many updates as it
// invited clients.
struct tern_budget tern_budgets_for(const struct tern_federation *federation,
                                    const struct client *client, uint64_t now);

// --- Drift: how far the open round's updates are apart

// Records an accepted update. sum_square: of its decoded values.
void tern_drift_add(struct client *client, const tern_Update *message, double sum_square);

#endif
