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

// --- In memory and in the store

// Loads all clients, the versions that they have evaluated, and the bytes of their last schedules.
TERN_MUST_USE enum tern_result tern_clients_load(struct tern_federation *federation);
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
// Drops a client whose update of `round` was refused for its values.
TERN_MUST_USE enum tern_result tern_reliability_drop_member(struct tern_federation *federation,
                                                            uint64_t client, uint32_t round,
                                                            tern_TrainingFailure failure);
// Whether the member's training of the open round failed.
bool tern_reliability_has_failed(const struct tern_federation *federation,
                                 const struct tern_member *member);
// Counts the members that should have reported before the round was extended or closed.
TERN_MUST_USE enum tern_result tern_reliability_count_unreported(struct tern_federation *federation,
                                                                 uint64_t now);

// --- Refusals

// Sets the refusal; sentence NULL: the usual sentence of the result.
void tern_refusal_set(struct tern_refusal *refusal, enum tern_result result, const char *sentence);
// Sets when the client should try again, later with each refusal.
void tern_refusals_delay_retry(struct client *client, struct tern_refusal *refusal);

// --- Metrics that clients report with updates and evaluations

// Replaces the client's metrics of the version. to: a row without name and value. For an evaluation that came with an
// update, also stores its loss and accuracy, which an evaluator's row of evaluations has.
TERN_MUST_USE enum tern_result tern_metrics_store(struct tern_federation *federation,
                                                  const struct tern_db_metric *to,
                                                  const tern_Evaluation *evaluation);

// --- Drift: how much the open round's updates differ from each other

// Records an accepted update. sum_square: the sum of its squared decoded values.
void tern_clients_record_update(struct client *client, const tern_Update *message,
                                double sum_square);

#endif
