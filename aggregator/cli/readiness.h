// What a running service says by its operators' listener: whether it can store what comes, and what it waits
// for. From the main thread.
#ifndef TERN_CLI_READINESS_H
#define TERN_CLI_READINESS_H

#include "cli/settings.h"
#include <cjson/cJSON.h>

enum tern_readiness {
    TERN_READINESS_UNKNOWN, // nobody answers for it: another program listens there, or none
    TERN_READINESS_GOOD,
    TERN_READINESS_BAD,
    TERN_READINESS_SILENT, // somebody listens, and does not answer for TERN_READINESS_PATIENCE_S
};

#define TERN_READINESS_PATIENCE_S 3

// why: the service's own words where it is bad, else "".
enum tern_readiness tern_readiness_ask(const struct tern_aggregator_settings *settings,
                                       char why[256]);

// What /api/v1/waiting answers for that token, the caller's to delete; NULL: nothing, as where the listener is
// another federation's.
cJSON *tern_readiness_waiting(const struct tern_aggregator_settings *settings, const char *token);

// What to do where it is bad for that reason.
const char *tern_readiness_advice(const char *why);

#endif
