// Rows of the store as JSON, as the command line (--json) and the admin API show them: the names are
// those of store/tables/*.def. Objects are the caller's. Reentrant.
#ifndef TERN_ADMIN_ROWS_H
#define TERN_ADMIN_ROWS_H

#include "store/store.h"
#include <cjson/cJSON.h>

// A federation as its store has it now.
struct tern_status {
    struct tern_db_counts counts;
    struct tern_db_version version; // newest; version UINT32_MAX when none is stored yet
    struct tern_db_round round;     // newest; round 0 when there is none
    uint32_t reported;              // updates of that round so far
};

// Exact 64-bit numbers and hashes, which cJSON's own numbers (doubles) cannot hold. Where key is "",
// nothing is added.
void tern_json_u64(cJSON *object, const char *key, uint64_t value);
void tern_json_hash(cJSON *object, const char *key, const uint8_t hash[TERN_SHA256_SIZE]);
// A float as the shortest decimal that reads back to it: 0.9, not 0.89999997615814209.
void tern_json_float(cJSON *object, const char *key, float value);
void tern_json_text(cJSON *object, const char *key, const char *text);
void tern_json_bool(cJSON *object, const char *key, bool value);

// "open", "committed".
const char *tern_round_state_name(enum tern_db_round_state state);
// "seed", "downloads", "snapshot", "float32": what a replica is kept as.
const char *tern_replica_form_name(enum tern_db_replica_form form);

// What is made of a round's updates is null while it is open.
cJSON *tern_json_round(const struct tern_db_round *row);
cJSON *tern_json_schedule(const struct tern_db_schedule *row);
cJSON *tern_json_replica(const struct tern_db_replica *row);
// With the sentence that explains the finding; the round is null where no update was accepted.
cJSON *tern_json_ledger(const struct tern_db_ledger *row);
// With the text of the code, which only its making knows.
cJSON *tern_json_code(const struct tern_db_code *row, const char *text);

// A client with its rows of the schedule and of the ledger, null where there is none.
TERN_MUST_USE enum tern_result tern_json_client(struct tern_db *db,
                                                const struct tern_db_client *client, cJSON **out);
// Adds these columns of the client's row, up to NULL, by their names in JSON.
void tern_json_client_columns(cJSON *object, const struct tern_db_client *client,
                              const char *const names[]);
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
