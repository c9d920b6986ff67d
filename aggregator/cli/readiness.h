// Whether a running service can store what comes, as its operators' listener says. From the main thread.
#ifndef TERN_CLI_READINESS_H
#define TERN_CLI_READINESS_H

#include "cli/settings.h"

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

// What to do where it is bad for that reason.
const char *tern_readiness_advice(const char *why);

#endif
