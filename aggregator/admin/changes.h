// Changes the store for an operator: closes the open round, and finds join codes. Called by the command line and the admin
// API. Reentrant.
#ifndef TERN_ADMIN_CHANGES_H
#define TERN_ADMIN_CHANGES_H

#include "admin/rows.h"
#include "federation/federation.h"
#include "views/view.h"

// Reads the join code with this id. TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result tern_code_find(struct tern_db *db, const char *id,
                                              struct tern_db_code *code);

// Ends the open round's time, so that one update suffices to close it. status: the status before the change.
// TERN_ERR_NOT_FOUND  no round is open
TERN_MUST_USE enum tern_result tern_round_end_time(struct tern_db *db, uint64_t now_ms,
                                                   struct tern_status *status);

#endif
