// Exports this process's settings: as options for a child that runs a verb, and as JSON for the dashboard. From the
// main thread.
#ifndef TERN_CLI_OWN_SETTINGS_H
#define TERN_CLI_OWN_SETTINGS_H

#include "cli/state.h"
#include "tensor/model.h"

// Returns the options by which another verb of this program finds the same federation, NULL-terminated. The
// caller frees the array; the texts belong to the command line. NULL: out of memory.
const char **tern_own_options(const struct tern_cli *cli);

// Returns an array of one object per setting: section, key, value, default, whether they differ, when a
// change takes effect ("restart", "live" or "init"), and documentation; codec.accuracy has "estimates", too
// (tern_spending_accuracies_json()). The caller frees the array.
cJSON *tern_own_settings_json(struct tern_cli *cli, const struct tern_model *model);

#endif
