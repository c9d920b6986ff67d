// The error ledger: what clients tell of their error buffers, what is found out about those
// (rounds/error_watch.h), and what clients are told to do with them (rounds/error_policy.h). Who
// calls: the federation thread, inside the batch's transaction; each returns other than TERN_OK
// only when the store fails.
#ifndef TERN_SERVICE_LEDGER_H
#define TERN_SERVICE_LEDGER_H

#include "federation/internal.h"

// The client's row; of a new client one with nothing in it.
TERN_MUST_USE enum tern_result tern_ledger_read(struct tern_federation *federation, uint64_t id,
                                                struct tern_db_ledger *row);

// What a check-in says. An update that came too late, or a change that a budget held back, is known
// from here alone. Most check-ins tell what is stored already and write nothing.
TERN_MUST_USE enum tern_result tern_ledger_checkin(struct tern_federation *federation, uint64_t id,
                                                   const tern_ErrorFacts *error, uint64_t now);

// What an update that was made of its task says the directive left of the error buffer, 0 to 1.
float tern_ledger_decay(const tern_Update *message);

// What an accepted update says.
TERN_MUST_USE enum tern_result tern_ledger_update(struct tern_federation *federation,
                                                  const struct tern_incoming *update, uint64_t now);

// An update was refused because another body of this client is stored for its round.
TERN_MUST_USE enum tern_result tern_ledger_conflict(struct tern_federation *federation,
                                                    const struct tern_incoming *update,
                                                    uint64_t now);

// Decides what the member is told to do with its error buffer, the first time it gets its task: a
// repeated task says the same. Before the member counts as tasked; whoever does that stores it.
TERN_MUST_USE enum tern_result tern_ledger_assign(struct tern_federation *federation,
                                                  struct tern_member *member);
void tern_ledger_fill(const struct tern_member *member, tern_Task *task);

#endif
