// Why nothing happens in a federation, or whom its open round waits for: what `status` says of the
// store, the settings, and whether a service runs.
#ifndef TERN_CLI_WAITING_H
#define TERN_CLI_WAITING_H

#include "admin/rows.h"
#include "cli/state.h"

#define TERN_WAITING_SHOWN 5

struct tern_waiting {
    char sentence[400];
    char advice[384]; // what to do about it
    bool needs_help;  // it does not end by itself
    // Of the open round's members without an update, those that were seen longest ago.
    struct tern_db_client members[TERN_WAITING_SHOWN];
    uint32_t shown;
    uint32_t missing; // all of them
};

// TERN_ERR_IO and the like: tern_db_error() says it
TERN_MUST_USE enum tern_result tern_waiting_load(const struct tern_cli *cli, struct tern_db *db,
                                                 const struct tern_status *status, uint64_t now_ms,
                                                 struct tern_waiting *waiting);

void tern_waiting_print(const struct tern_waiting *waiting, uint64_t now_ms);
void tern_waiting_json(cJSON *object, const struct tern_waiting *waiting);

#endif
