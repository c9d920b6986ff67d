// The clients of a federation: their rows in memory and in the store, enrolment, and each client's record of reports,
// refusals and updates. The other files of the folder call these functions on the thread that owns the store, inside
// its transaction. A result other than TERN_OK means that the store or memory failed.
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

// Whether the client can ever be selected: it is no evaluator, is not revoked, has checked in or enrolled over the
// network, and has the tags of round.selection.
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
    return client->overdue_ms != 0 && client->overdue_ms <= now && !client->waiting;
}
// Whether the columns of the client's table differ from most clients', in name or order.
bool tern_clients_has_other_columns(const struct tern_federation *federation,
                                    const struct client *client);
// Rounds proceed without a client that was denied a task this many times, because it lacks the scaling of columns.
#define UNSCALED_DENIALS_MAX 4
static inline bool tern_clients_lacks_scaling(const struct client *client)
{
    return client->denied_unscaled >= UNSCALED_DENIALS_MAX;
}
// Records that the client checked in or sent an update.
void tern_clients_mark_seen(struct client *client, uint64_t now);

// --- Epochs (strategy qsvrg)

// Whether the client's program can compute full gradients, which the epochs of strategy qsvrg need.
bool tern_epoch_supports(const struct tern_federation *federation,
                         const struct tern_db_client *client);
// Whether the client can take part in the open or planned round of the epoch: the client holds the epoch's full
// gradient.
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

// Measures how fast the open round's members report. Overwrites clients->candidates.
void tern_reliability_measure_pace(struct tern_federation *federation, struct tern_pace *pace);
// Whether to invite another client in place of a reliable member: the member has had its task for too long, or has
// fetched the task too often.
bool tern_reliability_is_overdue(const struct tern_federation *federation,
                                 const struct tern_pace *pace, const struct tern_member *member,
                                 uint64_t now);
// Counts a task that the client did not report in time.
TERN_MUST_USE enum tern_result tern_reliability_count_missed(struct tern_federation *federation,
                                                             uint64_t client);
// Counts a report of the client. tasked_ms: when the client fetched the task.
TERN_MUST_USE enum tern_result tern_reliability_count_report(struct tern_federation *federation,
                                                             uint64_t client, uint64_t tasked_ms,
                                                             uint64_t now);
// Drops a client from the open round, after its training of `round` failed or its update was refused for its values.
TERN_MUST_USE enum tern_result tern_reliability_drop_member(struct tern_federation *federation,
                                                            uint64_t client, uint32_t round,
                                                            tern_TrainingFailure failure);
// Whether the member's training of the open round failed.
bool tern_reliability_has_failed(const struct tern_federation *federation,
                                 const struct tern_member *member);
// Counts a missed task for each member that should have reported before the round was extended or closed.
TERN_MUST_USE enum tern_result tern_reliability_count_unreported(struct tern_federation *federation,
                                                                 uint64_t now);

// --- Refusals

// Sets the refusal; sentence NULL: the usual sentence of the result.
void tern_refusal_set(struct tern_refusal *refusal, enum tern_result result, const char *sentence);
// Sets the refusal's delay until the client should try again; the delay grows with each refusal.
void tern_refusals_delay_retry(struct client *client, struct tern_refusal *refusal);

// --- Metrics that clients report with updates and evaluations

// Replaces the client's metrics of the version. to: a row without name and value. For an evaluation that came with an
// update, also stores its loss and accuracy, which an evaluator's row of evaluations has.
TERN_MUST_USE enum tern_result tern_metrics_store(struct tern_federation *federation,
                                                  const struct tern_db_metric *to,
                                                  const tern_Evaluation *evaluation);

// --- Reported updates

// Records the figures of an accepted update, from which closing.c measures how much a round's updates differ.
// sum_square: the sum of the squared decoded values.
void tern_clients_record_update(struct client *client, const tern_Update *message,
                                double sum_square);

#endif
