// Clients: their rows in memory, which of them may be selected for a round, and each one's record of reporting, bytes
// and updates. Every other file of the folder calls it, on the thread that owns the store, inside its transaction.
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

static inline struct client *client_of(const struct tern_federation *federation, uint64_t id)
{
    const struct clients *clients = federation->clients;
    return id == 0 || id > clients->count ? NULL : &clients->list[id - 1];
}

// --- In memory and in the store

// Empties *clients; NULL: allocates it, and free() frees an empty one. Only allocating can fail. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_clients_reset(struct clients **clients);
// Adds or updates a client from its row in the store.
TERN_MUST_USE enum tern_result tern_clients_put_row(struct tern_federation *federation,
                                                    const struct tern_db_client *row);
TERN_MUST_USE enum tern_result tern_clients_load(struct tern_federation *federation);
// Loads which versions clients have evaluated, and the bytes of their last schedules. Called after tern_clients_load().
TERN_MUST_USE enum tern_result tern_clients_load_records(struct tern_federation *federation);
// Writes a client's row. After an error the row no longer counts as newer than the store's.
TERN_MUST_USE enum tern_result tern_clients_store(struct tern_federation *federation, uint64_t id);

// --- Which clients may be selected

// Whether the client can ever be selected: it is no evaluator, is not revoked, and has the configured tags.
bool tern_clients_is_trainer(const struct tern_federation *federation, const struct client *client);
// Whether the client has checked in since it enrolled, or enrolled just now.
static inline bool tern_clients_has_checked_in(const struct tern_federation *federation,
                                               const struct client *client, uint64_t now)
{
    return tern_selection_has_checked_in(client->row.created_ms, client->row.last_seen_ms,
                                         federation->config.round.come_back_min_ms, now);
}
// Whether the client's next check-in is overdue.
static inline bool tern_clients_is_overdue(const struct client *client, uint64_t now)
{
    return client->absent_ms != 0 && client->absent_ms <= now && !client->waiting;
}
// Whether the columns of the client's table differ from most clients', in name or order.
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
// The next four write client ids in ascending order to clients->eligible and return their number. All clients that may
// be selected:
uint32_t tern_clients_list_selectable(struct tern_federation *federation, uint64_t now);
// Reliable clients that may be selected; all drawable ones where too few are reliable.
uint32_t tern_clients_list_reliable(struct tern_federation *federation, uint64_t now);
// Eligible clients that are not absent.
uint32_t tern_clients_list_responsive(struct tern_federation *federation, uint64_t now);
// Unreliable clients that may be selected and are not absent.
uint32_t tern_clients_list_unreliable(struct tern_federation *federation, uint64_t now);
// Applies the configured selection to clients->eligible[0..count), which is ascending: moves the selected ids to its
// start and returns their number. wanted: clients that the round invites; updates: updates that it needs.
uint32_t tern_clients_select(struct tern_federation *federation, uint32_t count, uint32_t round,
                             uint32_t attempt, uint32_t wanted, uint32_t updates, uint64_t now);

// --- Epochs (strategy qsvrg)

// Whether the client's program can take part in epochs.
bool tern_epoch_supports(const struct tern_federation *federation,
                         const struct tern_db_client *client);
// Whether the client can take part in the open or planned round of the epoch: it holds the full gradient.
bool tern_epoch_allows(const struct tern_federation *federation,
                       const struct tern_db_client *client);
// Stores which full gradient the client holds.
TERN_MUST_USE enum tern_result tern_epoch_store_anchor(struct tern_federation *federation,
                                                       uint64_t id, uint32_t anchor, bool step);

// --- Members of the open round

TERN_MUST_USE enum tern_result tern_members_store(struct tern_federation *federation,
                                                  struct tern_member *member);
TERN_MUST_USE enum tern_result tern_members_store_all(struct tern_federation *federation);
TERN_MUST_USE enum tern_result tern_members_load(struct tern_federation *federation);

// --- Reliability

// Measures how fast the open round's members report. Overwrites clients->eligible.
void tern_reliability_measure_pace(struct tern_federation *federation, struct tern_pace *pace);
// Whether to invite another client in place of a reliable member: it has had its task for too long, or its tries are
// used up.
bool tern_reliability_is_overdue(const struct tern_federation *federation,
                                 const struct tern_pace *pace, const struct tern_member *member,
                                 uint64_t now);
// Counts a task that the client did not report in time.
TERN_MUST_USE enum tern_result tern_reliability_count_missed(struct tern_federation *federation,
                                                             uint64_t client);
// Counts a report. tasked_ms: when the client fetched the task.
TERN_MUST_USE enum tern_result tern_reliability_count_report(struct tern_federation *federation,
                                                             uint64_t client, uint64_t tasked_ms,
                                                             uint64_t now);
// Processes a client's report that its training of `round` failed, and drops the client from the open round.
TERN_MUST_USE enum tern_result tern_reliability_count_failure(struct tern_federation *federation,
                                                              uint64_t client, uint32_t round,
                                                              tern_TrainingFailure failure);
// Drops a client whose update of `round` was refused for its values.
TERN_MUST_USE enum tern_result tern_reliability_drop_member(struct tern_federation *federation,
                                                            uint64_t client, uint32_t round,
                                                            tern_TrainingFailure failure);
// Whether the member's training of the open round failed.
bool tern_reliability_has_failed(const struct tern_federation *federation,
                                 const struct tern_member *member);
// Counts that the member fetches its task again. Too many tries count as a missed task.
TERN_MUST_USE enum tern_result tern_reliability_count_try(struct tern_federation *federation,
                                                          struct tern_member *member);
// Whether the member has used up its tries and the round can end without it.
bool tern_reliability_is_given_up(const struct tern_federation *federation,
                                  const struct tern_member *member);
// Counts the members that should have reported before the round was extended or closed.
TERN_MUST_USE enum tern_result tern_reliability_count_unreported(struct tern_federation *federation,
                                                                 uint64_t now);

// --- Byte budgets

// Whether the schedule or the selection uses the clients' byte budgets.
bool tern_budgets_are_used(const struct tern_federation *federation);
// Returns the client's budget for one round: the bytes left, divided by the rounds until budgets are renewed. It
// depends on stored values only, so that a restart does not change it.
struct tern_budget tern_budgets_of_client(const struct tern_federation *federation,
                                          const struct client *client, uint64_t now);

// --- Drift: how much the open round's updates differ from each other

// Records an accepted update. sum_square: the sum of its squared decoded values.
void tern_clients_record_update(struct client *client, const tern_Update *message,
                                double sum_square);

#endif
