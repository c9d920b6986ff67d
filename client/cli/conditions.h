// The conditions that the settings ask for, for the verbs that work and the one that shows them.
#ifndef TERN_CLIENT_CLI_CONDITIONS_H
#define TERN_CLIENT_CLI_CONDITIONS_H

#include "cli/client_settings.h"
#include "posix/conditions.h"

#define CONDITIONS_WHY_MAX 384

// Fills *conditions, which the settings' root is borrowed by. TERN_ERR_CONFIG: why names the
// setting and what is wrong with it.
TERN_MUST_USE enum tern_result
tern_conditions_from_settings(const struct tern_client_settings *settings,
                              struct tern_posix_conditions *conditions,
                              char why[CONDITIONS_WHY_MAX]);

#endif
