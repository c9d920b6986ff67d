// A federation's status and the results of operators' actions as JSON, and changes to the store that need no running
// service. For the command line and the admin API. The caller owns returned objects. Reentrant.
#ifndef TERN_ADMIN_ROWS_H
#define TERN_ADMIN_ROWS_H

#include "store/store.h"
#include "views/texts.h"
#include <cjson/cJSON.h>

// The state of a federation in the store.
struct tern_status {
    struct tern_db_counts counts;
    // Newest version; its number is UINT32_MAX if no version is stored yet.
    struct tern_db_version version;
    struct tern_db_round round;     // newest round; its number is 0 if there is no round
    uint32_t reported;              // updates of the newest round so far
    struct tern_db_round committed; // the last committed round; its number is 0: none
    struct tern_db_order order;     // operator's order that waits; its strategy is "": none
};

// Writes what an order makes the next version, e.g. "ordered: weights of version 2". Returns text.
#define TERN_ORDER_TEXT (TERN_DB_PARAMETERS_MAX + 40)
const char *tern_order_text(const struct tern_db_order *order, char text[TERN_ORDER_TEXT]);
// Adds the members of an order.
void tern_json_order(cJSON *object, const struct tern_db_order *order);

// Describes a new join code. text: the code itself, which is not stored.
cJSON *tern_json_code(const struct tern_db_code *row, const char *text);
// Describes a revocation. client: the client's row before the revocation.
cJSON *tern_json_revoked(const struct tern_db_client *client);

TERN_MUST_USE enum tern_result tern_status_load(struct tern_db *db, uint64_t now_ms,
                                                struct tern_status *status);
// Subtracts the client that stands for a gateway's upstream aggregator from the counts, since this client is no device.
void tern_status_leave_out_follower(struct tern_status *status);
// Whether the newest round is open.
bool tern_status_is_open(const struct tern_status *status);
// Adds the members of a status: the version if there is one, the mode of the newest round, "last_round" if one is committed, "open_round" if one is
// open, "order" if one waits, and all counts.
void tern_json_status(cJSON *object, const struct tern_status *status);

// Adds a member for each total.
void tern_json_replica_totals(cJSON *object, const struct tern_db_replica_totals *totals);

// Reads the join code with this id. TERN_ERR_NOT_FOUND
TERN_MUST_USE enum tern_result tern_code_find(struct tern_db *db, const char *id,
                                              struct tern_db_code *code);

// Writes a new join code, a cancelled one and a revoked client to the audit log. code, client: the row before the change; a client
// that was revoked before gets no row.
TERN_MUST_USE enum tern_result tern_audit_code(struct tern_db *db, uint64_t now_ms,
                                               const char *action, const struct tern_db_code *code);
TERN_MUST_USE enum tern_result tern_audit_cancelled(struct tern_db *db, uint64_t now_ms,
                                                    const char *action,
                                                    const struct tern_db_code *code);
TERN_MUST_USE enum tern_result tern_audit_revoked(struct tern_db *db, uint64_t now_ms,
                                                  const char *action,
                                                  const struct tern_db_client *client);

// Ends the open round's deadline, so that one update is enough to close it, and adds a row to the audit log. status: the status before the change.
// TERN_ERR_NOT_FOUND  no round is open
TERN_MUST_USE enum tern_result tern_round_end_time(struct tern_db *db, uint64_t now_ms,
                                                   const char *action, struct tern_status *status);

#endif
