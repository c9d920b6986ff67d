// A federation's status and the results of actions as JSON, for the command line (--json) and the admin API. Lists are
// views (views/view.h). Objects are the caller's. Reentrant.
#ifndef TERN_ADMIN_ROWS_H
#define TERN_ADMIN_ROWS_H

#include "store/store.h"
#include "views/texts.h"
#include <cjson/cJSON.h>

// A federation as its store has it now.
struct tern_status {
    struct tern_db_counts counts;
    struct tern_db_version version; // newest; version UINT32_MAX when none is stored yet
    struct tern_db_round round;     // newest; round 0 when there is none
    uint32_t reported;              // updates of that round so far
};

// A join code that was just made, with its text, which is not kept.
cJSON *tern_json_code(const struct tern_db_code *row, const char *text);
// What came of revoking it; `client` is the row from before.
cJSON *tern_json_revoked(const struct tern_db_client *client);

TERN_MUST_USE enum tern_result tern_status_load(struct tern_db *db, uint64_t now_ms,
                                                struct tern_status *status);
// Of a gateway: leaves out the client that stands for the aggregator above, which nobody has enrolled.
void tern_status_leave_out_follower(struct tern_status *status);
bool tern_status_is_open(const struct tern_status *status); // its round
// Adds all of it: the version where there is one, "open_round" where the round is open.
void tern_json_status(cJSON *object, const struct tern_status *status);

// Adds all numbers.
void tern_json_replica_totals(cJSON *object, const struct tern_db_replica_totals *totals);

#endif
