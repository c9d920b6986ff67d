// Updates: reading them, counting them in the open round, late ones, the metrics that come with them, and the indices
// that a round's leader chose (ScaleCom). Tasks and rounds call the functions here; requests come in by federation.h. All
// run on the thread that owns the store, inside its transaction.
#ifndef TERN_FEDERATION_UPDATE_H
#define TERN_FEDERATION_UPDATE_H

#include "federation/clients.h"

// Stores the metrics of an evaluator's evaluation, `found`, which is stored already.
TERN_MUST_USE enum tern_result tern_metrics_store(struct tern_federation *federation,
                                                  const struct tern_db_evaluation *found,
                                                  const tern_Evaluation *evaluation);

// --- Indices that the round's leader chose

// Empties *indices; NULL: allocates it, and free() frees it. Only allocating can fail. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_share_reset(struct shared_indices **indices);
// Rebuilds the shared indices of the open round, after that round was loaded from the store.
TERN_MUST_USE enum tern_result tern_share_load(struct tern_federation *federation);
// Whether the open round's clients share indices: its base is the newest version then.
bool tern_share_is_on(const struct tern_federation *federation);
// Whether this client's task waits for the leader's update.
bool tern_share_holds(const struct tern_federation *federation, uint64_t id, uint64_t now);
// Whether the leader's update was awaited at the last tern_share_watch().
bool tern_share_is_awaited(const struct tern_federation *federation);
// Checks whether the leader is still awaited; once it is not, the held clients are served.
void tern_share_watch(struct tern_federation *federation, uint64_t now);
// Names the indices in a task of the open round.
void tern_share_fill(struct tern_federation *federation, uint64_t id, tern_Task *task);
// The indices by their SHA-256, one reference more, and the bytes of their payload. NOT_FOUND
TERN_MUST_USE enum tern_result tern_share_blob(struct tern_federation *federation,
                                               const uint8_t sha256[TERN_SHA256_SIZE],
                                               struct tern_blob **blob, uint32_t *payload);

#endif
