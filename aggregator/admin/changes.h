// What an operator changes in the store, by the command line or the admin API. Reentrant.
#ifndef TERN_ADMIN_CHANGES_H
#define TERN_ADMIN_CHANGES_H

#include "admin/rows.h"
#include "federation/federation.h"
#include "views/view.h"

// The code of that id. TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result tern_code_find(struct tern_db *db, const char *id,
                                              struct tern_db_code *code);

// The time of the open round is over, and one update is enough for it. status: as it was before.
// TERN_ERR_NOT_FOUND  no round is open
TERN_MUST_USE enum tern_result tern_round_end_time(struct tern_db *db, uint64_t now_ms,
                                                   struct tern_status *status);

#endif
