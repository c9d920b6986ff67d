// Processes received updates: checks them, counts them in the open round, handles late ones and refuses invalid ones.
// Also shares the indices that a round's leader chose (strategy scalecom). task.c, round.c, closing.c and federation.c
// call these functions; service/ calls those of federation.h. All run on the thread that owns the store, inside its
// transaction.
#ifndef TERN_FEDERATION_UPDATE_H
#define TERN_FEDERATION_UPDATE_H

#include "federation/clients.h"

// --- Refusals of updates

// Ends the count of the cohort's refused updates, because the round was committed or other members are selected. Warns
// when every update of two consecutive cohorts was refused for its values, and at 4, 8, 16, ... consecutive cohorts.
void tern_refusals_end_cohort(struct tern_federation *federation, bool committed);
// Returns what the operator should do about cohorts of which every update was refused, or NULL. *cohorts: number of
// such consecutive cohorts.
const char *tern_refusals_advice(const struct tern_federation *federation, uint32_t *cohorts);

// --- Indices that the round's leader chose

// Makes the open round's shared indices from the leader's stored update, after the round was loaded from the store.
TERN_MUST_USE enum tern_result tern_indices_load(struct tern_federation *federation);
// Whether the open round's clients share indices. If so, all members train from the newest version's replica.
bool tern_indices_are_shared(const struct tern_federation *federation);
// Whether this client's task waits for the leader's update.
bool tern_indices_delay_task(const struct tern_federation *federation, uint64_t id, uint64_t now);
// Whether the round was waiting for the update of the member that chooses the indices, at the last
// tern_indices_check_leader().
bool tern_indices_are_awaited(const struct tern_federation *federation);
// Checks whether the open round still waits for the leader. Once it does not, held check-ins are answered.
void tern_indices_check_leader(struct tern_federation *federation, uint64_t now);
// Adds the shared indices to a task of the open round, unless the task is the leader's.
void tern_indices_add_to_task(struct tern_federation *federation, uint64_t id, tern_Task *task);
// Finds the download with the shared indices by its SHA-256. The caller releases *blob. *payload: bytes of the indices.
// TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result tern_indices_find_blob(struct tern_federation *federation,
                                                      const uint8_t sha256[TERN_SHA256_SIZE],
                                                      struct tern_blob **blob, uint32_t *payload);

#endif
