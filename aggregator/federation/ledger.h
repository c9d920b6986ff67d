// The error ledger stores clients' reports of their error buffers, anomalies in these reports (rounds/error_watch.h),
// and the directive for each client's buffer (rounds/error_policy.h). task.c and update.c call these functions on the
// thread that owns the store, inside its transaction. A result other than TERN_OK means that the store failed.
#ifndef TERN_FEDERATION_LEDGER_H
#define TERN_FEDERATION_LEDGER_H

#include "federation/clients.h"

// Sets *row to the client's row; an empty row for a new client.
TERN_MUST_USE enum tern_result tern_ledger_read(struct tern_federation *federation, uint64_t id,
                                                struct tern_db_ledger *row);

// Processes the error buffer that a check-in reports. Only a check-in reports an update that came too late, or a change
// that a byte budget held back. Most check-ins repeat the stored report and write nothing.
TERN_MUST_USE enum tern_result tern_ledger_record_checkin(struct tern_federation *federation,
                                                          uint64_t id, const tern_ErrorFacts *error,
                                                          uint64_t now);

// Returns the fraction of the error buffer that the directive left, 0 to 1, as the update reports it.
static inline float tern_ledger_kept_fraction(const tern_Update *message)
{
    return message->has_decay ? message->decay : 1.0F;
}

// Processes the error buffer that an accepted update reports.
TERN_MUST_USE enum tern_result tern_ledger_record_update(struct tern_federation *federation,
                                                         const struct tern_incoming_update *update,
                                                         uint64_t now);

// Records an update that was refused because a different update of this client is stored for its round.
TERN_MUST_USE enum tern_result
tern_ledger_record_conflict(struct tern_federation *federation,
                            const struct tern_incoming_update *update, uint64_t now);

// Sets the member's directive for its error buffer when the member first gets its task; a repeated task has the same
// directive. Runs before the member counts as tasked. The caller stores the member.
TERN_MUST_USE enum tern_result
tern_ledger_choose_directive(struct tern_federation *federation,
                             const struct tern_error_settings *settings,
                             struct tern_member *member);

#endif
