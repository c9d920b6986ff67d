// Reasons why a federation makes no progress, for `status` and `doctor`: whether a service runs and can store what
// arrives, which clients take tasks and report none, and which clients' tables have other columns than most. Uses the
// store, the settings, and the operators' listener of a running service. From the main thread.
#ifndef TERN_CLI_WAITING_H
#define TERN_CLI_WAITING_H

#include "admin/rows.h"
#include "admin/waiting.h"
#include "cli/settings.h"
#include "cli/state.h"
#include <cjson/cJSON.h>

// State of the service whose operators' listener the settings name.
enum tern_readiness {
    TERN_READINESS_UNKNOWN, // nothing listens there, or another program does
    TERN_READINESS_GOOD,
    TERN_READINESS_BAD,
    TERN_READINESS_SILENT, // a listener that does not answer within TERN_READINESS_PATIENCE_S
};

#define TERN_READINESS_PATIENCE_S 3

// Asks the service for its readiness. why: the service's reason where the result is BAD, else "".
enum tern_readiness tern_readiness_ask(const struct tern_aggregator_settings *settings,
                                       char why[256]);

// Returns what to do about a reason that tern_readiness_ask() gave.
const char *tern_readiness_advice(const char *why);

#define TERN_OTHER_COLUMNS_ADVICE                                                                  \
    "give all tables the same columns in the same order; such a client also logs other-columns"

#define TERN_OTHER_COLUMNS_NAMED 5

struct tern_other_columns {
    struct tern_db_column_names names;
    struct {
        uint64_t id;
        char name[TERN_DB_NAME_MAX];
    } clients[TERN_OTHER_COLUMNS_NAMED]; // the first clients with other columns
    uint32_t named;
};

// Returns errors of the store; tern_db_error() has the reason.
TERN_MUST_USE enum tern_result tern_other_columns_load(struct tern_db *db,
                                                       struct tern_other_columns *columns);

// Writes one sentence without a full stop; false where no client has other columns.
#define TERN_OTHER_COLUMNS_TEXT (TERN_OTHER_COLUMNS_NAMED * (TERN_TEXT + 24) + 256)
bool tern_other_columns_describe(const struct tern_other_columns *columns,
                                 char text[TERN_OTHER_COLUMNS_TEXT]);

// Returns errors of the store; tern_db_error() has the reason.
TERN_MUST_USE enum tern_result tern_cli_waiting_load(const struct tern_cli *cli, struct tern_db *db,
                                                     const struct tern_status *status,
                                                     uint64_t now_ms, struct tern_waiting *waiting);

#endif
