// The open round: selects, invites and replaces clients, extends the round, and plans epochs. tern_federation_advance()
// (federation.h) drives it. The other files of federation/ call these functions on the thread that owns the store,
// inside its transaction.
#ifndef TERN_FEDERATION_ROUND_H
#define TERN_FEDERATION_ROUND_H

#include "federation/state.h"

// Stores the row and the members of the round that federation->machine has just opened.
TERN_MUST_USE enum tern_result tern_rounds_store_opened(struct tern_federation *federation,
                                                        uint64_t now);
// Sets the open round's position in its epoch from federation->totals.rule, after the round was loaded.
void tern_rounds_load_epoch(struct tern_federation *federation);

// --- Byte budgets

// Whether the schedule or the selection uses the clients' byte budgets.
bool tern_budgets_are_used(const struct tern_federation *federation);
// Returns the client's budget for one round: the bytes left, divided by the rounds until budgets are renewed. It
// depends on stored values only, so that a restart does not change it.
struct tern_budget tern_budgets_of_client(const struct tern_federation *federation,
                                          const struct client *client, uint64_t now);

#endif
