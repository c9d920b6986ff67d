// This process's settings for others: as options of a child that runs a verb, and as JSON for the dashboard. From the
// main thread.
#ifndef TERN_CLI_OWN_SETTINGS_H
#define TERN_CLI_OWN_SETTINGS_H

#include "cli/state.h"

// The options by which another verb of this program finds the same federation, NULL-terminated; malloc'ed, the
// caller's; its texts are those of the command line. NULL: there is no memory.
const char **tern_own_options(const struct tern_cli *cli);

// An object for each setting: section, key, value, default, whether they differ, when a change takes effect
// ("restart", "live" or "init"), and its documentation. The caller's.
cJSON *tern_own_settings_json(const struct tern_aggregator_settings *settings);

#endif
