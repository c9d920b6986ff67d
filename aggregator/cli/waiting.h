// What `status` says of why nothing happens: by the store and the settings (admin/waiting.h), and whether a
// service runs.
#ifndef TERN_CLI_WAITING_H
#define TERN_CLI_WAITING_H

#include "admin/waiting.h"
#include "cli/state.h"

// TERN_ERR_IO and the like: tern_db_error() says it
TERN_MUST_USE enum tern_result tern_cli_waiting_load(const struct tern_cli *cli, struct tern_db *db,
                                                     const struct tern_status *status,
                                                     uint64_t now_ms, struct tern_waiting *waiting);

void tern_cli_waiting_print(const struct tern_waiting *waiting, uint64_t now_ms);
void tern_cli_waiting_json(cJSON *object, const struct tern_waiting *waiting);

#endif
