// Reads client.when and budget.metered into the conditions port. Called by session.c, verb_check.c and
// verb_conditions.c.
#ifndef TERN_CLIENT_VERB_CONDITIONS_H
#define TERN_CLIENT_VERB_CONDITIONS_H

#include "cli/client_settings.h"
#include "posix/conditions.h"

#define CONDITIONS_WHY_MAX 384

// Fills *conditions, which borrows the settings' root. TERN_ERR_CONFIG: why names the setting and its error.
TERN_MUST_USE enum tern_result
tern_conditions_from_settings(const struct tern_client_settings *settings,
                              struct tern_posix_conditions *conditions,
                              char why[CONDITIONS_WHY_MAX]);

#endif
